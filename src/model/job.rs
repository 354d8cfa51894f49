//! Scheduled jobs: what a run is, as SQL keeps it and a screen shows it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Millis, Said};

/// Why a run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Its time had come.
    Due,
    /// Its time had come while no node could run it.
    Missed,
    /// An operator asked for it.
    Operator,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobOutcome {
    /// It has not ended.
    Running,
    /// As it should.
    Done,
    /// With an error, or it panicked.
    Failed,
    /// It took longer than it may, or its node stopped.
    Cancelled,
    /// Its node died, or was away for longer than the run may take.
    Lost,
}

macro_rules! words {
    ($kind:ident, $what:literal, $($variant:ident = $word:literal),+) => {
        impl $kind {
            /// The word that SQL keeps.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("'{text}' is no {} of a job's run", $what)),
                }
            }
        }
    };
}

words!(Cause, "cause", Due = "due", Missed = "missed", Operator = "operator");
words!(
    JobOutcome,
    "outcome",
    Running = "running",
    Done = "done",
    Failed = "failed",
    Cancelled = "cancelled",
    Lost = "lost"
);

/// A run that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Which job.
    pub job: String,
    /// When it was due, by the clock of Redis; no job runs twice for the same.
    pub due: Millis,
    /// Why it begins.
    pub cause: Cause,
    /// On which node.
    pub node: String,
    /// Fencing token of the job's lock.
    pub token: i64,
    /// When it begins, by the clock of Redis.
    pub started: Millis,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobRun {
    /// Its number.
    pub id: i64,
    /// Which job.
    pub job: String,
    /// When it was due.
    pub due: Millis,
    /// Why it began.
    pub cause: Cause,
    /// On which node.
    pub node: String,
    /// When it began.
    pub started: Millis,
    /// How long it took, in milliseconds; `None` while it runs.
    pub took_ms: Option<u64>,
    /// How it ended.
    pub outcome: JobOutcome,
    /// What it says of itself.
    pub detail: Option<Said>,
    /// How many rows, entries or keys it changed.
    pub rows: Option<u64>,
}

/// How a run ended, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// How.
    pub outcome: JobOutcome,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What it says of itself.
    pub detail: Option<Said>,
    /// How many rows, entries or keys it changed.
    pub rows: u64,
}

/// Whether a job is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobSwitch {
    /// Which job.
    pub name: String,
    /// It is.
    pub paused: bool,
    /// Since when that is so.
    pub since: Millis,
}

/// A lock's name and the fencing token under which a write is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock.
    pub name: String,
    /// The token; a write under one that is lower than another's is refused.
    pub token: i64,
}
