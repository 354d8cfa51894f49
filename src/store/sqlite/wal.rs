//! Size limit of the write-ahead log: a fixed one, and the free space of the disk.
//!
//! SQLite checkpoints the log by itself, but restarts it only when a write finds it fully checkpointed and without
//! readers. Under steady reads that never happens, and the log grows with every commit. So the writer requests a
//! restart once the log is large, and waits for the readers with a timeout.
//!
//! A checkpoint makes the database grow before it truncates the log. So a log that has taken all of the disk could never
//! be truncated again: on a small disk it is checkpointed while the free space is certain to suffice.

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
/// Free space that is left to the transactions until the next attempt: one batch of orders changes fewer pages.
const MARGIN: u64 = 16 << 20;
/// A smaller log is not checkpointed.
const SMALL: u64 = 256 << 10;
/// How long an attempt waits for readers.
const READERS_END: Duration = Duration::from_millis(500);

/// The log of one file.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    /// Size of the next attempt.
    next: AtomicU64,
    /// Size after the last attempt.
    left: AtomicU64,
}

/// Space that a checkpoint needs before it releases the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// Bytes by which the database grows.
    pub(super) by: u64,
    /// Bytes of the log.
    pub(super) log: u64,
}

impl Wal {
    /// The log of `database`.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = OsString::from(database);
        path.push("-wal");
        Self { path: path.into(), next: AtomicU64::new(LARGE), left: AtomicU64::new(0) }
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |it| it.len())
    }

    /// Whether a restart is due after a commit.
    pub(super) fn is_due(&self, free: Option<u64>) -> bool {
        let size = self.size();
        let has_grown = size.abs_diff(self.left.load(Ordering::Relaxed)) >= SMALL;
        size >= self.next.load(Ordering::Relaxed) || (has_grown && fills(size, free))
    }

    /// Whether the log takes space that the disk needs.
    pub(super) fn is_in_the_way(&self, free: Option<u64>) -> bool {
        fills(self.size(), free)
    }

    /// What a checkpoint needs, by the number of pages that the database has with its log.
    pub(super) async fn growth(&self, conn: &mut Conn, database: u64) -> Result<Growth, Fault> {
        let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let whole: i64 = conn.one(pages, params![]).await?;
        Ok(Growth { by: whole.unsigned_abs().saturating_sub(database), log: self.size() })
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
        let left = self.size();
        self.left.store(left, Ordering::Relaxed);
        self.next.store(if busy == 0 { LARGE } else { left + STEP }, Ordering::Relaxed);
        Ok(())
    }
}

async fn set_timeout(conn: &mut Conn, millis: i64) -> Result<(), Fault> {
    conn.execute(format!("PRAGMA busy_timeout = {millis}"), params![]).await.map(drop)
}

/// Whether a log of this size takes space that the disk needs: at worst, the database grows by the whole log.
fn fills(size: u64, free: Option<u64>) -> bool {
    size >= SMALL && free.is_some_and(|free| size + MARGIN >= free)
}
