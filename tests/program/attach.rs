//! `seckill attach` at a small service like those of the tutorials: their script, a consumer, and their faults.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::support::{
    Background, LONG, MariaDb, PASSWORD, PATIENCE, Postgres, Ran, Seckill, Terminal, TestRedis,
    key, refused, wait_until_blocking,
};
use redis::{RedisResult, Script};
use rustix::process::Signal;
use seckill_store::{
    Settings,
    plain::{PlainConnection, PlainPool, SessionSettings},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Text 000, section 12.6, without its comments.
pub(crate) const SCRIPT: &str = "\
local voucherId = ARGV[1]
local userId = ARGV[2]
local orderId = ARGV[3]
local stockKey = 'seckill:stock:' .. voucherId
local orderKey = 'seckill:order:' .. voucherId
if(tonumber(redis.call('get', stockKey)) <= 0) then
    return 1
end
if(redis.call('sismember', orderKey, userId) == 1) then
    return 2
end
redis.call('incrby', stockKey, -1)
redis.call('sadd', orderKey, userId)
redis.call('xadd', 'stream.orders', '*', 'userId', userId, 'voucherId', voucherId, 'id', orderId)
return 0
";

pub(crate) const SALE: &str = "10";
pub(crate) const STREAM: &str = "stream.orders";

/// A database of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Database {
    Sqlite,
    MariaDb,
    Postgres,
}

/// The service: its Redis, its database, and nothing of seckill.
pub(crate) struct Service {
    pub(crate) home: Seckill,
    pub(crate) redis: TestRedis,
    pub(crate) url: String,
    pub(crate) runtime: Runtime,
    pub(crate) pool: PlainPool,
    pub(crate) next: AtomicI64,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::on(Database::Sqlite, TestRedis::start())
    }

    pub(crate) fn on(database: Database, redis: TestRedis) -> Self {
        let (home, runtime) = (Seckill::new(), Runtime::new().unwrap());
        let url = runtime.block_on(async {
            match database {
                Database::Sqlite => format!("sqlite:{}", home.file("shop.db").display()),
                Database::MariaDb => MariaDb::shared().database().await,
                Database::Postgres => Postgres::shared().database().await,
            }
        });
        Self::at(database, redis, home, runtime, url)
    }

    pub(crate) fn at(
        database: Database,
        redis: TestRedis,
        home: Seckill,
        runtime: Runtime,
        url: String,
    ) -> Self {
        let pool = PlainPool::open(&url, 4).unwrap();
        let service = Self { home, redis, url, runtime, pool, next: AtomicI64::new(1) };
        let (id, date, small) = match database {
            Database::Postgres => ("BIGINT", "TIMESTAMP", "SMALLINT"),
            _ => ("BIGINT UNSIGNED", "DATETIME", "TINYINT UNSIGNED"),
        };
        service.sql("CREATE TABLE tb_voucher (id BIGINT PRIMARY KEY, title VARCHAR(255) NOT NULL)");
        service.sql(&format!(
            "CREATE TABLE tb_seckill_voucher (voucher_id {id} PRIMARY KEY, stock INT NOT NULL, \
             begin_time {date} NOT NULL, end_time {date} NOT NULL)"
        ));
        service.sql(&format!(
            "CREATE TABLE tb_voucher_order (id BIGINT PRIMARY KEY, user_id {id} NOT NULL, \
             voucher_id {id} NOT NULL, status {small} DEFAULT 1 NOT NULL)"
        ));
        service.redis.query::<()>(&["XGROUP", "CREATE", STREAM, "g1", "0", "MKSTREAM"]);
        service
    }

    pub(crate) fn sql(&self, sql: &str) {
        self.runtime.block_on(async {
            self.pool.connection().await.unwrap().command(sql).await.unwrap();
        });
    }

    pub(crate) fn count(&self, sql: &'static str) -> i64 {
        self.runtime.block_on(async {
            let rows = self.pool.connection().await.unwrap().rows::<1>(sql, &[]).await.unwrap();
            rows[0][0]
        })
    }

    /// A sale that runs now.
    pub(crate) fn sale(&self, voucher: &str, stock: i64) {
        self.sql(&format!("INSERT INTO tb_voucher VALUES ({voucher}, 'hot pot')"));
        self.sql(&format!(
            "INSERT INTO tb_seckill_voucher VALUES ({voucher}, {stock}, '2022-01-01 00:00:00', \
             '2099-01-01 00:00:00')"
        ));
    }

    pub(crate) fn loaded_sale(&self, voucher: &str, stock: i64) {
        self.sale(voucher, stock);
        self.redis.query::<()>(&["SET", &format!("seckill:stock:{voucher}"), &stock.to_string()]);
    }

    pub(crate) fn buy(&self, user: i64) -> i64 {
        let order = self.next.fetch_add(1, Relaxed);
        buy(&mut self.redis.connection(), user, order).unwrap()
    }

    fn order(&self, user: i64) {
        let order = self.next.fetch_add(1, Relaxed) + 1_000_000;
        self.sql(&format!("INSERT INTO tb_voucher_order VALUES ({order}, {user}, {SALE}, 1)"));
    }

    /// The consumer handles all entries that were added.
    pub(crate) fn consume(&self) {
        let mut redis = self.redis.connection();
        self.runtime.block_on(async {
            let mut conn = self.pool.connection().await.unwrap();
            while consume(&mut redis, &mut conn, true).await {}
        });
    }

    pub(crate) fn args<'a>(&'a self, redis: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        let servers = ["attach", "--redis", redis, "--database", &self.url];
        [&servers[..], args].concat()
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Background {
        self.home.spawn(&self.args(&self.redis.url(), args))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.spawn(args).wait(PATIENCE)
    }

    /// The report of `attach status`, which exits with this code.
    #[track_caller]
    pub(crate) fn status(&self, code: i32, args: &[&str]) -> Value {
        self.run(&[&["status", "--json"], args].concat()).expect_code(code).json()
    }

    #[track_caller]
    pub(crate) fn doctor(&self, code: i32, args: &[&str]) -> Value {
        self.run(&[args, &["doctor", "--json"]].concat()).expect_code(code).json()
    }
}

pub(crate) fn buy(redis: &mut redis::Connection, user: i64, order: i64) -> RedisResult<i64> {
    Script::new(SCRIPT).arg(SALE).arg(user).arg(order).invoke(redis)
}

/// Handles one entry as the tutorials do, with one transaction; `false` if there is none. Without `acknowledges`, it
/// dies before XACK.
pub(crate) async fn consume(
    redis: &mut redis::Connection,
    conn: &mut PlainConnection,
    acknowledges: bool,
) -> bool {
    consume_for(redis, conn, acknowledges.then_some(STREAM)).await
}

/// The same, with the stream that XACK names.
async fn consume_for(
    redis: &mut redis::Connection,
    conn: &mut PlainConnection,
    acknowledged: Option<&str>,
) -> bool {
    type Entry = (String, Vec<(String, String)>);
    let mut read = redis::cmd("XREADGROUP");
    read.arg("GROUP").arg("g1").arg("c1").arg("COUNT").arg(1).arg("BLOCK").arg(20);
    read.arg("STREAMS").arg(STREAM).arg(">");
    let found: Option<Vec<(String, Vec<Entry>)>> = read.query(redis).unwrap();
    let Some((id, fields)) = found.and_then(|mut it| it.pop()?.1.pop()) else { return false };
    let Some(acknowledged) = acknowledged else { return true };
    let field =
        |name: &str| -> i64 { fields.iter().find(|it| it.0 == name).unwrap().1.parse().unwrap() };
    let (order, user, voucher) = (field("id"), field("userId"), field("voucherId"));
    conn.command("BEGIN").await.unwrap();
    let update =
        "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1 AND stock > 0";
    assert_eq!(conn.execute(update, &[voucher]).await.unwrap(), 1);
    let insert = "INSERT INTO tb_voucher_order VALUES ($1, $2, $3, 1)";
    conn.execute(insert, &[order, user, voucher]).await.unwrap();
    conn.command("COMMIT").await.unwrap();
    redis::cmd("XACK").arg(acknowledged).arg("g1").arg(id).exec(redis).unwrap();
    true
}

/// Each alarm with its sale, if it has one.
fn alarms(report: &Value) -> BTreeSet<String> {
    let of = |it: &Value| match it["voucher"].as_u64() {
        Some(voucher) => format!("{} {voucher}", it["alarm"].as_str().unwrap()),
        None => it["alarm"].as_str().unwrap().to_owned(),
    };
    report["alarms"].as_array().unwrap().iter().map(of).collect()
}

pub(crate) fn alarm<'r>(report: &'r Value, name: &str) -> &'r Value {
    let found = report["alarms"].as_array().unwrap().iter().find(|it| it["alarm"] == name);
    found.unwrap_or_else(|| panic!("{name}: {report}"))
}

pub(crate) fn sale(report: &Value, voucher: u64) -> &Value {
    let found = report["sales"].as_array().unwrap().iter().find(|it| it["voucher_id"] == voucher);
    found.unwrap_or_else(|| panic!("{voucher}: {report}"))
}

/// The checks of `doctor` with this name: grade, and what was found.
fn checks(report: &Value, name: &str) -> Vec<(String, String)> {
    let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    let all = report["checks"].as_array().unwrap().iter().filter(|it| it["name"] == name);
    all.map(|it| (text(it, "grade"), text(it, "found"))).collect()
}

fn faults_raise_their_alarms(database: Database) {
    let service = Service::on(database, TestRedis::start());
    service.loaded_sale(SALE, 100);
    for user in 1..=30 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    assert_eq!((service.buy(1), service.count("SELECT COUNT(*) FROM tb_voucher_order")), (2, 30));
    let healthy = service.status(0, &[]);
    assert_eq!(healthy["alarms"], json!([]), "{healthy}");

    let query = |command: &[&str]| {
        service.redis.query::<redis::Value>(command);
    };
    // Buyers whose orders were acknowledged and not written.
    query(&["SADD", "seckill:order:10", "9001", "9003"]);
    // An order that bypassed Redis, and the second order of a user.
    service.order(9002);
    service.order(1);
    // The consumer dies before it acknowledges.
    assert_eq!(service.buy(5001), 0);
    service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        assert!(consume(&mut service.redis.connection(), &mut conn, false).await);
    });
    query(&["XADD", STREAM, "*", "user", "7", "voucherId", SALE, "id", "1"]);
    // A lock whose EXPIRE was forgotten, and one of Redisson that is never released.
    query(&["SET", "lock:order:7", "thread-1"]);
    query(&["HSET", "lock:order:8", "3f2a:31", "2"]);
    query(&["PEXPIRE", "lock:order:8", "300000"]);
    service.sale("11", -3);
    query(&["SET", "seckill:stock:11", "-3"]);
    service.loaded_sale("12", 5);
    query(&["SET", "seckill:order:12", "x"]);
    service.sale("13", 5);

    let report = service.status(1, &["--stuck", "1"]);
    let expected = [
        "buyers_without_order 10",
        "duplicate_orders 10",
        "foreign_key",
        "lag_high",
        "lock_not_released",
        "lock_without_lease",
        "orders_without_buyer 10",
        "oversold 11",
        "poison_entries",
        "sale_not_loaded 13",
        "stuck_pending",
    ];
    assert_eq!(alarms(&report), expected.map(str::to_owned).into(), "{report}");
    let found = alarm(&report, "buyers_without_order");
    assert_eq!((&found["users"], &found["user"]), (&2.into(), &"9001".into()));
    let found = alarm(&report, "orders_without_buyer");
    assert_eq!((&found["users"], &found["user"]), (&1.into(), &"9002".into()));
    let found = alarm(&report, "stuck_pending");
    assert_eq!((&found["consumer"], &found["count"]), (&"c1".into(), &1.into()));
    assert_eq!(alarm(&report, "poison_entries")["why"]["name"], "userId");
    assert_eq!(alarm(&report, "lock_without_lease")["key"], "lock:order:7");
    assert_eq!(alarm(&report, "lock_not_released")["key"], "lock:order:8");
    assert_eq!(alarm(&report, "foreign_key")["key"], "seckill:order:12");

    // The figures, against a count of their own.
    let ten = sale(&report, 10);
    let orders = service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10");
    let buyers: i64 = service.redis.query(&["SCARD", "seckill:order:10"]);
    let stock: i64 = service.redis.query(&["GET", "seckill:stock:10"]);
    assert_eq!((orders, buyers, stock), (32, 33, 69));
    for (key, count) in [
        ("redis_stock", 69),
        ("sql_stock", 70),
        ("buyers", 33),
        ("orders", 32),
        ("live_orders", 32),
        ("in_flight", 1),
        ("buyers_without_order", 2),
        ("orders_without_buyer", 1),
        ("duplicate_buyers", 1),
    ] {
        assert_eq!(ten[key], count, "{key}: {ten}");
    }
    assert_eq!((&ten["phase"], &ten["title"]), (&"running".into(), &"hot pot".into()));
    let stream = &report["stream"];
    assert_eq!(
        (&stream["length"], &stream["lag"], &stream["pending"]),
        (&32.into(), &1.into(), &1.into())
    );
    assert_eq!(stream["consumers"][0]["name"], "c1");
    let locks = &report["locks"];
    assert_eq!((&locks["complete"], &locks["held"][0]["kind"]), (&true.into(), &"string".into()));
    assert_eq!(
        (&locks["held"][1]["owner"], &locks["held"][1]["depth"]),
        (&"3f2a:31".into(), &2.into())
    );

    // Cancelled orders are no second orders, and their users are no buyers.
    service.sql("UPDATE tb_voucher_order SET status = 4 WHERE id > 1000000");
    let report = service.status(1, &[]);
    let gone = ["duplicate_orders 10", "orders_without_buyer 10"];
    assert!(gone.iter().all(|it| !alarms(&report).contains(*it)), "{report}");
    assert_eq!(report["not_compared"], json!([]));
    query(&["SET", "seckill:stock:10", "60"]);
    let report = service.status(1, &["--compare", "10"]);
    assert!(report["not_compared"][0].as_str().unwrap().contains("more than the 10 orders"));
    let found = alarm(&report, "stock_mismatch");
    let figures = ["redis_stock", "sql_stock", "in_flight"].map(|key| found[key].as_i64().unwrap());
    assert_eq!(figures, [60, 70, 1]);
    let text = service.run(&["status"]).expect_code(1).stdout;
    assert!(text.contains("! Sale #11 is oversold: its stock is -3."), "{text}");
}

