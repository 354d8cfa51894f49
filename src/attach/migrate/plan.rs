//! What moves to the engine, and what prevents it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redis::{InfoDict, cmd};
use seckill_model::{
    Millis, OrderId, OrderStatus, Reason, SaleOrder, SaleState, ShardId, UserId, VoucherId,
    ledger::sentences,
    reason,
    sale::{check_stock, check_title},
};
use seckill_redis::{CLIENT_NAME, keys::attach_lock};
use seckill_store::ImportedOrder;
use serde::Serialize;

use super::{Engine, Migration, Service};
use crate::{
    AttachError, Result,
    database::OrderOf,
    stream::{CONSUMER, Waiting, added_at},
};

/// How orders of the engine are paid.
pub(super) const PAY_TYPE: i8 = 1;
/// Interval of the two looks at the entries, if nothing else takes time.
const PAUSE: Duration = Duration::from_secs(1);
/// Looks at the clients of Redis during this interval.
const LOOKS: u32 = 10;

/// A sale of a service, as it moves. The keys are a contract of `attach migrate --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The sale.
    pub voucher_id: VoucherId,
    /// Its title.
    pub title: String,
    /// When it begins.
    pub begin: Option<Millis>,
    /// When it ends.
    pub end: Option<Millis>,
    /// Pieces left in Redis.
    pub redis_stock: Option<i64>,
    /// Pieces left in SQL.
    pub sql_stock: i64,
    /// Pieces before the first order: those left in SQL, and those of live orders in SQL.
    pub initial: u64,
    /// Users in the set.
    pub buyers: u64,
    /// Orders in SQL.
    pub in_sql: u64,
    /// Orders that only entries contain.
    pub in_flight: u64,
    /// Users in the set with neither.
    pub without_order: u64,
    /// Users with an order who are not in the set; they become buyers.
    pub without_buyer: u64,
    /// Orders without a time of creation; the engine stores that of the migration.
    pub without_time: u64,
    /// What prevents the migration.
    #[serde(serialize_with = "sentences")]
    pub findings: Vec<Reason>,
    /// The order of each buyer.
    #[serde(skip)]
    pub(super) orders: BTreeMap<UserId, Moving>,
    /// Entries in flight: a difference shows a live consumer.
    #[serde(skip)]
    pub(super) waiting: Vec<Waiting>,
}

/// An order that moves. A field is `None` if the service has no such column or no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moving {
    pub(super) id: OrderId,
    status: OrderStatus,
    created: Option<Millis>,
    paid: Option<Millis>,
    pay_type: Option<i8>,
}

impl Plan {
    /// The orders as the engine stores them. Unpaid ones are closed by their own time of creation.
    pub(super) fn orders(&self, now: Millis) -> Vec<ImportedOrder> {
        let of = |(user, it): (&UserId, &Moving)| {
            let Moving { id, status, created, paid, pay_type } = *it;
            let is_paid = status != OrderStatus::Unpaid;
            ImportedOrder {
                order: SaleOrder {
                    id,
                    user_id: *user,
                    voucher_id: self.voucher_id,
                    shard: 0,
                    place: 1,
                },
                status,
                created: created.unwrap_or(now),
                paid: paid.filter(|_| is_paid),
                pay_type: pay_type.unwrap_or(PAY_TYPE),
            }
        };
        self.orders.iter().map(of).collect()
    }
}

/// Things of one kind: their number, and the first of them.
#[derive(Default)]
pub(super) struct Found {
    count: u64,
    first: String,
}

impl Found {
    pub(super) fn add(&mut self, one: &impl ToString) {
        if self.count == 0 {
            self.first = one.to_string();
        }
        self.count += 1;
    }

    pub(super) fn report(self, to: &mut Vec<Reason>, message: impl FnOnce(u64, String) -> Reason) {
        if self.count > 0 {
            to.push(message(self.count, self.first));
        }
    }
}

/// A user ID that fits SQL.
pub(super) fn user_id(text: &str) -> Option<UserId> {
    text.parse::<i64>().ok().and_then(|it| u64::try_from(it).ok()).map(UserId)
}

