//! A held lock and its guard.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{LockError, LockName, Locks};

/// State of one acquisition, shared by its guards and the background task.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) name: LockName,
    pub(super) owner: String,
    pub(super) lease: Duration,
    pub(super) token: i64,
    /// Live guards; after the last one the watchdog stops renewing.
    guards: AtomicU32,
    /// Its work does not end, so the lease is left to expire.
    abandoned: AtomicBool,
    /// Current depth; the mutex serializes changes.
    pub(super) depth: tokio::sync::Mutex<u32>,
    /// By this node's monotonic clock; always before the lease expires in Redis.
    until: Mutex<Instant>,
    lost: CancellationToken,
}

/// Work under a lease ends a tenth of it earlier: clock rates differ, and cancellation takes time.
const SURE: f64 = 0.9;

/// Time until which a lease requested at `sent` is certainly valid.
pub(super) fn sure_until(sent: Instant, lease: Duration) -> Instant {
    sent + lease.mul_f64(SURE)
}

impl Held {
    pub(super) fn new(
        name: LockName,
        owner: String,
        lease: Duration,
        token: i64,
        until: Instant,
    ) -> Self {
        let depth = tokio::sync::Mutex::new(1);
        let (until, lost) = (Mutex::new(until), CancellationToken::new());
        let (guards, abandoned) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { name, owner, lease, token, guards, abandoned, depth, until, lost }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn until(&self) -> Instant {
        *self.until.lock()
    }

    /// Records that Redis renewed the lease requested at `sent`.
    pub(super) fn renewed_at(&self, sent: Instant) {
        let mut until = self.until.lock();
        *until = sure_until(sent, self.lease).max(*until);
    }

    /// Returns whether the lease has expired in Redis as well.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() > self.until() + self.lease.mul_f64(1.0 - SURE)
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
            // A renewal may have extended it.
            if Instant::now() >= self.until() {
                return self.mark_lost();
            }
        }
    }
}

/// Holds one depth of a lock. Release it with [`Guard::release`]; a dropped guard is released in the background.
#[derive(Debug)]
pub struct Guard {
    held: Arc<Held>,
    /// `None` once released.
    locks: Option<Locks>,
}

impl Guard {
    pub(super) fn new(held: Arc<Held>, locks: Locks) -> Self {
        held.guards.fetch_add(1, Ordering::Relaxed);
        Self { held, locks: Some(locks) }
    }

    /// Keeps the lock until its lease expires, because its work does not end.
    pub fn abandon(&self) {
        self.held.abandoned.store(true, Ordering::Relaxed);
        self.held.mark_lost();
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.held.name
    }

    /// Its owner.
    pub fn owner(&self) -> &str {
        &self.held.owner
    }

    /// Returns the fencing token. It increases with each acquisition of any lock; SQL rejects writes under an older
    /// one.
    pub fn token(&self) -> i64 {
        self.held.token
    }

    /// Returns whether it is certainly held, by this node's clock.
    pub fn is_held(&self) -> bool {
        self.held.is_sure()
    }

    /// Completes when the lock is lost: its lease is about to expire, it was force-released, or Redis lost it.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Runs `work` under the lock, and cancels it when the lock is lost.
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

    /// Acquires the lock once more, for work that runs with and without the lock.
    ///
    /// # Errors
    /// [`LockError::Lost`], or Redis is unreachable.
    pub async fn again(&self) -> Result<Self, LockError> {
        match &self.locks {
            Some(locks) => locks.reenter(&self.held).await,
            None => Err(LockError::Lost(self.held.name.clone())),
        }
    }

    /// Decrements the depth; releases the lock at depth 0.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it was no longer held, or Redis is unreachable: the background task then retries until
    /// the lease expires.
    pub async fn release(mut self) -> Result<(), LockError> {
        let Some(locks) = self.locks.clone() else { return Ok(()) };
        let released = locks.release_one(&self.held).await;
        // If this is cancelled or dropped, the release continues in the background.
        if matches!(released, Ok(()) | Err(LockError::Lost(_))) {
            self.locks = None;
            self.let_go(&locks);
        }
        released
    }

    /// Stops the renewal with the last guard.
    fn let_go(&self, locks: &Locks) {
        if self.held.guards.fetch_sub(1, Ordering::Relaxed) == 1 {
            locks.watched().remove(&self.held.owner);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(locks) = self.locks.take() {
            self.let_go(&locks);
            locks.release_later(Arc::clone(&self.held));
        }
    }
}
