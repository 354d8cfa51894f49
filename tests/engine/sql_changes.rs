//! Tables, rows and sales that change in SQL under a running node: what hits every order is an outage that waits, what
//! hits one order is a dead letter, and what hits one sale stops no other.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::support::MariaDb;
use crate::world::{Database, World, newest, sale};
use seckill_engine::{
    EngineError,
    admission::AdmissionError,
    commands::{Command, LoadTest, Reply, Scope, pending::FIELDS},
    deployment::settings::Settings,
    ledger,
    recovery::{
        dead_letters::{LETTER_FIELDS, LetterScope, Letters, LettersDiscarded},
        repair,
    },
    telemetry::{
        Meters,
        collector::Collector,
        snapshot::{Alarm, AlarmKind, Snapshot, SqlCopy},
    },
};
use seckill_model::{
    EntryId, NewSale, OrderFilter, OrderTerms, Phase, ShardId, UserId, VoucherId, filter::Filter,
    ledger::Finding,
};
use seckill_redis::{dead_letters, keys::node_of, stream};
use sqlx::{AssertSqlSafe, Executor as _};

fn snapshot(world: &World) -> Arc<Snapshot> {
    Arc::clone(&world.node().remote().snapshots.borrow())
}

fn dead(world: &World) -> u64 {
    world.server.query(&["XLEN", &world.keys.home().dead()])
}

async fn live(world: &World, voucher: VoucherId) -> u64 {
    world.store.ledger(ShardId::only(voucher)).await.unwrap().live
}

async fn event(world: &World, what: &str) -> bool {
    newest(&world.store, 50).await.iter().any(|entry| entry.action == what)
}

/// Whether an alarm says that the orders of a sale wait, or that SQL has lost it.
fn is_of(kind: &AlarmKind, of: VoucherId) -> bool {
    match kind {
        AlarmKind::OrdersWait { sale, .. } => *sale == of,
        AlarmKind::SalesLost { sales, .. } => sales.contains(&ShardId::only(of)),
        _ => false,
    }
}

fn is_alarm(world: &World, of: VoucherId) -> bool {
    snapshot(world).alarms.iter().any(|it| is_of(&it.kind, of))
}

/// A collector without a node, as that of `status`.
fn collector(world: &World) -> Collector {
    let (deployment, meters) = (world.deployment(), Arc::new(Meters::default()));
    Collector::new(&deployment, meters, String::new(), true, Vec::new())
}

/// Whether a process without a node, such as `status`, sees it.
async fn is_alarm_elsewhere(world: &World, of: VoucherId) -> bool {
    collector(world).collect().await.alarms.iter().any(|it| is_of(&it.kind, of))
}

/// The same of a database that accepts no orders at all, some of which cannot be read either.
async fn is_outage_elsewhere(world: &World, of: VoucherId) -> bool {
    let is_one = |it: &AlarmKind| matches!(it, AlarmKind::SqlAway { .. }) || is_of(it, of);
    collector(world).collect().await.alarms.iter().any(|it| is_one(&it.kind))
}

/// The reasons of the dead letters.
async fn reasons(world: &World) -> Vec<String> {
    let mut conn = world.redis.connection();
    let of = world.keys.home();
    let letters = dead_letters::read(&mut conn, &of, EntryId::MIN, 1_000).await.unwrap();
    letters.iter().map(|it| it.reason.to_string()).collect()
}

/// A trigger that rejects the rows for which `condition` holds.
async fn reject(world: &World, database: Database, condition: &str) {
    let text = match database {
        Database::Sqlite => format!(
            "CREATE TRIGGER refuses BEFORE INSERT ON tb_voucher_order WHEN {condition} \
             BEGIN SELECT RAISE(ABORT, 'not these'); END"
        ),
        Database::MariaDb => format!(
            "CREATE TRIGGER refuses BEFORE INSERT ON tb_voucher_order FOR EACH ROW \
             IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not these'; END IF"
        ),
        Database::Postgres => format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF {condition} THEN RAISE EXCEPTION 'not these'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER refuses BEFORE INSERT ON tb_voucher_order \
             FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
    };
    world.run_sql(&text).await;
}

