//! `seckill status`: one Snapshot.

use seckill_engine::{
    AlarmKind, Health, ReadError, Snapshot, StreamLine,
    jobs::{board, builtin},
    ledger,
    snapshot_task::AUDIT_UP_TO,
    telemetry::{
        alarms::alarms,
        data_loss::{self, RecentLosses, Reconciled, add_published},
        snapshot::Alarm,
    },
};
use seckill_model::{Balance, EntryId, Label, Phase, text};
use seckill_store::{ActivityFilter, StoreError};
use serde::Serialize;

use crate::{
    CliError, Config, Context, Needs, Output, Result,
    audit::{NOT_AUDITED, PartitionFindings, partitions, prevents_audit},
    error, fields, number, sale, sentences,
    snapshot::{TIMEOUT, damaged, settled, within},
    span,
};

/// Sales that are shown besides those that run; `--json` has all of them.
const LISTED: usize = 50;

/// Runs of each job that are searched for the last that ended.
const JOB_RUNS: u32 = 20;
/// Lines of the activity log that are searched for data loss.
const EVENTS: u32 = 50;

pub(super) async fn run(config: &Config, out: Output) -> Result<u8> {
    let report = Context::with(config, out, Needs::Nothing, async |context| {
        let status = status(context).await;
        // Printed before closing, which waits for a database that another program keeps locked.
        context.out.answer(&status, || render(&status))?;
        Ok(status)
    });
    let Status { snapshot, partitions, audit_error } = Box::pin(report).await?;
    let wrong = matches!(snapshot.audit, Balance::Off { .. })
        || !snapshot.undelivered.is_empty()
        || !partitions.is_empty()
        || audit_error.is_some();
    Ok(match snapshot.redis.takes_writes() && snapshot.sql.takes_writes() {
        false => error::UNREACHABLE,
        true if wrong => error::FAILED,
        true => 0,
    })
}

/// A snapshot, and what only an audit finds.
#[derive(Serialize)]
pub(super) struct Status {
    #[serde(flatten)]
    pub(super) snapshot: Snapshot,
    /// Partitions with findings.
    partitions: Vec<PartitionFindings>,
    /// Why the result of the audit is unknown although both servers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_error: Option<String>,
}

/// A complete snapshot with an audit by order ID, and whether the database accepts writes.
pub(super) async fn status(context: &mut Context) -> Status {
    let (mut broken, mut audit_error, mut recent) = (Vec::new(), None, Vec::new());
    let (mut collector, mut snapshot) = settled(context).await;
    collector.add_write_probe(&mut snapshot).await;
    let mut losses = Vec::new();
    if snapshot.redis.up {
        if let Ok(rows) = collector.pending(EntryId::MIN).await {
            snapshot.pending = collector.pending_page(EntryId::MIN, &rows, snapshot.taken);
        }
        // Before the events: what is written meanwhile is in both.
        losses = collector.losses().await.unwrap_or_default();
        match partitions(context).await {
            Ok(lines) => broken = lines,
            Err(error) => audit_error = Some(error.message()),
        }
        if !snapshot.sql.up {
            snapshot.damaged = within(TIMEOUT, damaged(context)).await.unwrap_or_default();
        }
    }
    if snapshot.sql.up {
        let jobs = builtin::jobs(&context.config.engine);
        match board(&context.store, &jobs, snapshot.taken, JOB_RUNS).await {
            Ok(lines) => snapshot.jobs = lines,
            Err(error) => tracing::warn!(%error, "the history of jobs was not read"),
        }
        match context.store.activity(&ActivityFilter::default(), None, EVENTS).await {
            Ok(events) => recent = events,
            Err(error) => tracing::warn!(%error, "the activity log was not read"),
        }
        // By order ID, as the audit does: totals alone miss a sale that SQL does not know.
        if snapshot.redis.up && snapshot.funnel.admitted.total <= AUDIT_UP_TO {
            match ledger::audit(&mut context.servers(), None).await {
                Ok(audit) if audit.balanced => {}
                Ok(audit) => snapshot.audit = Balance::Off { findings: audit.findings().collect() },
                Err(error) if prevents_audit(&error, &broken) => {
                    audit_error = Some(NOT_AUDITED.to_owned());
                }
                Err(error) => audit_error = Some(CliError::from(error).message()),
            }
        }
        // The audit itself fails where a partition has findings.
        let passed = matches!(snapshot.audit, Balance::Balanced { .. });
        if audit_error.is_some() || (passed && !broken.is_empty()) {
            snapshot.audit = Balance::Unknown;
        }
    }
    add_published(&mut recent, losses);
    let losses = RecentLosses::of(&recent, snapshot.taken);
    snapshot.alarms = alarms(&snapshot, losses);
    Status { snapshot, partitions: broken, audit_error }
}

