//! The SQL of MySQL and MariaDB.
//!
//! The default isolation locks gaps between rows, so every connection uses READ COMMITTED. `INSERT IGNORE` hides
//! errors, so it is not used. There is no RETURNING, so rows are locked and read before they are changed.
//!
//! Rows are passed as one JSON array, so that one prepared statement serves every batch size. A list of IDs is padded
//! to the next power of two, so that a few prepared statements serve every length: MariaDB before 11.1 scans the whole
//! table for an UPDATE with IDs from a subquery.

mod connect;
mod errors;

use std::borrow::Cow;

use sqlx::{
    Arguments as _, Error, MySql, SqlStr,
    error::{BoxDynError, ErrorKind},
    mysql::MySqlArguments,
};

use super::super::{
    dialect::{Dialect, Statement, Value, fixed, json_rows, substitute, through_driver},
    queries::Conn,
};

impl Dialect for MySql {
    const VERSION: &'static str = "SELECT VERSION()";
    const DURABILITY: &'static [(&'static str, &'static str)] = &[
        ("innodb_flush_log_at_trx_commit", "SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR)"),
        ("sync_binlog", "SELECT CAST(@@sync_binlog AS CHAR)"),
        ("log_bin", "SELECT CAST(@@log_bin AS CHAR)"),
        ("innodb_doublewrite", "SELECT CAST(@@innodb_doublewrite AS CHAR)"),
        ("innodb_lock_wait_timeout", "SELECT CAST(@@innodb_lock_wait_timeout AS CHAR)"),
    ];
    const LIVE: &'static str = "live = 1";
    const CLOSED: &'static str = "live IS NULL";
    const LOCK: &'static str = "FOR UPDATE";
    const LOCK_S: &'static str = "FOR UPDATE";
    const PRIMARY: &'static str = "FORCE INDEX (PRIMARY)";
    const JOIN: &'static str = "STRAIGHT_JOIN";
    const ORDER_COUNTS: &'static str =
        "SELECT status, COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 GROUP BY status";
    const REPEAT_BUYERS: &'static str = "SELECT user_id, COUNT(*) AS orders FROM tb_voucher_order \
         WHERE voucher_id = $1 GROUP BY user_id HAVING COUNT(*) > 1 ORDER BY orders DESC, user_id LIMIT $2";

    through_driver!();

    fn batch(number: usize) -> String {
        format!(
            "JSON_TABLE(CONVERT(${number} USING utf8mb4), '$[*]' COLUMNS (id BIGINT PATH '$[0]', \
             user_id BIGINT PATH '$[1]', voucher_id BIGINT PATH '$[2]', place BIGINT PATH '$[3]')) AS batch"
        )
    }

    fn index(name: &str) -> String {
        format!("FORCE INDEX ({name})")
    }

    fn upsert(key: &str, columns: &[&str]) -> String {
        let set: Vec<String> = match columns {
            [] => vec![format!("{key} = {key}")],
            columns => columns.iter().map(|it| format!("{it} = VALUES({it})")).collect(),
        };
        format!("ON DUPLICATE KEY UPDATE {}", set.join(", "))
    }

    fn quotient(dividend: &str, divisor: &str) -> String {
        format!("CAST(({dividend}) DIV {divisor} AS SIGNED)")
    }

    fn order_pages(user: bool, voucher: bool) -> &'static [&'static str] {
        match (user, voucher) {
            // Vouchers are few, and each needs one lookup in the unique index.
            (true, _) => &["FORCE INDEX (uk_one_live_order) \
                 WHERE voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)"],
            (false, true) => &[
                "FORCE INDEX (idx_live_order) WHERE live = 1",
                "FORCE INDEX (idx_live_order) WHERE live IS NULL",
            ],
            (false, false) => &["FORCE INDEX (PRIMARY) WHERE TRUE"],
        }
    }

    fn render(
        sql: Cow<'static, str>,
        values: &[Value<'_>],
    ) -> Result<(SqlStr, MySqlArguments), BoxDynError> {
        let mut arguments = MySqlArguments::default();
        let mut bound = Ok(());
        let sql = substitute(&sql.replace('"', "`"), |text, number, is_list| {
            text.push_str(if is_list { "IN (" } else { "?" });
            let added = match number.checked_sub(1).and_then(|at| values.get(at)) {
                Some(Value::Int(it)) => arguments.add(it),
                Some(Value::Text(it)) => arguments.add(it.as_deref()),
                Some(Value::Bool(it)) => arguments.add(it),
                Some(Value::Rows(rows)) => arguments.add(json_rows(rows)),
                Some(Value::Ids(ids)) => add_list(text, &mut arguments, ids),
                None => Err(format!("value {number} is missing").into()),
            };
            if is_list {
                text.push(')');
            }
            if bound.is_ok() {
                bound = added;
            }
        });
        bound.map(|()| (fixed(sql.into()), arguments))
    }

    async fn insert(conn: &mut Conn<Self>, statement: Statement<'_, Self>) -> Result<u64, Error> {
        match statement.execute(conn).await {
            Err(error) if is_unique_violation(&error) => Ok(0),
            inserted => inserted,
        }
    }

    async fn insert_row(
        conn: &mut Conn<Self>,
        statement: Statement<'_, Self>,
    ) -> Result<Option<i64>, Error> {
        let (sql, arguments) = statement.render()?;
        match sqlx::query_with(sql, arguments).execute(&mut **conn).await {
            Ok(inserted) => Ok(i64::try_from(inserted.last_insert_id()).ok()),
            Err(error) if is_unique_violation(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn reserve_numbers(conn: &mut Conn<Self>, upto: i64) -> Result<(), Error> {
        let highest = Self::sql("SELECT COALESCE(MAX(id), 0) FROM tb_voucher").number(conn).await?;
        if highest < upto {
            // The number cannot be bound here; InnoDB ignores a value lower than the current one.
            let next = upto.saturating_add(1);
            let change = format!("ALTER TABLE tb_voucher AUTO_INCREMENT = {next}");
            Self::sql(change).execute(conn).await?;
        }
        Ok(())
    }
}

/// Binds a list of IDs, repeating the last one up to a power of two.
fn add_list(
    text: &mut String,
    arguments: &mut MySqlArguments,
    ids: &[i64],
) -> Result<(), BoxDynError> {
    let Some(last) = ids.last() else {
        text.push_str("NULL");
        return Ok(());
    };
    let length = ids.len().next_power_of_two();
    text.push_str(&vec!["?"; length].join(","));
    for id in ids.iter().chain(std::iter::repeat(last)).take(length) {
        arguments.add(id)?;
    }
    Ok(())
}

/// Whether a unique key rejected a row.
fn is_unique_violation(error: &Error) -> bool {
    error.as_database_error().is_some_and(|it| it.kind() == ErrorKind::UniqueViolation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_repeated_and_lists_padded() {
        let values = [Value::from(7_i64), Value::from(vec![1, 2, 3])];
        let sql = "SELECT \"rows\" FROM t WHERE a = $1 AND b = $1 AND c = ANY($2)";
        let (text, arguments) = MySql::render(sql.into(), &values).unwrap();
        assert_eq!(text.as_str(), "SELECT `rows` FROM t WHERE a = ? AND b = ? AND c IN (?,?,?,?)");
        assert_eq!(arguments.len(), 6);
        let (text, arguments) =
            MySql::render("c = ANY($1)".into(), &[Value::from(Vec::new())]).unwrap();
        assert_eq!((text.as_str(), arguments.len()), ("c IN (NULL)", 0));
    }
}
