//! A real Redis server for one test.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

use std::{
    io::ErrorKind,
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A Redis server in a directory of its own, on a unix socket; gone when it is dropped.
pub struct TestRedis {
    dir: tempfile::TempDir,
    child: Child,
}

impl TestRedis {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let child = spawn(&dir.path().to_path_buf());
        let server = Self { dir, child };
        server.wait();
        server
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what it left.
    pub fn restart(&mut self) {
        self.child = spawn(&self.dir.path().to_path_buf());
        self.wait();
    }

    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let client = redis::Client::open(self.url()).unwrap();
        while Instant::now() < deadline {
            let answer = client
                .get_connection()
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            if answer.is_ok() && UnixStream::connect(self.socket()).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the Redis server did not answer in time");
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian's redis-tools has the server under another name.
fn spawn(dir: &PathBuf) -> Child {
    for (program, arg0) in [
        ("valkey-server", "valkey-server"),
        ("redis-server", "redis-server"),
        ("redis-check-rdb", "redis-server"),
    ] {
        let mut command = Command::new(program);
        command
            .arg0(arg0)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.args([
            "--port",
            "0",
            "--unixsocket",
            "s",
            "--appendonly",
            "yes",
            "--save",
            "",
            "--dir",
            ".",
        ]);
        match command.spawn() {
            Ok(child) => return child,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("{program}: {error}"),
        }
    }
    panic!("no Redis server on this machine; assets/setup.sh installs one");
}
