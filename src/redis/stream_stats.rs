//! One read of everything in Redis that a Snapshot shows.

use std::collections::HashMap;

use redis::cmd;
use seckill_model::{EntryId, ForeignKey, Millis, ShardId, ledger::SaleKey};

use super::{
    Connection, Layout, RedisError, Result,
    keys::{MAX_PARTITIONS, Partition, is_replay, node_of},
    lossy_utf8::Text,
    nodes::Nodes,
    scripts,
};

/// State of Redis at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisStats {
    /// Redis' clock.
    pub now: Millis,
    /// The order streams and their groups, of all partitions that were read.
    pub stream: StreamStats,
    /// The same for each partition.
    pub parts: Vec<StreamStats>,
    /// Consumers of the group.
    pub consumers: Vec<ConsumerStats>,
    /// Nodes with their last heartbeats.
    pub nodes: Nodes,
    /// Nodes with an HTTP server, and its figures as JSON; of the home partition.
    pub http: Vec<(String, String)>,
    /// Nodes and their reports as JSON; of the home partition.
    pub reports: Vec<(String, String)>,
    /// Figures of the requested sales, in their order; `None` if the partition was not read.
    pub sales: Vec<Option<SaleStats>>,
    /// Keys written by another program; nothing was read from them.
    pub foreign: Vec<ForeignKey>,
    /// Streams that have lost entries and are not reconciled yet.
    pub lost: Vec<String>,
}

/// The order stream of a partition and its group, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Partition number; that of the first one in a sum.
    pub partition: u16,
    /// Entries in the stream.
    pub length: u64,
    /// Entries ever added, including trimmed and deleted ones.
    pub added: u64,
    /// The oldest entry kept, acknowledged or not.
    pub first: Option<EntryId>,
    /// The newest entry kept.
    pub last: Option<EntryId>,
    /// ID of the newest entry ever added; `None` without a stream.
    pub generated: Option<EntryId>,
    /// The newest entry deleted from the middle; `None` if there never was one.
    pub deleted: Option<EntryId>,
    /// Memory used by the stream; `None` if it was not read, or Redis does not report it.
    pub bytes: Option<u64>,
    /// The group exists.
    pub group: bool,
    /// Last delivered ID of the group; `None` without a group.
    pub delivered: Option<EntryId>,
    /// Entries read by the group, as counted by Redis; `None` if unknown.
    pub read: Option<u64>,
    /// Undelivered entries; `None` if there are too many to count and the lag reported by Redis is unreliable.
    pub lag: Option<u64>,
    /// The lag that XINFO GROUPS reports, which may be wrong and even negative; `None` if it reports none.
    pub reported_lag: Option<i64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// The oldest pending entry.
    pub oldest_pending: Option<EntryId>,
    /// Entries that a claim found without a body: their orders are in no stream until they are rebuilt.
    pub gone: u64,
    /// Dead letters.
    pub dead: u64,
}

impl StreamStats {
    /// The sum of partitions; a figure that one of them lacks is unknown. `None` without a partition.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        let oldest = |a: Option<EntryId>, b| [a, b].into_iter().flatten().min();
        parts.into_iter().copied().reduce(|sum, part| Self {
            partition: sum.partition,
            length: sum.length + part.length,
            added: sum.added + part.added,
            first: oldest(sum.first, part.first),
            last: sum.last.max(part.last),
            generated: sum.generated.max(part.generated),
            deleted: sum.deleted.max(part.deleted),
            bytes: both(sum.bytes, part.bytes),
            group: sum.group && part.group,
            delivered: sum.delivered.max(part.delivered),
            read: both(sum.read, part.read),
            lag: both(sum.lag, part.lag),
            reported_lag: sum.reported_lag.zip(part.reported_lag).map(|(a, b)| a + b),
            pending: sum.pending + part.pending,
            oldest_pending: oldest(sum.oldest_pending, part.oldest_pending),
            gone: sum.gone + part.gone,
            dead: sum.dead + part.dead,
        })
    }
}

/// One consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerStats {
    /// The partition of its group.
    pub partition: u16,
    /// Its name.
    pub name: String,
    /// Entries it holds.
    pub pending: u64,
    /// Milliseconds since it last read entries.
    pub idle_ms: u64,
    /// Orders that its node wrote per second before its last heartbeat; `None` if it sends none.
    pub per_second: Option<u64>,
}

