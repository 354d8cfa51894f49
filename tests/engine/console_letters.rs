//! Dead letters as seen from the console: read while they are shown, counted, settled with a reason.

use std::{sync::Arc, time::Duration};

use crate::world::World;
use redis::pipe;
use seckill_engine::{
    EngineError,
    commands::{Command, Reply},
    error::MAX_REASON,
    recovery::dead_letters::{LetterScope, LettersCounted},
    telemetry::Snapshot,
};
use seckill_model::{
    EntryId, LetterVerdict, Millis, NewSale, ShardId, VoucherId, filter::Filter, ledger::Balance,
};
use seckill_store::ActivityFilter;

const PATIENCE: Duration = Duration::from_mins(1);

fn all() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX }
}

fn look_at(world: &World, from: Option<EntryId>) {
    world.node().remote().focus.send_modify(|focus| focus.letters_from = from);
}

async fn snapshot(world: &World, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = world.node().remote().snapshots;
    let found = snapshots.wait_for(|snapshot| holds(snapshot));
    let found = tokio::time::timeout(PATIENCE, found).await;
    Arc::clone(&found.unwrap_or_else(|_| panic!("waited in vain: {what}")).unwrap())
}

async fn ask(world: &World, command: Command, reason: Option<&str>) -> Result<Reply, EngineError> {
    let remote = world.node().remote();
    let answer = remote.send(command, reason.map(str::to_owned)).unwrap();
    tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap()
}

