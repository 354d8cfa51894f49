//! The jobs as a screen shows them: next run, recent runs, paused or not.

use seckill_model::{Cause, Millis};
use seckill_store::{SharedStore, StoreError};

use super::Job;
use crate::telemetry::snapshot::JobLine;

/// Returns these jobs with the newest `runs` runs of each.
pub async fn board(
    store: &SharedStore,
    jobs: &[Job],
    now: Millis,
    runs: u32,
) -> Result<Vec<JobLine>, StoreError> {
    let switches = store.job_switches().await?;
    let mut lines = Vec::with_capacity(jobs.len());
    for job in jobs {
        let runs = store.runs(Some(&job.name), runs).await?;
        let paused = switches.iter().any(|switch| switch.name == job.name && switch.paused);
        // A manual run does not change the schedule.
        let last = runs.iter().find(|run| run.cause != Cause::Operator);
        let ended = last.map(|run| job.ended(run));
        lines.push(JobLine {
            name: job.name.clone(),
            about: job.about,
            schedule: job.schedule.to_string(),
            paused,
            next: job.schedule.next(now, ended).filter(|_| !paused),
            runs,
        });
    }
    Ok(lines)
}
