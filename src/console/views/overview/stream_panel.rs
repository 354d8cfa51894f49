//! The stream panel of the Overview: lag, pending entries, dead letters, locks and consumers.
//!
//! Each figure has a constant width, so that nothing behind it moves.

use std::cmp::Ordering;

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::{Holders, StreamLine};
use seckill_model::message::{Label, text};

use crate::{
    lag_trend::LagTrend,
    text::{self, figures},
    theme::Theme,
    views::{Scene, Source},
    widgets::{Canvas, left, right, width},
};

/// Rows without the consumers: stream, pending, dead letters, locks.
pub(super) const ROWS: u16 = 4;
/// Cells of the labels.
pub(super) const NAMES: u16 = 10;
/// Cells of a figure, and the column after it.
const FIGURE: usize = 9;
const BEHIND: u16 = NAMES + FIGURE as u16 + 2;
/// Cells of the lag with its label.
const LAG: usize = 14;
/// Panel width from which the stream's length and age are shown.
const ROOM_FOR_KEPT: u16 = 62;
const ROOM_FOR_OLDEST: u16 = 80;

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, consumers: usize) {
    let theme = scene.theme;
    let Some(stream) = &scene.snapshot.stream else {
        canvas.text(0, 0, &text::STREAM, theme.heading);
        canvas.text(NAMES, 0, &text::UNKNOWN, theme.warn);
        return;
    };
    let (blind, w) = (scene.is_blind(), canvas.width());
    canvas.line(0, 0, &lag(scene, stream));
    if let Some(wait) = scene.lag.drains_in().filter(|_| !blind) {
        let (text, x) = (text::drains_in(wait), NAMES + LAG as u16 + 3);
        // A truncated duration would be misread.
        if usize::from(x) + width(&text) <= usize::from(w) {
            canvas.text(x, 0, &text, theme.soft);
        }
    }
    if let Some(oldest) = stream.oldest_ms.filter(|_| !blind && w >= ROOM_FOR_KEPT) {
        let entries = right(&figures::within(stream.length, 9), 9, "");
        let kept = if w >= ROOM_FOR_OLDEST {
            text!("console-kept-oldest", entries, oldest = figures::steady_span(oldest))
        } else {
            text!("console-kept", entries)
        };
        canvas.line_right(0, &Line::styled(kept, theme.soft));
    }
    canvas.text(0, 1, &text::PENDING, theme.heading);
    canvas.text(NAMES, 1, &figure(stream.pending), Style::new());
    if let Some(age) = stream.oldest_pending_ms.filter(|_| stream.pending > 0) {
        canvas.text(BEHIND, 1, &text::oldest(age), theme.soft);
    }
    canvas.text(0, 2, &text::DEAD, theme.heading);
    let style = if stream.dead > 0 { theme.warn } else { Style::new() };
    canvas.text(NAMES, 2, &figure(stream.dead), style);
    let Holders { total, locks, .. } = &scene.snapshot.locks;
    canvas.text(0, 3, &Label("overview-locks"), theme.heading);
    canvas.text(NAMES, 3, &figure(*total), Style::new());
    let waiting: u64 = locks.iter().map(|lock| lock.waiting).sum();
    let orphans = locks.iter().filter(|lock| lock.orphan).count() as u64;
    let held = right(&figures::tiny(orphans), 3, "");
    let held = text!("overview-orphans", figure = held, count = orphans);
    // Counts are right-aligned, so the first already has leading blanks.
    let mut x = BEHIND - 2;
    let gap = if w >= 50 { 3 } else { 1 };
    // A lock that is never released needs attention; a queue does not.
    for (count, text, style) in [
        (orphans, held, theme.warn),
        (
            waiting,
            text!("overview-waiting", count = right(&figures::tiny(waiting), 3, "")),
            theme.soft,
        ),
    ] {
        if count > 0 && usize::from(x) + width(&text) <= usize::from(canvas.width()) {
            x = canvas.text(x, 3, &text, style) + gap;
        }
    }
    if consumers > 0 {
        list(&mut canvas.part(0, ROWS, canvas.width(), consumers as u16), scene, stream);
    }
    if blind {
        // All of it is as of the last read, however old that is.
        let rows = ROWS + consumers as u16;
        canvas.part(0, 0, w, rows).dim(theme.dimmed);
        canvas.line_right(0, &Line::styled(scene.age(Source::Redis), theme.warn));
    }
}

