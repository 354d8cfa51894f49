//! Runs of jobs, fencing tokens of locks, and settings that all nodes share.

use seckill_model::{Cause, Fence, JobRun, JobSwitch, Message, Millis, NewRun, RunEnd};

use crate::{Conn, Fault, Result, Store, StoreError, params, read, rows, transaction};

const SELECT_RUNS: &str = "SELECT id, job, due, cause, node, started, took_ms, outcome, detail, \"rows\" \
     FROM tb_job_run";

impl Store {
    /// Starts a run of a job. `None` if that due time was already taken, if the job is paused and no operator requested
    /// the run, or if a run with a higher token exists.
    pub async fn begin_run(&self, run: &NewRun) -> Result<Option<i64>> {
        // The rows read first may change before the insert; then the change happened after this run began, and the
        // unique index prevents a duplicate due time.
        transaction!(self, |conn| {
            let paused: Option<bool> =
                conn.row("SELECT paused FROM tb_job WHERE name = $1", params![&run.job]).await?;
            let query = "SELECT token FROM tb_job_run WHERE job = $1 ORDER BY due DESC LIMIT 1";
            let newest: Option<i64> = conn.row(query, params![&run.job]).await?;
            let held = paused == Some(true) && run.cause != Cause::Operator;
            if held || run.token < newest.unwrap_or(0) {
                return Ok(None);
            }
            let insert = "INSERT INTO tb_job_run (job, due, cause, node, token, started) \
                 VALUES ($1, $2, $3, $4, $5, $6)";
            let NewRun { job, due, cause, node, token, started } = run;
            let values = params![job, *due, *cause, node, *token, *started];
            let id = conn.insert_row(insert, values).await?;
            if id.is_none() {
                let taken = "SELECT id FROM tb_job_run WHERE job = $1 AND due = $2";
                let taken: Option<i64> = conn.row(taken, params![job, *due]).await?;
                // Otherwise it is the generated ID that another row has.
                taken.ok_or(Fault::Again)?;
            }
            Ok(id)
        })
    }

    /// Stores the result of a run, unless it has one.
    pub async fn end_run(&self, id: i64, end: &RunEnd) -> Result<()> {
        let update = "UPDATE tb_job_run SET outcome = $2, took_ms = $3, detail = $4, \"rows\" = $5 \
             WHERE id = $1 AND outcome = 'running'";
        let (took_ms, rows) = (end.took_ms as i64, end.rows as i64);
        transaction!(self, |conn| {
            let detail = end.detail.as_ref().map(Message::stored);
            conn.execute(update, params![id, end.outcome, took_ms, detail, rows]).await.map(drop)
        })
    }

    /// Marks unfinished runs of a job with a lower token than `token` as lost, for that reason; returns how many.
    pub async fn lose_runs(
        &self,
        job: &str,
        token: i64,
        why: &Message,
        now: Millis,
    ) -> Result<u64> {
        let update = "UPDATE tb_job_run SET outcome = 'lost', detail = $4, \
             took_ms = CASE WHEN started < $3 THEN $3 - started ELSE 0 END \
             WHERE job = $1 AND token < $2 AND outcome = 'running'";
        transaction!(self, |conn| {
            conn.execute(update, params![job, token, now, why.stored()]).await
        })
    }

    /// The newest runs, newest first: of one job or of all.
    pub async fn runs(&self, job: Option<&str>, limit: u32) -> Result<Vec<JobRun>> {
        read!(self, |conn| {
            if let Some(job) = job {
                let query = format!("{SELECT_RUNS} WHERE job = $1 ORDER BY due DESC LIMIT $2");
                return conn.rows(query, params![job, limit]).await;
            }
            let query = format!("{SELECT_RUNS} ORDER BY id DESC LIMIT $1");
            conn.rows(query, params![limit]).await
        })
    }

    /// The run with the latest due time up to `now`, inclusive, except those requested by operators.
    pub async fn last_due(&self, job: &str, now: Millis) -> Result<Option<JobRun>> {
        read!(self, |conn| {
            let query = format!(
                "{SELECT_RUNS} WHERE job = $1 AND due <= $2 AND cause != 'operator' \
                 ORDER BY due DESC LIMIT 1"
            );
            conn.row(query, params![job, now]).await
        })
    }

