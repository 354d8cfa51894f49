//! SQL was restored from a backup that has an older version of a sale than Redis: a change builds on no such row, and no
//! repair puts on sale what was stopped or removed.

use seckill_engine::{
    EngineError,
    commands::{Command, LoadTest},
    recovery::{reconcile::reconcile, repair},
    telemetry::data_loss::REDIS_RECONCILED,
};
use seckill_model::{Outcome, Sale, SaleShard, SaleState, ShardId, VoucherId};
use tokio_util::sync::CancellationToken;

use crate::world::{World, newest, sale};

/// Restores the only sale to this version, with this content.
async fn set_back(world: &World, version: u64, delivered: u64, initial: u64, state: SaleState) {
    let back = format!(
        "UPDATE tb_seckill_voucher SET version = {version}, delivered_version = {delivered}, \
         stock = stock + {initial} - initial_stock, initial_stock = {initial}, state = '{state}'"
    );
    world.run_sql(&back).await;
}

/// State, version and pieces in Redis; of a sale that is lost, nothing.
fn in_redis(world: &World, shard: ShardId) -> (String, u64, u64) {
    let key = world.keys.sale(shard);
    let field = |name| -> String {
        world.server.query::<Option<String>>(&["HGET", &key, name]).unwrap_or_default()
    };
    let number = |name| field(name).parse().unwrap_or(0);
    (field("state"), number("version"), number("initial"))
}

/// What both sides have, which must be the same.
async fn agreed(world: &World, voucher: VoucherId) -> Sale {
    let shard = ShardId::only(voucher);
    world
        .until("both sides agree", async || {
            let sale = world.store.sale(voucher).await.unwrap();
            let in_sql = (sale.state.to_string(), sale.version, sale.initial);
            in_sql == in_redis(world, shard) && !sale.is_undelivered()
        })
        .await;
    world.store.sale(voucher).await.unwrap()
}

async fn repaired(world: &World) {
    let mut servers = world.servers();
    let plan = repair::plan(&mut servers).await.unwrap();
    repair::apply_all(&mut servers, &plan, &CancellationToken::new()).await.unwrap();
}

/// A sale of 100 pieces of which 40 were removed and the others are sold, and SQL as before that. A removal that is slow is
/// undone and tried again, so the version is not known beforehand.
async fn sold_and_set_back() -> (World, VoucherId) {
    let (world, voucher) = World::with_sale(100).await;
    world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
    assert_eq!(world.buy(voucher, 80).await.admitted, 60);
    world.settled().await;
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    let (state, version, initial) = in_redis(&world, ShardId::only(voucher));
    assert!(state == "running" && version >= 4 && initial == 60, "{state} {version} {initial}");
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    (world, voucher)
}

