//! Runs one job on this node: acquires its lock, claims its due times, records the result.

use std::time::{Duration, Instant};

use seckill_model::{Cause, Fence, JobOutcome, Message, Millis, NewRun, RunEnd, reason::reason};
use seckill_redis::{
    Connection, RedisError,
    lock_holders::{foreign_locks, holder_of},
    nodes::Nodes,
};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::{Done, Job, JobResult, Missed, Run, Schedule};
use crate::{
    EngineError,
    deployment::Deployment,
    locks::{Guard, LockError, LockName, Locks},
};

/// Maximum number of missed due times to run at once.
const MOST_MISSED: usize = 1_000;
/// A run that starts later than this counts as missed.
const LATE: u64 = 1_000;
/// The end of a run is recorded even if a database is briefly unreachable.
const WRITE_TRIES: u32 = 5;
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// How long a manual run waits for a run that is about to end.
const MANUAL_WAIT: Duration = Duration::from_secs(1);
/// How long a cancelled run may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What happened to a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It ran here.
    Ran,
    /// It ran already, or the job is paused.
    NothingDue,
    /// Another owner holds the job's lock and may run it, or die first.
    Busy,
}

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
    /// Runs what is due up to `due` unless another node does.
    pub(super) async fn run_due(
        &self,
        conn: &mut Connection,
        job: &Job,
        due: Millis,
        stop: &CancellationToken,
    ) -> Result<Turn, EngineError> {
        let guard = match self.lock(job, Duration::ZERO).await {
            Ok(guard) => guard,
            Err(EngineError::Lock(LockError::Busy(_))) => return Ok(Turn::Busy),
            Err(error) => return Err(error),
        };
        let ran = self.run_all(conn, job, due, &guard, stop).await;
        let kept_lock = guard.is_held();
        // A lost lock has cancelled the run, which is recorded already. If nothing ran because the job is paused, the
        // lock is released at once.
        let ran_none = matches!(ran, Ok(0));
        let keep = if ran_none { Duration::ZERO } else { job.at_least };
        match guard.release_after(keep).await {
            Ok(()) | Err(LockError::Lost(_)) => {}
            Err(error) => {
                tracing::warn!(job = job.name, %error, "a job's lock will be released later");
            }
        }
        Ok(match ran? {
            0 if !kept_lock || stop.is_cancelled() => Turn::Busy,
            0 => Turn::NothingDue,
            _ => Turn::Ran,
        })
    }

    /// Runs the job now on an operator's command, even if it is paused.
    ///
    /// # Errors
    /// It is already running, or a server is unreachable.
    pub async fn run_now(
        &self,
        job: &Job,
        stop: &CancellationToken,
    ) -> Result<RunEnd, EngineError> {
        let guard = match self.lock(job, MANUAL_WAIT).await {
            Err(EngineError::Lock(LockError::Busy(name))) => return Err(self.busy(&name).await),
            other => other?,
        };
        let now = self.deployment.redis.connection().now().await?;
        let ran = self.run_one(job, now, Cause::Operator, now, &guard, stop).await;
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

    async fn lock(&self, job: &Job, wait: Duration) -> Result<Guard, EngineError> {
        let (name, task) = (LockName::new(job_lock(&job.name))?, "run");
        // Renewed while this node lives, so that a dead node blocks others for one lease at most.
        Ok(self.locks.try_for(&name, task, wait).await?)
    }

    async fn run_all(
        &self,
        conn: &mut Connection,
        job: &Job,
        due: Millis,
        guard: &Guard,
        stop: &CancellationToken,
    ) -> Result<u64, EngineError> {
        let now = conn.now().await?;
        let why = Message::of(&reason!("job-node-lost"));
        self.deployment.store.lose_runs(&job.name, guard.token(), &why, now).await?;
        let mut ran = 0;
        for (due, cause) in self.dues(job, due, now).await? {
            if stop.is_cancelled() || !guard.is_held() {
                break;
            }
            let started = conn.now().await?;
            let run = self.run_one(job, due, cause, started, guard, stop).await?;
            ran += u64::from(run.is_some());
        }
        Ok(ran)
    }

    /// Due times to run now, by SQL and the job's policy.
    async fn dues(
        &self,
        job: &Job,
        due: Millis,
        now: Millis,
    ) -> Result<Vec<(Millis, Cause)>, EngineError> {
        let last = self.deployment.store.last_due(&job.name, now).await?;
        let resumed = self.deployment.store.job_switches().await?.into_iter();
        let resumed = resumed.filter(|it| it.name == job.name).map(|it| it.since).max();
        let cause = if now.since(due) > LATE { Cause::Missed } else { Cause::Due };
        if let Schedule::After(_) = job.schedule {
            // Another node may have run it.
            let ended = last.map(|run| job.ended(&run));
            let due = ended.and_then(|ended| job.schedule.next(now, Some(ended))).unwrap_or(due);
            return Ok(if due <= now { vec![(due, cause)] } else { Vec::new() });
        }
        // Due times during a pause are not missed runs and are skipped. Due times claimed by a clock that ran ahead are
        // not visible here, but the unique index prevents a second run.
        let known = last.map(|run| run.due).max(resumed).filter(|known| *known <= now);
        let with_cause =
            |due: Millis| (due, if now.since(due) > LATE { Cause::Missed } else { Cause::Due });
        let latest = job.schedule.last(now).filter(|due| known.is_none_or(|known| *due > known));
        Ok(match (job.missed, known) {
            (Missed::All, Some(known)) => {
                let next = |due: &Millis| job.schedule.next(*due, None);
                let dues = std::iter::successors(next(&known), next);
                dues.take_while(|due| *due <= now).take(MOST_MISSED).map(with_cause).collect()
            }
            (Missed::All | Missed::Once, _) => latest.map(with_cause).into_iter().collect(),
            (Missed::Skip, _) => latest
                .map(with_cause)
                .filter(|(_, cause)| *cause == Cause::Due)
                .into_iter()
                .collect(),
        })
    }

    /// `None` if that due time was claimed already, or the job is paused.
    async fn run_one(
        &self,
        job: &Job,
        due: Millis,
        cause: Cause,
        started: Millis,
        guard: &Guard,
        stop: &CancellationToken,
    ) -> Result<Option<RunEnd>, EngineError> {
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
                reason!("job-too-long", most = format!("{:?}", job.at_most))
            }
            () = stop.cancelled() => reason!("job-node-stops"),
        };
        task.abort();
        match tokio::time::timeout(END_WITHIN, task).await {
            Ok(Ok(result)) => ended_by_itself(Ok(result)),
            Ok(Err(_)) => (JobOutcome::Cancelled, Some(JobResult::Other(why)), 0),
            Err(_) => {
                guard.abandon();
                let why = reason!("job-still-running", cancelled = why);
                (JobOutcome::Cancelled, Some(JobResult::Other(why)), 0)
            }
        }
    }

    async fn write_end(&self, id: i64, end: &RunEnd) -> Result<(), EngineError> {
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
type Ended = (JobOutcome, Option<JobResult>, u64);

fn ended_by_itself(ended: Result<Result<Done, EngineError>, JoinError>) -> Ended {
    let panic = match ended {
        Ok(Ok(Done { rows, detail })) => {
            return (JobOutcome::Done, detail.map(JobResult::Other), rows);
        }
        Ok(Err(error)) => return (JobOutcome::Failed, Some(JobResult::Failed(error)), 0),
        Err(error) => error.try_into_panic(),
    };
    let Ok(panic) = panic else {
        // Its runtime shuts down.
        let why = reason!("job-node-stops");
        return (JobOutcome::Cancelled, Some(JobResult::Other(why)), 0);
    };
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let why = reason!("job-panicked", message = text);
    (JobOutcome::Failed, Some(JobResult::Other(why)), 0)
}
