//! Vouchers and sales: creation, lists, state changes, restocking.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use seckill_model::{
    Fence, Millis, NewSale, OrderStatus, Sale, SaleId, SaleOrder, SaleShard, SaleState, ShardId,
    Spread, Voucher, VoucherDetails, VoucherId, VoucherKind, reason, sale::split,
};

use super::{
    jobs::pass_fence,
    orders::{lock_shards, shard_key},
};
use crate::{
    Conn, Dialect, Fault, OrderRow, Result, Store, StoreError, params, read,
    rules::{self, number, voucher_key},
    transaction,
};

/// Each shard of a sale, or the sale that is not spread.
const SELECT: &str = "SELECT s.voucher_id, v.title, s.begin_time, s.end_time, s.state, s.user_limit, s.archive_time, \
     s.create_time, s.shards, COALESCE(p.shard, 0) AS shard, \
     COALESCE(p.initial_stock, s.initial_stock) AS initial_stock, COALESCE(p.stock, s.stock) AS stock, \
     COALESCE(p.version, s.version) AS version, COALESCE(p.update_time, s.update_time) AS update_time, \
     COALESCE(p.delivered_version, s.delivered_version) AS delivered_version \
     FROM tb_seckill_voucher s JOIN tb_voucher v ON v.id = s.voucher_id \
     LEFT JOIN tb_shard_stock p ON p.voucher_id = s.voucher_id";

/// Sales as SQL has them.
#[derive(Clone, Debug, Default)]
pub struct Sales {
    /// The shards of those that can be read.
    pub shards: Vec<SaleShard>,
    /// The others.
    pub unreadable: Vec<UnreadableSale>,
}

/// What a change of stock has committed.
#[derive(Clone, Debug)]
pub struct Restocked {
    /// The changed shards.
    pub shards: Vec<SaleShard>,
    /// The initial stock of the whole sale, or of all changed sales together, as of this change.
    pub initial: u64,
}

/// A sale of which a row has a value that no version of this program has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableSale {
    /// The sale.
    pub voucher: VoucherId,
    /// The error.
    pub why: StoreError,
}

impl UnreadableSale {
    /// The error, which names the sale.
    pub fn error(self) -> StoreError {
        let (voucher, why) = (self.voucher, self.why.reason());
        StoreError::Rejected(reason!("store-reason-unreadable-sale", voucher, why))
    }
}

impl Sales {
    /// Without the other shards of a sale that cannot be read: their sum would not be that of the sale.
    fn of(rows: Vec<Result<SaleShard, (VoucherId, Fault)>>, dialect: &Dialect) -> Self {
        let mut sales = Self::default();
        for row in rows {
            match row {
                Ok(shard) => sales.shards.push(shard),
                Err((voucher, _)) if sales.is_unreadable(voucher) => {}
                Err((voucher, why)) => {
                    sales
                        .unreadable
                        .push(UnreadableSale { voucher, why: why.store_error(dialect) });
                }
            }
        }
        let shards = mem::take(&mut sales.shards);
        let readable = shards.into_iter().filter(|it| !sales.is_unreadable(it.voucher_id));
        sales.shards = readable.collect();
        sales
    }

    /// Whether a row of this sale cannot be read.
    pub fn is_unreadable(&self, voucher: VoucherId) -> bool {
        self.unreadable.iter().any(|it| it.voucher == voucher)
    }
}

/// Rows of one statement that imports orders.
const IMPORTED: usize = 500;
/// Orders that one statement locks while those of a sale are frozen.
const LOCKED: u32 = 5_000;

/// An order of another service, as it is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedOrder {
    /// The order.
    pub order: SaleOrder,
    /// Its status.
    pub status: OrderStatus,
    /// When it was written.
    pub created: Millis,
    /// When it was paid.
    pub paid: Option<Millis>,
    /// How it is paid, as the service counts.
    pub pay_type: i8,
}

impl ImportedOrder {
    /// Its values in SQL, all of them numbers.
    fn values(&self, now: Millis) -> Result<String> {
        let OrderRow { id, user_id, voucher_id, shard, buyer_place: place } =
            (&self.order).try_into()?;
        let (status, created, pay_type) = (self.status as i64, self.created.0, self.pay_type);
        let paid = self.paid.map_or_else(|| "NULL".to_owned(), |paid| paid.0.to_string());
        let now = now.0;
        Ok(format!(
            "({id}, {user_id}, {voucher_id}, {shard}, {place}, {status}, {created}, {paid}, {pay_type}, {now})"
        ))
    }
}

