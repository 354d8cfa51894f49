//! Keys: commands address identities, refusals say why, no input is lost.

use super::prelude::*;
use crate::app::Course;

#[test]
fn a_command_is_sent_only_after_confirmation() {
    let mut tui = Tui::open(normal(), "2jkE\n");
    tui.assert_idle();
    assert!(tui.press("EnE\x1b").sent().is_empty());
    tui.press("E");
    // Skips the reason.
    assert_eq!(tui.press("\t\t\n").sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn a_question_keeps_its_target_when_the_row_is_gone() {
    let mut tui = Tui::open(normal(), "2jkE");
    let mut later = normal();
    later.sales.retain(|sale| sale.voucher_id != VoucherId(7));
    later.sales.reverse();
    tui.show(later);
    assert_eq!(tui.press("y").sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn the_choice_follows_the_sale_and_not_the_row() {
    let mut tui = Tui::open(normal(), "2jk");
    let mut later = normal();
    later.sales.reverse();
    tui.show(later);
    assert_eq!(tui.press("Py").sent(), [Command::PauseSale(VoucherId(7))]);
}

#[test]
fn inapplicable_commands_give_a_reason() {
    let mut tui = Tui::new(normal());
    let mut message = |keys: &str| {
        tui.press(keys);
        tui.status()
    };
    assert_eq!(message("S"), "select the sale with ↑ and ↓, then press S again");
    assert_eq!(message("S"), "#7 is already running");
    assert_eq!(message("jS"), "#8 has started and is sold out");
    assert_eq!(message("jjE"), "#5 has ended and cannot be changed");
    assert_eq!(message("j"), "this is the last row");
    assert_eq!(message("A"), "A is available in Pending (plan), Ledger (repair)");
    assert_eq!(message("C"), "C is available in Stream (claim), Dead letters (return stock)");
    assert_eq!(message("W"), "W is available in Stream (rewind)");
    assert_eq!(message("z"), "z has no function here; press ? for the keys");
    assert_eq!(message("h"), "no details are open; press Enter to open them");
    let mut tui = Tui::open(empty(), "4A");
    tui.assert_status("there are no pending entries to plan for");
    tui.press(" ").assert_status("there is no entry to mark");
    tui.press("1E").assert_status("there is no sale to change");
}

#[test]
fn the_only_open_sale_needs_no_choice() {
    let mut snapshot = normal();
    snapshot.sales.retain(|sale| [5, 7].contains(&sale.voucher_id.0));
    let mut tui = Tui::open(snapshot, "Ey");
    assert_eq!(tui.sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn marks_identify_entries() {
    let mut tui = Tui::open(normal(), "4  ");
    let mut later = normal();
    Arc::make_mut(&mut later.pending.lines).remove(0);
    Arc::make_mut(&mut later.pending.lines).reverse();
    Arc::make_mut(&mut later.pending.lines).sort_by_key(|line| line.entry);
    tui.show(later);
    tui.assert_status("1 marked entry is no longer pending; unmarked");
    assert_eq!(tui.press("A").sent(), [Command::Plan(Scope::Entries(vec![entry(1)]))]);
}

#[test]
fn a_plan_without_an_act_asks_nothing_and_none_covers_another_question() {
    let mut tui = Tui::open(normal(), "4A");
    tui.reply(Ok(Reply::Planned(plan(&[(entry(1), Verdict::InHand)], ""))));
    assert!(tui.app.dialog.is_none());
    tui.assert_status("1 held by live nodes; nothing to do");
    tui.press("A1N");
    tui.reply(Ok(Reply::Planned(plan(&[(entry(1), Verdict::Stuck)], ""))));
    tui.assert_status("the plan is ready; press Esc to close this, then A again");
    assert_eq!(tui.press("y").sent(), []);
}

#[test]
fn a_plan_that_arrives_behind_a_question_keeps_the_marks_of_the_asked_one() {
    let mut tui = Tui::open(normal(), "4  AA");
    let marked = tui.app.views.pending.marks.clone();
    let marked: Vec<_> = marked.into_iter().map(|mark| (mark, Verdict::Stuck)).collect();
    let [asked, later] = [&marked[..], &[(entry(9), Verdict::Stuck)]].map(|it| plan(it, ""));
    tui.sent();
    tui.answer(Ok(Reply::Planned(asked.clone())));
    tui.answer(Ok(Reply::Planned(later)));
    assert_eq!(tui.press("y").sent(), [Command::Apply(asked, Pace::default())]);
    tui.answer(Ok(Reply::Replayed(ReplayReport::default())));
    assert!(tui.app.views.pending.marks.is_empty());
}

#[test]
fn a_filter_moves_the_cursor_also_during_an_outage() {
    let mut tui = Tui::open(normal(), "4");
    let mut away = normal();
    away.redis.up = false;
    tui.show(away);
    let last = tui.app.views.pending.rows(&tui.app.display.shown).last().unwrap().entry;
    tui.press(&format!("/{last}"));
    assert_eq!(tui.app.views.pending.cursor, Some(last));
}

#[test]
fn a_running_replay_can_be_cancelled() {
    let mut tui = Tui::open(normal(), "4X");
    tui.assert_status("no command is running");
    let line = RecoveryLine {
        action: "pending apply".into(),
        done: 3_000,
        planned: 12_000,
        changes: true,
    };
    tui.show(Snapshot { recoveries: vec![line], ..normal() });
    tui.assert_shows("pending apply 3,000 of 12,000");
    assert_eq!(tui.press("Xy").sent(), [Command::Cancel]);
}

#[test]
fn pages_turn_at_both_ends() {
    let mut tui = Tui::open(overflowing(), "4GG");
    assert_eq!(tui.focus.borrow().pending, entry(499).next_of_all());
    tui.assert_shows("reading");
    let mut second = overflowing();
    second.pending = page(500, 12_340);
    second.pending.view = entry(499).next_of_all().unwrap();
    tui.show(second);
    assert_eq!(tui.app.views.pending.cursor, Some(entry(500)));
    tui.assert_shows("   12,340");
    tui.press("k");
    assert_eq!(tui.focus.borrow().pending, Some(EntryId::MIN));
    tui.show(overflowing());
    assert_eq!(tui.app.views.pending.cursor, Some(entry(499)));
}

#[test]
fn a_page_that_emptied_leads_back_to_the_first() {
    let mut tui = Tui::open(overflowing(), "4GG");
    let mut second = overflowing();
    second.pending.view = entry(499).next_of_all().unwrap();
    Arc::make_mut(&mut second.pending.lines).clear();
    tui.show(second);
    assert_eq!(tui.focus.borrow().pending, Some(EntryId::MIN));
}

#[test]
fn marks_of_other_pages_stay() {
    let mut tui = Tui::open(overflowing(), "4 GG");
    let mut second = overflowing();
    second.pending = page(500, 12_340);
    second.pending.view = entry(499).next_of_all().unwrap();
    tui.show(second);
    tui.press(" A");
    let scope = Scope::Entries(vec![entry(0), entry(500)]);
    assert_eq!(tui.sent(), [Command::Plan(scope)]);
}

#[test]
fn filters_are_live_and_escape_ends_them() {
    let mut tui = Tui::open(normal(), "2/tea");
    tui.assert_hides("noodles");
    tui.press("\n").assert_shows("1 of 4");
    tui.press("E").assert_shows("#8 milk tea");
    tui.press("n\x1b").assert_shows("noodles");
}

#[test]
fn a_load_test_shows_its_plan_and_asks() {
    let mut tui = Tui::open(normal(), "2jkR");
    tui.assert_shows("110,000 requests by 100,000 buyers, 10,000 of them twice");
    tui.press("\n\n");
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))));
    assert!(tui.sent().is_empty());
    let sent = tui.press("y").sent();
    assert!(matches!(&sent[..], [Command::LoadTest(plan)] if plan.users == 100_000));
}

#[test]
fn quitting_asks_only_while_a_load_test_is_under_way() {
    let tui = Tui::open(normal(), "q");
    assert_eq!(tui.app.terminal.course, Course::Quit);
    let mut tui = Tui::open(with_load_test(), "q");
    assert_eq!(tui.app.terminal.course, Course::GoOn);
    tui.press("y");
    assert_eq!(tui.app.terminal.course, Course::Quit);
}

#[test]
fn the_palette_runs_what_it_names() {
    let mut tui = Tui::open(normal(), ":pend\n");
    assert_eq!(tui.app.view, View::Pending);
    assert_eq!(tui.press(":reco\n").sent(), [Command::Plan(Scope::All(Filter::default()))]);
}

#[test]
fn commands_on_a_paused_display_use_current_figures() {
    let mut tui = Tui::open(normal(), "2jkf");
    let mut later = normal();
    later.sales.reverse();
    for sale in &mut later.sales {
        if sale.voucher_id == VoucherId(7) {
            sale.stock = Some(42);
        }
    }
    tui.show(later);
    tui.press("E").assert_shows("42 of 10,000 pieces unsold");
    assert_eq!(tui.press("y").sent(), [Command::EndSale(VoucherId(7))]);
}

#[test]
fn a_reply_clears_the_marks_of_its_own_command_only() {
    let mut tui = Tui::open(normal(), "4 A");
    assert_eq!(tui.sent(), [Command::Plan(Scope::Entries(vec![entry(0)]))]);
    // Marked while the plan is made, so it is not among its entries.
    tui.press(" ");
    let plan = plan(&[(entry(0), Verdict::Stuck)], "1 entry by name");
    tui.answer(Ok(Reply::Planned(plan)));
    tui.press("y");
    tui.sent();
    tui.press(" ");
    tui.answer(Ok(Reply::Replayed(ReplayReport::default())));
    let marks: Vec<EntryId> = tui.app.views.pending.marks.iter().copied().collect();
    assert_eq!(marks, [entry(1), entry(2)]);
}
