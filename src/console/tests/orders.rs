//! Orders on the screen: queries, paging, the trace of an order, payment.

use seckill_engine::orders::Location;

use super::prelude::*;

/// Order `number`: later ones have higher IDs.
pub(super) fn id(number: u64) -> OrderId {
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

pub(super) fn crowded() -> Snapshot {
    with(Snapshot { orders: page(OrdersView::default(), 900), ..overflowing() }, |it| {
        for order in Arc::make_mut(&mut it.orders.lines) {
            (order.user_id, order.voucher_id) = (UserId(u64::MAX), VoucherId(123_456));
        }
    })
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
        place: Some(1),
        entry: Some((entry(), DeliveryState::Acknowledged)),
        more: false,
        delivered: None,
    }
}

fn traced(tui: &mut Tui, trace: Trace) {
    assert_eq!(tui.sent(), [Command::Trace(trace.id)]);
    tui.answer(Ok(Reply::Traced(Box::new(trace))));
}

pub(super) fn unread() -> Snapshot {
    Snapshot { orders: OrdersPage::default(), ..without_sql(with_orders()) }
}

pub(super) fn none() -> Snapshot {
    let orders = OrdersPage { taken: Some(NOW), ..OrdersPage::default() };
    Snapshot { orders, ..empty() }
}

/// A search for an order that is still pending.
pub(super) fn elsewhere() -> Tui {
    let mut tui = asked_in_vain();
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
    traced(&mut tui, found);
    tui
}

/// A search for order 950, which is not in SQL.
fn asked_in_vain() -> Tui {
    let mut tui = Tui::open(with_orders(), &format!("7/{}\n", id(950)));
    let view = tui.focus.borrow().orders.unwrap();
    let orders = OrdersPage { view, taken: Some(NOW), ..OrdersPage::default() };
    tui.show(Snapshot { orders, ..normal() });
    tui
}

#[test]
fn a_dead_letter_of_an_order_names_no_buyer_until_asked() {
    let mut tui = asked_in_vain();
    let (user_id, voucher_id) = (UserId(1_950), VoucherId(7));
    let reason = "buyer 1950 holds order 9 already".into();
    let location = Location::Dead { reason, user_id, voucher_id };
    traced(&mut tui, Trace { location, held: None, entry: None, ..trace(id(950)) });
    tui.assert_shows("buyer ***50 holds order 9").assert_hides("1950");
    tui.press("u").assert_shows("buyer 1950 holds order 9");
}

#[test]
fn a_query_runs_once_it_is_valid() {
    let mut tui = Tui::open(with_orders(), "7/user=one\n");
    assert!(tui.app.views.filtering, "it is corrected, not submitted");
    tui.assert_shows("user='one' is not valid");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    tui.press("\x08\x08\x081001 status=paid\n");
    let asked = tui.focus.borrow().orders.unwrap();
    assert_eq!(asked.query, "user=1001 status=paid".parse().unwrap());
    tui.assert_shows("reading");
    let lines = Arc::new(vec![order(1)]);
    tui.show(Snapshot { late_orders: Some(asked), ..with_orders() });
    tui.assert_shows("database is slow|within two seconds");
    let orders = OrdersPage { view: asked, taken: Some(NOW), lines, ..OrdersPage::default() };
    tui.show(Snapshot { orders, ..normal() }).assert_shows("user=1001 status=paid|1 total");
    tui.press("\x1b");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()));
    set_thread_language("zh");
    let text = Tui::open(with_orders(), "7/status=lost").screen().replace(' ', "");
    assert!(text.contains("不是订单状态"), "{text}");
}

#[test]
fn one_order_is_traced_at_a_time() {
    let mut tui = Tui::open(with_orders(), "7l");
    assert_eq!(tui.sent(), [Command::Trace(id(900))]);
    assert_eq!(tui.press("jjj").sent(), []);
    tui.answer(Ok(Reply::Traced(Box::new(trace(id(900))))));
    assert_eq!(tui.sent(), [Command::Trace(id(897))]);
    tui.answer(Err(EngineError::Rejected("redis does not answer; try again".into())));
    assert_eq!(tui.assert_shows("a server is unreachable").sent(), [], "it is not asked again");
    assert_eq!(tui.press("\x1bl").sent(), [Command::Trace(id(897))]);
    // Esc cancels an unanswered trace.
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
fn only_an_unpaid_order_is_paid() {
    let mut tui = Tui::open(with_orders(), "7Py");
    let paid = Reply::Paid { order: id(900), payment: Payment::Paid };
    tui.reply(Ok(paid)).assert_status_contains("is paid");
    tui.press("jP").assert_status_contains("only unpaid orders").assert_idle();
}

#[test]
fn an_order_is_not_admitted_after_it_was_written() {
    // The ID is dated a second ahead.
    let early = |it: &mut Snapshot| {
        Arc::make_mut(&mut it.orders.lines)[0].create_time = NOW.plus(-101_000);
    };
    let row = Tui::open(with(with_orders(), early), "7").line(&id(900).to_string());
    let time = row.split_whitespace().nth(1).unwrap();
    assert_eq!(row.matches(time).count(), 2, "{row}");
}

#[test]
fn the_loaded_page_is_sorted_and_the_heading_says_of_how_many() {
    let mut tui = Tui::open(with_orders(), "7");
    let heads = |tui: &Tui| tui.app.views.orders.table.controls.order.map(|it| it.title.to_owned());
    while heads(&tui).as_deref() != Some("STATUS") {
        tui.press("o");
    }
    let within = "sorted by status within these 100";
    tui.assert_status("sorted by STATUS, ascending").assert_shows(within);
    let rows = tui.app.views.orders.table.rows(&tui.app.display.shown);
    let words: Vec<String> = rows.iter().map(|it| views::orders::status(it.status)).collect();
    assert!(words.is_sorted() && words.first() != words.last(), "{words:?}");
    // The next page follows the oldest loaded order, wherever that is, and keeps the order.
    tui.press("n");
    let before = tui.focus.borrow().orders.unwrap().before;
    assert_eq!(before, Some(id(801)));
    let view = OrdersView { before, ..OrdersView::default() };
    tui.show(Snapshot { orders: page(view, 800), ..normal() }).assert_shows(within);
    tui.press("r").assert_status("sorted by STATUS, descending");
}
