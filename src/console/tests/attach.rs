//! The screen of an attached service with fixed reports: every size, any number of rows, outages, and its keys.

use seckill_attach::{
    Alarm, ConsumerReport, Cost, Kind, Limits, LockReport, Locks, Report, SaleReport, StreamReport,
};

use super::prelude::*;
use crate::views::attach::Pass;

fn sale(id: u64) -> SaleReport {
    SaleReport {
        voucher_id: VoucherId(id),
        title: format!("火锅五折 hot pot {id}"),
        phase: Some(Phase::Running),
        loaded: true,
        redis_stock: Some(98_766),
        sql_stock: 98_777,
        initial: Some(100_000),
        buyers: Some(1_234),
        orders: Some(1_223),
        live_orders: Some(1_222),
        in_flight: Some(9),
        entries_in_flight: Some(9),
        buyers_with_closed_order: Some(4),
        buyers_without_order: Some(2),
        orders_without_buyer: Some(3),
        duplicate_buyers: 1,
        moved: false,
        admitted_per_second: Some(812.4),
        orders_per_second: Some(3.5),
    }
}

fn lock(number: u64) -> LockReport {
    let is_hash = number.is_multiple_of(2);
    LockReport {
        key: format!("lock:order:{number:04}"),
        kind: if is_hash { Kind::Hash } else { Kind::String },
        owner: format!("9f3e1c2a-77aa-4b7e-9b6d-0d4c8f1a2b3c:{number}"),
        depth: 1,
        left_ms: (number > 0).then_some(12_000),
    }
}

/// One of each kind.
fn all_alarms() -> Vec<Alarm> {
    let voucher = VoucherId(10);
    let (users, user) = (2, "9001".to_owned());
    let (count, key) = (3, "lock:order:7".to_owned());
    let mut alarms = vec![
        Alarm::LockWithoutLease { count, key: key.clone() },
        Alarm::BuyersWithClosedOrder { voucher, users, user: user.clone() },
        Alarm::LockNotReleased { count, key: key.clone(), left_ms: 20_000 },
        Alarm::LagHigh { lag: Some(5_000), oldest_ms: 61_000 },
        Alarm::StuckPending { consumer: "c1".into(), count, idle_ms: 90_000 },
        Alarm::PoisonEntries { count, entry: "17-0".into(), why: seckill_attach::Poison::BodyGone },
        Alarm::NoGroup { stream: "stream.orders".into(), group: "g1".into(), length: 12 },
        Alarm::ForeignKey(ForeignKey { key: "seckill:order:12".into(), holds: "string".into() }),
        Alarm::SaleNotLoaded { voucher, key: "seckill:stock:10".into() },
        Alarm::StockMismatch { voucher, redis_stock: 4, sql_stock: 5, in_flight: 0 },
        Alarm::NoStream { stream: "stream.orders".into() },
        Alarm::StockWithoutSale { count, key: "seckill:stock:11".into() },
        Alarm::OrdersOutsideDates { voucher, count, entry: "17-1".into() },
        Alarm::PiecesDiffer { voucher, in_redis: 10, in_sql: 9, initial: None },
        Alarm::LocalTimeIds { order: "7".into(), minutes: 480 },
        Alarm::FutureIds { order: "7".into(), minutes: 480 },
        Alarm::OrderIdsDiffer { voucher, users, user: user.clone(), entry: "17-1".into() },
        Alarm::PaidOrderClosed { voucher, orders: users, order: "7".into() },
        Alarm::IdleConsumers { count: 60, consumer: "c-17".into(), idle_ms: 900_000 },
        Alarm::SaleBetween { voucher, key: "seckill:stock:10:moving".into() },
        Alarm::StreamNotTrimmed { stream: "stream.orders".into(), acknowledged: 100_000 },
        Alarm::CounterStays { key: "icr:order:2026:11:27".into() },
        Alarm::DeadLetters { stream: "seckill:attach:stream.orders:dead".into(), count },
        Alarm::Redelivered { count, entry: "17-1".into(), deliveries: 6 },
        Alarm::OrdersWithoutBuyer { voucher, users, user: user.clone() },
        Alarm::BuyersWithoutOrder { voucher, users, user },
        Alarm::DuplicateOrders { voucher, users },
        Alarm::Oversold {
            voucher,
            redis_stock: Some(-3),
            sql_stock: -3,
            live_orders: None,
            initial: None,
        },
    ];
    alarms.sort();
    alarms
}

