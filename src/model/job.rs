//! Scheduled jobs: runs as stored in SQL and displayed.

use serde::{Deserialize, Serialize};

use crate::{Message, Millis};

/// Why a run started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Cause {
    /// It was due.
    Due,
    /// It was due while no node could run it.
    Missed,
    /// An operator requested it.
    Operator,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum JobOutcome {
    /// Still running.
    Running,
    /// Success.
    Done,
    /// It returned an error or panicked.
    Failed,
    /// It exceeded its time limit, or its node stopped.
    Cancelled,
    /// Its node died, or was unreachable for longer than the time limit.
    Lost,
}

/// A run that is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Job name.
    pub job: String,
    /// When it was due, by Redis' clock; unique per job.
    pub due: Millis,
    /// Why it starts.
    pub cause: Cause,
    /// The node that runs it.
    pub node: String,
    /// Fencing token of the job's lock.
    pub token: i64,
    /// When it starts, by Redis' clock.
    pub started: Millis,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobRun {
    /// Run ID.
    pub id: i64,
    /// Job name.
    pub job: String,
    /// When it was due.
    pub due: Millis,
    /// Why it started.
    pub cause: Cause,
    /// The node that ran it.
    pub node: String,
    /// When it started.
    pub started: Millis,
    /// Duration in milliseconds; `None` while it runs.
    pub took_ms: Option<u64>,
    /// Its result.
    pub outcome: JobOutcome,
    /// Its detail message.
    pub detail: Option<Message>,
    /// Number of changed rows, entries or keys.
    pub rows: Option<u64>,
}

/// The result of a run, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The result.
    pub outcome: JobOutcome,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// Its detail message.
    pub detail: Option<Message>,
    /// Number of changed rows, entries or keys.
    pub rows: u64,
}

/// Whether a job is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSwitch {
    /// Job name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// When that last changed.
    pub since: Millis,
}

/// A lock's name and the fencing token of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub name: String,
    /// The token; writes with a lower token than the last one are rejected.
    pub token: i64,
}
