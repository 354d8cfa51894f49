//! `seckill work`: a node without a console.

use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Fault, context::Context, fault, output::Output};
use crate::config::Config;

#[derive(Serialize)]
struct Stopped {
    node: String,
    finished: bool,
}

pub(super) async fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    if config.read_only {
        return Err(Fault::usage("a worker changes things; start it without --read-only"));
    }
    let mut end = EndOfLife::listen()?;
    let mut context = Context::open_answering(config).await?;
    let node = context.start_node()?;
    let name = node.operator().node.clone();
    out.say(&format!(
        "{name} works on redis at {} and {}. Ctrl-C or SIGTERM ends it.",
        context.redis.place(),
        context.store.describe()
    ));
    end.come().await;
    let finished = node.stop().await;
    context.close().await;
    out.answer(&Stopped { node: name.clone(), finished }, || {
        if finished {
            format!("{name} has stopped; the batch in its hands was finished.")
        } else {
            format!(
                "{name} has stopped; a batch was not finished and stays pending for the next start."
            )
        }
    })?;
    Ok(if finished { 0 } else { fault::NO })
}

/// The signals that end a program, heard from the moment this is made: one that comes while servers
/// are still being opened must not leave them half open.
pub(super) struct EndOfLife([Signal; 4]);

impl EndOfLife {
    pub(super) fn listen() -> Result<Self, Fault> {
        let hear = |kind| {
            signal(kind).map_err(|error| Fault::no(format!("signals can't be heard ({error})")))
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
