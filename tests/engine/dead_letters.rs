//! Dead letters: verdicts by current state, replays that happen once and end, discards that return stock once.

use std::{
    collections::BTreeMap,
    pin::pin,
    time::{Duration, Instant},
};

use crate::world::{Database, World, newest, sale};
use redis::cmd;
use seckill_engine::{
    EngineError,
    commands::{Command, LoadTest, Reply},
    deployment::settings::Settings,
    jobs::retention,
    ledger,
    orders::{self, Location, payment},
    recovery::dead_letters::{
        ClassifiedLetter, LETTER_FIELDS, LetterScope, Letters, LettersCounted, LettersDiscarded,
        LettersReplayed,
    },
};
use seckill_model::{
    EntryId, LetterCounts, LetterVerdict, Millis, OrderEntry, OrderError, OrderId, OrderStatus,
    Outcome, ShardId, UserId, VoucherId, dead_letter::Burial, filter::Filter, ledger::Finding,
};
use seckill_redis::{dead_letters, stream};
use seckill_store::Cancelled;
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(1);
const AT_ONCE: stream::ReadFrom = stream::ReadFrom::New(Duration::from_millis(50));

fn matching(filter: &str) -> LetterScope {
    let filter = Filter::parse(filter, LETTER_FIELDS).unwrap();
    LetterScope::Matching { filter, last: EntryId::MAX }
}

fn reader(world: &World) -> Letters {
    let settings = Settings::default();
    Letters::new(world.servers(), &settings)
}

async fn letters_of(world: &World) -> Vec<ClassifiedLetter> {
    reader(world).page(EntryId::MIN, EntryId::MAX, 10_000).await.unwrap()
}

async fn verdicts(world: &World) -> Vec<LetterVerdict> {
    letters_of(world).await.iter().map(|it| it.verdict).collect()
}

async fn replay(world: &World, scope: LetterScope, force: bool) -> LettersReplayed {
    match world.execute(Command::ReplayLetters { scope, force }).await.unwrap() {
        Reply::LettersReplayed(report) => report,
        other => panic!("{other:?}"),
    }
}

async fn discard(world: &World, scope: LetterScope, compensate: bool) -> LettersDiscarded {
    match world.execute(Command::DiscardLetters { scope, compensate }).await.unwrap() {
        Reply::LettersDiscarded(report) => report,
        other => panic!("{other:?}"),
    }
}

fn dead(world: &World) -> u64 {
    world.server.query(&["XLEN", &world.keys.home().dead()])
}

fn stock(world: &World, voucher: VoucherId) -> i64 {
    world.server.query(&["GET", &world.keys.stock(ShardId::only(voucher))])
}

/// Admits buyers and moves their entries to the dead letters. The consumers stay paused.
async fn bury(world: &World, voucher: VoucherId, buyers: u64) {
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, buyers) };
    world.rush(plan).await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    loop {
        let taken = stream::read_group(&mut conn, &of, "x/1", AT_ONCE, 1_000).await.unwrap();
        if taken.is_empty() {
            return;
        }
        let grave: Vec<_> = taken.iter().map(|entry| (entry.entry, "for a test".into())).collect();
        dead_letters::bury_all(&mut conn, &of, &grave).await.unwrap();
    }
}

