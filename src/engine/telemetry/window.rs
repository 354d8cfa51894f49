//! Counts of the last seconds and their rate: one rate per figure, wherever it is displayed.
//!
//! Counters that rise in batches pause between them, so a rate over one tick is meaningless. The module does not know
//! what is counted.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Approximate time window of rates.
const SPAN: Duration = Duration::from_secs(3);
/// Shortest time of a rate: over less, one batch of orders appears as a peak that never was.
const TICK: Duration = Duration::from_millis(500);

/// The counts of the last seconds, oldest first.
#[derive(Debug)]
pub(super) struct Window<T>(VecDeque<(Instant, T)>);

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Window<T> {
    pub(super) fn push(&mut self, at: Instant, counted: T) {
        self.0.push_back((at, counted));
    }

    /// Drops counts older than the window; at least two stay.
    pub(super) fn trim(&mut self, now: Instant) {
        let old = |(at, _): &(Instant, T)| now.saturating_duration_since(*at) > SPAN;
        while self.0.len() > 2 && self.0.front().is_some_and(old) {
            self.0.pop_front();
        }
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.0.back().map(|(_, counted)| counted)
    }

    pub(super) fn before_last(&self) -> Option<&T> {
        self.0.iter().rev().nth(1).map(|(_, counted)| counted)
    }

    /// Returns the rate since the newest count that is at least half a second old, or else since the oldest one; `None`
    /// before the first count.
    pub(super) fn tick(&self, now: Instant, count: u64, pick: impl Fn(&T) -> u64) -> Option<f64> {
        let is_apart = |(at, _): &&(Instant, T)| now.saturating_duration_since(*at) >= TICK;
        let since = self.0.iter().rev().find(is_apart).or(self.0.front());
        since.map(|(at, counted)| rate(now, count, *at, pick(counted)))
    }

    /// Returns the rate since the count that [`Self::since`] chooses.
    pub(super) fn rate(
        &self,
        now: Instant,
        count: u64,
        pick: impl Fn(&T) -> Option<u64>,
    ) -> Option<f64> {
        let (at, before) = self.since(pick, |count| count)?;
        Some(rate(now, count, at, before))
    }

    /// Returns the count from which rates are measured, and its time: the first one in the window for which `pick`
    /// returns a value. A counter that has begun to rise in the window, and has done so with every count since, is
    /// measured from its first rise: over the whole window, a constant rate would appear to grow.
    pub(super) fn since<C: Copy>(
        &self,
        pick: impl Fn(&T) -> Option<C>,
        total: impl Fn(C) -> u64,
    ) -> Option<(Instant, C)> {
        let picked = |(at, counted): &(Instant, T)| Some((*at, pick(counted)?));
        let counts: Vec<(Instant, C)> = self.0.iter().filter_map(picked).collect();
        let rises = |pair: &[(Instant, C)]| total(pair[0].1) < total(pair[1].1);
        let rising = counts.windows(2).rev().take_while(|pair| rises(pair)).count();
        let (still, risen) = counts.split_at_checked(counts.len().checked_sub(rising)?)?;
        let began = rising > 1 && !still.windows(2).any(rises);
        if began { risen.first() } else { counts.first() }.copied()
    }
}

/// Returns the rate of a counter between two moments, per second.
pub(super) fn rate(now: Instant, count: u64, since: Instant, before: u64) -> f64 {
    let seconds = now.saturating_duration_since(since).as_secs_f64().max(1e-3);
    count.saturating_sub(before) as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 15,000 per second, written in batches every second tick.
    #[test]
    fn batches_every_second_tick_have_a_steady_rate() {
        let start = Instant::now();
        let mut window = Window::default();
        let (mut of_ticks, mut rates) = (Vec::new(), Vec::new());
        for tick in 0..60_u64 {
            let at = start + Duration::from_millis(tick * 250);
            let count = tick / 2 * 7_500;
            of_ticks.extend(window.tick(at, count, |it| *it));
            window.push(at, count);
            window.trim(at);
            rates.extend(window.rate(at, count, |it| Some(*it)).filter(|_| tick >= 12));
        }
        assert!(of_ticks[2..].iter().all(|it| (*it - 15_000.0).abs() < 1.0), "{of_ticks:?}");
        assert!(rates.iter().all(|it| (13_000.0..17_000.0).contains(it)), "{rates:?}");
    }

    /// An event causes a snapshot just after a batch was written.
    #[test]
    fn a_short_tick_has_no_peak() {
        let start = Instant::now();
        let mut window = Window::default();
        for millis in [0, 250, 500, 750] {
            window.push(start + Duration::from_millis(millis), 0);
        }
        assert_eq!(
            window.tick(start + Duration::from_millis(800), 500, |it| *it),
            Some(500.0 / 0.55)
        );
    }

    #[test]
    fn two_counts_stay_at_any_age() {
        let start = Instant::now();
        let mut window = Window::default();
        for (second, count) in [(0, 0), (10, 50), (20, 90)] {
            window.push(start + Duration::from_secs(second), count);
        }
        let now = start + Duration::from_secs(20);
        window.trim(now);
        assert_eq!((window.before_last(), window.last()), (Some(&50), Some(&90)));
        assert_eq!(window.rate(now, 90, |it| Some(*it)), Some(4.0));
    }

    /// A load test that begins between two ticks.
    #[test]
    fn a_constant_rate_does_not_grow() {
        let start = Instant::now();
        let mut window = Window::default();
        for tick in 0..40_u64 {
            let at = start + Duration::from_millis(tick * 250);
            let count = (tick * 250).saturating_sub(3_400) * 2;
            window.push(at, count);
            window.trim(at);
            let rate = window.rate(at, count, |it| Some(*it)).unwrap_or_default();
            // From the second count on.
            let expected = if tick > 14 { 1_999.0..2_001.0 } else { 0.0..300.0 };
            assert!(expected.contains(&rate), "{rate} at tick {tick}");
        }
    }

    /// A sale that has just begun has a rate.
    #[test]
    fn a_late_counter_has_a_rate_from_its_first_count_on() {
        let start = Instant::now();
        let mut window: Window<Option<u64>> = Window::default();
        window.push(start, None);
        let at = start + Duration::from_millis(250);
        assert_eq!(window.rate(at, 0, |it| *it), None);
        window.push(at, Some(0));
        let rate = window.rate(start + Duration::from_millis(500), 500, |it| *it);
        assert!(rate.is_some_and(|it| (it - 2_000.0).abs() < 1.0), "{rate:?}");
    }
}
