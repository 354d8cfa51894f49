//! The activity log and the incident report, with the real program.

use std::fs;

use crate::support::{LONG, MariaDb, Ran, Seckill, TestRedis, key};
use redis::cmd;
use seckill_redis::Layout;
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

const WORD: &str = "a-hidden-word";

fn create(home: &Seckill, title: &str, more: &[&str]) -> String {
    let args = [more, &["sale", "create", "--title", title, "--stock", "20", "--json"]].concat();
    home.run(&args).expect_code(0).json()["voucher_id"].to_string()
}

/// An entry pending at an unknown node.
fn stick(server: &mut redis::Connection, voucher: &str, user: &str, order: &str) {
    let of = Layout::default().home();
    let _ = cmd("XGROUP")
        .arg(&["CREATE", &of.orders(), of.group(), "0", "MKSTREAM"])
        .query::<()>(server);
    let fields = ["*", "userId", user, "voucherId", voucher, "id", order];
    cmd("XADD").arg(of.orders()).arg(&fields).query::<String>(server).unwrap();
    crate::support::promise(server, voucher, user, order);
    let read = ["GROUP", of.group(), "node-gone/1", "COUNT", "10", "STREAMS", &of.orders(), ">"];
    cmd("XREADGROUP").arg(&read).query::<redis::Value>(server).unwrap();
}

/// A section of a bundle, by its heading.
fn part<'a>(markdown: &'a str, heading: &str) -> &'a str {
    let begin = markdown.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let rest = &markdown[begin + heading.len() + 2..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

fn lines(ran: &Ran) -> Vec<Value> {
    ran.json()["lines"].as_array().unwrap().clone()
}

const PARTS: [&str; 7] = [
    "## Timeline",
    "## Metrics",
    "## Job runs, newest first",
    "## Orders over time",
    "## Pending entries and their plan",
    "## Dead letters",
    "## Audit by order ID",
];

#[test]
fn a_bundle_is_complete_and_changes_nothing() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let id = create(&home, "a|b `锅`", &[]);
    home.run(&["rush", "--voucher", &id, "--users", "5", "--json"]).expect_code(0);
    home.run(&["sale", "pause", &id, "--reason", "a | pipe"]).expect_code(0);
    drop(worker);
    // A read-only console keeps the server running for the commands below.
    let console = home.pty(&["--read-only"], 80, 24, &[]);
    console.wait_for_text("Overview");
    stick(&mut home.redis().unwrap(), &id, "1234567", "627150921728720897");

    let log = || lines(&home.run(&["--read-only", "activity", "--json", "--limit", "1000"]));
    let before = log();
    let file = home.file("incident.md");
    let name = file.to_str().unwrap();
    let ran = home.run(&["--read-only", "incident", "--out", name, "--json"]).expect_code(0);
    let report = ran.json();
    assert_eq!((&report["file"], &report["markdown"]), (&name.into(), &Value::Null), "{report}");
    assert_eq!(report["away"], Value::Array(Vec::new()));
    let text = fs::read_to_string(&file).unwrap();
    for heading in PARTS {
        part(&text, heading);
    }
    assert!(part(&text, "## Timeline").contains("sale pause"), "{text}");
    assert!(text.contains("a \\| pipe") && text.contains("a\\|b \\`锅\\`"), "{text}");
    let plan = part(&text, "## Pending entries and their plan");
    assert!(plan.contains("| stuck | process | 1 |"), "{plan}");
    assert!(plan.contains("1xxxxx7") && !text.contains("1234567"), "{plan}");
    let orders = part(&text, "## Orders over time");
    assert!(orders.contains("####"), "{orders}");
    let proof = part(&text, "## Audit by order ID");
    assert!(proof.contains("checked by order ID"), "{proof}");
    assert!(!text.contains('\u{1b}') && text.ends_with('\n'));
    // Every row of a table has as many cells as its head.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    for table in text.split("\n\n").filter(|it| it.starts_with('|')) {
        let mut rows = table.lines();
        let head = cells(rows.next().unwrap());
        assert!(rows.all(|row| cells(row) == head), "{table}");
    }

    let again = home.run(&["incident", "--out", name]).expect_code(2);
    assert!(again.stderr.contains("--yes"), "{}", again.stderr);
    home.run(&["incident", "--out", name, "--yes", "--unmask"]).expect_code(0);
    assert!(fs::read_to_string(&file).unwrap().contains("1234567"));
    let printed = home.run(&["incident", "--since", "-5m"]).expect_code(0);
    assert!(printed.stdout.starts_with("# Incident, "), "{printed}");
    home.run(&["incident", "--since", "-1m", "--until", "-2m"]).expect_code(2);
    assert_eq!(log(), before, "nothing was written");
}

