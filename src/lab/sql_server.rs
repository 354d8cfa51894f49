//! A MariaDB, MySQL or PostgreSQL server in a temporary directory.
//!
//! A shell supervises it: it reads from a pipe whose other end only this process has. However this process ends, the
//! pipe closes; then the shell stops the server and removes its directory.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use seckill_model::{Label, OsError, Reason, reason};
use seckill_store::plain::PlainPool;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{Database, LabError, Result, sql_programs};

/// `$1` is the directory, `$2` the stop signal, the rest the command of the server.
const SHELL: &str = r#"
dir=$1 end=$2; shift 2
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
read -r word <&3
kill -s $end $server 2>/dev/null
wait $server
rm -rf -- "$dir"
"#;
/// Timeout to create the files of a server, and for it to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for it to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Most connections: those of the most concurrent work, and a few to count with.
const CONNECTIONS: u32 = 600;

/// A running server.
#[derive(Debug)]
pub(crate) struct SqlServer {
    shell: Child,
    /// Ends the server when it is dropped.
    input: Option<ChildStdin>,
    dir: PathBuf,
    pub(crate) url: String,
}

/// The programs of a database.
#[derive(Debug)]
enum Programs {
    /// SQLite is part of this program.
    None,
    Mariadb {
        server: PathBuf,
        tables: [PathBuf; 2],
    },
    Mysql(PathBuf),
    Postgres {
        server: PathBuf,
        initdb: PathBuf,
    },
}

/// How a database is created and run in a directory.
struct Recipe {
    /// Creates the files: a command with its input.
    create: (Command, Vec<u8>),
    run: Command,
    /// The signal for an orderly stop that does not wait for clients.
    end: &'static str,
    url: String,
}

/// The user and the group of a server that does not run as root.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl SqlServer {
    /// Creates and starts a server.
    ///
    /// # Errors
    /// It is not installed, or did not start; its last messages say why.
    pub(crate) async fn start(database: Database, stop: &CancellationToken) -> Result<Self> {
        let failed = |why: Reason| LabError::Database(database, why);
        let io = |error: io::Error| failed(OsError::of(&error).into());
        let programs = programs(database)?;
        // Postgres refuses to run as root.
        let owner = if database == Database::Postgres { other_than_root() } else { None };
        let dir = new_dir(owner).map_err(io)?;
        // From here on, the shell or this guard removes the directory.
        let guard = Removed(Some(dir.clone()));
        let recipe = match programs {
            Programs::None => Err(Label("lab-server-missing").into()),
            Programs::Mariadb { server, tables } => mariadb(&dir, &server, &tables),
            Programs::Mysql(server) => mysql(&dir, &server),
            Programs::Postgres { server, initdb } => Ok(postgres(&dir, server, initdb)),
        };
        let Recipe { create, mut run, end, url } = recipe.map_err(failed)?;
        let log = open_log(&dir).map_err(io)?;
        let mut creating = spawn_creation(create.0, &dir, &log, owner).map_err(io)?;
        let created = tokio::select! {
            created = timeout(START_TIMEOUT, finish_creation(&mut creating, &create.1)) => created,
            () = stop.cancelled() => {
                // It writes no more when the directory is removed.
                let _ = creating.kill().await;
                return Err(LabError::Cancelled);
            }
        };
        let Ok(status) = created else {
            let _ = creating.kill().await;
            return Err(failed(late()));
        };
        if !status.map_err(io)?.success() {
            return Err(failed(last_messages(&dir)));
        }
        // What the creation had to say is no reason for what follows.
        log.set_len(0).map_err(io)?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SHELL, "server"]).arg(&dir).arg(end);
        shell.arg(run.as_std_mut().get_program()).args(run.as_std().get_args());
        prepare(&mut shell, &dir, &log, owner).map_err(io)?;
        let mut shell = shell.stdin(Stdio::piped()).spawn().map_err(io)?;
        let input = shell.stdin.take();
        guard.keep();
        let mut server = Self { shell, input, dir, url };
        let ready = tokio::select! {
            ready = server.wait_until_ready() => ready.map_err(failed),
            () = stop.cancelled() => Err(LabError::Cancelled),
        };
        if let Err(error) = ready {
            server.stop().await;
            return Err(error);
        }
        Ok(server)
    }

    async fn wait_until_ready(&mut self) -> Result<(), Reason> {
        let started = Instant::now();
        let pool = PlainPool::open(&self.url, 1).map_err(|error| error.to_string())?;
        loop {
            let last = match pool.connection().await {
                Ok(connection) => {
                    drop(connection);
                    pool.close().await;
                    return Ok(());
                }
                Err(error) => error,
            };
            if started.elapsed() > START_TIMEOUT {
                tracing::warn!(%last, "a server of the lab does not answer");
                return Err(last_messages(&self.dir));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops it, and removes its files.
    pub(crate) async fn stop(&mut self) {
        self.input = None;
        if timeout(STOP_TIMEOUT, self.shell.wait()).await.is_err() {
            tracing::warn!(dir = %self.dir.display(), "a server of the lab does not stop");
            return;
        }
        // The user of the server may not remove its directory from one that only root can write to.
        match std::fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, dir = %self.dir.display(), "a directory of the lab is left");
            }
            _ => {}
        }
    }
}

