//! A real cluster for one test: primaries with one replica each, which may be killed, frozen
//! and restarted, and whose slots may be migrated.

use std::{collections::HashSet, time::Duration};

use redis::{FromRedisValue, RedisResult};

use super::{PATIENCE, redis_server::TestRedis, wait_until_blocking};

const SLOTS: usize = 16_384;
/// A server counts as failed after this time. A failover takes about twice as long.
const NODE_TIMEOUT: &str = "1500";

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct Setup {
    primaries: usize,
    password: Option<String>,
    args: Vec<String>,
}

impl Setup {
    /// Instead of three.
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// Requires this password; the URL contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Additional arguments for each server.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Starts it and waits until every server is ready and every replica is in sync.
    pub fn start(&self) -> TestCluster {
        TestCluster::new(self)
    }
}

/// The servers: first those that start as primaries, then the replica of each, in the same order.
#[derive(Debug)]
pub struct TestCluster {
    setup: Setup,
    nodes: Vec<TestRedis>,
    frozen: HashSet<usize>,
}

/// A line of CLUSTER NODES.
struct Myself {
    is_primary: bool,
    epoch: u64,
    ranges: Vec<(u16, u16)>,
}

impl TestCluster {
    pub fn start() -> Self {
        Self::setup().start()
    }

    pub fn setup() -> Setup {
        Setup { primaries: 3, password: None, args: Vec::new() }
    }

    fn new(setup: &Setup) -> Self {
        let args: Vec<&str> = setup.args.iter().map(String::as_str).collect();
        let start = |_| {
            let mut server = TestRedis::setup().tcp();
            if let Some(password) = &setup.password {
                server = server.password(password).args(&["--masterauth", password]);
            }
            server
                .args(&["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT])
                // Replicas keep their primary and sync at once.
                .args(&["--cluster-allow-replica-migration", "no"])
                .args(&["--cluster-replica-validity-factor", "0"])
                .args(&["--repl-diskless-sync-delay", "0"])
                .args(&args)
                .start()
        };
        let nodes: Vec<TestRedis> = (0..setup.primaries * 2).map(start).collect();
        let cluster = Self { setup: setup.clone(), nodes, frozen: HashSet::new() };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let count = self.setup.primaries;
        let (primaries, replicas) = self.nodes.split_at(count);
        for (i, node) in primaries.iter().enumerate() {
            let share = |i: usize| (SLOTS * i / count).to_string();
            let last = (SLOTS * (i + 1) / count - 1).to_string();
            node.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", &share(i), &last]);
            node.query::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]);
        }
        for node in self.nodes.iter().skip(1) {
            let port = node.port().to_string();
            self.nodes[0].query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let all = self.nodes.len();
        wait_until_blocking(PATIENCE, "every server of the cluster knows every other", || {
            self.nodes.iter().all(|node| {
                let known: String = node.query(&["CLUSTER", "NODES"]);
                known.lines().count() == all && !known.contains("handshake")
            })
        });
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id: String = primary.query(&["CLUSTER", "MYID"]);
            replica.query::<()>(&["CLUSTER", "REPLICATE", &id]);
        }
        self.wait_until_whole();
    }

    /// The URL for `--redis` with all servers.
    pub fn url(&self) -> String {
        self.url_by(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// The URL with some of its servers.
    pub fn url_by(&self, nodes: &[usize]) -> String {
        let login = self.setup.password.as_ref().map_or(String::new(), |p| format!(":{p}@"));
        let hosts: Vec<_> =
            nodes.iter().map(|i| format!("127.0.0.1:{}", self.nodes[*i].port())).collect();
        format!("redis+cluster://{login}{}", hosts.join(","))
    }

    pub fn node(&self, index: usize) -> &TestRedis {
        &self.nodes[index]
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The slot of a key, as a server computes it.
    pub fn slot(&self, key: &str) -> u16 {
        self.live().next().expect("a server runs").1.query(&["CLUSTER", "KEYSLOT", key])
    }

    /// Which primary serves a key now; `None` while none does.
    pub fn owner(&self, key: &str) -> Option<usize> {
        let slot = self.slot(key);
        let claims = self.live().filter_map(|(i, node)| {
            let me = myself(node).ok()?;
            let serves = me.ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot));
            (me.is_primary && serves).then_some((me.epoch, i))
        });
        // A restarted one may not know yet that it was replaced.
        claims.max().map(|(_, i)| i)
    }

    /// One command on the primary that serves a key.
    pub fn query<T: FromRedisValue>(&self, key: &str, command: &[&str]) -> T {
        self.nodes[self.owner(key).expect("the key is served")].query(command)
    }

    /// Writes on the primary of the key and waits for its replica.
    pub fn write_everywhere(&self, key: &str, write: &[&str]) {
        wait_until_blocking(PATIENCE, "the replica holds it", || {
            let owner = self.owner(key).map(|owner| &self.nodes[owner]);
            owner.is_some_and(|it| it.try_replicated(write, 1).is_ok_and(|held| held == 1))
        });
    }

    /// Sends SIGKILL to the primary of a key; returns its index.
    pub fn kill_owner(&mut self, key: &str) -> usize {
        let owner = self.owner(key).expect("the key is served");
        self.kill(owner);
        owner
    }

    /// SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
        self.frozen.remove(&index);
    }

