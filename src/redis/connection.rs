//! One task's way to Redis: for each command, the connection to the server that serves its key.
//!
//! Each task owns a [`Link`] of its own: a blocking read never stands in another's way, and a broken
//! connection is noticed by the one who used it, who knows whether his command may be repeated. So
//! nothing is repeated here: a command that came to a wrong server fails, and the next one finds
//! the right one.

use std::{sync::Arc, time::Duration};

use redis::{
    Cmd, FromRedisValue, Pipeline, RedisError, ScriptInvocation, aio::MultiplexedConnection, cmd,
};
use seckill_model::{ForeignKey, Millis};

use super::{
    BrokerError, Reason, Redis,
    cluster_slots::{Doubt, Hint, Node, Slots},
    connect::ServerInfo,
    error::{Said, plain},
    keys::type_of,
    routing::{self, HOME, slot_of},
};

/// Longest wait for replicas: shorter than any answer may take.
const REPLICAS_TIMEOUT: Duration = Duration::from_secs(4);

/// One task's connections, each made when it is first used and again after it broke.
#[derive(Debug)]
pub struct Link {
    redis: Redis,
    answer: Duration,
    /// Only one, where there is no cluster.
    peers: Vec<Peer>,
    map: Map,
    generation: u64,
}

/// A server and the connection to it.
#[derive(Debug)]
struct Peer {
    /// Which server of a cluster.
    node: Option<Node>,
    place: String,
    info: ServerInfo,
    connection: Option<MultiplexedConnection>,
    generation: u64,
}

/// Who serves which slot of a cluster. Kept by each link, so that a look at [`Link::server`] speaks of
/// the same server as the connection before it.
#[derive(Debug)]
enum Map {
    Unknown,
    Known(Arc<Slots>),
    Wrong(Doubt),
}

impl Link {
    pub(super) fn new(redis: Redis, answer: Duration) -> Self {
        Self { redis, answer, peers: Vec::new(), map: Map::Unknown, generation: 0 }
    }

    /// The connection to the server of `key`, made now if there is none. Use it for several commands
    /// in flight, and call [`Link::broke`] with what went wrong.
    pub async fn connection(&mut self, key: &str) -> Result<MultiplexedConnection, BrokerError> {
        self.reach(self.slot(key)).await
    }

    /// What the server of `key` said of itself when this link was last connected to it; `None`
    /// where that is not known (any more).
    pub fn server(&self, key: &str) -> Option<&ServerInfo> {
        self.peer(self.slot(key)).map(|peer| &peer.info)
    }

    /// The run ID of the server of `key`, to which this connects first where it has to.
    ///
    /// # Errors
    /// Redis is away.
    pub async fn run_id(&mut self, key: &str) -> Result<String, BrokerError> {
        self.connection(key).await?;
        Ok(self.server(key).map(|it| it.run_id.clone()).unwrap_or_default())
    }

    /// Rises with each connection that is made to the server of `key`: whose call failed on an older
    /// one must not drop it. 0 where there is none.
    pub fn generation(&self, key: &str) -> u64 {
        let peer = self.peer(self.slot(key)).filter(|peer| peer.connection.is_some());
        peer.map_or(0, |peer| peer.generation)
    }

    /// Where Redis is, without user or password.
    pub fn place(&self) -> &str {
        self.redis.place()
    }

    /// Whether keys are spread over several servers.
    pub fn is_cluster(&self) -> bool {
        self.redis.is_cluster()
    }

    /// One setting of the server of `key`, as it runs now.
    pub async fn setting(&mut self, key: &str, name: &str) -> Result<String, BrokerError> {
        let ask = cmd("CONFIG").arg("GET").arg(name).take();
        let (_, value): (String, String) = self.query_at(self.slot(key), &ask).await?;
        Ok(value)
    }

    /// Changes one setting of the server of `key`, until it is started again.
    pub async fn set(&mut self, key: &str, name: &str, value: &str) -> Result<(), BrokerError> {
        let ask = cmd("CONFIG").arg("SET").arg(name).arg(value).take();
        self.query_at(self.slot(key), &ask).await
    }

