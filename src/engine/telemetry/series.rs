//! Rates over time, with gaps during outages. Memory is bounded: the newest half hour is kept.

use std::collections::VecDeque;

use serde::Serialize;

use seckill_model::Millis;

/// Figures of one tick; rates are in orders per second. `None` is an outage: a gap, never a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// End of the tick.
    pub at: Millis,
    /// Buyers admitted per second.
    pub admitted: Option<f64>,
    /// Requests per second that got no order.
    pub refused: Option<f64>,
    /// Orders written per second.
    pub persisted: Option<f64>,
    /// Entries never delivered.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: Option<u64>,
    /// 99th percentile of admission latency, in microseconds; `None` also without requests.
    pub p99_us: Option<u64>,
    /// The database accepted no writes: the backlog says nothing about the consumers.
    pub held: bool,
}

/// The points of the last half hour, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(VecDeque<Point>);

impl Series {
    /// Milliseconds for which a point is kept.
    pub const KEPT_MS: u64 = 1_800_000;
    /// Maximum number of points, whatever their times: those of half an hour at the fastest tick.
    const MOST: usize = 18_000;

    /// Adds the newest point, and drops those that are too old.
    pub fn push(&mut self, point: Point) {
        self.0.push_back(point);
        let is_old = |first: &Point| point.at.since(first.at) > Self::KEPT_MS;
        while self.0.len() > Self::MOST || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }

    /// Returns all points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.0.iter()
    }

    /// Merges the points from `from` to before `to`, with means of rates and maxima of the others; `None` if there are
    /// none.
    pub fn between(&self, from: Millis, to: Millis) -> Option<Point> {
        let within = || self.points().filter(|point| (from..to).contains(&point.at));
        let mean = |rate: fn(&Point) -> Option<f64>| {
            let (sum, count) = within()
                .filter_map(rate)
                .fold((0.0, 0_u32), |(sum, count), rate| (sum + rate, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        Some(Point {
            at: within().next_back()?.at,
            admitted: mean(|point| point.admitted),
            refused: mean(|point| point.refused),
            persisted: mean(|point| point.persisted),
            lag: within().filter_map(|point| point.lag).max(),
            pending: within().filter_map(|point| point.pending).max(),
            p99_us: within().filter_map(|point| point.p99_us).max(),
            held: within().any(|point| point.held),
        })
    }

    /// Returns the newest point.
    pub fn last(&self) -> Option<&Point> {
        self.0.back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: i64, admitted: Option<f64>) -> Point {
        Point { at: Millis(at), admitted, ..Point::default() }
    }

    #[test]
    fn at_most_half_an_hour_is_kept() {
        let mut series = Series::default();
        for tick in 0..20_000 {
            series.push(point(tick * 250, Some(1.0)));
        }
        let (first, last) = (series.points().next().unwrap().at, series.last().unwrap().at);
        assert_eq!(last.since(first), Series::KEPT_MS);
        // Also after a clock has stepped back.
        for tick in 0..40_000 {
            series.push(point(tick, None));
        }
        assert_eq!(series.points().count(), Series::MOST);
    }

    #[test]
    fn points_are_merged_to_their_mean_and_an_outage_stays_a_gap() {
        let mut series = Series::default();
        let rates = [Some(10.0), None, Some(20.0), Some(60.0), None, None];
        for (tick, rate) in (0..).zip(rates) {
            series.push(point(tick * 250, rate));
        }
        let whole = series.between(Millis(0), Millis(4_000)).unwrap();
        assert_eq!((whole.admitted, whole.at), (Some(30.0), Millis(1_250)));
        assert_eq!(series.between(Millis(1_000), Millis(4_000)).unwrap().admitted, None);
        assert_eq!(series.between(Millis(-9), Millis(0)), None);
    }
}
