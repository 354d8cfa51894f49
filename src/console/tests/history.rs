//! Going back in time: moments in the chart, pages of the log, one sale over its time.

use std::sync::Arc;

use crossterm::event::KeyCode;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use seckill_engine::{
    command::{ReplayReport, Reply},
    event::{Event, Subject},
    outcome::CommandOutcome,
    telemetry::{
        Snapshot,
        log::{Act, LogPage, LogView, Recorded, Which},
        stock::Stocks,
    },
};
use seckill_model::{Message, SaleState, VoucherId, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, empty, normal, outage, overflowing, read_only, sql_away},
    screens::{SHOTS, Scene, assert_screen},
};
use crate::theme::{Depth, Theme};

fn line(
    id: i64,
    ago_s: i64,
    operator: &str,
    act: &str,
    subject: impl Into<Message>,
    result: impl Into<Message>,
) -> Recorded {
    let act = Act {
        at: NOW.plus(-ago_s * 1_000),
        operator: operator.to_owned(),
        node: "node-a".to_owned(),
        act: act.to_owned(),
        subject: subject.into(),
        result: result.into(),
        ..Act::default()
    };
    Recorded { id, act }
}

/// The newest lines of a log, newest first.
pub(super) fn log_lines() -> Vec<Recorded> {
    let outcome = |outcome: CommandOutcome| Message::of(&outcome);
    let event = |event: Event| Message::of(&event);
    let (digest, filter) = ("3f9a1c0b77de".to_owned(), String::new());
    let plan = Message::of(&Subject::Plan { entries: 86, digest, filter });
    let report = ReplayReport {
        planned: 86,
        seen: 86,
        persisted: 80,
        acknowledged: 6,
        ..ReplayReport::default()
    };
    let replayed = outcome(CommandOutcome::Done(Reply::Replayed(report)));
    let mut applied = line(7, 20, "kim", "pending apply", plan, replayed);
    let started = Reply::SaleChanged { voucher: VoucherId(7), state: SaleState::Running };
    let title = "hot pot 50% off".to_owned();
    let sale = Message::of(&Subject::NewSale {
        title,
        stock: 10_000,
        limit: None,
        begin: None,
        end: None,
    });
    applied.act.reason = Some("node-b was killed, and its buyers wait".to_owned());
    applied.act.before = Some(
        r#"{"stock":3120,"db_stock":3220,"admitted":6880,"persisted":6780,"undelivered":0,"pending":128,"dead":0,"audit":"in flight"}"#.to_owned(),
    );
    applied.act.after = Some(
        r#"{"stock":3120,"db_stock":3140,"admitted":6880,"persisted":6860,"undelivered":0,"pending":42,"dead":0,"audit":"in flight"}"#.to_owned(),
    );
    vec![
        line(8, 12, "kim", "sale end", "#8", outcome(CommandOutcome::Failed(sql_away()))),
        applied,
        line(6, 38, "-", "database back", "sqlite", event(Event::Lasted(7_500))),
        line(5, 42, "-", "alarm raised", "node-b/1", event(Event::DeadHolds(86))),
        line(4, 45, "-", "database away", "sqlite", "disk I/O error"),
        line(3, 110, "kim", "sale start", "#7", outcome(CommandOutcome::Done(started))),
        line(2, 4_000, "-", "node started", "node-a", "seckill 0.1.0"),
        // Written by an older version.
        line(1, 90_000, "lee", "sale create", sale, "sale #7"),
    ]
}

/// The stock of sale 7, with an outage.
pub(super) fn stocks() -> Stocks {
    let mut stocks = Stocks::default();
    for tick in 0..108_i64 {
        let at = NOW.plus((tick - 108) * 1_000);
        let left = (!(60..68).contains(&tick)).then_some(10_000 - tick * tick * 6_880 / 11_449);
        stocks.note(VoucherId(7), at, left);
    }
    stocks
}

/// A page of the log with `count` lines from number `first` on, a second apart.
fn page(look: LogView, first: i64, count: i64, older: bool) -> LogPage {
    let long = "a subject that no window holds ".repeat(9);
    let lines = (first..first + count).map(|id| {
        let ago = 3_000 - id;
        match id % 4 {
            0 => line(id, ago, "kim", "order pay", format!("{id}"), "paid"),
            1 => line(id, ago, "-", "alarm raised", "dead letters", "3 for review"),
            2 => line(id, ago, "-", "node started", "node-b", "seckill 0.1.0"),
            _ => line(id, ago, "锅锅锅锅锅锅锅", "sale create", long.as_str(), "\x1b[2J 火锅 🍲"),
        }
    });
    LogPage { view: look, taken: Some(NOW), older, lines: Arc::new(lines.collect()) }
}

fn read(look: LogView, first: i64, count: i64, older: bool) -> Snapshot {
    Snapshot { log: page(look, first, count, older), ..overflowing() }
}

fn crowded() -> Snapshot {
    read(LogView::default(), 2_000, 200, true)
}

