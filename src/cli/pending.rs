//! `seckill pending`: entries that were delivered and not acknowledged.

use clap::Subcommand;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, number, span, table, why},
    work::EndOfLife,
};
use crate::{
    broker::{stream::Body, survey},
    config::Config,
    engine::{
        command::{Command, ReplayReport, ReplayScope, Reply},
        pending::{Judged, Replayer},
    },
    model::{Act, EntryId, OrderId, UserId, Verdict, VoucherId},
};

#[derive(Debug, Subcommand)]
pub(super) enum PendingCommand {
    /// Pending entries with their verdicts, oldest first
    List {
        /// Most entries to show
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Start at this entry
        #[arg(long, value_name = "ENTRY")]
        from: Option<EntryId>,
    },
    /// Do for each pending entry what its verdict asks for
    Apply {
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Serialize)]
struct Listing {
    total: u64,
    entries: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    entry: EntryId,
    consumer: String,
    idle_ms: u64,
    deliveries: u64,
    order_id: Option<OrderId>,
    user_id: Option<UserId>,
    voucher_id: Option<VoucherId>,
    fault: Option<String>,
    verdict: Verdict,
    act: Act,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    command: PendingCommand,
) -> Result<u8, Fault> {
    let mut context = Context::open_answering(config).await?;
    let result = match command {
        PendingCommand::List { limit, from } => {
            list(&mut context, out, from.unwrap_or(EntryId::MIN), limit).await
        }
        PendingCommand::Apply { consent } => apply(&mut context, out, &consent).await,
    };
    context.close().await;
    result
}

async fn list(
    context: &mut Context,
    out: Output,
    from: EntryId,
    limit: usize,
) -> Result<u8, Fault> {
    let total = total(context).await?;
    let mut replayer = replayer(context)?;
    let (mut entries, mut from) = (Vec::new(), from);
    while entries.len() < limit {
        let page = replayer.judge(from, EntryId::MAX).await?;
        let Some(last) = page.last() else { break };
        from = last.row.delivered.entry.next_of_all();
        entries.extend(page.into_iter().map(line));
    }
    entries.truncate(limit);
    let listing = Listing { total, entries };
    out.answer(&listing, || words(&listing))?;
    Ok(0)
}

async fn apply(context: &mut Context, out: Output, consent: &Consent) -> Result<u8, Fault> {
    let mut operator = context.operator(consent.reason.clone())?;
    let total = total(context).await?;
    if total == 0 {
        out.answer(&ReplayReport::default(), || "Nothing is pending.".to_owned())?;
        return Ok(fault::NO);
    }
    // Entries that become pending from now on were not asked about.
    let mut link = context.redis.link();
    let now = link.now().await?;
    let last = EntryId::last_of(u64::try_from(now.0).unwrap_or(0));
    if !operator.read_only {
        let question = format!(
            "Replay {} pending entries? Orders that are not in SQL are written, those that are get \
             acknowledged; what a live node holds is left.",
            number(total)
        );
        operator.reason = why(consent);
        ask(consent, &question)?;
    }
    // Not before the question, which Ctrl-C answers by ending the program.
    let mut end = EndOfLife::listen()?;
    let command = Command::Replay(ReplayScope::UpTo(last));
    let stop = CancellationToken::new();
    let replaying = operator.execute(command, &stop);
    tokio::pin!(replaying);
    let reply = tokio::select! {
        reply = &mut replaying => reply,
        // Asked to end: the page in hand is finished, and what was done is told.
        () = end.come() => {
            stop.cancel();
            replaying.await
        }
    };
    let Reply::Replayed(report) = reply? else {
        return Err(Fault::no("the engine answered something else than a replay"));
    };
    out.answer(&report, || told(&report))?;
    let nothing_done = report.seen == report.left && report.seen > 0;
    Ok(if nothing_done || report.cut_short { fault::NO } else { 0 })
}

async fn total(context: &Context) -> Result<u64, Fault> {
    let mut link = context.redis.link();
    let survey = survey::survey(&mut link, &context.keys, &[], EntryId::MIN, 1).await?;
    Ok(survey.stream.pending)
}

fn replayer(context: &mut Context) -> Result<Replayer, Fault> {
    let node = context.node_name()?;
    let (store, keys) = (context.store.clone(), context.keys.clone());
    Ok(Replayer::new(&node, &context.redis, store, keys, context.config.engine.clone()))
}

fn line(judged: Judged) -> Line {
    let Judged { row, verdict } = judged;
    let order = row.delivered.order();
    Line {
        entry: row.delivered.entry,
        consumer: row.consumer,
        idle_ms: row.idle_ms,
        deliveries: row.deliveries,
        order_id: order.map(|order| order.order),
        user_id: order.map(|order| order.user),
        voucher_id: order.map(|order| order.voucher),
        fault: match row.delivered.body {
            Body::Good(_) => None,
            Body::Malformed(fault) => Some(fault.to_string()),
            Body::Gone => Some("its body is gone from the stream".to_owned()),
        },
        verdict,
        act: verdict.act(),
    }
}

fn words(listing: &Listing) -> String {
    if listing.entries.is_empty() {
        return "Nothing is pending.".to_owned();
    }
    let shown = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = listing
        .entries
        .iter()
        .map(|line| {
            vec![
                line.entry.to_string(),
                line.consumer.clone(),
                span(line.idle_ms),
                line.deliveries.to_string(),
                shown(line.order_id.map(|id| id.to_string())),
                shown(line.user_id.map(|id| id.to_string())),
                shown(line.voucher_id.map(|id| id.to_string())),
                line.fault.clone().unwrap_or_else(|| verdict(line.verdict).to_owned()),
            ]
        })
        .collect();
    let head = ["entry", "consumer", "idle", "deliveries", "order", "user", "sale", "verdict"];
    let mut text = table(&head, &[2, 3, 4, 5, 6], &rows);
    if listing.total > listing.entries.len() as u64 {
        text.push_str(&format!(
            "{} of {} shown; --limit and --from show others.\n",
            number(listing.entries.len() as u64),
            number(listing.total)
        ));
    }
    text.push_str("'seckill pending apply' does what follows for each.");
    text
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Written => "in SQL: acknowledge",
        Verdict::Stuck => "stuck: claim and write",
        Verdict::InHand => "in a live node's hands: leave",
        Verdict::BodyGone => "body gone: rebuild",
        Verdict::Malformed => "malformed: dead letter",
        Verdict::TooOften => "delivered too often: dead letter",
    }
}

fn told(report: &ReplayReport) -> String {
    let mut text = format!("Replayed {} entries", number(report.seen));
    if report.cut_short {
        text.push_str("; it was cut short, so run it again for the rest");
    }
    let parts = [
        (report.persisted, "written"),
        (report.acknowledged, "acknowledged"),
        (report.rebuilt, "rebuilt"),
        (report.dead, "put among the dead letters"),
        (report.left, "left to live nodes"),
        (report.gone, "no longer pending"),
        (report.lost, "LOST: their bodies are gone and no buyer is known"),
    ];
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("\n  {:>10}  {what}", number(count)));
    }
    text
}
