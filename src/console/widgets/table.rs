//! Tables with columns measured in cells, a cursor and a scrollbar.

use ratatui::style::Style;
use seckill_model::{Millis, locale::in_english, message::Label};
use serde::Serialize;

use super::{Canvas, bar, left, right, width};
use crate::theme::Theme;

/// A column. A width of 0 takes the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: Label,
    pub(crate) width: u16,
    pub(crate) numeric: bool,
}

/// The content of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
    /// A bar of that share before a figure, in the rest of the column.
    bar: Option<f64>,
    /// The exact value, if the text rounds it or includes a unit.
    exact: Option<Value>,
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Nothing,
    Number(i64),
    Text(String),
}

impl Value {
    /// A count; empty if unknown.
    pub(crate) fn count(count: Option<u64>) -> Self {
        count.and_then(|it| i64::try_from(it).ok()).map_or(Self::Nothing, Self::Number)
    }

    /// A name of the model, as in JSON output.
    pub(crate) fn word(word: &impl Serialize) -> Self {
        match serde_json::to_value(word) {
            Ok(serde_json::Value::String(word)) => Self::Text(word),
            _ => Self::Nothing,
        }
    }

    /// A time in UTC, whatever the time zone of the screen.
    pub(crate) fn time(at: Option<Millis>) -> Self {
        at.map_or(Self::Nothing, |at| Self::Text(at.to_string()))
    }
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style, bar: None, exact: None }
    }

    #[must_use]
    pub(crate) fn with_bar(self, share: f64) -> Self {
        Self { bar: Some(share), ..self }
    }

    /// Sets the exact value for an export.
    pub(crate) fn exactly(self, value: Value) -> Self {
        Self { exact: Some(value), ..self }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::new())
    }
}

/// How much of a list is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Rows of the whole list, if known.
    pub(crate) total: Option<u64>,
    /// Some of them are not loaded.
    pub(crate) more: bool,
}

/// A whole table, as far as it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Heading of each column in English, and whether it is numeric.
    pub(crate) columns: Vec<(String, bool)>,
    /// Cells as text, with their exact values if these differ.
    pub(crate) rows: Vec<Vec<(String, Option<Value>)>>,
    /// Rows of the whole list.
    pub(crate) extent: Extent,
    /// The row under the cursor.
    pub(crate) cursor: Option<usize>,
}

/// The requested order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Heading of the column.
    pub(crate) head: String,
    /// Descending.
    pub(crate) falling: bool,
}

/// Scroll position and order of a table, and what was visible last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    pub(crate) offset: usize,
    pub(crate) visible: usize,
    pub(crate) order: Option<Order>,
    /// Headings of the visible columns.
    pub(crate) heads: Vec<String>,
    /// The number of rows, and the row under the cursor.
    pub(crate) total: usize,
    pub(crate) cursor: Option<usize>,
    /// Screen line of the first row.
    pub(crate) top: Option<u16>,
}

impl Scroll {
    /// The row at a screen line.
    pub(crate) fn row_at(&self, line: u16) -> Option<usize> {
        let row = usize::from(line.checked_sub(self.top?)?);
        (row < self.visible).then_some(self.offset + row).filter(|row| *row < self.total)
    }

    /// Scrolls just far enough to show `cursor`, and not beyond the end.
    pub(crate) fn follow(&mut self, cursor: Option<usize>, total: usize, visible: usize) {
        self.visible = visible;
        (self.total, self.cursor) = (total, cursor);
        if let Some(cursor) = cursor {
            self.offset = self.offset.min(cursor).max((cursor + 1).saturating_sub(visible));
        }
        self.offset = self.offset.min(total.saturating_sub(visible));
    }
}

const GAP: u16 = 2;
/// Cells of a figure beside a bar.
const BESIDE_BAR: u16 = 8;
/// Column width of an exported table: nothing in it is truncated.
const NOTED: u16 = 400;

