//! A fault of one sale stays one: the others are read, reconciled, sold and archived.

use std::{collections::BTreeSet, time::Duration};

use seckill_engine::{commands::Command, jobs::retention, ledger, telemetry::snapshot::AlarmKind};
use seckill_model::{ShardId, VoucherId, ledger::Finding};
use seckill_redis::scripts;
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Cut, Proxy},
    world::{NODE, World, newest, sale},
};

/// Every change of the row of this sale is rejected.
async fn freeze(world: &World, sale: VoucherId) {
    let statement = format!(
        "CREATE TRIGGER frozen BEFORE UPDATE ON tb_seckill_voucher WHEN NEW.voucher_id = {sale} \
         BEGIN SELECT RAISE(ABORT, 'frozen'); END"
    );
    world.run_sql(&statement).await;
}

/// Two sales, the older one first, with ten orders each.
async fn two_sales() -> (World, VoucherId, VoucherId) {
    let world = World::start().await;
    let (older, newer) = (world.create(sale(100)).await, world.create(sale(100)).await);
    for sale in [older, newer] {
        world.admit(sale, 1..=10).await;
    }
    world.settled_and_balanced().await;
    (world, older, newer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_read_hides_no_other_sale() {
    let (mut world, good, bad) = two_sales().await;
    let set = |state: &str| {
        format!(
            "PRAGMA ignore_check_constraints = ON; \
             UPDATE tb_seckill_voucher SET state = '{state}' WHERE voucher_id = {bad}"
        )
    };
    world.run_sql(&set("xx")).await;
    let sales = world.store.readable_sales().await.unwrap();
    let seen = |sales: &[seckill_model::SaleShard]| {
        sales.iter().map(|it| it.voucher_id).collect::<Vec<_>>()
    };
    assert_eq!(seen(&sales.shards), [good]);
    assert!(sales.is_unreadable(bad) && sales.unreadable.len() == 1, "{sales:?}");
    let named = world.store.sales().await.unwrap_err().to_string();
    assert!(named.contains(&format!("#{bad}")) && named.contains("state"), "{named}");

    // A new Redis: the other one is reconciled and sells.
    world.server.query::<()>(&["FLUSHALL"]);
    world.restart_node().await;
    world.until("the other one sells", async || world.obtains(good, 11).await).await;
    world
        .until("the alarm names it", async || {
            let snapshot = std::sync::Arc::clone(&world.node().remote().snapshots.borrow());
            let is_it = |it: &AlarmKind| {
                matches!(it, AlarmKind::SaleUnreadable { sale, .. } if *sale == bad)
            };
            snapshot.alarms.iter().any(|it| is_it(&it.kind))
        })
        .await;
    world.settled().await;
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    let found: Vec<_> = audit.findings().collect();
    let [only] = &found[..] else { panic!("{found:?}") };
    assert_eq!(only.sale, Some(bad));
    assert!(matches!(&only.what, Finding::Unreadable(why) if why.contains("xx")), "{only:?}");
    assert_eq!(audit.sales.iter().map(|it| it.voucher_id).collect::<Vec<_>>(), [bad, good]);
    assert!(!world.obtains(bad, 20).await);
    world.execute(Command::EndSale(good)).await.unwrap();
    let stop = CancellationToken::new();
    let archived = retention::archive_ended(&mut world.servers(), 0, &stop).await.unwrap();
    assert_eq!(archived.sales, [good]);
    assert!(archived.left_out.reason().is_some_and(|it| it.to_string().contains(&bad.to_string())));

    world.run_sql(&set("running")).await;
    world.until("it is sold again", async || world.obtains(bad, 20).await).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_cannot_be_reconciled_closes_no_other() {
    // The newest sale is reconciled first.
    let (mut world, good, bad) = two_sales().await;
    world.stop_node().await;
    world.server.query::<()>(&["FLUSHALL"]);
    freeze(&world, bad).await;
    world.start_node();
    world.until("the other one sells", async || world.obtains(good, 11).await).await;
    let event = async || {
        let found = newest(&world.store, 50).await;
        found.iter().any(|it| {
            it.action == "sale unreconciled" && it.subject.to_string() == format!("#{bad}")
        })
    };
    world.until("it is an event", event).await;
    // It is closed: it lacks its buyers.
    assert!(!world.obtains(bad, 11).await);
    let restored = [world.keys.home().watermark(), "restored".to_owned()];
    assert!(!world.server.query::<bool>(&["HEXISTS", &restored[0], &restored[1]]), "{NODE}");
    world.run_sql("DROP TRIGGER frozen").await;
    world.until("it sells once it is reconciled", async || world.obtains(bad, 11).await).await;
    world.admits().await;
    world.settled_and_balanced().await;
    assert_eq!(world.buyers(bad).len(), 11);
    let ledger = world.store.ledger(ShardId::only(bad)).await.unwrap();
    assert_eq!((ledger.live, ledger.stock), (11, 89));
}

/// Redis goes away between two sales: the report names what was restored before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconciliation_that_is_interrupted_reports_each_sale() {
    let (mut world, older, newer) = two_sales().await;
    let proxy = Proxy::before_socket(world.server.socket()).await;
    world.stop_node().await;
    world.server.query::<()>(&["FLUSHALL"]);
    let [begin, end] = [&scripts::RECONCILE_BEGIN, &scripts::RECONCILE_END].map(|it| it.get_hash());
    // The end of the first sale, and the begin of the second.
    proxy.cut_at_texts([(end, Cut::Late(Duration::from_millis(1))), (begin, Cut::Before)]);
    let node = world.node_through(&proxy.redis_url(), NODE);
    let lost = async || {
        let found = newest(&world.store, 50).await;
        let found = found.into_iter().filter(|it| it.action == "redis reconciled");
        let (mut keys, mut restored) = (BTreeSet::new(), 0);
        for event in found {
            keys.extend(event.result.part::<Vec<String>>("/data_loss/keys").unwrap_or_default());
            restored += event.result.part::<u64>("/data_loss/restored").unwrap_or(0);
        }
        (keys, restored)
    };
    world
        .until("both sales are reconciled", async || {
            [older, newer].iter().all(|it| world.buyers(*it).len() == 10)
        })
        .await;
    assert_eq!(proxy.to_come(), 0, "it was interrupted");
    let all = [older, newer].map(|it| world.keys.buyers(ShardId::only(it)));
    world
        .until("the event names both sales", async || {
            let (keys, restored): (BTreeSet<String>, u64) = lost().await;
            all.iter().all(|key| keys.contains(key)) && restored == 20
        })
        .await;
    node.stop().await;
    world.start_node();
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_cannot_be_archived_stops_no_other() {
    // The oldest one is archived first.
    let (world, bad, good) = two_sales().await;
    for sale in [good, bad] {
        world.execute(Command::EndSale(sale)).await.unwrap();
    }
    freeze(&world, bad).await;
    let stop = CancellationToken::new();
    let archive = async || retention::archive_ended(&mut world.servers(), 0, &stop).await.unwrap();
    let done = archive().await;
    assert_eq!(done.sales, [good]);
    let why = done.left_out.reason().unwrap().to_string();
    assert!(why.contains(&format!("#{bad}")) && why.contains("frozen"), "{why}");
    world.run_sql("DROP TRIGGER frozen").await;
    let done = archive().await;
    assert_eq!((done.sales, done.left_out.reason()), (vec![bad], None));
}
