//! The audit: follows every admitted order by its ID, from the buyers hash to SQL.
//!
//! Orders only move forward (buyers, stream, pending, SQL or dead letter), and the places are read in that order: an
//! order that moves during the audit is found further on, and not reported as lost. Replayed letters move back, so the
//! places are read again before an order counts as lost.

mod differences;
pub(crate) mod entry_check;
pub(crate) mod expected;
pub mod promise_journal;
pub mod sale_copy;

use std::{cmp::Reverse, collections::HashSet, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use redis::{cmd, pipe};
use seckill_model::{
    EntryId, Message, Millis, OrderEntry, OrderError, OrderId, Phase, Place, Sale, SaleOrder,
    SaleShard, SaleState, ShardId, VoucherId,
    faults::{self, Point},
    ledger::{Finding, RedisLedger, SaleAudit, SaleFinding, SaleLedger, SqlLedger},
    reason::reason,
};
use seckill_redis::{
    Connection, dead_letters,
    keys::Partition,
    lossy_utf8::Text,
    stream,
    stream_stats::{self, SaleStats},
};
use seckill_store::{Sales, StoreError, UnreadableSale};
use serde::Serialize;

use self::differences::Differences;
use crate::{Result, deployment::servers::Servers, lists::group_by, recovery::former_names};

/// Orders of a page.
pub(super) const PAGE: usize = 1_000;
/// Entries added in one round trip.
const ENQUEUE_PAGE: usize = 500;
/// A finding counts if it persists for this many reads; a command in between may look like one.
pub(super) const LOOKS: u32 = 3;
/// Of a shard, since pieces move as often as each shard runs dry. No move loses a key.
const SHARD_LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Audit of all sales; passed if no sale has a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Each sale was read, and none has a finding.
    pub balanced: bool,
    /// One ledger per sale, newest first.
    pub sales: Vec<SaleAudit>,
    /// Sales of which something is unknown, because a server did not reply to the probe of the connection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<VoucherId>,
}

impl Audit {
    /// The findings, each with its sale.
    pub fn findings(&self) -> impl Iterator<Item = SaleFinding> {
        self.sales.iter().flat_map(SaleAudit::found)
    }
}

/// Entries in flight and dead letters, read in the order in which orders move.
#[derive(Debug, Default)]
pub struct Flows {
    /// Entries never delivered.
    pub undelivered: Vec<OrderEntry>,
    /// Entries delivered and not acknowledged.
    pub pending: Vec<OrderEntry>,
    /// Dead letters.
    pub dead: Vec<OrderEntry>,
}

impl Flows {
    /// Removes from `missing` what is in flight; returns those that are dead letters.
    fn found_of(&self, missing: &mut Vec<SaleOrder>) -> Vec<SaleOrder> {
        if missing.is_empty() {
            return Vec::new();
        }
        // Not by ID alone: a bad entry may carry the ID of another user's order.
        let moving = self.undelivered.iter().chain(&self.pending);
        let moving: HashSet<SaleOrder> = moving.map(SaleOrder::from).collect();
        let dead: HashSet<SaleOrder> = self.dead.iter().map(SaleOrder::from).collect();
        missing.retain(|held| !moving.contains(held));
        missing.extract_if(.., |held| dead.contains(held)).collect()
    }
}

