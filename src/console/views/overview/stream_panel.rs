//! The stream panel of the Overview: lag, pending entries, dead letters, locks and consumers.
//!
//! Each figure has a constant width, so that nothing behind it moves.

use std::cmp::Ordering;

use ratatui::widgets::{Row, Table};
use seckill_engine::{StreamLine, telemetry::snapshot::Holders};

use crate::{lag_trend::LagTrend, views::prelude::*};

/// Rows without the consumers: stream, pending, dead letters, locks.
pub(super) const ROWS: u16 = 4;
/// Cells of the labels.
const NAMES: u16 = 10;
/// Cells of the lag.
const LAG: usize = 9;

pub(super) fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene, consumers: u16) {
    let theme = scene.theme;
    let Some(stream) = &scene.shown.stream else {
        let unknown = Span::styled(text::UNKNOWN, theme.warn);
        return Line::from(vec![label(theme, &text::STREAM), unknown]).render(area, buffer);
    };
    let (blind, room) = (scene.is_blind(), usize::from(area.width));
    let mut stream_row = Line::from(label(theme, &text::STREAM));
    stream_row.push_span(format!("{} ", Label("common-lag").read()));
    stream_row.extend(lag(theme, &scene.lag, stream.group, stream.lag));
    // A truncated figure or duration would be misread.
    let push = |line: &mut Line<'static>, part: Span<'static>| {
        if line.width() + part.width() <= room {
            line.push_span(part);
        }
    };
    if let Some(wait) = scene.lag.drains_in().filter(|_| !blind) {
        push(&mut stream_row, Span::styled(format!(" {}", text::drains_in(wait)), theme.soft));
    }
    let figure = |label_of: Label, count, style| {
        let count = figures::within(count, 9);
        Line::from(vec![label(theme, &label_of), Span::styled(left(&count, 9), style)])
    };
    let mut pending = figure(text::PENDING, stream.pending, Style::new());
    if let Some(age) = stream.oldest_pending_ms.filter(|_| stream.pending > 0) {
        push(&mut pending, Span::styled(format!("  {}", text::oldest(age)), theme.soft));
    }
    let style = if stream.dead > 0 { theme.warn } else { Style::new() };
    let mut dead = figure(text::DEAD, stream.dead, style);
    if let Some(missing) = scene.missing().filter(|_| !scene.compact) {
        for line in [&mut pending, &mut dead] {
            let missing = fit(&missing, room.saturating_sub(line.width() + 2));
            line.push_span(Span::styled(format!("  {missing}"), theme.warn));
        }
    }
    let Holders { total, locks, .. } = &scene.shown.locks;
    let mut locks_row = if scene.shown.locks_unknown {
        let unknown = Span::styled(text::UNKNOWN, theme.warn);
        Line::from(vec![label(theme, &Label("overview-locks")), unknown])
    } else {
        figure(Label("overview-locks"), *total, Style::new())
    };
    // A lock that is never released needs attention; a queue does not.
    let orphans = locks.iter().filter(|lock| lock.orphan).count() as u64;
    if orphans > 0 {
        let figure = right(&figures::tiny(orphans), 3);
        let orphans = text!("overview-orphans", figure, count = orphans);
        push(&mut locks_row, Span::styled(orphans, theme.warn));
        locks_row.push_span(" ");
    }
    let waiting: u64 = locks.iter().map(|lock| lock.waiting).sum();
    if waiting > 0 {
        let count = right(&figures::tiny(waiting), 3);
        push(&mut locks_row, Span::styled(text!("overview-waiting", count), theme.soft));
    }
    let [figures_area, list_area] = Layout::vertical([ROWS, consumers].map(Length)).areas(area);
    Paragraph::new(vec![stream_row, pending, dead, locks_row]).render(figures_area, buffer);
    if !blind && area.width >= 62 {
        let kept = text!("console-kept", entries = figures::within(stream.length, 9));
        Span::styled(kept, theme.soft).into_right_aligned_line().render(area, buffer);
    }
    if consumers > 0 {
        list(list_area, buffer, scene, stream);
    }
    if blind {
        // All of it is as of the last read, however old that is.
        dim(area, buffer, scene);
        let age = Span::styled(scene.age(Source::Redis), theme.warn);
        age.into_right_aligned_line().render(area, buffer);
    }
}

