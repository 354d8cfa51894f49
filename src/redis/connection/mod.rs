//! Per-task connections to Redis: each command goes to the server of its key.
//!
//! Each task owns a [`Connection`]: a blocking read never delays another task, and a broken one is reported to the task
//! that used it, which knows whether its command may be repeated. What may have been done is not repeated here. Only a read
//! is, once, if its connection breaks and the new one leads to the same server process: servers close connections that were
//! idle for a while (`timeout`). A command sent to the wrong server fails, and the next one goes to the right one.

mod lost_servers;

use std::{sync::Arc, time::Duration};

use redis::{
    Cmd, FromRedisValue, InfoDict, Pipeline, RedisError as DriverError, ScriptInvocation,
    ServerError, Value, aio::MultiplexedConnection, cmd,
};
use seckill_model::{ForeignKey, Millis, Reason, reason::reason};

use super::{
    Redis, RedisError, Result,
    cluster_slots::{Hint, Node, SlotMap},
    connect::ServerInfo,
    error::{plain, server_error},
    keys::type_of,
    routing::{Ask, HOME, slot_of},
};

pub use lost_servers::{LostServer, number_list};

/// Timeout of every command that does not block on purpose.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of one task, opened on first use and reopened after a failure.
#[derive(Debug)]
pub struct Connection {
    redis: Redis,
    answer: Duration,
    /// One for each server of a cluster; without a cluster, at most one.
    peers: Vec<Peer>,
    /// Slot map of a cluster. Kept per task, so that [`Connection::server`] describes the server last connected to.
    map: Option<Arc<SlotMap>>,
    /// A failure has revealed that it is outdated.
    stale: bool,
    /// Servers of a cluster that are not asked until the next probe.
    lost: Vec<LostServer>,
    generation: u64,
    sent: u64,
}

/// A server and the connection to it.
#[derive(Debug)]
struct Peer {
    /// Address of a cluster node.
    node: Option<Node>,
    address: String,
    info: ServerInfo,
    connection: Option<MultiplexedConnection>,
    generation: u64,
}

impl Redis {
    /// Returns a connection whose commands time out after five seconds.
    pub fn connection(&self) -> Connection {
        self.blocking_connection(Duration::ZERO)
    }

    /// Returns a connection for reads that block for up to `block`.
    pub fn blocking_connection(&self, block: Duration) -> Connection {
        let (redis, answer) = (self.clone(), COMMAND_TIMEOUT + block);
        Connection {
            redis,
            answer,
            peers: Vec::new(),
            map: None,
            stale: false,
            lost: Vec::new(),
            generation: 0,
            sent: 0,
        }
    }
}

impl Connection {
    /// Returns the connection to the server of `key`, opened if necessary. Use it for pipelined commands, and report
    /// failures to [`Connection::broke`].
    pub async fn multiplexed(&mut self, key: &str) -> Result<MultiplexedConnection> {
        self.reach(self.slot(key)).await
    }

    /// Identity of the server of `key` at the last connect; `None` if unknown.
    pub fn server(&self, key: &str) -> Option<&ServerInfo> {
        self.peer(self.slot(key)).map(|peer| &peer.info)
    }

    /// Returns the run ID of the server of `key`, connecting first if necessary.
    pub async fn run_id(&mut self, key: &str) -> Result<String> {
        self.multiplexed(key).await?;
        Ok(self.server(key).map(|it| it.run_id.clone()).unwrap_or_default())
    }

    /// Generation of the connection to the server of `key`; 0 without one. A failure on an older generation must not
    /// drop a newer connection.
    pub fn generation(&self, key: &str) -> u64 {
        let peer = self.peer(self.slot(key)).filter(|peer| peer.connection.is_some());
        peer.map_or(0, |peer| peer.generation)
    }

    /// Address without user and password.
    pub fn address(&self) -> &str {
        self.redis.address()
    }

