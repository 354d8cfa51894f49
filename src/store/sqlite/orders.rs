//! Orders in SQLite: a batch in one statement, read back where it was not new.
//!
//! A batch travels as one JSON array, so that one cached statement serves every batch size.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::{Display, Write},
};

use sqlx::{SqliteConnection, SqlitePool};

use super::{
    StoreError, Written,
    faults::{is_foreign_key, told},
    sales,
};
use crate::model::{
    LiveOrder, Millis, Order, OrderEntry, OrderId, OrderStatus, UserId, VoucherId, ledger::SqlBooks,
};

/// What makes two entries the same order.
pub(super) type Key = (i64, i64, i64, i64);

pub(super) fn key(entry: &OrderEntry) -> Result<Key, StoreError> {
    let user = i64::try_from(entry.user.0).map_err(|_| {
        StoreError::Refused(format!("user {} is beyond what a row can hold", entry.user))
    })?;
    Ok((entry.order.as_i64(), user, sales::key(entry.voucher)?, i64::from(entry.place)))
}

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

/// What a batch asks to write, checked to fit into rows.
pub(super) fn keys(entries: &[OrderEntry]) -> Result<Vec<Key>, StoreError> {
    entries.iter().map(key).collect()
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
    // `WHERE true` tells the parser that ON belongs to the insert, not to a join.
    let done = sqlx::query(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, create_time, update_time) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, ?2 FROM json_each(?1) WHERE true \
         ON CONFLICT DO NOTHING",
    )
    .bind(json_rows(keys))
    .bind(now.0)
    .execute(&mut *conn)
    .await;
    match done {
        Ok(done) if done.rows_affected() == keys.len() as u64 => {}
        Ok(_) => return Ok(false),
        Err(fault) => return Err(insert_fault(conn, keys, fault).await),
    }
    take_stock(conn, keys, now).await?;
    Ok(true)
}

/// Writes what is new of a batch and reads back what stands against the rest, inside the
/// caller's transaction, which must be rolled back when this fails.
pub(super) async fn write_mixed(
    conn: &mut SqliteConnection,
    keys: &[Key],
    now: Millis,
) -> Result<Vec<Written>, StoreError> {
    let rows: Result<Vec<Key>, _> = sqlx::query_as(
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id, place, create_time, update_time) \
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?2, ?2 FROM json_each(?1) WHERE true \
         ON CONFLICT DO NOTHING RETURNING id, user_id, voucher_id, place",
    )
    .bind(json_rows(keys))
    .bind(now.0)
    .fetch_all(&mut *conn)
    .await;
    let inserted = match rows {
        Ok(rows) => rows,
        Err(fault) => return Err(insert_fault(conn, keys, fault).await),
    };
    take_stock(conn, &inserted, now).await?;

    // The same entry twice in one batch: the first one took the row.
    let mut inserted: HashSet<Key> = inserted.into_iter().collect();
    let mut written: Vec<Option<Written>> =
        keys.iter().map(|key| inserted.remove(key).then_some(Written::New)).collect();
    let standing = Standing::read(conn, keys, &written).await?;
    for (key, slot) in keys.iter().zip(&mut written) {
        if slot.is_none() {
            *slot = Some(standing.of(*key)?);
        }
    }
    Ok(written.into_iter().flatten().collect())
}

fn json_rows(keys: &[Key]) -> String {
    json(
        keys.iter()
            .map(|(order, user, voucher, place)| format!("[{order},{user},{voucher},{place}]")),
    )
}

/// Why an insert failed; a voucher without a sale is named.
async fn insert_fault(conn: &mut SqliteConnection, keys: &[Key], fault: sqlx::Error) -> StoreError {
    if is_foreign_key(&fault) { missing_sale(conn, keys).await } else { told(fault) }
}

