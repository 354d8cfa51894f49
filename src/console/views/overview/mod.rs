//! The Overview: stock, admission, rates, stream, and alarms.

mod state;
mod stock_panel;
pub(super) mod stream_panel;
pub(super) mod throughput_chart;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::{
    log::Weight,
    snapshot::{Funnel, LoadTestLine, Urgency},
};
use seckill_model::message::{Label, text};

use self::stream_panel::NAMES;
pub(crate) use self::{
    state::OverviewState,
    throughput_chart::{marks, until},
};
use super::{Component, Scene, Source};
use crate::{
    text::{self, figures},
    widgets::{Canvas, bar, left, right, width, wrap, wrap_to},
};

impl Component for OverviewState {
    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene<'_>) {
        draw(&mut Canvas::new(buffer, area), scene, self);
    }
}

fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut OverviewState) {
    if scene.compact {
        state.settle(None);
        return draw_compact(canvas, scene);
    }
    // Every row depends on the window alone, so that nothing moves when a figure grows.
    let (w, h) = (canvas.width(), canvas.height());
    let alarms = alarm_rows(h);
    let above = u16::from(h >= ROOMY_BELOW);
    let main = h.saturating_sub(alarms + 1 + above);
    let margin = u16::from(h >= ROOMY);
    // One cell of margin at each side, three between the columns.
    let column_width = (w - 5) * 9 / 20;
    let gap = if w >= 110 { 5 } else { 3 };
    let mut column = canvas.part(1, margin, column_width, main.saturating_sub(margin));
    let below_stock = 1 + ADMISSION + margin + 1;
    let for_stock = column.height().saturating_sub(below_stock).max(2);
    let y = stock_panel::draw(&mut column, scene, for_stock) + 1;
    column.line(0, y, &scene.heading(&text::ADMISSION, &[Source::Redis]));
    draw_funnel(&mut column, scene, y + 1, &scene.snapshot.funnel);
    rush(&mut column, scene, y + ADMISSION + margin);
    recent_events(&mut column, scene, y + ADMISSION + margin + 2);
    let right = canvas.part(
        column_width + gap,
        margin,
        w.saturating_sub(column_width + gap + 2),
        main.saturating_sub(margin),
    );
    right_column(right, scene, state);
    let mut below = canvas.part(1, h.saturating_sub(alarms + 1), w.saturating_sub(2), alarms + 1);
    attention(&mut below, scene);
    if state.moment().is_some() {
        // These panels do not follow the selected moment.
        let dimmed = scene.theme.dimmed;
        below.dim(dimmed);
        canvas.part(1, margin, column_width, main.saturating_sub(margin)).dim(dimmed);
    }
}

/// View height from which panels are separated by a blank row.
const ROOMY: u16 = 22;
/// View height from which alarms are preceded by a blank row.
const ROOMY_BELOW: u16 = 26;
/// Rows of the funnel with its heading.
const ADMISSION: u16 = 7;

/// Rows reserved for alarms.
fn alarm_rows(height: u16) -> u16 {
    match height {
        ..ROOMY_BELOW => 3,
        ROOMY_BELOW..40 => 4,
        40.. => 6,
    }
}

fn draw_compact(canvas: &mut Canvas<'_>, scene: &Scene<'_>) {
    let (w, h) = (canvas.width(), canvas.height());
    let alarms = 3;
    let room = h.saturating_sub(alarms + 4);
    let mut column = canvas.part(1, 0, w.saturating_sub(2), h);
    let y = stock_panel::draw(&mut column, scene, room.clamp(2, 6)) + 1;
    let mut x = 0;
    for (row, (label, count)) in text::funnel(&scene.snapshot.funnel).into_iter().enumerate() {
        let figure = left(&figures::within(count.total, 7), 7, "");
        if usize::from(x) + width(label) + 1 + width(&figure) > usize::from(column.width()) {
            break;
        }
        x = column.text(x, y, label, scene.theme.soft) + 1;
        let style = if row < 2 { scene.theme.strong } else { Style::new() };
        x = column.text(x, y, &figure, style) + 2;
    }
    if let Some(stream) = &scene.snapshot.stream {
        stream_panel::in_a_row(&mut column, scene, y + 1, stream);
    }
    let mut below = canvas.part(1, h.saturating_sub(alarms), w.saturating_sub(2), alarms);
    let crowded = scene.snapshot.alarms.len() > usize::from(alarms);
    let (mut rows, more) = attention_rows(scene, w, alarms - u16::from(crowded));
    if more > 0 {
        rows.push(Line::styled(text!("console-and-more", count = more), scene.theme.soft));
    }
    for (row, line) in rows.iter().enumerate() {
        below.line(0, row as u16, line);
    }
}

