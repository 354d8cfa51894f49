//! The task that runs the admission script for one partition. A node has one for each partition.
//!
//! It admits only through a Redis that was reconciled with SQL. It remembers its recent promises, because Redis may
//! lose its last seconds: a restart or a failover is noticed before the next buyer is admitted.

use std::{
    collections::{BTreeSet, HashMap},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join3},
    stream::FuturesOrdered,
};
use redis::{RedisError as DriverError, Value, cmd};
use seckill_model::{
    Message, Millis, OrderId, Outcome, SaleOrder, SaleState, ShardId,
    faults::{self, Point},
    reason::reason,
};
use seckill_redis::{RedisError, keys::Partition, nodes::Nodes};
use seckill_store::StoreError;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    admission::{
        AdmissionError, AdmissionRequest, Batch, Proposal, admit_call, by_shard,
        queue_bound::{QueueBound, RateMeter},
        refusal_cache::{RefusalCache, Revalidator},
        reply::{Decision, decision, is_not_any_more, outcome_of},
        reply_all,
    },
    deployment::{self, partitions, servers::Servers},
    ledger::{
        expected::Expected,
        promise_journal::Journal,
        sale_copy::{self, Synced},
    },
    node::context::NodeContext,
    orders::ids::{self, Dates, IdWorker, ServerClock},
    recovery::{
        adoption::{adopt, no_sale},
        comparison::{compare, reconcile_by_count},
        former_names,
        reconcile::{self, Damage, Reconciler, Scope, await_peers, is_reconciled, reconcile_each},
        sale_versions::SaleVersions,
    },
    telemetry::{
        data_loss::{REDIS_RECONCILED, Reconciled, Unwitnessed},
        event::{self, Event},
        log::events::{SALE_FIXED, SALE_UNRECONCILED},
    },
};

/// Batches in flight at once: Redis works on one while the next is being packed.
const IN_FLIGHT: usize = 2;
const BACKOFF: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
/// Longest pause between two attempts to compare the orders with their buyers.
const COMPARE_AGAIN: Duration = Duration::from_mins(1);
/// How often Redis is checked when no request comes: a restart must be noticed while the journal still holds what it
/// lost.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Bound on the last check before the task ends.
const FINAL_CHECK_WITHIN: Duration = Duration::from_secs(2);

/// The event of a sale that stays closed is repeated after this long, which is how long its alarm lasts.
const NOTED_FOR: Duration = Duration::from_mins(10);

type Flight = BoxFuture<'static, (Batch, Result<Value, Miss>)>;

/// Why a batch has no decision that may be sent to the buyers.
#[derive(Debug)]
enum Miss {
    Redis(DriverError),
    /// Redis decided, but only this many replicas acknowledged it.
    Unconfirmed(u32),
    /// Redis decided, and it is unknown how many replicas have that.
    Unanswered(DriverError),
    /// Redis decided this long ago: an order that was not paid may have been closed and returned since.
    Late(Duration),
}

/// A sale once it was looked up and, if damaged, reconciled.
#[derive(Debug, Default)]
struct Prepared {
    /// What was restored in Redis, or removed from it.
    done: Reconciled,
    /// Reply to its buyers if SQL has no such sale, or has archived it.
    answer: Option<Result<Outcome, AdmissionError>>,
    /// Fields of its copy in Redis, with the values that another program had written.
    mended: Option<String>,
    /// Of the refusals, when it was looked up.
    generation: u64,
}

/// The task behind a queue of [`super::Admission`]. It ends with the token that [`AdmissionWorker::run`] is given.
#[derive(Debug)]
pub struct AdmissionWorker {
    context: NodeContext,
    partition: Partition,
    servers: Servers,
    requests: mpsc::Receiver<AdmissionRequest>,
    /// Answers requests that need no call of Redis.
    refusals: Arc<RefusalCache>,
    rate: RateMeter,
    /// Other nodes that were alive at the last check.
    peers: Vec<String>,
    ids: IdWorker,
    journal: Journal,
    /// The run of the Redis server that was reconciled.
    run_id: Option<String>,
    /// It has admitted, and would know what a restart of Redis loses.
    is_witness: bool,
    /// The time of Redis when it last replied with it, which was then.
    redis_time: ServerClock,
    /// Why the last batch was not decided.
    last_error: Arc<EngineError>,
    /// Identifies this task to others that reconcile.
    token: String,
    /// Streams of the partition that have lost entries, and keys that a check has repaired.
    damaged_streams: Vec<String>,
    /// What was reconciled by attempts that failed later, and is not reported yet.
    reconciled: Reconciled,
    /// Requests for sales that are being looked up or reconciled; other sales continue.
    held: HashMap<ShardId, Batch>,
    /// The tasks that do so, one for each sale; they end with this one.
    preparing: JoinSet<(ShardId, Prepared)>,
    /// The task that compares every order with its buyer, after they were only counted. It ends with this one, or when
    /// Redis was restarted again.
    comparing: JoinSet<Reconciled>,
    /// Sales that could not be reconciled on this run of the server; `held` until they are.
    left_out: BTreeSet<ShardId>,
    /// Sales that stay closed until the operator resolves it, and until when the event is not repeated.
    noted: HashMap<ShardId, Instant>,
    in_flight: FuturesOrdered<Flight>,
}

