//! One order the plain way in SQLite.

use seckill_model::{Millis, OrderEntry};
use sqlx::SqliteConnection;

use super::{SqliteStore, StoreError};
use crate::{
    plain::Placed,
    rows::{self, Key},
    session::Fault,
};

impl SqliteStore {
    /// See [`crate::plain::PlainOrders::place`].
    pub(crate) async fn place(
        &self,
        order: &OrderEntry,
        now: Millis,
    ) -> Result<Placed, StoreError> {
        let key = rows::key(order)?;
        self.writer
            .work(move |stage| async move {
                let mut lease = self.begin(stage).await?;
                let done = place(&mut lease, key, now).await;
                self.end(lease, done).await
            })
            .await
    }
}

/// One order the plain way, inside the caller's transaction: select, update, insert.
async fn place(
    conn: &mut SqliteConnection,
    (id, user, voucher, _): Key,
    now: Millis,
) -> Result<Placed, Fault> {
    // In the words of the partial index: a scan would make the plain way slower than it is.
    let held: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = ? AND user_id = ? AND status NOT IN (4, 5)",
    )
    .bind(voucher)
    .bind(user)
    .fetch_one(&mut *conn)
    .await?;
    if held > 0 {
        return Ok(Placed::Held);
    }
    let taken = sqlx::query(
        "UPDATE tb_seckill_voucher SET stock = stock - 1, update_time = ? \
         WHERE voucher_id = ? AND stock > 0",
    )
    .bind(now.0)
    .bind(voucher)
    .execute(&mut *conn)
    .await?;
    if taken.rows_affected() == 0 {
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
    .execute(&mut *conn)
    .await?;
    Ok(Placed::Written)
}
