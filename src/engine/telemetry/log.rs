//! The log in the Snapshot: one page of it as far as somebody looks at it, and how much each line weighs.

use std::sync::Arc;

use seckill_model::Millis;
pub use seckill_store::{Act, Place, Recorded, Which};

use super::data_loss::HEALED;

/// Names of events in the audit log.
pub mod events {
    /// Redis gives no answer.
    pub const REDIS_AWAY: &str = "redis away";
    /// It answers again.
    pub const REDIS_BACK: &str = "redis back";
    /// The database gives no answer.
    pub const DATABASE_AWAY: &str = "database away";
    /// It answers again.
    pub const DATABASE_BACK: &str = "database back";
    /// Something asks for a person.
    pub const ALARM_RAISED: &str = "alarm raised";
    /// It does so no more.
    pub const ALARM_CLEARED: &str = "alarm cleared";
    /// A node has repaired a partition.
    pub const PARTITION_REPAIRED: &str = "partition repaired";
    /// The database refuses a batch for a reason that is not about one of its orders.
    pub const ORDERS_WAIT: &str = "orders wait";
    /// The batch was written.
    pub const ORDERS_WRITTEN: &str = "orders written";
    /// A node gives no sign of life.
    pub const NODE_DEAD: &str = "node dead";
}

/// Which page of the log somebody looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLook {
    /// Only lines of this kind.
    pub which: Option<Which>,
    /// Lines before this place; `None` for the newest ones.
    pub before: Option<Place>,
}

/// One page of the log.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    /// What was asked for.
    pub look: LogLook,
    /// When it was read, by the clock of Redis; `None` while nobody looks, or until it could be read.
    pub taken: Option<Millis>,
    /// There are lines before the first.
    pub older: bool,
    /// The lines, oldest first.
    pub lines: Arc<Vec<Recorded>>,
}

impl LogPage {
    /// A page from what the log gave, newest first and one more than `most` where there are older ones.
    pub fn of(look: LogLook, taken: Millis, mut lines: Vec<Recorded>, most: usize) -> Self {
        let older = lines.len() > most;
        lines.truncate(most);
        lines.reverse();
        Self { look, taken: Some(taken), older, lines: Arc::new(lines) }
    }
}

/// What a line of the log means to somebody who looks at a whole screen of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It happened, and that is all.
    Notice,
    /// Something is as it should be again.
    Relief,
    /// An operator did something.
    Act,
    /// An operator's act failed.
    Failed,
    /// Something went wrong.
    Trouble,
}

impl Weight {
    /// What a line weighs.
    pub fn of(act: &Act) -> Self {
        if !act.is_event() {
            return if act.failed() { Self::Failed } else { Self::Act };
        }
        match act.act.as_str() {
            events::ALARM_RAISED
            | events::REDIS_AWAY
            | events::DATABASE_AWAY
            | events::NODE_DEAD
            | events::PARTITION_REPAIRED
            | HEALED => Self::Trouble,
            events::ALARM_CLEARED
            | events::REDIS_BACK
            | events::DATABASE_BACK
            | events::ORDERS_WRITTEN => Self::Relief,
            _ => Self::Notice,
        }
    }

    /// It is about something that went wrong, or is mended.
    pub fn is_alarm(self) -> bool {
        matches!(self, Self::Trouble | Self::Relief)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operator: &str, act: &str, result: &str) -> Weight {
        let (operator, act, result) = (operator.to_owned(), act.to_owned(), result.into());
        Weight::of(&Act { operator, act, result, ..Act::default() })
    }

    #[test]
    fn lines_are_weighed_by_their_author_and_event() {
        assert_eq!(line("kim", "sale end", "sale #7 is ended"), Weight::Act);
        assert_eq!(line("kim", "sale end", "failed: Redis is away"), Weight::Failed);
        assert_eq!(line("-", "redis away", "refused"), Weight::Trouble);
        assert_eq!(line("engine", HEALED, ""), Weight::Trouble);
        assert_eq!(line("-", "alarm cleared", "after 3 s"), Weight::Relief);
        assert_eq!(line("-", "node started", ""), Weight::Notice);
        assert!(!Weight::Act.is_alarm() && Weight::Relief.is_alarm());
    }

    #[test]
    fn a_page_is_in_the_order_of_time_and_tells_of_older_ones() {
        let lines = |count: i64| (0..count).rev().map(|id| Recorded { id, act: Act::default() });
        let page = LogPage::of(LogLook::default(), Millis(1), lines(4).collect(), 3);
        assert!(page.older);
        assert_eq!(page.lines.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(!LogPage::of(LogLook::default(), Millis(1), lines(3).collect(), 3).older);
    }
}
