//! The recovery views: which users they show, and that a command applies to its intended subject or to nothing.

use std::sync::Arc;

use crossterm::event::KeyCode;
use seckill_engine::{
    command::{Command, LetterScope, LettersCounted, Pace, Reply, Scope},
    plan::made_up,
    telemetry::{OrdersView, Snapshot, StreamView, snapshot::DeliveryState},
};
use seckill_model::{LetterVerdict, Millis, Verdict, VoucherId, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, empty, entry, normal, overflowing, page},
    letters::{letter, letters_counted, poisoned, under_way},
    orders, stream,
};
use crate::views;

/// Users 1000 to 1127 are in the stream, pending, dead and bought rows; each text names one of them.
fn with_users() -> Snapshot {
    let mut snapshot = poisoned();
    for line in &mut snapshot.pending.lines {
        line.fault = line.user.map(|user| format!("buyer {user} holds order 9 already").into());
    }
    for line in Arc::make_mut(&mut snapshot.letters.lines) {
        line.reason = match line.user {
            Some(user) => format!("buyer {user} already holds order 9 for voucher 7").into(),
            None => "field userId holds '1001x', which is not a number".into(),
        };
        for burial in &mut line.history {
            burial.reason.clone_from(&line.reason);
        }
    }
    snapshot.entries = stream::page(StreamView::default(), 128);
    for line in Arc::make_mut(&mut snapshot.entries.lines) {
        line.holding = DeliveryState::Undelivered;
        line.fault = line.user.map(|user| format!("buyer {user} holds order 9 already").into());
    }
    snapshot.orders = orders::page(OrdersView::default(), 99);
    snapshot
}

/// Whether a text contains one of those users.
fn names_one(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|it| it.parse::<u64>().ok()).any(|it| (1_000..1_128).contains(&it))
}

#[test]
fn users_are_masked_in_every_view_until_asked() {
    for view in ["3", "4", "5", "7"] {
        for row in 0..9 {
            let mut bench = Bench::new(with_users());
            bench.keys(view);
            bench.keys(&"j".repeat(row));
            for keys in ["", "\n"] {
                if keys == "\n" {
                    bench.press(KeyCode::Enter);
                }
                for width in [80, 120, 200] {
                    let text = bench.text(width, 50);
                    assert!(!names_one(&text), "view {view}, {width}\n{text}");
                }
            }
            assert!(bench.text(200, 50).contains("***"), "{}", bench.text(200, 50));
        }
        let mut bench = Bench::new(with_users());
        bench.keys(view);
        let sheet = views::sheet(&bench.app).map(|sheet| format!("{:?}", sheet.rows));
        assert!(!names_one(&sheet.unwrap_or_default()));
        bench.keys("u");
        assert_eq!(bench.said(), "users are shown");
        assert!(names_one(&bench.text(200, 50)));
        bench.keys("7u");
        assert_eq!(bench.said(), "users are masked", "one switch for all views");
    }
}

#[test]
fn a_copy_names_no_user() {
    for view in ["3", "4", "5"] {
        let mut bench = Bench::new(with_users());
        bench.keys(view);
        bench.keys("jjuw");
        let copied = bench.app.clipboard.take().unwrap_or_default();
        assert!(copied.starts_with('{') && !names_one(&copied), "{copied}");
    }
}

#[test]
fn a_filter_finds_a_user_that_is_masked() {
    let mut bench = Bench::new(normal());
    bench.keys("4/1005");
    bench.press(KeyCode::Enter);
    let text = bench.text(120, 36);
    assert!(text.contains("***05"), "{text}");
}

#[test]
fn pending_entries_are_grouped_by_age_and_deliveries() {
    let shown = |snapshot: Snapshot, size: (u16, u16)| {
        let mut bench = Bench::new(snapshot);
        bench.keys("4");
        bench.text(size.0, size.1)
    };
    let line = |text: &str, head: &str| {
        text.lines().find(|line| line.contains(head)).unwrap_or_default().to_owned()
    };
    let text = shown(normal(), (80, 24));
    assert!(line(&text, "age < 10 s").contains(" 12 "), "{text}");
    assert!(line(&text, "age > 10 min").contains("  3 "), "{text}");
    assert!(line(&text, "delivered 5+ times").contains(" 12 ▋"), "{text}");
    assert!(!text.contains("of the oldest"), "{text}");
    let text = shown(overflowing(), (80, 24));
    assert!(text.contains("9,791 ") && text.contains("of the oldest 10,000"), "{text}");
    let unknown = Snapshot { census: None, ..normal() };
    let text = shown(unknown, (80, 24));
    assert_eq!(text.matches("unknown").count(), 8, "{text}");
    let mut old = normal();
    old.census.as_mut().unwrap().taken = NOW.plus(-7_000);
    assert!(shown(old, (80, 24)).contains("7 s old"));
    assert!(!shown(normal(), (60, 15)).contains("age <"), "the rows come first");
}

