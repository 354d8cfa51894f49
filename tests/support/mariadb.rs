//! A real MariaDB server for tests, which may be killed, frozen and restarted; with `DATABASE=mysql`, a MySQL server
//! in each place of one.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    ops::{Deref, DerefMut},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use seckill_lab::sql_programs;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use super::{
    database::{DatabaseProcess, Start, new_name},
    guard::{self, Guard},
    selected_program,
};

/// A MariaDB server, or a MySQL server if `DATABASE` selects it. `root` needs no password.
#[derive(Debug)]
pub struct MariaDb(DatabaseProcess);

impl Deref for MariaDb {
    type Target = DatabaseProcess;

    fn deref(&self) -> &DatabaseProcess {
        &self.0
    }
}

impl DerefMut for MariaDb {
    fn deref_mut(&mut self) -> &mut DatabaseProcess {
        &mut self.0
    }
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
        Self(DatabaseProcess::with(args, None, spawn))
    }

    /// Creates an empty database and returns its socket URL.
    pub async fn database(&self) -> String {
        let name = new_name();
        self.run("", &format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// The URL of a database, which need not exist.
    pub fn url_of(&self, name: &str) -> String {
        format!("mysql://root@localhost/{name}?socket={}", socket(&self.dir).display())
    }

    /// The same through the port: `mysql://root@127.0.0.1:PORT/NAME`.
    pub fn tcp_url_of(&self, name: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{name}", self.port())
    }

    /// Runs statements as root, in the database `name` or in none.
    pub async fn run(&self, name: &str, sql: &str) {
        let mut conn = MySqlConnection::connect(&self.url_of(name)).await.unwrap();
        conn.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        // With TLS, which newer servers have by default, the server may close the connection first.
        let _ = conn.close().await;
    }

    /// Restarts it with its data, after a SIGKILL if it still runs.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Restarts it with additional arguments.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.kill();
        self.args.extend(args.iter().map(ToString::to_string));
        if let Err(why) = spawn(&mut self.0) {
            panic!("{why}");
        }
    }
}

/// The socket of a server in `dir`.
fn socket(dir: &Path) -> PathBuf {
    dir.join("s")
}

fn spawn(process: &mut DatabaseProcess) -> Result<(), String> {
    let socket = socket(&process.dir);
    let _ = std::fs::remove_file(&socket);
    let mut command = server(&process.dir);
    command
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--port={}", process.port()))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=300"])
        // A commit survives a killed server, but not a power loss.
        .args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M"])
        .args(&process.args);
    if is_mysql() {
        // No second protocol, no files of statements, no statistics.
        command.args(["--mysqlx=OFF", "--secure-file-priv=NULL", "--performance-schema=OFF"]);
    }
    let (name, template) = (if is_mysql() { "MySQL" } else { "MariaDB" }, template(&process.args));
    let start = Start { name, command, template, end: "KILL", owner: None };
    process.spawn(&start, || greets(&socket))
}

/// Whether a server sends its greeting; an error has a different byte there.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == 10
}

/// Whether the tests use MySQL in place of MariaDB.
pub fn is_mysql() -> bool {
    match std::env::var("DATABASE").as_deref() {
        Ok("mysql") => true,
        // The other databases of the fault matrix.
        Err(_) | Ok("mariadb" | "postgres") => false,
        Ok(other) => panic!("DATABASE={other}"),
    }
}

fn program() -> PathBuf {
    if is_mysql() {
        selected_program("mysqld")
            .or_else(sql_programs::mysql)
            .expect("no MySQL server (mysqld) was found; DATABASE=mysql needs one")
    } else {
        selected_program("mariadbd").or_else(sql_programs::mariadb).expect(
            "no MariaDB server (mariadbd) was found; './assets/setup.sh --tests' installs one",
        )
    }
}

/// The common part of the server command for creating and running a database in `dir`.
fn server(dir: &Path) -> Command {
    let mut command = Command::new(program());
    command.arg("--no-defaults").arg(format!("--datadir={}", dir.join("data").display()));
    // A starting server removes temporary files, also those of another server.
    command.arg(format!("--tmpdir={}", dir.display())).args(["--skip-log-bin", "--user=root"]);
    command.args(if is_mysql() {
        ["--loose-innodb-redo-log-capacity=32M", "--innodb-data-file-path=ibdata1:5M:autoextend"]
    } else {
        ["--innodb-log-file-size=32M", "--innodb-data-file-path=ibdata1:4M:autoextend"]
    });
    if !rustix::process::geteuid().is_root() {
        // The last one counts; it applies to root only.
        command.arg(format!("--user={}", std::env::var("USER").unwrap_or_default()));
    }
    command
}

/// An argument that MySQL accepts only if its files were created with it.
pub const LOWER_CASE: &str = "--lower-case-table-names=1";

/// The files of a new server, created once per binary: it takes most of a second, and MySQL several.
fn template(args: &[String]) -> &'static Path {
    static MADE: [OnceLock<(PathBuf, Guard)>; 2] = [const { OnceLock::new() }; 2];
    let is_lower_case = args.iter().any(|it| it == LOWER_CASE);
    let (dir, _) = MADE[usize::from(is_lower_case)].get_or_init(|| {
        let dir = guard::new_dir(None);
        let guard = Guard::of_files(&dir, None);
        let log = File::create(dir.join("log")).unwrap();
        let mut command = server(&dir);
        command.arg("--innodb-flush-log-at-trx-commit=0");
        if is_lower_case {
            command.arg(LOWER_CASE);
        }
        let statements = if is_mysql() {
            let statements = dir.join("init.sql");
            std::fs::write(&statements, MYSQL_ROOT).unwrap();
            command.arg("--initialize-insecure");
            command.arg(format!("--init-file={}", statements.display()));
            Vec::new()
        } else {
            std::fs::create_dir(dir.join("data")).unwrap();
            command.arg("--bootstrap");
            mariadb_tables()
        };
        let mut making = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // It may end without having read all; its status says why.
        let _ = making.stdin.take().expect("piped").write_all(&statements);
        let done = making.wait().unwrap();
        let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(done.success(), "the server made no database; it says:\n{}", log());
        (dir, guard)
    });
    dir
}

/// MySQL makes `root` for the socket only.
const MYSQL_ROOT: &str = "CREATE USER root@'127.0.0.1';\n\
                          GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n";

/// The statements that create the system tables of MariaDB, like `mariadb-install-db`, which needs more packages than
/// the server.
fn mariadb_tables() -> Vec<u8> {
    let files = sql_programs::mariadb_system_tables(&program())
        .expect("the files of the MariaDB server (mariadb_system_tables.sql) were not found");
    // Bootstrap mode reads one statement per line. Without an entry, root has no password.
    let mut statements =
        b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_vec();
    statements.extend(files.iter().flat_map(|file| std::fs::read(file).unwrap()));
    statements
}
