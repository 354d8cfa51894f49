//! Runs one job on this node: acquires its lock, claims its due times, records the result.

use std::time::{Duration, Instant};

use seckill_model::{
    Cause, Fence, JobOutcome, Message, Millis, NewRun, RunEnd, clock::seconds, reason::reason,
};
use seckill_redis::{
    Connection, RedisError,
    lock_holders::{foreign_locks, holder_of},
    nodes::Nodes,
};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::{Done, Job, Run, Schedule};
use crate::{
    EngineError, Result,
    deployment::Deployment,
    event::Event,
    locks::{Guard, LockError, LockName, Locks},
};

/// How often the clock is read again: it may step, and a fixed delay depends on other nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A run that starts later than this counts as missed.
const LATE: u64 = 1_000;
/// The end of a run is recorded even if a database is briefly unreachable.
const WRITE_TRIES: u32 = 5;
const WRITE_PAUSE: Duration = Duration::from_millis(200);
/// How long a manual run waits for a run that is about to end.
const MANUAL_WAIT: Duration = Duration::from_secs(1);
/// How long a cancelled run may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What a job does next.
pub(super) enum Next {
    /// Nothing is due; it is looked at again after this time.
    Wait(Duration),
    /// It runs for this due time.
    Run(Millis, Cause),
}

/// Due times that a node knows to need no run, besides those recorded in SQL.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The first look: a job that never ran before has missed nothing.
    started: Option<Millis>,
    /// A due time that is claimed in SQL, by a clock that ran ahead.
    claimed: Option<Millis>,
}

/// Result of an attempt to run what is due.
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
    /// Determines by SQL and the clock of Redis what is due. One run covers all due times that passed while no node
    /// could run the job; those during a pause or a run that ended are skipped.
    pub(super) async fn next(
        &self,
        conn: &mut Connection,
        job: &Job,
        seen: &mut Seen,
    ) -> Result<Next> {
        let store = &self.deployment.store;
        let switch = store.job_switches().await?.into_iter().find(|it| it.name == job.name);
        if switch.as_ref().is_some_and(|it| it.paused) {
            return Ok(Next::Wait(LOOK_AGAIN));
        }
        let now = conn.now().await?;
        // A clock that stepped back counts from there.
        let started = seen.started.map_or(now, |started| started.min(now));
        seen.started = Some(started);
        let last = store.last_due(&job.name, now).await?;
        let resumed = switch.map(|it| it.since);
        let ended = last.as_ref().map(|run| job.ended(run));
        let due = if let Schedule::After(_) = job.schedule {
            let resumed = resumed.filter(|resumed| *resumed <= now);
            job.schedule.next(started.max(resumed.unwrap_or(started)), ended)
        } else {
            // When a run on a node that died ended is unknown.
            let dead = [JobOutcome::Running, JobOutcome::Lost];
            let ended =
                ended.filter(|_| last.as_ref().is_some_and(|run| !dead.contains(&run.outcome)));
            let known = last.map_or(started, |run| run.due);
            let known = [Some(known), ended, seen.claimed, resumed];
            // A time in the future was recorded before the clock stepped back.
            let known = known.into_iter().flatten().filter(|known| *known <= now).max();
            let missed = job.schedule.last(now).filter(|due| known.is_none_or(|it| *due > it));
            missed.or_else(|| job.schedule.next(now, None))
        };
        Ok(match due {
            Some(due) if due > now => {
                Next::Wait(Duration::from_millis(due.since(now)).min(LOOK_AGAIN))
            }
            Some(due) if now.since(due) > LATE => Next::Run(due, Cause::Missed),
            Some(due) => Next::Run(due, Cause::Due),
            None => Next::Wait(LOOK_AGAIN),
        })
    }

    /// Runs what is due unless another node does.
    pub(super) async fn run_due(
        &self,
        conn: &mut Connection,
        job: &Job,
        seen: &mut Seen,
        stop: &CancellationToken,
    ) -> Result<Turn> {
        let guard = match self.lock(job, Duration::ZERO).await {
            Ok(guard) => guard,
            Err(EngineError::Lock(LockError::Busy(_))) => return Ok(Turn::Busy),
            Err(error) => return Err(error),
        };
        let turn = self.run_locked(conn, job, seen, &guard, stop).await;
        // A lost lock has cancelled the run, which is recorded already.
        match guard.release().await {
            Ok(()) | Err(LockError::Lost(_)) => {}
            Err(error) => {
                tracing::warn!(job = job.name, %error, "a job's lock will be released later");
            }
        }
        turn
    }

    /// The same under the lock: another node may have run it since it was found to be due.
    async fn run_locked(
        &self,
        conn: &mut Connection,
        job: &Job,
        seen: &mut Seen,
        guard: &Guard,
        stop: &CancellationToken,
    ) -> Result<Turn> {
        let now = conn.now().await?;
        let why = Message::of(&reason!("job-node-lost"));
        self.deployment.store.lose_runs(&job.name, guard.token(), &why, now).await?;
        let Next::Run(due, cause) = self.next(conn, job, seen).await? else {
            return Ok(Turn::NothingDue);
        };
        if stop.is_cancelled() || !guard.is_held() {
            return Ok(Turn::Busy);
        }
        let started = conn.now().await?;
        if self.run_one(job, due, cause, started, guard, stop).await?.is_some() {
            return Ok(Turn::Ran);
        }
        // A newer holder of a lost lock rejects this run, but may not have claimed the due time.
        if stop.is_cancelled() || !guard.is_held() {
            return Ok(Turn::Busy);
        }
        seen.claimed = Some(due);
        Ok(Turn::NothingDue)
    }

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

    async fn lock(&self, job: &Job, wait: Duration) -> Result<Guard> {
        let (name, task) = (LockName::new(job_lock(&job.name))?, "run");
        // Renewed while this node lives, so that a dead node blocks others for one lease at most.
        Ok(self.locks.try_for(&name, task, wait).await?)
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