async fn accept(world: &World, database: Database) {
    world
        .run_sql(match database {
            Database::Postgres => "DROP TRIGGER refuses ON tb_voucher_order; DROP FUNCTION refuse",
            _ => "DROP TRIGGER refuses",
        })
        .await;
}

/// Each single row is rejected: a column that must have a value, one that is too narrow, a trigger. Each is an outage.
async fn what_hits_every_order_is_an_outage(database: Database) {
    let changes: &[(&str, &str)] = match database {
        // SQLite refuses such changes of a table that has rows.
        Database::Sqlite => &[("", "")],
        Database::MariaDb => &[
            ("", ""),
            (
                "ALTER TABLE tb_voucher_order ADD COLUMN remark VARCHAR(20) NOT NULL",
                "ALTER TABLE tb_voucher_order DROP COLUMN remark",
            ),
            (
                "ALTER TABLE tb_voucher_order ADD CONSTRAINT small CHECK (create_time < 1)",
                "ALTER TABLE tb_voucher_order DROP CONSTRAINT small",
            ),
            (
                "ALTER TABLE tb_voucher_order RENAME COLUMN update_time TO changed",
                "ALTER TABLE tb_voucher_order RENAME COLUMN changed TO update_time",
            ),
        ],
        Database::Postgres => &[
            ("", ""),
            (
                "ALTER TABLE tb_voucher_order ADD COLUMN remark VARCHAR(20) NOT NULL",
                "ALTER TABLE tb_voucher_order DROP COLUMN remark",
            ),
            (
                "ALTER TABLE tb_voucher_order ALTER COLUMN update_time TYPE INTEGER",
                "ALTER TABLE tb_voucher_order ALTER COLUMN update_time TYPE BIGINT",
            ),
            (
                "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 RAISE EXCEPTION 'not at the end'; END $$; \
                 CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tb_voucher_order \
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()",
                "DROP TRIGGER late ON tb_voucher_order; DROP FUNCTION late",
            ),
        ],
    };
    for (change, back) in changes {
        // Without rows, which would forbid the change.
        let world = World::on(database, 1, |settings| settings.consumer_batch = 100).await;
        let voucher = world.create(sale(200)).await;
        world.admits().await;
        world.hold().await;
        match *change {
            "" => reject(&world, database, "NEW.user_id > 0").await,
            change => world.run_sql(change).await,
        }
        let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 150) };
        world.rush(plan).await;
        world.release().await;
        world
            .until("the outage is an alarm", async || {
                let alarms = &snapshot(&world).alarms;
                // A column that reads need as well makes all of it fail.
                let is_one = |it: &AlarmKind| {
                    matches!(it, AlarmKind::SqlReadOnly { .. } | AlarmKind::SqlAway { .. })
                };
                alarms.iter().any(|it| is_one(&it.kind))
            })
            .await;
        world
            .until("each process names it", async || is_outage_elsewhere(&world, voucher).await)
            .await;
        // Several attempts later.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((dead(&world), live(&world, voucher).await), (0, 0), "{change}");
        match *back {
            "" => accept(&world, database).await,
            back => world.run_sql(back).await,
        }
        world.settled().await;
        world.until("it ends", async || !is_outage_elsewhere(&world, voucher).await).await;
        assert_eq!((dead(&world), live(&world, voucher).await), (0, 150), "{change}");
        world.balanced().await;
        world.until("it is an event", async || event(&world, "orders wait").await).await;
        world.until("its end too", async || event(&world, "orders written").await).await;
    }
}

