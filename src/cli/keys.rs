//! `seckill keys`: the actions and their current keys.

use seckill_console::ConsoleError;
use seckill_model::Label;

use crate::{Config, Output, Result, Table};

pub(super) fn run(config: &Config, out: Output) -> Result<u8> {
    let lines = config.keys.lines().map_err(ConsoleError::from)?;
    out.answer(&lines, || {
        let table = Table::new(&lines)
            .left(&Label("column-action"), |line| line.action.clone())
            .left(&Label("column-keys"), |line| line.keys.join(" "))
            .left(&Label("column-does"), |line| line.does);
        format!("{table}\n{}", Label("cli-keys-hint"))
    })
}
