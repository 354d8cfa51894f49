//! Takes snapshots: SQL and a few round trips to Redis, turned into a [`Snapshot`].

mod pages;
mod redis;
mod set_back;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_model::{
    Message, Millis, OrderFilter, SaleShard, ShardId, VoucherId,
    ledger::{Balance, SaleFinding},
};
use seckill_redis::{
    Connection, Layout, RedisError,
    keys::{is_replay, node_of},
    lock_holders::Holders,
    nodes::NodeState,
    stream_stats::{ConsumerStats, RedisStats, SaleStats},
};
use seckill_store::{AuditEntry, Sales, SharedStore, StoreError, UnreadableSale};

use crate::{
    EngineError, Result,
    commands::operator_lock,
    deployment::{Deployment, servers::Servers},
};

use self::set_back::SetBack;

use super::{
    Meters, Point, Series, Snapshot,
    alarms::alarms,
    curves::Curves,
    data_loss::published,
    ledger_hysteresis::{Hysteresis, Proof},
    ledger_totals::Figures,
    node_report::NodeReport,
    snapshot::{
        ConsumerLine, Count, Funnel, Health, HttpLine, NodeLine, SaleLine, StreamLine, Unconfirmed,
    },
    window::Window,
    write_probe::WriteProbe,
};

/// A server that takes longer than this for one read counts as unreachable.
const READ_TIMEOUT_MS: u64 = 1_500;
const READ_TIMEOUT: Duration = Duration::from_millis(READ_TIMEOUT_MS);
/// Older data is read again for the same snapshot.
const STALE_US: u64 = 500_000;
/// How often the clock of the database is read: clocks drift slowly and are rarely corrected.
const ASK_CLOCK_AGAIN: Duration = Duration::from_secs(5);
/// A difference that changes by more than this between two reads was a step.
const STEP_MS: u64 = 1_000;

/// Takes snapshots, and keeps the state from which rates and outages are computed.
#[derive(Debug)]
pub struct Collector {
    conn: Connection,
    store: SharedStore,
    keys: Layout,
    meters: Arc<Meters>,
    node: String,
    read_only: bool,
    node_dead_ms: u64,
    seq: u64,
    /// The shards of all sales that are not archived, newest sale first; the ledger covers all of them.
    sales: Vec<SaleShard>,
    /// Those of which a row cannot be read, and why.
    unreadable: Vec<(VoucherId, Message)>,
    /// Closed orders that Redis has not confirmed.
    returning: u64,
    /// Changes of sales that Redis had not confirmed at the last read.
    undelivered: Vec<(ShardId, u64)>,
    /// How far the clock of SQL is ahead of this node's, in ms; `None` if that is unknown, or SQL is a file.
    sql_ahead: Option<i64>,
    /// When that was last asked, and how far the clock of Redis was ahead then.
    sql_clock_asked: Option<(Instant, i64)>,
    /// How far the clock of Redis is ahead of this node's, in ms.
    ahead: i64,
    stats: Option<RedisStats>,
    /// Facts of each sale in Redis, from the last stats that read it.
    facts: Arc<HashMap<ShardId, SaleStats>>,
    /// What SQL lacks of what Redis has, and what reads it.
    set_back: SetBack,
    lookup: Servers,
    /// The idle sale to read next.
    turn: usize,
    /// `None` if their server is lost while others reply.
    locks: Option<Holders>,
    /// Locks to check whether or not they are held.
    lock_names: Vec<String>,
    /// When Redis was last probed for writes.
    asked_redis: Option<Instant>,
    redis: Health,
    /// How many replicas have to confirm an order, and why they do not.
    wait_replicas: u32,
    unconfirmed: Option<Unconfirmed>,
    sql: Health,
    writes: WriteProbe,
    /// Samples taken while Redis was reachable; its counters advance while SQL is unreachable.
    past: Window<Sample>,
    /// Orders in SQL, which advance while Redis is unreachable.
    written: Window<u64>,
    series: Series,
    curves: Curves,
    audit: Option<Audited>,
    hysteresis: Hysteresis,
}

/// Findings of an audit by order ID for these figures.
#[derive(Clone, Debug)]
struct Audited {
    figures: Figures,
    findings: Vec<SaleFinding>,
    /// When another audit of the same figures is due.
    again: Instant,
}

/// Counters at one moment.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    busy: u64,
    facts: Arc<HashMap<ShardId, SaleStats>>,
    /// Whether both servers replied.
    whole: bool,
    figures: Figures,
}

