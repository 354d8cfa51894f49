//! The SQL of SQLite: nearly that of PostgreSQL, without row locks.
//!
//! Lists and rows are passed as one JSON array each, so that one prepared statement serves every length.

use std::path::Path;

use libsqlite3_sys as ffi;
use seckill_model::{Reason, reason};
use sqlx::{
    Arguments as _,
    error::{BoxDynError, DatabaseError},
    sqlite::SqliteArguments,
};

use super::{
    Dialect, Value, divide, json, on_conflict, pages_of_partial_indexes, schema_changed, substitute,
};
use crate::{StoreError, batch};

pub(crate) const SQLITE: Dialect = Dialect {
    name: "SQLite",
    // A transaction that reads first and writes later would get BUSY at once, whatever the timeout.
    begin: "BEGIN IMMEDIATE",
    // `sqlite_version()` alone would not read the file.
    version: "SELECT sqlite_version() FROM (SELECT COUNT(*) FROM sqlite_schema)",
    clock: None,
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
    refresh: None,
    packet: None,
    order_bytes: "SELECT (page_count - freelist_count) * page_size \
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    live: "status NOT IN (4, 5)",
    closed: "status IN (4, 5)",
    // A write transaction has exclusive access to the file.
    lock: "",
    check_now: None,
    primary: "",
    join: "CROSS JOIN",
    has_sequence: false,
    batch,
    index: |name| format!("INDEXED BY {name}"),
    upsert: on_conflict,
    quotient: divide,
    order_pages: pages_of_partial_indexes,
    classify,
    // The lock was already waited for until its timeout.
    is_transient: |_| false,
    is_rolled_back,
};

fn batch(number: usize) -> String {
    let columns = batch::columns(|at, name, _| format!("value ->> {at} AS {name}"));
    format!("(SELECT {columns} FROM json_each(${number})) AS batch")
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

fn is_rolled_back(error: &dyn DatabaseError) -> bool {
    // A commit that cannot be synced may still be in the log and found by a recovery.
    [ffi::SQLITE_BUSY, ffi::SQLITE_FULL, ffi::SQLITE_CONSTRAINT].contains(&primary(error))
}

/// Classifies an error by its primary result code.
fn classify(fault: &dyn DatabaseError) -> StoreError {
    match primary(fault) {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => StoreError::Locked,
        ffi::SQLITE_FULL => StoreError::Away(reason!("store-reason-disk-full")),
        ffi::SQLITE_READONLY => StoreError::Away(reason!("store-reason-file-is-read-only")),
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => {
            let message = fault.to_string();
            StoreError::Away(reason!("store-reason-file-failed", message))
        }
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => {
            StoreError::File(reason!("store-file-damaged", reason = fault.message()))
        }
        ffi::SQLITE_CONSTRAINT => StoreError::Rejected(Reason::Quoted(fault.message().to_owned())),
        ffi::SQLITE_ERROR | ffi::SQLITE_SCHEMA if is_of_the_schema(fault.message()) => {
            schema_changed(fault.message().to_owned())
        }
        ffi::SQLITE_TOOBIG | ffi::SQLITE_MISMATCH | ffi::SQLITE_RANGE => {
            StoreError::Rejected(Reason::Quoted(fault.to_string()))
        }
        ffi::SQLITE_NOMEM | ffi::SQLITE_INTERRUPT => {
            StoreError::Away(Reason::Quoted(fault.to_string()))
        }
        _ => StoreError::Failed(Reason::Quoted(fault.to_string())),
    }
}

/// SQLite has a single code for all errors in a statement.
fn is_of_the_schema(message: &str) -> bool {
    ["no such table", "no such column", "has no column", "no such index"]
        .iter()
        .any(|it| message.contains(it))
}

/// The same while the file at `path` is opened and the user can still choose another one.
pub(crate) fn store_error_at_open(error: sqlx::Error, path: &Path) -> StoreError {
    StoreError::File(match error.as_database_error().map(primary) {
        Some(ffi::SQLITE_NOTADB | ffi::SQLITE_CORRUPT) => {
            reason!("store-is-not-sqlite-database", path)
        }
        Some(ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM | ffi::SQLITE_AUTH) => {
            reason!("store-cannot-be-opened-as-database", path)
        }
        Some(ffi::SQLITE_READONLY) => reason!("store-file-read-only", path),
        _ => return SQLITE.store_error(error),
    })
}

/// Whether another process holds the file temporarily, so that the same request succeeds in a moment. `SQLITE_PROTOCOL`:
/// SQLite has retried its start with the write-ahead log in vain for seconds, because others start as well.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().map(primary).is_some_and(|it| {
        [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_PROTOCOL].contains(&it)
    })
}

/// Whether there was no room for the shared index of the log.
pub(crate) fn is_no_room_for_index(error: &sqlx::Error) -> bool {
    const SHMSIZE: &str = "4874";
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == SHMSIZE)
}

fn primary(fault: &dyn DatabaseError) -> i32 {
    fault.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(1) & 0xff
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};

    use super::*;

    async fn connect(dir: &Path) -> SqliteConnection {
        let options = SqliteConnectOptions::new()
            .filename(dir.join("a.db"))
            .create_if_missing(true)
            .busy_timeout(Duration::ZERO);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    #[tokio::test]
    async fn full_disk_and_lock_are_transient_but_violations_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = connect(dir.path()).await;
        one.execute("CREATE TABLE t (a INTEGER UNIQUE, b BLOB)").await.unwrap();
        one.execute("INSERT INTO t VALUES (1, 'x')").await.unwrap();

        let twice =
            SQLITE.store_error(one.execute("INSERT INTO t VALUES (1, 'x')").await.unwrap_err());
        assert!(matches!(twice, StoreError::Rejected(_)), "{twice}");

        one.execute("PRAGMA max_page_count = 10").await.unwrap();
        let full = one.execute("INSERT INTO t VALUES (2, zeroblob(1000000))").await.unwrap_err();
        let full = SQLITE.store_error(full);
        assert!(full.is_away() && full.to_string().contains("disk is full"), "{full}");

        one.execute("BEGIN IMMEDIATE").await.unwrap();
        let locked = connect(dir.path()).await.execute("BEGIN IMMEDIATE").await.unwrap_err();
        assert!(is_busy(&locked));
        let locked = SQLITE.store_error(locked);
        assert!(matches!(locked, StoreError::Locked) && locked.is_away(), "{locked}");
    }

    #[tokio::test]
    async fn read_only_file_is_unavailable() {
        let dir = tempfile::tempdir().unwrap();
        connect(dir.path()).await.execute("CREATE TABLE t (a)").await.unwrap();
        let options = SqliteConnectOptions::new().filename(dir.path().join("a.db")).read_only(true);
        let mut reader = SqliteConnection::connect_with(&options).await.unwrap();
        let fault =
            SQLITE.store_error(reader.execute("INSERT INTO t VALUES (1)").await.unwrap_err());
        assert!(fault.is_away() && fault.to_string().contains("read-only"), "{fault}");
    }
}
