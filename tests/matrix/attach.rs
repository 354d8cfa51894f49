//! The matrix of `seckill attach recover`: a service like those of the tutorials, whose consumer lives, dies, lags and loses
//! its lock, which closes orders, gives back what was not written, sells again, and restocks; beside it, recoveries in a loop,
//! some of them killed.
//!
//! The checker reads Redis and SQL itself, and compares each reply that a buyer got with the rows.
//! `SEEDS=200 cargo test --test matrix attach` runs that many, `SEED=42` one, `DATABASE=mariadb`, `mysql` or `postgres`
//! selects it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use redis::{Script, Value, cmd};
use rustix::process::Signal;
use seckill_store::plain::{PlainConnection, PlainPool};
use tokio::runtime::Runtime;

use super::{
    number,
    support::{Background, MariaDb, Postgres, Seckill, TestRedis},
};

/// Scenarios of a plain run, and those at once.
const SEEDS: u64 = 6;
const AT_ONCE: u64 = 3;
/// How long buyers ask.
const TRAFFIC: Duration = Duration::from_secs(4);
/// What is left must be recovered in this time.
const LIMIT: Duration = Duration::from_mins(2);
const STREAM: &str = "stream.orders";
const STOCK: &str = "seckill:stock:10";
const BUYERS: &str = "seckill:order:10";
const LOCK: &str = "seckill:attach:stream.orders:lock";
const DEAD: &str = "seckill:attach:stream.orders:dead";

/// Text 000, section 12.6: 0 admitted, 1 sold out, 2 bought before.
const ADMIT: &str = "\
if tonumber(redis.call('get', 'seckill:stock:10')) <= 0 then return 1 end
if redis.call('sismember', 'seckill:order:10', ARGV[1]) == 1 then return 2 end
redis.call('incrby', 'seckill:stock:10', -1)
redis.call('sadd', 'seckill:order:10', ARGV[1])
redis.call('xadd', 'stream.orders', '*', 'userId', ARGV[1], 'voucherId', 10, 'id', ARGV[2])
redis.call('hset', 'shop:orders', ARGV[1], ARGV[2])
return 0";

/// The service takes an order back that was not written.
const CANCEL: &str = "\
if redis.call('hget', 'shop:orders', ARGV[1]) ~= ARGV[2] then return 0 end
if redis.call('srem', 'seckill:order:10', ARGV[1]) == 0 then return 0 end
redis.call('incr', 'seckill:stock:10')
redis.call('sadd', 'shop:cancelled', ARGV[2])
return 1";
const CANCELLED: &str = "shop:cancelled";

/// What a seed determines.
#[derive(Clone, Debug)]
struct Plan {
    stock: i64,
    users: i64,
    /// Of 1,000 entries: the consumer dies with it, before or after its commit; is slow for longer than stuck; does not get
    /// the lock.
    dies: u32,
    lags: u32,
    locked: u32,
    /// The consumer is away for this long after it died.
    away: Duration,
    closes: bool,
    /// The piece goes back to Redis this long after SQL, in two commands or one.
    gap: Duration,
    in_two: bool,
    restocks: Vec<i64>,
    /// Pieces that Redis loses.
    loses: i64,
    /// Of 100 recoveries, those that are killed.
    killed: u32,
    /// Orders that are not written yet are given back.
    returns: bool,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let stock = random.random_range(20..400);
        Self {
            stock,
            users: stock + random.random_range(0..100),
            dies: [0, 5, 30][random.random_range(0..3)],
            lags: [0, 2, 10][random.random_range(0..3)],
            locked: [0, 20, 200][random.random_range(0..3)],
            away: Duration::from_millis(random.random_range(0..2_500)),
            closes: random.random_bool(0.6),
            gap: Duration::from_millis(random.random_range(0..400)),
            in_two: random.random_bool(0.5),
            restocks: (0..random.random_range(0..3)).map(|_| random.random_range(1..40)).collect(),
            loses: if random.random_bool(0.3) { random.random_range(1..5) } else { 0 },
            killed: [0, 30, 60][random.random_range(0..3)],
            returns: random.random_bool(0.5),
        }
    }
}

