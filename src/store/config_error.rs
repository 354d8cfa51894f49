//! Why a configured database cannot be used, as data: its URL, its file, its schema.
//!
//! A URL may hold a password, so only the names of its parameters are quoted.

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

/// Parameters of MySQL URLs.
pub(crate) const MYSQL_PARAMETERS: &[&str] =
    &["socket", "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key"];
/// Parameters of PostgreSQL URLs.
pub(crate) const POSTGRES_PARAMETERS: &[&str] = &[
    "host",
    "port",
    "user",
    "password",
    "dbname",
    "options",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];

/// Why a database URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlError {
    /// No scheme.
    #[error("{}", text!("store-url-no-scheme", forms = Label("store-url-forms")))]
    NoScheme,
    /// Unknown scheme.
    #[error("{}", text!("store-url-scheme", forms = Label("store-url-forms")))]
    Scheme,
    /// Malformed; message of the library.
    #[error("{}", text!("store-url-unreadable", reason = .0, forms = Label("store-url-forms")))]
    Unreadable(String),
    /// A path where a host should be.
    #[error("{}", text!("store-url-no-host", forms = Label("store-url-forms")))]
    NoHost,
    /// An in-memory database.
    #[error("{}", text!("store-url-memory", forms = Label("store-url-forms")))]
    Memory,
    /// A file URL with parameters.
    #[error("{}", text!("store-url-parameters", forms = Label("store-url-forms")))]
    Parameters,
    /// No path.
    #[error("{}", text!("store-url-no-file", forms = Label("store-url-forms")))]
    NoFile,
    /// A parameter unknown to MySQL.
    #[error("{}", text!("store-url-mysql", name = .0, known = MYSQL_PARAMETERS.join(&Label("common-value"))))]
    Mysql(String),
    /// A parameter unknown to PostgreSQL.
    #[error("{}", text!("store-url-postgres", name = .0, known = POSTGRES_PARAMETERS.join(&Label("common-value"))))]
    Postgres(String),
    /// No database name; an example of a valid URL.
    #[error("{}", text!("store-url-no-database", form = .0))]
    NoDatabase(String),
    /// Any other error; message of the library.
    #[error("{}", text!("store-url-unusable", reason = .0))]
    Unusable(String),
}

/// Why a file cannot be the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFault {
    /// Its path is not UTF-8.
    #[error("{}", text!("store-is-not-utf-which-sqlite", path = .0))]
    NotUtf8(String),
    /// Its parent is not a directory.
    #[error("{}", text!("store-is-not-directory-give-another", path = .0))]
    NotADirectory(String),
    /// Its parent directory does not exist.
    #[error("{}", text!("store-directory-does-not-exist-create", path = .0))]
    NoDirectory(String),
    /// Its parent directory is not accessible; message of the operating system.
    #[error("{}", text!("store-file-closed", path = .0, reason = .1))]
    Closed(String, OsError),
    /// The path is not a regular file.
    #[error("{}", text!("store-file-not-a-file", path = .0))]
    NotAFile(String),
    /// It cannot be examined; message of the operating system.
    #[error("{}", text!("store-file-unreadable", path = .0, reason = .1))]
    Unreadable(String, OsError),
    /// Its file system is read-only.
    #[error("{}", text!("store-file-read-only-system", path = .0))]
    ReadOnlySystem(String),
    /// No write permission.
    #[error("{}", text!("store-file-denied", path = .0))]
    Denied(String),
    /// Any other error; message of the operating system.
    #[error("{}", text!("store-file-unusable", path = .0, reason = .1))]
    Unusable(String, OsError),
    /// It is not a database.
    #[error("{}", text!("store-is-not-sqlite-database", path = .0))]
    NoDatabase(String),
    /// SQLite cannot open it.
    #[error("{}", text!("store-cannot-be-opened-as-database", path = .0))]
    CantOpen(String),
    /// SQLite cannot write it.
    #[error("{}", text!("store-file-read-only", path = .0))]
    ReadOnly(String),
    /// It was removed while in use.
    #[error("{}", text!("store-file-removed", path = .0))]
    Removed(String),
    /// It was replaced while in use.
    #[error("{}", text!("store-file-replaced", path = .0))]
    Replaced(String),
    /// It became corrupt while in use; message of SQLite.
    #[error("{}", text!("store-file-damaged", reason = .0))]
    Damaged(String),
    /// Another program keeps its tables there, also on a server.
    #[error("{}", text!("store-file-foreign", path = .0, tables = .1))]
    Foreign(String, String),
}

/// Why the schema or the server of a database is unsuitable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaFault {
    /// The schema of a newer build; the second version is that of this build.
    #[error("{}", text!("store-schema-newer", version = .0, known = .1))]
    Newer(i64, i64),
    /// Another schema with the same version.
    #[error("{}", text!("store-schema-other", version = .0))]
    Other(i64),
    /// A migration was interrupted.
    #[error("{}", text!("store-schema-half-done", version = .0))]
    HalfDone(i64),
    /// It cannot be migrated; message of the library.
    #[error("{}", text!("store-schema-stuck", reason = .0))]
    Stuck(String),
    /// A part of it is missing; message of the server.
    #[error("{}", text!("store-schema-changed", reason = .0))]
    Changed(String),
    /// The server is too old.
    #[error(
        "{}",
        text!("store-schema-old-server", version = .version, oldest = .oldest.join(" / "))
    )]
    OldServer {
        /// Its reported version.
        version: String,
        /// The oldest supported versions.
        oldest: Vec<String>,
    },
    /// Unsupported text encoding.
    #[error("{}", text!("store-schema-encoding", encoding = .0))]
    Encoding(String),
    /// No schema to create tables in.
    #[error("{}", Label("store-schema-no-schema"))]
    NoSchema,
}
