//! Checks whether a Redis that was restarted still has all buyers: first by counting, then order by order, in the
//! background.
//!
//! A restart or a failover loses the last changes of Redis, and no earlier ones. So if the keys of a partition are
//! consistent, and it has as many buyers as there are live orders in SQL and orders on their way there, it has lost
//! none, provided that an audit would have passed before. That reads no order that has settled.

use std::collections::{BTreeSet, HashSet};

use seckill_model::{EntryId, Millis, OrderEntry, OrderId, SaleOrder, ShardId};
use seckill_redis::{
    keys::Partition,
    stream::{self, Delivered},
    stream_stats::{SaleStats, StreamStats, read_partition},
};

use crate::{
    Result,
    deployment::servers::Servers,
    ledger::{self, PAGE},
    lists::group_by,
    orders::payment,
    recovery::reconcile::{NotReconciled, Scope, put_back, reconcile_each, stops_all},
    telemetry::data_loss::Reconciled,
};

/// Most entries in flight that are looked up in SQL.
const MAX_LOOKUPS: usize = 200_000;
/// Counts that are taken while consumers write orders may not match.
const ATTEMPTS: u32 = 5;

/// Reconciles every sale of a partition, as [`reconcile`](super::reconcile::reconcile) does, without comparing each
/// order if the counts match. [`compare`] is to follow.
pub async fn reconcile_by_count(
    servers: &mut Servers,
    of: &Partition,
    promises: &[SaleOrder],
    token: &str,
    done: &mut Reconciled,
) -> Result<NotReconciled> {
    // Redis may have lost returns of pieces, which would count as buyers without an order.
    for sale in servers.sales_of(of).await? {
        // Its reconciliation repeats that, and fails.
        done.removed += unless_of_sale(payment::give_back_again(servers, sale.id).await)?;
    }
    let is_counted = unless_of_sale(counts_match(servers, of).await)?;
    let scope = if is_counted { Scope::Counted } else { Scope::IfNeeded };
    reconcile_each(servers, of, promises, token, scope, done).await
}

/// What was not read because of a fault of one sale is as nothing.
fn unless_of_sale<T: Default>(read: Result<T>) -> Result<T> {
    match read {
        Err(error) if !error.is_away() => {
            tracing::warn!(%error, "a sale could not be counted");
            Ok(T::default())
        }
        read => read,
    }
}

/// Whether a partition has as many buyers as orders.
pub async fn counts_match(servers: &mut Servers, of: &Partition) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        match missing_buyers(servers, of).await? {
            Some(0) => return Ok(true),
            Some(_) => {}
            None => break,
        }
    }
    Ok(false)
}

/// Counts the orders without a buyer; the number is negative if buyers have no order. `None` if a key is inconsistent,
/// pieces are being returned, or too many entries would have to be looked up.
///
/// The places are read so that an order that moves in the meantime counts twice rather than never.
async fn missing_buyers(servers: &mut Servers, of: &Partition) -> Result<Option<i64>> {
    let began = servers.conn.now().await?;
    // A letter that is replayed in between is in the stream, or was read here.
    let mut letters = read_letters(servers, of).await?;
    let sales = servers.sales_of(of).await?;
    let shards: Vec<ShardId> = sales.iter().map(|sale| sale.id).collect();
    let returns = read_returns(servers, &shards, began).await?;
    let stats = read_partition(&mut servers.conn, &servers.keys, of, &shards).await?;
    let facts: Vec<SaleStats> = stats.sales.iter().flatten().copied().collect();
    let is_whole = facts.iter().zip(&sales).all(|(facts, sale)| {
        let is_same = facts.created == Some(sale.created) && facts.initial.is_some();
        facts.damaged.is_none() && is_same && facts.buyers >= sale.live_orders()
    });
    let is_whole = is_whole && stats.lost.is_empty() && stats.foreign.is_empty();
    let Some(lag) = stats.stream.lag.filter(|_| is_whole && stats.stream.gone == 0) else {
        return Ok(None);
    };
    let Some(written) = count_written(servers, of, &stats.stream).await? else { return Ok(None) };
    letters.extend(read_letters(servers, of).await?);
    let letters: Vec<SaleOrder> = letters.into_iter().collect();
    let unwritten = ledger::not_in_sql(servers, &letters).await?;
    let dead = count_held(&held(servers, &unwritten).await?);
    // After the entries and the letters: an order that is written in between is counted here.
    let live: u64 = servers.sales_of(of).await?.iter().map(|it| it.live_orders()).sum();
    if read_returns(servers, &shards, began).await? != returns {
        return Ok(None);
    }
    let buyers: u64 = facts.iter().map(|facts| facts.buyers).sum();
    let orders = live + count_held(&returns) + lag + stats.stream.pending + dead;
    Ok(Some(orders as i64 - (buyers + written) as i64))
}

