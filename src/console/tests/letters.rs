//! Dead letters on the screen, their keys, and the reason of a command.

use std::sync::Arc;

use crossterm::event::{Event, KeyCode};
use seckill_engine::{
    EngineError, audit_record,
    command::{Command, LetterScope, LettersCounted, LettersReplayed, Pace, Reply},
    plan::made_up,
    telemetry::{
        Snapshot,
        alarms::alarms,
        snapshot::{LetterLine, LetterPage, RecoveryLine},
    },
};
use seckill_model::{
    EntryError, EntryId, LetterCounts, LetterVerdict, Message, Millis, OrderError, OrderId, UserId,
    Verdict, VoucherId, dead_letter::Burial, filter::Filter,
};

use super::{
    fixture::{Bench, NOW, empty, entry, normal, overflowing},
    screens::assert_screen,
};
use crate::{dialogs::Dialog, theme::Depth, theme::Theme};

fn reason(number: u64) -> OrderError {
    match number % 4 {
        0 => OrderError::TooOften(5),
        1 => OrderError::Fields(EntryError::Garbage("userId".into(), "x".to_owned())),
        2 => OrderError::OutOfStock(VoucherId(7)),
        _ => missing(),
    }
}

fn missing() -> OrderError {
    OrderError::Fields(EntryError::Missing("id".into()))
}

pub(super) fn letter(number: u64) -> EntryId {
    EntryId { millis: 1_794_999_970_000, number, partition: 0 }
}

fn line(number: u64) -> LetterLine {
    let verdict = LetterVerdict::ALL[(number % 8) as usize];
    let good = verdict != LetterVerdict::Malformed;
    let reason = Message::of(&reason(number));
    let field = |name: &str, value: String| (name.to_owned(), value);
    LetterLine {
        letter: letter(number),
        entry: Some(entry(number)),
        at: NOW.plus(-30_000),
        age_ms: 30_000,
        reason: reason.clone(),
        consumer: "node-b/1".to_owned(),
        deliveries: 1 + number % 6,
        replays: if verdict == LetterVerdict::CameBack { 3 } else { 0 },
        order: OrderId::new(1_795_000_000, number).ok().filter(|_| good),
        user: good.then_some(UserId(1_000 + number)),
        voucher: good.then_some(VoucherId(7)),
        fault: (!good).then(|| Message::of(&missing())),
        verdict,
        history: (0..=number % 3)
            .map(|n| Burial {
                at: NOW.plus(-600_000 + n as i64 * 60_000),
                consumer: "node-b/1".to_owned(),
                deliveries: 5,
                reason: reason.clone(),
            })
            .collect(),
        payload: vec![
            field("userId", if good { (1_000 + number).to_string() } else { "x".to_owned() }),
            field("voucherId", "7".to_owned()),
            field("note", "火锅 五折 ".repeat(20)),
        ],
        fields_more: (number % 2) as usize * 3,
    }
}

/// A page of `count` letters from number `first` on.
pub(super) fn letters(first: u64, count: u64, more: bool) -> LetterPage {
    let from = if first == 0 { EntryId::MIN } else { letter(first) };
    let lines = Arc::new((first..first + count).map(line).collect());
    LetterPage { from, taken: Some(NOW), more, lines }
}

/// An active sale, and nine letters of every kind.
pub(super) fn poisoned() -> Snapshot {
    let mut snapshot = normal();
    if let Some(stream) = &mut snapshot.stream {
        stream.dead = 9;
    }
    snapshot.letters = letters(0, 9, false);
    snapshot.alarms = alarms(&snapshot, None);
    snapshot
}

pub(super) fn without(numbers: &[u64]) -> Snapshot {
    let mut snapshot = poisoned();
    let gone: Vec<EntryId> = numbers.iter().map(|number| letter(*number)).collect();
    Arc::make_mut(&mut snapshot.letters.lines).retain(|line| !gone.contains(&line.letter));
    snapshot
}

pub(super) fn away() -> Snapshot {
    let mut snapshot = poisoned();
    snapshot.sql.up = false;
    snapshot.sql.last_ok = Some(NOW.plus(-42_000));
    snapshot.sql.error = Some("disk I/O error".into());
    snapshot.letters.taken = snapshot.sql.last_ok;
    snapshot
}

fn unread() -> Snapshot {
    Snapshot { letters: LetterPage::default(), ..away() }
}

