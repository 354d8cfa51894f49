//! A real PostgreSQL server for tests, which may be killed, frozen and restarted.

use std::{
    io::{Read as _, Write as _},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::{
    PATIENCE, came_true,
    guard::{self, Guard, Owner, other_than_root, program},
};

/// The superuser, who needs no password.
const ROOT: &str = "root";
/// Roles in this group require a password.
pub const GUARDED: &str = "guarded";

/// A server in its own directory, on a socket and a loopback port.
#[derive(Debug)]
pub struct Postgres {
    args: Vec<String>,
    port: u16,
    dir: PathBuf,
    guard: Option<Guard>,
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
        let mut last = String::new();
        // A free port may be taken before the server binds it; then another one is tried.
        for _ in 0..5 {
            let dir = guard::new_dir(owner());
            let args = args.iter().map(ToString::to_string).collect();
            let mut server = Self { args, port: guard::free_port(), dir, guard: None };
            match server.spawn() {
                Ok(()) => return server,
                Err(why) => last = why,
            }
        }
        panic!("{last}");
    }

    /// Creates an empty database and returns its socket URL.
    pub async fn database(&self) -> String {
        let name = Self::new_name();
        self.run("postgres", &format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// A database name that is unique in this process.
    pub fn new_name() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The URL of a database, which need not exist.
    pub fn url_of(&self, name: &str) -> String {
        format!("postgres://{ROOT}@localhost:{}/{name}?host={}", self.port, self.dir.display())
    }

    /// The same through the port: `postgres://root@127.0.0.1:PORT/NAME`.
    pub fn tcp_url_of(&self, name: &str) -> String {
        format!("postgres://{ROOT}@127.0.0.1:{}/{name}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as the first role, in the database `name`.
    pub async fn run(&self, name: &str, sql: &str) {
        let mut conn = PgConnection::connect(&self.url_of(name)).await.unwrap();
        conn.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        conn.close().await.unwrap();
    }

    pub fn pid(&self) -> Pid {
        self.guard.as_ref().expect("the server runs").pid()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// SIGKILL for the server and each of its children: no shutdown, nothing flushed.
    pub fn kill(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.kill();
        }
    }

    /// SIGSTOP: connections stay open without replies.
    pub fn freeze(&self) {
        self.guard.as_ref().expect("the server runs").freeze();
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.guard.as_ref().expect("the server runs").signal(Signal::CONT);
    }

    /// Restarts it with its data, after a SIGKILL if it still runs.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Restarts it with additional settings.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.kill();
        self.args.extend(args.iter().map(ToString::to_string));
        if let Err(why) = self.spawn() {
            panic!("{why}");
        }
    }

    fn spawn(&mut self) -> Result<(), String> {
        let mut command = Command::new(tool("postgres"));
        command.arg("-D").arg(self.dir.join("data")).arg("-k").arg(&self.dir);
        command.args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        // A commit survives a killed server, but not a power loss.
        for setting in ["fsync=off", "full_page_writes=off", "max_connections=300"] {
            command.args(["-c", setting]);
        }
        for setting in &self.args {
            command.args(["-c", setting]);
        }
        // SIGQUIT ends its children too, and gives its shared memory back.
        let data = template().join("data");
        let guard =
            self.guard.insert(Guard::start(&command, &self.dir, Some(&data), "QUIT", owner())?);
        let socket = self.dir.join(format!(".s.PGSQL.{}", self.port));
        let mut ended = false;
        let answers = came_true(PATIENCE, || {
            ended = guard.has_ended();
            ended || lets_in(&socket)
        });
        if answers && !ended {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        self.guard = None;
        Err(format!("the PostgreSQL server of this test did not start; it says:\n{log}"))
    }
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

/// Debian keeps the servers of several versions beside each other, off PATH: the newest is taken.
fn tool(name: &str) -> PathBuf {
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    places.sort_by_key(|place| {
        let version = place.parent().and_then(Path::file_name).and_then(|it| it.to_str());
        std::cmp::Reverse(version.and_then(|it| it.parse::<u32>().ok()))
    });
    places.push("/opt/homebrew/opt/postgresql@17/bin".into());
    program(&[name], &places).unwrap_or_else(|| {
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
        making.args(["-U", ROOT, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        if let Some(Owner { uid, gid }) = owner() {
            making.uid(uid).gid(gid);
        }
        let made = making.output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "initdb made no database; it says:\n{said}");
        let rules = format!("host all {GUARDED} all scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n");
        std::fs::write(dir.join("data/pg_hba.conf"), rules).unwrap();
        (dir, guard)
    });
    dir
}
