//! MySQL, MariaDB and PostgreSQL: concurrent writers, each transaction holding the locks of its sales.
//!
//! Checks the server, its version and its schema when it opens a database, each with a specific error. This module
//! has what they share, and `mysql` and `postgres` their URLs, versions and sessions; error codes and SQL are those of
//! the [`Dialect`].

mod mysql;
pub(super) mod pooler;
mod postgres;

use std::{path::Path, time::Duration};

use seckill_model::{Label, OsError, reason};
use sqlx::{
    ConnectOptions as _, Connection, Database as Driver, Executor,
    migrate::{Migrate, Migrator},
    pool::PoolOptions,
};
use tokio::time::timeout;
use url::Url;

use crate::{
    Dialect, Fault, Opening, Result, Sessions, Settings, StoreError,
    connection::Pool,
    schema::{self, State},
    session::prepare,
};

/// Bound on an upgrade of the schema of a database that has orders.
const UPGRADE: Duration = Duration::from_hours(1);
/// Bound on the creation of all tables; longer than that on a transaction of a node, for which orders wait.
const CREATE: Duration = Duration::from_secs(30);
/// Maximum number of attempts of one, if other transactions hold locks that it needs.
const UPGRADE_TRIES: u32 = 10;

type Options<D> = <<D as Driver>::Connection as Connection>::Options;

/// Opening a database on a server.
pub(super) trait Server: Driver<Connection: Migrate> {
    /// Makes it one of all drivers.
    const POOL: fn(sqlx::Pool<Self>) -> Pool;
    /// The SQL of the database.
    const DIALECT: &'static Dialect;
    /// An interrupted migration is not rolled back but repeated; each of its statements can be repeated.
    const MIGRATIONS_REPEAT: bool;

