//! The presenter layout in its states, in both languages and every size.

use seckill_engine::{
    command::{Command, LoadTest},
    telemetry::{Snapshot, snapshot::LoadTestLine},
};
use seckill_model::{Phase, VoucherId, ledger::Balance, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, empty, normal, outage, read_only, sale},
    screens::{Scene, assert_screen},
};
use crate::{
    guide_banner::Story,
    presenter::by_title,
    theme::{Depth, Theme},
};

pub(super) const SIZES: [(u16, u16); 4] = [(200, 50), (120, 36), (80, 24), (60, 15)];

/// Opens in five seconds.
fn before() -> Snapshot {
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

fn away() -> Snapshot {
    let sales = running().sales;
    Snapshot { sales, ..outage() }
}

fn watched(snapshot: Snapshot) -> Snapshot {
    Snapshot { read_only: true, ..snapshot }
}

fn story() -> Story {
    Story {
        title: "NODE FAILURE".to_owned(),
        text: "node-b died holding 128 orders: admitted, but not in SQL. Press 4 to list them, A to plan the recovery, y to apply it."
            .to_owned(),
        key: Some("4  A  y".to_owned()),
        ..Story::default()
    }
}

#[test]
fn every_state() {
    let states: [Scene; 7] = [
        ("empty", empty),
        ("before", before),
        ("running", running),
        ("sold_out", sold_out),
        ("outage", away),
        ("read_only", || watched(running())),
        ("unknown", || {
            let mut snapshot = running();
            snapshot.sales[0].stock = None;
            snapshot.sales[0].admitted = None;
            snapshot.audit = Balance::Unknown;
            snapshot
        }),
    ];
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        let tail = if lang == "zh" { "_zh" } else { "" };
        for (name, snapshot) in states {
            for (width, height) in SIZES {
                let mut bench = Bench::new(snapshot());
                bench.keys("t");
                let text = bench.text(width, height);
                // One wide and one narrow window; Chinese where the labels are longest.
                let shown = match lang {
                    "zh" => name == "running" && width == 80,
                    _ => width == 120 || width == 60,
                };
                if shown {
                    assert_screen(&format!("presenter_{name}{tail}_{width}x{height}"), &text);
                }
            }
        }
    }
}

#[test]
fn a_guide_and_an_alarm_are_below_the_figures() {
    for (width, height) in SIZES {
        let mut bench = Bench::new(Snapshot { alarms: normal().alarms, ..running() });
        bench.app.on_story(story());
        bench.keys("t");
        let text = bench.text(width, height);
        assert!(text.contains("86  orders held by a dead node; press t then 4."), "{text}");
        if width == 80 {
            assert_screen("presenter_story_80x24", &text);
        }
    }
}

#[test]
fn a_paused_display_has_a_badge_and_does_not_change() {
    for (name, snapshot) in [("frozen", running as fn() -> Snapshot), ("frozen_away", away)] {
        for (width, height) in SIZES {
            let mut bench = Bench::new(snapshot());
            bench.keys("tf");
            bench.show(sold_out());
            bench.app.now = NOW.plus(12_000);
            bench.app.status.key_pressed();
            let text = bench.text(width, height);
            assert!(text.contains("FROZEN") && text.contains("RUNNING"), "{text}");
            if width == 80 {
                assert_screen(&format!("presenter_{name}_{width}x{height}"), &text);
            }
        }
    }
}

#[test]
fn small_figures_stay_beside_a_guide_in_the_smallest_window() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for snapshot in [running(), watched(running()), away()] {
            let mut bench = Bench::new(Snapshot { alarms: normal().alarms, ..snapshot });
            bench.app.on_story(story());
            bench.keys("t");
            let text = bench.text(60, 15);
            assert!(text.contains("NODE FAILURE") && text.contains("4,860"), "{text}");
        }
        let mut bench = Bench::new(Snapshot { alarms: normal().alarms, ..away() });
        bench.app.on_story(story());
        bench.keys("t");
        let tail = if lang == "zh" { "_zh" } else { "" };
        assert_screen(&format!("presenter_story_away{tail}_60x15"), &bench.text(60, 15));
    }
}

#[test]
fn a_question_names_the_sale_by_its_title() {
    let rush = LoadTestLine { voucher_id: VoucherId(7), sent: 52_000, planned: 110_000 };
    for (name, keys, snapshot) in
        [("halt", "tH", Snapshot { load_tests: vec![rush], ..running() }), ("arm", "tL", planned())]
    {
        let mut bench = Bench::new(snapshot);
        bench.keys(keys);
        if name == "arm" {
            for _ in 0..4 {
                bench.press(crossterm::event::KeyCode::Tab);
            }
            bench.press(crossterm::event::KeyCode::Enter);
        }
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let text = bench.text(width, height);
            assert!(text.contains("Cancel") && text.contains("hot pot 50% off"), "{text}");
            assert!(!text.contains('#'), "{text}");
            if width == 60 {
                assert_screen(&format!("presenter_asks_{name}_60x15"), &text);
            }
        }
    }
    let snapshot = running();
    for (text, expected) in [
        ("stopping the load test on #7", "stopping the load test on hot pot 50% off"),
        ("#7 hot pot 50% off, 10 buyers", "hot pot 50% off, 10 buyers"),
        ("#70 and #7; # 1", "#70 and hot pot 50% off; # 1"),
    ] {
        assert_eq!(by_title(&snapshot, &[], text), expected);
    }
}

