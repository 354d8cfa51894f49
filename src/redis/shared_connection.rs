//! A connection that many tasks use at once, for commands that are independent of each other.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use parking_lot::Mutex;
use redis::{
    Cmd, FromRedisValue, Pipeline, RedisError as DriverError, ScriptInvocation, Value,
    aio::MultiplexedConnection, cmd,
};
use tokio::sync::Mutex as AsyncMutex;

use super::{
    Connection, Redis, RedisError, Result,
    cluster_slots::Node,
    routing::{self, Ask},
    scripts,
};

/// A failed attempt to connect is reported to all tasks within this time, instead of each one trying in turn.
const SHARED_FAILURE: Duration = Duration::from_millis(100);
/// A connection that was not used for so long is tried first.
const IDLE: Duration = Duration::from_secs(1);

/// One connection to each server for many tasks: their commands share its socket and are pipelined. A failure is
/// reported to each task whose command it concerns, and the next command connects again, once for all tasks. A read whose
/// connection breaks is repeated once. After a pause the connection is tried before it is used: the server may have closed it, or
/// another one has taken its place, and a command that may not be repeated would fail. A server that does not reply delays only the commands for its own keys. Cheap to
/// clone.
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
    used: Mutex<Option<Instant>>,
}

/// A connection to the server of a key, and its generation.
struct Reached {
    server: Arc<Server>,
    connection: MultiplexedConnection,
    generation: u64,
}

/// Keys of one slot, and their places among all that are read.
#[derive(Default)]
struct Group<'k> {
    places: Vec<usize>,
    keys: Vec<&'k str>,
}

impl<'k> Group<'k> {
    fn first(&self) -> &'k str {
        self.keys.first().copied().unwrap_or_default()
    }
}

/// The values of groups with their places, in the order of the places.
fn in_order<T>(
    count: usize,
    groups: impl IntoIterator<Item = (Vec<usize>, Result<Vec<Option<T>>>)>,
) -> Vec<Result<Option<T>>> {
    let mut found: Vec<Result<Option<T>>> = (0..count).map(|_| Ok(None)).collect();
    for (places, values) in groups {
        let mut values = values.map(Vec::into_iter);
        for place in places {
            let value = match &mut values {
                Ok(values) => Ok(values.next().flatten()),
                Err(error) => Err(error.clone()),
            };
            if let Some(found) = found.get_mut(place) {
                *found = value;
            }
        }
    }
    found
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
        self.run(key, Ask::Command(cmd)).await
    }

    /// Runs a pipeline whose keys are all in the slot of `key`.
    pub async fn pipe<T: FromRedisValue>(&self, key: &str, pipe: &Pipeline) -> Result<T> {
        self.run(key, Ask::Pipe(pipe)).await
    }

    /// Runs a script whose keys are all in the slot of `key`, loading it if necessary.
    pub async fn invoke<T: FromRedisValue>(
        &self,
        key: &str,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        self.run(key, Ask::Script(script)).await
    }

    async fn run<T: FromRedisValue>(&self, key: &str, ask: Ask<'_>) -> Result<T> {
        let mut is_first = true;
        loop {
            let mut reached = self.reach(key).await?;
            if reached.was_idle()
                && let Err(error) = cmd("TIME").query_async::<Value>(&mut reached.connection).await
                && error.is_connection_dropped()
            {
                reached.classify(key, &error).await;
                continue;
            }
            let reply = ask.send(&mut reached.connection).await;
            let error = match reply.and_then(|reply| Ok(T::from_redis_value(reply)?)) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let sorted = reached.classify(key, &error).await;
            if !(is_first && ask.may_be_repeated_after(&error)) {
                return Err(sorted);
            }
            is_first = false;
        }
    }

    /// Reads the strings at these keys at once: in a cluster with one command for each slot, otherwise with one for all. The
    /// error of a server is that of each of its keys.
    pub async fn strings<T: FromRedisValue>(&self, keys: &[String]) -> Vec<Result<Option<T>>> {
        let reading = self.groups(keys).into_iter().map(|group| async move {
            let values = self.query(group.first(), cmd("MGET").arg(&group.keys)).await;
            (group.places, values)
        });
        in_order(keys.len(), join_all(reading).await)
    }

    /// Reads fresh entries of the HTTP cache in the same way: `stale_ms` is how long they are kept after that.
    pub async fn fresh(&self, entries: &[String], stale_ms: u64) -> Vec<Result<Option<Vec<u8>>>> {
        let reading = self.groups(entries).into_iter().map(|group| async move {
            let mut read = scripts::CACHE_READ.prepare_invoke();
            for key in &group.keys {
                read.key(key);
            }
            let values = self.invoke(group.first(), read.arg(stale_ms)).await;
            (group.places, values)
        });
        in_order(entries.len(), join_all(reading).await)
    }

    /// The keys that one command may read.
    fn groups<'k>(&self, keys: &'k [String]) -> Vec<Group<'k>> {
        let mut groups: HashMap<u16, Group<'k>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            let slot = if self.0.redis.is_cluster() { routing::slot_of(key) } else { 0 };
            let group = groups.entry(slot).or_default();
            group.places.push(place);
            group.keys.push(key);
        }
        groups.into_values().collect()
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
        Self {
            connection: AsyncMutex::new(redis.connection()),
            failed: Mutex::default(),
            used: Mutex::default(),
        }
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
    /// Whether the connection was not used within [`IDLE`]; it counts as used from now on.
    fn was_idle(&self) -> bool {
        let before = self.server.used.lock().replace(Instant::now());
        before.is_some_and(|at| at.elapsed() > IDLE)
    }

    async fn classify(&self, key: &str, error: &DriverError) -> RedisError {
        let mut connection = self.server.connection.lock().await;
        connection.broke_then(key, self.generation, error)
    }
}
