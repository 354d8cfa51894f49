//! Recovery of a service: a plan as data, its application, and a proof that counts what is left.
//!
//! Applying is bounded, can be interrupted between two entries, and can be repeated: the order ID is the primary key of an
//! order, and an entry is copied to the dead letters and acknowledged in one step. Two processes never apply at once.

mod lease;
mod letters;
#[cfg(test)]
mod model;
mod newest;
mod plan;
mod record;
mod refusal;
mod rows;
mod stock;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    time::Duration,
};

use redis::{Value, cmd};
use seckill_model::{
    Millis, OrderError, Phase, RecoveryAction, UserId, Verdict, VoucherId, in_english, reason,
};
use seckill_redis::{Connection, Redis, keys::attach_dead, scripts};
use seckill_store::{Settings, StoreError, plain::PlainConnection};

use self::{
    lease::{Lease, USER_LEASE, UserLock, Watchdog},
    plan::{Buyer, Change as Figure},
    record::{Line, name},
    refusal::Outcome,
    rows::{Asked, Facts, Planned, TakeReply, Taken, is_promise, live_users, order_of},
    stock::{Compared, Figures, Lasting, Moment, moments},
};
pub use self::{
    letters::Letter,
    plan::{Applied, Change, EntryPlan, NewGroup, Plan, Proof, SalePlan},
    record::Log,
};
pub(crate) use self::{
    letters::page as letters_page,
    newest::Newest,
    rows::{Order, check_tables},
};
use crate::{
    Alarm, AttachError, Limits, Poison, Profile, Report, Result, SaleReport, Watcher,
    buyers::{self, SaleKeys, Standing},
    database::Database,
    marks::mark_of,
    stream::{self, CONSUMER, ENTRIES, Pending, Position, entry_order},
    watcher::SETTLE,
};

/// Entries and users of one step.
const PAGE: usize = 250;
/// How often the stock is compared while users buy.
const TRIES: usize = 3;
/// How often a wait for figures that last renews the lock of the recovery.
const STEP: Duration = Duration::from_millis(200);

/// Plans and applies a recovery.
#[derive(Debug)]
pub struct Recovery {
    profile: Profile,
    limits: Limits,
    redis: Redis,
    conn: Connection,
    watcher: Watcher,
    database: Database,
    options: Options,
}

/// What the operator states or accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Buyers with neither an order nor an entry are removed.
    pub remove_buyers: bool,
    /// No sale without a stock has moved to an engine. Redis may have lost the mark that says so.
    pub not_moved: bool,
}

/// An entry in flight, or one that the group has passed; and whether it is stuck.
#[derive(Debug)]
struct Entry {
    pending: Pending,
    asked: Asked,
    is_stuck: bool,
    passed: bool,
}

impl Entry {
    fn is_undelivered(&self) -> bool {
        self.pending.consumer.is_empty() && !self.passed
    }

    /// What a plan says about it, before a verdict.
    fn about(&self, profile: &Profile) -> EntryPlan {
        let Pending { id, consumer, idle_ms, deliveries, fields } = &self.pending;
        let fields = fields.as_deref();
        let buyer = fields.and_then(|fields| stream::waiting(profile, id, fields, true));
        EntryPlan {
            entry: id.clone(),
            consumer: Some(consumer.clone()).filter(|it| !it.is_empty()),
            idle_ms: *idle_ms,
            deliveries: *deliveries,
            order_id: self.asked.as_ref().ok().map(|it| it.id),
            user_id: buyer.as_ref().and_then(|it| it.user.parse().ok()).map(UserId),
            voucher_id: buyer.map(|it| it.voucher),
            verdict: Verdict::InHand,
            action: RecoveryAction::Leave,
            fault: None,
            passed: self.passed,
            letter: None,
            behind: Vec::new(),
            buyer: Buyer::Unknown,
        }
    }
}

/// What the entries in flight leave after a plan.
#[derive(Debug, Default)]
struct Judged {
    /// The orders that entries in flight will become, also those that are left alone.
    orders: HashMap<VoucherId, Vec<Order>>,
    /// Entries left alone, by sale; `None` for those whose sale is unreadable.
    left: HashMap<Option<VoucherId>, u64>,
    /// Users of those that have no order yet.
    unwritten: HashMap<VoucherId, HashSet<UserId>>,
}

impl Judged {
    /// Counts an entry that is left alone.
    fn leave(&mut self, entry: &EntryPlan, verdict: Verdict) {
        *self.left.entry(entry.voucher_id).or_default() += 1;
        if let (Some(_), Some(user), Some(voucher)) =
            (entry.order_id, entry.user_id, entry.voucher_id)
            && verdict != Verdict::Written
        {
            self.unwritten.entry(voucher).or_default().insert(user);
        }
    }
}

/// The dead letters of earlier recoveries: their entries, and their orders.
#[derive(Debug, Default)]
struct Letters {
    entries: HashMap<String, String>,
    orders: HashMap<Order, String>,
}

impl Letters {
    /// The letter of this entry, or of an entry with the same order.
    fn of(&self, entry: &str, asked: &Asked) -> Option<&String> {
        let by_order = || asked.as_ref().ok().and_then(|order| self.orders.get(order));
        self.entries.get(entry).or_else(by_order)
    }
}

