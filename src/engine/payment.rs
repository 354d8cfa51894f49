//! Orders after they were written: paid, or closed as overdue with the piece given back.
//!
//! SQL decides, in one statement that asks for `status = 1`. Redis is told afterwards: what it was
//! not told of stands in SQL, and telling it twice does no harm.

use seckill_model::{
    ClosedOrder, Fence, Millis, OrderId, Payment, VoucherId,
    faults::{self, Point},
};
use seckill_redis::{Layout, Link, scripts};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

use super::EngineError;

/// Orders closed in one transaction: a few milliseconds in which no order can be written.
pub const CLOSE_PAGE: u32 = 500;
/// Between two pages the consumer has its turn.
const BREATH: std::time::Duration = std::time::Duration::from_millis(10);
/// Redis may lose what it was told in its last seconds; a restart within this time tells it again.
pub const REMEMBER_MS: i64 = 3_600_000;

/// What a run of the closing brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Orders closed.
    pub orders: u64,
    /// Pieces given back in Redis.
    pub given_back: u64,
}

/// Pays one order.
///
/// # Errors
/// The database or Redis, by whose clock it is paid, is away.
pub async fn pay(
    store: &SharedStore,
    link: &mut Link,
    order: OrderId,
) -> Result<Payment, EngineError> {
    let paid = store.pay(&[order], link.now().await?).await?;
    Ok(paid.first().copied().unwrap_or(Payment::NotFound))
}

/// Closes orders that were written before `before` and are unpaid, as of `now`, in pages; what an earlier run
/// closed and did not give back is given back first.
///
/// # Errors
/// A server is away, or the lock of `fence` is somebody else's by now. What was closed by then is
/// given back by the next run.
pub async fn close_overdue(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    before: Millis,
    now: Millis,
    fence: &Fence,
    stop: &CancellationToken,
) -> Result<Closed, EngineError> {
    let mut done = Closed { orders: 0, given_back: give_back_open(store, link, keys).await? };
    while !stop.is_cancelled() {
        let page = store.close_overdue(before, CLOSE_PAGE, now, fence).await?;
        if page.is_empty() {
            break;
        }
        faults::pass(Point::AfterClosing);
        done.orders += page.len() as u64;
        done.given_back += give_back(store, link, keys, &page).await?;
        tokio::time::sleep(BREATH).await;
    }
    // Those of ordinary vouchers hold no piece, so there is nothing to give back.
    while !stop.is_cancelled() {
        let closed = store.close_overdue_ordinary(before, CLOSE_PAGE, now, fence).await?;
        if closed == 0 {
            break;
        }
        done.orders += closed;
        tokio::time::sleep(BREATH).await;
    }
    Ok(done)
}

/// Gives back what was closed and of which Redis was not told; returns how many pieces.
pub async fn give_back_open(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
) -> Result<u64, EngineError> {
    let (mut given, mut after) = (0, None);
    loop {
        let page = store.give_backs(after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += give_back(store, link, keys, &page).await?;
    }
}

/// Tells Redis, then notes that it was told.
pub(super) async fn give_back(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    orders: &[ClosedOrder],
) -> Result<u64, EngineError> {
    let given = tell(link, keys, orders).await?;
    faults::pass(Point::AfterGiveBack);
    let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
    store.gave_back(&ids, link.now().await?).await?;
    Ok(given)
}

/// Tells Redis again what it was told lately, for it may have lost that.
pub(super) async fn give_back_again(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
) -> Result<u64, EngineError> {
    let since = link.now().await?.plus(-REMEMBER_MS);
    let (mut given, mut after) = (0, None);
    loop {
        let page = store.given_since(voucher, since, after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += tell(link, keys, &page).await?;
    }
}

/// Tells Redis of closed orders, each of which gives its piece back once; returns how many did now.
pub(super) async fn tell(
    link: &mut Link,
    keys: &Layout,
    orders: &[ClosedOrder],
) -> Result<u64, EngineError> {
    let mut vouchers: Vec<VoucherId> = orders.iter().map(|order| order.voucher_id).collect();
    vouchers.sort_unstable();
    vouchers.dedup();
    let mut given = 0;
    for voucher in vouchers {
        let mut call = scripts::GIVE_BACK.prepare_invoke();
        call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
        for order in orders.iter().filter(|order| order.voucher_id == voucher) {
            call.arg(order.seat().to_string()).arg(order.id.get());
        }
        given += link.invoke::<u64>(&call).await?;
    }
    Ok(given)
}
