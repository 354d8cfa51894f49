//! Connections to a database, server or file: leased for one unit of work, with timeouts, and closed when their state
//! is unknown. This file is independent of tables and error codes.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seckill_model::faults::{self, Point};
use sqlx::{
    ConnectOptions, Connection, Database, Pool, SqlSafeStr as _, SqlStr,
    error::{DatabaseError, ErrorKind},
    pool::{PoolConnection, PoolOptions},
};
use tokio::time::{Instant, sleep, timeout};

use super::{Reason, Settings, StoreError};

/// Most attempts of a transaction after conflicts.
const MAX_ATTEMPTS: u32 = 8;
/// A connection that was idle for longer is pinged before use.
const PING_AFTER: Duration = Duration::from_secs(1);
/// Timeout for asking a server why it provides no connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for closing connections; the last one to a file checkpoints its log.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// An older write failure is no longer significant: retried writes fail more often.
const FAILURE_IS_RECENT: Duration = Duration::from_secs(10);

/// A driver and its error codes.
pub(super) trait Driver: Database<Connection: std::fmt::Debug> {
    /// Begins a write transaction.
    const BEGIN: &'static str = "BEGIN";

    /// Classifies an error and explains it to the user.
    fn store_error(error: sqlx::Error) -> StoreError;

    /// Whether the same transaction may succeed if repeated at once.
    fn is_transient(error: &sqlx::Error) -> bool;

    /// Whether an error at the commit proves that the transaction was rolled back.
    fn is_rolled_back(error: &sqlx::Error) -> bool;

    /// Runs statements without values.
    fn run(
        conn: &mut Self::Connection,
        sql: SqlStr,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Implements [`Driver::run`]: the same text for each driver, since their types differ.
macro_rules! run_by_driver {
    () => {
        async fn run(conn: &mut Self::Connection, sql: sqlx::SqlStr) -> Result<(), sqlx::Error> {
            sqlx::Executor::execute(conn, sql).await.map(drop)
        }
    };
}
pub(super) use run_by_driver;

/// Why a unit of work failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// An error of the driver.
    Sql(sqlx::Error),
    /// A classified error.
    Store(StoreError),
    /// The connection broke at the commit, with unknown outcome.
    AtCommit(sqlx::Error),
    /// A concurrent transaction changed the rows read; the retry sees it.
    Again,
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// Classifies the error and explains it to the user.
    pub(super) fn store_error<DB: Driver>(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Again => StoreError::Away(Reason::Contention),
            Self::AtCommit(error) => match DB::store_error(error) {
                StoreError::Away(why) | StoreError::Refused(why) => StoreError::Unknown(why),
                other => StoreError::Unknown(Reason::Failed(Box::new(other))),
            },
            Self::Sql(error) => DB::store_error(error),
        }
    }
}

/// Progress of a unit of work, which determines its outcome when it is interrupted.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage(Arc<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// It is a write transaction.
    writes: AtomicBool,
    /// Its commit was sent.
    commits: AtomicBool,
}

/// Number of connections, and timeouts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most concurrent connections.
    pub(super) most: u32,
    /// Timeout for a connection.
    pub(super) acquire: Duration,
    /// Timeout of one attempt.
    pub(super) work: Duration,
}

impl From<&Settings> for Bounds {
    fn from(settings: &Settings) -> Self {
        Self { most: settings.pool, acquire: settings.acquire(), work: settings.transaction() }
    }
}

/// The connections of this process.
#[derive(Debug)]
pub(super) struct Sessions<DB: Driver> {
    pool: Pool<DB>,
    options: <DB::Connection as Connection>::Options,
    prepare: Arc<[String]>,
    limit: Duration,
    most: u32,
    /// When and why the last write failed because of the database; cleared by a successful one.
    failing: Mutex<Option<(Instant, Reason)>>,
}

