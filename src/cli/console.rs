//! `seckill`: the console, with the engine inside.

use seckill_console::Options;
use seckill_engine::EngineError;
use seckill_model::Label;

use crate::{CliError, Config, Context, Needs, Output, Result, display_args::DisplayArgs};

pub(super) async fn run(config: &Config, out: Output, display: &DisplayArgs) -> Result<u8> {
    if out.json {
        return Err(CliError::usage(Label("cli-console-json")));
    }
    display.localized(|| Ok(seckill_console::check_terminal()?))?;
    let options = display.options(config)?;
    Context::with(config, out, Needs::Node, async |context| show(context, options).await).await
}

async fn show(context: &mut Context, options: Options) -> Result<u8> {
    let node = context.start_node().await?;
    let (name, replaced) = (node.operator().node.clone(), node.stopping().clone());
    let shown = tokio::select! {
        shown = seckill_console::run(node.remote(), options) => shown,
        // Another process has taken this node's name, and its engine has stopped.
        () = replaced.cancelled() => Ok(()),
    };
    let is_replaced = replaced.is_cancelled();
    node.stop().await;
    shown?;
    if is_replaced { Err(EngineError::NameTaken(name).into()) } else { Ok(0) }
}