fn report(sales: u64, consumers: u64, locks: u64, alarms: Vec<Alarm>) -> Report {
    let consumer = |number| ConsumerReport {
        name: format!("consumer-{number}"),
        pending: consumers - number,
        idle_ms: 1_500,
    };
    Report {
        taken: NOW,
        redis: "127.0.0.1:6379".into(),
        database: "sqlite".into(),
        limits: Limits::default(),
        cost: Cost { commands: 1_234, rows: 2_346, took_ms: 14 },
        has_stream: true,
        stream: Some(StreamReport {
            key: "stream.orders".into(),
            group: "g1".into(),
            exists: true,
            has_group: true,
            length: 120_000,
            added: Some(120_000),
            lag: Some(5_000),
            oldest_undelivered_ms: Some(400),
            pending: 3_000,
            added_per_second: Some(812.4),
            consumers: (0..consumers).map(consumer).collect(),
        }),
        sales: (10..10 + sales).map(sale).collect(),
        more_sales: false,
        locks: Some(Locks { complete: true, held: (0..locks).map(lock).collect() }),
        alarms,
        not_compared: Vec::new(),
    }
}

fn pass(outcome: Result<Report, &str>) -> Pass {
    let outcome = outcome.map(Box::new).map_err(str::to_owned);
    Pass { ended: NOW, pause_ms: 2_000, outcome }
}

/// The screen before the first pass.
fn opened() -> Tui {
    let snapshot = Snapshot { seq: 1, read_only: true, ..Snapshot::default() };
    let mut tui = Tui::new(snapshot);
    (tui.app.alone, tui.app.view) = (true, View::Attach);
    tui.app.views.attach.name("hmdp".into(), "127.0.0.1:6379".into());
    tui
}

/// After the second pass, with which alarms are known.
fn attached(report: &Report) -> Tui {
    let mut tui = opened();
    for _ in 0..2 {
        tui.app.on_pass(pass(Ok(report.clone())));
    }
    tui
}

fn full() -> Tui {
    attached(&report(100, 200, 1_000, all_alarms()))
}

fn pressed(keys: &str) -> Tui {
    let mut tui = full();
    tui.press(keys);
    tui
}

fn failed() -> Tui {
    let mut tui = full();
    tui.app.on_pass(pass(Err("cannot reach Redis at 127.0.0.1:6379 (connection refused)")));
    tui.app.display.now = NOW.plus(12_000);
    tui
}

type Opened = fn() -> Tui;

const SCREENS: [(&str, Opened); 6] = [
    ("one sale", || attached(&report(1, 1, 0, Vec::new()))),
    ("stream", || pressed("\t")),
    ("detail", || pressed("\n")),
    ("many of each", full),
    ("alarms", || pressed("⇤")),
    ("outage", failed),
];

#[test]
fn a_service_in_each_size() {
    for (width, height) in SIZES {
        let screens = SCREENS.map(|(name, tui)| (name.to_owned(), tui().screen_at(width, height)));
        assert_screens(&format!("attach_{width}x{height}"), screens);
    }
    set_thread_language("zh");
    let screens = SCREENS[3..].iter();
    let screens = screens.map(|(name, tui)| ((*name).to_owned(), tui().screen_at(80, 24)));
    assert_screens("attach_zh_80x24", screens);
}

