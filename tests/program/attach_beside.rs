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
        Cut, LONG, MariaDb, PATIENCE, Proxy, Seckill, TestRedis, is_mysql, refused,
        wait_until_blocking,
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
    let done = service.operate(0, &["--remove-buyers", "--not-moved"]);
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

/// It has no stock in Redis, so it may have moved to an engine. SQL had nothing left for it when the plan was made, and has
/// by now.
#[test]
fn an_entry_of_a_sale_that_may_have_moved_becomes_no_order() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.receive_without_order();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0");
    service.query(&["DEL", "seckill:stock:10"]);
    service.entries_are_stuck();
    let url = service.redis.url();
    let args = service.args(&url, &["recover", "--operate", "--stuck", "1", "--reason", "x"]);
    let mut pty = service.home.pty(&args, 120, 40, &[]);
    pty.wait_for_text("[y/N]");
    service.sql("UPDATE tb_seckill_voucher SET stock = 10");
    pty.send("y\r");
    pty.exit_status(PATIENCE);
    assert_eq!(service.sql_figures(), (10, 0, 0));
    assert_eq!(service.logged("moved").len(), 1);
}

/// The service gives a piece back in Redis while the operator reads the plan: wherever the entry waits, nothing is written.
#[test]
fn an_entry_whose_buyer_was_given_back_since_the_plan_becomes_no_order() {
    for place in ["passed", "pending", "undelivered"] {
        let service = Service::start();
        service.loaded_sale(SALE, 10);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
        }
        match place {
            "passed" => service.acknowledge_all(),
            "pending" => (1..=3).for_each(|_| service.receive_without_order()),
            _ => {}
        }
        service.entries_are_stuck();
        let url = service.redis.url();
        let args = service.args(&url, &["recover", "--operate", "--stuck", "1", "--reason", "x"]);
        let mut pty = service.home.pty(&args, 160, 40, &[]);
        pty.wait_for_text("[y/N]");
        service.give_back(2..=2);
        pty.send("y\r");
        pty.wait_for_text("has given their pieces back since the plan");
        assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1, "{place}");
        assert_eq!((service.stock(), service.sql_figures()), (8, (8, 2, 2)), "{place}");
        assert_eq!(service.logged("not_promised").len(), 1, "{place}");
        // Nor does a later run write it.
        let done = service.operate(1, &[]);
        assert_eq!(done["applied"]["replayed"], 0, "{place}: {done}");
        let admitted = (100..120).filter(|user| service.buy(*user) == 0).count();
        assert_eq!((admitted, service.stock()), (8, 0), "{place}");
        service.consume();
        assert_eq!(service.sql_figures(), (0, 10, 10), "{place}");
        // Without a piece in SQL, it makes no dead letter either.
        service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
        let of_user = "SELECT COUNT(*) FROM tb_voucher_order WHERE user_id = 2";
        assert_eq!(service.count(of_user), 0, "{place}");
        assert_eq!(service.redis.query::<i64>(&["XLEN", DEAD]), 0, "{place}");
    }
}

/// Where the two entries of a user wait who was given back and has bought again.
const TWICE: [(&str, &str); 6] = [
    ("pending", "undelivered"),
    ("pending", "pending"),
    ("pending", "passed"),
    ("passed", "undelivered"),
    ("passed", "passed"),
    ("undelivered", "undelivered"),
];

impl Service {
    /// The group delivers all entries; returns how many.
    fn deliver(&self) -> usize {
        let read = ["XREADGROUP", "GROUP", "g1", "c1", "STREAMS", STREAM, ">"];
        self.query(&read);
        let pending: Vec<(String, Reply, Reply, Reply)> =
            self.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "1000"]);
        pending.len()
    }

    /// What has been added waits there.
    fn place(&self, place: &str) {
        match place {
            "pending" => drop(self.deliver()),
            "passed" => {
                // Those that were pending before stay pending.
                let before: Vec<(String, Reply, Reply, Reply)> =
                    self.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "1000"]);
                self.deliver();
                let after: Vec<(String, Reply, Reply, Reply)> =
                    self.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "1000"]);
                for (entry, ..) in after.iter().skip(before.len()) {
                    self.query(&["XACK", STREAM, "g1", entry]);
                }
            }
            _ => {}
        }
    }

    fn buy_again(&self, user: i64) -> i64 {
        self.give_back(user..=user);
        let order = self.next.load(Relaxed);
        assert_eq!(self.buy(user), 0);
        order
    }

    /// The orders of user 2.
    fn orders_of_second(&self) -> Vec<i64> {
        self.runtime.block_on(async {
            let sql = "SELECT id FROM tb_voucher_order WHERE user_id = 2 ORDER BY id";
            let mut conn = self.pool.connection().await.unwrap();
            conn.rows::<1>(sql, &[]).await.unwrap().into_iter().flatten().collect()
        })
    }
}

