//! `seckill dead`: dead letters with verdicts on the current state of the servers.

use clap::{ArgGroup, Args, Subcommand};
use jiff::tz::TimeZone;
use seckill_engine::{
    EngineError,
    command::{Command, LetterScope, LettersCounted, LettersDiscarded, LettersReplayed, Reply},
    dead_letters::{JudgedLetter, LETTER_FIELDS, Letters},
};
use seckill_model::{
    EntryId, LetterAct, LetterCounts, LetterVerdict, Millis, Order, OrderId, UserId, VoucherId,
    dead_letter::{Burial, shown},
    filter::Filter,
};
use seckill_redis::dead_letters;
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

/// Dead letters per read.
const PAGE: usize = 500;
/// Longest displayed field.
const MOST_OF_FIELD: usize = 200;

#[derive(Debug, Subcommand)]
pub(super) enum DeadCommand {
    /// List dead letters with verdicts, oldest first
    List {
        /// Maximum number of letters
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Start at this letter
        #[arg(long, value_name = "LETTER")]
        from: Option<EntryId>,
        /// Only matching letters: 'verdict=awaited,age>1h,reason~stock'
        #[arg(long, value_name = "FILTER")]
        filter: Option<String>,
    },
    /// Show one letter: fields, history with reasons, and next step
    Show {
        /// ID of the letter
        letter: EntryId,
    },
    /// Replay letters whose buyer is waiting
    Replay {
        #[command(flatten)]
        which: Which,
        /// Include letters that reached the replay limit
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Discard letters
    Discard {
        #[command(flatten)]
        which: Which,
        /// Cancel the orders of waiting buyers and return stock and place
        #[arg(long)]
        compensate: bool,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["letters", "all", "filter"]))]
pub(super) struct Which {
    /// These letters
    #[arg(value_name = "LETTER")]
    letters: Vec<EntryId>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Matching letters: 'verdict=awaited,voucher=7,reason~stock'
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
}

#[derive(Serialize)]
struct Listing {
    total: u64,
    letters: Vec<Line>,
    next: Option<EntryId>,
}

#[derive(Serialize)]
struct Line {
    letter: EntryId,
    entry: Option<EntryId>,
    at: Millis,
    age_ms: u64,
    consumer: Option<String>,
    deliveries: u64,
    replays: u64,
    reason: String,
    order_id: Option<OrderId>,
    user_id: Option<UserId>,
    voucher_id: Option<VoucherId>,
    place: Option<u8>,
    fault: Option<String>,
    verdict: LetterVerdict,
    act: LetterAct,
    why: &'static str,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    line: Line,
    payload: Vec<Named>,
    history: Vec<Burial>,
    /// What SQL has under the order ID.
    row: Option<Order>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    value: String,
}

pub(super) async fn run(config: &Config, out: Output, command: DeadCommand) -> Result<u8, Fault> {
    // Invalid arguments are reported before anything is opened.
    let filter = match &command {
        DeadCommand::List { filter, .. } => filter.as_deref(),
        DeadCommand::Replay { which, .. } | DeadCommand::Discard { which, .. } => {
            which.filter.as_deref()
        }
        DeadCommand::Show { .. } => None,
    };
    let given = filter.is_some();
    let filter = Filter::parse(filter.unwrap_or_default(), LETTER_FIELDS)?;
    if given && filter.is_empty() {
        return Err(Fault::usage("an empty filter matches everything; omit it, or pass --all"));
    }
    let mut context = Context::open_answering(config).await?;
    let result = match command {
        DeadCommand::List { limit, from, .. } => {
            list(&context, out, &filter, from.unwrap_or(EntryId::MIN), limit).await
        }
        DeadCommand::Show { letter } => show(&context, out, letter).await,
        DeadCommand::Replay { which, force, consent } => {
            let act = Doing::Replay { force };
            apply(&mut context, out, which, filter, act, &consent).await
        }
        DeadCommand::Discard { which, compensate, consent } => {
            let act = Doing::Discard { compensate };
            apply(&mut context, out, which, filter, act, &consent).await
        }
    };
    context.close().await;
    result
}

fn reader(context: &Context) -> Letters {
    let (store, keys) = (context.store.clone(), context.keys.clone());
    Letters::new(&context.redis, store, keys, &context.config.engine)
}

async fn list(
    context: &Context,
    out: Output,
    filter: &Filter,
    from: EntryId,
    limit: usize,
) -> Result<u8, Fault> {
    let mut conn = context.redis.connection();
    let total = dead_letters::count(&mut conn, &context.keys).await?;
    let now = conn.now().await?;
    let mut reader = reader(context);
    let (mut found, mut next) = (Vec::new(), Some(from));
    // One extra row shows where the next page begins.
    while let Some(from) = next.filter(|_| found.len() <= limit) {
        let page = reader.page(from, EntryId::MAX, PAGE).await?;
        let Some(last) = page.last() else { break };
        next = last.letter.letter.next_of_all();
        let passing = page.into_iter().filter(|it| filter.passes(|field| it.fact(field, now)));
        found.extend(passing.map(|judged| line(&judged, now)));
    }
    let next = found.get(limit).map(|line| line.letter);
    found.truncate(limit);
    let listing = Listing { total, letters: found, next };
    out.answer(&listing, || render(&listing, filter))?;
    Ok(if listing.letters.is_empty() && !filter.is_empty() { fault::NO } else { 0 })
}

