//! SQLite: one file, one writer, a few readers.
//!
//! WAL lets readers go on while the writer commits; `synchronous=FULL` makes a commit outlive a
//! power loss, since an acknowledgement in Redis follows it. Every writing transaction begins
//! with `BEGIN IMMEDIATE`: one that read first and wrote later would get BUSY at once, whatever
//! the timeout. This module must not know Redis or a command line.

mod batch;
mod connect;
mod dialect;
mod errors;
mod file;
mod lock;
mod narrow;
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
use lock::Lock;
use narrow::Narrow;
use wal::Wal;

/// Folding the log into the file takes some of it.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A store in one SQLite file.
pub(super) type SqliteStore = SqlStore<SqliteBackend>;

/// One SQLite file, which other processes may use at the same time.
#[derive(Debug)]
pub(super) struct SqliteBackend {
    file: OpenFile,
    wal: Wal,
    /// One connection: SQLite has one writer at a time, and a queue in front of it is fairer than
    /// its busy timeout. SQLite ends a transaction by itself where the disk fails it, so the connection is
    /// replaced unless its transaction came to a definite end.
    writer: Sessions<Sqlite>,
    readers: SqlitePool,
    /// Reads instead of them where the disk was full at the start.
    narrow: Option<Narrow>,
    lock: Lock,
}

impl SqliteBackend {
    /// The connections that read, in the file that was opened: one that was removed or took its place has other rows.
    fn readers(&self) -> Result<&SqlitePool, StoreError> {
        self.file.check()?;
        let narrow = self.narrow.as_ref().and_then(|it| it.pool(&self.file));
        Ok(narrow.unwrap_or(&self.readers))
    }

    /// What was written is safe in the log, so that a failure here is nothing but a log that grows on.
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

    /// The connection that writes, in the file that was opened, once there is room for what it needs.
    fn writer(&self) -> Result<&Sessions<Sqlite>, StoreError> {
        self.file.check()?;
        if self.narrow.as_ref().is_some_and(|it| it.pool(&self.file).is_some()) {
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

    /// Only what lies in the file under its path counts as written.
    async fn end_write<T: Send>(
        &self,
        lease: Lease<Sqlite>,
        done: Result<T, Fault>,
    ) -> Result<T, Fault> {
        // An error about values leaves the connection as it was, whatever its code.
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
        // Readers first: the last connection to go folds the log into the file, and needs to write.
        // A disk that hangs must not keep a process from ending.
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.readers.close()).await;
        if let Some(narrow) = &self.narrow {
            let _ = tokio::time::timeout(CLOSE_WITHIN, narrow.close()).await;
        }
        self.lock.close().await;
        self.writer.close().await;
    }
}
