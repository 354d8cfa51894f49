//! Orders on the screen: queries, paging, the trace of an order, payment.

use std::sync::Arc;

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    orders::Location,
    telemetry::{
        OrdersView, Snapshot,
        snapshot::{DeliveryState, OrdersPage},
    },
    trace::Trace,
};
use seckill_model::{
    EntryId, Millis, Order, OrderId, OrderStatus, Payment, UserId, VoucherId,
    locale::set_thread_language,
};

use super::{
    fixture::{Bench, NOW, empty, normal, overflowing},
    screens::{SHOTS, assert_screen},
};
use crate::theme::{Depth, Theme};

/// Order `number`: later ones have higher IDs.
fn id(number: u64) -> OrderId {
    OrderId::new(1_794_999_000 + number as i64, 4_000 + number).unwrap()
}

fn order(number: u64) -> Order {
    let status = OrderStatus::from_code(1 + (number % 5) as i64).unwrap();
    let at = |seconds: i64| NOW.plus((number as i64 - 1_000 + seconds) * 1_000);
    Order {
        id: id(number),
        user_id: UserId(1_000 + number),
        voucher_id: VoucherId(7),
        place: Some(1 + (number % 2) as u8),
        status,
        create_time: at(1),
        pay_time: matches!(status, OrderStatus::Paid | OrderStatus::Used).then(|| at(90)),
        close_time: (!status.is_live()).then(|| at(1_800)),
    }
}

/// A page of a hundred orders, down from `newest`.
pub(super) fn page(view: OrdersView, newest: u64) -> OrdersPage {
    let oldest = (newest + 1).saturating_sub(100);
    let lines = Arc::new((oldest..=newest).rev().map(order).collect());
    OrdersPage { view, taken: Some(NOW), more: oldest > 0, late: None, lines }
}

pub(super) fn sold() -> Snapshot {
    Snapshot { orders: page(OrdersView::default(), 900), ..normal() }
}

fn away() -> Snapshot {
    let mut snapshot = sold();
    snapshot.sql.up = false;
    snapshot.sql.last_ok = Some(NOW.plus(-42_000));
    snapshot.sql.error = Some("disk I/O error".into());
    snapshot.orders.taken = snapshot.sql.last_ok;
    snapshot
}

fn crowded() -> Snapshot {
    let mut snapshot = Snapshot { orders: page(OrdersView::default(), 900), ..overflowing() };
    for order in Arc::make_mut(&mut snapshot.orders.lines) {
        order.user_id = UserId(u64::MAX);
        order.voucher_id = VoucherId(123_456);
    }
    snapshot
}

fn entry() -> EntryId {
    EntryId { millis: 1_794_999_897_104, number: 3, partition: 0 }
}

fn trace(number: u64) -> Trace {
    Trace {
        id: id(number),
        standing: Location::Persisted { order: order(number) },
        partition: None,
        held: Some(true),
        entry: Some((entry(), DeliveryState::Acknowledged)),
        more: false,
        delivered: None,
    }
}

fn traced(bench: &mut Bench, trace: Trace) {
    assert_eq!(bench.sent(), [Command::Trace(trace.id)]);
    bench.answer(Ok(Reply::Traced(Box::new(trace))));
}

fn ask(bench: &mut Bench, query: &str) {
    bench.keys("/");
    bench.keys(query);
    bench.press(KeyCode::Enter);
}

/// Order 950, which is not in SQL.
fn ask_in_vain(bench: &mut Bench) {
    ask(bench, &id(950).to_string());
    let view = bench.focus.borrow().orders.unwrap();
    let orders = OrdersPage { view, taken: Some(NOW), ..OrdersPage::default() };
    bench.show(Snapshot { orders, ..normal() });
}

