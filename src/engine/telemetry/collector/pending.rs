//! Reads the displayed page of the pending list, to which verdicts are added elsewhere, and counts the whole list by age
//! and deliveries, in pages without bodies and up to a limit.

use seckill_model::{EntryId, Message, Millis, OrderError};
use seckill_redis::{
    Connection,
    nodes::NodeState,
    stream::{Body, Pending, pending_ids, pending_of_all},
};

use super::{Collector, in_time};
use crate::telemetry::{
    census::Census,
    read_error::ReadError,
    snapshot::{PendingLine, PendingPage},
};

/// Entries per page.
const PAGE: usize = 500;
/// Entries counted per round trip: about 0.3 ms of Redis time.
const COUNTED_PAGE: usize = 1_000;
/// Maximum number of entries counted.
const MOST_COUNTED: usize = 10_000;

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

    /// Counts all pending entries, or the oldest.
    pub async fn census(&mut self) -> Result<Census, ReadError> {
        let keys = &self.keys;
        let reading = async |conn: &mut Connection| {
            let now = conn.now().await?;
            let most = (MOST_COUNTED / keys.partitions().count().max(1)).max(COUNTED_PAGE);
            let mut parts = Vec::new();
            for of in keys.partitions() {
                let (mut read, mut all) = (Vec::new(), false);
                let mut next = Some(EntryId::MIN);
                while let Some(from) = next.filter(|_| !all && read.len() < most) {
                    let page =
                        pending_ids(conn, &of, None, from, EntryId::MAX, COUNTED_PAGE).await?;
                    next = page.last().and_then(|(last, _)| last.next());
                    all = page.len() < COUNTED_PAGE || next.is_none();
                    read.extend(page);
                }
                parts.push((read, all));
            }
            Ok(Census::of(now, &parts))
        };
        in_time(&mut self.conn, reading).await
    }
}
