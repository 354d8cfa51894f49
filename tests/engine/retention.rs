//! Retention: what is removed from Redis, and what never is.

use crate::world::{World, sale};
use redis::cmd;
use seckill_engine::{
    commands::{Command, LoadTest},
    deployment::settings::Settings,
    jobs::retention::{self, Trimmed},
    ledger,
    orders::{self, Location},
};
use seckill_model::{NewSale, Outcome, SaleState, ShardId};
use seckill_redis::{dead_letters, stream};
use tokio_util::sync::CancellationToken;

async fn trim(world: &World, change: impl FnOnce(&mut Settings)) -> Trimmed {
    let mut settings = Settings::default();
    change(&mut settings);
    let of = world.keys.home();
    let stop = CancellationToken::new();
    retention::trim(&mut world.servers(), &of, &settings, &stop).await.unwrap()
}

fn length(world: &World, key: &str) -> u64 {
    world.server.query(&["XLEN", key])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_trimmed_by_number_but_never_beyond_what_a_group_needs() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let orders = world.keys.home().orders();
    let voucher = world.create(sale(5_000)).await;
    world.rush(LoadTest::new(voucher, 1_000)).await;
    // 300 entries stay pending at a dead node, and 1,000 follow.
    assert_eq!(world.stick(voucher, 1_300, 300).await, 300);
    world.rush(LoadTest::new(voucher, 2_300)).await;
    world.until("all but the stuck ones are written", async || world.pending().await == 300).await;
    assert_eq!(length(&world, &orders), 2_300);
    let kept = trim(&world, |_| {}).await;
    assert_eq!((kept.entries, kept.held), (0, None), "young and few: nothing goes");
    let done = trim(&world, |settings| settings.jobs.keep_stream_entries = 500).await;
    // Redis trims whole macro nodes of some hundred entries.
    assert!((800..=1_000).contains(&done.entries), "{done:?}");
    assert!(done.held.is_some(), "a group needs more than that: {done:?}");
    world.settled_by_replay().await;
    let done = trim(&world, |settings| settings.jobs.keep_stream_entries = 500).await;
    assert!(done.held.is_none() && done.entries > 0, "{done:?}");
    assert!((500..700).contains(&length(&world, &orders)), "{}", length(&world, &orders));
    let done = trim(&world, |settings| settings.jobs.keep_stream_ms = 0).await;
    assert!(done.entries > 0 && length(&world, &orders) < 200, "{done:?}");
    assert_eq!(done.held, None, "the group has acknowledged all");
    world.server.query::<u64>(&["XTRIM", &orders, "MAXLEN", "0"]);
    let done = trim(&world, |settings| settings.jobs.keep_stream_ms = 0).await;
    assert_eq!((done.entries, done.held), (0, None), "the stream is empty");
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_trimmed_unless_a_buyer_waits() {
    let (world, voucher) = World::with_sale(10).await;
    let dead = world.keys.home().dead();
    // No buyer waits for these: they contain no valid order.
    for _ in 0..20 {
        world.add_entry(&["userId", "x", "voucherId", "1", "id", "9"]).await;
    }
    // The entry of an admitted buyer becomes a dead letter: the only trace of the order.
    world.hold().await;
    let Outcome::Admitted { order } = world.ask(voucher, 7).await else { panic!("not admitted") };
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let from = stream::ReadFrom::New(std::time::Duration::from_millis(100));
    let taken = stream::read_group(&mut conn, &of, "x/1", from, 100).await.unwrap();
    for entry in &taken {
        dead_letters::bury_all(&mut conn, &of, &[(entry.entry, "for a test".into())])
            .await
            .unwrap();
    }
    world.release().await;
    world.until("the letters are there", async || length(&world, &dead) == 21).await;
    assert_eq!(trim(&world, |_| {}).await.letters, 0, "young and few");
    let done = trim(&world, |settings| settings.jobs.keep_dead_entries = 5).await;
    assert_eq!(done.letters, 16, "{done:?}");
    let done = trim(&world, |settings| settings.jobs.keep_dead_entries = 0).await;
    assert_eq!(done.letters, 4, "one has to stay: {done:?}");
    let found = orders::find(&mut world.servers(), order).await.unwrap();
    assert!(
        matches!(&found, Location::Dead { reason, .. } if &**reason == "for a test"),
        "{found:?}"
    );
    world.stranded().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_consumers_are_removed_once_they_are_empty() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(100)).await;
    world.stick(voucher, 50, 50).await;
    let consumers = || -> Vec<String> {
        let orders = world.keys.home().orders();
        let rows: Vec<Vec<redis::Value>> =
            world.server.query(&["XINFO", "CONSUMERS", &orders, "g1"]);
        let mut names: Vec<String> =
            rows.iter().map(|row| redis::from_redis_value(row[1].clone()).unwrap()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(consumers(), ["node-b/1", "node-t/1"]);
    let at_once = |settings: &mut Settings| settings.jobs.keep_consumers_ms = 0;
    assert_eq!(trim(&world, at_once).await.consumers, [""; 0], "it holds entries");
    world.settled_by_replay().await;
    assert_eq!(trim(&world, |_| {}).await.consumers, [""; 0], "not idle for an hour");
    world
        .until("the dead go", async || {
            trim(&world, |settings| settings.jobs.keep_consumers_ms = 1).await;
            !consumers().contains(&"node-b/1".to_owned())
        })
        .await;
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_sale_is_removed_from_redis_and_stays_readable() {
    let world = World::start().await;
    let (voucher, other) = (world.create(sale(100)).await, world.create(sale(5)).await);
    world.rush(LoadTest::new(voucher, 60)).await;
    world.settled().await;
    let stop = CancellationToken::new();
    let archive =
        async || retention::archive_ended(&mut world.servers(), 0, &stop).await.unwrap().sales;
    assert_eq!(archive().await, [], "nothing is over");
    world.execute(Command::EndSale(voucher)).await.unwrap();
    // In-flight orders have to arrive first.
    let live = world.store.live_orders(ShardId::only(voucher), None, 1).await.unwrap()[0];
    world
        .add_entry(&[
            "userId",
            &live.user_id.to_string(),
            "voucherId",
            &voucher.to_string(),
            "id",
            &live.id.to_string(),
        ])
        .await;
    world.settled().await;
    assert_eq!(archive().await, [voucher]);
    assert_eq!(world.store.sale(voucher).await.unwrap().state, SaleState::Archived);
    for key in [
        world.keys.sale(ShardId::only(voucher)),
        world.keys.stock(ShardId::only(voucher)),
        world.keys.buyers(ShardId::only(voucher)),
        world.keys.tally(ShardId::only(voucher)),
    ] {
        assert_eq!(world.server.query::<u64>(&["EXISTS", &key]), 0, "{key}");
    }
    assert_eq!(world.ask(voucher, 1).await, Outcome::Ended);
    let mut conn = world.redis.connection();
    let found = orders::find(&mut world.servers(), live.id).await.unwrap();
    assert!(matches!(found, Location::Persisted { .. }), "{found:?}");
    let audit = ledger::audit(&mut world.servers(), Some(voucher)).await.unwrap();
    assert!(audit.balanced && audit.sales[0].persisted == 60, "{audit:?}");
    world.balanced().await;
    // A copy loaded by a node in between is removed by the next run.
    conn.query::<()>(cmd("SET").arg(world.keys.stock(ShardId::only(voucher))).arg(5))
        .await
        .unwrap();
    retention::archive_ended(&mut world.servers(), 0, &CancellationToken::new()).await.unwrap();
    assert_eq!(
        world.server.query::<u64>(&["EXISTS", &world.keys.stock(ShardId::only(voucher))]),
        0
    );
    assert_eq!(world.store.sales().await.unwrap().len(), 1);
    assert!(matches!(world.ask(other, 1).await, Outcome::Admitted { .. }));
}

/// Slots: a buyer may hold as many orders as the limit of the sale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_above_one_is_enforced() {
    let world = World::start().await;
    let voucher = world.create(NewSale { limit: 3, ..sale(100) }).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let Outcome::Admitted { order } = world.ask(voucher, 7).await else {
            panic!("not admitted")
        };
        ids.push(order);
    }
    let result = world.ask(voucher, 7).await;
    assert_eq!(result, Outcome::Duplicate { order: ids[2] });
    // A closed order frees its own slot only.
    world.settled_and_balanced().await;
    let report = world.rush(LoadTest { repeat: 1.0, ..LoadTest::new(voucher, 60) }).await;
    assert_eq!((report.admitted, report.persisted, report.errors), (97, 97, 0), "{report:?}");
    world.settled_and_balanced().await;
    let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.stock, ledger.doubled), (100, 0, 0));
    let mut held = world.store.live_orders(ShardId::only(voucher), None, 200).await.unwrap();
    held.retain(|order| order.user_id.0 == 7);
    assert_eq!(held.iter().map(|order| order.place).collect::<Vec<_>>(), [1, 2, 3]);
}
