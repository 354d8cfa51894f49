//! A data directory for the binary, and an environment that isolates it from the user's own.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::Duration,
};

use redis::{Client, Connection, RedisResult};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    PATIENCE, came_true,
    process::{Background, Ran},
    pty::Pty,
};

/// A data directory inside a home directory; every Redis started in it is stopped with it.
#[derive(Debug)]
pub struct Seckill {
    root: TempDir,
}

impl Default for Seckill {
    fn default() -> Self {
        Self::new()
    }
}

impl Seckill {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "run", "tmp"] {
            let dir = root.path().join(dir);
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        }
        Self { root }
    }

    /// The value of `--data-dir`; the binary creates it.
    pub fn data_dir(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// The socket of the managed server.
    pub fn socket(&self) -> PathBuf {
        self.data_dir().join("redis.sock")
    }

    /// A path for files of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `--data-dir DIR`, then `args`.
    pub fn args(&self, args: &[&str]) -> Vec<OsString> {
        let mut all = vec![OsString::from("--data-dir"), self.data_dir().into_os_string()];
        all.extend(args.iter().map(OsString::from));
        all
    }

    /// Runs the binary with this data directory to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.spawn(args).wait(PATIENCE)
    }

    /// The document that a command prints with `--json`; it must succeed.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        self.run(&[args, &["--json"]].concat()).expect_code(0).json()
    }

    /// Starts the binary with this data directory in the background.
    pub fn spawn(&self, args: &[&str]) -> Background {
        Background::spawn(super::process::BINARY, &self.args(args), self, &[])
    }

    /// Starts the binary with this data directory in a terminal.
    pub fn pty(&self, args: &[&str], cols: u16, rows: u16, envs: &[(&str, &str)]) -> Pty {
        Pty::open(super::process::BINARY.as_ref(), &self.args(args), cols, rows, self, envs)
    }

    /// A connection to the managed server, if it answers.
    pub fn redis(&self) -> RedisResult<Connection> {
        let url = format!("unix://{}", self.socket().display());
        let client = Client::open(url)?;
        let connection = loop {
            match client.get_connection_with_timeout(Duration::from_secs(2)) {
                // A signal may interrupt a blocking connect.
                Err(error) if is_interrupted(&error) => {}
                other => break other?,
            }
        };
        connection.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(connection)
    }

    /// Processes with a `--dir` in this sandbox, such as a managed server.
    /// Always empty without /proc.
    pub fn processes(&self) -> Vec<u32> {
        let Ok(root) = self.root.path().canonicalize() else { return Vec::new() };
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let inside = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&root))
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(inside)
            .collect()
    }

    /// Variables that are set for the binary, or removed with `None`: a separate home directory,
    /// and nothing that selects a server, a language or colours.
    pub(super) fn environment(&self) -> Vec<(OsString, Option<OsString>)> {
        let is_display_control = |name: &OsStr| {
            let name = name.to_string_lossy();
            ["SECKILL_", "LC_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
        };
        let mut changes: Vec<(OsString, Option<OsString>)> = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| is_display_control(name))
            .map(|name| (name, None))
            .collect();
        let gone = [
            "REDIS_URL",
            "DATABASE_URL",
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "COLORTERM",
            "COLORFGBG",
            "LANGUAGE",
            "RUST_LOG",
        ];
        changes.extend(gone.map(|name| (name.into(), None)));
        let inside = |name: &str| Some(self.root.path().join(name).into_os_string());
        changes.push(("HOME".into(), inside("home")));
        changes.push(("XDG_RUNTIME_DIR".into(), inside("run")));
        // Temporary data directories are created here too, so their servers are among `processes`.
        changes.push(("TMPDIR".into(), inside("tmp")));
        changes.push(("LANG".into(), Some("C.UTF-8".into())));
        changes.push(("TZ".into(), Some("UTC".into())));
        changes
    }
}

impl Drop for Seckill {
    fn drop(&mut self) {
        if self.socket().exists()
            && let Ok(mut server) = self.redis()
        {
            // A successful SHUTDOWN closes the connection.
            let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut server);
            came_true(Duration::from_secs(5), || self.redis().is_err());
        }
        // Servers that are frozen, lost their socket, or belong to a temporary data directory. They were
        // started by this test, and no other process uses its temporary directory.
        for pid in self.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        came_true(Duration::from_secs(5), || self.processes().is_empty());
    }
}

fn is_interrupted(error: &redis::RedisError) -> bool {
    use std::error::Error as _;
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::Interrupted)
        || error.to_string().contains("Interrupted")
}
