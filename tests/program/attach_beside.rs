//! `seckill attach recover` beside a service that lives: it sells, writes, closes, restocks and moves meanwhile.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use redis::Value as Reply;
use serde_json::json;

use crate::{
    attach::{DEAD, Database, SALE, STREAM, Service, alarm, buy, consume, sale},
    support::{
        LONG, MariaDb, PATIENCE, Seckill, TestRedis, is_mysql, refused, wait_until_blocking,
    },
};

/// Orders of the sold-out sale: many pages of entries.
const ORDERS: i64 = 3_000;
/// As many of them are written beside recoveries, at this speed.
const BESIDE: i64 = 2_000;
const PER_SECOND: u32 = 150;

impl Service {
    fn query(&self, command: &[&str]) {
        self.redis.query::<Reply>(command);
    }

    fn stock(&self) -> i64 {
        self.redis.query(&["GET", "seckill:stock:10"])
    }

    /// The service closes the orders of these users in SQL.
    fn close(&self, users: std::ops::RangeInclusive<i64>) {
        let (first, last) = users.clone().into_inner();
        self.sql(&format!(
            "UPDATE tb_voucher_order SET status = 4 WHERE user_id BETWEEN {first} AND {last}"
        ));
        let count = users.count();
        self.sql(&format!("UPDATE tb_seckill_voucher SET stock = stock + {count}"));
    }

    /// And returns their pieces to Redis.
    fn give_back(&self, users: std::ops::RangeInclusive<i64>) {
        for user in users {
            self.query(&["SREM", "seckill:order:10", &user.to_string()]);
            self.query(&["INCR", "seckill:stock:10"]);
        }
    }

    /// A consumer that handles so many entries a second.
    fn consume_at(&self, per_second: u32, stop: &AtomicBool) {
        let mut redis = self.redis.connection();
        self.runtime.block_on(async {
            let mut conn = self.pool.connection().await.unwrap();
            let mut due = tokio::time::interval(Duration::from_secs(1) / per_second);
            while !stop.load(Relaxed) {
                due.tick().await;
                consume(&mut redis, &mut conn, true).await;
            }
        });
    }

    /// Other users keep asking; returns how many were admitted.
    fn ask_until(&self, stop: &AtomicBool) -> i64 {
        let (mut redis, mut admitted) = (self.redis.connection(), 0);
        for user in 1_000_000.. {
            if stop.load(Relaxed) {
                break;
            }
            let order = self.next.fetch_add(1, Relaxed);
            admitted += i64::from(buy(&mut redis, user, order).unwrap() == 0);
            thread::sleep(Duration::from_millis(1));
        }
        admitted
    }

    /// A consumer that finds any order of the user, and acknowledges.
    fn acknowledge_all(&self) {
        let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
        self.query(&read);
        let pending: Vec<(String, Reply, Reply, Reply)> =
            self.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "1000"]);
        for (entry, ..) in pending {
            self.query(&["XACK", STREAM, "g1", &entry]);
        }
    }
}

/// One consumer works the orders of a sold-out sale off, and users keep asking, while recoveries run in a loop. A plan reads
/// many pages of entries, and orders are written between two of them.
#[test]
fn beside_a_living_consumer_no_piece_is_sold_twice() {
    let service = Service::start();
    service.loaded_sale(SALE, ORDERS);
    let mut redis = service.redis.connection();
    for user in 1..=ORDERS {
        assert_eq!(buy(&mut redis, user, service.next.fetch_add(1, Relaxed)).unwrap(), 0);
    }
    let written = || service.count("SELECT COUNT(*) FROM tb_voucher_order");
    let stop = AtomicBool::new(false);
    let (admitted, runs) = thread::scope(|scope| {
        let consumer = scope.spawn(|| service.consume_at(PER_SECOND, &stop));
        let late = scope.spawn(|| service.ask_until(&stop));
        let mut runs = 0;
        while written() < BESIDE && !consumer.is_finished() {
            service.run(&["recover", "--operate", "--yes", "--json"]);
            runs += 1;
        }
        stop.store(true, Relaxed);
        (ORDERS + late.join().unwrap(), runs)
    });
    assert_eq!((admitted, service.stock()), (ORDERS, 0), "{runs} runs");
    assert!(runs > 1, "{runs} runs");
    service.consume();
    service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
    let of_buyers = "SELECT COUNT(DISTINCT id) FROM tb_voucher_order WHERE id <= 3000";
    assert_eq!((written(), service.count(of_buyers), service.stock()), (ORDERS, ORDERS, 0));
}

