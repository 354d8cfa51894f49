//! Why a configured database can't be used, as data: its URL, its file, its schema.
//!
//! A URL may hold a password, so nothing here repeats more of it than a parameter's name.

use serde::{Deserialize, Serialize};

/// How a database URL looks.
pub const FORMS: &str =
    "sqlite:PATH, mysql://USER:PASSWORD@HOST/DATABASE or postgres://USER:PASSWORD@HOST/DATABASE";

/// Parameters that a URL of MySQL takes.
pub const MYSQL_PARAMETERS: &[&str] =
    &["socket", "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key"];
/// The same of PostgreSQL.
pub const POSTGRES_PARAMETERS: &[&str] = &[
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
    #[error("the database URL has no scheme; write {FORMS}")]
    NoScheme,
    /// It is of no kind that is known.
    #[error("the database URL has a scheme unknown here; write {FORMS}")]
    Scheme,
    /// It is cut up in another way, in the words of the library.
    #[error("the database URL is not understood ({0}); write {FORMS}")]
    Unreadable(String),
    /// A path where a host should be.
    #[error("the database URL names no host; write {FORMS}")]
    NoHost,
    /// A database in memory.
    #[error(
        "sqlite::memory: can't be used, because several connections share the database; write {FORMS}"
    )]
    Memory,
    /// A file with parameters.
    #[error(
        "a SQLite URL takes no parameters here (write %3F for a '?' in a file name); write {FORMS}"
    )]
    Parameters,
    /// No path.
    #[error("the database URL names no file; write {FORMS}")]
    NoFile,
    /// A parameter that MySQL does not take.
    #[error(
        "the database URL has the unknown parameter '{0}'; a MySQL URL takes {known}",
        known = MYSQL_PARAMETERS.join(", ")
    )]
    Mysql(String),
    /// A parameter that PostgreSQL does not take.
    #[error(
        "the database URL has the unknown parameter '{0}'; a PostgreSQL URL takes {known}",
        known = POSTGRES_PARAMETERS.join(", ")
    )]
    Postgres(String),
    /// No database on a server, whose URLs look like that.
    #[error("the database URL names no database; write {0}")]
    NoDatabase(String),
    /// Something else, in the words of the library.
    #[error("the database URL can't be used ({0}); correct it")]
    Unusable(String),
}

/// Why a file can't be the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFault {
    /// Its name is no text.
    #[error("{0} is not UTF-8, as SQLite needs; give another --database")]
    NotUtf8(String),
    /// What should hold it is something else.
    #[error("{0} is not a directory; give another --database")]
    NotADirectory(String),
    /// What should hold it is not there.
    #[error("the directory {0} does not exist; create it, or give another --database")]
    NoDirectory(String),
    /// What should hold it is closed, in the words of the system.
    #[error("{0} can't be entered ({1}); give another --database")]
    Closed(String, String),
    /// A directory or something else has its name.
    #[error("{0} is not a file; give the path of one as --database")]
    NotAFile(String),
    /// It can't be looked at, in the words of the system.
    #[error("{0} can't be read ({1}); give another --database")]
    Unreadable(String, String),
    /// Its file system takes no writes.
    #[error("{0} is on a read-only file system; change that, or give another --database")]
    ReadOnlySystem(String),
    /// This user may not write it.
    #[error("{0} may not be written by this user; change that, or give another --database")]
    Denied(String),
    /// It can't be used, in the words of the system.
    #[error("{0}: {1}; give another --database")]
    Unusable(String, String),
    /// It is no database.
    #[error("{0} is no SQLite database, or a damaged one; give another --database")]
    NoDatabase(String),
    /// SQLite can't open it.
    #[error("{0} can't be opened as a database; check its directory, or give another --database")]
    CantOpen(String),
    /// SQLite can't write it.
    #[error("{0} is read-only; make it and its directory writable, or give another --database")]
    ReadOnly(String),
    /// It was removed while it was in use.
    #[error(
        "{0} was removed while it was in use: what is written now is lost when this process ends; end all seckill processes, put a backup in its place, and start again"
    )]
    Removed(String),
    /// Another file took its place while it was in use.
    #[error(
        "{0} was replaced while it was in use: what is written now does not reach the new file; end all seckill processes and start again"
    )]
    Replaced(String),
    /// It broke in use, in the words of SQLite.
    #[error("the database file is damaged ({0}); put a backup in its place")]
    Damaged(String),
    /// Another program keeps these tables there, also on a server.
    #[error("{0} holds tables of another program ({1}); give another --database")]
    Foreign(String, String),
}

/// Why the schema of a database does not do, or its server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaFault {
    /// That of a newer build than this one, which knows the second version.
    #[error(
        "this database has schema version {0}, made by a newer seckill; this one knows {1}: upgrade seckill, or give another --database"
    )]
    Newer(i64, i64),
    /// Another one under the same version.
    #[error(
        "this database has another schema version {0} than this seckill; use the seckill that made it, or give another --database"
    )]
    Other(i64),
    /// A migration was cut short.
    #[error(
        "schema version {0} of this database was left half done; put a backup in its place, or give another --database"
    )]
    HalfDone(i64),
    /// It can't be migrated, in the words of the library.
    #[error(
        "the schema of this database can't be brought up to date ({0}); give another --database"
    )]
    Stuck(String),
    /// Something of it is gone, in the words of the server.
    #[error("the schema was changed by somebody else: {0}; put it back, and it goes on")]
    Changed(String),
    /// The server is too old.
    #[error("the server is {version}; {} is the oldest that does", .oldest.join(" or "))]
    OldServer {
        /// What it says of itself.
        version: String,
        /// The oldest ones that do.
        oldest: Vec<String>,
    },
    /// Texts are kept in that encoding.
    #[error("the database keeps its texts as {0}; create one with ENCODING 'UTF8'")]
    Encoding(String),
    /// No schema to put tables into.
    #[error(
        "the search_path of this user names no schema that is there; create it, or set another"
    )]
    NoSchema,
}
