//! A node: the tasks of one engine process and their lifecycle.
//!
//! [`Node::start`] starts these tasks: for each partition admission, the consumer and heartbeats; the watchdog of its
//! locks, the scheduler of its jobs, the collector, the event log and the commands. All of them watch one token;
//! [`Node::stop`] cancels it and waits for them, with a timeout.

pub mod context;
pub mod heartbeat;
pub mod outbox;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_redis::scripts;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Result,
    admission::{Admission, Rebalancer},
    commands::{
        Focus, Remote, Request,
        command_handler::{Operator, lock_names, login_name},
    },
    consumer::{Consumer, Hold},
    deployment::Deployment,
    jobs::{Runner, builtin, schedule},
    locks::{Locks, Timing},
    node::{context::NodeContext, heartbeat::send_heartbeats},
    recovery::delivery::deliver_all,
    telemetry::{
        Snapshot,
        collector::Collector,
        event_log,
        ledger_page::LedgerPage,
        snapshot_task::{Parts, SnapshotTask},
    },
};

const COMMANDS: usize = 64;
/// Timeout of a stop: what is not finished stays pending for the next start.
const STOP_WITHIN: Duration = Duration::from_millis(3_500);
/// Maximum wait for the first snapshot before jobs start.
const JOBS_AFTER: Duration = Duration::from_secs(1);
/// Timeout for signing off.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Servers and settings.
    pub deployment: Deployment,
    /// Its name, which survives a restart and is unique among live nodes.
    pub name: String,
    /// Identifies the process of that name; differs after each start.
    pub instance: String,
    /// Read-only: no admission, no consumer, no commands.
    pub read_only: bool,
}

/// How a node stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Every task ended in time; otherwise the entries they held stay pending.
    pub in_time: bool,
    /// Unfinished entries that other nodes can claim immediately.
    pub handed_over: u64,
}

impl Stopped {
    /// No entries were left to others.
    pub fn finished(self) -> bool {
        self.in_time && self.handed_over == 0
    }
}