    /// Deletes ended runs that were due before `before`, but never a job's newest; returns how many.
    pub async fn forget_runs(&self, before: Millis) -> Result<u64> {
        // MySQL cannot read the table it deletes from, except through a derived table.
        let delete = "DELETE FROM tb_job_run WHERE due < $1 AND outcome != 'running' \
             AND (job, due) NOT IN (SELECT job, due FROM (\
                 SELECT job, MAX(due) AS due FROM tb_job_run GROUP BY job) AS newest)";
        transaction!(self, |conn| conn.execute(delete, params![before]).await)
    }

    /// Jobs that were ever paused, with their current state.
    pub async fn job_switches(&self) -> Result<Vec<JobSwitch>> {
        let query = "SELECT name, paused, update_time AS since FROM tb_job ORDER BY name";
        read!(self, |conn| conn.rows(query, params![]).await)
    }

    /// Pauses or resumes a job. One that is in that state already keeps the time of its last change: what was due before that
    /// time is skipped. Returns whether it was in the other state.
    pub async fn pause_job(&self, job: &str, paused: bool, now: Millis) -> Result<bool> {
        transaction!(self, |conn| {
            let query = "SELECT name, paused, update_time AS since FROM tb_job WHERE name = $1";
            let known: Option<JobSwitch> = conn.row(query, params![job]).await?;
            if known.is_some_and(|it| it.paused) == paused {
                return Ok(false);
            }
            let or_update = (conn.dialect().upsert)("name", "paused, update_time");
            let statement = format!(
                "INSERT INTO tb_job (name, paused, update_time) VALUES ($1, $2, $3) {or_update}"
            );
            conn.execute(statement, params![job, paused, now]).await?;
            Ok(true)
        })
    }

    /// Records a write with a fencing token; returns how many there were with this name.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if a higher token was used.
    pub async fn fenced_write(&self, fence: &Fence, now: Millis) -> Result<u64> {
        transaction!(self, |conn| pass_fence(conn, fence, now).await)
    }

    /// A setting shared by all nodes; `None` if it is not set yet.
    pub async fn setting(&self, name: &str) -> Result<Option<String>> {
        let query = "SELECT value FROM tb_setting WHERE name = $1";
        read!(self, |conn| conn.row(query, params![name]).await)
    }

    /// Changes it if its value is still `from`; returns whether it did.
    pub async fn change_setting(&self, name: &str, from: Option<&str>, to: &str) -> Result<bool> {
        transaction!(self, |conn| {
            let changed = if let Some(from) = from {
                let update = "UPDATE tb_setting SET value = $2 WHERE name = $1 AND value = $3";
                conn.execute(update, params![name, to, from]).await?
            } else {
                let insert = "INSERT INTO tb_setting (name, value) VALUES ($1, $2)";
                conn.insert(insert, params![name, to]).await?
            };
            Ok(changed == 1)
        })
    }
}

/// Checks a fencing token against the highest one used, and returns how many writes have passed.
pub(super) async fn pass_fence(conn: &mut Conn, fence: &Fence, now: Millis) -> Result<u64, Fault> {
    let lock = conn.dialect().lock;
    let query = format!("SELECT token, writes FROM tb_lock_fence WHERE name = $1 {lock}");
    let seen: Option<(i64, i64)> = conn.row(query, params![&fence.name]).await?;
    let (passed, written) = match seen {
        Some((token, _)) if token > fence.token => {
            return Err(StoreError::Fenced(fence.name.clone()).into());
        }
        Some((_, writes)) => {
            let update = "UPDATE tb_lock_fence SET token = $2, writes = $3, update_time = $4 \
                 WHERE name = $1";
            let values = params![&fence.name, fence.token, writes + 1, now];
            (writes + 1, conn.execute(update, values).await?)
        }
        None => {
            let insert = "INSERT INTO tb_lock_fence (name, token, writes, update_time) \
                 VALUES ($1, $2, 1, $3)";
            (1, conn.insert(insert, params![&fence.name, fence.token, now]).await?)
        }
    };
    // A concurrent transaction inserted the first row with this name; the retry sees it.
    if written == 0 { Err(Fault::Again) } else { Ok(rows::count(passed)) }
}
