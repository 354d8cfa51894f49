//! What the tests across module borders share: real servers, the real binary, a real pseudo-terminal.
//!
//! Everything here ends with the test, also with one that panics. What is missing on this machine
//! fails the test in one sentence; nothing is ever skipped.
#![allow(
    dead_code,
    unused_imports,
    reason = "each file in tests/ is a program of its own and uses its part"
)]
#![allow(unreachable_pub, reason = "`pub` here means: for the tests that include this module")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests and their helpers wait on threads of their own, between two looks at a condition"
)]

mod cluster;
mod guard;
mod mariadb;
mod postgres;
mod process;
mod proxy;
mod pty;
mod redis_server;
mod sandbox;
mod sentinel;
mod server;

use std::time::{Duration, Instant};

pub use cluster::TestCluster;
pub use mariadb::MariaDb;
pub use postgres::{GUARDED, Postgres};
pub use process::{BINARY, Background, Ran, run};
pub use proxy::{Cut, Proxy};
pub use pty::{Pty, Terminal, key};
pub use redis_server::TestRedis;
pub use sandbox::Seckill;
pub use sentinel::TestSentinels;
pub use server::{PASSWORD, Server};

/// How long a test waits for what should happen at once: long enough for a loaded machine, and
/// only ever spent by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until `holds`, or fails the test with `what` was waited for.
pub async fn wait_until(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let done = tokio::time::timeout(limit, waiting).await;
    assert!(done.is_ok(), "waited {limit:?} in vain: {what}");
}

/// The same on a thread without a runtime.
pub fn wait_until_blocking(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    assert!(came_true(limit, holds), "waited {limit:?} in vain: {what}");
}

/// Whether `holds` came true in time.
fn came_true(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
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