impl Store {
    /// Creates an ordinary voucher: one without stock or window.
    pub async fn create_voucher(&self, voucher: &VoucherDetails, now: Millis) -> Result<VoucherId> {
        transaction!(self, |conn| insert_voucher(conn, voucher, VoucherKind::Ordinary, now).await)
    }

    /// Reserves the voucher IDs up to this one.
    pub async fn reserve_numbers(&self, upto: VoucherId) -> Result<()> {
        let upto = voucher_key(upto)?;
        transaction!(self, |conn| reserve_numbers(conn, upto).await)
    }

    /// Creates a flash-sale voucher, which has only a title, and its sale in one transaction.
    pub async fn create_sale(&self, sale: &NewSale, now: Millis) -> Result<Sale> {
        let shards = self.create_sale_of(&VoucherDetails::titled(&sale.title), sale, now).await?;
        Sale::whole(&shards).ok_or(StoreError::NoSale(VoucherId(0)))
    }

    /// Creates a flash-sale voucher with this content, its sale and the shards of the sale, in one transaction.
    pub async fn create_sale_of(
        &self,
        details: &VoucherDetails,
        sale: &NewSale,
        now: Millis,
    ) -> Result<Vec<SaleShard>> {
        transaction!(self, |conn| {
            let voucher = insert_voucher(conn, details, VoucherKind::Sale, now).await?;
            insert_sale(conn, voucher, sale, now).await?;
            select_shards(conn, voucher.into()).await
        })
    }

    /// A page of vouchers of both kinds, by ID.
    pub async fn vouchers(&self, after: Option<VoucherId>, limit: u32) -> Result<Vec<Voucher>> {
        let query = "SELECT id, type, title, shop_id, sub_title, rules, pay_value, actual_value, \
             status FROM tb_voucher WHERE id > $1 ORDER BY id LIMIT $2";
        let after = after.unwrap_or(VoucherId(0));
        read!(self, |conn| conn.rows(query, params![after, limit]).await)
    }

    /// One voucher of either kind.
    pub async fn voucher(&self, voucher: VoucherId) -> Result<Option<Voucher>> {
        let query = "SELECT id, type, title, shop_id, sub_title, rules, pay_value, actual_value, \
             status FROM tb_voucher WHERE id = $1";
        read!(self, |conn| conn.row(query, params![voucher]).await)
    }

    /// The vouchers of a shop, newest first, at most `limit`.
    pub async fn vouchers_of_shop(&self, shop: u64, limit: u32) -> Result<Vec<VoucherId>> {
        let shop = number(shop)?;
        let query = "SELECT id FROM tb_voucher WHERE shop_id = $1 ORDER BY id DESC LIMIT $2";
        read!(self, |conn| conn.rows(query, params![shop, limit]).await)
    }

    /// The shards of all sales that are not archived, newest sale first.
    ///
    /// # Errors
    /// Also of the first sale that cannot be read, which it names.
    pub async fn sales(&self) -> Result<Vec<SaleShard>> {
        let Sales { shards, unreadable } = self.readable_sales().await?;
        unreadable.into_iter().next().map_or(Ok(shards), |it| Err(it.error()))
    }

    /// The same, and the sales that cannot be read.
    pub async fn readable_sales(&self) -> Result<Sales> {
        self.select("WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC, p.shard").await
    }

    /// Shards with a change not yet confirmed by Redis, those of archived sales included, by ID; without sales that cannot
    /// be read.
    pub async fn undelivered(&self) -> Result<Vec<SaleShard>> {
        let sales = self.select(
            "WHERE s.voucher_id IN (\
               SELECT voucher_id FROM tb_seckill_voucher WHERE delivered_version < version \
               UNION ALL SELECT voucher_id FROM tb_shard_stock WHERE delivered_version < version) \
             AND COALESCE(p.delivered_version, s.delivered_version) < COALESCE(p.version, s.version) \
             ORDER BY s.voucher_id, p.shard",
        );
        Ok(sales.await?.shards)
    }

    async fn select(&self, condition: &str) -> Result<Sales> {
        read!(self, |conn| {
            let rows = conn.rows(format!("{SELECT} {condition}"), params![]).await?;
            Ok(Sales::of(rows, conn.dialect()))
        })
    }

