//! Lists that are read page by page and only while a view shows them; a paused display reads nothing else.

use super::{export::TABLES, history::read, prelude::*};

#[test]
fn data_of_one_view_is_read_only_while_that_is_shown() {
    let mut tui = Tui::new(normal());
    let views = [("3", "stream"), ("4", "pending"), ("5", "letters"), ("6", ""), ("7", "orders")];
    let others =
        [("8", ""), ("9", "ledger"), ("0", "log"), ("1", ""), ("2", "sale"), ("s", ""), ("e", "")];
    let detail = [("", ""), ("2jk", ""), ("l", "sale")];
    for (keys, shown) in detail.into_iter().chain(views).chain(others) {
        tui.press(keys);
        let focus = *tui.focus.borrow();
        let read = [
            ("sale", focus.sale.is_some()),
            ("stream", focus.stream.is_some()),
            ("pending", focus.pending.is_some()),
            ("letters", focus.letters_from.is_some()),
            ("orders", focus.orders.is_some()),
            ("ledger", focus.ledger),
            ("log", focus.log.is_some()),
        ];
        let read: Vec<&str> = read.iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(read.join(" "), shown, "{keys}");
    }
}

#[test]
fn a_list_that_grows_at_its_end_turns_pages_at_both_ends() {
    let second = Snapshot { pending: page(500, 12_340), ..overflowing() };
    let mut tui = Tui::open(overflowing(), "4GG");
    assert_eq!(tui.focus.borrow().pending, Some(second.pending.view));
    tui.assert_shows("reading").show(second.clone()).assert_shows("   12,340");
    assert_eq!(tui.app.views.pending.cursor, Some(entry(500)));
    tui.press("k");
    assert_eq!(tui.focus.borrow().pending, Some(EntryId::MIN));
    tui.show(overflowing());
    assert_eq!(tui.app.views.pending.cursor, Some(entry(499)));
    // A page that emptied leads back to the first.
    tui.press("j").show(second.clone());
    assert_eq!(tui.focus.borrow().pending, Some(second.pending.view));
    tui.show(with(second, |it| Arc::make_mut(&mut it.pending.lines).clear()));
    assert_eq!(tui.focus.borrow().pending, Some(EntryId::MIN));
    // So do the dead letters, and the wheel.
    let mut tui = Tui::open(overflowing(), "5GG");
    let letters = letters::letters(100, 20, false);
    assert_eq!(tui.focus.borrow().letters_from, Some(letters.view));
    tui.show(Snapshot { letters, ..overflowing() });
    assert_eq!(tui.app.views.letters.cursor, Some(letter(100)));
    tui.press("GG").assert_status("this is the last row").press("gg");
    assert_eq!(tui.focus.borrow().letters_from, Some(EntryId::MIN));
    let mut tui = Tui::open(overflowing(), "4mG");
    tui.screen();
    tui.mouse(MouseEventKind::ScrollDown, 20, 12);
    assert_eq!(tui.focus.borrow().pending, Some(page(500, 12_340).view));
}

/// The row under the cursor, after the page of the stream that ends with entry `last` arrived.
fn entry_after(tui: &mut Tui, view: StreamView, last: u64) -> Option<EntryId> {
    tui.show(Snapshot { entries: stream::page(view, last), ..normal() });
    tui.app.views.stream.entries.chosen(&tui.app.display.shown).map(|it| it.entry)
}

#[test]
fn the_stream_follows_its_newest_entry_until_the_user_scrolls_up() {
    let newest = StreamView::default();
    let before = |number| StreamView { partition: None, before: Some(stream::entry(number)) };
    let held = |number| StreamView { before: stream::entry(number).next_of_all(), ..newest };
    let asked = |tui: &Tui| tui.focus.borrow().stream.unwrap();
    let mut tui = Tui::open(with_stream(), "3");
    assert_eq!(entry_after(&mut tui, newest, 270), Some(stream::entry(269)));
    assert_eq!(asked(tui.press("k")), held(269));
    assert_eq!(entry_after(&mut tui, held(269), 270), Some(stream::entry(268)));
    assert_eq!(asked(tui.press("G")), newest);
    assert_eq!(entry_after(&mut tui, newest, 280), Some(stream::entry(279)));
    tui.press("j").assert_status("this is the last row");
    // A page goes on where the other one began.
    let mut tui = Tui::open(with_stream(), "3gk");
    assert_eq!(asked(&tui), before(60));
    assert_eq!(entry_after(&mut tui, before(60), 60), Some(stream::entry(59)));
    assert_eq!(asked(tui.press("j")), held(259));
    assert_eq!(entry_after(&mut tui, held(259), 260), Some(stream::entry(60)));
    // The whole held window was trimmed.
    let gone = StreamPage { lines: Arc::default(), ..stream::page(held(259), 260) };
    tui.show(Snapshot { entries: gone, ..normal() });
    assert_eq!(asked(&tui), newest);
}

