//! Orders after they were written: paid, or closed as overdue with the piece returned.
//!
//! SQL decides, in one statement with `status = 1`. Redis is updated afterwards: outstanding updates are recorded in
//! SQL, and repeating one is harmless.

use std::time::Duration;

use seckill_model::{
    Fence, Millis, OrderId, Payment, Reason, SaleOrder, ShardId, VoucherId,
    faults::{self, Point},
    reason::reason,
};
use seckill_redis::scripts;
use seckill_store::{Overdue, SharedStore, StoreError};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError, Result,
    lists::{self, group_by},
    servers::Servers,
};

/// Orders closed in one transaction: it blocks writes of orders for a few milliseconds.
pub const CLOSE_PAGE: u32 = 500;
/// Pause between two pages, for the consumer.
const PAGE_PAUSE: Duration = Duration::from_millis(10);
/// How long Redis remembers returned orders: longer than any request is retried, by more than clocks differ.
pub(crate) const REMEMBER_RETURNED: Duration = Duration::from_mins(15);
/// Redis may lose the updates of its last seconds; after a restart those within this time are repeated.
pub const REMEMBER_MS: i64 = 3_600_000;

/// Result of a run of the closing job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Closed {
    /// Orders closed.
    pub orders: u64,
    /// Pieces returned in Redis.
    pub given_back: u64,
    /// Sales that were left out.
    pub left_out: LeftOut,
}

/// Sales that could not be processed, each with its error: a fault of one sale does not stop the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut(Vec<(VoucherId, EngineError)>);

impl LeftOut {
    pub(super) fn add(&mut self, sale: VoucherId, why: EngineError) {
        tracing::warn!(%sale, %why, "a sale was left out");
        if !self.0.iter().any(|(known, _)| *known == sale) {
            self.0.push((sale, why));
        }
    }

    fn sales(&self) -> Vec<VoucherId> {
        self.0.iter().map(|(sale, _)| *sale).collect()
    }

    /// Each sale with its error; `None` without any.
    pub fn reason(&self) -> Option<Reason> {
        let named = self
            .0
            .iter()
            .map(|(sale, why)| reason!("job-left-out", sale = *sale, why = why.to_string()));
        (!self.0.is_empty()).then(|| Reason::list(named, lists::PARTS))
    }
}

/// Pays one order.
pub async fn pay(servers: &mut Servers, order: OrderId) -> Result<Payment> {
    let paid = servers.store.pay(&[order], servers.conn.now().await?).await?;
    Ok(paid.first().copied().unwrap_or(Payment::NotFound))
}

