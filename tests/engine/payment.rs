//! Payment against closing: the first wins, and stock is returned once.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use crate::support::{Background, PATIENCE, Seckill, wait_until};
use crate::world::{Database, World, sale};
use rand::{SeedableRng as _, seq::SliceRandom as _};
use seckill_engine::{
    commands::{Command, LoadTest, Reply},
    deployment::servers::Servers,
    orders::{payment, trace, vouchers::Vouchers},
    recovery::repair,
};
use seckill_model::{
    Fence, Millis, OrderId, OrderStatus, Outcome, Payment, ShardId, UserId, VoucherDetails,
    VoucherId,
};
use seckill_redis::{HOME, Layout, Redis};
use seckill_store::{SharedStore, StoreError};
use tokio_util::sync::CancellationToken;

const FUTURE: i64 = 3_600_000;

fn fence(token: i64) -> Fence {
    Fence { name: "close".into(), token }
}

async fn close(world: &World, token: i64) -> payment::Closed {
    let (mut servers, stop) = (world.servers(), CancellationToken::new());
    let before = Millis::now().plus(FUTURE);
    payment::close_overdue(&mut servers, before, Millis::now(), &fence(token), &stop).await.unwrap()
}

async fn sold(world: &World, voucher: VoucherId, count: u64) -> Vec<OrderId> {
    let plan = LoadTest { repeat: 0.0, ..LoadTest::new(voucher, count) };
    assert_eq!(world.rush(plan).await.persisted, count);
    world.settled().await;
    let orders = world.store.live_orders(ShardId::only(voucher), None, 100_000).await.unwrap();
    orders.into_iter().map(|order| order.id).collect()
}

fn stock(world: &World, voucher: VoucherId) -> u64 {
    world.server.query(&["GET", &world.keys.stock(ShardId::only(voucher))])
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_ten_thousand_orders_is_paid_or_closed_and_never_both() {
    let (world, voucher) = World::with_sale(10_000).await;
    let mut orders = sold(&world, voucher, 10_000).await;
    let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(7);
    orders.shuffle(&mut random);
    let paying = async {
        let mut paid = 0;
        for page in orders.chunks(40) {
            let answers = world.store.pay(page, Millis::now()).await.unwrap();
            paid += answers.iter().filter(|answer| **answer == Payment::Paid).count() as u64;
            let known = |answer: &Payment| matches!(answer, Payment::Paid | Payment::TooLate);
            assert!(answers.iter().all(known), "{answers:?}");
        }
        paid
    };
    let (paid, closed) = tokio::join!(paying, close(&world, 1));
    println!("{paid} paid, {} closed", closed.orders);
    assert!(paid > 0 && closed.orders > 0, "both had their share");
    assert_eq!(paid + closed.orders, 10_000);
    assert_eq!(closed.given_back, closed.orders);
    let mut seen: HashMap<OrderStatus, u64> = HashMap::new();
    for id in &orders {
        let order = world.store.order(*id).await.unwrap().unwrap();
        assert_ne!(order.pay_time.is_some(), order.close_time.is_some(), "{order:?}");
        *seen.entry(order.status).or_default() += 1;
    }
    assert_eq!(seen[&OrderStatus::Paid], paid);
    assert_eq!(seen[&OrderStatus::Closed], closed.orders);
    assert_eq!(stock(&world, voucher), closed.orders, "in Redis");
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, closed.orders, "in SQL");
    world.balanced().await;
    // Buyers of closed orders may order again, buyers who paid may not.
    let again = world.buy(voucher, 10_000).await;
    assert_eq!((again.admitted, again.duplicate), (closed.orders, paid));
    world.settled_and_balanced().await;
}

