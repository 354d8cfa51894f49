//! Load generator: simulated buyers whose order is determined by a seed, so that a run can be repeated.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use hdrhistogram::Histogram;
use rand::{SeedableRng as _, rngs::ChaCha8Rng, seq::SliceRandom as _};
use seckill_model::{
    EntryId, Message, OrderId, Outcome, Payment, Reason, SaleShard, UserId, VoucherId,
    message::Label, reason::reason,
};
use seckill_redis::{dead_letters, keys::Partition};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    admission::{Admission, AdmissionError, AdmissionReply, Ticket},
    deployment::servers::Servers,
    error::{MAX_CONCURRENCY, MAX_USERS},
    telemetry::{
        Meters,
        meters::{InProgress, LoadTestRun, histogram, latency_of},
        snapshot::{Latency, LoadTestLine},
    },
};

/// The wait for orders to settle ends if none has settled for this long.
const NO_PROGRESS: Duration = Duration::from_secs(30);
const SETTLE_POLL: Duration = Duration::from_millis(20);
const TIMER: Duration = Duration::from_millis(1);
const SETTLE_PAGE: usize = 5_000;

/// Buyers who pay in one transaction.
const PAY_PAGE: usize = 100;

/// Plan of a load test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadTest {
    /// The voucher they buy.
    pub voucher: VoucherId,
    /// Number of distinct buyers.
    pub users: u64,
    /// Share of the buyers who send a second request, 0 to 1.
    pub repeat: f64,
    /// Maximum number of requests in flight.
    pub concurrency: usize,
    /// Requests per second; `None` for no limit.
    pub rate: Option<f64>,
    /// Determines which buyers repeat their request, and the order of requests.
    pub seed: u64,
    /// Wait until every admitted order has settled.
    pub settle: bool,
    /// Share of the admitted buyers who pay after their order has settled, 0 to 1.
    pub pay: f64,
}

/// Outcome of a load test; the keys are a contract of `rush --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Requests sent.
    pub attempts: u64,
    /// Admitted.
    pub admitted: u64,
    /// Sold out.
    pub sold_out: u64,
    /// Rejected because the user already has an order.
    pub duplicate: u64,
    /// Too early, too late, paused, not loaded, or the queue was full.
    pub rejected: u64,
    /// Requests without a reply.
    pub errors: u64,
    /// Replies per second.
    pub per_second: f64,
    /// Latency from request to reply, in microseconds.
    pub latency_us: Latency,
    /// Latencies and throughput by outcome, and of all requests in the last line.
    #[serde(default)]
    pub aggregate: Vec<AggregateLine>,
    /// Orders admitted by this load test that are in SQL.
    pub persisted: u64,
    /// Orders of this load test that were paid.
    pub paid: u64,
    /// Seconds from the last reply until every admitted order had settled.
    pub settled_seconds: f64,
    /// Orders that settled as dead letters.
    pub dead: u64,
    /// Why the first request without a reply got none.
    pub first_error: Option<Message>,
    /// Why the first rejected request was rejected.
    pub first_rejection: Option<Message>,
    /// It was stopped before the last request was sent.
    pub cut_short: bool,
    /// Every admitted order has a result; `false` if the wait timed out.
    pub settled: bool,
}

/// What a line of the aggregate report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", prefix = "request-")]
pub enum RequestLabel {
    /// Admitted requests.
    Admitted,
    /// Requests of users who already have an order.
    Duplicate,
    /// Requests after the last piece.
    SoldOut,
    /// Requests rejected for another reason.
    Rejected,
    /// Requests without a reply.
    Error,
    /// All requests.
    Total,
}

impl RequestLabel {
    fn of(outcome: &Result<Outcome, AdmissionError>) -> Self {
        match outcome {
            Ok(Outcome::Admitted { .. }) => Self::Admitted,
            Ok(Outcome::Duplicate { .. }) => Self::Duplicate,
            Ok(Outcome::SoldOut) => Self::SoldOut,
            Ok(_) => Self::Rejected,
            Err(_) => Self::Error,
        }
    }

    /// Its name on screens.
    pub fn name(self) -> Label {
        Label(self.into())
    }
}

