//! Orders after they were written, in PostgreSQL: paid, or closed and given back.
//!
//! Payment and closing race: both lock an order and look whether it is unpaid before they change it, so
//! the first one wins. What writes is inside the caller's transaction.

use std::collections::BTreeSet;

use seckill_model::{ClosedOrder, Millis, OrderId, Payment, VoucherId};
use sqlx::PgConnection;

use super::{
    super::{
        Cancelled,
        rows::{self, Key, voucher_key},
        rules,
        session::Fault,
    },
    orders::{lock_sales, numbers},
};

/// Locks orders and reads where each stands, and pays those that are unpaid.
macro_rules! pay_statements {
    ($table:literal) => {
        (
            concat!(
                "SELECT id, status FROM ",
                $table,
                " WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
            ),
            concat!(
                "UPDATE ",
                $table,
                " SET status = 2, pay_time = $2, update_time = $2 WHERE status = 1 AND id = ANY($1)"
            ),
        )
    };
}

pub(super) async fn pay(
    conn: &mut PgConnection,
    ids: &[OrderId],
    now: Millis,
) -> Result<Vec<Payment>, Fault> {
    let (mut paid, mut others): (Vec<i64>, Vec<(i64, i64)>) = (Vec::new(), Vec::new());
    for (lock, update) in [
        pay_statements!("tb_voucher_order"),
        // Orders of ordinary vouchers.
        pay_statements!("tb_ordinary_order"),
    ] {
        // All who lock orders do it by their ids, whatever order they were asked in.
        let found: Vec<(i64, i64)> =
            sqlx::query_as(lock).bind(numbers(ids)).fetch_all(&mut *conn).await?;
        let unpaid: Vec<i64> =
            found.iter().filter(|(_, status)| *status == 1).map(|(id, _)| *id).collect();
        sqlx::query(update).bind(&unpaid).bind(now.0).execute(&mut *conn).await?;
        paid.extend(unpaid);
        others.extend(found);
        if others.len() == ids.len() {
            break;
        }
    }
    Ok(rules::payments(ids, paid, others))
}

pub(super) async fn close_overdue(
    conn: &mut PgConnection,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<Vec<ClosedOrder>, Fault> {
    let overdue: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT id, voucher_id FROM tb_voucher_order \
         WHERE status = 1 AND create_time < $1 ORDER BY create_time, id LIMIT $2",
    )
    .bind(before.0)
    .bind(i64::from(limit))
    .fetch_all(&mut *conn)
    .await?;
    // Sales before orders, as whoever writes orders does.
    let vouchers: BTreeSet<i64> = overdue.iter().map(|(_, voucher)| *voucher).collect();
    lock_sales(conn, vouchers).await?;
    // Some were paid since they were read.
    let unpaid: Vec<Key> = sqlx::query_as(
        "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
         WHERE id = ANY($1) AND status = 1 ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(overdue.iter().map(|(id, _)| *id).collect::<Vec<_>>())
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<i64> = unpaid.iter().map(|(id, ..)| *id).collect();
    sqlx::query(
        "UPDATE tb_voucher_order SET status = 5, close_time = $2, update_time = $2 \
         WHERE status = 1 AND id = ANY($1)",
    )
    .bind(&ids)
    .bind(now.0)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
         SELECT id, user_id, voucher_id, place, $2 FROM tb_voucher_order WHERE id = ANY($1)",
    )
    .bind(&ids)
    .bind(now.0)
    .execute(&mut *conn)
    .await?;
    for (voucher, pieces) in rows::pieces(&unpaid) {
        sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock + $2, update_time = $3 \
             WHERE voucher_id = $1",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(&mut *conn)
        .await?;
    }
    Ok(unpaid.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn cancel(
    conn: &mut PgConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<Cancelled>, Fault> {
    // Sales before orders, as whoever writes orders does.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let standing: Vec<(i64, i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT id, user_id, voucher_id, place, status FROM tb_voucher_order WHERE id = ANY($1)",
    )
    .bind(keys.iter().map(|(order, ..)| *order).collect::<Vec<_>>())
    .fetch_all(&mut *conn)
    .await?;
    let (new, answers) = rows::cancellations(keys, &sales, standing);
    let column = |of: fn(&Key) -> i64| new.iter().map(of).collect::<Vec<i64>>();
    let done = sqlx::query(
        "INSERT INTO tb_voucher_order \
         (id, user_id, voucher_id, place, status, create_time, close_time, update_time) \
         SELECT id, user_id, voucher_id, place, 4, $5, $5, $5 \
         FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[]) \
              AS new (id, user_id, voucher_id, place) \
         ON CONFLICT DO NOTHING",
    )
    .bind(column(|key| key.0))
    .bind(column(|key| key.1))
    .bind(column(|key| key.2))
    .bind(column(|key| key.3))
    .bind(now.0)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() != new.len() as u64 {
        // An order of another sale has taken an id since.
        return Err(Fault::Again);
    }
    sqlx::query(
        "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
         SELECT id, user_id, voucher_id, place, $2 FROM tb_voucher_order WHERE id = ANY($1)",
    )
    .bind(column(|key| key.0))
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(answers)
}

pub(super) async fn give_backs(
    conn: &mut PgConnection,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE given IS NULL AND order_id > $1 ORDER BY order_id LIMIT $2",
    )
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn given_since(
    conn: &mut PgConnection,
    voucher: VoucherId,
    since: Millis,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE voucher_id = $1 AND (given IS NULL OR given >= $2) AND order_id > $3 \
         ORDER BY order_id LIMIT $4",
    )
    .bind(voucher_key(voucher)?)
    .bind(since.0)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn gave_back(
    conn: &mut PgConnection,
    ids: &[OrderId],
    now: Millis,
) -> Result<(), Fault> {
    sqlx::query("UPDATE tb_give_back SET given = $2 WHERE given IS NULL AND order_id = ANY($1)")
        .bind(numbers(ids))
        .bind(now.0)
        .execute(conn)
        .await?;
    Ok(())
}

pub(super) async fn forget_give_backs(
    conn: &mut PgConnection,
    before: Millis,
) -> Result<u64, Fault> {
    let done = sqlx::query("DELETE FROM tb_give_back WHERE given IS NOT NULL AND given < $1")
        .bind(before.0)
        .execute(conn)
        .await?;
    Ok(done.rows_affected())
}

pub(super) async fn returning(conn: &mut PgConnection) -> Result<u64, Fault> {
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL")
        .fetch_one(conn)
        .await?;
    Ok(rows::count(count))
}
