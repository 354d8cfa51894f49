//! State of the sales: the chosen sale, and the row of the table under the cursor. Both follow the voucher, not the
//! row.

use seckill_engine::telemetry::{Snapshot, snapshot::SaleLine};
use seckill_model::VoucherId;
use tui_input::Input;

use super::{
    Step,
    columns::{Facet, Rank, Wanted, any_holds, sort},
};
use crate::{
    text::{self, columns, figures},
    widgets::Scroll,
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
    /// The chosen sale: header and Overview show it, and so does the presenter layout if no sale is active.
    pub(crate) chosen: Option<VoucherId>,
    /// The sale under the cursor of the table. Filters and vanished rows move it as well, which chooses nothing.
    pointed: Option<VoucherId>,
    /// A sale created just now that is not in a snapshot yet.
    awaited: Option<VoucherId>,
    /// Row of the cursor, in case its sale vanishes.
    row: usize,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
}

impl SalesState {
    /// The sales that match the filter, in the requested order.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a SaleLine> {
        let wanted = Wanted::new(self.filter.value());
        let facets = facets();
        let fits = |sale: &&SaleLine| wanted.lets(|word| any_holds(&facets, *sale, word));
        let mut rows = snapshot.sales.iter().filter(fits).collect::<Vec<_>>();
        sort(&mut rows, &facets, self.scroll.order.as_ref());
        rows
    }

    pub(crate) fn cursor(&self, rows: &[&SaleLine]) -> Option<usize> {
        rows.iter().position(|sale| Some(sale.voucher_id) == self.pointed)
    }

    /// The sale under the cursor of the table, even if the filter hides it.
    pub(crate) fn pointed(&self) -> Option<VoucherId> {
        self.pointed
    }

    /// Chooses a sale on behalf of the user.
    pub(crate) fn choose(&mut self, voucher: VoucherId) {
        (self.chosen, self.pointed) = (Some(voucher), Some(voucher));
    }

    /// Moves the cursor to that sale.
    pub(crate) fn point_at(&mut self, voucher: VoucherId) {
        self.pointed = Some(voucher);
    }

    /// Chooses the sale in that row of the table.
    pub(crate) fn choose_row(&mut self, snapshot: &Snapshot, row: usize) {
        if let Some(voucher) = self.rows(snapshot).get(row).map(|sale| sale.voucher_id) {
            self.choose(voucher);
            self.row = row;
        }
    }

    /// Clears the filter and moves the cursor to this sale; returns both previous values.
    pub(crate) fn set_aside(&mut self, sale: Option<VoucherId>) -> (Input, Option<VoucherId>) {
        (std::mem::take(&mut self.filter), std::mem::replace(&mut self.pointed, sale))
    }

    pub(crate) fn put_back(&mut self, kept: (Input, Option<VoucherId>)) {
        (self.filter, self.pointed) = kept;
    }

    /// Clears the choice.
    pub(crate) fn let_go(&mut self) {
        (self.chosen, self.pointed) = (None, None);
    }

    /// Chooses this sale as soon as a snapshot contains it.
    pub(crate) fn await_sale(&mut self, voucher: VoucherId) {
        self.awaited = Some(voucher);
    }

    /// Revalidates choice and cursor; returns the sale that vanished from under either. A sale that the filter hides
    /// keeps both: the Overview shows it.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Option<VoucherId> {
        if let Some(awaited) = self.awaited.take_if(|id| snapshot.sale(*id).is_some()) {
            self.choose(awaited);
        }
        let is_gone = |id: &mut VoucherId| snapshot.sale(*id).is_none();
        let gone = self.chosen.take_if(is_gone);
        let lost = self.pointed.filter(|id| snapshot.sale(*id).is_none());
        if lost.is_some() {
            self.settle_cursor(snapshot);
        } else if let Some(row) = self.cursor(&self.rows(snapshot)) {
            self.row = row;
        }
        gone.or(lost)
    }

    /// After a filter change the cursor stays on its sale, or moves to the one that took its row.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        let row = self.cursor(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        if self.pointed.is_some() {
            self.pointed = rows.get(row).map(|sale| sale.voucher_id);
            self.row = row;
        }
    }

    /// Puts a cursor in the table, if it has rows.
    pub(crate) fn point_at_one(&mut self, snapshot: &Snapshot) {
        self.settle(snapshot);
        if self.pointed.is_none() {
            self.pointed = self.rows(snapshot).first().map(|sale| sale.voucher_id);
            self.row = 0;
        }
    }

    /// Moves the cursor and chooses its sale; returns whether it moved. In the Overview, which shows only the choice,
    /// the first step chooses the first sale.
    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step, overview: bool) -> bool {
        let (rows, from) = if overview {
            (snapshot.sales.iter().collect(), self.chosen)
        } else {
            (self.rows(snapshot), self.pointed)
        };
        let now = rows.iter().position(|sale| Some(sale.voucher_id) == from);
        let next = match now {
            Some(row) => step.from(row, rows.len(), self.scroll.visible),
            None if step == Step::Last => rows.len().saturating_sub(1),
            None => 0,
        };
        let Some(sale) = rows.get(next).filter(|_| now != Some(next)) else { return false };
        self.choose(sale.voucher_id);
        self.row = next;
        true
    }
}