/// More orders than a pass reads: what was promised is unknown.
#[test]
fn a_stock_is_not_raised_while_buyers_are_not_compared() {
    let service = Service::start();
    service.loaded_sale(SALE, 30);
    for user in 1..=30 {
        assert_eq!(service.buy(user), 0);
    }
    service.acknowledge_all();
    let entries: Vec<(String, Reply)> = service.redis.query(&["XRANGE", STREAM, "-", "+"]);
    for (entry, _) in &entries {
        service.query(&["XDEL", STREAM, entry]);
    }
    service.sale("9", 0);
    service.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
         INSERT INTO tb_voucher_order SELECT 1000000 + i, i, 9, 1 FROM n",
    );
    let done = service.operate(1, &["--compare", "1000"]);
    assert_eq!((&done["plan"]["buyers_compared"], service.stock()), (&false.into(), 0), "{done}");
    // All of them are read: the pieces are promised, until the buyers are removed.
    let done = service.operate(1, &[]);
    assert_eq!((&done["proof"]["buyers_without_order"], service.stock()), (&30.into(), 0));
    let done = service.operate(0, &["--remove-buyers"]);
    assert_eq!((&done["applied"]["removed_buyers"], service.stock()), (&30.into(), 30), "{done}");
}

/// It returns the piece to Redis after the recovery.
#[test]
fn a_service_that_closes_in_sql_first_is_not_raised_twice() {
    let service = Service::start();
    service.loaded_sale(SALE, 30);
    for user in 1..=10 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    service.close(1..=2);
    let report = service.status(1, &[]);
    assert_eq!(sale(&report, 10)["buyers_with_closed_order"], 2, "{report}");
    assert_eq!(alarm(&report, "buyers_with_closed_order")["user"], "1", "{report}");
    for more in [&[][..], &["--remove-buyers"]] {
        let done = service.operate(1, more);
        assert_eq!(done["plan"]["sales"][0]["buyers_with_closed_order"], json!(["1", "2"]));
        assert_eq!((service.stock(), service.redis_figures().2), (20, 10), "{done}");
    }
    service.give_back(1..=2);
    let figures = (service.stock(), service.sql_figures().0);
    assert_eq!(figures, (22, 22));
    service.status(0, &[]);
}

/// It restocks SQL, and Redis while a recovery waits for the difference to last.
#[test]
fn a_service_that_restocks_in_sql_first_is_not_raised_twice() {
    let service = Service::start();
    service.loaded_sale(SALE, 5);
    service.sql("UPDATE tb_seckill_voucher SET stock = 15");
    let run = service.spawn(&["recover", "--operate", "--yes", "--stuck", "3", "--json"]);
    wait_until_blocking(PATIENCE, "the plan", || {
        service.redis.query::<i64>(&["EXISTS", "seckill:attach:stream.orders:lock"]) == 1
    });
    service.query(&["INCRBY", "seckill:stock:10", "10"]);
    let done = run.wait(LONG).expect_code(1).json();
    assert_eq!((&done["applied"]["stale"], service.stock()), (&json!([10]), 15), "{done}");
    // A piece that Redis has lost comes back.
    service.query(&["DECR", "seckill:stock:10"]);
    assert_eq!(service.operate(0, &[])["applied"]["stocks"], 1);
    assert_eq!(service.stock(), 15);
}

/// The check of the tutorials counts closed orders: who buys again has no row.
#[test]
fn a_closed_order_does_not_stand_for_a_later_one() {
    let service = Service::start();
    service.loaded_sale(SALE, 100);
    for user in 1..=20 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    service.close(1..=20);
    service.give_back(1..=20);
    let bought_again = service.next.load(Relaxed);
    for user in 1..=20 {
        assert_eq!(service.buy(user), 0);
    }
    service.acknowledge_all();
    let report = service.status(1, &[]);
    assert_eq!(alarm(&report, "buyers_with_closed_order")["users"], 20, "{report}");
    service.entries_are_stuck();
    let plan = service.recover(0, &["--stuck", "1"]);
    assert_eq!(plan["entries"].as_array().unwrap().len(), 20, "{plan}");
    let done = service.operate(0, &[]);
    assert_eq!(done["applied"]["replayed"], 20, "{done}");
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 80, 20), (80, 40, 20)));
    let live = "SELECT COUNT(*) FROM tb_voucher_order WHERE status = 1";
    assert_eq!(service.count(live), 20);
    let oldest = service.count("SELECT MIN(id) FROM tb_voucher_order WHERE status = 1");
    assert_eq!(oldest, bought_again);
    service.status(0, &[]);
}

