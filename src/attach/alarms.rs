//! Alarms of a report, and the differences that must last before they are one.
//!
//! What the faults of the tutorials leave in Redis or SQL, and the alarm that finds it:
//!
//! | fault | trace | alarm |
//! | --- | --- | --- |
//! | order IDs from local time | the IDs of all newest entries are the same number of hours away from their entries, or one is in the future | [`Alarm::LocalTimeIds`], [`Alarm::FutureIds`] |
//! | two order IDs for one purchase | the live order of the user of an entry has another ID | [`Alarm::OrderIdsDiffer`] |
//! | a paid order closed | closed as not paid, with a time of payment | [`Alarm::PaidOrderClosed`] |
//! | a new consumer name at each start | silent consumers with nothing pending | [`Alarm::IdleConsumers`] |
//! | day keys that never expire | the counter of the day has no TTL | [`Alarm::CounterStays`] |
//! | stock loaded inside a transaction that was rolled back | a stock key without a row of its sale | [`Alarm::StockWithoutSale`] |
//! | the dates never reach Redis | recent entries outside the dates of their sale | [`Alarm::OrdersOutsideDates`] |
//! | sale not loaded, or keys lost | a running sale without a stock key | [`Alarm::SaleNotLoaded`] |
//! | a migration that was killed | the renamed stock of a sale, or the record of its return | [`Alarm::SaleBetween`] |
//! | stock of a sale that has moved to an engine loaded again | its stock key beside its mark | [`Alarm::MovedSaleLoaded`] |
//! | queue overflow or loss after admission, stream trimmed, lock not got, missing SQL stock, all acknowledged | a buyer with neither order nor entry | [`Alarm::BuyersWithoutOrder`] |
//! | a user buys again after an order was closed, and the check for orders counts closed ones | a buyer whose only orders are closed | [`Alarm::BuyersWithClosedOrder`] |
//! | group created at `$` or late | the same: the entries that it skips are no longer in flight | [`Alarm::BuyersWithoutOrder`] |
//! | no group, or no stream | neither exists | [`Alarm::NoGroup`], [`Alarm::NoStream`] |
//! | acknowledged in a wrong stream, no claim from a dead or renamed consumer | entries stay pending | [`Alarm::StuckPending`], [`Alarm::Redelivered`] |
//! | poison, body gone | an entry that cannot be read | [`Alarm::PoisonEntries`] |
//! | an order that can never be written | an entry that a recovery has set aside | [`Alarm::DeadLetters`] |
//! | no trimming | a long stream from which no entry was ever removed | [`Alarm::StreamNotTrimmed`] |
//! | stock check without effect | negative stock, or more orders than pieces | [`Alarm::Oversold`] |
//! | lock per object, lock released before COMMIT | two live orders of a user | [`Alarm::DuplicateOrders`] |
//! | a closed order returns its piece in SQL only, or twice there | the stocks differ | [`Alarm::StockMismatch`] |
//! | a closed order never returns its piece | pieces and orders add up to another number on each side | [`Alarm::PiecesDiffer`] |
//! | lease forgotten; lock never released | a lock without TTL; one owner for too long | [`Alarm::LockWithoutLease`], [`Alarm::LockNotReleased`] |
//!
//! No trace, so no alarm: several instances that are all `c1` (a group has one row per name); a piece that went back twice
//! on both sides, unless the profile names `sale.initial`; a lock that was released by another owner; a job that ran twice;
//! an undeclared key; KEYS; errors that are swallowed.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::Hash,
};

use seckill_model::{ForeignKey, Millis, Reason, Urgency, VoucherId, reason, text};
use serde::Serialize;

