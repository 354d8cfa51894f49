//! A run of the lab: a task of its own, which ends with its view or with the console.

use std::time::Duration;

use seckill_lab::{DesignReport, Lab, LabError, Progress, Report};
use tokio::{
    sync::mpsc::{self, Receiver},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Timeout for the servers of a cancelled run to stop.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Events that wait for the view. If it is behind, it misses some of them, and gets all results at the end.
const WAITING: usize = 256;

/// What happens in a run.
#[derive(Debug)]
pub(crate) enum LabEvent {
    /// A design begins with a seed.
    Begins(Progress),
    /// A design ended with a seed; the result covers all its seeds so far.
    Ended(Box<DesignReport>),
    /// All designs ended, or the run failed or was cancelled. Its servers are stopped.
    Over(Result<Report, LabError>),
}

/// A run in progress. It is cancelled when this is dropped.
#[derive(Debug)]
pub(super) struct LabRun {
    /// The design that runs; `None` while the servers start.
    pub(super) progress: Option<Progress>,
    /// It was cancelled, and its servers are being stopped.
    pub(super) is_cancelled: bool,
    events: Receiver<LabEvent>,
    task: Option<JoinHandle<()>>,
    stop: CancellationToken,
    _guard: DropGuard,
}

impl LabRun {
    /// Starts a task that runs the designs.
    pub(super) fn start(lab: Lab) -> Self {
        let (sender, events) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(async move {
            let progress = |it| _ = sender.try_send(LabEvent::Begins(it));
            let ended = |it: &DesignReport| {
                _ = sender.try_send(LabEvent::Ended(Box::new(it.clone())));
            };
            let outcome = lab.watch(progress, ended, &stopping).await;
            _ = sender.send(LabEvent::Over(outcome)).await;
        });
        Self::new(events, Some(task), stop)
    }

    fn new(
        events: Receiver<LabEvent>,
        task: Option<JoinHandle<()>>,
        stop: CancellationToken,
    ) -> Self {
        let guard = stop.clone().drop_guard();
        Self { progress: None, is_cancelled: false, events, task, stop, _guard: guard }
    }

    /// A run without a task.
    #[cfg(test)]
    pub(super) fn fake(progress: Progress) -> Self {
        let run = Self::new(mpsc::channel(1).1, None, CancellationToken::new());
        Self { progress: Some(progress), ..run }
    }

    /// Cancels the run; `false` if it was already.
    pub(super) fn cancel(&mut self) -> bool {
        self.stop.cancel();
        !std::mem::replace(&mut self.is_cancelled, true)
    }

    /// The next event; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<LabEvent> {
        self.events.recv().await
    }

    /// Cancels the run and waits until its servers are stopped.
    pub(super) async fn end(mut self) {
        self.cancel();
        // The task does not wait for a view that is gone.
        self.events.close();
        if let Some(task) = self.task.take() {
            // Servers that outlive the wait end with this process.
            _ = timeout(END_TIMEOUT, task).await;
        }
    }
}
