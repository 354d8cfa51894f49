//! Writes delivered entries to SQL, and acknowledges them only after that.
//!
//! The consumer and the replays choose the entries. In every failure case an entry is acknowledged only after its order
//! was committed or it became a dead letter.
//!
//! No error code decides what an error is about. The database is asked for what it accepts beside a rejected order: if it
//! accepts others of the same sale before and after it, the order is a dead letter. If it accepts none of the same sale,
//! the orders of that sale stay pending and the others go on. If it accepts none at all, the batch waits.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use redis::cmd;
use seckill_model::{
    EntryId, Message, Millis, OrderEntry, OrderError, ShardId,
    ledger::{Finding, SaleFinding},
    locale::in_english,
    reason::reason,
};
use seckill_redis::{
    Layout, dead_letters,
    keys::Partition,
    stream::{self, Delivered},
};
use seckill_store::{Accepts, StoreError, Written};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::{
        entry_check::{self, Checked, Rejected},
        promise_journal::InHand,
        sale_copy,
    },
    lists::group_by,
    node::{context::NodeContext, outbox::Outbox},
    recovery::{former_names, reconcile::put_back_written, sale_versions::SaleVersions},
    telemetry::{
        Meters,
        event::{self, Event},
        log::events::{ORDERS_WAIT, ORDERS_WRITTEN},
    },
};

/// A round trip for each batch would take a tenth of its time.
const CLOCK_GOOD_FOR: Duration = Duration::from_secs(1);
/// Delay between retries while a server is unreachable.
pub(crate) const BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];
/// Interval between attempts to write orders of a sale of which the database accepts none.
const RETRY_SALE: Duration = Duration::from_secs(1);
/// An outage is not questioned before it has failed this many attempts; then it may be that of a single order or sale.
const OUTAGES: u32 = 4;
/// Failures of one order, each with others of its sale accepted before and after it, that prove a fault of the order.
const PROOFS: u32 = 2;

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
    /// Left pending: until the buyers of their sale are known again, or while the database accepts no orders of it.
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
    /// Sales of which the database accepts no orders, and when they are tried again.
    refused_sales: BTreeMap<ShardId, Instant>,
    reports: Option<Reports>,
}

/// Where a consumer reports what its orders wait for.
#[derive(Debug)]
struct Reports {
    outbox: Outbox,
    node: String,
    meters: Arc<Meters>,
    versions: SaleVersions,
}

/// Result of an attempt to write a part of a batch.
enum Attempt {
    Written(Vec<Written>),
    /// The database accepts other orders: smaller parts are written each for itself.
    Split,
    /// A fault of the only order of the part.
    Rejected(OrderError),
    /// The database accepts no orders of this sale, to which all of the part belong, but others.
    SaleRefused(ShardId, StoreError),
    /// The only order of the part is not written for now, for a reason that says nothing about it.
    Later,
}

