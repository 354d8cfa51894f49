//! The commands for dead letters, with the real program.

use crate::support::{Background, PATIENCE, Ran, Seckill, wait_until_blocking};
use redis::cmd;
use serde_json::Value;

/// Asserts a message on stderr and no panic; the count of dead letters may be on stdout.
#[track_caller]
fn refused(ran: Ran, code: i32, output: &str) {
    let ran = ran.expect_code(code);
    assert!(ran.stderr.contains(output), "'{output}' is not in: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

const ORDER: &str = "627150921728720897";

/// A worker that has its consumer group, and the ID of a new sale.
fn worker_with_a_sale(home: &Seckill) -> (Background, String) {
    let worker = home.spawn(&["work"]);
    let created = home.json(&["sale", "create", "--title", "tea", "--stock", "9"]);
    wait_until_blocking(PATIENCE, "the worker has its group", || {
        home.json(&["status"])["stream"]["group"] == true
    });
    (worker, created["voucher_id"].to_string())
}

#[test]
fn letters_are_listed_shown_replayed_and_discarded() {
    let home = Seckill::new();
    let (worker, id) = worker_with_a_sale(&home);
    assert_eq!(home.json(&["dead", "list"])["total"], 0);
    refused(home.run(&["dead", "replay", "--all", "--yes"]), 1, "no dead letters match");

    let mut redis = home.redis().unwrap();
    for fields in [["userId", "x"], ["nonsense", "\u{1b}[2J"]] {
        cmd("XADD").arg("seckill:{p0}:orders").arg("*").arg(&fields).exec(&mut redis).unwrap();
    }
    // A waiting buyer whose entry became a dead letter.
    let promise = |redis: &mut redis::Connection| {
        let buyers = format!("seckill:{{p0}}:buyers:{id}");
        cmd("HSET").arg(buyers).arg(7).arg(ORDER).exec(redis).unwrap();
        cmd("DECR").arg(format!("seckill:{{p0}}:stock:{id}")).exec(redis).unwrap();
        let mut add = cmd("XADD");
        add.arg("seckill:{p0}:dead").arg("*").arg("reason").arg("by hand");
        add.arg("body:userId").arg(7).arg("body:voucherId").arg(&id).arg("body:id").arg(ORDER);
        add.query::<String>(redis).unwrap()
    };
    let letter = promise(&mut redis);
    wait_until_blocking(PATIENCE, "all are given up", || {
        home.json(&["dead", "list"])["total"] == 3
    });
    // One of them belongs to an admitted, waiting buyer.
    home.run(&["audit"]).expect_code(1);
    let outcome = home.run(&["audit", "--repair"]).expect_code(1).stdout;
    for part in ["'seckill dead replay --all'", "'seckill dead discard --all --compensate'"] {
        assert!(outcome.contains(part), "'{part}' is not in: {outcome}");
    }
    assert!(!outcome.contains("tb_voucher_order") && !outcome.contains("asks for"), "{outcome}");

    let listed = home.json(&["dead", "list", "--limit", "2"]);
    assert_eq!(listed["letters"].as_array().map(Vec::len), Some(2));
    let next = listed["next"].as_str().unwrap();
    let rest = home.json(&["dead", "list", "--from", next]);
    assert_eq!((rest["letters"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    let found = home.json(&["dead", "list", "--filter", "verdict=awaited,user=7"]);
    let line = &found["letters"][0];
    assert_eq!(line["letter"], letter.as_str());
    assert_eq!((&line["order_id"], &line["action"]), (&ORDER.into(), &"replay".into()), "{line}");
    let output = home.run(&["dead", "list"]).expect_code(0).stdout;
    assert!(output.contains("malformed") && output.contains("awaited"), "{output}");
    home.run(&["dead", "list", "--filter", "user=8"]).expect_code(0);
    refused(home.run(&["dead", "list", "--filter", "colour=red"]), 2, "no field 'colour'");

    let shown = home.json(&["dead", "show", &letter]);
    assert_eq!(shown["history"][0]["reason"], "by hand");
    assert_eq!(shown["payload"][0], serde_json::json!(["userId", "7"]));
    let output = home.run(&["dead", "show", &letter]).expect_code(0).stdout;
    assert!(output.contains("its buyer waits") && output.contains("userId = 7"), "{output}");
    refused(home.run(&["dead", "show", "1-1"]), 1, "dead letter 1-1 does not exist");
    refused(home.run(&["dead", "show", "x"]), 2, "not a stream entry ID");

    // Nothing is done without confirmation or with incomplete arguments.
    refused(home.run(&["dead", "discard", "--all"]), 2, "--yes");
    refused(home.run(&["dead", "discard"]), 2, "--all");
    refused(home.run(&["dead", "discard", "--filter", " ", "--yes"]), 2, "empty filter");
    refused(home.run(&["dead", "discard", "--all", &letter]), 2, "cannot be used");
    refused(home.run(&["--read-only", "dead", "discard", "--all", "--yes"]), 2, "read-only");
    refused(home.run(&["dead", "discard", &letter]), 1, "can be processed this way");
    let kept = home.run(&["dead", "discard", &letter, "--yes", "--json"]).expect_code(1).json();
    assert_eq!((&kept["discarded"], &kept["refused"]["awaited"]), (&0.into(), &1.into()), "{kept}");
    refused(home.run(&["dead", "replay", "1-1", "--yes"]), 1, "none of these");

    let report = home.json(&["dead", "discard", "--filter", "verdict=malformed", "--yes"]);
    assert_eq!(report["discarded"], 2, "{report}");
    let back = ["dead", "replay", &letter, "1-1", "--yes", "--reason", "fixed"];
    let report = home.run(&[&back[..], &["--json"]].concat()).expect_code(1).json();
    assert_eq!((&report["replayed"], &report["gone"]), (&1.into(), &1.into()), "{report}");
    wait_until_blocking(PATIENCE, "the order is written", || {
        home.run(&["orders", "show", ORDER, "--json"]).json()["result"] == "persisted"
    });
    home.run(&["audit"]).expect_code(0);
    drop(worker);
}

#[test]
fn a_discard_with_compensation_shows_as_a_cancelled_order() {
    let home = Seckill::new();
    let (worker, id) = worker_with_a_sale(&home);
    let mut redis = home.redis().unwrap();
    let buyers = format!("seckill:{{p0}}:buyers:{id}");
    cmd("HSET").arg(&buyers).arg(7).arg(ORDER).exec(&mut redis).unwrap();
    cmd("DECR").arg(format!("seckill:{{p0}}:stock:{id}")).exec(&mut redis).unwrap();
    let mut add = cmd("XADD");
    add.arg("seckill:{p0}:dead").arg("*").arg("reason").arg("by hand");
    add.arg("body:userId").arg(7).arg("body:voucherId").arg(&id).arg("body:id").arg(ORDER);
    add.exec(&mut redis).unwrap();
    let output = home.run(&["dead", "discard", "--all", "--compensate", "--yes"]).expect_code(0);
    for part in [
        "1  awaited: its buyer waits",
        "1 dead letter discarded, 1 order cancelled, 1 piece returned to stock",
    ] {
        assert!(output.stdout.contains(part), "'{part}' is not in: {output}");
    }
    let shown = home.json(&["orders", "show", ORDER]);
    assert_eq!(shown["order"]["status"], "cancelled", "{shown}");
    let sale = &home.json(&["audit"])["sales"][0];
    assert_eq!((&sale["stock"], &sale["db_stock"]), (&9.into(), &9.into()), "{sale}");
    assert_eq!((&sale["closed"], &sale["dead"]), (&1.into(), &0.into()), "{sale}");
    drop(worker);
}
