//! Scheduled jobs: when they are due, on which node they run, and what came of it.
//!
//! A due time is a moment by the clock of Redis, which all nodes share. It is taken by a row in SQL
//! whose index knows each (job, due) once; the lock before it keeps two runs of one job apart.

mod board;
pub mod builtin;
mod job_result;
mod runner;
mod scheduler;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use seckill_model::{Fence, JobRun, Millis};
use seckill_redis::{Layout, Redis};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

use super::{EngineError, settings::Settings};

pub use super::schedule::{Schedule, ScheduleFault};
pub use board::board;
pub use job_result::{Cancelled, JobResult, RunFault, outcome_name};
pub use runner::{Runner, job_lock};
pub use scheduler::{JobsFault, Scheduler};

/// What happens to due times that passed while no node could run the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// They are left out.
    Skip,
    /// One run makes up for all of them.
    Once,
    /// Each is made up for, oldest first.
    All,
}

/// A job: what, when, and how long.
#[derive(Clone)]
pub struct Job {
    /// Its name, also that of its lock.
    pub name: String,
    /// What it is for, in a few words.
    pub about: String,
    /// When it is due.
    pub schedule: Schedule,
    /// What happens to missed runs.
    pub missed: Missed,
    /// Others are kept out for that long from its begin.
    pub at_least: Duration,
    /// It is cancelled, and others may run it, after that.
    pub at_most: Duration,
    /// Each node waits up to that long past the due time, so that not all of them ask at once.
    pub jitter: Duration,
    /// What it does.
    pub work: Arc<dyn Work>,
}

impl Job {
    /// When a run ended; one that is not known to have ended has at the latest by then.
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

/// What a run works with.
#[derive(Clone, Debug)]
pub struct Run {
    /// SQL.
    pub store: SharedStore,
    /// Redis.
    pub redis: Redis,
    /// Names of keys.
    pub keys: Layout,
    /// Settings of the engine.
    pub settings: Settings,
    /// What it was due for.
    pub due: Millis,
    /// Its writes go to SQL under this.
    pub fence: Fence,
    /// Cancelled when the node stops.
    pub stop: CancellationToken,
}

/// What a run brought about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// Rows, entries or keys changed.
    pub rows: u64,
    /// What there is to say.
    pub detail: Option<JobResult>,
}

/// What a job does. A run that is cancelled is dropped at one of its awaits, so what it writes must
/// be whole at each of them.
#[async_trait]
pub trait Work: Send + Sync {
    /// Does it once.
    async fn run(&self, run: Run) -> Result<Done, EngineError>;
}
