//! Results of job runs as data. Each displays itself in the current language.

use std::fmt;

use seckill_model::{JobOutcome, Reason, message::Label};
use serde::{Deserialize, Serialize};

use crate::EngineError;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobResult {
    /// It failed.
    Failed(EngineError),
    /// What it changed, or why it ended early.
    #[serde(untagged)]
    Other(Reason),
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => why.fmt(f),
            Self::Other(text) => text.fmt(f),
        }
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