/// An undelivered entry of a sale that has moved to an engine is in front of a planned one.
#[test]
fn an_entry_of_a_moved_sale_is_left_alone_and_the_planned_one_processed() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.loaded_sale("11", 10);
    let other = ["XADD", STREAM, "*", "userId", "7", "voucherId", "11", "id", "700"];
    service.query(&other);
    assert_eq!(service.buy(1), 0);
    service.query(&other);
    service.query(&["SET", "seckill:stock:11:moved", "engine 5"]);
    service.query(&["DEL", "seckill:stock:11"]);
    service.entries_are_stuck();
    let plan = service.recover(0, &["--stuck", "1"]);
    assert_eq!((&plan["moved"], plan["entries"].as_array().unwrap().len()), (&2.into(), 1));
    let done = service.operate(1, &[]);
    assert_eq!(done["applied"]["replayed"], 1, "{done}");
    assert_eq!(service.sql_figures(), (9, 1, 1));
    let of_moved = "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 11";
    assert_eq!(service.count(of_moved), 0);
    // Neither written nor acknowledged; the last one is still undelivered.
    assert_eq!(service.redis_figures().0, 1);
}

/// The lock of the first user is held: the entries behind it are processed, and it stays for the next run.
#[test]
fn an_undelivered_entry_whose_user_is_locked_stops_no_other() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
    }
    service.query(&["SET", "lock:order:1", "thread-1"]);
    service.entries_are_stuck();
    let done = service.operate(1, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["locked"]), (&2.into(), &1.into()), "{done}");
    assert_eq!(service.sql_figures(), (8, 2, 2));
    service.query(&["DEL", "lock:order:1"]);
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 1);
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 7, 3), (7, 3, 3)));
}

/// The sale moves after the plan.
#[test]
fn an_entry_is_not_taken_once_its_sale_has_moved() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.entries_are_stuck();
    let url = service.redis.url();
    let args = service.args(&url, &["recover", "--operate", "--stuck", "1", "--reason", "x"]);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    service.query(&["SET", "seckill:stock:10:moved", "engine 5"]);
    pty.send("y\r");
    pty.exit_status(PATIENCE);
    assert_eq!((service.redis_figures().0, service.sql_figures()), (0, (10, 0, 0)));
    assert_eq!(service.logged("moved").len(), 1);
}

/// The buyer of a dead letter was removed, and another user has bought the piece.
#[test]
fn a_dead_letter_is_replayed_only_with_a_piece() {
    let service = Service::start();
    service.loaded_sale(SALE, 1);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0");
    service.entries_are_stuck();
    assert_eq!(service.operate(1, &[])["applied"]["dead_letters"], 1);
    service.sql("UPDATE tb_seckill_voucher SET stock = 1");
    service.operate(0, &["--remove-buyers"]);
    assert_eq!(service.redis_figures(), (0, 1, 0));
    let letters: Vec<(String, Reply)> = service.redis.query(&["XRANGE", DEAD, "-", "+"]);
    let letter = letters[0].0.as_str();
    let replay = ["recover", "--operate", "--yes", "--replay", letter];
    assert_eq!(service.buy(2), 0);
    let sold_out = service.run(&replay).expect_code(1);
    assert!(sold_out.stderr.contains("no piece is left in Redis"), "{sold_out}");
    service.consume();
    assert_eq!(service.sql_figures(), (0, 1, 1));
    // Another piece: its user has an entry, then an order, of another purchase.
    service.sql("UPDATE tb_seckill_voucher SET stock = 1");
    service.query(&["SET", "seckill:stock:10", "1"]);
    assert_eq!(service.buy(1), 0);
    refused(service.run(&replay), 1, "has another entry");
    service.consume();
    refused(service.run(&replay), 1, "already holds order");
    service.close(1..=1);
    service.give_back(1..=1);
    refused(service.run(&replay), 1, "is closed");
    assert_eq!((service.redis.query::<i64>(&["XLEN", DEAD]), service.stock()), (1, 1));
}

/// Its buyer was removed, and nobody has bought the piece.
#[test]
fn a_replayed_dead_letter_takes_the_piece_that_was_returned() {
    let service = Service::start();
    service.loaded_sale(SALE, 1);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0");
    service.entries_are_stuck();
    assert_eq!(service.operate(1, &[])["applied"]["dead_letters"], 1);
    service.sql("UPDATE tb_seckill_voucher SET stock = 1");
    service.operate(0, &["--remove-buyers"]);
    let letters: Vec<(String, Reply)> = service.redis.query(&["XRANGE", DEAD, "-", "+"]);
    service.recover(0, &["--replay", &letters[0].0, "--operate", "--yes"]);
    assert_eq!(service.redis_figures(), (0, 0, 1));
    assert_eq!(service.buy(2), 1);
    service.consume();
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 0, 1), (0, 1, 1)));
}

