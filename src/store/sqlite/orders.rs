//! Orders in SQLite: a batch in one statement, read back where it was not new.
//!
//! A batch travels as one JSON array, so that one cached statement serves every batch size.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::{Display, Write},
};

use seckill_model::{
    LiveOrder, Millis, Order, OrderCounts, OrderId, UserId, VoucherId, ledger::SqlBooks,
};
use sqlx::{SqliteConnection, SqlitePool};

use super::{
    super::rows::{self, BooksRow, Key, OrderRow, Standing, voucher_key},
    StoreError, Written,
    faults::{is_foreign_key, told},
};

/// `[a,b,c]`.
pub(super) fn json<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("[");
    for (index, item) in items.into_iter().enumerate() {
        // Writing to a String can't fail.
        let _ = write!(text, "{}{item}", if index > 0 { "," } else { "" });
    }
    text.push(']');
    text
}

/// Writes a batch that is all new, inside the caller's transaction, which must be rolled back
/// when this fails or says no: then some of it was not new.
///
/// Batches are new except after a crash. Not asking for the inserted rows back makes them half
/// as fast again.
pub(super) async fn write_new(
    conn: &mut SqliteConnection,
    keys: &[Key],
    now: Millis,
) -> Result<bool, StoreError> {
    match insert(conn, keys, now).await {
        Ok(inserted) if inserted == keys.len() as u64 => {}
        Ok(_) => return Ok(false),
        // An order of a voucher without a sale: which one is asked only now.
        Err(fault) if is_foreign_key(&fault) => return Ok(false),
        Err(fault) => return Err(told(fault)),
    }
    take_stock(conn, keys, now).await?;
    Ok(true)
}

