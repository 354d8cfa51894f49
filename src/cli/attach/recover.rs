//! `seckill attach recover`: a plan, its application after a confirmation, and what is left.

use std::{collections::BTreeSet, slice};

use clap::Args;
use rustix::system::uname;
use seckill_attach::{
    Limits, Profile,
    recover::{
        Applied, Change, EntryPlan, Letter, Log, NewGroup, Options, Plan, Proof, Recovery, SalePlan,
    },
};
use seckill_engine::{
    EngineError,
    commands::{audit_record::check_reason, command_handler::login_name},
};
use seckill_model::{ForeignKey, Label, RecoveryAction, Verdict, text};
use seckill_redis::Redis;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Consent, Output, Result, Table, ask, ask_reason, count_in, counts, fields,
    local, number, or_dash,
    pending::{action, verdict},
    signals::Signals,
    span,
};

/// Displayed entries of a plan; `--json` has all of them.
const SHOWN: usize = 20;
/// The log, in the data directory.
const LOG: &str = "attach-recover.jsonl";

#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    /// Apply the plan after a confirmation, and count what is left; without it, the plan is only shown
    #[arg(long)]
    operate: bool,
    /// Seconds after which a pending entry is stuck, and a consumer is dead; for as long, nothing of a sale must move before
    /// its stock is raised or a buyer removed
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = count_in(1..=86_400))]
    stuck: u64,
    /// Maximum orders, and buyers, read per pass; beyond that they are not compared, and no stock is raised [default:
    /// 100000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=10_000_000))]
    compare: Option<u64>,
    /// Most entries to process, or dead letters to list; run it again for the rest
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count_in(1..=1_000_000))]
    max: u64,
    /// Also remove buyers with neither an order nor an entry, who can then buy again
    #[arg(long)]
    remove_buyers: bool,
    /// State that no sale without a stock in Redis has moved to an engine, which cannot be seen if Redis has lost data: such
    /// a sale is loaded again, and its orders are written
    #[arg(long)]
    not_moved: bool,
    /// State that the service is stopped and no order waits in its memory, which cannot be seen; required with --operate
    /// if the profile has no stream
    #[arg(long)]
    service_stopped: bool,
    /// List the entries that recoveries have given up, oldest first, and do nothing else
    #[arg(long, conflicts_with_all = ["operate", "replay", "remove_buyers"])]
    dead_letters: bool,
    /// Show this dead letter; with --operate, add its body to the stream of the service again and delete the letter
    #[arg(long, value_name = "LETTER", conflicts_with = "remove_buyers")]
    replay: Option<String>,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Serialize)]
struct Report<'r> {
    plan: &'r Plan,
    applied: &'r Applied,
    proof: &'r Proof,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    profile: Profile,
    redis: &Redis,
    database: &str,
    args: &RecoverArgs,
) -> Result<u8> {
    if args.operate && config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let has_stream = profile.has_stream();
    if has_stream && args.service_stopped {
        return Err(CliError::usage(Label("attach-recover-has-stream")));
    }
    if !has_stream && args.operate && !args.service_stopped {
        return Err(CliError::failed(Label("attach-move-memory")));
    }
    let consent = &args.consent;
    check_reason(consent.reason.reason.as_deref())?;
    let mut limits = Limits { stuck_ms: args.stuck * 1_000, ..Limits::default() };
    if let Some(compare) = args.compare {
        (limits.orders, limits.buyers) = (compare as usize, compare as usize);
    }
    let settings = &config.store;
    let options = Options { remove_buyers: args.remove_buyers, not_moved: args.not_moved };
    let mut recovery = Recovery::new(profile.clone(), limits, redis, database, settings, options)?;
    if args.dead_letters {
        let most = usize::try_from(args.max).unwrap_or(usize::MAX);
        return letters(out, &mut recovery, most).await;
    }
    if let Some(id) = &args.replay {
        return replay(config, out, &mut recovery, id, args).await;
    }
    let plan = recovery.plan().await?;
    if !args.operate {
        return out.verdict(!plan.is_empty(), &plan, || {
            let next = if plan.is_empty() { "" } else { &Label("attach-recover-next") };
            preview(&plan, &profile, args.max) + next
        });
    }
    out.say(preview(&plan, &profile, args.max).trim_end());
    let mut applied = Applied::default();
    if !plan.is_empty() {
        let reason = ask_reason(consent);
        check_reason(reason.as_deref())?;
        let entries = args.max.min(plan.entries.len() as u64);
        ask(consent, &text!("attach-recover-ask", entries))?;
        let mut log = open_log(config, reason)?;
        let (mut signals, stop) = (Signals::listen()?, CancellationToken::new());
        let stops = || stop.is_cancelled();
        let server = (database, settings);
        let work = recovery.apply(&plan, args.max, server, &mut log, stops, &mut applied);
        if let Err(error) = signals.cancelling(&stop, Box::pin(work)).await {
            out.say(&done(&applied));
            return Err(error.into());
        }
    }
    let proof = recovery.prove().await?;
    let is_positive = !plan.is_empty() && applied.is_complete() && proof.is_clean();
    let report = Report { plan: &plan, applied: &applied, proof: &proof };
    out.verdict(is_positive, &report, || {
        let did = if plan.is_empty() { String::new() } else { done(&applied) + "\n" };
        did + &left(&proof)
    })
}

