//! The jobs as a screen shows them: next run, last runs, paused or not.

use seckill_model::{Cause, Millis};
use seckill_store::{SharedStore, StoreError};

use super::Job;
use crate::telemetry::snapshot::JobLine;

/// Looks at these jobs, with the newest `runs` runs of each.
///
/// # Errors
/// The database is away.
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
        // A run that an operator asked for moves nothing.
        let last = runs.iter().find(|run| run.cause != Cause::Operator);
        let ended = last.map(|run| job.ended(run));
        lines.push(JobLine {
            name: job.name.clone(),
            about: job.about.clone(),
            schedule: job.schedule.to_string(),
            paused,
            next: job.schedule.next(now, ended).filter(|_| !paused),
            runs,
        });
    }
    Ok(lines)
}
