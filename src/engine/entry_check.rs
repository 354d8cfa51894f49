//! Checks delivered entries: those that admission added are written as they are, all others only if a buyer in Redis
//! holds their order.
//!
//! The latter is certain only while the keys of the sale are consistent. Otherwise its buyers may be lost, or are being
//! rebuilt from this very stream: then an entry without a buyer waits.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map},
    sync::Arc,
};

use redis::cmd;
use seckill_model::{EntryId, Message, OrderEntry, OrderFault, OrderId, SaleState, VoucherId};
use seckill_redis::{
    Connection, Layout, scripts,
    stream::{self, Body, Delivered},
};
use seckill_store::{SharedStore, StoreError};

use super::{EngineError, promise_journal::InHand};

/// Entries that become dead letters, each with the reason.
pub(super) type Rejected = Vec<(EntryId, Message)>;

/// A batch, sorted by what can be done with its entries.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// To be written: added by admission, held by a buyer, or already in SQL.
    pub(super) orders: Arc<Vec<OrderEntry>>,
    /// Dead letters.
    pub(super) rejected: Rejected,
    /// Missing bodies; left pending, because their orders are unknown.
    pub(super) gone: u64,
    /// Left pending until the buyers of their sale are known again.
    pub(super) waiting: u64,
}

/// What Redis knows of the buyer of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// The buyer holds this order.
    Promised,
    /// The buyer holds another order at this place.
    Other(OrderId),
    /// There is no such buyer.
    Nothing,
    /// The buyers of the sale are unknown: it is not loaded, or its keys are inconsistent.
    Unknown,
}

/// Looks up the buyers of entries, in their order: one round trip per voucher, and another one if an entry has no
/// buyer.
///
/// # Errors
/// Redis is unreachable.
pub(super) async fn backing(
    conn: &mut Connection,
    keys: &Layout,
    orders: &[OrderEntry],
) -> Result<Vec<Backing>, EngineError> {
    let mut found = vec![Backing::Unknown; orders.len()];
    let mut by_voucher: BTreeMap<VoucherId, Vec<usize>> = BTreeMap::new();
    for (index, order) in orders.iter().enumerate() {
        by_voucher.entry(order.voucher).or_default().push(index);
    }
    for (voucher, mut indexes) in by_voucher {
        // Nearly all of them are promised, which needs no check of the other keys.
        let mut read = cmd("HMGET");
        read.arg(keys.buyers(voucher));
        for order in indexes.iter().filter_map(|index| orders.get(*index)) {
            read.arg(order.seat().to_string());
        }
        // The script handles values that are not order IDs.
        if let Ok(held) = conn.query::<Vec<Option<u64>>>(&read).await {
            let mut held = held.into_iter();
            indexes.retain(|index| {
                let order = orders.get(*index).map(|order| order.order.get());
                let promised = held.next().flatten().is_some_and(|held| Some(held) == order);
                if let Some(slot) = found.get_mut(*index).filter(|_| promised) {
                    *slot = Backing::Promised;
                }
                !promised
            });
        }
        if !indexes.is_empty() {
            look_closer(conn, keys, voucher, orders, &indexes, &mut found).await?;
        }
    }
    Ok(found)
}

/// The same for entries of one voucher, with a check whether its keys are consistent.
async fn look_closer(
    conn: &mut Connection,
    keys: &Layout,
    voucher: VoucherId,
    orders: &[OrderEntry],
    indexes: &[usize],
    found: &mut [Backing],
) -> Result<(), EngineError> {
    let mut call = scripts::PROMISED.prepare_invoke();
    call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
    let asked = || indexes.iter().filter_map(|index| Some((*index, orders.get(*index)?)));
    for (_, order) in asked() {
        call.arg(order.seat().to_string());
    }
    let (state, held): (String, Vec<Option<String>>) = conn.invoke(&call).await?;
    for ((index, order), held) in asked().zip(held) {
        let backing = match held.and_then(|id| id.parse::<OrderId>().ok()) {
            Some(id) if id == order.order => Backing::Promised,
            _ if state != "whole" => Backing::Unknown,
            Some(other) => Backing::Other(other),
            None => Backing::Nothing,
        };
        if let Some(slot) = found.get_mut(index) {
            *slot = backing;
        }
    }
    Ok(())
}

