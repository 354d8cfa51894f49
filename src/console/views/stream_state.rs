//! State of the order stream: following its end, or held at an earlier window.

use seckill_engine::telemetry::{
    Snapshot, StreamView,
    snapshot::{DeliveryState, EntryLine, GroupConsumer, PartitionLine},
};
use seckill_model::EntryId;
use tui_input::Input;

use super::{Step, columns::Wanted, entry_holder::EntryHolder};
use crate::{lag_trend::LagTrend, text::order_fault, widgets::Scroll};

/// Which list has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    Entries,
    Consumers,
}

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Here,
    /// A page is outstanding.
    Waiting,
    Edge {
        top: bool,
    },
    /// Older entries have to be read, with the cursor on the last or first of them.
    Older {
        at_end: bool,
    },
    /// Entries after this window have to be read.
    Newer,
    /// The window has to be held, as the user left its end.
    Hold,
    /// The newest entries have to be read as they arrive.
    Follow,
}

#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) pane: Pane,
    view: StreamView,
    /// Boundaries of the windows after this one; the last is the nearest.
    after: Vec<Option<EntryId>>,
    /// A requested window that has not arrived, and whether the cursor moves to its end.
    awaited: Option<(StreamView, bool)>,
    cursor: Option<EntryId>,
    row: usize,
    /// Names are unique within a partition only.
    consumer: Option<(u16, String)>,
    consumer_row: usize,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) consumers: Scroll,
    pub(crate) detail: bool,
    /// The trend of the single partition on the screen.
    flow: LagTrend,
}

impl StreamState {
    /// The query for the engine.
    pub(crate) fn view(&self) -> StreamView {
        self.view
    }

    /// The list follows new entries.
    pub(crate) fn follows(&self) -> bool {
        self.view.before.is_none()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// The trend of the single partition on the screen; `None` while all are shown.
    pub(crate) fn flow(&self) -> Option<&LagTrend> {
        self.view.partition.map(|_| &self.flow)
    }

    /// The entries that match the filter.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a EntryLine> {
        let page = &snapshot.entries;
        if page.view.partition != self.view.partition {
            return Vec::new();
        }
        let wanted = Wanted::new(self.filter.value());
        page.lines.iter().filter(|line| wanted.lets(|word| holds(line, word))).collect()
    }

    pub(crate) fn position(&self, rows: &[&EntryLine]) -> Option<usize> {
        rows.iter().position(|line| Some(line.entry) == self.cursor)
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a EntryLine> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    pub(crate) fn consumer_position(&self, all: &[GroupConsumer]) -> Option<usize> {
        let (partition, name) = self.consumer.as_ref()?;
        all.iter().position(|it| it.partition == *partition && it.name == *name)
    }

    pub(crate) fn chosen_consumer<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a GroupConsumer> {
        let all = &snapshot.entries.consumers;
        self.consumer_position(all).and_then(|row| all.get(row))
    }

    /// Moves the focus to the other list.
    pub(crate) fn switch(&mut self) {
        self.pane = match self.pane {
            Pane::Entries => Pane::Consumers,
            Pane::Consumers => Pane::Entries,
        };
        self.detail = false;
    }

    /// Selects the next partition, or all of them; `false` if there is only one.
    pub(crate) fn next_partition(&mut self, snapshot: &Snapshot) -> bool {
        let count = snapshot.entries.partitions.len() as u16;
        if count < 2 {
            return false;
        }
        let partition = match self.view.partition {
            None => Some(0),
            Some(number) => Some(number + 1).filter(|next| *next < count),
        };
        self.view.partition = partition;
        self.follow();
        self.flow = LagTrend::default();
        true
    }

    /// Revalidates choice and window against a new snapshot; `true` if another window has to be read.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> bool {
        let page = &snapshot.entries;
        let Some(taken) = page.taken else { return false };
        self.settle_consumer(snapshot);
        if let Some(total) = total(&page.partitions, self.view.partition) {
            self.flow.push(taken, total.lag);
        }
        if let Some((_, at_end)) = self.awaited.take_if(|(view, _)| *view == page.view) {
            let edge = if at_end { page.lines.last() } else { page.lines.first() };
            self.cursor = edge.map(|line| line.entry);
        }
        // The whole held window was trimmed.
        let empty = page.lines.is_empty() && page.view == self.view;
        let turned = empty && !self.follows() && self.awaited.is_none();
        if turned {
            self.follow();
        }
        self.settle_cursor(snapshot);
        turned
    }

