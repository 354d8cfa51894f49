//! The two requests of a user in an incident: each goes on once the other one is where the incident needs it, however slow
//! the machine is.
//!
//! They run in different processes, and tell each other by keys in Redis that no design uses.

use std::time::Duration;

use redis::{FromRedisValue, cmd};
use seckill_redis::{Connection, Redis};
use tokio::time::timeout;

/// Maximum wait for the other request, which may have failed.
const WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a request has reached.
#[derive(Clone, Copy, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Reached {
    /// The second request of the user has the lock, and stalls.
    Stall,
    /// The first request, which had the lock before, has ended.
    End,
}

/// The place where the two requests of a user meet.
pub(crate) struct Meeting {
    redis: Connection,
    user: i64,
}

impl Meeting {
    pub(crate) fn new(redis: &Redis, user: i64) -> Self {
        Self { redis: redis.connection(), user }
    }

    fn key(&self, what: Reached) -> String {
        format!("lab:{}:{}", <&str>::from(what), self.user)
    }

    /// Informs the other request.
    pub(crate) async fn tell(&mut self, what: Reached) {
        let tell = cmd("SET").arg(self.key(what)).arg(1).take();
        let written: Result<String, _> = self.redis.query(&tell).await;
        if let Err(error) = written {
            // The other one waits in vain, and goes on.
            tracing::warn!(%error, "a request of the lab did not tell the other one");
        }
    }

    /// Waits until the other request has reached that. Redis may be away meanwhile.
    pub(crate) async fn until(&mut self, what: Reached) {
        let asked = cmd("EXISTS").arg(self.key(what)).take();
        while !self.redis.query::<bool>(&asked).await.unwrap_or(false) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The same; gives up on a request that may have failed.
    pub(crate) async fn wait_for(&mut self, what: Reached) {
        let _ = timeout(WITHIN, self.until(what)).await;
    }

    /// Whether a lock is that of this owner: of the tutorials, a string; of the engine, a hash. An unreachable Redis has
    /// lost it.
    pub(crate) async fn is_held(&mut self, lock: &str, owner: &str) -> bool {
        let found: Option<String> = self.ask("GET", lock).await.flatten();
        if found.is_some() {
            return found.as_deref() == Some(owner);
        }
        let owners: Vec<String> = self.ask("HKEYS", lock).await.unwrap_or_default();
        let task = format!("/{owner}#");
        owners.iter().any(|it| it.contains(&task))
    }

    /// `None` for a key of another type.
    async fn ask<T: FromRedisValue>(&mut self, command: &str, key: &str) -> Option<T> {
        self.redis.query(cmd(command).arg(key)).await.ok()
    }
}
