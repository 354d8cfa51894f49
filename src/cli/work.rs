//! `seckill work`: a node without a console.

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

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
    let mut context = Context::open_answering(config).await?;
    let node = context.start_node()?;
    let name = node.operator().node.clone();
    out.say(&format!(
        "{name} works on redis at {} and {}. Ctrl-C or SIGTERM ends it.",
        context.redis.place(),
        context.store.describe()
    ));
    end_of_life().await?;
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
    });
    Ok(if finished { 0 } else { fault::NO })
}

/// Waits for a signal that ends a program.
pub(super) async fn end_of_life() -> Result<(), Fault> {
    let listen =
        |kind| signal(kind).map_err(|error| Fault::no(format!("signals can't be heard ({error})")));
    let mut term = listen(SignalKind::terminate())?;
    let mut int = listen(SignalKind::interrupt())?;
    let mut hup = listen(SignalKind::hangup())?;
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        _ = hup.recv() => {}
    }
    Ok(())
}
