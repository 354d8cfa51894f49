//! Stream: the consumer group, its consumers, and entries as they arrive.

pub(crate) mod commands;
mod entries;
mod figures;

use ratatui::{
    layout::Constraint::{Fill, Length},
    prelude::*,
    widgets::Paragraph,
};
use seckill_engine::{
    Snapshot,
    commands::Focus,
    telemetry::{
        StreamView,
        snapshot::{ConsumerLine, EntryLine, NodeState, StreamPage, StreamStats},
    },
};
use seckill_model::{Label, text};
use tui_input::Input;

use super::{
    Component, Effect, SIDES, Scene, Settled, Source, below,
    detail::Detail,
    draw_head, draw_text,
    table::{self, Column, Page, REST, Row, Table, TableState, Value},
};
use crate::{
    keymap::Action,
    lag_trend::LagTrend,
    text::{self},
    theme::glyphs,
    widgets::fit,
};

/// Rows of the figures if all of them fit.
const FIGURES: u16 = 4;

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
    pub(crate) consumers: TableState<ConsumerLine>,
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

impl Component for StreamState {
    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene<'_>) {
        draw(area, buffer, scene, self);
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

    fn filter(&mut self) -> Option<&mut Input> {
        Some(&mut self.entries.controls.filter)
    }

    fn run(&mut self, action: Action, scene: &Scene<'_>) -> Option<Effect> {
        self.act(action, scene).map(|done| done.unwrap_or_else(Effect::Note))
    }

    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        self.follow(snapshot)
    }

    fn is_read(&self, snapshot: &Snapshot) -> bool {
        snapshot.entries.taken.is_some()
    }

    fn focus(&self, _: &Snapshot, focus: &mut Focus) {
        focus.stream = Some(self.entries.key());
    }
}

fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, state: &mut StreamState) {
    let page = &scene.snapshot.entries;
    head(area, buffer, scene, state);
    let Some(whole) = total(&page.partitions, state.partition()) else {
        let is_read = page.taken.is_some() || scene.snapshot.redis.up;
        let why = if is_read { text::READING } else { Label("stream-redis-is-unreachable-stream") };
        return draw_text(area, buffer, scene, 2, &why);
    };
    let chosen = state.entries.opened(scene.snapshot).filter(|_| state.pane == Pane::Entries);
    let mut detail = chosen.map(|line| entries::detail(scene, line, area.width));
    // In a small window the detail replaces what is above it.
    let brief = scene.compact || (detail.is_some() && area.height < 28);
    let (top, figure_rows, air) = if brief { (1, 1, 0) } else { (2, FIGURES, 1) };
    if let Some(detail) = detail.take_if(|it| brief && area.height < top + 5 + it.height()) {
        state.entries.controls.top = None;
        return detail.draw(below(area, 1), buffer);
    }
    let rest = area.height.saturating_sub(top + figure_rows + air);
    let wanted = page.consumers.len().max(1) as u16 + 1;
    let consumer_rows = match state.pane {
        Pane::Consumers if brief || area.height < 14 => rest,
        Pane::Consumers => wanted.min(rest * 2 / 3),
        Pane::Entries if brief => 0,
        Pane::Entries => wanted.min(if area.height >= 26 { 6 } else { 4 }),
    };
    let gap = u16::from((1..rest).contains(&consumer_rows));
    let under = detail.as_ref().map_or(0, Detail::height);
    let [_, figures_area, _, consumers_area, _, entries_area, detail_area] = Layout::vertical([
        Length(top),
        Length(figure_rows),
        Length(air),
        Length(consumer_rows),
        Length(gap),
        Fill(1),
        Length(under),
    ])
    .areas(area);
    if brief {
        let line = figures::brief(scene, state, &whole, area.width - 2);
        line.render(figures_area.inner(SIDES), buffer);
    } else {
        figures::draw(figures_area, buffer, scene, state, &whole);
    }
    if consumer_rows > 0 {
        draw_consumers(consumers_area, buffer, scene, state);
    }
    if entries_area.height >= 2 {
        draw_entries(entries_area, buffer, scene, state);
    }
    if let Some(detail) = detail {
        detail.draw(detail_area, buffer);
    }
}

