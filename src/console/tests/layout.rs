//! Nothing moves when a figure grows, every window shows what matters, and the header names the active sale.

use super::prelude::*;
use crate::active_sale::ActiveSale;

/// Two sales before any request.
fn rest() -> Snapshot {
    let sales = vec![
        sale(8, "Milk tea 9.9 for the first buyers", Phase::Running, 10_000_000, 10_000_000),
        sale(7, "Hot pot for half the price", Phase::Running, 50_000, 50_000),
    ];
    Snapshot { sales, ..empty() }
}

/// The same sales, with extreme values of everything.
pub(super) fn extreme() -> Snapshot {
    let mut snapshot = overflowing();
    snapshot.sales = rest().sales;
    snapshot.sales[0].stock = Some(9_876_543);
    snapshot.sales[1].stock = Some(3);
    let count = Count { total: 98_765_432_109, per_second: 1_234_567.0 };
    let refused = Funnel { duplicate: count, rejected: count, busy: count, ..Funnel::default() };
    snapshot.funnel = Funnel { attempts: count, admitted: count, sold_out: count, ..refused };
    let stream = snapshot.stream.as_mut().unwrap();
    (stream.lag, stream.pending, stream.dead) = (Some(1_234_567_890), 1_234_567_890, 987_654);
    snapshot.latency = Some(Latency {
        p50: 412,
        p99: 999_999,
        p999: 59_000_000,
        max: 59_000_000,
        samples: 1_234_567_890,
    });
    snapshot.audit = Balance::InFlight { orders: 1_234_567 };
    snapshot.load_tests = vec![load_test(7, 1, 11_000_000), load_test(8, 9_999_999, 11_000_000)];
    snapshot.read_only = true;
    snapshot
}

/// The position of a text in a row.
pub(super) fn column(buffer: &Buffer, y: u16, text: &str) -> Option<usize> {
    let row = lines(buffer, Rect { y, height: 1, ..buffer.area });
    row.find(text).map(|at| width(&row[..at]))
}

