//! Vouchers and sales: creation, lists, state changes, restocking.

use seckill_model::{Millis, NewSale, Sale, SaleState, Voucher, VoucherDetails, VoucherId};

use super::{
    super::{
        Reason, StoreError,
        dialect::Dialect,
        rows::{self, SaleRow, voucher_key},
        rules,
        session::Fault,
    },
    Conn,
};

const SELECT: &str = "SELECT s.voucher_id, v.title, s.initial_stock, s.stock, s.begin_time, s.end_time, \
     s.state, s.version, s.user_limit, s.update_time, s.archive_time, s.delivered_version, s.create_time \
     FROM tb_seckill_voucher s JOIN tb_voucher v ON v.id = s.voucher_id";

pub(crate) async fn insert_voucher<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: &VoucherDetails,
    kind: i64,
    now: Millis,
) -> Result<VoucherId, Fault> {
    let (shop, pay, actual) = rows::voucher_numbers(voucher)?;
    let id = D::sql(
        "INSERT INTO tb_voucher (title, type, create_time, update_time, shop_id, sub_title, rules, pay_value, \
         actual_value, status) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9)",
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
    .insert_row(conn)
    .await?;
    let number = id.and_then(|id| u64::try_from(id).ok());
    Ok(number.map(VoucherId).ok_or(StoreError::Refused(Reason::NoNumber))?)
}

pub(crate) async fn insert_sale<D: Dialect>(
    conn: &mut Conn<D>,
    sale: &NewSale,
    now: Millis,
) -> Result<Sale, Fault> {
    let stock =
        i64::try_from(sale.stock).map_err(|_| StoreError::Refused(Reason::TooLarge(sale.stock)))?;
    let voucher =
        insert_voucher(conn, &VoucherDetails::titled(&sale.title), rows::FLASH_SALE, now).await?;
    D::sql(
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
    .execute(conn)
    .await?;
    one(conn, voucher).await
}

pub(crate) async fn vouchers<D: Dialect>(
    conn: &mut Conn<D>,
    after: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Voucher>, Fault> {
    let Ok(after) = after.map_or(Ok(0), voucher_key) else { return Ok(Vec::new()) };
    let rows = D::sql(
        "SELECT id, type, title, shop_id, sub_title, rules, pay_value, actual_value, status \
         FROM tb_voucher WHERE id > $1 ORDER BY id LIMIT $2",
    )
    .bind(after)
    .bind(limit)
    .rows(conn)
    .await?;
    Ok(rows.into_iter().map(rows::voucher).collect::<Result<_, _>>()?)
}

pub(crate) async fn archived<D: Dialect>(
    conn: &mut Conn<D>,
    before: Option<VoucherId>,
    limit: u32,
) -> Result<Vec<Sale>, Fault> {
    let rows = D::sql(format!(
        "{SELECT} WHERE s.archive_time IS NOT NULL AND s.voucher_id < $1 \
         ORDER BY s.voucher_id DESC LIMIT $2"
    ))
    .bind(before.and_then(|it| voucher_key(it).ok()).unwrap_or(i64::MAX))
    .bind(limit)
    .rows(conn)
    .await?;
    sales(rows)
}

pub(crate) async fn all<D: Dialect>(conn: &mut Conn<D>) -> Result<Vec<Sale>, Fault> {
    let query = format!("{SELECT} WHERE s.archive_time IS NULL ORDER BY s.voucher_id DESC");
    sales(D::sql(query).rows(conn).await?)
}

pub(crate) async fn undelivered<D: Dialect>(conn: &mut Conn<D>) -> Result<Vec<Sale>, Fault> {
    let query = format!("{SELECT} WHERE s.delivered_version < s.version ORDER BY s.voucher_id");
    sales(D::sql(query).rows(conn).await?)
}

fn sales(rows: Vec<SaleRow>) -> Result<Vec<Sale>, Fault> {
    Ok(rows.into_iter().map(rows::sale).collect::<Result<_, _>>()?)
}

pub(crate) async fn one<D: Dialect>(conn: &mut Conn<D>, voucher: VoucherId) -> Result<Sale, Fault> {
    select_one(conn, voucher, "").await
}

/// One sale, locked against other writers until the transaction ends.
async fn locked<D: Dialect>(conn: &mut Conn<D>, voucher: VoucherId) -> Result<Sale, Fault> {
    select_one(conn, voucher, D::LOCK_S).await
}

async fn select_one<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    lock: &str,
) -> Result<Sale, Fault> {
    let row: Option<SaleRow> = D::sql(format!("{SELECT} WHERE s.voucher_id = $1 {lock}"))
        .bind(voucher_key(voucher)?)
        .row(conn)
        .await?;
    Ok(row.map_or(Err(StoreError::NoSale(voucher)), rows::sale)?)
}

pub(crate) async fn set_state<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Sale, Fault> {
    let sale = locked(conn, voucher).await?;
    let Some((word, begin, archived)) = rules::next_state(&sale, state, begin)? else {
        return Ok(sale);
    };
    let now = Millis::now().0;
    D::sql(
        "UPDATE tb_seckill_voucher SET state = $2, begin_time = $3, version = version + 1, \
         update_time = $4, archive_time = $5 WHERE voucher_id = $1",
    )
    .bind(voucher_key(voucher)?)
    .bind(word)
    .bind(begin)
    .bind(now)
    .bind(archived.then_some(now))
    .execute(conn)
    .await?;
    one(conn, voucher).await
}

pub(crate) async fn restock<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    by: i64,
    seen: Option<u64>,
) -> Result<Sale, Fault> {
    let sale = locked(conn, voucher).await?;
    rules::check_restock(&sale, by, seen)?;
    D::sql(
        "UPDATE tb_seckill_voucher SET initial_stock = initial_stock + $2, stock = stock + $2, \
         version = version + 1, update_time = $3 WHERE voucher_id = $1",
    )
    .bind(voucher_key(voucher)?)
    .bind(by)
    .bind(Millis::now().0)
    .execute(conn)
    .await?;
    one(conn, voucher).await
}

/// Raises the sequence of voucher IDs to at least `upto`.
pub(crate) async fn reserve_numbers<D: Dialect>(
    conn: &mut Conn<D>,
    upto: VoucherId,
) -> Result<(), Fault> {
    Ok(D::reserve_numbers(conn, voucher_key(upto)?).await?)
}

pub(crate) async fn note_delivered<D: Dialect>(
    conn: &mut Conn<D>,
    voucher: VoucherId,
    version: u64,
) -> Result<(), Fault> {
    D::sql(
        "UPDATE tb_seckill_voucher SET delivered_version = $2 \
         WHERE voucher_id = $1 AND delivered_version < $2",
    )
    .bind(voucher_key(voucher)?)
    .bind(version as i64)
    .execute(conn)
    .await?;
    Ok(())
}

/// Restores a sale from Redis, unless SQL has this version or a newer one.
pub(crate) async fn adopt<D: Dialect>(conn: &mut Conn<D>, sale: &Sale) -> Result<(), Fault> {
    match locked(conn, sale.voucher_id).await {
        Ok(known) if known.version >= sale.version => return Ok(()),
        Ok(_) | Err(Fault::Store(StoreError::NoSale(_))) => {}
        Err(error) => return Err(error),
    }
    let row = rows::adopted(sale)?;
    let mut overriding = "";
    if D::HAS_SEQUENCE {
        D::reserve_numbers(conn, row.voucher).await?;
        overriding = "OVERRIDING SYSTEM VALUE";
    }
    D::sql(format!(
        "INSERT INTO tb_voucher (id, title, type, create_time, update_time) {overriding} \
         VALUES ($1, $2, $3, $4, $4) {}",
        D::upsert("id", &[])
    ))
    .bind(row.voucher)
    .bind(&sale.title)
    .bind(rows::FLASH_SALE)
    .bind(sale.created.0)
    .execute(conn)
    .await?;
    // The sale is locked, or missing and without orders.
    let live = D::sql(format!(
        "SELECT COUNT(*) FROM tb_voucher_order WHERE voucher_id = $1 AND {}",
        D::LIVE
    ))
    .bind(row.voucher)
    .number(conn)
    .await?;
    D::sql(format!(
        "INSERT INTO tb_seckill_voucher \
         (voucher_id, initial_stock, stock, begin_time, end_time, state, create_time, update_time, \
          user_limit, version, delivered_version) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) {}",
        D::upsert(
            "voucher_id",
            &[
                "initial_stock",
                "stock",
                "begin_time",
                "end_time",
                "state",
                "update_time",
                "user_limit",
                "version",
                "delivered_version"
            ]
        )
    ))
    .bind(row.voucher)
    .bind(row.initial)
    .bind(row.initial - live)
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
