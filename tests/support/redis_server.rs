//! A real Redis or Valkey server for one test, which may be killed, frozen and restarted.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use redis::{Client, Connection, FromRedisValue, RedisResult};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, came_true, guard::Port};

/// Options of a server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    tcp: bool,
    password: Option<String>,
    args: Vec<String>,
    /// A sentinel stores its state in its configuration file.
    sentinel: Option<String>,
}

impl Setup {
    /// Listens on a free loopback port in addition to the socket; the URL contains the port.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Requires this password; the URL contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// A sentinel with this configuration in addition to its port.
    pub(super) fn sentinel(mut self, file: String) -> Self {
        self.sentinel = Some(file);
        self.tcp()
    }

    /// Additional arguments; the last one of each name counts.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Starts it and waits until it answers.
    pub fn start(&self) -> TestRedis {
        TestRedis::new(self)
    }
}

/// A server in its own directory, on a unix socket, with an append-only file; removed when it
/// is dropped.
#[derive(Debug)]
pub struct TestRedis {
    setup: Setup,
    port: Option<Port>,
    child: Option<Child>,
    socket: PathBuf,
    // Last, so that the server is gone before its directory.
    dir: TempDir,
    /// Those of the servers before a failover: the first has the socket.
    former: Vec<TempDir>,
}

impl TestRedis {
    pub fn start() -> Self {
        Setup::default().start()
    }

    pub fn setup() -> Setup {
        Setup::default()
    }

    fn new(setup: &Setup) -> Self {
        // A free port may be taken before the server binds it; then another one is tried.
        let most = if setup.tcp { 5 } else { 1 };
        let mut last = String::new();
        for _ in 0..most {
            let port = setup.tcp.then(Port::free);
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("redis.sock");
            let setup = setup.clone();
            let mut server = Self { setup, port, child: None, socket, dir, former: Vec::new() };
            match server.spawn() {
                Ok(()) => return server,
                Err(why) => last = why,
            }
        }
        panic!("{last}");
    }

    /// The URL for redis-rs and `--redis`: the port if there is one, else the socket.
    pub fn url(&self) -> String {
        let password = self.setup.password.as_deref();
        if self.setup.tcp {
            let login = password.map_or(String::new(), |p| format!(":{p}@"));
            format!("redis://{login}127.0.0.1:{}", self.port())
        } else {
            let login = password.map_or(String::new(), |p| format!("?pass={p}"));
            format!("unix://{}{login}", self.socket.display())
        }
    }

    /// The loopback port; 0 if it has only a socket.
    pub fn port(&self) -> u16 {
        self.port.as_ref().map_or(0, |port| port.number)
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// A connection for the test itself.
    pub fn connection(&self) -> Connection {
        self.try_connection().unwrap()
    }

    /// Runs one command on a new connection: `server.query(&["XLEN", "orders"])`.
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> T {
        self.try_query(command).unwrap()
    }

    /// Like `query`, but returns the error.
    pub fn try_query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let (name, args) = command.split_first().expect("a command");
        redis::cmd(name).arg(args).query(&mut self.try_connection()?)
    }

    /// Writes, and returns how many replicas acknowledge within a second: one connection for both, since WAIT
    /// covers the writes of its own connection and returns at once on one without writes.
    pub fn try_replicated(&self, write: &[&str], replicas: usize) -> RedisResult<usize> {
        let mut connection = self.try_connection()?;
        let (name, args) = write.split_first().expect("a command");
        redis::cmd(name).arg(args).query::<()>(&mut connection)?;
        redis::cmd("WAIT").arg(replicas).arg(1_000).query(&mut connection)
    }

    /// The commands that it executes meanwhile, one line each, as MONITOR reports them.
    pub async fn monitored(&self, work: impl AsyncFnOnce()) -> Vec<String> {
        let mut monitor = UnixStream::connect(&self.socket).unwrap();
        monitor.set_read_timeout(Some(PATIENCE)).unwrap();
        monitor.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(monitor).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        work().await;
        self.query::<String>(&["ECHO", "end of work"]);
        lines.take_while(|line| !line.contains("end of work")).collect()
    }

    /// Everything is in its file afterwards, and survives a kill. While the disk is busy, Redis postpones its writes: among
    /// them may be that a node has left, whose name is taken then.
    pub fn flush_file(&self) {
        for policy in ["always", "everysec"] {
            let _: String = self.query(&["CONFIG", "SET", "appendfsync", policy]);
        }
    }

    /// SIGKILL: no shutdown, nothing flushed.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGSTOP: connections stay open without replies.
    pub fn freeze(&self) {
        super::freeze(self.rustix_pid());
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        kill_process(self.rustix_pid(), Signal::CONT).unwrap();
    }

