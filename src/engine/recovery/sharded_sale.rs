//! A sale that is spread over shards, as the tasks of a node share it: requests ask whether it is sold out, and one task looks
//! at its shards.

use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use seckill_model::{ShardId, Spread};
use tokio::sync::{Notify, watch};

use crate::telemetry::data_loss::Closed;

/// How long a refusal is given after Redis was asked.
pub(crate) const TTL: Duration = Duration::from_millis(100);

/// Whether the sale is sold out, and which shards wait for pieces.
#[derive(Debug)]
pub(crate) struct ShardedSale {
    pub(crate) spread: Spread,
    created: Instant,
    /// Microseconds since `created` until which the sale counts as sold out.
    sold_out_until: AtomicU64,
    /// Whether a request came since the last look.
    is_asked: AtomicBool,
    /// Why a shard stays closed, while all others are sold out, as of the last look.
    closed: Mutex<Option<Closed>>,
    /// Shards without pieces for which requests wait.
    dry: Mutex<BTreeSet<ShardId>>,
    /// Number of looks at the shards.
    looks: watch::Sender<u64>,
    /// Wakes the task of the node.
    wake: Arc<Notify>,
}

impl ShardedSale {
    /// One of which nothing is known; `wake` wakes the task of the node.
    pub(crate) fn new(spread: Spread, wake: Arc<Notify>) -> Self {
        Self {
            spread,
            created: Instant::now(),
            sold_out_until: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            closed: Mutex::default(),
            dry: Mutex::default(),
            looks: watch::channel(0).0,
            wake,
        }
    }

    /// Whether all shards are sold out.
    pub(crate) fn is_sold_out(&self, now: Instant) -> bool {
        self.is_asked.store(true, Ordering::Relaxed);
        self.micros(now) < self.sold_out_until.load(Ordering::SeqCst)
    }

    /// Why no more pieces can come, if a shard stays closed and all others are sold out.
    pub(crate) fn closed(&self) -> Option<Closed> {
        *self.closed.lock()
    }

    /// Waits until the shards have been looked at, and pieces moved to this one if there are any.
    pub(crate) async fn rebalanced(&self, dry: ShardId) {
        let mut looks = self.looks.subscribe();
        self.dry.lock().insert(dry);
        self.wake.notify_one();
        // The sender lives as long as the sale.
        let _ = looks.changed().await;
    }

    /// No request is refused until Redis was asked again.
    pub(crate) fn invalidate(&self) {
        self.sold_out_until.store(0, Ordering::SeqCst);
    }

    /// Whether the shards have to be looked at.
    pub(crate) fn is_due(&self) -> bool {
        let is_used = self.sold_out_until.load(Ordering::SeqCst) > 0
            && self.is_asked.swap(false, Ordering::Relaxed);
        is_used || !self.dry.lock().is_empty()
    }

    /// Takes the shards without pieces for which requests wait.
    pub(crate) fn take_dry(&self) -> BTreeSet<ShardId> {
        mem::take(&mut self.dry.lock())
    }

    /// Records why a shard stays closed, while all others are sold out.
    pub(crate) fn note_closed(&self, closed: Option<Closed>) {
        *self.closed.lock() = closed;
    }

    /// Marks the sale as sold out for a while; `asked` is when Redis was asked.
    pub(crate) fn note_sold_out(&self, asked: Instant) {
        self.sold_out_until.store(self.micros(asked + TTL), Ordering::SeqCst);
    }

    /// Records a look: requests that waited for it go on.
    pub(crate) fn note_look(&self) {
        self.looks.send_modify(|looks| *looks += 1);
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.created).as_micros() as u64
    }
}
