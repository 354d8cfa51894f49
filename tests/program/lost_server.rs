//! One server of a cluster is lost: what the other servers have is shown, and the lost server is named.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use seckill_model::{SaleId, ShardId};
use seckill_redis::Layout;
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::support::{LONG, Ran, Seckill, TestCluster, wait_until_blocking};
use rustix::process::Signal;

const PARTITIONS: u16 = 8;

/// A cluster without a replica of one primary, and sales: over shards, sold out, and on one partition each.
struct Site {
    home: Seckill,
    cluster: TestCluster,
    url: String,
    lost: usize,
    /// The partitions of the primary that will be lost.
    partitions: Vec<u16>,
    spread: String,
}

/// The sale that is not spread, or the shard, of a line of `sale list` or `audit`.
fn shard_of(line: &Value) -> ShardId {
    let (sale, number) = (line["voucher_id"].as_u64().unwrap(), line["shard"].as_u64());
    ShardId { sale: SaleId(sale), number: number.unwrap_or(0) as u16 }
}

impl Site {
    /// The lost server is, or is not, that of the keys of the whole deployment.
    fn start(home: bool) -> Self {
        let mut cluster =
            TestCluster::setup().args(&["--cluster-require-full-coverage", "no"]).start();
        let keys = Layout::new(PARTITIONS, true);
        let owner = |of: u16| cluster.owner(&keys.partition(of).orders()).unwrap();
        let lost = (1..PARTITIONS).map(owner).find(|it| *it != owner(0)).unwrap();
        let lost = if home { owner(0) } else { lost };
        let partitions: Vec<u16> = (0..PARTITIONS).filter(|of| owner(*of) == lost).collect();
        cluster.kill(lost + 3);
        let (home, url) = (Seckill::new(), cluster.url());
        let site = Self { home, cluster, url, lost, partitions, spread: String::new() };
        let worker = site.home.spawn(&["--redis", &site.url, "work", "--partitions", "8"]);
        wait_until_blocking(LONG, "the node works", || {
            let status = site.run(&["status", "--json"]);
            status.code() == 0 && status.json()["nodes"][0]["alive"] == true
        });
        let create = |title: &str, stock: &str, shards: &str| {
            let args = ["sale", "create", "--title", title, "--stock", stock, "--shards", shards];
            let made = site.run(&[&args[..], &["--json"]].concat()).expect_code(0).json();
            made["voucher_id"].to_string()
        };
        let (spread, sold_out) = (create("spread", "800", "8"), create("gone", "8", "8"));
        for _ in 0..PARTITIONS {
            create("ordinary", "5", "1");
        }
        for sale in [&spread, &sold_out] {
            site.run(&["rush", "--voucher", sale, "--users", "90"]).expect_code(0);
        }
        site.run(&["audit"]).expect_code(0);
        worker.signal(Signal::TERM);
        worker.wait(LONG).expect_code(0);
        Self { spread, ..site }
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.home.run(&[&["--redis", &self.url], args].concat())
    }

    /// The server of a sale that is not spread, or of a shard.
    fn is_lost(&self, line: &Value) -> bool {
        let of = Layout::new(PARTITIONS, true).partition_of(shard_of(line));
        self.partitions.contains(&of.number())
    }

    /// The server and its partitions are in one line of `text`, once.
    fn is_named_in(&self, text: &str) {
        let address = format!("127.0.0.1:{}", self.cluster.node(self.lost).port());
        let list: Vec<String> = self.partitions.iter().map(ToString::to_string).collect();
        let list = list.join(", ");
        let naming = |line: &&str| line.contains(&address) && line.contains(&list);
        assert_eq!(text.lines().filter(naming).count(), 1, "{address}, {list}: {text}");
        assert!(!text.contains(&format!("{},", self.cluster.node(0).port())), "no seeds: {text}");
    }

    /// Only the figures of the lost server are unknown.
    fn is_marked(&self, sale: &Value) {
        let shards = sale["shards"].as_array().map_or(&[][..], Vec::as_slice);
        let unknown = self.is_lost(sale) && shards.is_empty()
            || shards.iter().any(|shard| self.is_lost(shard));
        assert_eq!(sale["stock"].is_null(), unknown, "{sale}");
        assert_eq!(sale["admitted"].is_null(), unknown, "{sale}");
        for shard in shards {
            self.is_marked(shard);
        }
    }