/// A lock held by an operator without an engine, read just now with this much time left.
fn lent(at: Millis, left_ms: u64) -> Snapshot {
    let mut snapshot = normal();
    (snapshot.taken, snapshot.redis.last_ok) = (at, Some(at));
    let lock = &mut snapshot.locks.locks[0];
    (lock.node, lock.owner) = ("desk-7".to_owned(), "desk-7/pending apply#1f".to_owned());
    (lock.left_ms, lock.known) = (Some(left_ms), false);
    lock.since = Some(NOW.plus(-600_000));
    snapshot.locks.locks.truncate(1);
    snapshot
}

fn at(bench: &mut Bench, now: Millis) {
    bench.app.now = now;
    bench.app.on_tick();
}

#[test]
fn a_lease_runs_down_between_snapshots_and_warns_without_renewals() {
    let mut bench = Bench::new(lent(NOW, 30_000));
    bench.keys("6");
    let full = bench.text(120, 36);
    assert!(full.contains(&format!("{}    30 s", "█".repeat(12))), "{full}");
    bench.app.take_dirty();
    at(&mut bench, NOW.plus(1_500));
    assert!(bench.app.take_dirty(), "it moves without a snapshot");
    let later = bench.text(120, 36);
    assert!(later.contains(&format!("{}▍    28 s", "█".repeat(11))), "{later}");
    let warned = |bench: &mut Bench| {
        let buffer = bench.draw(120, 36);
        let bar = buffer.content.iter().position(|cell| cell.symbol() == "█");
        bar.map(|at| buffer.content[at].fg) == bench.app.theme.warn().fg
    };
    // A row under the cursor has no colour of its own, so another one precedes it.
    let mut two = lent(NOW.plus(16_000), 14_000);
    let mut first = two.locks.locks[0].clone();
    (first.name, first.owner) = ("a".to_owned(), "desk-7/x#2".to_owned());
    two.locks.locks.insert(0, first);
    two.locks.locks[0].left_ms = None;
    at(&mut bench, NOW.plus(16_000));
    bench.show(two.clone());
    bench.keys("g");
    assert!(warned(&mut bench), "{}", bench.text(120, 36));
    two.redis.last_ok = Some(NOW.plus(17_000));
    two.locks.locks[1].left_ms = Some(30_000);
    bench.show(two);
    at(&mut bench, NOW.plus(17_000));
    assert!(!warned(&mut bench), "renewed: {}", bench.text(120, 36));
}

#[test]
fn a_holder_that_is_not_a_node_is_never_shown_as_alive() {
    let mut bench = Bench::new(lent(NOW, 20_000));
    bench.keys("6");
    bench.press(KeyCode::Enter);
    let text = bench.text(120, 36);
    assert!(text.contains("desk-7 no node"), "{text}");
    assert!(text.contains("held by an unknown node"), "{text}");
    bench.show(lent(NOW.plus(1_000), 30_000));
    let text = bench.text(120, 36);
    assert!(text.contains("renewed by an unknown node"), "{text}");
    assert!(!text.contains("alive") && !text.contains("orphan"), "{text}");
    bench.keys("X");
    assert!(bench.text(120, 36).contains("Its holder desk-7 is not a known node"));
    let mut orphan = lent(NOW.plus(2_000), 9_000);
    orphan.locks.locks[0].orphan = true;
    let mut bench = Bench::new(orphan);
    bench.keys("6");
    assert!(bench.text(120, 36).contains("desk-7 orphan"));
}

#[test]
fn a_large_window_has_no_wide_gap_between_columns() {
    let mut bench = Bench::new(normal());
    bench.keys("6");
    for width in [80, 120, 160, 200] {
        let text = bench.text(width, 50);
        let head = text.lines().find(|line| line.contains("LOCK  "));
        let (before, _) = head.and_then(|head| head.split_once("NODE")).expect("a head");
        assert!(before.trim_end().len() + 50 > before.len(), "{width}\n{text}");
    }
}

fn numbered(bench: &mut Bench) -> Command {
    bench.keys("4A");
    bench.sent();
    let entries: Vec<_> = (0..1_204).map(|number| (entry(number), Verdict::Stuck)).collect();
    let plan = made_up::plan(&entries, "");
    bench.answer(Ok(Reply::Planned(plan.clone())));
    Command::Apply(plan, Pace::default())
}

