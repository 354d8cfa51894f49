//! URLs of PostgreSQL, supported versions, and session settings.

use seckill_model::reason::reason;
use sqlx::{
    ConnectOptions as _, Executor as _, PgConnection, Postgres,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgSslMode},
};
use url::Url;

use super::{
    super::{
        super::{
            Settings, StoreError,
            connection::Pool,
            dialect::{Dialect, unusable_url},
            migrations,
            queries::PAGE,
            settings::Tls,
        },
        Server, check_parameters, decides_about_tls,
    },
    POSTGRES,
};

/// Parameters of URLs.
const PARAMETERS: &[&str] = &[
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

/// The oldest supported server, as `server_version_num`.
const OLDEST: i32 = 120_000;

impl Server for Postgres {
    const POOL: fn(sqlx::Pool<Self>) -> Pool = Pool::Postgres;
    const DIALECT: &'static Dialect = &POSTGRES;
    const MIGRATIONS_REPEAT: bool = false;

    fn options(url: &Url, settings: &Settings) -> Result<PgConnectOptions, StoreError> {
        check_parameters(url, PARAMETERS, |name, known| {
            reason!("store-url-postgres", name, known)
        })?;
        let mut options = PgConnectOptions::from_url(url)
            .map_err(|fault| unusable_url(&fault))?
            .application_name("seckill")
            .disable_statement_logging();
        if options.get_database().is_none_or(str::is_empty) {
            let form = "postgres://USER:PASSWORD@HOST/DATABASE";
            return Err(StoreError::Url(reason!("store-url-no-database", form)));
        }
        if !decides_about_tls(url) {
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

    fn shown(options: &PgConnectOptions) -> String {
        let database = options.get_database().unwrap_or_default();
        match options.get_socket() {
            Some(socket) => format!("postgres {database} at {}", socket.display()),
            None => format!("postgres {}:{}/{database}", options.get_host(), options.get_port()),
        }
    }

    fn session(settings: &Settings) -> Vec<String> {
        let ms = settings.statement_ms;
        vec![format!(
            "SET statement_timeout = {ms}; SET lock_timeout = {ms}; \
             SET idle_in_transaction_session_timeout = {}; \
             SET default_transaction_isolation = 'read committed'",
            ms * 4
        )]
    }

    fn migrator() -> &'static Migrator {
        &migrations::POSTGRES
    }

    async fn check(conn: &mut PgConnection) -> Result<usize, StoreError> {
        let (number, version, encoding, schema): (i32, String, String, Option<String>) = sqlx::query_as(
            "SELECT current_setting('server_version_num')::INTEGER, current_setting('server_version'), \
             current_setting('server_encoding'), current_schema()::TEXT",
        )
        .fetch_one(conn)
        .await
        .map_err(|error| POSTGRES.store_error(error))?;
        if number < OLDEST {
            let version = format!("PostgreSQL {version}");
            let oldest = (OLDEST / 10_000).to_string();
            return Err(StoreError::Schema(reason!("store-schema-old-server", version, oldest)));
        }
        if encoding != "UTF8" {
            return Err(StoreError::Schema(reason!("store-schema-encoding", encoding)));
        }
        if schema.is_none() {
            return Err(StoreError::Schema(reason!("store-schema-no-schema")));
        }
        Ok(PAGE)
    }

    async fn lock_schema(conn: &mut PgConnection, _: &Settings) -> Result<Vec<String>, StoreError> {
        // An arbitrary number that other programs are unlikely to use; scoped to this database and released with the
        // session.
        let lock = "SELECT pg_advisory_lock(hashtextextended('seckill schema', 0))";
        conn.execute(lock).await.map_err(|error| POSTGRES.store_error(error))?;
        let tables = "SELECT tablename::TEXT FROM pg_tables \
             WHERE schemaname = current_schema() ORDER BY tablename";
        sqlx::query_scalar(tables)
            .fetch_all(conn)
            .await
            .map_err(|error| POSTGRES.store_error(error))
    }
}
