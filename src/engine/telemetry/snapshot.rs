//! The Snapshot: everything a screen or `seckill status` shows, at one moment.

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
    ops::Not,
    sync::Arc,
    time::Duration,
};

use seckill_model::{
    EntryId, ForeignKey, JobRun, LetterVerdict, Message, Millis, Order, OrderCounts, OrderId,
    OrderQuery, Phase, ShardId, UserId, Verdict, VoucherId, ledger::Balance,
};
pub use seckill_redis::{
    connection::{LostServer, number_list},
    entries::DeliveryState,
    lock_holders::{Holder, Holders, Kind},
    nodes::NodeState,
    stream_stats::StreamStats,
};
use seckill_redis::{dead_letters::DeadLetter, keys::is_replay, nodes::Nodes};
use seckill_store::AuditEntry;
use serde::{Deserialize, Serialize};

use crate::Result;

pub use super::alarm::{Alarm, AlarmKind, ClockOf, Unconfirmed, Urgency, skew_side};
pub use super::sale_line::{Count, Funnel, SaleLine, SqlCopy};
use super::{
    census::Census, curves::Curves, ledger_page::LedgerPage, log::LogView, series::Series,
};

/// An immutable snapshot of the engine and its servers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Sequence number; 0 is the empty one before the first.
    pub seq: u64,
    /// When it was taken, by the clock of Redis.
    pub taken: Millis,
    /// How far that clock is ahead of this node's in ms, or 0 within the precision of a reply.
    pub clock_ahead_ms: i64,
    /// How far the clock of the database is ahead of this node's in ms, likewise; `None` if it is a file, or unknown.
    pub sql_clock_ahead_ms: Option<i64>,
    /// This node's name; empty without an engine.
    pub node: String,
    /// The engine rejects commands.
    pub read_only: bool,
    /// Idle time in milliseconds after which this node claims an entry from another consumer; `None` without an engine.
    pub claim_idle_ms: Option<u64>,
    /// Health of Redis, and the age of its data.
    pub redis: Health,
    /// Health of the database, and the age of its data.
    pub sql: Health,
    /// Servers of a cluster that do not reply while others do; what they hold is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<LostServer>,
    /// Why orders are not confirmed as `wait_replicas` demands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Unconfirmed>,
    /// All sales that are not archived, also those of which SQL lacks a part or all: active ones first, then those with an
    /// alarm, then by phase, newest first.
    pub sales: Vec<SaleLine>,
    /// Sales with a change committed in SQL and not confirmed by Redis.
    pub undelivered: Vec<VoucherId>,
    /// Sales whose orders wait because the database accepts none of them, while it accepts others, and why; as this process
    /// and the nodes that are alive report it.
    pub refused_sales: Vec<(VoucherId, Message)>,
    /// Sales of which a row in SQL cannot be read, and why; they are missing in `sales`.
    pub unreadable_sales: Vec<(VoucherId, Message)>,
    /// Admission replies, summed over all sales.
    pub funnel: Funnel,
    /// Live orders in SQL, of all sales.
    pub written: Count,
    /// The order stream and its group; `None` before the first read.
    pub stream: Option<StreamLine>,
    /// The displayed page of the pending list.
    pub pending: PendingPage,
    /// All pending entries by age and deliveries; counted only while displayed, so not part of documents.
    #[serde(skip)]
    pub census: Option<Census>,
    /// One page of the dead letters; read only while displayed, so not part of documents.
    #[serde(skip)]
    pub letters: LetterPage,
    /// One window of the order stream; read only while displayed.
    #[serde(skip)]
    pub entries: StreamPage,
    /// Orders of the sale whose detail is open; `None` if none is, or not counted yet.
    #[serde(skip)]
    pub sale_orders: Option<SaleOrders>,
    /// One page of the orders in SQL; read only while displayed.
    #[serde(skip)]
    pub orders: OrdersPage,
    /// The orders whose query timed out in SQL; the page keeps its previous contents.
    #[serde(skip)]
    pub late_orders: Option<OrdersView>,
    /// Balance of the ledger.
    pub audit: Balance,
    /// The last audit by order ID; repeated only while displayed.
    #[serde(skip)]
    pub ledger: LedgerPage,
    /// Recent admission latency of this node, of the requests that Redis decided.
    pub latency: Option<Latency>,
    /// Recent requests of this node by latency: upper bound of each bucket in microseconds, and number of requests.
    #[serde(skip)]
    pub latency_buckets: Vec<(u64, u64)>,
    /// Rates over time.
    #[serde(skip)]
    pub series: Arc<Series>,
    /// Remaining stock and admitted buyers of each sale over time.
    #[serde(skip)]
    pub curves: Curves,
    /// Open alarms, most urgent first.
    pub alarms: Vec<Alarm>,
    /// Active load tests of this node.
    pub load_tests: Vec<LoadTestLine>,
    /// Recovery plans and commands in progress on this node.
    pub recoveries: Vec<RecoveryLine>,
    /// Held locks.
    pub locks: Holders,
    /// Whether they could not be read because their server is lost while others reply.
    #[serde(skip_serializing_if = "Not::not")]
    pub locks_unknown: bool,
    /// Keys overwritten by other programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// Inconsistent keys of sales and streams, not reconciled yet.
    pub damaged: Vec<String>,
    /// Sales, or their shards, that stay closed because Redis has more buyers of them than pieces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub oversold: Vec<ShardId>,
    /// Scheduled jobs, as known to this node.
    pub jobs: Vec<JobLine>,
    /// Nodes with a heartbeat within a day.
    pub nodes: Vec<NodeLine>,
    /// HTTP servers of live nodes, as of their last heartbeats, by node.
    pub http: Vec<HttpLine>,
    /// The newest log lines, newest first; empty without an engine.
    pub activity: Arc<Vec<AuditEntry>>,
    /// One page of the log; read only while displayed, so not part of documents.
    #[serde(skip)]
    pub log: LogPage,
    /// Whether Redis could not be searched for sales that SQL has lost.
    #[serde(skip)]
    pub lost_unknown: bool,
}

