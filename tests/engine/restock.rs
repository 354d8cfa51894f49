//! Stock is added and removed while buyers order: admitted orders are kept.

use crate::world::{World, newest, sale};
use redis::cmd;
use seckill_engine::{
    EngineError,
    commands::{Command, LoadTest},
    ledger::sale_copy,
    vouchers::Vouchers,
};
use seckill_model::{Outcome, Sale, SaleState, VoucherId, reason::reason, sale::MAX_STOCK};
use seckill_redis::scripts;
use seckill_store::StoreError;
use sqlx::{Executor as _, SqliteConnection};

/// Version, initial stock and stock in Redis.
async fn in_redis(world: &World, voucher: VoucherId) -> (u64, u64, i64) {
    let mut conn = world.redis.connection();
    let mut read = cmd("HMGET");
    read.arg(world.keys.sale(voucher)).arg("version").arg("initial");
    let (version, initial) = conn.query(&read).await.unwrap();
    let stock = conn.query(cmd("GET").arg(world.keys.stock(voucher))).await.unwrap();
    (version, initial, stock)
}

async fn cut(world: &World, voucher: VoucherId, by: i64) -> Result<Sale, EngineError> {
    Vouchers { servers: &mut world.servers() }.restock(voucher, -by).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_reduction_keeps_stock_for_undelivered_orders() {
    let (world, voucher) = World::with_sale(10).await;
    world.hold().await;
    world.admit(voucher, 1..=6).await;
    let before = world.store.sale(voucher).await.unwrap();
    assert_eq!(before.stock, 10, "SQL knows of no buyer yet");
    let error = cut(&world, voucher, 5).await.unwrap_err();
    let short = reason!("error-short", sale = voucher, by = 5_u64, left = 4_u64);
    assert_eq!(error, EngineError::Failed(short));
    assert_eq!(in_redis(&world, voucher).await, (1, 10, 4));
    assert_eq!(world.store.sale(voucher).await.unwrap(), before);

    world.execute(Command::Restock { voucher, by: -4 }).await.unwrap();
    assert_eq!(in_redis(&world, voucher).await, (2, 6, 0));
    assert_eq!(world.store.sale(voucher).await.unwrap().initial, 6);
    assert_eq!(world.ask(voucher, 7).await, Outcome::SoldOut);
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.live_orders(voucher, None, 99).await.unwrap().len(), 6);
    world.balanced().await;

    world.execute(Command::Restock { voucher, by: 1 }).await.unwrap();
    assert!(matches!(world.ask(voucher, 7).await, Outcome::Admitted { .. }));
    let entries = newest(&world.store, 9).await;
    let error: Vec<_> =
        entries.iter().map(|entry| (entry.action.as_str(), &*entry.subject)).collect();
    let named = |by: &str| format!("#{voucher} by {by}");
    assert!(error.contains(&("sale cut", &named("4"))), "{error:?}");
    assert!(error.contains(&("sale restock", &named("1"))), "{error:?}");
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_stock_change_has_no_effect() {
    let (world, voucher) = World::with_sale(10).await;
    let before = (world.store.sale(voucher).await.unwrap(), in_redis(&world, voucher).await);
    for by in [0, MAX_STOCK as i64 - 9, MAX_STOCK as i64, i64::MAX, i64::MIN, -11] {
        assert!(world.execute(Command::Restock { voucher, by }).await.is_err(), "{by}");
    }
    // Redis could release all of them, but SQL keeps one: it is put back and sold.
    let error = cut(&world, voucher, 10).await.unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Rule(_))), "{error}");
    let now = (world.store.sale(voucher).await.unwrap(), in_redis(&world, voucher).await);
    assert_eq!(now, before);
    let report = world.rush(LoadTest::new(voucher, 30)).await;
    assert_eq!((report.admitted, report.persisted), (10, 10));
    world.balanced().await;

    let most = world.create(sale(MAX_STOCK)).await;
    assert!(world.execute(Command::Restock { voucher: most, by: 1 }).await.is_err());
    let mut drop = cmd("DEL");
    drop.arg(world.keys.sale(most)).arg(world.keys.stock(most));
    world.redis.connection().query::<u64>(&drop).await.unwrap();
    let error = cut(&world, most, 1).await.unwrap_err();
    assert!(matches!(error, EngineError::NotHeld(_)), "{error}");
    world.execute(Command::EndSale(voucher)).await.unwrap();
    let error = cut(&world, voucher, 1).await.unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Ended(_))), "{error}");
}

