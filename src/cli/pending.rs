//! `seckill pending`: entries that were delivered but not acknowledged.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use seckill_engine::{
    EngineError,
    command::{Command, Pace, ReplayReport, Reply, Scope},
    command_handler::Operator,
    error::PlanFault,
    pending::FIELDS,
    plan::{Change, Line, Plan},
};
use seckill_model::{EntryId, filter::Filter};
use seckill_redis::stream_stats;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    Consent, Fault,
    context::Context,
    fault,
    output::{Output, ask, counted, number, span, table, why},
    work::EndOfLife,
};
use crate::config::Config;

/// Displayed lines of a plan; its file has all of them.
const SHOWN: usize = 20;
/// Interval of progress messages on a terminal.
const TELL_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Subcommand)]
pub(super) enum PendingCommand {
    /// List pending entries with verdicts, oldest first
    List {
        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Start at this entry
        #[arg(long, value_name = "ENTRY")]
        from: Option<EntryId>,
        #[command(flatten)]
        which: Which,
    },
    /// Show the action for each pending entry and the audit afterwards
    Plan {
        #[command(flatten)]
        which: Which,
        /// Write the complete plan to this file, for 'pending apply'
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Apply a plan: from a file, or created and shown now
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
    /// entry, verdict, act, holder, idle, age, deliveries, order, user, voucher, fault
    #[arg(long, value_name = "TERMS", value_parser = filter)]
    filter: Option<Filter>,
}

fn filter(text: &str) -> Result<Filter, String> {
    let filter = Filter::parse(text, FIELDS).map_err(|fault| fault.to_string())?;
    if filter.is_empty() {
        return Err("an empty filter matches everything; omit it".to_owned());
    }
    Ok(filter)
}

#[derive(Serialize)]
struct Listing {
    total: u64,
    entries: Vec<Line>,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    command: PendingCommand,
) -> Result<u8, Fault> {
    // An invalid plan is reported before a server is contacted.
    let plan = match &command {
        PendingCommand::Apply { plan: Some(path), .. } => Some(read(path).await?),
        _ => None,
    };
    let mut context = Context::open_answering(config).await?;
    let result = match command {
        PendingCommand::List { limit, from, which } => {
            list(&mut context, out, from.unwrap_or(EntryId::MIN), limit, which).await
        }
        PendingCommand::Plan { which, out: file } => {
            Box::pin(show(&mut context, out, which, file)).await
        }
        PendingCommand::Apply { which, max: most, rate, consent, .. } => {
            let doing = Doing { plan, which, pace: Pace { rate, most }, consent };
            Box::pin(apply(&mut context, out, doing)).await
        }
    };
    context.close().await;
    result
}

async fn read(path: &Path) -> Result<Plan, Fault> {
    let place = path.to_owned();
    let read = tokio::task::spawn_blocking(move || Plan::read(&place)).await;
    let read = read.map_err(|_| Fault::no("reading the plan failed"))?;
    read.map_err(|fault| {
        Fault::usage(match fault {
            PlanFault::Io(error) => format!(
                "cannot read the plan {} ({error}); 'seckill pending plan --out FILE' writes one",
                path.display()
            ),
            other => format!("{}: {other}", path.display()),
        })
    })
}

async fn list(
    context: &mut Context,
    out: Output,
    from: EntryId,
    limit: usize,
    which: Which,
) -> Result<u8, Fault> {
    let filter = which.filter.unwrap_or_default();
    let total = total(context).await?;
    let mut judge = context.operator(None)?.judge().await?;
    let (mut entries, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next.filter(|_| entries.len() < limit) {
        let page = judge.page(from, EntryId::MAX).await?;
        let Some(last) = page.last() else { break };
        next = last.row.delivered.entry.next_of_all();
        entries.extend(page.iter().filter(|judged| judged.passes(&filter)).map(Line::from));
    }
    entries.truncate(limit);
    let nothing = entries.is_empty() && !filter.is_empty();
    let listing = Listing { total, entries };
    out.answer(&listing, || listed(&listing))?;
    Ok(if nothing { fault::NO } else { 0 })
}

async fn total(context: &Context) -> Result<u64, Fault> {
    let mut conn = context.redis.connection();
    let stats = stream_stats::read_stats(&mut conn, &context.keys, &[]).await?;
    Ok(stats.stream.pending)
}

async fn show(
    context: &mut Context,
    out: Output,
    which: Which,
    file: Option<PathBuf>,
) -> Result<u8, Fault> {
    let operator = context.operator(None)?;
    let plan = make(&operator, out, which).await?;
    let nothing = plan.totals.entries == 0;
    if let Some(path) = &file {
        keep(&plan, path)?;
    }
    if out.json {
        // Copied from its file, since it may exceed the memory.
        match plan.copy_to(&mut io::stdout().lock()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(Fault::no(format!("cannot write the plan ({error})")));
            }
            _ => {}
        }
    } else {
        let mut text = planned(&plan)?;
        text.push_str(&match &file {
            Some(path) => format!("Apply it: seckill pending apply {}", path.display()),
            None if nothing => String::new(),
            None => "Apply it: seckill pending apply; --out FILE saves the plan.".to_owned(),
        });
        out.answer(&plan.totals, || text)?;
    }
    Ok(if nothing { fault::NO } else { 0 })
}

fn keep(plan: &Plan, path: &Path) -> Result<(), Fault> {
    let failed = |error: io::Error| {
        Fault::no(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} already exists; pass another name or remove it", path.display())
            }
            _ => format!("cannot write {} ({error}); pass another path", path.display()),
        })
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    plan.copy_to(&mut file).and_then(|()| file.sync_all()).map_err(failed)
}