/// Counts the entries in flight whose orders are in SQL: those that a consumer had not acknowledged when Redis ended, or
/// whose delivery Redis has lost. `None` if there are too many.
async fn count_written(
    servers: &mut Servers,
    of: &Partition,
    stream: &StreamStats,
) -> Result<Option<u64>> {
    let (mut written, mut looked_up) = (0, 0);
    let mut next = stream.delivered.map(|_| EntryId::MIN);
    while let (Some(from), Some(last)) = (next, stream.delivered) {
        let page = stream::pending_page(&mut servers.conn, of, from, last, PAGE).await?;
        next = page.last().and_then(|last| last.delivered.entry.next());
        written += written_among(servers, page.iter().map(|it| &it.delivered)).await?;
        looked_up += page.len();
        if looked_up > MAX_LOOKUPS {
            return Ok(None);
        }
    }
    // The lost deliveries are the first ones.
    let mut next = stream.delivered.map_or(Some(EntryId::MIN), EntryId::next);
    while let Some(from) = next {
        let page = stream::range(&mut servers.conn, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        let found = written_among(servers, &page).await?;
        written += found;
        looked_up += page.len();
        if found == 0 {
            break;
        }
        if looked_up > MAX_LOOKUPS {
            return Ok(None);
        }
    }
    Ok(Some(written))
}

async fn written_among<'a>(
    servers: &Servers,
    entries: impl IntoIterator<Item = &'a Delivered>,
) -> Result<u64> {
    let entries: Vec<OrderEntry> = entries.into_iter().filter_map(Delivered::order).collect();
    let ids: Vec<OrderId> = entries.iter().map(|entry| entry.order).collect();
    let orders = servers.store.orders_among(&ids).await?;
    // Not by ID alone: a bad entry may carry the ID of another user's order.
    let orders: HashSet<_> = orders.iter().map(|it| (it.id, it.user_id, it.voucher_id)).collect();
    let is_written = |it: &&OrderEntry| orders.contains(&(it.order, it.user, it.voucher));
    Ok(entries.iter().filter(is_written).count() as u64)
}

/// Reads the closed orders whose pieces are not returned, or were returned at `since` or later, and whether their buyers
/// hold them in Redis.
async fn read_returns(
    servers: &mut Servers,
    shards: &[ShardId],
    since: Millis,
) -> Result<Vec<(OrderId, bool)>> {
    let mut returns = Vec::new();
    for shard in shards {
        let mut after = None;
        loop {
            let page = servers.store.given_since(*shard, since, after, PAGE as u32).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            returns.extend(held(servers, &page).await?);
        }
    }
    Ok(returns)
}

async fn read_letters(servers: &mut Servers, of: &Partition) -> Result<BTreeSet<SaleOrder>> {
    let letters = ledger::dead_orders(&mut servers.conn, of).await?;
    Ok(letters.iter().map(SaleOrder::from).collect())
}

/// Returns these orders, each with whether its buyer holds it in Redis.
async fn held(servers: &mut Servers, orders: &[SaleOrder]) -> Result<Vec<(OrderId, bool)>> {
    let mut all = Vec::new();
    for (shard, orders) in group_by(orders, |order| order.sold_by()) {
        for page in orders.chunks(PAGE) {
            let held = servers.held(shard, page.iter().map(|order| order.place())).await?;
            let held =
                page.iter().zip(held).map(|(order, held)| (order.id, held == Some(order.id)));
            all.extend(held);
        }
    }
    Ok(all)
}

fn count_held(orders: &[(OrderId, bool)]) -> u64 {
    orders.iter().filter(|(_, held)| *held).count() as u64
}

/// Compares every live order of a partition with its buyer, and restores the buyers that Redis lacks: `done`.
///
/// # Errors
/// Of the first sale that could not be compared; the others were, unless SQL or the server of the partition is unreachable.
pub(crate) async fn compare(
    servers: &mut Servers,
    of: &Partition,
    done: &mut Reconciled,
) -> Result<()> {
    let mut first = Ok(());
    for sale in servers.sales_of(of).await? {
        match compare_sale(servers, sale.id, done).await {
            Err(error) if stops_all(servers, of, &error).await => return Err(error),
            compared => first = first.and(compared),
        }
    }
    first
}

async fn compare_sale(servers: &mut Servers, shard: ShardId, done: &mut Reconciled) -> Result<()> {
    for page in ledger::unknown_orders(servers, shard).await?.chunks(PAGE) {
        done.add(put_back(servers, shard, page).await?);
    }
    Ok(())
}
