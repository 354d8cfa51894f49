//! The order stream in the Snapshot: one window, its group and consumers, read only while displayed.

use std::sync::Arc;

use seckill_model::{EntryId, Message, Millis, OrderId, UserId, VoucherId};
use seckill_redis::{entries::DeliveryState, nodes::NodeState, stream_stats::StreamStats};

/// The displayed part of the order stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamView {
    /// Only this partition; `None` for all, merged by time.
    pub partition: Option<u16>,
    /// Only entries before this one; `None` for the newest.
    pub before: Option<EntryId>,
}

/// One window of the order stream.
#[derive(Clone, Debug, Default)]
pub struct StreamPage {
    /// Partition and position.
    pub view: StreamView,
    /// When it was read, by the clock of Redis; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are older ones.
    pub older: bool,
    /// The entries, oldest first.
    pub lines: Arc<Vec<EntryLine>>,
    /// Every partition, including those not displayed.
    pub partitions: Vec<StreamStats>,
    /// Consumers of every partition, by name.
    pub consumers: Vec<GroupConsumer>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryLine {
    /// Its id.
    pub entry: EntryId,
    /// The requested order; `None` if the fields are invalid.
    pub order: Option<OrderId>,
    /// The buyer.
    pub user: Option<UserId>,
    /// The voucher.
    pub voucher: Option<VoucherId>,
    /// The fault of its fields.
    pub fault: Option<Message>,
    /// Its consumer.
    pub holding: DeliveryState,
    /// The node of its consumer; `None` if there is none or it is not known yet.
    pub holder: Option<NodeState>,
    /// It is a dead letter: acknowledged without writing its order. `None` if not all letters were read.
    pub dead: Option<bool>,
}

/// One consumer of the group, including dead ones without entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConsumer {
    /// The partition of its group.
    pub partition: u16,
    /// Its name: node and number.
    pub name: String,
    /// Its node.
    pub state: NodeState,
    /// Whether it can receive entries: it is active, and not only for one replay.
    pub takes: bool,
    /// Entries it holds.
    pub pending: u64,
    /// Milliseconds since its last read.
    pub idle_ms: u64,
}

impl GroupConsumer {
    /// Sort key in a list: active consumers, then those that left entries behind, then those that are permanently gone.
    pub fn sort_key(&self) -> u8 {
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
    fn active_consumers_come_first_and_stopped_ones_without_entries_last() {
        let key = |state, pending| {
            let consumer = GroupConsumer {
                partition: 0,
                name: "node-a/1".to_owned(),
                state,
                takes: false,
                pending,
                idle_ms: 0,
            };
            consumer.sort_key()
        };
        let all = [
            key(NodeState::Alive, 0),
            key(NodeState::Dead, 3),
            key(NodeState::Stopped, 3),
            key(NodeState::Stopped, 0),
        ];
        assert!(all.is_sorted() && all[0] < all[1] && all[2] < all[3], "{all:?}");
        assert_eq!(key(NodeState::Alive, 9), all[0], "a batch moves no row");
    }
}
