//! Vouchers and sales: SQL first, Redis after the commit; but pieces are taken out of Redis first.

use std::time::{Duration, Instant};

use redis::cmd;
use seckill_model::{
    Millis, NewSale, OrderId, Sale, SaleId, SaleShard, SaleState, ShardId, UserId, VoucherDetails,
    VoucherId,
    faults::{self, Point},
    locale::in_english,
    reason::reason,
    sale::{check_restock, split},
};
use seckill_redis::{
    RedisError,
    keys::{CacheKeys, Partition},
    scripts,
};
use seckill_store::{Restocked, StoreError};

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::sale_copy::{self, Synced, fence_at, reject_behind, sync, try_sync},
    orders::ids::{Dates, IdWorker, second},
    recovery::{
        adoption::{adopt, adopt_each, shards_of},
        delivery::{deliver, deliver_each},
        reconcile::{await_restored, new_token},
    },
};

/// How long others wait for a stock reduction, whose pieces are out of Redis and not out of SQL. After that they undo it.
const CUT_WAIT: Duration = Duration::from_secs(5);
/// Maximum time for the SQL part of a stock reduction, and for undoing it.
const CUT_WITHIN: Duration = Duration::from_secs(3);
/// Maximum wait until no other process reduces the stock of the same sale.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// Interval between attempts meanwhile: most reductions take a few milliseconds.
const TURN_POLL: Duration = Duration::from_millis(5);

/// Maximum number of attempts to issue an ID while other processes without a node close the generation.
const ID_TRIES: u32 = 16;

/// Pieces to add to a sale, or to remove if negative; with a version, only if that is still the one of the sale.
type StockChange = (ShardId, i64, Option<u64>);

/// Changes vouchers and sales, over the connection of one task.
#[derive(Debug)]
pub struct Vouchers<'a> {
    /// The servers.
    pub servers: &'a mut Servers,
}

