//! Which sale a person means: by the cursor of the table, by a choice, or by standing in front of a hall.
//!
//! It knows nothing of what sells, nor what is done with the sale.

use seckill_engine::telemetry::snapshot::SaleLine;
use seckill_model::VoucherId;

use super::{app::App, dialogs::Dialog, views::View};

impl App {
    /// The sale that keys are about: in the table that of the row under the cursor, elsewhere the chosen one.
    pub(super) fn pointed_sale(&self) -> Option<&SaleLine> {
        let sales = &self.sales;
        let pointed = if self.view == View::Sales { sales.pointed() } else { sales.chosen };
        pointed.and_then(|voucher| self.shown.sale(voucher))
    }

    /// The sale that a command would act on now, which the header names: the one that an open dialog asks about, else
    /// [`Self::pointed_sale`], else on the Overview the only one that is open. `None` where the operator has to choose.
    pub(crate) fn target_sale(&self) -> Option<&SaleLine> {
        if let Some(asked) = self.dialog.as_ref().and_then(Dialog::sale) {
            return self.shown.sale(asked).or_else(|| self.newest.sale(asked));
        }
        let only = || {
            let sales = &self.shown.sales;
            let mut open = sales.iter().filter(|sale| !sale.phase.is_over());
            match (open.next(), open.next(), sales.as_slice()) {
                // Where it has ended, that is the answer.
                (Some(only), None, _) | (None, _, [only]) => Some(only),
                _ => None,
            }
        };
        self.pointed_sale().or_else(|| if self.view == View::Overview { only() } else { None })
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
