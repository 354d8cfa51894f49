//! `seckill keys`: the actions and their current keys.

use seckill_console::ConsoleError;

use super::{
    Fault,
    output::{Output, table},
};
use crate::config::Config;

pub(super) fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    let lines = config.keys.lines().map_err(ConsoleError::from)?;
    out.answer(&lines, || {
        let rows: Vec<Vec<String>> = lines
            .iter()
            .map(|line| vec![line.action.clone(), line.keys.join(" "), line.does.to_owned()])
            .collect();
        let list = table(&["action", "keys", "does"], &[], &rows);
        format!(
            "{}\n\nReassign keys with [keys] in the config file: mark = [\"space\", \"v\"]",
            list.trim_end()
        )
    })?;
    Ok(0)
}
