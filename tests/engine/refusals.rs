//! Refusals that a node repeats without asking Redis: exact, and no longer than a bound after a change elsewhere.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{support::TestRedis, world::World};
use futures::future::join_all;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::cmd;
use seckill_engine::{
    commands::Command,
    deployment::servers::Servers,
    orders::{payment, vouchers::Vouchers},
    recovery::repair,
};
use seckill_model::{Fence, Millis, NewSale, OrderId, Outcome, SaleState, ShardId, VoucherId};
use tokio_util::sync::CancellationToken;

/// A request that is sent later than this after a change is not answered from before it.
pub(crate) const BOUND: Duration = Duration::from_millis(100);
/// Users without an order.
const STRANGERS: std::ops::Range<u64> = 1_000..1_064;

/// Closes every unpaid order, which returns its piece.
async fn close(servers: &mut Servers) {
    let stop = CancellationToken::new();
    let fence = Fence { name: "close".into(), token: 1 };
    let before = Millis::now().plus(1_000);
    payment::close_overdue(servers, before, Millis::now(), &fence, &stop).await.unwrap();
}

/// Sends one request of each stranger at once.
async fn flood(world: &World, voucher: VoucherId) -> Vec<Outcome> {
    join_all(STRANGERS.map(|user| world.ask(voucher, user))).await
}

