//! The consumer group as an operator sees and moves it: where it stands, moved back, entries given to another
//! consumer, a consumer removed.
//!
//! What becomes of the entries then is the consumers' work; nothing is written to SQL here.

pub mod claim;
pub mod preview;
pub mod remove;
pub mod rewind;
pub mod show;
pub(super) mod words;

pub use claim::{ClaimPlan, ClaimReport, ClaimScope};
pub use preview::{GroupAct, Preview};
pub use remove::RemoveReport;
pub use rewind::{Rewind, RewindReport, To};

use seckill_redis::{Layout, keys::Partition};

use super::EngineError;
pub use super::error::{GroupFault, Meanwhile, Names};

/// A partition by its number.
///
/// # Errors
/// There is none of that number.
fn partition(keys: &Layout, number: u16) -> Result<Partition, EngineError> {
    if number < keys.count() {
        return Ok(keys.partition(number));
    }
    Err(GroupFault::NoPartition { number, last: keys.count() - 1 }.into())
}

/// That one, or all of them.
fn partitions(keys: &Layout, only: Option<u16>) -> Result<Vec<Partition>, EngineError> {
    match only {
        Some(number) => Ok(vec![partition(keys, number)?]),
        None => Ok(keys.partitions().collect()),
    }
}
