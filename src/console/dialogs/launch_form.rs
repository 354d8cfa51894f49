//! The form of a launch: sale, number of buyers, arrival time and countdown.

use crossterm::event::Event;
use seckill_engine::telemetry::snapshot::SaleLine;
use seckill_model::{
    Millis, Phase, VoucherId,
    message::{Label, text},
    sale::{check_stock, check_title},
};

use super::{
    Form,
    rush_form::{MOST_BUYERS, bounded},
    sale_form::number,
};
use crate::{
    launch::{Launch, Target},
    text::{figures, forms, launch as words},
};

const SALE: usize = 0;
const STOCK: usize = 1;
const BUYERS: usize = 2;
const WITHIN: usize = 3;
const COUNTDOWN: usize = 4;
/// Longest countdown and longest arrival time, in seconds.
const LONGEST: u64 = 3_600;

#[derive(Debug)]
pub(crate) struct LaunchForm {
    planned: Option<VoucherId>,
    pub(crate) form: Form,
}

impl LaunchForm {
    /// Starts with the planned sale on the screen, if any.
    pub(crate) fn new(planned: Option<VoucherId>, sales: &[SaleLine]) -> Self {
        let sale = planned.map_or_else(String::new, |id| format!("#{id}"));
        let form = Form::new(Label("director-arm-a-launch").to_string(), forms::NEXT)
            .field(Label("director-sale"), Label("director-number-of-a-planned-sale-or"), &sale)
            .field(Label("common-stock"), Label("director-pieces-of-a-new-sale-else"), "")
            .field(Label("common-buyers"), forms::BUYERS_HINT, "20000")
            .field(Label("director-within"), Label("director-seconds-over-which-they-come-0"), "10")
            .field(Label("director-start-in"), Label("director-seconds-1-to-3-600-nothing"), "10");
        let mut launch = Self { planned, form };
        launch.name_sale(sales);
        launch
    }

    /// Shows the title of the planned sale with the typed number.
    fn name_sale(&mut self, sales: &[SaleLine]) {
        let found = numbered(self.form.value(SALE).trim()).and_then(|id| planned(id, sales));
        if let Some(field) = self.form.fields.get_mut(SALE) {
            field.note = found.map(|sale| words::planned(&sale.title, sale.initial));
        }
    }

    /// The sale that it was opened for.
    pub(crate) fn planned(&self) -> Option<VoucherId> {
        self.planned
    }

    pub(crate) fn type_in(&mut self, event: &Event, sales: &[SaleLine], now: Millis) {
        if self.form.type_in(event) {
            self.name_sale(sales);
            let fault = self.checked(sales, now).err();
            self.form.show_fault(fault.as_ref());
        }
    }

    /// The launch, or the error under its field.
    pub(crate) fn submit(&mut self, sales: &[SaleLine], now: Millis) -> Option<Launch> {
        let checked = self.checked(sales, now);
        self.form.settle(checked)
    }

    fn checked(&self, sales: &[SaleLine], now: Millis) -> Result<Launch, (usize, String)> {
        let (written, stock) = (self.form.value(SALE).trim(), self.form.value(STOCK));
        let planned = match numbered(written) {
            Some(id) => Some(
                planned(id, sales)
                    .ok_or_else(|| (SALE, text!("director-is-no-planned-sale-a-title", id)))?,
            ),
            None => None,
        };
        let (target, title, pieces) = if let Some(sale) = planned {
            if !stock.trim().is_empty() {
                return Err((STOCK, Label("director-a-planned-sale-has-its-own").to_owned()));
            }
            (Target::Planned(sale.voucher_id), sale.title.clone(), sale.initial)
        } else {
            let title = check_title(written).map_err(|fault| (SALE, fault.to_string()))?;
            let pieces = number(stock).map_err(|fault| (STOCK, fault))?;
            let pieces = check_stock(pieces).map_err(|fault| (STOCK, fault.to_string()))?;
            (Target::New, title, pieces)
        };
        let within = |field, least, most| {
            bounded(self.form.value(field), least, most).map_err(|fault| (field, fault))
        };
        let buyers = within(BUYERS, 1, MOST_BUYERS)?;
        let (over, countdown) = (within(WITHIN, 0, LONGEST)?, within(COUNTDOWN, 1, LONGEST)?);
        let opens = planned.and_then(|sale| sale.begin).map(|begin| begin.since(now));
        match opens {
            Some(left) if left <= countdown * 1_000 => Err((
                COUNTDOWN,
                text!("director-it-opens-by-itself-in-give", left = figures::clock(left)),
            )),
            _ => {
                Ok(Launch { target, title, pieces, buyers, within: over, countdown, reason: None })
            }
        }
    }
}

fn planned(id: VoucherId, sales: &[SaleLine]) -> Option<&SaleLine> {
    sales.iter().find(|it| it.voucher_id == id && it.phase == Phase::Planned)
}

/// A voucher number, with or without `#`.
fn numbered(written: &str) -> Option<VoucherId> {
    written.strip_prefix('#').unwrap_or(written).parse().ok().map(VoucherId)
}
