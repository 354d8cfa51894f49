//! The way back: what the service lacks, and what prevents the return.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::{cmd, pipe};
use seckill_model::{
    Millis, Order, OrderFilter, OrderStatus, OrderTerms, Reason, SaleState, VoucherId,
    faults::{self, Point},
    ledger::sentences,
    reason,
};
use seckill_store::plain::PlainConnection;
use serde::Serialize;

use super::{
    Migration, PAGE, RETURNING, Service,
    plan::{Found, PAY_TYPE},
};
use crate::{
    AttachError, Profile, Result,
    database::{Database, list},
    recover::check_columns,
};

/// Orders of one read from the engine.
const ORDERS: u32 = 5_000;
/// Rows of one statement.
const ROWS: usize = 500;
/// The status that the engine and the services have in common: only such a row is changed.
const UNPAID: i64 = OrderStatus::Unpaid as i64;

/// A sale of the engine, as it returns. The keys are a contract of `attach migrate --back --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackPlan {
    /// The sale.
    pub voucher_id: VoucherId,
    /// Its title.
    pub title: String,
    /// Its state in the engine.
    pub state: SaleState,
    /// Pieces left.
    pub stock: u64,
    /// Pieces left in the table of the service, which they replace.
    pub sql_stock: i64,
    /// Live orders: the buyers.
    pub live: u64,
    /// Closed orders.
    pub closed: u64,
    /// Orders without a row in the table of the service.
    pub missing: u64,
    /// Unpaid rows whose order was paid or closed since.
    pub changed: u64,
    /// What prevents the return.
    #[serde(serialize_with = "sentences")]
    pub findings: Vec<Reason>,
    #[serde(skip)]
    orders: Vec<Order>,
    #[serde(skip)]
    inserts: Vec<String>,
    #[serde(skip)]
    updates: BTreeMap<i64, Vec<(i64, Option<Millis>)>>,
}

impl Migration {
    /// Whether the service has the sale already, so that only the engine's sale remains to be archived.
    ///
    /// # Errors
    /// The service has loaded a stock that the engine has not returned.
    pub async fn has_returned(&mut self) -> Result<bool> {
        let is_marked = self.created().await?.is_some();
        let state = self.engine_sale().await?.map(|sale| sale.state);
        if !self.exists(&self.stock()).await? || state.is_none() {
            return Ok(false);
        }
        let is_over = matches!(state, Some(SaleState::Ended | SaleState::Archived));
        if is_marked || !is_over || !self.prove(true).await?.is_complete() {
            // Archived without having returned: the plan says so.
            return if state == Some(SaleState::Archived) {
                Ok(false)
            } else {
                Err(self.reloaded())
            };
        }
        Ok(true)
    }

