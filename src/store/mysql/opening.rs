//! From a URL to an open store on MySQL or MariaDB: the server, its version, the schema, each refused in
//! words.

use std::sync::{Arc, atomic::AtomicBool};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, MySqlConnection,
    mysql::{MySqlConnectOptions, MySqlSslMode},
};
use tokio::time::timeout;
use url::Url;

use super::{
    super::{
        MYSQL_PARAMETERS, SchemaFault, Settings, StoreError, UrlFault,
        migrations::MYSQL,
        schema,
        session::{Dialect, Fault, Sessions, prepare},
        settings::Tls,
    },
    MysqlStore,
};

/// The oldest servers that are known to do: CHECK, and collations that compare byte by byte.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Bytes that one row of an insert takes at most: three numbers of 63 bits, a place and two times.
const ROW: usize = 96;
/// Rows in one statement, where the server would take more.
const MOST_ROWS: usize = 10_000;

impl MysqlStore {
    /// Opens the database that `url` names, and brings its schema up to date.
    pub(crate) async fn open(url: &Url, settings: &Settings) -> Result<Self, StoreError> {
        let options = options(url, settings)?;
        let shown = shown(&options);
        let sessions: Arc<[String]> = session(settings).into();
        let opening = timeout(settings.connect(), options.connect());
        let mut conn = match opening.await {
            Ok(conn) => conn.map_err(sqlx::MySql::told)?,
            Err(_) => return Err(no_answer(&shown)),
        };
        let preparing = timeout(settings.transaction(), async {
            prepare::<sqlx::MySql>(&mut conn, &sessions).await.map_err(sqlx::MySql::told)?;
            check_version(&mut conn).await?;
            bring_up_to_date(&mut conn, settings, &shown).await?;
            let packet: u64 = sqlx::query_scalar("SELECT @@max_allowed_packet")
                .fetch_one(&mut conn)
                .await
                .map_err(sqlx::MySql::told)?;
            Ok::<u64, StoreError>(packet)
        });
        let packet = preparing.await.map_err(|_| no_answer(&shown))??;
        // What holds the lock; it goes with its connection, also with one that breaks.
        let _ = timeout(settings.connect(), conn.close()).await;
        let rows = (packet as usize / 2 / ROW).clamp(1, MOST_ROWS);
        let (sessions, mixed) =
            (Sessions::new(options, settings.into(), sessions), AtomicBool::new(false));
        Ok(Self { shown, sessions, rows, mixed })
    }
}

fn no_answer(shown: &str) -> StoreError {
    StoreError::Away(format!("{shown} does not answer"))
}

/// Of a URL that holds what it may.
fn options(url: &Url, settings: &Settings) -> Result<MySqlConnectOptions, StoreError> {
    if let Some((name, _)) =
        url.query_pairs().find(|(name, _)| !MYSQL_PARAMETERS.contains(&&**name))
    {
        return Err(UrlFault::Mysql(name.into_owned()).into());
    }
    let mut options = MySqlConnectOptions::from_url(url)
        .map_err(|fault| UrlFault::Unusable(fault.to_string()))?
        .disable_statement_logging();
    if options.get_database().is_none_or(str::is_empty) {
        return Err(UrlFault::NoDatabase("mysql://USER:PASSWORD@HOST/DATABASE".to_owned()).into());
    }
    if !url.query_pairs().any(|(name, _)| name == "ssl-mode" || name == "sslmode") {
        options = options.ssl_mode(match settings.tls {
            Tls::Off => MySqlSslMode::Disabled,
            Tls::Prefer => MySqlSslMode::Preferred,
            Tls::Require => MySqlSslMode::Required,
            Tls::Verify => MySqlSslMode::VerifyIdentity,
        });
    }
    if let Some(ca) = &settings.ca {
        options = options.ssl_ca(ca);
    }
    Ok(options)
}

/// Where it is, without user and password.
fn shown(options: &MySqlConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(socket) => format!("mysql {database} at {}", socket.display()),
        None => format!("mysql {}:{}/{database}", options.get_host(), options.get_port()),
    }
}

