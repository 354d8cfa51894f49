//! `seckill attach migrate`: a sale of the tutorials' service moves to an engine and back, whatever dies in between.

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use jiff::Timestamp;
use redis::{RedisResult, Script, Value as Reply};
use rustix::process::Signal;
use seckill_model::{
    faults::{KILL_AT, Point},
    order_id::{EPOCH_SECONDS, utc_day},
};
use seckill_store::plain::PlainPool;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    attach::{Database, SCRIPT, STREAM, Service},
    support::{
        BINARY, Background, Cut, LONG, MariaDb, PASSWORD, Postgres, Proxy, Pty, Ran, Seckill,
        TestRedis, refused, wait_until_blocking,
    },
};

/// The service, and an engine that may share its Redis.
struct Both {
    service: Service,
    redis: Option<TestRedis>,
    /// The database of the engine.
    url: String,
    pool: PlainPool,
}

impl Both {
    /// A service with a database of its own, and an engine in SQLite.
    fn at(database: Database, url: impl FnOnce(&Runtime) -> String) -> Self {
        let (home, runtime) = (Seckill::new(), Runtime::new().unwrap());
        let service_url = url(&runtime);
        let service = Service::at(database, TestRedis::start(), home, runtime, service_url);
        let url = format!("sqlite:{}", service.home.file("engine.db").display());
        let pool = PlainPool::open(&url, 1).unwrap();
        Self { service, redis: None, url, pool }
    }

    fn start(database: Database, redis: Option<TestRedis>) -> Self {
        let service = Service::on(database, TestRedis::start());
        let url = match database {
            Database::Sqlite => format!("sqlite:{}", service.home.file("engine.db").display()),
            Database::MariaDb => service.runtime.block_on(MariaDb::shared().database()),
            Database::Postgres => service.runtime.block_on(Postgres::shared().database()),
        };
        let pool = PlainPool::open(&url, 1).unwrap();
        Self { service, redis, url, pool }
    }

    fn to_redis(&self) -> String {
        self.redis.as_ref().unwrap_or(&self.service.redis).url()
    }

    /// A command on the engine.
    fn engine(&self, args: &[&str]) -> Ran {
        let redis = self.to_redis();
        let servers = ["--redis", &redis, "--database", &self.url];
        self.service.home.spawn(&[&servers[..], args].concat()).wait(LONG)
    }

    fn spawn(&self, sale: &str, args: &[&str], envs: &[(&str, &str)]) -> Background {
        let (theirs, ours) = (self.service.redis.url(), self.to_redis());
        let to = ["migrate", "--sale", sale, "--to-redis", &ours, "--to-database", &self.url];
        let all = self.service.args(&theirs, &[&to[..], args].concat());
        Background::spawn(BINARY, &self.service.home.args(&all), &self.service.home, envs)
    }

    /// A migration with `--json`; the consumers have been silent for a second.
    fn run(&self, sale: &str, args: &[&str]) -> Ran {
        self.wait_for_silence();
        self.spawn(sale, &[&["--quiet", "1", "--json"], args].concat(), &[]).wait(LONG)
    }

    #[track_caller]
    fn migrate(&self, sale: &str, args: &[&str]) -> Value {
        self.run(sale, &[&["--yes"], args].concat()).expect_code(0).json()
    }

    #[track_caller]
    fn findings(&self, sale: &str, args: &[&str]) -> Vec<String> {
        let report = self.run(sale, &[&["--dry-run"], args].concat()).expect_code(1).json();
        let found = report["plan"]["findings"].as_array().unwrap();
        found.iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    }

    /// A migration in a terminal, with its question on the screen.
    fn asks(&self, args: &[&str]) -> Pty {
        self.wait_for_silence();
        let (theirs, ours) = (self.service.redis.url(), self.to_redis());
        let to = ["migrate", "--sale", "10", "--to-redis", &ours, "--to-database", &self.url];
        let all = [&to[..], &["--quiet", "1"], args].concat();
        let pty = self.service.home.pty(&self.service.args(&theirs, &all), 120, 60, &[]);
        pty.wait_for_text("[y/N]");
        pty
    }

    /// Sale 10, sold to 30 users, of whom 5 have paid, in the engine and paused there.
    fn moved(database: Database, redis: Option<TestRedis>, stock: i64) -> Self {
        let both = Self::start(database, redis);
        both.sale_with_orders("10", stock);
        both.migrate("10", &[]);
        both.engine(&["sale", "pause", "10"]).expect_code(0);
        both
    }

    fn phase(&self) -> String {
        let sale = self.engine(&["sale", "show", "10", "--json"]).expect_code(0).json();
        sale["phase"].as_str().unwrap().to_owned()
    }

    /// The keys that a migration of sale 10 has left, without those of the buyers.
    fn traces(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.service.redis.query(&["KEYS", "seckill:stock:10*"]);
        keys.sort_unstable();
        let end = |key: String| key.strip_prefix("seckill:stock:10").unwrap().to_owned();
        keys.into_iter().map(end).collect()
    }

    /// The result of a payment in the engine, as JSON names it.
    fn pay(&self, user: i64) -> String {
        let order = order_of("10", user).to_string();
        let paid = self.engine(&["orders", "pay", &order, "--json"]).json();
        paid["payment"].as_str().unwrap().to_owned()
    }

    /// A status of 0 is unknown.
    fn status_at_service(&self, user: i64) -> i64 {
        let order = order_of("10", user);
        let has = |status: &i64| {
            let sql = "SELECT COUNT(*) FROM tb_voucher_order WHERE";
            let sql = format!("{sql} id = {order} AND status = {status}");
            self.service.count(sql.leak()) == 1
        };
        (1..=5).find(has).unwrap_or_default()
    }

    /// Whether the table of the service has this stock.
    fn service_has(&self, stock: i64) -> bool {
        let sql = "SELECT COUNT(*) FROM tb_seckill_voucher WHERE voucher_id = 10 AND";
        self.service.count(format!("{sql} stock = {stock}").leak()) == 1
    }

    fn wait_for_silence(&self) {
        wait_until_blocking(LONG, "silent consumers", || {
            let consumers: Vec<HashMap<String, Reply>> =
                self.service.redis.query(&["XINFO", "CONSUMERS", STREAM, "g1"]);
            let is_idle = |it: &Reply| matches!(it, Reply::Int(millis) if *millis >= 1_000);
            consumers.iter().all(|it| is_idle(&it["idle"]))
        });
    }

    /// A number from the engine's database.
    fn count(&self, sql: String) -> i64 {
        self.service.runtime.block_on(async {
            let mut conn = self.pool.connection().await.unwrap();
            conn.rows::<1>(sql.leak(), &[]).await.unwrap()[0][0]
        })
    }

    /// What admission of the service says to a user.
    fn admit(&self, sale: &str, user: i64) -> RedisResult<i64> {
        admit(&mut self.service.redis.connection(), sale, user)
    }

    /// A sale with paid and unpaid orders, orders in flight in every form, and an entry of another sale.
    fn sale_with_orders(&self, sale: &str, stock: i64) {
        let service = &self.service;
        service.loaded_sale(sale, stock);
        for user in 1..=20 {
            assert_eq!(self.admit(sale, user).unwrap(), 0);
        }
        service.consume();
        let paid = format!(
            "UPDATE tb_voucher_order SET status = 2 WHERE voucher_id = {sale} AND user_id <= 5"
        );
        service.sql(&paid);
        for user in 21..=24 {
            assert_eq!(self.admit(sale, user).unwrap(), 0);
        }
        // Delivered and not processed; one of them is in SQL already.
        let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
        service.redis.query::<Reply>(&read);
        let (order, before) = (order_of(sale, 24), stock - 20);
        service.sql(&format!("INSERT INTO tb_voucher_order VALUES ({order}, 24, {sale}, 1)"));
        let left = format!(
            "UPDATE tb_seckill_voucher SET stock = {} WHERE voucher_id = {sale}",
            before - 1
        );
        service.sql(&left);
        for user in 25..=30 {
            assert_eq!(self.admit(sale, user).unwrap(), 0);
        }
    }

    /// The orders of the engine: ID, user and status, without those after user 30.
    fn assert_orders(&self, sale: &str) {
        let known = (1..=30).map(|user| format!("({}, {user})", order_of(sale, user)));
        let known = known.collect::<Vec<_>>().join(", ");
        let of = |condition: String| {
            self.count(format!(
                "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = {sale} AND {condition}"
            ))
        };
        assert_eq!(
            of(format!("(id, user_id) IN (VALUES {known})").replace("VALUES ", self.values())),
            30
        );
        assert_eq!(of("status = 2 AND user_id <= 5".to_owned()), 5);
        let users = format!(
            "SELECT COUNT(*) - COUNT(DISTINCT user_id) FROM tb_voucher_order WHERE voucher_id = {sale}"
        );
        assert_eq!(self.count(users), 0);
    }

