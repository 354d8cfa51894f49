//! SQLite: one file, one writer, a few readers.
//!
//! WAL lets readers continue while the writer commits; `synchronous=FULL` makes a commit survive a power loss, since an
//! acknowledgement in Redis follows it. Write transactions begin with `BEGIN IMMEDIATE`: one that reads first and
//! writes later would get BUSY at once, whatever the timeout.

mod batch;
mod connect;
mod dialect;
mod errors;
mod file;
mod full_disk;
mod lock;
#[cfg(test)]
mod tests;
mod wal;

use std::time::Duration;

use seckill_model::Millis;
use sqlx::{Sqlite, SqlitePool};

use super::{
    StoreError, Written,
    queries::Conn,
    rows::Key,
    session::{Fault, Lease, Sessions},
    sql_store::{Backend, SqlStore},
};
use errors::store_error;
use file::OpenFile;
use full_disk::FullDiskReader;
use lock::Lock;
use wal::Wal;

/// Reserve for checkpoints.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A store in one SQLite file.
pub(super) type SqliteStore = SqlStore<SqliteBackend>;

/// One SQLite file, which other processes may use at the same time.
#[derive(Debug)]
pub(super) struct SqliteBackend {
    file: OpenFile,
    wal: Wal,
    /// One connection: SQLite has one writer at a time, and a queue in front of it is fairer than its busy timeout.
    /// SQLite ends a transaction by itself on a disk error, so the connection is replaced unless its transaction had a
    /// definite result.
    writer: Sessions<Sqlite>,
    readers: SqlitePool,
    /// Reads instead of these if the disk was full at startup.
    full_disk: Option<FullDiskReader>,
    lock: Lock,
}

impl SqliteBackend {
    /// The read connections, to the opened file: a removed or replaced one has other rows.
    fn readers(&self) -> Result<&SqlitePool, StoreError> {
        self.file.check()?;
        let full_disk = self.full_disk.as_ref().and_then(|it| it.pool(&self.file));
        Ok(full_disk.unwrap_or(&self.readers))
    }

    /// The data is safe in the log, so a failure here only lets the log grow.
    async fn fold_log(&self) {
        let folded = async {
            let mut lease = self.writer.lease().await?;
            let folded = self.wal.start_anew(&mut lease).await;
            lease.end(folded.map_err(Fault::Sql)).await
        };
        if let Err(fault) = folded.await {
            tracing::warn!(?fault, "the log of the database was not folded");
        }
    }
}

impl Backend for SqliteBackend {
    type Db = Sqlite;

    const READS_ARE_BOUNDED: bool = false;

    fn describe(&self) -> String {
        format!("sqlite {}", self.file.path().display())
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        self.file.check_room()?;
        self.writer()?.takes_writes()?;
        self.lock.take_and_give_back().await
    }

    /// The write connection to the opened file, once there is enough room.
    fn writer(&self) -> Result<&Sessions<Sqlite>, StoreError> {
        self.file.check()?;
        if self.full_disk.as_ref().is_some_and(|it| it.pool(&self.file).is_some()) {
            self.file.try_room()?;
        }
        Ok(&self.writer)
    }

    async fn reader(&self) -> Result<Lease<Sqlite>, Fault> {
        Ok(Lease::new(self.readers()?.acquire().await?))
    }

    async fn end_read<T: Send>(
        &self,
        lease: Lease<Sqlite>,
        done: Result<T, Fault>,
    ) -> Result<T, Fault> {
        lease.give_back();
        done
    }

    /// A write counts only if it is in the file at its path.
    async fn end_write<T: Send>(
        &self,
        lease: Lease<Sqlite>,
        done: Result<T, Fault>,
    ) -> Result<T, Fault> {
        // An error about values leaves the connection intact, whatever its code.
        let done = done.map_err(|fault| match fault {
            Fault::Sql(error) => Fault::Store(store_error(error)),
            fault => fault,
        });
        let done = lease.end(done).await?;
        self.file.check().map_err(StoreError::from)?;
        if self.wal.is_large() {
            self.fold_log().await;
        }
        Ok(done)
    }

    async fn write_mixed(
        conn: &mut Conn<Sqlite>,
        keys: &[Key],
        now: Millis,
        _: usize,
    ) -> Result<Vec<Written>, Fault> {
        batch::write_mixed(conn, keys, now).await
    }

    async fn close(&self) {
        // Readers first: the last connection to close checkpoints the log and must write.
        // A hanging disk must not keep a process from ending.
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.readers.close()).await;
        if let Some(full_disk) = &self.full_disk {
            let _ = tokio::time::timeout(CLOSE_WITHIN, full_disk.close()).await;
        }
        self.lock.close().await;
        self.writer.close().await;
    }
}