    fn shows_the_rest(&self) {
        let listed = self.run(&["sale", "list"]).expect_code(3);
        assert!(
            listed.stdout.contains("ordinary") && listed.stdout.contains("unknown"),
            "{listed:?}"
        );
        self.is_named_in(&listed.stderr);
        let listed = self.run(&["sale", "list", "--json"]).expect_code(3).json();
        let sales = listed.as_array().unwrap();
        assert_eq!(sales.len(), 2 + usize::from(PARTITIONS), "{listed}");
        for sale in sales {
            self.is_marked(sale);
        }
        let gone = |sale: &&Value| sale["title"] == "gone";
        assert_eq!(sales.iter().find(gone).unwrap()["phase"], "sold_out", "{listed}");

        let shown = self.run(&["sale", "show", &self.spread]).expect_code(3);
        assert!(shown.stdout.contains("unknown"), "{shown:?}");
        self.is_named_in(&shown.stderr);
        let shown = self.run(&["sale", "show", &self.spread, "--json"]).expect_code(3).json();
        assert_eq!((&shown["phase"], &shown["persisted"]), (&"running".into(), &90.into()));
        self.is_marked(&shown);

        let status = self.run(&["status"]).expect_code(3).stdout;
        self.is_named_in(&status);
        assert!(status.contains("ordinary") && !status.contains("FAILED"), "{status}");
        let status = self.run(&["status", "--json"]).expect_code(3).json();
        assert_eq!(status["unreachable"][0]["partitions"], Value::from(self.partitions.clone()));
        assert_eq!(
            (&status["redis"]["up"], &status["audit"]["state"]),
            (&true.into(), &"unknown".into()),
            "{status}"
        );
        for sale in status["sales"].as_array().unwrap() {
            self.is_marked(sale);
        }

        for list in [&["dead", "list"], &["pending", "list"], &["stream", "show"]] {
            let listed = self.run(list).expect_code(3);
            self.is_named_in(&listed.stderr);
            assert!(!listed.stdout.is_empty(), "{list:?}");
        }
        let shown = self.run(&["stream", "show", "--json"]).expect_code(3).json();
        let shown = shown["partitions"].as_array().unwrap();
        assert_eq!(shown.len(), usize::from(PARTITIONS) - self.partitions.len());

        let incident = self.run(&["incident"]).expect_code(3);
        self.is_named_in(&incident.stderr);
        let incident = incident.stdout;
        assert!(
            incident.contains("Audit incomplete") && !incident.contains("not available"),
            "{incident}"
        );

        let audit = self.run(&["audit"]).expect_code(3).stdout;
        self.is_named_in(&audit);
        assert!(!audit.contains("! #") && audit.contains("(incomplete)"), "{audit}");
        let audit = self.run(&["audit", "--json"]).expect_code(3).json();
        assert_eq!(audit["balanced"], false, "{audit}");
        let (read, unread) =
            (audit["sales"].as_array().unwrap(), audit["unread"].as_array().unwrap());
        assert!(read.iter().all(|sale| sale["findings"] == Value::Array(Vec::new())), "{audit}");
        let (whole, parts): (Vec<_>, Vec<_>) =
            read.iter().partition(|sale| sale["incomplete"] == true);
        assert_eq!(whole.len(), 2, "one row a sale: {audit}");
        let shards: Vec<&Value> =
            whole.iter().flat_map(|sale| sale["shards"].as_array().unwrap()).collect();
        let all = || parts.iter().copied().chain(shards.iter().copied());
        assert!(!all().any(|sale| self.is_lost(sale)), "{audit}");
        // Both sales over shards, and one ordinary sale in each lost partition.
        assert!(unread.contains(&self.spread.parse().unwrap()), "{audit}");
        assert_eq!(unread.len(), 2 + self.partitions.len(), "{audit}");
        assert_eq!(all().count(), 3 * (8 - self.partitions.len()), "{audit}");
    }

