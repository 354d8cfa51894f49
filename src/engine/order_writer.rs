//! Writes delivered entries to SQL, and acknowledges them only after that.
//!
//! The consumer and the replays choose the entries. In every failure case an entry is acknowledged only after its order
//! was committed or it became a dead letter.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use seckill_model::{EntryId, Message, Millis, OrderEntry, OrderFault, locale::in_english};
use seckill_redis::{
    Connection, Layout, Redis, RedisError, dead_letters,
    keys::Partition,
    stream::{self, Delivered},
};
use seckill_store::{SharedStore, StoreError, Written};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    entry_check::{self, Checked, Rejected},
    event::{Event, Subject},
    outbox::Outbox,
    promise_journal::InHand,
    reconcile::put_back_written,
};
use crate::telemetry::log::events::{ORDERS_WAIT, ORDERS_WRITTEN};

/// A round trip for each batch would take a tenth of its time.
const CLOCK_GOOD_FOR: Duration = Duration::from_secs(1);
/// Delay between retries while a server is unreachable.
pub(super) const BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];

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
    /// Transactions that SQL answered, including failed ones.
    pub transactions: u64,
}

/// Writes delivered entries to SQL and acknowledges them; shared by the consumer and by replays.
#[derive(Debug)]
pub struct Writer {
    pub(super) conn: Connection,
    pub(super) store: SharedStore,
    pub(super) keys: Layout,
    /// The last time read from the clock of Redis.
    clock: Option<(Instant, Millis)>,
    pub(super) in_hand: InHand,
    /// The outbox for events, and their node.
    events: Option<(Outbox, String)>,
}

impl Writer {
    /// A writer with its own connection.
    pub fn new(redis: &Redis, store: SharedStore, keys: Layout) -> Self {
        Self {
            conn: redis.connection(),
            store,
            keys,
            clock: None,
            in_hand: InHand::default(),
            events: None,
        }
    }

    /// Reports outages of the database as events of `node`.
    #[must_use]
    pub fn with_events(self, outbox: Outbox, node: String) -> Self {
        Self { events: Some((outbox, node)), ..self }
    }

    /// Reports the orders in progress to the admission tasks of its process.
    #[must_use]
    pub fn sharing(self, in_hand: InHand) -> Self {
        Self { in_hand, ..self }
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
    ) -> Result<Settled, EngineError> {
        let Self { store, conn, keys, in_hand, .. } = self;
        let checked = entry_check::check(store, conn, keys, in_hand, batch).await?;
        let (settled, rejected) = self.settle_good(checked, stop).await?;
        // After the good ones, which must not wait for a Redis that rejects dead letters.
        Ok(Settled { dead: self.reject_all(rejected).await?, ..settled })
    }

