//! The jobs that every deployment has.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::ToSpan as _;
use redis::cmd;

use super::{Done, Job, Missed, Run, Work};
use crate::{
    broker::scripts,
    engine::{EngineError, ledger, payment, settings::Settings},
    model::order_id::utc_day,
};

/// Closes unpaid orders past their time.
pub const CLOSE_OVERDUE: &str = "close-overdue";
/// Drops counters of order ids whose day is long over.
pub const DROP_ID_KEYS: &str = "drop-id-keys";
/// Trims the order stream.
pub const TRIM_STREAM: &str = "trim-stream";
/// Compares the books by order id.
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
            "trim what every group has acknowledged, and old history",
            of.trim_stream.clone(),
            2,
            Arc::new(TrimStream),
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
        let mut link = redis.link();
        // By the clock that stamps orders: a node with a clock of its own must not close early.
        let now = link.now().await?;
        let before = now.plus(-(settings.jobs.unpaid_ms as i64));
        let closed =
            payment::close_overdue(&store, &mut link, &keys, before, now, &fence, &stop).await?;
        store.forget_give_backs(now.plus(-payment::REMEMBER_MS)).await?;
        let detail = format!("{} closed, {} pieces given back", closed.orders, closed.given_back);
        Ok(Done { rows: closed.orders, detail: Some(detail) })
    }
}

struct DropIdKeys;

/// Days whose counters may still be asked for by a node with a late clock.
const KEEP_DAYS: i32 = 4;
/// Days looked at: keys that lost their expiry are found by name, without a scan.
const LOOK_DAYS: i32 = 60;

#[async_trait]
impl Work for DropIdKeys {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let today = utc_day(run.due.0.div_euclid(1_000));
        let mut unlink = cmd("UNLINK");
        for back in KEEP_DAYS..LOOK_DAYS {
            if let Ok(day) = today.checked_sub(back.days()) {
                unlink.arg(run.keys.sequence(day));
            }
        }
        let rows = run.redis.link().query(&unlink).await?;
        Ok(Done { rows, detail: None })
    }
}

struct TrimStream;

/// Entries in one call: a millisecond of Redis.
const TRIM_PAGE: u64 = 10_000;

#[async_trait]
impl Work for TrimStream {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let (of, mut link) = (&run.settings.jobs, run.redis.link());
        let mut rows = 0;
        let held = loop {
            let mut call = scripts::TRIM.prepare_invoke();
            call.key(run.keys.orders()).arg(of.keep_stream_ms).arg(TRIM_PAGE);
            let (trimmed, held): (u64, Option<String>) = link.invoke(&call).await?;
            rows += trimmed;
            if trimmed == 0 || run.stop.is_cancelled() {
                break held;
            }
        };
        let forgotten = run.store.forget_runs(run.due.plus(-(of.keep_runs_ms as i64))).await?;
        let held = held.map(|id| format!("; {id} and later are not acknowledged yet"));
        let detail =
            format!("{rows} entries, {forgotten} runs of jobs{}", held.unwrap_or_default());
        Ok(Done { rows: rows + forgotten, detail: Some(detail) })
    }
}

struct CheckLedger;

#[async_trait]
impl Work for CheckLedger {
    async fn run(&self, run: Run) -> Result<Done, EngineError> {
        let audit = ledger::audit(&run.store, &mut run.redis.link(), &run.keys, None).await?;
        let finding = audit
            .sales
            .iter()
            .find_map(|sale| Some(format!("#{}: {}", sale.voucher_id, sale.findings.first()?)));
        if let Some(finding) = finding {
            return Err(EngineError::BooksOff(finding));
        }
        let rows = audit.sales.iter().map(|sale| sale.admitted).sum();
        Ok(Done { rows, detail: Some("the books balance".to_owned()) })
    }
}
