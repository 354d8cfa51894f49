//! Every view in every state and size, as text; styles are tested separately.

use crossterm::event::{Event, KeyCode};
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use seckill_engine::{
    EngineError,
    command::{Command, ReplayReport, Reply, Scope},
    plan::{Plan, made_up},
    telemetry::{Snapshot, alarms::alarms, snapshot::Back},
};
use seckill_model::{Phase, Verdict};

use super::fixture::{Bench, NOW, empty, entry, normal, outage, overflowing, read_only, rushing};
use crate::{
    guide_banner::Story,
    theme::{Depth, Theme},
};

pub(super) fn assert_screen(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

pub(super) type Scene = (&'static str, fn() -> Snapshot);

/// Languages and sizes of a screen.
pub(super) const SHOTS: [(&str, u16, u16); 3] = [("en", 120, 36), ("en", 60, 15), ("zh", 80, 24)];

const SCENES: [Scene; 5] = [
    ("empty", empty),
    ("normal", normal),
    ("overflowing", overflowing),
    ("outage", outage),
    ("read_only", read_only),
];

fn every_scene(view: &str, key: char) {
    for (scene, snapshot) in SCENES {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut bench = Bench::new(snapshot());
            bench.keys(&key.to_string());
            let text = bench.text(width, height);
            if scene == "normal" || (width, height) == (80, 24) {
                assert_screen(&format!("{view}_{scene}_{width}x{height}"), &text);
            }
        }
    }
}

#[test]
fn overview() {
    every_scene("overview", '1');
}

#[test]
fn sales() {
    every_scene("sales", '2');
}

#[test]
fn pending() {
    every_scene("pending", '4');
}

#[test]
fn locks() {
    every_scene("locks", '6');
}

#[test]
fn jobs() {
    every_scene("jobs", '8');
}

#[test]
fn a_server_that_came_back_is_noticed() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let mut snapshot = empty();
        snapshot.redis.back = Some(Back { at: NOW, after_ms: 12_000 });
        snapshot.alarms = alarms(&snapshot, None);
        let text = Bench::new(snapshot).text(width, height);
        assert!(text.contains("redis 7.0.15 is reachable again after 12 s"), "{text}");
    }
}

#[test]
fn details_and_dialogs() {
    let shots: [(&str, &str); 14] = [
        ("locks_detail", "6jl"),
        ("confirm_release", "6jX"),
        ("jobs_detail", "8l"),
        ("confirm_run_job", "8T"),
        ("confirm_resume_job", "8jP"),
        ("sales_detail", "2jkl"),
        ("pending_detail", "4 l"),
        ("confirm_end", "2jkE"),
        ("confirm_replay_marked", "4  A"),
        ("confirm_replay_all", "4A"),
        ("form_sale", "N"),
        ("form_rush", "2jkR"),
        ("palette", ":"),
        ("help", "?"),
    ];
    for (name, keys) in shots {
        for (width, height) in [(120, 36), (80, 24)] {
            let mut bench = Bench::new(normal());
            bench.keys(keys);
            if let [Command::Plan(scope)] = bench.sent().as_slice() {
                bench.answer(Ok(Reply::Planned(plan_of(scope))));
            }
            let text = bench.text(width, height);
            // Dialogs depend on the size only where they have columns.
            if width == 80 || name.ends_with("_detail") || name == "help" {
                assert_screen(&format!("{name}_{width}x{height}"), &text);
            }
        }
    }
}

/// A plan of two marked entries, or of a whole list with something of each kind.
pub(super) fn plan_of(scope: &Scope) -> Plan {
    let verdict = |number: u64| match (scope, number % 40) {
        (Scope::Entries(_), _) => Verdict::Stuck,
        (_, 3) => Verdict::Malformed,
        (_, 9) => Verdict::BodyGone,
        (_, 10..15) => Verdict::InHand,
        (_, 20..25) => Verdict::Written,
        _ => Verdict::Stuck,
    };
    let (count, filter) = match scope {
        Scope::Entries(_) => (2, "2 entries by name"),
        Scope::All(_) => (128, ""),
    };
    let entries: Vec<_> = (0..count).map(|number| (entry(number), verdict(number))).collect();
    made_up::plan(&entries, filter)
}