/// Five users buy with IDs as in text 000, whose time is this many hours ahead of UTC, and a counter for each day.
fn buy_with_ids(service: &Service, hours: i64, counter_expires: bool) {
    let mut redis = service.redis.connection();
    for user in 1..=5 {
        let (seconds, _): (i64, i64) = service.redis.query(&["TIME"]);
        let mut count = 0;
        // The next day is the day of the report if it begins meanwhile.
        for day in [0, 1] {
            let at = jiff::Timestamp::from_second(seconds + day * 86_400).unwrap();
            let day = at.in_tz("Asia/Shanghai").unwrap().strftime("%Y:%m:%d");
            let key = format!("icr:order:{day}");
            count = service.redis.query::<i64>(&["INCR", &key]);
            if counter_expires {
                service.redis.query::<i64>(&["EXPIRE", &key, "172800"]);
            }
        }
        let order = ((seconds + hours * 3_600 - 1_640_995_200) << 32) | count;
        assert_eq!(buy(&mut redis, user, order).unwrap(), 0);
    }
    service.consume();
}

#[test]
fn order_ids_from_local_time_and_their_counter_are_alarms() {
    let right = Service::start();
    right.loaded_sale(SALE, 10);
    buy_with_ids(&right, 0, true);
    assert_eq!(right.status(0, &[])["alarms"], json!([]));
    let wrong = Service::start();
    wrong.loaded_sale(SALE, 10);
    buy_with_ids(&wrong, 8, false);
    // They harm later: nothing is wrong now.
    let report = wrong.status(0, &[]);
    let expected = ["counter_stays", "local_time_ids"];
    assert_eq!(alarms(&report), expected.map(str::to_owned).into(), "{report}");
    assert_eq!(alarm(&report, "local_time_ids")["minutes"], 480);
    assert_eq!(alarm(&report, "counter_stays")["urgency"], "notice", "{report}");
    let text = wrong.run(&["status"]).expect_code(0).stdout;
    assert!(text.contains("differs by +8 hours") && text.contains("\n- Counter icr"), "{text}");
    wrong.redis.query::<i64>(&["SADD", "seckill:order:10", "9001"]);
    assert_eq!(wrong.status(1, &[])["alarms"][0]["urgency"], "critical");
}

#[test]
fn a_stock_whose_transaction_was_rolled_back_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("BEGIN").await.unwrap();
        let dates = "'2022-01-01 00:00:00', '2099-01-01 00:00:00'";
        let insert = format!("INSERT INTO tb_seckill_voucher VALUES (11, 5, {dates})");
        conn.command(&insert).await.unwrap();
        service.redis.query::<()>(&["SET", "seckill:stock:11", "5"]);
        conn.command("ROLLBACK").await.unwrap();
    });
    let report = service.status(1, &[]);
    assert_eq!(alarms(&report), ["stock_without_sale".to_owned()].into(), "{report}");
    assert_eq!(alarm(&report, "stock_without_sale")["key"], "seckill:stock:11");
    service.sale("11", 5);
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

/// Entries of a node that counts in UTC are among those of one that does not, or no entry is left.
#[test]
fn an_order_id_from_the_future_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 20);
    let (seconds, _): (i64, i64) = service.redis.query(&["TIME"]);
    let id = |ahead: i64| ((seconds + ahead - 1_640_995_200) << 32) | 7;
    let mut redis = service.redis.connection();
    // Clocks differ a little.
    for (user, ahead) in [(1, 0), (2, 30)] {
        assert_eq!(buy(&mut redis, user, id(ahead)).unwrap(), 0);
    }
    service.consume();
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
    assert_eq!(buy(&mut redis, 3, id(8 * 3_600)).unwrap(), 0);
    service.consume();
    let report = service.status(0, &[]);
    assert_eq!(alarms(&report), ["future_ids".to_owned()].into(), "{report}");
    service.redis.query::<i64>(&["XTRIM", STREAM, "MAXLEN", "0"]);
    let report = service.status(0, &[]);
    let found = alarm(&report, "future_ids");
    assert_eq!(found["order"], id(8 * 3_600).to_string(), "{report}");
    assert!((475..=480).contains(&found["minutes"].as_i64().unwrap()), "{report}");
    // No zone is as far ahead: the clock or the epoch is wrong, unless the IDs have another form.
    let years = 30 * 366 * 86_400;
    for (number, ahead) in [(1, 15 * 3_600), (2, years)] {
        assert_eq!(buy(&mut redis, 3 + number, id(ahead)).unwrap(), 0);
        service.consume();
        let report = service.status(0, &[]);
        assert_eq!(alarm(&report, "future_ids")["order"], id(ahead).to_string(), "{report}");
    }
    assert_eq!(buy(&mut redis, 6, id(years) | 0x7fff_ffff).unwrap(), 0);
    service.consume();
    let report = service.status(0, &[]);
    assert_eq!(alarm(&report, "future_ids")["order"], id(8 * 3_600).to_string(), "{report}");
    // IDs without a counter of the day have another form.
    let profile = service.home.file("mine.toml");
    fs::write(&profile, "[keys]\norder_ids = \"\"\n").unwrap();
    let report = service.status(0, &["--profile", profile.to_str().unwrap()]);
    assert_eq!(report["alarms"], json!([]), "{report}");
}

/// A consumer takes a new name at each start, and the names of dead ones stay.
#[test]
fn consumers_that_pile_up_are_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let create = |name: &str| {
        service.redis.query::<i64>(&["XGROUP", "CREATECONSUMER", STREAM, "g1", name]);
    };
    for name in ["a", "b", "c", "d", "e"] {
        create(name);
    }
    let is_idle = || {
        let consumers: Vec<std::collections::HashMap<String, redis::Value>> =
            service.redis.query(&["XINFO", "CONSUMERS", STREAM, "g1"]);
        consumers.iter().all(|it| matches!(it["idle"], redis::Value::Int(idle) if idle > 10_000))
    };
    wait_until_blocking(LONG, "idle consumers", is_idle);
    // All are silent while nothing is sold.
    assert_eq!(service.status(0, &["--stuck", "1"])["alarms"], json!([]));
    create("f");
    wait_until_blocking(LONG, "idle consumers", is_idle);
    assert_eq!(service.buy(1), 0);
    service.consume();
    let report = service.status(0, &["--stuck", "1"]);
    assert_eq!(alarms(&report), ["idle_consumers".to_owned()].into(), "{report}");
    assert_eq!(alarm(&report, "idle_consumers")["count"], 6, "{report}");
    let text = service.run(&["status", "--stuck", "1"]).expect_code(0).stdout;
    assert!(text.contains(" s: the service probably takes a new name"), "{text}");
    service.redis.query::<i64>(&["XGROUP", "DELCONSUMER", STREAM, "g1", "a"]);
    assert_eq!(service.status(0, &["--stuck", "1"])["alarms"], json!([]));
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

#[test]
fn two_order_ids_of_one_purchase_are_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!((service.buy(1), service.buy(2)), (0, 0));
    service.consume();
    // The consumer makes an ID of its own.
    service.sql("UPDATE tb_voucher_order SET id = 77 WHERE user_id = 2");
    let report = service.status(1, &[]);
    assert_eq!(alarms(&report), ["order_ids_differ 10".to_owned()].into(), "{report}");
    let found = alarm(&report, "order_ids_differ");
    assert_eq!((&found["users"], &found["user"]), (&1.into(), &"2".into()), "{report}");
    // A cancelled order whose row was deleted, and a new one.
    service.sql("DELETE FROM tb_voucher_order WHERE user_id = 2");
    service.redis.query::<i64>(&["SREM", "seckill:order:10", "2"]);
    service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
    service.sql("UPDATE tb_seckill_voucher SET stock = 9 WHERE voucher_id = 10");
    assert_eq!(service.buy(2), 0);
    service.consume();
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

fn a_paid_order_that_was_closed_is_an_alarm(database: Database) {
    let service = Service::on(database, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    let date = if matches!(database, Database::Postgres) { "TIMESTAMP" } else { "DATETIME" };
    service.sql(&format!("ALTER TABLE tb_voucher_order ADD COLUMN pay_time {date}"));
    service.sql(
        "UPDATE tb_voucher_order SET pay_time = '2024-05-01 10:00:00' WHERE user_id IN (1, 2)",
    );
    // Refunded, paid in the same moment as it was closed, and not paid in time.
    for (user, status) in [(1, 6), (2, 4), (3, 4)] {
        service.redis.query::<i64>(&["SREM", "seckill:order:10", &user.to_string()]);
        service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
        service.sql("UPDATE tb_seckill_voucher SET stock = stock + 1");
        service
            .sql(&format!("UPDATE tb_voucher_order SET status = {status} WHERE user_id = {user}"));
    }
    let report = service.status(1, &[]);
    assert_eq!(alarms(&report), ["paid_order_closed 10".to_owned()].into(), "{report}");
    let found = alarm(&report, "paid_order_closed");
    assert_eq!((&found["orders"], &found["order"]), (&1.into(), &"2".into()), "{report}");
}

#[test]
fn a_paid_order_that_was_closed_is_an_alarm_on_sqlite() {
    a_paid_order_that_was_closed_is_an_alarm(Database::Sqlite);
}

#[test]
fn a_paid_order_that_was_closed_is_an_alarm_on_mariadb() {
    a_paid_order_that_was_closed_is_an_alarm(Database::MariaDb);
}

#[test]
fn a_paid_order_that_was_closed_is_an_alarm_on_postgres() {
    a_paid_order_that_was_closed_is_an_alarm(Database::Postgres);
}

#[test]
fn a_sale_outside_its_dates_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.sql("UPDATE tb_seckill_voucher SET end_time = '2023-01-01 00:00:00'");
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
    // The script does not know the dates.
    assert_eq!(service.buy(1), 0);
    service.consume();
    let report = service.status(1, &[]);
    assert_eq!(alarms(&report), ["orders_outside_dates 10".to_owned()].into(), "{report}");
}