#[test]
fn a_countdown_uses_the_largest_digits() {
    let mut bench = Bench::new(normal());
    bench.keys("tL");
    bench.app.dialog = None;
    bench.keys("t2jjL");
    for _ in 0..4 {
        bench.press(crossterm::event::KeyCode::Tab);
    }
    bench.press(crossterm::event::KeyCode::Enter);
    bench.keys("yt");
    bench.app.now = NOW.plus(1_500);
    bench.app.status.key_pressed();
    assert!(!bench.text(120, 36).contains('#'), "no id");
    for (width, height) in [(200, 50), (60, 15)] {
        assert_screen(&format!("presenter_armed_{width}x{height}"), &bench.text(width, height));
    }
}

#[test]
fn the_outcome_is_shown_with_its_time() {
    let mut bench = Bench::new(before());
    bench.keys("t");
    let mut snapshot = running();
    snapshot.taken = NOW.plus(3_000);
    bench.show(snapshot);
    let mut snapshot = sold_out();
    snapshot.taken = NOW.plus(12_300);
    bench.show(snapshot.clone());
    snapshot.taken = NOW.plus(99_000);
    bench.show(snapshot.clone());
    let text = bench.text(120, 36);
    assert!(text.contains("sold of 8,000 in 12.3 s") && text.contains("oversold"), "{text}");
    assert_screen("presenter_result_120x36", &text);
    snapshot.sales[0].persisted = 8_003;
    bench.show(snapshot);
    assert!(bench.app.presenter.took_ms(VoucherId(7)) == Some(12_300));
}

#[test]
fn orders_in_flight_are_counted() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        let mut bench = Bench::new(running());
        bench.keys("t");
        for (width, height) in [(80, 24), (60, 15)] {
            assert!(bench.text(width, height).contains("1,332"), "{}", bench.text(width, height));
        }
        let mut many = running();
        many.audit = Balance::InFlight { orders: 1_234_567 };
        bench.show(many);
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let text = bench.text(width, height);
            assert!(text.contains("1,234,567"), "where it has no room in large signs: {text}");
        }
    }
}

#[test]
fn only_keys_that_do_something_are_offered() {
    let offered = |bench: &mut Bench| {
        let text = bench.text(120, 36);
        let keys = text.lines().last().unwrap().to_owned();
        ["L schedule", "F launch", "H stop"].map(|key| keys.contains(key))
    };
    let mut bench = Bench::new(running());
    bench.keys("t");
    assert_eq!(offered(&mut bench), [true, false, false], "nothing is armed");
    let rush = LoadTestLine { voucher_id: VoucherId(7), sent: 1, planned: 2 };
    bench.show(Snapshot { load_tests: vec![rush], ..running() });
    assert_eq!(offered(&mut bench), [true, false, true], "a rush can be halted");
    let mut bench = Bench::new(planned());
    bench.keys("tL");
    for _ in 0..4 {
        bench.press(crossterm::event::KeyCode::Tab);
    }
    bench.press(crossterm::event::KeyCode::Enter);
    bench.keys("y");
    assert_eq!(offered(&mut bench), [true, true, true], "a launch is scheduled");
    let mut bench = Bench::new(watched(running()));
    bench.keys("t");
    assert_eq!(offered(&mut bench), [false; 3], "commands are disabled");
}

#[test]
fn the_rush_message_ends_when_the_sale_is_sold_out() {
    let mut bench = Bench::new(running());
    bench.keys("t");
    bench.app.send(Command::LoadTest(LoadTest::new(VoucherId(7), 20_000)));
    assert!(bench.text(120, 36).contains("20,000 buyers are sending requests"));
    bench.show(running());
    assert!(bench.text(120, 36).contains("20,000 buyers are sending requests"));
    bench.show(sold_out());
    assert!(!bench.text(120, 36).contains("sending requests"), "{}", bench.text(120, 36));
    // The result of a sale without initial stock is not news.
    bench.app.send(Command::LoadTest(LoadTest::new(VoucherId(7), 1)));
    bench.show(sold_out());
    assert!(bench.text(120, 36).contains("1 buyer is sending requests"));
}

#[test]
fn ascii_is_ascii_and_no_colour_is_none() {
    for snapshot in [before(), running(), sold_out(), away()] {
        let mut bench = Bench::themed(snapshot, Theme::new(Depth::None, true));
        bench.keys("t");
        for (width, height) in SIZES {
            let buffer = bench.draw(width, height);
            for cell in &buffer.content {
                assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
                assert_eq!(cell.fg, ratatui::style::Color::Reset);
            }
        }
    }
    let mut bench = Bench::themed(running(), Theme::new(Depth::None, true));
    bench.keys("t");
    assert_screen("presenter_ascii_80x24", &bench.text(80, 24));
}

