//! Known causes of database failures.

use std::borrow::Cow;

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use super::StoreError;

/// Why a database is unavailable or rejects a request, as data displayed in the user's language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every connection of this process is in use; their number.
    #[error("{}", text!("store-reason-pool-busy", connections = .0))]
    PoolBusy(u32),
    /// The store was closed.
    #[error("{}", Label("store-reason-closed"))]
    Closed,
    /// The connection broke.
    #[error("{}", Label("store-reason-connection-broke"))]
    ConnectionBroke,
    /// The connection broke; error of the operating system.
    #[error("{}", text!("store-reason-connection-failed", reason = .0))]
    ConnectionFailed(OsError),
    /// The disk of the file is full.
    #[error("{}", Label("store-reason-disk-full"))]
    DiskFull,
    /// The file became read-only.
    #[error("{}", Label("store-reason-file-is-read-only"))]
    FileReadOnly,
    /// The file cannot be read or written; message of SQLite.
    #[error("{}", text!("store-reason-file-failed", message = .0))]
    FileFailed(String),
    /// It accepts connections but does not respond.
    #[error("{}", Label("store-reason-silent"))]
    Silent,
    /// Timeout after this many milliseconds.
    #[error("{}", text!("store-no-answer-within-s", seconds = seconds(*.0)))]
    NoAnswer(u64),
    /// The server does not respond.
    #[error("{}", text!("store-reason-unreachable", server = .0))]
    Unreachable(String),
    /// Repeated conflicts with concurrent transactions.
    #[error("{}", Label("store-reason-contention"))]
    Contention,
    /// Other transactions hold locks on the same rows.
    #[error("{}", Label("store-reason-rows-locked"))]
    RowsLocked,
    /// Another process is changing the schema.
    #[error("{}", Label("store-reason-schema-locked"))]
    SchemaLocked,
    /// No encrypted connection is possible; message of the library.
    #[error("{}", text!("store-no-encrypted-connection-check-store", message = .0))]
    NoTls(String),
    /// The server is a replica.
    #[error("{}", Label("store-reason-replica"))]
    Replica,
    /// The server rejects the user, the password or the request; its message.
    #[error("{}", text!("store-reason-denied", message = .0))]
    Denied(String),
    /// The server has no such database; its message.
    #[error("{}", text!("store-create-it-with-create-database", message = .0))]
    NoDatabase(String),
    /// The URL names no database.
    #[error("{}", Label("store-url-names-no-database"))]
    NoDatabaseNamed,
    /// The server accepts no more connections; its message.
    #[error("{}", text!("store-reason-too-many-connections", message = .0))]
    TooManyConnections(String),
    /// A statement took too long.
    #[error("{}", Label("store-reason-statement-timed-out"))]
    StatementTimedOut,
    /// The server cannot write to its disk; its message.
    #[error("{}", text!("store-it-cannot-write-free-space", message = .0))]
    CannotWrite(String),
    /// A packet is too large for the server; its message.
    #[error("{}", text!("store-reason-packet-too-large", message = .0))]
    PacketTooLarge(String),
    /// The server logs statements instead of rows.
    #[error("{}", Label("store-reason-statement-binlog"))]
    StatementBinlog,
    /// This process paused for too long within a transaction.
    #[error("{}", Label("store-this-process-paused-within-transaction"))]
    PausedInTransaction,
    /// The server speaks the protocol of another database; message of the library.
    #[error("{}", text!("store-reason-other-protocol", database = .0, message = .1))]
    OtherProtocol(Cow<'static, str>, String),
    /// A number is out of range for a row.
    #[error("{}", text!("store-reason-too-large", number = .0.to_string()))]
    TooLarge(u64),
    /// A column has an invalid value.
    #[error("{}", text!("store-reason-damaged", column = .0, value = .1))]
    Damaged(String, String),
    /// The ID belongs to another order.
    #[error("{}", text!("store-reason-id-taken", order = .0.to_string()))]
    IdTaken(i64),
    /// The order was not written for an unknown reason.
    #[error("{}", text!("store-order-was-not-written", order = .0.to_string()))]
    NotWritten(i64),
    /// The database returned no ID for a new voucher.
    #[error("{}", Label("store-database-returned-no-number"))]
    NoNumber,
    /// Injected by a drill.
    #[error("{}", Label("store-reason-drill"))]
    Drill,
    /// Another error of the store.
    #[error("{0}")]
    Failed(Box<StoreError>),
    /// Message of the server or library.
    #[error("{0}")]
    Quoted(String),
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
