//! Texts of the Ledger view: the findings of an audit per sale, and the effects of a repair.

use seckill_engine::{repair::SaleRepair, telemetry::ledger_page::AuditLimit};
use seckill_model::{
    VoucherId,
    ledger::{Cure, Finding, SaleAudit},
    message::{Label, text},
};

use super::{
    commands::Question,
    figures::{counted, signed, thousands},
    orders::query_of_sale,
};
use crate::{
    keymap::{Action, key_of},
    views::View,
};

pub(crate) const NO_SALES: Label = Label("ledger-there-is-no-sale-so-there");
pub(crate) const AUDITING: Label = Label("ledger-auditing-the-sales");
pub(crate) const AWAY: Label = Label("ledger-the-sales-are-audited-when-redis");
pub(crate) const NOTHING_TO_REPAIR: Label = Label("ledger-no-differences-so-there-is-nothing");
pub(crate) const NOT_MARKED: Label = Label("ledger-this-sale-has-nothing-that-a");
pub(crate) const BY_HAND: Label = Label("ledger-no-repair-exists-for-these");
pub(crate) const UNCONFIRMED: Label = Label("ledger-changed-in-sql-redis-has-not");
pub(crate) const NONE: Label = Label("ledger-none-each-order-was-found-by");

/// Labels of the detail.
pub(crate) mod labels {
    use seckill_model::message::Label;

    pub(crate) const REDIS: Label = Label("ledger-in-redis");
    pub(crate) const SQL: Label = Label("ledger-in-sql");
    pub(crate) const DIFFERENCES: Label = Label("ledger-differences");
    pub(crate) const REPAIR: Label = Label("ledger-repair");
    pub(crate) const BY_HAND: Label = Label("ledger-by-hand");
    pub(crate) const CHANGE: Label = Label("ledger-change");
}

/// The result over all sales.
pub(crate) fn verdict(lines: &[SaleAudit]) -> String {
    let off = lines.iter().filter(|line| !line.findings.is_empty()).count() as u64;
    let found = lines.iter().map(|line| line.findings.len() as u64).sum();
    let repairable = lines.iter().filter(|line| !line.cures().is_empty()).count() as u64;
    let flying = lines.iter().map(SaleAudit::in_flight).sum();
    if off == 0 {
        let (orders, count) = (counted(flying, "order", "orders"), thousands(flying));
        return match flying {
            0 => {
                text!("ledger-audit-passed-all-orders-are-accounted")
            }
            _ => text!("ledger-no-differences-in-flight-to-sql", orders, count),
        };
    }
    let differences = counted(found, "difference", "differences");
    let (found, sales) = (thousands(found), counted(off, "sale", "sales"));
    let (off, key) = (thousands(off), key_of(Action::Repair));
    let (some, open) = (thousands(repairable), key_of(Action::Open));
    let mended = counted(repairable, "sale", "sales");
    match repairable {
        0 => text!("ledger-in-none-with-an-automatic-repair", differences, sales, open, off, found),
        _ => text!(
            "ledger-in-explains-them-repairs",
            differences,
            sales,
            open,
            key,
            mended,
            off,
            found,
            some
        ),
    }
}

/// Why no newer audit can be run from here.
pub(crate) fn limit(limit: AuditLimit) -> String {
    match limit {
        AuditLimit::Orders(most) => {
            let most = thousands(most);
            text!("ledger-more-than-orders-are-too-many", most)
        }
        AuditLimit::Seconds(most) => {
            let most = thousands(most);
            text!("ledger-the-audit-took-more-than-s", most)
        }
    }
}

/// Stock and orders beside the initial stock.
pub(crate) fn sum(stock: i64, orders: u64, initial: u64) -> String {
    let sum = signed(stock.saturating_add_unsigned(orders));
    let (stock, initial) = (signed(stock), thousands(initial));
    let held = counted(orders, "order", "orders");
    let orders = thousands(orders);
    text!("ledger-left-of", stock, held, sum, initial, orders)
}

/// What the operator has to do about a difference that no repair fixes.
pub(crate) fn advice(finding: &Finding, sale: VoucherId) -> String {
    if matches!(finding, Finding::Stranded(_)) {
        let letters = key_of(Action::Go(View::Letters));
        let (replay, give) = (key_of(Action::ReplayLetters), key_of(Action::Compensate));
        return text!("ledger-opens-the-dead-letters-replays-them", letters, replay, give);
    }
    let (orders, query) = (key_of(Action::Go(View::Orders)), query_of_sale(sale));
    text!("ledger-compare-its-orders-with-its-row", orders, query)
}

/// A repair requires an audit.
pub(crate) fn awaited() -> String {
    let key = key_of(Action::Repair);
    text!("ledger-the-sales-are-being-audited-press", key)
}

/// Sales that a question lists individually.
const NAMED: usize = 8;

/// Asks for confirmation of a repair, with its exact counts.
pub(crate) fn question(plan: &[SaleRepair], marked: bool, partitions: usize) -> Question {
    let mut lines = Vec::new();
    let found: usize = plan.iter().map(|sale| sale.findings.len()).sum();
    let left = plan.iter().map(|sale| sale.left.len() as u64).sum();
    if !plan.is_empty() {
        let named = plan.iter().take(NAMED).map(|sale| format!("#{}", sale.voucher_id));
        let mut named = named.collect::<Vec<_>>().join(" ");
        if let Some(more @ 1..) = plan.len().checked_sub(NAMED) {
            named.push_str(&text!("ledger-and-more", more));
        }
        let (count, differences) = (plan.len(), counted(found as u64, "difference", "differences"));
        let sales = counted(plan.len() as u64, "sale", "sales");
        lines.push(if marked {
            let marked = if count == 1 { "is marked" } else { "are marked" };
            text!("ledger-that", sales, marked, differences, named, count, found)
        } else {
            text!("ledger-value-2", sales, differences, named, count, found)
        });
    }
    for &each in Cure::ALL {
        let sales = plan.iter().filter(|sale| sale.cures.contains(&each)).count();
        if sales > 0 {
            let (count, sales) = (thousands(sales as u64), counted(sales as u64, "sale", "sales"));
            lines.push(text!("ledger-value-3", sales, cure = each, count));
        }
    }
    if partitions > 0 {
        let faults = counted(partitions as u64, "fault", "faults");
        lines.push(text!("ledger-of-partitions-repaired-as-well", faults, partitions));
    }
    if left > 0 {
        let (count, differences) = (thousands(left), counted(left, "difference", "differences"));
        lines.push(text!("ledger-not-repaired-the-detail-says-what", differences, count));
    }
    if plan.iter().any(|sale| sale.cures.contains(&Cure::Reconcile)) {
        lines.push(text!("ledger-a-sale-admits-no-buyers-while"));
    }
    Question {
        title: text!("ledger-repair-the-ledger"),
        lines,
        yes: Label("ledger-repair-2").to_string(),
    }
}
