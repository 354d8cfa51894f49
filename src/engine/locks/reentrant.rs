//! The reentrant lock: acquire, wait, release, and the guard that holds it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use redis::{FromRedisValue, ScriptInvocation};
use seckill_redis::{Layout, Redis, RedisError, SharedConnection, scripts};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    LockError, LockName, Result, Watchdog, lease_clock::LeaseInstant, name::new_owner,
    release_call, wakeup::Bells,
};

/// Polling interval of waiters while the subscription is down.
const UNSUBSCRIBED_POLL: Duration = Duration::from_millis(50);
/// A waiter is counted for this many polls after its last one.
const WAITING_POLLS: u32 = 3;
/// Immediate attempts to release a lock before the background task takes over.
const RELEASE_TRIES: u32 = 3;
const RELEASE_PAUSE: Duration = Duration::from_millis(50);
/// Capacity of the queue of the background task; locks beyond it are left to expire.
const CLEANUPS: usize = 8_192;
/// Limit for one reply, beyond the caller's own time limit.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Lease duration and polling interval of a node's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Lease of a lock; the watchdog renews it every third of it.
    pub lease: Duration,
    /// Approximate polling interval of a waiter, in case a wake-up was lost.
    pub poll: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), poll: Duration::from_secs(1) }
    }
}

/// A node's locks on one Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) redis: Redis,
    connection: SharedConnection,
    pub(super) keys: Layout,
    node: String,
    pub(super) timing: Timing,
    pub(super) bells: Bells,
    /// Held locks by owner, renewed by the watchdog.
    watched: Mutex<HashMap<String, Arc<Held>>>,
    later: mpsc::Sender<Cleanup>,
}

/// Work left to the background task.
#[derive(Debug)]
pub(super) enum Cleanup {
    /// A guard was dropped.
    Dropped(Arc<Held>),
    /// An acquisition was cancelled; Redis may have granted it.
    Cancelled(LockName, String, LeaseInstant),
}

impl Cleanup {
    /// Returns whether the lease has expired.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Dropped(held) => held.is_over(),
            Self::Cancelled(_, _, until) => LeaseInstant::now() > *until,
        }
    }
}

/// Reply of Redis to an acquisition.
enum Reply {
    Held { token: i64 },
    Busy { left: Option<Duration> },
    Lost,
}

impl Locks {
    /// Returns the locks of `node` on this Redis, and their background task: watchdog, subscription and cleanup.
    /// Without that task leases expire and waiters poll.
    pub fn new(redis: &Redis, keys: Layout, node: &str, timing: Timing) -> (Self, Watchdog) {
        let (later, cleanups) = mpsc::channel(CLEANUPS);
        let shared = Shared {
            redis: redis.clone(),
            connection: redis.shared_connection(),
            keys,
            node: node.to_owned(),
            timing,
            bells: Bells::default(),
            watched: Mutex::default(),
            later,
        };
        let locks = Self { shared: Arc::new(shared) };
        (locks.clone(), Watchdog::new(locks, cleanups))
    }

    /// Acquires the lock if it is free. The watchdog renews it until it is released.
    ///
    /// # Errors
    /// [`LockError::Busy`], or Redis is unreachable.
    pub async fn try_lock(&self, name: &LockName, task: &str) -> Result<Guard> {
        self.try_for(name, task, Duration::ZERO).await
    }

