//! Rates over time, with gaps during outages.
//!
//! Memory is bounded: the newest five minutes are kept at full resolution (four ticks a second), older data in slots of
//! two seconds, for half an hour.

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

/// A ring of points, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    old: VecDeque<Slot>,
    new: VecDeque<Point>,
}

/// Several ticks in one: means of rates, maxima of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    point: Point,
    admitted: u32,
    persisted: u32,
}

impl Series {
    /// Ticks kept at full resolution.
    pub const TICKS: usize = 1_200;
    /// Slots kept of older data.
    pub const SLOTS: usize = 900;
    /// Milliseconds per slot.
    pub const SLOT_MS: i64 = 2_000;

    /// Adds the newest point; older points are merged into slots, the oldest are dropped.
    pub fn push(&mut self, point: Point) {
        self.new.push_back(point);
        if self.new.len() > Self::TICKS
            && let Some(aged) = self.new.pop_front()
        {
            self.settle(aged);
        }
    }

    fn settle(&mut self, aged: Point) {
        let slot = |at: Millis| at.0.div_euclid(Self::SLOT_MS);
        match self.old.back_mut().filter(|last| slot(last.point.at) == slot(aged.at)) {
            Some(last) => last.add(&aged),
            None => self.old.push_back(Slot::of(aged)),
        }
        if self.old.len() > Self::SLOTS {
            self.old.pop_front();
        }
    }

    /// Returns all points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.old.iter().map(|slot| &slot.point).chain(&self.new)
    }

    /// Merges the points from `from` to before `to`; `None` if there are none.
    pub fn between(&self, from: Millis, to: Millis) -> Option<Point> {
        let within = self.points().filter(|point| (from..to).contains(&point.at));
        let slot = within.fold(None, |slot: Option<Slot>, point| match slot {
            None => Some(Slot::of(*point)),
            Some(mut slot) => {
                slot.add(point);
                Some(slot)
            }
        });
        slot.map(|slot| slot.point)
    }

    /// Returns the newest point.
    pub fn last(&self) -> Option<&Point> {
        self.new.back()
    }
}

impl Slot {
    fn of(point: Point) -> Self {
        let [admitted, persisted] = [point.admitted, point.persisted].map(|it| it.is_some().into());
        Self { point, admitted, persisted }
    }

    fn add(&mut self, other: &Point) {
        let mean = |sum: Option<f64>, count: &mut u32, one: Option<f64>| match (sum, one) {
            (Some(mean), Some(one)) => {
                *count += 1;
                Some(mean + (one - mean) / f64::from(*count))
            }
            (None, Some(one)) => {
                *count = 1;
                Some(one)
            }
            (mean, None) => mean,
        };
        let point = &mut self.point;
        point.at = other.at;
        point.admitted = mean(point.admitted, &mut self.admitted, other.admitted);
        point.persisted = mean(point.persisted, &mut self.persisted, other.persisted);
        point.lag = point.lag.max(other.lag);
        point.pending = point.pending.max(other.pending);
        point.p99_us = point.p99_us.max(other.p99_us);
        point.held |= other.held;
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
        let kept = last.since(first);
        assert!((1_800_000..2_200_000).contains(&kept), "{kept}");
        assert_eq!(series.points().count(), Series::TICKS + Series::SLOTS);
        let gap = |(a, b): (&Point, &Point)| b.at.since(a.at);
        let most = series.points().zip(series.points().skip(1)).map(gap).max();
        assert_eq!(most, Some(2_000));
    }

    #[test]
    fn a_slot_holds_the_mean_and_an_outage_stays_a_gap() {
        let mut series = Series::default();
        let rates = [Some(10.0), None, Some(20.0), Some(60.0)];
        for (tick, rate) in rates.into_iter().enumerate() {
            series.push(point(tick as i64 * 250, rate));
        }
        for tick in 8..16 {
            series.push(point(tick * 250, None));
        }
        for tick in 16..16 + Series::TICKS as i64 {
            series.push(point(tick * 250, Some(0.0)));
        }
        let old: Vec<_> = series.old.iter().map(|slot| slot.point.admitted).collect();
        assert_eq!(old, [Some(30.0), None]);
        let whole = series.between(Millis(0), Millis(4_000)).unwrap();
        assert_eq!((whole.admitted, whole.at), (Some(30.0), Millis(3_750)));
        assert_eq!(series.between(Millis(-9), Millis(0)), None);
    }
}
