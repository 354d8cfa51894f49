//! One server with one setting, the servers beside it, and how the program reaches them.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
};

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};

use super::{
    Kind,
    settings::{How, Setting},
};
use crate::support::{
    AUTHORITY, BINARY, Background, CERTIFICATE, CLIENT_AUTHORITY, CLIENT_CERTIFICATE, CLIENT_KEY,
    KEY, LONG, MariaDb, PATIENCE, Port, Postgres, Proxy, Ran, Seckill, TestRedis, new_name,
    selected_program, wait_until,
};

pub(super) const PARTITIONS: u16 = 2;
const PASSWORD: &str = "hunter2";

const CONFIG: &str = "[engine]\nnode_dead_ms = 2000\norder_lock = true\nqueue_wait_ms = 60000\n";

enum Database {
    /// In the data directory, where Redis is what is tried.
    Sqlite,
    MySql(MariaDb),
    Postgres(Postgres),
}

pub(super) struct Stage {
    pub(super) home: Seckill,
    pub(super) redis: TestRedis,
    database: Database,
    /// The URL of a superuser, past everything that is tried.
    root_url: String,
    envs: Vec<(&'static str, String)>,
    proxies: Vec<Proxy>,
    /// Kept as long as the stage.
    pooler: Option<Background>,
    ports: Vec<Port>,
}

/// The name and the version of the server that runs in this process's tests.
pub(super) async fn product(kind: Kind) -> (String, String) {
    sqlx::any::install_default_drivers();
    let version_of = async |url: &str, sql: &'static str| -> String {
        let mut conn = AnyConnection::connect(url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
    };
    let (name, version) = match kind {
        Kind::Redis => {
            let info: String = TestRedis::start().query(&["INFO", "server"]);
            let field = |name: &str| {
                let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.map(|it| it.trim().to_owned())
            };
            match field("valkey_version") {
                Some(version) => ("Valkey", version),
                None => ("Redis", field("redis_version").unwrap()),
            }
        }
        Kind::MariaDb | Kind::MySql => {
            let server = MariaDb::start();
            let url = server.database().await;
            let name = if kind == Kind::MySql { "MySQL" } else { "MariaDB" };
            (name, version_of(&url, "SELECT VERSION()").await)
        }
        Kind::Postgres => {
            let server = Postgres::start();
            let url = server.database().await;
            ("PostgreSQL", version_of(&url, "SHOW server_version").await)
        }
        Kind::PgBouncer => {
            let done = std::process::Command::new(pgbouncer()).arg("--version").output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            ("PgBouncer", text.split_whitespace().nth(1).unwrap().to_owned())
        }
    };
    // Without the marks of the packagers.
    let version = version.split([' ', '-']).next().unwrap().to_owned();
    (name.to_owned(), version)
}

fn pgbouncer() -> PathBuf {
    selected_program("pgbouncer").unwrap_or_else(|| "pgbouncer".into())
}

/// The command of the README that begins so.
fn readme_line(begin: &str) -> String {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let line = readme
        .lines()
        .find_map(|line| line.strip_prefix("    ").filter(|it| it.starts_with(begin)));
    line.expect("the README names the rights").to_owned()
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A file for the server that runs in this directory, readable by its user only, as PostgreSQL requires of a key.
fn write_for_server(dir: &Path, name: &str, text: &str) -> String {
    let path = write(dir, name, text);
    let owner = fs::metadata(dir).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

impl Stage {
    pub(super) async fn new(kind: Kind, setting: &Setting) -> Self {
        sqlx::any::install_default_drivers();
        let home = Seckill::new();
        let config = write(&home.file(""), "config.toml", CONFIG);
        let mut stage = Self {
            redis: TestRedis::start(),
            database: Database::Sqlite,
            root_url: format!("sqlite:{}", home.data_dir().join("seckill.db").display()),
            envs: vec![("SECKILL_CONFIG", config), ("SECKILL_PARTITIONS", PARTITIONS.to_string())],
            proxies: Vec::new(),
            pooler: None,
            ports: Vec::new(),
            home,
        };
        match kind {
            Kind::Redis => stage.with_redis(setting).await,
            Kind::MariaDb | Kind::MySql => stage.with_mysql(setting).await,
            Kind::Postgres | Kind::PgBouncer => stage.with_postgres(setting).await,
        }
        if kind != Kind::Redis {
            let url = stage.redis.url();
            stage.set("REDIS_URL", url);
        }
        stage
    }

    fn set(&mut self, name: &'static str, value: String) {
        self.envs.retain(|(it, _)| *it != name);
        self.envs.push((name, value));
    }

    async fn with_redis(&mut self, setting: &Setting) {
        let port = Port::free();
        let number = port.number.to_string();
        let file = |name: &str, text: &str| write(&self.home.file(""), name, text);
        let mut args: Vec<String> = setting.args.iter().map(ToString::to_string).collect();
        let mut url = format!("redis://127.0.0.1:{number}");
        let mut envs = Vec::new();
        if matches!(setting.how, How::Tls | How::ClientCertificate) {
            let asks = if setting.how == How::Tls { "no" } else { "yes" };
            let [cert, key] = [("server.pem", CERTIFICATE), ("server.key", KEY)]
                .map(|(name, text)| file(name, text));
            let clients = file("clients.pem", CLIENT_AUTHORITY);
            for (name, value) in [
                ("--tls-port", &*number),
                ("--tls-cert-file", &cert),
                ("--tls-key-file", &key),
                ("--tls-ca-cert-file", &clients),
                ("--tls-auth-clients", asks),
            ] {
                args.extend([name.to_owned(), value.to_owned()]);
            }
            url = url.replace("redis:", "rediss:");
            envs.push(("SECKILL_REDIS_CA", file("ca.pem", AUTHORITY)));
            if setting.how == How::ClientCertificate {
                envs.push(("SECKILL_REDIS_CERT", file("client.pem", CLIENT_CERTIFICATE)));
                envs.push(("SECKILL_REDIS_KEY", file("client.key", CLIENT_KEY)));
            }
        } else {
            args.extend(["--port".to_owned(), number]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.redis = TestRedis::setup().args(&args).start();
        if setting.how == How::User {
            let rule = readme_line("ACL SETUSER shop ").replace("PASSWORD", PASSWORD);
            self.redis.query::<()>(&rule.split_whitespace().collect::<Vec<_>>());
            url = url.replace("://", &format!("://shop:{PASSWORD}@"));
        }
        if setting.how == How::Proxy {
            let proxy = Proxy::before(port.number).await;
            url = proxy.redis_url();
            self.proxies.push(proxy);
        }
        self.set("REDIS_URL", url);
        self.ports.push(port);
        for (name, value) in envs {
            self.set(name, value);
        }
    }

    async fn with_mysql(&mut self, setting: &Setting) {
        let mut server = MariaDb::with(setting.args);
        // Where names are lower-case, this one is stored so.
        let name = format!("Shop_{}", new_name());
        server.run("", &format!("CREATE DATABASE {name}")).await;
        self.root_url = server.url_of(&name);
        let mut url = server.tcp_url_of(&name);
        let as_shop = |url: &str| url.replace("root@", &format!("shop:{PASSWORD}@"));
        let user = format!("CREATE USER shop@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'");
        let grant = |what: &str| format!("GRANT {what} ON {name}.* TO shop@'127.0.0.1'");
        let file = |name: &str, text: &str| write(&self.home.file(""), name, text);
        match setting.how {
            How::Plain | How::Pool(_) => {}
            How::Creator => {
                let grant =
                    readme_line("GRANT SELECT, INSERT,").replace("shop.*", &format!("{name}.*"));
                server.run("", &format!("{user}; {grant}@'127.0.0.1'")).await;
                url = as_shop(&url);
            }
            How::User => {
                self.set("SECKILL_DATABASE", self.root_url.clone());
                self.database = Database::MySql(server);
                self.create_tables();
                let rights = "SELECT, INSERT, UPDATE, DELETE";
                self.run_sql(&format!("{user}; {}", grant(rights))).await;
                return self.set("SECKILL_DATABASE", as_shop(&url));
            }
            How::Tls | How::ClientCertificate => {
                let [cert, key, clients] = [
                    ("--ssl-cert", "server.pem", CERTIFICATE),
                    ("--ssl-key", "server.key", KEY),
                    ("--ssl-ca", "clients.pem", CLIENT_AUTHORITY),
                ]
                .map(|(arg, name, text)| format!("{arg}={}", file(name, text)));
                server.restart_with(&[&cert, &key, &clients, "--require-secure-transport=ON"]);
                let required = if setting.how == How::Tls { "SSL" } else { "X509" };
                server.run("", &format!("{user} REQUIRE {required}; {}", grant("ALL"))).await;
                let ca = file("ca.pem", AUTHORITY);
                url = format!("{}?ssl-mode=verify_identity&ssl-ca={ca}", as_shop(&url));
                if setting.how == How::ClientCertificate {
                    let cert = file("client.pem", CLIENT_CERTIFICATE);
                    url += &format!("&ssl-cert={cert}&ssl-key={}", file("client.key", CLIENT_KEY));
                }
            }
            How::Proxy => {
                let proxy = Proxy::before(server.port()).await;
                url = proxy.url(&url, server.port());
                self.proxies.push(proxy);
            }
        }
        self.database = Database::MySql(server);
        self.set("SECKILL_DATABASE", url);
    }

    async fn with_postgres(&mut self, setting: &Setting) {
        let mut server = Postgres::with(setting.args);
        let name = new_name();
        server.run("postgres", &format!("CREATE DATABASE {name}")).await;
        self.root_url = server.url_of(&name);
        let mut url = server.tcp_url_of(&name);
        let user = format!("CREATE ROLE shop LOGIN PASSWORD '{PASSWORD}'");
        let as_shop = |url: &str| url.replace("root@", &format!("shop:{PASSWORD}@"));
        let file = |name: &str, text: &str| write(&self.home.file(""), name, text);
        match setting.how {
            How::Plain => {}
            How::Creator => {
                let grant = "GRANT USAGE, CREATE ON SCHEMA public TO shop";
                server.run(&name, &format!("{user}; {grant}")).await;
                url = as_shop(&url);
            }
            How::User => {
                self.set("SECKILL_DATABASE", self.root_url.clone());
                self.database = Database::Postgres(server);
                self.create_tables();
                let grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop; \
                              GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO shop";
                self.run_sql(&format!("{user}; {grants}")).await;
                return self.set("SECKILL_DATABASE", as_shop(&url));
            }
            How::Tls | How::ClientCertificate => {
                let dir = server.dir().to_owned();
                let [cert, key, clients] = [
                    ("ssl_cert_file", "server.pem", CERTIFICATE),
                    ("ssl_key_file", "server.key", KEY),
                    ("ssl_ca_file", "clients.pem", CLIENT_AUTHORITY),
                ]
                .map(|(arg, name, text)| format!("{arg}={}", write_for_server(&dir, name, text)));
                let ca = file("ca.pem", AUTHORITY);
                url += &format!("?sslmode=verify-full&sslrootcert={ca}");
                let mut rule = "hostssl all all 127.0.0.1/32 trust".to_owned();
                if setting.how == How::ClientCertificate {
                    rule += " clientcert=verify-ca";
                    let cert = file("client.pem", CLIENT_CERTIFICATE);
                    url += &format!("&sslcert={cert}&sslkey={}", file("client.key", CLIENT_KEY));
                }
                fs::write(dir.join("data/pg_hba.conf"), format!("local all all trust\n{rule}\n"))
                    .unwrap();
                server.restart_with(&["ssl=on", &cert, &key, &clients]);
            }
            How::Proxy => {
                let proxy = Proxy::before(server.port()).await;
                url = proxy.url(&url, server.port());
                self.proxies.push(proxy);
            }
            How::Pool(mode) => {
                let port = Port::free();
                let dir = server.dir().to_owned();
                let settings = format!(
                    "[databases]\n* = host=127.0.0.1 port={} user=root\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                     listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n",
                    server.port(),
                    port.number
                );
                let file = write_for_server(&dir, "pgbouncer.ini", &settings);
                let mut args = vec![file];
                if rustix::process::geteuid().is_root() {
                    args.extend(["-u".to_owned(), "postgres".to_owned()]);
                }
                let program = pgbouncer();
                let program = program.to_str().unwrap();
                self.pooler = Some(Background::spawn(program, &args, &self.home, &[]));
                wait_until(PATIENCE, "the pooler listens", async || {
                    tokio::net::TcpStream::connect(("127.0.0.1", port.number)).await.is_ok()
                })
                .await;
                url = url.replace(&server.port().to_string(), &port.number.to_string());
                self.ports.push(port);
            }
        }
        self.database = Database::Postgres(server);
        self.set("SECKILL_DATABASE", url);
    }

    fn create_tables(&mut self) {
        let redis = self.redis.url();
        self.set("REDIS_URL", redis);
        self.run(&["doctor"]).expect_code(0);
    }

    /// The program in the background, with these variables.
    pub(super) fn spawn(&self, args: &[&str], more: &[(&'static str, &str)]) -> Background {
        let own = self.envs.iter().map(|(name, value)| (*name, value.as_str()));
        let envs: Vec<(&str, &str)> = own.chain(more.iter().copied()).collect();
        Background::spawn(BINARY, &self.home.args(args), &self.home, &envs)
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, args: &[&str]) -> Ran {
        tokio::task::block_in_place(|| self.spawn(args, &[]).wait(LONG))
    }

    /// The document of a command, which ends with this code.
    pub(super) fn json(&self, code: i32, args: &[&str]) -> serde_json::Value {
        self.run(&[args, &["--json"]].concat()).expect_code(code).json()
    }

    /// A connection of a superuser to the database.
    pub(super) async fn sql(&self) -> AnyConnection {
        AnyConnection::connect(&self.root_url).await.unwrap()
    }

    pub(super) async fn run_sql(&self, statements: &str) {
        match &self.database {
            Database::MySql(server) => server.run(&self.name(), statements).await,
            Database::Postgres(server) => server.run(&self.name(), statements).await,
            Database::Sqlite => {
                let statements = AssertSqlSafe(statements.to_owned());
                self.sql().await.execute(statements).await.unwrap();
            }
        }
    }

    fn name(&self) -> String {
        let path = self.root_url.rsplit_once('?').map_or(&*self.root_url, |(path, _)| path);
        path.rsplit('/').next().unwrap().to_owned()
    }

    /// Statements that make the database refuse the orders of one user, and accept them again.
    pub(super) fn poison(&self, voucher: u64, user: u64) -> [String; 2] {
        if matches!(self.database, Database::Sqlite) {
            let create = format!(
                "CREATE TRIGGER poison BEFORE INSERT ON tb_voucher_order \
                 WHEN NEW.voucher_id = {voucher} AND NEW.user_id = {user} \
                 BEGIN SELECT RAISE(ABORT, 'not this one'); END"
            );
            return [create, "DROP TRIGGER poison".to_owned()];
        }
        let change = "ALTER TABLE tb_voucher_order";
        [
            format!(
                "{change} ADD CONSTRAINT poison CHECK (NOT (voucher_id = {voucher} AND user_id = {user}))"
            ),
            format!("{change} DROP CONSTRAINT poison"),
        ]
    }

    /// Drops the connections that go through a proxy.
    pub(super) fn drop_connections(&self) {
        for proxy in &self.proxies {
            proxy.drop_connections();
        }
    }

    /// The number of tables in the database, and of keys in Redis.
    pub(super) async fn contents(&self) -> (i64, i64) {
        let own = match self.database {
            Database::Sqlite if !self.home.data_dir().join("seckill.db").exists() => None,
            Database::Sqlite => Some("sqlite_schema"),
            Database::MySql(_) => Some("information_schema.tables WHERE table_schema = DATABASE()"),
            Database::Postgres(_) => Some(
                "information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
            ),
        };
        let tables = match own {
            None => 0,
            Some(own) => {
                let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {own}"));
                sqlx::query_scalar(count).fetch_one(&mut self.sql().await).await.unwrap()
            }
        };
        (tables, self.redis.query(&["DBSIZE"]))
    }
}