impl<DB: Driver> Sessions<DB> {
    /// Does not connect yet. `prepare` sets up each new connection.
    pub(super) fn new(
        options: <DB::Connection as Connection>::Options,
        bounds: Bounds,
        prepare: Arc<[String]>,
    ) -> Self {
        let statements = Arc::clone(&prepare);
        let pool = PoolOptions::new()
            .max_connections(bounds.most)
            .acquire_timeout(bounds.acquire)
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
            .connect_lazy_with(options.clone());
        let Bounds { most, work: limit, .. } = bounds;
        Self { pool, options, prepare, limit, most, failing: Mutex::default() }
    }

    /// Runs a unit of work, including its commit, and repeats it after a conflict. Each attempt has a timeout.
    pub(super) async fn work<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        work: impl Fn(Stage) -> F,
    ) -> Result<T, StoreError> {
        let stage = Stage::default();
        let done = self.try_work(&stage, work).await;
        if stage.0.writes.load(Ordering::Relaxed) {
            self.note_write(done.as_ref().err());
        }
        done
    }

    /// Detects a database that answers reads and fails writes: the last write of this process failed because of it,
    /// recently.
    ///
    /// # Errors
    /// The cause of that failure.
    pub(super) fn takes_writes(&self) -> Result<(), StoreError> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failing {
            Some((at, why)) if at.elapsed() < FAILURE_IS_RECENT => {
                Err(StoreError::Away(why.clone()))
            }
            _ => Ok(()),
        }
    }

    fn note_write(&self, error: Option<&StoreError>) {
        let why = match error {
            Some(StoreError::Away(why) | StoreError::Unknown(why)) => Some(why.clone()),
            Some(error) if error.stands_for_all() => Some(Reason::Failed(Box::new(error.clone()))),
            _ => None,
        };
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) =
            why.map(|why| (Instant::now(), why));
    }

    async fn try_work<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        stage: &Stage,
        work: impl Fn(Stage) -> F,
    ) -> Result<T, StoreError> {
        // Timeouts of lock waits do not accumulate.
        let end = Instant::now() + self.limit;
        let mut tries = 1;
        loop {
            stage.0.commits.store(false, Ordering::Relaxed);
            let fault = match timeout(self.limit, work(stage.clone())).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(fault)) => fault,
                Err(_) => {
                    let why = Reason::NoAnswer(self.limit.as_millis() as u64);
                    return Err(if stage.0.commits.load(Ordering::Relaxed) {
                        StoreError::Unknown(why)
                    } else {
                        StoreError::Away(why)
                    });
                }
            };
            let again = match &fault {
                Fault::Sql(error) => DB::is_transient(error),
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

    /// Returns a connection for read-only statements.
    pub(super) async fn lease(&self) -> Result<Lease<DB>, Fault> {
        let conn = self.pool.acquire().await?;
        Ok(Lease::new(conn))
    }

    /// Returns a connection with a transaction begun. Every write uses one, even a single statement: a failure before
    /// the commit then means that nothing was written.
    pub(super) async fn begin(&self, stage: Stage) -> Result<Lease<DB>, Fault> {
        stage.0.writes.store(true, Ordering::Relaxed);
        let mut lease = self.lease().await?;
        lease.begin(stage).await?;
        Ok(lease)
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        // A hanging server would never answer.
        let _ = timeout(CLOSE_TIMEOUT, self.pool.close()).await;
    }

    async fn store_error(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(sqlx::Error::PoolTimedOut) => self.connection_error().await,
            fault => fault.store_error::<DB>(),
        }
    }

    /// The pool retries until its timeout, and does not report the cause.
    async fn connection_error(&self) -> StoreError {
        let probe = async {
            let mut conn = self.options.connect().await?;
            prepare::<DB>(&mut conn, &self.prepare).await
        };
        match timeout(PROBE_TIMEOUT, probe).await {
            Ok(Ok(())) => StoreError::Away(Reason::PoolBusy(self.most)),
            Ok(Err(error)) => DB::store_error(error),
            Err(_) => StoreError::Away(Reason::Silent),
        }
    }
}

