//! Orders of ordinary vouchers in SQLite: bought, or closed as overdue. They hold no piece of a stock.

use seckill_model::Millis;
use sqlx::SqliteConnection;

use super::{
    super::{rows::Purchase, rules},
    StoreError,
    faults::told,
};

/// Inside the caller's transaction.
pub(super) async fn buy(
    conn: &mut SqliteConnection,
    purchase: Purchase,
    now: Millis,
) -> Result<(), StoreError> {
    let (order, user, voucher) = purchase;
    let done = sqlx::query(
        "INSERT INTO tb_ordinary_order (id, user_id, voucher_id, create_time, update_time) \
         SELECT ?1, ?2, id, ?4, ?4 FROM tb_voucher WHERE id = ?3 AND type = 0 AND status = 1 \
         AND NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = ?1) \
         ON CONFLICT DO NOTHING",
    )
    .bind(order)
    .bind(user)
    .bind(voucher)
    .bind(now.0)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    if done.rows_affected() == 1 {
        return Ok(());
    }
    let found = sqlx::query_as("SELECT user_id, voucher_id FROM tb_ordinary_order WHERE id = ?")
        .bind(order)
        .fetch_optional(&mut *conn)
        .await
        .map_err(told)?;
    let offer = sqlx::query_as("SELECT type, status FROM tb_voucher WHERE id = ?")
        .bind(voucher)
        .fetch_optional(conn)
        .await
        .map_err(told)?;
    rules::unwritten(purchase, found, offer)
}

/// Inside the caller's transaction.
pub(super) async fn close_overdue(
    conn: &mut SqliteConnection,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "UPDATE tb_ordinary_order SET status = 5, close_time = ?3, update_time = ?3 \
         WHERE status = 1 AND id IN (\
             SELECT id FROM tb_ordinary_order INDEXED BY idx_ordinary_unpaid \
             WHERE status = 1 AND create_time < ?1 ORDER BY create_time, id LIMIT ?2)",
    )
    .bind(before.0)
    .bind(limit)
    .bind(now.0)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(done.rows_affected())
}