    /// Whether a node's process with this ID has certainly ended, as its slot in the data directory shows.
    pub fn has_ended(&self, instance: &str) -> bool {
        self.redis.has_ended(instance)
    }

    /// Whether keys are spread over several servers.
    pub fn is_cluster(&self) -> bool {
        self.redis.is_cluster()
    }

    /// Reads one runtime setting of the server of `key`.
    pub async fn setting(&mut self, key: &str, name: &str) -> Result<String> {
        let ask = cmd("CONFIG").arg("GET").arg(name).take();
        let (_, value): (String, String) = self.query_at(self.slot(key), &ask).await?;
        Ok(value)
    }

    /// Reads one value of INFO of the server of `key`, which users may read who may not read a setting.
    ///
    /// # Errors
    /// The server does not report this value, or is unreachable.
    pub async fn info(&mut self, key: &str, section: &str, name: &str) -> Result<String> {
        let info: InfoDict = self.query_at(self.slot(key), cmd("INFO").arg(section)).await?;
        info.get(name).ok_or_else(|| RedisError::Rejected(reason!("redis-not-reported", name)))
    }

    /// Changes one runtime setting of the server of `key`, until its next restart.
    pub async fn set(&mut self, key: &str, name: &str, value: &str) -> Result<()> {
        let ask = cmd("CONFIG").arg("SET").arg(name).arg(value).take();
        self.query_at(self.slot(key), &ask).await
    }

