//! Determines when a job is due and waits for it. Every node waits for every job; its lock and its row in SQL ensure
//! that only one runs it.

use std::{sync::Arc, time::Duration};

use seckill_model::{Cause, JobOutcome, Message, Millis, reason};
use seckill_redis::Connection;
use seckill_store::{AuditEntry, ENGINE};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Job, Runner, Schedule};
use crate::{
    EngineError, Result,
    deployment::{Deployment, time_zone},
    locks::{Guard, LockError},
    telemetry::{event::Event, log::events},
};

const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// How often the clock is read again: it may step, and a fixed delay depends on other nodes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A run that starts later than this counts as missed.
const LATE: u64 = 1_000;

/// Runs these jobs until `stop`, at most `pool` at once on this node; active runs are cancelled then and recorded as
/// such.
pub async fn schedule(jobs: Vec<Job>, runner: Runner, pool: usize, stop: CancellationToken) {
    if stop.run_until_cancelled(agree_on_zone(&runner)).await.is_none() {
        return;
    }
    let pool = Arc::new(Semaphore::new(pool));
    let mut tasks = JoinSet::new();
    for job in jobs {
        let conn = runner.deployment.redis.connection();
        let (runner, pool, stop) = (runner.clone(), Arc::clone(&pool), stop.clone());
        let follow = Follow { job, runner, conn, pool, started: None, claimed: None, stop };
        tasks.spawn(follow.run());
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a job is no longer scheduled on this node");
        }
    }
}

/// Has all nodes use one time zone. Jobs wait for the database as well.
async fn agree_on_zone(runner: &Runner) {
    let Deployment { store, settings, .. } = &runner.deployment;
    let mut pause = BACKOFF[0];
    loop {
        match time_zone::agree(store, settings.jobs.time_zone.as_ref()).await {
            Ok(None) => return,
            Ok(Some((from, to))) => {
                let entry = AuditEntry {
                    at: Millis::now(),
                    operator: ENGINE.to_owned(),
                    node: runner.node.clone(),
                    action: events::ZONE_CHANGED.to_owned(),
                    subject: "jobs".into(),
                    result: Message::of(&Event::Other(reason!("event-time-zone", from, to))),
                    ..AuditEntry::default()
                };
                if let Err(error) = store.record(&entry).await {
                    tracing::error!(%error, ?entry, "the audit log does not contain this line");
                }
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "jobs wait for their time zone, which is in the database");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACKOFF[1]);
    }
}

/// Task of one job.
struct Follow {
    job: Job,
    runner: Runner,
    conn: Connection,
    pool: Arc<Semaphore>,
    /// The first look: a job that never ran before has missed nothing.
    started: Option<Millis>,
    /// A due time that is claimed in SQL, by a clock that ran ahead.
    claimed: Option<Millis>,
    stop: CancellationToken,
}

/// What a job does next.
enum Next {
    /// Nothing is due; it is looked at again after this time.
    Wait(Duration),
    /// It runs for this due time.
    Run(Millis, Cause),
}