/// An order of an ordinary voucher holds no stock: it is closed without a give-back and is not in the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn orders_of_ordinary_vouchers_are_closed_without_a_give_back() {
    let (world, voucher) = World::with_sale(10).await;
    sold(&world, voucher, 10).await;
    let tea = world.store.create_voucher(&VoucherDetails::titled("tea"), Millis::now()).await;
    let tea = tea.unwrap();
    let mut bought = Vec::new();
    for _ in 0..3 {
        let reply = world.execute(Command::BuyVoucher(tea, UserId(1))).await.unwrap();
        let Reply::VoucherBought(order) = reply else { panic!("{reply:?}") };
        bought.push(order);
    }
    assert!(bought.is_sorted_by(|a, b| a < b), "{bought:?}");
    let trace = trace::follow(&mut world.servers(), bought[0]).await.unwrap();
    assert_eq!((trace.held, trace.entry), (None, None), "it went through nothing but SQL");
    let paid = world.execute(Command::Pay(bought[0])).await.unwrap();
    assert_eq!(paid, Reply::Paid { order: bought[0], payment: Payment::Paid });
    world.balanced().await;
    let closed = close(&world, 1).await;
    assert_eq!((closed.orders, closed.given_back), (12, 10));
    let status = async |order| world.store.order(order).await.unwrap().unwrap().status;
    assert_eq!(
        [status(bought[0]).await, status(bought[1]).await, status(bought[2]).await],
        [OrderStatus::Paid, OrderStatus::Closed, OrderStatus::Closed]
    );
    assert_eq!(stock(&world, voucher), 10);
    world.balanced().await;
}

/// If no live node notices that Redis lost its counters, the next order still has a unique ID.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_counter_issues_no_order_id_twice() {
    let mut world = World::start().await;
    world.stop_node().await;
    let (store, keys, mut servers) = (&world.store, &world.keys, world.servers());
    let tea = store.create_voucher(&VoucherDetails::titled("tea"), Millis::now()).await.unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let mut vouchers = Vouchers { servers: &mut servers };
        let order = vouchers.buy(tea, UserId(1)).await.unwrap();
        assert!(seen.insert(order), "{order} was given twice");
        let counter = keys.partition_of(ShardId::only(tea)).sequence(order.day());
        let forgotten: u64 = servers.conn.query(redis::cmd("DEL").arg(counter)).await.unwrap();
        assert_eq!(forgotten, 1);
    }
}

