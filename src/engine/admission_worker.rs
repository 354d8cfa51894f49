//! The gate: the task behind the queue of one partition, the only one that runs the admission script there.
//!
//! It admits only through a server that it has made whole. What it promised lately it remembers, for Redis may
//! lose its last seconds: a restart or a failover is noticed before the next buyer.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use redis::{RedisError, Value, cmd};
use seckill_model::{
    Millis, OrderId, Outcome, Place, Said, SaleState, VoucherId,
    faults::{self, Point},
    locale::in_english,
};
use seckill_redis::{BrokerError, Layout, Link, Redis, keys::Partition, nodes::Nodes, scripts};
use seckill_store::{SharedStore, StoreError};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    admission::{AdmissionError, Ask, Batch, by_voucher, refuse},
    admission_reply::{Obstacle, obstacle, outcome_of, whole_batch},
    deployment,
    ids::{IdWorker, first_second},
    messages::{Event, Subject},
    outbox::Outbox,
    partitions,
    promise_journal::{Admitted, InHand, Journal},
    reconcile::{self, Closed, Damage, Reconciled, Reconciler, await_peers, is_healed, reconcile},
    sale_versions::SaleVersions,
    settings::Settings,
    vouchers::{self, Synced},
};
use crate::telemetry::{
    Meters,
    data_loss::{HEALED, Healed},
};

/// Batches on their way at once: one is with Redis while the next is being packed.
const IN_FLIGHT: usize = 2;
const BACKOFF: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
/// How often Redis is asked for a sign when no buyer comes: a restart must not go unnoticed while
/// the journal still knows what it lost.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Bound on the last look before the end.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// A sale that can't be sold is looked at again after this long.
const CLOSED_FOR: Duration = Duration::from_secs(1);
/// The event of a sale that stays closed is repeated after this long, as long as its alarm lasts.
const NOTED_FOR: Duration = Duration::from_mins(10);

type Flight = BoxFuture<'static, (Batch, Result<Value, Miss>)>;

/// Why a batch came back without answers that may be passed on.
#[derive(Debug)]
enum Miss {
    Redis(RedisError),
    /// Redis decided, but only so many replicas hold it.
    Unconfirmed(u32),
}

/// How a sale is found once it was looked up and, where it was damaged, reconciled.
#[derive(Debug)]
enum Prepared {
    /// It admits buyers, after what was put right.
    Ready(Reconciled),
    /// It is over, and has left Redis, after what was removed there.
    Archived(Reconciled),
    /// SQL has no such sale.
    NoSale,
}

/// The task behind [`Admission`]: one a node and partition, the only one that runs the admission script
/// there.
#[derive(Debug)]
pub struct Gate {
    node: String,
    partition: Partition,
    node_dead_ms: u64,
    /// Other nodes that were alive when Redis was last looked at.
    peers: Vec<String>,
    asks: mpsc::Receiver<Ask>,
    link: Link,
    ids: IdWorker,
    journal: Journal,
    /// What the consumers of this node have in hand, of all partitions.
    in_hand: InHand,
    run_id: Option<String>,
    /// What stood in the way last.
    trouble: String,
    batch: usize,
    /// Replicas that have to hold a batch before its buyers are told, and how long they are waited for.
    wait: (u32, Duration),
    answer_within: Duration,
    store: SharedStore,
    keys: Layout,
    meters: Arc<Meters>,
    outbox: Outbox,
    redis: Redis,
    versions: SaleVersions,
    /// Under which this task reconciles.
    token: Arc<str>,
    /// Streams of the partition that have lost entries, and keys that a look has put right.
    damaged_streams: Vec<String>,
    /// Requests that wait for a sale which is looked up or reconciled; the other sales go on.
    held: HashMap<VoucherId, Batch>,
    /// The tasks that do so, one a sale; they end with this one.
    preparing: JoinSet<(VoucherId, Prepared)>,
    /// Sales that can't be sold, and until when that is not looked at again.
    closed: HashMap<VoucherId, (Instant, Result<Outcome, AdmissionError>)>,
    /// Sales that stay closed until a person has resolved that, and until when the event of it is not repeated.
    noted: HashMap<VoucherId, Instant>,
}

