//! Orders: rows of SQL, page by page, and the trace of one order.

mod commands;
mod detail;
mod state;
pub(crate) mod wording;

use ratatui::text::{Line, Span};
use seckill_engine::{
    orders::decode,
    telemetry::{OrdersView, Snapshot, snapshot::OrdersPage},
};
use seckill_model::{
    Millis, Order, OrderId, OrderStatus,
    message::{Label, text},
};

pub(crate) use self::state::OrdersState;
use super::{
    Scene, Source,
    detail::draw_table,
    draw_head,
    table::{Column, Page, Paging, Row, Value},
};
use crate::{
    keymap::{Action, key_of},
    text::{self, conventions},
    widgets::{Canvas, wrap},
};

/// Cells of a time with its date.
const DATED: u16 = 19;

impl Row for Order {
    type Id = OrderId;
    type Key = OrdersView;

    const PAGING: Paging = Paging::NewestFirst;
    const FROM_REDIS: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-order"), &[(0, 19)], |order: &Self| order.id.into()).right(),
        Column::new(Label("orders-admitted"), &[(0, 8), (100, DATED)], |order: &Self| {
            Value::Time(admitted(order))
        })
        .shown(|scene, order, cells| time(scene, admitted(order), cells))
        .soft()
        .right(),
        Column::new(Label("common-user"), &[(0, 8), (72, 12)], |order: &Self| order.user_id.into())
            .right(),
        Column::new(Label("tables-sale"), &[(72, 7)], |order: &Self| order.voucher_id.into())
            .right(),
        Column::new(Label("orders-place"), &[(100, 5)], |order: &Self| {
            order.place.map(u64::from).into()
        })
        .soft()
        .right(),
        Column::new(Label("orders-status"), &[(0, 9)], |order: &Self| {
            Value::name(wording::status(order.status), &order.status)
        })
        .styled(|scene, order| match order.status {
            OrderStatus::Unpaid => scene.theme.accent,
            OrderStatus::Paid | OrderStatus::Used => scene.theme.good,
            OrderStatus::Cancelled | OrderStatus::Closed => scene.theme.soft,
        }),
        Column::new(Label("orders-since"), &[(72, 8), (100, DATED)], |order: &Self| {
            Value::Time(since(order))
        })
        .shown(|scene, order, cells| time(scene, since(order), cells))
        .soft()
        .right(),
    ];

    fn id(&self) -> OrderId {
        self.id
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.orders.lines.iter().collect()
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let OrdersPage { view, taken, more, lines, .. } = &snapshot.orders;
        let before = |id: OrderId| OrdersView { before: Some(id), ..*view };
        let newest = lines.first().filter(|_| view.query.id.is_none());
        let after = newest.and_then(|order| OrderId::from_i64(order.id.as_i64().checked_add(1)?));
        Page {
            key: *view,
            next: lines.last().filter(|_| *more).map(|order| before(order.id)),
            held: after.map(before),
            total: None,
            is_read: taken.is_some(),
            ..Page::whole(Self::list(snapshot))
        }
    }
}

/// An ID may be dated ahead of the clock, but nothing is written before it is admitted.
fn admitted(order: &Order) -> Millis {
    decode(order.id).issued.min(order.create_time)
}

/// When the order reached its state, as far as SQL has it.
fn since(order: &Order) -> Millis {
    let at = match order.status {
        OrderStatus::Unpaid => None,
        OrderStatus::Paid | OrderStatus::Used => order.pay_time,
        OrderStatus::Cancelled | OrderStatus::Closed => order.close_time,
    };
    at.unwrap_or(order.create_time)
}

