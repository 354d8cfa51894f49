//! `seckill stream`: the order stream and its group; redelivers and transfers entries.

use clap::{ArgGroup, Args, Subcommand};
use jiff::tz::TimeZone;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    group::{
        ClaimScope, Rewind, RewindReport, To, claim, remove, rewind,
        show::{self, GroupState, StreamState},
    },
};
use seckill_model::EntryId;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, counted, number, span, table},
    work::EndOfLife,
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum StreamCommand {
    /// Show stream, group and consumers of each partition
    Show {
        /// Only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u16>,
    },
    /// Redeliver entries from a position: entries missing in SQL are written, the rest is acknowledged
    Rewind(RewindArgs),
    /// Transfer pending entries to another consumer, which processes them within seconds
    Claim(ClaimArgs),
    /// Remove a consumer of a dead node without pending entries
    RemoveConsumer {
        /// Consumer name, as in `stream show`
        name: String,
        /// Only from the group of this partition
        #[arg(long, value_name = "N")]
        partition: Option<u16>,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
pub(super) struct RewindArgs {
    /// First entry to redeliver: an entry ID, or the first entry at or after this time
    /// (2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 (today), -10m), or 'start' for the oldest entry
    #[arg(long, value_name = "ID|TIME|start", allow_hyphen_values = true)]
    to: To,
    /// Only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u16>,
    /// Show the effect without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(super) struct ClaimArgs {
    /// Receiver: a consumer, or a node for its consumer in each partition
    #[arg(long, value_name = "CONSUMER")]
    to: String,
    /// Entry IDs, as in `pending list`
    #[arg(value_name = "ENTRY", group = "what")]
    entries: Vec<EntryId>,
    /// All entries of this consumer
    #[arg(long, value_name = "CONSUMER", group = "what")]
    from: Option<String>,
    /// Allow a receiver without a live node
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Serialize)]
struct Shown {
    partitions: Vec<StreamState>,
}

#[derive(Serialize)]
struct Rewound {
    plan: Vec<Rewind>,
    /// `None` in a dry run.
    done: Option<RewindReport>,
}

pub(super) async fn run(config: &Config, out: Output, command: StreamCommand) -> Result<u8, Fault> {
    let mut context = Context::open_answering(config).await?;
    let result = match command {
        StreamCommand::Show { partition } => show(&context, out, partition).await,
        StreamCommand::Rewind(args) => rewind(&mut context, out, &args).await,
        StreamCommand::Claim(args) => claim(&mut context, out, args).await,
        StreamCommand::RemoveConsumer { name, partition, consent } => {
            remove(&mut context, out, name, partition, &consent).await
        }
    };
    context.close().await;
    result
}

async fn show(context: &Context, out: Output, partition: Option<u16>) -> Result<u8, Fault> {
    let dead_ms = context.config.engine.node_dead_ms;
    let mut conn = context.redis.connection();
    let partitions = show::show(&mut conn, &context.keys, partition, dead_ms).await?;
    let shown = Shown { partitions };
    out.answer(&shown, || shown.partitions.iter().map(stream).collect::<Vec<_>>().join("\n\n"))?;
    Ok(0)
}

fn stream(state: &StreamState) -> String {
    let mut text = format!(
        "partition {}  {} kept of {} added, {}",
        state.partition,
        counted(state.length, "entry", "entries"),
        number(state.added),
        counted(state.dead, "dead letter", "dead letters")
    );
    if let (Some(first), Some(last)) = (state.first, state.last) {
        let old = state.oldest_ms.map_or(String::new(), |ms| format!(", {} old", span(ms)));
        text.push_str(&format!("\n  from {first}{old}, to {last}"));
    }
    match &state.group {
        None if state.length > 0 => text.push_str(
            "\n  NO GROUP: a running node or 'seckill stream rewind --to start' recreates it at the start",
        ),
        None => text.push_str("\n  no group yet"),
        Some(group) => text.push_str(&group_words(group)),
    }
    text
}

fn group_words(group: &GroupState) -> String {
    let unknown = || "unknown".to_owned();
    let mut text = format!(
        "\n  group {}: delivered up to {}, read {}, lag {}, pending {}",
        group.name,
        group.last_delivered.map_or_else(unknown, |id| id.to_string()),
        group.entries_read.map_or_else(unknown, number),
        group.lag.map_or_else(unknown, number),
        number(group.pending)
    );
    if let (Some(oldest), Some(age)) = (group.oldest_pending, group.oldest_pending_ms) {
        text.push_str(&format!(", the oldest {oldest} added {} ago", span(age)));
    }
    if group.consumers.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = group
        .consumers
        .iter()
        .map(|it| {
            let life = if it.alive { "alive" } else { "dead" };
            vec![it.name.clone(), life.to_owned(), number(it.pending), span(it.idle_ms)]
        })
        .collect();
    text.push('\n');
    text.push_str(&table(&["  consumer", "node", "pending", "idle"], &[2, 3], &indented(rows)));
    text.trim_end().to_owned()
}

fn indented(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
        name.insert_str(0, "  ");
    }
    rows
}