/// Finds the programs of a database.
///
/// # Errors
/// They are not installed.
fn programs(database: Database) -> Result<Programs> {
    let found = match database {
        Database::Sqlite => Some(Programs::None),
        Database::Mariadb => sql_programs::mariadb().and_then(|server| {
            let tables = sql_programs::mariadb_system_tables(&server)?;
            Some(Programs::Mariadb { server, tables })
        }),
        Database::Mysql => sql_programs::mysql().map(Programs::Mysql),
        Database::Postgres => sql_programs::postgres("postgres")
            .zip(sql_programs::postgres("initdb"))
            .map(|(server, initdb)| Programs::Postgres { server, initdb }),
    };
    found.ok_or_else(|| LabError::Database(database, Label("lab-server-missing").into()))
}

/// Checks that the programs of a database are installed.
///
/// # Errors
/// They are not.
pub(crate) fn find(database: Database) -> Result<()> {
    programs(database).map(drop)
}

/// Removes a directory when it is dropped.
struct Removed(Option<PathBuf>);

impl Removed {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

fn spawn_creation(
    mut command: Command,
    dir: &Path,
    log: &File,
    owner: Option<Owner>,
) -> io::Result<Child> {
    prepare(&mut command, dir, log, owner)?;
    command.stdin(Stdio::piped()).kill_on_drop(true).spawn()
}

async fn finish_creation(child: &mut Child, input: &[u8]) -> io::Result<ExitStatus> {
    if let Some(mut stdin) = child.stdin.take() {
        // It may end without having read all; its status says why.
        let _ = stdin.write_all(input).await;
    }
    child.wait().await
}

/// Sets the directory, the output and the user; Ctrl-C in the terminal is for this process only.
fn prepare(command: &mut Command, dir: &Path, log: &File, owner: Option<Owner>) -> io::Result<()> {
    command.current_dir(dir).stdout(log.try_clone()?).stderr(log.try_clone()?).process_group(0);
    // Its messages are in English, and its start does not depend on an installed locale.
    command.env("LC_ALL", "C");
    if let Some(Owner { uid, gid }) = owner {
        command.uid(uid).gid(gid);
    }
    Ok(())
}

fn mariadb(dir: &Path, server: &Path, tables: &[PathBuf]) -> Result<Recipe, Reason> {
    let mut create = mysql_or_mariadb(dir, server);
    create.args(["--innodb-log-file-size=32M", "--bootstrap"]);
    // Bootstrap mode reads one statement per line. Without an entry, root has no password; the directory is private.
    let mut input = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_vec();
    for file in tables {
        input.extend(std::fs::read(file).map_err(|error| OsError::of(&error))?);
    }
    input.extend(b"\nCREATE DATABASE lab;\n");
    let mut run = serving(dir, server);
    run.arg("--innodb-log-file-size=32M");
    std::fs::create_dir(dir.join("data")).map_err(|error| OsError::of(&error))?;
    Ok(Recipe { create: (create, input), run, end: "TERM", url: mysql_url(dir) })
}

fn mysql(dir: &Path, server: &Path) -> Result<Recipe, Reason> {
    // It creates its tables itself, and the directory of its data.
    let statements = dir.join("init.sql");
    std::fs::write(&statements, "CREATE DATABASE lab;\n").map_err(|error| OsError::of(&error))?;
    let mut create = mysql_or_mariadb(dir, server);
    create.arg("--initialize-insecure").arg(format!("--init-file={}", statements.display()));
    let mut run = serving(dir, server);
    // No second protocol, no files of statements, no statistics.
    run.args(["--mysqlx=OFF", "--secure-file-priv=NULL", "--performance-schema=OFF"]);
    Ok(Recipe { create: (create, Vec::new()), run, end: "TERM", url: mysql_url(dir) })
}

/// The common part of the commands that create and run a database in `dir`.
fn mysql_or_mariadb(dir: &Path, server: &Path) -> Command {
    let mut command = Command::new(server);
    command.arg("--no-defaults").arg(format!("--datadir={}", dir.join("data").display()));
    command.arg(format!("--tmpdir={}", dir.display())).arg("--skip-log-bin");
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command
}

fn serving(dir: &Path, server: &Path) -> Command {
    let mut run = mysql_or_mariadb(dir, server);
    run.arg("--skip-networking").arg(format!("--socket={}", socket(dir).display()));
    run.arg(format!("--max-connections={CONNECTIONS}"));
    // MariaDB since 11.6: a transaction that locks a row which was changed since it began to read fails. The tutorials are
    // written for MySQL, which has no such setting, as older versions.
    run.arg("--loose-innodb-snapshot-isolation=OFF");
    run
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("s")
}

fn mysql_url(dir: &Path) -> String {
    format!("mysql://root@localhost/lab?socket={}", socket(dir).display())
}

fn postgres(dir: &Path, server: PathBuf, initdb: PathBuf) -> Recipe {
    let data = dir.join("data");
    let mut create = Command::new(initdb);
    create.arg("-D").arg(&data);
    create.args(["-U", "root", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
    let mut run = Command::new(server);
    run.arg("-D").arg(&data).arg("-k").arg(dir).args(["-h", ""]);
    run.arg("-c").arg(format!("max_connections={CONNECTIONS}"));
    let url = format!("postgres://root@localhost/postgres?host={}", dir.display());
    // SIGINT: a fast shutdown.
    Recipe { create: (create, Vec::new()), run, end: "INT", url }
}

/// The user for a server that refuses to run as root; `None` for the current user.
fn other_than_root() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].iter().find_map(|name| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some(Owner { uid: fields.next()?.ok()?, gid: fields.next()?.ok()? })
    })
}

