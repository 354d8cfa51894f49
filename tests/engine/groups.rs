//! The position of the group, and rewinding it: on one partition and on several.

use crate::world::{World, newest, sale};
use seckill_engine::{
    EngineError,
    commands::{
        Command, LoadTest, Reply,
        group::{Rewind, RewindReport, To, rewind, show},
    },
    ledger,
    orders::payment,
    recovery::partition_repair,
};
use seckill_model::{
    EntryId, Fence, Millis, OrderError, Outcome, Reason, ShardId, VoucherId, ledger::Finding,
    reason::reason,
};
use seckill_redis::{dead_letters, stream, stream_stats::StreamStats};
use seckill_store::ActivityFilter;
use tokio_util::sync::CancellationToken;

/// A sale with this many orders, all written.
async fn sold(world: &World, buyers: u64) -> VoucherId {
    let voucher = world.create(sale(buyers)).await;
    world.buy(voucher, buyers).await;
    world.settled().await;
    voucher
}

async fn preview(world: &World, to: &str, only: Option<u16>) -> Result<Vec<Rewind>, EngineError> {
    let to: To = to.parse().unwrap();
    rewind::preview(&mut world.servers(), &to, only).await
}

async fn rewound(world: &World, plan: Vec<Rewind>) -> Result<RewindReport, EngineError> {
    match world.execute(Command::Rewind(plan)).await? {
        Reply::Rewound(report) => Ok(report),
        other => panic!("{other:?}"),
    }
}

