//! A sale is chosen by a key, a click or a command; looking at the sales chooses none.

use super::prelude::*;

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
fn names(tui: &mut Tui, id: u64, why: &str) {
    let header = tui.header();
    assert!(header.contains(&format!("#{id} ")), "{why}: {header}");
}

/// Header and presenter layout show that sale.
fn speaks_of(tui: &mut Tui, id: u64, why: &str) {
    names(tui, id, why);
    assert_eq!(tui.app.presented(), Some(VoucherId(id)), "{why}");
}

#[test]
fn viewing_the_sales_selects_none() {
    let mut tui = Tui::new(quiet());
    speaks_of(&mut tui, 5, "at first");
    tui.press("2");
    names(&mut tui, 6, "commands act on the row under the cursor");
    assert_eq!(tui.app.presented(), Some(VoucherId(5)), "the presenter layout has no cursor");
    tui.show(quiet());
    assert_eq!(tui.app.presented(), Some(VoucherId(5)), "a snapshot later");
    tui.press("1");
    speaks_of(&mut tui, 5, "back on the Overview");
    let pointer = glyphs::POINTER;
    tui.assert_hides(format!("{pointer} #6"));
    tui.press("2k1");
    speaks_of(&mut tui, 5, "a key that moves nothing");
    tui.press("2/soup\n1");
    speaks_of(&mut tui, 5, "a filter");
    tui.show(Snapshot { sales: quiet().sales.split_off(1), ..quiet() });
    speaks_of(&mut tui, 5, "the row under the cursor is gone");
}

#[test]
fn a_key_a_click_and_enter_select() {
    for keys in ["2jk", "2l", "1j", "21j"] {
        let mut tui = Tui::open(quiet(), keys);
        speaks_of(&mut tui, 6, keys);
    }
    let mut tui = Tui::open(quiet(), "2m");
    click(&mut tui, "hot soup");
    speaks_of(&mut tui, 6, "a click on the row where the cursor stands");
}

/// Clicks the first row with that text.
fn click(tui: &mut Tui, shown: &str) {
    let text = tui.screen();
    let row = text.lines().skip(1).position(|line| line.contains(shown)).unwrap() as u16 + 1;
    let kind = MouseEventKind::Down(MouseButton::Left);
    let click = MouseEvent { kind, column: 20, row, modifiers: KeyModifiers::NONE };
    tui.app.on_event(&Event::Mouse(click));
}

#[test]
fn a_click_chooses_its_row_also_where_the_filter_hides_the_cursor() {
    for text in ["#4  milk", "#2  milk"] {
        let mut tui = Tui::open(quiet(), "2m/running\n");
        let mut snapshot = quiet();
        snapshot.sales[1].phase = Phase::Paused;
        tui.show(snapshot);
        assert_eq!(tui.app.views.sales.pointed(), Some(VoucherId(5)), "it is hidden now");
        click(&mut tui, text);
        let chosen = tui.app.views.sales.chosen;
        assert_eq!(chosen.map(|id| format!("#{id}  milk")).as_deref(), Some(text));
    }
}

#[test]
fn enter_on_the_overview_opens_the_named_sale() {
    let tui = Tui::open(quiet(), "2jjj1\n");
    assert_eq!(tui.app.views.sales.pointed(), Some(VoucherId(3)), "the chosen one");
    let mut snapshot = quiet();
    snapshot.sales[4].funnel.admitted.per_second = 9.0;
    let mut tui = Tui::open(snapshot, "21");
    speaks_of(&mut tui, 2, "it sells");
    tui.press("\n");
    assert_eq!(tui.app.views.sales.pointed(), Some(VoucherId(2)));
}

#[test]
fn a_command_targets_the_row_and_selects_it_once_confirmed() {
    let mut tui = Tui::open(quiet(), "2S\x1b1");
    speaks_of(&mut tui, 5, "the question was left");
    assert_eq!(tui.press("2Sy").sent(), [Command::StartSale(VoucherId(6))]);
    speaks_of(&mut tui, 6, "it was started");
    Tui::open(quiet(), "2L").assert_shows("#6");
}

#[test]
fn a_filter_moves_the_cursor_and_keeps_the_choice() {
    let mut tui = Tui::open(quiet(), "2jjj");
    speaks_of(&mut tui, 3, "chosen");
    tui.press("/#1\n");
    names(&mut tui, 1, "the filter hides the chosen one");
    assert_eq!(tui.app.presented(), Some(VoucherId(3)), "and it stays chosen");
    tui.press("y");
    assert_eq!(tui.app.terminal.clipboard.take().as_deref(), Some("1"), "the row under the cursor");
    assert_eq!(tui.press("Py").sent(), [Command::PauseSale(VoucherId(1))]);
    speaks_of(&mut tui, 1, "that was a command on it");
}

#[test]
fn on_the_overview_keys_act_on_the_selection() {
    let mut tui = Tui::open(quiet(), "2jjj/#1\n1y");
    assert_eq!(tui.app.terminal.clipboard.take().as_deref(), Some("3"));
    tui.press("w");
    let row = tui.app.terminal.clipboard.take().unwrap();
    assert!(row.contains("\"id\":\"3\""), "{row}");
    tui.press("\n");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(3)), "and its detail is opened");
}

/// The sale of the open question, as its command has it.
fn asked(tui: &Tui) -> Option<VoucherId> {
    tui.app.dialog.as_ref().and_then(Dialog::sale)
}

#[test]
fn the_header_names_the_target_sale_of_commands() {
    // Buyers of another process.
    let selling = |id: u64| {
        let mut snapshot = quiet();
        let sale = snapshot.sales.iter_mut().find(|sale| sale.voucher_id == VoucherId(id));
        sale.expect("a sale").funnel.admitted.per_second = 802.0;
        snapshot
    };
    for key in ["E", "P", "R"] {
        let mut tui = Tui::open(quiet(), "2jj1");
        assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(4)));
        tui.show(selling(3));
        names(&mut tui, 4, "it is chosen");
        let presented = tui.app.presented();
        assert_eq!(presented, Some(VoucherId(3)), "the presenter layout shows the active sale");
        tui.press(key).show(selling(2));
        assert_eq!(asked(&tui), Some(VoucherId(4)));
        names(&mut tui, 4, "it is asked about");
    }
    // A load test from here does not change the target either.
    let load_test = LoadTestLine { voucher_id: VoucherId(2), sent: 1, planned: 9 };
    let mut tui = Tui::open(quiet(), "2jj1");
    tui.show(Snapshot { load_tests: vec![load_test], ..quiet() });
    names(&mut tui, 4, "it is chosen");
    tui.press("H");
    assert_eq!(asked(&tui), Some(VoucherId(2)), "only that one has a load test");
    names(&mut tui, 2, "it is asked about");
    names(tui.press("\x1b"), 4, "the question was left");
}

#[test]
fn without_a_choice_a_command_leads_to_the_sale_that_the_header_names() {
    let mut snapshot = quiet();
    snapshot.sales[3].funnel.admitted.per_second = 9.0;
    let mut tui = Tui::new(snapshot);
    names(&mut tui, 3, "it sells");
    tui.press("E");
    assert!(tui.app.dialog.is_none(), "several are open");
    names(&mut tui, 3, "the cursor is on it");
    tui.press("E");
    assert_eq!(asked(&tui), Some(VoucherId(3)));
}
