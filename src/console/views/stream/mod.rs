//! Stream: the consumer group, its consumers, and entries as they arrive.

pub(crate) mod commands;
mod consumers;
mod entries;
mod figures;
mod state;
pub(crate) mod wording;

use ratatui::{
    buffer::Buffer,
    layout::{
        Constraint::{Fill, Length},
        Layout, Rect,
    },
    text::{Line, Span},
    widgets::Widget,
};
use seckill_engine::{
    commands::Focus,
    telemetry::{
        Snapshot,
        snapshot::{EntryLine, StreamPage},
    },
};
use seckill_model::message::{Label, text};
use tui_input::Input;

use self::state::total;
pub(crate) use self::state::{Pane, StreamState};
use super::{
    Component, Effect, SIDES, Scene, Settled, Source, below,
    detail::Detail,
    draw_head, draw_text,
    table::{self, Table, TableState},
};
use crate::{
    keymap::{Action, key_of},
    text::{self},
    theme::glyphs,
    widgets::fit,
};

/// Rows of the figures if all of them fit.
const FIGURES: u16 = 4;

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
        consumers::draw(consumers_area, buffer, scene, state);
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
        let held = text!("stream-held-at-press-to-follow", at, key = key_of(Action::Last));
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
        text!(
            "stream-no-entry-on-this-page",
            text = text::echo(state.controls.filter.value()),
            key = key_of(Action::Back)
        )
    }
}
