//! The texts of screens, in every language; views contain none. What others say as well is in `seckill_text`.

pub(crate) mod commands;
pub(crate) mod conventions;

use seckill_engine::{SaleLine, Snapshot, telemetry::snapshot::Funnel};
use seckill_model::{Label, VoucherId, text};
pub(crate) use seckill_text::{
    UNKNOWN,
    alarms::{self, AlarmText, Reader},
    audit_log::{self, order_error},
    figures, phase, sale_phase, settings, time,
};
use seckill_text::{
    cells::right,
    figures::{span, steady_span, thousands, within},
    plain,
};

pub(crate) const REDIS: &str = "redis";
pub(crate) const SQL: &str = "sql";
pub(crate) const PROGRAM: &str = "seckill";
pub(crate) const STOCK: Label = Label("console-stock");
pub(crate) const ADMISSION: Label = Label("console-admission");
pub(crate) const STREAM: Label = Label("common-stream");
pub(crate) const PENDING: Label = Label("console-pending");
pub(crate) const DEAD: Label = Label("common-dead");
pub(crate) const FROZEN: Label = Label("console-frozen");
pub(crate) const READ_ONLY: Label = Label("console-read-only");
pub(crate) const NO_DATA: Label = Label("console-waiting-for-first-snapshot");
pub(crate) const READING: Label = Label("common-reading");
pub(crate) const DEAD_HOLDER: Label = Label("console-dead");
pub(crate) const ALIVE: Label = Label("console-alive");
pub(crate) const NOT_IN_REDIS: Label = Label("console-not-in-redis");
pub(crate) const PAUSED: Label = Label("console-paused");
/// A holder without a heartbeat that is not a known node.
pub(crate) const STRANGER: Label = Label("console-no-node");

pub(crate) fn sale_name(voucher: VoucherId, title: &str) -> String {
    format!("#{voucher} {}", plain(title))
}

/// As [`sale_name`], with the title that a snapshot has, if any.
pub(crate) fn sale_in(snapshot: &Snapshot, voucher: VoucherId) -> String {
    match snapshot.sale(voucher) {
        Some(sale) => sale_name(voucher, &sale.title),
        None => format!("#{voucher}"),
    }
}

pub(crate) fn left_of(left: &str, initial: &str) -> String {
    format!("{left} / {initial}")
}

/// The stock in Redis; unknown until Redis has been read.
pub(crate) fn left_in_redis(sale: &SaleLine) -> String {
    match (sale.stock, sale.admitted, sale.partly_loaded()) {
        (Some(left), ..) => thousands(left),
        (.., Some((stock, lacking))) => text!("cli-sale-partly-loaded", stock, lacking),
        (None, None, None) => UNKNOWN.to_owned(),
        (None, Some(_), None) => NOT_IN_REDIS.to_string(),
    }
}

/// User input, shortened for use in a message.
pub(crate) fn echo(text: &str) -> String {
    const CELLS: usize = 20;
    crate::widgets::fit(text, CELLS)
}

/// The age of figures; other words may follow.
pub(crate) fn old(age: u64) -> String {
    let age = steady_span(age);
    text!("common-old", age)
}

/// An age alone, for narrow places.
pub(crate) fn age(age: Option<u64>) -> String {
    age.map_or_else(|| UNKNOWN.to_owned(), span)
}

pub(crate) const BALANCED: Label = Label("console-audit-passed");

pub(crate) fn in_flight(orders: u64) -> String {
    let orders = right(&within(orders, 6), 6);
    text!("console-in-flight", orders)
}

/// Rows of the admission funnel: label and counter. Outcomes follow the attempts in the order of the tutorial's codes,
/// which start at 0.
pub(crate) fn funnel(
    funnel: &Funnel,
) -> [(&'static str, seckill_engine::telemetry::snapshot::Count); 6] {
    [
        (Label("common-attempts").read(), funnel.attempts),
        (Label("common-admitted").read(), funnel.admitted),
        (Label("console-sold-out").read(), funnel.sold_out),
        (Label("console-duplicate").read(), funnel.duplicate),
        (Label("console-rejected").read(), funnel.rejected),
        (Label("console-busy").read(), funnel.busy),
    ]
}

pub(crate) fn drains_in(millis: u64) -> String {
    let (span, steady) = (span(millis), steady_span(millis));
    text!("console-drains-in", span, steady)
}

pub(crate) fn oldest(millis: u64) -> String {
    let (span, steady) = (span(millis), steady_span(millis));
    text!("console-oldest", span, steady)
}
