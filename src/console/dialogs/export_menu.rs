//! The export menu: what is written, and where to. A letter or Enter selects a line.

use std::path::Path;

use crossterm::event::{Event, KeyCode};
use ratatui::{
    layout::Constraint::{Fill, Length},
    prelude::*,
};
use seckill_model::{Label, text};

use strum::VariantArray as _;

use super::draw_list;
use crate::{
    export::{Format, row_count},
    theme::Theme,
    views::Extent,
    widgets::{fit, left, popup, right},
};

#[derive(Debug)]
pub(crate) struct ExportMenu {
    pub(super) cursor: usize,
    /// Rows of the table and of the whole list; `None` if the view has no table.
    rows: Option<Extent>,
    /// `None` is the working directory.
    dir: Option<String>,
}

/// Cells of the widest line.
const WIDTH: u16 = 58;
/// Cells of the row count.
const ROWS: usize = 26;

impl ExportMenu {
    pub(crate) fn new(rows: Option<Extent>, dir: Option<&Path>) -> Self {
        Self { cursor: 0, rows, dir: dir.map(|dir| dir.display().to_string()) }
    }

    /// Formats that have content.
    pub(super) fn open(&self) -> impl Iterator<Item = Format> {
        let formats = Format::VARIANTS.iter().copied();
        formats.filter(|format| self.rows.is_some() || !format.is_of_table())
    }

    pub(crate) fn chosen(&self) -> Option<Format> {
        self.open().nth(self.cursor)
    }

    /// The format with this letter, even if it has no content, which is then reported.
    pub(crate) fn of_letter(event: &Event) -> Option<Format> {
        let Event::Key(key) = event else { return None };
        let KeyCode::Char(letter) = key.code else { return None };
        Format::VARIANTS.iter().copied().find(|format| format.letter() == letter)
    }

    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, theme: Theme) {
        let width = area.width.saturating_sub(4).min(WIDTH);
        let size = (width, Format::VARIANTS.len() as u16 + 6);
        let inside = popup(area, buffer, theme, size, &Label("export-export"), []);
        let [list, dir_area] =
            Layout::vertical([Fill(1), Length(1)]).areas(inside.inner(Margin::new(1, 0)));
        let cells = usize::from(list.width);
        let line = |format: &Format| {
            let away = format.is_of_table() && self.rows.is_none();
            let [style, key] = if away { [theme.soft; 2] } else { [Style::new(), theme.key] };
            let rows = if format.is_of_table() { row_count(self.rows) } else { String::new() };
            let of_rows = if format.is_of_table() { ROWS } else { 0 };
            let name = left(&format.title(), cells.saturating_sub(of_rows + 5));
            Line::from(vec![
                Span::styled(format!(" {}  ", format.letter()), key),
                Span::styled(name, style),
                Span::styled(right(&rows, of_rows), theme.soft),
            ])
        };
        let mut lines: Vec<Line<'_>> = Format::VARIANTS.iter().map(line).collect();
        // A blank line between screen and table formats.
        let screen = Format::VARIANTS.iter().filter(|format| !format.is_of_table()).count();
        lines.insert(screen, Line::default());
        let cursor = self.cursor + usize::from(self.cursor >= screen);
        draw_list(list, buffer, theme, lines, Some(cursor));
        let dir = self.dir.as_deref().unwrap_or(&Label("export-the-working-directory"));
        let dir = fit(&text!("export-into", dir), cells.saturating_sub(2));
        Span::styled(format!(" {dir}"), theme.soft).render(dir_area, buffer);
    }
}
