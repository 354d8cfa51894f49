//! Plain statements, on a connection that the caller holds.
//!
//! No rules of the store, no repeated transactions, no timeouts except that of a lock, and the isolation level that the
//! server has by default. The lab judges designs with it that are wrong on purpose, and `attach` reads the tables of other
//! services; the engine uses [`Store`](crate::Store).

use std::{
    borrow::Cow,
    ops::RangeInclusive,
    str::FromStr as _,
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor, MySql, Postgres,
    SqlSafeStr as _,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteError, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    Conn, Fault, Result, Settings, StoreError, Value,
    connection::{Driver, FromRow, Pool, Row, by_driver},
    open::{Place, place},
    server,
};

/// How long a statement waits for the write lock of a SQLite file.
const BUSY: Duration = Duration::from_secs(20);
/// How long it waits between two attempts, in milliseconds. SQLite itself waits up to 100 ms, so of many writers some
/// would starve, as they never do on a server.
const BUSY_INTERVAL_MS: RangeInclusive<u64> = 1..=3;
/// Timeout of a new connection.
const CONNECT: Duration = Duration::from_secs(20);

/// Repeats a statement while another writer has the lock of a SQLite file; the statement has changed nothing.
macro_rules! patiently {
    ($done:expr) => {{
        let started = Instant::now();
        loop {
            match $done {
                Err(fault) if waits_for_lock(&fault) && started.elapsed() < BUSY => {
                    let pause = rand::random_range(BUSY_INTERVAL_MS);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                done => break done,
            }
        }
    }};
}

/// The sessions in which the tables of another program are read or written on a server.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Zone in which columns with an instant are texts: an IANA name or a POSIX string.
    pub time_zone: String,
    /// Its offset from UTC today, for MySQL without this name: it knows zones by name only if they were loaded.
    pub offset_seconds: i32,
    /// The server ends a statement after this time.
    pub statement: Duration,
}

impl SessionSettings {
    fn mysql(&self, is_read_only: bool) -> Vec<String> {
        let (sign, minutes) =
            (if self.offset_seconds < 0 { '-' } else { '+' }, self.offset_seconds.abs() / 60);
        let name = self.time_zone.replace('\'', "''");
        let mut session = vec![format!(
            "SET time_zone = IF(CONVERT_TZ('2000-01-01', '+00:00', '{name}') IS NULL, \
             '{sign}{:02}:{:02}', '{name}') /*M! , SESSION max_statement_time = {} */ \
             /*!80000 , SESSION max_execution_time = {} */",
            minutes / 60,
            minutes % 60,
            self.statement.as_secs(),
            self.statement.as_millis(),
        )];
        let idle = self.idle().as_secs();
        session.push(if is_read_only {
            "SET SESSION TRANSACTION READ ONLY".to_owned()
        } else {
            format!(
                "SET SESSION innodb_lock_wait_timeout = {} \
                 /*M! , SESSION idle_transaction_timeout = {idle} */ \
                 /*!80000 , SESSION wait_timeout = {idle} */",
                self.statement.as_secs()
            )
        });
        session
    }

    fn postgres(&self, is_read_only: bool) -> Vec<String> {
        let mut session = vec![
            format!("SET TimeZone = '{}'", self.time_zone.replace('\'', "''")),
            format!("SET statement_timeout = {}", self.statement.as_millis()),
        ];
        session.push(if is_read_only {
            "SET default_transaction_read_only = on".to_owned()
        } else {
            format!("SET idle_in_transaction_session_timeout = {}", self.idle().as_millis())
        });
        session
    }

    /// How long a session that writes may be idle in a transaction, as in the engine: a process that is stopped there holds
    /// no row for longer.
    fn idle(&self) -> Duration {
        self.statement * 4
    }
}

/// Connections to a database whose tables belong to the caller.
#[derive(Debug)]
pub struct PlainPool(Pool);

