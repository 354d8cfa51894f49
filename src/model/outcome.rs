//! What admission answers a buyer.

use std::fmt;

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

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted { order } => write!(f, "admitted under order {order}"),
            Self::Duplicate { order } => write!(f, "holds order {order} already"),
            Self::SoldOut => f.write_str("the sale is sold out"),
            Self::NotStarted { begins } => write!(f, "the sale begins at {begins}"),
            Self::Ended => f.write_str("the sale has ended"),
            Self::Paused => f.write_str("the sale is paused"),
            Self::NotLoaded => f.write_str("Redis does not hold the sale"),
            Self::NotReady => f.write_str("the order stream or its group is missing"),
            Self::Busy => f.write_str("the queue before admission is full"),
        }
    }
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