/// Audits every sale, or the given one; shards of lost servers are left out if the connection was probed.
pub fn audit(servers: &mut Servers, only: Option<VoucherId>) -> BoxFuture<'_, Result<Audit>> {
    async move {
        let Sales { shards: sales, unreadable } = match only {
            Some(voucher) => {
                let shards = servers.store.shards_of(voucher).await?;
                Sales { shards, ..Sales::default() }
            }
            None => all_sales(servers).await?,
        };
        let is_lost =
            |shard: &SaleShard| servers.conn.is_lost(&servers.keys.partition_of(shard.id));
        let (lost, sales): (Vec<SaleShard>, Vec<SaleShard>) = sales.into_iter().partition(is_lost);
        let mut unread: Vec<VoucherId> = lost.iter().map(|shard| shard.voucher_id).collect();
        unread.sort_unstable_by_key(|sale| Reverse(*sale));
        unread.dedup();
        let audits = audit_parts(servers, &sales).await?;
        let mut lines = Vec::with_capacity(audits.len());
        let read = sales.iter().zip(audits);
        for parts in group_by(read, |(shard, _)| Reverse(shard.id.sale)).into_values() {
            let spread = parts.first().and_then(|(part, _)| part.spread);
            let incomplete = parts.len() < spread.map_or(1, |spread| spread.count.into());
            let whole = SaleAudit::whole(parts.into_iter().map(|(_, audit)| audit).collect());
            lines.extend(whole.map(|whole| SaleAudit { incomplete, ..whole }));
        }
        let of_unreadable =
            |it: UnreadableSale| SaleAudit::unreadable(it.voucher, it.why.reason().to_string());
        lines.extend(unreadable.into_iter().map(of_unreadable));
        lines.sort_by_key(|line| Reverse(line.voucher_id));
        let is_whole = only.is_some() || servers.conn.lost().is_empty();
        let balanced =
            is_whole && unread.is_empty() && lines.iter().all(|line| line.findings.is_empty());
        Ok(Audit { balanced, sales: lines, unread })
    }
    .boxed()
}

/// The shards of every sale that is not archived, and those in Redis that SQL has archived or does not know, newest sale
/// first.
pub(crate) async fn all_sales(servers: &mut Servers) -> Result<Sales> {
    let mut all = servers.store.readable_sales().await?;
    for found in surplus(servers, &all).await? {
        match found {
            Surplus::InSql(shard) | Surplus::Lost(shard) => all.shards.push(shard),
            Surplus::Unreadable(sale) => all.unreadable.push(sale),
        }
    }
    all.shards.sort_unstable_by_key(|shard| (Reverse(shard.id.sale), shard.id.number));
    Ok(all)
}

/// What Redis holds beyond the current sales of SQL.
pub(crate) enum Surplus {
    /// A shard that SQL has archived, or that was created since they were read.
    InSql(SaleShard),
    /// A shard that SQL does not know, as Redis has it.
    Lost(SaleShard),
    /// Keys that cannot be read as those of a sale: what is sold there must not be overlooked.
    Unreadable(UnreadableSale),
}