    /// The same for a checked batch, but its dead letters stay pending and are returned.
    ///
    /// # Errors
    /// As for [`Self::settle`].
    pub(super) async fn settle_good(
        &mut self,
        checked: Checked,
        stop: &CancellationToken,
    ) -> Result<(Settled, Rejected), EngineError> {
        let Checked { orders, mut rejected, gone, waiting } = checked;
        let mut settled = Settled { gone, waiting, ..Settled::default() };
        // Halves of a failed batch, the next one on top.
        let mut parts: Vec<&[OrderEntry]> = vec![orders.as_slice()];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let written = self.write(part, stop).await;
            settled.transactions += 1;
            match (written, part) {
                (Ok(written), _) => self.close(part, &written, &mut settled, &mut rejected).await?,
                (Err(EngineError::Store(error)), [only]) => match row_fault(&error) {
                    Some(fault) => rejected.push((only.entry, Message::of(&fault))),
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
        Ok((settled, rejected))
    }

    /// Runs one transaction; retries while the database is unreachable, and while the error is not proven to be caused
    /// by a single order.
    async fn write(
        &mut self,
        part: &[OrderEntry],
        stop: &CancellationToken,
    ) -> Result<Vec<Written>, EngineError> {
        let mut pause = BACKOFF[0];
        let mut waiting = false;
        loop {
            // By the clock of Redis: the clocks of nodes differ, and the time to pay counts from here.
            let now = self.now(part).await?;
            match self.store.write_orders(part, now).await {
                // Also if the outcome of a commit is unknown: the next try finds what was written.
                Err(error)
                    if error.stands_for_all() || part.len() == 1 && row_fault(&error).is_none() =>
                {
                    tracing::warn!(%error, orders = part.len(), "the batch waits for the database");
                    if !std::mem::replace(&mut waiting, true) {
                        self.event(ORDERS_WAIT, part, &Event::ReadError(error.into()));
                    }
                    if !wait(stop, &mut pause).await {
                        return Err(EngineError::Stopping);
                    }
                }
                other => {
                    if waiting && other.is_ok() {
                        let orders = Event::OrdersWritten(part.len() as u64);
                        self.event(ORDERS_WRITTEN, part, &orders);
                    }
                    return Ok(other?);
                }
            }
        }
    }

    fn event(&self, act: &str, part: &[OrderEntry], event: &Event) {
        let Some((outbox, node)) = &self.events else { return };
        let partition = part.first().map_or(0, |order| order.entry.partition);
        outbox.put_own(node, act, Message::of(&Subject::Partition(partition)), Message::of(event));
    }

    /// The clock of Redis. It is read at intervals; in between, the monotonic clock of this process is added.
    async fn now(&mut self, part: &[OrderEntry]) -> Result<Millis, EngineError> {
        if let Some((asked, then)) = self.clock.filter(|it| it.0.elapsed() < CLOCK_GOOD_FOR) {
            return Ok(then.plus(asked.elapsed().as_millis() as i64));
        }
        // Of the server that the entries came from, regardless of other partitions.
        let of = self.keys.partition(part.first().map_or(0, |order| order.entry.partition));
        // Counted from before the query and rounded up, it never lags: no order is dated before its entry.
        let asked = Instant::now();
        let now = self.conn.now_at(&of.orders()).await?.plus(1);
        self.clock = Some((asked, now));
        Ok(now)
    }

    /// After the commit: acknowledges written entries, and returns those that can never be written.
    async fn close(
        &mut self,
        part: &[OrderEntry],
        written: &[Written],
        settled: &mut Settled,
        rejected: &mut Rejected,
    ) -> Result<(), EngineError> {
        let mut done = Vec::with_capacity(part.len());
        for (order, written) in part.iter().zip(written) {
            let why = match written {
                Written::New => {
                    settled.persisted += 1;
                    done.push(order.entry);
                    continue;
                }
                Written::Again => {
                    settled.again += 1;
                    done.push(order.entry);
                    continue;
                }
                Written::Conflict { holds } => {
                    OrderFault::Holds { user: order.user, holds: *holds, voucher: order.voucher }
                }
                Written::IdTaken => OrderFault::IdTaken(order.order),
                Written::NoSale => OrderFault::NoSale(order.voucher),
            };
            rejected.push((order.entry, Message::of(&why)));
        }
        let all = done.len() as u64;
        if self.acknowledge(done).await? < all {
            // Another consumer was faster, or the stream was lost during the wait for SQL: then the buyers were rebuilt
            // from rows that did not include these.
            let live = part.iter().zip(written);
            let live = live.filter(|it| matches!(it.1, Written::New | Written::Again));
            let live: Vec<OrderEntry> = live.map(|(order, _)| *order).collect();
            put_back_written(&self.store, &mut self.conn, &self.keys, &live).await?;
        }
        Ok(())
    }

    /// Acknowledges entries of any partition; returns how many were pending.
    pub async fn acknowledge(&mut self, entries: Vec<EntryId>) -> Result<u64, EngineError> {
        let mut done = 0;
        for (of, entries) in by_partition(&self.keys, entries) {
            done += stream::acknowledge(&mut self.conn, &of, entries).await?;
        }
        Ok(done)
    }

    /// Makes dead letters of entries, each with its reason; returns how many were pending.
    pub async fn reject_all(&mut self, entries: Rejected) -> Result<u64, EngineError> {
        Ok(reject_all(&mut self.conn, &self.keys, entries).await?)
    }
}

/// Returns the fault of the order itself where the error proves one; only such an order may become a dead letter.
fn row_fault(error: &StoreError) -> Option<OrderFault> {
    match error {
        StoreError::Refused(why) => Some(OrderFault::Refused(in_english(|| why.to_string()))),
        StoreError::NoSale(voucher) => Some(OrderFault::NoSale(*voucher)),
        StoreError::OutOfStock(voucher) => Some(OrderFault::OutOfStock(*voucher)),
        _ => None,
    }
}

/// The same over a connection of the caller's.
pub(super) async fn reject_all(
    conn: &mut Connection,
    keys: &Layout,
    entries: Rejected,
) -> Result<u64, RedisError> {
    if let Some((entry, reason)) = entries.first() {
        // Each letter has its own reason; logging each would be the most expensive part of poison entries.
        tracing::warn!(entries = entries.len(), first = %entry, %reason, "dead letters");
    }
    let mut parts: BTreeMap<u16, Rejected> = BTreeMap::new();
    for (entry, reason) in entries {
        parts.entry(entry.partition).or_default().push((entry, reason));
    }
    let mut dead = 0;
    for (number, part) in parts {
        dead += dead_letters::bury_all(conn, &keys.partition(number), &part).await?;
    }
    Ok(dead)
}

/// Entries grouped by the partition of their stream.
pub(super) fn by_partition(
    keys: &Layout,
    entries: impl IntoIterator<Item = EntryId>,
) -> Vec<(Partition, Vec<EntryId>)> {
    let mut parts: BTreeMap<u16, Vec<EntryId>> = BTreeMap::new();
    for entry in entries {
        parts.entry(entry.partition).or_default().push(entry);
    }
    parts.into_iter().map(|(number, entries)| (keys.partition(number), entries)).collect()
}

/// Sleeps with backoff; `false` if `stop` came first.
pub(super) async fn wait(stop: &CancellationToken, pause: &mut Duration) -> bool {
    let now = *pause;
    *pause = (*pause * 2).min(BACKOFF[1]);
    tokio::select! {
        () = stop.cancelled() => false,
        () = tokio::time::sleep(now) => true,
    }
}
