//! What differs between the SQL of the databases.
//!
//! Statements are written once, with PostgreSQL placeholders: `$1` is the first value and may occur more than once. A
//! list of IDs is one value, compared as `= ANY($1)`. Each dialect translates that.

pub(super) mod mysql;
pub(super) mod postgres;
pub(super) mod sqlite;

use std::{borrow::Cow, io::ErrorKind};

use seckill_model::{
    Cause, JobOutcome, Millis, OrderId, OrderStatus, OsError, Reason, SaleState, UserId, VoucherId,
    VoucherKind, VoucherStatus, reason,
};
use serde::Serialize;
use sqlx::{
    Error,
    error::{BoxDynError, DatabaseError},
};

use crate::{OrderRow, Result, StoreError};

/// The SQL and the error codes of one database.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Name of the database in messages.
    pub(super) name: &'static str,
    /// Begins a write transaction.
    pub(super) begin: &'static str,
    /// Selects the version of the server.
    pub(super) version: &'static str,
    /// Selects the time of the server as Unix milliseconds; a file has no clock of its own.
    pub(super) clock: Option<&'static str>,
    /// Settings that affect durability: name, and a statement that selects the value.
    pub(super) durability: &'static [(&'static str, &'static str)],
    /// Updates the figures that `order_bytes` reads, if the database only estimates them.
    pub(super) refresh: Option<&'static str>,
    /// Selects the maximum size of a statement in bytes, if that can be changed while the server runs.
    pub(super) packet: Option<&'static str>,
    /// Selects the size of the orders of sales with their indexes, or of all tables.
    pub(super) order_bytes: &'static str,
    /// Condition of live orders of sales, as in their index.
    pub(super) live: &'static str,
    /// Condition of closed and cancelled orders of sales, as in their index.
    pub(super) closed: &'static str,
    /// Locks the selected rows against other writers.
    pub(super) lock: &'static str,
    /// Checks constraints that a transaction defers to its end.
    pub(super) check_now: Option<&'static str>,
    /// Hint to read along the primary key.
    pub(super) primary: &'static str,
    /// Joins a table to the batch before it, row by row.
    pub(super) join: &'static str,
    /// Voucher IDs come from a sequence that ignores explicitly inserted IDs.
    pub(super) has_sequence: bool,
    /// A table `batch` of [`OrderRow`] from [`Value::Rows`], which is the last value and has this number.
    pub(super) batch: fn(usize) -> String,
    /// Hint to use an index; follows the table.
    pub(super) index: fn(&str) -> String,
    /// Updates columns, separated by commas, of the row that already holds a key.
    pub(super) upsert: fn(&str, &str) -> String,
    /// The integer quotient of a dividend and a divisor.
    pub(super) quotient: fn(&str, &str) -> String,
    /// The part after `FROM tb_voucher_order` of the queries for a page of orders of a user, of a voucher, or of all:
    /// each reads along one index.
    pub(super) order_pages: fn(&Self, bool, bool) -> Vec<String>,
    /// Classifies an error of the server.
    pub(super) classify: fn(&dyn DatabaseError) -> StoreError,
    /// Whether the same transaction may succeed if repeated at once.
    pub(super) is_transient: fn(&dyn DatabaseError) -> bool,
    /// Whether an error at the commit proves that the transaction was rolled back.
    pub(super) is_rolled_back: fn(&dyn DatabaseError) -> bool,
}

impl Dialect {
    /// Classifies an error and explains it to the user.
    pub(super) fn store_error(&self, error: Error) -> StoreError {
        StoreError::Away(match error {
            Error::Database(error) => return (self.classify)(error.as_ref()),
            // A URL with an option that the driver does not support.
            Error::Configuration(error) => {
                let reason = error.to_string();
                return StoreError::Url(reason!("store-url-unusable", reason));
            }
            // An invalid certificate, in a handshake.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => not_encrypted(&error),
            Error::Io(error) => {
                reason!("store-reason-connection-failed", reason = OsError::from(error))
            }
            Error::Tls(error) => not_encrypted(&error),
            Error::PoolClosed => reason!("store-reason-closed"),
            Error::WorkerCrashed => reason!("store-reason-connection-broke"),
            Error::Protocol(message) => {
                reason!("store-reason-other-protocol", database = self.name, message)
            }
            Error::PoolTimedOut | Error::BeginFailed => Reason::Quoted(error.to_string()),
            // The driver cannot send a value, or not read one of the answer.
            other => return StoreError::Failed(Reason::Quoted(other.to_string())),
        })
    }

