//! Finds the programs of database servers on this machine.
//!
//! `mysqld` may be either of two servers, so a program is asked what it is.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Where packages install servers that are not on the PATH of each user.
const PLACES: [&str; 2] = ["/usr/sbin", "/usr/libexec"];

/// A MariaDB server.
pub fn mariadb() -> Option<PathBuf> {
    all(&["mariadbd", "mysqld"], &PLACES.map(PathBuf::from)).find(|it| is_mariadb(it))
}

/// A MySQL server.
pub fn mysql() -> Option<PathBuf> {
    all(&["mysqld"], &PLACES.map(PathBuf::from)).find(|it| !is_mariadb(it))
}

/// The program `name` of a PostgreSQL server (`postgres`, `initdb`), of the newest version.
pub fn postgres(name: &str) -> Option<PathBuf> {
    // Debian keeps the servers of several versions beside each other, off PATH.
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    places.sort_by_key(|place| {
        let version = place.parent().and_then(Path::file_name).and_then(|it| it.to_str());
        std::cmp::Reverse(version.and_then(|it| it.parse::<u32>().ok()))
    });
    places.push("/opt/homebrew/opt/postgresql@17/bin".into());
    all(&[name], &places).next()
}

/// The SQL files that create the system tables of a MariaDB server, in order.
///
/// The server says where its files are; before version 11, their names are those of MySQL.
pub fn mariadb_system_tables(server: &Path) -> Option<[PathBuf; 2]> {
    let help = output(server, &["--no-defaults", "--verbose", "--help"])?;
    let charsets = help.lines().find_map(|line| line.strip_prefix("character-sets-dir "))?;
    let share = Path::new(charsets.trim()).parent()?;
    ["mariadb", "mysql"].iter().find_map(|name| {
        let files = ["", "_data"].map(|part| share.join(format!("{name}_system_tables{part}.sql")));
        files.iter().all(|it| it.is_file()).then_some(files)
    })
}

fn is_mariadb(server: &Path) -> bool {
    output(server, &["--no-defaults", "--version"]).is_some_and(|it| it.contains("MariaDB"))
}

fn output(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Each of `programs` in `places` and on PATH. A wrapper on PATH may be for another purpose: the packaged programs
/// come first.
fn all<'a>(programs: &'a [&'a str], places: &[PathBuf]) -> impl Iterator<Item = PathBuf> + use<'a> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An empty entry would mean the working directory.
    let on_path = std::env::split_paths(&path).filter(|it| it.is_absolute());
    let dirs: Vec<PathBuf> = places.iter().cloned().chain(on_path).collect();
    let programs = programs.iter();
    programs
        .flat_map(move |name| dirs.iter().map(|dir| dir.join(name)).collect::<Vec<_>>())
        .filter(|it| it.is_file())
}
