//! The pending list in a rush: entries come and go with each snapshot, and nothing else moves.

use crossterm::event::{Event, KeyCode};
use seckill_engine::telemetry::{Snapshot, census::Census, snapshot::PendingPage};

use seckill_model::locale::set_thread_language;

use super::fixture::{Bench, NOW, normal, page};

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
            let mut bench = Bench::new(holding(0, 7));
            bench.keys("4");
            let first = bench.text(size.0, size.1);
            let shown = row(&first, none).unwrap_or_else(|| panic!("{first}"));
            let at = row(&first, head).unwrap_or_else(|| panic!("{first}"));
            assert_eq!(shown, at + 1, "{first}");
            let bars = row(&first, oldest);
            assert_eq!(bars.is_some(), size.1 > 15, "{first}");
            for count in [3, 0, 1] {
                bench.show(holding(count, 9));
                let text = bench.text(size.0, size.1);
                assert_eq!(row(&text, head), Some(at), "{text}");
                assert_eq!(row(&text, oldest), bars, "{text}");
                assert_eq!(row(&text, none).is_some(), count == 0, "{text}");
            }
        }
    }
}

#[test]
fn the_tab_counts_what_the_list_shows() {
    let mut bench = Bench::new(holding(3, 7));
    bench.keys("4");
    let tab = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
    let text = bench.text(120, 36);
    assert!(tab(&text).contains("Pending 3 ") && text.contains("1–3 of 3"), "{text}");
    bench.show(holding(0, 7));
    let text = bench.text(120, 36);
    assert!(!tab(&text).contains("Pending 7"), "{text}");
    // Without an open list the stats counts.
    bench.show(Snapshot { pending: PendingPage::default(), census: None, ..holding(0, 7) });
    bench.keys("1");
    assert!(tab(&bench.text(120, 36)).contains("Pending 7 "));
}

#[test]
fn an_older_count_shows_its_time() {
    let mut long = holding(700, 700);
    long.census.as_mut().unwrap().taken = NOW.plus(-1_400);
    let mut bench = Bench::new(long);
    bench.keys("4");
    let text = bench.text(120, 36);
    assert!(text.contains("1 s old"), "{text}");
    bench.show(holding(499, 499));
    let text = bench.text(120, 36);
    assert!(!text.contains(" s old"), "{text}");
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
        let mut bench = Bench::new(holding(0, 7));
        bench.keys("4");
        bench.keys(key);
        assert_eq!(bench.said(), expected, "{key}");
        assert!(bench.sent().is_empty());
    }
}

#[test]
fn a_long_filter_is_repeated_in_short() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for view in ["2", "3", "4", "5", "6", "7", "8", "0"] {
            let mut bench = Bench::new(holding(3, 3));
            bench.keys(view);
            bench.keys("/");
            bench.app.on_event(&Event::Paste("x".repeat(1_000)));
            bench.press(KeyCode::Enter);
            let text = bench.text(80, 24);
            let filled = text.lines().filter(|line| line.contains("xxxxxxxx")).count();
            assert!(filled <= 2, "{view}: {text}");
        }
    }
}

#[test]
fn only_the_labels_of_a_detail_are_secondary_text() {
    let mut bench = Bench::new(normal());
    bench.keys("4");
    bench.draw(120, 36);
    bench.press(KeyCode::Enter);
    let text = bench.text(120, 36);
    let y = text.lines().position(|line| line.starts_with(" order ")).unwrap() as u16;
    let buffer = bench.draw(120, 36);
    let soft = bench.app.theme.soft().fg;
    assert_eq!(Some(buffer[(1, y)].fg), soft, "{text}");
    assert_ne!(Some(buffer[(16, y)].fg), soft, "{text}");
}