impl Migration {
    /// Reads the sale and what prevents its migration. Changes nothing.
    ///
    /// # Errors
    /// A server is unreachable, the deployment does not match the profile, or it has no such sale.
    pub async fn plan(&mut self) -> Result<Plan> {
        let before = self.read().await?.waiting;
        let mut findings = self.readers().await?;
        let service = self.read().await?;
        self.traffic(&before, &service, &mut findings).await?;
        let mut plan = self.collect(service, findings);
        self.at_engine(&mut plan).await?;
        Ok(plan)
    }

    /// Whether the service still works on the sale.
    async fn traffic(
        &mut self,
        before: &[Waiting],
        service: &Service,
        findings: &mut Vec<Reason>,
    ) -> Result<()> {
        let voucher = self.voucher;
        if !self.profile.has_stream() && !self.options.is_stopped {
            findings.push(reason!("attach-move-memory"));
        }
        let active = service.consumers.iter().filter(|it| {
            // A recovery that runs has its lock.
            it.name != CONSUMER && it.idle_ms < self.options.quiet_ms
        });
        for it in active {
            let (consumer, seconds) = (it.name.as_str(), it.idle_ms / 1_000);
            findings.push(reason!("attach-move-consumer", consumer, seconds));
        }
        // New entries of other sales are no sign of a consumer, and those of this one are found by comparing plans.
        let now: BTreeSet<(&str, bool)> =
            service.waiting.iter().map(|it| (it.entry.as_str(), it.delivered)).collect();
        if before.iter().any(|it| !now.contains(&(it.entry.as_str(), it.delivered))) {
            findings.push(reason!("attach-move-progress"));
        }
        if self.exists(&attach_lock(self.profile.scope())).await? {
            findings.push(reason!("attach-move-recovery"));
        }
        findings.extend(self.other_groups().await?);
        findings.extend(self.database.not_primary().await?);
        let (stock, renamed) = (self.stock(), self.renamed());
        match (self.exists(&stock).await?, self.exists(&renamed).await?) {
            (true, true) => findings.push(reason!("attach-move-reloaded", key = stock)),
            (false, false) => {
                findings.push(reason!("attach-move-not-loaded", voucher, key = stock));
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits between the two looks at the entries, and reports the clients that read with XREADGROUP meanwhile, unless the
    /// operator has stated that the service is stopped.
    async fn readers(&mut self) -> Result<Vec<Reason>> {
        if self.options.is_stopped {
            tokio::time::sleep(PAUSE).await;
            return Ok(Vec::new());
        }
        match self.readings().await {
            Err(AttachError::Redis(error)) if error.code() == Some("NOPERM") => {
                Ok(vec![reason!("attach-move-no-clients")])
            }
            findings => findings,
        }
    }

    async fn readings(&mut self) -> Result<Vec<Reason>> {
        let (mut addresses, mut is_engine) = (BTreeSet::new(), false);
        let before = self.reads().await?;
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE / LOOKS).await;
            for (address, name) in self.reading_clients().await? {
                if name == CLIENT_NAME {
                    is_engine = true;
                } else {
                    addresses.insert(address);
                }
            }
        }
        // A client that runs another command after each read, or has a new connection for each.
        if addresses.is_empty() && !is_engine && self.reads().await? != before {
            return Ok(vec![reason!("attach-move-read")]);
        }
        Ok(addresses.into_iter().map(|address| reason!("attach-move-reads", address)).collect())
    }

    /// The statistics of XREADGROUP in this Redis; they change with each call.
    async fn reads(&mut self) -> Result<Option<String>> {
        let info: InfoDict = self.conn.query(cmd("INFO").arg("commandstats")).await?;
        Ok(info.get("cmdstat_xreadgroup"))
    }

    /// Addresses and names of the clients that wait in XREADGROUP, or whose last command it was within the time of
    /// --quiet: in Redis 7.0, a read without entries is no activity of its consumer. Which stream they read is unknown.
    ///
    /// Source: <https://redis.io/docs/latest/commands/client-list/>
    async fn reading_clients(&mut self) -> Result<Vec<(String, String)>> {
        let list: String = self.conn.query(cmd("CLIENT").arg("LIST")).await?;
        let reading = list.lines().filter_map(|line| {
            let value = |name: &str| {
                line.split(' ').find_map(|it| it.strip_prefix(name)?.strip_prefix('='))
            };
            let is_recent = value("idle")?.parse::<u64>().ok()? * 1_000 < self.options.quiet_ms;
            let waits = value("flags")?.contains('b');
            (value("cmd")? == "xreadgroup" && (waits || is_recent)).then_some(())?;
            Some((value("addr")?.to_owned(), value("name")?.to_owned()))
        });
        Ok(reading.collect())
    }

    fn collect(&self, service: Service, mut findings: Vec<Reason>) -> Plan {
        let Service { keys, members, waiting, replaced, unreadable, row, orders: rows, .. } =
            service;
        let set_aside = service.set_aside;
        let (voucher, mut orders) = (self.voucher, BTreeMap::new());
        let buyers = keys.buyers.unwrap_or(0);
        let [mut closed, mut foreign, mut numbers, mut several, mut strays, mut bad]: [Found; 6] =
            Default::default();
        for row in &rows {
            let Some(status) = self.status(row, &mut closed, &mut foreign) else { continue };
            match (OrderId::from_i64(row.id), user_id(&row.user)) {
                (Some(id), Some(user)) => {
                    let OrderOf { created, paid, pay_type, .. } = *row;
                    let order = Moving { id, status, created, paid, pay_type };
                    if orders.insert(user, order).is_some() {
                        several.add(&user);
                    }
                }
                _ => numbers.add(&row.id),
            }
        }
        let in_sql = rows.len() as u64 - closed.count;
        let (mut in_flight, mut in_set) = (0, BTreeSet::new());
        for member in &members {
            match user_id(member) {
                Some(user) => {
                    in_set.insert(user);
                }
                None => numbers.add(member),
            }
        }
        for entry in unreadable {
            bad.add(&entry);
        }
        for waiting in waiting.iter().filter(|it| !replaced.contains(&it.entry)) {
            let Waiting { entry, user, order, .. } = waiting;
            let (Some(user), Ok(order)) = (user_id(user), order.parse::<OrderId>()) else {
                numbers.add(&entry);
                continue;
            };
            match orders.get(&user) {
                Some(held) if held.id == order => {}
                Some(_) => several.add(&user),
                None if in_set.contains(&user) => {
                    let (status, created) = (self.first_status(), Some(added_at(waiting)));
                    let order = Moving { id: order, status, created, paid: None, pay_type: None };
                    orders.insert(user, order);
                    in_flight += 1;
                }
                None => strays.add(&entry),
            }
        }
        let mut ids: Vec<OrderId> = orders.values().map(|it| it.id).collect();
        ids.sort_unstable();
        let mut repeated = Found::default();
        for pair in ids.windows(2) {
            if let [one, other] = pair
                && one == other
            {
                repeated.add(one);
            }
        }
        let mut lacking = Found::default();
        for user in in_set.iter().filter(|user| !orders.contains_key(user)) {
            lacking.add(&user);
        }
        let without_order = lacking.count;
        let mut aside = Found::default();
        for (letter, user) in set_aside {
            if user_id(&user).is_none_or(|user| !orders.contains_key(&user)) {
                aside.add(&letter);
            }
        }
        let without_buyer = orders.keys().filter(|user| !in_set.contains(user)).count() as u64;
        let initial = row.stock.saturating_add(in_sql as i64);

        bad.report(&mut findings, |count, entry| reason!("attach-move-unreadable", count, entry));
        numbers.report(&mut findings, |count, value| reason!("attach-move-number", count, value));
        closed.report(&mut findings, |count, order| reason!("attach-move-closed", count, order));
        foreign.report(&mut findings, |count, status| reason!("attach-move-status", count, status));
        several.report(&mut findings, |count, user| reason!("attach-move-several", count, user));
        repeated.report(&mut findings, |count, order| reason!("attach-move-same-id", count, order));
        strays.report(&mut findings, |count, entry| reason!("attach-move-stray", count, entry));
        if !self.options.leave_out {
            lacking
                .report(&mut findings, |count, user| reason!("attach-move-no-order", count, user));
            aside
                .report(&mut findings, |count, letter| reason!("attach-move-aside", count, letter));
        }
        if let Some(stock) = keys.stock
            && stock.saturating_add(buyers as i64) != initial
        {
            let sql_stock = row.stock;
            let orders = in_sql;
            findings.push(reason!("attach-move-stock", stock, buyers, sql_stock, orders));
        }
        if let Some(stated) = row.initial.filter(|stated| *stated != initial) {
            findings.push(reason!("attach-move-initial", stated, initial));
        }
        let without_time = orders.values().filter(|it| it.created.is_none()).count() as u64;
        let (initial, sold) = (u64::try_from(initial).unwrap_or(0), orders.len() as u64);
        if sold > initial {
            findings.push(reason!("attach-move-oversold", sold, initial));
        }
        let title = check_title(&row.title);
        findings.extend(title.as_ref().err().cloned());
        findings.extend(check_stock(initial).err());
        if row.begin.is_none() || row.end.is_none() {
            findings.push(reason!("attach-no-dates", voucher));
        }
        Plan {
            voucher_id: voucher,
            title: title.unwrap_or(row.title),
            begin: row.begin,
            end: row.end,
            redis_stock: keys.stock,
            sql_stock: row.stock,
            initial,
            buyers,
            in_sql,
            in_flight,
            without_order,
            without_buyer,
            without_time,
            findings,
            orders,
            waiting,
        }
    }

    /// The status of an order that the service has just written. The engine closes unpaid orders; a service without a
    /// status never does.
    pub(super) fn first_status(&self) -> OrderStatus {
        if self.profile.order.status.is_empty() { OrderStatus::Paid } else { OrderStatus::Unpaid }
    }

    /// The status of a live order that the engine has as well.
    pub(super) fn status(
        &self,
        row: &OrderOf,
        closed: &mut Found,
        foreign: &mut Found,
    ) -> Option<OrderStatus> {
        let status = row.status.unwrap_or(self.first_status() as i64);
        if self.profile.order.closed.contains(&status) {
            closed.add(&row.id);
            return None;
        }
        let known = OrderStatus::from_repr(status).filter(|it| it.is_live());
        if known.is_none() {
            foreign.add(&status);
        }
        known
    }

    /// Whether the engine can take the sale.
    async fn at_engine(&mut self, plan: &mut Plan) -> Result<()> {
        let voucher = self.voucher;
        let findings = &mut plan.findings;
        if self.database.has_engine().await? {
            findings.push(reason!("attach-move-same-database"));
        }
        let sale = self.engine_sale().await?;
        let unmarked = self.unmarked(sale.as_ref()).await?;
        let not_loaded = reason!("attach-move-not-loaded", voucher, key = self.stock());
        let Engine { store, keys, conn, .. } = &mut self.engine;
        let ours = keys.sale_keys(ShardId::only(voucher));
        let used = [
            self.profile.stock(voucher),
            self.profile.buyers(voucher),
            self.profile.stream.key.clone(),
        ];
        let prefix = keys.sale(ShardId::only(VoucherId(0)));
        let prefix = prefix.split('{').next().unwrap_or_default();
        for key in used.into_iter().filter(|it| it.starts_with(&format!("{prefix}{{p"))) {
            findings.push(reason!("attach-move-same-keys", key));
        }
        let former = store.former_shards().await.map_err(AttachError::Store)?;
        if let Some((_, shard)) = former.iter().find(|(former, _)| *former == voucher) {
            findings.push(reason!("attach-move-former", voucher, sale = shard.voucher()));
        }
        let known = store.voucher(voucher).await.map_err(AttachError::Store)?;
        if sale.is_some_and(|it| it.state == SaleState::Archived) {
            // Its orders are known, too.
            findings.push(reason!("attach-move-again", voucher));
            return Ok(());
        }
        if let Some(unmarked) = unmarked {
            // Instead of the advice to load the stock.
            findings.retain(|it| *it != not_loaded);
            findings.push(unmarked);
        } else if known.is_some() {
            findings.push(reason!("attach-move-exists", voucher));
        } else if conn.query::<u64>(cmd("EXISTS").arg(&ours)).await? > 0 {
            let [sale, ..] = ours;
            findings.push(reason!("attach-move-keys", voucher, key = sale));
        }
        let ids: Vec<OrderId> = plan.orders.values().map(|it| it.id).collect();
        let mut taken = Found::default();
        for id in store.existing(&ids).await.map_err(AttachError::Store)? {
            taken.add(&id);
        }
        taken.report(findings, |count, order| reason!("attach-move-taken", count, order));
        Ok(())
    }
}
