//! Reads the parts of an incident report, and formats them as Markdown. A part that cannot be read states why.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use seckill_engine::{
    EngineError, Health, Snapshot, StreamLine,
    commands::{operator_lock, pending::Classifier},
    deployment::servers::Servers,
    ledger::{self, Audit},
    telemetry::survey::survey,
};
use seckill_model::{EntryId, Label, Millis, OrderEntry, SaleAudit, Verdict, text};
use seckill_redis::{
    connection::LostServer,
    dead_letters::{self, DeadLetter},
    stream::{self, Body, Pending},
};
use seckill_store::{ActivityFilter, AuditEntry, OrderFlow};
use seckill_text::{
    alarms::{Reader, alarm_text},
    audit_log::{localized_result, order_error},
};
use serde::Serialize;

use super::{
    chart,
    redact::{digits, masked, without_numbers},
};
use crate::{
    Context, Table, activity,
    audit::{incomplete, sales_table},
    fields, jobs, local, locks, number, or_dash, pending, sale, span,
    status::{balance, life, server_state},
    table::escape_markdown as cell,
};

/// Limit of one read, and that of the audit.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const AUDIT_TIMEOUT: Duration = Duration::from_mins(5);
const LINES: usize = 2_000;
const PAGE: usize = 500;
const RUNS: u32 = 30;
/// Maximum number of bars in the chart of orders.
const SPANS: u64 = 60;
/// Maximum number of pending entries, and of dead letters, that are read.
const ENTRIES: usize = 10_000;
/// Maximum number of them that are listed individually.
const SHOWN: usize = 20;

/// The report; the keys are a contract of `incident --json`.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) file: Option<String>,
    /// `None` if the audit could not be performed.
    pub(super) balanced: Option<bool>,
    /// Unavailable servers.
    pub(super) away: Vec<&'static str>,
    /// Servers of a cluster that do not reply; the report lacks what they hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreachable: Vec<LostServer>,
    /// Missing parts, one sentence each.
    unknown: Vec<String>,
    /// The report, unless it was written to a file.
    pub(super) markdown: Option<String>,
}

/// A part of the report, or why it is missing, in one sentence.
type Part<T> = Result<T, String>;

/// A list, and whether there is more.
type Cut<T> = (Vec<T>, bool);

/// The result of a read, or why there is none, in a sentence.
async fn within<T, E: Display>(read: impl Future<Output = Result<T, E>>) -> Part<T> {
    match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(text!("cli-no-answer", seconds = READ_TIMEOUT.as_secs())),
    }
}

