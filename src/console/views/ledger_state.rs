//! State of the audit list: the chosen row, and the sales marked for repair.

use std::collections::BTreeSet;

use seckill_model::{VoucherId, ledger::SaleAudit};

use super::{
    ListState, Row, Step,
    columns::{Facet, Rank},
};
use crate::text::{columns, figures, ledger};

impl Row for SaleAudit {
    fn identity(&self) -> String {
        self.voucher_id.to_string()
    }

    fn facets() -> Vec<Facet<Self>> {
        vec![
            Facet::new(
                columns::ID,
                |line| format!("#{}", line.voucher_id),
                |line| Rank::number(Some(line.voucher_id.0)),
            ),
            Facet::new(columns::TITLE, |line| line.title.clone(), |line| Rank::text(&line.title)),
            Facet::new(
                columns::INITIAL,
                |line| figures::thousands(line.initial),
                |line| Rank::number(Some(line.initial)),
            ),
            Facet::new(
                columns::REDIS_LEFT,
                |line| line.stock.map_or_else(String::new, figures::signed),
                |line| Rank::number(line.stock),
            ),
            Facet::new(
                columns::BUYERS,
                |line| figures::thousands(line.admitted),
                |line| Rank::number(Some(line.admitted)),
            ),
            Facet::new(
                columns::SQL_ORDERS,
                |line| figures::thousands(line.persisted),
                |line| Rank::number(Some(line.persisted)),
            ),
            Facet::new(
                columns::SQL_LEFT,
                |line| figures::signed(line.db_stock),
                |line| Rank::number(Some(line.db_stock)),
            ),
            Facet::new(
                columns::IN_FLIGHT,
                |line| figures::thousands(line.in_flight()),
                |line| Rank::number(Some(line.in_flight())),
            ),
            Facet::new(
                columns::DEAD,
                |line| figures::thousands(line.dead),
                |line| Rank::number(Some(line.dead)),
            ),
            Facet::new(columns::STATE, ledger::state, |line| {
                Rank::number(Some(line.findings.len() as u64))
            }),
        ]
    }
}

#[derive(Debug, Default)]
pub(crate) struct LedgerState {
    pub(crate) list: ListState,
    /// Sales to repair; empty means all.
    pub(crate) marks: BTreeSet<VoucherId>,
}

impl LedgerState {
    /// The choice follows its sale; repaired sales lose their marks.
    pub(crate) fn settle(&mut self, lines: &[SaleAudit]) {
        self.list.settle(lines);
        self.marks.retain(|mark| {
            lines.iter().any(|line| line.voucher_id == *mark && !line.cures().is_empty())
        });
    }

    /// Toggles the mark of the chosen sale and moves on; `false` if it has no repair.
    pub(crate) fn mark(&mut self, lines: &[SaleAudit]) -> bool {
        let Some(line) = self.list.chosen(lines).filter(|line| !line.cures().is_empty()) else {
            return false;
        };
        let sale = line.voucher_id;
        if !self.marks.remove(&sale) {
            self.marks.insert(sale);
        }
        self.list.step(lines, Step::By(1));
        true
    }
}
