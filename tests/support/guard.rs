//! A server supervised by a shell that stops it with its test, even if the test is killed.
//!
//! The shell is the parent of the server and reads from a pipe whose other end only this process has. However
//! this process ends, the pipe closes; then the shell stops the server and removes its directory.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, UdpSocket},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, came_true, stands_still, wait_until_blocking};

/// `$1` is the stop signal of the server, `$2` its directory, `$3` the source of `data` in it if that is
/// missing, the rest its command. A separate process group prevents Ctrl-C from ending the shell before
/// the clean-up.
const SHELL: &str = r#"
end=$1 dir=$2 from=$3; shift 3
exec 3<&0
[ -z "$from" ] || [ -e "$dir/data" ] || cp -a "$from" "$dir/data"
"$@" 3<&- </dev/null &
server=$!
echo $server
word=
read -r word <&3
kill -s CONT $server 2>/dev/null
kill -s $end $server 2>/dev/null
wait $server
[ "$word" = keep ] || rm -rf -- "$dir"
"#;

/// User ID and group ID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A running server.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
    pid: Pid,
}

impl Guard {
    /// Removes `dir` at the end of this process.
    pub(super) fn of_files(dir: &Path, owner: Option<Owner>) -> Self {
        Self::start(&Command::new("true"), dir, None, "KILL", owner).unwrap()
    }

    /// Starts `command` in `dir`, initially with a copy of `data`; its output goes to `log`, and it is stopped
    /// with the signal `end`.
    pub(super) fn start(
        command: &Command,
        dir: &Path,
        data: Option<&Path>,
        end: &str,
        owner: Option<Owner>,
    ) -> Result<Self, String> {
        let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SHELL, "guard", end]).arg(dir).arg(data.unwrap_or(Path::new("")));
        shell.arg(command.get_program());
        // Its messages are in English, and its start does not depend on an installed locale.
        shell.args(command.get_args()).current_dir(dir).process_group(0).env("LC_ALL", "C");
        if let Some(Owner { uid, gid }) = owner {
            shell.uid(uid).gid(gid);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).unwrap();
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pipe = shell.stdin.take();
        match pid {
            Some(pid) => Ok(Self { shell, pipe, pid }),
            None => Err(format!("/bin/sh did not start the server: {line:?}")),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it has exited by itself; its parent reaps it at the end.
    pub(super) fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        match stat {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => rustix::process::test_kill_process(self.pid).is_err(),
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        for pid in self.family() {
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGSTOP for it and its children; returns once all of them are stopped.
    pub(super) fn freeze(&self) {
        wait_until_blocking(PATIENCE, "it is suspended", || {
            self.signal(Signal::STOP);
            self.family().into_iter().all(stands_still)
        });
    }

    /// SIGKILL for it and its children; returns once they are gone; the directory is kept.
    pub(super) fn kill(mut self) {
        let family = self.family();
        for pid in &family {
            let _ = kill_process(*pid, Signal::KILL);
        }
        self.end(b"keep\n");
        came_true(PATIENCE, || {
            family.iter().all(|pid| !Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists())
        });
    }

    /// The server first, then its children: PostgreSQL has one for each connection.
    fn family(&self) -> Vec<Pid> {
        let server = self.pid.as_raw_nonzero().get();
        let is_child = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
            parent.is_some_and(|it| it == server.to_string())
        };
        let processes = fs::read_dir("/proc").into_iter().flatten();
        let children = processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(is_child)
            .filter_map(Pid::from_raw);
        std::iter::once(self.pid).chain(children).collect()
    }

    fn end(&mut self, word: &[u8]) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(word);
        }
        let _ = self.shell.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end(b"");
    }
}

/// The user for servers that refuse to run as root; `None` for the current user.
pub(super) fn other_than_root(names: &[&str]) -> Option<Owner> {
    static USERS: OnceLock<String> = OnceLock::new();
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = USERS.get_or_init(|| fs::read_to_string("/etc/passwd").unwrap_or_default());
    names.iter().find_map(|name| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some(Owner { uid: fields.next()?.ok()?, gid: fields.next()?.ok()? })
    })
}

/// A new directory that the guard removes.
pub(super) fn new_dir(owner: Option<Owner>) -> PathBuf {
    let dir = tempfile::Builder::new().prefix("seckill-").tempdir().unwrap().keep();
    give(&dir, owner);
    dir
}

pub(super) fn give(dir: &Path, owner: Option<Owner>) {
    if let Some(Owner { uid, gid }) = owner {
        std::os::unix::fs::chown(dir, Some(uid), Some(gid)).unwrap();
    }
}

/// A loopback port that no other test gets while this value lives, also while its server is down:
/// clients that reconnect to a killed server must not reach that of another test.
///
/// The UDP port of the same number, which no server uses, is the reservation: it holds across
/// processes and ends with them.
#[derive(Debug)]
pub struct Port {
    pub number: u16,
    _reservation: UdpSocket,
}

impl Port {
    /// A free port whose cluster bus port, 10,000 above, is free as well.
    ///
    /// Below the ephemeral range: there, a client that reconnects to a killed server could
    /// take its port, and even connect to itself.
    pub fn free() -> Self {
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        let mut tries = (0..1_000).map(|_| rand::random_range(12_000..22_000));
        let port = tries.find_map(|number| {
            let reservation = UdpSocket::bind(("127.0.0.1", number)).ok()?;
            (is_free(number) && is_free(number + 10_000))
                .then_some(Self { number, _reservation: reservation })
        });
        port.expect("a free port")
    }
}
