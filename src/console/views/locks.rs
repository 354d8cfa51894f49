//! Locks: holder, remaining lease and waiters.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::Holder;

use super::{Leases, ListState, Scene, Source, View, alone, detail_line};
use crate::{
    text::{self, columns, details, figures},
    widgets::{self, Canvas, Cell, Column, Value, bar, table},
};

/// Rows of the detail pane: a rule and seven lines.
const DETAIL: u16 = 8;

/// From this width on, the holder's identity is shown, and takes the rest.
const WIDE: u16 = 170;
/// Cells of the bar in the detail pane.
const BAR: u16 = 30;

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut ListState,
    leases: &Leases,
) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let locks = &scene.snapshot.locks;
    let rows = state.rows(&locks.locks);
    canvas.line(1, 0, &scene.heading(&View::Locks.title().to_uppercase(), &[Source::Redis]));
    let filter = state.filter.value();
    let count = if filter.is_empty() {
        text::locks_shown(locks.locks.len(), locks.total)
    } else {
        format!("/{filter}   {}", text::sales_filtered(rows.len(), locks.locks.len()))
    };
    let mut head = canvas.part(0, 0, w.saturating_sub(2), 1);
    head.line_right(0, &Line::styled(scene.fit(&count, w / 2), theme.soft()));
    if rows.is_empty() && !canvas.is_noting() {
        let none = locks.locks.is_empty();
        let said = match none {
            true if scene.is_blind() => text::LOCKS_UNKNOWN.to_owned(),
            true => text::NO_LOCKS.to_owned(),
            false => text::no_match(filter),
        };
        canvas.text(1, 2, &scene.fit(&said, w.saturating_sub(2)), theme.soft());
        return;
    }
    let cursor = state.cursor(&rows);
    let open = state.detail && h > DETAIL + 4;
    let below = if open { DETAIL } else { 0 };
    let rows: Vec<Holder> = rows.into_iter().cloned().collect();
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row));
    if let Some(lock) = chosen.filter(|_| !open) {
        return detail(&mut alone(canvas, &mut state.scroll), scene, leases, lock);
    }
    let top = u16::from(!scene.compact) + 1;
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout(w, &rows),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| scene.last_known(cells(scene, leases, &rows[row], columns)),
    );
    if let Some(lock) = chosen {
        detail(&mut canvas.part(0, h - DETAIL, w, DETAIL), scene, leases, lock);
    }
}

fn layout(width: u16, rows: &[Holder]) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let longest = rows.iter().map(|lock| widgets::width(&lock.name) as u16).max().unwrap_or(0);
    let name = if width >= WIDE { longest.clamp(16, 40) } else { 0 };
    let mut all = vec![
        column(columns::LOCK, name, false),
        column(columns::NODE, if width >= 100 { 20 } else { 14 }, false),
    ];
    if width >= 72 {
        let task = match width {
            150.. => 26,
            100.. => 20,
            _ => 11,
        };
        all.push(column(columns::TASK, task, false));
    }
    all.push(column(columns::DEPTH, 5, true));
    let lease = match width {
        100.. => 20,
        72.. => 12,
        _ => 7,
    };
    all.push(column(columns::LEASE, lease, true));
    if width >= 90 {
        all.push(column(columns::HELD, 7, true));
    }
    all.push(column(columns::WAITING, 7, true));
    if width >= 150 {
        all.push(column(columns::TOKEN, 16, true));
    }
    if width >= WIDE {
        all.push(column(columns::OWNER, 0, false));
    }
    all
}

/// A lock without an expiry outlives its holder.
fn lease(scene: &Scene<'_>, leases: &Leases, lock: &Holder) -> Lease {
    let at = Leases::at(scene.snapshot, scene.now);
    match leases.of(lock) {
        None => Lease { left: text::NO_END.to_owned(), share: None, style: scene.theme.warn() },
        Some(lease) => Lease {
            left: figures::span(lease.left_ms(at)),
            share: Some(lease.share(at)),
            style: if lease.runs_out(at) { scene.theme.warn() } else { scene.theme.accent() },
        },
    }
}