impl Recovery {
    /// Plans for the service of this profile. Without a stream, the plan takes for granted that no order waits in the memory of the service.
    ///
    /// # Errors
    /// The URL is invalid, or Redis is a cluster.
    pub fn new(
        profile: Profile,
        limits: Limits,
        redis: &Redis,
        database: &str,
        settings: &Settings,
        options: Options,
    ) -> Result<Self> {
        // Then nothing can be on its way for longer.
        let stuck_ms = if profile.has_stream() { limits.stuck_ms } else { 0 };
        let watched = Limits { stuck_ms, ..limits };
        Ok(Self {
            watcher: Watcher::new(profile.clone(), watched, redis, database, settings)?,
            conn: redis.connection(),
            redis: redis.clone(),
            database: Database::open(database, settings, &profile)?,
            profile,
            limits,
            options,
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
        let first = self.watcher.pass().await?;
        let vouchers: Vec<VoucherId> = first.sales.iter().map(|it| it.voucher_id).collect();
        let is_replica = self.database.is_replica().await?;
        let mut conn = self.database.connection().await?;
        let create_group = if has_group { None } else { Some(self.new_group(&mut conn).await?) };
        tokio::time::sleep(SETTLE).await;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut position = Position::default();
            if has_stream {
                position = stream::position(&mut self.conn, &self.profile).await?;
            }
            let before = moments(&mut self.conn, &self.profile, &vouchers).await?;
            let report = self.watcher.pass().await?;
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
                is_replica,
                wait_ms: self.wait_ms(),
                position,
                ..Plan::default()
            };
            // The service must not process what is left of them, nor get a stock.
            let moved = report.sales.iter().filter(|it| it.moved).map(|it| it.voucher_id);
            let moved: HashSet<VoucherId> = moved.collect();
            for entry in &mut entries {
                entry.is_stuck &=
                    !entry.asked.as_ref().is_ok_and(|order| moved.contains(&order.voucher));
            }
            let judged = self.judge(&mut conn, &mut entries, &moved, &mut plan).await?;
            let mut lost = HashMap::new();
            for (voucher, keys) in vouchers.iter().zip(&keys) {
                let of_sale = judged.orders.get(voucher).map_or(&[][..], Vec::as_slice);
                if !of_sale.is_empty() && keys.foreign.is_empty() {
                    // The service adds buyer and entry in one step, so these were lost with the sale.
                    let users = of_sale.iter().map(|it| it.user.to_string()).collect();
                    let key = self.profile.buyers(*voucher);
                    lost.insert(*voucher, buyers::absent(&mut self.conn, &key, users).await?);
                }
            }
            let after = moments(&mut self.conn, &self.profile, &vouchers).await?;
            // If nothing was added and no stock has changed, what was read in between belongs together.
            let is_quiet = before == after;
            if !is_quiet && tries < TRIES {
                continue;
            }
            plan.stock_compared = is_quiet && complete;
            let by_sale: HashMap<VoucherId, SaleKeys> = vouchers.into_iter().zip(keys).collect();
            self.add_sales(&mut plan, &report, &by_sale, &judged, &lost);
            plan.maybe_moved.sort_unstable();
            plan.maybe_moved.dedup();
            return Ok(plan);
        }
    }

    /// How long a difference must last before a stock is raised: what is not stuck may be on its way. Without a stream, the
    /// service is stopped.
    fn wait_ms(&self) -> u64 {
        if self.profile.has_stream() { self.limits.stuck_ms } else { 0 }
    }

    /// The dead letters of earlier recoveries, all pages of them.
    async fn known_letters(&mut self) -> Result<Letters> {
        let (mut known, mut from) = (Letters::default(), "-".to_owned());
        while self.profile.has_stream() {
            let page = letters_page(&mut self.conn, &self.profile.stream.key, &from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = format!("({}", last.letter);
            for letter in page {
                if let Some(order) = letter.order(&self.profile) {
                    known.orders.insert(order, letter.letter.clone());
                }
                known.entries.insert(letter.entry, letter.letter);
            }
        }
        Ok(known)
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
        check_tables(&self.database, profile, &filled).await?;
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
    /// the order, or the group began after them. No consumer receives them again. Such a buyer has no entry in flight, or an
    /// older one. Returns whether all were read.
    async fn add_passed(&mut self, entries: &mut Vec<Entry>, now: Millis) -> Result<bool> {
        let crate::watcher::Lasting { without_order, only_closed, .. } = &self.watcher.lasting;
        let lacking = without_order.iter().chain(only_closed);
        let mut lacking: HashSet<(VoucherId, String)> = lacking.cloned().collect();
        let known: HashSet<String> = entries.iter().map(|it| it.pending.id.clone()).collect();
        let newest = newest_of(&mut self.conn, &self.profile, entries).await?;
        lacking.extend(newest.users_beyond(&known));
        let (mut after, mut read) = ("0-0".to_owned(), 0);
        let mut passed = Vec::new();
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
                let is_lacking = |it: &Order| lacking.contains(&(it.voucher, it.user.to_string()));
                if known.contains(&id) || !asked.as_ref().is_ok_and(is_lacking) {
                    continue;
                }
                let idle_ms = now.since(Millis(entry_order(&id).0 as i64));
                let is_stuck = idle_ms >= self.limits.stuck_ms;
                let (consumer, fields) = (String::new(), Some(fields));
                let pending = Pending { id, consumer, idle_ms, deliveries: 0, fields };
                passed.push(Entry { pending, asked, is_stuck, passed: true });
            }
        }
        entries.extend(passed);
        Ok(true)
    }

