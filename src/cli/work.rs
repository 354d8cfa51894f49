//! `seckill work`: a node without a console.

use seckill_engine::EngineError;
use seckill_model::{Label, text};
use serde::Serialize;

use crate::{CliError, Config, Context, Needs, Output, Result, signals::Signals};

#[derive(Serialize)]
struct Ended {
    node: String,
    finished: bool,
    handed_over: u64,
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8> {
    if config.read_only {
        return Err(CliError::failed(Label("cli-work-read-only")));
    }
    let mut signals = Signals::listen()?;
    let work = async |context: &mut Context| work(context, &mut signals).await;
    let ended = Context::with(config, out, Needs::Node, work).await?;
    out.verdict(ended.finished, &ended, || {
        let Ended { node, finished, handed_over } = &ended;
        match (finished, handed_over) {
            (true, 0) => text!("cli-work-stopped", node),
            (true, entries) => text!("cli-work-handed-over", node, entries),
            (false, _) => text!("cli-work-unfinished", node),
        }
    })
}

/// Runs a node until a signal arrives, its name is taken, or its files are gone.
async fn work(context: &mut Context, signals: &mut Signals) -> Result<Ended> {
    let node = context.start_node().await?;
    let name = node.operator().node.clone();
    let (redis, database) = (context.redis.address(), context.store.describe());
    context.out.say(&text!("cli-work-started", node = name, redis, database));
    let replaced = node.stopping().clone();
    let ended = tokio::select! {
        () = signals.received() => Ok(()),
        () = replaced.cancelled() => Err(EngineError::NameTaken(name.clone()).into()),
        error = context.files_lost() => Err(error),
    };
    let stopped = node.stop().await;
    ended?;
    Ok(Ended { node: name, finished: stopped.finished(), handed_over: stopped.handed_over })
}
