//! Orders over time in MySQL, each counted in one pass along the primary key.

use sqlx::MySqlConnection;

use super::super::{
    flow::{Counted, OrderFlow, Window},
    session::Fault,
};

pub(super) async fn flow(conn: &mut MySqlConnection, window: Window) -> Result<OrderFlow, Fault> {
    let [begin, step, first, last] = window.by_id();
    let admitted: Vec<Counted> = sqlx::query_as(
        "SELECT CAST((id DIV 4294967296 - ?) DIV ? AS SIGNED) AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= ? AND id < ? GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .fetch_all(&mut *conn)
    .await?;
    let [begin, step, end, first, last] = window.by_time();
    let persisted: Vec<Counted> = sqlx::query_as(
        "SELECT CAST((create_time - ?) DIV ? AS SIGNED) AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= ? AND id < ? AND create_time >= ? AND create_time < ? GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .bind(begin)
    .bind(end)
    .fetch_all(conn)
    .await?;
    Ok(window.flow(&admitted, &persisted))
}
