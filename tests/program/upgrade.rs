//! Data of earlier versions: what they wrote continues under this one.

use std::{fs, path::Path};

use redis::{Connection, cmd};
use seckill_model::{Millis, SaleId, Spread, UserId, order_id::EPOCH_SECONDS};
use serde_json::Value;
use sqlx::{AnyConnection, Connection as _, Executor as _, migrate::Migrator};
use tempfile::TempDir;

use crate::support::{
    LONG, MariaDb, Postgres, Ran, Seckill, TestRedis, wait_until, wait_until_blocking,
};

const SHARDS: u16 = 4;
const PIECES: i64 = 25;
const BUYERS: u64 = 60;

/// The first version of this schema that knows the shard of an order, by the folder of its migrations.
const FIRST: [(&str, &str); 3] = [("sqlite", "0011"), ("mysql", "0009"), ("postgres", "0009")];

/// How far the order of a buyer had come when the old version was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Acknowledged,
    /// Written, not acknowledged.
    Written,
    /// Delivered, not written.
    Pending,
    DeadLetter,
    Undelivered,
    /// Closed, and its piece not returned in Redis yet.
    Closed,
}

const STAGES: [Stage; 6] = [
    Stage::Acknowledged,
    Stage::Written,
    Stage::Pending,
    Stage::DeadLetter,
    Stage::Undelivered,
    Stage::Closed,
];

impl Stage {
    fn is_written(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Written | Self::Closed)
    }
}

#[derive(Clone, Copy, Debug)]
struct Order {
    id: i64,
    user: u64,
    /// From 1: the old ID of the shard is 1 more.
    shard: u16,
    stage: Stage,
}

/// The orders of a sale of voucher 1 over four shards, which the old version sold as vouchers 2 to 5.
fn orders() -> Vec<Order> {
    let spread = Spread { sale: SaleId(1), count: SHARDS };
    let second = Millis::now().0 / 1_000 - EPOCH_SECONDS - 600;
    let order = |(at, user)| {
        let shard = spread.of_user(UserId(user)).number;
        let sequence = at as i64 * i64::from(SHARDS) + i64::from((shard + 1) % SHARDS);
        Order { id: (second << 32) | sequence, user, shard, stage: STAGES[at % STAGES.len()] }
    };
    (1..=BUYERS).enumerate().map(order).collect()
}

/// Applies the migrations of the old version.
async fn old_schema(sql: &mut AnyConnection, kind: usize) {
    let (folder, first) = FIRST[kind];
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
    let old = TempDir::new().unwrap();
    for file in fs::read_dir(all).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_str().unwrap() < first {
            fs::copy(file.path(), old.path().join(file.file_name())).unwrap();
        }
    }
    let mut migrator = Migrator::new(old.path()).await.unwrap();
    migrator.set_locking(false);
    migrator.run(sql).await.unwrap();
}

async fn old_rows(sql: &mut AnyConnection, kind: usize, orders: &[Order]) {
    let now = Millis::now().0;
    let overriding = if FIRST[kind].0 == "postgres" { "OVERRIDING SYSTEM VALUE" } else { "" };
    let mut statements = vec![
        "INSERT INTO tb_setting (name, value) VALUES ('partitions', '4'), ('deployment', 'old')"
            .to_owned(),
        format!(
            "INSERT INTO tb_audit_log (at, operator, node, act, subject, result) \
             VALUES ({now}, 'ann', 'old-1', 'sale restock', '#3', 'done')"
        ),
    ];
    for id in 1..=5 {
        statements.push(format!(
            "INSERT INTO tb_voucher (id, title, type, create_time, update_time) {overriding} \
             VALUES ({id}, 'tea', 1, {now}, {now})"
        ));
    }
    for shard in 1..=SHARDS {
        let live = orders.iter().filter(|it| it.shard == shard && it.stage.is_written());
        let live = live.filter(|it| it.stage != Stage::Closed).count() as i64;
        statements.push(format!(
            "INSERT INTO tb_seckill_voucher (voucher_id, initial_stock, stock, state, version, create_time, \
             update_time, user_limit, delivered_version, shard_of, shards) \
             VALUES ({}, {PIECES}, {}, 'running', 1, 1, {now}, 1, 1, 1, {SHARDS})",
            shard + 1,
            PIECES - live
        ));
    }
    for Order { id, user, shard, stage } in orders.iter().filter(|it| it.stage.is_written()) {
        let (status, closed) = match stage {
            Stage::Closed => (5, now.to_string()),
            _ => (1, "NULL".to_owned()),
        };
        statements.push(format!(
            "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, status, create_time, close_time, \
             update_time) VALUES ({id}, {user}, {}, 1, {status}, {now}, {closed}, {now})",
            shard + 1
        ));
        if *stage == Stage::Closed {
            statements.push(format!(
                "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
                 VALUES ({id}, {user}, {}, 1, {now})",
                shard + 1
            ));
        }
    }
    for statement in statements {
        sql.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
    }
}

