//! Orders in PostgreSQL: a batch in one statement; where it is not all new, what stands is read first.

use std::{cmp::Reverse, collections::BTreeSet};

use seckill_model::{
    LiveOrder, Millis, Order, OrderCounts, OrderFilter, OrderId, UserId, VoucherId,
    ledger::SqlBooks,
};
use sqlx::{PgConnection, Postgres, QueryBuilder};

use super::super::{
    StoreError, Written,
    rows::{self, BooksRow, Key, OrderRow, Standing, voucher_key},
    session::Fault,
};

/// Writes a batch that is all new, inside the caller's transaction, which must be rolled back
/// when this fails or says no: then some of it was not new, or not all of it has a piece.
pub(super) async fn write_new(
    conn: &mut PgConnection,
    keys: &[Key],
    now: Millis,
) -> Result<bool, Fault> {
    Ok(take_stock(conn, keys, now).await?.is_empty() && insert(conn, keys, now).await?)
}

/// Writes what is new of a batch and says what stands against the rest, inside the caller's transaction,
/// which must be rolled back when this fails.
pub(super) async fn write_mixed(
    conn: &mut PgConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<Written>, Fault> {
    // Whoever writes orders of these sales waits here, so what is read below stays true.
    let sales = lock_sales(conn, rows::vouchers(keys)).await?;
    let mut standing = read_standing(conn, keys, sales).await?;
    let new = standing.take_in(keys);
    if let Some(voucher) = take_stock(conn, &new, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    if insert(conn, &new, now).await? {
        return Ok(standing.answers(keys, new)?);
    }
    // An order of another sale has taken an id since.
    Err(Fault::Again)
}

/// Locks sales in the order of their numbers, and says which are there.
pub(super) async fn lock_sales(
    conn: &mut PgConnection,
    vouchers: impl IntoIterator<Item = i64>,
) -> Result<BTreeSet<i64>, sqlx::Error> {
    let there: Vec<i64> = sqlx::query_scalar(
        "SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id = ANY($1) \
         ORDER BY voucher_id FOR NO KEY UPDATE",
    )
    .bind(Vec::from_iter(vouchers))
    .fetch_all(conn)
    .await?;
    Ok(there.into_iter().collect())
}

/// Takes a piece for each row, and says of which vouchers there are not enough.
async fn take_stock(
    conn: &mut PgConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut short = Vec::new();
    for (voucher, pieces) in rows::pieces(keys) {
        let done = sqlx::query(
            "UPDATE tb_seckill_voucher SET stock = stock - $2, update_time = $3 \
             WHERE voucher_id = $1 AND stock >= $2",
        )
        .bind(voucher)
        .bind(pieces)
        .bind(now.0)
        .execute(&mut *conn)
        .await?;
        if done.rows_affected() != 1 {
            short.push(voucher);
        }
    }
    Ok(short)
}

/// Whether all of them went in; what stands against one keeps it out.
async fn insert(conn: &mut PgConnection, keys: &[Key], now: Millis) -> Result<bool, sqlx::Error> {
    let column = |of: fn(&Key) -> i64| keys.iter().map(of).collect::<Vec<i64>>();
    let done = sqlx::query(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, create_time, update_time) \
         SELECT id, user_id, voucher_id, place, $5, $5 \
         FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[]) \
              AS new (id, user_id, voucher_id, place) \
         ON CONFLICT DO NOTHING",
    )
    .bind(column(|key| key.0))
    .bind(column(|key| key.1))
    .bind(column(|key| key.2))
    .bind(column(|key| key.3))
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == keys.len() as u64)
}

