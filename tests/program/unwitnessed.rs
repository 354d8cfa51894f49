//! Redis restarts while no node lives that remembers what it admitted.

use rustix::process::Signal;
use seckill_model::{Millis, OrderId};
use serde_json::Value;
use sqlx::Connection as _;

use crate::support::{Background, PATIENCE, Seckill, TestRedis, wait_until_blocking};

struct Shop {
    home: Seckill,
    redis: TestRedis,
}

impl Shop {
    /// A sale with orders, on a server with this fsync, whose node has been stopped by `signal`.
    fn stopped_by(signal: Signal, fsync: &str) -> Self {
        let args = ["--appendonly", "yes", "--appendfsync", fsync];
        let shop = Self { home: Seckill::new(), redis: TestRedis::setup().args(&args).start() };
        let node = shop.work();
        shop.run(&["sale", "create", "--title", "tea", "--stock", "9"]);
        shop.run(&["rush", "--voucher", "1", "--users", "5"]);
        node.signal(signal);
        node.wait(PATIENCE);
        shop
    }

    fn spawn(&self, args: &[&str]) -> Background {
        self.home.spawn(&[&["--redis", self.redis.url().as_str()], args].concat())
    }

    fn run(&self, args: &[&str]) -> Value {
        let json = [args, &["--json"]].concat();
        let ran = self.spawn(&json).wait(PATIENCE);
        serde_json::from_str(&ran.stdout).unwrap_or_default()
    }

    /// Starts a node, and waits until it admits: SQL knows the run of the server then.
    fn work(&self) -> Background {
        let node = self.spawn(&["work"]);
        wait_until_blocking(PATIENCE, "the run of the server is known", || {
            let info: String = self.redis.try_query(&["INFO", "server"]).unwrap_or_default();
            let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            run.is_some_and(|run| self.known_run().as_deref() == Some(run.trim()))
        });
        node
    }

    fn known_run(&self) -> Option<String> {
        let url = format!("sqlite://{}", self.home.data_dir().join("seckill.db").display());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut sql = sqlx::SqliteConnection::connect(&url).await.ok()?;
            let query = "SELECT value FROM tb_setting WHERE name = 'redis_run_0'";
            sqlx::query_scalar(query).fetch_optional(&mut sql).await.ok()?
        })
    }

    /// The alarm and the event, once both are there or known to be absent.
    fn unwitnessed(&self) -> Option<String> {
        let node = self.work();
        let status = self.run(&["status"]);
        let alarms = status["alarms"].as_array().cloned().unwrap_or_default();
        let raised = alarms.iter().find(|it| it["kind"]["alarm"] == "unwitnessed").cloned();
        let lines = self.run(&["activity"])["lines"].as_array().cloned().unwrap_or_default();
        let found = lines.iter().find_map(|line| {
            let text = line["result"].as_str().filter(|it| it.contains("while no node lived"));
            text.map(str::to_owned)
        });
        assert_eq!(raised.is_some(), found.is_some(), "{status}\n{lines:?}");
        node.signal(Signal::TERM);
        node.wait(PATIENCE);
        found
    }
}

#[test]
fn a_restart_of_redis_that_no_node_saw_is_an_alarm_once() {
    let mut shop = Shop::stopped_by(Signal::KILL, "everysec");
    shop.redis.kill();
    shop.redis.restart();
    let found = shop.unwitnessed().unwrap();
    assert!(found.contains("up to 2 s of admissions may be missing"), "{found}");
    assert!(found.contains("newest admission"), "{found}");
    // The same run is known now, and a clean stop loses nothing.
    shop.redis.kill();
    shop.redis.restart();
    let again = shop.run(&["activity"])["lines"].to_string();
    assert_eq!(again.matches("while no node lived").count(), 1, "{again}");
}

#[test]
fn where_nothing_was_lost_there_is_no_alarm() {
    // Each write is on disk before its reply.
    let mut always = Shop::stopped_by(Signal::KILL, "always");
    always.redis.kill();
    always.redis.restart();
    assert_eq!(always.unwitnessed(), None);
    // The last node has left, and what it wrote last is still there.
    let mut clean = Shop::stopped_by(Signal::TERM, "always");
    clean.redis.query::<String>(&["CONFIG", "SET", "appendfsync", "everysec"]);
    clean.redis.kill();
    clean.redis.restart();
    assert_eq!(clean.unwitnessed(), None);
    // Only the node died.
    let node = Shop::stopped_by(Signal::KILL, "everysec");
    assert_eq!(node.unwitnessed(), None);
}

