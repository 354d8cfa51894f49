//! Recognizes a pooler in front of PostgreSQL that gives each transaction another session.
//!
//! Sessions have settings, prepared statements and a lock for upgrades. A pooler such as `PgBouncer` would leave these to
//! other clients with `pool_mode = transaction`, or without a `server_reset_query`. Until the check has passed, nothing is
//! set or prepared but a mark, which is removed where it is found again.

use std::time::Duration;

use seckill_model::reason;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection, Postgres,
    Row as _,
    error::DatabaseError,
    pool::PoolOptions,
    postgres::{PgConnectOptions, PgListener},
    raw_sql,
};
use tokio::time::timeout;

use super::Server as _;
use crate::{Fault, StoreError};

/// A setting that only the session of its connection has. A name with a point may be any.
const MARK: &str = "seckill.connection";
/// Protocol violation: poolers reject options with it, and transactions if each statement has another session.
const REJECTED: &str = "08P01";
/// How many connections may be opened until one has the session of the one before: others may be idle already.
const RETURNS: usize = 3;

/// Connects to the server, or to a pooler that gives each client a session of its own, without traces of another client.
/// `within` is the timeout of the caller.
///
/// # Errors
/// [`StoreError::Schema`] for any other pooler.
pub(crate) async fn connect(
    options: &PgConnectOptions,
    within: Duration,
) -> Result<PgConnection, Fault> {
    let mark = format!("{:016x}", rand::random::<u64>());
    match options.clone().options([(MARK, &mark)]).connect().await {
        Ok(mut conn) => {
            // PostgreSQL starts a session for each connection, with its options.
            if is_marked(&mut conn, &mark).await? {
                return Ok(conn);
            }
            // Its end decides nothing: the other side may have closed it first.
            drop(conn.close().await);
        }
        Err(error) if is_rejected(&error) => {}
        Err(error) => return Err(error.into()),
    }
    let server = Postgres::shown(options);
    let Some(conn) = kept_session(options, within, &mark).await? else {
        return Err(StoreError::Schema(reason!("store-schema-pooler", server)).into());
    };
    let unclean = || StoreError::Schema(reason!("store-schema-pooler-reset", server)).into();
    cleaned(options, conn, &mark).await?.ok_or_else(unclean)
}

/// A connection, if each client has a session of its own until it disconnects.
async fn kept_session(
    options: &PgConnectOptions,
    within: Duration,
    mark: &str,
) -> Result<Option<PgConnection>, sqlx::Error> {
    let (mut one, mut other) = (options.connect().await?, options.connect().await?);
    // Reveals most poolers, and leaves nothing behind.
    let before = session(&mut one).await?;
    match other.execute("BEGIN").await {
        Err(error) if is_rejected(&error) => return Ok(None),
        begun => _ = begun?,
    }
    let is_shared = session(&mut other).await? == before || session(&mut one).await? != before;
    other.execute("ROLLBACK").await?;
    drop(one.close().await);
    // A notification reaches a client outside of its transactions only if the session is its own: this is the proof.
    if !is_shared && is_notified(options, within, &mut other, mark).await? {
        return Ok(Some(other));
    }
    drop(other.close().await);
    Ok(None)
}

/// Another connection, unless the settings of a client outlast its own. If its session is not seen again, that is not known.
async fn cleaned(
    options: &PgConnectOptions,
    mut conn: PgConnection,
    mark: &str,
) -> Result<Option<PgConnection>, sqlx::Error> {
    let left = session(&mut conn).await?;
    conn.execute(AssertSqlSafe(format!("SET {MARK} = '{mark}'"))).await?;
    drop(conn.close().await);
    let mut others = Vec::new();
    for _ in 0..RETURNS {
        let mut next = options.connect().await?;
        if session(&mut next).await? == left {
            if !is_marked(&mut next, mark).await? {
                return Ok(Some(next));
            }
            next.execute(AssertSqlSafe(format!("RESET {MARK}"))).await?;
            return Ok(None);
        }
        // Open until the end, or the pooler would give it again.
        others.push(next);
    }
    Ok(others.pop())
}

/// Whether the session of a connection has the mark.
async fn is_marked(conn: &mut PgConnection, mark: &str) -> Result<bool, sqlx::Error> {
    let query = "SELECT COALESCE(current_setting('seckill.connection', TRUE), '')";
    Ok(raw_sql(query).fetch_one(conn).await?.try_get::<String, _>(0)? == mark)
}

/// Whether a client gets a notification while it does nothing.
async fn is_notified(
    options: &PgConnectOptions,
    within: Duration,
    other: &mut PgConnection,
    mark: &str,
) -> Result<bool, sqlx::Error> {
    let pool = PoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(mark).await?;
    raw_sql(AssertSqlSafe(format!("NOTIFY \"{mark}\""))).execute(other).await?;
    let notified = timeout(within / 2, listener.try_recv()).await;
    listener.unlisten_all().await?;
    drop(listener);
    pool.close().await;
    Ok(matches!(notified, Ok(Ok(Some(_)))))
}

/// The server process that executes the statements of a connection.
async fn session(conn: &mut PgConnection) -> Result<i32, sqlx::Error> {
    raw_sql("SELECT pg_backend_pid()").fetch_one(conn).await?.try_get(0)
}

fn is_rejected(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == REJECTED)
}