    /// Acquires the lock, waiting at most `wait` plus the five seconds one reply may take; an outage of Redis counts as
    /// waiting.
    pub async fn try_for(&self, name: &LockName, task: &str, wait: Duration) -> Result<Guard> {
        let deadline = Instant::now() + wait;
        let owner = new_owner(&self.shared.node, task);
        let mut attempt = Attempt { locks: self, name, owner: &owner, left: None, open: true };
        // Most locks are free, so nothing is set up for waiting before the first reply.
        match self.attempt(&mut attempt, Duration::ZERO).await {
            Err(error) if error.may_retry() && deadline > Instant::now() => {}
            other => return other,
        }
        let bell = self.shared.bells.of(name);
        loop {
            // Subscribe before asking, so that a release in between is not missed.
            let rung = bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let counts = self.shared.timing.poll * WAITING_POLLS;
            let error = match self.attempt(&mut attempt, counts).await {
                Err(error) if error.may_retry() => error,
                other => return other,
            };
            let now = Instant::now();
            if deadline <= now {
                return Err(error);
            }
            let until = deadline.min(now + self.pause(attempt.left));
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Time to wait for a wake-up. A holder that died is detected when its lease expires.
    fn pause(&self, left: Option<Duration>) -> Duration {
        let poll = self.shared.timing.poll;
        if !self.shared.bells.is_listening() {
            return UNSUBSCRIBED_POLL;
        }
        let jittered = poll.mul_f64(rand::random_range(0.75..1.0));
        left.map_or(jittered, |left| jittered.min(left + Duration::from_millis(1)))
    }

    async fn attempt(&self, attempt: &mut Attempt<'_>, counts: Duration) -> Result<Guard> {
        let lease = self.shared.timing.lease;
        attempt.open = true;
        let sent = LeaseInstant::now();
        let asked = self.ask(attempt.name, attempt.owner, 1, counts);
        let Ok(answer) = tokio::time::timeout(REPLY_TIMEOUT, asked).await else {
            let (address, millis) = (self.address().to_owned(), REPLY_TIMEOUT.as_millis() as u64);
            return Err(RedisError::Silent { address, millis }.into());
        };
        match answer? {
            Reply::Held { token } => {
                let until = sure_until(sent, lease);
                if LeaseInstant::now() >= until {
                    // The attempt is still open, so dropping it releases the lock.
                    return Err(LockError::TooSlow { lease, took: sent.elapsed() });
                }
                attempt.open = false;
                let (name, owner) = (attempt.name.clone(), attempt.owner.to_owned());
                let held = Arc::new(Held::new(name, owner, lease, token, until));
                let guard = Guard::new(Arc::clone(&held), self.clone());
                self.watched().insert(held.owner.clone(), held);
                Ok(guard)
            }
            Reply::Busy { left } => {
                // A rejected attempt that does not wait leaves nothing to clean up.
                attempt.open = !counts.is_zero();
                attempt.left = left;
                Err(LockError::Busy(attempt.name.clone()))
            }
            Reply::Lost => Err(LockError::Lost(attempt.name.clone())),
        }
    }

    /// Increments the depth.
    pub(super) async fn reenter(&self, held: &Arc<Held>) -> Result<Guard> {
        let mut depth = held.depth.lock().await;
        let sent = LeaseInstant::now();
        match self.ask(&held.name, &held.owner, *depth + 1, Duration::ZERO).await? {
            Reply::Held { .. } => {
                *depth += 1;
                held.renewed_at(sent);
                Ok(Guard::new(Arc::clone(held), self.clone()))
            }
            Reply::Busy { .. } | Reply::Lost => {
                held.mark_lost();
                Err(LockError::Lost(held.name.clone()))
            }
        }
    }

    /// Decrements the depth; returns whether Redis did so. The watchdog drops the lock first; a renewal in flight finds it
    /// released.
    pub(super) async fn release_one(&self, held: &Held) -> Result<bool> {
        let mut depth = held.depth.lock().await;
        if *depth == 0 || held.abandoned.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if *depth == 1 {
            self.watched().remove(&held.owner);
        }
        let mut attempt = 1;
        let reply = loop {
            match self.send_release(&held.name, &held.owner, *depth).await {
                // An earlier call may have released it and lost its reply.
                Ok(0) if attempt == 1 => {
                    *depth = 0;
                    held.mark_lost();
                    return Err(LockError::Lost(held.name.clone()));
                }
                Ok(reply) => break reply,
                Err(error) if error.is_away() && attempt < RELEASE_TRIES => {
                    attempt += 1;
                    tokio::time::sleep(RELEASE_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        };
        *depth = depth.saturating_sub(1);
        Ok(reply != 0)
    }

    async fn send_release(&self, name: &LockName, owner: &str, depth: u32) -> Result<u8> {
        Ok(self.invoke(&release_call(&self.shared.keys, name, owner, depth)).await?)
    }

    async fn ask(
        &self,
        name: &LockName,
        owner: &str,
        depth: u32,
        counts: Duration,
    ) -> Result<Reply> {
        let mut call = scripts::LOCK_ACQUIRE.prepare_invoke();
        let keys = &self.shared.keys;
        call.key(keys.lock(name.as_str())).key(keys.locks());
        call.key(keys.lock_token()).key(keys.lock_waiting(name.as_str()));
        call.arg(owner).arg(self.shared.timing.lease.as_millis() as u64).arg(depth);
        call.arg(name.as_str()).arg(counts.as_millis() as u64);
        match self.invoke::<(i64, i64)>(&call).await? {
            (1, token) => Ok(Reply::Held { token }),
            (0, left) => {
                Ok(Reply::Busy { left: u64::try_from(left).ok().map(Duration::from_millis) })
            }
            (-1, _) => Ok(Reply::Lost),
            _ => Err(RedisError::reply("lock_acquire.lua").into()),
        }
    }

    async fn invoke<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> Result<T, RedisError> {
        self.shared.connection.invoke(&self.shared.keys.locks(), call).await
    }

    /// Renews these locks in one call, and marks those lost that Redis no longer has.
    pub(super) async fn renew(&self, page: &[Arc<Held>]) -> Result<(), RedisError> {
        let mut call = scripts::LOCK_RENEW.prepare_invoke();
        call.key(self.shared.keys.locks()).arg(self.shared.timing.lease.as_millis() as u64);
        for held in page {
            call.key(self.shared.keys.lock(held.name.as_str()));
            call.arg(&held.owner).arg(held.name.as_str());
        }
        let sent = LeaseInstant::now();
        let known: Vec<bool> = self.invoke(&call).await?;
        for (held, known) in page.iter().zip(known) {
            if known {
                held.renewed_at(sent);
            } else if self.watched().remove(&held.owner).is_some() {
                held.mark_lost();
            }
        }
        Ok(())
    }

    /// Runs deferred work; returns it while Redis is unreachable.
    pub(super) async fn clean_up(&self, later: Cleanup) -> Option<Cleanup> {
        let result = match &later {
            Cleanup::Dropped(held) => self.release_one(held).await.map(drop),
            Cleanup::Cancelled(name, owner, _) => self.send_release(name, owner, 0).await.map(drop),
        };
        match result {
            Err(error) if error.is_away() => Some(later),
            Err(error @ (LockError::Redis(_) | LockError::Busy(_))) => {
                tracing::warn!(%error, "a lock was not released; it expires with its lease");
                None
            }
            _ => None,
        }
    }

    /// Leaves work to the background task. Without that task, or if it is too far behind, the lease expires.
    fn defer(&self, later: Cleanup) {
        let _ = self.shared.later.try_send(later);
    }

    pub(super) fn watched(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.shared.watched.lock()
    }

    /// Address of its Redis.
    pub fn address(&self) -> &str {
        self.shared.redis.address()
    }
}

/// An acquisition in progress. If dropped while open it is undone, since Redis may have granted it.
struct Attempt<'a> {
    locks: &'a Locks,
    name: &'a LockName,
    owner: &'a str,
    /// Remaining lease of the current holder.
    left: Option<Duration>,
    open: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.open {
            let until = LeaseInstant::now().plus(self.locks.shared.timing.lease);
            let later = Cleanup::Cancelled(self.name.clone(), self.owner.to_owned(), until);
            self.locks.defer(later);
        }
    }
}

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
    /// By this host's clock; always before the lease expires in Redis.
    until: Mutex<LeaseInstant>,
    lost: CancellationToken,
}

/// How often the clock of a lease is read, in case the host was suspended.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Work under a lease ends when a tenth of the lease is left: clock rates differ, and cancellation takes time.
const SURE: f64 = 0.9;

/// Time until which a lease requested at `sent` is certainly valid.
fn sure_until(sent: LeaseInstant, lease: Duration) -> LeaseInstant {
    sent.plus(lease.mul_f64(SURE))
}

impl Held {
    pub(super) fn new(
        name: LockName,
        owner: String,
        lease: Duration,
        token: i64,
        until: LeaseInstant,
    ) -> Self {
        let depth = tokio::sync::Mutex::new(1);
        let (until, lost) = (Mutex::new(until), CancellationToken::new());
        let (guards, abandoned) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { name, owner, lease, token, guards, abandoned, depth, until, lost }
    }

    fn until(&self) -> LeaseInstant {
        *self.until.lock()
    }

    /// Records that Redis renewed the lease requested at `sent`.
    pub(super) fn renewed_at(&self, sent: LeaseInstant) {
        let mut until = self.until.lock();
        *until = sure_until(sent, self.lease).max(*until);
    }

    /// Returns whether the lease has expired in Redis as well.
    pub(super) fn is_over(&self) -> bool {
        LeaseInstant::now() > self.until().plus(self.lease.mul_f64(1.0 - SURE))
    }

    pub(super) fn mark_lost(&self) {
        self.lost.cancel();
    }
}

/// Holds one level of a lock. Release it with [`Guard::release`]; a dropped guard is released in the background.
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
        !self.held.lost.is_cancelled() && LeaseInstant::now() < self.held.until()
    }