/// The service has replied with another order ID since: the one that it has taken back is not written.
#[test]
fn who_has_bought_again_gets_the_newer_order() {
    for (older, newer) in TWICE {
        let service = Service::start();
        service.loaded_sale(SALE, 3);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
        }
        service.place(older);
        let order = service.buy_again(2);
        service.place(newer);
        service.entries_are_stuck();
        let done = service.operate(0, &[]);
        let of_user = service.orders_of_second();
        assert_eq!(of_user, [order], "{older}, {newer}: {done}");
        assert_eq!((service.stock(), service.sql_figures()), (0, (0, 3, 3)), "{older}, {newer}");
        assert_eq!(service.redis_figures().0, 0, "{older}, {newer}: {done}");
        // What was given up for that cannot be replayed.
        let letters: Vec<(String, Reply)> = service.redis.query(&["XRANGE", DEAD, "-", "+"]);
        assert_eq!(letters.len(), usize::from(older != "passed"), "{older}, {newer}");
        for (letter, _) in letters {
            let replay = ["recover", "--operate", "--yes", "--replay", &letter];
            refused(service.run(&replay), 1, "already holds order");
        }
    }
}

/// The same while the operator reads the plan.
#[test]
fn who_has_bought_again_since_the_plan_gets_the_newer_order() {
    for (older, newer) in TWICE {
        let service = Service::start();
        service.loaded_sale(SALE, 3);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
        }
        service.place(older);
        service.entries_are_stuck();
        let url = service.redis.url();
        let args = service.args(&url, &["recover", "--operate", "--stuck", "1", "--reason", "x"]);
        let mut pty = service.home.pty(&args, 160, 40, &[]);
        pty.wait_for_text("[y/N]");
        let order = service.buy_again(2);
        if older != "undelivered" {
            service.place(newer);
        }
        pty.send("y\r");
        pty.wait_for_text("has given their pieces back since the plan");
        assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1, "{older}, {newer}");
        assert_eq!(service.orders_of_second(), [0; 0], "{older}, {newer}");
        assert_eq!(service.logged("not_promised").len(), 1, "{older}, {newer}");
        service.entries_are_stuck();
        service.operate(0, &[]);
        assert_eq!(service.orders_of_second(), [order], "{older}, {newer}");
        assert_eq!((service.stock(), service.sql_figures()), (0, (0, 3, 3)), "{older}, {newer}");
    }
}

/// An entry that was given back is not promised, also if SQL has nothing left for it: a dead letter could be replayed.
#[test]
fn an_entry_that_was_given_back_makes_no_dead_letter() {
    for since_the_plan in [false, true] {
        let service = Service::start();
        service.loaded_sale(SALE, 3);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
            service.receive_without_order();
        }
        service.sql("UPDATE tb_seckill_voucher SET stock = 0");
        service.entries_are_stuck();
        if since_the_plan {
            let url = service.redis.url();
            let recover = ["recover", "--operate", "--stuck", "1", "--reason", "x"];
            let mut pty = service.home.pty(&service.args(&url, &recover), 160, 40, &[]);
            pty.wait_for_text("[y/N]");
            service.give_back(2..=2);
            pty.send("y\r");
            pty.wait_for_text("has given their pieces back since the plan");
            assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1);
        } else {
            service.give_back(2..=2);
            let done = service.operate(1, &[]);
            let left = done["plan"]["not_promised"].as_array().unwrap();
            assert_eq!(left.iter().map(|it| &it["user_id"]).collect::<Vec<_>>(), [2], "{done}");
        }
        let of_letters: Vec<(String, Vec<String>)> =
            service.redis.query(&["XRANGE", DEAD, "-", "+"]);
        let is_second = |fields: &Vec<String>| {
            fields.windows(2).any(|it| it[0] == "body:userId" && it[1] == "2")
        };
        assert_eq!(of_letters.len(), 2, "{of_letters:?}");
        assert!(!of_letters.iter().any(|(_, fields)| is_second(fields)), "{of_letters:?}");
        assert_eq!(service.redis_figures().0, 1);
    }
}