/// Rows of an admission funnel: total, rate, and share of all requests.
pub(super) fn draw_funnel(canvas: &mut Canvas<'_>, scene: &Scene<'_>, top: u16, funnel: &Funnel) {
    let (theme, blind) = (scene.theme, scene.is_blind());
    for (row, (label, count)) in text::funnel(funnel).into_iter().enumerate() {
        let (y, lead) = (top + row as u16, row == 1);
        canvas.text(2, y, label, if lead { Style::new() } else { theme.soft });
        let total = right(&figures::within(count.total, 10), 11, theme.glyphs.ellipsis);
        let style = if lead { theme.strong } else { Style::new() };
        let x = canvas.text(11, y, &total, if blind { theme.dimmed } else { style });
        let flowing = count.per_second >= 0.05 && !blind;
        let rate = if blind {
            text::UNKNOWN.to_owned()
        } else {
            figures::rate_within(count.per_second, 9)
        };
        let rate = right(&rate, 10, theme.glyphs.ellipsis);
        let x = canvas.text(x, y, &rate, if flowing { Style::new() } else { theme.soft }) + 2;
        // The first row is the total.
        if row > 0 && canvas.width() > x + 3 {
            let share = count.total as f64 / funnel.attempts.total.max(1) as f64;
            let style = if lead && !blind { theme.accent } else { theme.soft };
            let cells = (canvas.width() - x).min(24);
            canvas.line(x, y, &Line::from(bar(theme, share, cells, style, None)));
        }
    }
}

/// The progress of all load tests together; the row is always reserved.
fn rush(canvas: &mut Canvas<'_>, scene: &Scene<'_>, y: u16) {
    let theme = scene.theme;
    canvas.text(0, y, &Label("console-rush"), theme.heading);
    let rushes = &scene.snapshot.load_tests;
    if rushes.is_empty() {
        canvas.text(NAMES, y, &Label("overview-none-from-here"), theme.soft);
        return;
    }
    let names: Vec<_> = scene.snapshot.rushed().iter().map(|it| format!("#{it}")).collect();
    canvas.text(NAMES, y, &scene.fit(&names.join(" "), RUSH_NAMES), Style::new());
    let [sent, planned] = [|rush: &LoadTestLine| rush.sent, |rush: &LoadTestLine| rush.planned]
        .map(|of| rushes.iter().map(of).sum::<u64>());
    let digits = if canvas.width() >= 44 { 10 } else { 6 };
    let text = text::left_of(&figures::within(sent, digits), &figures::within(planned, digits));
    let text = right(&text, 2 * digits + 3, theme.glyphs.ellipsis);
    let x = canvas.text(NAMES + RUSH_NAMES + 1, y, &text, Style::new()) + 2;
    let share = sent as f64 / planned.max(1) as f64;
    let cells = canvas.width().saturating_sub(x).min(24);
    canvas.line(
        x,
        y,
        &Line::from(bar(theme, share, cells, theme.accent, Some(theme.glyphs.empty))),
    );
}

/// Cells for the sales with a load test.
const RUSH_NAMES: u16 = 7;

/// Recent commands and events, if the column has space left.
fn recent_events(canvas: &mut Canvas<'_>, scene: &Scene<'_>, top: u16) {
    let theme = scene.theme;
    let mut free = canvas.height().saturating_sub(top + 1).min(MOST_RECENT_EVENTS);
    if free < LEAST_RECENT_EVENTS {
        return;
    }
    let cells = canvas.width().saturating_sub(RECENT_EVENTS_WORDS + 1);
    let mut blocks = Vec::new();
    for (at, line) in marks(scene.snapshot) {
        let weight = Weight::of(&line.act);
        if weight <= Weight::Notice {
            continue;
        }
        let shown = text::time::event(&line.act.act, &text::audit_log::subject(&line.act.subject));
        let rows = wrap_to(&shown, cells.into(), 2, theme.glyphs.ellipsis);
        let Some(rest) = free.checked_sub(rows.len() as u16) else { break };
        free = rest;
        blocks.push((at, weight, rows));
    }
    if blocks.is_empty() {
        return;
    }
    canvas.text(0, top, &Label("overview-recent-events"), theme.heading);
    let mut y = top + 1;
    for (at, weight, rows) in blocks.iter().rev() {
        let (glyph, style) = throughput_chart::sign(theme, *weight);
        canvas.text(2, y, &right(&scene.at_second(*at), 8, ""), theme.soft);
        canvas.text(RECENT_EVENTS_WORDS - 3, y, glyph, style);
        for row in rows {
            canvas.text(RECENT_EVENTS_WORDS, y, row, Style::new());
            y += 1;
        }
    }
}

