//! Connections to a database, server or file: leased for one piece of work, bounded in time, and closed when their
//! state is unknown. This file must not know tables, nor what a server's errors mean.

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

/// How often a transaction that met a conflict is begun at most.
const TRIES: u32 = 8;
/// A connection that lay idle for longer is asked for a sign of life before it is used.
const IDLE: Duration = Duration::from_secs(1);
/// In which a server is asked why it gives no connection.
const PROBE: Duration = Duration::from_secs(1);
/// In which connections are given back; the last one to a file folds the log into it.
const CLOSE: Duration = Duration::from_secs(2);
/// A write that failed longer ago says nothing about now: one that is retried fails more often.
const RECENT: Duration = Duration::from_secs(10);

/// A driver, and what its errors mean.
pub(super) trait Driver: Database<Connection: std::fmt::Debug> {
    /// Begins a transaction that writes.
    const BEGIN: &'static str = "BEGIN";

    /// Classifies an error and explains it to the user.
    fn store_error(error: sqlx::Error) -> StoreError;

    /// Whether the same transaction may succeed when it is begun again at once.
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

/// Why a piece of work failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// An error of the driver.
    Sql(sqlx::Error),
    /// An error that is classified already.
    Store(StoreError),
    /// The connection broke at the commit: the transaction is done or not.
    AtCommit(sqlx::Error),
    /// A concurrent transaction changed what was read; the next try sees it.
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

/// How far a piece of work has come, which decides what can be said of it when it is broken off.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage(Arc<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// It is a transaction that writes.
    writes: AtomicBool,
    /// Its commit is on its way.
    commits: AtomicBool,
}

/// How many connections there are, and how long each wait may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most connections at the same time.
    pub(super) most: u32,
    /// That a task waits for a connection.
    pub(super) acquire: Duration,
    /// That one try of a piece of work may take.
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
    /// When the last write failed because of the database, and why; none since one was done.
    failing: Mutex<Option<(Instant, Reason)>>,
}

impl<DB: Driver> Sessions<DB> {
    /// Nothing is connected yet. `prepare` makes each new connection what the statements expect.
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
                    // A server that was restarted shows here, and not in the middle of work.
                    Ok(it.idle_for < IDLE || conn.ping().await.is_ok())
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

    /// Does a piece of work, from its connection to its commit, and repeats it after a conflict. Each try has a bound
    /// in time.
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

    /// Reports a database that answers reads and fails writes: the last write of this process failed because of
    /// it, recently, and none was done since.
    ///
    /// # Errors
    /// The reason of that failure.
    pub(super) fn takes_writes(&self) -> Result<(), StoreError> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failing {
            Some((at, why)) if at.elapsed() < RECENT => Err(StoreError::Away(why.clone())),
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
        // Lock waits that run into their own bound do not add up to many of them.
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
            if !again || tries == TRIES || Instant::now() >= end {
                return Err(self.store_error(fault).await);
            }
            // Random waits keep two transactions that met once from meeting again.
            let most = 1_u64 << tries.min(6);
            sleep(Duration::from_micros(rand::random_range(0..most * 1_000))).await;
            tries += 1;
        }
    }

    /// A connection for statements that only read.
    pub(super) async fn lease(&self) -> Result<Lease<DB>, Fault> {
        let conn = self.pool.acquire().await?;
        Ok(Lease::new(conn))
    }

    /// A connection with a transaction begun. Every write is in one, also a single statement: what breaks
    /// before the commit is known not to be done.
    pub(super) async fn begin(&self, stage: Stage) -> Result<Lease<DB>, Fault> {
        stage.0.writes.store(true, Ordering::Relaxed);
        let mut lease = self.lease().await?;
        lease.begin(stage).await?;
        Ok(lease)
    }

    /// Gives all connections back.
    pub(super) async fn close(&self) {
        // A frozen server would never answer.
        let _ = timeout(CLOSE, self.pool.close()).await;
    }

    async fn store_error(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(sqlx::Error::PoolTimedOut) => self.why_no_connection().await,
            fault => fault.store_error::<DB>(),
        }
    }

    /// The pool goes on trying until its time is over, and then does not say what was in its way.
    async fn why_no_connection(&self) -> StoreError {
        let probe = async {
            let mut conn = self.options.connect().await?;
            prepare::<DB>(&mut conn, &self.prepare).await
        };
        match timeout(PROBE, probe).await {
            Ok(Ok(())) => StoreError::Away(Reason::PoolBusy(self.most)),
            Ok(Err(error)) => DB::store_error(error),
            Err(_) => StoreError::Away(Reason::Silent),
        }
    }
}

/// Makes a new connection what the statements expect.
pub(super) async fn prepare<DB: Driver>(
    conn: &mut DB::Connection,
    statements: &[String],
) -> Result<(), sqlx::Error> {
    for statement in statements {
        DB::run(conn, sqlx::AssertSqlSafe(statement.clone()).into_sql_str()).await?;
    }
    Ok(())
}

/// A connection while it is used for one piece of work.
///
/// It goes back to the others only when [`Lease::end`] has seen a definite answer. One whose work was broken
/// off may hold half an answer or an open transaction, so it is closed.
pub(super) struct Lease<DB: Database> {
    conn: Option<PoolConnection<DB>>,
    /// Of the transaction, if one was begun.
    stage: Option<Stage>,
}

impl<DB: Driver> Lease<DB> {
    /// Takes a connection without a transaction.
    pub(super) fn new(conn: PoolConnection<DB>) -> Self {
        Self { conn: Some(conn), stage: None }
    }

    /// Gives a connection back that has no transaction.
    pub(super) fn give_back(mut self) {
        self.conn.take();
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&mut self, stage: Stage) -> Result<(), sqlx::Error> {
        DB::run(self, SqlStr::from_static(DB::BEGIN)).await?;
        self.stage = Some(stage);
        Ok(())
    }

    /// Commits what went well, rolls back what did not, and gives the connection back.
    pub(super) async fn end<T>(mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        let sound = match &done {
            Ok(_) | Err(Fault::Again) => true,
            Err(Fault::Sql(error) | Fault::AtCommit(error)) => leaves_connection_sound::<DB>(error),
            Err(Fault::Store(error)) => !error.stands_for_all(),
        };
        if !sound {
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

    /// Rolls back, for a caller whose work led to nothing, and gives the connection back.
    pub(super) async fn roll_back(mut self) -> Result<(), Fault> {
        DB::run(&mut self, SqlStr::from_static("ROLLBACK")).await?;
        self.conn.take();
        Ok(())
    }
}

/// Whether an error is about one row or a conflict. After any other one the state of the connection is in doubt.
fn leaves_connection_sound<DB: Driver>(error: &sqlx::Error) -> bool {
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
            // Without closing it in order, which could wait for ever; the server rolls an open transaction back.
            drop(conn.detach());
        }
    }
}
