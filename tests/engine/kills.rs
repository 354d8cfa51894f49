//! SIGKILL loses no commit: of a database server, of a process on SQLite, of Redis together with its nodes.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::support::{
    MariaDb, PATIENCE, Postgres, Seckill, Server, TestRedis, wait_until, wait_until_blocking,
};
use crate::world::{World, sale};
use redis::cmd;
use rustix::process::Signal;
use seckill_engine::{
    commands::{Command, LoadTest},
    recovery::repair,
};
use seckill_model::{Millis, OrderEntry, OrderId, ShardId, UserId, VoucherId, ledger::Finding};
use seckill_store::{Settings, SharedStore};

const BATCH: u64 = 20;

fn batch(number: u64, voucher: VoucherId) -> Vec<OrderEntry> {
    let entry = |at| OrderEntry::new(OrderId::new(1_795_000_000, at).unwrap(), UserId(at), voucher);
    (number * BATCH..(number + 1) * BATCH).map(entry).collect()
}

/// Writes batch after batch until the server is gone; `done` counts the confirmed commits.
async fn write(store: SharedStore, voucher: VoucherId, from: u64, done: Arc<AtomicU64>) {
    for number in from.. {
        if store.write_orders(&batch(number, voucher), Millis::now()).await.is_err() {
            return;
        }
        done.store(number + 1, Ordering::Relaxed);
    }
}

