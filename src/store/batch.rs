//! Batches of orders: their rows, and the result of each. This file accesses no database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seckill_model::{OrderEntry, OrderId, OrderStatus, SaleOrder, reason};
use serde::{Serialize, Serializer};

use crate::{
    Cancelled, Result, StoreError, Written,
    rules::{number, voucher_key},
};

/// Most IDs or rows per statement: pages keep one call from occupying a connection for seconds.
pub(super) const PAGE: usize = 10_000;

/// An order of a batch, as stored in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OrderRow {
    pub(super) id: i64,
    pub(super) user_id: i64,
    pub(super) voucher_id: i64,
    /// The shard that sold it; 0 if the sale is not spread.
    pub(super) shard: i64,
    pub(super) buyer_place: i64,
}

/// The columns of [`OrderRow`] with their types, in the order of its JSON.
pub(super) const COLUMNS: [(&str, &str); 5] = [
    ("id", "BIGINT"),
    ("user_id", "BIGINT"),
    ("voucher_id", "BIGINT"),
    ("shard", "BIGINT"),
    ("buyer_place", "BIGINT"),
];

/// Formats each column by its position, name and type, separated by commas.
pub(super) fn columns(format: impl Fn(usize, &str, &str) -> String) -> String {
    let columns = COLUMNS.iter().enumerate().map(|(at, (name, kind))| format(at, name, kind));
    columns.collect::<Vec<_>>().join(", ")
}

/// The names of the columns, separated by commas.
pub(super) fn names() -> String {
    columns(|_, name, _| name.to_owned())
}

/// A JSON array, which is shorter than an object.
impl Serialize for OrderRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, user_id, voucher_id, shard, buyer_place } = self;
        (id, user_id, voucher_id, shard, buyer_place).serialize(serializer)
    }
}

impl TryFrom<&OrderEntry> for OrderRow {
    type Error = StoreError;

    fn try_from(entry: &OrderEntry) -> Result<Self> {
        (&SaleOrder::from(entry)).try_into()
    }
}

impl TryFrom<&SaleOrder> for OrderRow {
    type Error = StoreError;

    fn try_from(order: &SaleOrder) -> Result<Self> {
        Ok(Self {
            id: order.id.as_i64(),
            user_id: number(order.user_id.0)?,
            voucher_id: voucher_key(order.voucher_id)?,
            shard: order.shard.into(),
            buyer_place: order.place.into(),
        })
    }
}

impl OrderRow {
    /// The shard whose stock it takes.
    pub(super) fn sold_by(&self) -> ShardKey {
        (self.voucher_id, self.shard)
    }

    /// What only one live order may hold.
    fn slot(&self) -> Slot {
        (self.user_id, self.voucher_id, self.buyer_place)
    }
}

/// User, voucher and place.
type Slot = (i64, i64, i64);

/// Voucher and shard.
pub(super) type ShardKey = (i64, i64);

/// The rows of a batch, checked to be in range.
pub(super) fn rows(entries: &[OrderEntry]) -> Result<Vec<OrderRow>> {
    entries.iter().map(OrderRow::try_from).collect()
}