    /// Names of keys that match a pattern, on the server of `key`; each once. It looks at every key there, in steps.
    pub async fn keys_like(
        &mut self,
        key: &str,
        pattern: &str,
    ) -> Result<Vec<String>, BrokerError> {
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

    /// Runs one command where its key is.
    pub async fn query<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, BrokerError> {
        let slot = self.slot_by(|| routing::slot_of_command(cmd));
        match self.query_at(slot, cmd).await {
            Err(error) => Err(self.named(slot, error, || routing::first_key(cmd)).await),
            done => done,
        }
    }

    /// Runs a pipeline where its keys are: all of one slot.
    pub async fn pipe<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T, BrokerError> {
        let slot = self.slot_of_pipe(pipe)?;
        let mut connection = self.reach(slot).await?;
        match pipe.query_async(&mut connection).await {
            Ok(done) => Ok(done),
            Err(error) => {
                let error = self.lose(slot, &error);
                Err(self
                    .named(slot, error, || pipe.cmd_iter().filter_map(routing::first_key))
                    .await)
            }
        }
    }

    /// Runs a script where its keys are, loading it where the server does not know it.
    pub async fn invoke<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, BrokerError> {
        let slot = self.slot_by(|| routing::slot_of_script(script));
        let mut connection = self.reach(slot).await?;
        match script.invoke_async(&mut connection).await {
            Ok(done) => Ok(done),
            Err(error) => {
                let error = self.lose(slot, &error);
                Err(self.named(slot, error, || routing::keys_of_script(script)).await)
            }
        }
    }

    /// Names the key whose type made a command fail, where the names of keys tell.
    async fn named<K: AsRef<[u8]>, I: IntoIterator<Item = K>>(
        &mut self,
        slot: u16,
        error: BrokerError,
        keys: impl FnOnce() -> I,
    ) -> BrokerError {
        if !matches!(&error, BrokerError::Refused(why) if why.code() == Some("WRONGTYPE")) {
            return error;
        }
        let keys: Vec<String> = keys()
            .into_iter()
            .map(|key| String::from_utf8_lossy(key.as_ref()).into_owned())
            .collect();
        for key in keys {
            let Some(expected) = type_of(&key) else { continue };
            let ask = cmd("TYPE").arg(&key).take();
            match self.query_at::<String>(slot, &ask).await {
                Ok(holds) if holds != expected && holds != "none" => {
                    return BrokerError::Foreign(ForeignKey { key, holds });
                }
                _ => {}
            }
        }
        error
    }

    /// The clock of Redis, by which sales begin and end, and jobs are due.
    pub async fn now(&mut self) -> Result<Millis, BrokerError> {
        self.now_at(HOME).await
    }

    /// The clock of the server of `key`.
    pub async fn now_at(&mut self, key: &str) -> Result<Millis, BrokerError> {
        let (seconds, micros): (i64, i64) = self.query_at(self.slot(key), &cmd("TIME")).await?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }

    /// Waits until `replicas` of the server of `key` have all that this connection wrote, at most for
    /// `bound` or four seconds; returns how many have. What else is asked on this connection
    /// waits meanwhile.
    ///
    /// # Errors
    /// As ever, and where the connection that wrote is gone: a new one would know of no write.
    pub async fn wait_replicas(
        &mut self,
        key: &str,
        replicas: u32,
        bound: Duration,
    ) -> Result<u32, BrokerError> {
        let slot = self.slot(key);
        let Some(mut connection) = self.peer(slot).and_then(|peer| peer.connection.clone()) else {
            let detail = Reason::BrokeAfterWrite;
            return Err(BrokerError::Away { place: self.place_of(slot), detail });
        };
        // WAIT 0 would wait for ever.
        let bound = bound.min(REPLICAS_TIMEOUT).as_millis().max(1) as u64;
        let wait = cmd("WAIT").arg(replicas).arg(bound).take();
        let result = wait.query_async(&mut connection).await;
        result.map_err(|error| self.lose(slot, &error))
    }

    /// Drops every connection: somebody found one mute before its own bound did.
    pub fn forget(&mut self) {
        for peer in &mut self.peers {
            peer.connection = None;
        }
        self.doubt(Hint::None);
    }

    /// Sorts an error of a command that went to the server of `key`, and forgets what is of no more
    /// use: the connection, or the picture of who serves what.
    pub fn broke(&mut self, key: &str, error: &RedisError) -> BrokerError {
        self.lose(self.slot(key), error)
    }

    /// As [`Link::broke`], of a command that went over the connection of that generation: a newer
    /// one is kept.
    pub fn broke_then(&mut self, key: &str, generation: u64, error: &RedisError) -> BrokerError {
        let slot = self.slot(key);
        if self.generation(key) == generation {
            self.lose(slot, error)
        } else {
            self.sort(slot, error)
        }
    }

    async fn query_at<T: FromRedisValue>(
        &mut self,
        slot: u16,
        cmd: &Cmd,
    ) -> Result<T, BrokerError> {
        let mut connection = self.reach(slot).await?;
        let result = cmd.query_async(&mut connection).await;
        result.map_err(|error| self.lose(slot, &error))
    }

    fn slot_of_pipe(&self, pipe: &Pipeline) -> Result<u16, BrokerError> {
        if !self.redis.is_cluster() {
            return Ok(0);
        }
        Ok(routing::slot_of_pipe(pipe)?.unwrap_or_else(|| slot_of(HOME)))
    }

    fn slot(&self, key: &str) -> u16 {
        self.slot_by(|| Some(slot_of(key)))
    }

    /// One server has no slots, and commands for it need not be read.
    fn slot_by(&self, find: impl FnOnce() -> Option<u16>) -> u16 {
        if self.redis.is_cluster() { find().unwrap_or_else(|| slot_of(HOME)) } else { 0 }
    }

    /// The server of a slot, where that is known for sure.
    fn peer(&self, slot: u16) -> Option<&Peer> {
        match self.map {
            Map::Wrong(_) => None,
            _ => self.peers.get(self.last_peer(slot)?),
        }
    }

    /// The server that was taken for that of a slot last.
    fn last_peer(&self, slot: u16) -> Option<usize> {
        if !self.redis.is_cluster() {
            return (!self.peers.is_empty()).then_some(0);
        }
        let slots = match &self.map {
            Map::Known(slots) | Map::Wrong(Doubt { slots, .. }) => slots,
            Map::Unknown => return None,
        };
        let owner = slots.owner(slot)?;
        self.peers.iter().position(|peer| peer.node.as_ref() == Some(owner))
    }

    fn place_of(&self, slot: u16) -> String {
        let peer = self.last_peer(slot).and_then(|index| self.peers.get(index));
        peer.map_or(self.redis.place(), |peer| &peer.place).to_owned()
    }

    async fn reach(&mut self, slot: u16) -> Result<MultiplexedConnection, BrokerError> {
        if let Some(Peer { connection: Some(connection), .. }) = self.peer(slot) {
            return Ok(connection.clone());
        }
        let node = self.locate(slot).await?;
        if let Some(Peer { connection: Some(connection), .. }) = self.peer(slot) {
            return Ok(connection.clone());
        }
        match self.redis.connect(node.as_ref(), self.answer).await {
            Ok(made) => {
                self.generation += 1;
                self.peers.retain(|peer| peer.node != node);
                self.peers.push(Peer {
                    node,
                    place: made.place,
                    info: made.info,
                    connection: Some(made.connection.clone()),
                    generation: self.generation,
                });
                Ok(made.connection)
            }
            Err(error) => {
                if error.is_away() {
                    self.doubt(node.map_or(Hint::None, Hint::Last));
                }
                Err(error)
            }
        }
    }

    /// Which server of a cluster serves a slot; `None` where there is no cluster.
    async fn locate(&mut self, slot: u16) -> Result<Option<Node>, BrokerError> {
        let Some(cluster) = self.redis.cluster() else { return Ok(None) };
        let slots = match &self.map {
            Map::Known(slots) => Arc::clone(slots),
            Map::Unknown => cluster.slots(None).await?,
            Map::Wrong(doubt) => cluster.slots(Some(doubt.clone())).await?,
        };
        self.peers.retain(|peer| peer.node.as_ref().is_some_and(|node| slots.has(node)));
        let owner = slots.owner(slot).cloned();
        self.map = Map::Known(slots);
        if owner.is_none() {
            // It may be mended by the next time.
            self.doubt(Hint::None);
            return Err(self.redis.unserved(slot));
        }
        Ok(owner)
    }

    fn doubt(&mut self, hint: Hint) {
        if let Map::Known(slots) = &self.map {
            self.map = Map::Wrong(Doubt { slots: Arc::clone(slots), hint });
        }
    }

    fn lose(&mut self, slot: u16, error: &RedisError) -> BrokerError {
        let sorted = self.sort(slot, error);
        let index = self.last_peer(slot);
        let node = index.and_then(|index| self.peers.get(index)?.node.clone());
        let said = Said::of(error);
        let code = said.as_ref().map(|said| said.code.as_str());
        // A server that was demoted says so on a connection that would last for ever.
        let demoted = matches!(code, Some("READONLY" | "UNBLOCKED"));
        if error.is_unrecoverable_error() || error.is_io_error() || error.is_timeout() || demoted {
            if let Some(peer) = index.and_then(|index| self.peers.get_mut(index)) {
                peer.connection = None;
            }
            self.doubt(node.map_or(Hint::None, Hint::Last));
        } else if let (Some("MOVED"), Some(said), Some(node)) = (code, &said, &node) {
            let owner = Node::redirected(&said.detail, node);
            self.doubt(owner.map_or(Hint::None, Hint::First));
        } else if let Some("CLUSTERDOWN" | "LOADING") = code {
            // It may be cut off from the others, or replaced since it went down; they know better.
            self.doubt(node.map_or(Hint::None, Hint::Last));
        }
        sorted
    }

    fn sort(&self, slot: u16, error: &RedisError) -> BrokerError {
        let place = self.place_of(slot);
        if self.redis.is_cluster() {
            match Said::of(error).as_ref().map(|said| said.code.as_str()) {
                // It was not done, and will be when it is asked again: with ASK and TRYAGAIN, once the
                // keys of the slot have all moved.
                Some("MOVED" | "ASK" | "TRYAGAIN") => {
                    return BrokerError::Away { place, detail: Reason::KeyMoved(plain(error)) };
                }
                Some("CLUSTERDOWN") => {
                    let words = plain(error);
                    return BrokerError::Unwilling(Reason::ClusterDown { place, slot, words });
                }
                _ => {}
            }
        }
        BrokerError::from_redis(error, &place)
    }
}
