//! Where the person is among the sales. The choice follows the voucher, never the row.

use tui_input::Input;

use super::{
    Step,
    facets::{Facet, Rank, Wanted, any_holds, sort},
};
use crate::{
    console::{
        text::{self, columns, figures},
        widgets::Scroll,
    },
    model::VoucherId,
    telemetry::{Snapshot, snapshot::SaleLine},
};

/// Columns of a sale, for filter and order.
pub(crate) fn facets() -> Vec<Facet<SaleLine>> {
    vec![
        Facet::new(
            columns::ID,
            |sale| format!("#{}", sale.voucher_id),
            |sale| Rank::number(Some(sale.voucher_id.0)),
        ),
        Facet::new(columns::TITLE, |sale| sale.title.clone(), |sale| Rank::text(&sale.title)),
        Facet::new(
            columns::PHASE,
            |sale| text::phase(sale.phase).to_string(),
            |sale| Rank::text(text::phase(sale.phase)),
        ),
        Facet::new(
            columns::STOCK,
            |_| String::new(),
            |sale| {
                let share = sale.stock.map(|it| u128::from(it.max(0).unsigned_abs()) * 1_000_000);
                let share = share.map(|it| it / u128::from(sale.initial.max(1)));
                Rank::number(share.and_then(|it| i128::try_from(it).ok()))
            },
        ),
        Facet::new(columns::LEFT, text::left_in_redis, |sale| Rank::number(sale.stock)),
        Facet::new(
            columns::OF,
            |sale| figures::thousands(sale.initial),
            |sale| Rank::number(Some(sale.initial)),
        ),
        Facet::new(
            columns::ADMITTED,
            |sale| sale.admitted.map_or_else(String::new, figures::thousands),
            |sale| Rank::number(sale.admitted),
        ),
        Facet::new(
            columns::PERSISTED,
            |sale| figures::thousands(sale.persisted),
            |sale| Rank::number(Some(sale.persisted)),
        ),
    ]
}

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
    /// The sales that the filter lets through, in the order that was asked for.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a SaleLine> {
        let wanted = Wanted::new(self.filter.value());
        let facets = facets();
        let fits = |sale: &&SaleLine| wanted.lets(|word| any_holds(&facets, *sale, word));
        let mut rows = snapshot.sales.iter().filter(fits).collect::<Vec<_>>();
        sort(&mut rows, &facets, self.scroll.order.as_ref());
        rows
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

    /// Keeps the choice true; names the chosen sale when it is gone. One that the filter hides stays chosen:
    /// the Overview shows it.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Option<VoucherId> {
        if let Some(awaited) = self.awaited.filter(|id| snapshot.sale(*id).is_some()) {
            self.chosen = Some(awaited);
            self.awaited = None;
        }
        let chosen = self.chosen?;
        if snapshot.sale(chosen).is_none() {
            self.settle_cursor(snapshot);
            return Some(chosen);
        }
        if let Some(row) = self.cursor(&self.rows(snapshot)) {
            self.row = row;
        }
        None
    }

    /// Under another filter the choice stays on its row, or goes to the one that took it.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        let row = self.cursor(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        if self.chosen.is_some() {
            self.chosen = rows.get(row).map(|sale| sale.voucher_id);
            self.row = row;
        }
    }

    /// The table has a choice, where it has rows.
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