/// What the old version had in Redis, with a dead node as consumer.
fn old_keys(redis: &mut Connection, orders: &[Order]) {
    cmd("SET").arg("seckill:{p0}:deployment").arg("old").exec(redis).unwrap();
    for shard in 1..=SHARDS {
        let (of, id) = ((shard + 1) % SHARDS, shard + 1);
        let key = |what: &str| format!("seckill:{{p{of}}}:{what}");
        let mine: Vec<Order> = orders.iter().filter(|it| it.shard == shard).copied().collect();
        let seq = 1 + mine.len();
        let mut sale = cmd("HSET");
        sale.arg(key(&format!("sale:{id}"))).arg("title").arg("tea").arg("begin").arg(0);
        sale.arg("end").arg(0).arg("state").arg("running").arg("initial").arg(PIECES);
        sale.arg("limit").arg(1).arg("version").arg(1).arg("created").arg(1);
        sale.arg("seq").arg(seq).arg("run").arg("old").arg("shard").arg("1/4");
        sale.exec(redis).unwrap();
        let left = PIECES - mine.len() as i64;
        cmd("SET").arg(key(&format!("stock:{id}"))).arg(left).exec(redis).unwrap();
        let mut buyers = cmd("HSET");
        buyers.arg(key(&format!("buyers:{id}"))).arg("seq").arg(seq);
        for order in &mine {
            buyers.arg(order.user).arg(order.id);
        }
        buyers.exec(redis).unwrap();
        let mut tally = cmd("HSET");
        tally.arg(key(&format!("tally:{id}"))).arg("admitted").arg(mine.len());
        tally.exec(redis).unwrap();

        let stream = key("orders");
        let mut group = cmd("XGROUP");
        group.arg("CREATE").arg(&stream).arg("g1").arg(0).arg("MKSTREAM").exec(redis).unwrap();
        let consumer = format!("old-1/{}", of + 1);
        let (mut added, mut last) = (Vec::new(), String::new());
        let (late, early): (Vec<Order>, Vec<Order>) =
            mine.into_iter().partition(|it| it.stage == Stage::Undelivered);
        for order in early.iter().chain(&late) {
            let mut add = cmd("XADD");
            add.arg(&stream).arg("*").arg("userId").arg(order.user).arg("voucherId").arg(id);
            last = add.arg("id").arg(order.id).query(redis).unwrap();
            added.push((last.clone(), *order));
        }
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg("g1").arg(&consumer).arg("COUNT").arg(early.len().max(1));
        read.arg("STREAMS").arg(&stream).arg(">").exec(redis).unwrap();
        let mut dead = 0;
        for (entry, order) in added.iter().take(early.len()) {
            if order.stage == Stage::DeadLetter {
                let mut bury = cmd("XADD");
                bury.arg(key("dead")).arg("*").arg("entry").arg(entry).arg("at").arg(1);
                bury.arg("reason").arg("there is no sale").arg("consumer").arg(&consumer);
                bury.arg("deliveries").arg(1).arg("why").arg(format!(r#"{{"no_sale":{id}}}"#));
                bury.arg("body:userId").arg(order.user).arg("body:voucherId").arg(id);
                bury.arg("body:id").arg(order.id).exec(redis).unwrap();
                dead += 1;
            }
            if matches!(order.stage, Stage::Acknowledged | Stage::DeadLetter | Stage::Closed) {
                cmd("XACK").arg(&stream).arg("g1").arg(entry).exec(redis).unwrap();
            } else {
                let mut idle = cmd("XCLAIM");
                idle.arg(&stream).arg("g1").arg(&consumer).arg(0).arg(entry);
                idle.arg("IDLE").arg(3_600_000).arg("JUSTID").exec(redis).unwrap();
            }
        }
        let mut watermark = cmd("HSET");
        watermark.arg(key("watermark")).arg("orders").arg(added.len()).arg("dead").arg(dead);
        watermark.arg("last_orders").arg(last).arg("voucher").arg(id).exec(redis).unwrap();
    }
}

async fn rows(sql: &mut AnyConnection, query: &str) -> Vec<(i64, i64)> {
    sqlx::query_as(sqlx::AssertSqlSafe(query.to_owned())).fetch_all(sql).await.unwrap()
}

/// Orders of the old version that were written, delivered, buried or not delivered, and one that was just closed: all of
/// them become orders of the voucher that was sold, each once.
async fn orders_in_flight_become_those_of_the_voucher_sold(kind: usize) {
    let files = TempDir::new().unwrap();
    let url = match kind {
        0 => format!("sqlite:{}?mode=rwc", files.path().join("old.db").display()),
        1 => MariaDb::shared().database().await,
        _ => Postgres::shared().database().await,
    };
    sqlx::any::install_default_drivers();
    let mut sql = AnyConnection::connect(&url).await.unwrap();
    let orders = orders();
    old_schema(&mut sql, kind).await;
    old_rows(&mut sql, kind, &orders).await;
    // MySQL may end the connection first.
    let _ = sql.close().await;
    let server = TestRedis::start();
    old_keys(&mut server.connection(), &orders);

    let url = url.trim_end_matches("?mode=rwc").to_owned();
    let (home, redis) = (Seckill::new(), server.url());
    let of = ["--redis", &redis, "--database", &url];
    let run = |args: &[&str]| -> Ran { home.spawn(&[&of[..], args].concat()).wait(LONG) };
    let json = |args: &[&str]| run(&[args, &["--json"]].concat()).expect_code(0).json();

    // The first command migrates both sides; without a node, nothing is written yet.
    let before = run(&["audit", "--json"]).json();
    let stuck = |stages: &[Stage]| orders.iter().filter(|it| stages.contains(&it.stage)).count();
    let line = &before["sales"][0];
    assert_eq!(before["sales"].as_array().map(Vec::len), Some(1), "{before}");
    for (figure, expected) in [
        ("voucher_id", 1),
        ("initial", 100),
        ("admitted", orders.len()),
        ("undelivered", stuck(&[Stage::Undelivered])),
        ("pending", stuck(&[Stage::Pending])),
        ("dead", stuck(&[Stage::DeadLetter])),
        ("persisted", stuck(&[Stage::Acknowledged, Stage::Written])),
    ] {
        assert_eq!(line[figure], expected, "{figure}: {before}");
    }
    let letters = json(&["dead", "list"])["letters"].take();
    for letter in letters.as_array().unwrap() {
        assert_eq!(letter["voucher_id"], 1, "{letter}");
        let reason = letter["reason"].as_str().unwrap();
        assert!(reason.contains("voucher 1"), "{letter}");
    }
    let sales: Vec<String> = server.query(&["KEYS", "seckill:*:sale:*"]);
    assert!(sales.iter().all(|key| key.contains(":sale:1.")) && sales.len() == 4, "{sales:?}");

    let worker = home.spawn(&[&of[..], &["work"]].concat());
    wait_until_blocking(LONG, "nothing is in flight", || {
        let status = run(&["status", "--json"]).json();
        status["stream"]["lag"] == 0 && status["stream"]["pending"] == 0
    });
    run(&["dead", "replay", "--all", "--yes"]).expect_code(0);
    let mut audit = Value::Null;
    wait_until_blocking(LONG, "the audit passes", || {
        audit = run(&["audit", "--json"]).json();
        let sale = &audit["sales"][0];
        audit["balanced"] == true && sale["undelivered"] == 0 && sale["pending"] == 0
    });
    let closed = stuck(&[Stage::Closed]) as u64;
    assert_eq!(audit["sales"][0]["persisted"], BUYERS - closed, "{audit}");
    let logged = json(&["activity", "--limit", "100"]);
    assert!(logged.to_string().contains(r##""subject":"#1""##), "{logged}");

    // Each buyer has one order: those who hold one learn its ID, the others buy.
    let rush = json(&["rush", "--voucher", "1", "--users", "80"]);
    assert_eq!(rush["duplicate"], BUYERS - closed, "{rush}");
    assert_eq!(rush["admitted"], 80 - (BUYERS - closed), "{rush}");
    run(&["audit"]).expect_code(0);
    drop(worker);
    // Not the connection of before, which the server may have closed meanwhile.
    let mut sql = AnyConnection::connect(&url).await.unwrap();
    let of_sale =
        "SELECT voucher_id, COUNT(*) FROM tb_voucher_order GROUP BY voucher_id ORDER BY voucher_id";
    assert_eq!(rows(&mut sql, of_sale).await, [(1, 80 + closed as i64)]);
    for (query, expected) in [
        ("SELECT id, id FROM tb_voucher", vec![(1, 1)]),
        ("SELECT voucher_id, initial_stock FROM tb_seckill_voucher", vec![(1, 100)]),
    ] {
        assert_eq!(rows(&mut sql, query).await, expected, "{query}");
    }
    // Nothing has got another ID, and each order has the shard of its user.
    let found = rows(&mut sql, "SELECT id, shard + 0 FROM tb_voucher_order").await;
    for order in &orders {
        assert!(found.contains(&(order.id, order.shard.into())), "{order:?}");
    }
    let _ = sql.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_flight_become_those_of_the_voucher_sold_on_sqlite() {
    orders_in_flight_become_those_of_the_voucher_sold(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_flight_become_those_of_the_voucher_sold_on_mariadb() {
    orders_in_flight_become_those_of_the_voucher_sold(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_flight_become_those_of_the_voucher_sold_on_postgres() {
    orders_in_flight_become_those_of_the_voucher_sold(2).await;
}

/// A database of the old version on a server, with its Redis.
async fn old_deployment(kind: usize) -> (String, TestRedis) {
    let url = if kind == 1 {
        MariaDb::shared().database().await
    } else {
        Postgres::shared().database().await
    };
    sqlx::any::install_default_drivers();
    let mut sql = AnyConnection::connect(&url).await.unwrap();
    old_schema(&mut sql, kind).await;
    old_rows(&mut sql, kind, &orders()).await;
    // MySQL may end the connection first.
    let _ = sql.close().await;
    let server = TestRedis::start();
    old_keys(&mut server.connection(), &orders());
    (url, server)
}

/// A node of the old version that still runs holds locks in the order of its transactions, and deadlocks with the upgrade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_met_a_deadlock_is_repeated() {
    let (url, server) = old_deployment(2).await;
    let mut old = AnyConnection::connect(&url).await.unwrap();
    let mut looking = AnyConnection::connect(&url).await.unwrap();
    old.execute("BEGIN").await.unwrap();
    old.execute("SELECT 1 FROM tb_seckill_voucher FOR UPDATE").await.unwrap();
    let (home, redis) = (Seckill::new(), server.url());
    let upgrading = home.spawn(&["--redis", &redis, "--database", &url, "sale", "list", "--json"]);
    let waits = "SELECT COUNT(*), 0 FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock'";
    wait_until(LONG, "the upgrade waits for the lock", async || {
        rows(&mut looking, waits).await[0].0 > 0
    })
    .await;
    // One of the two is rolled back.
    let _ = old.execute("SELECT 1 FROM tb_voucher_order FOR UPDATE").await;
    let _ = old.execute("ROLLBACK").await;
    let sales = upgrading.wait(LONG).expect_code(0).json();
    assert_eq!(sales[0]["voucher_id"], 1, "{sales}");
}

/// A change of a sale by a node of the old version comes before the upgrade, or fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_a_sale_is_lost_beside_an_upgrade() {
    let (url, server) = old_deployment(1).await;
    let mut holding = AnyConnection::connect(&url).await.unwrap();
    let mut old = AnyConnection::connect(&url).await.unwrap();
    holding.execute("BEGIN").await.unwrap();
    // For one of the last statements of the upgrade.
    holding.execute("SELECT id FROM tb_audit_log FOR UPDATE").await.unwrap();
    let (home, redis) = (Seckill::new(), server.url());
    let upgrading = home.spawn(&["--redis", &redis, "--database", &url, "sale", "list", "--json"]);
    let waits = "SELECT COUNT(*), 0 FROM information_schema.processlist \
         WHERE db = DATABASE() AND info LIKE 'UPDATE tb_audit_log%'";
    wait_until(LONG, "the upgrade has rewritten the sales", async || {
        rows(&mut old, waits).await[0].0 > 0
    })
    .await;
    old.execute("SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
    let pause = "UPDATE tb_seckill_voucher SET state = 'paused', version = version + 1 WHERE voucher_id = 2";
    let lost = old.execute(pause).await;
    assert!(lost.is_err(), "{lost:?}");
    holding.execute("ROLLBACK").await.unwrap();
    let sales = upgrading.wait(LONG).expect_code(0).json();
    assert_eq!(sales[0]["state"], "running", "{sales}");
}

/// The sale of the old version, which the database has lost: it was rolled back before the upgrade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_of_the_old_version_that_the_database_lost_is_restored() {
    let files = TempDir::new().unwrap();
    let url = format!("sqlite:{}", files.path().join("old.db").display());
    sqlx::any::install_default_drivers();
    let mut sql = AnyConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
    let orders = orders();
    old_schema(&mut sql, 0).await;
    for setting in ["'partitions', '4'", "'deployment', 'old'"] {
        let insert = format!("INSERT INTO tb_setting (name, value) VALUES ({setting})");
        sql.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
    }
    sql.close().await.unwrap();
    let server = TestRedis::start();
    old_keys(&mut server.connection(), &orders);

    let (home, redis) = (Seckill::new(), server.url());
    let of = ["--redis", &redis, "--database", &url];
    let run = |args: &[&str]| -> Ran { home.spawn(&[&of[..], args].concat()).wait(LONG) };
    let worker = home.spawn(&[&of[..], &["work"]].concat());
    // Each of the old vouchers is named: the audit does not report that there is no sale.
    let before = run(&["audit", "--json"]).expect_code(1).json();
    let mut named: Vec<u64> = Vec::new();
    for line in before["sales"].as_array().unwrap() {
        assert!(line["findings"].to_string().contains("earlier version"), "{before}");
        named.push(line["voucher_id"].as_u64().unwrap());
    }
    named.sort_unstable();
    assert_eq!(named, [2, 3, 4, 5], "{before}");

    run(&["audit", "--repair", "--yes"]);
    // Those that were dead letters before.
    run(&["dead", "replay", "--all", "--yes"]).expect_code(0);
    let mut audit = Value::Null;
    wait_until_blocking(LONG, "the audit passes", || {
        audit = run(&["audit", "--json"]).json();
        audit["balanced"] == true && audit["sales"][0]["persisted"] == BUYERS
    });
    assert_eq!(audit["sales"].as_array().map(Vec::len), Some(1), "{audit}");
    assert_eq!(audit["sales"][0]["voucher_id"], 1, "{audit}");
    drop(worker);

    let created = run(&["sale", "create", "--title", "next", "--stock", "9", "--json"]);
    let next = created.json()["voucher_id"].as_u64().unwrap();
    assert!(next > 5, "a shard had that ID: {next}");
    let mut sql = AnyConnection::connect(&url).await.unwrap();
    let former = "SELECT former_voucher_id, shard FROM tb_shard_stock ORDER BY shard";
    assert_eq!(rows(&mut sql, former).await, [(2, 1), (3, 2), (4, 3), (5, 4)]);

    // Even where another program inserts a sale under such an ID, the orders of its buyers are its own.
    for insert in [
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) VALUES (3, 'own', 1, 1, 1)",
        "INSERT INTO tb_seckill_voucher (voucher_id, initial_stock, stock, state, create_time, update_time, user_limit) \
         VALUES (3, 5, 5, 'running', 2, 2, 1)",
    ] {
        sql.execute(insert).await.unwrap();
    }
    let worker = home.spawn(&[&of[..], &["work"]].concat());
    // A rush in the middle of which the sale is loaded sells only some.
    let mut sold = 0;
    wait_until_blocking(LONG, "the sale is loaded and sold", || {
        let rush = run(&["rush", "--voucher", "3", "--users", "20", "--json"]).json();
        sold += rush["admitted"].as_u64().unwrap();
        sold == 5
    });
    wait_until_blocking(LONG, "the audit passes", || run(&["audit"]).code() == 0);
    drop(worker);
    let of_sale =
        "SELECT voucher_id, COUNT(*) FROM tb_voucher_order GROUP BY voucher_id ORDER BY voucher_id";
    assert_eq!(rows(&mut sql, of_sale).await, [(1, BUYERS as i64), (3, 5)]);
    sql.close().await.unwrap();
}