/// The embedded server is stopped by the last process, which is a command: its node was killed.
#[test]
fn a_clean_stop_of_the_embedded_server_is_no_alarm() {
    let home = Seckill::new();
    let node = home.spawn(&["work"]);
    wait_until_blocking(PATIENCE, "the server runs", || home.redis().is_ok());
    home.run(&["sale", "create", "--title", "tea", "--stock", "9"]).expect_code(0);
    home.run(&["rush", "--voucher", "1", "--users", "5"]).expect_code(0);
    node.signal(Signal::KILL);
    node.wait(PATIENCE);
    for users in ["7", "9"] {
        // The second one starts the server, and stops it.
        for _ in 0..2 {
            home.run(&["sale", "list"]).expect_code(0);
            wait_until_blocking(PATIENCE, "the server has ended", || home.redis().is_err());
        }
        home.run(&["rush", "--voucher", "1", "--users", users]).expect_code(0);
    }
    let lines = home.run(&["activity", "--json"]).stdout;
    assert!(!lines.contains("while no node lived"), "{lines}");
}

/// Each of them starts the embedded server, and stops it.
#[test]
fn short_commands_date_no_order_ahead_of_the_clock() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "9"]).expect_code(0);
    let mut given = Vec::new();
    for users in ["1", "2", "3"] {
        home.run(&["rush", "--voucher", "1", "--users", users]).expect_code(0);
        let now = Millis::now().0 / 1_000;
        let orders = home.run(&["orders", "list", "--json"]).expect_code(0).json();
        let newest: OrderId = orders["orders"][0]["id"].as_str().unwrap().parse().unwrap();
        assert!(newest.unix_seconds() <= now, "{} at {now}", newest.unix_seconds());
        assert!(given.iter().all(|it| *it < newest), "{newest} after {given:?}");
        given.push(newest);
    }
}

/// A purchase without a node reserves the seconds of its ID as well; a refused one too.
#[test]
fn a_short_purchase_dates_no_order_ahead_of_the_clock() {
    let home = Seckill::new();
    let tea = home.json(&["voucher", "create", "--title", "tea"])["voucher_id"].to_string();
    let mut given = Vec::new();
    for user in ["1", "2", "3"] {
        let buy = |id: &str| home.run(&["--json", "voucher", "buy", id, "--user", user]);
        buy("9").expect_code(1);
        let order = buy(&tea).expect_code(0).json()["order_id"].to_string();
        let order: OrderId = order.trim_matches('"').parse().unwrap();
        let now = Millis::now().0 / 1_000;
        assert!(order.unix_seconds() <= now, "{} at {now}", order.unix_seconds());
        assert!(given.iter().all(|it| *it < order), "{order} after {given:?}");
        given.push(order);
    }
    // A node that was killed counts as alive for a while; the server is stopped by commands that buy nothing.
    let node = home.spawn(&["work"]);
    wait_until_blocking(PATIENCE, "it is alive", || node.stdout().contains("is running"));
    node.signal(Signal::KILL);
    node.wait(PATIENCE);
    for (user, before) in [("11", Some("status")), ("12", None), ("13", None), ("14", None)] {
        if let Some(command) = before {
            home.run(&[command]).expect_code(0);
        }
        wait_until_blocking(PATIENCE, "the server has ended", || home.redis().is_err());
        let order = home.json(&["voucher", "buy", &tea, "--user", user])["order_id"].to_string();
        let order: OrderId = order.trim_matches('"').parse().unwrap();
        let now = Millis::now().0 / 1_000;
        assert!(order.unix_seconds() <= now, "{} at {now}", order.unix_seconds());
        given.push(order);
    }
    let many: Vec<OrderId> = std::thread::scope(|scope| {
        let buys = ["4", "5", "6", "7"].map(|user| {
            let (home, tea) = (&home, &tea);
            scope.spawn(move || home.json(&["voucher", "buy", tea, "--user", user]))
        });
        let id = |it: Value| it["order_id"].to_string().trim_matches('"').parse();
        buys.into_iter().map(|it| id(it.join().unwrap()).unwrap()).collect()
    });
    assert!(many.iter().all(|it| !given.contains(it)), "{many:?} after {given:?}");
}

/// An empty Redis may be one that has lost everything; but not while a node sells with another one.
#[test]
fn a_second_redis_is_refused_while_a_node_sells_with_another_one() {
    let shop = Shop::stopped_by(Signal::TERM, "always");
    let node = shop.work();
    let other = TestRedis::start();
    let on_other = |args: &[&str]| {
        shop.home.spawn(&[&["--redis", other.url().as_str()], args].concat()).wait(PATIENCE)
    };
    for args in [&["rush", "--voucher", "1", "--users", "9"][..], &["sale", "list"], &["work"]] {
        let ran = on_other(args);
        let ran = ran.expect_code(1);
        assert!(ran.stderr.contains("in use with another Redis"), "{args:?}: {ran}");
    }
    assert_eq!(other.query::<u64>(&["DBSIZE"]), 0, "nothing is written there");
    // One that lost everything under the node has its name again.
    shop.redis.query::<()>(&["FLUSHALL"]);
    wait_until_blocking(PATIENCE, "the sale is back", || shop.run(&["audit"])["balanced"] == true);
    node.signal(Signal::TERM);
    node.wait(PATIENCE);
}
