//! The real binary without a terminal: bounded in time, with its output kept.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, Seckill, came_true, wait_until};

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_seckill");

/// Runs the binary to its end in a home of its own, without a data dir being named.
pub fn run(args: &[&str]) -> Ran {
    let sandbox = Seckill::new();
    Background::spawn(BINARY, args, &sandbox, &[]).wait(PATIENCE)
}

/// A program that has ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The exit code; fails the test when a signal ended the program.
    pub fn code(&self) -> i32 {
        let ended = || format!("ended by signal {:?}\n{self}", self.status.signal());
        self.status.code().unwrap_or_else(|| panic!("{}", ended()))
    }

    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.status.code() == Some(code), "expected exit code {code}\n{self}");
        self
    }

    /// Standard output as the one JSON document that `--json` promises.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON document ({error})\n{self}"))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr)
    }
}

/// A program that runs beside the test, with no input; killed when it is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    // Files, not pipes: a server that outlives the program would hold a pipe open for ever.
    output: TempDir,
}

impl Background {
    /// Starts any program in the environment of `sandbox`.
    pub fn spawn(
        program: &str,
        args: &[impl AsRef<OsStr>],
        sandbox: &Seckill,
        envs: &[(&str, &str)],
    ) -> Self {
        let output = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(output.path().join(name)).unwrap();
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        for (name, value) in sandbox.environment() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(envs.iter().copied());
        let child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        Self { child, output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGSTOP: it stands still when this is over.
    pub fn freeze(&self) {
        super::freeze(Pid::from_child(&self.child));
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has written to standard output by now.
    pub fn stdout(&self) -> String {
        self.said("out")
    }

    /// Waits until a line of its standard output is this one.
    pub async fn wait_for_line(&mut self, line: &str) {
        wait_until(PATIENCE, line, async || self.stdout().lines().any(|said| said == line)).await;
    }

    /// What it has written to standard error by now.
    pub fn stderr(&self) -> String {
        self.said("err")
    }

    /// Waits for its end; when that does not come in time the test fails with what was said.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Ran {
        let mut status = None;
        came_true(limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let Some(status) = status else {
            panic!("still running after {limit:?}\nstdout:\n{stdout}\nstderr:\n{stderr}")
        };
        Ran { status, stdout, stderr }
    }

    fn said(&self, file: &str) -> String {
        let bytes = fs::read(self.output.path().join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
