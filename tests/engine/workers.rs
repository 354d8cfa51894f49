//! Many nodes as real processes: killed, suspended, stopped, and with wrong clocks.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::support::{
    Background, LONG, MariaDb, Postgres, Ran, Seckill, TestRedis, wait_until_blocking,
};
use rustix::process::Signal;
use seckill_model::{Millis, OrderId};
use serde_json::Value;

/// A data directory with a database of one dialect, on the server shared by the tests of this binary.
struct Shop {
    home: Seckill,
    database: Option<String>,
}

impl Shop {
    fn on(dialect: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = match dialect {
            "mariadb" => Some(runtime.block_on(MariaDb::shared().database())),
            "postgres" => Some(runtime.block_on(Postgres::shared().database())),
            _ => None,
        };
        Self { home: Seckill::new(), database }
    }

    fn spawn(&self, args: &[&str]) -> Background {
        let mut all: Vec<&str> = Vec::new();
        if let Some(database) = &self.database {
            all.extend(["--database", database]);
        }
        all.extend(args);
        self.home.spawn(&all)
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.spawn(args).wait(LONG)
    }
}

/// Buyers of a rush; `BUYERS=100000` by hand.
fn buyers(otherwise: u64) -> String {
    std::env::var("BUYERS").unwrap_or_else(|_| otherwise.to_string())
}

fn create(home: &Shop, more: &[&str]) -> String {
    let args = [&["sale", "create", "--title", "t", "--json"], more].concat();
    home.run(&args).expect_code(0).json()["voucher_id"].to_string()
}

fn status(home: &Shop) -> Option<Value> {
    let ran = home.run(&["status", "--json"]);
    (ran.code() == 0).then(|| ran.json())
}

/// Entries that were admitted, and how many of them are written.
fn progress(home: &Shop) -> (u64, u64) {
    let seen = status(home).map(|it| it["sales"][0].clone()).unwrap_or_default();
    (seen["admitted"].as_u64().unwrap_or(0), seen["persisted"].as_u64().unwrap_or(0))
}

/// Consumers of nodes with a heartbeat.
fn alive(home: &Shop) -> usize {
    let seen = status(home).map(|it| it["stream"]["consumers"].clone()).unwrap_or_default();
    seen.as_array().map_or(0, |all| all.iter().filter(|it| it["alive"] == true).count())
}

fn balances(home: &Shop) -> Value {
    wait_until_blocking(LONG, "every entry has settled", || {
        status(home).is_some_and(|it| it["stream"]["lag"] == 0 && it["stream"]["pending"] == 0)
    });
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["balanced"], true, "{audit}");
    assert_eq!(audit["sales"][0]["admitted"], audit["sales"][0]["persisted"], "{audit}");
    audit["sales"][0].clone()
}

fn works(home: &Shop) -> Background {
    home.spawn(&["work", "--json"])
}

