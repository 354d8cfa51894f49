//! Claiming pending entries for another consumer, and removing consumers: on one partition and on several.

use crate::world::{NODE, World, newest, sale};
use seckill_engine::{
    EngineError,
    commands::{
        Command, Reply, Scope,
        group::{ClaimPlan, ClaimReport, ClaimScope, RemoveReport, claim, remove},
    },
};
use seckill_model::{EntryId, Reason, ShardId, filter::Filter, reason::reason};
use seckill_redis::stream;

const DEAD_MS: u64 = 5_000;

fn fault<T: std::fmt::Debug>(result: Result<T, EngineError>) -> Reason {
    match result {
        Err(EngineError::Rejected(why) | EngineError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn on_group(world: &World, subcommand: &str, more: &[&str]) {
    let (orders, group) = (world.keys.home().orders(), world.keys.home().group().to_owned());
    let args = [&["XGROUP", subcommand, &orders, &group], more].concat();
    let _: redis::Value = world.server.query(&args);
}

async fn claim_plan(
    world: &World,
    scope: ClaimScope,
    to: &str,
    force: bool,
) -> Result<ClaimPlan, EngineError> {
    claim::preview(&mut world.servers(), &scope, to, DEAD_MS, force).await
}

async fn claimed(world: &World, plan: ClaimPlan) -> Result<ClaimReport, EngineError> {
    match world.execute(Command::Claim(plan)).await? {
        Reply::Claimed(report) => Ok(report),
        other => panic!("{other:?}"),
    }
}

/// Pending entries: partition, consumer, delivery count.
async fn held(world: &World) -> Vec<(EntryId, String, u64)> {
    let (first, last) = (EntryId::MIN, EntryId::MAX);
    let mut conn = world.redis.connection();
    let all = stream::pending_of_all(&mut conn, &world.keys, first, last, 1_000).await.unwrap();
    all.into_iter().map(|row| (row.delivered.entry, row.consumer, row.deliveries)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_entries_are_processed() {
    let world = World::spread(3, |settings| settings.claim_idle_ms = 600_000).await;
    for _ in 0..3 {
        let voucher = world.create(sale(40)).await;
        assert_eq!(world.stick(voucher, 40, 30).await, 30);
    }
    assert_eq!(world.pending().await, 90);
    world.hold().await;
    // One of the three consumers of node-b by name; then some entries of another one.
    let from = ClaimScope::Holder("node-b/2".to_owned());
    let plan = claim_plan(&world, from, &format!("{NODE}/2"), false).await.unwrap();
    assert_eq!((plan.count(), plan.parts.len()), (30, 1));
    let report = claimed(&world, plan).await.unwrap();
    assert_eq!((report.claimed, report.gone, report.without_body), (30, 0, 0));
    let now = held(&world).await;
    let held: Vec<_> = now.iter().filter(|(_, holder, _)| holder.starts_with(NODE)).collect();
    assert_eq!(held.len(), 30);
    assert!(held.iter().all(|(id, _, times)| id.partition == 1 && *times == 1), "{held:?}");

    let mut some: Vec<EntryId> =
        now.iter().map(|row| row.0).filter(|id| id.partition != 1).step_by(2).collect();
    let wanted = some.len() as u64;
    some.push(held[0].0);
    let plan = claim_plan(&world, ClaimScope::Entries(some), NODE, false).await.unwrap();
    assert_eq!((plan.count(), plan.gone, plan.parts.len()), (wanted, 1, 2));
    assert_eq!(claimed(&world, plan).await.unwrap().claimed, wanted);
    let entries = newest(&world.store, 10).await;
    let mut ended = entries.iter().filter(|entry| entry.action == "stream claim");
    assert_eq!(
        ended.nth(1).unwrap().subject.to_string(),
        format!("30 entries of partition 1 from 'node-b/2' to '{NODE}/2'")
    );
    world.release().await;
    let left = 60 - wanted;
    world.until("what was given is written", async || world.pending().await == left).await;
    world.replay(Scope::All(Filter::default())).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_entries_still_held_are_claimed() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(40)).await;
    assert_eq!(world.stick(voucher, 40, 30).await, 30);
    assert_eq!(world.pending().await, 30);
    world.hold().await;
    let rows = held(&world).await;
    let all: Vec<EntryId> = rows.iter().map(|row| row.0).collect();
    let by_name = claim_plan(&world, ClaimScope::Entries(all), NODE, false).await.unwrap();
    let holder = ClaimScope::Holder("node-b/1".to_owned());
    let by_holder = claim_plan(&world, holder, NODE, false).await.unwrap();
    let (orders, group) = (world.keys.home().orders(), world.keys.home().group().to_owned());
    for (entry, ..) in rows.iter().take(5) {
        let id = entry.in_stream();
        let claim = ["XCLAIM", &orders, &group, "node-c/1", "0", &id, "JUSTID"];
        let _: redis::Value = world.server.query(&claim);
    }
    let _: u64 = world.server.query(&["XDEL", &orders, &rows[9].0.in_stream()]);
    let report = claimed(&world, by_name).await.unwrap();
    assert_eq!((report.claimed, report.gone, report.without_body), (24, 5, 1));
    let report = claimed(&world, by_holder).await.unwrap();
    assert_eq!(
        (report.claimed, report.gone, report.without_body),
        (0, 0, 1),
        "a body that is gone"
    );
    let with = |name: &str, rows: &[(EntryId, String, u64)]| {
        rows.iter().filter(|(_, holder, _)| holder == name).count()
    };
    let now = held(&world).await;
    assert_eq!((with("node-b/1", &now), with("node-c/1", &now)), (1, 5));
    world.release().await;
    world.until("what was given is written", async || world.pending().await == 5).await;
    world.settled_by_replay().await;
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_never_claimed_for_an_inactive_consumer() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(40)).await;
    assert_eq!(world.stick(voucher, 40, 30).await, 30);
    assert_eq!(world.pending().await, 30);
    let of_b = || ClaimScope::Holder("node-b/1".to_owned());
    on_group(&world, "CREATECONSUMER", &["node-c/1"]);
    on_group(&world, "CREATECONSUMER", &[&format!("{NODE}/replay")]);
    let unused = format!("{NODE}/replay");
    for idle in ["node-c/1", &unused] {
        let result = fault(claim_plan(&world, of_b(), idle, false).await);
        assert_eq!(result, reason!("group-idle", name = idle));
    }
    let result = fault(claim_plan(&world, of_b(), "node-x/1", false).await).to_string();
    assert!(
        result.contains(&format!("existing consumers: node-b/1, node-c/1, {NODE}/1")),
        "{result}"
    );
    let from = ClaimScope::Holder("unknown".to_owned());
    let result = fault(claim_plan(&world, from, NODE, false).await).to_string();
    assert!(result.contains("no consumer 'unknown'") && result.contains("node-b/1"), "{result}");
    let none = ClaimScope::Entries(vec![EntryId { millis: 7, ..EntryId::MIN }]);
    let result = fault(claim_plan(&world, none, NODE, false).await);
    assert_eq!(result, reason!("group-nothing-to-claim", to = NODE));
    // Forced, and from there to an active consumer.
    let plan = claim_plan(&world, of_b(), "node-c/1", true).await.unwrap();
    assert_eq!(claimed(&world, plan.clone()).await.unwrap().claimed, 30);
    on_group(&world, "DELCONSUMER", &["node-b/1"]);
    let from = ClaimScope::Holder("node-c/1".to_owned());
    let back = claim_plan(&world, from.clone(), NODE, false).await.unwrap();
    assert_eq!(claimed(&world, back).await.unwrap().claimed, 30);
    world.until("what was given is written", async || world.pending().await == 0).await;
    let empty = fault(claim_plan(&world, from, NODE, false).await);
    assert_eq!(empty, reason!("group-nothing-to-claim-from", from = "node-c/1", to = NODE));
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_removed_only_without_pending_entries() {
    let world = World::spread(2, |settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(40)).await;
    assert_eq!(world.stick(voucher, 40, 30).await, 30);
    assert_eq!(world.pending().await, 30);
    let of = world.keys.partition_of(ShardId::only(voucher)).number();
    let name = world.keys.partition(of).consumer("node-b");
    let remove = async |name: &str, partition| {
        let shown = remove::preview(&mut world.servers(), name, partition, DEAD_MS).await?;
        world.execute(Command::RemoveConsumer(shown)).await
    };
    let outcome = fault(remove(&name, None).await);
    let partition = of.to_string();
    assert_eq!(outcome, reason!("group-holds", name = &name, pending = 30_u64, partition));
    assert_eq!(world.pending().await, 30);
    let alive = world.keys.partition(of).consumer(NODE);
    assert_eq!(fault(remove(&alive, None).await), reason!("group-alive", name = &alive));
    let outcome = fault(remove("unknown", None).await).to_string();
    assert!(outcome.contains(&name) && outcome.contains(&alive), "{outcome}");
    let elsewhere = fault(remove(&name, Some(1 - of)).await);
    assert_eq!(elsewhere.id(), Some("group-no-consumer-in"), "{elsewhere}");
    let beyond = remove(&name, Some(2)).await.unwrap_err();
    let expected = reason!("group-no-partition", number = "2", last = "1");
    assert_eq!(beyond, EngineError::Rejected(expected));
    world.replay(Scope::All(Filter::default())).await;
    match remove(&name, None).await.unwrap() {
        Reply::ConsumerRemoved(report) => assert_eq!(report.partitions, [of]),
        other => panic!("{other:?}"),
    }
    let line = newest(&world.store, 1).await.remove(0);
    let outcome = (line.action.as_str(), line.subject.to_string(), line.result.to_string());
    let result = format!("consumer '{name}' removed from partition {of}");
    assert_eq!(outcome, ("stream remove-consumer", format!("'{name}' in partition {of}"), result));
    let again = fault(remove(&name, None).await);
    assert_eq!(again.id(), Some("group-no-consumer"), "{again}");
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_removal_reports_its_completed_partitions() {
    let mut world = World::spread(2, |_| {}).await;
    world.stop_node().await;
    let (group, name) = (world.keys.home().group().to_owned(), "gone/1");
    for number in 0..2 {
        let of = world.keys.partition(number);
        // The node may have created it before it stopped.
        stream::ensure_group(&mut world.redis.connection(), &of).await.unwrap();
        let orders = of.orders();
        let _: u64 = world.server.query(&["XGROUP", "CREATECONSUMER", &orders, &group, name]);
    }
    let shown = remove::preview(&mut world.servers(), name, None, 1).await.unwrap();
    assert_eq!(shown.partitions, [0, 1]);
    // The reply for one partition does not cover another.
    let only = RemoveReport { partitions: vec![0], ..shown.clone() };
    let done = remove::remove(&mut world.servers(), &only, 1).await.unwrap();
    assert_eq!(done.partitions, [0]);
    let there = |number: u16| {
        let orders = world.keys.partition(number).orders();
        let error: redis::Value = world.server.query(&["XINFO", "CONSUMERS", &orders, &group]);
        format!("{error:?}").contains(name)
    };
    assert_eq!([there(0), there(1)], [false, true]);
    let home = world.keys.partition(0).orders();
    let _: u64 = world.server.query(&["XGROUP", "CREATECONSUMER", &home, &group, name]);
    let orders = world.keys.partition(1).orders();
    let id = "1-1";
    let _: String =
        world.server.query(&["XADD", &orders, id, "userId", "1", "voucherId", "1", "id", "1"]);
    let _: redis::Value = world.server.query(&[
        "XREADGROUP",
        "GROUP",
        &group,
        name,
        "COUNT",
        "1",
        "STREAMS",
        &orders,
        ">",
    ]);
    let error = remove::remove(&mut world.servers(), &shown, 1).await.unwrap_err();
    let EngineError::BrokeOff { why, done } = error else { panic!("{error}") };
    let held = reason!("group-holds", name = &shown.consumer, pending = 1_u64, partition = "1");
    assert_eq!(fault::<()>(Err(*why)), held);
    let partitions = Reason::Joined(vec!["0".into()]);
    assert_eq!(done, reason!("done-removed", partitions));
}
