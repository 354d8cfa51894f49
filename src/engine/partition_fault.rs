//! Faults of a partition and what repaired them: data of errors and events.

use std::fmt;

use seckill_model::{EntryId, ForeignKey, message::text};
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

/// How it was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A new stream took its place.
    Renewed {
        /// Entries that were not acknowledged, and are in the new stream.
        kept: u64,
        /// Entries of unknown orders, which became dead letters.
        dead: u64,
        /// The name of the old stream.
        aside: String,
    },
    /// The group was moved back, and continues with this entry.
    MovedBack(EntryId),
    /// The key was renamed.
    Renamed(String),
}

/// One fault that was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairedFault {
    /// What was wrong.
    pub fault: PartitionFault,
    /// What was done.
    pub repair: Repair,
}

impl fmt::Display for PartitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::FutureId(last) => text!("partitions-future-id", id = last.in_stream()),
            Self::GroupBeyond { delivered, last } => {
                let (delivered, last) = (delivered.in_stream(), last.in_stream());
                text!("partitions-group-beyond", delivered, last)
            }
            Self::Lost(key) => text!("partitions-lost", key),
            Self::ForeignKey(ForeignKey { key, holds }) => {
                text!("partitions-foreign-key", key, holds = ForeignKey::content(holds))
            }
        })
    }
}

impl fmt::Display for RepairedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = &self.fault;
        f.write_str(&match &self.repair {
            Repair::Renewed { kept, dead, aside } => {
                text!("partitions-renewed", fault, kept, dead, aside)
            }
            Repair::MovedBack(from) => {
                text!("partitions-moved-back", fault, from = from.in_stream())
            }
            Repair::Renamed(aside) => text!("partitions-renamed", fault, aside),
        })
    }
}
