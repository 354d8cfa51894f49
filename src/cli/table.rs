//! Tables, aligned for a terminal or in Markdown.

use std::fmt;

use seckill_model::Label;
use unicode_width::UnicodeWidthStr as _;

use crate::{number, plain};

/// Longest text in a line of Markdown, in characters.
const LONGEST: usize = 300;

/// Untrusted text as part of a line of Markdown: of bounded length, without markup and control characters.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::new();
    for (place, c) in plain(text).chars().enumerate() {
        if place == LONGEST {
            escaped.push('…');
            break;
        }
        match c {
            '#' if place > 0 => escaped.push(c),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' => escaped.extend(['\\', c]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A table with one line per row.
pub(super) struct Table<'a, T> {
    rows: &'a [T],
    columns: Vec<Column>,
}

struct Column {
    is_number: bool,
    /// The title and the cell of each row.
    cells: Vec<String>,
}

impl<'a, T> Table<'a, T> {
    pub(super) fn new(rows: &'a [T]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// Adds a column that is aligned to the left.
    pub(super) fn left<C: ToString>(self, title: &str, cell: impl Fn(&T) -> C) -> Self {
        self.column(false, title, cell)
    }

    /// Adds a column of numbers, which is aligned to the right.
    pub(super) fn right<C: ToString>(self, title: &str, cell: impl Fn(&T) -> C) -> Self {
        self.column(true, title, cell)
    }

    fn column<C: ToString>(self, is_number: bool, title: &str, cell: impl Fn(&T) -> C) -> Self {
        let cells = self.rows.iter().map(|row| plain(&cell(row).to_string()));
        let cells = std::iter::once(title.to_owned()).chain(cells).collect();
        self.cells(is_number, cells)
    }

    /// Adds a column as its title and a cell for each row.
    pub(super) fn cells(mut self, is_number: bool, cells: Vec<String>) -> Self {
        self.columns.push(Column { is_number, cells });
        self
    }

    /// The cells of the titles and of each row.
    fn lines(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        (0..=self.rows.len()).map(|line| {
            self.columns.iter().filter_map(move |it| it.cells.get(line)).map(|it| &**it)
        })
    }

    /// The table, with indented details below each row.
    pub(super) fn with_details(&self, details: impl Fn(&T) -> Vec<String>) -> String {
        let table = self.to_string();
        let mut lines = table.lines();
        let mut text = format!("{}\n", lines.next().unwrap_or_default());
        for (line, row) in lines.zip(self.rows) {
            text.push_str(&format!("{line}\n"));
            text.extend(details(row).iter().map(|detail| format!("    {}\n", plain(detail))));
        }
        text
    }

    /// As Markdown, or `none` without rows.
    pub(super) fn markdown_or(&self, none: impl fmt::Display) -> String {
        if self.rows.is_empty() {
            return format!("{none}\n");
        }
        let mut text = String::new();
        for (number, cells) in self.lines().enumerate() {
            text.push_str(&format!(
                "| {} |\n",
                cells.map(escape_markdown).collect::<Vec<_>>().join(" | ")
            ));
            if number == 0 {
                text.push_str(&format!("|{}\n", " --- |".repeat(self.columns.len())));
            }
        }
        text
    }
}

/// Aligned by display width, since a Chinese character takes two columns. Without titles, the heading line is omitted.
impl<T> fmt::Display for Table<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: &Column| column.cells.iter().map(|cell| cell.width()).max();
        let widths: Vec<usize> = self.columns.iter().filter_map(width).collect();
        let has_titles =
            self.columns.iter().any(|it| it.cells.first().is_some_and(|it| !it.is_empty()));
        for cells in self.lines().skip(usize::from(!has_titles)) {
            let mut line = String::new();
            for ((cell, width), column) in cells.zip(&widths).zip(&self.columns) {
                let pad = " ".repeat(width.saturating_sub(cell.width()));
                let (before, after) = if column.is_number { (&*pad, "") } else { ("", &*pad) };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Names and values, a pair per line.
pub(super) fn fields<N: fmt::Display>(fields: &[(N, String)]) -> Table<'_, (N, String)> {
    Table::new(fields).left("", |(name, _)| name.to_string()).left("", |(_, value)| value.clone())
}

/// Names and numbers, a pair per line.
pub(super) fn figures(figures: &[(Label, u64)]) -> Table<'_, (Label, u64)> {
    Table::new(figures).left("", |(name, _)| *name).right("", |(_, value)| number(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_contains_no_markup_or_control_characters_of_a_cell() {
        let hostile = "a|b\n\u{1b}[31m`*_<script>\u{202e}&";
        assert_eq!(
            escape_markdown(hostile),
            "a\\|b\\\\n\\\\u{1b}\\[31m\\`\\*\\_&lt;script&gt;\\\\u{202e}&amp;"
        );
        assert!(escape_markdown(&"锅".repeat(LONGEST * 2)).ends_with('…'));
        let table = Table::new(&["a|b"]).left("t", ToString::to_string).markdown_or("none");
        assert_eq!(table, "| t |\n| --- |\n| a\\|b |\n");
    }

    #[test]
    fn a_row_is_one_line_whatever_its_cells() {
        let rows = [("a\nentry 1-0  forged", 7), ("b\u{202e}\r\u{1b}[2K", 12)];
        let table = Table::new(&rows).left("name", |row| row.0).right("n", |row| row.1);
        let text = table.to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("a\\nentry 1-0  forged   7\n"), "{text}");
        assert!(text.contains("b\\u{202e}\\r\\u{1b}[2K"), "{text}");
        let with_details = table.with_details(|row| vec![format!("of {}", row.0)]);
        assert_eq!(with_details.lines().count(), 5, "{with_details}");
    }

    #[test]
    fn wide_titles_keep_columns_aligned() {
        let rows = [("火锅", 7), ("tea", 12)];
        let table = Table::new(&rows).left("title", |row| row.0).right("n", |row| row.1);
        assert_eq!(table.to_string(), "title   n\n火锅    7\ntea    12\n");
        let markdown = "| title | n |\n| --- | --- |\n| 火锅 | 7 |\n| tea | 12 |\n";
        assert_eq!(table.markdown_or("none"), markdown);
    }
}
