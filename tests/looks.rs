//! The order stream and the orders as a console sees them: read while somebody looks, followed, asked about first.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod support;
mod world;

use std::{sync::Arc, time::Duration};

use seckill::{
    engine::{
        command::{Command, Refusal, Reply, RushPlan},
        drill,
        group::{GroupAct, Preview, To},
        orders::Standing,
    },
    model::{Millis, NewSale, OrderId, OrderStatus},
    telemetry::{OrdersView, Snapshot, StreamView, snapshot::Holding},
};
use world::World;

const PATIENCE: Duration = Duration::from_mins(1);

fn sale(stock: u64) -> NewSale {
    NewSale::checked("hot pot", stock, None, None, Millis::now()).unwrap()
}

async fn picture(world: &World, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut pictures = world.node().remote().snapshots;
    let found = pictures.wait_for(|picture| holds(picture));
    let found = tokio::time::timeout(PATIENCE, found).await;
    Arc::clone(&found.unwrap_or_else(|_| panic!("waited in vain: {what}")).unwrap())
}

async fn ask(world: &World, command: Command) -> Result<Reply, Refusal> {
    let answer = world.node().remote().send(command).unwrap();
    tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap()
}

fn look_at(world: &World, stream: Option<StreamView>, orders: Option<OrdersView>) {
    world.node().remote().focus.send_modify(|focus| {
        (focus.stream, focus.orders) = (stream, orders);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_the_stream_is_read_while_somebody_looks() {
    for partitions in [1, 3] {
        let world = World::spread(partitions, |_| {}).await;
        let voucher = world.create(sale(300)).await;
        world.rush(RushPlan::new(voucher, 300)).await;
        let before =
            picture(&world, "all written", |it| it.sales.iter().any(|sale| sale.persisted == 300));
        assert!(before.await.entries.taken.is_none(), "nobody looks");

        look_at(&world, Some(StreamView::default()), None);
        let done = |it: &Snapshot| {
            let lines = &it.entries.lines;
            lines.len() == 200 && lines.iter().all(|it| it.holding == Holding::Acknowledged)
        };
        let seen = picture(&world, "the newest", done).await;
        let page = &seen.entries;
        assert!(page.older && page.lines.is_sorted_by_key(|it| it.entry));
        assert_eq!(page.partitions.len(), usize::from(partitions));
        assert_eq!(page.partitions.iter().map(|it| it.length).sum::<u64>(), 300);
        assert!(page.partitions.iter().all(|it| it.lag == Some(0)), "{:?}", page.partitions);
        assert_eq!(page.consumers.len(), usize::from(partitions));

        let before = Some(page.lines[0].entry);
        let older = StreamView { partition: None, before };
        look_at(&world, Some(older), None);
        let seen = picture(&world, "those before", |it| it.entries.view == older).await;
        assert_eq!((seen.entries.lines.len(), seen.entries.older), (100, false));
        assert!(seen.entries.lines.iter().all(|it| Some(it.entry) < before));
        look_at(&world, None, None);
        picture(&world, "nobody looks", |it| it.entries.taken.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_read_in_pages_and_followed_to_where_they_are() {
    let world = World::start().await;
    let voucher = world.create(sale(300)).await;
    world.rush(RushPlan::new(voucher, 250)).await;
    look_at(&world, None, Some(OrdersView::default()));
    let full = |it: &Snapshot| it.orders.lines.len() == 100 && it.orders.more;
    let seen = picture(&world, "the newest orders", full).await;
    let last = seen.orders.lines[99].id;
    let view = OrdersView { before: Some(last), ..OrdersView::default() };
    look_at(&world, None, Some(view));
    let seen = picture(&world, "older ones", |it| it.orders.view == view).await;
    assert!(seen.orders.lines.iter().all(|order| order.id < last));

    ask(&world, Command::Pay(last)).await.unwrap();
    let query = format!("status=paid voucher={voucher}").parse().unwrap();
    let view = OrdersView { query, before: None };
    look_at(&world, None, Some(view));
    let paid = picture(&world, "the paid one", |it| it.orders.view == view).await;
    let paid: Vec<_> = paid.orders.lines.iter().map(|it| (it.id, it.status)).collect();
    assert_eq!(paid, [(last, OrderStatus::Paid)]);

    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(last)).await else { panic!() };
    assert!(matches!(trace.standing, Standing::Persisted { .. }), "{trace:?}");
    assert_eq!(trace.held, Some(true));
    assert!(matches!(trace.entry, Some((_, Holding::Acknowledged))), "{trace:?}");
    let nobody = OrderId::new(1_700_000_000, 1).unwrap();
    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(nobody)).await else { panic!() };
    assert_eq!((trace.standing, trace.entry), (Standing::Unknown, None));

    let act = GroupAct::Rewind { to: To::Start, partition: None };
    let Ok(Reply::Previewed(Preview::Rewind(plan))) = ask(&world, Command::Preview(act)).await
    else {
        panic!()
    };
    assert_eq!(plan.iter().map(|it| (it.again, it.written)).collect::<Vec<_>>(), [(250, 250)]);
    let act = GroupAct::Remove { name: "nobody/1".to_owned() };
    let refused = ask(&world, Command::Preview(act)).await.unwrap_err();
    assert!(refused.to_string().contains("there is no consumer 'nobody/1'"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_told_with_its_holder() {
    let world = World::start().await;
    let voucher = world.create(sale(100)).await;
    assert!(world.node().hold_consumer(true).await);
    let plan = RushPlan { settle: false, repeat: 0.0, ..RushPlan::new(voucher, 20) };
    world.execute(Command::Rush(plan)).await.unwrap();
    look_at(&world, Some(StreamView::default()), None);
    let waits = |it: &Snapshot| {
        it.entries.lines.len() == 20
            && it.entries.lines.iter().all(|it| it.holding == Holding::Undelivered)
    };
    let seen = picture(&world, "nobody was given them", waits).await;
    let id = seen.entries.lines[0].order.unwrap();
    let Ok(Reply::Traced(trace)) = ask(&world, Command::Trace(id)).await else { panic!() };
    let entry = seen.entries.lines[0].entry;
    assert!(matches!(trace.standing, Standing::Undelivered { .. }), "{trace:?}");
    assert_eq!(trace.entry, Some((entry, Holding::Undelivered)));

    let taken = drill::die_with_batch(&world.redis, &world.keys, "node-b", 5).await.unwrap();
    let held = |it: &Snapshot| {
        let of_b = |holding: &Holding| match holding {
            Holding::Pending { consumer, .. } => consumer.starts_with("node-b/"),
            _ => false,
        };
        it.entries.lines.iter().filter(|it| of_b(&it.holding)).count() == taken
    };
    picture(&world, "node-b holds them", held).await;
    assert!(taken > 0);
}