/// Reads and formats all parts.
pub(super) async fn write(
    context: &mut Context,
    since: Millis,
    until: Millis,
    unmask: bool,
) -> Report {
    let snapshot = Box::pin(survey(context, context.config.read_only)).await.snapshot;
    let (context, store) = (&*context, &context.store);
    let (redis, sql) = (up(&snapshot.redis), up(&snapshot.sql));
    let span_s = until.since(since) / 1_000 + 1;
    let step_s = u32::try_from(span_s.div_ceil(SPANS).max(1)).unwrap_or(u32::MAX);
    let spans = u32::try_from(span_s.div_ceil(u64::from(step_s))).unwrap_or(1);
    let log = read(&sql, read_log(context, since, until)).await;
    let runs = read(&sql, within(store.runs(None, RUNS))).await;
    let flow = read(&sql, within(store.order_flow(since, step_s, spans))).await;
    let pending = Box::pin(read(&redis, read_pending(context, sql.is_ok()))).await;
    let dead = Box::pin(read(&redis, read_dead(context))).await;
    let mut servers = context.probed().await;
    let audit =
        read(&redis.and(sql), audit(AUDIT_TIMEOUT, ledger::audit(&mut servers, None))).await;
    let is_whole = |audit: &Audit| incomplete(audit).is_none();
    let balanced = audit.as_ref().ok().filter(|(audit, _)| is_whole(audit));
    let balanced = balanced.map(|(audit, _)| audit.balanced);
    let events = log.as_ref().map_or(&[][..], |(lines, _)| lines);
    let orders = flow.map(|flow| orders(&flow, events, until));
    let runs = runs.map(|runs| jobs::table(&runs).markdown_or(Label("cli-incident-no-runs")));
    let total = snapshot.stream.as_ref().map(|it| it.pending);
    let pending = pending.map(|rows| pending_plan(&rows, total, snapshot.taken, unmask));
    let sections = [
        (Label("cli-incident-timeline-title"), log.map(|log| timeline(&log))),
        (Label("cli-incident-figures-title"), Ok(metrics(&snapshot, unmask))),
        (Label("cli-incident-runs-title"), runs),
        (Label("cli-incident-orders-title"), orders),
        (Label("cli-incident-pending-title"), pending),
        (Label("cli-incident-dead-title"), dead.map(|dead| dead_letters(&dead, unmask))),
        (Label("cli-incident-by-id-title"), audit.map(|audit| proof(&audit))),
    ];
    let missing = |(part, section): &(Label, Part<String>)| {
        Some(text!("common-named", name = part, text = section.as_ref().err()?))
    };
    let unknown: Vec<String> = sections.iter().filter_map(missing).collect();

    let mut text =
        format!("# {}\n\n", text!("cli-incident", since = local(since), until = local(until)));
    text.push_str(&head(context, balanced, since, until));
    if !unknown.is_empty() {
        text.push_str(&format!("\n{}\n\n", Label("cli-incident-missing")));
        text.extend(unknown.iter().map(|part| format!("- {}\n", cell(part))));
    }
    for (title, section) in sections {
        let section = section
            .unwrap_or_else(|why| format!("{}\n", text!("cli-incident-unknown", why = cell(&why))));
        text.push_str(&format!("\n## {title}\n\n{section}"));
    }
    let servers = [("redis", &snapshot.redis), ("database", &snapshot.sql)];
    Report {
        file: None,
        balanced,
        away: servers.iter().filter(|(_, health)| !health.up).map(|(name, _)| *name).collect(),
        unreachable: snapshot.unreachable,
        unknown,
        markdown: Some(text),
    }
}

/// Whether a server replies.
fn up(health: &Health) -> Part<()> {
    match &health.error {
        Some(why) if !health.up => Err(why.localized::<EngineError>()),
        _ => Ok(()),
    }
}

/// Reads a part. A server that just timed out is not waited for again in each part.
async fn read<T>(up: &Part<()>, work: impl Future<Output = Part<T>>) -> Part<T> {
    up.clone()?;
    work.await
}

/// The log of this period, oldest first.
async fn read_log(context: &Context, since: Millis, until: Millis) -> Part<Cut<AuditEntry>> {
    let filter = ActivityFilter { since: Some(since), until: Some(until), which: None };
    let mut lines: Vec<AuditEntry> = Vec::new();
    loop {
        let before = lines.last().map(AuditEntry::position);
        let page = within(context.store.activity(&filter, before, PAGE as u32)).await?;
        let is_last = page.len() < PAGE;
        lines.extend(page);
        if is_last || lines.len() >= LINES {
            lines.reverse();
            return Ok((lines, !is_last));
        }
    }
}