    /// The version of each shard of the sales that are not archived.
    pub async fn current_versions(&self) -> Result<BTreeMap<ShardId, u64>> {
        let query = "SELECT v.voucher_id, COALESCE(s.shard, 0), COALESCE(s.version, v.version) \
             FROM tb_seckill_voucher v LEFT JOIN tb_shard_stock s ON s.voucher_id = v.voucher_id \
             WHERE v.archive_time IS NULL";
        let found: Vec<(u64, u16, u64)> = read!(self, |conn| conn.rows(query, params![]).await)?;
        let shard = |(sale, number, version)| (ShardId { sale: SaleId(sale), number }, version);
        Ok(found.into_iter().map(shard).collect())
    }

    /// A page of archived sales, newest first.
    pub async fn archived(&self, before: Option<VoucherId>, limit: u32) -> Result<Vec<Sale>> {
        let shards: Vec<SaleShard> = read!(self, |conn| {
            let query = "SELECT voucher_id FROM tb_seckill_voucher \
                 WHERE voucher_id < $1 AND archive_time IS NOT NULL \
                 ORDER BY voucher_id DESC LIMIT $2";
            let before = before.unwrap_or(VoucherId(u64::MAX));
            let ids: Vec<i64> = conn.rows(query, params![before, limit]).await?;
            let query = format!("{SELECT} WHERE s.voucher_id = ANY($1)");
            if ids.is_empty() { Ok(Vec::new()) } else { conn.rows(query, params![ids]).await }
        })?;
        let mut sales: BTreeMap<SaleId, Vec<SaleShard>> = BTreeMap::new();
        for shard in shards {
            sales.entry(shard.id.sale).or_default().push(shard);
        }
        Ok(sales.values().rev().filter_map(|shards| Sale::whole(shards)).collect())
    }

    /// The shards of a sale, by number; archived or not.
    pub async fn shards_of(&self, sale: impl Into<SaleId>) -> Result<Vec<SaleShard>> {
        let sale = sale.into();
        read!(self, |conn| select_shards(conn, sale).await)
    }

    /// One shard of a sale, archived or not.
    pub async fn shard(&self, shard: ShardId) -> Result<SaleShard> {
        read!(self, |conn| select_shard(conn, shard).await)
    }

    /// One sale, archived or not: the sum of its shards.
    pub async fn sale(&self, sale: impl Into<SaleId>) -> Result<Sale> {
        let sale = sale.into();
        let shards = self.shards_of(sale).await?;
        Sale::whole(&shards).ok_or(StoreError::NoSale(sale.into()))
    }

    /// The shards that an earlier version stored as vouchers of their own, by the IDs that they had.
    pub async fn former_shards(&self) -> Result<Vec<(VoucherId, ShardId)>> {
        let query = "SELECT former_voucher_id, voucher_id, shard FROM tb_shard_stock \
             WHERE former_voucher_id IS NOT NULL ORDER BY former_voucher_id";
        let found: Vec<(VoucherId, u64, u16)> =
            read!(self, |conn| conn.rows(query, params![]).await)?;
        let shard = |(former, sale, number)| (former, ShardId { sale: SaleId(sale), number });
        Ok(found.into_iter().map(shard).collect())
    }

    /// Sets the operator-controlled state of a sale and increments its version and those of all its shards. `begin` also
    /// changes the begin. A sale that has ended can only be archived.
    ///
    /// # Errors
    /// [`StoreError::Behind`] if a shard is older than its version in `held`, which are those in Redis: SQL was restored
    /// from a backup, and its versions would get the numbers of those that Redis has.
    pub async fn set_state(
        &self,
        sale: impl Into<SaleId>,
        state: SaleState,
        begin: Option<Millis>,
        held: &[(ShardId, u64)],
    ) -> Result<Vec<SaleShard>> {
        let id = sale.into();
        transaction!(self, |conn| {
            lock_sale(conn, id).await?;
            let shards = select_shards(conn, id).await?;
            let sale = shards.first().ok_or(StoreError::NoSale(id.into()))?;
            shards.iter().try_for_each(|shard| rules::check_not_behind(shard, held))?;
            let Some((state, begin, archived)) = rules::next_state(sale, state, begin)? else {
                return Ok(shards);
            };
            let (now, voucher) = (Millis::now(), VoucherId::from(id));
            let update = "UPDATE tb_seckill_voucher SET state = $2, begin_time = $3, \
                 version = version + 1, update_time = $4, archive_time = $5 WHERE voucher_id = $1";
            let values = params![voucher, state, begin, now, archived.then_some(now)];
            conn.execute(update, values).await?;
            let update = "UPDATE tb_shard_stock SET version = version + 1, update_time = $2 \
                 WHERE voucher_id = $1";
            conn.execute(update, params![voucher, now]).await?;
            select_shards(conn, id).await
        })
    }

