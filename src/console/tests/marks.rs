//! Marks: which dead letters or entries a command applies to, and how the confirmation states it.

use super::letters::{all, ask};
use super::prelude::*;

fn marked_letters(tui: &Tui) -> Vec<EntryId> {
    tui.app.views.letters.marks.iter().copied().collect()
}

fn marked_entries(tui: &Tui) -> Vec<EntryId> {
    tui.app.views.pending.marks.iter().copied().collect()
}

#[test]
fn marks_identify_letters_and_not_rows() {
    let first_gone = with(with_letters(), |it| _ = Arc::make_mut(&mut it.letters.lines).remove(0));
    let mut tui = Tui::open(with_letters(), "5 j ");
    tui.assert_shows("2 marked").show(first_gone.clone());
    tui.assert_status("1 marked letter is no longer present; unmarked");
    let scope = LetterScope::Letters(vec![letter(2)]);
    ask(&mut tui, "D", &scope);
    assert_eq!(tui.press("y").sent(), [Command::DiscardLetters { scope, compensate: false }]);
    // An outage says nothing about what is gone.
    tui.show(Snapshot { letters: LetterPage::default(), ..without_sql(with_letters()) });
    assert_eq!(marked_letters(&tui), [letter(2)]);
    // The reply clears the marks of its own letters only.
    tui.show(first_gone).press("g ");
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    tui.answer(Ok(Reply::LettersDiscarded(report))).assert_status("✔ 1 dead letter discarded");
    assert_eq!(marked_letters(&tui), [letter(1)]);
}

#[test]
fn marks_identify_entries_on_every_page() {
    let mut tui = Tui::open(normal(), "4  ");
    tui.show(with(normal(), |it| _ = Arc::make_mut(&mut it.pending.lines).remove(0)));
    tui.assert_status("1 marked entry is no longer pending; unmarked");
    assert_eq!(tui.press("A").sent(), [Command::Plan(Scope::Entries(vec![entry(1)]))]);
    let mut tui = Tui::open(overflowing(), "4 GG");
    tui.show(with(overflowing(), |it| {
        it.pending = page(500, 12_340);
        it.pending.view = entry(499).next_of_all().unwrap();
    }));
    let scope = Scope::Entries(vec![entry(0), entry(500)]);
    assert_eq!(tui.press(" A").sent(), [Command::Plan(scope)]);
}

#[test]
fn a_reply_clears_the_marks_of_its_own_plan_only() {
    let mut tui = Tui::open(normal(), "4 A");
    assert_eq!(tui.sent(), [Command::Plan(Scope::Entries(vec![entry(0)]))]);
    // Marked while the plan is made, so it is not among its entries.
    tui.press(" ").answer(Ok(Reply::Planned(plan(&[(entry(0), Verdict::Stuck)], "1 entry"))));
    tui.press("y").sent();
    tui.press(" ").answer(Ok(Reply::Replayed(ReplayReport::default())));
    assert_eq!(marked_entries(&tui), [entry(1), entry(2)]);
    // A later plan that arrives behind the question does not replace that of the question.
    let mut tui = Tui::open(normal(), "4  AA");
    assert_eq!(marked_entries(&tui), [entry(0), entry(1)]);
    let later = plan(&[(entry(9), Verdict::Stuck)], "");
    tui.reply(Ok(Reply::Planned(stuck(2)))).answer(Ok(Reply::Planned(later)));
    assert_eq!(tui.press("y").sent(), [Command::Apply(stuck(2), Pace::default())]);
    tui.answer(Ok(Reply::Replayed(ReplayReport::default())));
    assert_eq!(marked_entries(&tui), []);
}

#[test]
fn without_marks_a_command_targets_the_row_under_the_cursor() {
    for (key, verdict) in [
        ("R", LetterVerdict::Awaited),
        ("D", LetterVerdict::Malformed),
        ("C", LetterVerdict::Awaited),
    ] {
        let mut tui = Tui::open(with_letters(), "5jj");
        let one = LetterScope::Letters(vec![letter(2)]);
        assert_eq!(tui.press(key).sent(), [Command::CountLetters(one)], "{key}");
        // It moves meanwhile, and another one takes its row.
        tui.show(with(with_letters(), |it| _ = Arc::make_mut(&mut it.letters.lines).remove(0)));
        tui.answer(Ok(Reply::LettersCounted(letters::counted(&[verdict], 0))));
        tui.assert_shows("1 dead letter, 1794999970000-2: ");
    }
}

#[test]
fn a_star_marks_all_and_unmarks() {
    let mut tui = Tui::open(with_letters(), "5*");
    tui.assert_shows("all 9 marked");
    ask(&mut tui, "D", &all());
    tui.assert_shows("All 9 dead letters: ");
    tui.press("\x1b ").assert_status("all are marked; press * to clear the marks");
    tui.press("*").assert_hides("marked").press("D");
    assert_eq!(tui.sent(), [Command::CountLetters(LetterScope::Letters(vec![letter(0)]))]);
    // Executing the command clears them as well.
    let mut tui = Tui::open(with_letters(), "5*");
    ask(&mut tui, "D", &all());
    tui.press("y").reply(Ok(Reply::LettersDiscarded(LettersDiscarded::default())));
    assert!(!tui.app.views.letters.all_marked);
}

#[test]
fn with_a_filter_a_star_marks_the_rows_that_it_shows() {
    let mut tui = Tui::open(with_letters(), "5 /missing\n");
    tui.assert_shows("2 of 9|1 marked, 1 hidden").assert_hides("on this page");
    tui.press("*").assert_shows("3 marked, 1 hidden");
    let scope = LetterScope::Letters(vec![letter(0), letter(3), letter(7)]);
    ask(&mut tui, "R", &scope);
    tui.assert_shows("3 marked, 1 of them hidden by the filter: ").press("n*");
    assert_eq!(marked_letters(&tui), [letter(0)]);
    let none = "No row contains 'nothing of the kind'";
    Tui::open(with_letters(), "5/nothing of the kind").assert_shows(none);
    // Of a list that is loaded in pages, the filter sees one.
    Tui::open(overflowing(), "5/missing\n").assert_shows("25 of 100 on this page");
}

#[test]
fn the_confirmation_says_that_all_exceeds_the_filter() {
    let mut tui = Tui::open(with_letters(), "5*/missing\n");
    ask(&mut tui, "R", &all());
    tui.assert_shows("All 9, not only the 2 filtered ones: ");
    let mut tui = Tui::open(normal(), "4/node-b\n");
    let shown = tui.app.views.pending.rows(&tui.app.display.shown).len();
    tui.press("A").reply(Ok(Reply::Planned(stuck(1))));
    tui.assert_shows(format!("All 1, not only the {shown} filtered ones."));
}
