//! Errors of the engine.

use std::io;

use seckill_model::{OsError, Reason, VoucherId, ledger::SaleFinding, message::text};
use serde::{Deserialize, Serialize};

pub use seckill_redis::RedisError;
pub use seckill_store::StoreError;

use crate::{lists, locks::LockError};

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
    Io(OsError),
}

impl From<io::Error> for PlanError {
    fn from(error: io::Error) -> Self {
        Self::Io(OsError::of(&error))
    }
}

/// Result of an operation of the engine.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

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
    /// The command is invalid, or its object does not allow it now.
    #[error("{0}")]
    Rejected(Reason),
    /// The command failed.
    #[error("{0}")]
    Failed(Reason),
    /// Commands are rejected.
    #[error("{}", text!("error-read-only"))]
    ReadOnly,
    /// The engine is stopping.
    #[error("{}", text!("error-stopping"))]
    Stopping,
    /// A lock was not acquired, or was lost.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A recovery plan that cannot be created or applied.
    #[error(transparent)]
    Recovery(#[from] PlanError),
    /// The audit failed.
    #[error("{}", text!("error-audit-failed", finding = _0))]
    Unbalanced(SaleFinding),
    /// A multi-step command that failed after some steps.
    #[error("{}", text!("error-broke-off", why, done))]
    BrokeOff {
        /// What failed.
        why: Box<EngineError>,
        /// What was done by then, and how to continue.
        done: Reason,
    },
    /// Another node with this name is alive.
    #[error("{}", text!("error-name-taken", name = _0))]
    NameTaken(String),
    /// Redis holds another sale with that ID and another creation time.
    #[error("{}", text!("error-other-sale", sale = _0))]
    OtherSale(VoucherId),
    /// Redis has a newer version of the sale than SQL, which was set back.
    #[error("{}", text!("error-sql-behind", sale = _0))]
    SqlBehind(VoucherId),
    /// Whether Redis has a newer version of the sale than SQL is unknown.
    #[error("{}", text!("error-unchecked", sale = _0))]
    Unchecked(VoucherId),
    /// SQL has lost a sale that Redis still has.
    #[error("{}", text!("error-lost-in-sql", sale = _0))]
    LostInSql(VoucherId),
    /// Keys are being reconciled by another process, or are lost repeatedly.
    #[error("{}", text!("error-reconciling", key = _0))]
    Reconciling(String),
    /// Redis lacks keys of the sale.
    #[error("{}", text!("error-not-held", sale = _0))]
    NotHeld(VoucherId),
    /// A change of a sale is committed in SQL, and Redis has not confirmed it.
    #[error("{}", not_loaded(*voucher, shards, why))]
    NotLoaded {
        /// The voucher.
        voucher: VoucherId,
        /// Its shards that lack the change, if it is spread.
        #[serde(default)]
        shards: Vec<u16>,
        /// Why Redis did not confirm it.
        why: RedisError,
    },
}

fn not_loaded(sale: VoucherId, shards: &[u16], why: &RedisError) -> String {
    text!("error-not-loaded", sale, count = shards.len(), shards = lists::numbers(shards), why)
}

impl EngineError {
    /// Adds what a multi-step command had done before it failed: a number of steps, and how to continue.
    pub(super) fn after(self, steps: u64, done: impl FnOnce() -> Reason) -> Self {
        if steps == 0 { self } else { Self::BrokeOff { why: Box::new(self), done: done() } }
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
                            | RedisError::ClientCertificate { .. }
                    )
            }
            Self::Store(error) => error.is_away(),
            Self::Lock(error) => error.is_away(),
            Self::BrokeOff { why, .. } => why.is_away(),
            _ => false,
        }
    }
}
