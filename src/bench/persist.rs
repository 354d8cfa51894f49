//! Persisted orders per second, from the stream to the acknowledged row: the engine's consumer compared with the
//! tutorial's, on the same Redis and database.

use std::time::{Duration, Instant};

use seckill_engine::{EngineError, LoadTest, deployment::Deployment};
use seckill_model::{Label, reason};
use seckill_redis::Layout;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
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
    /// Rows per second of the engine divided by those of the tutorial.
    pub ratio: f64,
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
        let seckill = of_seckill(bench, plan.orders).await?;
        Ok(Report {
            ratio: seckill.per_second / tutorial.per_second.max(f64::MIN_POSITIVE),
            tutorial,
            seckill,
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

async fn of_seckill(bench: &mut Bench, orders: u64) -> Result<Figures, EngineError> {
    let voucher = bench.sale(Label("bench-seckill-sale"), orders).await?;
    // Fills the stream. Then this node is stopped, so that the consumer is measured alone.
    let node = bench.node();
    let plan = LoadTest { repeat: 0.0, settle: false, ..LoadTest::new(voucher, orders) };
    let report = node.load(&node.admission(), &plan).await?;
    node.stop().await;
    if report.admitted != orders {
        return Err(not_admitted(orders, report.admitted, &report));
    }

    let node = bench.node();
    let begun = Instant::now();
    node.consume();
    let took = bench.drained(begun).await?;
    let audit = bench.audit(voucher).await?;
    if audit.persisted != orders {
        let (written, dead) = (audit.persisted, audit.dead);
        return Err(failed(reason!("bench-seckill-wrong", orders, written, dead)));
    }
    Ok(Figures::of(orders, audit.persisted, took))
}
