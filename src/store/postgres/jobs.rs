//! Runs of jobs, fences of locks, and settings in PostgreSQL. What writes is inside the caller's
//! transaction.

use seckill_model::{Fence, JobRun, JobSwitch, Millis, NewRun, RunEnd, Said};
use sqlx::PgConnection;

use super::super::{
    StoreError,
    rows::{self, RunRow},
    session::Fault,
};

/// Lets a write pass whose token is not lower than any seen, and says how many have passed.
pub(super) async fn pass_fence(
    conn: &mut PgConnection,
    fence: &Fence,
    now: Millis,
) -> Result<u64, Fault> {
    let writes: Option<i64> = sqlx::query_scalar(
        "INSERT INTO tb_lock_fence AS f (name, token, writes, update_time) VALUES ($1, $2, 1, $3) \
         ON CONFLICT (name) DO UPDATE SET token = $2, writes = f.writes + 1, update_time = $3 \
         WHERE f.token <= $2 RETURNING writes",
    )
    .bind(&fence.name)
    .bind(fence.token)
    .bind(now.0)
    .fetch_optional(conn)
    .await?;
    Ok(writes.map(rows::count).ok_or_else(|| StoreError::Fenced(fence.name.clone()))?)
}

/// What the statement looks at may change before it inserts; then that happened after this run began, and
/// the unique index keeps a due time from being taken twice.
pub(super) async fn begin_run(conn: &mut PgConnection, run: &NewRun) -> Result<Option<i64>, Fault> {
    Ok(sqlx::query_scalar(
        "INSERT INTO tb_job_run (job, due, cause, node, token, started) \
         SELECT $1, $2, $3, $4, $5, $6 \
         WHERE ($3 = 'operator' OR NOT EXISTS (SELECT 1 FROM tb_job WHERE name = $1 AND paused)) \
         AND $5 >= coalesce(\
             (SELECT token FROM tb_job_run WHERE job = $1 ORDER BY due DESC LIMIT 1), 0) \
         ON CONFLICT (job, due) DO NOTHING RETURNING id",
    )
    .bind(&run.job)
    .bind(run.due.0)
    .bind(run.cause.as_str())
    .bind(&run.node)
    .bind(run.token)
    .bind(run.started.0)
    .fetch_optional(conn)
    .await?)
}

pub(super) async fn end_run(conn: &mut PgConnection, id: i64, end: &RunEnd) -> Result<(), Fault> {
    sqlx::query(
        "UPDATE tb_job_run SET outcome = $1, took_ms = $2, detail = $3, rows = $4 \
         WHERE id = $5 AND outcome = 'running'",
    )
    .bind(end.outcome.as_str())
    .bind(end.took_ms as i64)
    .bind(end.detail.as_ref().map(Said::stored))
    .bind(end.rows as i64)
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn lose_runs(
    conn: &mut PgConnection,
    job: &str,
    token: i64,
    now: Millis,
) -> Result<u64, Fault> {
    let done = sqlx::query(
        "UPDATE tb_job_run SET outcome = 'lost', took_ms = GREATEST(0, $1 - started), \
         detail = 'its node died or was away for too long' \
         WHERE job = $2 AND token < $3 AND outcome = 'running'",
    )
    .bind(now.0)
    .bind(job)
    .bind(token)
    .execute(conn)
    .await?;
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
    conn: &mut PgConnection,
    job: Option<&str>,
    limit: u32,
) -> Result<Vec<JobRun>, Fault> {
    let query = match job {
        Some(job) => {
            sqlx::query_as(select_runs!("WHERE job = $1 ORDER BY due DESC LIMIT $2")).bind(job)
        }
        None => sqlx::query_as(select_runs!("ORDER BY id DESC LIMIT $1")),
    };
    let rows: Vec<RunRow> = query.bind(i64::from(limit)).fetch_all(conn).await?;
    Ok(rows.into_iter().map(rows::run).collect::<Result<_, _>>()?)
}

pub(super) async fn last_due(
    conn: &mut PgConnection,
    job: &str,
    now: Millis,
) -> Result<Option<JobRun>, Fault> {
    let row: Option<RunRow> = sqlx::query_as(select_runs!(
        "WHERE job = $1 AND due <= $2 AND cause != 'operator' ORDER BY due DESC LIMIT 1"
    ))
    .bind(job)
    .bind(now.0)
    .fetch_optional(conn)
    .await?;
    Ok(row.map(rows::run).transpose()?)
}

pub(super) async fn forget_runs(conn: &mut PgConnection, before: Millis) -> Result<u64, Fault> {
    let done = sqlx::query(
        "DELETE FROM tb_job_run r WHERE due < $1 AND outcome != 'running' \
         AND due < (SELECT MAX(newer.due) FROM tb_job_run newer WHERE newer.job = r.job)",
    )
    .bind(before.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn switches(conn: &mut PgConnection) -> Result<Vec<JobSwitch>, Fault> {
    let rows: Vec<(String, bool, i64)> =
        sqlx::query_as("SELECT name, paused, update_time FROM tb_job ORDER BY name")
            .fetch_all(conn)
            .await?;
    let switch = |(name, paused, since)| JobSwitch { name, paused, since: Millis(since) };
    Ok(rows.into_iter().map(switch).collect())
}

pub(super) async fn pause(
    conn: &mut PgConnection,
    job: &str,
    paused: bool,
    now: Millis,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO tb_job (name, paused, update_time) VALUES ($1, $2, $3) \
         ON CONFLICT (name) DO UPDATE SET paused = $2, update_time = $3",
    )
    .bind(job)
    .bind(paused)
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn setting(conn: &mut PgConnection, name: &str) -> Result<Option<String>, Fault> {
    Ok(sqlx::query_scalar("SELECT value FROM tb_setting WHERE name = $1")
        .bind(name)
        .fetch_optional(conn)
        .await?)
}

pub(super) async fn change_setting(
    conn: &mut PgConnection,
    name: &str,
    from: Option<&str>,
    to: &str,
) -> Result<bool, Fault> {
    let query = match from {
        Some(from) => {
            sqlx::query("UPDATE tb_setting SET value = $1 WHERE name = $2 AND value = $3")
                .bind(to)
                .bind(name)
                .bind(from)
        }
        None => sqlx::query(
            "INSERT INTO tb_setting (value, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        )
        .bind(to)
        .bind(name),
    };
    Ok(query.execute(conn).await?.rows_affected() == 1)
}