/// The service and its servers.
struct Shop {
    plan: Plan,
    home: Seckill,
    redis: TestRedis,
    url: String,
    runtime: Runtime,
    pool: PlainPool,
    next: AtomicI64,
    /// User and order of each reply "you have bought".
    told: Mutex<Vec<(i64, i64)>>,
    pieces: AtomicI64,
    /// The service writes an order, or gives it back.
    decides: Mutex<()>,
    stop: AtomicBool,
    stop_consumer: AtomicBool,
}

/// User, order and ID of an entry.
type Entry = (String, i64, i64);

impl Shop {
    fn open(plan: Plan) -> Self {
        let (home, redis, runtime) = (Seckill::new(), TestRedis::start(), Runtime::new().unwrap());
        let url = runtime.block_on(async {
            match std::env::var("DATABASE").as_deref() {
                Ok("mariadb" | "mysql") => MariaDb::shared().database().await,
                Ok("postgres") => Postgres::shared().database().await,
                Ok(other) => panic!("DATABASE={other}"),
                Err(_) => format!("sqlite:{}", home.file("shop.db").display()),
            }
        });
        let pool = PlainPool::open(&url, 6).unwrap();
        let date = if url.starts_with("postgres") { "TIMESTAMP" } else { "DATETIME" };
        runtime.block_on(async {
            let mut conn = pool.connection().await.unwrap();
            for sql in [
                "CREATE TABLE tb_voucher (id BIGINT PRIMARY KEY, title VARCHAR(255) NOT NULL)".to_owned(),
                format!(
                    "CREATE TABLE tb_seckill_voucher (voucher_id BIGINT PRIMARY KEY, stock BIGINT NOT NULL, \
                     begin_time {date} NOT NULL, end_time {date} NOT NULL)"
                ),
                "CREATE TABLE tb_voucher_order (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, \
                 voucher_id BIGINT NOT NULL, status BIGINT DEFAULT 1 NOT NULL)"
                    .to_owned(),
                "INSERT INTO tb_voucher VALUES (10, 'hot pot')".to_owned(),
                format!(
                    "INSERT INTO tb_seckill_voucher VALUES (10, {}, '2022-01-01 00:00:00', \
                     '2099-01-01 00:00:00')",
                    plan.stock
                ),
            ] {
                conn.command(&sql).await.unwrap();
            }
        });
        redis.query::<()>(&["XGROUP", "CREATE", STREAM, "g1", "0", "MKSTREAM"]);
        redis.query::<()>(&["SET", STOCK, &plan.stock.to_string()]);
        Self {
            home,
            redis,
            url,
            runtime,
            pool,
            next: AtomicI64::new(1),
            told: Mutex::default(),
            pieces: AtomicI64::new(plan.stock),
            decides: Mutex::default(),
            stop: AtomicBool::new(false),
            stop_consumer: AtomicBool::new(false),
            plan,
        }
    }

    /// Dropped in the context of the runtime.
    fn connection(&self) -> PlainConnection {
        self.runtime.block_on(self.pool.connection()).unwrap()
    }

    fn rows(&self, conn: &mut PlainConnection, sql: &'static str) -> Vec<[i64; 3]> {
        self.runtime.block_on(conn.rows::<3>(sql, &[])).unwrap()
    }

    /// Users ask, one after the other and again.
    fn buyers(&self, seed: u64) {
        let (mut redis, mut random) = (self.redis.connection(), ChaCha8Rng::seed_from_u64(seed));
        let (script, until) = (Script::new(ADMIT), Instant::now() + TRAFFIC);
        while Instant::now() < until {
            let user = random.random_range(1..=self.plan.users);
            let order = self.next.fetch_add(1, Relaxed);
            let admitted: i64 = script.arg(user).arg(order).invoke(&mut redis).unwrap();
            if admitted == 0 {
                self.told.lock().unwrap().push((user, order));
            }
            thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
        }
    }

