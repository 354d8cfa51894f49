//! Passes over the attached service: a task of its own, which ends with the view.

use std::time::Duration;

use seckill_attach::Report;
use seckill_model::Millis;
use tokio::{
    sync::mpsc::{self, Receiver},
    task::{AbortHandle, JoinHandle},
    time::sleep,
};

use crate::Attached;

/// The second pass follows the first one sooner: only with two are there rates, and alarms that last.
const SETTLE: Duration = Duration::from_secs(1);

/// One pass.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) ended: Millis,
    /// Milliseconds until the next one begins.
    pub(crate) pause_ms: u64,
    /// What it read, or why it failed.
    pub(crate) outcome: Result<Box<Report>, String>,
}

/// Passes in progress. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Feed {
    passes: Receiver<Pass>,
    task: AbortHandle,
}

impl Feed {
    /// Starts a task that reads the service at this interval.
    pub(super) fn start(attached: Attached) -> Self {
        let Attached { mut watcher, every, .. } = attached;
        let (sender, passes) = mpsc::channel(1);
        let task: JoinHandle<()> = tokio::spawn(async move {
            let mut is_first = true;
            loop {
                let outcome = watcher.pass().await.map(Box::new);
                let outcome = outcome.map_err(|error| error.to_string());
                let settles = is_first && outcome.is_ok();
                let pause = if settles { SETTLE.min(every) } else { watcher.pause(every) };
                is_first &= !settles;
                let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                let pass = Pass { ended: Millis::now(), pause_ms, outcome };
                if sender.send(pass).await.is_err() {
                    return;
                }
                sleep(pause).await;
            }
        });
        Self { passes, task: task.abort_handle() }
    }

    /// The next pass.
    pub(super) async fn next(&mut self) -> Option<Pass> {
        self.passes.recv().await
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
