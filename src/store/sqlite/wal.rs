//! Size limit of the write-ahead log.
//!
//! SQLite checkpoints the log by itself, but restarts it only when a write finds it fully checkpointed and without
//! readers. Under steady reads that never happens, and the log grows with every commit. So the writer requests a
//! restart once the log is large, and waits for the readers with a timeout.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{Conn, Fault, params};

/// Pages after which SQLite checkpoints by itself: 256 MiB. With ten million orders, each new one changes another page of
/// the index of buyers; the later the checkpoint, the more of these changes meet on one page.
pub(super) const AUTOCHECKPOINT: &str = "65536";
/// Size from which a restart is requested.
const LARGE: u64 = if cfg!(test) { 64 << 20 } else { 512 << 20 };
/// Growth between two attempts, each of which may delay writers.
const STEP: u64 = 64 << 20;
/// How long an attempt waits for readers.
const READERS_END: Duration = Duration::from_millis(500);

/// The log of one file.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    /// Size of the next attempt.
    next: AtomicU64,
}

impl Wal {
    /// The log of `database`.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = OsString::from(database);
        path.push("-wal");
        Self { path: path.into(), next: AtomicU64::new(LARGE) }
    }

    /// Whether a restart is due.
    pub(super) fn is_large(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|it| it.len() >= self.next.load(Ordering::Relaxed))
    }

    /// Checkpoints and truncates the log, on the write connection.
    ///
    /// # Errors
    /// The connection or the disk failed. Readers that do not finish in time are not an error: another attempt follows.
    pub(super) async fn start_anew(&self, conn: &mut Conn) -> Result<(), Fault> {
        let waits: i64 = conn.one("SELECT timeout FROM pragma_busy_timeout", params![]).await?;
        set_timeout(conn, READERS_END.as_millis() as i64).await?;
        let folded = conn.one("PRAGMA wal_checkpoint(TRUNCATE)", params![]).await;
        set_timeout(conn, waits).await?;
        let (busy, _, _): (i64, i64, i64) = folded?;
        let left = fs::metadata(&self.path).map_or(0, |it| it.len());
        self.next.store(if busy == 0 { LARGE } else { left + STEP }, Ordering::Relaxed);
        Ok(())
    }
}

async fn set_timeout(conn: &mut Conn, millis: i64) -> Result<(), Fault> {
    conn.execute(format!("PRAGMA busy_timeout = {millis}"), params![]).await.map(drop)
}
