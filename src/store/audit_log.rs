//! Lines of the audit log and their filter: commands of operators, and events.

use std::str::FromStr;

use seckill_model::{Message, Millis, Reason, reason, serde_as_text};
use serde::{Serialize, de::IgnoredAny};

/// Stands for the operator in a line about an event.
pub const NO_OPERATOR: &str = "-";
/// Stands for the operator in lines that the engine writes about itself.
pub const ENGINE: &str = "engine";

/// A line of the audit log: who did what, when, why, and the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Its number, in insertion order; 0 until it is stored.
    pub id: i64,
    /// When it happened; it may have been written later.
    pub at: Millis,
    /// The operator's login name, or [`NO_OPERATOR`].
    pub operator: String,
    /// The node.
    pub node: String,
    /// The command or event, for example `sale end`.
    pub action: String,
    /// The object of the command.
    pub subject: Message,
    /// The reason that the operator gave.
    pub reason: Option<String>,
    /// The result.
    pub result: Message,
    /// Figures before it, as single-line JSON; `None` if they are unknown.
    pub before: Option<String>,
    /// Figures after it.
    pub after: Option<String>,
    /// Identifies the line: a second one with the same value is ignored.
    #[serde(skip)]
    pub once: Option<String>,
}

impl AuditEntry {
    /// Whether the command failed. A committed change that Redis lacks has not.
    pub fn failed(&self) -> bool {
        let has = |part| self.result.part::<IgnoredAny>(part).is_some();
        has("/failed") && !has("/failed/not_loaded")
    }

    /// Whether it is an event, not a command.
    pub fn is_event(&self) -> bool {
        matches!(self.operator.as_str(), "" | NO_OPERATOR | ENGINE)
    }

    /// Its position in time order, from which the next page continues.
    pub fn position(&self) -> LogPosition {
        LogPosition { at: self.at, id: self.id }
    }
}

/// A position in the log, in time order: `AT-ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}-{id}", at.0)]
pub struct LogPosition {
    /// When.
    pub at: Millis,
    /// The line within that millisecond.
    pub id: i64,
}

impl FromStr for LogPosition {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('-')
            .and_then(|(at, id)| Some(Self { at: Millis(at.parse().ok()?), id: id.parse().ok()? }));
        parts.ok_or_else(|| {
            reason!("store-log-position", text = text.chars().take(40).collect::<String>())
        })
    }
}

serde_as_text!(LogPosition);

/// Kind of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Commands of operators.
    Commands,
    /// Events.
    Events,
}

/// Filter of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityFilter {
    /// At this time or later.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
    /// Only this kind.
    pub which: Option<Which>,
}

impl ActivityFilter {
    /// The first matching time.
    pub(super) fn first(&self) -> i64 {
        self.since.map_or(i64::MIN, |since| since.0)
    }

    /// The last matching time, and the exclusive limit of line numbers at that time.
    pub(super) fn last(&self, before: Option<LogPosition>) -> (i64, i64) {
        let end = self.until.map_or(i64::MAX, |until| until.0.saturating_sub(1));
        match before {
            Some(position) if position.at.0 <= end => (position.at.0, position.id),
            _ => (end, i64::MAX),
        }
    }

    /// As passed to the statements: 0 is any kind.
    pub(super) fn code(&self) -> i64 {
        match self.which {
            None => 0,
            Some(Which::Commands) => 1,
            Some(Which::Events) => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        let position = LogPosition { at: Millis(1_795_000_000_000), id: 17 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "17", "a-b", "1-", "-5-1"] {
            assert!(bad.parse::<LogPosition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn failures_whose_data_was_too_long_are_recognized() {
        let entry = |result: Message| AuditEntry { result, ..AuditEntry::default() };
        let failed = r#"{"text":"failed: x","is":{"failed":{"read_only":null}}}"#;
        assert!(entry(Message::from_stored(failed.to_owned())).failed());
        let mut cut = Message::from_stored(failed.to_owned());
        cut.bound(50, |_| {});
        assert_eq!(cut.stored(), r#"{"text":"failed: x","is":{"failed":null}}"#);
        assert!(entry(cut).failed());
        assert!(!entry("done".into()).failed() && !entry("failed: x".into()).failed());
    }

    #[test]
    fn nearer_bound_applies() {
        let filter = ActivityFilter { until: Some(Millis(100)), ..ActivityFilter::default() };
        assert_eq!(filter.last(None), (99, i64::MAX));
        assert_eq!(filter.last(Some(LogPosition { at: Millis(99), id: 4 })), (99, 4));
        assert_eq!(filter.last(Some(LogPosition { at: Millis(100), id: 4 })), (99, i64::MAX));
    }
}
