//! The form of a new sale.

use crossterm::event::Event;
use seckill_model::{Millis, NewSale, SaleFault, When, message::Label};

use super::Form;
use crate::text::forms as words;

const TITLE: usize = 0;
const STOCK: usize = 1;
const LIMIT: usize = 2;
const BEGIN: usize = 3;
const END: usize = 4;
/// The default limit per user.
const USUAL_LIMIT: &str = "1";

#[derive(Debug)]
pub(crate) struct SaleForm {
    pub(crate) form: Form,
}

impl SaleForm {
    pub(crate) fn new() -> Self {
        let form = Form::new(Label("forms-new-sale").to_string(), Label("common-create"))
            .field(Label("forms-title"), Label("forms-what-buyers-read"), "")
            .field(Label("common-stock"), Label("forms-pieces-on-sale"), "")
            .field(Label("forms-limit"), Label("forms-orders-that-one-user-may-hold"), USUAL_LIMIT)
            .field(Label("forms-begin"), Label("forms-empty-now-14-30-10m-2026"), "")
            .field(Label("common-end"), Label("forms-empty-none-15-00-1h-2026"), "");
        Self { form }
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.form.fields.iter().enumerate().all(|(place, field)| {
            let text = field.input.value().trim();
            text.is_empty() || (place == LIMIT && text == USUAL_LIMIT)
        })
    }

    pub(crate) fn type_in(&mut self, event: &Event, now: Millis) {
        if self.form.type_in(event) {
            let fault = self.checked(now).err();
            self.form.show_fault(fault.as_ref());
        }
    }

    /// The sale, or the error under its field.
    pub(crate) fn submit(&mut self, now: Millis) -> Option<NewSale> {
        let checked = self.checked(now);
        self.form.settle(checked)
    }

    fn checked(&self, now: Millis) -> Result<NewSale, (usize, String)> {
        let title = self.form.value(TITLE);
        seckill_model::sale::check_title(title).map_err(|fault| (TITLE, fault.to_string()))?;
        let stock = number(self.form.value(STOCK)).map_err(|fault| (STOCK, fault))?;
        let limit = number(self.form.value(LIMIT)).map_err(|fault| (LIMIT, fault))?;
        let time = |field| match time(self.form.value(field)) {
            Ok(when) => Ok(when.map(|when| when.from(now))),
            Err(fault) => Err((field, fault)),
        };
        let (begin, end) = (time(BEGIN)?, time(END)?);
        let sale = NewSale::checked(title, stock, begin, end, now);
        sale.and_then(|sale| sale.limited(limit)).map_err(|fault| {
            let place = match &fault {
                SaleFault::Stock(_) => STOCK,
                SaleFault::Limit(_) => LIMIT,
                SaleFault::Window { .. } | SaleFault::Over(_) => END,
                _ => TITLE,
            };
            (place, fault.to_string())
        })
    }
}

/// Parses a whole number, also with the separators of the screen.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let plain: String = text.trim().chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    plain.parse().map_err(|_| words::no_number(text.trim()))
}

fn time(text: &str) -> Result<Option<When>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    text.parse::<When>().map(Some).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: [&str; 5]) -> SaleForm {
        let mut sale = SaleForm::new();
        for (field, value) in sale.form.fields.iter_mut().zip(values) {
            field.input = value.into();
        }
        sale
    }

    #[test]
    fn errors_are_below_their_field() {
        let place = |values| {
            let mut sale = filled(values);
            assert!(sale.submit(Millis::now()).is_none());
            sale.form.fields.iter().position(|field| field.fault.is_some())
        };
        assert_eq!(place(["", "5", "1", "", ""]), Some(TITLE));
        assert_eq!(place(["t", "", "1", "", ""]), Some(STOCK));
        assert_eq!(place(["t", "0", "1", "", ""]), Some(STOCK));
        for limit in ["", "0", "21", "many"] {
            assert_eq!(place(["t", "5", limit, "", ""]), Some(LIMIT));
        }
        assert_eq!(place(["t", "5", "1", "soon", ""]), Some(BEGIN));
        assert_eq!(place(["t", "5", "1", "", "2020-01-01 00:00"]), Some(END));
        assert_eq!(place(["t", "5", "1", "+2h", "+1h"]), Some(END));
    }

    #[test]
    fn a_valid_form_creates_a_sale() {
        let sale = filled([" 火锅五折 🍲 ", "10,000", "3", "", "+1h"]).submit(Millis::now());
        assert!(sale.is_some_and(|sale| {
            sale.title == "火锅五折 🍲"
                && (sale.stock, sale.limit) == (10_000, 3)
                && sale.begin.is_none()
                && sale.end.is_some()
        }));
    }
}
