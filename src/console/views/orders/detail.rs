//! The detail of an order: its row in SQL and its trace.

use seckill_engine::{
    orders::{Location, decode, trace::Trace},
    telemetry::snapshot::DeliveryState,
};
use seckill_model::{Order, OrderId, OrderStatus};

use super::OrdersState;
use crate::{
    text::{figures::span, order_error},
    views::prelude::*,
};

/// An order by its ID, with its row if SQL has one.
pub(super) fn of<'a>(
    scene: &'a Scene,
    state: &OrdersState,
    id: OrderId,
    row: Option<&Order>,
    width: u16,
) -> Detail<'a> {
    let theme = scene.theme;
    let mut detail = Detail::new(scene, width);
    let trace = state.trace_of(id);
    let decoded = decode(id);
    detail.field(Label("field-order"), id.to_string(), theme.strong);
    let (issued, day) = (decoded.issued.date_time(&scene.zone), decoded.day);
    let mut says = text!("orders-issued-number-of-utc", issued, sequence = decoded.sequence, day);
    if let Some(partition) = trace.and_then(|trace| trace.partition) {
        says += &text!("orders-partition", number = partition.to_string());
    }
    detail.text(Label("orders-id-time"), says);
    let bought = row.map(|order| (order.user_id, order.voucher_id, order.place));
    if let Some((user, voucher, place)) = bought.or_else(|| trace.and_then(bought_by)) {
        let buyer = buyer(&scene.users.number(user), place, &text::sale_in(&scene.shown, voucher));
        detail.text(Label("orders-buyer"), buyer);
    }
    match trace {
        None if state.unanswered == Some(id) => {
            let unknown = Label("orders-unknown-server-is-unreachable-try");
            detail.field(Label("orders-location"), unknown, theme.warn);
        }
        None => detail.field(Label("orders-location"), Label("orders-searching"), theme.soft),
        Some(trace) => add_trace(&mut detail, scene, trace, row),
    }
    if let Some(order) = row {
        add_row(&mut detail, scene, trace, order);
    }
    detail
}

/// What SQL has: written, paid, closed.
fn add_row(detail: &mut Detail<'_>, scene: &Scene, trace: Option<&Trace>, order: &Order) {
    let theme = scene.theme;
    let written = order.create_time;
    let added = trace.and_then(|it| it.entry.as_ref()).map(|(entry, _)| entry.added());
    detail.text(Label("orders-in-sql"), exact(scene, written, added));
    let status = status(order.status);
    let paid = |paid: Millis| exact(scene, paid, Some(written));
    let (paid, style) = match (order.status, order.pay_time) {
        (OrderStatus::Used, Some(at)) => (and(&paid(at), &status), theme.good),
        (_, Some(at)) => (paid(at), theme.good),
        (OrderStatus::Unpaid, None) => (text!("orders-not-yet"), theme.accent),
        (_, None) => (text!("orders-never"), theme.soft),
    };
    detail.field(Label("orders-paid"), paid, style);
    if !order.status.is_live() {
        let closed = order.close_time.map(|at| exact(scene, at, Some(written)));
        let closed = closed.unwrap_or_else(|| text::UNKNOWN.to_owned());
        detail.field(Label("orders-closed"), and(&closed, &status), theme.warn);
    }
}

/// Its buyer record in Redis, its stream entry, and the holder of that.
fn add_trace(detail: &mut Detail<'_>, scene: &Scene, trace: &Trace, row: Option<&Order>) {
    let theme = scene.theme;
    // The row is newer than the trace.
    if let Some(location) = location(&trace.location).filter(|_| row.is_none()) {
        let location = scene.users.within(&location, bought_by(trace).map(|(user, ..)| user));
        let lost = matches!(trace.location, Location::Lost { .. } | Location::Dead { .. });
        detail.field(Label("orders-location"), location, if lost { theme.bad } else { theme.warn });
    }
    // The admission script adds the entry: both have the time in its ID.
    let at = trace.entry.as_ref().map(|(entry, _)| entry.added());
    if let Some(held) = trace.held {
        let at = at.map(|at| exact(scene, at, None));
        let at = at.unwrap_or_else(|| text!("orders-time-unknown"));
        detail.text(Label("common-admitted"), text!("orders-held", at, held));
    }
    match &trace.entry {
        Some((entry, holding)) => {
            let entry = text!("orders-atomically-as-entry", entry);
            detail.text(Label("orders-in-stream"), entry);
            let (delivered, style) = match holding {
                DeliveryState::Acknowledged => {
                    (text!("orders-and-acknowledged-time-unknown-redis"), Style::new())
                }
                DeliveryState::Undelivered => (text!("orders-not-delivered-yet"), theme.accent),
                DeliveryState::Unknown => (text::UNKNOWN.to_owned(), theme.warn),
                DeliveryState::Pending { consumer, deliveries, .. } => {
                    let last = trace.delivered.map(|last| exact(scene, last, at));
                    let last = last.unwrap_or_else(|| text::UNKNOWN.to_owned());
                    (text!("orders-to-try", last, consumer, times = deliveries), theme.warn)
                }
            };
            detail.field(Label("orders-delivered"), delivered, style);
        }
        None if matches!(&trace.location, Location::Persisted { order } if order.place.is_some()) =>
        {
            let none = text!("orders-no-entry-near-that-second", is_partial = trace.more);
            detail.field(Label("orders-in-stream"), none, theme.soft);
        }
        None => {}
    }
}

