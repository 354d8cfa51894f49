//! URLs of PostgreSQL, supported versions, and session settings.

use seckill_model::reason;
use sqlx::{Executor as _, PgConnection, Postgres, migrate::Migrator, postgres::PgConnectOptions};

use super::Server;
use crate::{
    Dialect, Fault, Settings, StoreError, batch::PAGE, connection::Pool,
    dialect::postgres::POSTGRES, migrations,
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
        "application_name",
    ];
    // Sent when it connects, so that the server's log of connections has it.
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("application_name", "seckill")];
    const CA: &'static str = "sslrootcert";
    const TLS: [&'static str; 4] = ["disable", "prefer", "require", "verify-full"];

    fn database(options: &PgConnectOptions) -> Option<&str> {
        options.get_database()
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

    async fn check(conn: &mut PgConnection) -> Result<usize, Fault> {
        let query = "SELECT current_setting('server_version_num')::INTEGER, \
             current_setting('server_version'), current_setting('server_encoding'), \
             current_schema()::TEXT";
        let (number, version, encoding, schema): (i32, String, String, Option<String>) =
            sqlx::query_as(query).fetch_one(&mut *conn).await?;
        let whole: String = sqlx::query_scalar("SELECT version()").fetch_one(conn).await?;
        let reason = if whole.contains("CockroachDB") {
            reason!("store-schema-other-server", version = whole)
        } else if number < OLDEST {
            let version = format!("PostgreSQL {version}");
            let oldest = (OLDEST / 10_000).to_string();
            reason!("store-schema-old-server", version, oldest)
        } else if encoding != "UTF8" {
            reason!("store-schema-encoding", encoding)
        } else if schema.is_none() {
            reason!("store-schema-no-schema")
        } else {
            return Ok(PAGE);
        };
        Err(StoreError::Schema(reason).into())
    }

    async fn lock_schema(conn: &mut PgConnection, _: &Settings) -> Result<Vec<String>, Fault> {
        // An arbitrary number that other programs are unlikely to use; scoped to this database and released with the
        // session.
        conn.execute("SELECT pg_advisory_lock(hashtextextended('seckill schema', 0))").await?;
        let tables = "SELECT tablename::TEXT FROM pg_tables \
             WHERE schemaname = current_schema() ORDER BY tablename";
        Ok(sqlx::query_scalar(tables).fetch_all(conn).await?)
    }
}
