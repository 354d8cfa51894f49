//! Marks: which dead letters or entries a command applies to, and how the confirmation states it.

use super::letters::{all, ask, away, without};
use super::prelude::*;

#[test]
fn marks_identify_letters_and_not_rows() {
    let mut tui = Tui::open(with_letters(), "5 j ");
    tui.assert_shows("2 marked");
    tui.show(without(&[0]));
    tui.assert_status("1 marked letter is no longer present; unmarked");
    let scope = LetterScope::Letters(vec![letter(2)]);
    ask(&mut tui, "D", &scope);
    assert_eq!(tui.press("y").sent(), [Command::DiscardLetters { scope, compensate: false }]);
    // An outage says nothing about what is gone.
    tui.show(Snapshot { letters: LetterPage::default(), ..away() });
    assert_eq!(tui.app.views.letters.marks.len(), 1);
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    tui.answer(Ok(Reply::LettersDiscarded(report)));
    tui.assert_status("✔ 1 dead letter discarded");
    assert!(tui.app.views.letters.marks.is_empty());
}

#[test]
fn without_marks_a_command_targets_the_row_under_the_cursor() {
    for key in ["R", "D", "C"] {
        let mut tui = Tui::open(with_letters(), "5jj");
        let one = LetterScope::Letters(vec![letter(2)]);
        assert_eq!(tui.press(key).sent(), [Command::CountLetters(one)], "{key}");
        // It moves meanwhile, and another one takes its row.
        tui.show(without(&[0]));
        let mut counts = LetterCounts::default();
        let verdict = if key == "D" { LetterVerdict::Malformed } else { LetterVerdict::Awaited };
        counts.add(verdict);
        tui.answer(Ok(Reply::LettersCounted(LettersCounted { counts, gone: 0, last: letter(8) })));
        let text = tui.screen();
        assert!(text.contains("1 dead letter, 1794999970000-2: "), "{key}: {text}");
    }
    let mut tui = Tui::open(with_letters(), "5/nothing of the kind\nD");
    tui.assert_status("no row is selected");
    assert!(tui.sent().is_empty());
}

#[test]
fn a_star_marks_all_and_unmarks() {
    let mut tui = Tui::open(with_letters(), "5*");
    tui.assert_shows("all 9 marked");
    ask(&mut tui, "D", &all());
    tui.assert_shows("All 9 dead letters: ");
    tui.press("\x1b ").assert_status("all are marked; press * to clear the marks");
    tui.press("*").assert_hides("marked");
    tui.press("D");
    assert_eq!(tui.sent(), [Command::CountLetters(LetterScope::Letters(vec![letter(0)]))]);
    // Executing the command clears them as well.
    let mut tui = Tui::open(with_letters(), "5*");
    ask(&mut tui, "D", &all());
    tui.press("y");
    tui.reply(Ok(Reply::LettersDiscarded(LettersDiscarded::default())));
    assert!(!tui.app.views.letters.all_marked);
}

#[test]
fn with_a_filter_a_star_marks_the_rows_that_it_shows() {
    let mut tui = Tui::open(with_letters(), "5 /missing\n");
    tui.assert_shows("2 of 9");
    tui.assert_hides("on this page");
    tui.assert_shows("1 marked, 1 hidden");
    tui.press("*").assert_shows("3 marked, 1 hidden");
    let scope = LetterScope::Letters(vec![letter(0), letter(3), letter(7)]);
    ask(&mut tui, "R", &scope);
    tui.assert_shows("3 marked, 1 of them hidden by the filter: ");
    tui.press("n*");
    assert_eq!(tui.app.views.letters.marks.iter().copied().collect::<Vec<_>>(), [letter(0)]);
    let mut tui = Tui::open(with_letters(), "5/nothing of the kind");
    tui.assert_shows("No row contains 'nothing of the kind'");
    // Of a list that is loaded in pages, the filter sees one.
    Tui::open(overflowing(), "5/missing\n").assert_shows("25 of 100 on this page");
}

#[test]
fn the_confirmation_says_that_all_exceeds_the_filter() {
    let mut tui = Tui::open(with_letters(), "5*/missing\n");
    ask(&mut tui, "R", &all());
    tui.assert_shows("All 9, not only the 2 filtered ones: ");
}

#[test]
fn a_plan_of_all_says_that_a_filter_shows_less() {
    let mut tui = Tui::open(normal(), "4/node-b\n");
    let shown = tui.app.views.pending.rows(&tui.app.display.shown).len();
    tui.press("A");
    tui.sent();
    let plan = plan(&[(entry(1), Verdict::Stuck)], "");
    tui.answer(Ok(Reply::Planned(plan)));
    let text = tui.screen();
    let label = format!("All 1, not only the {shown} filtered ones.");
    assert!(text.contains(&label), "{label}: {text}");
}

#[test]
fn a_reply_clears_the_marks_of_its_own_letters_only() {
    let mut tui = Tui::open(with_letters(), "5 ");
    ask(&mut tui, "D", &LetterScope::Letters(vec![letter(0)]));
    tui.press("y");
    tui.sent();
    tui.press(" ");
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    tui.answer(Ok(Reply::LettersDiscarded(report)));
    let marks: Vec<_> = tui.app.views.letters.marks.iter().copied().collect();
    assert_eq!(marks, [letter(1)]);
}
