//! What differs between the SQL of the databases, and statements that bind all their values.
//!
//! Statements are written once, with PostgreSQL placeholders: `$1` is the first value and may occur more than once. A
//! list of IDs is one value, compared as `= ANY($1)`. Each dialect translates that. The text of a statement never
//! contains a value.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    marker::PhantomData,
};

use sqlx::{
    AssertSqlSafe, FromRow, SqlSafeStr as _, SqlStr, error::BoxDynError, mysql::MySqlRow,
    pool::PoolConnection, postgres::PgRow, sqlite::SqliteRow,
};

use super::{rows::Key, session::Driver};

/// The SQL of one database.
pub(super) trait Dialect: Driver {
    /// Selects the version of the server.
    const VERSION: &'static str;
    /// Settings that affect durability: name, and a statement that selects the value.
    const DURABILITY: &'static [(&'static str, &'static str)];
    /// Condition of live orders of sales, as in their index.
    const LIVE: &'static str = "status NOT IN (4, 5)";
    /// Condition of closed and cancelled orders of sales, as in their index.
    const CLOSED: &'static str = "status IN (4, 5)";
    /// Locks the selected rows against other writers.
    const LOCK: &'static str;
    /// Locks rows of the table `s` only, where several are joined.
    const LOCK_S: &'static str;
    /// Hint to read along the primary key.
    const PRIMARY: &'static str = "";
    /// Joins a table to the batch before it, row by row.
    const JOIN: &'static str = "JOIN";
    /// Voucher IDs come from a sequence that ignores explicitly inserted IDs.
    const HAS_SEQUENCE: bool = false;
    /// Counts the orders of voucher `$1` by status, using the indexes of live and closed orders.
    const ORDER_COUNTS: &'static str = "SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = $1 AND status NOT IN (4, 5) GROUP BY status \
         UNION ALL SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = $1 AND status IN (4, 5) GROUP BY status";
    /// Selects at most `$2` users with more than one order of voucher `$1`, with the number of orders, using the
    /// indexes of live and closed orders.
    const REPEAT_BUYERS: &'static str = "SELECT user_id, CAST(SUM(orders) AS BIGINT) FROM (\
             SELECT user_id, COUNT(*) AS orders FROM tb_voucher_order \
             WHERE voucher_id = $1 AND status NOT IN (4, 5) GROUP BY user_id \
             UNION ALL SELECT user_id, COUNT(*) FROM tb_voucher_order \
             WHERE voucher_id = $1 AND status IN (4, 5) GROUP BY user_id) AS parts \
         GROUP BY user_id HAVING SUM(orders) > 1 ORDER BY SUM(orders) DESC, user_id LIMIT $2";

    /// A table `batch` of `id`, `user_id`, `voucher_id` and `place` from [`Value::Rows`], which is the last value and
    /// has this number.
    fn batch(number: usize) -> String;

    /// Hint to use an index; follows the table.
    fn index(_name: &str) -> String {
        String::new()
    }

    /// Updates `columns` of the row that already holds `key`, or leaves it unchanged without columns.
    fn upsert(key: &str, columns: &[&str]) -> String {
        if columns.is_empty() {
            return format!("ON CONFLICT ({key}) DO NOTHING");
        }
        let set: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
    }

    /// The integer quotient of two numbers.
    fn quotient(dividend: &str, divisor: &str) -> String {
        format!("({dividend}) / {divisor}")
    }

