//! `seckill`: the console, with the engine inside.

use std::io::IsTerminal as _;

use super::{Color, Fault, context::Context, output::Output};
use crate::{
    config::Config,
    console::{self, ColorChoice, ConsoleError, Options},
    engine::EngineError,
};

pub(super) async fn run(config: &Config, out: Output, color: Color) -> Result<u8, Fault> {
    if out.json {
        return Err(Fault::usage("the console has no JSON; use 'seckill status --json'"));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(ConsoleError::NotATerminal.into());
    }
    let mut context = Context::open_to_work(config).await?;
    let node = match context.start_node().await {
        Ok(node) => node,
        Err(fault) => {
            context.close().await;
            return Err(fault);
        }
    };
    let options = Options { color: color.into(), ..Options::default() };
    let (name, replaced) = (node.operator().node.clone(), node.stopping().clone());
    let shown = tokio::select! {
        shown = console::run(node.remote(), options) => shown,
        // Another process goes by this node's name: an engine that has stopped is nothing to look at.
        () = replaced.cancelled() => Ok(()),
    };
    let replaced = replaced.is_cancelled();
    node.stop().await;
    context.close().await;
    shown?;
    if replaced { Err(EngineError::NameTaken(name).into()) } else { Ok(0) }
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