/// Kills the server amid batches, some times, and looks for every row that it said to have.
async fn each_commit_outlives_a_kill(mut server: impl Server) {
    let name = server.create().await;
    let settings = Settings { acquire_ms: 1_000, statement_ms: 1_000, ..Settings::default() };
    let store = seckill_store::open(&server.url(&name), &settings).await.unwrap();
    let voucher = store.create_sale(&sale(1_000_000), Millis::now()).await.unwrap().voucher_id;
    let done = Arc::new(AtomicU64::new(0));
    for round in 1..=3 {
        let from = done.load(Ordering::Relaxed);
        let writing = tokio::spawn(write(Arc::clone(&store), voucher, from, Arc::clone(&done)));
        let enough = from + 10 + rand::random_range(0..20);
        wait_until(PATIENCE, "batches are written", async || done.load(Ordering::Relaxed) > enough)
            .await;
        server.kill();
        writing.await.unwrap();
        server.restart();
        wait_until(PATIENCE, "it answers again", async || store.ping().await.is_ok()).await;
        let committed = done.load(Ordering::Relaxed) * BATCH;
        let ids: Vec<OrderId> =
            (0..committed / BATCH).flat_map(|at| batch(at, voucher)).map(|it| it.order).collect();
        assert_eq!(store.existing(&ids).await.unwrap().len() as u64, committed, "round {round}");
        let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
        assert_eq!((1_000_000 - ledger.stock, ledger.doubled), (ledger.live as i64, 0));
        // The unconfirmed batch is present as a whole or not at all.
        assert!(
            ledger.live == committed || ledger.live == committed + BATCH,
            "{} of {committed}",
            ledger.live
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_mariadb_keeps_each_commit() {
    let flush = "--innodb-flush-log-at-trx-commit=1";
    each_commit_outlives_a_kill(<MariaDb as Server>::with(&[flush])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_mariadb_that_flushes_once_a_second_keeps_each_commit() {
    let flush = "--innodb-flush-log-at-trx-commit=2";
    each_commit_outlives_a_kill(<MariaDb as Server>::with(&[flush])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_keeps_each_commit() {
    let flush = ["fsync=on", "full_page_writes=on"];
    each_commit_outlives_a_kill(<Postgres as Server>::with(&flush)).await;
}

/// Its last commits are lost although they were acknowledged in Redis: the audit names them, and the
/// repair writes each of them again under its ID.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_with_asynchronous_commit_is_reconciled() {
    // So late that the kill always comes first.
    let late = ["synchronous_commit=off", "wal_writer_delay=10s"];
    let mut server = Postgres::with(&late);
    let name = Server::create(&server).await;
    let world = World::at(&server.url_of(&name), &Settings::default()).await;
    // The server flushes periodically and may just have done so.
    for _ in 0..3 {
        if loses_and_mends(&mut server, &world, &name).await {
            return;
        }
    }
    panic!("it never lost a commit, so nothing was shown");
}

/// Whether there was anything to repair.
async fn loses_and_mends(server: &mut Postgres, world: &World, name: &str) -> bool {
    let voucher = world.create(sale(500)).await;
    server.run(name, "CHECKPOINT").await;
    let report = world.rush(LoadTest::new(voucher, 600)).await;
    assert_eq!((report.admitted, report.persisted), (500, 500), "{report:?}");
    world.settled().await;
    let ids = async || -> Vec<OrderId> {
        let live = world.store.live_orders(ShardId::only(voucher), None, 501).await.unwrap();
        live.into_iter().map(|it| it.id).collect()
    };
    let before = ids().await;
    server.kill();
    server.restart();
    world.until("it answers again", async || world.store.ping().await.is_ok()).await;
    let lost = 500 - ids().await.len();
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    if lost > 0 {
        let result = Finding::Lost(lost as u64).to_string();
        assert!(plan[0].findings.iter().any(|it| it.to_string().contains(&result)), "{plan:?}");
        world.execute(Command::Repair(plan)).await.unwrap();
    }
    world.settled_and_balanced().await;
    assert_eq!(ids().await, before);
    lost > 0
}

/// The order of each buyer, read from Redis during the load test.
fn promised(redis: &mut redis::Connection, voucher: &str) -> HashMap<u64, String> {
    let buyers = format!("seckill:{{p0}}:buyers:{voucher}");
    let buyers: HashMap<String, String> = cmd("HGETALL").arg(buyers).query(redis).unwrap();
    buyers.into_iter().filter_map(|(user, order)| Some((user.parse().ok()?, order))).collect()
}

/// The order of each buyer in the SQLite file of `home`.
async fn written(home: &Seckill, voucher: &str) -> HashMap<u64, String> {
    let url = format!("sqlite:{}", home.data_dir().join("seckill.db").display());
    let store = seckill_store::open(&url, &Settings::default()).await.unwrap();
    let voucher = VoucherId(voucher.parse().unwrap());
    let live = store.live_orders(ShardId::only(voucher), None, 1_000_000).await.unwrap();
    store.close().await;
    live.into_iter().map(|it| (it.user_id.0, it.id.to_string())).collect()
}

fn create(home: &Seckill, globals: &[&str]) -> String {
    let create = ["sale", "create", "--title", "t", "--stock", "50000", "--json"];
    let made = home.run(&[globals, &create].concat()).expect_code(0).json();
    made["voucher_id"].to_string()
}

/// A load test that is killed after this many admissions; a worker finishes it. `kill` stops the rest and
/// returns the orders in Redis and SQL at that moment.
async fn a_rush_is_killed_and_finished<T>(
    home: &Seckill,
    globals: &[&str],
    voucher: &str,
    look: impl AsyncFn() -> Option<T>,
    kill: impl FnOnce(),
) -> T {
    let rush = ["rush", "--voucher", voucher, "--users", "100000"];
    let rush = home.spawn(&[globals, &rush].concat());
    let mut seen = None;
    wait_until(PATIENCE, "the rush is under way", async || {
        seen = look().await;
        seen.is_some()
    })
    .await;
    rush.signal(Signal::KILL);
    kill();
    rush.wait(PATIENCE);
    let worker = home.spawn(&[globals, &["work"]].concat());
    wait_until_blocking(PATIENCE, "every entry has settled", || {
        let status = home.run(&[globals, &["status", "--json"]].concat());
        status.code() == 0 && {
            let stream = &status.json()["stream"];
            stream["group"] == true && stream["lag"] == 0 && stream["pending"] == 0
        }
    });
    worker.signal(Signal::TERM);
    worker.wait(PATIENCE).expect_code(0);
    let audit = home.run(&[globals, &["audit", "--json"]].concat()).expect_code(0).json();
    let sale = &audit["sales"][0];
    assert!(audit["balanced"] == true && sale["admitted"] == sale["persisted"], "{audit}");
    seen.unwrap()
}

fn each_is_kept(promises: &HashMap<u64, String>, rows: &HashMap<u64, String>) {
    for (user, order) in promises {
        assert_eq!(rows.get(user), Some(order), "buyer {user}");
    }
    println!("{} of {} orders were there at the kill", promises.len(), rows.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_each_commit_in_a_sqlite_that_syncs_later() {
    let home = Seckill::new();
    let config = home.file("config.toml");
    std::fs::write(&config, "[store]\nsynchronous = \"normal\"\n").unwrap();
    let globals = ["--config", config.to_str().unwrap()];
    let voucher = create(&home, &globals);
    let enough = async || {
        let rows = written(&home, &voucher).await;
        (rows.len() > 2_000).then_some(rows)
    };
    let rows = a_rush_is_killed_and_finished(&home, &globals, &voucher, enough, || {}).await;
    each_is_kept(&rows, &written(&home, &voucher).await);
}

/// Such a Redis replies only after its fsync, so even data known to Redis alone is restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_always_loses_nothing_together_with_its_nodes() {
    let home = Seckill::new();
    let mut redis = TestRedis::setup().args(&["--appendfsync", "always"]).start();
    let url = redis.url();
    let globals = ["--redis", &url];
    let voucher = create(&home, &globals);
    let connection = std::sync::Mutex::new(redis.connection());
    let enough = async || {
        let known = promised(&mut connection.lock().unwrap(), &voucher);
        (known.len() > 2_000).then_some(known)
    };
    let both = || {
        redis.kill();
        redis.restart();
    };
    let known = a_rush_is_killed_and_finished(&home, &globals, &voucher, enough, both).await;
    each_is_kept(&known, &written(&home, &voucher).await);
}
