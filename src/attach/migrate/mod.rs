//! Moves a sale from a service to the engine, and back. It is never on sale on both sides.
//!
//! **There.**
//!
//! 1. `claim`: the fencing token of the operator lock is raised in the SQL of the engine, which waits for a transaction of
//!    an earlier run and rejects later ones, and the mark of an earlier run is taken over. From here on, an earlier run
//!    that was only stopped changes nothing: each script compares the mark, and each transaction the token.
//! 2. `fence`: one script compares stock and buyers with the plan that the operator has seen, sets the mark `STOCK:moved`,
//!    which names the deployment of the engine, the time at which the sale is created there, and the token, and renames
//!    the stock key to `STOCK:moving`. The script of the service fails without a stock, so no user buys.
//! 3. `fence_and_import`: the sale is read again. If it differs from the plan, `unfence` gives the key its name again.
//! 4. `import_sale`: one transaction inserts the sale and all its orders into the SQL of the engine. The sale moves with
//!    this commit.
//! 5. The engine loads the sale into Redis from its SQL, as it does when Redis has lost it. `carry` pays orders that the
//!    service has taken payments for since.
//! 6. `finish`: the entries of the sale that are in flight are acknowledged and deleted, and then the renamed key. Set, rows
//!    and mark remain.
//!
//! Before the commit, the engine does not know the sale. After it, the service has no stock key. [`Stage`] follows from
//! all keys and from SQL, so the next run completes or undoes what a killed one has begun. A commit whose outcome is
//! unknown is not undone before `claim` of the next run knows it.
//!
//! The order of an entry in flight is written to SQL with the others, because a transaction in SQL cannot contain an entry
//! of a stream: a crash between the two would leave a buyer without an order.
//!
//! **Back** (`back`).
//!
//! 1. `begin_return`: after the statements of step 4 were tried and rolled back, one script checks that the service has no
//!    stock, and writes the record `STOCK:returning`. If the sale is not ended after all, `withdraw` removes it.
//! 2. `Command::EndSale`: the sale of the engine is ended for good.
//! 3. `freeze_orders`: the engine pays and closes none of its orders any more. Only then, `plan_back` reads them again.
//! 4. `write_rows`: one transaction writes the missing rows, the statuses and the stock into the tables of the service, if
//!    these are as planned. They are read again, and compared with the orders of the engine.
//! 5. `swap`: one script replaces the set, writes the stock, which must not exist, removes the mark and completes the
//!    record. The sale moves with it.
//! 6. The sale of the engine is archived, and then `forget_return` removes the record.
//!
//! The model of this protocol is in `model`: it finds what happens without each of these guards.

mod back;
#[cfg(test)]
mod model;
mod plan;
mod proof;

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use redis::{cmd, pipe};
use seckill_model::{
    Fence, ForeignKey, Millis, OrderId, OrderStatus, Payment, Reason, Sale, SaleState, VoucherId,
    faults::{self, Point},
    order_id::utc_day,
    reason,
    sale::MAX_STOCK,
};
use seckill_redis::{Connection, Layout, Redis, scripts};
use seckill_store::{Settings, SharedStore, StoreError};

use self::plan::user_id;
pub use self::{
    back::BackPlan,
    plan::Plan,
    proof::{Figures, Proof},
};
use crate::{
    AttachError, ConsumerReport, Limits, Profile, Result,
    buyers::{self, SaleKeys},
    check_single,
    database::{Database, OrderOf, SaleRow},
    marks::{MOVING, RETURNING, mark_of},
    profile::Stream,
    recover::{Newest, Order, letters_page},
    stream::{self, Waiting},
};

/// Entries or users of one command.
const PAGE: usize = 1_000;
/// Lifetime of a counter of order IDs, as the engine sets it.
const KEEP_SEQUENCE: Duration = Duration::from_hours(3 * 24);
/// Days from today for which the engine may already issue order IDs, in any time zone.
const DAYS: i64 = 2;
/// Numbers of one day that the engine never reaches.
const OUT_OF_REACH: u32 = 1 << 30;
/// Numbers to skip if the engine has no counter of the day: more than it may have leased before it lost one.
const JUMP: u32 = 1 << 24;

