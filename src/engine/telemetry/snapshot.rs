//! The Snapshot: everything a screen or `seckill status` shows, frozen at one moment.

use std::{collections::HashSet, sync::Arc};

use seckill_model::{
    EntryId, ForeignKey, JobRun, Millis, OrderId, Phase, Said, Sale, SaleState, UserId, Verdict,
    VoucherId, ledger::Balance,
};
pub use seckill_redis::{
    entries::Holding,
    lock_holders::{Holder, Holders, Kind},
    nodes::NodeState,
};
use seckill_redis::{nodes::Nodes, stream_stats::SaleFacts};
use seckill_store::Recorded;
use serde::{Deserialize, Serialize};

pub use super::{
    attention::{Alarm, AlarmKind, Urgency},
    entries::{EntryLine, GroupConsumer, PartitionLine, StreamPage},
    letters::{LetterLine, LetterPage},
    orders::{OrdersPage, SaleOrders},
};
use super::{census::Census, ledger_page::LedgerPage, log::LogPage, series::Series, stock::Stocks};

/// One immutable picture of the engine and its servers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Rises with each picture; 0 is the empty one before the first.
    pub seq: u64,
    /// When it was taken, by the clock of Redis.
    pub taken: Millis,
    /// How far that clock is ahead of this node's, in ms; 0 where they agree as far as an answer tells.
    pub clock_ahead_ms: i64,
    /// This node's name; empty where no engine runs.
    pub node: String,
    /// Acts are refused by the engine.
    pub read_only: bool,
    /// Milliseconds after its last delivery at which this node takes an entry over from another consumer; `None` where no
    /// engine runs.
    pub claim_idle_ms: Option<u64>,
    /// Redis: health, and the age of all that was read from it.
    pub redis: Health,
    /// The database: health, and the age of all that was read from it.
    pub sql: Health,
    /// All sales that are not archived: those that run first, then those of which an alarm tells, then by
    /// phase; the newest first among equals.
    pub sales: Vec<SaleLine>,
    /// Sales with a change that is committed in SQL and that Redis has not confirmed.
    pub undelivered: Vec<VoucherId>,
    /// Admission's answers, summed over all sales.
    pub funnel: Funnel,
    /// Live orders in SQL, of all sales.
    pub written: Count,
    /// The order stream and its group; `None` until it was read once.
    pub stream: Option<StreamLine>,
    /// One page of the pending list, the page that the focus asks for.
    pub pending: PendingPage,
    /// All pending entries by age and deliveries; counted only while somebody looks, so it is in no document.
    #[serde(skip)]
    pub census: Option<Census>,
    /// One page of the dead letters; read only while somebody looks at them, so it is in no document.
    #[serde(skip)]
    pub letters: LetterPage,
    /// One window of the order stream; read only while somebody looks at it.
    #[serde(skip)]
    pub entries: StreamPage,
    /// Orders of the sale whose detail is open; `None` while none is, or until they were counted.
    #[serde(skip)]
    pub sale_orders: Option<SaleOrders>,
    /// One page of the orders in SQL; read only while somebody looks at them.
    #[serde(skip)]
    pub orders: OrdersPage,
    /// The ledger's word.
    pub books: Balance,
    /// The last audit by order ID; made again and again only while it is on the screen.
    #[serde(skip)]
    pub ledger: LedgerPage,
    /// Admission latency seen by this node in the last seconds.
    pub latency: Option<Latency>,
    /// Rates over time.
    #[serde(skip)]
    pub series: Arc<Series>,
    /// What was left of each sale over its time.
    #[serde(skip)]
    pub stocks: Stocks,
    /// What needs a person, the most urgent first.
    pub alarms: Vec<Alarm>,
    /// Simulated rushes of this node that are under way.
    pub rushes: Vec<RushLine>,
    /// Plans and acts of recovery of this node that are under way.
    pub recoveries: Vec<RecoveryLine>,
    /// Locks that are held.
    pub locks: Holders,
    /// Keys of the program that another program has written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// Keys of sales and streams that do not agree with the others, and are not reconciled yet.
    pub damaged: Vec<String>,
    /// Scheduled jobs, as this node knows them.
    pub jobs: Vec<JobLine>,
    /// Nodes that gave a sign of life within a day.
    pub nodes: Vec<NodeLine>,
    /// The newest lines of the log, newest first; empty where no engine runs.
    pub activity: Arc<Vec<Recorded>>,
    /// One page of it; read only while somebody looks at it, so it is in no document.
    #[serde(skip)]
    pub log: LogPage,
}

impl Snapshot {
    /// The sale of that number.
    pub fn sale(&self, voucher_id: VoucherId) -> Option<&SaleLine> {
        self.sales.iter().find(|sale| sale.voucher_id == voucher_id)
    }