/// Reads from Redis, for at most [`READ_TIMEOUT`].
async fn in_time<T>(
    conn: &mut Connection,
    read: impl AsyncFnOnce(&mut Connection) -> Result<T, RedisError>,
) -> Result<T> {
    if let Ok(read) = tokio::time::timeout(READ_TIMEOUT, read(conn)).await {
        return Ok(read?);
    }
    // The connection may be half open; the next read makes a new one.
    conn.forget();
    let address = conn.address().to_owned();
    Err(RedisError::Silent { address, millis: READ_TIMEOUT_MS }.into())
}

impl Collector {
    /// Returns a collector for `node` (empty without an engine). It also checks the locks of `lock_names` while they
    /// are not held: a key of another type blocks all callers.
    pub fn new(
        deployment: &Deployment,
        meters: Arc<Meters>,
        node: String,
        read_only: bool,
        lock_names: Vec<String>,
    ) -> Self {
        let Deployment { redis, store, keys, settings } = deployment;
        let conn = redis.connection();
        let sql = Health {
            name: store.describe().split_whitespace().next().unwrap_or_default().to_owned(),
            ..Health::default()
        };
        Self {
            conn,
            store: SharedStore::clone(store),
            keys: keys.clone(),
            meters,
            node,
            read_only,
            node_dead_ms: settings.node_dead_ms,
            seq: 0,
            sales: Vec::new(),
            unreadable: Vec::new(),
            returning: 0,
            undelivered: Vec::new(),
            ahead: 0,
            sql_ahead: None,
            sql_clock_asked: None,
            stats: None,
            facts: Arc::default(),
            set_back: SetBack::default(),
            lookup: Servers::new(redis, store, keys),
            turn: 0,
            locks: None,
            lock_names,
            asked_redis: None,
            redis: Health { name: "redis".to_owned(), ..Health::default() },
            wait_replicas: settings.wait_replicas,
            unconfirmed: None,
            sql,
            writes: WriteProbe::default(),
            past: Window::default(),
            written: Window::default(),
            series: Series::default(),
            curves: Curves::default(),
            audit: None,
            hysteresis: Hysteresis::default(),
        }
    }