    /// Reads the sale of the engine, and what prevents its return. Changes nothing.
    ///
    /// # Errors
    /// A server is unreachable, or one side has no such sale.
    pub async fn plan_back(&mut self) -> Result<BackPlan> {
        let voucher = self.voucher;
        let sale = self.engine.store.sale(voucher).await.map_err(AttachError::Store)?;
        let mut findings = Vec::new();
        if sale.state == SaleState::Running {
            findings.push(reason!("attach-back-running", voucher));
        }
        if sale.state == SaleState::Archived {
            findings.push(reason!("attach-back-archived", voucher));
        }
        if self.created().await? != Some(sale.created) {
            findings.push(reason!("attach-back-foreign", voucher));
        }
        if self.exists(&self.renamed()).await? {
            findings.push(reason!("attach-back-unfinished", voucher));
        }
        let orders = self.all_orders().await?;
        let Service { waiting, row, orders: rows, .. } = self.read().await?;
        if let Some(entry) = waiting.first() {
            let (count, entry) = (waiting.len(), entry.entry.as_str());
            findings.push(reason!("attach-back-entries", count, entry));
        }
        let closed = &self.profile.order.closed;
        let has_status = !self.profile.order.status.is_empty();
        let known: HashMap<i64, _> = rows.iter().map(|row| (row.id, row)).collect();
        let (mut inserts, mut updates) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        let [mut second, mut taken, mut unclosed, mut unknown, mut conflicts]: [Found; 5] =
            Default::default();
        for order in &orders {
            if order.place.is_some_and(|place| place > 1) && order.status.is_live() {
                second.add(&order.user_id);
            }
            let is_live = order.status.is_live();
            let status = if is_live { Some(order.status as i64) } else { closed.first().copied() };
            let (id, user) = (order.id.as_i64(), order.user_id);
            let Some(status) = status.filter(|_| has_status || is_live) else {
                // A closed order that the service never had needs no row.
                if known.contains_key(&id) {
                    unclosed.add(&id);
                }
                continue;
            };
            match known.get(&id) {
                Some(row) if row.user != user.to_string() => taken.add(&id),
                Some(row) if has_status && row.status != Some(status) => match row.status {
                    None | Some(UNPAID) => {
                        updates.entry(status).or_default().push((id, order.pay_time));
                    }
                    // Closed on both sides.
                    Some(there) if !is_live && closed.contains(&there) => {}
                    Some(_) => conflicts.add(&id),
                },
                Some(_) => {}
                None => inserts.push(self.values(order, status)),
            }
        }
        let at_engine: HashSet<i64> = orders.iter().map(|it| it.id.as_i64()).collect();
        for row in rows.iter().filter(|row| !at_engine.contains(&row.id)) {
            unknown.add(&row.id);
        }
        if !inserts.is_empty() {
            // Before the sale is ended for good.
            check_columns(&self.database, &self.profile, &self.columns()).await?;
        }
        second.report(&mut findings, |count, user| reason!("attach-back-limit", count, user));
        taken.report(&mut findings, |count, order| reason!("attach-back-taken", count, order));
        unclosed
            .report(&mut findings, |count, order| reason!("attach-back-unclosed", count, order));
        conflicts
            .report(&mut findings, |count, order| reason!("attach-back-conflict", count, order));
        unknown.report(&mut findings, |count, order| reason!("attach-back-unknown", count, order));
        let live = orders.iter().filter(|it| it.status.is_live()).count();
        Ok(BackPlan {
            voucher_id: voucher,
            title: sale.title,
            state: sale.state,
            stock: sale.stock,
            sql_stock: row.stock,
            live: live as u64,
            closed: (orders.len() - live) as u64,
            missing: inserts.len() as u64,
            changed: updates.values().map(Vec::len).sum::<usize>() as u64,
            findings,
            orders,
            inserts,
            updates,
        })
    }