async fn read_standing(
    conn: &mut PgConnection,
    keys: &[Key],
    sales: BTreeSet<i64>,
) -> Result<Standing, sqlx::Error> {
    let column = |of: fn(&Key) -> i64| keys.iter().map(of).collect::<Vec<i64>>();
    let orders: Vec<Key> = sqlx::query_as(
        "SELECT id, user_id, voucher_id, place FROM tb_voucher_order WHERE id = ANY($1)",
    )
    .bind(column(|key| key.0))
    .fetch_all(&mut *conn)
    .await?;
    let live: Vec<Key> = sqlx::query_as(
        "SELECT o.id, o.user_id, o.voucher_id, o.place \
         FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[]) AS b (user_id, voucher_id, place) \
         JOIN tb_voucher_order o ON o.voucher_id = b.voucher_id AND o.user_id = b.user_id \
              AND o.place = b.place \
         WHERE o.status NOT IN (4, 5)",
    )
    .bind(column(|key| key.1))
    .bind(column(|key| key.2))
    .bind(column(|key| key.3))
    .fetch_all(conn)
    .await?;
    Ok(Standing::new(sales, orders, live))
}

/// What would be answered to each of these entries alone.
pub(super) async fn foresee(conn: &mut PgConnection, keys: &[Key]) -> Result<Vec<Written>, Fault> {
    // Without a lock: nobody is kept waiting by somebody who looks.
    let sales: Vec<i64> =
        sqlx::query_scalar("SELECT voucher_id FROM tb_seckill_voucher WHERE voucher_id = ANY($1)")
            .bind(Vec::from_iter(rows::vouchers(keys)))
            .fetch_all(&mut *conn)
            .await?;
    let sales = sales.into_iter().collect();
    Ok(read_standing(conn, keys, sales).await?.foresee(keys)?)
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
            "SELECT id, user_id, voucher_id, NULL::BIGINT, status, create_time, pay_time, close_time ",
            "FROM tb_ordinary_order ",
            $rest
        )
    };
}

pub(super) async fn one(conn: &mut PgConnection, id: OrderId) -> Result<Option<Order>, Fault> {
    for query in [select_orders!("WHERE id = $1"), select_orders!(ordinary "WHERE id = $1")] {
        let found = sqlx::query_as(query).bind(id.as_i64()).fetch_optional(&mut *conn);
        if let Some(row) = found.await? {
            return Ok(Some(rows::order(row)?));
        }
    }
    Ok(None)
}

pub(super) async fn among_ids(
    conn: &mut PgConnection,
    ids: &[OrderId],
) -> Result<Vec<Order>, Fault> {
    let found: Vec<OrderRow> = sqlx::query_as(select_orders!("WHERE id = ANY($1)"))
        .bind(numbers(ids))
        .fetch_all(conn)
        .await?;
    Ok(found.into_iter().map(rows::order).collect::<Result<_, _>>()?)
}

/// Each part is read along one index from the last id seen; a page is the newest of them.
pub(super) async fn page(
    conn: &mut PgConnection,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: u32,
) -> Result<Vec<Order>, Fault> {
    // Live and closed orders stand in different partial indexes. Vouchers are few, and each is one look
    // into the unique one.
    let parts: &[&str] = match (filter.user, filter.voucher) {
        (Some(_), _) => &[
            select_orders!(
                "WHERE status NOT IN (4, 5) \
                 AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)"
            ),
            select_orders!("WHERE status IN (4, 5)"),
            select_orders!(ordinary "WHERE TRUE"),
        ],
        (None, Some(_)) => &[
            select_orders!("WHERE status NOT IN (4, 5)"),
            select_orders!("WHERE status IN (4, 5)"),
            select_orders!(ordinary "WHERE TRUE"),
        ],
        (None, None) => &[select_orders!("WHERE TRUE"), select_orders!(ordinary "WHERE TRUE")],
    };
    let end = [before, filter.to].into_iter().flatten().min();
    let mut page = Vec::new();
    for part in parts {
        let mut query = QueryBuilder::<Postgres>::new(*part);
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
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(limit));
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
    conn: &mut PgConnection,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    among(conn, ids, "SELECT id FROM tb_voucher_order WHERE id = ANY($1)").await
}

