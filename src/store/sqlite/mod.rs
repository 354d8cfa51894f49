//! SQLite: one file, one writer, a few readers.
//!
//! WAL lets readers continue while the writer commits; `synchronous=FULL` makes a commit survive a power loss, since an
//! acknowledgement in Redis follows it. Write transactions begin with `BEGIN IMMEDIATE`: one that reads first and
//! writes later would get BUSY at once, whatever the timeout.

mod connect;
mod file;
mod full_disk;
mod lock;
#[cfg(test)]
mod tests;
mod wal;

use std::time::Duration;

use sqlx::{pool::PoolOptions, sqlite::SqliteConnectOptions};

use super::{
    Conn, Result, StoreError, batch::PAGE, connection::Pool, dialect::sqlite::SQLITE, fault::Fault,
    session::Sessions,
};
pub(super) use connect::open;
use file::OpenFile;
use full_disk::FullDiskReader;
use lock::Lock;
use wal::Wal;

/// How long a task waits for a connection, behind writers that each wait for `BUSY`.
const TURN: Duration = Duration::from_secs(15);
/// Timeout of a read: some read every order of a sale.
const READ: Duration = Duration::from_hours(1);

/// Connections that are kept: opening one costs more than keeping it.
fn sessions(
    options: SqliteConnectOptions,
    most: u32,
    acquire: Duration,
    limit: Duration,
) -> Sessions {
    let pool = PoolOptions::new()
        .max_connections(most)
        .acquire_timeout(acquire)
        .idle_timeout(None)
        .max_lifetime(None);
    Sessions::new(Pool::Sqlite, pool, options, limit, [].into(), PAGE)
}

/// An open file, which other processes may use at the same time.
///
/// It has one write connection: SQLite has one writer at a time, and a queue in front of it is fairer than its busy
/// timeout. SQLite ends a transaction by itself on a disk error, so the connection is replaced unless its transaction
/// had a definite result.
#[derive(Debug)]
pub(super) struct SqliteFile {
    file: OpenFile,
    wal: Wal,
    readers: Sessions,
    /// Reads instead of these if the disk was full at startup.
    full_disk: Option<FullDiskReader>,
    lock: Lock,
}

impl SqliteFile {
    /// The read connections, to the opened file: a removed or replaced one has other rows.
    pub(super) fn readers(&self) -> Result<&Sessions> {
        self.file.check()?;
        let full_disk = self.full_disk.as_ref().and_then(|it| it.sessions(&self.file));
        Ok(full_disk.unwrap_or(&self.readers))
    }

    /// Checks that its path still leads to it, and that there is enough room.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.file.check()?;
        if self.full_disk.as_ref().is_some_and(|it| it.sessions(&self.file).is_some()) {
            self.file.try_room()?;
        }
        Ok(())
    }

    /// Checks for a full disk and for a lock of another program.
    pub(super) async fn takes_writes(&self, writer: &Sessions) -> Result<()> {
        self.file.check()?;
        if let Some(reader) = self.full_disk.as_ref().and_then(|it| it.sessions(&self.file)) {
            return Err(self.needs(reader).await?.unwrap_or_else(file::full));
        }
        if self.wal.is_in_the_way(self.file.free()) {
            // A transaction would fail, so nothing else would truncate the log.
            self.fold_log(writer).await?;
        }
        self.file.check_room()?;
        writer.takes_writes()?;
        self.lock.take_and_give_back().await
    }

    /// Checks that a transaction was committed to the file at its path, and limits the log.
    pub(super) async fn committed(&self, writer: &Sessions) -> Result<()> {
        self.file.check()?;
        // The data is safe in the log, so a failure here only lets the log grow.
        if self.wal.is_due(self.file.free())
            && let Err(error) = self.fold_log(writer).await
        {
            tracing::warn!(%error, "the write-ahead log was not checkpointed");
        }
        Ok(())
    }

    /// Checkpoints and truncates the log.
    ///
    /// # Errors
    /// Also if the disk has too little room for it, which a partial checkpoint would only use up: with what is needed.
    async fn fold_log(&self, writer: &Sessions) -> Result<()> {
        let folded: Result<(), Fault> = async {
            let mut lease = writer.lease().await?;
            let folded = async {
                if let Some(full) = self.lacks(lease.conn()).await? {
                    return Err(full.into());
                }
                self.wal.start_anew(lease.conn()).await
            };
            let folded = folded.await;
            lease.end(folded).await
        }
        .await;
        folded.map_err(|fault| fault.store_error(&SQLITE))
    }

    /// The error that states what a checkpoint of the log needs, unless there is room for it.
    async fn lacks(&self, conn: &mut Conn) -> Result<Option<StoreError>, Fault> {
        let Some(free) = self.file.free() else { return Ok(None) };
        let growth = self.wal.growth(conn, self.file.size()).await?;
        Ok((free < growth.by).then(|| file::full_for_log(growth, free)))
    }

    /// The same, read on a connection of these.
    async fn needs(&self, sessions: &Sessions) -> Result<Option<StoreError>> {
        let found: Result<_, Fault> = async {
            let mut lease = sessions.lease().await?;
            let found = self.lacks(lease.conn()).await;
            lease.end(found).await
        }
        .await;
        found.map_err(|fault| fault.store_error(&SQLITE))
    }

    /// Closes its connections, except the one that writes.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        if let Some(full_disk) = &self.full_disk {
            full_disk.sessions.close().await;
        }
        self.lock.sessions.close().await;
    }
}
