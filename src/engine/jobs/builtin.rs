//! The built-in jobs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::ToSpan as _;
use redis::pipe;
use seckill_model::order_id::utc_day;

use super::{Done, Job, JobResult, Missed, Run, Work};
use crate::{
    EngineError, ledger, payment,
    retention::{self, Trimmed},
    settings::Settings,
};

/// Closes expired unpaid orders.
pub const CLOSE_OVERDUE: &str = "close-overdue";
/// Deletes expired order ID counters.
pub const DROP_ID_KEYS: &str = "drop-id-keys";
/// Trims the order stream.
pub const TRIM_STREAM: &str = "trim-stream";
/// Removes sales from Redis that ended long ago.
pub const ARCHIVE_SALES: &str = "archive-sales";
/// Audits all orders by order ID.
pub const CHECK_LEDGER: &str = "check-ledger";

/// The jobs of these settings.
pub fn jobs(settings: &Settings) -> Vec<Job> {
    let of = &settings.jobs;
    let job = |name: &str, about: &str, schedule, at_most_min, work| Job {
        name: name.to_owned(),
        about: about.to_owned(),
        schedule,
        missed: Missed::Once,
        at_least: Duration::from_millis(50),
        at_most: Duration::from_mins(at_most_min),
        jitter: Duration::from_millis(20),
        work,
    };
    vec![
        job(
            CLOSE_OVERDUE,
            "close unpaid orders past their time, give their pieces back",
            of.close_overdue.clone(),
            10,
            Arc::new(CloseOverdue) as Arc<dyn Work>,
        ),
        job(
            DROP_ID_KEYS,
            "drop counters of order ids of past days",
            of.drop_id_keys.clone(),
            1,
            Arc::new(DropIdKeys),
        ),
        job(
            TRIM_STREAM,
            "trim what every group has acknowledged, old letters and history",
            of.trim_stream.clone(),
            2,
            Arc::new(TrimStream),
        ),
        job(
            ARCHIVE_SALES,
            "take sales that are long over out of Redis; SQL keeps them",
            of.archive_sales.clone(),
            10,
            Arc::new(ArchiveSales),
        ),
        job(
            CHECK_LEDGER,
            "follow every order by its id",
            of.check_ledger.clone(),
            10,
            Arc::new(CheckLedger),
        ),
    ]
}

struct CloseOverdue;

#[async_trait]
impl Work for CloseOverdue {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let Run { store, redis, keys, settings, fence, stop, .. } = run;
        let mut conn = redis.connection();
        // Uses the clock that stamps orders: a node whose clock is fast must not close orders early.
        let now = conn.now().await?;
        let before = now.plus(-(settings.jobs.unpaid_ms as i64));
        let closed =
            payment::close_overdue(&store, &mut conn, &keys, before, now, &fence, &stop).await?;
        store.forget_give_backs(now.plus(-payment::REMEMBER_MS)).await?;
        let (orders, given_back) = (closed.orders, closed.given_back);
        Ok(Done { rows: orders, detail: Some(JobResult::Closed { orders, given_back }) })
    }
}

struct DropIdKeys;

/// Days whose counters a node with a slow clock may still use.
const KEEP_DAYS: i32 = 4;
/// Days checked: keys that lost their expiry are found by name, without a scan.
const LOOK_DAYS: i32 = 60;

#[async_trait]
impl Work for DropIdKeys {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let today = utc_day(run.due.0.div_euclid(1_000));
        let (mut rows, mut conn) = (0, run.redis.connection());
        for of in run.keys.partitions() {
            let days =
                (KEEP_DAYS..LOOK_DAYS).filter_map(|back| today.checked_sub(back.days()).ok());
            let mut unlink = pipe();
            for day in days {
                unlink.cmd("UNLINK").arg(of.sequence(day));
            }
            rows += conn.pipe::<Vec<u64>>(&unlink).await?.iter().sum::<u64>();
        }
        Ok(Done { rows, detail: None })
    }
}

struct TrimStream;

#[async_trait]
impl Work for TrimStream {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let Run { store, redis, keys, settings, stop, .. } = &run;
        let (mut conn, mut all) = (redis.connection(), Trimmed::default());
        for of in keys.partitions() {
            let done = retention::trim(store, &mut conn, keys, &of, settings, stop).await?;
            all.entries += done.entries;
            all.letters += done.letters;
            all.consumers.extend(done.consumers);
            all.held = all.held.or(done.held);
        }
        let keep = -(settings.jobs.keep_runs_ms as i64);
        let forgotten = store.forget_runs(run.due.plus(keep)).await?;
        let rows = all.entries + all.letters + forgotten;
        let Trimmed { entries, letters, consumers, held } = all;
        let result = JobResult::Trimmed { entries, runs: forgotten, letters, consumers, held };
        Ok(Done { rows, detail: Some(result) })
    }
}

struct ArchiveSales;

#[async_trait]
impl Work for ArchiveSales {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let Run { store, redis, keys, settings, stop, .. } = run;
        let (mut conn, after) = (redis.connection(), settings.jobs.archive_after_ms);
        let archived = retention::archive_ended(&store, &mut conn, &keys, after, &stop).await?;
        let rows = archived.len() as u64;
        let detail = (!archived.is_empty()).then_some(JobResult::Archived(archived));
        Ok(Done { rows, detail })
    }
}

struct CheckLedger;

#[async_trait]
impl Work for CheckLedger {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let audit = ledger::audit(&run.store, &mut run.redis.connection(), &run.keys, None).await?;
        if let Some(finding) = audit.findings().next() {
            return Err(EngineError::Unbalanced(finding));
        }
        let rows = audit.sales.iter().map(|sale| sale.admitted).sum();
        Ok(Done { rows, detail: Some(JobResult::Balanced) })
    }
}
