//! The connection that all locks of a node share.
//!
//! It knows no lock but where they all are: it connects once for all who ask, and is dropped only by a
//! call that broke on it.

use std::time::{Duration, Instant};

use redis::{FromRedisValue, RedisError, ScriptInvocation, aio::MultiplexedConnection};
use tokio::sync::Mutex;

use seckill_redis::{BrokerError, Link, Reason, Redis};

/// Who could not connect says so to all who ask within that time, instead of each waiting his turn.
const SHARED_FAILURE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Line {
    /// The connection, and when it could not be made last.
    link: Mutex<(Link, Option<Instant>)>,
    place: String,
    /// On the server of this key are all locks.
    key: String,
}

impl Line {
    pub(super) fn new(redis: &Redis, key: String) -> Self {
        Self { link: Mutex::new((redis.link(), None)), place: redis.place().to_owned(), key }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Many tasks share one connection: their calls go out together.
    async fn connection(&self) -> Result<(MultiplexedConnection, u64), BrokerError> {
        let mut shared = self.link.lock().await;
        let (link, failure) = &mut *shared;
        if failure.is_some_and(|at| at.elapsed() < SHARED_FAILURE) {
            let (place, detail) = (self.place.clone(), Reason::JustFailed);
            return Err(BrokerError::Away { place, detail });
        }
        match link.connection(&self.key).await {
            Ok(connection) => Ok((connection, link.generation(&self.key))),
            Err(error) => {
                if error.is_away() {
                    *failure = Some(Instant::now());
                }
                Err(error)
            }
        }
    }

    /// Only whose call went over the present connection may drop it.
    async fn broke(&self, error: &RedisError, generation: u64) -> BrokerError {
        let (link, _) = &mut *self.link.lock().await;
        link.broke_then(&self.key, generation, error)
    }

    pub(super) async fn invoke<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> Result<T, BrokerError> {
        let (mut connection, generation) = self.connection().await?;
        match call.invoke_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.broke(&error, generation).await),
        }
    }

    pub(super) async fn pipe<T: FromRedisValue>(
        &self,
        pipe: &redis::Pipeline,
    ) -> Result<T, BrokerError> {
        let (mut connection, generation) = self.connection().await?;
        match pipe.query_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.broke(&error, generation).await),
        }
    }
}
