//! MySQL, MariaDB and PostgreSQL: concurrent writers, each transaction holding the locks of its sales.
//!
//! Checks the server, its version and its schema when it opens a database, each with a specific error. The differences:
//! URLs and sessions (`connect`), error codes (`errors`) and SQL.

pub(super) mod mysql;
pub(super) mod postgres;

use std::{path::PathBuf, sync::Arc};

use seckill_model::{Label, reason};
use sqlx::{
    ConnectOptions as _, Connection, Database as Driver, Executor,
    migrate::{Migrate, Migrator},
    pool::PoolOptions,
};
use tokio::time::timeout;
use url::Url;

use crate::{
    Dialect, Sessions, Settings, StoreError, connection::Pool, schema, session::prepare,
    settings::Tls, store::Database,
};

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

    /// The database that a URL names.
    fn database(options: &Options<Self>) -> Option<&str>;

    /// Sets the encryption, unless the URL decides about it, and the trusted certificates.
    fn with_settings(
        options: Options<Self>,
        tls: Option<Tls>,
        ca: Option<&PathBuf>,
    ) -> Options<Self>;

    /// The database and its server, without credentials.
    fn shown(options: &Options<Self>) -> String;

    /// Session settings of each connection, independent of the server's defaults.
    fn session(settings: &Settings) -> Vec<String>;

    /// The migrations of this database.
    fn migrator() -> &'static Migrator;

    /// Rejects an unsupported server; returns the most IDs or rows per statement.
    fn check(conn: &mut Self::Connection)
    -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Waits for other processes that change the schema, and returns the names of the tables. Closing the connection
    /// unlocks it.
    fn lock_schema(
        conn: &mut Self::Connection,
        settings: &Settings,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;
}

/// Opens the database at `url` and upgrades its schema.
pub(super) async fn open<D: Server>(url: &Url, settings: &Settings) -> Result<Database, StoreError>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let options = options::<D>(url, settings)?;
    let shown = D::shown(&options);
    let store_error = |error| D::DIALECT.store_error(error);
    let no_answer =
        |_| StoreError::Away(reason!("store-reason-unreachable", server = shown.as_str()));
    let session: Arc<[String]> = D::session(settings).into();
    let connecting = timeout(settings.connect(), options.connect());
    let mut conn = connecting.await.map_err(no_answer)?.map_err(store_error)?;
    let preparing = timeout(settings.transaction(), async {
        prepare::<D>(&mut conn, &session).await.map_err(store_error)?;
        let page = D::check(&mut conn).await?;
        bring_up_to_date::<D>(&mut conn, settings, &shown).await.map(|()| page)
    });
    let page = preparing.await.map_err(no_answer)??;
    // It holds the lock, which ends with the connection even if that breaks.
    let _ = timeout(settings.connect(), conn.close()).await;
    let pool =
        PoolOptions::new().max_connections(settings.pool).acquire_timeout(settings.acquire());
    let sessions = Sessions::new(D::POOL, pool, options, settings.transaction(), session);
    Ok(Database::new(shown, page, sessions, None))
}

/// Creates or upgrades the tables, one process at a time.
async fn bring_up_to_date<D: Server>(
    conn: &mut D::Connection,
    settings: &Settings,
    shown: &str,
) -> Result<(), StoreError>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let migrator = D::migrator();
    let store_error = |error| D::DIALECT.store_error(error);
    let fault = |fault| schema::fault(migrator, fault).unwrap_or_else(store_error);
    let tables = D::lock_schema(conn, settings).await?;
    if schema::is_ours(shown, &tables)? {
        let applied = conn.list_applied_migrations(schema::MIGRATIONS).await.map_err(fault)?;
        schema::check_version(migrator, &applied)?;
        if D::MIGRATIONS_REPEAT {
            let unfinished = "DELETE FROM _sqlx_migrations WHERE success = FALSE".to_owned();
            prepare::<D>(conn, &[unfinished]).await.map_err(store_error)?;
        }
    }
    migrator.run_direct(None, conn, false).await.map_err(fault)
}

/// Parses a URL; of an unknown parameter, only the name is quoted.
pub(super) fn options<D: Server>(url: &Url, settings: &Settings) -> Result<Options<D>, StoreError> {
    let find = |is: fn(&str) -> bool| url.query_pairs().map(|it| it.0).find(|name| is(name));
    if let Some(name) = find(|name| !D::PARAMETERS.contains(&name)) {
        let (name, database) = (name.into_owned(), D::DIALECT.name);
        let known = D::PARAMETERS.join(&Label("list-items"));
        return Err(StoreError::Url(reason!("store-url-parameter", name, database, known)));
    }
    let options = Options::<D>::from_url(url).map_err(|error| D::DIALECT.store_error(error))?;
    if D::database(&options).is_none_or(str::is_empty) {
        return Err(StoreError::Url(reason!("store-url-no-database", form = D::FORM)));
    }
    let tls =
        find(|name| ["ssl-mode", "sslmode"].contains(&name)).is_none().then_some(settings.tls);
    Ok(D::with_settings(options.disable_statement_logging(), tls, settings.ca.as_ref()))
}