#[test]
fn every_state_at_every_size() {
    type Scene = (&'static str, fn() -> Snapshot);
    let scenes: [Scene; 6] = [
        ("empty", || {
            let orders = OrdersPage { taken: Some(NOW), ..OrdersPage::default() };
            Snapshot { orders, ..empty() }
        }),
        ("normal", sold),
        ("overflowing", crowded),
        ("outage", away),
        ("unread", || Snapshot { orders: OrdersPage::default(), ..away() }),
        ("read_only", || Snapshot { read_only: true, ..sold() }),
    ];
    for (scene, snapshot) in scenes {
        for (lang, width, height) in SHOTS {
            set_thread_language(lang);
            let tail = if lang == "zh" { "_zh" } else { "" };
            let mut bench = Bench::new(snapshot());
            bench.keys("7");
            let text = bench.text(width, height);
            assert_screen(&format!("orders_{scene}{tail}_{width}x{height}"), &text);
        }
    }
}

#[test]
fn the_trace_of_an_order_and_the_confirmation_of_a_payment() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let screen = |name: &str, bench: &mut Bench| {
            assert_screen(&format!("{name}_{width}x{height}"), &bench.text(width, height));
        };
        let mut bench = Bench::new(sold());
        bench.keys("7jjjl");
        traced(&mut bench, trace(897));
        screen("orders_detail", &mut bench);
        let mut bench = Bench::new(sold());
        bench.keys("7P");
        screen("confirm_pay", &mut bench);
        let mut bench = Bench::new(sold());
        bench.keys("7/user=12 stat");
        screen("orders_typing", &mut bench);
        // Not in SQL: its trace instead.
        let mut bench = Bench::new(sold());
        bench.keys("7");
        ask_in_vain(&mut bench);
        let (user_id, voucher_id) = (UserId(1_950), VoucherId(7));
        let standing = Location::Pending { entry: entry(), user_id, voucher_id };
        let holding =
            DeliveryState::Pending { consumer: "node-b/1".into(), idle_ms: 42_000, deliveries: 3 };
        let found = Trace {
            standing,
            entry: Some((entry(), holding)),
            delivered: Some(Millis(1_794_999_897_116)),
            ..trace(950)
        };
        traced(&mut bench, found);
        screen("orders_elsewhere", &mut bench);
    }
}

#[test]
fn a_dead_letter_of_an_order_names_no_buyer_until_asked() {
    let mut bench = Bench::new(sold());
    bench.keys("7");
    ask_in_vain(&mut bench);
    let standing = Location::Dead {
        reason: "buyer 1950 holds order 9 already".into(),
        user_id: UserId(1_950),
        voucher_id: VoucherId(7),
    };
    traced(&mut bench, Trace { standing, held: None, entry: None, ..trace(950) });
    let text = bench.text(120, 36);
    assert!(text.contains("buyer ***50 holds order 9") && !text.contains("1950"), "{text}");
    bench.keys("u");
    assert!(bench.text(120, 36).contains("buyer 1950 holds order 9"));
}

#[test]
fn the_view_is_localized() {
    set_thread_language("zh");
    let mut bench = Bench::new(sold());
    bench.keys("7jjjl");
    traced(&mut bench, trace(897));
    let text = bench.text(120, 36);
    set_thread_language("en");
    assert_screen("orders_zh_120x36", &text);
}

#[test]
fn query_errors_are_localized() {
    set_thread_language("zh");
    for (query, expected) in [
        ("user=one", "user 要填数字"),
        ("colour=red", "不能按“colour”查订单"),
        ("status=lost", "不是订单状态"),
        ("from=soon", "不是可识别的时间"),
    ] {
        let mut bench = Bench::new(sold());
        bench.keys("7/");
        bench.keys(query);
        let text = bench.text(120, 36).replace(' ', "");
        assert!(text.contains(&expected.replace(' ', "")), "{query}: {text}");
    }
    set_thread_language("en");
}

#[test]
fn ascii_mode_shows_it_all() {
    let mut bench = Bench::themed(sold(), Theme::new(Depth::None, true));
    bench.keys("7l");
    traced(&mut bench, trace(900));
    let text = bench.text(120, 36);
    let beyond: Vec<char> = text.chars().filter(|c| !c.is_ascii()).collect();
    assert!(beyond.is_empty(), "{beyond:?}: {text}");
}

