//! `seckill pending`: entries that were delivered but not acknowledged.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};
use seckill_engine::{
    Command, EngineError, Operator, Pace, PlanError, ReplayReport, Reply, Scope,
    commands::{
        apply::check_plan,
        pending::FIELDS,
        plan::{Line, Plan},
    },
};
use seckill_model::{EntryId, Filter, Label, text};
use seckill_redis::stream_stats;
use seckill_text::audit_log::order_error;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, ask_reason, error,
    number, or_dash,
    output::{filter, finished, limit},
    output_file::{Existing, OutputFile},
    reply, span,
};

/// Displayed lines of a plan; its file has all of them.
const SHOWN: usize = 20;
/// Without progress for this long, a command says that it waits.
const WAITS_AFTER: Duration = Duration::from_secs(3);
/// Interval of progress messages on a terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Subcommand)]
pub(super) enum PendingCommand {
    /// List pending entries with verdicts, oldest first
    List {
        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = limit())]
        limit: usize,
        /// Start at this entry
        #[arg(long, value_name = "ENTRY")]
        from: Option<EntryId>,
        #[command(flatten)]
        which: Which,
    },
    /// Show the action for each pending entry and the expected audit result
    Plan {
        #[command(flatten)]
        which: Which,
        /// Write the complete plan to this file, for 'pending apply'
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Apply a plan from a file, or create one, show it and apply it
    Apply {
        /// Plan file written by 'pending plan --out' or 'pending plan --json'
        #[arg(value_name = "PLAN", conflicts_with = "filter")]
        plan: Option<PathBuf>,
        #[command(flatten)]
        which: Which,
        /// Stop after this many entries; apply the same plan again for the rest
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        max: Option<u64>,
        /// Maximum entries per second
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        rate: Option<u64>,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Default, Args)]
pub(super) struct Which {
    /// Only entries that match all terms, such as 'verdict=stuck,idle>30s,holder~node-b,voucher=7'; fields:
    /// entry, verdict, action, holder, idle, age, deliveries, order, user, voucher, fault
    #[arg(long, value_name = "TERMS", value_parser = |text: &str| filter(text, FIELDS))]
    filter: Option<Filter>,
}

#[derive(Serialize)]
struct Listing {
    total: u64,
    entries: Vec<Line>,
    next: Option<EntryId>,
}

pub(super) async fn run(config: &Config, out: Output, command: PendingCommand) -> Result<u8> {
    // An invalid plan is reported before a server is contacted.
    let plan = match &command {
        PendingCommand::Apply { plan: Some(path), .. } => Some(read(path).await?),
        _ => None,
    };
    let needs = match command {
        PendingCommand::List { .. } => Needs::Readable,
        _ => Needs::Both,
    };
    let done = Context::with(config, out, needs, async |context| match command {
        PendingCommand::List { limit, from, which } => {
            list(context, from.unwrap_or(EntryId::MIN), limit, which).await
        }
        PendingCommand::Plan { which, out: file } => Box::pin(show(context, which, file)).await,
        PendingCommand::Apply { which, max: most, rate, consent, .. } => {
            Box::pin(apply(context, plan, which, Pace { rate, most }, consent)).await
        }
    });
    done.await
}

async fn read(path: &Path) -> Result<Plan> {
    let place = path.to_owned();
    let read = tokio::task::spawn_blocking(move || Plan::read(&place)).await;
    let read = read.map_err(|_| CliError::failed(Label("cli-plan-read-failed")))?;
    let path = path.display();
    read.map_err(|error| match error {
        PlanError::Io(error) => CliError::usage(text!("cli-plan-unreadable", path, error)),
        other => CliError::usage(text!("common-named", name = path, text = other)),
    })
}

async fn list(context: &mut Context, from: EntryId, limit: usize, which: Which) -> Result<u8> {
    let filter = which.filter.unwrap_or_default();
    let mut servers = context.probed().await;
    let lost = servers.conn.lost().to_vec();
    let total = stream_stats::read_stats(&mut servers.conn, &servers.keys, &[]).await?;
    let total = total.stream.pending;
    let mut classifier = context.operator(None)?.classifier(servers).await?;
    let (mut entries, mut next) = (Vec::new(), Some(from));
    // One extra row shows where the next page begins.
    while let Some(from) = next.filter(|_| entries.len() <= limit) {
        let page = classifier.page(from, EntryId::MAX).await?;
        let Some(last) = page.last() else { break };
        next = last.row.delivered.entry.next_of_all();
        entries.extend(page.iter().filter(|entry| entry.passes(&filter)).map(Line::from));
    }
    let next = entries.get(limit).map(|line: &Line| line.entry);
    entries.truncate(limit);
    let listing = Listing { total, entries, next };
    let code = context.out.answer(&listing, || render(&listing))?;
    Ok(CliError::name_lost(&lost, code))
}