    /// Adds pieces to initial and to stock of each shard, or removes them if the number is negative, and increments the
    /// version, in one transaction. With a version, only if that is still the one of the shard.
    ///
    /// # Errors
    /// [`StoreError::Changed`] for another version; [`StoreError::Rejected`] for more pieces than a sale may hold, or
    /// fewer than live orders hold; [`StoreError::Behind`] as for [`Store::set_state`].
    pub async fn restock(
        &self,
        changes: &[(ShardId, i64, Option<u64>)],
        held: &[(ShardId, u64)],
    ) -> Result<Restocked> {
        transaction!(self, |conn| {
            let keys = changes.iter().map(|(shard, ..)| shard_key(*shard));
            lock_shards(conn, keys.collect::<Result<_>>()?).await?;
            let (now, mut changed) = (Millis::now(), Vec::new());
            let mut of_sales: BTreeMap<SaleId, i64> = BTreeMap::new();
            for &(id, by, seen) in changes {
                let shard = select_shard(conn, id).await?;
                // A sale has a piece at least; all those of a shard may move to others.
                let least = u64::from(id.number == 0);
                rules::check_not_behind(&shard, held)?;
                rules::check_restock(&shard, by, seen, least)?;
                let (table, condition) = stock_table(id);
                let update = format!(
                    "UPDATE {table} SET initial_stock = initial_stock + $2, \
                     stock = stock + $2, version = version + 1, update_time = $3 \
                     WHERE {condition}"
                );
                conn.execute(update, params![id.voucher(), by, now, i64::from(id.number)]).await?;
                if id.number > 0 {
                    *of_sales.entry(id.sale).or_default() += by;
                }
                changed.push(select_shard(conn, id).await?);
            }
            // After its shards, as everywhere. Pieces that move between shards leave the sum as it is.
            for (sale, by) in of_sales.iter().filter(|(_, by)| **by != 0) {
                let update = "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + $2, \
                     version = version + 1, update_time = $3 WHERE voucher_id = $1";
                conn.execute(update, params![VoucherId::from(*sale), *by, now]).await?;
            }
            // The sum of the shards as of this transaction: read one by one, the others would be of another moment.
            let mut initial = 0;
            let query = "SELECT initial_stock FROM tb_seckill_voucher WHERE voucher_id = $1";
            for sale in changes.iter().map(|(id, ..)| id.sale).collect::<BTreeSet<_>>() {
                let of_sale: u64 = conn.one(query, params![VoucherId::from(sale)]).await?;
                initial += of_sale;
            }
            Ok(Restocked { shards: changed, initial })
        })
    }

    /// Raises the version of a shard and returns it, if it is still as it was seen. It waits for a transaction that changes
    /// the sale: a reduction of the stock that was prepared before has been committed then, or fails with
    /// [`StoreError::Changed`], however late its commit comes.
    pub async fn fence_sale(
        &self,
        id: ShardId,
        is_seen: &(dyn Fn(&SaleShard) -> bool + Sync),
    ) -> Result<Option<SaleShard>> {
        transaction!(self, |conn| {
            lock_shards(conn, BTreeSet::from([shard_key(id)?])).await?;
            let shard = select_shard(conn, id).await?;
            if !is_seen(&shard) {
                return Ok(None);
            }
            let raise = match id.number {
                0 => {
                    "UPDATE tb_seckill_voucher SET version = version + 1 \
                      WHERE voucher_id = $1 AND $2 = 0"
                }
                _ => {
                    "UPDATE tb_shard_stock SET version = version + 1 \
                      WHERE voucher_id = $1 AND shard = $2"
                }
            };
            conn.execute(raise, params![id.voucher(), i64::from(id.number)]).await?;
            select_shard(conn, id).await.map(Some)
        })
    }

    /// Records that Redis has confirmed this version of a shard, or a newer one; not if SQL was set back to an older one.
    pub async fn note_delivered(&self, shard: ShardId, version: u64) -> Result<()> {
        transaction!(self, |conn| {
            let (table, condition) = stock_table(shard);
            let update = format!(
                "UPDATE {table} SET delivered_version = $2 \
                 WHERE {condition} AND delivered_version < $3 AND version >= $3"
            );
            let version = version as i64;
            let values = params![shard.voucher(), version, version, i64::from(shard.number)];
            conn.execute(update, values).await.map(drop)
        })
    }

