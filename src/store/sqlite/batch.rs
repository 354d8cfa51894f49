//! A batch with existing orders, in SQLite.

use std::collections::HashSet;

use seckill_model::{Millis, VoucherId};

use crate::{
    Conn, Fault, OrderRow, StoreError, Written,
    batch::{self, ExistingRows},
    params,
    queries::orders,
};

/// Writes the new orders of a batch and returns the rows that conflict with the others, inside the caller's
/// transaction, which must be rolled back on an error.
///
/// The transaction has exclusive access, so only rejected rows are read back: returning the inserted rows, or reading
/// each buyer's order first, would halve the speed of a batch with one bad entry.
pub(crate) async fn write_mixed(
    conn: &mut Conn,
    rows: &[OrderRow],
    now: Millis,
) -> Result<Vec<Written>, Fault> {
    let sales = orders::lock_sales(conn, batch::vouchers(rows)).await?;
    let known = orders::by_id(conn, rows).await?;
    let taken: HashSet<i64> = known.iter().map(|row| row.id).collect();
    let possible: Vec<OrderRow> = rows
        .iter()
        .filter(|row| sales.contains(&row.voucher_id) && !taken.contains(&row.id))
        .copied()
        .collect();
    // One statement inserts all that it can. These IDs were unused, so each row that matches its entry is new.
    let new: HashSet<OrderRow> = if orders::insert(conn, &possible, now, rows.len()).await? {
        possible.into_iter().collect()
    } else {
        let refused = refused(conn, &possible).await?;
        possible.into_iter().filter(|row| !refused.contains(row)).collect()
    };
    let inserted: Vec<OrderRow> = new.iter().copied().collect();
    if let Some(voucher) = orders::take_stock(conn, &inserted, now).await?.first() {
        return Err(StoreError::OutOfStock(VoucherId(*voucher as u64)).into());
    }
    let rest: Vec<OrderRow> = rows.iter().filter(|row| !new.contains(row)).copied().collect();
    let existing = known.into_iter().chain(new);
    let live = orders::live_at(conn, &rest).await?;
    Ok(ExistingRows::new(sales, existing, live).answers(rows, inserted)?)
}

/// The orders of a batch without a row. They are few, and each row read costs as much as a lookup.
async fn refused(conn: &mut Conn, rows: &[OrderRow]) -> Result<HashSet<OrderRow>, Fault> {
    let (columns, batch) = (batch::names(), (conn.dialect().batch)(1));
    let query = format!(
        "SELECT {columns} FROM {batch} WHERE NOT EXISTS (\
         SELECT 1 FROM tb_voucher_order o WHERE o.id = batch.id \
         AND o.user_id = batch.user_id AND o.voucher_id = batch.voucher_id \
         AND o.place = batch.place)"
    );
    let refused: Vec<OrderRow> = conn.rows(query, params![rows]).await?;
    Ok(refused.into_iter().collect())
}
