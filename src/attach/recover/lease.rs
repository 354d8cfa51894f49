//! The lock of `attach`: one process at a time recovers a stream. Its keys are no keys of the engine. Its holder also
//! locks the users of the service whose orders it writes.

use std::time::Duration;

use redis::{cmd, pipe};
use seckill_model::reason;
use seckill_redis::{Connection, keys::attach_lock, lossy_utf8::Text, scripts};

use tokio::{sync::watch, task::JoinHandle};

use crate::{AttachError, Result};

/// Longer than a step takes. The [`Watchdog`] renews it as well: a second process works on the same entries only if this
/// one was stopped, or Redis was away, for that long. The row lock of the sale and the order ID keep both from writing an
/// order then.
const LEASE: Duration = Duration::from_mins(1);

/// How long a user stays locked if the recovery dies: two statements that reach their time limit. Meanwhile a consumer
/// acknowledges other entries of this user without an order; the next recovery writes them.
///
/// The [`Watchdog`] renews the lock while the order is written, and the last step before the commit confirms that it is held.
/// What is left is the commit itself: if it is on its way for longer than the lease, because the process was stopped or the
/// reply was not awaited any longer, or if Redis loses the lock in that time, a consumer may write another order of the user
/// beside it. No statement can exclude that: the tutorials look for orders before they take the row of the sale. A unique
/// index on user and sale in the tables of the service does.
pub(super) const USER_LEASE: Duration = Duration::from_secs(20);

/// How often locks are renewed: one renewal may fail.
const RENEWAL: Duration = Duration::from_secs(USER_LEASE.as_secs() / 4);

/// The lock, held.
#[derive(Debug)]
pub(super) struct Lease {
    key: String,
    owner: String,
}

impl Lease {
    /// Acquires the lock of this stream, or of another [scope](crate::Profile::scope); or names its holder.
    pub(super) async fn acquire(conn: &mut Connection, scope: &str, holder: &str) -> Result<Self> {
        let (key, now) = (attach_lock(scope), conn.now().await?);
        // No other process has this ID at this time.
        let owner = format!("{} {holder}", now.0);
        let mut set = cmd("SET");
        set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        if conn.query::<Option<String>>(&set).await?.is_some() {
            return Ok(Self { key, owner });
        }
        let mut read = pipe();
        read.cmd("GET").arg(&key).cmd("PTTL").arg(&key);
        let (value, left): (Option<Text>, i64) = conn.pipe(&read).await?;
        let value = value.map_or_else(String::new, |Text(value)| value);
        let (since, holder) = value.split_once(' ').unwrap_or(("", &value));
        let held = since.parse().map_or(0, |since| now.0.saturating_sub(since).max(0)) / 1_000;
        let left = left.max(0) / 1_000;
        Err(AttachError::Refused(reason!("attach-recover-busy", holder, held, left)))
    }

    /// Renews it before a step.
    pub(super) async fn renew(&self, conn: &mut Connection) -> Result<()> {
        match self.call(conn, LEASE.as_millis() as u64).await? {
            1 => Ok(()),
            _ => Err(AttachError::Refused(reason!("attach-recover-lock-lost"))),
        }
    }

    /// Releases it.
    pub(super) async fn release(self, conn: &mut Connection) -> Result<()> {
        self.call(conn, 0).await.map(drop)
    }

    /// The owner of this lock, and of those of users, which the script that takes an entry acquires.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// The same lock, for the watchdog.
    fn copy(&self) -> Self {
        Self { key: self.key.clone(), owner: self.owner.clone() }
    }

    async fn call(&self, conn: &mut Connection, lease_ms: u64) -> Result<u8> {
        let mut call = scripts::ATTACH_LOCK.prepare_invoke();
        call.key(&self.key).arg(&self.owner).arg(lease_ms);
        Ok(conn.invoke(&call).await?)
    }
}

/// The lock of a user of the service, which the script that takes an entry has acquired.
#[derive(Clone, Debug)]
pub(super) struct UserLock {
    key: String,
    owner: String,
}

impl UserLock {
    pub(super) fn new(key: String, lease: &Lease) -> Self {
        Self { key, owner: lease.owner.clone() }
    }

    /// Renews it, unless it is lost: `lua/attach_confirm.lua` finds that out before the commit.
    pub(super) async fn renew(&self, conn: &mut Connection) -> Result<()> {
        self.call(conn, USER_LEASE.as_millis() as u64).await
    }

    /// Releases it.
    pub(super) async fn release(&self, conn: &mut Connection) -> Result<()> {
        self.call(conn, 0).await
    }

    async fn call(&self, conn: &mut Connection, lease_ms: u64) -> Result<()> {
        let mut call = scripts::ATTACH_LOCK_USER.prepare_invoke();
        call.key(&self.key).arg(&self.owner).arg(lease_ms);
        conn.invoke::<u8>(&call).await.map(drop).map_err(Into::into)
    }
}

/// Renews the lock of a recovery, and that of the user whose order it writes, while the database takes its time. Both end
/// if the process dies or is stopped. Ends with its owner.
#[derive(Debug)]
pub(super) struct Watchdog {
    user: watch::Sender<Option<UserLock>>,
    task: JoinHandle<()>,
}

impl Watchdog {
    /// Starts it, with a connection of its own.
    pub(super) fn start(mut conn: Connection, lease: &Lease) -> Self {
        let (user, guarded) = watch::channel(None::<UserLock>);
        let lease = lease.copy();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                let user = guarded.borrow().clone();
                // What is lost is found by the next step that needs it.
                if let Some(user) = user {
                    user.renew(&mut conn).await.ok();
                }
                lease.renew(&mut conn).await.ok();
            }
        });
        Self { user, task }
    }

    /// Renews this lock of a user from now on.
    pub(super) fn guard(&self, lock: Option<UserLock>) {
        self.user.send_replace(lock);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
