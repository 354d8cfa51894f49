//! The consumer: writes stream entries to SQL, and acknowledges them only after that.
//!
//! It reads its own pending entries first, then those of dead nodes, then new ones. In every failure case an entry is
//! acknowledged only after its order was committed or it became a dead letter.

pub mod order_writer;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use seckill_model::{EntryId, UserId};
use seckill_redis::{
    RedisError,
    keys::Partition,
    stream::{self, Body, Claimed, Delivered, ReadFrom},
};
use tokio::{
    runtime::{self, Runtime},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    EngineError, Result,
    consumer::order_writer::{BACKOFF, Committed, Settled, Writer, wait},
    deployment::{servers::Servers, settings::Settings},
    ledger::{
        entry_check::{self, Checked},
        promise_journal::InHand,
        rebuild,
    },
    locks::{Guard, LockError, LockName, Locks},
    node::context::NodeContext,
    telemetry::Meters,
};

/// Maximum blocking time of one read; `stop` is checked in between.
const BLOCK: Duration = Duration::from_millis(200);
/// A read ahead does not block: it would delay the commit of the current batch.
const AT_ONCE: Duration = Duration::ZERO;
/// Interval between checks for entries of other consumers.
const CLAIM_EVERY: Duration = Duration::from_secs(5);
/// Interval between retries of entries that wait for the buyers of their sale, for its orders to be accepted, or for the
/// lock of their own: the first one, and the longest one of entries that wait for long.
const WAITING_EVERY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// Time that a stop allows for the current batch, and for handing over the rest.
const FINISH_WITHIN: Duration = Duration::from_millis(2_500);
const HAND_OVER_WITHIN: Duration = Duration::from_millis(500);

/// The consumer of one partition's group. Owned by one task; ends when its token is cancelled.
#[derive(Debug)]
pub struct Consumer {
    reader: Reader,
    writer: Writer,
    locks: Locks,
    hold: Hold,
    /// Its own pending entries were read since the process started.
    resumed: bool,
    /// Since when entries wait for the next retry, and for how long.
    waiting: Option<(Instant, Duration)>,
    meters: Arc<Meters>,
    stop: CancellationToken,
}

/// Reads and claims entries, and checks them, over a connection of its own: while a batch is written, it acknowledges
/// the previous one and prepares the next.
#[derive(Debug)]
struct Reader {
    name: String,
    partition: Partition,
    servers: Servers,
    settings: Settings,
    in_hand: InHand,
    /// Entries that were delivered too often, with the number of deliveries: they are tried alone.
    suspects: Vec<(Delivered, u64)>,
}

/// A batch to be committed, and the previous one, which is not acknowledged yet.
struct Prepared {
    batch: Checked,
    /// Number of entries read, also those that are not written.
    read: usize,
    previous: Committed,
}

/// Pauses a consumer, and reports when it has paused.
#[derive(Debug)]
pub struct Hold {
    /// Pause requested.
    pub wanted: watch::Receiver<bool>,
    /// Paused.
    pub parked: watch::Sender<bool>,
}

/// Threads of the consumers: decoding a batch takes several milliseconds and must not occupy the threads that reply to
/// buyers. Never dropped, because connections to SQL that were opened here stay in the pool after a consumer ends.
#[expect(
    clippy::expect_used,
    reason = "forced where a node starts: without its consumers it must not run"
)]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let threads = runtime::Builder::new_multi_thread().thread_name("consumer").enable_all().build();
    threads.expect("no threads for the consumers: raise the limits of threads and open files")
});

impl Consumer {
    /// The consumer of a node in a partition, until `stop`. It reads nothing new while it is paused.
    pub fn new(
        context: &NodeContext,
        partition: Partition,
        hold: Hold,
        stop: CancellationToken,
    ) -> Self {
        // Fails here: in a task, it would leave a node that only admits.
        LazyLock::force(&RUNTIME);
        let NodeContext { node, deployment, locks, meters, in_hand, .. } = context;
        let conn = deployment.redis.blocking_connection(BLOCK);
        let reader = Reader {
            name: partition.consumer(node),
            partition,
            servers: Servers { conn, ..deployment.servers() },
            settings: deployment.settings.clone(),
            in_hand: in_hand.clone(),
            suspects: Vec::new(),
        };
        Self {
            reader,
            writer: Writer::reporting(context),
            locks: locks.clone(),
            hold,
            resumed: false,
            waiting: None,
            meters: Arc::clone(meters),
            stop,
        }
    }

