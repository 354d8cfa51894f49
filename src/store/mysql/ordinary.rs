//! Orders of ordinary vouchers in MySQL: bought, or closed as overdue. They hold no piece of a stock. What writes is
//! inside the caller's transaction.

use seckill_model::Millis;
use sqlx::MySqlConnection;

use super::{
    super::{rows::Purchase, rules, session::Fault},
    faults::is_taken,
};

pub(super) async fn buy(
    conn: &mut MySqlConnection,
    purchase: Purchase,
    now: Millis,
) -> Result<(), Fault> {
    let (order, user, voucher) = purchase;
    let done = sqlx::query(
        "INSERT INTO tb_ordinary_order (id, user_id, voucher_id, create_time, update_time) \
         SELECT ?, ?, id, ?, ? FROM tb_voucher WHERE id = ? AND type = 0 AND status = 1 \
         AND NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = ?)",
    )
    .bind(order)
    .bind(user)
    .bind(now.0)
    .bind(now.0)
    .bind(voucher)
    .bind(order)
    .execute(&mut *conn)
    .await;
    match done {
        Ok(done) if done.rows_affected() == 1 => return Ok(()),
        Ok(_) => {}
        Err(fault) if is_taken(&fault) => {}
        Err(fault) => return Err(fault.into()),
    }
    let found = sqlx::query_as("SELECT user_id, voucher_id FROM tb_ordinary_order WHERE id = ?")
        .bind(order)
        .fetch_optional(&mut *conn)
        .await?;
    let offer = sqlx::query_as("SELECT type, status FROM tb_voucher WHERE id = ?")
        .bind(voucher)
        .fetch_optional(conn)
        .await?;
    Ok(rules::unwritten(purchase, found, offer)?)
}

pub(super) async fn close_overdue(
    conn: &mut MySqlConnection,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<u64, Fault> {
    let done = sqlx::query(
        "UPDATE tb_ordinary_order SET status = 5, close_time = ?, update_time = ? \
         WHERE status = 1 AND create_time < ? ORDER BY create_time, id LIMIT ?",
    )
    .bind(now.0)
    .bind(now.0)
    .bind(before.0)
    .bind(limit)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
