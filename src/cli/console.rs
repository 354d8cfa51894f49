//! `seckill`: the console, with the engine inside.

use seckill_engine::EngineError;
use seckill_model::message::Label;

use super::{Fault, context::Context, display_args::DisplayArgs, output::Output};
use crate::config::Config;

pub(super) async fn run(config: &Config, out: Output, display: &DisplayArgs) -> Result<u8, Fault> {
    if out.json {
        return Err(Fault::usage(Label("cli-the-console-has-no-json-use")));
    }
    display.localized(|| Ok(seckill_console::check_terminal()?))?;
    let options = display.options(config)?;
    let mut context = Context::open_to_work(config).await?;
    let node = match context.start_node().await {
        Ok(node) => node,
        Err(fault) => {
            context.close().await;
            return Err(fault);
        }
    };
    let (name, replaced) = (node.operator().node.clone(), node.stopping().clone());
    let shown = tokio::select! {
        shown = seckill_console::run(node.remote(), options) => shown,
        // Another process has taken this node's name, and its engine has stopped.
        () = replaced.cancelled() => Ok(()),
    };
    let replaced = replaced.is_cancelled();
    node.stop().await;
    context.close().await;
    shown?;
    if replaced { Err(EngineError::NameTaken(name).into()) } else { Ok(0) }
}
