//! Latency and throughput, with the columns of `JMeter`'s aggregate report.

use serde::Serialize;

use crate::parent::{Reply, Served};

const NANOS_PER_MS: f64 = 1e6;

/// `JMeter`'s aggregate report of one label. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests.
    pub samples: u64,
    /// Mean time.
    pub average: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Shortest time.
    pub min: f64,
    /// Longest time.
    pub max: f64,
    /// Share of failed requests, in percent. A reply that the sale is over is not a failure.
    pub error_percent: f64,
    /// Requests per second, from the first one sent to the last one served.
    pub throughput: f64,
}

/// The times of requests, from which a report is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    nanos: Vec<u64>,
    failed: u64,
    /// Total duration of the runs.
    duration: u64,
}

impl Samples {
    pub(crate) fn of(served: &[Served]) -> Self {
        let begun = served.iter().map(|it| it.begun).min();
        let ended = served.iter().map(|it| it.ended).max();
        Self {
            nanos: served.iter().map(|it| it.ended.since(it.begun)).collect(),
            failed: served.iter().filter(|it| matches!(it.reply, Reply::Failed(_))).count() as u64,
            duration: ended.zip(begun).map_or(0, |(ended, begun)| ended.since(begun)),
        }
    }

    /// Adds another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
        self.failed += other.failed;
        self.duration += other.duration;
    }

    pub(crate) fn report(mut self) -> Latency {
        self.nanos.sort_unstable();
        let count = self.nanos.len();
        let Some(last) = count.checked_sub(1) else { return Latency::default() };
        // JMeter's percentile is the value at that position of the sorted list.
        let at = |share: f64| {
            let place = ((count as f64 * share).ceil() as usize).saturating_sub(1).min(last);
            self.nanos[place] as f64 / NANOS_PER_MS
        };
        Latency {
            samples: count as u64,
            average: self.nanos.iter().sum::<u64>() as f64 / count as f64 / NANOS_PER_MS,
            median: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            min: at(0.0),
            max: at(1.0),
            error_percent: 100.0 * self.failed as f64 / count as f64,
            throughput: count as f64 / (self.duration.max(1) as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        let nanos = (1..=100).rev().map(|it| it * 1_000_000).collect();
        let report = Samples { nanos, failed: 5, duration: 2_000_000_000 }.report();
        let expected = Latency {
            samples: 100,
            average: 50.5,
            median: 50.0,
            p90: 90.0,
            p95: 95.0,
            p99: 99.0,
            min: 1.0,
            max: 100.0,
            error_percent: 5.0,
            throughput: 50.0,
        };
        assert_eq!(report, expected);
        assert_eq!(Samples::default().report(), Latency::default());
    }
}
