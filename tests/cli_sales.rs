//! Sales, vouchers and orders as a person types them, with the real program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod support;

use serde_json::Value;
use support::{Ran, Seckill};

fn create(home: &Seckill, stock: &str, more: &[&str]) -> String {
    let args = [&["sale", "create", "--title", "火锅 🍲", "--stock", stock, "--json"], more].concat();
    home.run(&args).expect_code(0).json()["voucher_id"].to_string()
}

/// One sentence on stderr, nothing on stdout, no panic.
#[track_caller]
fn refused(ran: Ran, code: i32, words: &str) {
    let ran = ran.expect_code(code);
    assert!(ran.stdout.is_empty(), "stdout: {}", ran.stdout);
    assert!(ran.stderr.contains(words), "'{words}' is not in: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

fn json(home: &Seckill, args: &[&str]) -> Value {
    home.run(&[args, &["--json"]].concat()).expect_code(0).json()
}

#[test]
fn a_sale_is_limited_restocked_and_cut() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let id = create(&home, "100", &["--limit", "3", "--end", "+2h"]);
    let shown = json(&home, &["sale", "show", &id]);
    assert_eq!((&shown["limit"], &shown["state"]), (&3.into(), &"running".into()), "{shown}");
    assert!(shown["changed"].is_i64() && shown["end"].is_i64(), "{shown}");
    let rush = ["rush", "--voucher", &id, "--users", "30"];
    json(&home, &rush);

    let restocked = json(&home, &["sale", "restock", &id, "1,000"]);
    assert_eq!(restocked["initial"], 1_100);
    let cut = json(&home, &["sale", "restock", &id, "-1,000", "--reason", "a mistake"]);
    assert_eq!(cut["initial"], 100);
    refused(home.run(&["sale", "restock", &id, "-100"]), 1, "unsold");
    refused(home.run(&["sale", "restock", &id, "0"]), 2, "restocked by 0");
    refused(home.run(&["sale", "restock", &id, "many"]), 2, "whole number");
    refused(home.run(&["--read-only", "sale", "restock", &id, "-1"]), 1, "read-only");
    refused(home.run(&["sale", "restock", "42", "-1"]), 1, "no sale");
    for (limit, words) in [("0", "0 orders"), ("21", "21 orders"), ("-1", "without a sign")] {
        let args = ["sale", "create", "--title", "t", "--stock", "1", "--limit", limit];
        refused(home.run(&args), 2, words);
    }
    let words = home.run(&["sale", "show", &id]).expect_code(0).stdout;
    for part in ["running, changed", "3 orders a user", "of 100 (SQL"] {
        assert!(words.contains(part), "'{part}' is not in: {words}");
    }
    home.run(&["audit"]).expect_code(0);
    drop(worker);
}

#[test]
fn archived_sales_come_from_sql_in_pages() {
    let home = Seckill::new();
    let config = home.file("config.toml");
    std::fs::write(&config, "[engine.jobs]\narchive_after_ms = 0\n").unwrap();
    let config = config.to_str().unwrap();
    let worker = home.spawn(&["--config", config, "work"]);
    let ids: Vec<String> = (0..3).map(|_| create(&home, "5", &[])).collect();
    let order_of = ["rush", "--voucher", &ids[0], "--users", "2"];
    json(&home, &order_of);
    for id in &ids {
        home.run(&["sale", "end", id, "--yes"]).expect_code(0);
    }
    let kept = create(&home, "5", &[]);
    let archived = || json(&home, &["sale", "list", "--archived"]);
    support::wait_until_blocking(support::PATIENCE, "three sales are archived", || {
        home.run(&["--config", config, "jobs", "run", "archive-sales"]).expect_code(0);
        archived()["sales"].as_array().is_some_and(|sales| sales.len() == 3)
    });
    let first = json(&home, &["sale", "list", "--archived", "--limit", "2"]);
    let numbers = |page: &Value| -> Vec<String> {
        let sales = page["sales"].as_array().unwrap();
        sales.iter().map(|sale| sale["voucher_id"].to_string()).collect()
    };
    assert_eq!(numbers(&first), [&*ids[2], &*ids[1]]);
    assert_eq!(first["next"].to_string(), ids[1]);
    let rest = json(&home, &["sale", "list", "--archived", "--limit", "2", "--before", &ids[1]]);
    assert_eq!((numbers(&rest), &rest["next"]), (vec![ids[0].clone()], &Value::Null));
    let words = home.run(&["sale", "list", "--archived", "--limit", "2"]).expect_code(0).stdout;
    assert!(words.contains(&format!("--before {}", ids[1])), "{words}");

    let running = json(&home, &["sale", "list"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "{running}");
    assert_eq!(running[0]["voucher_id"].to_string(), kept);
    let shown = json(&home, &["sale", "show", &ids[0]]);
    assert_eq!((&shown["phase"], &shown["persisted"]), (&"archived".into(), &2.into()), "{shown}");
    assert_eq!((&shown["stock"], &shown["db_stock"]), (&Value::Null, &3.into()), "{shown}");
    refused(home.run(&["sale", "restock", &ids[0], "-1"]), 1, "has ended");
    refused(home.run(&["sale", "list", "--before", "1"]), 2, "--archived");
    refused(home.run(&["sale", "list", "--archived", "--limit", "0"]), 2, "--limit");
    drop(worker);
}