fn footer(bench: &mut Bench) -> String {
    bench.text(120, 36).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn enter_confirms_once_the_count_is_typed() {
    let mut bench = Bench::new(overflowing());
    let act = numbered(&mut bench);
    assert!(!footer(&mut bench).contains("y yes"), "{}", footer(&mut bench));
    bench.keys("120");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.said(), "this affects 1,204: type that number, then press Enter");
    assert!(bench.app.dialog.is_some() && bench.sent().is_empty());
    bench.keys("4");
    let text = bench.text(120, 36);
    assert!(text.contains("1,204: press Enter to confirm"), "{text}");
    assert!(footer(&mut bench).contains("y yes"), "{}", footer(&mut bench));
    bench.keys("5");
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_some() && bench.sent().is_empty(), "12,045 is another number");
    bench.press(KeyCode::Backspace);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.sent(), [act]);
}

#[test]
fn cancel_remains_selectable_after_typing_the_count() {
    let mut bench = Bench::new(overflowing());
    numbered(&mut bench);
    bench.keys("1204");
    bench.press(KeyCode::BackTab);
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty(), "Cancel had the focus");
    let act = numbered(&mut bench);
    bench.keys("1204");
    bench.press(KeyCode::Tab);
    assert!(!footer(&mut bench).contains("y yes"), "a letter is text: {}", footer(&mut bench));
    bench.keys("yes");
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some(), "it only ends the reason");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.sent(), [act]);
    assert_eq!(bench.reason().as_deref(), Some("yes"));
}

#[test]
fn a_confirmation_without_a_count_cancels_with_enter() {
    let mut bench = Bench::new(normal());
    bench.keys("6X");
    assert!(footer(&mut bench).contains("y yes"));
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
}

/// The same snapshot with every list reversed, as far as possible.
fn turned(mut snapshot: Snapshot) -> Snapshot {
    snapshot.pending.lines.reverse();
    Arc::make_mut(&mut snapshot.letters.lines).reverse();
    snapshot.locks.locks.reverse();
    snapshot
}

/// The same without the subjects of a command.
fn without(mut snapshot: Snapshot, pending: &[u64], letters: &[u64], lock: &str) -> Snapshot {
    let (gone, dead): (Vec<_>, Vec<_>) = (
        pending.iter().map(|it| entry(*it)).collect(),
        letters.iter().map(|it| letter(*it)).collect(),
    );
    snapshot.pending.lines.retain(|line| !gone.contains(&line.entry));
    Arc::make_mut(&mut snapshot.letters.lines).retain(|line| !dead.contains(&line.letter));
    snapshot.locks.locks.retain(|it| it.name != lock);
    snapshot
}

#[test]
fn a_replay_targets_the_confirmed_entries() {
    for after in [turned(normal()), without(normal(), &[2], &[], ""), page_later()] {
        let mut bench = Bench::new(normal());
        bench.keys("4j  A");
        let scope = Scope::Entries(vec![entry(1), entry(2)]);
        assert_eq!(bench.sent(), [Command::Plan(scope)], "the marked ones, by their ids");
        bench.show(after.clone());
        let plan = made_up::plan(&[(entry(1), Verdict::Stuck), (entry(2), Verdict::Stuck)], "");
        bench.answer(Ok(Reply::Planned(plan.clone())));
        bench.show(after);
        bench.keys("y");
        assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
    }
}

/// Another page of the list.
fn page_later() -> Snapshot {
    Snapshot { pending: page(64, 128), ..normal() }
}

#[test]
fn commands_target_the_confirmed_letters() {
    for (key, compensate) in [("R", None), ("D", Some(false)), ("C", Some(true))] {
        for after in [turned(poisoned()), without(poisoned(), &[], &[0, 1], "")] {
            let mut bench = Bench::new(poisoned());
            bench.keys("5  ");
            bench.keys(key);
            let scope = LetterScope::Letters(vec![letter(0), letter(1)]);
            assert_eq!(bench.sent(), [Command::CountLetters(scope.clone())]);
            bench.show(after.clone());
            let found = letters_counted();
            let count = found.counts.of(LetterVerdict::Awaited);
            bench.answer(Ok(Reply::LettersCounted(found)));
            bench.show(after);
            let expected = match compensate {
                None => Command::ReplayLetters { scope, force: false },
                Some(compensate) => Command::DiscardLetters { scope, compensate },
            };
            assert!(count > 0 && bench.app.dialog.is_some());
            if compensate == Some(true) {
                let text = bench.text(120, 36);
                let asked = text.split_once("Type ").and_then(|(_, rest)| rest.split_once(' '));
                bench.keys(asked.map_or("", |(number, _)| number));
            }
            bench.keys("y");
            assert_eq!(bench.sent(), [expected], "{key}");
        }
    }
}

