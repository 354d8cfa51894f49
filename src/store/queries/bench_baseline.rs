//! One order as the baseline of `seckill bench` writes it: select, update, insert.

use seckill_model::Millis;

use super::{
    super::{bench_baseline::Placed, dialect::Dialect, rows::Key, session::Fault},
    Conn,
};

/// Writes one order.
pub(crate) async fn place<D: Dialect>(
    conn: &mut Conn<D>,
    (order, user, voucher, _): Key,
    now: Millis,
) -> Result<Placed, Fault> {
    // Matches the index condition: a scan would make the baseline slower than it is.
    let held = D::sql(format!(
        "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND user_id = $2 AND {}",
        D::LIVE
    ))
    .bind(voucher)
    .bind(user)
    .number(conn)
    .await?;
    if held > 0 {
        return Ok(Placed::Held);
    }
    let taken = D::sql(
        "UPDATE tb_seckill_voucher SET stock = stock - 1, update_time = $1 \
         WHERE voucher_id = $2 AND stock > 0",
    )
    .bind(now.0)
    .bind(voucher)
    .execute(conn)
    .await?;
    if taken == 0 {
        return Ok(Placed::SoldOut);
    }
    D::sql(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, create_time, update_time) \
         VALUES ($1, $2, $3, $4, $4)",
    )
    .bind(order)
    .bind(user)
    .bind(voucher)
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(Placed::Written)
}
