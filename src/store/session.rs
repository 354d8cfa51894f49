//! Connections to a database, server or file: leased for one unit of work, with timeouts, and closed when their state
//! is unknown. This file is independent of tables and error codes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use seckill_model::{
    Reason,
    faults::{self, Point},
    reason,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Database, Executor, SqlSafeStr as _,
    pool::PoolOptions,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Conn, Fault, Result, StoreError,
    connection::{Driver, Pool, by_driver},
    dialect::mysql,
    params,
};

/// Maximum number of attempts of a transaction after conflicts.
const MAX_ATTEMPTS: u32 = 8;
/// A connection that was idle for longer is pinged before use.
const PING_AFTER: Duration = Duration::from_secs(1);
/// Timeout for asking a server why it provides no connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for closing connections; the last one to a file checkpoints its log.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// An older write failure is no longer significant: retried writes fail more often.
const FAILURE_IS_RECENT: Duration = Duration::from_secs(10);

/// Whether the commit of an attempt was sent, which determines its outcome when it is interrupted.
pub(super) type CommitSent = Arc<AtomicBool>;

/// The connections of this process.
#[derive(Debug)]
pub(super) struct Sessions {
    pool: Pool,
    prepare: Arc<[String]>,
    /// Timeout of one attempt of a unit of work.
    limit: Duration,
    /// When and why the last write failed because of the database; cleared by a successful one.
    failing: Mutex<Option<(Instant, Reason)>>,
    /// Maximum number of IDs or rows per statement.
    page: AtomicUsize,
}

impl Sessions {
    /// Does not connect yet. `limit` is the timeout of one attempt of a unit of work; `prepare` sets up each new
    /// connection.
    pub(super) fn new<DB: Database>(
        driver: impl FnOnce(sqlx::Pool<DB>) -> Pool,
        pool: PoolOptions<DB>,
        options: <DB::Connection as Connection>::Options,
        limit: Duration,
        prepare: Arc<[String]>,
        page: usize,
    ) -> Self
    where
        for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    {
        let statements = Arc::clone(&prepare);
        let pool = pool
            .test_before_acquire(false)
            .before_acquire(|conn: &mut DB::Connection, it| {
                Box::pin(async move {
                    // Detects a restarted server before the work begins.
                    Ok(it.idle_for < PING_AFTER || conn.ping().await.is_ok())
                })
            })
            .after_connect(move |conn, _| {
                let statements = Arc::clone(&statements);
                Box::pin(async move { self::prepare::<DB>(conn, &statements).await })
            })
            .connect_lazy_with(options);
        let page = AtomicUsize::new(page);
        Self { pool: driver(pool), prepare, limit, failing: Mutex::default(), page }
    }

    pub(super) fn page(&self) -> usize {
        self.page.load(Ordering::Relaxed)
    }

    /// Adapts the number of rows per statement to a server that accepts only smaller ones by now. It closes a connection
    /// that sends more, which looks like an outage.
    async fn adapt_page(&self) {
        let Some(query) = self.pool.dialect().packet else { return };
        let packet = timeout(PROBE_TIMEOUT, async {
            let mut lease = self.lease().await?;
            let packet = lease.conn().one::<i64>(query, params![]).await;
            lease.end(packet).await
        });
        if let Ok(Ok(packet)) = packet.await {
            let (page, before) = (mysql::page(packet), self.page());
            if page != before {
                tracing::warn!(page, before, "the server accepts statements of another size now");
                self.page.store(page, Ordering::Relaxed);
            }
        }
    }

