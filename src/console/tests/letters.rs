//! Dead letters on the screen, their keys, and the reason of a command.

use seckill_redis::dead_letters::DeadLetter;

use super::prelude::*;

fn missing() -> Message {
    Message::of(&OrderError::Fields(reason!("faults-field-missing", field = "id")))
}

pub(super) fn letter(number: u64) -> EntryId {
    EntryId { millis: 1_794_999_970_000, number, partition: 0 }
}

fn line(number: u64) -> LetterLine {
    let verdict = LetterVerdict::ALL[(number % 8) as usize];
    let good = verdict != LetterVerdict::Malformed;
    let reason = match number % 4 {
        0 => Message::of(&OrderError::TooOften(5)),
        1 => no_user(),
        2 => Message::of(&OrderError::OutOfStock(VoucherId(7))),
        _ => missing(),
    };
    let [at, first] = [-30_000, -600_000].map(|ago| NOW.plus(ago));
    let (consumer, voucher) = (|| "node-b/1".to_owned(), VoucherId(7));
    let order = OrderId::new(1_795_000_000, number).unwrap();
    let order = OrderEntry::new(order, UserId(1_000 + number), voucher);
    let burial = |n| Burial {
        at: first.plus(n as i64 * 60_000),
        consumer: consumer(),
        deliveries: 5,
        reason: reason.clone(),
    };
    let field = |name: &str, value: String| (name.to_owned(), value);
    let letter = DeadLetter {
        letter: letter(number),
        entry: Some(entry(number)),
        at,
        reason: reason.clone(),
        consumer: consumer(),
        deliveries: 1 + number % 6,
        replays: if verdict == LetterVerdict::CameBack { 3 } else { 0 },
        order: good.then(|| OrderEntry { entry: letter(number), ..order }),
        fault: (!good).then(missing),
        history: (0..=number % 3).map(burial).collect(),
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
    let before = first.checked_sub(1).map(letter);
    let view = before.and_then(EntryId::next_of_all).unwrap_or(EntryId::MIN);
    let lines = Arc::new((first..first + count).map(line).collect());
    LetterPage { view, taken: Some(NOW), more, lines }
}

/// An active sale, and nine letters of every kind.
pub(super) fn with_letters() -> Snapshot {
    with(Snapshot { letters: letters(0, 9, false), ..normal() }, |it| {
        it.stream.iter_mut().for_each(|stream| stream.dead = 9);
        it.alarms = alarms(it, None);
    })
}

pub(super) fn unread() -> Snapshot {
    Snapshot { letters: LetterPage::default(), ..without_sql(with_letters()) }
}

pub(super) fn replay_running() -> Snapshot {
    Snapshot { recoveries: recovering("dead replay"), ..with_letters() }
}

pub(super) fn letters_counted() -> LettersCounted {
    let verdicts: Vec<_> = with_letters().letters.lines.iter().map(|line| line.verdict).collect();
    counted(&verdicts, 0)
}

pub(super) fn counted(verdicts: &[LetterVerdict], gone: u64) -> LettersCounted {
    let mut counts = LetterCounts::default();
    verdicts.iter().copied().for_each(|verdict| counts.add(verdict));
    LettersCounted { counts, gone, last: letter(8) }
}

pub(super) fn all() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX }
}

/// Those that were counted.
pub(super) fn all_counted() -> LetterScope {
    LetterScope::Matching { filter: Filter::default(), last: letter(8) }
}

/// Presses a key and answers the count that it requests.
pub(super) fn ask(tui: &mut Tui, key: &str, scope: &LetterScope) {
    assert_eq!(tui.press(key).sent(), [Command::CountLetters(scope.clone())]);
    tui.answer(Ok(Reply::LettersCounted(letters_counted())));
}

#[test]
fn the_letters_of_a_page_are_counted_by_verdict() {
    let mut tui = Tui::open(with_letters(), "5");
    tui.at((200, 50)).assert_shows("On this page:  2 × buyer waits   1 × failed again");
    tui.at((80, 24)).assert_shows("2 × buyer waits   1 × failed again |…");
    tui.show(Snapshot { letters: letters(0, 0, false), ..empty() }).assert_hides("On this page");
}

#[test]
fn commands_without_effect_suggest_a_step() {
    use LetterVerdict::{Awaited, Malformed, Written};
    for (keys, found, step) in [
        ("5*R", &[Written][..], "the order is in SQL: press D to remove the letter"),
        ("5*D", &[Awaited], "the buyer is waiting and no order exists: press R to replay"),
        ("5*C", &[Malformed], "malformed: press D to remove the letter"),
        ("5*D", &[], "there are no dead letters"),
        ("5 D", &[], "these letters are no longer present"),
    ] {
        let mut tui = Tui::open(with_letters(), keys);
        tui.reply(Ok(Reply::LettersCounted(counted(found, 2)))).assert_status_contains(step);
        tui.assert_idle();
    }
}

#[test]
fn a_window_that_is_too_small_takes_no_command() {
    let mut tui = Tui::new(with_letters());
    tui.draw(40, 10);
    tui.press("5Dy").paste("y");
    tui.press("\n").assert_idle();
    // Shown again, it continues; a hidden question cannot be answered.
    tui.draw(80, 24);
    ask(tui.press("5*"), "D", &all());
    for (size, sent) in [((59, 24), 0), ((80, 24), 1)] {
        tui.draw(size.0, size.1);
        assert_eq!(tui.press("y").sent().len(), sent);
    }
}

#[test]
fn one_count_is_outstanding_and_esc_cancels_it() {
    let mut tui = Tui::open(with_letters(), "5DR");
    assert_eq!(tui.assert_status("counting the dead letters").sent().len(), 1);
    tui.press("\x1b").assert_status("counting the dead letters was cancelled; nothing was changed");
    assert_eq!(tui.app.view, View::Letters);
    let second = tui.press("j R").sent();
    assert_eq!(second, [Command::CountLetters(LetterScope::Letters(vec![letter(1)]))]);
    // The first reply arrives after all, and is about something else.
    let found = Reply::LettersCounted(counted(&[LetterVerdict::Awaited], 0));
    tui.answer(Ok(found.clone())).assert_idle();
    assert!(tui.answer(Ok(found)).app.dialog.is_some());
    // After an error it can be asked for again.
    let mut tui = Tui::open(with_letters(), "5*D");
    tui.reply(Err(EngineError::Rejected("redis does not answer; try again".into())));
    ask(tui.press("\x1b"), "D", &all());
    assert!(tui.app.dialog.is_some());
}