#[test]
fn a_form_shows_its_faults_and_wide_text() {
    let mut bench = Bench::new(normal());
    bench.keys("N");
    bench.app.on_event(&Event::Paste("火锅五折 🍲\n".to_owned()));
    bench.press(KeyCode::Tab);
    bench.keys("0");
    for _ in 0..3 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::Enter);
    assert_screen("form_sale_fault", &bench.text(80, 24));
}

#[test]
fn entries_of_partitions_are_not_truncated() {
    let mut spread = normal();
    for line in &mut spread.pending.lines {
        line.entry.partition = (line.entry.number % 64) as u16;
    }
    let mut bench = Bench::new(spread);
    bench.keys("4G");
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let text = bench.text(width, height);
        assert!(text.contains("1794999958000-127@63  "), "{text}");
        assert!(text.contains("node-b/1"), "{text}");
    }
}

#[test]
fn an_archived_sale_is_over() {
    let mut snapshot = normal();
    for sale in &mut snapshot.sales {
        sale.phase = Phase::Archived;
        sale.stock = None;
    }
    let mut bench = Bench::new(snapshot);
    for view in ["1", "2"] {
        bench.keys(view);
        let text = bench.text(120, 36);
        assert!(text.contains("archived") && !text.contains("ends in"), "{text}");
    }
    bench.keys("jE");
    assert!(bench.said().contains("has ended"), "{}", bench.said());
}

#[test]
fn a_resumed_display_shows_the_newest_snapshot() {
    let mut bench = Bench::new(rushing());
    bench.keys("f");
    bench.show(empty());
    bench.app.now = NOW.plus(12_000);
    assert!(bench.text(120, 36).contains("hot pot"));
    bench.keys("f");
    assert!(!bench.text(120, 36).contains("hot pot"));
}

#[test]
fn the_guide_and_its_countdown() {
    let mut bench = Bench::new(normal());
    bench.app.on_story(Story {
        title: "A consumer dies".to_owned(),
        text: "node-b was killed in the middle of its batch; its orders hang between Redis \
               and SQL. Nothing is lost."
            .to_owned(),
        key: Some("4".to_owned()),
        countdown: Some(3),
        done: false,
    });
    assert_screen("story_120x36", &bench.text(120, 36));
    assert_screen("story_80x24", &bench.text(80, 24));
}

#[test]
fn a_message_or_a_filter_is_never_mixed_with_a_long_guide() {
    let last_lines = |bench: &mut Bench| {
        let text = bench.text(60, 15);
        text.lines().rev().skip(1).take(3).map(|it| it.trim().to_owned()).collect::<Vec<_>>()
    };
    let mut bench = Bench::new(normal());
    bench.app.on_story(Story {
        title: "SOLD OUT".to_owned(),
        text: "Every piece is sold, none twice. The consumer now resumes and catches up, a thousand orders per \
               transaction."
            .to_owned(),
        ..Story::default()
    });
    assert_eq!(last_lines(&mut bench)[0], "per transaction.", "the guide has three lines");
    bench.keys("0N");
    let message = bench.app.status.shown().unwrap().1.to_owned();
    assert_eq!(last_lines(&mut bench)[0], message);
    bench.press(KeyCode::Esc);
    bench.keys("/redis");
    assert_eq!(last_lines(&mut bench)[0], "/redis");
}

#[test]
fn ascii_mode_draws_nothing_else() {
    let mut bench = Bench::themed(normal(), Theme::new(Depth::None, true));
    let text = bench.text(120, 36);
    assert!(text.is_ascii(), "{text}");
    assert_screen("overview_ascii", &text);
    bench.keys("4 A");
    let text = bench.text(120, 36);
    let beyond: Vec<char> = text.chars().filter(|c| !c.is_ascii()).collect();
    assert!(beyond.is_empty(), "{beyond:?}: {text}");
}

