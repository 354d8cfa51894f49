//! Results of admission.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Label, Millis, OrderId, text};

/// The reply to a buyer's request. Redis decides all of them except `Busy`: such a request never reaches Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            Self::Admitted { order } => f.write_str(&text!("outcome-admitted", order)),
            Self::Duplicate { order } => f.write_str(&text!("outcome-duplicate", order)),
            Self::SoldOut => Label("outcome-sold-out").fmt(f),
            Self::NotStarted { begins } => f.write_str(&text!("outcome-not-started", begins)),
            Self::Ended => Label("outcome-ended").fmt(f),
            Self::Paused => Label("outcome-paused").fmt(f),
            Self::NotLoaded => Label("outcome-not-loaded").fmt(f),
            Self::NotReady => Label("outcome-not-ready").fmt(f),
            Self::Busy => Label("outcome-busy").fmt(f),
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
