//! Formats an incident report as Markdown.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use seckill_console::{
    changed_figures, event_name, localized_result, localized_subject, order_error,
};
use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{Holder, StreamLine},
};
use seckill_model::{
    Millis, OrderEntry,
    message::{Label, text},
};
use seckill_redis::stream::{Body, Pending};
use seckill_store::Recorded;

use super::{
    super::{
        audit, jobs,
        output::{number, or_dash, span},
        pending::spaced,
        sale,
        status::{alarm_text, balance, life, server_state},
        table::{self, Table, escape_markdown as cell},
    },
    chart,
    collect::{Bundle, DeadSummary, Part, PendingSummary, SHOWN, Timeline},
    redact::{digits, masked, numberless},
};

/// The whole document.
pub(super) fn render(bundle: &Bundle, unmask: bool) -> String {
    let zone = TimeZone::system();
    let (since, until) = (bundle.since.date_time(&zone), bundle.until.date_time(&zone));
    let mut text = format!("# {}\n\n{}", text!("cli-incident", since, until), head(bundle, &zone));
    let missing = bundle.unknown();
    if !missing.is_empty() {
        text.push_str(&format!("\n{}\n\n", Label("cli-incident-missing")));
        text.extend(missing.iter().map(|part| format!("- {}\n", cell(part))));
    }
    for (title, section) in [
        (
            Label("cli-incident-timeline-title"),
            part(&bundle.timeline, |timeline| self::timeline(timeline, &zone)),
        ),
        (Label("cli-incident-figures-title"), figures(bundle, &zone, unmask)),
        (Label("cli-incident-orders-title"), orders(bundle, &zone)),
        (
            Label("cli-incident-pending-title"),
            part(&bundle.pending, |pending| self::pending(pending, bundle, unmask)),
        ),
        (Label("cli-incident-dead-title"), part(&bundle.dead, |dead| self::dead(dead, unmask))),
        (Label("cli-incident-by-id-title"), proof(bundle, &zone)),
    ] {
        text.push_str(&format!("\n## {title}\n\n{section}"));
    }
    text
}

/// The text of a part, or why it is missing.
fn part<T>(part: &Part<T>, write: impl FnOnce(&T) -> String) -> String {
    match part {
        Ok(it) => write(it),
        Err(why) => format!("{}\n", text!("cli-incident-unknown", why = cell(why))),
    }
}

fn head(bundle: &Bundle, zone: &TimeZone) -> String {
    let at = |at: Millis| format!("{} ({at})", at.date_time(zone));
    let database = match &bundle.database {
        Ok(place) => place.clone(),
        Err(why) => text!("cli-incident-not-opened", why),
    };
    let audit = match &bundle.proof {
        Ok((audit, _)) if audit.balanced => Label("cli-incident-audit-passed"),
        Ok(_) => Label("cli-incident-audit-failed"),
        Err(_) => Label("common-unknown"),
    };
    let fields = [
        (Label("cli-incident-created"), at(bundle.made)),
        (Label("cli-incident-from"), at(bundle.since)),
        (Label("cli-incident-to"), at(bundle.until)),
        (Label("cli-incident-version"), env!("CARGO_PKG_VERSION").to_owned()),
        (Label("cli-incident-redis"), bundle.redis.clone()),
        (Label("cli-incident-database"), database),
        (Label("cli-incident-partitions"), bundle.partitions.to_string()),
        (Label("cli-incident-audit"), audit.to_owned()),
    ];
    table::fields(&fields).markdown_or("")
}

fn timeline(Timeline { lines, cut }: &Timeline, zone: &TimeZone) -> String {
    let changed =
        |line: &Recorded| changed_figures(line.act.before.as_deref(), line.act.after.as_deref());
    let mut text = Table::new(lines)
        .left(&Label("column-at"), |line| line.act.at.date_time(zone))
        .left(&Label("column-who"), |line| line.act.operator.clone())
        .left(&Label("column-node"), |line| line.act.node.clone())
        .left(&Label("column-what"), |line| event_name(&line.act.act))
        .left(&Label("column-on"), |line| localized_subject(&line.act.subject))
        .left(&Label("column-why"), |line| line.act.reason.clone().unwrap_or_default())
        .left(&Label("column-result"), |line| localized_result(&line.act.result))
        .left(&Label("column-changed"), changed)
        .markdown_or(Label("cli-incident-no-log"));
    if *cut {
        text.push_str(&format!("\n{}\n", Label("cli-incident-log-cut")));
    }
    text
}

