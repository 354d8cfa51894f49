//! Untrusted text and numbers in the output of the real program.

use crate::support::{PATIENCE, Seckill, TestRedis, wait_until_blocking};
use redis::cmd;
use seckill_redis::Layout;
use serde_json::Value;
use sqlx::Connection as _;

/// Every control character that JSON need not escape.
fn steering() -> String {
    ('\u{7f}'..='\u{9f}')
        .chain(['\u{61c}', '\u{200e}', '\u{200f}'])
        .chain('\u{202a}'..='\u{202e}')
        .chain('\u{2066}'..='\u{2069}')
        .collect()
}

#[test]
fn json_escapes_control_characters_and_keeps_its_values() {
    let home = Seckill::new();
    let _worker = home.spawn(&["work"]);
    home.run(&["sale", "create", "--title", "tea", "--stock", "7"]).expect_code(0);
    let foreign = format!("火锅{}end", steering());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", home.data_dir().join("seckill.db").display());
        let mut sql = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::query("UPDATE tb_voucher SET title = ?")
            .bind(&foreign)
            .execute(&mut sql)
            .await
            .unwrap();
    });
    let mut redis = home.redis().unwrap();
    wait_until_blocking(PATIENCE, "the copy in Redis has that title", || {
        let title = cmd("HGET").arg("seckill:{p0}:sale:1").arg("title").query(&mut redis);
        title.is_ok_and(|it: String| it == foreign)
    });
    cmd("XADD")
        .arg("seckill:{p0}:orders")
        .arg("*")
        .arg("nonsense")
        .arg(&foreign)
        .exec(&mut redis)
        .unwrap();
    let json = |args: &[&str]| -> Value {
        let ran = home.run(&[args, &["--json"]].concat()).expect_code(0);
        let raw: Vec<char> = ran.stdout.chars().filter(|c| steering().contains(*c)).collect();
        assert!(raw.is_empty(), "{args:?}: {raw:?}");
        ran.json()
    };
    wait_until_blocking(PATIENCE, "it is given up", || json(&["dead", "list"])["total"] == 1);
    let listed = json(&["dead", "list"]);
    let letter = listed["letters"][0]["letter"].as_str().unwrap();
    // Invalid bytes of an entry are shown as replacement characters.
    assert!(holds(&json(&["dead", "show", letter]), "火锅····"));
    for args in [&["sale", "list"][..], &["sale", "show", "1"], &["voucher", "list"], &["status"]] {
        let result = json(args);
        assert!(holds(&result, &foreign), "{args:?}: {result}");
    }
}

/// Whether a document contains a text.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(all) => all.iter().any(|it| holds(it, text)),
        Value::Object(all) => all.values().any(|it| holds(it, text)),
        _ => false,
    }
}

#[test]
fn numbers_are_grouped_and_one_is_singular() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "70001"]).expect_code(0);
    let rush = home.run(&["rush", "--voucher", "1", "--users", "1"]).expect_code(0).stdout;
    assert!(rush.starts_with("1 request, "), "{rush}");
    for args in [&["status"][..], &["sale", "list"]] {
        let output = home.run(args).expect_code(0).stdout;
        let line = output.lines().find(|line| line.contains("tea")).unwrap();
        assert!(line.contains(" 70,000  "), "{output}");
        assert!(line.contains(" 70,001  ") && !line.contains("70000"), "{output}");
    }
}

/// A name or text of another program with a line that looks like one of ours.
const HOSTILE: &str = "ice\nFORGED 1-0 \r\u{1b}[2K\u{202e}end";

#[test]
fn foreign_text_never_starts_a_line_of_its_own() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let run = |args: &[&str]| home.run(&[&["--redis", server.url().as_str()], args].concat());
    run(&["sale", "create", "--title", "tea", "--stock", "7", "--reason", HOSTILE]).expect_code(0);
    run(&["rush", "--voucher", "1", "--users", "2"]).expect_code(0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", home.data_dir().join("seckill.db").display());
        let mut sql = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let title = "UPDATE tb_voucher SET title = ?";
        sqlx::query(title).bind(HOSTILE).execute(&mut sql).await.unwrap();
        let drift = "UPDATE tb_seckill_voucher SET stock = 1";
        sqlx::query(drift).execute(&mut sql).await.unwrap();
    });
    let keys = Layout::new(1, false);
    let (of, lock) = (keys.partition(0), keys.lock(HOSTILE));
    let add = ["XADD", &of.orders(), "*", HOSTILE, HOSTILE];
    server.query::<String>(&add);
    let read =
        ["XREADGROUP", "GROUP", of.group(), HOSTILE, "COUNT", "1", "STREAMS", &of.orders(), ">"];
    server.query::<redis::Value>(&read);
    server.query::<u64>(&["HSET", &lock, &format!("{HOSTILE}/x:1"), "1"]);
    server.query::<u64>(&["ZADD", &keys.locks(), "+inf", HOSTILE]);
    let mut escaped = 0;
    for args in [
        &["status"][..],
        &["pending", "list"],
        &["pending", "plan"],
        &["stream", "show"],
        &["sale", "list"],
        &["sale", "show", "1"],
        &["voucher", "list"],
        &["locks", "list"],
        &["jobs", "list"],
        &["activity"],
        &["dead", "list"],
        &["audit"],
        &["doctor"],
        &["orders", "list"],
        &["incident"],
    ] {
        let output = run(args);
        let text = format!("{}{}", output.stdout, output.stderr);
        let forged = text.lines().find(|line| line.trim_start().starts_with("FORGED"));
        assert_eq!(forged, None, "{args:?}:\n{text}");
        let raw: Vec<char> = text.chars().filter(|c| "\r\u{1b}\u{202e}".contains(*c)).collect();
        assert!(raw.is_empty(), "{args:?}: {raw:?}");
        escaped += text.matches("nFORGED").count();
    }
    assert!(escaped >= 6, "the foreign text is shown: {escaped}");
}
