//! The commands for sales, vouchers and orders, with the real program.

use crate::support::{PATIENCE, Ran, Seckill, TestRedis, refused, wait_until_blocking};
use redis::cmd;
use seckill_model::{SaleId, ShardId};
use seckill_redis::Layout;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _};

fn create(home: &Seckill, stock: &str, more: &[&str]) -> String {
    let args =
        [&["sale", "create", "--title", "火锅 🍲", "--stock", stock, "--json"], more].concat();
    home.run(&args).expect_code(0).json()["voucher_id"].to_string()
}

#[test]
fn the_stock_of_a_sale_is_bounded_increased_and_reduced() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let id = create(&home, "100", &["--limit", "3", "--begin", "-1h", "--end", "+2h"]);
    let shown = home.json(&["sale", "show", &id]);
    assert_eq!((&shown["limit"], &shown["state"]), (&3.into(), &"running".into()), "{shown}");
    assert!(shown["changed"].is_i64() && shown["end"].is_i64(), "{shown}");
    let rush = ["rush", "--voucher", &id, "--users", "30"];
    home.json(&rush);

    let restocked = home.json(&["sale", "restock", &id, "1,000"]);
    assert_eq!(restocked["initial"], 1_100);
    let cut = home.json(&["sale", "restock", &id, "-1,000", "--reason", "a mistake"]);
    assert_eq!(cut["initial"], 100);
    refused(home.run(&["sale", "restock", &id, "-100"]), 1, "unsold");
    refused(home.run(&["sale", "restock", &id, "0"]), 2, "cannot change by 0");
    refused(home.run(&["sale", "restock", &id, "many"]), 2, "expected an integer");
    refused(home.run(&["--read-only", "sale", "restock", &id, "-1"]), 2, "read-only");
    refused(home.run(&["sale", "restock", "42", "-1"]), 1, "no sale");
    for (limit, output) in [("0", "0 orders"), ("21", "21 orders"), ("-1", "non-negative integer")]
    {
        let args = ["sale", "create", "--title", "t", "--stock", "1", "--limit", limit];
        refused(home.run(&args), 2, output);
    }
    let output = home.run(&["sale", "show", &id]).expect_code(0).stdout;
    for part in ["running, changed", "3 orders per user", "of 100 (SQL"] {
        assert!(output.contains(part), "'{part}' is not in: {output}");
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
    home.json(&order_of);
    for id in &ids {
        home.run(&["sale", "end", id, "--yes"]).expect_code(0);
    }
    let kept = create(&home, "5", &[]);
    let archived = || home.json(&["sale", "list", "--archived"]);
    wait_until_blocking(PATIENCE, "three sales are archived", || {
        home.run(&["--config", config, "jobs", "run", "archive-sales"]).expect_code(0);
        archived()["sales"].as_array().is_some_and(|sales| sales.len() == 3)
    });
    let first = home.json(&["sale", "list", "--archived", "--limit", "2"]);
    let numbers = |page: &Value| -> Vec<String> {
        let sales = page["sales"].as_array().unwrap();
        sales.iter().map(|sale| sale["voucher_id"].to_string()).collect()
    };
    assert_eq!(numbers(&first), [&*ids[2], &*ids[1]]);
    assert_eq!(first["next"].to_string(), ids[1]);
    let rest = home.json(&["sale", "list", "--archived", "--limit", "2", "--before", &ids[1]]);
    assert_eq!((numbers(&rest), &rest["next"]), (vec![ids[0].clone()], &Value::Null));
    let output = home.run(&["sale", "list", "--archived", "--limit", "2"]).expect_code(0).stdout;
    assert!(output.contains(&format!("--before {}", ids[1])), "{output}");

    let running = home.json(&["sale", "list"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "{running}");
    assert_eq!(running[0]["voucher_id"].to_string(), kept);
    let shown = home.json(&["sale", "show", &ids[0]]);
    assert_eq!((&shown["phase"], &shown["persisted"]), (&"archived".into(), &2.into()), "{shown}");
    assert_eq!((&shown["stock"], &shown["db_stock"]), (&Value::Null, &3.into()), "{shown}");
    let listed = home.json(&["orders", "list", "--voucher", &ids[0]]);
    let order = listed["orders"][0]["id"].as_str().unwrap();
    let found = home.json(&["orders", "show", order]);
    assert_eq!(found["result"], "persisted", "SQL answers for it: {found}");
    refused(home.run(&["sale", "restock", &ids[0], "-1"]), 1, "has ended");
    refused(home.run(&["sale", "list", "--before", "1"]), 2, "--archived");
    refused(home.run(&["sale", "list", "--archived", "--limit", "0"]), 2, "--limit");
    drop(worker);
}

/// Runs statements in the database of an installation without a server.
fn sql(home: &Seckill, statements: &str) {
    let url = format!("sqlite://{}", home.data_dir().join("seckill.db").display());
    let running = async {
        let mut sql = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut sql).await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(running);
}

/// SQL was restored from a backup that is older than one sale, and than the end of another.
#[test]
fn sales_that_sql_has_lost_or_lacks_changes_of_are_named() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let [lost, ended, kept] = [(); 3].map(|()| create(&home, "50", &[]));
    home.json(&["rush", "--voucher", &lost, "--users", "20"]);
    home.run(&["sale", "end", &ended, "--yes"]).expect_code(0);
    sql(
        &home,
        &format!(
            "DELETE FROM tb_voucher_order WHERE voucher_id = {lost}; \
             DELETE FROM tb_seckill_voucher WHERE voucher_id = {lost}; \
             DELETE FROM tb_voucher WHERE id = {lost}; \
             UPDATE tb_seckill_voucher SET state = 'running', version = 1, delivered_version = 1 \
             WHERE voucher_id = {ended};"
        ),
    );
    let copy = |list: &Value, id: &str| {
        let mut sales = list.as_array().unwrap().iter();
        let sale = sales.find(|it| it["voucher_id"] == id.parse::<u64>().unwrap()).unwrap();
        [&sale["sql"], &sale["phase"]].map(|it| it.as_str().unwrap_or_default().to_owned())
    };
    let listed = home.json(&["sale", "list"]);
    assert_eq!(copy(&listed, &lost), ["lost", "running"], "{listed}");
    assert_eq!(copy(&listed, &ended), ["behind", "ended"], "{listed}");
    assert_eq!(copy(&listed, &kept), ["", "running"], "{listed}");
    let text = home.run(&["sale", "list"]).expect_code(0).stdout;
    let row = |id: &str| text.lines().find(|it| it.starts_with(&format!("#{id} "))).unwrap();
    assert!(row(&lost).contains("SQL lost") && row(&ended).contains("ended"), "{text}");
    for note in [format!("SQL has lost #{lost},"), format!("SQL lacks changes of #{ended} that")] {
        let line = text.lines().find(|it| it.contains(&note)).unwrap();
        assert!(line.contains("'seckill audit --repair'"), "{line}");
    }
    let shown = home.json(&["sale", "show", &ended]);
    assert_eq!((&shown["sql"], &shown["phase"]), (&"behind".into(), &"ended".into()), "{shown}");
    let status = home.run(&["status"]).expect_code(1).stdout;
    let wanted = format!("SQL has lost #{lost}, which Redis still has");
    assert!(status.contains(&wanted) && status.contains("20 admitted orders"), "{status}");
    assert!(status.contains(&format!("SQL lacks changes of #{ended}")), "{status}");

    home.run(&["audit", "--repair", "--yes"]);
    wait_until_blocking(PATIENCE, "SQL has both again", || {
        let listed = home.json(&["sale", "list"]);
        [&lost, &ended].map(|id| copy(&listed, id)) == [["", "running"], ["", "ended"]]
    });
    drop(worker);
}

