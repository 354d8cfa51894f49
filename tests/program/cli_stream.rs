//! The commands for the order stream and its group, with the real program.

use crate::support::{Background, PATIENCE, Ran, Seckill, TestRedis, refused, wait_until_blocking};
use rustix::process::Signal;
use seckill_redis::Layout;
use serde_json::Value;

/// A data directory with a Redis that keeps running without a node.
struct Shop {
    home: Seckill,
    redis: TestRedis,
}

impl Shop {
    fn spawn(&self, args: &[&str]) -> Background {
        self.home.spawn(&[&["--redis", self.redis.url().as_str()], args].concat())
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.spawn(args).wait(PATIENCE)
    }
}

#[track_caller]
fn json(home: &Shop, args: &[&str]) -> Value {
    home.run(&[args, &["--json"]].concat()).expect_code(0).json()
}

/// A sale of 200 pieces, all sold and written, and no node.
fn sold_out() -> Shop {
    let home = Shop { home: Seckill::new(), redis: TestRedis::start() };
    let args = ["sale", "create", "--title", "t", "--stock", "200"];
    let id = json(&home, &args)["voucher_id"].to_string();
    let report = json(&home, &["rush", "--voucher", &id, "--users", "200"]);
    assert_eq!(report["persisted"], 200, "{report}");
    home
}

fn shown(home: &Shop) -> Value {
    json(home, &["stream", "show"])["partitions"][0].take()
}

fn works(home: &Shop) -> Background {
    // It never claims entries, however long the other commands take.
    let config = home.home.file("config.toml");
    std::fs::write(&config, "[engine]\nclaim_idle_ms = 600000\n").unwrap();
    let worker = home.spawn(&["work", "--config", config.to_str().unwrap()]);
    wait_until_blocking(PATIENCE, "a consumer is alive", || alive(home).is_some());
    worker
}

fn alive(home: &Shop) -> Option<String> {
    let shown = shown(home);
    let all = shown["group"]["consumers"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["alive"] == true)?;
    Some(one["name"].as_str()?.to_owned())
}

fn settles(home: &Shop) {
    wait_until_blocking(PATIENCE, "every entry has settled", || {
        let group = shown(home)["group"].take();
        group["lag"] == 0 && group["pending"] == 0
    });
    let audit = json(home, &["audit"]);
    assert_eq!((&audit["balanced"], &audit["sales"][0]["persisted"]), (&true.into(), &200.into()));
}

fn ends(worker: Background) {
    worker.signal(Signal::TERM);
    worker.wait(PATIENCE).expect_code(0);
}

