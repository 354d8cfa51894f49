//! `seckill activity`: commands of operators and events, in chronological order.

use std::io::{self, IsTerminal as _};

use clap::Args;
use jiff::tz::TimeZone;
use seckill_console::{event_name, localized_result, localized_subject};
use seckill_engine::{
    commands::audit_figures,
    telemetry::data_loss::{add_published, published},
};
use seckill_model::{
    Message, Millis,
    dead_letter::shown,
    message::{Label, text},
};
use seckill_store::{ActivityFilter, AuditEntry, LogPosition, Recorded, Which};
use serde::Serialize;
use serde_json::Value;

use super::{
    CliError, Result,
    context::{Context, Needs},
    error,
    output::{Output, page, plain, rows},
    table::Table,
};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct ActivityArgs {
    /// At this time or later: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 (today) or -2h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<Millis>,
    /// Before this time, same formats
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<Millis>,
    /// Commands only
    #[arg(long, conflicts_with = "events")]
    commands: bool,
    /// Events only
    #[arg(long)]
    events: bool,
    /// Maximum number of lines, the newest ones
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
    limit: u32,
    /// Only lines before this position, as printed by the previous page
    #[arg(long, value_name = "PLACE")]
    before: Option<LogPosition>,
}

#[derive(Serialize)]
struct Page {
    /// Newest last.
    lines: Vec<Line>,
    next: Option<LogPosition>,
}

#[derive(Serialize)]
struct Line {
    /// Below 0 while the database does not have it yet.
    id: i64,
    at: Millis,
    kind: &'static str,
    operator: String,
    node: String,
    act: String,
    subject: Message,
    reason: Option<String>,
    result: Message,
    before: Option<Value>,
    after: Option<Value>,
    #[serde(skip)]
    changed: String,
}

pub(super) async fn run(config: &Config, out: Output, args: &ActivityArgs) -> Result<u8> {
    if args.since.zip(args.until).is_some_and(|(since, until)| since >= until) {
        return Err(CliError::usage(Label("cli-activity-period")));
    }
    let which = match (args.commands, args.events) {
        (true, _) => Some(Which::Acts),
        (_, true) => Some(Which::Events),
        _ => None,
    };
    let filter = ActivityFilter { since: args.since, until: args.until, which };
    let context = Context::open(config, out, Needs::Database).await?;
    let read = async |context: &mut Context| {
        let losses = if args.before.is_none() && which != Some(Which::Acts) {
            // Before the log: what is written meanwhile is in both. A Redis that is unreachable has none to add.
            let published = published(&mut context.redis.connection(), &context.keys.home()).await;
            published.unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok((context.store.activity(&filter, args.before, args.limit + 1).await?, losses))
    };
    let (mut lines, losses) = context.run(read).await?;
    let in_period = |act: &AuditEntry| {
        args.since.is_none_or(|since| act.at >= since)
            && args.until.is_none_or(|until| act.at < until)
    };
    add_published(&mut lines, losses.into_iter().filter(in_period).collect());
    let next = page(&mut lines, args.limit, Recorded::position);
    let page = Page { lines: lines.into_iter().rev().map(line).collect(), next };
    out.answer(&page, || render(&page))?;
    Ok(if page.lines.is_empty() { error::FAILED } else { 0 })
}

fn line(Recorded { id, act }: Recorded) -> Line {
    let figures =
        |text: &Option<String>| text.as_ref().and_then(|it| serde_json::from_str(it).ok());
    Line {
        id,
        at: act.at,
        kind: if act.is_event() { "event" } else { "command" },
        before: figures(&act.before),
        after: figures(&act.after),
        changed: audit_figures::changes(act.before.as_deref(), act.after.as_deref()),
        operator: act.operator,
        node: act.node,
        act: act.act,
        subject: act.subject,
        reason: act.reason,
        result: act.result,
    }
}

/// One long subject must not push the results off the screen; a pipe and JSON have all of it.
const WIDEST: usize = 60;

fn render(page: &Page) -> String {
    if page.lines.is_empty() {
        return Label("cli-activity-none").to_owned();
    }
    let zone = TimeZone::system();
    let widest = if io::stdout().is_terminal() { WIDEST } else { usize::MAX };
    let cell = |text: &str| shown(&plain(text), widest);
    let table = Table::new(&page.lines)
        .left(&Label("column-at"), |line| line.at.date_time(&zone))
        .left(&Label("column-who"), |line| cell(&line.operator))
        .left(&Label("column-node"), |line| cell(&line.node))
        .left(&Label("column-what"), |line| cell(&event_name(&line.act)))
        .left(&Label("column-on"), |line| cell(&localized_subject(&line.subject)))
        .left(&Label("column-result"), |line| cell(&localized_result(&line.result)));
    let mut text = table.with_details(|line| {
        let reason =
            line.reason.iter().map(|reason| text!("cli-activity-why", reason = plain(reason)));
        let changed = Some(&line.changed).filter(|changed| !changed.is_empty());
        reason.chain(changed.map(|changed| plain(changed))).collect()
    });
    if let Some(next) = page.next {
        let command = format!("--before {next}");
        text.push_str(&text!("cli-activity-older", command));
    }
    text
}
