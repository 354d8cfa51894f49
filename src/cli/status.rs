//! `seckill status`: one Snapshot.

use std::sync::Arc;

use seckill_engine::{
    command_handler::lock_names,
    jobs::{board, builtin},
    ledger,
    snapshot_task::AUDIT_UP_TO,
    telemetry::{
        Meters, Snapshot,
        alarms::alarms,
        collector::Collector,
        data_loss::{self, RecentLosses, add_published},
        snapshot::{Alarm, AlarmKind, Health, SaleLine},
    },
};
use seckill_model::{EntryId, Phase, ledger::Balance, message::text};
use seckill_store::{ActivityFilter, StoreError};
use serde::Serialize;

use super::{
    Fault,
    alone::Alone,
    audit::{IN_THE_WAY, PartitionLine, REPAIR, is_in_the_way, partitions},
    context::Context,
    fault,
    output::{Output, counted, number, sentences, signed, span, table},
    sale::phase,
};
use crate::config::Config;

/// Sales in the words of a status, and all that run; `--json` has all of them.
const LISTED: usize = 50;

/// Runs of each job that are looked through for the last that ended.
const JOB_RUNS: u32 = 20;
/// Lines of the activity log that are searched for what Redis had lost.
const EVENTS: u32 = 50;

pub(super) async fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    let answer = |status: &Status| out.answer(status, || words(status));
    let status = match Context::open(config).await {
        Ok(mut context) => {
            let status = look(&mut context).await;
            // Before closing, which waits for a database that another program keeps locked.
            let answered = answer(&status);
            context.close().await;
            answered?;
            status
        }
        Err(fault) if fault.code == fault::UNREACHABLE => {
            let alone = Alone::open(config, fault).await?;
            let snapshot = alone.look().await;
            let status = Status { snapshot, partitions: Vec::new(), audit_error: None };
            let answered = answer(&status);
            alone.close().await;
            answered?;
            status
        }
        Err(fault) => return Err(fault),
    };
    let Status { snapshot, partitions, audit_error } = &status;
    let wrong = matches!(snapshot.audit, Balance::Off { .. })
        || !snapshot.undelivered.is_empty()
        || !partitions.is_empty()
        || audit_error.is_some();
    Ok(match snapshot.redis.takes_writes() && snapshot.sql.takes_writes() {
        false => fault::UNREACHABLE,
        true if wrong => fault::NO,
        true => 0,
    })
}

/// One picture, and what only an audit finds.
#[derive(Serialize)]
pub(super) struct Status {
    #[serde(flatten)]
    pub(super) snapshot: Snapshot,
    /// Partitions with findings.
    partitions: Vec<PartitionLine>,
    /// Why the books are unknown although both servers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_error: Option<String>,
}

