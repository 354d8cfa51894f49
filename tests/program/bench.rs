//! `seckill bench`: each side does the same work, and a deployment is left unchanged.

use crate::support::{LONG, MariaDb, Postgres, Ran, Seckill, TestRedis, refused};

const SMALL: [&str; 8] =
    ["bench", "persist", "--orders", "300", "--tutorial", "50", "--quick", "--json"];

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
    is_written(&report, [("tutorial", 50), ("seckill", 300), ("inserted", 300)]);
    for ratio in ["ratio", "ratio_inserted"] {
        assert!(report[ratio].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!((&report["batch"], &report["rounds"]), (&2_000.into(), &1.into()), "{report}");
}

/// Checks the figures of sides that write this many orders.
#[track_caller]
fn is_written<const N: usize>(report: &serde_json::Value, sides: [(&str, u64); N]) {
    for (side, orders) in sides {
        let figures = &report[side];
        assert_eq!((&figures["orders"], &figures["persisted"]), (&orders.into(), &orders.into()));
        assert!(figures["seconds"].as_f64().unwrap() > 0.0, "{report}");
        assert!(figures["per_second"].as_f64().unwrap() > 0.0, "{report}");
        is_spread(&figures["spread"]);
    }
}

#[test]
fn a_bench_on_its_own_servers_leaves_nothing() {
    let home = Seckill::new();
    both_sides_wrote_all(home.run(&SMALL));
    assert!(!home.data_dir().exists(), "the data dir is none of its business");
    assert_eq!(home.processes(), [0; 0]);
    let none = home.run(&["bench", "persist", "--orders", "0"]).expect_code(2);
    assert!(none.stderr.contains("expected 1 to 1,000,000"), "{none}");
    for what in ["persist", "locks", "console", "admission"] {
        refused(home.run(&["--read-only", "bench", what, "--quick"]), 2, "read-only");
    }
}

#[test]
fn locks_are_measured_over_several_servers() {
    let report = quick(&Seckill::new(), "locks", &[]);
    assert_eq!(report["servers"], 3, "{report}");
    for side in ["plain", "reentrant", "multilock"].map(|side| &report[side]) {
        for figure in
            ["alone_per_second", "many_per_second", "hand_over_p50_us", "hand_over_p99_us"]
        {
            is_spread(&side[figure]);
            assert!(side[figure]["median"].as_f64().unwrap() > 0.0, "{figure}: {report}");
        }
        assert!(side["hand_overs"].as_u64().unwrap() > 0, "{report}");
    }
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

/// Runs a benchmark that measures little.
fn quick(home: &Seckill, what: &str, args: &[&str]) -> serde_json::Value {
    let bench = ["bench", what, "--quick", "--json"];
    let report = home.spawn(&[&bench, args].concat()).wait(LONG).expect_code(0).json();
    assert_eq!(report["rounds"], 1, "{report}");
    assert_eq!(home.processes(), [0; 0]);
    report
}

#[track_caller]
fn is_spread(of: &serde_json::Value) {
    let [min, median, max] = ["min", "median", "max"].map(|key| of[key].as_f64().unwrap());
    assert!(0.0 <= min && min <= median && median <= max, "{of}");
}

#[test]
fn admission_and_refusals_are_compared_with_the_script_of_the_tutorials() {
    let home = Seckill::new();
    for (what, has_rows) in [("admission", false), ("soldout", false), ("endtoend", true)] {
        let report = quick(&home, what, &["--requests", "1000"]);
        assert_eq!(report["requests"], 1_000, "{report}");
        for side in ["seckill", "tutorial", "redis_benchmark"] {
            is_spread(&report[side]);
            assert!(report[side]["min"].as_f64().unwrap() > 0.0, "{what} {side}: {report}");
        }
        for ratio in ["ratio", "ratio_redis_benchmark"] {
            assert!(report[ratio].as_f64().unwrap() > 0.0, "{what} {ratio}: {report}");
        }
        assert_eq!(report["persisted"].is_object(), has_rows, "{report}");
        assert!([1, 2, 4, 8].contains(&report["connections"].as_u64().unwrap()), "{report}");
    }
    let none = home.run(&["bench", "soldout", "--rounds", "0"]).expect_code(2);
    assert!(none.stderr.contains("expected 1 to 100"), "{none}");
    refused(home.run(&["--read-only", "bench", "latency"]), 2, "read-only");
}

/// Checks that a file of curves has so many points.
#[track_caller]
fn has_points(home: &Seckill, file: &str, points: usize) {
    let svg = std::fs::read_to_string(home.file(file)).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), points, "{svg}");
}

