//! Latency of admission at an offered load, while the consumer writes the orders, and of one buyer at a time. The engine
//! compared with the script of the tutorials, in turns on the same Redis.
//!
//! A latency begins when the request is sent, which is within a millisecond of when it is due. If a side sends later, it
//! replies to fewer requests per second than offered, which the report shows.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use seckill_engine::{
    EngineError, LoadReport, LoadTest,
    deployment::Deployment,
    error::{MAX_CONCURRENCY, MAX_USERS},
    telemetry::{
        meters::{histogram, latency_of},
        snapshot::Latency,
    },
};
use seckill_model::{Label, UserId, VoucherId};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    rush::{buy, check, load_test, under_load},
    script::{self, Script},
    setup::Bench,
    spread::Spread,
};

/// Offered requests per second, beside the shares of capacity.
const RATES: [f64; 2] = [1_000.0, 20_000.0];
const SHARES: [f64; 2] = [0.5, 0.9];

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Buyers in a measurement of the capacity.
    pub buyers: u64,
    /// Duration of each load.
    pub each: Duration,
    /// Buyers who ask one at a time.
    pub lone: u64,
    /// Rounds; the one before them that does not count measures the capacity only.
    pub rounds: u64,
}

/// Results; the keys are a contract of `bench latency --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Orders per second that the engine admits and writes: from the first request until all are in SQL.
    pub capacity: Spread,
    /// At each offered load.
    pub loads: Vec<Load>,
    /// One buyer at a time.
    pub lone: Lone,
    /// Redis used by both.
    pub redis: String,
    /// Database used by the engine.
    pub database: String,
}

/// Both sides at one offered load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Offered requests per second.
    pub offered: f64,
    /// Share of the capacity; `None` for a load that does not depend on it.
    pub share: Option<f64>,
    /// The engine, with the consumer.
    pub seckill: Latencies,
    /// The script, with nothing written to SQL. `None` if a call of any round got no reply in time.
    pub tutorial: Option<Latencies>,
}

/// One buyer at a time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lone {
    /// Buyers of each side in each round.
    pub buyers: u64,
    /// The engine, without the consumer.
    pub seckill: Latencies,
    /// The engine, with the consumer.
    pub seckill_persisting: Latencies,
    /// A call of the script.
    pub tutorial: Latencies,
    /// The engine's median without the consumer divided by that of the script.
    pub ratio_p50: f64,
    /// The same of the 99th percentiles.
    pub ratio_p99: f64,
}

/// Latencies of one side over the rounds, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latencies {
    /// Replies per second.
    pub per_second: Spread,
    /// Requests refused because the node was busy.
    pub busy: Spread,
    /// Median.
    pub p50_us: Spread,
    /// 99th percentile.
    pub p99_us: Spread,
    /// 99.9th percentile.
    pub p999_us: Spread,
    /// Largest.
    pub max_us: Spread,
}

/// One side in one round.
#[derive(Clone, Copy)]
struct Sample {
    latency: Latency,
    per_second: f64,
    busy: u64,
}

impl Sample {
    fn of(report: &LoadReport) -> Self {
        let (latency, per_second) = (report.latency_us, report.per_second);
        Self { latency, per_second, busy: report.rejected }
    }
}

impl Latencies {
    fn of(rounds: &[Sample]) -> Self {
        let spread = |of: fn(&Sample) -> f64| Spread::of(rounds.iter().map(of).collect());
        Self {
            per_second: spread(|it| it.per_second),
            busy: spread(|it| it.busy as f64),
            p50_us: spread(|it| it.latency.p50 as f64),
            p99_us: spread(|it| it.latency.p99 as f64),
            p999_us: spread(|it| it.latency.p999 as f64),
            max_us: spread(|it| it.latency.max as f64),
        }
    }
}

/// Measures both sides in turns, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, a reply or a count was wrong, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    script::run_beside(deployment, stop, async |bench| measure(bench, plan).await).await
}

