//! The test support for clusters and sentinels works as other tests expect.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{TestCluster, TestSentinels};

const KEY: &str = "{p0}:k";

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[test]
fn a_cluster_fails_over_and_takes_its_server_back() {
    let mut cluster = TestCluster::setup().password("secret").start();
    assert!(cluster.url().starts_with("redis+cluster://:secret@127.0.0.1:"));
    let deaf = cluster.owner(KEY).unwrap() + 3;
    cluster.freeze(deaf);
    let held = cluster.node(deaf - 3).try_replicated(&["SET", KEY, "u"], 1);
    assert_eq!(held.unwrap(), 0, "a suspended replica confirms no write");
    cluster.thaw(deaf);
    cluster.write_everywhere(KEY, &["SET", KEY, "v"]);
    let old = cluster.kill_owner(KEY);
    let new = cluster.wait_for_failover(KEY, old);
    assert_eq!(new, old + 3, "its replica");
    assert_eq!(cluster.query::<String>(KEY, &["GET", KEY]), "v");
    cluster.restart(old);
    cluster.wait_until_whole();
    assert_eq!(cluster.owner(KEY), Some(new));
    let role: String = cluster.node(old).query(&["INFO", "replication"]);
    assert!(role.contains("role:slave"), "{role}");
}

#[test]
fn a_frozen_primary_is_replaced() {
    let mut cluster = TestCluster::start();
    let old = cluster.owner(KEY).unwrap();
    cluster.freeze(old);
    let new = cluster.wait_for_failover(KEY, old);
    cluster.thaw(old);
    cluster.wait_until_whole();
    assert_eq!(cluster.owner(KEY), Some(new));
}

#[test]
fn a_slot_migrates_with_its_keys() {
    let cluster = TestCluster::start();
    for i in 0..250 {
        let key = format!("{KEY}:{i}");
        cluster.query::<()>(KEY, &["SET", &key, "v"]);
    }
    let from = cluster.owner(KEY).unwrap();
    let to = (from + 1) % 3;
    cluster.move_slot(KEY, to);
    assert_eq!(cluster.owner(KEY), Some(to));
    assert_eq!(cluster.query::<String>(KEY, &["GET", &format!("{KEY}:249")]), "v");
    assert_eq!(cluster.node(from).query::<u32>(&["DBSIZE"]), 0);
}

#[test]
fn sentinels_make_another_server_the_primary() {
    for setup in
        [TestSentinels::setup(), TestSentinels::setup().password("secret").sentinel_password("own")]
    {
        let mut all = setup.start();
        all.write_everywhere(&["SET", KEY, "v"]);
        let old = all.kill_primary();
        let new = all.wait_for_failover(old);
        assert_eq!(all.query::<String>(&["GET", KEY]), "v");
        all.restart(old);
        // Under load another failover may have happened.
        assert!(new != old && all.primary() != old, "it comes back as a replica");
    }
}

#[test]
fn no_server_survives_a_test_that_panics() {
    let mut pids = Vec::new();
    let panics = AssertUnwindSafe(|| {
        let mut cluster = TestCluster::start();
        cluster.freeze(1);
        pids.extend((0..cluster.len()).map(|i| cluster.node(i).pid()));
        let all = TestSentinels::start();
        pids.extend((0..3).map(|i| all.node(i).pid()));
        panic!("as a test does");
    });
    assert!(catch_unwind(panics).is_err());
    assert_eq!(pids.len(), 9);
    assert!(!pids.into_iter().any(is_alive));
}
