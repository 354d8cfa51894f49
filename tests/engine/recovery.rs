//! Recovery of pending entries: the plan is applied as shown, once, whatever happens in between.

use std::time::Duration;

use crate::support::{Background, LONG, Ran, Seckill, wait_until_blocking};
use crate::world::{World, newest};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use redis::cmd;
use rustix::process::Signal;
use seckill_engine::{
    EngineError,
    commands::{Command, Pace, Reply, Scope, pending::FIELDS, plan::Plan},
    ledger,
};
use seckill_model::{
    EntryId, Finding, Millis, NewSale, OrderEntry, SaleAudit, ShardId, Verdict, VoucherId,
    filter::Filter, reason::reason,
};
use seckill_redis::stream;

fn all() -> Scope {
    Scope::All(Filter::default())
}

/// A world whose node does not take over entries, with `stuck` entries of a dead node.
async fn stuck_world(stuck: u64) -> (World, VoucherId) {
    let world = World::with(|settings| settings.claim_idle_ms = 86_400_000).await;
    let sale = NewSale::checked("hot pot", stuck + 50, None, None, Millis::now()).unwrap();
    let voucher = world.create(sale).await;
    assert_eq!(world.stick(voucher, stuck, stuck as usize).await as u64, stuck);
    (world, voucher)
}

async fn plan(world: &World, scope: Scope) -> Plan {
    match world.execute(Command::Plan(scope)).await.unwrap() {
        Reply::Planned(plan) => plan,
        other => panic!("{other:?}"),
    }
}