impl Gate {
    #[allow(clippy::too_many_arguments, reason = "a gate stands between all of them")]
    pub(super) fn new(
        node: &str,
        partition: Partition,
        asks: mpsc::Receiver<Ask>,
        redis: &Redis,
        store: &SharedStore,
        keys: &Layout,
        settings: &Settings,
        meters: &Arc<Meters>,
        versions: &SaleVersions,
    ) -> Self {
        Self {
            node: node.to_owned(),
            node_dead_ms: settings.node_dead_ms,
            peers: Vec::new(),
            asks,
            link: redis.link(),
            ids: IdWorker::new(partition.clone()),
            partition,
            journal: Journal::default(),
            in_hand: InHand::default(),
            run_id: None,
            trouble: String::new(),
            batch: settings.admission_batch,
            wait: (settings.wait_replicas, Duration::from_millis(settings.wait_ms)),
            answer_within: Duration::from_millis(settings.answer_within_ms),
            store: Arc::clone(store),
            keys: keys.clone(),
            meters: Arc::clone(meters),
            outbox: Outbox::default(),
            redis: redis.clone(),
            versions: versions.clone(),
            token: reconcile::new_token().into(),
            damaged_streams: Vec::new(),
            held: HashMap::new(),
            preparing: JoinSet::new(),
            closed: HashMap::new(),
            noted: HashMap::new(),
        }
    }

    /// What it writes into the audit log waits in the node's queue while the database is away.
    #[must_use]
    pub fn recording(mut self, outbox: &Outbox) -> Self {
        self.outbox = outbox.clone();
        self
    }

    /// Puts back also the orders that the consumers of its node have in hand.
    #[must_use]
    pub fn sharing(mut self, in_hand: &InHand) -> Self {
        self.in_hand = in_hand.clone();
        self
    }