    /// Restores a sale from Redis into a database that was rolled back, with its voucher if that is missing; returns
    /// whether anything was to be restored. `held` are the shards that Redis has, all of them of one sale; `former` are
    /// the IDs that shards had as vouchers of their own.
    /// Stocks are derived from the live orders. Shards of which SQL has this version or a newer one stay as they are, unless
    /// Redis has this version of another history: SQL was changed after it was rolled back. The others get the next version:
    /// no version has two contents, and a reduction of the stock that was prepared before fails, and Redis puts its pieces
    /// back.
    ///
    /// A change of the sale may have reached only some of the shards: the sale gets the values that sell less. If they
    /// change it, each shard gets another version, which is delivered to Redis.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there are more live orders than pieces; [`StoreError::Rule`] if a shard had the ID of
    /// the voucher.
    pub async fn adopt_sale(
        &self,
        held: &[SaleShard],
        former: &[(VoucherId, ShardId)],
    ) -> Result<bool> {
        let Some(sale) = held.first().map(|shard| shard.id.sale) else { return Ok(false) };
        transaction!(self, |conn| {
            lock_sale(conn, sale).await?;
            let known = match select_shards(conn, sale).await {
                Err(Fault::Store(StoreError::NoSale(_))) => Vec::new(),
                known => known?,
            };
            let is_adopted = |shard: &&SaleShard| {
                let known = known.iter().find(|it| it.id == shard.id);
                known.is_none_or(|known| shard.is_newer_than(known))
            };
            let newer: Vec<&SaleShard> = held.iter().filter(is_adopted).collect();
            let Some(mut adopted) = rules::adopted(&newer, known.first().map(|shard| &shard.sale))
            else {
                return Ok(false);
            };
            // SQL may have orders back that were closed before their pieces were removed: it has a piece for each of them, and
            // sells none until an operator has looked at it.
            let mut pieces = Vec::new();
            for shard in &newer {
                let live = live_orders(conn, shard.id).await?;
                if live > shard.initial {
                    adopted.state = adopted.state.max(SaleState::Paused);
                }
                pieces.push((shard, shard.initial.max(live), live));
            }
            if adopted.spread.is_none()
                && let Some((_, initial, _)) = pieces.first()
            {
                adopted.initial = *initial;
            }
            adopt_row(conn, &adopted).await?;
            for (shard, initial, live) in pieces {
                adopt_shard(conn, shard, initial, live).await?;
                let had = former.iter().find(|(_, it)| *it == shard.id);
                if let Some((had, _)) = had {
                    set_former(conn, shard.id, *had).await?;
                }
            }
            if known.first().is_some_and(|known| known.terms() != adopted.terms()) {
                let update = "UPDATE tb_shard_stock SET version = version + 1 \
                     WHERE voucher_id = $1 AND shard = $2";
                for shard in known.iter().filter(|it| newer.iter().all(|new| new.id != it.id)) {
                    let number = i64::from(shard.id.number);
                    conn.execute(update, params![shard.id.voucher(), number]).await?;
                }
            }
            let update = "UPDATE tb_seckill_voucher SET initial_stock = (\
                   SELECT SUM(initial_stock) FROM tb_shard_stock WHERE voucher_id = $1) \
                 WHERE voucher_id = $1 AND shards IS NOT NULL";
            conn.execute(update, params![VoucherId::from(sale)]).await?;
            Ok(true)
        })
    }

    /// Inserts a sale that another service has sold, with its live orders, in one transaction under `fence`: no node loads
    /// one without the other. Redis has not confirmed it, so a node that runs loads it from here.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if its voucher or one of these order IDs exists, and [`StoreError::Fenced`] if another run
    /// has begun; then nothing was written.
    pub async fn import_sale(
        &self,
        sale: &Sale,
        orders: &[ImportedOrder],
        now: Millis,
        fence: &Fence,
    ) -> Result<()> {
        let (id, voucher) = (sale.voucher_id, voucher_key(sale.voucher_id)?);
        let initial = number(sale.initial)?;
        let rows: Vec<String> = orders.iter().map(|it| it.values(now)).collect::<Result<_>>()?;
        let (rows, page) = (&rows, self.database()?.page().min(IMPORTED));
        transaction!(self, |conn| {
            pass_fence(conn, fence, now).await?;
            if insert_missing_voucher(conn, &sale.title, sale.created, voucher).await? == 0 {
                return Err(StoreError::Changed(id).into());
            }
            let insert_sale = "INSERT INTO tb_seckill_voucher \
                 (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, \
                  update_time, user_limit) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
            let (stock, limit) = (initial - rows.len() as i64, i64::from(sale.limit));
            let (begin, end, created) = (sale.begin, sale.end, sale.created);
            let values =
                params![voucher, initial, stock, begin, end, sale.state, created, now, limit];
            conn.execute(insert_sale, values).await?;
            for part in rows.chunks(page) {
                let values = part.join(", ");
                let insert = format!(
                    "INSERT INTO tb_voucher_order (id, user_id, voucher_id, shard, buyer_place, status, \
                     create_time, pay_time, pay_type, update_time) VALUES {values}"
                );
                if conn.insert(insert, params![]).await? != part.len() as u64 {
                    return Err(StoreError::Changed(id).into());
                }
            }
            Ok(())
        })
    }

