//! A connection that many tasks use at once, for commands that are independent of each other.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::{
    Cmd, FromRedisValue, Pipeline, RedisResult, ScriptInvocation, aio::MultiplexedConnection,
};
use tokio::sync::Mutex as AsyncMutex;

use super::{Connection, Redis, RedisError, Result, cluster_slots::Node};

/// A failed attempt to connect is reported to all tasks within this time, instead of each one trying in turn.
const SHARED_FAILURE: Duration = Duration::from_millis(100);

/// One connection to each server for many tasks: their commands share its socket and are pipelined. A failure is
/// reported to each task whose command it concerns, and the next command connects again, once for all tasks. A server
/// that does not reply delays only the commands for its own keys. Cheap to clone.
///
/// Not for commands that block.
#[derive(Clone, Debug)]
pub struct SharedConnection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    redis: Redis,
    /// By node of a cluster; without a cluster, one.
    servers: Mutex<HashMap<Option<Node>, Arc<Server>>>,
}

#[derive(Debug)]
struct Server {
    /// Locked while connecting, so that tasks that come meanwhile wait for the same connection.
    connection: AsyncMutex<Connection>,
    /// The last attempt to connect, if it failed.
    failed: Mutex<Option<(Instant, RedisError)>>,
}

/// A connection to the server of a key, and its generation.
struct Reached {
    server: Arc<Server>,
    connection: MultiplexedConnection,
    generation: u64,
}

impl Redis {
    /// Returns a connection to share.
    pub fn shared_connection(&self) -> SharedConnection {
        let (redis, servers) = (self.clone(), Mutex::default());
        SharedConnection(Arc::new(Shared { redis, servers }))
    }
}

impl SharedConnection {
    /// Runs one command on the server of `key`, which is the key of the command.
    pub async fn query<T: FromRedisValue>(&self, key: &str, cmd: &Cmd) -> Result<T> {
        let mut reached = self.reach(key).await?;
        let reply = cmd.query_async(&mut reached.connection).await;
        reached.classify(key, reply).await
    }

    /// Runs a pipeline whose keys are all in the slot of `key`.
    pub async fn pipe<T: FromRedisValue>(&self, key: &str, pipe: &Pipeline) -> Result<T> {
        let mut reached = self.reach(key).await?;
        let reply = pipe.query_async(&mut reached.connection).await;
        reached.classify(key, reply).await
    }

    /// Runs a script whose keys are all in the slot of `key`, loading it if necessary.
    pub async fn invoke<T: FromRedisValue>(
        &self,
        key: &str,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        let mut reached = self.reach(key).await?;
        let reply = script.invoke_async(&mut reached.connection).await;
        reached.classify(key, reply).await
    }

    async fn reach(&self, key: &str) -> Result<Reached> {
        let Shared { redis, servers } = &*self.0;
        let node = redis.last_node(key).await?;
        let server =
            servers.lock().entry(node).or_insert_with(|| Arc::new(Server::new(redis))).clone();
        let (connection, generation) = server.connect(key).await?;
        Ok(Reached { server, connection, generation })
    }
}

impl Server {
    fn new(redis: &Redis) -> Self {
        Self { connection: AsyncMutex::new(redis.connection()), failed: Mutex::default() }
    }

    async fn connect(&self, key: &str) -> Result<(MultiplexedConnection, u64)> {
        let mut connection = if let Ok(connection) = self.connection.try_lock() {
            connection
        } else {
            // After a failed attempt, one task tries again and the others do not wait for it.
            if let Some((_, error)) = &*self.failed.lock() {
                return Err(error.clone());
            }
            self.connection.lock().await
        };
        if let Some((at, error)) = &*self.failed.lock()
            && at.elapsed() < SHARED_FAILURE
        {
            return Err(error.clone());
        }
        let reached = connection.multiplexed(key).await;
        let failed = reached.as_ref().err().filter(|error| error.is_away());
        *self.failed.lock() = failed.map(|error| (Instant::now(), error.clone()));
        Ok((reached?, connection.generation(key)))
    }
}

impl Reached {
    async fn classify<T>(&self, key: &str, reply: RedisResult<T>) -> Result<T> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(error) => {
                let mut connection = self.server.connection.lock().await;
                Err(connection.broke_then(key, self.generation, &error))
            }
        }
    }
}