/// The oldest pending entries; without SQL they have no verdicts.
async fn read_pending(context: &Context, has_sql: bool) -> Part<Cut<(Pending, Option<Verdict>)>> {
    let Servers { mut conn, keys, .. } = context.probed().await;
    let at_work = within(operator_lock::is_taken(&mut conn, &keys)).await?;
    let mut classifier = Classifier::new(context.servers(), context.config.engine.clone(), at_work);
    let (mut rows, mut next) = (Vec::new(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = stream::pending_of_all(&mut conn, &keys, from, EntryId::MAX, PAGE);
        let page = within(page).await?;
        let Some(last) = page.last() else { break };
        if rows.len() >= ENTRIES {
            return Ok((rows, true));
        }
        next = last.delivered.entry.next_of_all();
        if has_sql {
            let page = within(classifier.classify(page)).await?;
            rows.extend(page.into_iter().map(|it| (it.row, Some(it.verdict))));
        } else {
            rows.extend(page.into_iter().map(|row| (row, None)));
        }
    }
    Ok((rows, false))
}

/// The oldest dead letters: how many failed for each reason, and the first of them.
#[derive(Default)]
struct Dead {
    letters: usize,
    reasons: BTreeMap<String, u64>,
    first: Vec<DeadLetter>,
    /// There are more.
    cut: bool,
}

async fn read_dead(context: &Context) -> Part<Dead> {
    let Servers { mut conn, keys, .. } = context.probed().await;
    let (mut dead, mut next) = (Dead::default(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = dead_letters::page_of_all(&mut conn, &keys, from, EntryId::MAX, PAGE);
        let page = within(page).await?;
        let Some(last) = page.last() else { break };
        if dead.letters >= ENTRIES {
            dead.cut = true;
            break;
        }
        next = last.letter.next_of_all();
        dead.letters += page.len();
        for letter in page {
            *dead.reasons.entry(without_numbers(&letter.reason)).or_default() += 1;
            if dead.first.len() < SHOWN {
                dead.first.push(letter);
            }
        }
    }
    Ok(dead)
}

/// The audit, and when it ended.
async fn audit(
    limit: Duration,
    work: impl Future<Output = Result<Audit, EngineError>>,
) -> Part<(Audit, Millis)> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(audit)) => Ok((audit, Millis::now())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(Label("cli-incident-audit-timeout").to_owned()),
    }
}

fn head(context: &Context, balanced: Option<bool>, since: Millis, until: Millis) -> String {
    let at = |at: Millis| format!("{} ({at})", local(at));
    let database = match context.store.open_error() {
        Some(why) => text!("cli-incident-not-opened", why),
        None => context.store.describe(),
    };
    let audit = match balanced {
        Some(true) => Label("cli-incident-audit-passed"),
        Some(false) => Label("cli-incident-audit-failed"),
        None => Label("common-unknown"),
    };
    let lines = [
        (Label("cli-incident-created"), at(Millis::now())),
        (Label("cli-incident-from"), at(since)),
        (Label("cli-incident-to"), at(until)),
        (Label("cli-incident-version"), env!("CARGO_PKG_VERSION").to_owned()),
        (Label("cli-incident-redis"), context.redis.address().to_owned()),
        (Label("cli-incident-database"), database),
        (Label("cli-incident-partitions"), context.keys.count().to_string()),
        (Label("cli-incident-audit"), audit.to_owned()),
    ];
    fields(&lines).markdown_or("")
}

fn timeline((lines, cut): &Cut<AuditEntry>) -> String {
    let mut text = activity::table(lines, str::to_owned)
        .left(&Label("column-why"), |line| line.reason.clone().unwrap_or_default())
        .left(&Label("column-result"), |line| localized_result(&line.result))
        .left(&Label("column-changed"), activity::changed)
        .markdown_or(Label("cli-incident-no-log"));
    if *cut {
        text.push_str(&format!("\n{}\n", Label("cli-incident-log-cut")));
    }
    text
}

fn orders(flow: &OrderFlow, events: &[AuditEntry], until: Millis) -> String {
    let chart = chart::orders(flow, events, until);
    format!("{}\n\n```\n{chart}```\n", text!("cli-incident-chart", seconds = flow.step_s))
}