impl Vouchers<'_> {
    /// Creates an ordinary voucher.
    pub async fn create_voucher(&mut self, voucher: &VoucherDetails) -> Result<VoucherId> {
        self.reserve_numbers().await?;
        let id = self.servers.store.create_voucher(voucher, Millis::now()).await?;
        self.drop_cached(id, voucher.shop_id).await;
        Ok(id)
    }

    /// Buys an ordinary voucher for a user, directly in SQL: no stock, no limit, no stream. The order is unpaid.
    ///
    /// # Errors
    /// [`StoreError::Rule`] with the reason that the voucher cannot be bought; the database is unreachable, or Redis,
    /// which provides the ID counters and the clock.
    pub async fn buy(&mut self, voucher: VoucherId, user: UserId) -> Result<OrderId> {
        let of = self.partition_of(voucher);
        let mut tries = 1..ID_TRIES;
        let order = loop {
            match self.order_id(&of).await {
                Err(EngineError::Reconciling(_)) if tries.next().is_some() => {}
                issued => break issued?,
            }
        };
        let now = self.servers.conn.now().await?;
        match self.servers.store.buy(order, user, voucher, now).await {
            // The same order is written once, so it can be retried.
            Err(unknown @ StoreError::Unknown(_)) => {
                let again = self.servers.store.buy(order, user, voucher, now).await;
                again.map_err(|error| if error.is_away() { unknown } else { error })?;
            }
            bought => bought?,
        }
        Ok(order)
    }

    /// Issues the ID of one order.
    ///
    /// # Errors
    /// [`EngineError::Reconciling`] if Redis was restarted meanwhile, or another process has closed the generation of IDs.
    async fn order_id(&mut self, of: &Partition) -> Result<OrderId> {
        let mut ids = IdWorker::leasing(of.clone(), 1);
        // As in admission: a Redis that was restarted may have lost its newest increments.
        let reconciled = of.reconciled();
        let run = self.servers.conn.run_id(&reconciled).await?;
        ids.date_in(Dates::of_run(self.servers, of, &run, i64::MIN).await?);
        let now = self.servers.conn.now_at(&reconciled).await?;
        let issued = ids.issue_at(&mut self.servers.conn, 1, second(now)).await?;
        if self.servers.conn.run_id(&reconciled).await? != run {
            return Err(EngineError::Reconciling(reconciled));
        }
        issued.first().copied().ok_or(EngineError::Stopping)
    }

    /// Where orders of ordinary vouchers get their IDs.
    fn partition_of(&self, voucher: VoucherId) -> Partition {
        self.servers.keys.partition_of(ShardId::only(voucher))
    }

    /// Closes the generation of order IDs after a purchase of this voucher, successful or not, if no node is alive: otherwise later
    /// IDs would be dated ahead of the clock.
    ///
    /// # Errors
    /// Redis or the database is unreachable: later IDs may be up to a minute ahead.
    pub(crate) async fn close_ids(&mut self, voucher: VoucherId, dead_ms: u64) -> Result<()> {
        let of = self.partition_of(voucher);
        let Servers { store, conn, .. } = &mut *self.servers;
        Dates::close(store, conn, &of, dead_ms).await
    }

    /// Creates a sale: in SQL, then in Redis.
    ///
    /// # Errors
    /// [`EngineError::NotLoaded`] if it is in SQL and not in Redis yet: any node delivers it.
    pub async fn create(&mut self, sale: &NewSale) -> Result<Sale> {
        self.create_with(&VoucherDetails::titled(&sale.title), sale).await
    }

    /// Creates a sale whose voucher has this content.
    ///
    /// # Errors
    /// As [`Vouchers::create`]; [`EngineError::Rejected`] for more shards than partitions.
    pub async fn create_with(&mut self, voucher: &VoucherDetails, sale: &NewSale) -> Result<Sale> {
        let most = self.servers.keys.count();
        if sale.shards > most {
            let shards = sale.shards;
            return Err(EngineError::Rejected(reason!("error-shards", shards, most)));
        }
        self.reserve_numbers().await?;
        let (store, now) = (self.servers.store.clone(), Millis::now());
        let shards = store.create_sale_of(voucher, sale, now).await?;
        faults::pass(Point::AfterSaleCommit);
        let whole = whole(&shards)?;
        self.drop_cached(whole.voucher_id, voucher.shop_id).await;
        deliver_each(self.servers, &shards, "new").await?;
        Ok(whole)
    }

    /// Removes the null marker of a new voucher from the cache of the HTTP API. If that fails, it expires within seconds.
    async fn drop_cached(&mut self, voucher: VoucherId, shop: Option<u64>) {
        let Servers { conn, keys, .. } = &mut *self.servers;
        let shop = shop.map(|shop| keys.shop_cache(shop));
        for CacheKeys { entry, loading } in
            [Some(keys.voucher_cache(voucher)), shop].into_iter().flatten()
        {
            if let Err(error) = conn.query::<u64>(cmd("DEL").arg(entry).arg(loading)).await {
                tracing::debug!(%voucher, %error, "a new voucher may be missing in the cache");
            }
        }
    }

    /// Skips voucher IDs that Redis has seen, in case the database was rolled back. An unreachable server is not asked:
    /// two sales with one ID differ in their creation time.
    async fn reserve_numbers(&mut self) -> Result<()> {
        let mut highest = 0;
        let Servers { conn, keys, .. } = &mut *self.servers;
        conn.probe(keys).await;
        for of in conn.reachable(keys) {
            let read = cmd("HGET").arg(of.watermark()).arg("voucher").take();
            match conn.query::<Option<u64>>(&read).await {
                Ok(seen) => highest = highest.max(seen.unwrap_or(0)),
                Err(error) => {
                    tracing::debug!(%error, partition = of.number(), "its highest voucher ID is unknown");
                }
            }
        }
        conn.forget_lost();
        let last = VoucherId(highest.saturating_sub(1));
        if highest > 0 && self.servers.store.vouchers(Some(last), 1).await?.is_empty() {
            self.servers.store.reserve_numbers(VoucherId(highest)).await?;
        }
        Ok(())
    }

    /// Opens a planned sale now, by the clock of Redis.
    pub async fn start(&mut self, sale: impl Into<SaleId>) -> Result<Sale> {
        let sale = whole(&shards_of(self.servers, sale.into()).await?)?;
        let (id, voucher) = (sale.id(), sale.voucher_id);
        if sale.state == SaleState::Paused {
            return Err(EngineError::Rejected(reason!("error-is-paused", sale = voucher)));
        }
        let now = self.servers.conn.now().await?;
        let open = sale.begin.is_none_or(|begin| begin <= now);
        if sale.state == SaleState::Running && open {
            return Err(EngineError::Rejected(reason!("error-has-started", sale = voucher)));
        }
        self.set_state(id, SaleState::Running, Some(now)).await
    }

    /// Sets the state that the operator chose for a sale, and its begin if one is given: in SQL, then in each shard in
    /// Redis. After an error, repeating it completes the change. If SQL was set back, it first adopts a sale that is to be
    /// paused or ended.
    ///
    /// # Errors
    /// If the sale is to be started or resumed, [`EngineError::SqlBehind`] if SQL was set back, and [`EngineError::Unchecked`] if
    /// that is unknown; nothing is changed then.
    pub async fn set_state(
        &mut self,
        sale: impl Into<SaleId>,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale> {
        let sale = sale.into();
        let shards = match self.write_state(sale, state, begin).await {
            Err(EngineError::SqlBehind(_)) if state > SaleState::Running => {
                let mut shards = Vec::new();
                for part in self.servers.store.shards_of(sale).await? {
                    shards.push(part.id);
                }
                adopt_each(self.servers, &shards, true).await?;
                self.write_state(sale, state, begin).await?
            }
            written => written?,
        };
        faults::pass(Point::AfterChangeCommit);
        deliver_each(self.servers, &shards, "").await?;
        whole(&shards)
    }

    /// The part of [`Vouchers::set_state`] in SQL.
    async fn write_state(
        &mut self,
        sale: SaleId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Vec<SaleShard>> {
        let parts = shards_of(self.servers, sale).await?;
        let stops = state > SaleState::Running;
        let held = &self.held(&parts, stops).await?;
        let store = &self.servers.store;
        let mut written = match store.set_state(sale, state, begin, held).await {
            // Buyers depend on Redis: it must not keep the old state if SQL has the new one. Repeating the request is
            // idempotent.
            Err(unknown @ StoreError::Unknown(_)) => {
                let again = store.set_state(sale, state, begin, held).await;
                again.map_err(|error| if error.is_away() { unknown } else { error })?
            }
            other => other.map_err(behind)?,
        };
        // If SQL was restored in this state, Redis may have gone on: what does not reply gets the stop as a new version.
        let is_unasked = |part: &SaleShard| held.iter().all(|(shard, _)| *shard != part.id);
        for part in &mut written {
            if stops
                && part.state != SaleState::Archived
                && is_unasked(part)
                && !part.is_undelivered()
            {
                *part = fence_at(store, part.id, part.version).await?;
            }
        }
        Ok(written)
    }

    /// The versions of shards that Redis holds, before a change that is written to SQL first. What SQL has is delivered before:
    /// then the change builds on a version that has the same content on both sides.
    ///
    /// If the version of the sale in Redis is unknown, only a change that `stops` it is made, without them: several others
    /// could pass the versions that Redis has. Of a sale over shards, those that reply show whether SQL was set back.
    async fn held(&mut self, parts: &[SaleShard], stops: bool) -> Result<Vec<(ShardId, u64)>> {
        let (mut held, mut unchecked) = (Vec::new(), None);
        for part in parts.iter().filter(|part| part.state != SaleState::Archived) {
            let version = match try_sync(self.servers, part, "").await {
                Ok(Synced::Newer(version)) => Some(version),
                Ok(Synced::Damaged) => self.damaged_version(part, stops).await?,
                Ok(Synced::Split) => {
                    adopt(self.servers, part.id, stops).await?;
                    sale_copy::version(self.servers, part.id).await
                }
                // Its delivery says that it is another sale.
                Ok(_) | Err(EngineError::OtherSale(_)) => Some(part.version),
                Err(EngineError::Redis(_)) => None,
                Err(error) => return Err(error),
            };
            match version {
                Some(version) => held.push((part.id, version)),
                None => unchecked = Some(part.voucher_id),
            }
        }
        match unchecked {
            Some(sale) if held.is_empty() && !stops => Err(EngineError::Unchecked(sale)),
            _ => Ok(held),
        }
    }

    /// The newest version that Redis has had of a damaged shard, that of SQL if nothing is left of it; `None` if Redis does not
    /// reply. If Redis may have this version of SQL with another content, the shard is reconciled before, unless the change
    /// `stops` the sale.
    async fn damaged_version(&mut self, part: &SaleShard, stops: bool) -> Result<Option<u64>> {
        let version = match sale_copy::read(self.servers, part.id).await {
            Err(EngineError::Redis(_)) => return Ok(None),
            held => held?.filter(|held| !held.is_of_other(part)).and_then(|held| held.version),
        };
        if part.is_undelivered() && version == Some(part.version) && !stops {
            match Box::pin(deliver(self.servers, part, "")).await {
                // What is not delivered is an earlier change.
                Err(EngineError::NotLoaded { voucher, .. }) => {
                    return Err(EngineError::Unchecked(voucher));
                }
                delivered => delivered?,
            }
            return Ok(sale_copy::version(self.servers, part.id).await);
        }
        Ok(version.or(Some(part.version)))
    }

    /// Adds pieces to a sale, to each of its shards alike, or removes unsold ones if `by` is negative. Returns the initial
    /// stock of the whole sale that was committed.
    ///
    /// # Errors
    /// [`EngineError::Failed`] if Redis has fewer unsold pieces, [`StoreError::Changed`] if the sale was changed
    /// concurrently, [`EngineError::SqlBehind`] if SQL was set back, [`EngineError::Unchecked`] if that is unknown; nothing is
    /// changed then.
    pub async fn restock(&mut self, sale: impl Into<SaleId>, by: i64) -> Result<u64> {
        let by = check_restock(by).map_err(EngineError::Rejected)?;
        let parts = shards_of(self.servers, sale.into()).await?;
        let changed = if by > 0 {
            check_limits(&parts, by)?;
            let held = self.held(&parts, false).await?;
            self.add(&spread(&parts, by), &held).await?
        } else {
            self.remove(&parts, by.unsigned_abs()).await.map_err(|why| match why {
                // SQL follows Redis, where a reply may have been lost.
                EngineError::Redis(_) => EngineError::BrokeOff {
                    why: Box::new(why),
                    done: reason!("done-nothing-in-sql"),
                },
                why => why,
            })?
        };
        Ok(changed.initial)
    }

    /// Moves unsold pieces between shards of a sale: out of Redis, from one to the other in one transaction of SQL, and
    /// into Redis. As many are given as are taken. A process that dies in between leaves either what was before, once nodes
    /// no longer wait for it, or a committed change, which any node delivers. Returns whether they were moved: not if
    /// another process changes one of the shards.
    ///
    /// # Errors
    /// As [`Vouchers::restock`].
    pub async fn move_pieces(
        &mut self,
        from: &[(ShardId, u64)],
        to: &[(ShardId, u64)],
    ) -> Result<bool> {
        let mut parts = Vec::new();
        for (shard, _) in to {
            parts.push(self.servers.store.shard(*shard).await?);
        }
        let held = self.held(&parts, false).await?;
        Ok(self.cut(from, to, &held, true).await?.is_some())
    }

    /// Adds pieces in SQL, then in Redis. A commit with an unknown outcome is not retried, because that could add them
    /// twice; Redis is updated from SQL, so that both agree.
    async fn add(&mut self, changes: &[StockChange], held: &[(ShardId, u64)]) -> Result<Restocked> {
        let error = match self.servers.store.restock(changes, held).await {
            Err(error @ StoreError::Unknown(_)) => error,
            other => return self.deliver_all(other.map_err(behind)?).await,
        };
        for (shard, ..) in changes {
            if let Err(why) = self.resync(*shard).await {
                tracing::warn!(%shard, %why, "the sale is not synced to Redis yet");
            }
        }
        Err(error.into())
    }

    async fn deliver_all(&mut self, changed: Restocked) -> Result<Restocked> {
        faults::pass(Point::AfterChangeCommit);
        // Those that gain pieces first: until the others are delivered, they do not count as sold out.
        deliver_each(self.servers, changed.shards.iter().rev(), "").await?;
        Ok(changed)
    }

    /// Chooses the shards from which unsold pieces are removed, those with the most first.
    async fn unsold(&mut self, parts: &[SaleShard], by: u64) -> Result<Vec<(ShardId, u64)>> {
        let voucher = match parts {
            [only] => return Ok(vec![(only.id, by)]),
            _ => whole(parts)?.voucher_id,
        };
        let mut stocks = Vec::new();
        for part in parts {
            let id = part.id;
            let read = cmd("GET").arg(self.servers.keys.stock(id)).to_owned();
            let stock: Option<u64> = self.servers.conn.query(&read).await?;
            stocks.push((stock.unwrap_or(0), id));
        }
        stocks.sort_unstable_by(|one, other| other.cmp(one));
        let (mut missing, mut chosen) = (by, Vec::new());
        for &(stock, id) in &stocks {
            let pieces = stock.min(missing);
            if pieces > 0 {
                chosen.push((id, pieces));
                missing -= pieces;
            }
        }
        if missing > 0 {
            let why = reason!("error-short", sale = voucher, by, left = by - missing);
            return Err(EngineError::Failed(why));
        }
        check_limits(parts, -(by as i64))?;
        Ok(chosen)
    }

    /// Removes unsold pieces of a sale, as soon as no other process does.
    async fn remove(&mut self, parts: &[SaleShard], by: u64) -> Result<Restocked> {
        let until = Instant::now() + TURN_WITHIN;
        let mut has_nodes = true;
        for part in parts {
            has_nodes &= await_restored(self.servers, part.id).await?;
        }
        loop {
            if let Some(seen) = self.free(parts).await? {
                match self.unsold(parts, by).await {
                    Ok(pieces) => {
                        if let Some(changed) = self.cut(&pieces, &[], &[], has_nodes).await? {
                            return Ok(changed);
                        }
                    }
                    // Pieces that move from a shard to one that was read before are in neither number.
                    Err(short @ EngineError::Failed(_)) => {
                        if self.free(parts).await? == Some(seen) {
                            return Err(short);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            if Instant::now() > until {
                return Err(StoreError::Changed(whole(parts)?.voucher_id).into());
            }
            tokio::time::sleep(TURN_POLL).await;
        }
    }

    /// The versions of the parts of a sale; `None` while a process removes pieces from one of them.
    async fn free(&mut self, parts: &[SaleShard]) -> Result<Option<Vec<u64>>> {
        let (mut versions, mut is_free) = (Vec::with_capacity(parts.len()), true);
        for part in parts {
            let sale = self.servers.store.shard(part.id).await?;
            let synced = sync(self.servers, &sale, "").await?;
            match synced {
                Synced::Newer(held) => reject_behind(self.servers, part.id, held).await?,
                Synced::Split => {
                    adopt(self.servers, part.id, false).await?;
                }
                _ => {}
            }
            is_free &= !matches!(synced, Synced::Cutting | Synced::Expired | Synced::Split);
            versions.push(sale.version);
        }
        Ok(is_free.then_some(versions))
    }

    /// Removes pieces from Redis first, which has buyers that SQL does not know yet, then from SQL, and restores them
    /// if SQL refuses. SQL adds pieces to the shards in `to` in the same transaction. Without a change `None` if another
    /// process changes one of them: nothing waits while it holds pieces.
    async fn cut(
        &mut self,
        pieces: &[(ShardId, u64)],
        to: &[(ShardId, u64)],
        held: &[(ShardId, u64)],
        has_nodes: bool,
    ) -> Result<Option<Restocked>> {
        let (token, mut changes) = (new_token(), Vec::new());
        // In the same order in each process: of two, one succeeds.
        let mut pieces = pieces.to_vec();
        pieces.sort_unstable();
        for (shard, by) in pieces {
            match self.take_out(shard, by, &token, has_nodes).await {
                Ok(Some(seen)) => changes.push((shard, -(by as i64), Some(seen))),
                other => {
                    self.undo(&changes).await;
                    return other.map(|_| None);
                }
            }
        }
        faults::pass(Point::AfterCut);
        changes.extend(to.iter().map(|(to, by)| (*to, *by as i64, None)));
        let writing = self.servers.store.restock(&changes, held);
        let error = match tokio::time::timeout(CUT_WITHIN, writing).await {
            Ok(Ok(changed)) => return self.deliver_all(changed).await.map(Some),
            Ok(Err(error)) => error,
            Err(_) => {
                let seconds = CUT_WITHIN.as_secs();
                StoreError::Unknown(reason!("store-no-answer-within-s", seconds))
            }
        };
        self.undo(&changes).await;
        Err(behind(error))
    }

    /// Removes the pieces from Redis; returns the version in SQL that this was based on, or `None` if another process
    /// changes the sale.
    async fn take_out(
        &mut self,
        shard: ShardId,
        by: u64,
        token: &str,
        has_nodes: bool,
    ) -> Result<Option<u64>> {
        let sale = self.servers.store.shard(shard).await?;
        if matches!(sale.state, SaleState::Ended | SaleState::Archived) {
            return Err(StoreError::Ended(sale.voucher_id).into());
        }
        let Servers { conn, keys, .. } = &mut *self.servers;
        let (key, of) = (keys.sale(shard), keys.partition_of(shard));
        let run = if has_nodes { conn.run_id(&key).await? } else { String::new() };
        let mut call = scripts::CUT.prepare_invoke();
        call.key(&keys.sale_keys(shard)).key(of.watermark());
        call.arg(by).arg(sale.version).arg(CUT_WAIT.as_millis() as u64).arg(token).arg(run);
        let answer: Result<(String, i64), RedisError> = conn.invoke(&call).await;
        let (word, left) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // It may have run, or still run: only its reply is missing.
                let cutter: Result<Option<String>, _> =
                    conn.query(cmd("HGET").arg(&key).arg("cutter")).await;
                // While another process removes pieces at this version, it cannot.
                if cutter.is_ok_and(|cutter| cutter.is_none_or(|cutter| cutter == token)) {
                    self.undo(&[(shard, -(by as i64), Some(sale.version))]).await;
                }
                return Err(error.into());
            }
        };
        match word.as_str() {
            "cut" => Ok(Some(sale.version)),
            "short" => {
                let why = reason!("error-short", sale = sale.voucher_id, by, left = left.max(0));
                Err(EngineError::Failed(why))
            }
            "not_loaded" => Err(EngineError::NotHeld(sale.voucher_id)),
            "changed" | "cutting" => Ok(None),
            "not_reconciled" => Err(EngineError::Reconciling(key)),
            _ => Err(RedisError::reply("cut.lua").into()),
        }
    }

    /// Updates the sale in Redis from SQL.
    async fn resync(&mut self, shard: ShardId) -> Result<()> {
        let sale = self.servers.store.shard(shard).await?;
        deliver(self.servers, &sale, "").await
    }

    /// Puts pieces back that this process has taken out of Redis and SQL has not: first SQL is fenced, so that a commit
    /// whose outcome is unknown has happened or never will. If that fails, a node does it once others no longer wait.
    async fn undo(&mut self, changes: &[StockChange]) {
        for (shard, _, seen) in changes {
            let Some(seen) = *seen else { continue };
            let undoing = async {
                let sale = fence_at(&self.servers.store, *shard, seen).await?;
                try_sync(self.servers, &sale, "").await
            };
            let why = match tokio::time::timeout(CUT_WITHIN, undoing).await {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => in_english(|| error.to_string()),
                Err(_) => "timeout".to_owned(),
            };
            tracing::warn!(%shard, why, "the pieces of a failed removal are not restored yet");
        }
    }
}

/// Spreads pieces over the parts of a sale, as evenly as possible.
fn spread(parts: &[SaleShard], by: i64) -> Vec<StockChange> {
    let shares = parts.iter().zip(split(by.unsigned_abs(), parts.len() as u64));
    let shares = shares.map(|(part, share)| (part.id, share as i64, None));
    shares.filter(|(_, share, _)| *share > 0).collect()
}

/// Rejects a change of a sale over shards by the figures of the sale: those of one shard are no limits.
fn check_limits(parts: &[SaleShard], by: i64) -> Result<()> {
    let [_, _, ..] = parts else { return Ok(()) };
    Ok(seckill_store::check_restock(&whole(parts)?, by, None, 1)?)
}

/// The error of a change of a sale that SQL has in an older version than Redis.
fn behind(error: StoreError) -> EngineError {
    match error {
        StoreError::Behind(sale) => EngineError::SqlBehind(sale),
        error => error.into(),
    }
}

fn whole(parts: &[SaleShard]) -> Result<Sale> {
    Ok(Sale::whole(parts).ok_or(StoreError::NoSale(VoucherId(0)))?)
}