pub(super) fn under_way() -> Snapshot {
    let line =
        RecoveryLine { act: "dead replay".into(), done: 400, planned: 12_000, changes: true };
    Snapshot { recoveries: vec![line], ..poisoned() }
}

fn read_only() -> Snapshot {
    Snapshot { read_only: true, ..poisoned() }
}

pub(super) fn letters_counted() -> LettersCounted {
    let mut counts = LetterCounts::default();
    poisoned().letters.lines.iter().for_each(|line| counts.add(line.verdict));
    LettersCounted { counts, gone: 0, last: letter(8) }
}

pub(super) fn all() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX }
}

/// The same after the count.
pub(super) fn all_counted() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: letter(8) }
}

/// Presses a key and answers the count that it requests.
pub(super) fn ask(bench: &mut Bench, key: &str, scope: &LetterScope) {
    bench.keys(key);
    assert_eq!(bench.sent(), [Command::CountLetters(scope.clone())]);
    bench.answer(Ok(Reply::LettersCounted(letters_counted())));
}

#[test]
fn every_state_at_every_size() {
    type Scene = (&'static str, fn() -> Snapshot);
    let scenes: [Scene; 7] = [
        ("empty", || Snapshot { letters: letters(0, 0, false), ..empty() }),
        ("normal", poisoned),
        ("overflowing", overflowing),
        ("outage", away),
        ("unread", unread),
        ("under_way", under_way),
        ("read_only", read_only),
    ];
    for (scene, snapshot) in scenes {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut bench = Bench::new(snapshot());
            bench.keys("5");
            let text = bench.text(width, height);
            assert_screen(&format!("letters_{scene}_{width}x{height}"), &text);
        }
    }
}

#[test]
fn details_and_questions() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        for (name, keys) in [("letters_detail", "5l"), ("letters_detail_came_back", "5jl")] {
            let mut bench = Bench::new(poisoned());
            bench.keys(keys);
            assert_screen(&format!("{name}_{width}x{height}"), &bench.text(width, height));
        }
        for (name, key) in [("replay", "R"), ("discard", "D"), ("give_back", "C")] {
            let mut bench = Bench::new(poisoned());
            bench.keys("5*");
            ask(&mut bench, key, &all());
            assert_screen(&format!("confirm_{name}_{width}x{height}"), &bench.text(width, height));
        }
        let mut bench = Bench::new(poisoned());
        bench.keys("5*");
        ask(&mut bench, "D", &all());
        bench.press(KeyCode::Tab);
        bench.keys("poison of last night, 运维 says so");
        assert_screen(&format!("confirm_reason_{width}x{height}"), &bench.text(width, height));
    }
}

#[test]
fn ascii_mode_and_a_terminal_without_colour_show_it_all() {
    let mut bench = Bench::themed(poisoned(), Theme::new(Depth::None, true));
    bench.keys("5 ");
    let text = bench.text(120, 36);
    let beyond: Vec<char> = text.chars().filter(|c| !c.is_ascii()).collect();
    assert!(beyond.is_empty(), "{beyond:?}: {text}");
    assert!(text.contains("*  1794999970000-0"), "{text}");
}

#[test]
fn letters_are_read_only_while_they_are_shown() {
    let mut bench = Bench::new(poisoned());
    assert_eq!(bench.focus.borrow().letters_from, None);
    bench.keys("5");
    assert_eq!(bench.focus.borrow().letters_from, Some(EntryId::MIN));
    assert!(bench.focus.borrow().pending.is_none());
    bench.keys("4");
    assert_eq!(bench.focus.borrow().letters_from, None);
    assert!(bench.focus.borrow().pending.is_some());
}

#[test]
fn a_command_applies_to_what_was_counted_and_only_after_confirmation() {
    let acts = [
        ("R", Command::ReplayLetters { scope: all_counted(), force: false }),
        ("D", Command::DiscardLetters { scope: all_counted(), compensate: false }),
        ("C", Command::DiscardLetters { scope: all_counted(), compensate: true }),
    ];
    for (key, command) in acts {
        let mut bench = Bench::new(poisoned());
        bench.keys("5*");
        for no in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('n')] {
            ask(&mut bench, key, &all());
            bench.press(no);
            // Enter cancels, but if a number has to be typed it says so.
            if (key, no) == ("C", KeyCode::Enter) {
                assert!(bench.said().contains("this affects 8"), "{}", bench.said());
                bench.press(KeyCode::Esc);
            }
            assert!(bench.app.dialog.is_none() && bench.sent().is_empty(), "{key}, {no:?}");
        }
        ask(&mut bench, key, &all());
        // Letters that arrive meanwhile are excluded.
        let mut later = poisoned();
        later.taken = NOW.plus(60_000);
        bench.show(later);
        if key == "C" {
            // Cancelling orders requires their number.
            bench.keys("y");
            assert!(bench.sent().is_empty() && bench.said().contains("this affects 8"));
            bench.keys("8");
        }
        bench.keys("y");
        assert_eq!(bench.sent(), [command]);
        assert_eq!(bench.reason(), None);
    }
}

