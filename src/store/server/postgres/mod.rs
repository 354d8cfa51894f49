//! The SQL of PostgreSQL.
//!
//! The first error aborts a transaction, so no statement relies on one: existing orders of a batch show in the number
//! of inserted rows. Lists are passed as arrays, so that one prepared statement serves every length.

mod connect;
mod errors;

use sqlx::{Arguments as _, error::BoxDynError, postgres::PgArguments};

use crate::{
    Dialect, OrderRow, Value, batch,
    dialect::{divide, on_conflict},
};

pub(crate) const POSTGRES: Dialect = Dialect {
    name: "PostgreSQL",
    begin: "BEGIN",
    version: "SHOW server_version",
    durability: &[
        ("fsync", "SHOW fsync"),
        ("synchronous_commit", "SHOW synchronous_commit"),
        ("full_page_writes", "SHOW full_page_writes"),
        ("wal_level", "SHOW wal_level"),
    ],
    live: "status NOT IN (4, 5)",
    closed: "status IN (4, 5)",
    lock: "FOR NO KEY UPDATE",
    primary: "",
    join: "JOIN",
    has_sequence: true,
    batch,
    index: |_| String::new(),
    upsert: on_conflict,
    quotient: divide,
    order_pages,
    classify: errors::classify,
    is_transient: errors::is_transient,
    is_rolled_back: errors::is_rolled_back,
};

fn batch(number: usize) -> String {
    let arrays = batch::columns(|at, _, kind| format!("${}::{kind}[]", number + at));
    format!("UNNEST({arrays}) AS batch ({})", batch::names())
}

fn order_pages(user: bool, voucher: bool) -> &'static [&'static str] {
    match (user, voucher) {
        // Live and closed orders are in different partial indexes. Vouchers are few, and each needs one lookup in
        // the unique index.
        (true, _) => &[
            "WHERE status NOT IN (4, 5) \
             AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)",
            "WHERE status IN (4, 5)",
        ],
        (false, true) => &["WHERE status NOT IN (4, 5)", "WHERE status IN (4, 5)"],
        (false, false) => &["WHERE TRUE"],
    }
}

/// Binds the values of a statement.
pub(crate) fn render(
    sql: &str,
    values: &[Value<'_>],
) -> Result<(String, PgArguments), BoxDynError> {
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Int(it) => arguments.add(it)?,
            Value::Text(it) => arguments.add(it.as_deref())?,
            Value::Bool(it) => arguments.add(it)?,
            Value::Ids(ids) => arguments.add(ids)?,
            Value::Rows(rows) => {
                let column = |of: fn(&OrderRow) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
                arguments.add(column(|row| row.id))?;
                arguments.add(column(|row| row.user_id))?;
                arguments.add(column(|row| row.voucher_id))?;
                arguments.add(column(|row| row.place))?;
            }
        }
    }
    Ok((sql.to_owned(), arguments))
}
