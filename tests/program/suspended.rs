//! A process that is suspended between an admission and its reply, for longer than the buyer has to pay.

use std::{fs, time::Duration};

use rustix::process::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{
    Background, Cut, LONG, PATIENCE, Proxy, Ran, Seckill, TestRedis, wait_until_blocking,
};

const STREAM: &str = "seckill:{p0}:orders";
const RETURNED: &str = "seckill:{p0}:returned";
const STOCK: &str = "seckill:{p0}:stock:1";
const PIECES: u64 = 10;

/// Unpaid orders are closed after a second, and entries of a silent node are soon claimed.
const JOBS: &str = "claim_idle_ms = 1000\nnode_dead_ms = 2000\nanswer_within_ms = 20000\n\
    [engine.jobs]\nclose_overdue = \"every 1s\"\nunpaid_ms = 1000\n";

/// A node that works, and another one that sells and is suspended.
struct Shop {
    redis: TestRedis,
    runtime: Runtime,
    works: Seckill,
    sells: Seckill,
}

impl Shop {
    fn open() -> Self {
        let redis = TestRedis::setup().tcp().start();
        let (works, sells) = (Seckill::new(), Seckill::new());
        Self { redis, runtime: Runtime::new().unwrap(), works, sells }
    }

    /// Starts the program with a line in its settings.
    fn spawn(&self, home: &Seckill, redis: &str, line: &str, args: &[&str]) -> Background {
        let (config, database) = (home.file("config.toml"), self.works.file("shop.db"));
        fs::write(&config, format!("[engine]\n{line}\n{JOBS}")).unwrap();
        let database = format!("sqlite:{}", database.display());
        let config = config.to_str().unwrap();
        let common = ["--redis", redis, "--database", &database, "--config", config];
        home.spawn(&[&common[..], args].concat())
    }

    fn direct(&self) -> String {
        format!("redis://127.0.0.1:{}", self.redis.port())
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.spawn(&self.works, &self.direct(), "", args).wait(PATIENCE)
    }

    fn count(&self, command: &[&str]) -> u64 {
        self.redis.query(command)
    }

    /// Suspends the process after its buyer was admitted, until the order is written, closed and returned; the report of
    /// its load test.
    fn outlasts(&self, sells: Background) -> Value {
        wait_until_blocking(PATIENCE, "the buyer is admitted", || {
            self.count(&["XLEN", STREAM]) == 1
        });
        let database = self.works.file("shop.db");
        self.runtime.block_on(sells.freeze_outside_a_write(&database));
        wait_until_blocking(LONG, "the order is returned", || {
            self.count(&["GET", STOCK]) == PIECES
        });
        sells.signal(Signal::CONT);
        sells.wait(LONG).json()
    }

    /// The order was admitted once, and its piece is for sale.
    fn holds_once(&self, report: &Value) {
        assert_eq!(self.count(&["XLEN", STREAM]), 1, "{report}");
        assert_eq!(self.count(&["GET", STOCK]), PIECES, "{report}");
        let audit = self.run(&["audit", "--json"]).expect_code(0).json();
        let sale = &audit["sales"][0];
        assert_eq!((&sale["persisted"], &sale["closed"]), (&0.into(), &1.into()), "{audit}");
    }

    fn start(&self) -> Background {
        let create = ["sale", "create", "--title", "tea", "--stock", "10"];
        self.run(&create).expect_code(0);
        let works = self.spawn(&self.works, &self.direct(), "", &["work"]);
        wait_until_blocking(PATIENCE, "the other node works", || {
            let info: String = self.redis.query(&["INFO", "server"]);
            let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
            let done: Vec<String> = self.redis.query(&["HVALS", "seckill:{p0}:reconciled"]);
            done.iter().any(|it| it == run.trim())
        });
        works
    }
}

const RUSH: [&str; 6] = ["rush", "--voucher", "1", "--users", "1", "--json"];

/// Its admission is not confirmed by a replica, and it asks again with the same ID.
#[test]
fn a_retry_after_a_suspension_admits_nobody() {
    let shop = Shop::open();
    let works = shop.start();
    let line = "wait_replicas = 1\nwait_ms = 4000";
    let report = shop.outlasts(shop.spawn(&shop.sells, &shop.direct(), line, &RUSH));
    assert_eq!((&report["admitted"], &report["errors"]), (&0.into(), &1.into()), "{report}");
    shop.holds_once(&report);
    drop(works);
}

/// The reply has arrived when it goes on.
#[test]
fn a_reply_that_is_read_after_a_suspension_admits_nobody_again() {
    let shop = Shop::open();
    let works = shop.start();
    let proxy = shop.runtime.block_on(Proxy::before(shop.redis.port()));
    // The first call that names this key is that of the admission.
    proxy.cut_at_text(RETURNED, Cut::Late(Duration::from_secs(2)));
    let report = shop.outlasts(shop.spawn(&shop.sells, &proxy.redis_url(), "", &RUSH));
    assert_eq!(proxy.to_come(), 0, "the reply was late");
    let counts = ["admitted", "errors"].map(|it| report[it].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 1, "{report}");
    shop.holds_once(&report);
    drop(works);
}