async fn show(context: &mut Context, which: Which, file: Option<PathBuf>) -> Result<u8> {
    let operator = context.operator(None)?;
    let plan = make(&operator, context.out, which).await?;
    let nothing = plan.totals.entries == 0;
    if let Some(path) = file.as_ref().filter(|_| !nothing) {
        save(&plan, path)?;
    }
    if context.out.json {
        // Copied from its file, since it may exceed the memory.
        finished(plan.copy_to(&mut io::stdout().lock()))?;
    } else {
        let mut text = preview(&plan)?;
        text.push_str(&match &file {
            _ if nothing => String::new(),
            Some(path) => text!("cli-plan-apply-file", path = path.display()),
            None => Label("cli-plan-apply").to_owned(),
        });
        context.out.answer(&plan.totals, || text)?;
    }
    Ok(if nothing { error::FAILED } else { 0 })
}

fn save(plan: &Plan, path: &Path) -> Result<()> {
    let mut file = OutputFile::create(path.to_owned(), Existing::Keep)?;
    plan.copy_to(&mut file).map_err(|error| file.failed(&error))?;
    file.finish()
}

async fn make(operator: &Operator, out: Output, which: Which) -> Result<Plan> {
    let scope = Scope::All(which.filter.unwrap_or_default());
    let stop = CancellationToken::new();
    // Nothing is changed yet: Ctrl-C may end the program, also at the following question.
    Ok(with_progress(operator, out, operator.plan(&scope, &stop)).await?)
}

/// Waits for `work` and shows its progress on a terminal, elsewhere only that it waits.
async fn with_progress<T>(operator: &Operator, out: Output, work: impl Future<Output = T>) -> T {
    if out.json {
        return work.await;
    }
    let is_terminal = io::stderr().is_terminal();
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    let (mut last, mut since, mut is_said) = (0, Instant::now(), false);
    tokio::pin!(work);
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = tick.tick() => {
                let Some(line) = operator.meters.recoveries().last().cloned() else { continue };
                if line.done != last {
                    (last, since, is_said) = (line.done, Instant::now(), false);
                }
                let (done, of) = (number(line.done), number(line.planned));
                let mut progress = text!("cli-plan-progress", action = line.action, done, of);
                let waits = since.elapsed() >= WAITS_AFTER;
                if waits {
                    progress += &text!("cli-plan-waits", seconds = since.elapsed().as_secs());
                }
                if is_terminal {
                    let _ = write!(io::stderr(), "\r\x1b[K{progress}");
                } else if waits && !std::mem::replace(&mut is_said, true) {
                    let _ = writeln!(io::stderr(), "{progress}");
                }
            }
        }
    };
    if is_terminal {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    done
}

/// Applies a plan from a file, or one that is created now.
async fn apply(
    context: &mut Context,
    plan: Option<Plan>,
    which: Which,
    pace: Pace,
    consent: Consent,
) -> Result<u8> {
    let mut operator = context.writer(&consent)?;
    let is_filtered = which.filter.is_some();
    let plan = match plan {
        Some(plan) => plan,
        None => make(&operator, context.out, which).await?,
    };
    if plan.totals.to_do() == 0 {
        let nothing = match plan.totals.entries {
            0 if is_filtered => Label("cli-pending-no-match"),
            0 => Label("cli-pending-none"),
            _ => Label("cli-pending-all-held"),
        };
        let left = plan.totals.entries;
        let report = ReplayReport { planned: left, seen: left, left, ..ReplayReport::default() };
        return context.out.verdict(false, &report, || nothing.to_owned());
    }
    check_plan(&operator, &plan).await?;
    context.out.say(preview(&plan)?.trim_end());
    operator.reason = ask_reason(&consent);
    // A resumed plan is partly done, and a limit ends it early.
    let most = pace.most.unwrap_or(u64::MAX).min(plan.totals.to_do());
    ask(&consent, &text!("cli-pending-apply", entries = most))?;
    let work = reply::execute(&operator, Command::Apply(plan, pace));
    let reply = Box::pin(with_progress(&operator, context.out, work)).await?;
    reply::answer(context.out, &reply)?;
    let Reply::Replayed(report) = reply else { return Err(CliError::unexpected_reply()) };
    for changed in &report.changes {
        let [was, is] = [changed.planned, changed.now].map(verdict);
        context.out.say(&format!("  {}", text!("cli-changed", entry = changed.entry, was, is)));
    }
    let nothing_done = report.seen == report.left && report.seen > 0;
    // A requested limit is a regular end; a signal is not.
    let processed = report.seen.saturating_sub(report.gone + report.left);
    let cut = report.cut_short && pace.most.is_none_or(|most| processed < most);
    let open = nothing_done || cut || report.changed > 0 || report.lost > 0;
    Ok(if open { error::FAILED } else { 0 })
}