impl PlainPool {
    /// Names a database, with at most this many connections. Does not connect; a SQLite file is created when it is
    /// first used, and syncs each commit.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn open(url: &str, connections: u32) -> Result<Self> {
        Self::with(url, connections, &Settings::default(), None, |file| {
            file.create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
        })
    }

    /// Names a database of another program, to read it only. A SQLite file is never created or changed, and the sessions
    /// of a server reject writes.
    ///
    /// # Errors
    /// The URL or a TLS setting is invalid.
    pub fn read_only(url: &str, settings: &Settings, session: &SessionSettings) -> Result<Self> {
        Self::with(url, 1, settings, Some((session, true)), |file| file.read_only(true))
    }

    /// Names an existing database of another program, to write rows into its tables. A SQLite file is never created, and
    /// keeps its journal mode. A second connection replaces one that was given up.
    ///
    /// # Errors
    /// The URL or a TLS setting is invalid.
    pub fn existing(url: &str, settings: &Settings, session: &SessionSettings) -> Result<Self> {
        Self::with(url, 2, settings, Some((session, false)), |file| file)
    }

    fn with(
        url: &str,
        connections: u32,
        settings: &Settings,
        session: Option<(&SessionSettings, bool)>,
        file: impl FnOnce(SqliteConnectOptions) -> SqliteConnectOptions,
    ) -> Result<Self> {
        let session = |of: fn(&SessionSettings, bool) -> Vec<String>| {
            session.map_or_else(Vec::new, |(it, is_read_only)| of(it, is_read_only))
        };
        Ok(Self(match place(url)? {
            Place::Sqlite(path) => {
                let options = SqliteConnectOptions::from_str("sqlite:")
                    .map_err(|error| crate::dialect::sqlite::SQLITE.store_error(error))?
                    .filename(path)
                    .busy_timeout(Duration::ZERO)
                    .disable_statement_logging();
                Driver::Sqlite(pool(connections, Vec::new()).connect_lazy_with(file(options)))
            }
            Place::Mysql(url) => {
                let options = server::options::<MySql>(&url, settings)?;
                let session = session(SessionSettings::mysql);
                Driver::Mysql(pool(connections, session).connect_lazy_with(options))
            }
            Place::Postgres(url) => {
                let options = server::options::<Postgres>(&url, settings)?;
                let session = session(SessionSettings::postgres);
                Driver::Postgres(pool(connections, session).connect_lazy_with(options))
            }
        }))
    }

    /// Takes a connection, which returns to the pool when it is dropped. A new one to a SQLite file waits for its lock, as
    /// a statement does: it reads the file.
    pub async fn connection(&self) -> Result<PlainConnection> {
        let taken = match &self.0 {
            Driver::Sqlite(pool) => {
                patiently!(pool.acquire().await.map(Driver::Sqlite).map_err(Fault::from))
            }
            Driver::Mysql(pool) => pool.acquire().await.map(Driver::Mysql).map_err(Fault::from),
            Driver::Postgres(pool) => {
                pool.acquire().await.map(Driver::Postgres).map_err(Fault::from)
            }
        };
        taken.map(PlainConnection).map_err(|fault| fault.store_error(self.0.dialect()))
    }

    /// Connects once if there is no connection yet: the pool itself repeats a refused attempt until its timeout.
    ///
    /// # Errors
    /// The server is unreachable, or a pooler gives each transaction another session.
    pub async fn probe(&self) -> Result<()> {
        let probed: Result<(), Fault> = async {
            // The reply to the login is the proof. A server with TLS may have closed the connection first.
            match &self.0 {
                Driver::Mysql(pool) if pool.size() == 0 => {
                    drop(pool.connect_options().connect().await?.close().await);
                }
                Driver::Postgres(pool) if pool.size() == 0 => {
                    let conn = server::pooler::connect(&pool.connect_options(), CONNECT).await?;
                    drop(conn.close().await);
                }
                _ => {}
            }
            Ok(())
        }
        .await;
        probed.map_err(|fault| fault.store_error(self.0.dialect()))
    }

    /// Closes all connections, after those in use are returned.
    pub async fn close(&self) {
        by_driver!(&self.0, |pool| pool.close().await);
    }
}

