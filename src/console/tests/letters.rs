//! Dead letters on the screen, their keys, and the reason of a command.

use seckill_engine::{LetterLine, commands::audit_record};
use seckill_model::{OrderEntry, dead_letter::Burial};
use seckill_redis::dead_letters::DeadLetter;

use super::prelude::*;

fn reason(number: u64) -> OrderError {
    match number % 4 {
        0 => OrderError::TooOften(5),
        1 => OrderError::Fields(reason!("faults-field-garbage", field = "userId", value = "x")),
        2 => OrderError::OutOfStock(VoucherId(7)),
        _ => missing(),
    }
}

fn missing() -> OrderError {
    OrderError::Fields(reason!("faults-field-missing", field = "id"))
}

pub(super) fn letter(number: u64) -> EntryId {
    EntryId { millis: 1_794_999_970_000, number, partition: 0 }
}

fn line(number: u64) -> LetterLine {
    let verdict = LetterVerdict::ALL[(number % 8) as usize];
    let good = verdict != LetterVerdict::Malformed;
    let reason = Message::of(&reason(number));
    let field = |name: &str, value: String| (name.to_owned(), value);
    let letter = DeadLetter {
        letter: letter(number),
        entry: Some(entry(number)),
        at: NOW.plus(-30_000),
        reason: reason.clone(),
        consumer: "node-b/1".to_owned(),
        deliveries: 1 + number % 6,
        replays: if verdict == LetterVerdict::CameBack { 3 } else { 0 },
        order: good.then(|| OrderEntry {
            entry: letter(number),
            ..OrderEntry::new(
                OrderId::new(1_795_000_000, number).unwrap(),
                UserId(1_000 + number),
                VoucherId(7),
            )
        }),
        fault: (!good).then(|| Message::of(&missing())),
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
    };
    LetterLine { letter, age_ms: 30_000, verdict }
}

/// A page of `count` letters from number `first` on.
pub(super) fn letters(first: u64, count: u64, more: bool) -> LetterPage {
    let view = if first == 0 { EntryId::MIN } else { letter(first) };
    let lines = Arc::new((first..first + count).map(line).collect());
    LetterPage { view, taken: Some(NOW), more, lines }
}

/// An active sale, and nine letters of every kind.
pub(super) fn with_letters() -> Snapshot {
    let mut snapshot = normal();
    if let Some(stream) = &mut snapshot.stream {
        stream.dead = 9;
    }
    snapshot.letters = letters(0, 9, false);
    snapshot.alarms = alarms(&snapshot, None);
    snapshot
}

pub(super) fn without(numbers: &[u64]) -> Snapshot {
    let mut snapshot = with_letters();
    let gone: Vec<EntryId> = numbers.iter().map(|number| letter(*number)).collect();
    Arc::make_mut(&mut snapshot.letters.lines).retain(|line| !gone.contains(&line.letter.letter));
    snapshot
}

pub(super) fn away() -> Snapshot {
    let mut snapshot = with_letters();
    snapshot.sql.up = false;
    snapshot.sql.last_ok = Some(NOW.plus(-42_000));
    snapshot.sql.error = Some("disk I/O error".into());
    snapshot.letters.taken = snapshot.sql.last_ok;
    snapshot
}

pub(super) fn unread() -> Snapshot {
    Snapshot { letters: LetterPage::default(), ..away() }
}

pub(super) fn replay_running() -> Snapshot {
    let line =
        RecoveryLine { action: "dead replay".into(), done: 400, planned: 12_000, changes: true };
    Snapshot { recoveries: vec![line], ..with_letters() }
}

pub(super) fn letters_counted() -> LettersCounted {
    let mut counts = LetterCounts::default();
    with_letters().letters.lines.iter().for_each(|line| counts.add(line.verdict));
    LettersCounted { counts, gone: 0, last: letter(8) }
}

pub(super) fn all() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX }
}

/// All letters that were counted.
pub(super) fn all_counted() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: letter(8) }
}

