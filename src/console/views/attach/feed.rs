//! Passes over the attached service: a task of its own, which ends with the view.

use std::time::{Duration, Instant};

use seckill_attach::{Report, Watcher};
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
    pub(crate) took_ms: u64,
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
            let mut pause = SETTLE.min(every);
            loop {
                let pass = pass(&mut watcher).await;
                let has_read = pass.outcome.is_ok();
                if sender.send(pass).await.is_err() {
                    return;
                }
                sleep(pause).await;
                if has_read {
                    pause = every;
                }
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

async fn pass(watcher: &mut Watcher) -> Pass {
    let begun = Instant::now();
    let outcome = watcher.pass().await.map(Box::new).map_err(|error| error.to_string());
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Pass { ended: Millis::now(), took_ms, outcome }
}
