//! A complete engine for a test: its own Redis server, a database, and one node.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(unreachable_pub, reason = "`pub` here means: for the tests that include this module")]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use redis::cmd;
use seckill_engine::{
    EngineError,
    admission::AdmissionError,
    commands::{Command, LoadReport, LoadTest, Pace, ReplayReport, Reply, Scope},
    deployment::{Deployment, servers::Servers, settings::Settings},
    fault_injection, ledger,
    node::{Node, NodeConfig},
};
use seckill_model::{
    Millis, NewSale, Outcome, Sale, ShardId, UserId, VoucherId, filter::Filter, ledger::Finding,
};
use seckill_redis::{Layout, Redis, keys::node_of};
use seckill_store::{
    self, ActivityFilter, AuditEntry, SharedStore, StoreError, fault_injection::Illness,
};
use sqlx::{AnyConnection, Connection as _, SqliteConnection};

use super::support::{MariaDb, Postgres, TestRedis};

/// The name of the node under test.
pub const NODE: &str = "node-t";
const PATIENCE: Duration = Duration::from_mins(1);

/// A separate process each time.
fn uuid() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// The database of a world: a file, or a new database on the shared test server.
#[derive(Clone, Copy, Debug)]
pub enum Database {
    Sqlite,
    MariaDb,
    Postgres,
}

impl Database {
    /// Returns the URL of a new database.
    async fn url(self, files: &tempfile::TempDir) -> String {
        match self {
            Self::Sqlite => format!("sqlite:{}", files.path().join("t.db").display()),
            Self::MariaDb => MariaDb::shared().database().await,
            Self::Postgres => Postgres::shared().database().await,
        }
    }
}

pub struct World {
    pub server: TestRedis,
    pub redis: Redis,
    pub store: SharedStore,
    pub keys: Layout,
    pub read_only: bool,
    settings: Settings,
    node: Option<Node>,
    files: tempfile::TempDir,
    /// Of the database.
    pub url: String,
}

/// A store in `dir`, which several processes may open.
pub async fn open_sqlite(dir: &Path) -> SharedStore {
    let url = format!("sqlite:{}", dir.join("t.db").display());
    seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap()
}

/// Restocks one sale in SQL only.
pub async fn restock(
    store: &SharedStore,
    voucher: VoucherId,
    by: i64,
    seen: Option<u64>,
) -> Result<Sale, StoreError> {
    Ok(store.restock(&[(ShardId::only(voucher), by, seen)], &[]).await?.shards.remove(0).sale)
}

/// The newest lines of the audit log, newest first, as they were before they were stored.
pub async fn newest(store: &SharedStore, limit: u32) -> Vec<AuditEntry> {
    let lines = store.activity(&ActivityFilter::default(), None, limit).await.unwrap();
    lines.into_iter().map(|line| AuditEntry { id: 0, ..line }).collect()
}

/// Settings with which no buyer is refused because the machine is busy.
pub fn patient() -> Settings {
    Settings { queue_wait_ms: 60_000, ..Settings::default() }
}

/// A sale that starts at once, with one order per buyer.
pub fn sale(stock: u64) -> NewSale {
    NewSale::checked("hot pot", stock, None, None, Millis::now()).unwrap()
}

impl World {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a world with a sale.
    pub async fn with_sale(stock: u64) -> (Self, VoucherId) {
        let world = Self::start().await;
        let voucher = world.create(sale(stock)).await;
        (world, voucher)
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::on(Database::Sqlite, 1, change).await
    }

    /// Starts a world with this many partitions.
    pub async fn spread(partitions: u16, change: impl FnOnce(&mut Settings)) -> Self {
        Self::on(Database::Sqlite, partitions, change).await
    }

    /// Starts a world on another database.
    pub async fn on(
        database: Database,
        partitions: u16,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let files = tempfile::tempdir().unwrap();
        let url = database.url(&files).await;
        Self::of(files, &url, &seckill_store::Settings::default(), partitions, change).await
    }

