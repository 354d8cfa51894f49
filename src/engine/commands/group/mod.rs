//! Operator commands on the consumer group: show, rewind, transfer entries, remove a consumer.
//!
//! The consumers process the entries afterwards; nothing is written to SQL here.

pub mod claim;
pub mod preview;
pub mod remove;
pub mod rewind;
pub mod show;

pub use claim::{ClaimPlan, ClaimReport, ClaimScope};
pub use preview::{GroupAct, Preview};
pub use remove::RemoveReport;
pub use rewind::{Rewind, RewindReport, To};

pub use seckill_redis::group::GroupChange;
use seckill_redis::{Layout, keys::Partition};

use crate::EngineError;
pub use crate::error::{GroupError, Names};

/// A partition by its number.
fn partition(keys: &Layout, number: u16) -> Result<Partition, EngineError> {
    if number < keys.count() {
        return Ok(keys.partition(number));
    }
    Err(GroupError::NoPartition { number, last: keys.count() - 1 }.into())
}

/// Returns that partition, or all of them.
fn partitions(keys: &Layout, only: Option<u16>) -> Result<Vec<Partition>, EngineError> {
    match only {
        Some(number) => Ok(vec![partition(keys, number)?]),
        None => Ok(keys.partitions().collect()),
    }
}
