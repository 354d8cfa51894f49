//! Connections find the server of each key, also after it has changed.

use std::{
    collections::HashSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    support::{
        AUTHORITY, Behind, CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY, KEY as KEY_OF_SERVER,
        PATIENCE, SERVICE, TestCluster, TestRedis, TestSentinels, encrypted, encrypted_for_clients,
        sentinel_of, wait_until,
    },
    world::open_sqlite,
};
use futures::{FutureExt as _, StreamExt as _};
use redis::{Script, Value, cmd, pipe};
use seckill_engine::{deployment::servers::Servers, node::heartbeat::take_name};
use seckill_model::reason::reason;
use seckill_redis::{
    Connection, HOME, Layout, Redis, RedisError,
    stream::{self, ReadFrom},
    tls::TlsFiles,
};

const KEY: &str = "{p0}:k";
/// Keys that the three primaries serve at first, one each.
const KEYS: [&str; 3] = [KEY, "{p2}:k", "{p3}:k"];
/// Time limit of any call: connecting, reading the slots, and a reply.
const BOUND: Duration = Duration::from_secs(12);

fn set(key: &str, value: &str) -> redis::Cmd {
    cmd("SET").arg(key).arg(value).take()
}

/// Sets `key` repeatedly until it succeeds; every error in between must be of the kind
/// that callers retry.
async fn set_at_last(conn: &mut Connection, key: &str) -> Vec<String> {
    let mut failures = Vec::new();
    wait_until(PATIENCE, "a write succeeds", async || {
        let asked = Instant::now();
        let written = conn.query::<()>(&set(key, "v")).await;
        assert!(asked.elapsed() < BOUND, "{:?}", asked.elapsed());
        if let Err(error) = &written {
            assert!(error.is_away(), "{error:?}");
            failures.push(error.to_string());
        }
        written.is_ok()
    })
    .await;
    failures
}

