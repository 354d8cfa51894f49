//! `seckill activity`: commands of operators and events, in chronological order.

use std::io::{self, IsTerminal as _};

use clap::Args;
use seckill_engine::telemetry::data_loss::{add_published, published};
use seckill_model::{Label, Millis, dead_letter::shown, text};
use seckill_store::{ActivityFilter, AuditEntry, LogPosition, Which};
use seckill_text::{
    audit_log::{localized_result, localized_subject},
    changes::changed_figures,
    time::event_name,
};
use serde_json::{Value, json};

use crate::{CliError, Config, Context, Needs, Output, Result, Table, local, page, plain, rows};

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
    /// Maximum number of lines; the newest are shown
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
    limit: u32,
    /// Only lines before this position, as printed by the previous page
    #[arg(long, value_name = "POSITION")]
    before: Option<LogPosition>,
}

pub(super) async fn run(config: &Config, out: Output, args: &ActivityArgs) -> Result<u8> {
    if args.since.zip(args.until).is_some_and(|(since, until)| since >= until) {
        return Err(CliError::usage(Label("cli-activity-period")));
    }
    let which = match (args.commands, args.events) {
        (true, _) => Some(Which::Commands),
        (_, true) => Some(Which::Events),
        _ => None,
    };
    let filter = ActivityFilter { since: args.since, until: args.until, which };
    let read = async |context: &mut Context| {
        let losses = if args.before.is_none() && which != Some(Which::Commands) {
            // Read before the log, so that none is missed: one recorded in between is in both. An unreachable Redis
            // adds none.
            let published = published(&mut context.redis.connection(), &context.keys.home()).await;
            published.unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok((context.store.activity(&filter, args.before, args.limit + 1).await?, losses))
    };
    let (mut lines, losses) = Context::with(config, out, Needs::Database, read).await?;
    let in_period = |entry: &AuditEntry| {
        args.since.is_none_or(|since| entry.at >= since)
            && args.until.is_none_or(|until| entry.at < until)
    };
    add_published(&mut lines, losses.into_iter().filter(in_period).collect());
    let next = page(&mut lines, args.limit, AuditEntry::position);
    lines.reverse();
    let document = json!({ "lines": lines.iter().map(document).collect::<Vec<_>>(), "next": next });
    out.answer(&document, || render(&lines, next))
}

/// A line as JSON, with its figures as objects. Its ID is negative until the line is in the database.
fn document(line: &AuditEntry) -> Value {
    let mut document = json!(line);
    document["kind"] = if line.is_event() { "event" } else { "command" }.into();
    for figures in ["before", "after"] {
        let text = document[figures].as_str();
        document[figures] = text.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    }
    document
}

/// Maximum width of a cell on a terminal, so that a long subject does not push the results off the screen. Output to a
/// pipe and JSON are complete.
const WIDEST: usize = 60;

/// The newest line is the last.
fn render(lines: &[AuditEntry], next: Option<LogPosition>) -> String {
    if lines.is_empty() {
        return Label("cli-activity-none").to_owned();
    }
    let widest = if io::stdout().is_terminal() { WIDEST } else { usize::MAX };
    let cell = |text: &str| shown(&plain(text), widest);
    let result = |line: &AuditEntry| cell(&localized_result(&line.result));
    let table = table(lines, cell).left(&Label("column-result"), result);
    let mut text = table.with_details(|line| {
        let reason = line.reason.as_ref();
        let reason = reason.map(|reason| text!("cli-activity-why", reason = plain(reason)));
        let changed = Some(plain(&changed(line))).filter(|it| !it.is_empty());
        reason.into_iter().chain(changed).collect()
    });
    if let Some(next) = next {
        let command = format!("--before {next}");
        text.push_str(&text!("cli-activity-older", command));
    }
    text
}

/// Lines of the log: who did what, and when.
pub(super) fn table(lines: &[AuditEntry], cell: impl Fn(&str) -> String) -> Table<'_, AuditEntry> {
    Table::new(lines)
        .left(&Label("column-at"), |line| local(line.at))
        .left(&Label("column-who"), |line| cell(&line.operator))
        .left(&Label("column-node"), |line| cell(&line.node))
        .left(&Label("column-what"), |line| cell(&event_name(&line.action)))
        .left(&Label("column-on"), |line| cell(&localized_subject(&line.subject)))
}

/// The figures that the command changed.
pub(super) fn changed(line: &AuditEntry) -> String {
    changed_figures(line.before.as_deref(), line.after.as_deref())
}
