//! The Redis server that the program manages in its data directory.
//!
//! Redis does not lock its append-only files, and two servers would corrupt them. So each starter takes an exclusive
//! lock on `redis/server.lock` and passes the open file to the server as standard input: the server holds the lock as
//! long as it lives, even if its starter is killed. No PID file is used.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use seckill_model::{OsError, reason::reason};

use super::{
    DataDirError,
    data_dir::{DataDir, DirId},
    flock,
    permissions::make_dir,
    probe::{self, Connection, Presence},
    server_binary::find_server_on,
};

/// Timeout for a server of another process to respond, or for ours to start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout while it loads its append-only file.
const LOADING_TIMEOUT: Duration = Duration::from_mins(1);
/// How often its directory is checked: writes to a removed directory are lost.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of a shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer log of the server is truncated.
const MAX_LOG: u64 = 1024 * 1024;

/// A server in a data directory, started by its first user. Clones share one use.
///
/// Each [`DataDir`] has one of these; a second user in the same process opens the directory again.
#[derive(Clone, Debug)]
pub struct ManagedServer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: DataDir,
    /// Search path of the server program.
    search: OsString,
    /// The server, if it is a child of this process. Locked while it is started or stopped.
    child: Mutex<Option<Child>>,
    detached: AtomicBool,
    /// Held while this process leaves: a second caller returns only after the server has ended.
    leaving: Mutex<()>,
    /// Directory of its files.
    redis_id: DirId,
    /// Kept open in case the socket is removed.
    connection: Mutex<Option<Connection>>,
    watched: AtomicBool,
}

/// A server starts within this time or loads a long file; until then it is polled every millisecond.
const STARTUP: Duration = Duration::from_millis(200);

impl ManagedServer {
    /// Registers as a user of the server in `dir`; [`ManagedServer::ensure`] starts it if necessary.
    pub fn attach(dir: &DataDir) -> Result<Self, DataDirError> {
        Self::attach_searching(dir, std::env::var_os("PATH").unwrap_or_default())
    }

    /// Like [`Self::attach`], with another search path for the server program.
    pub fn attach_searching(dir: &DataDir, search: OsString) -> Result<Self, DataDirError> {
        dir.enter()?;
        let redis_dir = dir.redis_dir();
        make_dir(&redis_dir)?;
        Ok(Self(Arc::new(Inner {
            dir: dir.clone(),
            search,
            child: Mutex::new(None),
            detached: AtomicBool::new(false),
            leaving: Mutex::default(),
            redis_id: DirId::of(&redis_dir).map_err(DataDirError::of(&redis_dir))?,
            connection: Mutex::default(),
            watched: AtomicBool::new(false),
        })))
    }

    /// Its data directory.
    pub(super) fn dir(&self) -> &DataDir {
        &self.0.dir
    }

    /// The server's socket.
    pub fn socket(&self) -> &Path {
        self.0.dir.socket_path()
    }

    /// Makes sure that a server responds; starts one if none is running. Safe to call concurrently from many tasks and
    /// processes: one of them starts the server.
    pub async fn ensure(&self) -> Result<(), DataDirError> {
        let inner = Arc::clone(&self.0);
        // Blocking, so that it is not interrupted when the caller is cancelled.
        let done = tokio::task::spawn_blocking(move || inner.ensure()).await;
        done.map_err(|_| ending())??;
        if !self.0.watched.swap(true, Ordering::AcqRel) {
            tokio::spawn(watch(Arc::downgrade(&self.0)));
        }
        Ok(())
    }

    /// Checks that the directory of the server's files still exists. The server is ended soon after its removal.
    pub fn check(&self) -> Result<(), DataDirError> {
        self.0.check()
    }

    /// Unregisters as a user of the server and of the data directory. The last user stops the server.
    pub async fn detach(&self) -> Result<(), DataDirError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || inner.detach()).await;
        done.map_err(|_| ending())?
    }
}

/// The runtime is shutting down.
fn ending() -> DataDirError {
    DataDirError(reason!("redis-server-ending"))
}

/// Ends the server once its files are gone: it would respond without persisting anything.
async fn watch(server: Weak<Inner>) {
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let Some(server) = server.upgrade() else { return };
        if server.detached.load(Ordering::Acquire) {
            return;
        }
        if let Err(gone) = server.check() {
            tracing::error!(error = %gone, "stopping the Redis server");
            // Blocking, with a timeout.
            let _ = tokio::task::spawn_blocking(move || server.end_without_files()).await;
            return;
        }
    }
}

impl Inner {
    fn check(&self) -> Result<(), DataDirError> {
        self.dir.check()?;
        self.redis_id.check(&self.dir.redis_dir())
    }

