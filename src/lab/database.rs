//! The databases that the lab starts.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// A database on which designs run. Statements are the same on each.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Database {
    /// A file.
    Sqlite,
    /// A server.
    Mariadb,
    /// A server.
    Mysql,
    /// A server.
    Postgres,
}

impl Database {
    /// The names on the command line.
    pub const NAMES: &[&str] = <Self as VariantNames>::VARIANTS;

    /// Its name as a title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Mariadb => "MariaDB",
            Self::Mysql => "MySQL",
            Self::Postgres => "PostgreSQL",
        }
    }
}
