//! What jobs say of themselves, as data: how a run ended, and why one does not begin.

use std::{fmt, time::Duration};

use seckill_model::{VoucherId, counted};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// Why a run that an operator asks for does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFault {
    /// Another one of that job took its place.
    #[error(
        "'{0}' was not run: a newer run of it is known, or one of this very moment; look at 'seckill jobs history {0}'"
    )]
    Known(String),
    /// A node that gives no sign of life holds its lock.
    #[error(
        "{node} holds '{lock}' and gives no sign of life; it is free in {seconds} s at the latest, or release it: 'seckill locks release {lock}'"
    )]
    Orphan {
        /// The node.
        node: String,
        /// The lock.
        lock: String,
        /// Until its lease is over.
        seconds: u64,
    },
    /// It runs on that node.
    #[error("it runs on {0} already; wait for its end, which 'seckill jobs history' tells")]
    Runs(String),
}

/// What a run says of itself when it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSaid {
    /// Unpaid orders were closed.
    Closed {
        /// So many.
        orders: u64,
        /// Pieces that went back to Redis.
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
        /// The first entry that is kept because nobody has acknowledged it.
        held: Option<String>,
    },
    /// Sales left Redis.
    Archived(Vec<VoucherId>),
    /// The books balance.
    Balanced,
    /// It failed.
    Failed(Refusal),
    /// It panicked, with these words.
    Panicked(String),
    /// It was cancelled, for that reason.
    Cancelled(Cancelled),
    /// It was cancelled for that reason, and goes on all the same.
    Endless(Cancelled),
}

/// Why a run was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancelled {
    /// Its lock was lost.
    LockLost,
    /// It took longer than it may.
    TooLong(Duration),
    /// Its node stops.
    NodeStops,
    /// Its task was ended by somebody.
    Task,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LockLost => f.write_str("cancelled: its lock was lost"),
            Self::TooLong(most) => write!(f, "cancelled: it took longer than it may ({most:?})"),
            Self::NodeStops => f.write_str("cancelled: its node stops"),
            Self::Task => f.write_str("its task was cancelled"),
        }
    }
}

impl fmt::Display for JobSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { orders, given_back } => {
                let pieces = counted(*given_back, "piece", "pieces");
                write!(f, "{orders} closed, {pieces} given back")
            }
            Self::Trimmed { entries, runs, letters, consumers, held } => {
                let entries = counted(*entries, "entry", "entries");
                let runs = counted(*runs, "run", "runs");
                write!(f, "{entries}, {runs} of jobs")?;
                if *letters > 0 {
                    write!(f, ", {}", counted(*letters, "dead letter", "dead letters"))?;
                }
                if !consumers.is_empty() {
                    write!(f, ", consumers of the dead: {}", consumers.join(" "))?;
                }
                match held {
                    Some(held) => write!(f, "; {held} and later are not acknowledged yet"),
                    None => Ok(()),
                }
            }
            Self::Archived(sales) => {
                let named: Vec<String> = sales.iter().map(|sale| format!("#{sale}")).collect();
                write!(f, "archived {}", named.join(" "))
            }
            Self::Balanced => f.write_str("the books balance"),
            Self::Failed(why) => why.fmt(f),
            Self::Panicked(words) => write!(f, "it panicked: {words}"),
            Self::Cancelled(why) => why.fmt(f),
            Self::Endless(why) => write!(f, "{why}; it does not end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineError;
    use crate::telemetry::{Snapshot, alarms::alarms, snapshot::JobLine};
    use seckill_model::{
        Cause, JobOutcome, JobRun, Millis, Said,
        ledger::{Finding, SaleFinding},
    };

    #[test]
    fn books_that_are_off_are_no_second_alarm() {
        let told = |error: &EngineError| {
            let run = JobRun {
                id: 1,
                job: "check-ledger".into(),
                due: Millis(0),
                cause: Cause::Due,
                node: "a".into(),
                started: Millis(0),
                took_ms: Some(5),
                outcome: JobOutcome::Failed,
                detail: Some(Said::of(&JobSaid::Failed(error.into()))),
                rows: None,
            };
            let job = JobLine {
                name: run.job.clone(),
                about: String::new(),
                schedule: String::new(),
                paused: false,
                next: None,
                runs: vec![run],
            };
            alarms(&Snapshot { jobs: vec![job], ..Snapshot::default() }, None).len()
        };
        let off = SaleFinding { sale: None, what: Finding::Lost(2) };
        assert_eq!(told(&EngineError::Unbalanced(off)), 0);
        assert_eq!(told(&EngineError::ReadOnly), 1, "any other failure is told");
    }
}
