//! Results of admission.

use std::fmt;

use serde::Serialize;

use super::{Millis, OrderId};

/// The reply to a buyer's request. Redis decided all of them except `Busy`, which never reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Admitted; the order will be written under this ID.
    Admitted {
        /// ID of the order.
        order: OrderId,
    },
    /// This buyer already holds an order.
    Duplicate {
        /// ID of the order held, also if the first reply was lost.
        order: OrderId,
    },
    /// Sold out.
    SoldOut,
    /// The window is not open yet, by Redis' clock.
    NotStarted {
        /// When it opens.
        begins: Millis,
    },
    /// The sale is over.
    Ended,
    /// The sale is paused.
    Paused,
    /// The sale is unknown to Redis.
    NotLoaded,
    /// The stream or its group is missing, so no order can be accepted.
    NotReady,
    /// The admission queue is full; nothing changed, retry.
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
    /// The ID that this buyer holds, if any.
    pub fn order(&self) -> Option<OrderId> {
        match self {
            Self::Admitted { order } | Self::Duplicate { order } => Some(*order),
            _ => None,
        }
    }
}
