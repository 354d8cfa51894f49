//! The same screens in Chinese: every view, the help, the palette, each question and each form.

use crossterm::event::{Event, KeyCode};
use ratatui::{buffer::Buffer, layout::Rect};
use seckill_engine::{
    command::{Command, Reply},
    error::SqlReason,
    telemetry::{
        Snapshot,
        alarms::alarms,
        data_loss::RecentLosses,
        read_error::ReadError,
        snapshot::{Alarm, AlarmKind, Urgency},
    },
};
use seckill_model::{ForeignKey, Message, NO_NUMBER, Phase, locale::set_thread_language};

use super::{
    alarms::{full, sql_away},
    fixture::{Bench, NOW, empty, normal, outage, overflowing, read_only, rushing},
    letters::{letters_counted, poisoned, under_way},
    screens::{assert_screen, plan_of},
};
use crate::theme::{Depth, Theme};

type Scene = (&'static str, fn() -> Snapshot);
type Opened = (&'static str, fn() -> Snapshot, &'static str);

const SIZES: [(u16, u16); 2] = [(120, 36), (80, 24)];
const SIZES_OF_VIEWS: [(u16, u16); 3] = [SIZES[0], SIZES[1], (60, 15)];
const SCENES: [Scene; 5] = [
    ("empty", empty),
    ("normal", poisoned),
    ("overflowing", overflowing),
    ("outage", outage),
    ("read_only", read_only),
];
const VIEWS: [(&str, &str); 6] = [
    ("overview", "1"),
    ("sales", "2"),
    ("pending", "4"),
    ("letters", "5"),
    ("locks", "6"),
    ("jobs", "8"),
];
/// What is opened, by its keys, on which snapshot.
const OPENED: [Opened; 28] = [
    ("help", normal, "?"),
    ("palette", normal, ":"),
    ("sales_detail", normal, "2jkl"),
    ("pending_detail", normal, "4 l"),
    ("letters_detail", poisoned, "5jl"),
    ("locks_detail", normal, "6jl"),
    ("jobs_detail", normal, "8l"),
    ("form_sale", normal, "N"),
    ("form_rush", normal, "2jkR"),
    ("confirm_start", normal, "2jjS"),
    ("confirm_pause", normal, "2jkP"),
    ("confirm_resume", paused, "2jkP"),
    ("confirm_end", normal, "2jkE"),
    ("confirm_rush", normal, "2jkR\n\n"),
    ("confirm_replay_marked", normal, "4  A"),
    ("confirm_replay_all", normal, "4A"),
    ("confirm_letters_replay", poisoned, "5*R"),
    ("confirm_letters_discard", poisoned, "5*D"),
    ("confirm_letters_give_back", poisoned, "5*C"),
    ("confirm_letters_marked", poisoned, "5  D"),
    ("confirm_break_off", under_way, "5X"),
    ("confirm_release", normal, "6jX"),
    ("confirm_run_job", normal, "8T"),
    ("confirm_pause_job", normal, "8P"),
    ("confirm_resume_job", normal, "8jP"),
    ("confirm_quit", rushing, "q"),
    ("read_only", read_only, "N"),
    ("no_match", normal, "2/x\n"),
];

/// The active sale is paused.
fn paused() -> Snapshot {
    let mut snapshot = normal();
    for sale in snapshot.sales.iter_mut().filter(|sale| sale.phase == Phase::Running) {
        sale.phase = Phase::Paused;
    }
    snapshot
}

fn opened(snapshot: Snapshot, keys: &str) -> Bench {
    let mut bench = Bench::new(snapshot);
    for key in keys.chars() {
        if key == '\n' {
            bench.press(KeyCode::Enter);
        } else {
            bench.keys(&key.to_string());
        }
    }
    match bench.sent().as_slice() {
        [Command::Plan(scope)] => bench.answer(Ok(Reply::Planned(plan_of(scope)))),
        [Command::CountLetters(_)] => {
            bench.answer(Ok(Reply::LettersCounted(letters_counted())));
        }
        _ => {}
    }
    bench
}

/// Truncated texts: in the dialog if one is open, as it covers arbitrary parts of the view.
fn cut(bench: &mut Bench, (width, height): (u16, u16)) -> usize {
    let theme = bench.app.theme;
    let buffer = match &mut bench.app.dialog {
        Some(dialog) => {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            let area = buffer.area;
            dialog.draw(area, &mut buffer, theme);
            buffer
        }
        None => bench.draw(width, height),
    };
    buffer.content.iter().filter(|cell| cell.symbol() == "…").count()
}

/// Each screen in both languages; what is truncated in Chinese has to be truncated in English as well.
fn both(name: &str, snapshot: fn() -> Snapshot, keys: &str, sizes: &[(u16, u16)]) {
    for &(width, height) in sizes {
        let read = |lang| {
            set_thread_language(lang);
            let mut bench = opened(snapshot(), keys);
            (bench.text(width, height), cut(&mut bench, (width, height)))
        };
        let (_, english) = read("en");
        let (chinese, cut) = read("zh");
        assert!(cut <= english, "{name}: {chinese}");
        // Where widths matter: views, and the dialogs with columns.
        let aligned = ["_normal", "_detail", "_all", "form_sale", "help", "palette"];
        if (width, height) == (80, 24) && aligned.iter().any(|end| name.ends_with(end)) {
            assert_screen(&format!("{name}_zh_{width}x{height}"), &chinese);
        }
    }
}

#[test]
fn every_view() {
    for (view, key) in VIEWS {
        for (scene, snapshot) in SCENES {
            both(&format!("{view}_{scene}"), snapshot, key, &SIZES_OF_VIEWS);
        }
    }
}

#[test]
fn all_that_opens() {
    for (name, snapshot, keys) in OPENED {
        both(name, snapshot, keys, &SIZES);
    }
}

#[test]
fn each_dialog_names_its_target() {
    set_thread_language("zh");
    for (name, snapshot, keys) in OPENED {
        if name.starts_with("confirm_") || name.starts_with("form_") {
            let text = opened(snapshot(), keys).text(120, 36);
            assert!(text.contains("[ 取消 ]"), "{name}: {text}");
        }
    }
}

#[test]
fn frozen() {
    set_thread_language("zh");
    let mut bench = Bench::new(rushing());
    bench.keys("f");
    bench.show(empty());
    bench.app.now = NOW.plus(12_000);
    for (width, height) in SIZES {
        assert_screen(&format!("frozen_zh_{width}x{height}"), &bench.text(width, height));
    }
}

#[test]
fn every_alarm() {
    set_thread_language("zh");
    let mut snapshot = normal();
    let place = "127.0.0.1:6379".to_owned();
    let error = Message::of(&ReadError::RedisSilent(place, 1_500));
    let away = Message::of(&sql_away(SqlReason::Quoted("disk I/O error".to_owned())));
    let kinds = [
        AlarmKind::RedisAway { error },
        AlarmKind::SqlAway { error: away },
        AlarmKind::SqlLocked { waiting: Some(86) },
        AlarmKind::DeadConsumer {
            consumer: "node-x".to_owned(),
            known: false,
            pending: 86,
            idle_ms: 42_000,
        },
        AlarmKind::LagHigh { lag: 20_000, drains_ms: None },
        AlarmKind::LagHigh { lag: 20_000, drains_ms: Some(600_000) },
        AlarmKind::JobFailed { job: "close-overdue".to_owned(), ago_ms: 42_000 },
        AlarmKind::RedisReadOnly { error: full() },
        AlarmKind::ForeignKey(ForeignKey {
            key: "seckill:{p0}:buyers:1204".to_owned(),
            holds: "string".to_owned(),
        }),
        AlarmKind::ForeignKey(ForeignKey {
            key: "lock:job:close-overdue".to_owned(),
            holds: NO_NUMBER.to_owned(),
        }),
        AlarmKind::NoGroup,
        AlarmKind::DataLoss {
            losses: RecentLosses {
                at: NOW,
                keys: Vec::new(),
                buyers: 12,
                promised: 0,
                refused: 0,
                unknown: 0,
                archived: 0,
            },
            pending: 0,
        },
        AlarmKind::DataLoss {
            losses: RecentLosses {
                at: NOW,
                keys: Vec::new(),
                buyers: 12,
                promised: 18,
                refused: 0,
                unknown: 0,
                archived: 0,
            },
            pending: 6,
        },
        AlarmKind::DataLoss {
            losses: RecentLosses {
                at: NOW,
                keys: Vec::new(),
                buyers: 1_200,
                promised: 0,
                refused: 3,
                unknown: 0,
                archived: 0,
            },
            pending: 6,
        },
        AlarmKind::ServerBack { server: "redis 7.0.15".to_owned(), away_ms: 12_000 },
    ];
    let mut seen = Vec::new();
    for kind in kinds {
        snapshot.alarms = vec![Alarm { urgency: Urgency::Warning, kind }];
        let text = Bench::new(snapshot.clone()).text(80, 24);
        let shown = text.lines().skip_while(|line| !line.contains("告警")).take(4);
        seen.extend(shown.map(str::to_owned));
    }
    snapshot.alarms = alarms(&snapshot, None);
    assert_screen("alarms_zh", &seen.join("\n"));
}

#[test]
fn a_form_reports_invalid_fields() {
    set_thread_language("zh");
    let mut bench = Bench::new(normal());
    bench.keys("N");
    bench.app.on_event(&Event::Paste("火锅五折 🍲\n".to_owned()));
    bench.press(KeyCode::Tab);
    bench.keys("0");
    for _ in 0..3 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::Enter);
    assert_screen("form_sale_fault_zh", &bench.text(80, 24));
}