    /// SQLite compares rows with a VALUES list, MariaDB with a plain one.
    fn values(&self) -> &'static str {
        if self.url.starts_with("sqlite") { "VALUES " } else { "" }
    }

    /// Never on sale on both sides.
    fn assert_one_side(&self, sale: &str) {
        let stock: Option<i64> =
            self.service.redis.query(&["GET", &format!("seckill:stock:{sale}")]);
        let at_engine = self.engine(&["sale", "show", sale, "--json"]);
        let sells = at_engine.code() == 0 && at_engine.json()["phase"] == "running";
        assert!(stock.is_none() || !sells, "{sale} is on sale twice: {at_engine}");
    }

    /// A killed run keeps the lock until its lease ends.
    fn release_lock(&self) {
        let redis = self.redis.as_ref().unwrap_or(&self.service.redis);
        redis.query::<i64>(&["DEL", "lock:operator"]);
    }
}

fn admit(redis: &mut redis::Connection, sale: &str, user: i64) -> RedisResult<i64> {
    Script::new(SCRIPT).arg(sale).arg(user).arg(order_of(sale, user)).invoke(redis)
}

/// Like the tutorials' IDs: a second in the high half.
fn order_of(sale: &str, user: i64) -> i64 {
    (150_000_000_i64 << 32) + sale.parse::<i64>().unwrap() * 100_000 + user
}

