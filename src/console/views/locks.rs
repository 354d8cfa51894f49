//! Locks: who holds what, for how long still, and who waits for it.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::{ListState, Scene, Source, detail_line};
use crate::{
    console::{
        text::{self, columns, details, figures},
        widgets::{self, Cell, Column, Pen, Value, table},
    },
    telemetry::snapshot::Holder,
};

/// Rows of the detail pane: a rule and seven lines.
const DETAIL: u16 = 8;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>, state: &mut ListState) {
    let theme = scene.theme;
    let (w, h) = (pen.width(), pen.height());
    let locks = &scene.snapshot.locks;
    let rows = state.rows(&locks.locks);
    pen.line(1, 0, &scene.heading(&text::tabs::LOCKS.to_uppercase(), &[Source::Redis]));
    let filter = state.filter.value();
    let count = if filter.is_empty() {
        text::locks_shown(locks.locks.len(), locks.total)
    } else {
        format!("/{filter}   {}", text::sales_filtered(rows.len(), locks.locks.len()))
    };
    let mut head = pen.part(0, 0, w.saturating_sub(2), 1);
    head.line_right(0, &Line::styled(scene.fit(&count, w / 2), theme.soft()));
    if rows.is_empty() && !pen.is_noting() {
        let none = locks.locks.is_empty();
        let said = if none { text::NO_LOCKS.to_owned() } else { text::no_match(filter) };
        pen.text(1, 2, &scene.fit(&said, w.saturating_sub(2)), theme.soft());
        return;
    }
    let cursor = state.cursor(&rows);
    let open = state.detail && h > DETAIL + 4;
    let below = if open { DETAIL } else { 0 };
    let rows: Vec<Holder> = rows.into_iter().cloned().collect();
    let top = u16::from(!scene.compact) + 1;
    table(
        &mut pen.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout(w),
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| cells(scene, &rows[row], columns),
    );
    if let Some(lock) = cursor.filter(|_| open).and_then(|row| rows.get(row)) {
        detail(&mut pen.part(0, h - DETAIL, w, DETAIL), scene, lock);
    }
}

fn layout(width: u16) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let mut all = vec![
        column(columns::LOCK, 0, false),
        column(columns::NODE, if width >= 100 { 20 } else { 14 }, false),
    ];
    if width >= 72 {
        all.push(column(columns::TASK, if width >= 110 { 26 } else { 14 }, false));
    }
    all.push(column(columns::DEPTH, 5, true));
    all.push(column(columns::LEASE, 7, true));
    if width >= 90 {
        all.push(column(columns::HELD, 7, true));
    }
    all.push(column(columns::WAITING, 7, true));
    if width >= 130 {
        all.push(column(columns::TOKEN, 16, true));
    }
    all
}

/// A lease without an end is a lock that outlives its holder.
fn lease(lock: &Holder) -> String {
    lock.left_ms.map_or_else(|| text::NO_END.to_owned(), figures::span)
}

fn held_for(scene: &Scene<'_>, lock: &Holder) -> String {
    lock.since.map_or_else(|| "-".to_owned(), |at| figures::span(scene.now.since(at)))
}

fn cells(scene: &Scene<'_>, lock: &Holder, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let cell = |column: &Column| match column.title {
        columns::LOCK => Cell::plain(lock.name.clone()),
        columns::NODE if lock.orphan => {
            let room = column.width.saturating_sub(widgets::width(&text::ORPHAN) as u16 + 1);
            Cell::new(format!("{} {}", scene.fit(&lock.node, room), text::ORPHAN), theme.bad())
        }
        columns::NODE => Cell::plain(lock.node.clone()),
        columns::TASK => Cell::new(lock.task.clone(), theme.soft()),
        columns::DEPTH => Cell::plain(lock.depth.to_string()),
        columns::LEASE => {
            let style = if lock.left_ms.is_none() { theme.warn() } else { Style::new() };
            Cell::new(lease(lock), style).exactly(Value::count(lock.left_ms))
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
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

fn detail(pen: &mut Pen<'_>, scene: &Scene<'_>, lock: &Holder) {
    let theme = scene.theme;
    let room = pen.width().saturating_sub(28);
    pen.rule(0, theme.glyphs.rule, theme.soft());
    let (state, style) =
        if lock.orphan { (text::ORPHAN, theme.bad()) } else { (text::ALIVE, theme.good()) };
    let since = lock.since.map_or_else(|| text::UNKNOWN.to_owned(), |at| scene.at(at));
    let token = lock.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
    let rows = [
        (details::LOCK, Line::raw(scene.fit(&lock.name, room))),
        (
            details::NODE,
            Line::from(vec![
                Span::raw(format!("{}  ", scene.fit(&lock.node, room))),
                Span::styled(state, style),
            ]),
        ),
        (details::TASK, Line::raw(scene.fit(&lock.task, room))),
        (details::HELD, Line::raw(text::held(&since, &held_for(scene, lock), lock.depth))),
        (details::LEASE, Line::raw(text::lease(&lease(lock), lock.waiting))),
        (details::TOKEN, Line::raw(token)),
        (details::OWNER, Line::raw(scene.fit(&lock.owner, room + 10))),
    ];
    for (y, (label, value)) in rows.iter().enumerate() {
        detail_line(pen, theme, y as u16 + 1, label, value);
    }
}