/// No false alarm while orders are being closed.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_balances_at_every_step_of_the_closing() {
    let (world, voucher) = World::with_sale(12_000).await;
    sold(&world, voucher, 12_000).await;
    let (closed, audits) = tokio::join!(close(&world, 1), async {
        let mut audits = 0;
        while world.store.sale(voucher).await.unwrap().stock < 12_000 {
            world.balanced().await;
            audits += 1;
        }
        audits
    });
    assert_eq!(closed.orders, 12_000);
    assert!(audits > 0, "{audits} audits beside the closing");
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_returns_its_result() {
    let (world, voucher) = World::with_sale(2).await;
    let orders = sold(&world, voucher, 2).await;
    let pay = async |order| match world.execute(Command::Pay(order)).await.unwrap() {
        Reply::Paid { payment, .. } => payment,
        other => panic!("{other:?}"),
    };
    assert_eq!(pay(orders[0]).await, Payment::Paid);
    assert_eq!(pay(orders[0]).await, Payment::PaidBefore);
    assert_eq!(pay(OrderId::from_i64(4_711).unwrap()).await, Payment::NotFound);
    assert_eq!(close(&world, 1).await.orders, 1);
    assert_eq!(pay(orders[1]).await, Payment::TooLate);
    assert_eq!(close(&world, 1).await, payment::Closed::default(), "nothing is left to close");
    let twice = world.store.pay(&[orders[0], orders[0]], Millis::now()).await.unwrap();
    assert_eq!(twice, [Payment::PaidBefore; 2]);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_lock_closes_nothing() {
    let (world, voucher) = World::with_sale(5).await;
    sold(&world, voucher, 5).await;
    world.store.fenced_write(&fence(10), Millis::now()).await.unwrap();
    let before = Millis::now().plus(FUTURE);
    let late = world
        .store
        .close_overdue(before, 100, seckill_store::Overdue::ALL, Millis::now(), &fence(9))
        .await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 0);
    assert_eq!(close(&world, 10).await.orders, 5);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_give_back_is_repeated() {
    let (mut world, voucher) = World::with_sale(20).await;
    sold(&world, voucher, 20).await;
    let buyers = world.keys.buyers(ShardId::only(voucher));
    let old = world.buyers(voucher);
    assert_eq!(close(&world, 1).await.given_back, 20);
    // One of them orders again; then Redis returns to its state before the closing.
    let user = old.keys().next().unwrap().parse().unwrap();
    let Outcome::Admitted { order } = world.ask(voucher, user).await else { panic!() };
    world.settled().await;
    world.stop_node().await;
    let mut set = redis::cmd("HSET");
    set.arg(&buyers).arg(&old);
    let _: u64 = set.query(&mut world.server.connection()).unwrap();
    let _: () = world.server.query(&["SET", &world.keys.stock(ShardId::only(voucher)), "0"]);
    world.server.restart();
    world.start_node();
    world.until("it is made whole", async || stock(&world, voucher) == 19).await;
    let holds: String = world.server.query(&["HGET", &buyers, &user.to_string()]);
    assert_eq!(holds, order.to_string());
    world.settled_and_balanced().await;
}

/// Entry point of a child process: the test below re-executes this binary.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process that another test starts"]
async fn process_that_closes() {
    let work = std::env::var("CLOSE_WORK").unwrap();
    let parts: Vec<&str> = work.split('|').collect();
    let [url, database, go] = parts[..] else { panic!("{work}") };
    let store = open_store(Path::new(database)).await;
    let redis = Redis::from_url(url).unwrap();
    let mut servers = Servers::new(&redis, &store, &Layout::default());
    servers.conn.multiplexed(HOME).await.unwrap();
    println!("\nready");
    wait_until(PATIENCE, "the word to go", async || Path::new(go).exists()).await;
    let before = Millis::now().plus(FUTURE);
    let stop = CancellationToken::new();
    payment::close_overdue(&mut servers, before, Millis::now(), &fence(1), &stop).await.unwrap();
}

async fn open_store(database: &Path) -> SharedStore {
    seckill_store::open(
        &format!("sqlite:{}", database.display()),
        &seckill_store::Settings::default(),
    )
    .await
    .unwrap()
}

/// Redis is frozen while the process commits to SQL, so that the kill comes just between the two.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_between_commit_and_give_back_give_each_piece_back_once() {
    let page = u64::from(payment::CLOSE_PAGE);
    let (world, voucher) = World::with_sale(20 * page).await;
    let orders = sold(&world, voucher, 20 * page).await;
    let this = std::env::current_exe().unwrap();
    for kills in 1..=20 {
        let sandbox = Seckill::new();
        let go = sandbox.file("go");
        let work =
            format!("{}|{}|{}", world.server.url(), world.database().display(), go.display());
        let args = crate::support::only(module_path!(), "process_that_closes");
        let env = [("CLOSE_WORK", work.as_str())];
        let mut process = Background::spawn(this.to_str().unwrap(), &args, &sandbox, &env);
        process.wait_for_line("ready").await;
        world.server.freeze();
        std::fs::write(&go, "").unwrap();
        wait_until(PATIENCE, "it has committed", async || {
            world.store.returning().await.unwrap() == page
        })
        .await;
        process.signal(rustix::process::Signal::KILL);
        drop(process);
        world.server.thaw();
        // Commands of the dead process may still arrive at Redis.
        payment::return_outstanding(&mut world.servers()).await.unwrap();
        assert_eq!(world.store.returning().await.unwrap(), 0);
        assert_eq!(stock(&world, voucher), kills * page, "each piece once");
        assert_eq!(world.store.sale(voucher).await.unwrap().stock, kills * page);
    }
    assert_eq!(world.store.closed_among(&orders).await.unwrap().len(), orders.len());
    world.balanced().await;
}

async fn set_sql_stock(world: &World, voucher: VoucherId, stock: i64) {
    let change =
        format!("UPDATE tb_seckill_voucher SET stock = {stock} WHERE voucher_id = {voucher}");
    sqlx::query(sqlx::AssertSqlSafe(change)).execute(&mut world.sql().await).await.unwrap();
}

