//! The order stream and the orders as seen from the console: read while they are shown, traced, previewed.

use std::{sync::Arc, time::Duration};

use crate::support::TestRedis;
use crate::world::{World, sale};
use seckill_engine::{
    EngineError,
    commands::{
        Command, LoadTest, Reply,
        group::{GroupAction, Preview, To},
    },
    deployment::servers::Servers,
    fault_injection,
    locks::{LockName, Locks, Timing},
    orders::{Location, decode, trace},
    recovery::repair::Repaired,
    telemetry::{
        OrdersView, Snapshot, StreamView,
        snapshot::{AlarmKind, DeliveryState, NodeState, PendingLine},
        survey,
    },
};
use seckill_model::{
    EntryId, ForeignKey, Message, Millis, NO_NUMBER, NewSale, OrderEntry, OrderFilter, OrderId,
    OrderStatus, Outcome, ShardId, UserId, Verdict, ledger::Finding,
};
use seckill_redis::{
    Connection, Layout, Redis, RedisError,
    keys::replay_of,
    stream::{self, ReadFrom},
    stream_stats::{read_partition, read_stats},
};
use seckill_store::fault_injection::Ill;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(1);

async fn snapshot(world: &World, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = world.node().remote().snapshots;
    let found = snapshots.wait_for(|snapshot| holds(snapshot));
    let found = tokio::time::timeout(PATIENCE, found).await;
    Arc::clone(&found.unwrap_or_else(|_| panic!("waited in vain: {what}")).unwrap())
}

async fn ask(world: &World, command: Command) -> Result<Reply, EngineError> {
    let answer = world.node().remote().send(command, None).unwrap();
    tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap()
}

