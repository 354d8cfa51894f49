//! Results of admission.

use serde::{Deserialize, Serialize};

use crate::{Label, Millis, OrderId, text};

/// The reply to a buyer's request. Redis decides all of them except `Busy`: such a request never reaches Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[derive(derive_more::Display)]
pub enum Outcome {
    /// Admitted; the order will be written under this ID.
    #[display("{}", text!("outcome-admitted", order))]
    Admitted {
        /// ID of the order.
        order: OrderId,
    },
    /// This buyer already holds an order.
    #[display("{}", text!("outcome-duplicate", order))]
    Duplicate {
        /// ID of the order held, also if the first reply was lost.
        order: OrderId,
    },
    /// Sold out.
    #[display("{}", Label("outcome-sold-out"))]
    SoldOut,
    /// The window is not open yet, by Redis' clock.
    #[display("{}", text!("outcome-not-started", begins))]
    NotStarted {
        /// When it opens.
        begins: Millis,
    },
    /// The sale is over.
    #[display("{}", Label("outcome-ended"))]
    Ended,
    /// The sale is paused.
    #[display("{}", Label("outcome-paused"))]
    Paused,
    /// The sale is unknown to Redis.
    #[display("{}", Label("outcome-not-loaded"))]
    NotLoaded,
    /// The stream or its group is missing, so no order can be accepted.
    #[display("{}", Label("outcome-not-ready"))]
    NotReady,
    /// The wait for admission would be too long; nothing changed, retry.
    #[display("{}", Label("outcome-busy"))]
    Busy,
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
