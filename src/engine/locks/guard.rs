//! A lock in somebody's hands, and the guard that gives it back.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use seckill_model::Millis;
use tokio_util::sync::CancellationToken;

use super::{LockError, LockName, Locks, Owner};

/// What a guard, the watchdog and the janitor share of one acquisition.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) name: LockName,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    pub(super) token: i64,
    pub(super) since: Millis,
    /// The watchdog renews it.
    pub(super) renewed: bool,
    /// Guards that live; with the last one the watchdog lets go.
    guards: AtomicU32,
    /// Its work does not end, so it is left to its lease.
    abandoned: AtomicBool,
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
        renewed: bool,
        until: Instant,
    ) -> Self {
        let depth = tokio::sync::Mutex::new(1);
        let (until, lost) = (Mutex::new(until), CancellationToken::new());
        let (guards, abandoned) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { name, owner, lease, token, since, renewed, guards, abandoned, depth, until, lost }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redis has renewed the lease that was asked for at `sent`.
    pub(super) fn renewed_at(&self, sent: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = sure_until(sent, self.lease).max(*until);
    }

    /// Its lease has ended in Redis as well.
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
    /// Others are kept out for that long from its begin.
    at_least: Duration,
}

impl Guard {
    pub(super) fn new(held: Arc<Held>, locks: Locks) -> Self {
        held.guards.fetch_add(1, Ordering::Relaxed);
        Self { held, locks: Some(locks), at_least: Duration::ZERO }
    }

    /// Its work does not end: the lock is not given back, so that nobody works beside it before the
    /// lease ends.
    pub fn abandon(&self) {
        self.held.abandoned.store(true, Ordering::Relaxed);
        self.held.mark_lost();
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
    /// [`LockError::Lost`] when it was not held any more, or Redis is away: then it is tried again in the
    /// background, and ends with its lease at the latest.
    pub async fn release(self) -> Result<(), LockError> {
        self.release_after(Duration::ZERO).await
    }

    /// Gives it back, but keeps others out until it was held for `at_least` in all.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn release_after(mut self, at_least: Duration) -> Result<(), LockError> {
        let Some(locks) = self.locks.clone() else { return Ok(()) };
        self.at_least = at_least;
        let released = locks.step_down(&self.held, at_least).await;
        // Given up half-way, or dropped while it waits, it goes on in the background.
        if matches!(released, Ok(()) | Err(LockError::Lost(_))) {
            self.locks = None;
            self.let_go(&locks);
        }
        released
    }

    /// With the last guard nobody wants it renewed any more.
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
            locks.give_back_later(Arc::clone(&self.held), self.at_least);
        }
    }
}
