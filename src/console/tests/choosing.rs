//! A sale is chosen by a key, a click or a command; looking at the sales chooses none.

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use seckill_engine::{
    command::Command,
    telemetry::{
        Snapshot,
        snapshot::{Funnel, LoadTestLine},
    },
};
use seckill_model::{Phase, VoucherId};

use super::fixture::{Bench, empty, sale};
use crate::dialogs::Dialog;

/// A planned sale above five active ones, of which none has a rate.
fn quiet() -> Snapshot {
    let running = (1..=5).rev().map(|id| sale(id, "milk tea", Phase::Running, 100, 90));
    let planned = sale(6, "hot soup", Phase::Planned, 50, 50);
    let mut sales: Vec<_> = std::iter::once(planned).chain(running).collect();
    for sale in &mut sales {
        sale.funnel = Funnel::default();
    }
    Snapshot { sales, ..empty() }
}

/// The header names that sale.
fn names(bench: &mut Bench, id: u64, why: &str) {
    let text = bench.text(120, 36);
    let header = text.lines().next().unwrap_or_default();
    assert!(header.contains(&format!("#{id} ")), "{why}: {header}");
}

/// Header and presenter layout show that sale.
fn speaks_of(bench: &mut Bench, id: u64, why: &str) {
    names(bench, id, why);
    assert_eq!(bench.app.presented(), Some(VoucherId(id)), "{why}");
}

#[test]
fn viewing_the_sales_selects_none() {
    let mut bench = Bench::new(quiet());
    speaks_of(&mut bench, 5, "at first");
    bench.keys("2");
    names(&mut bench, 6, "commands act on the row under the cursor");
    assert_eq!(bench.app.presented(), Some(VoucherId(5)), "the presenter layout has no cursor");
    bench.show(quiet());
    assert_eq!(bench.app.presented(), Some(VoucherId(5)), "a snapshot later");
    bench.keys("1");
    speaks_of(&mut bench, 5, "back on the Overview");
    let pointer = bench.app.theme.glyphs.pointer;
    assert!(!bench.text(120, 36).contains(&format!("{pointer} #6")), "{}", bench.text(120, 36));
    bench.keys("2k1");
    speaks_of(&mut bench, 5, "a key that moves nothing");
    bench.keys("2/soup");
    bench.press(KeyCode::Enter);
    bench.keys("1");
    speaks_of(&mut bench, 5, "a filter");
    bench.show(Snapshot { sales: quiet().sales.split_off(1), ..quiet() });
    speaks_of(&mut bench, 5, "the row under the cursor is gone");
}

#[test]
fn a_key_a_click_and_enter_select() {
    for keys in ["2jk", "2l", "1j", "21j"] {
        let mut bench = Bench::new(quiet());
        bench.keys(keys);
        speaks_of(&mut bench, 6, keys);
    }
    let mut bench = Bench::new(quiet());
    bench.keys("2m");
    click(&mut bench, "hot soup");
    speaks_of(&mut bench, 6, "a click on the row where the cursor stands");
}

/// Clicks the first row with that text.
fn click(bench: &mut Bench, shown: &str) {
    let text = bench.text(120, 36);
    let row = text.lines().skip(1).position(|line| line.contains(shown)).unwrap() as u16 + 1;
    let kind = MouseEventKind::Down(MouseButton::Left);
    let click = MouseEvent { kind, column: 20, row, modifiers: KeyModifiers::NONE };
    bench.app.on_event(&Event::Mouse(click));
}

#[test]
fn a_click_chooses_its_row_also_where_the_filter_hides_the_cursor() {
    for text in ["#4  milk", "#2  milk"] {
        let mut bench = Bench::new(quiet());
        bench.keys("2m/running");
        bench.press(KeyCode::Enter);
        let mut snapshot = quiet();
        snapshot.sales[1].phase = Phase::Paused;
        bench.show(snapshot);
        assert_eq!(bench.app.sales.pointed(), Some(VoucherId(5)), "it is hidden now");
        click(&mut bench, text);
        let chosen = bench.app.sales.chosen;
        assert_eq!(chosen.map(|id| format!("#{id}  milk")).as_deref(), Some(text));
    }
}

#[test]
fn enter_on_the_overview_opens_the_named_sale() {
    let mut bench = Bench::new(quiet());
    bench.keys("2jjj1");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.sales.pointed(), Some(VoucherId(3)), "the chosen one");
    let mut snapshot = quiet();
    snapshot.sales[4].funnel.admitted.per_second = 9.0;
    let mut bench = Bench::new(snapshot);
    bench.keys("21");
    speaks_of(&mut bench, 2, "it sells");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.app.sales.pointed(), Some(VoucherId(2)));
}

