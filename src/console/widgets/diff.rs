//! Prepares a frame for ratatui's diff with the last one, which decides what is written to the terminal.

use ratatui::{
    buffer::{Buffer, Cell, CellDiffOption},
    style::{Color, Modifier},
};

use super::width;

/// Right halves of wide characters in the last frame. When a narrow character replaces a wide one, some terminals keep
/// its right half; the diff does not notice, as that cell was blank before and after.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    columns: u16,
    cells: Vec<usize>,
}

impl Halves {
    /// Forces cells that are no longer covered to be rewritten, and resets the style of blanks.
    pub(crate) fn settle(&mut self, buffer: &mut Buffer) {
        let covered: Vec<usize> = buffer
            .content
            .iter()
            .enumerate()
            .filter(|(_, cell)| !cell.symbol().is_ascii() && width(cell.symbol()) > 1)
            .map(|(at, _)| at + 1)
            .collect();
        // A resize redraws everything, and positions change.
        if self.columns == buffer.area.width {
            for at in self.cells.iter().filter(|at| covered.binary_search(at).is_err()) {
                if let Some(cell) = buffer.content.get_mut(*at) {
                    cell.set_diff_option(CellDiffOption::AlwaysUpdate);
                }
            }
        }
        self.columns = buffer.area.width;
        self.cells = covered;
        reset_blanks(buffer);
    }
}

/// Resets the foreground of blanks, where it is invisible: the diff would write them again whenever it changes. A single
/// blank keeps it, because it continues the style of the text around it.
fn reset_blanks(buffer: &mut Buffer) {
    let visible = Modifier::REVERSED | Modifier::UNDERLINED | Modifier::CROSSED_OUT;
    let is_blank = |cell: &Cell| cell.symbol() == " " && !cell.modifier.intersects(visible);
    let runs = buffer.content.chunk_by_mut(|one, two| is_blank(one) && is_blank(two));
    for cell in runs.filter(|run| run.len() > 1).flatten() {
        (cell.fg, cell.modifier) = (Color::Reset, Modifier::empty());
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn an_uncovered_half_is_written_once() {
        let mut halves = Halves::default();
        halves.settle(&mut Buffer::with_lines(["a锅b"]));
        let mut next = Buffer::with_lines(["ax b"]);
        halves.settle(&mut next);
        let anew = |buffer: &Buffer| {
            buffer.content.iter().map(|cell| cell.diff_option).collect::<Vec<_>>()
        };
        let (none, always) = (CellDiffOption::None, CellDiffOption::AlwaysUpdate);
        assert_eq!(anew(&next), [none, none, always, none]);
        let mut last = Buffer::with_lines(["ax b"]);
        halves.settle(&mut last);
        assert_eq!(anew(&last), [none; 4]);
    }

    #[test]
    fn only_the_invisible_style_of_blanks_is_reset() {
        let reset = |style: Style| -> Vec<bool> {
            let unstyled = Buffer::with_lines(["a b  c"]);
            let mut buffer = unstyled.clone();
            buffer.set_style(buffer.area, style);
            reset_blanks(&mut buffer);
            buffer
                .content
                .iter()
                .zip(&unstyled.content)
                .map(|(cell, other)| cell != other)
                .collect()
        };
        let text = [true, true, true, false, false, true];
        assert_eq!(reset(Style::new().red().dim().bold()), text);
        for visible in [Style::new().on_red(), Style::new().reversed(), Style::new().underlined()] {
            assert_eq!(reset(visible), [true; 6]);
        }
    }
}