/// Writes what is new of a batch and says what stands against the rest, inside the caller's transaction,
/// which must be rolled back when this fails.
///
/// Only what is refused is looked at closely: asking for the inserted rows back, or for each buyer's order before,
/// costs a batch with one bad entry half its speed.
pub(super) async fn write_mixed(
    conn: &mut SqliteConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<Written>, StoreError> {
    let sales = sales_there(conn, keys).await?;
    let known = by_id(conn, keys).await?;
    let taken: HashSet<i64> = known.iter().map(|(order, ..)| *order).collect();
    let possible: Vec<Key> = keys
        .iter()
        .filter(|key| sales.contains(&key.2) && !taken.contains(&key.0))
        .copied()
        .collect();
    // Nothing had these ids before, so whatever stands there as it was asked for is new.
    let new: HashSet<Key> =
        if insert(conn, &possible, now).await.map_err(told)? == possible.len() as u64 {
            possible.into_iter().collect()
        } else {
            let refused = refused(conn, &possible).await?;
            possible.into_iter().filter(|key| !refused.contains(key)).collect()
        };
    let inserted: Vec<Key> = new.iter().copied().collect();
    take_stock(conn, &inserted, now).await?;
    let rest: Vec<Key> = keys.iter().filter(|key| !new.contains(key)).copied().collect();
    let orders = known.into_iter().chain(new);
    Standing::new(sales, orders, live_at(conn, &rest).await?).answers(keys, inserted)
}

/// Inserts what nothing stands against; returns how many that were.
async fn insert(
    conn: &mut SqliteConnection,
    keys: &[Key],
    now: Millis,
) -> Result<u64, sqlx::Error> {
    // `WHERE true` tells the parser that ON belongs to the insert, not to a join.
    let done = sqlx::query(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, create_time, update_time) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, ?2 FROM json_each(?1) WHERE true \
         ON CONFLICT DO NOTHING",
    )
    .bind(json_rows(keys))
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

pub(super) fn json_rows(keys: &[Key]) -> String {
    json(
        keys.iter()
            .map(|(order, user, voucher, place)| format!("[{order},{user},{voucher},{place}]")),
    )
}

/// Takes one piece from the stock for each row that was inserted.
async fn take_stock(
    conn: &mut SqliteConnection,
    inserted: &[Key],
    now: Millis,
) -> Result<(), StoreError> {
    for (voucher, pieces) in rows::pieces(inserted) {
        let done = sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock - ?2, update_time = ?3 \
             WHERE voucher_id = ?1 AND stock >= ?2",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(&mut *conn)
        .await
        .map_err(told)?;
        if done.rows_affected() != 1 {
            // The foreign key has shown that the sale is there.
            return Err(StoreError::OutOfStock(VoucherId(voucher as u64)));
        }
    }
    Ok(())
}

/// Which vouchers of a batch have a sale.
pub(super) async fn sales_there(
    conn: &mut SqliteConnection,
    keys: &[Key],
) -> Result<BTreeSet<i64>, StoreError> {
    let there: Vec<i64> = sqlx::query_scalar(
        "SELECT voucher_id FROM tb_seckill_voucher \
         WHERE voucher_id IN (SELECT value FROM json_each(?1))",
    )
    .bind(json(rows::vouchers(keys)))
    .fetch_all(conn)
    .await
    .map_err(told)?;
    Ok(there.into_iter().collect())
}

/// What would be answered to each of these entries alone.
pub(super) async fn foresee(
    conn: &mut SqliteConnection,
    keys: &[Key],
) -> Result<Vec<Written>, StoreError> {
    let sales = sales_there(conn, keys).await?;
    let (orders, live) = (by_id(conn, keys).await?, live_at(conn, keys).await?);
    Standing::new(sales, orders, live).foresee(keys)
}

/// The rows under the ids of a batch.
async fn by_id(conn: &mut SqliteConnection, keys: &[Key]) -> Result<Vec<Key>, StoreError> {
    sqlx::query_as(
        "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
         WHERE id IN (SELECT value FROM json_each(?1))",
    )
    .bind(json(keys.iter().map(|(order, ..)| order)))
    .fetch_all(conn)
    .await
    .map_err(told)
}

/// Those of a batch that have no row. They are few, and each row that is read costs as much as a lookup.
async fn refused(conn: &mut SqliteConnection, keys: &[Key]) -> Result<HashSet<Key>, StoreError> {
    let refused: Vec<Key> = sqlx::query_as(
        "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1) b \
         WHERE NOT EXISTS (SELECT 1 FROM tb_voucher_order o WHERE o.id = b.value ->> 0 \
            AND o.user_id = b.value ->> 1 AND o.voucher_id = b.value ->> 2 AND o.place = b.value ->> 3)",
    )
    .bind(json_rows(keys))
    .fetch_all(conn)
    .await
    .map_err(told)?;
    Ok(refused.into_iter().collect())
}

/// The live rows at the places of a batch.
async fn live_at(conn: &mut SqliteConnection, keys: &[Key]) -> Result<Vec<Key>, StoreError> {
    let seats = keys.iter().map(|(_, user, voucher, place)| format!("[{user},{voucher},{place}]"));
    sqlx::query_as(
        "SELECT o.id, o.user_id, o.voucher_id, o.place FROM json_each(?1) b CROSS JOIN tb_voucher_order o \
         ON o.voucher_id = b.value ->> 1 AND o.user_id = b.value ->> 0 \
         AND o.place = b.value ->> 2 \
         WHERE o.status NOT IN (4, 5)",
    )
    .bind(json(seats))
    .fetch_all(conn)
    .await
    .map_err(told)
}

macro_rules! select_orders {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_id, voucher_id, place, status, create_time, pay_time, close_time ",
            "FROM tb_voucher_order ",
            $rest
        )
    };
    (ordinary $rest:literal) => {
        concat!(
            "SELECT id, user_id, voucher_id, NULL, status, create_time, pay_time, close_time ",
            "FROM tb_ordinary_order ",
            $rest
        )
    };
}
pub(super) use select_orders;

pub(super) async fn one(pool: &SqlitePool, id: OrderId) -> Result<Option<Order>, StoreError> {
    for query in [select_orders!("WHERE id = ?"), select_orders!(ordinary "WHERE id = ?")] {
        let found = sqlx::query_as(query).bind(id.as_i64()).fetch_optional(pool);
        if let Some(row) = found.await.map_err(told)? {
            return rows::order(row).map(Some);
        }
    }
    Ok(None)
}

pub(super) async fn among_ids(
    pool: &SqlitePool,
    ids: &[OrderId],
) -> Result<Vec<Order>, StoreError> {
    let found: Vec<OrderRow> =
        sqlx::query_as(select_orders!("WHERE id IN (SELECT value FROM json_each(?1))"))
            .bind(json(ids))
            .fetch_all(pool)
            .await
            .map_err(told)?;
    found.into_iter().map(rows::order).collect()
}