impl Writer {
    /// A writer that reports nothing to others.
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            clock: None,
            in_hand: InHand::default(),
            refused_sales: BTreeMap::new(),
            reports: None,
        }
    }

    /// The writer of a consumer: it reports the orders in progress to the admission tasks of its process, and outages
    /// of the database as events of its node.
    pub(crate) fn reporting(context: &NodeContext) -> Self {
        let NodeContext { node, deployment, outbox, in_hand, meters, versions, .. } =
            context.clone();
        let reports = Some(Reports { outbox, node, meters, versions });
        Self { in_hand, reports, ..Self::new(deployment.servers()) }
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

    /// Settles an entry that was delivered too often: writes its order alone. Redis notes that it is being tried. If this
    /// process ends with it, the next one that is delivered the entry makes it a dead letter; waiting for the database is
    /// no trial.
    pub(crate) async fn settle_suspect(
        &mut self,
        suspect: Delivered,
        times: u64,
        stop: &CancellationToken,
    ) -> Result<Settled> {
        let (entry, servers) = (suspect.entry, &mut self.servers);
        let of = servers.keys.partition(entry.partition);
        let batch = vec![suspect];
        let checked = entry_check::check(servers, &self.in_hand, batch.clone()).await?;
        let written = servers.written(checked.orders.iter().map(|order| order.order)).await?;
        let Some(order) = checked.orders.first().filter(|it| !written.contains(&it.order)) else {
            return self.settle(batch, stop).await;
        };
        if stream::is_on_trial(&mut servers.conn, &of, entry).await? {
            let why = Message::of(&OrderError::TooOften(times));
            let dead = self.reject_all(vec![(entry, why)]).await?;
            stream::end_trial(&mut self.servers.conn, &of, entry).await?;
            return Ok(Settled { dead, ..Settled::default() });
        }
        let now = self.now(&checked.orders).await?;
        let servers = &mut self.servers;
        if servers.store.accepts(order, now).await != Ok(Accepts::Sale) {
            return Ok(Settled { waiting: 1, ..Settled::default() });
        }
        stream::begin_trial(&mut servers.conn, &of, entry).await?;
        let tried = servers.store.write_orders(&checked.orders, now).await;
        stream::end_trial(&mut servers.conn, &of, entry).await?;
        if tried.is_err_and(|error| error.is_outage()) {
            return Ok(Settled { waiting: 1, ..Settled::default() });
        }
        // Finds the result of the trial.
        self.settle(batch, stop).await
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

    /// Commits all orders at once, or else smaller parts of them, until a bad one is alone.
    async fn commit_parts(
        &mut self,
        committed: &mut Committed,
        stop: &CancellationToken,
    ) -> Result<()> {
        let orders = Arc::clone(&committed.orders);
        // Parts of a failed batch, the next one on top.
        let mut parts: Vec<Cow<'_, [OrderEntry]>> = vec![self.due(&orders, committed)];
        let mut accepted = BTreeSet::new();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let attempt = self.write(&part, &mut accepted, stop).await?;
            committed.settled.transactions += 1;
            match attempt {
                Attempt::Written(written) => self.add(committed, &part, written).await?,
                Attempt::Split => parts.extend(split(&part).into_iter().rev().map(Cow::Owned)),
                Attempt::Rejected(fault) => {
                    let faults = part.iter().map(|order| (order.entry, Message::of(&fault)));
                    committed.rejected.extend(faults);
                }
                Attempt::SaleRefused(sale, error) => {
                    tracing::warn!(%error, %sale, orders = part.len(), "orders of a sale wait for the database");
                    self.set_aside(committed, &part, sale, &Event::Error(error.into()));
                }
                Attempt::Later => committed.settled.waiting += part.len() as u64,
            }
        }
        Ok(())
    }

    /// The orders of a batch without those of sales of which the database accepted none a moment ago.
    fn due<'a>(
        &self,
        orders: &'a [OrderEntry],
        committed: &mut Committed,
    ) -> Cow<'a, [OrderEntry]> {
        if self.refused_sales.is_empty() {
            return Cow::Borrowed(orders);
        }
        let now = Instant::now();
        let is_due =
            |it: &&OrderEntry| self.refused_sales.get(&it.sold_by()).is_none_or(|at| *at <= now);
        let due: Vec<OrderEntry> = orders.iter().filter(is_due).copied().collect();
        committed.settled.waiting += (orders.len() - due.len()) as u64;
        Cow::Owned(due)
    }

    /// Leaves orders pending whose sale gets none written; the first time, this is an event.
    fn set_aside(
        &mut self,
        committed: &mut Committed,
        part: &[OrderEntry],
        sale: ShardId,
        why: &Event,
    ) {
        committed.settled.waiting += part.len() as u64;
        if self.refused_sales.insert(sale, Instant::now() + RETRY_SALE).is_none() {
            self.event(ORDERS_WAIT, part, why);
            if let Some(reports) = &self.reports {
                let why = match why {
                    Event::Error(error) => Message::of(error),
                    other => Message::of(other),
                };
                reports.meters.note_refused(sale, Some(why));
            }
        }
    }

    /// Adds the result of one transaction. Orders of a sale that only Redis still has wait for it.
    async fn add(
        &mut self,
        committed: &mut Committed,
        part: &[OrderEntry],
        mut written: Vec<Written>,
    ) -> Result<()> {
        let mut part = Cow::Borrowed(part);
        let missing: BTreeSet<ShardId> = part
            .iter()
            .zip(&written)
            .filter(|(_, written)| **written == Written::NoSale)
            .map(|(order, _)| order.sold_by())
            .collect();
        let has_missing = !missing.is_empty();
        for sale in missing {
            let mut lost = sale;
            if !self.is_in_redis(sale).await? {
                // An entry of an earlier version, which named the shard by an ID of its own: read again, it has the sale.
                match former_names::lost_shard(&mut self.servers, sale).await? {
                    Some(shard) => lost = shard,
                    None => continue,
                }
            }
            let why = SaleFinding::of(lost, Finding::NotInSql).reason();
            let results = part.iter().copied().zip(written);
            let (lost, rest): (Vec<_>, Vec<_>) = results.partition(|(it, _)| it.sold_by() == sale);
            let lost: Vec<OrderEntry> = lost.into_iter().map(|(order, _)| order).collect();
            tracing::error!(%sale, orders = lost.len(), "the database has lost a sale; run 'seckill audit --repair'");
            if let Some(reports) = &self.reports {
                reports.versions.forget(sale.sale);
            }
            self.set_aside(committed, &lost, sale, &Event::Other(why));
            let (orders, results): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
            (part, written) = (Cow::Owned(orders), results);
        }
        if !self.refused_sales.is_empty() {
            let sales: BTreeSet<ShardId> = part.iter().map(OrderEntry::sold_by).collect();
            for sale in sales {
                if self.refused_sales.contains_key(&sale) {
                    let orders = Event::Other(reason!("event-orders", orders = part.len()));
                    self.event(ORDERS_WRITTEN, &part, &orders);
                    self.forget_refused(sale);
                }
            }
        }
        if !has_missing {
            committed.add(&part, &written);
            return Ok(());
        }
        for (order, written) in part.iter().zip(written) {
            if written == Written::NoSale {
                let fault = self.missing(order).await?;
                committed.rejected.push((order.entry, Message::of(&fault)));
            } else {
                committed.add(&[*order], &[written]);
            }
        }
        Ok(())
    }

    /// What is missing of the sale and the shard that an entry names.
    async fn missing(&self, order: &OrderEntry) -> Result<OrderError> {
        let (voucher, shard) = (order.voucher, order.shard);
        match self.servers.store.sale(voucher).await {
            Ok(_) => Ok(OrderError::NoShard { voucher, shard }),
            Err(StoreError::NoSale(_)) => Ok(OrderError::NoSale(voucher)),
            Err(error) => Err(error.into()),
        }
    }

    fn forget_refused(&mut self, sale: ShardId) {
        self.refused_sales.remove(&sale);
        if let Some(reports) = &self.reports {
            reports.meters.note_refused(sale, None);
        }
    }

    /// Notes that no order waits any more: others may have written them.
    pub(crate) fn nothing_waits(&mut self) {
        while let Some(sale) = self.refused_sales.first_key_value().map(|(sale, _)| *sale) {
            self.forget_refused(sale);
        }
    }

    /// Whether Redis has any key of a shard.
    async fn is_in_redis(&mut self, sale: ShardId) -> Result<bool> {
        let Servers { conn, keys, .. } = &mut self.servers;
        Ok(conn.query::<u64>(cmd("EXISTS").arg(&keys.sale_keys(sale))).await? > 0)
    }

    /// Runs one transaction; retries while the database is unreachable, or accepts no orders. `accepted` are the sales of
    /// which it was seen to accept orders since the batch failed.
    async fn write(
        &mut self,
        part: &[OrderEntry],
        accepted: &mut BTreeSet<ShardId>,
        stop: &CancellationToken,
    ) -> Result<Attempt> {
        let attempt = self.write_or_wait(part, accepted, stop).await;
        self.note_waiting(part, None);
        attempt
    }

    /// Reports why all orders of a part wait, or that they no longer do.
    fn note_waiting(&self, part: &[OrderEntry], why: Option<&StoreError>) {
        let Some(reports) = &self.reports else { return };
        let shards: BTreeSet<ShardId> = part.iter().map(OrderEntry::sold_by).collect();
        for shard in shards.into_iter().filter(|shard| !self.refused_sales.contains_key(shard)) {
            let why = why.map(|why| Message::of(&EngineError::Store(why.clone())));
            reports.meters.note_refused(shard, why);
        }
    }

    async fn write_or_wait(
        &mut self,
        part: &[OrderEntry],
        accepted: &mut BTreeSet<ShardId>,
        stop: &CancellationToken,
    ) -> Result<Attempt> {
        let mut pause = BACKOFF[0];
        let (mut waiting, mut outages, mut proofs) = (false, 0, 0);
        loop {
            // By the clock of Redis: the clocks of nodes differ, and the time to pay counts from here.
            let now = self.now(part).await?;
            let error = match self.servers.store.write_orders(part, now).await {
                Ok(written) => {
                    if waiting {
                        let orders = Event::Other(reason!("event-orders", orders = part.len()));
                        self.event(ORDERS_WRITTEN, part, &orders);
                    }
                    return Ok(Attempt::Written(written));
                }
                Err(error) => error,
            };
            outages = if error.is_outage() { outages + 1 } else { OUTAGES };
            // Also if the outcome of a commit is unknown: the next try finds what was written.
            if outages >= OUTAGES {
                match self.question(part, &error, accepted, now).await? {
                    Some(Attempt::Rejected(_)) if proofs + 1 < PROOFS => {
                        proofs += 1;
                        continue;
                    }
                    Some(attempt) => return Ok(attempt),
                    None => proofs = 0,
                }
            }
            if outages >= OUTAGES {
                self.note_waiting(part, Some(&error));
            }
            tracing::warn!(%error, orders = part.len(), "the batch waits for the database");
            if !std::mem::replace(&mut waiting, true) {
                self.event(ORDERS_WAIT, part, &Event::Error(error.into()));
            }
            if !wait(stop, &mut pause).await {
                return Err(EngineError::Stopping);
            }
        }
    }

    /// Finds out what an error is about, by what else the database accepts; `None` if nothing.
    async fn question(
        &mut self,
        part: &[OrderEntry],
        error: &StoreError,
        accepted: &mut BTreeSet<ShardId>,
        now: Millis,
    ) -> Result<Option<Attempt>> {
        let Some((first, others)) = part.split_first() else { return Ok(None) };
        let sale = first.sold_by();
        let is_one_sale = others.iter().all(|order| order.sold_by() == sale);
        if !error.is_outage() && !others.is_empty() && (!is_one_sale || accepted.contains(&sale)) {
            return Ok(Some(Attempt::Split));
        }
        Ok(match self.servers.store.accepts(first, now).await {
            Err(_) => None,
            Ok(_) if !is_one_sale => Some(Attempt::Split),
            Ok(Accepts::OtherSales(error)) => Some(Attempt::SaleRefused(sale, error)),
            Ok(Accepts::Sale) => {
                accepted.insert(sale);
                Some(if others.is_empty() {
                    self.blame(sale, error).await?
                } else {
                    Attempt::Split
                })
            }
        })
    }

    /// The fault of a single order, while the database accepts others of the same sale.
    async fn blame(&mut self, sale: ShardId, error: &StoreError) -> Result<Attempt> {
        Ok(match error {
            error if error.is_outage() => Attempt::Later,
            StoreError::OutOfStock(_) => {
                let ledger = self.servers.store.ledger(sale).await?;
                // Otherwise it is the stock that is wrong.
                if ledger.live < ledger.initial || self.is_ahead(sale).await? {
                    Attempt::SaleRefused(sale, error.clone())
                } else {
                    Attempt::Rejected(OrderError::OutOfStock(sale.voucher()))
                }
            }
            StoreError::NoSale(_) => Attempt::Rejected(OrderError::NoSale(sale.voucher())),
            error => {
                let why = error.clone().reason();
                Attempt::Rejected(OrderError::Rejected(in_english(|| why.to_string())))
            }
        })
    }

    /// Whether Redis has a later version of a sale: SQL was restored from a backup, and lacks a restock.
    async fn is_ahead(&mut self, sale: ShardId) -> Result<bool> {
        let held = sale_copy::version(&mut self.servers, sale).await;
        let version = self.servers.store.shard(sale).await?.version;
        Ok(held.is_some_and(|held| held > version))
    }

    fn event(&self, action: &str, part: &[OrderEntry], event: &Event) {
        let Some(Reports { outbox, node, .. }) = &self.reports else { return };
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

/// Smaller parts of a part: the orders of each shard, or two halves.
fn split(part: &[OrderEntry]) -> Vec<Vec<OrderEntry>> {
    let sales = group_by(part.iter().copied(), OrderEntry::sold_by);
    if sales.len() > 1 {
        return sales.into_values().collect();
    }
    let (left, right) = part.split_at(part.len() / 2);
    vec![left.to_vec(), right.to_vec()]
}

/// Acknowledges entries of any partition. Only for entries whose order is in SQL or has been enqueued again.
async fn acknowledge(servers: &mut Servers, entries: Vec<EntryId>) -> Result<u64> {
    let mut done = 0;
    for (of, entries) in by_partition(&servers.keys, entries, |entry| *entry) {
        done += stream::acknowledge(&mut servers.conn, &of, entries).await?;
    }
    Ok(done)
}

/// Makes dead letters of entries; returns how many were pending.
pub(crate) async fn reject_all(servers: &mut Servers, entries: Rejected) -> Result<u64> {
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
