//! The task of a node that writes the event log. The rules decide what is recorded; lines go into the outbox, which
//! keeps them while the database is unreachable.

use std::{sync::Arc, time::Duration};

use seckill_model::{Millis, reason::reason};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{EventLog, NEAR_MS};
use crate::{
    commands::command_handler::Operator, deployment::Deployment, event::Event, telemetry::Snapshot,
};

/// Timeout for the last write of a node.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Passes snapshots to the event log until `stop`, and writes its lines.
pub(crate) async fn follow(
    operator: Operator,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    stop: CancellationToken,
) {
    let Operator { deployment: Deployment { store, settings, .. }, node, outbox, .. } = operator;
    let mut log = EventLog::new(&node, settings.node_dead_ms);
    // The first snapshot shows how far the clock of Redis, by which all events are dated, is ahead of this host's.
    let (begun, mut ahead) = (Millis::now(), None);
    while let Some(Ok(())) = stop.run_until_cancelled(snapshots.changed()).await {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        if snapshot.seq == 0 {
            continue;
        }
        if ahead.replace(snapshot.clock_ahead_ms).is_none() {
            outbox.put(log.own(begun.plus(snapshot.clock_ahead_ms), "node started", &version()));
        }
        for line in log.observe(&snapshot) {
            outbox.put_event(line, NEAR_MS);
        }
        if snapshot.sql.takes_writes() {
            stop.run_until_cancelled(outbox.write(&store)).await;
        }
    }
    if ahead.is_none() {
        outbox.put(log.own(begun, "node started", &version()));
    }
    for line in log.close() {
        outbox.put_event(line, NEAR_MS);
    }
    let now = Millis::now().plus(ahead.unwrap_or(0));
    outbox.put(log.own(now, "node stopped", &Event::Other(reason!("event-stopped"))));
    let written = tokio::time::timeout(LAST_WRITE, outbox.write(&store)).await;
    if written != Ok(true) {
        for entry in outbox.waiting() {
            tracing::error!(?entry, "the node stops without this line in the audit log");
        }
    }
}

fn version() -> Event {
    Event::Other(concat!("seckill ", env!("CARGO_PKG_VERSION")).into())
}
