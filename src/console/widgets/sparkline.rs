//! Values over time as an area, in a strip of any height. An outage is a gap.

use ratatui::{buffer::Cell, prelude::*, widgets::Sparkline};
use seckill_model::Millis;

/// A count over time, which holds until the next value, at the end of each of this many columns: the right edge of the
/// span is now. `None` before the first point and in an outage.
pub(crate) fn held(
    points: &[(Millis, Option<i64>)],
    (from, until): (Millis, Millis),
    columns: u16,
) -> Vec<Option<f64>> {
    let end = |column| f64::from(column) / f64::from(columns);
    let at = |column| from.plus((until.since(from) as f64 * end(column)) as i64);
    let place = |column| points.partition_point(|(since, _)| *since <= at(column));
    let count = |column| points.get(place(column).checked_sub(1)?)?.1;
    (1..=columns).map(|column| count(column).map(|count| count.max(0) as f64)).collect()
}

/// Draws one value per column over the whole area; `top` fills the height. A small value remains visible.
pub(crate) fn strip(
    area: Rect,
    buffer: &mut Buffer,
    style: Style,
    top: f64,
    values: impl IntoIterator<Item = Option<f64>>,
) {
    let eighths = u64::from(area.height) * 8;
    let height = |value: f64| (value / top.max(1.0) * eighths as f64).ceil() as u64;
    let heights = values.into_iter().map(|value| value.map(height));
    Sparkline::default().data(heights).max(eighths).style(style).render(area, buffer);
}

/// A row of columns as text, for a cell of a table; the largest value fills it.
pub(crate) fn sparkline(values: &[Option<f64>]) -> String {
    let mut row = Buffer::empty(Rect::new(0, 0, values.len() as u16, 1));
    let top = values.iter().flatten().copied().fold(0.0, f64::max);
    strip(row.area, &mut row, Style::new(), top, values.iter().copied());
    row.content.iter().map(Cell::symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_the_next_and_an_outage_is_none() {
        let points = [(Millis(10), Some(9)), (Millis(20), None), (Millis(30), Some(4))];
        let columns = held(&points, (Millis(0), Millis(40)), 4);
        assert_eq!(columns, [Some(9.0), None, Some(4.0), Some(4.0)]);
    }
}