#[test]
fn a_small_window_says_so_and_a_large_one_restores() {
    let mut bench = Bench::new(normal());
    let before = bench.text(120, 36);
    assert_screen("too_small_20x5", &bench.text(20, 5));
    for width in 1..=90 {
        for height in 1..=30 {
            bench.draw(width, height);
        }
    }
    assert_eq!(bench.text(120, 36), before);
}

#[test]
fn no_escape_of_a_title_reaches_the_terminal() {
    let mut bench = Bench::new(overflowing());
    for key in ["1", "2", "4", "5", "l", "6", "8"] {
        bench.keys(key);
        let buffer = bench.draw(200, 50);
        let clean = |cell: &Cell| !cell.symbol().contains(char::is_control);
        assert!(buffer.content.iter().all(clean));
    }
}

/// The cells of the first occurrence of a text.
fn find<'b>(buffer: &'b Buffer, text: &str) -> Option<&'b Cell> {
    let width = usize::from(buffer.area.width);
    let wanted: Vec<String> = text.chars().map(String::from).collect();
    buffer.content.chunks(width).find_map(|row| {
        let at = row.windows(wanted.len()).position(|cells| {
            cells.iter().zip(&wanted).all(|(cell, wanted)| cell.symbol() == wanted)
        })?;
        row.get(at)
    })
}

#[test]
fn colour_shows_state() {
    let mut bench = Bench::new(outage());
    let buffer = bench.draw(120, 36);
    let colour = |text: &str| find(&buffer, text).map(|cell| cell.fg);
    let theme = bench.app.theme;
    assert_eq!(colour("RUNNING"), theme.good().fg);
    assert_eq!(colour("✖    42 s"), theme.bad().fg);
    assert_eq!(colour("redis    42 s old"), theme.warn().fg);
    assert_eq!(colour("cinema ticket"), Some(Color::Reset));
    bench.keys("2f");
    let buffer = bench.draw(120, 36);
    let chosen = find(&buffer, "cinema ticket  ").map(|cell| cell.modifier);
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    assert!(chosen.is_some());
    let frozen = find(&buffer, "FROZEN").map(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert_eq!(frozen, Some(true));
}

#[test]
fn without_colour_no_cell_has_one_and_the_choice_is_seen() {
    let mut bench = Bench::themed(outage(), Theme::new(Depth::None, false));
    for key in ["1", "2", "6", "8", "5", "4", "A", "n", "2", "N"] {
        bench.keys(key);
        let buffer = bench.draw(120, 36);
        let plain = |cell: &Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
        assert!(buffer.content.iter().all(plain), "{key}");
    }
    bench.press(KeyCode::Esc);
    let buffer = bench.draw(120, 36);
    let reversed = buffer.content.iter().filter(|cell| cell.modifier == Modifier::REVERSED);
    assert!(reversed.count() > 100);
}

#[test]
fn results_are_shown_and_errors_stay() {
    let mut bench = Bench::new(normal());
    let plan_and_confirm = |bench: &mut Bench, keys: &str| {
        bench.keys(keys);
        assert_eq!(bench.sent().len(), 1);
        let plan = made_up::plan(&[(entry(1), Verdict::Stuck)], "");
        bench.answer(Ok(Reply::Planned(plan)));
        bench.keys("y");
        assert_eq!(bench.sent().len(), 1);
    };
    plan_and_confirm(&mut bench, "4A");
    let report =
        ReplayReport { seen: 128, persisted: 120, acknowledged: 8, ..ReplayReport::default() };
    bench.answer(Ok(Reply::Replayed(report)));
    let said = "✔ 128 entries: 120 written, 8 acknowledged, 0 dead letters, 0 left";
    assert_eq!(bench.said(), said);
    plan_and_confirm(&mut bench, "A");
    bench.answer(Err(EngineError::Plan("redis does not answer; try again".to_owned())));
    bench.keys("j");
    assert_eq!(bench.said(), "✖ redis does not answer; try again (Esc to dismiss)");
    bench.press(KeyCode::Esc);
    assert_eq!(bench.said(), "");
}
