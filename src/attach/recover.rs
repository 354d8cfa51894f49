//! Recovery of a service: a plan as data, its application, and a proof that counts what is left.
//!
//! Applying is bounded, can be interrupted between two entries, and can be repeated: the order ID is the primary key of an
//! order, and an entry is copied to the dead letters and acknowledged in one step. Two processes never apply at once.

mod lease;
mod letters;
mod plan;
mod record;
mod rows;

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use redis::{Value, cmd};
use seckill_model::{
    Millis, OrderError, Phase, RecoveryAction, UserId, Verdict, VoucherId, in_english, reason,
};
use seckill_redis::{Connection, Redis, keys::attach_dead, lossy_utf8::Text, scripts};
use seckill_store::{Settings, StoreError, plain::PlainConnection};

use self::{
    lease::Lease,
    plan::Change as Figure,
    record::{Line, name},
    rows::{Asked, Facts, Order, Planned, Taken, order_of, place},
};
pub use self::{
    letters::Letter,
    plan::{Applied, Change, EntryPlan, NewGroup, Plan, Proof, SalePlan},
    record::Log,
};
pub(crate) use self::{letters::page as letters_page, rows::check_columns};
use crate::{
    Alarm, AttachError, Limits, Poison, Profile, Report, Result, SaleReport, Watcher,
    buyers::{self, SaleKeys},
    database::Database,
    doctor::ENTRIES,
    migrate::mark_of,
    stream::{self, Pending},
    watcher::entry_order,
};

/// The consumer of `attach` in the group of the service.
pub(crate) const CONSUMER: &str = "seckill-attach";
/// Entries and users of one step.
const PAGE: usize = 250;
/// How often the stock is compared while users buy.
const TRIES: usize = 3;

/// Plans and applies a recovery.
#[derive(Debug)]
pub struct Recovery {
    profile: Profile,
    limits: Limits,
    conn: Connection,
    watcher: Watcher,
    database: Database,
    remove_buyers: bool,
}

/// An entry in flight, or one that the group has passed; and whether it is stuck.
#[derive(Debug)]
struct Entry {
    pending: Pending,
    asked: Asked,
    is_stuck: bool,
    passed: bool,
}

impl Recovery {
    /// Plans for the service of this profile; `remove_buyers` also removes buyers with neither an order nor an entry.
    /// Without a stream, the plan takes for granted that no order waits in the memory of the service.
    ///
    /// # Errors
    /// The URL is invalid, or Redis is a cluster.
    pub fn new(
        profile: Profile,
        limits: Limits,
        redis: &Redis,
        database: &str,
        settings: &Settings,
        remove_buyers: bool,
    ) -> Result<Self> {
        // Then nothing can be on its way for longer.
        let stuck_ms = if profile.has_stream() { limits.stuck_ms } else { 0 };
        let watched = Limits { stuck_ms, ..limits };
        Ok(Self {
            watcher: Watcher::new(profile.clone(), watched, redis, database, settings)?,
            conn: redis.connection(),
            database: Database::open(database, settings, &profile)?,
            profile,
            limits,
            remove_buyers,
        })
    }