pub(super) fn logged() -> Snapshot {
    let lines = Arc::new(log_lines().into_iter().rev().collect());
    let log = LogPage { taken: Some(NOW), lines, ..LogPage::default() };
    Snapshot { log, ..normal() }
}

const SCENES: [Scene; 5] = [
    ("empty", empty),
    ("normal", logged),
    ("overflowing", crowded),
    ("outage", outage),
    ("read_only", read_only),
];

#[test]
fn activity() {
    for (scene, snapshot) in SCENES {
        for (lang, width, height) in SHOTS {
            set_thread_language(lang);
            let tail = if lang == "zh" { "_zh" } else { "" };
            let mut bench = Bench::new(snapshot());
            bench.keys("0");
            assert_screen(
                &format!("activity_{scene}{tail}_{width}x{height}"),
                &bench.text(width, height),
            );
        }
    }
}

#[test]
fn a_line_in_full() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let mut bench = Bench::new(logged());
        bench.keys("0kl");
        assert_screen(&format!("activity_detail_{width}x{height}"), &bench.text(width, height));
    }
    set_thread_language("zh");
    let mut bench = Bench::new(logged());
    bench.keys("0kl");
    assert_screen("activity_detail_zh", &bench.text(120, 36));
}

#[test]
fn the_newest_line_is_followed_until_the_user_scrolls_back() {
    let mut bench = Bench::new(crowded());
    bench.keys("0");
    assert!(bench.app.log.follows());
    bench.show(read(LogView::default(), 2_010, 200, true));
    assert_eq!(bench.app.log.chosen(&bench.app.shown).map(|line| line.id), Some(2_209));
    bench.keys("kk");
    bench.show(read(LogView::default(), 2_015, 200, true));
    assert_eq!(bench.app.log.chosen(&bench.app.shown).map(|line| line.id), Some(2_207));
    assert!(bench.text(120, 36).contains("press End to follow"));
    bench.keys("G");
    assert!(bench.app.log.follows() && bench.text(120, 36).contains("following"));
    // At the end, the list follows again.
    bench.keys("kj");
    assert!(bench.app.log.follows());
}

#[test]
fn pages_lead_back_through_the_log_and_forward_again() {
    let mut bench = Bench::new(crowded());
    bench.keys("0gk");
    let asked = bench.focus.borrow().log.expect("a page");
    let place = crowded().log.lines[0].position();
    assert_eq!(asked, LogView { which: None, before: Some(place) });
    assert!(bench.text(120, 36).contains("reading"));
    bench.keys("k");
    assert_eq!(bench.focus.borrow().log, Some(asked), "one page at a time");
    bench.show(read(asked, 1_800, 200, false));
    assert_eq!(bench.app.log.chosen(&bench.app.shown).map(|line| line.id), Some(1_999));
    assert_screen("activity_older_page", &bench.text(120, 36));
    bench.keys("gk");
    assert_eq!(bench.said(), "this is the first row");
    bench.press(KeyCode::PageDown);
    for _ in 0..20 {
        bench.press(KeyCode::PageDown);
    }
    assert_eq!(bench.focus.borrow().log, Some(LogView::default()));
    bench.show(crowded());
    assert_eq!(bench.app.log.chosen(&bench.app.shown).map(|line| line.id), Some(2_000));
    bench.keys("1");
    assert_eq!(bench.focus.borrow().log, None, "the view is closed");
}

#[test]
fn a_frozen_log_turns_no_page() {
    let mut bench = Bench::new(crowded());
    bench.keys("0fgk");
    assert_eq!(bench.focus.borrow().log, Some(LogView::default()));
    assert!(!bench.said().is_empty());
}

#[test]
fn lines_are_filtered_by_level_and_text() {
    let mut bench = Bench::new(crowded());
    bench.keys("0v");
    let alarms = LogView { which: Some(Which::Events), before: None };
    assert_eq!(bench.focus.borrow().log, Some(alarms));
    bench.show(read(alarms, 2_000, 200, true));
    let text = bench.text(120, 36);
    assert!(text.contains("alarm raised") && !text.contains("node started"), "{text}");
    assert!(text.contains("50 of 200 on this page"), "{text}");
    bench.keys("v");
    let acts = LogView { which: Some(Which::Acts), before: None };
    assert_eq!(bench.focus.borrow().log, Some(acts));
    bench.keys("v/pay");
    bench.press(KeyCode::Enter);
    bench.show(crowded());
    let text = bench.text(120, 36);
    assert!(text.contains("order pay") && !text.contains("alarm raised"), "{text}");
    bench.press(KeyCode::Esc);
    assert!(bench.text(120, 36).contains("alarm raised"));
}

#[test]
fn the_live_log_is_shown_before_its_page_is_loaded() {
    let mut bench = Bench::new(normal());
    bench.keys("0");
    assert!(bench.text(120, 36).contains("sale end"));
}

