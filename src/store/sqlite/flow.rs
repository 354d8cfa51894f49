//! Orders over time in SQLite, each counted in one pass along the primary key.

use sqlx::SqlitePool;

use super::super::{
    StoreError,
    flow::{Counted, OrderFlow, Window},
};
use super::faults::told;

pub(super) async fn flow(pool: &SqlitePool, window: Window) -> Result<OrderFlow, StoreError> {
    let [begin, step, first, last] = window.by_id();
    let admitted: Vec<Counted> = sqlx::query_as(
        "SELECT ((id >> 32) - ?1) / ?2 AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= ?3 AND id < ?4 GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    let [begin, step, end, first, last] = window.by_time();
    let persisted: Vec<Counted> = sqlx::query_as(
        "SELECT (create_time - ?1) / ?2 AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= ?3 AND id < ?4 AND create_time >= ?1 AND create_time < ?5 GROUP BY slot",
    )
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .bind(end)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    Ok(window.flow(&admitted, &persisted))
}
