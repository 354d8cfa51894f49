//! Formats an incident report as Markdown.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use seckill_engine::{audit_figures, telemetry::snapshot::Health};
use seckill_model::{Millis, OrderEntry, ledger::Balance};
use seckill_redis::stream::Body;

use super::{
    super::{
        output::{counted, number, sentences, span},
        sale::phase,
        status::alarm_words,
    },
    chart,
    collect::{Bundle, Dead, Plan, SHOWN, Told},
    redact::{cell, digits, masked, numberless},
};

/// The whole document.
pub(super) fn render(bundle: &Bundle, unmask: bool) -> String {
    let zone = TimeZone::system();
    let at = |at: Millis| format!("{} ({at})", at.date_time(&zone));
    let mut text = format!(
        "# Incident, {} to {}\n\n",
        bundle.since.date_time(&zone),
        bundle.until.date_time(&zone)
    );
    let server = |it: &Told<String>| match it {
        Ok(place) => cell(place),
        Err(why) => format!("could not be opened: {}", cell(why)),
    };
    let head = [
        vec!["made".to_owned(), at(bundle.made)],
        vec!["from".to_owned(), at(bundle.since)],
        vec!["to".to_owned(), at(bundle.until)],
        vec!["seckill".to_owned(), env!("CARGO_PKG_VERSION").to_owned()],
        vec!["redis".to_owned(), server(&bundle.redis)],
        vec!["database".to_owned(), server(&bundle.database)],
        vec!["partitions".to_owned(), bundle.partitions.to_string()],
        vec!["audit".to_owned(), books(bundle)],
    ];
    text.push_str(&rows(&["", ""], &head));
    let lacks = bundle.unknown();
    if !lacks.is_empty() {
        text.push_str("\nNot available:\n\n");
        for lack in lacks {
            text.push_str(&format!("- {}\n", cell(&lack)));
        }
    }
    text.push_str("\n## Timeline\n\n");
    text.push_str(&timeline(bundle, &zone));
    text.push_str("\n## Figures\n\n");
    text.push_str(&status(bundle, &zone, unmask));
    text.push_str("\n## Orders over time\n\n");
    text.push_str(&section(&bundle.flow, |flow| {
        let events = bundle.timeline.as_ref().map_or(&[][..], |it| &it.lines);
        format!(
            "Orders in SQL per {} s: by time of admission and by time of writing. Admitted orders that are not in SQL yet are not included.\n\n```\n{}```\n",
            flow.step_s,
            chart::orders(flow, events, bundle.until, &zone)
        )
    }));
    text.push_str("\n## Pending entries and their plan\n\n");
    text.push_str(&section(&bundle.plan, |it| plan(it, bundle, unmask)));
    text.push_str("\n## Dead letters\n\n");
    text.push_str(&section(&bundle.dead, |it| dead(it, unmask)));
    text.push_str("\n## Proof\n\n");
    text.push_str(&proof(bundle, &zone));
    text
}

fn section<T>(part: &Told<T>, write: impl FnOnce(&T) -> String) -> String {
    match part {
        Ok(it) => write(it),
        Err(why) => format!("Unknown: {}\n", cell(why)),
    }
}