/// Calls of scripts that Redis has counted.
pub(crate) fn calls(server: &TestRedis) -> u64 {
    let stats: String = server.query(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split_once("calls=").unwrap().1.split(',').next().unwrap().parse().unwrap()
}

/// Waits until requests are refused with `expected` and do not reach Redis; returns how many were sent.
async fn refused(world: &World, voucher: VoucherId, expected: Outcome) -> u64 {
    let mut sent = 0;
    world
        .until("the node refuses by itself", async || {
            let before = calls(&world.server);
            let mut answers = flood(world, voucher).await;
            for user in STRANGERS {
                answers.push(world.ask(voucher, user).await);
            }
            assert!(answers.iter().all(|it| *it == expected), "{answers:?}");
            sent += answers.len() as u64;
            calls(&world.server) - before < STRANGERS.end - STRANGERS.start
        })
        .await;
    sent
}

/// Asks until the answer is as expected: a request sent after the bound must get it.
async fn changes(world: &World, voucher: VoucherId, expected: impl Fn(Outcome) -> bool) {
    let changed = Instant::now();
    loop {
        let asked = Instant::now();
        let outcome = world.ask(voucher, STRANGERS.start).await;
        if expected(outcome) {
            return;
        }
        assert!(asked < changed + BOUND, "{outcome:?} after {:?}", asked - changed);
    }
}

async fn sold_out(buyers: u64) -> (World, VoucherId) {
    let (world, voucher) = World::with_sale(buyers).await;
    world.buy(voucher, buyers).await;
    refused(&world, voucher, Outcome::SoldOut).await;
    (world, voucher)
}

/// The order that Redis records for each buyer.
async fn keep_their_orders(world: &World, voucher: VoucherId) {
    for (user, order) in world.buyers(voucher) {
        let order: OrderId = order.parse().unwrap();
        let outcome = world.ask(voucher, user.parse().unwrap()).await;
        assert_eq!(outcome, Outcome::Duplicate { order }, "user {user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_buyers_learn_their_orders() {
    let (world, voucher) = World::with_sale(50).await;
    world.buy(voucher, 50).await;
    let mut sent = refused(&world, voucher, Outcome::SoldOut).await;
    assert_eq!(world.buyers(voucher).len(), 50);
    keep_their_orders(&world, voucher).await;
    for _ in 0..20 {
        sent += flood(&world, voucher).await.len() as u64;
    }
    let tally = world.keys.tally(ShardId::only(voucher));
    let counted = || world.server.query::<u64>(&["HGET", &tally, "sold_out"]);
    world.until("all are counted", async || counted() >= sent).await;
    assert_eq!(counted(), sent);
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_elsewhere_ends_refusals_within_the_bound() {
    let (world, voucher) = sold_out(50).await;
    let mut elsewhere = world.servers();
    let mut vouchers = Vouchers { servers: &mut elsewhere };

    vouchers.set_state(voucher, SaleState::Paused, None).await.unwrap();
    changes(&world, voucher, |it| it == Outcome::Paused).await;
    refused(&world, voucher, Outcome::Paused).await;
    vouchers.set_state(voucher, SaleState::Running, None).await.unwrap();
    changes(&world, voucher, |it| it == Outcome::SoldOut).await;
    refused(&world, voucher, Outcome::SoldOut).await;

    vouchers.restock(voucher, 1).await.unwrap();
    changes(&world, voucher, |it| matches!(it, Outcome::Admitted { .. })).await;
    keep_their_orders(&world, voucher).await;
    world.settled().await;

    // The stock of unpaid orders is returned; the strangers of the flood take it.
    close(&mut elsewhere).await;
    changes(&world, voucher, |it| matches!(it, Outcome::Admitted { .. })).await;
    world.settled_and_balanced().await;

    let mut vouchers = Vouchers { servers: &mut elsewhere };
    vouchers.set_state(voucher, SaleState::Ended, None).await.unwrap();
    refused(&world, voucher, Outcome::Ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sold_out_sale_that_is_ended_elsewhere_is_ended_within_the_bound() {
    let (world, voucher) = sold_out(50).await;
    let mut elsewhere = world.servers();
    let mut vouchers = Vouchers { servers: &mut elsewhere };
    vouchers.set_state(voucher, SaleState::Ended, None).await.unwrap();
    changes(&world, voucher, |it| it == Outcome::Ended).await;
    refused(&world, voucher, Outcome::Ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sold_out_sale_ends_on_time() {
    let world = World::start().await;
    let ends = Millis::now().plus(8_000);
    let sale = NewSale::checked("hot pot", 50, None, Some(ends), Millis::now()).unwrap();
    let voucher = world.create(sale).await;
    world.buy(voucher, 50).await;
    // The server of the test and the node have the same clock.
    let mut refused_before = 0;
    loop {
        let asked = Millis::now();
        let outcome = world.ask(voucher, STRANGERS.start).await;
        if outcome == Outcome::Ended {
            break;
        }
        assert_eq!(outcome, Outcome::SoldOut);
        assert!(asked < ends.plus(BOUND.as_millis() as i64), "sold out at {asked:?}");
        flood(&world, voucher).await;
        refused_before += 1;
    }
    assert!(refused_before > 0);
    refused(&world, voucher, Outcome::Ended).await;
    world.settled_and_balanced().await;
}

/// A cut takes the last pieces in Redis, and returns them if SQL refuses it.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_a_refused_cut_are_sold_within_the_bound() {
    let (world, voucher) = World::with_sale(60).await;
    world.buy(voucher, 50).await;
    world.settled().await;
    let mut lock = world.lock_database().await;
    let mut elsewhere = world.servers();
    let mut vouchers = Vouchers { servers: &mut elsewhere };
    let refusing = async {
        refused(&world, voucher, Outcome::SoldOut).await;
        // A change in between, from which the cut does not start.
        let change = "UPDATE tb_seckill_voucher SET version = version + 1";
        sqlx::query(change).execute(&mut lock).await.unwrap();
        sqlx::query("COMMIT").execute(&mut lock).await.unwrap();
    };
    let stock = world.keys.stock(ShardId::only(voucher));
    let left = || world.server.query::<u64>(&["GET", &stock]);
    let (cut, ()) = tokio::join!(vouchers.restock(voucher, -10), async {
        world.until("the cut has taken the pieces", async || left() == 0).await;
        refusing.await;
    });
    cut.unwrap_err();
    changes(&world, voucher, |it| matches!(it, Outcome::Admitted { .. })).await;
    world.settled_and_balanced().await;
}

/// A cut removes the last pieces; a repair returns those of closed orders, which Redis had lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_was_cut_and_repaired_sells_what_is_left() {
    let (world, voucher) = World::with_sale(60).await;
    world.buy(voucher, 50).await;
    world.settled().await;
    let mut elsewhere = world.servers();
    Vouchers { servers: &mut elsewhere }.restock(voucher, -10).await.unwrap();
    refused(&world, voucher, Outcome::SoldOut).await;

    let mut redis = world.server.connection();
    let keys = world.keys.sale_keys(ShardId::only(voucher)).map(|key| {
        let sold_out: Vec<u8> = cmd("DUMP").arg(&key).query(&mut redis).unwrap();
        (key, sold_out)
    });
    close(&mut elsewhere).await;
    world.store.forget_give_backs(Millis::now().plus(1_000)).await.unwrap();
    for (key, sold_out) in keys {
        cmd("RESTORE").arg(key).arg(0).arg(sold_out).arg("REPLACE").exec(&mut redis).unwrap();
    }
    refused(&world, voucher, Outcome::SoldOut).await;
    let plan = repair::plan(&mut elsewhere).await.unwrap();
    let repaired = repair::apply_all(&mut elsewhere, &plan, &CancellationToken::new()).await;
    assert_eq!(repaired.unwrap().given_back, 50);
    changes(&world, voucher, |it| matches!(it, Outcome::Admitted { .. })).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_the_node_itself_ends_them_at_once() {
    let (world, voucher) = sold_out(50).await;
    for user in 2_000..2_010 {
        refused(&world, voucher, Outcome::SoldOut).await;
        world.execute(Command::Restock { voucher, by: 1 }).await.unwrap();
        assert!(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }));
    }
    world.settled_and_balanced().await;
}

/// Without the answers of Redis, a node refuses no user.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_expire_while_redis_does_not_answer() {
    let (world, voucher) = sold_out(50).await;
    world.server.freeze();
    let frozen = Instant::now();
    let mut answers = 0;
    // A request that Redis has to decide gets no answer.
    while frozen.elapsed() < BOUND {
        let ask = tokio::time::timeout(BOUND, world.ask(voucher, STRANGERS.start));
        answers += u32::from(ask.await.is_ok());
    }
    let late = tokio::time::timeout(BOUND, world.ask(voucher, STRANGERS.start)).await;
    world.server.thaw();
    assert!(answers > 0 && late.is_err(), "{answers}, {late:?}");
    refused(&world, voucher, Outcome::SoldOut).await;
    world.settled_and_balanced().await;
}

/// Until SQL answers, an emptied Redis cannot be reconciled, and the node does not know whether a piece is left.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_expire_after_a_flushall() {
    let (world, voucher) = sold_out(50).await;
    world.settled().await;
    let lock = world.lock_database().await;
    let _: String = world.server.query(&["FLUSHALL"]);
    let flushed = Instant::now();
    let ask = || tokio::time::timeout(BOUND, world.ask(voucher, STRANGERS.start));
    while flushed.elapsed() < BOUND {
        let _ = ask().await;
    }
    let late = ask().await;
    drop(lock);
    assert!(late.is_err(), "{late:?}");
    refused(&world, voucher, Outcome::SoldOut).await;
    keep_their_orders(&world, voucher).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_of_redis_forget_no_buyer() {
    let (world, voucher) = sold_out(50).await;
    let buyers = world.buyers(voucher);
    for loss in [
        vec!["FLUSHALL".to_owned()],
        vec!["DEL".to_owned(), world.keys.buyers(ShardId::only(voucher))],
        vec!["HDEL".to_owned(), world.keys.buyers(ShardId::only(voucher)), "7".to_owned()],
        vec!["SET".to_owned(), world.keys.stock(ShardId::only(voucher)), "9".to_owned()],
    ] {
        let loss: Vec<&str> = loss.iter().map(String::as_str).collect();
        let _: redis::Value = world.server.query(&loss);
        let restored = async || world.buyers(voucher) == buyers;
        world.until("the buyers are restored", restored).await;
        refused(&world, voucher, Outcome::SoldOut).await;
        keep_their_orders(&world, voucher).await;
        world.settled_and_balanced().await;
    }
}

/// Restocks elsewhere at random moments while 64 tasks ask: each piece is sold once, and no user is refused later than the
/// bound after a restock while pieces of it are left.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_ask_while_a_sale_is_restocked_elsewhere_get_each_piece_once() {
    const RESTOCKS: usize = 20;
    let (world, voucher) = sold_out(50).await;
    // As in another process: a command of this one takes effect at once.
    let mut elsewhere = world.servers();
    let (next, stop) = (&AtomicU64::new(10_000), CancellationToken::new());
    let asking = (0..64).map(async |_| {
        let mut replies = Vec::new();
        while !stop.is_cancelled() {
            let asked = Instant::now();
            let outcome = world.ask(voucher, next.fetch_add(1, Relaxed)).await;
            replies.push((asked, Instant::now(), outcome));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        replies
    });
    let restocking = async {
        let mut random = StdRng::seed_from_u64(1);
        let (mut restocks, mut pieces) = (Vec::new(), 0);
        for _ in 0..RESTOCKS {
            // Also shorter than the interval at which refusals are checked.
            tokio::time::sleep(Duration::from_micros(random.random_range(0..300_000))).await;
            let (begun, by) = (Instant::now(), random.random_range(1..=20));
            Vouchers { servers: &mut elsewhere }.restock(voucher, by).await.unwrap();
            pieces += by as usize;
            restocks.push((begun, Instant::now(), pieces));
        }
        let sold = async || world.buyers(voucher).len() == 50 + pieces;
        world.until("the last pieces are sold", sold).await;
        refused(&world, voucher, Outcome::SoldOut).await;
        stop.cancel();
        restocks
    };
    let (replies, restocks) = tokio::join!(join_all(asking), restocking);
    let replies: Vec<_> = replies.into_iter().flatten().collect();
    let of = |is: fn(&Outcome) -> bool| replies.iter().filter(move |it| is(&it.2));
    let orders: HashSet<String> = of(|it| matches!(it, Outcome::Admitted { .. }))
        .map(|(.., outcome)| format!("{outcome:?}"))
        .collect();
    let (.., pieces) = *restocks.last().unwrap();
    assert_eq!(orders.len(), pieces, "each piece has an order of its own");
    let mut admitted: Vec<Instant> =
        of(|it| matches!(it, Outcome::Admitted { .. })).map(|it| it.0).collect();
    admitted.sort_unstable();
    let ends = restocks.iter().skip(1).map(|it| Some(it.0)).chain([None]);
    let mut checked = 0;
    for ((_, done, pieces), next) in restocks.iter().zip(ends) {
        for (asked, replied, _) in of(|it| *it == Outcome::SoldOut) {
            let is_after = *asked >= *done + BOUND && next.is_none_or(|next| *replied < next);
            if is_after {
                // Every piece was asked for before this reply.
                let sold = admitted.partition_point(|admitted| admitted < replied);
                assert!(sold >= *pieces, "refused {:?} after a restock", *asked - *done);
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_begins_on_time() {
    let world = World::start().await;
    let begins = Millis::now().plus(5_000);
    let voucher = world
        .create(NewSale::checked("hot pot", 10, Some(begins), None, Millis::now()).unwrap())
        .await;
    let early = Outcome::NotStarted { begins };
    refused(&world, voucher, early).await;
    loop {
        let asked = Millis::now();
        let outcome = world.ask(voucher, 1).await;
        if outcome != early {
            assert!(matches!(outcome, Outcome::Admitted { .. }), "{outcome:?}");
            break;
        }
        assert!(asked < begins, "refused at {asked:?}");
    }
    world.settled_and_balanced().await;
}