/// Searches all keys of Redis for shards that are not among the current sales of SQL.
pub(crate) async fn surplus(servers: &mut Servers, listed: &Sales) -> Result<Vec<Surplus>> {
    let known: HashSet<ShardId> = listed.shards.iter().map(|shard| shard.id).collect();
    let mut found = Vec::new();
    let is_unreadable = |found: &[Surplus], voucher| {
        let is_of =
            |it: &Surplus| matches!(it, Surplus::Unreadable(sale) if sale.voucher == voucher);
        listed.is_unreadable(voucher) || found.iter().any(is_of)
    };
    for of in servers.conn.reachable(&servers.keys) {
        let held = stream_stats::shards_held(&mut servers.conn, &of).await?;
        for shard in held.into_iter().filter(|shard| !known.contains(shard)) {
            if is_unreadable(&found, shard.voucher()) {
                continue;
            }
            match servers.store.shard(shard).await {
                Ok(shard) => found.push(Surplus::InSql(shard)),
                Err(StoreError::NoSale(_)) => {
                    let held = sale_copy::read(servers, shard).await?;
                    if let Some(held) = held.and_then(|held| held.adopted(None)) {
                        found.push(Surplus::Lost(held));
                    } else {
                        let unreadable = unreadable(servers, shard).await?;
                        found.extend(unreadable.map(Surplus::Unreadable));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}

/// Why keys of a shard that SQL does not have cannot be read as those of a sale; `None` if there is no key of a sale.
async fn unreadable(servers: &mut Servers, shard: ShardId) -> Result<Option<UnreadableSale>> {
    let (voucher, key) = (shard.voucher(), servers.keys.sale(shard));
    if let Some(of) = former_names::shard_with_keys_of(servers, shard).await? {
        let why = StoreError::Rule(reason!("ledger-former-keys", key, shard = of));
        return Ok(Some(UnreadableSale { voucher, why }));
    }
    let kind: String = servers.conn.query(cmd("TYPE").arg(&key)).await?;
    let why = StoreError::Rule(reason!("ledger-unreadable-keys", key));
    Ok((kind == "hash").then_some(UnreadableSale { voucher, why }))
}

/// Audits these shards, in their order. Those with a finding and their figures are read again, all of them after
/// one pause: a command in between may look like a finding.
pub async fn audit_parts(servers: &mut Servers, parts: &[SaleShard]) -> Result<Vec<SaleAudit>> {
    let mut audits = Vec::with_capacity(parts.len());
    for part in parts {
        audits.push(look(servers, part).await?);
    }
    for looks in 1..SHARD_LOOKS {
        let found = parts.iter().zip(&mut audits);
        let again: Vec<_> = found.filter(|(part, audit)| may_pass(part, audit, looks)).collect();
        if again.is_empty() {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
        for (part, audit) in again {
            *audit = match servers.store.shard(part.id).await {
                Ok(shard) => look(servers, &shard).await?,
                // Only Redis holds the sale.
                Err(StoreError::NoSale(_)) => look(servers, part).await?,
                Err(error) => return Err(error.into()),
            };
        }
    }
    Ok(audits)
}

/// Whether the findings after so many reads may be due to a command in between.
fn may_pass(part: &SaleShard, audit: &SaleAudit, looks: u32) -> bool {
    let found = &audit.findings;
    // A sale that Redis has confirmed is not being created, and only ended ones are archived. The other findings follow.
    let is_open = part.phase(Millis::now(), None) != Phase::Ended;
    let is_lost = found.contains(&Finding::NotLoaded) && is_open && !part.is_undelivered();
    let moves = part.spread.is_some()
        && !found.iter().any(|it| matches!(it, Finding::NotLoaded | Finding::Damaged(_)));
    !found.is_empty() && !is_lost && (looks < LOOKS || moves)
}

/// Admitted orders of a shard that are neither in SQL nor in the stream nor among the dead letters.
pub async fn lost_orders(servers: &mut Servers, shard: ShardId) -> Result<Vec<SaleOrder>> {
    let Differences { buyers, .. } = differences::find(servers, shard).await?;
    // The stream is read again only if it may hold one of them.
    if not_in_sql(servers, &buyers).await?.is_empty() {
        return Ok(Vec::new());
    }
    Ok(follow(servers, shard, &buyers).await?.lost)
}

async fn look(servers: &mut Servers, sale: &SaleShard) -> Result<SaleAudit> {
    let shard = sale.id;
    let archived = sale.state == SaleState::Archived;
    let (sql, in_sql) = match servers.store.ledger(shard).await {
        Ok(sql) => (sql, true),
        Err(StoreError::NoSale(_)) => (SqlLedger::default(), false),
        Err(error) => return Err(error.into()),
    };
    // The buyers of a damaged sale are unknown: figures that depend on them are counted once it is reconciled.
    let stats = stream_stats::read_stats(&mut servers.conn, &servers.keys, &[shard]).await?;
    let facts = stats.sales.first().copied().flatten().unwrap_or_default();
    let damaged = facts.damaged;
    let other = facts.created.is_some_and(|created| created != sale.created);
    let known = damaged.is_none() && !other;
    let Differences { buyers, orders } = match (known, archived) {
        (false, _) => Differences::default(),
        // It should have no keys: what is left is listed.
        (true, true) => Differences { buyers: buyers(servers, shard).await?, orders: Vec::new() },
        (true, false) => differences::find(servers, shard).await?,
    };
    let Followed { mut flows, unwritten, stranded, lost } = follow(servers, shard, &buyers).await?;
    if known {
        // Copies of orders that are in SQL are not in flight.
        let in_flight = |entry: &mut OrderEntry| unwritten.contains(&SaleOrder::from(&*entry));
        flows.undelivered.retain_mut(in_flight);
        flows.pending.retain_mut(in_flight);
    }
    let changed = if known && in_sql && !archived {
        sale_copy::changed_fields(servers, sale).await?
    } else {
        None
    };
    let unknown = unknown_among(servers, shard, &orders).await?.len() as u64;
    let redis = redis_ledger(&facts, sale);
    let ledger = SaleLedger {
        redis,
        admitted: facts.buyers,
        damaged,
        other,
        changed,
        in_sql,
        archived,
        sql,
        stranded,
        lost: lost.len() as u64,
        unknown,
        repeated: repeated(&buyers),
        kept: kept(servers, shard, &buyers).await?.len() as u64,
    };
    Ok(SaleAudit {
        voucher_id: sale.voucher_id,
        shard: shard.numbered(),
        title: sale.title.clone(),
        initial: sql.initial,
        stock: redis.map(|redis| redis.stock),
        admitted: facts.buyers,
        persisted: sql.live,
        closed: sql.closed,
        undelivered: of(&flows.undelivered, shard),
        pending: of(&flows.pending, shard),
        dead: of(&flows.dead, shard),
        db_stock: sql.stock,
        findings: ledger.findings(),
        incomplete: false,
        is_outdated: false,
        shards: Vec::new(),
    })
}

fn of(entries: &[OrderEntry], shard: ShardId) -> u64 {
    entries.iter().filter(|entry| entry.sold_by() == shard).count() as u64
}

/// A sale as Redis holds it; `None` if a part is missing.
fn redis_ledger(facts: &SaleStats, sale: &Sale) -> Option<RedisLedger> {
    let version = facts.version?;
    Some(RedisLedger {
        initial: facts.initial?,
        stock: facts.stock?,
        behind: sale.version.saturating_sub(version),
        // The sale was read before: Redis may have a change by now that SQL did not have then.
        ahead: version.saturating_sub(sale.version),
    })
}

/// Every buyer of a shard with the order ID.
pub(super) async fn buyers(servers: &mut Servers, shard: ShardId) -> Result<Vec<SaleOrder>> {
    let mut found = Vec::new();
    for_each_buyer(servers, shard, |order| found.push(order)).await?;
    // A hash that is resized during the scan returns some fields twice.
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Passes on every buyer of a shard with the order ID, some of them twice.
pub(super) async fn for_each_buyer(
    servers: &mut Servers,
    shard: ShardId,
    mut found: impl FnMut(SaleOrder),
) -> Result<()> {
    let mut cursor = 0u64;
    loop {
        let mut scan = cmd("HSCAN");
        scan.arg(servers.keys.buyers(shard)).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, page): (u64, Vec<(Text, Text)>) = servers.conn.query(&scan).await?;
        for (Text(place), Text(order)) in page {
            if place == "seq" || place == "restoring" {
                continue;
            }
            if let (Ok(Place { user, number }), Ok(id)) = (place.parse(), order.parse()) {
                let voucher_id = shard.voucher();
                found(SaleOrder {
                    id,
                    user_id: user,
                    voucher_id,
                    shard: shard.number,
                    place: number,
                });
            } else {
                // An invalid field that counts as a buyer: otherwise initial is not stock + buyers.
                tracing::warn!(%shard, field = place, "an unreadable field in the buyers hash");
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// IDs held by more than one buyer; `buyers` is sorted by ID.
fn repeated(buyers: &[SaleOrder]) -> u64 {
    buyers.windows(2).filter(|pair| matches!(pair, [a, b] if a.id == b.id)).count() as u64
}

/// Closed orders that their buyers still hold, and that are not about to be returned.
pub(super) async fn kept_orders(servers: &mut Servers, shard: ShardId) -> Result<Vec<SaleOrder>> {
    let buyers = buyers(servers, shard).await?;
    kept(servers, shard, &buyers).await
}

/// Redis is read last: an order leaves it before SQL records its return.
async fn kept(
    servers: &mut Servers,
    shard: ShardId,
    buyers: &[SaleOrder],
) -> Result<Vec<SaleOrder>> {
    let mut kept = Vec::new();
    for page in buyers.chunks(PAGE) {
        let ids: Vec<OrderId> = page.iter().map(|order| order.id).collect();
        let closed: HashSet<OrderId> =
            servers.store.closed_among(&ids).await?.into_iter().collect();
        let held: Vec<_> = page.iter().filter(|order| closed.contains(&order.id)).collect();
        if held.is_empty() {
            continue;
        }
        let now = servers.held(shard, held.iter().map(|order| order.place())).await?;
        let still = held.into_iter().zip(now).filter(|(order, now)| *now == Some(order.id));
        kept.extend(still.map(|(order, _)| *order));
    }
    Ok(kept)
}

struct Followed {
    flows: Flows,
    /// Orders that were not in SQL.
    unwritten: HashSet<SaleOrder>,
    /// Orders that are dead letters and not in SQL.
    stranded: u64,
    lost: Vec<SaleOrder>,
}

async fn follow(servers: &mut Servers, shard: ShardId, buyers: &[SaleOrder]) -> Result<Followed> {
    let of = servers.keys.partition_of(shard);
    let flows = flows(servers, &of).await?;
    let mut missing = not_in_sql(servers, buyers).await?;
    let unwritten = missing.iter().copied().collect();
    let mut stranded = flows.found_of(&mut missing);
    if !missing.is_empty() {
        // A replay is the only way back: a letter that was enqueued in between was seen in neither place.
        let again = self::flows(servers, &of).await?;
        stranded.extend(again.found_of(&mut missing));
        missing = not_in_sql(servers, &missing).await?;
    }
    Ok(Followed { flows, unwritten, stranded: stranded.len() as u64, lost: missing })
}

pub(super) async fn not_in_sql(servers: &Servers, buyers: &[SaleOrder]) -> Result<Vec<SaleOrder>> {
    let mut missing = Vec::new();
    for page in buyers.chunks(PAGE) {
        let written = servers.written(page.iter().map(|order| order.id)).await?;
        missing.extend(page.iter().filter(|order| !written.contains(&order.id)));
    }
    Ok(missing)
}

/// Live orders in SQL whose buyer holds no such order in Redis.
pub(super) async fn unknown_orders(
    servers: &mut Servers,
    shard: ShardId,
) -> Result<Vec<SaleOrder>> {
    let Differences { orders, .. } = differences::find(servers, shard).await?;
    unknown_among(servers, shard, &orders).await
}

/// Returns those of `orders` that are live and whose buyer does not hold them.
async fn unknown_among(
    servers: &mut Servers,
    shard: ShardId,
    orders: &[SaleOrder],
) -> Result<Vec<SaleOrder>> {
    let mut unknown = Vec::new();
    for page in orders.chunks(PAGE) {
        let held = servers.held(shard, page.iter().map(SaleOrder::place)).await?;
        let held = page.iter().zip(held);
        let lacking =
            held.filter(|(order, held)| *held != Some(order.id)).map(|(order, _)| order.id);
        let ids: Vec<OrderId> = lacking.collect();
        // An order that was closed since it was read has correctly left Redis.
        let rows = servers.store.orders_among(&ids).await?;
        let live: HashSet<OrderId> =
            rows.iter().filter(|row| row.status.is_live()).map(|row| row.id).collect();
        unknown.extend(page.iter().filter(|order| live.contains(&order.id)));
    }
    Ok(unknown)
}

/// All entries of a partition in flight, and its dead letters that contain an order.
pub async fn flows(servers: &mut Servers, of: &Partition) -> Result<Flows> {
    let mut flows = Flows::default();
    let stream = servers.partition_stats(of).await?.stream;
    let last_delivered = stream.delivered;
    // Entries are added meanwhile, faster than they are read; those are of orders that no caller knows yet.
    let is_newer = |entry: EntryId| stream.generated.is_some_and(|last| entry >= last);
    let conn = &mut servers.conn;
    let mut next = last_delivered.map_or(Some(EntryId::MIN), EntryId::next);
    while let Some(from) = next {
        let page = stream::range(conn, of, from, PAGE).await?;
        next = page.last().filter(|it| !is_newer(it.entry)).and_then(|it| it.entry.next());
        flows.undelivered.extend(page.iter().filter_map(stream::Delivered::order));
    }
    if last_delivered.is_some() {
        let mut next = Some(EntryId::MIN);
        while let Some(from) = next {
            let page = stream::pending_page(conn, of, from, EntryId::MAX, PAGE).await?;
            let last = page.last().map(|it| it.delivered.entry);
            next = last.filter(|last| !is_newer(*last)).and_then(EntryId::next);
            flows.pending.extend(page.iter().filter_map(|row| row.delivered.order()));
        }
    }
    flows.dead = dead_orders(conn, of).await?;
    Ok(flows)
}

/// The orders of a shard of which the stream still has the entry, whatever became of it, except those of `known`.
pub(super) async fn orders_in_stream(
    servers: &mut Servers,
    shard: ShardId,
    known: &HashSet<OrderId>,
) -> Result<Vec<SaleOrder>> {
    let of = servers.keys.partition_of(shard);
    let (mut orders, mut next) = (Vec::new(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = stream::range(&mut servers.conn, &of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        let of_shard = page.iter().filter_map(stream::Delivered::order);
        let of_shard = of_shard.filter(|it| it.sold_by() == shard && !known.contains(&it.order));
        orders.extend(of_shard.map(|order| SaleOrder::from(&order)));
    }
    Ok(orders)
}

/// The dead letters of a partition that contain an order, except those never promised to a buyer.
pub(super) async fn dead_orders(conn: &mut Connection, of: &Partition) -> Result<Vec<OrderEntry>> {
    letters_with_order(conn, of, true).await
}

/// The others: what another program has added to the stream.
pub(super) async fn never_promised(
    conn: &mut Connection,
    of: &Partition,
) -> Result<Vec<OrderEntry>> {
    letters_with_order(conn, of, false).await
}

async fn letters_with_order(
    conn: &mut Connection,
    of: &Partition,
    promised: bool,
) -> Result<Vec<OrderEntry>> {
    let never = Message::of(&OrderError::NotPromised);
    let (mut dead, mut next) = (Vec::new(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = dead_letters::read(conn, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.letter.next());
        let wanted = page.iter().filter(|letter| (letter.reason != never) == promised);
        dead.extend(wanted.filter_map(|letter| letter.order));
    }
    Ok(dead)
}

/// Entries that were enqueued again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Orders that had no result anywhere.
    pub orders: u64,
    /// Redis has every sale, so no lost order was missed.
    pub complete: bool,
}

/// Enqueues every order of a partition that was admitted and has no result anywhere. Safe to repeat: an order that
/// already exists is written once.
pub async fn rebuild(servers: &mut Servers, of: &Partition) -> Result<Rebuilt> {
    let mut rebuilt = Rebuilt { orders: 0, complete: true };
    for sale in servers.sales_of(of).await? {
        let exists = cmd("EXISTS").arg(servers.keys.sale(sale.id)).take();
        rebuilt.complete &= servers.conn.query::<bool>(&exists).await?;
        rebuilt.orders += enqueue_lost(servers, sale.id).await?.len() as u64;
    }
    Ok(rebuilt)
}

/// The same for one sale; returns the orders that were enqueued.
pub(crate) async fn enqueue_lost(servers: &mut Servers, shard: ShardId) -> Result<Vec<OrderId>> {
    let of = servers.keys.partition_of(shard);
    let number = servers.keys.number_in_entries(shard);
    let lost = lost_orders(servers, shard).await?;
    for page in lost.chunks(ENQUEUE_PAGE) {
        let mut add = pipe();
        for order in page {
            add.cmd("XADD").arg(of.orders()).arg("*").arg("userId").arg(order.user_id.0);
            add.arg("voucherId").arg(order.voucher_id.0).arg("id").arg(order.id.get());
            if let Some(number) = number {
                add.arg("shard").arg(number);
            }
            add.arg("place").arg(order.place).ignore();
        }
        servers.conn.pipe::<()>(&add).await?;
        faults::pass(Point::AfterRebuild);
    }
    Ok(lost.into_iter().map(|order| order.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_two_holders_is_counted() {
        let held = |id, user| SaleOrder {
            id: OrderId::from_i64(id).unwrap(),
            user_id: seckill_model::UserId(user),
            voucher_id: VoucherId(7),
            shard: 0,
            place: 1,
        };
        assert_eq!(repeated(&[held(1, 1), held(2, 2), held(2, 3), held(4, 4)]), 1);
        assert_eq!(repeated(&[held(1, 1)]), 0);
    }
}
