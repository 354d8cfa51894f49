//! Vouchers and their sales in MySQL: created, listed, stopped, restocked. What writes is inside the
//! caller's transaction.

use seckill_model::{Millis, NewSale, Sale, SaleState, Voucher, VoucherDetails, VoucherId};
use sqlx::MySqlConnection;

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
    conn: &mut MySqlConnection,
    voucher: &VoucherDetails,
    kind: i64,
    now: Millis,
) -> Result<VoucherId, Fault> {
    let (shop, pay, actual) = rows::voucher_numbers(voucher)?;
    let done = sqlx::query(
        "INSERT INTO tb_voucher (title, type, create_time, update_time, shop_id, sub_title, rules, pay_value, \
         actual_value, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&voucher.title)
    .bind(kind)
    .bind(now.0)
    .bind(now.0)
    .bind(shop)
    .bind(&voucher.sub_title)
    .bind(&voucher.rules)
    .bind(pay)
    .bind(actual)
    .bind(voucher.status.code())
    .execute(conn)
    .await?;
    Ok(VoucherId(done.last_insert_id()))
}

pub(super) async fn insert_sale(
    conn: &mut MySqlConnection,
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
          user_limit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(voucher_key(voucher)?)
    .bind(stock)
    .bind(stock)
    .bind(sale.begin.map(|it| it.0))
    .bind(sale.end.map(|it| it.0))
    .bind(SaleState::Running.as_str())
    .bind(now.0)
    .bind(now.0)
    .bind(sale.limit)
    .execute(&mut *conn)
    .await?;
    one(conn, voucher).await
}

pub(super) async fn vouchers(
    conn: &mut MySqlConnection,
    after: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Voucher>, Fault> {
    let Ok(after) = after.map_or(Ok(0), voucher_key) else { return Ok(Vec::new()) };
    let rows = sqlx::query_as(select_vouchers!("WHERE id > ? ORDER BY id LIMIT ?"))
        .bind(after)
        .bind(limit)
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(rows::voucher).collect::<Result<_, _>>()?)
}

pub(super) async fn archived(
    conn: &mut MySqlConnection,
    before: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.archive_time IS NOT NULL AND s.voucher_id < ? ORDER BY s.voucher_id DESC LIMIT ?"
    ))
    .bind(before.and_then(|it| voucher_key(it).ok()).unwrap_or(i64::MAX))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn all(conn: &mut MySqlConnection) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> =
        sqlx::query_as(select_sales!("WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC"))
            .fetch_all(conn)
            .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn one(conn: &mut MySqlConnection, voucher: VoucherId) -> Result<Sale, Fault> {
    let row: Option<SaleRow> = sqlx::query_as(select_sales!("WHERE s.voucher_id = ?"))
        .bind(voucher_key(voucher)?)
        .fetch_optional(conn)
        .await?;
    Ok(row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)?)
}

/// One sale, which nobody else changes until the transaction ends.
async fn locked(conn: &mut MySqlConnection, voucher: VoucherId) -> Result<Sale, Fault> {
    let row: Option<SaleRow> = sqlx::query_as(select_sales!("WHERE s.voucher_id = ? FOR UPDATE"))
        .bind(voucher_key(voucher)?)
        .fetch_optional(conn)
        .await?;
    Ok(row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)?)
}

pub(super) async fn set_state(
    conn: &mut MySqlConnection,
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
        "UPDATE tb_seckill_voucher SET state = ?, begin_time = ?, version = version + 1, \
         update_time = ?, archive_time = ? WHERE voucher_id = ?",
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
    conn: &mut MySqlConnection,
    voucher: VoucherId,
    by: i64,
    seen: Option<u64>,
) -> Result<Sale, Fault> {
    let sale = locked(conn, voucher).await?;
    rules::check_restock(&sale, by, seen)?;
    sqlx::query(
        "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + ?, stock = stock + ?, \
         version = version + 1, update_time = ? WHERE voucher_id = ?",
    )
    .bind(by)
    .bind(by)
    .bind(Millis::now().0)
    .bind(voucher_key(voucher)?)
    .execute(&mut *conn)
    .await?;
    one(conn, voucher).await
}

/// Raises the sequence of voucher numbers to at least `upto`.
pub(super) async fn reserve_numbers(
    conn: &mut MySqlConnection,
    upto: VoucherId,
) -> Result<(), Fault> {
    let upto = voucher_key(upto)?;
    let highest: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM tb_voucher")
        .fetch_one(&mut *conn)
        .await?;
    if highest < upto {
        // The number can't be bound here; InnoDB takes a lower one than it has reached for that one.
        let next = upto.saturating_add(1);
        let change = format!("ALTER TABLE tb_voucher AUTO_INCREMENT = {next}");
        sqlx::query(sqlx::AssertSqlSafe(change)).execute(conn).await?;
    }
    Ok(())
}

pub(super) async fn undelivered(conn: &mut MySqlConnection) -> Result<Vec<Sale>, Fault> {
    let rows: Vec<SaleRow> = sqlx::query_as(select_sales!(
        "WHERE s.delivered_version < s.version ORDER BY s.voucher_id"
    ))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(super) async fn note_delivered(
    conn: &mut MySqlConnection,
    voucher: VoucherId,
    version: u64,
) -> Result<(), Fault> {
    sqlx::query(
        "UPDATE tb_seckill_voucher SET delivered_version = ? \
         WHERE voucher_id = ? AND delivered_version < ?",
    )
    .bind(version as i64)
    .bind(voucher_key(voucher)?)
    .bind(version as i64)
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes a sale over as Redis holds it, unless SQL has this version or a newer one.
pub(super) async fn adopt(conn: &mut MySqlConnection, sale: &Sale) -> Result<(), Fault> {
    match locked(conn, sale.voucher_id).await {
        Ok(known) if known.version >= sale.version => return Ok(()),
        Ok(_) | Err(Fault::Told(StoreError::NoSale(_))) => {}
        Err(error) => return Err(error),
    }
    let row = rows::adopted(sale)?;
    sqlx::query(
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) VALUES (?, ?, ?, ?, ?) \
         ON DUPLICATE KEY UPDATE id = id",
    )
    .bind(row.voucher)
    .bind(&sale.title)
    .bind(rows::FLASH_SALE)
    .bind(sale.created.0)
    .bind(sale.created.0)
    .execute(&mut *conn)
    .await?;
    let live: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = ? AND status NOT IN (4, 5)",
    )
    .bind(row.voucher)
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit, version, delivered_version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
         ON DUPLICATE KEY UPDATE initial_stock = VALUES(initial_stock), stock = VALUES(stock), \
          begin_time = VALUES(begin_time), end_time = VALUES(end_time), state = VALUES(state), \
          update_time = VALUES(update_time), user_limit = VALUES(user_limit), version = VALUES(version), \
          delivered_version = VALUES(delivered_version)",
    )
    .bind(row.voucher)
    .bind(row.initial)
    .bind(row.initial - live)
    .bind(row.begin)
    .bind(row.end)
    .bind(row.state)
    .bind(sale.created.0)
    .bind(Millis::now().0)
    .bind(sale.limit)
    .bind(row.version)
    .bind(row.version)
    .execute(conn)
    .await?;
    Ok(())
}