async fn pending(world: &World) -> Vec<OrderEntry> {
    let of = world.keys.home();
    let mut conn = world.redis.connection();
    let page = stream::pending_page(&mut conn, &of, EntryId::MIN, EntryId::MAX, 10_000);
    page.await.unwrap().iter().filter_map(|row| row.delivered.order()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_forecasts_the_ledger_after_it_is_applied() {
    let (world, voucher) = stuck_world(40).await;
    let held = pending(&world).await;
    let (orders, mut conn) = (world.keys.home().orders(), world.redis.connection());
    // Three are in SQL, two have no body, one buyer has another order, one is malformed.
    world.store.write_orders(&held[..3], Millis::now()).await.unwrap();
    for entry in &held[3..5] {
        let mut delete = cmd("XDEL");
        delete.arg(&orders).arg(entry.entry.in_stream());
        assert_eq!(conn.query::<u64>(&delete).await.unwrap(), 1);
    }
    let (user, voucher_text) = (held[0].user.to_string(), voucher.to_string());
    world.hold().await;
    let other = ["userId", &user, "voucherId", &voucher_text, "id", "77"];
    world.add_entry(&other).await;
    world.add_entry(&["userId", &user, "voucherId", "4444", "id", "78"]).await;
    world.add_entry(&["userId", "x"]).await;
    let from = stream::ReadFrom::New(Duration::from_millis(100));
    let home = world.keys.home();
    stream::read_group(&mut conn, &home, "node-b/1", from, 10).await.unwrap();
    world.release().await;

    let made = plan(&world, all()).await;
    let count = |verdict| made.totals.of(verdict);
    assert_eq!(made.totals.entries, 43);
    assert_eq!(count(Verdict::Written), 3, "{:?}", made.totals);
    assert_eq!(count(Verdict::Stuck), 35, "{:?}", made.totals);
    assert_eq!(count(Verdict::BodyGone), 2);
    assert_eq!((count(Verdict::Malformed), count(Verdict::Refused)), (1, 2), "{:?}", made.totals);
    assert_eq!(made.totals.forecast.rebuilt, 2);
    let lines = made.lines().next(100).unwrap();
    let fault = |verdict| {
        let line = lines.iter().find(|line| line.verdict == verdict).unwrap();
        line.fault.clone().unwrap_or_default()
    };
    assert!(fault(Verdict::Refused).contains("holds order"), "{}", fault(Verdict::Refused));
    assert!(fault(Verdict::Malformed).contains("is missing"), "{}", fault(Verdict::Malformed));

    let forecast = made.totals.forecast;
    let command = Command::Apply(made, Pace::default());
    let Reply::Replayed(report) = world.execute(command).await.unwrap() else { panic!() };
    assert_eq!((report.seen, report.changed, report.lost), (43, 0, 0), "{report:?}");
    assert_eq!((report.persisted, report.dead, report.rebuilt), (35, 3, 2), "{report:?}");
    world.settled_and_balanced().await;
    let dead: u64 = conn.query(cmd("XLEN").arg(home.dead())).await.unwrap();
    assert_eq!((forecast.dead.after, forecast.pending.after), (dead, 0));
    let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!(ledger.live, forecast.persisted.after + forecast.rebuilt);
    let entries = newest(&world.store, 20).await;
    let line = entries.iter().find(|entry| entry.action == "pending apply").unwrap();
    assert!(line.result.contains("43 entries"), "{line:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_changed_since_the_plan_are_reported_and_skipped() {
    let (world, _) = stuck_world(20).await;
    let held = pending(&world).await;
    let made = plan(&world, all()).await;
    // One is acknowledged by another client, one is pending at a live node now.
    let mut conn = world.redis.connection();
    let home = world.keys.home();
    stream::acknowledge(&mut conn, &home, [held[0].entry]).await.unwrap();
    let live = format!("{}/9", crate::world::NODE);
    stream::claim(&mut conn, &home, &live, 0, &[held[1].entry]).await.unwrap();
    let command = Command::Apply(made, Pace::default());
    let Reply::Replayed(report) = world.execute(command).await.unwrap() else { panic!() };
    assert_eq!((report.seen, report.gone, report.changed), (20, 1, 1), "{report:?}");
    assert_eq!((report.persisted, report.changes.len()), (18, 1), "{report:?}");
    let changed = report.changes[0];
    assert_eq!(
        (changed.entry, changed.planned, changed.now),
        (held[1].entry, Verdict::Stuck, Verdict::InHand)
    );
    assert_eq!(world.pending().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partially_applied_plan_continues() {
    let (world, voucher) = stuck_world(90).await;
    let filter = Filter::parse("verdict=stuck,holder~node-b,deliveries=1", FIELDS).unwrap();
    let made = plan(&world, Scope::All(filter)).await;
    assert_eq!(made.totals.entries, 90);
    let pace = Pace { most: Some(30), rate: None };
    let Reply::Replayed(report) = world.execute(Command::Apply(made.clone(), pace)).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((report.seen, report.persisted, report.cut_short), (30, 30, true), "{report:?}");
    // At a rate that would take minutes; it is cancelled.
    let operator = world.node().operator().clone();
    let slow = Command::Apply(made.clone(), Pace { most: None, rate: Some(4) });
    let stop = world.node().stopping().clone();
    let slow = tokio::spawn(async move { operator.execute(slow, &stop).await });
    world
        .until("it is under way", async || {
            let lines = world.node().remote().snapshots.borrow().recoveries.clone();
            lines.iter().any(|line| line.done > 30 && line.planned == 90)
        })
        .await;
    // Other operators are refused meanwhile, and the error names the active one.
    let other = world.another_node("node-c");
    let command = Command::Apply(made.clone(), Pace::default());
    let error = other.operator().execute(command, other.stopping()).await.unwrap_err().to_string();
    assert!(error.contains("pending apply") && error.contains(crate::world::NODE), "{error}");
    assert!(other.stop().await.in_time);
    let cancelled = world.execute(Command::Cancel).await.unwrap();
    assert_eq!(cancelled, Reply::Cancelled(true));
    let Reply::Replayed(report) = slow.await.unwrap().unwrap() else { panic!() };
    assert!(report.cut_short && report.gone >= 30 && report.seen < 90, "{report:?}");
    assert_eq!(world.execute(Command::Cancel).await.unwrap(), Reply::Cancelled(false));

    let Reply::Replayed(report) =
        world.execute(Command::Apply(made, Pace::default())).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((report.seen, report.changed, report.cut_short), (90, 0, false), "{report:?}");
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 90);
    world.settled_and_balanced().await;
}

/// The binary on the servers of a world.
struct Shell<'a> {
    home: Seckill,
    world: &'a World,
}

impl Shell<'_> {
    fn spawn(&self, args: &[&str]) -> Background {
        let database = format!("sqlite:{}", self.world.database().display());
        let url = self.world.server.url();
        let mut whole = vec!["--redis", &url, "--database", &database];
        whole.extend(args);
        self.home.spawn(&whole)
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.spawn(args).wait(LONG)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_twenty_times_and_resumed_each_entry_is_acted_upon_once() {
    let (mut world, voucher) = stuck_world(6_000).await;
    world.stop_node().await;
    let before = pending(&world).await;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut kills = 0;
    {
        let shell = Shell { home: Seckill::new(), world: &world };
        let file = shell.home.file("plan.json");
        let path = file.to_str().unwrap();
        shell.run(&["pending", "plan", "--out", path]).expect_code(0);
        let left = || -> u64 {
            let home = world.keys.home();
            let info: (u64, redis::Value, redis::Value, redis::Value) =
                world.server.query(&["XPENDING", &home.orders(), home.group()]);
            info.0
        };
        while kills < 20 {
            let open = left();
            assert!(open > 0, "it was done after {kills} kills");
            let applying = shell.spawn(&["pending", "apply", path, "--yes", "--rate", "400"]);
            let step = random.random_range(1..100);
            wait_until_blocking(LONG, "it has begun", || left() + step < open || left() == 0);
            applying.signal(Signal::KILL);
            drop(applying.wait(LONG));
            kills += 1;
            // The lock of a dead operator would end with its lease.
            let freed = shell.run(&["locks", "release", "operator", "--yes"]);
            assert!(freed.code() == 0 || freed.stderr.contains("is not held"), "{freed}");
        }
        let report =
            shell.run(&["pending", "apply", path, "--yes", "--json"]).expect_code(0).json();
        assert_eq!(report["planned"], 6_000, "{report}");
        assert_eq!(report["changed"], 0, "{report}");
        let audit = shell.run(&["audit", "--json"]).expect_code(0).json();
        assert_eq!(audit["sales"][0]["persisted"], 6_000, "{audit}");
        assert_eq!(audit["sales"][0]["dead"], 0, "{audit}");
    }
    let live = world.store.live_orders(ShardId::only(voucher), None, 10_000).await.unwrap();
    let mut written: Vec<_> = live.iter().map(|order| order.id).collect();
    let mut asked: Vec<_> = before.iter().map(|order| order.order).collect();
    written.sort_unstable();
    asked.sort_unstable();
    assert_eq!(written, asked);
    world.start_node();
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_plan_is_refused_before_any_change() {
    let (mut world, _) = stuck_world(30).await;
    world.stop_node().await;
    let shell = Shell { home: Seckill::new(), world: &world };
    let file = shell.home.file("plan.json");
    let path = file.to_str().unwrap();
    shell.run(&["pending", "plan", "--out", path]).expect_code(0);
    shell.run(&["pending", "plan", "--out", path]).expect_code(2);
    let whole = std::fs::read_to_string(&file).unwrap();
    let printed = shell.run(&["pending", "plan", "--json"]).expect_code(0).json();
    assert_eq!(printed["entries"].as_array().map(Vec::len), Some(30));
    assert_eq!(printed["totals"]["verdicts"][0]["action"], "process");

    let refuses = |text: &str, why: &str| {
        std::fs::write(&file, text).unwrap();
        let result = shell.run(&["pending", "apply", path, "--yes"]).expect_code(2);
        assert!(result.stderr.contains(why), "{result}");
    };
    refuses(&whole.replace("\"stuck\"", "\"written\""), "edited after it was made");
    refuses(&whole[..whole.len() / 2], "truncated");
    refuses("{}", "not a plan");
    refuses("", "not a plan");
    let result = shell.run(&["pending", "apply", "/no/such/plan", "--yes"]).expect_code(2);
    assert!(result.stderr.contains("/no/such/plan"), "{result}");
    let result = shell.run(&["pending", "apply", "--filter", "colour=red", "--yes"]).expect_code(2);
    assert!(result.stderr.contains("there is no field 'colour'"), "{result}");
    let none = shell.run(&["pending", "apply", "--filter", "voucher=99", "--yes"]).expect_code(1);
    assert!(none.stdout.contains("matches no pending entry"), "{none}");
    shell.run(&["pending", "plan", "--filter", "voucher=99"]).expect_code(1);
    let asked = shell.run(&["pending", "apply"]).expect_code(2);
    assert!(asked.stderr.contains("--yes"), "{asked}");
    let read_only = shell.run(&["pending", "apply", "--yes", "--read-only"]).expect_code(2);
    assert!(read_only.stderr.contains("read-only"), "{read_only}");

    // A whole plan, and another deployment.
    std::fs::write(&file, &whole).unwrap();
    let other = World::start().await;
    let stranger = Shell { home: Seckill::new(), world: &other };
    let result = stranger.run(&["pending", "apply", path, "--yes"]);
    assert!(result.stderr.contains("another deployment"), "{result}");
    assert_eq!(result.code(), 1, "{result}");
    assert_eq!(world.pending().await, 30, "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_repair_reports_the_repaired_sales() {
    let world = World::start().await;
    let there =
        world.create(NewSale::checked("hot pot", 50, None, None, Millis::now()).unwrap()).await;
    let audit = ledger::audit(&mut world.servers(), Some(there)).await.unwrap().sales.remove(0);
    // Reconciled.
    let first = SaleAudit { findings: vec![Finding::NotLoaded], ..audit };
    let gone = VoucherId(there.0 + 1);
    let plan = vec![first.clone(), SaleAudit { voucher_id: gone, ..first }];
    let error = world.execute(Command::Repair(plan)).await.unwrap_err();
    let EngineError::BrokeOff { why, done } = error else { panic!("{error}") };
    assert!(why.to_string().contains(&format!("voucher {gone}")), "{why}");
    let sales = format!("#{there}");
    assert_eq!(done, reason!("done-repaired", done = 1_u64, planned = 2_u64, sales));
}
