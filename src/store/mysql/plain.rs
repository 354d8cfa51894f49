//! One order the plain way in MySQL.

use seckill_model::{Millis, OrderEntry};
use sqlx::MySqlConnection;

use super::MysqlStore;
use crate::{
    StoreError,
    plain::Placed,
    rows::{self, Key},
    session::Fault,
};

impl MysqlStore {
    /// See [`crate::plain::PlainOrders::place`].
    pub(crate) async fn place(
        &self,
        order: &OrderEntry,
        now: Millis,
    ) -> Result<Placed, StoreError> {
        let key = rows::key(order)?;
        self.sessions
            .work(move |stage| async move {
                let mut lease = self.sessions.begin(stage).await?;
                let done = place(&mut lease, key, now).await;
                lease.end(done).await
            })
            .await
    }
}

/// One order the plain way, inside the caller's transaction: select, update, insert.
async fn place(
    conn: &mut MySqlConnection,
    (order, user, voucher, _): Key,
    now: Millis,
) -> Result<Placed, Fault> {
    let held: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = ? AND user_id = ? AND live = 1",
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
    .bind(order)
    .bind(user)
    .bind(voucher)
    .bind(now.0)
    .bind(now.0)
    .execute(&mut *conn)
    .await?;
    Ok(Placed::Written)
}
