//! Reads the displayed page of the pending list; verdicts are added elsewhere.

use seckill_model::{EntryId, Message, Millis, OrderError};
use seckill_redis::{
    nodes::NodeState,
    stream::{Body, Pending, pending_of_all},
};

use super::{Collector, READ_TIMEOUT};
use crate::telemetry::{
    Snapshot,
    snapshot::{PendingLine, PendingPage},
};

/// Entries per page.
const PAGE: usize = 500;

impl Collector {
    /// Reads the entries from `from` on, with a round trip per partition; `None` if that fails.
    pub async fn pending(&mut self, from: EntryId) -> Option<Vec<Pending>> {
        if !self.redis.up {
            return None;
        }
        let reading = pending_of_all(&mut self.conn, &self.keys, from, EntryId::MAX, PAGE);
        let read = tokio::time::timeout(READ_TIMEOUT, reading).await;
        self.read_in_time("the pending list", read)
    }

    /// Returns these entries as the page of `snapshot`, without verdicts.
    pub fn pending_page(
        &self,
        from: EntryId,
        rows: &[Pending],
        snapshot: &Snapshot,
    ) -> PendingPage {
        let now = snapshot.taken;
        let lines = rows.iter().map(|row| self.pending_line(now, row)).collect();
        PendingPage { from, taken: Some(now), more: rows.len() == PAGE, lines }
    }

    fn pending_line(&self, now: Millis, row: &Pending) -> PendingLine {
        let entry = row.delivered.entry;
        let (order, fault) = match &row.delivered.body {
            Body::Good(order) => (Some(order), None),
            Body::Malformed(fault) => (None, Some(OrderError::Fields(fault.clone()))),
            Body::Gone => (None, Some(OrderError::Gone)),
        };
        PendingLine {
            entry,
            consumer: row.consumer.clone(),
            holder_alive: self.is_alive(&row.consumer),
            holder_known: self.node_state(&row.consumer, entry.partition)
                != Some(NodeState::Stopped),
            age_ms: now.since(entry.added()),
            idle_ms: row.idle_ms,
            deliveries: row.deliveries,
            order: order.map(|o| o.order),
            user: order.map(|o| o.user),
            voucher: order.map(|o| o.voucher),
            fault: fault.as_ref().map(Message::of),
            verdict: None,
        }
    }
}
