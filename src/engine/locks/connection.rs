//! The connection shared by all locks of a node.
//!
//! It connects once for all callers, and only a call that failed on the connection drops it.

use std::time::{Duration, Instant};

use redis::{FromRedisValue, ScriptInvocation, aio::MultiplexedConnection};
use seckill_model::reason::reason;
use tokio::sync::Mutex;

use seckill_redis::{Connection, Redis, RedisError};

/// A failed connection attempt is reported to all callers within this time, instead of each one retrying in turn.
const SHARED_FAILURE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct SharedConnection {
    /// The connection, and when the last attempt failed.
    conn: Mutex<(Connection, Option<Instant>)>,
    address: String,
    /// Key whose server stores all locks.
    key: String,
}

impl SharedConnection {
    pub(super) fn new(redis: &Redis, key: String) -> Self {
        Self {
            conn: Mutex::new((redis.connection(), None)),
            address: redis.address().to_owned(),
            key,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Many tasks share one connection, so their calls are pipelined.
    async fn connection(&self) -> Result<(MultiplexedConnection, u64), RedisError> {
        let mut shared = self.conn.lock().await;
        let (conn, failure) = &mut *shared;
        if failure.is_some_and(|at| at.elapsed() < SHARED_FAILURE) {
            let (address, detail) = (self.address.clone(), reason!("redis-just-failed"));
            return Err(RedisError::Away { address, detail });
        }
        match conn.multiplexed(&self.key).await {
            Ok(connection) => Ok((connection, conn.generation(&self.key))),
            Err(error) => {
                if error.is_away() {
                    *failure = Some(Instant::now());
                }
                Err(error)
            }
        }
    }

    pub(super) async fn invoke<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> Result<T, RedisError> {
        let (mut connection, generation) = self.connection().await?;
        match call.invoke_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                // Only the connection of the failed call is dropped, not a newer one.
                let (conn, _) = &mut *self.conn.lock().await;
                Err(conn.broke_then(&self.key, generation, &error))
            }
        }
    }
}