/// A condition that needs attention; the most urgent first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "alarm", rename_all = "snake_case")]
pub enum Alarm {
    /// More was sold than there was.
    Oversold {
        /// The sale.
        voucher: VoucherId,
        /// Pieces left in Redis.
        redis_stock: Option<i64>,
        /// Pieces left in SQL.
        sql_stock: i64,
        /// Live orders, if all were read.
        live_orders: Option<u64>,
        /// Stock before the first order, if known.
        initial: Option<i64>,
    },
    /// A sale that has moved to an engine has a stock in the Redis of the service, which then sells it beside the engine.
    MovedSaleLoaded {
        /// The sale.
        voucher: VoucherId,
        /// The key of its stock.
        key: String,
    },
    /// The stream does not exist, although a running sale has sold.
    NoStream {
        /// The stream.
        stream: String,
    },
    /// The group does not exist: no entry is delivered.
    NoGroup {
        /// The stream.
        stream: String,
        /// The group.
        group: String,
        /// Entries in the stream.
        length: u64,
    },
    /// A sale is running by its dates, and has no stock in Redis: the script of the service fails.
    SaleNotLoaded {
        /// The sale.
        voucher: VoucherId,
        /// The missing key.
        key: String,
    },
    /// A migration of the sale is running or was interrupted: neither side sells it.
    SaleBetween {
        /// The sale.
        voucher: VoucherId,
        /// The renamed stock.
        key: String,
    },
    /// A key holds a value of another type.
    ForeignKey(ForeignKey),
    /// Redis sells what SQL does not have: for example, the transaction that loaded the stock was rolled back.
    StockWithoutSale {
        /// Number of stock keys.
        count: u64,
        /// One of them.
        key: String,
    },
    /// Orders were admitted before the sale began or after it had ended.
    OrdersOutsideDates {
        /// The sale.
        voucher: VoucherId,
        /// Number of entries, among the newest.
        count: u64,
        /// One of them.
        entry: String,
    },
    /// Buyers in Redis have no order in SQL, and no entry that may become one.
    BuyersWithoutOrder {
        /// The sale.
        voucher: VoucherId,
        /// Number of users.
        users: u64,
        /// One of them.
        user: String,
    },
    /// Orders were closed as not paid, although they have a time of payment.
    PaidOrderClosed {
        /// The sale.
        voucher: VoucherId,
        /// Number of orders.
        orders: u64,
        /// One of them.
        order: String,
    },
    /// A consumer holds entries that it has not acknowledged for too long.
    StuckPending {
        /// Its name.
        consumer: String,
        /// Number of entries.
        count: u64,
        /// The longest time since a delivery, in milliseconds.
        idle_ms: u64,
    },
    /// Entries that the consumer cannot process.
    PoisonEntries {
        /// Number of entries.
        count: u64,
        /// The oldest of them.
        entry: String,
        /// Why it cannot be processed.
        why: Poison,
    },
    /// Entries that were delivered many times and are still not acknowledged.
    Redelivered {
        /// Number of entries.
        count: u64,
        /// The oldest of them.
        entry: String,
        /// Its deliveries.
        deliveries: u64,
    },
    /// Entries wait too long for their first delivery.
    LagHigh {
        /// Number of entries; `None` if unknown.
        lag: Option<u64>,
        /// Age of the oldest one.
        oldest_ms: u64,
    },
    /// Recoveries have set entries aside that are not replayed yet.
    DeadLetters {
        /// The stream of the dead letters.
        stream: String,
        /// Number of letters.
        count: u64,
    },
    /// Users have several live orders in one sale.
    DuplicateOrders {
        /// The sale.
        voucher: VoucherId,
        /// Number of users, among the orders that were read.
        users: u64,
    },
    /// Users have a live order in SQL and are not among the buyers in Redis: they can buy again.
    OrdersWithoutBuyer {
        /// The sale.
        voucher: VoucherId,
        /// Number of users.
        users: u64,
        /// One of them.
        user: String,
    },
    /// Buyers in Redis have only closed orders in SQL, and no entry that may become one: an order that they were told of may
    /// be missing, or the service has not returned the piece to Redis.
    BuyersWithClosedOrder {
        /// The sale.
        voucher: VoucherId,
        /// Number of users.
        users: u64,
        /// One of them.
        user: String,
    },
    /// The live order of a user has another ID than their newest entry: two IDs were made for one purchase.
    OrderIdsDiffer {
        /// The sale.
        voucher: VoucherId,
        /// Number of users, among the newest entries.
        users: u64,
        /// One of them.
        user: String,
        /// Their entry.
        entry: String,
    },
    /// The stock in Redis and the entries in flight differ from the stock in SQL while nothing moves.
    StockMismatch {
        /// The sale.
        voucher: VoucherId,
        /// Pieces left in Redis.
        redis_stock: i64,
        /// Pieces left in SQL.
        sql_stock: i64,
        /// Orders in flight.
        in_flight: u64,
    },
    /// Pieces and orders do not add up to the same number on both sides, or to the initial stock: a piece went back twice
    /// or never.
    PiecesDiffer {
        /// The sale.
        voucher: VoucherId,
        /// Stock and buyers in Redis.
        in_redis: i64,
        /// Stock and live orders in SQL.
        in_sql: i64,
        /// Stock before the first order, if known.
        initial: Option<i64>,
    },
    /// Locks that one holder has had for longer than an order takes.
    LockNotReleased {
        /// Number of locks.
        count: u64,
        /// One of them.
        key: String,
        /// Milliseconds left of its lease.
        left_ms: u64,
    },
    /// Locks without a lease: they stay if their holder dies.
    LockWithoutLease {
        /// Number of locks.
        count: u64,
        /// One of them.
        key: String,
    },
    /// The time in the order IDs is another zone's.
    LocalTimeIds {
        /// An order ID.
        order: String,
        /// Minutes from the time of its entry to the time in the ID.
        minutes: i64,
    },
    /// The time in an order ID is in the future.
    FutureIds {
        /// The order ID.
        order: String,
        /// Minutes from now to the time in the ID.
        minutes: i64,
    },
    /// Consumers that hold nothing have been silent for long while another was not.
    IdleConsumers {
        /// Number of consumers.
        count: u64,
        /// The one that has been silent longest.
        consumer: String,
        /// Milliseconds since it last asked for entries.
        idle_ms: u64,
    },
    /// The stream contains every entry ever added.
    StreamNotTrimmed {
        /// The stream.
        stream: String,
        /// Entries that were acknowledged.
        acknowledged: u64,
    },
    /// The counter of the order IDs of a day never expires.
    CounterStays {
        /// The counter.
        key: String,
    },
}

