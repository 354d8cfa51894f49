//! Exports from the keyboard on: the menu, the content, and the messages.

use std::path::PathBuf;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use seckill_engine::telemetry::{Snapshot, snapshot::LetterPage};

use seckill_model::locale::set_thread_language;

use super::{
    fixture::{Bench, NOW, empty, normal, outage, overflowing, read_only},
    history::logged,
    ledger::audited,
    letters::poisoned,
    orders::sold,
    screens::assert_screen,
    stream::flowing,
};
use crate::{
    app::App,
    dialogs::Dialog,
    export::{Export, ExportError, Written},
    theme::{Depth, Palette, Theme},
    views::{self, Extent},
};

fn made(bench: &mut Bench) -> Vec<Export> {
    std::mem::take(&mut bench.app.exports)
}

/// The result of one key of the menu in a view, drawn at 80x24.
fn export(snapshot: Snapshot, keys: &str, letter: char) -> String {
    let mut bench = Bench::new(snapshot);
    bench.keys(keys);
    bench.draw(80, 24);
    bench.keys("x");
    bench.press(KeyCode::Char(letter));
    assert!(bench.app.dialog.is_none(), "{keys} {letter}");
    let [export] = <[Export; 1]>::try_from(made(&mut bench)).unwrap();
    export.body
}

#[test]
fn the_menu() {
    for (name, snapshot, keys) in [
        ("table", normal as fn() -> Snapshot, "4x"),
        ("no_table", normal, "1x"),
        ("empty", empty, "4x"),
    ] {
        let mut bench = Bench::new(snapshot());
        bench.app.export_dir =
            Some(PathBuf::from("/var/tmp/a/rather/long/way/to/the/last/directory"));
        bench.draw(80, 24);
        bench.keys(keys);
        assert_screen(&format!("export_{name}_80x24"), &bench.text(80, 24));
    }
    let mut bench = Bench::new(normal());
    bench.keys("4x");
    assert_screen("export_table_120x36", &bench.text(120, 36));
    assert_screen("export_table_60x15", &bench.text(60, 15));
    set_thread_language("zh");
    let text = bench.text(80, 24);
    assert!(text.contains("表格，CSV") && text.contains("写入 当前目录"), "{text}");
}

#[test]
fn the_cursor_keeps_to_what_there_is() {
    let mut bench = Bench::new(normal());
    bench.draw(80, 24);
    bench.keys("1x");
    for _ in 0..3 {
        bench.press(KeyCode::Down);
    }
    bench.press(KeyCode::Enter);
    let shown = made(&mut bench);
    assert_eq!(shown.len(), 1);
    assert!(shown[0].body.starts_with(" seckill"), "the first line again");
    bench.keys("xc");
    assert!(made(&mut bench).is_empty());
    assert_eq!(bench.said(), "there are no rows to export; export the screen instead");
    bench.keys("x");
    bench.press(KeyCode::Esc);
    assert!(bench.app.dialog.is_none() && made(&mut bench).is_empty());
}

#[test]
fn a_table_holds_every_row_that_the_filter_lets_through() {
    let rows = |snapshot: Snapshot, keys: &str| {
        let text = export(snapshot, keys, 'c');
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let head = lines.remove(0);
        (head, lines)
    };
    let (head, lines) = rows(overflowing(), "4");
    assert!(lines.len() > 40, "more than are seen: {}", lines.len());
    assert!(
        head.starts_with("entry,age_ms,idle_ms,tries,order,user,sale,holder,verdict"),
        "{head}"
    );
    let mut bench = Bench::new(overflowing());
    bench.keys("4");
    bench.draw(80, 24);
    let all = bench.app.shown.pending.lines.len();
    assert_eq!(lines.len(), all, "each row once");
    for view in ["2", "5", "6", "8"] {
        let (head, lines) = rows(overflowing(), view);
        assert!(!head.is_empty() && !lines.is_empty(), "{view}");
        let cells = head.split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() >= cells), "{view}: {lines:?}");
    }
    let mut bench = Bench::new(normal());
    bench.keys("2/hot");
    bench.press(KeyCode::Enter);
    bench.draw(80, 24);
    bench.keys("xc");
    let shown = made(&mut bench);
    assert_eq!(shown[0].body.lines().count(), 2, "{}", shown[0].body);
}

