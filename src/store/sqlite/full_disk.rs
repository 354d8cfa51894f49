//! Reads a file on a full disk, without the shared-memory index of the log.
//!
//! SQLite has no room for that index then, and even refuses to read. A connection with exclusive access keeps the index
//! in memory instead. Other processes cannot open the file meanwhile, so this ends as soon as there is room.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{
    Sqlite, SqlitePool,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteLockingMode},
};

use super::file::OpenFile;

/// Settings of a connection that needs no room.
pub(super) fn options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.locking_mode(SqliteLockingMode::Exclusive).pragma("query_only", "on")
}

/// The only connection while the disk is full.
#[derive(Debug)]
pub(super) struct FullDiskReader {
    pool: SqlitePool,
    over: AtomicBool,
}

impl FullDiskReader {
    /// Opens nothing yet.
    pub(super) fn new(pool: PoolOptions<Sqlite>, options: SqliteConnectOptions) -> Self {
        let pool = pool.max_connections(1).connect_lazy_with(self::options(options));
        Self { pool, over: AtomicBool::new(false) }
    }

    /// The connection, unless the disk has room by now; then it is closed permanently.
    pub(super) fn pool(&self, file: &OpenFile) -> Option<&SqlitePool> {
        if !self.over.load(Ordering::Acquire) && file.try_room().is_err() {
            return Some(&self.pool);
        }
        if !self.over.swap(true, Ordering::AcqRel) {
            // Others wait for its lock, at most for one statement.
            let pool = self.pool.clone();
            tokio::spawn(async move { pool.close().await });
        }
        None
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}