#[test]
fn pending_entries_and_the_first_admission_are_measured() {
    let home = Seckill::new();
    let few = ["--orders", "300", "--tutorial", "30", "--beside", "500"];
    let report = quick(&home, "recovery", &few);
    is_written(&report, [("recovered", 300), ("undelivered", 300), ("tutorial", 30)]);
    for ratio in ["ratio", "ratio_undelivered"] {
        assert!(report[ratio].as_f64().unwrap() > 0.0, "{report}");
    }
    let start = &report["start"];
    assert_eq!(start["orders"], 500, "{report}");
    for figure in ["live_ms", "restarted_ms"] {
        is_spread(&start[figure]);
        assert!(start[figure]["min"].as_f64().unwrap() > 0.0, "{report}");
    }

    // A Redis that was given is not killed.
    let redis = TestRedis::start();
    let url = redis.url();
    let on_given = [&few[..], &["--redis", &url]].concat();
    assert!(quick(&home, "recovery", &on_given)["start"].is_null());
    assert_eq!(keys(&redis), [""; 0]);
}

#[test]
fn order_ids_cost_fewer_round_trips_than_the_tutorials() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let report = quick(&home, "ids", &["--ids", "5000", "--redis", &redis.url()]);
    assert_eq!(report["ids"], 5_000, "{report}");
    for side in ["seckill", "tutorial"] {
        is_spread(&report[side]["per_second"]);
        is_spread(&report[side]["round_trips"]);
    }
    assert_eq!(report["tutorial"]["round_trips"]["median"], 5_000.0, "{report}");
    let leases = report["seckill"]["round_trips"]["median"].as_f64().unwrap();
    assert!((1.0..=2.0).contains(&leases), "a lease has 4,096 IDs: {report}");
    assert!([16, 64, 256, 1_024].contains(&report["tasks"].as_u64().unwrap()), "{report}");
    assert_eq!(keys(&redis), [""; 0]);
}

