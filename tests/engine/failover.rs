//! A load test while a primary dies: orders continue, and what an asynchronous replica had not received is
//! reported and restored.

use std::{collections::HashSet, time::Instant};

use crate::refusals::{BOUND, calls};
use crate::support::{PATIENCE, TestCluster, TestRedis, TestSentinels, wait_until};
use crate::world::{World, newest, patient, restock, sale};
use futures::future::join_all;
use seckill_engine::{
    admission::AdmissionError,
    commands::{Command, LoadReport, LoadTest, Reply},
    deployment::{self, servers::Servers, settings::Settings},
    ledger,
    node::{Node, NodeConfig},
    recovery::repair,
    telemetry::data_loss::REDIS_RECONCILED,
};
use seckill_model::{NewSale, Outcome, ShardId, UserId, VoucherId, ledger::Finding, sale::Spread};
use seckill_redis::{Layout, Redis};
use seckill_store::SharedStore;
use tempfile::TempDir;

/// Buyers of a rush; `BUYERS=100000` by hand.
fn buyers(otherwise: u64) -> u64 {
    std::env::var("BUYERS").ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct Deployment {
    redis: Redis,
    store: SharedStore,
    keys: Layout,
    settings: Settings,
    _files: TempDir,
}

impl Deployment {
    async fn at(url: &str, partitions: u16) -> Self {
        let redis = Redis::from_url(url).unwrap();
        let files = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", files.path().join("t.db").display());
        let store = seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap();
        let keys = Layout::new(partitions, redis.is_cluster());
        // Requests wait as long as a failover takes here.
        let settings = Settings { answer_within_ms: 60_000, ..patient() };
        Self { redis, store, keys, settings, _files: files }
    }

    /// The servers, over a connection of its own.
    fn servers(&self) -> Servers {
        Servers::new(&self.redis, &self.store, &self.keys)
    }

    fn node(&self, name: &str) -> Node {
        Node::start(NodeConfig {
            deployment: deployment::Deployment {
                redis: self.redis.clone(),
                store: self.store.clone(),
                keys: self.keys.clone(),
                settings: self.settings.clone(),
            },
            name: name.to_owned(),
            instance: name.to_owned(),
            read_only: false,
        })
    }

    async fn sale(&self, node: &Node, stock: u64) -> VoucherId {
        self.sale_over(node, stock, 1).await
    }

    async fn sale_over(&self, node: &Node, stock: u64, shards: u16) -> VoucherId {
        let sale = NewSale { title: "t".into(), stock, begin: None, end: None, limit: 1, shards };
        match execute(node, Command::CreateSale(sale)).await {
            Reply::SaleCreated(voucher) => voucher,
            other => panic!("{other:?}"),
        }
    }

    async fn audit(&self) -> ledger::Audit {
        // One connection for all attempts: each failure makes it look for the server of the key again.
        let (mut servers, mut audit) = (self.servers(), None);
        wait_until(PATIENCE, "Redis answers", async || {
            audit = ledger::audit(&mut servers, None).await.ok();
            audit.is_some()
        })
        .await;
        audit.unwrap()
    }

    async fn balanced(&self) {
        let mut last = None;
        wait_until(PATIENCE, "the audit passes and nothing is under way", async || {
            let audit = self.audit().await;
            let under_way: u64 =
                audit.sales.iter().map(|sale| sale.undelivered + sale.pending).sum();
            let done = audit.balanced && under_way == 0;
            last = Some(audit);
            done
        })
        .await;
    }

    async fn losses(&self) -> Vec<String> {
        let entries = newest(&self.store, 1_000).await;
        entries
            .into_iter()
            .filter(|entry| entry.action == REDIS_RECONCILED)
            .map(|entry| entry.result.to_string())
            .collect()
    }
}

async fn execute(node: &Node, command: Command) -> Reply {
    node.operator().execute(command, node.stopping()).await.unwrap()
}

/// At a tenth of the users a second, the server dies while the sale goes on, even if the machine is slow.
async fn rush(node: &Node, voucher: VoucherId, users: u64) -> LoadReport {
    let rate = Some(users as f64 / 10.0);
    let plan = LoadTest { repeat: 0.1, rate, ..LoadTest::new(voucher, users) };
    match execute(node, Command::LoadTest(plan)).await {
        Reply::LoadTestDone(report) => report,
        other => panic!("{other:?}"),
    }
}

async fn ask(node: &Node, voucher: VoucherId, user: u64) -> Result<Outcome, AdmissionError> {
    let admission = node.operator().admission.clone().expect("the node admits");
    admission.request(voucher, UserId(user)).answer().await.outcome
}

/// Waits until a sale has admitted this many buyers.
async fn admitted(deployment: &Deployment, shard: ShardId, most: u64) {
    let mut conn = deployment.redis.connection();
    wait_until(PATIENCE, "buyers are admitted", async || {
        let count = redis::cmd("HLEN").arg(deployment.keys.buyers(shard)).take();
        conn.query::<u64>(&count).await.is_ok_and(|count| count >= most)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_the_cluster_dies_in_a_rush() {
    let mut cluster = TestCluster::start();
    let deployment = Deployment::at(&cluster.url(), 8).await;
    let (node, worker) = (deployment.node("node-a"), deployment.node("node-b"));
    let (each, mut vouchers) = (buyers(20_000) / 4, Vec::new());
    for _ in 0..4 {
        vouchers.push(deployment.sale(&node, each / 2).await);
    }
    let dying = deployment.keys.partition_of(ShardId::only(vouchers[0])).orders();
    let rushes = join_all(vouchers.iter().map(|voucher| rush(&node, *voucher, each)));
    let killing = async {
        admitted(&deployment, ShardId::only(vouchers[0]), each / 20).await;
        // The replica does not receive what is admitted from here on.
        let killed = cluster.owner(&dying).unwrap();
        let deaf = deafen_replica(&mut cluster, killed);
        admitted(&deployment, ShardId::only(vouchers[0]), each / 10).await;
        cluster.kill(killed);
        cluster.thaw(deaf);
        let died = Instant::now();
        let promoted = tokio::task::block_in_place(|| cluster.wait_for_failover(&dying, killed));
        (killed, promoted, died.elapsed())
    };
    let (reports, (killed, promoted, took)) = futures::join!(rushes, killing);
    println!("node {promoted} took over from {killed} after {took:?}");
    for report in &reports {
        println!("{report:?}");
        assert_eq!((report.errors, report.rejected), (0, 0), "{report:?}");
        // A buyer who retries after a loss gets the same order ID.
        assert_eq!(report.admitted, report.persisted + report.dead, "{report:?}");
    }
    deployment.balanced().await;
    // The node writes its events after it has reconciled Redis.
    wait_until(PATIENCE, "what the failover lost is in the audit log", async || {
        !deployment.losses().await.is_empty()
    })
    .await;
    for (voucher, report) in vouchers.iter().zip(&reports) {
        let ledger = deployment.store.ledger(ShardId::only(*voucher)).await.unwrap();
        assert_eq!((ledger.live, ledger.stock), (each / 2, 0), "{report:?}");
    }
    assert!(node.stop().await.in_time);
    assert!(worker.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_sharded_sale_is_killed() {
    part_of_a_cluster_is_lost(3, |cluster, key, lost| {
        cluster.kill(lost);
        cluster.wait_for_failover(key, lost);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_sharded_sale_is_frozen() {
    part_of_a_cluster_is_lost(6, |cluster, key, lost| {
        cluster.freeze(lost);
        cluster.wait_for_failover(key, lost);
    })
    .await;
}

/// Without the slots of a primary and its replica, the cluster refuses every command until one of them returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_loses_slots_of_a_sharded_sale() {
    part_of_a_cluster_is_lost(3, |cluster, _, lost| {
        let both = [replica_of(cluster, lost), lost];
        for index in both {
            cluster.kill(index);
        }
        cluster.wait_until_slots_are_lost();
        for index in both {
            cluster.restart(index);
        }
        cluster.wait_until_whole();
    })
    .await;
}

/// A key, and the primary that serves it, for `lose`. The sale waits, and all pieces are sold.
async fn part_of_a_cluster_is_lost(primaries: usize, lose: fn(&mut TestCluster, &str, usize)) {
    const SHARDS: u16 = 8;
    let mut cluster = TestCluster::setup().primaries(primaries).start();
    let deployment = Deployment::at(&cluster.url(), SHARDS).await;
    let (node, worker) = (deployment.node("node-a"), deployment.node("node-b"));
    let users = buyers(8_000);
    let voucher = deployment.sale_over(&node, users / 2, SHARDS).await;
    let shards = Spread { sale: voucher.into(), count: SHARDS };
    let first = shards.all().next().unwrap();
    let owner = |id| cluster.owner(&deployment.keys.stock(id)).unwrap();
    assert_eq!(shards.all().map(owner).collect::<HashSet<_>>().len(), primaries, "a shard each");
    let dying = deployment.keys.partition_of(first).orders();
    let losing = async {
        admitted(&deployment, first, users / 100).await;
        let lost = cluster.owner(&dying).unwrap();
        tokio::task::block_in_place(|| lose(&mut cluster, &dying, lost));
    };
    let (report, ()) = futures::join!(rush(&node, voucher, users), losing);
    assert_eq!((report.errors, report.rejected), (0, 0), "{report:?}");
    assert_eq!(report.admitted, users / 2, "{report:?}");
    deployment.balanced().await;
    let whole = deployment.store.sale(voucher).await.unwrap();
    assert_eq!((whole.initial, whole.stock), (users / 2, 0), "{report:?}");
    let mut conn = deployment.redis.connection();
    for id in shards.all() {
        let stock = redis::cmd("GET").arg(deployment.keys.stock(id)).take();
        assert_eq!(conn.query::<u64>(&stock).await.unwrap(), 0);
    }
    assert!(node.stop().await.in_time);
    assert!(worker.stop().await.in_time);
}

/// The replica receives nothing for a while, its primary admits orders and dies: they are lost in Redis. No node
/// that admitted them is left, so only SQL has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_reports_what_a_failover_lost() {
    let mut cluster = TestCluster::start();
    let deployment = Deployment::at(&cluster.url(), 4).await;
    let node = deployment.node("node-a");
    let voucher = deployment.sale(&node, 500).await;
    rush(&node, voucher, 100).await;
    let key = deployment.keys.partition_of(ShardId::only(voucher)).orders();
    let primary = cluster.owner(&key).unwrap();
    let replica = deafen_replica(&mut cluster, primary);
    // Different ones than before.
    for user in 1_001..=1_040 {
        assert!(matches!(ask(&node, voucher, user).await, Ok(Outcome::Admitted { .. })));
    }
    deployment.balanced().await;
    assert!(node.stop().await.finished());
    cluster.kill(primary);
    cluster.thaw(replica);
    tokio::task::block_in_place(|| cluster.wait_for_failover(&key, primary));

    let audit = deployment.audit().await;
    assert!(!audit.balanced);
    let findings = &audit.sales[0].findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0], Finding::Unknown(40));
    let plan = repair::plan(&mut deployment.servers()).await.unwrap();
    assert_eq!(plan.len(), 1, "{plan:?}");
    let done = repair::apply(&mut deployment.servers(), &plan[0]).await;
    assert_eq!(done.unwrap().put_back, 40);
    deployment.balanced().await;
    assert_eq!(deployment.audit().await.sales[0].admitted, 140);
}

/// The replica is suspended and disconnected from its primary: otherwise it would later read what the kernel has
/// buffered.
fn deafen_replica(cluster: &mut TestCluster, primary: usize) -> usize {
    let replica = replica_of(cluster, primary);
    cluster.freeze(replica);
    let cut: u64 = cluster.node(primary).query(&["CLIENT", "KILL", "TYPE", "replica"]);
    assert_eq!(cut, 1);
    replica
}

fn replica_of(cluster: &TestCluster, primary: usize) -> usize {
    let port = |index: usize| {
        let port: Vec<String> = cluster.node(index).query(&["CONFIG", "GET", "port"]);
        port[1].clone()
    };
    let of = port(primary);
    (0..cluster.len())
        .find(|index| {
            let info: String = cluster.node(*index).query(&["INFO", "replication"]);
            info.contains("role:slave") && info.contains(&format!("master_port:{of}\r"))
        })
        .expect("a replica")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_promotes_a_replica_in_a_rush() {
    let mut trio = TestSentinels::start();
    let deployment = Deployment::at(&trio.url(), 1).await;
    let node = deployment.node("node-a");
    let users = buyers(20_000);
    let voucher = deployment.sale(&node, users / 2).await;
    let killing = async {
        admitted(&deployment, ShardId::only(voucher), users / 20).await;
        let killed = trio.kill_primary();
        tokio::task::block_in_place(|| trio.wait_for_failover(killed));
    };
    let (report, ()) = futures::join!(rush(&node, voucher, users), killing);
    println!("{report:?}; {:?}", deployment.losses().await);
    assert_eq!((report.errors, report.rejected), (0, 0), "{report:?}");
    assert_eq!(report.admitted, report.persisted + report.dead, "{report:?}");
    deployment.balanced().await;
    assert_eq!(deployment.store.ledger(ShardId::only(voucher)).await.unwrap().live, users / 2);
    assert!(node.stop().await.in_time);
}

/// The promoted replica is another server than the one whose refusals the node repeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sold_out_sale_is_refused_and_restocked_across_a_failover() {
    let mut trio = TestSentinels::start();
    let deployment = Deployment::at(&trio.url(), 1).await;
    let node = deployment.node("node-a");
    let voucher = deployment.sale(&node, 10).await;
    let mut held = Vec::new();
    for user in 1..=10 {
        held.push(ask(&node, voucher, user).await.unwrap().order().unwrap());
    }
    assert_eq!(ask(&node, voucher, 11).await, Ok(Outcome::SoldOut));
    let killed = trio.kill_primary();
    for user in 11..2_011 {
        assert_eq!(ask(&node, voucher, user).await, Ok(Outcome::SoldOut), "user {user}");
    }
    assert_ne!(trio.primary(), killed);
    execute(&node, Command::Restock { voucher, by: 5 }).await;
    for user in 20_001..=20_005 {
        let outcome = ask(&node, voucher, user).await.unwrap();
        assert!(matches!(outcome, Outcome::Admitted { .. }), "user {user}: {outcome:?}");
    }
    assert_eq!(ask(&node, voucher, 20_006).await, Ok(Outcome::SoldOut));
    for (user, order) in (1..).zip(held) {
        assert_eq!(ask(&node, voucher, user).await, Ok(Outcome::Duplicate { order }));
    }
    deployment.balanced().await;
    assert!(node.stop().await.in_time);
}

/// SQL takes the restock while the primary hangs, so that its connections stay open: a refusal from before it is not
/// repeated later than the bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_expire_during_a_failover() {
    let trio = TestSentinels::start();
    let deployment = Deployment::at(&trio.url(), 1).await;
    let node = deployment.node("node-a");
    let voucher = deployment.sale(&node, 10).await;
    rush(&node, voucher, 10).await;
    let primary = trio.primary();
    wait_until(PATIENCE, "the node refuses by itself", async || {
        let before = calls(trio.node(primary));
        join_all((1_000..1_064).map(|user| ask(&node, voucher, user))).await;
        for user in 1_000..1_064 {
            assert_eq!(ask(&node, voucher, user).await, Ok(Outcome::SoldOut));
        }
        calls(trio.node(primary)) - before < 64
    })
    .await;
    trio.node(primary).freeze();
    restock(&deployment.store, voucher, 1, None).await.unwrap();
    let restocked = Instant::now();
    loop {
        let asked = Instant::now();
        match ask(&node, voucher, 999_999).await {
            Ok(Outcome::SoldOut) => assert!(asked < restocked + BOUND, "{:?}", asked - restocked),
            Ok(Outcome::Admitted { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    tokio::task::block_in_place(|| trio.wait_for_failover(primary));
    deployment.balanced().await;
    // A server that hangs may outlast the time for a stop.
    node.stop().await;
}

/// With `wait_replicas` no admission is confirmed before a replica has it; a retry returns the same order
/// ID.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_asks_for_replicas() {
    let trio = TestSentinels::start();
    let replicas = (0..3).filter(|index| *index != trio.primary()).map(|index| trio.node(index));
    let replicas = replicas.filter(|node| {
        let info: String = node.query(&["INFO", "replication"]);
        info.contains("role:slave")
    });
    admissions_wait_for(&trio.url(), &replicas.collect::<Vec<_>>()).await;
}

/// The order exists, whatever Redis says of the replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_redis_refuses_decides_nothing() {
    let world = World::with(|settings| {
        settings.wait_replicas = 1;
        settings.answer_within_ms = 1_000;
    })
    .await;
    let _replica = world.server.replica();
    let voucher = world.create(sale(10)).await;
    world.until("a replica confirms", async || world.obtains(voucher, 1).await).await;
    let _: () = world.server.query(&["ACL", "SETUSER", "default", "-wait"]);
    let admission = world.node().operator().admission.clone().unwrap();
    let answer = admission.request(voucher, UserId(2)).answer().await.outcome;
    assert!(
        matches!(&answer, Err(AdmissionError::NoAnswer(why)) if why.to_string().contains("wait")),
        "{answer:?}"
    );
    let held = world.buyers(voucher)["2"].clone();
    let _: () = world.server.query(&["ACL", "SETUSER", "default", "+wait"]);
    let mut order = None;
    world
        .until("the buyer learns the order ID", async || {
            let outcome = admission.request(voucher, UserId(2)).answer().await.outcome;
            order = outcome.ok().and_then(|outcome| outcome.order());
            order.is_some()
        })
        .await;
    assert_eq!(order.unwrap().to_string(), held);
    world.settled_and_balanced().await;
}

/// A cluster has a connection per primary; WAIT counts the replicas of the one that has the entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_asks_for_replicas_of_the_primary_that_wrote() {
    let cluster = TestCluster::start();
    let primary = cluster.owner(&Layout::new(1, true).home().orders()).unwrap();
    let replica = cluster.node(replica_of(&cluster, primary));
    admissions_wait_for(&cluster.url(), &[replica]).await;
}

/// While the `replicas` do not respond, no admission is confirmed.
async fn admissions_wait_for(url: &str, replicas: &[&TestRedis]) {
    let mut deployment = Deployment::at(url, 1).await;
    deployment.settings.wait_replicas = 1;
    deployment.settings.wait_ms = 50;
    deployment.settings.answer_within_ms = 1_000;
    let node = deployment.node("node-a");
    let voucher = deployment.sale(&node, 10).await;
    let Ok(Outcome::Admitted { .. }) = ask(&node, voucher, 1).await else { panic!("not admitted") };
    assert!(!replicas.is_empty());
    for replica in replicas {
        replica.freeze();
    }
    let result = ask(&node, voucher, 2).await;
    assert!(
        matches!(&result, Err(AdmissionError::NoAnswer(why)) if why.to_string().contains("replicas")),
        "{result:?}"
    );
    for replica in replicas {
        replica.thaw();
    }
    let mut order = None;
    wait_until(PATIENCE, "the buyer learns the order ID", async || {
        order = ask(&node, voucher, 2).await.ok().and_then(|outcome| outcome.order());
        order.is_some()
    })
    .await;
    wait_until(PATIENCE, "the order is written", async || {
        deployment.store.order(order.unwrap()).await.unwrap().is_some()
    })
    .await;
    deployment.balanced().await;
    assert!(node.stop().await.in_time);
}
