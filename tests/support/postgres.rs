//! A real PostgreSQL server for tests, which may be killed, frozen and restarted.

use std::{
    io::{Read as _, Write as _},
    ops::{Deref, DerefMut},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use seckill_lab::sql_programs;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::{
    database::{DatabaseProcess, Start, new_name},
    guard::{self, Guard, Owner, other_than_root},
    selected_program,
};

/// The superuser, who needs no password.
const ROOT: &str = "root";
/// Roles in this group require a password.
pub const GUARDED: &str = "guarded";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct Postgres(DatabaseProcess);

impl Deref for Postgres {
    type Target = DatabaseProcess;

    fn deref(&self) -> &DatabaseProcess {
        &self.0
    }
}

impl DerefMut for Postgres {
    fn deref_mut(&mut self) -> &mut DatabaseProcess {
        &mut self.0
    }
}

impl Postgres {
    /// The server shared by the tests of this binary; each test uses its own database.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::with(&[]))
    }

    /// A separate server for a test that disturbs it.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With additional settings (`name=value`); the last one of each name counts.
    pub fn with(args: &[&str]) -> Self {
        Self(DatabaseProcess::with(args, owner(), spawn))
    }

    /// Creates an empty database and returns its socket URL.
    pub async fn database(&self) -> String {
        let name = new_name();
        self.run("postgres", &format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// The URL of a database, which need not exist.
    pub fn url_of(&self, name: &str) -> String {
        format!("postgres://{ROOT}@localhost:{}/{name}?host={}", self.port(), self.dir.display())
    }

    /// The same through the port: `postgres://root@127.0.0.1:PORT/NAME`.
    pub fn tcp_url_of(&self, name: &str) -> String {
        format!("postgres://{ROOT}@127.0.0.1:{}/{name}", self.port())
    }

    /// Runs statements as the first role, in the database `name`.
    pub async fn run(&self, name: &str, sql: &str) {
        let mut conn = PgConnection::connect(&self.url_of(name)).await.unwrap();
        conn.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        conn.close().await.unwrap();
    }

    /// Restarts it with its data, after a SIGKILL if it still runs.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Restarts it with additional settings.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.kill();
        self.args.extend(args.iter().map(ToString::to_string));
        if let Err(why) = spawn(&mut self.0) {
            panic!("{why}");
        }
    }
}

fn spawn(process: &mut DatabaseProcess) -> Result<(), String> {
    let mut command = Command::new(tool("postgres"));
    command.arg("-D").arg(process.dir.join("data")).arg("-k").arg(&process.dir);
    command.args(["-p", &process.port().to_string(), "-h", "127.0.0.1"]);
    // A commit survives a killed server, but not a power loss.
    for setting in ["fsync=off", "full_page_writes=off", "max_connections=300"] {
        command.args(["-c", setting]);
    }
    for setting in &process.args {
        command.args(["-c", setting]);
    }
    let socket = process.dir.join(format!(".s.PGSQL.{}", process.port()));
    // SIGQUIT ends its children too, and gives its shared memory back.
    let (name, template) = ("PostgreSQL", template());
    let start = Start { name, command, template, end: "QUIT", owner: owner() };
    process.spawn(&start, || lets_in(&socket))
}

/// Whether a server lets its first role in; one that is starting up refuses.
fn lets_in(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    // Its length, version 3.0, and who wants what.
    let words = format!("user\0{ROOT}\0database\0postgres\0\0");
    let mut hello = ((words.len() + 8) as u32).to_be_bytes().to_vec();
    hello.extend([0, 3, 0, 0]);
    hello.extend(words.as_bytes());
    let mut answer = [0; 1];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(&hello).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer == *b"R"
}

/// It refuses to run as root.
fn owner() -> Option<Owner> {
    other_than_root(&["postgres", "nobody"])
}

fn tool(name: &str) -> PathBuf {
    selected_program(name).or_else(|| sql_programs::postgres(name)).unwrap_or_else(|| {
        panic!("no PostgreSQL server ({name}) was found; './assets/setup.sh --tests' installs one")
    })
}

/// The files of a new server, created once per binary.
fn template() -> &'static Path {
    static MADE: OnceLock<(PathBuf, Guard)> = OnceLock::new();
    let (dir, _) = MADE.get_or_init(|| {
        let dir = guard::new_dir(owner());
        let guard = Guard::of_files(&dir, owner());
        let mut making = Command::new(tool("initdb"));
        making.arg("-D").arg(dir.join("data")).current_dir(&dir).stdin(Stdio::null());
        making.env("LC_ALL", "C").args(["-U", ROOT, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        if let Some(Owner { uid, gid }) = owner() {
            making.uid(uid).gid(gid);
        }
        let made = making.output().unwrap();
        let output = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "initdb made no database; its output:\n{output}");
        let rules = format!("host all {GUARDED} all scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n");
        std::fs::write(dir.join("data/pg_hba.conf"), rules).unwrap();
        (dir, guard)
    });
    dir
}
