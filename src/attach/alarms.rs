//! Alarms of a report, and the differences that must last before they are one.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::Hash,
};

use seckill_model::{ForeignKey, Millis, Reason, VoucherId, reason, text};
use serde::Serialize;

/// A condition that needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Users have several live orders in one sale.
    DuplicateOrders {
        /// The sale.
        voucher: VoucherId,
        /// Number of users, among the orders that were read.
        users: u64,
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
    /// Users have a live order in SQL and are not among the buyers in Redis: they can buy again.
    OrdersWithoutBuyer {
        /// The sale.
        voucher: VoucherId,
        /// Number of users.
        users: u64,
        /// One of them.
        user: String,
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
    /// A sale is running by its dates, and has no stock in Redis: the script of the service fails.
    SaleNotLoaded {
        /// The sale.
        voucher: VoucherId,
        /// The missing key.
        key: String,
    },
    /// A key holds a value of another type.
    ForeignKey(ForeignKey),
    /// The stream does not exist, although there are buyers.
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
    /// Entries that were delivered many times and are still not acknowledged.
    Redelivered {
        /// Number of entries.
        count: u64,
        /// The oldest of them.
        entry: String,
        /// Its deliveries.
        deliveries: u64,
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
    /// A consumer holds entries that it has not acknowledged for too long.
    StuckPending {
        /// Its name.
        consumer: String,
        /// Number of entries.
        count: u64,
        /// The longest time since a delivery, in milliseconds.
        idle_ms: u64,
    },
    /// Entries wait too long for their first delivery.
    LagHigh {
        /// Number of entries; `None` if unknown.
        lag: Option<u64>,
        /// Age of the oldest one.
        oldest_ms: u64,
    },
    /// Locks without a lease: they stay if their holder dies.
    LockWithoutLease {
        /// Number of locks.
        count: u64,
        /// One of them.
        key: String,
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
}

impl Alarm {
    /// Its place among alarms, the most urgent first: what sells too much, what stops or loses orders, and then what has
    /// to be corrected.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Oversold { .. } => 0,
            Self::NoStream { .. } => 1,
            Self::NoGroup { .. } => 2,
            Self::SaleNotLoaded { .. } => 3,
            Self::ForeignKey(_) => 4,
            Self::BuyersWithoutOrder { .. } => 5,
            Self::StuckPending { .. } => 6,
            Self::PoisonEntries { .. } => 7,
            Self::Redelivered { .. } => 8,
            Self::LagHigh { .. } => 9,
            Self::DuplicateOrders { .. } => FIRST_MINOR,
            Self::OrdersWithoutBuyer { .. } => 11,
            Self::StockMismatch { .. } => 12,
            Self::LockNotReleased { .. } => 13,
            Self::LockWithoutLease { .. } => 14,
        }
    }

    /// Whether it sells too much, or stops or loses orders.
    pub fn is_critical(&self) -> bool {
        self.rank() < FIRST_MINOR
    }
}

/// Rank of the first alarm that stops and loses nothing.
const FIRST_MINOR: u8 = 10;

/// Why an entry cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
            Self::OrdersWithoutBuyer { voucher, users, user } => {
                text!("attach-orders-without-buyer", voucher, users, user)
            }
            Self::StockMismatch { voucher, redis_stock, sql_stock, in_flight } => {
                text!("attach-stock-mismatch", voucher, redis_stock, sql_stock, in_flight)
            }
            Self::SaleNotLoaded { voucher, key } => text!("attach-not-loaded", voucher, key),
            Self::ForeignKey(ForeignKey { key, holds }) => {
                text!("attach-foreign-key", key, holds = ForeignKey::content(holds))
            }
            Self::NoStream { stream } => text!("attach-stream-missing", stream),
            Self::Redelivered { count, entry, deliveries } => {
                text!("attach-redelivered", count, entry, deliveries)
            }
            Self::NoGroup { stream, group, length } => {
                text!("attach-no-group", stream, group, length)
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