    /// The reachable shards have the change, and the others are named.
    fn delivers_to_the_rest(&self, command: &[&str]) -> String {
        let refused = self.run(command).expect_code(3).stderr;
        let whole = self.run(&["sale", "list", "--json"]).json();
        let is_named = |sale: &&Value| refused.contains(&format!("sale #{} ", sale["voucher_id"]));
        let whole = whole.as_array().unwrap().iter().find(is_named).expect(&refused);
        self.is_marked(whole);
        let lost = whole["shards"].as_array().unwrap().iter().filter(|it| self.is_lost(it));
        let lost: Vec<String> = lost.map(|it| it["shard"].to_string()).collect();
        for part in [&lost.join(", "), "is committed", "'seckill work'"] {
            assert!(refused.contains(part), "'{part}' is not in: {refused}");
        }
        assert!(!refused.contains("((") && !refused.contains("))"), "{refused}");
        refused
    }

    fn changes_the_rest(&self) {
        let keys = Layout::new(PARTITIONS, true);
        let shown = || self.run(&["sale", "show", &self.spread, "--json"]).expect_code(3).json();
        let stocks = |shown: Value| -> Vec<Option<i64>> {
            shown["shards"].as_array().unwrap().iter().map(|it| it["stock"].as_i64()).collect()
        };
        let before = stocks(shown());
        self.delivers_to_the_rest(&["sale", "restock", &self.spread, "80"]);
        let more: Vec<_> = before.into_iter().map(|stock| stock.map(|stock| stock + 10)).collect();
        assert_eq!(stocks(shown()), more);
        let cut = self.run(&["sale", "restock", &self.spread, "-8"]).expect_code(3).stderr;
        assert!(cut.contains("the stock in SQL is unchanged"), "{cut}");
        let rush = ["rush", "--voucher", &self.spread, "--users", "200", "--json"];
        let rushed = self.run(&rush).expect_code(3);
        self.is_named_in(&rushed.stderr);
        let rushed = rushed.json();
        let count = |name: &str| rushed[name].as_u64().unwrap();
        assert!(count("admitted") > 20 && count("errors") > 0, "{rushed}");
        assert_eq!(count("persisted"), count("admitted"), "{rushed}");
        self.delivers_to_the_rest(&["sale", "pause", &self.spread]);
        for shard in shown()["shards"].as_array().unwrap() {
            if !self.is_lost(shard) {
                let sale = keys.sale(shard_of(shard));
                let state: String = self.cluster.query(&sale, &["HGET", &sale, "state"]);
                assert_eq!(state, "paused", "{shard}");
            }
        }
        let create = ["sale", "create", "--title", "late", "--stock", "80", "--shards", "8"];
        self.delivers_to_the_rest(&create);
    }
}

#[test]
fn a_killed_primary_hides_only_its_own_partitions() {
    let mut site = Site::start(false);
    site.cluster.kill(site.lost);
    site.shows_the_rest();
    site.changes_the_rest();
    // A node starts meanwhile, and later completes what was not delivered.
    let node = ["--redis", &site.url, "serve", "--listen", "127.0.0.1:0"];
    let node = site.home.spawn(&node);
    wait_until_blocking(LONG, "a node has started without the lost server", || {
        site.run(&["status", "--json"]).json()["nodes"][0]["alive"] == true
    });
    // The page of the sale stays up; its stock is unknown.
    let mut page = String::new();
    wait_until_blocking(LONG, "the page is shown", || {
        let shown = node.stdout();
        let address = shown.split_once("://").and_then(|(_, rest)| rest.split_once(' '));
        let Some(Ok(mut stream)) = address.map(|(address, _)| TcpStream::connect(address)) else {
            return false;
        };
        let get = format!("GET /voucher/{} HTTP/1.0\r\nHost: localhost\r\n\r\n", site.spread);
        stream.write_all(get.as_bytes()).unwrap();
        page.clear();
        stream.read_to_string(&mut page).is_ok()
    });
    assert!(page.contains(" 200 OK") && page.contains("\"stock\":null"), "{page}");
    site.cluster.restart(site.lost);
    site.cluster.restart(site.lost + 3);
    site.cluster.wait_until_whole();
    wait_until_blocking(LONG, "all is well", || site.run(&["status"]).code() == 0);
    site.run(&["audit"]).expect_code(0);
}