/// Of a batch and alone: the only pending order of the only sale is bad.
async fn what_hits_one_order_makes_it_a_dead_letter(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(200)).await;
    reject(&world, database, "NEW.user_id IN (7, 99)").await;
    world.hold().await;
    world.admit(voucher, 1..=50).await;
    world.release().await;
    world.settled().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (1, 49));
    world.admit(voucher, [99]).await;
    world.settled().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (2, 49));
    assert!(reasons(&world).await.iter().all(|it| it.contains("not these")));
    world.stranded().await;
    // Values that do not fit in a row.
    let none = u64::MAX.to_string();
    world.add_entry(&["userId", "5", "voucherId", &none, "id", "1"]).await;
    let v = voucher.to_string();
    let _: u64 =
        world.server.query(&["HSET", &world.keys.buyers(ShardId::only(voucher)), &none, "77"]);
    let _: u64 =
        world.server.query(&["HINCRBY", &world.keys.buyers(ShardId::only(voucher)), "seq", "1"]);
    let _: i64 = world.server.query(&["DECR", &world.keys.stock(ShardId::only(voucher))]);
    world.add_entry(&["userId", &none, "voucherId", &v, "id", "77"]).await;
    world.settled().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (4, 49));
}

/// One sale whose orders are rejected; another sells on, before and behind it.
async fn what_hits_one_sale_stops_no_other(database: Database) {
    let world = World::on(database, 1, |settings| settings.consumer_batch = 20).await;
    let (bad, good) = (world.create(sale(200)).await, world.create(sale(200)).await);
    reject(&world, database, &format!("NEW.voucher_id = {bad}")).await;
    world.hold().await;
    world.admit(bad, 1..=30).await;
    world.admit(good, 1..=30).await;
    world.release().await;
    world.until("the good one is written", async || live(&world, good).await == 30).await;
    world.admit(good, 31..=40).await;
    world.until("and goes on", async || live(&world, good).await == 40).await;
    world.until("it is an event", async || event(&world, "orders wait").await).await;
    world.until("it is an alarm", async || is_alarm(&world, bad)).await;
    world.until("of each process", async || is_alarm_elsewhere(&world, bad).await).await;
    assert!(!is_alarm_elsewhere(&world, good).await);
    assert!(snapshot(&world).sql.takes_writes(), "the database takes orders");
    assert_eq!((dead(&world), world.pending().await), (0, 30));
    accept(&world, database).await;
    world.settled_and_balanced().await;
    assert_eq!((dead(&world), live(&world, bad).await), (0, 30));
    world.until("its end is an event", async || event(&world, "orders written").await).await;
    world.until("the alarm ends", async || !is_alarm(&world, bad)).await;
    world.until("for each process", async || !is_alarm_elsewhere(&world, bad).await).await;
}

/// Several sales whose orders are rejected, among them the newest: another one, of one shard or of two, sells on.
async fn what_hits_several_sales_stops_no_other(database: Database) {
    for shards in [1, 2] {
        let world = World::on(database, shards, |settings| settings.consumer_batch = 20).await;
        let good = world.create(NewSale { shards, ..sale(200) }).await;
        let bad = [world.create(sale(200)).await, world.create(sale(200)).await];
        reject(&world, database, &format!("NEW.voucher_id IN ({}, {})", bad[0], bad[1])).await;
        world.hold().await;
        for sale in [bad[0], bad[1], good] {
            world.admit(sale, 1..=30).await;
        }
        world.release().await;
        let written = async |sale: VoucherId| {
            let filter = OrderFilter {
                is: OrderTerms { voucher: Some(sale), ..OrderTerms::default() },
                ..OrderFilter::default()
            };
            world.store.orders(&filter, None, 100).await.unwrap().len()
        };
        world.until("the good one is written", async || written(good).await == 30).await;
        for sale in bad {
            world.until("it is an alarm", async || is_alarm(&world, sale)).await;
            assert_eq!(written(sale).await, 0);
        }
        accept(&world, database).await;
        world.settled_and_balanced().await;
        assert_eq!((dead(&world), written(bad[0]).await, written(bad[1]).await), (0, 30, 30));
    }
}

