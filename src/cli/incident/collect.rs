//! Collects the data of an incident report from all reachable servers; failures are reported in place.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use seckill_engine::{
    ledger::{self, Audit},
    operator_lock,
    pending::{Judge, Judged},
    telemetry::{Snapshot, snapshot::Health},
};
use seckill_model::{EntryId, JobRun, Millis, Verdict};
use seckill_redis::{
    Layout, Redis,
    dead_letters::{self, DeadLetter},
    stream::{self, Pending},
};
use seckill_store::{ActivityFilter, OrderFlow, Recorded, SharedStore};

use super::super::{
    Fault,
    alone::{Alone, Sources, within},
    context::Context,
    fault, status,
};
use crate::config::Config;

pub(super) use super::super::alone::Told;

/// Timeout of the audit.
const PATIENCE_OF_LEDGER: Duration = Duration::from_mins(5);
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
    pub(super) redis: Told<String>,
    pub(super) database: Told<String>,
    pub(super) partitions: u16,
    pub(super) snapshot: Snapshot,
    /// Oldest first.
    pub(super) timeline: Told<Timeline>,
    pub(super) runs: Told<Vec<JobRun>>,
    pub(super) flow: Told<OrderFlow>,
    pub(super) plan: Told<Plan>,
    pub(super) dead: Told<Dead>,
    pub(super) proof: Told<(Audit, Millis)>,
}

pub(super) struct Timeline {
    pub(super) lines: Vec<Recorded>,
    /// Older ones in this period are omitted.
    pub(super) cut: bool,
}

#[derive(Default)]
pub(super) struct Plan {
    /// `None` if SQL is unavailable.
    pub(super) verdicts: Option<BTreeMap<&'static str, (Verdict, u64)>>,
    pub(super) ages_ms: Vec<u64>,
    pub(super) first: Vec<Pending>,
    pub(super) looked_at: u64,
    /// More exist.
    pub(super) cut: bool,
}

#[derive(Default)]
pub(super) struct Dead {
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
            ("the timeline", self.timeline.as_ref().err()),
            ("the runs of jobs", self.runs.as_ref().err()),
            ("orders over time", self.flow.as_ref().err()),
            ("pending entries", self.plan.as_ref().err()),
            ("dead letters", self.dead.as_ref().err()),
            ("the proof", self.proof.as_ref().err()),
        ];
        parts.into_iter().filter_map(|(part, why)| Some(format!("{part}: {}", why?))).collect()
    }
}

/// Reads all parts. Fails only if neither server can be opened, or the command is invalid.
pub(super) async fn collect(
    config: &Config,
    since: Millis,
    until: Millis,
) -> Result<Bundle, Fault> {
    let fault = match Context::open(config).await {
        Ok(mut context) => {
            let bundle = all(&mut context, since, until).await;
            context.close().await;
            return bundle;
        }
        Err(fault) if fault.code == fault::UNREACHABLE => fault,
        Err(fault) => return Err(fault),
    };
    Box::pin(one_alone(config, since, until, fault)).await
}

async fn all(context: &mut Context, since: Millis, until: Millis) -> Result<Bundle, Fault> {
    let sources = Sources {
        store: Ok(Arc::clone(&context.store)),
        redis: Ok(context.redis.clone()),
        keys: context.keys.clone(),
        settings: context.config.engine.clone(),
    };
    let snapshot = status::look(context).await.snapshot;
    Ok(read(&sources, snapshot, since, until).await)
}

/// One server cannot be opened: reads what the other one has.
async fn one_alone(
    config: &Config,
    since: Millis,
    until: Millis,
    fault: Fault,
) -> Result<Bundle, Fault> {
    let alone = Alone::open(config, fault).await?;
    let snapshot = alone.look().await;
    let bundle = read(&alone.sources, snapshot, since, until).await;
    alone.close().await;
    Ok(bundle)
}

