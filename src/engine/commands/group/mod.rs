//! Operator commands on the consumer group: show, rewind, transfer entries, remove a consumer.
//!
//! The consumers process the entries afterwards; nothing is written to SQL here.

pub mod claim;
pub mod remove;
pub mod rewind;
pub mod show;

pub use claim::{ClaimPlan, ClaimReport, ClaimScope};
pub use remove::RemoveReport;
pub use rewind::{Rewind, RewindReport, To};

use seckill_model::{Reason, reason::reason};
use seckill_redis::{Layout, keys::Partition, stream_stats::ConsumerStats};
use tokio_util::sync::CancellationToken;

use crate::{EngineError, Result, commands::operator::Operator, lists::ITEMS};

/// Maximum number of names in one message.
const MOST_NAMES: usize = 20;

/// A command on the group, as the operator enters it.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupAction {
    /// Rewind the group.
    Rewind {
        /// The first entry to deliver again.
        to: To,
        /// Limits it to this partition.
        partition: Option<u16>,
    },
    /// Transfer pending entries to another consumer.
    Claim {
        /// The entries.
        scope: ClaimScope,
        /// A consumer, or a node for its consumer of each partition.
        to: String,
    },
    /// Remove a consumer from the group of every partition where it is.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Effect of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Partition by partition.
    Rewind(Vec<Rewind>),
    /// Part by part.
    Claim(ClaimPlan),
    /// Where the consumer is.
    Remove(RemoveReport),
}

impl GroupAction {
    /// Previews the command: the plan that is executed afterwards. Nothing is changed.
    pub(super) async fn preview(
        &self,
        operator: &Operator,
        stop: &CancellationToken,
    ) -> Result<Preview> {
        let mut servers = operator.servers();
        let dead_ms = operator.deployment.settings.node_dead_ms;
        let reading = async {
            Ok(match self {
                Self::Rewind { to, partition } => {
                    Preview::Rewind(rewind::preview(&mut servers, to, *partition).await?)
                }
                Self::Claim { scope, to } => {
                    Preview::Claim(claim::preview(&mut servers, scope, to, dead_ms, false).await?)
                }
                Self::Remove { name } => {
                    Preview::Remove(remove::preview(&mut servers, name, None, dead_ms).await?)
                }
            })
        };
        // A long stream takes time, and a shutdown does not wait for it.
        stop.run_until_cancelled(reading).await.unwrap_or(Err(EngineError::Stopping))
    }
}

/// A partition by its number.
fn partition(keys: &Layout, number: u16) -> Result<Partition> {
    if number < keys.count() {
        return Ok(keys.partition(number));
    }
    let (number, last) = (number.to_string(), (keys.count() - 1).to_string());
    Err(EngineError::Rejected(reason!("group-no-partition", number, last)))
}

/// Returns that partition, or all of them.
fn partitions(keys: &Layout, only: Option<u16>) -> Result<Vec<Partition>> {
    match only {
        Some(number) => Ok(vec![partition(keys, number)?]),
        None => Ok(keys.partitions().collect()),
    }
}

/// There is no consumer of this name in a partition, or in any.
fn no_consumer(name: &str, partition: Option<u16>, existing: &[ConsumerStats]) -> EngineError {
    let existing = names(existing);
    EngineError::Failed(match partition.map(|number| number.to_string()) {
        Some(partition) => reason!("group-no-consumer-in", name, partition, existing),
        None => reason!("group-no-consumer", name, existing),
    })
}

/// Names of consumers, as many as a message shows.
fn names(consumers: &[ConsumerStats]) -> Reason {
    let mut names: Vec<&str> = consumers.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    if names.is_empty() {
        return reason!("group-none");
    }
    let names = Reason::list(names.into_iter().map(Reason::from), ITEMS);
    if more == 0 { names } else { reason!("group-and-more", names, more) }
}
