//! Jobs that were paused or resumed while no snapshot shows it yet: the engine's reply applies until then.
//!
//! Jobs are read once a second, so the next snapshots may be older than the reply.

use std::sync::Arc;

use seckill_engine::telemetry::Snapshot;
use seckill_model::Millis;

use super::app::App;

/// How long the reply overrides the snapshots, in milliseconds; another operator may change the job as well.
const BELIEVED_MS: i64 = 3_000;

/// A job, whether it is paused, and until when that overrides the snapshots.
#[derive(Debug, Default)]
pub(crate) struct OptimisticJobs(Vec<(String, bool, Millis)>);

impl OptimisticJobs {
    /// Returns the snapshot with the overrides applied.
    fn over(&mut self, mut snapshot: Arc<Snapshot>, now: Millis) -> Arc<Snapshot> {
        let differs = |job: &str, paused: bool, snapshot: &Snapshot| {
            snapshot.jobs.iter().any(|it| it.name == job && it.paused != paused)
        };
        self.0.retain(|(job, paused, until)| now < *until && differs(job, *paused, &snapshot));
        if !self.0.is_empty() {
            for job in &mut Arc::make_mut(&mut snapshot).jobs {
                if let Some((_, paused, _)) = self.0.iter().find(|(name, ..)| *name == job.name) {
                    job.paused = *paused;
                }
            }
        }
        snapshot
    }
}

impl App {
    /// Records a reply of the engine.
    pub(super) fn job_switched(&mut self, job: String, paused: bool) {
        self.switched.0.retain(|(name, ..)| *name != job);
        self.switched.0.push((job, paused, self.now.plus(BELIEVED_MS)));
        self.newest = self.known_better(Arc::clone(&self.newest));
        if !self.frozen {
            self.shown = Arc::clone(&self.newest);
        }
    }

    pub(super) fn known_better(&mut self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.switched.over(snapshot, self.now)
    }
}