/// Presses a key and answers the count that it requests.
pub(super) fn ask(tui: &mut Tui, key: &str, scope: &LetterScope) {
    assert_eq!(tui.press(key).sent(), [Command::CountLetters(scope.clone())]);
    tui.answer(Ok(Reply::LettersCounted(letters_counted())));
}

#[test]
fn letters_are_read_only_while_they_are_shown() {
    let mut tui = Tui::new(with_letters());
    assert_eq!(tui.focus.borrow().letters_from, None);
    tui.press("5");
    assert_eq!(tui.focus.borrow().letters_from, Some(EntryId::MIN));
    assert!(tui.focus.borrow().pending.is_none());
    tui.press("4");
    assert_eq!(tui.focus.borrow().letters_from, None);
    assert!(tui.focus.borrow().pending.is_some());
}

#[test]
fn a_command_applies_to_what_was_counted_and_only_after_confirmation() {
    let commands = [
        ("R", Command::ReplayLetters { scope: all_counted(), force: false }),
        ("D", Command::DiscardLetters { scope: all_counted(), compensate: false }),
        ("C", Command::DiscardLetters { scope: all_counted(), compensate: true }),
    ];
    for (key, command) in commands {
        let mut tui = Tui::open(with_letters(), "5*");
        for no in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('n')] {
            ask(&mut tui, key, &all());
            tui.key(no);
            // Enter cancels, unless a number must be typed: then the status line says so.
            if (key, no) == ("C", KeyCode::Enter) {
                tui.assert_status_contains("this affects 8");
                tui.press("\x1b");
            }
            tui.assert_idle();
        }
        ask(&mut tui, key, &all());
        // Letters that arrive meanwhile are excluded.
        let mut later = with_letters();
        later.taken = NOW.plus(60_000);
        tui.show(later);
        if key == "C" {
            // Cancelling orders requires their number.
            tui.press("y");
            assert!(tui.sent().is_empty() && tui.status().contains("this affects 8"));
            tui.press("8");
        }
        assert_eq!(tui.press("y").sent(), [command]);
        assert_eq!(tui.reason(), None);
    }
}

#[test]
fn commands_without_effect_suggest_a_step() {
    use LetterVerdict::{Awaited, Malformed, Written};
    for (key, found, step) in [
        ("R", Some(Written), "the order is in SQL: press D to remove the letter"),
        ("D", Some(Awaited), "the buyer is waiting and no order exists: press R to replay"),
        ("C", Some(Malformed), "no order can be created from it: press D to remove the letter"),
        ("D", None, "there are no dead letters"),
    ] {
        let mut counted = LettersCounted::default();
        if let Some(verdict) = found {
            counted.counts.add(verdict);
            (counted.gone, counted.last) = (2, letter(8));
        }
        let mut tui = Tui::open(with_letters(), "5*");
        tui.press(key).reply(Ok(Reply::LettersCounted(counted)));
        assert!(tui.app.dialog.is_none());
        tui.assert_status_contains(step);
    }
    Tui::open(normal(), "5R").assert_status("there are no dead letters");
}

#[test]
fn a_count_is_asked_for_once_and_covers_no_other_question() {
    let mut tui = Tui::open(with_letters(), "5*RD");
    tui.assert_status("counting the dead letters");
    assert_eq!(tui.sent().len(), 1);
    tui.press("?");
    tui.answer(Ok(Reply::LettersCounted(letters_counted())));
    assert!(matches!(tui.app.dialog, Some(Dialog::Help(_))));
    tui.press("\x1bD");
    tui.sent();
    tui.answer(Err(EngineError::Rejected("redis does not answer; try again".into())));
    tui.press("\x1b");
    ask(&mut tui, "D", &all());
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))));
}

#[test]
fn pages_turn_at_both_ends() {
    let mut tui = Tui::open(overflowing(), "5GG");
    let next = letter(99).next_of_all().unwrap();
    assert_eq!(tui.focus.borrow().letters_from, Some(next));
    let mut second = overflowing();
    second.letters = letters(100, 20, false);
    second.letters.view = next;
    tui.show(second);
    assert_eq!(tui.app.views.letters.cursor, Some(letter(100)));
    tui.press("GG").assert_status("this is the last row");
    tui.press("gg");
    assert_eq!(tui.focus.borrow().letters_from, Some(EntryId::MIN));
}

