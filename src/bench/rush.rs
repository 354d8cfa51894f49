//! Requests per second: admission, alone and with the consumer, and refusals of a sold-out sale. The engine compared
//! with the script of the tutorials, in turns on the same Redis.

use std::{
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_engine::{
    EngineError, LoadReport, LoadTest, admission::Admission, deployment::Deployment,
    error::MAX_USERS,
};
use seckill_model::{Label, Message, Outcome, UserId, VoucherId, reason};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use crate::spread::Spread;
use crate::{
    rounds::in_turns,
    script::{self, Script},
    setup::{Bench, failed, not_admitted},
};

/// Stock of the sale that is sold out before the measurement.
const SOLD: u64 = 100;
/// Connections of the script's client that are tried; in each, one pipeline is in flight.
const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A piece for each buyer, without the consumer.
    Admission,
    /// A piece, of which there is none left.
    SoldOut,
    /// A piece for each buyer, while the consumer writes the orders. The script only admits.
    EndToEnd,
}

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is requested.
    pub work: Work,
    /// Requests of each side in each round.
    pub requests: u64,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Requests per second; the keys are a contract of `bench admission`, `soldout` and `endtoend --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Requests of each side in each round.
    pub requests: u64,
    /// Rounds.
    pub rounds: u64,
    /// The engine, in this process.
    pub seckill: Spread,
    /// Orders per second from the first request until all are in SQL.
    pub persisted: Option<Spread>,
    /// The script, called by this process.
    pub tutorial: Spread,
    /// Connections for which that was fastest.
    pub connections: usize,
    /// The script, called by redis-benchmark; `None` if it is not installed, or Redis was given by URL.
    pub redis_benchmark: Option<Spread>,
    /// The engine's median divided by that of the script.
    pub ratio: f64,
    /// The engine's median divided by that of redis-benchmark.
    pub ratio_redis_benchmark: Option<f64>,
    /// Redis used by all.
    pub redis: String,
    /// Database used by the engine.
    pub database: String,
}

#[derive(Clone, Copy)]
enum Side {
    Seckill,
    Tutorial,
    RedisBenchmark,
}

/// Measures the sides in turns, in a different order each round, and cleans up.
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
    let users: Arc<[u32]> = load_test(VoucherId(0), plan.requests).arrivals().into();
    let connections = best_connections(&script, plan, &users).await?;
    let sides = [Side::Seckill, Side::Tutorial, Side::RedisBenchmark];
    let measure = async |side| match side {
        Side::Seckill => of_seckill(bench, plan).await,
        Side::Tutorial => {
            let replies = of_tutorial(&script, plan, &users, connections).await?;
            Ok((Some(replies), None))
        }
        Side::RedisBenchmark => Ok((of_redis_benchmark(&script, plan).await?, None)),
    };
    let figures = in_turns(plan.rounds, sides, measure).await?;
    let persisted = figures.iter().flatten().filter_map(|(_, rows)| *rows).collect();
    let [seckill, tutorial, redis_benchmark] =
        figures.map(|side| side.into_iter().filter_map(|(replies, _)| replies).collect::<Vec<_>>());
    let spread = |of: Vec<f64>| (!of.is_empty()).then(|| Spread::of(of));
    let (seckill, tutorial) = (Spread::of(seckill), Spread::of(tutorial));
    let redis_benchmark = spread(redis_benchmark);
    Ok(Report {
        requests: plan.requests,
        rounds: plan.rounds,
        ratio: seckill.ratio(&tutorial),
        ratio_redis_benchmark: redis_benchmark.map(|it| seckill.ratio(&it)),
        seckill,
        persisted: spread(persisted),
        tutorial,
        connections,
        redis_benchmark,
        redis: bench.deployment.redis.address().to_owned(),
        database: bench.deployment.store.describe(),
    })
}

/// Distinct buyers, always in the same order.
pub(super) fn load_test(voucher: VoucherId, users: u64) -> LoadTest {
    LoadTest { repeat: 0.0, settle: false, ..LoadTest::new(voucher, users) }
}

/// Lets users buy who are not among those of a load test, but have these numbers after them. The first one waits until the
/// node is ready.
pub(super) async fn buy(
    admission: &Admission,
    voucher: VoucherId,
    numbers: RangeInclusive<u64>,
) -> Result<(), EngineError> {
    for number in numbers.clone() {
        let reply = admission.request(voucher, UserId(MAX_USERS + number)).answer().await;
        if !matches!(reply.outcome, Ok(Outcome::Admitted { .. })) {
            let why = match reply.outcome {
                Ok(outcome) => Message::of(&outcome).to_string(),
                Err(error) => error.to_string(),
            };
            let (orders, admitted) =
                (numbers.end() + 1 - numbers.start(), number - numbers.start());
            return Err(failed(reason!("bench-not-admitted", orders, admitted, why)));
        }
    }
    Ok(())
}

/// Replies per second, if they could be measured, and rows per second with the consumer.
type Rates = (Option<f64>, Option<f64>);

async fn of_seckill(bench: &mut Bench, plan: Plan) -> Result<Rates, EngineError> {
    let Plan { work, requests, .. } = plan;
    let load = |voucher| load_test(voucher, requests);
    let wrong = |expected, report: &_| Err(not_admitted(requests, expected, report));
    if work == Work::EndToEnd {
        let (report, rows) = under_load(bench, load(VoucherId(0))).await?;
        if report.admitted != requests {
            return wrong(report.admitted, &report);
        }
        return Ok((Some(report.per_second), Some(rows)));
    }
    let before = if work == Work::SoldOut { SOLD } else { 1 };
    let stock = if work == Work::SoldOut { SOLD } else { requests + before };
    let voucher = bench.sale(Label("bench-rush-sale"), stock).await?;
    let node = bench.node();
    let admission = node.admission();
    buy(&admission, voucher, 1..=before).await?;
    let report = node.load(&admission, &load(voucher)).await?;
    let expected = if work == Work::SoldOut { report.sold_out } else { report.admitted };
    if expected != requests {
        return wrong(expected, &report);
    }
    node.stop().await;
    check(bench, voucher, stock, 0).await?;
    bench.clear().await?;
    Ok((Some(report.per_second), None))
}

/// Runs a load test on a new sale with a piece for each buyer, while the consumer writes the orders. Also returns the
/// orders per second from the first request until all are in SQL.
pub(super) async fn under_load(
    bench: &mut Bench,
    plan: LoadTest,
) -> Result<(LoadReport, f64), EngineError> {
    // One more for the buyer who waits for the node.
    let voucher = bench.sale(Label("bench-rush-sale"), plan.users + 1).await?;
    let node = bench.node();
    node.consume();
    let admission = node.admission();
    buy(&admission, voucher, 1..=1).await?;
    let report = node.load(&admission, &LoadTest { voucher, ..plan }).await?;
    let ended = Instant::now();
    // Above its capacity, the node refuses buyers as busy.
    if report.admitted + report.rejected != report.attempts {
        return Err(not_admitted(report.attempts, report.admitted, &report));
    }
    let took = report.attempts as f64 / report.per_second;
    let took = took + bench.drained(ended).await?.as_secs_f64();
    node.stop().await;
    check(bench, voucher, report.admitted + 1, report.admitted + 1).await?;
    bench.clear().await?;
    let rows = report.admitted as f64 / took;
    Ok((report, rows))
}

/// Audits a sale, and compares the counts with those of the replies.
pub(super) async fn check(
    bench: &Bench,
    voucher: VoucherId,
    admitted: u64,
    persisted: u64,
) -> Result<(), EngineError> {
    let audit = bench.audit(voucher).await?;
    if (audit.admitted, audit.persisted) != (admitted, persisted) {
        let (found, written) = (audit.admitted, audit.persisted);
        return Err(failed(reason!("bench-rush-wrong", admitted, persisted, found, written)));
    }
    Ok(())
}

/// Opens the script's sale; returns the number of pieces that will be sold, which is its stock.
async fn open(script: &Script, plan: Plan) -> Result<u64, EngineError> {
    if plan.work != Work::SoldOut {
        script.open(plan.requests).await?;
        return Ok(plan.requests);
    }
    script.open(SOLD).await?;
    let first: Arc<[u32]> = (1..=SOLD).map(|number| (MAX_USERS + number) as u32).collect();
    script.run(&first, 0..first.len(), 1).await?;
    Ok(SOLD)
}

/// Tries each number of connections with a part of the users.
async fn best_connections(
    script: &Script,
    plan: Plan,
    users: &Arc<[u32]>,
) -> Result<usize, EngineError> {
    let stock = open(script, plan).await?;
    let part = users.len() / CONNECTIONS.len();
    let mut sold = if plan.work == Work::SoldOut { SOLD } else { 0 };
    let (mut best, mut fastest) = (1, Duration::MAX);
    for (place, connections) in CONNECTIONS.into_iter().enumerate() {
        let range = place * part..(place + 1) * part;
        let ([admitted, ..], took) = script.run(users, range, connections).await?;
        sold += admitted;
        if took < fastest {
            (best, fastest) = (connections, took);
        }
    }
    script.close(stock, sold..=sold).await?;
    Ok(best)
}

async fn of_tutorial(
    script: &Script,
    plan: Plan,
    users: &Arc<[u32]>,
    connections: usize,
) -> Result<f64, EngineError> {
    let (stock, requests) = (open(script, plan).await?, plan.requests);
    let (replies, took) = script.run(users, 0..users.len(), connections).await?;
    let sold_out = plan.work == Work::SoldOut;
    script::expect(replies, if sold_out { [0, requests, 0] } else { [requests, 0, 0] })?;
    script.close(stock, stock..=stock).await?;
    Ok(requests as f64 / took.as_secs_f64().max(1e-6))
}

/// Its users are random, so a few of them ask twice.
async fn of_redis_benchmark(script: &Script, plan: Plan) -> Result<Option<f64>, EngineError> {
    let stock = open(script, plan).await?;
    let figure = script.redis_benchmark(plan.requests).await?;
    let twice = if figure.is_some() { stock / 100 } else { stock };
    script.close(stock, stock - twice..=stock).await?;
    Ok(figure)
}