async fn make(operator: &Operator, out: Output, which: Which) -> Result<Plan, Fault> {
    let scope = Scope::All(which.filter.unwrap_or_default());
    let stop = CancellationToken::new();
    // Nothing is changed yet: Ctrl-C may end the program, also at the following question.
    with_progress(operator, out, None, operator.plan(&scope, &stop)).await
}

/// Waits for a task, shows its progress on a terminal, and cancels it on Ctrl-C.
async fn with_progress<T, E>(
    operator: &Operator,
    out: Output,
    stop: Option<&CancellationToken>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Fault>
where
    Fault: From<E>,
{
    let mut end = stop.map(|_| EndOfLife::listen()).transpose()?;
    let asked = async {
        match (&mut end, stop) {
            (Some(end), Some(stop)) => {
                end.come().await;
                stop.cancel();
            }
            _ => std::future::pending().await,
        }
    };
    let shown = !out.json && io::stderr().is_terminal();
    let mut tick = tokio::time::interval(TELL_EVERY);
    tick.tick().await;
    tokio::pin!(work, asked);
    let (mut reported, mut stopping) = (false, false);
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            () = &mut asked, if !stopping => stopping = true,
            _ = tick.tick() => {
                if let Some(line) = operator.meters.recoveries().last().filter(|_| shown) {
                    let (done, of) = (number(line.done), number(line.planned));
                    let _ = write!(io::stderr(), "\r\x1b[K{}: {done} of {of}", line.act);
                    reported = true;
                }
            }
        }
    };
    if reported {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    Ok(done?)
}

struct Doing {
    plan: Option<Plan>,
    which: Which,
    pace: Pace,
    consent: Consent,
}

async fn apply(context: &mut Context, out: Output, doing: Doing) -> Result<u8, Fault> {
    let Doing { plan, which, pace, consent } = doing;
    let mut operator = context.operator(consent.reason.clone())?;
    if operator.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let filtered = which.filter.as_ref().is_some_and(|filter| !filter.is_empty());
    let plan = match plan {
        Some(plan) => plan,
        None => make(&operator, out, which).await?,
    };
    if plan.totals.to_do() == 0 {
        let said = match plan.totals.entries {
            0 if filtered => "The filter matches no pending entry.",
            0 => "No pending entries.",
            _ => "All entries are held by live nodes; nothing to do.",
        };
        let left = plan.totals.entries;
        let report = ReplayReport { planned: left, seen: left, left, ..ReplayReport::default() };
        out.answer(&report, || said.to_owned())?;
        return Ok(fault::NO);
    }
    operator.check_plan(&plan).await?;
    out.say(planned(&plan)?.trim_end());
    operator.reason = why(&consent);
    // A resumed plan is partly done, and a limit ends it early.
    let most = pace.most.unwrap_or(u64::MAX).min(plan.totals.to_do());
    let entries = counted(most, "entry", "entries");
    ask(&consent, &format!("Apply this to up to {entries}?"))?;
    let stop = CancellationToken::new();
    let work = operator.execute(Command::Apply(plan, pace), &stop);
    let Reply::Replayed(report) =
        Box::pin(with_progress(&operator, out, Some(&stop), work)).await?
    else {
        return Err(Fault::no("unexpected reply from the engine to a replay"));
    };
    out.answer(&report, || describe(&report))?;
    let nothing_done = report.seen == report.left && report.seen > 0;
    // A requested limit is a regular end; a signal is not.
    let cut = report.cut_short && (pace.most.is_none() || stop.is_cancelled());
    let open = nothing_done || cut || report.changed > 0 || report.lost > 0;
    Ok(if open { fault::NO } else { 0 })
}

