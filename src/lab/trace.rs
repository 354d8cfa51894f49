//! The trace of a run: every statement, command and lock of each request, with its time and what it saw.
//!
//! Times come from the monotonic clock of the machine, which all processes share.

use std::{borrow::Cow, fmt};

use redis::Value;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time, in nanoseconds of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Instant(pub(crate) i64);

impl Instant {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec * 1_000_000_000 + now.tv_nsec)
    }

    /// Nanoseconds since an earlier point; 0 if it is later.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A SELECT.
    Read,
    /// An INSERT, UPDATE or DELETE.
    Write,
    /// The begin or end of a transaction.
    Transaction,
    /// A command to Redis.
    Redis,
    /// An attempt to take a lock in Redis. Its value is the lease in milliseconds, if there is one and nothing renews it.
    /// What came back from the engine's lock is one number per server, 1 if the lock was taken.
    Acquire,
    /// A command to Redis that releases a lock. What came back is one number per server, 1 if a lock was released.
    Release,
    /// A lock in the memory of the process was taken.
    Lock,
    /// A lock in the memory of the process was released.
    Unlock,
    /// A variable in the memory of the process was read or changed.
    Memory,
    /// An order went into a queue in the memory of the process, or came out of it.
    Queue,
    /// The process was killed.
    Killed,
    /// The pause between a check and the write that depends on it.
    Think,
    /// A pause that is longer than the lease of a lock, or in which its holder is stopped or killed.
    Stall,
    /// The process was stopped, or its server was replaced.
    Incident,
    /// The end of a lease. Computed from its acquisition and duration, not observed.
    LeaseEnd,
}

impl Action {
    /// Whether it is a statement to the database.
    pub(crate) fn is_sql(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Transaction)
    }

    /// Whether it is a command to Redis.
    pub(crate) fn is_redis(self) -> bool {
        matches!(self, Self::Redis | Self::Acquire | Self::Release)
    }
}

/// What came back from a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Saw {
    /// The values that a read saw, how many rows a write changed, an integer reply of Redis.
    Numbers(Vec<i64>),
    /// Another reply of Redis, in one line.
    Text(String),
}

impl Default for Saw {
    fn default() -> Self {
        Self::Numbers(Vec::new())
    }
}

impl From<Vec<i64>> for Saw {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl From<&Value> for Saw {
    fn from(reply: &Value) -> Self {
        match reply {
            Value::Int(number) => Self::Numbers(vec![*number]),
            reply => Self::Text(one_line(reply)),
        }
    }
}

impl Saw {
    /// The numbers; none of a text.
    pub(crate) fn numbers(&self) -> &[i64] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Text(_) => &[],
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Saw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                f.write_str(&numbers.join(", "))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A reply of Redis in one line.
pub(crate) fn one_line(reply: &Value) -> String {
    match reply {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".to_owned(),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(one_line).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// What one request did, and saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The request.
    pub lane: u32,
    /// The user.
    pub user: i64,
    /// The process, from 1.
    pub instance: u32,
    /// What it did.
    pub action: Action,
    /// The statement or command, or the name of the lock or variable.
    pub what: Cow<'static, str>,
    /// The values of the statement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<i64>,
    /// What came back.
    #[serde(default, skip_serializing_if = "Saw::is_nothing")]
    pub saw: Saw,
    /// When it was sent, in nanoseconds.
    pub(crate) begun: Instant,
    /// When the reply was there, in nanoseconds.
    pub(crate) ended: Instant,
}

impl Step {
    /// The first number that came back.
    pub fn seen(&self) -> Option<i64> {
        self.saw.numbers().first().copied()
    }

    /// Whether it took a lock in Redis.
    pub(crate) fn took_lock(&self) -> bool {
        let is_taken = self.seen() == Some(1) || self.saw == Saw::Text("OK".to_owned());
        self.action == Action::Acquire && is_taken
    }

    /// Whether it released a lock in Redis.
    pub(crate) fn released_lock(&self) -> bool {
        self.action == Action::Release && self.saw.numbers().contains(&1)
    }

    /// How many commands it sent to Redis: a lock over several servers has a reply of each.
    pub(crate) fn redis_commands(&self) -> usize {
        match self.action {
            Action::Acquire | Action::Release => self.saw.numbers().len().max(1),
            action => action.is_redis().into(),
        }
    }

    /// Whether it is an attempt that did not get a lock in Redis.
    pub(crate) fn is_refused(&self) -> bool {
        self.action == Action::Acquire && !self.took_lock()
    }

    /// Whether it is a statement about this table.
    pub(crate) fn is_on(&self, action: Action, table: &str) -> bool {
        self.action == action && self.what.split_whitespace().any(|word| word == table)
    }

    /// Whether it had ended when the other one began: the order in which both took effect is certain.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        self.ended <= other.begun
    }
}