/// A buyer with nothing, whom the operator removes: the service gives the piece back, sells it to the same user again, and its
/// consumer acknowledges the entry, all since the plan.
#[test]
fn a_buyer_who_has_bought_again_since_the_plan_is_not_removed() {
    for deletes in [false, true] {
        let service = Service::start();
        service.loaded_sale(SALE, 6);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
        }
        service.consume();
        service.query(&["SADD", "seckill:order:10", "77"]);
        service.query(&["DECR", "seckill:stock:10"]);
        service.entries_are_stuck();
        let url = service.redis.url();
        let recover = ["recover", "--operate", "--remove-buyers", "--stuck", "1", "--reason", "x"];
        let mut pty = service.home.pty(&service.args(&url, &recover), 160, 40, &[]);
        pty.wait_for_text("[y/N]");
        service.buy_again(77);
        service.acknowledge_all();
        if deletes {
            let newest: Vec<(String, Reply)> =
                service.redis.query(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"]);
            service.query(&["XDEL", STREAM, &newest[0].0]);
        }
        pty.send("y\r");
        pty.wait_for_text("The plan is stale");
        assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1);
        let is_buyer: i64 = service.redis.query(&["SISMEMBER", "seckill:order:10", "77"]);
        assert_eq!((is_buyer, service.stock()), (1, 2));
        let admitted = (100..120).filter(|user| service.buy(*user) == 0).count();
        assert_eq!(admitted, 2);
    }
}

/// Whether the service gave the piece back, or Redis has lost the buyer, cannot be seen: the entry is left until the operator
/// says which it was.
#[test]
fn an_entry_whose_user_is_no_buyer_is_left_alone() {
    let service = Service::start();
    service.loaded_sale(SALE, 3);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
        service.receive_without_order();
    }
    service.give_back(2..=3);
    service.entries_are_stuck();
    assert_eq!(service.buy(9), 0);
    let plan = service.recover(0, &["--stuck", "1"]);
    let left: Vec<_> = plan["not_promised"].as_array().unwrap().iter().collect();
    assert_eq!(left.iter().map(|it| &it["user_id"]).collect::<Vec<_>>(), [2, 3], "{plan}");
    let text = service.run(&["recover", "--stuck", "1"]).expect_code(0).stdout;
    assert!(text.contains("XACK stream.orders g1") && text.contains("SADD"), "{text}");
    let done = service.operate(1, &[]);
    assert_eq!((&done["applied"]["replayed"], service.stock()), (&2.into(), 1), "{done}");
    assert_eq!(service.sql_figures(), (1, 2, 2));
    // It was given back: the service acknowledges. It was lost: the operator adds the buyer.
    let pending: Vec<(String, Reply, Reply, Reply)> =
        service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
    let [given_back, lost] = [&pending[0].0, &pending[1].0];
    service.query(&["XACK", STREAM, "g1", given_back]);
    service.query(&["SADD", "seckill:order:10", "3"]);
    service.query(&["DECR", "seckill:stock:10"]);
    let plan = service.recover(0, &["--stuck", "1"]);
    assert_eq!(
        (&plan["entries"][0]["entry"], &plan["not_promised"]),
        (&lost.as_str().into(), &json!([]))
    );
    service.operate(0, &[]);
    assert_eq!((service.stock(), service.sql_figures()), (0, (0, 3, 3)));
}