fn look_at(world: &World, stream: Option<StreamView>, orders: Option<OrdersView>) {
    world.node().remote().focus.send_modify(|focus| {
        (focus.stream, focus.orders) = (stream, orders);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_the_stream_is_read_only_while_it_is_shown() {
    for partitions in [1, 3] {
        let world = World::spread(partitions, |_| {}).await;
        let voucher = world.create(sale(300)).await;
        world.rush(LoadTest::new(voucher, 300)).await;
        let before =
            snapshot(&world, "all written", |it| it.sales.iter().any(|sale| sale.persisted == 300));
        assert!(before.await.entries.taken.is_none(), "it is not displayed");

        look_at(&world, Some(StreamView::default()), None);
        let done = |it: &Snapshot| {
            let lines = &it.entries.lines;
            lines.len() == 200 && lines.iter().all(|it| it.holding == DeliveryState::Acknowledged)
        };
        let seen = snapshot(&world, "the newest", done).await;
        let page = &seen.entries;
        assert!(page.older && page.lines.is_sorted_by_key(|it| it.entry));
        assert_eq!(page.partitions.len(), usize::from(partitions));
        assert_eq!(page.partitions.iter().map(|it| it.length).sum::<u64>(), 300);
        assert!(page.partitions.iter().all(|it| it.lag == Some(0)), "{:?}", page.partitions);
        assert_eq!(page.consumers.len(), usize::from(partitions));

        let before = Some(page.lines[0].entry);
        let older = StreamView { partition: None, before };
        look_at(&world, Some(older), None);
        let seen = snapshot(&world, "those before", |it| it.entries.view == older).await;
        assert_eq!((seen.entries.lines.len(), seen.entries.older), (100, false));
        assert!(seen.entries.lines.iter().all(|it| Some(it.entry) < before));
        look_at(&world, None, None);
        snapshot(&world, "it is not displayed", |it| it.entries.taken.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_paged_and_traced() {
    let (world, voucher) = World::with_sale(300).await;
    world.rush(LoadTest::new(voucher, 250)).await;
    look_at(&world, None, Some(OrdersView::default()));
    let full = |it: &Snapshot| it.orders.lines.len() == 100 && it.orders.more;
    let seen = snapshot(&world, "the newest orders", full).await;
    let last = seen.orders.lines[99].id;
    let view = OrdersView { before: Some(last), ..OrdersView::default() };
    look_at(&world, None, Some(view));
    let seen = snapshot(&world, "older ones", |it| it.orders.view == view).await;
    assert!(seen.orders.lines.iter().all(|order| order.id < last));

    ask(&world, Command::Pay(last)).await.unwrap();
    let query = format!("status=paid voucher={voucher}").parse().unwrap();
    let view = OrdersView { query, before: None };
    look_at(&world, None, Some(view));
    let paid = snapshot(&world, "the paid one", |it| it.orders.view == view).await;
    let paid: Vec<_> = paid.orders.lines.iter().map(|it| (it.id, it.status)).collect();
    assert_eq!(paid, [(last, OrderStatus::Paid)]);

    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(last)).await else { panic!() };
    assert!(matches!(trace.location, Location::Persisted { .. }), "{trace:?}");
    assert_eq!(trace.held, Some(true));
    assert!(matches!(trace.entry, Some((_, DeliveryState::Acknowledged))), "{trace:?}");
    let unknown = OrderId::new(1_700_000_000, 1).unwrap();
    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(unknown)).await else { panic!() };
    assert_eq!((trace.location, trace.entry), (Location::Unknown, None));

    let action = GroupAction::Rewind { to: To::Start, partition: None };
    let Ok(Reply::Previewed(Preview::Rewind(plan))) = ask(&world, Command::Preview(action)).await
    else {
        panic!()
    };
    assert_eq!(plan.iter().map(|it| (it.again, it.written)).collect::<Vec<_>>(), [(250, 250)]);
    let action = GroupAction::Remove { name: "unknown/1".to_owned() };
    let refused = ask(&world, Command::Preview(action)).await.unwrap_err();
    assert!(refused.to_string().contains("there is no consumer 'unknown/1'"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_utf8_hides_nothing() {
    let (world, voucher) = World::with_sale(5).await;
    let mut conn = world.redis.connection();
    let of = world.keys.home();
    let mut add = redis::cmd("XGROUP");
    add.arg("CREATECONSUMER").arg(of.orders()).arg(of.group()).arg(b"x\xff\xfey");
    assert_eq!(conn.query::<u64>(&add).await.unwrap(), 1);
    let mut sign = redis::cmd("ZADD");
    sign.arg(of.nodes()).arg(1).arg(b"z\xff");
    assert_eq!(conn.query::<u64>(&sign).await.unwrap(), 1);
    world.rush(LoadTest::new(voucher, 5)).await;
    let sold = |it: &Snapshot| it.sale(voucher).is_some_and(|it| it.stock == Some(0));
    let seen = snapshot(&world, "all are sold", sold).await;
    assert!(seen.redis.up, "{seen:?}");
}

/// A claim removes an entry without a body from the pending list before its order is rebuilt.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_entries_are_counted_until_they_are_rebuilt() {
    let server = TestRedis::start();
    let (keys, mut conn) =
        (Layout::default(), Redis::from_url(&server.url()).unwrap().connection());
    let of = keys.home();
    let orders = of.orders();
    stream::ensure_group(&mut conn, &of).await.unwrap();
    for entry in ["1-0", "1-1"] {
        let fields = ["userId", "1", "voucherId", "1", "id", "1"];
        let add = [&["XADD", &orders, entry][..], &fields].concat();
        server.query::<()>(&add);
    }
    let from = ReadFrom::New(Duration::from_secs(1));
    assert_eq!(stream::read_group(&mut conn, &of, "n/1", from, 9).await.unwrap().len(), 2);
    server.query::<()>(&["XDEL", &orders, "1-0"]);
    let counted = async |conn: &mut Connection| {
        let seen = read_partition(conn, &keys, &of, &[]).await.unwrap().stream;
        (seen.pending, seen.gone)
    };
    assert_eq!(counted(&mut conn).await, (2, 0));
    let (idle, from) = (Duration::ZERO, EntryId::MIN);
    stream::auto_claim(&mut conn, &of, "n/2", idle, 9, from, 9).await.unwrap();
    assert_eq!(counted(&mut conn).await, (1, 1));
    let gone = stream::gone(&mut conn, &of).await.unwrap();
    stream::rebuilt(&mut conn, &of, &gone).await.unwrap();
    assert_eq!(counted(&mut conn).await, (1, 0));
}

/// Acknowledged and deleted entries lie between those that are claimed.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_finds_entries_with_gaps_between_them_and_counts_a_delivery() {
    let server = TestRedis::start();
    let redis = Redis::from_url(&server.url()).unwrap();
    let (mut conn, keys) = (redis.connection(), Layout::new(1, false));
    let of = keys.home();
    stream::ensure_group(&mut conn, &of).await.unwrap();
    for number in 1..=30 {
        let (entry, user) = (format!("{number}-0"), number.to_string());
        let fields = ["userId", &user, "voucherId", "1", "id", &user];
        server.query::<()>(&[&["XADD", &of.orders(), &entry][..], &fields].concat());
    }
    let from = ReadFrom::New(Duration::from_secs(1));
    let read = stream::read_group(&mut conn, &of, "n/1", from, 99).await.unwrap();
    let done = read.iter().map(|it| it.entry).filter(|it| ![1, 2, 20, 30].contains(&it.millis));
    assert_eq!(stream::acknowledge(&mut conn, &of, done).await.unwrap(), 26);
    server.query::<()>(&["XDEL", &of.orders(), "20-0"]);

    let claim = async |conn: &mut Connection, from, count| {
        stream::auto_claim(conn, &of, "n/2", Duration::ZERO, 2, from, count).await.unwrap()
    };
    let ids = |claimed: &stream::Claimed| -> Vec<u64> {
        assert!(claimed.entries.iter().all(|it| it.body != stream::Body::Gone));
        claimed.entries.iter().map(|it| it.entry.millis).collect()
    };
    let first = claim(&mut conn, EntryId::MIN, 1).await;
    assert_eq!(ids(&first), [1]);
    let rest = claim(&mut conn, first.next.unwrap(), 9).await;
    assert_eq!(ids(&rest), [2, 30]);
    assert_eq!(rest.gone.iter().map(|it| it.millis).collect::<Vec<_>>(), [20]);
    assert_eq!(stream::gone(&mut conn, &of).await.unwrap(), ["20-0"]);
    assert_eq!(rest.next, None);
    let (min, max) = (EntryId::MIN, EntryId::MAX);
    let held = stream::pending_ids(&mut conn, &of, Some("n/2"), min, max, 99).await.unwrap();
    let held: Vec<(u64, u64)> = held.into_iter().map(|(it, times)| (it.millis, times)).collect();
    assert_eq!(held, [(1, 2), (2, 2), (30, 2)]);
    assert!(first.often.is_empty() && rest.often.is_empty());
    let again = claim(&mut conn, EntryId::MIN, 2).await;
    let often = again.often.iter().map(|(it, times)| (it.millis, *times));
    assert_eq!(often.collect::<Vec<_>>(), [(1, 3), (2, 3)]);
}

/// A rush puts tens of thousands of entries into one second.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_found_among_the_many_of_its_second() {
    let (world, voucher) = World::with_sale(1).await;
    world.rush(LoadTest::new(voucher, 1)).await;
    let orders = world.store.orders(&OrderFilter::default(), None, 1).await.unwrap();
    let order = orders[0].id;
    // A separate stream without consumers.
    let keys = world.keys.clone().prefixed("dense");
    let of = keys.partition_of(ShardId::only(voucher));
    let issued = decode(order).issued.0;
    let fill = "for i = 1, 25000 do redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. i, 'id', i) end";
    let mut conn = world.redis.connection();
    for before in [1_000, 0] {
        let mut call = redis::cmd("EVAL");
        call.arg(fill).arg(1).arg(of.orders()).arg(issued + 500 - before);
        conn.query::<()>(&call).await.unwrap();
    }
    let mut add = redis::cmd("XADD");
    add.arg(of.orders()).arg(format!("{}-1", issued + 900));
    add.arg(&["userId", "1", "voucherId"]).arg(voucher.0).arg("id").arg(order.get());
    let entry: String = conn.query(&add).await.unwrap();
    let mut servers = Servers { keys, ..world.servers() };
    let trace = trace::follow(&mut servers, order).await.unwrap();
    let found = trace.entry.as_ref().map(|(entry, _)| entry.in_stream());
    assert_eq!((found, trace.more), (Some(entry), false), "{trace:?}");
}

/// Before it is in SQL, only Redis has the place of an order.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_order_of_a_buyer_is_traced_at_its_place() {
    let world = World::start().await;
    let voucher = world.create(NewSale { limit: 2, ..sale(10) }).await;
    world.hold().await;
    let mut orders = Vec::new();
    for _ in 0..2 {
        let Outcome::Admitted { order } = world.ask(voucher, 7).await else { panic!() };
        orders.push(order);
    }
    for (order, place) in orders.into_iter().zip([1, 2]) {
        let trace = trace::follow(&mut world.servers(), order).await.unwrap();
        assert_eq!((trace.held, trace.place), (Some(true), Some(place)), "{trace:?}");
    }
    world.release().await;
    world.settled_and_balanced().await;
}

/// A node issued the ID while its clock was a day ahead; the entry and the row have the time of Redis.
#[tokio::test(flavor = "multi_thread")]
async fn the_entry_of_an_order_with_another_clock_is_found() {
    let (world, voucher) = World::with_sale(1).await;
    let now = Millis::now();
    let order = OrderId::new(now.0 / 1_000 + 90_000, 7).unwrap();
    let row = OrderEntry::new(order, UserId(1), voucher);
    world.store.write_orders(&[row], now).await.unwrap();
    // A separate stream without consumers.
    let keys = world.keys.clone().prefixed("ahead");
    let mut add = redis::cmd("XADD");
    add.arg(keys.partition_of(ShardId::only(voucher)).orders()).arg(format!("{}-1", now.0 - 300));
    add.arg(&["userId", "1", "voucherId"]).arg(voucher.0).arg("id").arg(order.get());
    let entry: String = world.redis.connection().query(&add).await.unwrap();
    let mut servers = Servers { keys, ..world.servers() };
    let trace = trace::follow(&mut servers, order).await.unwrap();
    let found = trace.entry.as_ref().map(|(entry, _)| entry.in_stream());
    assert_eq!((found, trace.more), (Some(entry), false), "{trace:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_command_is_shown_with_its_operator() {
    let (world, voucher) = World::with_sale(100).await;
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 20) };
    world.execute(Command::LoadTest(plan)).await.unwrap();
    look_at(&world, Some(StreamView::default()), None);
    let waits = |it: &Snapshot| {
        it.entries.lines.len() == 20
            && it.entries.lines.iter().all(|it| it.holding == DeliveryState::Undelivered)
    };
    let seen = snapshot(&world, "they were not delivered", waits).await;
    let id = seen.entries.lines[0].order.unwrap();
    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(id)).await else { panic!() };
    let entry = seen.entries.lines[0].entry;
    assert!(matches!(trace.location, Location::Undelivered { .. }), "{trace:?}");
    assert_eq!(trace.entry, Some((entry, DeliveryState::Undelivered)));

    let taken = fault_injection::die_with_batch(&world.redis, &world.keys, "node-b", 5, 600_000)
        .await
        .unwrap();
    let held = |it: &Snapshot| {
        let of_b = |holding: &DeliveryState| match holding {
            DeliveryState::Pending { consumer, .. } => consumer.starts_with("node-b/"),
            _ => false,
        };
        it.entries.lines.iter().filter(|it| of_b(&it.holding)).count() == taken
    };
    let seen = snapshot(&world, "node-b holds them", held).await;
    assert!(taken > 0);
    let line = &seen.entries.lines[0];
    let dead = |it: &Snapshot| it.entries.lines[0].holder == Some(NodeState::Dead);
    snapshot(&world, "it counts as dead", dead).await;
    let id = line.order.unwrap();
    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(id)).await else { panic!() };
    let added = Millis(i64::try_from(line.entry.millis).unwrap());
    let delivered = trace.delivered.expect("Redis knows it while it is pending");
    assert!(added <= delivered && delivered <= world.redis.connection().now().await.unwrap());

    // A clean stop is distinguished from it, and what it handed over from what it wrote.
    world.add_entry(&["userId", "unknown", "voucherId", "7", "id", "1"]).await;
    let other = world.another_node("node-c");
    let buried = |it: &Snapshot| {
        it.entries
            .lines
            .last()
            .is_some_and(|it| it.dead == Some(true) && it.holding == DeliveryState::Acknowledged)
    };
    let seen = snapshot(&world, "its entry is a dead letter", buried).await;
    let written = |it: &Snapshot| {
        let lines = it.entries.lines.iter();
        lines
            .filter(|it| it.holding == DeliveryState::Acknowledged && it.dead == Some(false))
            .count()
            >= 20 - taken
    };
    assert!(seen.entries.lines.iter().filter(|it| it.dead == Some(true)).count() == 1);
    snapshot(&world, "the others are written", written).await;
    assert!(other.stop().await.in_time);
    let stopped = |it: &Snapshot| {
        let state =
            |name: &str| it.entries.consumers.iter().find(|it| it.name == name).map(|it| it.state);
        state("node-c/1") == Some(NodeState::Stopped) && state("node-b/1") == Some(NodeState::Dead)
    };
    snapshot(&world, "it is stopped and not dead", stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_orders_of_one_sale_are_counted_only_while_it_is_shown() {
    let (world, voucher) = World::with_sale(30).await;
    world.rush(LoadTest::new(voucher, 30)).await;
    let focus = world.node().remote().focus;
    focus.send_modify(|focus| focus.sale = Some(voucher));
    let counted = |it: &Snapshot, unpaid, paid| {
        let orders = it.sale_orders.as_ref().filter(|it| it.voucher == voucher);
        let expected = [(OrderStatus::Unpaid, unpaid), (OrderStatus::Paid, paid)];
        let expected = expected.into_iter().filter(|(_, orders)| *orders > 0).collect();
        orders.is_some_and(|it| it.counts == Some(expected))
    };
    snapshot(&world, "none is paid", |it| counted(it, 30, 0)).await;
    focus.send_modify(|focus| focus.orders = Some(OrdersView::default()));
    let seen = snapshot(&world, "an order", |it| !it.orders.lines.is_empty()).await;
    ask(&world, Command::Pay(seen.orders.lines[0].id)).await.unwrap();
    snapshot(&world, "one is paid", |it| counted(it, 29, 1)).await;
    let taken = |it: &Snapshot| it.sale_orders.as_ref().map(|orders| orders.taken);
    let seen = snapshot(&world, "the count has its time", |it| taken(it).is_some()).await;
    let first = taken(&seen);
    snapshot(&world, "it is counted again, and says so", |it| taken(it) > first).await;
    let again = |it: &Snapshot| it.sale_orders.as_ref().and_then(|it| it.repeat_buyers.clone());
    snapshot(&world, "no buyer has two", |it| again(it) == Some(Vec::new())).await;
    // Two orders per buyer, and every buyer requests several times.
    let twice = world.create(sale(6).limited(2).unwrap()).await;
    world.rush(LoadTest { repeat: 1.0, ..LoadTest::new(twice, 3) }).await;
    focus.send_modify(|focus| focus.sale = Some(twice));
    let two = |it: &Snapshot| {
        again(it).is_some_and(|it| it.len() == 3 && it.iter().all(|(_, orders)| *orders == 2))
    };
    snapshot(&world, "each has two", two).await;
    focus.send_modify(|focus| focus.sale = None);
    snapshot(&world, "it is not displayed", |it| it.sale_orders.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sales_are_audited_again_and_again_while_the_ledger_is_on_the_screen() {
    let (world, voucher) = World::with_sale(60).await;
    assert_eq!(world.stick(voucher, 60, 20).await, 20);
    let focus = world.node().remote().focus;
    focus.send_modify(|focus| focus.ledger = true);
    let line = |it: &Snapshot| it.ledger.lines.first().cloned();
    let moving = |it: &Snapshot| line(it).is_some_and(|it| it.in_flight() == 20);
    let seen = snapshot(&world, "20 orders in flight", moving).await;
    assert_eq!(line(&seen).unwrap().findings, []);

    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let stuck = stream::pending_page(&mut conn, &of, EntryId::MIN, EntryId::MAX, 100).await;
    let stuck = stuck.unwrap().into_iter().map(|row| row.delivered.entry);
    assert_eq!(stream::acknowledge(&mut conn, &of, stuck).await.unwrap(), 20);
    let lost = |it: &Snapshot| line(it).is_some_and(|it| it.findings == [Finding::Lost(20)]);
    let seen = snapshot(&world, "20 orders are lost", lost).await;

    let plan = vec![line(&seen).unwrap()];
    let repaired = ask(&world, Command::Repair(plan)).await.unwrap();
    let expected = Repaired { enqueued: 20, ..Repaired::default() };
    assert_eq!(repaired, Reply::Repaired(expected));
    let whole =
        |it: &Snapshot| line(it).is_some_and(|it| it.findings.is_empty() && it.persisted == 60);
    let seen = snapshot(&world, "the audit passes", whole).await;
    let later = |it: &Snapshot| it.ledger.taken > seen.ledger.taken;
    snapshot(&world, "another audit is made though nothing moves", later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_entries_are_counted_only_while_they_are_shown() {
    let world = World::start().await;
    world.hold().await;
    let of = world.keys.home();
    let (orders, group) = (of.orders(), of.group());
    let query = |command: &[&str]| {
        world.server.query::<redis::Value>(command);
    };
    let take = |count: &str| {
        query(&["XREADGROUP", "GROUP", group, "x/1", "COUNT", count, "STREAMS", &orders, ">"]);
    };
    for id in ["1-0", "2-0", "3-0"] {
        query(&["XADD", &orders, id, "x", "y"]);
    }
    take("3");
    for (id, times) in [("2-0", "4"), ("3-0", "5")] {
        query(&["XCLAIM", &orders, group, "x/1", "0", id, "RETRYCOUNT", times]);
    }
    let pending = |it: &Snapshot| it.stream.as_ref().is_some_and(|stream| stream.pending == 3);
    let before = snapshot(&world, "they are pending", pending).await;
    assert_eq!(before.census, None, "it is not displayed");
    assert!(
        before.pending.taken.is_none() && before.pending.lines.is_empty(),
        "it is not displayed"
    );

    let focus = world.node().remote().focus;
    focus.send_modify(|focus| focus.pending = Some(EntryId::MIN));
    let seen = snapshot(&world, "a count", |it| it.census.is_some()).await;
    let judged = |line: &PendingLine| line.verdict == Some(Verdict::Malformed);
    let seen_lines = &seen.pending.lines;
    assert!(seen_lines.len() == 3 && seen_lines.iter().all(judged), "{seen_lines:?}");
    let census = seen.census.clone().unwrap();
    assert!(census.whole && census.counted == 3, "{census:?}");
    assert_eq!(Some(census.taken), seen.pending.taken, "a whole list is counted as it was read");
    assert_eq!((census.ages, census.tries), ([0, 0, 0, 0, 3], [1, 1, 1]));

    let add = "for i = 4, 12000 do redis.call('XADD', KEYS[1], i .. '-0', 'x', 'y') end";
    query(&["EVAL", add, "1", &orders]);
    take("20000");
    let part = |it: &Snapshot| it.census.as_ref().is_some_and(|census| !census.whole);
    let seen = snapshot(&world, "a count of the oldest", part).await;
    let census = seen.census.clone().unwrap();
    assert_eq!((census.counted, census.tries), (10_000, [9_998, 1, 1]));
    focus.send_modify(|focus| focus.pending = None);
    snapshot(&world, "it is not displayed", |it| it.census.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_figures_are_not_older_than_the_wait_for_redis() {
    let world = World::start().await;
    snapshot(&world, "both answer", |it| it.redis.up && it.sql.up).await;
    world.server.freeze();
    let silent = |it: &Snapshot| {
        let result = it.redis.error.as_ref().and_then(Message::data);
        matches!(result, Some(EngineError::Redis(RedisError::Silent { .. })))
    };
    let seen = snapshot(&world, "Redis gives no answer", silent).await;
    world.server.thaw();
    let given_up =
        seen.redis.away_since.unwrap().plus((seen.redis.latency_us / 1_000).cast_signed());
    assert!(seen.sql.up && seen.sql.last_ok >= Some(given_up), "{:?} {:?}", seen.sql, seen.redis);
    snapshot(&world, "it answers again", |it| it.redis.up).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rate_is_shown_while_redis_is_unreachable() {
    let (world, voucher) = World::with_sale(300).await;
    world.rush(LoadTest::new(voucher, 200)).await;
    let persisted = |it: &Snapshot| it.sales.iter().map(|sale| sale.persisted).sum::<u64>();
    snapshot(&world, "all written", |it| it.redis.up && persisted(it) == 200).await;
    world.server.freeze();
    snapshot(&world, "Redis is away", |it| !it.redis.up).await;
    // Entries that another node had read are written meanwhile; after that, nothing.
    let late = (0..50_u64).map(|number| {
        let order = OrderId::new(1_795_000_000, number).unwrap();
        OrderEntry::new(order, UserId(1_000_000 + number), voucher)
    });
    let late: Vec<_> = late.collect();
    world.store.write_orders(&late, Millis::now()).await.unwrap();
    let stands = |it: &Snapshot| {
        let point = it.series.last().copied();
        !it.redis.up
            && it.written.total == 250
            && it.written.per_second <= 0.0
            && point.and_then(|it| it.persisted).is_some_and(|rate| rate <= 0.0)
    };
    let seen = snapshot(&world, "no order is written, and the rate is 0", stands).await;
    let point = seen.series.last().unwrap();
    assert_eq!((point.admitted, point.lag, point.pending), (None, None, None), "a gap");
    world.server.thaw();
    snapshot(&world, "it answers again", |it| it.redis.up).await;
}

/// A node sends its rate with its heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_has_the_rate_of_its_node_and_none_without_heartbeats() {
    let (mut world, voucher) = World::with_sale(2_000).await;
    let consumer = |it: &Snapshot| it.stream.as_ref()?.consumers.first()?.per_second;
    let plan = LoadTest { rate: Some(500.0), ..LoadTest::new(voucher, 2_000) };
    let ((), _) = tokio::join!(
        async {
            snapshot(&world, "it writes orders", |it| consumer(it) > Some(0)).await;
        },
        world.rush(plan)
    );
    snapshot(&world, "it has written all", |it| consumer(it) == Some(0)).await;
    let rates = world.keys.home().rates();
    world.server.query::<()>(&["DEL", &rates]);
    world.server.query::<()>(&["SET", &rates, "x"]);
    let unknown = |it: &Snapshot| {
        consumer(it).is_none() && it.foreign_keys.iter().any(|foreign| foreign.key == rates)
    };
    let seen = snapshot(&world, "a key of another program only hides the rate", unknown).await;
    assert!(seen.nodes.iter().all(|node| node.alive), "{:?}", seen.nodes);
    world.stop_node().await;
}

/// Even if admitted orders cannot be written or reported, the rate is counted in Redis between snapshots.
#[tokio::test(flavor = "multi_thread")]
async fn no_admission_rate_is_shown_while_the_database_is_unreachable_or_locked() {
    for locked in [true, false] {
        let (mut world, illness) =
            World::shaky(TestRedis::start(), crate::world::Database::Sqlite, 1, 7, |_| {}).await;
        world.start_node();
        let voucher = world.create(sale(300)).await;
        world.admits().await;
        snapshot(&world, "the sale is read", |it| it.sale(voucher).is_some() && it.redis.up).await;
        let lock = if locked { Some(world.lock_database().await) } else { None };
        if !locked {
            illness.set(Ill::Away);
        }
        snapshot(&world, "nothing is written", |it| !it.sql.takes_writes()).await;
        for user in 1..=50 {
            world.ask(voucher, user).await;
        }
        let still = |it: &Snapshot| {
            let point = it.series.last().copied();
            !it.sql.takes_writes()
                && it.funnel.admitted.total == 50
                && it.funnel.admitted.per_second <= 0.0
                && point.and_then(|it| it.admitted).is_some_and(|rate| rate <= 0.0)
        };
        let seen = snapshot(&world, "the rate falls to zero", still).await;
        assert_eq!((seen.sql.up, seen.written.total), (locked, 0), "{:?}", seen.sql);
        drop(lock);
        illness.set(Ill::Not);
        world.settled_and_balanced().await;
    }
}

/// Successful reads do not show that Redis refuses writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_takes_no_writes_has_an_alarm_and_live_nodes() {
    let world = World::with(|settings| settings.node_dead_ms = 2_000).await;
    let voucher = world.create(sale(9)).await;
    world.rush(LoadTest::new(voucher, 5)).await;
    world.settled().await;
    let unwritable = |it: &Snapshot| {
        it.alarms.iter().any(|alarm| matches!(alarm.kind, AlarmKind::RedisReadOnly { .. }))
    };
    for (setting, full, enough, word) in
        [("maxmemory", "1", "0", "OOM"), ("min-replicas-to-write", "1", "0", "NOREPLICAS")]
    {
        world.server.query::<()>(&["CONFIG", "SET", setting, full]);
        let seen = snapshot(&world, "the alarm", unwritable).await;
        let why = seen.redis.unwritable.as_ref().unwrap().to_string();
        assert!(why.contains(word), "{why}");
        assert!(seen.redis.up && !seen.redis.takes_writes());
        if setting == "maxmemory" {
            let since = seen.taken;
            let later = snapshot(&world, "a later sign of life", |it| {
                it.nodes.iter().any(|node| node.alive && node.seen.since(since) > 2_500)
            });
            assert!(unwritable(later.await.as_ref()), "it is full still");
        }
        world.server.query::<()>(&["CONFIG", "SET", setting, enough]);
        snapshot(&world, "the end of it", |it| !unwritable(it) && it.redis.takes_writes()).await;
    }
}

/// One key of another type must not hide the others, and is named with its remedy.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_program_are_named() {
    let (mut world, voucher) = World::with_sale(9).await;
    world.rush(LoadTest::new(voucher, 5)).await;
    world.settled().await;
    let (keys, of) = (&world.keys, world.keys.home());
    let named = async |key: &str, holds: &str| {
        let found = snapshot(&world, key, |it| {
            it.alarms.iter().any(|alarm| match &alarm.kind {
                AlarmKind::ForeignKey(found) => found.key == key && found.holds == holds,
                _ => false,
            })
        });
        assert!(found.await.redis.up, "{key}");
    };
    // A node renames keys that block it.
    for key in [keys.tally(ShardId::only(voucher)), of.dead()] {
        world.server.query::<()>(&["SET", &key, "x"]);
        let replaced = format!("{key}:replaced");
        world.until("it is renamed", async || world.server.query(&["EXISTS", &replaced])).await;
        snapshot(&world, "no alarm", |it| it.foreign_keys.is_empty()).await;
    }
    let lock = keys.lock("job:close-overdue");
    world.server.query::<()>(&["SET", &lock, "x"]);
    named(&lock, "string").await;
    world.server.query::<()>(&["DEL", &lock]);
    snapshot(&world, "no alarm", |it| it.foreign_keys.is_empty()).await;
    let (stock, buyers, keys) =
        (keys.stock(ShardId::only(voucher)), keys.buyers(ShardId::only(voucher)), keys.clone());
    // A node would restore the keys of a sale.
    world.stop_node().await;
    world.server.query::<()>(&["SET", &stock, "many"]);
    let seen =
        read_stats(&mut world.redis.connection(), &keys, &[ShardId::only(voucher)]).await.unwrap();
    let found = [ForeignKey { key: stock, holds: NO_NUMBER.to_owned() }];
    assert_eq!(seen.foreign, found);
    // A command that fails for the type of a key names the key.
    world.server.query::<()>(&["RENAME", &buyers, "kept"]);
    world.server.query::<()>(&["SET", &buyers, "x"]);
    let mut conn = world.redis.connection();
    let error = conn.query::<Vec<String>>(redis::cmd("HGETALL").arg(&buyers)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&buyers) && error.contains("RENAME"), "{error}");
}

/// While SQL makes it wait, an operator claims no entries; its consumer is alive as long as its lock is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_an_operator_that_waits_are_not_those_of_a_dead_node() {
    let mut world = World::with(|settings| settings.node_dead_ms = 2_000).await;
    world.create(sale(5)).await;
    world.stop_node().await;
    world.add_entry(&["userId", "7", "voucherId", "1", "id", "9"]).await;
    let (deployment, consumer) = (world.deployment(), replay_of("desk"));
    let mut conn = world.redis.connection();
    let all = ReadFrom::New(Duration::from_millis(100));
    stream::read_group(&mut conn, &world.keys.home(), &consumer, all, 9).await.unwrap();
    let (locks, keeper) = Locks::new(&world.redis, world.keys.clone(), "desk", Timing::default());
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keeper.run(stop.clone()));
    let guard = locks.try_lock(&LockName::new("operator").unwrap(), "a test").await.unwrap();
    let seen = async || {
        let snapshot = survey::settled(&deployment, true).await.snapshot;
        let dead = |it: &AlarmKind| matches!(it, AlarmKind::DeadConsumer { .. });
        let is_alarm = snapshot.alarms.iter().any(|it| dead(&it.kind));
        let line = snapshot.stream.unwrap().consumers.into_iter().find(|it| it.name == consumer);
        line.map(|it| (it.alive, it.idle_ms > 2_000, is_alarm))
    };
    world.until("it is idle", async || seen().await == Some((true, true, false))).await;
    guard.release().await.unwrap();
    world
        .until("its entries are an alarm", async || seen().await == Some((false, true, true)))
        .await;
    stop.cancel();
    keeping.await.unwrap();
}
