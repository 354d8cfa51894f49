//! Moves a sale from a service to the engine, and back. It is never on sale on both sides.
//!
//! **There.**
//!
//! 1. The mark `STOCK:moved` names the deployment of the engine, and the time at which the sale is created there.
//! 2. The stock key is renamed to `STOCK:moving`. The script of the service fails without a stock, so no user buys.
//! 3. The sale is read again. If it differs from the plan that the operator has seen, the key is renamed back.
//! 4. One transaction inserts the sale and all its orders into the SQL of the engine. The sale moves with this commit.
//! 5. The engine loads the sale into Redis from its SQL, as it does when Redis has lost it.
//! 6. The entries of the sale that are in flight are acknowledged and deleted, and then the renamed key. Set, rows and mark
//!    remain.
//!
//! Before the commit, the engine does not know the sale. After it, the service has no stock key. A run that was killed
//! before the commit leaves the renamed key: the next run continues, or renames it back. After the commit, the next run
//! finds a sale with the time of the mark in SQL, and completes steps 5 and 6, which may be repeated. Two runs at once are
//! excluded by the operator lock of the engine, which the caller holds.
//!
//! The order of an entry in flight is written to SQL with the others, because a transaction in SQL cannot contain an entry
//! of a stream: a crash between the two would leave a buyer without an order.
//!
//! **Back** (`back`).
//!
//! 1. The sale of the engine is ended for good, which a key of the service records, and read again.
//! 2. One transaction writes the missing rows, the statuses and the stock into the tables of the service.
//! 3. One transaction in Redis replaces the set, writes the stock and removes the mark and the record. The sale moves with it.
//! 4. The sale of the engine is archived.
//!
//! While there is a mark, the next run repeats these steps, each of which replaces what it wrote before. Without one, it
//! only archives the sale, provided that the service has all its orders.

mod back;
mod plan;
mod proof;

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use redis::{Pipeline, cmd, pipe};
use seckill_model::{
    ForeignKey, Millis, Reason, Sale, SaleState, VoucherId,
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
    profile::Stream,
    recover::letters_page,
    stream::{self, Waiting},
};

/// Names of the renamed stock, of the mark, and of the trace of a return, after that of the stock.
pub(crate) const MOVING: &str = ":moving";
pub(crate) const MOVED: &str = ":moved";
pub(crate) const RETURNING: &str = ":returning";
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

/// The mark of a sale that moves to an engine, or has moved.
pub(crate) fn mark_of(profile: &Profile, voucher: VoucherId) -> String {
    profile.stock(voucher) + MOVED
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
}

/// The sale as the service has it, read in the direction in which an order moves.
struct Service {
    keys: SaleKeys,
    members: HashSet<String>,
    waiting: Vec<Waiting>,
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
        Ok(Self { profile, voucher, options, conn, database, url, settings, engine })
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

    /// When the sale was or will be created in the engine, by the mark.
    async fn created(&mut self) -> Result<Option<Millis>> {
        let key = self.mark();
        let mark: Option<String> = self.conn.query(cmd("GET").arg(&key)).await?;
        let Some(mark) = mark else { return Ok(None) };
        let (name, created) = mark.split_once(' ').unwrap_or_default();
        match created.parse() {
            Ok(created) if name == self.engine.name => Ok(Some(Millis(created))),
            _ => Err(AttachError::Mismatch(reason!("attach-move-elsewhere", key))),
        }
    }

    /// The sale of the engine with this ID, also one that no migration made.
    async fn engine_sale(&self) -> Result<Option<Sale>> {
        match self.engine.store.sale(self.voucher).await {
            Ok(sale) => Ok(Some(sale)),
            Err(StoreError::NoSale(_)) => Ok(None),
            Err(error) => Err(AttachError::Store(error)),
        }
    }

    /// Whether the engine has the sale that this service has marked.
    async fn has_moved(&mut self) -> Result<bool> {
        let created = self.created().await?;
        let sale = self.engine_sale().await?;
        Ok(sale.zip(created).is_some_and(|(sale, created)| sale.created == created))
    }

