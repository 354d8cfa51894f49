//! Stock over time as an area: a value holds until the next one, and an outage is a gap.

use seckill_model::Millis;

use super::{
    Canvas,
    grid::{Grid, braille},
};
use crate::theme::Theme;

/// The data of a curve.
pub(crate) struct Curve<'a> {
    /// Start of each value, oldest first; `None` is an outage.
    pub(crate) points: &'a [(Millis, Option<i64>)],
    /// The left and right edge.
    pub(crate) span: (Millis, Millis),
    /// The value that fills the height.
    pub(crate) top: u64,
}

impl Curve<'_> {
    /// The value at a time; `None` before the first point and in an outage.
    fn at(&self, at: Millis) -> Option<i64> {
        let place = self.points.partition_point(|(since, _)| *since <= at);
        self.points.get(place.checked_sub(1)?)?.1
    }
}

/// Draws it over the whole area.
pub(crate) fn curve(canvas: &mut Canvas<'_>, theme: Theme, shown: &Curve<'_>) {
    let (width, height) = (canvas.width(), canvas.height());
    let ascii = theme.glyphs.ascii;
    let (across, down) = if ascii { (1, 1) } else { (2, 4) };
    let (columns, rows) = (usize::from(width * across), usize::from(height * down));
    let mut area = Grid::new(columns, rows);
    let (from, until) = shown.span;
    for x in 0..columns {
        // The right edge is now: a column shows the value at its end.
        let share = (x + 1) as f64 / columns as f64;
        let at = from.plus((until.since(from) as f64 * share) as i64);
        let Some(left) = shown.at(at) else { continue };
        let share = left.max(0) as f64 / shown.top.max(1) as f64;
        area.fill(x, ((share * rows as f64).ceil() as usize).min(rows));
    }
    for row in 0..height {
        for column in 0..width {
            let bits = area.cell(column, height - 1 - row, across, down);
            if bits > 0 {
                let glyph = if ascii { '*' } else { braille(bits) };
                canvas.text(column, row, glyph.encode_utf8(&mut [0; 4]), theme.accent());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_the_next_and_an_outage_is_none() {
        let points = [(Millis(10), Some(9)), (Millis(20), None), (Millis(30), Some(4))];
        let curve = Curve { points: &points, span: (Millis(0), Millis(40)), top: 9 };
        let text = [0, 10, 19, 20, 30, 99].map(|at| curve.at(Millis(at)));
        assert_eq!(text, [None, Some(9), Some(9), None, Some(4), Some(4)]);
    }
}