fn run_of(server: &TestRedis) -> String {
    let info: String = server.query(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    line.trim().to_owned()
}

fn run_seen(conn: &Connection, key: &str) -> String {
    conn.server(key).expect("it is connected").run_id.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_is_routed_to_the_server_of_its_key() {
    let cluster = TestCluster::setup().password("secret").start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    assert!(redis.is_cluster() && !redis.address().contains("secret"));
    let mut conn = redis.connection();
    for key in KEYS {
        conn.query::<()>(&set(key, "v")).await.unwrap();
        assert_eq!(cluster.query::<String>(key, &["GET", key]), "v");
        assert_eq!(run_seen(&conn, key), run_of(cluster.node(cluster.owner(key).unwrap())));
        assert!(conn.now_at(key).await.unwrap().0 > 0);
    }
    let owners: HashSet<usize> = KEYS.iter().map(|key| cluster.owner(key).unwrap()).collect();
    assert_eq!(owners.len(), 3, "the keys of this test lie apart");

    // Scripts are loaded on demand.
    let script = Script::new("return {redis.call('GET', KEYS[1]), ARGV[1]}");
    for key in KEYS {
        let mut call = script.prepare_invoke();
        call.key(key).arg("a");
        let (value, arg): (String, String) = conn.invoke(&call).await.unwrap();
        assert_eq!((value.as_str(), arg.as_str()), ("v", "a"));
    }

    // Commands without a key follow the rest of the pipeline.
    let mut together = pipe();
    together.cmd("TIME").cmd("GET").arg(KEYS[1]);
    let (_, value): (Value, String) = conn.pipe(&together).await.unwrap();
    assert_eq!(value, "v");
    assert!(conn.now().await.unwrap().0 > 0);
    assert_eq!(conn.setting(KEYS[1], "cluster-enabled").await.unwrap(), "yes");
    assert_eq!(run_seen(&conn, HOME), run_seen(&conn, KEY));

    // One half would be executed and the other refused.
    let mut apart = pipe();
    apart.cmd("SET").arg(KEYS[0]).arg("w").cmd("SET").arg(KEYS[1]).arg("w");
    let refused = conn.pipe::<()>(&apart).await.unwrap_err();
    assert_eq!(refused, RedisError::Rejected(reason!("redis-cross-slot")));
    assert_eq!(cluster.query::<String>(KEY, &["GET", KEY]), "v");
    let apart = cmd("DEL").arg(&KEYS).take();
    let refused = conn.query::<u8>(&apart).await.unwrap_err();
    assert!(
        matches!(&refused, RedisError::Rejected(_)) && refused.code() == Some("CROSSSLOT"),
        "{refused}"
    );

    // The order stream and its group.
    let keys = Layout::default().home();
    stream::ensure_group(&mut conn, &keys).await.unwrap();
    stream::ensure_group(&mut conn, &keys).await.unwrap();
    let mut add = cmd("XADD");
    add.arg(keys.orders()).arg("*").arg(&["userId", "1", "voucherId", "2", "id", "3"]);
    conn.query::<String>(&add).await.unwrap();
    let mut blocking = redis.blocking_connection(Duration::from_secs(1));
    let from = ReadFrom::New(Duration::from_secs(1));
    let read = stream::read_group(&mut blocking, &keys, "n/1", from, 9).await.unwrap();
    assert_eq!(read.len(), 1);
    let page = stream::own_page(&mut conn, &keys, "n/1", read[0].entry, 9).await.unwrap();
    assert_eq!(page.len(), 1);
    let idle = Duration::ZERO;
    let from = seckill_model::EntryId::MIN;
    let claimed = stream::auto_claim(&mut conn, &keys, "n/2", idle, 9, from, 9).await.unwrap();
    assert_eq!(claimed.entries.len(), 1);
    assert_eq!(stream::acknowledge(&mut conn, &keys, [read[0].entry]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_follows_a_cluster_failover() {
    let mut cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let (mut conn, mut other) = (redis.connection(), redis.connection());
    for key in KEYS {
        conn.query::<()>(&set(key, "v")).await.unwrap();
        other.query::<()>(&set(key, "v")).await.unwrap();
    }
    let (run, elsewhere) = (run_seen(&conn, KEY), conn.generation(KEYS[1]));
    let old = cluster.kill_owner(KEY);
    let failures = set_at_last(&mut conn, KEY).await;
    assert!(!failures.is_empty());
    let new = cluster.wait_for_failover(KEY, old);
    assert_ne!(run_seen(&conn, KEY), run, "the caller sees the change");
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(new)));
    assert_eq!(conn.generation(KEYS[1]), elsewhere, "the other servers did not change");
    set_at_last(&mut other, KEY).await;
    assert_eq!(run_seen(&other, KEY), run_of(cluster.node(new)));

    // It returns as a replica and is the only one left.
    cluster.restart(old);
    cluster.wait_until_whole();
    cluster.kill(new);
    set_at_last(&mut conn, KEY).await;
    cluster.wait_for_failover(KEY, new);
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(old)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_is_abandoned() {
    let mut cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let mut conn = redis.connection();
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    let old = cluster.owner(KEY).unwrap();
    cluster.freeze(old);
    let new = cluster.wait_for_failover(KEY, old);
    set_at_last(&mut conn, KEY).await;
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(new)));

    // New connections are not blocked by it, although it is their first address.
    let url = cluster.url_by(&[old, new]);
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        Redis::from_url(&url).unwrap().connection().query::<()>(&set(KEY, "v")).await.unwrap();
        quickest = quickest.min(begun.elapsed());
    }
    // A busy machine may delay one of them; a frozen server would delay all.
    assert!(quickest < Duration::from_secs(3), "{quickest:?}");
    cluster.thaw(old);
    cluster.wait_until_whole();
    set_at_last(&mut conn, KEY).await;
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(new)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_delays_only_the_commands_for_its_own_keys() {
    let mut cluster = TestCluster::setup().args(&["--cluster-require-full-coverage", "no"]).start();
    let lost = cluster.owner(KEY).unwrap();
    cluster.kill(lost + 3);
    let shared = Redis::from_url(&cluster.url()).unwrap().shared_connection();
    for key in KEYS {
        shared.query::<()>(key, &set(key, "v")).await.unwrap();
    }
    cluster.freeze(lost);
    let writes = KEYS.map(|key| set(key, "v"));
    let write = |of: usize| shared.query::<()>(KEYS[of], &writes[of]);
    let begun = async || {
        let mut begun = None;
        wait_until(PATIENCE, "a command waits for the frozen server", async || {
            let mut own = Box::pin(write(0));
            let waits = futures::poll!(&mut own).is_pending();
            begun = Some(own);
            waits
        })
        .await;
        begun
    };
    // First on the connection that was open, then while it is opened again.
    let mut waited = 0;
    while waited < 3 {
        let (began, mut own) = (Instant::now(), begun().await.unwrap());
        tokio::select! {
            biased;
            both = async { (write(1).await, write(2).await) } => {
                assert_eq!(both, (Ok(()), Ok(())));
                let waits = futures::poll!(&mut own).is_pending();
                assert!(!waits || own.await.unwrap_err().is_away());
                waited += usize::from(waits);
            }
            // Its silence is remembered for a moment, in which a command asks the others only.
            reply = &mut own => assert!(
                began.elapsed() < Duration::from_secs(2),
                "the others waited for the frozen server: {reply:?}"
            ),
        }
    }

    // While one command tries again, the others fail at once.
    let own = begun().await.unwrap();
    assert!(write(0).now_or_never().unwrap().unwrap_err().is_away());
    drop(own);
    cluster.thaw(lost);
    wait_until(PATIENCE, "it serves again", async || write(0).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_primary_is_abandoned() {
    let cluster = TestCluster::start();
    let mut conn = Redis::from_url(&cluster.url()).unwrap().connection();
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    let old = cluster.owner(KEY).unwrap();
    let (alone, new) = (cluster.node(old), cluster.node(old + 3));
    // From here on the isolated server ignores the others, also about its slots.
    // All at once: a server of version 7.2 or later tells those that it still knows whom to forget, too.
    let mut forget = pipe();
    forget.atomic();
    for node in (0..cluster.len()).filter(|node| *node != old) {
        let id: String = cluster.node(node).query(&["CLUSTER", "MYID"]);
        forget.cmd("CLUSTER").arg("FORGET").arg(id).ignore();
    }
    forget.exec(&mut alone.connection()).unwrap();
    new.query::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    wait_until(PATIENCE, "both serve the slot, and one knows that it must not", async || {
        let refused = alone.try_query::<()>(&["SET", KEY, "v"]);
        refused.is_err_and(|error| error.code() == Some("CLUSTERDOWN"))
            && new.try_query::<()>(&["SET", KEY, "v"]).is_ok()
    })
    .await;
    assert!(set_at_last(&mut conn, KEY).await[0].contains("CLUSTERDOWN"));
    assert_eq!(run_seen(&conn, KEY), run_of(new));

    // New connections trust the majority, although both answer.
    for _ in 0..10 {
        let mut conn = Redis::from_url(&cluster.url_by(&[old, old + 3])).unwrap().connection();
        conn.query::<()>(&set(KEY, "v")).await.unwrap();
        assert_eq!(run_seen(&conn, KEY), run_of(new));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_slot_is_found() {
    let cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let mut conn = redis.connection();
    let mut counter = pipe();
    counter.atomic().cmd("INCR").arg("{p0}:n").cmd("EXPIRE").arg("{p0}:n").arg(60).ignore();
    assert_eq!(conn.pipe::<(u8,)>(&counter).await.unwrap(), (1,));
    let from = cluster.owner(KEY).unwrap();
    let to = (from + 1) % 3;
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(from)));

    // A missing key is redirected to the importing server only while the slot migrates.
    cluster.begin_to_move(KEY, to);
    let error = conn.query::<()>(&set(KEY, "v")).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("ASK"), "{error}");
    // Its server replies meanwhile, and is not lost.
    assert_eq!(conn.probe(&Layout::new(1, true)).await, []);
    assert_eq!(conn.query::<u8>(cmd("GET").arg("{p0}:n")).await.unwrap(), 1);
    cluster.move_slot(KEY, to);

    // After the first redirection, also behind an aborted transaction.
    let error = conn.pipe::<(u8,)>(&counter).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("MOVED"), "{error}");
    assert!(matches!(error, RedisError::Moved { .. }), "the server replies: {error:?}");
    assert!(conn.server(KEY).is_none(), "the last one is outdated");
    assert_eq!(conn.pipe::<(u8,)>(&counter).await.unwrap(), (2,));
    assert_eq!(run_seen(&conn, KEY), run_of(cluster.node(to)));

    // A call in progress on the older connection drops nothing.
    let generation = conn.generation(KEY);
    let moved = redis::parse_redis_value(b"-MOVED 1 127.0.0.1:1\r\n").unwrap();
    let Value::ServerError(moved) = moved else { panic!() };
    assert!(conn.broke_then(KEY, generation - 1, &moved.into()).is_away());
    assert_eq!(conn.generation(KEY), generation);

    // A plain URL of a cluster node is an error that names the right scheme.
    let one = Redis::from_url(&format!("redis://127.0.0.1:{}", cluster.node(from).port())).unwrap();
    let error = one.connection().query::<()>(&set(KEY, "v")).await.unwrap_err();
    assert!(!error.is_away() && error.to_string().contains("redis+cluster://"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unserved_slot_is_reported() {
    let cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let mut conn = redis.connection();
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    let (owner, slot) = (cluster.owner(KEY).unwrap(), cluster.slot(KEY).to_string());
    for node in 0..cluster.len() {
        // It learns of it from the others, too.
        let _ = cluster.node(node).try_query::<()>(&["CLUSTER", "DELSLOTS", &slot]);
    }
    for _ in 0..2 {
        let error = conn.query::<()>(&set(KEY, "v")).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, RedisError::ClusterDown(_)), "{text}");
        assert!(text.contains(&format!("slot {slot}")) && text.contains("TAKEOVER"), "{text}");
        // It needs all primaries, and may lose data; reads fail as well as writes.
        assert!(!text.contains("--cluster fix") && !text.contains("writes"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    cluster.node(owner).query::<()>(&["CLUSTER", "ADDSLOTS", &slot]);
    cluster.node(owner).query::<()>(&["CLUSTER", "BUMPEPOCH"]);
    set_at_last(&mut conn, KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_live_seed_node_is_enough() {
    let mut cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url_by(&[0, 4])).unwrap();
    cluster.kill(0);
    cluster.wait_for_failover(KEYS[0], 0);
    set_at_last(&mut redis.connection(), KEY).await;

    let mut conn = redis.connection();
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    // A connection that knows the cluster needs none of those any more.
    cluster.kill(4);
    set_at_last(&mut conn, KEY).await;

    let stranger = Redis::from_url(&cluster.url_by(&[0, 4])).unwrap();
    let begun = Instant::now();
    let error = stranger.connection().query::<()>(&set(KEY, "v")).await.unwrap_err();
    assert!(error.is_away() && begun.elapsed() < BOUND, "{error}");
    assert!(error.to_string().contains(stranger.address()), "{error}");
    assert!(stranger.subscribe("c").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_server_and_a_wrong_login_are_reported() {
    let cluster = TestCluster::setup().password("secret").start();
    for url in [cluster.url().replace(":secret@", ""), cluster.url().replace("secret", "wr0ng")] {
        let error = Redis::from_url(&url).unwrap().connection().now().await.unwrap_err();
        assert!(matches!(error, RedisError::Login { .. }), "{error}");
        assert!(!error.to_string().contains("wr0ng"), "{error}");
    }
    let server = TestRedis::setup().tcp().start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = Redis::from_url(&url).unwrap().connection().now().await.unwrap_err();
    assert!(!error.is_away() && error.to_string().contains("redis://"), "{error}");

    let all = TestSentinels::setup().password("secret").sentinel_password("own").start();
    let good = all.url();
    assert!(Redis::from_url(&good).unwrap().connection().now().await.is_ok());
    for url in [good.replace(":secret@", ":wr0ng@"), good.replace("=own", "=wr0ng")] {
        let error = Redis::from_url(&url).unwrap().connection().now().await.unwrap_err();
        assert!(matches!(error, RedisError::Login { .. }), "{error}");
        assert!(error.to_string().contains("sentinel_pass"), "{error}");
        assert!(!error.to_string().contains("wr0ng"), "{error}");
    }
    let url = good.replace("/flash", "/unknown");
    let error = Redis::from_url(&url).unwrap().connection().now().await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("'unknown'"), "{error}");
    let url = format!("redis+sentinel://:secret@127.0.0.1:{}/flash", all.node(0).port());
    let error = Redis::from_url(&url).unwrap().connection().now().await.unwrap_err();
    assert!(error.to_string().contains("sentinel"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_follows_a_sentinel_failover() {
    let mut all = TestSentinels::start();
    let redis = Redis::from_url(&all.url()).unwrap();
    assert!(!redis.is_cluster());
    let mut conn = redis.connection();
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    let first = run_seen(&conn, KEY);
    assert_eq!(first, run_of(all.node(all.primary())));
    assert_eq!(run_seen(&conn, "any other key"), first);

    let old = all.kill_primary();
    all.kill_sentinel(0);
    let failures = set_at_last(&mut conn, KEY).await;
    assert!(!failures.is_empty());
    let new = all.wait_for_failover(old);
    assert_eq!(run_seen(&conn, KEY), run_of(all.node(new)));
    all.restart(old);

    // A live primary that is demoted accepts writes for a moment; then it disconnects or replies
    // READONLY. So does one with a blocked reader.
    let keys = Layout::default().home();
    stream::ensure_group(&mut conn, &keys).await.unwrap();
    let mut blocking = redis.blocking_connection(PATIENCE);
    let reading = tokio::spawn({
        let keys = keys.clone();
        async move {
            let from = ReadFrom::New(PATIENCE);
            let failed = stream::read_group(&mut blocking, &keys, "n/1", from, 9).await;
            (failed.map(|_| ()), blocking)
        }
    });
    wait_until(PATIENCE, "a reader waits for entries", async || {
        all.query::<String>(&["INFO", "clients"]).contains("blocked_clients:1")
    })
    .await;
    all.demand_failover();
    let newer = all.wait_for_failover(new);
    wait_until(PATIENCE, "the conn has left it", async || {
        set_at_last(&mut conn, KEY).await;
        run_seen(&conn, KEY) == run_of(all.node(newer))
    })
    .await;
    let (failed, mut blocking) = tokio::time::timeout(PATIENCE, reading).await.unwrap().unwrap();
    let error = failed.unwrap_err();
    assert!(error.is_away(), "{error}");
    set_at_last(&mut blocking, KEY).await;
    assert_eq!(run_seen(&blocking, KEY), run_of(all.node(newer)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_message_is_received_from_every_cluster_node() {
    let cluster = TestCluster::start();
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let mut messages = redis.subscribe("channel").await.unwrap();
    for node in 0..cluster.len() {
        cluster.node(node).query::<()>(&["PUBLISH", "channel", &node.to_string()]);
        let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap();
        assert_eq!(message, Some(node.to_string()));
    }

    let all = TestSentinels::start();
    let mut messages = Redis::from_url(&all.url()).unwrap().subscribe("channel").await.unwrap();
    all.query::<()>(&["PUBLISH", "channel", "m"]);
    let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap();
    assert_eq!(message.as_deref(), Some("m"));
}

/// Servers close connections that were idle for a while. Another process may have lost what was read before.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_repeated_after_a_disconnection_and_what_may_have_been_done_is_not() {
    let mut server = TestRedis::start();
    let redis = Redis::from_url(&server.url()).unwrap();
    let (mut conn, shared) = (redis.connection(), redis.shared_connection());
    let disconnect = || {
        assert!(server.query::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]) > 0, "it was connected");
    };
    conn.query::<()>(&set(KEY, "v")).await.unwrap();
    shared.query::<()>(KEY, &set(KEY, "v")).await.unwrap();
    for _ in 0..20 {
        disconnect();
        assert_eq!(conn.query::<String>(cmd("GET").arg(KEY)).await.unwrap(), "v");
        assert_eq!(shared.query::<String>(KEY, cmd("GET").arg(KEY)).await.unwrap(), "v");
        let mut read = pipe();
        read.cmd("GETEX").arg(KEY).arg("PX").arg(60_000).cmd("PTTL").arg(KEY);
        disconnect();
        assert!(conn.pipe::<(String, i64)>(&read).await.unwrap().1 > 0);
        assert!(shared.pipe::<(String, i64)>(KEY, &read).await.unwrap().1 > 0);
    }
    let increment = cmd("INCR").arg("{p0}:n").take();
    disconnect();
    let failed = [
        conn.query::<u64>(&increment).await.unwrap_err(),
        shared.query::<u64>(KEY, &increment).await.unwrap_err(),
    ];
    assert!(failed.iter().all(RedisError::is_away), "{failed:?}");
    assert_eq!(conn.query::<Option<u64>>(cmd("GET").arg("{p0}:n")).await.unwrap(), None);
    // A process that has lost it is not asked for what a task reads beside other things.
    server.restart();
    let error = conn.query::<Option<String>>(cmd("GET").arg(KEY)).await.unwrap_err();
    assert!(error.is_away(), "{error:?}");
    assert!(conn.query::<Option<String>>(cmd("GET").arg(KEY)).await.is_ok());
}

/// Until all keys of the slot have moved, a script about several of them is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_waits_for_a_slot_that_moves() {
    let cluster = TestCluster::start();
    let dir = tempfile::tempdir().unwrap();
    let store = open_sqlite(dir.path()).await;
    let keys = Layout::new(1, true);
    let redis = Redis::from_url(&cluster.url()).unwrap();
    let nodes = keys.home().nodes();
    cluster.query::<u64>(&nodes, &["ZADD", &nodes, "1", "other"]);
    let from = cluster.owner(&nodes).unwrap();
    let to = (from + 1) % 3;
    cluster.begin_to_move(&nodes, to);
    let mut servers = Servers::new(&redis, &store, &keys);
    let starting =
        tokio::spawn(
            async move { take_name(&mut servers, "node-m", "instance", 5_000, false).await },
        );
    wait_until(PATIENCE, "it has asked twice", async || {
        let errors: String = cluster.node(from).query(&["INFO", "errorstats"]);
        let count = |code: &str| {
            let (_, rest) = errors.split_once(&format!("errorstat_{code}:count="))?;
            rest.lines().next()?.trim().parse::<u64>().ok()
        };
        count("TRYAGAIN").unwrap_or(0) + count("ASK").unwrap_or(0) >= 2
    })
    .await;
    assert!(!starting.is_finished());
    cluster.move_slot(&nodes, to);
    tokio::time::timeout(PATIENCE, starting).await.unwrap().unwrap().unwrap();
    let score: Option<f64> = cluster.query(&nodes, &["ZSCORE", &nodes, "node-m"]);
    assert!(score.is_some(), "it has its name");
}

/// A certificate of a private CA is no outage.
#[tokio::test]
async fn a_tls_server_is_trusted_by_the_configured_ca() {
    let server = TestRedis::start();
    let url = format!("rediss://localhost:{}", encrypted(server.socket()));
    let error = Redis::from_url(&url).unwrap().connection().multiplexed(HOME).await.map(|_| ());
    let error = error.unwrap_err();
    assert!(matches!(error, RedisError::Certificate { .. }), "{error:?}");
    assert!(error.to_string().contains("--redis-ca"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles { ca: Some(pem(&dir, "ca.pem", AUTHORITY)), ..TlsFiles::default() };
    let mut conn = Redis::with_tls(&url, &files).unwrap().connection();
    let pong: String = conn.query(&cmd("PING")).await.unwrap();
    assert_eq!(pong, "PONG");

    let plain = Redis::with_tls(&server.url(), &files).map(|_| ()).unwrap_err();
    assert!(plain.to_string().contains("rediss://"), "{plain}");
}

fn pem(dir: &tempfile::TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Redis asks clients for a certificate unless `tls-auth-clients` is `no`: a single server, sentinels and the primary that
/// they report, and the servers of a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_sent_to_servers_that_require_one() {
    let single = TestRedis::start();
    let cluster = TestRedis::setup().args(&["--cluster-enabled", "yes"]).start();
    let behind = |server: &TestRedis| Behind::Socket(server.socket().to_owned());
    let at_cluster = encrypted_for_clients(behind(&cluster)).to_string();
    for (setting, value) in [("ip", "127.0.0.1"), ("port", &at_cluster)] {
        let name = format!("cluster-announce-{setting}");
        cluster.query::<()>(&["CONFIG", "SET", &name, value]);
    }
    cluster.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let monitored = encrypted_for_clients(behind(&single));
    let sentinel = sentinel_of(monitored);
    let at_sentinel = encrypted_for_clients(Behind::Port(sentinel.port()));
    let dir = tempfile::tempdir().unwrap();
    let ca = Some(pem(&dir, "ca.pem", AUTHORITY));
    let (cert, key) = (pem(&dir, "c.pem", CLIENT_CERTIFICATE), pem(&dir, "k.pem", CLIENT_KEY));
    let (stranger, its_key) = (pem(&dir, "s.pem", CERTIFICATE), pem(&dir, "sk.pem", KEY_OF_SERVER));
    let with = |cert: Option<&PathBuf>, key: Option<&PathBuf>| TlsFiles {
        ca: ca.clone(),
        cert: cert.cloned(),
        key: key.cloned(),
    };
    for url in [
        format!("rediss://127.0.0.1:{monitored}"),
        format!("rediss+cluster://127.0.0.1:{at_cluster}"),
        format!("rediss+sentinel://127.0.0.1:{at_sentinel}/{SERVICE}"),
    ] {
        let ping = async |files: TlsFiles| {
            let mut conn = Redis::with_tls(&url, &files)?.connection();
            conn.query::<Option<String>>(cmd("GET").arg(KEY)).await
        };
        wait_until(PATIENCE, &url, async || ping(with(Some(&cert), Some(&key))).await.is_ok())
            .await;
        for files in [with(None, None), with(Some(&stranger), Some(&its_key))] {
            let error = ping(files).await.unwrap_err();
            assert!(matches!(error, RedisError::ClientCertificate { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains("--redis-cert"), "{error}");
        }
        let error = ping(with(Some(&cert), Some(&its_key))).await.unwrap_err();
        assert!(matches!(error, RedisError::Url(_)), "{error:?}");
    }
}