/// A trigger rejects every order: an outage of the database, and each entry waits.
#[test]
fn what_hits_every_order_makes_no_dead_letter() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    service.loaded_sale("11", 10);
    for user in 1..=4 {
        assert_eq!(service.buy(user), 0);
    }
    service.query(&["XADD", STREAM, "*", "userId", "7", "voucherId", "11", "id", "700"]);
    service.query(&["DECR", "seckill:stock:11"]);
    service.query(&["SADD", "seckill:order:11", "7"]);
    service.receive_without_order();
    service.entries_are_stuck();
    let reject = |trigger: &str, condition: &str| {
        service.sql(&format!(
            "CREATE TRIGGER {trigger} BEFORE INSERT ON tb_voucher_order WHEN {condition} \
             BEGIN SELECT RAISE(ABORT, 'not now'); END"
        ));
    };
    let recover = || service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
    let letters = || service.redis.query::<i64>(&["XLEN", DEAD]);
    reject("every", "1");
    for _ in 0..2 {
        let ran = recover().expect_code(1);
        let says = "accepts no order of sale #10 and of other sales: ";
        assert!(ran.stderr.contains(says), "{ran}");
        assert_eq!((letters(), service.count("SELECT COUNT(*) FROM tb_voucher_order")), (0, 0));
    }
    // Of one sale: the other one goes on.
    service.sql("DROP TRIGGER every");
    reject("of_sale", "NEW.voucher_id = 10");
    let ran = recover().expect_code(1);
    assert!(ran.stderr.contains("accepts no order of sale #10: ") && letters() == 0, "{ran}");
    assert_eq!(service.count("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 11"), 1);
    // Of one order.
    service.sql("DROP TRIGGER of_sale");
    reject("of_user", "NEW.user_id = 3");
    let done = service.operate(1, &[]);
    assert_eq!((&done["applied"]["replayed"], letters()), (&3.into(), 1), "{done}");
}

/// A trigger rejects the order: one letter, however often recoveries run, and again after a replay.
#[test]
fn an_order_that_sql_rejects_has_one_letter() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    service.sql(
        "CREATE TRIGGER no BEFORE INSERT ON tb_voucher_order WHEN NEW.user_id = 1 \
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    service.entries_are_stuck();
    for dead_letters in [1, 0, 0] {
        let done = service.operate(1, &[]);
        assert_eq!(done["applied"]["dead_letters"], dead_letters, "{done}");
    }
    let letters = || service.redis.query::<Vec<(String, Reply)>>(&["XRANGE", DEAD, "-", "+"]);
    let found = letters();
    assert_eq!((found.len(), service.stock()), (1, 9));
    let plan = service.recover(1, &["--stuck", "1"]);
    assert_eq!(plan["unwritable"][0]["letter"], found[0].0.as_str(), "{plan}");
    service.recover(0, &["--replay", &found[0].0, "--operate", "--yes"]);
    service.entries_are_stuck();
    for dead_letters in [1, 0] {
        let done = service.operate(1, &[]);
        assert_eq!(done["applied"]["dead_letters"], dead_letters, "{done}");
    }
    assert_eq!(letters().len(), 1);
    service.sql("DROP TRIGGER no");
    service.recover(0, &["--replay", &letters()[0].0, "--operate", "--yes"]);
    service.entries_are_stuck();
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 1);
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 9, 1), (9, 1, 1)));
}

/// No entry is taken from a database that takes no writes.
fn nothing_is_taken_without_writes(service: &Service, says: &str, code: i32) {
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
    }
    service.receive_without_order();
    service.entries_are_stuck();
    let before: Vec<(String, String, Reply, Reply)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert!(before.iter().all(|it| it.1 == "c1") && before.len() == 1, "{before:?}");
    service.status(1, &["--stuck", "1"]);
    let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
    assert_eq!(ran.code(), code, "{ran}");
    assert!(ran.stderr.contains(says), "{ran}");
    let after: Vec<(String, String, Reply, Reply)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert!(after.iter().all(|it| it.1 == "c1") && after.len() == 1, "{after:?}");
    assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
}

