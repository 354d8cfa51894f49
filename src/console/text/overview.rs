//! Texts that only the Overview uses.

use seckill_model::message::{Label, text};

use super::figures::tiny;
use crate::widgets::right;

pub(crate) const LOCKS: Label = Label("overview-locks");

/// Requests sent by rushes, of those planned.
pub(crate) fn sent(sent: &str, planned: &str) -> String {
    format!("{sent} / {planned}")
}

/// Locks whose node is dead.
pub(crate) fn orphans(count: u64) -> String {
    let orphans = if count == 1 { "orphan " } else { "orphans" };
    let count = right(&tiny(count), 3, "");
    text!("overview-value", count, orphans)
}
