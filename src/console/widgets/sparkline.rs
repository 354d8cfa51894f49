//! Stock over time as an area: a value holds until the next one, and an outage is a gap.

use ratatui::{prelude::*, widgets::Sparkline};
use seckill_model::Millis;

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

/// Draws it over the whole area. A small stock is not drawn as none.
pub(crate) fn curve(area: Rect, buffer: &mut Buffer, theme: Theme, shown: &Curve<'_>) {
    let (from, until) = shown.span;
    let eighths = u64::from(area.height) * 8;
    let heights = (1..=area.width).map(|column| {
        // The right edge is now: a column shows the value at its end.
        let share = f64::from(column) / f64::from(area.width);
        let left = shown.at(from.plus((until.since(from) as f64 * share) as i64))?;
        Some(left.max(0).unsigned_abs().saturating_mul(eighths).div_ceil(shown.top.max(1)))
    });
    Sparkline::default().data(heights).max(eighths).style(theme.accent).render(area, buffer);
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
