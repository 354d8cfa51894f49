//! Texts of orders in SQL, and of an order's trace.

use seckill_engine::orders::Location;
use seckill_model::{Order, OrderStatus, VoucherId, message::text};

use crate::{
    keymap::{Action, key_of},
    text::{figures::span, order_error},
    views::View,
};

pub(crate) fn status(status: OrderStatus) -> String {
    text!("orders-status-name", status)
}

/// The query, as it would be typed.
pub(crate) fn query_of_sale(voucher: VoucherId) -> String {
    format!("voucher={voucher}")
}

/// Joins two texts in one line.
pub(crate) fn and(first: &str, second: &str) -> String {
    text!("orders-value", first, second)
}

/// How long after the previous step. Redis dates the entry and the node dates the row: if a step seems to precede its
/// cause, their clocks differ by at least that much.
pub(crate) fn after(millis: i64) -> String {
    let size = millis.unsigned_abs();
    let (seconds, tenths, long) = (size / 1_000, size % 1_000 / 100, span(size));
    let size = match size {
        0..=999 => text!("orders-ms", size),
        1_000..=59_999 => text!("orders-s", seconds, tenths),
        _ => long,
    };
    if millis < 0 { text!("orders-clocks-differ-by-at-least", size) } else { format!("+{size}") }
}

pub(crate) fn buyer(user: &str, place: Option<u8>, sale: &str) -> String {
    // An ordinary voucher has no places.
    text!("orders-bought-by", user, place = place.unwrap_or(0), sale)
}

/// Where the order is, in a sentence; `None` if SQL has the rest.
pub(crate) fn location(location: &Location) -> Option<String> {
    Some(match location {
        Location::Persisted { .. } => return None,
        Location::Undelivered { .. } => {
            text!("orders-in-the-stream-not-delivered")
        }
        Location::Pending { .. } => {
            let key = key_of(Action::Go(View::Pending));
            text!("orders-pending-delivered-and-not", key)
        }
        Location::Dead { reason, .. } => {
            let (key, reason) = (key_of(Action::Go(View::Letters)), order_error(reason));
            text!("orders-dead-letter-press-to-open", reason, key)
        }
        Location::Lost { .. } => text!("orders-lost-assigned-to-its-buyer"),
        Location::Unknown => text!("orders-unknown-not-in-sql-stream"),
    })
}

pub(crate) fn not_unpaid(order: &Order) -> String {
    let (id, status) = (order.id, status(order.status));
    text!("orders-order-is-only-unpaid-orders", id, status)
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
