//! Payment and closing of existing orders.
//!
//! Payment and closing race: both lock an order and check that it is unpaid before they change it, so the first one
//! wins.

use std::collections::BTreeSet;

use seckill_model::{ClosedOrder, Millis, OrderId, Payment, VoucherId};

use super::{
    super::{
        Cancelled,
        dialect::Dialect,
        rows::{self, Key, voucher_key},
        rules,
        session::Fault,
    },
    Conn,
    orders::{lock_sales, numbers},
};

pub(crate) async fn pay<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
    now: Millis,
    page: usize,
) -> Result<Vec<Payment>, Fault> {
    let (mut paid, mut others) = (Vec::new(), Vec::new());
    // Orders are always locked in the order of their IDs.
    let sorted: Vec<i64> = BTreeSet::from_iter(numbers(ids)).into_iter().collect();
    // Orders of sales, then those of ordinary vouchers.
    for table in ["tb_voucher_order", "tb_ordinary_order"] {
        if others.len() == sorted.len() {
            break;
        }
        for part in sorted.chunks(page) {
            let found: Vec<(i64, i64)> = D::sql(format!(
                "SELECT id, status FROM {table} WHERE id = ANY($1) ORDER BY id {}",
                D::LOCK
            ))
            .bind(part.to_vec())
            .rows(conn)
            .await?;
            let unpaid: Vec<i64> =
                found.iter().filter(|(_, status)| *status == 1).map(|(id, _)| *id).collect();
            if !unpaid.is_empty() {
                D::sql(format!(
                    "UPDATE {table} SET status = 2, pay_time = $1, update_time = $1 \
                     WHERE status = 1 AND id = ANY($2)"
                ))
                .bind(now.0)
                .bind(unpaid.clone())
                .execute(conn)
                .await?;
            }
            paid.extend(unpaid);
            others.extend(found);
        }
    }
    Ok(rules::payments(ids, paid, others))
}

pub(crate) async fn close_overdue<D: Dialect>(
    conn: &mut Conn<D>,
    before: Millis,
    limit: u32,
    now: Millis,
    page: usize,
) -> Result<Vec<ClosedOrder>, Fault> {
    let overdue: Vec<(i64, i64)> = D::sql(format!(
        "SELECT id, voucher_id FROM tb_voucher_order {} \
         WHERE status = 1 AND create_time < $1 ORDER BY create_time, id LIMIT $2",
        D::index("idx_unpaid_order")
    ))
    .bind(before.0)
    .bind(limit)
    .rows(conn)
    .await?;
    // Sales before orders, like the writers of orders.
    lock_sales(conn, overdue.iter().map(|(_, voucher)| *voucher).collect()).await?;
    let mut closed: Vec<Key> = Vec::new();
    for part in overdue.chunks(page) {
        // Some were paid since they were read.
        let unpaid: Vec<Key> = D::sql(format!(
            "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
             WHERE id = ANY($1) AND status = 1 ORDER BY id {}",
            D::LOCK
        ))
        .bind(part.iter().map(|(id, _)| *id).collect::<Vec<_>>())
        .rows(conn)
        .await?;
        if unpaid.is_empty() {
            continue;
        }
        D::sql(
            "UPDATE tb_voucher_order SET status = 5, close_time = $1, update_time = $1 \
             WHERE status = 1 AND id = ANY($2)",
        )
        .bind(now.0)
        .bind(unpaid.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
        .execute(conn)
        .await?;
        insert_give_backs(conn, &unpaid, now).await?;
        closed.extend(unpaid);
    }
    for (voucher, pieces) in rows::pieces(&closed) {
        D::sql(
            "UPDATE tb_seckill_voucher SET stock = stock + $2, update_time = $3 \
             WHERE voucher_id = $1",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(conn)
        .await?;
    }
    closed_orders(closed)
}

async fn insert_give_backs<D: Dialect>(
    conn: &mut Conn<D>,
    closed: &[Key],
    now: Millis,
) -> Result<(), Fault> {
    D::sql(format!(
        "INSERT INTO tb_give_back (order_id, user_id, voucher_id, place, closed) \
         SELECT id, user_id, voucher_id, place, $1 FROM {}",
        D::batch(2)
    ))
    .bind(now.0)
    .bind(closed)
    .execute(conn)
    .await?;
    Ok(())
}

pub(crate) async fn cancel<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    now: Millis,
    page: usize,
) -> Result<Vec<Cancelled>, Fault> {
    // Sales before orders, like the writers of orders.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let mut existing = Vec::new();
    for part in keys.chunks(page) {
        let rows: Vec<(i64, i64, i64, i64, i64)> = D::sql(
            "SELECT id, user_id, voucher_id, place, status FROM tb_voucher_order WHERE id = ANY($1)",
        )
        .bind(part.iter().map(|(order, ..)| *order).collect::<Vec<_>>())
        .rows(conn)
        .await?;
        existing.extend(rows);
    }
    let (new, answers) = rows::cancellations(keys, &sales, existing);
    for part in new.chunks(page) {
        let inserted = D::sql(format!(
            "INSERT INTO tb_voucher_order \
             (id, user_id, voucher_id, place, status, create_time, close_time, update_time) \
             SELECT id, user_id, voucher_id, place, 4, $1, $1, $1 FROM {} WHERE TRUE",
            D::batch(2)
        ))
        .bind(now.0)
        .bind(part)
        .insert(conn)
        .await?;
        if inserted != part.len() as u64 {
            // An order of another sale has taken an ID meanwhile.
            return Err(Fault::Again);
        }
        insert_give_backs(conn, part, now).await?;
    }
    Ok(answers)
}

pub(crate) async fn give_backs<D: Dialect>(
    conn: &mut Conn<D>,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = D::sql(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE given IS NULL AND order_id > $1 ORDER BY order_id LIMIT $2",
    )
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .rows(conn)
    .await?;
    closed_orders(rows)
}

pub(crate) async fn given_since<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    since: Millis,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<ClosedOrder>, Fault> {
    let rows = D::sql(
        "SELECT order_id, user_id, voucher_id, place FROM tb_give_back \
         WHERE voucher_id = $1 AND (given IS NULL OR given >= $2) AND order_id > $3 \
         ORDER BY order_id LIMIT $4",
    )
    .bind(voucher_key(voucher)?)
    .bind(since.0)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .rows(conn)
    .await?;
    closed_orders(rows)
}

fn closed_orders(rows: Vec<Key>) -> Result<Vec<ClosedOrder>, Fault> {
    Ok(rows.into_iter().map(rows::closed_order).collect::<Result<_, _>>()?)
}

pub(crate) async fn gave_back<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
    now: Millis,
    page: usize,
) -> Result<(), Fault> {
    for part in ids.chunks(page) {
        D::sql("UPDATE tb_give_back SET given = $1 WHERE given IS NULL AND order_id = ANY($2)")
            .bind(now.0)
            .bind(numbers(part))
            .execute(conn)
            .await?;
    }
    Ok(())
}

pub(crate) async fn forget_give_backs<D: Dialect>(
    conn: &mut Conn<D>,
    before: Millis,
) -> Result<u64, Fault> {
    Ok(D::sql("DELETE FROM tb_give_back WHERE given IS NOT NULL AND given < $1")
        .bind(before.0)
        .execute(conn)
        .await?)
}

pub(crate) async fn returning<D: Dialect>(conn: &mut Conn<D>) -> Result<u64, Fault> {
    let query = D::sql("SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL");
    Ok(rows::count(query.number(conn).await?))
}
