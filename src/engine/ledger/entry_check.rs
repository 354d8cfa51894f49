//! Checks delivered entries: those that admission added are written as they are, all others only if a buyer in Redis
//! holds their order.
//!
//! The latter is certain only while the keys of the sale are consistent. Otherwise its buyers may be lost, or are being
//! rebuilt from the same stream: then an entry without a buyer waits.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use seckill_model::{
    Backing, EntryId, Message, OrderEntry, OrderError, OrderId, SaleState, ShardId,
};
use seckill_redis::{
    scripts,
    stream::{self, Body, Delivered},
};
use seckill_store::StoreError;

use crate::{
    Result, deployment::servers::Servers, ledger::promise_journal::InHand, lists::group_by,
};

/// Entries that become dead letters, each with the reason.
pub(crate) type Rejected = Vec<(EntryId, Message)>;

/// A batch, sorted by what can be done with its entries.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// To be written: added by admission, held by a buyer, or already in SQL.
    pub(crate) orders: Arc<Vec<OrderEntry>>,
    /// Dead letters.
    pub(crate) rejected: Rejected,
    /// Missing bodies; left pending, because their orders are unknown.
    pub(crate) gone: u64,
    /// Left pending until the buyers of their sale are known again.
    pub(crate) waiting: u64,
}

/// Looks up the buyers of entries, in their order: one round trip per shard, and another one if an entry has no
/// buyer.
pub(crate) async fn backing(servers: &mut Servers, orders: &[OrderEntry]) -> Result<Vec<Backing>> {
    let mut found = vec![Backing::Unknown; orders.len()];
    let by_shard = group_by(orders.iter().zip(&mut found), |(order, _)| order.sold_by());
    for (shard, mut looked_up) in by_shard {
        // Nearly all of them are promised, which requires no check of the other keys.
        let places = looked_up.iter().map(|(order, _)| order.place());
        // The script also handles a key of another type.
        if let Ok(held) = servers.held(shard, places).await {
            let mut held = held.into_iter();
            looked_up.retain_mut(|(order, backing)| {
                let promised = held.next().flatten() == Some(order.order);
                if promised {
                    **backing = Backing::Promised;
                }
                !promised
            });
        }
        if !looked_up.is_empty() {
            look_closer(servers, shard, looked_up).await?;
        }
    }
    Ok(found)
}

/// The same for entries of one shard, with a check whether its keys are consistent.
async fn look_closer(
    servers: &mut Servers,
    shard: ShardId,
    looked_up: Vec<(&OrderEntry, &mut Backing)>,
) -> Result<()> {
    let Servers { conn, keys, .. } = servers;
    let mut call = scripts::PROMISED.prepare_invoke();
    call.key(&keys.sale_keys(shard));
    for (order, _) in &looked_up {
        call.arg(order.place().to_string());
    }
    let (state, held): (String, Vec<Option<String>>) = conn.invoke(&call).await?;
    for ((order, backing), held) in looked_up.into_iter().zip(held) {
        *backing = match held.and_then(|id| id.parse::<OrderId>().ok()) {
            Some(id) if id == order.order => Backing::Promised,
            _ if state != "whole" => Backing::Unknown,
            Some(other) => Backing::Other(other),
            None => Backing::Nothing,
        };
    }
    Ok(())
}

/// Entries that another program may have added. The others come from scripts that add the buyer with the entry.
pub(crate) async fn unverified(
    servers: &mut Servers,
    orders: &[OrderEntry],
) -> Result<Vec<OrderEntry>> {
    let mut verified: BTreeMap<u16, Option<(EntryId, EntryId)>> = BTreeMap::new();
    let partitions: BTreeSet<u16> = orders.iter().map(|order| order.entry.partition).collect();
    for number in partitions {
        let of = servers.keys.partition(number);
        verified.insert(number, stream::verified(&mut servers.conn, &of).await?);
    }
    let is_verified = |order: &&OrderEntry| {
        let verified = verified.get(&order.entry.partition).copied().flatten();
        verified.is_some_and(|(after, last)| after < order.entry && order.entry <= last)
    };
    Ok(orders.iter().filter(|order| !is_verified(order)).copied().collect())
}

/// Sorts a batch, and registers its orders as `in_hand`: one round trip to Redis, one more per shard with unverified
/// entries, and a query to SQL only for entries without a buyer.
pub(crate) async fn check(
    servers: &mut Servers,
    in_hand: &InHand,
    batch: Vec<Delivered>,
) -> Result<Checked> {
    let mut checked = Checked::default();
    let mut all = Vec::with_capacity(batch.len());
    for delivered in batch {
        match delivered.body {
            Body::Good(order) => all.push(order),
            Body::Malformed(fault) => {
                checked.rejected.push((delivered.entry, Message::of(&OrderError::Fields(fault))));
            }
            Body::Gone => checked.gone += 1,
        }
    }
    let unverified = unverified(servers, &all).await?;
    let backing = backing(servers, &unverified).await?;
    let unbacked = unverified.into_iter().zip(backing).filter(|(_, it)| *it != Backing::Promised);
    let mut set_aside: HashSet<EntryId> = HashSet::new();
    for (shard, orders) in group_by(unbacked, |(order, _)| order.sold_by()) {
        // SQL has the row of an order that was closed or cancelled since.
        let written = servers.written(orders.iter().map(|(order, _)| order.order)).await?;
        let open: Vec<_> =
            orders.into_iter().filter(|(order, _)| !written.contains(&order.order)).collect();
        let mut archived = false;
        if open.iter().any(|(_, backing)| *backing == Backing::Unknown) {
            // Redis has neither archived nor nonexistent sales.
            match servers.store.shard(shard).await {
                Ok(sale) => archived = sale.state == SaleState::Archived,
                // The store returns an answer for each of them.
                Err(StoreError::NoSale(_)) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        for (order, backing) in open {
            set_aside.insert(order.entry);
            let fault = match backing {
                Backing::Other(holds) => {
                    OrderError::Holds { user: order.user, holds, voucher: order.voucher }
                }
                Backing::Unknown if !archived => {
                    checked.waiting += 1;
                    continue;
                }
                _ => OrderError::NotPromised,
            };
            checked.rejected.push((order.entry, Message::of(&fault)));
        }
    }
    if !set_aside.is_empty() {
        all.retain(|order| !set_aside.contains(&order.entry));
    }
    checked.orders = in_hand.take(all);
    Ok(checked)
}