impl Snapshot {
    /// Returns at most how many admitted orders are not in SQL; `None` if a server did not answer.
    pub fn unwritten(&self) -> Option<u64> {
        if !self.redis.up || !self.sql.up || !self.unreachable.is_empty() || self.lost_unknown {
            return None;
        }
        self.sales.iter().map(SaleLine::unwritten).sum()
    }

    /// Returns how many admitted orders of a sale are not in SQL; `None` if a server did not answer.
    pub fn unwritten_of(&self, sale: VoucherId) -> Option<u64> {
        if !self.redis.up || !self.sql.up || !self.unreachable.is_empty() {
            return None;
        }
        self.sale(sale)?.unwritten()
    }

    /// Returns the sales that SQL has lost, all of them or some of their shards.
    pub fn lost_sales(&self) -> impl Iterator<Item = &SaleLine> {
        self.sales.iter().filter(|sale| sale.is_lost())
    }

    /// Returns the shards that SQL has lost, and the maximum number of orders a user of each.
    pub fn lost_shards(&self) -> impl Iterator<Item = (ShardId, u8)> {
        let lines = self.lost_sales().flat_map(|sale| match sale.shards.as_slice() {
            [] => std::slice::from_ref(sale),
            shards => shards,
        });
        lines.filter(|line| line.is_lost()).map(|line| (line.shard_id(), line.limit))
    }

    /// Returns the sale of this voucher.
    pub fn sale(&self, voucher_id: VoucherId) -> Option<&SaleLine> {
        self.sales.iter().find(|sale| sale.voucher_id == voucher_id)
    }

    /// Returns the default sale if none is selling or selected: the newest active one, then one that is planned or
    /// over.
    pub fn foremost(&self) -> Option<&SaleLine> {
        [Phase::Running, Phase::Paused, Phase::Planned, Phase::SoldOut, Phase::Ended]
            .into_iter()
            .find_map(|phase| self.sales.iter().find(|sale| sale.phase == phase))
    }

    /// Sorts sales that need attention before those that are planned or over.
    pub fn order_sales(&mut self) {
        let findings = match &self.audit {
            Balance::Off { findings } => findings.as_slice(),
            _ => &[],
        };
        let found = findings.iter().filter_map(|finding| finding.sale);
        let set_back = self.sales.iter().filter(|sale| sale.sql != SqlCopy::Current);
        let off = found.chain(self.undelivered.iter().copied());
        let off: HashSet<VoucherId> = off.chain(set_back.map(|sale| sale.voucher_id)).collect();
        self.sales.sort_by_key(|sale| match sale.phase {
            Phase::Running => 0,
            _ if off.contains(&sale.voucher_id) => 1,
            Phase::Paused | Phase::SoldOut => 2,
            Phase::Planned => 3,
            Phase::Ended | Phase::Archived => 4,
        });
    }

