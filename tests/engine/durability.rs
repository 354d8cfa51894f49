//! What survives what, and what `doctor` says of it: with the real program and servers of each kind.

use std::net::TcpListener;

use crate::support::{
    PATIENCE, Seckill, TestCluster, TestRedis, TestSentinels, refused, wait_until_blocking,
};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

/// A database that comes back without its last commits: Redis still knows who was promised what.
#[test]
fn a_database_that_lost_its_last_commits_is_reported_and_repaired() {
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
    wait_until_blocking(PATIENCE, "the audit passes", || home.run(&["audit"]).code() == 0);
    wait_until_blocking(PATIENCE, "every order is back under its id", || ids(0) == before);
    drop(worker);
}

#[test]
fn doctor_reports_the_durability_level() {
    let home = Seckill::new();
    let own = home.run(&["doctor", "--json"]).expect_code(0).json();
    let costs = &own["data_loss"];
    assert_eq!(
        (&costs["node_killed"], &costs["database_power_loss"]),
        (&"nothing".into(), &"nothing".into()),
        "{own}"
    );
    for (event, words) in [
        ("redis_killed", "nothing while the nodes live"),
        ("both_killed", "last two seconds"),
        ("redis_power_loss", "last two seconds"),
        ("failover", "no replica is promoted"),
    ] {
        assert!(costs[event].as_str().unwrap().contains(words), "{event}: {own}");
    }
    let words = home.run(&["doctor"]).expect_code(0).stdout;
    let shown = |line: &str| {
        line.contains("kill -9 of Redis ") && line.contains("nothing while the nodes live")
    };
    assert!(words.lines().any(shown), "{words}");

    let bare = TestRedis::start();
    let _: String = bare.query(&["CONFIG", "SET", "appendonly", "no"]);
    let result = home.run(&["--redis", &bare.url(), "doctor", "--json"]).expect_code(1).json();
    let cost = result["data_loss"]["both_killed"].as_str().unwrap();
    assert_eq!(cost, "every admission that is not in SQL yet", "{result}");

    let config = home.file("config.toml");
    std::fs::write(&config, "[engine]\nwait_replicas = 1\n").unwrap();
    let result = home.run(&["--config", config.to_str().unwrap(), "doctor"]).expect_code(1).stdout;
    assert!(result.contains("0 connected, 1 must confirm"), "{result}");
}

/// A user who may not read CONFIG, as with `rename-command` and on most services.
#[test]
fn doctor_reads_what_a_server_without_config_reports() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let _: String = server.query(&["CONFIG", "SET", "appendonly", "yes"]);
    let _: String = server.query(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    let _: String = server.query(&["ACL", "SETUSER", "default", "-config"]);
    let report = home.run(&["--redis", &server.url(), "doctor", "--json"]).expect_code(1).json();
    let check = |name: &str| {
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.find(|it| it["name"] == name).unwrap().clone()
    };
    let eviction = check("eviction");
    assert_eq!(
        (&eviction["grade"], &eviction["found"]),
        (&"problem".into(), &"volatile-lru".into()),
        "{report}"
    );
    let file = check("append-only file");
    assert_eq!(file["grade"], "note", "{report}");
    assert!(file["found"].as_str().unwrap().contains("unknown"), "{report}");
    // A URL of one server does not show whether something behind it promotes a replica.
    let cost = report["data_loss"]["failover"].as_str().unwrap();
    assert!(cost.starts_with("unknown: this URL names one server"), "{report}");
}

#[test]
fn doctor_names_the_replica_that_takes_over() {
    let (cluster, trio) = (TestCluster::start(), TestSentinels::start());
    for url in [cluster.url(), trio.url()] {
        let home = Seckill::new();
        let doctor = |more: &[&str]| {
            home.run(&[&["--redis", &url, "--partitions", "4", "doctor", "--json"], more].concat())
        };
        // Whether these servers write to disk is another matter.
        let result = doctor(&[]).json();
        let cost = result["data_loss"]["failover"].as_str().unwrap();
        assert!(cost.contains("had not replicated"), "{result}");
        let config = home.file("config.toml");
        std::fs::write(&config, "[engine]\nwait_replicas = 1\n").unwrap();
        let result = doctor(&["--config", config.to_str().unwrap()]).json();
        let cost = result["data_loss"]["failover"].as_str().unwrap();
        assert!(cost.contains("confirmed it"), "{result}");
        let checks = result["checks"].as_array().unwrap();
        let replicas = checks.iter().find(|check| check["name"] == "replicas").unwrap();
        assert_eq!(replicas["grade"], "ok", "{replicas}");
    }
}