fn render(status: &Status) -> String {
    let Status { snapshot, partitions, audit_error } = status;
    let audit = match (&snapshot.audit, audit_error) {
        (Balance::Unknown, Some(error)) => text!("cli-status-audit-unknown", error),
        (audit, _) => balance(audit),
    };
    let servers = [&snapshot.redis, &snapshot.sql];
    let mut lines = servers.map(|it| (it.name.clone(), server_state(it))).to_vec();
    lines.push((Label("common-audit").to_owned(), audit));
    let stream_line = snapshot.stream.as_ref().map(stream);
    lines.extend(stream_line.map(|it| (Label("cli-status-stream-name").to_owned(), it)));
    let mut text = fields(&lines).to_string();
    text.extend(snapshot.stream.as_ref().map(consumers));
    let sales = snapshot.sales.as_slice();
    if !snapshot.sql.up && sales.is_empty() {
        text.push_str(&format!("{}\n", Label("cli-status-no-database")));
    } else if sales.is_empty() {
        text.push_str(&format!("{}\n", Label("cli-status-no-sales")));
    } else {
        let running = sales.iter().filter(|sale| sale.phase == Phase::Running).count();
        let (shown, rest) = sales.split_at(sales.len().min(running.max(LISTED)));
        text.push_str(&format!("\n{}", sale::table(shown)));
        if !rest.is_empty() {
            text.push_str(&format!("{}\n", text!("cli-status-more-sales", more = rest.len())));
        }
    }
    // The finding of a partition states the remedy as well.
    let is_finding = |alarm: &&Alarm| match &alarm.kind {
        AlarmKind::ForeignKey(found) => partitions.iter().any(|it| it.names(&found.key)),
        _ => false,
    };
    let alarms = snapshot.alarms.iter().filter(|alarm| !is_finding(alarm));
    text.extend(alarms.map(|alarm| format!("! {}\n", alarm_text(&alarm.kind))));
    text.extend(partitions.iter().map(PartitionFindings::render));
    if !partitions.is_empty() {
        text.push_str(&format!("  {}\n", Label("cli-audit-repair")));
    }
    text
}

/// The state of the audit.
pub(super) fn balance(balance: &Balance) -> String {
    match balance {
        Balance::Unknown => Label("common-unknown").to_owned(),
        Balance::Balanced { .. } => Label("cli-status-audit-passed").to_owned(),
        Balance::InFlight { orders } => text!("cli-status-in-flight", orders),
        Balance::Off { findings } => {
            text!("cli-status-audit-failed", findings = sentences(findings))
        }
    }
}

fn stream(stream: &StreamLine) -> String {
    let lag = stream.lag.map_or_else(|| Label("common-unknown").to_owned(), number);
    let StreamLine { pending, dead, .. } = stream;
    match stream.oldest_pending_ms.map(span) {
        Some(oldest) => text!("cli-status-stream-pending", lag, pending, oldest, dead),
        None => text!("cli-status-stream", lag, pending, dead),
    }
}