async fn rewind(context: &mut Context, out: Output, args: &RewindArgs) -> Result<u8, Fault> {
    let mut conn = context.redis.connection();
    let (store, keys) = (context.store.clone(), context.keys.clone());
    let plan = rewind::preview(&store, &mut conn, &keys, &args.to, args.partition).await?;
    let text = plan.iter().map(preview).collect::<Vec<_>>().join("\n");
    if args.dry_run {
        out.answer(&Rewound { plan, done: None }, || {
            format!("{text}\nNothing was changed: this is a dry run.")
        })?;
        return Ok(0);
    }
    let operator = context.operator(args.consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    out.say(&text);
    ask(&args.consent, &question(&plan))?;
    let command = Command::Rewind(plan.clone());
    let Reply::Rewound(done) = operator.execute(command, &CancellationToken::new()).await? else {
        return Err(Fault::no("unexpected reply from the engine to a rewind"));
    };
    let again = counted(done.again, "entry is", "entries are");
    out.answer(&Rewound { plan, done: Some(done) }, || {
        format!(
            "{again} redelivered; check progress with 'seckill stream show' and the result with 'seckill audit'."
        )
    })?;
    Ok(0)
}

fn question(plan: &[Rewind]) -> String {
    let sum = |pick: fn(&Rewind) -> u64| plan.iter().map(pick).sum::<u64>();
    let mut text = format!(
        "Redeliver {}? {} acknowledged, {} written.",
        counted(sum(|it| it.again), "entry", "entries"),
        counted(sum(|it| it.written), "is in SQL and gets", "are in SQL and get"),
        counted(sum(|it| it.missing), "is", "are")
    );
    if plan.iter().any(|it| it.unheld > 0) {
        text.push_str(&format!(
            " {} of the written ones are no longer assigned to a buyer; the audit will report them.",
            number(sum(|it| it.unheld))
        ));
    }
    if plan.iter().any(|it| it.skipped_missing > 0) {
        text.push_str(&format!(
            " {} SKIPPED.",
            counted(
                sum(|it| it.skipped_missing),
                "older entry is neither pending nor in SQL: it is",
                "older entries are neither pending nor in SQL: they are"
            )
        ));
    }
    text
}

fn preview(it: &Rewind) -> String {
    let zone = TimeZone::system();
    let time = |at: seckill_model::Millis| at.date_time(&zone);
    let mut text = format!("partition {}: ", it.partition);
    match it.last_delivered {
        Some(delivered) => text.push_str(&format!("the group was delivered up to {delivered}")),
        None => text.push_str("there is no group; it is made"),
    }
    text.push_str(&format!(
        "\n  {:>10}  {} again, {} to {} ({} to {})",
        number(it.again),
        if it.again == 1 { "entry" } else { "entries" },
        it.from,
        it.to,
        time(it.from_time),
        time(it.to_time)
    ));
    let parts = [
        (it.written, "of them in SQL: acknowledged"),
        (it.missing, "of them not in SQL: written if a piece is left, else dead letters"),
        (
            it.unheld,
            "of those not in SQL: no buyer holds the order any more; it is written all the same",
        ),
        (it.malformed, "of them malformed: put among the dead letters"),
        (it.pending, "of them pending now: settled by their consumer or by this command"),
        (it.undelivered, "entries after them, never delivered so far"),
        (it.trimmed, "older entries were trimmed or deleted: gone"),
        (it.skipped, "older entries are kept but not delivered"),
        (it.skipped_missing, "of those are not in SQL: SKIPPED, '--to start' would deliver them"),
    ];
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("\n  {:>10}  {what}", number(count)));
    }
    text
}

