//! `seckill work`: a node without a console.

use seckill_engine::{EngineError, node::Node};
use seckill_model::{Label, text};
use serde::Serialize;

use crate::{CliError, Config, Context, Needs, Output, Result, signals::Signals};

/// How a node without a console ended.
#[derive(Serialize)]
pub(super) struct Ended {
    node: String,
    finished: bool,
    handed_over: u64,
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8> {
    check(config)?;
    let mut signals = Signals::listen()?;
    let work = async |context: &mut Context| work(context, &mut signals).await;
    let ended = Context::with(config, out, Needs::Node, work).await?;
    ended.report(out)
}

/// Rejects a mode in which a node can do nothing.
pub(super) fn check(config: &Config) -> Result<()> {
    if config.read_only {
        return Err(CliError::usage(Label("cli-work-read-only")));
    }
    Ok(())
}

async fn work(context: &mut Context, signals: &mut Signals) -> Result<Ended> {
    let node = context.start_node().await?;
    let name = node.operator().node.clone();
    let (redis, database) = (context.redis.address(), context.store.describe());
    context.out.say(&text!("cli-work-started", node = name, redis, database));
    let ended = until_stopped(context, &node, signals).await;
    Ended::of(node, ended).await
}

/// Waits until a signal arrives, the name of the node is taken, or its files are gone.
pub(super) async fn until_stopped(
    context: &Context,
    node: &Node,
    signals: &mut Signals,
) -> Result<()> {
    tokio::select! {
        () = signals.received() => Ok(()),
        () = node.stopping().cancelled() => {
            Err(EngineError::NameTaken(node.operator().node.clone()).into())
        }
        error = context.files_lost() => Err(error),
    }
}

impl Ended {
    /// Stops a node whose work has ended.
    pub(super) async fn of(node: Node, ended: Result<()>) -> Result<Self> {
        let name = node.operator().node.clone();
        let stopped = node.stop().await;
        ended?;
        Ok(Self { node: name, finished: stopped.finished(), handed_over: stopped.handed_over })
    }

    pub(super) fn report(&self, out: Output) -> Result<u8> {
        out.verdict(self.finished, self, || {
            let Self { node, finished, handed_over } = self;
            match (finished, handed_over) {
                (true, 0) => text!("cli-work-stopped", node),
                (true, entries) => text!("cli-work-handed-over", node, entries),
                (false, _) => text!("cli-work-unfinished", node),
            }
        })
    }
}