/// All pages of a list, and their number.
fn pages(home: &Seckill, args: &[&str]) -> (Vec<Value>, usize) {
    let (mut all, mut read, mut before) = (Vec::new(), 0, None::<String>);
    loop {
        let mut args = [&["orders", "list", "--limit", "50"], args].concat();
        if let Some(before) = &before {
            args.extend(["--before", before]);
        }
        let page = home.json(&args);
        all.extend(page["orders"].as_array().unwrap().iter().cloned());
        read += 1;
        match page["next"].as_str() {
            Some(next) => before = Some(next.to_owned()),
            None => return (all, read),
        }
    }
}

#[test]
fn the_aggregate_report_adds_up_and_is_exported() {
    let home = Seckill::new();
    let id = create(&home, "20", &[]);
    let file = home.file("rush.csv");
    let csv = file.to_str().unwrap();
    let rush = ["rush", "--voucher", &id, "--users", "60", "--repeat", "0.5", "--csv", csv];
    let report = home.json(&rush);
    let lines = report["aggregate"].as_array().unwrap();
    let samples = |label: &str| {
        let line = lines.iter().find(|line| line["label"] == label)?;
        line["samples"].as_u64()
    };
    assert_eq!((samples("admitted"), samples("total")), (Some(20), Some(90)), "{report}");
    let parts = lines.iter().filter(|line| line["label"] != "total");
    assert_eq!(parts.filter_map(|line| line["samples"].as_u64()).sum::<u64>(), 90, "{report}");
    for line in lines {
        let figures = ["min", "median", "p90", "p95", "p99", "max"].map(|key| line[key].as_u64());
        assert!(figures.is_sorted() && line["error_percent"] == 0.0, "{line}");
    }
    let table = std::fs::read_to_string(&file).unwrap();
    assert_eq!(table.lines().count(), lines.len() + 1, "{table}");
    let nowhere = ["rush", "--voucher", &id, "--users", "1", "--csv", "/nowhere/x.csv"];
    let error = home.run(&nowhere).expect_code(2).stderr;
    assert!(error.contains("cannot write /nowhere/x.csv"), "{error}");
}