/// Rows with negative IDs at the places of buyers, and a unique index that only the database knows.
async fn foreign_rows_stop_no_partition(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let (first, second) = (world.create(sale(200)).await, world.create(sale(200)).await);
    world.hold().await;
    let row = format!(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, buyer_place, create_time, update_time) \
         VALUES (-5, 3, {first}, 1, 1, 1)"
    );
    world.run_sql(&row).await;
    world.admit(first, 1..=40).await;
    // The plan names the row, and applies.
    let mut conn = world.redis.connection();
    let at_once = stream::ReadFrom::New(Duration::from_millis(50));
    let of = world.keys.home();
    stream::read_group(&mut conn, &of, "gone/1", at_once, 10).await.unwrap();
    let scope = || Scope::All(Filter::default());
    let Reply::Planned(plan) = world.execute(Command::Plan(scope())).await.unwrap() else {
        panic!()
    };
    let lines = plan.lines().next(100).unwrap();
    let faults: Vec<_> = lines.iter().filter_map(|line| line.fault.as_ref()).collect();
    assert!(matches!(&faults[..], [only] if only.contains("-5")), "{faults:?}");
    let report = world.replay(scope()).await;
    assert_eq!((report.persisted, report.dead), (9, 1), "{report:?}");
    world.release().await;
    world.settled().await;
    assert_eq!(dead(&world), 1);
    // The foreign row counts as a live one.
    assert_eq!(live(&world, first).await, 40);
    world.run_sql("DELETE FROM tb_voucher_order WHERE id = -5").await;
    world.stranded().await;

    world.run_sql("CREATE UNIQUE INDEX one_each ON tb_voucher_order (user_id)").await;
    world.hold().await;
    world.admit(second, 31..=120).await;
    world.release().await;
    world.settled().await;
    assert_eq!((live(&world, second).await, dead(&world)), (80, 11));
    // A buyer alone.
    world.admit(second, [20]).await;
    world.settled().await;
    assert_eq!(dead(&world), 12);
    let seen = reasons(&world).await;
    let named = seen
        .iter()
        .skip(1)
        .filter(|it| it.to_lowercase().contains("unique") || it.contains("one_each"));
    assert_eq!(named.count(), 11, "{seen:?}");
    // Compensation of the others is not stopped by those.
    world.stranded().await;
    let scope = LetterScope::Matching {
        filter: Filter::parse("", LETTER_FIELDS).unwrap(),
        last: EntryId::MAX,
    };
    let report = discard(&world, scope.clone(), true).await;
    assert_eq!((report.discarded, report.compensated), (1, 1), "{report:?}");
    assert_eq!(report.refused.total(), 11);
    world
        .run_sql(match database {
            Database::MariaDb => "DROP INDEX one_each ON tb_voucher_order",
            _ => "DROP INDEX one_each",
        })
        .await;
    let report = discard(&world, scope, true).await;
    assert_eq!((report.discarded, report.compensated), (11, 11), "{report:?}");
    world.balanced().await;
}