async fn measure(bench: &mut Bench, plan: Plan) -> Result<Report, EngineError> {
    let script = Script::load(&bench.deployment.redis).await?;
    let capacity = capacity(bench, plan.buyers, plan.rounds).await?.written;
    let fixed = RATES.map(|rate| (rate, None));
    let loads = fixed.into_iter().chain(SHARES.map(|it| (capacity.median * it, Some(it))));
    let mut loads: Vec<_> = loads.map(|load| (load, Vec::new(), Vec::new())).collect();
    let [mut alone, mut persisting, mut tutorial] = [const { Vec::new() }; 3];
    for round in 0..plan.rounds {
        for ((rate, _), seckill, tutorial) in &mut loads {
            let requests = (*rate * plan.each.as_secs_f64()) as u64;
            let requests = requests.clamp(1, MAX_USERS);
            let all = LoadTest {
                rate: Some(*rate),
                // A request never waits for the reply to another one.
                concurrency: MAX_CONCURRENCY,
                ..load_test(VoucherId(0), requests)
            };
            for engine in [round % 2 == 0, round % 2 == 1] {
                if engine {
                    seckill.push(Sample::of(&under_load(bench, all.clone()).await?.0));
                } else {
                    let offered = script.offer(&all.arrivals(), *rate).await?;
                    tutorial.push(offered.map(|(took, per_second)| Sample {
                        latency: latency_of(&took),
                        per_second,
                        busy: 0,
                    }));
                }
            }
        }
        alone.push(one_by_one(bench, plan.lone, false).await?);
        let began = Instant::now();
        let users: Vec<u32> = (1..=plan.lone as u32).collect();
        script.open(plan.lone).await?;
        let took = script.one_by_one(&users).await?;
        tutorial.push(one_after_the_other(&took, began));
        script.close(plan.lone, plan.lone..=plan.lone).await?;
        persisting.push(one_by_one(bench, plan.lone, true).await?);
    }
    let loads = loads.into_iter().map(|((offered, share), seckill, tutorial)| {
        let tutorial: Option<Vec<Sample>> = tutorial.into_iter().collect();
        let tutorial = tutorial.map(|rounds| Latencies::of(&rounds));
        Load { offered, share, seckill: Latencies::of(&seckill), tutorial }
    });
    let [alone, persisting, tutorial] =
        [alone, persisting, tutorial].map(|rounds| Latencies::of(&rounds));
    Ok(Report {
        rounds: plan.rounds,
        capacity,
        loads: loads.collect(),
        lone: Lone {
            buyers: plan.lone,
            ratio_p50: alone.p50_us.ratio(&tutorial.p50_us),
            ratio_p99: alone.p99_us.ratio(&tutorial.p99_us),
            seckill: alone,
            seckill_persisting: persisting,
            tutorial,
        },
        redis: bench.deployment.redis.address().to_owned(),
        database: bench.deployment.store.describe(),
    })
}

/// What the engine does in a second while its consumer writes the orders.
pub(super) struct Capacity {
    /// Buyers admitted. A burst: some of the orders are written after its last request.
    pub admitted: Spread,
    /// Orders written: from the first request until all are in SQL. A higher load cannot be sustained.
    pub written: Spread,
}

/// Measures it in so many rounds after one that does not count.
pub(super) async fn capacity(
    bench: &mut Bench,
    buyers: u64,
    rounds: u64,
) -> Result<Capacity, EngineError> {
    let (mut admitted, mut written) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (report, rows) = under_load(bench, load_test(VoucherId(0), buyers)).await?;
        if round > 0 {
            admitted.push(report.per_second);
            written.push(rows);
        }
    }
    Ok(Capacity { admitted: Spread::of(admitted), written: Spread::of(written) })
}

/// Lets buyers ask the engine one at a time.
async fn one_by_one(
    bench: &mut Bench,
    buyers: u64,
    with_consumer: bool,
) -> Result<Sample, EngineError> {
    let voucher = bench.sale(Label("bench-rush-sale"), buyers + 1).await?;
    let node = bench.node();
    if with_consumer {
        node.consume();
    }
    let admission = node.admission();
    buy(&admission, voucher, 1..=1).await?;
    let (mut latencies, began) = (histogram(), Instant::now());
    for user in 1..=buyers {
        let asked = Instant::now();
        // Whether all were admitted is checked afterwards.
        admission.request(voucher, UserId(user)).answer().await;
        latencies.saturating_record(asked.elapsed().as_micros() as u64);
    }
    let sample = one_after_the_other(&latencies, began);
    if with_consumer {
        bench.drained(Instant::now()).await?;
    }
    node.stop().await;
    check(bench, voucher, buyers + 1, if with_consumer { buyers + 1 } else { 0 }).await?;
    bench.clear().await?;
    Ok(sample)
}

fn one_after_the_other(latencies: &Histogram<u64>, began: Instant) -> Sample {
    let per_second = latencies.len() as f64 / began.elapsed().as_secs_f64().max(1e-6);
    Sample { latency: latency_of(latencies), per_second, busy: 0 }
}