#[test]
fn commands_without_effect_suggest_a_step() {
    let only = |verdict: LetterVerdict| {
        let mut counts = LetterCounts::default();
        counts.add(verdict);
        LettersCounted { counts, gone: 2, last: letter(8) }
    };
    let said = [
        ("R", only(LetterVerdict::Written), "the order is in SQL: press D to remove the letter"),
        (
            "D",
            only(LetterVerdict::Awaited),
            "the buyer is waiting and no order exists: press R to replay",
        ),
        (
            "C",
            only(LetterVerdict::Malformed),
            "no order can be created from it: press D to remove the letter",
        ),
        ("D", LettersCounted::default(), "there are no dead letters"),
    ];
    for (key, found, words) in said {
        let mut bench = Bench::new(poisoned());
        bench.keys("5*");
        bench.keys(key);
        bench.sent();
        bench.answer(Ok(Reply::LettersCounted(found)));
        assert!(bench.app.dialog.is_none());
        assert!(bench.said().contains(words), "{}", bench.said());
    }
    let mut bench = Bench::new(normal());
    bench.keys("5R");
    assert_eq!(bench.said(), "there are no dead letters");
    let mut bench = Bench::new(read_only());
    bench.keys("5RDCX");
    assert_eq!(bench.said(), "read-only mode: commands are disabled; restart without --read-only");
    assert!(bench.sent().is_empty());
}

#[test]
fn a_count_is_asked_for_once_and_covers_no_other_question() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5*RD");
    assert_eq!(bench.said(), "counting the dead letters");
    assert_eq!(bench.sent().len(), 1);
    bench.keys("?");
    bench.answer(Ok(Reply::LettersCounted(letters_counted())));
    assert!(matches!(bench.app.dialog, Some(Dialog::Help(_))));
    bench.press(KeyCode::Esc);
    bench.keys("D");
    bench.sent();
    bench.answer(Err(EngineError::Plan("redis does not answer; try again".to_owned())));
    bench.press(KeyCode::Esc);
    ask(&mut bench, "D", &all());
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))));
}

#[test]
fn pages_turn_at_both_ends() {
    let mut bench = Bench::new(overflowing());
    bench.keys("5GG");
    let next = letter(99).next_of_all().unwrap();
    assert_eq!(bench.focus.borrow().letters_from, Some(next));
    let mut second = overflowing();
    second.letters = letters(100, 20, false);
    second.letters.from = next;
    bench.show(second);
    assert_eq!(bench.app.letters.cursor, Some(letter(100)));
    bench.keys("GG");
    assert_eq!(bench.said(), "this is the last row");
    bench.keys("g");
    bench.keys("g");
    assert_eq!(bench.focus.borrow().letters_from, Some(EntryId::MIN));
}

#[test]
fn a_running_command_is_shown_and_can_be_cancelled() {
    let mut bench = Bench::new(under_way());
    for view in ["4", "5"] {
        bench.keys(view);
        assert!(bench.text(120, 36).contains("dead replay 400 of 12,000"));
        bench.keys("Xy");
        assert_eq!(bench.sent(), [Command::Cancel]);
        bench.answer(Ok(Reply::Cancelled(true)));
    }
    bench.keys("*");
    ask(&mut bench, "R", &all());
    bench.keys("y");
    bench.sent();
    let report =
        LettersReplayed { seen: 400, replayed: 400, cut_short: true, ..LettersReplayed::default() };
    bench.answer(Ok(Reply::LettersReplayed(report)));
    let said = "! 400 dead letters replayed; interrupted";
    assert_eq!(bench.said(), said);
}

#[test]
fn a_reason_is_text_and_is_sent_with_the_command() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5*");
    ask(&mut bench, "D", &all());
    bench.press(KeyCode::Tab);
    bench.keys("yes, no buyer hl waits");
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some());
    // Enter only ends the text; then Cancel has the focus again.
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some());
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::DiscardLetters { scope: all_counted(), compensate: false }]);
    assert_eq!(bench.reason().as_deref(), Some("yes, no buyer hl waits"));
}

