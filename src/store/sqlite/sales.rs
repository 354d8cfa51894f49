//! Vouchers and their sales in SQLite: created, listed, stopped, restocked.

use seckill_model::{Millis, NewSale, Sale, SaleState, Voucher, VoucherDetails, VoucherId};
use sqlx::{SqliteConnection, SqlitePool};

use super::{
    super::{
        rows::{self, SaleRow, select_vouchers, voucher_key as key},
        rules,
    },
    StoreError,
    faults::told,
};

macro_rules! select_sales {
    ($rest:literal) => {
        concat!(
            "SELECT s.voucher_id, v.title, s.initial_stock, s.stock, s.begin_time, s.end_time, ",
            "s.state, s.version, s.user_limit, s.update_time, s.archive_time, s.delivered_version, s.create_time FROM tb_seckill_voucher s JOIN tb_voucher v ON v.id = s.voucher_id ",
            $rest
        )
    };
}

pub(super) async fn insert_voucher(
    conn: &mut SqliteConnection,
    voucher: &VoucherDetails,
    kind: i64,
    now: Millis,
) -> Result<VoucherId, StoreError> {
    let (shop, pay, actual) = rows::voucher_numbers(voucher)?;
    let id: i64 = sqlx::query_scalar(
        "INSERT INTO tb_voucher (title, type, create_time, update_time, shop_id, sub_title, rules, pay_value, \
         actual_value, status) VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id",
    )
    .bind(&voucher.title)
    .bind(kind)
    .bind(now.0)
    .bind(shop)
    .bind(&voucher.sub_title)
    .bind(&voucher.rules)
    .bind(pay)
    .bind(actual)
    .bind(voucher.status.code())
    .fetch_one(conn)
    .await
    .map_err(told)?;
    u64::try_from(id)
        .map(VoucherId)
        .map_err(|_| StoreError::Refused(format!("the database gave {id} as a voucher's number")))
}

pub(super) async fn insert_sale(
    conn: &mut SqliteConnection,
    sale: &NewSale,
    now: Millis,
) -> Result<Sale, StoreError> {
    let stock = i64::try_from(sale.stock)
        .map_err(|_| StoreError::Refused(format!("a stock of {} is too large", sale.stock)))?;
    let voucher =
        insert_voucher(conn, &VoucherDetails::titled(&sale.title), rows::FLASH_SALE, now).await?;
    sqlx::query(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit) VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
    )
    .bind(key(voucher)?)
    .bind(stock)
    .bind(sale.begin.map(|it| it.0))
    .bind(sale.end.map(|it| it.0))
    .bind(SaleState::Running.as_str())
    .bind(now.0)
    .bind(sale.limit)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    locked(conn, voucher).await
}

pub(super) async fn vouchers(
    pool: &SqlitePool,
    after: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Voucher>, StoreError> {
    let Ok(after) = after.map_or(Ok(0), key) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(select_vouchers!("WHERE id > ?1 ORDER BY id LIMIT ?2"))
        .bind(after)
        .bind(limit)
        .fetch_all(pool)
        .await
        .map_err(told)?;
    rows.into_iter().map(rows::voucher).collect()
}

pub(super) async fn archived(
    pool: &SqlitePool,
    before: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Sale>, StoreError> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.archive_time IS NOT NULL AND s.voucher_id < ?1 ORDER BY s.voucher_id DESC LIMIT ?2"
    ))
    .bind(before.and_then(|it| key(it).ok()).unwrap_or(i64::MAX))
    .bind(limit)
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter().map(rows::sale).collect()
}

pub(super) async fn all(pool: &SqlitePool) -> Result<Vec<Sale>, StoreError> {
    let rows: Vec<SaleRow> =
        sqlx::query_as(select_sales!("WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC"))
            .fetch_all(pool)
            .await
            .map_err(told)?;
    rows.into_iter().map(rows::sale).collect()
}

pub(super) async fn one(pool: &SqlitePool, voucher: VoucherId) -> Result<Sale, StoreError> {
    let mut conn = pool.acquire().await.map_err(told)?;
    locked(&mut conn, voucher).await
}

