//! Stock is added and removed while buyers order: admitted orders are kept.

use std::time::Duration;

use crate::{
    support::{Cut, Proxy, TestRedis},
    world::{Database, World, newest, sale},
};
use futures::future::join_all;
use redis::cmd;
use seckill_engine::{
    EngineError,
    commands::{Command, LoadTest},
    ledger::sale_copy,
    orders::vouchers::Vouchers,
    recovery::repair,
    telemetry::snapshot::{Alarm, AlarmKind},
};
use seckill_model::{
    Outcome, Sale, SaleState, ShardId, VoucherId, ledger::Finding, reason::reason, sale::MAX_STOCK,
};
use seckill_redis::{Redis, scripts};
use seckill_store::{StoreError, fault_injection::Ill};
use sqlx::{Executor as _, SqliteConnection};

/// Version, initial stock and stock in Redis.
async fn in_redis(world: &World, voucher: VoucherId) -> (u64, u64, i64) {
    let mut conn = world.redis.connection();
    let mut read = cmd("HMGET");
    read.arg(world.keys.sale(ShardId::only(voucher))).arg("version").arg("initial");
    let (version, initial) = conn.query(&read).await.unwrap();
    let stock = conn.query(cmd("GET").arg(world.keys.stock(ShardId::only(voucher)))).await.unwrap();
    (version, initial, stock)
}

async fn cut(world: &World, voucher: VoucherId, by: i64) -> Result<u64, EngineError> {
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
    assert_eq!(world.store.live_orders(ShardId::only(voucher), None, 99).await.unwrap().len(), 6);
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

/// SQL has fewer pieces than Redis has buyers: the sale stays closed, says so, and gets the missing pieces.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversold_sale_gets_the_missing_pieces() {
    let (world, voucher) = World::with_sale(30).await;
    world.buy(voucher, 20).await;
    world.settled().await;
    let fewer = format!(
        "UPDATE tb_seckill_voucher SET initial_stock = 15, stock = 0, version = version + 1 \
         WHERE voucher_id = {voucher}"
    );
    sqlx::query(sqlx::AssertSqlSafe(fewer)).execute(&mut world.sql().await).await.unwrap();
    let of = ShardId::only(voucher);
    let _: u64 = world.server.query(&["DEL", &world.keys.stock(of)]);
    let snapshot = || world.node().remote().snapshots.borrow().clone();
    let is_oversold = || {
        let is_of =
            |it: &Alarm| matches!(&it.kind, AlarmKind::Oversold { sales } if *sales == [of]);
        snapshot().alarms.iter().any(is_of)
    };
    world.until("it is an alarm", async || is_oversold()).await;
    let says_reconciled = |it: &Alarm| matches!(it.kind, AlarmKind::Damaged { .. });
    world
        .until("no node reconciles it", async || !snapshot().alarms.iter().any(says_reconciled))
        .await;
    let error = world.execute(Command::Restock { voucher, by: -3 }).await.unwrap_err();
    assert_eq!(error, EngineError::Failed(reason!("error-oversold", sale = voucher)));
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    let missing: Vec<_> = plan[0].findings.iter().filter_map(Finding::missing_pieces).collect();
    assert_eq!(missing, [5]);
    world.execute(Command::Restock { voucher, by: 5 }).await.unwrap();
    world.until("the alarm ends", async || !is_oversold()).await;
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    world.execute(Command::Repair(plan)).await.unwrap();
    world.balanced().await;
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
    let pieces =
        |(sale, (_, initial, stock)): (Sale, _)| (sale.initial, sale.stock, initial, stock);
    assert_eq!(pieces(now), pieces(before));
    let report = world.rush(LoadTest::new(voucher, 30)).await;
    assert_eq!((report.admitted, report.persisted), (10, 10));
    world.balanced().await;

    let most = world.create(sale(MAX_STOCK)).await;
    assert!(world.execute(Command::Restock { voucher: most, by: 1 }).await.is_err());
    let mut drop = cmd("DEL");
    drop.arg(world.keys.sale(ShardId::only(most))).arg(world.keys.stock(ShardId::only(most)));
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
) -> (SqliteConnection, tokio::task::JoinHandle<Result<u64, EngineError>>) {
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
    let old = world.store.shard(ShardId::only(voucher)).await.unwrap();
    let (mut other, cutting) = half_way(&world, voucher, 4).await;
    // What a node does for each sale at its start.
    let synced = sale_copy::sync(&mut world.servers(), &old, "").await.unwrap();
    assert_eq!(synced, sale_copy::Synced::Cutting);
    let mut sold = 0;
    // Bounded: the reduction waits three seconds for SQL.
    for user in 1..=7 {
        sold += usize::from(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }));
    }
    assert_eq!(sold, 6, "of ten pieces four are on their way out");
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(cutting.await.unwrap().unwrap(), 6);
    let synced = sale_copy::sync(&mut world.servers(), &old, "").await.unwrap();
    assert_eq!(synced, sale_copy::Synced::Newer(2), "an older copy never wins");
    assert_eq!(in_redis(&world, voucher).await, (2, 6, 0));
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_timeout_leaves_the_sale_intact() {
    let (world, voucher) = World::with_sale(10).await;
    let (other, cutting) = half_way(&world, voucher, 4).await;
    let error = cutting.await.unwrap().unwrap_err();
    assert!(error.is_away(), "{error}");
    assert_eq!(in_redis(&world, voucher).await, (1, 6, 6), "SQL may still commit it");
    drop(other);
    world.until("a node undoes it", async || in_redis(&world, voucher).await.2 == 10).await;
    assert_eq!(in_redis(&world, voucher).await, (2, 10, 10));
    assert_eq!(world.store.sale(voucher).await.unwrap().version, 2);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_stock_reduction_is_completed_by_the_next_start_or_reduction() {
    let (mut world, voucher) = World::with_sale(10).await;
    let die_half_way = async |world: &World, version: u64| {
        let mut call = scripts::CUT.prepare_invoke();
        let shard = ShardId::only(voucher);
        call.key(&world.keys.sale_keys(shard)).key(world.keys.partition_of(shard).watermark());
        call.arg(4).arg(version).arg(300).arg("a process that dies").arg("");
        let result: (String, i64) = world.redis.connection().invoke(&call).await.unwrap();
        assert_eq!(result, ("cut".to_owned(), 6));
    };
    die_half_way(&world, 1).await;
    world.restart_node().await;
    world.until("the sale is whole", async || in_redis(&world, voucher).await == (2, 10, 10)).await;
    die_half_way(&world, 2).await;
    assert_eq!(cut(&world, voucher, 9).await.unwrap(), 1);
    assert_eq!(in_redis(&world, voucher).await, (4, 1, 1));
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

/// The servers over a connection that loses or delays what the proxy is told to.
async fn through(world: &World) -> (Proxy, Redis) {
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let redis = Redis::from_url(&proxy.redis_url()).unwrap();
    (proxy, redis)
}

/// As many as possible buy, one after the other; returns how many did.
async fn sell(world: &World, voucher: VoucherId, users: impl IntoIterator<Item = u64>) -> u64 {
    let mut sold = 0;
    for user in users {
        sold += u64::from(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }));
    }
    sold
}