/// A letter records every failure, and is not replayed forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_returns_at_once_requires_an_operator() {
    let world = World::with(|settings| settings.max_replays = 2).await;
    let voucher = world.create(sale(10)).await;
    let url = format!("sqlite:{}", world.database().display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    other
        .execute(
            "CREATE TRIGGER t BEFORE INSERT ON tb_voucher_order WHEN NEW.user_id = 7 \
             BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        )
        .await
        .unwrap();
    assert!(matches!(world.ask(voucher, 7).await, Outcome::Admitted { .. }));
    assert!(matches!(world.ask(voucher, 8).await, Outcome::Admitted { .. }));
    for replays in 0..=2 {
        world
            .until("it is given up", async || {
                let letters = letters_of(&world).await;
                letters.first().is_some_and(|it| it.letter.replays == replays)
            })
            .await;
        world.stranded().await;
        let letter = letters_of(&world).await.remove(0).letter;
        let history = &letter.history;
        assert_eq!(history.len() as u64, replays + 1, "{history:?}");
        assert!(history.iter().all(|it| it.reason.contains("not this one")), "{history:?}");
        let result = |it: &Burial| matches!(it.reason.data(), Some(OrderError::Rejected(_)));
        assert!(history.iter().all(result), "{history:?}");
        assert!(history.iter().all(|it| it.consumer == "node-t/1" && it.deliveries == 1));
        assert!(history.is_sorted_by_key(|it| it.at), "{history:?}");
        let report = replay(&world, matching(""), false).await;
        let mut refused = LetterCounts::default();
        if replays == 2 {
            refused.add(LetterVerdict::CameBack);
        }
        assert_eq!((report.seen, report.refused), (1, refused));
        assert_eq!(report.replayed, u64::from(replays < 2));
    }
    assert_eq!(dead(&world), 1);
    // Even a forced replay happens once per command, not until it succeeds.
    assert_eq!(replay(&world, matching(""), true).await.seen, 1);
    world
        .until("it is given up again", async || {
            letters_of(&world).await.first().is_some_and(|it| it.letter.replays == 3)
        })
        .await;
    other.execute("DROP TRIGGER t").await.unwrap();
    assert_eq!(replay(&world, matching("replays=3"), true).await.replayed, 1);
    world.settled().await;
    assert_eq!((dead(&world), world.store.sale(voucher).await.unwrap().stock), (0, 8));
    world.balanced().await;
    let entries = newest(&world.store, 1).await;
    assert_eq!(entries[0].action, "dead replay");
    assert!(entries[0].subject.contains("'replays=3'") && entries[0].subject.contains("forced"));
}

/// Polls `work` and drops it once `enough` returns true; returns whether it completed before.
async fn break_off<F: Future>(work: F, mut enough: impl FnMut() -> bool) -> bool {
    let (mut work, end) = (pin!(work), Instant::now() + PATIENCE);
    loop {
        // Each poll proceeds to the next reply of a server.
        if futures::poll!(work.as_mut()).is_ready() {
            return true;
        }
        if enough() {
            return false;
        }
        assert!(Instant::now() < end, "it neither ended nor was broken off");
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_replay_continues_without_repetition() {
    let (world, voucher) = World::with_sale(2_000).await;
    bury(&world, voucher, 1_000).await;
    assert_eq!(dead(&world), 1_000);
    world.stranded().await;
    let (stop, all) = (CancellationToken::new(), matching(""));
    let mut first = reader(&world);
    let ended = break_off(first.replay(&all, false, &stop), || dead(&world) < 1_000).await;
    let left = dead(&world);
    assert!(!ended && left > 0 && left < 1_000, "{left} letters are left");
    let report = replay(&world, matching(""), false).await;
    assert_eq!((report.replayed, report.gone, dead(&world)), (left, 0, 0));
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    let entries = stream::range(&mut conn, &of, EntryId::MIN, 10_000).await.unwrap();
    let mut times: BTreeMap<UserId, u64> = BTreeMap::new();
    for order in entries.iter().filter_map(stream::Delivered::order) {
        *times.entry(order.user).or_default() += 1;
    }
    assert!(times.len() == 1_000 && times.values().all(|times| *times == 2), "once each");
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.ledger(ShardId::only(voucher)).await.unwrap().live, 1_000);
    world.balanced().await;
    // A stop is noticed between pages.
    stop.cancel();
    assert_eq!(reader(&world).replay(&all, false, &stop).await.unwrap().seen, 0);
}

/// A waiting buyer keeps their letter, or everything is returned once.
async fn compensation_happens_once(database: Database) {
    let world = World::on(database, 1, |_| {}).await;
    let voucher = world.create(sale(500)).await;
    bury(&world, voucher, 300).await;
    assert_eq!((dead(&world), stock(&world, voucher)), (300, 200));
    let kept = discard(&world, matching(""), false).await;
    assert_eq!(
        (kept.discarded, kept.refused.of(LetterVerdict::Awaited), dead(&world)),
        (0, 300, 300)
    );

    let judged = letters_of(&world).await;
    let entries: Vec<OrderEntry> = judged.iter().filter_map(|it| it.letter.order).collect();
    // Killed between SQL and Redis, then between Redis and the letter.
    let result = world.store.cancel_orders(&entries[..10], Millis::now()).await.unwrap();
    assert_eq!(result, [Cancelled::Now; 10]);
    world.stranded().await;
    let given = payment::return_outstanding(&mut world.servers()).await.unwrap();
    assert_eq!((given, stock(&world, voucher)), (10, 210));
    world.stranded().await;
    world.store.cancel_orders(&entries[10..20], Millis::now()).await.unwrap();

    // Then interrupted a little later each time.
    let (stop, all) = (CancellationToken::new(), matching(""));
    for most in 1.. {
        let (mut polls, mut hands) = (0, reader(&world));
        let work = hands.discard(&all, true, &stop);
        let over = || {
            polls += 1;
            polls > most * 3
        };
        if break_off(work, over).await {
            break;
        }
    }
    assert_eq!((dead(&world), stock(&world, voucher)), (0, 500));
    assert_eq!(world.store.returning().await.unwrap(), 0);
    let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.stock, ledger.live, ledger.closed), (500, 0, 300));
    world.balanced().await;
    let id = entries[5].order;
    let found = orders::find(&mut world.servers(), id).await.unwrap();
    let Location::Persisted { order } = found else { panic!("{found:?}") };
    assert_eq!(order.status, OrderStatus::Cancelled);
    // Compensated buyers may order again.
    world.release().await;
    let again = world.buy(voucher, 300).await;
    assert_eq!((again.admitted, again.persisted), (300, 300));
    world.settled_and_balanced().await;
}

