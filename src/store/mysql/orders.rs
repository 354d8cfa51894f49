//! Orders in MySQL: a batch in one statement; where it is not all new, what stands is read first.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fmt::{Display, Write},
};

use seckill_model::{
    LiveOrder, Millis, Order, OrderCounts, OrderFilter, OrderId, OrderStatus, UserId, VoucherId,
    ledger::SqlBooks,
};
use sqlx::{AssertSqlSafe, FromRow, MySql, MySqlConnection, QueryBuilder, mysql::MySqlRow};

use super::{
    super::{
        StoreError, Written,
        rows::{self, BooksRow, Key, OrderRow, Standing, voucher_key},
        session::Fault,
    },
    faults::is_taken,
};

/// `1,2,3`. Digits only ever, so there is nothing to escape.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for item in items {
        // Writing to a String can't fail.
        let _ = write!(text, "{}{item}", if text.is_empty() { "" } else { "," });
    }
    text
}

/// Runs a statement of digits in one round trip, without preparing what will not come again.
pub(super) async fn run(conn: &mut MySqlConnection, sql: String) -> Result<u64, sqlx::Error> {
    Ok(sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?.rows_affected())
}

/// The same for rows.
pub(super) async fn rows<R: for<'r> FromRow<'r, MySqlRow>>(
    conn: &mut MySqlConnection,
    sql: String,
) -> Result<Vec<R>, sqlx::Error> {
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await?;
    rows.iter().map(R::from_row).collect()
}

/// Writes a batch that is all new, inside the caller's transaction, which must be rolled back
/// when this fails or says no: then some of it was not new, or not all of it has a piece.
pub(super) async fn write_new(
    conn: &mut MySqlConnection,
    keys: &[Key],
    now: Millis,
    most: usize,
) -> Result<bool, Fault> {
    if !take_stock(conn, keys, now).await?.is_empty() {
        return Ok(false);
    }
    match insert(conn, keys, now, most).await {
        Ok(()) => Ok(true),
        Err(fault) if is_taken(&fault) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}

/// Writes what is new of a batch and says what stands against the rest, inside the caller's transaction,
/// which must be rolled back when this fails.
pub(super) async fn write_mixed(
    conn: &mut MySqlConnection,
    keys: &[Key],
    now: Millis,
    most: usize,
) -> Result<Vec<Written>, Fault> {
    // Whoever writes orders of these sales waits here, so what is read below stays true.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let mut standing = read_standing(conn, keys, most, sales).await?;
    let new = standing.take_in(keys);
    if let Some(voucher) = take_stock(conn, &new, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    match insert(conn, &new, now, most).await {
        Ok(()) => Ok(standing.answers(keys, new)?),
        // An order of another sale has taken an id since.
        Err(fault) if is_taken(&fault) => Err(Fault::Again),
        Err(fault) => Err(fault.into()),
    }
}

/// Locks sales in the order of their numbers, and says which are there.
pub(super) async fn lock_sales(
    conn: &mut MySqlConnection,
    vouchers: impl IntoIterator<Item = i64>,
) -> Result<BTreeSet<i64>, sqlx::Error> {
    let vouchers = list(vouchers);
    if vouchers.is_empty() {
        return Ok(BTreeSet::new());
    }
    let sql = format!(
        "SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id IN ({vouchers}) \
         ORDER BY voucher_id FOR UPDATE"
    );
    let rows: Vec<(i64,)> = rows(conn, sql).await?;
    Ok(rows.into_iter().map(|(voucher,)| voucher).collect())
}

/// Takes a piece for each row, and says of which vouchers there are not enough.
async fn take_stock(
    conn: &mut MySqlConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut short = Vec::new();
    for (voucher, pieces) in rows::pieces(keys) {
        let done = sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock - ?, update_time = ? \
             WHERE voucher_id = ? AND stock >= ?",
        )
        .bind(pieces)
        .bind(now.0)
        .bind(voucher)
        .bind(pieces)
        .execute(&mut *conn)
        .await?;
        // Rows that were found, whether or not they changed: both are the one here.
        if done.rows_affected() != 1 {
            short.push(voucher);
        }
    }
    Ok(short)
}

async fn insert(
    conn: &mut MySqlConnection,
    keys: &[Key],
    now: Millis,
    most: usize,
) -> Result<(), sqlx::Error> {
    for part in keys.chunks(most) {
        let now = now.0;
        let row = |(order, user, voucher, place): &Key| {
            format!("({order},{user},{voucher},{place},{now},{now})")
        };
        let sql = format!(
            "INSERT INTO tb_voucher_order \
             (id, user_id, voucher_id, place, create_time, update_time) VALUES {}",
            list(part.iter().map(row))
        );
        run(conn, sql).await?;
    }
    Ok(())
}

async fn read_standing(
    conn: &mut MySqlConnection,
    keys: &[Key],
    most: usize,
    sales: BTreeSet<i64>,
) -> Result<Standing, sqlx::Error> {
    let (mut orders, mut live) = (Vec::new(), Vec::new());
    for part in keys.chunks(most) {
        let sql = format!(
            "SELECT id, user_id, voucher_id, place FROM tb_voucher_order WHERE id IN ({})",
            list(part.iter().map(|(order, ..)| order))
        );
        orders.extend(rows::<Key>(conn, sql).await?);
        for (voucher, _) in rows::pieces(part) {
            let users =
                part.iter().filter(|(_, _, it, _)| *it == voucher).map(|(_, user, ..)| user);
            let sql = format!(
                "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
                 WHERE voucher_id = {voucher} AND user_id IN ({}) AND live = 1",
                list(users)
            );
            live.extend(rows::<Key>(conn, sql).await?);
        }
    }
    Ok(Standing::new(sales, orders, live))
}

/// What would be answered to each of these entries alone.
pub(super) async fn foresee(
    conn: &mut MySqlConnection,
    keys: &[Key],
    most: usize,
) -> Result<Vec<Written>, Fault> {
    // Without a lock: nobody is kept waiting by somebody who looks.
    let vouchers = list(rows::vouchers(keys));
    let sql = format!("SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id IN ({vouchers})");
    let sales: Vec<(i64,)> = rows(conn, sql).await?;
    let sales = sales.into_iter().map(|(voucher,)| voucher).collect();
    Ok(read_standing(conn, keys, most, sales).await?.foresee(keys)?)
}

macro_rules! select_orders {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_id, voucher_id, place, status, create_time, pay_time, close_time ",
            "FROM tb_voucher_order ",
            $rest
        )
    };    (ordinary $rest:literal) => {
        concat!(
            "SELECT id, user_id, voucher_id, CAST(NULL AS SIGNED), status, create_time, pay_time, close_time ",
            "FROM tb_ordinary_order ",
            $rest
        )
    };
}

