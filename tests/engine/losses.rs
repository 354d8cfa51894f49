//! Parts of Redis or SQL are lost, replaced or set back while nodes run: nothing is sold twice, and the loss is
//! reported.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crate::world::{World, newest, sale};
use redis::cmd;
use seckill_engine::{
    admission::AdmissionError,
    commands::{Command, LoadTest, Reply},
    consumer::order_writer::Writer,
    ledger,
    node::outbox::Outbox,
    orders::vouchers::Vouchers,
    recovery::{
        dead_letters::{LetterScope, classify},
        partition_repair::{self, PartitionFault},
        reconcile::reconcile,
        repair,
    },
    telemetry::snapshot::AlarmKind,
};
use seckill_model::{
    EntryId, Fence, Filter, LetterVerdict, Millis, OrderError, Outcome, SaleAudit, SaleOrder,
    SaleState, ShardId, UserId, VoucherId,
    ledger::{Cure, Finding, SaleKey},
    order_id::utc_day,
};
use seckill_redis::{
    Redis, dead_letters, scripts,
    stream::{self, ReadFrom},
};
use seckill_store::{AuditEntry, fault_injection::Ill};
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio_util::sync::CancellationToken;

async fn findings(world: &World) -> Vec<Finding> {
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    audit.findings().map(|found| found.what).collect()
}

/// Repairs like `audit --repair`; returns the repairs.
async fn repaired(world: &World) -> Vec<Cure> {
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    let cures = plan.iter().flat_map(SaleAudit::cures).collect();
    for sale in &plan {
        repair::apply(&mut world.servers(), sale).await.unwrap();
    }
    cures
}

/// Waits until the activity log reports the loss.
async fn named(world: &World, lost: &str) {
    world
        .until("the log names what was lost", async || {
            let entries = newest(&world.store, 50).await;
            entries
                .iter()
                .any(|entry| entry.action == "redis reconciled" && entry.result.contains(lost))
        })
        .await;
}