    /// Completes when the lock is lost: its lease is about to expire, it was force-released, or Redis lost it.
    pub async fn lost(&self) {
        loop {
            // Timers stop while the host is suspended.
            let left = self.held.until().left().min(LOOK_EVERY);
            tokio::select! {
                () = self.held.lost.cancelled() => return,
                () = tokio::time::sleep(left) => {}
            }
            // A renewal may have extended it.
            if LeaseInstant::now() >= self.held.until() {
                return self.held.mark_lost();
            }
        }
    }

    /// Runs `work` under the lock, and cancels it when the lock is lost.
    ///
    /// # Errors
    /// [`LockError::Lost`]; `work` was dropped at one of its awaits.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
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
    pub async fn again(&self) -> Result<Self> {
        match &self.locks {
            Some(locks) => locks.reenter(&self.held).await,
            None => Err(LockError::Lost(self.held.name.clone())),
        }
    }

    /// Decrements the depth; releases the lock at depth 0. Returns whether Redis did so: `false` if there was nothing to
    /// release, or an earlier attempt may have released it and lost its reply.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it was no longer held, or Redis is unreachable: the background task then retries until
    /// the lease expires.
    pub async fn release(mut self) -> Result<bool> {
        let Some(locks) = self.locks.clone() else { return Ok(false) };
        let released = locks.release_one(&self.held).await;
        // If this is cancelled or dropped, the release continues in the background.
        if matches!(released, Ok(_) | Err(LockError::Lost(_))) {
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
            locks.defer(Cleanup::Dropped(Arc::clone(&self.held)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::lease_clock::SUSPENDED, *};

    /// Timers and `Instant` stop while the host is suspended; the lease in Redis ends.
    #[tokio::test]
    async fn a_lock_is_not_held_after_a_suspend_of_its_lease() {
        let (lease, name) = (Duration::from_secs(30), LockName::new("a").unwrap());
        let until = sure_until(LeaseInstant::now(), lease);
        let held = Arc::new(Held::new(name, "node/task".to_owned(), lease, 1, until));
        let guard = Guard { held, locks: None };
        assert!(guard.is_held());
        SUSPENDED.set(lease);
        assert!(!guard.is_held());
        SUSPENDED.set(Duration::ZERO);
        let work = guard.run(async {
            SUSPENDED.set(lease);
            std::future::pending::<()>().await;
        });
        let ended = tokio::time::timeout(Duration::from_secs(5), work).await;
        assert_eq!(ended, Ok(Err(LockError::Lost(guard.name().clone()))));
    }
}