    /// Ends a server whose files are gone: over the open connection, or by a signal if it is our child.
    fn end_without_files(&self) {
        if let Some(connection) = self.connection.lock().as_mut() {
            probe::end_now(connection);
        }
        if let Some(mut child) = self.child.lock().take() {
            // A kill loses nothing that is not already lost.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.dir.redis_dir().join("server.lock")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.redis_dir().join("redis.log")
    }

    fn ensure(&self) -> Result<(), DataDirError> {
        let mut child = self.child.lock();
        let redis_dir = self.dir.redis_dir();
        let socket = self.dir.socket_path();
        let started = Instant::now();
        // Stays set: a server that loads a long file may miss a probe.
        let mut loading = false;
        // Set once this call has started a server: offset of its messages in the log.
        let mut log_offset: Option<u64> = None;
        let mut pause = Duration::from_millis(1);
        loop {
            if self.detached.load(Ordering::Acquire) {
                return Err(DataDirError(reason!("redis-server-detached")));
            }
            let ended = child.as_mut().is_some_and(|it| it.try_wait().is_ok_and(|it| it.is_some()));
            if ended {
                *child = None;
                if let Some(from) = log_offset {
                    return Err(self.last_messages(from));
                }
            }
            self.check()?;
            match probe::look(socket, &redis_dir) {
                Presence::Ready => {
                    *self.connection.lock() = Connection::open(socket).ok();
                    return Ok(());
                }
                Presence::Loading => loading = true,
                Presence::Foreign(dir) => {
                    let dir = dir.as_path();
                    return Err(DataDirError(reason!("redis-server-foreign", socket, dir)));
                }
                Presence::Silent => {
                    if let Some(lock) = self.try_lock()? {
                        let (server, from) = self.start(lock)?;
                        *child = Some(server);
                        log_offset = Some(from);
                        pause = Duration::from_millis(1);
                    }
                }
            }
            let limit = if loading { LOADING_TIMEOUT } else { ANSWER_TIMEOUT };
            if started.elapsed() > limit {
                return Err(if loading {
                    let seconds = LOADING_TIMEOUT.as_secs();
                    DataDirError(reason!("redis-server-loading", seconds))
                } else {
                    self.unresponsive()
                });
            }
            std::thread::sleep(pause);
            if started.elapsed() > STARTUP {
                pause = (pause * 3 / 2).min(Duration::from_millis(20));
            }
        }
    }

    fn unresponsive(&self) -> DataDirError {
        let (lock, log) = (self.lock_path(), self.log_path());
        let (lock, log, socket) = (lock.as_path(), log.as_path(), self.dir.socket_path());
        DataDirError(reason!("redis-server-silent", lock, socket, log))
    }

    /// Returns the lock that every server of this directory holds, if none is running.
    fn try_lock(&self) -> Result<Option<File>, DataDirError> {
        let path = self.lock_path();
        let lock = flock::open(&path).map_err(DataDirError::of(&path))?;
        let mine = flock::try_exclusive(&lock).map_err(DataDirError::of(&path))?;
        Ok(mine.then_some(lock))
    }

    /// Starts a server that holds `lock`; returns the offset of its messages in the log.
    fn start(&self, lock: File) -> Result<(Child, u64), DataDirError> {
        let binary = find_server_on(&self.search).map_err(DataDirError)?;
        let redis_dir = self.dir.redis_dir();
        let log_path = self.log_path();
        let (log, from) = open_log(&log_path).map_err(DataDirError::of(&log_path))?;
        let also_log = log.try_clone().map_err(DataDirError::of(&log_path))?;
        let mut command = binary.command();
        command
            .args(["--port", "0", "--unixsocketperm", "700", "--unixsocket"])
            .arg(self.dir.socket_path())
            .arg("--dir")
            .arg(&redis_dir)
            .args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""])
            .args(["--daemonize", "no", "--logfile"])
            .arg(&log_path)
            .current_dir(&redis_dir)
            .stdin(Stdio::from(lock))
            // Messages before it has read its settings.
            .stdout(Stdio::from(log))
            .stderr(Stdio::from(also_log))
            // Ctrl-C in the terminal is for the console only.
            .process_group(0);
        // The command is dropped at the end of this function, and with it our copy of the lock.
        match command.spawn() {
            Ok(child) => Ok((child, from)),
            Err(why) => {
                let (path, reason) = (binary.path.as_path(), OsError::from(why));
                Err(DataDirError(reason!("redis-server-spawn", path, reason)))
            }
        }
    }

    /// Why a server exited right after its start. Its exit status is the same for all causes, so its log is searched.
    fn last_messages(&self, from: u64) -> DataDirError {
        let (log, dir) = (self.log_path(), self.dir.redis_dir());
        let (log, dir) = (log.as_path(), dir.as_path());
        let messages = log_since(log, from).unwrap_or_default();
        if messages.contains("redis-check-aof") || messages.contains("AOF manifest file") {
            let manifest = dir.join("appendonlydir/appendonly.aof.manifest");
            let manifest = manifest.as_path();
            return DataDirError(reason!("redis-server-damaged", dir, manifest));
        }
        if messages.contains("No space left on device") {
            return DataDirError(reason!("redis-server-full", dir));
        }
        DataDirError(match summary(&messages) {
            Some(messages) => reason!("redis-server-died", messages, log),
            None => reason!("redis-server-died-silent", log),
        })
    }

    fn detach(&self) -> Result<(), DataDirError> {
        let _turn = self.leaving.lock();
        if self.detached.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if self.check().is_err() {
            self.end_without_files();
            self.dir.leave(|| ());
            return Ok(());
        }
        let mut child = self.child.lock();
        let unwritten = || probe::holds_unwritten(self.dir.socket_path());
        let stopped = self.dir.leave(|| (!unwritten()).then(|| self.stop(&mut child)));
        if let Some(child) = child.take() {
            reap_later(child);
        }
        match stopped {
            Some(None) => {
                let dir = self.dir.redis_dir();
                Err(DataDirError(reason!("redis-server-unwritten", dir = dir.as_path())))
            }
            Some(Some(false)) => {
                let socket = self.dir.socket_path();
                Err(DataDirError(reason!("redis-server-stuck", socket)))
            }
            Some(Some(true)) | None => Ok(()),
        }
    }

    /// Shuts the server down; kills it if it is our child and does not respond. Returns whether it has ended.
    fn stop(&self, child: &mut Option<Child>) -> bool {
        let mut terminate = || {
            if let Some(child) = child.as_mut()
                && let Ok(None) = child.try_wait()
                && let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32)
            {
                // Not reaped yet, so the PID is still that of this child.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        };
        let (socket, dir, lock) = (self.dir.socket_path(), self.dir.redis_dir(), self.lock_path());
        let gone = probe::stop(socket, &dir, &lock, SHUTDOWN_TIMEOUT, &mut terminate);
        if let Some(mut child) = child.take() {
            if !gone {
                let _ = child.kill();
            }
            if let Ok(None) = child.try_wait() {
                let _ = child.wait();
            }
            return true;
        }
        gone
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(child) = self.child.lock().take() {
            reap_later(child);
        }
    }
}