    /// The sale to speak of where none sells and nobody chose one: the newest that runs, then one that will run or has
    /// run.
    pub fn foremost(&self) -> Option<&SaleLine> {
        let first = |phase: Phase| self.sales.iter().find(|sale| sale.phase == phase);
        first(Phase::Running)
            .or_else(|| first(Phase::Paused))
            .or_else(|| first(Phase::Planned))
            .or_else(|| first(Phase::SoldOut))
            .or_else(|| first(Phase::Ended))
    }

    /// Puts the sales that an operator watches before those that wait or are over.
    pub fn order_sales(&mut self) {
        let findings = match &self.books {
            Balance::Off { findings } => findings.as_slice(),
            _ => &[],
        };
        let found = findings.iter().filter_map(|finding| finding.sale);
        let off: HashSet<VoucherId> = found.chain(self.undelivered.iter().copied()).collect();
        self.sales.sort_by_key(|sale| match sale.phase {
            Phase::Running => 0,
            _ if off.contains(&sale.voucher_id) => 1,
            Phase::Paused | Phase::SoldOut => 2,
            Phase::Planned => 3,
            Phase::Ended | Phase::Archived => 4,
        });
    }

    /// The sales that this node's simulated buyers are sent to, each once, by number.
    pub fn rushed(&self) -> Vec<VoucherId> {
        let mut sales: Vec<_> = self.rushes.iter().map(|rush| rush.voucher_id).collect();
        sales.sort_unstable();
        sales.dedup();
        sales
    }
}

/// One server's health.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Health {
    /// What it is, for example `redis 7.0.15` or `sqlite`.
    pub name: String,
    /// Whether the last attempt to read it went well.
    pub up: bool,
    /// How long that attempt took, in microseconds.
    pub latency_us: u64,
    /// When it last answered: the age of everything read from it.
    pub last_ok: Option<Millis>,
    /// What the last attempt said, if it failed; holds no password.
    pub error: Option<Said>,
    /// Since when it does not answer: when the first attempt that failed began.
    pub away_since: Option<Millis>,
    /// It has come back within the last minute.
    pub back: Option<Back>,
    /// Why it takes no writes though it is read; only of a server that answers.
    pub unwritable: Option<Said>,
}

impl Health {
    /// Whether it answers, and nothing is known to stand in the way of a write.
    pub fn takes_writes(&self) -> bool {
        self.up && self.unwritable.is_none()
    }
}

/// A server that has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Back {
    /// When it answered again.
    pub at: Millis,
    /// Milliseconds that it was away.
    pub after_ms: u64,
}

/// One sale on the screen.
#[derive(Clone, Debug, Serialize)]
pub struct SaleLine {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// What buyers read; may hold wide characters.
    pub title: String,
    /// Where it stands, by the clock of Redis.
    pub phase: Phase,
    /// What the operator decided.
    pub state: SaleState,
    /// Orders that one user may hold.
    pub limit: u8,
    /// When it was last changed in SQL, by an operator or by an order.
    pub changed: Millis,
    /// Pieces ever put on sale.
    pub initial: u64,
    /// Pieces left in Redis; `None` where Redis does not hold the sale, or was not asked yet.
    pub stock: Option<i64>,
    /// Pieces left in SQL.
    pub db_stock: u64,
    /// Opening of the window.
    pub begin: Option<Millis>,
    /// End of the window.
    pub end: Option<Millis>,
    /// Buyers admitted; `None` until Redis was read once.
    pub admitted: Option<u64>,
    /// Live orders in SQL.
    pub persisted: u64,
    /// Admission's answers for this sale.
    pub funnel: Funnel,
}

impl SaleLine {
    /// A sale as SQL tells it at `now`, with what Redis holds of it; rates are unknown.
    pub fn of(sale: &Sale, now: Millis, facts: Option<&SaleFacts>) -> Self {
        let stock = facts.and_then(|facts| facts.initial.and(facts.stock));
        let left = stock.and_then(|stock| u64::try_from(stock).ok());
        Self {
            voucher_id: sale.voucher_id,
            title: sale.title.clone(),
            phase: sale.phase(now, left),
            state: sale.state,
            limit: sale.limit,
            changed: sale.changed,
            initial: sale.initial,
            stock,
            db_stock: sale.stock,
            begin: sale.begin,
            end: sale.end,
            admitted: facts.map(|facts| facts.buyers),
            persisted: sale.live_orders(),
            funnel: facts.map(|facts| Funnel::of(facts, |_| 0.0)).unwrap_or_default(),
        }
    }
}

/// How buyers were answered, with the rates of the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Funnel {
    /// All requests that were answered.
    pub attempts: Count,
    /// Took a piece.
    pub admitted: Count,
    /// Found nothing left.
    pub sold_out: Count,
    /// Held an order already.
    pub duplicate: Count,
    /// Too early, too late, paused or not loaded.
    pub rejected: Count,
    /// Turned away because this node's queue was full.
    pub busy: Count,
}