/// A table, a snapshot that has one, and its keys.
type Table = (&'static str, fn() -> Snapshot, &'static str);

const TABLES: [Table; 10] = [
    ("sales", normal, "2"),
    ("stream", flowing, "3"),
    ("consumers", flowing, "3c"),
    ("pending", normal, "4"),
    ("letters", poisoned, "5"),
    ("locks", normal, "6"),
    ("orders", sold, "7"),
    ("jobs", normal, "8"),
    ("ledger", audited, "9"),
    ("activity", logged, "0"),
];

#[test]
fn a_copied_row_equals_the_exported_row() {
    for (name, snapshot, keys) in TABLES {
        let document = export(snapshot(), keys, 'j');
        let read: serde_json::Value = serde_json::from_str(&document).unwrap();
        let mut bench = Bench::new(snapshot());
        bench.keys(keys);
        bench.draw(80, 24);
        bench.keys("jw");
        let copied = bench.app.clipboard.take().unwrap_or_default();
        let row: serde_json::Value = serde_json::from_str(&copied).unwrap_or_default();
        let named = |it: &serde_json::Value| it.as_object().map(|it| it.keys().cloned().collect());
        let [theirs, ours]: [Option<Vec<String>>; 2] = [named(&read["rows"][0]), named(&row)];
        assert_eq!(ours, theirs, "every column of {name}: {copied}");
        let rows = read["rows"].as_array().unwrap();
        assert!(rows.contains(&row), "{name}: {copied}");
        bench.keys("y");
        let id = bench.app.clipboard.take().expect("an id");
        assert!(name == "activity" || copied.contains(&id), "{name}: {id} is chosen: {copied}");
    }
    // On the Overview the chosen sale is copied, also one that a filter of the sales hides.
    let mut bench = Bench::new(normal());
    bench.keys("2/noodles");
    bench.press(KeyCode::Enter);
    bench.keys("1jw");
    let copied = bench.app.clipboard.take().unwrap_or_default();
    bench.keys("y");
    let id = bench.app.clipboard.take().expect("an id");
    assert!(copied.starts_with(&format!(r#"{{"id":"{id}","title":"#)), "{id}: {copied}");
    assert_eq!(bench.app.sales.table.controls.filter.value(), "noodles");
}

#[test]
fn values_are_exact_in_every_table() {
    for (name, snapshot, keys) in TABLES {
        let whole = export(snapshot(), keys, 'c');
        let first: Vec<&str> = whole.lines().take(5).collect();
        let document = export(snapshot(), keys, 'j');
        let read: serde_json::Value = serde_json::from_str(&document).unwrap();
        let one = serde_json::to_string_pretty(&read["rows"][0]).unwrap();
        assert_screen(&format!("export_of_{name}"), &format!("{}\n\n{one}", first.join("\n")));
        for row in read["rows"].as_array().unwrap() {
            for (column, value) in row.as_object().unwrap() {
                let is_id = ["id", "entry", "letter", "order", "user", "sale", "token"]
                    .contains(&column.as_str());
                assert!(!(is_id && value.is_number()), "{name}: {column} {value}");
                let is_span = column.ends_with("_ms");
                assert!(!(is_span && value.is_string()), "{name}: {column} {value}");
            }
        }
    }
}

/// The reader of a file does not know the display language.
#[test]
fn files_and_copies_are_the_same_in_every_language() {
    let in_each = |text: &dyn Fn() -> String| {
        ["en", "zh"].map(|lang| {
            set_thread_language(lang);
            text()
        })
    };
    for (name, snapshot, keys) in TABLES {
        for letter in ['c', 'j'] {
            let [english, chinese] = in_each(&|| export(snapshot(), keys, letter));
            assert_eq!(chinese, english, "{name} {letter}");
        }
        let [english, chinese] = in_each(&|| {
            let mut bench = Bench::new(snapshot());
            bench.keys(keys);
            bench.draw(80, 24);
            bench.keys("jw");
            bench.app.clipboard.take().unwrap_or_default()
        });
        assert_eq!(chinese, english, "{name} w");
    }
    for (snapshot, keys) in [(overflowing as fn() -> Snapshot, "4"), (outage, "6"), (outage, "8")] {
        let [english, chinese] = in_each(&|| export(snapshot(), keys, 'j'));
        assert_eq!(chinese, english, "{keys}");
    }
}

/// Omissions and order are those of the screen.
#[test]
fn a_file_follows_filter_and_order_in_the_display_language() {
    set_thread_language("zh");
    let ids = |keys: &str| {
        let mut bench = Bench::new(normal());
        bench.draw(80, 24);
        bench.keys(keys);
        bench.draw(80, 24);
        bench.keys("xj");
        let read: serde_json::Value = serde_json::from_str(&made(&mut bench)[0].body).unwrap();
        let rows = read["rows"].as_array().unwrap().clone();
        rows.iter().map(|it| format!("{} {}", it["id"], it["phase"])).collect::<Vec<_>>()
    };
    let (rising, mut falling) = (ids("2o"), ids("2or"));
    assert_ne!(rising, falling);
    falling.reverse();
    assert_eq!(rising, falling);
    let mut bench = Bench::new(normal());
    bench.keys("2/");
    bench.app.on_event(&Event::Paste("已售罄".to_owned()));
    bench.press(KeyCode::Enter);
    bench.draw(80, 24);
    bench.keys("xj");
    let read: serde_json::Value = serde_json::from_str(&made(&mut bench)[0].body).unwrap();
    assert_eq!(read["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(read["rows"][0]["phase"], "sold_out");
}

#[test]
fn an_empty_table_has_its_head() {
    let nothing = || {
        let mut snapshot = empty();
        snapshot.entries = flowing().entries;
        snapshot.entries.lines = std::sync::Arc::default();
        snapshot.orders = sold().orders;
        snapshot.orders.lines = std::sync::Arc::default();
        snapshot.orders.more = false;
        snapshot.log = logged().log;
        snapshot.log.lines = std::sync::Arc::default();
        snapshot.log.taken = Some(NOW);
        snapshot
    };
    for (name, snapshot, keys) in TABLES.into_iter().filter(|(name, ..)| *name != "consumers") {
        let head = |csv: &str| csv.lines().next().unwrap_or_default().replace("mark,", "");
        let csv = export(nothing(), keys, 'c');
        assert_eq!(csv.lines().count(), 1, "{name}: {csv}");
        assert_eq!(head(&csv), head(&export(snapshot(), keys, 'c')), "{name}");
        let document = export(nothing(), keys, 'j');
        let read: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(read["rows"].as_array().map(Vec::len), Some(0), "{name}");
    }
}

#[test]
fn a_table_of_which_only_a_page_is_loaded_says_so() {
    let shown = |snapshot: Snapshot, keys: &str| {
        let read: serde_json::Value = serde_json::from_str(&export(snapshot, keys, 'j')).unwrap();
        (read["total"].as_u64(), read["more"].as_bool().unwrap())
    };
    let pending = overflowing().stream.unwrap().pending;
    assert_eq!(shown(overflowing(), "4"), (Some(pending), true));
    assert_eq!(shown(poisoned(), "5"), (Some(9), false));
    assert_eq!(shown(sold(), "7"), (None, true));
    assert_eq!(shown(flowing(), "3"), (Some(6_880), true));
    assert_eq!(shown(flowing(), "3c"), (Some(3), false));
    let mut bench = Bench::new(flowing());
    bench.keys("3x");
    assert!(bench.text(80, 24).contains("200 of 6,880 rows"), "{}", bench.text(80, 24));
}

#[test]
fn letters_that_were_not_read_are_no_empty_table() {
    let mut snapshot = poisoned();
    (snapshot.sql.up, snapshot.letters) = (false, LetterPage::default());
    let mut bench = Bench::new(snapshot);
    bench.draw(80, 24);
    bench.keys("5xc");
    assert!(made(&mut bench).is_empty(), "{}", bench.said());
    assert_eq!(bench.said(), "there are no rows to export; export the screen instead");
}

#[test]
fn a_masked_user_stays_masked_until_it_is_shown() {
    let user = |keys: &str| {
        let read: serde_json::Value = serde_json::from_str(&export(sold(), keys, 'j')).unwrap();
        read["rows"][0]["user"].as_str().unwrap_or_default().to_owned()
    };
    assert!(user("7").starts_with("***"), "{}", user("7"));
    assert!(user("7u").bytes().all(|digit| digit.is_ascii_digit()), "{}", user("7u"));
}

#[test]
fn an_export_changes_nothing_of_what_is_seen() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4");
    bench.draw(80, 24);
    for _ in 0..30 {
        bench.press(KeyCode::Down);
    }
    let before = bench.text(80, 24);
    bench.keys("xj");
    made(&mut bench);
    bench.keys("z");
    let after = bench.text(80, 24);
    let without_answer = |text: &str| text.lines().take(20).collect::<Vec<_>>().join("\n");
    assert_eq!(without_answer(&before), without_answer(&after));
}

#[test]
fn an_image_can_be_exported_over_a_question() {
    let mut bench = Bench::new(normal());
    bench.draw(80, 24);
    bench.keys("2jkE");
    let control = KeyEvent::new(KeyCode::Char('x'), KeyModifiers::CONTROL);
    bench.app.on_event(&Event::Key(control));
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))), "the question stands");
    assert!(bench.sent().is_empty());
    let rows = made(&mut bench);
    assert!(rows[0].body.contains("Cancel"), "{}", rows[0].body);
}

