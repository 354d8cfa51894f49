//! The newest version of each sale that this node has seen in SQL, and the task that delivers changes to Redis.
//!
//! A change of a sale is committed in SQL first. Until Redis confirms its version, any node delivers it; and a node never
//! admits buyers to a sale whose version in Redis is older than one that it has seen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use seckill_model::{Millis, Sale, SaleState, VoucherId, locale::in_english};
use seckill_redis::{Layout, Link};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

use super::{EngineError, vouchers};

/// Between two looks for changes that Redis has not confirmed.
const DELIVER_EVERY: Duration = Duration::from_millis(500);

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

/// The task that delivers changes of sales to Redis. One a node; ends with its token.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) store: SharedStore,
    pub(super) link: Link,
    pub(super) keys: Layout,
    pub(super) versions: SaleVersions,
}

impl Delivery {
    /// Delivers until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut failed = String::new();
        loop {
            let delivered = tokio::select! {
                () = stop.cancelled() => return,
                delivered = self.deliver() => delivered,
            };
            match delivered {
                Ok(()) => failed.clear(),
                Err(error) => {
                    // The same error each half second is one line.
                    let error = in_english(|| error.to_string());
                    if error != failed {
                        tracing::warn!(error, "a change of a sale was not delivered to Redis yet");
                        failed = error;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(DELIVER_EVERY) => {}
            }
        }
    }

    async fn deliver(&mut self) -> Result<(), EngineError> {
        let waiting = self.store.undelivered().await?;
        // All of them first: what stands in the way of one delivery must not hide the others.
        for sale in &waiting {
            self.versions.note(sale);
        }
        let mut first_error = None;
        for sale in waiting {
            let done = vouchers::deliver(&self.store, &mut self.link, &self.keys, &sale).await;
            if let Err(error) = done {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}
