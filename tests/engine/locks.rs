//! Locks on real servers, from many tasks, nodes and processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::support::{Background, Seckill, TestRedis, wait_until};
use crate::world::World;
use redis::cmd;
use seckill_engine::locks::{Guard, LockError, LockName, Locks, MultiLock, Timing, revoke};
use seckill_model::{Fence, Millis};
use seckill_redis::{
    Layout, Redis,
    lock_holders::{self, Kind},
};
use seckill_store::StoreError;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
/// A lease short enough for a test and long enough for a busy machine.
const SHORT: Timing = Timing { lease: Duration::from_secs(3), poll: Duration::from_millis(500) };

fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// The locks of a node, kept until the test ends.
fn locks_of(redis: &Redis, node: &str, timing: Timing) -> (Locks, CancellationToken) {
    let (locks, keeper) = Locks::new(redis, Layout::default(), node, timing);
    let stop = CancellationToken::new();
    tokio::spawn(keeper.run(stop.clone()));
    (locks, stop)
}

/// The locks of a node that died: they are not renewed.
fn unrenewed(redis: &Redis, timing: Timing) -> Locks {
    Locks::new(redis, Layout::default(), "dead", timing).0
}

fn redis_of(server: &TestRedis) -> Redis {
    Redis::from_url(&server.url()).unwrap()
}

fn depth(server: &TestRedis, guard: &Guard) -> Option<u32> {
    let key = format!("lock:{}", guard.name());
    server.query(&["HGET", &key, guard.owner()])
}