/// An entry with the order that it asks for.
fn asked(waiting: &Waiting) -> Option<(&str, Order)> {
    let id = waiting.order.parse().ok()?;
    let order = Order { id, user: user_id(&waiting.user)?, voucher: waiting.voucher };
    Some((&waiting.entry, order))
}

/// Whether the database at `url` has the tables of an engine. Changes nothing.
///
/// # Errors
/// The database is unreachable.
pub async fn has_engine(url: &str, settings: &Settings, profile: &Profile) -> Result<bool> {
    Database::open(url, settings, profile)?.has_engine().await
}

/// The engine that a sale moves to, or comes back from.
#[derive(Debug)]
pub struct Engine {
    /// Its database.
    pub store: SharedStore,
    /// Names of its keys.
    pub keys: Layout,
    /// Its Redis.
    pub conn: Connection,
    /// The name of the deployment, by its database.
    pub name: String,
}

/// What the operator states or accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Buyers without an order are left out: their pieces are on sale again.
    pub leave_out: bool,
    /// The service is stopped, and no order waits in its memory.
    pub is_stopped: bool,
    /// A consumer that has asked for entries within this time is active, in milliseconds.
    pub quiet_ms: u64,
}

/// How far earlier runs have moved the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The service sells it.
    AtService,
    /// Its stock key is renamed, and the engine does not know it.
    Fenced,
    /// The engine has it in SQL; entries or the renamed key remain.
    AtEngine,
    /// It has moved.
    Moved,
    /// It is on its way back, and the service has no stock yet.
    Returning,
    /// The service has it again; the sale of the engine remains to be archived.
    Returned,
}

/// The mark of a sale that moves to this engine, or has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// When the sale was or will be created in the engine.
    created: Millis,
    /// The run that moves it, by its fencing token.
    token: i64,
}

/// What earlier runs have left in the Redis of the service, read in one moment.
#[derive(Debug)]
struct Traces {
    mark: Option<Mark>,
    /// As it is written.
    mark_text: Option<String>,
    has_stock: bool,
    is_renamed: bool,
    record: Option<String>,
}

/// A sale that moves, and both sides.
#[derive(Debug)]
pub struct Migration {
    profile: Profile,
    voucher: VoucherId,
    options: Options,
    conn: Connection,
    database: Database,
    /// For [`back`].
    url: String,
    settings: Settings,
    engine: Engine,
    /// The mark that this run has written.
    claimed: Option<String>,
}

/// The sale as the service has it, read in the direction in which an order moves.
struct Service {
    keys: SaleKeys,
    members: HashSet<String>,
    waiting: Vec<Waiting>,
    /// Those of them whose users have bought again since: no order of theirs moves.
    replaced: HashSet<String>,
    /// Entries that cannot be read, of any sale.
    unreadable: Vec<String>,
    /// Entries of the sale that a recovery has given up, each with its user.
    set_aside: Vec<(String, String)>,
    consumers: Vec<ConsumerReport>,
    row: SaleRow,
    orders: Vec<OrderOf>,
}

impl Migration {
    /// Moves this sale of the service in `redis` and in the database at `url`. Does not connect.
    pub fn new(
        profile: Profile,
        voucher: VoucherId,
        options: Options,
        redis: &Redis,
        url: &str,
        settings: &Settings,
        engine: Engine,
    ) -> Result<Self> {
        check_single(redis)?;
        let (database, conn) = (Database::open(url, settings, &profile)?, redis.connection());
        let (url, settings) = (url.to_owned(), settings.clone());
        Ok(Self { profile, voucher, options, conn, database, url, settings, engine, claimed: None })
    }

    fn stock(&self) -> String {
        self.profile.stock(self.voucher)
    }

    fn renamed(&self) -> String {
        self.stock() + MOVING
    }