fn metrics(snapshot: &Snapshot, unmask: bool) -> String {
    let servers = [&snapshot.redis, &snapshot.sql];
    let mut lines = servers.map(|it| (it.name.clone(), server_state(it))).to_vec();
    lines.push((Label("cli-incident-audit").to_owned(), balance(&snapshot.audit)));
    let alarms = snapshot.alarms.iter().map(|alarm| alarm_text(&alarm.kind, Reader::Status));
    lines.extend(alarms.map(|alarm| (Label("cli-incident-alarm").to_owned(), alarm)));
    let line = |(name, text): (String, String)| {
        format!("- {}\n", text!("common-named", name = cell(&name), text = cell(&text)))
    };
    let mut text: String = lines.into_iter().map(line).collect();
    let nodes = Table::new(&snapshot.nodes)
        .left(&Label("column-node"), |node| node.name.clone())
        .left("", |node| life(node.alive))
        .left(&Label("column-last-heartbeat"), |node| local(node.seen));
    let stream = match &snapshot.stream {
        Some(line) => stream(line, !snapshot.unreachable.is_empty()),
        None => format!("{}\n", Label("cli-incident-stream-unknown")),
    };
    let sales = sale::table(&snapshot.sales).markdown_or(Label("cli-incident-no-sales"));
    let locks = locks::table(&snapshot.locks.locks, |text| digits(text, unmask));
    let none = if snapshot.locks_unknown {
        Label("cli-incident-locks-unknown")
    } else {
        Label("cli-incident-no-locks")
    };
    for (title, section) in [
        (Label("cli-incident-sales-title"), sales),
        (Label("cli-incident-stream-title"), stream),
        (Label("cli-incident-nodes-title"), nodes.markdown_or(Label("cli-incident-no-nodes"))),
        (Label("cli-incident-locks-title"), locks.markdown_or(none)),
    ] {
        text.push_str(&format!("\n### {title}\n\n{section}"));
    }
    text
}

fn stream(stream: &StreamLine, is_partial: bool) -> String {
    let StreamLine { length, pending, dead, .. } = stream;
    let lag = stream.lag.map_or_else(|| Label("common-unknown").to_owned(), number);
    let mut text = text!("cli-incident-stream", length, lag, pending, dead);
    if let Some(age) = stream.oldest_pending_ms.map(span) {
        text.push_str(&text!("cli-incident-oldest-pending", age));
    }
    if is_partial {
        text.push_str(&Label("cli-incident-partly"));
    }
    if !stream.group {
        text.push_str(&Label("cli-incident-no-group"));
    }
    let consumers = Table::new(&stream.consumers)
        .left(&Label("column-consumer"), |it| it.name.clone())
        .left(&Label("column-node"), |it| life(it.alive))
        .right(&Label("column-pending"), |it| number(it.pending))
        .right(&Label("column-idle"), |it| span(it.idle_ms))
        .markdown_or(Label("cli-incident-no-consumers"));
    format!("{text}\n\n{consumers}")
}

fn pending_plan(
    (rows, cut): &Cut<(Pending, Option<Verdict>)>,
    total: Option<u64>,
    now: Millis,
    unmask: bool,
) -> String {
    let entries = rows.len() as u64;
    if entries == 0 {
        return format!("{}\n", Label("cli-pending-none"));
    }
    let count = if *cut {
        text!("cli-incident-entries-cut", entries, total = total.unwrap_or(entries))
    } else {
        text!("cli-incident-entries", entries)
    };
    let mut verdicts: BTreeMap<Verdict, u64> = BTreeMap::new();
    for verdict in rows.iter().filter_map(|(_, verdict)| *verdict) {
        *verdicts.entry(verdict).or_default() += 1;
    }
    let verdicts: Vec<(Verdict, u64)> = verdicts.into_iter().collect();
    let verdicts = Table::new(&verdicts)
        .left(&Label("column-verdict"), |(it, _)| pending::verdict(*it))
        .left(&Label("column-action"), |(it, _)| pending::action(it.action()))
        .right(&Label("column-entries"), |(_, count)| number(*count))
        .markdown_or(Label("cli-incident-no-verdicts"));
    let ages = rows.iter().map(|(row, _)| now.since(row.delivered.entry.added()));
    let ages = chart::ages(ages);
    let fault = |row: &Pending| match &row.delivered.body {
        Body::Good(_) => String::new(),
        Body::Malformed(fault) => digits(&fault.to_string(), unmask),
        Body::Gone => Label("cli-incident-body-gone").to_owned(),
    };
    let first: Vec<&Pending> = rows.iter().map(|(row, _)| row).take(SHOWN).collect();
    let table = Table::new(&first)
        .left(&Label("column-entry"), |row| row.delivered.entry)
        .left(&Label("column-holder"), |row| row.consumer.clone())
        .right(&Label("column-idle"), |row| span(row.idle_ms))
        .right(&Label("column-deliveries"), |row| number(row.deliveries));
    let table = order_columns(table, |row| row.delivered.order(), unmask)
        .left(&Label("column-fault"), |row| fault(row))
        .markdown_or("");
    let title = text!("cli-incident-first", entries = first.len());
    format!("{count}\n\n{verdicts}\n```\n{ages}```\n\n{title}\n\n{table}")
}