/// With `wait_replicas`, buyers get no reply while too few replicas confirm, and none if Redis does not say.
#[test]
fn status_reports_replicas_that_do_not_confirm() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let config = home.file("config.toml");
    std::fs::write(&config, "[engine]\nwait_replicas = 1\n").unwrap();
    let url = server.url();
    let status = |more: &[&str]| {
        let all = ["--config", config.to_str().unwrap(), "--redis", &url, "status"];
        home.run(&[&all, more].concat())
    };
    let alone = status(&["--json"]).expect_code(1).json();
    let alarm = serde_json::json!({
        "urgency": "critical", "kind": { "alarm": "unconfirmed", "replicas": 0, "wanted": 1 }
    });
    assert_eq!(alone["alarms"], serde_json::json!([alarm]), "{alone}");
    let replica = server.replica();
    wait_until_blocking(PATIENCE, "it confirms", || status(&[]).code() == 0);
    let confirmed = status(&["--json"]).expect_code(0).json();
    assert!(confirmed["alarms"].as_array().unwrap().is_empty(), "{confirmed}");
    // It stays connected, and acknowledges nothing.
    replica.freeze();
    wait_until_blocking(PATIENCE, "the silence is noticed", || status(&[]).code() == 1);
    let shown = status(&[]).expect_code(1).stdout;
    assert!(shown.contains("only 0 of 1 replicas confirm orders"), "{shown}");
    replica.thaw();
    wait_until_blocking(PATIENCE, "it acknowledges again", || status(&[]).code() == 0);

    let _: () = server.query(&["ACL", "SETUSER", "default", "-wait"]);
    let refused = status(&[]).expect_code(1).stdout;
    assert!(refused.contains("NOPERM") && refused.contains("no buyer gets a reply"), "{refused}");
    let works = home.spawn(&["--config", config.to_str().unwrap(), "--redis", &url, "work"]);
    wait_until_blocking(PATIENCE, "the node records it", || {
        let lines = home.run(&["--redis", &url, "activity"]).stdout;
        lines.lines().any(|line| line.contains("raised") && line.contains("NOPERM"))
    });
    let _: () = server.query(&["ACL", "SETUSER", "default", "+wait"]);
    wait_until_blocking(PATIENCE, "and its end", || {
        let lines = home.run(&["--redis", &url, "activity"]).stdout;
        lines.lines().any(|line| line.contains("cleared") && line.contains("replicas"))
    });
    drop(works);
}

/// Each command that a script uses may be refused half-way; doctor tries all of them.
#[test]
fn doctor_finds_commands_without_permission() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let redis = ["--redis", &server.url(), "doctor", "--json"];
    let check = |result: &serde_json::Value, name: &str| {
        let checks = result["checks"].as_array().unwrap();
        checks.iter().find(|it| it["name"] == name).cloned().unwrap_or_default()
    };
    let result = home.run(&redis).expect_code(0).json();
    assert_eq!(check(&result, "commands")["grade"], "ok", "{result}");
    let left: Vec<String> = server.query(&["KEYS", "*doctor*"]);
    assert!(left.is_empty(), "{left:?}");

    let rules = ["ACL", "SETUSER", "shop", "on", ">pw", "~*", "&*", "+@all"];
    server.query::<()>(&rules);
    let denied = ["DECRBY", "HINCRBY", "HSET", "XADD", "TIME", "EVALSHA", "XGROUP CREATE"];
    let url = format!("unix://{}?user=shop&pass=pw", server.socket().display());
    for name in denied {
        let rule = format!("-{}", name.to_lowercase().replace(' ', "|"));
        server.query::<()>(&["ACL", "SETUSER", "shop", &rule]);
        let result = home.run(&["--redis", &url, "doctor", "--json"]).expect_code(1).json();
        let found = check(&result, "commands");
        assert!(
            found["grade"] == "problem" && found["found"].to_string().contains(name),
            "{name}: {result}"
        );
        let again = format!("+{}", name.to_lowercase().replace(' ', "|"));
        assert!(found["fix"].to_string().contains(&again), "{result}");
        server.query::<()>(&["ACL", "SETUSER", "shop", &again]);
    }
    // Each connection begins with INFO, so nothing else can be tried.
    server.query::<()>(&["ACL", "SETUSER", "shop", "-info"]);
    let result = home.run(&["--redis", &url, "doctor", "--json"]).json();
    assert_eq!(check(&result, "commands")["fix"].to_string().matches('+').count(), 1, "{result}");
    assert!(check(&result, "commands")["fix"].to_string().contains("+info"), "{result}");
}

