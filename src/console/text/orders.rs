//! Texts of orders in SQL, and of an order's trace.

use seckill_engine::orders::{Decoded, Location};
use seckill_model::{
    Order, OrderStatus, VoucherId,
    message::{Label, text},
};

use super::{
    commands::Question,
    faults::order_fault,
    figures::{span, thousands},
};
use crate::{
    keymap::{Action, key_of},
    views::View,
};

pub(crate) const HEADING: Label = Label("orders-orders-2");
pub(crate) const NONE: Label = Label("orders-no-order-is-in-sql-yet");
pub(crate) const UNREAD: Label = Label("orders-sql-is-away-so-its-orders");
pub(crate) const READING: Label = Label("common-reading");
pub(crate) const LATE: Label = Label("orders-sql-takes-long");
pub(crate) const UNANSWERED: Label = Label("orders-sql-did-not-answer-within-two");
pub(crate) const NEWEST: Label = Label("orders-newest-first");
pub(crate) const LOOKING: Label = Label("orders-looking-for-it");
pub(crate) const NO_ANSWER: Label = Label("orders-unknown-a-server-did-not-answer");
/// What can be queried, and the key.
pub(crate) fn query_hint() -> String {
    let ask = key_of(Action::Press);
    text!("orders-id-user-1001-voucher-7-paid", ask)
}

pub(crate) const NOT_YET: Label = Label("orders-not-yet");
pub(crate) const NEVER: Label = Label("orders-never");
pub(crate) const NO_ENTRY: Label = Label("orders-no-entry-near-that-second-it");
pub(crate) const MORE_ENTRIES: Label = Label("orders-not-among-those-near-that-second");
pub(crate) const HELD: Label = Label("orders-its-buyer-holds-it-in-redis");
pub(crate) const NOT_HELD: Label = Label("orders-its-buyer-does-not-hold-it");
pub(crate) const ACKNOWLEDGED: Label = Label("orders-and-acknowledged-when-is-unknown");
pub(crate) const UNDELIVERED: Label = Label("orders-not-delivered-yet");
pub(crate) const ASK_PAY: Label = Label("orders-pay-the-order");
pub(crate) const PAY: Label = Label("orders-pay");

/// Column headings.
pub(crate) mod columns {
    use seckill_model::message::Label;

    pub(crate) const ORDER: Label = Label("common-order-2");
    pub(crate) const ADMITTED: Label = Label("orders-admitted");
    pub(crate) const USER: Label = Label("common-user");
    pub(crate) const SALE: Label = Label("common-sale-2");
    pub(crate) const PLACE: Label = Label("orders-place");
    pub(crate) const STATUS: Label = Label("orders-status");
    pub(crate) const SINCE: Label = Label("orders-since");
}

/// Labels of the detail.
pub(crate) mod labels {
    use seckill_model::message::Label;

    pub(crate) const ORDER: Label = Label("common-order");
    pub(crate) const ID: Label = Label("orders-id-says");
    pub(crate) const BUYER: Label = Label("orders-buyer");
    pub(crate) const STANDING: Label = Label("orders-stands");
    pub(crate) const ADMITTED: Label = Label("common-admitted");
    pub(crate) const STREAM: Label = Label("orders-in-stream");
    pub(crate) const DELIVERED: Label = Label("orders-delivered");
    pub(crate) const WRITTEN: Label = Label("orders-in-sql");
    pub(crate) const PAID: Label = Label("orders-paid");
    pub(crate) const CLOSED: Label = Label("orders-closed");
}

pub(crate) fn status(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::Unpaid => Label("orders-unpaid"),
        OrderStatus::Paid => Label("orders-paid-2"),
        OrderStatus::Used => Label("orders-used"),
        OrderStatus::Cancelled => Label("common-cancelled"),
        OrderStatus::Closed => Label("orders-closed-2"),
    }
    .read()
}

pub(crate) fn no_match(query: &str) -> String {
    let (query, key) = (super::echo(query), key_of(Action::Back));
    text!("orders-no-order-in-sql-matches-shows", query, key)
}