/// What each connection asks for, whatever the server's defaults are.
fn session(settings: &Settings) -> Vec<String> {
    let ms = settings.statement_ms;
    let seconds = ms.div_ceil(1_000);
    // MariaDB and MySQL each read only the comment that is meant for it. A transaction that its client
    // left standing is ended by MariaDB; on MySQL it ends with its connection.
    vec![
        format!(
            "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {seconds}, \
             SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' \
             /*M! , SESSION max_statement_time = {}, SESSION idle_transaction_timeout = {} */ \
             /*!80000 , SESSION max_execution_time = {ms} */",
            ms as f64 / 1_000.0,
            seconds * 4
        ),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
    ]
}

async fn check_version(conn: &mut MySqlConnection) -> Result<(), StoreError> {
    let version: String =
        sqlx::query_scalar("SELECT VERSION()").fetch_one(conn).await.map_err(sqlx::MySql::told)?;
    if is_new_enough(&version) {
        return Ok(());
    }
    let oldest = [("MariaDB", OLDEST_MARIADB), ("MySQL", OLDEST_MYSQL)];
    let oldest = oldest.map(|(name, (major, minor))| format!("{name} {major}.{minor}")).to_vec();
    Err(SchemaFault::OldServer { version, oldest }.into())
}

fn is_new_enough(version: &str) -> bool {
    let oldest =
        if version.to_lowercase().contains("mariadb") { OLDEST_MARIADB } else { OLDEST_MYSQL };
    let mut numbers = version.split(['.', '-']).map(|it| it.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= oldest
}

/// Creates or upgrades the tables, one process after the other.
async fn bring_up_to_date(
    conn: &mut MySqlConnection,
    settings: &Settings,
    shown: &str,
) -> Result<(), StoreError> {
    let told = sqlx::MySql::told;
    // The server has one space of names for all databases, of 64 characters each.
    let mine: Option<i64> =
        sqlx::query_scalar("SELECT GET_LOCK(SHA1(CONCAT('seckill', DATABASE())), ?)")
            .bind(settings.statement_ms.div_ceil(1_000))
            .fetch_one(&mut *conn)
            .await
            .map_err(told)?;
    if mine != Some(1) {
        return Err(StoreError::Away("another process is changing its schema".to_owned()));
    }
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
         WHERE table_schema = DATABASE() ORDER BY table_name",
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(told)?;
    if schema::is_ours(shown, &tables)? {
        let version: Option<i64> = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations")
            .fetch_one(&mut *conn)
            .await
            .map_err(told)?;
        schema::check_version(&MYSQL, version)?;
        // A process was killed half-way; every statement of a migration can be repeated.
        sqlx::query("DELETE FROM _sqlx_migrations WHERE success = FALSE")
            .execute(&mut *conn)
            .await
            .map_err(told)?;
    }
    let done = MYSQL.run_direct(None, conn, false).await;
    done.map_err(|fault| schema::fault(&MYSQL, fault).unwrap_or_else(told))
}

/// What decides on a power loss.
pub(super) async fn durability(conn: &mut MySqlConnection) -> Result<Vec<(String, String)>, Fault> {
    let mut settings = Vec::new();
    for name in [
        "innodb_flush_log_at_trx_commit",
        "sync_binlog",
        "log_bin",
        "innodb_doublewrite",
        "innodb_lock_wait_timeout",
    ] {
        let sql = format!("SELECT CAST(@@{name} AS CHAR)");
        let value: String = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *conn).await?;
        settings.push((name.to_owned(), value));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_from_new_ones() {
        for (version, fits) in [
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("10.6.0-MariaDB", true),
            ("11.4.2-MariaDB-ubu2404", true),
            ("10.5.29-MariaDB", false),
            ("8.0.36", true),
            ("8.4.0-commercial", true),
            ("5.7.44-log", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), fits, "{version}");
        }
    }
}