/// A sale in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaleStats {
    /// The key of the sale that is inconsistent with the others.
    pub damaged: Option<SaleKey>,
    /// Version of the sale.
    pub version: Option<u64>,
    /// When the sale was created.
    pub created: Option<Millis>,
    /// Total stock, sold or not; `None` if the sale is not loaded.
    pub initial: Option<u64>,
    /// Pieces left.
    pub stock: Option<i64>,
    /// Buyers with an order.
    pub buyers: u64,
    /// Admitted requests.
    pub admitted: u64,
    /// Requests after the stock was sold out.
    pub sold_out: u64,
    /// Requests of buyers who already had an order.
    pub duplicate: u64,
    /// Requests before or after the sale, or while it was paused.
    pub rejected: u64,
}

impl SaleStats {
    /// Requests that got no order.
    pub fn refused(&self) -> u64 {
        self.sold_out + self.duplicate + self.rejected
    }
}

type MarksReply =
    (Option<String>, u64, Option<String>, Option<String>, Option<String>, Option<u64>, Option<i64>);

type Reply = (
    i64,
    (u64, u64, bool, Option<u64>, u64, Option<String>, Option<String>, u64),
    MarksReply,
    Vec<(Text, u64, u64)>,
    Vec<(Text, f64)>,
    HashMap<String, u64>,
    Vec<(Text, Text)>,
    Vec<(Text, Text)>,
    Vec<SaleReply>,
    Vec<(String, String)>,
    Vec<String>,
);

/// Inconsistent key, initial, stock, buyers, version, created; admitted, sold out, duplicate, rejected.
type SaleReply =
    (Option<String>, Option<u64>, Option<i64>, u64, Option<u64>, Option<i64>, u64, u64, u64, u64);

/// Entries that the script counts itself: about 0.1 ms of Redis time.
const MAX_COUNTED: usize = 200;

/// Number of partitions with a stream in Redis, counted from the first: used while SQL, which is authoritative, is
/// unavailable. After partitions were removed it is too high, and the surplus partitions are empty.
pub async fn partitions_there(conn: &mut Connection, cluster: bool) -> Result<u16> {
    let mut count = 0;
    for of in Layout::new(MAX_PARTITIONS, cluster).partitions() {
        if !conn.query::<bool>(cmd("EXISTS").arg(of.orders())).await? {
            break;
        }
        count += 1;
    }
    Ok(count.max(1))
}

/// Asks each reachable server whether it accepts writes, which a read does not show.
///
/// # Errors
/// [`RedisError::Unwilling`] with the reason, or [`RedisError::ClusterDown`], since a cluster may serve reads only; Redis
/// is unavailable.
pub async fn takes_writes(conn: &mut Connection, keys: &Layout) -> Result<()> {
    for of in conn.reachable(keys) {
        let mut call = scripts::TAKES_WRITES.prepare_invoke();
        call.key(of.orders());
        conn.invoke::<u8>(&call).await?;
        if !conn.is_cluster() {
            break;
        }
    }
    Ok(())
}

/// All shards with a key in this partition, including those of sales unknown to SQL. Scans all keys of the server.
pub async fn shards_held(conn: &mut Connection, of: &Partition) -> Result<Vec<ShardId>> {
    let found = conn.keys_like(&of.orders(), &of.sales()).await?;
    let shard = |key: &String| key.rsplit(':').next()?.parse().ok();
    let mut held: Vec<_> = found.iter().filter_map(shard).collect();
    held.sort_unstable();
    held.dedup();
    Ok(held)
}

/// Reads the streams, the groups and these sales: atomically and in one round trip per partition. Partitions whose server
/// did not reply to the last [`Connection::probe`] are left out.
pub async fn read_stats(
    conn: &mut Connection,
    keys: &Layout,
    sales: &[ShardId],
) -> Result<RedisStats> {
    let mut whole: Option<RedisStats> = None;
    let mut facts: HashMap<ShardId, Option<SaleStats>> = HashMap::new();
    for of in conn.reachable(keys) {
        let here: Vec<ShardId> =
            sales.iter().copied().filter(|it| keys.partition_of(*it) == of).collect();
        let mut part = read_partition(conn, keys, &of, &here).await?;
        facts.extend(here.into_iter().zip(part.sales.drain(..)));
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.add(part),
        }
    }
    let mut whole = whole.ok_or_else(|| conn.why_lost())?;
    whole.stream = StreamStats::sum(&whole.parts).unwrap_or_default();
    whole.sales = sales.iter().map(|sale| facts.remove(sale).flatten()).collect();
    Ok(whole)
}

