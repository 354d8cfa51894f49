//! What every node has to agree on, in SQLite: compared and set in one statement.

use sqlx::{SqliteConnection, SqlitePool};

use super::{StoreError, faults::told};

pub(super) async fn read(pool: &SqlitePool, name: &str) -> Result<Option<String>, StoreError> {
    sqlx::query_scalar("SELECT value FROM tb_setting WHERE name = ?")
        .bind(name)
        .fetch_optional(pool)
        .await
        .map_err(told)
}

pub(super) async fn change(
    conn: &mut SqliteConnection,
    name: &str,
    from: Option<&str>,
    to: &str,
) -> Result<bool, StoreError> {
    let query = match from {
        Some(from) => {
            sqlx::query("UPDATE tb_setting SET value = ?2 WHERE name = ?1 AND value = ?3")
                .bind(name)
                .bind(to)
                .bind(from)
        }
        None => sqlx::query(
            "INSERT INTO tb_setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
        )
        .bind(name)
        .bind(to),
    };
    Ok(query.execute(conn).await.map_err(told)?.rows_affected() == 1)
}
