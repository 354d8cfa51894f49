//! The presenter layout: its states, its keys, and that no figure moves.

use super::prelude::*;

/// Opens in five seconds.
pub(super) fn before() -> Snapshot {
    let mut planned = sale(7, "hot pot 50% off", Phase::Planned, 8_000, 8_000);
    planned.begin = Some(NOW.plus(5_000));
    Snapshot { sales: vec![planned], ..empty() }
}

/// Opens in an hour.
fn planned() -> Snapshot {
    let sales = vec![sale(7, "hot pot 50% off", Phase::Planned, 8_000, 8_000)];
    Snapshot { sales, ..empty() }
}

pub(super) fn running() -> Snapshot {
    let sales = vec![sale(7, "hot pot 50% off", Phase::Running, 8_000, 3_120)];
    Snapshot { sales, alarms: Vec::new(), ..normal() }
}

fn sold_out() -> Snapshot {
    let mut sold = sale(7, "hot pot 50% off", Phase::SoldOut, 8_000, 0);
    sold.persisted = 8_000;
    Snapshot { sales: vec![sold], taken: NOW, ..empty() }
}

pub(super) fn away() -> Snapshot {
    let sales = running().sales;
    Snapshot { sales, ..outage() }
}

pub(super) fn unknown() -> Snapshot {
    let mut snapshot = running();
    (snapshot.sales[0].stock, snapshot.sales[0].admitted) = (None, None);
    snapshot.audit = Balance::Unknown;
    snapshot
}

/// A sale that was seen from its start to its last piece.
pub(super) fn sold_out_in_12_seconds() -> Tui {
    let mut tui = Tui::open(before(), "t");
    for (snapshot, millis) in [(running(), 3_000), (sold_out(), 12_300), (sold_out(), 99_000)] {
        tui.show(Snapshot { taken: NOW.plus(millis), ..snapshot });
    }
    tui
}

/// Paused 12 seconds ago, while Redis was unreachable.
pub(super) fn frozen() -> Tui {
    let mut tui = Tui::open(away(), "tf");
    tui.show(sold_out());
    tui.app.display.now = NOW.plus(12_000);
    tui.app.status.key_pressed();
    tui
}

/// With a guide and an alarm.
pub(super) fn guided() -> Tui {
    let mut tui = Tui::new(Snapshot { alarms: normal().alarms, ..running() });
    tui.app.on_guide(guide());
    tui.press("t");
    tui
}

/// The countdown of a launch of the planned sale.
pub(super) fn armed() -> Tui {
    let mut tui = Tui::open(normal(), "2jjL\t\t\t\t\nyt");
    tui.app.display.now = NOW.plus(1_500);
    tui.app.status.key_pressed();
    tui
}

fn watched(snapshot: Snapshot) -> Snapshot {
    Snapshot { read_only: true, ..snapshot }
}

pub(super) fn guide() -> GuidePage {
    GuidePage { title: "NODE FAILURE".to_owned(), text: "node-b died holding 128 orders: admitted, but not in SQL. Press 4 to list them, A to plan the recovery, y to apply it.".to_owned(), key: Some("4  A  y".to_owned()), ..GuidePage::default() }
}

#[test]
fn small_figures_stay_beside_a_guide_in_the_smallest_window() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for snapshot in [running(), watched(running()), away()] {
            let mut tui = Tui::new(Snapshot { alarms: normal().alarms, ..snapshot });
            tui.app.on_guide(guide());
            let text = tui.press("t").screen_at(60, 15);
            assert!(text.contains("NODE FAILURE") && text.contains("4,860"), "{text}");
        }
    }
}

#[test]
fn a_question_names_the_sale() {
    let load_test = LoadTestLine { voucher_id: VoucherId(7), sent: 52_000, planned: 110_000 };
    let rushed = Snapshot { load_tests: vec![load_test], ..running() };
    for (keys, snapshot) in [("tH", rushed), ("tL\t\t\t\t\n", planned())] {
        let mut tui = Tui::open(snapshot, keys);
        for (width, height) in SIZES {
            let text = tui.screen_at(width, height);
            assert!(text.contains("Cancel") && text.contains("hot pot 50% off"), "{text}");
        }
    }
}

#[test]
fn the_outcome_is_shown_with_its_time() {
    let mut tui = sold_out_in_12_seconds();
    tui.assert_shows("sold of 8,000 in 12.3 s");
    tui.assert_shows("oversold");
    let mut snapshot = sold_out();
    snapshot.sales[0].persisted = 8_003;
    tui.show(snapshot);
    assert!(tui.app.presenter.took_ms(VoucherId(7)) == Some(12_300));
}