#[test]
fn faults_of_group_and_acknowledgement_are_alarms() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.redis.query::<i64>(&["XGROUP", "DESTROY", STREAM, "g1"]);
    assert_eq!(service.buy(1), 0);
    service.redis.query::<()>(&["XGROUP", "CREATE", STREAM, "g1", "$"]);
    service.consume();
    let report = service.status(1, &[]);
    assert!(alarms(&report).contains("buyers_without_order 10"), "{report}");

    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        assert!(consume_for(&mut service.redis.connection(), &mut conn, Some("s1")).await);
    });
    let report = service.status(1, &["--stuck", "1"]);
    assert!(alarms(&report).contains("stuck_pending"), "{report}");
}

#[test]
fn a_stream_that_is_never_trimmed_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.consume();
    let entries = "for i = 1, 100000 do redis.call('xadd', KEYS[1], '*', 'userId', 1, 'voucherId', \
                   10, 'id', 1) end";
    service.redis.query::<redis::Value>(&["EVAL", entries, "1", STREAM]);
    service.redis.query::<()>(&["XGROUP", "SETID", STREAM, "g1", "$"]);
    let report = service.status(0, &[]);
    assert_eq!(alarms(&report), ["stream_not_trimmed".to_owned()].into(), "{report}");
    service.redis.query::<i64>(&["XTRIM", STREAM, "MAXLEN", "1000"]);
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
}

#[test]
fn more_locks_than_a_pass_reads_are_said() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let locks = "for i = 1, tonumber(ARGV[1]) do \
                 redis.call('set', 'lock:order:' .. i, 'thread-1', 'EX', 600) end";
    service.redis.query::<redis::Value>(&["EVAL", locks, "0", "999"]);
    assert_eq!(service.status(0, &[])["not_compared"], json!([]));
    service.redis.query::<redis::Value>(&["EVAL", locks, "0", "1500"]);
    let report = service.status(0, &[]);
    let why = report["not_compared"][0].as_str().unwrap();
    assert!(why.contains("first 1,000 locks"), "{why}");
}

#[test]
fn a_piece_that_goes_back_never_or_twice_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=5 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    let raised = |expected: &[&str]| {
        let report = service.status(i32::from(!expected.is_empty()), &[]);
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(alarms(&report), expected, "{report}");
    };
    service.sql("UPDATE tb_voucher_order SET status = 4 WHERE user_id = 1");
    // Who is still a buyer, and has only a closed order, may have bought again.
    raised(&["pieces_differ 10", "buyers_with_closed_order 10"]);
    let give_back = "UPDATE tb_seckill_voucher SET stock = stock + 1";
    service.sql(give_back);
    // Nothing returns to Redis.
    raised(&["stock_mismatch 10", "buyers_with_closed_order 10"]);
    service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
    service.redis.query::<i64>(&["SREM", "seckill:order:10", "1"]);
    raised(&[]);
    service.sql(give_back);
    raised(&["stock_mismatch 10"]);
    // Twice on both sides: only the initial stock shows it.
    service.redis.query::<i64>(&["INCR", "seckill:stock:10"]);
    raised(&[]);
    service.sql("ALTER TABLE tb_seckill_voucher ADD COLUMN total INT DEFAULT 10");
    let profile = service.home.file("mine.toml");
    fs::write(&profile, "[sale]\ninitial = \"total\"\n").unwrap();
    let report = service.status(1, &["--profile", profile.to_str().unwrap()]);
    assert_eq!(alarm(&report, "pieces_differ")["in_sql"], 11, "{report}");
}

#[test]
fn faults_raise_their_alarms_on_sqlite() {
    faults_raise_their_alarms(Database::Sqlite);
}

#[test]
fn faults_raise_their_alarms_on_mariadb() {
    faults_raise_their_alarms(Database::MariaDb);
}

#[test]
fn faults_raise_their_alarms_on_postgres() {
    faults_raise_their_alarms(Database::Postgres);
}

#[test]
fn a_service_under_load_raises_no_alarm() {
    let service = Arc::new(Service::start());
    service.loaded_sale(SALE, 1_000_000);
    let stop = Arc::new(AtomicBool::new(false));
    let buyers = (0..4).map(|task| {
        let (service, stop) = (service.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut redis = service.redis.connection();
            let mut user = task;
            while !stop.load(Relaxed) {
                user += 4;
                let order = service.next.fetch_add(1, Relaxed);
                assert_eq!(buy(&mut redis, user, order).unwrap(), 0);
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    });
    let buyers: Vec<_> = buyers.collect();
    let consumer = {
        let (service, stop) = (service.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut redis = service.redis.connection();
            service.runtime.block_on(async {
                let mut conn = service.pool.connection().await.unwrap();
                while consume(&mut redis, &mut conn, true).await || !stop.load(Relaxed) {}
            });
        })
    };
    let watch = service.spawn(&["status", "--watch", "1", "--json"]);
    wait_until_blocking(PATIENCE, "six reports", || watch.stdout().lines().count() >= 6);
    watch.signal(Signal::TERM);
    let ran = watch.wait(PATIENCE).expect_code(0);
    let reports: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    stop.store(true, Relaxed);
    for thread in buyers.into_iter().chain([consumer]) {
        thread.join().unwrap();
    }
    for report in &reports {
        assert_eq!(report["alarms"], json!([]), "{report}");
        let sale = sale(report, 10);
        assert!(sale["orders_without_buyer"] == 0 && sale["buyers"].is_u64(), "{sale}");
        let cost = ["commands", "rows"].map(|it| report["cost"][it].as_u64().unwrap());
        assert!(cost[0] > 10 && cost[1] >= sale["orders"].as_u64().unwrap(), "{report}");
    }
    // Reading takes at most 2 % of the time.
    for pair in reports.windows(2) {
        let at = |it: &Value| it["taken"].as_u64().unwrap();
        let took = pair[0]["cost"]["took_ms"].as_u64().unwrap();
        // It is taken a moment after the begin of the pass.
        assert!(at(&pair[1]) - at(&pair[0]) >= 49 * took, "{pair:?}");
    }
    // There was traffic, and it was seen.
    let moved = |key: &str| reports.iter().any(|it| sale(it, 10)[key].as_f64() > Some(20.0));
    assert!(moved("admitted_per_second") && moved("orders_per_second"), "{reports:?}");
    let report = service.status(0, &[]);
    let (ten, orders) = (sale(&report, 10), service.count("SELECT COUNT(*) FROM tb_voucher_order"));
    assert_eq!((&ten["orders"], &ten["buyers"]), (&orders.into(), &orders.into()), "{report}");
    assert_eq!(ten["redis_stock"], ten["sql_stock"], "{report}");
}

/// A recovery, which has keys of its own, was never run with it.
#[test]
fn a_user_for_the_keys_of_the_service_alone_reads_it() {
    let redis = TestRedis::setup().tcp().password(PASSWORD).start();
    let service = Service::on(Database::Sqlite, redis);
    service.loaded_sale(SALE, 10);
    let user = format!(">{PASSWORD}");
    let keys = ["~seckill:stock:*", "~seckill:order:*", "~stream.orders", "~lock:*", "~icr:*"];
    let set = [&["ACL", "SETUSER", "ops", "on", user.as_str(), "+@all"][..], &keys].concat();
    service.redis.query::<()>(&set);
    let url = service.redis.url().replace("//:", "//ops:");
    let ran = service.home.spawn(&service.args(&url, &["status", "--json"])).wait(PATIENCE);
    let report = ran.expect_code(0).json();
    assert_eq!(report["alarms"], json!([]));
    let unknown = report["not_compared"][0].as_str().unwrap();
    assert!(unknown.contains("dead letters") && unknown.contains("stream.orders"), "{report}");
}

#[test]
fn a_missing_group_is_an_alarm() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.redis.query::<i64>(&["XGROUP", "DESTROY", STREAM, "g1"]);
    assert_eq!(service.buy(1), 0);
    let report = service.status(1, &[]);
    // The order waits, so the buyer has not lost it.
    assert_eq!(alarms(&report), ["no_group".to_owned()].into(), "{report}");
    let found = service.doctor(1, &[]);
    let [(grade, found)] = &checks(&found, "group")[..] else { panic!("{found}") };
    assert!(grade == "problem" && found.contains("g1"), "{found}");
}

#[test]
fn stuck_entries_are_counted_beyond_those_that_are_read() {
    let service = Service::start();
    service.loaded_sale(SALE, 600);
    for user in 1..=600 {
        service.buy(user);
        service.receive_without_order();
    }
    service.entries_are_stuck();
    let report = service.status(1, &["--stuck", "1", "--entries", "1"]);
    assert_eq!(alarm(&report, "stuck_pending")["count"], 600, "{report}");
}

/// Whether it alone was deleted, or all keys.
#[test]
fn a_lost_stream_is_an_alarm_once_a_sale_has_sold() {
    for lost in [&["DEL", STREAM][..], &["FLUSHALL"]] {
        let service = Service::start();
        service.loaded_sale(SALE, 10);
        service.redis.query::<i64>(&["DEL", STREAM]);
        assert_eq!(service.status(0, &[])["alarms"], json!([]));
        service.redis.query::<()>(&["XGROUP", "CREATE", STREAM, "g1", "0", "MKSTREAM"]);
        service.buy(1);
        service.consume();
        service.redis.query::<redis::Value>(lost);
        let report = service.status(1, &[]);
        assert!(alarms(&report).contains("no_stream"), "{report}");
        assert_eq!(report["stream"]["exists"], false, "{report}");
        let text = service.run(&["status"]).expect_code(1).stdout;
        assert!(text.contains("stream.orders does not exist\n"), "{text}");
    }
}

#[test]
fn entries_delivered_many_times_or_without_a_body_are_found() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!((service.buy(1), service.buy(2)), (0, 0));
    let group = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM];
    service.redis.query::<redis::Value>(&[&group[..], &[">"]].concat());
    for _ in 0..5 {
        service.redis.query::<redis::Value>(&[&group[..], &["0"]].concat());
    }
    // Perhaps the database was away for a moment.
    assert!(!alarms(&service.status(0, &[])).contains("redelivered"));
    let report = service.status(1, &["--stuck", "1"]);
    let found = alarm(&report, "redelivered");
    assert_eq!((&found["count"], &found["deliveries"]), (&2.into(), &6.into()));
    service.redis.query::<i64>(&["XTRIM", STREAM, "MAXLEN", "0"]);
    let report = service.status(1, &[]);
    assert_eq!(alarm(&report, "poison_entries")["why"]["why"], "body_gone", "{report}");
}

#[test]
fn a_profile_with_the_initial_stock_finds_more_orders_than_pieces() {
    let service = Service::start();
    service.loaded_sale(SALE, 3);
    service.sql("ALTER TABLE tb_seckill_voucher ADD COLUMN total INT DEFAULT 2");
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    assert_eq!(service.status(0, &[])["alarms"], json!([]));
    let profile = service.home.file("mine.toml");
    fs::write(&profile, "[sale]\ninitial = \"total\"\n").unwrap();
    let args = ["--profile", profile.to_str().unwrap()];
    let report = service.status(1, &args);
    let found = alarm(&report, "oversold");
    assert_eq!((&found["live_orders"], &found["initial"]), (&3.into(), &2.into()), "{report}");
    let text = service.run(&[&args[..], &["status"]].concat()).expect_code(1).stdout;
    assert!(text.contains("oversold: 3 live orders of 2 pieces"), "{text}");
}

