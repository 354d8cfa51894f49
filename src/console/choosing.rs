//! Which sale a person means: by the cursor of the table, by a choice, or by standing in front of a hall.
//!
//! It knows nothing of what sells, nor what is done with the sale.

use super::{app::App, views::View};
use crate::{model::VoucherId, telemetry::snapshot::SaleLine};

impl App {
    /// The sale that keys are about: in the table that of the row under the cursor, elsewhere the chosen one.
    pub(super) fn pointed_sale(&self) -> Option<&SaleLine> {
        let sales = &self.sales;
        let pointed = if self.view == View::Sales { sales.pointed() } else { sales.chosen };
        pointed.and_then(|voucher| self.shown.sale(voucher))
    }

    /// Chooses the row where the cursor stands already.
    pub(super) fn choose_pointed(&mut self) {
        if let Some(voucher) = self.sales.pointed() {
            self.sales.choose(voucher);
        }
    }

    /// The sale that [`App::pointed_sale`] tells, as the person sees it: in front of a hall that of the stage.
    pub(super) fn seen_sale(&self) -> Option<VoucherId> {
        let pointed = || self.pointed_sale().map(|sale| sale.voucher_id);
        if self.presenter.on { self.presented() } else { pointed() }
    }
}
