//! URLs of PostgreSQL, supported versions, and session settings.

use seckill_model::reason;
use sqlx::{Executor as _, PgConnection, Postgres, migrate::Migrator, postgres::PgConnectOptions};

use super::{Checked, Schema, Server, pooler};
use crate::{
    DEPLOYMENT, Dialect, Fault, Settings, StoreError, batch::PAGE, connection::Pool,
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

    fn adapt(options: PgConnectOptions) -> PgConnectOptions {
        // A pooler rejects it, and the program reads no floating-point numbers.
        options.extra_float_digits(None)
    }

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

    async fn connect(
        options: &PgConnectOptions,
        settings: &Settings,
    ) -> Result<PgConnection, Fault> {
        pooler::connect(options, settings.connect()).await
    }

    async fn check(conn: &mut PgConnection) -> Result<Checked, Fault> {
        let query = "SELECT current_setting('server_version_num')::INTEGER, \
             current_setting('server_version'), current_setting('server_encoding')";
        let (number, version, encoding): (i32, String, String) =
            sqlx::query_as(query).fetch_one(&mut *conn).await?;
        let whole: String = sqlx::query_scalar("SELECT version()").fetch_one(&mut *conn).await?;
        let schema: Option<String> = sqlx::query_scalar(SCHEMA).fetch_one(conn).await?;
        let reason = if whole.contains("CockroachDB") {
            reason!("store-schema-other-server", version = whole)
        } else if number < OLDEST {
            let version = format!("PostgreSQL {version}");
            let oldest = (OLDEST / 10_000).to_string();
            reason!("store-schema-old-server", version, oldest)
        } else if encoding != "UTF8" {
            reason!("store-schema-encoding", encoding)
        } else if let Some(name) = schema {
            let pin = format!("SET search_path = {}", quoted(&name));
            return Ok(Checked { page: PAGE, schema: Some(Schema { name, pin }) });
        } else {
            reason!("store-schema-no-schema")
        };
        Err(StoreError::Schema(reason).into())
    }

    async fn tables(conn: &mut PgConnection) -> Result<Vec<String>, Fault> {
        let tables = "SELECT tablename::TEXT FROM pg_tables \
             WHERE schemaname = current_schema() ORDER BY tablename";
        Ok(sqlx::query_scalar(tables).fetch_all(conn).await?)
    }

    async fn deployment(conn: &mut PgConnection) -> Result<Option<String>, Fault> {
        let name = "SELECT value FROM tb_setting WHERE name = $1";
        Ok(sqlx::query_scalar(name).bind(DEPLOYMENT).fetch_optional(conn).await?)
    }

    async fn lock_schema(conn: &mut PgConnection, _: &Settings) -> Result<(), Fault> {
        // An arbitrary number that other programs are unlikely to use; scoped to this database and released with the
        // session.
        conn.execute("SELECT pg_advisory_lock(hashtextextended('seckill schema', 0))").await?;
        Ok(())
    }
}

/// The first schema of the search path that has the tables of the program, as PostgreSQL finds them; otherwise the one in
/// which it creates tables. A schema that precedes the tables changes nothing.
const SCHEMA: &str = "SELECT COALESCE(\
       (SELECT schemaname FROM pg_tables \
        JOIN unnest(current_schemas(FALSE)) WITH ORDINALITY AS path (name, place) ON name = schemaname \
        WHERE tablename IN ('_sqlx_migrations', 'tb_seckill_voucher') \
        AND has_table_privilege(quote_ident(schemaname) || '.' || quote_ident(tablename), 'SELECT') \
        GROUP BY schemaname, place HAVING COUNT(*) = 2 ORDER BY place LIMIT 1), \
       current_schema())::TEXT";

/// An identifier of PostgreSQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
