//! Opens a store on a server: checks the server, its version and its schema, each with a specific error.

use std::sync::Arc;

use sqlx::{
    ConnectOptions as _, Connection, SqlStr,
    migrate::{Migrate, Migrator},
};
use tokio::time::timeout;
use url::Url;

use super::{
    super::{
        Reason, Settings, StoreError,
        dialect::Dialect,
        schema,
        session::{Sessions, prepare},
    },
    ServerBackend, ServerStore,
};

type Options<D> = <<D as sqlx::Database>::Connection as Connection>::Options;

/// Opening a database on a server.
pub(crate) trait Server: Dialect<Connection: Migrate> {
    /// Selects the names of the tables.
    const TABLES: &'static str;
    /// An interrupted migration is not rolled back but repeated; each of its statements can be repeated.
    const MIGRATIONS_REPEAT: bool = false;

    /// Parses a URL.
    fn options(url: &Url, settings: &Settings) -> Result<Options<Self>, StoreError>;

    /// The database and its server, without credentials.
    fn shown(options: &Options<Self>) -> String;

    /// Session settings of each connection, independent of the server's defaults.
    fn session(settings: &Settings) -> Vec<String>;

    /// The migrations of this database.
    fn migrator() -> &'static Migrator;

    /// Rejects an unsupported server.
    fn check(conn: &mut Self::Connection) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Waits for other processes that change the schema. Closing the connection unlocks it.
    fn lock_schema(
        conn: &mut Self::Connection,
        settings: &Settings,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Most IDs or rows per statement.
    fn page(conn: &mut Self::Connection) -> impl Future<Output = Result<usize, StoreError>> + Send;
}

impl<D: Server> ServerStore<D> {
    /// Opens the database at `url` and upgrades its schema.
    pub(crate) async fn open(url: &Url, settings: &Settings) -> Result<Self, StoreError> {
        let options = D::options(url, settings)?;
        let shown = D::shown(&options);
        let no_answer = |_| StoreError::Away(Reason::Unreachable(shown.clone()));
        let session: Arc<[String]> = D::session(settings).into();
        let connecting = timeout(settings.connect(), options.connect());
        let mut conn = connecting.await.map_err(no_answer)?.map_err(D::store_error)?;
        let preparing = timeout(settings.transaction(), async {
            prepare::<D>(&mut conn, &session).await.map_err(D::store_error)?;
            D::check(&mut conn).await?;
            bring_up_to_date::<D>(&mut conn, settings, &shown).await?;
            D::page(&mut conn).await
        });
        let page = preparing.await.map_err(no_answer)??;
        // It holds the lock, which ends with the connection even if that breaks.
        let _ = timeout(settings.connect(), conn.close()).await;
        let sessions = Sessions::new(options, settings.into(), session);
        Ok(Self::new(ServerBackend { shown, sessions, page }))
    }
}

/// Creates or upgrades the tables, one process at a time.
async fn bring_up_to_date<D: Server>(
    conn: &mut D::Connection,
    settings: &Settings,
    shown: &str,
) -> Result<(), StoreError> {
    D::lock_schema(conn, settings).await?;
    let tables = D::fetch(conn, SqlStr::from_static(D::TABLES), Default::default());
    let tables: Vec<(String,)> = tables.await.map_err(D::store_error)?;
    let tables: Vec<String> = tables.into_iter().map(|(table,)| table).collect();
    if schema::is_ours(shown, &tables)? {
        let newest = SqlStr::from_static("SELECT MAX(version) FROM _sqlx_migrations");
        let newest: Vec<(Option<i64>,)> =
            D::fetch(conn, newest, Default::default()).await.map_err(D::store_error)?;
        schema::check_version(D::migrator(), newest.first().and_then(|(version,)| *version))?;
        if D::MIGRATIONS_REPEAT {
            let unfinished = "DELETE FROM _sqlx_migrations WHERE success = FALSE";
            D::run(conn, SqlStr::from_static(unfinished)).await.map_err(D::store_error)?;
        }
    }
    let done = D::migrator().run_direct(None, conn, false).await;
    done.map_err(|fault| schema::fault(D::migrator(), fault).unwrap_or_else(D::store_error))
}