/// Holds SQLite's write lock while a reduction is done in Redis and not in SQL.
async fn half_way(
    world: &World,
    voucher: VoucherId,
    by: i64,
) -> (SqliteConnection, tokio::task::JoinHandle<Result<Sale, EngineError>>) {
    world.admits().await;
    let held = world.lock_database().await;
    let initial = in_redis(world, voucher).await.1;
    let mut servers = world.servers();
    let cutting =
        tokio::spawn(async move { Vouchers { servers: &mut servers }.restock(voucher, -by).await });
    world.until("Redis is cut", async || in_redis(world, voucher).await.1 < initial).await;
    (held, cutting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_reduction_yields_to_a_concurrent_change() {
    let (world, voucher) = World::with_sale(10).await;
    let (mut other, cutting) = half_way(&world, voucher, 4).await;
    assert_eq!(in_redis(&world, voucher).await, (1, 6, 6));
    other.execute("UPDATE tb_seckill_voucher SET state = 'paused', version = 2").await.unwrap();
    other.execute("COMMIT").await.unwrap();
    let error = cutting.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Changed(_))), "{error}");
    assert_eq!(in_redis(&world, voucher).await, (2, 10, 10));
    assert_eq!(world.ask(voucher, 1).await, Outcome::Paused);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_during_a_stock_reduction_does_not_sell_the_removed_pieces() {
    let (world, voucher) = World::with_sale(10).await;
    let old = world.store.sale(voucher).await.unwrap();
    let (mut other, cutting) = half_way(&world, voucher, 4).await;
    let mut servers = world.servers();
    // What a node does for each sale at its start.
    let starting = tokio::spawn(async move { sale_copy::sync(&mut servers, &old, "").await });
    let mut sold = 0;
    // Bounded: the reduction waits three seconds for SQL.
    for user in 1..=7 {
        sold += usize::from(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }));
    }
    assert_eq!(sold, 6, "of ten pieces four are on their way out");
    assert!(!starting.is_finished());
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(cutting.await.unwrap().unwrap().initial, 6);
    assert_eq!(
        starting.await.unwrap().unwrap(),
        sale_copy::Synced::Known,
        "an older copy never wins"
    );
    assert_eq!(in_redis(&world, voucher).await, (2, 6, 0));
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_timeout_leaves_the_sale_intact() {
    let (world, voucher) = World::with_sale(10).await;
    let (other, cutting) = half_way(&world, voucher, 4).await;
    let error = cutting.await.unwrap().unwrap_err();
    assert!(error.is_away(), "{error}");
    drop(other);
    assert_eq!(in_redis(&world, voucher).await, (1, 10, 10));
    assert_eq!(world.store.sale(voucher).await.unwrap().version, 1);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_stock_reduction_is_completed_by_the_next_start_or_reduction() {
    let (mut world, voucher) = World::with_sale(10).await;
    let die_half_way = async |world: &World, version: u64| {
        let mut call = scripts::CUT.prepare_invoke();
        call.key(world.keys.sale(voucher)).key(world.keys.stock(voucher));
        call.key(world.keys.buyers(voucher));
        call.arg(4).arg(version).arg(300);
        let result: (String, i64) = world.redis.connection().invoke(&call).await.unwrap();
        assert_eq!(result, ("cut".to_owned(), 6));
    };
    die_half_way(&world, 1).await;
    world.restart_node().await;
    world.until("the sale is whole", async || in_redis(&world, voucher).await == (1, 10, 10)).await;
    die_half_way(&world, 1).await;
    assert_eq!(cut(&world, voucher, 9).await.unwrap().initial, 1);
    assert_eq!(in_redis(&world, voucher).await, (2, 1, 1));
    assert_eq!(world.store.sale(voucher).await.unwrap().state, SaleState::Running);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_changes_under_load_oversell_nothing() {
    let (world, voucher) = World::with_sale(5_000).await;
    let rush = world.rush(LoadTest {
        rate: Some(10_000.0),
        repeat: 0.0,
        ..LoadTest::new(voucher, 15_000)
    });
    let steering = async {
        let (mut cuts, mut by) = (0, 0_i64);
        for step in 0..60_i64 {
            let change = if step % 4 == 3 { 25 } else { -(step * 7 % 50 + 1) };
            let (one, two) = tokio::join!(
                world.execute(Command::Restock { voucher, by: change }),
                cut(&world, voucher, 3),
            );
            by += if one.is_ok() { change } else { 0 };
            by -= if two.is_ok() { 3 } else { 0 };
            cuts += u32::from(one.is_ok() && change < 0) + u32::from(two.is_ok());
        }
        (cuts, by)
    };
    let (report, (cuts, by)) = tokio::join!(rush, steering);
    assert!(cuts > 10, "{cuts} cuts went through");
    world.settled().await;
    let sale = world.store.sale(voucher).await.unwrap();
    assert_eq!(sale.initial as i64, 5_000 + by);
    assert_eq!((report.errors, report.dead), (0, 0), "{report:?}");
    assert_eq!(report.persisted, sale.live_orders());
    world.balanced().await;
}
