//! A connection that many tasks use at once, for commands that are independent of each other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{
    Cmd, FromRedisValue, Pipeline, RedisResult, ScriptInvocation, aio::MultiplexedConnection,
};
use seckill_model::reason::reason;
use tokio::sync::Mutex;

use super::{Connection, Redis, RedisError, Result};

/// A failed attempt to connect is reported to all tasks within this time, instead of each one trying in turn.
const SHARED_FAILURE: Duration = Duration::from_millis(100);

/// One connection for many tasks: their commands share its socket and are pipelined. A failure is reported to each task
/// whose command it concerns, and the next command connects again, once for all tasks. Cheap to clone.
///
/// Not for commands that block.
#[derive(Clone, Debug)]
pub struct SharedConnection(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    connection: Connection,
    /// The last failure to connect: the slot whose server was unreachable, and when.
    failed: Option<(u16, Instant)>,
}

impl Redis {
    /// Returns a connection to share.
    pub fn shared_connection(&self) -> SharedConnection {
        SharedConnection(Arc::new(Mutex::new(Shared {
            connection: self.connection(),
            failed: None,
        })))
    }
}

impl SharedConnection {
    /// Runs one command on the server of `key`, which is the key of the command.
    pub async fn query<T: FromRedisValue>(&self, key: &str, cmd: &Cmd) -> Result<T> {
        let (mut connection, generation) = self.reach(key).await?;
        let reply = cmd.query_async(&mut connection).await;
        self.classify(key, generation, reply).await
    }

    /// Runs a pipeline whose keys are all in the slot of `key`.
    pub async fn pipe<T: FromRedisValue>(&self, key: &str, pipe: &Pipeline) -> Result<T> {
        let (mut connection, generation) = self.reach(key).await?;
        let reply = pipe.query_async(&mut connection).await;
        self.classify(key, generation, reply).await
    }

    /// Runs a script whose keys are all in the slot of `key`, loading it if necessary.
    pub async fn invoke<T: FromRedisValue>(
        &self,
        key: &str,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        let (mut connection, generation) = self.reach(key).await?;
        let reply = script.invoke_async(&mut connection).await;
        self.classify(key, generation, reply).await
    }

    async fn reach(&self, key: &str) -> Result<(MultiplexedConnection, u64)> {
        // Held while connecting, so that tasks that come meanwhile wait for the same connection.
        let Shared { connection, failed } = &mut *self.0.lock().await;
        let slot = connection.slot(key);
        if failed.is_some_and(|(of, at)| of == slot && at.elapsed() < SHARED_FAILURE) {
            let (address, detail) = (connection.address().to_owned(), reason!("redis-just-failed"));
            return Err(RedisError::Away { address, detail });
        }
        let reached = connection.multiplexed(key).await;
        if reached.as_ref().is_err_and(RedisError::is_away) {
            *failed = Some((slot, Instant::now()));
        }
        Ok((reached?, connection.generation(key)))
    }

    async fn classify<T>(&self, key: &str, generation: u64, reply: RedisResult<T>) -> Result<T> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.0.lock().await.connection.broke_then(key, generation, &error)),
        }
    }
}