#[test]
fn vanished_marked_letters_are_reported_and_nothing_is_done() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5 D");
    bench.sent();
    bench.show(without(poisoned(), &[], &[0], ""));
    let none = LettersCounted { gone: 1, ..LettersCounted::default() };
    bench.answer(Ok(Reply::LettersCounted(none)));
    assert_eq!(bench.said(), "these letters are no longer present");
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
}

#[test]
fn a_release_targets_the_confirmed_lock() {
    for after in [turned(normal()), without(normal(), &[], &[], "stock:8")] {
        let mut bench = Bench::new(normal());
        bench.keys("6jX");
        bench.show(after);
        bench.keys("y");
        let owner = "node-b/recount#0f1e2d3c4b5a".to_owned();
        let command = Command::ReleaseLock { name: "stock:8".to_owned(), owner };
        assert_eq!(bench.sent(), [command], "the engine refuses who does not hold it");
    }
}

#[test]
fn a_paused_display_confirms_with_the_newest_figures() {
    let mut bench = Bench::new(normal());
    bench.keys("6jf");
    let mut later = normal();
    later.locks.locks[1].waiting = 77;
    bench.show(later);
    bench.keys("X");
    assert!(bench.text(120, 36).contains("77 waiters"), "{}", bench.text(120, 36));
    bench.press(KeyCode::Esc);
    let mut taken = normal();
    taken.locks.locks[1].owner = "node-a/recount#77".to_owned();
    for gone in [without(normal(), &[], &[], "stock:8"), taken] {
        bench.show(gone);
        bench.keys("X");
        assert_eq!(bench.said(), "the holder no longer holds the lock");
        assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
    }
    bench.keys("8");
    let mut later = normal();
    later.jobs.clear();
    bench.show(later);
    bench.keys("T");
    assert_eq!(bench.said(), "the job no longer exists");
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
}

#[test]
fn a_cancellation_targets_the_command_running_when_it_was_requested() {
    for view in ["4", "5"] {
        let mut bench = Bench::new(under_way());
        bench.keys(view);
        bench.keys("X");
        assert!(bench.app.dialog.is_some());
        bench.show(Snapshot { recoveries: Vec::new(), ..poisoned() });
        bench.keys("y");
        assert_eq!(bench.sent(), [Command::Cancel], "the engine says that nothing is under way");
        bench.press(KeyCode::Esc);
        bench.keys(view);
        bench.keys("X");
        assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
    }
}

#[test]
fn no_confirmation_opens_for_a_vanished_object() {
    let flowing = || Snapshot { entries: stream::page(StreamView::default(), 260), ..normal() };
    let sold = || Snapshot { orders: orders::page(OrdersView::default(), 900), ..normal() };
    let mut fewer = normal();
    fewer.sales.retain(|sale| sale.voucher_id != VoucherId(7));
    let cases: [(Snapshot, Snapshot, &str, &[&str], &str); 3] = [
        (normal(), fewer, "2jk", &["P", "E", "R"], "the sale is no longer listed"),
        (sold(), normal(), "7", &["P"], "the order is no longer on the newest page"),
        (flowing(), normal(), "3c", &["C", "D"], "the consumer no longer exists"),
    ];
    for (seen, newest, there, acts, said) in cases {
        let mut bench = Bench::new(seen);
        bench.keys(there);
        bench.keys("f");
        bench.show(newest);
        for act in acts {
            bench.keys(act);
            assert_eq!(bench.said(), said, "{there}{act}");
            assert!(bench.app.dialog.is_none() && bench.sent().is_empty(), "{there}{act}");
        }
    }
}

#[test]
fn an_empty_pending_list_shows_undelivered_entries() {
    for (lag, english, chinese) in [
        (
            Some(0),
            "No pending entries. Every delivered order is written.",
            "没有待确认的消息，已投递的订单全部落库。",
        ),
        (
            Some(5_606),
            "No pending entries. 5,606 entries wait in the stream (3).",
            "没有待确认的消息。消息流积压 5,606 条（3）。",
        ),
        (Some(1), "No pending entries. 1 entry waits in the stream (3).", "消息流积压 1 条"),
        (None, "The lag of the stream is unknown (3).", "消息流积压未知（3）。"),
    ] {
        for (lang, expected) in [("en", english), ("zh", chinese)] {
            set_thread_language(lang);
            let mut snapshot = empty();
            if let Some(stream) = &mut snapshot.stream {
                stream.lag = lag;
            }
            let mut bench = Bench::new(snapshot);
            bench.keys("4");
            let text = bench.text(80, 24);
            assert!(text.contains(expected), "{text}");
        }
    }
}
