//! Errors of the lab, as data.

use seckill_engine::{EngineError, locks::LockError};
use seckill_model::{Label, OsError, Reason, text};
use seckill_redis::{DataDirError, RedisError};
use seckill_store::StoreError;

use crate::Database;

/// Result of an operation of the lab.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why the lab failed. That a design breaks a promise is a [`Verdict`](crate::Verdict), not an error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The work or a name is invalid.
    #[error(transparent)]
    Invalid(Reason),
    /// The database of the lab failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The Redis server of the lab failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The engine of the lab failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The temporary directory or the server in it failed.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A replica of Redis was not set up or promoted.
    #[error("{}", text!("lab-replica", reason = .0))]
    Replica(Reason),
    /// A database server is not installed or did not start.
    #[error("{}", text!("lab-database", database = .0.title(), reason = .1))]
    Database(Database, Reason),
    /// An instance did not start, ended early or did not finish in time.
    #[error("{}", text!("lab-instance", instance = .0.to_string(), reason = .1))]
    Instance(u32, Reason),
    /// The user cancelled the run.
    #[error("{}", Label("lab-cancelled"))]
    Cancelled,
}

impl From<LockError> for LabError {
    fn from(error: LockError) -> Self {
        Self::Engine(error.into())
    }
}

impl LabError {
    /// A message between the processes was not written, or not as expected.
    pub(crate) fn pipe(instance: u32, error: impl Into<std::io::Error>) -> Self {
        Self::Instance(instance, OsError::of(&error.into()).into())
    }
}