impl AdmissionWorker {
    pub(super) fn new(
        context: NodeContext,
        partition: Partition,
        requests: mpsc::Receiver<AdmissionRequest>,
        refusals: Arc<RefusalCache>,
    ) -> Self {
        let servers = context.servers();
        let last_error = Arc::new(EngineError::Reconciling(partition.orders()));
        let settings = &context.deployment.settings;
        let goal = Duration::from_millis(settings.queue_wait_ms);
        let rate = RateMeter::new(goal, settings.admission_batch, settings.queue);
        Self {
            rate,
            context,
            servers,
            requests,
            refusals,
            peers: Vec::new(),
            ids: IdWorker::new(partition.clone()),
            partition,
            journal: Journal::default(),
            run_id: None,
            is_witness: false,
            redis_time: ServerClock::default(),
            last_error,
            token: reconcile::new_token(),
            damaged_streams: Vec::new(),
            reconciled: Reconciled::default(),
            held: HashMap::new(),
            preparing: JoinSet::new(),
            comparing: JoinSet::new(),
            left_out: BTreeSet::new(),
            noted: HashMap::new(),
            in_flight: FuturesOrdered::new(),
        }
    }

    /// The bound of its queue.
    pub(super) fn queue_bound(&self) -> QueueBound {
        self.rate.bound()
    }

