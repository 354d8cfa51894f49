//! Stream: the consumer group, its consumers, and entries as they arrive.

pub(crate) mod commands;
mod entries;
mod figures;

use seckill_engine::telemetry::{
    StreamView,
    snapshot::{ConsumerLine, EntryLine, NodeState, StreamStats},
};
use tui_input::Input;

use super::prelude::*;
use crate::lag_trend::LagTrend;

/// Which list has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    Entries,
    Consumers,
}

#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) pane: Pane,
    pub(crate) entries: TableState<EntryLine>,
    pub(crate) consumers: TableState<ConsumerLine>,
    /// The trend of the single partition on the screen.
    flow: LagTrend,
}

impl StreamState {
    /// The partition on the screen; `None` for all.
    pub(crate) fn partition(&self) -> Option<u16> {
        self.entries.key().partition
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
}

/// The figures of one partition, or the sum of all; `None` if unknown.
pub(super) fn total(all: &[StreamStats], only: Option<u16>) -> Option<StreamStats> {
    StreamStats::sum(all.iter().filter(|it| only.is_none_or(|number| number == it.partition)))
}

impl Component for StreamState {
    fn keys() -> Vec<ViewKey> {
        vec![
            (Action::Rewind, "W", true),
            (Action::Claim, "C", true),
            (Action::RemoveConsumer, "D", true),
            STOP_COMMAND,
            (Action::Pane, "c", true),
            (Action::Partition, "p", false),
            FILTER,
            USERS,
        ]
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let page = &scene.shown.entries;
        self.entries.draw_heading(area, buffer, scene);
        let Some(whole) = total(&page.partitions, self.partition()) else {
            return draw_text(area, buffer, scene, 2, &self.entries.nothing(scene));
        };
        let is_on_entries = self.pane == Pane::Entries;
        let chosen = self.entries.opened(&scene.shown).filter(|_| is_on_entries);
        let detail = chosen.and_then(|line| EntryLine::detail(scene, line, area.width));
        // In a small window the detail replaces what is above it.
        let brief = scene.compact || (detail.is_some() && area.height < 28);
        let (top, figure_rows, air) = if brief { (1, 2, 0) } else { (2, 4, 1) };
        let rest = area.height.saturating_sub(top + figure_rows + air);
        let wanted = page.consumers.len().max(1) as u16 + 1;
        // The list with the focus has most of the rows, in a small window all of them.
        let (consumer_rows, gap) = match self.pane {
            Pane::Consumers if brief => (rest, 0),
            Pane::Consumers => (wanted.min(rest * 2 / 3), 1),
            Pane::Entries if brief => (0, 0),
            Pane::Entries => (wanted.min(rest / 3), 1),
        };
        let rows = [top, figure_rows, air, consumer_rows, gap].map(Length);
        let [_, figures_area, _, consumers_area, _, list_area] =
            Layout::vertical(rows.into_iter().chain([Fill(1)])).areas(area);
        self.entries.controls.is_passive = !is_on_entries;
        let list_top = list_area.y - area.y;
        let is_visible =
            list_area.height < 2 || self.entries.draw_table(area, buffer, scene, list_top, detail);
        if !is_visible {
            return;
        }
        self.draw_figures(figures_area, buffer, scene, &whole);
        if consumer_rows > 0 {
            self.consumers.controls.is_passive = is_on_entries;
            self.consumers.draw_rows(consumers_area, buffer, scene);
        }
    }

    fn table(&self) -> Option<&dyn Table> {
        Some(match self.pane {
            Pane::Entries => &self.entries,
            Pane::Consumers => &self.consumers,
        })
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        Some(match self.pane {
            Pane::Entries => &mut self.entries,
            Pane::Consumers => &mut self.consumers,
        })
    }

    /// Consumers are known without a page of entries.
    fn names(&self, snapshot: &Snapshot) -> Vec<(String, String)> {
        let consumers = snapshot.stream.iter().flat_map(|stream| &stream.consumers);
        let names = consumers.map(|it| [it.name.clone(), it.name.clone()].into());
        Table::names(&self.entries, snapshot).into_iter().chain(names).collect()
    }

