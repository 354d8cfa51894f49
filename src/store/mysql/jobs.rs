//! Runs of jobs, fences of locks, and settings in MySQL. What writes is inside the caller's
//! transaction.

use seckill_model::{Cause, Fence, JobRun, JobSwitch, Millis, NewRun, RunEnd, Said};
use sqlx::MySqlConnection;

use super::{
    super::{
        StoreError,
        rows::{self, RunRow},
        session::Fault,
    },
    faults::is_taken,
};

/// Lets a write pass whose token is not lower than any seen, and says how many have passed.
pub(super) async fn pass_fence(
    conn: &mut MySqlConnection,
    fence: &Fence,
    now: Millis,
) -> Result<u64, Fault> {
    let seen: Option<(i64, i64)> =
        sqlx::query_as("SELECT token, writes FROM tb_lock_fence WHERE name = ? FOR UPDATE")
            .bind(&fence.name)
            .fetch_optional(&mut *conn)
            .await?;
    let writes = match seen {
        Some((token, _)) if token > fence.token => {
            return Err(StoreError::Fenced(fence.name.clone()).into());
        }
        Some((_, writes)) => writes + 1,
        None => 1,
    };
    let query = match seen {
        Some(_) => "UPDATE tb_lock_fence SET token = ?, writes = ?, update_time = ? WHERE name = ?",
        None => "INSERT INTO tb_lock_fence (token, writes, update_time, name) VALUES (?, ?, ?, ?)",
    };
    let done = sqlx::query(query)
        .bind(fence.token)
        .bind(writes)
        .bind(now.0)
        .bind(&fence.name)
        .execute(conn)
        .await;
    match done {
        Ok(_) => Ok(rows::count(writes)),
        // Another was the first under this name; the next try sees it.
        Err(fault) if is_taken(&fault) => Err(Fault::Again),
        Err(fault) => Err(fault.into()),
    }
}

/// What is looked at first may change before the insert; then it happened after this run began, and the
/// unique index keeps a due time from being taken twice.
pub(super) async fn begin_run(
    conn: &mut MySqlConnection,
    run: &NewRun,
) -> Result<Option<i64>, Fault> {
    let paused: Option<bool> = sqlx::query_scalar("SELECT paused FROM tb_job WHERE name = ?")
        .bind(&run.job)
        .fetch_optional(&mut *conn)
        .await?;
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT token FROM tb_job_run WHERE job = ? ORDER BY due DESC LIMIT 1")
            .bind(&run.job)
            .fetch_optional(&mut *conn)
            .await?;
    let held = paused == Some(true) && run.cause != Cause::Operator;
    if held || run.token < newest.unwrap_or(0) {
        return Ok(None);
    }
    let done = sqlx::query(
        "INSERT INTO tb_job_run (job, due, cause, node, token, started) VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(&run.job)
    .bind(run.due.0)
    .bind(run.cause.as_str())
    .bind(&run.node)
    .bind(run.token)
    .bind(run.started.0)
    .execute(conn)
    .await;
    match done {
        Ok(done) => Ok(i64::try_from(done.last_insert_id()).ok()),
        Err(fault) if is_taken(&fault) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

pub(super) async fn end_run(
    conn: &mut MySqlConnection,
    id: i64,
    end: &RunEnd,
) -> Result<(), Fault> {
    sqlx::query(
        "UPDATE tb_job_run SET outcome = ?, took_ms = ?, detail = ?, `rows` = ? \
         WHERE id = ? AND outcome = 'running'",
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
    conn: &mut MySqlConnection,
    job: &str,
    token: i64,
    now: Millis,
) -> Result<u64, Fault> {
    let done = sqlx::query(
        "UPDATE tb_job_run SET outcome = 'lost', took_ms = GREATEST(0, ? - started), \
         detail = 'its node died or was away for too long' \
         WHERE job = ? AND token < ? AND outcome = 'running'",
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
            "SELECT id, job, due, cause, node, started, took_ms, outcome, detail, `rows` ",
            "FROM tb_job_run ",
            $rest
        )
    };
}

pub(super) async fn runs(
    conn: &mut MySqlConnection,
    job: Option<&str>,
    limit: u32,
) -> Result<Vec<JobRun>, Fault> {
    let query = match job {
        Some(job) => {
            sqlx::query_as(select_runs!("WHERE job = ? ORDER BY due DESC LIMIT ?")).bind(job)
        }
        None => sqlx::query_as(select_runs!("ORDER BY id DESC LIMIT ?")),
    };
    let rows: Vec<RunRow> = query.bind(limit).fetch_all(conn).await?;
    Ok(rows.into_iter().map(rows::run).collect::<Result<_, _>>()?)
}

pub(super) async fn last_due(
    conn: &mut MySqlConnection,
    job: &str,
    now: Millis,
) -> Result<Option<JobRun>, Fault> {
    let row: Option<RunRow> = sqlx::query_as(select_runs!(
        "WHERE job = ? AND due <= ? AND cause != 'operator' ORDER BY due DESC LIMIT 1"
    ))
    .bind(job)
    .bind(now.0)
    .fetch_optional(conn)
    .await?;
    Ok(row.map(rows::run).transpose()?)
}

pub(super) async fn forget_runs(conn: &mut MySqlConnection, before: Millis) -> Result<u64, Fault> {
    // MySQL does not look into a table that it deletes from, except through a copy.
    let done = sqlx::query(
        "DELETE r FROM tb_job_run r \
         JOIN (SELECT job, MAX(due) AS newest FROM tb_job_run GROUP BY job) n ON n.job = r.job \
         WHERE r.due < ? AND r.outcome != 'running' AND r.due < n.newest",
    )
    .bind(before.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

pub(super) async fn switches(conn: &mut MySqlConnection) -> Result<Vec<JobSwitch>, Fault> {
    let rows: Vec<(String, bool, i64)> =
        sqlx::query_as("SELECT name, paused, update_time FROM tb_job ORDER BY name")
            .fetch_all(conn)
            .await?;
    let switch = |(name, paused, since)| JobSwitch { name, paused, since: Millis(since) };
    Ok(rows.into_iter().map(switch).collect())
}

pub(super) async fn pause(
    conn: &mut MySqlConnection,
    job: &str,
    paused: bool,
    now: Millis,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO tb_job (name, paused, update_time) VALUES (?, ?, ?) \
         ON DUPLICATE KEY UPDATE paused = ?, update_time = ?",
    )
    .bind(job)
    .bind(paused)
    .bind(now.0)
    .bind(paused)
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn setting(
    conn: &mut MySqlConnection,
    name: &str,
) -> Result<Option<String>, Fault> {
    Ok(sqlx::query_scalar("SELECT value FROM tb_setting WHERE name = ?")
        .bind(name)
        .fetch_optional(conn)
        .await?)
}

pub(super) async fn change_setting(
    conn: &mut MySqlConnection,
    name: &str,
    from: Option<&str>,
    to: &str,
) -> Result<bool, Fault> {
    let query = match from {
        Some(from) => sqlx::query("UPDATE tb_setting SET value = ? WHERE name = ? AND value = ?")
            .bind(to)
            .bind(name)
            .bind(from),
        None => {
            sqlx::query("INSERT INTO tb_setting (value, name) VALUES (?, ?)").bind(to).bind(name)
        }
    };
    match query.execute(conn).await {
        // Rows that were found, whether or not they changed: either way it stands at `to`.
        Ok(done) => Ok(done.rows_affected() == 1),
        Err(fault) if is_taken(&fault) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}