    /// Starts a world on the database at this URL. The limits in `store` do not apply to the creation of its schema.
    pub async fn at(url: &str, store: &seckill_store::Settings) -> Self {
        seckill_store::open(url, &seckill_store::Settings::default()).await.unwrap().close().await;
        Self::of(tempfile::tempdir().unwrap(), url, store, 1, |_| {}).await
    }

    async fn of(
        files: tempfile::TempDir,
        url: &str,
        store: &seckill_store::Settings,
        partitions: u16,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = patient();
        change(&mut settings);
        let server = TestRedis::start();
        let store = seckill_store::open(url, store).await.unwrap();
        let redis = Redis::from_url(&server.url()).unwrap();
        let mut world = Self {
            server,
            redis,
            store,
            keys: Layout::new(partitions, false),
            read_only: false,
            settings,
            node: None,
            files,
            url: url.to_owned(),
        };
        world.start_node();
        world
    }

    /// Starts a world on a server set up by the caller, with a database that fails on demand and without a node.
    pub async fn shaky(
        server: TestRedis,
        database: Database,
        partitions: u16,
        seed: u64,
        change: impl FnOnce(&mut Settings),
    ) -> (Self, Illness) {
        let files = tempfile::tempdir().unwrap();
        let url = database.url(&files).await;
        let store = seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap();
        let (store, illness) = store.with_faults(seed);
        let mut settings = patient();
        change(&mut settings);
        let redis = Redis::from_url(&server.url()).unwrap();
        let keys = Layout::new(partitions, false);
        let world =
            Self { server, redis, store, keys, read_only: false, settings, node: None, files, url };
        (world, illness)
    }