/// The snapshot.
fn figures(bundle: &Bundle, zone: &TimeZone, unmask: bool) -> String {
    let snapshot = &bundle.snapshot;
    let mut text = String::new();
    for health in [&snapshot.redis, &snapshot.sql] {
        let (name, state) = (cell(&health.name), cell(&server_state(health)));
        text.push_str(&format!("- {name}: {state}\n"));
    }
    text.push_str(&format!(
        "- {}: {}\n",
        Label("cli-incident-audit"),
        cell(&balance(&snapshot.audit))
    ));
    for alarm in &snapshot.alarms {
        text.push_str(&format!(
            "- {}: {}\n",
            Label("cli-incident-alarm"),
            cell(&alarm_text(&alarm.kind))
        ));
    }
    let sales = sale::table(&snapshot.sales);
    let nodes = Table::new(&snapshot.nodes)
        .left(&Label("column-node"), |node| node.name.clone())
        .left("", |node| life(node.alive))
        .left(&Label("column-last-heartbeat"), |node| node.seen.date_time(zone));
    let stream = match &snapshot.stream {
        Some(line) => stream(line),
        None => format!("{}\n", Label("cli-incident-stream-unknown")),
    };
    let runs =
        part(&bundle.runs, |runs| jobs::table(runs).markdown_or(Label("cli-incident-no-runs")));
    for (title, section) in [
        (Label("cli-incident-sales-title"), sales.markdown_or(Label("cli-incident-no-sales"))),
        (Label("cli-incident-stream-title"), stream),
        (Label("cli-incident-nodes-title"), nodes.markdown_or(Label("cli-incident-no-nodes"))),
        (Label("cli-incident-locks-title"), locks(snapshot, unmask)),
        (Label("cli-incident-runs-title"), runs),
    ] {
        text.push_str(&format!("\n### {title}\n\n{section}"));
    }
    text
}

fn stream(stream: &StreamLine) -> String {
    let StreamLine { length, pending, dead, .. } = stream;
    let lag = stream.lag.map_or_else(|| Label("common-unknown").to_owned(), number);
    let mut text = text!("cli-incident-stream", length, lag, pending, dead);
    if let Some(age) = stream.oldest_pending_ms.map(span) {
        text.push_str(&text!("cli-incident-oldest-pending", age));
    }
    if !stream.group {
        text.push_str(&Label("cli-incident-no-group"));
    }
    let consumers = Table::new(&stream.consumers)
        .left(&Label("column-consumer"), |it| it.name.clone())
        .left("", |it| life(it.alive))
        .left(&Label("column-pending"), |it| number(it.pending))
        .left(&Label("column-idle"), |it| span(it.idle_ms))
        .markdown_or(Label("cli-incident-no-consumers"));
    format!("{text}\n\n{consumers}")
}

fn locks(snapshot: &Snapshot, unmask: bool) -> String {
    let holder = |it: &Holder| {
        if it.orphan || it.known { life(!it.orphan) } else { Label("common-unknown") }
    };
    Table::new(&snapshot.locks.locks)
        .left(&Label("column-lock"), |it| digits(&it.name, unmask))
        .left(&Label("column-node"), |it| it.node.clone())
        .left(&Label("column-task"), |it| digits(&it.task, unmask))
        .left(&Label("column-left"), |it| {
            it.left_ms.map_or_else(|| Label("cli-locks-no-end").to_owned(), span)
        })
        .left(&Label("column-waiting"), |it| number(it.waiting))
        .left(&Label("column-holder"), holder)
        .markdown_or(Label("cli-incident-no-locks"))
}

fn orders(bundle: &Bundle, zone: &TimeZone) -> String {
    part(&bundle.flow, |flow| {
        let events = bundle.timeline.as_ref().map_or(&[][..], |it| &it.lines);
        let chart = chart::orders(flow, events, bundle.until, zone);
        format!("{}\n\n```\n{chart}```\n", text!("cli-incident-chart", seconds = flow.step_s))
    })
}

