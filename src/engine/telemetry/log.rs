//! The log in the Snapshot: one page, read only while displayed, and the severity of its lines.

use std::sync::Arc;

use seckill_model::Millis;
pub use seckill_store::{AuditEntry, LogPosition, Recorded, Which};

use super::data_loss::REDIS_RECONCILED;

/// Names of events in the audit log.
pub mod events {
    /// Redis is unreachable.
    pub const REDIS_AWAY: &str = "redis away";
    /// Redis is reachable again.
    pub const REDIS_BACK: &str = "redis back";
    /// The database is unreachable.
    pub const DATABASE_AWAY: &str = "database away";
    /// The database is reachable again.
    pub const DATABASE_BACK: &str = "database back";
    /// An alarm was raised.
    pub const ALARM_RAISED: &str = "alarm raised";
    /// An alarm ended.
    pub const ALARM_CLEARED: &str = "alarm cleared";
    /// A node has repaired a partition.
    pub const PARTITION_REPAIRED: &str = "partition repaired";
    /// The database rejects a batch for a reason that is not caused by one of its orders.
    pub const ORDERS_WAIT: &str = "orders wait";
    /// The batch was written later.
    pub const ORDERS_WRITTEN: &str = "orders written";
    /// A node's heartbeat is missing.
    pub const NODE_DEAD: &str = "node dead";
}

/// The displayed page of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// Only lines of this kind.
    pub which: Option<Which>,
    /// Lines before this position; `None` for the newest ones.
    pub before: Option<LogPosition>,
}

/// One page of the log.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    /// The filter and position.
    pub view: LogView,
    /// When it was read, by the clock of Redis; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are earlier lines.
    pub older: bool,
    /// The lines, oldest first.
    pub lines: Arc<Vec<Recorded>>,
}

impl LogPage {
    /// Builds a page from log lines, newest first, with one more than `most` if there are older ones.
    pub fn of(view: LogView, taken: Millis, mut lines: Vec<Recorded>, most: usize) -> Self {
        let older = lines.len() > most;
        lines.truncate(most);
        lines.reverse();
        Self { view, taken: Some(taken), older, lines: Arc::new(lines) }
    }
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Information.
    Notice,
    /// Recovery.
    Relief,
    /// Command of an operator.
    Command,
    /// Failed command of an operator.
    Failed,
    /// Failure.
    Trouble,
}

impl Weight {
    /// Returns the severity of a line.
    pub fn of(act: &AuditEntry) -> Self {
        if !act.is_event() {
            return if act.failed() { Self::Failed } else { Self::Command };
        }
        match act.act.as_str() {
            events::ALARM_RAISED
            | events::REDIS_AWAY
            | events::DATABASE_AWAY
            | events::NODE_DEAD
            | events::PARTITION_REPAIRED
            | REDIS_RECONCILED => Self::Trouble,
            events::ALARM_CLEARED
            | events::REDIS_BACK
            | events::DATABASE_BACK
            | events::ORDERS_WRITTEN => Self::Relief,
            _ => Self::Notice,
        }
    }

    /// Returns whether it reports a failure or its end.
    pub fn is_alarm(self) -> bool {
        matches!(self, Self::Trouble | Self::Relief)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operator: &str, act: &str, result: &str) -> Weight {
        let (operator, act, result) = (operator.to_owned(), act.to_owned(), result.into());
        Weight::of(&AuditEntry { operator, act, result, ..AuditEntry::default() })
    }

    #[test]
    fn severity_follows_author_and_event() {
        assert_eq!(line("kim", "sale end", "sale #7 is ended"), Weight::Command);
        assert_eq!(line("kim", "sale end", "failed: Redis is away"), Weight::Failed);
        assert_eq!(line("-", "redis away", "refused"), Weight::Trouble);
        assert_eq!(line("engine", REDIS_RECONCILED, ""), Weight::Trouble);
        assert_eq!(line("-", "alarm cleared", "after 3 s"), Weight::Relief);
        assert_eq!(line("-", "node started", ""), Weight::Notice);
        assert!(!Weight::Command.is_alarm() && Weight::Relief.is_alarm());
    }

    #[test]
    fn a_page_is_sorted_by_time_and_marks_older_lines() {
        let lines =
            |count: i64| (0..count).rev().map(|id| Recorded { id, act: AuditEntry::default() });
        let page = LogPage::of(LogView::default(), Millis(1), lines(4).collect(), 3);
        assert!(page.older);
        assert_eq!(page.lines.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(!LogPage::of(LogView::default(), Millis(1), lines(3).collect(), 3).older);
    }
}