#[test]
fn without_a_stream_a_buyer_waits_before_it_is_an_alarm() {
    let service = Service::start();
    service.redis.query::<i64>(&["DEL", STREAM]);
    service.loaded_sale(SALE, 10);
    service.redis.query::<i64>(&["SADD", "seckill:order:10", "1"]);
    service.redis.query::<i64>(&["DECR", "seckill:stock:10"]);
    // The profile says that there is one.
    let report = service.status(1, &[]);
    let expected = ["buyers_without_order 10", "no_stream", "stock_mismatch 10"];
    assert_eq!(alarms(&report), expected.map(str::to_owned).into(), "{report}");

    let profile = ["--profile", "002"];
    let report = service.run(&[&profile[..], &["status", "--json"]].concat());
    let report = report.expect_code(0).json();
    assert_eq!(
        (&sale(&report, 10)["buyers_without_order"], &report["stream"]),
        (&1.into(), &Value::Null)
    );
    let watch = ["status", "--watch", "1", "--stuck", "2", "--json"];
    let watch = service.spawn(&[&profile[..], &watch].concat());
    wait_until_blocking(PATIENCE, "an alarm", || {
        watch.stdout().contains("\"alarm\":\"buyers_without_order\"")
    });
    watch.signal(Signal::TERM);
    let ran = watch.wait(PATIENCE).expect_code(1);
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["alarms"], json!([]), "{first}");
}

#[tokio::test]
async fn tables_are_read_in_sessions_that_reject_writes() {
    for url in [MariaDb::shared().database().await, Postgres::shared().database().await] {
        let pool = PlainPool::open(&url, 1).unwrap();
        pool.connection().await.unwrap().command("CREATE TABLE t (id INT)").await.unwrap();
        let session = SessionSettings {
            time_zone: "Asia/Shanghai".to_owned(),
            offset_seconds: 8 * 3_600,
            statement: PATIENCE,
        };
        let pool = PlainPool::read_only(&url, &Settings::default(), &session).unwrap();
        let mut conn = pool.connection().await.unwrap();
        conn.rows::<1>("SELECT COUNT(*) FROM t", &[]).await.unwrap();
        let rejected = conn.command("INSERT INTO t VALUES (1)").await.unwrap_err().to_string();
        assert!(rejected.to_lowercase().contains("read"), "{rejected}");
    }
}

/// The same instant has another text in each zone.
fn dates_with_a_zone_are_read_in_that_of_the_profile(database: Database, date: &str, hours: &str) {
    let service = Service::on(database, TestRedis::start());
    service.sql("DROP TABLE tb_seckill_voucher");
    service.sql(&format!(
        "CREATE TABLE tb_seckill_voucher (voucher_id BIGINT, stock INT, begin_time {date}, end_time {date})"
    ));
    service.sql("INSERT INTO tb_voucher VALUES (10, 'hot pot')");
    service.sql(&format!(
        "INSERT INTO tb_seckill_voucher VALUES (10, 1, NOW() - INTERVAL {hours}, NOW() + INTERVAL {hours})"
    ));
    service.redis.query::<()>(&["SET", "seckill:stock:10", "1"]);
    for zone in ["Asia/Shanghai", "America/New_York", "CST-8"] {
        let profile = service.home.file("zone.toml");
        fs::write(&profile, format!("time_zone = \"{zone}\"\n")).unwrap();
        let args = ["--profile", profile.to_str().unwrap(), "status", "--json"];
        let report = service.run(&args).expect_code(0).json();
        assert_eq!(sale(&report, 10)["phase"], "running", "{zone}: {report}");
    }
}

#[test]
fn timestamps_of_mariadb_are_instants() {
    let nullable = "TIMESTAMP NULL";
    dates_with_a_zone_are_read_in_that_of_the_profile(Database::MariaDb, nullable, "3 HOUR");
}

#[test]
fn timestamps_with_a_zone_of_postgres_are_instants() {
    dates_with_a_zone_are_read_in_that_of_the_profile(
        Database::Postgres,
        "TIMESTAMPTZ",
        "'3 hours'",
    );
}

#[test]
fn a_watch_survives_a_table_that_is_away() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let watch = service.spawn(&["status", "--watch", "1", "--json"]);
    let reports = || watch.stdout().lines().count();
    wait_until_blocking(PATIENCE, "a report", || reports() > 0);
    service.sql("ALTER TABLE tb_voucher_order RENAME TO away");
    wait_until_blocking(PATIENCE, "an error", || watch.stderr().contains("tb_voucher_order"));
    service.sql("ALTER TABLE away RENAME TO tb_voucher_order");
    let before = reports();
    wait_until_blocking(PATIENCE, "another report", || reports() > before);
    watch.signal(Signal::TERM);
    watch.wait(PATIENCE).expect_code(0);
}

#[test]
fn doctor_names_what_exists_and_what_does_not() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        service.buy(user);
    }
    service.consume();
    let report = service.doctor(0, &[]);
    assert_eq!(report["healthy"], true);
    for name in ["stock", "buyers", "stream", "group", "entries", "tables", "rows"] {
        let found = checks(&report, name);
        assert!(!found.is_empty() && found.iter().all(|it| it.0 == "ok"), "{name}: {report}");
    }
    // What no read can tell is said.
    for name in ["locks", "time zone", "initial stock"] {
        assert!(checks(&report, name).iter().all(|it| it.0 == "note"), "{name}: {report}");
        assert!(!checks(&report, name).is_empty(), "{name}: {report}");
    }
    assert!(checks(&report, "initial stock")[0].1.contains("twice on both sides"), "{report}");
    service.redis.query::<()>(&["SET", "lock:order:7", "thread-1", "EX", "600"]);
    let other = service.doctor(1, &["--profile", "004"]);
    assert!(checks(&other, "stream")[0].1.contains("seckill:msg-queue does not exist"), "{other}");
    for (name, key) in
        [("buyers", "seckill:order:10"), ("stream", STREAM), ("locks", "lock:order:7")]
    {
        let all = other["checks"].as_array().unwrap();
        let check = all.iter().find(|it| it["name"] == name).unwrap();
        let fix = check["fix"].as_str().unwrap();
        let is_suggested = fix.contains(key) && fix.contains("--profile hmdp");
        assert!(check["grade"] == "problem" && is_suggested, "{name}: {other}");
    }
    service.redis.query::<i64>(&["DEL", "lock:order:7"]);
    // Before its first order, a service has neither set nor stream.
    let fresh = Service::start();
    fresh.loaded_sale(SALE, 10);
    fresh.redis.query::<i64>(&["DEL", STREAM]);
    let report = fresh.doctor(0, &[]);
    for name in ["buyers", "stream"] {
        assert_eq!(checks(&report, name)[0].0, "note", "{report}");
    }
    // Buyers without a stream have their orders elsewhere.
    fresh.redis.query::<i64>(&["SADD", "seckill:order:10", "1"]);
    assert_eq!(checks(&fresh.doctor(1, &[]), "stream")[0].0, "problem");
    fresh.redis.query::<i64>(&["DEL", "seckill:stock:10"]);
    assert_eq!(checks(&fresh.doctor(1, &[]), "stock")[0].0, "problem");
    let text = service.run(&["doctor"]).expect_code(0).stdout;
    assert!(text.contains("All checks passed."), "{text}");
}

#[test]
fn what_does_not_match_the_profile_is_one_clear_sentence() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.redis.query::<()>(&["SET", "seckill:order:10", "x"]);
    service.redis.query::<String>(&["XADD", STREAM, "*", "uid", "1", "vid", "10"]);
    service.redis.query::<i64>(&["SADD", "lock:order:1", "x"]);
    let report = service.doctor(1, &[]);
    let problem = |name: &str, part: &str| {
        let found = checks(&report, name);
        let is = |it: &&(String, String)| it.0 == "problem" && it.1.contains(part);
        assert!(found.iter().any(|it| is(&it)), "{name}: {report}");
    };
    problem("buyers", "key seckill:order:10 has the wrong type (string)");
    problem("entries", "it lacks the field id; its fields are uid, vid");
    problem("locks", "key lock:order:1 has the wrong type (set)");

    let profile = service.home.file("mine.toml");
    let path = profile.to_str().unwrap();
    let write = |text: &str| fs::write(&profile, text).unwrap();
    write("[order]\nuser = \"buyer_id\"\n[tables]\nvoucher = \"coupon\"\n");
    let found = service.doctor(1, &["--profile", path]);
    let tables = checks(&found, "tables");
    let has = |part: &str| tables.iter().any(|it| it.0 == "problem" && it.1.contains(part));
    assert!(has("columns missing from table tb_voucher_order: buyer_id"), "{found}");
    assert!(has("table coupon does not exist"), "{found}");
    let ran = service.run(&["--profile", path, "status"]);
    refused(ran, 1, "the tables differ from the profile");

    service.redis.query::<i64>(&["DEL", STREAM]);
    service.redis.query::<()>(&["SET", STREAM, "x"]);
    let report = service.doctor(1, &[]);
    assert!(checks(&report, "stream")[0].1.contains("has the wrong type"), "{report}");
    assert!(alarms(&service.status(1, &[])).contains("foreign_key"));

    refused(
        service.run(&["--profile", "005", "doctor"]),
        2,
        "unknown profile '005'; use hmdp, 002, 003, 004",
    );
    write("[keys]\nstok = \"x\"\n");
    refused(
        service.run(&["--profile", path, "doctor"]),
        2,
        "line 2, column 1: unknown setting 'keys.stok'",
    );
    write("[tables]\norder = \"a; DROP TABLE b\"\n");
    refused(service.run(&["--profile", path, "doctor"]), 2, "tables.order must be a name");
    let ran = service.home.run(&["attach", "status"]);
    refused(ran, 2, "--redis and --database");
    let none = service.home.file("none.db");
    let url = format!("sqlite:{}", none.display());
    let redis = service.redis.url();
    let ran = service.home.run(&["attach", "--redis", &redis, "--database", &url, "status"]);
    refused(ran, 3, "none.db");
    assert!(!none.exists());
    let away = ["attach", "--redis", &redis, "--database", "mysql://root@127.0.0.1:1/x", "status"];
    refused(service.home.run(&away), 3, "refused");
    let cluster = ["attach", "--redis", "redis+cluster://127.0.0.1:1", "--database", &service.url];
    refused(service.home.run(&[&cluster[..], &["status"]].concat()), 2, "is a cluster");
}

#[test]
fn nothing_is_changed_and_no_password_is_shown() {
    let redis = TestRedis::setup().tcp().password(PASSWORD).start();
    let service = Service::on(Database::Sqlite, redis);
    service.loaded_sale(SALE, 100);
    for user in 1..=20 {
        service.buy(user);
    }
    service.redis.query::<()>(&["SET", "lock:order:3", "x"]);
    let tables = || {
        service.count(
            "SELECT SUM(id + user_id + status) + (SELECT SUM(stock) FROM tb_seckill_voucher) FROM \
             tb_voucher_order",
        )
    };
    service.consume();
    // A plan has something to do.
    service.buy(21);
    service.receive();
    let before = tables();
    service.redis.query::<()>(&["CONFIG", "RESETSTAT"]);
    let plan = ["recover", "--json", "--stuck", "1"];
    for args in [&["doctor"][..], &["doctor", "--json"], &["status"], &["status", "--json"], &plan]
    {
        let ran = service.run(args);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(PASSWORD), "{ran}");
    }
    let stats: String = service.redis.query(&["INFO", "commandstats"]);
    let sent: BTreeSet<&str> =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next()).collect();
    let reads = [
        "auth",
        "client|setinfo",
        "client|setname",
        "config|resetstat",
        "echo",
        "getrange",
        "hello",
        "hscan",
        "info",
        "pttl",
        "scan",
        "scard",
        "select",
        "smismember",
        "sscan",
        "time",
        "type",
        "xinfo|consumers",
        "xinfo|groups",
        "xinfo|stream",
        "xlen",
        "xpending",
        "xrange",
        "xrevrange",
        // A script without writes, and what it reads.
        "evalsha",
        "exists",
        "script|load",
    ];
    let others: Vec<_> = sent.iter().filter(|it| !reads.contains(it)).collect();
    assert!(others.is_empty() && sent.contains("scan"), "{others:?} {sent:?}");
    assert_eq!(tables(), before);
    let away = format!("redis://:{PASSWORD}@127.0.0.1:1");
    let ran = service.home.run(&service.args(&away, &["status"])).expect_code(3);
    assert!(!ran.stderr.contains(PASSWORD), "{ran}");
}