fn there_and_back(database: Database, redis: Option<TestRedis>) {
    let both = Both::start(database, redis);
    let service = &both.service;
    // A node that runs loads the sale as soon as it is in SQL.
    let node = both.redis.as_ref().map(|redis| {
        let (redis, database) = (redis.url(), both.url.as_str());
        service.home.spawn(&["--redis", &redis, "--database", database, "work"])
    });
    service.loaded_sale("11", 50);
    both.sale_with_orders("10", 200);
    assert_eq!(both.admit("11", 7).unwrap(), 0);

    let planned = both.run("10", &["--dry-run"]).expect_code(0).json();
    let plan = &planned["plan"];
    for (key, expected) in [
        ("redis_stock", 170),
        ("sql_stock", 179),
        ("initial", 200),
        ("buyers", 30),
        ("in_sql", 21),
        ("in_flight", 9),
        ("without_order", 0),
        ("without_buyer", 0),
        ("without_time", 21),
    ] {
        assert_eq!(plan[key], expected, "{key}: {planned}");
    }
    assert_eq!(both.admit("10", 30).unwrap(), 2, "a dry run has changed the service");

    let report = both.migrate("10", &[]);
    let proof = &report["proof"];
    assert_eq!((&report["moved"], &proof["matching"]), (&true.into(), &30.into()), "{report}");
    let figures = |buyers: i64, orders: i64, in_flight: i64, redis: i64, sql: i64| json!({"buyers": buyers, "orders": orders, "in_flight": in_flight, "redis_stock": redis, "sql_stock": sql});
    assert_eq!(proof["service"], figures(30, 21, 9, 170, 179), "{report}");
    assert_eq!(proof["engine"], figures(30, 30, 0, 170, 170), "{report}");
    both.assert_orders("10");
    // The script of the service fails, and its consumer finds no entry of this sale.
    assert!(both.admit("10", 500).is_err());
    service.consume();
    assert_eq!(service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10"), 21);
    assert_eq!(service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 11"), 1);

    // Nothing advises the operator to load the stock of a sale that has moved.
    let watched = service.status(0, &[]);
    assert_eq!((&watched["alarms"], &watched["sales"][1]["moved"]), (&json!([]), &true.into()));
    both.engine(&["audit", "--json"]).expect_code(0);
    let rush = both.engine(&["rush", "--voucher", "10", "--users", "100", "--json"]);
    let rush = rush.expect_code(0).json();
    assert_eq!((&rush["admitted"], &rush["duplicate"]), (&70.into(), &30.into()), "{rush}");
    both.engine(&["audit", "--json"]).expect_code(0);
    both.assert_orders("10");
    let again = both.migrate("10", &[]);
    assert_eq!((&again["moved"], &again["proof"]), (&true.into(), &Value::Null), "{again}");
    let log = both.engine(&["activity", "--json"]).expect_code(0).stdout;
    assert!(log.contains("attach migrate"), "{log}");

    let running = both.run("10", &["--back", "--yes"]).expect_code(1).json();
    let found = running["plan"]["findings"][0].as_str().unwrap();
    assert!(found.contains("is running in the engine"), "{running}");
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    let report = both.migrate("10", &["--back"]);
    assert_eq!(
        (&report["moved"], &report["proof"]["matching"]),
        (&true.into(), &100.into()),
        "{report}"
    );
    assert_eq!((both.admit("10", 30).unwrap(), both.admit("10", 99).unwrap()), (2, 2));
    assert_eq!(both.admit("10", 1_001).unwrap(), 0);
    service.consume();
    let orders = "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10";
    let stock = "SELECT COUNT(*) FROM tb_seckill_voucher WHERE voucher_id = 10 AND stock = 99";
    assert_eq!((service.count(orders), service.count(stock)), (101, 1));
    let left: i64 = service.redis.query(&["GET", "seckill:stock:10"]);
    assert_eq!(left, 99);
    assert_eq!(service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE status = 2"), 5);
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
    both.engine(&["audit", "--json"]).expect_code(0);
    let again = both.migrate("10", &["--back"]);
    assert_eq!((&again["moved"], &again["proof"]), (&true.into(), &Value::Null), "{again}");
    let archived = both.engine(&["sale", "show", "10", "--json"]).expect_code(0).json();
    assert_eq!(archived["phase"], "archived");
    let again = both.findings("10", &["--back"]).join("\n");
    assert!(again.contains("is archived"), "{again}");
    let again = both.findings("10", &[]);
    assert!(again[0].contains("moved to this engine before"), "{again:?}");
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(node.is_none_or(|mut node| node.is_running()));
}

#[test]
fn a_sale_moves_there_and_back_on_sqlite() {
    there_and_back(Database::Sqlite, None);
}

#[test]
fn a_sale_moves_there_and_back_on_mariadb() {
    there_and_back(Database::MariaDb, Some(TestRedis::start()));
}

#[test]
fn a_sale_moves_there_and_back_on_postgres() {
    there_and_back(Database::Postgres, Some(TestRedis::start()));
}

/// Dates without a zone are local, and instants are read and written in the zone of the profile.
fn times_and_pay_types_move(database: Database, date: &str) {
    let both = Both::start(database, None);
    let service = &both.service;
    service.loaded_sale("10", 10);
    for user in [1, 2, 3, 5] {
        assert_eq!(both.admit("10", user).unwrap(), 0);
    }
    service.consume();
    assert_eq!(both.admit("10", 4).unwrap(), 0);
    service.sql(&format!("ALTER TABLE tb_voucher_order ADD COLUMN create_time {date}"));
    service.sql(&format!("ALTER TABLE tb_voucher_order ADD COLUMN pay_time {date}"));
    service.sql("ALTER TABLE tb_voucher_order ADD COLUMN pay_type INT");
    let is_instant = date.starts_with("TIMESTAMP NULL");
    let local = |at: Timestamp| {
        let zone = if is_instant { "UTC" } else { "Asia/Shanghai" };
        at.in_tz(zone).unwrap().strftime("%Y-%m-%d %H:%M:%S").to_string()
    };
    let (created, now) = ("2024-05-01T02:00:00Z".parse::<Timestamp>().unwrap(), Timestamp::now());
    let paid = "2024-05-01T02:05:00Z".parse::<Timestamp>().unwrap();
    let set = |user: i64, what: String| {
        service.sql(&format!("UPDATE tb_voucher_order SET {what} WHERE user_id = {user}"));
    };
    set(1, format!("create_time = '{}', pay_time = '{}'", local(created), local(paid)));
    set(1, "status = 2, pay_type = 3".to_owned());
    // One that the service should have closed, and one that may still be paid.
    set(2, format!("create_time = '{}'", local(created)));
    set(3, format!("create_time = '{}'", local(now)));
    // Paid at an unknown time.
    set(5, format!("create_time = '{}', status = 2", local(created)));
    both.migrate("10", &[]);
    let has = |condition: String| {
        both.count(format!("SELECT COUNT(*) FROM tb_voucher_order WHERE {condition}")) == 1
    };
    let (created, paid) = (created.as_millisecond(), paid.as_millisecond());
    assert!(has(format!(
        "user_id = 1 AND create_time = {created} AND pay_time = {paid} AND pay_type = 3"
    )));
    assert!(has(format!("user_id = 2 AND create_time = {created} AND pay_time IS NULL")));
    assert!(has("user_id = 5 AND status = 2 AND pay_time IS NULL".to_owned()));
    let entry = now.as_millisecond() - 60_000;
    assert!(has(format!("user_id = 4 AND create_time > {entry}")));
    both.engine(&["jobs", "run", "close-overdue"]).expect_code(0);
    assert!(has("status = 5".to_owned()) && has("user_id = 2 AND status = 5".to_owned()));
    let order = order_of("10", 3).to_string();
    both.engine(&["orders", "pay", &order]).expect_code(0);

    both.engine(&["sale", "pause", "10"]).expect_code(0);
    both.migrate("10", &["--back"]);
    let minute = jiff::Span::new().minutes(10);
    let (from, to) = (local(now - minute), local(now + minute));
    let has = |condition: String| {
        let sql = format!("SELECT COUNT(*) FROM tb_voucher_order WHERE {condition}");
        assert_eq!(service.count(sql.clone().leak()), 1, "{sql}");
    };
    has("user_id = 1 AND status = 2 AND pay_type = 3".to_owned());
    has("user_id = 2 AND status = 4 AND pay_time IS NULL".to_owned());
    has("user_id = 5 AND status = 2 AND pay_time IS NULL".to_owned());
    has(format!("user_id = 3 AND status = 2 AND pay_time BETWEEN '{from}' AND '{to}'"));
    has(format!("user_id = 4 AND create_time BETWEEN '{from}' AND '{to}' AND pay_time IS NULL"));
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

#[test]
fn times_and_pay_types_move_on_sqlite() {
    times_and_pay_types_move(Database::Sqlite, "DATETIME");
}

#[test]
fn times_and_pay_types_move_on_mariadb() {
    times_and_pay_types_move(Database::MariaDb, "DATETIME");
    times_and_pay_types_move(Database::MariaDb, "TIMESTAMP NULL");
}

#[test]
fn times_and_pay_types_move_on_postgres() {
    times_and_pay_types_move(Database::Postgres, "TIMESTAMP");
}

/// Dates of a zone with daylight saving, which MariaDB knows. In the hour that exists twice they are ambiguous.
#[test]
fn instants_move_in_summer_and_winter() {
    let both = Both::start(Database::MariaDb, None);
    let service = &both.service;
    for rows in [
        "time_zone VALUES (900, 'N')",
        "time_zone_name VALUES ('Europe/Berlin', 900)",
        "time_zone_transition_type VALUES (900, 0, 3600, 0, 'CET'), (900, 1, 7200, 1, 'CEST')",
        "time_zone_transition VALUES (900, 1711846800, 1), (900, 1729990800, 0)",
    ] {
        service.sql(&format!("INSERT INTO mysql.{rows}"));
    }
    service.loaded_sale("10", 10);
    for user in 1..=4 {
        assert_eq!(both.admit("10", user).unwrap(), 0);
    }
    service.consume();
    service.sql("ALTER TABLE tb_voucher_order ADD COLUMN create_time TIMESTAMP NULL");
    // Winter, summer, and both halves of the hour that exists twice.
    let dates = [1_709_282_096, 1_719_822_896, 1_729_989_000, 1_729_992_600];
    for (user, at) in (1..).zip(dates) {
        let set = format!("create_time = FROM_UNIXTIME({at}) WHERE user_id = {user}");
        service.sql(&format!("UPDATE tb_voucher_order SET {set}"));
    }
    let berlin = service.home.file("berlin.toml");
    fs::write(&berlin, "time_zone = \"Europe/Berlin\"\n").unwrap();
    let profile = ["--profile", berlin.to_str().unwrap()];
    both.migrate("10", &profile);
    for (user, at) in (1..).zip([dates[0], dates[1], dates[2], dates[2]]) {
        let of = format!("SELECT create_time FROM tb_voucher_order WHERE user_id = {user}");
        assert_eq!(both.count(of), at * 1_000, "user {user}");
    }
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    both.migrate("10", &[&["--back"], &profile[..]].concat());
    for (user, at) in (1..).zip(dates) {
        let of = format!(
            "SELECT UNIX_TIMESTAMP(create_time) FROM tb_voucher_order WHERE user_id = {user}"
        );
        assert_eq!(service.count(of.leak()), at, "user {user}");
    }
}

#[test]
fn a_stock_that_the_service_loads_again_after_a_move_is_an_alarm() {
    let both = Both::start(Database::Sqlite, None);
    let service = &both.service;
    both.sale_with_orders("10", 100);
    both.migrate("10", &[]);
    let watched = service.status(0, &[]);
    assert_eq!((&watched["alarms"], &watched["not_compared"]), (&json!([]), &json!([])));
    // The set and the rows are history: nothing is missing in a recovery.
    let plan = service.recover(1, &[]);
    assert_eq!((&plan["buyers_compared"], &plan["sales"]), (&true.into(), &json!([])), "{plan}");
    // Nothing advises the operator to load its stock either.
    let checks = service.doctor(0, &[]);
    let found = json!("no key seckill:stock:*: the sale has moved to an engine");
    let is_note = |it: &Value| (&it["grade"], &it["found"]) == (&"note".into(), &found);
    assert!(checks["checks"].as_array().unwrap().iter().any(is_note), "{checks}");
    // The service starts again, and loads the stock from its table.
    service.redis.query::<()>(&["SET", "seckill:stock:10", "79"]);
    let watched = service.status(1, &[]);
    let expected = json!([{"alarm": "moved_sale_loaded", "urgency": "critical", "voucher": 10, "key": "seckill:stock:10"}]);
    assert_eq!(watched["alarms"], expected, "{watched}");
    // What it sells beside the engine does not become an order.
    assert_eq!(both.admit("10", 500).unwrap(), 0);
    both.wait_for_silence();
    let plan = service.recover(1, &["--stuck", "1"]);
    assert_eq!(
        (&plan["moved"], &plan["entries"], &plan["sales"]),
        (&1.into(), &json!([]), &json!([]))
    );
    service.redis.query::<i64>(&["DEL", "seckill:stock:10"]);
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

/// Redis has lost the mark: what is left looks as if the service had not loaded its stock.
#[test]
fn a_sale_whose_mark_was_lost_is_loaded_on_neither_side() {
    let both = Both::moved(Database::Sqlite, Some(TestRedis::start()), 40);
    let service = &both.service;
    let mark: String = service.redis.query(&["GET", "seckill:stock:10:moved"]);
    service.redis.query::<i64>(&["DEL", "seckill:stock:10:moved"]);
    let text = service.run(&["status"]).stdout;
    let unknown = "Whether it has moved to an engine is unknown";
    assert!(text.contains(unknown) && !text.contains("Load the stock."), "{text}");
    let done = service.operate(1, &[]);
    assert_eq!(done["plan"]["maybe_moved"], json!([10]), "{done}");
    assert_eq!(both.traces(), [""; 0]);
    // A buyer without an order here may have one there.
    service.redis.query::<i64>(&["SADD", "seckill:order:10", "4711"]);
    let done = service.operate(1, &["--remove-buyers"]);
    assert_eq!(done["plan"]["sales"][0]["remove_buyers"], json!(false), "{done}");
    assert_eq!(service.redis.query::<i64>(&["SREM", "seckill:order:10", "4711"]), 1);
    for args in [&[][..], &["--back"]] {
        let found = both.findings("10", args);
        let said = found.iter().find(|it| it.contains("Do not load the stock"));
        let said = said.unwrap_or_else(|| panic!("{found:?}"));
        assert!(!found.iter().any(|it| it.contains("Load the stock first")), "{found:?}");
        // It says what restores the mark.
        let value = said.split("SET seckill:stock:10:moved '").nth(1).unwrap();
        let value = value.split('\'').next().unwrap();
        assert!(mark.starts_with(value), "{mark}: {said}");
        service.redis.query::<()>(&["SET", "seckill:stock:10:moved", value]);
        assert_eq!(service.status(0, &[])["alarms"], json!([]));
        service.redis.query::<i64>(&["DEL", "seckill:stock:10:moved"]);
    }
    both.run("10", &["--yes"]).expect_code(1);
    both.run("10", &["--back", "--yes"]).expect_code(1);
    assert_eq!((both.phase().as_str(), both.traces()), ("paused", Vec::new()));
    let value = mark.rsplit_once(' ').unwrap().0;
    service.redis.query::<()>(&["SET", "seckill:stock:10:moved", value]);
    both.migrate("10", &["--back"]);
    assert!(both.service_has(10));
}

#[test]
fn other_groups_of_the_stream_prevent_a_migration() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 100);
    let redis = &both.service.redis;
    let length = || redis.query::<i64>(&["XLEN", STREAM]);
    let (create, destroy) = (["XGROUP", "CREATE"], ["XGROUP", "DESTROY"]);
    redis.query::<()>(&[&create[..], &[STREAM, "reports", "0"]].concat());
    redis.query::<()>(&[&create[..], &[STREAM, "billing", "0"]].concat());
    let found = both.findings("10", &[]).join("\n");
    assert!(found.contains("other groups read stream stream.orders: billing, reports"), "{found}");
    redis.query::<i64>(&[&destroy[..], &[STREAM, "reports"]].concat());
    redis.query::<i64>(&[&destroy[..], &[STREAM, "billing"]].concat());
    // Created after the sale has moved, before its entries are deleted.
    both.wait_for_silence();
    let kill_at = format!("{}:2", Point::MigrationStep.name());
    let ran = both.spawn("10", &["--yes", "--quiet", "1"], &[(KILL_AT, &kill_at)]).wait(LONG);
    assert!(ran.status.code().is_none(), "{ran}");
    both.release_lock();
    redis.query::<()>(&[&create[..], &[STREAM, "reports", "0"]].concat());
    let before = length();
    refused(both.run("10", &["--yes"]), 1, "other groups read stream stream.orders: reports");
    assert_eq!(length(), before);
    redis.query::<i64>(&[&destroy[..], &[STREAM, "reports"]].concat());
    assert_eq!(both.migrate("10", &[])["moved"], true);
    assert_eq!(length(), before - 10);
}

/// The alarms of the service that name this sale, as JSON.
fn service_alarms(both: &Both, sale: &str) -> String {
    let (url, args) = (both.service.redis.url(), ["status", "--json"]);
    let report = both.service.home.spawn(&both.service.args(&url, &args)).wait(LONG).json();
    let alarms = report["alarms"].as_array().unwrap().iter();
    alarms.map(Value::to_string).filter(|it| it.contains(sale)).collect()
}

/// Kills a run at each pass of a point, and completes it; returns how many passes there are.
fn every_pass_may_die(point: Point, back: bool) -> u32 {
    let both = Both::start(Database::Sqlite, None);
    let direction: &[&str] = if back { &["--back"] } else { &[] };
    for pass in 1.. {
        let sale = &(100 + pass).to_string();
        both.sale_with_orders(sale, 40);
        if back {
            both.migrate(sale, &[]);
            both.engine(&["sale", "pause", sale]).expect_code(0);
        }
        let kill_at = format!("{}:{pass}", point.name());
        both.wait_for_silence();
        let args = [&["--yes", "--quiet", "1"], direction].concat();
        let ran = both.spawn(sale, &args, &[(KILL_AT, &kill_at)]).wait(LONG);
        if ran.status.code().is_some() {
            ran.expect_code(0);
            return u32::try_from(pass).unwrap() - 1;
        }
        both.assert_one_side(sale);
        if service_alarms(&both, sale).contains("sale_between") {
            let checks = both.service.doctor(1, &[])["checks"].to_string();
            assert!(checks.contains("on sale neither in the service nor"), "{checks}");
        }
        let before_end = if point == Point::AfterChangeCommit { 1 } else { 6 };
        if back && point != Point::BeforeCommit && pass <= before_end {
            let alarms = service_alarms(&both, sale);
            assert!(
                alarms.contains(&format!("seckill:stock:{sale}:returning")),
                "pass {pass}: {alarms}"
            );
        }
        both.release_lock();
        let report = both.migrate(sale, direction);
        assert!(!service_alarms(&both, sale).contains("sale_between"));
        assert_eq!(report["moved"], true, "pass {pass}: {report}");
        both.assert_one_side(sale);
        both.assert_orders(sale);
        both.engine(&["audit", "--json"]).expect_code(0);
        if back {
            assert_eq!((both.admit(sale, 30).unwrap(), both.admit(sale, 31).unwrap()), (2, 0));
            both.service.consume();
        } else {
            let rush = both.engine(&["rush", "--voucher", sale, "--users", "35", "--json"]);
            let rush = rush.expect_code(0).json();
            assert_eq!((&rush["admitted"], &rush["duplicate"]), (&5.into(), &30.into()), "{rush}");
            both.assert_orders(sale);
        }
    }
    unreachable!()
}

#[test]
fn a_migration_that_dies_at_any_step_is_completed() {
    assert_eq!(every_pass_may_die(Point::MigrationStep, false), 4);
}

#[test]
fn a_return_that_dies_at_any_step_is_completed() {
    assert_eq!(every_pass_may_die(Point::MigrationStep, true), 8);
}

#[test]
fn a_migration_that_dies_at_any_commit_of_the_engine_is_completed() {
    assert!(every_pass_may_die(Point::BeforeCommit, false) > 1);
}

#[test]
fn a_return_that_dies_at_any_commit_of_the_engine_is_completed() {
    assert!(every_pass_may_die(Point::BeforeCommit, true) > 1);
}

#[test]
fn a_return_that_dies_before_redis_has_the_change_is_completed() {
    assert_eq!(every_pass_may_die(Point::AfterChangeCommit, true), 2);
}

#[test]
fn a_migration_that_dies_while_the_engine_loads_the_sale_is_completed() {
    assert_eq!(every_pass_may_die(Point::MidReconciliation, false), 1);
}

#[test]
fn the_engine_issues_no_order_id_that_it_took_over() {
    let both = Both::start(Database::Sqlite, Some(TestRedis::start()));
    assert_eq!(both.service.status(0, &[])["sales"], json!([]));
    both.service.loaded_sale("10", 10);
    // The service counts local time as UTC, so its IDs are ahead.
    let ahead = Timestamp::now().as_second() + 3_600;
    let (order, number) = (((ahead - EPOCH_SECONDS) << 32) + 77_777, 77_777);
    let mut redis = both.service.redis.connection();
    let admitted: i64 = Script::new(SCRIPT).arg("10").arg(1).arg(order).invoke(&mut redis).unwrap();
    assert_eq!((admitted, &both.migrate("10", &[])["moved"]), (0, &true.into()));
    let key = format!("icr:order:{}", utc_day(ahead).strftime("%Y:%m:%d"));
    let leased: i64 = both.redis.as_ref().unwrap().query(&["GET", &key]);
    assert!(leased > number, "{leased}");
}

#[test]
fn a_node_of_the_engine_in_the_redis_of_the_service_prevents_nothing() {
    let both = Both::start(Database::MariaDb, None);
    let servers = ["--redis", &both.to_redis(), "--database", &both.url];
    let mut node = both.service.home.spawn(&[&servers[..], &["work"]].concat());
    both.service.loaded_sale("10", 10);
    wait_until_blocking(LONG, "the node reads", || {
        both.service.redis.query::<String>(&["CLIENT", "LIST"]).contains("cmd=xreadgroup")
    });
    assert_eq!(both.migrate("10", &[])["moved"], true);
    assert!(node.is_running());
}

#[test]
fn a_dead_migration_is_undone_if_something_prevents_it_now() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 40);
    both.wait_for_silence();
    let kill_at = format!("{}:1", Point::MigrationStep.name());
    let envs = [(KILL_AT, kill_at.as_str())];
    let ran = both.spawn("10", &["--yes", "--quiet", "1"], &envs).wait(LONG);
    assert!(ran.status.code().is_none() && both.admit("10", 31).is_err(), "{ran}");
    let watched = both.service.status(1, &[]);
    let expected = json!([{"alarm": "sale_between", "urgency": "critical", "voucher": 10, "key": "seckill:stock:10:moving"}]);
    assert_eq!(watched["alarms"], expected, "{watched}");
    let ran = both.run("10", &["--yes"]);
    assert!(ran.stderr.contains("run the same command again in "), "{ran}");
    refused(ran, 1, "attach migrate");
    both.release_lock();
    both.service.redis.query::<i64>(&["SADD", "seckill:order:10", "77"]);
    let report = both.run("10", &["--yes"]).expect_code(1).json();
    let found = report["plan"]["findings"].to_string();
    assert!(found.contains("user 77") && found.contains("does not match"), "{report}");
    assert_eq!(both.admit("10", 31).unwrap(), 0);
}

#[test]
fn a_service_that_still_sells_keeps_its_sale() {
    let both = Arc::new(Both::start(Database::Sqlite, None));
    both.service.loaded_sale("10", 1_000_000);
    let stop = Arc::new(AtomicBool::new(false));
    let buyers = {
        let (both, stop) = (both.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut redis = both.service.redis.connection();
            let (mut admitted, mut fenced) = (0, false);
            for user in 1.. {
                if stop.load(Relaxed) {
                    break;
                }
                match admit(&mut redis, "10", user) {
                    Ok(0) => admitted += 1,
                    Ok(other) => panic!("{other}"),
                    Err(_) => fenced = true,
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            (admitted, fenced)
        })
    };
    let ran = both.run("10", &["--yes"]);
    refused(ran, 1, "the sale changed while it was prepared");
    let before: i64 = both.service.redis.query(&["GET", "seckill:stock:10"]);
    wait_until_blocking(LONG, "buyers go on", || {
        both.service.redis.query::<i64>(&["GET", "seckill:stock:10"]) < before
    });
    stop.store(true, Relaxed);
    let (admitted, fenced) = buyers.join().unwrap();
    // What its stock shows already does not stop it.
    assert!(!fenced && admitted > 0);
    // Stopped, with the load in flight, it moves.
    let report = both.migrate("10", &[]);
    assert_eq!(report["plan"]["in_flight"], admitted, "{report}");
    both.engine(&["audit", "--json"]).expect_code(0);
}

#[test]
fn what_prevents_a_migration_is_named() {
    let both = Both::start(Database::Sqlite, None);
    let (service, query) = (&both.service, |command: &[&str]| {
        both.service.redis.query::<Reply>(command);
    });
    let has = |found: &[String], part: &str| {
        assert!(found.iter().any(|it| it.contains(part)), "'{part}' is not in {found:#?}");
    };
    both.sale_with_orders("10", 100);
    let order = |id: i64, user: i64, sale: i64, status: i64| {
        service
            .sql(&format!("INSERT INTO tb_voucher_order VALUES ({id}, {user}, {sale}, {status})"));
    };

    // A consumer that has just read.
    let quiet = ["--quiet", "3600"];
    let ran = both.spawn("10", &[&["--json", "--dry-run"], &quiet[..]].concat(), &[]).wait(LONG);
    let found = ran.expect_code(1).json()["plan"]["findings"].to_string();
    assert!(found.contains("consumer c1 asked for entries"), "{found}");
    // Consumers that read in a loop, of whatever stream: XINFO of Redis 7.0 shows only when they received an entry.
    query(&["XGROUP", "CREATE", "empty", "g1", "0", "MKSTREAM"]);
    // CLIENT LIST shows the other command.
    let then = Some("PING");
    for (block, then) in
        [(&[][..], None), (&["BLOCK", "500"], None), (&["BLOCK", "2000"], None), (&[], then)]
    {
        let mut consumer = service.redis.connection();
        let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut consumer).unwrap();
        let waiting = std::thread::spawn(move || {
            let mut read = redis::cmd("XREADGROUP");
            read.arg(&["GROUP", "g1", "c1"]).arg(block).arg(&["STREAMS", "empty", ">"]);
            while read.query::<Reply>(&mut consumer).is_ok() {
                let _ = then.map(|then| redis::cmd(then).query::<Reply>(&mut consumer));
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        has(&both.findings("10", &[]), "reads entries with XREADGROUP");
        both.run("10", &["--dry-run", "--service-stopped"]).expect_code(0);
        query(&["CLIENT", "KILL", "ID", &id.to_string()]);
        waiting.join().unwrap();
    }
    query(&["ACL", "SETUSER", "default", "-client|list"]);
    has(&both.findings("10", &[]), "may not run CLIENT LIST");
    query(&["ACL", "SETUSER", "default", "+client|list"]);
    let profile = ["--profile", "002"];
    let found = both.findings("10", &profile);
    has(&found, "pass --service-stopped");
    has(&found, "buyers without order and entry: 9");
    let ran = both
        .run("10", &[&["--dry-run", "--service-stopped", "--leave-out"], &profile[..]].concat());
    assert_eq!(ran.expect_code(0).json()["plan"]["without_order"], 9);

    // A buyer whose order was lost: refused, or on sale again.
    query(&["SADD", "seckill:order:10", "77"]);
    query(&["DECR", "seckill:stock:10"]);
    let dead = ["XADD", "seckill:attach:stream.orders:dead", "*", "body:voucherId", "10"];
    query(&[&dead[..], &["body:userId", "77"]].concat());
    query(&[&dead[..], &["body:userId", "1"]].concat());
    let found = both.findings("10", &[]);
    has(&found, "buyers without order and entry: 1, for example user 77");
    has(&found, "a recovery has given up, without another order of their users: 1");
    let both_read_only =
        both.spawn("10", &["--yes", "--read-only", "--quiet", "1"], &[]).wait(LONG);
    refused(both_read_only, 1, "read-only");
    assert_eq!(both.admit("10", 30).unwrap(), 2);

    // Rows that the engine cannot hold.
    service.loaded_sale("12", 100);
    order(1_200_001, 1, 12, 4);
    order(1_200_002, 2, 12, 5);
    order(1_200_003, 3, 12, 1);
    order(1_200_004, 3, 12, 1);
    order(-5, 4, 12, 1);
    query(&["XADD", STREAM, "*", "userId", "9", "voucherId", "12", "id", "1200009"]);
    let found = both.findings("12", &[]);
    has(&found, "closed orders: 1, the first 1200001");
    has(&found, "status that the engine does not have: 1, for example 5");
    has(&found, "users with several orders: 1, for example 3");
    has(&found, "no ID for the engine: 1, the first -5");
    has(&found, "entries of users who are not in the set of buyers: 1");
    has(&found, "the stock does not match: 100 pieces and 0 buyers in Redis, 100 pieces and");
    refused(both.run("13", &["--dry-run"]), 1, "the service has no sale #13 in SQL");
    service.loaded_sale("14", 100);
    query(&["DEL", "seckill:stock:14"]);
    has(&both.findings("14", &[]), "has no stock in Redis");
    query(&["SET", "seckill:stock:14", "x"]);
    refused(both.run("14", &["--dry-run"]), 1, "(string that is not a number)");

    // The engine has something of the kind already.
    both.engine(&["sale", "create", "--title", "ours", "--stock", "5"]).expect_code(0);
    service.loaded_sale("1", 5);
    has(&both.findings("1", &[]), "voucher #1 exists");
    service.loaded_sale("15", 5);
    query(&["SET", "seckill:{p0}:stock:15", "5"]);
    has(&both.findings("15", &[]), "has keys of sale #15");
    query(&["DEL", "seckill:{p0}:stock:15"]);
    query(&["SET", "seckill:stock:15:moved", "another 5"]);
    refused(both.run("15", &["--dry-run"]), 1, "has moved to another engine");
    query(&["DEL", "seckill:stock:15:moved"]);
    query(&["SET", "seckill:stock:15:moving", "5"]);
    has(&both.findings("15", &[]), "has loaded its stock again");
    query(&["DEL", "seckill:stock:15:moving"]);
    let ours = service.home.file("ours.toml");
    fs::write(&ours, "[keys]\nstock = \"seckill:{p0}:stock:{voucher}\"\n").unwrap();
    let found = both.findings("1", &["--profile", ours.to_str().unwrap()]);
    has(&found, "belongs to the engine");

    // One database for both sides.
    let redis = both.to_redis();
    let to = ["--to-redis", &redis, "--to-database", &service.url];
    let all = service.args(&redis, &[&["migrate", "--sale", "15", "--dry-run"], &to[..]].concat());
    refused(service.home.spawn(&all).wait(LONG), 3, "another program");

    let to = ["--to-redis", &redis, "--to-database", &both.url];
    let servers = ["attach", "--redis", &redis, "--database", &both.url, "migrate", "--sale", "1"];
    let all = [&servers[..], &to, &["--dry-run", "--json"]].concat();
    let found = service.home.spawn(&all).wait(LONG).expect_code(1).stdout;
    assert!(found.contains("both sides must have their own"), "{found}");

    // An entry that may be an order of any sale.
    query(&["XADD", STREAM, "*", "user", "9"]);
    has(&both.findings("15", &[]), "entries in flight that cannot be read: 1");
    let tables = service.count("SELECT SUM(stock) FROM tb_seckill_voucher");
    assert_eq!((tables, both.count("SELECT COUNT(*) FROM tb_seckill_voucher".into())), (289, 1));
}

/// A user was given back and has bought again: the newer order moves, wherever the two entries wait.
#[test]
fn who_has_bought_again_moves_with_the_newer_order() {
    for older_is_pending in [true, false] {
        let both = Both::start(Database::Sqlite, None);
        let service = &both.service;
        service.loaded_sale("10", 10);
        assert_eq!(service.buy(1), 0);
        assert_eq!(service.buy(2), 0);
        if older_is_pending {
            let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
            service.redis.query::<Reply>(&read);
        }
        service.redis.query::<i64>(&["SREM", "seckill:order:10", "2"]);
        service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
        let order = service.next.load(Relaxed);
        assert_eq!(service.buy(2), 0);
        let done = both.migrate("10", &[]);
        assert_eq!(done["plan"]["in_flight"], 2, "{done}");
        let of_second = "SELECT id FROM tb_voucher_order WHERE user_id = 2".to_owned();
        assert_eq!(both.count(of_second), order, "{done}");
        assert_eq!(service.redis.query::<i64>(&["XLEN", STREAM]), 0);
    }
}

/// The consumer has acknowledged the newer entry without an order: the older one does not stand for it.
#[test]
fn an_order_that_was_given_back_does_not_move() {
    let both = Both::start(Database::Sqlite, None);
    let service = &both.service;
    service.loaded_sale("10", 10);
    let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
    assert_eq!(service.buy(2), 0);
    service.redis.query::<Reply>(&read);
    service.redis.query::<i64>(&["SREM", "seckill:order:10", "2"]);
    service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
    assert_eq!(service.buy(2), 0);
    service.redis.query::<Reply>(&read);
    let newest: Vec<(String, Reply)> =
        service.redis.query(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"]);
    service.redis.query::<i64>(&["XACK", STREAM, "g1", &newest[0].0]);
    let found = both.findings("10", &[]).join("\n");
    assert!(found.contains("buyers without order and entry: 1, for example user 2"), "{found}");
}

#[test]
fn an_entry_that_the_engine_does_not_have_stays_in_the_stream() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 100);
    both.wait_for_silence();
    let kill_at = format!("{}:2", Point::MigrationStep.name());
    let ran = both.spawn("10", &["--yes", "--quiet", "1"], &[(KILL_AT, &kill_at)]).wait(LONG);
    assert!(ran.status.code().is_none(), "{ran}");
    both.release_lock();
    let query = |command: &[&str]| both.service.redis.query::<String>(command);
    let add = ["XADD", STREAM, "*", "voucherId", "10", "userId"];
    let unreadable = query(&[&add[..], &["500", "id", "x"]].concat());
    let second = query(&[&add[..], &["1", "id", "77"]].concat());
    both.migrate("10", &[]);
    let left: Vec<(String, Reply)> = both.service.redis.query(&["XRANGE", STREAM, "-", "+"]);
    let left: Vec<String> = left.into_iter().map(|it| it.0).collect();
    assert!(left.ends_with(&[unreadable, second]), "{left:?}");
    assert_eq!(left.len(), 22, "20 acknowledged by the service: {left:?}");
}

#[test]
fn a_migration_that_cannot_rename_the_stock_leaves_no_mark() {
    let both = Both::start(Database::Sqlite, None);
    both.service.loaded_sale("10", 10);
    let (theirs, ours) = (both.service.redis.url(), both.to_redis());
    let to = ["migrate", "--sale", "10", "--to-redis", &ours, "--to-database", &both.url];
    let all = both.service.args(&theirs, &to);
    let mut pty = both.service.home.pty(&all, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    // Deleted before the answer.
    both.service.redis.query::<i64>(&["DEL", "seckill:stock:10"]);
    pty.send("y\r");
    assert_ne!(pty.exit_status(LONG).exit_code(), 0);
    let left: Vec<String> = both.service.redis.query(&["KEYS", "seckill:stock:10*"]);
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_dry_run_creates_no_database_and_a_recovery_is_no_consumer() {
    let both = Both::start(Database::Sqlite, None);
    both.service.loaded_sale("10", 10);
    let create = ["XGROUP", "CREATECONSUMER", STREAM, "g1", "seckill-attach"];
    both.service.redis.query::<i64>(&create);
    let dry = ["--dry-run", "--quiet", "3600", "--json"];
    both.spawn("10", &dry, &[]).wait(LONG).expect_code(0);
    assert!(!both.service.home.file("engine.db").exists());
}

#[test]
fn a_dry_run_creates_no_tables_and_finds_a_redis_of_another_database() {
    for database in [Database::MariaDb, Database::Postgres] {
        let both = Both::start(database, None);
        both.service.loaded_sale("10", 10);
        let schema = if matches!(database, Database::MariaDb) { "DATABASE()" } else { "'public'" };
        let tables =
            format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {schema}");
        let before = both.count(tables.clone());
        both.run("10", &["--dry-run"]).expect_code(0);
        assert_eq!(both.count(tables.clone()), before);
        let left: Vec<String> = both.service.redis.query(&["KEYS", "*deployment*"]);
        assert_eq!(left, [""; 0]);
        let (redis, other) = (both.to_redis(), both.service.home.file("other.db"));
        let other = format!("sqlite:{}", other.display());
        let create = ["--redis", &redis, "--database", &other, "sale", "create", "--title", "x"];
        let create = [&create[..], &["--stock", "5"]].concat();
        both.service.home.spawn(&create).wait(LONG).expect_code(0);
        refused(both.run("10", &["--dry-run"]), 1, "belong to another database");
        assert_eq!(both.count(tables.clone()), before);
    }
}

#[test]
fn a_signal_does_not_stop_a_migration_while_neither_side_sells() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 40);
    both.wait_for_silence();
    let run = both.spawn("10", &["--yes", "--quiet", "1", "--json"], &[]);
    wait_until_blocking(LONG, "the renamed stock", || {
        both.service.redis.query::<i64>(&["EXISTS", "seckill:stock:10:moving"]) == 1
    });
    run.signal(Signal::INT);
    assert_eq!(run.wait(LONG).expect_code(0).json()["moved"], true);
    both.assert_orders("10");
}

#[test]
fn an_outage_while_neither_side_sells_names_what_to_run() {
    let mut both = Both::start(Database::Sqlite, Some(TestRedis::start()));
    both.sale_with_orders("10", 40);
    both.wait_for_silence();
    let run = both.spawn("10", &["--yes", "--quiet", "1"], &[]);
    wait_until_blocking(LONG, "the renamed stock", || {
        both.service.redis.query::<i64>(&["EXISTS", "seckill:stock:10:moving"]) == 1
    });
    both.service.redis.kill();
    let ran = run.wait(LONG).expect_code(3);
    assert!(ran.stderr.contains("Sale #10 may be stopped on both sides: run"), "{ran}");
}

#[test]
fn a_sale_is_not_ended_if_the_table_of_the_service_cannot_hold_its_orders() {
    let both = Both::start(Database::MariaDb, None);
    both.sale_with_orders("10", 40);
    both.migrate("10", &[]);
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    both.service.sql("ALTER TABLE tb_voucher_order ADD COLUMN shop_id INT NOT NULL");
    refused(both.run("10", &["--back", "--yes"]), 1, "needs values for shop_id");
    let sale = both.engine(&["sale", "show", "10", "--json"]).expect_code(0).json();
    assert_eq!(sale["phase"], "paused");
    both.service.sql("ALTER TABLE tb_voucher_order DROP COLUMN shop_id");
    assert_eq!(both.migrate("10", &["--back"])["moved"], true);
}

#[test]
fn a_row_that_the_service_has_changed_since_the_move_is_not_overwritten() {
    let both = Both::start(Database::Sqlite, None);
    let service = &both.service;
    both.sale_with_orders("10", 100);
    both.migrate("10", &[]);
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    let paid = order_of("10", 6).to_string();
    both.engine(&["orders", "pay", &paid]).expect_code(0);
    let set = |user: i64, status: i64| {
        let order = order_of("10", user);
        service.sql(&format!("UPDATE tb_voucher_order SET status = {status} WHERE id = {order}"));
    };
    // Redeemed there, closed there and paid here, paid there and unpaid here.
    for (user, status, before) in [(1, 3, 2), (6, 4, 1), (7, 2, 1)] {
        set(user, status);
        let found = both.findings("10", &["--back"]).join("\n");
        let order = order_of("10", user);
        let expected =
            format!("the service has changed since the sale moved: 1, the first {order}");
        assert!(found.contains(&expected), "{found}");
        set(user, before);
    }
    let report = both.migrate("10", &["--back"]);
    assert_eq!((&report["plan"]["changed"], &report["plan"]["sql_stock"]), (&1.into(), &79.into()));
    assert_eq!(service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE status = 2"), 6);
}

#[test]
fn what_prevents_a_return_is_named() {
    let redis = TestRedis::setup().tcp().password(PASSWORD).start();
    let both = Both::start(Database::Sqlite, Some(redis));
    let (service, query) = (&both.service, |command: &[&str]| {
        both.service.redis.query::<Reply>(command);
    });
    let back = |part: &str| {
        let found = both.findings("10", &["--back"]);
        assert!(found.iter().any(|it| it.contains(part)), "'{part}' is not in {found:#?}");
    };
    both.sale_with_orders("10", 100);
    refused(both.run("10", &["--back", "--dry-run"]), 1, "there is no sale of voucher 10");
    both.migrate("10", &[]);
    back("is running in the engine");
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    query(&["XADD", STREAM, "*", "userId", "9", "voucherId", "10", "id", "5"]);
    back("entries of the sale in the stream of the service: 1");
    query(&["XTRIM", STREAM, "MAXLEN", "0"]);
    query(&["SET", "seckill:stock:10:moving", "5"]);
    back("has not moved to the engine completely");
    query(&["DEL", "seckill:stock:10:moving"]);
    service.sql("INSERT INTO tb_voucher_order VALUES (77, 700, 10, 1)");
    back("that the engine does not have: 1, the first 77");
    service.sql("DELETE FROM tb_voucher_order WHERE id = 77");
    let taken =
        format!("UPDATE tb_voucher_order SET user_id = 900 WHERE id = {}", order_of("10", 1));
    service.sql(&taken);
    back("belong to other users in the table of the service: 1");
    service.sql(&taken.replace("900", "1"));
    query(&["SET", "seckill:stock:10", "5"]);
    refused(both.run("10", &["--back", "--yes"]), 1, "has loaded its stock again");
    query(&["DEL", "seckill:stock:10"]);
    let other = both.service.redis.query::<String>(&["GET", "seckill:stock:10:moved"]);
    query(&["SET", "seckill:stock:10:moved", "another 5"]);
    refused(both.run("10", &["--back", "--yes"]), 1, "has moved to another engine");
    query(&["SET", "seckill:stock:10:moved", &other]);

    // What the engine has paid and closed meanwhile goes back as well.
    let paid = order_of("10", 6).to_string();
    both.engine(&["orders", "pay", &paid]).expect_code(0);
    let config = service.home.file("config.toml");
    fs::write(&config, "[engine.jobs]\nunpaid_ms = 1000\n").unwrap();
    let close = ["--config", config.to_str().unwrap(), "jobs", "run", "close-overdue"];
    wait_until_blocking(LONG, "unpaid orders are closed", || {
        both.engine(&close).expect_code(0);
        both.count("SELECT COUNT(*) FROM tb_voucher_order WHERE status = 5".to_owned()) == 24
    });
    let ran = both.run("10", &["--back", "--yes"]);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(PASSWORD), "{ran}");
    let report = ran.expect_code(0).json();
    assert_eq!((&report["plan"]["live"], &report["plan"]["closed"]), (&6.into(), &24.into()));
    let live = "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10 AND status = 2";
    let closed = "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10 AND status = 4";
    let stock = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = 10";
    assert_eq!((service.count(live), service.count(closed), service.count(stock)), (6, 24, 94));
    let admit = |user: i64| {
        let mut redis = service.redis.connection();
        Script::new(SCRIPT).arg("10").arg(user).arg(user).invoke::<i64>(&mut redis).unwrap()
    };
    assert_eq!((admit(6), admit(7)), (2, 0));
    service.consume();
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

const DATABASES: [Database; 3] = [Database::Sqlite, Database::MariaDb, Database::Postgres];

#[test]
fn a_stock_that_is_loaded_while_a_return_is_asked_prevents_it() {
    for database in DATABASES {
        let both = Both::moved(database, None, 40);
        let mut pty = both.asks(&["--back"]);
        both.service.redis.query::<()>(&["SET", "seckill:stock:10", "80"]);
        pty.send("y\r");
        pty.wait_for_text("has loaded its stock again");
        assert_ne!(pty.exit_status(LONG).exit_code(), 0);
        // Nothing was ended, written or recorded.
        assert_eq!(
            (both.phase().as_str(), both.traces()),
            ("paused", vec![String::new(), ":moved".into()])
        );
        assert!(both.service_has(19));
        refused(both.run("10", &["--back", "--yes"]), 1, "has loaded its stock again");
        both.service.redis.query::<i64>(&["DEL", "seckill:stock:10"]);
        let report = both.migrate("10", &["--back"]);
        assert_eq!(report["proof"]["stock_matches"], true, "{report}");
        let stock: i64 = both.service.redis.query(&["GET", "seckill:stock:10"]);
        assert!(stock == 10 && both.service_has(10), "{stock}");
        assert_eq!(both.traces(), [""]);
    }
}

/// What is done to the service, or undone.
type Step<'s> = Box<dyn Fn() + 's>;

/// What prevents the return is seen before the sale ends, also if it came while the operator read the plan.
#[test]
fn what_changes_while_a_return_is_asked_ends_nothing() {
    let both = Both::moved(Database::Sqlite, None, 40);
    let query = |command: &[&str]| both.service.redis.query::<Reply>(command);
    let buyers = "seckill:order:10";
    let entry = || query(&["XADD", STREAM, "*", "userId", "9", "voucherId", "10", "id", "5"]);
    let row = "INSERT INTO tb_voucher_order VALUES (77, 700, 10, 1)";
    let steps: [(&str, Step<'_>, Step<'_>); 4] = [
        (
            "has the wrong type",
            Box::new(|| {
                query(&["RENAME", buyers, "kept"]);
                query(&["SET", buyers, "x"]);
            }),
            Box::new(|| {
                query(&["RENAME", "kept", buyers]);
            }),
        ),
        (
            "entries of the sale in the stream",
            Box::new(|| {
                entry();
            }),
            Box::new(|| {
                query(&["XTRIM", STREAM, "MAXLEN", "0"]);
            }),
        ),
        (
            "that the engine does not have",
            Box::new(|| both.service.sql(row)),
            Box::new(|| both.service.sql("DELETE FROM tb_voucher_order WHERE id = 77")),
        ),
        (
            "is running in the engine",
            Box::new(|| {
                both.engine(&["sale", "resume", "10"]).expect_code(0);
            }),
            Box::new(|| {
                both.engine(&["sale", "pause", "10"]).expect_code(0);
            }),
        ),
    ];
    for (says, change, undo) in steps {
        let mut pty = both.asks(&["--back"]);
        change();
        pty.send("y\r");
        pty.wait_for_text(says);
        assert_ne!(pty.exit_status(LONG).exit_code(), 0, "{says}");
        let phase = if says.starts_with("is running") { "running" } else { "paused" };
        assert_eq!(
            (both.phase().as_str(), both.traces()),
            (phase, vec![":moved".into()]),
            "{says}"
        );
        assert!(both.service_has(19), "{says}");
        undo();
    }
    both.migrate("10", &["--back"]);
    assert!(both.service_has(10));
}

#[test]
fn a_stock_that_changes_while_a_migration_is_asked_is_left_alone() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 40);
    let mut pty = both.asks(&[]);
    both.service.redis.query::<()>(&["SET", "seckill:stock:10", "80"]);
    pty.send("y\r");
    pty.wait_for_text("the sale changed while it was prepared");
    assert_ne!(pty.exit_status(LONG).exit_code(), 0);
    let stock: i64 = both.service.redis.query(&["GET", "seckill:stock:10"]);
    assert_eq!((stock, both.traces()), (80, vec![String::new()]));
    both.service.redis.query::<()>(&["SET", "seckill:stock:10", "10"]);
    // What Redis does not show is compared after the stock was renamed.
    let mut pty = both.asks(&[]);
    let order = order_of("10", 7);
    both.service.sql(&format!("UPDATE tb_voucher_order SET status = 2 WHERE id = {order}"));
    pty.send("y\r");
    pty.wait_for_text("the sale changed while it was prepared");
    assert_ne!(pty.exit_status(LONG).exit_code(), 0);
    assert_eq!((both.traces(), both.admit("10", 31).unwrap()), (vec![String::new()], 0));
    both.migrate("10", &[]);
    assert_eq!(both.pay(7), "paid_before");
}

#[test]
fn payments_beside_a_return_are_kept_or_refused() {
    for database in DATABASES {
        let both = Arc::new(Both::moved(database, Some(TestRedis::start()), 40));
        let buyers = {
            let both = both.clone();
            std::thread::spawn(move || {
                (6..=30).map(|user| (user, both.pay(user))).collect::<Vec<_>>()
            })
        };
        let unpaid = "SELECT COUNT(*) FROM tb_voucher_order WHERE status = 1 AND voucher_id = 10";
        wait_until_blocking(LONG, "the first payments", || both.count(unpaid.into()) < 24);
        let report = both.migrate("10", &["--back"]);
        assert_eq!(report["moved"], true, "{report}");
        let results = buyers.join().unwrap();
        for (user, result) in &results {
            let expected = match result.as_str() {
                "paid" => 2,
                "returned" => 1,
                other => panic!("user {user}: {other}"),
            };
            assert_eq!(both.status_at_service(*user), expected, "user {user}: {results:?}");
        }
        let refused_now = results.iter().filter(|it| it.1 == "returned").count();
        assert!(refused_now > 0, "no payment was made after the return: {results:?}");
        // Nor are they closed: the service decides about them.
        let config = both.service.home.file("config.toml");
        fs::write(&config, "[engine.jobs]\nunpaid_ms = 1000\n").unwrap();
        let close = ["--config", config.to_str().unwrap(), "jobs", "run", "close-overdue"];
        both.engine(&close).expect_code(0);
        assert_eq!(both.count(unpaid.into()), refused_now as i64);
        let order = order_of("10", 30).to_string();
        let ran = both.engine(&["orders", "pay", &order]).expect_code(1);
        assert!(ran.stdout.contains("goes back to the service that it came from"), "{ran}");
        both.engine(&["audit", "--json"]).expect_code(0);
    }
}

#[test]
fn orders_are_frozen_until_a_return_is_completed_or_refused() {
    let both = Both::moved(Database::Sqlite, None, 40);
    both.wait_for_silence();
    let die = |pass: u32| {
        let kill_at = format!("{}:{pass}", Point::MigrationStep.name());
        let args = ["--back", "--yes", "--quiet", "1"];
        let ran = both.spawn("10", &args, &[(KILL_AT, &kill_at)]).wait(LONG);
        assert!(ran.status.code().is_none(), "{ran}");
        both.release_lock();
    };
    // Ended, not frozen.
    die(2);
    assert_eq!((both.phase().as_str(), both.pay(6).as_str()), ("ended", "paid"));
    // Frozen.
    die(3);
    assert_eq!(both.pay(7), "returned");
    // Something prevents it now: the orders are paid where they are.
    both.service.sql("INSERT INTO tb_voucher_order VALUES (77, 700, 10, 1)");
    both.run("10", &["--back", "--yes"]).expect_code(1);
    assert_eq!(
        (both.pay(7).as_str(), both.traces()),
        ("paid", vec![":moved".into(), ":returning".into()])
    );
    both.service.sql("DELETE FROM tb_voucher_order WHERE id = 77");
    refused(both.run("10", &["--yes"]), 1, "is on its way back");
    both.migrate("10", &["--back"]);
    assert_eq!((both.status_at_service(6), both.status_at_service(7)), (2, 2));
    assert_eq!((both.status_at_service(8), both.pay(8).as_str()), (1, "returned"));
}

#[test]
fn a_payment_that_the_service_takes_during_a_move_is_carried_over() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 40);
    both.wait_for_silence();
    let kill_at = format!("{}:2", Point::MigrationStep.name());
    let ran = both.spawn("10", &["--yes", "--quiet", "1"], &[(KILL_AT, &kill_at)]).wait(LONG);
    assert!(ran.status.code().is_none(), "{ran}");
    both.release_lock();
    let pay = |user: i64| {
        let order = order_of("10", user);
        both.service.sql(&format!("UPDATE tb_voucher_order SET status = 2 WHERE id = {order}"));
    };
    pay(6);
    assert_eq!(both.migrate("10", &[])["moved"], true);
    assert_eq!(both.pay(6), "paid_before");
    // After it has moved, by the next run.
    pay(7);
    let again = both.migrate("10", &[]);
    assert_eq!((&again["moved"], &again["carried"]), (&true.into(), &1.into()), "{again}");
    assert_eq!(both.pay(7), "paid_before");
    // What the service has closed meanwhile differs, and is not decided.
    let closed = order_of("10", 8);
    both.service.sql(&format!("UPDATE tb_voucher_order SET status = 4 WHERE id = {closed}"));
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    let found = both.findings("10", &["--back"]).join("\n");
    assert!(found.contains("the service has changed since the sale moved: 1"), "{found}");
}