fn pool<D: sqlx::Database>(connections: u32, session: Vec<String>) -> PoolOptions<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    PoolOptions::new()
        .after_connect(move |conn: &mut D::Connection, _| {
            let session = session.clone();
            Box::pin(async move {
                for setting in session {
                    conn.execute(AssertSqlSafe(setting).into_sql_str()).await?;
                }
                Ok(())
            })
        })
        .max_connections(connections)
        .acquire_timeout(CONNECT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// `SQLITE_BUSY`, or `SQLITE_BUSY_RECOVERY` while another process reads the log of one that was killed. The code of an
/// outdated snapshot would come again.
fn waits_for_lock(fault: &Fault) -> bool {
    let Fault::Sql(sqlx::Error::Database(error)) = fault else { return false };
    error.try_downcast_ref::<SqliteError>().is_some()
        && error.code().is_some_and(|code| code == "5" || code == "261")
}

/// One connection, with its transaction if one was begun.
///
/// Statements have PostgreSQL placeholders, `$1` for the first value.
#[derive(Debug)]
pub struct PlainConnection(Conn);

impl PlainConnection {
    /// Closes the connection without waiting for a statement that it may be in the middle of; the server rolls back.
    pub fn abandon(self) {
        by_driver!(self.0, |conn| drop(conn.detach()));
    }

    /// Executes statements without values, such as `BEGIN` or `CREATE TABLE`.
    pub async fn command(&mut self, sql: &str) -> Result<()> {
        let text = AssertSqlSafe(sql.to_owned()).into_sql_str();
        let done = patiently!(by_driver!(&mut self.0, |conn| {
            conn.execute(text.clone()).await.map(drop).map_err(Fault::from)
        }));
        done.map_err(|fault| self.classified(fault))
    }

    /// Executes a statement; returns how many rows it changed.
    pub async fn execute(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[i64],
    ) -> Result<u64> {
        let sql = sql.into();
        let done = patiently!(self.0.execute(sql.clone(), &bound(values)).await);
        done.map_err(|fault| self.classified(fault))
    }

    /// Executes an INSERT of one row; returns 0 if a unique key rejects it.
    pub async fn insert(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[i64],
    ) -> Result<u64> {
        let sql = sql.into();
        let done = patiently!(self.0.insert(sql.clone(), &bound(values)).await);
        done.map_err(|fault| self.classified(fault))
    }

    /// Selects rows of `N` numbers.
    pub async fn rows<const N: usize>(
        &mut self,
        sql: &'static str,
        values: &[i64],
    ) -> Result<Vec<[i64; N]>> {
        let done = patiently!(self.0.rows(sql, &bound(values)).await);
        done.map_err(|fault| self.classified(fault))
    }

    /// Selects rows of `N` texts; NULL is `None`. The statement may contain names that the caller has checked, and no
    /// other foreign text.
    pub async fn texts<const N: usize>(
        &mut self,
        sql: &str,
        values: &[i64],
    ) -> Result<Vec<[Option<String>; N]>> {
        let done = patiently!(self.0.rows(sql.to_owned(), &bound(values)).await);
        done.map_err(|fault| self.classified(fault))
    }

    /// The channels over which a server of MariaDB or MySQL receives the changes of others, as this `SHOW` statement lists
    /// them; without a name in MariaDB.
    pub async fn channels(&mut self, show: &'static str) -> Result<Vec<String>> {
        let done = self.0.rows::<Channel>(show, &[]).await;
        let channels = done.map_err(|fault| self.classified(fault))?;
        Ok(channels.into_iter().map(|it| it.0).collect())
    }

    fn classified(&self, fault: Fault) -> StoreError {
        fault.store_error(self.0.dialect())
    }
}

fn bound(values: &[i64]) -> Vec<Value<'static>> {
    values.iter().map(|value| Value::from(*value)).collect()
}

/// A row that describes a channel of replication.
struct Channel(String);

impl FromRow for Channel {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        Ok(Self(row.raw("Channel_Name").ok().flatten().unwrap_or_default()))
    }
}

impl<const N: usize> FromRow for [i64; N] {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let mut numbers = [0; N];
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = row.get(column)?;
        }
        Ok(numbers)
    }
}

impl<const N: usize> FromRow for [Option<String>; N] {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault> {
        let mut texts = [const { None }; N];
        for (column, text) in texts.iter_mut().enumerate() {
            *text = row.get(column)?;
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_connection_waits_for_the_lock_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("shop.db").display());
        let mut holder = PlainPool::open(&url, 1).unwrap().connection().await.unwrap();
        // In this mode of SQLite, readers wait as well.
        holder.command("PRAGMA locking_mode = EXCLUSIVE").await.unwrap();
        holder.command("CREATE TABLE stock (pieces INTEGER)").await.unwrap();
        let pool = PlainPool::open(&url, 1).unwrap();
        let release = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            holder.abandon();
        };
        let (connected, ()) = tokio::join!(pool.connection(), release);
        connected.unwrap().command("INSERT INTO stock VALUES (1)").await.unwrap();
    }
}
