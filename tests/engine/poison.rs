//! Malformed entries at full speed: they hardly slow down the valid ones.

use std::{collections::BTreeMap, time::Duration};

use crate::world::{Database, World, sale};
use redis::pipe;
use seckill_engine::{
    commands::LoadTest,
    consumer::order_writer::{Settled, Writer},
};
use seckill_model::{EntryId, Outcome, ShardId};
use seckill_redis::{dead_letters, stream};
use tokio_util::sync::CancellationToken;

const AT_ONCE: stream::ReadFrom = stream::ReadFrom::New(Duration::from_millis(50));

/// Number of calls of one Redis command so far.
fn calls(world: &World, name: &str) -> u64 {
    let info: String = world.server.query(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// A thousand malformed entries of five kinds among ten thousand valid ones.
async fn poison_costs_next_to_nothing(database: Database) {
    // A stopping node takes one more batch of the entries below: one entry.
    let mut world = World::on(database, 1, |settings| settings.consumer_batch = 1).await;
    let voucher = world.create(sale(20_000)).await;
    world.hold().await;
    let v = voucher.to_string();
    let mut conn = world.redis.connection();
    for part in 1..=5_u64 {
        let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, part * 2_000) };
        world.rush(plan).await;
        let Outcome::Duplicate { order } = world.ask(voucher, part).await else { panic!() };
        let mut add = pipe();
        for n in 0..40_u64 {
            let (user, id) = ((part * 40 + n).to_string(), (part * 40 + n).to_string());
            let stranger = (900_000 + part * 40 + n).to_string();
            let order = order.to_string();
            let kinds: [&[&str]; 5] = [
                &["userId", &user, "voucherId", &v],
                &["userId", "unknown", "voucherId", &v, "id", &id],
                &["userId", &stranger, "voucherId", "4242", "id", &id],
                &["userId", &user, "voucherId", &v, "id", &id],
                &["userId", &stranger, "voucherId", &v, "id", &order],
            ];
            for fields in kinds {
                add.cmd("XADD").arg(world.keys.home().orders()).arg("*").arg(fields).ignore();
            }
        }
        conn.pipe::<()>(&add).await.unwrap();
    }
    world.stop_node().await;

    let mut writer = Writer::new(world.servers());
    let (mut all, mut batches, stop) = (Settled::default(), 0, CancellationToken::new());
    let before = calls(&world, "evalsha");
    loop {
        let of = world.keys.home();
        let batch = stream::read_group(&mut conn, &of, "x/1", AT_ONCE, 2_000).await.unwrap();
        if batch.is_empty() {
            break;
        }
        let one = writer.settle(batch, &stop).await.unwrap();
        batches += 1;
        all.transactions += one.transactions;
    }
    let live = world.store.ledger(ShardId::only(voucher)).await.unwrap().live;
    assert_eq!((live, dead_letters::count(&mut conn, &world.keys).await.unwrap()), (10_000, 1_000));
    assert_eq!(batches, 6);
    assert_eq!(all.transactions, batches, "no batch was halved");
    let scripts = calls(&world, "evalsha") - before;
    // One for the entries to check, one for the buyers of each of two vouchers, one for the dead letters.
    assert!(scripts <= 4 * batches, "{scripts} calls of scripts for {batches} batches");
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for it in dead_letters::read(&mut conn, &world.keys.home(), EntryId::MIN, 2_000).await.unwrap()
    {
        let known = ["id is missing", "userId holds", "no sale", "holds order", "another order"];
        let kind = known.iter().find(|kind| it.reason.contains(**kind));
        *reasons.entry(kind.expect(&it.reason)).or_default() += 1;
    }
    assert_eq!(reasons.into_values().collect::<Vec<_>>(), [200; 5]);
    world.balanced().await;
}

macro_rules! on_each {
    ($($name:ident: $database:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            poison_costs_next_to_nothing(Database::$database).await;
        })+
    };
}

on_each!(on_sqlite: Sqlite, on_mariadb: MariaDb, on_postgres: Postgres);
