//! Where the person is among the sales: which one was chosen, and which row of the table has the cursor. Both follow
//! the voucher, never the row. It draws nothing and sends nothing.

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
    /// The sale that a person chose: header and Overview speak of it, and the stage where none sells.
    pub(crate) chosen: Option<VoucherId>,
    /// The sale under the cursor of the table, which a filter or a lost row moves as well: that chooses nothing.
    pointed: Option<VoucherId>,
    /// A sale that was created just now and is not in a picture yet.
    awaited: Option<VoucherId>,
    /// Row of the cursor, for when its sale is gone.
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
        rows.iter().position(|sale| Some(sale.voucher_id) == self.pointed)
    }

    /// The sale under the cursor of the table; one that the filter hides may have it still.
    pub(crate) fn pointed(&self) -> Option<VoucherId> {
        self.pointed
    }

    /// A person meant this one.
    pub(crate) fn choose(&mut self, voucher: VoucherId) {
        (self.chosen, self.pointed) = (Some(voucher), Some(voucher));
    }

    /// The cursor goes to that sale.
    pub(crate) fn point_at(&mut self, voucher: VoucherId) {
        self.pointed = Some(voucher);
    }

    /// A person meant the sale in that row of the table.
    pub(crate) fn choose_row(&mut self, snapshot: &Snapshot, row: usize) {
        if let Some(voucher) = self.rows(snapshot).get(row).map(|sale| sale.voucher_id) {
            self.choose(voucher);
            self.row = row;
        }
    }

    /// All sales in the table, the cursor on this one; gives back what that takes the place of.
    pub(crate) fn set_aside(&mut self, sale: Option<VoucherId>) -> (Input, Option<VoucherId>) {
        (std::mem::take(&mut self.filter), std::mem::replace(&mut self.pointed, sale))
    }

    pub(crate) fn put_back(&mut self, kept: (Input, Option<VoucherId>)) {
        (self.filter, self.pointed) = kept;
    }

    /// Nothing is chosen any more.
    pub(crate) fn let_go(&mut self) {
        (self.chosen, self.pointed) = (None, None);
    }

    /// Chooses this sale as soon as a picture holds it.
    pub(crate) fn await_sale(&mut self, voucher: VoucherId) {
        self.awaited = Some(voucher);
    }

    /// Keeps choice and cursor true; names the sale that either had when it is gone. One that the filter hides keeps
    /// both: the Overview shows it.
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

    /// Under another filter the cursor stays on its sale, or goes to the one that took its row.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        let row = self.cursor(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        if self.pointed.is_some() {
            self.pointed = rows.get(row).map(|sale| sale.voucher_id);
            self.row = row;
        }
    }

    /// The table has a cursor, where it has rows.
    pub(crate) fn point_at_one(&mut self, snapshot: &Snapshot) {
        self.settle(snapshot);
        if self.pointed.is_none() {
            self.pointed = self.rows(snapshot).first().map(|sale| sale.voucher_id);
            self.row = 0;
        }
    }

    /// Moves the cursor and chooses there; says whether it moved. In the Overview, where only the choice is seen, the
    /// first step goes to the first one.
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
