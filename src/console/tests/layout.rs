//! Nothing on the Overview moves when a figure grows: the same sales at rest and in a load test.

use strum::VariantArray as _;

use super::prelude::*;
use crate::text;

const SIZES: [(u16, u16); 3] = [(120, 36), (80, 24), (200, 50)];

/// Two sales before any request.
fn rest() -> Snapshot {
    let sales = vec![
        sale(8, "Milk tea 9.9 for the first buyers", Phase::Running, 10_000_000, 10_000_000),
        sale(7, "Hot pot for half the price", Phase::Running, 50_000, 50_000),
    ];
    Snapshot { sales, ..empty() }
}

/// The same sales, with extreme values of everything.
pub(super) fn load_test() -> Snapshot {
    let mut snapshot = overflowing();
    snapshot.sales = rest().sales;
    snapshot.sales[0].stock = Some(9_876_543);
    snapshot.sales[1].stock = Some(3);
    let count = Count { total: 98_765_432_109, per_second: 1_234_567.0 };
    let funnel = &mut snapshot.funnel;
    for it in [
        &mut funnel.attempts,
        &mut funnel.admitted,
        &mut funnel.sold_out,
        &mut funnel.duplicate,
        &mut funnel.rejected,
        &mut funnel.busy,
    ] {
        *it = count;
    }
    let stream = snapshot.stream.as_mut().unwrap();
    (stream.lag, stream.pending, stream.dead) = (Some(1_234_567_890), 1_234_567_890, 987_654);
    snapshot.latency =
        Some(Latency { p50: 412, p99: 999_999, max: 59_000_000, samples: 1_234_567_890 });
    snapshot.audit = Balance::InFlight { orders: 1_234_567 };
    let load_test =
        |id, sent| LoadTestLine { voucher_id: VoucherId(id), sent, planned: 11_000_000 };
    snapshot.load_tests = vec![load_test(7, 1), load_test(8, 9_999_999)];
    snapshot.read_only = true;
    snapshot
}

/// The position of a text in a row.
pub(super) fn column(buffer: &Buffer, y: u16, text: &str) -> Option<usize> {
    let row = lines(buffer, Rect { y, height: 1, ..buffer.area });
    row.find(text).map(|at| width(&row[..at]))
}

/// The screen position of a heading, by its text and style.
fn heading(app: &App, buffer: &Buffer, text: &str) -> Option<(usize, u16)> {
    let style = app.display.theme.heading;
    (3..buffer.area.height).find_map(|y| {
        let x = column(buffer, y, text)?;
        let cell = &buffer[(x as u16, y)];
        (style.fg.is_none_or(|fg| cell.fg == fg) && cell.modifier.contains(style.add_modifier))
            .then_some((x, y))
    })
}

/// Everything that must not move.
fn places(tui: &mut Tui, (w, h): (u16, u16)) -> Vec<(String, Option<(usize, u16)>)> {
    let buffer = tui.draw(w, h);
    let titles = [
        text::STOCK,
        Label("console-orders-per-second"),
        text::ADMISSION,
        Label("console-rush"),
        text::STREAM,
        text::PENDING,
        text::DEAD,
        Label("overview-locks"),
        Label("console-attention"),
    ];
    let mut places: Vec<_> =
        titles.iter().map(|title| (title.to_string(), heading(&tui.app, &buffer, title))).collect();
    for tab in names() {
        places.push((tab.to_string(), column(&buffer, 1, tab).map(|x| (x, 1))));
    }
    for server in ["redis", "sqlite"] {
        places.push((server.to_owned(), column(&buffer, 0, server).map(|x| (x, 0))));
    }
    let axis = (3..h).find_map(|y| column(&buffer, y, "└").map(|x| (x, y)));
    places.push(("axis".to_owned(), axis));
    places
}

fn names() -> impl Iterator<Item = &'static str> {
    let ledger = |view: &View| *view == View::Ledger;
    View::VARIANTS.iter().copied().filter(move |view| !ledger(view)).map(View::tab)
}

#[test]
fn nothing_moves_in_a_load_test() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for size in SIZES {
            let mut tui = Tui::new(rest());
            let before = places(&mut tui, size);
            for (what, place) in &before {
                assert!(place.is_some(), "{what} at {size:?}: {}", tui.screen_at(size.0, size.1));
            }
            tui.show(load_test());
            let read = |tui: &mut Tui| tui.screen_at(size.0, size.1);
            assert_eq!(places(&mut tui, size), before, "{}", read(&mut tui));
            // While the display is paused and a long message is shown.
            tui.press("f");
            tui.app.display.now = NOW.plus(4_321_000);
            let mut later = load_test();
            for server in [&mut later.redis, &mut later.sql] {
                server.last_ok = Some(tui.app.display.now);
            }
            tui.show(later);
            tui.app.status.failure("redis does not answer; try again ".repeat(9));
            assert_eq!(places(&mut tui, size), before, "{}", read(&mut tui));
        }
    }
}

