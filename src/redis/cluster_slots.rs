//! The slot map of a cluster, read from any of its servers.
//!
//! All connections share the latest slot map until one of them reports it as outdated. This module sends only INFO and
//! CLUSTER.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, Value, cmd, from_redis_value,
    pipe,
};

use seckill_model::reason::reason;

use super::{RedisError, Result, routing::SLOTS};

/// Timeout of one server; other servers are asked in parallel.
const ANSWER_TIMEOUT_MS: u64 = 1_000;
const ANSWER_TIMEOUT: Duration = Duration::from_millis(ANSWER_TIMEOUT_MS);
/// Timeout of the whole search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);
/// Servers asked concurrently: the first valid reply is used.
const CONCURRENCY: usize = 4;
/// A server that did not reply in time is not asked again for this long: each connection would wait for it.
const SILENCE: Duration = Duration::from_secs(2);

/// A server's address as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    host: String,
    port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Node {
    /// Parses a server address that includes a host.
    pub(super) fn of(info: &ConnectionInfo) -> Option<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }

    /// The target of a redirection such as `866 127.0.0.1:7001`. Without a host it is the server that sent it.
    pub(super) fn redirected(detail: &str, by: &Self) -> Option<Self> {
        let (host, port) = detail.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { &by.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// Slot map as reported by one server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// First slot, last slot, primary; ascending.
    ranges: Vec<(u16, u16, Node)>,
    /// All servers mentioned, replicas included: candidates to ask when a primary is gone.
    named: Vec<Node>,
}

impl SlotMap {
    /// Parses the CLUSTER SLOTS reply of `asked`: first slot, last slot, primary, replicas.
    fn read(reply: Value, asked: &Node) -> Option<Self> {
        let rows: Vec<Vec<Value>> = from_redis_value(reply).ok()?;
        let mut slots = Self::default();
        for row in rows {
            let mut row = row.into_iter();
            let first = from_redis_value(row.next()?).ok()?;
            let last = from_redis_value(row.next()?).ok()?;
            let mut nodes = row.map(|node| node_of(node, asked));
            if let Some(primary) = nodes.next().flatten() {
                slots.named.push(primary.clone());
                slots.ranges.push((first, last, primary));
            }
            slots.named.extend(nodes.flatten());
        }
        slots.ranges.sort_unstable_by_key(|(first, ..)| *first);
        Some(slots)
    }

    /// Returns the server of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, node) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(node)
    }

    /// Whether a server serves any slot.
    pub(super) fn has(&self, node: &Node) -> bool {
        self.ranges.iter().any(|(_, _, primary)| primary == node)
    }

    fn is_complete(&self) -> bool {
        let covered: u32 = self
            .ranges
            .iter()
            .map(|(first, last, _)| u32::from(last.saturating_sub(*first)) + 1)
            .sum();
        covered == u32::from(SLOTS)
    }
}

/// Endpoint, port, ID, more. An empty or null endpoint is the host that was asked; `?` is unknown, and the address
/// among the remaining fields is used.
fn node_of(value: Value, asked: &Node) -> Option<Node> {
    let (host, port, _, more): (Option<String>, u16, String, HashMap<String, String>) =
        from_redis_value(value).ok()?;
    let host = match host.as_deref() {
        Some("?") => more.get("ip").filter(|ip| !ip.is_empty())?.clone(),
        Some(host) if !host.is_empty() => host.to_owned(),
        _ => asked.host.clone(),
    };
    Some(Node { host, port })
}

/// Which server to ask for the next slot map.
#[derive(Clone, Debug)]
pub(super) enum Hint {
    /// Any server.
    None,
    /// This server first: a redirection pointed to it.
    First(Node),
    /// This server last: it failed, so its slot map may be just as old.
    Last(Node),
}

/// A cluster, addressed by some of its servers.
#[derive(Debug)]
pub(super) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    /// The first seed; its credentials apply to all servers.
    like: ConnectionInfo,
    address: String,
    /// The latest slot map fetched by any connection; once it is outdated, with a hint where to look for the next one.
    last: Mutex<Option<(Arc<SlotMap>, Option<Hint>)>>,
    /// Servers that did not reply in time, to any connection.
    silent: Mutex<HashMap<Node, (Instant, RedisError)>>,
}

/// Reply of one server.
struct MapReply {
    slots: SlotMap,
    /// All slots are served, and it sees a majority of the primaries.
    whole: bool,
}

impl Cluster {
    /// Returns the cluster behind these addresses; `None` for an empty list.
    pub(super) fn new(seeds: Vec<ConnectionInfo>, address: String) -> Option<Self> {
        let like = seeds.first()?.clone();
        Some(Self { seeds, like, address, last: Mutex::default(), silent: Mutex::default() })
    }