#[test]
fn the_palette_finds_both_names() {
    set_thread_language("zh");
    for wanted in ["freeze", "冻结"] {
        let mut bench = Bench::new(normal());
        bench.keys(":");
        bench.app.on_event(&Event::Paste(wanted.to_owned()));
        bench.press(KeyCode::Enter);
        assert!(bench.app.frozen, "{wanted}");
    }
}

#[test]
fn ascii_glyphs_leave_text_unchanged() {
    set_thread_language("zh");
    let text = Bench::themed(normal(), Theme::new(Depth::None, true)).text(120, 36);
    assert!(text.contains("待确认") && !text.contains(['─', '█', '●', '→']), "{text}");
}

/// Latin words that are not texts of the console: names, units, input, and data of the snapshot.
const NAMES: &[&str] = &[
    "Redis", "redis", "sqlite", "SQL", "sql", "ID", "UTC", "Tab", "Enter", "Esc", "Space", "XACK",
    "XCLAIM", "INSERT", "INTO", "on", "seckill", "audit", "ms", "kim", "lee", "max", "PgUp",
    "PgDn", "Home", "End", "CSV", "JSON", "SVG", "ANSI", "job", "every", "order", "recount",
    // A line of an older version.
    "sale", // Titles and errors of servers.
    "hot", "pot", "off", "milk", "tea", "cinema", "ticket", "noodles", "disk", "error",
];

/// Words in Latin letters that are not names. Words with digits or symbols are IDs.
pub(super) fn english(screen: &str) -> Vec<String> {
    let apart = |sign: char| {
        sign.is_whitespace() || !sign.is_ascii() || ['(', ')', ',', '\'', '"'].contains(&sign)
    };
    let words = screen.split(apart).map(|word| word.trim_matches(['.', ':', ';', '[', ']', '/']));
    let words = words.filter(|it| it.len() > 1 && it.chars().all(|c| c.is_ascii_alphabetic()));
    words.filter(|it| !NAMES.contains(it)).map(str::to_owned).collect()
}

#[test]
fn no_view_has_english_on_it() {
    set_thread_language("zh");
    let scenes: [Scene; 2] = [("normal", normal), ("outage", outage)];
    let mut faults = Vec::new();
    for (scene, snapshot) in scenes {
        for view in "1234567890".chars() {
            for detail in ["", "l"] {
                let mut bench = opened(snapshot(), &format!("{view}{detail}"));
                let found = english(&bench.text(120, 36));
                if !found.is_empty() {
                    faults.push(format!("{scene} {view}{detail}: {found:?}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