impl RedisStats {
    /// Whether a consumer is active: its node sends heartbeats, or an operator without an engine (not a node) recently
    /// claimed entries under its name.
    pub fn works(&self, consumer: &str, dead_ms: u64) -> bool {
        let claims = |it: &ConsumerStats| it.name == consumer && it.idle_ms < dead_ms;
        self.nodes.is_alive(node_of(consumer), dead_ms)
            || (is_replay(consumer) && self.consumers.iter().any(claims))
    }

    /// Adds another partition; the clock stays that of the first.
    fn add(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.consumers.extend(other.consumers);
        self.foreign.extend(other.foreign);
        self.lost.extend(other.lost);
    }
}

/// Reads one partition with these of its sales: one round trip and one moment.
pub async fn read_partition(
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
    sales: &[ShardId],
) -> Result<RedisStats> {
    let mut call = scripts::STREAM_STATS.prepare_invoke();
    call.key(of.orders()).key(of.dead()).key(of.nodes()).key(of.gone());
    call.key(of.instances()).key(of.reconciled()).key(of.watermark()).key(of.rates());
    call.key(of.http()).key(of.reports());
    for sale in sales {
        call.key(&keys.sale_keys(*sale)).key(keys.tally(*sale));
    }
    call.arg(of.group()).arg(MAX_COUNTED);
    let (now, stream, marks, consumers, nodes, rates, http, reports, figures, foreign, lost): Reply =
        conn.invoke(&call).await?;
    let (length, dead, group, lag, pending, oldest, first, gone) = stream;
    let (last, added, generated, deleted, delivered, read, reported_lag) = marks;
    let foreign = foreign.into_iter().map(|(key, holds)| ForeignKey { key, holds }).collect();
    let id = |id: Option<String>| id.and_then(|id| of.entry_id(&id).ok());
    let stream = StreamStats {
        partition: of.number(),
        length,
        added,
        first: id(first),
        last: id(last),
        generated: id(generated),
        deleted: id(deleted),
        bytes: None,
        group,
        delivered: id(delivered),
        read,
        // There is no stream before the first order, so nothing is waiting.
        lag: if group || length > 0 { lag } else { Some(0) },
        reported_lag,
        pending,
        oldest_pending: id(oldest),
        gone,
        dead,
    };
    Ok(RedisStats {
        now: Millis(now),
        stream,
        parts: vec![stream],
        consumers: consumers
            .into_iter()
            .map(|(Text(name), pending, idle_ms)| ConsumerStats {
                partition: of.number(),
                per_second: rates.get(node_of(&name)).copied(),
                name,
                pending,
                idle_ms,
            })
            .collect(),
        nodes: Nodes::of(Millis(now), nodes),
        http: http.into_iter().map(|(Text(node), Text(figures))| (node, figures)).collect(),
        reports: reports.into_iter().map(|(Text(node), Text(report))| (node, report)).collect(),
        sales: figures.into_iter().map(|it| sale_stats(it).map(Some)).collect::<Result<_, _>>()?,
        foreign,
        lost,
    })
}

fn sale_stats(reply: SaleReply) -> Result<SaleStats> {
    let (damaged, initial, stock, buyers, version, created, ..) = reply;
    let (.., admitted, sold_out, duplicate, rejected) = reply;
    let damaged = damaged.map(|key| key.parse()).transpose();
    Ok(SaleStats {
        damaged: damaged.map_err(|_| RedisError::reply("stream_stats.lua"))?,
        version,
        created: created.map(Millis),
        initial,
        stock,
        buyers,
        admitted,
        sold_out,
        duplicate,
        rejected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_without_engine_is_active_while_claiming() {
        let consumer = |name: &str, idle_ms| ConsumerStats {
            partition: 0,
            name: name.to_owned(),
            pending: 1,
            idle_ms,
            per_second: None,
        };
        let stats = RedisStats {
            now: Millis(10_000),
            stream: StreamStats::default(),
            parts: Vec::new(),
            consumers: vec![consumer("desk/replay", 900), consumer("gone/replay", 9_000)],
            nodes: Nodes { now: Millis(10_000), signs: vec![("a".to_owned(), Millis(9_500))] },
            http: Vec::new(),
            reports: Vec::new(),
            sales: Vec::new(),
            foreign: Vec::new(),
            lost: Vec::new(),
        };
        let works = |name| stats.works(name, 3_000);
        assert!(works("a/1") && works("a/replay") && works("desk/replay"));
        assert!(!works("desk/1") && !works("gone/replay") && !works("b/1"));
    }
}
