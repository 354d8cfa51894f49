//! Trend of a lag: whether it grows or drains, and when it is drained.

use std::{cmp::Ordering, collections::VecDeque};

use seckill_model::Millis;

/// Milliseconds of samples that are kept.
const KEPT_MS: u64 = 12_000;
/// A sample of this age weighs 1/e of the newest, so that a turn is detected soon.
const FADE_MS: f64 = 4_000.0;
/// A shorter span shows no trend.
const LEAST_MS: u64 = 1_500;
/// A lag that moved back from its extreme by more than this share of the maximum has turned.
const TURN: f64 = 0.05;
/// A lag that would take longer than this many seconds to drain or double is steady.
const SLOW_S: f64 = 300.0;

/// Recent samples of the lag.
#[derive(Debug, Default)]
pub(crate) struct LagTrend {
    past: VecDeque<(Millis, u64)>,
    trend: Option<Ordering>,
    growth: f64,
}

impl LagTrend {
    /// Adds the lag of a snapshot; `None` if it is unknown.
    pub(crate) fn push(&mut self, taken: Millis, lag: Option<u64>) {
        let Some(lag) = lag else {
            *self = Self::default();
            return;
        };
        if self.past.back().is_some_and(|(at, _)| *at >= taken) {
            return;
        }
        self.past.push_back((taken, lag));
        while self.past.front().is_some_and(|(at, _)| taken.since(*at) > KEPT_MS) {
            self.past.pop_front();
        }
        self.turn(lag);
        self.settle(taken, lag as f64);
    }

    /// A load test fills the stream within a second: samples before the turn say nothing about what follows.
    fn turn(&mut self, lag: u64) {
        let lags = || self.past.iter().map(|(_, lag)| *lag).enumerate();
        // The last of equal values.
        let (Some((peak, high)), Some((trough, low))) =
            (lags().max_by_key(|(_, lag)| *lag), lags().rev().min_by_key(|(_, lag)| *lag))
        else {
            return;
        };
        let turned = |by: u64| by as f64 > high as f64 * TURN;
        let from = match (turned(high - lag), turned(lag - low)) {
            (true, false) => peak,
            (false, true) => trough,
            // Both happened: the later one counts.
            (true, true) => peak.max(trough),
            (false, false) => 0,
        };
        self.past.drain(..from);
    }

    /// Hysteresis: the arrow turns when the slope is clear of the noise, and goes back only when almost none is left.
    fn settle(&mut self, taken: Millis, lag: f64) {
        let long = self.past.front().is_some_and(|(at, _)| taken.since(*at) >= LEAST_MS);
        let Some((growth, error)) = self.line(taken).filter(|_| long) else {
            self.trend = None;
            return;
        };
        self.growth = growth;
        let least = (lag / SLOW_S).max(2.0);
        let toward = growth.total_cmp(&0.0);
        if growth.abs() > least.max(2.0 * error) {
            self.trend = Some(toward);
        } else if self.trend != Some(toward) || growth.abs() < least / 2.0 {
            self.trend = Some(Ordering::Equal);
        }
    }

    /// The slope per second by least squares, and its standard error.
    fn line(&self, now: Millis) -> Option<(f64, f64)> {
        let points = || {
            self.past.iter().map(|(at, lag)| {
                let age = now.since(*at) as f64;
                ((-age / FADE_MS).exp(), -age / 1e3, *lag as f64)
            })
        };
        let sum = |of: &dyn Fn(f64, f64, f64) -> f64| points().map(|(w, x, y)| of(w, x, y)).sum();
        let whole: f64 = sum(&|w, _, _| w);
        let middle: f64 = sum(&|w, x, _| w * x / whole);
        let mean: f64 = sum(&|w, _, y| w * y / whole);
        let spread: f64 = sum(&|w, x, _| w * (x - middle).powi(2));
        if self.past.len() < 3 || spread <= 0.0 {
            return None;
        }
        let slope = sum(&|w, x, y| w * (x - middle) * (y - mean) / spread);
        let off: f64 = sum(&|w, x, y| w * (y - mean - slope * (x - middle)).powi(2));
        Some((slope, (off / whole / spread).sqrt()))
    }