/// Column of the text of recent events, after time and symbol.
const RECENT_EVENTS_WORDS: u16 = 15;

/// Lines of recent events: the minimum to show any, and the maximum.
const LEAST_RECENT_EVENTS: u16 = 3;
const MOST_RECENT_EVENTS: u16 = 8;

fn right_column(mut canvas: Canvas<'_>, scene: &Scene<'_>, state: &mut OverviewState) {
    let (w, h) = (canvas.width(), canvas.height());
    let consumers = match h {
        ..20 => 0,
        20..30 => 3,
        30.. => 5,
    };
    // Heading, legend, figures below the chart, and events.
    let beside = 4 + stream_panel::ROWS + consumers;
    let rows = h.saturating_sub(beside).min((h * 2 / 3).max(12));
    throughput_chart::draw(&mut canvas, scene, state, rows);
    let mut below = canvas.part(0, rows + 4, w, h.saturating_sub(rows + 4));
    stream_panel::draw(&mut below, scene, usize::from(consumers));
    if state.moment().is_some() {
        below.dim(scene.theme.dimmed);
    }
}

/// Formats alarms in at most `most` rows, and counts those that do not fit. Each gets one row before any gets two.
fn attention_rows(scene: &Scene<'_>, cells: u16, most: u16) -> (Vec<Line<'static>>, usize) {
    let theme = scene.theme;
    let alarms = &scene.snapshot.alarms;
    if alarms.is_empty() {
        return (vec![Line::styled(Label("console-no-open-alarms"), theme.soft)], 0);
    }
    let texts: Vec<_> = alarms.iter().map(|alarm| text::alarm(&alarm.kind)).collect();
    let column = texts.iter().map(text::AlarmText::indent).max().unwrap_or(0);
    let room = |indent: usize| cells.saturating_sub(5 + indent as u16);
    let mut rows = Vec::new();
    let shown = alarms.len().min(usize::from(most));
    let mut spare = usize::from(most) - shown;
    for (alarm, line) in alarms.iter().zip(texts).take(shown) {
        let style = match alarm.urgency {
            Urgency::Critical => theme.bad,
            Urgency::Warning => theme.warn,
            Urgency::Notice => theme.good,
        };
        // Text is aligned in one column, unless that would truncate it.
        // A single alarm may use all rows.
        let most = 1 + if shown == 1 { spare } else { spare.min(1) };
        let fits = wrap(&line.text, usize::from(room(column))).len() <= most;
        let indent = if fits { column } else { line.indent() };
        let lines = wrap_to(&line.text, room(indent).into(), most, theme.glyphs.ellipsis);
        spare = spare.saturating_sub(lines.len().saturating_sub(1));
        let figure = line.figure.map_or_else(|| " ".repeat(indent), |it| format!("{it}  "));
        for (row, line) in lines.into_iter().enumerate() {
            let (sign, before) =
                if row == 0 { ("! ", figure.clone()) } else { ("  ", " ".repeat(indent)) };
            rows.push(Line::from(vec![
                Span::styled(sign, style),
                Span::raw(before),
                Span::raw(line),
            ]));
        }
    }
    (rows, alarms.len() - shown)
}

fn attention(canvas: &mut Canvas<'_>, scene: &Scene<'_>) {
    let theme = scene.theme;
    let most = canvas.height().saturating_sub(1);
    let (rows, more) = attention_rows(scene, canvas.width() + 2, most);
    let x = canvas.text(0, 0, &Label("console-attention"), theme.heading) + 3;
    if more > 0 {
        canvas.text(x, 0, &text!("console-and-more", count = more), theme.warn);
    }
    for (row, line) in rows.iter().enumerate() {
        canvas.line(0, row as u16 + 1, line);
    }
}