/// The dead letters of the console.
pub(crate) const DEAD: &str = "seckill:attach:stream.orders:dead";

impl Service {
    /// The result of `attach recover`, which exits with this code.
    #[track_caller]
    pub(crate) fn recover(&self, code: i32, args: &[&str]) -> Value {
        self.run(&[&["recover", "--json"], args].concat()).expect_code(code).json()
    }

    /// Applies a plan in which an entry is stuck after a second.
    #[track_caller]
    pub(crate) fn operate(&self, code: i32, args: &[&str]) -> Value {
        self.recover(code, &[&["--operate", "--yes", "--stuck", "1"], args].concat())
    }

    /// The consumer receives an entry and dies.
    pub(crate) fn receive(&self) {
        let mut redis = self.redis.connection();
        self.runtime.block_on(async {
            let mut conn = self.pool.connection().await.unwrap();
            assert!(consume(&mut redis, &mut conn, false).await);
        });
    }

    /// PostgreSQL runs these statements before it inserts the order of this user.
    pub(crate) fn before_the_order_of(&self, user: i64, statements: &str) {
        self.sql(&format!(
            "CREATE FUNCTION before_order() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.user_id = {user} THEN {statements} END IF; RETURN NEW; END $$"
        ));
        self.sql(
            "CREATE TRIGGER before_order BEFORE INSERT ON tb_voucher_order FOR EACH ROW \
             EXECUTE FUNCTION before_order()",
        );
    }

    /// A consumer receives an entry and dies before it writes the order.
    pub(crate) fn receive_without_order(&self) {
        let read = ["XREADGROUP", "GROUP", "g1", "c1", "COUNT", "1", "STREAMS", STREAM, ">"];
        self.redis.query::<redis::Value>(&read);
    }

    /// Waits until the newest entry, and the last delivery, are as old as those that [`Self::operate`] recovers.
    pub(crate) fn entries_are_stuck(&self) {
        let now = || -> i64 {
            let (seconds, micros): (i64, i64) = self.redis.query(&["TIME"]);
            seconds * 1_000 + micros / 1_000
        };
        let begun = now();
        wait_until_blocking(LONG, "a second passes", || now() > begun + 1_000);
    }

    /// Entries that are pending, and stock and buyers in Redis.
    pub(crate) fn redis_figures(&self) -> (i64, i64, i64) {
        let pending: (i64, redis::Value, redis::Value, redis::Value) =
            self.redis.query(&["XPENDING", STREAM, "g1"]);
        let stock = self.redis.query(&["GET", "seckill:stock:10"]);
        (pending.0, stock, self.redis.query(&["SCARD", "seckill:order:10"]))
    }

    /// Stock in SQL, orders, and users with an order.
    pub(crate) fn sql_figures(&self) -> (i64, i64, i64) {
        (
            // PostgreSQL adds a BIGINT to it.
            self.count(
                "SELECT stock + (SELECT COUNT(*) FROM tb_voucher WHERE 1 = 0) FROM \
                 tb_seckill_voucher WHERE voucher_id = 10",
            ),
            self.count("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 10"),
            self.count(
                "SELECT COUNT(DISTINCT user_id) FROM tb_voucher_order WHERE voucher_id = 10",
            ),
        )
    }

    /// The lines of the log with this result: action and entry, or buyer, or sale.
    pub(crate) fn logged(&self, result: &str) -> BTreeSet<(String, String)> {
        let log = fs::read_to_string(self.home.data_dir().join("attach-recover.jsonl"));
        let lines = log.unwrap_or_default();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = |line: Value| {
            assert!(line["at"].is_i64() && line["plan"].is_i64(), "{line}");
            assert!(line["operator"].as_str().unwrap().contains("PID"), "{line}");
            let about = [&line["entry"], &line["user"], &line["voucher"]];
            let about = about.iter().find(|it| !it.is_null()).unwrap();
            (line["action"].as_str().unwrap().to_owned(), about.to_string())
        };
        lines.filter(|line| line["result"] == result).map(of).collect()
    }
}

fn what_a_kill_leaves_is_recovered(database: Database) {
    let service = Arc::new(Service::on(database, TestRedis::start()));
    service.loaded_sale(SALE, 150);
    if !matches!(database, Database::Sqlite) {
        service.sql("ALTER TABLE tb_voucher_order ADD COLUMN pay_type INT NOT NULL");
        refused(service.run(&["recover"]), 1, "needs values for pay_type");
        service.sql("ALTER TABLE tb_voucher_order DROP COLUMN pay_type");
    }
    // Killed mid-rush: 30 orders are written, 7 entries are in the hands of the dead consumer, and others wait.
    let buyers = (0..4).map(|task| {
        let service = service.clone();
        std::thread::spawn(move || {
            let mut redis = service.redis.connection();
            for user in 1..=25 {
                let order = service.next.fetch_add(1, Relaxed);
                assert_eq!(buy(&mut redis, task * 100 + user, order).unwrap(), 0);
            }
        })
    });
    let buyers: Vec<_> = buyers.collect();
    let mut redis = service.redis.connection();
    service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        for entry in 0..37 {
            while !consume(&mut redis, &mut conn, entry < 30).await {}
        }
    });
    for thread in buyers {
        thread.join().unwrap();
    }
    assert_eq!((service.redis_figures(), service.sql_figures()), ((7, 50, 100), (120, 30, 30)));

    let plan = service.recover(0, &["--stuck", "1"]);
    assert_eq!(plan["entries"].as_array().unwrap().len(), 70, "{plan}");
    let sale = &plan["sales"][0];
    assert_eq!(sale["sql_stock"], json!({"now": 120, "after": 50}), "{plan}");
    assert_eq!(sale["redis_stock"], json!({"now": 50, "after": 50}), "{plan}");
    assert_eq!(sale["orders"], json!({"now": 30, "after": 100}), "{plan}");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((7, 50, 100), (120, 30, 30)));

    let part = service.operate(1, &["--max", "20"]);
    assert_eq!((&part["applied"]["replayed"], &part["applied"]["left"]), (&20.into(), &50.into()));
    assert_eq!(service.sql_figures(), (100, 50, 50));
    let rest = service.operate(0, &[]);
    assert_eq!((&rest["applied"]["replayed"], &rest["applied"]["left"]), (&50.into(), &0.into()));
    for (key, count) in [
        ("stuck", 0),
        ("pending", 0),
        ("undelivered", 0),
        ("buyers_without_order", 0),
        ("orders_without_buyer", 0),
        ("oversold", 0),
    ] {
        assert_eq!(rest["proof"][key], count, "{key}: {rest}");
    }
    let after = ((0, 50, 100), (50, 100, 100));
    assert_eq!((service.redis_figures(), service.sql_figures()), after);
    // Each user has the order that was promised, and every action is in the log.
    let entries: Vec<(String, Vec<(String, String)>)> =
        service.redis.query(&["XRANGE", STREAM, "-", "+"]);
    let expected: BTreeSet<[i64; 2]> = entries
        .iter()
        .map(|(_, fields)| {
            let of = |name| fields.iter().find(|it| it.0 == name).unwrap().1.parse().unwrap();
            [of("id"), of("userId")]
        })
        .collect();
    let orders = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        let sql = "SELECT CAST(id AS CHAR(30)), CAST(user_id AS CHAR(30)) FROM tb_voucher_order";
        conn.texts::<2>(sql, &[]).await.unwrap()
    });
    let number = |it: &Option<String>| it.as_ref().unwrap().trim().parse::<i64>().unwrap();
    let orders: BTreeSet<[i64; 2]> =
        orders.iter().map(|[id, user]| [number(id), number(user)]).collect();
    assert_eq!(orders, expected);
    let done = service.logged("done");
    assert_eq!((done.len(), &done), (70, &service.logged("planned")));

    let again = service.operate(1, &[]);
    let nothing = json!({"created_group": false, "replayed": 0, "acknowledged": 0,
        "dead_letters": 0, "changed": 0, "not_promised": 0, "locked": 0, "left": 0, "added_buyers": 0,
        "skipped_buyers": 0, "removed_buyers": 0, "stocks": 0, "stale": [], "cut_short": false});
    assert_eq!(again["applied"], nothing, "{again}");
    assert_eq!((service.redis_figures(), service.sql_figures()), after);
    assert_eq!(service.logged("done").len(), 70);
}

#[test]
fn what_a_kill_leaves_is_recovered_on_sqlite() {
    what_a_kill_leaves_is_recovered(Database::Sqlite);
}

#[test]
fn what_a_kill_leaves_is_recovered_on_mariadb() {
    what_a_kill_leaves_is_recovered(Database::MariaDb);
}

#[test]
fn what_a_kill_leaves_is_recovered_on_postgres() {
    what_a_kill_leaves_is_recovered(Database::Postgres);
}

/// A table and a column whose names are keywords of SQL.
fn names_that_are_keywords_are_read_and_written(database: Database, quote: char) {
    let service = Service::on(database, TestRedis::start());
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.consume();
    service.buy(2);
    service.receive();
    let order = format!("{quote}order{quote}");
    service.sql(&format!("ALTER TABLE tb_voucher_order RENAME TO {order}"));
    let user = format!("{quote}user{quote}");
    service.sql(&format!("ALTER TABLE {order} RENAME COLUMN user_id TO {user}"));
    let profile = service.home.file("mine.toml");
    fs::write(&profile, "[tables]\norder = \"order\"\n[order]\nuser = \"user\"\n").unwrap();
    let args = ["--profile", profile.to_str().unwrap()];
    service.doctor(0, &args);
    let done = service.operate(0, &args);
    assert_eq!(done["applied"]["replayed"], 1, "{done}");
    let report = service.status(0, &args);
    assert_eq!((&sale(&report, 10)["orders"], &report["alarms"]), (&2.into(), &json!([])));
    fs::write(&profile, "[tables]\norder = \"order\"\n[order]\nuser = \"seller\"\n").unwrap();
    let missing = service.doctor(1, &args);
    let found = checks(&missing, "tables");
    assert!(found.iter().any(|it| it.1.ends_with(": seller")), "{missing}");
}

#[test]
fn names_that_are_keywords_are_read_and_written_on_sqlite() {
    names_that_are_keywords_are_read_and_written(Database::Sqlite, '"');
}

#[test]
fn names_that_are_keywords_are_read_and_written_on_mariadb() {
    names_that_are_keywords_are_read_and_written(Database::MariaDb, '`');
}

#[test]
fn names_that_are_keywords_are_read_and_written_on_postgres() {
    names_that_are_keywords_are_read_and_written(Database::Postgres, '"');
}

#[test]
fn an_order_that_was_written_is_not_written_again() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.receive();
    // It died between COMMIT and XACK.
    service.sql("INSERT INTO tb_voucher_order VALUES (1, 1, 10, 1)");
    service.sql("UPDATE tb_seckill_voucher SET stock = 9");
    let report = service.status(0, &[]);
    let (alarms, in_flight) = (&report["alarms"], &sale(&report, 10)["in_flight"]);
    assert_eq!((alarms, in_flight), (&json!([]), &0.into()), "{report}");
    let done = service.operate(0, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["acknowledged"], &applied["replayed"]), (&1.into(), &0.into()), "{done}");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 9, 1), (9, 1, 1)));
}

#[test]
fn an_order_is_written_only_with_the_piece_that_its_transaction_takes() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 1);
    service.buy(1);
    service.receive();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0");
    // A piece comes back after the statement that finds none, which locks no row, and before the next one.
    service.sql(
        "CREATE FUNCTION give_back() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN UPDATE tb_seckill_voucher SET stock = 1; RETURN NULL; END $$",
    );
    service.sql(
        "CREATE TRIGGER give_back AFTER UPDATE ON tb_seckill_voucher FOR EACH STATEMENT \
         WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION give_back()",
    );
    let done = service.operate(1, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["dead_letters"]), (&0.into(), &1.into()), "{done}");
    assert_eq!(service.sql_figures(), (0, 0, 0));
}

