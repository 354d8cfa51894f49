//! Opens a store from a database URL; rejects unknown schemes.
//!
//! A URL may contain a password, so messages quote only its scheme.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use percent_encoding::percent_decode_str;
use seckill_model::{Label, reason};
use sqlx::{MySql, Postgres, migrate::Migrator};
use url::{ParseError, Url};

use crate::{
    Result, Settings, SharedStore, Store, StoreError,
    schema::{self, State},
    server, sqlite,
    store::Database,
};

/// The forms of a URL.
const FORMS: Label = Label("store-url-forms");

/// Database named by a URL.
#[derive(Debug)]
pub(super) enum Place {
    Sqlite(PathBuf),
    Mysql(Url),
    Postgres(Url),
}

/// Name of the setting that names the deployment of a database. Redis has the same name.
pub const DEPLOYMENT: &str = "deployment";

/// What may be opened, and what may be changed for it.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Nothing is created or upgraded: the user may lack the right to write.
    pub read_only: bool,
    /// The deployment of the database.
    pub expected: Expected,
}

/// The deployment that a database has to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any, also a new one.
    #[default]
    Any,
    /// That with this name.
    Named(String),
    /// Unknown which one: a database is opened only if nothing has to be created or upgraded.
    Unknown,
}

impl Opening {
    /// Checks a database before anything is changed in it; returns whether its schema has to be created or upgraded.
    /// `name` is that of its deployment.
    pub(super) fn needs_upgrade(
        &self,
        migrator: &Migrator,
        shown: &str,
        state: State,
        name: Option<&str>,
    ) -> Result<bool> {
        let is_whole = state == State::Current && name.is_some();
        match &self.expected {
            Expected::Named(expected) if name != Some(expected) => {
                return Err(StoreError::Foreign(shown.to_owned()));
            }
            Expected::Unknown if !is_whole => return Err(StoreError::Unbound(shown.to_owned())),
            _ => {}
        }
        match state {
            State::Current => Ok(false),
            State::Missing | State::Older(_) if !self.read_only => Ok(true),
            State::Missing => {
                Err(StoreError::Schema(reason!("store-schema-missing", database = shown)))
            }
            State::Older(version) => Err(schema::older(migrator, version)),
        }
    }
}

/// Opens the store at `url`, creates what is missing and upgrades its schema, whatever its deployment.
///
/// `sqlite:PATH` and `sqlite://PATH` name a file, with `%XX` for a byte. `mysql:`, `mariadb:`, `postgres:` and
/// `postgresql:` name an existing database on a server.
pub async fn open(url: &str, settings: &Settings) -> Result<SharedStore> {
    open_as(url, settings, &Opening::default()).await
}

/// Opens the store at `url`, if it may be opened.
///
/// # Errors
/// [`StoreError::Foreign`] and [`StoreError::Unbound`], before anything is changed.
pub async fn open_as(url: &str, settings: &Settings, opening: &Opening) -> Result<SharedStore> {
    let ((shown, sessions), file) = match place(url)? {
        Place::Sqlite(path) => {
            let (shown, sessions, file) = sqlite::open(&path, settings, opening).await?;
            ((shown, sessions), Some(file))
        }
        Place::Mysql(url) => (server::open::<MySql>(&url, settings, opening).await?, None),
        Place::Postgres(url) => (server::open::<Postgres>(&url, settings, opening).await?, None),
    };
    let database = Database { shown, sessions, file, mixed: AtomicBool::new(false) };
    Ok(Arc::new(Store { database: Ok(Arc::new(database)), faults: None }))
}

/// Checks a URL without connecting to its server.
pub fn check_url(url: &str, settings: &Settings) -> Result<()> {
    match place(url)? {
        Place::Sqlite(_) => Ok(()),
        Place::Mysql(url) => server::options::<MySql>(&url, settings).map(drop),
        Place::Postgres(url) => server::options::<Postgres>(&url, settings).map(drop),
    }
}

/// The file named by `url`, if it names one.
pub fn file_of(url: &str) -> Option<PathBuf> {
    match place(url) {
        Ok(Place::Sqlite(path)) => Some(path),
        _ => None,
    }
}

pub(super) fn place(url: &str) -> Result<Place> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(StoreError::Url(reason!("store-url-no-scheme", forms = FORMS)));
    };
    match scheme {
        "sqlite" => Ok(Place::Sqlite(sqlite_path(rest)?)),
        "mysql" | "mariadb" => Ok(Place::Mysql(server_url(url)?)),
        "postgres" | "postgresql" => Ok(Place::Postgres(server_url(url)?)),
        _ => Err(StoreError::Url(reason!("store-url-scheme", forms = FORMS))),
    }
}

fn server_url(url: &str) -> Result<Url> {
    let unreadable =
        |why: ParseError| reason!("store-url-unreadable", reason = why.to_string(), forms = FORMS);
    let parsed = Url::parse(url).map_err(|why| StoreError::Url(unreadable(why)))?;
    // Without slashes the parser takes it as a path and silently drops the host.
    if parsed.cannot_be_a_base() {
        return Err(StoreError::Url(reason!("store-url-no-host", forms = FORMS)));
    }
    Ok(parsed)
}

fn sqlite_path(rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.starts_with(":memory:") {
        return Err(StoreError::Url(reason!("store-url-memory", forms = FORMS)));
    }
    if path.contains('?') {
        return Err(StoreError::Url(reason!("store-url-parameters", forms = FORMS)));
    }
    if path.is_empty() {
        return Err(StoreError::Url(reason!("store-url-no-file", forms = FORMS)));
    }
    Ok(PathBuf::from(OsString::from_vec(percent_decode_str(path).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_file() {
        for (url, path) in [
            ("sqlite:a/b.db", "a/b.db"),
            ("sqlite://a/b.db", "a/b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite:/a/100%.db", "/a/100%.db"),
            ("sqlite:/a/%3F%25%e7%81%ab.db", "/a/?%火.db"),
        ] {
            let Ok(Place::Sqlite(found)) = place(url) else { panic!("{url}") };
            assert_eq!(found, PathBuf::from(path), "{url}");
        }
    }

    #[test]
    fn errors_contain_no_secrets() {
        for url in [
            "mysql://root:hunter2@db:port/x",
            "postgres:u:hunter2@db/x",
            "mssql://root:hunter2@db/x",
            "hunter2",
            "x-hunter2://y",
            "sqlite:a.db?key=hunter2",
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://:memory:",
            "",
        ] {
            let error = place(url).unwrap_err().to_string();
            assert!(error.contains("sqlite:PATH") && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