    /// Takes a snapshot. Never fails: an unreachable server is part of the snapshot.
    pub fn collect(&mut self) -> BoxFuture<'_, Snapshot> {
        self.read_and_evaluate().boxed()
    }

    async fn read_and_evaluate(&mut self) -> Snapshot {
        self.conn.probe(&self.keys).await;
        self.read_sql().await;
        self.read_redis().await;
        // Redis timed out, and the data of SQL has become stale by then.
        if !self.redis.up && self.sql.up && self.redis.latency_us > STALE_US {
            self.read_sql().await;
        }
        // The clock of this host was corrected since.
        if self.sql_clock_asked.is_some_and(|(_, ahead)| ahead.abs_diff(self.ahead) > STEP_MS) {
            (self.sql_ahead, self.sql_clock_asked) = (None, None);
        }
        self.read_set_back().await;
        self.seq += 1;
        let sample = self.sample();
        let audit = self.balance(&sample.figures);
        self.note_rates(&sample);
        let (at, persisted) = (sample.at, sample.figures.persisted);
        if self.sql.up {
            self.written.push(at, persisted);
        }
        self.written.trim(at);
        // Counters do not advance while Redis is unreachable, and a rate across the gap would show a spike. Until the
        // sales have been read once, there are no buyers to count.
        if self.redis.up && self.sql.last_ok.is_some() {
            self.past.push(at, sample);
        }
        self.past.trim(at);
        let sales = self.sale_lines(at);
        self.curves.look(&sales, self.now(), self.redis.up);
        let undelivered = self.undelivered();
        let stats = self.stats.as_ref();
        let written_rate = self.written.rate(at, persisted, |it| Some(*it));
        let mut snapshot = Snapshot {
            seq: self.seq,
            taken: self.now(),
            clock_ahead_ms: self.ahead,
            sql_clock_ahead_ms: self.sql_ahead,
            node: self.node.clone(),
            read_only: self.read_only,
            redis: self.redis.clone(),
            sql: self.sql.clone(),
            // Without a reply of any server, Redis as a whole is unreachable.
            unconfirmed: self.unconfirmed.clone(),
            unreachable: if self.redis.up { self.conn.lost().to_vec() } else { Vec::new() },
            sales,
            undelivered,
            refused_sales: self.refused_sales(stats),
            lost_unknown: self.set_back.is_unknown(),
            unreadable_sales: self.unreadable.clone(),
            written: Count { total: persisted, per_second: written_rate.unwrap_or(0.0) },
            stream: stats.map(|stats| self.stream_line(stats)),
            audit,
            latency: self.meters.latency(),
            latency_buckets: self.meters.latency_buckets(),
            series: Arc::new(self.series.clone()),
            curves: self.curves.clone(),
            load_tests: self.meters.load_tests(),
            recoveries: self.meters.recoveries(),
            locks: self.locks.clone().unwrap_or_default(),
            locks_unknown: self.redis.up && self.locks.is_none(),
            foreign_keys: self.foreign_keys(),
            damaged: self.damaged(),
            oversold: self.oversold(),
            nodes: stats.map(|stats| self.node_lines(stats)).unwrap_or_default(),
            http: stats.map(|stats| self.http_lines(stats)).unwrap_or_default(),
            ..Snapshot::default()
        };
        snapshot.funnel = self.whole_funnel(at, &snapshot.sales);
        snapshot.order_sales();
        snapshot.alarms = alarms(&snapshot, None);
        snapshot
    }

    /// Returns the shards of all sales that are not archived, as last read from SQL, newest sale first.
    pub fn sales(&self) -> &[SaleShard] {
        &self.sales
    }

    /// Adds the results of background probes: whether the database accepts writes.
    pub async fn add_write_probe(&mut self, snapshot: &mut Snapshot) {
        if let Some(answer) = self.writes.answer().await {
            self.sql.note_writes(answer);
            snapshot.sql.unwritable.clone_from(&self.sql.unwritable);
            snapshot.alarms = alarms(snapshot, None);
        }
    }

    /// Returns the losses published by nodes in Redis.
    pub async fn losses(&mut self) -> Result<Vec<AuditEntry>> {
        let home = self.keys.home();
        in_time(&mut self.conn, async |conn| published(conn, &home).await).await
    }

    /// Sales with a change that Redis has not confirmed; one made since the last read may be in progress.
    fn undelivered(&mut self) -> Vec<VoucherId> {
        let waiting = self.sales.iter().filter(|sale| sale.is_undelivered());
        let now: Vec<_> = waiting.map(|shard| (shard.id, shard.version)).collect();
        let before = std::mem::replace(&mut self.undelivered, now);
        let first = self.seq == 1;
        let stays = |it: &&(ShardId, u64)| first || before.contains(it);
        let stay = self.undelivered.iter().filter(stays);
        let mut sales: Vec<_> = stay.map(|(shard, _)| shard.voucher()).collect();
        sales.dedup();
        sales
    }

    /// Returns the figures of the last snapshot if nothing is in flight and order IDs were not compared recently or
    /// since they changed: the moment for an audit.
    pub fn audit_due(&self) -> Option<Figures> {
        let now = self.past.last().filter(|it| it.whole && self.redis.up && self.sql.up)?;
        let figures = &now.figures;
        let fresh = |audit: &Audited| audit.figures == *figures && Instant::now() < audit.again;
        let known = self.audit.as_ref().is_some_and(fresh);
        let before = self.past.before_last();
        let still = before.is_some_and(|it| it.whole && it.figures == *figures);
        (figures.is_at_rest() && still && !known).then(|| figures.clone())
    }

    /// Returns whether a finding by order ID is open, which only another audit resolves.
    pub fn needs_audit(&self) -> bool {
        self.hysteresis.needs_audit()
    }

    /// Records the findings of an audit by order ID for these figures; the next one is due at `again`.
    pub fn note_audit(&mut self, figures: Figures, findings: Vec<SaleFinding>, again: Instant) {
        self.audit = Some(Audited { figures, findings, again });
    }

    /// Returns the findings of the last audit, if it covered these figures.
    pub fn found(&self, figures: &Figures) -> Option<&[SaleFinding]> {
        let audit = self.audit.as_ref().filter(|audit| audit.figures == *figures)?;
        Some(&audit.findings)
    }

    /// Returns whether the last two snapshots differ, so that the next one must confirm the figures.
    pub fn is_changing(&self) -> bool {
        let [now, before] = [self.past.last(), self.past.before_last()];
        now.map(|it| &it.figures) != before.map(|it| &it.figures)
    }

    /// Returns the time by the clock of Redis as far as known: sales open and close by it.
    fn now(&self) -> Millis {
        Millis::now().plus(self.ahead)
    }

    async fn read_sql(&mut self) {
        let start = Instant::now();
        let reading = async {
            // A missing or damaged table of orders must not look like a balanced ledger.
            self.store.orders(&OrderFilter::default(), None, 1).await?;
            if self.sql_clock_asked.is_none_or(|(asked, _)| asked.elapsed() > ASK_CLOCK_AGAIN) {
                self.sql_ahead = self.store.clock_ahead_ms(self.sql_ahead.unwrap_or(0)).await?;
                self.sql_clock_asked = Some((Instant::now(), self.ahead));
            }
            Ok((self.store.readable_sales().await?, self.store.returning().await?))
        };
        let answer: Result<Result<_, StoreError>, _> =
            tokio::time::timeout(READ_TIMEOUT, reading).await;
        let result = match answer {
            Ok(Ok((Sales { shards, unreadable }, returning))) => {
                self.sales = shards;
                let why = |it: &UnreadableSale| Message::of(&EngineError::Store(it.why.clone()));
                self.unreadable = unreadable.iter().map(|it| (it.voucher, why(it))).collect();
                self.returning = returning;
                Ok(())
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                let name = self.store.describe();
                Err(StoreError::Silent { name, millis: READ_TIMEOUT_MS }.into())
            }
        };
        let now = self.now();
        self.sql.note(now, start.elapsed(), result);
        if !self.sql.up {
            // A probe started before an outage is obsolete after it.
            self.writes = WriteProbe::default();
        } else if let Some(answer) = self.writes.ask(&self.store) {
            self.sql.note_writes(answer);
        }
    }

    /// Facts of a shard in Redis; older ones remain during an outage.
    fn facts(&self, shard: ShardId) -> SaleStats {
        self.facts.get(&shard).copied().unwrap_or_default()
    }

    fn sample(&self) -> Sample {
        let sales = self.sales.iter().map(|sale| (sale, self.facts(sale.id)));
        let stream = self.stats.as_ref().map(|stats| &stats.stream);
        Sample {
            at: Instant::now(),
            busy: self.meters.busy(),
            whole: self.is_whole(),
            figures: Figures::of(sales, stream, self.returning),
            facts: Arc::clone(&self.facts),
        }
    }

    fn note_rates(&mut self, now: &Sample) {
        let admitted =
            |sample: &Sample| sample.facts.values().map(|facts| facts.admitted).sum::<u64>();
        let refused = |sample: &Sample| sample.facts.values().map(SaleStats::refused).sum::<u64>();
        let all = self.redis.up && self.conn.lost().is_empty();
        let stream = self.stats.as_ref().filter(|_| all).map(|stats| stats.stream);
        let point = Point {
            at: self.now(),
            admitted: self.past.tick(now.at, admitted(now), admitted).filter(|_| all),
            refused: self.past.tick(now.at, refused(now), refused).filter(|_| all),
            persisted: self
                .written
                .tick(now.at, now.figures.persisted, |it| *it)
                .filter(|_| self.sql.up),
            lag: stream.and_then(|stream| stream.lag),
            pending: stream.map(|stream| stream.pending),
            held: !self.sql.takes_writes(),
            p99_us: self.meters.latency().map(|latency| latency.p99),
        };
        self.series.push(point);
    }

    /// Returns whether both servers replied, and each server of a cluster.
    fn is_whole(&self) -> bool {
        self.redis.up && self.sql.up && self.conn.lost().is_empty()
    }

    /// Returns whether the last snapshot was complete and had the same figures.
    fn is_settled(&self, figures: &Figures) -> bool {
        self.past.last().is_some_and(|it| it.whole && it.figures == *figures)
    }

    /// Returns the balance of the ledger for this sample.
    fn balance(&mut self, figures: &Figures) -> Balance {
        if !self.is_whole() {
            return self.hysteresis.settle(Balance::Unknown, Proof::Nothing, Proof::Nothing);
        }
        let audit = self.found(figures);
        let settled = self.is_settled(figures);
        let now = figures.balance(audit, settled);
        let proof = figures.proof(&now, settled);
        let audited = audit.is_some_and(|found| !found.is_empty());
        let needed = if audited { Proof::Ids } else { figures.totals_need() };
        self.hysteresis.settle(now, proof, needed)
    }

    fn whole_funnel(&self, at: Instant, sales: &[SaleLine]) -> Funnel {
        let sum = |pick: fn(&Funnel) -> Count| {
            sales.iter().map(|sale| pick(&sale.funnel)).fold(Count::default(), |sum, count| Count {
                total: sum.total + count.total,
                per_second: sum.per_second + count.per_second,
            })
        };
        let busy = self.meters.busy();
        let busy_rate = self.past.rate(at, busy, |sample| Some(sample.busy));
        Funnel {
            attempts: sum(|f| f.attempts),
            admitted: sum(|f| f.admitted),
            sold_out: sum(|f| f.sold_out),
            duplicate: sum(|f| f.duplicate),
            rejected: sum(|f| f.rejected),
            busy: Count { total: busy, per_second: busy_rate.unwrap_or(0.0) },
        }
    }

    fn is_alive(&self, consumer: &str) -> bool {
        let stats = self.stats.as_ref();
        stats.is_some_and(|stats| stats.works(consumer, self.node_dead_ms))
            || (is_replay(consumer) && self.is_operated(node_of(consumer)))
    }

    /// Whether an operator on `node` works, under a lock that is renewed: it claims no entries while it waits for SQL.
    fn is_operated(&self, node: &str) -> bool {
        let mut locks = self.locks.iter().flat_map(|locks| &locks.locks);
        locks.any(|lock| lock.name == operator_lock::NAME && lock.node == node && !lock.orphan)
    }

    fn consumers(&self, stats: &RedisStats) -> Vec<ConsumerLine> {
        let line = |it: &ConsumerStats| {
            let state = stats.nodes.state(&it.name, it.idle_ms, self.node_dead_ms);
            ConsumerLine {
                partition: it.partition,
                name: it.name.clone(),
                state,
                alive: self.is_alive(&it.name),
                known: state != NodeState::Stopped,
                pending: it.pending,
                idle_ms: it.idle_ms,
                per_second: it.per_second.filter(|_| state == NodeState::Alive),
            }
        };
        stats.consumers.iter().map(line).collect()
    }

    /// The reports of live nodes, with their names.
    fn reports<'a>(
        &self,
        stats: Option<&'a RedisStats>,
    ) -> impl Iterator<Item = (&'a str, NodeReport)> {
        let dead_ms = self.node_dead_ms;
        stats.into_iter().flat_map(move |stats| {
            let alive = stats.reports.iter().filter(move |it| stats.nodes.is_alive(&it.0, dead_ms));
            alive.filter_map(|(node, json)| Some((node.as_str(), NodeReport::read(node, json)?)))
        })
    }

    fn node_lines(&self, stats: &RedisStats) -> Vec<NodeLine> {
        let mut lines = NodeLine::all(&stats.nodes, self.node_dead_ms);
        for (node, report) in self.reports(Some(stats)) {
            if let Some(line) = lines.iter_mut().find(|it| it.name == node) {
                line.clock_ahead_ms = Some(report.clock_ahead_ms);
                line.zone = report.zone;
            }
        }
        lines
    }

    /// What this process and the heartbeats of live nodes say.
    fn refused_sales(&self, stats: Option<&RedisStats>) -> Vec<(VoucherId, Message)> {
        let mut refused = self.meters.refused_sales();
        for (_, report) in self.reports(stats) {
            report.refused().for_each(|(sale, why)| _ = refused.entry(sale).or_insert(why));
        }
        refused.into_iter().collect()
    }

    /// HTTP servers of live nodes. A dead node leaves its last figures behind.
    fn http_lines(&self, stats: &RedisStats) -> Vec<HttpLine> {
        let alive = |(node, _): &&(String, String)| stats.nodes.is_alive(node, self.node_dead_ms);
        let line = |(node, figures): &(String, String)| {
            let line: HttpLine = serde_json::from_str(figures)
                .inspect_err(|error| tracing::debug!(node, %error, "unreadable HTTP figures"))
                .ok()?;
            Some(HttpLine { node: node.clone(), ..line })
        };
        let mut lines: Vec<_> = stats.http.iter().filter(alive).filter_map(line).collect();
        lines.sort_by(|a, b| a.node.cmp(&b.node));
        lines
    }

    fn stream_line(&self, stats: &RedisStats) -> StreamLine {
        let mut consumers = self.consumers(stats);
        // Dead consumers without entries are omitted.
        consumers.retain(|consumer| consumer.alive || consumer.pending > 0);
        // Sorted by state and name: sorted by entries, rows would move with each batch.
        consumers.sort_by(|a, b| a.alive.cmp(&b.alive).then_with(|| a.name.cmp(&b.name)));
        let stream = &stats.stream;
        StreamLine {
            length: stream.length,
            oldest_ms: stream.first.map(|id| stats.now.since(id.added())),
            lag: stream.lag.filter(|_| self.conn.lost().is_empty()),
            pending: stream.pending,
            oldest_pending_ms: stream.oldest_pending.map(|id| stats.now.since(id.added())),
            dead: stream.dead,
            group: stream.group,
            consumers,
        }
    }
}