#[test]
fn orders_are_held_while_new_ones_arrive() {
    let asked = |tui: &Tui| tui.focus.borrow().orders.unwrap();
    let after = |tui: &mut Tui, view, newest| {
        tui.show(Snapshot { orders: orders::page(view, newest), ..normal() });
        tui.app.views.orders.table.chosen(&tui.app.display.shown).map(|it| it.id)
    };
    let [first, second] = [900, 800].map(|number| Some(orders::id(number)));
    let mut tui = Tui::open(with_orders(), "7j");
    let held = asked(&tui);
    assert_eq!(held.before, OrderId::from_i64(orders::id(900).as_i64() + 1));
    assert_eq!(after(&mut tui, held, 900), Some(orders::id(899)));
    let older = asked(tui.press("n"));
    assert_eq!(older.before, Some(orders::id(801)));
    assert_eq!(after(&mut tui, older, 800), second);
    assert_eq!(asked(tui.press("k")), held);
    assert_eq!(after(&mut tui, held, 900), Some(orders::id(801)));
    assert_eq!(asked(tui.press("g")), OrdersView::default());
    assert_eq!(after(&mut tui, OrdersView::default(), 950), Some(orders::id(950)));
    tui.press("b").assert_status("this is the first row");
    // The cursor is kept while another view is shown, and until the page is read.
    let mut tui = Tui::open(with_orders(), "7jj8");
    let cursor = |tui: &Tui| tui.app.views.orders.table.cursor;
    let here = cursor(&tui);
    assert!(here.is_some() && here < first);
    tui.show(normal()).press("7");
    assert_eq!(cursor(&tui), here);
    tui.show(with_orders());
    assert_eq!(cursor(&tui), here);
}

#[test]
fn the_log_follows_its_newest_line_and_leads_back_and_forward() {
    let newest = LogView::default();
    let chosen = |tui: &Tui| tui.app.views.log.chosen(&tui.app.display.shown).map(|it| it.id);
    let mut tui = Tui::open(history::crowded(), "0");
    assert!(tui.app.views.log.follows());
    assert_eq!(chosen(tui.show(read(newest, 2_010, 200, true))), Some(2_209));
    tui.press("kk").show(read(newest, 2_015, 200, true));
    assert_eq!(chosen(&tui), Some(2_207));
    tui.assert_shows("press End to follow").press("G").assert_shows("following");
    assert!(tui.press("kj").app.views.log.follows(), "at the end, the list follows again");
    let mut tui = Tui::open(history::crowded(), "0gk");
    let place = history::crowded().log.lines[0].position();
    let asked = LogView { which: None, before: Some(place) };
    assert_eq!(tui.focus.borrow().log, Some(asked));
    tui.assert_shows("reading").press("k");
    assert_eq!(tui.focus.borrow().log, Some(asked), "one page at a time");
    assert_eq!(chosen(tui.show(read(asked, 1_800, 200, false))), Some(1_999));
    tui.press("gk").assert_status("this is the first row");
    (0..21).for_each(|_| _ = tui.key(KeyCode::PageDown));
    assert_eq!(tui.focus.borrow().log, Some(newest));
    assert_eq!(chosen(tui.show(history::crowded())), Some(2_000));
    // A paused log turns no page.
    let mut tui = Tui::open(history::crowded(), "0fgk");
    assert_eq!(tui.focus.borrow().log, Some(newest));
    tui.assert_status_contains("the display is paused");
}

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
    let views = [("3", with_stream as fn() -> Snapshot), ("7", with_orders), ("5", with_letters)];
    for (key, read) in views {
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
fn every_view_is_steady() {
    let views = [("overview", normal as fn() -> Snapshot, "1")].into_iter().chain(TABLES);
    for (view, snapshot, key) in views {
        for (width, height) in SIZES.into_iter().skip(1) {
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
            let rows = |text: &str| inner(text, 4, 2);
            assert_eq!(rows(&text), rows(&seen), "{view}");
            let resumed = tui.press("f").screen_at(width, height);
            assert!(!resumed.contains(text::FROZEN.read()) && rows(&resumed) != rows(&seen));
        }
    }
}