#[test]
fn a_query_runs_once_it_is_valid() {
    let mut bench = Bench::new(sold());
    assert_eq!(bench.focus.borrow().orders, None, "the view is closed, so nothing is read");
    bench.keys("7");
    assert_eq!(bench.focus.borrow().orders, Some(OrdersView::default()));
    ask(&mut bench, "user=one");
    assert!(bench.app.filtering, "it is mended, not taken");
    let text = bench.text(120, 36);
    assert!(text.contains("user='one' is not valid"), "{text}");
    assert_eq!(bench.focus.borrow().orders, Some(OrdersView::default()));
    (0..3).for_each(|_| bench.press(KeyCode::Backspace));
    bench.keys("1001 status=paid");
    bench.press(KeyCode::Enter);
    let asked = bench.focus.borrow().orders.unwrap();
    assert_eq!(asked.query, "user=1001 status=paid".parse().unwrap());
    assert!(bench.text(120, 36).contains("reading"), "rows of another question are not shown");
    let lines = Arc::new(vec![order(1)]);
    let late = OrdersPage { late: Some(asked), ..sold().orders };
    bench.show(Snapshot { orders: late, ..normal() });
    let text = bench.text(120, 36);
    assert!(text.contains("SQL is slow") && text.contains("within two seconds"), "{text}");
    let orders = OrdersPage { view: asked, taken: Some(NOW), lines, ..OrdersPage::default() };
    bench.show(Snapshot { orders, ..normal() });
    let text = bench.text(120, 36);
    assert!(text.contains("user=1001 status=paid") && text.contains("1 total"), "{text}");
    bench.press(KeyCode::Esc);
    assert_eq!(bench.focus.borrow().orders, Some(OrdersView::default()));
    bench.keys("1");
    assert_eq!(bench.focus.borrow().orders, None);
}

#[test]
fn pages_turn_by_key_and_hold_while_orders_come() {
    let mut bench = Bench::new(sold());
    bench.keys("7");
    let chosen = |bench: &Bench| bench.app.orders.table.chosen(&bench.app.shown).map(|it| it.id);
    bench.keys("j");
    let held = bench.focus.borrow().orders.unwrap();
    assert_eq!(held.before, OrderId::from_i64(id(900).as_i64() + 1));
    bench.show(Snapshot { orders: page(held, 900), ..normal() });
    assert_eq!(chosen(&bench), Some(id(899)));
    bench.keys("n");
    let older = bench.focus.borrow().orders.unwrap();
    assert_eq!(older.before, Some(id(801)));
    bench.show(Snapshot { orders: page(older, 800), ..normal() });
    assert_eq!(chosen(&bench), Some(id(800)));
    bench.keys("k");
    assert_eq!(bench.focus.borrow().orders, Some(held));
    bench.show(Snapshot { orders: page(held, 900), ..normal() });
    assert_eq!(chosen(&bench), Some(id(801)), "it goes on where the other one began");
    bench.keys("g");
    assert_eq!(bench.focus.borrow().orders, Some(OrdersView::default()));
    bench.show(Snapshot { orders: page(OrdersView::default(), 950), ..normal() });
    assert_eq!(chosen(&bench), Some(id(950)));
    bench.keys("b");
    assert_eq!(bench.said(), "this is the first row");
}

#[test]
fn one_order_is_traced_at_a_time() {
    let mut bench = Bench::new(sold());
    bench.keys("7l");
    assert_eq!(bench.sent(), [Command::Trace(id(900))]);
    bench.keys("jjj");
    assert!(bench.sent().is_empty(), "New orders enter the stream first");
    bench.answer(Ok(Reply::Traced(Box::new(trace(900)))));
    assert_eq!(bench.sent(), [Command::Trace(id(897))]);
    bench.answer(Err(EngineError::Plan("redis does not answer; try again".to_owned())));
    assert!(bench.text(120, 36).contains("a server is unreachable"));
    assert!(bench.sent().is_empty(), "it is not asked for again and again");
    bench.press(KeyCode::Esc);
    bench.keys("l");
    assert_eq!(bench.sent(), [Command::Trace(id(897))]);
}