/// A stock that was changed by hand in SQL, so that a returned piece violates a CHECK, and a sale whose row a trigger
/// protects: the orders of all other sales are closed, the fault names its sale, and a repair derives the stock.
#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_sale_does_not_stop_the_closing_of_the_others() {
    for database in [Database::Sqlite, Database::MariaDb, Database::Postgres] {
        let world = World::on(database, 1, |_| {}).await;
        let mut sales = Vec::new();
        for _ in 0..3 {
            let voucher = world.create(sale(10)).await;
            sold(&world, voucher, 5).await;
            sales.push(voucher);
        }
        let [drifted, healthy, other] = sales[..] else { unreachable!() };
        set_sql_stock(&world, drifted, 10).await;
        let closed = close(&world, 1).await;
        assert_eq!((closed.orders, closed.given_back), (10, 10), "{database:?}");
        let why = closed.left_out.reason().unwrap().to_string();
        assert!(why.contains(&format!("#{drifted}")), "{why}");
        assert!(![healthy, other].iter().any(|it| why.contains(&format!("#{it}"))), "{why}");
        assert_eq!(stock(&world, healthy), 10);
        // The job fails with the same words, and its alarm names the sale.
        let again = close(&world, 2).await;
        assert_eq!((again.orders, again.left_out.reason().is_some()), (0, true));

        let mut servers = world.servers();
        let plan = repair::plan(&mut servers).await.unwrap();
        assert_eq!(plan.len(), 1, "{plan:?}");
        let done = repair::apply_all(&mut servers, &plan, &CancellationToken::new()).await.unwrap();
        assert_eq!(done.derived, 1);
        assert_eq!(world.store.sale(drifted).await.unwrap().stock, 5);
        world.balanced().await;
        let closed = close(&world, 3).await;
        assert_eq!((closed.orders, closed.given_back), (5, 5));
        assert_eq!(closed.left_out, payment::LeftOut::default());
        world.balanced().await;
    }
}

/// SQL refuses to close two orders of a sale, and one of an ordinary voucher: the others are closed, and these are named.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_closed_stops_no_other() {
    let world = World::start().await;
    let voucher = world.create(sale(10)).await;
    let orders = sold(&world, voucher, 10).await;
    let mut servers = world.servers();
    let mut vouchers = Vouchers { servers: &mut servers };
    let gift = vouchers.create_voucher(&VoucherDetails::titled("gift")).await.unwrap();
    let mut gifts = Vec::new();
    for user in 1..=4 {
        gifts.push(vouchers.buy(gift, UserId(user)).await.unwrap());
    }
    for (table, kept) in
        [("tb_voucher_order", &[orders[3], orders[7]][..]), ("tb_ordinary_order", &gifts[1..2])]
    {
        let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
        let trigger = format!(
            "CREATE TRIGGER kept_{table} BEFORE UPDATE ON {table} WHEN NEW.id IN ({}) \
             BEGIN SELECT RAISE(ABORT, 'kept'); END",
            kept.join(", ")
        );
        sqlx::query(sqlx::AssertSqlSafe(trigger)).execute(&mut world.sql().await).await.unwrap();
    }
    let closed = close(&world, 1).await;
    assert_eq!((closed.orders, closed.given_back), (11, 8));
    let why = closed.left_out.reason().unwrap().to_string();
    let named = [orders[3].to_string(), format!("#{voucher}"), gifts[1].to_string(), "kept".into()];
    assert!(named.iter().all(|it| why.contains(it)), "{why}");
    assert_eq!(stock(&world, voucher), 8);
    world.balanced().await;
    // The next run finds no other order of the sale: these are named still.
    let again = close(&world, 2).await;
    let why = again.left_out.reason().unwrap().to_string();
    assert!(again.orders == 0 && named.iter().all(|it| why.contains(it)), "{why}");
    for table in ["tb_voucher_order", "tb_ordinary_order"] {
        let drop = format!("DROP TRIGGER kept_{table}");
        sqlx::query(sqlx::AssertSqlSafe(drop)).execute(&mut world.sql().await).await.unwrap();
    }
    let closed = close(&world, 3).await;
    assert_eq!((closed.orders, closed.left_out), (3, payment::LeftOut::default()));
    world.balanced().await;
}

/// The keys of one sale in Redis are of another type: the pieces of the other sales are returned.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_whose_keys_are_foreign_does_not_stop_the_returns_of_the_others() {
    let mut world = World::start().await;
    let (broken, healthy) = (world.create(sale(10)).await, world.create(sale(10)).await);
    for voucher in [broken, healthy] {
        sold(&world, voucher, 5).await;
    }
    // Without a node, nobody mends the key.
    world.stop_node().await;
    world.server.query::<()>(&[
        "SET",
        &world.keys.sale(ShardId::only(broken)),
        "of another program",
    ]);
    world.server.query::<()>(&[
        "SET",
        &world.keys.buyers(ShardId::only(broken)),
        "of another program",
    ]);
    let closed = close(&world, 1).await;
    assert_eq!(closed.orders, 10);
    assert_eq!(stock(&world, healthy), 10);
    world.start_node();
    world.settled_and_balanced().await;
    assert_eq!([broken, healthy].map(|it| stock(&world, it)), [10, 10]);
}
