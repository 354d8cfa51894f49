//! Waits for due times on this node. Every node waits for every job; the runner ensures that only one runs it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use seckill_model::{Millis, message::text};
use seckill_redis::Connection;
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Job, Missed, Runner, Schedule, runner::Turn};
use crate::EngineError;

/// How often the clock is read again: it may step, and a fixed delay depends on other nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Jobs that cannot be scheduled together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobsFault {
    /// Two jobs have this name.
    #[error("{}", text!("schedule-twice", job = _0))]
    Twice(String),
    /// A pool of 0 runs no jobs.
    #[error("{}", text!("schedule-no-pool"))]
    NoPool,
    /// A job holds its lock for at least as long as it may run.
    #[error(
        "{}",
        text!("schedule-hold", job, least = format!("{least:?}"), most = format!("{most:?}"))
    )]
    Hold {
        /// The job.
        job: String,
        /// The least time its lock is held.
        least: Duration,
        /// Its time limit.
        most: Duration,
    },
}

/// The jobs of one node.
#[derive(Debug)]
pub struct Scheduler {
    jobs: Vec<Job>,
    runner: Runner,
    pool: usize,
}

impl Scheduler {
    /// Schedules `jobs`, at most `pool` of them running on this node at once.
    ///
    /// # Errors
    /// Duplicate job names, a pool of 0, or a job whose minimum lock time is not below its time limit.
    pub fn new(jobs: Vec<Job>, runner: Runner, pool: usize) -> Result<Self, JobsFault> {
        let mut names = HashSet::new();
        if let Some(job) = jobs.iter().find(|job| !names.insert(job.name.as_str())) {
            return Err(JobsFault::Twice(job.name.clone()));
        }
        if pool == 0 {
            return Err(JobsFault::NoPool);
        }
        if let Some(job) = jobs.iter().find(|job| job.at_least >= job.at_most) {
            let (job, least, most) = (job.name.clone(), job.at_least, job.at_most);
            return Err(JobsFault::Hold { job, least, most });
        }
        Ok(Self { jobs, runner, pool })
    }

    /// Runs until `stop`; active runs are cancelled and recorded as such.
    pub async fn run(self, stop: CancellationToken) {
        let pool = Arc::new(Semaphore::new(self.pool));
        let mut tasks = JoinSet::new();
        for job in self.jobs {
            let conn = self.runner.redis.connection();
            let (runner, pool, stop) = (self.runner.clone(), Arc::clone(&pool), stop.clone());
            tasks.spawn(Follow { job, runner, conn, pool }.run(stop));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a job is not scheduled any more on this node");
            }
        }
    }
}

/// Task of one job.
struct Follow {
    job: Job,
    runner: Runner,
    conn: Connection,
    pool: Arc<Semaphore>,
}

impl Follow {
    async fn run(mut self, stop: CancellationToken) {
        let mut first = true;
        // The due time being waited for or not settled yet.
        let mut target: Option<Millis> = None;
        let mut pause = BACKOFF[0];
        while !stop.is_cancelled() {
            let step = tokio::select! {
                () = stop.cancelled() => return,
                step = self.step(&mut target, &mut first) => step,
            };
            let turn = match step {
                Ok(Step::Wait(wait)) => {
                    pause = BACKOFF[0];
                    sleep(wait, &stop).await;
                    continue;
                }
                // The runner handles the stop itself and records what it cancels.
                Ok(Step::Run(due)) => self.due(due, &stop).await,
                Err(error) => Err(error),
            };
            match turn {
                Ok(Turn::Ran) => (target, pause) = (None, BACKOFF[0]),
                // The holder of the lock may die before running it; the wait prevents a busy loop.
                Ok(Turn::Busy) => sleep(next(&mut pause), &stop).await,
                Ok(Turn::NothingDue) => {
                    target = None;
                    sleep(next(&mut pause), &stop).await;
                }
                Err(error) => {
                    tracing::warn!(job = self.job.name, %error, "the job waits for its servers");
                    sleep(next(&mut pause), &stop).await;
                }
            }
        }
    }

    async fn step(
        &mut self,
        target: &mut Option<Millis>,
        first: &mut bool,
    ) -> Result<Step, EngineError> {
        let store = &self.runner.store;
        let switches = store.job_switches().await?;
        if switches.iter().any(|it| it.name == self.job.name && it.paused) {
            (*target, *first) = (None, false);
            return Ok(Step::Wait(LOOK_AGAIN));
        }
        let now = self.conn.now().await?;
        let last = store.last_due(&self.job.name, now).await?;
        // It ran meanwhile.
        *target = target.filter(|due| last.as_ref().is_none_or(|run| run.due < *due));
        let ended = last.as_ref().map(|run| self.job.ended(run));
        if std::mem::take(first) && self.job.missed != Missed::Skip {
            // Due times while no node was running.
            let due = last.and_then(|run| self.job.schedule.next(run.due, ended));
            *target = due.filter(|due| *due <= now);
        }
        let next = self.job.schedule.next(now, ended);
        // A clock that stepped back brings the next due time closer.
        let due = match (*target, next) {
            (Some(target), Some(next)) => target.min(next),
            (target, next) => match target.or(next) {
                Some(due) => due,
                None => return Ok(Step::Wait(LOOK_AGAIN)),
            },
        };
        // A fixed delay moves with every run on any node; before the first run it is constant.
        let moves = ended.is_some() && matches!(self.job.schedule, Schedule::After(_));
        *target = Some(due).filter(|due| !moves || *due <= now);
        if due <= now {
            return Ok(Step::Run(due));
        }
        Ok(Step::Wait(Duration::from_millis(due.since(now)).min(LOOK_AGAIN)))
    }

    async fn due(&mut self, due: Millis, stop: &CancellationToken) -> Result<Turn, EngineError> {
        let jitter = self.job.jitter.mul_f64(rand::random_range(0.0..1.0));
        sleep(jitter, stop).await;
        let place = tokio::select! {
            () = stop.cancelled() => return Ok(Turn::Busy),
            place = self.pool.acquire() => place,
        };
        // The pool is never closed.
        let Ok(_place) = place else { return Ok(Turn::Busy) };
        self.runner.run_due(&mut self.conn, &self.job, due, stop).await
    }
}

async fn sleep(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}

/// Increasing delay between attempts.
fn next(pause: &mut Duration) -> Duration {
    let now = *pause;
    *pause = (now * 2).min(BACKOFF[1]);
    now
}

enum Step {
    Wait(Duration),
    Run(Millis),
}