#[test]
fn the_log_is_paged_and_filtered_by_kind() {
    let home = Seckill::new();
    let none = home.run(&["activity"]).expect_code(0);
    assert!(none.stdout.contains("No log entries"), "{none}");
    let id = create(&home, "tea", &[]);
    home.run(&["sale", "pause", &id, "--reason", "w\u{1b}[31mhy"]).expect_code(0);
    home.run(&["sale", "resume", &id]).expect_code(0);
    let long = "x".repeat(100_000);
    let refused = home.run(&["sale", "pause", &id, "--reason", &long]).expect_code(2);
    assert!(refused.stderr.contains("shorten") && refused.stderr.len() < 400, "{refused}");

    let whole = home.run(&["activity", "--commands", "--json"]).expect_code(0);
    let actions: Vec<Value> = lines(&whole).iter().map(|line| line["action"].clone()).collect();
    assert_eq!(actions, ["sale create", "sale pause", "sale resume"], "{whole}");
    assert!(lines(&whole)[1]["before"]["stock"].is_i64(), "{whole}");
    home.run(&["activity", "--events"]).expect_code(0);
    home.run(&["activity", "--until", "-1h"]).expect_code(0);
    home.run(&["activity", "--commands", "--events"]).expect_code(2);

    let newest = home.run(&["activity", "--limit", "2", "--json"]).expect_code(0);
    let next = newest.json()["next"].as_str().unwrap().to_owned();
    assert_eq!(lines(&newest)[0]["action"], "sale pause");
    let older = home.run(&["activity", "--limit", "2", "--json", "--before", &next]);
    assert_eq!((lines(&older).len(), &older.json()["next"]), (1, &Value::Null), "{older}");
    let output = home.run(&["activity", "--since", "-1h"]).expect_code(0).stdout;
    assert!(output.contains("reason: w\\u{1b}[31mhy") && !output.contains('\u{1b}'), "{output}");
    // A pipe gets the complete output.
    let title = "t".repeat(60);
    create(&home, &title, &[]);
    let output = home.run(&["activity"]).expect_code(0).stdout;
    assert!(output.contains(&format!("'{title}', stock 20")) && !output.contains('…'), "{output}");
}

#[test]
fn a_command_that_cannot_be_logged_is_reported() {
    let home = Seckill::new();
    let id = create(&home, "tea", &[]);
    let rename = |from: &str, to: &str| {
        let url = format!("sqlite:{}", home.data_dir().join("seckill.db").display());
        let sql = sqlx::AssertSqlSafe(format!("ALTER TABLE {from} RENAME TO {to}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut other = SqliteConnection::connect(&url).await.unwrap();
            other.execute(sql).await.unwrap();
            other.close().await.unwrap();
        });
    };
    rename("tb_audit_log", "tb_taken_away");
    let ran = home.run(&["sale", "pause", &id]).expect_code(0);
    assert!(ran.stderr.contains("'seckill sale pause' succeeded"), "{ran}");
    let ran = home.run(&["sale", "pause", "99"]).expect_code(1);
    assert!(ran.stderr.contains("'seckill sale pause' failed: "), "{ran}");
    assert!(!ran.stderr.contains("succeeded"), "{ran}");
    rename("tb_taken_away", "tb_audit_log");
    let ran = home.run(&["sale", "resume", &id]).expect_code(0);
    assert!(ran.stderr.is_empty(), "{ran}");
}