/// No permission brings back a command that the server does not have.
#[test]
fn doctor_names_commands_that_were_renamed() {
    for name in ["EVALSHA", "HSET"] {
        let home = Seckill::new();
        let server = TestRedis::setup().args(&["--rename-command", name, "renamed"]).start();
        let ran = home.run(&["--redis", &server.url(), "doctor", "--json"]);
        let result = ran.json();
        let checks = result["checks"].as_array().unwrap();
        let found = checks.iter().find(|it| it["name"] == "commands").cloned().unwrap_or_default();
        let (seen, fix) = (found["found"].to_string(), found["fix"].to_string());
        assert!(seen.contains(name) && fix.contains("'rename-command'"), "{name}: {result}");
    }
    let server = TestRedis::setup().args(&["--rename-command", "INFO", "renamed"]).start();
    for args in [&["doctor"][..], &["sale", "list"]] {
        let ran = Seckill::new().run(&[&["--redis", &server.url()], args].concat());
        let shown = ran.stdout + &ran.stderr;
        assert!(shown.contains("INFO") && shown.contains("'rename-command'"), "{shown}");
    }
}

/// With the permissions in the README everything works, and each of them is needed.
#[test]
fn doctor_finds_keys_without_permission() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let rule = readme.lines().find_map(|it| it.trim().strip_prefix("ACL SETUSER shop ")).unwrap();
    let allow = |without: &str| {
        let rules = rule.replace("PASSWORD", "pw");
        let rules = rules.split(' ').filter(|it| *it != without);
        let set: Vec<&str> = ["ACL", "SETUSER", "shop", "reset"].into_iter().chain(rules).collect();
        server.query::<()>(&set);
    };
    let url = format!("unix://{}?user=shop&pass=pw", server.socket().display());
    let with = |args: &[&str]| home.run(&[&["--redis", &url], args].concat());
    allow("");
    with(&["doctor"]).expect_code(0);
    with(&["sale", "create", "--title", "tea", "--stock", "10"]).expect_code(0);
    with(&["rush", "--voucher", "1", "--users", "20"]).expect_code(0);
    let patterns: Vec<&str> = rule.split(' ').filter(|it| it.starts_with(['~', '&'])).collect();
    assert_eq!(patterns.len(), 7, "{rule}");
    for pattern in patterns {
        allow(pattern);
        let report = with(&["doctor", "--json"]).json();
        let checks = report["checks"].as_array().unwrap();
        let fix = checks.iter().find(|it| it["name"] == "commands").map(|it| it["fix"].to_string());
        assert!(fix.is_some_and(|it| it.contains(pattern)), "{pattern}: {report}");
    }
    // A family that may only be read.
    allow("~icr:*");
    server.query::<()>(&["ACL", "SETUSER", "shop", "%R~icr:*"]);
    let report = with(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().unwrap();
    let fix = checks.iter().find(|it| it["name"] == "commands").map(|it| it["fix"].to_string());
    assert!(fix.is_some_and(|it| it.contains("~icr:*") && !it.contains('+')), "{report}");
}

