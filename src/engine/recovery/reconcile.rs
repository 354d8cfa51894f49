//! Reconciles Redis with SQL, the stream and the recent promises, which have what a Redis that was restarted, emptied
//! or rolled back may have lost.
//!
//! A whole partition is reconciled before the first admission of a node and after each restart of Redis; a single sale
//! whose keys are inconsistent is reconciled alone, while the others continue, unless its buyers were lost. Until it is
//! finished, the sale admits no buyers: a promised piece must not be sold again. Each node knows only its own promises, so
//! with a whole partition it waits for the other nodes that were alive before it admits buyers.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    time::{Duration, Instant},
};

use redis::{cmd, pipe};
use seckill_model::{
    EntryId, OrderEntry, OrderId, SaleOrder, SaleShard, SaleState, ShardId,
    faults::{self, Point},
};
use seckill_redis::{
    Connection, RedisError, keys::Partition, lossy_utf8::Text, nodes::Nodes, scripts, stream,
};
use seckill_store::{SharedStore, StoreError};

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::{
        self, entry_check,
        expected::Expected,
        sale_copy::{self, Synced},
    },
    lists::{self, group_by},
    orders::payment,
    recovery::{
        adoption::{adopt, adopt_each, pause_set_back},
        former_names,
    },
    telemetry::data_loss::{Closed, Reconciled},
};

/// Buyers in one run of the restore script: about 2 ms of Redis time.
const PAGE: u32 = 2_000;
/// Lease of the process that reconciles a sale; each page renews it.
const LEASE: Duration = Duration::from_secs(5);
/// Interval between checks of a sale that another process reconciles.
const POLL: Duration = Duration::from_millis(20);
/// Maximum wait for other processes, and for keys that are lost repeatedly.
const WITHIN: Duration = Duration::from_secs(30);
/// Sales whose keys are checked in one call: a few milliseconds of Redis time.
const CHECKED: usize = 1_000;

/// A node that has not confirmed by then counts as dead, and its promises are lost: longer than it takes to time out a
/// reply and to reconnect.
const GRACE: Duration = Duration::from_secs(8);
/// Longer than any outage of Redis over which a node could remember promises.
const DEAD_NODE_MS: i64 = 120_000;
const PEER_POLL: Duration = Duration::from_millis(20);
/// A node that lives sends a heartbeat within this time.
const SIGN_WITHIN: Duration = Duration::from_millis(1_500);
/// Field of the watermark: the run of the server in which every node has restored its promises.
const RESTORED: &str = "restored";

/// A process that reconciles, on one run of the Redis server.
#[derive(Debug)]
pub(crate) struct Reconciler<'a> {
    pub(crate) servers: &'a mut Servers,
    pub(crate) run: String,
    /// Identifies the process: after an interruption it resumes its own work, others wait for the end of its lease.
    pub(crate) token: String,
}

/// When a sale is reconciled; the argument of `reconcile_begin.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Scope {
    /// If its keys are inconsistent, or it was not reconciled on this run of the server.
    #[strum(serialize = "")]
    IfNeeded,
    /// The same, but consistent keys are not compared with SQL: the numbers of buyers and orders agree.
    #[strum(serialize = "")]
    Counted,
    /// Even if its keys are consistent with one another: they may not match SQL.
    Always,
    /// Even if Redis has another sale with that ID: the keys of that sale are renamed.
    Replace,
    /// Not begun, but with a newer version of the sale.
    Again,
}

/// A token of a process or task that reconciles.
pub(crate) fn new_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Sales that could not be reconciled, each with its error.
pub type NotReconciled = Vec<(ShardId, EngineError)>;

/// Reconciles every sale of a partition, and restores every buyer that Redis lacks, those of SQL and those of
/// `promises`, which are of this partition. Safe to repeat.
///
/// # Errors
/// Of the first sale that could not be reconciled; the others were, unless SQL or the server of the partition is unreachable.
pub async fn reconcile(
    servers: &mut Servers,
    of: &Partition,
    promises: &[SaleOrder],
    token: &str,
) -> Result<Reconciled> {
    let mut done = Reconciled::default();
    let left = reconcile_each(servers, of, promises, token, Scope::IfNeeded, &mut done).await?;
    left.into_iter().next().map_or(Ok(done), |(_, error)| Err(error))
}

