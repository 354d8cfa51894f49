//! Draws a table with ratatui's [`Table`], [`Layout`] and [`Scrollbar`].
//!
//! This module adds what these lack: truncated text gets an ellipsis and is measured in cells, after [`plain`] has
//! removed control characters; cells of invisible rows are not built; the sort direction is drawn in the gap beside its
//! heading, so that it shortens no column.

use ratatui::{
    layout::Flex,
    widgets::{self, HighlightSpacing, Scrollbar, ScrollbarOrientation, ScrollbarState, Table},
};

use crate::views::prelude::*;

/// Blanks between columns.
pub(crate) const GAP: u16 = 2;

impl<R: Row> TableState<R> {
    /// Draws the headings and the visible rows, or why there is none.
    pub(in crate::views) fn draw_rows(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let rows = self.rows(&scene.shown);
        let cursor = self.position(&rows);
        let visible = usize::from(area.height.saturating_sub(1));
        let columns: Vec<(&Column<R>, u16)> = R::COLUMNS
            .iter()
            .filter_map(|it| Some((it, it.cells(scene, &rows, area.width)?)))
            .collect();
        let controls = &mut self.controls;
        controls.follow(cursor, rows.len(), visible);
        controls.top = (area.height > 1).then_some(area.y + 1);
        controls.sortable =
            columns.iter().filter(|(it, _)| it.is_sortable()).map(|(it, _)| it.title).collect();
        let (order, offset) = (controls.order, controls.offset);
        let cursor = cursor.filter(|_| !controls.is_passive);
        let mark = R::MARKS.then_some(Length(1));
        let widths = columns.iter().map(|(_, cells)| match *cells {
            REST => Fill(1),
            cells => Length(cells),
        });
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(3), ..area };
        let places = Layout::horizontal(mark.into_iter().chain(widths))
            .flex(Flex::Start)
            .spacing(GAP)
            .split(inner);
        let of_columns = &places[usize::from(R::MARKS)..];
        let cut = |line: Line<'static>, column: &Column<R>, cells: u16| {
            let line = fit_line(line, usize::from(cells));
            Text::from(if column.is_right { line.alignment(Alignment::Right) } else { line })
        };
        let heads = columns.iter().zip(of_columns).map(|((column, _), place)| {
            cut(Line::styled(column.title.read(), theme.heading), column, place.width)
        });
        let head = widgets::Row::new(R::MARKS.then(Text::default).into_iter().chain(heads));
        let is_from_redis = matches!(R::SOURCES, [Source::Redis, ..]);
        let (is_outdated, dimmed) = (is_from_redis && scene.is_blind(), theme.dimmed);
        let body = rows.iter().skip(offset).take(visible).map(|row| {
            let is_marked = self.is_marked(row);
            let mark = if is_marked { glyphs::MARK } else { " " };
            let mark =
                R::MARKS.then(|| Text::styled(mark, if is_outdated { dimmed } else { theme.key }));
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
        // Headings stay: rows may come and go with each snapshot.
        if rows.is_empty() {
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