#[test]
fn an_entry_that_was_added_twice_is_written_once() {
    let service = Service::start();
    service.loaded_sale(SALE, 1_000);
    for user in 1..=251 {
        assert_eq!(service.buy(user), 0);
    }
    let add = ["XADD", STREAM, "*", "userId", "1", "voucherId", SALE, "id", "1"];
    service.redis.query::<String>(&add);
    let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
    service.redis.query::<redis::Value>(&read);
    let done = service.operate(0, &[]);
    let entries = done["plan"]["entries"].as_array().unwrap();
    let planned = |verdict: &str| entries.iter().filter(|it| it["verdict"] == verdict).count();
    assert_eq!((planned("stuck"), planned("written")), (251, 1), "{}", entries[251]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["acknowledged"]), (&251.into(), &1.into()));
    assert_eq!(service.sql_figures(), (749, 251, 251));
}

#[test]
fn entries_that_yield_no_order_are_copied_once_with_their_reason() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.loaded_sale("11", 0);
    service.buy(1);
    service.consume();
    assert_eq!(service.buy(2), 0);
    let add = |fields: [&str; 3]| -> String {
        let [user, voucher, order] = fields;
        let add = ["XADD", STREAM, "*", "userId", user, "voucherId", voucher, "id", order];
        service.redis.query(&add)
    };
    let expected = [
        (add(["1", SALE, "500"]), "holds order 1"),
        (add(["3", "99", "501"]), "no sale"),
        (add(["4", "11", "502"]), "no stock"),
        (add(["5", SALE, "1"]), "order ID"),
        (add(["x", SALE, "503"]), "userId is not a number"),
    ];
    // What its service has given back is left alone.
    service.redis.query::<i64>(&["SADD", "seckill:order:11", "4"]);
    for _ in 0..6 {
        service.receive();
    }
    let trimmed: Vec<(String, redis::Value)> =
        service.redis.query(&["XRANGE", STREAM, "-", "+", "COUNT", "2"]);
    service.redis.query::<i64>(&["XDEL", STREAM, &trimmed[1].0]);
    let done = service.operate(1, &[]);
    assert_eq!(done["applied"]["dead_letters"], 6, "{done}");
    // The body of the entry of one of these buyers is lost: said, and not hidden.
    assert_eq!(done["proof"]["buyers_without_order"], 2, "{done}");
    let letters = || -> Vec<(String, Vec<(String, String)>)> {
        service.redis.query(&["XRANGE", DEAD, "-", "+"])
    };
    let found = letters();
    assert_eq!(found.len(), 6);
    let field = |fields: &[(String, String)], name: &str| {
        fields.iter().find(|it| it.0 == name).map(|it| it.1.clone()).unwrap_or_default()
    };
    for (entry, why) in &expected {
        let letter = found.iter().find(|it| field(&it.1, "entry") == *entry).unwrap();
        assert!(field(&letter.1, "reason").contains(why), "{why}: {letter:?}");
        assert!(!field(&letter.1, "body:voucherId").is_empty(), "{letter:?}");
        assert_eq!(field(&letter.1, "consumer"), "c1");
    }
    assert_eq!(service.redis_figures().0, 0);
    service.operate(1, &[]);
    assert_eq!((letters().len(), service.sql_figures()), (6, (9, 1, 1)));
    // Only a flag removes the buyers, who can then buy again.
    let done = service.operate(0, &["--remove-buyers"]);
    assert_eq!((&done["applied"]["removed_buyers"], service.buy(2)), (&2.into(), 0), "{done}");
}

#[test]
fn poison_of_a_live_consumer_is_set_aside() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let add = ["XADD", STREAM, "*", "userId", "abc", "voucherId", SALE, "id", "1"];
    let entry: String = service.redis.query(&add);
    let mut consumer = service.redis.connection();
    let stop = Arc::new(AtomicBool::new(false));
    // Like the loop of the tutorials for their pending list: a fault, and the same entry again.
    let looping = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut from = ">";
            while !stop.load(Relaxed) {
                let mut read = redis::cmd("XREADGROUP");
                read.arg(&["GROUP", "g1", "c1", "COUNT", "1", "STREAMS", STREAM, from]);
                read.query::<redis::Value>(&mut consumer).unwrap();
                from = "0";
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let deliveries = || -> Vec<(String, String, u64, u64)> {
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"])
    };
    wait_until_blocking(LONG, "deliveries", || deliveries().first().is_some_and(|it| it.3 >= 5));
    let done = service.recover(0, &["--operate", "--yes"]);
    assert_eq!(done["applied"]["dead_letters"], 1, "{done}");
    assert!(deliveries().is_empty(), "{entry}: {:?}", deliveries());
    stop.store(true, Relaxed);
    looping.join().unwrap();
}

/// Over TCP, a statement that is dropped from the cache of prepared ones delays the next one by an acknowledgement.
#[test]
fn a_recovery_prepares_its_statements_once() {
    let (server, home, runtime) = (MariaDb::start(), Seckill::new(), Runtime::new().unwrap());
    runtime.block_on(server.run("", "CREATE DATABASE shop"));
    let url = server.tcp_url_of("shop");
    let service = Service::at(Database::MariaDb, TestRedis::start(), home, runtime, url);
    service.loaded_sale(SALE, 200);
    for user in 1..=100 {
        service.buy(user);
        service.receive_without_order();
    }
    service.entries_are_stuck();
    let prepared = || {
        service.count(
            "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
             WHERE variable_name = 'Com_stmt_prepare'",
        )
    };
    let before = prepared();
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 100);
    let more = prepared() - before;
    assert!(more < 100, "{more} statements were prepared");
}

/// SQL has no stock for it: a recovery copied it to the dead letters and acknowledged it, so that the group has passed it.
#[test]
fn a_dead_letter_is_not_given_up_again() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.receive_without_order();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0 WHERE voucher_id = 10");
    service.entries_are_stuck();
    for dead_letters in [1, 0, 0] {
        let done = service.operate(1, &["--reason", "no stock"]);
        let found = done["applied"]["dead_letters"].as_u64().unwrap_or(0);
        assert_eq!(found, dead_letters, "{done}");
    }
    assert_eq!(service.redis.query::<i64>(&["XLEN", DEAD]), 1);
}

/// The order ID of an entry is unreadable: the piece of its buyer stays promised.
#[test]
fn the_piece_of_an_unreadable_order_is_not_sold_again() {
    let service = Service::start();
    service.loaded_sale(SALE, 1);
    service.redis.query::<()>(&["SET", "seckill:stock:10", "0"]);
    service.redis.query::<()>(&["SADD", "seckill:order:10", "1"]);
    let fields = ["userId", "1", "voucherId", SALE, "id", "x1"];
    service.redis.query::<()>(&[&["XADD", STREAM, "*"], &fields[..]].concat());
    service.entries_are_stuck();
    let done = service.operate(1, &[]);
    assert_eq!(done["applied"]["dead_letters"], 1, "{done}");
    assert_eq!(service.redis.query::<i64>(&["GET", "seckill:stock:10"]), 0, "{done}");
}

/// Two buyers were given the same order ID: the order of the second cannot be written, and their piece stays promised.
#[test]
fn the_piece_of_a_dead_letter_is_not_sold_again() {
    let service = Service::start();
    service.loaded_sale(SALE, 2);
    let mut redis = service.redis.connection();
    for user in [1, 2] {
        buy(&mut redis, user, 5).unwrap();
    }
    service.receive_without_order();
    service.receive_without_order();
    service.entries_are_stuck();
    let done = service.operate(1, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["dead_letters"]), (&1.into(), &1.into()), "{done}");
    let stock = || service.redis.query::<i64>(&["GET", "seckill:stock:10"]);
    assert_eq!(stock(), 0, "{done}");
    service.operate(0, &["--remove-buyers"]);
    assert_eq!(stock(), 1);
}

/// A consumer that acknowledged them without an order, or a group made at `$`, leaves the same.
#[test]
fn entries_that_the_group_has_passed_become_orders() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=4 {
        service.buy(user);
    }
    service.redis.query::<()>(&["XGROUP", "SETID", STREAM, "g1", "$"]);
    let entries: Vec<(String, redis::Value)> = service.redis.query(&["XRANGE", STREAM, "-", "+"]);
    service.redis.query::<i64>(&["XDEL", STREAM, &entries[3].0]);
    service.buy(5);
    service.consume();
    service.entries_are_stuck();
    let done = service.operate(1, &[]);
    assert_eq!(done["applied"]["replayed"], 3, "{done}");
    assert_eq!(done["proof"]["buyers_without_order"], 1, "{done}");
    // The piece of the fourth buyer, whose entry is lost, is not sold again.
    let stock = || service.redis.query::<i64>(&["GET", "seckill:stock:10"]);
    assert_eq!((stock(), service.sql_figures().0), (5, 6), "{done}");
    let again = service.operate(1, &[]);
    assert_eq!((&again["applied"]["replayed"], stock()), (&0.into(), 5), "{again}");
    service.operate(0, &["--remove-buyers"]);
    assert_eq!((stock(), service.sql_figures().0), (6, 6));
}

/// Redis has sold more than SQL has, and the consumer acknowledges what it cannot write.
#[test]
fn entries_that_the_group_has_passed_and_that_cannot_be_written_have_a_reason() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=4 {
        service.buy(user);
    }
    service.redis.query::<()>(&["XGROUP", "SETID", STREAM, "g1", "$"]);
    service.entries_are_stuck();
    let text = service.run(&["recover", "--stuck", "1"]).expect_code(0).stdout;
    assert!(text.contains("passed by the group") && !text.contains("stuck"), "{text}");
    let done = service.operate(1, &["--max", "3"]);
    let proof = &done["proof"];
    assert_eq!((&proof["stuck"], &proof["buyers_without_order"]), (&1.into(), &0.into()), "{done}");
    service.sql("UPDATE tb_seckill_voucher SET stock = 0 WHERE voucher_id = 10");
    service.redis.query::<()>(&["SET", "seckill:stock:10", "0"]);
    let text = service.run(&["recover", "--stuck", "1"]).expect_code(1).stdout;
    assert!(text.contains("has no stock left") && !text.contains("Nothing to"), "{text}");
    let done = service.operate(1, &[]);
    assert_eq!(done["plan"]["unwritable"][0]["user_id"], 4, "{done}");
    assert_eq!(done["proof"]["buyers_without_order"], 1, "{done}");
}

#[test]
fn a_missing_group_is_created_before_the_first_entry_without_an_order() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        service.buy(user);
    }
    service.consume();
    service.redis.query::<i64>(&["XGROUP", "DESTROY", STREAM, "g1"]);
    for user in 4..=5 {
        service.buy(user);
    }
    let text = service.run(&["recover"]).expect_code(0).stdout;
    assert!(text.contains("Group g1 of stream stream.orders is missing"), "{text}");
    let done = service.recover(0, &["--operate", "--yes"]);
    assert_eq!(done["applied"]["created_group"], true, "{done}");
    // Its first unique key would reject an entry that is delivered again.
    service.consume();
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 5, 5), (5, 5, 5)));
    service.redis.query::<i64>(&["XGROUP", "DESTROY", STREAM, "g1"]);
    service.redis.query::<()>(&["XGROUP", "CREATE", STREAM, "other", "0"]);
    refused(service.run(&["recover"]), 1, "the stream has other");
}

#[test]
fn entries_of_a_live_consumer_are_left_alone() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.buy(2);
    service.receive();
    let done = service.recover(1, &["--operate", "--yes", "--stuck", "3600"]);
    assert_eq!((&done["plan"]["left"], &done["plan"]["entries"]), (&2.into(), &json!([])));
    let held: Vec<(String, String, i64, i64)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert_eq!(held.iter().map(|it| (it.1.as_str(), it.3)).collect::<Vec<_>>(), [("c1", 1)]);
    assert_eq!(service.sql_figures(), (10, 0, 0));
}

