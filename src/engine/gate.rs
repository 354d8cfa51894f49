//! The gate: the task behind the queue of one partition, the only one that runs the admission script there.
//!
//! It admits only through a server that it has made whole. What it promised lately it remembers, for Redis may
//! lose its last seconds: a restart or a failover is noticed before the next buyer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use redis::{RedisError, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    admission::{AdmissionError, Ask, Batch, by_voucher, refuse},
    answers::{is_unhealed, outcome_of, whole_batch},
    deployment,
    ids::{IdWorker, first_second},
    journal::{Admitted, Journal},
    outbox::Outbox,
    partitions,
    reconcile::{Reconciled, await_peers, is_healed, load_missing, reconcile},
    settings::Settings,
    told::{Subject, Told},
};
use crate::{
    broker::{BrokerError, Layout, Link, Redis, keys::Partition, nodes::Nodes, scripts},
    faults::{self, Point},
    model::{Millis, OrderId, Outcome, Place, Said, VoucherId},
    store::{Act, ENGINE, SharedStore},
    telemetry::{
        Meters,
        forgot::{HEALED, Healed},
    },
};

/// Batches on their way at once: one is with Redis while the next is being packed.
const IN_FLIGHT: usize = 2;
const BACKOFF: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
/// How often Redis is asked for a sign when no buyer comes: a restart must not go unnoticed while
/// the journal still knows what it lost.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Bound on the last look before the end.
const LAST_LOOK: Duration = Duration::from_secs(2);

type Flight = BoxFuture<'static, (Batch, Result<Value, Miss>)>;

