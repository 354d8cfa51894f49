//! Words of the Overview that stand nowhere else.

use super::{
    figures::{counted, thousands},
    lang::{Word, tell, word},
};

pub(crate) const LATELY: Word = word("LATELY", "近况");
pub(crate) const LOCKS: Word = word("LOCKS", "锁");

/// Those who wait for a lock.
pub(crate) fn waiting(count: u64) -> String {
    let count = thousands(count);
    tell!("{count} waiting", "{count} 个等待")
}

/// Locks whose node is dead.
pub(crate) fn orphans(count: u64) -> String {
    let (orphans, count) = (counted(count, "orphan", "orphans"), thousands(count));
    tell!("{orphans}", "{count} 个无主锁")
}