#[test]
fn a_command_targets_the_row_and_selects_it_once_confirmed() {
    let mut bench = Bench::new(quiet());
    bench.keys("2S");
    bench.press(KeyCode::Esc);
    bench.keys("1");
    speaks_of(&mut bench, 5, "the question was left");
    bench.keys("2Sy");
    assert_eq!(bench.sent(), [Command::StartSale(VoucherId(6))]);
    speaks_of(&mut bench, 6, "it was started");
    let mut bench = Bench::new(quiet());
    bench.keys("2L");
    assert!(bench.text(120, 36).contains("#6"), "a launch of the planned one is offered");
}

#[test]
fn a_filter_moves_the_cursor_and_keeps_the_choice() {
    let mut bench = Bench::new(quiet());
    bench.keys("2jjj");
    speaks_of(&mut bench, 3, "chosen");
    bench.keys("/#1");
    bench.press(KeyCode::Enter);
    names(&mut bench, 1, "the filter hides the chosen one");
    assert_eq!(bench.app.presented(), Some(VoucherId(3)), "and it stays chosen");
    bench.keys("y");
    assert_eq!(bench.app.clipboard.take().as_deref(), Some("1"), "the row under the cursor");
    bench.keys("Py");
    assert_eq!(bench.sent(), [Command::PauseSale(VoucherId(1))]);
    speaks_of(&mut bench, 1, "that was an act on it");
}

#[test]
fn on_the_overview_keys_act_on_the_selection() {
    let mut bench = Bench::new(quiet());
    bench.keys("2jjj/#1");
    bench.press(KeyCode::Enter);
    bench.keys("1y");
    assert_eq!(bench.app.clipboard.take().as_deref(), Some("3"));
    bench.keys("w");
    let row = bench.app.clipboard.take().unwrap();
    assert!(row.contains("\"id\":\"3\""), "{row}");
    bench.press(KeyCode::Enter);
    assert_eq!(bench.focus.borrow().sale, Some(VoucherId(3)), "and its detail is opened");
}

#[test]
fn several_rushes_are_halted_by_the_row() {
    let rush = |id| LoadTestLine { voucher_id: VoucherId(id), sent: 1, planned: 9 };
    let mut bench = Bench::new(Snapshot { load_tests: vec![rush(5), rush(4)], ..quiet() });
    bench.keys("H");
    assert!(bench.app.dialog.is_none(), "led to the rows");
    bench.keys("/#4");
    bench.press(KeyCode::Enter);
    bench.keys("Hy");
    assert_eq!(bench.sent()[0], Command::StopLoadTest(VoucherId(4)));
}

/// The sale of the open question, as its command has it.
fn asked(bench: &Bench) -> Option<VoucherId> {
    bench.app.dialog.as_ref().and_then(Dialog::sale)
}

#[test]
fn the_header_names_the_target_sale_of_commands() {
    let selling = |id: u64| {
        let mut snapshot = quiet();
        for sale in &mut snapshot.sales {
            let sells = sale.voucher_id == VoucherId(id);
            sale.funnel.admitted.per_second = if sells { 802.0 } else { 0.0 };
        }
        snapshot
    };
    for key in ["E", "P", "R"] {
        let mut bench = Bench::new(quiet());
        bench.keys("2jj1");
        assert_eq!(bench.app.sales.chosen, Some(VoucherId(4)));
        // Buyers of another process.
        bench.show(selling(3));
        names(&mut bench, 4, "it is chosen");
        assert_eq!(
            bench.app.presented(),
            Some(VoucherId(3)),
            "the presenter layout shows the active sale"
        );
        bench.keys(key);
        assert_eq!(asked(&bench), Some(VoucherId(4)));
        bench.show(selling(2));
        names(&mut bench, 4, "it is asked about");
    }
    // A rush from here does not change the target either.
    let rush = LoadTestLine { voucher_id: VoucherId(2), sent: 1, planned: 9 };
    let mut bench = Bench::new(quiet());
    bench.keys("2jj1");
    bench.show(Snapshot { load_tests: vec![rush.clone()], ..quiet() });
    names(&mut bench, 4, "it is chosen");
    bench.keys("H");
    assert_eq!(asked(&bench), Some(VoucherId(2)), "only that one is rushed");
    names(&mut bench, 2, "it is asked about");
    bench.press(KeyCode::Esc);
    names(&mut bench, 4, "the question was left");
}

#[test]
fn without_a_choice_a_command_leads_to_the_sale_that_the_header_names() {
    let mut snapshot = quiet();
    snapshot.sales[3].funnel.admitted.per_second = 9.0;
    let mut bench = Bench::new(snapshot);
    names(&mut bench, 3, "it sells");
    bench.keys("E");
    assert!(bench.app.dialog.is_none(), "several are open");
    names(&mut bench, 3, "the cursor is on it");
    bench.keys("E");
    assert_eq!(asked(&bench), Some(VoucherId(3)));
}
