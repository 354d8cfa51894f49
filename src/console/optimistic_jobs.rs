//! Jobs that were switched while no picture says so yet: what the engine answered holds until one does.
//!
//! Jobs are read once a second, so that pictures that come after the answer may be older than it.

use std::sync::Arc;

use seckill_engine::telemetry::Snapshot;
use seckill_model::Millis;

use super::app::App;

/// So long the answer is believed more than the pictures, in milliseconds; somebody else may switch the job as well.
const BELIEVED_MS: i64 = 3_000;

/// A job, whether it is paused now, and until when that is believed.
#[derive(Debug, Default)]
pub(crate) struct Switched(Vec<(String, bool, Millis)>);

impl Switched {
    /// The picture with what is known better.
    fn over(&mut self, mut picture: Arc<Snapshot>, now: Millis) -> Arc<Snapshot> {
        let differs = |job: &str, paused: bool, picture: &Snapshot| {
            picture.jobs.iter().any(|it| it.name == job && it.paused != paused)
        };
        self.0.retain(|(job, paused, until)| now < *until && differs(job, *paused, &picture));
        if !self.0.is_empty() {
            for job in &mut Arc::make_mut(&mut picture).jobs {
                if let Some((_, paused, _)) = self.0.iter().find(|(name, ..)| *name == job.name) {
                    job.paused = *paused;
                }
            }
        }
        picture
    }
}

impl App {
    /// The engine answered that it is so.
    pub(super) fn job_switched(&mut self, job: String, paused: bool) {
        self.switched.0.retain(|(name, ..)| *name != job);
        self.switched.0.push((job, paused, self.now.plus(BELIEVED_MS)));
        self.newest = self.known_better(Arc::clone(&self.newest));
        if !self.frozen {
            self.shown = Arc::clone(&self.newest);
        }
    }

    pub(super) fn known_better(&mut self, picture: Arc<Snapshot>) -> Arc<Snapshot> {
        self.switched.over(picture, self.now)
    }
}
