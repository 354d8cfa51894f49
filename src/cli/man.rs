//! `seckill man`: man pages of the program and of each command.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use serde_json::json;

use crate::{Cli, CliError, Output, Result};

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Output directory; created if missing
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(out: Output, args: &ManArgs) -> Result<u8> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let written = fs::create_dir_all(&args.dir).and_then(|()| write(&program, &args.dir));
    written.map_err(|error| CliError::not_written(&args.dir, &error))?;
    if out.json { out.answer(&json!({ "dir": args.dir }), String::new) } else { Ok(0) }
}

/// Unlike `clap_mangen::generate_to`, the footer names program and version.
fn write(command: &Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write(below, dir)?;
    }
    let source = concat!("seckill ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).generate_to(dir).map(drop)
}