/// Letters without an order that the engine has not noticed yet.
async fn bury(world: &World, count: usize) {
    let mut conn = world.redis.connection();
    let dead = world.keys.home().dead();
    for _ in 0..count.div_ceil(1_000) {
        let mut add = pipe();
        for _ in 0..count.min(1_000) {
            let add = add.cmd("XADD").arg(&dead).arg("*").arg("reason").arg("poison");
            add.arg("body:userId").arg("unknown").ignore();
        }
        conn.pipe::<()>(&add).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_read_while_it_is_shown_and_kept_during_an_outage() {
    let mut world = World::start().await;
    world.add_entry(&["userId", "unknown", "voucherId", "7", "id", "1", "note", "\x1b[2J"]).await;
    let dead = |snapshot: &Snapshot| snapshot.stream.as_ref().is_some_and(|it| it.dead == 1);
    let before = snapshot(&world, "it is put aside", dead).await;
    assert!(before.letters.taken.is_none() && before.letters.lines.is_empty());

    look_at(&world, Some(EntryId::MIN));
    let seen = snapshot(&world, "the page", |it| it.letters.lines.len() == 1).await;
    let line = &seen.letters.lines[0];
    assert_eq!((line.verdict, line.letter.order), (LetterVerdict::Malformed, None));
    assert!(line.letter.fault.as_deref().is_some_and(|fault| fault.contains("userId")), "{line:?}");
    assert!(line.letter.payload.contains(&("note".to_owned(), "·[2J".to_owned())), "{line:?}");
    assert_eq!((line.letter.history.len(), seen.letters.more), (1, false));

    world.server.kill();
    let away = snapshot(&world, "the outage", |it| !it.redis.up).await;
    assert_eq!(away.letters.lines, seen.letters.lines);
    assert!(away.letters.taken.is_some());
    world.server.restart();
    let back = |it: &Snapshot| it.redis.up && it.letters.taken > away.letters.taken;
    snapshot(&world, "it is read again", back).await;

    look_at(&world, None);
    snapshot(&world, "it is not displayed", |it| it.letters.taken.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_paged() {
    let world = World::start().await;
    bury(&world, 1_000).await;
    look_at(&world, Some(EntryId::MIN));
    let first = snapshot(&world, "the first page", |it| it.letters.more).await;
    let last = first.letters.lines.last().unwrap().letter.letter;
    let next = last.next_of_all().unwrap();
    look_at(&world, Some(next));
    let second = snapshot(&world, "the second page", |it| it.letters.view == next).await;
    assert!(second.letters.lines.first().is_some_and(|line| line.letter.letter > last));
    assert_eq!(second.letters.lines.len(), first.letters.lines.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_added_after_the_count_are_kept() {
    let world = World::start().await;
    bury(&world, 3).await;
    let Ok(Reply::LettersCounted(found)) = ask(&world, Command::CountLetters(all()), None).await
    else {
        panic!("they are counted")
    };
    assert_eq!(found.counts.of(LetterVerdict::Malformed), 3);
    bury(&world, 2).await;
    let scope = all().as_counted(&found);
    let discard = Command::DiscardLetters { scope, compensate: false };
    match ask(&world, discard, None).await {
        Ok(Reply::LettersDiscarded(report)) => assert_eq!((report.seen, report.discarded), (3, 3)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_counted_and_discarded_with_a_recorded_reason() {
    let mut world = World::start().await;
    bury(&world, 3).await;
    let counted = |reply| match reply {
        Ok(Reply::LettersCounted(LettersCounted { counts, gone, .. })) => {
            (counts.of(LetterVerdict::Malformed), gone)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(counted(ask(&world, Command::CountLetters(all()), None).await), (3, 0));
    let named = LetterScope::Letters(vec![EntryId::MIN]);
    assert_eq!(counted(ask(&world, Command::CountLetters(named), None).await), (0, 1));

    let discard = Command::DiscardLetters { scope: all(), compensate: false };
    let long = "火".repeat(MAX_REASON + 1);
    assert!(ask(&world, discard.clone(), Some(&long)).await.is_err(), "no log has room for it");
    assert_eq!(counted(ask(&world, Command::CountLetters(all()), None).await), (3, 0));
    let why = "poison of last night";
    assert!(ask(&world, discard, Some(why)).await.is_ok());
    let log = world.store.activity(&ActivityFilter::default(), None, 100).await.unwrap();
    let reasons: Vec<_> = log
        .iter()
        .filter(|line| line.action == "dead discard")
        .map(|line| line.reason.as_deref())
        .collect();
    assert_eq!(reasons, [Some(why)], "the question itself is not logged");

    bury(&world, 2).await;
    world.stop_node().await;
    world.read_only = true;
    world.start_node();
    assert_eq!(counted(ask(&world, Command::CountLetters(all()), None).await), (2, 0));
    let replay = Command::ReplayLetters { scope: all(), force: false };
    assert!(ask(&world, replay, None).await.is_err(), "read-only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_command_is_shown_and_cancellable() {
    let world = World::start().await;
    bury(&world, 40_000).await;
    let remote = world.node().remote();
    let discard = Command::DiscardLetters { scope: all(), compensate: false };
    let answer = remote.send(discard, None).unwrap();
    let meters = &world.node().operator().meters;
    world
        .until("some of it is done", async || {
            meters.recoveries().iter().any(|line| {
                line.action == "dead discard" && line.done > 0 && line.planned == 40_000
            })
        })
        .await;
    assert_eq!(ask(&world, Command::Cancel, None).await, Ok(Reply::Cancelled(true)));
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    let Ok(Ok(Reply::LettersDiscarded(report))) = answer else { panic!("no report") };
    assert!(report.cut_short && report.discarded > 0 && report.discarded < 40_000, "{report:?}");
    assert!(meters.recoveries().is_empty());
    let left: u64 = world.server.query(&["XLEN", &world.keys.home().dead()]);
    assert_eq!(left, 40_000 - report.discarded);
}

/// A line of Redis' slow log: number, time, duration, command, client, its name.
type Logged = (i64, i64, i64, Vec<String>, String, String);

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_holds_every_sale_with_the_running_one_first() {
    const PLANNED: usize = 300;
    let world = World::start().await;
    let sale = |begin| NewSale::checked("hot pot", 10, begin, None, Millis::now()).unwrap();
    let running = world.create(sale(None)).await;
    let mut planned = Vec::new();
    for _ in 0..PLANNED {
        planned.push(world.create(sale(Some(Millis::now().plus(3_600_000)))).await);
    }
    for user in 1..=25 {
        world.ask(running, user).await;
    }
    // The audit also passes before the first buyer; a sold-out sale is read in turn.
    let settled = |it: &Snapshot| {
        it.sales.len() == PLANNED + 1
            && it.funnel.attempts.total == 25
            && matches!(it.audit, Balance::Balanced { .. })
    };
    let seen = snapshot(&world, "all of them balance", settled).await;
    let funnel = seen.funnel;
    assert_eq!((funnel.attempts.total, funnel.admitted.total, funnel.sold_out.total), (25, 10, 15));
    // Sold out, and still before planned sales.
    let ids: Vec<VoucherId> = seen.sales.iter().map(|sale| sale.voucher_id).collect();
    let expected: Vec<VoucherId> =
        [running].into_iter().chain(planned.iter().rev().copied()).collect();
    assert_eq!(ids, expected);

    // Planned sales are read in turn, so that one snapshot does not read all of them.
    let _: String = world.server.query(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _: String = world.server.query(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    let _: String = world.server.query(&["SLOWLOG", "RESET"]);
    snapshot(&world, "some more looks", |it| it.seq >= seen.seq + 4).await;
    let logged: Vec<Logged> = world.server.query(&["SLOWLOG", "GET", "-1"]);
    let reads = logged.iter().map(|it| &it.3).filter(|args| {
        args.first().is_some_and(|it| it == "EVALSHA")
            && args.get(5) == Some(&world.keys.home().nodes())
    });
    let keys: Vec<usize> = reads.map(|args| args[2].parse().unwrap()).collect();
    // Four keys per sale, and some for the streams and nodes.
    assert!(!keys.is_empty() && keys.iter().all(|keys| *keys < 4 * 210), "{keys:?}");
    let _: String = world.server.query(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);

    // Each sale is read in turn.
    for voucher in &planned {
        let tally = world.keys.tally(ShardId::only(*voucher));
        let _: u64 = world.server.query(&["HINCRBY", &tally, "rejected", "1"]);
    }
    let all = PLANNED as u64;
    snapshot(&world, "all were read", |it| it.funnel.rejected.total == all).await;
}