/// A new private directory.
fn new_dir(owner: Option<Owner>) -> io::Result<PathBuf> {
    let dir = tempfile::Builder::new().prefix("seckill-lab-").tempdir()?;
    if let Some(Owner { uid, gid }) = owner {
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(gid))?;
    }
    Ok(dir.keep())
}

fn late() -> Reason {
    reason!("lab-instance-late", seconds = START_TIMEOUT.as_secs())
}

fn open_log(dir: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(dir.join("log"))
}

/// Why a server did not start.
fn last_messages(dir: &Path) -> Reason {
    let log = std::fs::read(dir.join("log")).unwrap_or_default();
    match summary(&String::from_utf8_lossy(&log)) {
        Some(messages) => messages.into(),
        None => Label("lab-instance-ended").into(),
    }
}

/// The first errors of a log, since those that follow are their consequences; without one, its last lines.
fn summary(log: &str) -> Option<String> {
    const ERRORS: [&str; 4] = ["[ERROR]", "FATAL:", "PANIC:", "error:"];
    const MOST: usize = 3;
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&str| ERRORS.iter().any(|it| line.contains(it));
    let errors: Vec<&str> = lines.iter().copied().filter(is_error).take(MOST).collect();
    let last = lines.get(lines.len().saturating_sub(MOST)..).unwrap_or_default();
    let chosen = if errors.is_empty() { last } else { &errors };
    (!chosen.is_empty()).then(|| chosen.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_exit_is_the_first_error() {
        let log = "9:00 0 [Warning] CA certificate is self signed.\n\
                   9:00 0 [ERROR] Unable to lock ./ibdata1\n9:00 0 [ERROR] Unknown engine\n\
                   9:00 0 [ERROR] Aborting\n9:00 0 [Note] Shutdown complete\n";
        let expected = "9:00 0 [ERROR] Unable to lock ./ibdata1; 9:00 0 [ERROR] Unknown engine; \
                        9:00 0 [ERROR] Aborting";
        assert_eq!(summary(log).as_deref(), Some(expected));
        let postgres = "LOG:  starting\nFATAL:  could not map memory\nHINT:  more memory\n\
                        LOG:  database system is shut down\n";
        assert_eq!(summary(postgres).as_deref(), Some("FATAL:  could not map memory"));
        assert_eq!(summary("one\n\ntwo\n").as_deref(), Some("one; two"));
        assert_eq!(summary("\n"), None);
    }
}
