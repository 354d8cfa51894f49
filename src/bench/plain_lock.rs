//! The baseline of the benchmarks: a lock by SET NX PX, with a release by script.

use std::time::Duration;

use redis::{
    Cmd, ExistenceCheck, RedisError as DriverError, Script, SetExpiry, SetOptions,
    aio::MultiplexedConnection,
};
use seckill_redis::{HOME, Redis, RedisError};
use uuid::Uuid;

const LEASE_MS: u64 = 30_000;
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Takes and releases locks over one connection.
pub(super) struct PlainLock {
    connection: MultiplexedConnection,
    release: Script,
    /// The server, for errors.
    place: String,
}

/// A held lock.
pub(super) struct Held {
    key: String,
    owner: String,
}

impl PlainLock {
    pub(super) async fn connect(redis: &Redis) -> Result<Self, RedisError> {
        let connection = redis.connection().multiplexed(HOME).await?;
        Ok(Self { connection, release: Script::new(RELEASE), place: redis.address().to_owned() })
    }

    /// Takes the lock, or returns `None` if it is held.
    pub(super) async fn try_acquire(&self, key: String) -> Result<Option<Held>, RedisError> {
        let owner = Uuid::new_v4().to_string();
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(LEASE_MS));
        let set = Cmd::set_options(&key, &owner, options);
        let taken: Option<String> =
            set.query_async(&mut self.connection.clone()).await.map_err(|why| self.failed(&why))?;
        Ok(taken.map(|_| Held { key, owner }))
    }

    /// Waits until the lock is acquired, with an attempt per interval.
    pub(super) async fn acquire(&self, key: String, poll: Duration) -> Result<Held, RedisError> {
        loop {
            if let Some(held) = self.try_acquire(key.clone()).await? {
                return Ok(held);
            }
            tokio::time::sleep(poll).await;
        }
    }

    pub(super) async fn release(&self, Held { key, owner }: Held) -> Result<(), RedisError> {
        let mut call = self.release.prepare_invoke();
        call.key(key).arg(owner);
        let released = call.invoke_async::<u8>(&mut self.connection.clone()).await;
        released.map(drop).map_err(|why| self.failed(&why))
    }

    fn failed(&self, error: &DriverError) -> RedisError {
        RedisError::from_redis(error, &self.place)
    }
}
