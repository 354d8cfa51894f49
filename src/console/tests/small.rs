//! The smallest window: Enter opens in every view, or explains why it does not.

use super::prelude::*;

type Opens = (&'static str, fn() -> Snapshot, [&'static str; 2]);

/// The keys of a view, a snapshot with rows, and a text that only its detail shows.
const OPENS: [Opens; 8] = [
    ("2jk", normal, ["initial stock", "总库存"]),
    ("3k", with_stream, ["user ", "用户"]),
    ("4", normal, ["holder", "持有者"]),
    ("5", with_letters, ["was entry", "原消息"]),
    ("6", normal, ["owner", "持有标识"]),
    ("7j", with_orders, ["buyer", "买家"]),
    ("8", normal, ["HISTORY", "运行历史"]),
    ("0k", with_log, ["when", "时间"]),
];

fn guide() -> GuidePage {
    GuidePage {
        title: "A consumer dies".to_owned(),
        text: "node-b was killed in the middle of its batch; nothing is lost. ".repeat(2),
        key: Some("4".to_owned()),
        countdown: None,
        done: false,
    }
}

#[test]
fn enter_opens_in_every_view() {
    for (lang, of) in [("en", 0), ("zh", 1)] {
        set_thread_language(lang);
        for shown in [GuidePage::default(), guide()] {
            for (keys, snapshot, words) in OPENS {
                let word = words[of];
                let mut tui = Tui::new(snapshot());
                tui.app.on_guide(shown.clone());
                let before = tui.press(keys).screen_at(60, 15);
                let open = tui.press("\n").screen_at(60, 15);
                let rule = |text: &str| text.contains("──────────");
                assert!(rule(&open) && !rule(&before), "{keys}: {open}");
                let body: Vec<&str> = open.lines().skip(3).collect();
                assert!(body.join("\n").contains(word), "{keys}, {word}: {open}");
                tui.press("h");
                assert_eq!(tui.screen_at(60, 15), before, "{keys}");
            }
        }
    }
}

#[test]
fn a_sale_is_shown_in_full() {
    let mut snapshot = normal();
    snapshot.sales = vec![sale(7, "hot pot", Phase::Running, 10_000_000, 9_876_543)];
    for (width, height) in [(60, 15), (60, 30), (71, 24), (72, 24), (80, 15)] {
        let mut tui = Tui::open(snapshot.clone(), "2l");
        let text = tui.screen_at(width, height);
        let way = text.lines().find(|line| line.contains("→ persisted")).unwrap();
        assert!(way.ends_with("123,437") || way.ends_with("123,437 99.9%"), "{way}");
        for figure in ["9,876,543", "9,876,563", "10,000,000", "802/s", "until 11:10"] {
            let shown = text.lines().skip(4).any(|line| line.contains(figure));
            assert!(shown, "{width}x{height}, {figure}: {text}");
        }
    }
}

#[test]
fn a_consumer_without_detail_is_reported() {
    let mut tui = Tui::open(with_stream(), "3c\n");
    tui.assert_status("a consumer has no details beyond its row");
    tui.press("c");
    assert!(!tui.app.views.stream.entries.controls.detail);
}
