//! `seckill`: the console, with the engine inside.

use std::io::IsTerminal as _;

use super::{Color, Fault, context::Context, output::Output};
use crate::{
    config::Config,
    console::{self, ColorChoice, ConsoleError, Options},
};

pub(super) async fn run(config: &Config, out: Output, color: Color) -> Result<u8, Fault> {
    if out.json {
        return Err(Fault::usage("the console has no JSON; use 'seckill status --json'"));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(ConsoleError::NotATerminal.into());
    }
    let mut context = Context::open_answering(config).await?;
    let node = context.start_node()?;
    let options = Options { color: color.into(), ..Options::default() };
    let shown = console::run(node.remote(), options).await;
    node.stop().await;
    context.close().await;
    shown?;
    Ok(0)
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}
