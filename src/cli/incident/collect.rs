//! Collects the data of an incident report from all reachable servers; failures are reported in place.

use std::{collections::BTreeMap, time::Duration};

use seckill_console::order_error;
use seckill_engine::{
    commands::{
        operator_lock,
        pending::{Classified, Classifier},
    },
    ledger::{self, Audit},
    telemetry::{Snapshot, read_error::ReadError, snapshot::Health},
};
use seckill_model::{EntryId, JobRun, Millis, Verdict, message::Label};
use seckill_redis::{
    Layout, Redis,
    dead_letters::{self, DeadLetter},
    stream::{self, Pending},
};
use seckill_store::{ActivityFilter, OrderFlow, Recorded, SharedStore};

use super::super::{Result, context::Context, snapshot::within, status};

/// A part of the report, or why it is missing, in one sentence.
pub(super) type Part<T> = Result<T, String>;

/// Timeout of the audit.
const AUDIT_TIMEOUT: Duration = Duration::from_mins(5);
const LINES: usize = 2_000;
const PAGE: usize = 500;
const RUNS: u32 = 30;
/// Most bars in the chart of orders.
const SPANS: u64 = 60;
/// Most pending entries and dead letters that are read.
const ENTRIES: usize = 10_000;
/// Most of them that are listed individually.
pub(super) const SHOWN: usize = 20;

/// All data of an incident report.
pub(super) struct Bundle {
    pub(super) made: Millis,
    pub(super) since: Millis,
    pub(super) until: Millis,
    pub(super) redis: String,
    pub(super) database: Part<String>,
    pub(super) partitions: u16,
    pub(super) snapshot: Snapshot,
    /// Oldest first.
    pub(super) timeline: Part<Timeline>,
    pub(super) runs: Part<Vec<JobRun>>,
    pub(super) flow: Part<OrderFlow>,
    pub(super) pending: Part<PendingSummary>,
    pub(super) dead: Part<DeadSummary>,
    pub(super) proof: Part<(Audit, Millis)>,
}

pub(super) struct Timeline {
    pub(super) lines: Vec<Recorded>,
    /// Older ones in this period are omitted.
    pub(super) cut: bool,
}

#[derive(Default)]
pub(super) struct PendingSummary {
    /// `None` if SQL is unavailable.
    pub(super) verdicts: Option<BTreeMap<Verdict, u64>>,
    pub(super) ages_ms: Vec<u64>,
    pub(super) first: Vec<Pending>,
    /// More exist.
    pub(super) cut: bool,
}

#[derive(Default)]
pub(super) struct DeadSummary {
    pub(super) reasons: Vec<String>,
    pub(super) first: Vec<DeadLetter>,
    pub(super) cut: bool,
}

impl Bundle {
    pub(super) fn away(&self) -> Vec<&'static str> {
        let servers = [("redis", &self.snapshot.redis), ("database", &self.snapshot.sql)];
        servers.into_iter().filter(|(_, health)| !health.up).map(|(name, _)| name).collect()
    }

    pub(super) fn unknown(&self) -> Vec<String> {
        let parts = [
            (Label("cli-incident-timeline"), self.timeline.as_ref().err()),
            (Label("cli-incident-runs"), self.runs.as_ref().err()),
            (Label("cli-incident-orders"), self.flow.as_ref().err()),
            (Label("cli-incident-pending"), self.pending.as_ref().err()),
            (Label("cli-incident-dead"), self.dead.as_ref().err()),
            (Label("cli-incident-by-id"), self.proof.as_ref().err()),
        ];
        parts.into_iter().filter_map(|(part, why)| Some(format!("{part}: {}", why?))).collect()
    }
}

