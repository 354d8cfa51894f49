//! Payment and closing of existing orders.
//!
//! Payment and closing race: both lock an order and check that it is unpaid before they change it, so the first one
//! wins.

use std::collections::{BTreeMap, BTreeSet};

use seckill_model::{
    Fence, Millis, OrderEntry, OrderId, OrderStatus, Payment, SaleOrder, ShardId, VoucherId,
};

use super::{
    jobs::pass_fence,
    orders::{change_stock, in_order, lock_shards, shard_key},
};
use crate::{
    Cancelled, Conn, Fault, OrderRow, Result, Store,
    batch::{self, ShardKey},
    params, read,
    rules::{self, voucher_key},
    transaction,
};

/// The overdue orders that are closed.
#[derive(Clone, Copy, Debug)]
pub enum Overdue<'a> {
    /// All but those of these sales, and these.
    AllBut(&'a [VoucherId], &'a [OrderId]),
    /// These.
    Orders(&'a [OrderId]),
}

impl Overdue<'_> {
    /// Every one.
    pub const ALL: Self = Self::AllBut(&[], &[]);

    /// The oldest overdue orders, with their vouchers and shards.
    async fn page(
        self,
        conn: &mut Conn,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<(OrderId, i64, i64)>, Fault> {
        let index = (conn.dialect().index)("idx_unpaid_order");
        let from = format!(
            "SELECT id, voucher_id, shard FROM tb_voucher_order {index} WHERE NOT EXISTS \
             (SELECT 1 FROM tb_seckill_voucher s WHERE s.voucher_id = \
              tb_voucher_order.voucher_id AND s.return_time IS NOT NULL)"
        );
        self.page_of(conn, &from, before, limit).await
    }

    /// The same of ordinary vouchers, which have no shards.
    pub(super) async fn page_of_ordinary(
        self,
        conn: &mut Conn,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<OrderId>, Fault> {
        let index = (conn.dialect().index)("idx_ordinary_unpaid");
        let from = format!(
            "SELECT id, voucher_id, voucher_id AS shard FROM tb_ordinary_order {index} WHERE 1 = 1"
        );
        let page = self.page_of(conn, &from, before, limit).await?;
        Ok(page.into_iter().map(|(order, ..)| order).collect())
    }

    async fn page_of(
        self,
        conn: &mut Conn,
        from: &str,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<(OrderId, i64, i64)>, Fault> {
        let keys = |sales: &[VoucherId]| -> Result<Vec<i64>> {
            sales.iter().map(|sale| voucher_key(*sale)).collect()
        };
        let query = |condition: &str| {
            format!(
                "{from} AND status = 1 AND create_time < $1 {condition} \
                 ORDER BY create_time, id LIMIT $2"
            )
        };
        match self {
            Self::AllBut([], []) => conn.rows(query(""), params![before, limit]).await,
            Self::AllBut(sales, []) => {
                let query = query("AND NOT (voucher_id = ANY($3))");
                conn.rows(query, params![before, limit, keys(sales)?]).await
            }
            Self::AllBut([], orders) => {
                let query = query("AND NOT (id = ANY($3))");
                conn.rows(query, params![before, limit, orders]).await
            }
            Self::AllBut(sales, orders) => {
                let query = query("AND NOT (voucher_id = ANY($3)) AND NOT (id = ANY($4))");
                conn.rows(query, params![before, limit, keys(sales)?, orders]).await
            }
            Self::Orders(orders) => {
                let query = query("AND id = ANY($3)");
                conn.rows(query, params![before, limit, orders]).await
            }
        }
    }
}

impl Store {
    /// Pays orders, each only if it is still unpaid and its sale is not on its way back to another service. The results are
    /// in the order of `ids`.
    pub async fn pay(&self, ids: &[OrderId], now: Millis) -> Result<Vec<Payment>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        // Orders are always locked in the order of their IDs.
        let sorted: &Vec<OrderId> = &BTreeSet::from_iter(ids).into_iter().copied().collect();
        let page = self.database()?.page();
        transaction!(self, |conn| {
            let mut found = Vec::new();
            // Orders of sales, then those of ordinary vouchers.
            for table in ["tb_voucher_order", "tb_ordinary_order"] {
                if found.len() == sorted.len() {
                    break;
                }
                for part in sorted.chunks(page) {
                    found.extend(pay_in(conn, table, part, now).await?);
                }
            }
            Ok(rules::payments(ids, found))
        })
    }

    /// The next `limit` overdue orders, by the sales to which they belong.
    pub async fn overdue(
        &self,
        before: Millis,
        limit: u32,
        of: Overdue<'_>,
    ) -> Result<BTreeMap<VoucherId, Vec<OrderId>>> {
        let page = read!(self, |conn| of.page(conn, before, limit).await)?;
        let mut sales: BTreeMap<VoucherId, Vec<OrderId>> = BTreeMap::new();
        for (order, voucher, _) in page {
            sales.entry(VoucherId(voucher.unsigned_abs())).or_default().push(order);
        }
        Ok(sales)
    }

    /// The next `limit` overdue orders of ordinary vouchers.
    pub async fn overdue_ordinary(
        &self,
        before: Millis,
        limit: u32,
        of: Overdue<'_>,
    ) -> Result<Vec<OrderId>> {
        read!(self, |conn| of.page_of_ordinary(conn, before, limit).await)
    }

    /// Closes at most `limit` unpaid orders of these that were written before `before`, oldest first: each only
    /// if it is still unpaid, with its piece returned to the stock and an update of Redis recorded, in one transaction
    /// under `fence`.
    ///
    /// # Errors
    /// [`crate::StoreError::Fenced`] if another holder has the lock. After any error, nothing was closed; unless the
    /// database is unreachable, it may concern a single sale, such as one whose stock is wrong, or a single order.
    pub async fn close_overdue(
        &self,
        before: Millis,
        limit: u32,
        of: Overdue<'_>,
        now: Millis,
        fence: &Fence,
    ) -> Result<Vec<SaleOrder>> {
        let page = self.database()?.page();
        transaction!(self, |conn| {
            pass_fence(conn, fence, now).await?;
            let overdue = of.page(conn, before, limit).await?;
            // Shards before orders, like the writers of orders.
            let shards = overdue.iter().map(|(_, voucher, shard)| (*voucher, *shard));
            lock_shards(conn, shards.collect()).await?;
            // Some may have been frozen since the query.
            let frozen = frozen(conn, overdue.iter().map(|(_, voucher, _)| *voucher)).await?;
            let overdue = overdue.into_iter().filter(|(_, voucher, _)| !frozen.contains(voucher));
            let overdue: Vec<OrderId> = overdue.map(|(id, ..)| id).collect();
            let mut closed: Vec<SaleOrder> = Vec::new();
            for part in overdue.chunks(page) {
                closed.extend(close_unpaid(conn, part, now).await?);
            }
            let mut pieces: BTreeMap<ShardKey, i64> = BTreeMap::new();
            for order in &closed {
                *pieces.entry(shard_key(order.sold_by())?).or_default() += 1;
            }
            for (shard, pieces) in in_order(pieces) {
                change_stock(conn, shard, pieces, now).await?;
            }
            Ok(closed)
        })
    }

    /// Sets the stock of a shard to its pieces without a live order; returns whether it was another number.
    ///
    /// # Errors
    /// [`crate::StoreError::OutOfStock`] if it has more live orders than pieces.
    pub async fn derive_stock(&self, shard: ShardId, now: Millis) -> Result<bool> {
        let key = shard_key(shard)?;
        transaction!(self, |conn| {
            // Writers of orders lock it as well, so that no order is written or closed meanwhile.
            lock_shards(conn, BTreeSet::from([key])).await?;
            let live = conn.dialect().live;
            let query = format!(
                "SELECT COALESCE(p.initial_stock, s.initial_stock), COALESCE(p.stock, s.stock), \
                 (SELECT COUNT(*) FROM tb_voucher_order \
                  WHERE voucher_id = $1 AND shard = $2 AND {live}) AS live \
                 FROM tb_seckill_voucher s \
                 LEFT JOIN tb_shard_stock p ON p.voucher_id = s.voucher_id \
                 WHERE s.voucher_id = $1 AND COALESCE(p.shard, 0) = $2"
            );
            let found: Option<(i64, i64, i64)> = conn.row(query, params![key.0, key.1]).await?;
            let sale = shard.voucher();
            let (initial, stock, live) = found.ok_or(crate::StoreError::NoSale(sale))?;
            if live > initial {
                return Err(crate::StoreError::OutOfStock(sale).into());
            }
            let by = initial - live - stock;
            if by != 0 {
                change_stock(conn, key, by, now).await?;
            }
            Ok(by != 0)
        })
    }

    /// Cancels orders that were promised but never written, in one transaction: inserts a row each, cancelled at `now`,
    /// that takes no stock, and records that Redis must be updated. Existing rows are not changed. The results are in
    /// the order of `entries`.
    pub async fn cancel_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Cancelled>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, page) = (&batch::rows(entries)?, self.database()?.page());
        transaction!(self, |conn| {
            // Shards before orders, like the writers of orders.
            let shards = lock_shards(conn, batch::shards(rows)).await?;
            let columns = batch::names();
            let mut existing = Vec::new();
            for part in rows.chunks(page) {
                let query =
                    format!("SELECT {columns}, status FROM tb_voucher_order WHERE id = ANY($1)");
                let found: Vec<(OrderRow, OrderStatus)> =
                    conn.rows(query, params![batch::ids(part)]).await?;
                existing.extend(found);
            }
            let (new, answers) = batch::cancellations(rows, &shards, existing);
            for part in new.chunks(page) {
                insert_cancelled(conn, part, now).await?;
            }
            Ok(answers)
        })
    }

    /// Closed orders not yet returned in Redis, by ID, at most `limit` after `after`.
    pub async fn give_backs(&self, after: Option<OrderId>, limit: u32) -> Result<Vec<SaleOrder>> {
        let query = "SELECT order_id AS id, user_id, voucher_id, shard, buyer_place AS place \
             FROM tb_give_back \
             WHERE given IS NULL AND order_id > $1 ORDER BY order_id LIMIT $2";
        let after = after.map_or(-1, OrderId::as_i64);
        read!(self, |conn| conn.rows(query, params![after, limit]).await)
    }

    /// Closed orders of a shard returned in Redis at `since` or later, or not at all: those to repeat in a Redis that
    /// lost its last seconds.
    pub async fn given_since(
        &self,
        shard: ShardId,
        since: Millis,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<SaleOrder>> {
        let query = "SELECT order_id AS id, user_id, voucher_id, shard, buyer_place AS place \
             FROM tb_give_back \
             WHERE voucher_id = $1 AND shard = $2 AND (given IS NULL OR given >= $3) \
             AND order_id > $4 ORDER BY order_id LIMIT $5";
        let after = after.map_or(-1, OrderId::as_i64);
        let (voucher, number) = (shard.voucher(), i64::from(shard.number));
        read!(self, |conn| {
            conn.rows(query, params![voucher, number, since, after, limit]).await
        })
    }

    /// Records that these were returned in Redis.
    pub async fn gave_back(&self, ids: &[OrderId], now: Millis) -> Result<()> {
        let page = self.database()?.page();
        transaction!(self, |conn| {
            for part in ids.chunks(page) {
                let update = "UPDATE tb_give_back SET given = $1 \
                     WHERE given IS NULL AND order_id = ANY($2)";
                conn.execute(update, params![now, part]).await?;
            }
            Ok(())
        })
    }

    /// Deletes records of orders returned in Redis before `before`; returns how many.
    pub async fn forget_give_backs(&self, before: Millis) -> Result<u64> {
        let statement = "DELETE FROM tb_give_back WHERE given IS NOT NULL AND given < $1";
        transaction!(self, |conn| conn.execute(statement, params![before]).await)
    }

    /// Number of closed orders not yet returned in Redis.
    pub async fn returning(&self) -> Result<u64> {
        let query = "SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL";
        read!(self, |conn| conn.one(query, params![]).await)
    }
}

