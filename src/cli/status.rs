//! `seckill status`: one Snapshot.

use seckill_engine::{
    AlarmKind, EngineError, Health, Snapshot, StreamLine,
    recovery::partition_repair::PartitionFindings,
    telemetry::{
        snapshot::{Alarm, SqlCopy},
        survey::{Survey, Unaudited, survey},
    },
};
use seckill_model::{Balance, Label, Phase, text};
use seckill_text::alarms::{Reader, alarm_text};
use serde::Serialize;

use crate::{
    CliError, Config, Context, Needs, Output, Result,
    audit::{NOT_AUDITED, partition_lines},
    error, fields, number, sale, span,
};

/// Sales that are shown besides those that run; `--json` has all of them.
const LISTED: usize = 50;

pub(super) async fn run(config: &Config, out: Output) -> Result<u8> {
    let report = Context::with(config, out, Needs::Nothing, async |context| {
        let status = status(context).await;
        // Printed before closing, which waits for a database that another program keeps locked.
        context.out.answer(&status, || render(&status))?;
        Ok(status)
    });
    Ok(Box::pin(report).await?.exit_code())
}

/// A snapshot, and what only an audit finds.
#[derive(Serialize)]
struct Status {
    #[serde(flatten)]
    snapshot: Snapshot,
    /// Kind and place of the database, without a password.
    database: String,
    /// Partitions with findings.
    partitions: Vec<PartitionFindings>,
    /// Why the result of the audit is unknown although both servers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_error: Option<CliError>,
}

impl Status {
    fn exit_code(&self) -> u8 {
        let Self { snapshot, partitions, audit_error, .. } = self;
        let is_wrong = matches!(snapshot.audit, Balance::Off { .. })
            || !snapshot.undelivered.is_empty()
            || snapshot.unconfirmed.is_some()
            || !snapshot.refused_sales.is_empty()
            || snapshot.sales.iter().any(|sale| sale.sql != SqlCopy::Current)
            || snapshot.alarms.iter().any(|it| matches!(it.kind, AlarmKind::JobFailed { .. }))
            || !partitions.is_empty()
            || audit_error.is_some();
        // A server may have been lost since the snapshot.
        let is_reached = snapshot.redis.takes_writes()
            && snapshot.unreachable.is_empty()
            && snapshot.sql.takes_writes()
            && !audit_error.as_ref().is_some_and(CliError::is_unreachable);
        match is_reached {
            false => error::UNREACHABLE,
            true if is_wrong => error::FAILED,
            true => 0,
        }
    }
}

async fn status(context: &Context) -> Status {
    let Survey { snapshot, partitions, unaudited } =
        Box::pin(survey(context, context.config.read_only)).await;
    let audit_error = unaudited.map(|why| match why {
        Unaudited::Partition => CliError::failed(NOT_AUDITED),
        Unaudited::Failed(error) => error.into(),
    });
    Status { snapshot, database: context.store.describe(), partitions, audit_error }
}

fn render(status: &Status) -> String {
    let Status { snapshot, database, partitions, audit_error } = status;
    let audit = match (&snapshot.audit, audit_error) {
        (Balance::Unknown, Some(error)) => {
            text!("cli-status-audit-unknown", error = error.message())
        }
        (audit, _) => balance(audit),
    };
    let redis = match snapshot.unreachable.as_slice() {
        [] => server_state(&snapshot.redis),
        _ => Label("cli-status-partly").to_owned(),
    };
    let mut lines = vec![
        (snapshot.redis.name.clone(), redis),
        (snapshot.sql.name.clone(), server_state(&snapshot.sql)),
    ];
    if snapshot.sql.up {
        lines.push((Label("cli-incident-database").to_owned(), database.clone()));
    }
    lines.push((Label("common-audit").to_owned(), audit));
    let stream_line =
        snapshot.stream.as_ref().map(stream).map(|line| match snapshot.unreachable[..] {
            [] => line,
            _ => text!("cli-status-stream-partly", line),
        });
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
        // Those that SQL has lost have an alarm.
        text.extend(sale::behind(sales).map(|line| format!("! {line}\n")));
    }
    // The finding of a partition states the remedy as well.
    let is_finding = |alarm: &&Alarm| match &alarm.kind {
        AlarmKind::ForeignKey(found) => partitions.iter().any(|it| it.names(&found.key)),
        _ => false,
    };
    let alarms = snapshot.alarms.iter().filter(|alarm| !is_finding(alarm));
    text.extend(alarms.map(|alarm| format!("! {}\n", alarm_text(&alarm.kind, Reader::Status))));
    text.extend(partitions.iter().map(partition_lines));
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
            let finding = findings.first().map(ToString::to_string).unwrap_or_default();
            let failed = text!("cli-status-audit-failed", finding);
            match findings.len() {
                0 | 1 => failed,
                all => format!("{failed}{}", text!("cli-status-audit-more", more = all - 1)),
            }
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
        (Some(error), _) => text!("cli-status-away", error = error.localized::<EngineError>()),
        (None, Some(why)) => text!("cli-status-no-writes", why = why.localized::<EngineError>()),
        (None, None) => {
            text!("cli-status-answers", ms = format!("{:.1}", health.latency_us as f64 / 1_000.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{Finding, SaleFinding, ShardId, VoucherId};

    #[test]
    fn many_findings_are_counted() {
        let finding = |sale| SaleFinding::of(ShardId::only(VoucherId(sale)), Finding::Lost(1));
        let text = balance(&Balance::Off { findings: (1..=9).map(finding).collect() });
        assert!(text.contains("#1: ") && !text.contains("#2: "), "{text}");
        assert!(text.ends_with("8 more; see 'seckill audit'"), "{text}");
    }

    #[test]
    fn a_server_lost_during_the_audit_is_no_failure() {
        let code = |audit_error| {
            let mut snapshot = Snapshot::default();
            (snapshot.redis.up, snapshot.sql.up) = (true, true);
            let database = String::new();
            Status { snapshot, database, partitions: Vec::new(), audit_error }.exit_code()
        };
        let error = || Label("common-unknown");
        assert_eq!(code(None), 0);
        assert_eq!(code(Some(CliError::failed(error()))), error::FAILED);
        assert_eq!(code(Some(CliError::unreachable(error()))), error::UNREACHABLE);
    }

    #[test]
    fn one_is_singular() {
        let held = |pending| AlarmKind::DeadConsumer {
            consumer: "node-b".to_owned(),
            known: true,
            pending,
            at_risk: Some(0),
            sale_lost: false,
            idle_ms: 9,
        };
        for (kind, part) in [
            (held(1), "holds 1 entry to acknowledge; no order is at risk;"),
            (held(1_200), "holds 1,200 entries to acknowledge; no order is at risk;"),
            (AlarmKind::DeadLetters { count: 1 }, "1 dead letter to review"),
            (AlarmKind::LagHigh { lag: 1, drains_ms: None }, "1 entry waits for"),
            (AlarmKind::SqlLocked { waiting: Some(1) }, "; 1 entry waits for it"),
        ] {
            let text = alarm_text(&kind, Reader::Status);
            assert!(text.contains(part), "{text}");
        }
    }
}