#[test]
fn orders_are_listed_in_pages_and_found_by_their_id() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let id = create(&home, "120", &["--limit", "2"]);
    let other = create(&home, "1", &[]);
    let rush = ["rush", "--voucher", &id, "--users", "60", "--repeat", "1", "--pay", "0.5"];
    let report = home.json(&rush);
    assert_eq!((&report["admitted"], &report["persisted"]), (&120.into(), &120.into()), "{report}");
    home.json(&["rush", "--voucher", &other, "--users", "1"]);

    let stream = &home.json(&["status"])["stream"];
    assert_eq!(stream["length"], 121, "all of them could be replayed: {stream}");
    assert!(stream["oldest_ms"].is_u64(), "{stream}");
    let output = home.run(&["status"]).expect_code(0).stdout;
    assert!(output.contains("121 entries kept, the oldest "), "{output}");
    let (all, read) = pages(&home, &[]);
    assert_eq!((all.len(), read), (121, 3));
    let ids: Vec<u64> =
        all.iter().map(|order| order["id"].as_str().unwrap().parse().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "newest first, none twice");
    assert_eq!(pages(&home, &["--voucher", &id]).0.len(), 120);
    let paid = pages(&home, &["--voucher", &id, "--status", "paid"]).0;
    assert_eq!(paid.len() as u64, report["paid"].as_u64().unwrap());
    let user = paid[0]["user_id"].to_string();
    assert_eq!(pages(&home, &["--voucher", &id, "--user", &user]).0.len(), 2);
    assert_eq!(pages(&home, &["--from", "-1h", "--to", "+1h"]).0.len(), 121);
    for nothing in [["--from", "+1h"], ["--to", "-1h"], ["--user", "999999999"]] {
        let page = home.run(&[&["orders", "list", "--json"], &nothing[..]].concat());
        let page = page.expect_code(0).json();
        assert_eq!((&page["orders"], &page["next"]), (&serde_json::json!([]), &Value::Null));
    }
    let output = home.run(&["orders", "list", "--limit", "1"]).expect_code(0).stdout;
    assert!(output.contains(&format!("--before {}", ids[0])), "{output}");

    let list = |args: &[&str]| home.run(&[&["orders", "list"], args].concat());
    refused(list(&["--from", "+2h", "--to", "+1h"]), 2, "swap the two times");
    refused(list(&["--from", "2021-12-31T23:59:59Z"]), 2, "from 2022 to 2090");
    refused(list(&["--to", "2091-01-01T00:00:00Z"]), 2, "from 2022 to 2090");
    refused(list(&["--from", "yesterday"]), 2, "is not a time");
    refused(list(&["--status", "refunded"]), 2, "not an order status");
    refused(list(&["--before", "banana"]), 2, "not an order ID");
    refused(list(&["--user", "-1"]), 2, "non-negative integer");
    refused(list(&["--voucher", "x"]), 2, "not a voucher ID");

    let second = all.iter().find(|order| order["place"] == 2 && order["status"] == "paid").unwrap();
    let number = second["id"].as_str().unwrap();
    let output = home.run(&["orders", "show", number]).expect_code(0).stdout;
    assert!(output.contains("paid 20") && output.contains("place 2 of the buyer"), "{output}");
    let shown = home.json(&["orders", "show", number]);
    assert_eq!((&shown["result"], &shown["order"]), (&"persisted".into(), second), "{shown}");
    // An ID that was never issued is decoded as well.
    let ran = home.run(&["orders", "show", "627150921728720897", "--json"]).expect_code(1);
    let (unknown, decoded) = (ran.json(), &ran.json()["decoded"]);
    assert_eq!(unknown["result"], "unknown");
    assert_eq!(
        (&decoded["sequence"], &decoded["day"]),
        (&3_325_231_105_u64.into(), &"2026-08-18".into())
    );
    let output = home.run(&["orders", "show", "99"]).expect_code(1).stdout;
    assert!(output.contains("unknown:") && output.contains("number 99 of 2022-01-01"), "{output}");
    drop(worker);
}