#[test]
fn what_matters_is_never_cut() {
    for size in in_each_language(|| SIZES) {
        for (sales, consumers, locks) in [(0, 0, 0), (1, 1, 1), (100, 200, 1_000)] {
            let mut tui = attached(&report(sales, consumers, locks, all_alarms()));
            let shown = text!("attach-screen-alarms", count = all_alarms().len());
            tui.at(size).assert_shows(&shown).assert_shows("127.0.0.1:6379|sqlite");
            assert!(tui.header().contains(&shown), "in the top line");
            let [lag, pending] = [Label("common-lag"), Label("common-pending")];
            tui.assert_shows(format!("{lag} 5,000|{pending} 3,000|g1"));
            // Each alarm in full, with what to do.
            tui.press("⇤g");
            let mut seen = String::new();
            for _ in all_alarms() {
                seen.push_str(&tui.screen().split_whitespace().collect::<String>());
                tui.press("j");
            }
            for alarm in all_alarms() {
                let lines = views::attach::alarm_lines(&alarm, size.0);
                for line in lines {
                    let line: String = line.split_whitespace().collect();
                    assert!(seen.contains(&line), "{line} at {size:?}: {seen}");
                }
            }
            let figures = "98,766|98,777|1,234|1,223|812|3.5";
            if sales > 0 {
                tui.press("\t").assert_shows("98,766|98,777|1,234|1,223");
                tui.press("\n").assert_shows(figures).press("\x1b");
            }
        }
    }
}

#[test]
fn figures_of_an_earlier_pass_are_marked_as_old() {
    let mut tui = opened();
    tui.assert_shows("reading");
    tui.app.on_pass(pass(Err("cannot reach Redis")));
    tui.assert_shows("✖ cannot reach Redis; trying again every 2 s").assert_hides("98,766|STREAM");
    assert!(tui.header().contains("unknown"));
    tui.app.on_pass(pass(Ok(report(1, 1, 1, Vec::new()))));
    // Whether a difference lasts is unknown after one pass.
    tui.assert_hides("no alarms").assert_shows("after a second pass").assert_hides("cannot reach");
    tui.app.on_pass(pass(Ok(report(1, 1, 1, all_alarms()))));
    // The row under the cursor has colours of its own.
    tui.press("\t").assert_shows("✖ 28 alarms|read 0.0 s ago in 14 ms");
    tui.app.display.now = NOW.plus(3_000);
    tui.assert_shows("3 s ago").assert_hides("s old");
    // The next pass begins later after an expensive one.
    let slow = Pass { pause_ms: 20_000, ..pass(Ok(report(1, 1, 1, all_alarms()))) };
    tui.app.on_pass(slow);
    tui.app.display.now = NOW.plus(19_000);
    tui.assert_shows("19 s ago").assert_hides("s old");
    tui.app.on_pass(pass(Ok(report(1, 1, 1, all_alarms()))));
    tui.app.display.now = NOW.plus(3_000);
    let cost = "read 3 s ago in 14 ms: 1,234 Redis commands, 2,346 rows";
    assert!(tui.screen_at(120, 36).contains(cost), "{}", tui.screen_at(120, 36));
    let is_dimmed = |tui: &mut Tui| {
        let buffer = tui.draw(120, 36);
        let mut found = (3..36).filter_map(|y| Some((column(&buffer, y, "98,766")? as u16, y)));
        buffer[found.next().unwrap()].fg == tui.app.display.theme.dimmed.fg.unwrap()
    };
    assert!(!is_dimmed(&mut tui));
    // No pass has ended in time, whether or not one has failed.
    tui.app.display.now = NOW.plus(9_000);
    tui.assert_shows("28 alarms, 9 s old").assert_hides(" ago in");
    assert!(is_dimmed(&mut tui));
    tui.app.display.now = NOW.plus(1_000);
    tui.app.on_pass(pass(Err("cannot reach Redis")));
    tui.assert_shows("28 alarms, 1 s old|✖ cannot reach Redis");
    assert!(is_dimmed(&mut tui));
    tui.app.on_pass(pass(Ok(report(1, 1, 1, Vec::new()))));
    tui.assert_shows("✔ no alarms").assert_hides("s old|cannot reach");
    let stays = Alarm::CounterStays { key: "icr:order:2026:11:27".into() };
    tui.app.on_pass(pass(Ok(report(1, 1, 1, vec![stays]))));
    tui.assert_shows("1 alarm|- Counter icr").assert_hides("✖|✔");
    let why = reason!("attach-more-orders", compared = 100_000_u64);
    let partly = Report { not_compared: vec![why], ..report(1, 1, 1, Vec::new()) };
    tui.app.on_pass(pass(Ok(partly)));
    tui.assert_shows("no alarms, not all compared|the 100,000 orders").assert_hides("✔");
    assert!(!is_dimmed(&mut tui));
}

