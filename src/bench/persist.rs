//! Persisted orders per second, from the stream to the acknowledged row: the engine's consumer compared with the
//! tutorial's, on the same Redis and database, and with rows that are only inserted. Beside it, entries that a dead node
//! left pending.

use std::time::{Duration, Instant};

use seckill_engine::{EngineError, deployment::Deployment, fault_injection};
use seckill_model::{Label, Millis, OrderEntry, OrderId, UserId, reason};
use seckill_redis::Layout;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    rush::load_test,
    setup::{self, Bench, PREFIX, failed, not_admitted},
    tutorial,
};

/// Number of orders per consumer.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The engine's consumer.
    pub orders: u64,
    /// The tutorial's.
    pub tutorial: u64,
}

/// Results of one consumer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Entries in the stream at the start.
    pub orders: u64,
    /// Rows once every entry was acknowledged.
    pub persisted: u64,
    /// Seconds from the first read to the last acknowledgement.
    pub seconds: f64,
    /// Rows per second.
    pub per_second: f64,
}

impl Figures {
    fn of(orders: u64, persisted: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        Self { orders, persisted, seconds, per_second: persisted as f64 / seconds.max(1e-6) }
    }
}

/// Both results; the keys are a contract of `bench persist --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// COUNT 1, lock, select, update, insert, unlock, acknowledge.
    pub tutorial: Figures,
    /// The engine's consumer.
    pub seckill: Figures,
    /// The same rows in multi-row inserts of the same size, without Redis and without the stock.
    pub inserted: Figures,
    /// The engine's consumer, with entries that were delivered to a node that died.
    pub recovered: Figures,
    /// Rows per second of the engine divided by those of the tutorial.
    pub ratio: f64,
    /// The same, divided by those that were only inserted.
    pub ratio_inserted: f64,
    /// Rows per second from pending entries divided by those from undelivered ones.
    pub ratio_recovered: f64,
    /// Largest transaction of the engine, in entries.
    pub batch: usize,
    /// Redis used by both.
    pub redis: String,
    /// Database used by both.
    pub database: String,
}

/// Measures both consumers of this deployment in sequence, the baseline first, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, an order was lost or duplicated, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    let keys =
        Layout::new(1, deployment.redis.is_cluster()).prefixed(&format!("{PREFIX}:tutorial"));
    let baseline = vec![keys.home().orders(), keys.home().watermark()];
    setup::run(deployment, baseline, stop, async |bench| {
        // The baseline goes first, with the smallest tables.
        let tutorial = of_tutorial(bench, &keys, plan.tutorial).await?;
        let inserted = only_inserted(bench, plan.orders).await?;
        let seckill = of_seckill(bench, plan.orders, false).await?;
        let recovered = of_seckill(bench, plan.orders, true).await?;
        let ratio = |a: Figures, b: Figures| a.per_second / b.per_second.max(f64::MIN_POSITIVE);
        Ok(Report {
            ratio: ratio(seckill, tutorial),
            ratio_inserted: ratio(seckill, inserted),
            ratio_recovered: ratio(recovered, seckill),
            tutorial,
            seckill,
            inserted,
            recovered,
            batch: bench.deployment.settings.consumer_batch,
            redis: bench.deployment.redis.address().to_owned(),
            database: bench.deployment.store.describe(),
        })
    })
    .await
}

async fn of_tutorial(
    bench: &mut Bench,
    keys: &Layout,
    orders: u64,
) -> Result<Figures, EngineError> {
    let voucher = bench.sql_sale(Label("bench-tutorial-sale"), orders).await?;
    let Deployment { redis, store, .. } = &bench.deployment;
    tutorial::fill(&mut redis.connection(), keys, voucher, orders).await?;
    let took = tutorial::drain(redis, keys, store, orders).await?;
    let ledger = store.ledger(voucher).await?;
    if (ledger.live, ledger.stock, ledger.doubled) != (orders, 0, 0) {
        let (written, left) = (ledger.live, ledger.stock);
        return Err(failed(reason!("bench-tutorial-wrong", orders, written, left)));
    }
    Ok(Figures::of(orders, ledger.live, took))
}

async fn only_inserted(bench: &mut Bench, orders: u64) -> Result<Figures, EngineError> {
    let voucher = bench.sql_sale(Label("bench-seckill-sale"), orders).await?;
    let buyers = load_test(voucher, orders).arrivals();
    let second = Millis::now().0 / 1_000;
    let mut entries = Vec::new();
    for (sequence, user) in (0..).zip(buyers) {
        let id = OrderId::new(second, sequence).map_err(failed)?;
        entries.push(OrderEntry::new(id, UserId(user.into()), voucher));
    }
    let Deployment { store, settings, .. } = &bench.deployment;
    let begun = Instant::now();
    for batch in entries.chunks(settings.consumer_batch) {
        if !store.insert_baseline(batch, Millis::now()).await? {
            return Err(failed(reason!("bench-inserted-exist")));
        }
    }
    let took = begun.elapsed();
    Ok(Figures::of(orders, store.ledger(voucher).await?.live, took))
}

/// Measures the consumer; `pending` entries were delivered to a node that is dead.
async fn of_seckill(bench: &mut Bench, orders: u64, pending: bool) -> Result<Figures, EngineError> {
    let voucher = bench.sale(Label("bench-seckill-sale"), orders).await?;
    // Fills the stream. Then this node is stopped, so that the consumer is measured alone.
    let node = bench.node();
    let report = node.load(&node.admission(), &load_test(voucher, orders)).await?;
    node.stop().await;
    if report.admitted != orders {
        return Err(not_admitted(orders, report.admitted, &report));
    }

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
    Ok(Figures::of(orders, audit.persisted, took))
}
