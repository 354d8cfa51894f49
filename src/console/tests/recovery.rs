//! The views of recovery: who is shown in them, and that an act goes to what was meant or to nothing.

use std::sync::Arc;

use crossterm::event::KeyCode;

use super::{
    fixture::{Bench, normal},
    letters::poisoned,
};
use crate::{
    console::views,
    telemetry::Snapshot,
};

/// Users 1000 to 1127 hold what is pending and dead; each text names one of them.
fn told() -> Snapshot {
    let mut picture = poisoned();
    for line in &mut picture.pending.lines {
        line.fault = line.user.map(|user| format!("buyer {user} holds order 9 already"));
    }
    for line in Arc::make_mut(&mut picture.letters.lines) {
        line.reason = match line.user {
            Some(user) => format!("buyer {user} holds order 9 for voucher 7 already"),
            None => "field userId holds '1001x', which is no such number".to_owned(),
        };
        for burial in &mut line.history {
            burial.reason.clone_from(&line.reason);
        }
    }
    picture
}

/// Whether a number of one of those users stands in it.
fn names_one(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|it| it.parse::<u64>().ok()).any(|it| (1_000..1_128).contains(&it))
}

#[test]
fn users_are_masked_in_every_view_until_asked() {
    for (view, rows) in [("4", 128), ("5", 9)] {
        for row in 0..rows.min(9) {
            let mut bench = Bench::new(told());
            bench.keys(view);
            bench.keys(&"j".repeat(row));
            for keys in ["", "\n"] {
                if keys == "\n" {
                    bench.press(KeyCode::Enter);
                }
                for width in [80, 120, 200] {
                    let text = bench.text(width, 50);
                    assert!(!names_one(&text), "view {view}, {width}\n{text}");
                }
            }
            assert!(bench.text(200, 50).contains("***0"), "{}", bench.text(200, 50));
        }
        let mut bench = Bench::new(told());
        bench.keys(view);
        let sheet = views::sheet(&mut bench.app).map(|sheet| format!("{:?}", sheet.rows));
        assert!(!names_one(&sheet.unwrap_or_default()));
        bench.keys("u");
        assert_eq!(bench.said(), "users are shown");
        assert!(names_one(&bench.text(200, 50)));
        bench.keys("7u");
        assert_eq!(bench.said(), "users are masked", "one switch for all views");
    }
}

#[test]
fn a_copy_names_no_user() {
    for view in ["4", "5"] {
        let mut bench = Bench::new(told());
        bench.keys(view);
        bench.keys("jjuw");
        let copied = bench.app.clipboard.take().unwrap_or_default();
        assert!(copied.contains("holds order 9") && !names_one(&copied), "{copied}");
    }
}

#[test]
fn a_filter_finds_a_user_that_is_masked() {
    let mut bench = Bench::new(normal());
    bench.keys("4/1005");
    bench.press(KeyCode::Enter);
    let text = bench.text(120, 36);
    assert!(text.contains("***05"), "{text}");
}
