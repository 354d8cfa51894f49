//! Batches of orders: their rows, and the result of each. This file accesses no database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seckill_model::{ClosedOrder, OrderEntry, OrderId};

use super::{
    Cancelled, Reason, StoreError, Written,
    rows::{number, voucher_key},
};

/// Order, user, voucher and slot, which identify an order.
pub(super) type Key = (i64, i64, i64, i64);

/// The rows of a batch, checked to be in range.
pub(super) fn keys(entries: &[OrderEntry]) -> Result<Vec<Key>, StoreError> {
    entries.iter().map(key).collect()
}

/// The same for one order.
pub(super) fn key(entry: &OrderEntry) -> Result<Key, StoreError> {
    let (user, voucher) = (number(entry.user.0)?, voucher_key(entry.voucher)?);
    Ok((entry.order.as_i64(), user, voucher, i64::from(entry.place)))
}

/// The row of a closed order.
pub(super) fn closed_key(order: &ClosedOrder) -> Key {
    let ClosedOrder { id, user_id, voucher_id, place } = order;
    (id.as_i64(), user_id.0 as i64, voucher_id.0 as i64, i64::from(*place))
}

/// The IDs of a batch.
pub(super) fn ids(keys: &[Key]) -> Vec<i64> {
    keys.iter().map(|(order, ..)| *order).collect()
}

/// How many pieces the rows take, by voucher: sales are always locked in this order.
pub(super) fn pieces(keys: &[Key]) -> BTreeMap<i64, i64> {
    let mut pieces = BTreeMap::new();
    for (_, _, voucher, _) in keys {
        *pieces.entry(*voucher).or_default() += 1;
    }
    pieces
}

/// User, voucher and slot.
type SlotKey = (i64, i64, i64);

/// The vouchers of a batch, by ID.
pub(super) fn vouchers(keys: &[Key]) -> BTreeSet<i64> {
    keys.iter().map(|(_, _, voucher, _)| *voucher).collect()
}

/// Rows that conflict with entries of a batch.
#[derive(Debug, Default)]
pub(super) struct ExistingRows {
    sales: BTreeSet<i64>,
    orders: HashMap<i64, SlotKey>,
    live: HashMap<SlotKey, i64>,
}

impl ExistingRows {
    /// From the existing sales, the rows with the batch's IDs, and the live rows in its slots.
    pub(super) fn new(
        sales: BTreeSet<i64>,
        orders: impl IntoIterator<Item = Key>,
        live: impl IntoIterator<Item = Key>,
    ) -> Self {
        let slot = |(order, user, voucher, place)| (order, (user, voucher, place));
        Self {
            sales,
            orders: orders.into_iter().map(slot).collect(),
            live: live.into_iter().map(slot).map(|(order, slot)| (slot, order)).collect(),
        }
    }

    /// Adds the new orders of a batch and returns their rows; [`Self::answers`] has the results of the others.
    pub(super) fn take_in(&mut self, keys: &[Key]) -> Result<Vec<Key>, StoreError> {
        let mut new = Vec::new();
        for key @ (order, user, voucher, place) in keys {
            if self.answer(key)? == Written::New {
                let slot = (*user, *voucher, *place);
                self.orders.insert(*order, slot);
                self.live.insert(slot, *order);
                new.push(*key);
            }
        }
        Ok(new)
    }

    /// The results of a batch of which `new` was inserted. Of a duplicate entry, the first one took the row.
    pub(super) fn answers(&self, keys: &[Key], new: Vec<Key>) -> Result<Vec<Written>, StoreError> {
        let mut new: HashSet<Key> = new.into_iter().collect();
        let answer = |key: &Key| match self.answer(key)? {
            _ if new.remove(key) => Ok(Written::New),
            // Not the fault of this order, so it is retried.
            Written::New => Err(StoreError::Away(Reason::NotWritten(key.0))),
            answer => Ok(answer),
        };
        keys.iter().map(answer).collect()
    }

    /// The results of entries that are not written: each as if it were alone.
    pub(super) fn foresee(&self, keys: &[Key]) -> Result<Vec<Written>, StoreError> {
        keys.iter().map(|key| self.answer(key)).collect()
    }

    fn answer(&self, (order, user, voucher, place): &Key) -> Result<Written, StoreError> {
        if !self.sales.contains(voucher) {
            return Ok(Written::NoSale);
        }
        let slot = (*user, *voucher, *place);
        Ok(match (self.orders.get(order), self.live.get(&slot)) {
            (Some(owner), _) if *owner == slot => Written::Again,
            (Some(_), _) => Written::IdTaken,
            (None, Some(holds)) => match OrderId::from_i64(*holds) {
                Some(holds) => Written::Conflict { holds },
                None => {
                    let damaged = Reason::Damaged("id".to_owned(), holds.to_string());
                    return Err(StoreError::Away(damaged));
                }
            },
            (None, None) => Written::New,
        })
    }
}

/// The results of cancelling orders, and the rows to insert. `orders` are the rows with their IDs, and whether each is
/// live.
pub(super) fn cancellations(
    keys: &[Key],
    sales: &BTreeSet<i64>,
    mut orders: HashMap<i64, (Key, bool)>,
) -> (Vec<Key>, Vec<Cancelled>) {
    let mut new = Vec::new();
    let answers = keys
        .iter()
        .map(|key| match orders.get(&key.0) {
            Some((other, _)) if other != key => Cancelled::IdTaken,
            Some((_, true)) => Cancelled::Live,
            Some((_, false)) => Cancelled::Before,
            None if !sales.contains(&key.2) => Cancelled::NoSale,
            None => {
                // A duplicate order is cancelled once.
                orders.insert(key.0, (*key, false));
                new.push(*key);
                Cancelled::Now
            }
        })
        .collect();
    (new, answers)
}
