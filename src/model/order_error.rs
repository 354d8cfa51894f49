//! Why an entry yields no order, as data stored beside the sentence and displayed in the user's language.
//!
//! Messages of the database are quoted.

use serde::{Deserialize, Serialize};

use super::{
    EntryError, OrderId, UserId, VoucherId,
    message::{Label, text},
};

/// Why an entry yields no order.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderError {
    /// Its fields are invalid.
    #[error("{0}")]
    Fields(EntryError),
    /// The entry was trimmed or deleted.
    #[error("{}", Label("faults-order-gone"))]
    Gone,
    /// The buyer holds another order.
    #[error("{}", text!("faults-order-holds", user = .user, holds = .holds, voucher = .voucher))]
    Holds {
        /// Who bought.
        user: UserId,
        /// The order held.
        holds: OrderId,
        /// What was bought.
        voucher: VoucherId,
    },
    /// Another order has its ID.
    #[error("{}", text!("faults-order-id-taken", order = .0))]
    IdTaken(OrderId),
    /// There is no such sale.
    #[error("{}", text!("faults-there-is-no-sale", voucher = .0))]
    NoSale(VoucherId),
    /// More orders than pieces.
    #[error("{}", text!("faults-voucher-has-no-stock-left", voucher = .0))]
    OutOfStock(VoucherId),
    /// Rejected by the database; its message.
    #[error("{}", text!("faults-order-refused", reason = .0))]
    Rejected(String),
    /// Too many attempts; their number.
    #[error("{}", text!("faults-order-too-often", times = .0))]
    TooOften(u64),
    /// Promised by a Redis whose data was lost since then; the last piece went to another buyer.
    #[error("{}", Label("faults-order-unkept"))]
    Unkept,
    /// No buyer was admitted with this order ID: a foreign entry, or one of a returned order.
    #[error("{}", Label("faults-no-buyer-in-redis"))]
    NotPromised,
    /// Promised by a Redis whose data was lost since then; the buyer now holds this order.
    #[error("{}", text!("faults-order-promised", order = .0))]
    Promised(OrderId),
}
