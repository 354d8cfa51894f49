//! The path of orders on one server with the real program: sold, restocked, paid, closed, taken over, buried and replayed;
//! then the audit, and a comparison of Redis with SQL that shares no code with it.

use std::{collections::HashSet, os::unix::process::ExitStatusExt as _};

use reqwest::{Client, Method};
use rustix::process::Signal;
use seckill_model::{Millis, VoucherId};
use serde_json::Value;

use super::{
    check::{Receipt, Seen, at_rest},
    stage::{PARTITIONS, Stage},
};
use crate::support::{Background, LONG, PATIENCE, http_client, wait_until};

/// A user whose order the database refuses.
const POISONED: u64 = 7;

/// The program refuses the server with one sentence, and has left nothing behind.
pub(super) async fn is_refused(stage: &Stage, words: &str) {
    let ran = stage.run(&["sale", "create", "--title", "tea", "--stock", "9"]);
    assert!(!ran.status.success(), "it was not refused: {ran}");
    let sentence = ran.stderr.trim();
    assert!(sentence.contains(words) && sentence.lines().count() == 1, "{ran}");
    assert_eq!(stage.contents().await, (0, 0), "tables and keys after: {sentence}");
}

pub(super) async fn run(stage: &mut Stage) {
    let hot = create(stage, &["--stock", "60"]);
    let spread = create(stage, &["--stock", "40", "--shards", "2"]);

    // A node dies with entries that it has read; another one takes them over.
    let rush = ["rush", "--voucher", &hot.to_string(), "--users", "30"];
    let dying = stage.spawn(&rush, &[("SECKILL_KILL_AT", "after-read:1")]);
    let died = tokio::task::block_in_place(|| dying.wait(LONG));
    assert_eq!(died.status.signal(), Some(9), "{died}");
    let pending: u64 =
        (0..PARTITIONS).map(|part| at_rest(&mut stage.redis.connection(), part).1).sum();
    assert!(pending > 0, "it had read none");
    let mut node = Node::start(stage).await;
    node.is_at_rest(stage).await;

    let sold = |report: &Value| report["admitted"].as_u64().unwrap();
    let rush = |stage: &Stage, voucher: u64, users: u64| {
        let (voucher, users) = (voucher.to_string(), users.to_string());
        let report =
            stage.json(0, &["rush", "--voucher", &voucher, "--users", &users, "--repeat", "0.2"]);
        assert_eq!((&report["settled"], &report["errors"]), (&true.into(), &0.into()), "{report}");
        report
    };
    stage.drop_connections();
    let report = rush(stage, hot, 90);
    assert!(report["sold_out"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(sold(&rush(stage, spread, 60)), 40);
    let by = |stage: &Stage, voucher: u64, by: &str| {
        stage.run(&["sale", "restock", &voucher.to_string(), by]).expect_code(0);
    };
    by(stage, hot, "10");
    by(stage, spread, "5");
    by(stage, spread, "-3");
    assert_eq!([sold(&rush(stage, hot, 100)), sold(&rush(stage, spread, 60))], [10, 2]);

    stage.drop_connections();
    let receipts = node.sells_and_is_paid(stage).await;
    is_buried_and_replayed(stage).await;
    stage.drop_connections();
    closes_the_unpaid(stage).await;
    assert!(sold(&rush(stage, hot, 20)) > 0, "what went back is sold again");

    node.is_at_rest(stage).await;
    stage.run(&["audit"]).expect_code(0);
    stage.run(&["doctor"]).expect_code(0);
    node.stop();
    let seen = Seen::read(&mut stage.redis.connection(), PARTITIONS, &mut stage.sql().await).await;
    let mut wrong = seen.findings();
    wrong.extend(seen.promises(&receipts, &HashSet::new()));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn create(stage: &Stage, more: &[&str]) -> u64 {
    let created = stage.json(0, &[&["sale", "create", "--title", "tea"], more].concat());
    created["voucher_id"].as_u64().unwrap()
}

/// A node that serves buyers.
struct Node {
    process: Background,
    url: String,
    client: Client,
}

impl Node {
    async fn start(stage: &Stage) -> Self {
        let mut process = stage.spawn(&["serve", "--listen", "127.0.0.1:0"], &[]);
        let mut url = String::new();
        wait_until(PATIENCE, "it serves", async || {
            assert!(process.is_running(), "{}", process.stderr());
            let shown = process.stdout();
            let found = shown.split_once("http://").and_then(|(_, rest)| rest.split_once(' '));
            url = found.map(|(address, _)| format!("http://{address}")).unwrap_or_default();
            !url.is_empty()
        })
        .await;
        Self { process, url, client: http_client() }
    }

    /// Waits until nothing is undelivered or pending.
    async fn is_at_rest(&mut self, stage: &Stage) {
        wait_until(LONG, "all orders are written", async || {
            assert!(self.process.is_running(), "{}", self.process.stderr());
            let mut redis = stage.redis.connection();
            (0..PARTITIONS).all(|part| at_rest(&mut redis, part).0)
        })
        .await;
    }

    fn stop(self) {
        self.process.signal(Signal::TERM);
        tokio::task::block_in_place(|| self.process.wait(LONG)).expect_code(0);
    }

    async fn send(&self, method: Method, path: &str, token: &str) -> (u16, Value) {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let answer = request.header("authorization", token).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Buyers come over HTTP; the first ones pay.
    async fn sells_and_is_paid(&self, stage: &Stage) -> Vec<Receipt> {
        let voucher = create(stage, &["--stock", "10"]);
        let file = stage.home.file("tokens");
        let file = file.to_str().unwrap();
        stage.json(0, &["users", "create", "--count", "12", "--tokens", file]);
        let tokens = std::fs::read_to_string(file).unwrap();
        let mut receipts = Vec::new();
        for token in tokens.lines().take(3) {
            let (_, me) = self.send(Method::GET, "/user/me", token).await;
            let user = me["data"]["id"].as_u64().expect("the ID of a user");
            let mut order = String::new();
            wait_until(PATIENCE, "it is sold", async || {
                let (status, body) = self
                    .send(Method::POST, &format!("/voucher-order/seckill/{voucher}"), token)
                    .await;
                assert!([200, 503].contains(&status), "{status}: {body}");
                body["data"].as_str().unwrap_or_default().clone_into(&mut order);
                status == 200
            })
            .await;
            let voucher = VoucherId(voucher);
            receipts.push(Receipt {
                lane: (0, 0),
                voucher,
                user,
                order: order.parse().unwrap(),
                admitted: true,
                at: Millis::now().0,
            });
            wait_until(PATIENCE, "it is paid", async || {
                let (status, body) =
                    self.send(Method::POST, &format!("/voucher-order/{order}/pay"), token).await;
                // Not written yet, or a server that is reached again.
                assert!([200, 404, 409, 503].contains(&status), "{status}: {body}");
                status == 200
            })
            .await;
        }
        let voucher = voucher.to_string();
        let rest = ["rush", "--voucher", &voucher, "--http", &self.url, "--tokens", file];
        let report = stage.json(0, &rest);
        assert_eq!(report["admitted"], 7, "of ten pieces: {report}");
        receipts
    }
}

/// A row that the database refuses becomes a dead letter, and an order once it is accepted. An entry of another program is
/// discarded.
async fn is_buried_and_replayed(stage: &Stage) {
    let voucher = create(stage, &["--stock", "10"]);
    let [refuse, accept] = stage.poison(voucher, POISONED);
    stage.run_sql(&refuse).await;
    let report = stage.json(1, &["rush", "--voucher", &voucher.to_string(), "--users", "10"]);
    assert_eq!((&report["admitted"], &report["dead"]), (&10.into(), &1.into()), "{report}");
    let add = ["XADD", "seckill:{p0}:orders", "*", "userId", "x", "voucherId", "unknown"];
    stage.redis.query::<String>(&add);
    let letters = || stage.json(0, &["dead", "list"])["total"].clone();
    wait_until(LONG, "both are dead letters", async || letters() == 2).await;
    stage.run_sql(&accept).await;
    let waiting = ["--filter", "verdict=awaited", "--yes"];
    let report = stage.json(0, &[&["dead", "replay"], &waiting[..]].concat());
    assert_eq!(report["replayed"], 1, "{report}");
    wait_until(LONG, "the order is written", async || {
        stage.json(0, &["sale", "show", &voucher.to_string()])["persisted"] == 10
    })
    .await;
    let report = stage.json(0, &["dead", "discard", "--all", "--yes"]);
    assert_eq!(report["discarded"], 1, "{report}");
}

/// The job, which takes a lock, closes what was not paid within a second.
async fn closes_the_unpaid(stage: &Stage) {
    let config = stage.home.file("soon.toml");
    std::fs::write(&config, "[engine.jobs]\nunpaid_ms = 1000\n").unwrap();
    let config = config.to_str().unwrap();
    wait_until(LONG, "all that are unpaid are closed", async || {
        let ran = stage.run(&["jobs", "run", "close-overdue", "--config", config]);
        // The node runs it every half hour.
        assert!(ran.code() == 0 || ran.stderr.contains("already running"), "{ran}");
        let left = stage.json(0, &["orders", "list", "--status", "unpaid"]);
        left["orders"].as_array().unwrap().is_empty()
    })
    .await;
    let held = stage.json(0, &["locks", "list"]);
    assert!(!held.to_string().contains("close-overdue"), "{held}");
}
