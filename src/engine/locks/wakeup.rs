//! Waking waiters: one subscription per node, one bell per lock.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::LockName;

type BellsByName = HashMap<LockName, Weak<Notify>>;

/// The bells of a node, each kept while a waiter uses it. A release wakes one waiter per node, since only one can
/// acquire the lock.
#[derive(Debug, Default)]
pub(super) struct Bells {
    bells: Mutex<BellsByName>,
    listening: AtomicBool,
}

impl Bells {
    /// Returns the bell of a lock. A waiter must enable its notification before the lock is requested.
    pub(super) fn of(&self, name: &LockName) -> Arc<Notify> {
        let mut bells = self.bells.lock();
        if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
            return bell;
        }
        bells.retain(|_, bell| bell.strong_count() > 0);
        let bell = Arc::default();
        bells.insert(name.clone(), Arc::downgrade(&bell));
        bell
    }

    pub(super) fn ring(&self, name: &LockName) {
        if let Some(bell) = self.bells.lock().get(name).and_then(Weak::upgrade) {
            bell.notify_one();
        }
    }

    /// Sets whether the subscription is up. Messages are lost while it is down, so all waiters poll again.
    pub(super) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
        let bells = self.bells.lock();
        bells.values().filter_map(Weak::upgrade).for_each(|bell| bell.notify_waiters());
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }
}
