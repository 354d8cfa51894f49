//! The way back: what the service lacks, and what prevents the return.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::cmd;
use seckill_model::{
    Fence, Millis, Order, OrderFilter, OrderStatus, OrderTerms, Reason, SaleState, VoucherId,
    faults::{self, Point},
    ledger::sentences,
    reason,
};
use seckill_redis::scripts;
use seckill_store::plain::PlainConnection;
use serde::Serialize;

use super::{
    Migration, PAGE, Service, Traces,
    plan::{Found, PAY_TYPE},
};
use crate::{
    AttachError, Profile, Result,
    database::{Database, list},
    marks::RETURNING,
    recover::check_tables,
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
    /// Whether the service has got the sale back before.
    pub async fn has_returned(&mut self) -> Result<bool> {
        let Traces { mark, has_stock, .. } = self.traces().await?;
        let state = self.engine_sale().await?.map(|sale| sale.state);
        if mark.is_some() || !has_stock || state != Some(SaleState::Archived) {
            return Ok(false);
        }
        Ok(self.prove(true).await?.has_orders())
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
        let Traces { mark, is_renamed, has_stock, .. } = self.traces().await?;
        let is_archived = sale.state == SaleState::Archived;
        if let Some(unmarked) = self.unmarked(Some(&sale).filter(|_| !is_archived)).await? {
            findings.push(unmarked);
        } else if mark.map(|it| it.created) != Some(sale.created) {
            findings.push(reason!("attach-back-foreign", voucher));
        } else if has_stock {
            findings.push(reason!("attach-move-reloaded", key = self.stock()));
        }
        if is_renamed {
            findings.push(reason!("attach-back-unfinished", voucher));
        }
        findings.extend(self.database.not_primary().await?);
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
            check_tables(&self.database, &self.profile, &self.columns()).await?;
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

    /// Step 1: tries to write the rows, and records in the Redis of the service that the sale, which ends in the engine, is
    /// on sale on neither side.
    ///
    /// # Errors
    /// The tables reject the rows, the service has loaded the stock again, another run has begun, or a server is
    /// unreachable. Then there is no record, unless an earlier run has left one.
    pub async fn begin_return(&mut self, plan: &BackPlan) -> Result<()> {
        self.in_transaction(plan, "ROLLBACK").await?;
        self.write_record("begun").await
    }

    /// Removes the record: the sale has not ended after all.
    pub async fn withdraw(&mut self) -> Result<()> {
        self.write_record("").await
    }

    async fn write_record(&mut self, record: &str) -> Result<()> {
        let mut write = scripts::ATTACH_RECORD.prepare_invoke();
        write.key(self.stock()).key(self.renamed()).key(self.mark()).key(self.record());
        write.arg(self.claimed()).arg(record);
        let reply = self.conn.invoke(&write).await?;
        self.done_by_script(reply)
    }

    /// Step 3: afterwards, the engine pays and closes no order of the sale.
    pub async fn freeze_orders(&mut self, fence: &Fence) -> Result<()> {
        let now = self.engine.conn.now().await?;
        let frozen = self.engine.store.freeze_orders(self.voucher, now, fence).await;
        frozen.map_err(AttachError::Store)
    }

    /// Lets the engine pay and close them again, because the sale does not go back yet.
    ///
    /// # Errors
    /// Another run has begun, or a server is unreachable.
    pub async fn thaw_orders(&mut self, fence: &Fence) -> Result<()> {
        // A script whose reply was lost may still arrive: it would give a sale back whose orders are not frozen.
        let claimed = self.claimed().to_owned();
        self.rewrite_mark(&claimed, format!("{claimed} again")).await?;
        let thawed = self.engine.store.thaw_orders(self.voucher, fence).await;
        thawed.map_err(AttachError::Store)
    }

    /// Steps 4 and 5: writes the sale, which has ended in the engine, into the tables and the Redis of the service.
    ///
    /// # Errors
    /// The service has changed since the plan, another run has begun, or a server is unreachable.
    pub async fn give_back(&mut self, plan: &BackPlan) -> Result<()> {
        self.in_transaction(plan, "COMMIT").await?;
        faults::pass(Point::MigrationStep);
        let live: Vec<String> = plan
            .orders
            .iter()
            .filter(|it| it.status.is_live())
            .map(|it| it.user_id.to_string())
            .collect();
        self.stage_buyers(&live).await?;
        self.check_written(plan).await?;
        faults::pass(Point::MigrationStep);
        self.swap(plan, live.len()).await?;
        faults::pass(Point::MigrationStep);
        Ok(())
    }

    /// Step 6, after the sale is archived in the engine.
    pub async fn forget_return(&mut self) -> Result<()> {
        let record = self.record();
        Ok(self.conn.query(cmd("DEL").arg(record)).await?)
    }

    /// What the tables of the service have after the commit.
    async fn check_written(&mut self, plan: &BackPlan) -> Result<()> {
        let proof = self.prove(true).await?;
        if !proof.has_rows() || u64::try_from(proof.service.sql_stock) != Ok(plan.stock) {
            return Err(AttachError::Mismatch(reason!("attach-back-moving")));
        }
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

    /// Writes the rows in a transaction with this end.
    async fn in_transaction(&mut self, plan: &BackPlan, end: &str) -> Result<()> {
        let database = Database::writable(&self.url, &self.settings, &self.profile)?;
        let mut conn = database.connection().await?;
        self.database.in_time(conn.command("BEGIN")).await?;
        let written = self.write_rows(&mut conn, plan).await;
        if written.is_err() {
            // A dropped connection rolls back as well.
            let _ = self.database.in_time(conn.command("ROLLBACK")).await;
            return written;
        }
        if end == "COMMIT" {
            faults::pass(Point::MigrationStep);
        }
        Ok(self.database.in_time(conn.command(end)).await?)
    }

    /// The statements contain names of the profile, which were checked, numbers and dates. Each changes a row only if it is
    /// as planned: a run that was stopped meanwhile changes nothing of what a later one has written.
    async fn write_rows(&self, conn: &mut PlainConnection, plan: &BackPlan) -> Result<()> {
        let Profile { tables, sale, order, .. } = &self.database.names(&self.profile);
        let changed = || AttachError::Mismatch(reason!("attach-back-moving"));
        // First, because every writer of the sale takes the lock of this row.
        let stock = format!(
            "UPDATE {} SET {} = {} WHERE {} = {} AND {} = {}",
            tables.sale,
            sale.stock,
            plan.stock,
            sale.voucher,
            plan.voucher_id,
            sale.stock,
            plan.sql_stock
        );
        if self.database.in_time(conn.execute(stock, &[])).await? != 1 {
            return Err(changed());
        }
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
                    return Err(changed());
                }
            }
        }
        Ok(())
    }

    /// Collects the buyers beside the set of the service.
    async fn stage_buyers(&mut self, users: &[String]) -> Result<()> {
        let no_user: &[String] = &[];
        for page in std::iter::once(no_user).chain(users.chunks(PAGE)) {
            let mut stage = scripts::ATTACH_STAGE.prepare_invoke();
            stage.key(self.mark()).key(self.staged()).arg(self.claimed()).arg(page);
            let reply = self.conn.invoke(&stage).await?;
            self.done_by_script(reply)?;
        }
        Ok(())
    }

    fn staged(&self) -> String {
        self.profile.buyers(self.voucher) + RETURNING
    }

    async fn swap(&mut self, plan: &BackPlan, buyers: usize) -> Result<()> {
        let mut swap = scripts::ATTACH_RETURN.prepare_invoke();
        swap.key(self.stock()).key(self.renamed()).key(self.mark()).key(self.record());
        swap.key(self.profile.buyers(self.voucher)).key(self.staged());
        swap.arg(self.claimed()).arg("begun").arg(self.done()).arg(plan.stock).arg(buyers);
        let reply = self.conn.invoke(&swap).await?;
        self.done_by_script(reply)
    }
}
