//! The SQL of SQLite: nearly that of PostgreSQL, without row locks.
//!
//! Lists and rows are passed as one JSON array each, so that one prepared statement serves every length.

use sqlx::{Arguments as _, error::BoxDynError, sqlite::SqliteArguments};

use super::errors;
use crate::{
    Dialect, Value, batch,
    dialect::{divide, json, on_conflict, substitute},
};

pub(crate) const SQLITE: Dialect = Dialect {
    name: "SQLite",
    // A transaction that reads first and writes later would get BUSY at once, whatever the timeout.
    begin: "BEGIN IMMEDIATE",
    // `sqlite_version()` alone would not read the file.
    version: "SELECT sqlite_version() FROM (SELECT COUNT(*) FROM sqlite_schema)",
    durability: &[
        ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode"),
        (
            "synchronous",
            "SELECT CASE synchronous WHEN 0 THEN 'off' WHEN 1 THEN 'normal' WHEN 2 THEN 'full' \
             ELSE 'extra' END FROM pragma_synchronous",
        ),
        ("foreign_keys", "SELECT iif(foreign_keys, 'on', 'off') FROM pragma_foreign_keys"),
        ("page_size", "SELECT CAST(page_size AS TEXT) FROM pragma_page_size"),
        ("busy_timeout", "SELECT timeout || ' ms' FROM pragma_busy_timeout"),
    ],
    live: "status NOT IN (4, 5)",
    closed: "status IN (4, 5)",
    // A write transaction has exclusive access to the file.
    lock: "",
    primary: "",
    join: "CROSS JOIN",
    has_sequence: false,
    batch,
    index: |name| format!("INDEXED BY {name}"),
    upsert: on_conflict,
    quotient: divide,
    order_pages,
    classify: errors::classify,
    // The lock was already waited for until its timeout.
    is_transient: |_| false,
    is_rolled_back: errors::is_rolled_back,
};

fn batch(number: usize) -> String {
    let columns = batch::columns(|at, name, _| format!("value ->> {at} AS {name}"));
    format!("(SELECT {columns} FROM json_each(${number})) AS batch")
}

fn order_pages(user: bool, voucher: bool) -> &'static [&'static str] {
    match (user, voucher) {
        // Live and closed orders are in different partial indexes. Vouchers are few, and each needs one lookup in
        // the unique index.
        (true, _) => &[
            "WHERE status NOT IN (4, 5) \
             AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)",
            "INDEXED BY idx_closed_user WHERE status IN (4, 5)",
        ],
        (false, true) => &[
            "INDEXED BY idx_live_order WHERE status NOT IN (4, 5)",
            "INDEXED BY idx_closed_order WHERE status IN (4, 5)",
        ],
        (false, false) => &["WHERE TRUE"],
    }
}

/// Translates a statement and its values.
pub(crate) fn render(
    sql: &str,
    values: &[Value<'_>],
) -> Result<(String, SqliteArguments), BoxDynError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match value {
            Value::Int(it) => arguments.add(it)?,
            Value::Text(it) => arguments.add(it.as_deref())?,
            Value::Bool(it) => arguments.add(it)?,
            Value::Ids(ids) => arguments.add(json(ids)?)?,
            Value::Rows(rows) => arguments.add(json(rows)?)?,
        }
    }
    let sql = substitute(sql, |text, number, is_list| {
        text.push_str(&if is_list {
            format!("IN (SELECT value FROM json_each(${number}))")
        } else {
            format!("${number}")
        });
        Ok(())
    })?;
    Ok((sql, arguments))
}