/// The header left of its badges, and where each badge begins.
fn header(tui: &mut Tui, (w, h): (u16, u16)) -> (String, [Option<usize>; 2]) {
    let buffer = tui.draw(w, h);
    let servers = ["redis", "sqlite"].map(|name| column(&buffer, 0, name));
    let audit = servers[0].map_or(0, |redis| redis.saturating_sub(if w < 112 { 10 } else { 20 }));
    (lines(&buffer, Rect::new(0, 0, audit as u16, 1)), servers)
}

#[test]
fn a_server_that_goes_away_moves_nothing_in_the_header() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for size in [(80, 24), (112, 30), (120, 36), (200, 50)] {
            let mut tui = Tui::new(normal());
            let (shown, servers) = header(&mut tui, size);
            assert!(shown.contains('7') && servers.iter().all(Option::is_some), "{shown}");
            for up in [true, false] {
                for ago in [Some(6), Some(59), Some(119), Some(7_199), Some(172_799), None] {
                    let mut later = normal();
                    for server in [&mut later.redis, &mut later.sql] {
                        server.up = up;
                        server.last_ok = ago.map(|seconds: i64| NOW.plus(-seconds * 1_000));
                    }
                    tui.show(later);
                    let now = header(&mut tui, size);
                    let text = tui.screen_at(size.0, size.1);
                    assert_eq!(now, (shown.clone(), servers), "{up} {ago:?}: {text}");
                    let badges = text.lines().next().and_then(|line| line.split_once("redis"));
                    assert!(badges.is_some_and(|(_, shown)| !shown.contains('…')), "{text}");
                }
            }
            let mut locked = normal();
            locked.sql.unwritable = Some(Message::of(&EngineError::Store(StoreError::Locked)));
            tui.show(locked);
            assert_eq!(header(&mut tui, size), (shown.clone(), servers));
            for micros in [90, 999_999, 59_000_000] {
                let mut slow = normal();
                (slow.redis.latency_us, slow.sql.latency_us) = (micros, micros);
                tui.show(slow);
                assert_eq!(header(&mut tui, size), (shown.clone(), servers));
            }
        }
    }
}

#[test]
fn view_names_are_never_truncated_by_counts() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for size in SIZES {
            for view in View::VARIANTS.iter().copied() {
                let mut tui = Tui::open(load_test(), "f");
                tui.app.view = view;
                let buffer = tui.draw(size.0, size.1);
                for name in names() {
                    let place = column(&buffer, 1, name);
                    assert!(place.is_some(), "{name}: {}", tui.screen_at(size.0, size.1));
                }
                let text = tui.screen_at(size.0, size.1);
                let [frozen, read_only] = [text::FROZEN, text::READ_ONLY];
                assert!(text.contains(&*frozen) && text.contains(&*read_only), "{text}");
            }
        }
    }
}

#[test]
fn the_header_shows_the_sale_with_a_load_test() {
    let mut tui = Tui::new(rest());
    let load_test = |id: &u64| LoadTestLine { voucher_id: VoucherId(*id), sent: 1, planned: 2 };
    for (on, shown) in [
        (&[][..], "#8 Milk tea"),
        (&[7], "#7 Hot pot"),
        (&[7, 7], "#7 Hot pot"),
        (&[7, 8], "▸ 2 running"),
    ] {
        tui.show(Snapshot { load_tests: on.iter().map(load_test).collect(), ..rest() });
        let header = tui.header();
        assert!(header.contains(shown), "{on:?}: {header}");
    }
    tui.press("2j1").show(Snapshot { load_tests: vec![load_test(&8)], ..rest() });
    let header = tui.header();
    assert!(header.contains("#7 Hot pot"), "it is chosen, so commands act on it: {header}");
}

/// The two sales; `active` sells, or none.
fn selling(active: u64, second: i64) -> Snapshot {
    let mut snapshot = Snapshot { taken: NOW.plus(second * 1_000), ..rest() };
    for sale in &mut snapshot.sales {
        let sells = sale.voucher_id == VoucherId(active);
        sale.funnel.admitted.per_second = if sells { 802.0 } else { 0.0 };
    }
    snapshot
}

