//! Pages of orders in SQLite, newest first, each read along an index from the last id seen.
//!
//! Live and closed orders of sales stand in different partial indexes, and those of ordinary vouchers in a table of
//! their own, so a page is the newest part of several.

use std::cmp::Reverse;

use seckill_model::{Order, OrderFilter, OrderId, OrderStatus};
use sqlx::SqlitePool;

use super::{
    super::rows::{self, OrderRow},
    StoreError,
    faults::told,
    orders::select_orders,
};

/// What every page asks for beyond the index that it is read along.
macro_rules! select_page {
    ($($table:ident)? $rest:literal) => {
        concat!(
            select_orders!($($table)? $rest),
            " AND id < ?3 AND id >= ?4 AND (?5 IS NULL OR status = ?5) \
             AND (?7 IS NULL OR user_id <> ?7) AND (?8 IS NULL OR voucher_id <> ?8) \
             AND (?9 IS NULL OR status <> ?9) ORDER BY id DESC LIMIT ?6"
        )
    };
}

/// Of a user, or of a user and a voucher: vouchers are few, and each is one look into the unique index.
const LIVE_OF_USER: &str = select_page!(
    "WHERE status NOT IN (4, 5) AND user_id = ?1 \
     AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher WHERE ?2 IS NULL OR voucher_id = ?2)"
);
const CLOSED_OF_USER: &str = select_page!(
    "INDEXED BY idx_closed_user WHERE status IN (4, 5) AND user_id = ?1 \
     AND (?2 IS NULL OR voucher_id = ?2)"
);
const LIVE_OF_VOUCHER: &str = select_page!(
    "INDEXED BY idx_live_order WHERE ?1 IS NULL AND status NOT IN (4, 5) AND voucher_id = ?2"
);
const CLOSED_OF_VOUCHER: &str = select_page!(
    "INDEXED BY idx_closed_order WHERE ?1 IS NULL AND status IN (4, 5) AND voucher_id = ?2"
);
/// Along the primary key.
const ANY: &str = select_page!("WHERE ?1 IS NULL AND ?2 IS NULL");
const ORDINARY_OF_USER: &str = select_page!(
    ordinary "INDEXED BY idx_ordinary_user WHERE user_id = ?1 AND (?2 IS NULL OR voucher_id = ?2)"
);
const ORDINARY_OF_VOUCHER: &str = select_page!(
    ordinary "INDEXED BY idx_ordinary_voucher WHERE ?1 IS NULL AND voucher_id = ?2"
);
const ORDINARY: &str = select_page!(ordinary "WHERE ?1 IS NULL AND ?2 IS NULL");

pub(super) async fn orders(
    pool: &SqlitePool,
    filter: &OrderFilter,
    before: Option<OrderId>,
    limit: u32,
) -> Result<Vec<Order>, StoreError> {
    let parts: &[&'static str] = match (filter.user, filter.voucher) {
        (Some(_), _) => &[LIVE_OF_USER, CLOSED_OF_USER, ORDINARY_OF_USER],
        (None, Some(_)) => &[LIVE_OF_VOUCHER, CLOSED_OF_VOUCHER, ORDINARY_OF_VOUCHER],
        (None, None) => &[ANY, ORDINARY],
    };
    let end = [before, filter.to].into_iter().flatten().min();
    let mut page = Vec::new();
    for part in parts {
        let rows: Vec<OrderRow> = sqlx::query_as(*part)
            .bind(filter.user.map(|user| key(user.0)))
            .bind(filter.voucher.map(|voucher| key(voucher.0)))
            .bind(end.map_or(i64::MAX, OrderId::as_i64))
            .bind(filter.from.map_or(0, OrderId::as_i64))
            .bind(filter.status.map(OrderStatus::code))
            .bind(limit)
            .bind(filter.not.user.map(|user| key(user.0)))
            .bind(filter.not.voucher.map(|voucher| key(voucher.0)))
            .bind(filter.not.status.map(OrderStatus::code))
            .fetch_all(pool)
            .await
            .map_err(told)?;
        for row in rows {
            page.push(rows::order(row)?);
        }
    }
    page.sort_unstable_by_key(|order| Reverse(order.id));
    page.truncate(limit as usize);
    Ok(page)
}

/// Beyond 63 bits there is no row.
fn key(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(-1)
}