    /// The servers, over a connection of its own.
    pub fn servers(&self) -> Servers {
        Servers::new(&self.redis, &self.store, &self.keys)
    }

    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("the node runs")
    }

    pub fn start_node(&mut self) {
        self.node = Some(self.another_node(NODE));
    }

    /// Starts the node under test under another name or as another process.
    pub fn start_node_as(&mut self, name: &str, instance: &str) {
        self.node = Some(self.node_as(name, instance));
    }

    /// Starts a second node on the same servers, as another process would.
    pub fn another_node(&self, name: &str) -> Node {
        self.node_as(name, &uuid())
    }

    /// Starts a second node that reaches Redis at another URL.
    pub fn node_through(&self, url: &str, name: &str) -> Node {
        self.node_on(Redis::from_url(url).unwrap(), name, &uuid())
    }

    pub fn deployment(&self) -> Deployment {
        Deployment {
            redis: self.redis.clone(),
            store: self.store.clone(),
            keys: self.keys.clone(),
            settings: self.settings.clone(),
        }
    }

    /// Starts a second node, as this process.
    pub fn node_as(&self, name: &str, instance: &str) -> Node {
        self.node_on(self.redis.clone(), name, instance)
    }

    fn node_on(&self, redis: Redis, name: &str, instance: &str) -> Node {
        Node::start(NodeConfig {
            deployment: Deployment { redis, ..self.deployment() },
            name: name.to_owned(),
            instance: instance.to_owned(),
            read_only: self.read_only,
        })
    }

    pub async fn stop_node(&mut self) {
        assert!(
            self.node.take().expect("the node runs").stop().await.in_time,
            "the node did not stop in time"
        );
    }

    pub async fn restart_node(&mut self) {
        self.stop_node().await;
        self.start_node();
    }

    pub async fn execute(&self, command: Command) -> Result<Reply, EngineError> {
        self.node().operator().execute(command, self.node().stopping()).await
    }

    pub async fn create(&self, sale: NewSale) -> VoucherId {
        match self.execute(Command::CreateSale(sale)).await.unwrap() {
            Reply::SaleCreated(voucher) => voucher,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a load test of distinct buyers, each with one request.
    pub async fn buy(&self, voucher: VoucherId, users: u64) -> LoadReport {
        self.rush(LoadTest { repeat: 0.0, ..LoadTest::new(voucher, users) }).await
    }

    /// Admits these buyers, one after the other.
    pub async fn admit(&self, voucher: VoucherId, users: impl IntoIterator<Item = u64>) {
        for user in users {
            let outcome = self.ask(voucher, user).await;
            assert!(matches!(outcome, Outcome::Admitted { .. }), "{user}: {outcome:?}");
        }
    }

    pub async fn rush(&self, plan: LoadTest) -> LoadReport {
        match self.execute(Command::LoadTest(plan)).await.unwrap() {
            Reply::LoadTestDone(report) => report,
            other => panic!("{other:?}"),
        }
    }

    pub async fn ask(&self, voucher: VoucherId, user: u64) -> Outcome {
        self.request(voucher, user).await.unwrap()
    }

    async fn request(&self, voucher: VoucherId, user: u64) -> Result<Outcome, AdmissionError> {
        let admission = self.node().operator().admission.clone().expect("the node admits");
        admission.request(voucher, UserId(user)).answer().await.outcome
    }

    /// Requests an order and returns whether the buyer has one. The reply that admits may be lost with the connection;
    /// the next request is then a duplicate.
    pub async fn obtains(&self, voucher: VoucherId, user: u64) -> bool {
        self.request(voucher, user).await.is_ok_and(|outcome| outcome.order().is_some())
    }

    /// Waits until the node has reconciled Redis; it writes to SQL for that, also after it has confirmed that to others, and
    /// admits no buyer before.
    pub async fn admits(&self) {
        self.until("the node admits", async || {
            let has = |key: String, field| self.server.query::<bool>(&["HEXISTS", &key, field]);
            self.keys
                .partitions()
                .all(|of| has(of.reconciled(), NODE) && has(of.watermark(), "restored"))
        })
        .await;
    }

    /// Pauses the consumers. A busy machine may need longer than one call waits.
    pub async fn hold(&self) {
        self.until("the consumers are held", async || self.node().hold_consumer(true).await).await;
    }

    /// Resumes the consumers.
    pub async fn release(&self) {
        self.node().hold_consumer(false).await;
    }

    /// Admits buyers while the consumers are paused, and leaves `most` of their orders with a dead node. The rest is
    /// written afterwards; the number of pending entries alone does not show that.
    pub async fn stick(&self, voucher: VoucherId, buyers: u64, most: usize) -> usize {
        self.hold().await;
        let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, buyers) };
        self.execute(Command::LoadTest(plan)).await.unwrap();
        let taken =
            fault_injection::die_with_batch(&self.redis, &self.keys, "node-b", most, 600_000)
                .await
                .unwrap();
        self.node().hold_consumer(false).await;
        self.wrote_the_rest().await;
        taken
    }

    /// Waits until no entry is undelivered or pending at the node under test.
    async fn wrote_the_rest(&self) {
        self.until("the others are written", async || {
            let mut conn = self.redis.connection();
            let stats = seckill_redis::stream_stats::read_stats(&mut conn, &self.keys, &[]).await;
            stats.is_ok_and(|s| {
                let own = |name: &str| node_of(name) == NODE;
                let idle = s.consumers.iter().all(|it| !own(&it.name) || it.pending == 0);
                s.stream.group && s.stream.lag == Some(0) && idle
            })
        })
        .await;
    }

    /// Slot -> order, as stored in Redis.
    pub fn buyers(&self, voucher: VoucherId) -> HashMap<String, String> {
        let mut buyers: HashMap<String, String> =
            self.server.query(&["HGETALL", &self.keys.buyers(ShardId::only(voucher))]);
        buyers.remove("seq");
        buyers
    }

    pub async fn add_entry(&self, fields: &[&str]) {
        let mut add = cmd("XADD");
        add.arg(self.keys.home().orders()).arg("*").arg(fields);
        self.redis.connection().query::<String>(&add).await.unwrap();
    }

    pub async fn pending(&self) -> u64 {
        let mut conn = self.redis.connection();
        let stats = seckill_redis::stream_stats::read_stats(&mut conn, &self.keys, &[]).await;
        stats.unwrap().stream.pending
    }

    /// Waits until no entry is undelivered or pending and any running read has ended.
    pub async fn settled(&self) {
        self.until("every entry has settled", async || {
            let mut conn = self.redis.connection();
            let stats = seckill_redis::stream_stats::read_stats(&mut conn, &self.keys, &[]).await;
            stats.is_ok_and(|s| s.stream.group && s.stream.lag == Some(0) && s.stream.pending == 0)
        })
        .await;
    }

    /// Like `settled`, but replays the entries of dead nodes.
    pub async fn settled_by_replay(&self) {
        self.replay(Scope::All(Filter::default())).await;
        self.settled().await;
    }

    /// Plans a recovery of the pending entries and applies it.
    pub async fn replay(&self, scope: Scope) -> ReplayReport {
        self.try_replay(scope).await.unwrap()
    }

    /// Like `recover`, but returns the error if a server is unreachable or another operator is active.
    pub async fn try_replay(&self, scope: Scope) -> Result<ReplayReport, EngineError> {
        let Reply::Planned(plan) = self.execute(Command::Plan(scope)).await? else {
            panic!("no plan")
        };
        match self.execute(Command::Apply(plan, Pace::default())).await? {
            Reply::Replayed(report) => Ok(report),
            other => panic!("{other:?}"),
        }
    }

    pub async fn settled_and_balanced(&self) {
        self.settled().await;
        self.balanced().await;
    }

    pub async fn balanced(&self) {
        let audit = ledger::audit(&mut self.servers(), None).await.unwrap();
        assert!(audit.balanced, "the audit failed: {audit:#?}");
    }

    /// Asserts that an audit finds nothing except admitted orders among the dead letters.
    pub async fn stranded(&self) {
        let audit = ledger::audit(&mut self.servers(), None).await.unwrap();
        let others: Vec<_> =
            audit.findings().filter(|it| !matches!(it.what, Finding::Stranded(_))).collect();
        assert!(!audit.balanced && others.is_empty(), "no more than stranded orders: {others:?}");
    }

    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(done.is_ok(), "waited in vain: {what}");
    }

    /// Returns the path of its SQLite file, for another process.
    pub fn database(&self) -> PathBuf {
        self.files.path().join("t.db")
    }

    /// Opens a connection to the database.
    pub async fn sql(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        AnyConnection::connect(&self.url).await.unwrap()
    }

    /// Runs statements beside the node.
    pub async fn run_sql(&self, statements: &str) {
        let statements = sqlx::AssertSqlSafe(statements.to_owned());
        sqlx::Executor::execute(&mut self.sql().await, statements).await.unwrap();
    }

    /// Takes SQLite's write lock, as another program might; dropping it releases the lock.
    pub async fn lock_database(&self) -> SqliteConnection {
        let url = format!("sqlite:{}", self.files.path().join("t.db").display());
        let mut other = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
        other
    }
}

/// A world created by another process, for a node of this process.
pub struct Beside {
    pub redis: Redis,
    pub store: SharedStore,
    pub keys: Layout,
    settings: Settings,
}

impl Beside {
    pub async fn at(
        redis: Redis,
        url: &str,
        partitions: u16,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = patient();
        change(&mut settings);
        let store = seckill_store::open(url, &seckill_store::Settings::default()).await.unwrap();
        Self { redis, store, keys: Layout::new(partitions, false), settings }
    }

    /// The servers, over a connection of its own.
    pub fn servers(&self) -> Servers {
        Servers::new(&self.redis, &self.store, &self.keys)
    }

    pub fn start(&self, name: &str, instance: &str) -> Node {
        Node::start(NodeConfig {
            deployment: Deployment {
                redis: self.redis.clone(),
                store: self.store.clone(),
                keys: self.keys.clone(),
                settings: self.settings.clone(),
            },
            name: name.to_owned(),
            instance: instance.to_owned(),
            read_only: false,
        })
    }
}
