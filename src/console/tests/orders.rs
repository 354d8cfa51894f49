//! Orders on the screen: queries, paging, the trace of an order, payment.

use seckill_engine::{orders::Location, telemetry::snapshot::OrdersPage, trace::Trace};
use seckill_model::{Order, OrderStatus};

use super::prelude::*;

/// Order `number`: later ones have higher IDs.
fn id(number: u64) -> OrderId {
    OrderId::new(1_794_999_000 + number as i64, 4_000 + number).unwrap()
}

fn order(number: u64) -> Order {
    let status = OrderStatus::from_repr(1 + (number % 5) as i64).unwrap();
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
    OrdersPage { view, taken: Some(NOW), more: oldest > 0, lines }
}

pub(super) fn with_orders() -> Snapshot {
    Snapshot { orders: page(OrdersView::default(), 900), ..normal() }
}

pub(super) fn away() -> Snapshot {
    let mut snapshot = with_orders();
    snapshot.sql.up = false;
    snapshot.sql.last_ok = Some(NOW.plus(-42_000));
    snapshot.sql.error = Some("disk I/O error".into());
    snapshot.orders.taken = snapshot.sql.last_ok;
    snapshot
}

pub(super) fn crowded() -> Snapshot {
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

/// The trace of an order that is in SQL.
pub(super) fn trace(id: OrderId) -> Trace {
    let mut order = order(900);
    order.id = id;
    Trace {
        id,
        location: Location::Persisted { order },
        partition: None,
        held: Some(true),
        entry: Some((entry(), DeliveryState::Acknowledged)),
        more: false,
        delivered: None,
    }
}

fn traced(tui: &mut Tui, trace: Trace) {
    assert_eq!(tui.sent(), [Command::Trace(trace.id)]);
    tui.answer(Ok(Reply::Traced(Box::new(trace))));
}

fn ask(tui: &mut Tui, query: &str) {
    tui.press("/");
    tui.press(query);
    tui.press("\n");
}

pub(super) fn unread() -> Snapshot {
    Snapshot { orders: OrdersPage::default(), ..away() }
}

pub(super) fn none() -> Snapshot {
    let orders = OrdersPage { taken: Some(NOW), ..OrdersPage::default() };
    Snapshot { orders, ..empty() }
}

/// Looks for an order that is still pending.
pub(super) fn query_pending_order(tui: &mut Tui) {
    ask_in_vain(tui);
    let (user_id, voucher_id) = (UserId(1_950), VoucherId(7));
    let location = Location::Pending { entry: entry(), user_id, voucher_id };
    let holding =
        DeliveryState::Pending { consumer: "node-b/1".into(), idle_ms: 42_000, deliveries: 3 };
    let found = Trace {
        location,
        entry: Some((entry(), holding)),
        delivered: Some(Millis(1_794_999_897_116)),
        ..trace(id(950))
    };
    traced(tui, found);
}

/// Order 950, which is not in SQL.
fn ask_in_vain(tui: &mut Tui) {
    ask(tui, &id(950).to_string());
    let view = tui.focus.borrow().orders.unwrap();
    let orders = OrdersPage { view, taken: Some(NOW), ..OrdersPage::default() };
    tui.show(Snapshot { orders, ..normal() });
}

#[test]
fn a_dead_letter_of_an_order_names_no_buyer_until_asked() {
    let mut tui = Tui::open(with_orders(), "7");
    ask_in_vain(&mut tui);
    let location = Location::Dead {
        reason: "buyer 1950 holds order 9 already".into(),
        user_id: UserId(1_950),
        voucher_id: VoucherId(7),
    };
    traced(&mut tui, Trace { location, held: None, entry: None, ..trace(id(950)) });
    tui.assert_shows("buyer ***50 holds order 9");
    tui.assert_hides("1950");
    tui.press("u").assert_shows("buyer 1950 holds order 9");
}

#[test]
fn query_errors_are_localized() {
    set_thread_language("zh");
    let mut tui = Tui::open(with_orders(), "7/");
    let text = tui.press("status=lost").screen().replace(' ', "");
    assert!(text.contains("不是订单状态"), "{text}");
}

#[test]
fn a_query_runs_once_it_is_valid() {
    let mut tui = Tui::new(with_orders());
    assert_eq!(tui.focus.borrow().orders, None, "the view is closed, so nothing is read");
    tui.press("7");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    ask(&mut tui, "user=one");
    assert!(tui.app.views.filtering, "it is corrected, not submitted");
    tui.assert_shows("user='one' is not valid");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    (0..3).for_each(|_| _ = tui.key(KeyCode::Backspace));
    tui.press("1001 status=paid\n");
    let asked = tui.focus.borrow().orders.unwrap();
    assert_eq!(asked.query, "user=1001 status=paid".parse().unwrap());
    tui.assert_shows("reading");
    let lines = Arc::new(vec![order(1)]);
    tui.show(Snapshot { late_orders: Some(asked), ..with_orders() });
    tui.assert_shows("database is slow");
    tui.assert_shows("within two seconds");
    let orders = OrdersPage { view: asked, taken: Some(NOW), lines, ..OrdersPage::default() };
    tui.show(Snapshot { orders, ..normal() });
    tui.assert_shows("user=1001 status=paid");
    tui.assert_shows("1 total");
    tui.press("\x1b");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    tui.press("1");
    assert_eq!(tui.focus.borrow().orders, None);
}

#[test]
fn pages_turn_by_key_and_hold_while_orders_come() {
    let mut tui = Tui::open(with_orders(), "7");
    let chosen =
        |tui: &Tui| tui.app.views.orders.table.chosen(&tui.app.display.shown).map(|it| it.id);
    tui.press("j");
    let held = tui.focus.borrow().orders.unwrap();
    assert_eq!(held.before, OrderId::from_i64(id(900).as_i64() + 1));
    tui.show(Snapshot { orders: page(held, 900), ..normal() });
    assert_eq!(chosen(&tui), Some(id(899)));
    tui.press("n");
    let older = tui.focus.borrow().orders.unwrap();
    assert_eq!(older.before, Some(id(801)));
    tui.show(Snapshot { orders: page(older, 800), ..normal() });
    assert_eq!(chosen(&tui), Some(id(800)));
    tui.press("k");
    assert_eq!(tui.focus.borrow().orders, Some(held));
    tui.show(Snapshot { orders: page(held, 900), ..normal() });
    assert_eq!(chosen(&tui), Some(id(801)), "it goes on where the other one began");
    tui.press("g");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    tui.show(Snapshot { orders: page(OrdersView::default(), 950), ..normal() });
    assert_eq!(chosen(&tui), Some(id(950)));
    tui.press("b").assert_status("this is the first row");
}

#[test]
fn one_order_is_traced_at_a_time() {
    let mut tui = Tui::open(with_orders(), "7l");
    assert_eq!(tui.sent(), [Command::Trace(id(900))]);
    assert!(tui.press("jjj").sent().is_empty(), "New orders enter the stream first");
    tui.answer(Ok(Reply::Traced(Box::new(trace(id(900))))));
    assert_eq!(tui.sent(), [Command::Trace(id(897))]);
    tui.answer(Err(EngineError::Rejected("redis does not answer; try again".into())));
    tui.assert_shows("a server is unreachable");
    assert!(tui.sent().is_empty(), "it is not asked for again and again");
    assert_eq!(tui.press("\x1bl").sent(), [Command::Trace(id(897))]);
}

#[test]
fn an_unanswered_trace_is_cancelled_with_esc() {
    let mut tui = Tui::open(with_orders(), "7l");
    assert_eq!(tui.sent(), [Command::Trace(id(900))]);
    tui.press("\x1bjl");
    assert_eq!(tui.sent(), [Command::Trace(id(899))], "another one is looked for at once");
    // The first reply arrives after all: the second is still outstanding.
    tui.answer(Ok(Reply::Traced(Box::new(trace(id(900))))));
    assert!(tui.press("j").sent().is_empty(), "New orders enter the stream first");
    tui.answer(Ok(Reply::Traced(Box::new(trace(id(899))))));
    assert_eq!(tui.sent(), [Command::Trace(id(898))]);
}

#[test]
fn a_payment_targets_the_selected_order() {
    let mut tui = Tui::open(with_orders(), "7P");
    let mut later = with_orders();
    Arc::make_mut(&mut later.orders.lines).reverse();
    tui.show(later.clone());
    assert!(tui.press("\n").sent().is_empty(), "Cancel has the focus");
    let mut tui = Tui::open(with_orders(), "7P");
    tui.show(later);
    assert_eq!(tui.press("y").sent(), [Command::Pay(id(900))], "whatever row it is in by now");
    let mut tui = Tui::open(with_orders(), "7Py");
    assert_eq!(tui.sent(), [Command::Pay(id(900))]);
    tui.answer(Ok(Reply::Paid { order: id(900), payment: Payment::Paid }));
    tui.assert_status_contains("is paid");
    tui.press("jP").assert_status_contains("only unpaid orders");
    let mut tui = Tui::open(Snapshot { read_only: true, ..with_orders() }, "7P");
    tui.assert_status("read-only mode: commands are disabled; restart without --read-only");
}

#[test]
fn an_order_is_not_admitted_after_it_was_written() {
    let mut snapshot = with_orders();
    let orders = Arc::make_mut(&mut snapshot.orders.lines);
    // The ID is dated a second ahead.
    orders.truncate(1);
    orders[0].create_time = NOW.plus(-101_000);
    let mut tui = Tui::open(snapshot, "7");
    let text = tui.screen();
    let row = text.lines().find(|line| line.contains(&id(900).to_string())).unwrap();
    let time = row.split_whitespace().nth(2).unwrap();
    assert_eq!(row.matches(time).count(), 2, "{row}");
}

#[test]
fn the_loaded_page_is_sorted_and_the_heading_says_of_how_many() {
    let mut tui = Tui::open(with_orders(), "7");
    tui.draw(120, 36);
    let heads = |tui: &Tui| tui.app.views.orders.table.controls.order.map(|it| it.title.to_owned());
    while heads(&tui).as_deref() != Some("STATUS") {
        tui.press("o");
    }
    tui.assert_status("sorted by STATUS, ascending");
    tui.assert_shows("sorted by status within these 100");
    let rows = tui.app.views.orders.table.rows(&tui.app.display.shown);
    let words: Vec<String> = rows.iter().map(|it| views::orders::status(it.status)).collect();
    assert!(words.is_sorted() && words.first() != words.last(), "{words:?}");
    // The next page follows the oldest loaded order, wherever that is, and keeps the order.
    tui.press("n");
    let before = tui.focus.borrow().orders.unwrap().before;
    assert_eq!(before, Some(id(801)));
    let view = OrdersView { before, ..OrdersView::default() };
    tui.show(Snapshot { orders: page(view, 800), ..normal() });
    tui.assert_shows("sorted by status within these 100");
    tui.press("r").assert_status("sorted by STATUS, descending");
}

#[test]
fn the_cursor_is_kept_while_another_view_is_shown() {
    let cursor = |tui: &Tui| tui.app.views.orders.table.cursor;
    let mut tui = Tui::open(with_orders(), "7jj");
    let here = cursor(&tui);
    assert!(here.is_some());
    tui.press("8");
    tui.show(normal());
    tui.press("7");
    assert_eq!(cursor(&tui), here, "the page is not read yet");
    tui.show(with_orders());
    assert_eq!(cursor(&tui), here);
}