/// Reaps a child whenever it ends, because other processes may keep using the server.
fn reap_later(mut child: Child) {
    if let Ok(None) = child.try_wait() {
        // Without the thread it stays a zombie until this process ends, which is harmless.
        let _ = std::thread::Builder::new()
            .name("reaper".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || child.wait());
    }
}

/// The server's log, and its length at the start.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let mut length = log.metadata()?.len();
    if length > MAX_LOG {
        log.set_len(0)?;
        length = 0;
    }
    Ok((log, length))
}

/// Returns what was written after the first `from` bytes.
fn log_since(log: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(from))?;
    let mut log = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut log)?;
    Ok(String::from_utf8_lossy(&log).into_owned())
}

/// Why a server exited, from its log (`pid:M date # message`): the last warning, since a server warns of what ends it
/// and then exits. Advice about the system (`WARNING …`) is not a reason. Without a warning, the last lines, which
/// are those of a rejected setting; `None` for an empty log.
fn summary(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut warnings = lines.iter().filter_map(|line| Some(line.split_once(" # ")?.1.trim()));
    let fatal = warnings.rfind(|warning| !warning.starts_with("WARNING"));
    let last = || lines.get(lines.len().saturating_sub(2)..).unwrap_or_default().join("; ");
    fatal.map(str::to_owned).or_else(|| (!lines.is_empty()).then(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_exit_is_the_last_warning() {
        let last = |log| summary(log).unwrap_or_default();
        let log = "7:C 21 Nov 2026 05:00:00.0 # WARNING Memory overcommit must be enabled!\n\
                   7:C 21 Nov 2026 05:00:00.1 # Configuration loaded\n\
                   7:M 21 Nov 2026 05:00:00.1 * Ready\n\
                   7:M 21 Nov 2026 05:00:00.2 # Failed opening\n";
        assert_eq!(last(log), "Failed opening");
        let advice = "7:C 21 Nov 2026 05:00:00.0 # WARNING Memory overcommit must be enabled!\n\
                      7:M 21 Nov 2026 05:00:00.1 * Ready\n7:M 21 Nov 2026 05:00:00.2 * Exiting\n";
        assert!(last(advice).ends_with("Exiting"), "{}", last(advice));
        assert_eq!(last("\n*** FATAL ***\nBad directive\n"), "*** FATAL ***; Bad directive");
        assert_eq!(summary(""), None);
    }
}
