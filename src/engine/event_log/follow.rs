//! The task of a node that writes the chronicle. It must not know what makes a line; lines go into the [`Outbox`],
//! which keeps them while the database is away.

use std::{sync::Arc, time::Duration};

use seckill_model::Millis;
use seckill_store::SharedStore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Chronicle, NEAR_MS};
use crate::telemetry::Snapshot;
use crate::{event::Event, outbox::Outbox};

/// Bound on the last words of a node.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Follows the pictures until `stop`, and writes what they tell.
pub(crate) async fn follow(
    node: String,
    dead_ms: u64,
    mut pictures: watch::Receiver<Arc<Snapshot>>,
    outbox: Outbox,
    store: SharedStore,
    stop: CancellationToken,
) {
    let mut chronicle = Chronicle::new(&node, dead_ms);
    // The first snapshot says how far the clock of Redis, by which all events are dated, is ahead of this host's.
    let (begun, mut ahead) = (Millis::now(), None);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            changed = pictures.changed() => if changed.is_err() { break },
        }
        let picture = Arc::clone(&pictures.borrow_and_update());
        if picture.seq == 0 {
            continue;
        }
        if ahead.replace(picture.clock_ahead_ms).is_none() {
            outbox.put(chronicle.own(
                begun.plus(picture.clock_ahead_ms),
                "node started",
                &version(),
            ));
        }
        for line in chronicle.see(&picture) {
            outbox.put_event(line, NEAR_MS);
        }
        if picture.sql.takes_writes() {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = outbox.write(&store) => {}
            }
        }
    }
    if ahead.is_none() {
        outbox.put(chronicle.own(begun, "node started", &version()));
    }
    for line in chronicle.close() {
        outbox.put_event(line, NEAR_MS);
    }
    let now = Millis::now().plus(ahead.unwrap_or(0));
    outbox.put(chronicle.own(now, "node stopped", &Event::Stopped));
    let written = tokio::time::timeout(LAST_WORDS, outbox.write(&store)).await;
    if written != Ok(true) {
        for act in outbox.waiting() {
            tracing::error!(?act, "the node stops and the audit log lacks this line");
        }
    }
}

fn version() -> Event {
    Event::Words(concat!("seckill ", env!("CARGO_PKG_VERSION")).to_owned())
}
