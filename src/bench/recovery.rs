//! Recovery: entries that a dead node left pending, written by the engine and by the tutorial's loop for them, in turns on
//! the same Redis and database. Also the time until a node that starts beside many orders admits its first buyer.

use std::time::{Duration, Instant};

use seckill_engine::{EngineError, deployment::Deployment, fault_injection};
use seckill_model::{Label, VoucherId, reason};
use seckill_redis::{HOME, Redis, server::ManagedServer};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    persist::{Figures, of_seckill, of_tutorial},
    rounds::in_turns,
    rush::{buy, check, load_test},
    setup::{self, Bench, Node, failed},
    spread::Spread,
    tutorial,
};

/// Attempts to start Redis again. Each waits for a minute while Redis loads its data.
const RESTART_ATTEMPTS: u32 = 10;
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Entries of the engine in each round.
    pub orders: u64,
    /// Entries of the tutorial.
    pub tutorial: u64,
    /// Orders beside which a node starts.
    pub beside: u64,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Results; the keys are a contract of `bench recovery --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// The engine's consumer, with entries that were delivered to a node that died.
    pub recovered: Figures,
    /// The engine's consumer, with entries that were not delivered.
    pub undelivered: Figures,
    /// The tutorial's loop for pending entries: COUNT 1, lock, select, update, insert, unlock, acknowledge.
    pub tutorial: Figures,
    /// Pending entries per second of the engine divided by those of the tutorial.
    pub ratio: f64,
    /// The same, divided by its undelivered ones.
    pub ratio_undelivered: f64,
    /// First admissions; `None` if Redis was given by URL, because it is not restarted.
    pub start: Option<Start>,
    /// Redis used by both.
    pub redis: String,
    /// Database used by both.
    pub database: String,
}

/// Milliseconds from the start of a node until it has admitted its first buyer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Start {
    /// Orders of the sale, which are in SQL and in Redis.
    pub orders: u64,
    /// Beside a live node.
    pub live_ms: Spread,
    /// As the first node after a restart of Redis. Redis has loaded its data before.
    pub restarted_ms: Spread,
}

#[derive(Clone, Copy)]
enum Side {
    Recovered,
    Undelivered,
    Tutorial,
}

/// Measures the sides in turns, then the first admissions, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, an order was lost or duplicated, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    let keys = tutorial::keys(&deployment.redis);
    setup::run(deployment, tutorial::names(&keys), stop, async |bench| {
        let sides = [Side::Recovered, Side::Undelivered, Side::Tutorial];
        let measure = async |side| match side {
            Side::Recovered => of_seckill(bench, plan.orders, true).await,
            Side::Undelivered => of_seckill(bench, plan.orders, false).await,
            Side::Tutorial => of_tutorial(bench, &keys, plan.tutorial, true).await,
        };
        let [recovered, undelivered, tutorial] = in_turns(plan.rounds, sides, measure).await?;
        let tutorial = Figures::of(plan.tutorial, &tutorial);
        let [recovered, undelivered] =
            [recovered, undelivered].map(|it| Figures::of(plan.orders, &it));
        Ok(Report {
            rounds: plan.rounds,
            ratio: recovered.spread.ratio(&tutorial.spread),
            ratio_undelivered: recovered.spread.ratio(&undelivered.spread),
            recovered,
            undelivered,
            tutorial,
            start: starts(bench, plan).await?,
            redis: bench.deployment.redis.address().to_owned(),
            database: bench.deployment.store.describe(),
        })
    })
    .await
}

/// Measures the first admissions on a server that may be restarted.
async fn starts(bench: &mut Bench, plan: Plan) -> Result<Option<Start>, EngineError> {
    let redis = bench.deployment.redis.clone();
    let Some(server) = redis.managed() else { return Ok(None) };
    let Plan { beside, rounds, .. } = plan;
    // Two buyers in each round.
    let buyers = 2 * (rounds + 1);
    let voucher = bench.sale(Label("bench-rush-sale"), beside + buyers).await?;
    let node = bench.node();
    node.consume();
    node.admit_all(&load_test(voucher, beside)).await?;
    bench.drained(Instant::now()).await?;
    node.stop().await;
    let (mut live, mut restarted) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        restart(&redis, server).await?;
        let begun = Instant::now();
        let first = bench.node();
        // Its orders are in SQL before Redis is killed, which may lose its last second.
        first.consume();
        restarted.push(first_admission(&first, voucher, begun, 2 * round + 1).await?);
        let begun = Instant::now();
        let second = bench.node_named("bench-2");
        live.push(first_admission(&second, voucher, begun, 2 * round + 2).await?);
        bench.drained(Instant::now()).await?;
        second.stop().await;
        first.stop().await;
        if round == 0 {
            restarted.clear();
            live.clear();
        }
    }
    check(bench, voucher, beside + buyers, beside + buyers).await?;
    bench.clear().await?;
    let [live_ms, restarted_ms] = [live, restarted].map(Spread::of);
    Ok(Some(Start { orders: beside, live_ms, restarted_ms }))
}

/// Lets one buyer ask a node that is starting; returns the milliseconds since `begun`.
async fn first_admission(
    node: &Node,
    voucher: VoucherId,
    begun: Instant,
    number: u64,
) -> Result<f64, EngineError> {
    buy(&node.admission(), voucher, number..=number).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Kills the Redis server and starts it again; returns once it has loaded its data.
async fn restart(redis: &Redis, server: &ManagedServer) -> Result<(), EngineError> {
    let before = redis.connection().run_id(HOME).await?;
    fault_injection::kill_redis(redis).await?;
    for _ in 0..RESTART_ATTEMPTS {
        // An error means that it is still loading, or has no room; a next attempt waits again.
        let error = server.ensure().await.err();
        match redis.connection().run_id(HOME).await {
            Ok(run) if run != before => return Ok(()),
            Err(error) if !error.is_away() => return Err(error.into()),
            // The killed server responded once more.
            _ => tracing::warn!(?error, "Redis has not started again yet"),
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
    Err(failed(reason!("bench-no-restart")))
}
