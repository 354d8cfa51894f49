//! Pending: delivered, unacknowledged entries, page by page.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::PendingLine;
use seckill_model::Verdict;

use super::{
    PagedState, Scene, Source, alone, detail_line, paged_rows, pending_histogram, summary,
};
use crate::{
    text::{self, columns, details, figures},
    widgets::{self, Canvas, Cell, Column, Value, table, wrap},
};

/// Rows of the detail pane: a rule, a blank, seven lines.
const DETAIL: u16 = 9;
/// Rows reserved for the table below the histograms.
const TABLE: u16 = 6;

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut PagedState<PendingLine>,
) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let all = state.rows(scene.snapshot);
    canvas.line(1, 0, &scene.heading(&text::PENDING, &[Source::Redis]));
    let said = summary(scene, state, all.len());
    canvas.part(0, 0, w.saturating_sub(2), 1).line_right(0, &said);
    let none = all.is_empty().then(|| nothing(scene, state));
    let known = !state.is_waiting() && scene.snapshot.pending.taken.is_some();
    if none.is_some() && !known && canvas.is_noting() {
        return;
    }
    let cursor = state.position(&all);
    let rows: Vec<PendingLine> = all.into_iter().cloned().collect();
    let open = state.detail && h > DETAIL + 4;
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row));
    if let Some(line) = chosen.filter(|_| !open) {
        return detail(&mut alone(canvas, &mut state.scroll), scene, line);
    }
    let below = if open { DETAIL } else { 0 };
    let mut top = u16::from(!scene.compact) + 1;
    if !scene.compact && h >= top + pending_histogram::ROWS + 1 + TABLE + below {
        pending_histogram::draw(&mut canvas.part(0, top, w, pending_histogram::ROWS), scene);
        top += pending_histogram::ROWS + 1;
    }
    let marks = &state.marks;
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout(w, rows.iter().any(|line| line.entry.partition > 0)),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| {
            let marked = marks.contains(&rows[row].entry);
            scene.last_known(cells(scene, &rows[row], marked, columns))
        },
    );
    if let Some(text) = none.filter(|_| !canvas.is_noting()) {
        // In place of the rows: in a rush they come and go with each snapshot.
        canvas.text(1, top + 1, &scene.fit(&text, w.saturating_sub(2)), theme.soft());
    }
    if let Some(line) = chosen {
        detail(&mut canvas.part(0, h - DETAIL, w, DETAIL), scene, line);
    }
}

/// Why no row is shown.
fn nothing(scene: &Scene<'_>, state: &PagedState<PendingLine>) -> String {
    let page = &scene.snapshot.pending;
    if state.is_waiting() {
        text::READING.to_owned()
    } else if scene.snapshot.stream.is_none() {
        text::UNKNOWN.to_owned()
    } else if page.lines.is_empty() && scene.is_blind() {
        text::PENDING_UNKNOWN.to_owned()
    } else if page.taken.is_none() {
        text::READING.to_owned()
    } else if page.lines.is_empty() {
        text::stream::nothing_pending(scene.snapshot.stream.as_ref().and_then(|it| it.lag))
    } else {
        text::no_match(state.filter.value())
    }
}

/// IDs of several partitions include the partition, which takes space.
fn layout(width: u16, partitioned: bool) -> Vec<Column> {
    let entry = if width >= 100 { 19 } else { 17 } + if partitioned { 3 } else { 0 };
    let column = |title, width, numeric| Column { title, width, numeric };
    let mut all = vec![
        column(columns::MARK, 1, false),
        column(columns::ENTRY, entry, false),
        column(columns::AGE, 7, true),
    ];
    if width >= 92 {
        all.push(column(columns::IDLE, 7, true));
    }
    if width >= 72 {
        all.push(column(columns::TRIES, 5, true));
    }
    if width >= 150 {
        all.push(column(columns::ORDER, 19, true));
    }
    if width >= 110 {
        all.push(column(columns::USER, 10, true));
    }
    if width >= 72 {
        all.push(column(columns::VOUCHER, 6, true));
    }
    all.push(column(columns::HOLDER, if width >= 120 { 24 } else { 16 }, false));
    all.push(column(columns::VERDICT, 0, false));
    all
}