/// The consumers, those that need attention first, as many as fit.
fn list(canvas: &mut Canvas<'_>, scene: &Scene<'_>, stream: &StreamLine) {
    let theme = scene.theme;
    canvas.text(0, 0, &Label("overview-consumers"), theme.heading);
    let (all, rows) = (&stream.consumers, usize::from(canvas.height()));
    if all.is_empty() {
        canvas.text(NAMES, 0, &Label("common-none"), theme.soft);
    }
    let shown = if all.len() > rows { rows.saturating_sub(1) } else { all.len() };
    let name_room = canvas.width().saturating_sub(NAMES + 24).clamp(8, 30);
    for (y, consumer) in (0_u16..).zip(all.iter().take(shown)) {
        let (glyph, style, word) = match (consumer.alive, consumer.known) {
            _ if scene.is_blind() => (theme.glyphs.waiting, theme.soft, text::UNKNOWN),
            (true, _) => (theme.glyphs.up, theme.good, text::ALIVE),
            (false, true) => (theme.glyphs.away, theme.bad, text::DEAD_HOLDER),
            (false, false) => (theme.glyphs.away, theme.warn, text::STRANGER),
        };
        canvas.text(NAMES, y, glyph, style);
        canvas.text(NAMES + 2, y, &scene.fit(&consumer.name, name_room), Style::new());
        canvas.text(NAMES + 3 + name_room, y, &word, style);
        let count = right(&figure(consumer.pending), FIGURE, theme.glyphs.ellipsis);
        canvas.text(NAMES + 11 + name_room, y, &count, Style::new());
    }
    if shown < all.len() {
        let more = text!("console-and-more", count = all.len() - shown);
        canvas.text(NAMES, shown as u16, &more, theme.soft);
    }
}

fn figure(count: u64) -> String {
    figures::within(count, FIGURE)
}

/// Everything in one row, for a low window.
pub(super) fn in_a_row(canvas: &mut Canvas<'_>, scene: &Scene<'_>, y: u16, stream: &StreamLine) {
    let theme = scene.theme;
    let mut line = lag(scene, stream);
    for (label, count) in [(text::PENDING, stream.pending), (text::DEAD, stream.dead)] {
        line.push_span(Span::styled(format!("  {label} "), theme.heading));
        line.push_span(Span::raw(left(&figures::within(count, 5), 5, "")));
    }
    canvas.line(0, y, &line);
    if scene.is_blind() {
        let w = canvas.width();
        canvas.part(0, y, w, 1).dim(scene.theme.dimmed);
    }
}

/// The lag and its trend.
fn lag(scene: &Scene<'_>, stream: &StreamLine) -> Line<'static> {
    let theme = scene.theme;
    let head = left(&text::STREAM, usize::from(NAMES), theme.glyphs.ellipsis);
    let mut spans = vec![Span::styled(head, theme.heading)];
    let (text, style) = match stream.lag {
        _ if !stream.group => (Label("console-no-group").to_string(), theme.bad),
        None => (text!("console-lag", lag = text::UNKNOWN), theme.warn),
        Some(lag) => (text!("console-lag", lag = figures::within(lag, 9)), Style::new()),
    };
    spans.push(Span::styled(left(&text, LAG, theme.glyphs.ellipsis), style));
    let lag = stream.lag.filter(|_| stream.group).unwrap_or(0);
    let (glyph, style) = arrow(theme, scene.lag, lag);
    spans.push(Span::styled(format!(" {glyph}"), style));
    Line::from(spans)
}

/// The trend arrow; blank if there is no lag or no trend yet.
pub(in crate::views) fn arrow(theme: Theme, flow: &LagTrend, lag: u64) -> (&'static str, Style) {
    match flow.trend().filter(|_| lag > 0) {
        None => (" ", Style::new()),
        Some(Ordering::Greater) => (theme.glyphs.rising, theme.warn),
        Some(Ordering::Less) => (theme.glyphs.falling, theme.good),
        Some(Ordering::Equal) => (theme.glyphs.steady, theme.soft),
    }
}