    /// Rising, falling or steady; `None` if unknown.
    pub(crate) fn trend(&self) -> Option<Ordering> {
        self.trend
    }

    /// Growth in entries per second; negative while draining.
    pub(crate) fn growth(&self) -> f64 {
        self.growth
    }

    /// Milliseconds until the lag is drained, while it falls.
    pub(crate) fn drains_in(&self) -> Option<u64> {
        let (_, lag) = self.past.back().filter(|(_, lag)| *lag > 0)?;
        let falls = self.trend == Some(Ordering::Less) && self.growth < 0.0;
        // Less than a second is over before it is read.
        falls.then(|| ((*lag as f64 / -self.growth * 1e3) as u64).max(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reading = (Option<Ordering>, Option<u64>);

    fn replay(lags: impl IntoIterator<Item = u64>) -> (LagTrend, Vec<Reading>) {
        let mut flow = LagTrend::default();
        let mut readings = Vec::new();
        for (tick, lag) in lags.into_iter().enumerate() {
            flow.push(Millis(tick as i64 * 250), Some(lag));
            readings.push((flow.trend(), flow.drains_in()));
        }
        (flow, readings)
    }

    /// 1,000,000 entries in 67 s, written in batches of uneven size with every second or third tick.
    #[test]
    fn a_steady_noisy_drain_has_one_arrow_and_times_near_the_truth() {
        let lags = (0..250_u64).map(|tick| {
            let batch = [2, 2, 3, 2, 3][(tick / 5 % 5) as usize];
            let jitter = tick * 7_919 % 4_001;
            1_000_000 - (tick / batch * batch) * 3_731 + jitter
        });
        let (_, readings) = replay(lags);
        for (tick, (trend, wait)) in readings.into_iter().enumerate().skip(24) {
            assert_eq!(trend, Some(Ordering::Less), "{tick}");
            let truth = (268.0 - tick as f64) * 250.0;
            let wait = wait.unwrap_or_default() as f64;
            assert!((wait / truth - 1.0).abs() < 0.25, "{tick}: {wait} for {truth}");
        }
    }

    #[test]
    fn a_lag_that_is_nearly_worked_off_does_not_rise() {
        let burst = [0, 400, 900, 1_256, 1_100, 800, 500, 300, 120, 40, 17, 15, 17];
        let (_, readings) = replay(burst);
        assert_ne!(readings.last().and_then(|(trend, _)| *trend), Some(Ordering::Greater));
    }

    #[test]
    fn a_few_entries_up_and_down_are_no_trend() {
        let (flow, readings) = replay((0..80_u64).map(|tick| 1_000 + tick * 37 % 41));
        assert!(
            readings[12..].iter().all(|(trend, _)| *trend == Some(Ordering::Equal)),
            "{readings:?}"
        );
        assert_eq!(flow.drains_in(), None);
    }

    #[test]
    fn a_turn_is_detected_within_seconds() {
        let (_, readings) =
            replay((0..40_u64).map(|tick| tick * 500).chain((0..24).map(|t| 20_000 - t * 500)));
        assert_eq!(readings[39].0, Some(Ordering::Greater));
        assert_eq!(readings[63].0, Some(Ordering::Less));
    }

    /// A recorded case: 9,000 pieces sell within half a second, and their orders are written at 800 a second.
    #[test]
    fn a_jump_is_no_trend_once_it_is_worked_off() {
        let (_, readings) =
            replay([0; 20].into_iter().chain((0..40).map(|tick| 8_800 - tick * 200)));
        assert!(
            readings[22..].iter().all(|(trend, _)| *trend != Some(Ordering::Greater)),
            "{readings:?}"
        );
        // Two seconds after the jump.
        assert!(
            readings[28..].iter().all(|(trend, _)| *trend == Some(Ordering::Less)),
            "{readings:?}"
        );
        let wait = readings[32].1.unwrap();
        assert!((5_000..12_000).contains(&wait), "{wait}");
    }

    #[test]
    fn a_trend_restarts_after_a_gap() {
        let (mut flow, _) = replay((0..20_u64).map(|tick| 9_000 - tick * 100));
        assert_eq!(flow.trend(), Some(Ordering::Less));
        flow.push(Millis(6_000), None);
        assert_eq!((flow.trend(), flow.drains_in()), (None, None));
    }
}
