//! A node: the tasks of one engine process, who owns them, and how they end.
//!
//! [`Node::start`] owns these tasks: for each partition admission, the consumer and signs of life; the keeper
//! of its locks, the scheduler of its jobs, the collector, the chronicle and the commands. All of them watch one token; [`Node::stop`] cancels it and waits for them, with a bound.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    EngineError,
    admission::Admission,
    beat::Beat,
    chronicle,
    command::{Focus, Refusal, Remote, Request},
    consumer::{Consumer, Hold},
    helm::UnderWay,
    jobs::{Runner, Scheduler, board, builtin},
    ledger,
    locks::{Locks, Timing},
    operator::Operator,
    outbox::Outbox,
    pending::Judged,
    settings::Settings,
    writer::Writer,
};
use crate::{
    broker::{Layout, Redis, scripts},
    model::EntryId,
    store::{ActivityFilter, Recorded, SharedStore},
    telemetry::{
        Meters, Snapshot,
        collector::{Collector, Figures},
        snapshot::JobLine,
    },
};

/// Between two pictures while something moves, and at rest.
const TICK: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
const COMMANDS: usize = 64;
/// A stop is over by then: what is not finished stays pending, and the next start finishes it.
const STOP_WITHIN: Duration = Duration::from_millis(3_500);
/// An audit by order id reads every buyer; beyond that many it is left to `seckill audit`.
const AUDIT_UP_TO: u64 = 300_000;
/// After an audit that a server broke off.
const AUDIT_PAUSE: Duration = Duration::from_secs(10);
/// Between two looks at the history of jobs and at the log, and a bound on each.
const JOBS_EVERY: Duration = Duration::from_secs(1);
/// Bound on judging a page of the pending list.
const JUDGE_WITHIN: Duration = Duration::from_secs(1);
/// Runs of each job in a picture.
const JOB_RUNS: u32 = 20;
/// Lines of the log in a picture.
const ACTIVITY: u32 = 50;
/// Bound on saying that a node has left.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Redis.
    pub redis: Redis,
    /// SQL.
    pub store: SharedStore,
    /// Names of keys.
    pub keys: Layout,
    /// Settings of the engine.
    pub settings: Settings,
    /// Its name, which survives a restart and which no other live node has.
    pub name: String,
    /// Which process of that name it is; differs after each start.
    pub instance: String,
    /// Watch only: no admission, no consumer, no acts.
    pub read_only: bool,
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Every task ended in time; otherwise what they held stays pending.
    pub in_time: bool,
    /// Entries that were not finished, and which other nodes may claim at once.
    pub handed_over: u64,
}