/// Closes unpaid orders that were written before `before`, as of `now`, in pages; pieces that an earlier run did not
/// return are returned first.
///
/// A sale whose orders cannot be closed or returned is left out.
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
    let mut done = Closed::default();
    done.given_back = return_all_outstanding(servers, &mut done.left_out).await?;
    while !stop.is_cancelled() {
        let except = done.left_out.sales();
        let of = Overdue::AllBut(&except);
        let page = match servers.store.close_overdue(before, CLOSE_PAGE, of, now, fence).await {
            Ok(page) => page,
            Err(error) => {
                accepts_writes(&servers.store, error, now, fence).await?;
                close_singly(servers, before, now, fence, &mut done.left_out).await?
            }
        };
        if page.is_empty() && except.len() == done.left_out.0.len() {
            break;
        }
        faults::pass(Point::AfterClosing);
        done.orders += page.len() as u64;
        done.given_back += give_back_each(servers, &page, &mut done.left_out).await?;
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

/// Returns the error of a transaction unless the database accepts another write under the same fence: then the error
/// concerns what the transaction was about.
async fn accepts_writes(
    store: &SharedStore,
    error: StoreError,
    now: Millis,
    fence: &Fence,
) -> Result<()> {
    match error {
        StoreError::Fenced(_) | StoreError::Silent { .. } | StoreError::Locked => Err(error.into()),
        error => store.fenced_write(fence, now).await.map(drop).map_err(|_| error.into()),
    }
}

/// Closes a page of overdue orders sale by sale, after it could not be closed as a whole; the sales that cannot be closed
/// alone either are added to `left_out`.
async fn close_singly(
    servers: &Servers,
    before: Millis,
    now: Millis,
    fence: &Fence,
    left_out: &mut LeftOut,
) -> Result<Vec<SaleOrder>> {
    let (store, except) = (&servers.store, left_out.sales());
    let sales = store.overdue_sales(before, CLOSE_PAGE, Overdue::AllBut(&except)).await?;
    let mut closed = Vec::new();
    for sale in sales {
        match store.close_overdue(before, CLOSE_PAGE, Overdue::Of(sale), now, fence).await {
            Ok(page) => closed.extend(page),
            Err(error) => {
                accepts_writes(store, error.clone(), now, fence).await?;
                left_out.add(sale, error.into());
            }
        }
    }
    Ok(closed)
}

/// Gives back the pieces of closed orders whose return is not recorded yet; returns their number.
///
/// # Errors
/// Of the first sale whose pieces could not be returned; those of the others were.
pub async fn return_outstanding(servers: &mut Servers) -> Result<u64> {
    let mut left_out = LeftOut::default();
    let given = return_all_outstanding(servers, &mut left_out).await?;
    left_out.0.into_iter().next().map_or(Ok(given), |(_, why)| Err(why))
}

async fn return_all_outstanding(servers: &mut Servers, left_out: &mut LeftOut) -> Result<u64> {
    let (mut given, mut after) = (0, None);
    loop {
        let page = servers.store.give_backs(after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += give_back_each(servers, &page, left_out).await?;
    }
}

/// As [`give_back`], sale by sale: those whose pieces cannot be returned are added to `left_out`. On a cluster, so are
/// those of an unreachable server.
async fn give_back_each(
    servers: &mut Servers,
    orders: &[SaleOrder],
    left_out: &mut LeftOut,
) -> Result<u64> {
    let (mut given, mut away) = (0, None);
    for (shard, orders) in group_by(orders.iter().copied(), SaleOrder::sold_by) {
        let of = servers.keys.partition_of(shard);
        let done = match &away {
            // Its server does not respond, which takes a timeout to find out.
            Some((known, why)) if *known == of => Err(EngineError::clone(why)),
            _ => give_back(servers, &orders).await,
        };
        match done {
            Ok(count) => given += count,
            Err(why @ EngineError::Store(_)) => return Err(why),
            Err(why) if why.is_away() && !servers.conn.is_cluster() => return Err(why),
            Err(why) => {
                if why.is_away() {
                    away = Some((of, why.clone()));
                }
                left_out.add(shard.voucher(), why);
            }
        }
    }
    Ok(given)
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
pub(super) async fn give_back_again(servers: &mut Servers, shard: ShardId) -> Result<u64> {
    let now = servers.conn.now().await?;
    let last = servers.partition_stats(&servers.keys.partition_of(shard)).await?.stream.generated;
    let since = last.map_or(now, |last| Millis(last.millis as i64).min(now)).plus(-REMEMBER_MS);
    let (mut given, mut after) = (0, None);
    loop {
        let page = servers.store.given_since(shard, since, after, CLOSE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(given) };
        after = Some(last.id);
        given += return_in_redis(servers, &page).await?;
    }
}

/// Returns the pieces of closed orders in Redis, each once; returns how many were returned now.
pub(super) async fn return_in_redis(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
    let mut given = 0;
    for (shard, orders) in group_by(orders, |order| order.sold_by()) {
        let mut call = scripts::GIVE_BACK.prepare_invoke();
        call.key(&servers.keys.sale_keys(shard));
        call.key(servers.keys.partition_of(shard).returned());
        call.arg(REMEMBER_RETURNED.as_millis() as u64);
        for order in orders {
            call.arg(order.place().to_string()).arg(order.id.get());
        }
        given += servers.conn.invoke::<u64>(&call).await?;
    }
    Ok(given)
}
