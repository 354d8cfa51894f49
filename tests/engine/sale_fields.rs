//! Fields of a sale in Redis that another program has changed, without a new version.

use seckill_engine::{commands::Command, recovery::repair};
use seckill_model::{
    NewSale, OrderEntry, OrderId, Outcome, SaleId, ShardId, UserId,
    ledger::{Cure, Finding},
};
use tokio_util::sync::CancellationToken;

use crate::world::{Database, World, newest, sale};

/// Each field, with a value that it may have in another sale; empty if it is removed.
const CHANGES: [(&str, &str); 12] = [
    ("limit", "5"),
    ("limit", "none"),
    ("limit", ""),
    ("state", "paused"),
    ("begin", "9999999999999"),
    ("begin", ""),
    ("end", "1"),
    ("end", ""),
    ("title", "another: title"),
    ("title", ""),
    ("shard", "9/9"),
    ("shard", ""),
];

/// Changes or removes a field; returns what it was.
fn change(world: &World, key: &str, (field, value): (&str, &str)) -> String {
    let was = world.server.query(&["HGET", key, field]);
    let change: &[&str] =
        if value.is_empty() { &["HDEL", key, field] } else { &["HSET", key, field, value] };
    world.server.query::<u64>(change);
    was
}

/// A field; empty if it is missing.
fn field(world: &World, key: &str, field: &str) -> String {
    world.server.query::<Option<String>>(&["HGET", key, field]).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_sets_changed_fields_back_and_says_so() {
    let world = World::spread(2, |_| {}).await;
    let voucher = world.create(sale(40).sharded(2).unwrap()).await;
    world.admits().await;
    // Of the first of two shards, and users of both.
    let key = world.keys.sale(ShardId { sale: SaleId(voucher.0), number: 1 });
    for (user, (name, value)) in (1..).zip(CHANGES) {
        let right = change(&world, &key, (name, value));
        world.until("it is set back", async || field(&world, &key, name) == right).await;
        world
            .until("an event names it", async || {
                let lines = newest(&world.store, 99).await;
                let named = format!("{name}={value}");
                lines.iter().any(|it| it.action == "sale fixed" && it.result.contains(&named))
            })
            .await;
        assert!(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }), "{name}");
        assert!(matches!(world.ask(voucher, user).await, Outcome::Duplicate { .. }), "{name}");
    }
    // A change by an operator is none.
    let lines = newest(&world.store, 99).await.len();
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    world.settled_and_balanced().await;
    let mended = newest(&world.store, 99).await;
    let mended = mended.iter().filter(|it| it.action == "sale fixed").count();
    assert_eq!(mended, CHANGES.len(), "of {lines} lines");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_changed_fields_and_its_repair_sets_them_back() {
    let mut world = World::spread(2, |_| {}).await;
    let voucher = world.create(sale(40).sharded(2).unwrap()).await;
    world.admit(voucher, 1..=3).await;
    world.settled().await;
    world.stop_node().await;
    let key = world.keys.sale(ShardId { sale: SaleId(voucher.0), number: 2 });
    for (name, value) in CHANGES {
        let right = change(&world, &key, (name, value));
        let mut servers = world.servers();
        let plan = repair::plan(&mut servers).await.unwrap();
        let [sale] = &plan[..] else { panic!("{name}: {plan:?}") };
        let parts: Vec<_> = sale.parts().iter().filter(|it| !it.findings.is_empty()).collect();
        let [part] = parts[..] else { panic!("{name}: {plan:?}") };
        let [Finding::Fields(named)] = &part.findings[..] else { panic!("{name}: {part:?}") };
        assert_eq!(
            *named,
            format!("{name} {} (SQL: {right})", if value.is_empty() { "-" } else { value })
        );
        assert_eq!(part.cures(), [Cure::Update]);
        repair::apply_all(&mut servers, &plan, &CancellationToken::new()).await.unwrap();
        assert_eq!(field(&world, &key, name), right);
        world.balanced().await;
    }
}

/// Fields that make the sale inconsistent are restored with its buyers, by a node and by the repair of the audit; a creation
/// time that is none is not that of another sale.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_have_no_such_value_are_restored() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.admits().await;
    let key = world.keys.sale(ShardId::only(voucher));
    let fields = ["created", "version", "initial", "seq", "state"];
    for (user, field) in (1..).zip(fields) {
        world.admit(voucher, [user]).await;
        world.server.query::<u64>(&["HSET", &key, field, "no such value"]);
        world
            .until("the sale is open again", async || {
                matches!(world.ask(voucher, user).await, Outcome::Duplicate { .. })
                    && world.server.query::<String>(&["HGET", &key, field]) != "no such value"
            })
            .await;
        world.settled_and_balanced().await;
    }
    world.stop_node().await;
    for field in fields {
        for change in [&["HSET", &key, field, "no such value"][..], &["HDEL", &key, field]] {
            world.server.query::<u64>(change);
            let mut servers = world.servers();
            let plan = repair::plan(&mut servers).await.unwrap();
            assert!(!plan.is_empty(), "{change:?}");
            let repaired = repair::apply_all(&mut servers, &plan, &CancellationToken::new()).await;
            assert!(repaired.is_ok(), "{change:?}: {repaired:?}");
            world.balanced().await;
        }
    }
    // The number of pieces that are left, and the buyers, are those of before.
    let stock = world.keys.stock(ShardId::only(voucher));
    assert_eq!(world.server.query::<u64>(&["GET", &stock]), 95);
    assert_eq!(world.buyers(voucher).len(), 5);
}

/// More live orders of a user than the sale allows, at places of their own: no index prevents them.
#[tokio::test(flavor = "multi_thread")]
async fn more_orders_of_a_user_than_the_limit_are_a_finding() {
    for database in [Database::Sqlite, Database::MariaDb, Database::Postgres] {
        let mut world = World::on(database, 1, |_| {}).await;
        world.stop_node().await;
        for (limit, orders, doubled) in [(1, 1, 0), (1, 2, 1), (2, 2, 0), (2, 3, 1)] {
            let new = NewSale { limit, ..sale(10) };
            let now = seckill_model::Millis::now();
            let voucher = world.store.create_sale(&new, now).await.unwrap().voucher_id;
            let entries: Vec<OrderEntry> = (1..=orders)
                .map(|place| {
                    let number = voucher.0 as i64 * 100 + i64::from(place);
                    let id = OrderId::new(1_795_000_000, number as u64).unwrap();
                    OrderEntry { place, ..OrderEntry::new(id, UserId(7), voucher) }
                })
                .collect();
            world.store.write_orders(&entries, now).await.unwrap();
            let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
            assert_eq!((ledger.live, ledger.doubled), (orders.into(), doubled), "{limit}");
        }
    }
}
