//! Orders of sales: a batch of new orders is one statement; otherwise conflicting rows are read first.

use std::{cmp::Reverse, collections::BTreeSet};

use seckill_model::{
    LiveOrder, Millis, Order, OrderCounts, OrderFilter, OrderId, OrderStatus, UserId, VoucherId,
    ledger::SqlLedger,
};

use super::{
    super::{
        StoreError, Written,
        dialect::Dialect,
        rows::{self, ExistingRows, Key, LedgerRow, OrderRow, voucher_key},
        session::Fault,
    },
    Conn,
};

const COLUMNS: &str = "id, user_id, voucher_id, place, status, create_time, pay_time, close_time";
/// Orders of ordinary vouchers have no slot.
const ORDINARY_COLUMNS: &str =
    "id, user_id, voucher_id, NULL, status, create_time, pay_time, close_time";

/// Writes a batch of new orders inside the caller's transaction, which must be rolled back on an error or `false`: then
/// some orders already existed, or the stock is insufficient.
///
/// The stock, and with it the row of the sale, is updated before the orders are inserted: two batches that first took a
/// shared lock on it, as a foreign key does, would deadlock.
pub(crate) async fn write_new<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    now: Millis,
    page: usize,
) -> Result<bool, Fault> {
    Ok(take_stock(conn, keys, now).await?.is_empty() && insert(conn, keys, now, page).await?)
}

/// Writes the new orders of a batch and returns the rows that conflict with the others, inside the caller's
/// transaction, which must be rolled back on an error.
pub(crate) async fn write_mixed<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    now: Millis,
    page: usize,
) -> Result<Vec<Written>, Fault> {
    // Concurrent writers of these sales wait here, so the rows read below stay valid.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let mut existing = read_existing(conn, keys, page, sales).await?;
    let new = existing.take_in(keys);
    if let Some(voucher) = take_stock(conn, &new, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    if insert(conn, &new, now, page).await? {
        return Ok(existing.answers(keys, new)?);
    }
    // An order of another sale has taken an ID meanwhile.
    Err(Fault::Again)
}

/// Locks sales in the order of their IDs, and returns the existing ones.
pub(crate) async fn lock_sales<D: Dialect>(
    conn: &mut Conn<D>,
    vouchers: BTreeSet<i64>,
) -> Result<BTreeSet<i64>, sqlx::Error> {
    select_sales(conn, vouchers, D::LOCK).await
}

async fn select_sales<D: Dialect>(
    conn: &mut Conn<D>,
    vouchers: BTreeSet<i64>,
    lock: &str,
) -> Result<BTreeSet<i64>, sqlx::Error> {
    let rows: Vec<(i64,)> = D::sql(format!(
        "SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id = ANY($1) \
         ORDER BY voucher_id {lock}"
    ))
    .bind(Vec::from_iter(vouchers))
    .rows(conn)
    .await?;
    Ok(rows.into_iter().map(|(voucher,)| voucher).collect())
}

/// Takes a piece for each row, and returns the vouchers with insufficient stock.
pub(crate) async fn take_stock<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut short = Vec::new();
    for (voucher, pieces) in rows::pieces(keys) {
        let taken = D::sql(
            "UPDATE tb_seckill_voucher SET stock = stock - $2, update_time = $3 \
             WHERE voucher_id = $1 AND stock >= $2",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(conn)
        .await?;
        if taken != 1 {
            short.push(voucher);
        }
    }
    Ok(short)
}

/// Inserts orders; returns whether all were inserted.
pub(crate) async fn insert<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    now: Millis,
    page: usize,
) -> Result<bool, sqlx::Error> {
    for part in keys.chunks(page) {
        let inserted = D::sql(format!(
            "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, create_time, update_time) \
             SELECT id, user_id, voucher_id, place, $1, $1 FROM {} WHERE TRUE",
            D::batch(2)
        ))
        .bind(now.0)
        .bind(part)
        .insert(conn)
        .await?;
        if inserted != part.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn read_existing<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
    page: usize,
    sales: BTreeSet<i64>,
) -> Result<ExistingRows, sqlx::Error> {
    let (mut orders, mut live) = (Vec::new(), Vec::new());
    for part in keys.chunks(page) {
        orders.extend(by_id(conn, part).await?);
        live.extend(live_at(conn, part).await?);
    }
    Ok(ExistingRows::new(sales, orders, live))
}

/// The rows with the IDs of a batch.
pub(crate) async fn by_id<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
) -> Result<Vec<Key>, sqlx::Error> {
    D::sql("SELECT id, user_id, voucher_id, place FROM tb_voucher_order WHERE id = ANY($1)")
        .bind(keys.iter().map(|(order, ..)| *order).collect::<Vec<_>>())
        .rows(conn)
        .await
}

