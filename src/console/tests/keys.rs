//! Keys: commands address identities, refusals say why, no input is lost.

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, Pace, ReplayReport, Reply, Scope},
    plan::made_up,
    telemetry::{Snapshot, snapshot::RecoveryLine},
};
use seckill_model::{EntryId, Verdict, VoucherId, filter::Filter};

use super::fixture::{Bench, empty, entry, normal, overflowing, page, read_only, rushing};
use crate::{app::Course, dialogs::Dialog, views::View};

#[test]
fn a_command_is_sent_only_after_confirmation() {
    let mut bench = Bench::new(normal());
    bench.keys("2jk");
    bench.keys("E");
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty(), "Cancel has the focus");
    bench.keys("En");
    bench.keys("E");
    bench.press(KeyCode::Esc);
    assert!(bench.sent().is_empty());
    bench.keys("E");
    // Skips the reason.
    bench.press(KeyCode::Tab);
    bench.press(KeyCode::Tab);
    bench.press(KeyCode::Enter);
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn a_question_keeps_its_target_when_the_row_is_gone() {
    let mut bench = Bench::new(normal());
    bench.keys("2jkE");
    let mut later = normal();
    later.sales.retain(|sale| sale.voucher_id != VoucherId(7));
    later.sales.reverse();
    bench.show(later);
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn the_choice_follows_the_sale_and_not_the_row() {
    let mut bench = Bench::new(normal());
    bench.keys("2jk");
    let mut later = normal();
    later.sales.reverse();
    bench.show(later);
    bench.keys("Py");
    assert_eq!(bench.sent(), [Command::PauseSale(VoucherId(7))]);
}

#[test]
fn inapplicable_commands_give_a_reason() {
    let mut bench = Bench::new(normal());
    let mut said = |keys: &str| {
        bench.keys(keys);
        bench.said()
    };
    assert_eq!(said("S"), "select the sale with ↑ and ↓, then press S again");
    assert_eq!(said("S"), "#7 is already running");
    assert_eq!(said("jS"), "#8 has started and is sold out");
    assert_eq!(said("jjE"), "#5 has ended and cannot be changed");
    assert_eq!(said("j"), "this is the last row");
    assert_eq!(said("A"), "A is available in Pending (plan), Ledger (repair)");
    assert_eq!(said("C"), "C is available in Stream (claim), Dead letters (return stock)");
    assert_eq!(said("W"), "W (rewind) is available in Stream");
    assert_eq!(said("z"), "z has no function here; press ? for the keys");
    assert_eq!(said("h"), "no details are open; press Enter to open them");
    let mut bench = Bench::new(empty());
    bench.keys("4A");
    assert_eq!(bench.said(), "there are no pending entries to plan for");
    bench.keys(" ");
    assert_eq!(bench.said(), "there is no entry to mark");
    bench.keys("1E");
    assert_eq!(bench.said(), "there is no sale to change");
}

#[test]
fn the_only_open_sale_needs_no_choice() {
    let mut snapshot = normal();
    snapshot.sales.retain(|sale| [5, 7].contains(&sale.voucher_id.0));
    let mut bench = Bench::new(snapshot);
    bench.keys("Ey");
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn read_only_refuses_before_anything_is_sent() {
    let mut bench = Bench::new(read_only());
    for key in ["2", "N", "S", "R", "E", "P", "4", "A"] {
        bench.keys(key);
        assert!(bench.app.dialog.is_none(), "{key}");
    }
    assert_eq!(bench.said(), "read-only mode: commands are disabled; restart without --read-only");
    assert!(bench.sent().is_empty());
}

#[test]
fn marks_identify_entries() {
    let mut bench = Bench::new(normal());
    bench.keys("4  ");
    let mut later = normal();
    later.pending.lines.remove(0);
    later.pending.lines.reverse();
    later.pending.lines.sort_by_key(|line| line.entry);
    bench.show(later);
    assert_eq!(bench.said(), "1 marked entry is no longer pending; unmarked");
    bench.keys("A");
    assert_eq!(bench.sent(), [Command::Plan(Scope::Entries(vec![entry(1)]))]);
}

#[test]
fn the_applied_plan_is_the_one_that_was_shown() {
    let mut bench = Bench::new(normal());
    bench.keys("4A");
    assert_eq!(bench.sent(), [Command::Plan(Scope::All(Filter::default()))]);
    let entries = [(entry(1), Verdict::Stuck), (entry(2), Verdict::Malformed)];
    let plan = made_up::plan(&entries, "");
    bench.answer(Ok(Reply::Planned(plan.clone())));
    bench.keys("n");
    assert_eq!(bench.sent(), []);
    bench.keys("A");
    assert_eq!(bench.sent().len(), 1);
    bench.answer(Ok(Reply::Planned(plan.clone())));
    // The list may change under the question, and the plan is remade; until that is shown, nothing is executed.
    bench.show(overflowing());
    let again = Command::Plan(Scope::All(Filter::default()));
    assert_eq!(bench.sent(), [again]);
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn a_plan_without_an_act_asks_nothing_and_none_covers_another_question() {
    let mut bench = Bench::new(normal());
    bench.keys("4A");
    bench.sent();
    bench.answer(Ok(Reply::Planned(made_up::plan(&[(entry(1), Verdict::InHand)], ""))));
    assert!(bench.app.dialog.is_none());
    assert_eq!(bench.said(), "1 held by live nodes; nothing to do");
    bench.keys("A1N");
    bench.sent();
    bench.answer(Ok(Reply::Planned(made_up::plan(&[(entry(1), Verdict::Stuck)], ""))));
    assert_eq!(bench.said(), "the plan is ready; press Esc to close this, then A again");
    bench.keys("y");
    assert_eq!(bench.sent(), []);
}

#[test]
fn a_running_replay_can_be_cancelled() {
    let mut bench = Bench::new(normal());
    bench.keys("4X");
    assert_eq!(bench.said(), "no command is running");
    let line =
        RecoveryLine { act: "pending apply".into(), done: 3_000, planned: 12_000, changes: true };
    bench.show(Snapshot { recoveries: vec![line], ..normal() });
    assert!(bench.text(120, 36).contains("pending apply 3,000 of 12,000"));
    bench.keys("Xy");
    assert_eq!(bench.sent(), [Command::Cancel]);
}

#[test]
fn pages_turn_at_both_ends() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4GG");
    assert_eq!(bench.focus.borrow().pending, entry(499).next_of_all());
    assert!(bench.text(120, 36).contains("reading"));
    let mut second = overflowing();
    second.pending = page(500, 12_340);
    second.pending.from = entry(499).next_of_all().unwrap();
    bench.show(second);
    assert_eq!(bench.app.pending.cursor, Some(entry(500)));
    assert!(bench.text(120, 36).contains("   12,340"), "the rows before are not counted");
    bench.keys("k");
    assert_eq!(bench.focus.borrow().pending, Some(EntryId::MIN));
    bench.show(overflowing());
    assert_eq!(bench.app.pending.cursor, Some(entry(499)));
}

#[test]
fn a_page_that_emptied_leads_back_to_the_first() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4GG");
    let mut second = overflowing();
    second.pending.from = entry(499).next_of_all().unwrap();
    second.pending.lines.clear();
    bench.show(second);
    assert_eq!(bench.focus.borrow().pending, Some(EntryId::MIN));
}

#[test]
fn marks_of_other_pages_stay() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4 GG");
    let mut second = overflowing();
    second.pending = page(500, 12_340);
    second.pending.from = entry(499).next_of_all().unwrap();
    bench.show(second);
    bench.keys(" A");
    let scope = Scope::Entries(vec![entry(0), entry(500)]);
    assert_eq!(bench.sent(), [Command::Plan(scope)]);
}

