//! The recovery views: which users they show, and that a command applies to its intended subject or to nothing.

use super::letters::{letters_counted, replay_running};
use super::prelude::*;

/// Users 1000 to 1127 are in the stream, pending, dead and bought rows; each text names one of them.
fn with_users() -> Snapshot {
    let mut snapshot = with_letters();
    for line in Arc::make_mut(&mut snapshot.pending.lines) {
        line.fault = line.user.map(|user| format!("buyer {user} holds order 9 already").into());
    }
    for line in Arc::make_mut(&mut snapshot.letters.lines) {
        let line = &mut line.letter;
        line.reason = match line.order {
            Some(seckill_model::OrderEntry { user, .. }) => {
                format!("buyer {user} already holds order 9 for voucher 7").into()
            }
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
            let mut tui = Tui::open(with_users(), view);
            tui.press(&"j".repeat(row));
            for keys in ["", "\n"] {
                if keys == "\n" {
                    tui.press("\n");
                }
                for width in [80, 120, 200] {
                    let text = tui.screen_at(width, 50);
                    assert!(!names_one(&text), "view {view}, {width}\n{text}");
                }
            }
            assert!(tui.screen_at(200, 50).contains("***"), "{}", tui.screen_at(200, 50));
        }
        let mut tui = Tui::open(with_users(), view);
        let sheet = tui.app.sheet().map(|sheet| format!("{:?}", sheet.rows));
        assert!(!names_one(&sheet.unwrap_or_default()));
        tui.press("u").assert_status("users are shown");
        assert!(names_one(&tui.screen_at(200, 50)));
        assert_eq!(tui.press("7u").status(), "users are masked", "one switch for all views");
    }
}