/// The live rows in the slots of a batch.
pub(crate) async fn live_at<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
) -> Result<Vec<Key>, sqlx::Error> {
    D::sql(format!(
        "SELECT o.id, o.user_id, o.voucher_id, o.place FROM {} {} tb_voucher_order o \
         ON o.voucher_id = batch.voucher_id AND o.user_id = batch.user_id AND o.place = batch.place \
         WHERE {}",
        D::batch(1),
        D::JOIN,
        D::LIVE,
    ))
    .bind(keys)
    .rows(conn)
    .await
}

/// Predicts the result of [`write_mixed`] for each entry alone. Takes no lock, so that no writer waits for it.
pub(crate) async fn foresee<D: Dialect>(
    conn: &mut Conn<D>,
    keys: &[Key],
) -> Result<Vec<Written>, Fault> {
    let sales = select_sales(conn, rows::vouchers(keys), "").await?;
    Ok(read_existing(conn, keys, keys.len().max(1), sales).await?.foresee(keys)?)
}

pub(crate) async fn one<D: Dialect>(
    conn: &mut Conn<D>,
    id: OrderId,
) -> Result<Option<Order>, Fault> {
    for (columns, table) in [(COLUMNS, "tb_voucher_order"), (ORDINARY_COLUMNS, "tb_ordinary_order")]
    {
        let query = D::sql(format!("SELECT {columns} FROM {table} WHERE id = $1"));
        if let Some(row) = query.bind(id.as_i64()).row(conn).await? {
            return Ok(Some(rows::order(row)?));
        }
    }
    Ok(None)
}

pub(crate) async fn among_ids<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
) -> Result<Vec<Order>, Fault> {
    let rows: Vec<OrderRow> =
        D::sql(format!("SELECT {COLUMNS} FROM tb_voucher_order WHERE id = ANY($1)"))
            .bind(numbers(ids))
            .rows(conn)
            .await?;
    Ok(rows.into_iter().map(rows::order).collect::<Result<_, _>>()?)
}

/// A page of orders, newest first: merged from several parts, each read along one index from the last ID.
pub(crate) async fn page<D: Dialect>(
    conn: &mut Conn<D>,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: u32,
) -> Result<Vec<Order>, Fault> {
    let (of_user, of_voucher) = (filter.user.is_some(), filter.voucher.is_some());
    let index = match (of_user, of_voucher) {
        (true, _) => D::index("idx_ordinary_user"),
        (false, true) => D::index("idx_ordinary_voucher"),
        (false, false) => D::PRIMARY.to_owned(),
    };
    let mut parts =
        vec![format!("SELECT {ORDINARY_COLUMNS} FROM tb_ordinary_order {index} WHERE TRUE")];
    for part in D::order_pages(of_user, of_voucher) {
        parts.push(format!("SELECT {COLUMNS} FROM tb_voucher_order {part}"));
    }
    // There are no rows beyond 63 bits.
    let user = |user: UserId| i64::try_from(user.0).unwrap_or(-1);
    let voucher = |voucher: VoucherId| i64::try_from(voucher.0).unwrap_or(-1);
    let conditions = [
        (" AND user_id =", filter.user.map(user)),
        (" AND voucher_id =", filter.voucher.map(voucher)),
        (" AND status =", filter.status.map(OrderStatus::code)),
        (" AND user_id <>", filter.not.user.map(user)),
        (" AND voucher_id <>", filter.not.voucher.map(voucher)),
        (" AND status <>", filter.not.status.map(OrderStatus::code)),
        (" AND id >=", Some(filter.from.map_or(0, OrderId::as_i64))),
        (" AND id <", [before, filter.to].into_iter().flatten().min().map(OrderId::as_i64)),
    ];
    let mut page = Vec::new();
    for part in parts {
        let mut query = D::sql(part);
        for (text, value) in conditions {
            if let Some(value) = value {
                query = query.push_bind(text, value);
            }
        }
        let rows = query.push_bind(" ORDER BY id DESC LIMIT", limit).rows(conn).await?;
        for row in rows {
            page.push(rows::order(row)?);
        }
    }
    page.sort_unstable_by_key(|order| Reverse(order.id));
    page.truncate(limit as usize);
    Ok(page)
}

