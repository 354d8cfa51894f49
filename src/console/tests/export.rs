//! Exports from the keyboard on: the menu, the content, and the messages.

use super::prelude::*;
use crate::{export::Export, theme::Palette, views::Extent};

fn made(tui: &mut Tui) -> Vec<Export> {
    std::mem::take(&mut tui.app.terminal.exports)
}

/// The result of one key of the menu in a view, drawn at 80x24.
fn export(snapshot: Snapshot, keys: &str, letter: char) -> String {
    let mut tui = Tui::open(snapshot, keys);
    tui.draw(80, 24);
    tui.press(&format!("x{letter}"));
    assert!(tui.app.dialog.is_none(), "{keys} {letter}");
    let [export] = <[Export; 1]>::try_from(made(&mut tui)).unwrap();
    export.body
}

fn read(snapshot: Snapshot, keys: &str) -> serde_json::Value {
    serde_json::from_str(&export(snapshot, keys, 'j')).unwrap()
}

#[test]
fn what_has_no_rows_is_reported() {
    let mut tui = Tui::new(normal());
    tui.draw(80, 24);
    tui.press("1x↓↓↓\n").assert_status("there are no rows to export; export the screen instead");
    tui.press("x↓↓↓↓↓\n");
    let shown = made(&mut tui);
    assert_eq!(shown.len(), 1);
    assert!(shown[0].body.starts_with(" seckill"), "the first line again");
    tui.press("xc");
    assert!(made(&mut tui).is_empty());
    tui.assert_status("there are no rows to export; export the screen instead");
    tui.press("x\x1b").assert_idle();
    assert!(made(&mut tui).is_empty());
    // Letters that were not read are no empty table.
    let mut tui = Tui::open(letters::unread(), "5xc");
    assert!(made(&mut tui).is_empty(), "{}", tui.status());
    tui.assert_status("there are no rows to export; export the screen instead");
}

#[test]
fn a_table_holds_every_row_that_the_filter_lets_through() {
    for view in ["2", "4", "5", "6", "8"] {
        let text = export(overflowing(), view, 'c');
        let (head, rows) = text.split_once("\r\n").expect("a head");
        let cells = head.split(',').count();
        assert!(!rows.is_empty(), "{view}");
        assert!(rows.lines().all(|line| line.split(',').count() >= cells), "{view}: {rows}");
    }
    let pending = export(overflowing(), "4", 'c');
    assert!(pending.starts_with("entry,age_ms,idle_ms,tries,order,user_masked,sale"));
    // Each row once, and not only the visible ones.
    assert_eq!(pending.lines().count(), 1 + overflowing().pending.lines.len());
    let filtered = export(normal(), "2/hot\n", 'c');
    assert_eq!(filtered.lines().count(), 2, "{filtered}");
}

/// Each table, a snapshot that fills it, and its keys.
pub(super) const TABLES: [Case; 11] = [
    ("sales", normal, "2"),
    ("stream", with_stream, "3"),
    ("consumers", with_stream, "3c"),
    ("pending", normal, "4"),
    ("letters", with_letters, "5"),
    ("locks", normal, "6"),
    ("orders", with_orders, "7"),
    ("jobs", normal, "8"),
    ("ledger", with_findings, "9"),
    ("activity", with_log, "0"),
    ("http", normal, "s"),
];