/// All that a picture holds, and whether the database takes writes.
pub(super) async fn look(context: &mut Context) -> Status {
    let (mut broken, mut audit_error, mut recent) = (Vec::new(), None, Vec::new());
    let (mut collector, mut snapshot) = still(context).await;
    collector.add_write_probe(&mut snapshot).await;
    if let Some(rows) = collector.pending(EntryId::MIN).await {
        snapshot.pending = collector.pending_page(EntryId::MIN, &rows, &snapshot);
    }
    if snapshot.redis.up {
        match partitions(context).await {
            Ok(lines) => broken = lines,
            Err(fault) => audit_error = Some(fault.told()),
        }
    }
    // Before the events: what is written meanwhile is in both.
    let losses = collector.losses().await;
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
            let mut conn = context.redis.connection();
            match ledger::audit(&context.store, &mut conn, &context.keys, None).await {
                Ok(audit) if audit.balanced => {}
                Ok(audit) => snapshot.audit = Balance::Off { findings: audit.findings().collect() },
                Err(error) if is_in_the_way(&error, &broken) => {
                    audit_error = Some(IN_THE_WAY.to_owned());
                }
                Err(error) => audit_error = Some(Fault::from(error).told()),
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

/// Takes pictures until one shows books that stand still, at most three: a difference counts only
/// when two pictures in a row show it.
pub(super) async fn still(context: &mut Context) -> (Collector, Snapshot) {
    let mut collector = Collector::new(
        context.redis.connection(),
        Arc::clone(&context.store),
        context.keys.clone(),
        Arc::new(Meters::default()),
        String::new(),
        context.config.read_only,
        context.config.engine.node_dead_ms,
    )
    .with_locks(lock_names(&context.config.engine));
    let mut snapshot = collector.collect().await;
    for _ in 0..2 {
        if !matches!(snapshot.audit, Balance::InFlight { .. }) {
            break;
        }
        snapshot = collector.collect().await;
    }
    (collector, snapshot)
}

fn words(status: &Status) -> String {
    let Status { snapshot, partitions, audit_error } = status;
    let mut text = String::new();
    for health in [&snapshot.redis, &snapshot.sql] {
        text.push_str(&server(health));
    }
    let books = match &snapshot.audit {
        Balance::Unknown => match audit_error {
            Some(error) => format!("unknown: {error}"),
            None => "unknown".to_owned(),
        },
        Balance::Balanced { .. } => "passed".to_owned(),
        Balance::InFlight { orders } => {
            format!("{} in flight", counted(*orders, "order", "orders"))
        }
        Balance::Off { findings } => format!("FAILED: {}", sentences(findings)),
    };
    text.push_str(&format!("audit      {books}\n"));
    if let Some(stream) = &snapshot.stream {
        let lag = stream.lag.map_or("unknown".to_owned(), number);
        let oldest =
            stream.oldest_pending_ms.map_or(String::new(), |ms| format!(", oldest {}", span(ms)));
        text.push_str(&format!(
            "stream     lag {lag}, pending {}{oldest}, dead letters {}\n",
            number(stream.pending),
            number(stream.dead)
        ));
        if let Some(oldest) = stream.oldest_ms {
            let kept = counted(stream.length, "entry", "entries");
            let oldest = span(oldest);
            text.push_str(&format!("  keeps {kept} to replay, the oldest {oldest} old\n"));
        }
        for consumer in stream.consumers.iter().filter(|c| c.pending > 0 || c.alive) {
            let life = if consumer.alive { "alive" } else { "dead" };
            text.push_str(&format!(
                "  {} {life}, {} pending\n",
                consumer.name,
                number(consumer.pending)
            ));
        }
    }
    if !snapshot.sql.up && snapshot.sales.is_empty() {
        text.push_str("the database is unreachable: sales, orders, jobs and the log are unknown\n");
    } else if snapshot.sales.is_empty() {
        text.push_str("no sale yet\n");
    } else {
        let running = snapshot.sales.iter().filter(|sale| sale.phase == Phase::Running).count();
        let rows: Vec<Vec<String>> = snapshot
            .sales
            .iter()
            .take(running.max(LISTED))
            .map(|sale| {
                vec![
                    format!("#{}", sale.voucher_id),
                    sale.title.clone(),
                    phase(sale.phase).to_owned(),
                    stock(sale),
                    number(sale.initial),
                    sale.admitted.map_or("unknown".to_owned(), number),
                    number(sale.persisted),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(
            &["sale", "title", "phase", "stock", "initial", "admitted", "persisted"],
            &[3, 4, 5, 6],
            &rows,
        ));
        let more = snapshot.sales.len() - rows.len();
        if more > 0 {
            text.push_str(&format!("{more} more: 'seckill sale list' shows all\n"));
        }
    }
    // With the finding of its partition stands what repairs it.
    let told = |alarm: &&Alarm| match &alarm.kind {
        AlarmKind::ForeignKey(found) => partitions.iter().any(|it| it.names(&found.key)),
        _ => false,
    };
    for alarm in snapshot.alarms.iter().filter(|alarm| !told(alarm)) {
        text.push_str(&format!("! {}\n", alarm_words(&alarm.kind)));
    }
    text.extend(partitions.iter().map(PartitionLine::words));
    if !partitions.is_empty() {
        text.push_str(REPAIR);
    }
    text
}

fn stock(sale: &SaleLine) -> String {
    match (sale.stock, sale.admitted) {
        (Some(stock), _) => signed(stock),
        (None, Some(_)) => "not loaded".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

fn server(health: &Health) -> String {
    let state = match (&health.error, &health.unwritable) {
        (Some(error), _) => format!("AWAY: {error}"),
        (None, Some(why)) => format!("TAKES NO WRITES: {why}"),
        (None, None) => format!("answers in {:.1} ms", health.latency_us as f64 / 1_000.0),
    };
    format!("{:<10} {state}\n", health.name)
}

pub(super) fn alarm_words(kind: &AlarmKind) -> String {
    match kind {
        AlarmKind::RedisAway { error }
        | AlarmKind::RedisReadOnly { error }
        | AlarmKind::SqlAway { error }
        | AlarmKind::SqlReadOnly { error } => error.to_string(),
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

/// What Redis lost, what was restored, and what is left to do; dead consumers hold `pending` entries.
fn lost(losses: &RecentLosses, pending: u64) -> String {
    let RecentLosses { keys, buyers, promised, refused, unknown, archived, .. } = losses;
    let mut text = if keys.is_empty() {
        text!("status-lost")
    } else {
        text!("status-lost-keys", keys = data_loss::list_keys(keys))
    };
    let letters_lost = data_loss::loses_letters(keys);
    let counted = |count: &u64, text: fn(u64) -> String| (*count > 0).then(|| text(*count));
    let parts = [
        counted(promised, |count| text!("status-lost-enqueued", count)),
        counted(buyers, |count| text!("status-lost-restored", count)),
        counted(archived, |count| text!("status-lost-archived", count)),
        counted(refused, |count| text!("status-lost-refused", count)),
        letters_lost.then(|| text!("status-lost-letters")),
        counted(unknown, |count| text!("status-lost-unknown", count)),
        counted(&pending, |count| text!("status-lost-pending", count)),
    ];
    text.extend(parts.into_iter().flatten());
    let is_done = *refused + *unknown + pending == 0 && !letters_lost;
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
        for (kind, told) in [
            (held(1), "holds 1 entry;"),
            (held(1_200), "holds 1,200 entries;"),
            (AlarmKind::DeadLetters { count: 1 }, "1 dead letter to review"),
            (AlarmKind::LagHigh { lag: 1, drains_ms: None }, "1 entry waits for"),
            (AlarmKind::SqlLocked { waiting: Some(1) }, "; 1 entry waits for it"),
        ] {
            let words = alarm_words(&kind);
            assert!(words.contains(told), "{words}");
        }
    }
}