async fn discard(world: &World, scope: LetterScope, compensate: bool) -> LettersDiscarded {
    match world.execute(Command::DiscardLetters { scope, compensate }).await.unwrap() {
        Reply::LettersDiscarded(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Deletes a sale with its orders, as if SQL were restored from a backup that is older.
async fn lose(world: &World, voucher: VoucherId) {
    for (table, column) in [
        ("tb_give_back", "voucher_id"),
        ("tb_voucher_order", "voucher_id"),
        ("tb_seckill_voucher", "voucher_id"),
        ("tb_voucher", "id"),
    ] {
        world.run_sql(&format!("DELETE FROM {table} WHERE {column} = {voucher}")).await;
    }
}

async fn mend(world: &World) {
    let plan = repair::plan(&mut world.servers()).await.unwrap();
    match world.execute(Command::Repair(plan)).await.unwrap() {
        Reply::Repaired(_) => {}
        other => panic!("{other:?}"),
    }
}

/// Why the node admits this user to no sale.
async fn refusal(world: &World, voucher: VoucherId, user: u64) -> Option<AdmissionError> {
    let admission = world.node().operator().admission.clone().unwrap();
    admission.request(voucher, UserId(user)).answer().await.outcome.err()
}

/// The buyers whom it has admitted wait, and are written once it is restored; it admits no others before.
async fn a_sale_that_sql_has_lost_waits(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let (lost, other) = (world.create(sale(200)).await, world.create(sale(200)).await);
    world.admit(lost, 1..=20).await;
    world.admit(other, 1..=20).await;
    world.settled().await;
    world.hold().await;
    world.admit(lost, 21..=70).await;
    world.admit(other, 21..=60).await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let at_once = stream::ReadFrom::New(Duration::from_millis(50));
    stream::read_group(&mut conn, &of, "gone/1", at_once, 10).await.unwrap();
    lose(&world, lost).await;
    // Also while no order of it is to be written. Until then, this user has an order.
    let is_closed =
        async || refusal(&world, lost, 21).await.is_some_and(|why| why.is_of_lost_sale());
    world.until("it admits no buyer", is_closed).await;
    world.until("it is an alarm", async || is_alarm(&world, lost)).await;
    world.until("of each process", async || is_alarm_elsewhere(&world, lost).await).await;
    // 20 of its buyers had an order in SQL, and 50 have an entry.
    let lost_orders = |it: &Alarm| match &it.kind {
        AlarmKind::SalesLost { sales, orders } => {
            *sales == [ShardId::only(lost)] && *orders == Some(70)
        }
        _ => false,
    };
    world.until("it counts", async || snapshot(&world).alarms.iter().any(lost_orders)).await;
    let line = snapshot(&world).sale(lost).cloned().expect("it is listed");
    assert_eq!((line.sql, line.initial, line.admitted), (SqlCopy::Lost, 200, Some(70)));
    for command in [
        Command::PauseSale(lost),
        Command::EndSale(lost),
        Command::StartSale(lost),
        Command::Restock { voucher: lost, by: 1 },
    ] {
        let refused = world.execute(command).await.unwrap_err();
        assert_eq!(refused, EngineError::LostInSql(lost));
    }
    world.release().await;
    world.until("the other one is written", async || live(&world, other).await == 60).await;
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    assert!(audit.findings().any(|it| it.what == Finding::NotInSql));
    assert!(is_closed().await && !world.obtains(lost, 1_001).await);
    // A plan leaves what only needs the sale back.
    world.hold().await;
    let filter = Filter::parse("holder=gone/1", FIELDS).unwrap();
    let report = world.replay(Scope::All(filter)).await;
    assert_eq!((report.left, report.dead), (10, 0), "{report:?}");
    world.release().await;
    world.until("it is an event", async || event(&world, "orders wait").await).await;
    assert_eq!((dead(&world), world.pending().await), (0, 50));
    mend(&world).await;
    world.settled_by_replay().await;
    world.until("all are written", async || live(&world, lost).await == 70).await;
    world.until("it sells again", async || world.obtains(lost, 71).await).await;
    world.until("the alarm ends", async || !is_alarm(&world, lost)).await;
    world.settled_and_balanced().await;
    assert_eq!(dead(&world), 0);
}

/// All nodes are gone, and no process reports the sale: what a dead node holds may be orders of it.
#[tokio::test]
async fn entries_of_a_lost_sale_are_at_risk() {
    let mut world = World::on(Database::Sqlite, 1, |_| {}).await;
    let lost = world.create(sale(200)).await;
    world.hold().await;
    world.admit(lost, 1..=30).await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let at_once = stream::ReadFrom::New(Duration::from_millis(50));
    stream::read_group(&mut conn, &of, "gone/1", at_once, 100).await.unwrap();
    world.stop_node().await;
    lose(&world, lost).await;
    let seen = collector(&world).collect().await;
    let dead = seen.alarms.iter().find_map(|it| match it.kind {
        AlarmKind::DeadConsumer { at_risk, sale_lost, .. } => Some((at_risk, sale_lost)),
        _ => None,
    });
    assert_eq!(dead, Some((Some(30), true)), "{:?}", seen.alarms);
    assert!(seen.alarms.iter().any(|it| is_of(&it.kind, lost)), "{:?}", seen.alarms);
}

/// A backup has an older version of a sale: what is listed is what Redis has.
#[tokio::test]
async fn a_sale_that_redis_has_in_a_newer_version_is_listed_as_in_redis() {
    let world = World::on(Database::Sqlite, 1, |_| {}).await;
    let (ended, other) = (world.create(sale(10)).await, world.create(sale(10)).await);
    world.execute(Command::EndSale(ended)).await.unwrap();
    let mut collector = collector(&world);
    let seen = collector.collect().await;
    let copies =
        |seen: &Snapshot| [ended, other].map(|id| seen.sale(id).map(|it| (it.sql, it.phase)));
    let current = |phase| Some((SqlCopy::Current, phase));
    assert_eq!(copies(&seen), [current(Phase::Ended), current(Phase::Running)]);
    let back = format!(
        "UPDATE tb_seckill_voucher SET state = 'running', version = 1, delivered_version = 1 \
         WHERE voucher_id = {ended}"
    );
    world.run_sql(&back).await;
    let seen = collector.collect().await;
    let behind = Some((SqlCopy::Behind, Phase::Ended));
    assert_eq!(copies(&seen), [behind, current(Phase::Running)]);
    mend(&world).await;
    assert_eq!(copies(&collector.collect().await)[0], current(Phase::Ended));
}

/// SQL has an older copy of a sale, with fewer pieces than Redis has sold since.
async fn a_sale_that_sql_has_set_back_waits(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(10)).await;
    world.execute(Command::Restock { voucher, by: 20 }).await.unwrap();
    world.hold().await;
    world.admit(voucher, 1..=25).await;
    let back = format!(
        "UPDATE tb_seckill_voucher SET initial_stock = 10, stock = 10, version = 1, \
         delivered_version = 1 WHERE voucher_id = {voucher}"
    );
    world.run_sql(&back).await;
    world.release().await;
    world.until("it is an event", async || event(&world, "orders wait").await).await;
    assert_eq!(dead(&world), 0);
    mend(&world).await;
    world.settled_and_balanced().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (0, 25));
}

/// Letters of a sale that SQL has lost are backed by Redis: nothing is discarded that a buyer still holds.
async fn letters_of_a_lost_sale_are_kept(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(50)).await;
    world.hold().await;
    world.admit(voucher, 1..=20).await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let at_once = stream::ReadFrom::New(Duration::from_millis(50));
    let taken = stream::read_group(&mut conn, &of, "x/1", at_once, 100).await.unwrap();
    let grave: Vec<_> = taken.iter().map(|it| (it.entry, "for a test".into())).collect();
    dead_letters::bury_all(&mut conn, &of, &grave).await.unwrap();
    lose(&world, voucher).await;
    let all = || LetterScope::Matching {
        filter: Filter::parse("", LETTER_FIELDS).unwrap(),
        last: EntryId::MAX,
    };
    let letters = Letters::new(world.servers(), &Settings::default())
        .page(EntryId::MIN, EntryId::MAX, 100)
        .await
        .unwrap();
    let verdicts: BTreeSet<String> = letters.iter().map(|it| it.verdict.to_string()).collect();
    assert_eq!(verdicts, BTreeSet::from(["sale_lost".to_owned()]));
    for compensate in [false, true] {
        let report = discard(&world, all(), compensate).await;
        assert_eq!((report.discarded, report.refused.total(), dead(&world)), (0, 20, 20));
    }
    mend(&world).await;
    // Half are cancelled for good, whatever is repaired afterwards.
    let ids: Vec<EntryId> = letters.iter().take(10).map(|it| it.letter.letter).collect();
    let report = discard(&world, LetterScope::Letters(ids), true).await;
    assert_eq!((report.discarded, report.compensated, report.given_back), (10, 10, 10));
    mend(&world).await;
    world.release().await;
    world.settled().await;
    let Reply::LettersReplayed(report) =
        world.execute(Command::ReplayLetters { scope: all(), force: false }).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(report.replayed, 10);
    world.settled_and_balanced().await;
    let sql = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((sql.live, sql.closed), (10, 10));
}

