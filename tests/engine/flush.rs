//! Redis loses data, its group or its scripts under load: the alarm appears, and the ledger balances again.

use crate::world::{World, sale};
use redis::Value;
use seckill_engine::{
    EngineError,
    commands::{Command, LoadReport, LoadTest, Reply},
    ledger,
    recovery::repair,
    telemetry::snapshot::AlarmKind,
};
use seckill_model::{SaleAudit, ShardId, VoucherId, ledger::Cure};
use tokio::task::JoinHandle;

type Rushing = JoinHandle<Result<Reply, EngineError>>;

fn rushing(world: &World, plan: LoadTest) -> Rushing {
    let (operator, stop) = (world.node().operator().clone(), world.node().stopping().clone());
    tokio::spawn(async move { operator.execute(Command::LoadTest(plan), &stop).await })
}

async fn report(rush: Rushing) -> LoadReport {
    match rush.await.unwrap().unwrap() {
        Reply::LoadTestDone(report) => report,
        other => panic!("{other:?}"),
    }
}

async fn written(world: &World, voucher: VoucherId) -> u64 {
    world.store.ledger(ShardId::only(voucher)).await.unwrap().live
}

fn on_orders(world: &World, command: &[&str], more: &[&str]) {
    let orders = world.keys.home().orders();
    let args = [command, &[orders.as_str()], more].concat();
    let _: Value = world.server.query(&args);
}

async fn alarmed(world: &World, what: &str, is_it: impl Fn(&AlarmKind) -> bool) {
    let snapshots = world.node().remote().snapshots;
    world
        .until(what, async || snapshots.borrow().alarms.iter().any(|alarm| is_it(&alarm.kind)))
        .await;
}

async fn repaired(world: &World) -> u64 {
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    let cures: Vec<Cure> = plan.iter().flat_map(SaleAudit::cures).collect();
    assert_eq!(cures, [Cure::Enqueue], "{plan:?}");
    match world.execute(Command::Repair(plan)).await.unwrap() {
        Reply::Repaired(done) => done.enqueued,
        other => panic!("{other:?}"),
    }
}

async fn findings(world: &World) -> Vec<String> {
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    audit.sales.into_iter().flat_map(|sale| sale.findings).map(|it| it.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_flushed_in_a_rush() {
    flushed(World::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_flushed_in_a_rush_over_several_partitions() {
    flushed(World::spread(3, |_| {}).await).await;
}

async fn flushed(world: World) {
    let other = world.another_node("node-u");
    // In another partition, if there is one: no buyer requests it after the loss.
    let sold_out = world.create(sale(50)).await;
    world.buy(sold_out, 50).await;
    let voucher = world.create(sale(6_000)).await;
    let rush = rushing(&world, LoadTest { rate: Some(3_000.0), ..LoadTest::new(voucher, 7_000) });
    for part in [1_000, 3_000] {
        world.until("the rush is under way", async || written(&world, voucher).await > part).await;
        let _: () = world.server.query(&["FLUSHALL"]);
    }
    let report = report(rush).await;
    assert_eq!((report.errors, report.settled), (0, true), "{report:?}");
    assert_eq!((report.admitted, report.persisted, report.dead), (6_000, 6_000, 0), "{report:?}");
    alarmed(&world, "the loss is reported", |kind| {
        matches!(kind, AlarmKind::DataLoss { losses, .. } if losses.total.restored > 0 && losses.total.refused == 0)
    })
    .await;
    for (voucher, stock) in [(voucher, 6_000), (sold_out, 50)] {
        let left = async || {
            world.server.query::<Option<i64>>(&["GET", &world.keys.stock(ShardId::only(voucher))])
        };
        world.until("the sale is loaded again", async || left().await.is_some()).await;
        assert_eq!(left().await, Some(0), "none is sold twice, none is left");
        let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
        assert_eq!((ledger.live, ledger.stock, ledger.doubled), (stock, 0, 0));
    }
    world.settled_and_balanced().await;
    assert!(other.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_group_and_consumer_are_lost_in_a_rush() {
    let (world, voucher) = World::with_sale(4_000).await;
    let rush = rushing(&world, LoadTest { rate: Some(3_000.0), ..LoadTest::new(voucher, 4_000) });
    let (group, name) =
        (world.keys.home().group().to_owned(), world.keys.home().consumer(crate::world::NODE));
    for part in [500, 1_000, 1_500] {
        world.until("the rush is under way", async || written(&world, voucher).await > part).await;
        let _: () = world.server.query(&["SCRIPT", "FLUSH"]);
        on_orders(&world, &["XGROUP", "DESTROY"], &[&group]);
    }
    let report = report(rush).await;
    assert_eq!((report.errors, report.settled), (0, true), "{report:?}");
    // Its reader gets an error, and the next read recreates it.
    let orders = world.keys.home().orders();
    let delete = ["XGROUP", "DELCONSUMER", &orders, &group, &name];
    let deleted = async || world.server.try_query::<u64>(&delete).is_ok();
    world.until("the group is there again", deleted).await;
    world.buy(voucher, 4_000).await;
    world.settled_and_balanced().await;
    assert_eq!(written(&world, voucher).await, 4_000);
}

/// Entries removed from the pending list by another client have no owner; the ledger finds them.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_removed_with_its_entries_by_another_client() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(100)).await;
    assert_eq!(world.stick(voucher, 100, 30).await, 30);
    assert_eq!(written(&world, voucher).await, 70);
    let group = world.keys.home().group().to_owned();
    on_orders(&world, &["XGROUP", "DELCONSUMER"], &[&group, "node-b/1"]);
    alarmed(&world, "the loss is reported", |kind| {
        matches!(kind, AlarmKind::AuditFailed { finding, .. } if finding.to_string().contains("30 admitted orders"))
    })
    .await;
    assert!(findings(&world).await[0].starts_with("30 admitted orders are neither"));
    assert_eq!(repaired(&world).await, 30);
    world.settled_and_balanced().await;
    assert_eq!(written(&world, voucher).await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_and_undelivered_entries_are_trimmed() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(100)).await;
    assert_eq!(world.stick(voucher, 60, 20).await, 20);
    assert_eq!(written(&world, voucher).await, 40);
    // 20 entries are pending at a dead node, 40 are undelivered.
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 100) };
    world.execute(Command::LoadTest(plan)).await.unwrap();
    on_orders(&world, &["XTRIM"], &["MAXLEN", "0"]);
    world.release().await;
    // A node that finds missing bodies restores the orders from the buyers.
    world.until("all are written", async || written(&world, voucher).await == 100).await;
    world.settled_and_balanced().await;
}

/// An entry without a body has no owner, so only the ledger notices it.
#[tokio::test(flavor = "multi_thread")]
async fn undelivered_entries_are_trimmed() {
    let (world, voucher) = World::with_sale(100).await;
    world.buy(voucher, 40).await;
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 100) };
    world.execute(Command::LoadTest(plan)).await.unwrap();
    on_orders(&world, &["XTRIM"], &["MAXLEN", "0"]);
    world.release().await;
    alarmed(&world, "the loss is reported", |kind| matches!(kind, AlarmKind::AuditFailed { .. }))
        .await;
    assert_eq!(repaired(&world).await, 60);
    world.settled_and_balanced().await;
    assert_eq!(written(&world, voucher).await, 100);
}