    /// Returns the latest slot map fetched by any connection, or a new one if that is outdated.
    pub(super) async fn slots(&self) -> Result<Arc<SlotMap>> {
        let last = self.last.lock().clone();
        match last {
            Some((slots, None)) => Ok(slots),
            Some((_, Some(hint))) => self.look(hint).await,
            None => self.look(Hint::None).await,
        }
    }

    /// Returns the latest slot map, even if it is outdated, or the first one.
    pub(super) async fn last_slots(&self) -> Result<Arc<SlotMap>> {
        let last = self.last.lock().clone();
        match last {
            Some((slots, _)) => Ok(slots),
            None => self.look(Hint::None).await,
        }
    }

    /// Marks a slot map as outdated, unless a newer one was fetched since.
    pub(super) fn mark_stale(&self, slots: &Arc<SlotMap>, hint: Hint) {
        if let Some((last, stale)) = &mut *self.last.lock()
            && Arc::ptr_eq(last, slots)
        {
            *stale = Some(hint);
        }
    }

    /// Notes that a server did not reply in time, and returns the error.
    pub(super) fn note_silent(&self, node: &Node, millis: u64) -> RedisError {
        let error = RedisError::Silent { address: node.to_string(), millis };
        self.silent.lock().insert(node.clone(), (Instant::now(), error.clone()));
        error
    }