    /// Runs a transaction, including its commit, as [`Sessions::read`] does, and records whether the database accepts
    /// writes.
    pub(super) async fn write<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        work: impl Fn(CommitSent) -> F,
    ) -> Result<T> {
        let done = self.read(work).await;
        self.note_write(done.as_ref().err());
        if done.as_ref().is_err_and(StoreError::is_outage) {
            self.adapt_page().await;
        }
        done
    }

    /// Runs a unit of work, and repeats it after a conflict. Each attempt has a timeout.
    pub(super) async fn read<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        work: impl Fn(CommitSent) -> F,
    ) -> Result<T> {
        let limit = self.limit;
        // Timeouts of lock waits do not accumulate.
        let end = Instant::now() + limit;
        let mut tries = 1;
        loop {
            let commit_sent = CommitSent::default();
            let fault = match timeout(limit, work(Arc::clone(&commit_sent))).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(fault)) => fault,
                Err(_) => {
                    let seconds = limit.as_secs_f64();
                    let why = reason!("store-no-answer-within-s", seconds);
                    return Err(if commit_sent.load(Ordering::Relaxed) {
                        StoreError::Unknown(why)
                    } else {
                        StoreError::Away(why)
                    });
                }
            };
            let again = match &fault {
                Fault::Sql(error) => self.pool.dialect().is_transient(error),
                Fault::Again => true,
                Fault::Store(_) | Fault::AtCommit(_) => false,
            };
            if !again || tries == MAX_ATTEMPTS || Instant::now() >= end {
                return Err(self.store_error(fault).await);
            }
            // Random delays keep two conflicting transactions from conflicting again.
            let most = 1_u64 << tries.min(6);
            sleep(Duration::from_micros(rand::random_range(0..most * 1_000))).await;
            tries += 1;
        }
    }

    /// Detects a database that answers reads and fails writes: the last write of this process failed because of it,
    /// recently.
    ///
    /// # Errors
    /// The cause of that failure.
    pub(super) fn takes_writes(&self) -> Result<()> {
        let failing = self.failing.lock();
        match &*failing {
            Some((at, why)) if at.elapsed() < FAILURE_IS_RECENT => {
                Err(StoreError::Away(why.clone()))
            }
            _ => Ok(()),
        }
    }

    fn note_write(&self, error: Option<&StoreError>) {
        match error {
            None => *self.failing.lock() = None,
            Some(error) if error.stands_for_all() => self.note_failing(error),
            // One request was rejected, which says nothing about the others.
            Some(_) => {}
        }
    }

    /// Records that the database accepts no writes, for [`Sessions::takes_writes`].
    pub(super) fn note_failing(&self, error: &StoreError) {
        *self.failing.lock() = Some((Instant::now(), error.clone().reason()));
    }

    /// Returns a connection for read-only statements.
    pub(super) async fn lease(&self) -> Result<Lease, Fault> {
        let conn = match &self.pool {
            Driver::Sqlite(pool) => Driver::Sqlite(pool.acquire().await?),
            Driver::Mysql(pool) => Driver::Mysql(pool.acquire().await?),
            Driver::Postgres(pool) => Driver::Postgres(pool.acquire().await?),
        };
        Ok(Lease { conn: Some(conn), commit_sent: None })
    }

    /// Returns a connection with a transaction begun. Every write uses one, even a single statement: a failure before
    /// the commit then means that nothing was written.
    pub(super) async fn begin(&self, commit_sent: CommitSent) -> Result<Lease, Fault> {
        let mut lease = self.lease().await?;
        lease.begin(commit_sent).await?;
        Ok(lease)
    }

    pub(super) async fn close(&self) {
        // A hanging server would never reply.
        let _ = timeout(CLOSE_TIMEOUT, async {
            by_driver!(&self.pool, |pool| pool.close().await);
        })
        .await;
    }

    async fn store_error(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(sqlx::Error::PoolTimedOut) => self.connection_error().await,
            fault => fault.store_error(self.pool.dialect()),
        }
    }

    /// The pool retries until its timeout, and does not report the cause.
    async fn connection_error(&self) -> StoreError {
        let probe = async { by_driver!(&self.pool, |pool| probe(pool, &self.prepare).await) };
        let most = by_driver!(&self.pool, |pool| pool.options().get_max_connections());
        match timeout(PROBE_TIMEOUT, probe).await {
            Ok(Ok(())) => StoreError::Away(reason!("store-reason-pool-busy", connections = most)),
            Ok(Err(error)) => self.pool.dialect().store_error(error),
            Err(_) => StoreError::Away(reason!("store-reason-silent")),
        }
    }
}

/// Opens a connection outside of the pool.
async fn probe<DB: Database>(
    pool: &sqlx::Pool<DB>,
    statements: &[String],
) -> Result<(), sqlx::Error>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let mut conn = pool.connect_options().connect().await?;
    prepare::<DB>(&mut conn, statements).await
}

/// Sets up a new connection.
pub(super) async fn prepare<DB: Database>(
    conn: &mut DB::Connection,
    statements: &[String],
) -> Result<(), sqlx::Error>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    for statement in statements {
        conn.execute(AssertSqlSafe(statement.clone()).into_sql_str()).await?;
    }
    Ok(())
}

/// A connection leased for one unit of work.
///
/// Returned to the pool only when [`Lease::end`] has seen a definite result. After an interruption it may hold a
/// partial reply or an open transaction, so it is closed.
#[derive(Debug)]
pub(super) struct Lease {
    conn: Option<Conn>,
    /// That of the transaction, if one was begun.
    commit_sent: Option<CommitSent>,
}

impl Lease {
    /// Its connection.
    #[allow(clippy::expect_used, reason = "taken only by methods that consume the lease")]
    pub(super) fn conn(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("a lease that has not ended")
    }

    /// Begins a write transaction.
    pub(super) async fn begin(&mut self, commit_sent: CommitSent) -> Result<(), sqlx::Error> {
        let begin = self.conn().dialect().begin;
        self.run(begin).await?;
        self.commit_sent = Some(commit_sent);
        Ok(())
    }

    /// Commits on success, rolls back on failure, and returns the connection to the pool, unless the error leaves its
    /// state unknown.
    pub(super) async fn end<T>(mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        let dialect = self.conn().dialect();
        let done = done.map_err(|fault| match fault {
            Fault::Sql(error) if !dialect.is_transient(&error) => {
                Fault::Store(dialect.store_error(error))
            }
            fault => fault,
        });
        let usable = match &done {
            Ok(_) | Err(Fault::Again | Fault::Sql(_)) => true,
            Err(Fault::Store(error)) => !error.stands_for_all(),
            Err(Fault::AtCommit(_)) => false,
        };
        if !usable {
            return done;
        }
        match self.commit_sent.take() {
            Some(commit_sent) if done.is_ok() => {
                faults::pass(Point::BeforeCommit);
                commit_sent.store(true, Ordering::Relaxed);
                if let Err(error) = self.run("COMMIT").await {
                    let rolled_back = dialect.is_rolled_back(&error);
                    return Err(if rolled_back {
                        Fault::Sql(error)
                    } else {
                        Fault::AtCommit(error)
                    });
                }
            }
            Some(_) if self.run("ROLLBACK").await.is_err() => return done,
            _ => {}
        }
        self.conn.take();
        done
    }

    /// Rolls back, because there is nothing to commit, and returns the connection to the pool.
    pub(super) async fn roll_back(mut self) -> Result<(), Fault> {
        self.run("ROLLBACK").await?;
        self.conn.take();
        Ok(())
    }

    /// Runs a statement without values.
    pub(super) async fn run(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        by_driver!(self.conn(), |conn| (&mut **conn).execute(sql).await.map(drop))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // Not closed in order, which could hang; the server rolls an open transaction back.
            by_driver!(conn, |conn| drop(conn.detach()));
        }
    }
}