async fn sql(world: &World, text: &'static str) {
    let url = format!("sqlite:{}", world.database().display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    other.execute("PRAGMA foreign_keys = OFF").await.unwrap();
    other.execute(text).await.unwrap();
    other.close().await.unwrap();
}

fn rush(voucher: VoucherId, users: u64) -> LoadTest {
    LoadTest { repeat: 0.0, ..LoadTest::new(voucher, users) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_whose_keys_are_deleted_in_a_rush_is_loaded_again_and_sells_what_is_left() {
    let (world, voucher) = World::with_sale(3_000).await;
    let (stock, hash) =
        (world.keys.stock(ShardId::only(voucher)), world.keys.sale(ShardId::only(voucher)));
    let deleting = async {
        world
            .until("some are sold", async || world.server.query::<i64>(&["GET", &stock]) < 2_500)
            .await;
        let _: u64 = world.server.query(&["DEL", &stock, &hash]);
    };
    let plan = LoadTest { rate: Some(8_000.0), ..rush(voucher, 6_000) };
    let (report, ()) = tokio::join!(world.rush(plan), deleting);
    assert_eq!((report.admitted, report.errors, report.dead), (3_000, 0, 0), "{report:?}");
    named(&world, &stock).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_buyers_are_not_admitted_a_second_time() {
    let (world, voucher) = World::with_sale(2_000).await;
    world.hold().await;
    let first = world.rush(LoadTest { settle: false, ..rush(voucher, 1_000) }).await;
    assert_eq!(first.admitted, 1_000);
    // Some orders are in SQL, the others in the stream.
    world.release().await;
    let buyers = world.keys.buyers(ShardId::only(voucher));
    let _: u64 = world.server.query(&["DEL", &buyers]);
    let again = world.rush(rush(voucher, 1_000)).await;
    assert_eq!((again.admitted, again.duplicate), (0, 1_000), "{again:?}");
    named(&world, &buyers).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_or_value_is_repaired_before_the_next_admission() {
    let (world, voucher) = World::with_sale(100).await;
    let (stock, tally) =
        (world.keys.stock(ShardId::only(voucher)), world.keys.tally(ShardId::only(voucher)));
    let mut user = 0;
    for spoil in [
        vec!["SET", stock.as_str(), "9999999999999999999999999"],
        vec!["SET", stock.as_str(), "90000"],
        vec!["SET", tally.as_str(), "x"],
    ] {
        let _: () = world.server.query(&spoil);
        for _ in 0..20 {
            user += 1;
            let outcome = world.ask(voucher, user).await;
            assert!(matches!(outcome, Outcome::Admitted { .. }), "{spoil:?}: {outcome:?}");
        }
        assert_eq!(world.server.query::<u64>(&["GET", &stock]), 100 - user, "{spoil:?}");
    }
    named(&world, &tally).await;
    world.settled_and_balanced().await;
}

/// A script is not rolled back if it fails, so it must check its permissions first.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_user_without_permissions_loses_no_order() {
    let (mut world, voucher) = World::with_sale(10).await;
    world.settled().await;
    world.stop_node().await;
    let _: () = world
        .server
        .query(&["ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all", "-decrby"]);
    let full = world.redis.clone();
    let url = world.server.url();
    world.redis = Redis::from_url(&format!("{url}?user=weak&pass=secret")).unwrap();
    world.start_node();
    let admission = world.node().operator().admission.clone().unwrap();
    let answer = admission.request(voucher, UserId(1)).answer().await.outcome;
    assert!(answer.is_err_and(|error| error.to_string().contains("NOPERM")));
    world.stop_node().await;
    world.redis = full;
    assert!(world.buyers(voucher).is_empty());
    assert_eq!(world.server.query::<u64>(&["XLEN", &world.keys.home().orders()]), 0);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_stream_costs_no_order() {
    let (world, voucher) = World::with_sale(500).await;
    world.hold().await;
    world.rush(LoadTest { settle: false, ..rush(voucher, 300) }).await;
    let orders = world.keys.home().orders();
    let _: u64 = world.server.query(&["DEL", &orders]);
    world.release().await;
    named(&world, &orders).await;
    world
        .until("all are written", async || world.store.sale(voucher).await.unwrap().stock == 200)
        .await;
    assert!(matches!(world.ask(voucher, 301).await, Outcome::Admitted { .. }));
    world.settled_and_balanced().await;
}

/// Redis sells neither a version that it missed nor one whose operator died midway.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_counts_the_buyers_of_a_sale_whose_stock_is_lost() {
    let (mut world, voucher) = World::with_sale(10).await;
    world.rush(rush(voucher, 3)).await;
    world.stop_node().await;
    let _: u64 = world.server.query(&["DEL", &world.keys.stock(ShardId::only(voucher))]);
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    let [sale] = audit.sales.as_slice() else { panic!("{audit:?}") };
    assert_eq!((sale.stock, sale.admitted, sale.persisted), (None, 3, 3), "{sale:?}");
    assert_eq!(sale.findings, [Finding::Damaged(SaleKey::Stock)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_lost_without_a_node_is_found_and_reconciled() {
    let (mut world, voucher) = World::with_sale(10).await;
    world.rush(rush(voucher, 3)).await;
    world.stop_node().await;
    let home = world.keys.home();
    let _: u64 = world.server.query(&["DEL", &home.orders()]);
    let found = partition_repair::faults(&mut world.servers(), &home).await.unwrap();
    assert_eq!(found, [PartitionFault::Lost(home.orders())]);
    let outbox = Outbox::default();
    let done = partition_repair::reconcile_streams(&mut world.servers(), &outbox, "cli").await;
    assert_eq!(done.unwrap(), (1, 0), "every order was in SQL");
    assert_eq!(partition_repair::faults(&mut world.servers(), &home).await.unwrap(), []);
    assert!(outbox.waiting()[0].result.contains(&home.orders()));
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_published_at_once_and_written_for_a_node_that_died_first() {
    let (world, voucher) = World::with_sale(10).await;
    world.rush(rush(voucher, 3)).await;
    let (lock, losses) = (world.lock_database().await, world.keys.home().losses());
    let _: u64 = world.server.query(&["DEL", &world.keys.tally(ShardId::only(voucher))]);
    let published = || world.server.query::<Vec<String>>(&["HVALS", &losses]).join("");
    world.until("the loss is published", async || published().contains("tally")).await;
    // The state left by a node that was killed before the database was free.
    let mut left: serde_json::Value = serde_json::from_str(&published()).unwrap();
    left[0][3] = "left by a dead node".into();
    let _: u64 = world.server.query(&["HSET", &losses, "dead", &left.to_string()]);
    lock.close().await.unwrap();
    world
        .until("a live node writes the event", async || {
            let entries = newest(&world.store, 50).await;
            entries.iter().any(|entry| entry.action == "redis reconciled" && entry.node == "dead")
        })
        .await;
    let entries = newest(&world.store, 50).await;
    assert_eq!(
        entries.iter().filter(|entry| entry.action == "redis reconciled").count(),
        2,
        "{entries:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tally_that_is_lost_and_a_watermark_that_is_set_back_are_named() {
    let (world, voucher) = World::with_sale(3_000).await;
    let (tally, watermark) =
        (world.keys.tally(ShardId::only(voucher)), world.keys.home().watermark());
    world.rush(rush(voucher, 500)).await;
    let older: HashMap<String, String> = world.server.query(&["HGETALL", &watermark]);
    world.rush(rush(voucher, 1_000)).await;
    let _: u64 = world.server.query(&["DEL", &tally]);
    named(&world, &tally).await;
    let admitted: u64 = world.server.query(&["HGET", &tally, "admitted"]);
    let buyers: u64 = world.server.query(&["HLEN", &world.keys.buyers(ShardId::only(voucher))]);
    assert_eq!(admitted, buyers - 1, "one field is no buyer");

    // At rest, where the check of the node finds it, and under load, where the next batch does.
    for users in [0, 2_500] {
        let set_back = async {
            world
                .until("the rush goes on", async || {
                    let sold = world
                        .server
                        .query::<u64>(&["HLEN", &world.keys.buyers(ShardId::only(voucher))]);
                    users == 0 || sold > buyers + 100
                })
                .await;
            let mut write = vec!["HSET", watermark.as_str()];
            for (field, value) in &older {
                write.extend([field.as_str(), value]);
            }
            let _: u64 = world.server.query(&write);
        };
        if users == 0 {
            set_back.await;
        } else {
            let plan = LoadTest { rate: Some(1_500.0), ..rush(voucher, users) };
            tokio::join!(world.rush(plan), set_back);
        }
        world
            .until("the log names the watermark again", async || {
                let entries = newest(&world.store, 50).await;
                let names = |entry: &&AuditEntry| entry.result.contains(&watermark);
                entries.iter().filter(names).count() == if users == 0 { 1 } else { 2 }
            })
            .await;
    }
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_change_that_redis_missed_is_delivered_by_a_node() {
    let (world, voucher) = World::with_sale(100).await;
    world.ask(voucher, 1).await;
    let refuse = |yes: &str| {
        let _: () = world.server.query(&["CONFIG", "SET", "min-replicas-to-write", yes]);
    };
    refuse("1");
    let error = world.execute(Command::EndSale(voucher)).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("is committed"), "{error}");
    assert!(world.store.sale(voucher).await.unwrap().is_undelivered());
    world
        .until("the alarm is open", async || {
            let snapshot = world.node().remote().snapshots.borrow().clone();
            snapshot.alarms.iter().any(
                |it| matches!(&it.kind, AlarmKind::Undelivered { sales } if sales[..] == [voucher]),
            )
        })
        .await;
    refuse("0");
    world
        .until("Redis has confirmed it", async || {
            !world.store.sale(voucher).await.unwrap().is_undelivered()
        })
        .await;
    assert_eq!(world.ask(voucher, 2).await, Outcome::Ended);

    // The process that changed the sale died between its commit and the update of Redis.
    let voucher = world.create(sale(100)).await;
    assert!(matches!(world.ask(voucher, 1).await, Outcome::Admitted { .. }));
    world.store.set_state(voucher, SaleState::Paused, None, &[]).await.unwrap();
    world.until("it is paused", async || world.ask(voucher, 2).await == Outcome::Paused).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_sale_that_an_older_copy_brings_back_sells_nothing() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.rush(rush(voucher, 60)).await;
    world.settled().await;
    let keys = [
        world.keys.sale(ShardId::only(voucher)),
        world.keys.stock(ShardId::only(voucher)),
        world.keys.buyers(ShardId::only(voucher)),
    ];
    let mut redis = world.server.connection();
    let old: Vec<Vec<u8>> =
        keys.iter().map(|key| cmd("DUMP").arg(key).query(&mut redis).unwrap()).collect();
    world.execute(Command::EndSale(voucher)).await.unwrap();
    world.store.set_state(voucher, SaleState::Archived, None, &[]).await.unwrap();
    world
        .until("it has left Redis", async || {
            let is_delivered = world.store.undelivered().await.unwrap().is_empty();
            is_delivered && world.server.query::<u64>(&["EXISTS", &keys[0], &keys[2]]) == 0
        })
        .await;
    world.stop_node().await;
    for (key, old) in keys.iter().zip(&old) {
        cmd("RESTORE").arg(key).arg(0).arg(old).exec(&mut redis).unwrap();
    }
    assert_eq!(findings(&world).await, [Finding::StillHeld]);
    world.start_node();
    assert_eq!(world.ask(voucher, 1_000).await, Outcome::Ended);
    named(&world, "1 archived sale removed").await;
    assert!(findings(&world).await.is_empty());
}

/// A consumer read the entries of a shard by the ID that it had in an earlier version, and its keys were renamed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn orders_in_hand_of_a_lost_sale_belong_to_the_shard_that_sold_them() {
    let mut world = World::spread(4, |_| {}).await;
    let voucher = world.create(sale(40).sharded(4).unwrap()).await;
    world.buy(voucher, 40).await;
    world.settled().await;
    world.stop_node().await;
    let shard = ShardId { sale: voucher.into(), number: 2 };
    let former = VoucherId(voucher.0 + 2);
    let order = world.store.live_orders(shard, None, 1).await.unwrap().remove(0);
    let promise = SaleOrder { voucher_id: former, shard: 0, ..order };
    let key = world.keys.sale(shard);
    assert_eq!(world.server.query::<u64>(&["HSET", &key, "former", &former.to_string()]), 1);
    let lose = "DELETE FROM tb_voucher_order; DELETE FROM tb_shard_stock; DELETE FROM tb_seckill_voucher; \
                DELETE FROM tb_voucher";
    sql(&world, lose).await;
    let of = world.keys.partition_of(shard);
    let done = reconcile(&mut world.servers(), &of, &[promise], "a test").await.unwrap();
    assert_eq!((done.refused, done.restored), (0, 0), "{done:?}");
    assert_eq!(world.server.query::<u64>(&["XLEN", &of.dead()]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sales_missing_from_a_restored_database_are_taken_over_from_redis() {
    let (mut world, one) = World::with_sale(10).await;
    let two = world.create(sale(700)).await;
    world.rush(rush(two, 600)).await;
    world.execute(Command::Restock { voucher: two, by: 50 }).await.unwrap();
    world.settled().await;
    world.stop_node().await;
    sql(
        &world,
        "DELETE FROM tb_voucher_order; DELETE FROM tb_seckill_voucher WHERE voucher_id = 2; \
         DELETE FROM tb_voucher WHERE id = 2; UPDATE sqlite_sequence SET seq = 1 WHERE name = 'tb_voucher'",
    )
    .await;
    assert!(findings(&world).await.contains(&Finding::NotInSql));
    world.start_node();
    let three = world.create(sale(50)).await;
    assert!(three > two && two > one, "no number is given twice");
    assert!(repaired(&world).await.contains(&Cure::Adopt));
    world.settled_and_balanced().await;
    let adopted = world.store.sale(two).await.unwrap();
    assert_eq!((adopted.initial, adopted.stock, adopted.version), (750, 150, 3));
    let report = world.rush(LoadTest { seed: 2, ..rush(two, 1_000) }).await;
    assert_eq!((report.duplicate, report.admitted), (600, 150), "{report:?}");
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversold_sale_blocks_no_other_sale_after_a_restart() {
    let (mut world, oversold) = World::with_sale(10).await;
    let sound = world.create(sale(10)).await;
    world.rush(rush(oversold, 10)).await;
    let _: u64 =
        world.server.query(&["HSET", &world.keys.buyers(ShardId::only(oversold)), "999", "77"]);
    world.server.kill();
    world.server.restart();
    world.until("the sound sale admits", async || world.obtains(sound, 1).await).await;
    assert!(!world.obtains(oversold, 2_000).await, "it stays closed");
}

/// A node checks the keys twice a second.
async fn checked_again(world: &World) {
    let calls = || {
        let stats: String = world.server.query(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|it| it.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
        line.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let before = calls();
    world.until("the node has checked the keys", async || calls() > before + 20).await;
}

/// Each change of a sale raises its number, and each reconciliation.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversold_sale_is_rebuilt_once_and_refuses_at_once() {
    let (world, voucher) = World::with_sale(10).await;
    world.rush(rush(voucher, 10)).await;
    world.settled().await;
    let (sale, buyers) =
        (world.keys.sale(ShardId::only(voucher)), world.keys.buyers(ShardId::only(voucher)));
    let _: u64 = world.server.query(&["HSET", &buyers, "999", "77"]);
    let is_closed = || world.server.query::<bool>(&["HEXISTS", &sale, "oversold"]);
    // What the node has promised lately is compared with it again.
    world.until("it is closed", async || !world.obtains(voucher, 2_000).await && is_closed()).await;
    let mut seq = String::new();
    world
        .until("it is not rebuilt", async || {
            let before = std::mem::replace(&mut seq, world.server.query(&["HGET", &sale, "seq"]));
            checked_again(&world).await;
            before == seq && world.server.query::<String>(&["HGET", &sale, "seq"]) == seq
        })
        .await;
    let asked = std::time::Instant::now();
    let admission = world.node().operator().admission.clone().unwrap();
    let answer = admission.request(voucher, UserId(3_000)).answer().await.outcome;
    assert!(matches!(answer, Err(AdmissionError::Rejected(_))), "{answer:?}");
    assert!(asked.elapsed() < Duration::from_secs(2));
    // A change of it reaches Redis nevertheless, and opens it.
    world.execute(Command::Restock { voucher, by: 5 }).await.unwrap();
    world.until("it sells again", async || world.obtains(voucher, 4_000).await).await;
    assert!(!is_closed());
}

/// The reconciliation of another process began before the change, and no node corrects that.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_meets_a_reconciliation_is_delivered_after_it() {
    let (mut world, voucher) = World::with_sale(10).await;
    world.admits().await;
    world.stop_node().await;
    let sale = world.store.sale(voucher).await.unwrap();
    let mut conn = world.redis.connection();
    let run = conn.run_id(&world.keys.sale(ShardId::only(voucher))).await.unwrap();
    let (keys, tally) =
        (world.keys.sale_keys(ShardId::only(voucher)), world.keys.tally(ShardId::only(voucher)));
    let mut begin = scripts::RECONCILE_BEGIN.prepare_invoke();
    begin.key(&keys).key(&tally).arg("another process").arg(20_000).arg(&run);
    begin.arg(sale.version).arg(&sale.title).arg(0).arg(0).arg("running").arg(sale.initial);
    begin.arg(sale.limit).arg(sale.created.0).arg("always").arg("");
    let begun: Vec<String> = conn.invoke(&begin).await.unwrap();
    assert_eq!(begun.first().map(String::as_str), Some("begun"));
    let mut servers = world.servers();
    let pausing = tokio::spawn(async move {
        Vouchers { servers: &mut servers }.set_state(voucher, SaleState::Paused, None).await
    });
    let is_paused = async || world.store.sale(voucher).await.unwrap().state == SaleState::Paused;
    world.until("SQL has the change", is_paused).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!pausing.is_finished());
    let mut end = scripts::RECONCILE_END.prepare_invoke();
    end.key(&keys).key(world.keys.home().watermark()).key(&tally);
    end.arg("another process").arg(&run).arg(voucher.0);
    let _: redis::Value = conn.invoke(&end).await.unwrap();
    pausing.await.unwrap().unwrap();
    assert_eq!(
        world.server.query::<String>(&["HGET", &world.keys.sale(ShardId::only(voucher)), "state"]),
        "paused"
    );
    assert!(!world.store.sale(voucher).await.unwrap().is_undelivered());
    world.balanced().await;
}

/// Its promises are kept for 30 s; other sales must not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn promises_of_a_sale_lost_on_both_servers_block_no_other_sale() {
    let (world, sound) = World::with_sale(10).await;
    let lost = world.create(sale(10)).await;
    world.rush(rush(lost, 10)).await;
    world.settled().await;
    sql(
        &world,
        "DELETE FROM tb_voucher_order; DELETE FROM tb_seckill_voucher WHERE voucher_id = 2; \
         DELETE FROM tb_voucher WHERE id = 2",
    )
    .await;
    let _: () = world.server.query(&["FLUSHALL"]);
    let admits = world.until("the sound sale admits", async || world.obtains(sound, 1).await);
    tokio::time::timeout(Duration::from_secs(15), admits).await.expect("it need not wait for them");
}

/// The number of entries alone does not show that one is lost and another forged.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_entry_in_the_place_of_a_lost_one_is_not_written() {
    let (mut world, voucher) = World::with_sale(20).await;
    world.rush(rush(voucher, 5)).await;
    world.settled().await;
    world.stop_node().await;
    let orders = world.keys.home().orders();
    let _: u64 = world.server.query(&["DEL", &orders]);
    let v = voucher.to_string();
    for user in ["901", "902", "903", "904", "905"] {
        let id = format!("{user}000");
        world.add_entry(&["userId", user, "voucherId", &v, "id", &id]).await;
    }
    world.start_node();
    world
        .until("they are dead letters", async || {
            world.server.query::<u64>(&["XLEN", &world.keys.home().dead()]) == 5
        })
        .await;
    named(&world, &orders).await;
    world.settled_and_balanced().await;
    assert_eq!(world.store.live_orders(ShardId::only(voucher), None, 99).await.unwrap().len(), 5);
}

/// Eight buyers admitted by a node that has died since, with their entries pending at a consumer that waits for a
/// locked SQL, and a sale that has lost its buyers and its stream.
async fn lost_while_in_hand(world: &World, takes: impl AsyncFnOnce()) -> VoucherId {
    let voucher = world.create(sale(9)).await;
    let other = world.another_node("node-2");
    let promising = other.operator().admission.clone().unwrap();
    let ask = async |user| promising.request(voucher, UserId(user)).answer().await.outcome.unwrap();
    world
        .until("the other node admits", async || {
            matches!(ask(1).await, Outcome::Admitted { .. } | Outcome::Duplicate { .. })
        })
        .await;
    world.settled().await;
    world.until("its consumer is held", async || other.hold_consumer(true).await).await;
    world.hold().await;
    for user in 2..=9 {
        assert!(matches!(ask(user).await, Outcome::Admitted { .. }), "user {user}");
    }
    let refuse = "CREATE TRIGGER refuses BEFORE INSERT ON tb_voucher_order \
                  BEGIN SELECT * FROM no_such_table; END";
    sql(world, refuse).await;
    takes().await;
    world.until("the entries are in hand", async || world.pending().await == 8).await;
    // The only one that remembers them.
    other.stop().await;
    let keys = [world.keys.buyers(ShardId::only(voucher)), world.keys.home().orders()];
    let _: u64 = world.server.query(&["DEL", &keys[0], &keys[1]]);
    world
        .until("the sale is rebuilt", async || {
            let known = world.server.query::<u64>(&["HLEN", &keys[0]]) > 1;
            known
                && !world.server.query::<bool>(&[
                    "HEXISTS",
                    &world.keys.sale(ShardId::only(voucher)),
                    "restoring",
                ])
        })
        .await;
    voucher
}

/// All orders are written once the database is free, and each buyer gets their order ID.
async fn each_has_an_order(world: &World, voucher: VoucherId) {
    world
        .until("all are written", async || {
            world.store.live_orders(ShardId::only(voucher), None, 99).await.unwrap().len() == 9
        })
        .await;
    world.until("each has its buyer", async || findings(world).await.is_empty()).await;
    for user in 2..=9 {
        assert!(matches!(world.ask(voucher, user).await, Outcome::Duplicate { .. }), "user {user}");
    }
}

/// Neither SQL nor the stream nor a journal knows of them, only the consumers: their pieces are not sold again,
/// whichever node notices first.
#[tokio::test(flavor = "multi_thread")]
async fn orders_pending_at_consumers_are_not_sold_again() {
    // Each consumer holds a batch, and the one that it has read ahead.
    let world = World::with(|settings| settings.consumer_batch = 2).await;
    let mut third = None;
    let takes = async || {
        world.release().await;
        world.until("one holds its half", async || world.pending().await == 4).await;
        third = Some(world.another_node("node-3"));
    };
    let voucher = lost_while_in_hand(&world, takes).await;
    for user in 11..=18 {
        assert_eq!(world.ask(voucher, user).await, Outcome::SoldOut, "user {user}");
    }
    sql(&world, "DROP TRIGGER refuses").await;
    each_has_an_order(&world, voucher).await;
    let dead = world.keys.home().dead();
    assert_eq!(world.server.query::<u64>(&["XLEN", &dead]), 0, "no dead letter is needed");
    third.unwrap().stop().await;
}

/// Another process, a replay for example, writes its batch after the sale was rebuilt without it.
#[tokio::test(flavor = "multi_thread")]
async fn orders_that_are_written_after_their_sale_was_rebuilt_have_their_buyers() {
    let world = World::start().await;
    let (of, mut conn) = (world.keys.home(), world.redis.connection());
    let mut writer = Writer::new(world.servers());
    let (mut writing, stop) = (None, CancellationToken::new());
    let takes = async || {
        let from = ReadFrom::New(Duration::from_millis(1));
        let batch = stream::read_group(&mut conn, &of, "replay/1", from, 99).await.unwrap();
        writing = Some(tokio::spawn(async move { writer.settle(batch, &stop).await }));
    };
    let voucher = lost_while_in_hand(&world, takes).await;
    sql(&world, "DROP TRIGGER refuses").await;
    assert_eq!(writing.unwrap().await.unwrap().unwrap().persisted, 8);
    world.release().await;
    each_has_an_order(&world, voucher).await;
}

/// A buyer whose loss was not noticed is admitted a second time, and SQL refuses the second order.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_beside_another_live_one_of_its_buyer_is_cancelled_or_repaired() {
    let (world, voucher) = World::with_sale(20).await;
    assert_eq!(world.rush(rush(voucher, 2)).await.admitted, 2);
    world.settled().await;
    let (key, v) = (world.keys.buyers(ShardId::only(voucher)), voucher.to_string());
    let firsts = world.buyers(voucher);
    for (user, id) in [("1", "777001"), ("2", "777002")] {
        let _: u64 = world.server.query(&["HSET", &key, user, id]);
        world.add_entry(&["userId", user, "voucherId", &v, "id", id]).await;
    }
    world
        .until("they are dead letters", async || {
            world.server.query::<u64>(&["XLEN", &world.keys.home().dead()]) == 2
        })
        .await;
    let mut conn = world.redis.connection();
    let of = world.keys.home();
    let letters = dead_letters::read(&mut conn, &of, EntryId::MIN, 9).await.unwrap();
    let found = classify(&mut world.servers(), 3, letters.clone()).await.unwrap();
    assert!(found.iter().all(|it| it.verdict == LetterVerdict::HoldsAnother), "{found:?}");
    let one = LetterScope::Letters(vec![letters[0].letter]);
    let discard = Command::DiscardLetters { scope: one, compensate: true };
    let Reply::LettersDiscarded(done) = world.execute(discard).await.unwrap() else { panic!() };
    assert_eq!((done.discarded, done.compensated), (1, 1), "{done:?}");
    assert_eq!(repaired(&world).await, [Cure::Reconcile]);
    assert!(findings(&world).await.is_empty());
    assert_eq!(world.buyers(voucher), firsts, "each buyer holds the order that SQL has");
    assert_eq!(world.server.query::<u64>(&["GET", &world.keys.stock(ShardId::only(voucher))]), 18);
}

/// A key of another type at a place that is read before anything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_key_of_another_type_is_rewritten() {
    let (mut world, voucher) = World::with_sale(20).await;
    world.stop_node().await;
    let key = world.keys.deployment();
    let _: u64 = world.server.query(&["DEL", &key]);
    let _: u64 = world.server.query(&["RPUSH", &key, "x"]);
    world.start_node();
    assert_eq!(world.rush(rush(voucher, 2)).await.admitted, 2);
}

/// An error that each order has proves nothing about one: the batch waits, which is an event, and goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn orders_wait_for_a_database_that_refuses_them_for_an_unknown_reason() {
    let (world, voucher) = World::with_sale(20).await;
    sql(
        &world,
        "CREATE TRIGGER broken BEFORE INSERT ON tb_voucher_order \
         BEGIN SELECT * FROM no_such_table; END",
    )
    .await;
    for user in 1..=5 {
        assert!(matches!(world.ask(voucher, user).await, Outcome::Admitted { .. }), "user {user}");
    }
    let event = async |what: &str| {
        let entries = newest(&world.store, 50).await;
        entries.iter().any(|entry| entry.action == what)
    };
    world.until("it is an event", async || event("orders wait").await).await;
    sql(&world, "DROP TRIGGER broken").await;
    let all = world.until("all are written", async || {
        world.store.live_orders(ShardId::only(voucher), None, 9).await.unwrap().len() == 5
    });
    tokio::time::timeout(Duration::from_secs(15), all).await.expect("it is asked again soon");
    world.until("so is its end", async || event("orders written").await).await;
    world.settled_and_balanced().await;
}

/// Both keys that know how many numbers of the day are leased are lost within one second of a rush.
#[tokio::test(flavor = "multi_thread")]
async fn no_order_id_is_issued_twice_when_all_counters_are_lost() {
    let (world, voucher) = World::with_sale(5_000).await;
    assert_eq!(world.rush(rush(voucher, 2_000)).await.admitted, 2_000);
    let of = world.keys.home();
    let counter = of.sequence(utc_day(Millis::now().0 / 1_000));
    let _: u64 = world.server.query(&["DEL", &counter, &of.watermark()]);
    // A process of its own, which knows of no lease.
    let other = world.another_node("node-2");
    let admission = other.operator().admission.clone().unwrap();
    world
        .until("the other node admits", async || {
            let answer = admission.request(voucher, UserId(9_000)).answer().await;
            matches!(answer.outcome, Ok(Outcome::Admitted { .. } | Outcome::Duplicate { .. }))
        })
        .await;
    for user in 9_001..9_100 {
        let answer = admission.request(voucher, UserId(user)).answer().await;
        assert!(matches!(answer.outcome, Ok(Outcome::Admitted { .. })), "{answer:?}");
    }
    world.settled_and_balanced().await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &of.dead()]), 0);
    // IDs of different seconds differ whatever their numbers are, and these may be of the same one.
    let orders = world.store.live_orders(ShardId::only(voucher), None, 9_999).await.unwrap();
    let numbers: HashSet<u64> = orders.iter().map(|it| it.id.get() & 0xffff_ffff).collect();
    assert_eq!(numbers.len(), orders.len(), "a number of the day was issued twice");
    other.stop().await;
}

/// SQL is set back while the nodes live, and the number is given to another sale.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_replaces_a_newer_version_is_sold_by_all_nodes() {
    let (world, voucher) = World::with_sale(20).await;
    for _ in 0..3 {
        world.execute(Command::Restock { voucher, by: 5 }).await.unwrap();
    }
    world.rush(rush(voucher, 1)).await;
    world.settled().await;
    sql(
        &world,
        "DELETE FROM tb_voucher_order; UPDATE tb_seckill_voucher \
         SET initial_stock = 10, stock = 10, version = 1, delivered_version = 0, create_time = create_time + 1",
    )
    .await;
    // The audit reads SQL itself; a buyer that comes before the node has seen it is admitted by the old sale.
    let key = world.keys.sale(ShardId::only(voucher));
    world
        .until("a node that lives closes it", async || {
            world.server.query::<bool>(&["HEXISTS", &key, "restoring"])
        })
        .await;
    assert!(!world.obtains(voucher, 2_000).await, "a closed sale admits no buyer");
    // A change is one of the sale in SQL, which adopts nothing of the other.
    for (change, state) in [
        (Command::PauseSale as fn(VoucherId) -> Command, SaleState::Paused),
        (Command::ResumeSale, SaleState::Running),
    ] {
        let refused = world.execute(change(voucher)).await.unwrap_err();
        assert!(matches!(refused, seckill_engine::EngineError::OtherSale(_)), "{refused:?}");
        let sale = world.store.sale(voucher).await.unwrap();
        assert_eq!((sale.state, sale.initial), (state, 10));
    }
    assert_eq!(findings(&world).await, [Finding::OtherSale]);
    repaired(&world).await;
    world.until("it is sold", async || world.obtains(voucher, 3_000).await).await;
    world.settled().await;
    // While the node remembers its promise of the replaced sale, that order is enqueued again and becomes a dead letter.
    let scope = LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX };
    let discard = Command::DiscardLetters { scope, compensate: true };
    let Reply::LettersDiscarded(discarded) = world.execute(discard).await.unwrap() else {
        panic!("no report");
    };
    assert!(discarded.seen <= 1 && discarded.seen == discarded.discarded, "{discarded:?}");
    world.settled_and_balanced().await;
    assert_eq!(world.store.sale(voucher).await.unwrap().initial, 10);
}

/// Admission looks at the keys of a sale alone, and those of another sale may agree with one another.
#[tokio::test(flavor = "multi_thread")]
async fn a_different_sale_under_the_same_id_admits_no_buyer_and_blocks_no_other_sale() {
    let (mut world, other) = World::with_sale(20).await;
    let sound = world.create(sale(10)).await;
    world.rush(rush(other, 10)).await;
    world.settled().await;
    let key = world.keys.sale(ShardId::only(other));
    let _: u64 = world.server.query(&["HSET", &key, "created", "1"]);
    world
        .until("a node that lives closes it", async || {
            world.server.query::<bool>(&["HEXISTS", &key, "restoring"])
        })
        .await;
    world.stop_node().await;
    world.server.flush_file();
    world.server.kill();
    world.server.restart();
    world.start_node();
    world.until("the sound sale admits", async || world.obtains(sound, 1).await).await;
    assert!(!world.obtains(other, 2_000).await, "the other sale is closed");
    assert_eq!(findings(&world).await, [Finding::OtherSale]);
    assert_eq!(repaired(&world).await, [Cure::Replace]);
    assert!(findings(&world).await.is_empty());
    world.until("the sale of SQL admits", async || world.obtains(other, 2_000).await).await;
    assert_eq!(world.server.query::<u64>(&["HGET", &format!("{key}:replaced"), "created"]), 1);
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_sql_has_in_an_older_version_is_not_changed_behind_redis() {
    let (world, voucher) = World::with_sale(100).await;
    world.execute(Command::Restock { voucher, by: 20 }).await.unwrap();
    world.rush(rush(voucher, 110)).await;
    world.settled().await;
    sql(
        &world,
        "DELETE FROM tb_voucher_order WHERE user_id > 40; \
         UPDATE tb_seckill_voucher SET initial_stock = 100, stock = 60, version = 1, delivered_version = 1",
    )
    .await;
    let found = findings(&world).await;
    assert!(found.contains(&Finding::Ahead(1)) && found.contains(&Finding::Lost(70)), "{found:?}");
    repaired(&world).await;
    world.settled_and_balanced().await;
    let sale = world.store.sale(voucher).await.unwrap();
    assert_eq!((sale.initial, sale.stock, sale.version), (120, 10, 3));
}

/// Without a slot in Redis no buyer gets a row, even with a well-formed entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_entry_is_never_written_and_costs_no_buyer_anything() {
    let (world, voucher) = World::with_sale(20).await;
    assert_eq!(world.rush(rush(voucher, 10)).await.admitted, 10);
    let v = voucher.to_string();
    for (user, id, place) in [("7", "4242", "2"), ("4711", "4243", "1"), ("4712", "0", "1")] {
        world.add_entry(&["userId", user, "voucherId", &v, "id", id, "place", place]).await;
    }
    world
        .until("they are dead letters", async || {
            world.server.query::<u64>(&["XLEN", &world.keys.home().dead()]) == 3
        })
        .await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let dead = dead_letters::read(&mut conn, &of, EntryId::MIN, 9).await.unwrap();
    for letter in &dead {
        assert_eq!(letter.reason.data::<OrderError>(), Some(OrderError::NotPromised), "{letter:?}");
    }
    // A replay adds them again, and still no buyer holds them.
    assert_eq!(
        dead_letters::replay(&mut conn, &of, &dead.iter().collect::<Vec<_>>()).await.unwrap(),
        3
    );
    world
        .until("they are dead letters again", async || {
            world.server.query::<u64>(&["XLEN", &of.dead()]) == 3
        })
        .await;
    assert_eq!(world.rush(LoadTest { seed: 2, ..rush(voucher, 20) }).await.persisted, 10);
    world.settled_and_balanced().await;
    assert!(repaired(&world).await.is_empty(), "there is nothing to repair");
    assert_eq!(world.store.live_orders(ShardId::only(voucher), None, 99).await.unwrap().len(), 20);
}

/// An entry without a buyer waits while the buyers are not known, and is written once they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_waits_while_its_buyer_is_lost() {
    let (mut world, voucher) = World::with_sale(50).await;
    world.hold().await;
    assert_eq!(world.rush(LoadTest { settle: false, ..rush(voucher, 30) }).await.admitted, 30);
    world.stop_node().await;
    let _: u64 = world.server.query(&["DEL", &world.keys.buyers(ShardId::only(voucher))]);
    // Any of the entries may be forged.
    let watermark = world.keys.home().watermark();
    assert_eq!(world.server.query::<u64>(&["HDEL", &watermark, "unverified_until"]), 1);
    world.start_node();
    world
        .until("all are written", async || world.store.sale(voucher).await.unwrap().stock == 20)
        .await;
    world.settled().await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &world.keys.home().dead()]), 0);
    world.balanced().await;
}

