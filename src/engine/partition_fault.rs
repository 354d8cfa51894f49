//! Faults of a partition.

use std::fmt;

use seckill_model::{EntryId, ForeignKey, Reason, reason::reason};
use serde::{Deserialize, Serialize};

/// What is wrong with a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionFault {
    /// The last ID of the order stream is in the far future.
    FutureId(EntryId),
    /// The group was moved beyond the last ID of its stream.
    GroupBeyond {
        /// Its last delivered ID.
        delivered: EntryId,
        /// The last ID of the stream.
        last: EntryId,
    },
    /// A stream, or a key that only holds the state of nodes, has another type.
    ForeignKey(ForeignKey),
    /// The stream of this key has lost entries.
    Lost(String),
}

impl PartitionFault {
    /// Its message.
    pub fn reason(&self) -> Reason {
        match self {
            Self::FutureId(last) => reason!("partitions-future-id", id = last.in_stream()),
            Self::GroupBeyond { delivered, last } => {
                let (delivered, last) = (delivered.in_stream(), last.in_stream());
                reason!("partitions-group-beyond", delivered, last)
            }
            Self::Lost(key) => reason!("partitions-lost", key),
            Self::ForeignKey(ForeignKey { key, holds }) => {
                reason!("partitions-foreign-key", key, holds = ForeignKey::content(holds))
            }
        }
    }
}

impl fmt::Display for PartitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}
