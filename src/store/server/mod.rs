//! MySQL, MariaDB and PostgreSQL: concurrent writers, each transaction holding the locks of its sales.
//!
//! Checks the server, its version and its schema when it opens a database, each with a specific error. This module
//! has what they share, and `mysql` and `postgres` their URLs, versions and sessions; error codes and SQL are those of
//! the [`Dialect`].

mod mysql;
mod postgres;

use std::{sync::Arc, time::Duration};

use seckill_model::{Label, reason};
use sqlx::{
    ConnectOptions as _, Connection, Database as Driver, Executor,
    migrate::{Migrate, Migrator},
    pool::PoolOptions,
};
use tokio::time::timeout;
use url::Url;

use crate::{
    Dialect, Fault, Result, Sessions, Settings, StoreError, connection::Pool, schema,
    session::prepare,
};

/// Bound on an upgrade of the schema of a database that has orders.
const UPGRADE: Duration = Duration::from_hours(1);
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

    /// The database that a URL names.
    fn database(options: &Options<Self>) -> Option<&str>;

    /// The database and its server, without credentials.
    fn shown(options: &Options<Self>) -> String;

    /// Session settings of each connection, independent of the server's defaults.
    fn session(settings: &Settings) -> Vec<String>;

    /// The migrations of this database.
    fn migrator() -> &'static Migrator;

    /// Rejects an unsupported server; returns the maximum number of IDs or rows per statement.
    fn check(conn: &mut Self::Connection) -> impl Future<Output = Result<usize, Fault>> + Send;

    /// Waits for other processes that change the schema, and returns the names of the tables. Closing the connection
    /// unlocks it.
    fn lock_schema(
        conn: &mut Self::Connection,
        settings: &Settings,
    ) -> impl Future<Output = Result<Vec<String>, Fault>> + Send;
}

/// Opens the database at `url` and upgrades its schema. Returns its name and the connections.
pub(super) async fn open<D: Server>(url: &Url, settings: &Settings) -> Result<(String, Sessions)>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let options = options::<D>(url, settings)?;
    let shown = D::shown(&options);
    let session: Arc<[String]> = D::session(settings).into();
    let mut tries = 1;
    let page = loop {
        match upgrade::<D>(&options, settings, &shown, &session).await {
            Ok(page) => break page,
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
    let sessions = Sessions::new(D::POOL, pool, options, settings.transaction(), session, page);
    Ok((shown, sessions))
}

/// Checks the server and upgrades the schema, with a connection of its own; returns the maximum number of IDs or rows per
/// statement.
async fn upgrade<D: Server>(
    options: &Options<D>,
    settings: &Settings,
    shown: &str,
    session: &[String],
) -> Result<usize, Fault>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let no_answer = |_| StoreError::Away(reason!("store-reason-unreachable", server = shown));
    let mut conn = timeout(settings.connect(), options.connect()).await.map_err(no_answer)??;
    let preparing = timeout(settings.transaction(), async {
        prepare::<D>(&mut conn, session).await?;
        let page = D::check(&mut conn).await?;
        let is_upgrade = examine_schema::<D>(&mut conn, settings, shown).await?;
        Ok::<_, Fault>((page, is_upgrade))
    });
    let (page, is_upgrade) = preparing.await.map_err(no_answer)??;
    // Rows of all orders may have to be rewritten; the statements of such a migration lift their own limit.
    let within = if is_upgrade { UPGRADE } else { settings.transaction() };
    let migrated = timeout(within, D::migrator().run_direct(None, &mut conn, false)).await;
    let migrated =
        migrated.map_err(no_answer)?.map_err(|error| schema::fault(D::migrator(), error));
    // It holds the lock, which ends with the connection even if that breaks.
    let _ = timeout(settings.connect(), conn.close()).await;
    migrated.map(|()| page)
}

/// Waits until no other process creates or upgrades the tables, and prepares that; returns whether there are tables, which
/// may have to be upgraded.
async fn examine_schema<D: Server>(
    conn: &mut D::Connection,
    settings: &Settings,
    shown: &str,
) -> Result<bool, Fault>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let migrator = D::migrator();
    let tables = D::lock_schema(conn, settings).await?;
    if schema::applied(conn, migrator, shown, &tables).await?.is_none() {
        return Ok(false);
    }
    if D::MIGRATIONS_REPEAT {
        let unfinished = "DELETE FROM _sqlx_migrations WHERE success = FALSE".to_owned();
        prepare::<D>(conn, &[unfinished]).await?;
    }
    let applied = schema::applied(conn, migrator, shown, &tables).await?;
    Ok(applied.is_some_and(|applied| applied.len() < migrator.iter().count()))
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
    if let Some(ca) = &settings.ca {
        let not_utf8 = || reason!("store-ca-not-utf8", path = ca.as_path());
        let path = ca.to_str().ok_or_else(|| StoreError::Url(not_utf8()))?;
        url.query_pairs_mut().append_pair(D::CA, path);
    }
    let options = Options::<D>::from_url(&url).map_err(|error| D::DIALECT.store_error(error))?;
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
