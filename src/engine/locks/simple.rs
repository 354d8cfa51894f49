//! The tutorial's simple lock: SET NX PX, with three ways to release it.
//!
//! Two of them are unsafe and kept for demonstration: a holder whose lease has expired releases the next holder's lock.
//! Production code uses the reentrant lock.

use std::time::{Duration, Instant};

use redis::{ExistenceCheck, SetExpiry, SetOptions, pipe};
use seckill_model::Millis;
use seckill_redis::scripts;

use super::{LockError, LockName, Locks, Owner};

/// How a simple lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// DEL, regardless of the owner.
    Blind,
    /// GET, compare, DEL; the lease may expire in between.
    Checked,
    /// Compares and deletes in one script.
    Atomic,
}

/// A held simple lock.
#[derive(Debug)]
pub struct SimpleLock {
    locks: Locks,
    name: LockName,
    owner: Owner,
    release: Release,
    until: Instant,
}

impl Locks {
    /// Acquires the lock with SET NX PX.
    ///
    /// # Errors
    /// [`LockError::Busy`], a lease of 0, or Redis is unreachable.
    pub async fn try_simple(
        &self,
        name: &LockName,
        task: &str,
        lease: Duration,
        release: Release,
    ) -> Result<SimpleLock, LockError> {
        let millis = lease.as_millis() as u64;
        if millis == 0 {
            return Err(LockError::Lease(lease));
        }
        let owner = Owner::new(self.node(), task);
        let until = Instant::now() + lease;
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(millis));
        let keys = &self.shared().keys;
        let mut set = pipe();
        set.atomic().set_options(keys.lock(name.as_str()), owner.as_str(), options);
        // Adds the lock to the index; an existing entry keeps its later expiry.
        let end = Millis::now().plus(millis as i64).0;
        set.cmd("ZADD").arg(keys.locks()).arg("GT").arg(end).arg(name.as_str()).ignore();
        let (set,): (Option<String>,) = self.shared().connection.pipe(&set).await?;
        match set {
            Some(_) => {
                Ok(SimpleLock { locks: self.clone(), name: name.clone(), owner, release, until })
            }
            None => Err(LockError::Busy(name.clone())),
        }
    }
}

impl SimpleLock {
    /// Returns whether the lease is still valid by this node's clock.
    pub fn is_held(&self) -> bool {
        Instant::now() < self.until
    }

    /// Releases the lock in the chosen way.
    ///
    /// # Errors
    /// [`LockError::Lost`] where that way detects it, or Redis is unreachable.
    pub async fn release(self) -> Result<(), LockError> {
        let Self { locks, name, owner, release, .. } = self;
        let keys = &locks.shared().keys;
        let key = keys.lock(name.as_str());
        let mut delete = pipe();
        delete.del(&key).cmd("ZREM").arg(keys.locks()).arg(name.as_str()).ignore();
        let given_back = match release {
            Release::Blind => locks.shared().connection.pipe::<(u8,)>(&delete).await?.0 == 1,
            Release::Checked => {
                let mut get = pipe();
                get.get(&key);
                let (holder,): (Option<String>,) = locks.shared().connection.pipe(&get).await?;
                holder.as_deref() == Some(owner.as_str())
                    && locks.shared().connection.pipe::<(u8,)>(&delete).await?.0 == 1
            }
            Release::Atomic => {
                let mut call = scripts::LOCK_RELEASE_SIMPLE.prepare_invoke();
                call.key(key).key(keys.locks()).arg(owner.as_str()).arg(name.as_str());
                locks.shared().connection.invoke::<u8>(&call).await? == 1
            }
        };
        if given_back { Ok(()) } else { Err(LockError::Lost(name)) }
    }
}