/// The current state of a lease.
struct Lease {
    left: String,
    share: Option<f64>,
    style: Style,
}

fn held_for(scene: &Scene<'_>, lock: &Holder) -> String {
    lock.since.map_or_else(|| "-".to_owned(), |at| figures::span(scene.now.since(at)))
}

fn cells(scene: &Scene<'_>, leases: &Leases, lock: &Holder, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let cell = |column: &Column| match column.title {
        columns::LOCK => Cell::plain(lock.name.clone()),
        columns::NODE => {
            let (state, style) = match (lock.orphan, lock.known) {
                (true, _) => (text::ORPHAN, theme.bad()),
                (false, true) => return Cell::plain(lock.node.clone()),
                (false, false) => (text::STRANGER, Style::new()),
            };
            let room = column.width.saturating_sub(widgets::width(&state) as u16 + 1);
            Cell::new(format!("{} {state}", scene.fit(&lock.node, room)), style)
        }
        columns::TASK => Cell::new(lock.task.clone(), theme.soft()),
        columns::DEPTH => Cell::plain(lock.depth.to_string()),
        columns::LEASE => {
            let Lease { left, share, style } = lease(scene, leases, lock);
            let cell = Cell::new(left, style).exactly(Value::count(lock.left_ms));
            share.into_iter().fold(cell, Cell::with_bar)
        }
        columns::HELD => Cell::new(held_for(scene, lock), theme.soft())
            .exactly(Value::count(lock.since.map(|at| scene.now.since(at)))),
        columns::WAITING => {
            let style = if lock.waiting > 0 { theme.strong() } else { theme.soft() };
            Cell::new(figures::thousands(lock.waiting), style)
        }
        columns::TOKEN => {
            let token = lock.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
            Cell::new(token, theme.soft())
        }
        columns::OWNER => Cell::new(lock.owner.clone(), theme.soft()),
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, leases: &Leases, lock: &Holder) {
    let theme = scene.theme;
    let room = canvas.width().saturating_sub(28);
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let (state, style) = match (lock.orphan, lock.known) {
        (true, _) => (text::ORPHAN, theme.bad()),
        (false, true) => (text::ALIVE, theme.good()),
        (false, false) if leases.of(lock).is_some_and(|lease| lease.renewed) => {
            (text::STRANGER_RENEWS, theme.soft())
        }
        (false, false) => (text::STRANGER_HOLDS, theme.soft()),
    };
    let Lease { left, share, style: running } = lease(scene, leases, lock);
    let mut lease = vec![Span::raw(format!("{}   ", text::lease(&left, lock.waiting)))];
    lease.extend(share.into_iter().flat_map(|share| bar(theme, share, BAR, running, None)));
    let beside = canvas.width().saturating_sub(widgets::width(&state) as u16 + 20);
    let since = lock.since.map_or_else(|| text::UNKNOWN.to_owned(), |at| scene.at(at));
    let token = lock.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
    let rows = [
        (details::LOCK, Line::raw(scene.fit(&lock.name, room))),
        (
            details::NODE,
            Line::from(vec![
                Span::raw(format!("{}  ", scene.fit(&lock.node, beside))),
                Span::styled(state, style),
            ]),
        ),
        (details::TASK, Line::raw(scene.fit(&lock.task, room))),
        (details::HELD, Line::raw(text::held(&since, &held_for(scene, lock), lock.depth))),
        (details::LEASE, Line::from(lease)),
        (details::TOKEN, Line::raw(token)),
        (details::OWNER, Line::raw(scene.fit(&lock.owner, room + 10))),
    ];
    for (y, (label, value)) in rows.iter().enumerate() {
        detail_line(canvas, theme, y as u16 + 1, label, value);
    }
}