    /// Reads the service twice within a second, and plans. Changes nothing.
    ///
    /// # Errors
    /// The service cannot be recovered with this profile, or a server is unreachable.
    pub async fn plan(&mut self) -> Result<Plan> {
        let has_stream = self.profile.has_stream();
        // Without a stream, no entry is planned.
        let has_group = !has_stream || self.check().await?;
        let report = self.watcher.settled().await?;
        let vouchers: Vec<VoucherId> = report.sales.iter().map(|it| it.voucher_id).collect();
        let mut conn = self.database.connection().await?;
        let create_group = if has_group { None } else { Some(self.new_group(&mut conn).await?) };
        let mut tries = 0;
        loop {
            tries += 1;
            let last_id = self.last_id().await?;
            let keys = buyers::keys(&mut self.conn, &self.profile, &vouchers).await?;
            let start = create_group.as_ref().map(|it| it.start.clone());
            let (mut entries, mut complete) = (Vec::new(), true);
            if has_stream {
                (entries, complete) = self.in_flight(start, report.taken).await?;
            }
            if has_stream && has_group {
                complete &= self.add_passed(&mut entries, report.taken).await?;
            }
            let mut plan = Plan {
                taken: report.taken,
                stream: self.profile.stream.key.clone(),
                group: self.profile.stream.group.clone(),
                create_group: create_group.clone(),
                more_entries: !complete,
                unreadable: keys.iter().flat_map(|it| it.foreign.clone()).collect(),
                buyers_compared: of_redis(&report).all(|it| it.buyers_without_order.is_some()),
                last_id,
                ..Plan::default()
            };
            // The service must not process what is left of them, nor get a stock.
            let moved = report.sales.iter().filter(|it| it.moved).map(|it| it.voucher_id);
            let moved: HashSet<VoucherId> = moved.collect();
            for entry in &mut entries {
                entry.is_stuck &=
                    !entry.asked.as_ref().is_ok_and(|order| moved.contains(&order.voucher));
            }
            let orders = self.judge(&mut conn, &mut entries, &moved, &mut plan).await?;
            let (mut stocks, mut lost) = (HashMap::new(), HashMap::new());
            for (voucher, keys) in vouchers.iter().zip(&keys) {
                let of_sale = orders.get(voucher).map_or(&[][..], Vec::as_slice);
                if !of_sale.is_empty() && keys.foreign.is_empty() {
                    // The service adds buyer and entry in one step.
                    let users = of_sale.iter().map(|it| it.user.to_string()).collect();
                    let key = self.profile.buyers(*voucher);
                    lost.insert(*voucher, buyers::absent(&mut self.conn, &key, users).await?);
                }
                let of_sale: Vec<i64> = of_sale.iter().map(|it| it.id.as_i64()).collect();
                let (database, profile) = (&self.database, &self.profile);
                let stock =
                    rows::stock_and_written(database, &mut conn, profile, *voucher, &of_sale);
                let stock = stock.await?;
                let left = |(stock, written): (i64, i64)| {
                    (stock, stock.saturating_sub(of_sale.len() as i64 - written))
                };
                stocks.extend(stock.map(|it| (*voucher, left(it))));
            }
            // If nothing was added and no stock has changed, what was read in between belongs together.
            let is_quiet = self.last_id().await? == plan.last_id
                && buyers::keys(&mut self.conn, &self.profile, &vouchers).await? == keys;
            if !is_quiet && tries < TRIES {
                continue;
            }
            plan.stock_compared = is_quiet && complete;
            self.add_sales(&mut plan, &report, &keys, &stocks, &lost);
            return Ok(plan);
        }
    }

    /// The ID that was added last; empty without a stream.
    async fn last_id(&mut self) -> Result<String> {
        if !self.profile.has_stream() {
            return Ok(String::new());
        }
        stream::last_id(&mut self.conn, &self.profile).await
    }

    /// Rejects what cannot be recovered; returns whether the group exists.
    async fn check(&mut self) -> Result<bool> {
        let (conn, profile) = (&mut self.conn, &self.profile);
        let (key, group) = (profile.stream.key.as_str(), profile.stream.group.as_str());
        let holds: String = conn.query(cmd("TYPE").arg(key)).await?;
        match holds.as_str() {
            "stream" => {}
            "none" => {
                return Err(AttachError::Refused(reason!("attach-recover-lost", key, group)));
            }
            _ => return Err(AttachError::Mismatch(reason!("attach-holds-other", key, holds))),
        }
        let groups = stream::groups(conn, profile).await?;
        let has_group = groups.iter().any(|(name, _)| name == group);
        // With another group, the profile is wrong, and a new group would deliver every entry twice.
        if !has_group && !groups.is_empty() {
            let names = groups.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            return Err(AttachError::Mismatch(reason!("attach-other-groups", group, names)));
        }
        let mut read = cmd("XREVRANGE");
        read.arg(key).arg("+").arg("-").arg("COUNT").arg(ENTRIES);
        let newest: Vec<stream::RawEntry> = conn.query(&read).await?;
        let fault = |(id, fields): &stream::RawEntry| match stream::fault_of(profile, fields) {
            Some(fault @ Poison::NoField { .. }) => Some((id.clone(), fields.clone(), fault)),
            _ => None,
        };
        let faults: Vec<_> = newest.iter().filter_map(fault).collect();
        // A single one is poison; if all lack a field, the profile is wrong.
        if let Some((entry, fields, why)) = faults.first().filter(|_| faults.len() == newest.len())
        {
            let names: Vec<&str> = fields.iter().take(9).map(|(name, _)| &*name.0).collect();
            let (entry, why) = (entry.as_str(), why.reason());
            let found = reason!("attach-other-fields", entry, why, names = names.join(", "));
            return Err(AttachError::Mismatch(found));
        }
        let names = &profile.order;
        let filled = [names.id.as_str(), &names.user, &names.voucher];
        check_columns(&self.database, profile, &filled).await?;
        Ok(has_group)
    }