/// Pays the unpaid ones of these orders; returns the result of each existing one.
async fn pay_in(
    conn: &mut Conn,
    table: &str,
    ids: &[OrderId],
    now: Millis,
) -> Result<Vec<(OrderId, Payment)>, Fault> {
    let lock = conn.dialect().lock;
    let query =
        format!("SELECT id, status, voucher_id FROM {table} WHERE id = ANY($1) ORDER BY id {lock}");
    let found: Vec<(OrderId, OrderStatus, i64)> = conn.rows(query, params![ids]).await?;
    // After the orders are locked: a process that freezes a sale waits for these locks afterwards.
    let of_unpaid = found.iter().filter(|it| it.1 == OrderStatus::Unpaid).map(|it| it.2);
    let frozen = frozen(conn, of_unpaid).await?;
    let result = |(id, status, voucher): (OrderId, OrderStatus, i64)| {
        (id, rules::payment(status, frozen.contains(&voucher)))
    };
    let found: Vec<(OrderId, Payment)> = found.into_iter().map(result).collect();
    let unpaid: Vec<OrderId> =
        found.iter().filter(|(_, it)| *it == Payment::Paid).map(|(id, _)| *id).collect();
    if !unpaid.is_empty() {
        let statement = format!(
            "UPDATE {table} SET status = 2, pay_time = $1, update_time = $1 \
             WHERE status = 1 AND id = ANY($2)"
        );
        conn.execute(statement, params![now, unpaid.as_slice()]).await?;
    }
    Ok(found)
}

