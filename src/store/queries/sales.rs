//! Vouchers and sales: creation, lists, state changes, restocking.

use std::collections::{BTreeMap, BTreeSet};

use seckill_model::{
    Fence, Millis, NewSale, OrderStatus, Sale, SaleOrder, SaleState, Voucher, VoucherDetails,
    VoucherId, VoucherKind, reason,
    sale::{SalesOfShards, Shard, split},
};

use super::{jobs::pass_fence, orders::lock_sales};
use crate::{
    Conn, Fault, OrderRow, Result, Store, StoreError, params, read,
    rules::{self, number, voucher_key},
    transaction,
};

const SELECT: &str = "SELECT s.voucher_id, v.title, s.initial_stock, s.stock, s.begin_time, s.end_time, \
     s.state, s.version, s.user_limit, s.update_time, s.archive_time, s.delivered_version, s.create_time, \
     s.shard_of, s.shards \
     FROM tb_seckill_voucher s JOIN tb_voucher v ON v.id = s.voucher_id";

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
        let OrderRow { id, user_id, voucher_id, place } = (&self.order).try_into()?;
        let (status, created, pay_type) = (self.status as i64, self.created.0, self.pay_type);
        let paid = self.paid.map_or_else(|| "NULL".to_owned(), |paid| paid.0.to_string());
        let now = now.0;
        Ok(format!(
            "({id}, {user_id}, {voucher_id}, {place}, {status}, {created}, {paid}, {pay_type}, {now})"
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
        let parts = self.create_sale_of(&VoucherDetails::titled(&sale.title), sale, now).await?;
        Sale::whole(&parts).ok_or(StoreError::NoSale(VoucherId(0)))
    }

    /// Creates a flash-sale voucher with this content, and its sale or the shards of its sale, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if another transaction took the ID of a shard: repeat it.
    pub async fn create_sale_of(
        &self,
        details: &VoucherDetails,
        sale: &NewSale,
        now: Millis,
    ) -> Result<Vec<Sale>> {
        transaction!(self, |conn| {
            let of = insert_voucher(conn, details, VoucherKind::Sale, now).await?;
            if sale.shards == 1 {
                insert_sale(conn, of, sale, None, now).await?;
                return Ok(vec![select_one(conn, of).await?]);
            }
            let shard = Shard { of, count: sale.shards };
            let mut shards = Vec::new();
            for (id, stock) in shard.all().zip(split(sale.stock, sale.shards.into())) {
                if insert_missing_voucher(conn, &sale.title, now, voucher_key(id)?).await? == 0 {
                    return Err(StoreError::Changed(of).into());
                }
                insert_sale(conn, id, &NewSale { stock, ..sale.clone() }, Some(shard), now).await?;
                shards.push(select_one(conn, id).await?);
            }
            Ok(shards)
        })
    }

    /// A page of vouchers of both kinds, by ID, without the shards of one.
    pub async fn vouchers(&self, after: Option<VoucherId>, limit: u32) -> Result<Vec<Voucher>> {
        let query = "SELECT id, type, title, shop_id, sub_title, rules, pay_value, actual_value, \
             status FROM tb_voucher WHERE id > $1 AND NOT EXISTS (SELECT 1 FROM tb_seckill_voucher \
             WHERE voucher_id = id AND shard_of IS NOT NULL) ORDER BY id LIMIT $2";
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

    /// All sales that are not archived, newest first.
    pub async fn sales(&self) -> Result<Vec<Sale>> {
        self.select("WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC").await
    }

    /// Sales with a change not yet confirmed by Redis, archived ones included, by ID.
    pub async fn undelivered(&self) -> Result<Vec<Sale>> {
        self.select("WHERE s.delivered_version < s.version ORDER BY s.voucher_id").await
    }

    async fn select(&self, condition: &str) -> Result<Vec<Sale>> {
        read!(self, |conn| conn.rows(format!("{SELECT} {condition}"), params![]).await)
    }

    /// A page of archived sales, newest first; those over shards as a whole, once all shards are archived.
    pub async fn archived(&self, before: Option<VoucherId>, limit: u32) -> Result<Vec<Sale>> {
        let parts: Vec<Sale> = read!(self, |conn| {
            let query = "SELECT COALESCE(shard_of, voucher_id) AS id FROM tb_seckill_voucher \
                 WHERE COALESCE(shard_of, voucher_id) < $1 \
                 GROUP BY COALESCE(shard_of, voucher_id) \
                 HAVING COUNT(archive_time) = COUNT(*) ORDER BY id DESC LIMIT $2";
            let before = before.unwrap_or(VoucherId(u64::MAX));
            let ids: Vec<i64> = conn.rows(query, params![before, limit]).await?;
            let query = format!(
                "{SELECT} WHERE COALESCE(s.shard_of, s.voucher_id) = ANY($1) ORDER BY s.voucher_id"
            );
            if ids.is_empty() { Ok(Vec::new()) } else { conn.rows(query, params![ids]).await }
        })?;
        let mut sales: BTreeMap<VoucherId, Vec<Sale>> = BTreeMap::new();
        for part in parts {
            sales.entry(part.sale_id()).or_default().push(part);
        }
        Ok(sales.values().rev().filter_map(|parts| Sale::whole(parts)).collect())
    }

    /// The shards of a voucher, by ID; without any, the sale itself.
    pub async fn parts(&self, voucher: VoucherId) -> Result<Vec<Sale>> {
        read!(self, |conn| {
            let query = format!("{SELECT} WHERE s.shard_of = $1 ORDER BY s.voucher_id");
            let shards: Vec<Sale> = conn.rows(query, params![voucher]).await?;
            Ok(if shards.is_empty() { vec![select_one(conn, voucher).await?] } else { shards })
        })
    }

    /// The sales of those among these vouchers that are shards of one.
    pub async fn sales_of_shards(
        &self,
        vouchers: impl IntoIterator<Item = VoucherId>,
    ) -> Result<SalesOfShards> {
        // No sale has an ID that SQL cannot hold.
        let keys = vouchers.into_iter().filter_map(|voucher| voucher_key(voucher).ok());
        let keys = &Vec::from_iter(keys.collect::<BTreeSet<i64>>());
        if keys.is_empty() {
            return Ok(SalesOfShards::default());
        }
        let found: Vec<(VoucherId, VoucherId)> = read!(self, |conn| {
            let query = "SELECT voucher_id, shard_of FROM tb_seckill_voucher \
                 WHERE shard_of IS NOT NULL AND voucher_id = ANY($1)";
            conn.rows(query, params![keys.clone()]).await
        })?;
        Ok(SalesOfShards(found.into_iter().collect()))
    }

    /// One sale, archived or not.
    pub async fn sale(&self, voucher: VoucherId) -> Result<Sale> {
        read!(self, |conn| select_one(conn, voucher).await)
    }

    /// Sets the operator-controlled state and increments the version. `begin` also changes the begin. A sale that has
    /// ended can only be archived.
    pub async fn set_state(
        &self,
        voucher: VoucherId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale> {
        transaction!(self, |conn| {
            let sale = lock(conn, voucher).await?;
            let Some((state, begin, archived)) = rules::next_state(&sale, state, begin)? else {
                return Ok(sale);
            };
            let now = Millis::now();
            let update = "UPDATE tb_seckill_voucher SET state = $2, begin_time = $3, \
                 version = version + 1, update_time = $4, archive_time = $5 WHERE voucher_id = $1";
            let values = params![voucher, state, begin, now, archived.then_some(now)];
            conn.execute(update, values).await?;
            select_one(conn, voucher).await
        })
    }

    /// Adds pieces to initial and to stock of each sale, or removes them if the number is negative, and increments the
    /// version, in one transaction. With a version, only if that is still the one of the sale.
    ///
    /// # Errors
    /// [`StoreError::Changed`] for another version; [`StoreError::Rejected`] for more pieces than a sale may hold, or
    /// fewer than live orders hold.
    pub async fn restock(&self, changes: &[(VoucherId, i64, Option<u64>)]) -> Result<Vec<Sale>> {
        transaction!(self, |conn| {
            let keys = changes.iter().map(|(voucher, ..)| voucher_key(*voucher));
            lock_sales(conn, keys.collect::<Result<_>>()?).await?;
            let mut changed = Vec::new();
            for (voucher, by, seen) in changes {
                rules::check_restock(&select_one(conn, *voucher).await?, *by, *seen)?;
                let update = "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + $2, \
                     stock = stock + $2, version = version + 1, update_time = $3 \
                     WHERE voucher_id = $1";
                conn.execute(update, params![*voucher, *by, Millis::now()]).await?;
                changed.push(select_one(conn, *voucher).await?);
            }
            Ok(changed)
        })
    }

    /// Raises the version of a sale, with `seen` only if that is still its version; returns the sale. It waits for a
    /// transaction that changes the sale: a reduction of the stock that was prepared before has been committed then, or
    /// fails with [`StoreError::Changed`], however late its commit comes.
    pub async fn fence_sale(&self, voucher: VoucherId, seen: Option<u64>) -> Result<Sale> {
        transaction!(self, |conn| {
            let sale = lock(conn, voucher).await?;
            if seen.is_some_and(|seen| seen != sale.version) {
                return Ok(sale);
            }
            let raise = "UPDATE tb_seckill_voucher SET version = version + 1 WHERE voucher_id = $1";
            conn.execute(raise, params![voucher]).await?;
            select_one(conn, voucher).await
        })
    }

    /// Records that Redis has confirmed this version of a sale, or a newer one.
    pub async fn note_delivered(&self, voucher: VoucherId, version: u64) -> Result<()> {
        let update = "UPDATE tb_seckill_voucher SET delivered_version = $2 \
             WHERE voucher_id = $1 AND delivered_version < $2";
        transaction!(self, |conn| {
            conn.execute(update, params![voucher, version as i64]).await.map(drop)
        })
    }

    /// Restores a sale from Redis, with its voucher if that is missing: for a database that was rolled back. The stock
    /// is derived from the live orders. Does nothing if SQL has this version or a newer one. It gets the next version: a
    /// reduction of the stock that was prepared before fails, and Redis puts its pieces back.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if there are more live orders than pieces, or the ID belongs to another voucher.
    pub async fn adopt_sale(&self, sale: &Sale) -> Result<()> {
        let voucher = voucher_key(sale.voucher_id)?;
        let (initial, version) = (number(sale.initial)?, number(sale.version)?.saturating_add(1));
        transaction!(self, |conn| {
            match lock(conn, sale.voucher_id).await {
                Ok(known) if known.version >= sale.version => return Ok(()),
                Ok(_) | Err(Fault::Store(StoreError::NoSale(_))) => {}
                Err(error) => return Err(error),
            }
            insert_missing_voucher(conn, &sale.title, sale.created, voucher).await?;
            let dialect = conn.dialect();
            // The sale is locked, or missing and without orders.
            let live = dialect.live;
            let query =
                format!("SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND {live}");
            let live: i64 = conn.one(query, params![voucher]).await?;
            let updated = "initial_stock, stock, begin_time, end_time, state, update_time, \
                 user_limit, version, delivered_version, shard_of, shards";
            let statement = format!(
                "INSERT INTO tb_seckill_voucher \
                 (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, \
                  update_time, user_limit, version, delivered_version, shard_of, shards) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10 - 1, $11, $12) {}",
                (dialect.upsert)("voucher_id", updated)
            );
            let (of, count) = shard_columns(sale.shard)?;
            let values = params![
                voucher,
                initial,
                initial - live,
                sale.begin,
                sale.end,
                sale.state,
                sale.created,
                Millis::now(),
                i64::from(sale.limit),
                version,
                of,
                count
            ];
            conn.execute(statement, values).await.map(drop)
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
                    "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, status, \
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
            lock(conn, voucher).await?;
            let update = "UPDATE tb_seckill_voucher SET return_time = $2 WHERE voucher_id = $1";
            conn.execute(update, params![voucher, at]).await.map(drop)
        })
    }
}

async fn insert_sale(
    conn: &mut Conn,
    voucher: VoucherId,
    sale: &NewSale,
    shard: Option<Shard>,
    now: Millis,
) -> Result<(), Fault> {
    let insert = "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, \
          update_time, user_limit, shard_of, shards) \
         VALUES ($1, $2, $2, $3, $4, $5, $6, $6, $7, $8, $9)";
    let (stock, limit, state) = (number(sale.stock)?, i64::from(sale.limit), SaleState::Running);
    let (of, count) = shard_columns(shard)?;
    let values = params![voucher, stock, sale.begin, sale.end, state, now, limit, of, count];
    conn.execute(insert, values).await.map(drop)
}

/// The columns `shard_of` and `shards`.
fn shard_columns(shard: Option<Shard>) -> Result<(Option<i64>, Option<i64>)> {
    let of = shard.map(|shard| voucher_key(shard.of)).transpose()?;
    Ok((of, shard.map(|shard| i64::from(shard.count))))
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
    let id = conn.insert_row(insert, values).await?.and_then(|id| u64::try_from(id).ok());
    let no_number = || StoreError::Rejected(reason!("store-database-returned-no-number"));
    Ok(id.map(VoucherId).ok_or_else(no_number)?)
}

/// Inserts the voucher of a sale under its ID, unless it exists; returns how many were inserted.
async fn insert_missing_voucher(
    conn: &mut Conn,
    title: &str,
    created: Millis,
    id: i64,
) -> Result<u64, Fault> {
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

/// One sale, locked against other writers until the transaction ends.
async fn lock(conn: &mut Conn, voucher: VoucherId) -> Result<Sale, Fault> {
    lock_sales(conn, BTreeSet::from([voucher_key(voucher)?])).await?;
    select_one(conn, voucher).await
}

async fn select_one(conn: &mut Conn, voucher: VoucherId) -> Result<Sale, Fault> {
    let query = format!("{SELECT} WHERE s.voucher_id = $1");
    let sale = conn.row(query, params![voucher]).await?;
    Ok(sale.ok_or(StoreError::NoSale(voucher))?)
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
            let highest: i64 =
                conn.one("SELECT COALESCE(MAX(id), 0) FROM tb_voucher", params![]).await?;
            if highest < upto {
                // The number cannot be bound here; InnoDB ignores a value lower than the current one.
                let next = upto.saturating_add(1);
                conn.execute(format!("ALTER TABLE tb_voucher AUTO_INCREMENT = {next}"), params![])
                    .await?;
            }
            Ok(())
        }
        Conn::Postgres(_) => {
            // By the sequence itself: other transactions have taken numbers that no row shows yet, and it must not be set
            // back to one of them.
            let raise = "SELECT CASE WHEN taken < $1 \
                 THEN setval(pg_get_serial_sequence('tb_voucher', 'id'), $1) END \
                 FROM (SELECT nextval(pg_get_serial_sequence('tb_voucher', 'id')) AS taken) AS next";
            conn.execute(raise, params![upto]).await.map(drop)
        }
    }
}
