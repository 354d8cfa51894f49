//! Texts of the Ledger view: the findings of an audit per sale, and the effects of a repair.

use seckill_engine::{
    recovery::repair::SaleRepair,
    telemetry::ledger_page::{AuditLimit, LedgerPage},
};
use seckill_model::{
    VoucherId,
    ledger::{Cure, Finding, SaleAudit},
    message::{Label, text},
};

use crate::{
    keymap::{Action, key_of},
    text::commands::{Question, question},
    views::{View, orders::wording::query_of_sale},
};

pub(crate) const NOTHING_TO_REPAIR: Label = Label("ledger-no-differences-so");
pub(crate) const BY_HAND: Label = Label("ledger-no-automatic-repair-for-these");

/// Whether an audit found no difference.
pub(crate) fn is_balanced(page: &LedgerPage) -> bool {
    let is_found = page.lines.iter().any(|line| !line.findings.is_empty());
    page.taken.is_some() && !is_found && page.partitions.is_empty()
}

/// The result over all sales.
pub(crate) fn verdict(lines: &[SaleAudit]) -> String {
    let off = lines.iter().filter(|line| !line.findings.is_empty()).count() as u64;
    let found: u64 = lines.iter().map(|line| line.findings.len() as u64).sum();
    let repairable = lines.iter().filter(|line| !line.cures().is_empty()).count() as u64;
    let flying: u64 = lines.iter().map(SaleAudit::in_flight).sum();
    let (key, open) = (key_of(Action::Repair), key_of(Action::Open));
    text!("ledger-verdict", found, off, flying, repairable, key, open)
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
    let named = plan.iter().take(NAMED).map(|sale| format!("#{}", sale.voucher_id));
    let mut named = named.collect::<Vec<_>>().join(" ");
    if let Some(more @ 1..) = plan.len().checked_sub(NAMED) {
        named = text!("ledger-more-sales", named, more);
    }
    let with = |cure: &Cure| plan.iter().filter(|sale| sale.cures.contains(cure)).count();
    let repairs = Cure::ALL.iter().map(|cure| (cure, with(cure))).filter(|(_, sales)| *sales > 0);
    let repairs = repairs.map(|(cure, sales)| text!("ledger-repair-of-sales", sales, cure));
    question!(
        "ask-repair-ledger",
        scope = match plan {
            [] => "none",
            _ if marked => "marked",
            _ => "all",
        },
        sales = plan.len(),
        found = plan.iter().map(|sale| sale.findings.len()).sum::<usize>(),
        named,
        repairs = repairs.collect::<Vec<_>>().join("\n"),
        faults = partitions,
        left = plan.iter().map(|sale| sale.left.len()).sum::<usize>(),
        pauses = with(&Cure::Reconcile) > 0,
    )
}
