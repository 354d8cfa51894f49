//! A paused display: it shows its snapshot and its age, what is loaded can be browsed, and nothing else is read.

use super::{export::TABLES, prelude::*};
use crate::text;

const REFUSED: &str = "the display is paused; press f to resume before loading more";

/// It is held, and its window does not end with the newest entry.
fn held() -> Tui {
    let mut tui = Tui::open(with_stream(), "3k");
    let view = tui.focus.borrow().stream.unwrap();
    let mut later = with_stream();
    later.entries = stream::page(view, 260);
    tui.show(later);
    tui
}

#[test]
fn a_held_window_is_not_left_for_one_that_cannot_be_read() {
    let mut tui = held();
    tui.press("f");
    let before = tui.focus.borrow().stream;
    tui.press("G").assert_status(REFUSED);
    assert_eq!(tui.focus.borrow().stream, before);
    let row = |tui: &mut Tui| {
        tui.app.views.stream.entries.chosen(&tui.app.display.shown).map(|it| it.entry)
    };
    let at: Option<EntryId> = row(&mut tui);
    tui.press("k");
    assert!(at.is_some() && row(&mut tui) < at, "the list still moves");
}

#[test]
fn another_partition_waits_until_the_display_resumes() {
    let mut snapshot = with_stream();
    let mut second = snapshot.entries.partitions[0];
    second.partition = 1;
    snapshot.entries.partitions.push(second);
    let mut tui = Tui::open(snapshot, "3fp");
    tui.assert_status(REFUSED);
    assert_eq!(tui.focus.borrow().stream, Some(StreamView::default()));
    tui.assert_hides("reading");
}

#[test]
fn no_unread_view_is_entered() {
    for (key, read) in
        [("3", with_stream as fn() -> Snapshot), ("7", with_orders), ("5", with_letters)]
    {
        let unread = || Snapshot { letters: LetterPage::default(), ..normal() };
        let mut tui = Tui::open(unread(), "f");
        tui.press(key);
        assert_eq!((tui.app.view, tui.status().as_str()), (View::Overview, REFUSED), "{key}");
        tui.press("f");
        tui.press(key);
        assert_ne!(tui.app.view, View::Overview, "{key}");
        // What was read before stays in place.
        let mut tui = Tui::open(read(), "f");
        tui.press(key);
        assert_ne!(tui.app.view, View::Overview, "{key}");
    }
}

#[test]
fn no_orders_are_requested_while_the_database_is_unreachable() {
    let mut tui = Tui::open(with_orders(), "7");
    let asked = tui.focus.borrow().orders;
    tui.press("f/");
    assert_eq!((tui.app.views.filtering, tui.status().as_str()), (false, REFUSED));
    tui.press("2jkl\n");
    assert_eq!((tui.app.view, tui.status().as_str()), (View::Sales, REFUSED));
    tui.press("7");
    assert_eq!(tui.focus.borrow().orders, asked);
    tui.assert_hides("voucher=7");
    // Nor is a query cancelled.
    tui.press("f/user=1001\n");
    let asked = tui.focus.borrow().orders;
    let mut later = with_orders();
    later.orders.view = asked.unwrap();
    tui.show(later);
    tui.press("f\x1b\x1b");
    assert_eq!(tui.focus.borrow().orders, asked);
}

#[test]
fn the_mouse_wheel_stops_at_both_ends() {
    let mut tui = Tui::open(normal(), "2m");
    tui.draw(120, 36);
    let mut wheel = |kind| {
        let modifiers = KeyModifiers::NONE;
        tui.app.on_event(&Event::Mouse(MouseEvent { kind, column: 5, row: 8, modifiers }));
        tui.status()
    };
    assert_eq!(wheel(MouseEventKind::ScrollUp), "this is the first row");
    wheel(MouseEventKind::ScrollDown);
    wheel(MouseEventKind::ScrollDown);
    assert_eq!(wheel(MouseEventKind::ScrollDown), "this is the last row");
}

#[test]
fn every_view_is_steady() {
    let views = [("overview", normal as fn() -> Snapshot, "1")].into_iter().chain(TABLES);
    for (view, snapshot, key) in views {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut tui = Tui::open(snapshot(), key);
            let seen = tui.screen_at(width, height);
            tui.press("f");
            tui.app.display.now = NOW.plus(12_000);
            let mut later = empty();
            for server in [&mut later.redis, &mut later.sql] {
                server.last_ok = Some(tui.app.display.now);
            }
            tui.show(later);
            let text = tui.screen_at(width, height);
            assert!(text.contains(&format!("{}    12 ", text::FROZEN)), "{text}");
            // Without the frame and the heading, which no longer says that it follows.
            let rows = |text: &str| -> Vec<String> {
                text.lines().skip(4).take(usize::from(height) - 6).map(str::to_owned).collect()
            };
            assert_eq!(rows(&text), rows(&seen), "{view}");
        }
    }
}