#[test]
fn filters_are_live_and_escape_ends_them() {
    let mut bench = Bench::new(normal());
    bench.keys("2/tea");
    assert!(!bench.text(120, 36).contains("noodles"));
    bench.press(KeyCode::Enter);
    assert!(bench.text(120, 36).contains("1 of 4"));
    bench.keys("E");
    assert!(bench.text(120, 36).contains("#8 milk tea"));
    bench.keys("n");
    bench.press(KeyCode::Esc);
    assert!(bench.text(120, 36).contains("noodles"));
}

#[test]
fn a_form_that_was_left_or_refused_keeps_its_text() {
    let mut bench = Bench::new(normal());
    bench.keys("Nhot soup");
    bench.press(KeyCode::Esc);
    assert_eq!(bench.said(), "nothing was created; the form keeps your input");
    bench.keys("N");
    bench.press(KeyCode::Tab);
    bench.keys("50");
    for _ in 0..3 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::Enter);
    bench.keys("y");
    let sent = bench.sent();
    assert!(
        matches!(&sent[..], [Command::CreateSale(sale)] if sale.title == "hot soup" && sale.stock == 50)
    );
    bench.answer(Err(EngineError::Plan("the database does not answer; try again".to_owned())));
    bench.keys("N");
    assert!(bench.text(120, 36).contains("hot soup"));
    bench.press(KeyCode::Enter);
    bench.keys("y");
    assert_eq!(bench.sent().len(), 1);
    bench.answer(Ok(Reply::SaleCreated(VoucherId(8))));
    assert_eq!(bench.said(), "✔ sale #8 created and loaded into Redis");
    bench.keys("N");
    assert!(!bench.text(120, 36).contains("hot soup"));
}

