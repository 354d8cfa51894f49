//! `seckill dead`: dead letters with verdicts on the current state of the servers.

use clap::{ArgGroup, Args, Subcommand};
use seckill_engine::{
    Command, Reply,
    recovery::dead_letters::{
        ClassifiedLetter, LETTER_FIELDS, LetterScope, Letters, LettersCounted,
    },
};
use seckill_model::{
    EntryId, Filter, Label, LetterAction, LetterCounts, LetterVerdict, Millis, Order, OrderId,
    UserId, VoucherId,
    dead_letter::{Burial, shown},
    in_english, text,
};
use seckill_redis::dead_letters::{self, DeadLetter};
use seckill_text::audit_log::order_error;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, counts, error, local,
    or_dash,
    output::{self, limit},
    pending::{action, verdict},
    plain, reply, span,
};

/// Dead letters per read.
const PAGE: usize = 500;

#[derive(Debug, Subcommand)]
pub(super) enum DeadCommand {
    /// List dead letters with verdicts, oldest first
    List {
        /// Maximum number of dead letters
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = limit())]
        limit: usize,
        /// Start at this dead letter
        #[arg(long, value_name = "LETTER")]
        from: Option<EntryId>,
        /// Only dead letters that match all terms, such as 'verdict=awaited,age>1h,reason~stock'; fields: letter,
        /// entry, reason, consumer, voucher, user, order, replays, deliveries, age, verdict, action
        #[arg(long, value_name = "TERMS", value_parser = letter_filter)]
        filter: Option<Filter>,
    },
    /// Show one dead letter: fields, history with reasons, and next step
    Show {
        /// ID of the dead letter
        letter: EntryId,
    },
    /// Replay dead letters whose buyer is waiting for the order
    Replay {
        #[command(flatten)]
        which: Which,
        /// Include dead letters that reached the replay limit
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        consent: Consent,
    },
    /// Discard dead letters; those of waiting buyers only with --compensate
    Discard {
        #[command(flatten)]
        which: Which,
        /// Cancel the orders of waiting buyers and return their stock and places
        #[arg(long)]
        compensate: bool,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["letters", "all", "filter"]))]
pub(super) struct Which {
    /// IDs of dead letters, as in 'dead list'
    #[arg(value_name = "LETTER")]
    letters: Vec<EntryId>,
    /// All dead letters
    #[arg(long)]
    all: bool,
    /// Dead letters that match all terms, such as 'verdict=awaited,voucher=7,reason~stock'; fields as in 'dead list'
    #[arg(long, value_name = "TERMS", value_parser = letter_filter)]
    filter: Option<Filter>,
}

#[derive(Serialize)]
struct Listing {
    total: u64,
    letters: Vec<Listed>,
    next: Option<EntryId>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    letter: DeadLetter,
    age_ms: u64,
    order_id: Option<OrderId>,
    user_id: Option<UserId>,
    voucher_id: Option<VoucherId>,
    place: Option<u8>,
    verdict: LetterVerdict,
    action: LetterAction,
    why: String,
}

impl Listed {
    fn of(found: ClassifiedLetter, now: Millis) -> Self {
        let ClassifiedLetter { letter, verdict, .. } = found;
        let order = letter.order;
        Self {
            age_ms: now.since(letter.at),
            order_id: order.map(|it| it.order),
            user_id: order.map(|it| it.user),
            voucher_id: order.map(|it| it.voucher),
            place: order.map(|it| it.place),
            verdict,
            action: verdict.action(),
            why: in_english(|| verdict.why()),
            letter,
        }
    }
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    letter: Listed,
    /// What SQL has under the order ID.
    row: Option<Order>,
}

fn letter_filter(text: &str) -> Result<Filter, String> {
    output::filter(text, LETTER_FIELDS)
}

