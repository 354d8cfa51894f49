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

/// Buyers of another process come to this sale.
fn selling(id: u64) -> Snapshot {
    with(quiet(), |it| {
        let sale = it.sales.iter_mut().find(|sale| sale.voucher_id.0 == id);
        sale.expect("a sale").funnel.admitted.per_second = 802.0;
    })
}

/// The header names one sale, and the presenter layout shows one.
#[track_caller]
fn assert_named(tui: &mut Tui, header: u64, presented: u64, why: &str) {
    let line = tui.header();
    assert!(line.contains(&format!("#{header} ")), "{why}: {line}");
    assert_eq!(tui.app.presented(), Some(VoucherId(presented)), "{why}");
}

#[test]
fn keys_choose_the_sale_that_header_and_presenter_layout_show() {
    // Keys, the sale in the header, which commands act on, and the one in the presenter layout.
    for (keys, header, presented, why) in [
        ("", 5, 5, "at first"),
        ("2", 6, 5, "commands act on the row under the cursor"),
        ("21", 5, 5, "back on the Overview"),
        ("2k1", 5, 5, "a key that moves nothing"),
        ("2/soup\n1", 5, 5, "a filter"),
        ("2jk", 6, 6, "a key"),
        ("2l", 6, 6, "Enter"),
        ("1j", 6, 6, "a key on the Overview"),
        ("21j", 6, 6, "a key after the sales were seen"),
        ("2S\x1b1", 5, 5, "the question was left"),
        ("2Sy1", 6, 6, "a command on the row"),
        ("2jjj/#1\n", 1, 3, "the filter hides the chosen one, which stays chosen"),
        ("2jjj/#1\nPy", 1, 1, "a command on the row that the filter shows"),
    ] {
        let mut tui = Tui::open(quiet(), keys);
        assert_named(&mut tui, header, presented, why);
        tui.show(quiet());
        assert_named(&mut tui, header, presented, &format!("{why}, a snapshot later"));
    }
    let mut tui = Tui::open(quiet(), "21");
    tui.assert_hides(format!("{} #6", glyphs::POINTER));
    tui.show(with(quiet(), |it| _ = it.sales.remove(0)));
    assert_named(&mut tui, 5, 5, "the row under the cursor is gone");
}

/// Clicks the first row with that text.
fn click(tui: &mut Tui, shown: &str) {
    let text = tui.screen();
    let row = text.lines().skip(1).position(|line| line.contains(shown)).unwrap() as u16 + 1;
    tui.mouse(MouseEventKind::Down(MouseButton::Left), 20, row);
}

#[test]
fn a_click_chooses_its_row_also_where_the_filter_hides_the_cursor() {
    let mut tui = Tui::open(quiet(), "2m");
    click(&mut tui, "hot soup");
    assert_named(&mut tui, 6, 6, "the row where the cursor is");
    for id in [4, 2] {
        let mut tui = Tui::open(quiet(), "2m/running\n");
        tui.show(with(quiet(), |it| it.sales[1].phase = Phase::Paused));
        assert_eq!(tui.app.views.sales.table.cursor, Some(VoucherId(5)), "it is hidden now");
        click(&mut tui, &format!("#{id}  milk"));
        assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(id)));
    }
}

#[test]
fn enter_on_the_overview_opens_the_named_sale() {
    let tui = Tui::open(quiet(), "2jjj1\n");
    assert_eq!(tui.app.views.sales.table.cursor, Some(VoucherId(3)), "the chosen one");
    let mut tui = Tui::open(selling(2), "21");
    assert_named(&mut tui, 2, 2, "it sells");
    assert_eq!(tui.press("\n").app.views.sales.table.cursor, Some(VoucherId(2)));
}

#[test]
fn commands_target_the_row_in_the_table_and_the_choice_on_the_overview() {
    assert_eq!(Tui::open(quiet(), "2Sy").sent(), [Command::StartSale(VoucherId(6))]);
    Tui::open(quiet(), "2L").assert_shows("#6");
    let mut tui = Tui::open(quiet(), "2jjj/#1\ny");
    assert_eq!(tui.copied(), "1", "the row under the cursor");
    assert_eq!(tui.press("Py").sent(), [Command::PauseSale(VoucherId(1))]);
    let mut tui = Tui::open(quiet(), "2jjj/#1\n1y");
    assert_eq!(tui.copied(), "3");
    let row = tui.press("w").copied();
    assert!(row.contains("\"id\":\"3\""), "{row}");
    tui.press("\n");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(3)), "and its detail is opened");
}

/// The sale of the open question, as its command has it.
fn asked(tui: &Tui) -> Option<u64> {
    tui.app.dialog.as_ref().and_then(Dialog::sale).map(|sale| sale.0)
}

#[test]
fn the_header_names_the_target_sale_of_commands() {
    for key in ["E", "P", "R"] {
        let mut tui = Tui::open(quiet(), "2jj1");
        assert_named(tui.show(selling(3)), 4, 3, "one is chosen, another one is active");
        tui.press(key).show(selling(2));
        assert_eq!(asked(&tui), Some(4));
        assert!(tui.header().contains("#4 "), "it is asked about");
    }
    // A load test from here does not change the target either.
    let mut tui = Tui::open(quiet(), "2jj1");
    tui.show(Snapshot { load_tests: vec![load_test(2, 1, 9)], ..quiet() });
    assert_named(&mut tui, 4, 2, "it is chosen");
    assert_eq!(asked(tui.press("H")), Some(2), "only that one has a load test");
    assert_named(&mut tui, 2, 2, "it is asked about");
    assert_named(tui.press("\x1b"), 4, 2, "the question was left");
    // Without a choice a command leads to the sale that the header names.
    let mut tui = Tui::open(selling(3), "E");
    assert_eq!(asked(&tui), None, "several are open");
    assert_named(&mut tui, 3, 3, "the cursor is on it");
    assert_eq!(asked(tui.press("E")), Some(3));
}
