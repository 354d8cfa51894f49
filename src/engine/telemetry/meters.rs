//! Measurements of one process: latencies, refused requests, written orders, and operations in progress, which can be
//! stopped.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use seckill_model::{Message, ShardId, VoucherId};
use tokio_util::sync::CancellationToken;

use super::snapshot::{HttpLine, Latency, LoadTestLine, RecoveryLine};

/// Time window of the displayed latencies, in seconds.
const WINDOW: usize = 5;
const SECOND: Duration = Duration::from_secs(1);
/// Maximum latency recorded, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;

/// Upper bound of the first bucket of latencies, in microseconds.
const FIRST_BUCKET_US: u64 = 250;

/// Counters of one process; cheap to share.
#[derive(Debug, Default)]
pub struct Meters {
    busy: AtomicU64,
    /// Orders written by the consumer of each partition.
    written: Mutex<HashMap<u16, u64>>,
    latencies: Mutex<Recent<Histogram<u64>>>,
    http: Mutex<Option<Weak<HttpFigures>>>,
    load_tests: Active<LoadTestRun>,
    recoveries: Active<RecoveryLine>,
    /// Shards of which the database accepts no orders, and why.
    refused_sales: Mutex<BTreeMap<ShardId, Message>>,
    /// Stops the recovery command that this process runs.
    recovery: Mutex<Weak<CancellationToken>>,
}

/// Returns the figures of an HTTP server.
pub type HttpFigures = dyn Fn() -> HttpLine + Send + Sync;

/// The operations in progress. Each owns its entry, which disappears when the operation ends.
type Active<L> = Mutex<Vec<Weak<InProgress<L>>>>;

