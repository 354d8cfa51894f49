//! Errors of the engine.

mod group;
mod partitions;

use std::io;

use seckill_model::{
    SaleError, VoucherId, ledger::SaleFinding, message::text, order_id::OrderIdError,
};
use serde::{Deserialize, Serialize};

pub use seckill_redis::{Reason as RedisReason, RedisError};
pub use seckill_store::{Reason as SqlReason, StoreError};

pub use group::{GroupError, Names};
pub use partitions::{Obstacle, PartitionsError};

use super::{
    lists::{ITEMS, sales as sale_list},
    locks::LockError,
};

/// Maximum length of the reason of a command, in user-perceived characters.
pub const MAX_REASON: usize = 1_000;
/// Maximum length of the reason of a command, in bytes.
pub const MAX_REASON_BYTES: usize = 16_000;
/// Maximum number of simulated buyers in a load test.
pub const MAX_USERS: u64 = 10_000_000;
/// Maximum number of requests in flight in a load test.
pub const MAX_CONCURRENCY: usize = 100_000;

/// Why a plan cannot be created, read or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanError {
    /// The file is not a plan.
    #[error("{}", text!("plan-not-a-plan"))]
    NotOne,
    /// The plan has another format.
    #[error("{}", text!("plan-version", version = _0.to_string()))]
    Version(u32),
    /// Its end is missing.
    #[error("{}", text!("plan-truncated"))]
    Truncated,
    /// Its digest does not match.
    #[error("{}", text!("plan-edited"))]
    Edited,
    /// The plan belongs to another deployment.
    #[error("{}", text!("plan-foreign"))]
    Foreign,
    /// The operating system reported this error.
    #[error("{}", text!("plan-io", error = _0))]
    Io(String),
}

impl From<io::Error> for PlanError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// What a multi-step command had done before it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartDone {
    /// Pending entries that were processed.
    #[error("{}", text!("done-applied", done, planned))]
    Applied {
        /// Number processed.
        done: u64,
        /// Total.
        planned: u64,
    },
    /// Dead letters that were replayed.
    #[error("{}", text!("done-replayed", done = _0))]
    Replayed(u64),
    /// Dead letters that were discarded.
    #[error("{}", text!("done-discarded", done = _0))]
    Discarded(u64),
    /// Entries that were claimed.
    #[error("{}", text!("done-claimed", done = _0))]
    Claimed(u64),
    /// Partitions whose consumer groups were moved back or created.
    #[error("{}", text!("done-rewound", partitions = list(_0)))]
    Rewound(Vec<u16>),
    /// Partitions from which the consumer was removed.
    #[error("{}", text!("done-removed", partitions = list(_0)))]
    Removed(Vec<u16>),
    /// Sales that were repaired.
    #[error("{}", text!("done-repaired", done = sales.len(), planned, sales = sale_list(sales)))]
    Repaired {
        /// Number repaired.
        sales: Vec<VoucherId>,
        /// Total.
        planned: u64,
    },
}

fn list(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(&ITEMS)
}

impl PartDone {
    fn is_none(&self) -> bool {
        match self {
            Self::Applied { done, .. }
            | Self::Replayed(done)
            | Self::Discarded(done)
            | Self::Claimed(done) => *done == 0,
            Self::Rewound(partitions) | Self::Removed(partitions) => partitions.is_empty(),
            Self::Repaired { sales, .. } => sales.is_empty(),
        }
    }
}

