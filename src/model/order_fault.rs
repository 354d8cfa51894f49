//! Why no order comes of an entry, as data: it is kept beside the sentence, and told in the reader's language.
//!
//! What only the database can tell stays in its words.

use serde::{Deserialize, Serialize};

use super::{EntryFault, OrderId, UserId, VoucherId};

/// Why no order comes of an entry.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderFault {
    /// Its fields make none.
    #[error("{0}")]
    Fields(EntryFault),
    /// The entry was trimmed or deleted.
    #[error("its body is gone from the stream")]
    Gone,
    /// The buyer has another one.
    #[error("buyer {user} holds order {holds} for voucher {voucher} already")]
    Holds {
        /// Who bought.
        user: UserId,
        /// What he holds.
        holds: OrderId,
        /// What was bought.
        voucher: VoucherId,
    },
    /// Somebody else's order has its id.
    #[error("order id {0} belongs to another order")]
    IdTaken(OrderId),
    /// Nothing of the kind is sold.
    #[error("there is no sale of voucher {0}")]
    NoSale(VoucherId),
    /// More orders than pieces.
    #[error("voucher {0} has no stock left in SQL for this order")]
    OutOfStock(VoucherId),
    /// The database refused it, in its words.
    #[error("the database refused: {0}")]
    Refused(String),
    /// It was tried so many times.
    #[error("delivered {0} times without an order")]
    TooOften(u64),
    /// Promised by a Redis that was lost since, and the last piece is another buyer's.
    #[error("promised before Redis was restarted; no piece is left for it")]
    Unkept,
    /// No buyer was admitted under it: a foreign entry, or one of an order that was given back.
    #[error("no buyer in Redis was admitted under this order")]
    NotPromised,
    /// Promised by a Redis that was lost since, and the buyer was given this one meanwhile.
    #[error("promised before Redis was restarted; the buyer holds order {0}")]
    Promised(OrderId),
}