    /// The consumer of text 000, which is started again after it died.
    fn consumer(&self, seed: u64) {
        let _context = self.runtime.enter();
        let (mut redis, mut conn) = (self.redis.connection(), self.connection());
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        while !self.stop_consumer.load(Relaxed) {
            let Some(entry) = receive(&mut redis, ">") else { continue };
            if !self.handle(&mut redis, &mut conn, &mut random, &entry) {
                thread::sleep(self.plan.away);
            }
        }
    }

    /// Handles an entry; `false` if the consumer dies with it.
    fn handle(
        &self,
        redis: &mut redis::Connection,
        conn: &mut PlainConnection,
        random: &mut ChaCha8Rng,
        entry: &Entry,
    ) -> bool {
        let calm = self.stop.load(Relaxed);
        let mut strikes = |of_thousand: u32| !calm && random.random_range(0..1_000) < of_thousand;
        if strikes(self.plan.lags) {
            thread::sleep(Duration::from_millis(1_300));
        }
        if strikes(self.plan.dies) {
            return false;
        }
        let loses_lock = strikes(self.plan.locked);
        let (id, user, order) = entry;
        let lock = format!("lock:order:{user}");
        let mut set = cmd("SET");
        let taken: Option<String> =
            set.arg(&lock).arg("thread-1").arg("NX").arg("PX").arg(30_000).query(redis).unwrap();
        if let Some(_locked) = &taken {
            let written = if loses_lock { Ok(()) } else { self.create(redis, conn, *user, *order) };
            let mut free = cmd("DEL");
            free.arg(&lock).exec(redis).unwrap();
            // An exception: the list of pending entries is handled, and this one stays there.
            if written.is_err() {
                while let Some(pending) = receive(redis, "0") {
                    if self.create(redis, conn, pending.1, pending.2).is_ok() {
                        acknowledge(redis, &pending.0);
                    }
                }
                return true;
            }
            if strikes(self.plan.dies) {
                return false;
            }
        }
        // Without the lock, it logs "no second order", returns, and acknowledges.
        acknowledge(redis, id);
        true
    }

    /// `createVoucherOrder`: its check counts closed orders as well.
    fn create(
        &self,
        redis: &mut redis::Connection,
        conn: &mut PlainConnection,
        user: i64,
        order: i64,
    ) -> Result<(), String> {
        let _decides = self.decides.lock().unwrap();
        if cmd("SISMEMBER").arg(CANCELLED).arg(order).query(redis).unwrap() {
            return Ok(());
        }
        self.runtime.block_on(async {
            conn.command("BEGIN").await.map_err(|it| it.to_string())?;
            let written = async {
                let count = "SELECT COUNT(*) FROM tb_voucher_order WHERE user_id = $1 AND voucher_id = 10";
                if conn.rows::<1>(count, &[user]).await?[0][0] > 0 {
                    return Ok(());
                }
                let take = "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1 AND stock > 0";
                if conn.execute(take, &[10]).await? == 1 {
                    let insert = "INSERT INTO tb_voucher_order VALUES ($1, $2, 10, 1)";
                    conn.execute(insert, &[order, user]).await?;
                }
                Ok::<_, seckill_store::StoreError>(())
            };
            let written = written.await;
            let end = if written.is_ok() { "COMMIT" } else { "ROLLBACK" };
            let ended = conn.command(end).await;
            if ended.is_err() && end == "COMMIT" {
                let _ = conn.command("ROLLBACK").await;
            }
            written.and(ended).map_err(|it| it.to_string())
        })
    }

