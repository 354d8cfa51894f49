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

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    lists::{self, group_by},
};

/// Orders closed in one transaction: it blocks writes of orders for a few milliseconds.
pub const CLOSE_PAGE: u32 = 500;
/// Failures of single orders after which the others of a page are not tried, unless one was closed.
const TRIALS: usize = 50;
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

/// What could not be processed, each with its error: a fault of one sale does not stop the others, and one of an order does
/// not stop the others of its sale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut {
    sales: Vec<(VoucherId, EngineError)>,
    /// Orders, each with the error of the first; without a sale, those of ordinary vouchers.
    orders: Vec<(Option<VoucherId>, Vec<OrderId>, EngineError)>,
}

impl LeftOut {
    pub(crate) fn add(&mut self, sale: VoucherId, why: EngineError) {
        tracing::warn!(%sale, %why, "a sale was left out");
        if !self.sales.iter().any(|(known, _)| *known == sale) {
            self.sales.push((sale, why));
        }
    }

    fn add_order(&mut self, sale: Option<VoucherId>, order: OrderId, why: EngineError) {
        tracing::warn!(%order, %why, "an order was left out");
        match self.orders.iter_mut().find(|(of, ..)| *of == sale) {
            Some((_, orders, _)) => orders.push(order),
            None => self.orders.push((sale, vec![order], why)),
        }
    }

    fn sales(&self) -> Vec<VoucherId> {
        self.sales.iter().map(|(sale, _)| *sale).collect()
    }

    fn orders(&self) -> Vec<OrderId> {
        self.orders.iter().flat_map(|(_, orders, _)| orders).copied().collect()
    }

    /// Each sale with its error, and each order; `None` without any.
    pub fn reason(&self) -> Option<Reason> {
        let sales = self
            .sales
            .iter()
            .map(|(sale, why)| reason!("job-left-out", sale = *sale, why = why.to_string()));
        let orders = self.orders.iter().filter_map(|(sale, orders, why)| {
            let (first, why) = (orders.first()?.to_string(), why.to_string());
            let more = orders.len() as u64 - 1;
            Some(match sale {
                Some(sale) => reason!("job-order-left-out", order = first, sale = *sale, more, why),
                None => reason!("job-ordinary-left-out", order = first, more, why),
            })
        });
        let all: Vec<Reason> = sales.chain(orders).collect();
        (!all.is_empty()).then(|| Reason::list(all, lists::PARTS))
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
        let (sales, orders) = (done.left_out.sales(), done.left_out.orders());
        let of = Overdue::AllBut(&sales, &orders);
        let page = match servers.store.close_overdue(before, CLOSE_PAGE, of, now, fence).await {
            Ok(page) => page,
            Err(error) => {
                let closing = Closing { store: &servers.store, before, now, fence };
                closing.accepts_writes(error).await?;
                closing.close_singly(&mut done.left_out).await?
            }
        };
        let is_same = (sales.len(), orders.len())
            == (done.left_out.sales().len(), done.left_out.orders().len());
        if page.is_empty() && is_same {
            break;
        }
        faults::pass(Point::AfterClosing);
        done.orders += page.len() as u64;
        done.given_back += give_back_each(servers, &page, &mut done.left_out).await?;
        tokio::time::sleep(PAGE_PAUSE).await;
    }
    close_ordinary(servers, before, now, fence, stop, &mut done).await?;
    Ok(done)
}

/// Closes the overdue orders of ordinary vouchers, which hold no piece.
async fn close_ordinary(
    servers: &Servers,
    before: Millis,
    now: Millis,
    fence: &Fence,
    stop: &CancellationToken,
    done: &mut Closed,
) -> Result<()> {
    let store = &servers.store;
    let mut bad = Vec::new();
    while !stop.is_cancelled() {
        let of = Overdue::AllBut(&[], &bad);
        let closed = match store.close_overdue_ordinary(before, CLOSE_PAGE, of, now, fence).await {
            Ok(closed) => closed,
            Err(error) => {
                let closing = Closing { store, before, now, fence };
                closing.accepts_writes(error).await?;
                let page = store.overdue_ordinary(before, CLOSE_PAGE, of).await?;
                let (closed, failed) = closing.divide(page, Kind::Ordinary).await?;
                for (order, why) in failed {
                    done.left_out.add_order(None, order, why.into());
                    bad.push(order);
                }
                closed.count
            }
        };
        // Of a page of which none can be closed, neither can the next ones.
        if closed == 0 {
            break;
        }
        done.orders += closed;
        tokio::time::sleep(PAGE_PAUSE).await;
    }
    Ok(())
}