pub(super) async fn one(conn: &mut MySqlConnection, id: OrderId) -> Result<Option<Order>, Fault> {
    for query in [select_orders!("WHERE id = ?"), select_orders!(ordinary "WHERE id = ?")] {
        let found = sqlx::query_as(query).bind(id.as_i64()).fetch_optional(&mut *conn);
        if let Some(row) = found.await? {
            return Ok(Some(rows::order(row)?));
        }
    }
    Ok(None)
}

pub(super) async fn among_ids(
    conn: &mut MySqlConnection,
    ids: &[OrderId],
) -> Result<Vec<Order>, Fault> {
    let sql = format!("{} ({})", select_orders!("WHERE id IN"), list(ids));
    let found: Vec<OrderRow> = rows(conn, sql).await?;
    Ok(found.into_iter().map(rows::order).collect::<Result<_, _>>()?)
}

/// Each part is read along one index from the last id seen; a page is the newest of them.
pub(super) async fn page(
    conn: &mut MySqlConnection,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: u32,
) -> Result<Vec<Order>, Fault> {
    let parts: &[&str] = match (filter.user, filter.voucher) {
        // Vouchers are few, and each is one look into the unique index.
        (Some(_), _) => &[
            select_orders!(
                "FORCE INDEX (uk_one_live_order) \
                 WHERE voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)"
            ),
            select_orders!(ordinary "FORCE INDEX (idx_ordinary_user) WHERE TRUE"),
        ],
        (None, Some(_)) => &[
            select_orders!("FORCE INDEX (idx_live_order) WHERE live = 1"),
            select_orders!("FORCE INDEX (idx_live_order) WHERE live IS NULL"),
            select_orders!(ordinary "FORCE INDEX (idx_ordinary_voucher) WHERE TRUE"),
        ],
        (None, None) => &[
            select_orders!("FORCE INDEX (PRIMARY) WHERE TRUE"),
            select_orders!(ordinary "FORCE INDEX (PRIMARY) WHERE TRUE"),
        ],
    };
    let end = [before, filter.to].into_iter().flatten().min();
    let mut page = Vec::new();
    for part in parts {
        let mut query = QueryBuilder::<MySql>::new(*part);
        // Beyond 63 bits there is no row.
        if let Some(user) = filter.user {
            query.push(" AND user_id = ").push_bind(i64::try_from(user.0).unwrap_or(-1));
        }
        if let Some(voucher) = filter.voucher {
            query.push(" AND voucher_id = ").push_bind(i64::try_from(voucher.0).unwrap_or(-1));
        }
        if let Some(status) = filter.status {
            query.push(" AND status = ").push_bind(status.code());
        }
        if let Some(user) = filter.not.user {
            query.push(" AND user_id <> ").push_bind(i64::try_from(user.0).unwrap_or(-1));
        }
        if let Some(voucher) = filter.not.voucher {
            query.push(" AND voucher_id <> ").push_bind(i64::try_from(voucher.0).unwrap_or(-1));
        }
        if let Some(status) = filter.not.status {
            query.push(" AND status <> ").push_bind(status.code());
        }
        query.push(" AND id >= ").push_bind(filter.from.map_or(0, OrderId::as_i64));
        if let Some(end) = end {
            query.push(" AND id < ").push_bind(end.as_i64());
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(limit);
        let rows: Vec<OrderRow> = query.build_query_as().fetch_all(&mut *conn).await?;
        for row in rows {
            page.push(rows::order(row)?);
        }
    }
    page.sort_unstable_by_key(|order| Reverse(order.id));
    page.truncate(limit as usize);
    Ok(page)
}

pub(super) async fn existing(
    conn: &mut MySqlConnection,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    among(conn, format!("SELECT id FROM tb_voucher_order WHERE id IN ({})", list(ids))).await
}

pub(super) async fn closed_among(
    conn: &mut MySqlConnection,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    let (cancelled, closed) = (OrderStatus::Cancelled.code(), OrderStatus::Closed.code());
    let sql = format!(
        "SELECT o.id FROM tb_voucher_order o \
         LEFT JOIN tb_give_back g ON g.order_id = o.id AND g.given IS NULL \
         WHERE o.id IN ({}) AND o.status IN ({cancelled}, {closed}) AND g.order_id IS NULL",
        list(ids)
    );
    among(conn, sql).await
}

async fn among(conn: &mut MySqlConnection, sql: String) -> Result<Vec<OrderId>, Fault> {
    let found: Vec<(i64,)> = rows(conn, sql).await?;
    Ok(found.into_iter().map(|(id,)| rows::order_id(id)).collect::<Result<_, _>>()?)
}

pub(super) async fn live(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<LiveOrder>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(
        "SELECT id, user_id, place FROM tb_voucher_order FORCE INDEX (idx_live_order) \
         WHERE voucher_id = ? AND live = 1 AND id > ? ORDER BY id LIMIT ?",
    )
    .bind(voucher)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::live_order).collect::<Result<_, _>>()?)
}

