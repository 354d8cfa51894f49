//! Formats an incident report as Markdown.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use seckill_engine::{
    audit_figures,
    telemetry::{
        Snapshot,
        snapshot::{Holder, StreamLine},
    },
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
        table::Table,
    },
    chart,
    collect::{Bundle, DeadSummary, Part, PendingSummary, SHOWN, Timeline},
    redact::{cell, digits, masked, numberless},
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
        ("Timeline", part(&bundle.timeline, |timeline| self::timeline(timeline, &zone))),
        ("Figures", figures(bundle, &zone, unmask)),
        ("Orders over time", orders(bundle, &zone)),
        (
            "Pending entries and their plan",
            part(&bundle.pending, |pending| self::pending(pending, bundle, unmask)),
        ),
        ("Dead letters", part(&bundle.dead, |dead| self::dead(dead, unmask))),
        ("Proof", proof(bundle, &zone)),
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
        Ok(place) => cell(place),
        Err(why) => text!("cli-incident-not-opened", why = cell(why)),
    };
    let audit = match &bundle.proof {
        Ok((audit, _)) if audit.balanced => Label("cli-incident-audit-passed"),
        Ok(_) => Label("cli-incident-audit-failed"),
        Err(_) => Label("common-unknown"),
    };
    let fields = [
        ("made", at(bundle.made)),
        ("from", at(bundle.since)),
        ("to", at(bundle.until)),
        ("seckill", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis", cell(&bundle.redis)),
        ("database", database),
        ("partitions", bundle.partitions.to_string()),
        ("audit", audit.to_owned()),
    ];
    Table::new(&fields).left("", |field| field.0).left("", |field| field.1.clone()).markdown_or("")
}

fn timeline(Timeline { lines, cut }: &Timeline, zone: &TimeZone) -> String {
    let changed = |line: &Recorded| {
        audit_figures::changes(line.act.before.as_deref(), line.act.after.as_deref())
    };
    let mut text = Table::new(lines)
        .left("at", |line| line.act.at.date_time(zone))
        .left("who", |line| cell(&line.act.operator))
        .left("node", |line| cell(&line.act.node))
        .left("what", |line| cell(&line.act.act))
        .left("on", |line| cell(&line.act.subject))
        .left("why", |line| cell(line.act.reason.as_deref().unwrap_or_default()))
        .left("result", |line| cell(&line.act.result))
        .left("changed", |line| cell(&changed(line)))
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
    text.push_str(&format!("- audit: {}\n", cell(&balance(&snapshot.audit))));
    for alarm in &snapshot.alarms {
        text.push_str(&format!("- alarm: {}\n", cell(&alarm_text(&alarm.kind))));
    }
    let sales = sale::table(&snapshot.sales, |title| cell(title));
    let nodes = Table::new(&snapshot.nodes)
        .left("node", |node| cell(&node.name))
        .left("", |node| life(node.alive))
        .left("last heartbeat", |node| node.seen.date_time(zone));
    let stream = match &snapshot.stream {
        Some(line) => stream(line),
        None => format!("{}\n", Label("cli-incident-stream-unknown")),
    };
    let runs = part(&bundle.runs, |runs| {
        jobs::table(runs, cell).markdown_or(Label("cli-incident-no-runs"))
    });
    for (title, section) in [
        ("Sales", sales.markdown_or(Label("cli-incident-no-sales"))),
        ("Stream and group", stream),
        ("Nodes", nodes.markdown_or(Label("cli-incident-no-nodes"))),
        ("Locks", locks(snapshot, unmask)),
        ("Runs of jobs, newest first", runs),
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
        .left("consumer", |it| cell(&it.name))
        .left("", |it| life(it.alive))
        .left("pending", |it| number(it.pending))
        .left("idle", |it| span(it.idle_ms))
        .markdown_or(Label("cli-incident-no-consumers"));
    format!("{text}\n\n{consumers}")
}

fn locks(snapshot: &Snapshot, unmask: bool) -> String {
    let holder = |it: &Holder| {
        if it.orphan || it.known { life(!it.orphan) } else { Label("common-unknown") }
    };
    Table::new(&snapshot.locks.locks)
        .left("lock", |it| cell(&digits(&it.name, unmask)))
        .left("node", |it| cell(&it.node))
        .left("task", |it| cell(&digits(&it.task, unmask)))
        .left("left", |it| it.left_ms.map_or("no end".to_owned(), span))
        .left("waiting", |it| number(it.waiting))
        .left("holder", holder)
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
        .left("verdict", |(verdict, _)| spaced(verdict.as_str()))
        .left("act", |(verdict, _)| spaced(verdict.act().as_str()))
        .left("entries", |(_, count)| number(**count))
        .markdown_or(Label("cli-incident-no-verdicts"));
    let ages = chart::ages(&pending.ages_ms);
    let fault = |row: &Pending| match &row.delivered.body {
        Body::Good(_) => String::new(),
        Body::Malformed(fault) => digits(&fault.to_string(), unmask),
        Body::Gone => Label("cli-incident-body-gone").to_owned(),
    };
    let first = Table::new(&pending.first)
        .left("entry", |row| row.delivered.entry)
        .left("holder", |row| cell(&row.consumer))
        .left("idle", |row| span(row.idle_ms))
        .left("deliveries", |row| number(row.deliveries));
    let first = order_columns(first, |row| row.delivered.order(), unmask)
        .left("fault", |row| cell(&fault(row)))
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
        .left("order", |row| or_dash(order(row).map(|it| it.order)))
        .left("user", |row| or_dash(order(row).map(user)))
        .left("sale", |row| or_dash(order(row).map(|it| format!("#{}", it.voucher))))
}

fn dead(dead: &DeadSummary, unmask: bool) -> String {
    if dead.reasons.is_empty() {
        return format!("{}\n", Label("cli-dead-none"));
    }
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for reason in &dead.reasons {
        // Numbers distinguish letters with the same reason, and may name users.
        *reasons.entry(cell(&numberless(reason))).or_default() += 1;
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
        .left("reason", |(reason, _)| reason.clone())
        .left("letters", |(_, count)| number(*count))
        .markdown_or("");
    if !rest.is_empty() {
        reasons.push_str(&format!("\n{}\n", text!("cli-incident-reasons", more = rest.len())));
    }
    let first = Table::new(&dead.first).left("letter", |letter| letter.letter);
    let first = order_columns(first, |letter| letter.order, unmask)
        .left("reason", |letter| cell(&digits(&letter.reason, unmask)))
        .markdown_or("");
    let title = text!("cli-incident-first", entries = dead.first.len());
    format!("{count}\n\n{reasons}\n{title}\n\n{first}")
}

fn proof(bundle: &Bundle, zone: &TimeZone) -> String {
    part(&bundle.proof, |(audit, at)| {
        let at = at.date_time(zone);
        let mut text = if audit.balanced {
            text!("cli-incident-proof-passed", at)
        } else {
            text!("cli-incident-proof-failed", at)
        };
        text.push_str("\n\n");
        let sales = audit::sales_table(&audit.sales, |title| cell(title));
        text.push_str(&sales.markdown_or(Label("cli-audit-nothing")));
        for sale in &audit.sales {
            for finding in &sale.findings {
                text.push_str(&format!("\n- #{}: {}", sale.voucher_id, cell(&finding.to_string())));
            }
        }
        text + "\n"
    })
}