/// Entries that another program may have added. The others come from scripts that add the buyer with the entry.
///
/// # Errors
/// Redis is unreachable.
pub(super) async fn unverified(
    conn: &mut Connection,
    keys: &Layout,
    orders: &[OrderEntry],
) -> Result<Vec<OrderEntry>, EngineError> {
    let mut verified: HashMap<u16, Option<(EntryId, EntryId)>> = HashMap::new();
    for order in orders {
        if let hash_map::Entry::Vacant(unknown) = verified.entry(order.entry.partition) {
            let of = keys.partition(order.entry.partition);
            unknown.insert(stream::verified(conn, &of).await?);
        }
    }
    let is_verified = |order: &&OrderEntry| {
        let verified = verified.get(&order.entry.partition).copied().flatten();
        verified.is_some_and(|(after, last)| after < order.entry && order.entry <= last)
    };
    Ok(orders.iter().filter(|order| !is_verified(order)).copied().collect())
}

/// Sorts a batch, and registers its orders as `in_hand`: one round trip to Redis, one more per voucher with unverified
/// entries, and a query to SQL only for entries without a buyer.
///
/// # Errors
/// A server is unreachable.
pub(super) async fn check(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    in_hand: &InHand,
    batch: Vec<Delivered>,
) -> Result<Checked, EngineError> {
    let mut checked = Checked::default();
    let mut unbacked: BTreeMap<VoucherId, Vec<(OrderEntry, Backing)>> = BTreeMap::new();
    let mut all = Vec::with_capacity(batch.len());
    for delivered in batch {
        match delivered.body {
            Body::Good(order) => all.push(order),
            Body::Malformed(fault) => {
                checked.rejected.push((delivered.entry, Message::of(&OrderFault::Fields(fault))));
            }
            Body::Gone => checked.gone += 1,
        }
    }
    let unverified = unverified(conn, keys, &all).await?;
    let backing = backing(conn, keys, &unverified).await?;
    for (order, backing) in unverified.into_iter().zip(backing) {
        if backing != Backing::Promised {
            unbacked.entry(order.voucher).or_default().push((order, backing));
        }
    }
    if unbacked.is_empty() {
        checked.orders = in_hand.take(all);
        return Ok(checked);
    }
    let mut set_aside: HashSet<EntryId> = HashSet::new();
    for (voucher, orders) in unbacked {
        // SQL has the row of an order that was closed or cancelled meanwhile.
        let ids: Vec<OrderId> = orders.iter().map(|(order, _)| order.order).collect();
        let written: HashSet<OrderId> = store.existing(&ids).await?.into_iter().collect();
        let open: Vec<_> =
            orders.into_iter().filter(|(order, _)| !written.contains(&order.order)).collect();
        let mut archived = false;
        if open.iter().any(|(_, backing)| *backing == Backing::Unknown) {
            // Redis holds neither archived nor nonexistent sales.
            match store.sale(voucher).await {
                Ok(sale) => archived = sale.state == SaleState::Archived,
                // The store returns an answer for each of them.
                Err(StoreError::NoSale(_)) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        for (order, backing) in open {
            set_aside.insert(order.entry);
            let fault = match backing {
                Backing::Other(holds) => OrderFault::Holds { user: order.user, holds, voucher },
                Backing::Unknown if !archived => {
                    checked.waiting += 1;
                    continue;
                }
                _ => OrderFault::NotPromised,
            };
            checked.rejected.push((order.entry, Message::of(&fault)));
        }
    }
    all.retain(|order| !set_aside.contains(&order.entry));
    checked.orders = in_hand.take(all);
    Ok(checked)
}
