//! An order ID is admitted once in its life, however late a retry of it arrives.

use std::time::Duration;

use seckill_engine::{
    admission::AdmissionError, deployment::settings::Settings, orders::payment, recovery::repair,
};
use seckill_model::{Fence, Millis, OrderId, ShardId, UserId, VoucherId};
use seckill_redis::{Redis, scripts};
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Cut, Proxy, TestRedis},
    world::{Beside, Database, NODE, World, sale},
};

async fn close_all(world: &World) -> payment::Closed {
    let (now, stop) = (Millis::now(), CancellationToken::new());
    let fence = Fence { name: "close".into(), token: now.0 };
    let later = now.plus(3_600_000);
    payment::close_overdue(&mut world.servers(), later, now, &fence, &stop).await.unwrap()
}

/// The entries of the stream by their order ID.
fn entries(world: &World) -> Vec<String> {
    let (key, from, to) = (world.keys.home().orders(), "-", "+");
    let all: Vec<(String, Vec<String>)> = world.server.query(&["XRANGE", &key, from, to]);
    let id = |fields: &Vec<String>| {
        fields.iter().position(|it| it == "id").map(|at| fields[at + 1].clone()).unwrap()
    };
    all.iter().map(|(_, fields)| id(fields)).collect()
}

/// A sale, and a node that writes its orders.
async fn shop(change: impl FnOnce(&mut Settings)) -> (World, VoucherId) {
    let server = TestRedis::setup().tcp().start();
    let (mut world, _) = World::shaky(server, Database::Sqlite, 1, 7, change).await;
    world.start_node();
    let voucher = world.create(sale(10)).await;
    (world, voucher)
}

/// Waits until that node and the one that is late admit buyers.
async fn both_admit(world: &World) {
    let key = world.keys.home().reconciled();
    world
        .until("both nodes admit", async || {
            [NODE, "node-late"].iter().all(|it| world.server.query::<bool>(&["HEXISTS", &key, it]))
        })
        .await;
}

/// The reply to an admission is lost for longer than the time to pay: the order is written, closed and returned before
/// the node asks again with the same ID.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_returned_before_its_reply_came_is_not_admitted_again() {
    let (world, voucher) = shop(|_| {}).await;
    let port = world.server.port();
    let proxy = Proxy::before(port).await;
    let away = Redis::from_url(&proxy.url(&format!("redis://127.0.0.1:{port}/"), port)).unwrap();
    let beside = Beside::at(away, &world.url, 1, |_| {}).await;
    let node = beside.start("node-late", "late-1");
    // Only its consumer is silent: the other node writes the orders.
    both_admit(&world).await;
    let admission = node.operator().admission.clone().unwrap();
    let ask = async |user| admission.request(voucher, UserId(user)).answer().await.outcome;
    // The node knows the sale.
    assert!(ask(1).await.is_ok());
    world.settled().await;
    assert_eq!(close_all(&world).await.given_back, 1);
    proxy.mute();
    let (outcome, ()) = tokio::join!(ask(2), async {
        world.until("the order is admitted", async || entries(&world).len() == 2).await;
        world
            .until("it is written and closed", async || {
                // It may have been delivered to the node that is away.
                let scope = seckill_engine::commands::Scope::All(seckill_model::Filter::default());
                let _ = world.try_replay(scope).await;
                close_all(&world).await;
                world.store.ledger(ShardId::only(voucher)).await.unwrap().closed == 2
            })
            .await;
        world.until("its piece is returned", async || world.buyers(voucher).is_empty()).await;
        proxy.unmute();
    });
    assert_eq!(outcome, Err(AdmissionError::TooLate));
    let ids = entries(&world);
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(world.buyers(voucher).is_empty());
    assert_eq!(world.server.query::<u64>(&["GET", &world.keys.stock(ShardId::only(voucher))]), 10);
    world.settled_and_balanced().await;
    // The buyer may buy again, with an order of its own.
    let again = ask(2).await.unwrap().order().unwrap();
    assert!(!ids.contains(&again.to_string()));
    world.settled_and_balanced().await;
    node.stop().await;
}

