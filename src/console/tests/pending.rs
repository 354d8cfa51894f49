//! The pending list in a load test: entries come and go with each snapshot, and nothing else moves.

use super::prelude::*;

/// This many are pending when the list is read; the stats saw `counted`.
fn holding(count: u64, counted: u64) -> Snapshot {
    let mut snapshot = normal();
    snapshot.pending = page(0, count);
    snapshot.stream.as_mut().unwrap().pending = counted;
    let ages = [0, 0, count, 0, 0];
    let census = Census { taken: NOW, counted: count, whole: true, ages, tries: [count, 0, 0] };
    snapshot.census = Some(census);
    snapshot
}

/// The line of the screen that contains a text.
fn row(text: &str, of: &str) -> Option<usize> {
    text.lines().position(|line| line.contains(of))
}

#[test]
fn the_layout_stays_while_entries_come_and_go() {
    for (lang, head, none, oldest) in [
        ("en", "HOLDER", "No pending entries", "age > 10 min"),
        ("zh", "持有者", "没有待确认", "时长 > 10 分"),
    ] {
        set_thread_language(lang);
        for size in [(200, 50), (120, 36), (80, 24), (60, 15)] {
            let mut tui = Tui::open(holding(0, 7), "4");
            let first = tui.screen_at(size.0, size.1);
            let shown = row(&first, none).unwrap_or_else(|| panic!("{first}"));
            let at = row(&first, head).unwrap_or_else(|| panic!("{first}"));
            assert_eq!(shown, at + 1, "{first}");
            let bars = row(&first, oldest);
            assert_eq!(bars.is_some(), size.1 > 15, "{first}");
            for count in [3, 0, 1] {
                tui.show(holding(count, 9));
                let text = tui.screen_at(size.0, size.1);
                assert_eq!(row(&text, head), Some(at), "{text}");
                assert_eq!(row(&text, oldest), bars, "{text}");
                assert_eq!(row(&text, none).is_some(), count == 0, "{text}");
            }
        }
    }
}

#[test]
fn the_tab_counts_what_the_list_shows() {
    let mut tui = Tui::open(holding(3, 7), "4");
    let tab = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
    let text = tui.screen();
    assert!(tab(&text).contains("Pending 3 ") && text.contains("1–3 of 3"), "{text}");
    tui.show(holding(0, 7));
    let text = tui.screen();
    assert!(!tab(&text).contains("Pending 7"), "{text}");
    // Without an open list the stats counts.
    tui.show(Snapshot { pending: PendingPage::default(), census: None, ..holding(0, 7) });
    tui.press("1");
    assert!(tab(&tui.screen()).contains("Pending 7 "));
}

#[test]
fn an_older_count_shows_its_time() {
    let mut long = holding(700, 700);
    long.census.as_mut().unwrap().taken = NOW.plus(-1_400);
    let mut tui = Tui::open(long, "4");
    tui.assert_shows("1 s old");
    tui.show(holding(499, 499));
    tui.assert_hides(" s old");
}

#[test]
fn keys_without_pending_entries_are_explained() {
    // The stats ran shortly before the list was read.
    for (key, expected) in [
        ("A", "there are no pending entries to plan for"),
        ("y", "no pending entries"),
        ("w", "no pending entries"),
        ("l", "no pending entries"),
    ] {
        let mut tui = Tui::open(holding(0, 7), "4");
        assert_eq!(tui.press(key).status(), expected, "{key}");
        assert!(tui.sent().is_empty());
    }
}

#[test]
fn a_long_filter_is_repeated_in_short() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for view in ["2", "3", "4", "5", "6", "7", "8", "0"] {
            let mut tui = Tui::open(holding(3, 3), view);
            tui.press("/");
            tui.paste("x".repeat(1_000));
            let text = tui.press("\n").screen_at(80, 24);
            let filled = text.lines().filter(|line| line.contains("xxxxxxxx")).count();
            assert!(filled <= 2, "{view}: {text}");
        }
    }
}

#[test]
fn only_the_labels_of_a_detail_are_secondary_text() {
    let mut tui = Tui::open(normal(), "4");
    tui.draw(120, 36);
    let text = tui.press("\n").screen();
    let y = text.lines().position(|line| line.starts_with(" order ")).unwrap() as u16;
    let buffer = tui.draw(120, 36);
    let soft = tui.app.display.theme.soft.fg;
    assert_eq!(Some(buffer[(1, y)].fg), soft, "{text}");
    assert_ne!(Some(buffer[(16, y)].fg), soft, "{text}");
}
