//! A paused display: what is loaded can be browsed, and what would have to be read is refused with a message.

use crossterm::event::{Event, KeyCode, MouseEvent, MouseEventKind};
use seckill_engine::telemetry::{Snapshot, StreamView, snapshot::LetterPage};
use seckill_model::EntryId;

use super::{
    fixture::{Bench, normal},
    letters::poisoned,
    orders::sold,
    stream::flowing,
};
use crate::views::View;

const REFUSED: &str = "the display is paused; press f to resume before loading more";

/// It is held, and its window does not end with the newest entry.
fn held() -> Bench {
    let mut bench = Bench::new(flowing());
    bench.keys("3k");
    let view = bench.focus.borrow().stream.unwrap();
    let mut later = flowing();
    later.entries = super::stream::page(view, 260);
    bench.show(later);
    bench
}

#[test]
fn a_held_window_is_not_left_for_one_that_cannot_be_read() {
    let mut bench = held();
    bench.keys("f");
    let before = bench.focus.borrow().stream;
    bench.keys("G");
    assert_eq!(bench.said(), REFUSED);
    assert_eq!(bench.focus.borrow().stream, before);
    let row =
        |bench: &mut Bench| bench.app.stream.entries.chosen(&bench.app.shown).map(|it| it.entry);
    let at: Option<EntryId> = row(&mut bench);
    bench.keys("k");
    assert!(at.is_some() && row(&mut bench) < at, "the list still moves");
}

#[test]
fn another_partition_waits_until_the_display_resumes() {
    let mut snapshot = flowing();
    let mut second = snapshot.entries.partitions[0];
    second.partition = 1;
    snapshot.entries.partitions.push(second);
    let mut bench = Bench::new(snapshot);
    bench.keys("3f");
    bench.keys("p");
    assert_eq!(bench.said(), REFUSED);
    assert_eq!(bench.focus.borrow().stream, Some(StreamView::default()));
    assert!(!bench.text(120, 36).contains("reading"));
}

#[test]
fn no_unread_view_is_entered() {
    for (key, read) in [("3", flowing as fn() -> Snapshot), ("7", sold), ("5", poisoned)] {
        let unread = || Snapshot { letters: LetterPage::default(), ..normal() };
        let mut bench = Bench::new(unread());
        bench.keys("f");
        bench.keys(key);
        assert_eq!((bench.app.view, bench.said().as_str()), (View::Overview, REFUSED), "{key}");
        bench.keys("f");
        bench.keys(key);
        assert_ne!(bench.app.view, View::Overview, "{key}");
        // What was read before stays in place.
        let mut bench = Bench::new(read());
        bench.keys("f");
        bench.keys(key);
        assert_ne!(bench.app.view, View::Overview, "{key}");
    }
}

#[test]
fn no_orders_are_requested_while_the_database_is_unreachable() {
    let mut bench = Bench::new(sold());
    bench.keys("7");
    let asked = bench.focus.borrow().orders;
    bench.keys("f/");
    assert_eq!((bench.app.filtering, bench.said().as_str()), (false, REFUSED));
    bench.keys("2jkl");
    bench.press(KeyCode::Enter);
    assert_eq!((bench.app.view, bench.said().as_str()), (View::Sales, REFUSED));
    bench.keys("7");
    assert_eq!(bench.focus.borrow().orders, asked);
    assert!(!bench.text(120, 36).contains("voucher=7"));
    // Nor is a query cancelled.
    bench.keys("f/user=1001");
    bench.press(KeyCode::Enter);
    let asked = bench.focus.borrow().orders;
    let mut later = sold();
    later.orders.view = asked.unwrap();
    bench.show(later);
    bench.keys("f");
    bench.press(KeyCode::Esc);
    bench.press(KeyCode::Esc);
    assert_eq!(bench.focus.borrow().orders, asked);
}

#[test]
fn the_mouse_wheel_stops_at_both_ends() {
    let mut bench = Bench::new(normal());
    bench.keys("2m");
    bench.draw(120, 36);
    let mut wheel = |kind| {
        let modifiers = crossterm::event::KeyModifiers::NONE;
        bench.app.on_event(&Event::Mouse(MouseEvent { kind, column: 5, row: 8, modifiers }));
        bench.said()
    };
    assert_eq!(wheel(MouseEventKind::ScrollUp), "this is the first row");
    wheel(MouseEventKind::ScrollDown);
    wheel(MouseEventKind::ScrollDown);
    assert_eq!(wheel(MouseEventKind::ScrollDown), "this is the last row");
}