/// The audit finds lost give-backs that are too old to be repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_set_back_by_more_than_an_hour_is_found_and_repaired() {
    let (mut world, voucher) = World::with_sale(20).await;
    world.rush(rush(voucher, 20)).await;
    world.settled().await;
    let keys = [
        world.keys.sale(ShardId::only(voucher)),
        world.keys.stock(ShardId::only(voucher)),
        world.keys.buyers(ShardId::only(voucher)),
    ];
    let mut redis = world.server.connection();
    let old: Vec<Vec<u8>> =
        keys.iter().map(|key| cmd("DUMP").arg(key).query(&mut redis).unwrap()).collect();
    let (fence, stop) = (Fence { name: "close".into(), token: 1 }, CancellationToken::new());
    let later = Millis::now().plus(3_600_000);
    seckill_engine::orders::payment::close_overdue(
        &mut world.servers(),
        later,
        Millis::now(),
        &fence,
        &stop,
    )
    .await
    .unwrap();
    world.store.forget_give_backs(later).await.unwrap();
    world.stop_node().await;
    for (key, old) in keys.iter().zip(&old) {
        cmd("RESTORE").arg(key).arg(0).arg(old).arg("REPLACE").exec(&mut redis).unwrap();
    }
    assert_eq!(findings(&world).await, [Finding::Kept(20)]);
    assert_eq!(repaired(&world).await, [Cure::GiveBack]);
    assert!(findings(&world).await.is_empty());
    assert_eq!(world.server.query::<u64>(&["GET", &keys[1]]), 20);
}

