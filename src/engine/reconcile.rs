//! Reconciles Redis with SQL, the stream and the recent promises, which have what a Redis that was restarted, emptied
//! or rolled back may have lost.
//!
//! A whole partition is reconciled before the first admission of a node and after each restart of Redis; a single sale
//! whose keys are inconsistent is reconciled alone, while the others go on. Meanwhile the sale admits no buyers: a
//! promised piece must not be sold again. Each node knows only its own promises, so on a restarted server it waits for
//! the other nodes that were alive before it admits buyers.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use redis::{cmd, pipe};
use seckill_model::{
    EntryId, Millis, OrderEntry, OrderId, Place, Sale, SaleState, VoucherId,
    faults::{self, Point},
};
use seckill_redis::{
    Connection, Layout, RedisError, keys::Partition, lossy_utf8::Text, scripts, stream,
};
use seckill_store::{SharedStore, StoreError};

use super::{
    EngineError, entry_check, ledger, payment,
    promise_journal::Admitted,
    rebuild::enqueue_lost,
    retention,
    sale_copy::{self, Synced},
};

/// Buyers in one run of the restore script: some 2 ms of Redis.
const PAGE: u32 = 2_000;
/// Lease of the process that reconciles a sale; each page renews it.
const LEASE: Duration = Duration::from_secs(5);
/// Interval between checks of a sale that another process reconciles.
const POLL: Duration = Duration::from_millis(20);
/// Maximum wait for other processes, and for keys that are lost repeatedly.
const WITHIN: Duration = Duration::from_secs(30);
/// Sales whose keys are checked in one call: a few milliseconds of Redis.
const CHECKED: usize = 1_000;

/// A node that has not confirmed by then counts as dead, and its promises are lost: longer than it takes to time out a
/// reply and to reconnect.
const GRACE: Duration = Duration::from_secs(8);
/// Longer than any outage of Redis over which a node could remember promises.
const DEAD_NODE_MS: f64 = 120_000.0;
const PEER_POLL: Duration = Duration::from_millis(20);

/// What was lost, and what was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Keys that were lost, replaced or rolled back.
    pub keys: Vec<String>,
    /// Buyers restored, each with a piece.
    pub restored: u64,
    /// Buyers removed because their order is closed: an older copy of the buyers still held them.
    pub removed: u64,
    /// Orders unknown to SQL that were enqueued again: their buyers got the reply "admitted".
    pub promised: Vec<OrderId>,
    /// Orders that cannot be restored: the piece is gone, or the buyer holds another one. A promise among them has
    /// become a dead letter.
    pub refused: Vec<OrderId>,
    /// Buyers that Redis had admitted according to its stock, and of whom nothing else is known.
    pub unknown: u64,
    /// Archived sales that Redis still held.
    pub archived: u64,
    /// Why the sale stays closed.
    pub closed: Option<Closed>,
}

/// Why a sale cannot be reconciled without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It has more buyers than pieces.
    Oversold,
    /// Redis and SQL hold different sales under its number.
    OtherSale,
}

impl Closed {
    /// The corresponding error.
    pub(super) fn error(self, voucher: VoucherId) -> EngineError {
        match self {
            Self::Oversold => EngineError::Oversold(voucher),
            Self::OtherSale => EngineError::OtherSale(voucher),
        }
    }
}

impl Reconciled {
    fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.restored += other.restored;
        self.removed += other.removed;
        self.promised.extend(other.promised);
        self.refused.extend(other.refused);
        self.archived += other.archived;
        self.unknown += other.unknown;
        self.closed = self.closed.or(other.closed);
    }
}

/// The servers, and the run of Redis that a sale is reconciled on.
#[derive(Debug)]
pub(super) struct Reconciler<'a> {
    pub(super) store: &'a SharedStore,
    pub(super) conn: &'a mut Connection,
    pub(super) keys: &'a Layout,
    /// The run of the Redis server.
    pub(super) run: &'a str,
    /// Identifies the process: after an interruption it resumes its own work, others wait for the end of its lease.
    pub(super) token: &'a str,
}