/// A buyer whom Redis has lost is not added once the service has closed the order, or is on sale again.
#[test]
fn a_buyer_whose_order_was_closed_since_the_plan_is_not_added() {
    let service = Service::start();
    service.loaded_sale(SALE, 10);
    for user in 1..=3 {
        assert_eq!(service.buy(user), 0);
    }
    service.consume();
    service.query(&["SREM", "seckill:order:10", "1", "2"]);
    let url = service.redis.url();
    let args = service.args(&url, &["recover", "--operate", "--stuck", "1", "--reason", "x"]);
    let mut pty = service.home.pty(&args, 160, 40, &[]);
    pty.wait_for_text("[y/N]");
    service.close(2..=2);
    service.give_back(2..=2);
    pty.send("y\r");
    pty.wait_for_text("have no live order any more");
    assert_eq!(pty.exit_status(PATIENCE).exit_code(), 1);
    let members: Vec<String> = service.redis.query(&["SMEMBERS", "seckill:order:10"]);
    assert!(!members.contains(&"2".to_owned()) && members.len() == 2, "{members:?}");
    assert_eq!(service.logged("stale"), [("add_buyer".to_owned(), "\"2\"".to_owned())].into());
    service.operate(1, &[]);
    assert_eq!((service.buy(2), service.stock()), (0, 7));
}

/// It is closed while the transaction of its order waits for the database: the second look is the one before the commit.
#[test]
fn an_order_is_not_committed_once_its_buyer_was_given_back() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in 1..=2 {
        assert_eq!(service.buy(user), 0);
        service.receive_without_order();
    }
    service.before_the_order_of(2, "PERFORM pg_advisory_xact_lock(1);");
    let conn = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("BEGIN").await.unwrap();
        conn.command("DO 'BEGIN PERFORM pg_advisory_xact_lock(1); END'").await.unwrap();
        conn
    });
    service.entries_are_stuck();
    let run = service.spawn(&["recover", "--json", "--operate", "--yes", "--stuck", "1"]);
    wait_until_blocking(LONG, "the lock of a user", || {
        service.redis.query::<i64>(&["EXISTS", "lock:order:2"]) == 1
    });
    service.give_back(2..=2);
    service.runtime.block_on(async move {
        let mut conn = conn;
        conn.command("ROLLBACK").await.unwrap();
    });
    let done = run.wait(LONG).expect_code(1).json();
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["not_promised"]), (&1.into(), &1.into()), "{done}");
    assert_eq!((service.stock(), service.sql_figures()), (9, (9, 1, 1)));
    assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
}

/// The database may take longer than the lease of the lock of a user: it is renewed, and once it is lost nothing is committed,
/// because a consumer of the service may be writing another order of the user.
#[test]
fn an_order_is_committed_only_while_its_user_is_locked() {
    for is_lost in [true, false] {
        let service = Service::on(Database::Postgres, TestRedis::start());
        service.loaded_sale(SALE, 10);
        for user in 1..=2 {
            assert_eq!(service.buy(user), 0);
            service.receive_without_order();
        }
        service.before_the_order_of(2, "PERFORM pg_advisory_xact_lock(1);");
        let conn = service.runtime.block_on(async {
            let mut conn = service.pool.connection().await.unwrap();
            conn.command("BEGIN").await.unwrap();
            conn.command("DO 'BEGIN PERFORM pg_advisory_xact_lock(1); END'").await.unwrap();
            conn
        });
        service.entries_are_stuck();
        let run = service.spawn(&["recover", "--json", "--operate", "--yes", "--stuck", "1"]);
        let lock = "lock:order:2";
        let left = || service.redis.query::<i64>(&["PTTL", lock]);
        wait_until_blocking(LONG, "the lock of the user", || left() > 0);
        if is_lost {
            service.query(&["DEL", lock]);
            service.query(&["SET", lock, "thread-1", "PX", "60000"]);
        } else {
            service.query(&["PEXPIRE", lock, "8000"]);
            wait_until_blocking(PATIENCE, "a renewal", || left() > 8_000);
        }
        service.runtime.block_on(async move {
            let mut conn = conn;
            conn.command("ROLLBACK").await.unwrap();
        });
        let done = run.wait(LONG).expect_code(i32::from(is_lost)).json();
        assert_eq!(done["applied"]["locked"], i32::from(is_lost), "{done}");
        if is_lost {
            assert_eq!(service.orders_of_second(), [0; 0], "{done}");
            // It is that of the consumer now.
            assert_eq!(service.redis.query::<String>(&["GET", lock]), "thread-1");
            service.query(&["DEL", lock]);
            service.operate(0, &[]);
        }
        assert_eq!(service.orders_of_second(), [2]);
        assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
    }
}