/// Why a batch came back without answers that may be passed on.
#[derive(Debug)]
enum Miss {
    Redis(RedisError),
    /// Redis decided, but only so many replicas hold it.
    Unconfirmed(u32),
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
            run_id: None,
            trouble: String::new(),
            batch: settings.admission_batch,
            wait: (settings.wait_replicas, Duration::from_millis(settings.wait_ms)),
            answer_within: Duration::from_millis(settings.answer_within_ms),
            store: Arc::clone(store),
            keys: keys.clone(),
            meters: Arc::clone(meters),
            outbox: Outbox::default(),
        }
    }

    /// What it writes into the audit log waits in the node's queue while the database is away.
    #[must_use]
    pub fn recording(mut self, outbox: &Outbox) -> Self {
        self.outbox = outbox.clone();
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
                        let failed = self.hear_out(failed, &mut in_flight).await;
                        self.recover(failed, &stop).await;
                    }
                }
                () = stop.cancelled(), if in_flight.is_empty() => break,
                _ = check.tick(), if in_flight.is_empty() => {
                    if !self.is_whole().await {
                        self.recover(Vec::new(), &stop).await;
                    }
                }
                taken = self.asks.recv_many(&mut gathered, self.batch),
                    if in_flight.len() < IN_FLIGHT && !stop.is_cancelled() =>
                {
                    if taken == 0 {
                        break;
                    }
                    for batch in by_voucher(&mut gathered) {
                        match self.launch(batch).await {
                            Ok(flight) => in_flight.push_back(flight),
                            Err(batch) => {
                                let failed = self.hear_out(batch, &mut in_flight).await;
                                self.recover(failed, &stop).await;
                            }
                        }
                    }
                }
            }
        }
        self.asks.close();
        while let Ok(ask) = self.asks.try_recv() {
            ask.tell(Instant::now(), Err(AdmissionError::Stopping));
        }
        let last_look = async {
            if !self.journal.is_empty() && !self.is_whole().await {
                self.heal().await?;
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

    /// Whether Redis answers and is the one that was made whole.
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
        if let Ok(nodes) = Nodes::read(&mut self.link, &self.partition).await {
            let others = nodes.alive(self.node_dead_ms).filter(|name| *name != self.node);
            self.peers = others.map(str::to_owned).collect();
        }
        true
    }

    /// Before a failed batch is asked again, those that were sent with it are heard out.
    async fn hear_out(
        &mut self,
        failed: Batch,
        in_flight: &mut FuturesOrdered<Flight>,
    ) -> Vec<Batch> {
        let mut all = vec![failed];
        while let Some((batch, reply)) = in_flight.next().await {
            all.extend(self.land(batch, reply).err());
        }
        all
    }

    /// Gives each buyer of the batch a proposed id and packs the script's call. The batch comes
    /// back when Redis can't be asked now.
    async fn launch(&mut self, mut batch: Batch) -> Result<Flight, Batch> {
        let missing = batch.iter().filter(|ask| ask.order.is_none()).count();
        match self.ids.issue(&mut self.link, missing).await {
            Ok(ids) => {
                let unnamed = batch.iter_mut().filter(|ask| ask.order.is_none());
                unnamed.zip(ids).for_each(|(ask, id)| ask.order = Some(id));
            }
            Err(EngineError::Broker(error)) if error.is_away() => return Err(batch),
            Err(error) => {
                refuse(batch, &AdmissionError::Refused(error.to_string()));
                return Ok(Box::pin(async { (Vec::new(), Ok(Value::Array(Vec::new()))) }));
            }
        }
        let here = self.partition.healed();
        let Ok(mut connection) = self.link.connection(&here).await else { return Err(batch) };
        if self.link.server(&here).map(|server| &server.run_id) != self.run_id.as_ref() {
            // Another server process than the one that was made whole.
            return Err(batch);
        }
        let (keys, of) = (&self.keys, &self.partition);
        let voucher = batch.first().map_or(VoucherId(0), |ask| ask.voucher);
        let mut call = scripts::ADMIT.prepare_invoke();
        call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
        call.key(of.orders()).key(keys.tally(voucher)).key(of.healed());
        call.arg(of.group()).arg(voucher.0);
        call.arg(&self.node).arg(self.run_id.as_deref().unwrap_or_default());
        for ask in &batch {
            call.arg(ask.user.0).arg(ask.order.map_or(0, OrderId::get));
        }
        let (replicas, bound) = self.wait;
        Ok(Box::pin(async move {
            let reply = call.invoke_async::<Value>(&mut connection).await.map_err(Miss::Redis);
            faults::pass(Point::AfterAdmission);
            if replicas == 0 || reply.is_err() {
                return (batch, reply);
            }
            let mut wait = redis::cmd("WAIT");
            wait.arg(replicas).arg(bound.as_millis() as u64);
            match wait.query_async::<u32>(&mut connection).await {
                Ok(held) if held < replicas => (batch, Err(Miss::Unconfirmed(held))),
                Ok(_) => (batch, reply),
                Err(error) => (batch, Err(Miss::Redis(error))),
            }
        }))
    }

    /// Answers the buyers of a batch, or gives it back when its outcome is not known.
    fn land(&mut self, batch: Batch, reply: Result<Value, Miss>) -> Result<(), Batch> {
        let now = Instant::now();
        match reply {
            Ok(reply) if is_unhealed(&reply) => {
                "Redis was emptied and is made whole".clone_into(&mut self.trouble);
                self.run_id = None;
                Err(batch)
            }
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
                    self.trouble = away.to_string();
                    Err(batch)
                }
                refused => {
                    refuse(batch, &AdmissionError::Refused(refused.to_string()));
                    Ok(())
                }
            },
        }
    }

    fn answer(&mut self, now: Instant, batch: Batch, reply: Value) {
        let Value::Array(answers) = reply else {
            let what = BrokerError::Reply("the admission script").to_string();
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
            let unreadable = || BrokerError::Reply("the admission script").to_string();
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
                    self.trouble = error.to_string();
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
        if let Some(run) = run_id.as_ref().filter(|_| self.run_id != run_id) {
            partitions::same(&self.store, &self.keys).await?;
            // A FLUSHALL took that with it.
            deployment::tie(&self.store, &mut self.link, &self.keys, false).await?;
            self.ids.reclaim(&mut self.link).await?;
            let (store, keys, of) = (&self.store, &self.keys, &self.partition);
            let healed = is_healed(&mut self.link, of, run).await?;
            if !healed {
                self.ids.not_before(first_second(store, of).await?);
            }
            if self.journal.is_empty() && healed {
                load_missing(store, &mut self.link, keys, of).await?;
            } else {
                let promises: Vec<Admitted> = self.journal.promises().collect();
                let done = reconcile(store, &mut self.link, keys, of, &promises).await?;
                self.journal.forget(&done.refused);
                self.tell_of_loss(&done).await;
            }
            let (link, dead_ms) = (&mut self.link, self.node_dead_ms);
            await_peers(link, of, &self.node, run, &self.peers, dead_ms).await?;
            // A restart in the middle of it is noticed by the next connection.
            self.run_id = run_id;
        }
        Ok(())
    }

    /// What Redis had lost goes into the audit log: a restart or a failover that costs somebody something must
    /// not pass unseen.
    async fn tell_of_loss(&self, done: &Reconciled) {
        if *done == Reconciled::default() {
            return;
        }
        let ids = |ids: &[OrderId]| {
            ids.iter().take(1_000).map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let (promised, refused) = (ids(&done.promised), ids(&done.refused));
        tracing::warn!(promised, refused, "promises that Redis had lost");
        let line = Act {
            at: Millis::now(),
            operator: ENGINE.to_owned(),
            node: self.node.clone(),
            act: HEALED.to_owned(),
            subject: Said::of(&Subject::Partition(self.partition.number())),
            result: Said::of(&Told::Healed(Healed {
                buyers: done.restored,
                promised: done.promised.len() as u64,
                refused: done.refused.len() as u64,
            })),
            ..Act::default()
        };
        self.outbox.put(line);
        self.outbox.write(&self.store).await;
    }

    async fn ask_again(&mut self, batches: Vec<Batch>) -> Result<(), Vec<Batch>> {
        let mut batches = batches.into_iter();
        while let Some(batch) = batches.next() {
            let failed = match self.launch(batch).await {
                Ok(flight) => {
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
