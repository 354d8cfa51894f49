//! Persisted orders per second, from the stream to the acknowledged row: the engine's consumer compared with the
//! tutorial's, on the same Redis and database.
//!
//! The servers may be in use: the benchmark refuses to disturb a deployment, and always removes what it created.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{ExistenceCheck, SetOptions, cmd};
use seckill_engine::{
    EngineError, LoadTest,
    admission::Admission,
    commands::load_generator::LoadGenerator,
    consumer::{Consumer, Hold},
    context::NodeContext,
    deployment::Deployment,
    ledger,
    locks::{Locks, Timing},
    vouchers::Vouchers,
};
use seckill_model::{Label, Millis, NewSale, Reason, SaleState, VoucherId, reason};
use seckill_redis::{Connection, Layout, nodes::Nodes, stream, stream_stats};
use seckill_store::SharedStore;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::tutorial;

/// Prefix of every key, separate from those of a deployment.
const PREFIX: &str = "seckill-bench";
const TUTORIAL_PREFIX: &str = "seckill-bench:tutorial";
/// Lock that prevents concurrent benchmarks.
const CLAIM: &str = "bench";
const NODE: &str = "bench";
/// Polling interval of the stream.
const POLL: Duration = Duration::from_millis(2);
/// Timeout without progress of the consumer.
const NO_PROGRESS: Duration = Duration::from_secs(30);
/// Timeout of the cleanup.
const END_WITHIN: Duration = Duration::from_secs(5);

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
    let keys = Layout::new(1, deployment.redis.is_cluster()).prefixed(PREFIX);
    let deployment = Deployment { keys, ..deployment };
    let mut conn = deployment.redis.connection();
    refuse_deployment(&deployment, &mut conn).await?;
    let mut bench = Bench { deployment, made: Vec::new(), tasks: TaskTracker::new() };
    let end = CancellationToken::new();
    let measured = stop.run_until_cancelled(bench.measure(plan, &end)).await;
    // A running consumer would recreate its stream.
    end.cancel();
    bench.tasks.close();
    let ended = tokio::time::timeout(END_WITHIN, bench.tasks.wait()).await;
    if ended.is_err() {
        tracing::warn!("a task of the benchmark did not end in time");
    }
    let gone =
        conn.query::<u64>(cmd("UNLINK").arg(names(&bench.deployment.keys, &bench.made))).await;
    let archived = archive(&bench.deployment.store, &bench.made).await;
    let report = measured.unwrap_or(Err(failed(reason!("bench-stopped"))))?;
    gone?;
    archived?;
    Ok(report)
}

/// Checks the servers before anything is created, and claims the prefix.
async fn refuse_deployment(
    deployment: &Deployment,
    conn: &mut Connection,
) -> Result<(), EngineError> {
    let Deployment { redis, store, keys, settings } = deployment;
    if let Some(sale) = store.sales().await?.first() {
        let why = reason!("bench-database-in-use", sale = sale.voucher_id);
        return Err(EngineError::Rejected(why));
    }
    let nodes = Nodes::read(conn, &Layout::new(1, redis.is_cluster()).home()).await?;
    if let Some(node) = nodes.alive(settings.node_dead_ms).next() {
        return Err(EngineError::Rejected(reason!("bench-redis-in-use", node)));
    }
    let found: u64 = conn.query(cmd("EXISTS").arg(names(keys, &[]))).await?;
    if found == 0 {
        let first = SetOptions::default().conditional_set(ExistenceCheck::NX);
        let claim = redis::Cmd::set_options(keys.plain_lock(CLAIM), NODE, first);
        if conn.query::<Option<String>>(&claim).await?.is_some() {
            return Ok(());
        }
    }
    Err(EngineError::Rejected(reason!("bench-other-bench", keys = format!("{PREFIX}:*"))))
}

/// Every key of a benchmark. All of them share a slot.
fn names(keys: &Layout, sales: &[VoucherId]) -> Vec<String> {
    let (of, plain) = (keys.home(), tutorial_keys(keys).home());
    let mut names =
        vec![of.orders(), of.dead(), of.nodes(), of.instances(), of.reconciled(), of.watermark()];
    names.extend([plain.orders(), plain.watermark(), keys.plain_lock(CLAIM), keys.deployment()]);
    for sale in sales {
        names.extend([keys.sale(*sale), keys.stock(*sale), keys.buyers(*sale), keys.tally(*sale)]);
    }
    names
}

fn tutorial_keys(keys: &Layout) -> Layout {
    keys.clone().prefixed(TUTORIAL_PREFIX)
}

async fn archive(store: &SharedStore, sales: &[VoucherId]) -> Result<(), EngineError> {
    for sale in sales {
        store.set_state(*sale, SaleState::Ended, None).await?;
        store.set_state(*sale, SaleState::Archived, None).await?;
    }
    Ok(())
}

fn failed(why: Reason) -> EngineError {
    EngineError::Failed(why)
}

struct Bench {
    deployment: Deployment,
    /// Sales to be archived.
    made: Vec<VoucherId>,
    /// Tasks to be stopped.
    tasks: TaskTracker,
}

