//! Draws a table with ratatui's [`Table`], [`Layout`] and [`Scrollbar`].
//!
//! This module adds what these lack: truncated text gets an ellipsis and is measured in cells, after [`plain`] has
//! removed control characters; cells of invisible rows are not built; the sort direction is drawn in the gap beside its
//! heading, so that it shortens no column.

use ratatui::{
    layout::Flex,
    widgets::{self, HighlightSpacing, Scrollbar, ScrollbarOrientation, ScrollbarState, Table},
};

use super::Controls;
use crate::views::prelude::*;

/// Blanks between columns.
pub(crate) const GAP: u16 = 2;

/// The rows of a table, as they are drawn.
pub(super) struct List<'a, R: 'static> {
    pub(super) columns: &'static [Column<R>],
    pub(super) rows: Vec<&'a R>,
    /// The row of the cursor.
    pub(super) cursor: Option<usize>,
    /// Which rows are marked, if rows can be.
    pub(super) marked: Option<Vec<bool>>,
    /// The rows may have changed since they were read.
    pub(super) is_outdated: bool,
}

impl<R> List<'_, R> {
    /// Draws the headings and the visible rows.
    pub(super) fn draw(
        &self,
        controls: &mut Controls,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
    ) {
        let (theme, rows, cursor) = (scene.theme, &self.rows, self.cursor);
        let visible = usize::from(area.height.saturating_sub(1));
        let columns: Vec<(&Column<R>, u16)> = self
            .columns
            .iter()
            .filter_map(|it| Some((it, it.cells(scene, rows, area.width)?)))
            .collect();
        controls.follow(cursor, rows.len(), visible);
        controls.top = (area.height > 1).then_some(area.y + 1);
        controls.sortable =
            columns.iter().filter(|(it, _)| it.is_sortable()).map(|(it, _)| it.title).collect();
        let (order, offset) = (controls.order, controls.offset);
        let cursor = cursor.filter(|_| !controls.is_passive);
        let has_marks = self.marked.is_some();
        let mark = has_marks.then_some(Length(1));
        let widths = columns.iter().map(|(_, cells)| match *cells {
            REST => Fill(1),
            cells => Length(cells),
        });
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(3), ..area };
        let places = Layout::horizontal(mark.into_iter().chain(widths))
            .flex(Flex::Start)
            .spacing(GAP)
            .split(inner);
        let of_columns = &places[usize::from(has_marks)..];
        let cut = |line: Line<'static>, column: &Column<R>, cells: u16| {
            let line = fit_line(line, usize::from(cells));
            Text::from(if column.is_right { line.alignment(Alignment::Right) } else { line })
        };
        let heads = columns.iter().zip(of_columns).map(|((column, _), place)| {
            cut(Line::styled(column.title.read(), theme.heading), column, place.width)
        });
        let head = widgets::Row::new(has_marks.then(Text::default).into_iter().chain(heads));
        let (is_outdated, dimmed) = (self.is_outdated, theme.dimmed);
        let body = rows.iter().enumerate().skip(offset).take(visible).map(|(at, row)| {
            let is_marked = self.marked.as_ref().is_some_and(|it| it[at]);
            let mark = if is_marked { glyphs::MARK } else { " " };
            let mark =
                has_marks.then(|| Text::styled(mark, if is_outdated { dimmed } else { theme.key }));
            let cells =
                columns.iter().zip(of_columns).enumerate().map(|(at, ((column, _), place))| {
                    let line = column.line(scene, row, place.width);
                    let line = match at {
                        _ if is_outdated => Line::styled(line.to_string(), dimmed),
                        0 if is_marked => line.patch_style(theme.strong),
                        _ => line,
                    };
                    cut(line, column, place.width)
                });
            widgets::Row::new(mark.into_iter().chain(cells))
        });
        let body: Vec<_> = body.collect();
        let mut selected = widgets::TableState::new()
            .with_selected(cursor.and_then(|row| row.checked_sub(offset)));
        let widths = places.iter().map(|place| place.width);
        let table = library_table(theme, head, body, widths);
        let body_area = Rect { width: area.width.saturating_sub(1), ..area };
        StatefulWidget::render(table, body_area, buffer, &mut selected);
        for ((column, _), place) in columns.iter().zip(of_columns) {
            let Some(order) = order.filter(|order| order.title == column.title) else { continue };
            let sign = if order.is_descending { glyphs::FALLING } else { glyphs::RISING };
            let title = if column.is_right { place.width } else { width(&column.title) as u16 };
            let gap = Rect { x: place.x + title.min(place.width), ..inner };
            Span::styled(sign, theme.key).render(gap, buffer);
        }
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        draw_scrollbar(below, buffer, theme, offset, rows.len());
    }
}

impl<R: Row> TableState<R> {
    /// Draws the headings and the visible rows, or why there is none.
    pub(in crate::views) fn draw_rows(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let rows = self.rows(&scene.shown);
        let is_from_redis = matches!(R::SOURCES, [Source::Redis, ..]);
        let list = List {
            columns: R::COLUMNS,
            cursor: self.position(&rows),
            marked: R::MARKS.then(|| rows.iter().map(|row| self.is_marked(row)).collect()),
            is_outdated: is_from_redis && scene.is_blind(),
            rows,
        };
        list.draw(&mut self.controls, area, buffer, scene);
        // Headings stay: rows may come and go with each snapshot.
        if list.rows.is_empty() {
            draw_text(area, buffer, scene, 1, &self.nothing(scene));
        }
    }
}

/// The table of the library, as every view shows it.
pub(crate) fn library_table<'a>(
    theme: Theme,
    head: widgets::Row<'a>,
    rows: Vec<widgets::Row<'a>>,
    widths: impl IntoIterator<Item = u16>,
) -> Table<'a> {
    Table::new(rows, widths)
        .header(head)
        .column_spacing(GAP)
        // The left margin.
        .highlight_symbol(" ")
        .highlight_spacing(HighlightSpacing::Always)
        // Without the colours of the cells: reversed state colours would be glaring.
        .row_highlight_style(Style::reset().patch(theme.selected))
}

/// A scrollbar, if there are more lines than rows.
pub(crate) fn draw_scrollbar(
    area: Rect,
    buffer: &mut Buffer,
    theme: Theme,
    offset: usize,
    lines: usize,
) {
    let visible = usize::from(area.height);
    if lines <= visible || visible == 0 {
        return;
    }
    let mut position =
        ScrollbarState::new(lines - visible + 1).viewport_content_length(visible).position(offset);
    let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight)
        .begin_symbol(None)
        .end_symbol(None)
        .track_symbol(None)
        .thumb_symbol(glyphs::THUMB)
        .thumb_style(theme.soft);
    StatefulWidget::render(bar, area, buffer, &mut position);
}

/// Truncates a line to `cells`.
fn fit_line(line: Line<'static>, cells: usize) -> Line<'static> {
    let mut room = cells;
    let cut = |span: Span<'static>| {
        let content = fit(&span.content, room);
        room -= width(&content);
        Span { content: content.into(), ..span }
    };
    Line { spans: line.spans.into_iter().map(cut).collect(), ..line }
}