#[test]
fn a_reason_is_requested_on_a_terminal() {
    let home = Seckill::new();
    let server = TestRedis::start();
    let url = server.url();
    let id = create(&home, "tea", &["--redis", &url]);
    stick(&mut server.connection(), &id, "7", "627150921728720897");
    let mut terminal = home.pty(&["--redis", &url, "pending", "apply"], 120, 24, &[]);
    terminal.wait_for_text("Reason for the audit log");
    terminal.send("node-gone died");
    terminal.send(key::ENTER);
    terminal.wait_for_text("[y/N]");
    terminal.send("y");
    terminal.send(key::ENTER);
    assert!(terminal.exit_status(LONG).success(), "{}", terminal.screen());
    let log = lines(&home.run(&["--redis", &url, "activity", "--commands", "--json"]));
    let last = log.last().unwrap();
    assert_eq!(
        (&last["action"], &last["reason"]),
        (&"pending apply".into(), &"node-gone died".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_contains_no_password_and_reports_unreachable_servers() {
    let home = Seckill::new();
    let mut server = TestRedis::setup().tcp().password(WORD).start();
    let mut database = MariaDb::start();
    let name = crate::support::new_name();
    database.run("", &format!("CREATE DATABASE {name}")).await;
    database.run("", &format!("CREATE USER op@'127.0.0.1' IDENTIFIED BY '{WORD}'")).await;
    database.run("", "GRANT ALL ON *.* TO op@'127.0.0.1'").await;
    let url = database.tcp_url_of(&name).replace("root@", &format!("op:{WORD}@"));
    let redis = server.url();
    assert!(redis.contains(WORD) && url.contains(WORD));
    let servers = ["--redis", &redis, "--database", &url];
    let id = create(&home, "tea", &servers);
    let run = |args: &[&str]| home.run(&[&servers[..], args].concat());
    run(&["sale", "pause", &id]).expect_code(0);
    stick(&mut server.connection(), &id, "1234567", "627150921728720897");
    let bundle = |code: i32, ran: Ran| {
        let ran = ran.expect_code(code);
        assert!(!ran.stdout.contains(WORD) && !ran.stderr.contains(WORD), "{ran}");
        for heading in PARTS {
            part(&ran.stdout, heading);
        }
        ran.stdout
    };
    let whole = bundle(0, run(&["incident"]));
    assert!(part(&whole, "## Pending entries and their plan").contains("stuck"), "{whole}");

    server.kill();
    let half = bundle(3, run(&["incident"]));
    assert!(part(&half, "## Timeline").contains("sale pause"), "{half}");
    assert!(part(&half, "## Audit by order ID").contains("Unknown"), "{half}");
    assert!(half.contains("redis: UNREACHABLE"), "{half}");
    server.restart();

    database.kill();
    stick(&mut server.connection(), &id, "1234567", "627150921728720898");
    let half = bundle(3, run(&["incident"]));
    assert!(part(&half, "## Timeline").contains("Unknown"), "{half}");
    let plan = part(&half, "## Pending entries and their plan");
    assert!(plan.contains("1xxxxx7") && plan.contains("No verdicts"), "{plan}");
    server.kill();
    let nothing = bundle(3, run(&["incident"]));
    assert!(part(&nothing, "## Dead letters").contains("Unknown"), "{nothing}");
}

#[test]
fn the_screen_reports_the_loss_and_the_return_of_redis() {
    let home = Seckill::new();
    let mut server = TestRedis::start();
    let url = server.url();
    let mut terminal = home.pty(&["--redis", &url], 120, 36, &[]);
    terminal.wait_for_text("No open alarms");
    server.kill();
    terminal.wait_for(LONG, "it is away", |screen| screen.contains("Redis is unreachable"));
    server.restart();
    terminal.wait_for(LONG, "it is back", |screen| screen.contains("is reachable again after"));
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
}

#[test]
fn without_sql_every_partition_is_read_from_redis() {
    let home = Seckill::new();
    let server = TestRedis::start();
    let url = server.url();
    let keys = Layout::new(2, false);
    for number in 0..2 {
        let of = keys.partition(number);
        let (orders, group) = (of.orders(), of.group().to_owned());
        let _: redis::Value = server.query(&["XGROUP", "CREATE", &orders, &group, "0", "MKSTREAM"]);
        let id = format!("62715092172872089{number}");
        let _: String =
            server.query(&["XADD", &orders, "*", "userId", "7", "voucherId", "7", "id", &id]);
        let _: redis::Value =
            server.query(&["XREADGROUP", "GROUP", &group, "gone/1", "STREAMS", &orders, ">"]);
    }
    let run = |args: &[&str]| {
        let servers = ["--redis", &url, "--database", "mysql://root@127.0.0.1:1/none"];
        home.run(&[&servers[..], args].concat()).expect_code(3)
    };
    let result = run(&["status", "--json"]).json();
    assert_eq!(result["stream"]["pending"], 2, "{result}");
    assert_eq!((&result["redis"]["up"], &result["sql"]["up"]), (&true.into(), &false.into()));
    let result = run(&["status"]).stdout;
    assert!(result.contains("pending 2") && result.contains("UNREACHABLE"), "{result}");
    assert!(
        result.contains("the database is unreachable: sales, orders, jobs and the log are unknown"),
        "{result}"
    );
    assert!(!result.contains("No sales yet"), "{result}");
    let result = run(&["incident"]).stdout;
    assert!(result.contains("| partitions | 2 |"), "{result}");
}