/// Every admitted buyer has an order, and SQL has the pieces for all of them.
async fn none_is_oversold(world: &World, voucher: VoucherId, sold: u64) {
    world.settled().await;
    let sale = world.store.sale(voucher).await.unwrap();
    assert!(sold <= sale.initial, "{sold} of {} are sold", sale.initial);
    assert_eq!(sale.live_orders(), sold);
    world
        .until("Redis agrees with SQL", async || {
            let sale = world.store.sale(voucher).await.unwrap();
            in_redis(world, voucher).await == (sale.version, sale.initial, sale.stock as i64)
        })
        .await;
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_puts_no_pieces_of_another_process_back() {
    let (world, voucher) = World::with_sale(20).await;
    let (proxy, redis) = through(&world).await;
    let mut servers =
        seckill_engine::deployment::servers::Servers::new(&redis, &world.store, &world.keys);
    let (mut held, cutting) = half_way(&world, voucher, 10).await;
    proxy.cut_at_each(scripts::CUT.get_hash(), Cut::After);
    let other =
        tokio::spawn(async move { Vouchers { servers: &mut servers }.restock(voucher, -1).await });
    tokio::time::timeout(Duration::from_millis(1_500), other).await.ok();
    let sold = sell(&world, voucher, 1..=20).await;
    assert_eq!(sold, 10, "of twenty pieces ten are on their way out");
    held.execute("ROLLBACK").await.unwrap();
    assert_eq!(cutting.await.unwrap().unwrap(), 10);
    none_is_oversold(&world, voucher, sold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_comes_after_the_wait_of_others_sells_nothing_twice() {
    let (world, voucher) = World::with_sale(20).await;
    let (proxy, redis) = through(&world).await;
    let mut servers =
        seckill_engine::deployment::servers::Servers::new(&redis, &world.store, &world.keys);
    world.admits().await;
    // Otherwise the reply that it is not loaded comes late, and the reduction in time.
    let _: String = scripts::CUT.prepare_invoke().load(&mut world.server.connection()).unwrap();
    proxy.cut_at_text(scripts::CUT.get_hash(), Cut::Late(Duration::from_secs(4)));
    let began = std::time::Instant::now();
    let cutting =
        tokio::spawn(async move { Vouchers { servers: &mut servers }.restock(voucher, -10).await });
    world.until("Redis is cut", async || in_redis(&world, voucher).await.1 == 10).await;
    let mut held = world.lock_database().await;
    // Others wait for five seconds, and SQL is asked within three after the reply.
    tokio::time::sleep(Duration::from_millis(5_500).saturating_sub(began.elapsed())).await;
    let mut sold = sell(&world, voucher, 1..=20).await;
    held.execute("ROLLBACK").await.unwrap();
    let cut = cutting.await.unwrap();
    none_is_oversold(&world, voucher, sold).await;
    sold += sell(&world, voucher, 21..=40).await;
    assert_eq!(sold, if cut.is_ok() { 10 } else { 20 });
    none_is_oversold(&world, voucher, sold).await;
}

/// SQL is restored from an older copy.
async fn set_sql_back(world: &World, voucher: VoucherId) {
    let update = format!(
        "UPDATE tb_seckill_voucher SET version = 1, delivered_version = 1, initial_stock = 10, stock = 10 \
         WHERE voucher_id = {voucher}"
    );
    world.sql().await.execute(sqlx::AssertSqlSafe(update)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_redis_has_in_a_newer_version_than_sql_takes_no_change_before_its_repair() {
    let (world, voucher) = World::with_sale(10).await;
    for _ in 0..2 {
        world.execute(Command::Restock { voucher, by: 1 }).await.unwrap();
    }
    set_sql_back(&world, voucher).await;
    let before = world.store.sale(voucher).await.unwrap();
    for by in [2, -2] {
        let error = world.execute(Command::Restock { voucher, by }).await.unwrap_err();
        assert_eq!(error, EngineError::SqlBehind(voucher), "{by}");
    }
    assert_eq!(world.store.sale(voucher).await.unwrap(), before, "nothing is changed");
    assert_eq!(in_redis(&world, voucher).await, (3, 12, 12));

    let plan = repair::plan(&mut world.servers()).await.unwrap();
    world.execute(Command::Repair(plan)).await.unwrap();
    world.execute(Command::Restock { voucher, by: 2 }).await.unwrap();
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    let (version, initial, stock) = in_redis(&world, voucher).await;
    let sale = world.store.sale(voucher).await.unwrap();
    assert_eq!((version, initial, stock), (sale.version, 14, 14));
    assert_eq!((sale.initial, sale.state), (14, SaleState::Paused));
    world.balanced().await;
}

/// The outcomes of its commit and of the fence against that are unknown, as on a bad network.
#[tokio::test(flavor = "multi_thread")]
async fn a_reduction_with_an_unknown_outcome_keeps_no_pieces_out_of_sale() {
    let (mut world, illness) =
        World::shaky(TestRedis::start(), Database::Sqlite, 1, 7, |_| {}).await;
    world.start_node();
    let voucher = world.create(sale(100)).await;
    world.admits().await;
    illness.set(Ill::Unsure(0.8));
    for _ in 0..10 {
        let result = cut(&world, voucher, 1).await;
        let mut cutting = cmd("HEXISTS");
        cutting.arg(world.keys.sale(ShardId::only(voucher))).arg("cutting");
        let is_cutting: bool = world.redis.connection().query(&cutting).await.unwrap();
        assert!(!is_cutting, "{result:?}");
        let sale = world.store.sale(voucher).await.unwrap();
        assert_eq!(in_redis(&world, voucher).await.1, sale.initial, "{result:?}");
    }
    illness.set(Ill::Not);
    world.settled_and_balanced().await;
}

/// The reduction is in Redis and not in SQL when Redis loses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reduction_that_redis_has_lost_is_not_committed() {
    let world = World::on(Database::MariaDb, 1, |_| {}).await;
    let voucher = world.create(sale(20)).await;
    world.admits().await;
    let mut held = world.sql().await;
    held.execute("BEGIN").await.unwrap();
    held.execute("SELECT voucher_id FROM tb_seckill_voucher FOR UPDATE").await.unwrap();
    let mut servers = world.servers();
    let cutting =
        tokio::spawn(async move { Vouchers { servers: &mut servers }.restock(voucher, -10).await });
    world.until("Redis is cut", async || in_redis(&world, voucher).await.1 == 10).await;
    let _: () = world.server.query(&["FLUSHALL"]);
    let selling = join_all((1..=20).map(|user| world.ask(voucher, user)));
    let release = async {
        // Long enough for all of them, if the sale were open; the reduction waits three seconds for SQL.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        held.execute("ROLLBACK").await.unwrap();
    };
    let (answers, ()) = tokio::join!(selling, release);
    let sold = answers.iter().filter(|it| matches!(it, Outcome::Admitted { .. })).count() as u64;
    let cut = cutting.await.unwrap();
    assert_eq!(sold, if cut.is_ok() { 10 } else { 20 }, "{answers:?}");
    none_is_oversold(&world, voucher, sold).await;
}