pub(super) async fn run(config: &Config, out: Output, command: DeadCommand) -> Result<u8> {
    let needs = match command {
        DeadCommand::List { .. } => Needs::Readable,
        _ => Needs::Both,
    };
    let done = Context::with(config, out, needs, async |context| match command {
        DeadCommand::List { limit, from, filter } => {
            let from = from.unwrap_or(EntryId::MIN);
            list(context, &filter.unwrap_or_default(), from, limit).await
        }
        DeadCommand::Show { letter } => show(context, letter).await,
        DeadCommand::Replay { which, force, consent } => {
            let command = |scope| Command::ReplayLetters { scope, force };
            apply(context, which, command, &consent).await
        }
        DeadCommand::Discard { which, compensate, consent } => {
            let command = |scope| Command::DiscardLetters { scope, compensate };
            apply(context, which, command, &consent).await
        }
    });
    done.await
}

fn reader(context: &Context) -> Letters {
    Letters::new(context.servers(), &context.config.engine)
}

async fn list(context: &Context, filter: &Filter, from: EntryId, limit: usize) -> Result<u8> {
    let mut servers = context.servers();
    let (conn, keys) = (&mut servers.conn, &servers.keys);
    let lost = conn.probe(keys).await.to_vec();
    let total = dead_letters::count(conn, keys).await?;
    let now = conn.now_of_reachable(keys).await?;
    let mut reader = Letters::new(servers, &context.config.engine);
    let (mut found, mut next) = (Vec::new(), Some(from));
    // One extra row shows where the next page begins.
    while let Some(from) = next.filter(|_| found.len() <= limit) {
        let page = reader.page(from, EntryId::MAX, PAGE).await?;
        let Some(last) = page.last() else { break };
        next = last.letter.letter.next_of_all();
        let passing = page.into_iter().filter(|it| filter.passes(|field| it.fact(field, now)));
        found.extend(passing.map(|it| Listed::of(it, now)));
    }
    let next = found.get(limit).map(|it| it.letter.letter);
    found.truncate(limit);
    let listing = Listing { total, letters: found, next };
    let code = context.out.answer(&listing, || render(&listing, filter))?;
    Ok(CliError::name_lost(&lost, code))
}

async fn show(context: &Context, letter: EntryId) -> Result<u8> {
    let now = context.redis.connection().now().await?;
    let found = reader(context).named(&[letter]).await?.into_iter().next();
    let Some(mut found) = found else {
        return Err(CliError::failed(text!("cli-dead-missing", letter)));
    };
    let row = found.row.take();
    let shown = Shown { letter: Listed::of(found, now), row };
    context.out.answer(&shown, || describe(&shown))
}

/// Counts by verdict, asks for confirmation, and applies.
async fn apply(
    context: &mut Context,
    which: Which,
    command: impl FnOnce(LetterScope) -> Command,
    consent: &Consent,
) -> Result<u8> {
    let operator = context.writer(consent)?;
    let named = !which.letters.is_empty();
    let scope = if named {
        LetterScope::Letters(which.letters)
    } else {
        LetterScope::Matching { filter: which.filter.unwrap_or_default(), last: EntryId::MAX }
    };
    let stop = CancellationToken::new();
    let found = reader(context).count(&scope, &stop).await?;
    let LettersCounted { counts, gone, .. } = &found;
    if counts.total() == 0 {
        let none = if named { Label("cli-dead-none-of-these") } else { Label("cli-dead-no-match") };
        return Err(CliError::failed(none));
    }
    let command = command(scope.as_counted(&found));
    context.out.say(&tally(counts, *gone));
    match question(&command, counts) {
        Some(question) => ask(consent, &question)?,
        // With --yes, the reply lists the refused ones.
        None if consent.yes => {}
        None => return Err(CliError::failed(Label("cli-dead-nothing-to-do"))),
    }
    let reply = reply::run(context.out, &operator, command).await?;
    let (done, refused, gone, cut_short) = match reply {
        Reply::LettersReplayed(it) => (it.replayed, it.refused, it.gone, it.cut_short),
        Reply::LettersDiscarded(it) => (it.discarded, it.refused, it.gone, it.cut_short),
        _ => return Err(CliError::unexpected_reply()),
    };
    // Explicitly named dead letters are all included.
    let short = done == 0 || cut_short || (named && refused.total() + gone > 0);
    Ok(if short { error::FAILED } else { 0 })
}

