//! The form of a rush; it shows the exact plan while the user types.

use crossterm::event::Event;
use seckill_engine::{command::LoadTest, telemetry::snapshot::SaleLine};
use seckill_model::{
    VoucherId,
    message::{Label, text},
};

use super::{Form, sale_form::number};
use crate::text::{commands::rush_plan, forms as words, sale_name};

const BUYERS: usize = 0;
const REPEAT: usize = 1;
/// Most buyers of one rush.
pub(super) const MOST_BUYERS: u64 = 10_000_000;
/// Default if the stock is unknown.
const USUAL_BUYERS: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct RushForm {
    voucher: VoucherId,
    pub(crate) form: Form,
}

impl RushForm {
    /// Ten buyers per piece by default.
    pub(crate) fn new(sale: &SaleLine) -> Self {
        let buyers = match sale.initial {
            0 => USUAL_BUYERS,
            pieces => pieces.saturating_mul(10).min(MOST_BUYERS),
        };
        let title = text!("forms-rush-on", sale = sale_name(sale.voucher_id, &sale.title));
        let form = Form::new(title, words::NEXT)
            .field(Label("common-buyers"), words::BUYERS_HINT, &buyers.to_string())
            .field(Label("forms-twice"), Label("forms-percent-of-them-that-ask-twice"), "10");
        Self { voucher: sale.voucher_id, form }
    }

    /// The sale of the rush.
    pub(crate) fn voucher(&self) -> VoucherId {
        self.voucher
    }

    pub(crate) fn type_in(&mut self, event: &Event) {
        if self.form.type_in(event) {
            self.refresh();
        }
    }

    /// Updates the plan, or the errors under the fields.
    pub(crate) fn submit(&mut self) -> Option<LoadTest> {
        self.refresh();
        if let Some(place) = self.form.fields.iter().position(|field| field.fault.is_some()) {
            self.form.focus(place);
        }
        self.plan().ok()
    }

    /// The plan as text.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self.plan() {
            Ok(plan) => rush_plan(&plan),
            Err(_) => vec![Label("forms-the-plan-stands-here-once-both").to_string()],
        }
    }

    /// The text of the largest possible plan.
    pub(crate) fn widest(&self) -> Vec<String> {
        rush_plan(&LoadTest { repeat: 1.0, ..LoadTest::new(self.voucher, MOST_BUYERS) })
    }

    fn refresh(&mut self) {
        let faults = [self.buyers().err(), self.percent().err()];
        for (field, fault) in self.form.fields.iter_mut().zip(faults) {
            field.fault = fault;
        }
    }

    fn plan(&self) -> Result<LoadTest, String> {
        let (users, percent) = (self.buyers()?, self.percent()?);
        Ok(LoadTest { repeat: percent as f64 / 100.0, ..LoadTest::new(self.voucher, users) })
    }

    fn buyers(&self) -> Result<u64, String> {
        bounded(self.form.value(BUYERS), 1, MOST_BUYERS)
    }

    fn percent(&self) -> Result<u64, String> {
        bounded(self.form.value(REPEAT), 0, 100)
    }
}

pub(super) fn bounded(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = number(text)?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(text!("forms-give-to", least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_fields_accept_their_bounds() {
        let ok = |text: &str, least, most| bounded(text, least, most).is_ok();
        assert!(ok("1", 1, MOST_BUYERS) && ok("10,000,000", 1, MOST_BUYERS));
        assert!(!ok("0", 1, MOST_BUYERS) && !ok("10000001", 1, MOST_BUYERS));
        assert!(ok("0", 0, 100) && ok("100", 0, 100) && !ok("101", 0, 100));
        assert!(!ok("", 0, 100) && !ok("-1", 0, 100) && !ok("ten", 0, 100));
        assert!(!ok("99999999999999999999999", 1, MOST_BUYERS));
    }
}