    /// The part after `FROM tb_voucher_order` of the queries for a page of orders of a user, of a voucher, or of all:
    /// each reads along one index.
    fn order_pages(user: bool, voucher: bool) -> &'static [&'static str];

    /// Translates a statement and its arguments for this database.
    fn render(
        sql: Cow<'static, str>,
        values: &[Value<'_>],
    ) -> Result<(SqlStr, Self::Arguments), BoxDynError>;

    /// Executes a statement; returns how many rows it matched and changed.
    fn execute(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Executes a query and reads all its rows.
    fn fetch<R: Record>(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Vec<R>, sqlx::Error>> + Send;

    /// Executes an INSERT that skips rows rejected by a unique key; returns how many were inserted. A dialect that
    /// cannot skip single rows inserts none in that case.
    fn insert(
        conn: &mut PoolConnection<Self>,
        statement: Statement<'_, Self>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send {
        statement.push(" ON CONFLICT DO NOTHING").execute(conn)
    }

    /// Inserts one row and returns its ID; `None` if a unique key rejects it.
    fn insert_row(
        conn: &mut PoolConnection<Self>,
        statement: Statement<'_, Self>,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send {
        async move {
            let id = statement.push(" ON CONFLICT DO NOTHING RETURNING id").row(conn).await?;
            Ok(id.map(|(id,)| id))
        }
    }

    /// Raises the sequence of voucher IDs to at least `upto`.
    fn reserve_numbers(
        conn: &mut PoolConnection<Self>,
        upto: i64,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// A statement to which values can be bound.
    fn sql<'q>(text: impl Into<Cow<'static, str>>) -> Statement<'q, Self> {
        Statement { sql: text.into(), values: Vec::new(), dialect: PhantomData }
    }
}

/// Implements execute and fetch of a dialect: the same code for each, since the driver types differ.
macro_rules! through_driver {
    () => {
        async fn execute(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<u64, sqlx::Error> {
            Ok(sqlx::query_with(sql, arguments).execute(conn).await?.rows_affected())
        }

        async fn fetch<R: crate::dialect::Record>(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<Vec<R>, sqlx::Error> {
            sqlx::query_as_with(sql, arguments).fetch_all(conn).await
        }
    };
}
pub(super) use through_driver;

/// A row that every driver decodes.
pub(super) trait Record:
    for<'r> FromRow<'r, MySqlRow>
    + for<'r> FromRow<'r, PgRow>
    + for<'r> FromRow<'r, SqliteRow>
    + Send
    + Unpin
{
}

impl<T> Record for T where
    T: for<'r> FromRow<'r, MySqlRow>
        + for<'r> FromRow<'r, PgRow>
        + for<'r> FromRow<'r, SqliteRow>
        + Send
        + Unpin
{
}

/// A value that a statement binds.
#[derive(Debug)]
pub(super) enum Value<'q> {
    /// A number, time or ID.
    Int(Option<i64>),
    /// A text.
    Text(Option<Cow<'q, str>>),
    /// A boolean.
    Bool(bool),
    /// IDs compared with a column: `= ANY($1)`.
    Ids(Vec<i64>),
    /// Rows of [`Dialect::batch`].
    Rows(&'q [Key]),
}

macro_rules! value_from {
    ($($from:ty => |$it:ident| $value:expr;)*) => {
        $(impl<'q> From<$from> for Value<'q> {
            fn from($it: $from) -> Self {
                $value
            }
        })*
    };
}

value_from! {
    i64 => |it| Self::Int(Some(it));
    u32 => |it| Self::Int(Some(it.into()));
    Option<i64> => |it| Self::Int(it);
    bool => |it| Self::Bool(it);
    &'q str => |it| Self::Text(Some(it.into()));
    &'q String => |it| Self::Text(Some(it.into()));
    String => |it| Self::Text(Some(it.into()));
    Option<String> => |it| Self::Text(it.map(Cow::from));
    &'q Option<String> => |it| Self::Text(it.as_deref().map(Cow::from));
    Vec<i64> => |it| Self::Ids(it);
    &'q [Key] => |it| Self::Rows(it);
}

/// A statement with its bound values.
#[derive(Debug)]
pub(super) struct Statement<'q, D: ?Sized> {
    sql: Cow<'static, str>,
    values: Vec<Value<'q>>,
    dialect: PhantomData<fn() -> D>,
}

impl<'q, D: Dialect> Statement<'q, D> {
    /// Binds the next value.
    pub(super) fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Adds text.
    pub(super) fn push(mut self, text: &str) -> Self {
        self.sql.to_mut().push_str(text);
        self
    }

    /// Adds text and the placeholder of `value`.
    pub(super) fn push_bind(mut self, text: &str, value: impl Into<Value<'q>>) -> Self {
        self = self.bind(value);
        let number = self.values.len();
        self.push(&format!("{text} ${number}"))
    }

    /// Executes it; returns how many rows it matched and changed.
    pub(super) async fn execute(self, conn: &mut PoolConnection<D>) -> Result<u64, sqlx::Error> {
        let (sql, arguments) = self.render()?;
        D::execute(conn, sql, arguments).await
    }

    /// Reads all its rows.
    pub(super) async fn rows<R: Record>(
        self,
        conn: &mut PoolConnection<D>,
    ) -> Result<Vec<R>, sqlx::Error> {
        let (sql, arguments) = self.render()?;
        D::fetch(conn, sql, arguments).await
    }

    /// Reads its only row, if any.
    pub(super) async fn row<R: Record>(
        self,
        conn: &mut PoolConnection<D>,
    ) -> Result<Option<R>, sqlx::Error> {
        Ok(self.rows(conn).await?.pop())
    }

    /// Reads its only number.
    pub(super) async fn number(self, conn: &mut PoolConnection<D>) -> Result<i64, sqlx::Error> {
        self.row(conn).await?.map(|(number,)| number).ok_or(sqlx::Error::RowNotFound)
    }

    /// See [`Dialect::insert`].
    pub(super) async fn insert(self, conn: &mut PoolConnection<D>) -> Result<u64, sqlx::Error> {
        D::insert(conn, self).await
    }

    /// See [`Dialect::insert_row`].
    pub(super) async fn insert_row(
        self,
        conn: &mut PoolConnection<D>,
    ) -> Result<Option<i64>, sqlx::Error> {
        D::insert_row(conn, self).await
    }

    /// Text and arguments for the driver.
    pub(super) fn render(self) -> Result<(SqlStr, D::Arguments), sqlx::Error> {
        D::render(self.sql, &self.values).map_err(sqlx::Error::Encode)
    }
}

/// A static text without values.
pub(super) fn fixed(sql: Cow<'static, str>) -> SqlStr {
    AssertSqlSafe(sql).into_sql_str()
}

/// Replaces each placeholder with the result of `write` for its number, and each `= ANY($1)` with that of the list.
pub(super) fn substitute(sql: &str, mut write: impl FnMut(&mut String, usize, bool)) -> String {
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|it: char| !it.is_ascii_digit()).unwrap_or(part.len());
        let (number, after) = part.split_at(end);
        let Ok(number) = number.parse() else {
            text.push('$');
            text.push_str(part);
            continue;
        };
        let before = text.strip_suffix("= ANY(").map(str::len);
        if let Some(before) = before {
            text.truncate(before);
        }
        write(&mut text, number, before.is_some());
        text.push_str(if before.is_some() {
            after.strip_prefix(')').unwrap_or(after)
        } else {
            after
        });
    }
    text
}

/// A list of IDs as a JSON array.
pub(super) fn json_ids(ids: &[i64]) -> String {
    json(ids, |text, id| write!(text, "{id}"))
}

/// Rows as a JSON array of arrays, in the order of [`Key`].
pub(super) fn json_rows(rows: &[Key]) -> String {
    json(rows, |text, (order, user, voucher, place)| {
        write!(text, "[{order},{user},{voucher},{place}]")
    })
}

fn json<T>(items: &[T], write: impl Fn(&mut String, &T) -> fmt::Result) -> String {
    let mut text = String::from("[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        // Writing to a String cannot fail.
        let _ = write(&mut text, item);
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_other_text_stays() {
        let mut seen = Vec::new();
        let text = substitute("a = $2 AND b = ANY($1) AND '$[*]' = $12", |text, number, list| {
            text.push_str(if list { "IN (?)" } else { "?" });
            seen.push((number, list));
        });
        assert_eq!(text, "a = ? AND b IN (?) AND '$[*]' = ?");
        assert_eq!(seen, [(2, false), (1, true), (12, false)]);
    }
}
