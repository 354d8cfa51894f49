//! Why no order comes of an entry, as data: it is kept beside the sentence, and told in the reader's language.
//!
//! What only the database can tell stays in its words.

use serde::{Deserialize, Serialize};

use super::{
    EntryFault, OrderId, UserId, VoucherId,
    message::{Label, text},
};

/// Why no order comes of an entry.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderFault {
    /// Its fields make none.
    #[error("{0}")]
    Fields(EntryFault),
    /// The entry was trimmed or deleted.
    #[error("{}", Label("faults-order-gone"))]
    Gone,
    /// The buyer has another one.
    #[error("{}", text!("faults-order-holds", user = .user, holds = .holds, voucher = .voucher))]
    Holds {
        /// Who bought.
        user: UserId,
        /// What he holds.
        holds: OrderId,
        /// What was bought.
        voucher: VoucherId,
    },
    /// Somebody else's order has its id.
    #[error("{}", text!("faults-order-id-taken", order = .0))]
    IdTaken(OrderId),
    /// Nothing of the kind is sold.
    #[error("{}", text!("faults-order-no-sale", voucher = .0))]
    NoSale(VoucherId),
    /// More orders than pieces.
    #[error("{}", text!("faults-order-out-of-stock", voucher = .0))]
    OutOfStock(VoucherId),
    /// The database refused it, in its words.
    #[error("{}", text!("faults-order-refused", reason = .0))]
    Refused(String),
    /// It was tried so many times.
    #[error("{}", text!("faults-order-too-often", times = .0))]
    TooOften(u64),
    /// Promised by a Redis that was lost since, and the last piece is another buyer's.
    #[error("{}", Label("faults-order-unkept"))]
    Unkept,
    /// No buyer was admitted under it: a foreign entry, or one of an order that was given back.
    #[error("{}", Label("faults-order-not-promised"))]
    NotPromised,
    /// Promised by a Redis that was lost since, and the buyer was given this one meanwhile.
    #[error("{}", text!("faults-order-promised", order = .0))]
    Promised(OrderId),
}
