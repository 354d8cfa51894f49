//! A paused display: it shows its snapshot and its age, what is loaded can be browsed, and nothing else is read.

use super::{export::TABLES, prelude::*};
use crate::text;

const REFUSED: &str = "the display is paused; press f to resume before loading more";

#[test]
fn a_held_window_is_not_left_for_one_that_cannot_be_read() {
    // It is held, and its window does not end with the newest entry.
    let mut tui = Tui::open(with_stream(), "3k");
    let view = tui.focus.borrow().stream.unwrap();
    tui.show(Snapshot { entries: stream::page(view, 260), ..normal() }).press("f");
    let before = tui.focus.borrow().stream;
    tui.press("G").assert_status(REFUSED);
    assert_eq!(tui.focus.borrow().stream, before);
    let row =
        |tui: &Tui| tui.app.views.stream.entries.chosen(&tui.app.display.shown).map(|it| it.entry);
    let at: Option<EntryId> = row(&tui);
    assert!(at.is_some() && row(tui.press("k")) < at, "the list still moves");
}

#[test]
fn another_partition_waits_until_the_display_resumes() {
    let mut tui = Tui::open(stream::partitioned(false), "3fp");
    tui.assert_status(REFUSED).assert_hides("reading");
    assert_eq!(tui.focus.borrow().stream, Some(StreamView::default()));
}

#[test]
fn no_unread_view_is_entered() {
    for (key, read) in
        [("3", with_stream as fn() -> Snapshot), ("7", with_orders), ("5", with_letters)]
    {
        let mut tui = Tui::open(Snapshot { letters: LetterPage::default(), ..with_letters() }, "f");
        tui.press(key).assert_status(REFUSED);
        assert_eq!(tui.app.view, View::Overview, "{key}");
        assert_ne!(tui.press("f").press(key).app.view, View::Overview, "{key}");
        // What was read before stays in place.
        assert_ne!(Tui::open(read(), "f").press(key).app.view, View::Overview, "{key}");
    }
}

#[test]
fn no_orders_are_requested_while_the_database_is_unreachable() {
    let mut tui = Tui::open(with_orders(), "7f");
    let asked = tui.focus.borrow().orders;
    tui.press("/");
    assert_eq!((tui.app.views.filtering, tui.status().as_str()), (false, REFUSED));
    tui.press("2jkl\n");
    assert_eq!((tui.app.view, tui.status().as_str()), (View::Sales, REFUSED));
    tui.press("7");
    assert_eq!(tui.focus.borrow().orders, asked);
    tui.assert_hides("voucher=7");
    // Nor is a query cancelled.
    tui.press("f/user=1001\n");
    let asked = tui.focus.borrow().orders;
    tui.show(with(with_orders(), |it| it.orders.view = asked.unwrap()));
    tui.press("f\x1b\x1b");
    assert_eq!(tui.focus.borrow().orders, asked);
}

#[test]
fn the_mouse_wheel_stops_at_both_ends() {
    let mut tui = Tui::open(normal(), "2m");
    tui.screen();
    tui.mouse(MouseEventKind::ScrollUp, 5, 8);
    tui.assert_status("this is the first row");
    (0..3).for_each(|_| tui.mouse(MouseEventKind::ScrollDown, 5, 8));
    tui.assert_status("this is the last row");
}

#[test]
fn every_view_is_steady() {
    let views = [("overview", normal as fn() -> Snapshot, "1")].into_iter().chain(TABLES);
    for (view, snapshot, key) in views {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut tui = Tui::open(snapshot(), key);
            let seen = tui.screen_at(width, height);
            tui.press("f");
            let now = NOW.plus(12_000);
            tui.app.display.now = now;
            tui.show(with(empty(), |it| {
                (it.redis.last_ok, it.sql.last_ok) = (Some(now), Some(now));
            }));
            let text = tui.screen_at(width, height);
            assert!(text.contains(&format!("{}    12 ", text::FROZEN)), "{text}");
            // Without the frame and the heading, which no longer says that it follows.
            let rows = |text: &str| -> Vec<String> {
                text.lines().skip(4).take(usize::from(height) - 6).map(str::to_owned).collect()
            };
            assert_eq!(rows(&text), rows(&seen), "{view}");
            let resumed = tui.press("f").screen_at(width, height);
            assert!(!resumed.contains(text::FROZEN.read()) && rows(&resumed) != rows(&seen));
        }
    }
}
