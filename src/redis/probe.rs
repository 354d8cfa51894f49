//! Short commands to a server over its socket, each with a timeout.
//!
//! Uses blocking calls, because it also runs during process exit without a runtime; a server that was stopped in the
//! middle of a reply must not block the caller.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use redis::{Cmd, ServerErrorKind, Value};

use seckill_model::message::Label;

use super::flock;

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
    let Ok(pong) = connection.ask(&redis::cmd("PING")) else { return Presence::Silent };
    // PING also fails on a full disk; a server that refuses is running.
    let loading = matches!(
        &pong,
        Value::ServerError(fault) if fault.kind() == Some(ServerErrorKind::BusyLoading)
    );
    let Ok(answer) = connection.ask(redis::cmd("CONFIG").arg("GET").arg("dir")) else {
        return Presence::Silent;
    };
    match redis::from_redis_value::<(String, String)>(answer) {
        Ok((_, at)) if Path::new(&at) != dir => Presence::Foreign(at.into()),
        Ok(_) if loading => Presence::Loading,
        Ok(_) => Presence::Ready,
        Err(_) => Presence::Foreign(Label("redis-unknown-directory").to_owned().into()),
    }
}

/// Whether the server acknowledged writes that are not in its append-only file. Redis 7.0 would lose them on SHUTDOWN.
pub(super) fn holds_unwritten(socket: &Path) -> bool {
    let Ok(mut connection) = Connection::open(socket) else { return false };
    match connection.ask(redis::cmd("INFO").arg("persistence")) {
        Ok(Value::BulkString(info)) => {
            String::from_utf8_lossy(&info).contains("aof_last_write_status:err")
        }
        _ => false,
    }
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
    while !is_free(&lock) {
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

fn is_free(lock: &File) -> bool {
    let free = flock::try_exclusive(lock).unwrap_or(false);
    if free {
        flock::release(lock);
    }
    free
}

/// Shuts down a server over an open connection: its socket may be gone.
pub(super) fn end_now(connection: &mut Connection) {
    // Its memory content has no destination any more.
    let _ = connection.ask(redis::cmd("SHUTDOWN").arg("NOSAVE").arg("NOW").arg("FORCE"));
}

fn ask_to_end(socket: &Path, force: bool) {
    let mut cmd = redis::cmd("SHUTDOWN");
    if force {
        cmd.arg("FORCE");
    }
    // The reply is the end of the connection.
    if let Ok(mut connection) = Connection::open(socket) {
        let _ = connection.ask(&cmd);
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connection(UnixStream);

impl Connection {
    pub(super) fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self(stream))
    }

    fn ask(&mut self, cmd: &Cmd) -> io::Result<Value> {
        self.0.write_all(&cmd.get_packed_command())?;
        let mut answer = Vec::new();
        let mut part = [0_u8; 4096];
        loop {
            let read = self.0.read(&mut part)?;
            answer.extend_from_slice(part.get(..read).unwrap_or_default());
            match redis::parse_redis_value(&answer) {
                Ok(value) => return Ok(value),
                // Partial read; more follows.
                Err(_) if read > 0 && answer.len() < 64 * 1024 => {}
                Err(fault) => return Err(io::Error::other(fault)),
            }
        }
    }
}
