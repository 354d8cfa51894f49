//! A view of a flash-sale service that another program runs: the services of the tutorials, or one like them.
//!
//! A [`Profile`] has the names of its keys, tables and columns. [`doctor`] compares them with what exists, and a
//! [`Watcher`] reads the state in passes of bounded cost, each a [`Report`] with its [`Alarm`]s. They change no key, row or
//! group: Redis is read with SCAN and never with KEYS, and SQL with SELECT along primary keys. Only
//! [`Recovery::apply`](recover::Recovery::apply) and [`migrate`] change anything, by a plan that was shown before.

mod alarms;
mod buyers;
mod database;
pub mod doctor;
mod locks;
mod marks;
pub mod migrate;
pub mod profile;
pub mod recover;
mod report;
mod stream;
mod watcher;

use seckill_model::{
    Label, Reason,
    reason::{Arg, reason},
    text,
};
use seckill_redis::{Redis, RedisError};
use seckill_store::StoreError;

pub use alarms::{Alarm, Poison};
pub use locks::MOST as MOST_LOCKS;
pub use profile::Profile;
pub use report::{ConsumerReport, Cost, Kind, LockReport, Locks, Report, SaleReport, StreamReport};
pub use watcher::{Limits, Watcher};

/// Keys, members or entries of one command. Redis serves no other client meanwhile: 1,000 members of a set take 0.6 ms.
pub const PAGE: usize = 200;

/// Result of a read.
pub type Result<T, E = AttachError> = std::result::Result<T, E>;

/// Why the service cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Redis is unreachable, or rejects a command.
    #[error("{}", of_redis(.0))]
    Redis(#[from] RedisError),
    /// The database is unreachable, or rejects a statement.
    #[error("{}", of_store(.0))]
    Store(StoreError),
    /// The deployment does not match the profile.
    #[error(transparent)]
    Mismatch(Reason),
    /// The recovery was refused or interrupted.
    #[error(transparent)]
    Refused(Reason),
    /// The profile, or what it is used with, is invalid.
    #[error(transparent)]
    Invalid(Reason),
}

/// No node of an engine works on a service of another program.
fn of_redis(error: &RedisError) -> String {
    match error {
        RedisError::NoGroup => Label("attach-group-lost").to_owned(),
        other => other.to_string(),
    }
}

/// The same; and what a commit with an unknown outcome has done shows in SQL.
fn of_store(error: &StoreError) -> String {
    match error {
        StoreError::Away(reason) => text!("cli-database-unavailable", reason),
        StoreError::Locked => Label("attach-database-locked").to_owned(),
        StoreError::Unknown(reason) => text!("attach-commit-unknown", reason),
        other => other.to_string(),
    }
}

/// Tables and columns belong to the service, so a missing one is no damage of the store.
impl From<StoreError> for AttachError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Schema(why) => {
                Self::Mismatch(reason!("attach-schema", reason = cause(why)))
            }
            other => Self::Store(other),
        }
    }
}

/// The message of the server, without the advice for the store's own tables.
fn cause(why: Reason) -> Reason {
    match why {
        Reason::Localized { id, mut args } => match args.remove("reason") {
            Some(Arg::Text(message)) => message,
            _ => Reason::Localized { id, args },
        },
        other => other,
    }
}

/// Rejects a cluster: the keys of these services are in several slots, which one script of a cluster cannot use.
fn check_single(redis: &Redis) -> Result<()> {
    if redis.is_cluster() {
        return Err(AttachError::Invalid(reason!("attach-cluster")));
    }
    Ok(())
}
