//! The audit log in SQLite.

use sqlx::{SqliteConnection, SqlitePool};

use super::super::{
    Act, ActivityFilter, Place, Recorded, StoreError,
    rows::{self, ActRow, select_acts},
};
use super::faults::told;

pub(super) async fn record(conn: &mut SqliteConnection, act: &Act) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO tb_audit_log (at, operator, node, act, subject, reason, result, \
         figures_before, figures_after, once) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (once) DO NOTHING",
    )
    .bind(act.at.0)
    .bind(&act.operator)
    .bind(&act.node)
    .bind(&act.act)
    .bind(act.subject.stored())
    .bind(&act.reason)
    .bind(act.result.stored())
    .bind(&act.before)
    .bind(&act.after)
    .bind(&act.once)
    .execute(conn)
    .await.map_err(told)?;
    Ok(())
}

pub(super) async fn acts(pool: &SqlitePool, limit: u32) -> Result<Vec<Act>, StoreError> {
    let rows: Vec<ActRow> = sqlx::query_as(select_acts!("ORDER BY id DESC LIMIT ?"))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await
        .map_err(told)?;
    Ok(rows.into_iter().map(|row| rows::recorded(row).act).collect())
}

/// Along the index over time.
pub(super) async fn activity(
    pool: &SqlitePool,
    filter: &ActivityFilter,
    before: Option<Place>,
    limit: u32,
) -> Result<Vec<Recorded>, StoreError> {
    let (last, below) = filter.last(before);
    let rows: Vec<ActRow> = sqlx::query_as(select_acts!(
        "WHERE at >= ?1 AND at <= ?2 AND (at < ?2 OR id < ?3) \
         AND (?4 = 0 OR (?4 = 2) = (operator IN ('', '-', 'engine'))) \
         ORDER BY at DESC, id DESC LIMIT ?5"
    ))
    .bind(filter.first())
    .bind(last)
    .bind(below)
    .bind(filter.code())
    .bind(i64::from(limit))
    .fetch_all(pool)
    .await
    .map_err(told)?;
    Ok(rows.into_iter().map(rows::recorded).collect())
}
