//! A connection that many tasks use at once, for commands that are independent of each other.

use std::sync::Arc;

use redis::{
    Cmd, FromRedisValue, Pipeline, RedisResult, ScriptInvocation, aio::MultiplexedConnection,
};
use tokio::sync::Mutex;

use super::{Connection, Redis, Result};

/// One connection for many tasks: their commands share its socket and are pipelined. A failure is reported to each task
/// whose command it concerns, and the next command connects again, once for all tasks. Cheap to clone.
///
/// Not for commands that block.
#[derive(Clone, Debug)]
pub struct SharedConnection(Arc<Mutex<Connection>>);

impl Redis {
    /// Returns a connection to share.
    pub fn shared_connection(&self) -> SharedConnection {
        SharedConnection(Arc::new(Mutex::new(self.connection())))
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
        let mut own = self.0.lock().await;
        Ok((own.multiplexed(key).await?, own.generation(key)))
    }

    async fn classify<T>(&self, key: &str, generation: u64, reply: RedisResult<T>) -> Result<T> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.0.lock().await.broke_then(key, generation, &error)),
        }
    }
}