    /// Closes orders: SQL first, Redis later.
    fn closer(&self, seed: u64) {
        let _context = self.runtime.enter();
        let (mut redis, mut conn) = (self.redis.connection(), self.connection());
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        while self.plan.closes && !self.stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(random.random_range(20..200)));
            let live = "SELECT id, user_id, status FROM tb_voucher_order WHERE status = 1 ORDER BY id LIMIT 5";
            let live = self.rows(&mut conn, live);
            let Some([order, user, _]) = live.first().copied() else { continue };
            let closed = self.runtime.block_on(async {
                conn.command("BEGIN").await?;
                let close = "UPDATE tb_voucher_order SET status = 4 WHERE id = $1 AND status = 1";
                let closed = async {
                    let give =
                        "UPDATE tb_seckill_voucher SET stock = stock + 1 WHERE voucher_id = $1";
                    conn.execute(give, &[10]).await?;
                    conn.execute(close, &[order]).await
                };
                let closed = closed.await;
                let end = if matches!(closed, Ok(1)) { "COMMIT" } else { "ROLLBACK" };
                let ended = conn.command(end).await;
                closed.and_then(|it| ended.map(|()| it == 1))
            });
            if !matches!(closed, Ok(true)) {
                let _ = self.runtime.block_on(conn.command("ROLLBACK"));
                continue;
            }
            thread::sleep(self.plan.gap);
            let mut give_back = redis::pipe();
            give_back.cmd("SREM").arg(BUYERS).arg(user).ignore();
            if self.plan.in_two {
                give_back.exec(&mut redis).unwrap();
                thread::sleep(self.plan.gap);
                give_back = redis::pipe();
            } else {
                give_back.atomic();
            }
            give_back.cmd("INCR").arg(STOCK).ignore();
            give_back.exec(&mut redis).unwrap();
        }
    }

    /// Gives orders back that were not written, under the lock of their user: only Redis has them.
    fn returner(&self, seed: u64) {
        let _context = self.runtime.enter();
        let (mut redis, mut conn) = (self.redis.connection(), self.connection());
        let (mut random, cancel) = (ChaCha8Rng::seed_from_u64(seed), Script::new(CANCEL));
        while self.plan.returns && !self.stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(random.random_range(5..60)));
            let user: Option<i64> = cmd("SRANDMEMBER").arg(BUYERS).query(&mut redis).unwrap();
            let Some(user) = user else { continue };
            let lock = format!("lock:order:{user}");
            let mut set = cmd("SET");
            let locked: Option<String> = set
                .arg(&lock)
                .arg("returner")
                .arg("NX")
                .arg("PX")
                .arg(30_000)
                .query(&mut redis)
                .unwrap();
            if locked.is_none() {
                continue;
            }
            let decides = self.decides.lock().unwrap();
            let order: i64 = cmd("HGET").arg("shop:orders").arg(user).query(&mut redis).unwrap();
            let written = "SELECT COUNT(*) FROM tb_voucher_order WHERE id = $1";
            let written = self.runtime.block_on(conn.rows::<1>(written, &[order]));
            // The database of a test may be locked.
            if written.is_ok_and(|rows| rows[0][0] == 0) {
                cancel.arg(user).arg(order).invoke::<i64>(&mut redis).unwrap();
            }
            drop(decides);
            cmd("DEL").arg(&lock).exec(&mut redis).unwrap();
        }
    }

    /// The service acknowledges what it has given back.
    fn acknowledge_returned(&self) {
        let mut redis = self.redis.connection();
        let pending: Vec<(String, Value, Value, Value)> =
            self.redis.query(&["XPENDING", STREAM, "g1", "-", "+", "10000"]);
        for (entry, ..) in pending {
            let found: Vec<(String, HashMap<String, i64>)> =
                self.redis.query(&["XRANGE", STREAM, &entry, &entry]);
            let order = found[0].1["id"].to_string();
            if self.redis.query::<bool>(&["SISMEMBER", CANCELLED, &order]) {
                acknowledge(&mut redis, &entry);
            }
        }
    }

    /// Adds pieces: SQL first, Redis later; and loses some of Redis.
    fn restocker(&self) {
        let _context = self.runtime.enter();
        let (mut redis, mut conn) = (self.redis.connection(), self.connection());
        for more in &self.plan.restocks {
            thread::sleep(TRAFFIC / 4);
            let add = "UPDATE tb_seckill_voucher SET stock = stock + $1 WHERE voucher_id = 10";
            self.runtime.block_on(conn.execute(add, &[*more])).unwrap();
            self.pieces.fetch_add(*more, Relaxed);
            thread::sleep(self.plan.gap);
            cmd("INCRBY").arg(STOCK).arg(*more).exec(&mut redis).unwrap();
        }
        let lose = "if tonumber(redis.call('get', KEYS[1])) >= tonumber(ARGV[1]) then \
                    redis.call('decrby', KEYS[1], ARGV[1]) end";
        let lose = Script::new(lose);
        lose.key(STOCK).arg(self.plan.loses).invoke::<Value>(&mut redis).unwrap();
    }

    fn recovery(&self) -> Background {
        let redis = self.redis.url();
        let args = ["attach", "--redis", &redis, "--database", &self.url, "recover", "--operate"];
        self.home.spawn(&[&args[..], &["--yes", "--stuck", "1", "--json"]].concat())
    }

    /// Recoveries in a loop; some of them are killed, and the operator removes their lock.
    fn recoveries(&self, seed: u64) -> u64 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut runs = 0;
        while !self.stop.load(Relaxed) {
            let run = self.recovery();
            runs += 1;
            if random.random_range(0..100) < self.plan.killed {
                thread::sleep(Duration::from_millis(random.random_range(900..3_500)));
                let mut run = run;
                if run.is_running() {
                    run.signal(Signal::KILL);
                }
                drop(run);
                self.redis.query::<i64>(&["DEL", LOCK]);
            } else {
                check_run(&run.wait(LIMIT));
            }
        }
        runs
    }

    /// What is wrong at rest.
    fn verdict(&self) -> Vec<String> {
        let _context = self.runtime.enter();
        let (mut conn, mut wrong) = (self.connection(), Vec::new());
        let orders = self.rows(&mut conn, "SELECT id, user_id, status FROM tb_voucher_order");
        let stock = self.rows(&mut conn, "SELECT stock, voucher_id, stock FROM tb_seckill_voucher");
        let (sql_stock, pieces) = (stock[0][0], self.pieces.load(Relaxed));
        let live: Vec<i64> = orders.iter().filter(|it| it[2] == 1).map(|it| it[1]).collect();
        let users: HashSet<i64> = live.iter().copied().collect();
        let redis_stock: i64 = self.redis.query(&["GET", STOCK]);
        let buyers: HashSet<i64> = self.redis.query(&["SMEMBERS", BUYERS]);
        if sql_stock < 0 || sql_stock + live.len() as i64 != pieces {
            wrong.push(format!("{} live orders and {sql_stock} left of {pieces}", live.len()));
        }
        if users.len() != live.len() {
            wrong.push("a user has two live orders".to_owned());
        }
        if redis_stock != sql_stock {
            wrong.push(format!("{redis_stock} left in Redis, {sql_stock} in SQL"));
        }
        if buyers != users {
            let (more, less) =
                (buyers.difference(&users).count(), users.difference(&buyers).count());
            wrong.push(format!("{more} buyers without a live order, {less} users are no buyers"));
        }
        let mut letters: Vec<(String, HashMap<String, String>)> =
            self.redis.query(&["XRANGE", DEAD, "-", "+"]);
        let cancelled: HashSet<i64> = self.redis.query(&["SMEMBERS", CANCELLED]);
        // Of a user who has bought again.
        letters.retain(|(_, it)| it["body:id"].parse().map_or(true, |id| !cancelled.contains(&id)));
        if let Some(first) = letters.first() {
            wrong.push(format!("{} dead letters, the first {first:?}", letters.len()));
        }
        let written: HashMap<i64, i64> = orders.iter().map(|it| (it[0], it[1])).collect();
        let revived = cancelled.iter().filter(|id| written.contains_key(*id)).count();
        if revived > 0 {
            wrong.push(format!("{revived} orders that were given back are written"));
        }
        let told = self.told.lock().unwrap();
        let told: Vec<_> = told.iter().filter(|(_, id)| !cancelled.contains(id)).collect();
        let lost: Vec<_> = told.iter().filter(|(user, id)| written.get(id) != Some(user)).collect();
        if !lost.is_empty() {
            wrong.push(format!(
                "{} of {} replies without a row: {:?}",
                lost.len(),
                told.len(),
                lost[0]
            ));
        }
        if written.len() != told.len() {
            wrong.push(format!("{} rows for {} replies", written.len(), told.len()));
        }
        let pending: (i64, Value, Value, Value) = self.redis.query(&["XPENDING", STREAM, "g1"]);
        if pending.0 > 0 {
            wrong.push(format!("{} entries are pending", pending.0));
        }
        wrong
    }
}