fn open_log(config: &Config, reason: Option<String>) -> Result<Log> {
    let (host, pid) = (uname(), std::process::id());
    let host = host.nodename().to_string_lossy();
    let operator = format!("{}@{host} (PID {pid})", login_name());
    let path = config.open_data_dir()?.path().join(LOG);
    Ok(Log::open(&path, operator, reason)?)
}

/// Lists dead letters.
async fn letters(out: Output, recovery: &mut Recovery, max: usize) -> Result<u8> {
    // One more shows whether these are all.
    let mut letters = recovery.letters(max.saturating_add(1)).await?;
    let more = letters.len() > max;
    letters.truncate(max);
    out.answer(&json!({ "letters": letters, "more": more }), || {
        if letters.is_empty() {
            return Label("cli-dead-none").to_owned();
        }
        let more = if more { &Label("attach-letters-more") } else { "" };
        format!("{}{more}", letter_table(&letters))
    })
}

/// Shows a dead letter, and with `--operate` replays it.
async fn replay(
    config: &Config,
    out: Output,
    recovery: &mut Recovery,
    id: &str,
    args: &RecoverArgs,
) -> Result<u8> {
    let letter = recovery.letter(id).await?;
    let shown = letter_table(slice::from_ref(&letter)).to_string();
    if !args.operate {
        let document = json!({ "letter": letter, "replayed": null });
        return out.answer(&document, || shown + &Label("attach-recover-next"));
    }
    out.say(shown.trim_end());
    let reason = ask_reason(&args.consent);
    check_reason(reason.as_deref())?;
    ask(&args.consent, &text!("attach-letter-ask", letter = id))?;
    let entry = recovery.replay(&letter, &mut open_log(config, reason)?).await?;
    out.answer(&json!({ "letter": letter, "replayed": entry }), || {
        text!("attach-letter-replayed", letter = id, entry)
    })
}

fn letter_table(letters: &[Letter]) -> Table<'_, Letter> {
    Table::new(letters)
        .left(&Label("column-letter"), |it| it.letter.clone())
        .left(&Label("column-at"), |it| or_dash(it.at.map(local)))
        .left(&Label("column-entry"), |it| it.entry.clone())
        .left(&Label("column-holder"), |it| or_dash(Some(&it.consumer).filter(|it| !it.is_empty())))
        .left(&Label("column-reason"), |it| it.reason.clone())
        .left(&Label("cli-dead-fields"), |it| {
            let pairs = it.body.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>().join(" ")
        })
}

