//! Events of the audit log, and results of job runs.

use seckill_model::{Message, Reason, reason::reason};
use serde::{Deserialize, Serialize};

use crate::{EngineError, telemetry::data_loss::Reconciled};

/// An event that no command caused, or the result of a job run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_more::Display)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// What failed.
    Error(EngineError),
    /// Redis was reconciled.
    DataLoss(Reconciled),
    /// Any other one.
    #[serde(untagged)]
    Other(Reason),
}

impl Event {
    /// A condition that lasted this long.
    pub fn lasted(millis: u64) -> Self {
        Self::Other(reason!("event-lasted", seconds = format!("{:.1}", millis as f64 / 1e3)))
    }
}

/// A partition as the object of an event.
pub(crate) fn partition(number: u16) -> Message {
    Message::of(&reason!("subject-partition", number = number.to_string()))
}