/// In one statement, which sees one moment.
pub(super) async fn books(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
) -> Result<SqlBooks, Fault> {
    // A buyer can be doubled only where the unique index is gone, and that is just when it must be seen.
    let row: Option<BooksRow> = sqlx::query_as(
        "SELECT s.initial_stock, s.stock, \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = s.voucher_id AND live = 1), \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = s.voucher_id AND live IS NULL), \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order \
          WHERE voucher_id = ? AND live = 1 GROUP BY user_id, place HAVING COUNT(*) > 1) twice), \
         (SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL AND voucher_id = s.voucher_id) \
         FROM tb_seckill_voucher s WHERE s.voucher_id = ?",
    )
    .bind(voucher_key(voucher)?)
    .bind(voucher_key(voucher)?)
    .fetch_optional(conn)
    .await?;
    Ok(row.map(rows::books).ok_or(StoreError::NoSale(voucher))?)
}

/// Orders by status, along the index of a voucher's orders.
pub(super) async fn counts(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
) -> Result<OrderCounts, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(OrderCounts::default()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT status, COUNT(*) FROM tb_voucher_order WHERE voucher_id = ? GROUP BY status",
    )
    .bind(voucher)
    .fetch_all(conn)
    .await?;
    Ok(rows::order_counts(rows)?)
}

/// Who ordered more than once, along the index of a voucher's orders.
pub(super) async fn repeat_buyers(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
    limit: u32,
) -> Result<Vec<(UserId, u64)>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT user_id, COUNT(*) AS orders FROM tb_voucher_order WHERE voucher_id = ? \
         GROUP BY user_id HAVING COUNT(*) > 1 ORDER BY orders DESC, user_id LIMIT ?",
    )
    .bind(voucher)
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows::buyers(rows))
}