fn pending(pending: &PendingSummary, bundle: &Bundle, unmask: bool) -> String {
    let entries = pending.ages_ms.len() as u64;
    if entries == 0 {
        return format!("{}\n", Label("cli-pending-none"));
    }
    let total = bundle.snapshot.stream.as_ref().map_or(entries, |it| it.pending);
    let count = if pending.cut {
        text!("cli-incident-entries-cut", entries, total)
    } else {
        text!("cli-incident-entries", entries)
    };
    let verdicts: Vec<_> = pending.verdicts.iter().flatten().collect();
    let verdicts = Table::new(&verdicts)
        .left(&Label("column-verdict"), |(verdict, _)| spaced(verdict.as_str()))
        .left(&Label("column-act"), |(verdict, _)| spaced(verdict.action().as_str()))
        .left(&Label("column-entries"), |(_, count)| number(**count))
        .markdown_or(Label("cli-incident-no-verdicts"));
    let ages = chart::ages(&pending.ages_ms);
    let fault = |row: &Pending| match &row.delivered.body {
        Body::Good(_) => String::new(),
        Body::Malformed(fault) => digits(&fault.to_string(), unmask),
        Body::Gone => Label("cli-incident-body-gone").to_owned(),
    };
    let first = Table::new(&pending.first)
        .left(&Label("column-entry"), |row| row.delivered.entry)
        .left(&Label("column-holder"), |row| row.consumer.clone())
        .left(&Label("column-idle"), |row| span(row.idle_ms))
        .left(&Label("column-deliveries"), |row| number(row.deliveries));
    let first = order_columns(first, |row| row.delivered.order(), unmask)
        .left(&Label("column-fault"), fault)
        .markdown_or("");
    let title = text!("cli-incident-first", entries = pending.first.len());
    format!("{count}\n\n{verdicts}\n```\n{ages}```\n\n{title}\n\n{first}")
}

/// Adds order, user and sale.
fn order_columns<T>(
    table: Table<'_, T>,
    order: impl Fn(&T) -> Option<OrderEntry>,
    unmask: bool,
) -> Table<'_, T> {
    let user = |order: OrderEntry| masked(&order.user.to_string(), unmask);
    table
        .left(&Label("column-order"), |row| or_dash(order(row).map(|it| it.order)))
        .left(&Label("column-user"), |row| or_dash(order(row).map(user)))
        .left(&Label("column-sale"), |row| or_dash(order(row).map(|it| format!("#{}", it.voucher))))
}

fn dead(dead: &DeadSummary, unmask: bool) -> String {
    if dead.reasons.is_empty() {
        return format!("{}\n", Label("cli-dead-none"));
    }
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for reason in &dead.reasons {
        // Numbers distinguish letters with the same reason, and may name users.
        *reasons.entry(numberless(reason)).or_default() += 1;
    }
    let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let (shown, rest) = reasons.split_at(reasons.len().min(SHOWN));
    let letters = dead.reasons.len();
    let count = if dead.cut {
        text!("cli-incident-letters-cut", letters)
    } else {
        text!("cli-incident-letters", letters)
    };
    let mut reasons = Table::new(shown)
        .left(&Label("column-reason"), |(reason, _)| reason.clone())
        .left(&Label("column-letters"), |(_, count)| number(*count))
        .markdown_or("");
    if !rest.is_empty() {
        reasons.push_str(&format!("\n{}\n", text!("cli-incident-reasons", more = rest.len())));
    }
    let first = Table::new(&dead.first).left(&Label("column-letter"), |letter| letter.letter);
    let first = order_columns(first, |letter| letter.order, unmask)
        .left(&Label("column-reason"), |letter| digits(&order_error(&letter.reason), unmask))
        .markdown_or("");
    let title = text!("cli-incident-first", entries = dead.first.len());
    format!("{count}\n\n{reasons}\n{title}\n\n{first}")
}

fn proof(bundle: &Bundle, zone: &TimeZone) -> String {
    part(&bundle.proof, |(audit, at)| {
        let at = at.date_time(zone);
        let mut text = if audit.balanced {
            text!("cli-incident-by-id-passed", at)
        } else {
            text!("cli-incident-by-id-failed", at)
        };
        text.push_str("\n\n");
        let sales = audit::sales_table(&audit.sales);
        text.push_str(&sales.markdown_or(Label("cli-audit-nothing")));
        for sale in &audit.sales {
            for finding in &sale.findings {
                text.push_str(&format!("\n- #{}: {}", sale.voucher_id, cell(&finding.to_string())));
            }
        }
        text + "\n"
    })
}
