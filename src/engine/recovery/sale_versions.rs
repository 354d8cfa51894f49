//! The newest version of each sale that this node has seen in SQL. It never admits buyers to a sale whose version in
//! Redis is older.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use seckill_model::{Sale, SaleState, VoucherId, sale::Shard};
use tokio::sync::Notify;

use crate::{admission::ShardedSale, ledger::sale_copy::Expected};

/// The state of a sale that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownSale {
    /// The newest version seen in SQL.
    pub(crate) version: u64,
    /// It has been removed from Redis permanently.
    pub(crate) archived: bool,
    /// Of which voucher it is a shard, if of one.
    pub(crate) shard: Option<Shard>,
    /// What Redis should hold of it.
    expected: Expected,
}

/// The newest known versions, and the vouchers whose sales are spread over shards; shared by the tasks of a node.
#[derive(Clone, Debug, Default)]
pub struct SaleVersions {
    known: Arc<Mutex<HashMap<VoucherId, KnownSale>>>,
    sharded: Arc<RwLock<HashMap<VoucherId, Arc<ShardedSale>>>>,
    wake: Arc<Notify>,
    /// Sales whose stock a process has removed from Redis and not from SQL, for too long.
    cuts: Arc<Mutex<BTreeSet<VoucherId>>>,
}

impl SaleVersions {
    /// Records that a reduction of the stock of a sale has to be undone.
    pub(crate) fn note_cut(&self, voucher: VoucherId) {
        self.cuts.lock().insert(voucher);
    }

    /// Takes the sales with such a reduction.
    pub(crate) fn take_cuts(&self) -> BTreeSet<VoucherId> {
        mem::take(&mut self.cuts.lock())
    }

    /// Records a sale as read from SQL.
    pub(crate) fn note(&self, sale: &Sale) {
        let archived = sale.state == SaleState::Archived;
        let (version, shard, expected) = (sale.version, sale.shard, Expected::from(sale));
        let now = KnownSale { version, archived, shard, expected };
        match sale.shard {
            Some(shard) if self.sharded(shard.of).is_none_or(|it| it.shard != shard) => {
                let whole = Arc::new(ShardedSale::new(shard, self.wake()));
                let ids = shard.all().chain([shard.of]);
                self.sharded.write().extend(ids.map(|id| (id, Arc::clone(&whole))));
            }
            None if self.sharded(sale.voucher_id).is_some() => {
                self.sharded.write().remove(&sale.voucher_id);
            }
            _ => {}
        }
        let mut known = self.known.lock();
        let entry = known.entry(sale.voucher_id).or_insert(now);
        if entry.version <= now.version || entry.expected.created != now.expected.created {
            *entry = now;
        }
    }

    /// The sale of this voucher, or of which this is a shard, if it is spread over shards.
    pub(crate) fn sharded(&self, voucher: VoucherId) -> Option<Arc<ShardedSale>> {
        self.sharded.read().get(&voucher).cloned()
    }

    /// Wakes the task that looks at the shards.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// The sales that are spread over shards.
    pub(crate) fn all_sharded(&self) -> Vec<Arc<ShardedSale>> {
        let sharded = self.sharded.read();
        sharded
            .iter()
            .filter(|(id, sale)| **id == sale.shard.of)
            .map(|(_, sale)| sale)
            .cloned()
            .collect()
    }

    /// The known state of a sale; `None` if it was never seen.
    pub(crate) fn get(&self, voucher: VoucherId) -> Option<KnownSale> {
        self.known.lock().get(&voucher).copied()
    }

    /// Sales that Redis has to hold, by voucher ID.
    pub(crate) fn current(&self) -> Vec<Expected> {
        let known = self.known.lock();
        let current = known.values().filter(|it| !it.archived);
        let mut all: Vec<_> = current.map(|it| it.expected).collect();
        drop(known);
        all.sort_unstable_by_key(|it| it.voucher);
        all
    }
}