    /// The error of a server that did not reply in time a moment ago.
    pub(super) fn check_silent(&self, node: &Node) -> Result<()> {
        let mut silent = self.silent.lock();
        silent.retain(|_, (at, _)| at.elapsed() < SILENCE);
        silent.get(node).map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Fetches a new slot map.
    pub(super) async fn look(&self, hint: Hint) -> Result<Arc<SlotMap>> {
        let away = |detail| RedisError::Away { address: self.address.clone(), detail };
        let (mut partial, mut failure) = (None, None);
        let searching = async {
            for round in self.rounds(hint) {
                let mut asked: FuturesUnordered<_> =
                    round.iter().map(|node| self.ask(node)).collect();
                while let Some(answer) = asked.next().await {
                    match answer {
                        Ok(view) if view.whole => return Some(view.slots),
                        Ok(view) => partial = partial.take().or(Some(view.slots)),
                        // An unreachable server is less informative than one that refuses.
                        Err(error) if error.is_away() && failure.is_some() => {}
                        Err(error) => failure = Some(error),
                    }
                }
            }
            None
        };
        let found = tokio::time::timeout(SEARCH_TIMEOUT, searching).await.unwrap_or_default();
        match (found.or(partial), failure) {
            (Some(slots), _) => {
                let slots = Arc::new(slots);
                *self.last.lock() = Some((Arc::clone(&slots), None));
                Ok(slots)
            }
            (None, Some(RedisError::Away { address, detail })) => {
                Err(away(reason!("redis-none-of-its-servers-answers", address, reason = detail)))
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(away(reason!("redis-timed-out"))),
        }
    }

    /// Connection settings for one of its servers.
    pub(super) fn client(&self, node: &Node) -> Result<Client> {
        let (host, port) = (node.host.clone(), node.port);
        let addr = match self.like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        Client::open(self.like.clone().set_addr(addr))
            .map_err(|error| RedisError::from_redis(&error, &node.to_string()))
    }

    /// All known servers, in the order in which to ask them.
    fn rounds(&self, hint: Hint) -> Vec<Vec<Node>> {
        let last = self.last.lock().clone();
        let known = last.iter().flat_map(|(slots, _)| slots.named.iter().cloned());
        let mut all: Vec<Node> = Vec::new();
        for node in known.chain(self.seeds.iter().filter_map(Node::of)) {
            if !all.contains(&node) {
                all.push(node);
            }
        }
        let (first, last) = match hint {
            Hint::First(node) => (Some(node), None),
            Hint::Last(node) => (None, Some(node)),
            Hint::None => (None, None),
        };
        all.retain(|it| Some(it) != first.as_ref() && Some(it) != last.as_ref());
        let others = all.chunks(CONCURRENCY).map(<[Node]>::to_vec);
        let (first, last) = (first.map(|node| vec![node]), last.map(|node| vec![node]));
        first.into_iter().chain(others).chain(last).collect()
    }

    async fn ask(&self, node: &Node) -> Result<MapReply> {
        let address = node.to_string();
        if self.check_silent(node).is_err() {
            return Err(RedisError::Away { address, detail: reason!("redis-timed-out") });
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        let client = self.client(node)?;
        let asking = async {
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            let enabled: String = cmd("INFO").arg("cluster").query_async(&mut connection).await?;
            if enabled.lines().any(|line| line == "cluster_enabled:0") {
                return Ok(None);
            }
            let mut ask = pipe();
            ask.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
            ask.query_async::<(Value, String)>(&mut connection).await.map(Some)
        };
        let answer = asking.await.map_err(|error| {
            if error.is_timeout() {
                self.note_silent(node, ANSWER_TIMEOUT_MS);
            }
            RedisError::from_redis(&error, &address)
        })?;
        let Some((reply, info)) = answer else {
            return Err(RedisError::Url(reason!("redis-url-no-cluster", address)));
        };
        let slots = SlotMap::read(reply, node).ok_or(RedisError::reply("CLUSTER SLOTS"))?;
        let whole = slots.is_complete() && info.contains("cluster_state:ok");
        Ok(MapReply { slots, whole })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.to_owned(), port }
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn row(first: i64, last: i64, nodes: &[(Value, i64, Value)]) -> Value {
        let mut row = vec![Value::Int(first), Value::Int(last)];
        row.extend(nodes.iter().map(|(host, port, more)| {
            Value::Array(vec![host.clone(), Value::Int(*port), bulk("id"), more.clone()])
        }));
        Value::Array(row)
    }

    #[test]
    fn slots_are_found_in_any_order() {
        let none = Value::Array(Vec::new());
        let at = |host: &str, port| (bulk(host), port, none.clone());
        let reply = Value::Array(vec![
            row(5461, 10_922, &[at("b", 2), at("d", 4)]),
            row(0, 5460, &[at("a", 1)]),
            row(10_924, 16_383, &[at("c", 3)]),
        ]);
        let slots = SlotMap::read(reply, &node("asked", 9)).unwrap();
        assert_eq!(slots.owner(0), Some(&node("a", 1)));
        assert_eq!(slots.owner(5460), Some(&node("a", 1)));
        assert_eq!(slots.owner(5461), Some(&node("b", 2)));
        assert_eq!(slots.owner(10_923), None, "unserved");
        assert_eq!(slots.owner(16_383), Some(&node("c", 3)));
        assert!(!slots.is_complete() && slots.has(&node("b", 2)));
        assert!(slots.named.contains(&node("d", 4)) && !slots.has(&node("d", 4)));
        assert_eq!(SlotMap::default().owner(1), None);
    }

    #[test]
    fn nameless_server_is_the_one_asked() {
        let asked = node("asked", 9);
        let none = Value::Array(Vec::new());
        for unnamed in [bulk(""), Value::Nil] {
            let reply = Value::Array(vec![row(0, 16_383, &[(unnamed, 1, none.clone())])]);
            let slots = SlotMap::read(reply, &asked).unwrap();
            assert_eq!(slots.owner(7), Some(&node("asked", 1)));
            assert!(slots.is_complete());
        }
        let ip = Value::Array(vec![bulk("ip"), bulk("10.0.0.1")]);
        let reply = Value::Array(vec![
            row(0, 1, &[(bulk("?"), 1, ip)]),
            row(2, 3, &[(bulk("?"), 1, none)]),
        ]);
        let slots = SlotMap::read(reply, &asked).unwrap();
        assert_eq!(slots.owner(1), Some(&node("10.0.0.1", 1)));
        assert_eq!(slots.owner(2), None, "unreachable");
        assert_eq!(SlotMap::read(bulk("no cluster"), &asked), None);
    }

    #[test]
    fn redirections_name_a_server() {
        let by = node("asked", 9);
        let led = |detail| Node::redirected(detail, &by);
        assert_eq!(led("866 127.0.0.1:7001"), Some(node("127.0.0.1", 7001)));
        assert_eq!(led("866 :7001"), Some(node("asked", 7001)));
        assert_eq!(led("866 ::1:7001"), Some(node("::1", 7001)));
        assert_eq!(led("866"), None);
        assert_eq!(node("::1", 7001).to_string(), "[::1]:7001");
    }

    proptest::proptest! {
        /// A proxy, or another program at the port, may reply with anything.
        #[test]
        fn any_reply_is_a_map_or_none(reply in reply(), slot: u16) {
            let asked = Node { host: "h".into(), port: 1 };
            if let Some(map) = SlotMap::read(reply, &asked) {
                let _ = (map.owner(slot), map.has(&asked), map.is_complete());
            }
        }
    }

    fn reply() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            (0..20_000_i64).prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::BulkString),
            any::<String>().prop_map(Value::SimpleString),
            any::<f64>().prop_map(Value::Double),
            any::<bool>().prop_map(Value::Boolean),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Set),
                proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
            ]
        })
    }
}
