//! Waking those who wait: one subscription a node, one bell a lock.

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

/// The bells of a node. A release rings one waiter of each node; the others wait on, for only one
/// can have it.
#[derive(Debug, Default)]
pub(super) struct Bells {
    bells: Arc<Mutex<Rung>>,
    listening: AtomicBool,
}

fn open(bells: &Mutex<Rung>) -> MutexGuard<'_, Rung> {
    bells.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bells {
    /// The bell of a lock, for as long as it is waited for.
    pub(super) fn of(&self, name: &LockName) -> Bell {
        let notify = Arc::clone(open(&self.bells).entry(name.clone()).or_default());
        Bell { name: name.clone(), notify, bells: Arc::clone(&self.bells) }
    }

    pub(super) fn ring(&self, name: &LockName) {
        if let Some(bell) = open(&self.bells).get(name) {
            bell.notify_one();
        }
    }

    /// The subscription stands, or is down. What was said while it was down is lost, so everybody
    /// asks again.
    pub(super) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        open(&self.bells).values().for_each(|bell| bell.notify_waiters());
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }
}

/// One waiter's hold on a bell; the last one takes it down.
#[derive(Debug)]
pub(super) struct Bell {
    name: LockName,
    notify: Arc<Notify>,
    bells: Arc<Mutex<Rung>>,
}

impl Bell {
    /// Comes with the next ring. Must be enabled before the lock is asked for.
    pub(super) fn rung(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = open(&self.bells);
        // The map's and this one.
        if Arc::strong_count(&self.notify) == 2 {
            bells.remove(&self.name);
        }
    }
}