#[test]
fn nothing_is_taken_while_a_file_is_locked() {
    let service = Service::start();
    service.loaded_sale("9", 1);
    let conn = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("INSERT INTO tb_voucher VALUES (10, 'hot pot')").await.unwrap();
        conn.command(
            "INSERT INTO tb_seckill_voucher VALUES (10, 10, '2022-01-01 00:00:00', \
             '2099-01-01 00:00:00')",
        )
        .await
        .unwrap();
        conn.command("BEGIN IMMEDIATE").await.unwrap();
        conn
    });
    service.query(&["SET", "seckill:stock:10", "10"]);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    assert_eq!(service.buy(2), 0);
    service.entries_are_stuck();
    let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
    assert!(ran.code() != 0, "{ran}");
    let pending: Vec<(String, String, Reply, Reply)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert!(pending.iter().all(|it| it.1 == "c1") && pending.len() == 1, "{pending:?}");
    service.runtime.block_on(async move { drop(conn) });
}

#[test]
fn nothing_is_taken_if_the_database_is_read_only_on_mariadb() {
    let (server, home) = (MariaDb::start(), Seckill::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(server.run("", "CREATE DATABASE shop"));
    let url = server.tcp_url_of("shop");
    let service = Service::at(Database::MariaDb, TestRedis::start(), home, runtime, url);
    let set = |it: &str| service.runtime.block_on(server.run("", it));
    service.loaded_sale("9", 1);
    set("SET GLOBAL read_only = 1");
    // Its own users may still write.
    nothing_is_taken_without_writes(&service, "takes no writes", 1);
    set("SET GLOBAL read_only = 0");
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 3);
}

/// It takes writes, and what it has is of a moment ago.
#[test]
fn nothing_is_taken_if_the_database_is_a_replica_that_takes_writes() {
    let (server, home) = (MariaDb::start(), Seckill::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(server.run("", "CREATE DATABASE shop"));
    let url = server.tcp_url_of("shop");
    let service = Service::at(Database::MariaDb, TestRedis::start(), home, runtime, url);
    let set = |it: &str| service.runtime.block_on(server.run("", it));
    service.loaded_sale("9", 1);
    let [follow, leave] = if is_mysql() {
        ["CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1'", "RESET REPLICA ALL"]
    } else {
        ["CHANGE MASTER TO MASTER_HOST = '127.0.0.1'", "RESET SLAVE ALL"]
    };
    set(follow);
    nothing_is_taken_without_writes(&service, "is a replica", 1);
    let checks = service.doctor(1, &[]);
    assert!(checks.to_string().contains("is a replica"), "{checks}");
    set(leave);
    assert_eq!(service.recover(0, &["--stuck", "1"])["is_replica"], false);
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 3);
    // A user without the privilege learns that it is unknown.
    set("CREATE USER clerk@'%' IDENTIFIED BY 'secret'");
    set("GRANT SELECT, INSERT, UPDATE ON shop.* TO clerk@'%'");
    let (_, address) = service.url.split_once('@').unwrap();
    let clerk = format!("mysql://clerk:secret@{address}");
    let args = ["attach", "--redis", &service.redis.url(), "--database", &clerk];
    let plan = service.home.run(&[&args[..], &["recover", "--json"]].concat()).expect_code(1);
    assert_eq!(plan.json()["is_replica"], json!(null));
    let plan = service.home.run(&[&args[..], &["recover"]].concat()).expect_code(1);
    assert!(plan.stdout.contains("may not run SHOW REPLICA STATUS"), "{plan}");
}

#[test]
fn nothing_is_taken_if_the_role_may_not_write_on_postgres() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    service.entries_are_stuck();
    service.sql(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', \
         current_database()); END $$",
    );
    let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
    assert!(ran.code() != 0 && ran.stderr.contains("read-only"), "{ran}");
    let pending: Vec<(String, String, Reply, Reply)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    assert_eq!(pending.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["c1"]);
}

/// A recovery that died has locked the user: the consumer acknowledges another entry of this user without an order, and the
/// next recovery writes it.
#[test]
fn an_order_that_a_dead_recovery_has_kept_from_its_consumer_is_written() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.query(&["HSET", "lock:order:1", "1000 ana@shop (PID 7)", "1"]);
    service.query(&["PEXPIRE", "lock:order:1", "20000"]);
    // tryLock returns false: it logs, returns, and acknowledges.
    service.acknowledge_all();
    service.query(&["DEL", "lock:order:1"]);
    service.entries_are_stuck();
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 1);
    assert_eq!((service.redis_figures(), service.sql_figures()), ((0, 9, 1), (9, 1, 1)));
    assert!(fs::exists(service.home.data_dir().join("attach-recover.jsonl")).unwrap());
}
