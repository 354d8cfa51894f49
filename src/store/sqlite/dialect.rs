//! The SQL of SQLite: nearly that of PostgreSQL, without row locks.
//!
//! Lists and rows are passed as one JSON array each, so that one prepared statement serves every length.

use std::borrow::Cow;

use sqlx::{Arguments as _, Error, SqlStr, Sqlite, error::BoxDynError, sqlite::SqliteArguments};

use super::super::{
    dialect::{Dialect, Value, fixed, json_ids, json_rows, substitute, through_driver},
    queries::Conn,
};

impl Dialect for Sqlite {
    // `sqlite_version()` alone would not read the file.
    const VERSION: &'static str =
        "SELECT sqlite_version() FROM (SELECT COUNT(*) FROM sqlite_schema)";
    const DURABILITY: &'static [(&'static str, &'static str)] = &[
        ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode"),
        (
            "synchronous",
            "SELECT CASE synchronous WHEN 0 THEN 'off' WHEN 1 THEN 'normal' WHEN 2 THEN 'full' \
             ELSE 'extra' END FROM pragma_synchronous",
        ),
        ("foreign_keys", "SELECT iif(foreign_keys, 'on', 'off') FROM pragma_foreign_keys"),
        ("page_size", "SELECT CAST(page_size AS TEXT) FROM pragma_page_size"),
        ("busy_timeout", "SELECT timeout || ' ms' FROM pragma_busy_timeout"),
    ];
    // A write transaction has exclusive access to the file.
    const LOCK: &'static str = "";
    const LOCK_S: &'static str = "";
    const JOIN: &'static str = "CROSS JOIN";

    through_driver!();

    fn batch(number: usize) -> String {
        format!(
            "(SELECT value ->> 0 AS id, value ->> 1 AS user_id, value ->> 2 AS voucher_id, \
             value ->> 3 AS place FROM json_each(${number})) AS batch"
        )
    }

    fn index(name: &str) -> String {
        format!("INDEXED BY {name}")
    }

    fn order_pages(user: bool, voucher: bool) -> &'static [&'static str] {
        match (user, voucher) {
            // Live and closed orders are in different partial indexes. Vouchers are few, and each needs one lookup in
            // the unique index.
            (true, _) => &[
                "WHERE status NOT IN (4, 5) \
                 AND voucher_id IN (SELECT voucher_id FROM tb_seckill_voucher)",
                "INDEXED BY idx_closed_user WHERE status IN (4, 5)",
            ],
            (false, true) => &[
                "INDEXED BY idx_live_order WHERE status NOT IN (4, 5)",
                "INDEXED BY idx_closed_order WHERE status IN (4, 5)",
            ],
            (false, false) => &["WHERE TRUE"],
        }
    }

    fn render(
        sql: Cow<'static, str>,
        values: &[Value<'_>],
    ) -> Result<(SqlStr, SqliteArguments), BoxDynError> {
        let mut arguments = SqliteArguments::default();
        for value in values {
            match value {
                Value::Int(it) => arguments.add(it)?,
                Value::Text(it) => arguments.add(it.as_deref())?,
                Value::Bool(it) => arguments.add(it)?,
                Value::Ids(ids) => arguments.add(json_ids(ids))?,
                Value::Rows(rows) => arguments.add(json_rows(rows))?,
            }
        }
        let sql = substitute(&sql, |text, number, is_list| {
            text.push_str(&if is_list {
                format!("IN (SELECT value FROM json_each(${number}))")
            } else {
                format!("${number}")
            });
        });
        Ok((fixed(sql.into()), arguments))
    }

    async fn reserve_numbers(conn: &mut Conn<Self>, upto: i64) -> Result<(), Error> {
        Self::sql(
            "INSERT INTO sqlite_sequence (name, seq) SELECT 'tb_voucher', $1 \
             WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tb_voucher')",
        )
        .bind(upto)
        .execute(conn)
        .await?;
        Self::sql("UPDATE sqlite_sequence SET seq = $1 WHERE name = 'tb_voucher' AND seq < $1")
            .bind(upto)
            .execute(conn)
            .await?;
        Ok(())
    }
}
