//! Orders after they were written: paid, or closed as overdue with the piece returned.
//!
//! SQL decides, in one statement with `status = 1`. Redis is updated afterwards: outstanding updates are recorded in
//! SQL, and repeating one is harmless.

use seckill_model::{
    Fence, Millis, OrderId, Payment, SaleOrder, VoucherId,
    faults::{self, Point},
};
use seckill_redis::scripts;
use tokio_util::sync::CancellationToken;

use super::{Result, lists::group_by, servers::Servers};

/// Orders closed in one transaction: it blocks writes of orders for a few milliseconds.
pub const CLOSE_PAGE: u32 = 500;
/// Pause between two pages, for the consumer.
const PAGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// Redis may lose the updates of its last seconds; after a restart those within this time are repeated.
pub const REMEMBER_MS: i64 = 3_600_000;

/// Result of a run of the closing job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Orders closed.
    pub orders: u64,
    /// Pieces returned in Redis.
    pub given_back: u64,
}

/// Pays one order.
pub async fn pay(servers: &mut Servers, order: OrderId) -> Result<Payment> {
    let paid = servers.store.pay(&[order], servers.conn.now().await?).await?;
    Ok(paid.first().copied().unwrap_or(Payment::NotFound))
}

/// Closes unpaid orders that were written before `before`, as of `now`, in pages; pieces that an earlier run did not
/// return are returned first.
///
/// # Errors
/// A server is unreachable, or the lock of `fence` was lost. Orders closed by then are returned by the next run.
pub async fn close_overdue(
    servers: &mut Servers,
    before: Millis,
    now: Millis,
    fence: &Fence,
    stop: &CancellationToken,
) -> Result<Closed> {
    let mut done = Closed { orders: 0, given_back: return_outstanding(servers).await? };
    while !stop.is_cancelled() {
        let page = servers.store.close_overdue(before, CLOSE_PAGE, now, fence).await?;
        if page.is_empty() {
            break;
        }
        faults::pass(Point::AfterClosing);
        done.orders += page.len() as u64;
        done.given_back += give_back(servers, &page).await?;
        tokio::time::sleep(PAGE_PAUSE).await;
    }
    // Those of ordinary vouchers hold no piece.
    while !stop.is_cancelled() {
        let closed = servers.store.close_overdue_ordinary(before, CLOSE_PAGE, now, fence).await?;
        if closed == 0 {
            break;
        }
        done.orders += closed;
        tokio::time::sleep(PAGE_PAUSE).await;
    }
    Ok(done)
}

/// Gives back the pieces of closed orders whose return is not recorded yet; returns their number.
pub async fn return_outstanding(servers: &mut Servers) -> Result<u64> {
    let (mut given, mut after) = (0, None);
    loop {
        let page = servers.store.give_backs(after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += give_back(servers, &page).await?;
    }
}

/// Updates Redis, then records that in SQL.
pub(super) async fn give_back(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
    let given = return_in_redis(servers, orders).await?;
    faults::pass(Point::AfterGiveBack);
    let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
    servers.store.gave_back(&ids, servers.conn.now().await?).await?;
    Ok(given)
}

/// Repeats the recent updates of Redis, which may have lost them: recent as of the last entry that it knows, because it
/// may have been away for longer.
pub(super) async fn give_back_again(servers: &mut Servers, voucher: VoucherId) -> Result<u64> {
    let now = servers.conn.now().await?;
    let last = servers.partition_stats(&servers.keys.partition_of(voucher)).await?.stream.generated;
    let since = last.map_or(now, |last| Millis(last.millis as i64).min(now)).plus(-REMEMBER_MS);
    let (mut given, mut after) = (0, None);
    loop {
        let page = servers.store.given_since(voucher, since, after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += return_in_redis(servers, &page).await?;
    }
}

/// Returns the pieces of closed orders in Redis, each once; returns how many were returned now.
pub(super) async fn return_in_redis(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
    let mut given = 0;
    for (voucher, orders) in group_by(orders, |order| order.voucher_id) {
        let mut call = scripts::GIVE_BACK.prepare_invoke();
        call.key(&servers.keys.sale_keys(voucher));
        for order in orders {
            call.arg(order.place().to_string()).arg(order.id.get());
        }
        given += servers.conn.invoke::<u64>(&call).await?;
    }
    Ok(given)
}