macro_rules! on_each_database {
    ($($case:ident),* $(,)?) => {
        mod sqlite { $(#[test] fn $case() { super::$case("sqlite"); })* }
        mod mariadb { $(#[test] fn $case() { super::$case("mariadb"); })* }
        mod postgres { $(#[test] fn $case() { super::$case("postgres"); })* }
    };
}

on_each_database![
    three_workers_of_which_one_is_killed_each_second,
    a_worker_that_was_suspended_past_its_time_does_no_harm,
];

fn three_workers_of_which_one_is_killed_each_second(dialect: &str) {
    let home = Shop::on(dialect);
    let (users, mut workers) = (buyers(30_000), Vec::new());
    let voucher = create(&home, &["--stock", &users]);
    for _ in 0..3 {
        workers.push(works(&home));
    }
    // So few at once that none is refused because the machine is busy.
    let load = ["--rate", "4000", "--concurrency", "250", "--json"];
    let mut rush =
        home.spawn(&[&["rush", "--voucher", &voucher, "--users", &users], &load[..]].concat());
    let mut killed = 0;
    while rush.is_running() {
        let next = Instant::now() + Duration::from_secs(1);
        wait_until_blocking(LONG, "a second", || Instant::now() >= next || !rush.is_running());
        // Its replacement takes over its name and entries.
        drop(workers.remove(0));
        workers.push(works(&home));
        killed += 1;
    }
    let report = rush.wait(LONG).expect_code(0).json();
    assert_eq!(report["errors"], 0, "{report}");
    let sale = balances(&home);
    assert_eq!(sale["persisted"].to_string(), users, "{sale}");
    assert!(killed >= 3, "{killed}");
    for worker in workers {
        worker.signal(Signal::TERM);
        worker.wait(LONG).expect_code(0);
    }
}

#[test]
fn twenty_stops_leave_nothing_pending_that_was_committed() {
    let home = Shop::on("sqlite");
    let voucher = create(&home, &["--stock", "1000000"]);
    // Few enough for any machine: a stop is bounded, and with full batches it would hand over.
    let rush = home.spawn(&[
        "rush",
        "--voucher",
        &voucher,
        "--users",
        "1000000",
        "--rate",
        "500",
        "--json",
    ]);
    wait_until_blocking(LONG, "the rush has begun", || progress(&home).0 > 0);
    for round in 0..20 {
        let worker = works(&home);
        wait_until_blocking(LONG, "the worker reads", || alive(&home) >= 2);
        // At a different position in its batch each time.
        let at = Instant::now() + Duration::from_millis(round * 7);
        wait_until_blocking(LONG, "a moment", || Instant::now() >= at);
        worker.signal(Signal::TERM);
        let asked = Instant::now();
        let ended = worker.wait(LONG).expect_code(0).json();
        assert!(asked.elapsed() < Duration::from_secs(5) + LONG / 36, "{:?}", asked.elapsed());
        assert_eq!((&ended["finished"], &ended["handed_over"]), (&true.into(), &0.into()));
        let node = format!("{}/", ended["node"].as_str().unwrap());
        let pending = home.run(&["pending", "list", "--limit", "100000", "--json"]).json();
        let left: Vec<&Value> = pending["entries"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["consumer"].as_str().unwrap().starts_with(&node))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
    rush.signal(Signal::TERM);
    let report = rush.wait(LONG).json();
    assert_eq!((&report["cut_short"], &report["errors"]), (&true.into(), &0.into()), "{report}");
    balances_by_a_worker(&home);
}

fn balances_by_a_worker(home: &Shop) {
    let worker = works(home);
    balances(home);
    worker.signal(Signal::TERM);
    worker.wait(LONG).expect_code(0);
}

fn a_worker_that_was_suspended_past_its_time_does_no_harm(dialect: &str) {
    let home = Shop::on(dialect);
    let config = home.home.file("config.toml");
    std::fs::write(&config, "[engine]\nclaim_idle_ms = 1000\nnode_dead_ms = 2000\n").unwrap();
    let config = config.to_str().unwrap();
    let voucher = create(&home, &["--stock", "20000"]);
    let sleeper = home.spawn(&["work", "--config", config, "--json"]);
    let mut rush = home.spawn(&[
        "rush",
        "--voucher",
        &voucher,
        "--users",
        "20000",
        "--rate",
        "4000",
        "--config",
        config,
        "--json",
    ]);
    let mut suspended = 0;
    while rush.is_running() {
        let before = progress(&home).1;
        wait_until_blocking(LONG, "orders are written", || {
            progress(&home).1 > before || !rush.is_running()
        });
        sleeper.freeze();
        suspended += 1;
        // Other nodes claim its entries. A suspended transaction keeps its locks: SQLite's one
        // until it resumes, a server's until the server's timeout. All nodes wait.
        wait_until_blocking(LONG, "it counts as dead", || alive(&home) <= 1 || !rush.is_running());
        sleeper.signal(Signal::CONT);
    }
    assert!(suspended >= 1);
    let report = rush.wait(LONG).expect_code(0).json();
    assert_eq!(report["persisted"], report["admitted"], "{report}");
    balances(&home);
    sleeper.signal(Signal::TERM);
    sleeper.wait(LONG).expect_code(0);
}

#[test]
fn a_second_node_with_the_same_name_is_refused() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let config = home.file("config.toml");
    std::fs::write(&config, "node = \"till\"\n[engine]\nnode_dead_ms = 2000\n").unwrap();
    let args = ["--redis", &server.url(), "--config", config.to_str().unwrap(), "work", "--json"];
    let first = home.spawn(&args);
    wait_until_blocking(LONG, "the first one is alive", || {
        server.query::<u64>(&["ZCARD", "seckill:{p0}:nodes"]) == 1
    });
    let refused = home.spawn(&args).wait(LONG).expect_code(1);
    assert!(refused.stderr.contains("a node named 'till' is already alive"), "{refused}");
    first.signal(Signal::TERM);
    first.wait(LONG).expect_code(0);
    // A released name is free at once, that of a killed process once it counts as dead.
    let second = home.spawn(&args);
    wait_until_blocking(LONG, "the second one is alive", || {
        server.query::<u64>(&["ZCARD", "seckill:{p0}:nodes"]) == 1
    });
    second.signal(Signal::KILL);
    let third = home.spawn(&args[..5]);
    wait_until_blocking(LONG, "the third one has its name", || {
        third.stdout().contains("till is running with Redis")
    });
    drop(second);
    third.signal(Signal::TERM);
    third.wait(LONG).expect_code(0);
}

/// A library that shifts the clock of one process; Redis and the test keep the true one.
fn fake_clock() -> String {
    let found =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
            .iter()
            .map(|dir| Path::new(dir).join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.exists());
    let found = found.expect("libfaketime is missing; 'assets/setup.sh --tests' installs it");
    found.to_str().unwrap().to_owned()
}

/// The clock of the processes is wrong by `shift`, that of Redis is right.
fn opens_and_closes_by_the_clock_of_redis(shift: &str) {
    let (home, server, library) = (Seckill::new(), TestRedis::start(), fake_clock());
    let (data, url) = (home.data_dir().display().to_string(), server.url());
    let wrong = |args: &[&str]| {
        let args = [&["--data-dir", &data, "--redis", &url], args].concat();
        let envs = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", shift),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Background::spawn(crate::support::BINARY, &args, &home, &envs)
    };
    let created = wrong(&[
        "sale", "create", "--title", "t", "--stock", "100000", "--begin", "+2s", "--end", "+8s",
        "--json",
    ]);
    let voucher = created.wait(LONG).expect_code(0).json()["voucher_id"].to_string();
    let sale: std::collections::HashMap<String, String> =
        server.query(&["HGETALL", &format!("seckill:{{p0}}:sale:{voucher}")]);
    let (begin, end): (u64, u64) = (sale["begin"].parse().unwrap(), sale["end"].parse().unwrap());
    assert_eq!(end - begin, 6_000);
    // Load tests in sequence until the sale has ended.
    let mut rejected = 0;
    wait_until_blocking(LONG, "the sale is over", || {
        let rush =
            wrong(&["rush", "--voucher", &voucher, "--users", "300", "--seed", "1", "--json"]);
        let report = rush.wait(LONG).json();
        rejected += report["rejected"].as_u64().unwrap();
        report["first_rejection"].as_str().is_some_and(|why| why.contains("ended"))
    });
    assert!(rejected >= 300, "some came too early or too late");
    let entries: Vec<(String, Vec<String>)> =
        server.query(&["XRANGE", "seckill:{p0}:orders", "-", "+"]);
    assert!(!entries.is_empty(), "no buyer was admitted in time");
    for (id, fields) in &entries {
        let at: u64 = id.split_once('-').unwrap().0.parse().unwrap();
        assert!(begin <= at && at < end, "{begin} <= {at} < {end}");
        // The order has its time by the same clock; the ID was proposed shortly before.
        let order = fields.iter().skip_while(|it| *it != "id").nth(1).unwrap();
        let dated = order.parse::<OrderId>().unwrap().unix_seconds() as u64;
        assert!((at / 1_000 - 30..=at / 1_000).contains(&dated), "{dated} in {id}");
    }
    // So has one of an ordinary voucher, bought without a node.
    let tea = wrong(&["voucher", "create", "--title", "tea", "--json"]);
    let tea = tea.wait(LONG).expect_code(0).json()["voucher_id"].to_string();
    let bought = wrong(&["voucher", "buy", &tea, "--user", "7", "--json"]);
    let order = bought.wait(LONG).expect_code(0).json()["order_id"].to_string();
    let dated = order.trim_matches('"').parse::<OrderId>().unwrap().unix_seconds();
    assert!(dated <= Millis::now().0 / 1_000, "{dated}");
}

#[test]
fn a_sale_opens_and_closes_by_the_clock_of_redis_for_a_fast_clock() {
    opens_and_closes_by_the_clock_of_redis("+1h");
}

#[test]
fn a_sale_opens_and_closes_by_the_clock_of_redis_for_a_slow_clock() {
    opens_and_closes_by_the_clock_of_redis("-1h");
}

/// Each node is asked for what it says of its host, not only the one that a person looks at.
#[test]
fn a_node_with_a_wrong_clock_or_another_time_zone_is_an_alarm_everywhere() {
    let (home, server, library) = (Seckill::new(), TestRedis::start(), fake_clock());
    let (data, url) = (home.data_dir().display().to_string(), server.url());
    let work = |node: &str, zone: &str, shift: &str| {
        let config = home.file(node);
        let text = format!("node = \"{node}\"\n[engine.jobs]\ntime_zone = \"{zone}\"\n");
        std::fs::write(&config, text).unwrap();
        let config = config.display().to_string();
        let args = ["--data-dir", &data, "--redis", &url, "--config", &config, "work"];
        let envs = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", shift),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Background::spawn(crate::support::BINARY, &args, &home, &envs)
    };
    let nodes = [work("till-1", "Asia/Kolkata", "+0s"), work("till-2", "UTC", "-1h")];
    let raised = || {
        let status = home.spawn(&["--redis", &url, "status", "--json"]).wait(LONG).json();
        let alarms = status["alarms"].as_array().cloned().unwrap_or_default();
        alarms.into_iter().map(|it| it["kind"].clone()).collect::<Vec<_>>()
    };
    let of_both = |alarms: &[Value]| {
        let named = |name: &str| alarms.iter().find(|it| it["alarm"] == name).cloned();
        Some((named("clock_skew")?, named("time_zones_differ")?))
    };
    let mut found = None;
    wait_until_blocking(LONG, "both are alarms", || {
        found = of_both(&raised());
        found.is_some()
    });
    let (skew, zones) = found.unwrap();
    assert_eq!(skew["of"], serde_json::json!({ "node": "till-2" }));
    let ahead_ms = skew["ahead_ms"].as_i64().unwrap();
    assert!((3_590_000..=3_610_000).contains(&ahead_ms), "{skew}");
    let wanted = serde_json::json!([["till-1", "Asia/Kolkata"], ["till-2", "UTC"]]);
    assert_eq!(zones["zones"], wanted);
    for node in nodes {
        node.signal(Signal::TERM);
        node.wait(LONG).expect_code(0);
    }
    assert_eq!(of_both(&raised()), None, "they have left");
}
