//! Connections to a database server: leased for one piece of work, bounded in time, and thrown away when
//! nobody knows in which state they are. This file must not know tables, nor what a server's errors mean.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, Database, Executor, Pool,
    pool::{PoolConnection, PoolOptions},
};
use tokio::time::{Instant, sleep, timeout};

use super::{Settings, StoreError};
use crate::faults::{self, Point};

/// A transaction that others stood in the way of is begun again, so often at most.
const TRIES: u32 = 8;
/// A connection that lay idle for longer is asked for a sign of life before it is used.
const IDLE: Duration = Duration::from_secs(1);
/// In which a server is asked why it gives no connection.
const PROBE: Duration = Duration::from_secs(1);

/// What a server's errors mean.
pub(super) trait Dialect: Database {
    /// An error, told to a person.
    fn told(error: sqlx::Error) -> StoreError;

    /// Whether the same transaction may pass when it is begun again at once.
    fn passes(error: &sqlx::Error) -> bool;

    /// Whether an error at the commit says that nothing was done.
    fn undone(error: &sqlx::Error) -> bool;
}

/// Why a piece of work failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// In the words of the driver.
    Sql(sqlx::Error),
    /// In words for a person.
    Told(StoreError),
    /// It broke at the commit: what was asked is done or not.
    AtCommit(sqlx::Error),
    /// Somebody else's work stood in the way; the next try sees it.
    Again,
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

/// Whether a commit is on its way, which decides what can be said of work that was broken off.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage(Arc<AtomicBool>);

/// The connections of this process.
#[derive(Debug)]
pub(super) struct Sessions<DB: Dialect> {
    pool: Pool<DB>,
    options: <DB::Connection as Connection>::Options,
    prepare: Arc<[String]>,
    limit: Duration,
    most: u32,
}

impl<DB> Sessions<DB>
where
    DB: Dialect,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    /// Nothing is connected yet. `prepare` makes each new connection what the statements expect.
    pub(super) fn new(
        options: <DB::Connection as Connection>::Options,
        settings: &Settings,
        prepare: Arc<[String]>,
    ) -> Self {
        let statements = Arc::clone(&prepare);
        let pool = PoolOptions::new()
            .max_connections(settings.pool)
            .acquire_timeout(settings.acquire())
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
        Self { pool, options, prepare, limit: settings.transaction(), most: settings.pool }
    }

    /// Does a piece of work, from its connection to its commit, and does it again where others stood in its
    /// way. Each try has a bound in time.
    pub(super) async fn work<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        work: impl Fn(Stage) -> F,
    ) -> Result<T, StoreError> {
        // Lock waits that run into their own bound do not add up to many of them.
        let end = Instant::now() + self.limit;
        let mut tries = 1;
        loop {
            let stage = Stage::default();
            let fault = match timeout(self.limit, work(stage.clone())).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(fault)) => fault,
                Err(_) => {
                    let why = format!("it has not answered for {} s", self.limit.as_secs_f32());
                    return Err(if stage.0.load(Ordering::Relaxed) {
                        StoreError::Unknown(why)
                    } else {
                        StoreError::Away(why)
                    });
                }
            };
            let again = match &fault {
                Fault::Sql(error) => DB::passes(error),
                Fault::Again => true,
                Fault::Told(_) | Fault::AtCommit(_) => false,
            };
            if !again || tries == TRIES || Instant::now() >= end {
                return Err(self.told(fault).await);
            }
            // Two that met once shall not meet again: each waits for a time of its own.
            let most = 1_u64 << tries.min(6);
            sleep(Duration::from_micros(rand::random_range(0..most * 1_000))).await;
            tries += 1;
        }
    }

    /// A connection for statements that only read.
    pub(super) async fn lease(&self) -> Result<Lease<DB>, Fault> {
        let conn = self.pool.acquire().await?;
        Ok(Lease { conn: Some(conn), stage: None })
    }

    /// A connection with a transaction begun. Every write is in one, also a single statement: what breaks
    /// before the commit is known not to be done.
    pub(super) async fn begin(&self, stage: Stage) -> Result<Lease<DB>, Fault> {
        let mut lease = self.lease().await?;
        lease.stage = Some(stage);
        (&mut *lease).execute("BEGIN").await?;
        Ok(lease)
    }

    /// Gives all connections back.
    pub(super) async fn close(&self) {
        // One that was frozen would never say goodbye.
        let _ = timeout(PROBE, self.pool.close()).await;
    }

    async fn told(&self, fault: Fault) -> StoreError {
        match fault {
            Fault::Told(error) => error,
            Fault::Again => StoreError::Away("others keep standing in the way".to_owned()),
            Fault::AtCommit(error) => match DB::told(error) {
                StoreError::Away(why) | StoreError::Refused(why) => StoreError::Unknown(why),
                other => StoreError::Unknown(other.to_string()),
            },
            Fault::Sql(sqlx::Error::PoolTimedOut) => self.why_no_connection().await,
            Fault::Sql(error) => DB::told(error),
        }
    }

    /// The pool goes on trying until its time is over, and then does not say what was in its way.
    async fn why_no_connection(&self) -> StoreError {
        let probe = async {
            let mut conn = self.options.connect().await?;
            prepare::<DB>(&mut conn, &self.prepare).await
        };
        match timeout(PROBE, probe).await {
            Ok(Ok(())) => {
                let busy = format!("all {} connections of this process are busy", self.most);
                StoreError::Away(busy)
            }
            Ok(Err(error)) => DB::told(error),
            Err(_) => StoreError::Away("it takes connections and does not answer".to_owned()),
        }
    }
}