#[test]
fn a_copy_masks_users_as_the_screen_does() {
    for view in ["3", "4", "5"] {
        let mut tui = Tui::open(with_users(), view);
        let mut copied = |keys: &str| {
            tui.press(keys);
            tui.app.terminal.clipboard.take().unwrap_or_default()
        };
        let [masked, shown] = ["jjw", "uw"].map(&mut copied);
        assert!(masked.contains("user_masked") && !names_one(&masked), "{masked}");
        assert!(shown.contains(r#""user":"#) && names_one(&shown), "{shown}");
    }
}

#[test]
fn users_are_masked_before_an_audience_only() {
    let mut tui = Tui::new(normal());
    tui.app.display.users.masked = false;
    assert!(names_one(&tui.press("4").screen_at(200, 50)));
    tui.press("tt");
    assert!(!names_one(&tui.screen_at(200, 50)), "the audience may still be there");
}

#[test]
fn a_filter_finds_a_user_that_is_masked() {
    Tui::open(normal(), "4/1005\n").assert_shows("***05");
}

#[test]
fn unknown_and_old_groups_of_pending_entries_are_labelled() {
    let unknown = Snapshot { census: None, ..normal() };
    let text = Tui::open(unknown, "4").screen_at(80, 24);
    assert_eq!(text.matches("unknown").count(), 8, "{text}");
    let mut old = normal();
    old.census.as_mut().unwrap().taken = NOW.plus(-7_000);
    assert!(Tui::open(old, "4").screen_at(80, 24).contains("7 s old"));
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

fn at(tui: &mut Tui, now: Millis) {
    tui.app.display.now = now;
    tui.app.on_tick();
}

#[test]
fn a_lease_runs_down_between_snapshots_and_warns_without_renewals() {
    let mut tui = Tui::open(lent(NOW, 30_000), "6");
    let full = tui.screen();
    assert!(full.contains(&format!("{}    30 s", "█".repeat(12))), "{full}");
    tui.app.terminal.dirty = false;
    at(&mut tui, NOW.plus(1_500));
    assert!(tui.app.terminal.dirty, "it moves without a snapshot");
    let later = tui.screen();
    assert!(later.contains(&format!("{}▍    28 s", "█".repeat(11))), "{later}");
    let warned = |tui: &mut Tui| {
        let buffer = tui.draw(120, 36);
        let bar = buffer.content.iter().position(|cell| cell.symbol() == "█");
        bar.map(|at| buffer.content[at].fg) == tui.app.display.theme.warn.fg
    };
    // A row under the cursor has no colour of its own, so another one precedes it.
    let mut two = lent(NOW.plus(16_000), 14_000);
    let mut first = two.locks.locks[0].clone();
    (first.name, first.owner) = ("a".to_owned(), "desk-7/x#2".to_owned());
    two.locks.locks.insert(0, first);
    two.locks.locks[0].left_ms = None;
    at(&mut tui, NOW.plus(16_000));
    tui.show(two.clone());
    tui.press("g");
    assert!(warned(&mut tui), "{}", tui.screen());
    two.redis.last_ok = Some(NOW.plus(17_000));
    two.locks.locks[1].left_ms = Some(30_000);
    tui.show(two);
    at(&mut tui, NOW.plus(17_000));
    assert!(!warned(&mut tui), "renewed: {}", tui.screen());
}

#[test]
fn a_holder_that_is_not_a_node_is_never_shown_as_alive() {
    let mut tui = Tui::open(lent(NOW, 20_000), "6\n");
    tui.assert_shows("desk-7 no node");
    tui.assert_shows("held by an unknown node");
    tui.assert_hides("alive");
    tui.assert_hides("orphan");
    tui.press("X").assert_shows("Its holder desk-7 is not a known node");
    let mut orphan = lent(NOW.plus(2_000), 9_000);
    orphan.locks.locks[0].orphan = true;
    Tui::open(orphan, "6").assert_shows("desk-7 orphan");
}

fn numbered(tui: &mut Tui) -> Command {
    tui.press("4A");
    tui.sent();
    let entries: Vec<_> = (0..1_204).map(|number| (entry(number), Verdict::Stuck)).collect();
    let plan = plan(&entries, "");
    tui.answer(Ok(Reply::Planned(plan.clone())));
    Command::Apply(plan, Pace::default())
}

fn footer(tui: &mut Tui) -> String {
    tui.screen().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn enter_confirms_once_the_count_is_typed() {
    let mut tui = Tui::new(overflowing());
    let command = numbered(&mut tui);
    assert!(!footer(&mut tui).contains("y yes"), "{}", footer(&mut tui));
    tui.press("120\n").assert_status("this affects 1,204: type that number, then press Enter");
    assert!(tui.app.dialog.is_some() && tui.sent().is_empty());
    tui.press("4").assert_shows("1,204: press Enter to confirm");
    assert!(footer(&mut tui).contains("y yes"), "{}", footer(&mut tui));
    tui.press("5\n");
    assert!(tui.app.dialog.is_some() && tui.sent().is_empty(), "12,045 is another number");
    tui.key(KeyCode::Backspace);
    assert_eq!(tui.press("\n").sent(), [command]);
}

#[test]
fn cancel_remains_selectable_after_typing_the_count() {
    let mut tui = Tui::new(overflowing());
    numbered(&mut tui);
    tui.press("1204");
    tui.key(KeyCode::BackTab);
    tui.press("\n").assert_idle();
    let command = numbered(&mut tui);
    tui.press("1204\t");
    assert!(!footer(&mut tui).contains("y yes"), "a letter is text: {}", footer(&mut tui));
    tui.press("yes\n");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_some(), "it only ends the reason");
    assert_eq!(tui.press("\n").sent(), [command]);
    assert_eq!(tui.reason().as_deref(), Some("yes"));
}

/// The same snapshot with every list reversed, as far as possible.
fn turned(mut snapshot: Snapshot) -> Snapshot {
    Arc::make_mut(&mut snapshot.pending.lines).reverse();
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
    Arc::make_mut(&mut snapshot.pending.lines).retain(|line| !gone.contains(&line.entry));
    Arc::make_mut(&mut snapshot.letters.lines).retain(|line| !dead.contains(&line.letter.letter));
    snapshot.locks.locks.retain(|it| it.name != lock);
    snapshot
}

#[test]
fn a_replay_targets_the_confirmed_entries() {
    for after in [turned(normal()), without(normal(), &[2], &[], ""), page_later()] {
        let mut tui = Tui::open(normal(), "4j  A");
        let scope = Scope::Entries(vec![entry(1), entry(2)]);
        assert_eq!(tui.sent(), [Command::Plan(scope)], "the marked ones, by their ids");
        tui.show(after.clone());
        let plan = plan(&[(entry(1), Verdict::Stuck), (entry(2), Verdict::Stuck)], "");
        tui.answer(Ok(Reply::Planned(plan.clone())));
        tui.show(after);
        assert_eq!(tui.press("y").sent(), [Command::Apply(plan, Pace::default())]);
    }
}

/// Another page of the list.
fn page_later() -> Snapshot {
    Snapshot { pending: page(64, 128), ..normal() }
}

#[test]
fn commands_target_the_confirmed_letters() {
    for (key, compensate) in [("R", None), ("D", Some(false)), ("C", Some(true))] {
        for after in [turned(with_letters()), without(with_letters(), &[], &[0, 1], "")] {
            let mut tui = Tui::open(with_letters(), "5  ");
            tui.press(key);
            let scope = LetterScope::Letters(vec![letter(0), letter(1)]);
            assert_eq!(tui.sent(), [Command::CountLetters(scope.clone())]);
            tui.show(after.clone());
            let found = letters_counted();
            let count = found.counts.of(LetterVerdict::Awaited);
            tui.answer(Ok(Reply::LettersCounted(found)));
            tui.show(after);
            let expected = match compensate {
                None => Command::ReplayLetters { scope, force: false },
                Some(compensate) => Command::DiscardLetters { scope, compensate },
            };
            assert!(count > 0 && tui.app.dialog.is_some());
            if compensate == Some(true) {
                let text = tui.screen();
                let asked = text.split_once("Type ").and_then(|(_, rest)| rest.split_once(' '));
                tui.press(asked.map_or("", |(number, _)| number));
            }
            assert_eq!(tui.press("y").sent(), [expected], "{key}");
        }
    }
}

#[test]
fn vanished_marked_letters_are_reported_and_nothing_is_done() {
    let mut tui = Tui::open(with_letters(), "5 D");
    tui.sent();
    tui.show(without(with_letters(), &[], &[0], ""));
    let none = LettersCounted { gone: 1, ..LettersCounted::default() };
    tui.answer(Ok(Reply::LettersCounted(none)));
    tui.assert_status("these letters are no longer present");
    tui.assert_idle();
}

#[test]
fn a_release_targets_the_confirmed_lock() {
    for after in [turned(normal()), without(normal(), &[], &[], "stock:8")] {
        let mut tui = Tui::open(normal(), "6jX");
        tui.show(after);
        tui.press("y");
        let owner = "node-b/recount#0f1e2d3c4b5a".to_owned();
        let command = Command::ReleaseLock { name: "stock:8".to_owned(), owner };
        assert_eq!(tui.sent(), [command], "the engine refuses who does not hold it");
    }
}

#[test]
fn a_paused_display_confirms_with_the_newest_figures() {
    let mut tui = Tui::open(normal(), "6jf");
    let mut later = normal();
    later.locks.locks[1].waiting = 77;
    tui.show(later);
    tui.press("X").assert_shows("77 waiters");
    tui.press("\x1b");
    let mut taken = normal();
    taken.locks.locks[1].owner = "node-a/recount#77".to_owned();
    for gone in [without(normal(), &[], &[], "stock:8"), taken] {
        tui.show(gone);
        tui.press("X").assert_status("the holder no longer holds the lock");
        tui.assert_idle();
    }
    tui.press("8");
    let mut later = normal();
    later.jobs.clear();
    tui.show(later);
    tui.press("T").assert_status("the job no longer exists");
    tui.assert_idle();
}

#[test]
fn a_cancellation_targets_the_command_running_when_it_was_requested() {
    for view in ["4", "5"] {
        let mut tui = Tui::open(replay_running(), view);
        tui.press("X");
        assert!(tui.app.dialog.is_some());
        tui.show(Snapshot { recoveries: Vec::new(), ..with_letters() });
        tui.press("y");
        assert_eq!(tui.sent(), [Command::Cancel], "the engine says that nothing is under way");
        tui.press("\x1b");
        tui.press(view);
        tui.press("X").assert_idle();
    }
}

#[test]
fn no_confirmation_opens_for_a_vanished_object() {
    let mut fewer = normal();
    fewer.sales.retain(|sale| sale.voucher_id != VoucherId(7));
    let cases: [(Snapshot, Snapshot, &str, &[&str], &str); 3] = [
        (normal(), fewer, "2jk", &["P", "E", "R"], "the sale is no longer listed"),
        (with_orders(), normal(), "7", &["P"], "the order is no longer on the newest page"),
        (with_stream(), normal(), "3c", &["C", "D"], "the consumer no longer exists"),
    ];
    for (seen, newest, there, commands, message) in cases {
        let mut tui = Tui::open(seen, there);
        tui.press("f");
        tui.show(newest);
        for command in commands {
            assert_eq!(tui.press(command).status(), message, "{there}{command}");
            tui.assert_idle();
        }
    }
}

#[test]
fn an_empty_pending_list_shows_undelivered_entries() {
    for (lag, expected) in [
        (Some(0), "No pending entries. Every delivered order is written."),
        (Some(5_606), "No pending entries. 5,606 entries wait in the stream (3)."),
        (Some(1), "No pending entries. 1 entry waits in the stream (3)."),
        (None, "The lag of the stream is unknown (3)."),
    ] {
        let mut snapshot = empty();
        snapshot.stream.iter_mut().for_each(|stream| stream.lag = lag);
        let text = Tui::open(snapshot, "4").screen_at(80, 24);
        assert!(text.contains(expected), "{text}");
    }
}
