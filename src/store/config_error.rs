//! Why a configured database can't be used, as data: its URL, its file, its schema.
//!
//! A URL may hold a password, so nothing here repeats more of it than a parameter's name.

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

/// Parameters that a URL of MySQL takes.
pub(crate) const MYSQL_PARAMETERS: &[&str] =
    &["socket", "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key"];
/// The same of PostgreSQL.
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

/// Why a URL of a database can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlFault {
    /// Nothing says of which kind it is.
    #[error("{}", text!("store-url-no-scheme", forms = Label("store-url-forms")))]
    NoScheme,
    /// It is of no kind that is known.
    #[error("{}", text!("store-url-scheme", forms = Label("store-url-forms")))]
    Scheme,
    /// It is cut up in another way, in the words of the library.
    #[error("{}", text!("store-url-unreadable", reason = .0, forms = Label("store-url-forms")))]
    Unreadable(String),
    /// A path where a host should be.
    #[error("{}", text!("store-url-no-host", forms = Label("store-url-forms")))]
    NoHost,
    /// A database in memory.
    #[error("{}", text!("store-url-memory", forms = Label("store-url-forms")))]
    Memory,
    /// A file with parameters.
    #[error("{}", text!("store-url-parameters", forms = Label("store-url-forms")))]
    Parameters,
    /// No path.
    #[error("{}", text!("store-url-no-file", forms = Label("store-url-forms")))]
    NoFile,
    /// A parameter that MySQL does not take.
    #[error("{}", text!("store-url-mysql", name = .0, known = MYSQL_PARAMETERS.join(&Label("common-value"))))]
    Mysql(String),
    /// A parameter that PostgreSQL does not take.
    #[error("{}", text!("store-url-postgres", name = .0, known = POSTGRES_PARAMETERS.join(&Label("common-value"))))]
    Postgres(String),
    /// No database on a server, whose URLs look like that.
    #[error("{}", text!("store-url-no-database", form = .0))]
    NoDatabase(String),
    /// Something else, in the words of the library.
    #[error("{}", text!("store-url-unusable", reason = .0))]
    Unusable(String),
}

/// Why a file can't be the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFault {
    /// Its name is no text.
    #[error("{}", text!("store-file-not-utf-8", path = .0))]
    NotUtf8(String),
    /// What should hold it is something else.
    #[error("{}", text!("store-file-not-a-directory", path = .0))]
    NotADirectory(String),
    /// What should hold it is not there.
    #[error("{}", text!("store-file-no-directory", path = .0))]
    NoDirectory(String),
    /// What should hold it is closed, in the words of the system.
    #[error("{}", text!("store-file-closed", path = .0, reason = .1))]
    Closed(String, OsError),
    /// A directory or something else has its name.
    #[error("{}", text!("store-file-not-a-file", path = .0))]
    NotAFile(String),
    /// It can't be looked at, in the words of the system.
    #[error("{}", text!("store-file-unreadable", path = .0, reason = .1))]
    Unreadable(String, OsError),
    /// Its file system takes no writes.
    #[error("{}", text!("store-file-read-only-system", path = .0))]
    ReadOnlySystem(String),
    /// This user may not write it.
    #[error("{}", text!("store-file-denied", path = .0))]
    Denied(String),
    /// It can't be used, in the words of the system.
    #[error("{}", text!("store-file-unusable", path = .0, reason = .1))]
    Unusable(String, OsError),
    /// It is no database.
    #[error("{}", text!("store-file-no-database", path = .0))]
    NoDatabase(String),
    /// SQLite can't open it.
    #[error("{}", text!("store-file-cannot-open", path = .0))]
    CantOpen(String),
    /// SQLite can't write it.
    #[error("{}", text!("store-file-read-only", path = .0))]
    ReadOnly(String),
    /// It was removed while it was in use.
    #[error("{}", text!("store-file-removed", path = .0))]
    Removed(String),
    /// Another file took its place while it was in use.
    #[error("{}", text!("store-file-replaced", path = .0))]
    Replaced(String),
    /// It broke in use, in the words of SQLite.
    #[error("{}", text!("store-file-damaged", reason = .0))]
    Damaged(String),
    /// Another program keeps these tables there, also on a server.
    #[error("{}", text!("store-file-foreign", path = .0, tables = .1))]
    Foreign(String, String),
}

/// Why the schema of a database does not do, or its server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaFault {
    /// That of a newer build than this one, which knows the second version.
    #[error("{}", text!("store-schema-newer", version = .0, known = .1))]
    Newer(i64, i64),
    /// Another one under the same version.
    #[error("{}", text!("store-schema-other", version = .0))]
    Other(i64),
    /// A migration was cut short.
    #[error("{}", text!("store-schema-half-done", version = .0))]
    HalfDone(i64),
    /// It can't be migrated, in the words of the library.
    #[error("{}", text!("store-schema-stuck", reason = .0))]
    Stuck(String),
    /// Something of it is gone, in the words of the server.
    #[error("{}", text!("store-schema-changed", reason = .0))]
    Changed(String),
    /// The server is too old.
    #[error(
        "{}",
        text!("store-schema-old-server", version = .version, oldest = .oldest.join(" / "))
    )]
    OldServer {
        /// What it says of itself.
        version: String,
        /// The oldest ones that do.
        oldest: Vec<String>,
    },
    /// Texts are kept in that encoding.
    #[error("{}", text!("store-schema-encoding", encoding = .0))]
    Encoding(String),
    /// No schema to put tables into.
    #[error("{}", Label("store-schema-no-schema"))]
    NoSchema,
}
