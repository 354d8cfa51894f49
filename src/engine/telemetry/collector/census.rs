//! Counts the pending list by age and deliveries, in pages without bodies and up to a limit.

use seckill_model::EntryId;
use seckill_redis::{Connection, stream::pending_ids};

use super::{Collector, in_time};
use crate::telemetry::{census::Census, read_error::ReadError};

/// Entries per round trip: about 0.3 ms of Redis time.
const PAGE: usize = 1_000;
/// Maximum number of entries counted.
const MOST: usize = 10_000;

impl Collector {
    /// Counts all pending entries, or the oldest.
    pub async fn census(&mut self) -> Result<Census, ReadError> {
        let keys = &self.keys;
        let reading = async |conn: &mut Connection| {
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
            Ok(Census::of(now, &parts))
        };
        in_time(&mut self.conn, reading).await
    }
}
