//! State of the order stream: its two lists, and the trend of one partition.

use seckill_engine::telemetry::{
    Snapshot, StreamView,
    snapshot::{EntryLine, GroupConsumer, StreamStats},
};

use crate::{
    lag_trend::LagTrend,
    views::table::{Settled, TableState},
};

/// Which list has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    Entries,
    Consumers,
}

#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) pane: Pane,
    pub(crate) entries: TableState<EntryLine>,
    pub(crate) consumers: TableState<GroupConsumer>,
    /// The trend of the single partition on the screen.
    flow: LagTrend,
}

impl StreamState {
    /// The partition on the screen; `None` for all.
    pub(crate) fn partition(&self) -> Option<u16> {
        self.entries.key().partition
    }

    /// The trend of the single partition on the screen; `None` while all are shown.
    pub(crate) fn flow(&self) -> Option<&LagTrend> {
        self.partition().map(|_| &self.flow)
    }

    /// Moves the focus to the other list.
    pub(crate) fn switch(&mut self) {
        self.pane = match self.pane {
            Pane::Entries => Pane::Consumers,
            Pane::Consumers => Pane::Entries,
        };
        self.entries.controls.detail = false;
    }

    /// Selects the next partition, or all of them; `false` if there is only one.
    pub(crate) fn next_partition(&mut self, snapshot: &Snapshot) -> bool {
        let count = snapshot.entries.partitions.len() as u16;
        if count < 2 {
            return false;
        }
        let next = self.partition().map_or(0, |number| number + 1);
        let partition = Some(next).filter(|next| *next < count);
        self.entries.open(StreamView { partition, before: None });
        self.flow = LagTrend::default();
        true
    }

    /// Revalidates both lists against a new snapshot.
    pub(super) fn follow(&mut self, snapshot: &Snapshot) -> Settled {
        let page = &snapshot.entries;
        let Some(taken) = page.taken else { return Settled::default() };
        self.consumers.settle(snapshot);
        if let Some(total) = total(&page.partitions, self.partition()) {
            self.flow.push(taken, total.lag);
        }
        self.entries.settle(snapshot)
    }
}

/// The figures of one partition, or the sum of all; `None` if unknown.
pub(super) fn total(all: &[StreamStats], only: Option<u16>) -> Option<StreamStats> {
    StreamStats::sum(all.iter().filter(|it| only.is_none_or(|number| number == it.partition)))
}

#[cfg(test)]
mod tests {
    use seckill_engine::telemetry::snapshot::DeliveryState;
    use seckill_model::EntryId;

    use super::*;
    use crate::views::table::Row as _;

    #[test]
    fn the_filter_matches_the_displayed_state() {
        let line = |holding, dead| EntryLine {
            entry: EntryId::MIN,
            order: None,
            user: None,
            voucher: None,
            fault: None,
            dead,
            holding,
            holder: None,
        };
        let done = line(DeliveryState::Acknowledged, Some(false));
        let waits = line(DeliveryState::Undelivered, Some(false));
        assert!(done.holds("acknow") && !waits.holds("acknow") && waits.holds("wait"));
        assert!(line(DeliveryState::Acknowledged, Some(true)).holds("dead letters"));
    }

    #[test]
    fn one_partition_without_a_figure_leaves_the_sum_unknown() {
        let line = |partition, lag| StreamStats { partition, lag, ..StreamStats::default() };
        let all = [line(0, Some(3)), line(1, None)];
        assert_eq!(total(&all, None).unwrap().lag, None);
        assert_eq!(total(&all, Some(0)).unwrap().lag, Some(3));
        assert_eq!(total(&all, Some(9)), None);
    }
}
