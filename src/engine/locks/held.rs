//! A lock in somebody's hands, and the guard that gives it back.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{LockError, LockName, Locks, Owner};
use crate::model::Millis;

/// What a guard, the watchdog and the janitor share of one acquisition.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) name: LockName,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    pub(super) token: i64,
    pub(super) since: Millis,
    /// How deep it is held; the mutex makes one call at a time change it.
    pub(super) depth: tokio::sync::Mutex<u32>,
    /// By this node's monotonic clock; always before the lease ends in Redis.
    until: Mutex<Instant>,
    lost: CancellationToken,
}

/// Work under a lease ends a tenth of it earlier: clocks differ in speed, and to cancel takes time.
const SURE: f64 = 0.9;

/// Until when a lease that was asked for at `sent` is surely not over.
pub(super) fn sure_until(sent: Instant, lease: Duration) -> Instant {
    sent + lease.mul_f64(SURE)
}

impl Held {
    pub(super) fn new(
        name: LockName,
        owner: Owner,
        lease: Duration,
        (token, since): (i64, Millis),
        until: Instant,
    ) -> Self {
        let depth = tokio::sync::Mutex::new(1);
        let (until, lost) = (Mutex::new(until), CancellationToken::new());
        Self { name, owner, lease, token, since, depth, until, lost }
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redis has renewed the lease that was asked for at `sent`.
    pub(super) fn renewed(&self, sent: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = sure_until(sent, self.lease).max(*until);
    }

    pub(super) fn mark_lost(&self) {
        self.lost.cancel();
    }

    fn is_sure(&self) -> bool {
        !self.lost.is_cancelled() && Instant::now() < self.until()
    }

    async fn lost(&self) {
        loop {
            let until = self.until();
            tokio::select! {
                () = self.lost.cancelled() => return,
                () = tokio::time::sleep_until(until.into()) => {}
            }
            // A renewal may have moved it on meanwhile.
            if Instant::now() >= self.until() {
                return self.mark_lost();
            }
        }
    }
}

/// Holds a lock, one depth of it. Give it back with [`Guard::release`]; one that is dropped is given
/// back in the background.
#[derive(Debug)]
pub struct Guard {
    held: Arc<Held>,
    /// `None` once it was given back.
    locks: Option<Locks>,
}

impl Guard {
    pub(super) fn new(held: Arc<Held>, locks: Locks) -> Self {
        Self { held, locks: Some(locks) }
    }

    /// Which lock.
    pub fn name(&self) -> &LockName {
        &self.held.name
    }

    /// By whom it is held.
    pub fn owner(&self) -> &Owner {
        &self.held.owner
    }

    /// The fencing token: rises with each acquisition of any lock, and what SQL writes under an older
    /// one is refused.
    pub fn token(&self) -> i64 {
        self.held.token
    }

    /// Since when it is held, by the clock of Redis.
    pub fn since(&self) -> Millis {
        self.held.since
    }

    /// Whether it is surely held, by this node's clock.
    pub fn is_held(&self) -> bool {
        self.held.is_sure()
    }

    /// Comes when the lock is lost: its lease is about to end, it was taken away, or Redis forgot it.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Does `work` under the lock, and cancels it when the lock is lost.
    ///
    /// # Errors
    /// [`LockError::Lost`]; `work` was dropped at one of its awaits.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LockError> {
        tokio::select! {
            biased;
            () = self.lost() => Err(LockError::Lost(self.held.name.clone())),
            done = work => Ok(done),
        }
    }

    /// Takes the lock once more, one deeper: for work that is called with and without the lock.
    ///
    /// # Errors
    /// [`LockError::Lost`], or Redis is away.
    pub async fn again(&self) -> Result<Self, LockError> {
        match &self.locks {
            Some(locks) => locks.deepen(&self.held).await,
            None => Err(LockError::Lost(self.held.name.clone())),
        }
    }

    /// Gives one depth back, and the lock with the last one.
    ///
    /// # Errors
    /// [`LockError::Lost`] when it was not held any more, or Redis is away: then it ends with its lease.
    pub async fn release(self) -> Result<(), LockError> {
        self.release_after(Duration::ZERO).await
    }

    /// Gives it back, but keeps others out until it was held for `at_least` in all.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn release_after(mut self, at_least: Duration) -> Result<(), LockError> {
        match self.locks.take() {
            Some(locks) => locks.step_down(&self.held, at_least).await,
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(locks) = self.locks.take() {
            locks.give_back_later(Arc::clone(&self.held));
        }
    }
}
