//! The newest version of each sale that this node has seen in SQL. It never admits buyers to a sale whose version in Redis
//! is older.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use seckill_model::{Millis, Sale, SaleState, VoucherId};

/// What a node knows of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownSale {
    /// The newest version seen in SQL.
    pub(super) version: u64,
    /// It has left Redis for good.
    pub(super) archived: bool,
    /// Another time means another sale: SQL was set back, and the number was given again.
    created: Millis,
}

/// The newest versions seen, shared by the tasks of a node.
#[derive(Clone, Debug, Default)]
pub struct SaleVersions(Arc<Mutex<HashMap<VoucherId, KnownSale>>>);

impl SaleVersions {
    /// Notes a sale as SQL has it.
    pub(super) fn note(&self, sale: &Sale) {
        let archived = sale.state == SaleState::Archived;
        let now = KnownSale { version: sale.version, archived, created: sale.created };
        let mut known = self.lock();
        let entry = known.entry(sale.voucher_id).or_insert(now);
        if entry.version <= now.version || entry.created != now.created {
            *entry = now;
        }
    }

    /// What is known of a sale; `None` before it was seen.
    pub(super) fn get(&self, voucher: VoucherId) -> Option<KnownSale> {
        self.lock().get(&voucher).copied()
    }

    /// Sales that Redis has to hold, by number, each with its time of creation.
    pub(super) fn current(&self) -> Vec<(VoucherId, Millis)> {
        let known = self.lock();
        let current = known.iter().filter(|(_, it)| !it.archived);
        let mut all: Vec<_> = current.map(|(voucher, it)| (*voucher, it.created)).collect();
        drop(known);
        all.sort_unstable();
        all
    }

    /// The map is whole whenever the lock is free, also after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, HashMap<VoucherId, KnownSale>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