async fn show(context: &Context, out: Output, letter: EntryId) -> Result<u8, Fault> {
    let now = context.redis.connection().now().await?;
    let Some(judged) = reader(context).named(&[letter]).await?.into_iter().next() else {
        return Err(Fault::no(format!(
            "dead letter {letter} does not exist; see 'seckill dead list'"
        )));
    };
    let text = |raw: &[u8]| shown(&String::from_utf8_lossy(raw), MOST_OF_FIELD);
    let payload = judged
        .letter
        .body
        .iter()
        .map(|(name, value)| Named { name: text(name), value: text(value) })
        .collect();
    let shown = Shown {
        line: line(&judged, now),
        payload,
        history: judged.letter.history(),
        row: judged.row,
    };
    out.answer(&shown, || describe(&shown))?;
    Ok(0)
}

#[derive(Clone, Copy)]
enum Doing {
    Replay { force: bool },
    Discard { compensate: bool },
}

/// Counts by verdict, asks for confirmation, and applies.
async fn apply(
    context: &mut Context,
    out: Output,
    which: Which,
    filter: Filter,
    doing: Doing,
    consent: &Consent,
) -> Result<u8, Fault> {
    let operator = context.operator(consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let named = !which.letters.is_empty();
    let scope = if named {
        LetterScope::Letters(which.letters)
    } else {
        LetterScope::Matching { filter, last: EntryId::MAX }
    };
    let stop = CancellationToken::new();
    let found = reader(context).count(&scope, &stop).await?;
    let LettersCounted { counts, gone, .. } = found;
    if counts.total() == 0 {
        return Err(Fault::no(if named {
            "none of these dead letters exist; see 'seckill dead list'"
        } else {
            "no dead letters match; see 'seckill dead list'"
        }));
    }
    let scope = scope.as_counted(&found);
    out.say(&tally(&counts, gone));
    ask(consent, &doing.question(&counts))?;
    // Only after the question, where Ctrl-C ends the program.
    let mut end = EndOfLife::listen()?;
    let command = match doing {
        Doing::Replay { force } => Command::ReplayLetters { scope, force },
        Doing::Discard { compensate } => Command::DiscardLetters { scope, compensate },
    };
    let compensated = matches!(command, Command::DiscardLetters { compensate: true, .. });
    let acting = operator.execute(command, &stop);
    tokio::pin!(acting);
    let reply = tokio::select! {
        reply = &mut acting => reply,
        // Interrupted: finish the current page and report the result.
        () = end.come() => {
            stop.cancel();
            acting.await
        }
    };
    let (done, refused, gone, cut_short) = match reply? {
        Reply::LettersReplayed(report) => {
            out.answer(&report, || replayed(&report))?;
            (report.replayed, report.refused.total(), report.gone, report.cut_short)
        }
        Reply::LettersDiscarded(report) => {
            out.answer(&report, || discarded(&report, compensated))?;
            (report.discarded, report.refused.total(), report.gone, report.cut_short)
        }
        _ => return Err(Fault::no("unexpected reply from the engine to a dead letter command")),
    };
    // Explicitly named dead letters are all included.
    let short = done == 0 || cut_short || (named && refused + gone > 0);
    Ok(if short { fault::NO } else { 0 })
}

impl Doing {
    fn question(self, counts: &LetterCounts) -> String {
        let waiting = counts.awaited + counts.came_back + counts.not_loaded;
        match self {
            Self::Replay { force } => {
                let some = counts.awaited + if force { counts.came_back } else { 0 };
                format!(
                    "Replay {} into the order stream? The others are kept.",
                    counted(some, "dead letter", "dead letters")
                )
            }
            Self::Discard { compensate: true } => format!(
                "Delete {} permanently, cancel the orders of {}, and return their stock?",
                counted(counts.total() - counts.id_taken, "dead letter", "dead letters"),
                counted(waiting, "buyer who waits", "buyers who wait")
            ),
            Self::Discard { compensate: false } => format!(
                "Delete {} permanently? Letters of waiting buyers are kept: --compensate returns their stock.",
                counted(counts.total() - counts.id_taken - waiting, "dead letter", "dead letters")
            ),
        }
    }
}

fn line(judged: &JudgedLetter, now: Millis) -> Line {
    let JudgedLetter { letter, verdict, .. } = judged;
    let order = letter.order;
    Line {
        letter: letter.letter,
        entry: letter.entry,
        at: letter.at,
        age_ms: now.since(letter.at),
        consumer: Some(letter.consumer.clone()).filter(|name| !name.is_empty()),
        deliveries: letter.deliveries,
        replays: letter.replays,
        reason: letter.reason.to_string(),
        order_id: order.map(|order| order.order),
        user_id: order.map(|order| order.user),
        voucher_id: order.map(|order| order.voucher),
        place: order.map(|order| order.place),
        fault: letter.fault.as_ref().map(ToString::to_string),
        verdict: *verdict,
        act: verdict.act(),
        why: verdict.why(),
    }
}

fn render(listing: &Listing, filter: &Filter) -> String {
    if listing.letters.is_empty() {
        return if filter.is_empty() {
            "No dead letters.".to_owned()
        } else {
            format!("None of {} matches.", number(listing.total))
        };
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = listing
        .letters
        .iter()
        .map(|line| {
            vec![
                line.letter.to_string(),
                span(line.age_ms),
                line.replays.to_string(),
                or_dash(line.order_id.map(|id| id.to_string())),
                or_dash(line.user_id.map(|id| id.to_string())),
                or_dash(line.voucher_id.map(|id| format!("#{id}"))),
                line.verdict.to_string(),
                line.act.to_string(),
                shown(&line.reason, 60),
            ]
        })
        .collect();
    let head = ["letter", "age", "replays", "order", "user", "sale", "verdict", "act", "reason"];
    let mut text = table(&head, &[1, 2, 3, 4, 5], &rows);
    if let Some(next) = listing.next {
        text.push_str(&format!(
            "{} of {} shown; next page: --from {next}\n",
            number(listing.letters.len() as u64),
            number(listing.total)
        ));
    }
    text.push_str("Next: 'seckill dead replay' or 'seckill dead discard'.");
    text
}

fn describe(shown: &Shown) -> String {
    let (line, zone) = (&shown.line, TimeZone::system());
    let mut text = format!("dead letter {}", line.letter);
    if let Some(entry) = line.entry {
        text.push_str(&format!(", was entry {entry}"));
    }
    text.push_str(&format!("\n  {}: {}\n  fields", line.verdict, line.why));
    for Named { name, value } in shown.payload.iter().filter(|it| it.name != "history") {
        text.push_str(&format!("\n    {name} = {value}"));
    }
    if let Some(fault) = &line.fault {
        text.push_str(&format!("\n  no order: {fault}"));
    }
    if let Some(row) = &shown.row {
        text.push_str(&format!(
            "\n  in SQL: order {} of buyer {}, sale #{}, {}",
            row.id, row.user_id, row.voucher_id, row.status
        ));
    }
    text.push_str(&format!("\n  dead after {} replays", line.replays));
    for Burial { at, consumer, deliveries, reason } in &shown.history {
        let from = if consumer.is_empty() { "no consumer" } else { consumer };
        text.push_str(&format!(
            "\n    {}  {}, from {from}: {reason}",
            at.date_time(&zone),
            counted(*deliveries, "delivery", "deliveries")
        ));
    }
    text
}

/// Number of dead letters per verdict, one per line.
fn tally(counts: &LetterCounts, gone: u64) -> String {
    let mut text = counted(counts.total(), "dead letter", "dead letters");
    text.push_str(&by_verdict(counts));
    if gone > 0 {
        text.push_str(&format!("\n  {:>10}  not found", number(gone)));
    }
    text
}

fn by_verdict(counts: &LetterCounts) -> String {
    let mut text = String::new();
    for &verdict in LetterVerdict::ALL {
        let count = counts.of(verdict);
        if count > 0 {
            text.push_str(&format!("\n  {:>10}  {verdict}: {}", number(count), verdict.why()));
        }
    }
    text
}

fn replayed(report: &LettersReplayed) -> String {
    let text = format!("Put {} back", counted(report.replayed, "dead letter", "dead letters"));
    text + &rest(&report.refused, report.gone, report.cut_short)
}

fn discarded(report: &LettersDiscarded, compensate: bool) -> String {
    let mut text = format!("Removed {}", counted(report.discarded, "dead letter", "dead letters"));
    if report.compensated + report.given_back > 0 {
        text.push_str(&format!(
            "; {} cancelled, {} went back",
            counted(report.compensated, "order is", "orders are"),
            counted(report.given_back, "piece", "pieces")
        ));
    }
    text.push_str(&rest(&report.refused, report.gone, report.cut_short));
    let LetterCounts { awaited, came_back, not_loaded, .. } = report.refused;
    if !compensate && awaited + came_back + not_loaded > 0 {
        text.push_str(
            "\nSome have waiting buyers: replay them, or discard them with --compensate.",
        );
    }
    text
}

fn rest(refused: &LetterCounts, gone: u64, cut_short: bool) -> String {
    let mut text = String::new();
    if cut_short {
        text.push_str("; interrupted, run it again for the rest");
    }
    if gone > 0 {
        text.push_str(&format!("\n  {:>10}  no longer present", number(gone)));
    }
    if refused.total() > 0 {
        text.push_str(&format!("\n  {:>10}  stay:", number(refused.total())));
        text.push_str(&by_verdict(refused));
    }
    text
}