/// A running engine.
#[derive(Debug)]
pub struct Node {
    operator: Operator,
    remote: Remote,
    hold: watch::Sender<bool>,
    /// One for each consumer.
    parked: Vec<watch::Receiver<bool>>,
    handed_over: Arc<AtomicU64>,
    instance: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Node {
    /// Starts the tasks and returns immediately; unreachable servers are awaited in the background.
    pub fn start(config: NodeConfig) -> Self {
        let NodeConfig { deployment, name, instance, read_only } = config;
        let Deployment { redis, keys, settings, .. } = &deployment;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (hold, wanted) = watch::channel(false);
        let mut parked = Vec::new();
        let handed_over = Arc::new(AtomicU64::new(0));
        let (snapshot_sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let (locks, watchdog) = Locks::new(redis, keys.clone(), &name, Timing::default());
        let context = NodeContext::new(&name, &deployment, &locks);
        let mut admission = None;
        if !read_only {
            tasks.spawn(watchdog.run(stop.clone()));
            let runner =
                Runner { deployment: deployment.clone(), node: name.clone(), locks: locks.clone() };
            let jobs = schedule(builtin::jobs(settings), runner, settings.jobs.pool, stop.clone());
            let mut first = snapshots.clone();
            tasks.spawn(async move {
                // The first snapshot has priority over jobs.
                let available = first.wait_for(|snapshot| snapshot.seq > 0);
                let _ = tokio::time::timeout(JOBS_AFTER, available).await;
                jobs.await;
            });
            let (requests, workers) = Admission::new(&context);
            tasks.spawn(deliver_all(context.servers(), context.clone(), stop.clone()));
            tasks.spawn(Rebalancer::new(&context, &requests).run(stop.clone()));
            for worker in workers {
                tasks.spawn(worker.run(stop.clone()));
            }
            admission = Some(requests);
            for partition in keys.partitions() {
                let (parking, parked_here) = watch::channel(false);
                parked.push(parked_here);
                let hold = Hold { wanted: wanted.clone(), parked: parking };
                let consumer = Consumer::new(&context, partition.clone(), hold, stop.clone());
                let handed = Arc::clone(&handed_over);
                tasks.spawn(async move {
                    handed.fetch_add(consumer.run().await, Ordering::Relaxed);
                });
                let (context, servers) = (context.clone(), deployment.servers());
                let (instance, stop) = (instance.clone(), stop.clone());
                tasks.spawn(send_heartbeats(context, servers, partition, instance, stop));
            }
        }
        let (meters, names) = (Arc::clone(&context.meters), lock_names(settings));
        let collector = Collector::new(&deployment, meters, name.clone(), read_only, names);
        let (focus, looking_at) = watch::channel(Focus::default());
        let (commands, requests) = mpsc::channel(COMMANDS);
        let operator = Operator {
            deployment,
            login: login_name(),
            node: name,
            locks,
            read_only,
            admission,
            meters: context.meters,
            reason: None,
            outbox: context.outbox,
        };
        // A read-only node writes no events.
        if !read_only {
            tasks.spawn(event_log::follow(operator.clone(), snapshots.clone(), stop.clone()));
        }
        let acted = Arc::new(Notify::new());
        let snapshot_task = SnapshotTask {
            collector,
            operator: operator.clone(),
            focus: looking_at,
            acted: Arc::clone(&acted),
            snapshot_sender,
            tasks: tasks.clone(),
            versions: context.versions,
            ledger: LedgerPage::default(),
            parts: Parts::default(),
        };
        tasks.spawn(snapshot_task.run(stop.clone()));
        let (executor, tracker, ended) = (operator.clone(), tasks.clone(), stop.clone());
        tasks.spawn(execute_commands(executor, requests, acted, tracker, ended));
        tasks.close();
        Self {
            operator,
            remote: Remote { snapshots, commands, focus },
            hold,
            parked,
            handed_over,
            instance,
            stop,
            tasks,
        }
    }

    /// The console's connection to this node.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The operator context of this node.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Cancelled when the node stops; long commands watch it.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Pauses or resumes the consumers. Returns once they have done so; `false` if that took too long because their
    /// servers are unreachable.
    pub async fn hold_consumer(&self, hold: bool) -> bool {
        self.hold.send_replace(hold);
        let mut parked = self.parked.clone();
        let parking = async {
            for parked in &mut parked {
                if parked.wait_for(|parked| *parked == hold).await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(STOP_WITHIN, parking).await.unwrap_or(false)
    }

    /// Stops the tasks: admission replies to the requests it can, the consumers finish their current batches or hand
    /// them over.
    pub fn stop(self) -> BoxFuture<'static, Stopped> {
        self.stop.cancel();
        async move {
            let in_time = tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await.is_ok();
            if !self.operator.read_only {
                // Signing off spares others the wait until it counts as dead; if that fails, they wait.
                let _ = tokio::time::timeout(LEAVE_WITHIN, self.leave(in_time)).await;
            }
            Stopped { in_time, handed_over: self.handed_over.load(Ordering::Relaxed) }
        }
        .boxed()
    }

    /// Signs off; `in_time` if its tasks have ended, so that it admits nothing any more.
    async fn leave(&self, in_time: bool) -> Result<()> {
        let Operator { deployment, node, .. } = &self.operator;
        let mut conn = deployment.redis.connection();
        let dead_ms = deployment.settings.node_dead_ms;
        for of in deployment.keys.partitions() {
            let run = conn.run_id(&of.nodes()).await?;
            let mut leave = scripts::LEAVE.prepare_invoke();
            leave.key(of.nodes()).key(of.instances()).key(of.reconciled()).key(of.http());
            leave.key(of.stopped()).key(of.reports()).arg(node).arg(&self.instance);
            leave.arg(if in_time { &run } else { "" }).arg(dead_ms);
            conn.invoke::<u64>(&leave).await?;
        }
        // Last: it reads SQL, which may not reply, and by then the names are released.
        deployment.close_ids().await
    }
}

/// Each command runs in its own task, so that a load test does not block others.
async fn execute_commands(
    operator: Operator,
    mut requests: mpsc::Receiver<Request>,
    acted: Arc<Notify>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    while let Some(Some(request)) = stop.run_until_cancelled(requests.recv()).await {
        let Request { command, reason, reply } = request;
        let operator = Operator { reason, ..operator.clone() };
        let (stop, acted) = (stop.clone(), Arc::clone(&acted));
        tasks.spawn(async move {
            let result = operator.execute(command, &stop).await;
            acted.notify_one();
            // If the console has been closed, the result is in the audit log.
            let _ = reply.send(result);
        });
    }
}