/// Adds order, user and sale.
fn order_columns<T>(
    table: Table<'_, T>,
    order: impl Fn(&T) -> Option<OrderEntry>,
    unmask: bool,
) -> Table<'_, T> {
    let user = |order: OrderEntry| masked(&order.user.to_string(), unmask);
    table
        .right(&Label("column-order"), |row| or_dash(order(row).map(|it| it.order)))
        .right(&Label("column-user"), |row| or_dash(order(row).map(user)))
        .left(&Label("column-sale"), |row| or_dash(order(row).map(|it| format!("#{}", it.voucher))))
}

fn dead_letters(dead: &Dead, unmask: bool) -> String {
    let Dead { letters, first, cut, .. } = dead;
    if *letters == 0 {
        return format!("{}\n", Label("cli-dead-none"));
    }
    let count = if *cut {
        text!("cli-incident-letters-cut", letters)
    } else {
        text!("cli-incident-letters", letters)
    };
    let mut reasons: Vec<(&String, &u64)> = dead.reasons.iter().collect();
    // Stable, so that equally frequent reasons stay in alphabetical order.
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let (shown, rest) = reasons.split_at(reasons.len().min(SHOWN));
    let mut reasons = Table::new(shown)
        .left(&Label("column-reason"), |(reason, _)| *reason)
        .right(&Label("column-letters"), |(_, count)| number(**count))
        .markdown_or("");
    if !rest.is_empty() {
        reasons.push_str(&format!("\n{}\n", text!("cli-incident-reasons", more = rest.len())));
    }
    let table = Table::new(first).left(&Label("column-letter"), |letter| letter.letter);
    let table = order_columns(table, |letter| letter.order, unmask)
        .left(&Label("column-reason"), |letter| digits(&order_error(&letter.reason), unmask))
        .markdown_or("");
    let title = text!("cli-incident-first", entries = first.len());
    format!("{count}\n\n{reasons}\n{title}\n\n{table}")
}

fn proof((audit, at): &(Audit, Millis)) -> String {
    let at = local(*at);
    let result = match incomplete(audit) {
        Some(incomplete) => incomplete,
        None if audit.balanced => text!("cli-incident-by-id-passed", at),
        None => text!("cli-incident-by-id-failed", at),
    };
    let sales: Vec<_> = SaleAudit::with_shards(&audit.sales).collect();
    let sales = sales_table(&sales).markdown_or(Label("ledger-no-sales-yet-nothing"));
    let mut text = format!("{result}\n\n{sales}");
    let findings = audit.sales.iter().flat_map(SaleAudit::found);
    text.extend(findings.map(|finding| format!("\n- {}", cell(&finding.to_string()))));
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn an_audit_that_takes_too_long_has_a_next_step() {
        let audit = audit(Duration::from_millis(1), pending()).await.map(drop);
        let next_step = "the audit did not finish within five minutes; run 'seckill audit'";
        assert_eq!(audit, Err(next_step.to_owned()));
    }

    #[test]
    fn the_reason_of_a_command_precedes_its_result() {
        let entry = AuditEntry {
            action: "sale pause".to_owned(),
            reason: Some("too fast".to_owned()),
            result: "paused".into(),
            ..AuditEntry::default()
        };
        let text = timeline(&(vec![entry], false));
        assert!(text.contains("| too fast | paused |"), "{text}");
    }
}