/// Without room for both: the time if it is today, else the date.
fn time(scene: &Scene<'_>, at: Millis, cells: u16) -> Line<'static> {
    if cells < DATED { scene.at_second(at).into() } else { at.date_time(scene.zone).into() }
}

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut OrdersState,
    typing: bool,
) {
    draw_head(canvas, &heading(canvas, scene, state), &summary(scene, state));
    if !typing {
        return draw_body(canvas, scene, state);
    }
    let (w, h) = (canvas.width(), canvas.height());
    let (hint, style) = if let Some(fault) = state.fault() {
        (fault.to_string(), scene.theme.warn)
    } else {
        let ask = key_of(Action::Press);
        (text!("orders-id-user-voucher-paid", ask), scene.theme.soft)
    };
    // Directly above the input.
    let lines = wrap(&hint, usize::from(w.saturating_sub(2)));
    let top = h.saturating_sub(lines.len() as u16);
    for (y, line) in (top..).zip(&lines) {
        canvas.text(1, y, line, style);
    }
    draw_body(&mut canvas.part(0, 0, w, top.saturating_sub(1)), scene, state);
}

fn draw_body(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut OrdersState) {
    let (w, top) = (canvas.width(), scene.table_top());
    let is_known = scene.snapshot.orders.taken.is_some() && !state.table.is_waiting();
    let is_empty = state.table.rows(scene.snapshot).is_empty();
    if let Some(id) = state.query().id.filter(|_| is_known && is_empty) {
        // The order is not in SQL: its trace is the answer.
        return detail::of(scene, state, id, None, w).draw_lines(&mut canvas.below(top));
    }
    let opened = state.table.opened(scene.snapshot);
    let detail = opened.map(|order| detail::of(scene, state, order.id, Some(order), w));
    let why = nothing(scene, state);
    draw_table(canvas, scene, top, &mut state.table, detail, |_| why);
}

/// Title, age and query.
fn heading(canvas: &Canvas<'_>, scene: &Scene<'_>, state: &OrdersState) -> Line<'static> {
    let (title, taken) = (Label("orders-heading"), scene.snapshot.orders.taken);
    let mut heading = scene.page_heading(&title, &[Source::Sql], taken);
    if !state.asked_for().is_empty() {
        let query = scene.fit(state.asked_for(), canvas.width() / 3);
        heading.push_span(Span::raw(format!("  {query}")));
    }
    heading
}

/// Whether the page follows new orders, and its range.
fn summary(scene: &Scene<'_>, state: &OrdersState) -> Line<'static> {
    let theme = scene.theme;
    let page = &scene.snapshot.orders;
    let rows = state.table.rows(scene.snapshot);
    if state.table.is_waiting() {
        let is_late = page.late == Some(state.table.key());
        let label = if is_late { Label("orders-sql-takes-long") } else { text::READING };
        return Line::styled(label.read(), theme.warn);
    }
    let Some(first) = rows.first() else { return Line::default() };
    let is_newest = state.table.is_first_page();
    let held = if is_newest {
        Span::styled(Label("orders-newest-first").read(), theme.soft)
    } else {
        let (at, key) = (scene.at_second(decode(first.id).issued), key_of(Action::First));
        Span::styled(text!("orders-up-to-press-for-newest", at, key), theme.warn)
    };
    let count = rows.len();
    let range = match (state.table.controls.order, is_newest, page.more) {
        (Some(order), ..) => Span::styled(conventions::sorted_page(order, count), theme.key),
        // In a small window the heading needs the room.
        (None, false, _) if scene.compact => return held.into(),
        (None, _, true) => Span::styled(text!("orders-and-more", count), theme.soft),
        (None, true, false) => Span::styled(text!("orders-in-all", count), theme.soft),
        (None, false, false) => Span::styled(text!("orders-the-last", count), theme.soft),
    };
    Line::from(vec![held, Span::raw("   "), range])
}

/// Why there is no row.
fn nothing(scene: &Scene<'_>, state: &OrdersState) -> String {
    let page = &scene.snapshot.orders;
    if !scene.snapshot.sql.up && (page.taken.is_none() || state.table.is_waiting()) {
        text!("orders-sql-is-unreachable-orders")
    } else if page.late == Some(state.table.key()) {
        text!("orders-sql-did-not-reply-within")
    } else if page.taken.is_none() || state.table.is_waiting() {
        text::READING.to_owned()
    } else if state.query().is_empty() {
        text!("orders-no-orders-in-sql-yet")
    } else {
        let (query, key) = (text::echo(state.asked_for()), key_of(Action::Back));
        text!("orders-no-order-in-sql-matches", query, key)
    }
}
