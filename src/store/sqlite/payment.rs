//! Orders after they were written, in SQLite: paid, or closed and given back.
//!
//! Payment and closing race; both ask for `status = 1` in the statement that changes it, so the
//! first one wins and the other changes nothing.

use seckill_model::{ClosedOrder, Millis, OrderId, Payment, VoucherId};
use sqlx::{SqliteConnection, SqlitePool};

use super::{
    super::{
        rows::{self, Key, voucher_key},
        rules,
    },
    Cancelled, StoreError,
    faults::told,
    orders::{json, json_rows, sales_there},
};

/// Pays those that are unpaid, and reads where each stands.
macro_rules! pay_statements {
    ($table:literal) => {
        (
            concat!(
                "UPDATE ",
                $table,
                " SET status = 2, pay_time = ?2, update_time = ?2 \
                 WHERE status = 1 AND id IN (SELECT value FROM json_each(?1)) RETURNING id"
            ),
            concat!(
                "SELECT id, status FROM ",
                $table,
                " WHERE id IN (SELECT value FROM json_each(?1))"
            ),
        )
    };
}

/// Inside the caller's transaction.
pub(super) async fn pay(
    conn: &mut SqliteConnection,
    ids: &[OrderId],
    now: Millis,
) -> Result<Vec<Payment>, StoreError> {
    let asked = json(ids);
    let (mut paid, mut others) = (Vec::new(), Vec::new());
    for (update, select) in [
        pay_statements!("tb_voucher_order"),
        // Orders of ordinary vouchers.
        pay_statements!("tb_ordinary_order"),
    ] {
        let updating = sqlx::query_scalar::<_, i64>(update).bind(&asked).bind(now.0);
        paid.extend(updating.fetch_all(&mut *conn).await.map_err(told)?);
        if paid.len() == ids.len() {
            break;
        }
        let reading = sqlx::query_as::<_, (i64, i64)>(select).bind(&asked);
        others.extend(reading.fetch_all(&mut *conn).await.map_err(told)?);
    }
    Ok(rules::payments(ids, paid, others))
}

/// Inside the caller's transaction.
pub(super) async fn close_overdue(
    conn: &mut SqliteConnection,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<Vec<ClosedOrder>, StoreError> {
    let closed: Vec<Key> = sqlx::query_as(
        "UPDATE tb_voucher_order SET status = 5, close_time = ?3, update_time = ?3 \
         WHERE status = 1 AND id IN (\
             SELECT id FROM tb_voucher_order INDEXED BY idx_unpaid_order \
             WHERE status = 1 AND create_time < ?1 ORDER BY create_time, id LIMIT ?2) \
         RETURNING id, user_id, voucher_id, place",
    )
    .bind(before.0)
    .bind(limit)
    .bind(now.0)
    .fetch_all(&mut *conn)
    .await
    .map_err(told)?;
    for (voucher, pieces) in rows::pieces(&closed) {
        sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock + ?2, update_time = ?3 \
             WHERE voucher_id = ?1",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(&mut *conn)
        .await
        .map_err(told)?;
    }
    sqlx::query(
        "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2 FROM json_each(?1)",
    )
    .bind(json(
        closed.iter().map(|(id, user, voucher, place)| format!("[{id},{user},{voucher},{place}]")),
    ))
    .bind(now.0)
    .execute(conn)
    .await
    .map_err(told)?;
    closed.into_iter().map(rows::closed_order).collect()
}

/// Inside the caller's transaction.
pub(super) async fn cancel(
    conn: &mut SqliteConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<Cancelled>, StoreError> {
    let sales = sales_there(conn, keys).await?;
    let standing: Vec<(i64, i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT id, user_id, voucher_id, place, status FROM tb_voucher_order \
         WHERE id IN (SELECT value FROM json_each(?1))",
    )
    .bind(json(keys.iter().map(|(order, ..)| order)))
    .fetch_all(&mut *conn)
    .await
    .map_err(told)?;
    let (new, answers) = rows::cancellations(keys, &sales, standing);
    for insert in [
        "INSERT INTO tb_voucher_order \
         (id, user_id, voucher_id, place, status, create_time, close_time, update_time) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, 4, ?2, ?2, ?2 FROM json_each(?1)",
        "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2 FROM json_each(?1)",
    ] {
        sqlx::query(insert)
            .bind(json_rows(&new))
            .bind(now.0)
            .execute(&mut *conn)
            .await
            .map_err(told)?;
    }
    Ok(answers)
}

pub(super) async fn give_backs(
    pool: &SqlitePool,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, StoreError> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE given IS NULL AND order_id > ?1 ORDER BY order_id LIMIT ?2",
    )
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter().map(rows::closed_order).collect()
}

pub(super) async fn given_since(
    pool: &SqlitePool,
    voucher: VoucherId,
    since: Millis,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, StoreError> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE voucher_id = ?1 AND (given IS NULL OR given >= ?2) AND order_id > ?3 \
         ORDER BY order_id LIMIT ?4",
    )
    .bind(voucher_key(voucher)?)
    .bind(since.0)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter().map(rows::closed_order).collect()
}

pub(super) async fn gave_back(
    conn: &mut SqliteConnection,
    ids: &[OrderId],
    now: Millis,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE tb_give_back SET given = ?2 \
         WHERE given IS NULL AND order_id IN (SELECT value FROM json_each(?1))",
    )
    .bind(json(ids))
    .bind(now.0)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(())
}

pub(super) async fn forget_give_backs(
    conn: &mut SqliteConnection,
    before: Millis,
) -> Result<u64, StoreError> {
    let done = sqlx::query("DELETE FROM tb_give_back WHERE given IS NOT NULL AND given < ?1")
        .bind(before.0)
        .execute(conn)
        .await
        .map_err(told)?;
    Ok(done.rows_affected())
}

pub(super) async fn returning(pool: &SqlitePool) -> Result<u64, StoreError> {
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL")
        .fetch_one(pool)
        .await
        .map_err(told)?;
    Ok(rows::count(count))
}