/// A run of the closing job.
struct Closing<'a> {
    store: &'a SharedStore,
    before: Millis,
    now: Millis,
    fence: &'a Fence,
}

/// What overdue orders are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sale,
    Ordinary,
}

/// How many orders were closed, and which of sales.
#[derive(Default)]
struct Parts {
    count: u64,
    orders: Vec<SaleOrder>,
}

/// The orders that could not be closed, each with its error.
type Failed = Vec<(OrderId, StoreError)>;

impl Closing<'_> {
    /// Returns the error of a transaction unless the database accepts another write under the same fence: then the error
    /// concerns what the transaction was about.
    async fn accepts_writes(&self, error: StoreError) -> Result<()> {
        match error {
            StoreError::Fenced(_) | StoreError::Silent { .. } | StoreError::Locked => {
                Err(error.into())
            }
            error => {
                let probed = self.store.fenced_write(self.fence, self.now).await;
                probed.map(drop).map_err(|_| error.into())
            }
        }
    }

    /// Closes a page of overdue orders of sales in parts, after it could not be closed as a whole. Each order that cannot be
    /// closed is added to `left_out`; a sale of which none of many can, as a whole.
    async fn close_singly(&self, left_out: &mut LeftOut) -> Result<Vec<SaleOrder>> {
        let (sales, orders) = (left_out.sales(), left_out.orders());
        let of = Overdue::AllBut(&sales, &orders);
        let mut all = Vec::new();
        for (sale, page) in self.store.overdue(self.before, CLOSE_PAGE, of).await? {
            let (closed, mut failed) = self.divide(page, Kind::Sale).await?;
            if closed.count == 0 && failed.len() >= TRIALS {
                if let Some((_, why)) = failed.pop() {
                    left_out.add(sale, why.into());
                }
                continue;
            }
            for (order, why) in failed {
                left_out.add_order(Some(sale), order, why.into());
            }
            all.extend(closed.orders);
        }
        Ok(all)
    }

    async fn close(&self, orders: &[OrderId], kind: Kind) -> Result<Parts, StoreError> {
        let Self { store, before, now, fence } = *self;
        let of = Overdue::Orders(orders);
        if kind == Kind::Ordinary {
            let count = store.close_overdue_ordinary(before, CLOSE_PAGE, of, now, fence).await?;
            return Ok(Parts { count, orders: Vec::new() });
        }
        let orders = store.close_overdue(before, CLOSE_PAGE, of, now, fence).await?;
        Ok(Parts { count: orders.len() as u64, orders })
    }

    /// Closes orders, those of a part that is rejected in two halves. If none of many is accepted, the others are not tried.
    async fn divide(&self, orders: Vec<OrderId>, kind: Kind) -> Result<(Parts, Failed)> {
        let (mut closed, mut failed) = (Parts::default(), Failed::new());
        let mut parts = vec![orders];
        while let Some(part) = parts.pop() {
            match self.close(&part, kind).await {
                Ok(page) => {
                    closed.count += page.count;
                    closed.orders.extend(page.orders);
                }
                Err(error) => {
                    self.accepts_writes(error.clone()).await?;
                    if let [order] = part[..] {
                        failed.push((order, error));
                    } else {
                        let (left, right) = part.split_at(part.len() / 2);
                        parts.extend([right.to_vec(), left.to_vec()]);
                    }
                }
            }
            if closed.count == 0 && failed.len() >= TRIALS {
                break;
            }
        }
        Ok((closed, failed))
    }
}

/// Gives back the pieces of closed orders whose return is not recorded yet; returns their number.
///
/// # Errors
/// Of the first sale whose pieces could not be returned; those of the others were.
pub async fn return_outstanding(servers: &mut Servers) -> Result<u64> {
    let mut left_out = LeftOut::default();
    let given = return_all_outstanding(servers, &mut left_out).await?;
    left_out.sales.into_iter().next().map_or(Ok(given), |(_, why)| Err(why))
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
pub(crate) async fn give_back(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
    let given = return_in_redis(servers, orders).await?;
    faults::pass(Point::AfterGiveBack);
    let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
    servers.store.gave_back(&ids, servers.conn.now().await?).await?;
    Ok(given)
}

/// Repeats the recent updates of Redis, which may have lost them: recent as of the last entry that it knows, because it
/// may have been away for longer.
pub(crate) async fn give_back_again(servers: &mut Servers, shard: ShardId) -> Result<u64> {
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
pub(crate) async fn return_in_redis(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
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