#[test]
fn a_copied_row_equals_the_exported_row() {
    for (name, snapshot, keys) in TABLES {
        let read = read(snapshot(), keys);
        let mut tui = Tui::open(snapshot(), keys);
        tui.draw(80, 24);
        let copied = tui.press("jw").copied();
        let row: serde_json::Value = serde_json::from_str(&copied).unwrap_or_default();
        let named = |it: &serde_json::Value| it.as_object().map(|it| it.keys().cloned().collect());
        let [theirs, ours]: [Option<Vec<String>>; 2] = [named(&read["rows"][0]), named(&row)];
        assert_eq!(ours, theirs, "every column of {name}: {copied}");
        let rows = read["rows"].as_array().unwrap();
        assert!(rows.contains(&row), "{name}: {copied}");
        let id = tui.press("y").copied();
        assert!(!id.is_empty());
        assert!(name == "activity" || copied.contains(&id), "{name}: {id} is chosen: {copied}");
    }
    // On the Overview the chosen sale is copied, also one that a filter of the sales hides.
    let mut tui = Tui::open(normal(), "2/noodles\n1jw");
    let [copied, id] = [tui.copied(), tui.press("y").copied()];
    assert!(copied.starts_with(&format!(r#"{{"id":"{id}","title":"#)), "{id}: {copied}");
    assert_eq!(tui.app.views.sales.table.controls.filter.value(), "noodles");
}

#[test]
fn values_are_exact_in_every_table() {
    let mut texts = Vec::new();
    for (name, snapshot, keys) in TABLES {
        let whole = export(snapshot(), keys, 'c');
        let first: Vec<&str> = whole.lines().take(3).collect();
        let read = read(snapshot(), keys);
        let one = serde_json::to_string_pretty(&read["rows"][0]).unwrap();
        texts.push((name.to_owned(), format!("{}\n\n{one}", first.join("\n"))));
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
    assert_screens("exports", texts);
}

/// The reader of a file does not know the display language.
#[test]
fn files_and_copies_are_the_same_in_every_language() {
    let others = [("", overflowing as fn() -> Snapshot, "4"), ("", outage, "6"), ("", outage, "8")];
    for (name, snapshot, keys) in TABLES.into_iter().chain(others) {
        let [english, chinese] = ["en", "zh"].map(|lang| {
            set_thread_language(lang);
            let mut tui = Tui::open(snapshot(), keys);
            tui.draw(80, 24);
            let copied = tui.press("jw").copied();
            [export(snapshot(), keys, 'c'), export(snapshot(), keys, 'j'), copied]
        });
        assert_eq!(chinese, english, "{name} {keys}");
    }
}

/// Omissions and order are those of the screen.
#[test]
fn a_file_follows_filter_and_order_in_the_display_language() {
    set_thread_language("zh");
    let ids = |keys: &str| {
        let read = read(normal(), keys);
        let rows = read["rows"].as_array().unwrap().iter();
        rows.map(|it| format!("{} {}", it["id"], it["phase"])).collect::<Vec<_>>()
    };
    let (rising, mut falling) = (ids("2o"), ids("2or"));
    assert_ne!(rising, falling);
    falling.reverse();
    assert_eq!(rising, falling);
    let read = read(normal(), "2/已售罄\n");
    assert_eq!(read["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(read["rows"][0]["phase"], "sold_out");
}

#[test]
fn an_empty_table_has_its_head() {
    let nothing = || {
        let (entries, orders) = (stream::nothing().entries, orders::none().orders);
        let log = Page { taken: Some(NOW), ..Page::default() };
        let ledger = LedgerPage::of(NOW, vec![], vec![]);
        Snapshot { entries, orders, log, ledger, ..empty() }
    };
    for (name, snapshot, keys) in TABLES.into_iter().filter(|(name, ..)| *name != "consumers") {
        let head = |csv: &str| csv.lines().next().unwrap_or_default().replace("mark,", "");
        let csv = export(nothing(), keys, 'c');
        assert_eq!(csv.lines().count(), 1, "{name}: {csv}");
        assert_eq!(head(&csv), head(&export(snapshot(), keys, 'c')), "{name}");
        assert_eq!(read(nothing(), keys)["rows"].as_array().map(Vec::len), Some(0), "{name}");
    }
}

#[test]
fn a_table_of_which_only_a_page_is_loaded_says_so() {
    let shown = |snapshot: Snapshot, keys: &str| {
        let read = read(snapshot, keys);
        (read["total"].as_u64(), read["more"].as_bool().unwrap())
    };
    let pending = overflowing().stream.unwrap().pending;
    assert_eq!(shown(overflowing(), "4"), (Some(pending), true));
    assert_eq!(shown(with_letters(), "5"), (Some(9), false));
    assert_eq!(shown(with_orders(), "7"), (None, true));
    assert_eq!(shown(with_stream(), "3"), (Some(6_880), true));
    assert_eq!(shown(with_stream(), "3c"), (Some(3), false));
    Tui::open(with_stream(), "3x").at((80, 24)).assert_shows("200 of 6,880 rows");
}

#[test]
fn an_export_changes_nothing_of_what_is_seen() {
    let mut tui = Tui::open(overflowing(), "4");
    tui.draw(80, 24);
    tui.press(&"↓".repeat(30));
    let before = tui.screen_at(80, 24);
    tui.press("xj");
    made(&mut tui);
    let after = tui.press("z").screen_at(80, 24);
    // Without the answer.
    assert_eq!(inner(&before, 0, 4), inner(&after, 0, 4));
}

#[test]
fn an_image_can_be_exported_over_a_question() {
    let mut tui = Tui::open(normal(), "2jkE");
    tui.control('x');
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))), "the question stays open");
    assert_eq!(tui.sent(), []);
    assert!(made(&mut tui)[0].body.contains("Cancel"));
}

#[test]
fn the_outcome_is_reported() {
    let written = |rows| Ok((PathBuf::from("/var/tmp/seckill-sales.csv"), rows));
    let part = Extent { rows: 500, total: Some(12_340), more: true };
    for (saved, expected) in [
        (written(None), "written to /var/tmp/seckill-sales.csv"),
        (written(Some(part)), "500 of 12,340 rows written to"),
        (Err(ExportError::BrokenOff), "the export failed; try again"),
    ] {
        let mut tui = Tui::new(read_only());
        tui.app.on_saved(saved);
        tui.assert_status_contains(expected);
    }
    for (_, why) in languages().zip(["(no such file or directory)", "（文件或目录不存在）"])
    {
        let mut tui = Tui::new(normal());
        let missing = io::Error::from_raw_os_error(2);
        tui.app.on_saved(Err(ExportError::Unwritable("/a/7".into(), missing)));
        tui.assert_shows(why);
    }
}

#[test]
fn no_theme_hides_a_sign() {
    for name in ["dark", "light", "high-contrast"] {
        let palette = Palette::load(name).unwrap();
        for depth in [Depth::None, Depth::Ansi16, Depth::Ansi256, Depth::True] {
            let mut tui = Tui::themed(outage(), Theme::of(&palette, depth, false));
            for keys in ["1", "2j", "4j", "5", "6", "8", "f", "N"] {
                tui.press(keys);
                let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 36));
                frame::paint(&mut tui.app, &mut buffer);
                // A symbol in the colour of its background.
                let mut cells = buffer.content.iter().filter(|cell| cell.symbol() != " ");
                let hidden = cells.find(|cell| cell.fg == cell.bg && cell.fg != Color::Reset);
                assert_eq!(hidden, None, "{name} {depth:?} {keys}");
            }
        }
    }
}