async fn sells_nothing_more(world: &World, voucher: VoucherId) {
    let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
    assert_eq!(report.admitted, 0, "{report:?}");
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_stops_a_sale_that_sql_has_in_an_older_version() {
    for (stop, state) in [
        (Command::PauseSale as fn(VoucherId) -> Command, SaleState::Paused),
        (Command::EndSale, SaleState::Ended),
    ] {
        let (world, voucher) = sold_and_set_back().await;
        let (_, before, _) = in_redis(&world, ShardId::only(voucher));
        world.execute(stop(voucher)).await.unwrap();
        let sale = agreed(&world, voucher).await;
        // One version for what SQL adopts, and one for the change.
        assert_eq!((sale.state, sale.initial, sale.version), (state, 60, before + 2));
        repaired(&world).await;
        assert_eq!(agreed(&world, voucher).await.state, state);
        if state == SaleState::Paused {
            world.execute(Command::ResumeSale(voucher)).await.unwrap();
        }
        sells_nothing_more(&world, voucher).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_sql_has_in_an_older_version_is_not_opened() {
    let (world, voucher) = sold_and_set_back().await;
    set_back(&world, 1, 1, 100, SaleState::Paused).await;
    let before = world.store.sale(voucher).await.unwrap();
    for _ in 0..4 {
        for change in [
            Command::ResumeSale(voucher),
            Command::Restock { voucher, by: 1 },
            Command::Restock { voucher, by: -1 },
        ] {
            let refused = world.execute(change).await.unwrap_err();
            assert_eq!(refused, EngineError::SqlBehind(voucher));
        }
    }
    assert_eq!(world.store.sale(voucher).await.unwrap(), before, "nothing is written");
    repaired(&world).await;
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial), (SaleState::Paused, 60), "an operator resumes it");
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    sells_nothing_more(&world, voucher).await;
}

/// State and pieces in SQL, whether it knows that Redis has confirmed the version, the state in Redis, which has 60 pieces;
/// and what remains of both.
const SPLITS: [(SaleState, u64, bool, &str, SaleState, u64); 5] = [
    (SaleState::Running, 100, false, "paused", SaleState::Paused, 60),
    (SaleState::Ended, 100, false, "running", SaleState::Ended, 60),
    (SaleState::Running, 60, false, "ended", SaleState::Ended, 60),
    (SaleState::Paused, 58, false, "running", SaleState::Paused, 58),
    (SaleState::Running, 100, true, "running", SaleState::Running, 60),
];

/// Found by a node that delivers the version, by one that checks the keys, or by an audit without a node.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_contents_of_a_version_the_one_that_sells_less_remains() {
    let (mut world, voucher) = World::with_sale(60).await;
    world.admit(voucher, 1..=55).await;
    world.settled().await;
    let key = world.keys.sale(ShardId::only(voucher));
    for is_alone in [false, true] {
        for (state, pieces, is_confirmed, held, wanted, initial) in SPLITS {
            let before = agreed(&world, voucher).await.version;
            if is_alone {
                world.stop_node().await;
            }
            let version = before + 1;
            let number = version.to_string();
            world.server.query::<u64>(&["HSET", &key, "state", held, "version", &number]);
            set_back(&world, version, before + u64::from(is_confirmed), pieces, state).await;
            if is_alone {
                repaired(&world).await;
            } else if is_confirmed {
                // A node that runs does not see a version that is not to be delivered.
                world.restart_node().await;
            }
            let sale = agreed(&world, voucher).await;
            assert_eq!((sale.state, sale.initial), (wanted, initial), "{state} {held}");
            if is_alone {
                world.start_node();
            }
            world.settled_and_balanced().await;
            // As for the first case: what ended is open again.
            set_back(&world, version + 9, 1, 60, SaleState::Running).await;
        }
    }
}

/// More were sold than SQL has pieces: they stay sold.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sold_stays_sold() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.admit(voucher, 1..=30).await;
    world.settled().await;
    world.stop_node().await;
    let orders = "DELETE FROM tb_voucher_order WHERE user_id > 20; \
         UPDATE tb_seckill_voucher SET stock = 5, initial_stock = 25";
    world.run_sql(orders).await;
    repaired(&world).await;
    world.start_node();
    world.settled_and_balanced().await;
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.initial, sale.live_orders()), (30, 30));
    assert_eq!(world.ask(voucher, 31).await, Outcome::SoldOut);
}

/// A Redis that restarts is reconciled with SQL, which gets a new version for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_redis_sells_no_removed_pieces_again() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
    assert_eq!(world.buy(voucher, 80).await.admitted, 60);
    world.settled().await;
    world.stop_node().await;
    let (_, version, _) = in_redis(&world, ShardId::only(voucher));
    set_back(&world, version, version - 1, 100, SaleState::Running).await;
    world.server.kill();
    world.server.restart();
    world.start_node();
    world.admits().await;
    assert_eq!(agreed(&world, voucher).await.initial, 60);
    sells_nothing_more(&world, voucher).await;
}

/// One shard has another history than SQL: the sale gets what sells less, and each shard that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_sale_agree_on_what_sells_less() {
    let world = World::spread(4, |_| {}).await;
    let voucher = world.create(sale(40).sharded(4).unwrap()).await;
    world.admits().await;
    let parts = async || -> Vec<SaleShard> { world.store.shards_of(voucher).await.unwrap() };
    world
        .until("each change is delivered", async || {
            parts().await.iter().all(|it| !it.is_undelivered())
        })
        .await;
    let shard = parts().await.remove(2);
    let key = world.keys.sale(shard.id);
    let version = (shard.version + 1).to_string();
    world.server.query::<u64>(&["HSET", &key, "state", "paused", "version", &version]);
    // Changed while Redis did not reply.
    world.run_sql("UPDATE tb_shard_stock SET version = version + 1").await;
    world
        .until("all shards are paused", async || {
            let is_paused =
                |it: &SaleShard| !it.is_undelivered() && in_redis(&world, it.id).0 == "paused";
            parts().await.iter().all(is_paused)
        })
        .await;
    assert_eq!(world.store.sale(voucher).await.unwrap().state, SaleState::Paused);
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    assert_eq!(world.buy(voucher, 60).await.admitted, 40);
    world.settled_and_balanced().await;
}

