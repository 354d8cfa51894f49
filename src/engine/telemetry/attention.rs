//! Alarms as a picture holds them: how urgent, and about what. The rules that raise them, and their words, are
//! elsewhere.

use serde::Serialize;

use seckill_model::{ForeignKey, Said, VoucherId, ledger::SaleFinding};

use super::data_loss::RecentLosses;

/// How urgent an alarm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// Orders are lost or wrong, or a server is away.
    Critical,
    /// A person should act soon.
    Warning,
    /// A person should know.
    Notice,
}

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// How urgent.
    pub urgency: Urgency,
    /// What is true.
    pub kind: AlarmKind,
}

/// What an alarm is about; the console puts it into words and names the key that helps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "alarm", rename_all = "snake_case")]
pub enum AlarmKind {
    /// Redis does not answer.
    RedisAway {
        /// What it said.
        error: Said,
    },
    /// Redis is read, and takes no writes.
    RedisReadOnly {
        /// What it said.
        error: Said,
    },
    /// A key of the program holds what another program has written.
    ForeignKey(ForeignKey),
    /// The database does not answer.
    SqlAway {
        /// What it said.
        error: Said,
    },
    /// Another program keeps the database locked: it is read, and takes no writes.
    SqlLocked {
        /// Entries that wait for it; `None` where that is not known.
        waiting: Option<u64>,
    },
    /// The database is read, and takes no writes for another reason than a lock.
    SqlReadOnly {
        /// What it said.
        error: Said,
    },
    /// Changes of sales are committed in SQL, and Redis has not confirmed them.
    Undelivered {
        /// These sales.
        sales: Vec<VoucherId>,
    },
    /// The ledger found something.
    BooksOff {
        /// The first finding.
        #[serde(serialize_with = "sentence")]
        finding: SaleFinding,
        /// Some finding has an automatic repair; without one all of them need a person.
        repairable: bool,
    },
    /// A dead consumer, or one of no node that is known, holds entries.
    DeadConsumer {
        /// Its name.
        consumer: String,
        /// Whether its node is known; one that is not was no node, or has stopped.
        known: bool,
        /// How many entries.
        pending: u64,
        /// Milliseconds since it last asked for entries.
        idle_ms: u64,
    },
    /// A consumer of a live node holds entries, and has not asked for any in a long time.
    SilentConsumer {
        /// Its name.
        consumer: String,
        /// How many entries.
        pending: u64,
        /// Milliseconds since it last asked for entries.
        idle_ms: u64,
    },
    /// Many entries wait for a consumer, and hardly fewer than a while ago: only a node, which looks all the time, can
    /// tell.
    LagStands {
        /// How many.
        lag: u64,
        /// Milliseconds until they are worked off at that rate; `None` where they do not become fewer.
        drains_ms: Option<u64>,
    },
    /// The last run of a job failed.
    JobFailed {
        /// Its name.
        job: String,
        /// Milliseconds since that run began.
        ago_ms: u64,
    },
    /// There are dead letters.
    DeadLetters {
        /// How many.
        count: u64,
    },
    /// The group was destroyed, or never made.
    NoGroup,
    /// Keys in Redis do not agree with the others, and no node has reconciled them yet.
    Damaged {
        /// The keys.
        keys: Vec<String>,
    },
    /// Redis had lost data, and a node has put it back.
    RedisForgot {
        /// The losses.
        #[serde(flatten)]
        losses: RecentLosses,
        /// Entries that dead consumers hold.
        pending: u64,
    },
    /// A server answers again; told for a minute.
    ServerBack {
        /// Which one.
        server: String,
        /// Milliseconds that it was away.
        away_ms: u64,
    },
}

fn sentence<S: serde::Serializer>(finding: &SaleFinding, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(finding)
}

impl AlarmKind {
    /// Its place among other alarms: what was lost and what an operator must act on come before a mere backlog.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::RedisAway { .. }
            | Self::RedisReadOnly { .. }
            | Self::SqlAway { .. }
            | Self::SqlLocked { .. }
            | Self::SqlReadOnly { .. } => 0,
            Self::Undelivered { .. } => 1,
            Self::Damaged { .. } | Self::RedisForgot { .. } => 2,
            Self::BooksOff { .. } => 3,
            Self::ForeignKey(_) => 4,
            Self::NoGroup => 5,
            Self::DeadConsumer { .. }
            | Self::SilentConsumer { .. }
            | Self::LagStands { .. }
            | Self::JobFailed { .. }
            | Self::DeadLetters { .. } => 6,
            Self::ServerBack { .. } => 7,
        }
    }

    /// What it is about, whatever its figures are; `None` for what no log has to tell, since it is in there
    /// already.
    pub fn identity(&self) -> Option<&str> {
        match self {
            Self::RedisAway { .. }
            | Self::SqlAway { .. }
            | Self::ServerBack { .. }
            | Self::Damaged { .. }
            | Self::RedisForgot { .. } => None,
            Self::RedisReadOnly { .. } => Some("redis"),
            Self::ForeignKey(found) => Some(&found.key),
            Self::SqlLocked { .. } | Self::SqlReadOnly { .. } => Some("database"),
            Self::BooksOff { .. } => Some("books"),
            Self::Undelivered { .. } => Some("delivery"),
            Self::DeadConsumer { consumer, .. } | Self::SilentConsumer { consumer, .. } => {
                Some(consumer)
            }
            Self::LagStands { .. } => Some("lag"),
            Self::JobFailed { job, .. } => Some(job),
            Self::DeadLetters { .. } => Some("dead letters"),
            Self::NoGroup => Some("consumer group"),
        }
    }
}
