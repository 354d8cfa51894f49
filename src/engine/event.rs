//! Events of the audit log.

use std::fmt;

use seckill_model::{Message, Reason, ledger::SaleFinding, reason::reason};
use serde::{Deserialize, Serialize};

use crate::telemetry::{data_loss::Reconciled, read_error::ReadError};

/// An event that no command caused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Why a server could not be read.
    ReadError(ReadError),
    /// The audit failed.
    AuditFailed(SaleFinding),
    /// Redis was reconciled.
    DataLoss(Reconciled),
    /// Any other one.
    #[serde(untagged)]
    Other(Reason),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadError(why) => why.fmt(f),
            Self::AuditFailed(finding) => {
                reason!("event-audit-failed", finding = finding.reason()).fmt(f)
            }
            Self::DataLoss(done) => done.fmt(f),
            Self::Other(event) => event.fmt(f),
        }
    }
}

impl Event {
    /// A condition that lasted this long.
    pub fn lasted(millis: u64) -> Self {
        Self::Other(reason!("event-lasted", seconds = seconds(millis)))
    }
}

/// Seconds with one decimal.
pub(crate) fn seconds(millis: u64) -> String {
    format!("{:.1}", millis as f64 / 1e3)
}

/// A partition as the object of an event.
pub(crate) fn partition(number: u16) -> Message {
    Message::of(&reason!("subject-partition", number = number.to_string()))
}