    fn mark(&self) -> String {
        mark_of(&self.profile, self.voucher)
    }

    async fn exists(&mut self, key: &str) -> Result<bool> {
        Ok(self.conn.query(cmd("EXISTS").arg(key)).await?)
    }

    fn record(&self) -> String {
        self.stock() + RETURNING
    }

    async fn traces(&mut self) -> Result<Traces> {
        let mut read = pipe();
        read.atomic().cmd("GET").arg(self.mark()).cmd("EXISTS").arg(self.stock());
        read.cmd("EXISTS").arg(self.renamed()).cmd("GET").arg(self.record());
        let (mark_text, has_stock, is_renamed, record): (Option<String>, _, _, _) =
            self.conn.pipe(&read).await?;
        let mark = mark_text.as_deref().map(|text| self.parsed(text)).transpose()?;
        Ok(Traces { mark, mark_text, has_stock, is_renamed, record })
    }

    fn parsed(&self, mark: &str) -> Result<Mark> {
        let mut parts = mark.split(' ');
        let (name, created) = (parts.next(), parts.next().and_then(|it| it.parse().ok()));
        let token = parts.next().map_or(Some(0), |it| it.parse().ok());
        match created.zip(token) {
            Some((created, token)) if name == Some(&self.engine.name) => {
                Ok(Mark { created: Millis(created), token })
            }
            _ => Err(AttachError::Mismatch(reason!("attach-move-elsewhere", key = self.mark()))),
        }
    }

    /// The record of a sale that this engine has given back.
    fn done(&self) -> String {
        format!("done {}", self.engine.name)
    }

    /// The sale of the engine with this ID, also one that no migration made.
    async fn engine_sale(&self) -> Result<Option<Sale>> {
        match self.engine.store.sale(self.voucher).await {
            Ok(sale) => Ok(Some(sale)),
            Err(StoreError::NoSale(_)) => Ok(None),
            Err(error) => Err(AttachError::Store(error)),
        }
    }

    /// What would tell whether this sale of the engine has moved there, if Redis has neither its mark nor a stock: it may
    /// have lost the mark, and then the service must not load the stock.
    async fn unmarked(&mut self, sale: Option<&Sale>) -> Result<Option<Reason>> {
        let Traces { mark_text, has_stock, is_renamed, record, .. } = self.traces().await?;
        let has_trace = has_stock || is_renamed || mark_text.is_some() || record.is_some();
        let Some(sale) = sale.filter(|_| !has_trace) else { return Ok(None) };
        let (voucher, key, mark) = (self.voucher, self.stock(), self.mark());
        let value = format!("{} {}", self.engine.name, sale.created.0);
        Ok(Some(reason!("attach-move-unmarked", voucher, key, mark, value)))
    }

    /// How far earlier runs have moved the sale.
    ///
    /// # Errors
    /// The service has loaded the stock of a sale that has moved, or has moved it to another engine.
    pub async fn stage(&mut self) -> Result<Stage> {
        // First Redis: a sale that is in SQL has its mark.
        let traces = self.traces().await?;
        let sale = self.engine_sale().await?;
        let Traces { mark, has_stock, is_renamed, record, .. } = &traces;
        if let Some(record) = record.as_deref().filter(|it| it.starts_with("done ")) {
            return if record == self.done() {
                Ok(Stage::Returned)
            } else {
                let key = self.record();
                Err(AttachError::Mismatch(reason!("attach-move-elsewhere", key)))
            };
        }
        let created = sale.as_ref().map(|sale| sale.created);
        let has_moved = mark.is_some_and(|mark| created == Some(mark.created));
        if has_moved && *has_stock {
            return Err(self.reloaded());
        }
        if mark.is_some() && !has_moved && !is_renamed && !has_stock {
            let (key, voucher) = (self.mark(), self.voucher);
            return Err(AttachError::Mismatch(reason!("attach-move-lost", key, voucher)));
        }
        if *is_renamed && mark.is_none() && sale.is_some() {
            let (key, mark) = (self.renamed(), self.mark());
            return Err(AttachError::Mismatch(reason!("attach-move-no-mark", key, mark)));
        }
        Ok(match (has_moved, is_renamed, record.is_some()) {
            (false, true, _) => Stage::Fenced,
            // A mark without a renamed stock marks nothing.
            (false, false, _) => Stage::AtService,
            (true, true, _) => Stage::AtEngine,
            (true, false, false) => Stage::Moved,
            (true, false, true) => Stage::Returning,
        })
    }