/// A verdict on an entry or a dead letter, in a table.
pub(super) fn verdict(verdict: impl Into<&'static str>) -> String {
    text!("cli-verdict", verdict = verdict.into())
}

/// The action for an entry or a dead letter, in a table.
pub(super) fn action(action: impl Into<&'static str>) -> String {
    text!("cli-verdict-action", action = action.into())
}

fn table(lines: &[Line]) -> Table<'_, Line> {
    Table::new(lines)
        .left(&Label("column-entry"), |line| line.entry)
        .left(&Label("column-holder"), |line| line.consumer.clone())
        .right(&Label("column-idle"), |line| span(line.idle_ms))
        .right(&Label("column-tries"), |line| line.deliveries)
        .right(&Label("column-order"), |line| or_dash(line.order_id))
        .right(&Label("column-user"), |line| or_dash(line.user_id))
        .right(&Label("column-sale"), |line| or_dash(line.voucher_id))
        .left(&Label("column-verdict"), |line| verdict(line.verdict))
        .left(&Label("column-action"), |line| action(line.action))
        .left(&Label("column-fault"), |line| {
            line.fault.as_ref().map(order_error).unwrap_or_default()
        })
}

fn render(Listing { total, entries, next }: &Listing) -> String {
    if *total == 0 {
        return Label("cli-pending-none").to_owned();
    }
    if entries.is_empty() {
        return text!("cli-pending-none-of", total);
    }
    let mut text = table(entries).to_string();
    if let Some(next) = next {
        let shown = entries.len();
        text.push_str(&format!("{}\n", text!("cli-pending-more", shown, total, next)));
    }
    text + &Label("cli-pending-next")
}

/// What a plan does, and the audit before and after.
fn preview(plan: &Plan) -> Result<String> {
    let totals = &plan.totals;
    if totals.entries == 0 {
        return Ok(format!("{}\n", Label("cli-plan-nothing")));
    }
    let mut text = table(&plan.lines().next(SHOWN).map_err(EngineError::from)?).to_string();
    if totals.entries > SHOWN as u64 {
        let more = totals.entries - SHOWN as u64;
        text.push_str(&format!("{}\n", text!("cli-plan-more", more)));
    }
    let verdicts = Table::new(&totals.verdicts)
        .right(&Label("column-entries"), |it| number(it.entries))
        .left(&Label("column-verdict"), |it| verdict(it.verdict))
        .left(&Label("column-action"), |it| action(it.action))
        .left(&Label("column-why"), |it| it.verdict.why());
    let forecast = &totals.forecast;
    let mut figures = vec![
        (Label("column-pending").to_owned(), forecast.pending),
        (Label("cli-incident-dead").to_owned(), forecast.dead),
        (Label("cli-plan-orders").to_owned(), forecast.persisted),
    ];
    let stock = totals.sales.iter();
    figures.extend(
        stock.map(|sale| (text!("cli-plan-stock", voucher = sale.voucher_id), sale.db_stock)),
    );
    let figures = Table::new(&figures)
        .left(&Label("column-audit"), |(name, _)| name.clone())
        .right(&Label("column-when-planned"), |(_, change)| number(change.now))
        .right(&Label("column-afterwards"), |(_, change)| number(change.after));
    text.push_str(&format!("\n{verdicts}\n{figures}"));
    if forecast.rebuilt > 0 {
        text.push_str(&format!("{}\n", text!("cli-plan-rebuilt", orders = forecast.rebuilt)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{
        LetterAction, LetterVerdict, RecoveryAction, Verdict, locale::set_thread_language,
    };
    use strum::VariantNames as _;

    #[test]
    fn tables_show_names_instead_of_codes() {
        let verdicts = [Verdict::VARIANTS, LetterVerdict::VARIANTS].concat();
        let actions = [RecoveryAction::VARIANTS, LetterAction::VARIANTS].concat();
        let names = || {
            let actions = actions.iter().map(|code| action(*code));
            verdicts.iter().map(|code| verdict(*code)).chain(actions).collect::<Vec<_>>()
        };
        let english = names();
        assert!(english.iter().any(|name| name == "body gone"), "{english:?}");
        assert!(english.iter().any(|name| name == "dead letter"), "{english:?}");
        set_thread_language("zh");
        for name in english.iter().chain(&names()) {
            assert!(!name.contains('_'), "{name}");
        }
    }
}
