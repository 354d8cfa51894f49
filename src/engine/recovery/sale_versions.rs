//! The newest version of each sale that this node has seen in SQL. It never admits buyers to a sale whose version in
//! Redis is older.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use seckill_model::{Millis, Sale, SaleState, VoucherId};

/// The state of a sale that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownSale {
    /// The newest version seen in SQL.
    pub(crate) version: u64,
    /// It has been removed from Redis permanently.
    pub(crate) archived: bool,
    /// A different time means a different sale: SQL was rolled back, and the ID was assigned again.
    created: Millis,
}

/// The newest known versions, shared by the tasks of a node.
#[derive(Clone, Debug, Default)]
pub struct SaleVersions(Arc<Mutex<HashMap<VoucherId, KnownSale>>>);

impl SaleVersions {
    /// Records a sale as read from SQL.
    pub(crate) fn note(&self, sale: &Sale) {
        let archived = sale.state == SaleState::Archived;
        let now = KnownSale { version: sale.version, archived, created: sale.created };
        let mut known = self.0.lock();
        let entry = known.entry(sale.voucher_id).or_insert(now);
        if entry.version <= now.version || entry.created != now.created {
            *entry = now;
        }
    }

    /// The known state of a sale; `None` if it was never seen.
    pub(crate) fn get(&self, voucher: VoucherId) -> Option<KnownSale> {
        self.0.lock().get(&voucher).copied()
    }

    /// Sales that Redis has to hold, by voucher ID, each with its creation time.
    pub(crate) fn current(&self) -> Vec<(VoucherId, Millis)> {
        let known = self.0.lock();
        let current = known.iter().filter(|(_, it)| !it.archived);
        let mut all: Vec<_> = current.map(|(voucher, it)| (*voucher, it.created)).collect();
        drop(known);
        all.sort_unstable();
        all
    }
}
