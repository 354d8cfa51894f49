//! Requests per second: admission, alone and with the consumer, and refusals of a sold-out sale. The engine compared
//! with the script of the tutorials, in turns on the same Redis.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_engine::{
    EngineError, LoadTest, admission::Admission, deployment::Deployment, error::MAX_USERS,
};
use seckill_model::{Label, Message, Outcome, UserId, VoucherId, reason};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use crate::spread::Spread;
use crate::{
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
    let (mut seckill, mut persisted) = (Vec::new(), Vec::new());
    let (mut tutorial, mut redis_benchmark) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let mut sides = [Side::Seckill, Side::Tutorial, Side::RedisBenchmark];
        sides.rotate_left(round as usize % 3);
        for side in sides {
            match side {
                Side::Seckill => {
                    let (replies, rows) = of_seckill(bench, plan).await?;
                    seckill.push(replies);
                    persisted.extend(rows);
                }
                Side::Tutorial => {
                    tutorial.push(of_tutorial(&script, plan, &users, connections).await?);
                }
                Side::RedisBenchmark => {
                    redis_benchmark.extend(of_redis_benchmark(&script, plan).await?);
                }
            }
        }
        if round == 0 {
            for warm_up in [&mut seckill, &mut persisted, &mut tutorial, &mut redis_benchmark] {
                warm_up.clear();
            }
        }
    }
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

/// Lets so many users buy who are not among those of a load test. The first one waits until the node is ready.
pub(super) async fn buy(
    admission: &Admission,
    voucher: VoucherId,
    pieces: u64,
) -> Result<(), EngineError> {
    for number in 1..=pieces {
        let reply = admission.request(voucher, UserId(MAX_USERS + number)).answer().await;
        if !matches!(reply.outcome, Ok(Outcome::Admitted { .. })) {
            let why = match reply.outcome {
                Ok(outcome) => Message::of(&outcome).to_string(),
                Err(error) => error.to_string(),
            };
            let (orders, admitted) = (pieces, number - 1);
            return Err(failed(reason!("bench-not-admitted", orders, admitted, why)));
        }
    }
    Ok(())
}

/// Returns the replies per second, and the rows per second with the consumer.
async fn of_seckill(bench: &mut Bench, plan: Plan) -> Result<(f64, Option<f64>), EngineError> {
    let Plan { work, requests, .. } = plan;
    let before = if work == Work::SoldOut { SOLD } else { 1 };
    let stock = if work == Work::SoldOut { SOLD } else { requests + before };
    let voucher = bench.sale(Label("bench-rush-sale"), stock).await?;
    let (node, with_consumer) = (bench.node(), work == Work::EndToEnd);
    if with_consumer {
        node.consume();
    }
    let admission = node.admission();
    buy(&admission, voucher, before).await?;
    let report = node.load(&admission, &load_test(voucher, requests)).await?;
    let ended = Instant::now();
    let expected = if work == Work::SoldOut { report.sold_out } else { report.admitted };
    if expected != requests {
        return Err(not_admitted(requests, expected, &report));
    }
    let rows = if with_consumer {
        let took = requests as f64 / report.per_second + bench.drained(ended).await?.as_secs_f64();
        Some(requests as f64 / took)
    } else {
        None
    };
    node.stop().await;
    check(bench, voucher, stock, if with_consumer { stock } else { 0 }).await?;
    bench.clear().await?;
    Ok((report.per_second, rows))
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