    fn point_to(&mut self, snapshot: &Snapshot, name: &str) {
        let mut consumers = snapshot.stream.iter().flat_map(|stream| &stream.consumers);
        if let Some(consumer) = consumers.find(|it| it.name == name) {
            (self.pane, self.consumers.cursor) = (Pane::Consumers, Some(consumer.id()));
        } else {
            self.pane = Pane::Entries;
            Table::point_to(&mut self.entries, snapshot, name);
        }
    }

    fn filter(&mut self) -> Option<&mut Input> {
        Some(&mut self.entries.controls.filter)
    }

    fn run(&mut self, action: Action, scene: &Scene) -> Option<Effect> {
        self.act(action, scene).map(|done| done.unwrap_or_else(Effect::Note))
    }

    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let page = &snapshot.entries;
        let Some(taken) = page.taken else { return Settled::default() };
        Table::settle(&mut self.consumers, snapshot);
        if let Some(total) = total(&page.partitions, self.partition()) {
            self.flow.push(taken, total.lag);
        }
        Table::settle(&mut self.entries, snapshot)
    }

    fn focus(&self, snapshot: &Snapshot, focus: &mut Focus) {
        self.entries.focus(snapshot, focus);
    }
}

impl Row for ConsumerLine {
    /// Names are unique within a partition only.
    type Id = (u16, String);
    type Key = ();

    const VIEW: View = View::Stream;
    const SOURCES: &'static [Source] = &[Source::Redis];
    const EMPTY: Label = Label("stream-no-consumer-reads-the-stream");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("stream-consumer"), (0, REST), |it: &Self| it.name.clone().into()),
        Column::figure(Label("stream-partition"), (0, 9), |it: &Self| {
            u64::from(it.partition).into()
        })
        .when(|snapshot| snapshot.entries.partitions.len() > 1)
        .soft(),
        Column::text(Label("common-node"), (0, 8), |it: &Self| {
            Value::Text(node_state(it.state, it.pending > 0).to_owned())
        })
        .styled(|scene, it| match (it.state, it.pending) {
            (NodeState::Alive, _) => scene.theme.good,
            (_, 0) => scene.theme.soft,
            (NodeState::Stopped, _) => scene.theme.warn,
            (NodeState::Dead, _) => scene.theme.broken,
        }),
        Column::figure(text::PENDING, (0, 9), |it: &Self| it.pending.into()).styled(|scene, it| {
            match it.state {
                NodeState::Stopped | NodeState::Dead if it.pending > 0 => scene.theme.warn,
                _ => Style::new(),
            }
        }),
        Column::figure(Label("tables-written-per-second"), (72, 9), |it: &Self| {
            it.per_second.into()
        }),
        Column::span(Label("tables-idle"), (0, 8), |it: &Self| Value::Span(it.idle_ms)).soft(),
    ];

    fn id(&self) -> Self::Id {
        (self.partition, self.name.clone())
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let is_read = snapshot.entries.taken.is_some();
        Page { is_read, ..Page::whole(&snapshot.entries.consumers) }
    }
}

/// The state of a node. An unlisted one that holds entries may never have been a node.
fn node_state(state: NodeState, holds: bool) -> &'static str {
    match state {
        NodeState::Alive => text::ALIVE.read(),
        NodeState::Stopped if holds => text::STRANGER.read(),
        NodeState::Stopped => Label("stream-stopped").read(),
        NodeState::Dead => text::DEAD_HOLDER.read(),
    }
}

#[cfg(test)]
mod tests {
    use seckill_engine::telemetry::snapshot::DeliveryState;
    use seckill_model::EntryId;

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
        let line = |partition, lag| StreamStats { partition, lag, ..StreamStats::default() };
        let all = [line(0, Some(3)), line(1, None)];
        assert_eq!(total(&all, None).unwrap().lag, None);
        assert_eq!(total(&all, Some(0)).unwrap().lag, Some(3));
        assert_eq!(total(&all, Some(9)), None);
    }
}