/// No false alarm while letters are replayed or discarded.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_balances_at_every_step_of_a_replay_and_a_discard() {
    let (world, voucher) = World::with_sale(6_000).await;
    for compensate in [false, true] {
        bury(&world, voucher, if compensate { 6_000 } else { 3_000 }).await;
        let before = dead(&world);
        world.release().await;
        let (moved, audits) = tokio::join!(
            async {
                if compensate {
                    discard(&world, matching(""), true).await.discarded
                } else {
                    replay(&world, matching(""), false).await.replayed
                }
            },
            async {
                let mut audits = 0;
                while dead(&world) > 0 {
                    let audit = ledger::audit(&mut world.servers(), None).await;
                    for found in audit.unwrap().findings() {
                        assert!(matches!(found.what, Finding::Stranded(_)), "{found}");
                    }
                    audits += 1;
                }
                audits
            }
        );
        assert_eq!((moved, before), (3_000, 3_000));
        assert!(audits > 0, "no audit beside it");
        world.settled_and_balanced().await;
    }
    let ledger = world.store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.closed), (3_000, 3_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_letter_is_judged_by_the_current_state() {
    use LetterVerdict::{Awaited, Malformed, NoSale, NotAwaited, Written};

    let (world, voucher) = World::with_sale(10).await;
    bury(&world, voucher, 2).await;
    let add = async |user: u64, voucher: u64, id: u64| {
        let mut add = cmd("XADD");
        add.arg(world.keys.home().dead()).arg("*").arg("reason").arg("by hand");
        add.arg("body:userId").arg(user).arg("body:voucherId").arg(voucher).arg("body:id").arg(id);
        world.redis.connection().query::<String>(&add).await.unwrap();
    };
    let first = letters_of(&world).await.remove(0).letter;
    let order = first.order.unwrap();
    add(order.user.0, voucher.0, 99).await;
    add(4_711, voucher.0, 98).await;
    add(1, 4_242, 97).await;
    world.add_entry(&["x", "y"]).await;
    let mut conn = world.redis.connection();
    let taken = stream::read_group(&mut conn, &world.keys.home(), "x/1", AT_ONCE, 9).await.unwrap();
    dead_letters::bury_all(
        &mut conn,
        &world.keys.home(),
        &[(taken[0].entry, "two\nlines\u{1b}".into())],
    )
    .await
    .unwrap();
    let expected = [Awaited, Awaited, NotAwaited, NotAwaited, NoSale, Malformed];
    assert_eq!(verdicts(&world).await, expected);
    let last = letters_of(&world).await.pop().unwrap().letter;
    assert_eq!(&*last.reason, "two·lines·");

    // Its order is written by another process meanwhile.
    world.store.write_orders(&[order], Millis::now()).await.unwrap();
    assert_eq!(verdicts(&world).await[0], Written);
    // Only awaited letters are replayed, even with force.
    let ids = letters_of(&world).await.iter().map(|it| it.letter.letter).collect();
    let mut ids: Vec<EntryId> = ids;
    ids.push(EntryId { millis: 1, ..EntryId::MIN });
    ids.push(ids[0]);
    let report = replay(&world, LetterScope::Letters(ids), true).await;
    assert_eq!((report.seen, report.replayed, report.gone), (7, 1, 1), "{report:?}");
    assert_eq!(report.refused.total(), 5);
    // Compensation requires waiting buyers, and there are none.
    let report = discard(&world, matching("verdict!=malformed,age<1h"), true).await;
    assert_eq!((report.discarded, report.compensated, report.given_back), (4, 0, 0));
    assert_eq!(discard(&world, matching("reason~LINES"), false).await.discarded, 1);
    assert_eq!(discard(&world, matching(""), true).await, LettersDiscarded::default());
    world.release().await;
    world.settled_and_balanced().await;
}

/// Two buyers have the same ID: neither a replay nor a compensation may decide between them.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_another_buyer_requires_an_operator() {
    let (world, voucher) = World::with_sale(10).await;
    let Outcome::Admitted { order } = world.ask(voucher, 1).await else { panic!() };
    world.settled().await;
    let (mut conn, v) = (world.redis.connection(), voucher.to_string());
    let mut hold = cmd("HSET");
    hold.arg(world.keys.buyers(ShardId::only(voucher))).arg(55).arg(order.get());
    conn.query::<u64>(&hold).await.unwrap();
    world.add_entry(&["userId", "55", "voucherId", &v, "id", &order.to_string()]).await;
    world.until("it is given up", async || dead(&world) == 1).await;
    assert_eq!(verdicts(&world).await, [LetterVerdict::IdTaken]);
    assert_eq!(replay(&world, matching(""), true).await.refused.of(LetterVerdict::IdTaken), 1);
    assert_eq!(discard(&world, matching(""), true).await.refused.of(LetterVerdict::IdTaken), 1);
    let row = world.store.order(order).await.unwrap().unwrap();
    assert_eq!((row.user_id, row.status, dead(&world)), (UserId(1), OrderStatus::Unpaid, 1));
}