/// The reply to an admission comes later than the order may be paid: it is closed and returned by then, and the buyer is
/// not answered with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_comes_after_the_time_to_pay_is_not_passed_on() {
    let (world, voucher) = shop(|it| it.jobs.unpaid_ms = 1_000).await;
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let node = world.node_through(&proxy.redis_url(), "node-late");
    both_admit(&world).await;
    let admission = node.operator().admission.clone().unwrap();
    let ask = async |user| admission.request(voucher, UserId(user)).answer().await.outcome;
    assert!(ask(1).await.is_ok());
    world.settled().await;
    proxy.cut_at_text(scripts::ADMIT.get_hash(), Cut::Late(Duration::from_secs(3)));
    let (outcome, ()) = tokio::join!(ask(2), async {
        world.until("the order is admitted", async || entries(&world).len() == 2).await;
        world.settled().await;
        assert_eq!(close_all(&world).await.given_back, 2);
    });
    assert_eq!(outcome, Err(AdmissionError::TooLate));
    assert_eq!(entries(&world).len(), 2);
    world.settled_and_balanced().await;
    node.stop().await;
}

/// Calls the admission script as a node does, for one buyer.
async fn propose(
    world: &World,
    voucher: VoucherId,
    user: u64,
    id: OrderId,
    until: Millis,
) -> String {
    let (of, keys) = (world.keys.partition_of(ShardId::only(voucher)), &world.keys);
    let mut conn = world.redis.connection();
    let run = conn.run_id(&of.orders()).await.unwrap();
    let version = world.store.sale(voucher).await.unwrap().version;
    let mut call = scripts::ADMIT.prepare_invoke();
    call.key(&keys.sale_keys(ShardId::only(voucher)));
    call.key(of.orders())
        .key(keys.tally(ShardId::only(voucher)))
        .key(of.reconciled())
        .key(of.watermark());
    call.key(of.returned());
    call.arg(of.group()).arg(voucher.0).arg(NODE).arg(run).arg(version).arg(0).arg(until.0);
    call.arg(user).arg(id.get());
    let answers: Vec<redis::Value> = conn.invoke(&call).await.unwrap();
    match &answers[..] {
        [redis::Value::Int(code)] => code.to_string(),
        [redis::Value::BulkString(text)] => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// A call that a suspended process, a proxy or the network delivers late.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_call_admits_nobody_and_still_answers_those_who_hold_the_order() {
    let (world, voucher) = World::with_sale(10).await;
    world.admits().await;
    let id = |number| OrderId::new(1_795_000_000, number).unwrap();
    let mut conn = world.redis.connection();
    let now = conn.now().await.unwrap();
    assert_eq!(propose(&world, voucher, 1, id(1), now.plus(60_000)).await, "-1");
    assert_eq!(propose(&world, voucher, 2, id(2), now.plus(-1)).await, "3", "too late");
    assert_eq!(propose(&world, voucher, 1, id(1), now.plus(-1)).await, id(1).to_string());
    world.settled().await;
    assert_eq!(close_all(&world).await.given_back, 1);
    for until in [now.plus(60_000), now.plus(-1)] {
        assert_eq!(propose(&world, voucher, 1, id(1), until).await, "3", "returned");
    }
    world.settled_and_balanced().await;
    // A key of another program holds no returns: the next return renames it, and is remembered.
    let returned = world.keys.home().returned();
    world.server.query::<()>(&["SET", &returned, "of another program"]);
    assert_eq!(propose(&world, voucher, 3, id(3), now.plus(60_000)).await, "-1");
    world.settled().await;
    assert_eq!(close_all(&world).await.given_back, 1);
    assert_eq!(propose(&world, voucher, 3, id(3), now.plus(60_000)).await, "3");
    world.settled_and_balanced().await;
}

/// What Redis remembered of returns is lost with its other keys, and restored from SQL before it admits again.
#[tokio::test(flavor = "multi_thread")]
async fn returns_are_remembered_after_redis_lost_them() {
    let (world, voucher) = World::with_sale(10).await;
    world.admits().await;
    let id = OrderId::new(1_795_000_000, 1).unwrap();
    let until = world.redis.connection().now().await.unwrap().plus(60_000);
    assert_eq!(propose(&world, voucher, 1, id, until).await, "-1");
    world.settled().await;
    assert_eq!(close_all(&world).await.given_back, 1);
    world.server.query::<()>(&["FLUSHALL"]);
    let loaded = world.keys.sale(ShardId::only(voucher));
    world
        .until("the sale is back", async || {
            world.server.query::<bool>(&["HEXISTS", &world.keys.home().reconciled(), NODE])
                && !world.server.query::<bool>(&["HEXISTS", &loaded, "restoring"])
                && world.server.query::<bool>(&["EXISTS", &loaded])
        })
        .await;
    assert_eq!(propose(&world, voucher, 1, id, until).await, "3");
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    assert!(plan.is_empty(), "{plan:?}");
    tokio::time::timeout(Duration::from_secs(30), world.settled_and_balanced()).await.unwrap();
}
