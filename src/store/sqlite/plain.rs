//! One order the plain way in SQLite.

use super::{SqliteStore, StoreError, faults::told};
use crate::{
    model::{Millis, OrderEntry},
    store::{plain::Placed, rows},
};

impl SqliteStore {
    /// See [`crate::store::plain::PlainOrders::place`].
    pub(in crate::store) async fn place(
        &self,
        order: &OrderEntry,
        now: Millis,
    ) -> Result<Placed, StoreError> {
        let (id, user, voucher, _) = rows::key(order)?;
        let mut tx = self.begin().await?;
        // In the words of the partial index: a scan would make the plain way slower than it is.
        let held: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM tb_voucher_order \
             WHERE voucher_id = ? AND user_id = ? AND status NOT IN (4, 5)",
        )
        .bind(voucher)
        .bind(user)
        .fetch_one(&mut *tx)
        .await
        .map_err(told)?;
        if held > 0 {
            tx.rollback().await.map_err(told)?;
            return Ok(Placed::Held);
        }
        let taken = sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock - 1, update_time = ? \
             WHERE voucher_id = ? AND stock > 0",
        )
        .bind(now.0)
        .bind(voucher)
        .execute(&mut *tx)
        .await
        .map_err(told)?;
        if taken.rows_affected() == 0 {
            tx.rollback().await.map_err(told)?;
            return Ok(Placed::SoldOut);
        }
        sqlx::query(
            "INSERT INTO tb_voucher_order (id, user_id, voucher_id, create_time, update_time) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(user)
        .bind(voucher)
        .bind(now.0)
        .bind(now.0)
        .execute(&mut *tx)
        .await
        .map_err(told)?;
        tx.commit().await.map_err(told)?;
        Ok(Placed::Written)
    }
}
