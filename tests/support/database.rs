//! The process of a database server: what MariaDB and PostgreSQL have in common.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::{Pid, Signal};

use super::{
    PATIENCE, came_true,
    guard::{self, Guard, Owner, Port},
};

/// A server in its own directory, on a socket and a loopback port.
#[derive(Debug)]
pub struct DatabaseProcess {
    pub(super) args: Vec<String>,
    port: Port,
    pub(super) dir: PathBuf,
    guard: Option<Guard>,
}

/// How a server is started.
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) command: Command,
    /// The files of a new server.
    pub(super) template: &'a Path,
    /// The signal that stops it.
    pub(super) end: &'a str,
    pub(super) owner: Option<Owner>,
}

impl DatabaseProcess {
    /// Starts a server with these arguments or settings.
    pub(super) fn with(
        args: &[&str],
        owner: Option<Owner>,
        spawn: impl Fn(&mut Self) -> Result<(), String>,
    ) -> Self {
        let mut last = String::new();
        // A free port may be taken before the server binds it; then another one is tried.
        for _ in 0..5 {
            let args = args.iter().map(ToString::to_string).collect();
            let (port, dir) = (Port::free(), guard::new_dir(owner));
            let mut process = Self { args, port, dir, guard: None };
            match spawn(&mut process) {
                Ok(()) => return process,
                Err(why) => last = why,
            }
        }
        panic!("{last}");
    }

    /// Starts the server and waits until it answers.
    pub(super) fn spawn(
        &mut self,
        start: &Start<'_>,
        answers: impl Fn() -> bool,
    ) -> Result<(), String> {
        let Start { name, command, template, end, owner } = start;
        let data = template.join("data");
        let guard = Guard::start(command, &self.dir, Some(&data), end, *owner)?;
        let guard = self.guard.insert(guard);
        let mut ended = false;
        let is_ready = came_true(PATIENCE, || {
            ended = guard.has_ended();
            ended || answers()
        });
        if is_ready && !ended {
            return Ok(());
        }
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        self.guard = None;
        Err(format!("the {name} server of this test did not start; its log:\n{log}"))
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    pub fn pid(&self) -> Pid {
        self.running().pid()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// SIGKILL for the server and each of its children: no shutdown, nothing flushed.
    pub fn kill(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.kill();
        }
    }

    /// SIGSTOP: connections stay open without replies.
    pub fn freeze(&self) {
        self.running().freeze();
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.running().signal(Signal::CONT);
    }

    fn running(&self) -> &Guard {
        self.guard.as_ref().expect("the server runs")
    }
}

/// A database name that is unique in this process.
pub fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
