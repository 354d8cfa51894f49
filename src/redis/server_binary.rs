//! Finds a Redis or Valkey server program on this machine, under any of its names.
//!
//! A program on PATH need not be what its name suggests: one that does not report version 7.0 or later is skipped, and
//! named in the error if nothing better is found.

use std::{
    ffi::OsStr,
    fs,
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use seckill_model::{Reason, message::Label, reason::reason};

/// File names in order of preference, with the argv[0] that makes each of them a server: the check tools are the same
/// binary, which acts by the name it is called by.
const CANDIDATES: [(&str, &str); 4] = [
    ("valkey-server", "valkey-server"),
    ("redis-server", "redis-server"),
    ("redis-check-rdb", "redis-server"),
    ("valkey-check-rdb", "valkey-server"),
];
/// The oldest version with `#!lua` scripts and group lag.
const OLDEST: (u32, u32) = (7, 0);
/// Timeout of `--version`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Poll interval; short, because the user waits for the first screen.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// No suitable server program was found, but these, with the version of each server.
fn not_installed(passed_over: &[(PathBuf, Option<String>)]) -> Reason {
    let candidates = passed_over.iter().map(|(path, version)| match version {
        Some(version) => {
            reason!("redis-server-found-version", path = path.as_path(), version)
        }
        None => reason!("redis-server-found-other", path = path.as_path()),
    });
    let found = match passed_over {
        [] => reason!("redis-none-is-on-path"),
        _ => Reason::list(candidates, Label("list-items")),
    };
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    reason!("redis-redis-or-valkey-or-later", found, install = install_command(&release))
}

/// A server program with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBinary {
    /// Path.
    pub path: PathBuf,
    /// The argv[0] it needs.
    pub arg0: &'static str,
    /// Its version, for example `7.0.15`.
    pub version: String,
}

impl ServerBinary {
    /// A command that runs it as a server.
    pub fn command(&self) -> Command {
        command(&self.path, self.arg0)
    }
}

fn command(path: &Path, arg0: &str) -> Command {
    let mut command = Command::new(path);
    command.arg0(arg0);
    // A server of version 7.2 or later does not start with a locale that is not installed. Nothing here depends on one.
    command.env("LC_ALL", "C");
    command
}

/// Finds a server of version 7.0 or later on PATH.
///
/// # Errors
/// The programs found instead, and how to install a server.
pub fn find_server() -> Result<ServerBinary, Reason> {
    find_server_on(&std::env::var_os("PATH").unwrap_or_default())
}

/// Like [`find_server`], on another search path than the environment's.
///
/// # Errors
/// The programs found instead, and how to install a server.
pub fn find_server_on(search: &OsStr) -> Result<ServerBinary, Reason> {
    let mut passed_over = Vec::new();
    for (name, arg0) in CANDIDATES {
        // An empty entry would mean the working directory.
        for dir in std::env::split_paths(search).filter(|it| it.is_absolute()) {
            let path = dir.join(name);
            if !is_program(&path) {
                continue;
            }
            match version_of(&path, arg0) {
                Some((version, numbers)) if numbers >= OLDEST => {
                    return Ok(ServerBinary { path, arg0, version });
                }
                other => passed_over.push((path, other.map(|(version, _)| version))),
            }
        }
    }
    Err(not_installed(&passed_over))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Version in a line like `Redis server v=7.0.15 sha=…`, as text and as numbers.
fn version_of(path: &Path, arg0: &str) -> Option<(String, (u32, u32))> {
    let output = output_of(path, arg0)?;
    let (_, version) = output.split_once("server v=")?;
    let version = version.split_whitespace().next()?;
    let mut parts = version.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((version.to_owned(), (major, minor))),
        _ => None,
    }
}

/// Output of `--version`, unless the program takes too long.
fn output_of(path: &Path, arg0: &str) -> Option<String> {
    let mut child = command(path, arg0)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    let started = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if started.elapsed() < ANSWER_TIMEOUT => std::thread::sleep(POLL_INTERVAL),
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let mut output = Vec::new();
    child.stdout.take()?.take(4096).read_to_end(&mut output).ok()?;
    Some(String::from_utf8_lossy(&output).into_owned())
}

/// The install command for this system, by `/etc/os-release`.
fn install_command(release: &str) -> &'static str {
    if cfg!(target_os = "macos") {
        return "brew install redis";
    }
    let family: Vec<&str> = release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|ids| ids.trim_matches('"').split_whitespace())
        .collect();
    let is = |name: &str| family.contains(&name);
    if is("fedora") || is("rhel") || is("centos") {
        "dnf install valkey"
    } else if is("arch") {
        "pacman -S valkey"
    } else if is("alpine") {
        "apk add redis"
    } else if is("suse") || is("opensuse") {
        "zypper install redis"
    } else {
        "apt-get install redis-tools"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distribution_has_an_install_command() {
        if cfg!(target_os = "macos") {
            return;
        }
        for (release, command) in [
            ("ID=ubuntu\nID_LIKE=debian\n", "apt-get install redis-tools"),
            ("NAME=x\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf install valkey"),
            ("ID=arch\n", "pacman -S valkey"),
            ("", "apt-get install redis-tools"),
        ] {
            assert_eq!(install_command(release), command);
        }
    }
}
