//! Orders of ordinary vouchers: purchase, and closing when overdue. They hold no stock.

use seckill_model::{Fence, Millis, OrderId, UserId, VoucherId};

use super::{Overdue, jobs::pass_fence};
use crate::{
    Fault, Result, Store, params,
    rules::{self, number},
    transaction,
};

impl Store {
    /// Writes an unpaid order of an ordinary voucher, in one transaction. Repeating it has no effect.
    ///
    /// # Errors
    /// [`crate::StoreError::Rule`] if there is no such voucher, or it is sold in a flash sale, off the shelf or expired;
    /// [`crate::StoreError::Rejected`] if another order has this ID. Then nothing was written.
    pub async fn buy(
        &self,
        order: OrderId,
        user: UserId,
        voucher: VoucherId,
        now: Millis,
    ) -> Result<()> {
        let buyer = number(user.0)?;
        transaction!(self, |conn| {
            let insert = "INSERT INTO tb_ordinary_order \
                 (id, user_id, voucher_id, create_time, update_time) \
                 SELECT $1, $2, id, $4, $4 FROM tb_voucher \
                 WHERE id = $3 AND type = 0 AND status = 1 \
                 AND NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = $1)";
            if conn.insert(insert, params![order, buyer, voucher, now]).await? == 1 {
                return Ok(());
            }
            let query = "SELECT user_id, voucher_id FROM tb_ordinary_order WHERE id = $1";
            let found = conn.row(query, params![order]).await?;
            if found == Some((user, voucher)) {
                return Ok(());
            }
            let query = "SELECT type, status FROM tb_voucher WHERE id = $1";
            let offer = conn.row(query, params![voucher]).await?;
            Err(rules::why_unwritten(order, voucher, offer).into())
        })
    }

    /// Closes at most `limit` unpaid orders of ordinary vouchers that were written before `before`, oldest first, in
    /// one transaction under `fence`; returns how many. No stock is returned.
    ///
    /// # Errors
    /// As [`Store::close_overdue`].
    pub async fn close_overdue_ordinary(
        &self,
        before: Millis,
        limit: u32,
        of: Overdue<'_>,
        now: Millis,
        fence: &Fence,
    ) -> Result<u64> {
        let page = self.database()?.page();
        transaction!(self, |conn| {
            pass_fence(conn, fence, now).await?;
            let overdue = of.page_of_ordinary(conn, before, limit).await?;
            let mut closed = 0;
            for part in overdue.chunks(page) {
                // Waits for payments in progress, then checks `status` again.
                let update = "UPDATE tb_ordinary_order \
                     SET status = 5, close_time = $1, update_time = $1 \
                     WHERE status = 1 AND id = ANY($2)";
                closed += conn.execute(update, params![now, part]).await?;
            }
            Ok(closed)
        })
    }
}
