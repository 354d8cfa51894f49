//! Rates over time, with gaps where nothing could be read.

use std::collections::VecDeque;

use serde::Serialize;

use crate::model::Millis;

/// Rates over one tick, in orders a second. `None` is an outage: a gap, never a zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// End of the tick.
    pub at: Millis,
    /// Buyers admitted a second.
    pub admitted: Option<f64>,
    /// Orders written a second.
    pub persisted: Option<f64>,
}

/// A ring of points, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Series(VecDeque<Point>);

impl Series {
    /// Points kept: ten minutes at four a second.
    pub const CAPACITY: usize = 2_400;

    /// Adds the newest point and forgets the oldest beyond [`Self::CAPACITY`].
    pub fn push(&mut self, point: Point) {
        if self.0.len() == Self::CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// All points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.0.iter()
    }

    /// The newest point.
    pub fn last(&self) -> Option<&Point> {
        self.0.back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_forgets_the_oldest() {
        let mut series = Series::default();
        for at in 0..Series::CAPACITY as i64 + 3 {
            series.push(Point { at: Millis(at), admitted: None, persisted: Some(1.0) });
        }
        assert_eq!(series.points().len(), Series::CAPACITY);
        assert_eq!(series.points().next().map(|p| p.at), Some(Millis(3)));
    }
}