    /// Where a new group begins: before the first entry without an order.
    async fn new_group(&mut self, conn: &mut PlainConnection) -> Result<NewGroup> {
        let mut group = NewGroup { start: "0-0".to_owned(), again: 0 };
        let (mut after, mut read, mut is_first) = ("0-0".to_owned(), 0, true);
        while read < self.limits.orders {
            let page = stream::entries_after(&mut self.conn, &self.profile, &after, PAGE).await?;
            let asked: Vec<Asked> =
                page.iter().map(|(_, fields)| order_of(&self.profile, Some(fields))).collect();
            let orders: Vec<Order> =
                asked.iter().filter_map(|it| it.as_ref().ok()).copied().collect();
            let facts = Facts::read(&self.database, conn, &self.profile, &orders).await?;
            for ((id, _), asked) in page.iter().zip(&asked) {
                let is_written = asked.as_ref().is_ok_and(|order| facts.has(order));
                is_first &= is_written;
                if is_first {
                    group.start.clone_from(id);
                } else if is_written {
                    group.again += 1;
                }
            }
            read += page.len();
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
        }
        Ok(group)
    }

    /// The entries in flight, pending ones first, and whether these are all; `start` is where a new group begins.
    async fn in_flight(
        &mut self,
        start: Option<String>,
        now: Millis,
    ) -> Result<(Vec<Entry>, bool)> {
        let (conn, profile, limits) = (&mut self.conn, &self.profile, &self.limits);
        let has_group = start.is_none();
        let mut after = if let Some(start) = start {
            start
        } else {
            let groups = stream::groups(conn, profile).await?;
            let group = groups.into_iter().find(|(name, _)| *name == profile.stream.group);
            group.map_or_else(|| "0-0".to_owned(), |(_, delivered)| delivered)
        };
        // First what was never delivered, then what is pending: entries move in this direction.
        let (mut undelivered, mut complete) = (Vec::new(), true);
        loop {
            let page = stream::entries_after(conn, profile, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            undelivered.extend(page);
            if undelivered.len() >= limits.in_flight {
                complete = false;
                break;
            }
        }
        let mut pending = Vec::new();
        let mut from = "-".to_owned();
        loop {
            if !has_group {
                break;
            }
            let page = stream::pending_page(conn, profile, &from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = format!("({}", last.id);
            pending.extend(page);
            if pending.len() >= limits.in_flight {
                complete = false;
                break;
            }
        }
        let idle = if has_group { stream::idle(conn, profile).await? } else { HashMap::new() };
        let is_alive = |name: &str| {
            name != CONSUMER && idle.get(name).is_some_and(|idle| *idle < limits.stuck_ms)
        };
        let delivered: HashSet<String> = pending.iter().map(|it| it.id.clone()).collect();
        let mut entries = Vec::new();
        for pending in pending {
            let asked = order_of(profile, pending.fields.as_deref());
            // A consumer that is idle for that long has received it before. What an interrupted run has claimed stays
            // claimed, and continues now.
            let is_idle = pending.idle_ms >= limits.stuck_ms || pending.consumer == CONSUMER;
            // A live consumer reads it again and again.
            let is_poison = asked.is_err() && pending.deliveries >= limits.deliveries;
            let is_stuck = is_idle || is_poison;
            entries.push(Entry { pending, asked, is_stuck, passed: false });
        }
        // While a consumer is alive, it is its work to receive them.
        let is_waiting = idle.keys().any(|name| is_alive(name));
        for (id, fields) in undelivered {
            if delivered.contains(&id) {
                continue;
            }
            let idle_ms = now.since(Millis(entry_order(&id).0 as i64));
            let is_stuck = !is_waiting && idle_ms >= limits.stuck_ms;
            let asked = order_of(profile, Some(&fields));
            let (consumer, fields) = (String::new(), Some(fields));
            let pending = Pending { id, consumer, idle_ms, deliveries: 0, fields };
            entries.push(Entry { pending, asked, is_stuck, passed: false });
        }
        Ok((entries, complete))
    }

    /// Adds the entries of buyers without an order that the group has passed: a consumer acknowledged them without writing
    /// the order, or the group began after them. No consumer receives them again. Returns whether all were read.
    async fn add_passed(&mut self, entries: &mut Vec<Entry>, now: Millis) -> Result<bool> {
        let lasting = self.watcher.lasting.without_order.iter();
        let lacking: HashSet<(VoucherId, &str)> =
            lasting.map(|(it, user)| (*it, &**user)).collect();
        let known: HashSet<String> = entries.iter().map(|it| it.pending.id.clone()).collect();
        let (mut after, mut read) = ("0-0".to_owned(), 0);
        while !lacking.is_empty() {
            if read >= self.limits.orders {
                return Ok(false);
            }
            let page = stream::entries_after(&mut self.conn, &self.profile, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            read += page.len();
            for (id, fields) in page {
                let asked = order_of(&self.profile, Some(&fields));
                let is_lacking = |order: &Order| {
                    lacking.contains(&(order.voucher, order.user.to_string().as_str()))
                };
                if !asked.as_ref().is_ok_and(is_lacking) || known.contains(&id) {
                    continue;
                }
                let idle_ms = now.since(Millis(entry_order(&id).0 as i64));
                let is_stuck = idle_ms >= self.limits.stuck_ms;
                let (consumer, fields) = (String::new(), Some(fields));
                let pending = Pending { id, consumer, idle_ms, deliveries: 0, fields };
                entries.push(Entry { pending, asked, is_stuck, passed: true });
            }
        }
        Ok(true)
    }

    /// Adds the verdicts on stuck entries to the plan; returns the orders that entries in flight will become.
    async fn judge(
        &self,
        conn: &mut PlainConnection,
        entries: &mut [Entry],
        moved: &HashSet<VoucherId>,
        plan: &mut Plan,
    ) -> Result<HashMap<VoucherId, Vec<Order>>> {
        let mut planned = Planned::default();
        let mut orders: HashMap<VoucherId, Vec<Order>> = HashMap::new();
        for page in entries.chunks_mut(PAGE) {
            let asked: Vec<Order> =
                page.iter().filter_map(|it| it.asked.as_ref().ok()).copied().collect();
            let mut facts = Facts::read(&self.database, conn, &self.profile, &asked).await?;
            facts.after(&planned);
            for Entry { pending, asked, is_stuck, passed } in page {
                let (verdict, fault) = facts.judge(asked);
                // One that yields no order was given up before, and each recovery would give it up again.
                let is_given_up = *passed && verdict != Verdict::Stuck;
                if is_given_up && matches!(fault, None | Some(OrderError::Holds { .. })) {
                    continue;
                }
                if let (Verdict::Stuck, Ok(order)) = (verdict, &asked) {
                    facts.plan(order, &mut planned);
                    orders.entry(order.voucher).or_default().push(*order);
                }
                if !*is_stuck && !is_given_up {
                    let has_moved = asked.as_ref().is_ok_and(|it| moved.contains(&it.voucher));
                    *(if has_moved { &mut plan.moved } else { &mut plan.left }) += 1;
                    continue;
                }
                let order = asked.as_ref().ok();
                let buyer = pending
                    .fields
                    .as_deref()
                    .and_then(|fields| stream::waiting(&self.profile, &pending.id, fields, true));
                let entries = if is_given_up { &mut plan.unwritable } else { &mut plan.entries };
                entries.push(EntryPlan {
                    entry: mem::take(&mut pending.id),
                    consumer: Some(mem::take(&mut pending.consumer)).filter(|it| !it.is_empty()),
                    idle_ms: pending.idle_ms,
                    deliveries: pending.deliveries,
                    order_id: order.map(|it| it.id),
                    user_id: buyer.as_ref().and_then(|it| it.user.parse().ok()).map(UserId),
                    voucher_id: buyer.map(|it| it.voucher),
                    verdict,
                    action: if is_given_up { RecoveryAction::Leave } else { action(verdict) },
                    fault,
                    passed: *passed,
                });
            }
        }
        Ok(orders)
    }

    fn add_sales(
        &self,
        plan: &mut Plan,
        report: &Report,
        keys: &[SaleKeys],
        stocks: &HashMap<VoucherId, (i64, i64)>,
        lost: &HashMap<VoucherId, Vec<String>>,
    ) {
        let lasting = &self.watcher.lasting;
        let users = |of: &[(VoucherId, String)], sale: VoucherId| {
            let of_sale = of.iter().filter(|it| it.0 == sale);
            let mut users: Vec<String> = of_sale.map(|it| it.1.clone()).collect();
            users.sort_unstable();
            users
        };
        for (sale, keys) in report.sales.iter().zip(keys).filter(|(sale, _)| !sale.moved) {
            let voucher = sale.voucher_id;
            let Some((stock, left)) = stocks.get(&voucher).copied() else { continue };
            let of_sale = |it: &&EntryPlan| it.voucher_id == Some(voucher);
            let replayed = plan.entries.iter().filter(of_sale);
            let replayed = replayed.filter(|it| it.action == RecoveryAction::Process);
            let with_entry: HashSet<String> =
                replayed.clone().filter_map(|it| Some(it.user_id?.to_string())).collect();
            let replayed = replayed.count();
            // A sale that is over sells nothing, and one that has not begun is loaded by the service.
            let is_sold = match sale.phase {
                Some(Phase::Ended) => false,
                // Without its buyers, a stock that is set again would be sold to them a second time.
                Some(Phase::Running) => keys.has_stock || sale.buyers_without_order.is_some(),
                _ => keys.has_stock,
            };
            let sets = plan.stock_compared && is_sold && keys.foreign.is_empty();
            let mut without_order = users(&lasting.without_order, voucher);
            without_order.retain(|user| !with_entry.contains(user));
            let mut add_buyers = Vec::new();
            if keys.foreign.is_empty() {
                add_buyers = users(&lasting.without_buyer, voucher);
                add_buyers.extend(lost.get(&voucher).into_iter().flatten().cloned());
                add_buyers.sort_unstable();
                add_buyers.dedup();
            }
            // An unreadable entry may be the order of one of them.
            let remove_buyers =
                self.remove_buyers && lasting.unreadable == 0 && !without_order.is_empty();
            // What was promised to buyers without an order is not sold again, unless they are removed. Those of dead
            // letters made now become such buyers.
            let given_up = plan.entries.iter().filter(of_sale).filter(|it| {
                let holds_another = matches!(it.fault, Some(OrderError::Holds { .. }));
                it.action == RecoveryAction::DeadLetter && !holds_another
            });
            let given_up: HashSet<String> = given_up
                .filter_map(|it| Some(it.user_id?.to_string()))
                .filter(|user| !with_entry.contains(user) && !without_order.contains(user))
                .collect();
            let promised = if remove_buyers { 0 } else { without_order.len() } + given_up.len();
            let promised = promised as i64;
            let least = left.saturating_sub(promised).max(0);
            let kept = keys.stock.unwrap_or(least).clamp(least, left.max(0));
            let redis_stock = if sets { Some(kept) } else { keys.stock };
            let sale = SalePlan {
                voucher_id: voucher,
                orders: Figure {
                    now: sale.orders,
                    after: sale.orders.map(|it| it + replayed as u64),
                },
                sql_stock: Figure { now: stock, after: stock.saturating_sub(replayed as i64) },
                redis_stock: Figure { now: keys.stock, after: redis_stock },
                add_buyers,
                buyers_without_order: without_order,
                remove_buyers,
            };
            let is_known = sale.rebuilds() || !sale.buyers_without_order.is_empty();
            if is_known || sale.sql_stock.is_change() {
                plan.sales.push(sale);
            }
        }
    }

    /// Applies a plan: at most `most` entries, until `stops` says so. `done` has what was done, also after an error.
    ///
    /// # Errors
    /// Another process applies a plan, a server is unreachable, or the log cannot be written.
    pub async fn apply(
        &mut self,
        plan: &Plan,
        most: u64,
        writable: (&str, &Settings),
        log: &mut Log,
        stops: impl Fn() -> bool,
        done: &mut Applied,
    ) -> Result<()> {
        let database = Database::writable(writable.0, writable.1, &self.profile)?;
        done.left = plan.entries.len() as u64;
        let lease = Lease::acquire(&mut self.conn, self.profile.scope(), log.operator()).await?;
        let mut run = Run { recovery: self, database, lease: &lease, plan, most, log, done };
        let applied = run.all(&stops).await;
        let synced = log.sync();
        let released = lease.release(&mut self.conn).await;
        applied.and(synced).and(released)
    }

    /// Reads the service again, and counts what is left.
    ///
    /// # Errors
    /// A server is unreachable.
    pub async fn prove(&mut self) -> Result<Proof> {
        let report = self.watcher.settled().await?;
        let sum = |of: fn(&SaleReport) -> Option<u64>| of_redis(&report).map(of).sum();
        let stream = report.stream.as_ref();
        let mut proof = Proof {
            // One pass may not have read all entries.
            stuck: (stream.is_none() || report.sales.iter().all(|it| it.in_flight.is_some()))
                .then_some(0),
            pending: stream.map_or(0, |it| it.pending),
            undelivered: stream.and_then(|it| it.lag),
            buyers_without_order: sum(|it| it.buyers_without_order),
            orders_without_buyer: sum(|it| it.orders_without_buyer),
            duplicate_buyers: report.sales.iter().map(|it| it.duplicate_buyers).sum(),
            oversold: 0,
            stock_mismatches: of_redis(&report)
                .all(|it| !it.loaded || it.redis_stock.is_some())
                .then_some(0),
        };
        if stream.is_some_and(|it| it.has_group) {
            let (mut entries, mut conn) = (Vec::new(), self.database.connection().await?);
            let are_all = self.add_passed(&mut entries, report.taken).await?;
            let (moved, mut plan) = (HashSet::new(), Plan::default());
            let orders = self.judge(&mut conn, &mut entries, &moved, &mut plan).await?;
            // The group has passed them, so that no alarm counts them; their buyers have an entry.
            let passed = orders.values().map(Vec::len).sum::<usize>() as u64;
            let counted = |count: Option<u64>| count.filter(|_| are_all);
            proof.stuck = counted(proof.stuck).map(|it| it + passed);
            proof.buyers_without_order =
                counted(proof.buyers_without_order).map(|it| it.saturating_sub(passed));
        }
        for alarm in &report.alarms {
            match alarm {
                Alarm::StuckPending { count, .. } => {
                    proof.stuck = proof.stuck.map(|it| it + count);
                }
                Alarm::LagHigh { lag, .. } => {
                    proof.stuck = proof.stuck.zip(*lag).map(|(it, lag)| it + lag);
                }
                Alarm::Oversold { .. } => proof.oversold += 1,
                Alarm::StockMismatch { .. } => {
                    proof.stock_mismatches = proof.stock_mismatches.map(|it| it + 1);
                }
                _ => {}
            }
        }
        Ok(proof)
    }
}

/// The sales that Redis has keys of, or should have. What one that has moved left behind is its history.
fn of_redis(report: &Report) -> impl Iterator<Item = &SaleReport> {
    let has_keys = |it: &&SaleReport| {
        let is_lost = it.phase == Some(Phase::Running) || it.buyers_without_order.is_some();
        !it.moved && (it.loaded || it.buyers != Some(0) || is_lost)
    };
    report.sales.iter().filter(has_keys)
}

/// The action for a verdict. Without a hash of buyers that has the order IDs, nothing can be rebuilt from it.
fn action(verdict: Verdict) -> RecoveryAction {
    match verdict.action() {
        RecoveryAction::Rebuild => RecoveryAction::DeadLetter,
        other => other,
    }
}

/// A plan being applied.
struct Run<'r> {
    recovery: &'r mut Recovery,
    database: Database,
    lease: &'r Lease,
    plan: &'r Plan,
    most: u64,
    log: &'r mut Log,
    done: &'r mut Applied,
}

impl Run<'_> {
    async fn all(&mut self, stops: &impl Fn() -> bool) -> Result<()> {
        self.create_group().await?;
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let entries = self.plan.entries.get(..most).unwrap_or(&self.plan.entries);
        let mut conn = self.database.connection().await?;
        for page in entries.chunks(PAGE) {
            for entry in page {
                self.log.add(self.plan.taken, &line(entry, "planned"))?;
            }
            self.log.sync()?;
            self.claim_passed(page).await?;
            let others = self.deliver(page).await?;
            for entry in &others {
                self.log.add(self.plan.taken, &line(entry, "planned"))?;
            }
            if !others.is_empty() {
                self.log.sync()?;
            }
            for (place, entry) in page.iter().chain(&others).enumerate() {
                if stops() {
                    self.done.cut_short = true;
                    return Ok(());
                }
                self.lease.renew(&mut self.recovery.conn).await?;
                self.entry(&mut conn, entry).await?;
                self.done.left -= u64::from(place < page.len());
            }
        }
        let lacking = self.without_order().await?;
        for sale in &self.plan.sales {
            if stops() {
                self.done.cut_short = true;
                return Ok(());
            }
            self.lease.renew(&mut self.recovery.conn).await?;
            self.rebuild(sale, &lacking).await?;
        }
        Ok(())
    }

    /// Buyers who have neither an order nor an entry now, if the plan removes any: one whom another process has removed
    /// since the plan may have bought again.
    async fn without_order(&mut self) -> Result<HashSet<(VoucherId, String)>> {
        if !self.plan.sales.iter().any(|it| it.remove_buyers) {
            return Ok(HashSet::new());
        }
        self.recovery.watcher.settled().await?;
        let lasting = &self.recovery.watcher.lasting;
        let is_known = lasting.unreadable == 0;
        Ok(lasting.without_order.iter().filter(|_| is_known).cloned().collect())
    }

    async fn create_group(&mut self) -> Result<()> {
        let Some(NewGroup { start, .. }) = &self.plan.create_group else { return Ok(()) };
        let mut line = Line { action: "create_group", result: "planned", ..Line::default() };
        line.to = Some(start.clone());
        self.log.add(self.plan.taken, &line)?;
        self.log.sync()?;
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(&self.plan.stream).arg(&self.plan.group).arg(start);
        let created = self.recovery.conn.query::<Value>(&create).await;
        line.result = match created {
            Ok(_) => "done",
            // The service has created it meanwhile.
            Err(error) if error.code() == Some("BUSYGROUP") => "changed",
            Err(error) => return Err(error.into()),
        };
        self.done.created_group = line.result == "done";
        self.log.add(self.plan.taken, &line)
    }

    /// Makes the entries pending that the group has passed. One that a consumer has received since is left to it.
    async fn claim_passed(&mut self, page: &[EntryPlan]) -> Result<()> {
        let passed: Vec<&str> =
            page.iter().filter(|it| it.passed).map(|it| it.entry.as_str()).collect();
        if passed.is_empty() {
            return Ok(());
        }
        let mut claim = cmd("XCLAIM");
        claim.arg(&self.plan.stream).arg(&self.plan.group).arg(CONSUMER);
        claim.arg(self.recovery.limits.stuck_ms).arg(passed).arg("FORCE").arg("JUSTID");
        self.recovery.conn.query::<Value>(&claim).await.map(drop).map_err(Into::into)
    }

    /// Receives as many entries as the page has of those that no consumer has received. They are the oldest ones, as in
    /// the plan; returns those that are not, because a consumer has come back and received others.
    async fn deliver(&mut self, page: &[EntryPlan]) -> Result<Vec<EntryPlan>> {
        let planned: HashSet<&str> =
            page.iter().filter(|it| it.is_undelivered()).map(|it| it.entry.as_str()).collect();
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(&self.plan.group).arg(CONSUMER).arg("COUNT").arg(planned.len());
        read.arg("STREAMS").arg(&self.plan.stream).arg(">");
        let found: Option<Vec<(Text, Vec<stream::RawEntry>)>> =
            self.recovery.conn.query(&read).await?;
        let entries = found.into_iter().flatten().flat_map(|(_, entries)| entries);
        let others = entries.filter(|(id, _)| !planned.contains(id.as_str()));
        let other = |(entry, fields): stream::RawEntry| {
            let order = order_of(&self.recovery.profile, Some(&fields)).ok();
            EntryPlan {
                entry,
                consumer: None,
                idle_ms: 0,
                deliveries: 1,
                order_id: order.map(|it| it.id),
                user_id: order.map(|it| it.user),
                voucher_id: order.map(|it| it.voucher),
                verdict: Verdict::Stuck,
                action: RecoveryAction::Process,
                fault: None,
                passed: false,
            }
        };
        Ok(others.map(other).collect())
    }

    /// Processes an entry while its user is locked, as a consumer of the service does: it may be writing another entry of
    /// this user, and checks for orders before it takes the row of the sale.
    async fn entry(&mut self, conn: &mut PlainConnection, planned: &EntryPlan) -> Result<()> {
        let Some(key) = planned.user_id.and_then(|user| self.recovery.profile.lock(user)) else {
            return self.process(conn, planned).await;
        };
        if !self.lease.lock_user(&mut self.recovery.conn, &key).await? {
            self.done.locked += 1;
            return self.log.add(self.plan.taken, &line(planned, "locked"));
        }
        let done = self.process(conn, planned).await;
        // The lock stays until its lease ends if the database may still commit.
        if matches!(done, Err(AttachError::Store(StoreError::Unknown(_)))) {
            return done;
        }
        let unlocked = self.lease.unlock_user(&mut self.recovery.conn, &key).await;
        done.and(unlocked)
    }

    /// Takes an entry and judges it again, now that no consumer has it.
    async fn process(&mut self, conn: &mut PlainConnection, planned: &EntryPlan) -> Result<()> {
        let profile = self.recovery.profile.clone();
        let taken = self.take(planned, "").await?;
        let (verdict, fault) = match taken {
            Taken::Gone | Taken::Held => {
                self.done.changed += 1;
                let result = if taken == Taken::Gone { "gone" } else { "held" };
                return self.log.add(self.plan.taken, &line(planned, result));
            }
            Taken::BodyGone => (Verdict::BodyGone, Some(OrderError::Gone)),
            Taken::Done(fields) => match order_of(&profile, Some(&fields)) {
                Ok(order) => place(&self.database, conn, &profile, order).await?,
                Err(fault) => (Verdict::Malformed, Some(fault)),
            },
        };
        let mut result = "done";
        match (verdict, &fault) {
            (Verdict::Stuck | Verdict::Written, _) => {
                let mut acknowledge = cmd("XACK");
                acknowledge.arg(&self.plan.stream).arg(&self.plan.group).arg(&planned.entry);
                self.recovery.conn.query::<u64>(&acknowledge).await?;
                match verdict {
                    Verdict::Stuck => self.done.replayed += 1,
                    _ => self.done.acknowledged += 1,
                }
            }
            (_, fault) => {
                // Stored text has no language.
                let why =
                    in_english(|| fault.as_ref().map_or_else(String::new, ToString::to_string));
                match self.take(planned, &why).await? {
                    Taken::Gone | Taken::Held => {
                        self.done.changed += 1;
                        result = "gone";
                    }
                    Taken::Done(_) | Taken::BodyGone => self.done.dead_letters += 1,
                }
            }
        }
        let mut done = line(planned, result);
        (done.verdict, done.action) = (Some(verdict), name(action(verdict)));
        done.fault = fault.map(|it| in_english(|| it.to_string()));
        self.log.add(self.plan.taken, &done)
    }

    /// Claims an entry, or with a reason moves it to the dead letters.
    async fn take(&mut self, planned: &EntryPlan, why: &str) -> Result<Taken> {
        let mut take = scripts::ATTACH_TAKE.prepare_invoke();
        take.key(&self.plan.stream).key(attach_dead(&self.plan.stream));
        take.arg(&self.plan.group).arg(CONSUMER).arg(&planned.entry);
        // No consumer can process an entry that yields no order.
        let idle = planned.order_id.map_or(0, |_| self.recovery.limits.stuck_ms);
        take.arg(idle).arg(why);
        take.arg(planned.consumer.as_deref().unwrap_or_default());
        Ok(self.recovery.conn.invoke(&take).await?)
    }

    /// Corrects buyers and stock of a sale.
    async fn rebuild(
        &mut self,
        sale: &SalePlan,
        lacking: &HashSet<(VoucherId, String)>,
    ) -> Result<()> {
        let buyers = self.recovery.profile.buyers(sale.voucher_id);
        self.done.added_buyers +=
            self.change("SADD", "add_buyer", &buyers, sale, &sale.add_buyers).await?;
        if sale.remove_buyers {
            let mut users = sale.buyers_without_order.clone();
            users.retain(|user| lacking.contains(&(sale.voucher_id, user.clone())));
            self.done.removed_buyers +=
                self.change("SREM", "remove_buyer", &buyers, sale, &users).await?;
        }
        let Change { now, after: Some(after) } = sale.redis_stock else { return Ok(()) };
        if !sale.redis_stock.is_change() {
            return Ok(());
        }
        let now = now.map_or_else(String::new, |it| it.to_string());
        let mut line = Line { action: "set_stock", result: "planned", ..Line::default() };
        line.voucher = Some(sale.voucher_id);
        (line.from, line.to) = (Some(now.clone()), Some(after.to_string()));
        self.log.add(self.plan.taken, &line)?;
        self.log.sync()?;
        let mut set = scripts::ATTACH_STOCK.prepare_invoke();
        set.key(self.recovery.profile.stock(sale.voucher_id)).key(&self.plan.stream);
        set.key(mark_of(&self.recovery.profile, sale.voucher_id));
        set.arg(now).arg(&self.plan.last_id).arg(after);
        if self.recovery.conn.invoke::<u8>(&set).await? == 1 {
            self.done.stocks += 1;
            line.result = "done";
        } else {
            self.done.stale.push(sale.voucher_id);
            line.result = "stale";
        }
        self.log.add(self.plan.taken, &line)
    }

    /// Adds or removes users of a set; returns how many were.
    async fn change(
        &mut self,
        command: &str,
        action: &str,
        key: &str,
        sale: &SalePlan,
        users: &[String],
    ) -> Result<u64> {
        let mut changed = 0;
        for page in users.chunks(PAGE) {
            self.lease.renew(&mut self.recovery.conn).await?;
            for result in ["planned", "done"] {
                if result == "done" {
                    let mut change = cmd(command);
                    changed += self.recovery.conn.query::<u64>(change.arg(key).arg(page)).await?;
                }
                for user in page {
                    let mut line = Line { action, result, ..Line::default() };
                    (line.voucher, line.user) = (Some(sale.voucher_id), Some(user.as_str()));
                    self.log.add(self.plan.taken, &line)?;
                }
                self.log.sync()?;
            }
        }
        Ok(changed)
    }
}

fn line<'p>(entry: &'p EntryPlan, result: &'p str) -> Line<'p> {
    Line {
        action: name(entry.action),
        entry: Some(&entry.entry),
        voucher: entry.voucher_id,
        verdict: Some(entry.verdict),
        fault: entry.fault.as_ref().map(|it| in_english(|| it.to_string())),
        result,
        ..Line::default()
    }
}