/// Whether a commit without a reply was done is unknown: it is said so, and the next run looks.
#[test]
fn a_commit_without_a_reply_is_unknown_until_the_next_run() {
    for cut in [Cut::Before, Cut::After] {
        let service = Service::on(Database::MariaDb, TestRedis::start());
        service.loaded_sale(SALE, 10);
        assert_eq!(service.buy(2), 0);
        service.receive_without_order();
        service.entries_are_stuck();
        let server = MariaDb::shared();
        let path = service.url.split('?').next().unwrap();
        let name = path.split('/').next_back().unwrap();
        let proxy = service.runtime.block_on(Proxy::before(server.port()));
        let url = proxy.url(&server.tcp_url_of(name), server.port());
        proxy.cut_at_commit(cut);
        let redis = service.redis.url();
        let servers = ["attach", "--redis", &redis, "--database", &url];
        let recover = ["recover", "--operate", "--yes", "--stuck", "1"];
        let ran = service.home.spawn(&[&servers[..], &recover].concat()).wait(LONG);
        assert_eq!(proxy.heal(), [true], "{ran}");
        let ran = ran.expect_code(3);
        assert!(
            ran.stderr.contains("whether it was done is unknown. Run the command again"),
            "{ran}"
        );
        // A consumer cannot write another order of the user before it is known.
        let left: i64 = service.redis.query(&["PTTL", "lock:order:2"]);
        assert!(left > 10_000, "{left}");
        service.query(&["DEL", "lock:order:2"]);
        let applied = &service.operate(0, &[])["applied"];
        let (written, acknowledged) = if cut == Cut::Before { (1, 0) } else { (0, 1) };
        assert_eq!(
            (&applied["replayed"], &applied["acknowledged"]),
            (&written.into(), &acknowledged.into())
        );
        assert_eq!((service.redis_figures().0, service.sql_figures()), (0, (9, 1, 1)), "{cut:?}");
    }
}