#[test]
fn a_redis_that_refuses_writes_is_reported_by_status_and_doctor() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let url = server.url();
    home.run(&["--redis", &url, "status"]).expect_code(0);
    server.query::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let result = home.run(&["--redis", &url, "status"]).expect_code(3).stdout;
    assert!(result.contains("REJECTS WRITES") && result.contains("raise maxmemory"), "{result}");
    let result = home.run(&["--redis", &url, "doctor"]).expect_code(3).stdout;
    assert!(result.contains("OOM") && result.contains("raise maxmemory"), "{result}");
    server.query::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    server.query::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    server.query::<()>(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
    let result = home.run(&["--redis", &url, "doctor"]).expect_code(3).stdout;
    assert!(result.contains("READONLY") && result.contains("it is a replica"), "{result}");
}

#[test]
fn a_lock_that_another_program_has_overwritten_is_listed() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    server.query::<()>(&["SET", "lock:job:close-overdue", "x"]);
    let result = home.run(&["--redis", &server.url(), "locks", "list"]).expect_code(1).stdout;
    assert!(result.contains("'lock:job:close-overdue' holds a string"), "{result}");
    // Of the index of all locks, nothing can be said; 'doctor' names it as well.
    server.query::<()>(&["DEL", "lock:job:close-overdue"]);
    server.query::<()>(&["SET", "locks", "x"]);
    let result = home.run(&["--redis", &server.url(), "locks", "list"]).expect_code(1).stdout;
    assert!(result.contains("'locks' holds a string"), "{result}");
    assert!(result.contains("holders are unknown") && !result.contains("No locks"), "{result}");
    let report = home.run(&["--redis", &server.url(), "doctor"]).expect_code(1).stdout;
    assert!(report.contains("the key 'locks' in Redis holds a string"), "{report}");
    assert!(report.contains("audit --repair"), "{report}");
    home.run(&["--redis", &server.url(), "audit", "--repair", "--yes"]).expect_code(0);
    let result = home.run(&["--redis", &server.url(), "locks", "list"]).expect_code(0).stdout;
    assert!(result.contains("No locks are held."), "{result}");
}

/// What a server replies while a connection is opened is no outage: the URL is wrong.
#[test]
fn a_url_that_does_not_fit_its_server_is_named_with_what_fits() {
    let (home, server) = (Seckill::new(), TestRedis::setup().tcp().start());
    let url = server.url();
    let list = |url: &str| home.run(&["--redis", url, "locks", "list"]);
    refused(list(&format!("{url}/99")), 2, "DB index is out of range");
    refused(list(&url.replace("redis://", "rediss://")), 3, "needs a redis:// URL");
    server.query::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    refused(list(&url), 3, "put the user and password into the URL");
    let wrong = list(&url.replace("redis://", "redis://:wrong@"));
    refused(wrong, 3, "check the user and password in the URL");
    // One that hangs up on what is no handshake, as a server with TLS does.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hang_up = std::thread::spawn(move || drop(listener.accept()));
    refused(list(&format!("redis://{address}")), 3, "needs a rediss:// URL");
    hang_up.join().unwrap();
}

/// Without a node, the repair of an operator does what a node would.
#[test]
fn a_partition_is_repaired_by_the_audit() {
    let (home, server) = (Seckill::new(), TestRedis::start());
    let url = server.url();
    let run = |args: &[&str]| home.run(&[&["--redis", &url], args].concat());
    run(&["sale", "create", "--title", "t", "--stock", "20"]).expect_code(0);
    run(&["rush", "--voucher", "1", "--users", "10"]).expect_code(0);
    let last = "18446744073709551615-18446744073709551615";
    let add = ["XADD", "seckill:{p0}:orders", last, "userId", "7", "voucherId", "1", "id", "9"];
    server.query::<()>(&add);
    let result = run(&["audit", "--json"]).expect_code(1).json();
    assert_eq!(result["balanced"], false, "{result}");
    assert!(result["partitions"][0]["findings"][0].to_string().contains("future"), "{result}");
    let result = run(&["audit", "--repair", "--yes"]).expect_code(0).stdout;
    assert!(result.contains("1 partition fault repaired"), "{result}");
    let result = run(&["activity"]).expect_code(0).stdout;
    assert!(result.contains("partition repaired"), "{result}");
    run(&["rush", "--voucher", "1", "--users", "20", "--seed", "2"]).expect_code(0);
}
