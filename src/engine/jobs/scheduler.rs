//! Waits for due times on this node. Every node waits for every job; the runner ensures that only one runs it.

use std::{sync::Arc, time::Duration};

use seckill_model::Millis;
use seckill_redis::Connection;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Job, Missed, Runner, Schedule, runner::Turn};
use crate::EngineError;

/// How often the clock is read again: it may step, and a fixed delay depends on other nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Runs these jobs until `stop`, at most `pool` at once on this node; active runs are cancelled then and recorded as
/// such.
pub async fn schedule(jobs: Vec<Job>, runner: Runner, pool: usize, stop: CancellationToken) {
    let pool = Arc::new(Semaphore::new(pool));
    let mut tasks = JoinSet::new();
    for job in jobs {
        let conn = runner.deployment.redis.connection();
        let (runner, pool) = (runner.clone(), Arc::clone(&pool));
        tasks.spawn(Follow { job, runner, conn, pool }.run(stop.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a job is no longer scheduled on this node");
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
            let step = stop.run_until_cancelled(self.step(&mut target, &mut first)).await;
            let Some(step) = step else { return };
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
                    tracing::warn!(job = self.job.name, %error, "the job did not start; retrying");
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
        let store = &self.runner.deployment.store;
        let switches = store.job_switches().await?;
        if switches.iter().any(|it| it.name == self.job.name && it.paused) {
            (*target, *first) = (None, false);
            return Ok(Step::Wait(LOOK_AGAIN));
        }
        let now = self.conn.now().await?;
        let last = store.last_due(&self.job.name, now).await?;
        // Another node has run it.
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
        // The pool is never closed.
        let Some(Ok(_place)) = stop.run_until_cancelled(self.pool.acquire()).await else {
            return Ok(Turn::Busy);
        };
        self.runner.run_due(&mut self.conn, &self.job, due, stop).await
    }
}

async fn sleep(time: Duration, stop: &CancellationToken) {
    stop.run_until_cancelled(tokio::time::sleep(time)).await;
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
