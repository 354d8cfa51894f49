//! The newest version of each shard of a sale that this node has seen in SQL. It never admits buyers to a shard whose
//! version in Redis is older.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use seckill_model::{SaleId, SaleShard, SaleState, ShardId};
use tokio::sync::Notify;

use super::sharded_sale::ShardedSale;
use crate::ledger::expected::Expected;

/// The state of a sale that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownSale {
    /// The newest version seen in SQL.
    pub(crate) version: u64,
    /// It has been removed from Redis permanently.
    pub(crate) archived: bool,
    /// What Redis should hold of it.
    expected: Expected,
}

/// The newest known versions, and the vouchers whose sales are spread over shards; shared by the tasks of a node.
#[derive(Clone, Debug, Default)]
pub struct SaleVersions {
    known: Arc<Mutex<HashMap<ShardId, KnownSale>>>,
    sharded: Arc<RwLock<HashMap<SaleId, Arc<ShardedSale>>>>,
    wake: Arc<Notify>,
    /// Sales whose stock a process has removed from Redis and not from SQL, for too long.
    cuts: Arc<Mutex<BTreeSet<ShardId>>>,
}

impl SaleVersions {
    /// Records that a reduction of the stock of a shard has to be undone.
    pub(crate) fn note_cut(&self, shard: ShardId) {
        self.cuts.lock().insert(shard);
    }

    /// Takes the shards with such a reduction.
    pub(crate) fn take_cuts(&self) -> BTreeSet<ShardId> {
        mem::take(&mut self.cuts.lock())
    }

    /// Records a shard as read from SQL.
    pub(crate) fn note(&self, shard: &SaleShard) {
        let archived = shard.state == SaleState::Archived;
        let now = KnownSale { version: shard.version, archived, expected: Expected::from(shard) };
        let sale = shard.id.sale;
        match shard.spread {
            Some(spread) if self.sharded(sale).is_none_or(|it| it.spread != spread) => {
                let whole = Arc::new(ShardedSale::new(spread, self.wake()));
                self.sharded.write().insert(sale, whole);
            }
            None if self.sharded(sale).is_some() => {
                self.sharded.write().remove(&sale);
            }
            _ => {}
        }
        let mut known = self.known.lock();
        let entry = known.entry(shard.id).or_insert_with(|| now.clone());
        if entry.version <= now.version || entry.expected.created != now.expected.created {
            *entry = now;
        }
    }

    /// Forgets a sale that SQL has lost, or has in an older version: its buyers are not admitted before it was read again.
    pub(crate) fn forget(&self, sale: SaleId) {
        self.known.lock().retain(|shard, _| shard.sale != sale);
        self.sharded.write().remove(&sale);
    }

    /// The sale, if it is spread over shards.
    pub(crate) fn sharded(&self, sale: SaleId) -> Option<Arc<ShardedSale>> {
        self.sharded.read().get(&sale).cloned()
    }

    /// Wakes the task that looks at the shards.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// The sales that are spread over shards.
    pub(crate) fn all_sharded(&self) -> Vec<Arc<ShardedSale>> {
        self.sharded.read().values().cloned().collect()
    }

    /// The known state of a shard; `None` if it was never seen.
    pub(crate) fn get(&self, shard: ShardId) -> Option<KnownSale> {
        self.known.lock().get(&shard).cloned()
    }

    /// The known version of each shard, archived or not.
    pub(crate) fn all(&self) -> Vec<(ShardId, u64)> {
        self.known.lock().iter().map(|(shard, known)| (*shard, known.version)).collect()
    }

    /// Shards that Redis has to hold.
    pub(crate) fn current(&self) -> Vec<Expected> {
        let known = self.known.lock();
        let current = known.values().filter(|it| !it.archived);
        let mut all: Vec<_> = current.map(|it| it.expected.clone()).collect();
        drop(known);
        all.sort_unstable_by_key(|it| it.shard);
        all
    }
}