/// What another program does to the keys of a sale: the hash of the sale (`S`), its stock (`C`), or its tally (`T`).
const DAMAGES: [&str; 12] = [
    "HDEL S initial",
    "HDEL S version",
    "HDEL S state",
    "HDEL S limit",
    "HDEL S title",
    "HDEL S end begin",
    "HSET S version 0",
    "HSET S version 1",
    "HSET S initial 500",
    "DEL S",
    "DEL S C",
    "HDEL S state initial version limit title",
];

fn damage(world: &World, shard: ShardId, command: &str) {
    let (sale, stock) = (world.keys.sale(shard), world.keys.stock(shard));
    let tally = world.keys.tally(shard);
    let words = command.split(' ').map(|word| match word {
        "S" => sale.as_str(),
        "C" => stock.as_str(),
        "T" => tally.as_str(),
        word => word,
    });
    world.server.query::<i64>(&words.collect::<Vec<_>>());
}

/// A sale that had 40 of 100 pieces removed and has ended, of which SQL has the first version, and Redis not all.
async fn ended_set_back_and_damaged(command: &str, is_alone: bool) {
    let (mut world, voucher) = World::with_sale(100).await;
    let shard = ShardId::only(voucher);
    world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
    assert_eq!(world.buy(voucher, 50).await.admitted, 50);
    world.settled().await;
    world.execute(Command::EndSale(voucher)).await.unwrap();
    if is_alone {
        world.stop_node().await;
    }
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    damage(&world, shard, command);
    if is_alone {
        repaired(&world).await;
        world.start_node();
        world.admits().await;
    }
    let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
    assert_eq!(report.admitted, 0, "{command}, without a node: {is_alone}; {report:?}");
    if command == "HDEL S state" && !is_alone {
        reported_as_paused(&world).await;
    }
    repaired(&world).await;
    let sale = agreed(&world, voucher).await;
    assert!(sale.state >= SaleState::Paused && sale.initial == 60, "{command}: {sale:?}");
    world.settled_and_balanced().await;
}

