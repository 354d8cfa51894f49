//! Waking waiters: one subscription per node, one bell per lock.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Notify, futures::Notified};

use super::LockName;

type Rung = HashMap<LockName, Arc<Notify>>;

/// The bells of a node. A release wakes one waiter per node, since only one can acquire the lock.
#[derive(Debug, Default)]
pub(super) struct Bells {
    bells: Arc<Mutex<Rung>>,
    listening: AtomicBool,
}

fn open(bells: &Mutex<Rung>) -> MutexGuard<'_, Rung> {
    bells.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bells {
    /// Returns the bell of a lock, kept while a waiter uses it.
    pub(super) fn of(&self, name: &LockName) -> Bell {
        let notify = Arc::clone(open(&self.bells).entry(name.clone()).or_default());
        Bell { name: name.clone(), notify, bells: Arc::clone(&self.bells) }
    }

    pub(super) fn ring(&self, name: &LockName) {
        if let Some(bell) = open(&self.bells).get(name) {
            bell.notify_one();
        }
    }

    /// Sets whether the subscription is up. Messages are lost while it is down, so all waiters poll again.
    pub(super) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        open(&self.bells).values().for_each(|bell| bell.notify_waiters());
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }
}

/// A waiter's reference to a bell; the last one removes it.
#[derive(Debug)]
pub(super) struct Bell {
    name: LockName,
    notify: Arc<Notify>,
    bells: Arc<Mutex<Rung>>,
}

impl Bell {
    /// Completes with the next ring. Must be enabled before the lock is requested.
    pub(super) fn rung(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = open(&self.bells);
        // References of the map and of this waiter.
        if Arc::strong_count(&self.notify) == 2 {
            bells.remove(&self.name);
        }
    }
}