    /// Restarts it with its data, after a SIGKILL if it still runs.
    pub fn restart(&mut self) {
        self.kill();
        if let Err(why) = self.spawn() {
            panic!("{why}");
        }
    }

    /// Starts a replica and waits until it is in sync.
    pub fn replica(&self) -> Self {
        let replica = self.setup.start();
        // A server with only a socket listens at a port as long as a replica needs it.
        let link = Port::free();
        let port = link.number.to_string();
        self.query::<()>(&["CONFIG", "SET", "port", &port]);
        replica.query::<()>(&["REPLICAOF", "127.0.0.1", &port]);
        let in_sync = came_true(PATIENCE, || {
            replica.query::<String>(&["INFO", "replication"]).contains("master_link_status:up")
        });
        assert!(in_sync, "the replica is in sync");
        replica
    }

    /// Kills it and promotes its replica, which answers at the socket from then on.
    pub fn fail_over(&mut self, mut replica: Self) {
        self.kill();
        replica.query::<()>(&["REPLICAOF", "NO", "ONE"]);
        std::fs::rename(&replica.socket, &self.socket).unwrap();
        self.child = replica.child.take();
        let dir = std::mem::replace(&mut replica.dir, tempfile::tempdir().unwrap());
        self.former.push(std::mem::replace(&mut self.dir, dir));
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("the server runs"))
    }

    fn try_connection(&self) -> RedisResult<Connection> {
        let client = Client::open(self.url())?;
        let connection = loop {
            match client.get_connection_with_timeout(Duration::from_secs(5)) {
                // The exit of a child interrupts this thread with a signal, which ends a wait with a timeout.
                Err(error) if error.to_string().starts_with("Interrupted") => {}
                result => break result?,
            }
        };
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(connection)
    }

    fn spawn(&mut self) -> Result<(), String> {
        let log = self.dir.path().join("log");
        let out = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = server_command();
        command.current_dir(self.dir.path());
        let port = self.port().to_string();
        if let Some(learnt) = &self.setup.sentinel {
            let file = self.dir.path().join("sentinel.conf");
            if !file.exists() {
                std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\ndir .\n{learnt}"))
                    .unwrap();
            }
            command.arg(file).arg("--sentinel");
        } else {
            command
                .args(["--port", &port, "--bind", "127.0.0.1", "--dir", ".", "--save", ""])
                .args(["--appendonly", "yes", "--unixsocketperm", "700", "--unixsocket"])
                .arg(&self.socket);
        }
        if let Some(password) = &self.setup.password {
            command.args(["--requirepass", password]);
        }
        command.args(&self.setup.args);
        command.stdin(Stdio::null()).stderr(out.try_clone().unwrap()).stdout(out);
        self.child = Some(command.spawn().unwrap());

        let mut ended = false;
        let answers = came_true(PATIENCE, || {
            let child = self.child.as_mut().expect("just spawned");
            ended = child.try_wait().unwrap().is_some();
            ended || self.answers()
        });
        if answers && !ended {
            return Ok(());
        }
        self.kill();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        Err(format!("the Redis server of this test did not start; it says:\n{log}"))
    }

    fn answers(&self) -> bool {
        let ping = |mut it: Connection| redis::cmd("PING").query::<String>(&mut it);
        self.try_connection().and_then(ping).is_ok()
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The first real server program on PATH, with the name that makes it a server.
fn server_command() -> Command {
    static FOUND: OnceLock<Option<(PathBuf, &str)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // Debian's redis-tools contains the server as redis-check-rdb: the binary selects its mode by name.
        let names = [
            ("valkey-server", "valkey-server"),
            ("redis-server", "redis-server"),
            ("redis-check-rdb", "redis-server"),
            ("valkey-check-rdb", "valkey-server"),
        ];
        for name in ["valkey-server", "redis-server"] {
            if let Some(program) = super::selected_program(name) {
                return Some((program, name));
            }
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        names.into_iter().find_map(|(file, name)| {
            let place = dirs.iter().map(|dir| dir.join(file)).find(|it| serves(it, name))?;
            Some((place, name))
        })
    });
    let (path, name) = found
        .as_ref()
        .expect("no Redis or Valkey server 7.0 or later on PATH; assets/setup.sh installs one");
    let mut command = Command::new(path);
    // As the program does: with a locale that is not installed, a server of version 7.2 or later does not start.
    command.arg0(name).env("LC_ALL", "C");
    command
}

/// Whether a program prints a server's version of 7 or later. Some crates install another program
/// under the name redis-server.
fn serves(path: &Path, name: &str) -> bool {
    let asked = Command::new(path).arg0(name).arg("--version").stdin(Stdio::null()).output();
    let Ok(output) = asked else { return false };
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = line.split_once("server v=").map(|(_, rest)| rest);
    let major = version.and_then(|v| v.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 7)
}