/// The entries that the stream keeps, and its consumers.
fn consumers(stream: &StreamLine) -> String {
    let mut text = String::new();
    if let Some(oldest) = stream.oldest_ms.map(span) {
        let kept = text!("cli-status-stream-kept", length = stream.length, oldest);
        text.push_str(&format!("  {kept}\n"));
    }
    for consumer in stream.consumers.iter().filter(|c| c.pending > 0 || c.alive) {
        let (life, pending) = (life(consumer.alive), consumer.pending);
        let line = text!("cli-status-consumer", name = consumer.name, life, pending);
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// Whether a node sends heartbeats.
pub(super) fn life(alive: bool) -> Label {
    if alive { Label("cli-alive") } else { Label("cli-dead") }
}

/// Whether a server replies and accepts writes.
pub(super) fn server_state(health: &Health) -> String {
    match (&health.error, &health.unwritable) {
        (Some(error), _) => text!("cli-status-away", error = error.localized::<ReadError>()),
        (None, Some(why)) => text!("cli-status-no-writes", why = why.localized::<ReadError>()),
        (None, None) => {
            text!("cli-status-answers", ms = format!("{:.1}", health.latency_us as f64 / 1_000.0))
        }
    }
}

pub(super) fn alarm_text(kind: &AlarmKind) -> String {
    match kind {
        AlarmKind::RedisAway { error }
        | AlarmKind::RedisReadOnly { error }
        | AlarmKind::SqlAway { error }
        | AlarmKind::SqlReadOnly { error } => error.localized::<ReadError>(),
        AlarmKind::ForeignKey(found) => found.to_string(),
        AlarmKind::SqlLocked { waiting: Some(waiting @ 1..) } => {
            text!("status-sql-locked", error = StoreError::Locked, waiting)
        }
        AlarmKind::SqlLocked { .. } => StoreError::Locked.to_string(),
        AlarmKind::AuditFailed { finding, .. } => text!("status-audit-failed", finding),
        AlarmKind::DeadConsumer { consumer, known: true, pending, .. } => {
            text!("status-consumer-dead", consumer, pending)
        }
        AlarmKind::DeadConsumer { consumer, pending, .. } => {
            text!("status-consumer-unknown", consumer, pending)
        }
        AlarmKind::SilentConsumer { consumer, pending, idle_ms } => {
            text!("status-consumer-silent", consumer, pending, idle = span(*idle_ms))
        }
        AlarmKind::LagHigh { lag, drains_ms: Some(wait) } => {
            text!("status-lag", lag, wait = span(*wait))
        }
        AlarmKind::LagHigh { lag, drains_ms: None } => text!("status-lag-grows", lag),
        AlarmKind::JobFailed { job, ago_ms } => {
            text!("status-job-failed", job, ago = span(*ago_ms))
        }
        AlarmKind::Undelivered { sales } => {
            let named: Vec<String> = sales.iter().map(|sale| format!("#{sale}")).collect();
            text!("status-undelivered", count = sales.len(), sales = named.join(" "))
        }
        AlarmKind::DeadLetters { count } => text!("status-dead-letters", count),
        AlarmKind::Damaged { keys } => {
            text!("status-damaged", keys = data_loss::list_keys(keys))
        }
        AlarmKind::DataLoss { losses, pending } => lost(losses, *pending),
        AlarmKind::ServerBack { server, away_ms } => {
            text!("status-server-back", server, away = span(*away_ms))
        }
        AlarmKind::NoGroup => text!("status-no-group"),
    }
}

/// What Redis lost, what was restored, and how to settle the rest; dead consumers hold `pending` entries.
fn lost(losses: &RecentLosses, pending: u64) -> String {
    let loss = Reconciled { removed: 0, closed: None, ..losses.total.clone() };
    let (refused, unknown) = (loss.refused, loss.unknown);
    let letters_lost = data_loss::loses_letters(&loss.keys);
    let mut text = text!("status-lost", loss);
    text.extend((refused > 0).then(|| text!("status-lost-refused")));
    text.extend((unknown > 0).then(|| text!("status-lost-unknown")));
    text.extend((pending > 0).then(|| text!("status-lost-pending", entries = pending)));
    let is_done = refused + unknown + pending == 0 && !letters_lost;
    text.extend(is_done.then(|| text!("status-lost-nothing-left")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let held = |pending| AlarmKind::DeadConsumer {
            consumer: "node-b".to_owned(),
            known: true,
            pending,
            idle_ms: 9,
        };
        for (kind, part) in [
            (held(1), "holds 1 entry;"),
            (held(1_200), "holds 1,200 entries;"),
            (AlarmKind::DeadLetters { count: 1 }, "1 dead letter to review"),
            (AlarmKind::LagHigh { lag: 1, drains_ms: None }, "1 entry waits for"),
            (AlarmKind::SqlLocked { waiting: Some(1) }, "; 1 entry waits for it"),
        ] {
            let text = alarm_text(&kind);
            assert!(text.contains(part), "{text}");
        }
    }
}