    /// Whether the same transaction may succeed if repeated at once; only the server's own errors are transient.
    pub(super) fn is_transient(&self, error: &Error) -> bool {
        error.as_database_error().is_some_and(self.is_transient)
    }

    /// Whether an error at the commit proves that the transaction was rolled back; a broken connection proves nothing.
    pub(super) fn is_rolled_back(&self, error: &Error) -> bool {
        error.as_database_error().is_some_and(self.is_rolled_back)
    }
}

fn not_encrypted(error: &dyn std::fmt::Display) -> Reason {
    reason!("store-not-encrypted", message = error.to_string())
}

/// A table or column that is missing; message of the server.
fn schema_changed(message: String) -> StoreError {
    StoreError::Schema(reason!("store-schema-changed", reason = message))
}

/// [`Dialect::upsert`] of SQLite and PostgreSQL.
fn on_conflict(key: &str, columns: &str) -> String {
    let set: Vec<String> = columns.split(", ").map(|it| format!("{it} = excluded.{it}")).collect();
    format!("ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
}

/// [`Dialect::order_pages`] of SQLite and PostgreSQL, where live and closed orders are in different partial indexes.
fn pages_of_partial_indexes(dialect: &Dialect, user: bool, voucher: bool) -> Vec<String> {
    let Dialect { live, closed, index, .. } = dialect;
    match (user, voucher) {
        // Vouchers are few, and each needs one lookup in the unique index.
        (true, _) => vec![
            format!("WHERE {live} AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)"),
            format!("{} WHERE {closed}", index("idx_closed_user")),
        ],
        (false, true) => vec![
            format!("{} WHERE {live}", index("idx_live_order")),
            format!("{} WHERE {closed}", index("idx_closed_order")),
        ],
        (false, false) => vec!["WHERE TRUE".to_owned()],
    }
}

/// [`Dialect::quotient`] of SQLite and PostgreSQL.
fn divide(dividend: &str, divisor: &str) -> String {
    format!("({dividend}) / {divisor}")
}

/// A value that a statement binds.
#[derive(Debug)]
pub(super) enum Value<'q> {
    /// A number, time or ID.
    Int(Option<i64>),
    Text(Option<Cow<'q, str>>),
    Bool(bool),
    /// IDs compared with a column: `= ANY($1)`.
    Ids(Vec<i64>),
    /// Rows of [`Dialect::batch`].
    Rows(&'q [OrderRow]),
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
    Millis => |it| Self::Int(Some(it.0));
    Option<Millis> => |it| Self::Int(it.map(|it| it.0));
    OrderId => |it| Self::Int(Some(it.as_i64()));
    OrderStatus => |it| Self::Int(Some(it as i64));
    VoucherKind => |it| Self::Int(Some(it as i64));
    VoucherStatus => |it| Self::Int(Some(it as i64));
    SaleState => |it| <&str>::from(it).into();
    Cause => |it| <&str>::from(it).into();
    JobOutcome => |it| <&str>::from(it).into();
    // There are no rows beyond 63 bits.
    UserId => |it| Self::Int(Some(i64::try_from(it.0).unwrap_or(i64::MAX)));
    VoucherId => |it| Self::Int(Some(i64::try_from(it.0).unwrap_or(i64::MAX)));
    bool => |it| Self::Bool(it);
    &'q str => |it| Self::Text(Some(it.into()));
    &'q String => |it| Self::Text(Some(it.into()));
    String => |it| Self::Text(Some(it.into()));
    Option<String> => |it| Self::Text(it.map(Cow::from));
    &'q Option<String> => |it| Self::Text(it.as_deref().map(Cow::from));
    Vec<i64> => |it| Self::Ids(it);
    &[OrderId] => |it| Self::Ids(it.iter().map(|id| id.as_i64()).collect());
    &'q [OrderRow] => |it| Self::Rows(it);
}

/// Replaces each placeholder with the result of `write` for its number, and each `= ANY($1)` with that of the list.
fn substitute(
    sql: &str,
    mut write: impl FnMut(&mut String, usize, bool) -> Result<(), BoxDynError>,
) -> Result<String, BoxDynError> {
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
        write(&mut text, number, before.is_some())?;
        text.push_str(if before.is_some() {
            after.strip_prefix(')').unwrap_or(after)
        } else {
            after
        });
    }
    Ok(text)
}

/// Values as a JSON array.
fn json(values: &[impl Serialize]) -> Result<String, BoxDynError> {
    Ok(serde_json::to_string(values)?)
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
            Ok(())
        })
        .unwrap();
        assert_eq!(text, "a = ? AND b IN (?) AND '$[*]' = ?");
        assert_eq!(seen, [(2, false), (1, true), (12, false)]);
    }
}
