//! The log in the Snapshot: the displayed page, and the severity of its lines.

pub use seckill_store::{AuditEntry, LogPosition, Which};

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
    /// Fields of a sale in Redis had other values than in SQL, and were set back.
    pub const SALE_FIXED: &str = "sale fixed";
    /// A sale could not be reconciled with the others of its partition, and stays closed until it is.
    pub const SALE_UNRECONCILED: &str = "sale unreconciled";
    /// The database rejects a batch for a reason that is not caused by one of its orders.
    pub const ORDERS_WAIT: &str = "orders wait";
    /// The batch was written later.
    pub const ORDERS_WRITTEN: &str = "orders written";
    /// A node's heartbeat is missing.
    pub const NODE_DEAD: &str = "node dead";
    /// A node that counted as dead sends heartbeats again.
    pub const NODE_BACK: &str = "node back";
    /// Another node was configured for another time zone of the jobs.
    pub const ZONE_CHANGED: &str = "zone changed";
}

/// The displayed page of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// Only lines of this kind.
    pub which: Option<Which>,
    /// Lines before this position; `None` for the newest ones.
    pub before: Option<LogPosition>,
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
    pub fn of(entry: &AuditEntry) -> Self {
        if !entry.is_event() {
            return if entry.failed() { Self::Failed } else { Self::Command };
        }
        match entry.action.as_str() {
            events::ALARM_RAISED
            | events::REDIS_AWAY
            | events::DATABASE_AWAY
            | events::NODE_DEAD
            | events::PARTITION_REPAIRED
            | events::SALE_FIXED
            | events::SALE_UNRECONCILED
            | REDIS_RECONCILED => Self::Trouble,
            events::ALARM_CLEARED
            | events::REDIS_BACK
            | events::DATABASE_BACK
            | events::NODE_BACK
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
    use seckill_model::{Message, VoucherId};
    use seckill_redis::RedisError;

    use super::*;
    use crate::{EngineError, commands::outcome::CommandOutcome};

    fn line(operator: &str, action: &str, result: impl Into<Message>) -> Weight {
        let (operator, action, result) = (operator.to_owned(), action.to_owned(), result.into());
        Weight::of(&AuditEntry { operator, action, result, ..AuditEntry::default() })
    }

    #[test]
    fn severity_follows_author_and_event() {
        assert_eq!(line("kim", "sale end", "sale #7 is ended"), Weight::Command);
        let failed = Message::of(&CommandOutcome::Failed(EngineError::Stopping));
        assert_eq!(line("kim", "sale end", failed), Weight::Failed);
        let (voucher, why) = (VoucherId(7), RedisError::Reply(None));
        let committed = EngineError::NotLoaded { voucher, shards: Vec::new(), why };
        let committed = Message::of(&CommandOutcome::Failed(committed));
        assert_eq!(line("kim", "sale pause", committed), Weight::Command);
        assert_eq!(line("-", "redis away", "refused"), Weight::Trouble);
        assert_eq!(line("engine", REDIS_RECONCILED, ""), Weight::Trouble);
        assert_eq!(line("-", "alarm cleared", "after 3 s"), Weight::Relief);
        assert_eq!(line("-", "node started", ""), Weight::Notice);
        assert!(!Weight::Command.is_alarm() && Weight::Relief.is_alarm());
    }
}
