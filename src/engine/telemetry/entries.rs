//! The order stream in the Snapshot: one window of it, its group and who reads it, as far as somebody looks at it.

use std::sync::Arc;

use seckill_model::{EntryId, Millis, OrderId, Said, UserId, VoucherId};
use seckill_redis::{entries::Holding, nodes::NodeState};

/// Which part of the order stream somebody looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamView {
    /// Only this partition; `None` for all of them, in the order of time.
    pub partition: Option<u16>,
    /// Only entries before this one; `None` for the newest.
    pub before: Option<EntryId>,
}

/// One window of the order stream.
#[derive(Clone, Debug, Default)]
pub struct StreamPage {
    /// What it shows.
    pub view: StreamView,
    /// When it was read, by the clock of Redis; `None` while nobody looks, or until it could be read.
    pub taken: Option<Millis>,
    /// Older ones stand before it.
    pub older: bool,
    /// The entries, oldest first.
    pub lines: Arc<Vec<EntryLine>>,
    /// Every partition, also those that are not shown.
    pub partitions: Vec<PartitionLine>,
    /// Consumers of every partition, by name.
    pub consumers: Vec<GroupConsumer>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryLine {
    /// Its id.
    pub entry: EntryId,
    /// The order that it asks to write; `None` where the fields are not good.
    pub order: Option<OrderId>,
    /// Who bought.
    pub user: Option<UserId>,
    /// What was bought.
    pub voucher: Option<VoucherId>,
    /// What is wrong with its fields.
    pub fault: Option<Said>,
    /// In whose hands it is.
    pub holding: Holding,
    /// The node of who holds it; `None` where nobody does, or where nobody knows it yet.
    pub holder: Option<NodeState>,
    /// It lies among the dead letters: it was acknowledged, and its order was not written. `None` where not all
    /// letters were looked at.
    pub dead: Option<bool>,
}

/// The stream of one partition, and its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLine {
    /// Which one.
    pub partition: u16,
    /// Entries that are kept.
    pub length: u64,
    /// Entries ever added.
    pub added: u64,
    /// The oldest one that is kept.
    pub first: Option<EntryId>,
    /// The newest one that is kept.
    pub last: Option<EntryId>,
    /// Memory that the stream takes; `None` where it is not shown, or where Redis does not tell.
    pub bytes: Option<u64>,
    /// The group exists.
    pub group: bool,
    /// Up to where it was delivered.
    pub delivered: Option<EntryId>,
    /// Entries that it has read; `None` where Redis can't tell.
    pub read: Option<u64>,
    /// Entries never delivered; `None` where nobody can tell.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// The oldest of them.
    pub oldest_pending: Option<EntryId>,
}

/// One consumer of the group, also a dead one that holds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConsumer {
    /// The partition in whose group it is.
    pub partition: u16,
    /// Its name: node and number.
    pub name: String,
    /// Its node.
    pub state: NodeState,
    /// Entries may be given to it: it works, and not for one replay only.
    pub takes: bool,
    /// Entries in its hands.
    pub pending: u64,
    /// Milliseconds since it last asked for entries.
    pub idle_ms: u64,
}

impl GroupConsumer {
    /// Where it stands in a list: who works, then who left entries behind, then who is gone for good.
    pub fn standing(&self) -> u8 {
        match (self.state, self.pending) {
            (NodeState::Alive, _) => 0,
            (NodeState::Dead, 1..) => 1,
            (NodeState::Stopped, 1..) => 2,
            (_, 0) => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_stands_first_and_who_stopped_with_nothing_last() {
        let standing = |state, pending| {
            let consumer = GroupConsumer {
                partition: 0,
                name: "node-a/1".to_owned(),
                state,
                takes: false,
                pending,
                idle_ms: 0,
            };
            consumer.standing()
        };
        let all = [
            standing(NodeState::Alive, 0),
            standing(NodeState::Dead, 3),
            standing(NodeState::Stopped, 3),
            standing(NodeState::Stopped, 0),
        ];
        assert!(all.is_sorted() && all[0] < all[1] && all[2] < all[3], "{all:?}");
        assert_eq!(standing(NodeState::Alive, 9), all[0], "a batch moves no row");
    }
}