/// Draws headings and rows; `cells` is called only for visible rows.
pub(crate) fn table(
    canvas: &mut Canvas<'_>,
    theme: Theme,
    columns: &[Column],
    (total, cursor): (usize, Option<usize>),
    scroll: &mut Scroll,
    mut cells: impl FnMut(usize, &[Column]) -> Vec<Cell>,
) {
    if let Some(sheets) = canvas.sheets() {
        let wide: Vec<Column> = columns.iter().map(|it| Column { width: NOTED, ..*it }).collect();
        let texts =
            |row| cells(row, &wide).into_iter().map(|cell| (cell.text, cell.exact)).collect();
        // Exports are in English: their reader does not know the display language.
        let titles = columns.iter().map(|it| (it.title.english().to_owned(), it.numeric));
        sheets.push(Sheet {
            columns: titles.collect(),
            rows: in_english(|| (0..total).map(texts).collect()),
            extent: Extent::default(),
            cursor,
        });
        return;
    }
    let visible = usize::from(canvas.height().saturating_sub(1));
    scroll.follow(cursor, total, visible);
    let columns = measured(columns, canvas.width().saturating_sub(3));
    let mut x = 1;
    scroll.heads = columns.iter().map(|column| column.title.to_string()).collect();
    scroll.top = canvas.on_screen(0, 1).map(|(_, y)| y);
    for (column, head) in columns.iter().zip(&scroll.heads) {
        canvas.text(x, 0, &placed(&column.title, column, theme), theme.heading());
        if let Some(order) = scroll.order.as_ref().filter(|order| order.head == *head) {
            let sign = if order.falling { theme.glyphs.falling } else { theme.glyphs.rising };
            // In the gap after the column, so that the heading is not truncated.
            let end = if column.numeric { column.width } else { width(head) as u16 };
            canvas.text(x + end.min(column.width), 0, sign, theme.key());
        }
        x += column.width + GAP;
    }
    for row in 0..visible.min(total - scroll.offset) {
        let index = scroll.offset + row;
        let y = row as u16 + 1;
        let mut x = 1;
        for (column, cell) in columns.iter().zip(cells(index, &columns)) {
            canvas.text(x, y, &placed(&cell.text, column, theme), cell.style);
            if let Some(share) = cell.bar {
                let cells = column.width.saturating_sub(BESIDE_BAR);
                canvas.line(x, y, &bar(theme, share, cells, cell.style, None).into());
            }
            x += column.width + GAP;
        }
        if cursor == Some(index) {
            // Reversed without colours: reversed state colours would be glaring.
            let width = canvas.width();
            let mut line = canvas.part(0, y, width.saturating_sub(1), 1);
            line.tint(0, Style::reset());
            line.tint(0, theme.selected());
        }
    }
    if total > visible && visible > 0 {
        let long = (visible * visible / total).max(1);
        let top = scroll.offset * (visible - long) / (total - visible).max(1);
        for y in top..top + long {
            canvas.text(
                canvas.width().saturating_sub(1),
                y as u16 + 1,
                theme.glyphs.thumb,
                theme.soft(),
            );
        }
    }
}

fn measured(columns: &[Column], width: u16) -> Vec<Column> {
    let gaps = GAP * (columns.len() as u16).saturating_sub(1);
    let fixed: u16 = columns.iter().map(|column| column.width).sum::<u16>() + gaps;
    let spare = width.saturating_sub(fixed);
    columns
        .iter()
        .map(|column| match column.width {
            0 => Column { width: spare, ..*column },
            _ => *column,
        })
        .collect()
}

fn placed(text: &str, column: &Column, theme: Theme) -> String {
    let place = if column.numeric { right } else { left };
    place(text, usize::from(column.width), theme.glyphs.ellipsis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_follows_the_cursor_and_keeps_the_screen_full() {
        let mut scroll = Scroll::default();
        scroll.follow(Some(30), 100, 10);
        assert_eq!(scroll.offset, 21);
        scroll.follow(Some(25), 100, 10);
        assert_eq!(scroll.offset, 21);
        scroll.follow(Some(3), 100, 10);
        assert_eq!(scroll.offset, 3);
        scroll.follow(Some(3), 5, 10);
        assert_eq!(scroll.offset, 0);
        scroll.follow(Some(4), 5, 0);
        assert_eq!(scroll.offset, 5);
    }
}