/// Buyers may come from other processes; a snapshot shows their load tests only by the effect on the stock.
#[test]
fn the_header_and_the_presenter_show_the_active_sale() {
    const HOT_POT: (u64, &str) = (7, "#7 Hot pot");
    const MILK_TEA: (u64, &str) = (8, "#8 Milk tea");
    let names = |tui: &mut Tui, (id, title): (u64, &str), why: &str| {
        let header = tui.header();
        assert!(header.contains(title), "{why}: {header}");
        assert_eq!(tui.app.presented(), Some(VoucherId(id)), "{why}");
    };
    let mut tui = Tui::new(selling(0, 0));
    for (active, second, shown, why) in [
        (0, 0, MILK_TEA, "none sells, this is the newest"),
        (7, 1, HOT_POT, "it sells"),
        (0, 2, HOT_POT, "a slow sale sells nothing for a moment"),
        (8, 3, HOT_POT, "another one does not replace it at once"),
        (8, 9, MILK_TEA, "it has not sold for long, the other does"),
        (7, 20, HOT_POT, "now this one"),
        (0, 40, HOT_POT, "none sells, and it did a moment ago"),
        (0, 90, MILK_TEA, "none has sold for long"),
        (7, 100, HOT_POT, "again"),
    ] {
        tui.show(selling(active, second));
        names(&mut tui, shown, why);
    }
    let mut away = selling(0, 110);
    away.redis.up = false;
    tui.show(away);
    names(&mut tui, HOT_POT, "rates are unknown while Redis is down");
    tui.show(selling(0, 111));
    names(&mut tui, HOT_POT, "an outage is not held against it");
    tui.press("2jk1").show(selling(7, 112));
    let presented = tui.app.presented();
    assert_eq!(presented, Some(VoucherId(7)), "the presenter layout shows the active sale");
    let header = tui.header();
    assert!(header.contains(MILK_TEA.1), "commands act on the chosen one: {header}");
    let mut both = selling(7, 113);
    both.sales.iter_mut().for_each(|sale| sale.funnel.admitted.per_second = 802.0);
    tui.show(both);
    names(&mut tui, MILK_TEA, "both sell, and this one is chosen");
}

/// A launch is over when its sale is sold out; the presenter layout moves on.
#[test]
fn a_finished_launch_gives_way_to_the_active_sale() {
    let mut tui = Tui::new(rest());
    let sold_out = |active: u64, second: i64| {
        let mut snapshot = selling(active, second);
        (snapshot.sales[0].phase, snapshot.sales[0].stock) = (Phase::SoldOut, Some(0));
        snapshot
    };
    (tui.app.presenter.sale, tui.app.presenter.launched) = (Some(VoucherId(8)), true);
    tui.show(selling(7, 0));
    assert_eq!(tui.app.presented(), Some(VoucherId(8)), "it is not over");
    tui.show(sold_out(0, 0));
    assert_eq!(tui.app.presented(), Some(VoucherId(8)), "sold out, and nothing else happens");
    tui.show(sold_out(0, 120));
    tui.show(sold_out(7, 121));
    assert_eq!(tui.app.presented(), Some(VoucherId(7)));
}

#[test]
fn only_the_figures_of_a_moment_are_lit() {
    for depth in [Depth::Ansi256, Depth::None] {
        let theme = Theme::new(depth, false);
        let soft = theme.dimmed;
        for (w, h) in [(120, 36), (80, 24)] {
            let mut tui = Tui::themed(normal(), theme);
            tui.draw(w, h);
            tui.press("<<<");
            let buffer = tui.draw(w, h);
            let dim = |text: &str, after: u16| {
                let y = (after..h).find(|y| column(&buffer, *y, text).is_some()).unwrap();
                let cell = &buffer[(column(&buffer, y, text).unwrap() as u16, y)];
                soft.fg.is_none_or(|fg| cell.fg == fg) && cell.modifier == soft.add_modifier
            };
            for now in [
                "STOCK",
                "3,120",
                "ADMISSION",
                "178,880",
                "LOAD TEST",
                "PENDING",
                "oldest 42 s",
                "LOCKS",
                "ALARMS",
            ] {
                assert!(dim(now, 3), "{now}: {}", tui.screen_at(w, h));
            }
            assert!(!dim("values of 11:06:", 3) && !dim("persisted", 3));
            let text = tui.screen_at(w, h);
            assert!(text.contains("; rest is current"), "{text}");
            let text = tui.press("\x1b").screen_at(w, h);
            assert!(!text.contains("rest is current"), "{text}");
        }
    }
}

#[test]
fn a_gauge_empties_in_every_view() {
    let nearly_gone = || {
        let mut line = sale(7, "hot pot", Phase::Running, 1_000, 1);
        line.end = None;
        Snapshot { sales: vec![line], ..empty() }
    };
    for keys in ["1", "2", "t"] {
        let mut tui = Tui::open(nearly_gone(), keys);
        let text = tui.screen();
        let [empty, full] = ["░", "█"].map(|sign| text.matches(sign).count());
        let gauge = text.lines().find(|line| line.contains("░░░")).unwrap_or_default();
        assert!(empty > 5 && !gauge.contains('█'), "{full}: {text}");
        assert!(text.to_lowercase().contains("left"), "{text}");
    }
}

#[test]
fn tables_have_no_wide_gap_between_columns() {
    for (keys, cell, widths, limit) in [
        ("6", "close-overdue", &[200][..], 20),
        ("8", "close-overdue", &[200], 20),
        ("6", "LOCK  ", &[80, 120, 160, 200], 50),
    ] {
        let mut tui = Tui::open(normal(), keys);
        for width in widths {
            let text = tui.screen_at(*width, 50);
            let line = text.lines().find(|line| line.contains(cell)).expect("a row");
            assert!(!line.trim_end().contains(&" ".repeat(limit)), "{width}: {text}");
        }
    }
}