    /// Returns the distinct keys that match a pattern, on the server of `key`. Scans all keys of that server.
    pub async fn keys_like(&mut self, key: &str, pattern: &str) -> Result<Vec<String>> {
        let (slot, mut cursor, mut found) = (self.slot(key), 0_u64, Vec::new());
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000);
            let (next, page): (u64, Vec<String>) = self.query_at(slot, &scan).await?;
            found.extend(page);
            cursor = next;
            if cursor == 0 {
                found.sort_unstable();
                found.dedup();
                return Ok(found);
            }
        }
    }

    /// Runs one command on the server of its key.
    pub async fn query<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T> {
        self.run(Ask::Command(cmd)).await
    }

    /// Runs a pipeline whose keys are all in one slot.
    pub async fn pipe<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T> {
        self.run(Ask::Pipe(pipe)).await
    }

    /// Runs a script on the server of its keys, loading it if necessary.
    pub async fn invoke<T: FromRedisValue>(&mut self, script: &ScriptInvocation<'_>) -> Result<T> {
        self.run(Ask::Script(script)).await
    }

    async fn run<T: FromRedisValue>(&mut self, ask: Ask<'_>) -> Result<T> {
        // A single server has no slots, so commands need not be parsed.
        let slot = if self.redis.is_cluster() { ask.slot()? } else { 0 };
        let reply = self.send(slot, ask).await?;
        self.read(slot, reply)
    }

    /// Commands sent so far, without those that open a connection.
    pub fn commands_sent(&self) -> u64 {
        self.sent
    }

    /// Not generic, so that it is compiled once for all types of replies.
    async fn send(&mut self, slot: u16, ask: Ask<'_>) -> Result<Value> {
        // The error of a read that is repeated, and the process that it was sent to.
        let mut broken: Option<(RedisError, Option<String>)> = None;
        loop {
            let reached = self.reach(slot).await;
            let (is_first, process) = (broken.is_none(), self.run_id_at(slot));
            let mut connection = match (reached, broken.take()) {
                (Ok(connection), None) => connection,
                (Ok(connection), Some((_, before))) if before == process => connection,
                // Another process may have lost what the caller has read before.
                (Err(error), None) | (_, Some((error, _))) => return Err(error),
            };
            self.sent += ask.commands();
            let error = match ask.send(&mut connection).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let may_be_repeated = is_first && ask.may_be_repeated_after(&error);
            match self.drop_connection(slot, &error) {
                error if may_be_repeated => broken = Some((error, process)),
                error if error.code() == Some("WRONGTYPE") => {
                    return Err(Box::pin(self.wrong_key(slot, ask)).await.unwrap_or(error));
                }
                error => return Err(error),
            }
        }
    }

    fn run_id_at(&self, slot: u16) -> Option<String> {
        self.peer(slot).map(|peer| peer.info.run_id.clone())
    }

    fn read<T: FromRedisValue>(&mut self, slot: u16, reply: Value) -> Result<T> {
        T::from_redis_value(reply).map_err(|error| self.drop_connection(slot, &error.into()))
    }

    /// Finds the key with the wrong type, where the key layout allows it.
    async fn wrong_key(&mut self, slot: u16, ask: Ask<'_>) -> Option<RedisError> {
        for key in ask.keys() {
            let key = String::from_utf8_lossy(&key).into_owned();
            let Some(expected) = type_of(&key) else { continue };
            let ask = cmd("TYPE").arg(&key).take();
            match self.query_at::<String>(slot, &ask).await {
                Ok(holds) if holds != expected && holds != "none" => {
                    return Some(RedisError::Foreign(ForeignKey { key, holds }));
                }
                _ => {}
            }
        }
        None
    }

    /// Redis time, which decides when sales begin and end and jobs are due.
    pub async fn now(&mut self) -> Result<Millis> {
        self.now_at(HOME).await
    }

    /// Time of the server of `key`.
    pub async fn now_at(&mut self, key: &str) -> Result<Millis> {
        let (seconds, micros): (i64, i64) = self.query_at(self.slot(key), &cmd("TIME")).await?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }

    /// Drops every connection, because one was found unresponsive before its own timeout.
    pub fn forget(&mut self) {
        for peer in &mut self.peers {
            peer.connection = None;
        }
        self.mark_stale(Hint::None);
    }

    /// Classifies an error of a command sent to the server of `key`, and drops the connection or slot map that caused
    /// it.
    pub fn broke(&mut self, key: &str, error: &DriverError) -> RedisError {
        self.drop_connection(self.slot(key), error)
    }

    /// Like [`Connection::broke`] for a given connection generation: a newer connection is kept.
    pub fn broke_then(&mut self, key: &str, generation: u64, error: &DriverError) -> RedisError {
        let slot = self.slot(key);
        if self.generation(key) == generation {
            self.drop_connection(slot, error)
        } else {
            self.classify(slot, error)
        }
    }

    async fn query_at<T: FromRedisValue>(&mut self, slot: u16, cmd: &Cmd) -> Result<T> {
        let reply = self.send(slot, Ask::Command(cmd)).await?;
        self.read(slot, reply)
    }

    pub(super) fn slot(&self, key: &str) -> u16 {
        if self.redis.is_cluster() { slot_of(key) } else { 0 }
    }

    /// Server of a slot, if known for certain.
    fn peer(&self, slot: u16) -> Option<&Peer> {
        if self.stale { None } else { self.peers.get(self.last_peer(slot)?) }
    }

    /// Server last used for a slot.
    fn last_peer(&self, slot: u16) -> Option<usize> {
        if !self.redis.is_cluster() {
            return (!self.peers.is_empty()).then_some(0);
        }
        let owner = self.map.as_ref()?.owner(slot)?;
        self.peers.iter().position(|peer| peer.node.as_ref() == Some(owner))
    }

    fn address_of(&self, slot: u16) -> String {
        let peer = self.last_peer(slot).and_then(|index| self.peers.get(index));
        peer.map_or(self.redis.address(), |peer| &peer.address).to_owned()
    }

    async fn reach(&mut self, slot: u16) -> Result<MultiplexedConnection> {
        if let Some(Peer { connection: Some(connection), .. }) = self.peer(slot) {
            return Ok(connection.clone());
        }
        let node = self.locate(slot).await?;
        if let Some(Peer { connection: Some(connection), .. }) = self.peer(slot) {
            return Ok(connection.clone());
        }
        if let Some(lost) = node.as_ref().and_then(|node| self.lost_at(node)) {
            return Err(lost.error.clone());
        }
        match self.redis.connect(node.as_ref(), self.answer).await {
            Ok(made) => {
                self.generation += 1;
                self.peers.retain(|peer| peer.node != node);
                self.peers.push(Peer {
                    node,
                    address: made.address,
                    info: made.info,
                    connection: Some(made.connection.clone()),
                    generation: self.generation,
                });
                Ok(made.connection)
            }
            Err(error) => {
                if error.is_away() {
                    self.mark_stale(node.map_or(Hint::None, Hint::Last));
                }
                Err(error)
            }
        }
    }

    /// Cluster node of a slot; `None` without a cluster.
    async fn locate(&mut self, slot: u16) -> Result<Option<Node>> {
        let Some(cluster) = self.redis.cluster() else { return Ok(None) };
        let slots = match &self.map {
            Some(slots) if !self.stale => Arc::clone(slots),
            _ => cluster.slots().await?,
        };
        self.peers.retain(|peer| peer.node.as_ref().is_some_and(|node| slots.has(node)));
        let owner = slots.owner(slot).cloned();
        (self.map, self.stale) = (Some(slots), false);
        if owner.is_none() {
            // The cluster may have recovered by the next call.
            self.mark_stale(Hint::None);
            return Err(self.redis.unserved(slot));
        }
        Ok(owner)
    }

    /// Marks the slot map as outdated, also for other tasks, unless one of them has fetched a newer map since.
    fn mark_stale(&mut self, hint: Hint) {
        if let (Some(slots), Some(cluster)) = (&self.map, self.redis.cluster())
            && !std::mem::replace(&mut self.stale, true)
        {
            cluster.mark_stale(slots, hint);
        }
    }

    fn drop_connection(&mut self, slot: u16, error: &DriverError) -> RedisError {
        let sorted = self.classify(slot, error);
        let index = self.last_peer(slot);
        let node = index.and_then(|index| self.peers.get(index)?.node.clone());
        let reply = server_error(error);
        let code = reply.as_ref().map(ServerError::code);
        // A demoted server reports this on a connection that would otherwise stay open.
        let demoted = matches!(code, Some("READONLY" | "UNBLOCKED"));
        if error.is_unrecoverable_error() || error.is_io_error() || error.is_timeout() || demoted {
            if let Some(peer) = index.and_then(|index| self.peers.get_mut(index)) {
                peer.connection = None;
            }
            self.mark_stale(node.map_or(Hint::None, Hint::Last));
        } else if let (Some("MOVED"), Some(reply), Some(node)) = (code, &reply, &node) {
            let owner = Node::redirected(reply.details().unwrap_or_default(), node);
            self.mark_stale(owner.map_or(Hint::None, Hint::First));
        } else if let Some("CLUSTERDOWN" | "LOADING") = code {
            // This server may be isolated or replaced; the other servers know the current slot map.
            self.mark_stale(node.map_or(Hint::None, Hint::Last));
        }
        sorted
    }

    fn classify(&self, slot: u16, error: &DriverError) -> RedisError {
        let address = self.address_of(slot);
        if error.is_timeout() {
            return RedisError::Silent { address, millis: self.answer.as_millis() as u64 };
        }
        if self.redis.is_cluster() {
            match server_error(error).as_ref().map(ServerError::code) {
                // The command was not executed and succeeds on retry: for ASK and TRYAGAIN, once all keys of the slot
                // have moved.
                Some("MOVED" | "ASK" | "TRYAGAIN") => {
                    let reply = Reason::Quoted(plain(error));
                    return RedisError::Moved { address, reply };
                }
                Some("CLUSTERDOWN") => {
                    let (slot, reply) = (slot.to_string(), plain(error));
                    let why = reason!("redis-cluster-down", address, slot, reply);
                    return RedisError::ClusterDown(why);
                }
                _ => {}
            }
        }
        RedisError::from_redis(error, &address)
    }
}