/// One sale, as the caller's transaction sees it.
async fn locked(conn: &mut SqliteConnection, voucher: VoucherId) -> Result<Sale, StoreError> {
    let row: Option<SaleRow> = sqlx::query_as(select_sales!("WHERE s.voucher_id = ?"))
        .bind(key(voucher)?)
        .fetch_optional(conn)
        .await
        .map_err(told)?;
    row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)
}

pub(super) async fn set_state(
    conn: &mut SqliteConnection,
    voucher: VoucherId,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Sale, StoreError> {
    let sale = locked(conn, voucher).await?;
    let Some((word, begin, archived)) = rules::next_state(&sale, state, begin)? else {
        return Ok(sale);
    };
    sqlx::query(
        "UPDATE tb_seckill_voucher SET state = ?2, begin_time = ?3, version = version + 1, \
         update_time = ?4, archive_time = iif(?5, ?4, NULL) WHERE voucher_id = ?1",
    )
    .bind(key(voucher)?)
    .bind(word)
    .bind(begin)
    .bind(Millis::now().0)
    .bind(archived)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    locked(conn, voucher).await
}

pub(super) async fn restock(
    conn: &mut SqliteConnection,
    voucher: VoucherId,
    by: i64,
    seen: Option<u64>,
) -> Result<Sale, StoreError> {
    let sale = locked(conn, voucher).await?;
    rules::check_restock(&sale, by, seen)?;
    sqlx::query(
        "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + ?2, stock = stock + ?2, \
         version = version + 1, update_time = ?3 WHERE voucher_id = ?1",
    )
    .bind(key(voucher)?)
    .bind(by)
    .bind(Millis::now().0)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    locked(conn, voucher).await
}

/// Raises the sequence of voucher numbers to at least `upto`.
pub(super) async fn reserve_numbers(
    conn: &mut SqliteConnection,
    upto: VoucherId,
) -> Result<(), StoreError> {
    let upto = key(upto)?;
    sqlx::query(
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'tb_voucher', ?1 \
         WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tb_voucher')",
    )
    .bind(upto)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    sqlx::query("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'tb_voucher' AND seq < ?1")
        .bind(upto)
        .execute(conn)
        .await
        .map_err(told)?;
    Ok(())
}

pub(super) async fn undelivered(pool: &SqlitePool) -> Result<Vec<Sale>, StoreError> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.delivered_version < s.version ORDER BY s.voucher_id"
    ))
    .fetch_all(pool)
    .await
    .map_err(told)?;
    rows.into_iter().map(rows::sale).collect()
}

pub(super) async fn note_delivered(
    conn: &mut SqliteConnection,
    voucher: VoucherId,
    version: u64,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE tb_seckill_voucher SET delivered_version = ?2 \
         WHERE voucher_id = ?1 AND delivered_version < ?2",
    )
    .bind(key(voucher)?)
    .bind(version as i64)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(())
}

/// Takes a sale over as Redis holds it, unless SQL has this version or a newer one.
pub(super) async fn adopt(conn: &mut SqliteConnection, sale: &Sale) -> Result<(), StoreError> {
    match locked(conn, sale.voucher_id).await {
        Ok(known) if known.version >= sale.version => return Ok(()),
        Ok(_) | Err(StoreError::NoSale(_)) => {}
        Err(error) => return Err(error),
    }
    let row = rows::adopted(sale)?;
    sqlx::query(
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) \
         VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (id) DO NOTHING",
    )
    .bind(row.voucher)
    .bind(&sale.title)
    .bind(rows::FLASH_SALE)
    .bind(sale.created.0)
    .execute(&mut *conn)
    .await
    .map_err(told)?;
    sqlx::query(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit, version, delivered_version) \
         VALUES (?1, ?2, ?2 - (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = ?1 AND status NOT IN (4, 5)), \
          ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9) \
         ON CONFLICT (voucher_id) DO UPDATE SET initial_stock = excluded.initial_stock, stock = excluded.stock, \
          begin_time = excluded.begin_time, end_time = excluded.end_time, state = excluded.state, \
          update_time = excluded.update_time, user_limit = excluded.user_limit, version = excluded.version, \
          delivered_version = excluded.delivered_version",
    )
    .bind(row.voucher)
    .bind(row.initial)
    .bind(row.begin)
    .bind(row.end)
    .bind(row.state)
    .bind(sale.created.0)
    .bind(Millis::now().0)
    .bind(sale.limit)
    .bind(row.version)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(())
}
