//! URLs of PostgreSQL, supported versions, and session settings.

use std::path::PathBuf;

use seckill_model::reason;
use sqlx::{
    Executor as _, PgConnection, Postgres,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgSslMode},
};

use super::{super::Server, POSTGRES};
use crate::{
    Dialect, Settings, StoreError, connection::Pool, migrations, queries::PAGE, settings::Tls,
};

/// The oldest supported server, as `server_version_num`.
const OLDEST: i32 = 120_000;

impl Server for Postgres {
    const POOL: fn(sqlx::Pool<Self>) -> Pool = Pool::Postgres;
    const DIALECT: &'static Dialect = &POSTGRES;
    const MIGRATIONS_REPEAT: bool = false;
    const FORM: &'static str = "postgres://USER:PASSWORD@HOST/DATABASE";
    const PARAMETERS: &'static [&'static str] = &[
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

    fn database(options: &PgConnectOptions) -> Option<&str> {
        options.get_database()
    }

    fn with_settings(
        options: PgConnectOptions,
        tls: Option<Tls>,
        ca: Option<&PathBuf>,
    ) -> PgConnectOptions {
        let options = options.application_name("seckill");
        let options = match tls {
            Some(Tls::Off) => options.ssl_mode(PgSslMode::Disable),
            Some(Tls::Prefer) => options.ssl_mode(PgSslMode::Prefer),
            Some(Tls::Require) => options.ssl_mode(PgSslMode::Require),
            Some(Tls::Verify) => options.ssl_mode(PgSslMode::VerifyFull),
            None => options,
        };
        match ca {
            Some(ca) => options.ssl_root_cert(ca),
            None => options,
        }
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
