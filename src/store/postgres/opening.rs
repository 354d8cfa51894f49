//! From a URL to an open store on PostgreSQL: the server, its version, the schema, each refused in words.

use std::sync::{Arc, atomic::AtomicBool};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres,
    postgres::{PgConnectOptions, PgSslMode},
};
use tokio::time::timeout;
use url::Url;

use super::{
    super::{
        POSTGRES_PARAMETERS, SchemaFault, Settings, StoreError, UrlFault,
        migrations::POSTGRES,
        schema,
        session::{Dialect, Fault, Sessions, prepare},
        settings::Tls,
    },
    PostgresStore,
};

/// The oldest server that is known to do, as it numbers itself.
const OLDEST: i32 = 120_000;

impl PostgresStore {
    /// Opens the database that `url` names, and brings its schema up to date.
    pub(crate) async fn open(url: &Url, settings: &Settings) -> Result<Self, StoreError> {
        let options = options(url, settings)?;
        let shown = shown(&options);
        let session: Arc<[String]> = session(settings).into();
        let opening = timeout(settings.connect(), options.connect());
        let mut conn = match opening.await {
            Ok(conn) => conn.map_err(Postgres::told)?,
            Err(_) => return Err(no_answer(&shown)),
        };
        let preparing = timeout(settings.transaction(), async {
            prepare::<Postgres>(&mut conn, &session).await.map_err(Postgres::told)?;
            check_server(&mut conn).await?;
            bring_up_to_date(&mut conn, &shown).await
        });
        preparing.await.map_err(|_| no_answer(&shown))??;
        // What holds the lock; it goes with its connection, also with one that breaks.
        let _ = timeout(settings.connect(), conn.close()).await;
        let (sessions, mixed) =
            (Sessions::new(options, settings.into(), session), AtomicBool::new(false));
        Ok(Self { shown, sessions, mixed })
    }
}

fn no_answer(shown: &str) -> StoreError {
    StoreError::Away(format!("{shown} does not answer"))
}

/// Of a URL that holds what it may.
fn options(url: &Url, settings: &Settings) -> Result<PgConnectOptions, StoreError> {
    if let Some((name, _)) =
        url.query_pairs().find(|(name, _)| !POSTGRES_PARAMETERS.contains(&&**name))
    {
        return Err(UrlFault::Postgres(name.into_owned()).into());
    }
    let mut options = PgConnectOptions::from_url(url)
        .map_err(|fault| UrlFault::Unusable(fault.to_string()))?
        .application_name("seckill")
        .disable_statement_logging();
    if options.get_database().is_none_or(str::is_empty) {
        return Err(
            UrlFault::NoDatabase("postgres://USER:PASSWORD@HOST/DATABASE".to_owned()).into()
        );
    }
    if !url.query_pairs().any(|(name, _)| name == "sslmode" || name == "ssl-mode") {
        options = options.ssl_mode(match settings.tls {
            Tls::Off => PgSslMode::Disable,
            Tls::Prefer => PgSslMode::Prefer,
            Tls::Require => PgSslMode::Require,
            Tls::Verify => PgSslMode::VerifyFull,
        });
    }
    if let Some(ca) = &settings.ca {
        options = options.ssl_root_cert(ca);
    }
    Ok(options)
}

/// Where it is, without user and password.
fn shown(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(socket) => format!("postgres {database} at {}", socket.display()),
        None => format!("postgres {}:{}/{database}", options.get_host(), options.get_port()),
    }
}

/// What each connection asks for, whatever the server's defaults are.
fn session(settings: &Settings) -> Vec<String> {
    let ms = settings.statement_ms;
    vec![format!(
        "SET statement_timeout = {ms}; SET lock_timeout = {ms}; \
         SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'",
        ms * 4
    )]
}

async fn check_server(conn: &mut PgConnection) -> Result<(), StoreError> {
    let (number, version, encoding, schema): (i32, String, String, Option<String>) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::INTEGER, current_setting('server_version'), \
         current_setting('server_encoding'), current_schema()::TEXT",
    )
    .fetch_one(conn)
    .await
    .map_err(Postgres::told)?;
    if number < OLDEST {
        let (version, oldest) =
            (format!("PostgreSQL {version}"), vec![(OLDEST / 10_000).to_string()]);
        return Err(SchemaFault::OldServer { version, oldest }.into());
    }
    if encoding != "UTF8" {
        return Err(SchemaFault::Encoding(encoding).into());
    }
    if schema.is_none() {
        return Err(SchemaFault::NoSchema.into());
    }
    Ok(())
}

/// Creates or upgrades the tables, one process after the other.
async fn bring_up_to_date(conn: &mut PgConnection, shown: &str) -> Result<(), StoreError> {
    let told = Postgres::told;
    // Any number that others are unlikely to use; it is this database's own. The session ends it.
    sqlx::query("SELECT pg_advisory_lock(hashtextextended('seckill schema', 0))")
        .execute(&mut *conn)
        .await
        .map_err(told)?;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT tablename::TEXT FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(told)?;
    if schema::is_ours(shown, &tables)? {
        let version: Option<i64> = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations")
            .fetch_one(&mut *conn)
            .await
            .map_err(told)?;
        schema::check_version(&POSTGRES, version)?;
    }
    let done = POSTGRES.run_direct(None, conn, false).await;
    done.map_err(|fault| schema::fault(&POSTGRES, fault).unwrap_or_else(told))
}

/// What decides on a power loss.
pub(super) async fn durability(conn: &mut PgConnection) -> Result<Vec<(String, String)>, Fault> {
    let mut settings = Vec::new();
    for name in ["fsync", "synchronous_commit", "full_page_writes", "wal_level"] {
        let sql = format!("SHOW {name}");
        let value: String = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *conn).await?;
        settings.push((name.to_owned(), value));
    }
    Ok(settings)
}