    /// Returns the target sales of this node's load tests, each once, by voucher ID.
    pub fn rushed(&self) -> Vec<VoucherId> {
        let mut sales: Vec<_> = self.load_tests.iter().map(|rush| rush.voucher_id).collect();
        sales.sort_unstable();
        sales.dedup();
        sales
    }
}

/// How long a recovery is shown.
const SHOWN_FOR_MS: u64 = 60_000;

/// One server's health.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Health {
    /// Its product, for example `redis 7.0.15` or `sqlite`.
    pub name: String,
    /// Whether the last read succeeded.
    pub up: bool,
    /// Duration of that read, in microseconds.
    pub latency_us: u64,
    /// When it last replied: the age of everything read from it.
    pub last_ok: Option<Millis>,
    /// Error of the last read, if it failed; contains no password.
    pub error: Option<Message>,
    /// Start of the outage: when the first failed read began.
    pub away_since: Option<Millis>,
    /// It recovered within the last minute.
    pub back: Option<Back>,
    /// Why it accepts no writes though it is readable; only of a reachable server.
    pub unwritable: Option<Message>,
}

impl Health {
    /// Returns whether it is reachable and not known to reject writes.
    pub fn takes_writes(&self) -> bool {
        self.up && self.unwritable.is_none()
    }

    /// Records the result of a read that ended at `now` after `took`.
    pub(super) fn note(&mut self, now: Millis, took: Duration, result: Result<()>) {
        self.up = result.is_ok();
        self.latency_us = took.as_micros() as u64;
        self.error = result.err().as_ref().map(Message::of);
        self.back = self.back.filter(|back| now.since(back.at) < SHOWN_FOR_MS);
        if self.up {
            self.last_ok = Some(now);
            if let Some(since) = self.away_since.take() {
                self.back = Some(Back { at: now, after_ms: now.since(since) });
            }
        } else {
            // Nothing else is known about an unreachable server.
            self.unwritable = None;
            let began = now.plus(-(took.as_millis() as i64));
            self.away_since.get_or_insert(began);
            self.back = None;
        }
    }

    /// Records the result of a write probe, if the server is reachable.
    pub(super) fn note_writes(&mut self, answer: Result<()>) {
        self.unwritable = answer.err().filter(|_| self.up).as_ref().map(Message::of);
    }
}

/// A server that has recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Back {
    /// When it replied again.
    pub at: Millis,
    /// Length of the outage in milliseconds.
    pub after_ms: u64,
}

/// The order stream and its group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamLine {
    /// Entries in the stream, including acknowledged ones: how many could be redelivered.
    pub length: u64,
    /// Milliseconds since the oldest of them was added: how far back a rewind can start.
    pub oldest_ms: Option<u64>,
    /// Entries never delivered; `None` if Redis cannot determine it.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// Milliseconds since the oldest pending entry was added.
    pub oldest_pending_ms: Option<u64>,
    /// Dead letters.
    pub dead: u64,
    /// The group exists.
    pub group: bool,
    /// Consumers, those that need attention first, then by name.
    pub consumers: Vec<ConsumerLine>,
}

/// One consumer of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerLine {
    /// The partition of its group.
    #[serde(skip)]
    pub partition: u16,
    /// Its name: node and number.
    pub name: String,
    /// Its node.
    #[serde(skip)]
    pub state: NodeState,
    /// Whether its node has a recent heartbeat.
    pub alive: bool,
    /// Whether it belongs to a listed node or an operator; otherwise it never was a node, or has stopped.
    pub known: bool,
    /// Entries it holds.
    pub pending: u64,
    /// Milliseconds since its last read.
    pub idle_ms: u64,
    /// Orders that it wrote per second before the last heartbeat of its node; `None` if it is not a live node.
    pub per_second: Option<u64>,
}

impl ConsumerLine {
    /// Returns whether it can receive entries: it is active, and not only for one replay.
    pub fn takes(&self) -> bool {
        self.alive && !is_replay(&self.name)
    }