/// A line of the aggregate report; latencies in microseconds. The columns are those of `JMeter`.
///
/// Source: <https://jmeter.apache.org/usermanual/component_reference.html#Aggregate_Report>
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateLine {
    /// Which requests.
    pub label: RequestLabel,
    /// Number of requests.
    pub samples: u64,
    /// Mean latency.
    pub average: u64,
    /// Median latency.
    pub median: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Smallest latency.
    pub min: u64,
    /// Largest latency.
    pub max: u64,
    /// Share of requests without a reply, in percent.
    pub error_percent: f64,
    /// Replies per second.
    pub per_second: f64,
}

impl AggregateLine {
    fn of(label: RequestLabel, latencies: &Histogram<u64>, errors: u64, took: Duration) -> Self {
        let samples = latencies.len();
        let at = |quantile| latencies.value_at_quantile(quantile);
        Self {
            label,
            samples,
            average: latencies.mean().round() as u64,
            median: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            min: latencies.min(),
            max: latencies.max(),
            error_percent: 100.0 * errors as f64 / samples.max(1) as f64,
            per_second: samples as f64 / took.as_secs_f64().max(1e-6),
        }
    }
}

impl LoadTest {
    /// A load test without a rate limit, in which one buyer in ten repeats the request.
    pub fn new(voucher: VoucherId, users: u64) -> Self {
        Self {
            voucher,
            users,
            repeat: 0.1,
            concurrency: 1_024,
            rate: None,
            seed: 1,
            settle: true,
            pay: 0.0,
        }
    }

    /// Selects the buyers who pay, by the seed and the admitted buyers.
    fn payers(&self, admitted: &[OrderId]) -> Vec<OrderId> {
        let count = (admitted.len() as f64 * self.pay).round() as usize;
        let mut payers = admitted.to_vec();
        payers.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed));
        payers.truncate(count);
        payers
    }

    /// Rejects an invalid load test.
    pub fn check(&self) -> Result<(), Reason> {
        let ranges = [
            ("users", self.users as f64, 1.0, MAX_USERS as f64),
            ("repeat", self.repeat, 0.0, 1.0),
            ("pay", self.pay, 0.0, 1.0),
            ("concurrency", self.concurrency as f64, 1.0, MAX_CONCURRENCY as f64),
            ("rate", self.rate.unwrap_or(1.0), 0.01, 1e9),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(reason!("faults-range", name, value, least, most));
            }
        }
        Ok(())
    }

    /// Number of buyers that repeat their request.
    pub fn twice(&self) -> u64 {
        (self.users as f64 * self.repeat).round() as u64
    }

    /// The same, with its requests spread evenly over so many seconds; 0 for no rate limit.
    #[must_use]
    pub fn within(self, seconds: u64) -> Self {
        let requests = self.users + self.twice();
        Self { rate: (seconds > 0).then(|| requests as f64 / seconds as f64), ..self }
    }

    /// Returns the buyers in the order of their requests: each once, and the given share a second time, shuffled.
    pub fn arrivals(&self) -> Vec<u32> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let users = self.users as u32;
        let mut arrivals: Vec<u32> = (1..=users).collect();
        arrivals.shuffle(&mut random);
        // The first of a shuffled list are a uniform choice.
        let again: Vec<u32> = arrivals.iter().take(self.twice() as usize).copied().collect();
        arrivals.extend(again);
        arrivals.shuffle(&mut random);
        arrivals
    }
}

/// Runs a load test and waits until every admitted order has settled.
#[derive(Debug)]
pub struct LoadGenerator {
    /// Where requests are sent.
    pub admission: Admission,
    /// Where orders settle.
    pub servers: Servers,
    /// Where progress is shown.
    pub meters: Arc<Meters>,
}