fn rows(lines: &[Line]) -> String {
    let shown = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let verdict = line.verdict.as_str().replace('_', " ");
            let act = line.act.as_str().replace('_', " ");
            vec![
                line.entry.to_string(),
                line.consumer.clone(),
                span(line.idle_ms),
                line.deliveries.to_string(),
                shown(line.order_id.map(|id| id.to_string())),
                shown(line.user_id.map(|id| id.to_string())),
                shown(line.voucher_id.map(|id| id.to_string())),
                verdict,
                act,
                line.fault.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let head =
        ["entry", "holder", "idle", "tries", "order", "user", "sale", "verdict", "act", "fault"];
    table(&head, &[2, 3, 4, 5, 6], &rows)
}

fn listed(listing: &Listing) -> String {
    if listing.total == 0 {
        return "No pending entries.".to_owned();
    }
    if listing.entries.is_empty() {
        return format!("None of the pending entries ({}) match.", number(listing.total));
    }
    let mut text = rows(&listing.entries);
    if listing.total > listing.entries.len() as u64 {
        text.push_str(&format!(
            "{} of {} shown; use --limit, --from and --filter for others.\n",
            number(listing.entries.len() as u64),
            number(listing.total)
        ));
    }
    text.push_str("'seckill pending plan' shows the action for each of them.");
    text
}

fn planned(plan: &Plan) -> Result<String, Fault> {
    let totals = &plan.totals;
    if totals.entries == 0 {
        return Ok("Nothing to plan: no pending entries match.\n".to_owned());
    }
    let mut text = rows(&plan.lines().next(SHOWN).map_err(EngineError::from)?);
    if totals.entries > SHOWN as u64 {
        text.push_str(&format!("… and {} more.\n", number(totals.entries - SHOWN as u64)));
    }
    text.push('\n');
    let sums: Vec<Vec<String>> = totals
        .verdicts
        .iter()
        .map(|it| {
            let word = |word: &str| word.replace('_', " ");
            vec![
                number(it.entries),
                word(it.verdict.as_str()),
                word(it.act.as_str()),
                it.why.clone(),
            ]
        })
        .collect();
    text.push_str(&table(&["entries", "verdict", "act", "why"], &[0], &sums));
    let forecast = &totals.forecast;
    let row = |what: &str, change: Change| {
        vec![what.to_owned(), number(change.now), number(change.after)]
    };
    let mut figures = vec![
        row("pending", forecast.pending),
        row("dead letters", forecast.dead),
        row("orders in SQL", forecast.persisted),
    ];
    for sale in &totals.sales {
        figures.push(row(&format!("#{} SQL stock", sale.voucher_id), sale.db_stock));
    }
    text.push('\n');
    text.push_str(&table(&["the audit", "when planned", "afterwards"], &[1, 2], &figures));
    if forecast.rebuilt > 0 {
        text.push_str(&format!(
            "{} into the stream again.\n",
            counted(
                forecast.rebuilt,
                "admitted order is nowhere else and goes",
                "admitted orders are nowhere else and go"
            )
        ));
    }
    Ok(text)
}

fn describe(report: &ReplayReport) -> String {
    let mut text = format!("Looked at {}", counted(report.seen, "entry", "entries"));
    if report.cut_short {
        text.push_str(&format!(
            " of {}; the same plan, or a new one, goes on with the rest",
            number(report.planned)
        ));
    }
    let parts = [
        (report.persisted, "written"),
        (report.acknowledged, "acknowledged"),
        (report.rebuilt, "orders put into the stream again"),
        (report.hollow, "without a body, taken off the list"),
        (report.dead, "put among the dead letters"),
        (report.left, "left to live nodes"),
        (report.gone, "no longer there when their turn came"),
        (report.changed, "not as they were shown any more, so left alone: make a new plan"),
        (
            report.lost,
            "without a body, LEFT: Redis does not hold every sale; 'seckill audit --repair' loads them",
        ),
    ];
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("\n  {:>10}  {what}", number(count)));
    }
    for changed in &report.changes {
        text.push_str(&format!(
            "\n  {}: was {}, is {}",
            changed.entry,
            changed.planned.as_str().replace('_', " "),
            changed.now.as_str().replace('_', " ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_entries_are_reported_as_missing() {
        let report = ReplayReport { planned: 3, seen: 3, gone: 3, ..ReplayReport::default() };
        let text = describe(&report);
        assert_eq!(text, "Looked at 3 entries\n           3  no longer there when their turn came");
    }
}
