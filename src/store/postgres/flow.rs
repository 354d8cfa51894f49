//! Orders over time in PostgreSQL, each counted in one pass along the primary key.

use sqlx::PgConnection;

use super::super::{
    flow::{Counted, OrderFlow, Window},
    session::Fault,
};

pub(super) async fn flow(conn: &mut PgConnection, window: Window) -> Result<OrderFlow, Fault> {
    let [begin, step, first, last] = window.by_id();
    let admitted: Vec<Counted> = sqlx::query_as(
        "SELECT ((id >> 32) - $1) / $2 AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= $3 AND id < $4 GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .fetch_all(&mut *conn)
    .await?;
    let [begin, step, end, first, last] = window.by_time();
    let persisted: Vec<Counted> = sqlx::query_as(
        "SELECT (create_time - $1) / $2 AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= $3 AND id < $4 AND create_time >= $1 AND create_time < $5 GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .bind(end)
    .fetch_all(conn)
    .await?;
    Ok(window.flow(&admitted, &persisted))
}
