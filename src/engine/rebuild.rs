//! Rebuilds entries whose body is gone, from the buyers hash.
//!
//! The caller has determined that bodies are missing.

use redis::{cmd, pipe};
use seckill_model::{
    OrderId, VoucherId,
    faults::{self, Point},
};
use seckill_redis::{Connection, Layout, keys::Partition};
use seckill_store::SharedStore;

use super::{EngineError, ledger};

const PAGE: usize = 500;

/// Entries that were enqueued again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Orders that had no result anywhere.
    pub orders: u64,
    /// Redis holds every sale, so no lost order was overlooked.
    pub complete: bool,
}

/// Enqueues every order of a partition that was admitted and has no result anywhere. Safe to repeat: an order that
/// exists already is written once.
pub async fn rebuild(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
) -> Result<Rebuilt, EngineError> {
    let mut rebuilt = Rebuilt { orders: 0, complete: true };
    let sales = store.sales().await?;
    for sale in sales.iter().filter(|sale| keys.partition_of(sale.voucher_id) == *of) {
        let voucher = sale.voucher_id;
        rebuilt.complete &= conn.query::<bool>(cmd("EXISTS").arg(keys.sale(voucher))).await?;
        rebuilt.orders += enqueue_lost(store, conn, keys, voucher).await?.len() as u64;
    }
    Ok(rebuilt)
}

/// The same for one sale; returns the orders that were enqueued.
pub(super) async fn enqueue_lost(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    voucher: VoucherId,
) -> Result<Vec<OrderId>, EngineError> {
    let of = keys.partition_of(voucher);
    let lost = ledger::lost_orders(store, conn, keys, voucher).await?;
    for page in lost.chunks(PAGE) {
        let mut add = pipe();
        for (order, place) in page {
            add.cmd("XADD").arg(of.orders()).arg("*").arg("userId").arg(place.user.0);
            add.arg("voucherId").arg(voucher.0).arg("id").arg(order.get());
            add.arg("place").arg(place.number).ignore();
        }
        conn.pipe::<()>(&add).await?;
        faults::pass(Point::AfterRebuild);
    }
    Ok(lost.into_iter().map(|(order, _)| order).collect())
}
