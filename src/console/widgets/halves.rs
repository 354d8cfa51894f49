//! The right halves of wide characters. When a narrow character replaces a wide one, some terminals keep its right
//! half; the frame diff does not notice, as that cell was blank before and after.

use ratatui::buffer::{Buffer, CellDiffOption};

use super::width;

/// Cells covered by a wide character in the last frame.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    columns: u16,
    cells: Vec<usize>,
}

impl Halves {
    /// Forces cells that are no longer covered to be rewritten.
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
    }
}

#[cfg(test)]
mod tests {
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
}
