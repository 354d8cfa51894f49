//! What the benchmarks of admission and persistence share: the claim on the servers, a node, and the cleanup.
//!
//! The servers may be in use: a benchmark refuses to disturb a deployment, and always removes what it created.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{ExistenceCheck, SetOptions, cmd};
use seckill_engine::{
    EngineError, LoadReport, LoadTest,
    admission::{Admission, Rebalancer},
    commands::load_generator::LoadGenerator,
    consumer::{Consumer, Hold},
    deployment::Deployment,
    ledger,
    locks::{Locks, Timing},
    node::context::NodeContext,
    orders::vouchers::Vouchers,
};
use seckill_model::{
    Label, Millis, NewSale, Reason, Sale, SaleState, VoucherId, ledger::SaleAudit, reason,
};
use seckill_redis::{Layout, nodes::Nodes, stream, stream_stats};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Prefix of every key, separate from those of a deployment.
pub(super) const PREFIX: &str = "seckill-bench";
/// Lock that prevents concurrent benchmarks.
const CLAIM: &str = "bench";
const NODE: &str = "bench";
/// Polling interval of the stream: each poll takes about 1 ms of Redis time, which the consumer would need.
const POLL: Duration = Duration::from_millis(20);
/// Timeout without progress of the consumer.
const NO_PROGRESS: Duration = Duration::from_secs(30);
/// Timeout of the cleanup.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The servers of a benchmark, and what it has created there.
pub(super) struct Bench {
    pub(super) deployment: Deployment,
    /// Keys of the baseline.
    baseline: Vec<String>,
    /// Sales to be archived.
    made: Vec<Sale>,
    /// Tasks to be stopped.
    tasks: TaskTracker,
    end: CancellationToken,
}

/// Runs `measure`, whose baseline has the keys `baseline`, and removes what it created, also once `stop` is cancelled.
///
/// # Errors
/// The servers are in use or unavailable, `measure` failed, or `stop` was cancelled.
pub(super) async fn run<T>(
    deployment: Deployment,
    baseline: Vec<String>,
    stop: &CancellationToken,
    measure: impl AsyncFnOnce(&mut Bench) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let keys = Layout::new(1, deployment.redis.is_cluster()).prefixed(PREFIX);
    let deployment = Deployment { keys, ..deployment };
    let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
    let mut bench = Bench { deployment, baseline, made: Vec::new(), tasks, end };
    bench.refuse_deployment().await?;
    let measured = stop.run_until_cancelled(Box::pin(measure(&mut bench))).await;
    // A running consumer would recreate its stream.
    bench.end.cancel();
    bench.tasks.close();
    if tokio::time::timeout(END_WITHIN, bench.tasks.wait()).await.is_err() {
        tracing::warn!("a task of the benchmark did not end in time");
    }
    let cleared = bench.clear().await;
    let claim = bench.deployment.keys.plain_lock(CLAIM);
    let freed = bench.deployment.redis.connection().query::<u64>(cmd("UNLINK").arg(claim)).await;
    let report = measured.unwrap_or(Err(failed(reason!("bench-stopped"))))?;
    cleared?;
    freed?;
    Ok(report)
}

pub(super) fn failed(why: Reason) -> EngineError {
    EngineError::Failed(why)
}

impl Bench {
    /// Checks the servers before anything is created, and claims the prefix.
    async fn refuse_deployment(&self) -> Result<(), EngineError> {
        let Deployment { redis, store, keys, settings } = &self.deployment;
        let mut conn = redis.connection();
        if let Some(sale) = store.sales().await?.first() {
            let why = reason!("bench-database-in-use", sale = sale.voucher_id);
            return Err(EngineError::Rejected(why));
        }
        let nodes = Nodes::read(&mut conn, &Layout::new(1, redis.is_cluster()).home()).await?;
        if let Some(node) = nodes.alive(settings.node_dead_ms).next() {
            return Err(EngineError::Rejected(reason!("bench-redis-in-use", node)));
        }
        let claim = keys.plain_lock(CLAIM);
        let found: u64 = conn.query(cmd("EXISTS").arg(self.names()).arg(&claim)).await?;
        if found == 0 {
            let first = SetOptions::default().conditional_set(ExistenceCheck::NX);
            let claim = redis::Cmd::set_options(claim, NODE, first);
            if conn.query::<Option<String>>(&claim).await?.is_some() {
                return Ok(());
            }
        }
        Err(EngineError::Rejected(reason!("bench-other-bench", keys = format!("{PREFIX}:*"))))
    }

    /// Every key but the claim.
    fn names(&self) -> Vec<String> {
        let keys = &self.deployment.keys;
        let mut names = self.baseline.clone();
        for of in keys.partitions() {
            names.extend([of.orders(), of.dead(), of.nodes(), of.instances(), of.reconciled()]);
            names.extend([of.watermark(), of.rates()]);
        }
        names.push(keys.deployment());
        for shard in self.made.iter().flat_map(Sale::shard_ids) {
            names.extend(keys.sale_keys(shard));
            names.push(keys.tally(shard));
        }
        names
    }

    /// Removes the keys, and archives the sales, so that the next round starts like the first. No node may be running.
    pub(super) async fn clear(&mut self) -> Result<(), EngineError> {
        let Deployment { redis, store, .. } = &self.deployment;
        let mut conn = redis.connection();
        // One at a time: those of two partitions are in different slots of a cluster.
        for name in self.names() {
            conn.query::<u64>(cmd("UNLINK").arg(name)).await?;
        }
        for sale in &self.made {
            store.set_state(sale.id(), SaleState::Ended, None, &[]).await?;
            store.set_state(sale.id(), SaleState::Archived, None, &[]).await?;
        }
        self.made.clear();
        Ok(())
    }

