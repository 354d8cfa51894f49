//! The lock of `attach`: one process at a time recovers a stream. Its keys are no keys of the engine. Its holder also
//! locks the users of the service whose orders it writes.

use std::time::Duration;

use redis::{cmd, pipe};
use seckill_model::reason;
use seckill_redis::{Connection, keys::attach_lock, lossy_utf8::Text, scripts};

use crate::{AttachError, Result};

/// Longer than a step takes, unless the database is slow at each of its statements. Then a second process may work on the
/// same entry: the row lock of the sale and the order ID keep both from writing its order.
const LEASE: Duration = Duration::from_mins(1);

/// How long a user stays locked if the recovery dies: two statements that reach their time limit. Meanwhile a consumer
/// acknowledges other entries of this user without an order; the next recovery writes them.
pub(super) const USER_LEASE: Duration = Duration::from_secs(20);

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

    /// Releases the lock of a user of the service.
    pub(super) async fn unlock_user(&self, conn: &mut Connection, key: &str) -> Result<()> {
        let mut call = scripts::ATTACH_UNLOCK_USER.prepare_invoke();
        call.key(key).arg(&self.owner);
        conn.invoke::<u8>(&call).await.map(drop).map_err(Into::into)
    }

    async fn call(&self, conn: &mut Connection, lease_ms: u64) -> Result<u8> {
        let mut call = scripts::ATTACH_LOCK.prepare_invoke();
        call.key(&self.key).arg(&self.owner).arg(lease_ms);
        Ok(conn.invoke(&call).await?)
    }
}