    /// Sort key in a list: active consumers, then those that left entries behind, then those that are permanently gone.
    pub fn sort_key(&self) -> u8 {
        match (self.state, self.pending) {
            (NodeState::Alive, _) => 0,
            (NodeState::Dead, 1..) => 1,
            (NodeState::Stopped, 1..) => 2,
            (_, 0) => 3,
        }
    }
}

/// The displayed part of the order stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamView {
    /// Only this partition; `None` for all, merged by time.
    pub partition: Option<u16>,
    /// Only entries before this one; `None` for the newest.
    pub before: Option<EntryId>,
}

/// One window of the order stream.
#[derive(Clone, Debug, Default)]
pub struct StreamPage {
    /// Partition and position.
    pub view: StreamView,
    /// When it was read, by the clock of Redis; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are older ones.
    pub older: bool,
    /// The entries, oldest first.
    pub lines: Arc<Vec<EntryLine>>,
    /// Every partition, including those not displayed.
    pub partitions: Vec<StreamStats>,
    /// Consumers of every partition by state and name, including dead ones without entries.
    pub consumers: Vec<ConsumerLine>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryLine {
    /// Its id.
    pub entry: EntryId,
    /// The requested order; `None` if the fields are invalid.
    pub order: Option<OrderId>,
    /// The buyer.
    pub user: Option<UserId>,
    /// The voucher.
    pub voucher: Option<VoucherId>,
    /// The fault of its fields.
    pub fault: Option<Message>,
    /// Its consumer.
    pub holding: DeliveryState,
    /// The node of its consumer; `None` if there is none or it is not known yet.
    pub holder: Option<NodeState>,
    /// It is a dead letter: acknowledged without writing its order. `None` if not all letters were read.
    pub dead: Option<bool>,
}

/// One page of a list, read only while it is displayed.
#[derive(Clone, Debug, Serialize)]
pub struct Page<V, L> {
    /// Which list, and where the page starts.
    #[serde(rename = "from")]
    pub view: V,
    /// When it was read, by the clock of Redis; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are more lines beyond it.
    pub more: bool,
    /// The lines, in the order of the list.
    pub lines: Arc<Vec<L>>,
}

impl<V, L> Page<V, L> {
    /// Makes a page of at most `most` lines; one more was read if there are more.
    pub(crate) fn of(view: V, taken: Millis, mut lines: Vec<L>, most: usize) -> Self {
        let more = lines.len() > most;
        lines.truncate(most);
        Self { view, taken: Some(taken), more, lines: Arc::new(lines) }
    }
}

impl<V: Default, L> Default for Page<V, L> {
    fn default() -> Self {
        Self { view: V::default(), taken: None, more: false, lines: Arc::default() }
    }
}

/// One page of the pending list, from an entry on.
pub type PendingPage = Page<EntryId, PendingLine>;
/// One page of the dead letters, from a letter on.
pub type LetterPage = Page<EntryId, LetterLine>;
/// One page of the orders in SQL, newest first.
pub type OrdersPage = Page<OrdersView, Order>;
/// One page of the log, oldest line first.
pub type LogPage = Page<LogView, AuditEntry>;

impl PendingPage {
    /// Counts its entries. It replaces a separate count if [`Self::is_whole`], so that both views agree.
    pub(crate) fn census(&self) -> Census {
        let read = self.lines.iter().map(|line| (line.entry, line.deliveries)).collect();
        Census::of(self.taken.unwrap_or_default(), &[(read, true)])
    }

    /// Returns whether it was read and contains all pending entries.
    pub fn is_whole(&self) -> bool {
        self.taken.is_some() && self.view == EntryId::MIN && !self.more
    }
}

/// The displayed orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersView {
    /// The filter.
    pub query: OrderQuery,
    /// Only orders with a smaller ID; `None` for the newest.
    pub before: Option<OrderId>,
}

