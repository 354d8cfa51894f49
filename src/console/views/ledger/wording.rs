//! Texts of the Ledger view: the findings of an audit per sale, and the effects of a repair.

use seckill_engine::{recovery::repair::SaleRepair, telemetry::ledger_page::AuditLimit};
use seckill_model::{
    VoucherId,
    ledger::{Cure, Finding, SaleAudit},
    message::{Label, text},
};

use crate::{
    keymap::{Action, key_of},
    text::commands::Question,
    views::{View, orders::wording::query_of_sale},
};

pub(crate) const NOTHING_TO_REPAIR: Label = Label("ledger-no-differences-so");
pub(crate) const BY_HAND: Label = Label("ledger-no-automatic-repair-for-these");

/// The result over all sales.
pub(crate) fn verdict(lines: &[SaleAudit]) -> String {
    let off = lines.iter().filter(|line| !line.findings.is_empty()).count() as u64;
    let found: u64 = lines.iter().map(|line| line.findings.len() as u64).sum();
    let repairable = lines.iter().filter(|line| !line.cures().is_empty()).count() as u64;
    let flying = lines.iter().map(SaleAudit::in_flight).sum();
    if off == 0 {
        return match flying {
            0 => text!("ledger-audit-passed-all-orders"),
            orders => text!("ledger-no-differences-orders-in-flight", orders),
        };
    }
    let (key, open) = (key_of(Action::Repair), key_of(Action::Open));
    match repairable {
        0 => text!("ledger-differences-in-sales-none", found, off, open),
        _ => text!("ledger-differences-in-sales-press", found, off, open, key, repairable),
    }
}

/// Why no newer audit can be run from here.
pub(crate) fn limit(limit: AuditLimit) -> String {
    match limit {
        AuditLimit::Orders(most) => text!("ledger-view-audits-at-most-orders", most),
        AuditLimit::Seconds(most) => text!("ledger-audit-was-stopped-after-s", most),
    }
}

/// What the operator has to do about a difference that no repair fixes.
pub(crate) fn advice(finding: &Finding, sale: VoucherId) -> String {
    if matches!(finding, Finding::Stranded(_)) {
        let letters = key_of(Action::Go(View::Letters));
        let (replay, give) = (key_of(Action::ReplayLetters), key_of(Action::Compensate));
        return text!("ledger-press-for-dead-letters-then", letters, replay, give);
    }
    let (orders, query) = (key_of(Action::Go(View::Orders)), query_of_sale(sale));
    text!("ledger-compare-its-orders", orders, query)
}

/// A repair requires an audit.
pub(crate) fn awaited() -> String {
    let key = key_of(Action::Repair);
    text!("ledger-audit-is-running-press-again", key)
}

/// Sales that a question lists individually.
const NAMED: usize = 8;

/// Asks for confirmation of a repair, with its exact counts.
pub(crate) fn question(plan: &[SaleRepair], marked: bool, partitions: usize) -> Question {
    let mut lines = Vec::new();
    let found: usize = plan.iter().map(|sale| sale.findings.len()).sum();
    let left: usize = plan.iter().map(|sale| sale.left.len()).sum();
    if !plan.is_empty() {
        let named = plan.iter().take(NAMED).map(|sale| format!("#{}", sale.voucher_id));
        let mut named = named.collect::<Vec<_>>().join(" ");
        if let Some(more @ 1..) = plan.len().checked_sub(NAMED) {
            named.push_str(&text!("ledger-and-more", more));
        }
        let sales = plan.len();
        lines.push(if marked {
            text!("ledger-marked-sales", sales, found, named)
        } else {
            text!("ledger-all-found", sales, found, named)
        });
    }
    for &each in Cure::ALL {
        let sales = plan.iter().filter(|sale| sale.cures.contains(&each)).count();
        if sales > 0 {
            lines.push(text!("ledger-repair-of-sales", sales, cure = each));
        }
    }
    if partitions > 0 {
        lines.push(text!("ledger-of-partitions-repaired-as-well", faults = partitions));
    }
    if left > 0 {
        lines.push(text!("ledger-not-repaired-differences-see-details", differences = left));
    }
    if plan.iter().any(|sale| sale.cures.contains(&Cure::Reconcile)) {
        lines.push(text!("ledger-sale-admits-no-buyers-while"));
    }
    Question::new(Label("ledger-repair-the-ledger"), lines, Label("ledger-button-repair"))
}