    /// Begins a run: excludes what earlier ones may still do, and takes their mark over.
    ///
    /// # Errors
    /// A newer run has begun, a server is unreachable, or as [`Migration::stage`].
    pub async fn claim(&mut self, fence: &Fence) -> Result<Stage> {
        self.raise(fence).await?;
        let stage = self.stage().await?;
        let Traces { mark, mark_text, .. } = self.traces().await?;
        if mark.is_some_and(|mark| mark.token > fence.token) {
            return Err(self.overtaken());
        }
        if mark.is_none() && stage != Stage::Fenced {
            return Ok(stage);
        }
        let created = match mark {
            Some(mark) => mark.created,
            None => self.conn.now().await?,
        };
        let claimed = self.mark_with(created, fence);
        self.rewrite_mark(&mark_text.unwrap_or_default(), claimed).await?;
        if stage == Stage::AtService {
            self.unfence().await?;
        }
        Ok(stage)
    }

    async fn rewrite_mark(&mut self, from: &str, to: String) -> Result<()> {
        let mut claim = scripts::ATTACH_CLAIM.prepare_invoke();
        claim.key(self.mark()).arg(from).arg(&to);
        if self.conn.invoke::<u8>(&claim).await? == 0 {
            return Err(self.overtaken());
        }
        self.claimed = Some(to);
        Ok(())
    }

    /// The mark that this run has written; empty if it has written none, which no mark is.
    fn claimed(&self) -> &str {
        self.claimed.as_deref().unwrap_or_default()
    }

    /// Excludes the transactions of earlier runs: one that has begun has ended then.
    async fn raise(&mut self, fence: &Fence) -> Result<()> {
        let now = self.conn.now().await?;
        match self.engine.store.fenced_write(fence, now).await {
            Err(StoreError::Fenced(_)) => Err(self.overtaken()),
            done => done.map(drop).map_err(AttachError::Store),
        }
    }

    fn mark_with(&self, created: Millis, fence: &Fence) -> String {
        format!("{} {} {}", self.engine.name, created.0, fence.token)
    }

    fn overtaken(&self) -> AttachError {
        AttachError::Refused(reason!("attach-move-overtaken", voucher = self.voucher))
    }

    /// What a script has replied that writes only for the run that has the mark.
    fn done_by_script(&self, reply: i8) -> Result<()> {
        match reply {
            1 => Ok(()),
            0 => Err(self.overtaken()),
            _ => Err(self.reloaded()),
        }
    }

    fn reloaded(&self) -> AttachError {
        AttachError::Mismatch(reason!("attach-move-reloaded", key = self.stock()))
    }

