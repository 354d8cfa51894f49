//! Why the number of partitions is rejected.

use seckill_model::message::text;
use serde::{Deserialize, Serialize};

/// Why the number of partitions is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionsError {
    /// The value in SQL is invalid.
    #[error("{}", text!("partitions-stored", text, most))]
    Stored {
        /// The value.
        text: String,
        /// The maximum.
        most: u16,
    },
    /// It was changed to the first number, and this node works with the second.
    #[error("{}", text!("partitions-other", stored = _0, known = _1))]
    Other(u16, u16),
    /// Two processes change it at once.
    #[error("{}", text!("partitions-changed"))]
    Changed,
    /// It cannot be changed from the first to the second now.
    #[error("{}", text!("partitions-not-now", from = _0, to = _1, why = _2))]
    NotNow(u16, u16, Obstacle),
}

/// What prevents a change of the number of partitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// A live node that uses the old number.
    #[error("{}", text!("partitions-node", node = _0))]
    Node(String),
    /// An unknown number of entries.
    #[error("{}", text!("partitions-unknown"))]
    Unknown,
    /// Entries in the streams of so many partitions.
    #[error("{}", text!("partitions-entries", entries = _0, partitions = _1))]
    Entries(u64, u16),
    /// Dead letters.
    #[error("{}", text!("partitions-letters", letters = _0))]
    Letters(u64),
}