macro_rules! on_each {
    ($($name:ident: $database:ident),+) => {
        $(mod $name {
            use super::Database::$database as DATABASE;

            #[tokio::test(flavor = "multi_thread")]
            async fn what_hits_every_order_is_an_outage() {
                super::what_hits_every_order_is_an_outage(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn what_hits_one_order_makes_it_a_dead_letter() {
                super::what_hits_one_order_makes_it_a_dead_letter(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn what_hits_several_sales_stops_no_other() {
                super::what_hits_several_sales_stops_no_other(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn what_hits_one_sale_stops_no_other() {
                super::what_hits_one_sale_stops_no_other(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn foreign_rows_stop_no_partition() {
                super::foreign_rows_stop_no_partition(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_sale_that_sql_has_lost_waits() {
                super::a_sale_that_sql_has_lost_waits(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_sale_that_sql_has_set_back_waits() {
                super::a_sale_that_sql_has_set_back_waits(DATABASE).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn letters_of_a_lost_sale_are_kept() {
                super::letters_of_a_lost_sale_are_kept(DATABASE).await;
            }
        })+
    };
}

on_each!(on_sqlite: Sqlite, on_mariadb: MariaDb, on_postgres: Postgres);

/// A server that accepts only smaller statements than when the node started: the batches adapt.
#[tokio::test(flavor = "multi_thread")]
async fn batches_adapt_to_the_packet_of_the_server() {
    let server = MariaDb::start();
    let url = server.database().await;
    let world = World::at(&url, &seckill_store::Settings::default()).await;
    let voucher = world.create(sale(5_000)).await;
    world.admits().await;
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 4_000) };
    world.rush(plan).await;
    server.run("", "SET GLOBAL max_allowed_packet = 16384").await;
    // Connections keep the limit that they began with.
    let ends = "SELECT CONCAT('KILL ', id) FROM information_schema.processlist \
         WHERE command = 'Sleep' AND id <> CONNECTION_ID()";
    let mut conn = world.sql().await;
    let kills: Vec<String> = sqlx::query_scalar(ends).fetch_all(&mut conn).await.unwrap();
    for kill in kills {
        let _ = conn.execute(AssertSqlSafe(kill)).await;
    }
    world.release().await;
    world.settled_and_balanced().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (0, 4_000));
}

/// Entries that were delivered often while SQL was locked are written once it is free. One that was being tried alone when
/// its process ended is a dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_sql_is_no_evidence_against_an_entry() {
    let mut world = World::with(|settings| settings.max_deliveries = 2).await;
    let voucher = world.create(sale(10)).await;
    world.hold().await;
    world.admit(voucher, 1..=3).await;
    let name = world.keys.home().consumer(crate::world::NODE);
    assert_eq!(node_of(&name), crate::world::NODE);
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let deliver = async |conn: &mut seckill_redis::Connection| {
        let new = stream::ReadFrom::New(Duration::from_millis(50));
        stream::read_group(conn, &of, &name, new, 10).await.unwrap();
        for _ in 0..18 {
            let own = stream::ReadFrom::Own(EntryId::MIN);
            stream::read_group(conn, &of, &name, own, 10).await.unwrap();
        }
    };
    deliver(&mut conn).await;
    let lock = world.lock_database().await;
    world.stop_node().await;
    // Longer than it waits for a lock.
    world.start_node();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!((dead(&world), world.pending().await), (0, 3));
    drop(lock);
    world.settled_and_balanced().await;
    assert_eq!((dead(&world), live(&world, voucher).await), (0, 3));

    world.hold().await;
    world.admit(voucher, 4..=6).await;
    deliver(&mut conn).await;
    let pending =
        stream::pending_page(&mut conn, &of, EntryId::MIN, EntryId::MAX, 9).await.unwrap();
    stream::begin_trial(&mut conn, &of, pending[1].delivered.entry).await.unwrap();
    world.restart_node().await;
    world.settled().await;
    assert_eq!(live(&world, voucher).await, 5);
    let reasons = reasons(&world).await;
    assert!(matches!(&reasons[..], [only] if only.starts_with("delivered")), "{reasons:?}");
    assert!(!world.server.query::<bool>(&["EXISTS", &of.trials()]), "the trials have ended");
}