    async fn read(&mut self) -> Result<Service> {
        let mut profile = self.profile.clone();
        if self.exists(&self.renamed()).await? {
            profile.keys.stock += MOVING;
        }
        let (conn, voucher) = (&mut self.conn, self.voucher);
        let too_many = || AttachError::Mismatch(reason!("attach-move-too-many", most = MAX_STOCK));
        let most = MAX_STOCK as usize;
        let now = conn.now().await?;
        let keys = buyers::keys(conn, &profile, &[voucher]).await?.pop().unwrap_or_default();
        if let Some(foreign) = keys.foreign.first() {
            let (key, holds) = (foreign.key.as_str(), ForeignKey::content(&foreign.holds));
            return Err(AttachError::Mismatch(reason!("attach-holds-other", key, holds)));
        }
        let set = profile.buyers(voucher);
        let mut members = buyers::members(conn, &set, most).await?.ok_or_else(too_many)?;
        // An entry that was delivered often is still an order.
        let limits = Limits {
            in_flight: most,
            deliveries: u64::MAX,
            stuck_ms: u64::MAX,
            ..Limits::default()
        };
        let (report, in_flight, foreign) = stream::read(conn, &profile, &limits, now).await?;
        if let Some(foreign) = foreign {
            let (key, holds) = (foreign.key, foreign.holds);
            return Err(AttachError::Mismatch(reason!("attach-holds-other", key, holds)));
        }
        if report.is_some() && !in_flight.complete {
            return Err(too_many());
        }
        let mut unreadable: Vec<String> = in_flight.poison.into_keys().collect();
        unreadable.sort_unstable();
        let mut waiting = in_flight.entries;
        waiting.retain(|it| it.voucher == voucher);
        let newest = Newest::read(conn, &profile, waiting.iter().filter_map(asked)).await?;
        let replaced = waiting.iter().filter_map(asked);
        let replaced = replaced.filter(|(entry, it)| newest.replaced(entry, it).is_some());
        let replaced = replaced.map(|(entry, _)| entry.to_owned()).collect();
        // Users who have bought since the set was read.
        let late: Vec<String> =
            waiting.iter().map(|it| it.user.clone()).filter(|it| !members.contains(it)).collect();
        let strays = buyers::absent(conn, &set, late.clone()).await?;
        members.extend(late.into_iter().filter(|it| !strays.contains(it)));
        let set_aside = self.set_aside().await?;
        self.database.omit_missing(&mut profile).await?;
        self.profile.order.clone_from(&profile.order);
        let row = self.database.sale(&profile, voucher).await?;
        let row =
            row.ok_or_else(|| AttachError::Mismatch(reason!("attach-move-no-sale", voucher)))?;
        let orders = self.database.orders_of(&profile, voucher).await?;
        let consumers = report.map_or_else(Vec::new, |it| it.consumers);
        Ok(Service {
            keys,
            members,
            waiting,
            replaced,
            unreadable,
            set_aside,
            consumers,
            row,
            orders,
        })
    }

    /// The groups that read the stream beside that of the profile: they would miss the entries that are deleted.
    async fn other_groups(&mut self) -> Result<Option<Reason>> {
        let Profile { stream: Stream { key: stream, group }, .. } = &self.profile;
        if !self.profile.has_stream() || !self.conn.query(cmd("EXISTS").arg(stream)).await? {
            return Ok(None);
        }
        let groups = stream::groups(&mut self.conn, &self.profile).await?;
        let mut others: Vec<_> =
            groups.into_iter().map(|(name, _)| name).filter(|it| it != group).collect();
        others.sort_unstable();
        let names = others.join(", ");
        Ok((!others.is_empty()).then(|| reason!("attach-move-groups", stream, names)))
    }