/// Takes one piece from the stock for each row that was inserted.
async fn take_stock(
    conn: &mut SqliteConnection,
    inserted: &[Key],
    now: Millis,
) -> Result<(), StoreError> {
    let mut sold: BTreeMap<i64, i64> = BTreeMap::new();
    for (_, _, voucher, _) in inserted {
        *sold.entry(*voucher).or_default() += 1;
    }
    for (voucher, pieces) in sold {
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

/// Names the voucher that the foreign key stumbled over.
async fn missing_sale(conn: &mut SqliteConnection, keys: &[Key]) -> StoreError {
    let vouchers: HashSet<i64> = keys.iter().map(|(_, _, voucher, _)| *voucher).collect();
    let missing: Result<Option<i64>, _> = sqlx::query_scalar(
        "SELECT MIN(value) FROM json_each(?1) \
         WHERE value NOT IN (SELECT voucher_id FROM tb_seckill_voucher)",
    )
    .bind(json(vouchers))
    .fetch_one(conn)
    .await;
    match missing {
        Ok(Some(voucher)) => StoreError::NoSale(VoucherId(voucher as u64)),
        Ok(None) => StoreError::Refused("an order points at a sale that is not there".to_owned()),
        Err(fault) => told(fault),
    }
}

/// User, voucher and place: what one live order takes.
type Seat = (i64, i64, i64);

/// Rows that stood against entries of a batch.
struct Standing {
    orders: HashMap<i64, Seat>,
    live: HashMap<Seat, i64>,
}

impl Standing {
    async fn read(
        conn: &mut SqliteConnection,
        keys: &[Key],
        written: &[Option<Written>],
    ) -> Result<Self, StoreError> {
        let open = || keys.iter().zip(written).filter(|(_, it)| it.is_none()).map(|(key, _)| key);
        let orders: Vec<Key> = sqlx::query_as(
            "SELECT id, user_id, voucher_id, place FROM tb_voucher_order \
             WHERE id IN (SELECT value FROM json_each(?1))",
        )
        .bind(json(open().map(|(order, ..)| order)))
        .fetch_all(&mut *conn)
        .await
        .map_err(told)?;
        let live: Vec<Key> = sqlx::query_as(
            "SELECT o.id, o.user_id, o.voucher_id, o.place FROM json_each(?1) b CROSS JOIN tb_voucher_order o \
             ON o.voucher_id = b.value ->> 1 AND o.user_id = b.value ->> 0 \
             AND o.place = b.value ->> 2 \
             WHERE o.status NOT IN (4, 5)",
        )
        .bind(json(open().map(|(_, user, voucher, place)| format!("[{user},{voucher},{place}]"))))
        .fetch_all(&mut *conn)
        .await
        .map_err(told)?;
        Ok(Self {
            orders: orders
                .into_iter()
                .map(|(id, user, voucher, at)| (id, (user, voucher, at)))
                .collect(),
            live: live
                .into_iter()
                .map(|(id, user, voucher, at)| ((user, voucher, at), id))
                .collect(),
        })
    }

    fn of(&self, (order, user, voucher, place): Key) -> Result<Written, StoreError> {
        let seat = (user, voucher, place);
        match (self.orders.get(&order), self.live.get(&seat)) {
            (Some(owner), _) if *owner == seat => Ok(Written::Again),
            (Some(_), _) => Ok(Written::IdTaken),
            (None, Some(holds)) => Ok(Written::Conflict { holds: order_id(*holds)? }),
            (None, None) => Err(StoreError::Refused(format!(
                "order {order} was not written, and no row stands against it"
            ))),
        }
    }
}

pub(super) fn order_id(raw: i64) -> Result<OrderId, StoreError> {
    OrderId::from_i64(raw)
        .ok_or_else(|| StoreError::Refused(format!("the row of order {raw} is damaged")))
}

/// A row of an order, as `select_orders!` reads it.
pub(super) type Row = (i64, i64, i64, i64, i64, i64, Option<i64>, Option<i64>);

macro_rules! select_orders {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_id, voucher_id, place, status, create_time, pay_time, close_time ",
            "FROM tb_voucher_order ",
            $rest
        )
    };
}
pub(super) use select_orders;

pub(super) fn read(row: Row) -> Result<Order, StoreError> {
    let (id, user, voucher, place, status, created, paid, closed) = row;
    let id = order_id(id)?;
    let status = OrderStatus::from_code(status).ok_or_else(|| {
        StoreError::Refused(format!("order {id} has the unknown status {status}"))
    })?;
    Ok(Order {
        id,
        user_id: UserId(user as u64),
        voucher_id: VoucherId(voucher as u64),
        place: u8::try_from(place).unwrap_or(1),
        status,
        create_time: Millis(created),
        pay_time: paid.map(Millis),
        close_time: closed.map(Millis),
    })
}

pub(super) async fn one(pool: &SqlitePool, id: OrderId) -> Result<Option<Order>, StoreError> {
    let row: Option<Row> = sqlx::query_as(select_orders!("WHERE id = ?"))
        .bind(id.as_i64())
        .fetch_optional(pool)
        .await
        .map_err(told)?;
    row.map(read).transpose()
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
            found.push(order_id(raw)?);
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
    let Ok(voucher) = sales::key(voucher) else { return Ok(Vec::new()) };
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT id, user_id, place FROM tb_voucher_order INDEXED BY idx_live_order \
         WHERE voucher_id = ?1 AND status NOT IN (4, 5) AND id > ?2 ORDER BY id LIMIT ?3",
    )
    .bind(voucher)
    .bind(after.map_or(-1, OrderId::as_i64))
    .bind(limit)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter()
        .map(|(id, user, place)| {
            let (user_id, place) = (UserId(user as u64), u8::try_from(place).unwrap_or(1));
            Ok(LiveOrder { id: order_id(id)?, user_id, place })
        })
        .collect()
}

/// The books as the caller's transaction sees them.
pub(super) async fn books(
    conn: &mut SqliteConnection,
    voucher: VoucherId,
) -> Result<SqlBooks, StoreError> {
    // Each figure is counted along an index of its own. A buyer can be doubled only where the
    // unique index is gone, and that is just when it must be seen.
    let row: Option<(i64, i64, i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT s.initial_stock, s.stock, \
         (SELECT COUNT(*) FROM tb_voucher_order \
          WHERE voucher_id = ?1 AND status NOT IN (4, 5)), \
         (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = ?1 AND status IN (4, 5)), \
         (SELECT COUNT(*) FROM (SELECT 1 FROM tb_voucher_order \
          WHERE voucher_id = ?1 AND status NOT IN (4, 5) GROUP BY user_id, place HAVING COUNT(*) > 1)), \
         (SELECT COUNT(*) FROM tb_give_back WHERE given IS NULL AND voucher_id = ?1) \
         FROM tb_seckill_voucher s WHERE s.voucher_id = ?1",
    )
    .bind(sales::key(voucher)?)
    .fetch_optional(conn)
    .await
    .map_err(told)?;
    let (initial, stock, live, closed, doubled, returning) =
        row.ok_or(StoreError::NoSale(voucher))?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(SqlBooks {
        initial: count(initial),
        stock,
        live: count(live),
        closed: count(closed),
        doubled: count(doubled),
        returning: count(returning),
    })
}