fn fault<T: std::fmt::Debug>(result: Result<T, EngineError>) -> Reason {
    match result {
        Err(EngineError::Rejected(why) | EngineError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn states(world: &World) -> Vec<StreamStats> {
    let shown = show::show(&mut world.servers(), None).await.unwrap();
    shown.into_iter().map(|stats| stats.stream).collect()
}

/// Entries of partition 0, oldest first.
fn entries(world: &World) -> Vec<EntryId> {
    let orders = world.keys.home().orders();
    let all: Vec<(String, Vec<String>)> = world.server.query(&["XRANGE", &orders, "-", "+"]);
    all.iter().map(|(id, _)| id.parse().unwrap()).collect()
}

fn on_group(world: &World, subcommand: &str, more: &[&str]) {
    let (orders, group) = (world.keys.home().orders(), world.keys.home().group().to_owned());
    let args = [&["XGROUP", subcommand, &orders, &group], more].concat();
    let _: redis::Value = world.server.query(&args);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_is_right_or_unknown() {
    let mut world = World::start().await;
    world.stop_node().await;
    stream::ensure_group(&mut world.redis.connection(), &world.keys.home()).await.unwrap();
    let orders = world.keys.home().orders();
    let add = async |count: usize| {
        for _ in 0..count {
            world.add_entry(&["userId", "1", "voucherId", "1", "id", "1"]).await;
        }
    };
    let read = |count: usize| {
        let (group, count) = (world.keys.home().group().to_owned(), count.to_string());
        let head = ["XREADGROUP", "GROUP", &group, "x", "COUNT", &count, "STREAMS", &orders, ">"];
        let _: redis::Value = world.server.query(&head);
    };
    let reported = |field: &str| {
        let groups: Vec<std::collections::HashMap<String, redis::Value>> =
            world.server.query(&["XINFO", "GROUPS", &orders]);
        groups[0].get(field).cloned().unwrap()
    };
    let measured = async || {
        let mut conn = world.redis.connection();
        let keys = &world.keys;
        let all = seckill_redis::stream_stats::read_stats(&mut conn, keys, &[]);
        let stream = all.await.unwrap().stream;
        let as_reported = stream.reported_lag.map_or(redis::Value::Nil, redis::Value::Int);
        assert_eq!(as_reported, reported("lag"));
        stream.lag
    };
    let shown = async || states(&world).await[0].lag;
    add(10).await;
    read(3);
    assert_eq!((measured().await, shown().await), (Some(7), Some(7)));
    let ids = entries(&world);
    let _: u64 = world.server.query(&["XDEL", &orders, &ids[4].in_stream()]);
    assert_eq!(reported("lag"), redis::Value::Nil, "Redis does not know any more");
    assert_eq!((measured().await, shown().await), (Some(6), Some(6)));
    on_group(&world, "SETID", &[&ids[5].in_stream(), "ENTRIESREAD", "77"]);
    assert_eq!(reported("lag"), redis::Value::Int(10 - 77), "Redis believes everything");
    assert_eq!((measured().await, shown().await), (Some(4), Some(4)));
    let _: u64 = world.server.query(&["XTRIM", &orders, "MINID", &ids[8].in_stream()]);
    assert_eq!((measured().await, shown().await), (Some(2), Some(2)));

    // Many entries, with both ends far apart.
    add(1_000).await;
    read(400);
    assert_eq!((measured().await, shown().await), (None, Some(602)));
    read(500);
    assert_eq!((measured().await, shown().await), (Some(102), Some(102)));
    read(500);
    assert_eq!((measured().await, shown().await), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_to_the_start_writes_nothing_twice() {
    let world = World::start().await;
    everything_again(&world, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_over_several_partitions_writes_nothing_twice() {
    let world = World::spread(3, |_| {}).await;
    everything_again(&world, 3).await;
}

async fn everything_again(world: &World, partitions: u64) {
    let mut vouchers = Vec::new();
    for _ in 0..partitions {
        vouchers.push(sold(world, 1_500).await);
    }
    let plan = preview(world, "start", None).await.unwrap();
    assert_eq!(plan.len() as u64, partitions);
    for part in &plan {
        assert_eq!((part.again, part.written, part.missing), (1_500, 1_500, 0), "{part:?}");
        assert_eq!((part.entries_read, part.undelivered, part.trimmed), (Some(0), 0, 0));
    }
    let report = rewound(world, plan).await.unwrap();
    assert_eq!((report.again, report.groups.len() as u64), (1_500 * partitions, partitions));
    world.settled_and_balanced().await;
    for voucher in vouchers {
        let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
        assert_eq!((ledger.live, ledger.stock, ledger.closed), (1_500, 0, 0));
    }
    for state in states(world).await {
        assert_eq!((state.lag, state.pending, state.read), (Some(0), 0, Some(1_500)));
        assert_eq!(state.delivered, state.last, "each entry was delivered");
    }
    let entries = newest(&world.store, 1).await;
    assert_eq!(entries[0].action, "stream rewind");
    let report = RewindReport { again: 1_500 * partitions, groups: Vec::new() };
    assert_eq!(*entries[0].result, Reply::Rewound(report).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_in_the_middle_of_a_rush_writes_nothing_twice() {
    let world = World::start().await;
    let other = world.another_node("node-u");
    let voucher = world.create(sale(4_000)).await;
    let plan = LoadTest { rate: Some(3_000.0), repeat: 0.0, ..LoadTest::new(voucher, 4_000) };
    let (report, ()) = tokio::join!(world.rush(plan), async {
        for part in [500, 1_500, 2_500] {
            let written = async || world.store.ledger(ShardId::only(voucher)).await.unwrap().live;
            world.until("the rush is under way", async || written().await > part).await;
            // After the rewind before, the orders are written while the group is still at the start.
            let read =
                async || preview(&world, "start", None).await.is_ok_and(|it| it[0].again > part);
            world.until("the group has read them", read).await;
            // Both nodes keep reading and writing during the preview and the rewind.
            let plan = preview(&world, "start", None).await.unwrap();
            rewound(&world, plan).await.unwrap();
        }
    });
    assert_eq!((report.errors, report.admitted, report.persisted), (0, 4_000, 4_000), "{report:?}");
    world.settled_and_balanced().await;
    let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.stock, ledger.doubled), (4_000, 0, 0));
    let state = states(&world).await.remove(0);
    assert_eq!((state.lag, state.pending, state.delivered), (Some(0), 0, state.last));
    assert_eq!(state.dead, 0, "what came again is no dead letter");
    assert!(other.stop().await.in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_entries_are_settled_by_a_rewind() {
    let world = World::with(|settings| settings.claim_idle_ms = 600_000).await;
    let voucher = world.create(sale(100)).await;
    assert_eq!(world.stick(voucher, 100, 30).await, 30);
    assert_eq!(world.pending().await, 30);
    let plan = preview(&world, "start", None).await.unwrap();
    assert_eq!((plan[0].again, plan[0].pending), (100, 30), "{plan:?}");
    assert_eq!((plan[0].written, plan[0].missing, plan[0].unheld), (70, 30, 0), "{plan:?}");
    rewound(&world, plan).await.unwrap();
    world.settled_and_balanced().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_acknowledged_without_a_write_are_recovered_by_a_rewind() {
    let (world, voucher) = World::with_sale(60).await;
    assert_eq!(world.stick(voucher, 60, 20).await, 20);
    assert_eq!(world.pending().await, 20);
    let mut conn = world.redis.connection();
    let of = world.keys.home();
    let stuck = stream::pending_page(&mut conn, &of, EntryId::MIN, EntryId::MAX, 100).await;
    let stuck = stuck.unwrap().into_iter().map(|row| row.delivered.entry);
    assert_eq!(stream::acknowledge(&mut conn, &of, stuck).await.unwrap(), 20);
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    assert!(audit.sales[0].findings[0] == Finding::Lost(20), "{audit:?}");
    // An order without a buyer would become a dead letter, so that is reported.
    world.hold().await;
    world.add_entry(&["userId", "9", "voucherId", &voucher.to_string(), "id", "815"]).await;
    let plan = preview(&world, "start", None).await.unwrap();
    let [part] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((part.again, part.undelivered, part.missing, part.unheld), (60, 1, 20, 0));
    let strange = entries(&world)[60];
    let _: u64 = world.server.query(&["XDEL", &of.orders(), &strange.in_stream()]);
    rewound(&world, plan).await.unwrap();
    world.release().await;
    world.settled_and_balanced().await;
}

/// The database is restored from a backup before the orders, which were written and closed since.
#[tokio::test(flavor = "multi_thread")]
async fn orders_closed_after_a_backup_are_not_written_by_a_rewind() {
    let world = World::start().await;
    let voucher = sold(&world, 10).await;
    let (now, fence) = (Millis::now(), Fence { name: "close".to_owned(), token: 1 });
    let (mut servers, stop) = (world.servers(), CancellationToken::new());
    let before = now.plus(1_000_000);
    let closed = payment::close_overdue(&mut servers, before, now, &fence, &stop).await.unwrap();
    assert_eq!((closed.orders, closed.given_back), (10, 10));
    for forget in ["DELETE FROM tb_give_back", "DELETE FROM tb_voucher_order"] {
        sqlx::query(forget).execute(&mut world.sql().await).await.unwrap();
    }
    let plan = preview(&world, "start", None).await.unwrap();
    rewound(&world, plan).await.unwrap();
    world.settled().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 0);
    assert_eq!(letters(&world).await.len(), 10);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_entries_do_not_spoil_the_lag() {
    let world = World::start().await;
    sold(&world, 900).await;
    let ids = entries(&world);
    let orders = world.keys.home().orders();
    for gone in [100, 500, 501] {
        let _: u64 = world.server.query(&["XDEL", &orders, &ids[gone].in_stream()]);
    }
    world.hold().await;
    // After the deleted entries, at a deleted entry, and before the last one.
    for (to, ahead, read) in [(700, 200, Some(700)), (500, 398, Some(502)), (101, 797, None)] {
        let plan = preview(&world, &ids[to].in_stream(), None).await.unwrap();
        assert_eq!((plan[0].again + plan[0].undelivered, plan[0].trimmed), (ahead, 3), "{plan:?}");
        assert_eq!(plan[0].entries_read, read, "{plan:?}");
        rewound(&world, plan).await.unwrap();
        let state = states(&world).await.remove(0);
        assert_eq!((state.lag, state.read), (Some(ahead), read), "{state:?}");
    }
    world.release().await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_into_what_was_trimmed_is_refused() {
    let world = World::start().await;
    sold(&world, 300).await;
    let ids = entries(&world);
    let orders = world.keys.home().orders();
    let first = ids[120];
    let _: u64 = world.server.query(&["XTRIM", &orders, "MINID", &first.in_stream()]);
    let trimmed = reason!("group-trimmed", gone = 120_u64, partition = "0", first);
    assert_eq!(fault(preview(&world, &ids[119].in_stream(), None).await), trimmed);
    assert_eq!(fault(preview(&world, "-10m", None).await), trimmed);
    assert!(trimmed.to_string().contains(&format!("is {first},")), "{trimmed}");
    world.hold().await;
    let plan = preview(&world, "start", None).await.unwrap();
    assert_eq!((plan[0].again, plan[0].trimmed), (180, 120), "{plan:?}");
    assert_eq!((plan[0].from, plan[0].entries_read), (first, Some(120)), "{plan:?}");
    rewound(&world, plan).await.unwrap();
    assert_eq!(states(&world).await[0].lag, Some(180));
    // The trimming job must handle the new position of the group.
    world.execute(Command::RunJob("trim-stream".to_owned())).await.unwrap();
    assert_eq!(entries(&world).len(), 180);
    world.release().await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_positions_are_refused() {
    let world = World::spread(3, |_| {}).await;
    // Nothing was ever admitted.
    assert_eq!(
        fault(preview(&world, "start", None).await),
        reason!("group-no-stream", number = "0")
    );
    let voucher = sold(&world, 50).await;
    let of = world.keys.partition_of(ShardId::only(voucher)).number();
    let state = states(&world).await.remove(usize::from(of));
    let last = state.last.unwrap();
    let ahead = last.next().unwrap();
    let result = fault(preview(&world, &ahead.to_string(), None).await);
    let (to, delivered, partition) = (ahead, last, of.to_string());
    assert_eq!(result, reason!("group-forward", to, delivered, partition));
    let later = fault(preview(&world, "+1h", Some(of)).await);
    assert_eq!(later.id(), Some("group-forward"), "{later}");
    let other = (of + 1) % 3;
    let result = fault(preview(&world, &format!("{}@{of}", last.in_stream()), Some(other)).await);
    let partition = other.to_string();
    assert_eq!(result, reason!("group-other-partition", entry = last, partition));
    let result = fault(preview(&world, "start", Some(9)).await);
    assert_eq!(result, reason!("group-no-partition", number = "9", last = "2"));
    let result = fault(preview(&world, "1795000000000-0@7", None).await);
    assert_eq!(result, reason!("group-no-partition", number = "7", last = "2"));
    let number = other.to_string();
    let result = fault(preview(&world, "start", Some(other)).await);
    assert_eq!(result, reason!("group-no-stream", number));
    // An ID in the notation of Redis for the given partition, and a time before all entries.
    let plan = preview(&world, &last.in_stream(), Some(of)).await.unwrap();
    assert_eq!((plan[0].again, plan[0].from), (1, last));
    assert_eq!(preview(&world, "-1h", None).await.unwrap()[0].again, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_does_what_its_preview_showed() {
    let (world, voucher) = World::with_sale(100).await;
    let plan = LoadTest { repeat: 0.0, ..LoadTest::new(voucher, 60) };
    world.rush(plan.clone()).await;
    world.settled().await;
    let ids = entries(&world);
    let shown = preview(&world, &ids[30].in_stream(), None).await.unwrap();
    // It advanced.
    world.rush(LoadTest { users: 80, ..plan }).await;
    world.settled().await;
    world.hold().await;
    rewound(&world, shown.clone()).await.unwrap();
    assert_eq!(states(&world).await[0].lag, Some(50), "30 and 20 more");
    // It was rewound.
    let partition = shown[0].partition.to_string();
    let changed = |change: Reason| reason!("group-changed", partition = &partition, change);
    assert_eq!(fault(rewound(&world, shown.clone()).await), changed(reason!("group-moved-back")));
    on_group(&world, "SETID", &["$"]);
    let _: u64 = world.server.query(&["XDEL", &world.keys.home().orders(), &ids[30].in_stream()]);
    assert_eq!(
        fault(rewound(&world, shown.clone()).await),
        changed(reason!("group-first-trimmed"))
    );
    on_group(&world, "DESTROY", &[]);
    assert_eq!(fault(rewound(&world, shown).await), changed(reason!("group-destroyed")));
    let shown = preview(&world, "start", None).await.unwrap();
    on_group(&world, "CREATE", &["0"]);
    assert_eq!(fault(rewound(&world, shown).await), changed(reason!("group-created")));
    let line = newest(&world.store, 1).await.remove(0);
    assert!(
        line.result.starts_with("failed: partition 0: the consumer group was created"),
        "{line:?}"
    );
    world.release().await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_group_stops_the_rewind() {
    let world = World::spread(2, |_| {}).await;
    let vouchers = [sold(&world, 30).await, sold(&world, 30).await];
    world.hold().await;
    let shown = preview(&world, "start", None).await.unwrap();
    assert_eq!(shown.len(), 2);
    let (of, group) = (world.keys.partition(1), world.keys.home().group().to_owned());
    let _: u64 = world.server.query(&["XGROUP", "DESTROY", &of.orders(), &group]);
    let error = rewound(&world, shown).await.unwrap_err();
    let line = newest(&world.store, 1).await.remove(0);
    let sentence = "the groups of partition 0 were already rewound; run it again for the rest";
    assert!(line.result.contains(sentence), "{line:?}");
    let EngineError::BrokeOff { why, done } = error else { panic!("{error}") };
    let change = reason!("group-destroyed");
    assert_eq!(fault::<()>(Err(*why)), reason!("group-changed", partition = "1", change));
    let partitions = Reason::Joined(vec!["0".into()]);
    assert_eq!(done, reason!("done-rewound", partitions));
    let now = states(&world).await;
    assert_eq!(now[0].lag, Some(30));
    assert!(!now[1].group);
    // The other one is recreated by a node at its start.
    world.release().await;
    world.settled_and_balanced().await;
    for voucher in vouchers {
        assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 30);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroyed_group_is_recreated_at_the_requested_position() {
    let (world, voucher) = World::with_sale(80).await;
    assert_eq!(world.stick(voucher, 80, 20).await, 20);
    assert_eq!(world.pending().await, 20);
    world.hold().await;
    on_group(&world, "DESTROY", &[]);
    let snapshots = &world.node().remote().snapshots;
    world
        .until("the alarm is raised", async || {
            let kinds = snapshots.borrow().alarms.clone();
            kinds
                .iter()
                .any(|it| it.kind == seckill_engine::telemetry::snapshot::AlarmKind::NoGroup)
        })
        .await;
    assert!(!states(&world).await[0].group);
    let ids = entries(&world);
    let plan = preview(&world, &ids[70].in_stream(), None).await.unwrap();
    let [part] = &plan[..] else { panic!("{plan:?}") };
    assert_eq!((part.group, part.again, part.pending), (false, 10, 0), "{part:?}");
    assert_eq!((part.skipped, part.skipped_missing), (70, 20), "what was pending would be lost");
    let plan = preview(&world, "start", None).await.unwrap();
    assert_eq!((plan[0].again, plan[0].skipped, plan[0].missing), (80, 0, 20), "{plan:?}");
    let report = rewound(&world, plan).await.unwrap();
    assert!(report.groups[0].made);
    assert_eq!(states(&world).await[0].lag, Some(80));
    world.release().await;
    world.settled_and_balanced().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 80);
}

/// The largest ID that a stream can give.
const LAST_ID: &str = "18446744073709551615-18446744073709551615";

/// The repairs in the log, oldest first.
async fn repairs(world: &World) -> Vec<String> {
    let lines = world.store.activity(&ActivityFilter::default(), None, 100).await.unwrap();
    let repaired = lines.into_iter().rev().filter(|it| it.action == "partition repaired");
    repaired.map(|it| it.result.to_string()).collect()
}

async fn repaired(world: &World, what: &str) {
    let what = what.to_owned();
    world
        .until("the repair is in the log", async || {
            repairs(world).await.iter().any(|line| line.contains(&what))
        })
        .await;
}

async fn forge(world: &World, id: &str, order: u64) {
    let order = order.to_string();
    let mut add = redis::cmd("XADD");
    add.arg(world.keys.home().orders()).arg(id);
    add.arg(&["userId", "7", "voucherId", "1", "id", &order]);
    world.redis.connection().query::<String>(&add).await.unwrap();
}

async fn letters(world: &World) -> Vec<dead_letters::DeadLetter> {
    let of = world.keys.home();
    dead_letters::read(&mut world.redis.connection(), &of, EntryId::MIN, 99).await.unwrap()
}

/// No ID follows the largest one: nothing could be added, and paging over the stream would not end.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_at_its_last_id_is_replaced_by_the_node() {
    let world = World::start().await;
    let voucher = sold(&world, 5).await;
    world.execute(Command::Restock { voucher, by: 95 }).await.unwrap();
    world.hold().await;
    let early = world.ask(voucher, 1_001).await;
    assert!(matches!(early, Outcome::Admitted { .. }), "{early:?}");
    forge(&world, LAST_ID, 4_242).await;
    repaired(&world, "replaced by a new stream with 1 entry to write and 1 dead letter").await;
    let late = world.ask(voucher, 1_002).await;
    assert!(matches!(late, Outcome::Admitted { .. }), "{late:?}");
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 7);
    let letters = letters(&world).await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(letter.entry.map(EntryId::in_stream).as_deref(), Some(LAST_ID));
    assert_eq!(letter.reason.data(), Some(OrderError::NotPromised));
    let faults = partition_repair::faults(&mut world.servers(), &world.keys.home()).await;
    assert_eq!(faults.unwrap(), []);
    let kept: u64 = world.server.query(&["XLEN", "seckill:{p0}:orders:replaced"]);
    assert_eq!(kept, 7, "the old stream can still be read");
}

/// Redis continues from an ID ahead of its clock: orders admitted then are valid.
#[tokio::test(flavor = "multi_thread")]
async fn orders_with_ids_of_the_future_are_kept() {
    let mut world = World::start().await;
    let voucher = sold(&world, 5).await;
    world.execute(Command::Restock { voucher, by: 95 }).await.unwrap();
    world.hold().await;
    let now: (u64, u64) = world.server.query(&["TIME"]);
    forge(&world, &format!("{}-0", now.0 * 1_000 + 7_200_000), 4_242).await;
    for user in 1_001..1_011 {
        let outcome = world.ask(voucher, user).await;
        assert!(matches!(outcome, Outcome::Admitted { .. }), "{outcome:?}");
    }
    repaired(&world, "replaced by a new stream").await;
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 15);
    assert_eq!(letters(&world).await.len(), 1);
    world.balanced().await;

    // An ID within the hour is left alone: clocks differ.
    world.stop_node().await;
    let now: (u64, u64) = world.server.query(&["TIME"]);
    forge(&world, &format!("{}-0", now.0 * 1_000 + 600_000), 4_243).await;
    let faults = partition_repair::faults(&mut world.servers(), &world.keys.home()).await;
    assert_eq!(faults.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_ends_at_every_last_id() {
    let mut world = World::start().await;
    let voucher = sold(&world, 5).await;
    world.stop_node().await;
    let of = world.keys.home();
    for key in [of.orders(), of.dead()] {
        world.server.query::<()>(&["XADD", &key, LAST_ID, "userId", "7"]);
    }
    let mut servers = world.servers();
    let audit = ledger::audit(&mut servers, None);
    let audit = tokio::time::timeout(std::time::Duration::from_secs(20), audit).await;
    assert!(audit.expect("the audit ends").unwrap().balanced);
    let delivered = show::show(&mut servers, None);
    let delivered = tokio::time::timeout(std::time::Duration::from_secs(20), delivered).await;
    delivered.expect("the look at the stream ends").unwrap();
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 5);
}

/// A group beyond the end of its stream reads nothing, and Redis reports no lag.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_beyond_the_end_of_its_stream_is_moved_back_by_the_node() {
    let world = World::start().await;
    let voucher = sold(&world, 10).await;
    world.execute(Command::Restock { voucher, by: 50 }).await.unwrap();
    let of = world.keys.home();
    world.hold().await;
    // The first ten have an order already.
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 50) };
    world.execute(Command::LoadTest(plan)).await.unwrap();
    world.server.query::<()>(&["XGROUP", "SETID", &of.orders(), of.group(), LAST_ID]);
    repaired(&world, "moved back to").await;
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 50);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_moves_a_group_back_from_beyond_its_stream() {
    let mut world = World::start().await;
    let voucher = sold(&world, 10).await;
    world.execute(Command::Restock { voucher, by: 50 }).await.unwrap();
    world.stop_node().await;
    let of = world.keys.home();
    forge(&world, "*", 4_242).await;
    world.server.query::<()>(&["XGROUP", "SETID", &of.orders(), of.group(), LAST_ID]);
    let plan = preview(&world, "start", None).await.unwrap();
    assert_eq!((plan[0].again, plan[0].written, plan[0].undelivered), (11, 10, 0));
    let stop = CancellationToken::new();
    let done = rewind::apply(&mut world.servers(), &plan, &stop).await.unwrap();
    assert_eq!(done.again, 11);
    let faults = partition_repair::faults(&mut world.servers(), &of).await.unwrap();
    assert_eq!(faults, []);
    let state = states(&world).await.remove(0);
    assert_eq!(state.lag, Some(11));
}

/// Nodes rewrite the keys of nodes; values of other programs are renamed.
#[tokio::test(flavor = "multi_thread")]
async fn node_keys_of_another_type_are_renamed() {
    let world = World::start().await;
    let voucher = sold(&world, 1).await;
    world.execute(Command::Restock { voucher, by: 99 }).await.unwrap();
    let of = world.keys.home();
    for (number, key) in [of.reconciled(), of.nodes(), of.instances(), of.gone()].iter().enumerate()
    {
        world.server.query::<()>(&["DEL", key]);
        world.server.query::<()>(&["SET", key, "x"]);
        repaired(&world, &format!("'{key}' in Redis holds a string")).await;
        let outcome = world.ask(voucher, 2_000 + number as u64).await;
        assert!(matches!(outcome, Outcome::Admitted { .. }), "{key}: {outcome:?}");
        let aside: String = world.server.query(&["GET", &format!("{key}:replaced")]);
        assert_eq!(aside, "x");
    }
    world.settled_and_balanced().await;
}
