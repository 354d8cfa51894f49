//! The consumer group as an operator sees and moves it: where it stands, moved back, entries given to another
//! consumer, a consumer removed.
//!
//! What becomes of the entries then is the consumers' work; nothing is written to SQL here.

pub mod claim;
mod fault;
pub mod preview;
pub mod remove;
pub mod rewind;
pub mod show;
pub(super) mod words;

pub use claim::{ClaimPlan, ClaimReport, ClaimScope};
pub use fault::{GroupFault, Meanwhile};
pub use preview::{GroupAct, Preview};
pub use remove::RemoveReport;
pub use rewind::{Rewind, RewindReport, To};

use std::fmt;

use seckill_model::message::{Label, text};
use seckill_redis::{Layout, keys::Partition, stream_stats::ConsumerFacts};
use serde::{Deserialize, Serialize};

use super::{EngineError, messages::ITEMS};

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

/// Most names in one message.
const MOST: usize = 20;

/// Names of consumers, as many as a message shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The first ones.
    pub first: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

impl Names {
    fn of(consumers: &[ConsumerFacts]) -> Self {
        let mut first: Vec<String> = consumers.iter().map(|it| it.name.clone()).collect();
        first.sort_unstable();
        let more = first.len().saturating_sub(MOST);
        first.truncate(MOST);
        Self { first, more }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.first.join(&ITEMS);
        match self.more {
            0 if names.is_empty() => f.write_str(&Label("group-none")),
            0 => f.write_str(&names),
            more => f.write_str(&text!("group-and-more", names, more)),
        }
    }
}