    /// Creates a sale that only SQL knows.
    pub(super) async fn sql_sale(
        &mut self,
        title: Label,
        stock: u64,
    ) -> Result<VoucherId, EngineError> {
        let now = Millis::now();
        let sale = NewSale::checked(&title, stock, None, None, now);
        let sale = sale.map_err(EngineError::Rejected)?;
        let sale = self.deployment.store.create_sale(&sale, now).await?;
        let voucher = sale.voucher_id;
        self.made.push(sale);
        Ok(voucher)
    }

    /// Creates a sale of the engine.
    pub(super) async fn sale(
        &mut self,
        title: Label,
        stock: u64,
    ) -> Result<VoucherId, EngineError> {
        self.sale_over(title, stock, 1).await
    }

    /// Creates a sale of the engine that is spread over this many shards, each in a partition of its own. The partitions
    /// change with it: no node may be running, and no other sale exist.
    pub(super) async fn sale_over(
        &mut self,
        title: Label,
        stock: u64,
        shards: u16,
    ) -> Result<VoucherId, EngineError> {
        let is_cluster = self.deployment.redis.is_cluster();
        self.deployment.keys = Layout::new(shards, is_cluster).prefixed(PREFIX);
        let sale = NewSale::checked(&title, stock, None, None, Millis::now());
        let sale = sale.and_then(|sale| sale.sharded(shards.into()));
        let sale = sale.map_err(EngineError::Rejected)?;
        let mut servers = self.deployment.servers();
        let sale = Vouchers { servers: &mut servers }.create(&sale).await?;
        let voucher = sale.voucher_id;
        self.made.push(sale);
        for of in self.deployment.keys.partitions() {
            stream::ensure_group(&mut servers.conn, &of).await?;
        }
        Ok(voucher)
    }

    /// Starts a node without its periodic tasks.
    pub(super) fn node(&self) -> Node {
        self.node_named(NODE)
    }

    /// The same beside another node.
    pub(super) fn node_named(&self, name: &str) -> Node {
        let Deployment { redis, keys, .. } = &self.deployment;
        let (locks, watchdog) = Locks::new(redis, keys.clone(), name, Timing::default());
        let node = Node {
            context: NodeContext::new(name, &self.deployment, &locks),
            of_bench: self.tasks.clone(),
            tasks: TaskTracker::new(),
            stop: self.end.child_token(),
        };
        node.spawn(watchdog.run(node.stop.clone()));
        node
    }

    /// Waits until every entry is delivered and acknowledged; returns the duration since `begun`.
    pub(super) async fn drained(&self, begun: Instant) -> Result<Duration, EngineError> {
        let Deployment { redis, keys, .. } = &self.deployment;
        let (mut conn, mut left, mut moved) = (redis.connection(), None, begun);
        loop {
            let facts = stream_stats::read_stats(&mut conn, keys, &[]).await?.stream;
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

    /// Audits a sale; a finding is an error.
    pub(super) async fn audit(&self, voucher: VoucherId) -> Result<SaleAudit, EngineError> {
        let audit = ledger::audit(&mut self.deployment.servers(), Some(voucher)).await?;
        if let Some(finding) = audit.findings().next() {
            return Err(failed(reason!("error-audit-failed", finding = finding.reason())));
        }
        let line = audit.sales.into_iter().next();
        line.ok_or_else(|| failed(reason!("bench-sale-gone")))
    }
}

/// A node of the engine: those of its tasks that were started.
pub(super) struct Node {
    context: NodeContext,
    of_bench: TaskTracker,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Node {
    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) {
        self.of_bench.spawn(self.tasks.track_future(task));
    }

    /// Starts admission.
    pub(super) fn admission(&self) -> Admission {
        let (admission, workers) = Admission::new(&self.context);
        for worker in workers {
            self.spawn(worker.run(self.stop.clone()));
        }
        if self.context.deployment.keys.count() > 1 {
            self.spawn(Rebalancer::new(&self.context, &admission).run(self.stop.clone()));
        }
        admission
    }

    /// Starts the consumers, one for each partition.
    pub(super) fn consume(&self) {
        for of in self.context.deployment.keys.partitions() {
            let (wanted, parked) = (watch::channel(false).1, watch::channel(false).0);
            let hold = Hold { wanted, parked };
            self.spawn(Consumer::new(&self.context, of, hold, self.stop.clone()).run());
        }
    }

    /// Runs a load test.
    pub(super) async fn load(
        &self,
        admission: &Admission,
        plan: &LoadTest,
    ) -> Result<LoadReport, EngineError> {
        let servers = self.context.deployment.servers();
        let (admission, meters) = (admission.clone(), Arc::clone(&self.context.meters));
        LoadGenerator { admission, servers, meters }.run(plan, &self.stop).await
    }

    /// Runs a load test in which every request must be admitted.
    pub(super) async fn admit_all(&self, plan: &LoadTest) -> Result<(), EngineError> {
        let report = self.load(&self.admission(), plan).await?;
        if report.admitted == plan.users {
            return Ok(());
        }
        Err(not_admitted(plan.users, report.admitted, &report))
    }

    /// Stops the tasks, and waits for them.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The error of a load test in which only `admitted` of `orders` requests had the expected outcome.
pub(super) fn not_admitted(orders: u64, admitted: u64, report: &LoadReport) -> EngineError {
    let why = report.first_error.as_ref().or(report.first_rejection.as_ref());
    let why = why.map(ToString::to_string).unwrap_or_default();
    failed(reason!("bench-not-admitted", orders, admitted, why))
}