    /// Works until `stop` is cancelled, then replies to every request that waits.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let (context, of) = (self.context.clone(), self.partition.clone());
        let revalidator = Revalidator::new(context, of, Arc::clone(&self.refusals));
        let (store, of) = (self.servers.store.clone(), self.partition.clone());
        let (dates, clock) = (self.ids.dates(), self.redis_time.clone());
        let reserve = ids::keep_reserved(store, of, dates, clock, stop.clone());
        join3(self.work(stop.clone()), revalidator.run(stop), reserve).map(drop).boxed()
    }

    async fn work(mut self, stop: CancellationToken) {
        self.recover(Vec::new(), &stop).await;
        let most = self.context.deployment.settings.admission_batch;
        let mut gathered = Vec::with_capacity(most);
        let mut check = tokio::time::interval(CHECK_EVERY);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some((batch, reply)) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    if let Err(failed) = self.handle_reply(batch, reply) {
                        let failed = self.drain(vec![failed]).await;
                        self.recover(failed, &stop).await;
                    }
                }
                () = stop.cancelled(), if self.in_flight.is_empty() => break,
                Some(Ok((shard, prepared))) = self.preparing.join_next(), if !self.preparing.is_empty() => {
                    for batch in pages(self.prepared(shard, prepared), most) {
                        self.send_into(batch, &stop).await;
                    }
                }
                Some(Ok(done)) = self.comparing.join_next(), if !self.comparing.is_empty() => {
                    self.journal.forget(&done.refused_ids);
                    self.note_reconciled(event::partition(self.partition.number()), done);
                }
                _ = check.tick() => {
                    if !self.is_reconciled().await {
                        let waiting = self.drain(Vec::new()).await;
                        self.recover(waiting, &stop).await;
                    }
                    self.expire();
                }
                taken = self.requests.recv_many(&mut gathered, most),
                    if self.in_flight.len() < IN_FLIGHT && !stop.is_cancelled() =>
                {
                    if taken == 0 {
                        break;
                    }
                    for batch in by_shard(&mut gathered) {
                        self.send_into(batch, &stop).await;
                    }
                }
            }
        }
        self.requests.close();
        for (_, waiting) in std::mem::take(&mut self.held) {
            reply_all(waiting, &Err(AdmissionError::Stopping));
        }
        while let Ok(request) = self.requests.try_recv() {
            request.reply(Instant::now(), Err(AdmissionError::Stopping));
        }
        let final_check = async {
            // Also when a reconciliation was interrupted.
            let open = self.run_id.is_none() || !self.journal.is_empty();
            if open && !self.is_reconciled().await {
                self.reconcile_partition().await?;
            }
            // A sale that is half reconciled stays closed until another process continues.
            while let Some(prepared) = self.preparing.join_next().await {
                if let Ok((shard, prepared)) = prepared {
                    reply_all(self.prepared(shard, prepared), &Err(AdmissionError::Stopping));
                }
            }
            Ok::<(), EngineError>(())
        };
        // The journal ends with this task.
        let checked = tokio::time::timeout(FINAL_CHECK_WITHIN, final_check).await;
        self.report_reconciled();
        match checked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(
                %error,
                "the final check of Redis failed: it may have lost buyers; run 'seckill audit' once it responds"
            ),
            Err(_) => tracing::error!(
                "the final check of Redis timed out: it may have lost buyers; run 'seckill audit' once it responds"
            ),
        }
    }

    /// Whether Redis answers, is the run that was reconciled, and its streams have lost nothing. Starts to reconcile
    /// sales whose keys are inconsistent.
    ///
    /// Redis itself records that it was reconciled: a FLUSHALL removes the record.
    async fn is_reconciled(&mut self) -> bool {
        let here = self.partition.reconciled();
        let mut look = redis::pipe();
        look.cmd("HGET").arg(&here).arg(&self.context.node).cmd("TIME");
        let conn = &mut self.servers.conn;
        let looked = conn.pipe::<(Option<String>, (i64, i64))>(&look).await;
        let Ok((reconciled, (seconds, micros))) = looked else { return false };
        self.redis_time.set(Millis(seconds * 1_000 + micros / 1_000));
        let run_id = conn.server(&here).map(|server| &server.run_id);
        if reconciled.is_none() || reconciled.as_ref() != run_id || run_id != self.run_id.as_ref() {
            self.run_id = None;
            return false;
        }
        self.journal.prune(Instant::now());
        let sales = self.sales_here();
        // A Redis that accepts no writes now is checked again later.
        if let Ok(damage) = reconcile::check(&mut self.servers, &self.partition, &sales).await {
            let for_all = damage.is_for_all_nodes();
            // Also in that case: a key of another type is found once, and renamed.
            self.damaged_streams.extend(damage.streams);
            if for_all {
                self.run_id = None;
                return false;
            }
            damage.cuts.into_iter().for_each(|shard| self.context.versions.note_cut(shard));
            let sales = damage.sales.into_iter().chain(damage.changed);
            sales.for_each(|shard| self.prepare(shard));
        }
        if !self.damaged_streams.is_empty() {
            return false;
        }
        self.note_peers().await;
        self.note_restored().await;
        true
    }

    /// Records that the other nodes were awaited; the watermark that says so may have been lost.
    async fn note_restored(&mut self) {
        // Buyers of a sale that is not reconciled yet may still be missing.
        let Some(run) = self.run_id.as_ref().filter(|_| self.left_out.is_empty()) else { return };
        let (conn, of, node) = (&mut self.servers.conn, &self.partition, &self.context.node);
        if let Err(error) = reconcile::note_restored(conn, of, node, run).await {
            tracing::debug!(%error, partition = of.number(), "stock cannot be removed yet");
        }
    }

    /// The sales of this partition that are known.
    fn sales_here(&self) -> Vec<Expected> {
        let mut sales = self.context.versions.current();
        sales.retain(|it| self.servers.keys.partition_of(it.shard) == self.partition);
        sales
    }

    /// Records which other nodes are alive: if Redis loses its data, this node waits for their promises.
    async fn note_peers(&mut self) {
        let NodeContext { node, deployment, .. } = &self.context;
        if let Ok(nodes) = Nodes::read(&mut self.servers.conn, &self.partition).await {
            let others = nodes.alive(deployment.settings.node_dead_ms).filter(|name| name != node);
            self.peers = others.map(str::to_owned).collect();
        }
    }

    /// Sends a batch to Redis, unless its sale is being reconciled or cannot be sold.
    async fn send_into(&mut self, batch: Batch, stop: &CancellationToken) {
        match self.send(batch).await {
            Ok(flight) => self.in_flight.extend(flight),
            Err(batch) => {
                let failed = self.drain(vec![batch]).await;
                self.recover(failed, stop).await;
            }
        }
    }

    /// Recent promises of this node and orders that its consumers hold, of the sales that `is_wanted` accepts.
    fn promises(&self, is_wanted: impl Fn(ShardId) -> bool) -> Vec<SaleOrder> {
        let all = self.journal.promises().chain(self.context.in_hand.promises());
        let wanted = all.filter(|it| is_wanted(it.sold_by()));
        // Of most, a consumer of this node holds the entry.
        wanted.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Starts a task that looks a sale up and reconciles it if it is damaged; other sales continue.
    fn prepare(&mut self, shard: ShardId) {
        if self.held.contains_key(&shard) {
            return;
        }
        self.held.insert(shard, Batch::new());
        self.refusals.remove(shard);
        let (mut servers, versions) = (self.context.servers(), self.context.versions.clone());
        let (run, token) = (self.run_id.clone().unwrap_or_default(), self.token.clone());
        let promises = self.promises(|it| it == shard);
        let refusals = Arc::clone(&self.refusals);
        self.preparing.spawn(async move {
            let mut reconciler = Reconciler { servers: &mut servers, run, token };
            let mut pause = BACKOFF[0];
            loop {
                let generation = refusals.generation();
                let preparing = prepare(&mut reconciler, &versions, shard, &promises);
                match AssertUnwindSafe(preparing).catch_unwind().await {
                    Ok(Ok(prepared)) => return (shard, Prepared { generation, ..prepared }),
                    Ok(Err(error)) => {
                        tracing::warn!(%shard, %error, "a sale could not be reconciled yet");
                    }
                    // Its requests would wait until the node is restarted.
                    Err(_) => tracing::error!(%shard, "reconciling a sale panicked"),
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF[1]);
            }
        });
    }

    /// Takes the result of that task; returns the requests that can be decided now.
    fn prepared(&mut self, shard: ShardId, prepared: Prepared) -> Batch {
        let waiting = self.held.remove(&shard).unwrap_or_default();
        self.left_out.remove(&shard);
        let Prepared { done, answer, mended, generation } = prepared;
        if let Some(fields) = mended {
            let NodeContext { outbox, node, .. } = &self.context;
            tracing::warn!(%shard, fields, "fields of a sale had been changed in Redis");
            let what = Event::Other(reason!("event-sale-mended", fields));
            outbox.put_own(node, SALE_FIXED, format!("#{}", shard.sale).into(), Message::of(&what));
        }
        self.journal.forget(&done.refused_ids);
        let (now, closed) = (Instant::now(), done.closed);
        // Each check finds it closed again, which is not a new event.
        self.noted.retain(|_, until| *until > now);
        let noted = closed.is_some()
            && self.noted.insert(shard, now + NOTED_FOR).is_some_and(|it| it > now);
        if !noted {
            self.note_reconciled(format!("#{}", shard.sale).into(), done);
        }
        let why = match (answer, closed) {
            (Some(answer), _) => answer,
            (None, Some(closed)) => Err(rejected(closed.error(shard.voucher()))),
            (None, None) => {
                self.noted.remove(&shard);
                return waiting;
            }
        };
        reply_all(waiting, &why);
        self.refusals.insert_of_sql(shard, why, generation);
        Batch::new()
    }

    /// Keeps requests until their sale is ready, at most as many as fit into the queue.
    fn hold(&mut self, shard: ShardId, batch: Batch) {
        // Each sale counts: clients may invent voucher IDs.
        let waiting: usize = self.held.values().map(|batch| batch.len().max(1)).sum();
        if waiting + batch.len() > self.rate.bound().get() {
            self.context.meters.note_busy(batch.len());
            return reply_all(batch, &Ok(Outcome::Busy));
        }
        self.prepare(shard);
        self.held.entry(shard).or_default().extend(batch);
    }

    /// Rejects requests that have waited too long for their sale.
    fn expire(&mut self) {
        let within = self.answer_within();
        for (shard, batch) in &mut self.held {
            let why = EngineError::Reconciling(self.servers.keys.sale(*shard));
            refuse_late(batch, within, Arc::new(why));
        }
    }

    /// Awaits the batches that are in flight; returns those that have to be retried, `failed` first.
    async fn drain(&mut self, failed: Vec<Batch>) -> Vec<Batch> {
        let mut all = failed;
        while let Some((batch, reply)) = self.in_flight.next().await {
            all.extend(self.handle_reply(batch, reply).err());
        }
        all
    }

    /// Proposes an order ID for each request and calls the script. Returns `None` if the batch needs no call, and the
    /// batch if Redis is unreachable.
    async fn send(&mut self, mut batch: Batch) -> Result<Option<Flight>, Batch> {
        let Some(shard) = batch.first().map(|request| request.shard) else { return Ok(None) };
        let known = self.context.versions.get(shard).filter(|known| !known.archived);
        let Some(known) = known.filter(|_| !self.held.contains_key(&shard)) else {
            self.hold(shard, batch);
            return Ok(None);
        };
        let Some(now) = self.redis_time.now() else { return Err(batch) };
        let missing = batch.iter().filter(|request| request.order.is_none()).count();
        let conn = &mut self.servers.conn;
        let issued = self.ids.issue_at(conn, missing, ids::second(now)).await;
        let here = self.partition.reconciled();
        if self.servers.conn.server(&here).map(|server| &server.run_id) != self.run_id.as_ref() {
            // Leased from a server that may have issued them before.
            return Err(batch);
        }
        match issued {
            Ok(ids) => {
                let at = Instant::now();
                let unnamed = batch.iter_mut().filter(|request| request.order.is_none());
                unnamed
                    .zip(ids)
                    .for_each(|(request, id)| request.order = Some(Proposal { id, at }));
            }
            Err(EngineError::Redis(error)) if error.is_away() => return Err(batch),
            Err(error @ EngineError::Reconciling(_)) => {
                self.last_error = Arc::new(error);
                self.run_id = None;
                return Err(batch);
            }
            Err(error) => {
                reply_all(batch, &Err(rejected(error)));
                return Ok(None);
            }
        }
        // No order ID is admitted later than a request may wait after it was issued, by the clock of Redis: what was
        // admitted and returned in the meantime is remembered for longer.
        let oldest = batch.iter().filter_map(|it| Some(it.order?.at.elapsed())).max();
        let left =
            self.answer_within().as_millis() as i64 - oldest.unwrap_or_default().as_millis() as i64;
        let Servers { conn, keys, .. } = &mut self.servers;
        let Ok(mut connection) = conn.multiplexed(&here).await else { return Err(batch) };
        if conn.server(&here).map(|server| &server.run_id) != self.run_id.as_ref() {
            // A different server process than the reconciled one.
            return Err(batch);
        }
        let (of, context) = (&self.partition, &self.context);
        let run_id = self.run_id.as_deref().unwrap_or_default();
        let again = batch.iter().filter(|request| request.again).count();
        let (node, version) = (&context.node, known.version);
        let mut call = admit_call(keys, of, shard, node, run_id, version, again);
        call.arg(now.plus(left).0);
        for request in &batch {
            call.arg(request.user.0);
        }
        for request in &batch {
            call.arg(request.order_id().map_or(0, OrderId::get));
        }
        let (replicas, wait_ms) =
            (context.deployment.settings.wait_replicas, context.deployment.settings.wait_ms);
        let payment = Duration::from_millis(context.deployment.settings.jobs.unpaid_ms);
        Ok(Some(Box::pin(async move {
            let sent = Instant::now();
            let reply = call.invoke_async::<Value>(&mut connection).await.map_err(Miss::Redis);
            faults::pass(Point::AfterAdmission);
            let reply = match reply {
                Ok(reply) if replicas > 0 => {
                    let mut wait = cmd("WAIT");
                    wait.arg(replicas).arg(wait_ms);
                    match wait.query_async::<u32>(&mut connection).await {
                        Ok(held) if held < replicas => Err(Miss::Unconfirmed(held)),
                        Ok(_) => Ok(reply),
                        Err(error) => Err(Miss::Unanswered(error)),
                    }
                }
                reply => reply,
            };
            let took = sent.elapsed();
            (
                batch,
                reply.and_then(|it| if took < payment { Ok(it) } else { Err(Miss::Late(took)) }),
            )
        })))
    }

    /// Replies to the requests of a batch, or returns it when its outcome is unknown.
    fn handle_reply(&mut self, batch: Batch, reply: Result<Value, Miss>) -> Result<(), Batch> {
        let now = Instant::now();
        let took = |request: &AdmissionRequest| now.duration_since(request.requested);
        let decision = match reply {
            Ok(reply) => decision(reply),
            // Retried with the same IDs: each buyer then learns what was decided now.
            Err(Miss::Unconfirmed(held)) => {
                let replicas = self.context.deployment.settings.wait_replicas;
                let why = reason!("admission-unconfirmed", held, replicas);
                self.last_error = Arc::new(EngineError::Failed(why));
                return Err(batch);
            }
            // The same.
            Err(Miss::Late(took)) => {
                let ms = took.as_millis() as u64;
                self.last_error = Arc::new(EngineError::Failed(reason!("admission-late", ms)));
                return Err(batch);
            }
            Err(Miss::Unanswered(error)) => {
                let error = self.servers.conn.broke(&self.partition.reconciled(), &error);
                self.last_error = Arc::new(error.into());
                return Err(batch);
            }
            Err(Miss::Redis(error)) => {
                let error = self.servers.conn.broke(&self.partition.reconciled(), &error);
                if error.is_away() {
                    self.last_error = Arc::new(error.into());
                    return Err(batch);
                }
                reply_all(batch, &Err(rejected(error)));
                return Ok(());
            }
        };
        match decision {
            Some(Decision::NotReconciled) => {
                self.last_error = Arc::new(EngineError::Reconciling(self.partition.orders()));
                self.run_id = None;
                return Err(batch);
            }
            Some(Decision::StreamsDamaged) => {
                self.last_error = Arc::new(EngineError::Reconciling(self.partition.orders()));
                self.damaged_streams.push("orders".to_owned());
                return Err(batch);
            }
            Some(Decision::SaleDamaged) => {
                if let Some(shard) = batch.first().map(|request| request.shard) {
                    self.hold(shard, batch);
                }
                return Ok(());
            }
            Some(Decision::All(outcome)) => {
                self.context.meters.note_latencies(batch.iter().map(took));
                if matches!(outcome, Outcome::Paused | Outcome::Ended | Outcome::NotStarted { .. })
                {
                    self.note_refused(&batch, batch.len());
                }
                reply_all(batch, &Ok(outcome));
            }
            Some(Decision::Each(answers)) => {
                if let Some(first) = batch.first() {
                    let waiting = !self.requests.is_empty();
                    self.rate.note(batch.len(), first.requested, waiting, now);
                }
                self.context.meters.note_latencies(batch.iter().map(took));
                let too_late = answers.iter().filter(|it| is_not_any_more(it)).count();
                if too_late > 0 {
                    tracing::warn!(requests = too_late, "order IDs are not admitted any more");
                }
                let refused = |it: &&Value| outcome_of(it, None) == Some((Outcome::SoldOut, 0));
                self.note_refused(&batch, answers.iter().filter(refused).count());
                for (request, answer) in batch.into_iter().zip(answers) {
                    if is_not_any_more(&answer) {
                        request.reply(now, Err(AdmissionError::TooLate));
                        continue;
                    }
                    let outcome = outcome_of(&answer, request.order_id());
                    if let Some((Outcome::Admitted { order: id }, place)) = outcome {
                        let (user_id, by) = (request.user, request.shard);
                        let (voucher_id, shard) = (by.voucher(), by.number);
                        let order = SaleOrder { id, user_id, voucher_id, shard, place };
                        self.journal.note(now, order);
                    }
                    let outcome = outcome.map(|(outcome, _)| outcome);
                    request.reply(now, outcome.ok_or_else(unreadable));
                }
            }
            // It answers a batch so only if there are no requests.
            Some(Decision::WouldRefuse { .. } | Decision::WouldAdmit) | None => {
                reply_all(batch, &Err(unreadable()));
            }
        }
        Ok(())
    }

    fn note_refused(&self, batch: &Batch, requests: usize) {
        if let Some(request) = batch.first() {
            self.refusals.note_refused(request.shard, requests);
        }
    }

    /// Waits until Redis answers again, reconciles it if it was restarted, and retries the requests whose outcome is
    /// unknown: with the same IDs, so that no buyer is admitted twice.
    async fn recover(&mut self, mut waiting: Vec<Batch>, stop: &CancellationToken) {
        self.refusals.clear();
        let mut pause = BACKOFF[0];
        loop {
            // After a stop, the last check or the next start completes what is left.
            let reconciled = stop.run_until_cancelled(self.reconcile_partition()).await;
            match reconciled.unwrap_or(Err(EngineError::Stopping)) {
                Ok(()) => match self.retry(std::mem::take(&mut waiting)).await {
                    Ok(()) => return self.rate.restart(),
                    Err(left) => waiting = left,
                },
                Err(error) => {
                    tracing::warn!(%error, "reconciliation failed; admission waits");
                    self.last_error = Arc::new(error);
                }
            }
            // Requests beyond that stay in the queue, which replies `Busy` at its bound.
            if waiting.iter().map(Vec::len).sum::<usize>() < self.rate.bound().get() {
                self.empty_queue(&mut waiting);
            }
            for batch in &mut waiting {
                refuse_late(batch, self.answer_within(), self.last_error.clone());
            }
            waiting.retain(|batch| !batch.is_empty());
            self.expire();
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                let waiting = waiting.into_iter().flatten();
                return reply_all(waiting, &Err(AdmissionError::Stopping));
            }
            pause = (pause * 2).min(BACKOFF[1]);
        }
    }

    /// Takes requests out of the queue during an outage, so that they can expire.
    fn empty_queue(&mut self, waiting: &mut Vec<Batch>) {
        let mut requests = Vec::new();
        while requests.len() < self.rate.bound().get() {
            match self.requests.try_recv() {
                Ok(request) => requests.push(request),
                Err(_) => break,
            }
        }
        let most = self.context.deployment.settings.admission_batch;
        waiting.extend(by_shard(&mut requests).flat_map(|batch| pages(batch, most)));
    }

    async fn reconcile_partition(&mut self) -> Result<()> {
        let here = self.partition.reconciled();
        self.servers.conn.multiplexed(&here).await?;
        let run_id = self.servers.conn.server(&here).map(|server| server.run_id.clone());
        if self.run_id != run_id {
            partitions::check(&self.servers).await?;
            // A FLUSHALL removed that, too.
            deployment::tie(&mut self.servers, false).await?;
            for sale in self.servers.sales_of(&self.partition).await? {
                self.context.versions.note(&sale);
            }
        }
        former_names::rename(&mut self.servers, &self.partition).await?;
        let now = self.servers.conn.now_at(&here).await?;
        self.redis_time.set(now);
        let sales = self.sales_here();
        match reconcile::check(&mut self.servers, &self.partition, &sales).await {
            Ok(damage) => {
                if damage.is_for_all_nodes() {
                    reconcile::summon_all(&mut self.servers.conn, &self.partition).await?;
                    self.run_id = None;
                }
                self.damaged_streams.extend(damage.streams);
            }
            // It was reconciled and accepts no writes now, which each batch reports.
            Err(error) if !error.is_away() && self.run_id == run_id => {
                tracing::warn!(%error, "the keys of the partition could not be checked");
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(run) = run_id
            && self.run_id.as_ref() != Some(&run)
        {
            self.reconcile_run(run).await?;
        }
        if !self.damaged_streams.is_empty() {
            let (of, seen) = (&self.partition, &self.damaged_streams);
            let mut reconciler = Reconciler::new(&mut self.servers, of, &self.token).await?;
            reconciler.streams(of, seen, &mut self.reconciled).await?;
            self.report_reconciled();
            self.damaged_streams.clear();
        }
        Ok(())
    }

    /// Reconciles the partition on a run of its server that this node has not reconciled.
    async fn reconcile_run(&mut self, run: String) -> Result<()> {
        let (servers, of) = (&mut self.servers, &self.partition);
        self.ids.reclaim(&mut servers.conn).await?;
        let is_first = !is_reconciled(&mut servers.conn, of, &run).await?;
        let last = self.ids.last_second();
        self.ids.date_in(Dates::of_run(servers, of, &run, last).await?);
        let promises = self.promises(|shard| self.servers.keys.partition_of(shard) == *of);
        let (token, done) = (&self.token, &mut self.reconciled);
        let left = if is_first {
            reconcile_by_count(&mut self.servers, of, &promises, token, done).await
        } else {
            let scope = Scope::IfNeeded;
            reconcile_each(&mut self.servers, of, &promises, token, scope, done).await
        };
        self.journal.forget(&self.reconciled.refused_ids);
        let left = left?;
        self.left_out = left.iter().map(|(shard, _)| *shard).collect();
        if is_first {
            self.comparing.abort_all();
            self.comparing.spawn(compare_until_done(self.context.deployment.servers(), of.clone()));
        }
        let is_lost = !self.reconciled.keys.is_empty();
        self.report_reconciled();
        let NodeContext { node, deployment, .. } = &self.context;
        let (conn, dead_ms) = (&mut self.servers.conn, deployment.settings.node_dead_ms);
        await_peers(conn, &self.partition, node, &run, &self.peers, dead_ms, is_lost).await?;
        self.note_peers().await;
        self.note_run(&run, is_first).await?;
        self.is_witness = true;
        // A restart in the middle of it is noticed by the next connection.
        self.run_id = Some(run);
        for (shard, error) in left {
            tracing::error!(%shard, %error, "a sale could not be reconciled; it stays closed until it is");
            let NodeContext { outbox, node, .. } = &self.context;
            let (sale, what) = (format!("#{}", shard.sale), Message::of(&Event::Error(error)));
            outbox.put_own(node, SALE_UNRECONCILED, sale.into(), what);
            self.prepare(shard);
        }
        self.note_restored().await;
        Ok(())
    }

    /// Remembers the run of the server in SQL. If no node lived when the last run ended, and Redis does not show that it
    /// has all that was written in it, what may be missing is an event.
    async fn note_run(&mut self, run: &str, is_first: bool) -> Result<()> {
        let of = &self.partition;
        let name = format!("redis_run_{}", of.number());
        let before = self.servers.store.setting(&name).await?;
        if before.as_deref() != Some(run) {
            let Servers { conn, keys, .. } = &mut self.servers;
            let mut stopped: Vec<Option<String>> =
                vec![conn.query(cmd("GET").arg(of.stopped())).await?];
            if !conn.is_cluster() {
                stopped.push(conn.query(cmd("GET").arg(keys.home().stopped())).await?);
            }
            let is_kept = stopped.contains(&before);
            let is_alone = is_first && !self.is_witness && self.peers.is_empty();
            let mut is_noted = true;
            if before.is_some() && is_alone && !is_kept {
                let lost = deployment::may_lose(&self.context.deployment, conn, of).await?;
                if let Some(seconds) = lost {
                    let newest = self.servers.partition_stats(of).await?.stream.generated;
                    let newest = newest.map(seckill_model::EntryId::added);
                    let unwitnessed = Some(Unwitnessed { seconds, newest });
                    let done = Reconciled { unwitnessed, ..Reconciled::default() };
                    self.note_reconciled(event::partition(of.number()), done);
                    // Before the run counts as known: otherwise the next start finds it again.
                    is_noted = self.context.outbox.write(&self.servers.store).await;
                }
            }
            let store = &self.servers.store;
            if is_noted {
                store.change_setting(&name, before.as_deref(), run).await?;
            }
        }
        let Servers { conn, keys, .. } = &mut self.servers;
        conn.query::<u64>(cmd("DEL").arg(of.stopped())).await?;
        // In a cluster, it may lie on another server.
        if !conn.is_cluster() {
            conn.query::<u64>(cmd("DEL").arg(keys.home().stopped())).await?;
        }
        Ok(())
    }

    /// Records what was reconciled in the partition so far.
    fn report_reconciled(&mut self) {
        let done = std::mem::take(&mut self.reconciled);
        self.note_reconciled(event::partition(self.partition.number()), done);
    }

    /// Records what Redis lost in the audit log.
    fn note_reconciled(&self, subject: Message, done: Reconciled) {
        if done == Reconciled::default() {
            return;
        }
        let ids = |ids: &[OrderId]| {
            ids.iter().take(1_000).map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let (promised, refused) = (ids(&done.promised_ids), ids(&done.refused_ids));
        tracing::warn!(%subject, promised, refused, "Redis had lost data and was reconciled; the audit log has the details");
        let NodeContext { outbox, node, .. } = &self.context;
        outbox.put_own(node, REDIS_RECONCILED, subject, Message::of(&Event::DataLoss(done)));
    }

    fn answer_within(&self) -> Duration {
        Duration::from_millis(self.context.deployment.settings.answer_within_ms)
    }

    async fn retry(&mut self, batches: Vec<Batch>) -> Result<(), Vec<Batch>> {
        let mut batches = batches.into_iter();
        while let Some(batch) = batches.next() {
            let failed = match self.send(batch).await {
                Ok(None) => None,
                Ok(Some(flight)) => {
                    let (batch, reply) = flight.await;
                    self.handle_reply(batch, reply).err()
                }
                Err(batch) => Some(batch),
            };
            if let Some(batch) = failed {
                return Err(std::iter::once(batch).chain(batches).collect());
            }
        }
        Ok(())
    }
}

/// Looks a sale up in SQL, and reconciles it if its keys in Redis are inconsistent or of an older version.
async fn prepare(
    reconciler: &mut Reconciler<'_>,
    versions: &SaleVersions,
    shard: ShardId,
    promises: &[SaleOrder],
) -> Result<Prepared> {
    let answered = |answer| Ok(Prepared { answer: Some(answer), ..Prepared::default() });
    let shards = match reconciler.servers.store.shards_of(shard.sale).await {
        Err(StoreError::NoSale(sale)) => {
            // What is sold while SQL lacks the sale could not be written.
            return answered(match no_sale(reconciler.servers, sale).await {
                EngineError::Store(_) => Ok(Outcome::NotLoaded),
                lost => Err(rejected(lost)),
            });
        }
        shards => shards?,
    };
    for shard in &shards {
        versions.note(shard);
    }
    // Of a sale that is spread over shards, the next request knows to which it belongs.
    let Some(sale) = shards.into_iter().find(|it| it.id == shard) else {
        return answered(Ok(Outcome::Busy));
    };
    let of = reconciler.servers.keys.partition_of(shard);
    let reconciling = EngineError::Reconciling(reconciler.servers.keys.sale(shard));
    let damage = reconcile::check(reconciler.servers, &of, &[Expected::from(&sale)]).await?;
    if damage.is_for_all_nodes() {
        reconcile::summon_all(&mut reconciler.servers.conn, &of).await?;
        return Err(EngineError::Reconciling(of.orders()));
    }
    let mut done = reconciler.sale(shard, promises, Scope::IfNeeded).await?;
    done.keys.extend(Damage::put_right(&damage.streams));
    if sale.state == SaleState::Archived {
        let answer = Some(Ok(Outcome::Ended));
        return Ok(Prepared { done, answer, ..Prepared::default() });
    }
    // The delivery task records in SQL that Redis has a change: buyers do not wait for a write. A sale whose stock is
    // being reduced has this version, and stays open.
    let mut mended = None;
    if done.closed.is_none() {
        match sale_copy::try_sync(reconciler.servers, &sale, "").await? {
            Synced::Damaged => return Err(reconciling),
            Synced::Mended(fields) => mended = Some(fields),
            Synced::Split => {
                adopt(reconciler.servers, shard, false).await?;
                return Err(reconciling);
            }
            _ => {}
        }
    }
    let known = versions.get(shard).map_or(0, |known| known.version);
    if sale.version < known {
        // SQL was restored from an older copy. Redis may hold the newer version; an older one is not sold before the delivery
        // has paused it, and not retried immediately.
        let held = sale_copy::version(reconciler.servers, shard).await;
        if held.is_none_or(|held| held < known) {
            return Err(reconciling);
        }
    }
    Ok(Prepared { done, mended, ..Prepared::default() })
}

/// Compares the orders of a partition with their buyers; repeats that after an error.
async fn compare_until_done(mut servers: Servers, of: Partition) -> Reconciled {
    let (mut pause, mut done) = (BACKOFF[1], Reconciled::default());
    loop {
        match AssertUnwindSafe(compare(&mut servers, &of, &mut done)).catch_unwind().await {
            Ok(Ok(())) => return done,
            Err(_) => tracing::error!(partition = of.number(), "comparing the orders panicked"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the orders could not be compared with their buyers; the comparison is repeated");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(COMPARE_AGAIN);
    }
}

/// Splits a batch into batches of at most this many requests.
fn pages(batch: Batch, most: usize) -> impl Iterator<Item = Batch> {
    let mut rest = batch.into_iter();
    std::iter::from_fn(move || Some(rest.by_ref().take(most).collect::<Batch>()))
        .take_while(|page| !page.is_empty())
}

/// Replies to the requests that have waited for too long.
fn refuse_late(batch: &mut Batch, within: Duration, why: Arc<EngineError>) {
    let late = |request: &mut AdmissionRequest| request.requested.elapsed() > within;
    reply_all(batch.extract_if(.., late), &Err(AdmissionError::NoAnswer(why)));
}

fn unreadable() -> AdmissionError {
    rejected(RedisError::reply("admit.lua"))
}

fn rejected(error: impl Into<EngineError>) -> AdmissionError {
    AdmissionError::Rejected(Arc::new(error.into()))
}