/// What a plan does, and the figures before and after.
fn preview(plan: &Plan, profile: &Profile, max: u64) -> String {
    let mut text = String::new();
    if plan.stream.is_empty() {
        text.push_str(&format!("{}\n", Label("attach-recover-memory")));
    }
    let is_settled = plan.unwritable.is_empty() && plan.not_promised.is_empty();
    if plan.is_empty() && is_settled && plan.maybe_moved.is_empty() {
        text.push_str(&format!("{}\n", Label("attach-recover-nothing")));
    }
    if let Some(NewGroup { start, again }) = &plan.create_group {
        let (stream, group) = (&plan.stream, &plan.group);
        let line = text!("attach-recover-group", stream, group, start, again);
        text.push_str(&format!("{line}\n"));
    }
    if !plan.entries.is_empty() {
        let shown = plan.entries.get(..SHOWN).unwrap_or(&plan.entries);
        text.push_str(&entries(shown).to_string());
        if plan.entries.len() > SHOWN {
            let more = plan.entries.len() - SHOWN;
            text.push_str(&format!("{}\n", text!("cli-plan-more", more)));
        }
        let count = |it| plan.count(it);
        let line = text!(
            "attach-recover-counts",
            replays = count(RecoveryAction::Process),
            written = count(RecoveryAction::Acknowledge),
            dead = count(RecoveryAction::DeadLetter)
        );
        text.push_str(&format!("{line}\n"));
    }
    if !plan.unwritable.is_empty() {
        let shown = plan.unwritable.get(..SHOWN).unwrap_or(&plan.unwritable);
        let line = text!("attach-recover-unwritable", entries = plan.unwritable.len());
        text.push_str(&format!("{line}\n{}", entries(shown)));
        if plan.unwritable.len() > SHOWN {
            let more = plan.unwritable.len() - SHOWN;
            text.push_str(&format!("{}\n", text!("cli-plan-more", more)));
        }
    }
    text.push_str(&not_buyers(plan, profile));
    for voucher in &plan.maybe_moved {
        let key = profile.keys.stock.replace("{voucher}", &voucher.to_string());
        text.push_str(&format!("! {}\n", text!("attach-recover-maybe-moved", voucher, key)));
    }
    let planned = plan.entries.len() as u64;
    if planned > max {
        text.push_str(&format!("{}\n", text!("attach-recover-most", max, planned)));
    }
    if plan.moved > 0 {
        text.push_str(&format!("{}\n", text!("attach-recover-moved", entries = plan.moved)));
    }
    for ForeignKey { key, holds } in &plan.unreadable {
        let holds = ForeignKey::content(holds);
        text.push_str(&format!("! {}\n", text!("attach-holds-other", key, holds)));
    }
    if plan.left > 0 {
        text.push_str(&format!("{}\n", text!("attach-recover-held", entries = plan.left)));
    }
    if !plan.sales.is_empty() {
        text.push_str(&format!("\n{}", sales(&plan.sales)));
    }
    if plan.wait_ms > 0 && plan.sales.iter().any(SalePlan::waits) {
        let seconds = plan.wait_ms / 1_000;
        text.push_str(&format!("{}\n", text!("attach-recover-waits", seconds)));
    }
    match plan.is_replica {
        Some(true) => {
            let (what, fix) = (Label("attach-replica"), Label("attach-replica-fix"));
            text.push_str(&format!("! {what}; {fix}\n"));
        }
        None => text.push_str(&format!("{}\n", Label("attach-replica-unknown"))),
        Some(false) => {}
    }
    if !plan.buyers_compared {
        text.push_str(&format!("{}\n", Label("attach-recover-no-buyers")));
    }
    if !plan.stock_compared {
        text.push_str(&format!("{}\n", Label("attach-recover-no-stock")));
    }
    text
}

/// The entries whose users are no buyers, and what to do about them.
fn not_buyers(plan: &Plan, profile: &Profile) -> String {
    if plan.not_promised.is_empty() {
        return String::new();
    }
    let (entries, stream, group) = (plan.not_promised.len(), &plan.stream, &plan.group);
    let sales: BTreeSet<_> = plan.not_promised.iter().filter_map(|it| it.voucher_id).collect();
    let keys = sales.iter().map(|it| profile.keys.buyers.replace("{voucher}", &it.to_string()));
    let buyers = keys.collect::<Vec<_>>().join(", ");
    let line = text!("attach-recover-not-buyers", entries, stream, group, buyers);
    let shown = plan.not_promised.get(..SHOWN).unwrap_or(&plan.not_promised);
    let mut text = format!("{line}\n{}", self::entries(shown));
    if entries > SHOWN {
        text.push_str(&format!("{}\n", text!("cli-plan-more", more = entries - SHOWN)));
    }
    text
}

