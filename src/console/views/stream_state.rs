//! State of the order stream: following its end, or held at an earlier window.

use seckill_engine::telemetry::{
    Snapshot, StreamView,
    snapshot::{EntryLine, GroupConsumer, PartitionLine},
};
use seckill_model::EntryId;
use tui_input::Input;

use super::{
    Scene, Step,
    table::{Controls, Extent, Pager, Row, Sheet, TableState, TableView, Toward, Turn},
};
use crate::lag_trend::LagTrend;

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
    /// Only this partition; `None` for all.
    partition: Option<u16>,
    /// Windows by the entry after them.
    pager: Pager<Option<EntryId>>,
    /// The trend of the single partition on the screen.
    flow: LagTrend,
}

impl StreamState {
    /// The query for the engine.
    pub(crate) fn view(&self) -> StreamView {
        StreamView { partition: self.partition, before: self.pager.at() }
    }

    /// The list follows new entries.
    pub(crate) fn follows(&self) -> bool {
        self.pager.is_first()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.pager.is_waiting()
    }

    /// The trend of the single partition on the screen; `None` while all are shown.
    pub(crate) fn flow(&self) -> Option<&LagTrend> {
        self.partition.map(|_| &self.flow)
    }

    /// The entries that match the filter.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a EntryLine> {
        let is_of_partition = snapshot.entries.view.partition == self.partition;
        if is_of_partition { self.entries.rows(snapshot) } else { Vec::new() }
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a EntryLine> {
        let rows = self.rows(snapshot);
        self.entries.position(&rows).and_then(|row| rows.get(row).copied())
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
        self.partition = match self.partition {
            None => Some(0),
            Some(number) => Some(number + 1).filter(|next| *next < count),
        };
        self.pager.turn(Toward::First, None);
        self.flow = LagTrend::default();
        true
    }

    /// Revalidates choice and window against a new snapshot; `true` if another window has to be read.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> bool {
        let page = &snapshot.entries;
        let Some(taken) = page.taken else { return false };
        self.consumers.settle_list(snapshot);
        if let Some(total) = total(&page.partitions, self.partition) {
            self.flow.push(taken, total.lag);
        }
        let is_of_partition = page.view.partition == self.partition;
        let arrived = if is_of_partition { self.pager.arrived(page.view.before) } else { None };
        if let Some(toward) = arrived {
            let back = toward == Toward::Back;
            let edge = if back { page.lines.first() } else { page.lines.last() };
            self.entries.cursor = edge.map(|line| line.entry);
        }
        // The whole held window was trimmed.
        let empty = page.lines.is_empty() && page.view == self.view();
        let turned = empty && !self.follows() && !self.is_waiting();
        if turned {
            self.pager.turn(Toward::First, None);
        }
        self.settle_entry(snapshot);
        turned
    }

    /// The cursor stays at the end, or on its entry, or moves to the one that took its row.
    fn settle_entry(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        if self.follows() {
            self.entries.point_at(&rows, rows.len().saturating_sub(1));
        } else {
            self.entries.settle(&rows);
        }
    }
}

impl TableView for StreamState {
    fn controls(&self) -> &Controls {
        match self.pane {
            Pane::Entries => &self.entries.controls,
            Pane::Consumers => &self.consumers.controls,
        }
    }

    fn controls_mut(&mut self) -> &mut Controls {
        match self.pane {
            Pane::Entries => &mut self.entries.controls,
            Pane::Consumers => &mut self.consumers.controls,
        }
    }

    fn input(&mut self) -> &mut Input {
        &mut self.entries.controls.filter
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        match self.pane {
            Pane::Entries => self.chosen(snapshot).map(Row::name),
            Pane::Consumers => self.consumers.chosen_name(snapshot),
        }
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        self.settle_entry(snapshot);
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        if self.pane == Pane::Consumers {
            return TableView::step(&mut self.consumers, snapshot, step);
        }
        if step == Step::Last && !self.follows() {
            return Turn::Page(Toward::First);
        }
        if self.is_waiting() {
            return Turn::Waiting;
        }
        let rows = self.rows(snapshot);
        if self.entries.step(&rows, step) {
            return if self.follows() { Turn::Hold } else { Turn::Moved };
        }
        match step.is_forward() {
            true if !self.follows() => Turn::Page(Toward::Back),
            false if snapshot.entries.older && !rows.is_empty() => Turn::Page(Toward::Further),
            _ => Turn::edge(step),
        }
    }

    fn turn(&mut self, snapshot: &Snapshot, toward: Toward) {
        let first = snapshot.entries.lines.first();
        self.pager.turn(toward, first.map(|line| Some(line.entry)));
        if toward == Toward::First {
            self.settle_entry(snapshot);
        }
    }

    /// New entries no longer move the window.
    fn hold(&mut self, snapshot: &Snapshot) {
        if let Some(last) = snapshot.entries.lines.last() {
            self.pager.hold(last.entry.next_of_all());
        }
    }

    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet> {
        let page = &scene.snapshot.entries;
        total(&page.partitions, self.partition)?;
        if self.pane == Pane::Consumers {
            return self.consumers.sheet(scene);
        }
        let rows = self.rows(scene.snapshot);
        let is_known = page.taken.is_some() && !self.is_waiting();
        let cursor = self.entries.position(&rows);
        (is_known || !rows.is_empty()).then(|| Sheet::of(&self.entries, scene, &rows, cursor))
    }

    fn extent(&self, snapshot: &Snapshot) -> Extent {
        let page = &snapshot.entries;
        match self.pane {
            Pane::Consumers => Extent::whole(page.consumers.len()),
            Pane::Entries => {
                let length = total(&page.partitions, self.partition).map_or(0, |it| it.length);
                Extent::counted(page.lines.len(), length)
            }
        }
    }
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
    use seckill_engine::telemetry::snapshot::DeliveryState;

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
        assert!(done.holds("acknow") && !waits.holds("acknow") && waits.holds("wait"));
        assert!(line(DeliveryState::Acknowledged, Some(true)).holds("dead letters"));
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