#[test]
fn an_unanswered_trace_is_cancelled_with_esc() {
    let mut bench = Bench::new(sold());
    bench.keys("7l");
    assert_eq!(bench.sent(), [Command::Trace(id(900))]);
    bench.press(KeyCode::Esc);
    bench.keys("jl");
    assert_eq!(bench.sent(), [Command::Trace(id(899))], "another one is looked for at once");
    // The first reply arrives after all: the second is still outstanding.
    bench.answer(Ok(Reply::Traced(Box::new(trace(900)))));
    bench.keys("j");
    assert!(bench.sent().is_empty(), "New orders enter the stream first");
    bench.answer(Ok(Reply::Traced(Box::new(trace(899)))));
    assert_eq!(bench.sent(), [Command::Trace(id(898))]);
}

#[test]
fn a_payment_targets_the_selected_order() {
    let mut bench = Bench::new(sold());
    bench.keys("7P");
    let mut later = sold();
    Arc::make_mut(&mut later.orders.lines).reverse();
    bench.show(later.clone());
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty(), "Cancel has the focus");
    let mut bench = Bench::new(sold());
    bench.keys("7P");
    bench.show(later);
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::Pay(id(900))], "whatever row it is in by now");
    let mut bench = Bench::new(sold());
    bench.keys("7Py");
    assert_eq!(bench.sent(), [Command::Pay(id(900))]);
    bench.answer(Ok(Reply::Paid { order: id(900), payment: Payment::Paid }));
    assert!(bench.said().contains("is paid"), "{}", bench.said());
    bench.keys("jP");
    assert!(bench.said().contains("only unpaid orders"), "{}", bench.said());
    let mut bench = Bench::new(Snapshot { read_only: true, ..sold() });
    bench.keys("7P");
    assert_eq!(bench.said(), "read-only mode: commands are disabled; restart without --read-only");
}

#[test]
fn an_order_is_not_admitted_after_it_was_written() {
    let mut snapshot = sold();
    let orders = Arc::make_mut(&mut snapshot.orders.lines);
    // The ID is dated a second ahead.
    orders.truncate(1);
    orders[0].create_time = NOW.plus(-101_000);
    let mut bench = Bench::new(snapshot);
    bench.keys("7");
    let text = bench.text(120, 36);
    let row = text.lines().find(|line| line.contains(&id(900).to_string())).unwrap();
    let time = row.split_whitespace().nth(2).unwrap();
    assert_eq!(row.matches(time).count(), 2, "{row}");
}

#[test]
fn the_loaded_page_is_sorted_and_the_heading_says_of_how_many() {
    let mut bench = Bench::new(sold());
    bench.keys("7");
    bench.draw(120, 36);
    let heads = |bench: &Bench| bench.app.orders.table.controls.order.map(|it| it.title.to_owned());
    while heads(&bench).as_deref() != Some("STATUS") {
        bench.keys("o");
    }
    assert_eq!(bench.said(), "sorted by STATUS, ascending");
    let text = bench.text(120, 36);
    assert!(text.contains("sorted by status within these 100"), "{text}");
    let rows = bench.app.orders.table.rows(&bench.app.shown);
    let words: Vec<String> =
        rows.iter().map(|it| crate::views::orders::wording::status(it.status)).collect();
    assert!(words.is_sorted() && words.first() != words.last(), "{words:?}");
    // The next page follows the oldest loaded order, wherever that is, and keeps the order.
    bench.keys("n");
    let before = bench.focus.borrow().orders.unwrap().before;
    assert_eq!(before, Some(id(801)));
    let view = OrdersView { before, ..OrdersView::default() };
    bench.show(Snapshot { orders: page(view, 800), ..normal() });
    assert!(bench.text(120, 36).contains("sorted by status within these 100"));
    bench.keys("r");
    assert_eq!(bench.said(), "sorted by STATUS, descending");
}