fn entries(entries: &[EntryPlan]) -> Table<'_, EntryPlan> {
    Table::new(entries)
        .left(&Label("column-entry"), |it| it.entry.clone())
        .left(&Label("column-holder"), |it| or_dash(it.consumer.as_ref()))
        .right(&Label("column-idle"), |it| span(it.idle_ms))
        .right(&Label("column-tries"), |it| or_dash((!it.passed).then_some(it.deliveries)))
        .right(&Label("column-order"), |it| or_dash(it.order_id))
        .right(&Label("column-user"), |it| or_dash(it.user_id))
        .right(&Label("column-sale"), |it| or_dash(it.voucher_id))
        .left(&Label("column-verdict"), |it| match it.verdict {
            Verdict::Stuck if it.passed => Label("attach-recover-passed").to_owned(),
            other => verdict(other),
        })
        .left(&Label("column-action"), |it| action(it.action))
        .left(&Label("column-fault"), |it| {
            let letter = it.letter.as_ref().map(|letter| text!("attach-recover-letter", letter));
            it.fault.as_ref().map(ToString::to_string).or(letter).unwrap_or_default()
        })
}

fn sales(sales: &[SalePlan]) -> Table<'_, SalePlan> {
    fn change<T: PartialEq>(change: &Change<T>, show: impl Fn(&T) -> String) -> String {
        let now = show(&change.now);
        if change.is_change() { format!("{now} → {}", show(&change.after)) } else { now }
    }
    let removed =
        |it: &SalePlan| number(if it.remove_buyers { it.buyers_without_order.len() } else { 0 });
    Table::new(sales)
        .left(&Label("column-sale"), |it| format!("#{}", it.voucher_id))
        .right(&Label("column-orders"), |it| change(&it.orders, |it| or_dash(it.map(number))))
        .right(&Label("column-sql-stock"), |it| change(&it.sql_stock, |it| number(*it)))
        .right(&Label("attach-recover-redis-stock"), |it| {
            change(&it.redis_stock, |it| or_dash(it.map(number)))
        })
        .right(&Label("attach-recover-buyers-added"), |it| number(it.add_buyers.len()))
        .right(&Label("attach-column-no-order"), |it| number(it.buyers_without_order.len()))
        .right(&Label("attach-column-closed"), |it| number(it.buyers_with_closed_order.len()))
        .right(&Label("attach-recover-buyers-removed"), removed)
}

/// What was done.
fn done(applied: &Applied) -> String {
    let mut text = Label("attach-recover-done").to_owned();
    text.push_str(&counts(&[
        (u64::from(applied.created_group), Label("attach-recover-group-created")),
        (applied.replayed, Label("attach-recover-replayed")),
        (applied.acknowledged, Label("attach-recover-acknowledged")),
        (applied.dead_letters, Label("attach-recover-dead")),
        (applied.changed, Label("attach-recover-changed")),
        (applied.not_promised, Label("attach-recover-not-promised")),
        (applied.locked, Label("attach-recover-locked")),
        (applied.added_buyers, Label("attach-recover-buyers-added")),
        (applied.skipped_buyers, Label("attach-recover-buyers-skipped")),
        (applied.removed_buyers, Label("attach-recover-buyers-removed")),
        (applied.stocks, Label("attach-recover-stocks")),
        (applied.left, Label("attach-recover-left")),
    ]));
    text.push('\n');
    for voucher in &applied.stale {
        text.push_str(&format!("! {}\n", text!("attach-recover-sale-stale", voucher)));
    }
    if applied.cut_short {
        text.push_str(&format!("! {}\n", Label("attach-recover-cut")));
    }
    text
}

/// What is left.
fn left(proof: &Proof) -> String {
    let count =
        |it: Option<u64>| it.map_or_else(|| Label("attach-recover-not-counted").to_owned(), number);
    let lines = [
        (Label("attach-recover-stuck"), count(proof.stuck)),
        (Label("column-pending"), number(proof.pending)),
        (Label("column-undelivered"), count(proof.undelivered)),
        (Label("attach-recover-buyers"), count(proof.buyers_without_order)),
        (Label("attach-recover-closed"), count(proof.buyers_with_closed_order)),
        (Label("attach-recover-orders"), count(proof.orders_without_buyer)),
        (Label("attach-recover-doubled"), number(proof.duplicate_buyers)),
        (Label("attach-recover-oversold"), number(proof.oversold)),
        (Label("attach-recover-stock-differs"), count(proof.stock_mismatches)),
    ];
    format!("{}\n{}", Label("attach-recover-proof"), fields(&lines))
}