#[test]
fn a_rewind_is_previewed_confirmed_and_executed() {
    let home = sold_out();
    let stream = shown(&home);
    let (first, last) = (stream["first"].clone(), stream["last"].clone());
    assert_eq!((&stream["length"], &stream["added"]), (&200.into(), &200.into()), "{stream}");
    assert!(stream["oldest_ms"].is_u64() && stream["dead"] == 0, "{stream}");
    let group = &stream["group"];
    assert_eq!((&group["name"], &group["last_delivered"]), (&"g1".into(), &last), "{stream}");
    assert_eq!((&group["lag"], &group["pending"]), (&0.into(), &0.into()), "{stream}");
    assert_eq!((&group["entries_read"], &group["oldest_pending"]), (&200.into(), &Value::Null));

    let dry = json(&home, &["stream", "rewind", "--to", "start", "--dry-run"]);
    assert_eq!((&dry["done"], &dry["plan"][0]["from"]), (&Value::Null, &first), "{dry}");
    let plan = &dry["plan"][0];
    for (key, value) in [("again", 200), ("written", 200), ("missing", 0), ("pending", 0)] {
        assert_eq!(plan[key], value, "{key} of {plan}");
    }
    let output =
        home.run(&["stream", "rewind", "--to", "start", "--dry-run"]).expect_code(0).stdout;
    for part in ["200  entries redelivered", "200  of them in SQL: acknowledged", "a dry run"] {
        assert!(output.contains(part), "'{part}' is not in: {output}");
    }
    let ran = home.run(&["stream", "rewind", "--to", "start", "--json"]);
    refused(ran, 2, "Redeliver 200 entries? 200 are in SQL and are acknowledged, 0 are written");
    let (id, first) = (last.as_str().unwrap(), first.as_str().unwrap());
    refused(
        home.run(&["stream", "rewind", "--to", &format!("{id}@1")]),
        2,
        "partition 1 does not exist",
    );
    let both = ["stream", "rewind", "--partition", "1", "--to", &format!("{id}@2")];
    refused(home.run(&both), 2, "partition 1 does not exist");
    for bad in ["end", "yesterday", "1-2-3", ""] {
        refused(
            home.run(&["stream", "rewind", "--to", bad]),
            2,
            "is not a position in the stream; write start, an entry ID",
        );
    }
    refused(home.run(&["stream", "rewind", "--to", "+1h"]), 1, "cannot move it forward");
    let watch = ["--read-only", "stream", "rewind", "--to", "start", "--yes"];
    refused(home.run(&watch), 2, "read-only");
    assert_eq!(shown(&home)["group"]["lag"], 0, "nothing was moved");

    let args = ["stream", "rewind", "--to", "-1h", "--yes", "--reason", "a test"];
    let done = json(&home, &args);
    assert_eq!(done["done"]["again"], 200, "{done}");
    assert_eq!(done["done"]["groups"][0]["from"], first, "{done}");
    assert_eq!(shown(&home)["group"]["lag"], 200);
    let worker = works(&home);
    settles(&home);
    ends(worker);

    let of = Layout::default().home();
    let (orders, group) = (of.orders(), of.group());
    let _: u64 = home.redis.query(&["XTRIM", &orders, "MAXLEN", "50"]);
    let oldest = shown(&home)["first"].as_str().unwrap().to_owned();
    let result = format!(
        "150 older entries were trimmed or deleted in partition 0 and cannot be redelivered; the earliest position is {oldest}"
    );
    refused(home.run(&["stream", "rewind", "--to", first]), 1, &result);
    let _: u64 = home.redis.query(&["XGROUP", "DESTROY", &orders, group]);
    let output = home.run(&["stream", "show"]).expect_code(0).stdout;
    assert!(output.contains("NO GROUP"), "{output}");
    let done = json(&home, &["stream", "rewind", "--to", "start", "--yes"]);
    assert_eq!(
        (&done["plan"][0]["group"], &done["plan"][0]["trimmed"]),
        (&false.into(), &150.into())
    );
    assert_eq!(done["done"]["groups"][0]["made"], true, "{done}");
    let worker = works(&home);
    settles(&home);
    ends(worker);
}

#[test]
fn entries_are_claimed_and_a_consumer_is_removed() {
    let home = sold_out();
    let of = Layout::default().home();
    json(&home, &["stream", "rewind", "--to", "start", "--yes"]);
    let read = ["XREADGROUP", "GROUP", of.group(), "node-b/1", "STREAMS", &of.orders(), ">"];
    let _: redis::Value = home.redis.query(&read);
    let worker = works(&home);
    let to = alive(&home).unwrap();

    refused(home.run(&["stream", "remove-consumer", "node-b/1", "--yes"]), 1, "holds 200 entries");
    refused(home.run(&["stream", "remove-consumer", &to, "--yes"]), 1, "is alive");
    refused(
        home.run(&["stream", "remove-consumer", "x/1", "--yes"]),
        1,
        "existing consumers: node-b/1",
    );
    refused(home.run(&["stream", "claim", "--to", &to]), 2, "required");
    let both = ["stream", "claim", "--to", &to, "--from", "node-b/1", "1-0"];
    refused(home.run(&both), 2, "cannot be used with");
    let claim = ["stream", "claim", "--from", "node-b/1", "--to"];
    refused(home.run(&[&claim[..], &["x/1"]].concat()), 1, "no consumer 'x/1' in partition 0");
    refused(
        home.run(&[&claim[..], &[to.as_str(), "--json"]].concat()),
        2,
        "Transfer 200 pending entries to",
    );
    let entry = shown(&home)["first"].as_str().unwrap().to_owned();
    let one = ["stream", "claim", "--to", &to, &entry, "--yes", "--reason", "a test"];
    let done = json(&home, &one);
    assert_eq!(
        (&done["claimed"], &done["gone"], &done["without_body"]),
        (&1.into(), &0.into(), &0.into())
    );
    let rest = [&claim[..], &[to.as_str(), "--yes"]].concat();
    assert_eq!(json(&home, &rest)["claimed"], 199);
    refused(home.run(&rest), 1, "holds no entries");
    // Long before they would be claimed as idle.
    settles(&home);
    let removed = json(&home, &["stream", "remove-consumer", "node-b/1", "--yes"]);
    assert_eq!((&removed["consumer"], &removed["partitions"][0]), (&"node-b/1".into(), &0.into()));
    refused(home.run(&["stream", "remove-consumer", "node-b/1", "--yes"]), 1, "no consumer");
    ends(worker);
}

