//! The order: the row that the whole path exists to write.

use serde::Serialize;

use super::{Millis, OrderId, Place, UserId, VoucherId};

/// What became of an order; the numbers are the tutorial's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderStatus {
    /// Written, not paid.
    Unpaid = 1,
    /// Paid.
    Paid = 2,
    /// Paid and redeemed.
    Used = 3,
    /// Cancelled by the buyer.
    Cancelled = 4,
    /// Closed because nobody paid in time.
    Closed = 5,
}

impl OrderStatus {
    /// Reads the number that SQL keeps.
    pub fn from_code(code: i64) -> Option<Self> {
        Some(match code {
            1 => Self::Unpaid,
            2 => Self::Paid,
            3 => Self::Used,
            4 => Self::Cancelled,
            5 => Self::Closed,
            _ => return None,
        })
    }

    /// The number that SQL keeps.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// Whether the order still holds its piece and its buyer's one place.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Cancelled | Self::Closed)
    }
}

/// What came of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Payment {
    /// The order is paid now.
    Paid,
    /// It was paid before, or used already.
    PaidBefore,
    /// It was closed or cancelled first; nothing was taken.
    TooLate,
    /// SQL has no such order, yet or at all.
    NotFound,
}

/// An order that was closed, with the place and the piece that go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClosedOrder {
    /// Its id.
    pub id: OrderId,
    /// Who may buy again.
    pub user_id: UserId,
    /// What has a piece more.
    pub voucher_id: VoucherId,
    /// Which of the buyer's places it took.
    pub place: u8,
}

impl ClosedOrder {
    /// The place that is free again.
    pub fn seat(&self) -> Place {
        Place { user: self.user_id, number: self.place }
    }
}

/// An order that holds its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOrder {
    /// Its id.
    pub id: OrderId,
    /// Who bought.
    pub user_id: UserId,
    /// Which of the buyer's places it takes.
    pub place: u8,
}

impl LiveOrder {
    /// The place that it takes.
    pub fn seat(&self) -> Place {
        Place { user: self.user_id, number: self.place }
    }
}

/// Which orders somebody looks for; what is `None` does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderFilter {
    /// Whose.
    pub user: Option<UserId>,
    /// Of what.
    pub voucher: Option<VoucherId>,
    /// In which state.
    pub status: Option<OrderStatus>,
    /// This id and later ones: ids rise with the time of admission.
    pub from: Option<OrderId>,
    /// Ids before this one.
    pub to: Option<OrderId>,
}

/// One order as SQL keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// Its id, which the buyer was told at admission.
    pub id: OrderId,
    /// Who bought.
    pub user_id: UserId,
    /// What was bought.
    pub voucher_id: VoucherId,
    /// Which of the buyer's places it takes, from 1.
    pub place: u8,
    /// What became of it.
    pub status: OrderStatus,
    /// When the row was written.
    pub create_time: Millis,
    /// When it was paid.
    pub pay_time: Option<Millis>,
    /// When it was closed.
    pub close_time: Option<Millis>,
}
