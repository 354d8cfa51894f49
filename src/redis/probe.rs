//! A few words with a server over its socket, each bounded in time.
//!
//! Plain blocking calls, since they also run while a process ends and no runtime is left; and a
//! server that was stopped in the middle of a word must not hold anybody up. It must not know
//! who started the server.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use redis::{Cmd, ServerErrorKind, Value};

use super::flock;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Who is behind a socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Our server, ready to work.
    Ready,
    /// Our server, still reading its append-only file.
    Loading,
    /// A server that works in another directory.
    Foreign(PathBuf),
    /// Nobody, or one that doesn't answer.
    Silent,
}

/// Asks who answers at `socket`; our server is the one that works in `dir`.
pub(super) fn look(socket: &Path, dir: &Path) -> Presence {
    let Ok(mut line) = Line::open(socket) else { return Presence::Silent };
    let Ok(pong) = line.ask(&redis::cmd("PING")) else { return Presence::Silent };
    // PING is refused while the disk is full, too; a server that refuses is there.
    let loading = matches!(
        &pong,
        Value::ServerError(fault) if fault.kind() == Some(ServerErrorKind::BusyLoading)
    );
    let Ok(answer) = line.ask(redis::cmd("CONFIG").arg("GET").arg("dir")) else {
        return Presence::Silent;
    };
    match redis::from_redis_value::<(String, String)>(answer) {
        Ok((_, at)) if Path::new(&at) != dir => Presence::Foreign(at.into()),
        Ok(_) if loading => Presence::Loading,
        Ok(_) => Presence::Ready,
        Err(_) => Presence::Foreign(PathBuf::from("a place it does not tell")),
    }
}

/// Whether the server has answered for writes that it could not put into its append-only file. Ended
/// now, it would lose them: Redis 7.0 ends all the same when it is asked to.
pub(super) fn holds_unwritten(socket: &Path) -> bool {
    let Ok(mut line) = Line::open(socket) else { return false };
    match line.ask(redis::cmd("INFO").arg("persistence")) {
        Ok(Value::BulkString(info)) => {
            String::from_utf8_lossy(&info).contains("aof_last_write_status:err")
        }
        _ => false,
    }
}

/// Asks our server to end, and waits at most `bound` until it has let go of its lock.
///
/// `push` is called again and again in the second half of the wait, for whoever can do more than
/// ask. Says whether the server is gone.
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

/// Asks a server to end, over a connection that was opened before: its socket may be gone.
pub(super) fn end_now(line: &mut Line) {
    // What it holds in memory has no place any more.
    let _ = line.ask(redis::cmd("SHUTDOWN").arg("NOSAVE").arg("NOW").arg("FORCE"));
}

fn ask_to_end(socket: &Path, force: bool) {
    let mut cmd = redis::cmd("SHUTDOWN");
    if force {
        cmd.arg("FORCE");
    }
    // The answer is the end of the connection.
    if let Ok(mut line) = Line::open(socket) {
        let _ = line.ask(&cmd);
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Line(UnixStream);

impl Line {
    pub(super) fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
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
                // It came in pieces; more is on its way.
                Err(_) if read > 0 && answer.len() < 64 * 1024 => {}
                Err(fault) => return Err(io::Error::other(fault)),
            }
        }
    }
}