/// Without a node, `audit --repair` repairs keys of another type as a node does, and `status` shows them.
#[test]
fn keys_that_another_program_has_overwritten_are_named_and_repaired_without_a_node() {
    let home = sold_out();
    let args = ["sale", "create", "--title", "u", "--stock", "9"];
    let id = json(&home, &args)["voucher_id"].to_string();
    let mut redis = redis::Client::open(home.redis.url()).unwrap().get_connection().unwrap();
    // Admitted, and recorded among the buyers only.
    crate::support::promise(&mut redis, &id, "7", "627150921728720897");
    for (name, kind, blind) in
        [("nodes", "zset", false), ("dead", "stream", true), ("orders", "stream", true)]
    {
        let key = format!("seckill:{{p0}}:{name}");
        redis::cmd("DEL").arg(&key).exec(&mut redis).unwrap();
        redis::cmd("RPUSH").arg(&key).arg("x").exec(&mut redis).unwrap();
        let finding = format!("the key '{key}' in Redis holds a list");
        let outcome = format!("! partition 0: {finding}");
        for command in ["audit", "status"] {
            let ran = home.run(&[command]).expect_code(1);
            assert!(ran.stdout.contains(&outcome), "{command}: {ran}");
            assert!(ran.stdout.contains("'seckill audit --repair'"), "{command}: {ran}");
            assert!(!ran.stdout.contains("RENAME"), "{command}: {ran}");
            let shown = home.run(&[command, "--json"]).expect_code(1).json();
            let first = shown["partitions"][0]["findings"][0].as_str().unwrap();
            assert!(first.starts_with(&finding), "{command}: {shown}");
            if blind && command == "status" {
                assert!(
                    ran.stdout.lines().any(|line| {
                        line.starts_with("audit ")
                            && line.contains(" unknown: the sales cannot be audited")
                    }),
                    "{ran}"
                );
                assert_eq!(shown["audit"]["state"], "unknown", "{shown}");
            }
        }
        let asked = home.run(&["audit", "--repair"]).expect_code(2);
        assert!(asked.stderr.contains("Repair 1 partition?"), "{asked}");
        assert!(asked.stdout.contains(&format!("\n  ! {finding}")), "{asked}");
        let repaired = home.run(&["audit", "--repair", "--yes"]).expect_code(0);
        assert!(repaired.stdout.contains("repair the partition"), "{repaired}");
        assert!(repaired.stdout.contains("1 partition fault repaired"), "{repaired}");
        assert!(!repaired.stdout.contains("asks for confirmation"), "{repaired}");
        let types = [key.clone(), format!("{key}:replaced")]
            .map(|key| redis::cmd("TYPE").arg(key).query::<String>(&mut redis).unwrap());
        // Empty keys do not exist.
        assert!(types[0] == kind || types[0] == "none" && name != "orders", "{types:?}");
        assert_eq!(types[1], "list");
        assert_eq!(json(&home, &["audit"])["balanced"], true);
        home.run(&["status"]).expect_code(0);
    }
    let worker = works(&home);
    wait_until_blocking(PATIENCE, "the order is written", || {
        let shown = home.run(&["orders", "show", "627150921728720897", "--json"]);
        shown.code() == 0 && shown.json()["result"] == "persisted"
    });
    worker.signal(Signal::TERM);
    worker.wait(PATIENCE).expect_code(0);
}
