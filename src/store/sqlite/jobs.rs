//! Runs of jobs and fences of locks in SQLite.

use seckill_model::{Fence, JobRun, JobSwitch, Millis, NewRun, RunEnd, Said};
use sqlx::{SqliteConnection, SqlitePool};

use super::{
    super::rows::{self, RunRow},
    StoreError,
    faults::told,
};

/// Lets a write pass whose token is not lower than any seen, and says how many have passed. Inside
/// the caller's transaction.
pub(super) async fn pass_fence(
    conn: &mut SqliteConnection,
    fence: &Fence,
    now: Millis,
) -> Result<u64, StoreError> {
    let writes: Option<i64> = sqlx::query_scalar(
        "INSERT INTO tb_lock_fence (name, token, writes, update_time) VALUES (?1, ?2, 1, ?3) \
         ON CONFLICT (name) DO UPDATE SET token = ?2, writes = writes + 1, update_time = ?3 \
         WHERE token <= ?2 RETURNING writes",
    )
    .bind(&fence.name)
    .bind(fence.token)
    .bind(now.0)
    .fetch_optional(conn)
    .await
    .map_err(told)?;
    writes.map(rows::count).ok_or_else(|| StoreError::Fenced(fence.name.clone()))
}

pub(super) async fn begin_run(
    conn: &mut SqliteConnection,
    run: &NewRun,
) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar(
        "INSERT INTO tb_job_run (job, due, cause, node, token, started) \
         SELECT ?1, ?2, ?3, ?4, ?5, ?6 \
         WHERE (?3 = 'operator' \
             OR NOT EXISTS (SELECT 1 FROM tb_job WHERE name = ?1 AND paused = 1)) \
         AND ?5 >= coalesce(\
             (SELECT token FROM tb_job_run WHERE job = ?1 ORDER BY due DESC LIMIT 1), 0) \
         ON CONFLICT (job, due) DO NOTHING RETURNING id",
    )
    .bind(&run.job)
    .bind(run.due.0)
    .bind(run.cause.as_str())
    .bind(&run.node)
    .bind(run.token)
    .bind(run.started.0)
    .fetch_optional(conn)
    .await
    .map_err(told)
}

pub(super) async fn end_run(
    conn: &mut SqliteConnection,
    id: i64,
    end: &RunEnd,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE tb_job_run SET outcome = ?2, took_ms = ?3, detail = ?4, rows = ?5 \
         WHERE id = ?1 AND outcome = 'running'",
    )
    .bind(id)
    .bind(end.outcome.as_str())
    .bind(end.took_ms as i64)
    .bind(end.detail.as_ref().map(Said::stored))
    .bind(end.rows as i64)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(())
}

pub(super) async fn lose_runs(
    conn: &mut SqliteConnection,
    job: &str,
    token: i64,
    now: Millis,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "UPDATE tb_job_run SET outcome = 'lost', took_ms = max(0, ?3 - started), \
         detail = 'its node died or was away for too long' \
         WHERE job = ?1 AND token < ?2 AND outcome = 'running'",
    )
    .bind(job)
    .bind(token)
    .bind(now.0)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(done.rows_affected())
}

macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "SELECT id, job, due, cause, node, started, took_ms, outcome, detail, rows ",
            "FROM tb_job_run ",
            $rest
        )
    };
}

pub(super) async fn runs(
    pool: &SqlitePool,
    job: Option<&str>,
    limit: u32,
) -> Result<Vec<JobRun>, StoreError> {
    let query = match job {
        Some(job) => {
            sqlx::query_as(select_runs!("WHERE job = ?1 ORDER BY due DESC LIMIT ?2")).bind(job)
        }
        None => sqlx::query_as(select_runs!("ORDER BY id DESC LIMIT ?1")),
    };
    let rows: Vec<RunRow> = query.bind(limit).fetch_all(pool).await.map_err(told)?;
    rows.into_iter().map(rows::run).collect()
}

pub(super) async fn last_due(
    pool: &SqlitePool,
    job: &str,
    now: Millis,
) -> Result<Option<JobRun>, StoreError> {
    let row: Option<RunRow> = sqlx::query_as(select_runs!(
        "WHERE job = ?1 AND due <= ?2 AND cause != 'operator' ORDER BY due DESC LIMIT 1"
    ))
    .bind(job)
    .bind(now.0)
    .fetch_optional(pool)
    .await
    .map_err(told)?;
    row.map(rows::run).transpose()
}

pub(super) async fn forget_runs(
    conn: &mut SqliteConnection,
    before: Millis,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "DELETE FROM tb_job_run WHERE due < ?1 AND outcome != 'running' \
         AND due < (SELECT MAX(newer.due) FROM tb_job_run newer WHERE newer.job = tb_job_run.job)",
    )
    .bind(before.0)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(done.rows_affected())
}

pub(super) async fn switches(pool: &SqlitePool) -> Result<Vec<JobSwitch>, StoreError> {
    let rows: Vec<(String, bool, i64)> =
        sqlx::query_as("SELECT name, paused, update_time FROM tb_job ORDER BY name")
            .fetch_all(pool)
            .await
            .map_err(told)?;
    let switch = |(name, paused, since)| JobSwitch { name, paused, since: Millis(since) };
    Ok(rows.into_iter().map(switch).collect())
}

pub(super) async fn pause(
    conn: &mut SqliteConnection,
    job: &str,
    paused: bool,
    now: Millis,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO tb_job (name, paused, update_time) VALUES (?1, ?2, ?3) \
         ON CONFLICT (name) DO UPDATE SET paused = ?2, update_time = ?3",
    )
    .bind(job)
    .bind(paused)
    .bind(now.0)
    .execute(conn)
    .await
    .map_err(told)?;
    Ok(())
}
