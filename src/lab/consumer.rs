//! What takes the entries of a queue to SQL.

use std::time::Duration;

use futures::future::BoxFuture;
use redis::{Cmd, cmd};
use seckill_redis::Layout;

use crate::{Result, lane::Lane};

/// How long a consumer of the tutorials waits for an entry.
pub(crate) const BLOCK: Duration = Duration::from_secs(2);

/// A part of a consumer. A consumer has no end.
pub(crate) type Consume = for<'l, 'a> fn(&'l mut Lane<'a>) -> BoxFuture<'l, Result<()>>;

/// Where the consumer of a design is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consumer {
    /// A task of each instance, on a queue in its memory.
    Task(Consume),
    /// A process of its own, on a queue in Redis.
    Process {
        /// Begins to listen.
        start: Consume,
        /// Takes one entry after the other.
        run: Consume,
        /// Puts an entry into the queue that is not an order.
        poison: fn() -> Cmd,
    },
    /// Nodes of the engine: one in each instance that admits, and one in a process of its own that consumes.
    Engine,
}

impl Consumer {
    /// Puts an entry into the queue that is not an order. A queue in memory takes orders only.
    pub(crate) fn poison(self, keys: &Layout) -> Option<Cmd> {
        match self {
            Self::Task(_) => None,
            Self::Process { poison, .. } => Some(poison()),
            Self::Engine => Some(
                cmd("XADD").arg(keys.home().orders()).arg("*").arg("user").arg("poison").take(),
            ),
        }
    }
}