#[test]
fn a_table_that_rejects_rows_is_found_before_the_sale_ends() {
    for database in DATABASES {
        let both = Both::moved(database, None, 40);
        let (reject, permit) = match database {
            Database::Sqlite => (
                "CREATE TRIGGER no BEFORE INSERT ON tb_voucher_order BEGIN \
                 SELECT RAISE(ABORT, 'closed for stocktaking'); END",
                "DROP TRIGGER no",
            ),
            Database::MariaDb => (
                "CREATE TRIGGER no BEFORE INSERT ON tb_voucher_order FOR EACH ROW \
                 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'closed for stocktaking'",
                "DROP TRIGGER no",
            ),
            Database::Postgres => (
                "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 RAISE 'closed for stocktaking'; END $$; \
                 CREATE TRIGGER no BEFORE INSERT ON tb_voucher_order EXECUTE FUNCTION no()",
                "DROP TRIGGER no ON tb_voucher_order",
            ),
        };
        both.service.sql(reject);
        let ran = both.run("10", &["--back", "--yes"]);
        assert!(ran.code() != 0 && ran.stderr.contains("closed for stocktaking"), "{ran}");
        assert_eq!((both.phase().as_str(), both.traces()), ("paused", vec![":moved".into()]));
        assert_eq!(both.pay(6), "paid");
        both.service.sql(permit);
        assert_eq!(both.migrate("10", &["--back"])["moved"], true);
        assert_eq!(both.status_at_service(6), 2);
    }
}