    /// How far earlier runs have moved the sale.
    ///
    /// # Errors
    /// The service has loaded the stock of a sale that has moved, or has moved it to another engine.
    pub async fn stage(&mut self) -> Result<Stage> {
        let has_moved = self.has_moved().await?;
        let is_renamed = self.exists(&self.renamed()).await?;
        if has_moved && self.exists(&self.stock()).await? {
            return Err(self.reloaded());
        }
        Ok(match (has_moved, is_renamed) {
            (false, false) => Stage::AtService,
            (false, true) => Stage::Fenced,
            (true, true) => Stage::AtEngine,
            (true, false) => Stage::Moved,
        })
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
        Ok(Service { keys, members, waiting, unreadable, set_aside, consumers, row, orders })
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

    /// Steps 1 to 4: moves the sale that the operator has seen. Without success, the stock key has its name again and there
    /// is no mark, unless Redis is unreachable or the outcome of the commit is unknown.
    ///
    /// # Errors
    /// The sale has changed, or a server is unreachable.
    pub async fn hand_over(&mut self, plan: &Plan) -> Result<()> {
        let Err(error) = self.fence_and_import(plan).await else {
            faults::pass(Point::MigrationStep);
            return Ok(());
        };
        if self.has_moved().await? {
            return Ok(());
        }
        // The database may still commit.
        if !matches!(error, AttachError::Store(StoreError::Unknown(_))) {
            self.put_back().await?;
        }
        Err(error)
    }

    async fn fence_and_import(&mut self, plan: &Plan) -> Result<()> {
        let created = self.conn.now().await?;
        let mark = format!("{} {}", self.engine.name, created.0);
        let mut write = cmd("SET");
        write.arg(self.mark()).arg(mark).arg("NX");
        self.conn.query::<Option<String>>(&write).await?;
        // An earlier run has chosen another time.
        let created = self.created().await?.unwrap_or(created);
        faults::pass(Point::MigrationStep);
        if !self.exists(&self.renamed()).await? {
            let mut rename = cmd("RENAMENX");
            rename.arg(self.stock()).arg(self.renamed());
            self.conn.query::<bool>(&rename).await?;
        }
        faults::pass(Point::MigrationStep);
        if self.plan().await? != *plan {
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
            shard: None,
        };
        let now = self.conn.now().await?;
        let imported = self.engine.store.import_sale(&sale, &plan.orders(now), now).await;
        imported.map_err(AttachError::Store)
    }

    /// Gives the stock key its name again. The engine does not know the sale.
    pub async fn put_back(&mut self) -> Result<()> {
        let (stock, renamed) = (self.stock(), self.renamed());
        if self.exists(&renamed).await? {
            let restored: bool = self.conn.query(cmd("RENAMENX").arg(&renamed).arg(&stock)).await?;
            if !restored {
                return Err(self.reloaded());
            }
        }
        let mark = self.mark();
        Ok(self.conn.query(cmd("DEL").arg(mark)).await?)
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

    /// Step 6, after the engine has loaded the sale. An entry whose order the engine does not have stays in the stream.
    ///
    /// # Errors
    /// The service has loaded the stock again, another group reads the stream, or a server is unreachable.
    pub async fn finish(&mut self) -> Result<()> {
        if self.exists(&self.stock()).await? {
            return Err(self.reloaded());
        }
        if let Some(found) = self.other_groups().await? {
            return Err(AttachError::Refused(found));
        }
        let mut waiting = self.read().await?.waiting;
        let orders = self.all_orders().await?;
        let orders: HashSet<_> = orders.iter().map(|it| (Some(it.user_id), Some(it.id))).collect();
        waiting.retain(|it| orders.contains(&(user_id(&it.user), it.order.parse().ok())));
        let (key, group) = (&self.profile.stream.key, &self.profile.stream.group);
        for page in waiting.chunks(PAGE) {
            let ids: Vec<&str> = page.iter().map(|it| it.entry.as_str()).collect();
            let mut drop: Pipeline = pipe();
            drop.atomic().cmd("XACK").arg(key).arg(group).arg(&ids).ignore();
            drop.cmd("XDEL").arg(key).arg(&ids).ignore();
            self.conn.pipe::<()>(&drop).await?;
            faults::pass(Point::MigrationStep);
        }
        let renamed = self.renamed();
        Ok(self.conn.query(cmd("DEL").arg(renamed)).await?)
    }
}