    /// Works until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        self.recover(Vec::new(), &stop).await;
        let mut in_flight: FuturesOrdered<Flight> = FuturesOrdered::new();
        let mut gathered = Vec::with_capacity(self.batch);
        let mut check = tokio::time::interval(CHECK_EVERY);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some((batch, reply)) = in_flight.next(), if !in_flight.is_empty() => {
                    if let Err(failed) = self.land(batch, reply) {
                        let failed = self.hear_out(vec![failed], &mut in_flight).await;
                        self.recover(failed, &stop).await;
                    }
                }
                () = stop.cancelled(), if in_flight.is_empty() => break,
                Some(Ok((voucher, prepared))) = self.preparing.join_next(), if !self.preparing.is_empty() => {
                    let mut waiting = self.prepared(voucher, prepared);
                    while !waiting.is_empty() {
                        let rest = waiting.split_off(waiting.len().min(self.batch));
                        let batch = std::mem::replace(&mut waiting, rest);
                        self.launch_into(batch, &mut in_flight, &stop).await;
                    }
                }
                _ = check.tick() => {
                    if !self.is_whole().await {
                        let waiting = self.hear_out(Vec::new(), &mut in_flight).await;
                        self.recover(waiting, &stop).await;
                    }
                    self.expire();
                }
                taken = self.asks.recv_many(&mut gathered, self.batch),
                    if in_flight.len() < IN_FLIGHT && !stop.is_cancelled() =>
                {
                    if taken == 0 {
                        break;
                    }
                    for batch in by_voucher(&mut gathered) {
                        self.launch_into(batch, &mut in_flight, &stop).await;
                    }
                }
            }
        }
        self.asks.close();
        for (_, waiting) in std::mem::take(&mut self.held) {
            refuse(waiting, &AdmissionError::Stopping);
        }
        while let Ok(ask) = self.asks.try_recv() {
            ask.tell(Instant::now(), Err(AdmissionError::Stopping));
        }
        let last_look = async {
            // Also where a reconciliation was broken off.
            let open = self.run_id.is_none() || !self.journal.is_empty();
            if open && !self.is_whole().await {
                self.heal().await?;
            }
            // A sale that is half reconciled admits no buyer until another process goes on.
            while let Some(prepared) = self.preparing.join_next().await {
                if let Ok((voucher, prepared)) = prepared {
                    refuse(self.prepared(voucher, prepared), &AdmissionError::Stopping);
                }
            }
            Ok::<(), EngineError>(())
        };
        // With this task its journal ends.
        match tokio::time::timeout(LAST_LOOK, last_look).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(
                %error,
                "Redis could not be asked whether it lost anybody; run 'seckill audit' once it answers"
            ),
            Err(_) => tracing::error!(
                "Redis did not say in time whether it lost anybody; run 'seckill audit' once it answers"
            ),
        }
    }

    /// Whether Redis answers, is the one that was reconciled, and its streams have lost nothing. Sales whose keys do not
    /// agree are reconciled beside.
    ///
    /// It says so itself: a FLUSHALL takes that word with it.
    async fn is_whole(&mut self) -> bool {
        let mut look = redis::pipe();
        look.cmd("HGET").arg(self.partition.healed()).arg(&self.node);
        let Ok((healed,)) = self.link.pipe::<(Option<String>,)>(&look).await else { return false };
        let run_id = self.link.server(&self.partition.healed()).map(|server| &server.run_id);
        if healed.is_none() || healed.as_ref() != run_id || run_id != self.run_id.as_ref() {
            self.run_id = None;
            return false;
        }
        self.journal.prune(Instant::now());
        let of = self.partition.clone();
        let sales = self.sales_here();
        // A Redis that takes no writes now is asked again at the next check.
        if let Ok(damage) = reconcile::check(&mut self.link, &self.keys, &of, &sales).await {
            let for_all = damage.is_for_all_nodes();
            // Also then: a key of another type is found once, and renamed.
            self.damaged_streams.extend(damage.streams);
            if for_all {
                self.run_id = None;
                return false;
            }
            damage.sales.into_iter().for_each(|voucher| self.prepare(voucher));
        }
        if !self.damaged_streams.is_empty() {
            return false;
        }
        self.see_peers().await;
        true
    }

    /// The sales of this partition that are known, each with its time of creation.
    fn sales_here(&self) -> Vec<(VoucherId, Millis)> {
        let mut sales = self.versions.current();
        sales.retain(|(voucher, _)| self.keys.partition_of(*voucher) == self.partition);
        sales
    }

    /// Notes which other nodes are alive: their promises are waited for, should Redis lose its data.
    async fn see_peers(&mut self) {
        if let Ok(nodes) = Nodes::read(&mut self.link, &self.partition).await {
            let others = nodes.alive(self.node_dead_ms).filter(|name| *name != self.node);
            self.peers = others.map(str::to_owned).collect();
        }
    }

    /// Sends a batch, unless its sale is held or can't be sold.
    async fn launch_into(
        &mut self,
        batch: Batch,
        in_flight: &mut FuturesOrdered<Flight>,
        stop: &CancellationToken,
    ) {
        match self.launch(batch).await {
            Ok(flight) => in_flight.extend(flight),
            Err(batch) => {
                let failed = self.hear_out(vec![batch], in_flight).await;
                self.recover(failed, stop).await;
            }
        }
    }

    /// What this node has promised lately or has in hand, of the sales that `is_asked` for.
    fn promises(&self, is_asked: impl Fn(VoucherId) -> bool) -> Vec<Admitted> {
        let all = self.journal.promises().chain(self.in_hand.promises());
        all.filter(|it| is_asked(it.voucher)).collect()
    }

    /// Looks a sale up and reconciles it where it is damaged, beside all others.
    fn prepare(&mut self, voucher: VoucherId) {
        if self.held.contains_key(&voucher) {
            return;
        }
        self.held.insert(voucher, Batch::new());
        let (store, keys, versions) =
            (Arc::clone(&self.store), self.keys.clone(), self.versions.clone());
        let (mut link, run) = (self.redis.link(), self.run_id.clone().unwrap_or_default());
        let token = Arc::clone(&self.token);
        let promises = self.promises(|it| it == voucher);
        self.preparing.spawn(async move {
            let mut pause = BACKOFF[0];
            loop {
                let prepared = {
                    let (link, token) = (&mut link, &*token);
                    let reconciler =
                        Reconciler { store: &store, link, keys: &keys, run: &run, token };
                    prepare(reconciler, &versions, voucher, &promises)
                };
                match prepared.await {
                    Ok(prepared) => return (voucher, prepared),
                    Err(error) => tracing::warn!(%voucher, %error, "a sale waits to be reconciled"),
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF[1]);
            }
        });
    }

    /// Takes what became of a sale; returns the requests that may be decided now.
    fn prepared(&mut self, voucher: VoucherId, prepared: Prepared) -> Batch {
        let waiting = self.held.remove(&voucher).unwrap_or_default();
        let why = match prepared {
            Prepared::Ready(done) => {
                self.journal.forget(&done.refused);
                let closed = done.closed;
                // It is found closed again at each check, which is no event.
                let now = Instant::now();
                self.noted.retain(|_, until| *until > now);
                let noted = closed.is_some()
                    && self.noted.insert(voucher, now + NOTED_FOR).is_some_and(|it| it > now);
                if !noted {
                    self.note_reconciled(format!("#{voucher}").into(), done);
                }
                match closed {
                    None => {
                        self.noted.remove(&voucher);
                        return waiting;
                    }
                    Some(closed) => Err(AdmissionError::Refused(english(&closed.error(voucher)))),
                }
            }
            Prepared::Archived(done) => {
                self.note_reconciled(format!("#{voucher}").into(), done);
                Ok(Outcome::Ended)
            }
            Prepared::NoSale => Ok(Outcome::NotLoaded),
        };
        let now = Instant::now();
        for ask in waiting {
            ask.tell(now, why.clone());
        }
        self.closed.retain(|_, (until, _)| *until > now);
        self.closed.insert(voucher, (now + CLOSED_FOR, why));
        Batch::new()
    }

    /// Keeps requests until their sale is ready; there is room for as many as in the queue.
    fn hold(&mut self, voucher: VoucherId, batch: Batch) {
        self.prepare(voucher);
        let waiting: usize = self.held.values().map(Vec::len).sum();
        if waiting + batch.len() > self.asks.max_capacity() {
            let now = Instant::now();
            return batch.into_iter().for_each(|ask| {
                self.meters.note_busy();
                ask.tell(now, Ok(Outcome::Busy));
            });
        }
        self.held.entry(voucher).or_default().extend(batch);
    }

    /// Refuses requests that have waited for their sale for too long.
    fn expire(&mut self) {
        let within = self.answer_within;
        for (voucher, batch) in &mut self.held {
            let why = english(&EngineError::Reconciling(self.keys.sale(*voucher)));
            let late = |ask: &mut Ask| ask.asked.elapsed() > within;
            refuse(batch.extract_if(.., late), &AdmissionError::NoAnswer(why));
        }
    }

    /// Before failed batches are asked again, those that were sent with them are heard out.
    async fn hear_out(
        &mut self,
        failed: Vec<Batch>,
        in_flight: &mut FuturesOrdered<Flight>,
    ) -> Vec<Batch> {
        let mut all = failed;
        while let Some((batch, reply)) = in_flight.next().await {
            all.extend(self.land(batch, reply).err());
        }
        all
    }

    /// Gives each buyer of the batch a proposed id and packs the script's call; none where the batch is answered or held
    /// without it. The batch comes back when Redis can't be asked now.
    async fn launch(&mut self, mut batch: Batch) -> Result<Option<Flight>, Batch> {
        let Some(voucher) = batch.first().map(|ask| ask.voucher) else { return Ok(None) };
        let now = Instant::now();
        if let Some((_, why)) = self.closed.get(&voucher).filter(|(until, _)| *until > now) {
            for ask in batch {
                ask.tell(now, why.clone());
            }
            return Ok(None);
        }
        let known = self.versions.get(voucher).filter(|known| !known.archived);
        let Some(known) = known.filter(|_| !self.held.contains_key(&voucher)) else {
            self.hold(voucher, batch);
            return Ok(None);
        };
        let missing = batch.iter().filter(|ask| ask.order.is_none()).count();
        match self.ids.issue(&mut self.link, missing).await {
            Ok(ids) => {
                let unnamed = batch.iter_mut().filter(|ask| ask.order.is_none());
                unnamed.zip(ids).for_each(|(ask, id)| ask.order = Some(id));
            }
            Err(EngineError::Broker(error)) if error.is_away() => return Err(batch),
            Err(error) => {
                refuse(batch, &AdmissionError::Refused(english(&error)));
                return Ok(None);
            }
        }
        let here = self.partition.healed();
        let Ok(mut connection) = self.link.connection(&here).await else { return Err(batch) };
        if self.link.server(&here).map(|server| &server.run_id) != self.run_id.as_ref() {
            // Another server process than the one that was made whole.
            return Err(batch);
        }
        let (keys, of) = (&self.keys, &self.partition);
        let mut call = scripts::ADMIT.prepare_invoke();
        call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
        call.key(of.orders()).key(keys.tally(voucher)).key(of.healed()).key(of.watermark());
        call.arg(of.group()).arg(voucher.0);
        call.arg(&self.node).arg(self.run_id.as_deref().unwrap_or_default()).arg(known.version);
        for ask in &batch {
            call.arg(ask.user.0);
        }
        for ask in &batch {
            call.arg(ask.order.map_or(0, OrderId::get));
        }
        let (replicas, bound) = self.wait;
        Ok(Some(Box::pin(async move {
            let reply = call.invoke_async::<Value>(&mut connection).await.map_err(Miss::Redis);
            faults::pass(Point::AfterAdmission);
            if replicas == 0 || reply.is_err() {
                return (batch, reply);
            }
            let mut wait = cmd("WAIT");
            wait.arg(replicas).arg(bound.as_millis() as u64);
            match wait.query_async::<u32>(&mut connection).await {
                Ok(held) if held < replicas => (batch, Err(Miss::Unconfirmed(held))),
                Ok(_) => (batch, reply),
                Err(error) => (batch, Err(Miss::Redis(error))),
            }
        })))
    }

    /// Answers the buyers of a batch, or gives it back when its outcome is not known.
    fn land(&mut self, batch: Batch, reply: Result<Value, Miss>) -> Result<(), Batch> {
        let now = Instant::now();
        match reply {
            Ok(reply) if let Some(obstacle) = obstacle(&reply) => match obstacle {
                Obstacle::NotHealed => {
                    "Redis was emptied and is being reconciled".clone_into(&mut self.trouble);
                    self.run_id = None;
                    Err(batch)
                }
                Obstacle::Streams => {
                    self.trouble = english(&EngineError::Reconciling(self.partition.orders()));
                    self.damaged_streams.push("orders".to_owned());
                    Err(batch)
                }
                Obstacle::Sale => {
                    if let Some(voucher) = batch.first().map(|ask| ask.voucher) {
                        self.hold(voucher, batch);
                    }
                    Ok(())
                }
            },
            Ok(reply) => {
                self.meters.note_latencies(batch.iter().map(|ask| now.duration_since(ask.asked)));
                self.answer(now, batch, reply);
                Ok(())
            }
            // Asked again under the same ids: each buyer then learns what was decided now.
            Err(Miss::Unconfirmed(held)) => {
                self.trouble = format!("only {held} of {} replicas hold it yet", self.wait.0);
                Err(batch)
            }
            Err(Miss::Redis(error)) => match self.link.broke(&self.partition.healed(), &error) {
                away if away.is_away() => {
                    self.trouble = english(&away);
                    Err(batch)
                }
                refused => {
                    refuse(batch, &AdmissionError::Refused(english(&refused)));
                    Ok(())
                }
            },
        }
    }

    fn answer(&mut self, now: Instant, batch: Batch, reply: Value) {
        let Value::Array(answers) = reply else {
            let what = english(&BrokerError::Reply("the admission script"));
            return refuse(batch, &AdmissionError::Refused(what));
        };
        if let Some(outcome) = whole_batch(&answers) {
            for ask in batch {
                ask.tell(now, Ok(outcome));
            }
            return;
        }
        for (ask, answer) in batch.into_iter().zip(answers) {
            let outcome = outcome_of(&answer, ask.order);
            if let Some((Outcome::Admitted { order }, number)) = outcome {
                let place = Place { user: ask.user, number };
                self.journal.note(now, Admitted { voucher: ask.voucher, place, order });
            }
            let unreadable = || english(&BrokerError::Reply("the admission script"));
            let outcome = outcome.map(|(outcome, _)| outcome);
            ask.tell(now, outcome.ok_or_else(|| AdmissionError::Refused(unreadable())));
        }
    }

    /// Waits until Redis answers again, makes it whole if it was restarted, and asks again for those
    /// whose outcome is unknown: under the same ids, so nobody is admitted twice.
    async fn recover(&mut self, mut waiting: Vec<Batch>, stop: &CancellationToken) {
        let mut pause = BACKOFF[0];
        loop {
            let healed = tokio::select! {
                biased;
                // What is left half done is done by the last look, or by the next start.
                () = stop.cancelled() => Err(EngineError::Stopping),
                healed = self.heal() => healed,
            };
            match healed {
                Ok(()) => match self.ask_again(std::mem::take(&mut waiting)).await {
                    Ok(()) => return,
                    Err(left) => waiting = left,
                },
                Err(error) => {
                    tracing::warn!(%error, "admission waits for its servers");
                    self.trouble = english(&error);
                }
            }
            // What does not fit into another queue's worth is told to be busy by the queue itself.
            if waiting.iter().map(Vec::len).sum::<usize>() < self.asks.max_capacity() {
                self.take_in(&mut waiting);
            }
            for batch in &mut waiting {
                let late = |ask: &mut Ask| ask.asked.elapsed() > self.answer_within;
                refuse(batch.extract_if(.., late), &AdmissionError::NoAnswer(self.trouble.clone()));
            }
            waiting.retain(|batch| !batch.is_empty());
            tokio::select! {
                () = stop.cancelled() => {
                    let stopped = AdmissionError::NoAnswer("the engine stops".to_owned());
                    return waiting.into_iter().for_each(|batch| refuse(batch, &stopped));
                }
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(BACKOFF[1]),
            }
        }
    }

    /// During an outage nobody empties the queue: take requests out of it so that they can expire.
    fn take_in(&mut self, waiting: &mut Vec<Batch>) {
        let mut asks = Vec::new();
        while asks.len() < self.asks.max_capacity() {
            match self.asks.try_recv() {
                Ok(ask) => asks.push(ask),
                Err(_) => break,
            }
        }
        for batch in by_voucher(&mut asks) {
            let mut rest = batch;
            while rest.len() > self.batch {
                let tail = rest.split_off(self.batch);
                waiting.push(std::mem::replace(&mut rest, tail));
            }
            waiting.push(rest);
        }
    }

    async fn heal(&mut self) -> Result<(), EngineError> {
        let here = self.partition.healed();
        self.link.connection(&here).await?;
        let run_id = self.link.server(&here).map(|server| server.run_id.clone());
        if self.run_id != run_id {
            partitions::same(&self.store, &self.keys).await?;
            // A FLUSHALL took that with it.
            deployment::tie(&self.store, &mut self.link, &self.keys, false).await?;
            for sale in reconcile::sales_of(&self.store, &self.keys, &self.partition).await? {
                self.versions.note(&sale);
            }
        }
        let sales = self.sales_here();
        match reconcile::check(&mut self.link, &self.keys, &self.partition, &sales).await {
            Ok(damage) => {
                if damage.is_for_all_nodes() {
                    reconcile::summon_all(&mut self.link, &self.partition).await?;
                    self.run_id = None;
                }
                self.damaged_streams.extend(damage.streams);
            }
            // One that takes no writes now was reconciled, and says so to each batch.
            Err(error) if !error.is_away() && self.run_id == run_id => {
                tracing::warn!(%error, "the keys of the partition could not be looked at");
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(run) = run_id.as_ref().filter(|_| self.run_id != run_id) {
            self.ids.reclaim(&mut self.link).await?;
            let (store, keys, of) = (&self.store, &self.keys, &self.partition);
            if !is_healed(&mut self.link, of, run).await? {
                self.ids.not_before(first_second(store, of).await?);
            }
            let promises = self.promises(|voucher| keys.partition_of(voucher) == *of);
            let token = &self.token;
            let done = reconcile(store, &mut self.link, keys, of, &promises, token).await?;
            self.journal.forget(&done.refused);
            self.note_reconciled(Said::of(&Subject::Partition(of.number())), done);
            let (link, dead_ms) = (&mut self.link, self.node_dead_ms);
            await_peers(link, of, &self.node, run, &self.peers, dead_ms).await?;
            // A restart in the middle of it is noticed by the next connection.
            self.run_id = run_id;
            self.see_peers().await;
        }
        if !self.damaged_streams.is_empty() {
            let run = self.run_id.clone().unwrap_or_default();
            let (store, link, keys) = (&self.store, &mut self.link, &self.keys);
            let of = &self.partition;
            let done = Reconciler { store, link, keys, run: &run, token: &self.token }
                .streams(of, &self.damaged_streams)
                .await?;
            self.note_reconciled(Said::of(&Subject::Partition(of.number())), done);
            self.damaged_streams.clear();
        }
        Ok(())
    }

    /// What Redis had lost goes into the audit log: a loss that costs somebody something must not pass unseen.
    fn note_reconciled(&self, subject: Said, done: Reconciled) {
        if done == Reconciled::default() {
            return;
        }
        let ids = |ids: &[OrderId]| {
            ids.iter().take(1_000).map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let (promised, refused) = (ids(&done.promised), ids(&done.refused));
        tracing::warn!(promised, refused, "promises that Redis had lost");
        let healed = Healed {
            keys: done.keys,
            buyers: done.restored,
            removed: done.removed,
            promised: done.promised.len() as u64,
            refused: done.refused.len() as u64,
            unknown: done.unknown,
            archived: done.archived,
            oversold: done.closed == Some(Closed::Oversold),
            other_sale: done.closed == Some(Closed::OtherSale),
        };
        self.outbox.put_own(&self.node, HEALED, subject, Said::of(&Event::Healed(healed)));
    }

    async fn ask_again(&mut self, batches: Vec<Batch>) -> Result<(), Vec<Batch>> {
        let mut batches = batches.into_iter();
        while let Some(batch) = batches.next() {
            let failed = match self.launch(batch).await {
                Ok(None) => None,
                Ok(Some(flight)) => {
                    let (batch, reply) = flight.await;
                    self.land(batch, reply).err()
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

/// Looks a sale up in SQL, and reconciles it with Redis where its keys do not agree or Redis holds an older version.
async fn prepare(
    mut reconciler: Reconciler<'_>,
    versions: &SaleVersions,
    voucher: VoucherId,
    promises: &[Admitted],
) -> Result<Prepared, EngineError> {
    let sale = match reconciler.store.sale(voucher).await {
        Err(StoreError::NoSale(_)) => return Ok(Prepared::NoSale),
        sale => sale?,
    };
    versions.note(&sale);
    let of = reconciler.keys.partition_of(voucher);
    let damage =
        reconcile::check(reconciler.link, reconciler.keys, &of, &[(voucher, sale.created)]).await?;
    if damage.is_for_all_nodes() {
        reconcile::summon_all(reconciler.link, &of).await?;
        return Err(EngineError::Reconciling(of.orders()));
    }
    let mut done = reconciler.sale(voucher, promises).await?;
    done.keys.extend(Damage::put_right(&damage.streams));
    if sale.state == SaleState::Archived {
        return Ok(Prepared::Archived(done));
    }
    // That Redis has a change is noted in SQL by the task that delivers it: buyers do not wait for a write.
    // A sale that is being cut is no older than that, and sells on.
    if done.closed.is_none()
        && vouchers::try_sync(reconciler.link, reconciler.keys, &sale, "").await?
            == Some(Synced::Damaged)
    {
        return Err(EngineError::Reconciling(reconciler.keys.sale(voucher)));
    }
    let known = versions.get(voucher).map_or(0, |known| known.version);
    if sale.version < known {
        // SQL was set back. Redis may hold the sale as it was seen; an older one is not sold, and not asked again at once.
        let held = vouchers::read(reconciler.link, reconciler.keys, voucher).await?;
        if held.is_none_or(|held| held.version < known) {
            return Err(EngineError::Reconciling(reconciler.keys.sale(voucher)));
        }
    }
    Ok(Prepared::Ready(done))
}

/// An error for a buyer, who reads it in a reply of the API.
fn english(error: &impl ToString) -> String {
    in_english(|| error.to_string())
}
