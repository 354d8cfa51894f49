//! How many requests may wait for admission: as many as are decided within the latency goal.
//!
//! By Little's law, that number is the goal times the rate, which is measured while there is enough work. A request
//! beyond it would wait longer, and is refused as busy immediately.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Weight of the newest batch in the moving average.
const WEIGHT: f64 = 0.125;
/// A batch that took longer than so many average ones counts as if it had not: one stall is no lower rate.
const OUTLIER: f64 = 4.0;

/// The bound of one queue. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct QueueBound(Arc<AtomicUsize>);

impl QueueBound {
    /// Requests that may wait.
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Measures the rate, and sets the bound.
#[derive(Debug)]
pub(super) struct RateMeter {
    bound: QueueBound,
    goal: Duration,
    /// Largest batch, which is the least bound: only such batches are measured.
    batch: usize,
    /// Capacity of the queue, which is the largest bound, and the first one.
    capacity: usize,
    /// Average duration of a batch in seconds.
    average: Option<f64>,
    last: Instant,
}

impl RateMeter {
    pub(super) fn new(goal: Duration, batch: usize, capacity: usize) -> Self {
        let bound = QueueBound(Arc::new(AtomicUsize::new(capacity)));
        Self { bound, goal, batch, capacity, average: None, last: Instant::now() }
    }

    pub(super) fn bound(&self) -> QueueBound {
        self.bound.clone()
    }

    /// Notes a batch that was decided now, and whose first request came at `requested`. One that is not full says
    /// nothing about the rate that is possible.
    pub(super) fn note(&mut self, requests: usize, requested: Instant, now: Instant) {
        let took = now.saturating_duration_since(self.last.max(requested)).as_secs_f64();
        self.last = now;
        if requests < self.batch {
            return;
        }
        let average = self
            .average
            .map_or(took, |average| average + WEIGHT * (took.min(OUTLIER * average) - average));
        self.average = Some(average);
        let most = self.goal.as_secs_f64() / average.max(1e-6) * self.batch as f64;
        let most = (most as usize).clamp(self.batch.min(self.capacity), self.capacity);
        self.bound.0.store(most, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_is_decided_within_the_goal() {
        let millis = Duration::from_millis;
        let mut rate = RateMeter::new(millis(100), 200, 8_000);
        let bound = rate.bound();
        assert_eq!(bound.get(), 8_000, "before anything was measured");
        let mut now = Instant::now();
        let mut decide = |requests, took| {
            let begun = now;
            now += took;
            rate.note(requests, begun, now);
        };
        decide(200, millis(10));
        assert_eq!(bound.get(), 2_000, "200 requests in 10 ms, ten times within the goal");
        decide(1, millis(50));
        assert_eq!(bound.get(), 2_000, "the load is small");
        decide(200, millis(10_000));
        assert_eq!(bound.get(), 1_454, "a stall");
        for _ in 0..100 {
            decide(200, millis(500));
        }
        assert_eq!(
            bound.get(),
            200,
            "a full batch can always wait, or the rate would never be measured again"
        );
        for _ in 0..100 {
            decide(200, millis(1));
        }
        assert_eq!(bound.get(), 8_000, "the capacity of the queue");
    }
}
