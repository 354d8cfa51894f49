//! Every view while the display is paused and the engine goes on: it shows the snapshot and its age.

use seckill_model::locale::set_thread_language;

use super::{
    fixture::{Bench, NOW, empty, normal},
    history::logged,
    ledger::audited,
    letters::poisoned,
    orders::sold,
    screens::{SHOTS, Scene, assert_screen},
    stream::flowing,
};
use crate::text;

const VIEWS: [(Scene, char); 10] = [
    (("overview", normal), '1'),
    (("sales", normal), '2'),
    (("stream", flowing), '3'),
    (("pending", normal), '4'),
    (("letters", poisoned), '5'),
    (("locks", normal), '6'),
    (("orders", sold), '7'),
    (("jobs", normal), '8'),
    (("ledger", audited), '9'),
    (("activity", logged), '0'),
];

#[test]
fn every_view_is_steady() {
    for ((view, snapshot), key) in VIEWS {
        for (lang, width, height) in SHOTS {
            set_thread_language(lang);
            let tail = if lang == "zh" { "_zh" } else { "" };
            let mut bench = Bench::new(snapshot());
            bench.keys(&key.to_string());
            let seen = bench.text(width, height);
            bench.keys("f");
            bench.app.now = NOW.plus(12_000);
            let mut later = empty();
            for server in [&mut later.redis, &mut later.sql] {
                server.last_ok = Some(bench.app.now);
            }
            bench.show(later);
            let text = bench.text(width, height);
            assert!(text.contains(&format!("{}    12 ", text::FROZEN)), "{text}");
            // Without the frame and the heading, which no longer says that it follows.
            let rows = |text: &str| -> Vec<String> {
                text.lines().skip(4).take(usize::from(height) - 6).map(str::to_owned).collect()
            };
            assert_eq!(rows(&text), rows(&seen), "{view}");
            assert_screen(&format!("{view}_frozen{tail}_{width}x{height}"), &text);
        }
    }
}
