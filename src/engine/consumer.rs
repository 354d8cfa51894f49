//! The consumer: entries of the stream become rows in SQL, and only then are acknowledged.
//!
//! Own pending entries first, then what dead nodes left, then new ones. Whatever goes wrong, an
//! entry is acknowledged only after its order was committed or it lies among the dead letters.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use seckill_model::{EntryId, OrderFault, OrderId, Said, UserId};
use seckill_redis::{
    BrokerError, Link, Redis,
    keys::Partition,
    stream::{self, Body, Delivered, ReadFrom},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    entry_check::{self, Checked, Grave},
    locks::{Guard, LockError, LockName, Locks},
    order_writer::{BACKOFF, Settled, Writer, bury_all, wait},
    rebuild::rebuild,
    settings::Settings,
};

/// How long one read waits for new entries; a stop is noticed in between.
const BLOCK: Duration = Duration::from_millis(200);
/// A read ahead does not wait: a batch that is short would be waited for with a full one written.
const AT_ONCE: Duration = Duration::from_millis(1);
/// How often entries of other consumers are looked at.
const CLAIM_EVERY: Duration = Duration::from_secs(5);
/// How often entries that wait for the buyers of their sale are looked at again.
const WAITING_EVERY: Duration = Duration::from_millis(200);
/// A stop leaves that long for the batch in hand, and for handing over what it did not finish.
const FINISH_WITHIN: Duration = Duration::from_millis(2_500);
const HAND_OVER_WITHIN: Duration = Duration::from_millis(500);
/// How long a batch waits for the locks of its buyers, where they are asked for.
const ORDER_LOCK_WAIT: Duration = Duration::from_secs(2);

/// One reader of a partition's group. Owned by one task; ends when its token is cancelled.
#[derive(Debug)]
pub struct Consumer {
    name: String,
    partition: Partition,
    reader: Link,
    writer: Writer,
    settings: Settings,
    locks: Locks,
    hold: Hold,
    /// Its own pending entries were read once since the process began.
    resumed: bool,
    /// Entries that wait for the buyers of their sale were read last then.
    waiting: Option<Instant>,
}

/// How somebody keeps a consumer from taking new entries, and learns that it does not.
#[derive(Debug)]
pub struct Hold {
    /// It shall take none.
    pub wanted: watch::Receiver<bool>,
    /// It takes none.
    pub parked: watch::Sender<bool>,
}

impl Consumer {
    /// The consumer of `node` in a partition. It reads nothing new while it is held.
    pub fn new(
        node: &str,
        partition: Partition,
        redis: &Redis,
        writer: Writer,
        settings: Settings,
        locks: Locks,
        hold: Hold,
    ) -> Self {
        let reader = redis.blocking_link(BLOCK);
        Self {
            name: partition.consumer(node),
            partition,
            reader,
            writer,
            settings,
            locks,
            hold,
            resumed: false,
            waiting: None,
        }
    }