#[test]
fn a_sale_that_cannot_be_ended_keeps_no_trace_of_a_return() {
    let both = Both::moved(Database::Sqlite, None, 40);
    let mut pty = both.asks(&["--back"]);
    let _runtime = both.service.runtime.enter();
    let mut writer = both.service.runtime.block_on(both.pool.connection()).unwrap();
    both.service.runtime.block_on(writer.command("BEGIN IMMEDIATE")).unwrap();
    pty.send("y\r");
    assert_ne!(pty.exit_status(LONG).exit_code(), 0);
    assert_eq!(both.traces(), [":moved"]);
    both.service.runtime.block_on(writer.command("ROLLBACK")).unwrap();
    drop(writer);
    assert_eq!(both.phase(), "paused");
    assert_eq!(both.migrate("10", &["--back"])["moved"], true);
}

/// A replica may lag behind; its rows decide nothing.
#[test]
fn a_replica_of_the_service_is_refused() {
    let refused_by = |both: &Both| {
        let found = both.findings("10", &[]).join("\n");
        assert!(found.contains("the database of the service takes no writes"), "{found}");
        assert_eq!(both.traces(), [""]);
    };
    let mariadb = MariaDb::start();
    let both = Both::at(Database::MariaDb, |runtime| runtime.block_on(mariadb.database()));
    both.sale_with_orders("10", 40);
    both.service.sql("SET GLOBAL read_only = ON");
    refused_by(&both);
    both.service.sql("SET GLOBAL read_only = OFF");
    both.migrate("10", &[]);
    both.engine(&["sale", "pause", "10"]).expect_code(0);
    both.service.sql("SET GLOBAL read_only = ON");
    let found = both.findings("10", &["--back"]).join("\n");
    assert!(found.contains("the database of the service takes no writes"), "{found}");

    let mut postgres = Postgres::start();
    let both = Both::at(Database::Postgres, |runtime| runtime.block_on(postgres.database()));
    both.sale_with_orders("10", 40);
    both.service.sql("CHECKPOINT");
    both.service.sql("COPY (SELECT 1) TO PROGRAM 'touch standby.signal'");
    postgres.restart();
    refused_by(&both);
}

