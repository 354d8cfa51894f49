//! Reads the displayed page of the pending list; verdicts are added elsewhere.

use seckill_model::{EntryId, Message, Millis, OrderError};
use seckill_redis::{
    Connection,
    nodes::NodeState,
    stream::{Body, Pending, pending_of_all},
};

use super::{Collector, in_time};
use crate::telemetry::{
    read_error::ReadError,
    snapshot::{PendingLine, PendingPage},
};

/// Entries per page.
const PAGE: usize = 500;

impl Collector {
    /// Reads the entries from `from` on, with a round trip per partition; one more than a page has if there are more.
    pub async fn pending(&mut self, from: EntryId) -> Result<Vec<Pending>, ReadError> {
        let keys = &self.keys;
        let reading = async |conn: &mut Connection| {
            pending_of_all(conn, keys, from, EntryId::MAX, PAGE + 1).await
        };
        in_time(&mut self.conn, reading).await
    }

    /// Returns these entries as the page of a snapshot taken at `now`, without verdicts.
    pub fn pending_page(&self, from: EntryId, rows: &[Pending], now: Millis) -> PendingPage {
        let lines = rows.iter().map(|row| self.pending_line(now, row)).collect();
        PendingPage::of(from, now, lines, PAGE)
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
