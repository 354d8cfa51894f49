//! Vouchers and their sales in PostgreSQL: created, listed, stopped, restocked. What writes is inside the
//! caller's transaction.

use seckill_model::{Millis, NewSale, Sale, SaleState, Voucher, VoucherDetails, VoucherId};
use sqlx::PgConnection;

use super::super::{
    StoreError,
    rows::{self, SaleRow, select_vouchers, voucher_key},
    rules,
    session::Fault,
};

macro_rules! select_sales {
    ($rest:literal) => {
        concat!(
            "SELECT s.voucher_id, v.title, s.initial_stock, s.stock, s.begin_time, s.end_time, ",
            "s.state, s.version, s.user_limit, s.update_time, s.archive_time, s.delivered_version, s.create_time ",
            "FROM tb_seckill_voucher s JOIN tb_voucher v ON v.id = s.voucher_id ",
            $rest
        )
    };
}

pub(super) async fn insert_voucher(
    conn: &mut PgConnection,
    voucher: &VoucherDetails,
    kind: i64,
    now: Millis,
) -> Result<VoucherId, Fault> {
    let (shop, pay, actual) = rows::voucher_numbers(voucher)?;
    let id = sqlx::query_scalar(
        "INSERT INTO tb_voucher (title, type, create_time, update_time, shop_id, sub_title, rules, pay_value, \
         actual_value, status) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9) RETURNING id",
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
    .await?;
    Ok(VoucherId(rows::count(id)))
}

pub(super) async fn insert_sale(
    conn: &mut PgConnection,
    sale: &NewSale,
    now: Millis,
) -> Result<Sale, Fault> {
    let stock = i64::try_from(sale.stock)
        .map_err(|_| StoreError::Refused(format!("a stock of {} is too large", sale.stock)))?;
    let voucher =
        insert_voucher(conn, &VoucherDetails::titled(&sale.title), rows::FLASH_SALE, now).await?;
    sqlx::query(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit) VALUES ($1, $2, $2, $3, $4, $5, $6, $6, $7)",
    )
    .bind(voucher_key(voucher)?)
    .bind(stock)
    .bind(sale.begin.map(|it| it.0))
    .bind(sale.end.map(|it| it.0))
    .bind(SaleState::Running.as_str())
    .bind(now.0)
    .bind(i64::from(sale.limit))
    .execute(&mut *conn)
    .await?;
    one(conn, voucher).await
}

pub(super) async fn vouchers(
    conn: &mut PgConnection,
    after: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Voucher>, Fault> {
    let Ok(after) = after.map_or(Ok(0), voucher_key) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(select_vouchers!("WHERE id > $1 ORDER BY id LIMIT $2"))
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(rows::voucher).collect::<Result<_, _>>()?)
}

pub(super) async fn archived(
    conn: &mut PgConnection,
    before: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.archive_time IS NOT NULL AND s.voucher_id < $1 ORDER BY s.voucher_id DESC LIMIT $2"
    ))
    .bind(before.and_then(|it| voucher_key(it).ok()).unwrap_or(i64::MAX))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn all(conn: &mut PgConnection) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> =
        sqlx::query_as(select_sales!("WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC"))
            .fetch_all(conn)
            .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn one(conn: &mut PgConnection, voucher: VoucherId) -> Result<Sale, Fault> {
    let row: Option<SaleRow> = sqlx::query_as(select_sales!("WHERE s.voucher_id = $1"))
        .bind(voucher_key(voucher)?)
        .fetch_optional(conn)
        .await?;
    Ok(row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)?)
}

/// One sale, which nobody else changes until the transaction ends.
async fn locked(conn: &mut PgConnection, voucher: VoucherId) -> Result<Sale, Fault> {
    let row: Option<SaleRow> =
        sqlx::query_as(select_sales!("WHERE s.voucher_id = $1 FOR UPDATE OF s"))
            .bind(voucher_key(voucher)?)
            .fetch_optional(conn)
            .await?;
    Ok(row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)?)
}

pub(super) async fn set_state(
    conn: &mut PgConnection,
    voucher: VoucherId,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Sale, Fault> {
    let sale = locked(conn, voucher).await?;
    let Some((word, begin, archived)) = rules::next_state(&sale, state, begin)? else {
        return Ok(sale);
    };
    let now = Millis::now().0;
    sqlx::query(
        "UPDATE tb_seckill_voucher SET state = $1, begin_time = $2, version = version + 1, \
         update_time = $3, archive_time = $4 WHERE voucher_id = $5",
    )
    .bind(word)
    .bind(begin)
    .bind(now)
    .bind(archived.then_some(now))
    .bind(voucher_key(voucher)?)
    .execute(&mut *conn)
    .await?;
    one(conn, voucher).await
}

pub(super) async fn restock(
    conn: &mut PgConnection,
    voucher: VoucherId,
    by: i64,
    seen: Option<u64>,
) -> Result<Sale, Fault> {
    let sale = locked(conn, voucher).await?;
    rules::check_restock(&sale, by, seen)?;
    sqlx::query(
        "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + $1, stock = stock + $1, \
         version = version + 1, update_time = $2 WHERE voucher_id = $3",
    )
    .bind(by)
    .bind(Millis::now().0)
    .bind(voucher_key(voucher)?)
    .execute(&mut *conn)
    .await?;
    one(conn, voucher).await
}

/// Raises the sequence of voucher numbers to at least `upto`.
pub(super) async fn reserve_numbers(conn: &mut PgConnection, upto: VoucherId) -> Result<(), Fault> {
    sqlx::query(
        "SELECT setval(pg_get_serial_sequence('tb_voucher', 'id'), $1) \
         WHERE $1 > (SELECT COALESCE(MAX(id), 0) FROM tb_voucher)",
    )
    .bind(voucher_key(upto)?)
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn undelivered(conn: &mut PgConnection) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.delivered_version < s.version ORDER BY s.voucher_id"
    ))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn note_delivered(
    conn: &mut PgConnection,
    voucher: VoucherId,
    version: u64,
) -> Result<(), Fault> {
    sqlx::query(
        "UPDATE tb_seckill_voucher SET delivered_version = $2 \
         WHERE voucher_id = $1 AND delivered_version < $2",
    )
    .bind(voucher_key(voucher)?)
    .bind(version as i64)
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes a sale over as Redis holds it, unless SQL has this version or a newer one.
pub(super) async fn adopt(conn: &mut PgConnection, sale: &Sale) -> Result<(), Fault> {
    match locked(conn, sale.voucher_id).await {
        Ok(known) if known.version >= sale.version => return Ok(()),
        Ok(_) | Err(Fault::Told(StoreError::NoSale(_))) => {}
        Err(error) => return Err(error),
    }
    let row = rows::adopted(sale)?;
    // The sequence does not learn of a number that is given here.
    reserve_numbers(conn, sale.voucher_id).await?;
    sqlx::query(
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) OVERRIDING SYSTEM VALUE \
         VALUES ($1, $2, $3, $4, $4) ON CONFLICT (id) DO NOTHING",
    )
    .bind(row.voucher)
    .bind(&sale.title)
    .bind(rows::FLASH_SALE)
    .bind(sale.created.0)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit, version, delivered_version) \
         VALUES ($1, $2, $2 - (SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND status NOT IN (4, 5)), \
          $3, $4, $5, $6, $7, $8, $9, $9) \
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
    .bind(i64::from(sale.limit))
    .bind(row.version)
    .execute(conn)
    .await?;
    Ok(())
}