impl LoadGenerator {
    /// Sends the requests, at most `concurrency` at once, and waits for their orders.
    /// Requests without a reply are counted, not an error.
    pub fn run<'a>(
        self,
        plan: &'a LoadTest,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<LoadReport>> {
        self.send_and_settle(plan, stop).boxed()
    }

    async fn send_and_settle(
        mut self,
        plan: &LoadTest,
        stop: &CancellationToken,
    ) -> Result<LoadReport> {
        plan.check().map_err(EngineError::Rejected)?;
        let planned = plan.users + plan.twice();
        let line = LoadTestLine { voucher_id: plan.voucher, sent: 0, planned };
        let shown = self.meters.load_test_begins(line, stop);
        let arrivals = plan.arrivals();
        let (mut report, admitted) = self.send_requests(plan, &arrivals, &shown).await;
        report.cut_short = report.attempts < arrivals.len() as u64;
        drop(arrivals);
        if plan.settle {
            let waited = Instant::now();
            let payers = plan.payers(&admitted);
            self.settle(plan.voucher, admitted, &mut report, stop).await;
            report.settled_seconds = waited.elapsed().as_secs_f64();
            self.pay(&payers, &mut report, &shown.line.halt).await;
        }
        Ok(report)
    }

    async fn send_requests(
        &self,
        plan: &LoadTest,
        arrivals: &[u32],
        shown: &InProgress<LoadTestRun>,
    ) -> (LoadReport, Vec<OrderId>) {
        let (mut tally, mut admitted) = (Tally::default(), Vec::new());
        let halt = &shown.line.halt;
        let mut take = |reply: &AdmissionReply| {
            if let Ok(Outcome::Admitted { order }) = &reply.outcome {
                admitted.push(*order);
            }
            let why = || match &reply.outcome {
                Ok(outcome) => Message::of(outcome),
                Err(error) => Message::of(error),
            };
            tally.take(RequestLabel::of(&reply.outcome), reply.took, why);
        };
        let start = Instant::now();
        let mut waiting: VecDeque<Ticket> = VecDeque::with_capacity(plan.concurrency);
        for (sent, user) in arrivals.iter().enumerate() {
            if halt.is_cancelled() {
                break;
            }
            if let Some(rate) = plan.rate {
                let due = start + Duration::from_secs_f64(sent as f64 / rate);
                // The timer ticks in milliseconds; requests due within one are sent together.
                if due > Instant::now() + TIMER {
                    let until_due = tokio::time::sleep_until(due.into());
                    if halt.run_until_cancelled(until_due).await.is_none() {
                        break;
                    }
                }
            }
            if waiting.len() >= plan.concurrency {
                // Replies arrive in the order of the requests, so the first one frees the next place.
                if let Some(ticket) = waiting.pop_front() {
                    take(&ticket.answer().await);
                }
            }
            waiting.push_back(self.admission.request(plan.voucher, UserId(u64::from(*user))));
            shown.progress(sent as u64 + 1);
        }
        // In their order, by which those who pay are chosen; each may ask for pieces of other shards meanwhile.
        let mut answers: FuturesOrdered<_> = waiting.into_iter().map(Ticket::answer).collect();
        while let Some(reply) = answers.next().await {
            take(&reply);
        }
        (tally.close(start.elapsed()), admitted)
    }

    /// Waits until each admitted order is in SQL or a dead letter.
    async fn settle(
        &mut self,
        voucher: VoucherId,
        mut open: Vec<OrderId>,
        report: &mut LoadReport,
        stop: &CancellationToken,
    ) {
        let mut progress = Instant::now();
        let mut letters = HashSet::new();
        // Where the next dead letters begin in each partition; none before the shards are known.
        let mut next: Vec<(Partition, Option<EntryId>)> = Vec::new();
        while !open.is_empty() && !stop.is_cancelled() && progress.elapsed() < NO_PROGRESS {
            let before = open.len();
            let written = self.written(&mut open).await;
            report.persisted += written;
            if written == 0 {
                // Ignored: the wait continues while a server is unreachable.
                if next.is_empty()
                    && let Ok(shards) = self.servers.store.shards_of(voucher).await
                {
                    let of = |shard: &SaleShard| self.servers.keys.partition_of(shard.id);
                    next.extend(shards.iter().map(|shard| (of(shard), Some(EntryId::MIN))));
                }
                for (of, next) in &mut next {
                    while let Some(from) = *next
                        && let Ok(page) =
                            dead_letters::read(&mut self.servers.conn, of, from, SETTLE_PAGE).await
                    {
                        let Some(last) = page.last() else { break };
                        *next = last.letter.next();
                        letters.extend(page.iter().filter_map(|letter| Some(letter.order?.order)));
                    }
                }
                report.dead += open.extract_if(.., |id| letters.contains(id)).count() as u64;
            }
            if open.len() < before {
                progress = Instant::now();
            } else {
                tokio::time::sleep(SETTLE_POLL).await;
            }
        }
        if stop.is_cancelled() {
            // Final count of the written orders.
            report.persisted += self.written(&mut open).await;
        }
        report.settled = open.is_empty();
    }

    /// Pays orders in transactions of limited size.
    async fn pay(&mut self, payers: &[OrderId], report: &mut LoadReport, halt: &CancellationToken) {
        for page in payers.chunks(PAY_PAGE) {
            if halt.is_cancelled() {
                break;
            }
            match self.pay_page(page).await {
                Ok(paid) => report.paid += paid,
                Err(error) => {
                    report.errors += 1;
                    let error = AdmissionError::Rejected(Arc::new(error));
                    report.first_error.get_or_insert_with(|| Message::of(&error));
                    return;
                }
            }
        }
    }

    async fn pay_page(&mut self, page: &[OrderId]) -> Result<u64> {
        let now = self.servers.conn.now().await?;
        let answers = self.servers.store.pay(page, now).await?;
        Ok(answers.iter().filter(|answer| **answer == Payment::Paid).count() as u64)
    }

    /// Removes from `open` what is in SQL. The consumer writes in order, so a page without any hit ends the search,
    /// unless it is the first.
    async fn written(&self, open: &mut Vec<OrderId>) -> u64 {
        let mut found = 0;
        let mut left = Vec::new();
        let mut pages = open.chunks(SETTLE_PAGE);
        for page in pages.by_ref() {
            // Ignored: the wait continues while the database is unreachable.
            let mut there = self.servers.store.existing(page).await.unwrap_or_default();
            there.sort_unstable();
            left.extend(page.iter().filter(|id| there.binary_search(id).is_err()));
            if there.is_empty() && found > 0 {
                break;
            }
            found += there.len() as u64;
        }
        pages.for_each(|page| left.extend_from_slice(page));
        *open = left;
        found
    }
}