impl Meters {
    /// Records requests refused because the queue was full.
    pub fn note_busy(&self, requests: usize) {
        self.busy.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Returns the number of refused requests.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Records orders that the consumer of a partition wrote.
    pub fn note_written(&self, partition: u16, orders: u64) {
        *self.written.lock().entry(partition).or_default() += orders;
    }

    /// Returns the number of orders that the consumer of a partition wrote.
    pub fn written(&self, partition: u16) -> u64 {
        self.written.lock().get(&partition).copied().unwrap_or_default()
    }

    /// Records why the database accepts no orders of a shard, or that it accepts them again.
    pub(crate) fn note_refused(&self, shard: ShardId, why: Option<Message>) {
        let mut refused = self.refused_sales.lock();
        match why {
            Some(why) => drop(refused.insert(shard, why)),
            None => drop(refused.remove(&shard)),
        }
    }

    /// Returns the sales of which the database accepts no orders, each with the reason.
    pub(crate) fn refused_sales(&self) -> BTreeMap<VoucherId, Message> {
        let refused = self.refused_sales.lock();
        // Of several shards, the reason of the first.
        refused.iter().rev().map(|(shard, why)| (shard.voucher(), why.clone())).collect()
    }

    /// Records how long a batch of requests waited for its replies.
    pub fn note_latencies(&self, latencies: impl Iterator<Item = Duration>) {
        self.latencies.lock().note(histogram, |current| {
            latencies.for_each(|latency| current.saturating_record(latency.as_micros() as u64));
        });
    }

    /// Returns recent latencies; `None` without requests.
    pub fn latency(&self) -> Option<Latency> {
        let recent = self.recent();
        (!recent.is_empty()).then(|| latency_of(&recent))
    }

    /// Returns recent requests by latency: for each bucket, its upper bound in microseconds, which doubles from one
    /// bucket to the next, and its number of requests.
    pub fn latency_buckets(&self) -> Vec<(u64, u64)> {
        let recent = self.recent();
        let buckets = recent.iter_log(FIRST_BUCKET_US, 2.0);
        buckets.map(|it| (it.value_iterated_to() + 1, it.count_since_last_iteration())).collect()
    }

    fn recent(&self) -> Histogram<u64> {
        sum(self.latencies.lock().parts())
    }

    /// Publishes the figures of the HTTP server of this process with the heartbeats of its node, until they are
    /// dropped.
    pub fn publish_http(&self, figures: &Arc<HttpFigures>) {
        *self.http.lock() = Some(Arc::downgrade(figures));
    }

    /// Returns the figures of the HTTP server of this process as JSON; empty without one.
    pub(crate) fn http(&self) -> String {
        let figures = self.http.lock().as_ref().and_then(Weak::upgrade);
        figures.and_then(|figures| serde_json::to_string(&figures()).ok()).unwrap_or_default()
    }

    /// Registers a recovery command; dropping the returned value ends it.
    pub fn recovery_begins(&self, line: RecoveryLine) -> Arc<InProgress<RecoveryLine>> {
        begin(&self.recoveries, line)
    }

    /// Returns the active recovery commands.
    pub fn recoveries(&self) -> Vec<RecoveryLine> {
        lines(&self.recoveries, |line, done| RecoveryLine { done, ..line })
    }

    /// Makes a recovery command stoppable until the returned token, a child of `stop`, is dropped.
    pub(crate) fn begin_recovery(&self, stop: &CancellationToken) -> Arc<CancellationToken> {
        let token = Arc::new(stop.child_token());
        *self.recovery.lock() = Arc::downgrade(&token);
        token
    }

    /// Stops the recovery command after its current step; `false` if none is running.
    pub(crate) fn stop_recovery(&self) -> bool {
        self.recovery.lock().upgrade().map(|token| token.cancel()).is_some()
    }

    /// Registers a load test, which also ends with `stop`; dropping the returned value ends it.
    pub fn load_test_begins(
        &self,
        line: LoadTestLine,
        stop: &CancellationToken,
    ) -> Arc<InProgress<LoadTestRun>> {
        begin(&self.load_tests, LoadTestRun { line, halt: stop.child_token() })
    }

    /// Stops the load tests on this sale; returns how many were not stopped before.
    pub(crate) fn stop_load_tests(&self, voucher: VoucherId) -> u64 {
        let tests = self.load_tests.lock();
        let tests = tests.iter().filter_map(Weak::upgrade);
        let of =
            tests.filter(|it| it.line.line.voucher_id == voucher && !it.line.halt.is_cancelled());
        of.map(|it| it.line.halt.cancel()).count() as u64
    }

    /// Returns the active load tests.
    pub fn load_tests(&self) -> Vec<LoadTestLine> {
        lines(&self.load_tests, |run, sent| LoadTestLine { sent, ..run.line })
    }
}

/// What happened within the last seconds: one part per second, oldest first.
#[derive(Clone, Debug)]
pub struct Recent<T>(VecDeque<(Instant, T)>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Recent<T> {
    /// Adds to the part of the current second, which begins as `new`.
    pub fn note(&mut self, new: impl FnOnce() -> T, note: impl FnOnce(&mut T)) {
        let now = Instant::now();
        if self.0.back().is_none_or(|(since, _)| now.duration_since(*since) >= SECOND) {
            self.0.push_back((now, new()));
            let excess = self.0.len().saturating_sub(WINDOW);
            self.0.drain(..excess);
        }
        if let Some((_, current)) = self.0.back_mut() {
            note(current);
        }
    }

    /// Returns the parts.
    pub fn parts(&self) -> impl Iterator<Item = &T> {
        self.timed().map(|(_, part)| part)
    }

    /// Returns the time that the parts cover; at least a second.
    pub fn span(&self) -> Duration {
        self.timed().map(|(age, _)| age).max().unwrap_or_default().max(SECOND)
    }

    fn timed(&self) -> impl Iterator<Item = (Duration, &T)> {
        let now = Instant::now();
        let parts = self.0.iter().map(move |(since, part)| (now.duration_since(*since), part));
        parts.filter(|(age, _)| *age < SECOND * (WINDOW as u32 + 1))
    }
}

fn begin<L>(active: &Active<L>, line: L) -> Arc<InProgress<L>> {
    let new = Arc::new(InProgress { line, count: AtomicU64::new(0) });
    let mut active = active.lock();
    active.retain(|it| it.strong_count() > 0);
    active.push(Arc::downgrade(&new));
    new
}

fn lines<O: Clone, L>(active: &Active<O>, with: impl Fn(O, u64) -> L) -> Vec<L> {
    let active = active.lock();
    let active = active.iter().filter_map(Weak::upgrade);
    active.map(|it| with(it.line.clone(), it.count.load(Ordering::Relaxed))).collect()
}

/// A load test in progress.
#[derive(Clone, Debug)]
pub struct LoadTestRun {
    line: LoadTestLine,
    /// Cancelled to stop sending requests; admitted orders still settle.
    pub(crate) halt: CancellationToken,
}

/// An operation in progress; it ends when it is dropped.
#[derive(Debug)]
pub struct InProgress<L> {
    pub(crate) line: L,
    count: AtomicU64,
}

impl<L> InProgress<L> {
    /// Records the number of requests or entries processed; cheap enough to call for each one.
    pub fn progress(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
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

/// Returns the sum of histograms made by [`histogram`].
pub fn sum<'a>(parts: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    parts.fold(histogram(), |mut sum, part| {
        // Both have the same bounds, so every value fits.
        let _ = sum.add(part);
        sum
    })
}

/// Returns the displayed figures of a histogram.
pub fn latency_of(histogram: &Histogram<u64>) -> Latency {
    Latency {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
        samples: histogram.len(),
    }
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
        assert!(
            latency.p99 <= latency.p999 && latency.p999 <= latency.max && latency.max >= 100_000,
            "{latency:?}"
        );
        let buckets = meters.latency_buckets();
        assert_eq!(buckets[..4], [(250, 0), (500, 0), (1_000, 0), (2_000, 1)]);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 100);
    }

    #[test]
    fn a_sale_is_refused_while_one_of_its_shards_is() {
        let meters = Meters::default();
        let shard = |number| ShardId { sale: VoucherId(7).into(), number };
        meters.note_refused(shard(1), Some("no".into()));
        meters.note_refused(shard(2), Some("too".into()));
        assert_eq!(meters.refused_sales(), BTreeMap::from([(VoucherId(7), "no".into())]));
        meters.note_refused(shard(1), None);
        assert_eq!(meters.refused_sales(), BTreeMap::from([(VoucherId(7), "too".into())]));
        meters.note_refused(shard(2), None);
        assert!(meters.refused_sales().is_empty());
    }

    #[test]
    fn load_tests_start_and_end() {
        let meters = Meters::default();
        let line = LoadTestLine { voucher_id: VoucherId(1), sent: 0, planned: 5 };
        let shown = meters.load_test_begins(line, &CancellationToken::new());
        shown.progress(3);
        assert_eq!(meters.load_tests().first().map(|line| line.sent), Some(3));
        drop(shown);
        assert!(meters.load_tests().is_empty());
    }
}
