//! Resolves which sale the user means: the row under the cursor, the chosen sale, or the one in the presenter layout.

use seckill_engine::telemetry::snapshot::SaleLine;
use seckill_model::VoucherId;

use super::{app::App, dialogs::Dialog, views::View};

impl App {
    /// The sale that keys apply to: the row under the cursor in the table, elsewhere the chosen sale.
    pub(super) fn pointed_sale(&self) -> Option<&SaleLine> {
        let sales = &self.tables.sales;
        let pointed = if self.view == View::Sales { sales.pointed() } else { sales.chosen };
        pointed.and_then(|voucher| self.display.shown.sale(voucher))
    }

    /// The sale that a command would affect, which the header names: the subject of the open dialog, else
    /// [`Self::pointed_sale`], else on the Overview the only open sale. `None` if the operator has to choose.
    pub(crate) fn target_sale(&self) -> Option<&SaleLine> {
        if let Some(asked) = self.dialog.as_ref().and_then(Dialog::sale) {
            return self.display.shown.sale(asked).or_else(|| self.display.newest.sale(asked));
        }
        let only = || {
            let sales = &self.display.shown.sales;
            let mut open = sales.iter().filter(|sale| !sale.phase.is_over());
            match (open.next(), open.next(), sales.as_slice()) {
                // A sale that has ended is still the answer.
                (Some(only), None, _) | (None, _, [only]) => Some(only),
                _ => None,
            }
        };
        self.pointed_sale().or_else(|| if self.view == View::Overview { only() } else { None })
    }

    /// Chooses the row under the cursor.
    pub(super) fn choose_pointed(&mut self) {
        if let Some(voucher) = self.tables.sales.pointed() {
            self.tables.sales.choose(voucher);
        }
    }

    /// [`App::pointed_sale`], or the shown sale in the presenter layout.
    pub(super) fn seen_sale(&self) -> Option<VoucherId> {
        let pointed = || self.pointed_sale().map(|sale| sale.voucher_id);
        if self.presenter.on { self.presented() } else { pointed() }
    }
}
