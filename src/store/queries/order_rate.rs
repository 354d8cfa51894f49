//! Orders over time, each counted in one pass along the primary key.

use super::{
    super::{
        dialect::Dialect,
        order_rate::{OrderFlow, Window},
        session::Fault,
    },
    Conn,
};

pub(crate) async fn flow<D: Dialect>(
    conn: &mut Conn<D>,
    window: Window,
) -> Result<OrderFlow, Fault> {
    let [begin, step, first, last] = window.by_id();
    let second = D::quotient("id", "4294967296");
    let admitted = D::sql(format!(
        "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order WHERE id >= $3 AND id < $4 GROUP BY slot",
        D::quotient(&format!("{second} - $1"), "$2")
    ))
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .rows(conn)
    .await?;
    let [begin, step, end, first, last] = window.by_time();
    let persisted = D::sql(format!(
        "SELECT {} AS slot, COUNT(*) FROM tb_voucher_order \
         WHERE id >= $3 AND id < $4 AND create_time >= $1 AND create_time < $5 GROUP BY slot",
        D::quotient("create_time - $1", "$2")
    ))
    .bind(begin)
    .bind(step)
    .bind(first)
    .bind(last)
    .bind(end)
    .rows(conn)
    .await?;
    Ok(window.flow(&admitted, &persisted))
}
