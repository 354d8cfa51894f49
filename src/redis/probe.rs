//! Short commands to a server over its socket, each with a timeout.
//!
//! Uses blocking calls, because it also runs during process exit without a runtime; a server that was stopped in the
//! middle of a reply must not block the caller.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use redis::{
    Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, InfoDict, RedisResult, ServerErrorKind,
    cmd,
};

use seckill_model::message::Label;

use super::{Layout, error::server_error, flock};

/// Timeout of one reply.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Which server responds at a socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Our server, ready.
    Ready,
    /// Our server, loading its append-only file.
    Loading,
    /// A server with another working directory.
    Foreign(PathBuf),
    /// No server, or an unresponsive one.
    Silent,
}

/// Checks which server responds at `socket`; ours has the working directory `dir`.
pub(super) fn look(socket: &Path, dir: &Path) -> Presence {
    let Ok(mut connection) = Connection::open(socket) else { return Presence::Silent };
    // PING also fails on a full disk; a server that refuses is running.
    let loading = match connection.ask::<String>(&cmd("PING")) {
        Ok(_) => false,
        Err(error) if server_error(&error).is_none() => return Presence::Silent,
        Err(error) => error.kind() == ErrorKind::Server(ServerErrorKind::BusyLoading),
    };
    match connection.ask::<(String, String)>(cmd("CONFIG").arg("GET").arg("dir")) {
        Ok((_, at)) if Path::new(&at) != dir => Presence::Foreign(at.into()),
        Ok(_) if loading => Presence::Loading,
        Ok(_) => Presence::Ready,
        Err(error) if error.is_io_error() => Presence::Silent,
        Err(_) => Presence::Foreign(Label("redis-unknown-directory").to_owned().into()),
    }
}

/// Whether the server acknowledged writes that are not in its append-only file. Redis 7.0 would lose them on SHUTDOWN.
pub(super) fn holds_unwritten(socket: &Path) -> bool {
    let Ok(mut connection) = Connection::open(socket) else { return false };
    let asked = connection.ask::<InfoDict>(cmd("INFO").arg("persistence"));
    asked.is_ok_and(|info| info.get::<String>("aof_last_write_status").as_deref() == Some("err"))
}

/// Shuts down our server and waits at most `bound` until its lock is released.
///
/// `push` is called repeatedly in the second half of the wait, to allow stronger measures. Returns whether the server
/// has ended.
pub(super) fn stop(
    socket: &Path,
    dir: &Path,
    lock: &Path,
    bound: Duration,
    mut push: impl FnMut(),
) -> bool {
    let Ok(lock) = flock::open(lock) else { return false };
    let started = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    while !flock::is_free(&lock) {
        if started.elapsed() > bound {
            return false;
        }
        let late = started.elapsed() > bound / 2;
        if asked.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            if matches!(look(socket, dir), Presence::Ready | Presence::Loading) {
                asked = Some(Instant::now());
                ask_to_end(socket, late);
            }
            if late {
                push();
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

/// Shuts down a server over an open connection: its socket may be gone.
pub(super) fn end_now(connection: &mut Connection) {
    // Its memory content has no destination any more.
    let _ = connection.ask::<()>(cmd("SHUTDOWN").arg("NOSAVE").arg("NOW").arg("FORCE"));
}

fn ask_to_end(socket: &Path, force: bool) {
    // The reply is the end of the connection.
    if let Ok(mut connection) = Connection::open(socket) {
        // Written last: a process that finds it after the next start knows that nothing before it was lost. If it is there, no node
        // has started since the run that it names, and a command without one has left nothing that could be lost.
        let info = connection.ask::<InfoDict>(cmd("INFO").arg("server"));
        if let Some(run) = info.ok().and_then(|info| info.get::<String>("run_id")) {
            let stopped = Layout::default().home().stopped();
            let _ = connection.ask::<()>(cmd("SET").arg(stopped).arg(run).arg("NX"));
        }
        let _ = connection.ask::<()>(cmd("SHUTDOWN").arg(force.then_some("FORCE")));
    }
}

/// A connection to a server.
pub(super) struct Connection(redis::Connection);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn open(socket: &Path) -> RedisResult<Self> {
        let client = Client::open(ConnectionAddr::Unix(socket.to_path_buf()))?;
        let connection = client.get_connection_with_timeout(ANSWER_TIMEOUT)?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self(connection))
    }

    fn ask<T: FromRedisValue>(&mut self, cmd: &Cmd) -> RedisResult<T> {
        cmd.query(&mut self.0)
    }
}
