//! Rebuilds entries whose body is gone, from the buyers hash.
//!
//! The caller has determined that bodies are missing.

use redis::{cmd, pipe};
use seckill_model::{
    OrderId, VoucherId,
    faults::{self, Point},
};
use seckill_redis::keys::Partition;

use crate::{EngineError, ledger, servers::Servers};

const PAGE: usize = 500;

/// Entries that were enqueued again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Orders that had no result anywhere.
    pub orders: u64,
    /// Redis has every sale, so no lost order was missed.
    pub complete: bool,
}

/// Enqueues every order of a partition that was admitted and has no result anywhere. Safe to repeat: an order that
/// already exists is written once.
pub async fn rebuild(servers: &mut Servers, of: &Partition) -> Result<Rebuilt, EngineError> {
    let mut rebuilt = Rebuilt { orders: 0, complete: true };
    for sale in servers.sales_of(of).await? {
        let voucher = sale.voucher_id;
        let exists = cmd("EXISTS").arg(servers.keys.sale(voucher)).take();
        rebuilt.complete &= servers.conn.query::<bool>(&exists).await?;
        rebuilt.orders += enqueue_lost(servers, voucher).await?.len() as u64;
    }
    Ok(rebuilt)
}

/// The same for one sale; returns the orders that were enqueued.
pub(crate) async fn enqueue_lost(
    servers: &mut Servers,
    voucher: VoucherId,
) -> Result<Vec<OrderId>, EngineError> {
    let of = servers.keys.partition_of(voucher);
    let lost = ledger::lost_orders(servers, voucher).await?;
    for page in lost.chunks(PAGE) {
        let mut add = pipe();
        for order in page {
            add.cmd("XADD").arg(of.orders()).arg("*").arg("userId").arg(order.user_id.0);
            add.arg("voucherId").arg(voucher.0).arg("id").arg(order.id.get());
            add.arg("place").arg(order.place).ignore();
        }
        servers.conn.pipe::<()>(&add).await?;
        faults::pass(Point::AfterRebuild);
    }
    Ok(lost.into_iter().map(|order| order.id).collect())
}