    /// The form of a URL.
    const FORM: &'static str;
    /// Parameters of a URL.
    const PARAMETERS: &'static [&'static str];
    /// The parameter of trusted certificates.
    const CA: &'static str;
    /// Parameters that a URL has unless it contains them.
    const DEFAULTS: &'static [(&'static str, &'static str)];
    /// The values of `ssl-mode`, in the order of [`Tls`](crate::Tls).
    const TLS: [&'static str; 4];

    /// Leaves out what the driver adds to a URL and some servers reject.
    fn adapt(options: Options<Self>) -> Options<Self> {
        options
    }

    /// The database that a URL names.
    fn database(options: &Options<Self>) -> Option<&str>;

    /// The database and its server, without credentials.
    fn shown(options: &Options<Self>) -> String;

    /// Session settings of each connection, independent of the server's defaults.
    fn session(settings: &Settings) -> Vec<String>;

    /// The migrations of this database.
    fn migrator() -> &'static Migrator;

    /// Opens the connection that examines the database.
    ///
    /// # Errors
    /// Also if a pooler gives each transaction another session.
    fn connect(
        options: &Options<Self>,
        settings: &Settings,
    ) -> impl Future<Output = Result<Self::Connection, Fault>> + Send;

    /// Rejects an unsupported server.
    fn check(conn: &mut Self::Connection) -> impl Future<Output = Result<Checked, Fault>> + Send;

    /// The tables of the database.
    fn tables(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<String>, Fault>> + Send;

    /// The name of the deployment, from a table that exists.
    fn deployment(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>, Fault>> + Send;

    /// Waits for other processes that change the schema. Closing the connection unlocks it.
    fn lock_schema(
        conn: &mut Self::Connection,
        settings: &Settings,
    ) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// What a supported server has.
pub(super) struct Checked {
    /// Maximum number of IDs or rows per statement.
    pub(super) page: usize,
    /// The schema of the tables, if the server has several in one database.
    pub(super) schema: Option<Schema>,
}

/// A schema within a database.
pub(super) struct Schema {
    /// Its name.
    pub(super) name: String,
    /// The statement that makes it the only one of a session: a schema that is created later hides no table.
    pub(super) pin: String,
}

/// A database whose schema is current.
struct Ready {
    page: usize,
    shown: String,
    session: Vec<String>,
}

/// Opens the database at `url` and upgrades its schema. Returns its name and the connections.
pub(super) async fn open<D: Server>(
    url: &Url,
    settings: &Settings,
    opening: &Opening,
) -> Result<(String, Sessions)>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let options = options::<D>(url, settings)?;
    let mut tries = 1;
    let Ready { page, shown, session } = loop {
        match prepare_database::<D>(&options, settings, opening).await {
            Ok(ready) => break ready,
            // Nodes of the version before may go on writing meanwhile.
            Err(Fault::Sql(error)) if D::DIALECT.is_transient(&error) && tries < UPGRADE_TRIES => {
                tries += 1;
                tracing::info!(%error, "the upgrade of the schema met other transactions; once more");
            }
            Err(fault) => return Err(fault.store_error(D::DIALECT)),
        }
    };
    let wait = Duration::from_millis(settings.acquire_ms);
    let pool = PoolOptions::new().max_connections(settings.pool).acquire_timeout(wait);
    let (limit, session) = (settings.transaction(), session.into());
    Ok((shown, Sessions::new(D::POOL, pool, options, limit, session, page)))
}

/// Checks the server and the schema, and upgrades that, with a connection of its own.
async fn prepare_database<D: Server>(
    options: &Options<D>,
    settings: &Settings,
    opening: &Opening,
) -> Result<Ready, Fault>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let (mut shown, mut session) = (D::shown(options), D::session(settings));
    let server = shown.clone();
    let no_answer = |_| StoreError::Away(reason!("store-reason-unreachable", server = &server));
    let connecting = timeout(settings.connect(), D::connect(options, settings));
    let mut conn = connecting.await.map_err(no_answer)??;
    let preparing = timeout(settings.transaction(), async {
        let Checked { page, schema } = D::check(&mut conn).await?;
        if let Some(Schema { name, pin }) = schema {
            shown = format!("{shown} schema {name}");
            session.push(pin);
        }
        prepare::<D>(&mut conn, &session).await?;
        let mut found = examine::<D>(&mut conn, opening, &shown).await?;
        if found.is_some() {
            D::lock_schema(&mut conn, settings).await?;
            // Another process may have upgraded it meanwhile.
            found = examine::<D>(&mut conn, opening, &shown).await?;
            match found.filter(|_| D::MIGRATIONS_REPEAT) {
                // The schema is ours: so is each unfinished record.
                Some(State::Older(_)) => {
                    let all = "DELETE FROM _sqlx_migrations WHERE success = FALSE".to_owned();
                    prepare::<D>(&mut conn, &[all]).await?;
                }
                Some(State::Missing) => forget_unfinished::<D>(&mut conn).await?,
                _ => {}
            }
        }
        Ok::<_, Fault>((page, found))
    });
    let (page, found) = preparing.await.map_err(no_answer)??;
    if let Some(state) = found {
        // Rows of all orders may have to be rewritten; the statements of such a migration lift their own limit.
        let within = if state == State::Missing { CREATE } else { UPGRADE };
        let migrated = timeout(within, D::migrator().run_direct(None, &mut conn, false)).await;
        let fault = |error| schema::fault(D::migrator(), D::DIALECT, error);
        migrated.map_err(no_answer)?.map_err(fault)?;
    }
    // It holds the lock, which ends with the connection even if that breaks.
    let _ = timeout(settings.connect(), conn.close()).await;
    Ok(Ready { page, shown, session })
}

/// Deletes the record of an interrupted migration, which is written before its first table, so that the migration is repeated. A
/// record with another checksum belongs to another program and is kept.
async fn forget_unfinished<D: Server>(conn: &mut D::Connection) -> Result<(), Fault>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    if !D::tables(conn).await?.iter().any(|it| it == schema::MIGRATIONS) {
        return Ok(());
    }
    let fault = |error| schema::fault(D::migrator(), D::DIALECT, error);
    let applied = conn.list_applied_migrations(schema::MIGRATIONS).await.map_err(fault)?;
    let unfinished = conn.dirty_version(schema::MIGRATIONS).await.map_err(fault)?;
    let is_own = |version: i64| {
        let own = D::migrator().iter().find(|own| own.version == version);
        let recorded = applied.iter().find(|it| it.version == version);
        own.zip(recorded).is_some_and(|(own, recorded)| own.checksum == recorded.checksum)
    };
    if let Some(version) = unfinished.filter(|it| is_own(*it)) {
        let delete = format!("DELETE FROM _sqlx_migrations WHERE version = {version}");
        prepare::<D>(conn, &[delete]).await?;
    }
    Ok(())
}

/// Returns the state of a schema that has to be upgraded, and may be.
async fn examine<D: Server>(
    conn: &mut D::Connection,
    opening: &Opening,
    shown: &str,
) -> Result<Option<State>, Fault> {
    let (migrator, tables) = (D::migrator(), D::tables(conn).await?);
    let state = schema::state(conn, migrator, D::DIALECT, shown, &tables).await?;
    let has_settings = tables.iter().any(|table| table == "tb_setting");
    let name = if has_settings { D::deployment(conn).await? } else { None };
    let is_due = opening.needs_upgrade(migrator, shown, state, name.as_deref())?;
    Ok(is_due.then_some(state))
}