/// The query, as it would be typed.
pub(crate) fn query_of_sale(voucher: VoucherId) -> String {
    format!("voucher={voucher}")
}

/// The page is held while new orders arrive.
pub(crate) fn held(at: &str) -> String {
    let key = key_of(Action::First);
    text!("orders-those-up-to-shows-the-newest", at, key)
}

/// The number of orders on a page, and whether those are all.
pub(crate) fn page(count: usize, newest: bool, more: bool) -> String {
    let count = thousands(count as u64);
    match (newest, more) {
        (_, true) => text!("orders-and-more", count),
        (true, false) => text!("orders-in-all", count),
        (false, false) => text!("orders-the-last", count),
    }
}

pub(crate) fn in_stream(entry: &str) -> String {
    text!("orders-in-the-same-step-as-entry", entry)
}

/// The admission time, and the state of the buyer record.
pub(crate) fn admitted(at: Option<&str>, held: Label) -> String {
    match at {
        Some(at) => and(at, held.read()),
        None => and(Label("orders-time-unknown").read(), held.read()),
    }
}

/// Joins two texts in one line.
pub(crate) fn and(first: &str, second: &str) -> String {
    text!("orders-value", first, second)
}

/// When a step happened, and how long after the previous one.
pub(crate) fn time_after(time: &str, millis: i64) -> String {
    and(time, &after(millis))
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
    if millis < 0 { text!("orders-clocks-differ-by-or-more", size) } else { format!("+{size}") }
}

pub(crate) fn id_says(issued: &str, decoded: &Decoded, partition: Option<u16>) -> String {
    let (sequence, day) = (thousands(u64::from(decoded.sequence)), decoded.day);
    let mut text = text!("orders-issued-number-of-utc", issued, sequence, day);
    if let Some(number) = partition {
        text.push_str(&text!("orders-partition", number));
    }
    text
}

pub(crate) fn buyer(user: &str, place: Option<u8>, sale: &str) -> String {
    match place {
        Some(place) if place > 1 => {
            text!("orders-user-place-sale", user, place, sale)
        }
        Some(_) => text!("orders-user-sale", user, sale),
        // An ordinary voucher.
        None => text!("orders-user-voucher", user, sale),
    }
}

/// Where the order is, in a sentence; `None` if SQL has the rest.
pub(crate) fn standing(standing: &Location) -> Option<String> {
    Some(match standing {
        Location::Persisted { .. } => return None,
        Location::Undelivered { .. } => {
            text!("orders-in-the-stream-not-delivered")
        }
        Location::Pending { .. } => {
            let key = key_of(Action::Go(View::Pending));
            text!("orders-pending-delivered-and-not", key)
        }
        Location::Dead { reason, .. } => {
            let (key, reason) = (key_of(Action::Go(View::Letters)), order_fault(reason));
            text!("orders-a-dead-letter-opens-them", reason, key)
        }
        Location::Lost { .. } => text!("orders-lost-its-buyer-holds-it-in"),
        Location::Unknown => text!("orders-unknown-neither-sql-nor-the-stream"),
    })
}

/// The last delivery: time, consumer and count.
pub(crate) fn pending_with(last: &str, consumer: &str, deliveries: u64) -> String {
    let times = thousands(deliveries);
    text!("orders-to-try", last, consumer, times)
}

/// Asks for confirmation of a payment.
pub(crate) fn pay(order: &Order, buyer: String, written: &str) -> Question {
    let id = order.id;
    Question {
        title: ASK_PAY.read().to_owned(),
        lines: vec![
            text!("orders-order", id),
            buyer,
            text!("orders-it-is-unpaid-since-once-it", written),
        ],
        yes: PAY.read().to_owned(),
    }
}

pub(crate) fn not_unpaid(order: &Order) -> String {
    let (id, status) = (order.id, status(order.status));
    text!("orders-order-is-only-an-unpaid-one", id, status)
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
