//! A load test stopped by an operator: no further requests, and admitted buyers get their orders.

use crate::world::{World, newest};
use seckill_engine::commands::{Command, LoadTest, Reply};
use seckill_model::{Millis, NewSale};

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_load_test_settles_its_admitted_orders() {
    let world = World::start().await;
    let sale = |title| NewSale::checked(title, 5_000, None, None, Millis::now()).unwrap();
    let (voucher, other) = (world.create(sale("hot pot")).await, world.create(sale("tea")).await);
    // At a rate that would take minutes.
    let begin = |voucher, rate| {
        let (operator, stop) = (world.node().operator().clone(), world.node().stopping().clone());
        let plan = LoadTest { rate: Some(rate), ..LoadTest::new(voucher, 4_000) };
        tokio::spawn(async move { operator.execute(Command::LoadTest(plan), &stop).await })
    };
    let (slow, beside) = (begin(voucher, 10.0), begin(other, 4_000.0));
    world
        .until("a buyer is admitted", async || {
            let snapshot = world.node().remote().snapshots.borrow().clone();
            snapshot.sale(voucher).and_then(|sale| sale.admitted) > Some(0)
        })
        .await;
    // It advances with each request, not with each batch.
    world
        .until("its progress is seen", async || {
            let snapshot = world.node().remote().snapshots.borrow().clone();
            let of = snapshot.load_tests.iter().find(|rush| rush.voucher_id == voucher);
            of.is_some_and(|rush| (1..256).contains(&rush.sent))
        })
        .await;
    // A second operator of the same process.
    let stopped = world.execute(Command::StopLoadTest(voucher)).await.unwrap();
    assert_eq!(stopped, Reply::LoadTestStopped { voucher, tests: 1 });
    let Reply::LoadTestDone(report) = slow.await.unwrap().unwrap() else { panic!() };
    assert!(report.cut_short && report.attempts < 4_000, "{report:?}");
    assert!(report.settled && report.admitted > 0, "{report:?}");
    assert_eq!(report.persisted, report.admitted, "{report:?}");
    // A load test on another sale is not affected.
    let Reply::LoadTestDone(report) = beside.await.unwrap().unwrap() else { panic!() };
    assert!(!report.cut_short && report.persisted == 4_000, "{report:?}");
    let stopped = world.execute(Command::StopLoadTest(voucher)).await.unwrap();
    assert_eq!(stopped, Reply::LoadTestStopped { voucher, tests: 0 });
    world
        .until("no rush is shown", async || {
            world.node().remote().snapshots.borrow().load_tests.is_empty()
        })
        .await;
    let log = newest(&world.store, 10).await;
    assert!(log.iter().any(|line| line.action == "rush stop" && line.result.contains("stopped")));
    world.settled_and_balanced().await;
}
