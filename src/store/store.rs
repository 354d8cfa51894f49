//! A store: one database, and the units of work that run on it.
//!
//! Each operation (`queries`) is one read or one transaction on a leased connection.

use std::sync::{Arc, atomic::AtomicBool};

use seckill_model::Millis;

use crate::{
    Conn, Fault, Result, Sessions, SharedStore, StoreError, fault_injection::Illness, params,
    session::Lease, sqlite::SqliteFile,
};

/// The durable state of vouchers, sales, orders, jobs and the audit log. All writes that a caller may repeat are
/// idempotent.
#[derive(Debug)]
pub struct Store {
    /// The database, or why it could not be opened.
    pub(super) database: Result<Arc<Database>>,
    pub(super) faults: Option<Illness>,
}

/// An open database with a current schema.
#[derive(Debug)]
pub(super) struct Database {
    /// Kind and location, without a password.
    pub(super) shown: String,
    /// The connections that write; those to a server also read.
    pub(super) sessions: Sessions,
    /// The file, if it is one.
    pub(super) file: Option<SqliteFile>,
    /// The last batch contained existing orders, so the next one may as well: the fast path is skipped.
    pub(super) mixed: AtomicBool,
}

/// Reads on a separate connection.
macro_rules! read {
    ($store:expr, |$conn:ident| $work:expr) => {{
        let sessions = $store.database()?.readers()?;
        let attempt = move |_| async move {
            let mut lease = sessions.lease().await?;
            let done: Result<_, Fault> = async {
                let $conn = lease.conn();
                $work
            }
            .await;
            lease.end(done).await
        };
        $store.inject(false, Box::pin(sessions.read(attempt))).await
    }};
}
pub(super) use read;

/// Writes in a separate transaction.
macro_rules! transaction {
    ($store:expr, |$conn:ident| $work:expr) => {{
        let database = $store.database()?;
        let sessions = database.writer()?;
        let attempt = move |commit_sent| async move {
            let mut lease = sessions.begin(commit_sent).await?;
            let done: Result<_, Fault> = async {
                let $conn = lease.conn();
                $work
            }
            .await;
            database.commit(lease, done).await
        };
        $store.inject(true, Box::pin(sessions.write(attempt))).await
    }};
}
pub(super) use transaction;

impl Database {
    /// Maximum number of IDs or rows per statement.
    pub(super) fn page(&self) -> usize {
        self.sessions.page()
    }

    pub(super) fn writer(&self) -> Result<&Sessions> {
        if let Some(file) = &self.file {
            file.check_writable()?;
        }
        Ok(&self.sessions)
    }

    pub(super) fn readers(&self) -> Result<&Sessions> {
        match &self.file {
            Some(file) => file.readers(),
            None => Ok(&self.sessions),
        }
    }

    /// Commits a transaction that succeeded and rolls back one that failed.
    pub(super) async fn commit<T>(&self, lease: Lease, done: Result<T, Fault>) -> Result<T, Fault> {
        let done = lease.end(done).await?;
        if let Some(file) = &self.file {
            file.committed(&self.sessions).await?;
        }
        Ok(done)
    }

    async fn takes_writes(&self) -> Result<()> {
        // Row locks of a server never block all writes. A read-only server or a full disk makes the writes fail.
        match &self.file {
            Some(file) => file.takes_writes(&self.sessions).await,
            None => self.sessions.takes_writes(),
        }
    }
}

impl Store {
    /// A store on the same database whose operations fail on demand, initially without a fault. `seed` determines which
    /// writes take effect although their commit failed.
    pub fn with_faults(&self, seed: u64) -> (SharedStore, Illness) {
        let illness = Illness::new(seed);
        let database = self.database.clone();
        (Arc::new(Self { database, faults: Some(illness.clone()) }), illness)
    }

    /// A store for commands that report on Redis alone: every operation fails with `error`.
    pub fn unopened(error: StoreError) -> SharedStore {
        Arc::new(Self { database: Err(error), faults: None })
    }

    /// Why the database could not be opened, if so.
    pub fn open_error(&self) -> Option<&StoreError> {
        self.database.as_ref().err()
    }

    /// Kind and location, without a password: `sqlite /path/seckill.db`.
    pub fn describe(&self) -> String {
        match &self.database {
            Ok(database) => database.shown.clone(),
            Err(_) => "database".to_owned(),
        }
    }

    pub(super) fn database(&self) -> Result<&Database> {
        self.database.as_deref().map_err(Clone::clone)
    }

    /// Checks that the database answers; returns the server's version.
    pub async fn ping(&self) -> Result<String> {
        read!(self, |conn| {
            let version = conn.dialect().version;
            conn.one(version, params![]).await
        })
    }

    /// How far the clock of the server is ahead of this host's, in ms: `known` if the reply is consistent with it. `None` for a
    /// file, which has no clock of its own.
    ///
    /// # Errors
    /// The database is unreachable.
    pub async fn clock_ahead_ms(&self, known: i64) -> Result<Option<i64>> {
        read!(self, |conn| {
            let Some(clock) = conn.dialect().clock else { return Ok(None) };
            let asked = Millis::now();
            let now: i64 = conn.one(clock, params![]).await?;
            Ok(Some(Millis(now).ahead(known, asked, Millis::now())))
        })
    }

    /// Checks whether writes are blocked while reads succeed, because another program keeps the file locked. Takes at
    /// most a second; a single failed attempt may be caused by a slow commit. Always succeeds for databases without
    /// such a lock.
    pub async fn takes_writes(&self) -> Result<()> {
        self.inject(false, Box::pin(self.database()?.takes_writes())).await
    }

    /// Settings that affect durability, for `doctor`: name and value.
    pub async fn durability(&self) -> Result<Vec<(String, String)>> {
        // Asked on a write connection, whose settings matter.
        let sessions = self.database()?.writer()?;
        let attempt = move |_| async move {
            let mut lease = sessions.lease().await?;
            let done = durability(lease.conn()).await;
            lease.end(done).await
        };
        self.inject(false, Box::pin(sessions.read(attempt))).await
    }

    /// Closes the connections; the database is consistent at any time, also without this.
    pub async fn close(&self) {
        let Ok(database) = &self.database else { return };
        // Readers first: the last connection to close checkpoints the log and must write.
        if let Some(file) = &database.file {
            file.close().await;
        }
        database.sessions.close().await;
    }

    /// Runs a unit of work under the injected fault, if any.
    pub(super) async fn inject<T>(
        &self,
        writes: bool,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match &self.faults {
            Some(faults) => faults.apply(writes, work).await,
            None => work.await,
        }
    }
}

async fn durability(conn: &mut Conn) -> Result<Vec<(String, String)>, Fault> {
    let mut settings = Vec::new();
    for (name, query) in conn.dialect().durability {
        let value: Option<String> = conn.row(*query, params![]).await?;
        settings.push(((*name).to_owned(), value.unwrap_or_default()));
    }
    Ok(settings)
}