async fn claim(context: &mut Context, out: Output, args: ClaimArgs) -> Result<u8, Fault> {
    let ClaimArgs { to, entries, from, force, consent } = args;
    let operator = context.operator(consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let scope = from.map_or(ClaimScope::Entries(entries), ClaimScope::Holder);
    let dead_ms = context.config.engine.node_dead_ms;
    let mut conn = context.redis.connection();
    let plan = claim::preview(&mut conn, &context.keys, &scope, &to, dead_ms, force).await?;
    for part in &plan.parts {
        out.say(&format!(
            "partition {}: {}, from {} to {}",
            part.partition,
            counted(part.count, "entry", "entries"),
            part.from,
            part.to
        ));
    }
    let given = counted(plan.count(), "pending entry", "pending entries");
    ask(&consent, &format!("Transfer {given} to '{to}'?"))?;
    // Only after the question, where Ctrl-C ends the program.
    let mut end = EndOfLife::listen()?;
    let stop = CancellationToken::new();
    let giving = operator.execute(Command::Claim(plan), &stop);
    tokio::pin!(giving);
    let reply = tokio::select! {
        reply = &mut giving => reply,
        () = end.come() => {
            stop.cancel();
            giving.await
        }
    };
    let Reply::Claimed(report) = reply? else {
        return Err(Fault::no("unexpected reply from the engine to a claim"));
    };
    out.answer(&report, || {
        let claimed = counted(report.claimed, "entry was", "entries were");
        let mut text = format!("{claimed} transferred to '{to}'.");
        if report.gone > 0 {
            let gone = counted(report.gone, "was", "were");
            text.push_str(&format!(" {gone} no longer pending."));
        }
        if report.hollow > 0 {
            text.push_str(&format!(
                " {}: 'seckill pending apply' rebuilds the orders.",
                counted(
                    report.hollow,
                    "has no body and stays where it is",
                    "have no body and stay where they are"
                )
            ));
        }
        if report.cut_short {
            text.push_str(" Interrupted; run it again for the rest.");
        }
        text
    })?;
    Ok(if report.claimed == 0 || report.cut_short { fault::NO } else { 0 })
}

async fn remove(
    context: &mut Context,
    out: Output,
    name: String,
    partition: Option<u16>,
    consent: &Consent,
) -> Result<u8, Fault> {
    let operator = context.operator(consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let dead_ms = context.config.engine.node_dead_ms;
    let mut conn = context.redis.connection();
    // Rejected requests are not confirmed first.
    let found = remove::preview(&mut conn, &context.keys, &name, partition, dead_ms).await?;
    let groups = found.partitions.len() as u64;
    let groups = counted(groups, "group", "groups");
    let question = format!("Remove '{name}', which holds nothing, from {groups}?");
    ask(consent, &question)?;
    let command = Command::RemoveConsumer(found);
    match operator.execute(command, &CancellationToken::new()).await? {
        Reply::ConsumerRemoved(report) => {
            out.answer(&report, || format!("'{name}' was removed."))?;
            Ok(0)
        }
        _ => Err(Fault::no("unexpected reply from the engine to a removal")),
    }
}