#[test]
fn the_outcome_is_reported() {
    let mut bench = Bench::new(read_only());
    let written = |rows| Ok(Written { path: PathBuf::from("/var/tmp/seckill-sales.csv"), rows });
    bench.app.on_saved(written(None));
    assert!(bench.said().contains("written to /var/tmp/seckill-sales.csv"));
    bench.app.on_saved(written(Some((500, Extent { total: Some(12_340), more: true }))));
    assert!(bench.said().contains("500 of 12,340 rows written to"), "{}", bench.said());
    bench.app.on_saved(Err(ExportError::BrokenOff));
    assert!(bench.said().contains("the export failed; try again"));
    set_thread_language("zh");
    bench.app.on_saved(Err(ExportError::BrokenOff));
    assert!(bench.said().contains("导出失败"), "{}", bench.said());
}

/// Every view, with every theme and depth, in ASCII: no glyph that breaks under other widths.
#[test]
fn ascii_is_ascii_in_every_view() {
    let ours = |c: char| !c.is_ascii() && !('\u{2e80}'..='\u{ffef}').contains(&c);
    for snapshot in [empty, normal, overflowing, outage, read_only] {
        let mut bench = Bench::themed(snapshot(), Theme::new(Depth::Ansi16, true));
        for keys in ["1", "2l", "h4l", "h5l", "h6l", "h8l", "h2x", "t:", "?"] {
            bench.keys(keys);
            for (width, height) in [(120, 36), (80, 24), (60, 15)] {
                let text = bench.text(width, height);
                let found = text.lines().find(|line| line.chars().any(ours));
                assert_eq!(found, None, "{keys} at {width}x{height}");
            }
            if bench.app.dialog.is_some() {
                bench.press(KeyCode::Esc);
            }
        }
    }
}

fn contrasts(app: &mut App, width: u16, height: u16) -> Vec<String> {
    use ratatui::{buffer::Buffer, layout::Rect, style::Color};
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    views::paint(app, &mut buffer);
    let same = |cell: &&ratatui::buffer::Cell| {
        cell.symbol() != " " && cell.fg == cell.bg && cell.fg != Color::Reset
    };
    buffer.content.iter().filter(same).map(|cell| cell.symbol().to_owned()).collect()
}

#[test]
fn no_theme_hides_a_sign() {
    for name in ["dark", "light", "high-contrast"] {
        let palette = Palette::load(name).unwrap();
        for depth in [Depth::None, Depth::Ansi16, Depth::Ansi256, Depth::True] {
            let mut bench = Bench::themed(outage(), Theme::of(&palette, depth, false));
            for keys in ["1", "2j", "4j", "5", "6", "8", "f", "N"] {
                bench.keys(keys);
                let hidden = contrasts(&mut bench.app, 120, 36);
                assert!(hidden.is_empty(), "{name} {depth:?} {keys}: {hidden:?}");
            }
        }
    }
}