/// The IDs of a batch.
pub(super) fn ids(rows: &[OrderRow]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

/// How many pieces the rows take, by shard.
pub(super) fn pieces(rows: &[OrderRow]) -> BTreeMap<ShardKey, i64> {
    let mut pieces = BTreeMap::new();
    for row in rows {
        *pieces.entry(row.sold_by()).or_default() += 1;
    }
    pieces
}

/// The shards of a batch.
pub(super) fn shards(rows: &[OrderRow]) -> BTreeSet<ShardKey> {
    rows.iter().map(OrderRow::sold_by).collect()
}

/// Rows that conflict with orders of a batch.
#[derive(Debug)]
pub(super) struct ExistingRows {
    shards: BTreeSet<ShardKey>,
    orders: HashMap<i64, Slot>,
    live: HashMap<Slot, i64>,
}

impl ExistingRows {
    /// From the existing shards, the rows with the batch's IDs, and the live rows at its places.
    pub(super) fn new(
        shards: BTreeSet<ShardKey>,
        orders: impl IntoIterator<Item = OrderRow>,
        live: impl IntoIterator<Item = OrderRow>,
    ) -> Self {
        Self {
            shards,
            orders: orders.into_iter().map(|row| (row.id, row.slot())).collect(),
            live: live.into_iter().map(|row| (row.slot(), row.id)).collect(),
        }
    }

    /// Adds the new orders of a batch and returns their rows; [`Self::answers`] has the results of the others.
    pub(super) fn take_in(&mut self, rows: &[OrderRow]) -> Vec<OrderRow> {
        let mut new = Vec::new();
        for row in rows {
            if self.answer(row) == Written::New {
                self.orders.insert(row.id, row.slot());
                self.live.insert(row.slot(), row.id);
                new.push(*row);
            }
        }
        new
    }

    /// The results of a batch of which `new` was inserted. Of a duplicate order, the first one took the row.
    pub(super) fn answers(&self, rows: &[OrderRow], new: Vec<OrderRow>) -> Result<Vec<Written>> {
        let mut new: HashSet<OrderRow> = new.into_iter().collect();
        let answer = |row: &OrderRow| match self.answer(row) {
            _ if new.remove(row) => Ok(Written::New),
            Written::New => Err(unwritten(row)),
            answer => Ok(answer),
        };
        rows.iter().map(answer).collect()
    }

    /// The results of orders that are not written: each as if it were alone.
    pub(super) fn foresee(&self, rows: &[OrderRow]) -> Vec<Written> {
        rows.iter().map(|row| self.answer(row)).collect()
    }

    fn answer(&self, row: &OrderRow) -> Written {
        if !self.shards.contains(&row.sold_by()) {
            return Written::NoSale;
        }
        match (self.orders.get(&row.id), self.live.get(&row.slot())) {
            (Some(owner), _) if *owner == row.slot() => Written::Again,
            (Some(_), _) => Written::IdTaken,
            (None, Some(holds)) => OrderId::from_i64(*holds)
                .map_or(Written::Foreign { row: *holds }, |holds| Written::Conflict { holds }),
            (None, None) => Written::New,
        }
    }
}

/// Buyers to try an order with in place of `user`: first those with similar IDs, whose orders have similar values.
pub(super) fn other_buyers(user: i64) -> [i64; 3] {
    let near = || user.saturating_add(rand::random_range(1..1_000_000));
    [near(), near(), i64::MAX - rand::random_range(1..1_000_000)]
}

/// An ID near that of an order, which none is given: the sequence of a day does not come that far.
pub(super) fn unused_id(id: i64) -> i64 {
    (id | 0xffff_ffff) - rand::random_range(0..1_000_000)
}

/// A unique index that this program does not know has rejected a row of a batch.
pub(super) fn unwritten(row: &OrderRow) -> StoreError {
    let order = row.id.to_string();
    StoreError::Failed(reason!("store-order-was-not-written", order))
}

/// The results of cancelling orders, and the rows to insert. `existing` are the rows with their IDs.
pub(super) fn cancellations(
    rows: &[OrderRow],
    shards: &BTreeSet<ShardKey>,
    existing: Vec<(OrderRow, OrderStatus)>,
) -> (Vec<OrderRow>, Vec<Cancelled>) {
    let existing = existing.into_iter();
    let mut existing: HashMap<i64, (Slot, bool)> =
        existing.map(|(row, status)| (row.id, (row.slot(), status.is_live()))).collect();
    let mut new = Vec::new();
    let answers = rows
        .iter()
        .map(|row| match existing.get(&row.id) {
            Some((slot, _)) if *slot != row.slot() => Cancelled::IdTaken,
            Some((_, true)) => Cancelled::Live,
            Some((_, false)) => Cancelled::Before,
            None if !shards.contains(&row.sold_by()) => Cancelled::NoSale,
            None => {
                // A duplicate order is cancelled once.
                existing.insert(row.id, (row.slot(), false));
                new.push(*row);
                Cancelled::Now
            }
        })
        .collect();
    (new, answers)
}
