//! The state of each stream and its group.

use seckill_model::EntryId;
use seckill_redis::{
    Connection,
    keys::{Partition, node_of},
    stream,
    stream_stats::{ConsumerStats, RedisStats},
};
use serde::Serialize;

use crate::{EngineError, commands::group::partitions, servers::Servers};

/// Entries per read.
const PAGE: usize = 1_000;
/// Undelivered entries beyond this number are not counted individually.
const COUNT_UP_TO: u64 = 100_000;

/// The stream of one partition; the keys are a contract of `stream show --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamState {
    /// Which partition.
    pub partition: u16,
    /// Retained entries, acknowledged ones included.
    pub length: u64,
    /// Entries ever added.
    pub added: u64,
    /// The oldest retained entry.
    pub first: Option<EntryId>,
    /// The newest retained entry.
    pub last: Option<EntryId>,
    /// Milliseconds since the oldest one was added: how far back the group can be rewound.
    pub oldest_ms: Option<u64>,
    /// Dead letters.
    pub dead: u64,
    /// The group; `None` if it was destroyed or never created.
    pub group: Option<GroupState>,
}

/// The group of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupState {
    /// Its name.
    pub name: String,
    /// Last delivered ID.
    pub last_delivered: Option<EntryId>,
    /// Entries read, as Redis counts them; `None` if it cannot.
    pub entries_read: Option<u64>,
    /// Entries never delivered; `None` if there are too many to count and Redis' own figure is unreliable.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// The oldest of them.
    pub oldest_pending: Option<EntryId>,
    /// Milliseconds since that one was added.
    pub oldest_pending_ms: Option<u64>,
    /// Consumers, those with pending entries first.
    pub consumers: Vec<ConsumerState>,
}

/// One consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerState {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Whether that node has a current heartbeat.
    pub alive: bool,
    /// Entries it holds.
    pub pending: u64,
    /// Milliseconds since it last asked for entries.
    pub idle_ms: u64,
}

/// Reads every partition, or that one.
pub async fn show(
    servers: &mut Servers,
    only: Option<u16>,
    dead_ms: u64,
) -> Result<Vec<StreamState>, EngineError> {
    let mut shown = Vec::new();
    for of in partitions(&servers.keys, only)? {
        let stats = servers.partition_stats(&of).await?;
        let lag = match (stats.stream.lag, stats.stream.delivered) {
            (None, Some(delivered)) => count_after(&mut servers.conn, &of, delivered).await?,
            (lag, _) => lag,
        };
        shown.push(state(&of, &stats, lag, dead_ms));
    }
    Ok(shown)
}

fn state(of: &Partition, stats: &RedisStats, lag: Option<u64>, dead_ms: u64) -> StreamState {
    let stream = &stats.stream;
    let mut consumers: Vec<ConsumerState> = stats
        .consumers
        .iter()
        .map(|ConsumerStats { name, pending, idle_ms, .. }| ConsumerState {
            name: name.clone(),
            node: node_of(name).to_owned(),
            alive: stats.works(name, dead_ms),
            pending: *pending,
            idle_ms: *idle_ms,
        })
        .collect();
    consumers.sort_by(|a, b| b.pending.cmp(&a.pending).then_with(|| a.name.cmp(&b.name)));
    StreamState {
        partition: of.number(),
        length: stream.length,
        added: stream.added,
        first: stream.first,
        last: stream.last,
        oldest_ms: stream.first.map(|id| stats.now.since(id.added())),
        dead: stream.dead,
        group: stream.group.then(|| GroupState {
            name: of.group().to_owned(),
            last_delivered: stream.delivered,
            entries_read: stream.read,
            lag,
            pending: stream.pending,
            oldest_pending: stream.oldest_pending,
            oldest_pending_ms: stream.oldest_pending.map(|id| stats.now.since(id.added())),
            consumers,
        }),
    }
}

/// Entries after `delivered`; `None` if there are too many.
async fn count_after(
    conn: &mut Connection,
    of: &Partition,
    delivered: EntryId,
) -> Result<Option<u64>, EngineError> {
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