/// A run that was stopped for longer than its lock lasts goes on after another one has put the stock back.
#[test]
fn a_stopped_run_moves_nothing_after_another_has_undone_it() {
    let both = Both::start(Database::Sqlite, None);
    both.sale_with_orders("10", 40);
    both.wait_for_silence();
    let stopped = both.spawn("10", &["--yes", "--quiet", "1"], &[]);
    wait_until_blocking(LONG, "the renamed stock", || {
        both.service.redis.query::<i64>(&["EXISTS", "seckill:stock:10:moving"]) == 1
    });
    stopped.freeze();
    assert_eq!(both.traces(), [":moved", ":moving"], "it went on too soon");
    both.release_lock();
    // Nobody agrees.
    refused(both.run("10", &[]), 2, "--yes");
    assert_eq!((both.traces(), both.admit("10", 31).unwrap()), (vec![String::new()], 0));
    stopped.signal(Signal::CONT);
    let ran = stopped.wait(LONG);
    assert_ne!(ran.code(), 0, "{ran}");
    assert_eq!((both.traces(), both.admit("10", 32).unwrap()), (vec![String::new()], 0));
    both.assert_one_side("10");
    assert_eq!(both.migrate("10", &[])["plan"]["in_flight"], 11);
}

/// The commit of the import is lost, or its reply. The next run knows which before it puts the stock back.
#[test]
fn a_commit_with_an_unknown_outcome_is_on_one_side() {
    for (cut, moves) in [(Cut::Before, false), (Cut::After, true)] {
        let both = Both::start(Database::MariaDb, None);
        both.sale_with_orders("10", 40);
        both.wait_for_silence();
        let server = MariaDb::shared();
        let path = both.url.split('?').next().unwrap();
        let name = path.split('/').next_back().unwrap().to_owned();
        let proxy = both.service.runtime.block_on(Proxy::before(server.port()));
        let url = proxy.url(&server.tcp_url_of(&name), server.port());
        let (redis, ours) = (both.service.redis.url(), both.to_redis());
        let to = ["migrate", "--sale", "10", "--to-redis", &ours, "--to-database", &url];
        let all = [&to[..], &["--yes", "--quiet", "1"]].concat();
        let run = both.service.home.spawn(&both.service.args(&redis, &all));
        wait_until_blocking(LONG, "the renamed stock", || {
            both.service.redis.query::<i64>(&["EXISTS", "seckill:stock:10:moving"]) == 1
        });
        proxy.cut_at_commit(cut);
        let ran = run.wait(LONG);
        assert_eq!((ran.code() == 0, proxy.heal()), (false, vec![true]), "{ran}");
        assert!(both.admit("10", 31).is_err(), "put back with an unknown outcome");
        let ran = both.run("10", &[]);
        both.assert_one_side("10");
        if moves {
            assert_eq!(ran.expect_code(0).json()["moved"], true);
            both.assert_orders("10");
        } else {
            refused(ran, 2, "--yes");
            assert_eq!(both.admit("10", 31).unwrap(), 0);
        }
    }
}
