//! Distributed locks: reentrant, and over several independent servers.
//!
//! This module knows Redis only, not sales or orders, so it can be reused. The protocol follows Redisson's lock: a hash
//! of owner and depth, a lease renewed by a watchdog, waiting by publish/subscribe. In addition each owner is one
//! acquisition, each call states the depth it wants so that a retry is harmless, and each acquisition has a fencing
//! token.

mod lease_clock;
mod multi;
mod name;
mod reentrant;
mod wakeup;
mod watchdog;

use std::time::Duration;

use redis::{ScriptInvocation, cmd};
use seckill_model::{Reason, clock::seconds, message::text};
use seckill_redis::{Connection, Layout, RedisError, scripts};
use serde::{Deserialize, Serialize};

pub use multi::{MultiGuard, MultiLock};
pub use name::LockName;
pub use reentrant::{Guard, Locks, Timing};
pub use watchdog::Watchdog;

/// Result of an operation on a lock.
pub(crate) type Result<T, E = LockError> = std::result::Result<T, E>;

/// Why a lock was not acquired, or was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockError {
    /// The name of the lock, or its set of servers, is invalid.
    #[error(transparent)]
    Rule(Reason),
    /// Redis replied after the end of the lease; the lock was released.
    #[error("{}", text!("lock-too-slow", lease = seconds(*lease), took = seconds(*took)))]
    TooSlow {
        /// The lease requested.
        lease: Duration,
        /// Time until the reply.
        took: Duration,
    },
    /// Another owner holds it.
    #[error("{}", text!("lock-busy", name = _0))]
    Busy(LockName),
    /// Its owner lost it: the lease ended, it was released by force, or Redis lost it.
    #[error("{}", text!("lock-lost", name = _0))]
    Lost(LockName),
    /// It is not held.
    #[error("{}", text!("lock-not-held", name = _0))]
    NotHeld(LockName),
    /// It has another holder now.
    #[error("{}", text!("lock-changed", name = _0))]
    Changed(LockName),
    /// Not all servers granted the lock.
    #[error("{}", text!("lock-member", name, address, why))]
    Member {
        /// Which lock.
        name: LockName,
        /// Which server.
        address: String,
        /// Why not.
        why: Box<LockError>,
    },
    /// Redis.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl LockError {
    /// Returns whether the same call may succeed later without any change.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_away())
    }

    /// Returns whether a waiter asks again.
    fn may_retry(&self) -> bool {
        matches!(self, Self::Busy(_)) || self.is_away()
    }

    /// Returns whether another round over several servers may succeed: a holder releases the lock, a server recovers.
    fn may_pass(&self) -> bool {
        match self {
            Self::Member { why, .. } => why.may_pass(),
            Self::Busy(_) | Self::Lost(_) | Self::TooSlow { .. } => true,
            other => other.is_away(),
        }
    }
}

/// Force-releases a lock if this owner holds it, and notifies the owner's node.
///
/// # Errors
/// [`LockError::Changed`] or [`LockError::NotHeld`] if this owner no longer holds the lock, or Redis is unreachable.
pub async fn revoke(
    conn: &mut Connection,
    keys: &Layout,
    name: &LockName,
    owner: &str,
) -> Result<()> {
    let mut simple = scripts::LOCK_RELEASE_SIMPLE.prepare_invoke();
    simple.key(keys.lock(name.as_str())).key(keys.locks()).arg(owner).arg(name.as_str());
    if conn.invoke::<u8>(&simple).await? == 1 {
        return Ok(());
    }
    match conn.invoke::<u8>(&release_call(keys, name, owner, 0)).await? {
        1 => Ok(()),
        _ if conn.query::<bool>(cmd("EXISTS").arg(keys.lock(name.as_str()))).await? => {
            Err(LockError::Changed(name.clone()))
        }
        _ => Err(LockError::NotHeld(name.clone())),
    }
}

/// Returns the call that releases one level of a lock at this depth, or with depth 0 all of it.
fn release_call(
    keys: &Layout,
    name: &LockName,
    owner: &str,
    depth: u32,
) -> ScriptInvocation<'static> {
    let mut call = scripts::LOCK_RELEASE.prepare_invoke();
    call.key(keys.lock(name.as_str())).key(keys.locks()).key(keys.lock_waiting(name.as_str()));
    call.arg(owner).arg(depth).arg(name.as_str()).arg(keys.lock_channel());
    call
}