/// The sales among these whose orders are neither paid nor closed here any more.
async fn frozen(
    conn: &mut Conn,
    vouchers: impl Iterator<Item = i64>,
) -> Result<BTreeSet<i64>, Fault> {
    let vouchers = Vec::from_iter(vouchers.collect::<BTreeSet<i64>>());
    if vouchers.is_empty() {
        return Ok(BTreeSet::new());
    }
    let query = "SELECT voucher_id FROM tb_seckill_voucher \
         WHERE return_time IS NOT NULL AND voucher_id = ANY($1)";
    let found: Vec<i64> = conn.rows(query, params![vouchers]).await?;
    Ok(found.into_iter().collect())
}

/// Closes those of these orders that are still unpaid: some were paid since they were read.
async fn close_unpaid(
    conn: &mut Conn,
    ids: &[OrderId],
    now: Millis,
) -> Result<Vec<SaleOrder>, Fault> {
    let lock = conn.dialect().lock;
    let query = format!(
        "SELECT id, user_id, voucher_id, shard, buyer_place AS place FROM tb_voucher_order \
         WHERE id = ANY($1) AND status = 1 ORDER BY id {lock}"
    );
    let unpaid: Vec<SaleOrder> = conn.rows(query, params![ids]).await?;
    if unpaid.is_empty() {
        return Ok(unpaid);
    }
    let ids: Vec<i64> = unpaid.iter().map(|order| order.id.as_i64()).collect();
    let update = "UPDATE tb_voucher_order SET status = 5, close_time = $1, update_time = $1 \
         WHERE status = 1 AND id = ANY($2)";
    conn.execute(update, params![now, ids.clone()]).await?;
    insert_give_backs(conn, ids, now).await?;
    Ok(unpaid)
}