/// One pending entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingLine {
    /// Its id.
    pub entry: EntryId,
    /// Its consumer.
    pub consumer: String,
    /// Whether its holder's node is alive.
    pub holder_alive: bool,
    /// Whether its consumer belongs to a listed node or an operator.
    pub holder_known: bool,
    /// Milliseconds since the entry was added.
    pub age_ms: u64,
    /// Milliseconds since it was last delivered.
    pub idle_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
    /// The requested order; `None` if the fields are invalid.
    pub order: Option<OrderId>,
    /// The buyer.
    pub user: Option<UserId>,
    /// The voucher.
    pub voucher: Option<VoucherId>,
    /// The fault of its fields, or that its body is gone.
    pub fault: Option<Message>,
    /// Its verdict; `None` if it is not classified yet, or SQL is unreachable.
    pub verdict: Option<Verdict>,
}

/// One dead letter.
#[derive(Clone, Debug, PartialEq)]
pub struct LetterLine {
    /// The letter.
    pub letter: DeadLetter,
    /// Its age in milliseconds when the page was read.
    pub age_ms: u64,
    /// Its verdict.
    pub verdict: LetterVerdict,
}

/// Order statistics of the displayed sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleOrders {
    /// The sale.
    pub voucher: VoucherId,
    /// When they were counted, less often than snapshots are taken.
    pub taken: Millis,
    /// Orders by status; `None` if SQL timed out.
    pub counts: Option<OrderCounts>,
    /// Buyers with more than one order and their number of orders, most first; `None` if SQL timed out.
    pub repeat_buyers: Option<Vec<(UserId, u64)>>,
}

/// Latency from request to reply, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile; 0 from a node that does not report it.
    #[serde(default)]
    pub p999: u64,
    /// Largest.
    pub max: u64,
    /// Number of samples.
    pub samples: u64,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeLine {
    /// Its name.
    pub name: String,
    /// Whether it has a recent heartbeat.
    pub alive: bool,
    /// Time of its last heartbeat, by the clock of Redis.
    pub seen: Millis,
    /// How far the clock of Redis is ahead of the node's, in ms; `None` if the node is dead or has not reported it.
    pub clock_ahead_ms: Option<i64>,
    /// The time zone that its settings want for the deployment, if they name one.
    pub zone: Option<String>,
}

impl NodeLine {
    /// Returns every known node.
    pub fn all(nodes: &Nodes, dead_ms: u64) -> Vec<Self> {
        let line = |(name, seen): &(String, Millis)| Self {
            name: name.clone(),
            alive: nodes.is_alive(name, dead_ms),
            seen: *seen,
            ..Self::default()
        };
        nodes.signs.iter().map(line).collect()
    }
}

/// The HTTP server of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)] // A node of another version may publish other fields.
pub struct HttpLine {
    /// Its node.
    pub node: String,
    /// The URL of the address it listens on.
    pub url: String,
    /// Requests per second, over the last seconds.
    pub per_second: f64,
    /// Answers since it started, by status code.
    pub answers: BTreeMap<u16, u64>,
    /// Recent time from request to answer; `None` without requests.
    pub latency: Option<Latency>,
    /// Requests in progress.
    pub in_flight: u64,
    /// Open connections.
    pub connections: u64,
    /// Maximum number of open connections.
    pub max_connections: u64,
    /// Requests rejected since it started because a user sent too many.
    pub limited_users: u64,
    /// The same for an address.
    pub limited_addresses: u64,
    /// Users with the most requests in the last seconds, most first.
    pub users: Vec<Talker<UserId>>,
    /// Addresses, or IPv6 networks, with the most requests in the last seconds, most first.
    pub addresses: Vec<Talker<IpAddr>>,
    /// The address that nearly all requests come from, while no proxy is configured.
    pub one_address: Option<IpAddr>,
}

impl HttpLine {
    /// Returns the answers of a class of status codes: 4 is 4xx.
    pub fn answers_of(&self, class: u16) -> u64 {
        let codes = self.answers.range(class * 100..(class + 1) * 100);
        codes.map(|(_, answers)| answers).sum()
    }

    /// Returns the requests rejected because a user or an address sent too many.
    pub fn limited(&self) -> u64 {
        self.limited_users + self.limited_addresses
    }
}

/// A user or an address that sends requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Talker<K> {
    /// Which one.
    pub id: K,
    /// Its requests per second: at least this many.
    pub per_second: f64,
}

/// One scheduled job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobLine {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Its schedule, as text.
    pub schedule: String,
    /// Whether an operator paused it.
    pub paused: bool,
    /// Its next due time; `None` if it is paused or unknown.
    pub next: Option<Millis>,
    /// Its latest runs, newest first.
    pub runs: Vec<JobRun>,
}

