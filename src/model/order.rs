//! Orders: the row that is written at the end of the path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{EnumIter, EnumString, FromRepr, IntoStaticStr};

use crate::{Millis, OrderEntry, OrderId, Place, Reason, ShardId, UserId, VoucherId, reason};

/// Order status; the numbers are those of the tutorial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, EnumIter, EnumString, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = Reason, parse_err_fn = unknown_status)]
#[repr(i64)]
pub enum OrderStatus {
    /// Written, not paid.
    Unpaid = 1,
    /// Paid.
    Paid = 2,
    /// Paid and redeemed.
    Used = 3,
    /// Cancelled by the buyer.
    Cancelled = 4,
    /// Closed because it was not paid in time.
    Closed = 5,
}

impl OrderStatus {
    /// Whether the order still holds its piece and the buyer's place.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Cancelled | Self::Closed)
    }
}

/// Number of orders of a sale in SQL, by status; statuses without orders are omitted.
pub type OrderCounts = BTreeMap<OrderStatus, u64>;

fn unknown_status(text: &str) -> Reason {
    reason!("faults-order-status", text = text.chars().take(30).collect::<String>())
}

/// Result of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Payment {
    /// The order is paid now.
    Paid,
    /// It was already paid or used.
    PaidBefore,
    /// It was closed or cancelled before; nothing was charged.
    TooLate,
    /// Its sale goes back, or has gone back, to the service that it came from; nothing was charged.
    Returned,
    /// SQL has no such order, or not yet.
    NotFound,
}

/// An order of a sale, and the buyer's place that it takes, or returns if it is closed. Sorted by ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SaleOrder {
    /// Its ID.
    pub id: OrderId,
    /// Who bought.
    pub user_id: UserId,
    /// What was bought.
    pub voucher_id: VoucherId,
    /// Number of the shard that sold it; 0 for a sale that is not spread.
    pub shard: u16,
    /// The buyer's place.
    pub place: u8,
}

impl SaleOrder {
    /// The shard that sold it.
    pub fn sold_by(&self) -> ShardId {
        ShardId { sale: self.voucher_id.into(), number: self.shard }
    }

    /// The place with its buyer.
    pub fn place(&self) -> Place {
        Place { user: self.user_id, number: self.place }
    }
}

impl From<&OrderEntry> for SaleOrder {
    fn from(entry: &OrderEntry) -> Self {
        let OrderEntry { order, user, voucher, shard, place, .. } = *entry;
        Self { id: order, user_id: user, voucher_id: voucher, shard, place }
    }
}

/// Filter of orders; `None` matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderFilter {
    /// The values of an order.
    pub is: OrderTerms,
    /// The values that it does not have.
    pub not: OrderTerms,
    /// This ID and later ones: IDs increase with the time of admission.
    pub from: Option<OrderId>,
    /// IDs before this one.
    pub to: Option<OrderId>,
}

/// Values of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderTerms {
    /// User.
    pub user: Option<UserId>,
    /// Voucher.
    pub voucher: Option<VoucherId>,
    /// Status.
    pub status: Option<OrderStatus>,
}

impl OrderFilter {
    /// Restricts to orders admitted at `from` or later and before `to`, by the second in their IDs.
    ///
    /// # Errors
    /// The times are swapped or outside the range of order IDs.
    pub fn admitted(self, from: Option<Millis>, to: Option<Millis>) -> Result<Self, Reason> {
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err(reason!("faults-order-window", from, to));
        }
        let first_of = |at: Option<Millis>, up: i64| {
            let id = |at: Millis| OrderId::new(at.plus(up).0.div_euclid(1_000), 0);
            at.map(|at| id(at).map_err(|_| reason!("faults-order-time", at))).transpose()
        };
        // A partial second at the end counts as a whole one.
        Ok(Self { from: first_of(from, 0)?, to: first_of(to, 999)?, ..self })
    }
}

/// An order as stored in SQL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// Its ID, returned to the buyer at admission.
    pub id: OrderId,
    /// Who bought.
    pub user_id: UserId,
    /// What was bought.
    pub voucher_id: VoucherId,
    /// The buyer's place in the sale, from 1; `None` for an ordinary voucher, which has no sale.
    pub place: Option<u8>,
    /// Its status.
    pub status: OrderStatus,
    /// When the row was written.
    pub create_time: Millis,
    /// When it was paid.
    pub pay_time: Option<Millis>,
    /// When it was closed.
    pub close_time: Option<Millis>,
}

impl Order {
    /// When it reached its status, if SQL records it.
    pub fn since(&self) -> Millis {
        let at = match self.status {
            OrderStatus::Unpaid => None,
            OrderStatus::Paid | OrderStatus::Used => self.pay_time,
            OrderStatus::Cancelled | OrderStatus::Closed => self.close_time,
        };
        at.unwrap_or(self.create_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_round_trip() {
        for code in 1..=5 {
            let status = OrderStatus::from_repr(code).unwrap();
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        for bad in ["", "Paid", "refunded", "1"] {
            assert!(bad.parse::<OrderStatus>().is_err(), "{bad}");
        }
    }

    #[test]
    fn admission_times_bound_the_ids() {
        const SECOND: i64 = 1_795_000_000;
        let between = |from: i64, to: i64| {
            OrderFilter::default().admitted(Some(Millis(from)), Some(Millis(to)))
        };
        let first_of = |second| OrderId::new(second, 0).ok();
        let filter = between(SECOND * 1_000 + 1, SECOND * 1_000 + 1).unwrap();
        assert_eq!((filter.from, filter.to), (first_of(SECOND), first_of(SECOND + 1)));
        let filter = between(SECOND * 1_000, (SECOND + 1) * 1_000).unwrap();
        assert_eq!((filter.from, filter.to), (first_of(SECOND), first_of(SECOND + 1)));
        let window = reason!("faults-order-window", from = Millis(1), to = Millis(0));
        assert_eq!(between(1, 0), Err(window));
        let early = super::super::order_id::EPOCH_SECONDS * 1_000;
        assert!(between(early, early).is_ok());
        let outside = |at| Err(reason!("faults-order-time", at = Millis(at)));
        assert_eq!(between(early - 1, early), outside(early - 1));
        for far in [4_000_000_000_000, i64::MAX] {
            assert_eq!(between(early, far), outside(far));
        }
    }
}
