//! The real binary without a terminal: with a timeout, and its output is captured.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Once,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection as _, Executor as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{LONG, PATIENCE, Seckill, came_true, wait_until};

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_seckill");

/// Runs the binary to its end with a separate home directory and without `--data-dir`.
pub fn run(args: &[&str]) -> Ran {
    let sandbox = Seckill::new();
    Background::spawn(BINARY, args, &sandbox, &[]).wait(PATIENCE)
}

/// Asserts one message on stderr, on stdout at most the document of the failure, and no panic.
#[track_caller]
pub fn refused(ran: Ran, code: i32, text: &str) {
    let ran = ran.expect_code(code);
    assert!(ran.stdout.is_empty() || ran.json()["exit_code"] == code, "stdout: {}", ran.stdout);
    assert!(ran.stderr.contains(text), "'{text}' is not in: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// The result of a program.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The exit code; panics if a signal ended the program.
    pub fn code(&self) -> i32 {
        let ended = || format!("ended by signal {:?}\n{self}", self.status.signal());
        self.status.code().unwrap_or_else(|| panic!("{}", ended()))
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.status.code() == Some(code), "expected exit code {code}\n{self}");
        self
    }

    /// Standard output as one JSON document.
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

/// Has this process handle the signals that its starter had it ignore, as a script does with a command in the background:
/// programs would inherit that, and a program that ignores SIGINT at its start keeps ignoring it. A handled signal has its
/// default effect in a program that is started.
fn heed_signals() {
    static DONE: Once = Once::new();
    let handle = || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        for kind in [SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
            if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
                // The handler stays when this is dropped.
                drop(signal(kind).unwrap());
            }
        }
    };
    // A runtime must not be dropped within that of a test.
    DONE.call_once(|| thread::spawn(handle).join().unwrap());
}

/// A background program without input; killed on drop.
#[derive(Debug)]
pub struct Background {
    child: Child,
    // Files, not pipes: a server that outlives the program would keep a pipe open.
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
        heed_signals();
        let child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        Self { child, output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGSTOP; returns once all threads are stopped.
    pub fn freeze(&self) {
        super::freeze(Pid::from_child(&self.child));
    }

    /// Suspends it while it holds no write lock of this SQLite file: otherwise every other process blocks until it
    /// resumes.
    pub async fn freeze_outside_a_write(&self, file: &Path) {
        // Without a timeout: while this connection waited for the lock of a suspended process, all others would, too.
        let file = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::ZERO);
        let mut probe = SqliteConnection::connect_with(&file).await.unwrap();
        wait_until(LONG, "it stops outside a transaction", async || {
            self.freeze();
            let is_free = probe.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_ok();
            if !is_free {
                self.signal(Signal::CONT);
                // It ends its transaction before the next attempt.
                let _ = tokio::time::timeout(PATIENCE, async {
                    while probe.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_err() {}
                })
                .await;
            }
            is_free
        })
        .await;
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.output_of("out")
    }

    /// Waits for this line on its standard output.
    pub async fn wait_for_line(&mut self, line: &str) {
        wait_until(PATIENCE, line, async || self.stdout().lines().any(|it| it == line)).await;
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.output_of("err")
    }

    /// Waits for its end; panics with its output if it does not end in time.
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

    fn output_of(&self, file: &str) -> String {
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
