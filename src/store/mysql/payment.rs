//! Orders after they were written, in MySQL: paid, or closed and given back.
//!
//! Payment and closing race: both lock an order and look whether it is unpaid before they change it, so
//! the first one wins. What writes is inside the caller's transaction.

use std::collections::BTreeSet;

use seckill_model::{ClosedOrder, Millis, OrderId, Payment, VoucherId};
use sqlx::MySqlConnection;

use super::{
    super::{
        Cancelled,
        rows::{self, Key, voucher_key},
        rules,
        session::Fault,
    },
    faults::is_taken,
    orders::{list, lock_sales, rows, run},
};

pub(super) async fn pay(
    conn: &mut MySqlConnection,
    ids: &[OrderId],
    now: Millis,
    most: usize,
) -> Result<Vec<Payment>, Fault> {
    let (mut paid, mut others) = (Vec::new(), Vec::new());
    // All who lock orders do it by their ids, whatever order they were asked in.
    let sorted: BTreeSet<OrderId> = ids.iter().copied().collect();
    let sorted: Vec<OrderId> = sorted.into_iter().collect();
    // Orders of sales, then those of ordinary vouchers.
    for table in ["tb_voucher_order", "tb_ordinary_order"] {
        if others.len() == sorted.len() {
            break;
        }
        for part in sorted.chunks(most) {
            let sql = format!(
                "SELECT id, status FROM {table} WHERE id IN ({}) ORDER BY id FOR UPDATE",
                list(part)
            );
            let found: Vec<(i64, i64)> = rows(conn, sql).await?;
            let unpaid: Vec<i64> =
                found.iter().filter(|(_, status)| *status == 1).map(|(id, _)| *id).collect();
            if !unpaid.is_empty() {
                let sql = format!(
                    "UPDATE {table} SET status = 2, pay_time = {0}, update_time = {0} \
                     WHERE status = 1 AND id IN ({1})",
                    now.0,
                    list(&unpaid)
                );
                run(conn, sql).await?;
            }
            paid.extend(unpaid);
            others.extend(found);
        }
    }
    Ok(rules::payments(ids, paid, others))
}

pub(super) async fn close_overdue(
    conn: &mut MySqlConnection,
    before: Millis,
    limit: u32,
    now: Millis,
    most: usize,
) -> Result<Vec<ClosedOrder>, Fault> {
    let overdue: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT id, voucher_id FROM tb_voucher_order FORCE INDEX (idx_unpaid_order) \
         WHERE status = 1 AND create_time < ? ORDER BY create_time, id LIMIT ?",
    )
    .bind(before.0)
    .bind(limit)
    .fetch_all(&mut *conn)
    .await?;
    // Sales before orders, as whoever writes orders does.
    let vouchers: BTreeSet<i64> = overdue.iter().map(|(_, voucher)| *voucher).collect();
    lock_sales(conn, vouchers).await?;
    let mut closed: Vec<Key> = Vec::new();
    for part in overdue.chunks(most) {
        // Some were paid since they were read.
        let sql = format!(
            "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
             WHERE id IN ({}) AND status = 1 ORDER BY id FOR UPDATE",
            list(part.iter().map(|(id, _)| id))
        );
        let unpaid: Vec<Key> = rows(conn, sql).await?;
        if unpaid.is_empty() {
            continue;
        }
        let sql = format!(
            "UPDATE tb_voucher_order SET status = 5, close_time = {0}, update_time = {0} \
             WHERE status = 1 AND id IN ({1})",
            now.0,
            list(unpaid.iter().map(|(id, ..)| id))
        );
        run(conn, sql).await?;
        let row =
            |(id, user, voucher, place): &Key| format!("({id},{user},{voucher},{place},{})", now.0);
        let sql = format!(
            "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) VALUES {}",
            list(unpaid.iter().map(row))
        );
        run(conn, sql).await?;
        closed.extend(unpaid);
    }
    for (voucher, pieces) in rows::pieces(&closed) {
        sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock + ?, update_time = ? WHERE voucher_id = ?",
        )
        .bind(pieces)
        .bind(now.0)
        .bind(voucher)
        .execute(&mut *conn)
        .await?;
    }
    Ok(closed.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn cancel(
    conn: &mut MySqlConnection,
    keys: &[Key],
    now: Millis,
    most: usize,
) -> Result<Vec<Cancelled>, Fault> {
    // Sales before orders, as whoever writes orders does.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let mut standing = Vec::new();
    for part in keys.chunks(most) {
        let sql = format!(
            "SELECT id, user_id, voucher_id, place, status FROM tb_voucher_order WHERE id IN ({})",
            list(part.iter().map(|(order, ..)| order))
        );
        standing.extend(rows::<(i64, i64, i64, i64, i64)>(conn, sql).await?);
    }
    let (new, answers) = rows::cancellations(keys, &sales, standing);
    let now = now.0;
    for part in new.chunks(most) {
        let row = |(order, user, voucher, place): &Key| {
            format!("({order},{user},{voucher},{place},4,{now},{now},{now})")
        };
        let sql = format!(
            "INSERT INTO tb_voucher_order \
             (id, user_id, voucher_id, place, status, create_time, close_time, update_time) VALUES {}",
            list(part.iter().map(row))
        );
        match run(conn, sql).await {
            Ok(_) => {}
            // An order of another sale has taken an id since.
            Err(fault) if is_taken(&fault) => return Err(Fault::Again),
            Err(fault) => return Err(fault.into()),
        }
        let row = |(order, user, voucher, place): &Key| {
            format!("({order},{user},{voucher},{place},{now})")
        };
        let sql = format!(
            "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) VALUES {}",
            list(part.iter().map(row))
        );
        run(conn, sql).await?;
    }
    Ok(answers)
}

pub(super) async fn give_backs(
    conn: &mut MySqlConnection,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE given IS NULL AND order_id > ? ORDER BY order_id LIMIT ?",
    )
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn given_since(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
    since: Millis,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = sqlx::query_as(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE voucher_id = ? AND (given IS NULL OR given >= ?) AND order_id > ? \
         ORDER BY order_id LIMIT ?",
    )
    .bind(voucher_key(voucher)?)
    .bind(since.0)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(super) async fn gave_back(
    conn: &mut MySqlConnection,
    ids: &[OrderId],
    now: Millis,
    most: usize,
) -> Result<(), Fault> {
    for part in ids.chunks(most) {
        let sql = format!(
            "UPDATE tb_give_back SET given = {} WHERE given IS NULL AND order_id IN ({})",
            now.0,
            list(part)
        );
        run(conn, sql).await?;
    }
    Ok(())
}

pub(super) async fn forget_give_backs(
    conn: &mut MySqlConnection,
    before: Millis,
) -> Result<u64, Fault> {
    let done = sqlx::query("DELETE FROM tb_give_back WHERE given IS NOT NULL AND given < ?")
        .bind(before.0)
        .execute(conn)
        .await?;
    Ok(done.rows_affected())
}

pub(super) async fn returning(conn: &mut MySqlConnection) -> Result<u64, Fault> {
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL")
        .fetch_one(conn)
        .await?;
    Ok(rows::count(count))
}