#[test]
fn no_id_and_no_user_is_shown() {
    for snapshot in [before(), running(), sold_out(), away(), normal(), read_only()] {
        let mut bench = Bench::new(snapshot);
        bench.keys("t");
        for (width, height) in SIZES {
            let text = bench.text(width, height);
            assert!(
                !text.contains('#') && !text.contains("user") && !text.contains("node-"),
                "{text}"
            );
        }
    }
}

#[test]
fn keys_toggle_presenter_mode() {
    let mut bench = Bench::new(normal());
    bench.keys("4t");
    assert!(bench.app.presenter.on);
    // Keys of the view below have no effect here.
    bench.keys("A");
    assert!(bench.sent().is_empty() && bench.app.dialog.is_none());
    bench.keys("t");
    assert!(!bench.app.presenter.on && bench.app.view == crate::views::View::Pending);
    bench.keys("t");
    let first = bench.app.presented();
    bench.keys("j");
    assert_ne!(bench.app.presented(), first);
    bench.press(crossterm::event::KeyCode::Esc);
    assert!(!bench.app.presenter.on);
    bench.keys(":presenter");
    bench.press(crossterm::event::KeyCode::Enter);
    assert!(bench.app.presenter.on);
    bench.keys(":");
    assert!(bench.text(120, 36).contains("schedule launch"), "{}", bench.text(120, 36));
}

#[test]
fn a_key_of_the_views_does_not_end_a_demo() {
    for (lang, expected) in [
        ("en", " works in the views; press t to leave presenter mode"),
        ("zh", " 用于普通视图，按 t 退出演示"),
    ] {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        bench.keys("4t");
        for key in ["1", "2", "3", "4", "5", "6", "7", "8", "0", "A", "x"] {
            bench.keys(key);
            assert!(bench.app.presenter.on && bench.app.dialog.is_none(), "{key}");
            assert_eq!(bench.said(), format!("{key}{expected}"));
        }
        bench.press(crossterm::event::KeyCode::Tab);
        assert!(bench.app.presenter.on, "{}", bench.said());
        assert_eq!(bench.app.view, crate::views::View::Pending);
        bench.keys("t2");
        assert_eq!(bench.app.view, crate::views::View::Sales);
    }
}

#[test]
fn the_keys_of_a_guide_leave_the_layout() {
    let mut bench = Bench::new(running());
    bench.app.on_story(story());
    assert!(bench.text(80, 24).contains("press  4  A  y"), "{}", bench.text(80, 24));
    bench.keys("t");
    assert!(bench.text(80, 24).contains("press  t  4  A  y"), "{}", bench.text(80, 24));
    bench.app.on_story(Story { key: Some("q".to_owned()), ..story() });
    assert!(bench.text(80, 24).contains("press  q"), "{}", bench.text(80, 24));
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
            let mut bench = Bench::new(snapshot);
            bench.keys("t");
            let text = bench.text(width, height);
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
fn a_number_in_a_title_stays_as_it_is() {
    let snapshot = || {
        let mut snapshot = normal();
        snapshot.sales = vec![
            sale(7, "Deal #7 or #8", Phase::Running, 8_000, 3_120),
            sale(8, "milk tea", Phase::Planned, 500, 500),
        ];
        snapshot.load_tests = vec![LoadTestLine { voucher_id: VoucherId(7), sent: 1, planned: 2 }];
        snapshot
    };
    let mut bench = Bench::new(snapshot());
    bench.keys("tH");
    let first = bench.text(120, 36);
    assert!(first.contains("│  Deal #7 or #8 "), "{first}");
    for _ in 0..3 {
        assert_eq!(bench.text(120, 36), first, "it is worded once");
    }
    // Nor in the title of a sale that does not exist yet.
    let mut bench = Bench::new(snapshot());
    bench.keys("tL");
    bench.press(crossterm::event::KeyCode::Home);
    bench.app.on_event(&crossterm::event::Event::Key(crossterm::event::KeyEvent::new(
        crossterm::event::KeyCode::Char('u'),
        crossterm::event::KeyModifiers::CONTROL,
    )));
    bench.keys("Best of #8");
    bench.press(crossterm::event::KeyCode::Tab);
    bench.keys("500");
    for _ in 0..3 {
        bench.press(crossterm::event::KeyCode::Tab);
    }
    bench.press(crossterm::event::KeyCode::Enter);
    let text = bench.text(120, 36);
    assert!(text.contains("'Best of #8' is created"), "{text}");
    bench.keys("y");
    assert!(
        bench.text(120, 36).contains("scheduled: new sale 'Best of #8'"),
        "{}",
        bench.text(120, 36)
    );
    bench.keys("Hy");
    let text = bench.text(120, 36);
    assert!(text.contains("cancelled: new sale 'Best of #8'"), "{text}");
}
