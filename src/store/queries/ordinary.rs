//! Orders of ordinary vouchers: purchase, and closing when overdue. They hold no stock.

use seckill_model::Millis;

use super::{
    super::{dialect::Dialect, rows::Purchase, rules, session::Fault},
    Conn,
};

pub(crate) async fn buy<D: Dialect>(
    conn: &mut Conn<D>,
    purchase: Purchase,
    now: Millis,
) -> Result<(), Fault> {
    let (order, user, voucher) = purchase;
    let inserted = D::sql(
        "INSERT INTO tb_ordinary_order (id, user_id, voucher_id, create_time, update_time) \
         SELECT $1, $2, id, $4, $4 FROM tb_voucher WHERE id = $3 AND type = 0 AND status = 1 \
         AND NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = $1)",
    )
    .bind(order)
    .bind(user)
    .bind(voucher)
    .bind(now.0)
    .insert(conn)
    .await?;
    if inserted == 1 {
        return Ok(());
    }
    let found = D::sql("SELECT user_id, voucher_id FROM tb_ordinary_order WHERE id = $1")
        .bind(order)
        .row(conn)
        .await?;
    let offer =
        D::sql("SELECT type, status FROM tb_voucher WHERE id = $1").bind(voucher).row(conn).await?;
    Ok(rules::unwritten(purchase, found, offer)?)
}

pub(crate) async fn close_overdue<D: Dialect>(
    conn: &mut Conn<D>,
    before: Millis,
    limit: u32,
    now: Millis,
    page: usize,
) -> Result<u64, Fault> {
    let overdue: Vec<(i64,)> = D::sql(format!(
        "SELECT id FROM tb_ordinary_order {} \
         WHERE status = 1 AND create_time < $1 ORDER BY create_time, id LIMIT $2",
        D::index("idx_ordinary_unpaid")
    ))
    .bind(before.0)
    .bind(limit)
    .rows(conn)
    .await?;
    let mut closed = 0;
    for page in overdue.chunks(page) {
        // Waits for payments in progress, then checks `status` again.
        closed += D::sql(
            "UPDATE tb_ordinary_order SET status = 5, close_time = $1, update_time = $1 \
             WHERE status = 1 AND id = ANY($2)",
        )
        .bind(now.0)
        .bind(page.iter().map(|(id,)| *id).collect::<Vec<_>>())
        .execute(conn)
        .await?;
    }
    Ok(closed)
}
