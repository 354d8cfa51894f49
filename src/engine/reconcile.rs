//! Making Redis whole again: what SQL and the journal know, a restarted Redis may have forgotten.
//!
//! Runs before the first admission of a node and after each restart of Redis, while admission waits:
//! a piece that was promised must not be sold again.

use super::{EngineError, journal::Admitted, vouchers};
use crate::{
    broker::{Layout, Link, scripts, stream},
    model::{OrderId, Sale, SaleState, UserId, VoucherId},
    store::SharedStore,
};

/// Buyers in one run of the restore script: some 2 ms of Redis.
const PAGE: u32 = 2_000;

/// What had to be put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Buyers put back, each with his piece.
    pub restored: u64,
    /// Promises that can't be kept: the piece is gone, or the buyer holds another order.
    pub refused: u64,
}

/// Loads every sale and puts back every buyer that Redis lacks. Safe to repeat.
pub async fn reconcile(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    promises: &[Admitted],
) -> Result<Reconciled, EngineError> {
    stream::ensure_group(link, keys).await?;
    let mut done = Reconciled::default();
    for sale in store.sales().await? {
        // A sale that Redis has lost opens only once its buyers are back; version 0 gives way to any.
        let closed = Sale { state: SaleState::Paused, version: 0, ..sale.clone() };
        vouchers::sync(link, keys, &closed).await?;
        let mut after: Option<OrderId> = None;
        loop {
            let page = store.live_orders(sale.voucher_id, after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            done.add(restore(link, keys, sale.voucher_id, Entry::Leave, &page).await?);
        }
        vouchers::sync(link, keys, &sale).await?;
    }
    let mut vouchers: Vec<VoucherId> = promises.iter().map(|promise| promise.voucher).collect();
    vouchers.sort_unstable();
    vouchers.dedup();
    for voucher in vouchers {
        let of_voucher: Vec<_> = promises
            .iter()
            .filter(|promise| promise.voucher == voucher)
            .map(|promise| (promise.order, promise.user))
            .collect();
        for page in of_voucher.chunks(PAGE as usize) {
            done.add(restore(link, keys, voucher, Entry::Add, page).await?);
        }
    }
    if done != Reconciled::default() {
        tracing::warn!(
            restored = done.restored,
            refused = done.refused,
            "Redis had forgotten buyers"
        );
    }
    Ok(done)
}

impl Reconciled {
    fn add(&mut self, other: Self) {
        self.restored += other.restored;
        self.refused += other.refused;
    }
}

/// Whether an entry is added with the buyer; a repeated one does no harm, its order is there already.
#[derive(Clone, Copy)]
enum Entry {
    Leave,
    Add,
}

async fn restore(
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
    entry: Entry,
    buyers: &[(OrderId, UserId)],
) -> Result<Reconciled, EngineError> {
    let mut call = scripts::RESTORE.prepare_invoke();
    call.key(keys.stock(voucher)).key(keys.buyers(voucher)).key(keys.orders());
    call.arg(voucher.0).arg(match entry {
        Entry::Leave => "book",
        Entry::Add => "enqueue",
    });
    for (order, user) in buyers {
        call.arg(user.0).arg(order.get());
    }
    let (restored, refused) = link.invoke(&call).await?;
    Ok(Reconciled { restored, refused })
}
