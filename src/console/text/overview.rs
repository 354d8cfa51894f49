//! Texts that only the Overview uses.

use seckill_model::message::{Label, text};

use super::figures::{thousands, tiny};
use crate::widgets::right;

pub(crate) const RECENT_EVENTS: Label = Label("overview-recent-events");
pub(crate) const LOCKS: Label = Label("overview-locks");
pub(crate) const CONSUMERS: Label = Label("overview-consumers");
pub(crate) const NO_CONSUMER: Label = Label("common-none");
/// Rushes of other processes are unknown.
pub(crate) const NO_RUSH: Label = Label("overview-none-from-here");
/// What the stock bars show.
pub(crate) const LEFT: Label = Label("overview-left");

/// Requests sent by rushes, of those planned.
pub(crate) fn sent(sent: &str, planned: &str) -> String {
    format!("{sent} / {planned}")
}

/// Several rushes at once.
pub(crate) fn rushes(count: usize) -> String {
    let count = thousands(count as u64);
    text!("overview-rushes", count)
}

/// Waiters for a lock.
pub(crate) fn waiting(count: u64) -> String {
    let count = right(&tiny(count), 3, "");
    text!("overview-waiting", count)
}

/// Locks whose node is dead.
pub(crate) fn orphans(count: u64) -> String {
    let orphans = if count == 1 { "orphan " } else { "orphans" };
    let count = right(&tiny(count), 3, "");
    text!("overview-value", count, orphans)
}
