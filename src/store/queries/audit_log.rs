//! Audit log queries.

use super::{
    super::{
        Act, ActivityFilter, Place, Recorded,
        dialect::Dialect,
        rows::{self, ActRow},
        session::Fault,
    },
    Conn,
};

const SELECT: &str = "SELECT id, at, operator, node, act, subject, reason, result, \
     figures_before, figures_after, once FROM tb_audit_log";

pub(crate) async fn record<D: Dialect>(conn: &mut Conn<D>, act: &Act) -> Result<(), Fault> {
    D::sql(format!(
        "INSERT INTO tb_audit_log (at, operator, node, act, subject, reason, result, \
         figures_before, figures_after, once) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) {}",
        D::upsert("once", &[])
    ))
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

pub(crate) async fn acts<D: Dialect>(conn: &mut Conn<D>, limit: u32) -> Result<Vec<Act>, Fault> {
    let rows: Vec<ActRow> =
        D::sql(format!("{SELECT} ORDER BY id DESC LIMIT $1")).bind(limit).rows(conn).await?;
    Ok(rows.into_iter().map(|row| rows::recorded(row).act).collect())
}

/// Uses the index on time.
pub(crate) async fn activity<D: Dialect>(
    conn: &mut Conn<D>,
    filter: &ActivityFilter,
    before: Option<Place>,
    limit: u32,
) -> Result<Vec<Recorded>, Fault> {
    let (last, below) = filter.last(before);
    let rows: Vec<ActRow> = D::sql(format!(
        "{SELECT} WHERE at >= $1 AND at <= $2 AND (at < $2 OR id < $3) \
         AND ($4 = 0 OR ($4 = 2) = (operator IN ('', '-', 'engine'))) \
         ORDER BY at DESC, id DESC LIMIT $5"
    ))
    .bind(filter.first())
    .bind(last)
    .bind(below)
    .bind(filter.code())
    .bind(limit)
    .rows(conn)
    .await?;
    Ok(rows.into_iter().map(rows::recorded).collect())
}