/// A token of a process or task that reconciles.
pub(super) fn new_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Reconciles every sale of a partition, and restores every buyer that Redis lacks, those of SQL and those of
/// `promises`, which are of this partition. Safe to repeat.
///
/// # Errors
/// A server is unreachable.
pub async fn reconcile(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
    promises: &[Admitted],
    token: &str,
) -> Result<Reconciled, EngineError> {
    let run = conn.run_id(&of.orders()).await?;
    let mut reconciler = Reconciler { store, conn, keys, run: &run, token };
    let mut done = Reconciled::default();
    let mut by_voucher: BTreeMap<VoucherId, Vec<Admitted>> = BTreeMap::new();
    for promise in promises {
        by_voucher.entry(promise.voucher).or_default().push(*promise);
    }
    stream::ensure_group(reconciler.conn, of).await?;
    for sale in sales_of(store, keys, of).await? {
        let voucher = sale.voucher_id;
        let part = reconciler.sale(voucher, &[]).await?;
        let closed = part.closed.is_some();
        done.add(part);
        if closed {
            // Its promises are restored, or become dead letters, meanwhile.
            let promises = by_voucher.remove(&voucher).unwrap_or_default();
            done.add(reconciler.sale(voucher, &promises).await?);
        }
    }
    for (voucher, promises) in by_voucher {
        let part = reconciler.promises(voucher, &promises).await?;
        // Their pieces were missing when the sale was rebuilt from SQL alone.
        done.unknown = done.unknown.saturating_sub(part.restored);
        done.add(part);
    }
    done.add(reconciler.streams(of, &[]).await?);
    if done != Reconciled::default() {
        tracing::warn!(
            keys = done.keys.join(", "),
            restored = done.restored,
            removed = done.removed,
            refused = done.refused.len(),
            "Redis had lost data"
        );
    }
    Ok(done)
}

