//! Alarms in a snapshot: their subjects. The rules that raise them and their texts are elsewhere.

use std::ops::Not;

use serde::Serialize;

pub use seckill_model::Urgency;
use seckill_model::{ForeignKey, Message, ShardId, VoucherId, ledger::SaleFinding};

use seckill_redis::connection::LostServer;

use super::data_loss::{RecentLosses, Unwitnessed};

/// A condition that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// How urgent.
    pub urgency: Urgency,
    /// Its condition.
    pub kind: AlarmKind,
}

/// Subject of an alarm; the console adds the text and the key that helps.
#[derive(Clone, Debug, PartialEq, Serialize, strum::IntoStaticStr)]
#[serde(tag = "alarm", rename_all = "snake_case")]
#[strum(serialize_all = "kebab-case")]
pub enum AlarmKind {
    /// Redis is unreachable.
    RedisAway {
        /// The error.
        error: Message,
    },
    /// A server of the cluster is unreachable while others reply.
    ServerLost(LostServer),
    /// Redis can be read, but accepts no writes.
    RedisReadOnly {
        /// The error.
        error: Message,
    },
    /// Too few replicas of Redis confirm orders.
    Unconfirmed(Unconfirmed),
    /// A key was overwritten by another program.
    ForeignKey(ForeignKey),
    /// The database is unreachable.
    SqlAway {
        /// The error.
        error: Message,
    },
    /// Another program keeps the database locked: it can be read, but accepts no writes.
    SqlLocked {
        /// Entries waiting for it; `None` if unknown.
        waiting: Option<u64>,
    },
    /// The database can be read, but accepts no writes for another reason than a lock.
    SqlReadOnly {
        /// The error.
        error: Message,
    },
    /// SQL has lost sales, or shards of them, that Redis still has.
    SalesLost {
        /// The sales; of one that SQL has lost in part, the shards.
        sales: Vec<ShardId>,
        /// Admitted orders of these sales that are not in SQL; `None` if unknown.
        orders: Option<u64>,
    },
    /// The database accepts no orders of a sale.
    OrdersWait {
        /// The sale.
        sale: VoucherId,
        /// Its admitted orders that wait in the stream; `None` if unknown.
        waiting: Option<u64>,
        /// The error.
        error: Message,
    },
    /// A row of a sale in SQL cannot be read.
    SaleUnreadable {
        /// The sale.
        sale: VoucherId,
        /// The error.
        error: Message,
    },
    /// Changes of sales are committed in SQL, but not confirmed by Redis.
    Undelivered {
        /// The sales.
        sales: Vec<VoucherId>,
    },
    /// The audit failed.
    AuditFailed {
        /// The first finding.
        #[serde(serialize_with = "sentence")]
        finding: SaleFinding,
        /// Number of the others.
        more: usize,
        /// At least one finding can be repaired automatically.
        repairable: bool,
    },
    /// A dead consumer, or one of an unknown node, holds entries.
    DeadConsumer {
        /// Its name.
        consumer: String,
        /// Whether its node is known; an unknown one never was a node, or has stopped.
        known: bool,
        /// Number of entries.
        pending: u64,
        /// How many of them may hold an order that is not in SQL: the others are only to be acknowledged. `None` if SQL
        /// was not read.
        at_risk: Option<u64>,
        /// SQL has lost a sale: a recovery leaves the entries of it until it is restored.
        #[serde(skip_serializing_if = "Not::not")]
        sale_lost: bool,
        /// Milliseconds since its last read.
        idle_ms: u64,
    },
    /// A consumer of a live node holds entries, but has not read any in a long time.
    SilentConsumer {
        /// Its name.
        consumer: String,
        /// Number of entries.
        pending: u64,
        /// Milliseconds since its last read.
        idle_ms: u64,
    },
    /// The lag stays large; detected only by a node, which measures it continuously.
    LagHigh {
        /// Number of entries.
        lag: u64,
        /// Milliseconds until they are processed at the current rate; `None` if their number does not fall.
        drains_ms: Option<u64>,
    },
    /// The last run of a job failed.
    JobFailed {
        /// Its name.
        job: String,
        /// Milliseconds since that run started.
        ago_ms: u64,
        /// Its error.
        why: Message,
    },
    /// There are dead letters.
    DeadLetters {
        /// Number of dead letters.
        count: u64,
    },
    /// The group was destroyed or never created.
    NoGroup,
    /// Keys in Redis are inconsistent, and not reconciled yet.
    Damaged {
        /// The keys.
        keys: Vec<String>,
    },
    /// Redis has more buyers of sales than pieces: these stay closed until there are enough.
    Oversold {
        /// The sales, or their shards.
        sales: Vec<ShardId>,
    },
    /// Another clock and that of Redis, by which sales open and close and orders are dated, read different times.
    ClockSkew {
        /// Whose clock.
        of: ClockOf,
        /// How far the clock of Redis is ahead, in milliseconds; negative if it is behind.
        ahead_ms: i64,
    },
    /// The settings of live nodes want different time zones for the jobs of the deployment.
    TimeZonesDiffer {
        /// Name and time zone of each node whose settings name one.
        zones: Vec<(String, String)>,
    },
    /// Redis had lost data, which a node has restored.
    DataLoss {
        /// The losses.
        #[serde(flatten)]
        losses: RecentLosses,
        /// Entries held by dead consumers.
        pending: u64,
    },
    /// Redis restarted or failed over while no node lived: admissions may be missing.
    Unwitnessed(Unwitnessed),
    /// A server is reachable again; shown for a minute.
    ServerBack {
        /// The server.
        server: String,
        /// Length of the outage in milliseconds.
        away_ms: u64,
    },
}

/// Redis confirms no orders as `wait_replicas` demands, so no buyer gets a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unconfirmed {
    /// How many replicas acknowledge; `None` if Redis does not let this user ask them.
    pub replicas: Option<u32>,
    /// How many have to.
    pub wanted: u32,
    /// Why they cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Message>,
}

/// Whose clock is compared with that of Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "kebab-case")]
pub enum ClockOf {
    /// The host of this process.
    Host,
    /// The database.
    Database,
    /// The host of this node.
    Node(String),
}

/// On which side of another clock that of Redis is, as a word for texts.
pub fn skew_side(ahead_ms: i64) -> &'static str {
    if ahead_ms > 0 { "ahead" } else { "behind" }
}

fn sentence<S: serde::Serializer>(finding: &SaleFinding, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(finding)
}
