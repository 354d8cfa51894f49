//! Marks: which dead letters or entries a command applies to, and that the question says so.

use crossterm::event::KeyCode;
use seckill_engine::{
    command::{Command, LetterScope, LettersCounted, LettersDiscarded, Reply},
    plan::made_up,
    telemetry::{Snapshot, snapshot::LetterPage},
};
use seckill_model::{LetterCounts, LetterVerdict, Verdict};

use super::{
    fixture::{Bench, entry, normal},
    letters::{all, ask, away, letter, poisoned, without},
};

#[test]
fn marks_identify_letters_and_not_rows() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5 j ");
    assert!(bench.text(120, 36).contains("2 marked"));
    bench.show(without(&[0]));
    assert_eq!(bench.said(), "1 marked letter is no longer present; unmarked");
    let scope = LetterScope::Letters(vec![letter(2)]);
    ask(&mut bench, "D", &scope);
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::DiscardLetters { scope, compensate: false }]);
    // An outage says nothing about what is gone.
    bench.show(Snapshot { letters: LetterPage::default(), ..away() });
    assert_eq!(bench.app.letters.marks.len(), 1);
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    bench.answer(Ok(Reply::LettersDiscarded(report)));
    assert_eq!(bench.said(), "✔ 1 dead letter discarded");
    assert!(bench.app.letters.marks.is_empty());
}

#[test]
fn without_marks_a_command_targets_the_row_under_the_cursor() {
    for key in ["R", "D", "C"] {
        let mut bench = Bench::new(poisoned());
        bench.keys("5jj");
        let one = LetterScope::Letters(vec![letter(2)]);
        bench.keys(key);
        assert_eq!(bench.sent(), [Command::CountLetters(one)], "{key}");
        // It moves meanwhile, and another one takes its row.
        bench.show(without(&[0]));
        let mut counts = LetterCounts::default();
        let verdict = if key == "D" { LetterVerdict::Malformed } else { LetterVerdict::Awaited };
        counts.add(verdict);
        bench.answer(Ok(Reply::LettersCounted(LettersCounted {
            counts,
            gone: 0,
            last: letter(8),
        })));
        let text = bench.text(120, 36);
        assert!(text.contains("1 dead letter, 1794999970000-2: "), "{key}: {text}");
    }
    let mut bench = Bench::new(poisoned());
    bench.keys("5/nothing of the kind");
    bench.press(KeyCode::Enter);
    bench.keys("D");
    assert_eq!(bench.said(), "no row is selected");
    assert!(bench.sent().is_empty());
}

#[test]
fn a_star_marks_all_and_unmarks() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5*");
    assert!(bench.text(120, 36).contains("all 9 marked"));
    ask(&mut bench, "D", &all());
    assert!(bench.text(120, 36).contains("All 9 dead letters: "));
    bench.press(KeyCode::Esc);
    bench.keys(" ");
    assert_eq!(bench.said(), "all are marked; press * to clear the marks");
    bench.keys("*");
    assert!(!bench.text(120, 36).contains("marked"));
    bench.keys("D");
    assert_eq!(bench.sent(), [Command::CountLetters(LetterScope::Letters(vec![letter(0)]))]);
    // Executing the command clears them as well.
    let mut bench = Bench::new(poisoned());
    bench.keys("5*");
    ask(&mut bench, "D", &all());
    bench.keys("y");
    bench.sent();
    bench.answer(Ok(Reply::LettersDiscarded(LettersDiscarded::default())));
    assert!(!bench.app.letters.all_marked);
}

#[test]
fn with_a_filter_a_star_marks_the_rows_that_it_shows() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5 /missing");
    bench.press(KeyCode::Enter);
    let text = bench.text(120, 36);
    assert!(text.contains("2 of 9 on this page") && text.contains("1 marked, 1 hidden"), "{text}");
    bench.keys("*");
    assert!(bench.text(120, 36).contains("3 marked, 1 hidden"));
    let scope = LetterScope::Letters(vec![letter(0), letter(3), letter(7)]);
    ask(&mut bench, "R", &scope);
    let text = bench.text(120, 36);
    assert!(text.contains("3 marked, 1 of them hidden by the filter: "), "{text}");
    bench.keys("n*");
    assert_eq!(bench.app.letters.marks.iter().copied().collect::<Vec<_>>(), [letter(0)]);
    let mut bench = Bench::new(poisoned());
    bench.keys("5/nothing of the kind");
    assert!(bench.text(120, 36).contains("No row contains 'nothing of the kind'"));
}

#[test]
fn the_confirmation_says_that_all_exceeds_the_filter() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5*/missing");
    bench.press(KeyCode::Enter);
    ask(&mut bench, "R", &all());
    let text = bench.text(120, 36);
    assert!(text.contains("All 9, not only the 2 filtered ones: "), "{text}");
}

#[test]
fn a_plan_of_all_says_that_a_filter_shows_less() {
    let mut bench = Bench::new(normal());
    bench.keys("4/node-b");
    bench.press(KeyCode::Enter);
    let shown = bench.app.pending.rows(&bench.app.shown).len();
    bench.keys("A");
    bench.sent();
    let plan = made_up::plan(&[(entry(1), Verdict::Stuck)], "");
    bench.answer(Ok(Reply::Planned(plan)));
    let text = bench.text(120, 36);
    let label = format!("All 1, not only the {shown} filtered ones.");
    assert!(text.contains(&label), "{label}: {text}");
}

#[test]
fn a_reply_clears_the_marks_of_its_own_letters_only() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5 ");
    ask(&mut bench, "D", &LetterScope::Letters(vec![letter(0)]));
    bench.keys("y");
    bench.sent();
    bench.keys(" ");
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    bench.answer(Ok(Reply::LettersDiscarded(report)));
    let marks: Vec<_> = bench.app.letters.marks.iter().copied().collect();
    assert_eq!(marks, [letter(1)]);
}