/// Makes a new connection what the statements expect.
pub(super) async fn prepare<DB>(
    conn: &mut DB::Connection,
    statements: &[String],
) -> Result<(), sqlx::Error>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    for statement in statements {
        conn.execute(sqlx::AssertSqlSafe(statement.clone())).await?;
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

impl<DB> Lease<DB>
where
    DB: Dialect,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    /// Commits what went well, rolls back what did not, and gives the connection back.
    pub(super) async fn end<T>(mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault::Sql(error) | Fault::AtCommit(error)) = &done
            && !matches!(error, sqlx::Error::Database(_))
        {
            return done;
        }
        if let Some(stage) = self.stage.take() {
            if done.is_ok() {
                faults::pass(Point::BeforeCommit);
                stage.0.store(true, Ordering::Relaxed);
                if let Err(error) = (&mut *self).execute("COMMIT").await {
                    let undone = DB::undone(&error);
                    return Err(if undone { Fault::Sql(error) } else { Fault::AtCommit(error) });
                }
            } else if (&mut *self).execute("ROLLBACK").await.is_err() {
                return done;
            }
        }
        self.conn.take();
        done
    }

    /// Rolls back, for a caller whose work led to nothing, and gives the connection back.
    pub(super) async fn roll_back(mut self) -> Result<(), Fault> {
        (&mut *self).execute("ROLLBACK").await?;
        self.conn.take();
        Ok(())
    }
}

impl<DB: Database> Deref for Lease<DB> {
    type Target = DB::Connection;

    #[allow(clippy::expect_used, reason = "taken only by `end` and `roll_back`, which consume it")]
    fn deref(&self) -> &DB::Connection {
        self.conn.as_ref().expect("a lease that has not ended")
    }
}

impl<DB: Database> DerefMut for Lease<DB> {
    #[allow(clippy::expect_used, reason = "taken only by `end` and `roll_back`, which consume it")]
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.conn.as_mut().expect("a lease that has not ended")
    }
}

impl<DB: Database> Drop for Lease<DB> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // Without a goodbye, which could wait for ever; the server rolls back what was open.
            drop(conn.detach());
        }
    }
}
