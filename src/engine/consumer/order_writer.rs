//! Writes delivered entries to SQL, and acknowledges them only after that.
//!
//! The consumer and the replays choose the entries. In every failure case an entry is acknowledged only after its order
//! was committed or it became a dead letter.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{
    EntryId, Message, Millis, OrderEntry, OrderError, locale::in_english, reason::reason,
};
use seckill_redis::{
    Layout, dead_letters,
    keys::Partition,
    stream::{self, Delivered},
};
use seckill_store::{StoreError, Written};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    context::NodeContext,
    event::{self, Event},
    ledger::{
        entry_check::{self, Checked, Rejected},
        promise_journal::InHand,
    },
    lists::group_by,
    orders::name_sales,
    outbox::Outbox,
    recovery::reconcile::put_back_written,
    servers::Servers,
    telemetry::log::events::{ORDERS_WAIT, ORDERS_WRITTEN},
};

/// A round trip for each batch would take a tenth of its time.
const CLOCK_GOOD_FOR: Duration = Duration::from_secs(1);
/// Delay between retries while a server is unreachable.
pub(crate) const BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];

/// Result of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Orders written now.
    pub persisted: u64,
    /// Orders that were already in SQL.
    pub again: u64,
    /// Became dead letters.
    pub dead: u64,
    /// Missing bodies; left pending, because their orders are unknown.
    pub gone: u64,
    /// Left pending until the buyers of their sale are known again.
    pub waiting: u64,
    /// Transactions to which SQL replied, including failed ones.
    pub transactions: u64,
}

/// A batch after its commit. Its entries stay pending until [`Self::finish`].
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Committed {
    pub(crate) settled: Settled,
    /// In SQL now.
    live: Vec<OrderEntry>,
    /// To become dead letters.
    rejected: Rejected,
    /// Keeps the orders in hand until they are acknowledged.
    orders: Arc<Vec<OrderEntry>>,
}

impl Committed {
    /// Adds the result of one transaction.
    fn add(&mut self, part: &[OrderEntry], written: &[Written]) {
        for (order, written) in part.iter().zip(written) {
            if let Some(fault) = written.fault(order) {
                self.rejected.push((order.entry, Message::of(&fault)));
                continue;
            }
            match written {
                Written::New => self.settled.persisted += 1,
                _ => self.settled.again += 1,
            }
            self.live.push(*order);
        }
    }

    /// Acknowledges the entries, and makes dead letters of those that can never be written; returns how many of these
    /// were pending.
    ///
    /// # Errors
    /// Redis or the database is unreachable: what was not acknowledged stays pending, and is found in SQL at the next
    /// delivery.
    pub(crate) async fn finish(self, servers: &mut Servers) -> Result<u64> {
        let entries = self.live.iter().map(|order| order.entry).collect();
        if acknowledge(servers, entries).await? < self.live.len() as u64 {
            // Another consumer was faster, or the stream was lost during the wait for SQL: then the buyers were rebuilt
            // from rows that did not include these.
            put_back_written(servers, self.live).await?;
        }
        // Last: the good ones must not wait for a Redis that rejects dead letters.
        reject_all(servers, self.rejected).await
    }
}

/// Writes delivered entries to SQL and acknowledges them; shared by the consumer and by replays.
#[derive(Debug)]
pub struct Writer {
    pub(crate) servers: Servers,
    /// The last time read from the clock of Redis.
    clock: Option<(Instant, Millis)>,
    pub(crate) in_hand: InHand,
    /// The outbox for events, and their node.
    events: Option<(Outbox, String)>,
}

impl Writer {
    /// A writer that reports nothing to others.
    pub fn new(servers: Servers) -> Self {
        Self { servers, clock: None, in_hand: InHand::default(), events: None }
    }

    /// The writer of a consumer: it reports the orders in progress to the admission tasks of its process, and outages
    /// of the database as events of its node.
    pub(crate) fn reporting(context: &NodeContext) -> Self {
        let NodeContext { node, deployment, outbox, in_hand, .. } = context.clone();
        Self { servers: deployment.servers(), clock: None, in_hand, events: Some((outbox, node)) }
    }

