//! Rows of all dialects, and their conversion to types of the model. This file accesses no database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seckill_model::{
    ClosedOrder, JobOutcome, JobRun, LiveOrder, Message, Millis, Order, OrderCounts, OrderEntry,
    OrderId, OrderStatus, Sale, SaleState, UserId, Voucher, VoucherDetails, VoucherId,
    VoucherStatus, ledger::SqlLedger,
};

use super::{Act, Cancelled, Reason, Recorded, SaleRule, StoreError, Written};

/// `tb_voucher.type` of a voucher without stock or window.
pub(super) const ORDINARY: i64 = 0;
/// `tb_voucher.type` of a voucher with a sale.
pub(super) const FLASH_SALE: i64 = 1;

/// Order, user, voucher and slot, which identify an order.
pub(super) type Key = (i64, i64, i64, i64);

/// The rows of a batch, checked to be in range.
pub(super) fn keys(entries: &[OrderEntry]) -> Result<Vec<Key>, StoreError> {
    entries.iter().map(key).collect()
}

/// The same for one order.
pub(super) fn key(entry: &OrderEntry) -> Result<Key, StoreError> {
    let user = user_key(entry.user)?;
    Ok((entry.order.as_i64(), user, voucher_key(entry.voucher)?, i64::from(entry.place)))
}

/// Order, user and voucher of a purchase.
pub(super) type Purchase = (i64, i64, i64);

pub(super) fn purchase(
    order: OrderId,
    user: UserId,
    voucher: VoucherId,
) -> Result<Purchase, StoreError> {
    let beyond = |_| StoreError::Rule(SaleRule::NoVoucher(voucher));
    Ok((order.as_i64(), user_key(user)?, voucher_key(voucher).map_err(beyond)?))
}

/// A user ID as stored in SQL.
pub(super) fn user_key(user: UserId) -> Result<i64, StoreError> {
    i64::try_from(user.0).map_err(|_| StoreError::Refused(Reason::TooLarge(user.0)))
}

/// A voucher ID as stored in SQL; one out of range cannot exist.
pub(super) fn voucher_key(voucher: VoucherId) -> Result<i64, StoreError> {
    i64::try_from(voucher.0).map_err(|_| StoreError::NoSale(voucher))
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

    /// Adds the new orders of a batch and returns their rows; [`Self::of`] has the results of the others.
    pub(super) fn take_in(&mut self, keys: &[Key]) -> Vec<Key> {
        let mut new = Vec::new();
        for key @ (order, user, voucher, place) in keys {
            let slot = (*user, *voucher, *place);
            if !self.sales.contains(voucher) {
                continue;
            }
            if !self.orders.contains_key(order) && !self.live.contains_key(&slot) {
                self.orders.insert(*order, slot);
                self.live.insert(slot, *order);
                new.push(*key);
            }
        }
        new
    }

    /// The results of a batch of which `new` was inserted. Of a duplicate entry, the first one took the row.
    pub(super) fn answers(&self, keys: &[Key], new: Vec<Key>) -> Result<Vec<Written>, StoreError> {
        let mut new: HashSet<Key> = new.into_iter().collect();
        keys.iter()
            .map(|key| if new.remove(key) { Ok(Written::New) } else { self.of(*key) })
            .collect()
    }

    /// The results of entries that are not written: each as if it were alone.
    pub(super) fn foresee(&self, keys: &[Key]) -> Result<Vec<Written>, StoreError> {
        let free = |(order, user, voucher, place): &Key| {
            self.sales.contains(voucher)
                && !self.orders.contains_key(order)
                && !self.live.contains_key(&(*user, *voucher, *place))
        };
        keys.iter().map(|key| if free(key) { Ok(Written::New) } else { self.of(*key) }).collect()
    }

    fn of(&self, (order, user, voucher, place): Key) -> Result<Written, StoreError> {
        if !self.sales.contains(&voucher) {
            return Ok(Written::NoSale);
        }
        let slot = (user, voucher, place);
        match (self.orders.get(&order), self.live.get(&slot)) {
            (Some(owner), _) if *owner == slot => Ok(Written::Again),
            (Some(_), _) => Ok(Written::IdTaken),
            (None, Some(holds)) => match OrderId::from_i64(*holds) {
                Some(holds) => Ok(Written::Conflict { holds }),
                None => Err(StoreError::Away(damaged("tb_voucher_order", *holds))),
            },
            // Not the fault of this order, so it is retried.
            (None, None) => Err(StoreError::Away(Reason::NotWritten(order))),
        }
    }
}

