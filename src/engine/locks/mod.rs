//! Distributed locks: simple, reentrant, and over several independent servers.
//!
//! This room knows Redis and nothing of sales or orders, so that another project could lift it out.
//! The protocol is that of Redisson's lock: a hash of owner and depth, a lease that a watchdog
//! renews, waiting by publish/subscribe. Beyond it: each owner is one acquisition, each call says the
//! depth that it wants, so a retried call does no harm, and each acquisition has a fencing token.

mod connection;
mod guard;
mod multi;
mod name;
mod reentrant;
mod revoke;
mod simple;
mod wakeup;
mod watchdog;

use std::time::Duration;

use seckill_redis::BrokerError;

pub use guard::Guard;
pub use multi::{MultiGuard, MultiLock};
pub use name::{LockName, Owner};
pub use reentrant::{Locks, Timing};
pub use revoke::revoke;
pub use simple::{Release, SimpleLock};
pub use watchdog::Keeper;

/// Why a lock was not had, or not kept.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not a name for a lock.
    #[error("{0}")]
    Name(String),
    /// Not a lease.
    #[error("a lease of {0:?} can't be kept; give 50 ms to 24 h")]
    Lease(Duration),
    /// Redis needed longer than the lease to say yes; it was given back.
    #[error(
        "the lease of {lease:?} was over when Redis had answered after {took:?}; give a longer one"
    )]
    TooSlow {
        /// What was asked for.
        lease: Duration,
        /// How long the answer took.
        took: Duration,
    },
    /// Somebody else holds it.
    #[error("the lock '{0}' is held by somebody else; wait for it or see 'seckill locks list'")]
    Busy(LockName),
    /// Its owner does not hold it any more: the lease ended, it was taken away, or Redis lost it.
    #[error("the lock '{0}' was lost; what was done under it since is refused by its token")]
    Lost(LockName),
    /// Nobody holds it.
    #[error("nobody holds the lock '{0}'; 'seckill locks list' shows those that are held")]
    NotHeld(LockName),
    /// Somebody else holds it by now.
    #[error(
        "the lock '{0}' has another holder by now, who keeps it; 'seckill locks list' shows him"
    )]
    Changed(LockName),
    /// Fewer than all servers gave the lock.
    #[error("the lock '{name}' needs all of its servers, and {place} did not give it: {why}")]
    Member {
        /// Which lock.
        name: LockName,
        /// Which server.
        place: String,
        /// Why not.
        why: Box<LockError>,
    },
    /// Redis.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl LockError {
    /// Whether the same call may succeed later without anybody changing it.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Broker(error) if error.is_away())
    }

    /// Whether another round over several servers may go better: a holder gives back, a server answers again.
    fn may_pass(&self) -> bool {
        match self {
            Self::Member { why, .. } => why.may_pass(),
            Self::Busy(_) | Self::Lost(_) | Self::TooSlow { .. } => true,
            other => other.is_away(),
        }
    }
}
