//! The engine's locks of one process.

use std::{sync::OnceLock, time::Duration};

use seckill_engine::locks::{Locks, Timing};
use seckill_redis::{Layout, Redis};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Pause between two attempts: "wait for some time, then retry".
pub(crate) const RETRY: Duration = Duration::from_millis(20);

/// The engine's locks of one process. Nothing runs before a design uses them.
#[derive(Debug)]
pub(crate) struct EngineLocks {
    servers: Vec<Redis>,
    node: String,
    timing: Timing,
    /// Without a watchdog: the lease ends when it was said to.
    leased: OnceLock<Option<Locks>>,
    /// With a watchdog, one for each server.
    watched: OnceLock<Vec<Locks>>,
    stop: CancellationToken,
    /// Ends the watchdogs with this.
    _end: DropGuard,
}

impl EngineLocks {
    pub(crate) fn new(servers: Vec<Redis>, instance: u32, lease: Duration) -> Self {
        let stop = CancellationToken::new();
        Self {
            servers,
            node: format!("instance-{instance}"),
            timing: Timing { lease, poll: RETRY },
            leased: OnceLock::new(),
            watched: OnceLock::new(),
            _end: stop.clone().drop_guard(),
            stop,
        }
    }

    pub(crate) fn leased(&self) -> Option<&Locks> {
        let leased = self.leased.get_or_init(|| {
            let redis = self.servers.first()?;
            Some(Locks::new(redis, Layout::default(), &self.node, self.timing).0)
        });
        leased.as_ref()
    }

    pub(crate) fn watched(&self) -> &[Locks] {
        self.watched.get_or_init(|| {
            let start = |redis: &Redis| {
                let keys = Layout::default();
                let (locks, watchdog) = Locks::new(redis, keys, &self.node, self.timing);
                tokio::spawn(watchdog.run(self.stop.clone()));
                locks
            };
            self.servers.iter().map(start).collect()
        })
    }
}