fn cells(scene: &Scene<'_>, line: &PendingLine, marked: bool, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let cell = |column: &Column| match column.title {
        columns::MARK => Cell::new(if marked { theme.glyphs.mark } else { " " }, theme.key()),
        columns::ENTRY => {
            let style = if marked { theme.strong() } else { Style::new() };
            Cell::new(line.entry.to_string(), style)
        }
        columns::IDLE => Cell::new(figures::span(line.idle_ms), theme.soft())
            .exactly(Value::count(Some(line.idle_ms))),
        columns::TRIES => {
            let style = if line.deliveries > 1 { theme.warn() } else { theme.soft() };
            Cell::new(figures::thousands(line.deliveries), style)
        }
        columns::HOLDER => {
            let style = if line.holder_alive { Style::new() } else { theme.broken() };
            Cell::new(holder(scene, line, column.width), style)
        }
        columns::VERDICT => verdict(scene, line),
        title => paged_rows::cell(scene, line, title).unwrap_or_else(|| Cell::plain("")),
    };
    layout.iter().map(cell).collect()
}

/// The verdict on the entry, or its error until there is a verdict.
fn verdict(scene: &Scene<'_>, line: &PendingLine) -> Cell {
    let theme = scene.theme;
    let Some(verdict) = line.verdict else {
        return Cell::new(fault(scene, line).unwrap_or_default(), theme.warn());
    };
    let style = match verdict {
        Verdict::Written | Verdict::InHand => theme.soft(),
        Verdict::Stuck => Style::new(),
        _ => theme.warn(),
    };
    Cell::new(text::verdict_word(verdict), style).exactly(Value::word(&verdict))
}

/// The error of the entry, which may name the user.
fn fault(scene: &Scene<'_>, line: &PendingLine) -> Option<String> {
    let fault = line.fault.as_ref().map(text::order_fault);
    fault.map(|fault| scene.users.within(&fault, line.user))
}

/// The holder's name; a dead state is never truncated.
fn holder(scene: &Scene<'_>, line: &PendingLine, cells: u16) -> String {
    if line.holder_alive {
        return line.consumer.clone();
    }
    let state = text::holder(false, line.holder_known);
    let room = cells.saturating_sub(widgets::width(&state) as u16 + 1);
    format!("{} {state}", scene.fit(&line.consumer, room))
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, line: &PendingLine) {
    let theme = scene.theme;
    let w = canvas.width();
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let shown = |value: Option<String>| value.unwrap_or_else(|| text::UNKNOWN.to_owned());
    let voucher = line.voucher.map(|id| match scene.snapshot.sale(id) {
        Some(sale) => text::sale_name(id, &sale.title),
        None => format!("#{id}"),
    });
    let user = line.user.map(|user| text::stream::user(&scene.users.number(user)));
    let state = text::holder(line.holder_alive, line.holder_known);
    let style = if line.holder_alive { theme.good() } else { theme.bad() };
    let room = w.saturating_sub(28);
    let rows = [
        (details::ENTRY, Line::raw(line.entry.to_string())),
        (
            details::HOLDER,
            Line::from(vec![
                Span::raw(format!("{}  ", scene.fit(&line.consumer, room))),
                Span::styled(state, style),
            ]),
        ),
        (details::ORDER, Line::raw(shown(line.order.map(|order| order.to_string())))),
        (details::USER, Line::raw(shown(user))),
        (details::VOUCHER, Line::raw(scene.fit(&shown(voucher), room))),
    ];
    let mut y = 1;
    for (label, value) in rows {
        detail_line(canvas, theme, y, &label, &value);
        y += 1;
    }
    let text = match line.verdict {
        Some(verdict) => text::judged(verdict),
        None => text::UNKNOWN.to_owned(),
    };
    detail_line(canvas, theme, y, &details::VERDICT, &Line::raw(text));
    y += 1;
    let fault = fault(scene, line).unwrap_or_else(|| details::NO_FAULT.to_owned());
    let style = if line.fault.is_some() { theme.warn() } else { theme.soft() };
    canvas.text(1, y, &details::FAULT, theme.soft());
    for (row, part) in wrap(&fault, usize::from(w.saturating_sub(18))).iter().take(2).enumerate() {
        canvas.text(16, y + row as u16, part, style);
    }
}