impl Follow {
    async fn run(mut self) {
        let (mut pause, stop) = (BACKOFF[0], self.stop.clone());
        while !stop.is_cancelled() {
            let Some(next) = stop.run_until_cancelled(self.next()).await else { return };
            let ran = match next {
                Ok(Next::Wait(wait)) => {
                    pause = BACKOFF[0];
                    self.sleep(wait).await;
                    continue;
                }
                // The runner handles the stop itself and records what it cancels.
                Ok(Next::Run(..)) => self.run_due().await,
                Err(error) => Err(error),
            };
            match ran {
                Ok(true) => {
                    pause = BACKOFF[0];
                    continue;
                }
                // The holder of the lock may die before running it; the wait prevents a busy loop.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(job = self.job.name, %error, "the job did not start; retrying");
                }
            }
            self.sleep(pause).await;
            pause = (pause * 2).min(BACKOFF[1]);
        }
    }

    /// Determines by SQL and the clock of Redis what is due. One run covers all due times that passed while no node
    /// could run the job; those during a pause or a run that ended are skipped.
    async fn next(&mut self) -> Result<Next> {
        let (job, store) = (&self.job, &self.runner.deployment.store);
        let switch = store.job_switches().await?.into_iter().find(|it| it.name == job.name);
        if switch.as_ref().is_some_and(|it| it.paused) {
            let newest = store.runs(Some(&job.name), 1).await?;
            return Ok(match newest.first() {
                // Its node may be dead: the lock shows that, under which this run does not begin.
                Some(run) if run.outcome == JobOutcome::Running => {
                    Next::Run(run.due, Cause::Missed)
                }
                _ => Next::Wait(LOOK_AGAIN),
            });
        }
        let zone = time_zone::of(store).await?;
        let now = self.conn.now().await?;
        // A clock that stepped back counts from there.
        let started = self.started.map_or(now, |started| started.min(now));
        self.started = Some(started);
        let last = store.last_due(&job.name, now).await?;
        let resumed = switch.map(|it| it.since);
        let ended = last.as_ref().map(|run| job.ended(run));
        let due = if let Schedule::After(_) = job.schedule {
            let resumed = resumed.filter(|resumed| *resumed <= now);
            job.schedule.next(started.max(resumed.unwrap_or(started)), ended, &zone)
        } else {
            // When a run on a node that died ended is unknown.
            let dead = [JobOutcome::Running, JobOutcome::Lost];
            let ended =
                ended.filter(|_| last.as_ref().is_some_and(|run| !dead.contains(&run.outcome)));
            let known = last.map_or(started, |run| run.due);
            let known = [Some(known), ended, self.claimed, resumed];
            // A time in the future was recorded before the clock stepped back.
            let known = known.into_iter().flatten().filter(|known| *known <= now).max();
            let missed =
                job.schedule.last(now, &zone).filter(|due| known.is_none_or(|it| *due > it));
            missed.or_else(|| job.schedule.next(now, None, &zone))
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

    /// Runs what is due; `false` if another node does or did, or the job is paused.
    async fn run_due(&mut self) -> Result<bool> {
        self.sleep(self.job.jitter.mul_f64(rand::random_range(0.0..1.0))).await;
        let pool = Arc::clone(&self.pool);
        // The pool is never closed.
        let Some(Ok(_place)) = self.stop.run_until_cancelled(pool.acquire()).await else {
            return Ok(false);
        };
        let guard = match self.runner.lock(&self.job, Duration::ZERO).await {
            // Its owner may run the job, or die first.
            Err(EngineError::Lock(LockError::Busy(_))) => return Ok(false),
            other => other?,
        };
        let ran = self.run_locked(&guard).await;
        // A lost lock has cancelled the run, which is recorded already.
        match guard.release().await {
            Ok(_) | Err(LockError::Lost(_)) => {}
            Err(error) => {
                tracing::warn!(job = self.job.name, %error, "a job's lock will be released later");
            }
        }
        ran
    }

    /// The same under the lock: another node may have run it since it was found to be due.
    async fn run_locked(&mut self, guard: &Guard) -> Result<bool> {
        let now = self.conn.now().await?;
        self.runner.lose_runs(&self.job, guard, now).await?;
        let Next::Run(due, cause) = self.next().await? else { return Ok(false) };
        if self.stop.is_cancelled() || !guard.is_held() {
            return Ok(false);
        }
        let started = self.conn.now().await?;
        let (job, stop) = (&self.job, &self.stop);
        if self.runner.run_one(job, due, cause, started, guard, stop).await?.is_some() {
            return Ok(true);
        }
        // A newer holder of a lost lock rejects this run, but may not have claimed the due time.
        if !self.stop.is_cancelled() && guard.is_held() {
            self.claimed = Some(due);
        }
        Ok(false)
    }

    async fn sleep(&self, time: Duration) {
        self.stop.run_until_cancelled(tokio::time::sleep(time)).await;
    }
}