impl Alarm {
    /// How urgent it is: critical is what sells too much, or stops or loses orders. A notice is a weakness of the service
    /// that harms later.
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::DeadLetters { .. }
            | Self::DuplicateOrders { .. }
            | Self::OrdersWithoutBuyer { .. }
            | Self::BuyersWithClosedOrder { .. }
            | Self::OrderIdsDiffer { .. }
            | Self::StockMismatch { .. }
            | Self::PiecesDiffer { .. }
            | Self::LockNotReleased { .. }
            | Self::LockWithoutLease { .. } => Urgency::Warning,
            Self::LocalTimeIds { .. }
            | Self::FutureIds { .. }
            | Self::IdleConsumers { .. }
            | Self::StreamNotTrimmed { .. }
            | Self::CounterStays { .. } => Urgency::Notice,
            _ => Urgency::Critical,
        }
    }
}

/// Why an entry cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Poison {
    /// It lacks a field.
    NoField {
        /// The field.
        name: String,
    },
    /// A field is not a number.
    NoNumber {
        /// The field.
        name: String,
    },
    /// It was trimmed or deleted while pending.
    BodyGone,
}

impl Poison {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::NoField { name } => reason!("attach-no-field", name = name.as_str()),
            Self::NoNumber { name } => reason!("attach-no-number", name = name.as_str()),
            Self::BodyGone => reason!("attach-body-gone"),
        }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Oversold { voucher, redis_stock, sql_stock, live_orders, initial } => {
                let more = |orders: &u64| initial.is_some_and(|it| *orders > it.max(0) as u64);
                if let Some(orders) = live_orders.filter(more) {
                    let initial = initial.unwrap_or(0);
                    text!("attach-oversold-orders", voucher, orders, initial)
                } else {
                    let stock = redis_stock.map_or(*sql_stock, |it| it.min(*sql_stock));
                    text!("attach-oversold", voucher, stock)
                }
            }
            Self::DuplicateOrders { voucher, users } => {
                text!("attach-duplicate-orders", voucher, users)
            }
            Self::BuyersWithoutOrder { voucher, users, user } => {
                text!("attach-buyers-without-order", voucher, users, user)
            }
            Self::BuyersWithClosedOrder { voucher, users, user } => {
                text!("attach-buyers-with-closed-order", voucher, users, user)
            }
            Self::OrdersWithoutBuyer { voucher, users, user } => {
                text!("attach-orders-without-buyer", voucher, users, user)
            }
            Self::StockMismatch { voucher, redis_stock, sql_stock, in_flight } => {
                text!("attach-stock-mismatch", voucher, redis_stock, sql_stock, in_flight)
            }
            Self::StockWithoutSale { count, key } => {
                text!("attach-stock-without-sale", count, key)
            }
            Self::OrdersOutsideDates { voucher, count, entry } => {
                text!("attach-outside-dates", voucher, count, entry)
            }
            Self::PiecesDiffer { voucher, in_redis, in_sql, initial } => match initial {
                Some(initial) if initial != in_sql => {
                    text!("attach-pieces-initial", voucher, in_sql, initial)
                }
                _ => text!("attach-pieces-differ", voucher, in_redis, in_sql),
            },
            Self::LocalTimeIds { order, minutes } => {
                let hours = *minutes as f64 / 60.0;
                text!("attach-local-ids", order, hours = format!("{hours:+}"))
            }
            Self::FutureIds { order, minutes } => text!("attach-future-ids", order, minutes),
            Self::OrderIdsDiffer { voucher, users, user, entry } => {
                text!("attach-order-ids-differ", voucher, users, user, entry)
            }
            Self::PaidOrderClosed { voucher, orders, order } => {
                text!("attach-paid-closed", voucher, orders, order)
            }
            Self::IdleConsumers { count, consumer, idle_ms } => {
                let (minutes, seconds) = (idle_ms / 60_000, idle_ms / 1_000);
                text!("attach-idle-consumers", count, consumer, minutes, seconds)
            }
            Self::SaleBetween { voucher, key } => text!("attach-between", voucher, key),
            Self::StreamNotTrimmed { stream, acknowledged } => {
                text!("attach-not-trimmed", stream, acknowledged)
            }
            Self::CounterStays { key } => text!("attach-counter-alarm", key),
            Self::SaleNotLoaded { voucher, key } => text!("attach-not-loaded", voucher, key),
            Self::MovedSaleLoaded { voucher, key } => text!("attach-moved-loaded", voucher, key),
            Self::ForeignKey(ForeignKey { key, holds }) => {
                text!("attach-foreign-key", key, holds = ForeignKey::content(holds))
            }
            Self::DeadLetters { stream, count } => text!("attach-dead-letters", stream, count),
            Self::NoStream { stream } => text!("attach-stream-missing", stream),
            Self::Redelivered { count, entry, deliveries } => {
                text!("attach-redelivered", count, entry, deliveries)
            }
            Self::NoGroup { stream, group, length } => {
                text!("attach-no-group", stream, group, length)
            }
            Self::PoisonEntries { count, entry, why: Poison::BodyGone } => {
                text!("attach-poison-gone", count, entry)
            }
            Self::PoisonEntries { count, entry, why } => {
                text!("attach-poison", count, entry, why)
            }
            Self::StuckPending { consumer, count, idle_ms } => {
                text!("attach-stuck", consumer, count, seconds = idle_ms / 1_000)
            }
            Self::LagHigh { lag, oldest_ms } => {
                text!("attach-lag", lag = lag.unwrap_or(0), seconds = oldest_ms / 1_000)
            }
            Self::LockWithoutLease { count, key } => text!("attach-no-lease", count, key),
            Self::LockNotReleased { count, key, left_ms } => {
                text!("attach-not-released", count, key, seconds = left_ms / 1_000)
            }
        })
    }
}