/// The user has bought again, and the consumer has acknowledged that entry without an order.
#[test]
fn a_dead_letter_is_not_replayed_once_its_user_has_bought_again() {
    let service = Service::start();
    service.loaded_sale(SALE, 3);
    assert_eq!(service.buy(2), 0);
    service.receive_without_order();
    service.sql("UPDATE tb_seckill_voucher SET stock = 0");
    service.entries_are_stuck();
    assert_eq!(service.operate(1, &[])["applied"]["dead_letters"], 1);
    let letters: Vec<(String, Reply)> = service.redis.query(&["XRANGE", DEAD, "-", "+"]);
    service.sql("UPDATE tb_seckill_voucher SET stock = 3");
    let order = service.buy_again(2);
    service.acknowledge_all();
    let replay = ["recover", "--operate", "--yes", "--replay", &letters[0].0];
    refused(service.run(&replay), 1, "has bought again since");
    service.entries_are_stuck();
    service.operate(0, &[]);
    assert_eq!(service.orders_of_second(), [order]);
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
    refused(service.run(&replay), 1, "has bought again since");
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

/// Before it inserts an order, the database of the service fails with what its owner likes to raise, if this holds.
fn fails_before_an_order(
    service: &Service,
    database: Database,
    name: &str,
    condition: &str,
    code: &str,
) {
    match database {
        Database::Sqlite => service.sql(&format!(
            "CREATE TRIGGER {name} BEFORE INSERT ON tb_voucher_order WHEN {condition} \
             BEGIN SELECT RAISE(ABORT, 'blacklisted'); END"
        )),
        Database::MariaDb => service.sql(&format!(
            "CREATE TRIGGER {name} BEFORE INSERT ON tb_voucher_order FOR EACH ROW BEGIN IF {condition} \
             THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {code}, \
             MESSAGE_TEXT = 'blacklisted'; END IF; END"
        )),
        Database::Postgres => {
            service.sql(&format!(
                "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {condition} \
                 THEN RAISE EXCEPTION 'blacklisted' USING ERRCODE = '{code}'; END IF; \
                 RETURN NEW; END $$"
            ));
            service.sql(&format!(
                "CREATE TRIGGER {name} BEFORE INSERT ON tb_voucher_order FOR EACH ROW \
                 EXECUTE FUNCTION {name}()"
            ));
        }
    }
}

fn fails_no_more(service: &Service, database: Database, name: &str) {
    match database {
        Database::Postgres => service.sql(&format!("DROP FUNCTION {name} CASCADE")),
        _ => service.sql(&format!("DROP TRIGGER {name}")),
    }
}

/// No error code decides: what is raised for one user is about that order, and what is raised for all is about none.
fn a_fault_is_about_what_it_hits(database: Database, codes: &[&str]) {
    for code in codes {
        let service = Service::on(database, TestRedis::start());
        service.loaded_sale(SALE, 20);
        service.loaded_sale("11", 10);
        // The first entry of all, and one in the midst.
        for user in [3, 1, 2] {
            assert_eq!(service.buy(user), 0);
            service.receive_without_order();
        }
        service.query(&["XADD", STREAM, "*", "userId", "7", "voucherId", "11", "id", "700"]);
        service.query(&["DECR", "seckill:stock:11"]);
        service.query(&["SADD", "seckill:order:11", "7"]);
        assert_eq!((service.buy(33), service.buy(4)), (0, 0));
        service.entries_are_stuck();
        let letters = || service.redis.query::<Vec<(String, Reply)>>(&["XRANGE", DEAD, "-", "+"]);
        let rows = || service.count("SELECT COUNT(*) FROM tb_voucher_order");

        // What says that the statement was not processed may go away by itself: such an order waits.
        let is_away = ["1205", "25006"].contains(code);
        let says_so = |said: &str| is_away || said.contains("blacklisted");
        fails_before_an_order(&service, database, "each_one", "NEW.user_id > 0", code);
        let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
        assert!(ran.code() != 0 && says_so(&ran.stderr), "{code}: {ran}");
        assert_eq!((letters().len(), rows()), (0, 0), "{code}: {ran}");
        let pending: Vec<(String, String, Reply, Reply)> =
            service.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "9"]);
        assert!(pending.iter().all(|it| it.1 == "c1") && pending.len() == 3, "{pending:?}");
        fails_no_more(&service, database, "each_one");

        fails_before_an_order(&service, database, "some_of", "NEW.user_id IN (3, 33)", code);
        let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]).expect_code(1);
        assert_eq!(rows(), 4, "{code}: {ran}");
        let (found, expected) = (letters(), if is_away { 0 } else { 2 });
        assert_eq!(found.len(), expected, "{code}: {ran}");
        assert_eq!(service.redis_figures().0, 2 - expected as i64, "{code}: {ran}");
        assert!(says_so(&format!("{found:?}")), "{code}: {ran}");
        assert_eq!(service.redis.query::<Vec<String>>(&["KEYS", "lock:order:*"]), [""; 0]);
        fails_no_more(&service, database, "some_of");
        for (letter, _) in &found {
            service.recover(0, &["--replay", letter, "--operate", "--yes"]);
        }
        service.entries_are_stuck();
        service.operate(0, &[]);
        assert_eq!((rows(), service.redis_figures().0), (6, 0), "{code}");
    }
}

#[test]
fn a_fault_is_about_what_it_hits_on_sqlite() {
    a_fault_is_about_what_it_hits(Database::Sqlite, &[""]);
}

#[test]
fn a_fault_is_about_what_it_hits_on_mariadb() {
    a_fault_is_about_what_it_hits(Database::MariaDb, &["1644", "1146", "1205"]);
}

/// A tried order would stay in the table, and be a buyer's who never asked.
#[test]
fn tables_without_transactions_are_refused() {
    for table in ["tb_voucher_order", "tb_seckill_voucher"] {
        let service = Service::on(Database::MariaDb, TestRedis::start());
        service.loaded_sale(SALE, 3);
        for user in 1..=3 {
            assert_eq!(service.buy(user), 0);
            service.receive_without_order();
        }
        service.entries_are_stuck();
        service.sql(&format!("ALTER TABLE {table} ENGINE=MyISAM"));
        let ran = service.run(&["recover", "--operate", "--yes", "--stuck", "1"]);
        assert!(ran.code() != 0 && ran.stderr.contains("MyISAM"), "{ran}");
        let rows = || service.count("SELECT COUNT(*) FROM tb_voucher_order");
        assert_eq!((rows(), service.redis_figures().0), (0, 3), "nothing is taken: {ran}");
        let checks = service.run(&["doctor"]);
        assert!(checks.code() != 0 && checks.stdout.contains("storage engine"), "{checks}");
        service.sql(&format!("ALTER TABLE {table} ENGINE=InnoDB"));
        service.operate(0, &[]);
        assert_eq!((rows(), service.redis_figures().0), (3, 0));
    }
}