#[test]
fn a_running_command_is_shown_and_can_be_cancelled() {
    let mut tui = Tui::new(replay_running());
    for view in ["4", "5"] {
        tui.press(view).assert_shows("dead replay 400 of 12,000");
        assert_eq!(tui.press("Xy").sent(), [Command::Cancel]);
        tui.answer(Ok(Reply::Cancelled(true)));
    }
    tui.press("*");
    ask(&mut tui, "R", &all());
    tui.press("y");
    tui.sent();
    let report =
        LettersReplayed { seen: 400, replayed: 400, cut_short: true, ..LettersReplayed::default() };
    tui.answer(Ok(Reply::LettersReplayed(report)));
    let message = "! 400 dead letters replayed; interrupted";
    tui.assert_status(message);
}

#[test]
fn a_window_that_is_too_small_takes_no_command() {
    let mut tui = Tui::new(with_letters());
    tui.draw(40, 10);
    tui.press("5Dy");
    tui.paste("y");
    tui.press("\n");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_none());
    // Shown again, it continues; a hidden question cannot be answered.
    tui.draw(80, 24);
    tui.press("5*");
    ask(&mut tui, "D", &all());
    tui.draw(59, 24);
    tui.press("y");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_some());
    tui.draw(80, 24);
    tui.press("y");
    assert_eq!(tui.sent().len(), 1);
}

#[test]
fn starting_another_command_dismisses_errors() {
    let mut tui = Tui::open(with_letters(), "5*");
    ask(&mut tui, "D", &all());
    tui.press("y");
    tui.sent();
    tui.answer(Err(EngineError::Rejected("another operator is running a command".into())));
    tui.assert_status_contains("another operator");
    ask(&mut tui, "D", &all());
    tui.press("yj");
    assert!(!tui.status().contains("another operator"), "{}", tui.status());
}

#[test]
fn a_paste_of_a_megabyte_does_no_harm() {
    for text in ["x".repeat(1 << 20), "火\n".repeat(1 << 18), "\u{301}a\x1b[2J".repeat(1 << 17)] {
        let mut tui = Tui::open(with_letters(), "5*");
        ask(&mut tui, "D", &all());
        // Without the focus it is not an answer.
        tui.paste("y");
        assert!(tui.sent().is_empty());
        tui.press("\t");
        tui.paste(text.clone());
        tui.paste(text);
        tui.press("more");
        tui.draw(80, 24);
        tui.press("\ny");
        assert_eq!(tui.sent().len(), 1);
        let reason = tui.reason().unwrap();
        assert!(audit_record::check_reason(Some(&reason)).is_ok());
        assert!(reason.chars().count() <= seckill_engine::error::MAX_REASON);
        assert!(!reason.contains(char::is_control));
    }
}

#[test]
fn a_page_that_could_not_be_read_says_how_old_it_is() {
    let mut snapshot = with_letters();
    snapshot.letters.taken = Some(Millis(NOW.0 - 9_000));
    Tui::open(snapshot, "5").assert_shows("DEAD LETTERS      9 s old");
}

#[test]
fn an_unanswered_count_is_cancelled_with_esc() {
    let mut tui = Tui::open(with_letters(), "5D");
    let first = tui.sent();
    assert_eq!(first.len(), 1);
    tui.press("\x1b").assert_status("counting the dead letters was cancelled; nothing was changed");
    assert_eq!(tui.app.view, View::Letters);
    let second = tui.press("j R").sent();
    assert_eq!(second, [Command::CountLetters(LetterScope::Letters(vec![letter(1)]))]);
    // The first reply arrives after all, and is about something else.
    let mut counts = LetterCounts::default();
    counts.add(LetterVerdict::Awaited);
    let counted = Reply::LettersCounted(LettersCounted { counts, gone: 0, last: letter(0) });
    tui.answer(Ok(counted.clone()));
    assert!(tui.app.dialog.is_none(), "{}", tui.screen());
    tui.answer(Ok(counted));
    assert!(tui.app.dialog.is_some());
}
