//! Measurements of one process: latencies, refusals, active load tests.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use super::snapshot::{Latency, LoadTestLine, RecoveryLine};

/// Time window of the displayed latencies, in seconds.
const WINDOW: usize = 5;
/// Maximum latency recorded, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;

/// Counters of one process; cheap to share.
#[derive(Debug, Default)]
pub struct Meters {
    busy: AtomicU64,
    latencies: Mutex<Window>,
    load_tests: Mutex<Vec<(u64, LoadTestLine, Arc<AtomicU64>)>>,
    next_number: AtomicU64,
    recoveries: Mutex<Vec<(u64, RecoveryLine)>>,
}

#[derive(Debug, Default)]
struct Window {
    seconds: VecDeque<(Instant, Histogram<u64>)>,
}

impl Meters {
    /// Records a request refused because the queue was full.
    pub fn note_busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of refused requests.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Records how long a batch of requests waited for its replies.
    pub fn note_latencies(&self, latencies: impl Iterator<Item = Duration>) {
        let now = Instant::now();
        let mut window = lock(&self.latencies);
        let fresh = window
            .seconds
            .back()
            .is_some_and(|(since, _)| now.duration_since(*since) < Duration::from_secs(1));
        if !fresh {
            window.seconds.push_back((now, histogram()));
            while window.seconds.len() > WINDOW {
                window.seconds.pop_front();
            }
        }
        if let Some((_, current)) = window.seconds.back_mut() {
            latencies.for_each(|latency| current.saturating_record(latency.as_micros() as u64));
        }
    }

    /// Returns recent latencies; `None` without requests.
    pub fn latency(&self) -> Option<Latency> {
        let now = Instant::now();
        let window = lock(&self.latencies);
        let mut sum = histogram();
        for (since, second) in &window.seconds {
            if now.duration_since(*since) < Duration::from_secs(WINDOW as u64 + 1) {
                // Both have the same bounds, so every value fits.
                let _ = sum.add(second);
            }
        }
        (!sum.is_empty()).then(|| latency_of(&sum))
    }

    /// Registers a recovery command; dropping the returned value ends it.
    pub fn recovery_begins(&self, line: RecoveryLine) -> RecoveryShown<'_> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        lock(&self.recoveries).push((number, line));
        RecoveryShown { meters: self, number }
    }

    /// Returns the active recovery commands.
    pub fn recoveries(&self) -> Vec<RecoveryLine> {
        lock(&self.recoveries).iter().map(|(_, line)| line.clone()).collect()
    }

    /// Registers a load test; dropping the returned value ends it.
    pub fn load_test_begins(&self, line: LoadTestLine) -> LoadTestProgress<'_> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let sent = Arc::new(AtomicU64::new(line.sent));
        lock(&self.load_tests).push((number, line, Arc::clone(&sent)));
        LoadTestProgress { meters: self, number, sent }
    }

    /// Returns the active load tests.
    pub fn load_tests(&self) -> Vec<LoadTestLine> {
        let of = |(_, line, sent): &(u64, LoadTestLine, Arc<AtomicU64>)| LoadTestLine {
            sent: sent.load(Ordering::Relaxed),
            ..line.clone()
        };
        lock(&self.load_tests).iter().map(of).collect()
    }
}

/// A displayed load test.
#[derive(Debug)]
pub struct LoadTestProgress<'a> {
    meters: &'a Meters,
    number: u64,
    sent: Arc<AtomicU64>,
}

impl LoadTestProgress<'_> {
    /// Records the number of requests sent; cheap enough to call for each one.
    pub fn progress(&self, sent: u64) {
        self.sent.store(sent, Ordering::Relaxed);
    }
}

impl Drop for LoadTestProgress<'_> {
    fn drop(&mut self) {
        lock(&self.meters.load_tests).retain(|(number, ..)| *number != self.number);
    }
}

/// A displayed recovery command.
#[derive(Debug)]
pub struct RecoveryShown<'a> {
    meters: &'a Meters,
    number: u64,
}

impl RecoveryShown<'_> {
    /// Records the number of entries processed.
    pub fn progress(&self, done: u64) {
        let mut lines = lock(&self.meters.recoveries);
        if let Some((_, line)) = lines.iter_mut().find(|(number, _)| *number == self.number) {
            line.done = done;
        }
    }
}

impl Drop for RecoveryShown<'_> {
    fn drop(&mut self) {
        lock(&self.meters.recoveries).retain(|(number, _)| *number != self.number);
    }
}

/// Returns a histogram of microseconds, up to a minute, with two significant digits.
#[expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "constant bounds that the crate accepts"
)]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, 2).expect("bounds within the crate's range")
}

/// Returns the displayed figures of a histogram.
pub fn latency_of(histogram: &Histogram<u64>) -> Latency {
    Latency {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
        samples: histogram.len(),
    }
}

/// The data are plain numbers, so a poisoned lock is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_returned_as_quantiles() {
        let meters = Meters::default();
        assert_eq!(meters.latency(), None);
        meters.note_latencies((1..=100).map(Duration::from_millis));
        let latency = meters.latency().unwrap();
        assert_eq!(latency.samples, 100);
        assert!((49_000..=52_000).contains(&latency.p50), "{latency:?}");
        assert!(latency.p99 <= latency.max && latency.max >= 100_000, "{latency:?}");
    }

    #[test]
    fn load_tests_start_and_end() {
        let meters = Meters::default();
        let line = LoadTestLine { voucher_id: seckill_model::VoucherId(1), sent: 0, planned: 5 };
        let shown = meters.load_test_begins(line);
        shown.progress(3);
        assert_eq!(meters.load_tests().first().map(|line| line.sent), Some(3));
        drop(shown);
        assert!(meters.load_tests().is_empty());
    }
}
