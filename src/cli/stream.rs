//! `seckill stream`: the order stream and its group; redelivers and transfers entries.

use clap::{ArgGroup, Args, Subcommand};
use seckill_engine::{
    Command, Reply,
    commands::group::{ClaimScope, Rewind, To, claim, remove, rewind, show},
};
use seckill_model::{EntryId, Label, text};
use seckill_redis::{
    keys::node_of,
    stream_stats::{ConsumerStats, RedisStats, StreamStats},
};
use serde_json::{Value, json};

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, counts, error, indented,
    local, number, reply, span, status::life,
};

#[derive(Debug, Subcommand)]
pub(super) enum StreamCommand {
    /// Show the stream, the group and the consumers of each partition
    Show {
        /// Only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u16>,
    },
    /// Redeliver entries from a position on: orders missing in SQL are written, the other entries acknowledged
    Rewind(RewindArgs),
    /// Transfer pending entries to another consumer, which processes them within seconds
    Claim(ClaimArgs),
    /// Remove a consumer that has no pending entries and whose node is not running
    RemoveConsumer {
        /// Consumer name, as in 'stream show'
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
    /// Entry IDs, as in 'pending list'
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

pub(super) async fn run(config: &Config, out: Output, command: StreamCommand) -> Result<u8> {
    let needs = match command {
        StreamCommand::Show { .. } => Needs::Readable,
        _ => Needs::Both,
    };
    let done = Context::with(config, out, needs, async |context| {
        let last = context.keys.count() - 1;
        if let Some(number) = command.partition().filter(|number| *number > last) {
            let (number, last) = (number.to_string(), last.to_string());
            return Err(CliError::usage(text!("group-no-partition", number, last)));
        }
        match command {
            StreamCommand::Show { partition } => show(context, partition).await,
            StreamCommand::Rewind(args) => rewind(context, &args).await,
            StreamCommand::Claim(args) => claim(context, args).await,
            StreamCommand::RemoveConsumer { name, partition, consent } => {
                remove(context, name, partition, &consent).await
            }
        }
    });
    done.await
}

impl StreamCommand {
    /// The only partition that it is about.
    fn partition(&self) -> Option<u16> {
        match self {
            Self::Show { partition } | Self::RemoveConsumer { partition, .. } => *partition,
            Self::Rewind(RewindArgs { partition, to, .. }) => match to {
                To::Entry { partition: of_entry, .. } => partition.or(*of_entry),
                _ => *partition,
            },
            Self::Claim(_) => None,
        }
    }
}

async fn show(context: &Context, partition: Option<u16>) -> Result<u8> {
    let mut servers = context.probed().await;
    let shown = show::show(&mut servers, partition).await?;
    let partitions: Vec<Value> = shown.iter().map(|stats| document(context, stats)).collect();
    let code = context.out.answer(&json!({ "partitions": partitions }), || {
        shown.iter().map(|stats| stream(context, stats)).collect::<Vec<_>>().join("\n\n")
    })?;
    let lost = if partition.is_none() { servers.conn.lost() } else { &[] };
    Ok(CliError::name_lost(lost, code))
}

/// Milliseconds since that entry was added.
fn age(stats: &RedisStats, entry: Option<EntryId>) -> Option<u64> {
    entry.map(|id| stats.now.since(id.added()))
}

fn document(context: &Context, stats: &RedisStats) -> Value {
    let StreamStats { partition, length, added, first, last, dead, .. } = stats.stream;
    let StreamStats { delivered, read, lag, pending, oldest_pending, .. } = stats.stream;
    let dead_ms = context.config.engine.node_dead_ms;
    let consumer = |it: &ConsumerStats| {
        json!({
            "name": it.name,
            "node": node_of(&it.name),
            "alive": stats.works(&it.name, dead_ms),
            "pending": it.pending,
            "idle_ms": it.idle_ms,
            "per_second": it.per_second,
        })
    };
    let group = || {
        json!({
            "name": context.keys.partition(partition).group(),
            "last_delivered": delivered,
            "entries_read": read,
            "lag": lag,
            "pending": pending,
            "oldest_pending": oldest_pending,
            "oldest_pending_ms": age(stats, oldest_pending),
            "consumers": stats.consumers.iter().map(consumer).collect::<Vec<_>>(),
        })
    };
    json!({
        "partition": partition,
        "length": length,
        "added": added,
        "first": first,
        "last": last,
        "oldest_ms": age(stats, first),
        "dead": dead,
        "group": stats.stream.group.then(group),
    })
}

fn stream(context: &Context, stats: &RedisStats) -> String {
    let StreamStats { partition, length, added, dead, .. } = stats.stream;
    let mut text = text!("cli-stream", partition, length, added, dead);
    if let (Some(first), Some(last)) = (stats.stream.first, stats.stream.last) {
        let age = span(stats.now.since(first.added()));
        text.push_str(&format!("\n  {}", text!("cli-stream-range", first, last, age)));
    }
    let group = if stats.stream.group {
        group(context, stats)
    } else if length > 0 {
        Label("cli-stream-group-lost").to_owned()
    } else {
        Label("cli-stream-no-group").to_owned()
    };
    format!("{text}\n{}", indented(&group))
}

fn group(context: &Context, stats: &RedisStats) -> String {
    let StreamStats { partition, delivered, read, lag, pending, .. } = stats.stream;
    let unknown = || Label("common-unknown").to_owned();
    let delivered = delivered.map_or_else(unknown, |id| id.to_string());
    let (read, lag) = (read.map_or_else(unknown, number), lag.map_or_else(unknown, number));
    let of = context.keys.partition(partition);
    let mut text = text!("cli-stream-group", name = of.group(), delivered, read, lag, pending);
    if let Some(entry) = stats.stream.oldest_pending {
        let age = span(stats.now.since(entry.added()));
        text.push_str(&text!("cli-stream-group-oldest", entry, age));
    }
    if stats.consumers.is_empty() {
        return text;
    }
    let dead_ms = context.config.engine.node_dead_ms;
    let consumers = Table::new(&stats.consumers)
        .left(&Label("column-consumer"), |it| it.name.clone())
        .left(&Label("column-node"), |it| life(stats.works(&it.name, dead_ms)))
        .right(&Label("column-pending"), |it| number(it.pending))
        .right(&Label("column-per-second"), |it| {
            it.per_second.map_or_else(|| "-".to_owned(), number)
        })
        .right(&Label("column-idle"), |it| span(it.idle_ms));
    format!("{text}\n{consumers}")
}

async fn rewind(context: &mut Context, args: &RewindArgs) -> Result<u8> {
    let plan = rewind::preview(&mut context.servers(), &args.to, args.partition).await?;
    let text = plan.iter().map(preview).collect::<Vec<_>>().join("\n");
    if args.dry_run {
        return context.out.answer(&json!({ "plan": plan, "done": null }), || {
            format!("{text}\n{}", Label("cli-stream-dry-run"))
        });
    }
    let operator = context.writer(&args.consent)?;
    context.out.say(&text);
    ask(&args.consent, &question(&plan))?;
    let command = Command::Rewind(plan.clone());
    let reply = reply::execute(&operator, command).await?;
    let Reply::Rewound(done) = &reply else { return Err(CliError::unexpected_reply()) };
    context.out.answer(&json!({ "plan": plan, "done": done }), || reply::text(&reply))
}

fn question(plan: &[Rewind]) -> String {
    let sum = |pick: fn(&Rewind) -> u64| plan.iter().map(pick).sum::<u64>();
    let (again, written, missing) =
        (sum(|it| it.again), sum(|it| it.written), sum(|it| it.missing));
    let mut text = text!("cli-stream-rewind", again, written, missing);
    let (unheld, skipped) = (sum(|it| it.unheld), sum(|it| it.skipped_missing));
    if unheld > 0 {
        text.push_str(&text!("cli-stream-rewind-unheld", unheld));
    }
    if skipped > 0 {
        text.push_str(&text!("cli-stream-rewind-skipped", skipped));
    }
    text
}

fn preview(it: &Rewind) -> String {
    let partition = it.partition;
    let group = match it.last_delivered {
        Some(delivered) => text!("cli-stream-preview", partition, delivered),
        None => text!("cli-stream-preview-no-group", partition),
    };
    let (from_time, to_time) = (local(it.from_time), local(it.to_time));
    let (from, to) = (it.from, it.to);
    let again = text!("cli-stream-again", entries = it.again, from, to, from_time, to_time);
    let parts = counts(&[
        (it.written, Label("cli-stream-written")),
        (it.missing, Label("cli-stream-missing")),
        (it.unheld, Label("cli-stream-unheld")),
        (it.malformed, Label("cli-stream-malformed")),
        (it.pending, Label("cli-stream-pending")),
        (it.undelivered, Label("cli-stream-undelivered")),
        (it.trimmed, Label("cli-stream-trimmed")),
        (it.skipped, Label("cli-stream-skipped")),
        (it.skipped_missing, Label("cli-stream-skipped-missing")),
    ]);
    format!("{group}\n  {:>10}  {again}{parts}", number(it.again))
}

async fn claim(context: &mut Context, args: ClaimArgs) -> Result<u8> {
    let ClaimArgs { to, entries, from, force, consent } = args;
    let operator = context.writer(&consent)?;
    let scope = from.map_or(ClaimScope::Entries(entries), ClaimScope::Holder);
    let dead_ms = context.config.engine.node_dead_ms;
    let plan = claim::preview(&mut context.servers(), &scope, &to, dead_ms, force).await?;
    for part in &plan.parts {
        let (partition, entries, from, to) = (part.partition, part.count, &part.from, &part.to);
        context.out.say(&text!("cli-claim-part", partition, entries, from, to));
    }
    ask(&consent, &text!("cli-claim", entries = plan.count(), to))?;
    let reply = reply::run(context.out, &operator, Command::Claim(plan)).await?;
    let Reply::Claimed(report) = reply else { return Err(CliError::unexpected_reply()) };
    Ok(if report.claimed == 0 || report.cut_short { error::FAILED } else { 0 })
}

async fn remove(
    context: &mut Context,
    name: String,
    partition: Option<u16>,
    consent: &Consent,
) -> Result<u8> {
    let operator = context.writer(consent)?;
    let dead_ms = context.config.engine.node_dead_ms;
    // An invalid request is rejected before the question.
    let found = remove::preview(&mut context.servers(), &name, partition, dead_ms).await?;
    ask(consent, &text!("cli-remove-consumer", name, groups = found.partitions.len()))?;
    reply::run(context.out, &operator, Command::RemoveConsumer(found)).await.map(|_| 0)
}
