//! The export menu: what is written, and where to. A letter or Enter selects a line.

use std::path::Path;

use crossterm::event::{Event, KeyCode};
use ratatui::style::Style;
use seckill_model::message::{Label, text};

use strum::VariantArray as _;

use super::panel;
use crate::{
    export::Format,
    text::export as words,
    theme::Theme,
    views::Extent,
    widgets::{Canvas, fit, right, width},
};

#[derive(Debug)]
pub(crate) struct ExportMenu {
    cursor: usize,
    /// Rows of the table and of the whole list; `None` if the view has no table.
    rows: Option<(usize, Extent)>,
    /// `None` is the working directory.
    dir: Option<String>,
}

/// Cells of the widest line.
const WIDTH: u16 = 58;
/// Cells of the row count.
const ROWS: usize = 26;

impl ExportMenu {
    pub(crate) fn new(rows: Option<(usize, Extent)>, dir: Option<&Path>) -> Self {
        Self { cursor: 0, rows, dir: dir.map(|dir| dir.display().to_string()) }
    }

    /// Formats that have content.
    fn open(&self) -> impl Iterator<Item = Format> + use<> {
        let rows = self.rows;
        Format::VARIANTS
            .iter()
            .copied()
            .filter(move |format| rows.is_some() || !format.is_of_table())
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let count = self.open().count().max(1);
        self.cursor = (self.cursor + if forward { 1 } else { count - 1 }) % count;
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

    pub(crate) fn draw(&self, canvas: &mut Canvas<'_>, theme: Theme) {
        let cells = canvas.width().saturating_sub(4).min(WIDTH);
        let mut panel = panel(
            canvas,
            theme,
            (cells, Format::VARIANTS.len() as u16 + 6),
            &Label("export-export"),
        );
        let inner = cells.saturating_sub(6);
        for (row, format) in Format::VARIANTS.iter().copied().enumerate() {
            // A blank line between screen and table formats.
            let y = row as u16 + 1 + u16::from(format.is_of_table());
            let mut line = panel.part(2, y, inner + 2, 1);
            let away = format.is_of_table() && self.rows.is_none();
            let style = if away { theme.soft() } else { Style::new() };
            line.text(1, 0, &format.letter().to_string(), if away { style } else { theme.key() });
            line.text(4, 0, &words::format(format), style);
            if format.is_of_table() {
                let rows = right(&words::rows(self.rows), ROWS, theme.glyphs.ellipsis);
                line.text((inner + 1).saturating_sub(ROWS as u16), 0, &rows, theme.soft());
            }
            if self.chosen() == Some(format) {
                line.tint(0, Style::reset());
                line.tint(0, theme.selected());
            }
        }
        let dir = text!(
            "export-into",
            dir = tail(
                self.dir.as_deref().unwrap_or(&Label("export-the-working-directory")),
                usize::from(inner).saturating_sub(6),
                theme,
            )
        );
        let dir = fit(&dir, usize::from(inner), theme.glyphs.ellipsis);
        panel.text(3, Format::VARIANTS.len() as u16 + 3, &dir, theme.soft());
    }
}

/// The end of a path, which is more specific than its beginning.
fn tail(path: &str, cells: usize, theme: Theme) -> String {
    if width(path) <= cells {
        return path.to_owned();
    }
    let mut kept = path;
    while let Some(at) = kept.char_indices().nth(1).map(|(at, _)| at) {
        kept = &kept[at..];
        if width(kept) < cells {
            break;
        }
    }
    format!("{}{kept}", theme.glyphs.ellipsis)
}
