//! Scheduled jobs: due times, the node that runs them, and their results.
//!
//! A due time is measured by the clock of Redis, which all nodes share. An SQL row claims it, with a unique index on
//! (job, due); the lock before it prevents concurrent runs of one job.

mod board;
pub mod builtin;
mod job_result;
mod runner;
mod scheduler;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use seckill_model::{Fence, JobRun, Millis, Reason, message::Label};
use tokio_util::sync::CancellationToken;

use super::{EngineError, deployment::Deployment};

pub use super::schedule::{Schedule, ScheduleError};
pub use board::board;
pub use job_result::{JobResult, outcome_name};
pub use runner::{Runner, job_lock};
pub use scheduler::schedule;

/// A job: action, schedule and time limits.
#[derive(Clone)]
pub struct Job {
    /// Its name, also the name of its lock.
    pub name: String,
    /// Short description.
    pub about: Label,
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
pub type Work = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<Done, EngineError>> + Send + Sync>;
