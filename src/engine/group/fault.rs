//! Why the group was left as it is, told to a person.

use std::fmt;

use seckill_model::{EntryId, counted};
use serde::{Deserialize, Serialize};

use super::Names;

/// One sentence with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupFault {
    /// A number of a partition that there is not.
    #[error("there is no partition {number}; the last one is {last}")]
    NoPartition {
        /// The number asked for.
        number: u16,
        /// The largest one.
        last: u16,
    },
    /// An id and a partition that do not go together.
    #[error(
        "entry {entry} is none of partition {partition}; leave --partition out, or give its own"
    )]
    OtherPartition {
        /// The entry.
        entry: EntryId,
        /// The partition asked for.
        partition: u16,
    },
    /// No entry was ever added, or none is left.
    #[error(
        "the order stream of partition {0} is not there or empty, so nothing can be delivered from it; 'seckill stream show' tells what there is"
    )]
    NoStream(u16),
    /// The place lies where entries were trimmed.
    #[error(
        "{} trimmed or deleted in partition {partition} and can't be delivered again; it is possible from {first} on, which '--to start' means",
        counted(*gone, "older entry was", "older entries were")
    )]
    Trimmed {
        /// The partition.
        partition: u16,
        /// Entries that are gone.
        gone: u64,
        /// The oldest one that is kept.
        first: EntryId,
    },
    /// The place lies ahead of the group.
    #[error(
        "{to} lies after {delivered}, up to where the group of partition {partition} was delivered: to move it forward would skip orders; a rewind only goes back"
    )]
    Forward {
        /// The partition.
        partition: u16,
        /// Where it was to go.
        to: EntryId,
        /// Where it is.
        delivered: EntryId,
    },
    /// No entry stands between the place and the group.
    #[error(
        "no entry would be delivered again in partition {0}: none stands between that place and where the group is; 'seckill stream show' tells where that is"
    )]
    Nothing(u16),
    /// Somebody else was quicker.
    #[error(
        "partition {partition}: {what} since that was looked at; nothing was changed there; look again"
    )]
    Meanwhile {
        /// The partition.
        partition: u16,
        /// What happened.
        what: Meanwhile,
    },
    /// No consumer of that name.
    #[error("there is no consumer '{name}' in {}; there are: {there}", place(*partition))]
    NoConsumer {
        /// The name asked for.
        name: String,
        /// Where it was looked for; `None` is everywhere.
        partition: Option<u16>,
        /// Who there is.
        there: Names,
    },
    /// A consumer that was there when it was asked.
    #[error(
        "there is no consumer '{name}' in partition {partition} any more; 'seckill stream show' tells who there is"
    )]
    Gone {
        /// Its name.
        name: String,
        /// The partition.
        partition: u16,
    },
    /// A consumer behind which nobody works.
    #[error(
        "nobody would work on what '{0}' is given: it is no consumer of a node that gives signs of life; name one that is, or add --force"
    )]
    Idle(String),
    /// None of the entries is pending with somebody else.
    #[error("nothing is to be given: {}; 'seckill pending list' tells what is pending with whom", nothing(from.as_deref(), to))]
    NothingToGive {
        /// Who was to give; `None` where entries were named.
        from: Option<String>,
        /// Who was to get them.
        to: String,
    },
    /// A consumer of a live node.
    #[error(
        "the node of '{0}' is alive and would make the consumer anew; stop the node, or wait until it counts as dead"
    )]
    Alive(String),
    /// A consumer whose entries would be lost with it.
    #[error(
        "'{name}' holds {} of partition {partition}, which would be lost with it; 'seckill pending apply --filter holder={name}' settles them, 'seckill stream claim --from {name} --to CONSUMER' gives them to somebody",
        counted(*pending, "entry", "entries")
    )]
    Holds {
        /// The consumer.
        name: String,
        /// The partition.
        partition: u16,
        /// Its entries.
        pending: u64,
    },
}

impl GroupFault {
    /// Whether it was asked for wrongly, whatever the state of the stream.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::NoPartition { .. } | Self::OtherPartition { .. })
    }
}

/// What changed between a look and an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// The group was destroyed.
    Destroyed,
    /// The group was made.
    Made,
    /// The group was moved back.
    MovedBack,
    /// The first entry to be delivered again is gone.
    Trimmed,
}

impl fmt::Display for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destroyed => "the group was destroyed",
            Self::Made => "the group was made, at the start if a node did it",
            Self::MovedBack => "the group was moved back",
            Self::Trimmed => "the first entry was trimmed or deleted",
        })
    }
}

fn place(partition: Option<u16>) -> String {
    partition.map_or("any partition".to_owned(), |number| format!("partition {number}"))
}

fn nothing(from: Option<&str>, to: &str) -> String {
    match from {
        None => format!("none of these entries is pending but with '{to}'"),
        Some(from) => format!("'{from}' holds nothing that '{to}' does not"),
    }
}