fn books(bundle: &Bundle) -> String {
    match &bundle.proof {
        Ok((audit, _)) if audit.balanced => "audit passed, see the proof below".to_owned(),
        Ok(_) => "**audit FAILED**, see the proof below".to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

fn timeline(bundle: &Bundle, zone: &TimeZone) -> String {
    section(&bundle.timeline, |it| {
        if it.lines.is_empty() {
            return "No log entries in this period.\n".to_owned();
        }
        let lines: Vec<Vec<String>> = it
            .lines
            .iter()
            .map(|line| {
                let act = &line.act;
                let changed = audit_figures::changes(act.before.as_deref(), act.after.as_deref());
                let mut row = vec![act.at.date_time(zone)];
                let reason = act.reason.as_deref().unwrap_or_default();
                let cells: [&str; 6] =
                    [&act.operator, &act.node, &act.act, &act.subject, reason, &act.result];
                row.extend(cells.map(cell));
                row.push(cell(&changed));
                row
            })
            .collect();
        let head = ["at", "who", "node", "what", "on", "why", "result", "changed"];
        let mut text = rows(&head, &lines);
        if it.cut {
            text.push_str("\nOlder lines of this period are in 'seckill activity'.\n");
        }
        text
    })
}

fn status(bundle: &Bundle, zone: &TimeZone, unmask: bool) -> String {
    let picture = &bundle.snapshot;
    let mut text = String::new();
    for health in [&picture.redis, &picture.sql] {
        text.push_str(&format!("- {}: {}\n", cell(&health.name), state(health)));
    }
    let balance = match &picture.audit {
        Balance::Unknown => "unknown".to_owned(),
        Balance::Balanced { .. } => "totals match".to_owned(),
        Balance::InFlight { orders } => {
            format!("{} in flight", counted(*orders, "order", "orders"))
        }
        Balance::Off { findings } => format!("OFF: {}", cell(&sentences(findings))),
    };
    text.push_str(&format!("- audit: {balance}\n"));
    for alarm in &picture.alarms {
        text.push_str(&format!("- attention: {}\n", cell(&alarm_words(&alarm.kind))));
    }
    text.push_str("\n### Sales\n\n");
    let sales: Vec<Vec<String>> = picture
        .sales
        .iter()
        .map(|sale| {
            vec![
                format!("#{}", sale.voucher_id),
                cell(&sale.title),
                phase(sale.phase).to_owned(),
                sale.stock.map_or("unknown".to_owned(), |stock| stock.to_string()),
                number(sale.db_stock),
                number(sale.initial),
                sale.admitted.map_or("unknown".to_owned(), number),
                number(sale.persisted),
            ]
        })
        .collect();
    let head = ["sale", "title", "phase", "stock", "SQL stock", "initial", "admitted", "persisted"];
    text.push_str(&listed(&head, &sales, "No sales."));
    text.push_str("\n### Stream and group\n\n");
    match &picture.stream {
        None => text.push_str("Unknown.\n"),
        Some(stream) => {
            let oldest = stream
                .oldest_pending_ms
                .map_or(String::new(), |ms| format!(", the oldest {} old", span(ms)));
            text.push_str(&format!(
                "{} kept, lag {}, pending {}{oldest}, dead letters {}, group {}.\n\n",
                counted(stream.length, "entry", "entries"),
                stream.lag.map_or("unknown".to_owned(), number),
                number(stream.pending),
                number(stream.dead),
                if stream.group { "there" } else { "GONE" }
            ));
            let consumers: Vec<Vec<String>> = stream
                .consumers
                .iter()
                .map(|it| {
                    vec![cell(&it.name), life(it.alive), number(it.pending), span(it.idle_ms)]
                })
                .collect();
            let head = ["consumer", "", "pending", "idle"];
            text.push_str(&listed(&head, &consumers, "The group has no consumers."));
        }
    }
    text.push_str("\n### Nodes\n\n");
    let nodes: Vec<Vec<String>> = picture
        .nodes
        .iter()
        .map(|it| vec![cell(&it.name), life(it.alive), it.seen.date_time(zone)])
        .collect();
    text.push_str(&listed(&["node", "", "last heartbeat"], &nodes, "No nodes."));
    text.push_str("\n### Locks\n\n");
    let locks: Vec<Vec<String>> = picture
        .locks
        .locks
        .iter()
        .map(|it| {
            vec![
                cell(&digits(&it.name, unmask)),
                cell(&it.node),
                cell(&digits(&it.task, unmask)),
                it.left_ms.map_or("no end".to_owned(), span),
                number(it.waiting),
                if it.orphan || it.known { life(!it.orphan) } else { "unknown".to_owned() },
            ]
        })
        .collect();
    let head = ["lock", "node", "task", "left", "waiting", "holder"];
    text.push_str(&listed(&head, &locks, "No known held locks."));
    text.push_str("\n### Runs of jobs, newest first\n\n");
    text.push_str(&section(&bundle.runs, |runs| {
        let runs: Vec<Vec<String>> = runs
            .iter()
            .map(|run| {
                vec![
                    run.started.date_time(zone),
                    cell(&run.job),
                    cell(&run.node),
                    run.outcome.to_string(),
                    run.took_ms.map_or(String::new(), span),
                    run.rows.map_or(String::new(), number),
                    cell(run.detail.as_deref().unwrap_or_default()),
                ]
            })
            .collect();
        let head = ["started", "job", "node", "outcome", "took", "rows", "detail"];
        listed(&head, &runs, "No job runs yet.")
    }));
    text
}

fn state(health: &Health) -> String {
    match (&health.error, &health.unwritable) {
        (Some(error), _) => format!("**AWAY**: {}", cell(error)),
        (None, Some(why)) => format!("**TAKES NO WRITES**: {}", cell(why)),
        (None, None) => format!("answers in {:.1} ms", health.latency_us as f64 / 1_000.0),
    }
}

fn life(alive: bool) -> String {
    if alive { "alive" } else { "dead" }.to_owned()
}

fn plan(plan: &Plan, bundle: &Bundle, unmask: bool) -> String {
    if plan.looked_at == 0 {
        return "No pending entries.\n".to_owned();
    }
    let total = bundle.snapshot.stream.as_ref().map_or(plan.looked_at, |it| it.pending);
    let mut text = if plan.cut {
        format!(
            "The oldest {} of {}.\n\n",
            number(plan.looked_at),
            counted(total, "entry", "entries")
        )
    } else {
        format!("{}.\n\n", counted(plan.looked_at, "entry", "entries"))
    };
    match &plan.verdicts {
        None => text.push_str("No verdicts: the database is unreachable.\n"),
        Some(verdicts) => {
            let verdicts: Vec<Vec<String>> = verdicts
                .iter()
                .map(|(name, (verdict, count))| {
                    let act = serde_json::to_value(verdict.act()).unwrap_or_default();
                    let act = act.as_str().unwrap_or_default().replace('_', " ");
                    vec![(*name).to_owned(), act, number(*count)]
                })
                .collect();
            text.push_str(&rows(&["verdict", "act", "entries"], &verdicts));
        }
    }
    text.push_str(&format!("\nTheir ages:\n\n```\n{}```\n\n", chart::ages(&plan.ages_ms)));
    text.push_str(&format!("The first {}:\n\n", plan.first.len()));
    let first: Vec<Vec<String>> = plan
        .first
        .iter()
        .map(|row| {
            let fault = match &row.delivered.body {
                Body::Good(_) => String::new(),
                Body::Malformed(fault) => digits(&fault.to_string(), unmask),
                Body::Gone => "body gone".to_owned(),
            };
            let mut line = vec![row.delivered.entry.to_string(), cell(&row.consumer)];
            line.extend([span(row.idle_ms), number(row.deliveries)]);
            line.extend(order(row.delivered.order().as_ref(), unmask));
            line.push(cell(&fault));
            line
        })
        .collect();
    let head = ["entry", "holder", "idle", "deliveries", "order", "user", "sale", "fault"];
    text.push_str(&rows(&head, &first));
    text
}

fn order(order: Option<&OrderEntry>, unmask: bool) -> [String; 3] {
    match order {
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        Some(order) => [
            order.order.to_string(),
            masked(&order.user.to_string(), unmask),
            format!("#{}", order.voucher),
        ],
    }
}

fn dead(dead: &Dead, unmask: bool) -> String {
    if dead.reasons.is_empty() {
        return "None.\n".to_owned();
    }
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for reason in &dead.reasons {
        // Numbers distinguish letters with the same reason, and may name users.
        *reasons.entry(cell(&numberless(reason))).or_default() += 1;
    }
    let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest = reasons.len().saturating_sub(SHOWN);
    let lines: Vec<Vec<String>> = reasons
        .into_iter()
        .take(SHOWN)
        .map(|(reason, count)| vec![reason, number(count)])
        .collect();
    let count = counted(dead.reasons.len() as u64, "letter", "letters");
    let more = if dead.cut { ", and there are more" } else { "" };
    let mut text = format!("{count}{more}.\n\n");
    text.push_str(&rows(&["reason", "letters"], &lines));
    if rest > 0 {
        text.push_str(&format!("\nAnd {}.\n", counted(rest as u64, "more reason", "more reasons")));
    }
    text.push_str(&format!("\nThe first {}:\n\n", dead.first.len()));
    let first: Vec<Vec<String>> = dead
        .first
        .iter()
        .map(|letter| {
            let mut line = vec![letter.letter.to_string()];
            line.extend(order(letter.order.as_ref(), unmask));
            line.push(cell(&digits(&letter.reason, unmask)));
            line
        })
        .collect();
    text.push_str(&rows(&["letter", "order", "user", "sale", "reason"], &first));
    text
}

fn proof(bundle: &Bundle, zone: &TimeZone) -> String {
    section(&bundle.proof, |(audit, at)| {
        let word = if audit.balanced { "Audit passed" } else { "**Audit FAILED**" };
        let mut text = format!("{word}, checked by order ID, at {}.\n\n", at.date_time(zone));
        let sales: Vec<Vec<String>> = audit
            .sales
            .iter()
            .map(|sale| {
                let figures = [
                    sale.initial,
                    sale.admitted,
                    sale.persisted,
                    sale.closed,
                    sale.undelivered,
                    sale.pending,
                    sale.dead,
                ];
                let mut row = vec![format!("#{}", sale.voucher_id), cell(&sale.title)];
                row.push(sale.stock.map_or("-".to_owned(), |stock| stock.to_string()));
                row.extend(figures.map(number));
                row.push(sale.db_stock.to_string());
                row
            })
            .collect();
        let head = [
            "sale",
            "title",
            "stock",
            "initial",
            "admitted",
            "persisted",
            "closed",
            "undelivered",
            "pending",
            "dead",
            "SQL stock",
        ];
        text.push_str(&listed(&head, &sales, "No sales, nothing to audit."));
        for sale in &audit.sales {
            for finding in &sale.findings {
                text.push_str(&format!("\n- #{}: {}", sale.voucher_id, cell(&finding.to_string())));
            }
        }
        text.push('\n');
        text
    })
}

fn listed(head: &[&str], lines: &[Vec<String>], none: &str) -> String {
    if lines.is_empty() { format!("{none}\n") } else { rows(head, lines) }
}

fn rows(head: &[&str], lines: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for line in lines {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text
}
