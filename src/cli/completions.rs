//! `seckill completions`: shell completion scripts.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::{Cli, Result, output::print};

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Shell to generate the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "seckill", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}
