//! The write lock of the file: whether another process holds it for longer than a write takes.
//!
//! Reads continue during a write, so they do not reveal that orders are waiting. This file must not write.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use sqlx::sqlite::SqliteConnectOptions;

use super::sessions;
use crate::{CommitSent, Conn, Fault, Result, Sessions, dialect::sqlite::is_busy, params};

/// A batch is committed within tens of milliseconds, unless the disk stalls.
const WITHIN: Duration = Duration::from_millis(750);
/// An impossible version, before the first read.
const UNSEEN: i64 = i64::MIN;

/// Takes the lock on a separate connection: the writer's connection waits for it as long as necessary.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) sessions: Sessions,
    /// The data version last seen by the connection; a different one shows a commit since.
    version: AtomicI64,
}

impl Lock {
    /// Opens nothing yet.
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        let sessions = sessions(options.busy_timeout(WITHIN), 1, WITHIN, 2 * WITHIN);
        Self { sessions, version: AtomicI64::new(UNSEEN) }
    }

    /// Takes and releases the lock.
    ///
    /// # Errors
    /// [`crate::StoreError::Locked`] if another process holds it all the time without committing, or the file is missing.
    pub(super) async fn take_and_give_back(&self) -> Result<()> {
        let attempt = self.sessions.read(move |commit_sent| self.try_lock(commit_sent)).await;
        if attempt.is_err() {
            // A replaced connection would count from another version.
            self.version.store(UNSEEN, Ordering::Relaxed);
        }
        attempt
    }

    async fn try_lock(&self, commit_sent: CommitSent) -> Result<(), Fault> {
        let mut lease = self.sessions.lease().await?;
        // While orders are being written the lock need not be tested, and writers are not disturbed.
        if self.moved(lease.conn()).await? {
            return lease.end(Ok(())).await;
        }
        match lease.begin(commit_sent).await {
            Ok(()) => lease.roll_back().await,
            // The lock was free in between, but never for this attempt.
            Err(fault) if is_busy(&fault) && self.moved(lease.conn()).await? => {
                lease.end(Ok(())).await
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Whether another connection has committed since the last call.
    async fn moved(&self, conn: &mut Conn) -> Result<bool, Fault> {
        let now = conn.one("SELECT data_version FROM pragma_data_version", params![]).await?;
        let before = self.version.swap(now, Ordering::Relaxed);
        Ok(before != UNSEEN && before != now)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Executor as _, SqliteConnection};

    use super::*;
    use crate::StoreError;

    #[tokio::test]
    async fn held_lock_is_reported_but_short_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let options =
            SqliteConnectOptions::new().filename(dir.path().join("a.db")).create_if_missing(true);
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        other.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").await.unwrap();
        let lock = Lock::new(options);
        lock.take_and_give_back().await.unwrap();

        other.execute("INSERT INTO t VALUES (1)").await.unwrap();
        other.execute("BEGIN EXCLUSIVE").await.unwrap();
        assert!(lock.take_and_give_back().await.is_ok(), "a commit has just happened");
        assert!(matches!(lock.take_and_give_back().await, Err(StoreError::Locked)));
        other.execute("ROLLBACK").await.unwrap();
        lock.take_and_give_back().await.unwrap();
        other.execute("INSERT INTO t VALUES (2)").await.unwrap();
    }
}
