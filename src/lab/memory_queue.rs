//! A bounded queue in the memory of one process: the `ArrayBlockingQueue` of the tutorials.

use seckill_model::Label;
use tokio::sync::{Mutex, mpsc};

use crate::{LabError, Result};

/// `new ArrayBlockingQueue<>(1024 * 1024)`.
pub(crate) const BOUND: usize = 1024 * 1024;

/// A queue whose entries are lost with the process.
#[derive(Debug)]
pub(crate) struct MemoryQueue<T> {
    sender: mpsc::Sender<T>,
    receiver: Mutex<mpsc::Receiver<T>>,
}

impl<T> MemoryQueue<T> {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(BOUND);
        Self { sender, receiver: Mutex::new(receiver) }
    }

    /// Puts an entry at its end.
    ///
    /// # Errors
    /// The queue is full: `IllegalStateException` in Java.
    pub(crate) fn add(&self, entry: T) -> Result<()> {
        self.sender.try_send(entry).map_err(|_| LabError::Invalid(Label("lab-queue-full").into()))
    }

    /// Takes the first entry, and waits for it. `None` never happens, because the queue has its own sender.
    pub(crate) async fn take(&self) -> Option<T> {
        self.receiver.lock().await.recv().await
    }
}
