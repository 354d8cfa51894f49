//! A common trait of both database servers, for tests that apply to both.

use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};

use super::{DatabaseProcess, GUARDED, MariaDb, Postgres, is_mysql, new_name};

/// The password of the protected role.
pub const PASSWORD: &str = "hunter2";

pub trait Server {
    type Conn;
    /// Starts with additional arguments or settings in the server's notation.
    fn with(args: &[&str]) -> Self;
    /// Starts a server that encrypts no connections.
    fn without_tls() -> Self;
    fn url(&self, name: &str) -> String;
    fn tcp_url(&self, name: &str) -> String;
    fn port(&self) -> u16;
    /// Creates an empty database and returns its name.
    async fn create(&self) -> String;
    /// Drops all tables.
    async fn clear(&self, name: &str);
    /// Creates a superuser with a [`PASSWORD`] and returns its URL. Once per server.
    async fn guarded(&self, name: &str) -> String;
    /// A URL with the [`PASSWORD`].
    async fn quick_url(&self, name: &str) -> String;
    async fn connect(&self, name: &str) -> Self::Conn;
    /// The single text value of a query.
    async fn read(conn: &mut Self::Conn, sql: String) -> String;
    async fn run(&self, name: &str, sql: &str);
    fn kill(&mut self);
    fn restart(&mut self);
    fn freeze(&self);
    fn thaw(&self);
}

macro_rules! server {
    ($kind:ident, $conn:ident, $none:literal, $role:expr, $make:expr, $without_tls:expr, $is_mariadb:literal) => {
        impl Server for $kind {
            type Conn = $conn;
            fn with(args: &[&str]) -> Self {
                $kind::with(args)
            }
            fn without_tls() -> Self {
                $kind::with($without_tls)
            }
            fn url(&self, name: &str) -> String {
                self.url_of(name)
            }
            fn tcp_url(&self, name: &str) -> String {
                self.tcp_url_of(name)
            }
            fn port(&self) -> u16 {
                DatabaseProcess::port(self)
            }
            async fn create(&self) -> String {
                let name = new_name();
                $kind::run(self, $none, &format!("CREATE DATABASE {name}")).await;
                name
            }
            async fn clear(&self, name: &str) {
                let sql = if $is_mariadb {
                    format!("DROP DATABASE {name}; CREATE DATABASE {name}; USE {name}")
                } else {
                    "DROP SCHEMA public CASCADE; CREATE SCHEMA public".to_owned()
                };
                $kind::run(self, name, &sql).await;
            }
            async fn guarded(&self, name: &str) -> String {
                $kind::run(self, $none, &$make).await;
                self.tcp_url_of(name).replace("root@", &format!("{}:{PASSWORD}@", $role))
            }
            async fn run(&self, name: &str, sql: &str) {
                $kind::run(self, name, sql).await;
            }
            async fn quick_url(&self, name: &str) -> String {
                if $is_mariadb {
                    self.guarded(name).await
                } else {
                    // The server trusts this user with any password.
                    self.tcp_url_of(name).replace("root@", &format!("root:{PASSWORD}@"))
                }
            }
            async fn connect(&self, name: &str) -> Self::Conn {
                $conn::connect(&self.url_of(name)).await.unwrap()
            }
            async fn read(conn: &mut Self::Conn, sql: String) -> String {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(conn).await.unwrap()
            }
            fn kill(&mut self) {
                DatabaseProcess::kill(self);
            }
            fn restart(&mut self) {
                $kind::restart(self);
            }
            fn freeze(&self) {
                DatabaseProcess::freeze(self);
            }
            fn thaw(&self) {
                DatabaseProcess::thaw(self);
            }
        }
    };
}
server!(
    MariaDb,
    MySqlConnection,
    "",
    "shop",
    format!(
        "CREATE USER shop@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; \
         GRANT ALL ON *.* TO shop@'127.0.0.1'"
    ),
    if is_mysql() { &["--tls-version="] } else { &["--skip-ssl"] },
    true
);
server!(
    Postgres,
    PgConnection,
    "postgres",
    GUARDED,
    format!("CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'"),
    &[],
    false
);

/// Runs each case on both servers.
#[macro_export]
macro_rules! on_both_servers {
    ($($case:ident),* $(,)?) => {
        mod on_mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::MariaDb::with(&[])).await; })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(super::Postgres::with(&[])).await; })*
        }
    };
}