    /// Commits the orders of a batch, then acknowledges them; bad entries become dead letters. Waits while the database
    /// is unreachable.
    ///
    /// # Errors
    /// Redis is unreachable, or `stop` was cancelled while the database was: what was not acknowledged stays pending.
    pub async fn settle(
        &mut self,
        batch: Vec<Delivered>,
        stop: &CancellationToken,
    ) -> Result<Settled> {
        let checked = entry_check::check(&mut self.servers, &self.in_hand, batch).await?;
        let committed = self.commit(checked, stop).await?;
        let settled = committed.settled;
        Ok(Settled { dead: committed.finish(&mut self.servers).await?, ..settled })
    }

    /// Commits the orders of a checked batch; nothing is acknowledged yet.
    pub(crate) async fn commit(
        &mut self,
        checked: Checked,
        stop: &CancellationToken,
    ) -> Result<Committed> {
        let Checked { orders, rejected, gone, waiting } = checked;
        let settled = Settled { gone, waiting, ..Settled::default() };
        let mut committed =
            Committed { settled, live: Vec::with_capacity(orders.len()), rejected, orders };
        if let Err(error) = self.commit_parts(&mut committed, stop).await {
            // What is in SQL must not wait for the database.
            if let Err(error) = committed.finish(&mut self.servers).await {
                tracing::warn!(%error, "written orders were not acknowledged; they are delivered again");
            }
            return Err(error);
        }
        Ok(committed)
    }