pub(super) fn label(theme: Theme, label: &str) -> Span<'static> {
    Span::styled(left(label, usize::from(NAMES)), theme.heading)
}

/// The consumers, those that need attention first, as many as fit.
fn list(area: Rect, buffer: &mut Buffer, scene: &Scene, stream: &StreamLine) {
    let theme = scene.theme;
    let [head, area] = Layout::horizontal([Length(NAMES), Fill(1)]).areas(area);
    Span::styled(Label("overview-consumers"), theme.heading).render(head, buffer);
    let (all, rows) = (&stream.consumers, usize::from(area.height));
    if all.is_empty() {
        Span::styled(Label("common-none"), theme.soft).render(area, buffer);
    }
    let shown = if all.len() > rows { rows.saturating_sub(1).max(1) } else { all.len() };
    let more = (shown < all.len()).then(|| text!("console-and-more", count = all.len() - shown));
    // Below the last one, or beside the only one that fits.
    let (below, beside) = if rows == 1 { (None, more) } else { (more, None) };
    let room = beside.as_ref().map_or(0, |more| width(more) as u16 + 1);
    let [area, rest] = Layout::horizontal([Fill(1), Length(room)]).areas(area);
    let rates = if area.width >= 40 { 9 } else { 0 };
    let names = area.width.saturating_sub(24 + rates).clamp(8, 30);
    let lines = all.iter().take(shown).map(|consumer| {
        let (glyph, style, word) = match (consumer.alive, consumer.known) {
            _ if scene.is_blind() => (glyphs::WAITING, theme.soft, text::UNKNOWN),
            (true, _) => (glyphs::UP, theme.good, text::ALIVE),
            (false, true) => (glyphs::AWAY, theme.bad, text::DEAD_HOLDER),
            (false, false) => (glyphs::AWAY, theme.warn, text::STRANGER),
        };
        Row::new([
            Line::styled(glyph, style),
            fit(&consumer.name, names.into()).into(),
            Line::styled(word, style),
            Line::from(
                consumer
                    .per_second
                    .map(|rate| figures::rate_within(rate as f64, 9))
                    .unwrap_or_default(),
            )
            .right_aligned(),
            Line::from(figures::within(consumer.pending, 9)).right_aligned(),
        ])
    });
    let widths = [1, names, 7, rates, 9].map(Length);
    Widget::render(Table::new(lines, widths), area, buffer);
    let last = area.rows().nth(shown).unwrap_or_default();
    for (more, place) in [(below, last), (beside, rest)] {
        Span::styled(more.unwrap_or_default(), theme.soft).render(place, buffer);
    }
}

/// A lag in cells of constant number, and its trend.
pub(in crate::views) fn lag(
    theme: Theme,
    trend: &LagTrend,
    has_group: bool,
    lag: Option<u64>,
) -> [Span<'static>; 2] {
    let (text, style) = match lag {
        _ if !has_group => (Label("console-no-group").to_owned(), theme.bad),
        None => (text::UNKNOWN.to_owned(), theme.warn),
        Some(lag) => (figures::within(lag, LAG), Style::new()),
    };
    let (glyph, of_glyph) = arrow(theme, trend, lag.filter(|_| has_group).unwrap_or(0));
    [Span::styled(left(&text, LAG), style), Span::styled(format!(" {glyph}"), of_glyph)]
}

/// The trend arrow; blank if there is no lag or no trend yet.
fn arrow(theme: Theme, flow: &LagTrend, lag: u64) -> (&'static str, Style) {
    match flow.trend().filter(|_| lag > 0) {
        None => (" ", Style::new()),
        Some(Ordering::Greater) => (glyphs::RISING, theme.warn),
        Some(Ordering::Less) => (glyphs::FALLING, theme.good),
        Some(Ordering::Equal) => (glyphs::STEADY, theme.soft),
    }
}