pub(crate) async fn existing<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    among(conn, ids, "SELECT id FROM tb_voucher_order WHERE id = ANY($1)").await
}

pub(crate) async fn closed_among<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    // `+status` prevents SQLite from using the index of closed orders.
    const CLOSED: &str = "SELECT id FROM tb_voucher_order o \
        WHERE id = ANY($1) AND +status IN (4, 5) \
        AND NOT EXISTS (SELECT 1 FROM tb_give_back g WHERE g.order_id = o.id AND g.given IS NULL)";
    among(conn, ids, CLOSED).await
}

async fn among<D: Dialect>(
    conn: &mut Conn<D>,
    ids: &[OrderId],
    query: &'static str,
) -> Result<Vec<OrderId>, Fault> {
    let found: Vec<(i64,)> = D::sql(query).bind(numbers(ids)).rows(conn).await?;
    Ok(found.into_iter().map(|(id,)| rows::order_id(id)).collect::<Result<_, _>>()?)
}

/// IDs as a list to bind.
pub(crate) fn numbers(ids: &[OrderId]) -> Vec<i64> {
    ids.iter().map(|id| id.as_i64()).collect()
}

pub(crate) async fn live<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<LiveOrder>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows = D::sql(format!(
        "SELECT id, user_id, place FROM tb_voucher_order {} \
         WHERE voucher_id = $1 AND {} AND id > $2 ORDER BY id LIMIT $3",
        D::index("idx_live_order"),
        D::LIVE
    ))
    .bind(voucher)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .rows(conn)
    .await?;
    Ok(rows.into_iter().map(rows::live_order).collect::<Result<_, _>>()?)
}

/// In one statement, for a consistent view.
pub(crate) async fn ledger<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
) -> Result<SqlLedger, Fault> {
    // Each figure uses an index. Duplicate orders are possible only if the unique index is missing, which this must
    // detect.
    let row: Option<LedgerRow> = D::sql(format!(
        "SELECT s.initial_stock, s.stock, \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND {live}), \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND {closed}), \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order WHERE voucher_id = $1 AND {live} \
          GROUP BY user_id, place HAVING COUNT(*) > 1) doubled), \
         (SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL AND voucher_id = $1) \
         FROM tb_seckill_voucher s WHERE s.voucher_id = $1",
        live = D::LIVE,
        closed = D::CLOSED,
    ))
    .bind(voucher_key(voucher)?)
    .row(conn)
    .await?;
    Ok(row.map(rows::ledger).ok_or(StoreError::NoSale(voucher))?)
}

pub(crate) async fn counts<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
) -> Result<OrderCounts, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(OrderCounts::default()) };
    Ok(rows::order_counts(D::sql(D::ORDER_COUNTS).bind(voucher).rows(conn).await?)?)
}

pub(crate) async fn repeat_buyers<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    limit: u32,
) -> Result<Vec<(UserId, u64)>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows = D::sql(D::REPEAT_BUYERS).bind(voucher).bind(limit).rows(conn).await?;
    Ok(rows::buyers(rows))
}
