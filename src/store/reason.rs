//! Why the database did not do what it was asked, as far as the program knows it.

use std::borrow::Cow;

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use super::StoreError;

/// Why a database is unavailable or refuses, as data that displays itself in the reader's language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every connection of this process is in use.
    #[error("{}", Label("store-reason-pool-timed-out"))]
    PoolTimedOut,
    /// So many connections of this process are in use.
    #[error("{}", text!("store-reason-pool-busy", connections = .0))]
    PoolBusy(u32),
    /// The store was closed.
    #[error("{}", Label("store-reason-closed"))]
    Closed,
    /// The connection broke.
    #[error("{}", Label("store-reason-connection-broke"))]
    ConnectionBroke,
    /// The connection broke, by an error of the system.
    #[error("{}", text!("store-reason-connection-failed", reason = .0))]
    ConnectionFailed(OsError),
    /// The disk of the file is full.
    #[error("{}", Label("store-reason-disk-full"))]
    DiskFull,
    /// The file became read-only.
    #[error("{}", Label("store-reason-file-is-read-only"))]
    FileReadOnly,
    /// The file can't be read or written, in the words of SQLite.
    #[error("{}", text!("store-reason-file-failed", words = .0))]
    FileFailed(String),
    /// It accepts connections and does not answer.
    #[error("{}", Label("store-reason-silent"))]
    Silent,
    /// It did not answer within so many milliseconds.
    #[error("{}", text!("store-reason-no-answer", seconds = seconds(*.0)))]
    NoAnswer(u64),
    /// The server there does not answer.
    #[error("{}", text!("store-reason-unreachable", server = .0))]
    Unreachable(String),
    /// Concurrent transactions changed the same rows again and again.
    #[error("{}", Label("store-reason-contention"))]
    Contention,
    /// Other transactions hold locks on the same rows.
    #[error("{}", Label("store-reason-rows-locked"))]
    RowsLocked,
    /// Another process is changing the schema.
    #[error("{}", Label("store-reason-schema-locked"))]
    SchemaLocked,
    /// There is no encrypted connection, in the words of the library.
    #[error("{}", text!("store-reason-no-tls", words = .0))]
    NoTls(String),
    /// The server is a replica.
    #[error("{}", Label("store-reason-replica"))]
    Replica,
    /// The server refuses the user, the password or the request, in its words.
    #[error("{}", text!("store-reason-denied", words = .0))]
    Denied(String),
    /// The server has no such database, in its words.
    #[error("{}", text!("store-reason-no-database", words = .0))]
    NoDatabase(String),
    /// The URL names no database.
    #[error("{}", Label("store-reason-no-database-named"))]
    NoDatabaseNamed,
    /// The server takes no more connections, in its words.
    #[error("{}", text!("store-reason-too-many-connections", words = .0))]
    TooManyConnections(String),
    /// A statement took too long.
    #[error("{}", Label("store-reason-statement-timed-out"))]
    StatementTimedOut,
    /// The server can't write to its disk, in its words.
    #[error("{}", text!("store-reason-cannot-write", words = .0))]
    CannotWrite(String),
    /// A packet is too large for the server, in its words.
    #[error("{}", text!("store-reason-packet-too-large", words = .0))]
    PacketTooLarge(String),
    /// The server logs statements instead of rows.
    #[error("{}", Label("store-reason-statement-binlog"))]
    StatementBinlog,
    /// This process paused for too long within a transaction.
    #[error("{}", Label("store-reason-paused-in-transaction"))]
    PausedInTransaction,
    /// The server speaks another protocol than that database, in the words of the library.
    #[error("{}", text!("store-reason-other-protocol", database = .0, words = .1))]
    OtherProtocol(Cow<'static, str>, String),
    /// A number is beyond what a row can hold.
    #[error("{}", text!("store-reason-too-large", number = .0.to_string()))]
    TooLarge(u64),
    /// A row of that table and number holds what no version writes.
    #[error("{}", text!("store-reason-damaged", table = .0, number = .1.to_string()))]
    Damaged(Cow<'static, str>, i64),
    /// The ID belongs to another order.
    #[error("{}", text!("store-reason-id-taken", order = .0.to_string()))]
    IdTaken(i64),
    /// An order has a status that no version writes.
    #[error("{}", text!("store-reason-unknown-status", status = .0.to_string()))]
    UnknownStatus(i64),
    /// The order was not written, and no row says why.
    #[error("{}", text!("store-reason-not-written", order = .0.to_string()))]
    NotWritten(i64),
    /// The database gave no number for a new voucher.
    #[error("{}", Label("store-reason-no-number"))]
    NoNumber,
    /// A drill made it fail.
    #[error("{}", Label("store-reason-drill"))]
    Drill,
    /// Another error of the store.
    #[error("{0}")]
    Failed(Box<StoreError>),
    /// An error of the operating system.
    #[error("{0}")]
    Os(OsError),
    /// What the server or the library said.
    #[error("{0}")]
    Quoted(String),
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
