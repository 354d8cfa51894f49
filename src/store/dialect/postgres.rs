//! The SQL of PostgreSQL.
//!
//! The first error aborts a transaction, so no statement relies on one: existing orders of a batch show in the number
//! of inserted rows. Lists are passed as arrays, so that one prepared statement serves every length.

use seckill_model::{Reason, reason};
use sqlx::{
    Arguments as _,
    error::{BoxDynError, DatabaseError},
    postgres::PgArguments,
};

use super::{Dialect, Value, divide, on_conflict, pages_of_partial_indexes, schema_changed};
use crate::{OrderRow, StoreError, batch};

const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK: &str = "40P01";
const LOCK_NOT_AVAILABLE: &str = "55P03";

pub(crate) const POSTGRES: Dialect = Dialect {
    name: "PostgreSQL",
    begin: "BEGIN",
    version: "SHOW server_version",
    clock: Some("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"),
    durability: &[
        ("fsync", "SHOW fsync"),
        ("synchronous_commit", "SHOW synchronous_commit"),
        ("full_page_writes", "SHOW full_page_writes"),
        ("wal_level", "SHOW wal_level"),
    ],
    refresh: None,
    packet: None,
    order_bytes: "SELECT pg_total_relation_size('tb_voucher_order')",
    live: "status NOT IN (4, 5)",
    closed: "status IN (4, 5)",
    lock: "FOR NO KEY UPDATE",
    check_now: Some("SET CONSTRAINTS ALL IMMEDIATE"),
    primary: "",
    join: "JOIN",
    has_sequence: true,
    batch,
    index: |_| String::new(),
    upsert: on_conflict,
    quotient: divide,
    order_pages: pages_of_partial_indexes,
    classify,
    is_transient,
    is_rolled_back,
};

fn batch(number: usize) -> String {
    let arrays = batch::columns(|at, _, kind| format!("${}::{kind}[]", number + at));
    format!("UNNEST({arrays}) AS batch ({})", batch::names())
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
                arguments.add(column(|row| row.shard))?;
                arguments.add(column(|row| row.buyer_place))?;
            }
        }
    }
    Ok((sql.to_owned(), arguments))
}

fn is_transient(error: &dyn DatabaseError) -> bool {
    let code = error.code().unwrap_or_default();
    [SERIALIZATION_FAILURE, DEADLOCK, LOCK_NOT_AVAILABLE].contains(&&*code)
}

fn is_rolled_back(error: &dyn DatabaseError) -> bool {
    // An error of the transaction itself, as opposed to a connection error (08), an unknown outcome (40003), a shutdown
    // by an operator (57), a system error (58) or an internal error (XX).
    let unknown = ["08", "40003", "57", "58", "XX"];
    error.code().is_some_and(|it| !unknown.iter().any(|class| it.starts_with(class)))
}

/// Classifies an error by its SQLSTATE, of which the first two characters are the class.
fn classify(error: &dyn DatabaseError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let message = error.message().to_owned();
    StoreError::Away(match &*code {
        SERIALIZATION_FAILURE | DEADLOCK | LOCK_NOT_AVAILABLE => {
            reason!("store-reason-rows-locked")
        }
        // Read-only transaction.
        "25006" => reason!("store-reason-replica"),
        "3D000" => reason!("store-create-it-with-create-database", message),
        "53300" => reason!("store-reason-too-many-connections", message),
        // Query cancelled.
        "57014" => reason!("store-reason-statement-timed-out"),
        "25P03" => reason!("store-this-process-paused-within-transaction"),
        "53100" => reason!("store-it-cannot-write-free-space", message),
        // Undefined table, undefined column.
        "42P01" | "42703" => return schema_changed(message),
        // A policy of a table rejects rows by their values, with the code of a missing privilege.
        "42501" if message.contains("row-level security") => {
            return StoreError::Failed(Reason::Quoted(message));
        }
        // Insufficient privilege, invalid authorization.
        code if code == "42501" || code.starts_with("28") => {
            reason!("store-reason-denied", message)
        }
        // Connection, resources, state of the server, I/O: not about the request.
        code if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => {
            Reason::Quoted(message)
        }
        // About the values of a row: invalid data, and violated constraints.
        code if code.starts_with("22") || code.starts_with("23") => {
            return StoreError::Rejected(Reason::Quoted(message));
        }
        _ => return StoreError::Failed(Reason::Quoted(message)),
    })
}
