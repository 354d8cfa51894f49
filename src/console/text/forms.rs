//! Texts of the forms: labels, hints and input errors.

use seckill_model::message::{Label, text};

use super::figures::thousands;

pub(crate) const NEW_SALE: Label = Label("forms-new-sale");
pub(crate) const TITLE: Label = Label("forms-title");
pub(crate) const STOCK: Label = Label("common-stock");
pub(crate) const LIMIT: Label = Label("forms-limit");
pub(crate) const BEGIN: Label = Label("forms-begin");
pub(crate) const END: Label = Label("common-end");
pub(crate) const BEGIN_HINT: Label = Label("forms-empty-now-14-30-10m-2026");
pub(crate) const END_HINT: Label = Label("forms-empty-none-15-00-1h-2026");
pub(crate) const TITLE_HINT: Label = Label("forms-what-buyers-read");
pub(crate) const STOCK_HINT: Label = Label("forms-pieces-on-sale");
pub(crate) const LIMIT_HINT: Label = Label("forms-orders-that-one-user-may-hold");
pub(crate) const CREATE: Label = Label("common-create");
pub(crate) const BUYERS: Label = Label("common-buyers");
pub(crate) const BUYERS_HINT: Label = Label("forms-different-people-1-to-10-000");
pub(crate) const REPEAT: Label = Label("forms-twice");
pub(crate) const REPEAT_HINT: Label = Label("forms-percent-of-them-that-ask-twice");
pub(crate) const NO_PLAN: Label = Label("forms-the-plan-stands-here-once-both");
pub(crate) const NEXT: Label = Label("forms-go-on");

pub(crate) fn rush(sale: &str) -> String {
    text!("forms-rush-on", sale)
}

pub(crate) fn no_number(text: &str) -> String {
    let shown: String = text.chars().take(20).collect();
    text!("forms-is-no-whole-number", shown)
}

pub(crate) fn out_of_range(least: u64, most: u64) -> String {
    let (least, most) = (thousands(least), thousands(most));
    text!("forms-give-to", least, most)
}