    /// Adds the verdicts on stuck entries to the plan; returns what the entries in flight leave.
    async fn judge(
        &mut self,
        conn: &mut PlainConnection,
        entries: &mut [Entry],
        moved: &HashSet<VoucherId>,
        plan: &mut Plan,
    ) -> Result<Judged> {
        let letters = self.known_letters().await?;
        let users = entries.iter().filter_map(|it| it.asked.as_ref().ok());
        let users = users.map(|order| (order.voucher, order.user));
        let standing = Standing::read(&mut self.conn, &self.profile, users).await?;
        plan.newest = newest_of(&mut self.conn, &self.profile, entries).await?;
        let (mut planned, mut judged) = (Planned::default(), Judged::default());
        // Undelivered entries that are left alone (`EntryPlan::behind`), before the next one that is planned.
        let mut behind = Vec::new();
        for page in entries.chunks_mut(PAGE) {
            let asked: Vec<Order> =
                page.iter().filter_map(|it| it.asked.as_ref().ok()).copied().collect();
            let mut facts = Facts::read(&self.database, conn, &self.profile, &asked).await?;
            facts.after(&planned);
            for entry in &*page {
                let Entry { pending, asked, is_stuck, passed } = entry;
                let mut about = entry.about(&self.profile);
                let (mut verdict, mut fault) = facts.judge(asked);
                let order = asked.as_ref().ok().filter(|_| verdict != Verdict::Written);
                if let Some(why) = order.and_then(|it| plan.newest.replaced(&pending.id, it)) {
                    // The set stands for the newest entry of a user.
                    if *passed {
                        continue;
                    }
                    if is_promise(verdict, fault.as_ref()) {
                        (verdict, fault) = (Verdict::Refused, Some(why));
                    }
                }
                let buyer = self.buyer_of(&standing, asked);
                // Its piece may be on sale again, here or in an engine; one that cannot be written anyway is given up only
                // if it was not given back, because a dead letter can be replayed.
                let is_promised = match buyer {
                    Buyer::Unknown => !is_promise(verdict, fault.as_ref()),
                    Buyer::MaybeMoved => verdict != Verdict::Stuck,
                    Buyer::Member | Buyer::LostSale => true,
                };
                let has_moved = asked.as_ref().is_ok_and(|it| moved.contains(&it.voucher));
                if let (false, false, Buyer::MaybeMoved, Ok(order)) =
                    (is_promised, has_moved, buyer, asked)
                {
                    plan.maybe_moved.push(order.voucher);
                }
                if !is_promised {
                    if *passed {
                        continue;
                    }
                    (verdict, fault) = (Verdict::NotPromised, Some(OrderError::NotPromised));
                }
                let letter = letters.of(&pending.id, asked).filter(|_| *passed).cloned();
                // One that yields no order was given up before, and each recovery would give it up again; and one with a
                // letter waits for its replay.
                let yields_none = verdict != Verdict::Stuck;
                let is_given_up = *passed && (yields_none || letter.is_some());
                let is_settled = matches!(fault, None | Some(OrderError::Holds { .. }));
                if is_given_up && yields_none && is_settled {
                    continue;
                }
                if let (false, false, Ok(order)) = (yields_none, is_given_up, &asked) {
                    facts.plan(order, &mut planned);
                    judged.orders.entry(order.voucher).or_default().push(*order);
                }
                let is_processed = *is_stuck && is_promised;
                if !is_processed && !is_given_up {
                    judged.leave(&about, verdict);
                }
                if !*is_stuck && !is_given_up {
                    *(if has_moved { &mut plan.moved } else { &mut plan.left }) += 1;
                    if has_moved && entry.is_undelivered() {
                        behind.push(about.entry);
                    }
                    continue;
                }
                let action = match verdict {
                    _ if is_given_up || !is_promised => RecoveryAction::Leave,
                    verdict => action(verdict),
                };
                about = EntryPlan { verdict, action, fault, letter, buyer, ..about };
                if !is_promised {
                    behind.extend(entry.is_undelivered().then(|| about.entry.clone()));
                    // What is said about its sale says it.
                    if buyer != Buyer::MaybeMoved {
                        plan.not_promised.push(about);
                    }
                } else if is_given_up {
                    plan.unwritable.push(about);
                } else {
                    if entry.is_undelivered() {
                        about.behind = mem::take(&mut behind);
                    }
                    plan.entries.push(about);
                }
            }
        }
        Ok(judged)
    }

    /// What Redis has of the user of an entry.
    fn buyer_of(&self, standing: &Standing, asked: &Asked) -> Buyer {
        let Ok(Order { user, voucher, .. }) = *asked else { return Buyer::Unknown };
        match (standing.of(voucher, user), standing.has_stock(voucher)) {
            (Some(true), true) => Buyer::Member,
            (Some(_), false) if self.options.not_moved => Buyer::LostSale,
            (Some(_), false) => Buyer::MaybeMoved,
            _ => Buyer::Unknown,
        }
    }

