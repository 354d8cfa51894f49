//! A MariaDB or PostgreSQL server in a temporary directory.
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

use crate::{Database, LabError, Result};

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
        // Postgres refuses to run as root.
        let owner = if database == Database::Postgres { other_than_root() } else { None };
        let dir = new_dir(owner).map_err(io)?;
        // From here on, the shell or this guard removes the directory.
        let guard = Removed(Some(dir.clone()));
        let recipe = match database {
            Database::Mariadb => mariadb(&dir),
            Database::Postgres => postgres(&dir),
            Database::Sqlite => Err(Label("lab-server-missing").into()),
        };
        let Recipe { create, mut run, end, url } = recipe.map_err(failed)?;
        let log = File::options().create(true).append(true).open(dir.join("log")).map_err(io)?;
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
    if let Some(Owner { uid, gid }) = owner {
        command.uid(uid).gid(gid);
    }
    Ok(())
}

fn mariadb(dir: &Path) -> Result<Recipe, Reason> {
    let places = ["/usr/sbin", "/usr/libexec"].map(PathBuf::from);
    let path = program(&["mariadbd", "mysqld"], &places).ok_or(Label("lab-server-missing"))?;
    let socket = dir.join("s");
    let common = || {
        let mut command = Command::new(&path);
        command.arg("--no-defaults").arg(format!("--datadir={}", dir.join("data").display()));
        command.arg(format!("--tmpdir={}", dir.display()));
        command.args(["--innodb-log-file-size=32M", "--skip-log-bin", "--skip-networking"]);
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    };
    let mut create = common();
    create.arg("--bootstrap");
    // Bootstrap mode reads one statement per line. Without an entry, root has no password; the directory is private.
    let mut input = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_vec();
    let share = share().ok_or(Label("lab-server-missing"))?;
    for file in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
        input.extend(std::fs::read(share.join(file)).map_err(|error| OsError::of(&error))?);
    }
    input.extend(b"\nCREATE DATABASE lab;\n");
    let mut run = common();
    run.arg(format!("--socket={}", socket.display()))
        .arg(format!("--max-connections={CONNECTIONS}"));
    let url = format!("mysql://root@localhost/lab?socket={}", socket.display());
    std::fs::create_dir(dir.join("data")).map_err(|error| OsError::of(&error))?;
    Ok(Recipe { create: (create, input), run, end: "TERM", url })
}

/// The directory of the server's SQL files.
fn share() -> Option<PathBuf> {
    let prefixes = ["/usr/share", "/usr/local/share", "/opt/homebrew/share"];
    let places = prefixes.iter().flat_map(|prefix| {
        ["mysql", "mariadb"].iter().map(move |name| Path::new(prefix).join(name))
    });
    places.into_iter().find(|place| place.join("mysql_system_tables.sql").is_file())
}

fn postgres(dir: &Path) -> Result<Recipe, Reason> {
    let places = postgres_places();
    let find = |name| program(&[name], &places).ok_or(Reason::from(Label("lab-server-missing")));
    let data = dir.join("data");
    let mut create = Command::new(find("initdb")?);
    create.arg("-D").arg(&data);
    create.args(["-U", "root", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
    let mut run = Command::new(find("postgres")?);
    run.arg("-D").arg(&data).arg("-k").arg(dir).args(["-h", ""]);
    run.arg("-c").arg(format!("max_connections={CONNECTIONS}"));
    let url = format!("postgres://root@localhost/postgres?host={}", dir.display());
    // SIGINT: a fast shutdown.
    Ok(Recipe { create: (create, Vec::new()), run, end: "INT", url })
}

/// Debian keeps the servers of several versions beside each other, off PATH: the newest comes first.
fn postgres_places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    places.sort_by_key(|place| {
        let version = place.parent().and_then(Path::file_name).and_then(|it| it.to_str());
        std::cmp::Reverse(version.and_then(|it| it.parse::<u32>().ok()))
    });
    places
}

/// The first of `programs` on PATH or in `places`.
fn program(programs: &[&str], places: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An empty entry would mean the working directory.
    let on_path = std::env::split_paths(&path).filter(|it| it.is_absolute());
    // A wrapper on PATH may be for another purpose: the packaged programs come first.
    let dirs: Vec<PathBuf> = places.iter().cloned().chain(on_path).collect();
    programs.iter().find_map(|name| dirs.iter().map(|dir| dir.join(name)).find(|it| it.is_file()))
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

/// The last messages of a server.
fn last_messages(dir: &Path) -> Reason {
    let log = std::fs::read(dir.join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ");
    if last.is_empty() { Label("lab-instance-ended").into() } else { last.into() }
}