/// The results of cancelling orders, and the rows to insert. `existing` are the rows with their IDs, each with its
/// status.
pub(super) fn cancellations(
    keys: &[Key],
    sales: &BTreeSet<i64>,
    existing: Vec<(i64, i64, i64, i64, i64)>,
) -> (Vec<Key>, Vec<Cancelled>) {
    let mut orders: HashMap<i64, (Key, bool)> = existing
        .into_iter()
        .map(|(order, user, voucher, place, status)| {
            let live = OrderStatus::from_code(status).is_some_and(OrderStatus::is_live);
            (order, ((order, user, voucher, place), live))
        })
        .collect();
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

/// Whether some orders of a batch already existed.
pub(super) fn is_mixed(written: &[Written]) -> bool {
    written.iter().any(|one| *one != Written::New)
}

/// An order ID as stored in SQL.
pub(super) fn order_id(raw: i64) -> Result<OrderId, StoreError> {
    OrderId::from_i64(raw).ok_or_else(|| StoreError::Refused(damaged("tb_voucher_order", raw)))
}

/// Constraints of the tables keep these numbers nonnegative.
pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn damaged(table: &'static str, row: i64) -> Reason {
    Reason::Damaged(table.into(), row)
}

fn status_of(code: i64) -> Result<OrderStatus, StoreError> {
    OrderStatus::from_code(code).ok_or(StoreError::Refused(Reason::UnknownStatus(code)))
}

/// Number of orders by status.
pub(super) fn order_counts(rows: Vec<(i64, i64)>) -> Result<OrderCounts, StoreError> {
    let mut counts = OrderCounts::default();
    for (status, orders) in rows {
        counts.add(status_of(status)?, count(orders));
    }
    Ok(counts)
}

/// Number of orders by buyer.
pub(super) fn buyers(rows: Vec<(i64, i64)>) -> Vec<(UserId, u64)> {
    rows.into_iter().map(|(user, orders)| (UserId(user as u64), count(orders))).collect()
}

/// ID, user, voucher, slot, status, and times of creation, payment and closing.
pub(super) type OrderRow = (i64, i64, i64, Option<i64>, i64, i64, Option<i64>, Option<i64>);

pub(super) fn order(row: OrderRow) -> Result<Order, StoreError> {
    let (id, user, voucher, place, status, created, paid, closed) = row;
    let id = order_id(id)?;
    let status = status_of(status)?;
    Ok(Order {
        id,
        user_id: UserId(user as u64),
        voucher_id: VoucherId(voucher as u64),
        place: place.map(|place| u8::try_from(place).unwrap_or(1)),
        status,
        create_time: Millis(created),
        pay_time: paid.map(Millis),
        close_time: closed.map(Millis),
    })
}

pub(super) fn live_order((id, user, place): (i64, i64, i64)) -> Result<LiveOrder, StoreError> {
    let (user_id, place) = (UserId(user as u64), u8::try_from(place).unwrap_or(1));
    Ok(LiveOrder { id: order_id(id)?, user_id, place })
}

pub(super) fn closed_order((id, user, voucher, place): Key) -> Result<ClosedOrder, StoreError> {
    Ok(ClosedOrder {
        id: order_id(id)?,
        user_id: UserId(user as u64),
        voucher_id: VoucherId(voucher as u64),
        place: u8::try_from(place).unwrap_or(1),
    })
}

/// Voucher, title, initial, stock, begin, end, state, version, limit, times of change and archiving.
pub(super) type SaleRow =
    (i64, String, i64, i64, Option<i64>, Option<i64>, String, i64, i64, i64, Option<i64>, i64, i64);

pub(super) fn sale(row: SaleRow) -> Result<Sale, StoreError> {
    let (
        voucher,
        title,
        initial,
        stock,
        begin,
        end,
        state,
        version,
        limit,
        changed,
        archived,
        delivered,
        created,
    ) = row;
    let state: SaleState =
        state.parse().map_err(|_| StoreError::Refused(damaged("tb_seckill_voucher", voucher)))?;
    Ok(Sale {
        voucher_id: VoucherId(count(voucher)),
        title,
        initial: count(initial),
        stock: count(stock),
        begin: begin.map(Millis),
        end: end.map(Millis),
        state: if archived.is_some() { SaleState::Archived } else { state },
        limit: u8::try_from(limit).unwrap_or(1),
        changed: Millis(changed),
        version: count(version),
        delivered: count(delivered),
        created: Millis(created),
    })
}

/// Values of a restored sale, checked to be in range.
pub(super) struct Adopted {
    pub(super) voucher: i64,
    pub(super) initial: i64,
    pub(super) begin: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) state: &'static str,
    pub(super) version: i64,
}

