//! The SQL of PostgreSQL.
//!
//! The first error aborts a transaction, so no statement relies on one: existing orders of a batch show in the number
//! of inserted rows. Lists are passed as arrays, so that one prepared statement serves every length.

mod connect;
mod errors;

use std::borrow::Cow;

use sqlx::{Arguments as _, Error, Postgres, SqlStr, error::BoxDynError, postgres::PgArguments};

use super::super::{
    dialect::{Dialect, Value, fixed, through_driver},
    queries::Conn,
    rows::Key,
};

impl Dialect for Postgres {
    const VERSION: &'static str = "SHOW server_version";
    const DURABILITY: &'static [(&'static str, &'static str)] = &[
        ("fsync", "SHOW fsync"),
        ("synchronous_commit", "SHOW synchronous_commit"),
        ("full_page_writes", "SHOW full_page_writes"),
        ("wal_level", "SHOW wal_level"),
    ];
    const LOCK: &'static str = "FOR NO KEY UPDATE";
    const LOCK_S: &'static str = "FOR UPDATE OF s";
    const HAS_SEQUENCE: bool = true;

    through_driver!();

    fn batch(number: usize) -> String {
        let [user, voucher, place] = [number + 1, number + 2, number + 3];
        format!(
            "UNNEST(${number}::BIGINT[], ${user}::BIGINT[], ${voucher}::BIGINT[], ${place}::BIGINT[]) \
             AS batch (id, user_id, voucher_id, place)"
        )
    }

    fn order_pages(user: bool, voucher: bool) -> &'static [&'static str] {
        match (user, voucher) {
            // Live and closed orders are in different partial indexes. Vouchers are few, and each needs one lookup in
            // the unique index.
            (true, _) => &[
                "WHERE status NOT IN (4, 5) \
                 AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)",
                "WHERE status IN (4, 5)",
            ],
            (false, true) => &["WHERE status NOT IN (4, 5)", "WHERE status IN (4, 5)"],
            (false, false) => &["WHERE TRUE"],
        }
    }

    fn render(
        sql: Cow<'static, str>,
        values: &[Value<'_>],
    ) -> Result<(SqlStr, PgArguments), BoxDynError> {
        let mut arguments = PgArguments::default();
        for value in values {
            match value {
                Value::Int(it) => arguments.add(it)?,
                Value::Text(it) => arguments.add(it.as_deref())?,
                Value::Bool(it) => arguments.add(it)?,
                Value::Ids(ids) => arguments.add(ids)?,
                Value::Rows(rows) => {
                    let column = |of: fn(&Key) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
                    arguments.add(column(|key| key.0))?;
                    arguments.add(column(|key| key.1))?;
                    arguments.add(column(|key| key.2))?;
                    arguments.add(column(|key| key.3))?;
                }
            }
        }
        Ok((fixed(sql), arguments))
    }

    async fn reserve_numbers(conn: &mut Conn<Self>, upto: i64) -> Result<(), Error> {
        Self::sql(
            "SELECT setval(pg_get_serial_sequence('tb_voucher', 'id'), $1) \
             WHERE $1 > (SELECT COALESCE(MAX(id), 0) FROM tb_voucher)",
        )
        .bind(upto)
        .execute(conn)
        .await?;
        Ok(())
    }
}
