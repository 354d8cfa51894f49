//! The task of a node that writes the chronicle. It must not know what makes a line; lines go into the [`Outbox`],
//! which keeps them while the database is away.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Chronicle, NEAR_MS};
use crate::{
    engine::{outbox::Outbox, told::Told},
    store::SharedStore,
    telemetry::Snapshot,
};

/// Bound on the last words of a node.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Follows the pictures until `stop`, and writes what they tell.
pub(in crate::engine) async fn follow(
    node: String,
    mut pictures: watch::Receiver<Arc<Snapshot>>,
    outbox: Outbox,
    store: SharedStore,
    stop: CancellationToken,
) {
    let mut chronicle = Chronicle::new(&node);
    let version = concat!("seckill ", env!("CARGO_PKG_VERSION")).to_owned();
    outbox.put(chronicle.own("node started", &Told::Words(version)));
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            changed = pictures.changed() => if changed.is_err() { break },
        }
        let picture = Arc::clone(&pictures.borrow_and_update());
        if picture.seq == 0 {
            continue;
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
    for line in chronicle.close() {
        outbox.put_event(line, NEAR_MS);
    }
    outbox.put(chronicle.own("node stopped", &Told::InOrder));
    let written = tokio::time::timeout(LAST_WORDS, outbox.write(&store)).await;
    if written != Ok(true) {
        for act in outbox.waiting() {
            tracing::error!(?act, "the node stops and the audit log lacks this line");
        }
    }
}
