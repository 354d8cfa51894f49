//! Trend of a lag: whether it grows or drains, and when it is drained.

use std::{cmp::Ordering, collections::VecDeque};

use seckill_model::Millis;

/// Milliseconds of samples that are kept.
const KEPT_MS: u64 = 12_000;
/// A shorter span shows no trend.
const LEAST_MS: u64 = 1_500;
/// A change by less than this share of the lag is noise: the lag is steady, and has not turned.
const NOISE: f64 = 0.05;
/// A change by at most this many entries is noise, too.
const LEAST_CHANGE: f64 = 10.0;

/// Recent samples of the lag.
#[derive(Debug, Default)]
pub(crate) struct LagTrend {
    past: VecDeque<(Millis, u64)>,
    trend: Option<Ordering>,
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
        self.trend = self.settled();
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
        let has_turned = |extreme: u64| extreme.abs_diff(lag) as f64 > high as f64 * NOISE;
        let turns = [(peak, high), (trough, low)].into_iter().filter(|(_, lag)| has_turned(*lag));
        // If both happened, the later one counts.
        let from = turns.map(|(at, _)| at).max().unwrap_or(0);
        self.past.drain(..from);
    }

    /// Change of the lag, and the milliseconds in which it happened; `None` if the time is too short.
    fn change(&self) -> Option<(f64, u64)> {
        let ((begin, first), (end, last)) = self.past.front().zip(self.past.back())?;
        let span = end.since(*begin);
        (span >= LEAST_MS).then_some((*last as f64 - *first as f64, span))
    }

    /// Growth in entries per second, negative while draining; `None` if unknown.
    pub(crate) fn growth(&self) -> Option<f64> {
        self.change().map(|(change, span)| change / span as f64 * 1e3)
    }

    /// Hysteresis: a trend starts when the change exceeds the noise, and ends when it falls below half of that.
    fn settled(&self) -> Option<Ordering> {
        let ((change, _), (_, lag)) = self.change().zip(self.past.back())?;
        let toward = change.total_cmp(&0.0);
        let noise = if self.trend == Some(toward) { NOISE / 2.0 } else { NOISE };
        let is_steady = change.abs() <= (*lag as f64 * noise).max(LEAST_CHANGE);
        Some(if is_steady { Ordering::Equal } else { toward })
    }

    /// Rising, falling or steady; `None` if unknown.
    pub(crate) fn trend(&self) -> Option<Ordering> {
        self.trend
    }

    /// Milliseconds until the lag is drained, while it falls.
    pub(crate) fn drains_in(&self) -> Option<u64> {
        let (growth, (_, lag)) = self.growth().zip(self.past.back())?;
        let falls = *lag > 0 && self.trend() == Some(Ordering::Less);
        // Less than a second is over before it is read.
        falls.then(|| ((*lag as f64 / -growth * 1e3) as u64).max(1_000))
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

    /// 100,000 entries in 270 s: the change within the samples is close to the noise.
    #[test]
    fn a_slow_noisy_drain_does_not_flicker() {
        let lags = (0..240_u64).map(|tick| 100_000 - tick * 93 + tick * 7_919 % 1_001);
        let (_, readings) = replay(lags);
        let turns = readings.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        assert!(turns <= 3, "{turns}: {readings:?}");
        assert!(readings[60..].iter().all(|(trend, _)| *trend == Some(Ordering::Less)));
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