async fn reported_as_paused(world: &World) {
    world
        .until("the pause is an event", async || {
            let entries = newest(&world.store, 50).await;
            entries.iter().any(|entry| {
                entry.action == REDIS_RECONCILED && entry.result.contains("so it was paused")
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_has_lost_of_a_sale_is_not_taken_from_an_older_sql() {
    for command in DAMAGES {
        ended_set_back_and_damaged(command, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_by_a_repair_without_a_node() {
    for command in DAMAGES {
        ended_set_back_and_damaged(command, true).await;
    }
}

/// Redis does not reply, so that SQL is behind is not known: changes must not pass the versions of Redis.
#[tokio::test(flavor = "multi_thread")]
async fn while_redis_cannot_be_asked_a_sale_is_stopped_and_not_opened() {
    let (mut world, voucher) = sold_and_set_back().await;
    let before = world.store.sale(voucher).await.unwrap();
    world.server.kill();
    let refused = world.execute(Command::Restock { voucher, by: 1 }).await.unwrap_err();
    assert_eq!(refused, EngineError::Unchecked(voucher));
    let refused = world.execute(Command::Restock { voucher, by: -1 }).await.unwrap_err();
    assert!(matches!(refused, EngineError::BrokeOff { .. }), "{refused:?}");
    assert_eq!(world.store.sale(voucher).await.unwrap(), before, "nothing is written");
    let paused = world.execute(Command::PauseSale(voucher)).await.unwrap_err();
    assert!(matches!(paused, EngineError::NotLoaded { .. }), "{paused:?}");
    let refused = world.execute(Command::ResumeSale(voucher)).await.unwrap_err();
    assert_eq!(refused, EngineError::Unchecked(voucher));
    world.server.restart();
    world.admits().await;
    // A node adopts the sale by itself: what is stopped stays so.
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial), (SaleState::Paused, 60));
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    sells_nothing_more(&world, voucher).await;
}

/// The node is the last one that knows of the change, and not whether that has stopped the sale.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_both_sides_have_in_an_older_version_is_paused() {
    let (mut world, voucher) = sold_and_set_back().await;
    let newest = in_redis(&world, ShardId::only(voucher)).1;
    set_back(&world, newest, newest, 60, SaleState::Running).await;
    // It reads each sale when it starts.
    world.restart_node().await;
    world.admits().await;
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    world.server.query::<String>(&["FLUSHALL"]);
    world
        .until("it is paused", async || {
            world.store.sale(voucher).await.unwrap().state == SaleState::Paused
        })
        .await;
    agreed(&world, voucher).await;
    reported_as_paused(&world).await;
    world
        .until("buyers are refused", async || world.ask(voucher, 777).await == Outcome::Paused)
        .await;
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    world
        .until("it sells what SQL has", async || {
            matches!(
                world.ask(voucher, 777).await,
                Outcome::Admitted { .. } | Outcome::Duplicate { .. }
            )
        })
        .await;
    world.settled_and_balanced().await;
}

/// Two of its shards have lost something, each something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shards_have_lost_is_not_taken_from_an_older_sql() {
    let world = World::spread(4, |_| {}).await;
    let voucher = world.create(sale(40).sharded(4).unwrap()).await;
    world.admits().await;
    world.execute(Command::Restock { voucher, by: -20 }).await.unwrap();
    assert_eq!(world.buy(voucher, 60).await.admitted, 20);
    world.settled().await;
    world.execute(Command::EndSale(voucher)).await.unwrap();
    let back = "UPDATE tb_shard_stock SET version = 1, delivered_version = 1, \
           stock = stock + 10 - initial_stock, initial_stock = 10; \
         UPDATE tb_seckill_voucher SET initial_stock = 40, version = 1, state = 'running'";
    world.run_sql(back).await;
    let shards = world.store.shards_of(voucher).await.unwrap();
    damage(&world, shards[1].id, "HDEL S initial");
    damage(&world, shards[2].id, "HDEL S state version");
    let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
    assert_eq!(report.admitted, 0, "{report:?}");
    repaired(&world).await;
    world.settled_and_balanced().await;
    let sale = world.store.sale(voucher).await.unwrap();
    assert_eq!((sale.state, sale.initial), (SaleState::Ended, 20));
}

/// The keys of the sale are those of an older version, all of them: they agree with each other, and with SQL.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_an_older_version_are_not_sold_again() {
    let (mut world, voucher) = World::with_sale(100).await;
    let shard = ShardId::only(voucher);
    let keys = [world.keys.sale(shard), world.keys.stock(shard), world.keys.buyers(shard)];
    let copy = |world: &World, from: &str, to: &str| {
        assert!(world.server.query::<bool>(&["COPY", from, to, "REPLACE"]));
    };
    for key in &keys {
        copy(&world, key, &format!("{key}:old"));
    }
    world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
    world.execute(Command::EndSale(voucher)).await.unwrap();
    // It reads each sale when it starts.
    world.restart_node().await;
    world.admits().await;
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    for key in &keys {
        copy(&world, &format!("{key}:old"), key);
    }
    let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
    assert_eq!(report.admitted, 0, "{report:?}");
    repaired(&world).await;
    assert!(agreed(&world, voucher).await.state >= SaleState::Paused);
    world.settled_and_balanced().await;
}

/// A sale that ended while Redis did not reply has ended, also if SQL was set back before.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_redis_has_not_heard_is_delivered() {
    let (mut world, voucher) = sold_and_set_back().await;
    world.server.kill();
    let ended = world.execute(Command::EndSale(voucher)).await.unwrap_err();
    assert!(matches!(ended, EngineError::NotLoaded { .. }), "{ended:?}");
    world.server.restart();
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial), (SaleState::Ended, 60));
    world.execute(Command::EndSale(voucher)).await.unwrap();
    sells_nothing_more(&world, voucher).await;
}

/// The same, but Redis is reconciled before a node tries to deliver it. That has not delivered it: Redis is ahead of SQL.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_delivered_after_redis_was_reconciled() {
    let (mut world, voucher) = sold_and_set_back().await;
    world.stop_node().await;
    world.store.set_state(voucher, SaleState::Ended, None, &[]).await.unwrap();
    world.server.kill();
    world.server.restart();
    reconcile(&mut world.servers(), &world.keys.home(), &[], "a test").await.unwrap();
    world.start_node();
    world.admits().await;
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial), (SaleState::Ended, 60));
    sells_nothing_more(&world, voucher).await;
}

