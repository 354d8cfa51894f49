//! Runs of jobs, fencing tokens of locks, and settings that all nodes share.

use seckill_model::{Cause, Fence, JobRun, JobSwitch, Message, Millis, NewRun, RunEnd};

use super::{
    super::{
        StoreError,
        dialect::Dialect,
        rows::{self, RunRow},
        session::Fault,
    },
    Conn,
};

const SELECT_RUNS: &str = "SELECT id, job, due, cause, node, started, took_ms, outcome, detail, \"rows\" \
     FROM tb_job_run";

/// Checks a fencing token against the highest one used, and returns how many writes have passed.
pub(crate) async fn pass_fence<D: Dialect>(
    conn: &mut Conn<D>,
    fence: &Fence,
    now: Millis,
) -> Result<u64, Fault> {
    let seen: Option<(i64, i64)> =
        D::sql(format!("SELECT token, writes FROM tb_lock_fence WHERE name = $1 {}", D::LOCK))
            .bind(&fence.name)
            .row(conn)
            .await?;
    let passed = match seen {
        Some((token, _)) if token > fence.token => {
            return Err(StoreError::Fenced(fence.name.clone()).into());
        }
        Some((_, writes)) => writes + 1,
        None => 1,
    };
    let write = D::sql(match seen {
        Some(_) => {
            "UPDATE tb_lock_fence SET token = $2, writes = $3, update_time = $4 WHERE name = $1"
        }
        None => {
            "INSERT INTO tb_lock_fence (name, token, writes, update_time) VALUES ($1, $2, $3, $4)"
        }
    })
    .bind(&fence.name)
    .bind(fence.token)
    .bind(passed)
    .bind(now.0);
    let written = match seen {
        Some(_) => write.execute(conn).await?,
        None => write.insert(conn).await?,
    };
    // A concurrent transaction inserted the first row with this name; the retry sees it.
    if written == 0 { Err(Fault::Again) } else { Ok(rows::count(passed)) }
}