pub(super) fn adopted(sale: &Sale) -> Result<Adopted, StoreError> {
    let fits = |number: u64| {
        i64::try_from(number).map_err(|_| StoreError::Refused(Reason::TooLarge(number)))
    };
    Ok(Adopted {
        voucher: voucher_key(sale.voucher_id)?,
        initial: fits(sale.initial)?,
        begin: sale.begin.map(|it| it.0),
        end: sale.end.map(|it| it.0),
        state: sale.state.as_str(),
        version: fits(sale.version)?,
    })
}

/// ID, type, title, shop, subtitle, rules, price, face value, status.
pub(super) type VoucherRow =
    (i64, i64, String, Option<i64>, Option<String>, Option<String>, i64, i64, i64);

pub(super) fn voucher(row: VoucherRow) -> Result<Voucher, StoreError> {
    let (id, kind, title, shop, sub_title, rules, pay, actual, status) = row;
    let status = VoucherStatus::from_code(status)
        .ok_or_else(|| StoreError::Refused(damaged("tb_voucher", id)))?;
    let (pay_value, actual_value) = (count(pay), count(actual));
    let shop_id = shop.map(count);
    let details =
        VoucherDetails { title, shop_id, sub_title, rules, pay_value, actual_value, status };
    Ok(Voucher { id: VoucherId(count(id)), ordinary: kind == ORDINARY, details })
}

/// Shop, price and face value as stored in SQL.
pub(super) fn voucher_numbers(
    details: &VoucherDetails,
) -> Result<(Option<i64>, i64, i64), StoreError> {
    let number = |number: u64| {
        i64::try_from(number).map_err(|_| StoreError::Refused(Reason::TooLarge(number)))
    };
    let shop = details.shop_id.map(number).transpose()?;
    Ok((shop, number(details.pay_value)?, number(details.actual_value)?))
}

/// Initial, stock, live, closed, doubled, returning.
pub(super) type LedgerRow = (i64, i64, i64, i64, i64, i64);

pub(super) fn ledger((initial, stock, live, closed, doubled, returning): LedgerRow) -> SqlLedger {
    SqlLedger {
        initial: count(initial),
        stock,
        live: count(live),
        closed: count(closed),
        doubled: count(doubled),
        returning: count(returning),
    }
}

/// ID, job, due, cause, node, started, duration, outcome, detail, rows.
pub(super) type RunRow =
    (i64, String, i64, String, String, i64, Option<i64>, String, Option<String>, Option<i64>);

pub(super) fn run(row: RunRow) -> Result<JobRun, StoreError> {
    let (id, job, due, cause, node, started, took_ms, outcome, detail, rows) = row;
    let damaged = |_| StoreError::Refused(damaged("tb_job_run", id));
    let count = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    Ok(JobRun {
        id,
        job,
        due: Millis(due),
        cause: cause.parse().map_err(damaged)?,
        node,
        started: Millis(started),
        took_ms: count(took_ms),
        outcome: outcome.parse::<JobOutcome>().map_err(damaged)?,
        detail: detail.map(Message::from_stored),
        rows: count(rows),
    })
}

/// A line of the audit log: number, time, operator, node, command, subject, reason, result, figures before and after,
/// and its unique value.
pub(super) type ActRow = (
    i64,
    i64,
    String,
    String,
    String,
    String,
    Option<String>,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);

pub(super) fn recorded(row: ActRow) -> Recorded {
    let (id, at, operator, node, act, subject, reason, result, before, after, once) = row;
    let (at, subject, result) =
        (Millis(at), Message::from_stored(subject), Message::from_stored(result));
    let act = Act { at, operator, node, act, subject, reason, result, before, after, once };
    Recorded { id, act }
}