/// SQL lacks the last change only, so the number that a reconciliation gives it is the one that the node has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_both_sides_have_lost_is_kept_by_a_node() {
    for (keys, stop) in [
        (&["S", "C", "B", "T"][..], Command::PauseSale as fn(VoucherId) -> Command),
        (&["S", "T"], Command::PauseSale),
        (&["S", "C", "B", "T"], Command::EndSale),
    ] {
        let (mut world, voucher) = World::with_sale(100).await;
        let shard = ShardId::only(voucher);
        world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
        let before = agreed(&world, voucher).await.version;
        world.execute(stop(voucher)).await.unwrap();
        agreed(&world, voucher).await;
        // It reads each sale when it starts.
        world.restart_node().await;
        world.admits().await;
        set_back(&world, before, before, 60, SaleState::Running).await;
        let buyers = world.keys.buyers(shard);
        let lost =
            [world.keys.sale(shard), world.keys.stock(shard), buyers, world.keys.tally(shard)];
        let named = |key: &&str| &lost["SCBT".find(*key).unwrap()];
        let names: Vec<&str> = keys.iter().map(|key| named(key).as_str()).collect();
        world.server.query::<u64>(&[&["DEL"], &names[..]].concat());
        let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
        assert_eq!(report.admitted, 0, "{keys:?}: {report:?}");
        assert_eq!(agreed(&world, voucher).await.state, SaleState::Paused);
        reported_as_paused(&world).await;
    }
}

/// Redis is behind the node, and SQL is behind Redis: what Redis has is the newest that is left, and SQL gets no version of
/// its own with the number of one of Redis.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_older_versions_the_newer_one_is_paused() {
    let (mut world, voucher) = World::with_sale(100).await;
    let shard = ShardId::only(voucher);
    world.execute(Command::Restock { voucher, by: -40 }).await.unwrap();
    agreed(&world, voucher).await;
    let keys = [
        world.keys.sale(shard),
        world.keys.stock(shard),
        world.keys.buyers(shard),
        world.keys.tally(shard),
    ];
    let keep = "for _, key in ipairs(KEYS) do redis.call('COPY', key, key .. ':old', 'REPLACE') end return 1";
    let restore = "for _, key in ipairs(KEYS) do redis.call('DEL', key) redis.call('COPY', key .. ':old', key) end return 1";
    let run = |world: &World, script: &str| {
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        world.server.query::<u64>(&[&["EVAL", script, "4"], &names[..]].concat());
    };
    run(&world, keep);
    for by in [-10, -10] {
        world.execute(Command::Restock { voucher, by }).await.unwrap();
    }
    agreed(&world, voucher).await;
    // It reads each sale when it starts.
    world.restart_node().await;
    world.admits().await;
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    run(&world, restore);
    world
        .until("it is paused", async || {
            world.store.sale(voucher).await.unwrap().state == SaleState::Paused
        })
        .await;
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial), (SaleState::Paused, 60));
    reported_as_paused(&world).await;
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    world.admits().await;
    assert_eq!(world.buy(voucher, 200).await.admitted, 60);
    world.settled_and_balanced().await;
}

/// The backup has the sale paused, and Redis sells: the pause changes nothing in SQL, and is delivered nonetheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_a_sale_that_sql_has_paused_is_delivered() {
    let (world, voucher) = World::with_sale(100).await;
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    let paused = agreed(&world, voucher).await.version;
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    agreed(&world, voucher).await;
    set_back(&world, paused, paused, 100, SaleState::Paused).await;
    world.server.query::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = world.execute(Command::PauseSale(voucher)).await.unwrap_err();
    assert!(matches!(refused, EngineError::NotLoaded { .. }), "{refused:?}");
    world.server.query::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(agreed(&world, voucher).await.state, SaleState::Paused);
    sells_nothing_more(&world, voucher).await;
}