/// Conditions with the time since when each pass has seen them. A condition that only one pass has seen may be a change
/// between two of its reads.
#[derive(Debug)]
pub(crate) struct Since<K>(HashMap<K, Millis>);

impl<K> Default for Since<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Since<K> {
    /// Replaces the conditions by those of this pass; returns the ones that have lasted for `millis`, and at least since
    /// the pass before.
    pub(crate) fn lasting(
        &mut self,
        now: Millis,
        millis: u64,
        seen: impl IntoIterator<Item = K>,
    ) -> Vec<K> {
        let mut kept = HashMap::new();
        let mut lasting = Vec::new();
        for key in seen {
            let since = self.0.get(&key).copied().unwrap_or(now);
            if let Entry::Vacant(place) = kept.entry(key) {
                if now.since(since) >= millis.max(1) {
                    lasting.push(place.key().clone());
                }
                place.insert(since);
            }
        }
        self.0 = kept;
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_lasts_once_two_passes_have_seen_it() {
        let mut since = Since::default();
        let mut seen = |now, millis, keys: &[u8]| {
            let mut lasting = since.lasting(Millis(now), millis, keys.to_vec());
            lasting.sort_unstable();
            lasting
        };
        assert!(seen(1_000, 0, &[1, 2]).is_empty());
        assert_eq!(seen(2_000, 0, &[2, 3]), [2]);
        assert_eq!(seen(3_000, 2_000, &[2, 3]), [2]);
        // It had ended meanwhile.
        assert_eq!(seen(4_000, 0, &[1, 3, 3]), [3]);
    }
}
