//! A real MariaDB server for tests, which may be killed, frozen and restarted.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use super::{
    PATIENCE, came_true,
    guard::{self, Guard, program},
};

/// A server in its own directory, on a socket and a loopback port. `root` needs no password.
#[derive(Debug)]
pub struct MariaDb {
    args: Vec<String>,
    port: u16,
    dir: PathBuf,
    guard: Option<Guard>,
}

impl MariaDb {
    /// The server shared by the tests of this binary; each test uses its own database.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<MariaDb> = OnceLock::new();
        SHARED.get_or_init(|| Self::with(&[]))
    }

    /// A separate server for a test that disturbs it.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With additional arguments; the last one of each name counts.
    pub fn with(args: &[&str]) -> Self {
        let mut last = String::new();
        // A free port may be taken before the server binds it; then another one is tried.
        for _ in 0..5 {
            let dir = guard::new_dir(None);
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
        self.run("", &format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// A database name that is unique in this process.
    pub fn new_name() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The URL of a database, which need not exist.
    pub fn url_of(&self, name: &str) -> String {
        format!("mysql://root@localhost/{name}?socket={}", self.socket().display())
    }

    /// The same through the port: `mysql://root@127.0.0.1:PORT/NAME`.
    pub fn tcp_url_of(&self, name: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{name}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as root, in the database `name` or in none.
    pub async fn run(&self, name: &str, sql: &str) {
        let mut conn = MySqlConnection::connect(&self.url_of(name)).await.unwrap();
        conn.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        conn.close().await.unwrap();
    }

    pub fn pid(&self) -> Pid {
        self.guard.as_ref().expect("the server runs").pid()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// SIGKILL: no shutdown, nothing flushed.
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

    /// Restarts it with additional arguments.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.kill();
        self.args.extend(args.iter().map(ToString::to_string));
        if let Err(why) = self.spawn() {
            panic!("{why}");
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    fn spawn(&mut self) -> Result<(), String> {
        let _ = std::fs::remove_file(self.socket());
        let mut command = server(&self.dir);
        command
            .arg(format!("--socket={}", self.socket().display()))
            .arg(format!("--port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=300"])
            // A commit survives a killed server, but not a power loss.
            .args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M"])
            .args(&self.args);
        let data = template().join("data");
        let guard =
            self.guard.insert(Guard::start(&command, &self.dir, Some(&data), "KILL", None)?);
        let (socket, mut ended) = (self.dir.join("s"), false);
        let greeted = came_true(PATIENCE, || {
            ended = guard.has_ended();
            ended || greets(&socket)
        });
        if greeted && !ended {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        self.guard = None;
        Err(format!("the MariaDB server of this test did not start; it says:\n{log}"))
    }
}

/// Whether a server sends its greeting; an error has a different byte there.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == 10
}

/// The common part of the server command for creating and running a database in `dir`.
fn server(dir: &Path) -> Command {
    let path = program(&["mariadbd", "mysqld"], &["/usr/sbin".into(), "/usr/libexec".into()])
        .expect("no MariaDB server (mariadbd) was found; './assets/setup.sh --tests' installs one");
    let mut command = Command::new(path);
    command.arg("--no-defaults").arg(format!("--datadir={}", dir.join("data").display()));
    // A starting server removes temporary files, also those of another server.
    command.arg(format!("--tmpdir={}", dir.display())).args([
        "--innodb-log-file-size=32M",
        "--innodb-data-file-path=ibdata1:4M:autoextend",
        "--skip-log-bin",
        "--user=root",
    ]);
    if !rustix::process::geteuid().is_root() {
        // The last one counts; it applies to root only.
        command.arg(format!("--user={}", std::env::var("USER").unwrap_or_default()));
    }
    command
}

/// The files of a new server, created once per binary: it takes most of a second.
///
/// Created like `mariadb-install-db`, which needs more packages than the server.
fn template() -> &'static Path {
    static MADE: OnceLock<(PathBuf, Guard)> = OnceLock::new();
    let (dir, _) = MADE.get_or_init(|| {
        let dir = guard::new_dir(None);
        let guard = Guard::of_files(&dir, None);
        std::fs::create_dir(dir.join("data")).unwrap();
        let log = File::create(dir.join("log")).unwrap();
        let mut making = server(&dir)
            .args(["--bootstrap", "--innodb-flush-log-at-trx-commit=0"])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut input = making.stdin.take().expect("piped");
        // Bootstrap mode reads one statement per line. Without an entry, root has no password.
        input
            .write_all(b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
            .unwrap();
        for file in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
            input.write_all(&std::fs::read(share().join(file)).unwrap()).unwrap();
        }
        drop(input);
        let done = making.wait().unwrap();
        let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(done.success(), "the MariaDB server made no database; it says:\n{}", log());
        (dir, guard)
    });
    dir
}

/// The directory of the server's SQL files.
fn share() -> PathBuf {
    let prefixes = ["/usr/share", "/usr/local/share", "/opt/homebrew/share"];
    let places = prefixes.iter().flat_map(|prefix| {
        ["mysql", "mariadb"].iter().map(move |name| Path::new(prefix).join(name))
    });
    places
        .into_iter()
        .find(|place| place.join("mysql_system_tables.sql").is_file())
        .expect("the files of the MariaDB server (mysql_system_tables.sql) were not found")
}
