//! URLs of MySQL and MariaDB, supported versions, and session settings.

use seckill_model::reason;
use sqlx::{
    ConnectOptions as _, MySql, MySqlConnection, migrate::Migrator, mysql::MySqlConnectOptions,
};

use super::{Checked, Server};
use crate::{
    DEPLOYMENT, Dialect, Fault, Settings, StoreError,
    connection::Pool,
    dialect::mysql::{self, MYSQL},
    migrations,
};

/// The oldest supported servers: CHECK, and collations that compare byte by byte.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

impl Server for MySql {
    const POOL: fn(sqlx::Pool<Self>) -> Pool = Pool::Mysql;
    const DIALECT: &'static Dialect = &MYSQL;
    const MIGRATIONS_REPEAT: bool = true;
    const FORM: &'static str = "mysql://USER:PASSWORD@HOST/DATABASE";
    const PARAMETERS: &'static [&'static str] =
        &["socket", "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key"];
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[];
    const CA: &'static str = "ssl-ca";
    const TLS: [&'static str; 4] = ["disabled", "preferred", "required", "verify_identity"];

    fn database(options: &MySqlConnectOptions) -> Option<&str> {
        options.get_database()
    }

    fn shown(options: &MySqlConnectOptions) -> String {
        let database = options.get_database().unwrap_or_default();
        match options.get_socket() {
            Some(socket) => format!("mysql {database} at {}", socket.display()),
            None => format!("mysql {}:{}/{database}", options.get_host(), options.get_port()),
        }
    }

    fn session(settings: &Settings) -> Vec<String> {
        let ms = settings.statement_ms;
        let seconds = ms.div_ceil(1_000);
        let idle = seconds * 4;
        // MariaDB and MySQL each execute only the comment addressed to them. Both end a session that is idle in a
        // transaction; MySQL also others, which are opened again when they are used.
        vec![
            format!(
                "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {seconds}, \
                 SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' \
                 /*M! , SESSION max_statement_time = {}, SESSION idle_transaction_timeout = {idle} */ \
                 /*!80000 , SESSION max_execution_time = {ms}, SESSION wait_timeout = {idle} */",
                ms as f64 / 1_000.0,
            ),
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        ]
    }

    fn migrator() -> &'static Migrator {
        &migrations::MYSQL
    }

    async fn connect(
        options: &MySqlConnectOptions,
        _: &Settings,
    ) -> Result<MySqlConnection, Fault> {
        Ok(options.connect().await?)
    }

    async fn check(conn: &mut MySqlConnection) -> Result<Checked, Fault> {
        let query = "SELECT VERSION(), CAST(@@max_allowed_packet AS SIGNED)";
        let (version, packet): (String, i64) = sqlx::query_as(query).fetch_one(conn).await?;
        if version.contains("TiDB") {
            return Err(StoreError::Schema(reason!("store-schema-other-server", version)).into());
        }
        if !is_new_enough(&version) {
            let oldest = [("MariaDB", OLDEST_MARIADB), ("MySQL", OLDEST_MYSQL)];
            let oldest = oldest.map(|(name, (major, minor))| format!("{name} {major}.{minor}"));
            let oldest = oldest.join(" / ");
            let why = reason!("store-schema-old-server", version, oldest);
            return Err(StoreError::Schema(why).into());
        }
        Ok(Checked { page: mysql::page(packet), schema: None })
    }

    async fn tables(conn: &mut MySqlConnection) -> Result<Vec<String>, Fault> {
        let tables = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables \
             WHERE table_schema = DATABASE() ORDER BY table_name";
        Ok(sqlx::query_scalar(tables).fetch_all(conn).await?)
    }

    async fn deployment(conn: &mut MySqlConnection) -> Result<Option<String>, Fault> {
        let name = "SELECT value FROM tb_setting WHERE name = ?";
        Ok(sqlx::query_scalar(name).bind(DEPLOYMENT).fetch_optional(conn).await?)
    }

    async fn lock_schema(conn: &mut MySqlConnection, settings: &Settings) -> Result<(), Fault> {
        // The first row would be rejected, with tables left behind. Not a variable of each version (`@@binlog_format`).
        let log = "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format') \
             AND Value IN ('ON', 'STATEMENT')";
        let log: Vec<(String, String)> = sqlx::query_as(log).fetch_all(&mut *conn).await?;
        if log.len() == 2 {
            return Err(StoreError::Away(reason!("store-reason-statement-binlog")).into());
        }
        // Lock names are global to the server and limited to 64 characters. MySQL has no SHA1 since 9.6.
        let lock = "SELECT GET_LOCK(SHA2(CONCAT('seckill', DATABASE()), 256), ?)";
        let seconds = settings.statement_ms.div_ceil(1_000);
        let locked: Option<i64> = sqlx::query_scalar(lock).bind(seconds).fetch_one(conn).await?;
        if locked != Some(1) {
            return Err(StoreError::Away(reason!("store-reason-schema-locked")).into());
        }
        Ok(())
    }
}

fn is_new_enough(version: &str) -> bool {
    let oldest =
        if version.to_lowercase().contains("mariadb") { OLDEST_MARIADB } else { OLDEST_MYSQL };
    let mut numbers = version.split(['.', '-']).map(|it| it.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_rejected() {
        for (version, fits) in [
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("10.6.0-MariaDB", true),
            ("11.4.2-MariaDB-ubu2404", true),
            ("10.5.29-MariaDB", false),
            ("8.0.36", true),
            ("8.4.0-commercial", true),
            ("9.7.4-2", true),
            ("5.7.44-log", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), fits, "{version}");
        }
    }
}
