//! A load test while its database is disconnected, killed, restarted or frozen: the node recovers, and each
//! admitted order is written once.

use crate::support::{Cut, MariaDb, Postgres, Proxy, Server};
use crate::world::World;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::cmd;
use seckill_engine::{
    commands::{Command, LoadReport, LoadTest, Reply},
    deployment::servers::Servers,
    orders::vouchers::Vouchers,
};
use seckill_model::{Millis, NewSale, Outcome, SaleState, ShardId, VoucherId};
use seckill_store::Settings;
use tokio::task::JoinHandle;

const STOCK: u64 = 4_000;

/// Short timeouts, so that errors appear quickly.
fn quick() -> Settings {
    Settings { acquire_ms: 1_000, statement_ms: 500, connect_ms: 1_000, ..Settings::default() }
}

/// Lasts some seconds, so that faults meet orders in flight.
async fn begin_rush(world: &World) -> (VoucherId, JoinHandle<LoadReport>) {
    let sale = NewSale::checked("hot pot", STOCK, None, None, Millis::now()).unwrap();
    let voucher = world.create(sale).await;
    let plan = LoadTest { rate: Some(2_500.0), ..LoadTest::new(voucher, STOCK + 500) };
    let operator = world.node().operator().clone();
    let stop = world.node().stopping().clone();
    let rush = tokio::spawn(async move {
        match operator.execute(Command::LoadTest(plan), &stop).await.unwrap() {
            Reply::LoadTestDone(report) => report,
            other => panic!("{other:?}"),
        }
    });
    // The command has read its sale by then.
    more_buyers(world, voucher, 1).await;
    (voucher, rush)
}

/// Waits until this many more buyers are admitted.
async fn more_buyers(world: &World, voucher: VoucherId, more: u64) {
    let held = || world.buyers(voucher).len() as u64;
    let enough = (held() + more).min(STOCK);
    world.until("more buyers", async || held() >= enough).await;
}

/// Asserts that SQL has exactly the orders that buyers received.
async fn each_order_is_written_once(
    world: &World,
    voucher: VoucherId,
    rush: JoinHandle<LoadReport>,
) {
    let report = rush.await.unwrap();
    assert_eq!((report.errors, report.dead), (0, 0), "{report:?}");
    assert_eq!((report.admitted, report.persisted), (STOCK, STOCK), "{report:?}");
    world.settled_and_balanced().await;
    let buyers = world.buyers(voucher);
    let rows =
        world.store.live_orders(ShardId::only(voucher), None, STOCK as u32 + 1).await.unwrap();
    assert_eq!((rows.len(), buyers.len()), (STOCK as usize, STOCK as usize));
    for row in rows {
        assert_eq!(buyers.get(&row.user_id.to_string()), Some(&row.id.to_string()), "{row:?}");
    }
    let dead: u64 = world.server.query(&["XLEN", &world.keys.home().dead()]);
    assert_eq!(dead, 0);
}

async fn connections_that_break_all_the_time(server: impl Server) {
    let name = server.create().await;
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.tcp_url(&name), server.port());
    let world = World::at(&url, &quick()).await;
    let (voucher, rush) = begin_rush(&world).await;
    let seed = rand::random();
    println!("the seed of the cuts is {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let cuts: Vec<_> = (0..30)
        .map(|_| (random.random_range(1..25), Cut::ALL[random.random_range(0..3)]))
        .collect();
    // A COMMIT reaches the server, and its reply is lost.
    proxy.cut_at_commit(Cut::After);
    world.until("a commit is cut", async || proxy.to_come() == 0).await;
    proxy.plan(cuts);
    world.until("each cut is made", async || proxy.to_come() == 0).await;
    each_order_is_written_once(&world, voucher, rush).await;
}

async fn a_server_that_is_killed_twice(mut server: impl Server) {
    let name = server.create().await;
    let world = World::at(&server.url(&name), &quick()).await;
    let (voucher, rush) = begin_rush(&world).await;
    for _ in 0..2 {
        more_buyers(&world, voucher, 700).await;
        server.kill();
        // Buyers are admitted as long as Redis has stock.
        more_buyers(&world, voucher, 300).await;
        server.restart();
    }
    each_order_is_written_once(&world, voucher, rush).await;
}

async fn a_server_that_is_frozen_for_longer_than_a_statement_may_take(server: impl Server) {
    let name = server.create().await;
    let world = World::at(&server.url(&name), &quick()).await;
    let (voucher, rush) = begin_rush(&world).await;
    more_buyers(&world, voucher, 700).await;
    server.freeze();
    // Twice, so that the batch in flight has timed out as well.
    for _ in 0..2 {
        let error = world.store.ping().await.unwrap_err();
        assert!(error.is_away(), "{error}");
    }
    server.thaw();
    each_order_is_written_once(&world, voucher, rush).await;
}

/// SQL has the change although its reply was lost; admission uses Redis, so Redis must get it.
async fn a_change_whose_commit_nobody_heard_of_reaches_redis(server: impl Server) {
    let name = server.create().await;
    let world = World::at(&server.url(&name), &quick()).await;
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.tcp_url(&name), server.port());
    let store = seckill_store::open(&url, &quick()).await.unwrap();
    let mut cut_off = Servers { store, ..world.servers() };
    let sale = NewSale::checked("hot pot", 10, None, None, Millis::now()).unwrap();
    let voucher = world.create(sale).await;
    let (mut user, mut pieces) = (0, 10);
    for cut in [Cut::After, Cut::Before] {
        for (state, refuses) in [(SaleState::Paused, true), (SaleState::Running, false)] {
            proxy.cut_at_commit(cut);
            let mut vouchers = Vouchers { servers: &mut cut_off };
            let done = vouchers.set_state(voucher, state, None).await;
            assert_eq!(proxy.heal(), [true]);
            assert_eq!(done.unwrap().state, state, "asked again");
            user += 1;
            assert_eq!(world.ask(voucher, user).await == Outcome::Paused, refuses, "{cut:?}");
        }
        proxy.cut_at_commit(cut);
        let error = Vouchers { servers: &mut cut_off }.restock(voucher, 5).await;
        assert_eq!(proxy.heal(), [true]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("check before you repeat it"), "{error}");
        pieces += if cut == Cut::After { 5 } else { 0 };
        let mut read = cmd("HGET");
        read.arg(world.keys.sale(ShardId::only(voucher))).arg("initial");
        assert_eq!(cut_off.conn.query::<u64>(&read).await.unwrap(), pieces, "{cut:?}");
    }
    world.settled_and_balanced().await;
}

crate::on_both_servers![
    a_change_whose_commit_nobody_heard_of_reaches_redis,
    connections_that_break_all_the_time,
    a_server_that_is_killed_twice,
    a_server_that_is_frozen_for_longer_than_a_statement_may_take,
];
