//! The audit log of a deployment on real servers: commands with figures before and after, and events.

use std::{path::Path, sync::Arc, time::Duration};

use crate::support::{MariaDb, Postgres};
use crate::world::{NODE, World, newest, sale};
use seckill_engine::{
    commands::{Command, LoadTest, Scope},
    fault_injection,
    node::heartbeat::take_name,
    telemetry::{
        Snapshot,
        log::{LogView, Which},
        snapshot::AlarmKind,
    },
};
use seckill_model::{Millis, NewSale, SaleState, VoucherDetails, filter::Filter};
use seckill_store::{ActivityFilter, AuditEntry, NO_OPERATOR};
use serde_json::Value;
use sqlx::{
    Connection as _, Executor as _, MySqlConnection, PgConnection, SqliteConnection,
    migrate::Migrator,
};

/// The whole log, oldest first.
async fn log(world: &World) -> Vec<AuditEntry> {
    let lines = world.store.activity(&ActivityFilter::default(), None, 1_000).await;
    lines.unwrap_or_default().into_iter().rev().collect()
}

async fn of(world: &World, action: &str) -> Vec<AuditEntry> {
    log(world).await.into_iter().filter(|line| line.action == action).collect()
}

fn figures(text: Option<&String>) -> Value {
    serde_json::from_str(text.expect("figures were taken")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_recorded_with_the_figures_before_and_after() {
    let (world, voucher) = World::with_sale(20).await;
    assert_eq!(world.stick(voucher, 10, 10).await, 10);
    world.replay(Scope::All(Filter::default())).await;
    let [line] = &of(&world, "pending apply").await[..] else { panic!() };
    let (before, after) = (figures(line.before.as_ref()), figures(line.after.as_ref()));
    assert_eq!((&before["pending"], &before["persisted"]), (&10.into(), &0.into()), "{before}");
    assert_eq!((&after["pending"], &after["persisted"]), (&0.into(), &10.into()), "{after}");
    assert_eq!((&before["audit"], &after["audit"]), (&"in flight".into(), &"balanced".into()));

    let pause = Command::PauseSale(voucher);
    let mut operator = world.node().operator().clone();
    operator.reason = Some("锅".repeat(1_001));
    let refused = operator.execute(pause.clone(), world.node().stopping()).await.unwrap_err();
    assert!(refused.to_string().contains("1,001 characters"), "{refused}");
    assert_eq!(world.store.sale(voucher).await.unwrap().state, SaleState::Running);
    operator.reason = Some("锅".repeat(1_000));
    operator.execute(pause, world.node().stopping()).await.unwrap();
    let [line] = &of(&world, "sale pause").await[..] else { panic!() };
    assert_eq!(line.reason, operator.reason);
    assert_eq!(figures(line.before.as_ref())["sale"].to_string(), voucher.to_string());
}

/// The log contains the command with its arguments and its result, and no SQL statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_recorded_with_its_arguments_and_no_made_up_statements() {
    let world = World::start().await;
    let end = Millis::now().plus(3_600_000);
    let wanted = NewSale::checked("tea", 20, None, Some(end), Millis::now()).unwrap();
    let voucher = world.create(wanted.limited(2).unwrap()).await;
    world.execute(Command::EndSale(voucher)).await.unwrap();
    let [created] = &of(&world, "sale create").await[..] else { panic!() };
    assert_eq!(*created.subject, format!("'tea', stock 20, limit 2, ends at {end}"));
    let [ended] = &of(&world, "sale end").await[..] else { panic!() };
    assert_eq!((&*ended.subject, &*ended.result), ("#1", "sale #1 has ended permanently"));
    for line in [created, ended] {
        let kept = serde_json::to_string(line).unwrap();
        let statement = ["UPDATE", "INSERT", "tb_", ".lua"].iter().find(|it| kept.contains(**it));
        assert_eq!(statement, None, "{kept}");
    }
}

/// A hanging Redis does not block a command that does not need it.
#[tokio::test(flavor = "multi_thread")]
async fn unavailable_figures_are_unknown() {
    let world = World::start().await;
    world.server.freeze();
    world.execute(Command::CreateVoucher(VoucherDetails::titled("tea"))).await.unwrap();
    world.server.thaw();
    let [line] = &of(&world, "voucher create").await[..] else { panic!() };
    let before = figures(line.before.as_ref());
    assert_eq!((&before["pending"], &before["persisted"]), (&Value::Null, &0.into()), "{before}");
    assert_eq!(before["audit"], "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_found_dead() {
    let world = World::with(|settings| settings.node_dead_ms = 2_000).await;
    take_name(&mut world.servers(), "node-x", "i", 2_000, true).await.unwrap();
    world.until("the event is logged", async || !of(&world, "node dead").await.is_empty()).await;
    let [line] = &of(&world, "node dead").await[..] else { panic!() };
    assert_eq!((&*line.subject, line.node.as_str()), ("node-x", NODE));
    // It was suspended, and goes on.
    take_name(&mut world.servers(), "node-x", "i", 2_000, true).await.unwrap();
    world.until("so is its return", async || of(&world, "node back").await.len() == 1).await;
}

/// A node dies shortly after the first admissions: its last heartbeat is older than the sale, its death is not.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_in_order() {
    let (world, voucher) = World::with_sale(10).await;
    world.hold().await;
    world
        .execute(Command::LoadTest(LoadTest { settle: false, ..LoadTest::new(voucher, 10) }))
        .await
        .unwrap();
    let dead_ms = world.node().operator().deployment.settings.node_dead_ms;
    fault_injection::die_with_batch(&world.redis, &world.keys, "node-b", 10, dead_ms)
        .await
        .unwrap();
    world
        .until("the alarm is in the log", async || !of(&world, "alarm raised").await.is_empty())
        .await;
    world.until("so is the node", async || !of(&world, "node dead").await.is_empty()).await;
    let actions: Vec<String> = log(&world).await.into_iter().map(|line| line.action).collect();
    assert_eq!(actions, ["node started", "sale create", "rush", "node dead", "alarm raised"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_is_reported_once_with_its_duration() {
    let mut world = World::start().await;
    let other = world.another_node("node-o");
    world
        .until("both events are logged", async || of(&world, "node started").await.len() == 2)
        .await;
    let snapshots = world.node().remote().snapshots;
    world.server.kill();
    let killed = Millis::now();
    world.until("its begin is logged", async || !of(&world, "redis away").await.is_empty()).await;
    world.until("it is seen", async || snapshots.borrow().redis.away_since.is_some()).await;
    world.server.restart();
    let back = |world: &World| {
        let snapshot = snapshots.borrow().clone();
        let outcome =
            snapshot.alarms.iter().any(|it| matches!(it.kind, AlarmKind::ServerBack { .. }));
        outcome && snapshot.redis.back.is_some() && world.server.is_running()
    };
    world.until("the screen says that it came back", async || back(&world)).await;
    world.until("its end is logged", async || !of(&world, "redis back").await.is_empty()).await;
    // Each node writes its remaining events when it stops.
    assert!(other.stop().await.in_time);
    world.stop_node().await;
    let (away, back) = (of(&world, "redis away").await, of(&world, "redis back").await);
    assert_eq!((away.len(), back.len()), (1, 1), "{:#?}", log(&world).await);
    assert_eq!((away[0].operator.as_str(), &*away[0].subject), (NO_OPERATOR, "redis"));
    assert!(back[0].at > away[0].at && away[0].at >= killed.plus(-5_000), "{away:?} {back:?}");
    assert!(back[0].result.starts_with("after "), "{back:?}");
    let mut stopped: Vec<String> =
        of(&world, "node stopped").await.into_iter().map(|line| line.subject.to_string()).collect();
    stopped.sort();
    assert_eq!(stopped, ["node-o", NODE]);
    assert_eq!(of(&world, "node dead").await, [], "the heartbeats were old, and no node was dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_during_a_database_outage_are_written_later() {
    let mut database = MariaDb::start();
    let url = database.database().await;
    let mut world = World::at(&url, &seckill_store::Settings::default()).await;
    let voucher = world.create(sale(5)).await;
    world.until("the log is open", async || !of(&world, "node started").await.is_empty()).await;
    let snapshots = world.node().remote().snapshots;
    database.kill();
    world.until("the screen says so", async || snapshots.borrow().sql.away_since.is_some()).await;
    let failed = world.execute(Command::PauseSale(voucher)).await.unwrap_err();
    assert!(failed.is_away(), "{failed}");
    let waiting = world.node().operator().outbox.waiting();
    assert!(waiting.iter().any(|line| line.action == "sale pause"), "{waiting:?}");
    let before = Millis::now();
    database.restart();
    for action in ["database away", "sale pause", "database back"] {
        world.until(action, async || of(&world, action).await.len() == 1).await;
    }
    let away = of(&world, "database away").await.remove(0);
    let back = of(&world, "database back").await.remove(0);
    let pause = of(&world, "sale pause").await.remove(0);
    assert!(away.at < pause.at && pause.at <= before && before < back.at, "{away:?} {back:?}");
    assert!(pause.result.starts_with("failed: "), "{pause:?}");
    assert_eq!(figures(pause.before.as_ref())["persisted"], Value::Null, "unknown");
    world.stop_node().await;
    assert_eq!(of(&world, "sale pause").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_observers_write_nothing() {
    let mut world = World::start().await;
    world.create(sale(5)).await;
    world.stop_node().await;
    let before = log(&world).await;
    assert_eq!(before.last().map(|line| line.action.as_str()), Some("node stopped"));
    world.read_only = true;
    world.start_node();
    let snapshots = world.node().remote().snapshots;
    world
        .until("it reads the log", async || snapshots.borrow().activity.len() == before.len())
        .await;
    world.server.kill();
    world.until("it sees", async || snapshots.borrow().redis.away_since.is_some()).await;
    world.server.restart();
    world.until("it sees again", async || snapshots.borrow().redis.back.is_some()).await;
    assert!(world.execute(Command::CreateVoucher(VoucherDetails::titled("t"))).await.is_err());
    world.stop_node().await;
    assert_eq!(log(&world).await, before);
}

/// A row of the oldest schema.
const OLD: &str = "INSERT INTO tb_audit_log (at, operator, node, act, subject, result) \
                   VALUES (7, 'o', 'n', 'sale end', '#1', 'done')";

/// The migrations of a schema whose log had no figures yet.
async fn older(dialect: &str) -> Migrator {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(dialect);
    let mut migrator = Migrator::new(all).await.unwrap();
    migrator.migrations = migrator.migrations.iter().filter(|it| it.version < 4).cloned().collect();
    migrator
}

async fn is_read_still(url: &str) {
    let store = seckill_store::open(url, &seckill_store::Settings::default()).await.unwrap();
    let old = AuditEntry {
        at: Millis(7),
        operator: "o".into(),
        node: "n".into(),
        action: "sale end".into(),
        subject: "#1".into(),
        result: "done".into(),
        ..AuditEntry::default()
    };
    assert_eq!(newest(&store, 9).await, std::slice::from_ref(&old));
    let new = AuditEntry { before: Some("{}".into()), ..old };
    store.record(&new).await.unwrap();
    assert_eq!(newest(&store, 1).await, [new]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_an_older_version_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", dir.path().join("t.db").display());
    let (mariadb, postgres) =
        (MariaDb::shared().database().await, Postgres::shared().database().await);
    let mut conn = SqliteConnection::connect(&format!("{sqlite}?mode=rwc")).await.unwrap();
    older("sqlite").await.run(&mut conn).await.unwrap();
    conn.execute(OLD).await.unwrap();
    conn.close().await.unwrap();
    let mut conn = PgConnection::connect(&postgres).await.unwrap();
    older("postgres").await.run(&mut conn).await.unwrap();
    conn.execute(OLD).await.unwrap();
    conn.close().await.unwrap();
    let mut conn = MySqlConnection::connect(&mariadb).await.unwrap();
    older("mysql").await.run(&mut conn).await.unwrap();
    conn.execute(OLD).await.unwrap();
    // MariaDB may close it first.
    let _ = conn.close().await;
    for url in [&sqlite, &mariadb, &postgres] {
        is_read_still(url).await;
    }
}

/// A snapshot with the requested page.
async fn look(world: &World, look: Option<LogView>) -> Arc<Snapshot> {
    let remote = world.node().remote();
    remote.focus.send_modify(|focus| focus.log = look);
    let mut snapshots = remote.snapshots;
    let came = |snapshot: &Arc<Snapshot>| match look {
        Some(look) => snapshot.log.taken.is_some() && snapshot.log.view == look,
        None => snapshot.log.taken.is_none(),
    };
    let found = tokio::time::timeout(Duration::from_mins(1), snapshots.wait_for(came)).await;
    Arc::clone(&found.expect("the page comes").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_log_is_read_only_while_it_is_shown() {
    let world = World::start().await;
    for number in 0..250 {
        let operator = if number % 2 == 0 { "kim" } else { NO_OPERATOR };
        let entry = AuditEntry {
            at: Millis(1_000 + number),
            operator: operator.to_owned(),
            action: "made up".to_owned(),
            ..AuditEntry::default()
        };
        world.store.record(&entry).await.unwrap();
    }
    let newest = look(&world, Some(LogView::default())).await;
    assert!(newest.log.more && newest.log.lines.len() == 200);
    assert!(newest.log.lines.is_sorted_by_key(AuditEntry::position));
    let first = newest.log.lines[0].position();
    let before = look(&world, Some(LogView { before: Some(first), which: None })).await;
    assert!(!before.log.more && before.log.lines.iter().all(|line| line.position() < first));
    let shown = look(&world, Some(LogView { which: Some(Which::Commands), before: None })).await;
    assert_eq!((shown.log.lines.len(), shown.log.more), (125, false));
    // The newest page follows the log.
    let entry =
        AuditEntry { at: Millis::now(), operator: "kim".to_owned(), ..AuditEntry::default() };
    world.store.record(&entry).await.unwrap();
    let mut snapshots = world.node().remote().snapshots;
    let grown = snapshots.wait_for(|snapshot| snapshot.log.lines.len() == 126);
    tokio::time::timeout(Duration::from_mins(1), grown).await.expect("it grows").unwrap();
    assert!(look(&world, None).await.log.lines.is_empty());
}