fn nothing_left(server: &TestRedis) {
    let keys: Vec<String> = server.query(&["KEYS", "*"]);
    let left: Vec<_> = keys.iter().filter(|key| *key != "locks:token").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// How often the server ran each command since the last RESETSTAT, in scripts as well.
fn commands(server: &TestRedis) -> BTreeMap<String, u64> {
    let stats: String = server.query(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), figures.split(',').next()?.parse().ok()?))
    };
    stats.lines().filter_map(calls).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_takes_one_call_to_acquire_and_one_to_release() {
    let server = TestRedis::start();
    // No renewal during the test.
    let timing = Timing { lease: Duration::from_hours(1), ..Timing::default() };
    let (locks, _) = locks_of(&redis_of(&server), "a", timing);
    let turn = async |turn: u64| {
        let guard = locks.try_lock(&name(&format!("x:{turn}")), "t").await.unwrap();
        guard.release().await.unwrap();
    };
    // The first turn connects and loads the scripts; the background task subscribes.
    turn(0).await;
    wait_until(10 * SECOND, "it listens", async || {
        let listeners: (String, u64) = server.query(&["PUBSUB", "NUMSUB", "locks:events"]);
        listeners.1 == 1
    })
    .await;
    let _: () = server.query(&["CONFIG", "RESETSTAT"]);
    futures::future::join_all((1..=100).map(turn)).await;
    let mut spent = commands(&server);
    spent.retain(|name, _| !["info", "config|resetstat", "client|setinfo"].contains(&&**name));
    // Beside the calls themselves, what the scripts run.
    let expected = [
        ("del", 100),
        ("evalsha", 200),
        ("exists", 100),
        ("hget", 100),
        ("hset", 100),
        ("pexpire", 100),
        ("set", 100),
        ("time", 100),
        ("type", 100),
        ("zadd", 100),
        ("zrem", 100),
    ];
    assert_eq!(spent, expected.map(|(name, calls)| (name.to_owned(), calls)).into());
    nothing_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_exclusive_and_reentrant() {
    let server = TestRedis::start();
    let (a, _) = locks_of(&redis_of(&server), "a", Timing::default());
    let (b, _) = locks_of(&redis_of(&server), "b", Timing::default());
    let lock = name("订单:7");
    let guard = a.try_lock(&lock, "first").await.unwrap();
    assert!(matches!(b.try_lock(&lock, "second").await, Err(LockError::Busy(_))));
    assert!(matches!(a.try_lock(&lock, "second").await, Err(LockError::Busy(_))));
    let again = guard.again().await.unwrap();
    assert_eq!((depth(&server, &guard), again.token()), (Some(2), guard.token()));
    again.release().await.unwrap();
    assert_eq!(depth(&server, &guard), Some(1));
    let token = guard.token();
    guard.release().await.unwrap();
    nothing_left(&server);
    let next = b.try_lock(&lock, "second").await.unwrap();
    assert!(next.token() > token, "tokens rise");
    drop(next);
    wait_until(10 * SECOND, "a dropped guard gives it back", async || {
        a.try_lock(&lock, "third").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_after_the_lease_acquires_nothing() {
    let server = TestRedis::start();
    let timing = Timing { lease: Duration::from_millis(100), ..Timing::default() };
    let (locks, _) = locks_of(&redis_of(&server), "a", timing);
    assert!(LockName::new("x".repeat(10_000)).is_err());
    let lock = name("x");
    // A reply that takes longer than the lease is no success and leaves no lock.
    server.freeze();
    let (asked, ()) = tokio::join!(locks.try_lock(&lock, "t"), async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.thaw();
    });
    assert!(matches!(asked, Err(LockError::TooSlow { .. } | LockError::Redis(_))), "{asked:?}");
    wait_until(10 * SECOND, "nothing is left", async || {
        server.query::<u64>(&["EXISTS", "lock:x"]) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_a_lost_lock_is_reported() {
    let server = TestRedis::start();
    let redis = redis_of(&server);
    let (a, _) = locks_of(&redis, "a", SHORT);
    let lock = name("x");
    // Its lease ended.
    let guard = unrenewed(&redis, SHORT).try_lock(&lock, "t").await.unwrap();
    guard.lost().await;
    assert!(!guard.is_held());
    wait_until(10 * SECOND, "it is free", async || server.query::<u64>(&["EXISTS", "lock:x"]) == 0)
        .await;
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
    // It was released by force and acquired by another holder, who keeps it.
    let guard = a.try_lock(&lock, "t").await.unwrap();
    let owner = guard.owner().to_owned();
    let (mut conn, keys) = (redis.connection(), Layout::default());
    revoke(&mut conn, &keys, &lock, &owner).await.unwrap();
    tokio::time::timeout(10 * SECOND, guard.lost()).await.expect("its node is notified");
    let next = a.try_lock(&lock, "u").await.unwrap();
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
    assert!(matches!(revoke(&mut conn, &keys, &lock, &owner).await, Err(LockError::Changed(_))));
    assert_eq!(depth(&server, &next), Some(1));
    // Work under a lock that is lost is cancelled.
    let (owner, working) = (next.owner().to_owned(), next.run(std::future::pending::<()>()));
    let (worked, revoked) = tokio::join!(working, revoke(&mut conn, &keys, &lock, &owner));
    revoked.unwrap();
    assert!(matches!(worked, Err(LockError::Lost(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_with_a_lost_reply_succeeds() {
    let server = TestRedis::start();
    let (locks, _) = locks_of(&redis_of(&server), "a", Timing::default());
    let guard = locks.try_lock(&name("x"), "t").await.unwrap();
    let again = guard.again().await.unwrap();
    // The calls wait in the server's buffer while their connection is closed: executed without a reply.
    for (left, guard) in [(Some(1), again), (None, guard)] {
        let owner = guard.owner().to_owned();
        server.freeze();
        let (released, ()) = tokio::join!(guard.release(), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let cut = std::thread::spawn({
                let url = server.url();
                move || {
                    let mut other = redis::Client::open(url)?.get_connection()?;
                    cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").query::<()>(&mut other)
                }
            });
            server.thaw();
            let _ = cut.join();
        });
        released.unwrap();
        let depth: Option<u32> = server.query(&["HGET", "lock:x", &owner]);
        assert_eq!(depth, left);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_dropped_during_an_outage_leave_no_lock() {
    let server = TestRedis::start();
    let (locks, _) = locks_of(&redis_of(&server), "a", SHORT);
    let guard = locks.try_lock(&name("x"), "t").await.unwrap();
    let again = guard.again().await.unwrap();
    let leased = locks.try_lock(&name("y"), "t").await.unwrap();
    server.freeze();
    // A cancelled release, a dropped one, and a guard that is never released.
    assert!(tokio::time::timeout(Duration::from_millis(50), again.release()).await.is_err());
    assert!(tokio::time::timeout(Duration::from_millis(50), leased.release()).await.is_err());
    drop(guard);
    server.thaw();
    wait_until(20 * SECOND, "both are free", async || {
        server.query::<u64>(&["EXISTS", "lock:x", "lock:y"]) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_notices_that_its_lock_was_released_or_lost() {
    let server = TestRedis::start();
    let redis = redis_of(&server);
    let (locks, _) = locks_of(&redis, "a", SHORT);
    let guard = locks.try_lock(&name("x"), "t").await.unwrap();
    let (mut conn, keys) = (redis.connection(), Layout::default());
    revoke(&mut conn, &keys, &name("x"), guard.owner()).await.unwrap();
    tokio::time::timeout(10 * SECOND, guard.lost()).await.expect("it was taken");
    let guard = locks.try_lock(&name("x"), "t").await.unwrap();
    let _: () = server.query(&["FLUSHALL"]);
    tokio::time::timeout(10 * SECOND, guard.lost()).await.expect("it was forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_renews_a_lock_and_without_it_the_lease_expires() {
    let server = TestRedis::start();
    let (locks, stop) = locks_of(&redis_of(&server), "a", SHORT);
    let kept = locks.try_lock(&name("kept"), "t").await.unwrap();
    let leased = unrenewed(&redis_of(&server), SHORT).try_lock(&name("leased"), "t").await.unwrap();
    tokio::time::timeout(10 * SECOND, leased.lost()).await.expect("its lease ends");
    let begun = Instant::now();
    wait_until(30 * SECOND, "three leases are over", async || {
        assert!(kept.is_held());
        begun.elapsed() > SHORT.lease * 3
    })
    .await;
    assert_eq!(depth(&server, &kept), Some(1));
    // A dead node: its lock is not renewed.
    stop.cancel();
    tokio::time::timeout(10 * SECOND, kept.lost())
        .await
        .expect("its holder is notified before the end");
    let (other, _) = locks_of(&redis_of(&server), "b", SHORT);
    let got = other.try_for(&name("kept"), "t", SHORT.lease * 2).await;
    assert!(got.is_ok(), "free within a lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_locks_are_renewed_in_a_hundred_calls() {
    let server = TestRedis::start();
    let timing = Timing { lease: 6 * SECOND, ..Timing::default() };
    let (locks, _) = locks_of(&redis_of(&server), "a", timing);
    let names: Vec<LockName> = (0..10_000).map(|i| name(&format!("many:{i}"))).collect();
    let mut guards = Vec::new();
    for page in names.chunks(500) {
        let page = page.iter().map(|name| locks.try_lock(name, "t"));
        guards.extend(futures::future::join_all(page).await.into_iter().map(Result::unwrap));
    }
    let calls = |server: &TestRedis| commands(server).get("evalsha").copied().unwrap_or(0);
    let renewals = |server: &TestRedis| -> u64 {
        let left: i64 = server.query(&["PTTL", "lock:many:9999"]);
        u64::from(left > 5_000)
    };
    wait_until(30 * SECOND, "they have aged", async || renewals(&server) == 0).await;
    let before = calls(&server);
    wait_until(30 * SECOND, "they are renewed", async || renewals(&server) == 1).await;
    let spent = calls(&server) - before;
    assert!((1..=101).contains(&spent), "{spent} calls");
    // The cost of listing does not depend on the number of other keys.
    let mut conn = redis_of(&server).connection();
    let keys = Layout::default();
    let mut costs = Vec::new();
    for _ in 0..2 {
        let _ = lock_holders::holders(&mut conn, &keys, 1, &[], |_| Some(true)).await.unwrap();
        let _: () = server.query(&["CONFIG", "RESETSTAT"]);
        let listed =
            lock_holders::holders(&mut conn, &keys, 100, &[], |_| Some(true)).await.unwrap();
        assert_eq!((listed.total, listed.locks.len()), (10_000, 100));
        let spent = commands(&server);
        assert!(!spent.contains_key("scan") && !spent.contains_key("keys"), "{spent:?}");
        // Without the calls of the watchdog, which keeps running.
        let own = ["zrangebyscore", "zcard", "zcount", "type", "pttl", "hgetall", "echo"];
        costs.push(own.map(|name| spent.get(name).copied()));
        let others = "for i = 1, 50000 do redis.call('SET', 'other:' .. i, i) end";
        let _: () = server.query(&["EVAL", others, "0"]);
    }
    assert_eq!(costs[0], costs[1]);
    assert!(guards.iter().all(Guard::is_held));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_a_waiter_and_polling_covers_lost_wakeups() {
    let server = TestRedis::start();
    let redis = redis_of(&server);
    let (holder, _) = locks_of(&redis, "holder", Timing::default());
    let (waiting, _) = locks_of(&redis, "waiting", Timing::default());
    let lock = name("busy");
    let guard = holder.try_lock(&lock, "t").await.unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (waiting, lock, turns) = (waiting.clone(), lock.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let guard = waiting.try_for(&lock, "waiter", 60 * SECOND).await.unwrap();
            let turn = turns.fetch_add(1, Ordering::SeqCst);
            guard.release().await.unwrap();
            turn
        });
    }
    let mut conn = redis.connection();
    wait_until(10 * SECOND, "all of them wait", async || {
        let keys = Layout::default();
        let listed =
            lock_holders::holders(&mut conn, &keys, 10, &[], |node| Some(node == "holder"))
                .await
                .unwrap();
        matches!(&listed.locks[..], [one] if one.waiting == 100 && !one.orphan)
    })
    .await;
    let started = Instant::now();
    guard.release().await.unwrap();
    let turns = tokio::time::timeout(30 * SECOND, tasks.join_all()).await.expect("all go on");
    assert_eq!(turns.len(), 100);
    println!("100 hand-overs took {:?}", started.elapsed());
    wait_until(10 * SECOND, "no waiter is left", async || {
        server.query::<u64>(&["EXISTS", "locks:waiting:busy"]) == 0
    })
    .await;

    // No wake-up is published: the key is deleted as if its lease had ended.
    let _guard = holder.try_lock(&lock, "t").await.unwrap();
    let polling = waiting.try_for(&lock, "waiter", 20 * SECOND);
    let (polled, ()) = tokio::join!(polling, async {
        wait_until(10 * SECOND, "it waits", async || {
            server.query::<u64>(&["EXISTS", "locks:waiting:busy"]) == 1
        })
        .await;
        let _: u64 = server.query(&["DEL", "lock:busy"]);
    });
    assert!(polled.is_ok(), "{polled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_continue_after_a_restart() {
    let mut server = TestRedis::start();
    let redis = redis_of(&server);
    let (locks, _) = locks_of(&redis, "a", SHORT);
    let lock = name("x");
    let guard = locks.try_lock(&lock, "t").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (locks, lock) = (locks.clone(), lock.clone());
        tasks.spawn(async move {
            let guard = locks.try_for(&lock, "waiter", 30 * SECOND).await?;
            guard.release().await
        });
    }
    wait_until(10 * SECOND, "all of them wait", async || {
        server.query::<u64>(&["ZCARD", "locks:waiting:x"]) == 50
    })
    .await;
    server.kill();
    server.restart();
    drop(guard);
    for done in tasks.join_all().await {
        // A holder whose lock Redis lost gets an error, although it held the lock.
        assert!(matches!(done, Ok(_) | Err(LockError::Lost(_))), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_lock_call_fails_without_hanging_during_an_outage() {
    let mut server = TestRedis::start();
    let (locks, _) = locks_of(&redis_of(&server), "a", SHORT);
    let lock = name("x");
    let guard = locks.try_lock(&lock, "t").await.unwrap();
    server.kill();
    let calls = async {
        assert!(locks.try_lock(&name("y"), "t").await.unwrap_err().is_away());
        assert!(locks.try_for(&name("y"), "t", SECOND).await.unwrap_err().is_away());
        assert!(guard.again().await.is_err());
        guard.lost().await;
        assert!(guard.release().await.unwrap_err().is_away());
    };
    tokio::time::timeout(30 * SECOND, calls).await.expect("each call has a bound");
    server.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_lock_of_another_program_is_respected_and_can_be_released() {
    let server = TestRedis::start();
    let redis = redis_of(&server);
    let (locks, _) = locks_of(&redis, "a", Timing::default());
    let lock = name("simple");
    let _: () = server.query(&["SET", "lock:simple", "their-owner", "NX", "PX", "60000"]);
    assert!(matches!(locks.try_lock(&lock, "t").await, Err(LockError::Busy(_))));
    let (mut conn, keys) = (redis.connection(), Layout::default());
    let holder = lock_holders::holder_of(&mut conn, &keys, "simple", |_| Some(true)).await;
    let holder = holder.unwrap().unwrap();
    assert_eq!((holder.kind, holder.owner.as_str()), (Kind::Simple, "their-owner"));
    let other = revoke(&mut conn, &keys, &lock, "other-owner").await;
    assert!(matches!(other, Err(LockError::Changed(_))));
    revoke(&mut conn, &keys, &lock, &holder.owner).await.unwrap();
    nothing_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_three_servers_is_all_or_nothing() {
    let mut servers = [TestRedis::start(), TestRedis::start(), TestRedis::start()];
    let members = |node: &str| {
        let of = |server: &TestRedis| locks_of(&redis_of(server), node, Timing::default()).0;
        MultiLock::new(servers.iter().map(of).collect()).unwrap()
    };
    let (a, b) = (members("a"), members("b"));
    let lock = name("wide");
    let guard = a.try_lock(&lock, "t").await.unwrap();
    assert!(matches!(b.try_lock(&lock, "t").await, Err(LockError::Member { .. })));
    assert!(guard.is_held());
    guard.release().await.unwrap();
    for server in &servers {
        wait_until(10 * SECOND, "nothing is left", async || {
            server.query::<u64>(&["EXISTS", "lock:wide"]) == 0
        })
        .await;
    }
    // One server is killed while the lock is held: the others are released nevertheless.
    let guard = b.try_lock(&lock, "t").await.unwrap();
    servers[1].kill();
    assert!(guard.release().await.is_err());
    let error = a.try_lock(&lock, "t").await.unwrap_err();
    assert!(error.to_string().contains("needs all of its servers"), "{error}");
    for server in [&servers[0], &servers[2]] {
        wait_until(10 * SECOND, "nothing is left", async || {
            server.query::<u64>(&["EXISTS", "lock:wide"]) == 0
        })
        .await;
    }
    // An unresponsive server costs its timeout only.
    servers[1].restart();
    servers[1].freeze();
    let asked = tokio::time::timeout(20 * SECOND, a.try_lock(&lock, "t")).await;
    assert!(asked.expect("a bound").is_err());
    servers[1].thaw();
    let one = locks_of(&redis_of(&servers[0]), "a", Timing::default()).0;
    assert!(MultiLock::new(vec![one.clone(), one]).is_err());
    assert!(MultiLock::new(Vec::new()).is_err());
}

/// A command that changes something is not repeated: the connection is tried before it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_command_after_a_pause_finds_a_server_that_was_replaced() {
    let mut server = TestRedis::start();
    let shared = redis_of(&server).shared_connection();
    let count = async || shared.query::<u64>("counter", cmd("INCR").arg("counter")).await;
    assert_eq!(count().await, Ok(1));
    let used = Instant::now();
    server.kill();
    server.restart();
    wait_until(10 * SECOND, "the connection is idle", async || used.elapsed() > 2 * SECOND).await;
    assert_eq!(count().await, Ok(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_under_two_addresses_counts_once() {
    let server = TestRedis::setup().tcp().start();
    let urls = [server.url(), server.url().replace("127.0.0.1", "localhost")];
    assert_ne!(urls[0], urls[1]);
    let of = |url: &String| locks_of(&Redis::from_url(url).unwrap(), "a", Timing::default()).0;
    let wide = MultiLock::new(urls.iter().map(of).collect()).unwrap();
    let error = wide.try_lock(&name("wide"), "t").await.unwrap_err();
    assert!(error.to_string().contains("same server twice"), "{error}");
    nothing_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_three_servers_is_retried_or_leaves_nothing() {
    let mut servers = [TestRedis::start(), TestRedis::start(), TestRedis::start()];
    // Servers are locked in order; the last one is held by another owner.
    servers.sort_by_key(|server| locks_of(&redis_of(server), "x", SHORT).0.address().to_owned());
    let of = |server: &TestRedis| locks_of(&redis_of(server), "a", Timing::default()).0;
    let wide = MultiLock::new(servers.iter().map(of).collect()).unwrap();
    let (other, lock) = (locks_of(&redis_of(&servers[2]), "b", Timing::default()).0, name("wide"));
    let nothing_held = async |servers: &[TestRedis]| {
        for server in servers {
            wait_until(10 * SECOND, "nothing is left", async || {
                server.query::<u64>(&["EXISTS", "lock:wide"]) == 0
            })
            .await;
        }
    };
    let held = other.try_lock(&lock, "t").await.unwrap();
    let asking = {
        let (wide, lock) = (wide.clone(), lock.clone());
        tokio::spawn(async move { wide.try_for(&lock, "t", 60 * SECOND).await })
    };
    // Each round has a fencing token of the first server.
    let mut rounds = BTreeSet::new();
    wait_until(10 * SECOND, "three rounds have failed", async || {
        rounds.extend(servers[0].query::<Option<i64>>(&["GET", "locks:token"]));
        rounds.len() >= 3
    })
    .await;
    assert!(!asking.is_finished());
    held.release().await.unwrap();
    let guard = tokio::time::timeout(30 * SECOND, asking).await.expect("a retry").unwrap().unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    nothing_held(&servers).await;

    let held = other.try_lock(&lock, "t").await.unwrap();
    let error = wide.try_for(&lock, "t", SECOND / 2).await.unwrap_err().to_string();
    for part in ["needs all of its servers", other.address(), "is held by"] {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
    nothing_held(&servers[..2]).await;
    assert!(held.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_refused_by_its_fencing_token() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let (locks, _) = locks_of(&redis_of(&server), "a", Timing::default());
    let lock = name("x");
    let early = unrenewed(&redis_of(&server), SHORT).try_lock(&lock, "t").await.unwrap();
    let next = locks.try_for(&lock, "t", 10 * SECOND).await.unwrap();
    let write = async |guard: &Guard| {
        let fence = Fence { name: guard.name().to_string(), token: guard.token() };
        store.fenced_write(&fence, Millis::now()).await
    };
    assert_eq!(write(&next).await.unwrap(), 1);
    assert!(matches!(write(&early).await, Err(StoreError::Fenced(_))));
    assert_eq!(write(&next).await.unwrap(), 2);
    // Tokens increase although Redis lost everything and the last token was from the future.
    let _: () = server.query(&["FLUSHALL"]);
    let after = locks.try_lock(&lock, "t").await.unwrap();
    assert!(after.token() > next.token());
    let future = after.token() + 3_600_000_000;
    let _: () = server.query(&["SET", "locks:token", &future.to_string()]);
    drop(after);
    let later = locks.try_for(&lock, "t", 10 * SECOND).await.unwrap();
    assert_eq!(later.token(), future + 1);
}

/// Entry point of a child process: the test below re-executes this binary.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process that another test starts"]
async fn process_of_many() {
    let work = std::env::var("LOCK_WORK").unwrap();
    let parts: Vec<&str> = work.split('|').collect();
    let [node, url, dir, seconds, tasks] = parts[..] else { panic!("{work}") };
    let redis = Redis::from_url(url).unwrap();
    let timing = Timing { lease: SECOND * 3, poll: Duration::from_millis(500) };
    let (locks, _stop) = locks_of(&redis, node, timing);
    let store = crate::world::open_sqlite(std::path::Path::new(dir)).await;
    let until = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let (held, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..tasks.parse::<u32>().unwrap() {
        let (locks, store, held) = (locks.clone(), store.clone(), Arc::clone(&held));
        let (redis, inside) = (redis.clone(), Arc::clone(&inside));
        running.spawn(async move {
            let mut conn = redis.connection();
            while Instant::now() < until {
                let wait = until.saturating_duration_since(Instant::now()) + 60 * SECOND;
                let guard = locks.try_for(&name("shared"), "t", wait).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders in a process");
                // Across processes: a counter in Redis that is independent of the lock.
                let there: i64 = conn.query(cmd("INCR").arg("inside")).await.unwrap();
                assert_eq!(there, 1, "two holders");
                let again = guard.again().await.unwrap();
                let fence = Fence { name: "shared".into(), token: guard.token() };
                store.fenced_write(&fence, Millis::now()).await.unwrap();
                held.fetch_add(1, Ordering::SeqCst);
                again.release().await.unwrap();
                let _: i64 = conn.query(cmd("DECR").arg("inside")).await.unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    for done in running.join_all().await {
        let () = done;
    }
    println!("\nheld={}", held.load(Ordering::SeqCst));
}

fn process(
    node: &str,
    server: &TestRedis,
    dir: &std::path::Path,
    seconds: u32,
) -> (Seckill, Background) {
    let sandbox = Seckill::new();
    let work = format!("{node}|{}|{}|{seconds}|64", server.url(), dir.display());
    let this = std::env::current_exe().unwrap();
    let args = crate::support::only(module_path!(), "process_of_many");
    let env = [("LOCK_WORK", work.as_str())];
    let process = Background::spawn(this.to_str().unwrap(), &args, &sandbox, &env);
    (sandbox, process)
}

/// Three processes of 64 tasks each; ten seconds with `LOCK_SECONDS=10`.
#[tokio::test(flavor = "multi_thread")]
async fn three_processes_never_hold_a_lock_at_once() {
    let seconds = std::env::var("LOCK_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(2);
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let processes: Vec<_> =
        ["a", "b", "c"].iter().map(|node| process(node, &server, files.path(), seconds)).collect();
    let mut held = 0;
    for (_sandbox, process) in processes {
        let done = tokio::task::spawn_blocking(move || process.wait(120 * SECOND)).await.unwrap();
        let done = done.expect_code(0);
        let line =
            done.stdout.lines().find_map(|line| line.strip_prefix("held=").map(str::to_owned));
        let count: u64 = line.unwrap_or_else(|| panic!("{done}")).parse().unwrap();
        assert!(count > 0, "each process had its turns");
        held += count;
    }
    let fence = Fence { name: "shared".into(), token: i64::MAX };
    assert_eq!(
        store.fenced_write(&fence, Millis::now()).await.unwrap(),
        held + 1,
        "none was refused"
    );
    println!("{held} turns in {seconds} s");
    let left: Vec<String> = server.query(&["KEYS", "lock*"]);
    assert_eq!(left, ["locks:token"], "nothing is left behind");
}

/// Entry point of the lock holder: the test below re-executes this binary.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process that another test starts"]
async fn process_that_holds() {
    let work = std::env::var("HOLD_WORK").unwrap();
    let parts: Vec<&str> = work.split('|').collect();
    let [url, dir] = parts[..] else { panic!("{work}") };
    let store = crate::world::open_sqlite(std::path::Path::new(dir)).await;
    let (locks, _stop) = locks_of(&Redis::from_url(url).unwrap(), "holder", SHORT);
    let guard = locks.try_lock(&name("held"), "t").await.unwrap();
    println!("\nheld");
    // Renewed until this process is suspended; then its work is cancelled before anything else.
    let worked = guard.run(std::future::pending::<()>()).await;
    assert!(matches!(worked, Err(LockError::Lost(_))) && !guard.is_held());
    let fence = Fence { name: "held".into(), token: guard.token() };
    let late = store.fenced_write(&fence, Millis::now()).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
    println!("\nrefused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_suspended_past_its_lease_is_fenced() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let (locks, _stop) = locks_of(&redis_of(&server), "next", SHORT);
    let sandbox = Seckill::new();
    let work = format!("{}|{}", server.url(), files.path().display());
    let this = std::env::current_exe().unwrap();
    let args = crate::support::only(module_path!(), "process_that_holds");
    let env = [("HOLD_WORK", work.as_str())];
    let mut holder = Background::spawn(this.to_str().unwrap(), &args, &sandbox, &env);
    holder.wait_for_line("held").await;
    // The watchdog renews it beyond one lease.
    assert!(locks.try_for(&name("held"), "t", SHORT.lease * 2).await.is_err());
    holder.freeze();
    let guard = locks.try_for(&name("held"), "t", 30 * SECOND).await.unwrap();
    let fence = Fence { name: "held".into(), token: guard.token() };
    store.fenced_write(&fence, Millis::now()).await.unwrap();
    holder.signal(rustix::process::Signal::CONT);
    holder.wait_for_line("refused").await;
    assert!(guard.is_held(), "the next holder keeps it");
    guard.release().await.unwrap();
    tokio::task::spawn_blocking(move || holder.wait(30 * SECOND)).await.unwrap().expect_code(0);
}

/// The index of locks and the last token hold values of another program: they are named, locks are acquired all the same,
/// and a node renames them.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_shared_by_all_locks_stop_no_job_and_are_named_and_repaired() {
    let mut world = World::start().await;
    world.stop_node().await;
    let (index, token) = (world.keys.locks(), world.keys.lock_token());
    world.server.query::<()>(&["SET", &index, "of another program"]);
    world.server.query::<u64>(&["RPUSH", &token, "of another program"]);
    let (locks, _) = Locks::new(&world.redis, world.keys.clone(), "holder", Timing::default());
    let name = LockName::new("job:close-overdue").unwrap();
    let guard = locks.try_lock(&name, "run").await.unwrap();
    let mut conn = world.redis.connection();
    let known = ["job:close-overdue".to_owned()];
    let listed = lock_holders::holders(&mut conn, &world.keys, 10, &known, |_| Some(true)).await;
    let listed = listed.unwrap();
    assert_eq!(listed.locks.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["job:close-overdue"]);
    let named: Vec<&str> = listed.foreign.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(named, [index.as_str()], "the token was replaced by the first lock");
    assert!(!listed.foreign[0].is_lock() && listed.foreign[0].to_string().contains("RENAME"));
    let renamed: String = world.server.query(&["TYPE", &format!("{token}:replaced")]);
    assert_eq!(renamed, "list", "nothing of the other program is lost");
    guard.release().await.unwrap();
    world.start_node();
    world
        .until("the node renames it", async || {
            let holds: String = world.server.query(&["TYPE", &index]);
            holds != "string"
                && world.server.query::<bool>(&["EXISTS", &format!("{index}:replaced")])
        })
        .await;
    world
        .until("an event says so", async || {
            let lines = crate::world::newest(&world.store, 50).await;
            lines.iter().any(|it| it.action == "partition repaired" && it.result.contains(&*index))
        })
        .await;
    world.balanced().await;
}
