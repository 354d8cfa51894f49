//! Words of the Overview that stand nowhere else.

use super::{
    figures::{thousands, tiny},
    lang::{Word, tell, word},
};
use crate::widgets::right;

pub(crate) const LATELY: Word = word("LATELY", "近况");
pub(crate) const LOCKS: Word = word("LOCKS", "锁");
pub(crate) const CONSUMERS: Word = word("CONSUMERS", "消费者");
pub(crate) const NO_CONSUMER: Word = word("none", "无");
/// Rushes of other processes are not known.
pub(crate) const NO_RUSH: Word = word("none from here", "本进程无");
/// What the bars of the stock show.
pub(crate) const LEFT: Word = word("left", "剩余");

/// Requests of rushes, of those that are planned.
pub(crate) fn sent(sent: &str, planned: &str) -> String {
    format!("{sent} / {planned}")
}

/// Several rushes at once.
pub(crate) fn rushes(count: usize) -> String {
    let count = thousands(count as u64);
    tell!("{count} rushes", "{count} 场抢购")
}

/// Those who wait for a lock.
pub(crate) fn waiting(count: u64) -> String {
    let count = right(&tiny(count), 3, "");
    tell!("{count} waiting", "{count} 个等待")
}

/// Locks whose node is dead.
pub(crate) fn orphans(count: u64) -> String {
    let orphans = if count == 1 { "orphan " } else { "orphans" };
    let count = right(&tiny(count), 3, "");
    tell!("{count} {orphans}", "{count} 个无主锁")
}
