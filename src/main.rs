//! Entry point: parses the command line, starts the runtime and runs one command.
//!
//! The crates of the workspace are next to this file, in the order in which an order passes them: `model` defines the
//! types, `redis` and `store` talk to Redis and SQL, `engine` moves orders from one to the other and takes the
//! snapshots that `console` draws, `bench` measures, `cli` ties them together.

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;
use seckill_cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return fail(
                &format!("the runtime could not start ({error}); check the limits of this user"),
                3,
            );
        }
    };
    let result = runtime.block_on(cli.run());
    // Tasks that still run have had their time limit; the exit does not wait for them.
    runtime.shutdown_background();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error.message(), error.code),
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "seckill: {message}");
    ExitCode::from(code)
}
