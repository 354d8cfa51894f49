//! State of the sales: the chosen sale, and the table. Both follow the voucher, not the row.

use seckill_engine::telemetry::{Snapshot, snapshot::SaleLine};
use seckill_model::VoucherId;

use crate::views::{
    Step,
    table::{Table as _, TableState},
};

#[derive(Debug, Default)]
pub(crate) struct SalesState {
    /// The chosen sale: header and Overview show it, and so does the presenter layout if no sale is active.
    pub(crate) chosen: Option<VoucherId>,
    /// Filters and vanished rows move its cursor as well, which chooses nothing.
    pub(crate) table: TableState<SaleLine>,
    /// A sale created just now that is not in a snapshot yet.
    awaited: Option<VoucherId>,
}

impl SalesState {
    /// The sale under the cursor of the table, even if the filter hides it.
    pub(crate) fn pointed(&self) -> Option<VoucherId> {
        self.table.cursor
    }

    /// Chooses a sale on behalf of the user.
    pub(crate) fn choose(&mut self, voucher: VoucherId) {
        (self.chosen, self.table.cursor) = (Some(voucher), Some(voucher));
    }

    /// Chooses the sale under the cursor.
    pub(crate) fn choose_pointed(&mut self) {
        self.chosen = self.table.cursor.or(self.chosen);
    }

    /// Clears the choice.
    pub(crate) fn let_go(&mut self) {
        (self.chosen, self.table.cursor) = (None, None);
    }

    /// Chooses this sale as soon as a snapshot contains it.
    pub(crate) fn await_sale(&mut self, voucher: VoucherId) {
        self.awaited = Some(voucher);
    }

    /// Revalidates choice and cursor; returns the sale that vanished from under either. A sale that the filter hides
    /// keeps both: the Overview shows it.
    pub(super) fn follow(&mut self, snapshot: &Snapshot) -> Option<VoucherId> {
        if let Some(awaited) = self.awaited.take_if(|id| snapshot.sale(*id).is_some()) {
            self.choose(awaited);
        }
        let is_gone = |id: &VoucherId| snapshot.sale(*id).is_none();
        let gone = self.chosen.take_if(|id| is_gone(id));
        let lost = self.table.cursor.filter(is_gone);
        let rows = self.table.rows(snapshot);
        if lost.is_some() || self.table.position(&rows).is_some() {
            self.table.settle_cursor(snapshot);
        }
        gone.or(lost)
    }

    /// Puts a cursor in the table, if it has rows.
    pub(crate) fn point_at_one(&mut self, snapshot: &Snapshot) {
        self.follow(snapshot);
        if self.table.cursor.is_none() {
            self.table.point_at(&self.table.rows(snapshot), 0);
        }
    }

    /// Chooses the next sale, whatever the filter, as the Overview shows only the choice; the first step chooses the
    /// first sale. Returns whether the choice moved.
    pub(crate) fn step_choice(&mut self, snapshot: &Snapshot, step: Step) -> bool {
        let sales = &snapshot.sales;
        let now = sales.iter().position(|sale| Some(sale.voucher_id) == self.chosen);
        let next = match now {
            Some(row) => step.from(row, sales.len(), self.table.controls.visible()),
            None if step == Step::Last => sales.len().saturating_sub(1),
            None => 0,
        };
        let Some(sale) = sales.get(next).filter(|_| now != Some(next)) else { return false };
        self.choose(sale.voucher_id);
        true
    }
}