#[test]
fn orders_in_flight_are_counted() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        // The second has no room in large digits.
        for (orders, expected) in [(1_332, "1,332"), (1_234_567, "1,234,567")] {
            let audit = Balance::InFlight { orders };
            let mut tui = Tui::open(Snapshot { audit, ..running() }, "t");
            // Large windows draw small numbers in large digits.
            for (width, height) in &SIZES[if orders == 1_332 { 2 } else { 1 }..] {
                let text = tui.screen_at(*width, *height);
                assert!(text.contains(expected), "{text}");
            }
        }
    }
}

#[test]
fn only_keys_that_do_something_are_offered() {
    let offered = |tui: &mut Tui| {
        let text = tui.screen();
        let keys = text.lines().last().unwrap().to_owned();
        ["L schedule", "F launch", "H stop"].map(|key| keys.contains(key))
    };
    let mut tui = Tui::open(running(), "t");
    assert_eq!(offered(&mut tui), [true, false, false], "nothing is armed");
    let load_test = LoadTestLine { voucher_id: VoucherId(7), sent: 1, planned: 2 };
    tui.show(Snapshot { load_tests: vec![load_test], ..running() });
    assert_eq!(offered(&mut tui), [true, false, true], "a rush can be halted");
    let mut tui = Tui::open(planned(), "tL\t\t\t\t\ny");
    assert_eq!(offered(&mut tui), [true, true, true], "a launch is scheduled");
    let mut tui = Tui::open(watched(running()), "t");
    assert_eq!(offered(&mut tui), [false; 3], "commands are disabled");
}

#[test]
fn the_load_test_message_ends_when_the_sale_is_sold_out() {
    let mut tui = Tui::open(running(), "t");
    tui.app.send(Command::LoadTest(LoadTest::new(VoucherId(7), 20_000)), None);
    tui.assert_shows("20,000 buyers are sending requests");
    tui.show(running());
    tui.assert_shows("20,000 buyers are sending requests");
    tui.show(sold_out());
    tui.assert_hides("sending requests");
    // The result of a sale without initial stock is not news.
    tui.app.send(Command::LoadTest(LoadTest::new(VoucherId(7), 1)), None);
    tui.show(sold_out());
    tui.assert_shows("1 buyer is sending requests");
}

#[test]
fn ascii_is_ascii_and_no_colour_is_none() {
    for snapshot in [before(), running(), sold_out(), away()] {
        let mut tui = Tui::themed(snapshot, Theme::new(Depth::None, true));
        tui.press("t");
        for (width, height) in SIZES {
            let buffer = tui.draw(width, height);
            for cell in &buffer.content {
                assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
                assert_eq!(cell.fg, Color::Reset);
            }
        }
    }
}

#[test]
fn no_id_and_no_user_is_shown() {
    let snapshots = [before(), running(), sold_out(), away(), normal(), read_only()];
    let consoles = snapshots.map(|snapshot| Tui::open(snapshot, "t"));
    for mut tui in consoles.into_iter().chain([armed()]) {
        for (width, height) in SIZES {
            let text = tui.screen_at(width, height);
            let found = ["#", "user", "node-"].into_iter().find(|it| text.contains(it));
            assert_eq!(found, None, "{text}");
        }
    }
}

#[test]
fn keys_toggle_presenter_mode() {
    let mut tui = Tui::open(normal(), "4t");
    assert!(tui.app.presenter.on);
    // Keys of the view below have no effect here.
    tui.press("A");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_none());
    tui.press("t");
    assert!(!tui.app.presenter.on && tui.app.view == View::Pending);
    tui.press("t");
    let first = tui.app.presented();
    tui.press("j");
    assert_ne!(tui.app.presented(), first);
    tui.press("\x1b");
    assert!(!tui.app.presenter.on);
    tui.press(":presenter\n");
    assert!(tui.app.presenter.on);
    tui.press(":").assert_shows("schedule launch");
}

#[test]
fn a_key_of_the_views_does_not_end_a_demo() {
    for (lang, expected) in [
        ("en", " works in the views; press t to leave presenter mode"),
        ("zh", " 用于普通视图，按 t 退出演示"),
    ] {
        set_thread_language(lang);
        let mut tui = Tui::open(normal(), "4t");
        for key in ["1", "2", "3", "4", "5", "6", "7", "8", "0", "A", "x"] {
            tui.press(key);
            assert!(tui.app.presenter.on && tui.app.dialog.is_none(), "{key}");
            assert_eq!(tui.status(), format!("{key}{expected}"));
        }
        tui.press("\t");
        assert!(tui.app.presenter.on, "{}", tui.status());
        assert_eq!(tui.app.view, View::Pending);
        tui.press("t2");
        assert_eq!(tui.app.view, View::Sales);
    }
}

