//! What admission answers a buyer.

use serde::Serialize;

use super::{Millis, OrderId};

/// The answer to one buyer's request. None of them is given before Redis decided, but `Busy`,
/// which never reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A piece was taken for this buyer; the order will be written under this id.
    Admitted {
        /// Id of the order to come.
        order: OrderId,
    },
    /// This buyer holds an order already.
    Duplicate {
        /// The id that the buyer holds, also when the first reply was lost.
        order: OrderId,
    },
    /// Nothing is left.
    SoldOut,
    /// The window is not open yet, by the clock of Redis.
    NotStarted {
        /// When it opens.
        begins: Millis,
    },
    /// The sale is over.
    Ended,
    /// The operator holds the sale.
    Paused,
    /// Redis knows no such sale.
    NotLoaded,
    /// The stream or its group is missing, so nothing may be taken.
    NotReady,
    /// The queue before admission is full; nothing was taken, ask again.
    Busy,
}

impl Outcome {
    /// The id that this buyer holds, if any.
    pub fn order(&self) -> Option<OrderId> {
        match self {
            Self::Admitted { order } | Self::Duplicate { order } => Some(*order),
            _ => None,
        }
    }
}