#[test]
fn an_entry_is_written_only_while_its_user_is_locked() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
        service.receive();
    }
    // A consumer of the service may be writing their orders: with Redisson's lock, and with a plain one.
    service.redis.query::<i64>(&["HSET", "lock:order:2", "3f2a:31", "1"]);
    service.redis.query::<()>(&["SET", "lock:order:3", "thread-1"]);
    let done = service.operate(1, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["locked"]), (&1.into(), &2.into()), "{done}");
    assert_eq!((service.redis_figures().0, service.sql_figures()), (2, (9, 1, 1)));
    assert_eq!(service.logged("locked").len(), 2);
    let held: Vec<(String, String, i64, i64)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert!(held.iter().all(|it| it.1 == "c1"), "{held:?}");
    let text = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]).expect_code(1);
    assert!(text.stdout.contains("the lock of their user is held"), "{text}");
    service.redis.query::<i64>(&["DEL", "lock:order:2", "lock:order:3"]);

    // The database holds up the second transaction; its user is locked meanwhile, for both kinds of consumers.
    service.before_the_order_of(3, "PERFORM pg_advisory_xact_lock(1);");
    let conn = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("BEGIN").await.unwrap();
        conn.command("DO 'BEGIN PERFORM pg_advisory_xact_lock(1); END'").await.unwrap();
        conn
    });
    let run = service.spawn(&["recover", "--json", "--operate", "--yes", "--stuck", "1"]);
    wait_until_blocking(LONG, "the lock of a user", || {
        service.redis.query::<i64>(&["EXISTS", "lock:order:3"]) == 1
    });
    let set: Option<String> = service.redis.query(&["SET", "lock:order:3", "thread-2", "NX"]);
    let owners: Vec<String> = service.redis.query(&["HVALS", "lock:order:3"]);
    assert_eq!((set, owners), (None, vec!["1".to_owned()]));
    assert!(service.redis.query::<i64>(&["PTTL", "lock:order:3"]) > 0);
    service.runtime.block_on(async move {
        let mut conn = conn;
        conn.command("ROLLBACK").await.unwrap();
    });
    assert_eq!(run.wait(LONG).expect_code(0).json()["applied"]["replayed"], 2);
    assert_eq!((service.redis_figures().0, service.sql_figures()), (0, (7, 3, 3)));
    assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
}

#[test]
fn the_lock_of_a_user_is_free_after_the_database_refused_the_order() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in 1..=2 {
        assert_eq!(service.buy(user), 0);
        service.receive();
    }
    // As if it were locked.
    service.before_the_order_of(2, "RAISE EXCEPTION 'away' USING ERRCODE = '55P03';");
    let recover = ["recover", "--json", "--operate", "--yes", "--stuck", "1"];
    service.entries_are_stuck();
    let ran = service.run(&recover).expect_code(1);
    assert!(ran.stderr.contains("although it accepts others"), "{ran}");
    assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
    service.sql("DROP TRIGGER before_order ON tb_voucher_order");
    assert_eq!(service.run(&recover).expect_code(0).json()["applied"]["replayed"], 1);
    assert_eq!((service.redis_figures().0, service.sql_figures()), (0, (8, 2, 2)));
}

#[test]
fn nothing_is_rebuilt_from_a_part_of_the_orders() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.redis.query::<i64>(&["SADD", "seckill:order:10", "1", "200001"]);
    service.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100001) \
         INSERT INTO tb_voucher_order SELECT 1000000 + i, i, 10, 1 FROM n",
    );
    let says_so = |keys: &[&str]| {
        let plan = service.recover(1, &["--remove-buyers"]);
        assert_eq!((&plan["buyers_compared"], &plan["sales"]), (&false.into(), &json!([])));
        let done = service.operate(1, &["--remove-buyers"]);
        let proof = &done["proof"];
        assert_eq!(
            (&proof["buyers_without_order"], &proof["orders_without_buyer"]),
            (&Value::Null, &Value::Null),
            "{done}"
        );
        let text = service.run(&["recover"]).expect_code(1).stdout;
        assert!(text.contains("Buyers and orders are not compared for every sale"), "{text}");
        let mut found: Vec<String> = service.redis.query(&["KEYS", "seckill:*:10"]);
        found.sort_unstable();
        assert_eq!(found, keys);
    };
    says_so(&["seckill:order:10", "seckill:stock:10"]);
    assert_eq!(service.redis_figures().2, 2);
    // A running sale that Redis has lost has no key that would show it.
    service.redis.query::<i64>(&["DEL", "seckill:order:10", "seckill:stock:10"]);
    says_so(&[]);
}

#[test]
fn a_dead_letter_is_listed_and_replayed_once() {
    let service = Service::start();
    service.loaded_sale(SALE, 0);
    let add = |fields: &[&str]| -> String {
        service.redis.query(&[&["XADD", STREAM, "*"], fields].concat())
    };
    assert_eq!(service.recover(0, &["--dead-letters"])["letters"], json!([]));
    let entry = add(&["userId", "4", "voucherId", SALE, "id", "502"]);
    let gone = add(&["userId", "5", "voucherId", SALE, "id", "503"]);
    service.receive();
    service.receive();
    service.redis.query::<i64>(&["XDEL", STREAM, &gone]);
    service.redis.query::<i64>(&["SADD", "seckill:order:10", "4"]);
    assert_eq!(service.operate(1, &[])["applied"]["dead_letters"], 2);
    service.redis.query::<i64>(&["SREM", "seckill:order:10", "4"]);
    let listed = service.recover(0, &["--dead-letters"]);
    let letters = listed["letters"].as_array().unwrap();
    let [letter, empty] = &letters[..] else { panic!("{listed}") };
    assert_eq!((&letter["entry"], &letter["consumer"]), (&entry.as_str().into(), &"c1".into()));
    assert_eq!(
        letter["body"],
        json!([["userId", "4"], ["voucherId", SALE], ["id", "502"]]),
        "{listed}"
    );
    let found = service.status(1, &[]);
    let found = alarm(&found, "dead_letters");
    assert_eq!((&found["count"], &found["urgency"]), (&2.into(), &"warning".into()), "{found}");
    let first = service.recover(0, &["--dead-letters", "--max", "1"]);
    assert_eq!((first["letters"].as_array().unwrap().len(), &first["more"]), (1, &true.into()));
    let text = service.run(&["recover", "--dead-letters"]).expect_code(0).stdout;
    assert!(text.contains("has no stock left") && text.contains(&entry), "{text}");

    // The cause is removed. Its user is no buyer: there must be a piece in Redis, too.
    service.sql("UPDATE tb_seckill_voucher SET stock = 1 WHERE voucher_id = 10");
    let id = letter["letter"].as_str().unwrap();
    let replay =
        |code: i32, id: &str| service.recover(code, &["--replay", id, "--operate", "--yes"]);
    let shown = service.recover(0, &["--replay", id]);
    assert_eq!((&shown["replayed"], &shown["letter"]["letter"]), (&Value::Null, &id.into()));
    service.redis.query::<()>(&["SET", "seckill:stock:10:moved", "engine 5"]);
    let args = ["recover", "--operate", "--yes", "--replay"];
    refused(service.run(&[&args[..], &[id]].concat()), 1, "sale #10 of dead letter");
    service.redis.query::<i64>(&["DEL", "seckill:stock:10:moved"]);
    let sold_out = service.run(&[&args[..], &[id]].concat()).expect_code(1);
    assert!(sold_out.stderr.contains("no piece is left in Redis"), "{sold_out}");
    service.redis.query::<()>(&["SET", "seckill:stock:10", "1"]);
    let replayed = replay(0, id);
    assert_eq!(service.redis_figures(), (0, 0, 1));
    assert!(replayed["replayed"].as_str().unwrap() > gone.as_str(), "{replayed}");
    for missing in [id, "7", "x"] {
        let ran = service.run(&[&args[..], &[missing]].concat());
        refused(ran, 1, "there is no dead letter");
    }
    let empty = empty["letter"].as_str().unwrap();
    refused(service.run(&[&args[..], &[empty]].concat()), 1, "has no body");
    service.consume();
    assert_eq!((service.redis_figures().0, service.sql_figures()), (0, (0, 1, 1)));
    assert_eq!(service.redis.query::<i64>(&["XLEN", DEAD]), 1);
    assert!(service.logged("done").iter().any(|it| it.0 == "replay_letter"));
}

#[test]
fn a_second_operator_is_refused_with_the_holder() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.receive();
    let lock = "seckill:attach:stream.orders:lock";
    service.redis.query::<()>(&["SET", lock, "1000 ana@shop (PID 7)", "PX", "60000"]);
    let operate = ["recover", "--operate", "--yes", "--stuck", "1"];
    let ran = service.run(&operate).expect_code(1);
    assert!(ran.stderr.contains("ana@shop (PID 7) is recovering this service"), "{ran}");
    assert_eq!((service.redis_figures().0, service.sql_figures()), (1, (10, 0, 0)));
    service.redis.query::<i64>(&["DEL", lock]);
    service.run(&operate).expect_code(0);
    assert_eq!(service.redis.query::<i64>(&["EXISTS", lock]), 0);
}

#[test]
fn buyers_and_stock_are_rebuilt_unless_the_plan_is_stale() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        service.buy(user);
    }
    service.consume();
    // A Redis that was restored from a backup.
    service.redis.query::<i64>(&["SREM", "seckill:order:10", "2"]);
    service.redis.query::<()>(&["SET", "seckill:stock:10", "9"]);
    let url = service.redis.url();
    let args = service.args(&url, &["recover", "--operate", "--reason", "restored"]);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    // One more user buys before the answer.
    assert_eq!(service.buy(7), 0);
    pty.send("y\r");
    pty.wait_for_text("The plan is stale: sale #10 has changed");
    assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1);
    assert_eq!(service.redis_figures().1, 8);
    let done = service.recover(0, &["--operate", "--yes"]);
    assert_eq!((&done["applied"]["stocks"], &done["plan"]["left"]), (&1.into(), &1.into()));
    // Three orders, and one entry in flight.
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 6, 4), (7, 3, 3)));
    service.consume();
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 6, 4), (6, 4, 4)));
    assert!(service.logged("done").contains(&("add_buyer".to_owned(), "\"2\"".to_owned())));
    assert!(service.logged("stale").contains(&("set_stock".to_owned(), "10".to_owned())));
}

#[test]
fn an_entry_that_is_not_planned_is_not_received() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.entries_are_stuck();
    let url = service.redis.url();
    let recover = ["recover", "--operate", "--stuck", "1", "--reason", "dead consumer"];
    let args = service.args(&url, &recover);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    // The consumer has come back before the answer, and another entry waits.
    service.consume();
    service.buy(2);
    service.entries_are_stuck();
    pty.send("y\r");
    pty.exit_status(PATIENCE);
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 8, 2), (9, 1, 1)));
    assert_eq!((service.logged("gone").len(), service.logged("done").len()), (1, 0));
    service.consume();
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 8, 2), (8, 2, 2)));
}

#[test]
fn a_buyer_who_has_bought_since_the_plan_stays_a_buyer() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let buyers = "seckill:order:10";
    service.redis.query::<i64>(&["SADD", buyers, "1", "2"]);
    let url = service.redis.url();
    let recover =
        ["recover", "--operate", "--remove-buyers", "--stuck", "1", "--reason", "lost orders"];
    let args = service.args(&url, &recover);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    // Another operator has removed this buyer before the answer.
    service.redis.query::<i64>(&["SREM", buyers, "1"]);
    assert_eq!(service.buy(1), 0);
    pty.send("y\r");
    pty.wait_for_text("What is left");
    pty.exit_status(PATIENCE);
    // While an entry is in flight, no buyer is removed.
    let is_buyer = |user| service.redis.query::<i64>(&["SISMEMBER", buyers, user]);
    assert_eq!((is_buyer("1"), is_buyer("2")), (1, 1));
    service.consume();
    assert_eq!((service.buy(1), service.sql_figures()), (2, (9, 1, 1)));
    service.operate(0, &["--remove-buyers"]);
    assert_eq!((is_buyer("1"), is_buyer("2")), (1, 0));
}

