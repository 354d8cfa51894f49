//! The built-in jobs.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use jiff::ToSpan as _;
use redis::pipe;
use seckill_model::{Reason, order_id::utc_day, reason::reason};

use super::{Done, Job, Run, Schedule};
use crate::{
    EngineError, Result,
    deployment::{Deployment, settings::Settings},
    jobs::retention::{self, Trimmed},
    ledger,
    lists::sales,
    orders::payment,
};

/// Days whose counters may still be used by a server whose clock is behind.
const KEEP_DAYS: i32 = 4;
/// Days checked: keys that lost their expiry are found by name, without a scan.
const LOOK_DAYS: i32 = 60;

/// The jobs of these settings.
pub fn jobs(settings: &Settings) -> Vec<Job> {
    let of = &settings.jobs;
    vec![
        job("close-overdue", &of.close_overdue, 10, close_overdue),
        job("drop-id-keys", &of.drop_id_keys, 1, drop_id_keys),
        job("trim-stream", &of.trim_stream, 2, trim_stream),
        job("archive-sales", &of.archive_sales, 10, archive_sales),
        job("check-ledger", &of.check_ledger, 10, check_ledger),
    ]
}

fn job<F>(name: &str, schedule: &Schedule, at_most_min: u64, work: fn(Run) -> F) -> Job
where
    F: Future<Output = Result<Done>> + Send + 'static,
{
    Job {
        name: name.to_owned(),
        schedule: schedule.clone(),
        at_most: Duration::from_mins(at_most_min),
        jitter: Duration::from_millis(20),
        work: Arc::new(move |run| work(run).boxed()),
    }
}

async fn close_overdue(run: Run) -> Result<Done> {
    let (mut servers, settings) = (run.deployment.servers(), &run.deployment.settings);
    // Uses the clock that stamps orders: a node whose clock is fast must not close orders early.
    let now = servers.conn.now().await?;
    let before = now.plus(-(settings.jobs.unpaid_ms as i64));
    let closed = payment::close_overdue(&mut servers, before, now, &run.fence, &run.stop).await?;
    servers.store.forget_give_backs(now.plus(-payment::REMEMBER_MS)).await?;
    let (orders, given_back) = (closed.orders, closed.given_back);
    if let Some(sales) = closed.left_out.reason() {
        return Err(EngineError::Failed(reason!("job-closed-partly", orders, given_back, sales)));
    }
    Ok(Done { rows: orders, detail: Some(reason!("job-closed", orders, given_back)) })
}

async fn drop_id_keys(run: Run) -> Result<Done> {
    let today = utc_day(run.due.0.div_euclid(1_000));
    let (mut rows, mut conn) = (0, run.deployment.redis.connection());
    for of in run.deployment.keys.partitions() {
        let days = (KEEP_DAYS..LOOK_DAYS).filter_map(|back| today.checked_sub(back.days()).ok());
        let mut unlink = pipe();
        for day in days {
            unlink.cmd("UNLINK").arg(of.sequence(day));
        }
        rows += conn.pipe::<Vec<u64>>(&unlink).await?.iter().sum::<u64>();
    }
    Ok(Done { rows, detail: None })
}

async fn trim_stream(run: Run) -> Result<Done> {
    let Deployment { store, keys, settings, .. } = &run.deployment;
    let (mut servers, mut all) = (run.deployment.servers(), Trimmed::default());
    for of in keys.partitions() {
        let done = retention::trim(&mut servers, &of, settings, &run.stop).await?;
        all.entries += done.entries;
        all.letters += done.letters;
        all.consumers.extend(done.consumers);
        all.held = all.held.or(done.held);
    }
    let keep = -(settings.jobs.keep_runs_ms as i64);
    let forgotten = store.forget_runs(run.due.plus(keep)).await?;
    let rows = all.entries + all.letters + forgotten;
    Ok(Done { rows, detail: Some(trimmed(all, forgotten)) })
}

fn trimmed(all: Trimmed, runs: u64) -> Reason {
    let Trimmed { entries, letters, consumers, held } = all;
    let mut parts = vec![reason!("job-trimmed", entries, runs)];
    parts.extend((letters > 0).then(|| reason!("job-trimmed-letters", letters)));
    if !consumers.is_empty() {
        parts.push(reason!("job-trimmed-consumers", consumers = consumers.join(" ")));
    }
    parts.extend(held.map(|held| reason!("job-trimmed-held", held)));
    Reason::Joined(parts)
}

async fn archive_sales(run: Run) -> Result<Done> {
    let after = run.deployment.settings.jobs.archive_after_ms;
    let mut servers = run.deployment.servers();
    let archived = retention::archive_ended(&mut servers, after, &run.stop).await?;
    let rows = archived.sales.len() as u64;
    if let Some(left_out) = archived.left_out.reason() {
        return Err(EngineError::Failed(reason!("job-archived-partly", rows, left_out)));
    }
    let archived = archived.sales;
    let detail = (!archived.is_empty()).then(|| reason!("job-archived", sales = sales(&archived)));
    Ok(Done { rows, detail })
}

async fn check_ledger(run: Run) -> Result<Done> {
    let audit = ledger::audit(&mut run.deployment.servers(), None).await?;
    if let Some(finding) = audit.findings().next() {
        return Err(EngineError::Unbalanced(finding));
    }
    let rows = audit.sales.iter().map(|sale| sale.admitted).sum();
    Ok(Done { rows, detail: Some(reason!("job-balanced")) })
}