    /// Freezes the orders of a sale that goes back to another service, under `fence`: afterwards none is paid or closed.
    /// Returns once every payment that began before has ended.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another run has begun; then nothing was changed.
    pub async fn freeze_orders(
        &self,
        voucher: VoucherId,
        now: Millis,
        fence: &Fence,
    ) -> Result<()> {
        self.set_frozen(voucher, Some(now), fence).await?;
        // A payment locks its order before it asks whether the sale is frozen, so these locks wait for those that have
        // asked too early.
        let mut after: i64 = -1;
        loop {
            let page: Vec<i64> = transaction!(self, |conn| {
                let (live, lock) = (conn.dialect().live, conn.dialect().lock);
                let query = format!(
                    "SELECT id FROM tb_voucher_order WHERE voucher_id = $1 AND id > $2 AND {live} \
                     ORDER BY id LIMIT $3 {lock}"
                );
                conn.rows(query, params![voucher, after, LOCKED]).await
            })?;
            let Some(last) = page.last() else { return Ok(()) };
            after = *last;
        }
    }

    /// Lets the orders of a sale be paid and closed again, because it does not go back.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another run has begun; then nothing was changed.
    pub async fn thaw_orders(&self, voucher: VoucherId, fence: &Fence) -> Result<()> {
        self.set_frozen(voucher, None, fence).await
    }

    async fn set_frozen(
        &self,
        voucher: VoucherId,
        at: Option<Millis>,
        fence: &Fence,
    ) -> Result<()> {
        transaction!(self, |conn| {
            pass_fence(conn, fence, Millis::now()).await?;
            // The job that closes orders locks their sale.
            lock_sale(conn, voucher.into()).await?;
            let update = "UPDATE tb_seckill_voucher SET return_time = $2 WHERE voucher_id = $1";
            conn.execute(update, params![voucher, at]).await.map(drop)
        })
    }
}

async fn insert_sale(
    conn: &mut Conn,
    voucher: VoucherId,
    sale: &NewSale,
    now: Millis,
) -> Result<(), Fault> {
    let spread = (sale.shards > 1).then_some(Spread { sale: voucher.into(), count: sale.shards });
    let insert = "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, \
          update_time, user_limit, shards, delivered_version) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10)";
    let (initial, limit, state) = (number(sale.stock)?, i64::from(sale.limit), SaleState::Running);
    let (stock, delivered) = if spread.is_some() { (None, None) } else { (Some(initial), Some(0)) };
    let (begin, end, shards) = (sale.begin, sale.end, shards_column(spread));
    let values = params![voucher, initial, stock, begin, end, state, now, limit, shards, delivered];
    conn.execute(insert, values).await?;
    let Some(spread) = spread else { return Ok(()) };
    for (shard, pieces) in spread.all().zip(split(sale.stock, sale.shards.into())) {
        let insert = "INSERT INTO tb_shard_stock (voucher_id, shard, initial_stock, stock, update_time) \
             VALUES ($1, $2, $3, $3, $4)";
        let values = params![voucher, i64::from(shard.number), number(pieces)?, now];
        conn.execute(insert, values).await?;
    }
    Ok(())
}

/// Writes the row of a sale that is adopted, and that of its voucher if it is missing. The stock of a sale that is not
/// spread follows.
async fn adopt_row(conn: &mut Conn, sale: &Sale) -> Result<(), Fault> {
    let voucher = voucher_key(sale.voucher_id)?;
    insert_missing_voucher(conn, &sale.title, sale.created, voucher).await?;
    let is_spread = sale.spread.is_some();
    let statement = format!(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, \
          update_time, user_limit, shards, delivered_version) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) {}",
        (conn.dialect().upsert)(
            "voucher_id",
            "begin_time, end_time, state, update_time, user_limit, shards"
        )
    );
    let initial = number(sale.initial)?;
    let values = params![
        voucher,
        initial,
        (!is_spread).then_some(initial),
        sale.begin,
        sale.end,
        sale.state,
        sale.created,
        Millis::now(),
        i64::from(sale.limit),
        shards_column(sale.spread),
        (!is_spread).then_some(0)
    ];
    conn.execute(statement, values).await.map(drop)
}

