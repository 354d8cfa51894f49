//! The whole path on each database: a load test, paid and closed orders, and a passed audit.

use std::{sync::Arc, time::Instant};

use crate::world::{Database, World, sale};
use seckill_engine::{
    EngineError,
    commands::{Focus, LoadTest},
    orders::payment,
    telemetry::{
        OrdersView,
        snapshot::{Alarm, AlarmKind},
    },
};
use seckill_model::{
    EntryId, Fence, Message, Millis, OrderEntry, OrderId, Payment, ShardId, UserId,
};
use seckill_redis::stream;
use seckill_store::{StoreError, Written};
use sqlx::{Connection as _, SqliteConnection};
use tokio_util::sync::CancellationToken;

/// How many orders: `SECKILL_TEST_ORDERS`, or what a slow build writes in a few seconds.
fn orders() -> u64 {
    let result = std::env::var("SECKILL_TEST_ORDERS").ok().and_then(|it| it.parse().ok());
    result.unwrap_or(if cfg!(debug_assertions) { 20_000 } else { 100_000 })
}

/// A tenth of the buyers find the sale sold out, some order twice, some pay, and the rest is closed.
async fn rush(database: Database) {
    let count = orders();
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(count)).await;
    let started = Instant::now();
    let report = world.rush(LoadTest::new(voucher, count + count / 10)).await;
    let took = started.elapsed().as_secs_f64();
    assert_eq!((report.admitted, report.persisted, report.errors), (count, count, 0));
    println!("{database:?}: {count} orders admitted and written in {took:.1} s");
    world.settled_and_balanced().await;

    let live = world.store.live_orders(ShardId::only(voucher), None, 100).await.unwrap();
    let some: Vec<OrderId> = live.iter().map(|it| it.id).collect();
    let paid = world.store.pay(&some, Millis::now()).await.unwrap();
    assert_eq!(paid, [Payment::Paid; 100]);
    let stop = CancellationToken::new();
    let fence = Fence { name: "close".into(), token: 1 };
    let (now, later) = (Millis::now(), Millis::now().plus(60_000));
    let closed =
        payment::close_overdue(&mut world.servers(), later, now, &fence, &stop).await.unwrap();
    assert_eq!((closed.orders, closed.given_back), (count - 100, count - 100));
    world.balanced().await;
    let again = world.buy(voucher, count).await;
    assert_eq!(again.admitted, count - 100, "each piece that went back");
    assert!(again.duplicate <= 100 && again.errors == 0, "{again:?}");
    world.settled_and_balanced().await;
}

/// The time of the store alone, in batches as the consumer writes them.
async fn batches(database: Database) {
    let count = orders();
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(count)).await;
    let entry = |number: u64| {
        // Buyers arrive in random order.
        let user = UserId(number.wrapping_mul(2_654_435_761) % 1_000_000_007);
        OrderEntry::new(OrderId::new(1_795_000_000, number).unwrap(), user, voucher)
    };
    let started = Instant::now();
    for from in (0..count).step_by(1_000) {
        let batch: Vec<_> = (from..(from + 1_000).min(count)).map(entry).collect();
        let written = world.store.write_orders(&batch, Millis::now()).await.unwrap();
        assert!(written.iter().all(|it| *it == Written::New));
    }
    let took = started.elapsed().as_secs_f64();
    println!("{database:?}: {:.0} rows/s in batches of 1,000", count as f64 / took);
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, count);
}

/// A database that refuses every write causes no dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_temporarily_missing_table_makes_no_dead_letter() {
    let (world, voucher) = World::with_sale(200).await;
    let url = format!("sqlite:{}", world.database().display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    let mut run = async |sql: &'static str| {
        sqlx::query(sql).execute(&mut other).await.unwrap();
    };
    world.admits().await;
    run("ALTER TABLE tb_voucher_order RENAME TO tb_taken_away").await;
    world.rush(LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 200) }).await;
    // The first batch contains the orders admitted so far; the others wait behind it. It has been retried many
    // times when its entries are this old.
    let (mut conn, home) = (world.redis.connection(), world.keys.home());
    world
        .until("a batch is tried and waits", async || {
            let page = stream::pending_page(&mut conn, &home, EntryId::MIN, EntryId::MAX, 1).await;
            page.unwrap().first().is_some_and(|row| row.idle_ms >= 500)
        })
        .await;
    let dead = world.keys.home().dead();
    assert_eq!(world.server.query::<u64>(&["XLEN", &dead]), 0);
    run("ALTER TABLE tb_taken_away RENAME TO tb_voucher_order").await;
    world.settled().await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &dead]), 0);
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 200);
    world.balanced().await;
}

/// Reads succeed beside the lock of another program, so a database that looks healthy may accept no order.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_lock_of_another_program_is_reported_and_waited_for() {
    let (world, voucher) = World::with_sale(200).await;
    let snapshot = || Arc::clone(&world.node().remote().snapshots.borrow());
    world.until("the database is well", async || snapshot().sql.takes_writes()).await;
    world.admits().await;
    let lock = world.lock_database().await;
    world.rush(LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 200) }).await;
    world
        .until("the lock and its waiters are reported", async || {
            let seen = snapshot();
            let why = seen.sql.unwritable.as_ref().and_then(Message::data);
            let result = |it: &Alarm| it.kind == AlarmKind::SqlLocked { waiting: Some(200) };
            why == Some(EngineError::Store(StoreError::Locked)) && seen.alarms.iter().any(result)
        })
        .await;
    let result = snapshot();
    let open = |focus: &mut Focus| focus.orders = Some(OrdersView::default());
    world.node().remote().focus.send_modify(open);
    world
        .until("it is read all the while", async || {
            let seen = snapshot();
            seen.sql.last_ok > result.sql.last_ok && seen.orders.taken > result.sql.last_ok
        })
        .await;
    let seen = snapshot();
    assert!(seen.sql.up && !seen.sql.takes_writes(), "{:?}", seen.sql);
    let dead = world.keys.home().dead();
    assert_eq!(world.server.query::<u64>(&["XLEN", &dead]), 0);
    drop(lock);
    world.until("the database is well again", async || snapshot().sql.takes_writes()).await;
    world.settled_and_balanced().await;
    assert!(snapshot().sql.back.is_none(), "it answered all the while");
}

macro_rules! on_each {
    ($($name:ident: $database:ident),+) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn a_rush_is_written_paid_closed_and_balanced() {
                super::rush(super::Database::$database).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn batches_are_written_atomically() {
                super::batches(super::Database::$database).await;
            }
        })+
    };
}

on_each!(on_sqlite: Sqlite, on_mariadb: MariaDb, on_postgres: Postgres);