/// The confirmation; `None` if no dead letter would be processed.
fn question(command: &Command, counts: &LetterCounts) -> Option<String> {
    let (letters, waiting) = (counts.total() - counts.of(LetterVerdict::IdTaken), counts.waiting());
    let (letters, question) = match command {
        Command::ReplayLetters { force, .. } => {
            let again = if *force { counts.of(LetterVerdict::CameBack) } else { 0 };
            let letters = counts.of(LetterVerdict::Awaited) + again;
            (letters, text!("cli-dead-replay", letters))
        }
        Command::DiscardLetters { compensate: true, .. } => {
            (letters, text!("cli-dead-compensate", letters, buyers = waiting))
        }
        _ => (letters - waiting, text!("cli-dead-discard", letters = letters - waiting)),
    };
    (letters > 0).then_some(question)
}

fn render(listing: &Listing, filter: &Filter) -> String {
    let Listing { total, letters, next } = listing;
    if letters.is_empty() {
        return if filter.is_empty() {
            Label("cli-dead-none").to_owned()
        } else {
            text!("cli-dead-none-of", total)
        };
    }
    let table = Table::new(letters)
        .left(&Label("column-letter"), |it| it.letter.letter)
        .right(&Label("column-age"), |it| span(it.age_ms))
        .right(&Label("column-replays"), |it| it.letter.replays)
        .right(&Label("column-order"), |it| or_dash(it.order_id))
        .right(&Label("column-user"), |it| or_dash(it.user_id))
        .right(&Label("column-sale"), |it| or_dash(it.voucher_id.map(|id| format!("#{id}"))))
        .left(&Label("column-verdict"), |it| verdict(it.verdict))
        .left(&Label("column-action"), |it| action(it.action))
        .left(&Label("column-reason"), |it| shown(&order_error(&it.letter.reason), 60));
    let mut text = table.to_string();
    if let Some(next) = next {
        let shown = letters.len();
        text.push_str(&format!("{}\n", text!("cli-dead-more", shown, total, next)));
    }
    text + &Label("cli-dead-next")
}

fn describe(shown: &Shown) -> String {
    let Listed { letter, verdict: found, .. } = &shown.letter;
    let mut text = match letter.entry {
        Some(entry) => text!("cli-dead-letter-of", letter = letter.letter, entry),
        None => text!("cli-dead-letter", letter = letter.letter),
    };
    let (verdict, why) = (verdict(*found), found.why());
    let why = text!("common-named", name = verdict, text = why);
    text.push_str(&format!("\n  {why}\n  {}", Label("cli-dead-fields")));
    let fields = letter.payload.iter();
    text.extend(fields.map(|(name, value)| format!("\n    {} = {}", plain(name), plain(value))));
    let fault = letter.fault.as_ref().map(order_error);
    text.extend(fault.map(|fault| format!("\n  {}", text!("cli-dead-no-order", fault))));
    if let Some(Order { id, user_id, voucher_id, status, .. }) = &shown.row {
        let status = text!("orders-status-name", status);
        let row = text!("cli-dead-row", id, user_id, voucher_id, status);
        text.push_str(&format!("\n  {row}"));
    }
    text.push_str(&format!("\n  {}", text!("cli-dead-replays", replays = letter.replays)));
    for Burial { at, consumer, deliveries, reason } in &letter.history {
        let from = match consumer.as_str() {
            "" => Label("cli-dead-no-consumer").to_owned(),
            consumer => consumer.to_owned(),
        };
        let (at, reason) = (local(*at), order_error(reason));
        let burial = text!("cli-dead-burial", at, deliveries, from, reason);
        text.push_str(&format!("\n    {burial}"));
    }
    text
}

/// Number of dead letters per verdict, one per line.
fn tally(letters: &LetterCounts, gone: u64) -> String {
    let named = |it: LetterVerdict| text!("common-named", name = verdict(it), text = it.why());
    let of = |it: &LetterVerdict| (letters.of(*it), named(*it));
    let text = text!("subject-letters", count = letters.total());
    let counted: Vec<_> = LetterVerdict::ALL.iter().map(of).collect();
    text + &counts(&counted) + &counts(&[(gone, Label("cli-dead-not-found"))])
}
