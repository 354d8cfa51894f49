//! Why a command on the consumer group was rejected.

use std::fmt;

use seckill_model::{
    EntryId,
    message::{Label, text},
};
use seckill_redis::{group::GroupChange, stream_stats::ConsumerStats};
use serde::{Deserialize, Serialize};

use crate::lists::ITEMS;

/// Why a command on the consumer group was rejected, with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupError {
    /// The partition does not exist.
    #[error("{}", text!("group-no-partition", number = number.to_string(), last = last.to_string()))]
    NoPartition {
        /// The requested number.
        number: u16,
        /// The largest one.
        last: u16,
    },
    /// The entry is in another partition.
    #[error("{}", text!("group-other-partition", entry, partition = partition.to_string()))]
    OtherPartition {
        /// The entry.
        entry: EntryId,
        /// The requested partition.
        partition: u16,
    },
    /// The order stream is missing or empty.
    #[error("{}", text!("group-no-stream", number = _0.to_string()))]
    NoStream(u16),
    /// The entries at that position were trimmed.
    #[error("{}", text!("group-trimmed", gone, partition = partition.to_string(), first))]
    Trimmed {
        /// The partition.
        partition: u16,
        /// Number of trimmed entries.
        gone: u64,
        /// The oldest one that is kept.
        first: EntryId,
    },
    /// The position is ahead of the group.
    #[error("{}", text!("group-forward", to, delivered, partition = partition.to_string()))]
    Forward {
        /// The partition.
        partition: u16,
        /// Where it was to go.
        to: EntryId,
        /// Where it is.
        delivered: EntryId,
    },
    /// There is no entry between the position and the group.
    #[error("{}", text!("group-nothing", number = _0.to_string()))]
    Nothing(u16),
    /// The group changed since it was read.
    #[error("{}", text!("group-changed", partition = partition.to_string(), change))]
    Changed {
        /// The partition.
        partition: u16,
        /// What has changed.
        change: GroupChange,
    },
    /// There is no consumer of that name.
    #[error("{}", no_consumer(name, *partition, there))]
    NoConsumer {
        /// The requested name.
        name: String,
        /// The partition searched; `None` for all.
        partition: Option<u16>,
        /// The existing consumers.
        there: Names,
    },
    /// The consumer no longer exists.
    #[error("{}", text!("group-consumer-gone", name, partition = partition.to_string()))]
    Gone {
        /// Its name.
        name: String,
        /// The partition.
        partition: u16,
    },
    /// The consumer does not belong to a live node.
    #[error("{}", text!("group-idle", name = _0))]
    Idle(String),
    /// None of the entries is pending with another consumer.
    #[error("{}", nothing_to_claim(from.as_deref(), to))]
    NothingToGive {
        /// The holder; `None` where entries were named.
        from: Option<String>,
        /// The receiver.
        to: String,
    },
    /// The node of the consumer is alive.
    #[error("{}", text!("group-alive", name = _0))]
    Alive(String),
    /// The consumer holds entries, which would be lost.
    #[error("{}", text!("group-holds", name, pending, partition = partition.to_string()))]
    Holds {
        /// The consumer.
        name: String,
        /// The partition.
        partition: u16,
        /// Its entries.
        pending: u64,
    },
}

impl GroupError {
    /// Whether the arguments are wrong, whatever the state of the stream.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::NoPartition { .. } | Self::OtherPartition { .. })
    }
}

fn no_consumer(name: &str, partition: Option<u16>, existing: &Names) -> String {
    match partition {
        Some(number) => {
            text!("group-no-consumer-in", name, partition = number.to_string(), existing)
        }
        None => text!("group-no-consumer", name, existing),
    }
}

fn nothing_to_claim(from: Option<&str>, to: &str) -> String {
    match from {
        Some(from) => text!("group-nothing-to-claim-from", from, to),
        None => text!("group-nothing-to-claim", to),
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
    pub(crate) fn of(consumers: &[ConsumerStats]) -> Self {
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
