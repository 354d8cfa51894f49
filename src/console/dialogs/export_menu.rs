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
    widgets::{fit, left, popup, right, width},
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

    pub(crate) fn chosen(&self) -> Option<Format> {
        Format::VARIANTS.get(self.cursor).copied()
    }

    /// The format with this letter.
    pub(crate) fn of_letter(event: &Event) -> Option<Format> {
        let Event::Key(key) = event else { return None };
        let KeyCode::Char(letter) = key.code else { return None };
        Format::VARIANTS.iter().copied().find(|format| format.letter() == letter)
    }

    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, theme: Theme) {
        let size = (area.width.saturating_sub(4).min(WIDTH), Format::VARIANTS.len() as u16 + 5);
        let inside = popup(area, buffer, theme, size, &Label("export-export"), []);
        let [list, dir_area] =
            Layout::vertical([Fill(1), Length(1)]).areas(inside.inner(Margin::new(1, 0)));
        let cells = usize::from(list.width);
        let line = |format: &Format| {
            let of_table = format.is_of_table();
            let away = of_table && self.rows.is_none();
            let [style, key] = if away { [theme.soft; 2] } else { [Style::new(), theme.key] };
            let rows = if of_table { right(&row_count(self.rows), ROWS) } else { String::new() };
            let name = left(&format.title(), cells.saturating_sub(width(&rows) + 5));
            Line::from(vec![
                Span::styled(format!(" {}  ", format.letter()), key),
                Span::styled(name, style),
                Span::styled(rows, theme.soft),
            ])
        };
        let lines = Format::VARIANTS.iter().map(line).collect();
        draw_list(list, buffer, theme, lines, Some(self.cursor));
        let dir = self.dir.as_deref().unwrap_or(&Label("export-the-working-directory"));
        let dir = fit(&text!("export-into", dir), cells.saturating_sub(2));
        Span::styled(format!(" {dir}"), theme.soft).render(dir_area, buffer);
    }
}