/// Two processes that notice at once do not stand in each other's way, and a third that died half-way is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn several_nodes_notice_a_loss_at_once() {
    let world = World::start().await;
    let others = [world.another_node("node-2"), world.another_node("node-3")];
    let voucher = world.create(sale(1_000)).await;
    world.rush(rush(voucher, 400)).await;
    let buyers = world.keys.buyers(ShardId::only(voucher));
    for round in 0..5_u64 {
        let _: u64 = world.server.query(&["DEL", &buyers]);
        let asking = (0..30_u64).map(|n| {
            let nodes = [world.node(), &others[0], &others[1]];
            let admission = nodes[n as usize % 3].operator().admission.clone().unwrap();
            let user = UserId(if n % 2 == 0 { n + 1 } else { 1_000 + round * 30 + n });
            async move { admission.request(voucher, user).answer().await.outcome.unwrap() }
        });
        for (n, outcome) in futures::future::join_all(asking).await.into_iter().enumerate() {
            let known = matches!(outcome, Outcome::Duplicate { .. });
            let new = matches!(outcome, Outcome::Admitted { .. });
            assert!(if n % 2 == 0 { known } else { new }, "{round} {n}: {outcome:?}");
        }
    }
    world.settled_and_balanced().await;
    for node in others {
        node.stop().await;
    }
    let Reply::LoadTestDone(last) =
        world.execute(Command::LoadTest(rush(voucher, 1_500))).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(last.admitted, 1_000 - 400 - 75, "{last:?}");
    world.settled_and_balanced().await;
}

