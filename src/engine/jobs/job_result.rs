//! Results of job runs as data. Each displays itself in the current language.

use std::{fmt, time::Duration};

use seckill_model::{
    JobOutcome, VoucherId,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use crate::{EngineError, lists::sales};

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobResult {
    /// Unpaid orders were closed.
    Closed {
        /// Number of orders.
        orders: u64,
        /// Pieces returned to the stock in Redis.
        given_back: u64,
    },
    /// The stream and the history were trimmed.
    Trimmed {
        /// Entries.
        entries: u64,
        /// Runs of jobs.
        runs: u64,
        /// Dead letters.
        letters: u64,
        /// Consumers of dead nodes.
        consumers: Vec<String>,
        /// The first entry that is kept because it is not acknowledged.
        held: Option<String>,
    },
    /// Sales were removed from Redis.
    Archived(Vec<VoucherId>),
    /// The audit passed.
    Balanced,
    /// It failed.
    Failed(EngineError),
    /// It panicked with this message.
    Panicked(String),
    /// Its node died or was unresponsive for too long.
    NodeLost,
    /// It was cancelled, for that reason.
    Cancelled(Cancelled),
    /// It was cancelled for that reason, and is still running.
    Endless(Cancelled),
}

/// Why a run was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancelled {
    /// Its lock was lost.
    #[error("{}", Label("job-lock-lost"))]
    LockLost,
    /// It exceeded its time limit.
    #[error("{}", text!("job-too-long", most = format!("{_0:?}")))]
    TooLong(Duration),
    /// Its node is stopping.
    #[error("{}", Label("job-node-stops"))]
    NodeStops,
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Closed { orders, given_back } => text!("job-closed", orders, given_back),
            Self::Trimmed { entries, runs, letters, consumers, held } => {
                let mut text = text!("job-trimmed", entries, runs);
                text.extend((*letters > 0).then(|| text!("job-trimmed-letters", letters)));
                if !consumers.is_empty() {
                    text += &text!("job-trimmed-consumers", consumers = consumers.join(" "));
                }
                text.extend(held.as_ref().map(|held| text!("job-trimmed-held", held)));
                text
            }
            Self::Archived(ids) => text!("job-archived", sales = sales(ids)),
            Self::Balanced => text!("job-balanced"),
            Self::Failed(why) => return why.fmt(f),
            Self::Panicked(message) => text!("job-panicked", message),
            Self::NodeLost => text!("job-node-lost"),
            Self::Cancelled(why) => return why.fmt(f),
            Self::Endless(why) => text!("job-still-running", cancelled = why),
        })
    }
}

/// The outcome of a run as it is shown.
pub fn outcome_name(outcome: JobOutcome) -> Label {
    match outcome {
        JobOutcome::Running => Label("job-running"),
        JobOutcome::Done => Label("job-done"),
        JobOutcome::Failed => Label("job-failed"),
        JobOutcome::Cancelled => Label("job-cancelled"),
        JobOutcome::Lost => Label("job-lost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineError;
    use crate::telemetry::{Snapshot, alarms::alarms, snapshot::JobLine};
    use seckill_model::{
        Cause, JobRun, Message, Millis,
        ledger::{Finding, SaleFinding},
    };

    #[test]
    fn a_failed_audit_raises_no_second_alarm() {
        let alarms = |error: &EngineError| {
            let run = JobRun {
                id: 1,
                job: "check-ledger".into(),
                due: Millis(0),
                cause: Cause::Due,
                node: "a".into(),
                started: Millis(0),
                took_ms: Some(5),
                outcome: JobOutcome::Failed,
                detail: Some(Message::of(&JobResult::Failed(error.clone()))),
                rows: None,
            };
            let job = JobLine {
                name: run.job.clone(),
                about: Label("job-done"),
                schedule: String::new(),
                paused: false,
                next: None,
                runs: vec![run],
            };
            alarms(&Snapshot { jobs: vec![job], ..Snapshot::default() }, None).len()
        };
        let off = SaleFinding { sale: None, what: Finding::Lost(2) };
        assert_eq!(alarms(&EngineError::Unbalanced(off)), 0);
        assert_eq!(alarms(&EngineError::ReadOnly), 1, "any other failure raises an alarm");
    }
}