/// Asserts that every screen has each text where the first one has it, both in the frame above the view and in the view.
pub(super) fn assert_steady(screens: &[String], texts: &[&str]) {
    let lines: Vec<(usize, &str)> = screens[0].lines().enumerate().collect();
    let (frame, view) = lines.split_at(3);
    for text in texts {
        let place = |(y, line): &(usize, &str)| Some((*y, width(&line[..line.find(text)?])));
        let places = [frame, view].map(|lines| lines.iter().find_map(place));
        assert_ne!(places, [None, None], "{text}: {}", screens[0]);
        for screen in screens {
            for (y, x) in places.into_iter().flatten() {
                let line = screen.lines().nth(y).unwrap_or_default();
                let is_there = line.match_indices(text).any(|(at, _)| width(&line[..at]) == x);
                assert!(is_there, "{text} has moved:\n{}\n{screen}", screens[0]);
            }
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    let ledger = |view: &View| *view == View::Ledger;
    frame::tabs::tabbed().filter(move |view| !ledger(view)).map(View::tab)
}

#[test]
fn nothing_moves_in_a_load_test() {
    for size in in_each_language(|| &SIZES[..3]) {
        let titles = [text::STOCK, text::ADMISSION, text::STREAM, text::PENDING, text::DEAD];
        let others = [Label("console-orders-per-second"), Label("console-rush")];
        let lower = [Label("overview-locks"), Label("console-attention")];
        let titles = titles.iter().chain(&others).chain(&lower);
        let texts = titles.map(|it| it.read()).chain(names());
        let texts: Vec<&str> = texts.chain(["redis", "sqlite", "└"]).collect();
        let mut tui = Tui::new(rest());
        let mut screens = vec![tui.at(*size).screen()];
        screens.push(tui.show(extreme()).screen());
        // While the display is paused and a long message is shown.
        tui.press("f");
        tui.app.display.now = NOW.plus(4_321_000);
        let now = Some(tui.app.display.now);
        tui.show(with(extreme(), |it| (it.redis.last_ok, it.sql.last_ok) = (now, now)));
        tui.app.status.failure("redis does not answer; try again ".repeat(9));
        screens.push(tui.screen());
        assert_steady(&screens, &texts);
    }
}

#[test]
fn a_server_that_goes_away_moves_nothing_in_the_header() {
    let mut later = vec![normal(), super::truth::locked(normal())];
    for is_up in [true, false] {
        for ago in [Some(6), Some(59), Some(119), Some(7_199), Some(172_799), None] {
            later.push(with(normal(), |it| {
                for server in [&mut it.redis, &mut it.sql] {
                    server.up = is_up;
                    server.last_ok = ago.map(|seconds: i64| NOW.plus(-seconds * 1_000));
                }
            }));
        }
    }
    later.extend([90, 999_999, 59_000_000].map(|micros| {
        with(normal(), |it| (it.redis.latency_us, it.sql.latency_us) = (micros, micros))
    }));
    for size in in_each_language(|| [(80, 24), (112, 30), (120, 36), (200, 50)]) {
        let mut tui = Tui::new(normal());
        tui.at(size);
        let header = |it: &Snapshot| format!("{}\n\n\n", tui.show(it.clone()).header());
        let headers: Vec<String> = later.iter().map(header).collect();
        assert_steady(&headers, &["#7 hot pot 50% off", "04:12", "redis", "sqlite"]);
        for header in &headers {
            let badges = header.split_once("redis");
            assert!(badges.is_some_and(|(_, shown)| !shown.contains('…')), "{header}");
        }
    }
}

#[test]
fn view_names_are_never_truncated_by_counts() {
    for size in in_each_language(|| &SIZES[..3]) {
        for view in View::of_engine() {
            let mut tui = Tui::open(extreme(), "f");
            tui.app.view = view;
            let text = tui.at(*size).screen();
            let names = names().all(|name| text.lines().nth(1).unwrap().contains(name));
            assert!(names, "{text}");
            let badges = [text::FROZEN, text::READ_ONLY];
            assert!(badges.iter().all(|it| text.contains(it.read())), "{text}");
        }
    }
}

#[test]
fn the_header_shows_the_sale_with_a_load_test() {
    let rushed = |on: &[u64]| {
        let load_tests = on.iter().map(|id| load_test(*id, 1, 2)).collect();
        Snapshot { load_tests, ..rest() }
    };
    let mut tui = Tui::new(rest());
    for (on, shown) in [
        (&[][..], "#8 Milk tea"),
        (&[7], "#7 Hot pot"),
        (&[7, 7], "#7 Hot pot"),
        (&[7, 8], "▸ 2 running"),
    ] {
        let header = tui.show(rushed(on)).header();
        assert!(header.contains(shown), "{on:?}: {header}");
    }
    let header = tui.press("2j1").show(rushed(&[8])).header();
    assert!(header.contains("#7 Hot pot"), "it is chosen, so commands act on it: {header}");
}

/// The two sales; `active` sells, or none.
fn selling(active: u64, second: i64) -> Snapshot {
    with(Snapshot { taken: NOW.plus(second * 1_000), ..rest() }, |it| {
        for sale in &mut it.sales {
            let sells = sale.voucher_id == VoucherId(active);
            sale.funnel.admitted.per_second = if sells { 802.0 } else { 0.0 };
        }
    })
}

/// Buyers may come from other processes; a snapshot shows their load tests only by the effect on the stock.
#[test]
fn the_active_sale_is_the_one_that_sells() {
    let mut active = ActiveSale::default();
    let mut after = |snapshot: Snapshot, chosen: Option<u64>| {
        active.look(&snapshot, chosen.map(VoucherId));
        active.sale().map(|sale| sale.0)
    };
    for (sells, second, expected, why) in [
        (0, 0, None, "none sells"),
        (7, 1, Some(7), "it sells"),
        (0, 2, Some(7), "a slow sale sells nothing for a moment"),
        (8, 3, Some(7), "another one does not replace it at once"),
        (8, 9, Some(8), "it has not sold for long, the other does"),
        (7, 20, Some(7), "now this one"),
        (0, 40, Some(7), "none sells, and it did a moment ago"),
        (0, 90, Some(7), "no other one has sold since"),
        (7, 100, Some(7), "again"),
    ] {
        assert_eq!(after(selling(sells, second), None), expected, "{why}");
    }
    let away = with(selling(0, 155), |it| it.redis.up = false);
    assert_eq!(after(away, None), Some(7), "rates are unknown while Redis is down");
    assert_eq!(after(selling(0, 165), None), Some(7), "an outage is not held against it");
    let both = with(selling(7, 166), |it| {
        it.sales.iter_mut().for_each(|sale| sale.funnel.admitted.per_second = 802.0);
    });
    assert_eq!(after(both, Some(8)), Some(8), "both sell, and this one is chosen");
    let sold_out = with(selling(0, 200), |it| it.sales[0].phase = Phase::SoldOut);
    assert_eq!(after(sold_out, None), Some(8), "its result is read until another one sells");
    let short = with(selling(7, 300), |it| it.sales[1].phase = Phase::SoldOut);
    assert_eq!(after(short, None), Some(7), "no snapshot saw it open");
}

/// A launch is over when its sale is sold out; the presenter layout moves on.
#[test]
fn a_finished_launch_gives_way_to_the_active_sale() {
    let mut tui = Tui::new(rest());
    let sold_out = |active, second| {
        with(selling(active, second), |it| {
            (it.sales[0].phase, it.sales[0].stock) = (Phase::SoldOut, Some(0));
        })
    };
    (tui.app.presenter.sale, tui.app.presenter.launched) = (Some(VoucherId(8)), true);
    for (snapshot, presented, why) in [
        (selling(7, 0), 8, "it is not over"),
        (sold_out(0, 0), 8, "sold out, and nothing else happens"),
        (sold_out(0, 120), 8, "nothing else happens for long"),
        (sold_out(7, 121), 7, "another one sells"),
    ] {
        assert_eq!(tui.show(snapshot).app.presented(), Some(VoucherId(presented)), "{why}");
    }
}

#[test]
fn only_the_figures_of_a_moment_are_lit() {
    for theme in [Depth::Ansi256, Depth::None].map(|depth| Theme::new(depth, false)) {
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
            let current =
                "STOCK|3,120|ADMISSION|178,880|LOAD TEST|PENDING|oldest 42 s|LOCKS|ALARMS";
            for now in current.split('|') {
                assert!(dim(now, 3), "{now}: {}", tui.screen_at(w, h));
            }
            assert!(!dim("values of 11:06:", 3) && !dim("persisted", 3));
            tui.at((w, h)).assert_shows("; rest is current");
            tui.press("\x1b").assert_hides("rest is current");
        }
    }
}

#[test]
fn a_gauge_empties_in_every_view() {
    let nearly_gone = sale(7, "hot pot", Phase::Planned, 1_000, 1);
    for keys in ["1", "2", "t"] {
        let sales = vec![SaleLine { phase: Phase::Running, begin: None, ..nearly_gone.clone() }];
        let mut tui = Tui::open(Snapshot { sales, ..empty() }, keys);
        assert!(tui.line("░░░░░").contains(" ▏░░░░░"), "{}", tui.screen());
        assert!(tui.screen().to_lowercase().contains("left"), "{}", tui.screen());
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
            let line = tui.at((*width, 50)).line(cell);
            assert!(!line.contains(&" ".repeat(limit)), "{width}: {line}");
        }
    }
}

