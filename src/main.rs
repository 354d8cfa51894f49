//! Parse the command line, start the runtime, call one command.
//!
//! The members of the workspace lie beside this file. Read them along the path of an order: `model` says what things
//! are, `redis` and `store` speak to Redis and SQL, `engine` moves an order from one to the other and takes the snapshots
//! that `console` draws, `bench` measures, and `cli` ties them together.

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
    // Whatever still runs by now has no claim on the exit: its work was given a bound before.
    runtime.shutdown_background();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fault) => fail(&fault.told(), fault.code),
    }
}

fn fail(sentence: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "seckill: {sentence}");
    ExitCode::from(code)
}