    /// SIGSTOP: connections stay open without replies.
    pub fn freeze(&mut self, index: usize) {
        self.nodes[index].freeze();
        self.frozen.insert(index);
    }

    /// SIGCONT.
    pub fn thaw(&mut self, index: usize) {
        self.nodes[index].thaw();
        self.frozen.remove(&index);
    }

    /// Restarts a server with its data.
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
        self.frozen.remove(&index);
    }

    /// Waits until all live servers agree on a new primary of a key other than `old`; returns its index.
    pub fn wait_for_failover(&self, key: &str, old: usize) -> usize {
        let mut new = None;
        wait_until_blocking(PATIENCE, "another primary serves the key", || {
            new = self.owner(key).filter(|owner| *owner != old && self.agrees_on(key, *owner));
            new.is_some()
        });
        new.expect("it was waited for")
    }

    /// Waits until every live server reports all slots as served, and every live replica is in sync.
    pub fn wait_until_whole(&self) {
        wait_until_blocking(PATIENCE, "the cluster is whole", || {
            self.live().all(|(_, node)| is_well(node).unwrap_or(false))
        });
    }

    /// Waits until every live server refuses commands, because no server has some of the slots.
    pub fn wait_until_slots_are_lost(&self) {
        wait_until_blocking(PATIENCE, "the cluster is down", || {
            self.live()
                .all(|(_, node)| info(node, "cluster_state").is_ok_and(|state| state == "fail"))
        });
    }

    /// Migrates the slot of a key with its keys to another primary.
    pub fn move_slot(&self, key: &str, to: usize) {
        let (slot, from) = (self.slot(key).to_string(), self.owner(key).expect("it is served"));
        self.begin_to_move(key, to);
        let port = self.nodes[to].port().to_string();
        loop {
            let keys: Vec<String> =
                self.nodes[from].query(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            if keys.is_empty() {
                break;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            if let Some(password) = &self.setup.password {
                migrate.extend(["AUTH", password]);
            }
            migrate.push("KEYS");
            migrate.extend(keys.iter().map(String::as_str));
            self.nodes[from].query::<()>(&migrate);
        }
        let id: String = self.nodes[to].query(&["CLUSTER", "MYID"]);
        for node in [to, from] {
            self.nodes[node].query::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        wait_until_blocking(PATIENCE, "all know of the move", || self.agrees_on(key, to));
    }

    /// Starts a migration: missing keys are redirected to the importing server.
    pub fn begin_to_move(&self, key: &str, to: usize) {
        let (slot, from) = (self.slot(key).to_string(), self.owner(key).expect("it is served"));
        let id = |i: usize| self.nodes[i].query::<String>(&["CLUSTER", "MYID"]);
        self.nodes[to].query::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        self.nodes[from].query::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    fn live(&self) -> impl Iterator<Item = (usize, &TestRedis)> {
        let answers = |i: &usize| !self.frozen.contains(i);
        self.nodes.iter().enumerate().filter(move |(i, node)| node.is_running() && answers(i))
    }

    /// Whether every live server sees the slot of a key at `owner` and the cluster as healthy.
    fn agrees_on(&self, key: &str, owner: usize) -> bool {
        let (slot, port) = (self.slot(key), self.nodes[owner].port());
        self.live().all(|(_, node)| {
            // First slot, last slot, then the primary's address and more.
            type Row = (u16, u16, (String, u16, redis::Value, redis::Value));
            let rows: RedisResult<Vec<redis::Value>> = node.try_query(&["CLUSTER", "SLOTS"]);
            let sees = rows.unwrap_or_default().into_iter().any(|row| {
                let redis::Value::Array(mut row) = row else { return false };
                row.truncate(3);
                let row: Row = redis::from_redis_value(redis::Value::Array(row)).unwrap();
                (row.0..=row.1).contains(&slot) && row.2.1 == port
            });
            sees && info(node, "cluster_state").is_ok_and(|state| state == "ok")
        })
    }
}

fn info(node: &TestRedis, field: &str) -> RedisResult<String> {
    let text: String = node.try_query(&["CLUSTER", "INFO"])?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.unwrap_or_default().to_owned())
}

fn is_well(node: &TestRedis) -> RedisResult<bool> {
    let all = SLOTS.to_string();
    let replication: String = node.try_query(&["INFO", "replication"])?;
    let follows = replication.contains("role:master")
        || (replication.contains("role:slave") && replication.contains("master_link_status:up"));
    let served = info(node, "cluster_state")? == "ok" && info(node, "cluster_slots_ok")? == all;
    Ok(follows && served)
}

/// `ID HOST:PORT@BUS FLAGS PRIMARY PING PONG EPOCH LINK SLOTS…`
fn myself(node: &TestRedis) -> RedisResult<Myself> {
    let nodes: String = node.try_query(&["CLUSTER", "NODES"])?;
    let line = nodes.lines().find(|line| line.contains("myself")).expect("it knows itself");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |text: &str| text.parse().expect("a slot");
    // A migrating slot is in brackets, beside the range that still contains it.
    let ranges = words[8..].iter().filter(|word| !word.starts_with('[')).map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (number(first), number(last))
    });
    Ok(Myself {
        is_primary: words[2].contains("master"),
        epoch: words[6].parse().expect("an epoch"),
        ranges: ranges.collect(),
    })
}
