//! The baselines of `seckill bench`: one order by select, update and insert, each a statement and a round trip; and rows
//! inserted without anything else, which is the limit of the database.

use seckill_model::{Millis, OrderEntry};

use super::orders::insert;
use crate::{Dialect, Fault, OrderRow, Result, Store, batch, params, read, transaction};

/// The result of one order of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The row is new, and one piece was taken from the stock.
    Written,
    /// The buyer already holds an order for this voucher; nothing was written.
    Held,
    /// Sold out; nothing was written.
    SoldOut,
}

impl Store {
    /// Writes one order as a simple program does, in one transaction: checks whether the buyer holds an order, takes a
    /// piece, inserts the row. The engine is measured against it and never calls it; see [`Store::write_orders`].
    ///
    /// # Errors
    /// The database is unavailable or rejects it; then nothing was written.
    pub async fn place_baseline(&self, order: &OrderEntry, now: Millis) -> Result<Placed> {
        let OrderRow { id, user_id, voucher_id, .. } = OrderRow::try_from(order)?;
        transaction!(self, |conn| {
            // Matches the index condition: a scan would make the baseline slower than it is.
            let live = conn.dialect().live;
            let query = format!(
                "SELECT COUNT(*) FROM tb_voucher_order \
                 WHERE voucher_id = $1 AND user_id = $2 AND {live}"
            );
            let held: i64 = conn.one(query, params![voucher_id, user_id]).await?;
            if held > 0 {
                return Ok(Placed::Held);
            }
            let update = "UPDATE tb_seckill_voucher SET stock = stock - 1, update_time = $1 \
                 WHERE voucher_id = $2 AND stock > 0";
            if conn.execute(update, params![now, voucher_id]).await? == 0 {
                return Ok(Placed::SoldOut);
            }
            let insert = "INSERT INTO tb_voucher_order \
                 (id, user_id, voucher_id, create_time, update_time) VALUES ($1, $2, $3, $4, $4)";
            conn.execute(insert, params![id, user_id, voucher_id, now]).await?;
            Ok(Placed::Written)
        })
    }

    /// Inserts rows of new orders in one transaction, and does nothing else; returns whether all were inserted.
    ///
    /// # Errors
    /// The database is unavailable or rejects it; then nothing was written.
    pub async fn insert_baseline(&self, orders: &[OrderEntry], now: Millis) -> Result<bool> {
        let (rows, page) = (&batch::rows(orders)?, self.database()?.page());
        transaction!(self, |conn| insert(conn, rows, now, page).await)
    }

    /// Bytes of the orders of sales with their indexes; on SQLite, of the whole file.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn order_bytes(&self) -> Result<u64> {
        read!(self, |conn| {
            let Dialect { refresh, order_bytes, .. } = conn.dialect();
            if let Some(refresh) = refresh {
                conn.execute(*refresh, params![]).await?;
            }
            let bytes: i64 = conn.one(*order_bytes, params![]).await?;
            Ok(bytes.unsigned_abs())
        })
    }
}