impl Bench {
    async fn measure(
        &mut self,
        plan: Plan,
        end: &CancellationToken,
    ) -> Result<Report, EngineError> {
        // The baseline goes first, with the smallest tables.
        let tutorial = self.tutorial(plan.tutorial).await?;
        let seckill = self.seckill(plan.orders, end).await?;
        Ok(Report {
            ratio: seckill.per_second / tutorial.per_second.max(f64::MIN_POSITIVE),
            tutorial,
            seckill,
            batch: self.deployment.settings.consumer_batch,
            redis: self.deployment.redis.address().to_owned(),
            database: self.deployment.store.describe(),
        })
    }

    async fn tutorial(&mut self, orders: u64) -> Result<Figures, EngineError> {
        let Deployment { redis, store, keys, .. } = &self.deployment;
        let now = Millis::now();
        let sale = NewSale::checked(&Label("bench-tutorial-sale"), orders, None, None, now);
        let sale = sale.map_err(EngineError::Rejected)?;
        let voucher = store.create_sale(&sale, now).await?.voucher_id;
        self.made.push(voucher);
        let keys = tutorial_keys(keys);
        tutorial::fill(&mut redis.connection(), &keys, voucher, orders).await?;
        let took = tutorial::drain(redis, &keys, store, orders).await?;
        let ledger = store.ledger(voucher).await?;
        if (ledger.live, ledger.stock, ledger.doubled) != (orders, 0, 0) {
            let (written, left) = (ledger.live, ledger.stock);
            return Err(failed(reason!("bench-tutorial-wrong", orders, written, left)));
        }
        Ok(Figures::of(orders, ledger.live, took))
    }

    async fn seckill(
        &mut self,
        orders: u64,
        end: &CancellationToken,
    ) -> Result<Figures, EngineError> {
        let Deployment { redis, keys, .. } = &self.deployment;
        let now = Millis::now();
        let sale = NewSale::checked(&Label("bench-seckill-sale"), orders, None, None, now);
        let sale = sale.map_err(EngineError::Rejected)?;
        let mut servers = self.deployment.servers();
        let voucher = Vouchers { servers: &mut servers }.create(&sale).await?.voucher_id;
        self.made.push(voucher);
        stream::ensure_group(&mut servers.conn, &keys.home()).await?;
        let (locks, watchdog) = Locks::new(redis, keys.clone(), NODE, Timing::default());
        let context = NodeContext::new(NODE, &self.deployment, &locks);
        self.admit(&context, voucher, orders, end).await?;

        self.tasks.spawn(watchdog.run(end.clone()));
        let (wanted, parked) = (watch::channel(false).1, watch::channel(false).0);
        let consumer = Consumer::new(&context, keys.home(), Hold { wanted, parked }, end.clone());
        let begun = Instant::now();
        self.tasks.spawn(consumer.run());
        let took = drained(&mut servers.conn, keys, begun).await?;

        let audit = ledger::audit(&mut servers, Some(voucher)).await?;
        let Some(line) = audit.sales.first() else {
            return Err(failed(reason!("bench-sale-gone")));
        };
        if let Some(finding) = line.findings.first() {
            return Err(failed(reason!("error-audit-failed", finding = finding.reason())));
        }
        if line.persisted != orders {
            let (written, dead) = (line.persisted, line.dead);
            return Err(failed(reason!("bench-seckill-wrong", orders, written, dead)));
        }
        Ok(Figures::of(orders, line.persisted, took))
    }

    /// Fills the stream through admission.
    async fn admit(
        &self,
        context: &NodeContext,
        voucher: VoucherId,
        orders: u64,
        end: &CancellationToken,
    ) -> Result<(), EngineError> {
        let (admission, workers) = Admission::new(context);
        let (close, admitting) = (end.child_token(), TaskTracker::new());
        for worker in workers {
            self.tasks.spawn(admitting.track_future(worker.run(close.clone())));
        }
        let servers = self.deployment.servers();
        let meters = Arc::clone(&context.meters);
        let generator = LoadGenerator { admission, servers, meters };
        let plan = LoadTest { repeat: 0.0, settle: false, ..LoadTest::new(voucher, orders) };
        let report = generator.run(&plan, &close).await?;
        // Stopped, so that the consumer is measured alone.
        close.cancel();
        admitting.close();
        admitting.wait().await;
        if report.admitted != orders {
            let rejection = report.first_rejection.map(|it| it.to_string());
            let why = report.first_error.map(|it| it.to_string()).or(rejection).unwrap_or_default();
            let admitted = report.admitted;
            return Err(failed(reason!("bench-not-admitted", orders, admitted, why)));
        }
        Ok(())
    }
}

/// Waits until every entry is delivered and acknowledged; returns the duration.
async fn drained(
    conn: &mut Connection,
    keys: &Layout,
    begun: Instant,
) -> Result<Duration, EngineError> {
    let (mut left, mut moved) = (None, begun);
    loop {
        let facts = stream_stats::read_stats(conn, keys, &[]).await?.stream;
        let took = begun.elapsed();
        let now = facts.lag.map(|lag| lag + facts.pending);
        if now == Some(0) {
            return Ok(took);
        }
        if now != left {
            (left, moved) = (now, Instant::now());
        } else if moved.elapsed() > NO_PROGRESS {
            let seconds = NO_PROGRESS.as_secs();
            return Err(failed(reason!("bench-no-progress", seconds)));
        }
        tokio::time::sleep(POLL).await;
    }
}