fn check_run(ran: &super::support::Ran) {
    // 1: nothing to do, or something is left.
    assert!([0, 1].contains(&ran.code()) && !ran.stderr.contains("panicked"), "{ran}");
}

/// Entries of a stream, by stream.
type Read = Vec<(String, Vec<(String, HashMap<String, i64>)>)>;

fn receive(redis: &mut redis::Connection, from: &str) -> Option<Entry> {
    let mut read = cmd("XREADGROUP");
    read.arg(&["GROUP", "g1", "c1", "COUNT", "1", "BLOCK", "50", "STREAMS", STREAM, from]);
    let found: Option<Read> = read.query(redis).unwrap();
    let (id, fields) = found?.pop()?.1.pop()?;
    Some((id, fields["userId"], fields["id"]))
}

fn acknowledge(redis: &mut redis::Connection, entry: &str) {
    cmd("XACK").arg(STREAM).arg("g1").arg(entry).exec(redis).unwrap();
}

/// Plays a seed; returns the number of orders and of recoveries.
fn play(seed: u64, plan: Plan) -> Result<(usize, u64), String> {
    let shop = Shop::open(plan);
    let shop = &shop;
    let mut runs = 0;
    thread::scope(|scope| {
        let buyers = [1, 2].map(|lane| scope.spawn(move || shop.buyers(seed * 10 + lane)));
        let restocker = scope.spawn(|| shop.restocker());
        let closer = scope.spawn(move || shop.closer(seed * 10 + 3));
        let returner = scope.spawn(move || shop.returner(seed * 10 + 6));
        let recoveries = scope.spawn(move || shop.recoveries(seed * 10 + 4));
        let consumer = scope.spawn(move || shop.consumer(seed * 10 + 5));
        for buyer in buyers {
            buyer.join().unwrap();
        }
        restocker.join().unwrap();
        shop.stop.store(true, Relaxed);
        closer.join().unwrap();
        returner.join().unwrap();
        runs = recoveries.join().unwrap();
        // The consumer works off what is left, and recoveries the rest.
        let until = Instant::now() + LIMIT;
        while !shop.verdict().is_empty() && Instant::now() < until {
            shop.acknowledge_returned();
            check_run(&shop.recovery().wait(LIMIT));
            runs += 1;
        }
        shop.stop_consumer.store(true, Relaxed);
        consumer.join().unwrap();
    });
    let wrong = shop.verdict();
    let told = shop.told.lock().unwrap().len();
    if wrong.is_empty() { Ok((told, runs)) } else { Err(wrong.join("; ")) }
}