#[test]
fn panels_have_the_keys_of_tables() {
    let mut tui = full();
    tui.press("jjy");
    assert_eq!(tui.copied(), "12");
    tui.press("oo").assert_status_contains("sorted by TITLE").assert_shows("TITLE↑");
    tui.press("/pot 17\n").assert_shows("1 of 100").press("\x1b").assert_hides("1 of 100");
    // The cursor stays on its sale when rows come and go.
    tui.press("G").app.on_pass(pass(Ok(report(50, 1, 0, Vec::new()))));
    tui.press("y").assert_status("copied: 59");
    tui.press("\t").assert_shows("▸STREAM").press("\t").assert_shows("▸LOCKS");
    tui.press("\t").assert_shows("▸ALARMS").press("o").assert_status_contains("order of urgency");
    tui.press("⇤⇤⇤").assert_shows("▸SALES").press("xj");
    let [export] = <[_; 1]>::try_from(std::mem::take(&mut tui.app.terminal.exports)).unwrap();
    let read: serde_json::Value = serde_json::from_str(&export.body).unwrap();
    assert_eq!((&read["rows"][0]["sale"], &read["rows"][0]["no_order"]), (&"10".into(), &2.into()));
    for key in ["1", "N", "t", "L", "f", "e", "s"] {
        tui.press(key).assert_idle();
        assert_eq!(tui.app.view, View::Attach, "{key}");
        assert!(!tui.app.presenter.on && !tui.app.display.frozen, "{key}");
    }
    tui.press("?").assert_shows("next view|filter|sort").assert_hides("Presenter|freeze|guide|Lab");
    tui.press("\x1bq");
    assert_eq!(tui.app.terminal.course, crate::app::Course::Quit);
}

#[test]
fn a_console_with_an_engine_does_not_open_it() {
    let mut tui = Tui::new(normal());
    for _ in View::VARIANTS {
        tui.press("\t");
        assert_ne!(tui.app.view, View::Attach);
    }
    tui.press(":attach").assert_hides("go to the attached service|attached service");
    tui.press("\x1b?").assert_hides("Attached");
}

#[test]
fn missing_parts_are_named() {
    let unread = Report { stream: None, ..report(0, 0, 0, Vec::new()) };
    attached(&unread).assert_shows("unknown: its key has the wrong type");
    let bare = Report { has_stream: false, locks: None, ..unread };
    attached(&bare).assert_shows("orders wait in the memory of the service|has no lock");
    let mut lost = report(1, 0, 0, Vec::new());
    let stream = lost.stream.as_mut().unwrap();
    (stream.has_group, stream.lag) = (false, None);
    lost.more_sales = true;
    attached(&lost).assert_shows("group g1 does not exist|lag unknown|Only the newest 1 sales");
    (lost.stream.as_mut().unwrap().exists, lost.stream.as_mut().unwrap().length) = (false, 0);
    let gone = "stream.orders does not exist|lag -|pending -|length -";
    attached(&lost).assert_shows(gone).assert_hides("no entry is delivered");
    let mut part = report(0, 0, 3, Vec::new());
    part.locks.as_mut().unwrap().complete = false;
    attached(&part).assert_shows("3  so far");
    full().assert_shows("only the first 1,000 are read");
    // Control characters of the service do not reach the terminal.
    let mut hostile = report(1, 1, 1, Vec::new());
    hostile.sales[0].title = "a\x1b[31m\u{202e}火锅\r\n".into();
    hostile.stream.as_mut().unwrap().key = "s\x1b[2J".into();
    let text = attached(&hostile).screen();
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text:?}");
}