/// As [`reconcile`], each sale as far as `scope` requires it; returns those that could not be reconciled. What prevents
/// it for every sale is a fault of a server. What was reconciled is added to `done`, also before an error: the next attempt
/// finds nothing wrong with it.
pub(crate) async fn reconcile_each(
    servers: &mut Servers,
    of: &Partition,
    promises: &[SaleOrder],
    token: &str,
    scope: Scope,
    done: &mut Reconciled,
) -> Result<NotReconciled> {
    let mut reconciler = Reconciler::new(servers, of, token).await?;
    let mut left = NotReconciled::new();
    let mut by_shard = group_by(promises.iter().copied(), SaleOrder::sold_by);
    stream::ensure_group(&mut reconciler.servers.conn, of).await?;
    let sales = reconciler.servers.sales_of(of).await?;
    for sale in &sales {
        match reconciler.sale_without_promises(sale.id, scope, &mut by_shard).await {
            Ok(part) => done.add(part),
            Err(error) if stops_all(reconciler.servers, of, &error).await => return Err(error),
            Err(error) => {
                // They are restored with it.
                by_shard.remove(&sale.id);
                left.push((sale.id, error));
            }
        }
    }
    if left.len() == sales.len()
        && let Some((_, error)) = left.pop()
    {
        return Err(error);
    }
    for (shard, promises) in by_shard {
        match reconciler.promises(shard, &promises).await {
            Ok(part) => {
                // Their pieces were missing when the sale was rebuilt from SQL alone.
                done.unknown = done.unknown.saturating_sub(part.restored);
                done.add(part);
            }
            Err(error) if stops_all(reconciler.servers, of, &error).await => return Err(error),
            Err(error) => left.push((shard, error)),
        }
    }
    reconciler.streams(of, &[], done).await?;
    if *done != Reconciled::default() {
        tracing::warn!(
            keys = done.keys.join(&lists::ITEMS),
            restored = done.restored,
            removed = done.removed,
            refused = done.refused,
            "Redis had lost data"
        );
    }
    Ok(left)
}

/// Whether an error about one sale stops the other sales of its partition: SQL or the server of the partition is
/// unreachable. In a cluster, the error may be about the server of another shard of that sale.
pub(crate) async fn stops_all(servers: &mut Servers, of: &Partition, error: &EngineError) -> bool {
    match error {
        EngineError::Redis(_) | EngineError::NotLoaded { .. } if error.is_away() => {
            servers.conn.now_at(&of.orders()).await.is_err()
        }
        error => error.is_away(),
    }
}

/// Restores the buyers of written orders that Redis does not hold.
pub(crate) async fn put_back_written(
    servers: &mut Servers,
    orders: impl IntoIterator<Item = OrderEntry>,
) -> Result<()> {
    let orders = orders.into_iter().map(|order| SaleOrder::from(&order));
    for (shard, orders) in group_by(orders, SaleOrder::sold_by) {
        put_back(servers, shard, &orders).await?;
    }
    Ok(())
}

