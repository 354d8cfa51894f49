//! Texts of the forms: labels, hints and input errors.

use seckill_model::message::{Label, text};

pub(crate) const BUYERS_HINT: Label = Label("forms-different-people-1-to-10-000");
pub(crate) const NEXT: Label = Label("forms-go-on");

pub(crate) fn no_number(text: &str) -> String {
    let shown: String = text.chars().take(20).collect();
    text!("forms-is-no-whole-number", shown)
}
