//! Runs one job on this node: acquires its lock, claims its due times, records the result.

use std::time::{Duration, Instant};

use seckill_model::{
    Cause, Fence, JobOutcome, Message, Millis, NewRun, RunEnd, clock::seconds, reason::reason,
};
use seckill_redis::{
    RedisError,
    lock_holders::{foreign_locks, holder_of},
    nodes::Nodes,
};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::{Done, Job, Run};
use crate::{
    EngineError, Result,
    deployment::Deployment,
    locks::{Guard, LockError, LockName, Locks},
    telemetry::event::Event,
};

/// The end of a run is recorded even if a database is briefly unreachable.
const WRITE_TRIES: u32 = 5;
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// How long a manual run waits for a run that is about to end.
const MANUAL_WAIT: Duration = Duration::from_secs(1);
/// How long a cancelled run may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Runs jobs on one node. Each task has its own.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Servers and settings.
    pub deployment: Deployment,
    /// This node.
    pub node: String,
    /// This node's locks.
    pub locks: Locks,
}

/// The lock that restricts a job to one node at a time.
pub fn job_lock(job: &str) -> String {
    format!("job:{job}")
}

impl Runner {
    /// Runs the job now on an operator's command, even if it is paused.
    ///
    /// # Errors
    /// It is already running, or a server is unreachable.
    pub async fn run_now(&self, job: &Job, stop: &CancellationToken) -> Result<RunEnd> {
        let guard = match self.lock(job, MANUAL_WAIT).await {
            Err(EngineError::Lock(LockError::Busy(name))) => return Err(self.busy(&name).await),
            other => other?,
        };
        let now = self.deployment.redis.connection().now().await?;
        let ran = async {
            self.lose_runs(job, &guard, now).await?;
            self.run_one(job, now, Cause::Operator, now, &guard, stop).await
        };
        let ran = ran.await;
        if let Err(error) = guard.release().await {
            tracing::warn!(job = job.name, %error, "the job's lock was not released");
        }
        let superseded = || EngineError::Rejected(reason!("job-known", job = &job.name));
        ran?.ok_or_else(superseded)
    }

    /// The node that runs the job, for display.
    async fn busy(&self, name: &LockName) -> EngineError {
        let Deployment { redis, keys, settings, .. } = &self.deployment;
        let mut conn = redis.connection();
        let finding = async {
            let nodes = Nodes::read(&mut conn, &keys.home()).await?;
            let alive = |node: &str| nodes.life(node, settings.node_dead_ms);
            let names = [name.to_string()];
            if let Some(found) = foreign_locks(&mut conn, keys, &names).await?.pop() {
                return Err(RedisError::Foreign(found));
            }
            holder_of(&mut conn, keys, name.as_str(), alive).await
        };
        match finding.await {
            Ok(Some(holder)) if holder.orphan => {
                let (node, lock) = (holder.node, name.as_str());
                let seconds = holder.left_ms.unwrap_or_default().div_ceil(1_000);
                EngineError::Rejected(reason!("job-orphan", node, lock, seconds))
            }
            Ok(Some(holder)) => EngineError::Rejected(reason!("job-runs", node = holder.node)),
            Err(found @ RedisError::Foreign(_)) => found.into(),
            _ => LockError::Busy(name.clone()).into(),
        }
    }

    pub(super) async fn lock(&self, job: &Job, wait: Duration) -> Result<Guard> {
        let (name, task) = (LockName::new(job_lock(&job.name))?, "run");
        // Renewed while this node lives, so that a dead node blocks others for one lease at most.
        Ok(self.locks.try_for(&name, task, wait).await?)
    }

    /// Marks runs of nodes that have lost the lock, which `guard` holds now.
    pub(super) async fn lose_runs(&self, job: &Job, guard: &Guard, now: Millis) -> Result<()> {
        let why = Message::of(&reason!("job-node-lost"));
        self.deployment.store.lose_runs(&job.name, guard.token(), &why, now).await?;
        Ok(())
    }

    /// Runs the job under its lock; `None` if that due time was claimed already, or the job is paused.
    pub(super) async fn run_one(
        &self,
        job: &Job,
        due: Millis,
        cause: Cause,
        started: Millis,
        guard: &Guard,
        stop: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let (node, token) = (self.node.clone(), guard.token());
        let new = NewRun { job: job.name.clone(), due, cause, node, token, started };
        let Some(id) = self.deployment.store.begin_run(&new).await? else { return Ok(None) };
        let begun = Instant::now();
        let (outcome, result, rows) = self.work(job, due, guard, stop).await;
        let detail = result.as_ref().map(Message::of);
        let end = RunEnd { outcome, took_ms: begun.elapsed().as_millis() as u64, detail, rows };
        if outcome != JobOutcome::Done {
            let detail = end.detail.as_deref().unwrap_or_default();
            tracing::warn!(job = job.name, %outcome, detail, "a job did not complete");
        }
        self.write_end(id, &end).await?;
        Ok(Some(end))
    }

    async fn work(&self, job: &Job, due: Millis, guard: &Guard, stop: &CancellationToken) -> Ended {
        let fence = Fence { name: guard.name().to_string(), token: guard.token() };
        let run = Run { deployment: self.deployment.clone(), due, fence, stop: stop.clone() };
        // Runs in its own task, so that a panic ends only the run.
        let mut task = tokio::spawn((job.work)(run));
        let why = tokio::select! {
            biased;
            ended = &mut task => return ended_by_itself(ended),
            () = guard.lost() => reason!("job-lock-lost"),
            () = tokio::time::sleep(job.at_most) => {
                reason!("job-too-long", seconds = seconds(job.at_most))
            }
            () = stop.cancelled() => reason!("job-node-stops"),
        };
        task.abort();
        match tokio::time::timeout(END_WITHIN, task).await {
            Ok(Ok(result)) => ended_by_itself(Ok(result)),
            Ok(Err(_)) => (JobOutcome::Cancelled, Some(Event::Other(why)), 0),
            Err(_) => {
                guard.abandon();
                let why = reason!("job-still-running", cancelled = why);
                (JobOutcome::Cancelled, Some(Event::Other(why)), 0)
            }
        }
    }

    async fn write_end(&self, id: i64, end: &RunEnd) -> Result<()> {
        for attempt in 1.. {
            match self.deployment.store.end_run(id, end).await {
                Err(error) if error.is_away() && attempt < WRITE_TRIES => {
                    tokio::time::sleep(WRITE_PAUSE).await;
                }
                other => return Ok(other?),
            }
        }
        Ok(())
    }
}

/// Outcome, result and changed rows of a run.
type Ended = (JobOutcome, Option<Event>, u64);

fn ended_by_itself(ended: Result<Result<Done>, JoinError>) -> Ended {
    let panic = match ended {
        Ok(Ok(Done { rows, detail })) => {
            return (JobOutcome::Done, detail.map(Event::Other), rows);
        }
        Ok(Err(error)) => return (JobOutcome::Failed, Some(Event::Error(error)), 0),
        Err(error) => error.try_into_panic(),
    };
    let Ok(panic) = panic else {
        // Its runtime shuts down.
        let why = reason!("job-node-stops");
        return (JobOutcome::Cancelled, Some(Event::Other(why)), 0);
    };
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let why = reason!("job-panicked", message = text);
    (JobOutcome::Failed, Some(Event::Other(why)), 0)
}