#[test]
fn the_keys_of_a_guide_leave_the_layout() {
    let mut tui = Tui::new(running());
    let mut ends = |keys: &str, page: GuidePage, end: &str| {
        tui.app.on_guide(page);
        let screen = tui.press(keys).screen_at(80, 24);
        let line = screen.lines().find(|line| line.contains("NODE FAILURE"));
        assert!(line.is_some_and(|line| line.ends_with(end)), "{screen}");
    };
    ends("", guide(), "  4  A  y");
    ends("t", guide(), "  t  4  A  y");
    ends("", GuidePage { key: Some("q".to_owned()), ..guide() }, "  q");
}

#[test]
fn no_small_figure_moves_while_it_counts() {
    let labels =
        ["buyers per second", "orders written", "in flight", "buyers/s", "written", "moving"];
    for (width, height) in SIZES {
        let ends = [(3, 1, 7), (9_876, 4_860, 1_332), (10_987, 7_999, 12_345)].map(|counts| {
            let (rate, persisted, orders) = counts;
            let mut snapshot = running();
            snapshot.sales[0].funnel.attempts.per_second = f64::from(rate);
            snapshot.sales[0].persisted = persisted;
            snapshot.audit = Balance::InFlight { orders };
            let mut tui = Tui::open(snapshot, "t");
            let text = tui.screen_at(width, height);
            let places = labels.map(|label| {
                text.lines().find_map(|line| line.find(label).map(|at| line[..at].chars().count()))
            });
            (places, text)
        });
        let [first, ..] = &ends;
        assert!(first.0.iter().any(Option::is_some));
        for (places, text) in &ends {
            assert_eq!(places, &first.0, "{width}x{height} {text}");
        }
    }
}

#[test]
fn nothing_moves_when_a_result_appears() {
    let long =
        "20,000 buyers came to the sale, 8,000 of them got a piece, and all others were shown \
                at once that it is sold out; "
            .repeat(2);
    for (width, height) in SIZES {
        for alarms in [Vec::new(), normal().alarms] {
            let mut tui = Tui::open(Snapshot { alarms, ..running() }, "t");
            let before = tui.screen_at(width, height);
            tui.app.status.failure(long.clone());
            let after = tui.screen_at(width, height);
            assert!(after.contains("20,000 buyers came"), "{after}");
            let kept = usize::from(height) - 5;
            let head = |text: &str| text.lines().take(kept).collect::<Vec<_>>().join("\n");
            assert_eq!(head(&before), head(&after), "{width}x{height}");
        }
    }
}

#[test]
fn in_flight_and_audit_have_constant_positions() {
    let labels = ["in flight", "moving", "audit passed", "audit open", "audit"];
    for (width, height) in SIZES {
        let places =
            [(Balance::Balanced { by_id: true }, 640.0), (Balance::InFlight { orders: 7 }, 640.0)]
                .map(|(audit, rate)| {
                    let mut snapshot = running();
                    (snapshot.audit, snapshot.written.per_second) = (audit, rate);
                    let mut tui = Tui::open(snapshot, "t");
                    let text = tui.screen_at(width, height);
                    let at = |label: &&str| text.lines().position(|line| line.contains(*label));
                    (labels.iter().map(at).collect::<Vec<_>>(), text)
                });
        let [balanced, flying] = &places;
        assert_eq!(balanced.0, flying.0, "{}{}", balanced.1, flying.1);
        assert!(!balanced.1.contains("audit passed"), "orders come: {}", balanced.1);
    }
    // Once no more orders arrive, the audit is shown.
    let mut still = running();
    (still.audit, still.written.per_second) = (Balance::Balanced { by_id: true }, 0.0);
    still.funnel = Funnel::default();
    let mut tui = Tui::open(still, "t");
    tui.assert_shows("audit passed");
    tui.assert_shows("in flight");
}

#[test]
fn figures_and_labels_end_below_each_other() {
    let mut snapshot = running();
    snapshot.sales[0].funnel.attempts.per_second = 3.0;
    snapshot.sales[0].persisted = 0;
    snapshot.audit = Balance::InFlight { orders: 3 };
    let mut tui = Tui::open(snapshot, "t");
    for (width, height) in &SIZES[..3] {
        let text = tui.screen_at(*width, *height);
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        for label in ["buyers per second", "orders written", "in flight"] {
            let row = text.lines().position(|line| line.contains(label)).unwrap();
            let (before, _) = text.lines().nth(row).unwrap().split_once(label).unwrap();
            let end = before.chars().count() + label.len();
            let [last, next] = [end - 1, end].map(|at| lines[row - 1].get(at));
            assert!(last.is_some_and(|c| *c != ' ') && next.is_none_or(|c| *c == ' '), "{text}");
        }
    }
}

#[test]
fn a_step_without_a_next_sale_is_explained() {
    Tui::open(running(), "tj").assert_status("there is no other sale to show");
    Tui::open(empty(), "tk").assert_status("No sales yet. Press L to schedule one.");
    let mut tui = Tui::open(normal(), "tjjjjjj");
    tui.assert_status("this is the last sale");
    tui.press("kkkkkk").assert_status("this is the first sale");
}