    /// The entries of the sale that a recovery of this stream has given up.
    async fn set_aside(&mut self) -> Result<Vec<(String, String)>> {
        let (names, mut found) = (&self.profile.entry, Vec::new());
        let (sale, mut after) = (self.voucher.to_string(), "-".to_owned());
        loop {
            let stream = &self.profile.stream.key;
            let page = letters_page(&mut self.conn, stream, &after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = format!("({}", last.letter);
            for letter in page.iter().filter(|it| it.value(&names.voucher) == Some(&sale)) {
                let user = letter.value(&names.user).map(str::to_owned);
                found.extend(user.map(|user| (letter.letter.clone(), user)));
            }
        }
    }

    /// Steps 2 to 4: moves the sale that the operator has seen. Without success, the stock key has its name again and there
    /// is no mark, unless Redis is unreachable or the outcome of the commit is unknown.
    ///
    /// # Errors
    /// The sale has changed, or a server is unreachable.
    pub async fn hand_over(&mut self, plan: &Plan, fence: &Fence) -> Result<()> {
        let Err(error) = self.fence_and_import(plan, fence).await else {
            faults::pass(Point::MigrationStep);
            return Ok(());
        };
        // The database may still commit.
        if self.claimed.is_none() || matches!(error, AttachError::Store(StoreError::Unknown(_))) {
            return Err(error);
        }
        if self.put_back(fence).await? { Err(error) } else { Ok(()) }
    }

    async fn fence_and_import(&mut self, plan: &Plan, fence: &Fence) -> Result<()> {
        let created = self.fence(plan, fence).await?;
        faults::pass(Point::MigrationStep);
        let is_same = self.plan().await? == *plan;
        let Traces { is_renamed, has_stock, .. } = self.traces().await?;
        if !is_same || !is_renamed || has_stock {
            return Err(AttachError::Mismatch(reason!("attach-move-changed")));
        }
        self.reserve_ids(plan).await?;
        let sale = Sale {
            voucher_id: self.voucher,
            title: plan.title.clone(),
            initial: plan.initial,
            stock: plan.initial,
            begin: plan.begin,
            end: plan.end,
            state: SaleState::Running,
            limit: 1,
            changed: created,
            version: 1,
            delivered: 0,
            created,
            spread: None,
        };
        let now = self.conn.now().await?;
        let imported = self.engine.store.import_sale(&sale, &plan.orders(now), now, fence).await;
        imported.map_err(AttachError::Store)
    }

    /// Marks the sale, and renames its stock, unless an earlier run has done so; returns when it is created in the engine.
    async fn fence(&mut self, plan: &Plan, fence: &Fence) -> Result<Millis> {
        if let Some(mark) = &self.claimed {
            return Ok(self.parsed(mark)?.created);
        }
        let created = self.conn.now().await?;
        let mark = self.mark_with(created, fence);
        let mut rename = scripts::ATTACH_FENCE.prepare_invoke();
        rename.key(self.stock()).key(self.renamed()).key(self.mark()).key(self.record());
        rename.key(self.profile.buyers(self.voucher)).arg(&mark);
        rename.arg(plan.redis_stock.unwrap_or_default()).arg(plan.buyers);
        // Whether it was written is unknown if the reply is lost: what follows compares the mark.
        self.claimed = Some(mark);
        let is_renamed = self.conn.invoke::<i8>(&rename).await? == 1;
        // A repeated call finds its own mark.
        if !is_renamed && self.traces().await?.mark_text != self.claimed {
            self.claimed = None;
            return Err(AttachError::Mismatch(reason!("attach-move-changed")));
        }
        Ok(created)
    }

    /// Gives the stock key its name again, unless the engine has the sale; returns whether it is the service that has it.
    ///
    /// # Errors
    /// Another run has begun, the service has loaded the stock again, or a server is unreachable.
    pub async fn put_back(&mut self, fence: &Fence) -> Result<bool> {
        // A transaction that would still import the sale has ended then.
        self.raise(fence).await?;
        if matches!(self.stage().await?, Stage::AtEngine | Stage::Moved) {
            return Ok(false);
        }
        let Traces { mark_text, is_renamed, .. } = self.traces().await?;
        // The script may not have arrived.
        if mark_text.is_some() || is_renamed {
            self.unfence().await?;
        }
        Ok(true)
    }

    async fn unfence(&mut self) -> Result<()> {
        let mut restore = scripts::ATTACH_UNFENCE.prepare_invoke();
        restore.key(self.stock()).key(self.renamed()).key(self.mark()).arg(self.claimed());
        let reply = self.conn.invoke(&restore).await?;
        self.done_by_script(reply)?;
        self.claimed = None;
        Ok(())
    }

    /// Pays the orders in the engine that the service has taken payments for since they were read; returns how many.
    pub async fn carry(&mut self) -> Result<u64> {
        let mut profile = self.profile.clone();
        self.database.omit_missing(&mut profile).await?;
        if profile.order.status.is_empty() {
            return Ok(0);
        }
        let rows = self.database.orders_of(&profile, self.voucher).await?;
        let paid = rows.iter().filter(|row| row.status == Some(OrderStatus::Paid as i64));
        let paid: HashSet<_> = paid.map(|row| (row.id, row.user.clone())).collect();
        let late: Vec<OrderId> = self
            .all_orders()
            .await?
            .iter()
            .filter(|it| it.status == OrderStatus::Unpaid)
            .filter(|it| paid.contains(&(it.id.as_i64(), it.user_id.to_string())))
            .map(|it| it.id)
            .collect();
        let mut carried = 0;
        for page in late.chunks(PAGE) {
            let now = self.engine.conn.now().await?;
            let results = self.engine.store.pay(page, now).await.map_err(AttachError::Store)?;
            carried += results.iter().filter(|it| **it == Payment::Paid).count() as u64;
        }
        Ok(carried)
    }

    /// Keeps the engine from issuing an ID of these orders again. The services count local time as UTC, so their newest
    /// IDs may be ahead by hours. An ID that is dated later, or whose number is higher than the engine ever issues in a
    /// day, comes from another kind of generator.
    async fn reserve_ids(&mut self, plan: &Plan) -> Result<()> {
        let Engine { keys, conn, .. } = &mut self.engine;
        let now = conn.now().await?.0.div_euclid(1_000);
        let days: Vec<_> = (0..=DAYS).map(|day| utc_day(now + day * 24 * 3_600)).collect();
        let mut highest = BTreeMap::new();
        for id in plan.orders.values().map(|it| it.id) {
            if days.contains(&id.day()) && id.sequence() < OUT_OF_REACH {
                let most = highest.entry(id.day()).or_insert(0);
                *most = id.sequence().max(*most);
            }
        }
        for (day, most) in highest {
            for of in keys.partitions() {
                let mut call = scripts::LEASE_IDS.prepare_invoke();
                call.key(of.sequence(day)).key(of.watermark());
                call.arg(day.to_string()).arg(0).arg(KEEP_SEQUENCE.as_secs());
                call.arg(most / u32::from(of.of()) + 1).arg(JUMP);
                conn.invoke::<u64>(&call).await?;
            }
        }
        Ok(())
    }

    /// Step 6, after the engine has loaded the sale. An entry whose order the engine does not have stays in the stream,
    /// unless the engine has a newer one of its user.
    ///
    /// # Errors
    /// The service has loaded the stock again, another group reads the stream, or a server is unreachable.
    pub async fn finish(&mut self) -> Result<()> {
        if let Some(found) = self.other_groups().await? {
            return Err(AttachError::Refused(found));
        }
        let Service { mut waiting, replaced, .. } = self.read().await?;
        let orders = self.all_orders().await?;
        let users: HashSet<_> = orders.iter().map(|it| Some(it.user_id)).collect();
        let orders: HashSet<_> = orders.iter().map(|it| (Some(it.user_id), Some(it.id))).collect();
        waiting.retain(|it| {
            let user = user_id(&it.user);
            let is_replaced = replaced.contains(&it.entry) && users.contains(&user);
            is_replaced || orders.contains(&(user, it.order.parse().ok()))
        });
        // First those that the newer ones show to be replaced.
        waiting.sort_by_key(|it| !replaced.contains(&it.entry));
        let ids: Vec<&str> = waiting.iter().map(|it| it.entry.as_str()).collect();
        for page in ids.chunks(PAGE) {
            self.delete(page).await?;
            faults::pass(Point::MigrationStep);
        }
        self.delete(&[]).await
    }

    /// Deletes these entries; without any, the renamed stock.
    async fn delete(&mut self, entries: &[&str]) -> Result<()> {
        let Stream { key, group } = &self.profile.stream;
        let mut finish = scripts::ATTACH_FINISH.prepare_invoke();
        finish.key(self.stock()).key(self.renamed()).key(self.mark()).key(key);
        finish.arg(self.claimed()).arg(group).arg(entries);
        let reply = self.conn.invoke(&finish).await?;
        self.done_by_script(reply)
    }
}
