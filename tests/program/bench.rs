//! `seckill bench`: both sides write every order, and a deployment is left unchanged.

use crate::support::{MariaDb, Postgres, Ran, Seckill, TestRedis};

const SMALL: [&str; 7] = ["bench", "persist", "--orders", "300", "--tutorial", "50", "--json"];

fn keys(server: &TestRedis) -> Vec<String> {
    let mut keys: Vec<String> = server.query(&["KEYS", "*"]);
    // IDs are never issued twice, so their counter is kept.
    keys.retain(|key| !key.starts_with("icr:"));
    // Redis returns them unordered.
    keys.sort();
    keys
}

#[track_caller]
fn both_sides_wrote_all(ran: Ran) {
    let report = ran.expect_code(0).json();
    for (side, orders) in [("tutorial", 50), ("seckill", 300)] {
        let figures = &report[side];
        assert_eq!((&figures["orders"], &figures["persisted"]), (&orders.into(), &orders.into()));
        assert!(figures["seconds"].as_f64().unwrap() > 0.0, "{report}");
        assert!(figures["per_second"].as_f64().unwrap() > 0.0, "{report}");
    }
    assert!(report["ratio"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["batch"], 2_000, "{report}");
}

#[track_caller]
fn refused(ran: Ran, code: i32, message: &str) {
    let ran = ran.expect_code(code);
    assert!(ran.stdout.is_empty() && ran.stderr.contains(message), "{ran}");
    assert_eq!(ran.stderr.trim().lines().count(), 1, "{ran}");
}

#[test]
fn a_bench_on_its_own_servers_leaves_nothing() {
    let home = Seckill::new();
    both_sides_wrote_all(home.run(&SMALL));
    assert!(!home.data_dir().exists(), "the data dir is none of its business");
    assert_eq!(home.processes(), [0; 0]);
    let none = home.run(&["bench", "persist", "--orders", "0"]).expect_code(2);
    assert!(none.stderr.contains("expected 1 to 1,000,000"), "{none}");
    refused(home.run(&["--read-only", "bench", "persist"]), 1, "read-only");
}

#[test]
fn locks_are_measured_over_several_servers() {
    let home = Seckill::new();
    let few = ["bench", "locks", "--seconds", "1", "--tasks", "4", "--waiting", "4", "--json"];
    let report = home.run(&few).expect_code(0).json();
    assert_eq!(report["servers"], 3, "{report}");
    for way in ["plain", "reentrant", "multilock"] {
        for figure in ["alone_per_second", "many_per_second", "hand_overs"] {
            assert!(report[way][figure].as_f64().unwrap() > 0.0, "{way} {figure}: {report}");
        }
    }
    assert_eq!(home.processes(), [0; 0]);
}

#[test]
fn a_bench_on_given_servers_leaves_archived_sales_and_no_key() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let database = format!("sqlite:{}", home.file("given.db").display());
    let mut args = vec!["--redis".to_owned(), redis.url(), "--database".to_owned(), database];
    args.extend(SMALL.map(str::to_owned));
    let on_given = |args: &[String]| home.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    both_sides_wrote_all(on_given(&args));
    assert_eq!(keys(&redis), [""; 0]);
    // Data of an earlier run does not interfere.
    both_sides_wrote_all(on_given(&args));

    // A killed or a running bench.
    redis.query::<()>(&["SET", "seckill-bench:{p0}:lock:bench", "bench"]);
    refused(on_given(&args), 1, "seckill-bench:*");
    redis.query::<()>(&["DEL", "seckill-bench:{p0}:lock:bench"]);

    let sale = ["sale", "create", "--title", "hot pot", "--stock", "5"].map(str::to_owned);
    on_given(&[&args[..4], &sale].concat()).expect_code(0);
    let before = keys(&redis);
    refused(on_given(&args), 1, "not archived");
    // Its Redis could be used alone, but not while a node is running.
    let mut lone = args.clone();
    lone.drain(2..4);
    both_sides_wrote_all(on_given(&lone));
    assert_eq!(keys(&redis), before);
    let worker = home.spawn(&[&args[0], &args[1], &args[2], &args[3], "work"]);
    crate::support::wait_until_blocking(
        crate::support::PATIENCE,
        "the worker gives a sign of life",
        || redis.query::<u64>(&["ZCARD", "seckill:{p0}:nodes"]) == 1,
    );
    refused(on_given(&lone), 1, "is alive on this Redis");
    drop(worker);
}

#[tokio::test]
async fn both_sides_write_every_order_on_a_database_server() {
    let home = Seckill::new();
    for url in [MariaDb::shared().database().await, Postgres::shared().database().await] {
        both_sides_wrote_all(home.run(&[&["--database", &url], &SMALL[..]].concat()));
    }
}

#[test]
fn an_interrupted_bench_removes_its_data() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let orders = ["bench", "persist", "--tutorial", "1000000"];
    let bench = home.spawn(&[&["--redis", &redis.url()], &orders[..]].concat());
    crate::support::wait_until_blocking(
        crate::support::PATIENCE,
        "the tutorial's stream fills",
        || redis.query::<u64>(&["XLEN", "seckill-bench:tutorial:{p0}:orders"]) > 0,
    );
    bench.signal(rustix::process::Signal::TERM);
    refused(bench.wait(crate::support::PATIENCE), 1, "stopped before");
    assert_eq!(keys(&redis), [""; 0]);
}