/// Restores the buyers of written orders that Redis does not hold.
///
/// # Errors
/// A server is unreachable.
pub(super) async fn put_back_written(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    orders: &[OrderEntry],
) -> Result<(), EngineError> {
    let until = Instant::now() + WITHIN;
    let mut by_voucher: BTreeMap<VoucherId, Vec<(OrderId, Place)>> = BTreeMap::new();
    for order in orders {
        by_voucher.entry(order.voucher).or_default().push((order.order, order.seat()));
    }
    for (voucher, orders) in by_voucher {
        let run = conn.run_id(&keys.sale(voucher)).await?;
        let mut reconciler = Reconciler { store, conn, keys, run: &run, token: "" };
        // A sale that is being reconciled may have read SQL before they were written.
        while reconciler.put_back(voucher, Entry::Leave, &orders).await?.is_none() {
            let archived = match store.sale(voucher).await {
                Ok(sale) => sale.state == SaleState::Archived,
                Err(StoreError::NoSale(_)) => true,
                Err(error) => return Err(error.into()),
            };
            if archived {
                break;
            }
            if Instant::now() > until {
                tracing::error!(%voucher, "written orders have no buyer in Redis; 'seckill audit --repair' mends that");
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Sales of a partition that Redis has to hold.
pub(super) async fn sales_of(
    store: &SharedStore,
    keys: &Layout,
    of: &Partition,
) -> Result<Vec<Sale>, EngineError> {
    let mut sales = store.sales().await?;
    sales.retain(|sale| keys.partition_of(sale.voucher_id) == *of);
    Ok(sales)
}

/// Whether some node has reconciled the partition on this run of its server.
pub(super) async fn is_healed(
    conn: &mut Connection,
    of: &Partition,
    run_id: &str,
) -> Result<bool, EngineError> {
    let confirmed: Vec<String> = conn.query(cmd("HVALS").arg(of.healed())).await?;
    Ok(confirmed.iter().any(|run| run == run_id))
}

/// Inconsistent keys of a partition.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Streams that lost entries, or the watermark; with the keys that the check has repaired itself.
    pub(super) streams: Vec<String>,
    /// Sales whose keys are inconsistent.
    pub(super) sales: Vec<VoucherId>,
    /// Entries ever added to the order stream.
    added: u64,
}

impl Damage {
    /// Keys that the check has repaired, by their names; the next one does not find them again.
    pub(super) fn put_right(found: &[String]) -> impl Iterator<Item = String> {
        found.iter().filter(|it| !["orders", "dead", "watermark"].contains(&it.as_str())).cloned()
    }

    /// Without the order stream only the nodes know their promises, and the entries that their consumers hold: a
    /// damaged sale is not rebuilt before each of them has restored those.
    pub(super) fn is_for_all_nodes(&self) -> bool {
        !self.sales.is_empty() && self.streams.iter().any(|it| it == "orders")
    }
}

/// Makes every node reconcile the partition, as after a restart of Redis; none admits buyers before the others have.
///
/// # Errors
/// Redis is unreachable.
pub(super) async fn summon_all(conn: &mut Connection, of: &Partition) -> Result<(), RedisError> {
    conn.query::<u64>(cmd("DEL").arg(of.healed())).await?;
    Ok(())
}

/// Checks the streams of a partition and the keys of these sales, given with their time of creation in SQL.
///
/// # Errors
/// Redis is unreachable.
pub(super) async fn check(
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
    sales: &[(VoucherId, Millis)],
) -> Result<Damage, RedisError> {
    let mut damage = Damage::default();
    let mut rest = sales;
    loop {
        let (page, behind) = rest.split_at(rest.len().min(CHECKED));
        let (streams, found, added) = check_page(conn, keys, of, page, None).await?;
        damage.streams = streams;
        damage.added = added;
        let damaged = found.iter().filter_map(|place| page.get(place.checked_sub(1)?));
        damage.sales.extend(damaged.map(|(voucher, _)| *voucher));
        rest = behind;
        if rest.is_empty() {
            return Ok(damage);
        }
    }
}

/// What the streams lost, the indexes of damaged sales from 1, and entries ever added to the order stream.
type Checked = (Vec<String>, Vec<usize>, u64);

async fn check_page(
    conn: &mut Connection,
    keys: &Layout,
    of: &Partition,
    sales: &[(VoucherId, Millis)],
    accept: Option<u64>,
) -> Result<Checked, RedisError> {
    let mut call = scripts::CHECK_PARTITION.prepare_invoke();
    call.key(of.orders()).key(of.dead()).key(of.watermark());
    for (sale, _) in sales {
        call.key(keys.sale(*sale)).key(keys.stock(*sale));
        call.key(keys.buyers(*sale)).key(keys.tally(*sale));
    }
    call.arg(if accept.is_some() { "accept" } else { "" }).arg(accept.unwrap_or(0));
    for (_, created) in sales {
        call.arg(created.0);
    }
    conn.invoke(&call).await
}

/// Result of an attempt to begin.
enum Start {
    /// There is nothing to reconcile.
    Whole,
    /// The keys are consistent: buyers are restored while the sale stays open.
    Open,
    /// Another process is reconciling the sale.
    Busy,
    /// Redis holds another sale of that number, which is closed.
    Other,
    /// The sale is closed until the end; with the faults found in its keys.
    Closed(Vec<String>),
}

impl Reconciler<'_> {
    /// Determines what the streams of a partition lost, and enqueues every order that is missing everywhere. `seen` is
    /// the result of an earlier check.
    pub(super) async fn streams(
        &mut self,
        of: &Partition,
        seen: &[String],
    ) -> Result<Reconciled, EngineError> {
        let until = Instant::now() + WITHIN;
        let keys = Damage::put_right(seen).collect();
        let mut done = Reconciled { keys, ..Reconciled::default() };
        loop {
            let found = check(self.conn, self.keys, of, &[]).await?;
            if found.streams.is_empty() {
                return Ok(done);
            }
            if Instant::now() > until {
                return Err(EngineError::Reconciling(of.orders()));
            }
            let mut entries_lost = false;
            for name in &found.streams {
                let key = match name.as_str() {
                    "orders" => of.orders(),
                    "dead" => of.dead(),
                    // A new server has none.
                    "watermark" if found.added == 0 => continue,
                    "watermark" => of.watermark(),
                    other => other.to_owned(),
                };
                entries_lost |= key == of.orders() || key == of.dead();
                if !done.keys.contains(&key) {
                    done.keys.push(key);
                }
            }
            stream::ensure_group(self.conn, of).await?;
            if entries_lost {
                for sale in sales_of(self.store, self.keys, of).await? {
                    let lost = enqueue_lost(self.store, self.conn, self.keys, sale.voucher_id);
                    done.promised.extend(lost.await?);
                }
            }
            let added = check(self.conn, self.keys, of, &[]).await?.added;
            check_page(self.conn, self.keys, of, &[], Some(added)).await?;
        }
    }

    /// Reconciles one sale if its keys are inconsistent or it was not reconciled on this run of the server, with SQL,
    /// the stream, the dead letters, and its `promises`. It admits no buyers meanwhile.
    ///
    /// # Errors
    /// A server is unreachable, or other processes take too long to reconcile the sale.
    pub(super) async fn sale(
        &mut self,
        voucher: VoucherId,
        promises: &[Admitted],
    ) -> Result<Reconciled, EngineError> {
        self.sale_as(voucher, promises, "").await
    }

    /// As [`Self::sale`], even if its keys are consistent with one another: they may not match SQL.
    pub(super) async fn whole_sale(
        &mut self,
        voucher: VoucherId,
    ) -> Result<Reconciled, EngineError> {
        self.sale_as(voucher, &[], "always").await
    }

    /// As [`Self::sale`], even if Redis holds another sale of that number: the keys of that one are renamed.
    pub(super) async fn replace_sale(
        &mut self,
        voucher: VoucherId,
    ) -> Result<Reconciled, EngineError> {
        self.sale_as(voucher, &[], "replace").await
    }

    /// `how` is the argument of `reconcile_begin.lua`.
    async fn sale_as(
        &mut self,
        voucher: VoucherId,
        promises: &[Admitted],
        how: &str,
    ) -> Result<Reconciled, EngineError> {
        let until = Instant::now() + WITHIN;
        let mut keys = Vec::new();
        while Instant::now() < until {
            let sale = self.store.sale(voucher).await?;
            if sale.state == SaleState::Archived {
                let held = retention::drop_keys(self.conn, self.keys, voucher).await?;
                return Ok(Reconciled { archived: u64::from(held), ..Reconciled::default() });
            }
            match self.begin(&sale, how).await? {
                Start::Whole => return Ok(Reconciled { keys, ..Reconciled::default() }),
                Start::Busy => tokio::time::sleep(POLL).await,
                Start::Other => {
                    let closed = Some(Closed::OtherSale);
                    let done = self.give_up(voucher, promises).await?;
                    return Ok(Reconciled { closed, ..done });
                }
                Start::Open => {
                    // First the stock according to SQL, which the buyers may need.
                    if sale_copy::sync(self.conn, self.keys, &sale).await? == Synced::Damaged {
                        continue;
                    }
                    if let Some(done) = self.rebuild(&sale, "", promises, false, true).await? {
                        return Ok(Reconciled { keys, ..done });
                    }
                }
                Start::Closed(found) => {
                    let damaged = !how.is_empty() || !found.is_empty();
                    // If only the stock or the tally was lost, the buyers are those that were admitted.
                    let names = [self.keys.sale(voucher), self.keys.buyers(voucher)];
                    // Nor is the state known in which another process began.
                    let of_buyers = |key: &String| {
                        key == "restoring" || names.iter().any(|name| key.starts_with(name))
                    };
                    let buyers_known = how.is_empty() && !found.iter().any(of_buyers);
                    // The stock gives the number of buyers, unless it was lost as well.
                    let counts = found.contains(&self.keys.buyers(voucher))
                        && !found.contains(&self.keys.stock(voucher));
                    let returning = self.store.returning().await?;
                    for key in found {
                        // What Redis never held is not lost, and the mark of another process is no key.
                        let lost = sale.delivered > 0 && key != "restoring";
                        if lost && !keys.contains(&key) {
                            keys.push(key);
                        }
                    }
                    let done =
                        self.rebuild(&sale, self.token, promises, damaged, buyers_known).await?;
                    if let Some(done) = done {
                        // Closed orders return their pieces, and no longer have a buyer.
                        let returning = returning.max(self.store.returning().await?);
                        let unknown =
                            if counts { done.unknown.saturating_sub(returning) } else { 0 };
                        return Ok(Reconciled { keys, unknown, ..done });
                    }
                    tracing::warn!(%voucher, "a key was lost again while its sale was reconciled");
                }
            }
        }
        Err(EngineError::Reconciling(self.keys.sale(voucher)))
    }

    async fn begin(&mut self, sale: &Sale, how: &str) -> Result<Start, EngineError> {
        let (keys, voucher) = (self.keys, sale.voucher_id);
        let mut call = scripts::RECONCILE_BEGIN.prepare_invoke();
        call.key(keys.sale(voucher)).key(keys.stock(voucher));
        call.key(keys.buyers(voucher)).key(keys.tally(voucher));
        call.arg(self.token).arg(LEASE.as_millis() as u64).arg(self.run);
        call.arg(sale.version).arg(&sale.title);
        call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
        call.arg(sale.state.as_str()).arg(sale.initial).arg(sale.limit).arg(sale.created.0);
        call.arg(how);
        let mut answer: Vec<String> = self.conn.invoke(&call).await?;
        if answer.is_empty() {
            return Err(RedisError::reply("reconcile_begin.lua").into());
        }
        match answer.remove(0).as_str() {
            "whole" => Ok(Start::Whole),
            "open" => Ok(Start::Open),
            "busy" => Ok(Start::Busy),
            "other" => Ok(Start::Other),
            // By the names that the operator sees.
            _ => Ok(Start::Closed(
                answer
                    .into_iter()
                    .map(|found| match found.as_str() {
                        "sale" => keys.sale(voucher),
                        "stock" => keys.stock(voucher),
                        "buyers" => keys.buyers(voucher),
                        _ => found,
                    })
                    .collect(),
            )),
        }
    }

    /// `None` if a key was lost again, or another process has taken over. A sale with consistent keys lacks at most
    /// what Redis lost of all of them together, which the stream does not have either.
    async fn rebuild(
        &mut self,
        sale: &Sale,
        token: &str,
        promises: &[Admitted],
        damaged: bool,
        buyers_known: bool,
    ) -> Result<Option<Reconciled>, EngineError> {
        let (voucher, mut done) = (sale.voucher_id, Reconciled::default());
        // Orders move from the stream to SQL, so the stream is read first: none is missed between the two.
        let under_way =
            if damaged { self.under_way(voucher, buyers_known).await? } else { Vec::new() };
        // Before the buyers: a buyer whose order was closed may hold another one by now.
        done.removed = self.remove_closed(voucher, damaged).await?;
        let mut after: Option<OrderId> = None;
        loop {
            let page = self.store.live_orders(voucher, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            let page: Vec<_> = page.iter().map(|order| (order.id, order.seat())).collect();
            // A sale that is closed meanwhile admits no buyer at a place that SQL has assigned.
            let how = if token.is_empty() { Entry::Leave } else { Entry::Claim };
            let Some(part) = self.restore(voucher, token, how, &page).await? else {
                return Ok(None);
            };
            done.add(part);
        }
        faults::pass(Point::MidHeal);
        let here = promises.iter().filter(|it| it.voucher == voucher);
        let here: Vec<_> = here.map(|it| (it.order, it.place)).collect();
        for (entry, orders) in [(Entry::Leave, under_way), (Entry::Add, here)] {
            let Some(part) = self.restore_open(voucher, token, entry, &orders).await? else {
                return Ok(None);
            };
            done.add(part);
        }
        // And after them: an order that was closed since its page was read was restored wrongly.
        done.removed += self.remove_closed(voucher, damaged).await?;
        let mut call = scripts::RECONCILE_END.prepare_invoke();
        let (keys, of) = (self.keys, self.keys.partition_of(voucher));
        call.key(keys.sale(voucher)).key(keys.stock(voucher));
        call.key(keys.buyers(voucher)).key(of.watermark()).key(keys.tally(voucher));
        call.arg(token).arg(self.run).arg(voucher.0);
        let answer: Vec<redis::Value> = self.conn.invoke(&call).await?;
        match answer.first() {
            Some(redis::Value::BulkString(word)) if word == b"done" => {
                let number = |at: usize| {
                    answer.get(at).and_then(|it| redis::from_redis_value_ref::<u64>(it).ok())
                };
                let more =
                    number(2).zip(number(1)).map_or(0, |(now, then)| now.saturating_sub(then));
                Ok(Some(Reconciled { unknown: more, ..done }))
            }
            Some(redis::Value::BulkString(word)) if word == b"oversold" => {
                Ok(Some(Reconciled { closed: Some(Closed::Oversold), ..done }))
            }
            _ => Ok(None),
        }
    }

    /// Removes buyers whose order is closed: those returned recently or about to be, which a restarted Redis may have
    /// lost; for a damaged sale all, since its buyers may be an older copy.
    async fn remove_closed(
        &mut self,
        voucher: VoucherId,
        damaged: bool,
    ) -> Result<u64, EngineError> {
        let mut removed = 0;
        if damaged {
            let closed = ledger::kept_orders(self.store, self.conn, self.keys, voucher).await?;
            removed = payment::return_in_redis(self.conn, self.keys, &closed).await?;
        }
        // An order may have been closed, and Redis updated, just before its buyer was restored.
        removed += payment::give_back_again(self.store, self.conn, self.keys, voucher).await?;
        Ok(removed)
    }

    /// Orders of a sale in the stream and among the dead letters, the earliest promise first. If the buyers are known,
    /// only entries that admission has certainly added: another program's entry must not become a promise.
    async fn under_way(
        &mut self,
        voucher: VoucherId,
        buyers_known: bool,
    ) -> Result<Vec<(OrderId, Place)>, EngineError> {
        let of = self.keys.partition_of(voucher);
        // A replayed letter moves back to the stream: the letters are read before it and after it.
        let letters = ledger::dead_orders(self.conn, &of).await?;
        let flows = ledger::flows(self.conn, &of).await?;
        let mut all = [flows.undelivered, flows.pending].concat();
        if buyers_known {
            let doubtful = entry_check::unverified(self.conn, self.keys, &all).await?;
            let doubtful: HashSet<EntryId> = doubtful.iter().map(|it| it.entry).collect();
            all.retain(|it| !doubtful.contains(&it.entry));
        } else {
            all.extend(letters.into_iter().chain(flows.dead));
        }
        let mine = all.iter().filter(|entry| entry.voucher == voucher);
        let mut orders: Vec<_> = mine.map(|it| (it.order, it.seat())).collect();
        orders.sort_unstable();
        orders.dedup();
        Ok(orders)
    }

    /// Restores buyers of this node's recent promises into a consistent sale, except those that are in SQL. Promises of
    /// a sale unknown to both servers become dead letters.
    async fn promises(
        &mut self,
        voucher: VoucherId,
        promises: &[Admitted],
    ) -> Result<Reconciled, EngineError> {
        let places: Vec<_> = promises.iter().map(|it| (it.order, it.place)).collect();
        if let Some(done) = self.put_back(voucher, Entry::Add, &places).await? {
            return Ok(done);
        }
        match self.store.sale(voucher).await {
            Ok(sale) if sale.state != SaleState::Archived => {
                Err(EngineError::Reconciling(self.keys.sale(voucher)))
            }
            Ok(_) | Err(StoreError::NoSale(_)) => self.give_up(voucher, promises).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Makes dead letters of promises that SQL does not have, of a sale into which they cannot be restored.
    async fn give_up(
        &mut self,
        voucher: VoucherId,
        promises: &[Admitted],
    ) -> Result<Reconciled, EngineError> {
        let ids: Vec<OrderId> = promises.iter().map(|it| it.order).collect();
        let written: HashSet<OrderId> = self.store.existing(&ids).await?.into_iter().collect();
        let open = promises.iter().filter(|it| !written.contains(&it.order));
        let open: Vec<_> = open.map(|it| (it.order, it.place)).collect();
        let mut done = Reconciled::default();
        for page in open.chunks(PAGE as usize) {
            done.add(self.restore(voucher, "", Entry::Refuse, page).await?.unwrap_or_default());
        }
        Ok(done)
    }

    /// Restores the buyers of orders into a consistent sale. A buyer whose order is closed concurrently is removed
    /// again.
    async fn put_back(
        &mut self,
        voucher: VoucherId,
        entry: Entry,
        orders: &[(OrderId, Place)],
    ) -> Result<Option<Reconciled>, EngineError> {
        let mut done = self.restore_open(voucher, "", entry, orders).await?;
        if let Some(done) = &mut done
            && done.restored > 0
        {
            done.removed += self.remove_closed(voucher, false).await?;
        }
        Ok(done)
    }

    /// Restores the buyers of orders that are not closed. An order that is in SQL by now needs no entry but its buyer:
    /// it may have been written after the live orders were read.
    async fn restore_open(
        &mut self,
        voucher: VoucherId,
        token: &str,
        entry: Entry,
        orders: &[(OrderId, Place)],
    ) -> Result<Option<Reconciled>, EngineError> {
        let mut done = Reconciled::default();
        for page in orders.chunks(PAGE as usize) {
            let ids: Vec<OrderId> = page.iter().map(|(order, _)| *order).collect();
            let rows = self.store.orders_among(&ids).await?;
            let live: HashMap<OrderId, bool> =
                rows.into_iter().map(|row| (row.id, row.status.is_live())).collect();
            let (mut new, mut written) = (Vec::new(), Vec::new());
            for held in page {
                match live.get(&held.0) {
                    None => new.push(*held),
                    Some(true) => written.push(*held),
                    Some(false) => {}
                }
            }
            for (entry, orders) in [(Entry::Leave, written), (entry, new)] {
                match self.restore(voucher, token, entry, &orders).await? {
                    Some(part) => done.add(part),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(done))
    }

    async fn restore(
        &mut self,
        voucher: VoucherId,
        token: &str,
        entry: Entry,
        buyers: &[(OrderId, Place)],
    ) -> Result<Option<Reconciled>, EngineError> {
        if buyers.is_empty() {
            return Ok(Some(Reconciled::default()));
        }
        let (keys, of) = (self.keys, self.keys.partition_of(voucher));
        let mut call = scripts::RESTORE.prepare_invoke();
        call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
        call.key(of.orders()).key(of.dead()).key(of.watermark()).key(keys.tally(voucher));
        call.arg(voucher.0).arg(match entry {
            Entry::Leave => "book",
            Entry::Add => "enqueue",
            Entry::Claim => "claim",
            Entry::Refuse => "refuse",
        });
        call.arg(token).arg(LEASE.as_millis() as u64);
        for (order, place) in buyers {
            call.arg(place.user.0).arg(place.number).arg(order.get());
        }
        let (restored, refused, promised): (i64, Vec<String>, Vec<String>) =
            self.conn.invoke(&call).await?;
        let Ok(restored) = u64::try_from(restored) else { return Ok(None) };
        let ids = |ids: Vec<String>| ids.iter().filter_map(|id| id.parse().ok()).collect();
        Ok(Some(Reconciled {
            restored,
            refused: ids(refused),
            promised: ids(promised),
            ..Reconciled::default()
        }))
    }
}

/// What happens to an order with its buyer.
#[derive(Clone, Copy)]
enum Entry {
    /// It exists elsewhere already.
    Leave,
    /// It is live in SQL, and replaces any other order at its place.
    Claim,
    /// Its entry is added.
    Add,
    /// It becomes a dead letter, and the buyer is not restored.
    Refuse,
}

/// Nodes with their last heartbeats, and the run of the server for which each of them has restored its promises.
type Peers = (Vec<(Text, f64)>, Vec<(Text, Text)>);

/// Confirms that `node` has restored its promises into this run of the server, and waits until every node that was
/// alive has done so or timed out: those of `peers`, which this node saw alive before, and those whose last heartbeats
/// Redis still has.
pub async fn await_peers(
    conn: &mut Connection,
    of: &Partition,
    node: &str,
    run_id: &str,
    peers: &[String],
    dead_ms: u64,
) -> Result<(), EngineError> {
    let mut say = cmd("HSET");
    say.arg(of.healed()).arg(node).arg(run_id);
    conn.query::<u64>(&say).await?;
    let mut look = pipe();
    look.cmd("ZRANGE").arg(of.nodes()).arg(0).arg(-1).arg("WITHSCORES");
    look.cmd("HGETALL").arg(of.healed());
    let until = Instant::now() + GRACE;
    loop {
        let (nodes, confirmed): Peers = conn.pipe(&look).await?;
        let nodes: Vec<_> = nodes.into_iter().map(|(Text(name), at)| (name, at)).collect();
        let confirmed: HashMap<_, _> =
            confirmed.into_iter().map(|(name, run)| (name.0, run.0)).collect();
        let confirmed = |name: &str| confirmed.get(name).is_some_and(|run| run == run_id);
        let open: Vec<&(String, f64)> = nodes.iter().filter(|(name, _)| !confirmed(name)).collect();
        // Heartbeats are compared with the newest one, so that the downtime of Redis does not count. A single one
        // cannot be compared, and a node that was silent for minutes is dead.
        let newest = open.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        let latest = nodes.iter().map(|(_, at)| *at).fold(0.0, f64::max);
        let newest = if latest - newest > DEAD_NODE_MS { latest } else { newest };
        let seen = peers.iter().filter(|name| !confirmed(name)).map(String::as_str);
        let alive = open.iter().filter(|(_, at)| newest - at < dead_ms as f64);
        let missing = seen.chain(alive.map(|(name, _)| name.as_str())).next();
        match missing {
            None => return Ok(()),
            Some(missing) if Instant::now() > until => {
                tracing::warn!(missing, "a node does not answer for what it promised; going on");
                return Ok(());
            }
            Some(_) => tokio::time::sleep(PEER_POLL).await,
        }
    }
}