/// Who was admitted stays so, however often a key goes while it is rebuilt.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_lost_again_and_again_while_it_is_rebuilt_costs_no_order() {
    let (world, voucher) = World::with_sale(1_000).await;
    assert_eq!(world.rush(rush(voucher, 700)).await.admitted, 700);
    let (buyers, stock) =
        (world.keys.buyers(ShardId::only(voucher)), world.keys.stock(ShardId::only(voucher)));
    let losing = async {
        for round in 0..60 {
            let _: u64 =
                world.server.query(&["DEL", if round % 3 == 0 { &stock } else { &buyers }]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asking = world.rush(LoadTest { seed: 2, ..rush(voucher, 1_500) });
    let ((), report) = tokio::join!(losing, asking);
    assert_eq!((report.admitted, report.duplicate), (300, 700), "{report:?}");
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_while_sql_is_away_admits_no_buyer_until_it_is_back() {
    let server = crate::support::TestRedis::start();
    let (mut world, illness) =
        World::shaky(server, crate::world::Database::Sqlite, 1, 7, |settings| {
            settings.answer_within_ms = 300;
        })
        .await;
    world.start_node();
    let voucher = world.create(sale(100)).await;
    assert_eq!(world.rush(rush(voucher, 40)).await.persisted, 40);
    illness.set(Ill::Away);
    let _: u64 = world.server.query(&["DEL", &world.keys.buyers(ShardId::only(voucher))]);
    let admission = world.node().operator().admission.clone().unwrap();
    let ask = async |user| admission.request(voucher, UserId(user)).answer().await.outcome;
    for user in [1, 41] {
        assert!(matches!(ask(user).await, Err(AdmissionError::NoAnswer(_))), "user {user}");
    }
    illness.set(Ill::Not);
    world
        .until("it is reconciled", async || matches!(ask(1).await, Ok(Outcome::Duplicate { .. })))
        .await;
    assert!(matches!(ask(41).await, Ok(Outcome::Admitted { .. })));
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_of_another_node_survive_the_loss_of_stream_and_buyers() {
    buyers_are_lost(|world, orders| world.server.query(&["DEL", orders])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_of_another_node_survive_the_loss_of_buyers_whose_entries_the_group_has_passed() {
    buyers_are_lost(|world, orders| {
        let group = world.keys.home();
        let _: String = world.server.query(&["XGROUP", "SETID", orders, group.group(), "$"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_of_another_node_survive_the_loss_of_sale_and_buyers_whose_entries_the_group_has_passed()
 {
    buyers_are_lost(|world, orders| {
        let group = world.keys.home();
        let _: String = world.server.query(&["XGROUP", "SETID", orders, group.group(), "$"]);
        let [sale, _, buyers] = world.keys.sale_keys(ShardId::only(VoucherId(1)));
        let _: u64 = world.server.query(&["DEL", &sale, &buyers]);
    })
    .await;
}

/// The buyers are lost after their entries: only the node that admitted them knows of them, whichever notices first.
async fn buyers_are_lost(lose_entries: impl FnOnce(&World, &str)) {
    let (world, voucher) = World::with_sale(300).await;
    let other = world.another_node("node-2");
    let promising = other.operator().admission.clone().unwrap();
    let ask = async |user| promising.request(voucher, UserId(user)).answer().await.outcome.unwrap();
    assert!(matches!(ask(1).await, Outcome::Admitted { .. }));
    world.settled().await;
    world.hold().await;
    world.until("both consumers are held", async || other.hold_consumer(true).await).await;
    for user in 2..=200 {
        assert!(matches!(ask(user).await, Outcome::Admitted { .. }), "user {user}");
    }
    let (buyers, orders) = (world.keys.buyers(ShardId::only(voucher)), world.keys.home().orders());
    lose_entries(&world, &orders);
    let _: u64 = world.server.query(&["DEL", &buyers]);
    // The node that has promised nothing is asked.
    let report = world.rush(LoadTest { settle: false, ..rush(voucher, 400) }).await;
    assert_eq!((report.admitted, report.duplicate), (100, 200), "{report:?}");
    world.release().await;
    other.hold_consumer(false).await;
    world
        .until("all are written", async || world.store.sale(voucher).await.unwrap().stock == 0)
        .await;
    world.settled_and_balanced().await;
    other.stop().await;
}