#[test]
fn enter_opens_the_detail_of_every_view_in_the_smallest_window_or_says_why_not() {
    let text = "node-b was killed in the middle of its batch; nothing is lost. ".repeat(2);
    let (title, key) = ("A consumer dies".to_owned(), Some("4".to_owned()));
    let guide = GuidePage { title, text, key, ..GuidePage::default() };
    // A text that only the detail shows.
    let words = [
        ["initial stock", "user ", "holder", "was entry", "owner", "buyer", "HISTORY", "when"],
        ["总库存", "用户", "持有者", "原消息", "持有标识", "买家", "运行历史", "时间"],
    ];
    let views = ["2jk", "3k", "4", "5", "6", "7j", "8", "0k"];
    for (_, words) in languages().zip(words) {
        for page in [GuidePage::default(), guide.clone()] {
            for (keys, word) in views.into_iter().zip(words) {
                let detail = DETAILS.iter().find(|(.., it)| it.starts_with(&keys[..1]));
                let mut tui = Tui::new(detail.unwrap().1());
                tui.app.on_guide(page.clone());
                let before = tui.at((60, 15)).press(keys).screen();
                let open = tui.press("\n").screen();
                let rule = |text: &str| text.contains("──────────");
                assert!(rule(&open) && !rule(&before), "{keys}: {open}");
                assert!(inner(&open, 3, 0).contains(word), "{keys}, {word}: {open}");
                assert_eq!(tui.press("h").screen(), before, "{keys}");
            }
        }
    }
    set_thread_language("en");
    let mut tui = Tui::open(with_stream(), "3c\n");
    tui.assert_status("a consumer has no details beyond its row").press("c");
    assert!(!tui.app.views.stream.entries.controls.detail);
}

/// A count of consumers without the name of one says nothing.
#[test]
fn a_row_for_one_consumer_names_it_and_counts_the_others() {
    let mut snapshot = normal();
    if let Some(stream) = &mut snapshot.stream {
        let first = stream.consumers[0].clone();
        stream
            .consumers
            .extend((2..9).map(|it| ConsumerLine { name: format!("till/{it}"), ..first.clone() }));
    }
    let (mut tui, mut alone) = (Tui::new(snapshot), 0);
    for height in 20..45 {
        let screen = tui.screen_at(110, height);
        let Some(at) = screen.lines().position(|line| line.contains("CONSUMERS")) else { continue };
        let line = screen.lines().nth(at).unwrap_or_default();
        assert!(line.contains("node-b/1"), "{height} rows:\n{screen}");
        alone += u32::from(line.contains("and 8 more"));
    }
    assert!(alone > 0, "some heights have room for one");
}