/// A plan being made, or a recovery command in progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryLine {
    /// The command.
    pub action: String,
    /// Entries processed so far.
    pub done: u64,
    /// Total number of entries.
    pub planned: u64,
    /// Whether it makes changes and can be cancelled.
    pub changes: bool,
}

/// An active load test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadTestLine {
    /// The voucher bought.
    pub voucher_id: VoucherId,
    /// Requests sent so far.
    pub sent: u64,
    /// Requests planned.
    pub planned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineError;
    use seckill_store::StoreError;

    #[test]
    fn a_line_beyond_the_page_shows_that_there_are_more() {
        let page = Page::of((), Millis(1), vec![4, 3, 2, 1], 3);
        assert_eq!((page.lines.as_slice(), page.more), (&[4, 3, 2][..], true));
        assert!(!Page::of((), Millis(1), vec![3, 2, 1], 3).more);
    }

    fn note(health: &mut Health, at: i64, took_ms: u64, good: bool) {
        let result = if good { Ok(()) } else { Err(EngineError::Store(StoreError::Locked)) };
        health.note(Millis(at), Duration::from_millis(took_ms), result);
    }

    #[test]
    fn an_outage_has_a_start_and_an_end() {
        let mut health = Health::default();
        note(&mut health, 1_000, 1, true);
        assert_eq!((health.away_since, health.back), (None, None));
        note(&mut health, 4_000, 2_000, false);
        note(&mut health, 7_000, 2_000, false);
        assert_eq!(health.away_since, Some(Millis(2_000)), "start of the first failed read");
        assert_eq!(health.last_ok, Some(Millis(1_000)));
        note(&mut health, 9_000, 1, true);
        let back = Back { at: Millis(9_000), after_ms: 7_000 };
        assert_eq!((health.away_since, health.back), (None, Some(back)));
        note(&mut health, 68_999, 1, true);
        assert_eq!(health.back, Some(back));
        note(&mut health, 69_000, 1, true);
        assert_eq!(health.back, None, "expired after a minute");
    }

    #[test]
    fn a_server_that_accepts_no_writes_is_reachable() {
        let mut health = Health::default();
        note(&mut health, 1_000, 1, true);
        health.note_writes(Err(EngineError::Store(StoreError::Locked)));
        note(&mut health, 2_000, 1, true);
        let why = health.unwritable.as_ref().and_then(Message::data);
        assert_eq!((health.up, why), (true, Some(EngineError::Store(StoreError::Locked))));
        assert!(!health.takes_writes());
        assert_eq!((health.last_ok, health.away_since), (Some(Millis(2_000)), None));
        health.note_writes(Ok(()));
        note(&mut health, 3_000, 1, true);
        assert!(health.takes_writes() && health.back.is_none(), "it was never away");

        health.note_writes(Err(EngineError::Store(StoreError::Locked)));
        note(&mut health, 4_000, 1, false);
        health.note_writes(Err(EngineError::Store(StoreError::Locked)));
        assert_eq!(health.unwritable, None, "unknown while unreachable");
    }

    #[test]
    fn the_next_outage_clears_the_recovery_notice() {
        let mut health = Health::default();
        note(&mut health, 1_000, 0, false);
        note(&mut health, 2_000, 0, true);
        note(&mut health, 3_000, 0, false);
        assert_eq!((health.away_since, health.back), (Some(Millis(3_000)), None));
    }

    #[test]
    fn active_consumers_come_first_and_stopped_ones_without_entries_last() {
        let key = |state, pending| {
            let consumer = ConsumerLine {
                partition: 0,
                name: "node-a/1".to_owned(),
                state,
                alive: false,
                known: true,
                pending,
                idle_ms: 0,
                per_second: None,
            };
            consumer.sort_key()
        };
        let all = [
            key(NodeState::Alive, 0),
            key(NodeState::Dead, 3),
            key(NodeState::Stopped, 3),
            key(NodeState::Stopped, 0),
        ];
        assert!(all.is_sorted() && all[0] < all[1] && all[2] < all[3], "{all:?}");
        assert_eq!(key(NodeState::Alive, 9), all[0], "a batch moves no row");
    }
}
