//! Whether a Redis that was restarted still has all buyers: first by numbers, then order by order.
//!
//! A restart or a failover loses the last changes of Redis, and no earlier ones. So if it holds as many buyers as there
//! are live orders in SQL and orders on their way there, it has lost none. That takes as long with ten orders as with
//! ten million. [`compare`] then finds what numbers cannot show, while buyers are admitted.

use seckill_model::{EntryId, Order, OrderEntry, OrderId, SaleOrder};
use seckill_redis::{
    keys::Partition,
    stream::{self, Delivered},
    stream_stats::{StreamStats, read_partition},
};

use crate::{
    Result,
    ledger::{self, PAGE},
    lists::group_by,
    payment,
    recovery::reconcile::{Scope, put_back, reconcile_sales},
    servers::Servers,
    telemetry::data_loss::Reconciled,
};

/// Most entries in flight that are looked up in SQL: about a second.
const MOST_LOOKED_UP: usize = 200_000;
/// Numbers that are read while consumers write orders may disagree.
const LOOKS: u32 = 5;

/// Reconciles every sale of a partition, as [`reconcile`](super::reconcile::reconcile) does, without comparing each
/// order if the numbers agree. Returns whether they did: then [`compare`] is still to be done.
pub async fn reconcile_by_numbers(
    servers: &mut Servers,
    of: &Partition,
    promises: &[SaleOrder],
    token: &str,
) -> Result<(Reconciled, bool)> {
    let mut done = Reconciled::default();
    // Redis may have lost returns of pieces, which would count as buyers without an order.
    for sale in servers.sales_of(of).await? {
        done.removed += payment::give_back_again(servers, sale.voucher_id).await?;
    }
    let agree = agree(servers, of).await?;
    let scope = if agree { Scope::Counted } else { Scope::IfNeeded };
    done.add(reconcile_sales(servers, of, promises, token, scope).await?);
    Ok((done, agree))
}

/// Whether the buyers of a partition are as many as its orders.
async fn agree(servers: &mut Servers, of: &Partition) -> Result<bool> {
    for _ in 0..LOOKS {
        match missing(servers, of).await? {
            Some(0) => return Ok(true),
            Some(_) => {}
            None => break,
        }
    }
    Ok(false)
}

/// Number of orders without a buyer; negative if buyers have no order. `None` if a key is inconsistent, or too many
/// entries would have to be looked up.
///
/// The places are read such that an order that moves in the meantime counts twice rather than never.
async fn missing(servers: &mut Servers, of: &Partition) -> Result<Option<i64>> {
    let returning = returning(servers, of).await?;
    let sales = servers.sales_of(of).await?;
    let vouchers: Vec<_> = sales.iter().map(|sale| sale.voucher_id).collect();
    let stats = read_partition(&mut servers.conn, &servers.keys, of, &vouchers).await?;
    let is_whole = stats.sales.iter().zip(&sales).all(|(facts, sale)| {
        facts.damaged.is_none() && facts.initial.is_some() && facts.created == Some(sale.created)
    });
    let Some(lag) = stats.stream.lag.filter(|_| {
        is_whole && stats.lost.is_empty() && stats.foreign.is_empty() && stats.stream.gone == 0
    }) else {
        return Ok(None);
    };
    let Some(written) = written(servers, of, &stats.stream).await? else { return Ok(None) };
    let dead = held_letters(servers, of).await?;
    let live: u64 = servers.sales_of(of).await?.iter().map(|sale| sale.initial - sale.stock).sum();
    let returning = returning.max(self::returning(servers, of).await?);
    let buyers: u64 = stats.sales.iter().map(|facts| facts.buyers).sum();
    let orders = live + returning + lag + stats.stream.pending + dead;
    Ok(Some(orders as i64 - (buyers + written) as i64))
}