#[test]
fn a_stock_that_has_moved_to_an_engine_is_not_set() {
    let service = Service::start();
    service.sale(SALE, 10);
    let args = ["recover", "--operate", "--not-moved", "--stuck", "1", "--reason", "not loaded"];
    let url = service.redis.url();
    let args = service.args(&url, &args);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    // Its stock was loaded, and it has moved, before the answer.
    service.redis.query::<()>(&["SET", "seckill:stock:10:moved", "engine 5"]);
    pty.send("y\r");
    pty.wait_for_text("The plan is stale: sale #10 has changed");
    assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1);
    assert_eq!(service.redis.query::<i64>(&["EXISTS", "seckill:stock:10"]), 0);
}

#[test]
fn a_running_sale_that_redis_has_lost_is_rebuilt() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    // Redis never had the keys of this one, and it is over.
    service.sale("9", 5);
    service
        .sql("UPDATE tb_seckill_voucher SET end_time = '2023-01-01 00:00:00' WHERE voucher_id = 9");
    for user in 1..=3 {
        service.buy(user);
    }
    service.consume();
    // A closed order has returned its piece in SQL.
    service.sql("UPDATE tb_voucher_order SET status = 4 WHERE id = 3");
    service.sql("UPDATE tb_seckill_voucher SET stock = 8 WHERE voucher_id = 10");
    service.buy(4);
    service.receive();
    service.redis.query::<i64>(&["DEL", "seckill:stock:10", "seckill:order:10"]);
    // It may have moved to an engine, and Redis have lost the mark.
    service.entries_are_stuck();
    let plan = service.operate(1, &[])["plan"].clone();
    assert_eq!((&plan["maybe_moved"], &plan["entries"]), (&json!([10]), &json!([])), "{plan}");
    assert_eq!(service.sql_figures(), (8, 3, 3));
    assert_eq!(service.redis.query::<i64>(&["EXISTS", "seckill:stock:10"]), 0);
    let text = service.run(&["recover"]).stdout;
    assert!(text.contains("Whether it has moved to an engine is unknown"), "{text}");
    let done = service.operate(0, &["--not-moved"]);
    let applied = &done["applied"];
    assert_eq!(applied["stocks"], 1, "{done}");
    assert_eq!(service.redis_figures().2, 3, "{done}");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 7, 3), (7, 4, 4)));
    assert_eq!(service.redis.query::<i64>(&["EXISTS", "seckill:stock:9"]), 0);
    assert_eq!([1, 2, 3, 4].map(|user| service.buy(user)), [2, 2, 0, 2]);
}

/// The orders of text 002 wait in the memory of the service, which has stopped.
#[test]
fn without_a_stream_buyers_and_stock_are_rebuilt() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        service.buy(user);
    }
    service.consume();
    service.redis.query::<i64>(&["DEL", STREAM, "seckill:stock:10", "seckill:order:10"]);
    let recover = ["--profile", "002", "recover", "--not-moved", "--json"];
    let plan = service.run(&recover).expect_code(0).json();
    assert_eq!(plan["sales"][0]["redis_stock"], json!({"now": null, "after": 7}), "{plan}");
    let operate = [&recover[..], &["--operate", "--yes"]].concat();
    refused(service.run(&operate), 1, "pass --service-stopped");
    let stopped = [&operate[..], &["--service-stopped"]].concat();
    let done = service.run(&stopped).expect_code(0).json();
    let applied = &done["applied"];
    assert_eq!((&applied["added_buyers"], &applied["stocks"]), (&3.into(), &1.into()), "{done}");
    let stock = || service.redis.query::<i64>(&["GET", "seckill:stock:10"]);
    let buyers = || service.redis.query::<i64>(&["SCARD", "seckill:order:10"]);
    assert_eq!((stock(), buyers()), (7, 3));
    // A buyer whose order was lost with the memory keeps the piece, unless removed.
    service.redis.query::<i64>(&["SADD", "seckill:order:10", "9"]);
    service.redis.query::<i64>(&["DECR", "seckill:stock:10"]);
    let left = service.run(&stopped).expect_code(1).json();
    assert_eq!((&left["proof"]["buyers_without_order"], stock()), (&1.into(), 6), "{left}");
    service.run(&[&stopped[..], &["--remove-buyers"]].concat()).expect_code(0);
    assert_eq!((stock(), buyers()), (7, 3));
    let other = service.run(&["recover", "--service-stopped"]).expect_code(2);
    assert!(other.stderr.contains("--service-stopped"), "{other}");
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.consume();
    let query = |command: &[&str]| {
        service.redis.query::<redis::Value>(command);
    };
    let why = |report: &Value| report["not_compared"].to_string();
    service.sql("UPDATE tb_seckill_voucher SET begin_time = 'soon'");
    let report = service.status(0, &[]);
    assert!(why(&report).contains("#10 has no readable dates"), "{report}");
    service.sql("UPDATE tb_seckill_voucher SET begin_time = '2022-01-01 00:00:00'");
    for day in [0, 1] {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * day);
        let day = at.in_tz("Asia/Shanghai").unwrap().strftime("%Y:%m:%d");
        query(&["RPUSH", &format!("icr:order:{day}"), "1"]);
    }
    assert_eq!(alarms(&service.status(1, &[])), ["foreign_key".to_owned()].into());
    query(&["DEL", "seckill:order:10", "seckill:stock:10"]);
    query(&["SET", "seckill:order:10", "x"]);
    query(&["RPUSH", "seckill:stock:10", "9"]);
    let report = service.status(1, &[]);
    assert_eq!(sale(&report, 10)["buyers"], Value::Null, "{report}");
    let done = service.operate(1, &[]);
    assert_eq!(done["plan"]["unreadable"][0]["key"], "seckill:stock:10", "{done}");
    assert_eq!(done["proof"]["stock_mismatches"], Value::Null, "{done}");
    query(&["DEL", STREAM]);
    query(&["SET", STREAM, "x"]);
    let report = service.status(1, &[]);
    assert_eq!((&report["has_stream"], &report["stream"]), (&true.into(), &Value::Null));
    assert!(why(&report).contains("key of the stream") && !why(&report).contains("--entries"));
    let text = service.run(&["status"]).expect_code(1).stdout;
    assert!(text.contains("unknown: its key has the wrong type"), "{text}");
}

#[test]
fn the_bound_of_a_run_is_part_of_its_plan() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    let poison = ["XADD", STREAM, "*", "userId", "x", "voucherId", SALE, "id", "1"];
    service.redis.query::<String>(&poison);
    for user in 1..=2 {
        service.buy(user);
    }
    service.entries_are_stuck();
    let text = service.run(&["recover", "--stuck", "1", "--max", "1"]).expect_code(0).stdout;
    assert!(text.contains("This run processes 1 of 3 entries"), "{text}");
    let done = service.operate(1, &["--max", "1"]);
    assert_eq!((&done["applied"]["left"], &done["proof"]["stuck"]), (&2.into(), &2.into()));
    // No consumer ever held it.
    let letters = service.recover(0, &["--dead-letters"]);
    assert_eq!(letters["letters"][0]["consumer"], "", "{letters}");
}

#[test]
fn a_signal_ends_a_recovery_between_two_entries() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        service.buy(user);
        service.receive();
    }
    // The database holds up the second order until the signal was sent.
    service.before_the_order_of(2, "PERFORM pg_advisory_xact_lock(1);");
    let run = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("BEGIN").await.unwrap();
        conn.command("DO 'BEGIN PERFORM pg_advisory_xact_lock(1); END'").await.unwrap();
        let run = service.spawn(&["recover", "--operate", "--yes", "--stuck", "1", "--json"]);
        wait_until_blocking(PATIENCE, "the second order", || {
            service.redis.query::<i64>(&["EXISTS", "lock:order:2"]) == 1
        });
        run.signal(Signal::TERM);
        conn.command("ROLLBACK").await.unwrap();
        run
    });
    let ran = run.wait(PATIENCE).expect_code(1).json();
    let applied = &ran["applied"];
    assert_eq!(applied["cut_short"], true, "{ran}");
    assert_eq!((&applied["left"], &applied["replayed"]), (&1.into(), &2.into()), "{ran}");
    // What it has claimed is not fresh for the next run.
    let rest = service.operate(0, &[]);
    assert_eq!(rest["applied"]["replayed"], applied["left"], "{rest}");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 7, 3), (7, 3, 3)));
}

#[test]
fn what_cannot_be_recovered_is_refused_before_anything_is_changed() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.buy(1);
    service.receive();
    let operate = ["recover", "--operate", "--yes", "--stuck", "1"];
    refused(service.run(&[&operate[..], &["--read-only"]].concat()), 2, "read-only");
    let ran = service.run(&["recover", "--operate", "--stuck", "1"]).expect_code(2);
    assert!(ran.stderr.contains("--yes"), "{ran}");
    let profile = service.home.file("mine.toml");
    let with = |text: &str| {
        fs::write(&profile, text).unwrap();
        service.run(&[&["--profile", profile.to_str().unwrap()], &operate[..]].concat())
    };
    refused(with("[stream]\nkey = \"\"\n"), 1, "pass --service-stopped");
    refused(with("[entry]\nuser = \"buyer\"\n"), 1, "it lacks the field buyer");
    refused(with("[stream]\nkey = \"s2\"\n"), 1, "stream s2 does not exist");
    service.sql("DROP TABLE tb_voucher_order");
    service.sql(
        "CREATE TABLE tb_voucher_order (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, voucher_id \
         BIGINT NOT NULL, status INT, pay_type INT NOT NULL)",
    );
    refused(service.run(&operate), 1, "needs values for pay_type");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((1, 9, 1), (10, 0, 0)));
    assert!(service.logged("planned").is_empty());
}

#[test]
fn the_screen_shows_a_sale_an_alarm_and_an_outage() {
    let redis = TestRedis::setup().tcp().password(PASSWORD).start();
    let service = Service::on(Database::Sqlite, redis);
    service.loaded_sale(SALE, 100);
    for user in 1..=7 {
        service.buy(user);
    }
    service.consume();
    let url = service.redis.url();
    // A lock that is not released is stuck after a second on the screen, too.
    let args = service.args(&url, &["--every", "1", "--stuck", "1"]);
    let mut terminal = service.home.pty(&args, 80, 24, &[]);
    terminal.wait_for(LONG, "the sale", |screen| {
        screen.contains("hot pot") && screen.contains("✔ no alarms")
    });
    service.redis.query::<()>(&["SET", "lock:order:7", "thread-1", "EX", "600"]);
    terminal.wait_for(LONG, "the lock", |screen| screen.contains("was not released"));
    service.redis.query::<i64>(&["DEL", "lock:order:7"]);
    terminal.wait_for(LONG, "its end", |screen| screen.contains("✔ no alarms"));
    service.redis.query::<()>(&["SADD", "seckill:order:10", "9001"]);
    terminal.wait_for(LONG, "the alarm", |screen| {
        screen.contains("✖ 1 alarm") && screen.contains("9001)")
    });
    let screen = terminal.screen();
    assert!(screen.contains("READ-ONLY") && !screen.contains(PASSWORD), "{screen}");
    terminal.send(key::ENTER);
    terminal.wait_for(LONG, "its figures", |screen| screen.contains("NO ORDER       1"));
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED, "the terminal is as before");
    // An outage at the start is on the screen, too.
    let away = format!("redis://:{PASSWORD}@127.0.0.1:1");
    let mut terminal = service.home.pty(&service.args(&away, &[]), 60, 15, &[]);
    terminal.wait_for(LONG, "the outage", |screen| screen.contains("trying again every"));
    assert!(!terminal.screen().contains(PASSWORD), "{}", terminal.screen());
    terminal.send(key::CTRL_C);
    assert!(terminal.exit_status(LONG).success());
    refused(service.run(&[]), 2, "requires a terminal");
    refused(service.run(&["--json"]), 2, "attach status --json");
    refused(service.run(&["--every", "2", "status"]), 2, "--every belongs to the screen");
    refused(service.run(&["--stuck", "2", "status"]), 2, "put them after status");
}
