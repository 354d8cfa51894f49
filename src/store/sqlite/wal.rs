//! The write-ahead log beside the file: kept from growing without end.
//!
//! SQLite folds it into the file by itself, but starts it anew only when a write finds all of it folded and no reader
//! in it. Under steady reads that moment never comes, and the log grows with every commit. So the writer asks for a
//! new start once the log is large, and waits a bounded time for the readers.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sqlx::SqliteConnection;

/// Pages after which SQLite folds the log by itself: 32 MiB.
pub(super) const AUTOCHECKPOINT: &str = "8000";
/// Size from which a new start is asked for.
const LARGE: u64 = 64 << 20;
/// How much it may grow between two attempts: each may hold up the writers.
const STEP: u64 = 16 << 20;
/// How long an attempt waits for the readers.
const READERS_END: Duration = Duration::from_millis(500);

/// The log of one file.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    /// Size of the next attempt.
    next: AtomicU64,
}

impl Wal {
    /// The log beside `database`.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = OsString::from(database);
        path.push("-wal");
        Self { path: path.into(), next: AtomicU64::new(LARGE) }
    }

    /// Whether a new start is due.
    pub(super) fn is_large(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|it| it.len() >= self.next.load(Ordering::Relaxed))
    }

    /// Folds the log and empties its file, by the connection that writes.
    ///
    /// # Errors
    /// The connection or the disk failed. Readers that do not end in time are no error: the next attempt follows.
    pub(super) async fn start_anew(&self, conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let waits: i64 = sqlx::query_scalar("SELECT timeout FROM pragma_busy_timeout")
            .fetch_one(&mut *conn)
            .await?;
        set_timeout(conn, READERS_END.as_millis() as i64).await?;
        let folded = sqlx::query_as::<_, (i64, i64, i64)>("PRAGMA wal_checkpoint(TRUNCATE)")
            .fetch_one(&mut *conn)
            .await;
        set_timeout(conn, waits).await?;
        let (busy, ..) = folded?;
        let left = fs::metadata(&self.path).map_or(0, |it| it.len());
        self.next.store(if busy == 0 { LARGE } else { left + STEP }, Ordering::Relaxed);
        Ok(())
    }
}

async fn set_timeout(conn: &mut SqliteConnection, millis: i64) -> Result<(), sqlx::Error> {
    let pragma = sqlx::AssertSqlSafe(format!("PRAGMA busy_timeout = {millis}"));
    sqlx::query(pragma).execute(conn).await.map(drop)
}
