//! Locks in Redis, as steps of a request: those of the tutorials, which are commands, and those of the engine.

use std::time::Duration;

use redis::{Cmd, Value};
use seckill_engine::locks::{Guard, LockError, LockName, Locks, MultiGuard, MultiLock};

use crate::{
    Result,
    engine_locks::RETRY,
    lane::{Lane, shown},
    trace::{Action, Instant},
};

/// How long a request waits for a lock: longer than any lease that ends, and any stall.
const WAIT: Duration = Duration::from_secs(4);
/// What a lock over several servers waits for each of them.
const WAIT_PER_SERVER: Duration = Duration::from_millis(1_500);

impl Lane<'_> {
    /// The name of the user's lock: `"order:" + userId`.
    fn lock_name(&self) -> String {
        format!("order:{}", self.user())
    }

    /// The key of the user's lock: `KEY_PREFIX + name`.
    pub(crate) fn lock_key(&self) -> String {
        self.process().keys.lock(&self.lock_name())
    }

    /// The lease of a lock in milliseconds.
    pub(crate) fn lease_ms(&self) -> i64 {
        self.process().work.lease().as_millis() as i64
    }

    /// Takes a lock by a command that replies OK if it was free, and nothing else. Repeats it until then; returns
    /// whether the lock was taken in time.
    pub(crate) async fn acquire(&mut self, command: &Cmd) -> Result<bool> {
        let begun = Instant::now();
        let lease = Vec::from_iter(lifetime(&shown(command)));
        loop {
            let asked = Instant::now();
            let reply: Value = self.send(command).await?;
            self.record(Action::Acquire, shown(command).into(), &lease, &reply, asked);
            let is_taken = reply != Value::Nil;
            if is_taken || Instant::now().since(begun) > WAIT.as_nanos() as u64 {
                return Ok(is_taken);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Releases a lock by a command that replies how many keys it deleted.
    pub(crate) async fn release(&mut self, command: &Cmd) -> Result<()> {
        let begun = Instant::now();
        let deleted: i64 = self.send(command).await?;
        self.record(Action::Release, shown(command).into(), &[], vec![deleted], begun);
        Ok(())
    }

    /// Takes the engine's reentrant lock with a lease that is not renewed; `None` if it was not free in time.
    pub(crate) async fn lock_with_lease(&mut self) -> Result<Option<Guard>> {
        match self.process().engine_locks.leased() {
            Some(locks) => self.lock_by(locks, &[self.lease_ms()]).await,
            None => Ok(None),
        }
    }

    /// Takes the engine's reentrant lock, which the watchdog renews; `None` if it was not free in time.
    pub(crate) async fn lock_with_watchdog(&mut self) -> Result<Option<Guard>> {
        match self.process().engine_locks.watched() {
            [locks, ..] => self.lock_by(locks, &[]).await,
            [] => Ok(None),
        }
    }

    async fn lock_by(&mut self, locks: &Locks, lease: &[i64]) -> Result<Option<Guard>> {
        let (name, task) = (LockName::new(self.lock_name())?, self.owner());
        self.held(locks.try_for(&name, &task, WAIT), lease, 1).await
    }

    /// Takes the lock that this request holds with a lease once more. Its lease begins again.
    pub(crate) async fn lock_again(&mut self, guard: &Guard) -> Result<Option<Guard>> {
        self.held(guard.again(), &[self.lease_ms()], 1).await
    }

    /// Takes the engine's lock over all servers, in rounds for as many seconds and a half as there are servers.
    pub(crate) async fn lock_on_all_servers(&mut self) -> Result<Option<MultiGuard>> {
        let lock = MultiLock::new(self.process().engine_locks.watched().to_vec())?;
        let (name, task) = (LockName::new(self.lock_name())?, self.owner());
        let wait = WAIT_PER_SERVER * lock.servers() as u32;
        self.held(lock.try_for(&name, &task, wait), &[], lock.servers()).await
    }

    /// Records an acquisition by the engine as one step, with the time that it waited, and the lease if nothing renews
    /// it.
    async fn held<G>(
        &mut self,
        acquiring: impl Future<Output = Result<G, LockError>>,
        lease: &[i64],
        servers: usize,
    ) -> Result<Option<G>> {
        let begun = Instant::now();
        let guard = match acquiring.await {
            Ok(guard) => Some(guard),
            Err(error) if is_taken(&error) => None,
            Err(error) => return Err(error.into()),
        };
        let what =
            format!("lock_acquire.lua {} {} {}", self.lock_key(), self.owner(), self.lease_ms());
        let saw = vec![guard.is_some().into(); servers];
        self.record(Action::Acquire, what.into(), lease, saw, begun);
        Ok(guard)
    }

    /// Releases one level of the engine's lock.
    pub(crate) async fn unlock_guard(&mut self, guard: Guard) -> Result<()> {
        self.released(async { vec![guard.release().await] }).await
    }

    /// Releases the engine's lock on all servers.
    pub(crate) async fn unlock_on_all_servers(&mut self, guard: MultiGuard) -> Result<()> {
        self.released(guard.release_each()).await
    }

    /// Records a release by the engine, with what each server replied.
    async fn released(
        &mut self,
        releasing: impl Future<Output = Vec<Result<bool, LockError>>>,
    ) -> Result<()> {
        let begun = Instant::now();
        let replies = releasing.await.into_iter().map(|released| match released {
            Err(LockError::Lost(_)) => Ok(0),
            released => released.map(i64::from),
        });
        let saw = replies.collect::<Result<Vec<i64>, LockError>>()?;
        let what = format!("lock_release.lua {} {}", self.lock_key(), self.owner());
        self.record(Action::Release, what.into(), &[], saw, begun);
        Ok(())
    }
}

/// The lifetime that a SET gives its key, in milliseconds.
fn lifetime(command: &str) -> Option<i64> {
    let (_, after) = command.split_once(" PX ")?;
    after.split(' ').next()?.parse().ok()
}

/// Whether the lock was not taken: another owner has it, or its lease was over before it was known.
fn is_taken(error: &LockError) -> bool {
    match error {
        LockError::Busy(_) | LockError::Lost(_) | LockError::TooSlow { .. } => true,
        LockError::Member { why, .. } => is_taken(why),
        _ => false,
    }
}
