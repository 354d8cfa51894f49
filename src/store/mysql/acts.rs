//! The audit log in MySQL. What writes is inside the caller's transaction.

use sqlx::MySqlConnection;

use super::super::{
    Act, ActivityFilter, Place, Recorded,
    rows::{self, ActRow, select_acts},
    session::Fault,
};

pub(super) async fn record(conn: &mut MySqlConnection, act: &Act) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO tb_audit_log (at, operator, node, act, subject, reason, result, \
         figures_before, figures_after, once) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE id = id",
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
    .await?;
    Ok(())
}

pub(super) async fn acts(conn: &mut MySqlConnection, limit: u32) -> Result<Vec<Act>, Fault> {
    let rows: Vec<ActRow> = sqlx::query_as(select_acts!("ORDER BY id DESC LIMIT ?"))
        .bind(i64::from(limit))
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(|row| rows::recorded(row).act).collect())
}

/// Along the index over time.
pub(super) async fn activity(
    conn: &mut MySqlConnection,
    filter: &ActivityFilter,
    before: Option<Place>,
    limit: u32,
) -> Result<Vec<Recorded>, Fault> {
    let (last, below) = filter.last(before);
    let rows: Vec<ActRow> = sqlx::query_as(select_acts!(
        "WHERE at >= ? AND at <= ? AND (at < ? OR id < ?) \
         AND (? = 0 OR (? = 2) = (operator IN ('', '-', 'engine'))) \
         ORDER BY at DESC, id DESC LIMIT ?"
    ))
    .bind(filter.first())
    .bind(last)
    .bind(last)
    .bind(below)
    .bind(filter.code())
    .bind(filter.code())
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::recorded).collect())
}