/// A sale that Redis has lost: waiting buyers are unknown, and cancelled orders stay cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn letters_of_a_sale_missing_from_redis_are_judged() {
    let (mut world, voucher) = World::with_sale(10).await;
    bury(&world, voucher, 4).await;
    world.stop_node().await;
    let mut drop = cmd("DEL");
    drop.arg(world.keys.sale(ShardId::only(voucher))).arg(world.keys.stock(ShardId::only(voucher)));
    drop.arg(world.keys.buyers(ShardId::only(voucher)));
    let mut conn = world.redis.connection();
    conn.query::<u64>(&drop).await.unwrap();
    let (stop, all) = (CancellationToken::new(), matching(""));
    let LettersCounted { counts, gone, .. } = reader(&world).count(&all, &stop).await.unwrap();
    assert_eq!((counts.of(LetterVerdict::NotLoaded), counts.total()), (4, 4));
    assert_eq!(gone, 0);
    let mut hands = reader(&world);
    assert_eq!(
        hands.replay(&all, true, &stop).await.unwrap().refused.of(LetterVerdict::NotLoaded),
        4
    );
    assert_eq!(
        hands.discard(&all, false, &stop).await.unwrap().refused.of(LetterVerdict::NotLoaded),
        4
    );
    // They are past retention, but a buyer may wait.
    let mut settings = Settings::default();
    settings.jobs.keep_dead_entries = 0;
    let of = world.keys.home();
    let trimmed = retention::trim(&mut world.servers(), &of, &settings, &stop).await;
    assert_eq!(trimmed.unwrap().letters, 0);
    let report = hands.discard(&all, true, &stop).await.unwrap();
    assert_eq!((report.discarded, report.compensated, report.given_back), (4, 4, 0));
    world.start_node();
    world
        .until("the sale is loaded", async || {
            conn.query::<bool>(cmd("EXISTS").arg(world.keys.stock(ShardId::only(voucher))))
                .await
                .unwrap()
        })
        .await;
    assert_eq!(stock(&world, voucher), 10);
    world.balanced().await;

    // Ended and archived: every admitted buyer has their order in SQL.
    world.execute(Command::EndSale(voucher)).await.unwrap();
    let archived = retention::archive_ended(&mut world.servers(), 0, &stop).await;
    assert_eq!(archived.unwrap().sales, [voucher]);
    let v = voucher.to_string();
    let mut add = cmd("XADD");
    add.arg(of.dead()).arg("*").arg("reason").arg("late");
    add.arg("body:userId").arg(1).arg("body:voucherId").arg(&v).arg("body:id").arg(5);
    conn.query::<String>(&add).await.unwrap();
    assert_eq!(verdicts(&world).await, [LetterVerdict::NotAwaited]);
    let report = discard(&world, matching(""), true).await;
    assert_eq!((report.discarded, report.compensated), (1, 0));
    assert_eq!(world.store.order(OrderId::from_i64(5).unwrap()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_letters_are_logged_and_stay_in_their_partition() {
    let world = World::spread(3, |_| {}).await;
    let vouchers = [world.create(sale(9)).await, world.create(sale(9)).await];
    world.hold().await;
    let mut conn = world.redis.connection();
    for voucher in vouchers {
        assert!(matches!(world.ask(voucher, 1).await, Outcome::Admitted { .. }));
        let of = world.keys.partition_of(ShardId::only(voucher));
        let taken = stream::read_group(&mut conn, &of, "x/1", AT_ONCE, 9).await.unwrap();
        dead_letters::bury_all(&mut conn, &of, &[(taken[0].entry, "for a test".into())])
            .await
            .unwrap();
    }
    let judged = letters_of(&world).await;
    assert_eq!(judged.len(), 2);
    let only = format!("voucher={}", vouchers[1]);
    let report = discard(&world, matching(&only), true).await;
    assert_eq!((report.discarded, report.compensated, report.given_back), (1, 1, 1));
    let id = letters_of(&world).await[0].letter.letter;
    assert_eq!(replay(&world, LetterScope::Letters(vec![id]), false).await.replayed, 1);
    world.release().await;
    world.settled_and_balanced().await;
    let mut operator = world.node().operator().clone();
    operator.read_only = true;
    let command = Command::DiscardLetters { scope: matching(""), compensate: false };
    assert!(command.is_recovery());
    let result = operator.execute(command, &CancellationToken::new()).await;
    assert!(matches!(result, Err(EngineError::ReadOnly)), "{result:?}");
}

macro_rules! on_each {
    ($($name:ident: $database:ident),+) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn compensation_happens_once() {
                super::compensation_happens_once(super::Database::$database).await;
            }
        })+
    };
}

on_each!(on_sqlite: Sqlite, on_mariadb: MariaDb, on_postgres: Postgres);
