//! Offered loads up to five times the capacity, while the consumer writes the orders: how many buyers are admitted, how
//! long they wait, and how many are refused as busy. The engine compared with the script of the tutorials, in turns on
//! the same Redis.
//!
//! If a load cannot be generated in full, a side replies to fewer requests per second than offered, which the report
//! shows.

use std::time::Duration;

use seckill_engine::{
    EngineError, LoadReport, LoadTest,
    commands::load_generator::RequestLabel,
    deployment::Deployment,
    error::{MAX_CONCURRENCY, MAX_USERS},
};
use seckill_model::VoucherId;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    latency,
    rush::{load_test, under_load},
    script::{self, Script},
    setup::{Bench, not_admitted},
    spread::Spread,
};

/// Offered loads as shares of the capacity.
const SHARES: [f64; 4] = [0.5, 1.0, 2.0, 5.0];

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Buyers in a measurement of the capacity.
    pub buyers: u64,
    /// Duration of each load.
    pub each: Duration,
    /// Rounds; the one before them that does not count measures the capacity only.
    pub rounds: u64,
}

/// Results; the keys are a contract of `bench overload --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Milliseconds that a buyer may be expected to wait: the latency goal.
    pub goal_ms: u64,
    /// Requests per second that the engine admits if each waits for its turn.
    pub capacity: Spread,
    /// At each offered load.
    pub loads: Vec<Load>,
    /// Redis used by both.
    pub redis: String,
    /// Database used by the engine.
    pub database: String,
}

/// Both sides at one offered load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Share of the capacity.
    pub share: f64,
    /// Offered requests per second.
    pub offered: f64,
    /// The engine.
    pub seckill: Side,
    /// The script, which refuses no one; nothing is written to SQL. `None` if a call of any round got no reply in time.
    pub tutorial: Option<Side>,
    /// Buyers admitted by the engine per second, divided by its capacity.
    pub goodput: f64,
}

/// One side over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Side {
    /// Replies per second, whatever the outcome.
    pub per_second: Spread,
    /// Buyers admitted per second.
    pub admitted_per_second: Spread,
    /// Requests refused as busy, in percent.
    pub busy_percent: Spread,
    /// Median latency of the admitted, in microseconds.
    pub p50_us: Spread,
    /// 99th percentile.
    pub p99_us: Spread,
    /// Largest.
    pub max_us: Spread,
}

/// One side in one round.
#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    admitted: f64,
    busy_percent: f64,
    p50: u64,
    p99: u64,
    max: u64,
}

impl Sample {
    fn of(report: &LoadReport) -> Result<Self, EngineError> {
        let admitted = report.aggregate.iter().find(|it| it.label == RequestLabel::Admitted);
        let admitted = admitted.ok_or_else(|| not_admitted(report.attempts, 0, report))?;
        Ok(Self {
            per_second: report.per_second,
            admitted: admitted.per_second,
            busy_percent: 100.0 * report.rejected as f64 / report.attempts.max(1) as f64,
            p50: admitted.median,
            p99: admitted.p99,
            max: admitted.max,
        })
    }
}

impl Side {
    fn of(rounds: &[Sample]) -> Self {
        let spread = |of: fn(&Sample) -> f64| Spread::of(rounds.iter().map(of).collect());
        Self {
            per_second: spread(|it| it.per_second),
            admitted_per_second: spread(|it| it.admitted),
            busy_percent: spread(|it| it.busy_percent),
            p50_us: spread(|it| it.p50 as f64),
            p99_us: spread(|it| it.p99 as f64),
            max_us: spread(|it| it.max as f64),
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
    let capacity = latency::capacity(bench, plan.buyers, plan.rounds).await?.admitted;
    let mut loads = SHARES.map(|share| (share, Vec::new(), Vec::new()));
    for round in 0..plan.rounds {
        for (share, seckill, tutorial) in &mut loads {
            let rate = capacity.median * *share;
            let requests = ((rate * plan.each.as_secs_f64()) as u64).clamp(1, MAX_USERS);
            let all = LoadTest {
                rate: Some(rate),
                concurrency: MAX_CONCURRENCY,
                ..load_test(VoucherId(0), requests)
            };
            for engine in [round % 2 == 0, round % 2 == 1] {
                if engine {
                    seckill.push(Sample::of(&under_load(bench, all.clone()).await?.0)?);
                } else {
                    let sample =
                        script.offer(&all.arrivals(), rate).await?.map(|(took, per_second)| {
                            let at = |quantile| took.value_at_quantile(quantile);
                            let (p50, p99, max) = (at(0.5), at(0.99), took.max());
                            let (admitted, busy_percent) = (per_second, 0.0);
                            Sample { per_second, admitted, busy_percent, p50, p99, max }
                        });
                    tutorial.push(sample);
                }
            }
        }
    }
    let loads = loads.map(|(share, seckill, tutorial)| {
        let tutorial: Option<Vec<Sample>> = tutorial.into_iter().collect();
        let (seckill, tutorial) = (Side::of(&seckill), tutorial.map(|rounds| Side::of(&rounds)));
        let goodput = seckill.admitted_per_second.ratio(&capacity);
        Load { share, offered: capacity.median * share, seckill, tutorial, goodput }
    });
    Ok(Report {
        rounds: plan.rounds,
        goal_ms: bench.deployment.settings.queue_wait_ms,
        capacity,
        loads: loads.into(),
        redis: bench.deployment.redis.address().to_owned(),
        database: bench.deployment.store.describe(),
    })
}
