//! Persisted orders per second, from the stream to the acknowledged row: the engine's consumer compared with the
//! tutorial's, and with rows that are only inserted, in turns on the same Redis and database.

use std::time::{Duration, Instant};

use seckill_engine::{EngineError, deployment::Deployment, fault_injection, orders::ids::IdWorker};
use seckill_model::{Label, Millis, OrderEntry, ShardId, UserId, VoucherId, reason};
use seckill_redis::Layout;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    rounds::in_turns,
    rush::load_test,
    setup::{self, Bench, failed},
    spread::Spread,
    tutorial,
};

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Orders of the engine's consumer in each round.
    pub orders: u64,
    /// Orders of the tutorial's.
    pub tutorial: u64,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Results of one side.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Orders in each round.
    pub orders: u64,
    /// Rows at the end of each round.
    pub persisted: u64,
    /// Seconds from the first read to the last acknowledgement, median of the rounds.
    pub seconds: f64,
    /// Rows per second, median of the rounds.
    pub per_second: f64,
    /// Rows per second over the rounds.
    pub spread: Spread,
}

impl Figures {
    /// Figures of rounds in which all of the orders were written.
    pub(super) fn of(orders: u64, rounds: &[Duration]) -> Self {
        let seconds = Spread::of(rounds.iter().map(Duration::as_secs_f64).collect()).median;
        let spread = rates(orders, rounds);
        Self { orders, persisted: orders, seconds, per_second: spread.median, spread }
    }
}

/// Orders per second over the rounds.
pub(super) fn rates(orders: u64, rounds: &[Duration]) -> Spread {
    Spread::of(rounds.iter().map(|took| orders as f64 / took.as_secs_f64().max(1e-6)).collect())
}

/// All results; the keys are a contract of `bench persist --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// COUNT 1, lock, select, update, insert, unlock, acknowledge.
    pub tutorial: Figures,
    /// The engine's consumer.
    pub seckill: Figures,
    /// The same rows in multi-row inserts of the same size, without Redis and without the stock.
    pub inserted: Figures,
    /// Rows per second of the engine divided by those of the tutorial.
    pub ratio: f64,
    /// The same, divided by those that were only inserted.
    pub ratio_inserted: f64,
    /// Largest transaction of the engine, in entries.
    pub batch: usize,
    /// Redis used by both.
    pub redis: String,
    /// Database used by all.
    pub database: String,
}

#[derive(Clone, Copy)]
enum Side {
    Tutorial,
    Inserted,
    Seckill,
}

/// Measures the sides in turns, and cleans up.
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
        let sides = [Side::Tutorial, Side::Inserted, Side::Seckill];
        let measure = async |side| match side {
            Side::Tutorial => of_tutorial(bench, &keys, plan.tutorial, false).await,
            Side::Inserted => only_inserted(bench, plan.orders).await,
            Side::Seckill => of_seckill(bench, plan.orders, false).await,
        };
        let [tutorial, inserted, seckill] = in_turns(plan.rounds, sides, measure).await?;
        let tutorial = Figures::of(plan.tutorial, &tutorial);
        let [inserted, seckill] = [inserted, seckill].map(|it| Figures::of(plan.orders, &it));
        Ok(Report {
            rounds: plan.rounds,
            ratio: seckill.spread.ratio(&tutorial.spread),
            ratio_inserted: seckill.spread.ratio(&inserted.spread),
            tutorial,
            seckill,
            inserted,
            batch: bench.deployment.settings.consumer_batch,
            redis: bench.deployment.redis.address().to_owned(),
            database: bench.deployment.store.describe(),
        })
    })
    .await
}

/// Measures the tutorial's consumer; with `pending`, the loop that it runs for entries that were delivered before.
pub(super) async fn of_tutorial(
    bench: &mut Bench,
    keys: &Layout,
    orders: u64,
    pending: bool,
) -> Result<Duration, EngineError> {
    let voucher = bench.sql_sale(Label("bench-tutorial-sale"), orders).await?;
    let Deployment { redis, store, .. } = &bench.deployment;
    tutorial::fill(&mut redis.connection(), keys, voucher, orders).await?;
    let took = tutorial::drain(redis, keys, store, orders, pending).await?;
    let ledger = store.ledger(ShardId::only(voucher)).await?;
    if (ledger.live, ledger.stock, ledger.doubled) != (orders, 0, 0) {
        let (written, left) = (ledger.live, ledger.stock);
        return Err(failed(reason!("bench-tutorial-wrong", orders, written, left)));
    }
    bench.clear().await?;
    Ok(took)
}

/// Inserts rows into a new sale.
pub(super) async fn only_inserted(bench: &mut Bench, orders: u64) -> Result<Duration, EngineError> {
    let voucher = bench.sql_sale(Label("bench-inserted-sale"), orders).await?;
    let took = insert(bench, voucher, &load_test(voucher, orders).arrivals()).await?;
    let written = bench.deployment.store.ledger(ShardId::only(voucher)).await?.live;
    if written != orders {
        return Err(failed(reason!("bench-inserted-wrong", orders, written)));
    }
    bench.clear().await?;
    Ok(took)
}

/// Inserts a row for each buyer, in batches of the size of the consumer's; the order IDs are issued before.
pub(super) async fn insert(
    bench: &Bench,
    voucher: VoucherId,
    buyers: &[u32],
) -> Result<Duration, EngineError> {
    let Deployment { redis, store, settings, keys } = &bench.deployment;
    let ids = IdWorker::new(keys.home()).issue(&mut redis.connection(), buyers.len()).await?;
    let orders = buyers.iter().zip(ids);
    let orders: Vec<_> =
        orders.map(|(user, id)| OrderEntry::new(id, UserId((*user).into()), voucher)).collect();
    let begun = Instant::now();
    for batch in orders.chunks(settings.consumer_batch) {
        if !store.insert_baseline(batch, Millis::now()).await? {
            return Err(failed(reason!("bench-inserted-exist")));
        }
    }
    Ok(begun.elapsed())
}

/// Measures the engine's consumer; `pending` entries were delivered to a node that is dead.
pub(super) async fn of_seckill(
    bench: &mut Bench,
    orders: u64,
    pending: bool,
) -> Result<Duration, EngineError> {
    let voucher = bench.sale(Label("bench-seckill-sale"), orders).await?;
    // Fills the stream. Then this node is stopped, so that the consumer is measured alone.
    let node = bench.node();
    node.admit_all(&load_test(voucher, orders)).await?;
    node.stop().await;

    let claim_idle_ms = bench.deployment.settings.claim_idle_ms;
    if pending {
        let Deployment { redis, keys, settings, .. } = &mut bench.deployment;
        let (all, dead_ms) = (orders as usize, settings.node_dead_ms);
        fault_injection::die_with_batch(redis, keys, "bench-dead", all, dead_ms).await?;
        // The consumer claims them at once.
        settings.claim_idle_ms = 1;
    }
    let node = bench.node();
    let begun = Instant::now();
    node.consume();
    let took = bench.drained(begun).await?;
    node.stop().await;
    bench.deployment.settings.claim_idle_ms = claim_idle_ms;
    let audit = bench.audit(voucher).await?;
    if audit.persisted != orders {
        let (written, dead) = (audit.persisted, audit.dead);
        return Err(failed(reason!("bench-seckill-wrong", orders, written, dead)));
    }
    bench.clear().await?;
    Ok(took)
}
