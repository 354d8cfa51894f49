//! Where the person is among the sales. The choice follows the voucher, never the row.

use tui_input::Input;

use super::Step;
use crate::{
    console::widgets::Scroll,
    model::VoucherId,
    telemetry::{Snapshot, snapshot::SaleLine},
};

#[derive(Debug, Default)]
pub(crate) struct SalesState {
    /// The sale that acts are about; the Overview shows it too.
    pub(crate) chosen: Option<VoucherId>,
    /// A sale that was created just now and is not in a picture yet.
    awaited: Option<VoucherId>,
    /// Row of the chosen sale, for when that one is gone.
    row: usize,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
}

impl SalesState {
    /// The sales that the filter lets through.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a SaleLine> {
        let wanted = self.filter.value().trim().to_lowercase();
        let fits = |sale: &&SaleLine| {
            wanted.is_empty()
                || sale.title.to_lowercase().contains(&wanted)
                || format!("#{}", sale.voucher_id).contains(&wanted)
        };
        snapshot.sales.iter().filter(fits).collect()
    }

    pub(crate) fn cursor(&self, rows: &[&SaleLine]) -> Option<usize> {
        rows.iter().position(|sale| Some(sale.voucher_id) == self.chosen)
    }

    pub(crate) fn chosen_line<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a SaleLine> {
        self.chosen.and_then(|chosen| snapshot.sale(chosen))
    }

    /// Chooses this sale as soon as a picture holds it.
    pub(crate) fn await_sale(&mut self, voucher: VoucherId) {
        self.awaited = Some(voucher);
    }

    /// Keeps the choice true; names the chosen sale when it is gone.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Option<VoucherId> {
        if let Some(awaited) = self.awaited.filter(|id| snapshot.sale(*id).is_some()) {
            self.chosen = Some(awaited);
            self.awaited = None;
        }
        let chosen = self.chosen?;
        let rows = self.rows(snapshot);
        if let Some(row) = self.cursor(&rows) {
            self.row = row;
            return None;
        }
        let beside = rows.get(self.row.min(rows.len().saturating_sub(1)));
        self.chosen = beside.map(|sale| sale.voucher_id);
        snapshot.sale(chosen).is_none().then_some(chosen)
    }

    /// The table always has a chosen row, where it has rows.
    pub(crate) fn choose_one(&mut self, snapshot: &Snapshot) {
        self.settle(snapshot);
        if self.chosen.is_none() {
            self.chosen = self.rows(snapshot).first().map(|sale| sale.voucher_id);
            self.row = 0;
        }
    }

    /// Moves the choice; says whether it moved. In the Overview the first step only chooses.
    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step, unfiltered: bool) -> bool {
        let rows = if unfiltered { snapshot.sales.iter().collect() } else { self.rows(snapshot) };
        let now = self.cursor(&rows);
        let next = match now {
            Some(row) => step.from(row, rows.len(), self.scroll.visible),
            None => 0,
        };
        let Some(sale) = rows.get(next) else { return false };
        self.chosen = Some(sale.voucher_id);
        self.row = next;
        now != Some(next)
    }
}
