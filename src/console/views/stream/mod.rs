//! Stream: the consumer group, its consumers, and entries as they arrive.

mod commands;
mod consumers;
mod entries;
mod figures;
mod state;
pub(crate) mod wording;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
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
    Component, Scene, Settled, Source, below,
    detail::Detail,
    draw_text, is_stale,
    table::{self, Table, TableState},
};
use crate::{
    keymap::{Action, key_of},
    text::{self},
    widgets::Canvas,
};

/// Rows of the figures if all of them fit.
const FIGURES: u16 = 4;

impl Component for StreamState {
    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene<'_>) {
        draw(&mut Canvas::new(buffer, area), scene, self);
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

    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        Settled { turned: self.settle(snapshot), ..Settled::default() }
    }

    fn is_read(&self, snapshot: &Snapshot) -> bool {
        snapshot.entries.taken.is_some()
    }

    fn focus(&self, focus: &mut Focus) {
        focus.stream = Some(self.entries.key());
    }
}

fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut StreamState) {
    let (w, h) = (canvas.width(), canvas.height());
    let page = &scene.snapshot.entries;
    head(canvas, scene, state);
    let Some(whole) = total(&page.partitions, state.partition()) else {
        let is_read = page.taken.is_some() || scene.snapshot.redis.up;
        let why = if is_read { text::READING } else { Label("stream-redis-is-unreachable-stream") };
        return draw_text(canvas.area(), canvas.buffer(), scene, 2, &why);
    };
    let chosen = state.entries.opened(scene.snapshot).filter(|_| state.pane == Pane::Entries);
    let mut detail = chosen.map(|line| entries::detail(scene, line, w));
    // In a small window the detail replaces what is above it.
    let brief = scene.compact || (detail.is_some() && h < 28);
    let mut y = if brief { 1 } else { 2 };
    if let Some(detail) = detail.take_if(|it| brief && h < y + 5 + it.height()) {
        state.entries.controls.top = None;
        return detail.draw(below(canvas.area(), 1), canvas.buffer());
    }
    if brief {
        canvas.line(1, y, &figures::brief(scene, state, &whole, canvas.width() - 2));
        y += 1;
    } else {
        figures::draw(&mut canvas.part(0, y, w, FIGURES), scene, state, &whole);
        y += FIGURES + 1;
    }
    if state.pane == Pane::Consumers || !brief {
        let rest = h.saturating_sub(y);
        let wanted = page.consumers.len().max(1) as u16 + 1;
        let rows = match state.pane {
            Pane::Consumers if brief || h < 14 => rest,
            Pane::Consumers => wanted.min(rest * 2 / 3),
            Pane::Entries => wanted.min(if h >= 26 { 6 } else { 4 }),
        };
        consumers::draw(&mut canvas.part(0, y, w, rows), scene, state);
        y += rows + 1;
    }
    let under = detail.as_ref().map_or(0, Detail::height);
    if y + 2 <= h {
        draw_entries(&mut canvas.part(0, y, w, h.saturating_sub(y + under)), scene, state);
    }
    if let Some(detail) = detail {
        detail.draw(below(canvas.area(), h.saturating_sub(under)), canvas.buffer());
    }
}

/// The heading: partition, and whether the list follows.
fn head(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &StreamState) {
    let theme = scene.theme;
    let page = &scene.snapshot.entries;
    let mut heading = scene.page_heading(&Label("common-stream"), &[Source::Redis], page.taken);
    if page.partitions.len() > 1 {
        let text = match state.partition() {
            Some(number) => text!(
                "stream-partition-of-0-to",
                number,
                last = page.partitions.len().saturating_sub(1)
            ),
            None => Label("stream-all-partitions").read().to_owned(),
        };
        heading.push_span(Span::raw(format!("  {text}")));
    }
    canvas.line(1, 0, &heading);
    let mut spans = Vec::new();
    let filter = state.entries.controls.filter.value();
    if !filter.is_empty() {
        let shown = text!(
            "stream-of-on-this-page",
            shown = state.entries.rows(scene.snapshot).len(),
            of = page.lines.len()
        );
        spans.push(Span::raw(format!("/{}   {shown}   ", scene.fit(filter, 20))));
    }
    if state.entries.is_waiting() && !state.entries.is_first_page() {
        spans.push(Span::styled(text::READING.to_owned(), theme.warn));
    } else if state.entries.is_first_page()
        && (scene.frozen || is_stale(scene.health(Source::Redis), scene.now))
    {
        // No entries arrive; the badge or the heading shows why.
    } else if state.entries.is_first_page() {
        spans.push(Span::styled(format!("{} ", theme.glyphs.falling), theme.good));
        spans.push(Span::styled(Label("stream-following").read(), theme.soft));
    } else {
        let at = page.lines.last().map(|line| entries::time(scene, line.entry));
        let at = at.unwrap_or_else(|| text::UNKNOWN.read().to_owned());
        spans.push(Span::styled(
            text!("stream-held-at-press-to-follow", at, key = key_of(Action::Last)),
            theme.warn,
        ));
    }
    let width = canvas.width().saturating_sub(2);
    canvas.part(0, 0, width, 1).line_right(0, &Line::from(spans));
}

fn draw_entries(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut StreamState) {
    let rows = state.entries.rows(scene.snapshot);
    if rows.is_empty() {
        let why = nothing(&scene.snapshot.entries, &state.entries);
        return draw_text(canvas.area(), canvas.buffer(), scene, 0, &why);
    }
    let at = state.entries.position(&rows);
    let visible = usize::from(canvas.height().saturating_sub(1));
    state.entries.controls.follow(at, rows.len(), visible);
    let cursor = at.filter(|_| state.pane == Pane::Entries);
    let area = canvas.area();
    table::draw(area, canvas.buffer(), scene, &mut state.entries, &rows, cursor);
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