/// Sets up a new connection.
pub(super) async fn prepare<DB: Driver>(
    conn: &mut DB::Connection,
    statements: &[String],
) -> Result<(), sqlx::Error> {
    for statement in statements {
        DB::run(conn, sqlx::AssertSqlSafe(statement.clone()).into_sql_str()).await?;
    }
    Ok(())
}

/// A connection leased for one unit of work.
///
/// Returned to the pool only when [`Lease::end`] has seen a definite result. After an interruption it may hold a
/// partial reply or an open transaction, so it is closed.
pub(super) struct Lease<DB: Database> {
    conn: Option<PoolConnection<DB>>,
    /// That of the transaction, if one was begun.
    stage: Option<Stage>,
}

impl<DB: Driver> Lease<DB> {
    /// Leases a connection without a transaction.
    pub(super) fn new(conn: PoolConnection<DB>) -> Self {
        Self { conn: Some(conn), stage: None }
    }

    /// Returns a connection without a transaction to the pool.
    pub(super) fn give_back(mut self) {
        self.conn.take();
    }

    /// Begins a write transaction.
    pub(super) async fn begin(&mut self, stage: Stage) -> Result<(), sqlx::Error> {
        DB::run(self, SqlStr::from_static(DB::BEGIN)).await?;
        self.stage = Some(stage);
        Ok(())
    }

    /// Commits on success, rolls back on failure, and returns the connection to the pool.
    pub(super) async fn end<T>(mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        let usable = match &done {
            Ok(_) | Err(Fault::Again) => true,
            Err(Fault::Sql(error) | Fault::AtCommit(error)) => keeps_connection_usable::<DB>(error),
            Err(Fault::Store(error)) => !error.stands_for_all(),
        };
        if !usable {
            return done;
        }
        if let Some(stage) = self.stage.take() {
            if done.is_ok() {
                faults::pass(Point::BeforeCommit);
                stage.0.commits.store(true, Ordering::Relaxed);
                if let Err(error) = DB::run(&mut self, SqlStr::from_static("COMMIT")).await {
                    let rolled_back = DB::is_rolled_back(&error);
                    return Err(if rolled_back {
                        Fault::Sql(error)
                    } else {
                        Fault::AtCommit(error)
                    });
                }
            } else if DB::run(&mut self, SqlStr::from_static("ROLLBACK")).await.is_err() {
                return done;
            }
        }
        self.conn.take();
        done
    }

    /// Rolls back, because there is nothing to commit, and returns the connection to the pool.
    pub(super) async fn roll_back(mut self) -> Result<(), Fault> {
        DB::run(&mut self, SqlStr::from_static("ROLLBACK")).await?;
        self.conn.take();
        Ok(())
    }
}

/// Whether an error concerns one row or a conflict. After any other error the state of the connection is unknown.
fn keeps_connection_usable<DB: Driver>(error: &sqlx::Error) -> bool {
    let about_a_row = |it: &dyn DatabaseError| !matches!(it.kind(), ErrorKind::Other);
    DB::is_transient(error) || error.as_database_error().is_some_and(about_a_row)
}

impl<DB: Database> Deref for Lease<DB> {
    type Target = PoolConnection<DB>;

    #[allow(clippy::expect_used, reason = "taken only by `end` and `roll_back`, which consume it")]
    fn deref(&self) -> &PoolConnection<DB> {
        self.conn.as_ref().expect("a lease that has not ended")
    }
}

impl<DB: Database> DerefMut for Lease<DB> {
    #[allow(clippy::expect_used, reason = "taken only by `end` and `roll_back`, which consume it")]
    fn deref_mut(&mut self) -> &mut PoolConnection<DB> {
        self.conn.as_mut().expect("a lease that has not ended")
    }
}

impl<DB: Database> Drop for Lease<DB> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // Not closed in order, which could hang; the server rolls an open transaction back.
            drop(conn.detach());
        }
    }
}