impl Stopped {
    /// Nothing was left to others.
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
    /// Starts the tasks and returns at once; servers that are away are waited for in the background.
    pub fn start(config: NodeConfig) -> Self {
        let NodeConfig { redis, store, keys, settings, name, instance, read_only } = config;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let meters = Arc::new(Meters::default());
        let (hold, wanted) = watch::channel(false);
        let mut parked = Vec::new();
        let handed_over = Arc::new(AtomicU64::new(0));
        let (pictures, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let (locks, keeper) = Locks::new(&redis, keys.clone(), &name, Timing::default());
        let outbox = Outbox::default();
        let mut admission = None;
        if !read_only {
            tasks.spawn(keeper.run(stop.clone()));
            let runner = Runner {
                redis: redis.clone(),
                store: store.clone(),
                keys: keys.clone(),
                settings: settings.clone(),
                node: name.clone(),
                locks: locks.clone(),
            };
            // The names of the built-in jobs differ, and their settings were checked.
            match Scheduler::new(builtin::jobs(&settings), runner, settings.jobs.pool) {
                Ok(scheduler) => {
                    let (mut first, stop) = (snapshots.clone(), stop.clone());
                    tasks.spawn(async move {
                        // Somebody may be waiting for the first picture; jobs are in no hurry.
                        let pictured = first.wait_for(|picture| picture.seq > 0);
                        let _ = tokio::time::timeout(JOBS_EVERY, pictured).await;
                        scheduler.run(stop).await;
                    });
                }
                Err(error) => tracing::error!(%error, "no job is scheduled on this node"),
            }
            let (entrance, gates) =
                Admission::new(&name, &redis, &store, &keys, &settings, &meters);
            for gate in gates {
                tasks.spawn(gate.recording(&outbox).run(stop.clone()));
            }
            admission = Some(entrance);
            for partition in keys.partitions() {
                let (parking, parked_here) = watch::channel(false);
                parked.push(parked_here);
                let consumer = Consumer::new(
                    &name,
                    partition.clone(),
                    &redis,
                    Writer::new(&redis, store.clone(), keys.clone()),
                    settings.clone(),
                    locks.clone(),
                    Hold { wanted: wanted.clone(), parked: parking },
                );
                let (handed, stop_it) = (Arc::clone(&handed_over), stop.clone());
                tasks.spawn(async move {
                    handed.fetch_add(consumer.run(stop_it).await, Ordering::Relaxed);
                });
                let beat = Beat {
                    link: redis.link(),
                    partition,
                    node: name.clone(),
                    instance: instance.clone(),
                    dead_ms: settings.node_dead_ms,
                };
                tasks.spawn(beat.run(stop.clone()));
            }
        }
        let collector = Collector::new(
            redis.link(),
            store.clone(),
            keys.clone(),
            Arc::clone(&meters),
            name.clone(),
            read_only,
            settings.node_dead_ms,
        );
        let (focus, looking_at) = watch::channel(Focus::default());
        let (commands, requests) = mpsc::channel(COMMANDS);
        let operator = Operator {
            redis,
            store,
            keys,
            settings,
            node: name,
            locks,
            read_only,
            admission,
            meters,
            reason: None,
            under_way: UnderWay::default(),
            outbox,
        };
        // Who only watches writes nothing, not even what he sees.
        if !read_only {
            tasks.spawn(chronicle::follow(
                operator.node.clone(),
                snapshots.clone(),
                operator.outbox.clone(),
                operator.store.clone(),
                stop.clone(),
            ));
        }
        let acted = Arc::new(Notify::new());
        let watcher = Watcher {
            collector,
            operator: operator.clone(),
            looking_at,
            acted: Arc::clone(&acted),
            pictures,
            tasks: tasks.clone(),
            jobs: (Instant::now(), Vec::new()),
            activity: (None, Arc::default()),
        };
        tasks.spawn(watcher.run(stop.clone()));
        tasks.spawn(obey(operator.clone(), requests, acted, tasks.clone(), stop.clone()));
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

    /// What a console holds of this node.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The hands of an operator on this node.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Cancelled when the node stops; long acts watch it.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Keeps the consumers from taking new entries, or lets them go on. Returns once they obey; `false` when
    /// that took too long, because their servers are away.
    pub async fn hold_consumer(&self, hold: bool) -> bool {
        self.hold.send_replace(hold);
        let mut parked = self.parked.clone();
        let obeyed = async {
            for parked in &mut parked {
                if parked.wait_for(|parked| *parked == hold).await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(STOP_WITHIN, obeyed).await.unwrap_or(false)
    }

    /// Stops the tasks: admission answers whom it can, the consumers finish the batches in their hands, or hand
    /// them over.
    pub async fn stop(self) -> Stopped {
        self.stop.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await.is_ok();
        if !self.operator.read_only {
            // Nobody has to wait for a node that has left; if it can't be said, its silence tells.
            let _ = tokio::time::timeout(LEAVE_WITHIN, self.leave()).await;
        }
        Stopped { in_time: ended, handed_over: self.handed_over.load(Ordering::Relaxed) }
    }

    async fn leave(&self) -> Result<(), EngineError> {
        let Operator { redis, keys, node, .. } = &self.operator;
        let mut link = redis.link();
        for of in keys.partitions() {
            let mut leave = scripts::LEAVE.prepare_invoke();
            leave.key(of.nodes()).key(of.instances()).key(of.healed());
            leave.arg(node).arg(&self.instance);
            link.invoke::<u64>(&leave).await?;
        }
        Ok(())
    }
}

/// Each act runs as a task of its own, so that a rush does not keep others waiting.
async fn obey(
    operator: Operator,
    mut requests: mpsc::Receiver<Request>,
    acted: Arc<Notify>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        let request = tokio::select! {
            () = stop.cancelled() => return,
            request = requests.recv() => request,
        };
        let Some(Request { command, reply }) = request else { return };
        let (operator, stop, acted) = (operator.clone(), stop.clone(), Arc::clone(&acted));
        tasks.spawn(async move {
            let result = operator.execute(command, &stop).await;
            acted.notify_one();
            // A console that was closed meanwhile finds the act in the audit log.
            let _ = reply.send(result.map_err(|error| Refusal(error.to_string())));
        });
    }
}

/// The collector's task.
struct Watcher {
    collector: Collector,
    operator: Operator,
    looking_at: watch::Receiver<Focus>,
    /// An act has ended: what it changed is looked at now.
    acted: Arc<Notify>,
    pictures: watch::Sender<Arc<Snapshot>>,
    tasks: TaskTracker,
    jobs: (Instant, Vec<JobLine>),
    activity: (Option<Instant>, Arc<Vec<Recorded>>),
}

impl Watcher {
    async fn run(mut self, stop: CancellationToken) {
        let mut auditing: Option<JoinHandle<Option<Audited>>> = None;
        let (mut audit_from, mut last) = (Instant::now(), None);
        loop {
            if let Some(audit) = auditing.take_if(|audit| audit.is_finished()) {
                match audit.await {
                    Ok(Some((figures, findings))) => self.collector.note_audit(figures, findings),
                    Ok(None) => audit_from = Instant::now() + AUDIT_PAUSE,
                    Err(error) => {
                        tracing::error!(%error, "the audit broke down");
                        audit_from = Instant::now() + AUDIT_PAUSE;
                    }
                }
            }
            let Focus { pending_from, verdicts } = *self.looking_at.borrow_and_update();
            let mut snapshot = self.collector.look(pending_from).await;
            if verdicts {
                self.judge(&mut snapshot).await;
            }
            // Somebody waits for the first picture; the next one has the jobs.
            if snapshot.seq > 1 {
                snapshot.jobs = self.look_at_jobs(&snapshot).await;
                snapshot.activity = self.look_at_activity(&snapshot).await;
            }
            let moves = moving(&snapshot);
            let calm = !moves && last == Some(moves);
            last = Some(moves);
            let small = snapshot.funnel.admitted.total <= AUDIT_UP_TO;
            self.pictures.send_replace(Arc::new(snapshot));
            let may = small && auditing.is_none() && Instant::now() >= audit_from;
            if let Some(figures) = self.collector.audit_due().filter(|_| may) {
                let (operator, stop) = (self.operator.clone(), stop.clone());
                auditing = Some(self.tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => None,
                        audited = audit(operator, figures) => audited,
                    }
                }));
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK[usize::from(calm && auditing.is_none())]) => {}
                () = self.acted.notified() => {}
                changed = self.looking_at.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl Watcher {
    /// Says what is true of each entry of the pending page; a server that is away leaves it unsaid.
    async fn judge(&self, snapshot: &mut Snapshot) {
        let lines = &mut snapshot.pending.lines;
        if lines.is_empty() || !snapshot.redis.up || !snapshot.sql.up {
            return;
        }
        let entries: Vec<EntryId> = lines.iter().map(|line| line.entry).collect();
        let judging = async {
            let mut judge = self.operator.judge().await?;
            judge.entries(&entries).await
        };
        let Ok(Ok(judged)) = tokio::time::timeout(JUDGE_WITHIN, judging).await else { return };
        let mut judged: HashMap<EntryId, Judged> =
            judged.into_iter().map(|it| (it.row.delivered.entry, it)).collect();
        for line in lines {
            if let Some(judged) = judged.remove(&line.entry) {
                line.verdict = Some(judged.verdict);
                line.fault = judged.fault();
            }
        }
    }

    /// At most once a second: jobs change seldom, and SQL has better to do.
    async fn look_at_jobs(&mut self, snapshot: &Snapshot) -> Vec<JobLine> {
        let (at, lines) = &self.jobs;
        if snapshot.sql.up && (lines.is_empty() || at.elapsed() >= JOBS_EVERY) {
            let Operator { store, settings, .. } = &self.operator;
            let jobs = builtin::jobs(settings);
            let looking = board(store, &jobs, snapshot.taken, JOB_RUNS);
            // A database that is away is told by the collector; the lines are those of before.
            if let Ok(Ok(lines)) = tokio::time::timeout(JOBS_EVERY, looking).await {
                self.jobs = (Instant::now(), lines);
            }
        }
        self.jobs.1.clone()
    }

    /// The same for the log.
    async fn look_at_activity(&mut self, snapshot: &Snapshot) -> Arc<Vec<Recorded>> {
        let (at, _) = &self.activity;
        if snapshot.sql.up && at.is_none_or(|at| at.elapsed() >= JOBS_EVERY) {
            let filter = ActivityFilter::default();
            let looking = self.operator.store.activity(&filter, None, ACTIVITY);
            if let Ok(Ok(lines)) = tokio::time::timeout(JOBS_EVERY, looking).await {
                self.activity = (Some(Instant::now()), Arc::new(lines));
            }
        }
        Arc::clone(&self.activity.1)
    }
}

/// What an audit found, and for which figures.
type Audited = (Figures, Vec<String>);

/// `None` when a server went away meanwhile.
async fn audit(operator: Operator, figures: Figures) -> Option<Audited> {
    let mut link = operator.redis.link();
    match ledger::audit(&operator.store, &mut link, &operator.keys, None).await {
        Ok(audit) => {
            let lines = audit.sales.iter();
            let findings = lines
                .flat_map(|sale| sale.findings.iter().map(|f| format!("#{}: {f}", sale.voucher_id)))
                .collect();
            Some((figures, findings))
        }
        Err(error) => {
            tracing::warn!(%error, "the audit was broken off; it is tried again");
            None
        }
    }
}

/// Whether the next picture will differ: buyers come, or orders are under way.
fn moving(snapshot: &Snapshot) -> bool {
    let busy = snapshot.funnel.attempts.per_second > 0.0 || !snapshot.rushes.is_empty();
    let under_way = snapshot.stream.as_ref().is_some_and(|s| s.pending > 0 || s.lag != Some(0));
    busy || under_way || !snapshot.redis.up || !snapshot.sql.up
}