#[test]
fn a_past_moment_is_shown_with_its_figures_and_time() {
    let mut bench = Bench::new(normal());
    bench.draw(120, 36);
    bench.keys("<<<");
    assert!(bench.app.frozen, "a running display is paused first");
    assert_screen("overview_moment_120x36", &bench.text(120, 36));
    assert_screen("overview_moment_80x24", &bench.text(80, 24));
    bench.press(KeyCode::Esc);
    assert!(bench.app.frozen && bench.app.overview.moment().is_none());
    bench.keys("<f");
    assert!(!bench.app.frozen && bench.app.overview.moment().is_none());
}

#[test]
fn events_on_the_chart_are_reached_and_shown() {
    let mut bench = Bench::new(normal());
    bench.draw(120, 36);
    bench.keys("[");
    assert!(bench.text(120, 36).contains("sale end  #8"));
    bench.keys("[");
    assert!(bench.text(120, 36).contains("pending apply  86 entries"));
    bench.keys("[[[");
    let text = bench.text(120, 36);
    assert!(text.contains("database away (sqlite)"), "{text}");
    assert_screen("overview_moment_outage", &text);
    bench.keys("[");
    assert!(bench.text(120, 36).contains("sale start  #7"));
    bench.keys("[");
    assert!(bench.said().contains("no earlier command or alarm"), "{}", bench.said());
    bench.keys("]]]]]]]");
    assert!(bench.said().contains("no later command or alarm"), "{}", bench.said());
}

#[test]
fn the_ends_of_the_chart_are_reported() {
    let mut bench = Bench::new(normal());
    bench.draw(120, 36);
    bench.keys("<>>");
    assert!(bench.said().contains("latest moment"), "{}", bench.said());
    for _ in 0..200 {
        bench.keys("<");
    }
    assert!(bench.said().contains("start of the chart"), "{}", bench.said());
    let mut bench = Bench::new(normal());
    bench.draw(60, 15);
    bench.keys("<");
    assert!(bench.said().contains("too small for the chart") && !bench.app.frozen);
}

#[test]
fn collection_continues_while_the_display_is_paused() {
    let mut bench = Bench::new(normal());
    bench.draw(120, 36);
    bench.keys("f");
    let before = bench.text(120, 36);
    let mut later = normal();
    later.taken = NOW.plus(5_000);
    let mut series = (*later.series).clone();
    series.push(seckill_engine::telemetry::Point {
        at: NOW.plus(5_000),
        admitted: Some(77_777.0),
        ..seckill_engine::telemetry::Point::default()
    });
    later.series = Arc::new(series);
    later.funnel.admitted.per_second = 77_777.0;
    bench.show(later);
    assert_eq!(bench.text(120, 36), before);
    bench.keys("f");
    assert!(bench.text(120, 36).contains("77,777/s"));
}

#[test]
fn the_chart_zooms_over_half_an_hour() {
    let mut bench = Bench::new(normal());
    for (keys, expected) in [("", "last 2 min"), ("+", "last 1 min"), ("+", "last 30 s")] {
        bench.keys(keys);
        assert!(bench.text(120, 36).contains(expected), "{expected}");
    }
    bench.keys("-----");
    assert!(bench.text(120, 36).contains("last 30 min"));
    bench.keys("-=");
    assert!(bench.text(120, 36).contains("last 2 min"));
}

#[test]
fn a_large_window_uses_its_room() {
    let mut bench = Bench::new(normal());
    assert_screen("overview_normal_200x50", &bench.text(200, 50));
    bench.keys("2jkl");
    assert_screen("sales_detail_200x50", &bench.text(200, 50));
    bench.keys("8");
    assert_screen("jobs_200x50", &bench.text(200, 50));
}

#[test]
fn a_moment_in_ascii_is_ascii() {
    let mut bench = Bench::themed(normal(), Theme::new(Depth::None, true));
    bench.draw(120, 36);
    for keys in ["[[", "2jkl", "0kl"] {
        bench.keys(keys);
        let text = bench.text(120, 36);
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn keys_of_time_and_of_the_log_never_panic_at_any_size() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let keys: Vec<char> = "0v<>[]f+-=kjgGl/h112 x".chars().collect();
    let scenes: [fn() -> Snapshot; 6] = [empty, normal, logged, crowded, outage, Snapshot::default];
    let mut bench = Bench::new(normal());
    for _ in 0..3_000 {
        match random.random_range(0..10) {
            0 => bench.press(KeyCode::Esc),
            1 => bench.press(KeyCode::PageUp),
            2 => {
                let mut snapshot = scenes[random.random_range(0..scenes.len())]();
                if random.random_bool(0.5)
                    && let Some(look) = bench.focus.borrow().log
                {
                    snapshot.log = page(look, random.random_range(0..3_000), 200, random.random());
                }
                bench.show(snapshot);
            }
            3 => {
                bench.draw(random.random_range(1..220), random.random_range(1..60));
            }
            _ => bench.keys(&keys[random.random_range(0..keys.len())].to_string()),
        }
    }
    assert!(bench.sent().is_empty());
}
