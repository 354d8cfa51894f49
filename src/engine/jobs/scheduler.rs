//! Waits for due times on this node. Every node waits for every job; the runner ensures that only one runs it.

use std::{sync::Arc, time::Duration};

use seckill_redis::Connection;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Job, Runner,
    runner::{Next, Seen, Turn},
};
use crate::Result;

const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Runs these jobs until `stop`, at most `pool` at once on this node; active runs are cancelled then and recorded as
/// such.
pub async fn schedule(jobs: Vec<Job>, runner: Runner, pool: usize, stop: CancellationToken) {
    let pool = Arc::new(Semaphore::new(pool));
    let mut tasks = JoinSet::new();
    for job in jobs {
        let conn = runner.deployment.redis.connection();
        let (runner, pool) = (runner.clone(), Arc::clone(&pool));
        tasks.spawn(Follow { job, runner, conn, pool, seen: Seen::default() }.run(stop.clone()));
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
    seen: Seen,
}

impl Follow {
    async fn run(mut self, stop: CancellationToken) {
        let mut pause = BACKOFF[0];
        while !stop.is_cancelled() {
            let next = self.runner.next(&mut self.conn, &self.job, &mut self.seen);
            let Some(next) = stop.run_until_cancelled(next).await else { return };
            let turn = match next {
                Ok(Next::Wait(wait)) => {
                    pause = BACKOFF[0];
                    sleep(wait, &stop).await;
                    continue;
                }
                // The runner handles the stop itself and records what it cancels.
                Ok(Next::Run(..)) => self.due(&stop).await,
                Err(error) => Err(error),
            };
            match turn {
                Ok(Turn::Ran) => {
                    pause = BACKOFF[0];
                    continue;
                }
                // The holder of the lock may die before running it; the wait prevents a busy loop.
                Ok(Turn::NothingDue | Turn::Busy) => {}
                Err(error) => {
                    tracing::warn!(job = self.job.name, %error, "the job did not start; retrying");
                }
            }
            sleep(pause, &stop).await;
            pause = (pause * 2).min(BACKOFF[1]);
        }
    }

    async fn due(&mut self, stop: &CancellationToken) -> Result<Turn> {
        let jitter = self.job.jitter.mul_f64(rand::random_range(0.0..1.0));
        sleep(jitter, stop).await;
        // The pool is never closed.
        let Some(Ok(_place)) = stop.run_until_cancelled(self.pool.acquire()).await else {
            return Ok(Turn::Busy);
        };
        self.runner.run_due(&mut self.conn, &self.job, &mut self.seen, stop).await
    }
}

async fn sleep(time: Duration, stop: &CancellationToken) {
    stop.run_until_cancelled(tokio::time::sleep(time)).await;
}
