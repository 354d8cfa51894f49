//! Shared by the integration tests: real servers, the real binary, a real pseudo-terminal.
//!
//! Everything is stopped with the test, also if it panics. A missing program
//! fails the test with one message; nothing is skipped.
#![allow(dead_code, unused_imports, reason = "each program of tests uses its part")]
#![allow(unreachable_pub, reason = "`pub` here means: for the tests that include this module")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests and their helpers wait on threads of their own, between two looks at a condition"
)]

mod cluster;
mod database;
mod guard;
mod mariadb;
mod pooler;
mod postgres;
mod process;
mod proxy;
mod pty;
mod redis_server;
mod sandbox;
mod sentinel;
mod server;
mod tls;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub use cluster::TestCluster;
pub use database::{DatabaseProcess, new_name};
pub use guard::Port;
pub use mariadb::{LOWER_CASE, MariaDb, is_mysql};
pub use pooler::{PoolMode, Pooler};
pub use postgres::{GUARDED, Postgres};
pub use process::{BINARY, Background, Ran, refused, run};
pub use proxy::{Cut, Proxy};
pub use pty::{Pty, Terminal, key};
pub use redis_server::TestRedis;
pub use sandbox::Seckill;
pub use sentinel::{SERVICE, TestSentinels, sentinel_of};
pub use server::{PASSWORD, Server};
pub use tls::{
    AUTHORITY, Behind, CERTIFICATE, CLIENT_AUTHORITY, CLIENT_CERTIFICATE, CLIENT_KEY, KEY,
    encrypted, encrypted_for_clients, http_client,
};

/// How long a test waits for an immediate effect: long enough for a loaded machine, and
/// used up only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a test waits for an effect that takes several timeouts of the program.
pub const LONG: Duration = Duration::from_mins(3);

/// The program `name` in the directory that `SERVER_PROGRAMS` selects, if it is there: a server of another version than
/// that of this host.
pub fn selected_program(name: &str) -> Option<PathBuf> {
    let program = Path::new(&std::env::var_os("SERVER_PROGRAMS")?).join(name);
    program.is_file().then_some(program)
}

/// Arguments that make this test binary run one ignored test of `module` (a `module_path!()`), the entry point of a
/// child process.
pub fn only(module: &str, test: &str) -> [String; 4] {
    let path = module.split_once("::").map_or(String::new(), |(_, path)| format!("{path}::"));
    ["--ignored".into(), "--exact".into(), format!("{path}{test}"), "--nocapture".into()]
}

/// Poll interval of conditions.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Admits a buyer like the admission script, but without an entry: the keys of the sale are consistent afterwards.
pub fn promise(redis: &mut redis::Connection, voucher: &str, user: &str, order: &str) {
    let key = |what: &str| format!("seckill:{{p0}}:{what}:{voucher}");
    let mut admit = redis::pipe();
    admit.atomic().cmd("HSET").arg(key("buyers")).arg(user).arg(order).ignore();
    admit.cmd("DECR").arg(key("stock")).ignore();
    for hash in ["sale", "buyers"] {
        admit.cmd("HINCRBY").arg(key(hash)).arg("seq").arg(1).ignore();
    }
    admit.exec(redis).unwrap();
}

/// Waits until `holds`; panics with `what` otherwise.
pub async fn wait_until(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let done = tokio::time::timeout(limit, waiting).await;
    assert!(done.is_ok(), "waited {limit:?} in vain: {what}");
}

/// The same without an async runtime.
pub fn wait_until_blocking(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    assert!(came_true(limit, holds), "waited {limit:?} in vain: {what}");
}

/// Whether `holds` became true in time.
pub fn came_true(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// SIGSTOP, and waits until it is stopped: on a busy machine its threads run on for a moment and may reply.
#[track_caller]
pub fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    wait_until_blocking(PATIENCE, "it is suspended", || stands_still(pid));
}

/// Whether each of its threads is stopped or has ended; true without /proc.
fn stands_still(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return true;
    };
    let running = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The process name before it may contain any character.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['T', 'Z', 'X']))
    };
    !threads.flatten().any(running)
}