/// Entries in flight whose orders are in SQL: those that a consumer had not acknowledged when Redis ended, or whose
/// delivery Redis has lost. `None` if there are too many.
async fn written(
    servers: &mut Servers,
    of: &Partition,
    stream: &StreamStats,
) -> Result<Option<u64>> {
    let (mut written, mut looked_up) = (0, 0);
    let mut next = stream.delivered.map(|_| EntryId::MIN);
    while let Some(from) = next {
        let page = stream::pending_page(&mut servers.conn, of, from, EntryId::MAX, PAGE).await?;
        next = page.last().and_then(|last| last.delivered.entry.next());
        written += count_written(servers, page.iter().map(|it| &it.delivered)).await?;
        looked_up += page.len();
        if looked_up > MOST_LOOKED_UP {
            return Ok(None);
        }
    }
    // The lost deliveries are the first ones.
    let mut next = stream.delivered.map_or(Some(EntryId::MIN), EntryId::next);
    while let Some(from) = next {
        let page = stream::range(&mut servers.conn, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        let found = count_written(servers, &page).await?;
        written += found;
        looked_up += page.len();
        if found == 0 {
            break;
        }
        if looked_up > MOST_LOOKED_UP {
            return Ok(None);
        }
    }
    Ok(Some(written))
}

async fn count_written<'a>(
    servers: &Servers,
    entries: impl IntoIterator<Item = &'a Delivered>,
) -> Result<u64> {
    let entries: Vec<OrderEntry> = entries.into_iter().filter_map(Delivered::order).collect();
    let ids: Vec<OrderId> = entries.iter().map(|entry| entry.order).collect();
    let orders = servers.store.orders_among(&ids).await?;
    // A bad entry may carry the ID of another user's order.
    let is_of = |order: &Order, entry: &OrderEntry| {
        (order.id, order.user_id, order.voucher_id) == (entry.order, entry.user, entry.voucher)
    };
    let found = entries.iter().filter(|entry| orders.iter().any(|order| is_of(order, entry)));
    Ok(found.count() as u64)
}

/// Closed orders whose pieces are about to be returned in Redis.
async fn returning(servers: &mut Servers, of: &Partition) -> Result<u64> {
    let (mut count, mut after) = (0, None);
    loop {
        let mut page = servers.store.give_backs(after, PAGE as u32).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = Some(last.id);
        page.retain(|order| servers.keys.partition_of(order.voucher_id) == *of);
        count += count_held(servers, &page).await?;
    }
}

/// Dead letters whose order is not in SQL and has a buyer.
async fn held_letters(servers: &mut Servers, of: &Partition) -> Result<u64> {
    let letters = ledger::dead_orders(&mut servers.conn, of).await?;
    let mut letters: Vec<_> = letters.iter().map(SaleOrder::from).collect();
    letters.sort_unstable();
    letters.dedup();
    let open = ledger::not_in_sql(servers, &letters).await?;
    count_held(servers, &open).await
}

/// Number of these orders that their buyers hold in Redis.
async fn count_held(servers: &mut Servers, orders: &[SaleOrder]) -> Result<u64> {
    let mut count = 0;
    for (voucher, orders) in group_by(orders, |order| order.voucher_id) {
        for page in orders.chunks(PAGE) {
            let held = servers.held(voucher, page.iter().map(|order| order.place())).await?;
            count += page.iter().zip(held).filter(|(order, held)| *held == Some(order.id)).count();
        }
    }
    Ok(count as u64)
}

/// Compares every live order of a partition with its buyer, and restores the buyers that Redis lacks.
pub(crate) async fn compare(servers: &mut Servers, of: &Partition) -> Result<Reconciled> {
    let mut done = Reconciled::default();
    for sale in servers.sales_of(of).await? {
        for page in ledger::unknown_orders(servers, sale.voucher_id).await?.chunks(PAGE) {
            done.add(put_back(servers, sale.voucher_id, page).await?);
        }
    }
    Ok(done)
}