    /// Runs until `stop`. The current batch is finished first; what a slow or unreachable database does not accept in
    /// time is handed over, so that other nodes can claim it immediately. Returns the number of such entries.
    /// Aborted if dropped.
    pub fn run(self) -> BoxFuture<'static, u64> {
        let work = AbortOnDropHandle::new(RUNTIME.spawn(self.work_until_stop()));
        let handed_over = async {
            work.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a consumer ended unexpectedly: restart this node");
                0
            })
        };
        handed_over.boxed()
    }

    async fn work_until_stop(mut self) -> u64 {
        let stop = self.stop.clone();
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(FINISH_WITHIN).await;
        };
        tokio::select! {
            () = self.keep_working() => {}
            () = late => {
                tracing::warn!(consumer = self.reader.name, "the current batch took too long");
            }
        }
        let consumer = &self.reader.name.clone();
        match tokio::time::timeout(HAND_OVER_WITHIN, self.reader.hand_over()).await {
            Ok(Ok(entries)) => {
                if entries > 0 {
                    tracing::info!(entries, consumer, "entries were handed over");
                }
                entries
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, consumer, "entries were not handed over");
                0
            }
            Err(_) => 0,
        }
    }

    /// Recovers automatically: creates a missing group, waits for an unreachable server.
    async fn keep_working(&mut self) {
        let mut pause = BACKOFF[0];
        while !self.stop.is_cancelled() {
            let error = match self.work(&mut pause).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if matches!(error, EngineError::Redis(RedisError::NoGroup)) {
                let made = self.reader.ensure_group().await;
                tracing::warn!(made = made.is_ok(), "the consumer group was missing");
                if made.is_ok() {
                    continue;
                }
            } else if !matches!(error, EngineError::Stopping) {
                let consumer = &self.reader.name;
                tracing::warn!(%error, consumer, "the consumer failed; retrying");
            }
            wait(&self.stop, &mut pause).await;
        }
    }

    async fn work(&mut self, pause: &mut Duration) -> Result<()> {
        self.reader.ensure_group().await?;
        self.finish_own().await?;
        self.claim_idle().await?;
        let mut claimed = Instant::now();
        let mut ahead = None;
        while !self.stop.is_cancelled() {
            let Prepared { batch, read, previous } = if let Some(ahead) = ahead.take() {
                ahead
            } else {
                if self.is_retry_due() {
                    self.retry().await?;
                }
                if claimed.elapsed() >= CLAIM_EVERY {
                    self.settle_own(true).await?;
                    self.claim_idle().await?;
                    claimed = Instant::now();
                }
                self.while_held().await;
                let batch = self.reader.read(ReadFrom::New(BLOCK)).await?;
                if self.reader.settings.order_lock {
                    *pause = BACKOFF[0];
                    self.settle(batch).await?;
                    continue;
                }
                let read = batch.len();
                let batch = self.reader.check(batch).await?;
                Prepared { batch, read, previous: Committed::default() }
            };
            *pause = BACKOFF[0];
            let more = read == self.reader.settings.consumer_batch
                && claimed.elapsed() < CLAIM_EVERY
                && !self.is_retry_due()
                && !*self.hold.wanted.borrow();
            ahead = self.commit(batch, previous, more).await?;
        }
        if let Some(Prepared { batch, previous, .. }) = ahead {
            self.commit(batch, previous, false).await?;
        }
        Ok(())
    }

    fn is_retry_due(&self) -> bool {
        self.waiting.is_some_and(|(since, interval)| since.elapsed() >= interval)
    }

    /// Tries the waiting entries again; those that still wait are retried less often.
    async fn retry(&mut self) -> Result<()> {
        let before = self.waiting.take();
        self.finish_own().await?;
        match (before, &mut self.waiting) {
            (_, None) => self.writer.nothing_waits(),
            (Some((_, interval)), Some((_, next))) => *next = (interval * 2).min(WAITING_EVERY[1]),
            (None, Some(_)) => {}
        }
        Ok(())
    }

    fn note_settled(&mut self, settled: &Settled) {
        self.meters.note_written(self.reader.partition.number(), settled.persisted);
        if settled.waiting > 0 {
            self.waiting.get_or_insert_with(|| (Instant::now(), WAITING_EVERY[0]));
        }
    }

    /// Commits a batch, and meanwhile acknowledges the previous one. With `more`, also reads the next one, and leaves the
    /// acknowledgement of this one to the next call; without, or if there is none, acknowledges this one too. After a
    /// failure, what was read is among the own pending entries, which come first.
    async fn commit(
        &mut self,
        batch: Checked,
        previous: Committed,
        more: bool,
    ) -> Result<Option<Prepared>> {
        let Self { reader, writer, stop, .. } = self;
        let meanwhile = async {
            previous.finish(&mut reader.servers).await?;
            let read = if more { reader.read(ReadFrom::New(AT_ONCE)).await? } else { Vec::new() };
            Ok::<_, EngineError>((read.len(), reader.check(read).await?))
        };
        let (committed, ahead) = tokio::join!(writer.commit(batch, stop), meanwhile);
        let committed = committed?;
        self.note_settled(&committed.settled);
        match ahead {
            Ok((read, batch)) if read > 0 => {
                Ok(Some(Prepared { batch, read, previous: committed }))
            }
            ahead => {
                committed.finish(&mut self.reader.servers).await?;
                ahead.map(|_| None)
            }
        }
    }

    async fn while_held(&mut self) {
        if !*self.hold.wanted.borrow() {
            return;
        }
        self.hold.parked.send_replace(true);
        // An error means that the sender is gone.
        self.stop.run_until_cancelled(self.hold.wanted.wait_for(|held| !held)).await;
        self.hold.parked.send_replace(false);
    }

    /// Reads what this consumer was delivered before its process started, or before a server became unreachable. Only
    /// the former counts as a delivery: an outage must not make dead letters of good entries.
    async fn finish_own(&mut self) -> Result<()> {
        // A failed pass also counts, since it is retried.
        if std::mem::replace(&mut self.resumed, true) {
            return self.settle_own(false).await;
        }
        let mut after = EntryId::MIN;
        while !self.stop.is_cancelled() {
            let batch = self.reader.read(ReadFrom::Own(after)).await?;
            let Some(last) = batch.last() else { break };
            after = last.entry;
            let good = self.reader.check_deliveries(batch).await?;
            self.settle(good).await?;
            self.try_suspects().await?;
        }
        Ok(())
    }

    /// Tries to write entries that were delivered too often, each alone: they may be what ended those who held them.
    async fn try_suspects(&mut self) -> Result<()> {
        while let Some((suspect, times)) = self.reader.suspects.pop() {
            if self.stop.is_cancelled() {
                return Err(EngineError::Stopping);
            }
            let settled = self.writer.settle_suspect(suspect, times, &self.stop).await?;
            self.note_settled(&settled);
            if settled.waiting > 0 {
                // The others wait for the same, and each trial may take as long as a timeout.
                self.reader.suspects.clear();
            }
        }
        Ok(())
    }

    /// Settles the entries that this consumer holds, without another delivery. `given`: it held nothing, so an operator
    /// has assigned them.
    async fn settle_own(&mut self, given: bool) -> Result<()> {
        let mut next = Some(self.reader.first());
        while let Some(from) = next.filter(|_| !self.stop.is_cancelled()) {
            let mut own = self.reader.own_page(from).await?;
            let Some(last) = own.last() else { break };
            next = last.entry.next();
            if given {
                own = self.reader.check_deliveries(own).await?;
            }
            self.settle(own).await?;
            self.try_suspects().await?;
        }
        Ok(())
    }

    /// Claims what other consumers have abandoned. As in [`Self::commit`], a batch is committed while the previous one is
    /// acknowledged and the next one is claimed and checked.
    async fn claim_idle(&mut self) -> Result<()> {
        self.rebuild().await?;
        let (mut batch, mut previous) = (Checked::default(), Committed::default());
        let mut from = Some(EntryId::MIN);
        while let Some(start) = from.filter(|_| !self.stop.is_cancelled()) {
            let Self { reader, writer, stop, .. } = self;
            let meanwhile = async {
                previous.finish(&mut reader.servers).await?;
                let mut claimed = reader.claim(start).await?;
                let entries = if reader.settings.order_lock {
                    Vec::new()
                } else {
                    std::mem::take(&mut claimed.entries)
                };
                Ok::<_, EngineError>((claimed, reader.check(entries).await?))
            };
            let (committed, claimed) = tokio::join!(writer.commit(batch, stop), meanwhile);
            previous = committed?;
            self.note_settled(&previous.settled);
            let claimed = match claimed {
                Ok((claimed, checked)) => {
                    batch = checked;
                    claimed
                }
                Err(error) => {
                    previous.finish(&mut self.reader.servers).await?;
                    return Err(error);
                }
            };
            if !claimed.gone.is_empty() {
                // Redis has dropped them from the pending list; their buyers still wait.
                let ids: Vec<String> = claimed.gone.iter().map(ToString::to_string).collect();
                tracing::error!(entries = ids.join(" "), "pending entries no longer have a body");
                self.rebuild().await?;
            }
            from = claimed.next;
            if !claimed.entries.is_empty() {
                self.settle(claimed.entries).await?;
            }
            self.try_suspects().await?;
        }
        self.commit(batch, previous, false).await?;
        Ok(())
    }

    /// Rebuilds what claims have dropped, by this consumer or by one that died before it did so.
    async fn rebuild(&mut self) -> Result<()> {
        let Reader { servers, partition: of, .. } = &mut self.reader;
        let gone = stream::gone(&mut servers.conn, of).await?;
        if !gone.is_empty() {
            let rebuilt = rebuild(servers, of).await?;
            tracing::warn!(orders = rebuilt.orders, "lost orders were re-added to the stream");
            stream::rebuilt(&mut servers.conn, of, &gone).await?;
        }
        Ok(())
    }

    /// Writes a batch; with `order_lock`, under a lock for each of its buyers. An entry whose lock another owner holds
    /// stays pending and is retried: those behind it do not wait for it.
    async fn settle(&mut self, batch: Vec<Delivered>) -> Result<()> {
        if !self.reader.settings.order_lock {
            let settled = self.writer.settle(batch, &self.stop).await?;
            self.note_settled(&settled);
            return Ok(());
        }
        let users = batch.iter().filter_map(|delivered| Some(delivered.order()?.user));
        let (guards, busy, missed) = lock_buyers(&self.locks, users).await;
        let locked = |delivered: &Delivered| {
            delivered.order().is_none_or(|order| guards.contains_key(&order.user))
        };
        // The orders whose locks were acquired are written, so two nodes never block each other permanently.
        let settled =
            self.writer.settle(batch.into_iter().filter(locked).collect(), &self.stop).await;
        for released in join_all(guards.into_values().map(Guard::release)).await {
            // A lost lock is harmless: the unique index guarantees the same.
            if let Err(error) = released {
                tracing::warn!(%error, "an order lock was not released");
            }
        }
        let mut settled = settled?;
        settled.waiting += busy;
        self.note_settled(&settled);
        missed.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Reader {
    /// The smallest entry ID of its partition.
    fn first(&self) -> EntryId {
        EntryId { partition: self.partition.number(), ..EntryId::MIN }
    }

    async fn ensure_group(&mut self) -> Result<(), RedisError> {
        stream::ensure_group(&mut self.servers.conn, &self.partition).await
    }

    /// Reads a batch, in pages. After a failure, the pages before it are among the own pending entries.
    async fn read(&mut self, mut from: ReadFrom) -> Result<Vec<Delivered>, RedisError> {
        let Self { servers, partition, name, settings, .. } = self;
        let mut batch = Vec::new();
        loop {
            let page = stream::PAGE.min(settings.consumer_batch - batch.len());
            let read = stream::read_group(&mut servers.conn, partition, name, from, page).await?;
            let is_last = read.len() < page;
            batch.extend(read);
            if is_last || batch.len() == settings.consumer_batch {
                return Ok(batch);
            }
            from = match (from, batch.last()) {
                (ReadFrom::Own(_), Some(last)) => ReadFrom::Own(last.entry),
                _ => ReadFrom::New(AT_ONCE),
            };
        }
    }

    /// One page of the entries that this consumer holds. Does not count as a delivery.
    async fn own_page(&mut self, from: EntryId) -> Result<Vec<Delivered>, RedisError> {
        let Self { servers, partition, name, settings, .. } = self;
        let count = stream::PAGE.min(settings.consumer_batch);
        stream::own_page(&mut servers.conn, partition, name, from, count).await
    }

    async fn check(&mut self, batch: Vec<Delivered>) -> Result<Checked> {
        entry_check::check(&mut self.servers, &self.in_hand, batch).await
    }

    /// Claims a batch of entries that other consumers have abandoned, in pages. After a failure, the pages before it are
    /// among the own pending entries.
    async fn claim(&mut self, start: EntryId) -> Result<Claimed> {
        let (idle, most) = (self.settings.claim_idle(), self.settings.max_deliveries);
        let mut claimed = Claimed { next: Some(start), ..Claimed::default() };
        // Entries that are not idle yet count too: a commit must not wait for a long list of them.
        let mut left = self.settings.consumer_batch;
        while let Some(from) = claimed.next.filter(|_| left > 0) {
            let count = stream::PAGE.min(left);
            left -= count;
            let Self { servers, partition, name, .. } = self;
            let conn = &mut servers.conn;
            let page = stream::auto_claim(conn, partition, name, idle, most, from, count).await?;
            claimed.next = page.next;
            claimed.gone.extend(page.gone);
            claimed.entries.extend(self.set_suspects_apart(page.entries, page.often));
        }
        Ok(claimed)
    }

    /// Returns the redelivered entries that may be written at once. Those above the limit of deliveries are suspects,
    /// because they may be what crashes a node.
    async fn check_deliveries(&mut self, batch: Vec<Delivered>) -> Result<Vec<Delivered>> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(batch) };
        let (first, last, count) = (first.entry, last.entry, batch.len());
        let (conn, of) = (&mut self.servers.conn, &self.partition);
        let pending = stream::pending_ids(conn, of, Some(&self.name), first, last, count).await?;
        let most = self.settings.max_deliveries;
        let often = pending.into_iter().filter(|(_, deliveries)| *deliveries > most).collect();
        Ok(self.set_suspects_apart(batch, often))
    }

    /// The same, with the number of deliveries of those above the limit.
    fn set_suspects_apart(
        &mut self,
        batch: Vec<Delivered>,
        often: Vec<(EntryId, u64)>,
    ) -> Vec<Delivered> {
        if often.is_empty() {
            return batch;
        }
        let times: HashMap<EntryId, u64> = often.into_iter().collect();
        let mut good = Vec::with_capacity(batch.len());
        for delivered in batch {
            match times.get(&delivered.entry) {
                Some(times) => self.suspects.push((delivered, *times)),
                None => good.push(delivered),
            }
        }
        good
    }

    /// Marks the entries that it still holds as idle, so that they can be claimed immediately.
    async fn hand_over(&mut self) -> Result<u64> {
        let (mut handed, mut next) = (0, Some(self.first()));
        while let Some(from) = next {
            let own = self.own_page(from).await?;
            let Some(last) = own.last() else { break };
            next = last.entry.next();
            // A claim would drop those without a body from the pending list, and they would not be rebuilt.
            let there = own.iter().filter(|it| it.body != Body::Gone);
            let entries: Vec<EntryId> = there.map(|it| it.entry).collect();
            if entries.is_empty() {
                continue;
            }
            let (conn, of) = (&mut self.servers.conn, &self.partition);
            stream::let_go(conn, of, &self.name, self.settings.claim_idle(), &entries).await?;
            handed += entries.len() as u64;
        }
        Ok(handed)
    }
}

/// Asks for one lock per buyer, all at once: returns those acquired, how many another owner holds, and why others failed.
async fn lock_buyers(
    locks: &Locks,
    users: impl Iterator<Item = UserId>,
) -> (BTreeMap<UserId, Guard>, u64, Option<LockError>) {
    let users: BTreeSet<UserId> = users.collect();
    let asked = users.into_iter().map(async |user| {
        let name = LockName::new(format!("order:{user}"))?;
        Ok((user, locks.try_lock(&name, "write order").await?))
    });
    let (mut guards, mut busy, mut missed) = (BTreeMap::new(), 0, None);
    for asked in join_all(asked).await {
        match asked {
            Ok((user, guard)) => drop(guards.insert(user, guard)),
            Err(LockError::Busy(_)) => busy += 1,
            Err(error) => missed = Some(error),
        }
    }
    (guards, busy, missed)
}
