//! Texts of the sale detail.

use seckill_model::{
    OrderCounts, OrderStatus,
    message::{Label, text},
};

use super::{
    figures::{steady_span, thousands},
    orders,
};
use crate::keymap::{Action, key_of};

pub(crate) const ATTEMPTS: Label = Label("common-attempts");
pub(crate) const ADMITTED: Label = Label("common-admitted");
pub(crate) const PERSISTED: Label = Label("common-persisted");
pub(crate) const ORDERS: Label = Label("common-orders");
pub(crate) const REPEAT_BUYERS: Label = Label("sale-buyers-with-several-orders");
const NONE: Label = Label("common-none");
pub(crate) const STOCK: Label = Label("sale-stock-over-time");
pub(crate) const NO_CURVE: Label = Label("sale-no-data-from-redis");

/// `3.8%`; a small share is not shown as 0%, a nearly full one not as 100%.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    match share {
        _ if part > whole => format!("{share:.0}%"),
        _ if part == 0 || part == whole => format!("{share:.0}%"),
        share => format!("{:.1}%", share.clamp(0.1, 99.9)),
    }
}

/// Orders in SQL by status: paid orders always, others if there are any.
pub(crate) fn became(counts: &OrderCounts) -> Vec<(&'static str, String)> {
    let all = counts.unpaid + counts.paid + counts.used + counts.cancelled + counts.closed;
    let parts = [
        (OrderStatus::Unpaid, counts.unpaid),
        (OrderStatus::Paid, counts.paid),
        (OrderStatus::Used, counts.used),
        (OrderStatus::Cancelled, counts.cancelled),
        (OrderStatus::Closed, counts.closed),
    ];
    let part = |(status, count): (OrderStatus, u64)| {
        let paid = status == OrderStatus::Paid && all > 0;
        let share = if paid { format!(" {}", share(count, all)) } else { String::new() };
        (orders::status(status), format!("{}{share}", thousands(count)))
    };
    let shown = |(status, count): &(OrderStatus, u64)| *count > 0 || *status == OrderStatus::Paid;
    parts.into_iter().filter(shown).map(part).collect()
}

/// The age of these counts.
pub(crate) fn counted(age_ms: u64) -> String {
    // Tenths would change constantly.
    let age = steady_span(age_ms.div_ceil(1_000).max(1) * 1_000);
    text!("sale-orders-counted-ago", age)
}

/// Users with several orders: the user as the screen masks them, and the number of orders.
pub(crate) fn repeat_buyers(users: impl Iterator<Item = (String, u64)>) -> String {
    let parts: Vec<String> =
        users.map(|(user, orders)| format!("{user} ×{}", thousands(orders))).collect();
    if parts.is_empty() { NONE.to_string() } else { parts.join("  ") }
}

/// The key that shows users.
pub(crate) fn shows_users() -> String {
    let key = key_of(Action::Users);
    text!("sale-shows-or-masks-them", key)
}

/// The key that opens the orders.
pub(crate) fn shows_orders() -> String {
    let key = key_of(Action::Open);
    text!("sale-shows-its-orders", key)
}

/// The time span of the curve.
pub(crate) fn over(span: &str) -> String {
    text!("sale-last", span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_at_their_ends() {
        let text = [(0, 9), (1, 90_000), (38, 1_000), (8_999, 9_000), (9, 9), (0, 0)];
        let text = text.map(|(part, whole)| share(part, whole));
        assert_eq!(text, ["0%", "0.1%", "3.8%", "99.9%", "100%", "0%"]);
    }
}