    /// Works until `stop`. The batch in hand is finished first; what a database that is away or hung does not
    /// take in time is handed over: other nodes may claim it at once. Returns how many entries that are.
    pub async fn run(mut self, stop: CancellationToken) -> u64 {
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(FINISH_WITHIN).await;
        };
        tokio::select! {
            () = self.keep_working(&stop) => {}
            () = late => tracing::warn!(consumer = self.name, "the batch in hand took too long"),
        }
        match tokio::time::timeout(HAND_OVER_WITHIN, self.hand_over()).await {
            Ok(Ok(entries)) => {
                if entries > 0 {
                    tracing::info!(entries, consumer = self.name, "entries were handed over");
                }
                entries
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, consumer = self.name, "what is pending was not handed over");
                0
            }
            Err(_) => 0,
        }
    }

    /// Makes what is still in its hands old, so that nobody waits for it to grow so.
    async fn hand_over(&mut self) -> Result<u64, BrokerError> {
        let (mut handed, mut next) =
            (0, Some(EntryId { partition: self.partition.number(), ..EntryId::MIN }));
        let count = self.settings.consumer_batch;
        while let Some(from) = next {
            let (reader, of) = (&mut self.reader, &self.partition);
            let own = stream::own_page(reader, of, &self.name, from, count).await?;
            let Some(last) = own.last() else { break };
            next = last.entry.next();
            // A claim would drop those without a body from the pending list, and nobody would rebuild them.
            let there = own.iter().filter(|it| it.body != Body::Gone);
            let entries: Vec<EntryId> = there.map(|it| it.entry).collect();
            if entries.is_empty() {
                continue;
            }
            stream::let_go(reader, of, &self.name, self.settings.claim_idle(), &entries).await?;
            handed += entries.len() as u64;
        }
        Ok(handed)
    }

    /// Heals by itself: a missing group is made, a server that is away is waited for.
    async fn keep_working(&mut self, stop: &CancellationToken) {
        let mut pause = BACKOFF[0];
        while !stop.is_cancelled() {
            let error = match self.work(stop, &mut pause).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if matches!(error, EngineError::Broker(BrokerError::NoGroup)) {
                let made = stream::ensure_group(&mut self.reader, &self.partition).await;
                tracing::warn!(made = made.is_ok(), "the consumer group was gone");
                if made.is_ok() {
                    continue;
                }
            } else if !matches!(error, EngineError::Stopping) {
                tracing::warn!(%error, consumer = self.name, "the consumer pauses");
            }
            wait(stop, &mut pause).await;
        }
    }

    async fn work(
        &mut self,
        stop: &CancellationToken,
        pause: &mut Duration,
    ) -> Result<(), EngineError> {
        stream::ensure_group(&mut self.reader, &self.partition).await?;
        self.finish_own(stop).await?;
        self.claim_idle(stop).await?;
        let mut claimed = Instant::now();
        // What was read while the batch before it was written, and what of that one is for the dead letters.
        let (mut ahead, mut grave) = (None::<(usize, Checked)>, Grave::new());
        while !stop.is_cancelled() {
            if self.waiting.is_some_and(|since| since.elapsed() >= WAITING_EVERY) {
                self.waiting = None;
                self.finish_own(stop).await?;
            }
            let (read, batch) = if let Some(ahead) = ahead.take() {
                ahead
            } else {
                if claimed.elapsed() >= CLAIM_EVERY {
                    self.take_given(stop).await?;
                    self.claim_idle(stop).await?;
                    claimed = Instant::now();
                }
                self.while_held(stop).await;
                let batch = self.read(ReadFrom::New(BLOCK)).await?;
                if self.settings.order_lock {
                    *pause = BACKOFF[0];
                    self.settle(batch, stop).await?;
                    continue;
                }
                let Writer { link, store, keys, in_hand, .. } = &mut self.writer;
                (batch.len(), entry_check::check(store, link, keys, in_hand, batch).await?)
            };
            *pause = BACKOFF[0];
            let more = read == self.settings.consumer_batch;
            if more && claimed.elapsed() < CLAIM_EVERY && !*self.hold.wanted.borrow() {
                (ahead, grave) = self.settle_and_read(batch, grave, stop).await?;
            } else {
                grave.extend(self.settle_checked(batch, stop).await?);
                self.writer.bury_all(std::mem::take(&mut grave)).await?;
            }
        }
        if let Some((_, batch)) = ahead {
            grave.extend(self.settle_checked(batch, stop).await?);
        }
        self.writer.bury_all(grave).await?;
        Ok(())
    }

    /// Writes a batch that was checked; returns what is for the dead letters.
    async fn settle_checked(
        &mut self,
        batch: Checked,
        stop: &CancellationToken,
    ) -> Result<Grave, EngineError> {
        let (settled, grave) = self.writer.settle_good(batch, stop).await?;
        self.note_waiting(&settled);
        Ok(grave)
    }

    fn note_waiting(&mut self, settled: &Settled) {
        if settled.waiting > 0 {
            self.waiting.get_or_insert_with(Instant::now);
        }
    }

    /// Writes a batch while the next one is read and checked, and the bad ones of the batch before are buried: else poison holds
    /// up the good ones behind it. Should something fail, what was read or not buried is among the own pending
    /// entries, which come first then.
    async fn settle_and_read(
        &mut self,
        batch: Checked,
        grave: Grave,
        stop: &CancellationToken,
    ) -> Result<(Option<(usize, Checked)>, Grave), EngineError> {
        let Self { writer, reader, partition, name, settings, .. } = self;
        let (store, keys) = (Arc::clone(&writer.store), writer.keys.clone());
        let in_hand = writer.in_hand.clone();
        let reading = async {
            let (from, count) = (ReadFrom::New(AT_ONCE), settings.consumer_batch);
            let read = stream::read_group(reader, partition, name, from, count).await?;
            bury_all(reader, &keys, grave).await?;
            let count = read.len();
            let checked = entry_check::check(&store, reader, &keys, &in_hand, read).await?;
            Ok::<_, EngineError>((count, checked))
        };
        let (settled, read) = tokio::join!(writer.settle_good(batch, stop), reading);
        let ((settled, grave), read) = (settled?, read?);
        self.note_waiting(&settled);
        if read.0 == 0 {
            // It is not known when the next batch comes.
            self.writer.bury_all(grave).await?;
            return Ok((None, Grave::new()));
        }
        Ok((Some(read), grave))
    }

    async fn while_held(&mut self, stop: &CancellationToken) {
        if !*self.hold.wanted.borrow() {
            return;
        }
        self.hold.parked.send_replace(true);
        tokio::select! {
            () = stop.cancelled() => {}
            // An error means that nobody can hold it any more.
            _ = self.hold.wanted.wait_for(|held| !held) => {}
        }
        self.hold.parked.send_replace(false);
    }

    /// What this consumer was given before its process began, or before a server went away. Only the
    /// former counts as a delivery: an outage must not make dead letters of good entries.
    async fn finish_own(&mut self, stop: &CancellationToken) -> Result<(), EngineError> {
        let mut after = EntryId::MIN;
        // Also a pass that fails counts as one: it is tried again and again.
        let resumed = std::mem::replace(&mut self.resumed, true);
        while !stop.is_cancelled() {
            let batch = if resumed {
                let count = self.settings.consumer_batch;
                let Some(first) = after.next() else { break };
                let (reader, of) = (&mut self.reader, &self.partition);
                stream::own_page(reader, of, &self.name, first, count).await?
            } else {
                self.read(ReadFrom::Own(after)).await?
            };
            let Some(last) = batch.last() else { break };
            after = last.entry;
            if resumed {
                self.settle(batch, stop).await?;
            } else {
                self.settle_again(batch, stop).await?;
            }
        }
        Ok(())
    }

    /// What an operator has given to this consumer: it has nothing in hand now, so whatever is in its pending list
    /// came from somebody else.
    async fn take_given(&mut self, stop: &CancellationToken) -> Result<(), EngineError> {
        let mut next = Some(EntryId { partition: self.partition.number(), ..EntryId::MIN });
        while let Some(from) = next.filter(|_| !stop.is_cancelled()) {
            let count = self.settings.consumer_batch;
            let (reader, of) = (&mut self.reader, &self.partition);
            let given = stream::own_page(reader, of, &self.name, from, count).await?;
            let Some(last) = given.last() else { break };
            next = last.entry.next();
            self.settle_again(given, stop).await?;
        }
        Ok(())
    }

    /// What other consumers have left lying.
    async fn claim_idle(&mut self, stop: &CancellationToken) -> Result<(), EngineError> {
        self.rebuild().await?;
        let mut from = Some(EntryId::MIN);
        while let Some(start) = from.filter(|_| !stop.is_cancelled()) {
            let idle = self.settings.claim_idle();
            let count = self.settings.consumer_batch;
            let of = &self.partition;
            let claimed =
                stream::auto_claim(&mut self.reader, of, &self.name, idle, start, count).await?;
            if !claimed.gone.is_empty() {
                // Redis has dropped them from the pending list; their buyers still wait.
                let ids: Vec<String> = claimed.gone.iter().map(ToString::to_string).collect();
                tracing::error!(entries = ids.join(" "), "pending entries had no body any more");
                self.rebuild().await?;
            }
            from = claimed.next;
            self.settle_again(claimed.entries, stop).await?;
        }
        Ok(())
    }

    /// What claims have dropped, this consumer's own and those of one that died before it got here.
    async fn rebuild(&mut self) -> Result<(), EngineError> {
        let gone = stream::gone(&mut self.reader, &self.partition).await?;
        if !gone.is_empty() {
            let Writer { link, store, keys, .. } = &mut self.writer;
            let rebuilt = rebuild(store, link, keys, &self.partition).await?;
            tracing::warn!(orders = rebuilt.orders, "orders were put into the stream again");
            stream::rebuilt(&mut self.reader, &self.partition, &gone).await?;
        }
        Ok(())
    }

    /// Entries that were delivered before: those that came too often are put aside, for they may be
    /// what brings a node down.
    async fn settle_again(
        &mut self,
        batch: Vec<Delivered>,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let times = stream::deliveries(
            &mut self.reader,
            &self.partition,
            Some(&self.name),
            first.entry,
            last.entry,
            batch.len(),
        )
        .await?;
        let most = self.settings.max_deliveries;
        let times: HashMap<EntryId, u64> = times.into_iter().collect();
        let too_often = |entry: EntryId| times.get(&entry).copied().filter(|times| *times > most);
        let (often, fine): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|delivered| too_often(delivered.entry).is_some());
        let orders: Vec<OrderId> =
            often.iter().filter_map(|delivered| Some(delivered.order()?.order)).collect();
        let written: HashSet<OrderId> =
            self.writer.store.existing(&orders).await?.into_iter().collect();
        let (mut fine, mut grave) = (fine, Vec::new());
        for delivered in often {
            if delivered.order().is_some_and(|order| written.contains(&order.order)) {
                fine.push(delivered);
                continue;
            }
            let times = too_often(delivered.entry).unwrap_or_default();
            grave.push((delivered.entry, Said::of(&OrderFault::TooOften(times))));
        }
        self.writer.bury_all(grave).await?;
        self.settle(fine, stop).await?;
        Ok(())
    }

    /// Writes a batch; with `order_lock`, under a lock for each of its buyers. Whose lock is not had
    /// stays pending with the whole batch: nothing is ever acknowledged for want of a lock.
    async fn settle(
        &mut self,
        batch: Vec<Delivered>,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        if !self.settings.order_lock {
            let settled = self.writer.settle(batch, stop).await?;
            self.note_waiting(&settled);
            return Ok(());
        }
        let users = batch.iter().filter_map(|delivered| Some(delivered.order()?.user));
        let (guards, missed) = lock_buyers(&self.locks, users).await;
        let locked = |delivered: &Delivered| {
            delivered.order().is_none_or(|order| guards.contains_key(&order.user))
        };
        // Progress is made with those that were had, so two nodes never wait for each other for ever.
        let settled = self.writer.settle(batch.into_iter().filter(locked).collect(), stop).await;
        for released in join_all(guards.into_values().map(Guard::release)).await {
            // A lock that was lost guarded nothing that the unique index does not.
            if let Err(error) = released {
                tracing::warn!(%error, "an order lock was not given back");
            }
        }
        self.note_waiting(&settled?);
        // To read it again is no delivery that would count against it.
        self.resumed |= missed.is_some();
        missed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn read(&mut self, from: ReadFrom) -> Result<Vec<Delivered>, BrokerError> {
        let count = self.settings.consumer_batch;
        stream::read_group(&mut self.reader, &self.partition, &self.name, from, count).await
    }
}

/// One lock a buyer, all asked for at once: those that were had, and why one was not.
async fn lock_buyers(
    locks: &Locks,
    users: impl Iterator<Item = UserId>,
) -> (BTreeMap<UserId, Guard>, Option<LockError>) {
    let users: BTreeSet<UserId> = users.collect();
    let asked = users.into_iter().map(async |user| {
        let name = LockName::new(format!("order:{user}"))?;
        let guard = locks.try_for(&name, "write order", ORDER_LOCK_WAIT, None).await?;
        Ok((user, guard))
    });
    let (mut guards, mut missed) = (BTreeMap::new(), None);
    for asked in join_all(asked).await {
        match asked {
            Ok((user, guard)) => drop(guards.insert(user, guard)),
            Err(error) => missed = Some(error),
        }
    }
    (guards, missed)
}
