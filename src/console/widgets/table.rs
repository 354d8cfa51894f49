//! Tables whose columns are measured in cells, with a cursor and a scrollbar.

use ratatui::style::Style;
use seckill_model::{Millis, locale::in_english, message::Label};
use serde::Serialize;

use super::{Pen, bar, left, right, width};
use crate::theme::Theme;

/// A column. A width of 0 takes what the others leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: Label,
    pub(crate) width: u16,
    pub(crate) numeric: bool,
}

/// What stands in one place of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
    /// A bar before a figure, of that share, in what the figure leaves of the column.
    bar: Option<f64>,
    /// What it is, where the text rounds it or names a unit.
    exact: Option<Value>,
}

/// A cell as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Nothing,
    Number(i64),
    Text(String),
}

impl Value {
    /// A count; nothing where nobody knows it.
    pub(crate) fn count(count: Option<u64>) -> Self {
        count.and_then(|it| i64::try_from(it).ok()).map_or(Self::Nothing, Self::Number)
    }

    /// A word of the model, as every JSON document has it.
    pub(crate) fn word(word: &impl Serialize) -> Self {
        match serde_json::to_value(word) {
            Ok(serde_json::Value::String(word)) => Self::Text(word),
            _ => Self::Nothing,
        }
    }

    /// A time in UTC, whatever the zone of the screen.
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

    /// Says what is meant, for a table that is written down.
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
    /// Rows of the whole list, where somebody counted them.
    pub(crate) total: Option<u64>,
    /// Some of them are not loaded.
    pub(crate) more: bool,
}

/// A table in full, as far as it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Title of each column in English, and whether it holds figures.
    pub(crate) columns: Vec<(String, bool)>,
    /// Cells as text, and what they are where that says less.
    pub(crate) rows: Vec<Vec<(String, Option<Value>)>>,
    /// Of how many rows these are.
    pub(crate) extent: Extent,
    /// The row under the cursor.
    pub(crate) cursor: Option<usize>,
}

/// The order that a person asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Head of the column.
    pub(crate) head: String,
    /// The largest first.
    pub(crate) falling: bool,
}

/// How far a table is scrolled, in which order it stands, and what of it was on the screen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    pub(crate) offset: usize,
    pub(crate) visible: usize,
    pub(crate) order: Option<Order>,
    /// Heads of the columns that were shown.
    pub(crate) heads: Vec<String>,
    /// Rows in all, and the row under the cursor.
    pub(crate) total: usize,
    pub(crate) cursor: Option<usize>,
    /// Line of the screen on which the first row stood.
    pub(crate) top: Option<u16>,
}

impl Scroll {
    /// The row that stands on a line of the screen.
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
/// Cells of each column of a table that is written down: nothing in it is cut.
const NOTED: u16 = 400;

/// Draws head and rows; `cells` is asked only for the rows that are seen.
pub(crate) fn table(
    pen: &mut Pen<'_>,
    theme: Theme,
    columns: &[Column],
    (total, cursor): (usize, Option<usize>),
    scroll: &mut Scroll,
    mut cells: impl FnMut(usize, &[Column]) -> Vec<Cell>,
) {
    if let Some(sheets) = pen.sheets() {
        let wide: Vec<Column> = columns.iter().map(|it| Column { width: NOTED, ..*it }).collect();
        let texts =
            |row| cells(row, &wide).into_iter().map(|cell| (cell.text, cell.exact)).collect();
        // A program that reads it does not know which language the console spoke.
        let titles = columns.iter().map(|it| (it.title.english().to_owned(), it.numeric));
        sheets.push(Sheet {
            columns: titles.collect(),
            rows: in_english(|| (0..total).map(texts).collect()),
            extent: Extent::default(),
            cursor,
        });
        return;
    }
    let visible = usize::from(pen.height().saturating_sub(1));
    scroll.follow(cursor, total, visible);
    let columns = measured(columns, pen.width().saturating_sub(3));
    let mut x = 1;
    scroll.heads = columns.iter().map(|column| column.title.to_string()).collect();
    scroll.top = pen.on_screen(0, 1).map(|(_, y)| y);
    for (column, head) in columns.iter().zip(&scroll.heads) {
        pen.text(x, 0, &placed(&column.title, column, theme), theme.heading());
        if let Some(order) = scroll.order.as_ref().filter(|order| order.head == *head) {
            let sign = if order.falling { theme.glyphs.falling } else { theme.glyphs.rising };
            // In the gap behind the column, so that no head is cut for it.
            let end = if column.numeric { column.width } else { width(head) as u16 };
            pen.text(x + end.min(column.width), 0, sign, theme.key());
        }
        x += column.width + GAP;
    }
    for row in 0..visible.min(total - scroll.offset) {
        let index = scroll.offset + row;
        let y = row as u16 + 1;
        let mut x = 1;
        for (column, cell) in columns.iter().zip(cells(index, &columns)) {
            pen.text(x, y, &placed(&cell.text, column, theme), cell.style);
            if let Some(share) = cell.bar {
                let cells = column.width.saturating_sub(BESIDE_BAR);
                pen.line(x, y, &bar(theme, share, cells, cell.style, None).into());
            }
            x += column.width + GAP;
        }
        if cursor == Some(index) {
            // One plain reversed row: state colours in reverse would shout.
            let width = pen.width();
            let mut line = pen.part(0, y, width.saturating_sub(1), 1);
            line.tint(0, Style::reset());
            line.tint(0, theme.selected());
        }
    }
    if total > visible && visible > 0 {
        let long = (visible * visible / total).max(1);
        let top = scroll.offset * (visible - long) / (total - visible).max(1);
        for y in top..top + long {
            pen.text(pen.width().saturating_sub(1), y as u16 + 1, theme.glyphs.thumb, theme.soft());
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
