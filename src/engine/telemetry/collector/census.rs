//! Counts the pending list by age and deliveries, in pages without bodies and up to a limit.

use seckill_model::{EntryId, Millis};
use seckill_redis::{
    RedisError,
    stream::{Pending, pending_ids},
};

use super::{Collector, READ_TIMEOUT};
use crate::telemetry::census::Census;

/// Entries per round trip: about 0.3 ms of Redis time.
const PAGE: usize = 1_000;
/// Maximum number of entries counted.
const MOST: usize = 10_000;

impl Collector {
    /// Counts all pending entries, or the oldest; `None` if that fails.
    pub async fn census(&mut self) -> Option<Census> {
        if !self.redis.up {
            return None;
        }
        let (conn, keys) = (&mut self.conn, &self.keys);
        let reading = async {
            let now = conn.now().await?;
            let most = (MOST / keys.partitions().count().max(1)).max(PAGE);
            let mut parts = Vec::new();
            for of in keys.partitions() {
                let (mut read, mut all) = (Vec::new(), false);
                let mut next = Some(EntryId::MIN);
                while let Some(from) = next.filter(|_| !all && read.len() < most) {
                    let page = pending_ids(conn, &of, None, from, EntryId::MAX, PAGE).await?;
                    next = page.last().and_then(|last| last.entry.next());
                    all = page.len() < PAGE || next.is_none();
                    read.extend(page.iter().map(|it| (it.entry, it.deliveries)));
                }
                parts.push((read, all));
            }
            Ok::<_, RedisError>(Census::of(now, &parts))
        };
        let counted = tokio::time::timeout(READ_TIMEOUT, reading).await;
        self.read_in_time("the count of all that is pending", counted)
    }

    /// Counts a list that was read completely, so that both views agree.
    pub fn census_of(rows: &[Pending], taken: Millis) -> Census {
        let read = rows.iter().map(|row| (row.delivered.entry, row.deliveries)).collect();
        Census::of(taken, &[(read, true)])
    }
}