/// The rows read first may change before the insert; then the change happened after this run began, and the unique
/// index prevents a duplicate due time.
pub(crate) async fn begin_run<D: Dialect>(
    conn: &mut Conn<D>,
    run: &NewRun,
) -> Result<Option<i64>, Fault> {
    let paused: Option<(bool,)> =
        D::sql("SELECT paused FROM tb_job WHERE name = $1").bind(&run.job).row(conn).await?;
    let newest: Option<(i64,)> =
        D::sql("SELECT token FROM tb_job_run WHERE job = $1 ORDER BY due DESC LIMIT 1")
            .bind(&run.job)
            .row(conn)
            .await?;
    let held = paused == Some((true,)) && run.cause != Cause::Operator;
    if held || run.token < newest.map_or(0, |(token,)| token) {
        return Ok(None);
    }
    Ok(D::sql(
        "INSERT INTO tb_job_run (job, due, cause, node, token, started) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(&run.job)
    .bind(run.due.0)
    .bind(run.cause.as_str())
    .bind(&run.node)
    .bind(run.token)
    .bind(run.started.0)
    .insert_row(conn)
    .await?)
}

pub(crate) async fn end_run<D: Dialect>(
    conn: &mut Conn<D>,
    id: i64,
    end: &RunEnd,
) -> Result<(), Fault> {
    D::sql(
        "UPDATE tb_job_run SET outcome = $2, took_ms = $3, detail = $4, \"rows\" = $5 \
         WHERE id = $1 AND outcome = 'running'",
    )
    .bind(id)
    .bind(end.outcome.as_str())
    .bind(end.took_ms as i64)
    .bind(end.detail.as_ref().map(Message::stored))
    .bind(end.rows as i64)
    .execute(conn)
    .await?;
    Ok(())
}

pub(crate) async fn lose_runs<D: Dialect>(
    conn: &mut Conn<D>,
    job: &str,
    token: i64,
    now: Millis,
) -> Result<u64, Fault> {
    Ok(D::sql(
        "UPDATE tb_job_run SET outcome = 'lost', \
         took_ms = CASE WHEN started < $3 THEN $3 - started ELSE 0 END, \
         detail = 'its node died or was away for too long' \
         WHERE job = $1 AND token < $2 AND outcome = 'running'",
    )
    .bind(job)
    .bind(token)
    .bind(now.0)
    .execute(conn)
    .await?)
}

pub(crate) async fn runs<D: Dialect>(
    conn: &mut Conn<D>,
    job: Option<&str>,
    limit: u32,
) -> Result<Vec<JobRun>, Fault> {
    let query = match job {
        Some(job) => {
            D::sql(format!("{SELECT_RUNS} WHERE job = $1 ORDER BY due DESC LIMIT $2")).bind(job)
        }
        None => D::sql(format!("{SELECT_RUNS} ORDER BY id DESC LIMIT $1")),
    };
    let rows: Vec<RunRow> = query.bind(limit).rows(conn).await?;
    Ok(rows.into_iter().map(rows::run).collect::<Result<_, _>>()?)
}

pub(crate) async fn last_due<D: Dialect>(
    conn: &mut Conn<D>,
    job: &str,
    now: Millis,
) -> Result<Option<JobRun>, Fault> {
    let row: Option<RunRow> = D::sql(format!(
        "{SELECT_RUNS} WHERE job = $1 AND due <= $2 AND cause != 'operator' ORDER BY due DESC LIMIT 1"
    ))
    .bind(job)
    .bind(now.0)
    .row(conn)
    .await?;
    Ok(row.map(rows::run).transpose()?)
}

/// Keeps the newest run of each job. MySQL cannot read the table it deletes from, except through a derived table.
pub(crate) async fn forget_runs<D: Dialect>(
    conn: &mut Conn<D>,
    before: Millis,
) -> Result<u64, Fault> {
    Ok(D::sql(
        "DELETE FROM tb_job_run WHERE due < $1 AND outcome != 'running' AND (job, due) NOT IN (\
         SELECT job, due FROM (SELECT job, MAX(due) AS due FROM tb_job_run GROUP BY job) AS newest)",
    )
    .bind(before.0)
    .execute(conn)
    .await?)
}

pub(crate) async fn switches<D: Dialect>(conn: &mut Conn<D>) -> Result<Vec<JobSwitch>, Fault> {
    let rows: Vec<(String, bool, i64)> =
        D::sql("SELECT name, paused, update_time FROM tb_job ORDER BY name").rows(conn).await?;
    let switch = |(name, paused, since)| JobSwitch { name, paused, since: Millis(since) };
    Ok(rows.into_iter().map(switch).collect())
}

pub(crate) async fn pause<D: Dialect>(
    conn: &mut Conn<D>,
    job: &str,
    paused: bool,
    now: Millis,
) -> Result<(), Fault> {
    D::sql(format!(
        "INSERT INTO tb_job (name, paused, update_time) VALUES ($1, $2, $3) {}",
        D::upsert("name", &["paused", "update_time"])
    ))
    .bind(job)
    .bind(paused)
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(())
}

pub(crate) async fn setting<D: Dialect>(
    conn: &mut Conn<D>,
    name: &str,
) -> Result<Option<String>, Fault> {
    let row: Option<(String,)> =
        D::sql("SELECT value FROM tb_setting WHERE name = $1").bind(name).row(conn).await?;
    Ok(row.map(|(value,)| value))
}

pub(crate) async fn change_setting<D: Dialect>(
    conn: &mut Conn<D>,
    name: &str,
    from: Option<&str>,
    to: &str,
) -> Result<bool, Fault> {
    let changed = match from {
        Some(from) => {
            D::sql("UPDATE tb_setting SET value = $2 WHERE name = $1 AND value = $3")
                .bind(name)
                .bind(to)
                .bind(from)
                .execute(conn)
                .await?
        }
        None => {
            D::sql("INSERT INTO tb_setting (name, value) VALUES ($1, $2)")
                .bind(name)
                .bind(to)
                .insert(conn)
                .await?
        }
    };
    Ok(changed == 1)
}
