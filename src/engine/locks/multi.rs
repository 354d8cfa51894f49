//! One lock over several independent servers, held only while all of them grant it.
//!
//! A lock on one server is as durable as that server's memory. Over several it survives the loss of any of them, but
//! cannot be acquired while one is unreachable.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use seckill_model::reason::reason;
use seckill_redis::{HOME, RedisError};
use tokio::sync::OnceCell;

use super::{Guard, LockError, LockName, Locks, Result};

/// Time limit for one server to grant or release its part.
const MEMBER: Duration = Duration::from_millis(1_500);
/// Approximate pause between two rounds; nothing is held in between.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks of one node on several servers.
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Vec<Locks>,
    /// They were found to be different servers.
    checked: Arc<OnceCell<()>>,
}

/// Held on all servers.
#[derive(Debug)]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiLock {
    /// Returns a lock over these servers. All callers use the same server order, so two contenders cannot each get half
    /// of it.
    ///
    /// # Errors
    /// No server, or the same one twice.
    pub fn new(mut members: Vec<Locks>) -> Result<Self> {
        members.sort_by(|a, b| a.address().cmp(b.address()));
        let twice =
            members.windows(2).find(|pair| matches!(pair, [a, b] if a.address() == b.address()));
        match twice {
            Some(_) => Err(LockError::Rule(reason!("lock-server-twice"))),
            None if members.is_empty() => Err(LockError::Rule(reason!("lock-no-server"))),
            None => Ok(Self { members, checked: Arc::default() }),
        }
    }

    /// Number of servers that must grant it.
    pub fn servers(&self) -> usize {
        self.members.len()
    }

    /// Acquires the lock on all servers or on none, in one round.
    ///
    /// # Errors
    /// [`LockError::Member`] names the first server that did not grant its part; the other parts are released.
    /// [`LockError::Rule`] if two addresses are those of one server.
    pub async fn try_lock(&self, name: &LockName, task: &str) -> Result<MultiGuard> {
        self.checked.get_or_try_init(async || self.check(name).await).await?;
        let mut guards = Vec::with_capacity(self.members.len());
        for member in &self.members {
            // An acquisition cancelled here is released by that member's background task.
            let asked = tokio::time::timeout(MEMBER, member.try_lock(name, task)).await;
            let address = member.address().to_owned();
            let asked = asked.unwrap_or_else(|_| {
                let millis = MEMBER.as_millis() as u64;
                Err(RedisError::Silent { address: address.clone(), millis }.into())
            });
            match asked {
                Ok(guard) => guards.push(guard),
                Err(why) => {
                    release_all(guards).await;
                    let (name, why) = (name.clone(), Box::new(why));
                    return Err(LockError::Member { name, address, why });
                }
            }
        }
        // Leases granted first have aged while the other servers were asked.
        match guards.iter().find(|guard| !guard.is_held()) {
            None => Ok(MultiGuard { guards }),
            Some(lost) => {
                let error = LockError::Lost(lost.name().clone());
                release_all(guards).await;
                Err(error)
            }
        }
    }

    /// A server may have several addresses, such as `localhost` and `127.0.0.1`: its lock would count as that of two.
    async fn check(&self, name: &LockName) -> Result<()> {
        let mut runs = HashSet::new();
        for member in &self.members {
            let mut conn = member.shared.redis.connection();
            let address = member.address().to_owned();
            let read = tokio::time::timeout(MEMBER, conn.run_id(HOME)).await;
            let read = read.unwrap_or_else(|_| {
                let millis = MEMBER.as_millis() as u64;
                Err(RedisError::Silent { address: address.clone(), millis })
            });
            let run = read.map_err(|error| {
                let (name, why) = (name.clone(), Box::new(error.into()));
                LockError::Member { name, address, why }
            })?;
            if !runs.insert(run) {
                return Err(LockError::Rule(reason!("lock-server-twice")));
            }
        }
        Ok(())
    }

    /// Acquires the lock on all servers, in as many rounds as start within `wait`. A failed round releases its parts
    /// before the next one starts.
    ///
    /// # Errors
    /// As [`Self::try_lock`], from the last round.
    pub async fn try_for(&self, name: &LockName, task: &str, wait: Duration) -> Result<MultiGuard> {
        let deadline = Instant::now() + wait;
        loop {
            let error = match self.try_lock(name, task).await {
                Err(error) if error.may_pass() => error,
                other => return other,
            };
            let pause = PAUSE.mul_f64(rand::random_range(0.5..1.5));
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// Releases all of them, even if one fails.
async fn release_all(guards: Vec<Guard>) -> Vec<Result<bool>> {
    let releases = guards.into_iter().map(async |guard| {
        let lost = LockError::Lost(guard.name().clone());
        tokio::time::timeout(MEMBER, guard.release()).await.unwrap_or(Err(lost))
    });
    join_all(releases).await
}

impl MultiGuard {
    /// Returns whether it is certainly held on all servers.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Releases it on every server, even if one fails.
    pub async fn release(self) -> Result<()> {
        self.release_each().await.into_iter().try_for_each(|released| released.map(drop))
    }

    /// Releases it on every server; returns the result of each, as [`Guard::release`].
    pub async fn release_each(self) -> Vec<Result<bool>> {
        release_all(self.guards).await
    }
}
