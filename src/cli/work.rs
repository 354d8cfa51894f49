//! `seckill work`: a node without a console.

use seckill_engine::EngineError;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Fault,
    context::Context,
    fault,
    output::{Output, counted},
};
use crate::config::Config;

#[derive(Serialize)]
struct Ended {
    node: String,
    finished: bool,
    handed_over: u64,
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    if config.read_only {
        return Err(Fault::usage("a worker changes data; start it without --read-only"));
    }
    let mut end = EndOfLife::listen()?;
    let mut context = Context::open_to_work(config).await?;
    let node = match context.start_node().await {
        Ok(node) => node,
        Err(fault) => {
            context.close().await;
            return Err(fault);
        }
    };
    let name = node.operator().node.clone();
    out.say(&format!(
        "{name} works on redis at {} and {}. Stop it with Ctrl-C or SIGTERM.",
        context.redis.place(),
        context.store.describe()
    ));
    let (replaced, place) = (node.stopping().clone(), context.place());
    let ended = tokio::select! {
        () = end.come() => Ok(()),
        () = replaced.cancelled() => Err(EngineError::NameTaken(name.clone()).into()),
        fault = place.lost() => Err(fault),
    };
    let stopped = node.stop().await;
    context.close().await;
    ended?;
    let finished = stopped.finished();
    let ended = Ended { node: name.clone(), finished, handed_over: stopped.handed_over };
    out.answer(&ended, || match (stopped.in_time, stopped.handed_over) {
        (true, 0) => format!("{name} has stopped; its last batch is finished."),
        (true, entries) => format!(
            "{name} has stopped; {} handed over to the other nodes.",
            counted(entries, "entry was not finished and is", "entries were not finished and are")
        ),
        (false, _) => format!(
            "{name} has stopped; a batch was not finished and stays pending for the next start."
        ),
    })?;
    Ok(if finished { 0 } else { fault::NO })
}

/// Termination signals, handled from construction on: a signal during startup must not leave servers half open.
pub(super) struct EndOfLife([Signal; 4]);

impl EndOfLife {
    pub(super) fn listen() -> Result<Self, Fault> {
        let hear = |kind| {
            signal(kind)
                .map_err(|error| Fault::no(format!("cannot install the signal handlers ({error})")))
        };
        Ok(Self([
            hear(SignalKind::terminate())?,
            hear(SignalKind::interrupt())?,
            hear(SignalKind::hangup())?,
            hear(SignalKind::quit())?,
        ]))
    }

    pub(super) async fn come(&mut self) {
        let [term, int, hup, quit] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
