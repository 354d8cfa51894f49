//! What an error of SQLite means for whoever asked: wait, give up, or mend something.

use std::path::Path;

use sqlx::error::{DatabaseError, ErrorKind};

use super::StoreError;

/// Primary result codes, the low byte of the extended ones.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const READONLY: i32 = 8;
    pub(super) const INTERRUPT: i32 = 9;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const AUTH: i32 = 23;
    pub(super) const NOTADB: i32 = 26;
}

/// An error of SQLite, told to a person.
#[allow(clippy::needless_pass_by_value, reason = "it is the last to see it, in map_err")]
pub(super) fn told(error: sqlx::Error) -> StoreError {
    let away = |why: &str| StoreError::Away(why.to_owned());
    match &error {
        sqlx::Error::Database(fault) => told_by_code(fault.as_ref()),
        sqlx::Error::PoolTimedOut => away("all its connections are busy"),
        sqlx::Error::PoolClosed => away("the store was closed"),
        sqlx::Error::WorkerCrashed => away("its connection broke"),
        sqlx::Error::Io(fault) => StoreError::Away(format!("{fault}")),
        other => StoreError::Refused(other.to_string()),
    }
}

fn told_by_code(fault: &dyn DatabaseError) -> StoreError {
    let away = |why: &str| StoreError::Away(why.to_owned());
    match primary(fault) {
        code::BUSY | code::LOCKED | code::PROTOCOL => {
            away("another process keeps the database file locked")
        }
        code::FULL => away("the disk is full; make room"),
        code::READONLY => {
            away("the database file is read-only; make it and its directory writable")
        }
        code::IOERR | code::CANTOPEN | code::PERM | code::AUTH => {
            StoreError::Away(format!("the database file can't be read or written: {fault}"))
        }
        code::NOMEM | code::INTERRUPT => StoreError::Away(fault.to_string()),
        code::CORRUPT | code::NOTADB => StoreError::File(format!(
            "the database file is damaged ({}); put a backup in its place",
            fault.message()
        )),
        code::CONSTRAINT => StoreError::Refused(fault.message().to_owned()),
        _ => StoreError::Refused(fault.to_string()),
    }
}

/// The same while the file at `path` is being opened, when a person can still choose another.
pub(super) fn told_at_open(error: sqlx::Error, path: &Path) -> StoreError {
    let shown = path.display();
    match error.as_database_error().map(primary) {
        Some(code::NOTADB | code::CORRUPT) => StoreError::File(format!(
            "{shown} is no SQLite database, or a damaged one; give another --database"
        )),
        Some(code::CANTOPEN | code::PERM | code::AUTH) => StoreError::File(format!(
            "{shown} can't be opened as a database; check its directory, or give another --database"
        )),
        Some(code::READONLY) => StoreError::File(format!(
            "{shown} is read-only; make it and its directory writable, or give another --database"
        )),
        _ => told(error),
    }
}

/// Whether somebody else just holds the file, so that the same request works in a moment.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().map(primary).is_some_and(|it| it == code::BUSY || it == code::LOCKED)
}

/// Whether a row pointed at a sale that is not there.
pub(super) fn is_foreign_key(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|it| it.kind() == ErrorKind::ForeignKeyViolation)
}

fn primary<E: DatabaseError + ?Sized>(fault: &E) -> i32 {
    fault.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(1) & 0xff
}