/// Restores the buyers of orders of one sale that are in SQL.
pub(crate) async fn put_back(
    servers: &mut Servers,
    shard: ShardId,
    orders: &[SaleOrder],
) -> Result<Reconciled> {
    let until = Instant::now() + WITHIN;
    let of = servers.keys.partition_of(shard);
    let mut reconciler = Reconciler::new(servers, &of, "").await?;
    loop {
        if let Some(done) = reconciler.put_back(shard, Entry::Leave, orders).await? {
            return Ok(done);
        }
        // A sale that is being reconciled may have read SQL before they were written.
        if !is_current(&reconciler.servers.store, shard).await? {
            break;
        }
        if Instant::now() > until {
            tracing::error!(%shard, "written orders have no buyer in Redis; run 'seckill audit --repair'");
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(Reconciled::default())
}

/// Whether Redis must have this sale: SQL has it, and it is not archived.
async fn is_current(store: &SharedStore, shard: ShardId) -> Result<bool, StoreError> {
    match store.shard(shard).await {
        Ok(sale) => Ok(sale.state != SaleState::Archived),
        Err(StoreError::NoSale(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether some node has reconciled the partition on this run of its server.
pub(crate) async fn is_reconciled(
    conn: &mut Connection,
    of: &Partition,
    run_id: &str,
) -> Result<bool> {
    let confirmed: Vec<String> = conn.query(cmd("HVALS").arg(of.reconciled())).await?;
    Ok(confirmed.iter().any(|run| run == run_id))
}

/// Whether every partition was reconciled on the present run of its server, so that buyers can be admitted.
pub async fn all_reconciled(servers: &mut Servers) -> Result<bool> {
    for of in servers.keys.partitions() {
        let run = servers.conn.run_id(&of.reconciled()).await?;
        if !is_reconciled(&mut servers.conn, &of, &run).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Inconsistent keys of a partition.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Streams that lost entries, or the watermark; with the keys that the check has repaired itself.
    pub(crate) streams: Vec<String>,
    /// Sales whose keys are inconsistent.
    pub(crate) sales: Vec<ShardId>,
    /// Sales whose stock a process has removed from Redis and not from SQL, for too long.
    pub(crate) cuts: Vec<ShardId>,
    /// Sales with fields that their version does not have in SQL.
    pub(crate) changed: Vec<ShardId>,
    /// Entries ever added to the order stream.
    added: u64,
}

impl Damage {
    /// Of what a check has found, the keys that it has repaired itself; the next check does not find them again.
    pub(crate) fn put_right(found: &[String]) -> impl Iterator<Item = String> {
        found.iter().filter(|it| !["orders", "dead", "watermark"].contains(&it.as_str())).cloned()
    }

    /// Without the order stream only the nodes know their promises, and the entries that their consumers hold: a
    /// damaged sale is not rebuilt before each of them has restored those.
    pub(crate) fn is_for_all_nodes(&self) -> bool {
        !self.sales.is_empty() && self.streams.iter().any(|it| it == "orders")
    }
}

/// Makes every node reconcile the partition, as after a restart of Redis; none admits buyers before the others have.
pub(crate) async fn summon_all(conn: &mut Connection, of: &Partition) -> Result<()> {
    let mut summon = pipe();
    summon.cmd("DEL").arg(of.reconciled()).ignore();
    summon.cmd("HDEL").arg(of.watermark()).arg(RESTORED).ignore();
    Ok(conn.pipe(&summon).await?)
}

/// Records that every node has restored its promises, so that stock may be removed; called by `node` once it has awaited
/// the others. Not if all are to reconcile the partition again.
pub(crate) async fn note_restored(
    conn: &mut Connection,
    of: &Partition,
    node: &str,
    run_id: &str,
) -> Result<()> {
    let mut call = scripts::RESTORED.prepare_invoke();
    call.key(of.reconciled()).key(of.watermark()).arg(node).arg(run_id);
    Ok(conn.invoke(&call).await?)
}

/// Waits until the nodes have restored the buyers of a sale whom Redis may have lost. Returns whether there is a node:
/// without one, it restores those that SQL and the stream know, and no others are known.
pub(crate) async fn await_restored(servers: &mut Servers, shard: ShardId) -> Result<bool> {
    let of = servers.keys.partition_of(shard);
    let (began, until) = (servers.conn.now_at(&of.nodes()).await?, Instant::now() + WITHIN);
    let alone = Instant::now() + SIGN_WITHIN;
    loop {
        let run = servers.conn.run_id(&of.watermark()).await?;
        let restored = cmd("HGET").arg(of.watermark()).arg(RESTORED).take();
        if servers.conn.query::<Option<String>>(&restored).await?.is_some_and(|it| it == run) {
            return Ok(true);
        }
        let signs = Nodes::read(&mut servers.conn, &of).await?.signs;
        if Instant::now() > alone && signs.iter().all(|(_, at)| *at < began) {
            reconcile(servers, &of, &[], &new_token()).await?;
            return Ok(false);
        }
        if Instant::now() > until {
            return Err(EngineError::Reconciling(servers.keys.sale(shard)));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Checks the streams of a partition and the keys of these sales.
pub(crate) async fn check(
    servers: &mut Servers,
    of: &Partition,
    sales: &[Expected],
) -> Result<Damage, RedisError> {
    let (first, rest) = sales.split_at(sales.len().min(CHECKED));
    let mut damage = check_page(servers, of, first, None).await?;
    for page in rest.chunks(CHECKED) {
        let Damage { streams, sales, cuts, changed, .. } =
            check_page(servers, of, page, None).await?;
        for name in streams {
            if !damage.streams.contains(&name) {
                damage.streams.push(name);
            }
        }
        damage.sales.extend(sales);
        damage.cuts.extend(cuts);
        damage.changed.extend(changed);
    }
    Ok(damage)
}

/// Places of sales in a call, from 1.
type Places = Vec<usize>;

/// Checks one page of sales; with `accept`, this number of entries is what the order stream has to hold from now on.
async fn check_page(
    servers: &mut Servers,
    of: &Partition,
    sales: &[Expected],
    accept: Option<u64>,
) -> Result<Damage, RedisError> {
    let Servers { conn, keys, .. } = servers;
    let mut call = scripts::CHECK_PARTITION.prepare_invoke();
    call.key(of.orders()).key(of.dead()).key(of.watermark());
    for sale in sales {
        call.key(&keys.sale_keys(sale.shard)).key(keys.tally(sale.shard));
    }
    call.arg(if accept.is_some() { "accept" } else { "" }).arg(accept.unwrap_or(0));
    for sale in sales {
        call.arg(sale.created.0).arg(sale.fields());
    }
    let (streams, damaged, added, cuts, changed): (Vec<String>, Places, u64, Places, Places) =
        conn.invoke(&call).await?;
    // They count from 1.
    let at = |place: usize| Some(sales.get(place.checked_sub(1)?)?.shard);
    let named = |places: Places| places.into_iter().filter_map(at).collect();
    let (sales, cuts, changed) = (named(damaged), named(cuts), named(changed));
    Ok(Damage { streams, sales, cuts, changed, added })
}

/// Result of an attempt to begin.
enum Start {
    /// Nothing needs to be reconciled.
    Whole,
    /// The keys are consistent: buyers are restored while the sale stays open. With the version in Redis.
    Open(u64),
    /// Another process is reconciling the sale.
    Busy,
    /// Redis has another sale with that ID, which is closed.
    Other,
    /// It has more buyers than pieces, as was found before, and is closed.
    Oversold,
    /// The sale is closed until the end; with the version in Redis, the faults found in its keys, and what SQL lacks before it
    /// can be rebuilt.
    Closed { version: u64, found: Vec<String>, missing: Missing },
    /// A key was lost again, or another process has taken over.
    Lost,
}

/// What SQL lacks of a sale that is closed to be reconciled.
enum Missing {
    Nothing,
    /// Redis may have lost a reduction of its stock: a version that fences it.
    Cut,
    /// Redis may have had a newer version than SQL, which SQL has to adopt.
    Version,
}

impl<'a> Reconciler<'a> {
    /// A process with this token, on the current run of the server of a partition.
    pub(crate) async fn new(servers: &'a mut Servers, of: &Partition, token: &str) -> Result<Self> {
        former_names::rename(servers, of).await?;
        let run = servers.conn.run_id(&of.orders()).await?;
        Ok(Self { servers, run, token: token.to_owned() })
    }

    /// Reconciles one sale; of those of `promises`, only if it stays closed.
    async fn sale_without_promises(
        &mut self,
        shard: ShardId,
        scope: Scope,
        promises: &mut BTreeMap<ShardId, Vec<SaleOrder>>,
    ) -> Result<Reconciled> {
        let mut done = self.sale(shard, &[], scope).await?;
        if done.closed.is_some() {
            // Its promises are restored, or become dead letters, at the same time.
            let promises = promises.remove(&shard).unwrap_or_default();
            done.add(self.sale(shard, &promises, Scope::IfNeeded).await?);
        }
        Ok(done)
    }

    /// Determines what the streams of a partition lost, and enqueues every order that is missing everywhere; adds it to
    /// `done`, also before an error. `seen` is the result of an earlier check.
    pub(crate) async fn streams(
        &mut self,
        of: &Partition,
        seen: &[String],
        done: &mut Reconciled,
    ) -> Result<()> {
        let until = Instant::now() + WITHIN;
        for key in Damage::put_right(seen) {
            if !done.keys.contains(&key) {
                done.keys.push(key);
            }
        }
        loop {
            let found = check(self.servers, of, &[]).await?;
            if found.streams.is_empty() {
                return Ok(());
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
            stream::ensure_group(&mut self.servers.conn, of).await?;
            if entries_lost {
                for sale in self.servers.sales_of(of).await? {
                    match ledger::enqueue_lost(self.servers, sale.id).await {
                        Ok(ids) => {
                            done.promised += ids.len() as u64;
                            done.promised_ids.extend(ids);
                        }
                        Err(error) if stops_all(self.servers, of, &error).await => {
                            return Err(error);
                        }
                        // The others are not kept waiting for it, and the audit finds what it lacks.
                        Err(error) => {
                            tracing::error!(shard = %sale.id, %error, "the lost entries of a sale were not added; run 'seckill audit --repair'");
                        }
                    }
                }
            }
            let added = check(self.servers, of, &[]).await?.added;
            check_page(self.servers, of, &[], Some(added)).await?;
        }
    }

    /// Reconciles one sale with SQL, the stream, the dead letters, and its `promises`, as far as `scope` requires it.
    /// It admits no buyers until then.
    ///
    /// # Errors
    /// A server is unreachable, or other processes take too long to reconcile the sale.
    pub(crate) async fn sale(
        &mut self,
        shard: ShardId,
        promises: &[SaleOrder],
        mut scope: Scope,
    ) -> Result<Reconciled> {
        let until = Instant::now() + WITHIN;
        let (mut keys, mut paused, mut is_first) = (Vec::new(), false, true);
        while Instant::now() < until {
            // Another process changes the sale or its keys, perhaps each time.
            if !mem::replace(&mut is_first, false) {
                tokio::time::sleep(POLL).await;
            }
            // Before SQL is read, which may have a newer version by then.
            let seen = self.servers.seen.get(shard).map_or(0, |known| known.version);
            let mut sale = self.servers.store.shard(shard).await?;
            if sale.version < seen && sale.state != SaleState::Archived {
                paused |= pause_set_back(self.servers, shard).await?;
                sale = self.servers.store.shard(shard).await?;
            }
            if sale.state == SaleState::Archived {
                let Servers { conn, keys, .. } = &mut *self.servers;
                let held = sale_copy::drop_keys(conn, keys, shard).await?;
                return Ok(Reconciled { archived: u64::from(held), ..Reconciled::default() });
            }
            if sale.is_undelivered()
                && sale_copy::version(self.servers, shard).await == Some(sale.version)
            {
                // The content of another history would be replaced by that of SQL.
                adopt_each(self.servers, &[shard], is_stopped(&sale)).await?;
                sale = self.servers.store.shard(shard).await?;
            }
            match self.begin(&sale, scope).await? {
                Start::Whole => return Ok(Reconciled { keys, paused, ..Reconciled::default() }),
                Start::Busy | Start::Lost => {}
                Start::Oversold if promises.is_empty() => {
                    let closed = Some(Closed::Oversold);
                    return Ok(Reconciled { closed, ..Reconciled::default() });
                }
                // Each promise becomes a buyer or a dead letter.
                Start::Oversold => scope = Scope::Always,
                Start::Other => {
                    let closed = Some(Closed::OtherSale);
                    let done = self.give_up(shard, promises).await?;
                    return Ok(Reconciled { closed, ..done });
                }
                Start::Open(version) => {
                    // The fence would make the content of SQL the newer one.
                    if version == sale.version
                        && sale_copy::try_sync(self.servers, &sale, "").await? == Synced::Split
                    {
                        adopt(self.servers, shard, is_stopped(&sale)).await?;
                        continue;
                    }
                    // First the stock according to SQL, which the buyers may need.
                    let Some(sale) = self.fence(&sale, version).await? else { continue };
                    let synced = sale_copy::sync(self.servers, &sale, "").await?;
                    if synced == Synced::Damaged {
                        continue;
                    }
                    let done = if scope == Scope::Counted {
                        self.end(shard, "").await?
                    } else {
                        self.rebuild(&sale, "", promises, false, true).await?
                    };
                    if let Some(done) = done {
                        // Redis may be ahead of SQL, which was set back: what an operator has stopped since is delivered later.
                        if !matches!(synced, Synced::Newer(_) | Synced::Split) {
                            self.note_delivered(&sale).await;
                        }
                        return Ok(Reconciled { keys, paused, ..done });
                    }
                }
                Start::Closed { version, found, missing } => {
                    let mut sale = sale;
                    // Redis may have lost that version only after it was looked at.
                    if sale.version < seen && pause_set_back(self.servers, shard).await? {
                        paused = true;
                        continue;
                    }
                    if !matches!(missing, Missing::Nothing) {
                        if let Missing::Version = missing {
                            let stops = is_stopped(&sale);
                            let adopted = adopt_each(self.servers, &[shard], stops).await;
                            if adopted.is_err() {
                                self.end_lease(shard).await;
                            }
                            paused |= adopted?;
                            sale = self.servers.store.shard(shard).await?;
                            if sale.version < seen {
                                continue;
                            }
                        }
                        let Some(fenced) = self.fence(&sale, version).await? else { continue };
                        sale = fenced;
                        if let Start::Lost = self.begin(&sale, Scope::Again).await? {
                            tracing::warn!(%shard, "a key was lost again while its sale was fenced");
                            continue;
                        }
                    }
                    let forced = matches!(scope, Scope::Always | Scope::Replace);
                    let damaged = forced || !found.is_empty();
                    // If only the stock or the tally was lost, the buyers are those that were admitted.
                    let names = [self.servers.keys.sale(shard), self.servers.keys.buyers(shard)];
                    if sale.delivered > 0 && found.iter().any(|key| key.starts_with(&names[1])) {
                        // Their entries may be lost as well, or passed by the group: only the nodes know what they
                        // promised, and none sells before each has restored that.
                        let of = self.servers.keys.partition_of(shard);
                        summon_all(&mut self.servers.conn, &of).await?;
                    }
                    // Nor is the state known in which another process began.
                    let of_buyers = |key: &String| {
                        key == "restoring" || names.iter().any(|name| key.starts_with(name))
                    };
                    let buyers_known = !forced && !found.iter().any(of_buyers);
                    // The stock gives the number of buyers, unless it was lost as well.
                    let counts = found.contains(&self.servers.keys.buyers(shard))
                        && !found.contains(&self.servers.keys.stock(shard));
                    let returning = self.servers.store.returning().await?;
                    for key in found {
                        // What Redis never held is not lost, and the mark of another process is not a key.
                        let lost = sale.delivered > 0 && key != "restoring";
                        if lost && !keys.contains(&key) {
                            keys.push(key);
                        }
                    }
                    let token = self.token.clone();
                    let done = self.rebuild(&sale, &token, promises, damaged, buyers_known).await?;
                    if let Some(done) = done {
                        // Closed orders return their pieces, and no longer have a buyer.
                        let returning = returning.max(self.servers.store.returning().await?);
                        let unknown =
                            if counts { done.unknown.saturating_sub(returning) } else { 0 };
                        self.note_delivered(&sale).await;
                        return Ok(Reconciled { keys, unknown, paused, ..done });
                    }
                    tracing::warn!(%shard, "a key was lost again while its sale was reconciled");
                }
            }
        }
        Err(EngineError::Reconciling(self.servers.keys.sale(shard)))
    }

    /// Other processes need not wait until the lease of this one ends: they would keep their other sales closed.
    async fn end_lease(&mut self, shard: ShardId) {
        let end = cmd("HSET").arg(self.servers.keys.sale(shard)).arg("restore_until").arg(0).take();
        if let Err(error) = self.servers.conn.query::<u64>(&end).await {
            tracing::debug!(%shard, %error, "the lease ends by itself");
        }
    }

    /// Raises the version of a sale in SQL: Redis may have lost a reduction of its stock, which must not be committed any
    /// more. Not if Redis is ahead of SQL, which has no version of its own then. `None` if SQL no longer has the sale as it
    /// was read: it was changed, or restored from a backup whose content would get the number of a newer version.
    async fn fence(&mut self, sale: &SaleShard, in_redis: u64) -> Result<Option<SaleShard>> {
        let is_final = matches!(sale.state, SaleState::Ended | SaleState::Archived);
        if is_final || in_redis > sale.version {
            return Ok(Some(sale.clone()));
        }
        let read = (sale.version, sale.delivered);
        let is_read = |now: &SaleShard| (now.version, now.delivered) == read;
        Ok(sale_copy::fence(&self.servers.store, sale.id, &is_read).await?)
    }

    /// Records that Redis has this version, which a reconciliation has written. If that fails, the next delivery does it:
    /// what was lost and restored must be reported now.
    async fn note_delivered(&self, sale: &SaleShard) {
        if sale.is_undelivered()
            && let Err(error) = self.servers.store.note_delivered(sale.id, sale.version).await
        {
            let shard = sale.id;
            tracing::warn!(%shard, %error, "the sale was reconciled, which SQL has not recorded yet");
        }
    }

    async fn begin(&mut self, sale: &SaleShard, scope: Scope) -> Result<Start> {
        let (keys, shard) = (&self.servers.keys, sale.id);
        let mut call = scripts::RECONCILE_BEGIN.prepare_invoke();
        call.key(&keys.sale_keys(shard)).key(keys.tally(shard));
        call.arg(&self.token).arg(LEASE.as_millis() as u64).arg(&self.run);
        call.arg(sale.version).arg(&sale.title);
        call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
        call.arg(<&str>::from(sale.state)).arg(sale.initial).arg(sale.limit).arg(sale.created.0);
        call.arg::<&str>(scope.into()).arg(sale_copy::spread(sale));
        call.arg(if sale.is_undelivered() { "" } else { "confirmed" });
        let answer: Vec<String> = self.servers.conn.invoke(&call).await?;
        let mut answer = answer.into_iter();
        let word = answer.next().unwrap_or_default();
        let version = answer.next().and_then(|version| version.parse().ok());
        match (word.as_str(), version) {
            ("whole", _) => Ok(Start::Whole),
            ("busy", _) => Ok(Start::Busy),
            ("other", _) => Ok(Start::Other),
            ("oversold", _) => Ok(Start::Oversold),
            ("lost", _) => Ok(Start::Lost),
            ("open", Some(version)) => Ok(Start::Open(version)),
            ("begun" | "kept" | "unsure", Some(version)) => {
                // By the names that the operator sees.
                let named = answer.map(|found| match found.as_str() {
                    "sale" => keys.sale(shard),
                    "stock" => keys.stock(shard),
                    "buyers" => keys.buyers(shard),
                    _ => found,
                });
                let found = named.collect();
                let missing = match word.as_str() {
                    "begun" => Missing::Cut,
                    "unsure" => Missing::Version,
                    _ => Missing::Nothing,
                };
                Ok(Start::Closed { version, found, missing })
            }
            _ => Err(RedisError::reply("reconcile_begin.lua").into()),
        }
    }

    /// `None` if a key was lost again, or another process has taken over. A sale with consistent keys lacks at most
    /// what Redis lost of all of them together, which the stream does not have either.
    async fn rebuild(
        &mut self,
        sale: &SaleShard,
        token: &str,
        promises: &[SaleOrder],
        damaged: bool,
        buyers_known: bool,
    ) -> Result<Option<Reconciled>> {
        let (shard, mut done) = (sale.id, Reconciled::default());
        // Orders move from the stream to SQL, so the stream is read first: none is missed between the two.
        let under_way =
            if damaged { self.under_way(shard, buyers_known).await? } else { Vec::new() };
        // Before the buyers: a buyer whose order was closed may hold another one by now.
        done.removed = self.remove_closed(shard, damaged).await?;
        let (mut after, mut known) = (None, HashSet::new());
        loop {
            let page = self.servers.store.live_orders(shard, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            known.extend(page.iter().map(|order| order.id));
            // A sale that is closed during this admits no buyer at a place that SQL has assigned.
            let how = if token.is_empty() { Entry::Leave } else { Entry::Claim };
            let Some(part) = self.restore(shard, token, how, &page).await? else {
                return Ok(None);
            };
            done.add(part);
        }
        faults::pass(Point::MidReconciliation);
        // SQL had those whose entry is acknowledged. If it has lost them, nothing else knows them once the buyers are lost.
        let written = if damaged && !buyers_known {
            known.extend(under_way.iter().map(|order| order.id));
            let of = self.servers.keys.partition_of(shard);
            let forged = ledger::never_promised(&mut self.servers.conn, &of).await?;
            known.extend(forged.iter().map(|entry| entry.order));
            ledger::orders_in_stream(self.servers, shard, &known).await?
        } else {
            Vec::new()
        };
        let here = promises.iter().filter(|it| it.sold_by() == shard).copied().collect();
        for (entry, orders) in
            [(Entry::Leave, under_way), (Entry::Add, written), (Entry::Add, here)]
        {
            let Some(part) = self.restore_open(shard, token, entry, &orders).await? else {
                return Ok(None);
            };
            done.add(part);
        }
        // And after them: an order that was closed since its page was read was restored by mistake.
        done.removed += self.remove_closed(shard, damaged).await?;
        Ok(self.end(shard, token).await?.map(|end| {
            done.add(end);
            done
        }))
    }

    /// Opens a sale. `None` if a key was lost again, or another process has taken over.
    async fn end(&mut self, shard: ShardId, token: &str) -> Result<Option<Reconciled>> {
        let mut call = scripts::RECONCILE_END.prepare_invoke();
        let (keys, of) = (&self.servers.keys, self.servers.keys.partition_of(shard));
        call.key(&keys.sale_keys(shard)).key(of.watermark()).key(keys.tally(shard));
        call.arg(token).arg(&self.run).arg(shard.voucher().0);
        let answer: Vec<redis::Value> = self.servers.conn.invoke(&call).await?;
        match answer.first() {
            Some(redis::Value::BulkString(word)) if word == b"done" => {
                let number = |at: usize| {
                    answer.get(at).and_then(|it| redis::from_redis_value_ref::<u64>(it).ok())
                };
                let more =
                    number(2).zip(number(1)).map_or(0, |(now, then)| now.saturating_sub(then));
                Ok(Some(Reconciled { unknown: more, ..Reconciled::default() }))
            }
            Some(redis::Value::BulkString(word)) if word == b"oversold" => {
                Ok(Some(Reconciled { closed: Some(Closed::Oversold), ..Reconciled::default() }))
            }
            _ => Ok(None),
        }
    }

    /// Removes buyers whose order is closed: those returned recently or about to be, which a restarted Redis may have
    /// lost; for a damaged sale all, since its buyers may be an older copy.
    async fn remove_closed(&mut self, shard: ShardId, damaged: bool) -> Result<u64> {
        let mut removed = 0;
        if damaged {
            let closed = ledger::kept_orders(self.servers, shard).await?;
            removed = payment::return_in_redis(self.servers, &closed).await?;
        }
        // An order may have been closed, and Redis updated, just before its buyer was restored.
        removed += payment::give_back_again(self.servers, shard).await?;
        Ok(removed)
    }

    /// Orders of a sale in the stream and among the dead letters, the earliest promise first. If the buyers are known,
    /// only entries that admission has certainly added: another program's entry must not become a promise.
    async fn under_way(&mut self, shard: ShardId, buyers_known: bool) -> Result<Vec<SaleOrder>> {
        let of = self.servers.keys.partition_of(shard);
        // A replayed letter moves back to the stream: the letters are read before it and after it.
        let letters = ledger::dead_orders(&mut self.servers.conn, &of).await?;
        let flows = ledger::flows(self.servers, &of).await?;
        let mut all = [flows.undelivered, flows.pending].concat();
        if buyers_known {
            let doubtful = entry_check::unverified(self.servers, &all).await?;
            let doubtful: HashSet<EntryId> = doubtful.iter().map(|it| it.entry).collect();
            all.retain(|it| !doubtful.contains(&it.entry));
        } else {
            all.extend(letters.into_iter().chain(flows.dead));
        }
        let mine = all.iter().filter(|entry| entry.sold_by() == shard);
        let mut orders: Vec<_> = mine.map(SaleOrder::from).collect();
        orders.sort_unstable();
        orders.dedup();
        Ok(orders)
    }

    /// Restores buyers of this node's recent promises into a consistent sale, except those that are in SQL. Promises of
    /// a sale unknown to both servers become dead letters.
    async fn promises(&mut self, shard: ShardId, promises: &[SaleOrder]) -> Result<Reconciled> {
        if let Some(done) = self.put_back(shard, Entry::Add, promises).await? {
            return Ok(done);
        }
        if is_current(&self.servers.store, shard).await? {
            return Err(EngineError::Reconciling(self.servers.keys.sale(shard)));
        }
        // They were read from entries of an earlier version before the keys of the shard were renamed.
        let Some(sold_by) = former_names::lost_shard(self.servers, shard).await? else {
            return self.give_up(shard, promises).await;
        };
        let (voucher_id, shard) = (sold_by.voucher(), sold_by.number);
        let promises: Vec<SaleOrder> =
            promises.iter().map(|order| SaleOrder { voucher_id, shard, ..*order }).collect();
        let done = self.put_back(sold_by, Entry::Add, &promises).await?;
        done.ok_or_else(|| EngineError::Reconciling(self.servers.keys.sale(sold_by)))
    }

    /// Makes dead letters of promises that SQL does not have, of a sale into which they cannot be restored.
    async fn give_up(&mut self, shard: ShardId, promises: &[SaleOrder]) -> Result<Reconciled> {
        let open = ledger::not_in_sql(self.servers, promises).await?;
        let mut done = Reconciled::default();
        for page in open.chunks(PAGE as usize) {
            done.add(self.restore(shard, "", Entry::Refuse, page).await?.unwrap_or_default());
        }
        Ok(done)
    }

    /// Restores the buyers of orders into a consistent sale. A buyer whose order is closed concurrently is removed
    /// again.
    async fn put_back(
        &mut self,
        shard: ShardId,
        entry: Entry,
        orders: &[SaleOrder],
    ) -> Result<Option<Reconciled>> {
        let mut done = self.restore_open(shard, "", entry, orders).await?;
        if let Some(done) = &mut done
            && done.restored > 0
        {
            done.removed += self.remove_closed(shard, false).await?;
        }
        Ok(done)
    }

    /// Restores the buyers of orders that are not closed. An order that is in SQL by now needs no entry but its buyer:
    /// it may have been written after the live orders were read.
    async fn restore_open(
        &mut self,
        shard: ShardId,
        token: &str,
        entry: Entry,
        orders: &[SaleOrder],
    ) -> Result<Option<Reconciled>> {
        let mut done = Reconciled::default();
        for page in orders.chunks(PAGE as usize) {
            let ids: Vec<OrderId> = page.iter().map(|order| order.id).collect();
            let rows = self.servers.store.orders_among(&ids).await?;
            let live: HashMap<OrderId, bool> =
                rows.into_iter().map(|row| (row.id, row.status.is_live())).collect();
            let (mut new, mut written) = (Vec::new(), Vec::new());
            for held in page {
                match live.get(&held.id) {
                    None => new.push(*held),
                    Some(true) => written.push(*held),
                    Some(false) => {}
                }
            }
            for (entry, orders) in [(Entry::Leave, written), (entry, new)] {
                match self.restore(shard, token, entry, &orders).await? {
                    Some(part) => done.add(part),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(done))
    }

    async fn restore(
        &mut self,
        shard: ShardId,
        token: &str,
        entry: Entry,
        buyers: &[SaleOrder],
    ) -> Result<Option<Reconciled>> {
        if buyers.is_empty() {
            return Ok(Some(Reconciled::default()));
        }
        let (keys, of) = (&self.servers.keys, self.servers.keys.partition_of(shard));
        let mut call = scripts::RESTORE.prepare_invoke();
        call.key(&keys.sale_keys(shard)).key(of.orders()).key(of.dead());
        call.key(of.watermark()).key(keys.tally(shard)).key(of.returned());
        call.arg(keys.name_in_entries(shard)).arg::<&str>(entry.into());
        call.arg(token).arg(LEASE.as_millis() as u64);
        call.arg(payment::REMEMBER_RETURNED.as_millis() as u64);
        for order in buyers {
            call.arg(order.user_id.0).arg(order.place).arg(order.id.get());
        }
        let (restored, refused, promised): (i64, Vec<String>, Vec<String>) =
            self.servers.conn.invoke(&call).await?;
        let Ok(restored) = u64::try_from(restored) else { return Ok(None) };
        let ids = |ids: Vec<String>| ids.iter().filter_map(|id| id.parse().ok()).collect();
        Ok(Some(Reconciled {
            restored,
            promised: promised.len() as u64,
            refused: refused.len() as u64,
            promised_ids: ids(promised),
            refused_ids: ids(refused),
            ..Reconciled::default()
        }))
    }
}

/// What happens to an order with its buyer; an argument of `restore.lua`.
#[derive(Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Entry {
    /// It already exists elsewhere.
    #[strum(serialize = "book")]
    Leave,
    /// It is live in SQL, and replaces any other order at its place.
    Claim,
    /// Its entry is added.
    #[strum(serialize = "enqueue")]
    Add,
    /// It becomes a dead letter, and the buyer is not restored.
    Refuse,
}

/// Confirms that `node` has restored its promises into this run of the server, and waits until every node that was
/// alive has done so or timed out: those of `peers`, which this node saw alive before, and those whose last heartbeats
/// Redis still has.
///
/// If Redis `is_lost`, it has lost the heartbeats with the keys of sales: nodes that this one has not seen show with the next
/// ones.
///
/// It does not wait for a node whose process has certainly ended: the wait is for promises in memory, and that memory is
/// gone. Nothing else depends on it:
/// - The orders in SQL, in the stream and among the dead letters were compared before, and each order is compared again
///   in the background. That includes a transaction which the database commits after the end of the process.
/// - The process has no batch in flight in this run: the script refuses a node that has not reconciled the run.
/// - The order IDs that it issued are not issued again: all nodes on a run date IDs after the seconds that SQL had reserved
///   for earlier ones.
/// - A sale that it was reconciling stays closed until the lease in Redis expires; a cut is undone by the next node.
/// - A new process under its name has another ID, and is waited for.
pub async fn await_peers(
    conn: &mut Connection,
    of: &Partition,
    node: &str,
    run_id: &str,
    peers: &[String],
    dead_ms: u64,
    is_lost: bool,
) -> Result<()> {
    let mut confirm = cmd("HSET");
    confirm.arg(of.reconciled()).arg(node).arg(run_id);
    conn.query::<u64>(&confirm).await?;
    let until = Instant::now() + GRACE;
    if is_lost {
        tokio::time::sleep(SIGN_WITHIN).await;
    }
    loop {
        let nodes = Nodes::read(conn, of).await?.signs;
        let confirmed: Vec<(Text, Text)> = conn.query(cmd("HGETALL").arg(of.reconciled())).await?;
        let is_confirmed = |name: &str| {
            confirmed.iter().any(|(Text(node), Text(run))| node == name && run == run_id)
        };
        let open: Vec<_> = nodes.iter().filter(|(name, _)| !is_confirmed(name)).collect();
        // Heartbeats are compared with the newest one, so that the downtime of Redis does not count. A single one
        // cannot be compared, and a node that was silent for minutes is dead.
        let newest = open.iter().map(|(_, at)| at.0).max().unwrap_or(0);
        let latest = nodes.iter().map(|(_, at)| at.0).max().unwrap_or(0);
        let newest = if latest - newest > DEAD_NODE_MS { latest } else { newest };
        let instances: Vec<(Text, Text)> =
            conn.query(cmd("HGETALL").arg(of.instances())).await.unwrap_or_default();
        let has_ended = |name: &str| {
            instances.iter().any(|(Text(node), Text(it))| node == name && conn.has_ended(it))
        };
        let seen = peers.iter().filter(|name| !is_confirmed(name));
        let alive = open.iter().filter(|(_, at)| newest - at.0 < dead_ms as i64);
        match seen.chain(alive.map(|(name, _)| name)).find(|name| !has_ended(name)) {
            None => return Ok(()),
            Some(missing) if Instant::now() > until => {
                tracing::warn!(missing, "a node did not confirm its promises in time");
                return Ok(());
            }
            Some(_) => tokio::time::sleep(PEER_POLL).await,
        }
    }
}

/// Whether SQL has stopped a sale: what it adopts of it then sells nothing.
fn is_stopped(sale: &SaleShard) -> bool {
    sale.state > SaleState::Running
}