async fn insert_cancelled(conn: &mut Conn, rows: &[OrderRow], now: Millis) -> Result<(), Fault> {
    let (columns, batch) = (batch::names(), (conn.dialect().batch)(2));
    let statement = format!(
        "INSERT INTO tb_voucher_order \
         ({columns}, status, create_time, close_time, update_time) \
         SELECT {columns}, 4, $1, $1, $1 FROM {batch} WHERE TRUE"
    );
    let inserted = conn.insert(statement, params![now, rows]).await?;
    if inserted != rows.len() as u64 {
        // An order of another sale has taken an ID meanwhile, or a unique index of another program rejects a row.
        return Err(rows.first().map_or(Fault::Again, |row| batch::unwritten(row).into()));
    }
    insert_give_backs(conn, batch::ids(rows), now).await
}

/// Records that Redis must be updated for these orders.
async fn insert_give_backs(conn: &mut Conn, ids: Vec<i64>, now: Millis) -> Result<(), Fault> {
    let insert = "INSERT INTO tb_give_back \
         (order_id, user_id, voucher_id, shard, buyer_place, closed) \
         SELECT id, user_id, voucher_id, shard, buyer_place, $1 \
         FROM tb_voucher_order WHERE id = ANY($2)";
    conn.execute(insert, params![now, ids]).await.map(drop)
}
