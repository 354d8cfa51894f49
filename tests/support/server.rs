//! Either database server behind one face, for what has to hold on both.

use super::{GUARDED, MariaDb, Postgres};

/// The password of the one role that has one.
pub const PASSWORD: &str = "hunter2";

pub trait Server {
    /// With more arguments or settings, as that server takes them.
    fn with(args: &[&str]) -> Self;
    fn url(&self, name: &str) -> String;
    fn tcp_url(&self, name: &str) -> String;
    fn port(&self) -> u16;
    /// A new empty database, by its name.
    async fn create(&self) -> String;
    /// A role that may do everything and has a [`PASSWORD`]; gives the URL that names both. Once a server.
    async fn guarded(&self, name: &str) -> String;
    async fn run(&self, name: &str, sql: &str);
    fn kill(&mut self);
    fn restart(&mut self);
    fn freeze(&self);
    fn thaw(&self);
}

macro_rules! server {
    ($kind:ident, $none:literal, $role:expr, $make:expr) => {
        impl Server for $kind {
            fn with(args: &[&str]) -> Self {
                $kind::with(args)
            }
            fn url(&self, name: &str) -> String {
                self.url_of(name)
            }
            fn tcp_url(&self, name: &str) -> String {
                self.tcp_url_of(name)
            }
            fn port(&self) -> u16 {
                $kind::port(self)
            }
            async fn create(&self) -> String {
                let name = $kind::new_name();
                $kind::run(self, $none, &format!("CREATE DATABASE {name}")).await;
                name
            }
            async fn guarded(&self, name: &str) -> String {
                $kind::run(self, $none, &$make).await;
                self.tcp_url_of(name).replace("root@", &format!("{}:{PASSWORD}@", $role))
            }
            async fn run(&self, name: &str, sql: &str) {
                $kind::run(self, name, sql).await;
            }
            fn kill(&mut self) {
                $kind::kill(self);
            }
            fn restart(&mut self) {
                $kind::restart(self);
            }
            fn freeze(&self) {
                $kind::freeze(self);
            }
            fn thaw(&self) {
                $kind::thaw(self);
            }
        }
    };
}
server!(
    MariaDb,
    "",
    "shop",
    format!("GRANT ALL ON *.* TO shop@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
);
server!(
    Postgres,
    "postgres",
    GUARDED,
    format!("CREATE ROLE {GUARDED} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
);

/// Each case on either server.
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