#[test]
fn attach_recovers_beside_a_living_service() {
    let one = number("SEED");
    let from = one.or_else(|| number("FROM")).unwrap_or(1);
    let seeds = if one.is_some() { 1 } else { number("SEEDS").unwrap_or(SEEDS) };
    let started = Instant::now();
    let (next, failed) = (AtomicU64::new(from), Mutex::new(BTreeMap::new()));
    let (orders, runs) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..number("AT_ONCE").unwrap_or(AT_ONCE).min(seeds) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let plan = Plan::of(seed);
                    let played = catch_unwind(AssertUnwindSafe(|| play(seed, plan.clone())));
                    match played.unwrap_or_else(|_| Err("it panicked, see above".to_owned())) {
                        Ok((told, made)) => {
                            orders.fetch_add(told as u64, Relaxed);
                            runs.fetch_add(made, Relaxed);
                        }
                        Err(why) => {
                            println!(
                                "\nseed {seed} failed: {why}\n{plan:?}\nagain: SEED={seed} cargo test --test matrix attach -- --nocapture\n"
                            );
                            failed.lock().unwrap().insert(seed, why);
                        }
                    }
                }
            });
        }
    });
    println!(
        "{seeds} seeds from {from} on in {:.0} s: {} replies, {} recoveries",
        started.elapsed().as_secs_f32(),
        orders.load(Relaxed),
        runs.load(Relaxed)
    );
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {seeds} seeds failed: {:?}", failed.len(), failed.keys());
}