#[test]
fn a_fault_is_about_what_it_hits_on_postgres() {
    let all = ["P0001", "42P01", "25006"];
    a_fault_is_about_what_it_hits(Database::Postgres, &all);
}

/// What is checked at the commit is tried as well.
#[test]
fn a_deferred_check_of_one_order_is_about_that_order() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    for user in [3, 1, 2] {
        assert_eq!(service.buy(user), 0);
    }
    service.sql(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.user_id = 3 \
         THEN RAISE EXCEPTION 'blacklisted'; END IF; RETURN NEW; END $$",
    );
    service.sql(
        "CREATE CONSTRAINT TRIGGER no AFTER INSERT ON tb_voucher_order DEFERRABLE \
         INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no()",
    );
    service.entries_are_stuck();
    let done = service.operate(1, &[]);
    let applied = &done["applied"];
    assert_eq!((&applied["replayed"], &applied["dead_letters"]), (&2.into(), &1.into()), "{done}");
    assert_eq!(service.sql_figures(), (8, 2, 2));
}

/// Another session has locked the row of one sale: those of the other sale are written.
#[test]
fn a_sale_whose_row_is_locked_stops_no_other() {
    let service = Service::on(Database::Postgres, TestRedis::start());
    service.loaded_sale(SALE, 10);
    service.loaded_sale("11", 10);
    assert_eq!(service.buy(1), 0);
    service.query(&["XADD", STREAM, "*", "userId", "7", "voucherId", "11", "id", "700"]);
    service.query(&["DECR", "seckill:stock:11"]);
    service.query(&["SADD", "seckill:order:11", "7"]);
    let conn = service.runtime.block_on(async {
        let mut conn = service.pool.connection().await.unwrap();
        conn.command("BEGIN").await.unwrap();
        conn.command("SELECT 1 FROM tb_seckill_voucher WHERE voucher_id = 10 FOR UPDATE")
            .await
            .unwrap();
        conn
    });
    service.entries_are_stuck();
    let run = service.spawn(&["recover", "--operate", "--yes", "--stuck", "1"]);
    let ran = run.wait(LONG).expect_code(1);
    assert!(ran.stderr.contains("accepts no order of sale #10"), "{ran}");
    let of_other = "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = 11";
    assert_eq!((service.count(of_other), service.sql_figures()), (1, (10, 0, 0)));
    service.runtime.block_on(async move {
        let mut conn = conn;
        conn.command("ROLLBACK").await.unwrap();
    });
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 1);
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
    let limits = || service.status(0, &[])["not_compared"].to_string();
    assert!(limits().contains("is a replica"), "{}", limits());
    set(leave);
    assert!(!limits().contains("is a replica"), "{}", limits());
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

/// A process that is stopped in its transaction holds no row of the service for long.
fn sessions_that_write_have_a_limit(database: Database, limit: &str) {
    let service = Service::on(database, TestRedis::start());
    service.loaded_sale(SALE, 10);
    assert_eq!(service.buy(1), 0);
    service.sql("CREATE TABLE seen (value VARCHAR(99))");
    let insert = format!("INSERT INTO seen VALUES ({limit});");
    match database {
        Database::Postgres => service.before_the_order_of(1, &insert),
        _ => service.sql(&format!(
            "CREATE TRIGGER seen_by BEFORE INSERT ON tb_voucher_order FOR EACH ROW {insert}"
        )),
    }
    service.entries_are_stuck();
    assert_eq!(service.operate(0, &[])["applied"]["replayed"], 1);
    let seen = "SELECT COUNT(*) FROM seen WHERE value IN ('40', '40s', '40.000000')";
    assert_eq!(service.count(seen), 1);
}

#[test]
fn sessions_that_write_have_a_limit_on_mariadb() {
    let limit =
        if is_mysql() { "@@session.wait_timeout" } else { "@@session.idle_transaction_timeout" };
    sessions_that_write_have_a_limit(Database::MariaDb, limit);
}

#[test]
fn sessions_that_write_have_a_limit_on_postgres() {
    let limit = "current_setting('idle_in_transaction_session_timeout')";
    sessions_that_write_have_a_limit(Database::Postgres, limit);
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