/// Counts replies, and makes the report of them.
#[derive(Debug, Default)]
pub struct Tally {
    report: LoadReport,
    latencies: BTreeMap<RequestLabel, Histogram<u64>>,
}

impl Tally {
    /// Counts a reply; `why` is called for the first rejection and the first error.
    pub fn take(&mut self, label: RequestLabel, took: Duration, why: impl FnOnce() -> Message) {
        let latencies = self.latencies.entry(label).or_insert_with(histogram);
        latencies.saturating_record(took.as_micros() as u64);
        let report = &mut self.report;
        report.attempts += 1;
        match label {
            RequestLabel::Rejected => _ = report.first_rejection.get_or_insert_with(why),
            RequestLabel::Error => _ = report.first_error.get_or_insert_with(why),
            _ => {}
        }
    }

    /// Returns the report of all replies, which took this long in total.
    pub fn close(self, took: Duration) -> LoadReport {
        let Self { mut report, latencies } = self;
        let count = |label| latencies.get(&label).map_or(0, Histogram::len);
        report.admitted = count(RequestLabel::Admitted);
        report.duplicate = count(RequestLabel::Duplicate);
        report.sold_out = count(RequestLabel::SoldOut);
        report.rejected = count(RequestLabel::Rejected);
        report.errors = count(RequestLabel::Error);
        report.per_second = report.attempts as f64 / took.as_secs_f64().max(1e-6);
        let mut total = histogram();
        for (label, latencies) in &latencies {
            // All have the same bounds, so every value fits.
            let _ = total.add(latencies);
            let errors = if *label == RequestLabel::Error { latencies.len() } else { 0 };
            report.aggregate.push(AggregateLine::of(*label, latencies, errors, took));
        }
        let line = AggregateLine::of(RequestLabel::Total, &total, report.errors, took);
        report.aggregate.push(line);
        report.latency_us = latency_of(&total);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::VoucherId;

    #[test]
    fn a_seed_fixes_the_order_of_buyers() {
        let plan = LoadTest { seed: 7, ..LoadTest::new(VoucherId(1), 1_000) };
        let arrivals = plan.arrivals();
        assert_eq!(arrivals, plan.arrivals());
        assert_ne!(arrivals, LoadTest { seed: 8, ..plan }.arrivals());
        assert_eq!(arrivals.len(), 1_100);
        let mut users = arrivals;
        users.sort_unstable();
        users.dedup();
        assert_eq!(users.len(), 1_000);
    }

    #[test]
    fn invalid_plans_are_rejected() {
        let fine = LoadTest::new(VoucherId(1), 10);
        assert!(fine.check().is_ok());
        for bad in [
            LoadTest { users: 0, ..fine.clone() },
            LoadTest { users: u64::MAX, ..fine.clone() },
            LoadTest { repeat: -0.1, ..fine.clone() },
            LoadTest { repeat: f64::NAN, ..fine.clone() },
            LoadTest { concurrency: 0, ..fine.clone() },
            LoadTest { rate: Some(0.0), ..fine.clone() },
            LoadTest { rate: Some(1e-300), ..fine.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