/// Live orders of a shard. Its sale is locked, or was missing and has none.
async fn live_orders(conn: &mut Conn, shard: ShardId) -> Result<u64, Fault> {
    let live = conn.dialect().live;
    let query = format!(
        "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND shard = $2 AND {live}"
    );
    conn.one(query, params![shard.voucher(), i64::from(shard.number)]).await
}

/// Writes the stock and the versions of a shard that is adopted, with this many pieces and live orders.
async fn adopt_shard(
    conn: &mut Conn,
    shard: &SaleShard,
    initial: u64,
    live: u64,
) -> Result<(), Fault> {
    let (id, stock) = (shard.id, number(initial.saturating_sub(live))?);
    let (initial, now) = (number(initial)?, Millis::now());
    let (confirmed, voucher) = (number(shard.version)?, id.voucher());
    let (version, in_sale) = (confirmed.saturating_add(1), i64::from(id.number));
    if id.number == 0 {
        let update = "UPDATE tb_seckill_voucher SET initial_stock = $2, stock = $3, version = $4, \
             delivered_version = $5 WHERE voucher_id = $1";
        let values = params![voucher, initial, stock, version, confirmed];
        return conn.execute(update, values).await.map(drop);
    }
    let updated = "initial_stock, stock, version, delivered_version, update_time";
    let statement = format!(
        "INSERT INTO tb_shard_stock (voucher_id, shard, initial_stock, stock, version, \
          delivered_version, update_time) VALUES ($1, $2, $3, $4, $5, $6, $7) {}",
        (conn.dialect().upsert)("voucher_id, shard", updated)
    );
    let values = params![voucher, in_sale, initial, stock, version, confirmed, now];
    conn.execute(statement, values).await.map(drop)
}

/// Notes the ID that a shard had as a voucher of its own, unless a voucher has it by now.
async fn set_former(conn: &mut Conn, shard: ShardId, former: VoucherId) -> Result<(), Fault> {
    let update = "UPDATE tb_shard_stock SET former_voucher_id = $3 \
         WHERE voucher_id = $1 AND shard = $2 AND former_voucher_id IS NULL \
         AND NOT EXISTS (SELECT 1 FROM tb_voucher WHERE id = $4)";
    let values = params![shard.voucher(), i64::from(shard.number), former, former];
    conn.execute(update, values).await.map(drop)
}

/// The column `shards`.
fn shards_column(spread: Option<Spread>) -> Option<i64> {
    spread.map(|spread| i64::from(spread.count))
}

/// The table with the stock of a shard, and the condition of its row: the voucher is the first value, the number of the
/// shard the fourth.
fn stock_table(shard: ShardId) -> (&'static str, &'static str) {
    match shard.number {
        0 => ("tb_seckill_voucher", "voucher_id = $1 AND shards IS NULL AND $4 = 0"),
        _ => ("tb_shard_stock", "voucher_id = $1 AND shard = $4"),
    }
}

async fn insert_voucher(
    conn: &mut Conn,
    voucher: &VoucherDetails,
    kind: VoucherKind,
    now: Millis,
) -> Result<VoucherId, Fault> {
    let insert = "INSERT INTO tb_voucher (title, type, create_time, update_time, shop_id, \
         sub_title, rules, pay_value, actual_value, status) \
         VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9)";
    let values = params![
        &voucher.title,
        kind,
        now,
        voucher.shop_id.map(number).transpose()?,
        &voucher.sub_title,
        &voucher.rules,
        number(voucher.pay_value)?,
        number(voucher.actual_value)?,
        voucher.status
    ];
    skip_former(conn).await?;
    // Another row has the generated ID, inserted by another program or on another server of a cluster.
    let id = conn.insert_row(insert, values).await?.ok_or(Fault::Again)?;
    Ok(VoucherId(id as u64))
}