/// The heading: partition, and whether the list follows.
fn head(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, state: &StreamState) {
    let theme = scene.theme;
    let page = &scene.snapshot.entries;
    let mut heading = scene.page_heading(&Label("common-stream"), &[Source::Redis], page.taken);
    if page.partitions.len() > 1 {
        let last = page.partitions.len().saturating_sub(1);
        let text = match state.partition() {
            Some(number) => text!("stream-partition-of-0-to", number, last),
            None => Label("stream-all-partitions").to_owned(),
        };
        heading.push_span(format!("  {text}"));
    }
    let mut summary = Line::default();
    let filter = state.entries.controls.filter.value();
    if !filter.is_empty() {
        let (shown, of) = (state.entries.rows(scene.snapshot).len(), page.lines.len());
        let shown = text!("stream-of-on-this-page", shown, of);
        summary.push_span(format!("/{}   {shown}   ", fit(filter, 20)));
    }
    let is_first = state.entries.is_first_page();
    if state.entries.is_waiting() && !is_first {
        summary.push_span(Span::styled(text::READING, theme.warn));
    } else if !is_first {
        let at = page.lines.last().map(|line| entries::time(scene, line.entry));
        let at = at.unwrap_or_else(|| text::UNKNOWN.to_owned());
        let held = text!("stream-held-at-press-to-follow", at);
        summary.push_span(Span::styled(held, theme.warn));
    } else if !scene.frozen && !scene.is_blind() {
        // Else no entries arrive; the badge or the heading shows why.
        summary.push_span(Span::styled(format!("{} ", glyphs::FALLING), theme.good));
        summary.push_span(Span::styled(Label("stream-following"), theme.soft));
    }
    draw_head(area, buffer, &heading, &summary);
}

fn draw_entries(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, state: &mut StreamState) {
    let rows = state.entries.rows(scene.snapshot);
    if rows.is_empty() {
        let why = nothing(&scene.snapshot.entries, &state.entries);
        return draw_text(area, buffer, scene, 0, &why);
    }
    let at = state.entries.position(&rows);
    let visible = usize::from(area.height.saturating_sub(1));
    state.entries.controls.follow(at, rows.len(), visible);
    let cursor = at.filter(|_| state.pane == Pane::Entries);
    table::draw(area, buffer, scene, &mut state.entries, &rows, cursor);
}

/// Why there is no row.
fn nothing(page: &StreamPage, state: &TableState<EntryLine>) -> String {
    if page.view.partition != state.key().partition || page.taken.is_none() {
        text::READING.to_owned()
    } else if page.lines.is_empty() {
        Label("stream-stream-is-empty-each-admitted").read().to_owned()
    } else {
        let text = text::echo(state.controls.filter.value());
        text!("stream-no-entry-on-this-page", text)
    }
}

impl Row for ConsumerLine {
    /// Names are unique within a partition only.
    type Id = (u16, String);
    type Key = ();

    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("stream-consumer"), &[(0, REST)], |it: &Self| it.name.clone().into()),
        Column::figure(Label("stream-partition"), &[(0, 9)], |it: &Self| {
            u64::from(it.partition).into()
        })
        .when(|snapshot| snapshot.entries.partitions.len() > 1)
        .soft(),
        Column::text(Label("common-node"), &[(0, 8)], |it: &Self| {
            Value::Text(node_state(it.state, it.pending > 0).to_owned())
        })
        .styled(|scene, it| match (it.state, it.pending) {
            (NodeState::Alive, _) => scene.theme.good,
            (_, 0) => scene.theme.soft,
            (NodeState::Stopped, _) => scene.theme.warn,
            (NodeState::Dead, _) => scene.theme.broken,
        }),
        Column::figure(text::PENDING, &[(0, 9)], |it: &Self| it.pending.into()).styled(
            |scene, it| match it.state {
                NodeState::Stopped | NodeState::Dead if it.pending > 0 => scene.theme.warn,
                _ => Style::new(),
            },
        ),
        Column::span(Label("tables-idle"), &[(0, 8)], |it: &Self| Value::Span(it.idle_ms)).soft(),
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

/// Draws the consumers of the group.
fn draw_consumers(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, state: &mut StreamState) {
    let theme = scene.theme;
    let mut all = ConsumerLine::page(scene.snapshot).rows;
    if all.is_empty() {
        let head = Line::styled(Label("stream-consumer"), theme.heading);
        let none = Line::styled(Label("stream-no-consumer-reads-the-stream"), theme.soft);
        return Paragraph::new(vec![head, none]).render(area.inner(SIDES), buffer);
    }
    if state.pane == Pane::Consumers {
        let cursor = state.consumers.position(&all);
        return table::draw(area, buffer, scene, &mut state.consumers, &all, cursor);
    }
    // Abbreviated here; shown in full once this list has the focus.
    let room = usize::from(area.height.saturating_sub(1));
    let more = (all.len() > room && room > 1).then(|| all.len() + 1 - room);
    all.truncate(all.len() - more.unwrap_or(0));
    let height = area.height - u16::from(more.is_some());
    let mut at_rest = TableState::default();
    table::draw(Rect { height, ..area }, buffer, scene, &mut at_rest, &all, None);
    if let Some(count) = more {
        let text = text!("stream-and-more-press-for-all", count);
        draw_text(area, buffer, scene, height, &text);
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