impl Funnel {
    /// What Redis counted of one sale; `rate` tells how fast a counter rises.
    pub(super) fn of(facts: &SaleFacts, rate: impl Fn(fn(&SaleFacts) -> u64) -> f64) -> Self {
        let count =
            |pick: fn(&SaleFacts) -> u64| Count { total: pick(facts), per_second: rate(pick) };
        Self {
            attempts: count(|f| f.admitted + f.sold_out + f.duplicate + f.rejected),
            admitted: count(|f| f.admitted),
            sold_out: count(|f| f.sold_out),
            duplicate: count(|f| f.duplicate),
            rejected: count(|f| f.rejected),
            busy: Count::default(),
        }
    }
}

/// A counter and how fast it rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// Since the sale was created; of what this node turned away, since it was started.
    pub total: u64,
    /// A second, over the last seconds; 0 where unknown.
    pub per_second: f64,
}

/// The order stream and its group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamLine {
    /// Entries in the stream, acknowledged ones included: so many could be replayed.
    pub length: u64,
    /// Milliseconds since the oldest of them was added: so far back they could be.
    pub oldest_ms: Option<u64>,
    /// Entries never delivered; `None` when Redis cannot tell.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// Milliseconds since the oldest pending entry was added.
    pub oldest_pending_ms: Option<u64>,
    /// Dead letters.
    pub dead: u64,
    /// The group exists.
    pub group: bool,
    /// Consumers, those that need somebody first, then by name.
    pub consumers: Vec<ConsumerLine>,
}

/// One consumer of the group.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerLine {
    /// Its name: node and number.
    pub name: String,
    /// Whether its node gave a sign of life in the last seconds.
    pub alive: bool,
    /// Whether it is of a node that is listed, or an operator's; one that is not is no node, or has stopped.
    pub known: bool,
    /// Entries in its hands.
    pub pending: u64,
    /// Milliseconds since it last asked for entries.
    pub idle_ms: u64,
}

/// One page of the pending list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PendingPage {
    /// Where the page starts: entries with this id or later.
    pub from: EntryId,
    /// When it was read, by the clock of Redis; `None` while nobody looks, or until it could be read.
    pub taken: Option<Millis>,
    /// Others stand behind it.
    pub more: bool,
    /// The entries, oldest first.
    pub lines: Vec<PendingLine>,
}

impl PendingPage {
    /// It was read, and nothing that is pending stands outside it.
    pub fn is_whole(&self) -> bool {
        self.taken.is_some() && self.from == EntryId::MIN && !self.more
    }
}

/// One pending entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingLine {
    /// Its id.
    pub entry: EntryId,
    /// Who holds it.
    pub consumer: String,
    /// Whether its holder's node is alive.
    pub holder_alive: bool,
    /// Whether its holder is of a node that is listed, or an operator's.
    pub holder_known: bool,
    /// Milliseconds since the entry was added.
    pub age_ms: u64,
    /// Milliseconds since it was last delivered.
    pub idle_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
    /// The order that it asks to write; `None` where the fields are not good.
    pub order: Option<OrderId>,
    /// Who bought.
    pub user: Option<UserId>,
    /// What was bought.
    pub voucher: Option<VoucherId>,
    /// What is wrong with its fields, or that its body is gone.
    pub fault: Option<Said>,
    /// What is true of it; `None` until it was judged, or where SQL does not answer.
    pub verdict: Option<Verdict>,
}

/// Admission latency, from asking to the answer, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Number of samples.
    pub samples: u64,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeLine {
    /// Its name.
    pub name: String,
    /// Whether it gave a sign of life in the last seconds.
    pub alive: bool,
    /// When it last did, by the clock of Redis.
    pub seen: Millis,
}

impl NodeLine {
    /// Every node that is known.
    pub fn all(nodes: &Nodes, dead_ms: u64) -> Vec<Self> {
        let line = |(name, seen): &(String, Millis)| Self {
            name: name.clone(),
            alive: nodes.is_alive(name, dead_ms),
            seen: *seen,
        };
        nodes.signs.iter().map(line).collect()
    }
}

/// One scheduled job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobLine {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// When it is due, in words.
    pub schedule: String,
    /// An operator paused it.
    pub paused: bool,
    /// When it is due next; `None` while it is paused, or where nobody can tell.
    pub next: Option<Millis>,
    /// Its newest runs, newest first.
    pub runs: Vec<JobRun>,
}

/// A plan that is being made, or an act of recovery under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryLine {
    /// Which act.
    pub act: String,
    /// Entries looked at so far.
    pub done: u64,
    /// Entries in all.
    pub planned: u64,
    /// It changes something, and can be broken off.
    pub changes: bool,
}

/// A simulated rush under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RushLine {
    /// What is bought.
    pub voucher_id: VoucherId,
    /// Requests sent so far.
    pub sent: u64,
    /// Requests planned.
    pub planned: u64,
}