/// Inserts the voucher of a sale under its ID, unless it exists; returns how many were inserted.
///
/// # Errors
/// [`StoreError::Rule`] if a shard had this ID: entries of the earlier version would be taken for those of the voucher.
async fn insert_missing_voucher(
    conn: &mut Conn,
    title: &str,
    created: Millis,
    id: i64,
) -> Result<u64, Fault> {
    let query = "SELECT voucher_id FROM tb_shard_stock WHERE former_voucher_id = $1";
    if let Some(sale) = conn.row::<VoucherId>(query, params![id]).await? {
        let voucher = id.to_string();
        return Err(StoreError::Rule(reason!("store-rule-former", voucher, sale)).into());
    }
    let has_sequence = conn.dialect().has_sequence;
    if has_sequence {
        reserve_numbers(conn, id).await?;
    }
    let overriding = if has_sequence { "OVERRIDING SYSTEM VALUE" } else { "" };
    let statement = format!(
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) {overriding} \
         VALUES ($1, $2, $3, $4, $4)"
    );
    conn.insert(statement, params![id, title, VoucherKind::Sale, created]).await
}

/// Locks a sale with all its shards against other writers until the transaction ends. Shards come first, as for the writers
/// of orders, whose foreign key locks the sale after that.
async fn lock_sale(conn: &mut Conn, sale: SaleId) -> Result<(), Fault> {
    let (voucher, lock) = (voucher_key(sale.into())?, conn.dialect().lock);
    for query in [
        "SELECT shard FROM tb_shard_stock WHERE voucher_id = $1 ORDER BY shard",
        "SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id = $1",
    ] {
        conn.rows::<i64>(format!("{query} {lock}"), params![voucher]).await?;
    }
    Ok(())
}

async fn select_shards(conn: &mut Conn, sale: SaleId) -> Result<Vec<SaleShard>, Fault> {
    let (query, voucher) =
        (format!("{SELECT} WHERE s.voucher_id = $1 ORDER BY p.shard"), sale.into());
    let shards: Vec<SaleShard> = conn.rows(query, params![voucher]).await?;
    if shards.is_empty() { Err(StoreError::NoSale(voucher).into()) } else { Ok(shards) }
}

async fn select_shard(conn: &mut Conn, shard: ShardId) -> Result<SaleShard, Fault> {
    let query = format!("{SELECT} WHERE s.voucher_id = $1 AND COALESCE(p.shard, 0) = $2");
    let found = conn.row(query, params![shard.voucher(), i64::from(shard.number)]).await?;
    Ok(found.ok_or(StoreError::NoSale(shard.voucher()))?)
}

/// Raises the sequence of voucher IDs beyond those that shards had in an earlier version: its entries name them.
async fn skip_former(conn: &mut Conn) -> Result<(), Fault> {
    let query = "SELECT COALESCE(MAX(former_voucher_id), 0) FROM tb_shard_stock \
         WHERE former_voucher_id > (SELECT COALESCE(MAX(id), 0) FROM tb_voucher)";
    let former: i64 = conn.one(query, params![]).await?;
    if former > 0 { reserve_numbers(conn, former).await } else { Ok(()) }
}

/// Raises the sequence of voucher IDs to at least `upto`.
async fn reserve_numbers(conn: &mut Conn, upto: i64) -> Result<(), Fault> {
    match conn {
        Conn::Sqlite(_) => {
            for statement in [
                "INSERT INTO sqlite_sequence (name, seq) SELECT 'tb_voucher', $1 \
                 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tb_voucher')",
                "UPDATE sqlite_sequence SET seq = $1 WHERE name = 'tb_voucher' AND seq < $1",
            ] {
                conn.execute(statement, params![upto]).await?;
            }
            Ok(())
        }
        Conn::Mysql(_) => {
            // A row that was inserted raises the counter for good. ALTER TABLE would also lower it to the highest ID that
            // a row has, and forget the IDs of deleted vouchers.
            let insert = "INSERT INTO tb_voucher (id, title, type, create_time, update_time) \
                 VALUES ($1, '', $2, 0, 0)";
            if conn.insert(insert, params![upto, VoucherKind::Ordinary]).await? > 0 {
                conn.execute("DELETE FROM tb_voucher WHERE id = $1", params![upto]).await?;
            }
            Ok(())
        }
        Conn::Postgres(_) => {
            // By the sequence itself: other transactions have taken numbers that no row shows yet, and it must not be set
            // back to one of them. None takes a number between the look and the change.
            conn.execute("LOCK TABLE tb_voucher IN SHARE ROW EXCLUSIVE MODE", params![]).await?;
            let raise = "SELECT CASE WHEN taken < $1 \
                 THEN setval(pg_get_serial_sequence('tb_voucher', 'id'), $1) END \
                 FROM (SELECT nextval(pg_get_serial_sequence('tb_voucher', 'id')) AS taken) AS next";
            conn.execute(raise, params![upto]).await.map(drop)
        }
    }
}