/// Why a command or a task failed, with the next step.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineError {
    /// Redis.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// SQL.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No order ID can be generated.
    #[error(transparent)]
    Id(#[from] OrderIdError),
    /// An invalid sale.
    #[error(transparent)]
    Sale(#[from] SaleError),
    /// Commands are rejected.
    #[error("{}", text!("error-read-only"))]
    ReadOnly,
    /// The engine is stopping.
    #[error("{}", text!("error-stopping"))]
    Stopping,
    /// The engine has too many commands to run.
    #[error("{}", text!("error-busy"))]
    Busy,
    /// The engine has stopped.
    #[error("{}", text!("error-stopped"))]
    Stopped,
    /// A lock was not acquired, or was lost.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A recovery plan that cannot be created or applied.
    #[error(transparent)]
    Recovery(#[from] PlanError),
    /// A command on the consumer group was rejected.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Another operator is running a recovery command.
    #[error("{}", text!("error-other-operator", who = _0))]
    OtherOperator(String),
    /// No such job.
    #[error("{}", text!("error-no-job", job = _0))]
    NoJob(String),
    /// The audit failed.
    #[error("{}", text!("error-audit-failed", finding = _0))]
    Unbalanced(SaleFinding),
    /// The audit of a benchmark failed.
    #[error("{}", text!("error-audit-failed", finding = _0))]
    AuditFailed(String),
    /// A setting of a load test that is out of range.
    #[error("{}", text!("faults-range", name, value, least, most))]
    LoadTest {
        /// The setting.
        name: String,
        /// Its value.
        value: f64,
        /// The minimum.
        least: f64,
        /// The maximum.
        most: f64,
    },
    /// Another run of that job took the place of the requested one.
    #[error("{}", text!("job-known", job = _0))]
    JobSuperseded(String),
    /// A node without heartbeat holds the lock of the job.
    #[error("{}", text!("job-orphan", node, lock, seconds))]
    JobOrphan {
        /// The node.
        node: String,
        /// The lock.
        lock: String,
        /// Seconds until its lease ends.
        seconds: u64,
    },
    /// The job is running on that node.
    #[error("{}", text!("job-runs", node = _0))]
    JobRuns(String),
    /// A paused sale cannot be started.
    #[error("{}", text!("error-is-paused", sale = _0))]
    IsPaused(VoucherId),
    /// The sale is already open.
    #[error("{}", text!("error-has-started", sale = _0))]
    HasStarted(VoucherId),
    /// A reason too long for the audit log.
    #[error("{}", text!("error-long-reason", characters, bytes, most = MAX_REASON, most_bytes = MAX_REASON_BYTES))]
    LongReason {
        /// Its length in user-perceived characters.
        characters: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A multi-step command that failed after some steps.
    #[error("{}", text!("error-broke-off", why, done))]
    BrokeOff {
        /// What failed.
        why: Box<EngineError>,
        /// What was done by then, and how to continue.
        done: PartDone,
    },
    /// An argument that is not valid.
    #[error("{0}")]
    Plan(String),
    /// Redis and the database belong to different deployments.
    #[error("{}", text!("error-foreign-redis", place = _0))]
    Foreign(String),
    /// An invalid number of partitions.
    #[error(transparent)]
    Partitions(#[from] PartitionsError),
    /// Another node with this name is alive.
    #[error("{}", text!("error-name-taken", name = _0))]
    NameTaken(String),
    /// A sale has fewer unsold pieces than the number to remove.
    #[error("{}", text!("error-short", sale = voucher, by, left))]
    Short {
        /// The voucher.
        voucher: VoucherId,
        /// Number to remove.
        by: u64,
        /// Unsold pieces in Redis.
        left: u64,
    },
    /// Redis holds another sale of that number, with another time of creation.
    #[error("{}", text!("error-other-sale", sale = _0))]
    OtherSale(VoucherId),
    /// The sale has more buyers than pieces.
    #[error("{}", text!("error-oversold", sale = _0))]
    Oversold(VoucherId),
    /// Keys are being reconciled by another process, or are lost repeatedly.
    #[error("{}", text!("error-reconciling", key = _0))]
    Reconciling(String),
    /// Redis lacks keys of the sale.
    #[error("{}", text!("error-not-held", sale = _0))]
    NotHeld(VoucherId),
    /// A change of a sale is committed in SQL, and Redis has not confirmed it.
    #[error("{}", text!("error-not-loaded", sale = voucher, why))]
    NotLoaded {
        /// The voucher.
        voucher: VoucherId,
        /// Why Redis did not confirm it.
        why: RedisError,
    },
}

impl EngineError {
    /// Adds what was `done` before the failure, if anything.
    pub(super) fn after(self, done: PartDone) -> Self {
        if done.is_none() { self } else { Self::BrokeOff { why: Box::new(self), done } }
    }

    /// Whether a server is unreachable, which is exit code 3 of the command line.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Redis(error) | Self::NotLoaded { why: error, .. } => {
                error.is_away()
                    || matches!(
                        error,
                        RedisError::Login { .. }
                            | RedisError::TooOld { .. }
                            | RedisError::Certificate { .. }
                    )
            }
            Self::Store(error) => error.is_away(),
            Self::Lock(error) => error.is_away(),
            Self::BrokeOff { why, .. } => why.is_away(),
            _ => false,
        }
    }
}
