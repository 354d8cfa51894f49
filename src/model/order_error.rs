//! Why an entry yields no order, as data stored beside the sentence and displayed in the user's language.
//!
//! Messages of the database are quoted.

use serde::{Deserialize, Serialize};

use crate::{OrderId, Reason, UserId, VoucherId, reason};

/// Why an entry yields no order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(derive_more::Display)]
#[display("{}", self.reason())]
pub enum OrderError {
    /// Its fields are invalid.
    Fields(Reason),
    /// The entry was trimmed or deleted.
    Gone,
    /// The buyer holds another order.
    Holds {
        /// Who bought.
        user: UserId,
        /// The order held.
        holds: OrderId,
        /// What was bought.
        voucher: VoucherId,
    },
    /// A row that another program has inserted is at the place of the buyer.
    Foreign {
        /// Who bought.
        user: UserId,
        /// The ID of the row.
        row: i64,
        /// What was bought.
        voucher: VoucherId,
    },
    /// A later order of the buyer was closed: the entry is older than what the service has taken back.
    Closed {
        /// Who bought.
        user: UserId,
        /// The closed order.
        closed: OrderId,
    },
    /// The buyer has bought again: the order of the entry was given back before.
    BoughtAgain {
        /// Who bought.
        user: UserId,
        /// The newer order.
        order: OrderId,
    },
    /// Another order has its ID.
    IdTaken(OrderId),
    /// There is no such sale.
    NoSale(VoucherId),
    /// The sale has no such shard; 0 is an entry that names none, although the sale is spread.
    NoShard {
        /// What was to be bought.
        voucher: VoucherId,
        /// The number of the shard.
        shard: u16,
    },
    /// More orders than pieces.
    OutOfStock(VoucherId),
    /// Rejected by the database; its message.
    Rejected(String),
    /// Too many attempts; their number.
    TooOften(u64),
    /// Promised by a Redis whose data was lost since then; the last piece went to another buyer.
    Unkept,
    /// No buyer was admitted with this order ID: a foreign entry, or one of a returned order.
    NotPromised,
    /// Promised by a Redis whose data was lost since then; the buyer now holds this order.
    Promised(OrderId),
}

impl OrderError {
    /// What was to be bought, if the message names it.
    pub fn voucher_mut(&mut self) -> Option<&mut VoucherId> {
        match self {
            Self::Holds { voucher, .. }
            | Self::Foreign { voucher, .. }
            | Self::NoSale(voucher)
            | Self::NoShard { voucher, .. }
            | Self::OutOfStock(voucher) => Some(voucher),
            _ => None,
        }
    }

    /// Its message.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Fields(reason) => reason.clone(),
            Self::Gone => reason!("faults-order-gone"),
            Self::Holds { user, holds, voucher } => {
                reason!("faults-order-holds", user = *user, holds = *holds, voucher = *voucher)
            }
            Self::Foreign { user, row, voucher } => {
                // As text: an ID is not a figure whose digits are grouped.
                let row = row.to_string();
                reason!("faults-order-foreign", user = *user, row, voucher = *voucher)
            }
            Self::Closed { user, closed } => {
                reason!("faults-order-closed-later", user = *user, order = *closed)
            }
            Self::BoughtAgain { user, order } => {
                reason!("faults-order-bought-again", user = *user, order = *order)
            }
            Self::IdTaken(order) => reason!("faults-order-id-taken", order = *order),
            Self::NoSale(voucher) => reason!("faults-there-is-no-sale", voucher = *voucher),
            Self::NoShard { voucher, shard } => {
                reason!("faults-there-is-no-shard", voucher = *voucher, shard = *shard)
            }
            Self::OutOfStock(voucher) => {
                reason!("faults-voucher-has-no-stock-left", voucher = *voucher)
            }
            Self::Rejected(reason) => reason!("faults-order-refused", reason),
            Self::TooOften(times) => reason!("faults-order-too-often", times = *times),
            Self::Unkept => reason!("faults-order-unkept"),
            Self::NotPromised => reason!("faults-no-buyer-in-redis"),
            Self::Promised(order) => reason!("faults-order-promised", order = *order),
        }
    }
}
