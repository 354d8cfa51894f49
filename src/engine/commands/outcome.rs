//! Outcome of a command, as the audit log keeps it.

use std::fmt;

use seckill_model::{JobOutcome, Message, message::text};
use serde::{Deserialize, Serialize};

use crate::{
    EngineError,
    commands::{ReplayReport, Reply},
    jobs::{JobResult, outcome_name},
};

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutcome {
    /// The command has started; another line has its end.
    Started,
    /// What it changed.
    Done(Reply),
    /// The job ran.
    Ran {
        /// How it ended.
        outcome: JobOutcome,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// Its result.
        result: Option<JobResult>,
    },
    /// Why it failed.
    Failed(EngineError),
    /// It succeeded, without further details.
    Finished,
}

impl CommandOutcome {
    /// The outcome of a command with this `reply`.
    pub fn of(reply: &Reply) -> Self {
        match reply {
            Reply::JobRun { end, .. } => {
                let result = end.detail.as_ref().and_then(Message::data);
                Self::Ran { outcome: end.outcome, took_ms: end.took_ms, result }
            }
            // The log file lists the changed entries; the audit log has no room for a thousand of them.
            Reply::Replayed(report) => {
                let report = ReplayReport { changes: Vec::new(), ..report.clone() };
                Self::Done(Reply::Replayed(report))
            }
            other => Self::Done(other.clone()),
        }
    }
}

impl fmt::Display for CommandOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Started => text!("outcome-started"),
            Self::Done(reply) => return reply.fmt(f),
            Self::Ran { outcome, took_ms, result } => {
                let (outcome, took) = (outcome_name(*outcome), *took_ms);
                match result {
                    Some(result) => text!("outcome-after-ms", outcome, took, result),
                    None => text!("outcome-ran", outcome, took),
                }
            }
            Self::Failed(error) => text!("outcome-failed", error),
            Self::Finished => text!("outcome-done"),
        })
    }
}