#[test]
fn vouchers_of_both_kinds_are_created_and_listed() {
    let home = Seckill::new();
    assert_eq!(home.json(&["voucher", "list"])["vouchers"], serde_json::json!([]));
    let made = home.json(&["voucher", "create", "--title", " 代金券 ", "--reason", "a gift"]);
    let sale = create(&home, "5", &[]);
    let first = home.json(&["voucher", "list", "--limit", "1"]);
    assert_eq!(first["vouchers"][0]["title"], "代金券");
    assert_eq!(first["vouchers"][0]["kind"], "ordinary");
    assert_eq!(
        (&first["vouchers"][0]["voucher_id"], &first["next"]),
        (&made["voucher_id"], &made["voucher_id"])
    );
    let after = made["voucher_id"].to_string();
    let rest = home.json(&["voucher", "list", "--after", &after]);
    assert_eq!((&rest["vouchers"][0]["kind"], &rest["next"]), (&"sale".into(), &Value::Null));
    assert_eq!(rest["vouchers"][0]["voucher_id"].to_string(), sale);
    let all = ["voucher", "create", "--title", "tea", "--shop", "3", "--sub-title", "weekdays"];
    let rest = ["--rules", "one a table\nno cash", "--pay-value", "8,000", "--actual-value"];
    let made = home.json(&[&all[..], &rest, &["10000", "--status", "off"]].concat());
    let listed = home.json(&["voucher", "list", "--after", &sale]);
    let kept = serde_json::json!({
        "voucher_id": made["voucher_id"], "kind": "ordinary", "title": "tea", "shop_id": 3,
        "sub_title": "weekdays", "rules": "one a table\nno cash", "pay_value": 8_000,
        "actual_value": 10_000, "status": "off",
    });
    assert_eq!(listed["vouchers"], serde_json::json!([kept]));
    let output = home.run(&["voucher", "list"]).expect_code(0).stdout;
    for part in ["off", "80.00", "100.00", "    weekdays\n    one a table\n    no cash\n"] {
        assert!(output.contains(part), "'{part}' is not in: {output}");
    }
    for (flag, value, why) in [
        ("--sub-title", " ", "the subtitle must"),
        ("--rules", "", "the rules must"),
        ("--status", "sold", "'sold' is not a voucher status"),
        ("--pay-value", "-1", "non-negative integer"),
    ] {
        refused(home.run(&["voucher", "create", "--title", "t", flag, value]), 2, why);
    }
    refused(home.run(&["voucher", "create", "--title", " "]), 2, "the title is empty");
    refused(home.run(&["--read-only", "voucher", "create", "--title", "t"]), 2, "read-only");
    refused(home.run(&["sale", "show", &after]), 1, "no sale");
    // Redis need not answer for it.
    let away = home.run(&["--redis", "redis://127.0.0.1:1", "voucher", "list", "--json"]);
    assert_eq!(away.expect_code(0).json()["vouchers"].as_array().map(Vec::len), Some(3));
}