    /// The cursor stays at the end, or on its entry, or moves to the one that took its row.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        let last = rows.len().saturating_sub(1);
        let row = match self.position(&rows) {
            _ if self.follows() => last,
            Some(row) => row,
            None => self.row.min(last),
        };
        self.row = row;
        self.cursor = rows.get(row).map(|line| line.entry);
    }

    fn settle_consumer(&mut self, snapshot: &Snapshot) {
        let all = &snapshot.entries.consumers;
        if let Some(row) = self.consumer_position(all) {
            self.consumer_row = row;
            return;
        }
        let row = self.consumer_row.min(all.len().saturating_sub(1));
        self.consumer_row = row;
        self.consumer = all.get(row).map(identity);
    }

    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step) -> Moved {
        let forward = matches!(step, Step::Last | Step::By(1..) | Step::Screens(1..));
        if self.pane == Pane::Consumers {
            let all = &snapshot.entries.consumers;
            let row = self.consumer_position(all).unwrap_or(0);
            let next = step.from(row, all.len(), self.consumers.visible);
            self.consumer = all.get(next).map(identity);
            self.consumer_row = next;
            return if next == row { Moved::Edge { top: !forward } } else { Moved::Here };
        }
        if step == Step::Last && !self.follows() {
            return Moved::Follow;
        }
        if self.is_waiting() {
            return Moved::Waiting;
        }
        let rows = self.rows(snapshot);
        let row = self.position(&rows).unwrap_or(0);
        let next = step.from(row, rows.len(), self.scroll.visible);
        if next != row {
            self.row = next;
            self.cursor = rows.get(next).map(|line| line.entry);
            return if self.follows() { Moved::Hold } else { Moved::Here };
        }
        match forward {
            true if self.follows() => Moved::Edge { top: false },
            true => Moved::Newer,
            false if snapshot.entries.older && !rows.is_empty() => {
                Moved::Older { at_end: step != Step::First }
            }
            false => Moved::Edge { top: true },
        }
    }

    /// Holds the visible window: new entries no longer move it.
    pub(crate) fn hold(&mut self, snapshot: &Snapshot) {
        let Some(last) = snapshot.entries.lines.last() else { return };
        self.after.push(self.view.before);
        self.view.before = last.entry.next_of_all();
    }

    pub(crate) fn older(&mut self, snapshot: &Snapshot, at_end: bool) {
        let Some(first) = snapshot.entries.lines.first() else { return };
        self.after.push(self.view.before);
        self.view.before = Some(first.entry);
        self.awaited = Some((self.view, at_end));
    }

    pub(crate) fn newer(&mut self) {
        self.view.before = self.after.pop().flatten();
        self.awaited = Some((self.view, self.follows()));
    }

    pub(crate) fn follow(&mut self) {
        self.after.clear();
        self.view.before = None;
        self.awaited = Some((self.view, true));
    }
}

fn identity(consumer: &GroupConsumer) -> (u16, String) {
    (consumer.partition, consumer.name.clone())
}

fn holds(line: &EntryLine, wanted: &str) -> bool {
    let consumer = match &line.holding {
        DeliveryState::Pending { consumer, .. } => Some(consumer.clone()),
        _ => None,
    };
    let texts = [
        Some(line.entry.to_string()),
        line.order.map(|order| order.to_string()),
        line.user.map(|user| user.to_string()),
        line.voucher.map(|voucher| format!("#{voucher}")),
        line.fault.as_ref().map(order_fault),
        consumer,
        Some(EntryHolder::of(line).word().to_owned()),
    ];
    texts.iter().flatten().any(|text| text.to_lowercase().contains(wanted))
}

/// The figures of one partition, or the sum of all; `None` if unknown.
pub(super) fn total(all: &[PartitionLine], only: Option<u16>) -> Option<PartitionLine> {
    let mut shown =
        all.iter().copied().filter(|it| only.is_none_or(|number| number == it.partition));
    let first = shown.next()?;
    let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
    Some(shown.fold(first, |whole, it| PartitionLine {
        partition: whole.partition,
        length: whole.length + it.length,
        added: whole.added + it.added,
        first: [whole.first, it.first].into_iter().flatten().min(),
        last: whole.last.max(it.last),
        bytes: sum(whole.bytes, it.bytes),
        group: whole.group && it.group,
        delivered: whole.delivered.max(it.delivered),
        read: sum(whole.read, it.read),
        lag: sum(whole.lag, it.lag),
        pending: whole.pending + it.pending,
        oldest_pending: [whole.oldest_pending, it.oldest_pending].into_iter().flatten().min(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(holds(&done, "acknow") && !holds(&waits, "acknow") && holds(&waits, "wait"));
        assert!(holds(&line(DeliveryState::Acknowledged, Some(true)), "dead letters"));
    }

    #[test]
    fn one_partition_without_a_figure_leaves_the_sum_unknown() {
        let line = |partition, lag| PartitionLine { partition, lag, ..PartitionLine::default() };
        let all = [line(0, Some(3)), line(1, None)];
        assert_eq!(total(&all, None).unwrap().lag, None);
        assert_eq!(total(&all, Some(0)).unwrap().lag, Some(3));
        assert_eq!(total(&all, Some(9)), None);
    }
}