/// To the millisecond, and the time since the previous step, if that is known.
fn exact(scene: &Scene, at: Millis, before: Option<Millis>) -> String {
    let time = format!("{}.{:03}", at.date_time(&scene.zone), at.0.rem_euclid(1_000));
    match before {
        Some(before) => and(&time, &after(at.0.saturating_sub(before.0))),
        None => time,
    }
}

/// User, voucher and place of the order; `None` for an ordinary voucher.
fn bought_by(trace: &Trace) -> Option<(UserId, VoucherId, Option<u8>)> {
    match &trace.location {
        Location::Persisted { order } => Some((order.user_id, order.voucher_id, order.place)),
        // Without a row, its place is that in Redis; the first one is not named.
        Location::Undelivered { user_id, voucher_id, .. }
        | Location::Pending { user_id, voucher_id, .. }
        | Location::Dead { user_id, voucher_id, .. }
        | Location::Lost { user_id, voucher_id } => {
            Some((*user_id, *voucher_id, Some(trace.place.unwrap_or(1))))
        }
        Location::Unknown => None,
    }
}

pub(crate) fn status(status: OrderStatus) -> String {
    text!("orders-status-name", status)
}

/// The query, as it would be typed.
pub(crate) fn query_of_sale(voucher: VoucherId) -> String {
    format!("voucher={voucher}")
}

/// Joins two texts in one line.
fn and(first: &str, second: &str) -> String {
    text!("orders-value", first, second)
}

/// How long after the previous step. Redis dates the entry and the node dates the row: if a step seems to precede its
/// cause, their clocks differ by at least that much.
fn after(millis: i64) -> String {
    let size = millis.unsigned_abs();
    let (seconds, tenths, long) = (size / 1_000, size % 1_000 / 100, span(size));
    let size = match size {
        0..=999 => text!("orders-ms", size),
        1_000..=59_999 => text!("orders-s", seconds, tenths),
        _ => long,
    };
    if millis < 0 { text!("orders-clocks-differ-by-at-least", size) } else { format!("+{size}") }
}

pub(super) fn buyer(user: &str, place: Option<u8>, sale: &str) -> String {
    // An ordinary voucher has no places.
    text!("orders-bought-by", user, place = place.unwrap_or(0), sale)
}

/// Where the order is, in a sentence; `None` if SQL has the rest.
fn location(location: &Location) -> Option<String> {
    Some(match location {
        Location::Persisted { .. } => return None,
        Location::Undelivered { .. } => {
            text!("orders-in-the-stream-not-delivered")
        }
        Location::Pending { .. } => text!("orders-pending-delivered-and-not"),
        Location::Dead { reason, .. } => {
            text!("orders-dead-letter-press-to-open", reason = order_error(reason))
        }
        Location::Lost { .. } => text!("orders-lost-assigned-to-its-buyer"),
        Location::Unknown => text!("orders-unknown-not-in-sql-stream"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::locale::set_thread_language;

    #[test]
    fn a_step_is_as_precise_as_it_is_readable() {
        let text = [0, 12, 999, 1_250, 59_999, 90_000].map(after);
        let wanted = ["+0 ms", "+12 ms", "+999 ms", "+1.2 s", "+59.9 s", "+90 s"];
        assert_eq!(text, wanted);
    }

    #[test]
    fn no_step_precedes_its_cause() {
        for (lang, text) in [
            ("en", ["clocks differ by at least 1 ms", "clocks differ by at least 2.1 s"]),
            ("zh", ["时钟至少相差 1 毫秒", "时钟至少相差 2.1 秒"]),
        ] {
            set_thread_language(lang);
            assert_eq!([-1, -2_104].map(after), text);
        }
        set_thread_language("en");
    }
}
