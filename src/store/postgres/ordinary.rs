//! Orders of ordinary vouchers in PostgreSQL: bought, or closed as overdue. They hold no piece of a stock. What writes
//! is inside the caller's transaction.

use seckill_model::Millis;
use sqlx::PgConnection;

use super::super::{rows::Purchase, rules, session::Fault};

pub(super) async fn buy(
    conn: &mut PgConnection,
    purchase: Purchase,
    now: Millis,
) -> Result<(), Fault> {
    let (order, user, voucher) = purchase;
    let done = sqlx::query(
        "INSERT INTO tb_ordinary_order (id, user_id, voucher_id, create_time, update_time) \
         SELECT $1, $2, id, $4, $4 FROM tb_voucher WHERE id = $3 AND type = 0 AND status = 1 \
         AND NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = $1) \
         ON CONFLICT DO NOTHING",
    )
    .bind(order)
    .bind(user)
    .bind(voucher)
    .bind(now.0)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(());
    }
    let found = sqlx::query_as("SELECT user_id, voucher_id FROM tb_ordinary_order WHERE id = $1")
        .bind(order)
        .fetch_optional(&mut *conn)
        .await?;
    let offer = sqlx::query_as("SELECT type, status FROM tb_voucher WHERE id = $1")
        .bind(voucher)
        .fetch_optional(conn)
        .await?;
    Ok(rules::unwritten(purchase, found, offer)?)
}

pub(super) async fn close_overdue(
    conn: &mut PgConnection,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<u64, Fault> {
    // A payment that is under way is waited for, and `status` is looked at again after it.
    let done = sqlx::query(
        "UPDATE tb_ordinary_order SET status = 5, close_time = $3, update_time = $3 \
         WHERE status = 1 AND id IN (\
             SELECT id FROM tb_ordinary_order \
             WHERE status = 1 AND create_time < $1 ORDER BY create_time, id LIMIT $2)",
    )
    .bind(before.0)
    .bind(i64::from(limit))
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