/// Reads all parts.
pub(super) async fn collect(context: &mut Context, since: Millis, until: Millis) -> Bundle {
    let snapshot = status::status(context).await.snapshot;
    let Context { redis, keys, .. } = &*context;
    // A server that just timed out is not waited for again in each part.
    let up = |health: &Health| match &health.error {
        Some(why) if !health.up => Err(why.localized::<ReadError>()),
        _ => Ok(()),
    };
    let store = up(&snapshot.sql).map(|()| &context.store);
    let redis_up = up(&snapshot.redis);
    let span_s = until.since(since) / 1_000 + 1;
    let step_s = u32::try_from(span_s.div_ceil(SPANS).max(1)).unwrap_or(u32::MAX);
    let spans = u32::try_from(span_s.div_ceil(u64::from(step_s))).unwrap_or(1);
    let (timeline, runs, flow) = match &store {
        Ok(store) => (
            timeline(store, since, until).await,
            within(store.runs(None, RUNS)).await,
            within(store.order_flow(since, step_s, spans)).await,
        ),
        Err(why) => (Err(why.clone()), Err(why.clone()), Err(why.clone())),
    };
    let (pending, dead) = match &redis_up {
        Ok(()) => (pending(context, store.is_ok(), snapshot.taken).await, dead(redis, keys).await),
        Err(why) => (Err(why.clone()), Err(why.clone())),
    };
    let proof = match redis_up.and(store.map(drop)) {
        Ok(()) => proof(context).await,
        Err(why) => Err(why),
    };
    Bundle {
        made: Millis::now(),
        since,
        until,
        redis: redis.address().to_owned(),
        database: match context.store.open_error() {
            Some(error) => Err(error.to_string()),
            None => Ok(context.store.describe()),
        },
        partitions: keys.count(),
        snapshot,
        timeline,
        runs,
        flow,
        pending,
        dead,
        proof,
    }
}

async fn timeline(store: &SharedStore, since: Millis, until: Millis) -> Part<Timeline> {
    let filter = ActivityFilter { since: Some(since), until: Some(until), which: None };
    let mut lines: Vec<Recorded> = Vec::new();
    loop {
        let before = lines.last().map(Recorded::position);
        let page = within(store.activity(&filter, before, PAGE as u32)).await?;
        let whole = page.len() < PAGE;
        lines.extend(page);
        if whole || lines.len() >= LINES {
            lines.reverse();
            return Ok(Timeline { lines, cut: !whole });
        }
    }
}

/// Reads the oldest entries; without SQL they have no verdicts, but ages.
async fn pending(context: &Context, has_sql: bool, now: Millis) -> Part<PendingSummary> {
    let (keys, mut conn) = (&context.keys, context.redis.connection());
    let at_work = within(operator_lock::is_taken(&mut conn, keys)).await?;
    let settings = context.config.engine.clone();
    let mut classifier = has_sql.then(|| Classifier::new(context.servers(), settings, at_work));
    let mut summary = PendingSummary {
        verdicts: classifier.is_some().then(BTreeMap::new),
        ..PendingSummary::default()
    };
    let mut next = Some(EntryId::MIN);
    while let Some(from) = next {
        let page: Vec<(Pending, Option<Verdict>)> = match &mut classifier {
            Some(classifier) => within(classifier.page(from, EntryId::MAX))
                .await?
                .into_iter()
                .map(|Classified { row, verdict, .. }| (row, Some(verdict)))
                .collect(),
            None => within(stream::pending_of_all(&mut conn, keys, from, EntryId::MAX, PAGE))
                .await?
                .into_iter()
                .map(|row| (row, None))
                .collect(),
        };
        let Some((last, _)) = page.last() else { break };
        if summary.ages_ms.len() >= ENTRIES {
            summary.cut = true;
            break;
        }
        next = last.delivered.entry.next_of_all();
        for (row, verdict) in page {
            summary.ages_ms.push(now.since(row.delivered.entry.added()));
            if let (Some(verdicts), Some(verdict)) = (&mut summary.verdicts, verdict) {
                *verdicts.entry(verdict).or_default() += 1;
            }
            if summary.first.len() < SHOWN {
                summary.first.push(row);
            }
        }
    }
    Ok(summary)
}

async fn dead(redis: &Redis, keys: &Layout) -> Part<DeadSummary> {
    let (mut conn, mut dead) = (redis.connection(), DeadSummary::default());
    for of in keys.partitions() {
        let mut next = Some(EntryId::MIN);
        while let Some(from) = next {
            let page = within(dead_letters::read(&mut conn, &of, from, PAGE)).await?;
            let Some(last) = page.last() else { break };
            if dead.reasons.len() >= ENTRIES {
                dead.cut = true;
                return Ok(dead);
            }
            next = last.letter.next();
            for letter in page {
                dead.reasons.push(order_error(&letter.reason));
                if dead.first.len() < SHOWN {
                    dead.first.push(letter);
                }
            }
        }
    }
    Ok(dead)
}

async fn proof(context: &Context) -> Part<(Audit, Millis)> {
    let mut servers = context.servers();
    let audit = ledger::audit(&mut servers, None);
    match tokio::time::timeout(AUDIT_TIMEOUT, audit).await {
        Ok(Ok(audit)) => Ok((audit, Millis::now())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(Label("cli-incident-audit-timeout").to_owned()),
    }
}