/// The backup has orders that were closed later, after which their pieces were removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_with_more_orders_than_pieces_can_be_stopped() {
    let (world, voucher) = World::with_sale(100).await;
    assert_eq!(world.buy(voucher, 30).await.admitted, 30);
    world.settled().await;
    world.execute(Command::Restock { voucher, by: -70 }).await.unwrap();
    agreed(&world, voucher).await;
    set_back(&world, 1, 1, 100, SaleState::Running).await;
    world
        .run_sql(
            "CREATE TABLE old AS SELECT * FROM tb_voucher_order LIMIT 10; \
         UPDATE old SET id = id + 1000000, user_id = user_id + 100000; \
         INSERT INTO tb_voucher_order SELECT * FROM old; DROP TABLE old; \
         UPDATE tb_seckill_voucher SET stock = stock - 10",
        )
        .await;
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    let sale = agreed(&world, voucher).await;
    assert_eq!((sale.state, sale.initial, sale.stock), (SaleState::Paused, 40, 0));
    repaired(&world).await;
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 200) }).await;
    assert_eq!(report.admitted, 0, "{report:?}");
    repaired(&world).await;
    world.settled_and_balanced().await;
}

/// The stream and the tally are left of a sale that was paused after the backup: no buyer who was given an order loses it.
#[tokio::test(flavor = "multi_thread")]
async fn buyers_of_a_sale_that_redis_has_lost_keep_their_orders() {
    let (world, voucher) = World::with_sale(100).await;
    assert_eq!(world.buy(voucher, 60).await.admitted, 60);
    world.settled().await;
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    let shard = ShardId::only(voucher);
    let [sale, stock, buyers] =
        [world.keys.sale(shard), world.keys.stock(shard), world.keys.buyers(shard)];
    world.run_sql("DELETE FROM tb_voucher_order WHERE id > (SELECT MIN(id) FROM tb_voucher_order); \
         UPDATE tb_seckill_voucher SET version = 1, delivered_version = 1, state = 'running', stock = 99",
    )
    .await;
    assert_eq!(world.server.query::<u64>(&["DEL", &sale, &stock, &buyers]), 3);
    world
        .until("each order is written again", async || {
            repaired(&world).await;
            world.store.live_orders(shard, None, 99).await.unwrap().len() == 60
        })
        .await;
    let adopted = agreed(&world, voucher).await;
    assert_eq!((adopted.state, adopted.initial, adopted.stock), (SaleState::Paused, 100, 40));
    assert_eq!(world.server.query::<u64>(&["XLEN", &world.keys.home().dead()]), 0);
    world.settled_and_balanced().await;
}

/// The same while no node lived: the entries, which were acknowledged, are all that has the orders.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_entries_keep_orders_that_sql_and_redis_have_lost() {
    for paused in [true, false] {
        let (mut world, voucher) = World::with_sale(100).await;
        assert_eq!(world.buy(voucher, 60).await.admitted, 60);
        world.settled().await;
        // What another program adds is no promise, now or later.
        let (user, id) = ("7777", "627150921728720897");
        world.add_entry(&["userId", user, "voucherId", &voucher.to_string(), "id", id]).await;
        let dead = world.keys.home().dead();
        let letters = async || world.server.query::<u64>(&["XLEN", &dead]);
        world.until("it is a dead letter", async || letters().await == 1).await;
        if paused {
            world.execute(Command::PauseSale(voucher)).await.unwrap();
        }
        world.stop_node().await;
        let shard = ShardId::only(voucher);
        world
            .run_sql(
                "DELETE FROM tb_voucher_order WHERE id NOT IN \
             (SELECT id FROM tb_voucher_order ORDER BY id LIMIT 20); \
             UPDATE tb_seckill_voucher SET version = 1, delivered_version = 1, \
             state = 'running', stock = 80",
            )
            .await;
        let keys = world.keys.sale_keys(shard);
        let lost = [&["DEL"][..], &keys.each_ref().map(String::as_str)].concat();
        assert_eq!(world.server.query::<u64>(&lost), 3);
        world.start_node();
        world
            .until("each order is written again", async || {
                world.store.live_orders(shard, None, 99).await.unwrap().len() == 60
            })
            .await;
        if paused {
            world
                .until("it can be resumed", async || {
                    world.execute(Command::ResumeSale(voucher)).await.is_ok()
                })
                .await;
        }
        let report = world.rush(LoadTest { seed: 9, ..LoadTest::new(voucher, 300) }).await;
        assert_eq!(report.admitted, 40, "{report:?}");
        assert_eq!(world.server.query::<u64>(&["XLEN", &dead]), 1);
        world.settled().await;
        assert_eq!(world.store.live_orders(shard, None, 999).await.unwrap().len(), 100);
        world.balanced().await;
    }
}