    /// Commits all orders at once, or else halves of them, until a bad one is alone.
    async fn commit_parts(
        &mut self,
        committed: &mut Committed,
        stop: &CancellationToken,
    ) -> Result<()> {
        let orders = Arc::clone(&committed.orders);
        // Halves of a failed batch, the next one on top.
        let mut parts: Vec<&[OrderEntry]> = vec![orders.as_slice()];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let written = self.write(part, stop).await;
            committed.settled.transactions += 1;
            match (written, part) {
                (Ok(written), _) => committed.add(part, &written),
                (Err(EngineError::Store(error)), [only]) => match row_fault(&error) {
                    Some(fault) => committed.rejected.push((only.entry, Message::of(&fault))),
                    None => return Err(error.into()),
                },
                (Err(EngineError::Store(_)), _) => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.push(right);
                    parts.push(left);
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs one transaction; retries while the database is unreachable, and while the error is not proven to be caused
    /// by a single order.
    async fn write(
        &mut self,
        part: &[OrderEntry],
        stop: &CancellationToken,
    ) -> Result<Vec<Written>> {
        let mut pause = BACKOFF[0];
        let mut waiting = false;
        loop {
            // By the clock of Redis: the clocks of nodes differ, and the time to pay counts from here.
            let now = self.now(part).await?;
            match self.servers.store.write_orders(part, now).await {
                // Also if the outcome of a commit is unknown: the next try finds what was written.
                Err(error)
                    if error.stands_for_all() || part.len() == 1 && row_fault(&error).is_none() =>
                {
                    tracing::warn!(%error, orders = part.len(), "the batch waits for the database");
                    if !std::mem::replace(&mut waiting, true) {
                        self.event(ORDERS_WAIT, part, &Event::Error(error.into()));
                    }
                    if !wait(stop, &mut pause).await {
                        return Err(EngineError::Stopping);
                    }
                }
                other => {
                    if waiting && other.is_ok() {
                        let orders = Event::Other(reason!("event-orders", orders = part.len()));
                        self.event(ORDERS_WRITTEN, part, &orders);
                    }
                    return Ok(other?);
                }
            }
        }
    }

    fn event(&self, action: &str, part: &[OrderEntry], event: &Event) {
        let Some((outbox, node)) = &self.events else { return };
        let partition = part.first().map_or(0, |order| order.entry.partition);
        outbox.put_own(node, action, event::partition(partition), Message::of(event));
    }

    /// The clock of Redis. It is read at intervals; in between, the monotonic clock of this process is added.
    async fn now(&mut self, part: &[OrderEntry]) -> Result<Millis> {
        if let Some((asked, then)) = self.clock.filter(|it| it.0.elapsed() < CLOCK_GOOD_FOR) {
            return Ok(then.plus(asked.elapsed().as_millis() as i64));
        }
        // Of the server that the entries came from, regardless of other partitions.
        let of = self.servers.keys.partition(part.first().map_or(0, |order| order.entry.partition));
        // Counted from before the query and rounded up, it never lags: no order is dated before its entry.
        let asked = Instant::now();
        let now = self.servers.conn.now_at(&of.orders()).await?.plus(1);
        self.clock = Some((asked, now));
        Ok(now)
    }

    /// Acknowledges entries of any partition; returns how many were pending. Only for entries whose order is in SQL or
    /// has been enqueued again.
    pub async fn acknowledge(&mut self, entries: Vec<EntryId>) -> Result<u64> {
        acknowledge(&mut self.servers, entries).await
    }

    /// Makes dead letters of entries, each with its reason; returns how many were pending.
    pub async fn reject_all(&mut self, entries: Rejected) -> Result<u64> {
        reject_all(&mut self.servers, entries).await
    }
}

/// Returns the fault of the order itself where the error proves one; only such an order may become a dead letter.
fn row_fault(error: &StoreError) -> Option<OrderError> {
    match error {
        StoreError::Rejected(why) => Some(OrderError::Rejected(in_english(|| why.to_string()))),
        StoreError::NoSale(voucher) => Some(OrderError::NoSale(*voucher)),
        StoreError::OutOfStock(voucher) => Some(OrderError::OutOfStock(*voucher)),
        _ => None,
    }
}

/// Acknowledges entries of any partition. Only for entries whose order is in SQL or has been enqueued again.
async fn acknowledge(servers: &mut Servers, entries: Vec<EntryId>) -> Result<u64> {
    let mut done = 0;
    for (of, entries) in by_partition(&servers.keys, entries, |entry| *entry) {
        done += stream::acknowledge(&mut servers.conn, &of, entries).await?;
    }
    Ok(done)
}

/// Makes dead letters of entries; returns how many were pending. A reason names the sale, for which SQL is asked, not one of its shards.
pub(crate) async fn reject_all(servers: &mut Servers, mut entries: Rejected) -> Result<u64> {
    let mut faults = Vec::new();
    for (_, reason) in &mut entries {
        if let Some(mut fault) = reason.data::<OrderError>()
            && fault.voucher_mut().is_some()
        {
            faults.push((reason, fault));
        }
    }
    name_sales(&servers.store, faults.iter_mut().filter_map(|(_, it)| it.voucher_mut())).await?;
    for (reason, fault) in faults {
        *reason = Message::of(&fault);
    }
    if let Some((entry, reason)) = entries.first() {
        // Each letter has its own reason; logging each would be the most expensive part of poison entries.
        tracing::warn!(entries = entries.len(), first = %entry, %reason, "dead letters");
    }
    let mut dead = 0;
    for (of, part) in by_partition(&servers.keys, entries, |(entry, _)| *entry) {
        dead += dead_letters::bury_all(&mut servers.conn, &of, &part).await?;
    }
    Ok(dead)
}

/// Groups what has an ID in a stream by the partition of that stream.
pub(crate) fn by_partition<T>(
    keys: &Layout,
    items: impl IntoIterator<Item = T>,
    id: impl Fn(&T) -> EntryId,
) -> Vec<(Partition, Vec<T>)> {
    let parts = group_by(items, |item| id(item).partition);
    parts.into_iter().map(|(number, items)| (keys.partition(number), items)).collect()
}

/// Sleeps with backoff; `false` if `stop` came first.
pub(crate) async fn wait(stop: &CancellationToken, pause: &mut Duration) -> bool {
    let now = *pause;
    *pause = (*pause * 2).min(BACKOFF[1]);
    stop.run_until_cancelled(tokio::time::sleep(now)).await.is_some()
}
