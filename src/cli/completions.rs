//! `seckill completions`: shell completion scripts.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::{Cli, Output, Result, output::print};

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Shell to generate the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(out: Output, args: CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "seckill", &mut script);
    let script = String::from_utf8_lossy(&script);
    if out.json {
        return out
            .answer(&json!({ "shell": args.shell.to_string(), "script": script }), String::new);
    }
    // Not through `answer`, which is for texts with untrusted parts.
    print(script.trim_end())?;
    Ok(0)
}