/// Parses a URL, to which the settings add what it leaves open; of an unknown parameter, only the name is quoted.
pub(super) fn options<D: Server>(url: &Url, settings: &Settings) -> Result<Options<D>> {
    let mut url = url.clone();
    let find = |is: fn(&str) -> bool| url.query_pairs().map(|it| it.0).find(|name| is(name));
    if let Some(name) = find(|name| !D::PARAMETERS.contains(&name)) {
        let (name, database) = (name.into_owned(), D::DIALECT.name);
        let known = D::PARAMETERS.join(&Label("list-items"));
        return Err(StoreError::Url(reason!("store-url-parameter", name, database, known)));
    }
    if find(|name| ["ssl-mode", "sslmode"].contains(&name)).is_none() {
        url.query_pairs_mut().append_pair("ssl-mode", D::TLS[settings.tls as usize]);
    }
    for (name, value) in D::DEFAULTS {
        if !url.query_pairs().any(|it| it.0 == *name) {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    // The driver reads files only if the server offers encryption, and then connects without it where that is optional.
    let is_off = url.query_pairs().any(|it| it.0.ends_with("mode") && it.1.starts_with("disable"));
    let check_file = |name: &str, path: &Path| match std::fs::File::open(path) {
        Err(error) if !is_off => {
            Err(StoreError::Url(reason!("store-url-file", name, reason = OsError::from(error))))
        }
        _ => Ok(()),
    };
    // The value may be the text of the file, so it is not quoted; an empty one and `system` name no file.
    let is_file = |name: &str| name.starts_with("ssl") && !name.ends_with("mode");
    let is_path = |value: &str| !matches!(value, "" | "system") && !value.contains("-----");
    for (name, path) in url.query_pairs().filter(|it| is_file(&it.0) && is_path(&it.1)) {
        check_file(&name, Path::new(&*path))?;
    }
    if let Some(ca) = &settings.ca {
        let not_utf8 = || reason!("store-ca-not-utf8", path = ca.as_path());
        let path = ca.to_str().ok_or_else(|| StoreError::Url(not_utf8()))?;
        check_file("store.ca", ca)?;
        url.query_pairs_mut().append_pair(D::CA, path);
    }
    let options = Options::<D>::from_url(&url).map_err(|error| D::DIALECT.store_error(error))?;
    let options = D::adapt(options);
    if D::database(&options).is_none_or(str::is_empty) {
        return Err(StoreError::Url(reason!("store-url-no-database", form = D::FORM)));
    }
    Ok(options.disable_statement_logging())
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use sqlx::{MySql, Postgres};

    use super::*;

    #[test]
    fn a_connection_has_the_name_of_its_url_or_that_of_the_program() {
        let name = |url: &str| {
            let options = options::<Postgres>(&url.parse().unwrap(), &Settings::default());
            options.unwrap().get_application_name().map(str::to_owned)
        };
        assert_eq!(name("postgres://u@h/d").as_deref(), Some("seckill"));
        let named = "postgres://u@h/d?application_name=billing&sslmode=disable";
        assert_eq!(name(named).as_deref(), Some("billing"));
    }

    #[test]
    fn a_missing_file_of_a_url_is_rejected_without_its_value() {
        let open = |url: &str| {
            let url = url.parse::<Url>().unwrap();
            options::<MySql>(&url, &Settings::default()).map(drop)
        };
        let error = open("mysql://u@h/d?ssl-key=/no/file").unwrap_err();
        assert!(matches!(error, StoreError::Url(_)), "{error:?}");
        let error = error.to_string();
        assert!(error.contains("ssl-key") && !error.contains("/no/file"), "{error}");
        let settings = Settings { ca: Some("/no/file".into()), ..Settings::default() };
        let url = "postgres://u@h/d".parse::<Url>().unwrap();
        let error = options::<Postgres>(&url, &settings).map(drop).unwrap_err().to_string();
        assert!(error.contains("store.ca"), "{error}");
        for accepted in
            ["ssl-mode=disabled&ssl-ca=/no/file", "ssl-ca=", "ssl-key=Bag%0A-----BEGIN%20KEY"]
        {
            open(&format!("mysql://u@h/d?{accepted}")).unwrap();
        }
    }

    #[test]
    fn a_certificate_path_that_is_not_utf8_is_rejected() {
        let ca = Some(OsStr::from_bytes(b"/etc/\xff.pem").into());
        let settings = Settings { ca, ..Settings::default() };
        let url = |url: &str| url.parse::<Url>().unwrap();
        let mysql = options::<MySql>(&url("mysql://u@h/d"), &settings).map(drop);
        let postgres = options::<Postgres>(&url("postgres://u@h/d"), &settings).map(drop);
        for rejected in [mysql, postgres] {
            let error = rejected.unwrap_err();
            assert!(matches!(error, StoreError::Url(_)), "{error:?}");
            assert!(error.to_string().contains("UTF-8"), "{error}");
        }
    }
}
