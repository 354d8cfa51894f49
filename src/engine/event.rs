//! Events of the audit log.

use std::{fmt, time::Duration};

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
        Self::Other(reason!("event-lasted", seconds = format!("{:.1}", millis as f64 / 1e3)))
    }
}

/// Seconds, with milliseconds if there are any.
pub(crate) fn seconds(time: Duration) -> String {
    (time.as_millis() as f64 / 1e3).to_string()
}

/// A partition as the object of an event.
pub(crate) fn partition(number: u16) -> Message {
    Message::of(&reason!("subject-partition", number = number.to_string()))
}
