//! Scheduled jobs: due times, the node that runs them, and their results.
//!
//! A due time is measured by the clock of Redis, which all nodes share. An SQL row claims it, with a unique index on
//! (job, due); the lock before it prevents concurrent runs of one job.

pub mod builtin;
pub mod retention;
mod runner;
mod schedule;
mod scheduler;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use seckill_model::{Fence, JobRun, Millis, Reason, message::text};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

use crate::{
    Result,
    deployment::{Deployment, time_zone},
    telemetry::snapshot::JobLine,
};

pub use runner::{Runner, job_lock};
pub use schedule::Schedule;
pub use scheduler::schedule;

/// A job: action, schedule and time limits.
#[derive(Clone)]
pub struct Job {
    /// Its name, also the name of its lock.
    pub name: String,
    /// When it is due.
    pub schedule: Schedule,
    /// Time limit; after it the run is cancelled and other nodes may run the job.
    pub at_most: Duration,
    /// Maximum random delay after the due time, so that the nodes do not all query at once.
    pub jitter: Duration,
    /// Its action.
    pub work: Work,
}

impl Job {
    /// When a run ended, or the latest time at which it can have ended.
    pub fn ended(&self, run: &JobRun) -> Millis {
        let took = run.took_ms.unwrap_or(self.at_most.as_millis() as u64);
        run.started.plus(took as i64)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, schedule) = (&self.name, &self.schedule);
        f.debug_struct("Job")
            .field("name", name)
            .field("schedule", schedule)
            .finish_non_exhaustive()
    }
}

/// Context of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Servers and settings.
    pub deployment: Deployment,
    /// Its due time.
    pub due: Millis,
    /// Fencing token of its SQL writes.
    pub fence: Fence,
    /// Cancelled when the node stops.
    pub stop: CancellationToken,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// Rows, entries or keys changed.
    pub rows: u64,
    /// Details.
    pub detail: Option<Reason>,
}

/// Action of a job. A cancelled run is dropped at one of its awaits, so its writes must be consistent at each of them.
pub type Work = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<Done>> + Send + Sync>;

/// Returns these jobs with the newest `runs` runs of each.
pub async fn board(
    store: &SharedStore,
    jobs: &[Job],
    now: Millis,
    runs: u32,
) -> Result<Vec<JobLine>> {
    let switches = store.job_switches().await?;
    let zone = time_zone::of(store).await?;
    let mut lines = Vec::with_capacity(jobs.len());
    for job in jobs {
        let runs = store.runs(Some(&job.name), runs).await?;
        let paused = switches.iter().any(|switch| switch.name == job.name && switch.paused);
        let next = if let Schedule::After(_) = job.schedule {
            // It counts from the end of the last run that was due, however many an operator has started since, and before the
            // first one from the start of a node.
            let last = store.last_due(&job.name, now).await?;
            last.and_then(|run| job.schedule.next(now, Some(job.ended(&run)), &zone))
        } else {
            job.schedule.next(now, None, &zone)
        };
        lines.push(JobLine {
            name: job.name.clone(),
            about: text!("job-about", job = job.name),
            schedule: match job.schedule {
                Schedule::Cron(_) => format!("{} ({zone})", job.schedule),
                _ => job.schedule.to_string(),
            },
            paused,
            next: next.filter(|_| !paused),
            runs,
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EngineError,
        telemetry::{Snapshot, alarms::alarms, event::Event},
    };
    use seckill_model::{
        Cause, JobOutcome, Message,
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
                detail: Some(Message::of(&Event::Error(error.clone()))),
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
        let off = SaleFinding { sale: None, shard: None, what: Finding::Lost(2) };
        assert_eq!(alarms(&EngineError::Unbalanced(off)), 0);
        assert_eq!(alarms(&EngineError::ReadOnly), 1, "any other failure raises an alarm");
    }
}