    /// Every order of the sale in the engine's SQL, closed ones included.
    pub(super) async fn all_orders(&self) -> Result<Vec<Order>> {
        let is = OrderTerms { voucher: Some(self.voucher), ..OrderTerms::default() };
        let filter = OrderFilter { is, ..OrderFilter::default() };
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let page = self.engine.store.orders(&filter, before, ORDERS).await;
            let page = page.map_err(AttachError::Store)?;
            let Some(last) = page.last() else { return Ok(all) };
            before = Some(last.id);
            all.extend(page);
        }
    }

    /// Records in the Redis of the service that the sale, which ends in the engine, is on sale on neither side.
    pub async fn begin_return(&mut self) -> Result<()> {
        let key = self.stock() + RETURNING;
        Ok(self.conn.query(cmd("SET").arg(key).arg(1)).await?)
    }

    /// Steps 2 and 3: writes the sale, which has ended in the engine, into the tables and the Redis of the service.
    pub async fn give_back(&mut self, plan: &BackPlan) -> Result<()> {
        let database = Database::writable(&self.url, &self.settings, &self.profile)?;
        let mut conn = database.connection().await?;
        let written = self.write_rows(&mut conn, plan).await;
        if written.is_err() {
            // A dropped connection rolls back as well.
            let _ = self.database.in_time(conn.command("ROLLBACK")).await;
        }
        written?;
        faults::pass(Point::MigrationStep);
        self.write_keys(plan).await?;
        faults::pass(Point::MigrationStep);
        Ok(())
    }

    /// The columns of an order that is inserted.
    fn columns(&self) -> Vec<&str> {
        let order = &self.profile.order;
        let optional = [&order.status, &order.created, &order.paid, &order.pay_type];
        let optional = optional.map(String::as_str).into_iter().filter(|it| !it.is_empty());
        [order.id.as_str(), &order.user, &order.voucher].into_iter().chain(optional).collect()
    }

    /// Their values, all of them numbers and dates.
    fn values(&self, order: &Order, status: i64) -> String {
        let names = &self.profile.order;
        let optional = [
            (&names.status, status.to_string()),
            (&names.created, self.date(Some(order.create_time))),
            (&names.paid, self.date(order.pay_time)),
            (&names.pay_type, PAY_TYPE.to_string()),
        ];
        let optional = optional.into_iter().filter(|it| !it.0.is_empty()).map(|it| it.1);
        let ids = [order.id.to_string(), order.user_id.to_string(), order.voucher_id.to_string()];
        format!("({})", ids.into_iter().chain(optional).collect::<Vec<_>>().join(", "))
    }

    /// A date as the service writes it.
    fn date(&self, at: Option<Millis>) -> String {
        let date = at.zip(self.profile.zone()).map(|(at, zone)| at.date_time(&zone));
        date.map_or_else(|| "NULL".to_owned(), |date| format!("'{date}'"))
    }

    /// The statements contain names of the profile, which were checked, numbers and dates.
    async fn write_rows(&self, conn: &mut PlainConnection, plan: &BackPlan) -> Result<()> {
        let Profile { tables, sale, order, .. } = &self.database.names(&self.profile);
        self.database.in_time(conn.command("BEGIN")).await?;
        let stock = format!(
            "UPDATE {} SET {} = {} WHERE {} = {}",
            tables.sale, sale.stock, plan.stock, sale.voucher, plan.voucher_id
        );
        self.database.in_time(conn.command(&stock)).await?;
        let quoted = self.columns().into_iter().map(|it| self.database.quoted(it));
        let columns = quoted.collect::<Vec<_>>().join(", ");
        for part in plan.inserts.chunks(ROWS) {
            let rows = part.join(", ");
            let insert = format!("INSERT INTO {} ({columns}) VALUES {rows}", tables.order);
            self.database.in_time(conn.command(&insert)).await?;
        }
        for (status, ids) in &plan.updates {
            for part in ids.chunks(ROWS) {
                let ids = list(&part.iter().map(|it| it.0).collect::<Vec<_>>());
                let dates = part.iter().filter(|it| it.1.is_some() && !order.paid.is_empty());
                let cases: Vec<String> =
                    dates.map(|(id, at)| format!(" WHEN {id} THEN {}", self.date(*at))).collect();
                let paid = if cases.is_empty() {
                    String::new()
                } else {
                    let (cases, paid) = (cases.concat(), &order.paid);
                    format!(", {paid} = CASE {}{cases} ELSE {paid} END", order.id)
                };
                let update = format!(
                    "UPDATE {} SET {} = {status}{paid} WHERE {} IN ({ids}) AND ({} IS NULL OR {} = {UNPAID})",
                    tables.order, order.status, order.id, order.status, order.status
                );
                let updated = self.database.in_time(conn.execute(update, &[])).await?;
                if updated != part.len() as u64 {
                    return Err(AttachError::Mismatch(reason!("attach-back-moving")));
                }
            }
        }
        faults::pass(Point::MigrationStep);
        Ok(self.database.in_time(conn.command("COMMIT")).await?)
    }

    async fn write_keys(&mut self, plan: &BackPlan) -> Result<()> {
        let buyers = self.profile.buyers(self.voucher);
        let new = format!("{buyers}{RETURNING}");
        self.conn.query::<u64>(cmd("DEL").arg(&new)).await?;
        let live: Vec<String> = plan
            .orders
            .iter()
            .filter(|it| it.status.is_live())
            .map(|it| it.user_id.to_string())
            .collect();
        for page in live.chunks(PAGE) {
            self.conn.query::<u64>(cmd("SADD").arg(&new).arg(page)).await?;
        }
        faults::pass(Point::MigrationStep);
        let (stock, mark) = (self.stock(), self.mark());
        let record = format!("{stock}{RETURNING}");
        let mut swap = pipe();
        swap.atomic();
        if live.is_empty() {
            swap.cmd("DEL").arg(&buyers).ignore();
        } else {
            swap.cmd("RENAME").arg(&new).arg(&buyers).ignore();
        }
        swap.cmd("SET").arg(stock).arg(plan.stock).arg("NX").ignore();
        swap.cmd("DEL").arg(mark).arg(record).ignore();
        Ok(self.conn.pipe(&swap).await?)
    }
}