#[test]
fn a_frozen_primary_hides_only_its_own_partitions() {
    let mut site = Site::start(true);
    site.cluster.freeze(site.lost);
    site.shows_the_rest();
    let doctor = site.run(&["doctor"]).expect_code(3).stdout;
    site.is_named_in(&doctor);
    // Nothing confirms that this Redis belongs to this database, so nothing is changed.
    site.run(&["sale", "pause", &site.spread]).expect_code(3);
    let shown = site.run(&["sale", "show", &site.spread, "--json"]).json();
    assert_eq!(shown["state"], "running", "{shown}");
    site.cluster.thaw(site.lost);
}

/// SQL is restored from a backup that was made before most pieces of the sale were removed. Then a server is lost, and
/// another program deletes the stock of a shard on another server.
#[tokio::test]
async fn a_sale_that_was_set_back_is_stopped_without_the_lost_server() {
    let mut site = Site::start(false);
    let database = site.home.data_dir().join("seckill.db");
    let backup = database.with_extension("backup");
    let url = format!("sqlite:{}", database.display());
    let mut sql = SqliteConnection::connect(&url).await.unwrap();
    let save = format!("VACUUM INTO '{}'", backup.display());
    sql.execute(sqlx::AssertSqlSafe(save)).await.unwrap();
    sql.close().await.unwrap();
    for change in [&["restock", &site.spread, "-600"][..], &["pause", &site.spread]] {
        site.run(&[&["sale"], change].concat()).expect_code(0);
    }
    site.run(&["sale", "resume", &site.spread]).expect_code(0);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", database.display()));
    }
    fs::rename(&backup, &database).unwrap();

    let keys = Layout::new(PARTITIONS, true);
    let sale = SaleId(site.spread.parse().unwrap());
    let shards = || (1..=PARTITIONS).map(|number| ShardId { sale, number });
    let is_lost = |shard: &ShardId| site.partitions.contains(&keys.partition_of(*shard).number());
    let left: Vec<ShardId> = shards().filter(|shard| !is_lost(shard)).collect();
    let stock = keys.stock(left[0]);
    let _: u64 = site.cluster.query(&stock, &["DEL", &stock]);
    site.cluster.kill(site.lost);
    let node = site.home.spawn(&["--redis", &site.url, "work"]);
    wait_until_blocking(LONG, "the node works without the lost server", || {
        site.run(&["status", "--json"]).json()["nodes"][0]["alive"] == true
    });

    // The sale is a fault of its own: others of the same partitions are sold.
    let listed = site.run(&["sale", "list", "--json"]).json();
    for ordinary in listed.as_array().unwrap().iter().filter(|sale| sale["title"] == "ordinary") {
        if !site.is_lost(ordinary) {
            let id = ordinary["voucher_id"].to_string();
            let mut sold = 0;
            wait_until_blocking(LONG, "an ordinary sale is sold", || {
                let rush = ["rush", "--voucher", &id, "--users", "9", "--json"];
                // The lost server is exit code 3.
                sold += site.run(&rush).json()["admitted"].as_u64().unwrap();
                sold == 5
            });
        }
    }

    let refused = site.delivers_to_the_rest(&["sale", "pause", &site.spread]);
    let state = |shard: ShardId| -> String {
        let sale = keys.sale(shard);
        site.cluster.query(&sale, &["HGET", &sale, "state"])
    };
    for shard in &left {
        assert_eq!(state(*shard), "paused", "{shard}: {refused}");
    }
    let rush = ["rush", "--voucher", &site.spread, "--users", "300", "--json"];
    assert_eq!(site.run(&rush).json()["admitted"], 0);

    site.cluster.restart(site.lost);
    site.cluster.restart(site.lost + 3);
    site.cluster.wait_until_whole();
    wait_until_blocking(LONG, "both sides have the sale", || {
        site.run(&["audit", "--repair", "--yes"]);
        site.run(&["status"]).code() == 0 && site.run(&["audit"]).code() == 0
    });
    for shard in shards() {
        let sale = keys.sale(shard);
        assert_eq!(
            site.cluster.query::<String>(&sale, &["HGET", &sale, "state"]),
            "paused",
            "{shard}"
        );
    }
    let shown = site.run(&["sale", "show", &site.spread, "--json"]).expect_code(0).json();
    assert_eq!((&shown["state"], &shown["initial"]), (&"paused".into(), &200.into()), "{shown}");
    drop(node);
}