#[test]
fn a_window_that_is_too_small_takes_no_command() {
    let mut bench = Bench::new(poisoned());
    bench.draw(40, 10);
    bench.keys("5Dy");
    bench.app.on_event(&Event::Paste("y".to_owned()));
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty() && bench.app.dialog.is_none());
    // Shown again, it continues; a hidden question cannot be answered.
    bench.draw(80, 24);
    bench.keys("5*");
    ask(&mut bench, "D", &all());
    bench.draw(59, 24);
    bench.keys("y");
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some());
    bench.draw(80, 24);
    bench.keys("y");
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn starting_another_command_dismisses_errors() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5*");
    ask(&mut bench, "D", &all());
    bench.keys("y");
    bench.sent();
    bench.answer(Err(EngineError::Plan("another operator is running a command".to_owned())));
    assert!(bench.said().contains("another operator"));
    ask(&mut bench, "D", &all());
    bench.keys("yj");
    assert!(!bench.said().contains("another operator"), "{}", bench.said());
}

#[test]
fn a_plan_takes_a_reason() {
    let mut bench = Bench::new(normal());
    bench.keys("4A");
    bench.sent();
    let plan = made_up::plan(&[(entry(1), Verdict::Stuck)], "");
    bench.answer(Ok(Reply::Planned(plan.clone())));
    bench.press(KeyCode::Tab);
    bench.keys("node-b died");
    bench.press(KeyCode::Tab);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
    assert_eq!(bench.reason().as_deref(), Some("node-b died"));
}

#[test]
fn a_paste_of_a_megabyte_does_no_harm() {
    for text in ["x".repeat(1 << 20), "火\n".repeat(1 << 18), "\u{301}a\x1b[2J".repeat(1 << 17)] {
        let mut bench = Bench::new(poisoned());
        bench.keys("5*");
        ask(&mut bench, "D", &all());
        // Without the focus it is not an answer.
        bench.app.on_event(&Event::Paste("y".to_owned()));
        assert!(bench.sent().is_empty());
        bench.press(KeyCode::Tab);
        bench.app.on_event(&Event::Paste(text.clone()));
        bench.app.on_event(&Event::Paste(text));
        bench.keys("more");
        bench.draw(80, 24);
        bench.press(KeyCode::Enter);
        bench.keys("y");
        assert_eq!(bench.sent().len(), 1);
        let reason = bench.reason().unwrap();
        assert!(audit_record::check_reason(Some(&reason)).is_ok());
        assert!(
            reason.chars().count() <= seckill_engine::error::MAX_REASON
                && !reason.contains(char::is_control)
        );
    }
}

#[test]
fn a_page_that_could_not_be_read_says_how_old_it_is() {
    let mut snapshot = poisoned();
    snapshot.letters.taken = Some(Millis(NOW.0 - 9_000));
    let mut bench = Bench::new(snapshot);
    bench.keys("5");
    assert!(bench.text(120, 36).contains("DEAD LETTERS      9 s old"));
}

#[test]
fn attention_names_the_key() {
    let text = Bench::new(poisoned()).text(120, 36);
    assert!(text.contains("9  dead letters wait for review. Press 5 to open."), "{text}");
    assert!(text.contains("5 Dead 9"), "{text}");
}

#[test]
fn an_unanswered_count_is_cancelled_with_esc() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5D");
    let first = bench.sent();
    assert_eq!(first.len(), 1);
    bench.press(KeyCode::Esc);
    assert_eq!(bench.said(), "counting the dead letters was cancelled; nothing was changed");
    assert_eq!(bench.app.view, crate::views::View::Letters);
    bench.keys("j R");
    let second = bench.sent();
    assert_eq!(second, [Command::CountLetters(LetterScope::Letters(vec![letter(1)]))]);
    // The first reply arrives after all, and is about something else.
    let mut counts = LetterCounts::default();
    counts.add(LetterVerdict::Awaited);
    let counted = || Ok(Reply::LettersCounted(LettersCounted { counts, gone: 0, last: letter(0) }));
    bench.answer(counted());
    assert!(bench.app.dialog.is_none(), "{}", bench.text(120, 36));
    bench.answer(counted());
    assert!(bench.app.dialog.is_some());
}