async fn read(sources: &Sources, snapshot: Snapshot, since: Millis, until: Millis) -> Bundle {
    // A server that just timed out is not waited for again in each part.
    let up = |health: &Health| match &health.error {
        Some(why) if !health.up => Err(why.to_string()),
        _ => Ok(()),
    };
    let store = up(&snapshot.sql).and_then(|()| sources.store.clone());
    let redis = up(&snapshot.redis).and_then(|()| sources.redis.clone());
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
    let (plan, dead) = match &redis {
        Ok(redis) => (
            plan(sources, redis, store.as_ref().ok(), snapshot.taken).await,
            dead(redis, &sources.keys).await,
        ),
        Err(why) => (Err(why.clone()), Err(why.clone())),
    };
    let proof = match (&store, &redis) {
        (Ok(store), Ok(redis)) => proof(store, redis, &sources.keys).await,
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    Bundle {
        made: Millis::now(),
        since,
        until,
        redis: sources.redis.as_ref().map(|redis| redis.place().to_owned()).map_err(Clone::clone),
        database: sources.store.as_ref().map(|store| store.describe()).map_err(Clone::clone),
        partitions: sources.keys.count(),
        snapshot,
        timeline,
        runs,
        flow,
        plan,
        dead,
        proof,
    }
}

async fn timeline(store: &SharedStore, since: Millis, until: Millis) -> Told<Timeline> {
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
async fn plan(
    sources: &Sources,
    redis: &Redis,
    store: Option<&SharedStore>,
    now: Millis,
) -> Told<Plan> {
    let (keys, settings) = (sources.keys.clone(), sources.settings.clone());
    let mut conn = redis.connection();
    let at_work = within(operator_lock::is_taken(&mut conn, &keys)).await?;
    let mut judge =
        store.map(|store| Judge::new(redis, Arc::clone(store), keys.clone(), settings, at_work));
    let mut plan = Plan { verdicts: judge.is_some().then(BTreeMap::new), ..Plan::default() };
    let mut next = Some(EntryId::MIN);
    while let Some(from) = next {
        let page: Vec<(Pending, Option<Verdict>)> = match &mut judge {
            Some(judge) => within(judge.page(from, EntryId::MAX))
                .await?
                .into_iter()
                .map(|Judged { row, verdict, .. }| (row, Some(verdict)))
                .collect(),
            None => within(stream::pending_of_all(&mut conn, &keys, from, EntryId::MAX, PAGE))
                .await?
                .into_iter()
                .map(|row| (row, None))
                .collect(),
        };
        let Some((last, _)) = page.last() else { break };
        if plan.ages_ms.len() >= ENTRIES {
            plan.cut = true;
            return Ok(plan);
        }
        next = last.delivered.entry.next_of_all();
        for (row, verdict) in page {
            plan.ages_ms.push(now.since(row.delivered.entry.added()));
            plan.looked_at += 1;
            if let (Some(verdicts), Some(verdict)) = (&mut plan.verdicts, verdict) {
                verdicts.entry(name_of(verdict)).or_insert((verdict, 0)).1 += 1;
            }
            if plan.first.len() < SHOWN {
                plan.first.push(row);
            }
        }
    }
    Ok(plan)
}

/// A verdict as text.
pub(super) fn name_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Written => "written",
        Verdict::Stuck => "stuck",
        Verdict::InHand => "in hand",
        Verdict::BodyGone => "body gone",
        Verdict::Malformed => "malformed",
        Verdict::TooOften => "too often",
        Verdict::Refused => "refused",
        Verdict::NotPromised => "not promised",
    }
}

async fn dead(redis: &Redis, keys: &Layout) -> Told<Dead> {
    let (mut conn, mut dead) = (redis.connection(), Dead::default());
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
                dead.reasons.push(letter.reason.to_string());
                if dead.first.len() < SHOWN {
                    dead.first.push(letter);
                }
            }
        }
    }
    Ok(dead)
}

async fn proof(store: &SharedStore, redis: &Redis, keys: &Layout) -> Told<(Audit, Millis)> {
    let mut conn = redis.connection();
    let audit = ledger::audit(store, &mut conn, keys, None);
    match tokio::time::timeout(PATIENCE_OF_LEDGER, audit).await {
        Ok(Ok(audit)) => Ok((audit, Millis::now())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            Err("the audit did not finish within five minutes; run 'seckill audit'".to_owned())
        }
    }
}
