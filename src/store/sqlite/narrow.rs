//! Reading a file whose disk is full: without the index of the log that processes share in a file of its own.
//!
//! SQLite has no room for that file then, and refuses even to read. A connection that has the database for itself
//! keeps the index in memory instead. Nobody else can open the file meanwhile, so this ends as soon as there is room.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{
    Sqlite, SqlitePool,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteLockingMode},
};

use super::file::OpenFile;

/// How a connection reads that needs no room.
pub(super) fn options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.locking_mode(SqliteLockingMode::Exclusive).pragma("query_only", "on")
}

/// The one connection that reads while the disk is full.
#[derive(Debug)]
pub(super) struct Narrow {
    pool: SqlitePool,
    over: AtomicBool,
}

impl Narrow {
    /// Nothing is opened yet.
    pub(super) fn new(pool: PoolOptions<Sqlite>, options: SqliteConnectOptions) -> Self {
        let pool = pool.max_connections(1).connect_lazy_with(self::options(options));
        Self { pool, over: AtomicBool::new(false) }
    }

    /// The connection, unless the disk has room by now; then it is closed for good.
    pub(super) fn pool(&self, file: &OpenFile) -> Option<&SqlitePool> {
        if !self.over.load(Ordering::Acquire) && file.try_room().is_err() {
            return Some(&self.pool);
        }
        if !self.over.swap(true, Ordering::AcqRel) {
            // Others wait for its lock, and for no longer than one statement.
            let pool = self.pool.clone();
            tokio::spawn(async move { pool.close().await });
        }
        None
    }

    /// Gives the connection back.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}
