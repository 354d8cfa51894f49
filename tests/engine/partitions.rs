//! Several partitions on one server: one ledger, one order of pending entries, disjoint IDs; and a
//! number of partitions that changes only at rest.

use std::{collections::HashSet, time::Duration};

use crate::support::{LONG, MariaDb, Postgres, Seckill, Server};
use crate::world::{Database, World, sale};
use futures::future::join_all;
use seckill_engine::{
    EngineError,
    commands::{LoadTest, Scope},
    deployment::{self, partitions, servers::Servers},
    node::heartbeat::take_name,
    orders::{self, Location, ids::IdWorker},
};
use seckill_model::{EntryId, OrderId, Outcome, Reason, ShardId, filter::Filter};
use seckill_redis::{Layout, nodes::Nodes, stream};

const DEAD_MS: u64 = 3_000;

/// Stops the node and waits until it counts as stopped: its sign-off may get lost.
async fn node_leaves(world: &mut World) {
    world.stop_node().await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    world
        .until("it has left", async || {
            let nodes = Nodes::read(&mut conn, &of).await;
            nodes.is_ok_and(|nodes| !nodes.is_alive(crate::world::NODE, DEAD_MS))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_ledger_over_all_partitions() {
    let world = World::spread(4, |_| {}).await;
    let mut vouchers = Vec::new();
    for _ in 0..6 {
        vouchers.push(world.create(sale(200)).await);
    }
    let rushes = vouchers.iter().map(|voucher| world.rush(LoadTest::new(*voucher, 300)));
    for report in join_all(rushes).await {
        assert_eq!((report.admitted, report.persisted, report.errors), (200, 200, 0));
    }
    world.settled_and_balanced().await;
    let mut ids: HashSet<OrderId> = HashSet::new();
    for voucher in &vouchers {
        let of = world.keys.partition_of(ShardId::only(*voucher));
        for order in world.store.live_orders(ShardId::only(*voucher), None, 1_000).await.unwrap() {
            let turn = u64::from(order.id.sequence()) % u64::from(of.of());
            assert_eq!(turn, u64::from(of.number()), "the ID contains its partition");
            assert!(ids.insert(order.id));
        }
    }
    assert_eq!(ids.len(), 1_200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_entries_of_all_partitions_are_listed_in_one_order() {
    let world = World::spread(3, |settings| settings.claim_idle_ms = 600_000).await;
    for _ in 0..3 {
        let voucher = world.create(sale(40)).await;
        world.stick(voucher, 40, 30).await;
    }
    assert_eq!(world.pending().await, 90);
    let mut conn = world.redis.connection();
    let (mut seen, mut next) = (Vec::new(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = stream::pending_of_all(&mut conn, &world.keys, from, EntryId::MAX, 7);
        let page = page.await.unwrap();
        let Some(last) = page.last() else { break };
        next = last.delivered.entry.next_of_all();
        seen.extend(page.iter().map(|row| row.delivered.entry));
    }
    assert!(seen.is_sorted() && seen.len() == 90, "{} entries", seen.len());
    assert_eq!(seen.iter().map(|id| id.partition).collect::<HashSet<_>>().len(), 3);

    let stuck = stream::pending_of_all(&mut conn, &world.keys, EntryId::MIN, EntryId::MAX, 1);
    let order = stuck.await.unwrap()[0].delivered.order().unwrap().order;
    let standing = orders::find(&mut world.servers(), order).await.unwrap();
    assert!(matches!(standing, Location::Pending { .. }), "{standing:?}");
    let some: Vec<EntryId> = seen.iter().copied().step_by(2).collect();
    world.replay(Scope::Entries(some.clone())).await;
    assert_eq!(world.pending().await, 45);
    world.replay(Scope::All(Filter::default())).await;
    assert_eq!(world.pending().await, 0);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_partitions_changes_only_at_rest() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.create(sale(100)).await;
    world.rush(LoadTest::new(voucher, 30)).await;
    assert_eq!(partitions::agreed(&world.store, None, false).await.unwrap(), 1);
    assert_eq!(partitions::agreed(&world.store, Some(8), false).await.unwrap(), 1, "it is decided");
    let new = Layout::new(8, false);
    let mut conn = world.redis.connection();
    let (store, redis, old) = (world.store.clone(), world.redis.clone(), world.keys.clone());
    let change =
        async || partitions::change(&mut Servers::new(&redis, &store, &old), &new, DEAD_MS).await;
    let refused = |error: Result<(), EngineError>, why: &str| {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why), "'{why}' is not in: {error}");
    };
    refused(change().await, "is alive");
    world.stick(voucher, 60, 10).await;
    node_leaves(&mut world).await;
    refused(change().await, "in flight");
    assert_eq!(world.store.setting("partitions").await.unwrap().as_deref(), Some("1"));
    world.start_node();
    world.settled_by_replay().await;
    world.balanced().await;
    node_leaves(&mut world).await;

    let mut before = IdWorker::new(old.home());
    let mut ids = before.issue(&mut conn, 3).await.unwrap();
    change().await.unwrap();
    assert_eq!(partitions::agreed(&world.store, None, false).await.unwrap(), 8);
    refused(change().await, "another process has just changed");
    world.keys = Layout::new(8, false);
    world.start_node();
    let outcome = world.ask(voucher, 1_000).await;
    assert!(matches!(outcome, Outcome::Admitted { .. }), "{outcome:?}");
    assert!(
        matches!(world.ask(voucher, 1).await, Outcome::Duplicate { .. }),
        "this user bought before"
    );
    world.settled_and_balanced().await;
    let tally: u64 =
        world.server.query(&["HGET", &world.keys.tally(ShardId::only(voucher)), "admitted"]);
    assert_eq!(tally, 61, "what was counted before is counted still");
    for of in world.keys.partitions() {
        ids.extend(IdWorker::new(of).issue(&mut conn, 3).await.unwrap());
    }
    let different: HashSet<OrderId> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_share_a_node_name() {
    let world = World::with(|settings| settings.node_dead_ms = 2_000).await;
    world
        .until("the node gives a sign of life", async || {
            let names: Vec<String> =
                world.server.query(&["ZRANGE", &world.keys.home().nodes(), "0", "-1"]);
            !names.is_empty()
        })
        .await;
    let twin = take_name(&mut world.servers(), crate::world::NODE, "twin", 2_000, false).await;
    assert!(
        matches!(&twin, Err(EngineError::NameTaken(name)) if name == crate::world::NODE),
        "{twin:?}"
    );
    // A node that was suspended past its lease finds its name taken by another process and stops.
    take_name(&mut world.servers(), crate::world::NODE, "twin", 2_000, true).await.unwrap();
    let stopping = world.node().stopping().clone();
    tokio::time::timeout(Duration::from_secs(30), stopping.cancelled()).await.unwrap();
}

/// A node on a foreign database would treat valid orders as malformed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_bound_to_one_database() {
    let (world, other) = (World::start().await, World::start().await);
    let voucher = world.create(sale(10)).await;
    world
        .until("the node has put the name there", async || {
            world.server.query::<u64>(&["EXISTS", &world.keys.deployment()]) == 1
        })
        .await;
    deployment::tie(&mut world.servers(), false).await.unwrap();
    for read_only in [false, true] {
        // The other database is registered by now.
        other
            .until("it has one", async || {
                other.store.setting("deployment").await.unwrap().is_some()
            })
            .await;
        let mut servers = Servers { store: other.store.clone(), ..world.servers() };
        let result = deployment::tie(&mut servers, read_only).await;
        let foreign = |why: &Reason| why.id() == Some("error-foreign-redis");
        assert!(matches!(&result, Err(EngineError::Rejected(why)) if foreign(why)), "{result:?}");
    }
    // FLUSHALL removes the binding; the next reconciliation restores it.
    world.server.query::<()>(&["FLUSHALL"]);
    world.until("it is admitted again", async || world.obtains(voucher, 1).await).await;
    assert_eq!(world.server.query::<u64>(&["EXISTS", &world.keys.deployment()]), 1);
}

/// A wrong URL must not turn an empty database into one with the tables of the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_database_beside_a_bound_redis_stays_empty() {
    let (world, home) = (World::start().await, Seckill::new());
    deployment::tie(&mut world.servers(), false).await.unwrap();
    let (redis, file) = (world.server.url(), home.file("other.db"));
    let (postgres, mariadb) = (Postgres::shared().create().await, MariaDb::shared().create().await);
    let urls = [
        format!("sqlite:{}", file.display()),
        Postgres::shared().url_of(&postgres),
        MariaDb::shared().url_of(&mariadb),
    ];
    for url in &urls {
        for command in [&["sale", "list"][..], &["status"], &["work"], &["doctor"]] {
            let servers = ["--redis", &redis, "--database", url];
            let ran = home.spawn(&[&servers, command].concat()).wait(LONG).expect_code(1);
            assert!(ran.to_string().contains("belong to another database"), "{url}: {ran}");
        }
    }
    assert!(!file.exists());
    let count = |own: &str| {
        format!(
            "SELECT CONCAT(COUNT(*), '') FROM information_schema.tables WHERE table_schema = {own}"
        )
    };
    let mut conn = Postgres::shared().connect(&postgres).await;
    assert_eq!(Postgres::read(&mut conn, count("current_schema()")).await, "0");
    let mut conn = MariaDb::shared().connect(&mariadb).await;
    assert_eq!(MariaDb::read(&mut conn, count("DATABASE()")).await, "0");
}

/// Which database belongs to Redis is unknown while Redis is unreachable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_created_while_redis_is_unreachable() {
    let (home, server) = (Seckill::new(), Postgres::shared());
    let name = server.create().await;
    let url = server.url_of(&name);
    for command in [&["sale", "list"][..], &["status"], &["voucher", "list"]] {
        let servers = ["--redis", "redis://127.0.0.1:1", "--database", &url];
        home.spawn(&[&servers, command].concat()).wait(LONG).expect_code(3);
    }
    let count = "SELECT CONCAT(COUNT(*), '') FROM information_schema.tables \
                 WHERE table_schema = current_schema()";
    assert_eq!(Postgres::read(&mut server.connect(&name).await, count.to_owned()).await, "0");
}

/// PostgreSQL creates tables in the first schema of the search path, which may come to exist at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_precedes_the_tables_changes_nothing() {
    let (world, home) = (World::on(Database::Postgres, 1, |_| {}).await, Seckill::new());
    let voucher = world.create(sale(40)).await;
    world.admit(voucher, 0..20).await;
    let (server, url) = (Postgres::shared(), world.url.clone());
    let name = url.split(['/', '?']).nth(3).unwrap();
    Server::run(server, name, "CREATE SCHEMA root").await;
    let redis = world.server.url();
    let run = |command: &[&str]| {
        let servers = ["--redis", &redis, "--database", &url];
        home.spawn(&[&servers, command].concat()).wait(LONG)
    };
    let sales = run(&["sale", "list", "--json"]).expect_code(0);
    assert!(sales.stdout.contains("\"stock\""), "{sales}");
    let doctor = run(&["doctor"]);
    assert!(doctor.stdout.contains("schema public"), "{doctor}");
    let status = run(&["status"]);
    assert!(status.stdout.contains("schema public"), "{status}");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'seckill' AND \
               datname = current_database()";
    Server::run(server, name, end).await;
    world.until("new connections answer", async || world.store.ping().await.is_ok()).await;
    world.admit(voucher, 20..40).await;
    world.settled_and_balanced().await;
    let count = "SELECT CONCAT(COUNT(*), '') FROM pg_tables WHERE schemaname = 'root'";
    assert_eq!(Postgres::read(&mut server.connect(name).await, count.to_owned()).await, "0");
}

/// A node that was suspended during the change must not sell with the old number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_an_outdated_partition_count_admits_no_buyer() {
    let (mut world, voucher) = World::with_sale(10).await;
    assert_eq!(partitions::agreed(&world.store, None, false).await.unwrap(), 1);
    node_leaves(&mut world).await;
    let new = Layout::new(4, false);
    partitions::change(&mut world.servers(), &new, DEAD_MS).await.unwrap();
    // Like a node that read the number before.
    let old = world.another_node("late");
    let admission = old.operator().admission.clone().unwrap();
    let error = admission.request(voucher, seckill_model::UserId(1)).answer().await.outcome;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the number of partitions is now 4"), "{error}");
    assert!(old.stop().await.in_time);
}