    fn add_sales(
        &self,
        plan: &mut Plan,
        report: &Report,
        keys: &HashMap<VoucherId, SaleKeys>,
        judged: &Judged,
        lost: &HashMap<VoucherId, Vec<String>>,
    ) {
        let lasting = &self.watcher.lasting;
        let users = |of: &[(VoucherId, String)], sale: VoucherId| {
            let of_sale = of.iter().filter(|it| it.0 == sale);
            let mut users: Vec<String> = of_sale.map(|it| it.1.clone()).collect();
            users.sort_unstable();
            users
        };
        for sale in report.sales.iter().filter(|it| !it.moved) {
            let voucher = sale.voucher_id;
            let Some(keys) = keys.get(&voucher) else { continue };
            let of_sale = |it: &&EntryPlan| it.voucher_id == Some(voucher);
            let replayed = plan.entries.iter().filter(of_sale);
            let replayed = replayed.filter(|it| it.action == RecoveryAction::Process);
            let with_entry: HashSet<String> =
                replayed.clone().filter_map(|it| Some(it.user_id?.to_string())).collect();
            let replayed = replayed.count();
            // A sale that is over sells nothing, and one that has not begun is loaded by the service.
            let is_sold = match sale.phase {
                Some(Phase::Ended) => false,
                Some(Phase::Running) => true,
                _ => keys.has_stock,
            };
            // Whether their pieces have gone back to it is unknown.
            let is_unknown = plan.not_promised.iter().any(|it| it.voucher_id == Some(voucher));
            let sets = plan.stock_compared && is_sold && keys.foreign.is_empty() && !is_unknown;
            let mut without_order = users(&lasting.without_order, voucher);
            without_order.retain(|user| !with_entry.contains(user));
            let mut only_closed = users(&lasting.only_closed, voucher);
            only_closed.retain(|user| !with_entry.contains(user));
            let mut add_buyers = Vec::new();
            if keys.foreign.is_empty() {
                add_buyers = users(&lasting.without_buyer, voucher);
                add_buyers.extend(lost.get(&voucher).into_iter().flatten().cloned());
                add_buyers.sort_unstable();
                add_buyers.dedup();
            }
            // What was promised to buyers without an order is not sold again, unless they are removed. Those of dead
            // letters made now become such buyers.
            let dead_letters = plan.entries.iter().filter(of_sale).filter(|it| {
                let has_another = matches!(
                    it.fault,
                    Some(OrderError::Holds { .. } | OrderError::BoughtAgain { .. })
                );
                it.action == RecoveryAction::DeadLetter && !has_another
            });
            let unwritable = plan.unwritable.iter().filter(of_sale);
            let given_up: HashSet<String> = dead_letters
                .chain(unwritable)
                .filter_map(|it| Some(it.user_id?.to_string()))
                .filter(|user| !with_entry.contains(user) && !without_order.contains(user))
                .filter(|user| !only_closed.contains(user))
                .collect();
            let left = |of: Option<VoucherId>| judged.left.get(&of).copied().unwrap_or(0);
            let in_flight = left(Some(voucher)) + left(None);
            let unwritten = judged.unwritten.get(&voucher).map_or(0, HashSet::len) as u64;
            let is_compared = sale.buyers_without_order.is_some() && !plan.more_entries;
            // It would be on sale on both sides, and its buyers may be those of an engine.
            let is_withheld = !keys.has_stock && !self.options.not_moved;
            // An unreadable entry may be the order of one of them, and what is in flight may yet be written.
            let remove_buyers = self.options.remove_buyers
                && !is_withheld
                && lasting.unreadable == 0
                && !without_order.is_empty()
                && in_flight == 0
                && is_compared;
            let promised = if remove_buyers { 0 } else { without_order.len() } + given_up.len();
            let sql_stock = sale.sql_stock.saturating_sub(replayed as i64);
            // As they will be after the plan.
            let figures = Figures {
                redis_stock: keys.stock,
                sql_stock,
                in_flight: is_compared.then_some(in_flight),
                unwritten: (!plan.more_entries).then_some(unwritten),
                without_order: is_compared.then_some(promised as u64),
                only_closed: is_compared.then_some(only_closed.len() as u64),
            };
            let target = figures.target().filter(|_| sets);
            if is_withheld && (target.is_some() || !add_buyers.is_empty()) {
                plan.maybe_moved.push(voucher);
                add_buyers.clear();
            }
            let after = target.filter(|_| !is_withheld).or(keys.stock);
            let sale = SalePlan {
                voucher_id: voucher,
                orders: Figure {
                    now: sale.orders,
                    after: sale.orders.map(|it| it + replayed as u64),
                },
                sql_stock: Figure { now: sale.sql_stock, after: sql_stock },
                redis_stock: Figure { now: keys.stock, after },
                add_buyers,
                buyers_without_order: without_order,
                buyers_with_closed_order: only_closed,
                remove_buyers,
            };
            let is_known = sale.rebuilds()
                || !sale.buyers_without_order.is_empty()
                || !sale.buyers_with_closed_order.is_empty();
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
        let watchdog = Watchdog::start(self.redis.connection(), &lease);
        let mut run = Run {
            newest: plan.newest.clone(),
            watchdog: &watchdog,
            recovery: self,
            database,
            lease: &lease,
            plan,
            most,
            log,
            done,
            skipped: Vec::new(),
            rejected: BTreeMap::new(),
            waiting: Vec::new(),
        };
        let applied = run.all(&stops).await;
        let synced = log.sync();
        drop(watchdog);
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
            buyers_with_closed_order: sum(|it| it.buyers_with_closed_order),
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
            let judged = self.judge(&mut conn, &mut entries, &moved, &mut plan).await?;
            // The group has passed them, so that no alarm counts them; their buyers have an entry.
            let closed: HashSet<&(VoucherId, String)> =
                self.watcher.lasting.only_closed.iter().collect();
            let passed = judged.orders.values().flatten();
            let of_closed =
                passed.clone().filter(|it| closed.contains(&(it.voucher, it.user.to_string())));
            let (passed, of_closed) = (passed.clone().count() as u64, of_closed.count() as u64);
            let counted = |count: Option<u64>| count.filter(|_| are_all);
            proof.stuck = counted(proof.stuck).map(|it| it + passed);
            proof.buyers_without_order =
                counted(proof.buyers_without_order).map(|it| it.saturating_sub(passed - of_closed));
            proof.buyers_with_closed_order =
                counted(proof.buyers_with_closed_order).map(|it| it.saturating_sub(of_closed));
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

/// The newest entries of the users of these.
async fn newest_of(conn: &mut Connection, profile: &Profile, entries: &[Entry]) -> Result<Newest> {
    let orders = entries.iter().filter_map(|it| Some((&*it.pending.id, *it.asked.as_ref().ok()?)));
    Newest::read(conn, profile, orders).await
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
    watchdog: &'r Watchdog,
    /// The newest entries of the users of the plan, as far as they were read.
    newest: Newest,
    plan: &'r Plan,
    most: u64,
    log: &'r mut Log,
    done: &'r mut Applied,
    /// Undelivered entries that were not taken: the next one is delivered with them, and they are left alone.
    skipped: Vec<String>,
    /// Sales of which the database accepts no orders, and why: their other entries are not taken.
    rejected: BTreeMap<VoucherId, String>,
    /// Entries whose order the database did not process while it accepted others, and why.
    waiting: Vec<(String, String)>,
}

impl<'r> Run<'r> {
    async fn all(&mut self, stops: &impl Fn() -> bool) -> Result<()> {
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let entries = self.plan.entries.get(..most).unwrap_or(&self.plan.entries);
        // Before anything is changed or taken.
        if let Some(why) = self.database.not_primary().await? {
            return Err(AttachError::Refused(why));
        }
        let mut conn = self.database.connection().await?;
        self.try_sales(&mut conn, entries).await?;
        self.create_group().await?;
        for page in entries.chunks(PAGE) {
            for entry in page {
                self.log.add(self.plan.taken, &line(entry, "planned"))?;
            }
            self.log.sync()?;
            for entry in page {
                if stops() {
                    self.done.cut_short = true;
                    return Ok(());
                }
                self.lease.renew(&mut self.recovery.conn).await?;
                self.done.left -= u64::from(self.process(&mut conn, entry).await?);
            }
        }
        for sale in &self.plan.sales {
            self.add_buyers(&mut conn, sale).await?;
        }
        let Some(compared) = self.compare(stops).await? else {
            self.done.cut_short = true;
            return Ok(());
        };
        for sale in compared {
            self.lease.renew(&mut self.recovery.conn).await?;
            self.rebuild(sale).await?;
        }
        if let Some((voucher, why)) = self.rejected.first_key_value() {
            let (voucher, sales) = (*voucher, self.rejected.len());
            return Err(AttachError::Refused(reason!(
                "attach-recover-rejects",
                voucher,
                sales,
                why
            )));
        }
        if let Some((entry, why)) = self.waiting.first() {
            let (entries, entry) = (self.waiting.len(), entry.as_str());
            return Err(AttachError::Refused(reason!("attach-recover-later", entries, entry, why)));
        }
        Ok(())
    }

    /// Compares the sales whose stock or buyers change until their figures have lasted; `None` after a signal.
    async fn compare(&mut self, stops: &impl Fn() -> bool) -> Result<Option<Vec<Compared<'r>>>> {
        let plan = self.plan;
        let changes = |it: &&SalePlan| it.redis_stock.is_change() || it.remove_buyers;
        let mut lasting = Lasting::new(plan.sales.iter().filter(changes));
        let wait_ms = self.recovery.wait_ms();
        while !lasting.sales.is_empty() {
            self.lease.renew(&mut self.recovery.conn).await?;
            let begun = lasting.pass(self.recovery).await?;
            let Some(pause) = lasting.pause(wait_ms, begun) else { break };
            let until = tokio::time::Instant::now() + pause;
            while tokio::time::Instant::now() < until {
                if stops() {
                    return Ok(None);
                }
                self.lease.renew(&mut self.recovery.conn).await?;
                let left = until.saturating_duration_since(tokio::time::Instant::now());
                tokio::time::sleep(left.min(STEP)).await;
            }
        }
        self.give_up_rebought(&mut lasting).await?;
        // What this run has left in flight says why.
        if self.done.left == 0 && self.done.locked == 0 {
            for plan in lasting.changed {
                self.stale(plan)?;
            }
        }
        Ok(Some(lasting.sales))
    }

    /// Gives up the sales of which a buyer who is removed may have bought again since the plan. The moment that the passes
    /// have seen contains the last entry, so the script that removes buyers finds what is added from here on.
    async fn give_up_rebought(&mut self, lasting: &mut Lasting<'r>) -> Result<()> {
        let removed = lasting.sales.iter().flat_map(Compared::removed_users);
        let removed: Vec<(VoucherId, UserId)> = removed.collect();
        let Recovery { conn, profile, .. } = &mut *self.recovery;
        if removed.is_empty() || !profile.has_stream() {
            return Ok(());
        }
        let Position { last, added } = &self.plan.position;
        let (newest, read) = Newest::after(conn, profile, last, removed.into_iter()).await?;
        let since = stream::position(conn, profile).await?.added.saturating_sub(*added);
        lasting.give_up(|sale| {
            // The service may delete an entry at once.
            let are_all = read == since;
            sale.removed_users().any(|(voucher, user)| !are_all || newest.has(voucher, user))
        });
        Ok(())
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

    /// Takes an entry and locks its user, judges it again now that no consumer has it, and writes or gives it up. Returns
    /// whether it was processed: not if the database accepts no order of its sale.
    async fn process(&mut self, conn: &mut PlainConnection, planned: &EntryPlan) -> Result<bool> {
        let sale = planned.order().map(|it| it.voucher);
        if sale.is_some_and(|it| self.rejected.contains_key(&it)) {
            self.skip(planned);
            self.log.add(self.plan.taken, &line(planned, "rejected"))?;
            return Ok(false);
        }
        let taken = self.take(planned, planned.verdict, planned.fault.as_ref(), "").await?;
        let (result, count) = match &taken {
            Taken::Gone => ("gone", &mut self.done.changed),
            Taken::Held => ("held", &mut self.done.changed),
            Taken::Moved => ("moved", &mut self.done.changed),
            Taken::NotPromised => ("not_promised", &mut self.done.not_promised),
            Taken::Locked => ("locked", &mut self.done.locked),
            Taken::Done(_) | Taken::BodyGone => return self.processed(conn, planned, taken).await,
        };
        *count += 1;
        if matches!(taken, Taken::Moved | Taken::NotPromised | Taken::Locked) {
            self.skip(planned);
        }
        self.log.add(self.plan.taken, &line(planned, result))?;
        Ok(true)
    }

    /// Leaves an entry alone: if it was not delivered, it is with the next one.
    fn skip(&mut self, planned: &EntryPlan) {
        if planned.place() == "undelivered" {
            self.skipped.extend(planned.behind.iter().cloned());
            self.skipped.push(planned.entry.clone());
        }
    }

    async fn processed(
        &mut self,
        conn: &mut PlainConnection,
        planned: &EntryPlan,
        taken: Taken,
    ) -> Result<bool> {
        if planned.place() == "undelivered" {
            self.skipped.clear();
        }
        let lock = self.lock_of(planned).map(|key| UserLock::new(key, self.lease));
        self.watchdog.guard(lock.clone());
        let done = self.write(conn, planned, taken).await;
        self.watchdog.guard(None);
        let Some(lock) = lock else { return done };
        // The lock stays until its lease ends if the database may still commit.
        if matches!(done, Err(AttachError::Store(StoreError::Unknown(_)))) {
            lock.renew(&mut self.recovery.conn).await.ok();
            return done;
        }
        let unlocked = lock.release(&mut self.recovery.conn).await;
        let is_processed = done?;
        unlocked?;
        Ok(is_processed)
    }

    /// The lock of the user of an entry: a consumer of the service may be writing another entry of this user, and checks
    /// for orders before it takes the row of the sale.
    fn lock_of(&self, planned: &EntryPlan) -> Option<String> {
        planned.user_id.and_then(|user| self.recovery.profile.lock(user))
    }

    async fn write(
        &mut self,
        conn: &mut PlainConnection,
        planned: &EntryPlan,
        taken: Taken,
    ) -> Result<bool> {
        let asked = match taken {
            Taken::Done(fields) => order_of(&self.recovery.profile, Some(&fields)),
            _ => Err(OrderError::Gone),
        };
        let outcome = match asked {
            Ok(order) => self.settle(conn, planned, order).await?,
            Err(OrderError::Gone) => Outcome::Judged(Verdict::BodyGone, Some(OrderError::Gone)),
            Err(fault) => Outcome::Judged(Verdict::Malformed, Some(fault)),
        };
        let (verdict, fault) = match outcome {
            Outcome::Judged(verdict, fault) => (verdict, fault),
            Outcome::NotPromised => return self.not_promised(planned).await,
            Outcome::Locked => {
                self.done.locked += 1;
                self.log.add(self.plan.taken, &line(planned, "locked"))?;
                return Ok(true);
            }
            Outcome::Moved => {
                self.done.changed += 1;
                self.log.add(self.plan.taken, &line(planned, "moved"))?;
                return Ok(true);
            }
            Outcome::Later(why) => {
                self.waiting.push((planned.entry.clone(), why));
                self.log.add(self.plan.taken, &line(planned, "waits"))?;
                return Ok(false);
            }
            Outcome::SaleRefused(why) => {
                self.rejected.insert(planned.voucher_id.unwrap_or(VoucherId(0)), why);
                self.log.add(self.plan.taken, &line(planned, "rejected"))?;
                return Ok(false);
            }
        };
        let mut result = "done";
        match verdict {
            Verdict::Stuck => {
                self.acknowledge(planned).await?;
                self.done.replayed += 1;
            }
            Verdict::Written => {
                self.acknowledge(planned).await?;
                self.done.acknowledged += 1;
            }
            _ => {
                // Stored text has no language.
                let why =
                    in_english(|| fault.as_ref().map_or_else(String::new, ToString::to_string));
                match self.take(planned, verdict, fault.as_ref(), &why).await? {
                    Taken::Done(_) | Taken::BodyGone => self.done.dead_letters += 1,
                    Taken::NotPromised => return self.not_promised(planned).await,
                    other => {
                        self.done.changed += 1;
                        result = if other == Taken::Moved { "moved" } else { "gone" };
                    }
                }
            }
        }
        let mut done = line(planned, result);
        (done.verdict, done.action) = (Some(verdict), name(action(verdict)));
        done.fault = fault.map(|it| in_english(|| it.to_string()));
        self.log.add(self.plan.taken, &done)?;
        Ok(true)
    }

    /// Leaves an entry that was taken: no consumer receives again what the group has passed.
    async fn not_promised(&mut self, planned: &EntryPlan) -> Result<bool> {
        if planned.passed {
            self.acknowledge(planned).await?;
        }
        self.done.not_promised += 1;
        self.log.add(self.plan.taken, &line(planned, "not_promised"))?;
        Ok(true)
    }

    async fn acknowledge(&mut self, planned: &EntryPlan) -> Result<()> {
        let mut acknowledge = cmd("XACK");
        acknowledge.arg(&self.plan.stream).arg(&self.plan.group).arg(&planned.entry);
        Ok(self.recovery.conn.query::<u64>(&acknowledge).await.map(drop)?)
    }

    /// Claims an entry with this verdict and locks its user, or with a reason moves it to the dead letters.
    async fn take(
        &mut self,
        planned: &EntryPlan,
        verdict: Verdict,
        fault: Option<&OrderError>,
        why: &str,
    ) -> Result<Taken> {
        let asked = planned.asked().filter(|_| is_promise(verdict, fault));
        loop {
            if asked.is_some_and(|it| self.newest.replaced(&planned.entry, &it).is_some()) {
                return Ok(Taken::NotPromised);
            }
            if let Some(taken) = self.take_now(planned, asked.as_ref(), why).await? {
                return Ok(taken);
            }
            let Recovery { conn, profile, .. } = &mut *self.recovery;
            self.newest.read_on(conn, profile).await?;
        }
    }

    /// The script that takes an entry, if the service still promises what is `asked`; `None` if more entries were added
    /// than it reads.
    async fn take_now(
        &mut self,
        planned: &EntryPlan,
        asked: Option<&Order>,
        why: &str,
    ) -> Result<Option<Taken>> {
        let mut take = scripts::ATTACH_TAKE.prepare_invoke();
        take.key(&self.plan.stream).key(attach_dead(&self.plan.stream));
        // No sale is number 0, so an unreadable one has no mark.
        let voucher = planned.voucher_id.unwrap_or(VoucherId(0));
        let profile = &self.recovery.profile;
        take.key(mark_of(profile, voucher))
            .key(profile.stock(voucher))
            .key(profile.buyers(voucher));
        if let Some(lock) = self.lock_of(planned) {
            take.key(lock);
        }
        take.arg(&self.plan.group).arg(CONSUMER).arg(&planned.entry);
        // No consumer can process an entry that yields no order.
        let idle = planned.order_id.map_or(0, |_| self.recovery.limits.stuck_ms);
        take.arg(idle).arg(why);
        take.arg(planned.consumer.as_deref().unwrap_or_default()).arg(planned.place());
        take.arg(self.lease.owner()).arg(USER_LEASE.as_millis() as u64);
        let without_stock = planned.buyer != Buyer::Member;
        take.arg(&promise_of(profile, asked, without_stock, &self.newest));
        take.arg(&planned.behind).arg(&self.skipped);
        let TakeReply(taken) = self.recovery.conn.invoke(&take).await?;
        Ok(taken)
    }

    /// Removes buyers of a sale and sets its stock, unless it has changed since it was compared.
    async fn rebuild(&mut self, sale: Compared<'_>) -> Result<()> {
        let Compared { plan, moment, removed, .. } = &sale;
        let target = sale.target();
        if plan.redis_stock.is_change() && target.is_none() {
            // What the plan has is not what the figures want now.
            return self.stale(plan);
        }
        let mut lines = Vec::new();
        for user in removed {
            let (action, user) = ("remove_buyer", Some(user.as_str()));
            lines.push(Line { action, user, ..Line::default() });
        }
        lines.extend(target.map(|_| set_stock(plan)));
        self.record(plan.voucher_id, &mut lines, "planned")?;
        let mut moment = moment.clone();
        let mut pages: Vec<&[String]> = removed.chunks(PAGE).collect();
        let last = pages.pop().unwrap_or_default();
        let mut left = &mut lines[..];
        for (page, target) in pages.into_iter().map(|it| (it, None)).chain([(last, target)]) {
            let rebuilt = self.rebuild_page(plan.voucher_id, &moment, target, page).await?;
            let Some(next) = rebuilt else {
                self.done.stale.push(plan.voucher_id);
                return self.record(plan.voucher_id, left, "stale");
            };
            moment = next;
            self.done.removed_buyers += page.len() as u64;
            self.done.stocks += u64::from(target.is_some());
            let (done, rest) = left.split_at_mut(page.len() + usize::from(target.is_some()));
            self.record(plan.voucher_id, done, "done")?;
            left = rest;
        }
        Ok(())
    }

    /// The script that changes a sale; `None` if it has changed since that moment.
    async fn rebuild_page(
        &mut self,
        voucher: VoucherId,
        moment: &Moment,
        target: Option<i64>,
        removed: &[String],
    ) -> Result<Option<Moment>> {
        let profile = &self.recovery.profile;
        let mut rebuild = scripts::ATTACH_REBUILD.prepare_invoke();
        rebuild.key(&profile.stream.key).key(profile.stock(voucher)).key(profile.buyers(voucher));
        rebuild.key(mark_of(profile, voucher));
        rebuild.arg(&profile.stream.group).arg(&moment.0);
        rebuild.arg(target.map_or_else(String::new, |it| it.to_string())).arg(removed);
        let after: Option<String> = self.recovery.conn.invoke(&rebuild).await?;
        Ok(after.map(Moment))
    }

    /// Records a sale that has changed since the plan.
    fn stale(&mut self, plan: &SalePlan) -> Result<()> {
        self.done.stale.push(plan.voucher_id);
        self.record(plan.voucher_id, &mut [set_stock(plan)], "stale")
    }

    /// Logs lines about a sale.
    fn record(
        &mut self,
        voucher: VoucherId,
        lines: &mut [Line<'_>],
        result: &'static str,
    ) -> Result<()> {
        for line in lines {
            (line.voucher, line.result) = (Some(voucher), result);
            self.log.add(self.plan.taken, line)?;
        }
        self.log.sync()
    }

    /// Adds the users who still have a live order, and those with an entry while the sale still has no stock.
    async fn add_buyers(&mut self, conn: &mut PlainConnection, sale: &SalePlan) -> Result<()> {
        let voucher = sale.voucher_id;
        for page in sale.add_buyers.chunks(PAGE) {
            self.lease.renew(&mut self.recovery.conn).await?;
            self.record(voucher, &mut add_lines(page), "planned")?;
            let profile = &self.recovery.profile;
            let live = live_users(&self.database, conn, profile, voucher, page).await?;
            let (live, others): (Vec<_>, Vec<_>) =
                page.iter().cloned().partition(|user| live.contains(user));
            for (users, is_lost) in [(live, false), (others, true)] {
                let may = !is_lost || sale.redis_stock.now.is_none();
                let added = match &users[..] {
                    [] => continue,
                    users if may => self.add_page(voucher, users, is_lost).await?,
                    _ => None,
                };
                let result = if added.is_some() { "done" } else { "stale" };
                self.done.added_buyers += added.unwrap_or(0);
                self.done.skipped_buyers += if added.is_none() { users.len() as u64 } else { 0 };
                self.record(voucher, &mut add_lines(&users), result)?;
            }
        }
        Ok(())
    }

    /// The script that adds buyers; `None` if the sale has changed since the plan.
    async fn add_page(
        &mut self,
        voucher: VoucherId,
        users: &[String],
        is_lost: bool,
    ) -> Result<Option<u64>> {
        let profile = &self.recovery.profile;
        let mut add = scripts::ATTACH_ADD_BUYERS.prepare_invoke();
        add.key(profile.buyers(voucher)).key(profile.stock(voucher)).key(mark_of(profile, voucher));
        add.arg(u8::from(is_lost)).arg(users);
        let added: i64 = self.recovery.conn.invoke(&add).await?;
        Ok(u64::try_from(added).ok())
    }
}

/// The arguments of `lua/promise.lua`; with `without_stock`, a missing stock of the sale will do.
fn promise_of(
    profile: &Profile,
    asked: Option<&Order>,
    without_stock: bool,
    newest: &Newest,
) -> [String; 8] {
    let text = |of: fn(&Order) -> String| asked.map_or_else(String::new, of);
    let names = &profile.entry;
    [
        text(|it| it.user.to_string()),
        u8::from(without_stock).to_string(),
        newest.seen().to_owned(),
        names.voucher.clone(),
        text(|it| it.voucher.to_string()),
        names.user.clone(),
        names.order.clone(),
        text(|it| it.id.to_string()),
    ]
}

/// The lines about buyers who are added.
fn add_lines(users: &[String]) -> Vec<Line<'_>> {
    let line = |user| Line { action: "add_buyer", user: Some(user), ..Line::default() };
    users.iter().map(String::as_str).map(line).collect()
}

/// The line about the stock of a sale.
fn set_stock(plan: &SalePlan) -> Line<'static> {
    let text = |it: Option<i64>| Some(it.map_or_else(String::new, |it| it.to_string()));
    let (from, to) = (text(plan.redis_stock.now), text(plan.redis_stock.after));
    Line { action: "set_stock", from, to, ..Line::default() }
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