#[track_caller]
fn grew(report: &serde_json::Value) {
    let sizes = report["sizes"].as_array().unwrap();
    let rows: Vec<_> = sizes.iter().filter_map(|size| size["rows"].as_u64()).collect();
    assert_eq!(rows, [500, 2_000], "{report}");
    for size in sizes {
        is_spread(&size["seckill"]);
        is_spread(&size["inserted"]);
        let ratios = ["ratio_inserted", "ratio_first", "ratio_first_inserted"];
        for figure in ratios.iter().chain(&["bytes_per_row"]) {
            assert!(size[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
        }
    }
    assert_eq!(sizes[0]["ratio_first"], 1.0, "{report}");
}

#[tokio::test]
async fn growth_is_measured_on_every_database() {
    let home = Seckill::new();
    let svg = home.file("growth.svg");
    let few = ["--first", "500", "--rows", "2000", "--orders", "100"];
    grew(&quick(&home, "growth", &[&few[..], &["--svg", svg.to_str().unwrap()]].concat()));
    // Two sides at two sizes.
    has_points(&home, "growth.svg", 4);
    for url in [MariaDb::shared().database().await, Postgres::shared().database().await] {
        grew(&quick(&home, "growth", &[&few[..], &["--database", &url]].concat()));
    }
}

#[test]
fn a_sale_over_shards_is_measured_and_simulated() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let svg = home.file("shards.svg");
    let few = ["--buyers", "2000", "--redis", &redis.url(), "--svg", svg.to_str().unwrap()];
    let report = quick(&home, "shards", &few);
    let costs = report["costs"].as_array().unwrap();
    let shards: Vec<_> = costs.iter().filter_map(|cost| cost["shards"].as_u64()).collect();
    assert_eq!(shards, [1, 2, 4, 8], "{report}");
    for cost in costs {
        is_spread(&cost["per_second"]);
        is_spread(&cost["cpu_per_million"]);
        is_spread(&cost["on_servers"]);
    }
    assert_eq!(costs[0]["on_servers"]["median"], 1.0, "{report}");
    let moves = &report["moves"];
    assert_eq!(moves["stock"], 1_000, "{report}");
    assert!(moves["changes"].as_u64().unwrap() > 0 && moves["move_ms"].as_f64().unwrap() > 0.0);
    let simulated = report["simulated"].as_array().unwrap();
    assert!(
        simulated.iter().all(|it| it["sold"].as_u64() == it["buyers"].as_u64().map(|it| it / 100))
    );
    // One curve of the measured, two of the simulated numbers of shards.
    has_points(&home, "shards.svg", costs.len() + 2 * 4);
    assert_eq!(keys(&redis), [""; 0]);
}

#[test]
fn curves_that_cannot_be_written_are_an_error_before_the_measurement() {
    let home = Seckill::new();
    let file = home.file("none/latency.svg");
    refused(home.run(&["bench", "latency", "--svg", file.to_str().unwrap()]), 1, "latency.svg");
}

#[test]
fn latency_is_measured_at_four_loads_and_one_by_one() {
    let home = Seckill::new();
    let svg = home.file("latency.svg");
    let few = ["--buyers", "1000", "--millis", "50", "--lone", "50"];
    let report = quick(&home, "latency", &[&few[..], &["--svg", svg.to_str().unwrap()]].concat());
    // Five percentiles at four loads.
    has_points(&home, "latency.svg", 20);
    is_spread(&report["capacity"]);
    let loads = report["loads"].as_array().unwrap();
    let shares: Vec<_> = loads.iter().map(|load| load["share"].as_f64()).collect();
    assert_eq!(shares, [None, None, Some(0.5), Some(0.9)], "{report}");
    assert_eq!(loads[1]["offered"], 20_000.0, "{report}");
    let lone = &report["lone"];
    assert_eq!(lone["buyers"], 50, "{report}");
    let of_loads = loads.iter().flat_map(|load| [&load["seckill"], &load["tutorial"]]);
    let of_lone = [&lone["seckill"], &lone["seckill_persisting"], &lone["tutorial"]];
    for latencies in of_loads.chain(of_lone) {
        for figure in ["per_second", "busy", "p50_us", "p99_us", "p999_us", "max_us"] {
            is_spread(&latencies[figure]);
        }
        let [p50, max] = ["p50_us", "max_us"].map(|key| latencies[key]["median"].as_f64());
        assert!(p50 > Some(0.0) && p50 <= max, "{report}");
    }
}

#[test]
fn overload_is_measured_at_four_shares_of_the_capacity() {
    let home = Seckill::new();
    let svg = home.file("overload.svg");
    let few = ["--buyers", "1000", "--millis", "50", "--svg", svg.to_str().unwrap()];
    let report = quick(&home, "overload", &few);
    assert_eq!(report["goal_ms"], 1_000, "{report}");
    let loads = report["loads"].as_array().unwrap();
    let shares: Vec<_> = loads.iter().filter_map(|load| load["share"].as_f64()).collect();
    assert_eq!(shares, [0.5, 1.0, 2.0, 5.0], "{report}");
    for load in loads {
        for figure in ["admitted_per_second", "busy_percent", "p50_us", "p99_us", "max_us"] {
            is_spread(&load["seckill"][figure]);
        }
        assert!(load["goodput"].as_f64().unwrap() > 0.0, "{report}");
    }
    let of_tutorial = loads.iter().filter(|load| load["tutorial"].is_object()).count();
    // Two panels.
    has_points(&home, "overload.svg", 2 * (loads.len() + of_tutorial));
}

#[test]
fn a_cancelled_bench_of_locks_leaves_no_server() {
    let home = Seckill::new();
    let bench = home.spawn(&["bench", "locks", "--millis", "60000"]);
    crate::support::wait_until_blocking(crate::support::PATIENCE, "its four servers run", || {
        home.processes().len() == 4
    });
    bench.signal(rustix::process::Signal::INT);
    refused(bench.wait(crate::support::PATIENCE), 1, "stopped before");
    assert_eq!(home.processes(), [0; 0]);
}

#[test]
fn a_bench_of_the_script_leaves_a_given_redis_as_it_was() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let url = redis.url();
    let report = quick(&home, "endtoend", &["--requests", "1000", "--redis", &url]);
    assert!(report["redis_benchmark"].is_null(), "{report}");
    assert_eq!(keys(&redis), [""; 0]);
    // The script makes its keys itself: they may belong to another program.
    redis.query::<()>(&["SET", "stream.orders", "1"]);
    refused(home.run(&["bench", "soldout", "--redis", &url]), 1, "stream.orders");
    assert_eq!(keys(&redis), ["stream.orders"]);
}

#[test]
fn an_interrupted_load_removes_its_data() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    let bench = home.spawn(&["--redis", &redis.url(), "bench", "admission"]);
    crate::support::wait_until_blocking(
        crate::support::PATIENCE,
        "the script admits buyers",
        || redis.query::<u64>(&["XLEN", "stream.orders"]) > 0,
    );
    bench.signal(rustix::process::Signal::INT);
    refused(bench.wait(crate::support::PATIENCE), 1, "stopped before");
    assert_eq!(keys(&redis), [""; 0]);
}