pub(super) async fn existing(
    pool: &SqlitePool,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, StoreError> {
    const ANY: &str =
        "SELECT id FROM tb_voucher_order WHERE id IN (SELECT value FROM json_each(?1))";
    among(pool, ids, ANY).await
}

pub(super) async fn closed_among(
    pool: &SqlitePool,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, StoreError> {
    const CLOSED: &str = "SELECT id FROM tb_voucher_order \
        WHERE id IN (SELECT value FROM json_each(?1)) AND +status IN (4, 5) \
        AND NOT EXISTS (SELECT 1 FROM tb_give_back g \
            WHERE g.order_id = tb_voucher_order.id AND g.given IS NULL)";
    among(pool, ids, CLOSED).await
}

async fn among(
    pool: &SqlitePool,
    ids: &[OrderId],
    query: &'static str,
) -> Result<Vec<OrderId>, StoreError> {
    let mut found = Vec::new();
    // Pages keep one call from holding a reader, and the log behind it, for seconds.
    for page in ids.chunks(10_000) {
        let rows: Vec<i64> =
            sqlx::query_scalar(query).bind(json(page)).fetch_all(pool).await.map_err(told)?;
        for raw in rows {
            found.push(rows::order_id(raw)?);
        }
    }
    Ok(found)
}

pub(super) async fn live(
    pool: &SqlitePool,
    voucher: VoucherId,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<LiveOrder>, StoreError> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(
        "SELECT id, user_id, place FROM tb_voucher_order INDEXED BY idx_live_order \
         WHERE voucher_id = ?1 AND status NOT IN (4, 5) AND id > ?2 ORDER BY id LIMIT ?3",
    )
    .bind(voucher)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter().map(rows::live_order).collect()
}

/// The books in one statement, which sees one state of the file.
pub(super) async fn books(pool: &SqlitePool, voucher: VoucherId) -> Result<SqlBooks, StoreError> {
    // Each figure is counted along an index of its own. A buyer can be doubled only where the
    // unique index is gone, and that is just when it must be seen.
    let row: Option<BooksRow> = sqlx::query_as(
        "SELECT s.initial_stock, s.stock, \
         (SELECT COUNT(*) FROM tb_voucher_order \
          WHERE voucher_id = ?1 AND status NOT IN (4, 5)), \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = ?1 AND status IN (4, 5)), \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order \
          WHERE voucher_id = ?1 AND status NOT IN (4, 5) GROUP BY user_id, place HAVING COUNT(*) > 1)), \
         (SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL AND voucher_id = ?1) \
         FROM tb_seckill_voucher s WHERE s.voucher_id = ?1",
    )
    .bind(voucher_key(voucher)?)
    .fetch_optional(pool)
    .await
    .map_err(told)?;
    row.map(rows::books).ok_or(StoreError::NoSale(voucher))
}

/// Orders by status; live and closed ones along the index of each.
pub(super) async fn counts(
    readers: &SqlitePool,
    voucher: VoucherId,
) -> Result<OrderCounts, StoreError> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(OrderCounts::default()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = ?1 AND status NOT IN (4, 5) GROUP BY status \
         UNION ALL SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = ?1 AND status IN (4, 5) GROUP BY status",
    )
    .bind(voucher)
    .fetch_all(readers)
    .await
    .map_err(told)?;
    rows::order_counts(rows)
}

/// Who ordered more than once; live and closed orders along the index of each.
pub(super) async fn repeat_buyers(
    readers: &SqlitePool,
    voucher: VoucherId,
    limit: u32,
) -> Result<Vec<(UserId, u64)>, StoreError> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT user_id, SUM(orders) FROM (\
             SELECT user_id, COUNT(*) AS orders FROM tb_voucher_order \
             WHERE voucher_id = ?1 AND status NOT IN (4, 5) GROUP BY user_id \
             UNION ALL SELECT user_id, COUNT(*) FROM tb_voucher_order \
             WHERE voucher_id = ?1 AND status IN (4, 5) GROUP BY user_id) AS parts \
         GROUP BY user_id HAVING SUM(orders) > 1 ORDER BY SUM(orders) DESC, user_id LIMIT ?2",
    )
    .bind(voucher)
    .bind(i64::from(limit))
    .fetch_all(readers)
    .await
    .map_err(told)?;
    Ok(rows::buyers(rows))
}