#[test]
fn an_ordinary_voucher_has_no_purchase_limit() {
    let home = Seckill::new();
    let voucher = |more: &[&str]| {
        let made = home.json(&[&["voucher", "create", "--title", "tea"], more].concat());
        made["voucher_id"].to_string()
    };
    let (tea, sale, off) = (voucher(&[]), create(&home, "5", &[]), voucher(&["--status", "off"]));
    let buy = |id: &str| home.json(&["voucher", "buy", id, "--user", "7"])["order_id"].to_string();
    let orders = [buy(&tea), buy(&tea), buy(&tea)];
    let listed = home.json(&["orders", "list", "--user", "7"]);
    let ids: Vec<String> = listed["orders"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|order| order["id"].to_string())
        .collect();
    assert_eq!(ids, orders);
    let newest = &listed["orders"][0];
    assert_eq!((&newest["status"], &newest["place"]), (&"unpaid".into(), &Value::Null));
    let output = home.run(&["orders", "show", orders[0].trim_matches('"')]).expect_code(0).stdout;
    assert!(output.contains(&format!("ordinary voucher #{tea}")), "{output}");
    home.json(&["orders", "pay", orders[0].trim_matches('"')]);
    for (id, output) in [(&*sale, "flash sale"), (&*off, "status off"), ("42", "no voucher 42")] {
        refused(home.run(&["voucher", "buy", id, "--user", "7"]), 1, output);
    }
    refused(home.run(&["--read-only", "voucher", "buy", &tea, "--user", "7"]), 2, "read-only");
    refused(home.run(&["voucher", "buy", &tea]), 2, "--user");
    home.run(&["audit"]).expect_code(0);
}

