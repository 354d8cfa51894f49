//! The state of each stream and its group.

use std::cmp::Reverse;

use seckill_model::EntryId;
use seckill_redis::{
    Connection,
    keys::Partition,
    stream,
    stream_stats::{ConsumerStats, RedisStats},
};

use crate::{Result, commands::group::partitions, deployment::servers::Servers};

/// Entries per read.
const PAGE: usize = 1_000;
/// Undelivered entries beyond this number are not counted individually.
const COUNT_UP_TO: u64 = 100_000;

/// Reads the stream, its group and its consumers in every partition, or only in one. The consumers that hold the most
/// entries come first. A lag that Redis cannot determine is counted. Partitions of lost servers are left out if the
/// connection was probed.
pub async fn show(servers: &mut Servers, only: Option<u16>) -> Result<Vec<RedisStats>> {
    let mut shown = Vec::new();
    for of in partitions(&servers.keys, only)? {
        if only.is_none() && servers.conn.is_lost(&of) {
            continue;
        }
        let mut stats = servers.partition_stats(&of).await?;
        if let (None, Some(delivered)) = (stats.stream.lag, stats.stream.delivered) {
            stats.stream.lag = count_after(&mut servers.conn, &of, delivered).await?;
        }
        let by_pending = |it: &ConsumerStats| (Reverse(it.pending), it.name.clone());
        stats.consumers.sort_by_cached_key(by_pending);
        shown.push(stats);
    }
    Ok(shown)
}

/// Entries after `delivered`; `None` if there are too many.
async fn count_after(
    conn: &mut Connection,
    of: &Partition,
    delivered: EntryId,
) -> Result<Option<u64>> {
    let (mut count, mut next) = (0, delivered.next());
    while let Some(from) = next {
        if count > COUNT_UP_TO {
            return Ok(None);
        }
        let page = stream::range(conn, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        count += page.len() as u64;
    }
    Ok(Some(count))
}
