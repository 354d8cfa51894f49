//! Connections of any driver, their statements and rows.
//!
//! Statements bind all their values: the text never contains one.

use std::{borrow::Cow, fmt::Display};

use sqlx::{
    AssertSqlSafe, ColumnIndex, Decode, Error, MySql, Postgres, Row as _, SqlSafeStr as _, Sqlite,
    Type, error::ErrorKind, mysql::MySqlRow, pool::PoolConnection, postgres::PgRow,
    sqlite::SqliteRow,
};

use crate::{
    Dialect, Fault, Value,
    dialect::{
        mysql::{self, MYSQL},
        postgres::{self, POSTGRES},
        sqlite::{self, SQLITE},
    },
};

/// One type for each driver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Driver<S, M, P> {
    Sqlite(S),
    Mysql(M),
    Postgres(P),
}

/// Evaluates one expression for the type of each driver.
macro_rules! by_driver {
    ($driver:expr, |$it:ident| $done:expr) => {
        match $driver {
            Driver::Sqlite($it) => $done,
            Driver::Mysql($it) => $done,
            Driver::Postgres($it) => $done,
        }
    };
}
pub(super) use by_driver;

pub(super) type Pool = Driver<sqlx::Pool<Sqlite>, sqlx::Pool<MySql>, sqlx::Pool<Postgres>>;

pub(super) type Conn =
    Driver<PoolConnection<Sqlite>, PoolConnection<MySql>, PoolConnection<Postgres>>;

pub(super) type Row<'r> = Driver<&'r SqliteRow, &'r MySqlRow, &'r PgRow>;

impl<S, M, P> Driver<S, M, P> {
    pub(super) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) => &SQLITE,
            Self::Mysql(_) => &MYSQL,
            Self::Postgres(_) => &POSTGRES,
        }
    }
}

/// The values of a statement, in the order of their placeholders.
macro_rules! params {
    ($($value:expr),*) => {
        &[$($crate::dialect::Value::from($value)),*]
    };
}
pub(super) use params;

/// Evaluates one expression for a statement of each driver.
macro_rules! query {
    ($conn:ident, $sql:ident, $values:ident, |$live:ident, $query:ident, $row:ident| $done:expr) => {
        match $conn {
            Driver::Sqlite($live) => {
                query!(@ sqlite Sqlite $sql $values $query $row $done)
            }
            Driver::Mysql($live) => {
                query!(@ mysql Mysql $sql $values $query $row $done)
            }
            Driver::Postgres($live) => {
                query!(@ postgres Postgres $sql $values $query $row $done)
            }
        }
    };
    (@ $driver:ident $kind:ident $sql:ident $values:ident $query:ident $row:ident $done:expr) => {{
        let (text, arguments) = $driver::render(&$sql.into(), $values).map_err(Error::Encode)?;
        let $query = sqlx::query_with(AssertSqlSafe(text).into_sql_str(), arguments);
        let $row = Row::$kind;
        $done
    }};
}

/// Statements, with PostgreSQL placeholders: see [`super::dialect`].
impl Conn {
    /// Executes a statement; returns how many rows it matched and changed.
    pub(super) async fn execute(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<u64, Fault> {
        let done = query!(self, sql, values, |conn, query, _row| {
            query.execute(&mut **conn).await?.rows_affected()
        });
        Ok(done)
    }

    pub(super) async fn rows<R: FromRow>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<Vec<R>, Fault> {
        query!(self, sql, values, |conn, query, row| {
            let rows = query.fetch_all(&mut **conn).await?;
            rows.iter().map(|it| R::from_row(&row(it))).collect()
        })
    }

    /// Reads the only row, if any.
    pub(super) async fn row<R: FromRow>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<Option<R>, Fault> {
        Ok(self.rows(sql, values).await?.pop())
    }

    /// Reads the only row, which always exists.
    pub(super) async fn one<R: FromRow>(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<R, Fault> {
        Ok(self.row(sql, values).await?.ok_or(Error::RowNotFound)?)
    }

    /// Executes an INSERT that skips rows rejected by a unique key; returns how many were inserted. MySQL cannot skip
    /// single rows, and inserts none in that case.
    pub(super) async fn insert(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<u64, Fault> {
        if !matches!(self, Self::Mysql(_)) {
            return self.execute(sql.into() + " ON CONFLICT DO NOTHING", values).await;
        }
        match self.execute(sql, values).await {
            Err(fault) if Self::is_duplicate(&fault) => Ok(0),
            done => done,
        }
    }

    /// Whether a statement failed because of a unique key.
    pub(super) fn is_duplicate(fault: &Fault) -> bool {
        matches!(fault, Fault::Sql(Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation)
    }

    /// Inserts one row and returns its ID; `None` if a unique key rejects it. MySQL needs a second statement, on the same
    /// connection: `LAST_INSERT_ID()` is kept per connection.
    pub(super) async fn insert_row(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<i64>, Fault> {
        if !matches!(self, Self::Mysql(_)) {
            return self.row(format!("{sql} ON CONFLICT DO NOTHING RETURNING id"), values).await;
        }
        if self.insert(sql, values).await? == 0 {
            return Ok(None);
        }
        self.row("SELECT CAST(LAST_INSERT_ID() AS SIGNED)", params![]).await
    }
}

/// A type that is read from a row.
pub(super) trait FromRow: Sized {
    fn from_row(row: &Row<'_>) -> Result<Self, Fault>;
}

/// A type that is read from a column.
pub(super) trait Column: Sized {
    /// Reads it; `None` for NULL.
    fn read(row: &Row<'_>, column: impl Index) -> Result<Option<Self>, Fault>;
}

/// A type that every driver decodes.
pub(super) trait Raw:
    for<'r> Decode<'r, Sqlite>
    + for<'r> Decode<'r, MySql>
    + for<'r> Decode<'r, Postgres>
    + Type<Sqlite>
    + Type<MySql>
    + Type<Postgres>
{
}

impl Raw for i64 {}
impl Raw for String {}
impl Raw for bool {}

/// Name or position of a column.
pub(super) trait Index:
    ColumnIndex<SqliteRow> + ColumnIndex<MySqlRow> + ColumnIndex<PgRow> + Copy + Display
{
}

impl Index for &str {}
impl Index for usize {}

impl Row<'_> {
    /// The value of a column; only an `Option` may be NULL.
    pub(super) fn get<T: Column>(&self, column: impl Index) -> Result<T, Fault> {
        let null = || Error::Decode(format!("column {column} is NULL").into());
        Ok(T::read(self, column)?.ok_or_else(null)?)
    }

    /// The value as decoded by the driver.
    pub(super) fn raw<T: Raw>(&self, column: impl Index) -> Result<Option<T>, Error> {
        by_driver!(self, |row| row.try_get(column))
    }
}