/// Operators name a sale, and read that name whichever of its shards is meant.
#[test]
fn a_sale_over_shards_has_one_id() {
    let (home, server, keys) = (Seckill::new(), TestRedis::start(), Layout::new(4, false));
    let spawn = |args: &[&str]| home.spawn(&[&["--redis", server.url().as_str()], args].concat());
    let run = |args: &[&str]| -> Ran { spawn(args).wait(PATIENCE) };
    let json = |args: &[&str]| run(&[args, &["--json"]].concat()).expect_code(0).json();
    let worker = spawn(&["work", "--partitions", "4"]);
    wait_until_blocking(PATIENCE, "the worker has its groups", || {
        json(&["status"])["stream"]["group"] == true
    });
    let create = ["sale", "create", "--title", "tea", "--stock", "40", "--shards", "4"];
    let id = json(&create)["voucher_id"].to_string();
    let number: u64 = id.parse().unwrap();
    let (shard, sale) = (ShardId { sale: SaleId(number), number: 2 }, format!("#{id}"));
    assert_eq!(json(&["rush", "--voucher", &id, "--users", "30"])["persisted"], 30);
    drop(worker);

    let listed = json(&["orders", "list", "--voucher", &id]);
    let orders = listed["orders"].as_array().unwrap();
    assert_eq!(orders.len(), 30);
    assert!(orders.iter().all(|it| it["voucher_id"] == number), "{listed}");
    assert_eq!(json(&["orders", "list"]), listed);
    let order = orders[0]["id"].as_str().unwrap();
    assert_eq!(json(&["orders", "show", order])["order"]["voucher_id"], number);
    let shown = run(&["sale", "show", &id]).expect_code(0).stdout;
    assert!(shown.contains(&format!("#{shard}")), "{shown}");
    let next = (number + 1).to_string();
    refused(run(&["sale", "show", &next]), 1, "there is no sale");

    let audit = json(&["audit"])["sales"].take();
    let [whole] = audit.as_array().unwrap().as_slice() else { panic!("{audit}") };
    assert_eq!((&whole["voucher_id"], whole.get("shard")), (&number.into(), None), "{audit}");
    assert_eq!((&whole["initial"], &whole["admitted"]), (&40.into(), &30.into()), "{audit}");
    let of = |it: &Value| (it["voucher_id"].as_u64().unwrap(), it["shard"].as_u64().unwrap());
    let shards = whole["shards"].as_array().unwrap();
    assert!(shards.iter().map(of).eq((1..=4).map(|nth| (number, nth))), "{audit}");
    assert_eq!(json(&["audit", "--voucher", &id])["sales"], audit);

    let mut redis = server.connection();
    let of = keys.partition_of(shard);
    let mut add = cmd("XADD");
    add.arg(of.orders()).arg("*").arg("userId").arg(9_999).arg("voucherId").arg(number);
    add.arg("shard").arg(2).arg("id").arg("627150921728720897").exec(&mut redis).unwrap();
    let mut take = cmd("XREADGROUP");
    take.arg("GROUP").arg(of.group()).arg("node-b/1").arg("STREAMS").arg(of.orders()).arg(">");
    take.exec(&mut redis).unwrap();
    let mut bury = cmd("XADD");
    bury.arg(of.dead()).arg("*").arg("reason").arg("by hand").arg("body:userId").arg(9_998);
    bury.arg("body:voucherId").arg(number).arg("body:id").arg("627150921728720898");
    bury.exec(&mut redis).unwrap();
    let filter = format!("voucher={id}");
    for (command, list) in [("pending", "entries"), ("dead", "letters")] {
        let found = json(&[command, "list", "--filter", &filter]);
        assert_eq!(found[list][0]["voucher_id"], number, "{found}");
        assert_eq!(found[list].as_array().map(Vec::len), Some(1));
    }
    assert_eq!(json(&["pending", "plan"])["entries"][0]["voucher_id"], number);
    let report = run(&["incident"]).expect_code(0).stdout;
    let row = |order: &str| report.lines().find(|line| line.contains(order)).unwrap().to_owned();
    for order in ["627150921728720897", "627150921728720898"] {
        assert!(row(order).contains(&format!("| \\{sale} |")), "{}", row(order));
    }

    cmd("INCR").arg(keys.stock(shard)).exec(&mut redis).unwrap();
    let finding = format!("{sale}.2: Redis: initial");
    for command in ["audit", "status"] {
        let output = run(&[command]).expect_code(1).stdout;
        assert!(output.contains(&finding), "'{finding}' is not in: {output}");
    }
    cmd("DECR").arg(keys.stock(shard)).exec(&mut redis).unwrap();
    run(&["sale", "end", &id, "--yes"]).expect_code(0);
    for args in [
        &["restock", &*id, "1"][..],
        &["restock", &id, "-1"],
        &["restock", &id, "-39"],
        &["resume", &id],
    ] {
        let ended = format!("the sale of voucher {id} has ended");
        refused(run(&[&["sale"], args].concat()), 1, &ended);
    }
}
