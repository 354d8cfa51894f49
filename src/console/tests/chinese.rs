//! Every view and dialog in Chinese: nothing is truncated, and nothing is left in English.

use super::prelude::*;
use super::screens::{every_screen, opened};

/// Truncated texts: in the dialog if one is open, as it covers arbitrary parts of the view.
fn truncated(tui: &mut Tui, (width, height): (u16, u16)) -> usize {
    let buffer = match &mut tui.app.dialog {
        Some(dialog) => {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            let area = buffer.area;
            dialog.draw(area, &mut buffer, &tui.app.display);
            buffer
        }
        None => tui.draw(width, height),
    };
    buffer.content.iter().filter(|cell| cell.symbol() == "…").count()
}

/// Chinese text is narrower, so a column or a button that fits in English fits in Chinese.
#[test]
fn no_more_is_truncated_in_chinese_than_in_english() {
    for (name, snapshot, keys) in every_screen() {
        for size in [(120, 36), (80, 24), (60, 15)] {
            let [english, chinese] = ["en", "zh"].map(|lang| {
                set_thread_language(lang);
                truncated(&mut opened(snapshot(), keys), size)
            });
            assert!(chinese <= english, "{name} at {size:?}");
        }
        let mut tui = opened(snapshot(), keys);
        if tui.app.dialog.is_some() {
            tui.assert_shows("[ 取消 ]");
        }
    }
}

#[test]
fn the_palette_finds_both_names() {
    set_thread_language("zh");
    for wanted in ["freeze", "冻结"] {
        let mut tui = Tui::open(normal(), ":");
        tui.paste(wanted.to_owned());
        tui.press("\n");
        assert!(tui.app.display.frozen, "{wanted}");
    }
}

/// Latin words that are not texts of the console: names, units, input, and data of the snapshot.
const NAMES: &[&str] = &[
    "Redis", "redis", "sqlite", "SQL", "sql", "ID", "UTC", "Tab", "Enter", "Esc", "Space", "XACK",
    "XCLAIM", "INSERT", "INTO", "on", "seckill", "audit", "ms", "kim", "lee", "max", "PgUp",
    "PgDn", "Home", "End", "CSV", "JSON", "SVG", "ANSI", "job", "every", "order",
    "recount", // A line of an older version.
    "sale",    // Titles and errors of servers.
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
    for (state, snapshot) in [("normal", normal as fn() -> Snapshot), ("outage", outage)] {
        for view in view_keys() {
            for detail in ["", "l"] {
                let mut tui = opened(snapshot(), &format!("{view}{detail}"));
                assert_eq!(english(&tui.screen()), [""; 0], "{state} {view}{detail}");
            }
        }
    }
    // ASCII glyphs leave text unchanged.
    let text = Tui::themed(normal(), Theme::new(Depth::None, true)).screen();
    assert!(text.contains("待确认") && !text.contains(['─', '█', '●', '→']), "{text}");
}
