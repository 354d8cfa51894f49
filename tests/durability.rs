//! What survives what, and what `doctor` says of it: with the real program and servers of each kind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod support;

use sqlx::{Connection as _, Executor as _, SqliteConnection};
use support::{PATIENCE, Seckill, TestCluster, TestRedis, TestSentinels, wait_until_blocking};

/// A database that comes back without its last commits: Redis still knows who was promised what.
#[test]
fn a_database_that_lost_its_last_commits_is_told_and_mended() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    let create = ["sale", "create", "--title", "t", "--stock", "50", "--json"];
    let id = home.run(&create).expect_code(0).json()["voucher_id"].to_string();
    home.run(&["rush", "--voucher", &id, "--users", "60"]).expect_code(0);
    let ids = |code| -> Vec<String> {
        let listed = home.run(&["orders", "list", "--json"]).expect_code(code).json();
        let orders = listed["orders"].as_array().unwrap().clone();
        orders.iter().map(|order| order["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = ids(0);
    assert_eq!(before.len(), 50);
    let url = format!("sqlite:{}", home.data_dir().join("seckill.db").display());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        for sql in [
            "DELETE FROM tb_voucher_order WHERE id IN (SELECT id FROM tb_voucher_order ORDER BY id DESC LIMIT 20)",
            "UPDATE tb_seckill_voucher SET stock = stock + 20",
        ] {
            conn.execute(sql).await.unwrap();
        }
    });
    let audit = home.run(&["audit", "--json"]).expect_code(1).json();
    let findings = audit["sales"][0]["findings"].to_string();
    assert!(findings.contains("20 admitted orders are neither in SQL"), "{audit}");
    home.run(&["audit", "--repair", "--yes"]);
    wait_until_blocking(PATIENCE, "the books balance", || home.run(&["audit"]).code() == 0);
    wait_until_blocking(PATIENCE, "every order is back under its id", || ids(0) == before);
    drop(worker);
}

#[test]
fn doctor_tells_the_line_of_the_table() {
    let home = Seckill::new();
    let own = home.run(&["doctor", "--json"]).expect_code(0).json();
    let costs = &own["may_cost"];
    assert_eq!(
        (&costs["node_killed"], &costs["database_power_loss"]),
        (&"nothing".into(), &"nothing".into()),
        "{own}"
    );
    for (event, words) in [
        ("redis_killed", "nothing while the nodes live"),
        ("both_killed", "last two seconds"),
        ("redis_power_loss", "last two seconds"),
        ("failover", "nobody takes over"),
    ] {
        assert!(costs[event].as_str().unwrap().contains(words), "{event}: {own}");
    }
    let words = home.run(&["doctor"]).expect_code(0).stdout;
    assert!(words.contains("kill -9 of Redis  nothing while the nodes live"), "{words}");

    let bare = TestRedis::start();
    let _: String = bare.query(&["CONFIG", "SET", "appendonly", "no"]);
    let told = home.run(&["--redis", &bare.url(), "doctor", "--json"]).expect_code(1).json();
    let cost = told["may_cost"]["both_killed"].as_str().unwrap();
    assert_eq!(cost, "every admission that SQL does not hold yet", "{told}");

    let config = home.file("config.toml");
    std::fs::write(&config, "[engine]\nwait_replicas = 1\n").unwrap();
    let told = home.run(&["--config", config.to_str().unwrap(), "doctor"]).expect_code(1).stdout;
    assert!(told.contains("0 connected, 1 have to confirm"), "{told}");
}

#[test]
fn doctor_knows_who_takes_over() {
    let (cluster, trio) = (TestCluster::start(), TestSentinels::start());
    for url in [cluster.url(), trio.url()] {
        let home = Seckill::new();
        let doctor = |more: &[&str]| {
            home.run(&[&["--redis", &url, "--partitions", "4", "doctor", "--json"], more].concat())
        };
        // Whether these servers write to disk is another matter.
        let told = doctor(&[]).json();
        let cost = told["may_cost"]["failover"].as_str().unwrap();
        assert!(cost.contains("had not sent"), "{told}");
        let config = home.file("config.toml");
        std::fs::write(&config, "[engine]\nwait_replicas = 1\n").unwrap();
        let told = doctor(&["--config", config.to_str().unwrap()]).json();
        let cost = told["may_cost"]["failover"].as_str().unwrap();
        assert!(cost.contains("confirmed it"), "{told}");
        let checks = told["checks"].as_array().unwrap();
        let replicas = checks.iter().find(|check| check["name"] == "replicas").unwrap();
        assert_eq!(replicas["grade"], "good", "{replicas}");
    }
}
