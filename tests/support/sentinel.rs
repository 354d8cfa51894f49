//! A primary with two replicas, and three sentinels that watch them, for one test.

use redis::{FromRedisValue, RedisResult};

use super::{PATIENCE, redis_server::TestRedis, wait_until_blocking};

/// Its name in the sentinels.
pub const SERVICE: &str = "flash";

/// Options of sentinels.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    password: Option<String>,
    sentinel_password: Option<String>,
}

impl Setup {
    /// The servers require this password; the URL contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The sentinels require this password; the URL contains it.
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// Starts all and waits until the sentinels know each other and the replicas.
    pub fn start(&self) -> TestSentinels {
        TestSentinels::new(self)
    }
}

/// One sentinel that watches the server at this port.
pub fn sentinel_of(port: u16) -> TestRedis {
    let file = format!("sentinel monitor {SERVICE} 127.0.0.1 {port} 1\n");
    TestRedis::setup().sentinel(file).start()
}

/// Servers and sentinels; the first server begins as the primary.
#[derive(Debug)]
pub struct TestSentinels {
    setup: Setup,
    // First, so that no failover starts while the servers stop.
    sentinels: Vec<TestRedis>,
    nodes: Vec<TestRedis>,
}

impl TestSentinels {
    pub fn start() -> Self {
        Setup::default().start()
    }

    pub fn setup() -> Setup {
        Setup::default()
    }

    fn new(setup: &Setup) -> Self {
        let mut server = TestRedis::setup().tcp().args(&["--repl-diskless-sync-delay", "0"]);
        if let Some(password) = &setup.password {
            server = server.password(password).args(&["--masterauth", password]);
        }
        let primary = server.start();
        let port = primary.port().to_string();
        let replica = |_| server.clone().args(&["--replicaof", "127.0.0.1", &port]).start();
        let mut nodes = vec![primary];
        nodes.extend((0..2).map(replica));
        wait_until_blocking(PATIENCE, "the replicas follow", || {
            nodes[0].query::<String>(&["INFO", "replication"]).matches("state=online").count() == 2
        });
        let mut file = format!("sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n");
        for (setting, value) in [
            ("down-after-milliseconds", "1000"),
            ("failover-timeout", "3000"),
            ("parallel-syncs", "2"),
        ] {
            file += &format!("sentinel {setting} {SERVICE} {value}\n");
        }
        if let Some(password) = &setup.password {
            file += &format!("sentinel auth-pass {SERVICE} {password}\n");
        }
        let mut sentinel = TestRedis::setup();
        if let Some(password) = &setup.sentinel_password {
            file += &format!("sentinel sentinel-pass {password}\n");
            sentinel = sentinel.password(password);
        }
        let sentinel = sentinel.sentinel(file);
        let sentinels: Vec<TestRedis> = (0..3).map(|_| sentinel.start()).collect();
        for sentinel in &sentinels {
            // By default they poll every ten seconds and exchange messages every two.
            let quick = ["info-period", "500", "publish-period", "250", "ask-period", "250"];
            sentinel.query::<()>(&[&["SENTINEL", "DEBUG"][..], &quick].concat());
        }
        let all = Self { setup: setup.clone(), sentinels, nodes };
        wait_until_blocking(PATIENCE, "the sentinels know each other and the replicas", || {
            all.sentinels.iter().all(|sentinel| {
                let known = |what: &str| {
                    let rows: Vec<redis::Value> = sentinel.query(&["SENTINEL", what, SERVICE]);
                    rows.len()
                };
                known("sentinels") == 2 && known("replicas") == 2
            })
        });
        all
    }

    /// For `--redis`.
    pub fn url(&self) -> String {
        let login = self.setup.password.as_ref().map_or(String::new(), |p| format!(":{p}@"));
        let own = self.setup.sentinel_password.as_ref();
        let own = own.map_or(String::new(), |p| format!("?sentinel_pass={p}"));
        let hosts: Vec<_> =
            self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
        format!("redis+sentinel://{login}{}/{SERVICE}{own}", hosts.join(","))
    }

    /// The index of the primary according to the sentinels.
    pub fn primary(&self) -> usize {
        let sentinel = self.sentinels.iter().find(|it| it.is_running()).expect("a sentinel runs");
        let (_, port): (String, u16) =
            sentinel.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        self.nodes.iter().position(|node| node.port() == port).expect("one of the servers")
    }

    pub fn node(&self, index: usize) -> &TestRedis {
        &self.nodes[index]
    }

    /// One command on the primary.
    pub fn query<T: FromRedisValue>(&self, command: &[&str]) -> T {
        self.nodes[self.primary()].query(command)
    }

    /// Writes on the primary and waits for both replicas, so that either may be promoted.
    pub fn write_everywhere(&self, write: &[&str]) {
        wait_until_blocking(PATIENCE, "both replicas hold it", || {
            self.nodes[self.primary()].try_replicated(write, 2).is_ok_and(|held| held == 2)
        });
    }

    /// Sends SIGKILL to the primary; returns its index.
    pub fn kill_primary(&mut self) -> usize {
        let primary = self.primary();
        self.nodes[primary].kill();
        primary
    }

    /// Restarts a server with its data, and waits until it is in sync.
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
        wait_until_blocking(PATIENCE, "it follows the primary", || {
            // A server that becomes a replica closes its connections.
            let role: RedisResult<String> = self.nodes[index].try_query(&["INFO", "replication"]);
            role.is_ok_and(|it| it.contains("role:slave") && it.contains("master_link_status:up"))
        });
    }

    /// SIGKILL for a sentinel.
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Makes the sentinels promote a replica although the primary is alive.
    pub fn demand_failover(&self) {
        let sentinel = self.sentinels.iter().find(|it| it.is_running()).expect("a sentinel runs");
        // A sentinel with outdated information about the replicas refuses to promote one.
        wait_until_blocking(PATIENCE, "a sentinel knows a good replica", || {
            sentinel.try_query::<()>(&["SENTINEL", "FAILOVER", SERVICE]).is_ok()
        });
    }

    /// Waits until a server other than `old` is the primary for itself and every live sentinel; returns
    /// its index.
    pub fn wait_for_failover(&self, old: usize) -> usize {
        let mut new = old;
        wait_until_blocking(PATIENCE, "another primary was made", || {
            new = self.primary();
            let port = self.nodes[new].port();
            let agreed = self.sentinels.iter().filter(|it| it.is_running()).all(|sentinel| {
                let named: RedisResult<(String, u16)> =
                    sentinel.try_query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
                named.is_ok_and(|(_, at)| at == port)
            });
            let role: RedisResult<String> = self.nodes[new].try_query(&["INFO", "replication"]);
            new != old && agreed && role.is_ok_and(|role| role.contains("role:master"))
        });
        new
    }
}
