//! Limits how many requests wait for admission: as many as are decided within the latency goal.
//!
//! By Little's law, that number is the goal times the rate, which is measured while requests wait. A request beyond it
//! would wait longer, and is refused as busy immediately.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Weight of the newest batch in the moving average.
const WEIGHT: f64 = 0.125;
/// Caps a measured duration at this multiple of the average, so that a single stall does not lower the bound.
const OUTLIER: f64 = 4.0;
/// Share of the goal that the expected wait may take: at twice the capacity, the 99th percentile is 1.7 times that wait.
const MARGIN: f64 = 0.55;
/// The bound before anything was measured.
const FIRST: usize = 8_192;

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
    /// Requests in a measurement, which is the least bound.
    batch: usize,
    /// Capacity of the queue, which is the largest bound.
    capacity: usize,
    /// Requests decided since then.
    decided: usize,
    since: Instant,
    /// Moving average of the seconds for a batch; at first that of the first bound.
    average: f64,
}

impl RateMeter {
    pub(super) fn new(goal: Duration, batch: usize, capacity: usize) -> Self {
        let bound = QueueBound(Arc::new(AtomicUsize::new(FIRST.min(capacity))));
        let average = MARGIN * goal.as_secs_f64() * batch as f64 / FIRST as f64;
        Self { bound, goal, batch, capacity, decided: 0, since: Instant::now(), average }
    }

    pub(super) fn bound(&self) -> QueueBound {
        self.bound.clone()
    }

    /// Begins a new measurement: what came before now waited for something else.
    pub(super) fn restart(&mut self) {
        (self.decided, self.since) = (0, Instant::now());
    }

    /// Notes requests that were decided now, the first of which came at `requested`, while others wait or not. Without
    /// those, the load says nothing about the rate that is possible.
    pub(super) fn note(
        &mut self,
        requests: usize,
        requested: Instant,
        waiting: bool,
        now: Instant,
    ) {
        if !waiting {
            (self.decided, self.since) = (0, now);
            return;
        }
        if self.decided == 0 {
            self.since = self.since.max(requested);
        }
        self.decided += requests;
        if self.decided < self.batch {
            return;
        }
        let took = now.saturating_duration_since(self.since).as_secs_f64();
        let took = took * self.batch as f64 / self.decided as f64;
        (self.decided, self.since) = (0, now);
        self.average += WEIGHT * (took.min(OUTLIER * self.average) - self.average);
        let wait = MARGIN * self.goal.as_secs_f64();
        let most = wait / self.average.max(1e-6) * self.batch as f64;
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
        let mut rate = RateMeter::new(millis(100), 200, 20_000);
        let bound = rate.bound();
        assert_eq!(bound.get(), FIRST, "before anything was measured");
        let mut now = Instant::now();
        let mut decide = |requests, waiting, took| {
            let begun = now;
            now += took;
            rate.note(requests, begun, waiting, now);
        };
        for _ in 0..100 {
            decide(200, true, millis(10));
        }
        let measured = bound.get();
        assert!((1_090..=1_100).contains(&measured), "200 in 10 ms, 5.5 times within 55 ms");
        decide(1, false, millis(50));
        decide(50, true, millis(1));
        decide(150, true, millis(9));
        assert!((measured..=1_100).contains(&bound.get()), "a small load, and several sales");
        decide(200, true, millis(10_000));
        assert!((790..810).contains(&bound.get()), "a stall");
        for _ in 0..100 {
            decide(200, true, millis(500));
        }
        assert_eq!(bound.get(), 200, "the rate can still be measured");
        for _ in 0..100 {
            decide(200, true, millis(1));
        }
        assert!(bound.get() > 10_900, "200 in 1 ms");
        for _ in 0..100 {
            decide(200, true, Duration::ZERO);
        }
        assert_eq!(bound.get(), 20_000, "the capacity of the queue");
    }
}