#[test]
fn a_rush_shows_its_plan_and_asks() {
    let mut bench = Bench::new(normal());
    bench.keys("2jkR");
    assert!(
        bench.text(120, 36).contains("110,000 requests by 100,000 buyers, 10,000 of them twice")
    );
    bench.press(KeyCode::Enter);
    bench.press(KeyCode::Enter);
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))));
    assert!(bench.sent().is_empty());
    bench.keys("y");
    let sent = bench.sent();
    assert!(matches!(&sent[..], [Command::LoadTest(plan)] if plan.users == 100_000));
}

#[test]
fn quitting_asks_only_while_a_rush_is_under_way() {
    let mut bench = Bench::new(normal());
    bench.keys("q");
    assert_eq!(bench.app.course, Course::Quit);
    let mut bench = Bench::new(rushing());
    bench.keys("q");
    assert_eq!(bench.app.course, Course::GoOn);
    bench.keys("y");
    assert_eq!(bench.app.course, Course::Quit);
}

#[test]
fn the_palette_runs_what_it_names() {
    let mut bench = Bench::new(normal());
    bench.keys(":pend");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.view, View::Pending);
    bench.keys(":reco");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.sent(), [Command::Plan(Scope::All(Filter::default()))]);
}

#[test]
fn commands_on_a_paused_display_use_current_figures() {
    let mut bench = Bench::new(normal());
    bench.keys("2jkf");
    let mut later = normal();
    later.sales.reverse();
    for sale in &mut later.sales {
        if sale.voucher_id == VoucherId(7) {
            sale.stock = Some(42);
        }
    }
    bench.show(later);
    bench.keys("E");
    assert!(bench.text(120, 36).contains("42 of 10,000 pieces unsold"));
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn a_reply_clears_the_marks_of_its_own_command_only() {
    let mut bench = Bench::new(normal());
    bench.keys("4 A");
    assert_eq!(bench.sent(), [Command::Plan(Scope::Entries(vec![entry(0)]))]);
    // Marked while the plan is made, so it is not among its entries.
    bench.keys(" ");
    let plan = made_up::plan(&[(entry(0), Verdict::Stuck)], "1 entry by name");
    bench.answer(Ok(Reply::Planned(plan)));
    bench.keys("y");
    bench.sent();
    bench.keys(" ");
    bench.answer(Ok(Reply::Replayed(ReplayReport::default())));
    let marks: Vec<EntryId> = bench.app.pending.marks.iter().copied().collect();
    assert_eq!(marks, [entry(1), entry(2)]);
}
