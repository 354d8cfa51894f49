//! Reads a file on a full disk, without the shared-memory index of the log.
//!
//! Without space for that index, SQLite refuses even to read. A connection with exclusive access keeps the index
//! in memory instead. Other processes cannot open the file meanwhile, so this ends as soon as there is room.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sqlx::sqlite::{SqliteConnectOptions, SqliteLockingMode};

use super::{READ, TURN, file::OpenFile, sessions};
use crate::Sessions;

/// Settings of a connection that needs no disk space.
pub(super) fn options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.locking_mode(SqliteLockingMode::Exclusive).pragma("query_only", "on")
}

/// The only connection while the disk is full.
#[derive(Debug)]
pub(super) struct FullDiskReader {
    pub(super) sessions: Arc<Sessions>,
    over: AtomicBool,
}

impl FullDiskReader {
    /// Opens nothing yet.
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        let sessions = Arc::new(sessions(self::options(options), 1, TURN, READ));
        Self { sessions, over: AtomicBool::new(false) }
    }

    /// The connection, unless the disk has room by now; then it is closed permanently.
    pub(super) fn sessions(&self, file: &OpenFile) -> Option<&Sessions> {
        if !self.over.load(Ordering::Acquire) && file.try_room().is_err() {
            return Some(&self.sessions);
        }
        if !self.over.swap(true, Ordering::AcqRel) {
            // Others wait for its lock, at most for one statement.
            let sessions = Arc::clone(&self.sessions);
            tokio::spawn(async move { sessions.close().await });
        }
        None
    }
}