pub(super) async fn closed_among(
    conn: &mut PgConnection,
    ids: &[OrderId],
) -> Result<Vec<OrderId>, Fault> {
    const CLOSED: &str = "SELECT id FROM tb_voucher_order o \
        WHERE id = ANY($1) AND status IN (4, 5) \
        AND NOT EXISTS (SELECT 1 FROM tb_give_back g WHERE g.order_id = o.id AND g.given IS NULL)";
    among(conn, ids, CLOSED).await
}

async fn among(
    conn: &mut PgConnection,
    ids: &[OrderId],
    query: &'static str,
) -> Result<Vec<OrderId>, Fault> {
    let found: Vec<i64> = sqlx::query_scalar(query).bind(numbers(ids)).fetch_all(conn).await?;
    Ok(found.into_iter().map(rows::order_id).collect::<Result<_, _>>()?)
}

/// Ids as an array.
pub(super) fn numbers(ids: &[OrderId]) -> Vec<i64> {
    ids.iter().map(|id| id.as_i64()).collect()
}

pub(super) async fn live(
    conn: &mut PgConnection,
    voucher: VoucherId,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<LiveOrder>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(
        "SELECT id, user_id, place FROM tb_voucher_order \
         WHERE voucher_id = $1 AND status NOT IN (4, 5) AND id > $2 ORDER BY id LIMIT $3",
    )
    .bind(voucher)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::live_order).collect::<Result<_, _>>()?)
}

/// In one statement, which sees one moment.
pub(super) async fn books(conn: &mut PgConnection, voucher: VoucherId) -> Result<SqlBooks, Fault> {
    // A buyer can be doubled only where the unique index is gone, and that is just when it must be seen.
    let row: Option<BooksRow> = sqlx::query_as(
        "SELECT s.initial_stock, s.stock, \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND status NOT IN (4, 5)), \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND status IN (4, 5)), \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order \
          WHERE voucher_id = $1 AND status NOT IN (4, 5) \
          GROUP BY user_id, place HAVING COUNT(*) > 1) twice), \
         (SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL AND voucher_id = $1) \
         FROM tb_seckill_voucher s WHERE s.voucher_id = $1",
    )
    .bind(voucher_key(voucher)?)
    .fetch_optional(conn)
    .await?;
    Ok(row.map(rows::books).ok_or(StoreError::NoSale(voucher))?)
}

/// Orders by status; live and closed ones along the index of each.
pub(super) async fn counts(
    conn: &mut PgConnection,
    voucher: VoucherId,
) -> Result<OrderCounts, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(OrderCounts::default()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = $1 AND status NOT IN (4, 5) GROUP BY status \
         UNION ALL SELECT status, COUNT(*) FROM tb_voucher_order \
         WHERE voucher_id = $1 AND status IN (4, 5) GROUP BY status",
    )
    .bind(voucher)
    .fetch_all(conn)
    .await?;
    Ok(rows::order_counts(rows)?)
}

/// Who ordered more than once; live and closed orders along the index of each.
pub(super) async fn repeat_buyers(
    conn: &mut PgConnection,
    voucher: VoucherId,
    limit: u32,
) -> Result<Vec<(UserId, u64)>, Fault> {
    let Ok(voucher) = voucher_key(voucher) else { return Ok(Vec::new()) };
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT user_id, SUM(orders)::BIGINT FROM (\
             SELECT user_id, COUNT(*) AS orders FROM tb_voucher_order \
             WHERE voucher_id = $1 AND status NOT IN (4, 5) GROUP BY user_id \
             UNION ALL SELECT user_id, COUNT(*) FROM tb_voucher_order \
             WHERE voucher_id = $1 AND status IN (4, 5) GROUP BY user_id) AS parts \
         GROUP BY user_id HAVING SUM(orders) > 1 ORDER BY SUM(orders) DESC, user_id LIMIT $2",
    )
    .bind(voucher)
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows::buyers(rows))
}
