//! `seckill attach`: checks of a service that another program runs, reports on its state, and its recovery.

mod migrate;
mod profile;
mod recover;

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::{Args, Subcommand};
use seckill_attach::{
    Alarm, AttachError, ConsumerReport, Cost, Limits, LockReport, PAGE, Profile, Report,
    SaleReport, StreamReport, Watcher,
    doctor::{self, Finding},
};
use seckill_console::Attached;
use seckill_model::{Label, Urgency, escape_json, text};
use seckill_redis::Redis;
use seckill_text::phase;
use serde_json::json;

use crate::{
    CliError, Config, Output, Result, Setup, Table, count_in, doctor::Report as Checks,
    error::FAILED, fields, local, number, or_dash, output::finished, plain, signals::Signals, span,
};

/// Seconds between two passes of the screen.
const EVERY: u64 = 2;
/// Consumers and locks that are listed; `--json` has all of them.
const LISTED: usize = 20;

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    /// Names of keys, tables and columns: hmdp, 002, 003, 004, or a TOML file with what differs from hmdp;
    /// assets/attach.toml has every name
    #[arg(long, global = true, value_name = "NAME|FILE", default_value = "hmdp")]
    profile: String,
    /// Seconds between two passes of the screen, or longer: reading takes at most 2 % of the time [default: 2]
    #[arg(long, value_name = "SECS", value_parser = count_in(1..=3_600))]
    every: Option<u64>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(subcommand)]
    command: Option<AttachCommand>,
}

/// What a pass reads at most, on the screen and in `status`.
#[derive(Debug, Default, PartialEq, Args)]
struct LimitArgs {
    /// Seconds after which a pending or undelivered entry, a lock, or an order without a stream is stuck; a consumer that
    /// holds nothing is dead after ten times as long without a read while another one reads; six dead ones are an alarm
    /// [default: 60]
    #[arg(long, value_name = "SECS", value_parser = count_in(1..=86_400))]
    stuck: Option<u64>,
    /// Most orders and most buyers that a pass reads; with more, they are not compared [default: 100000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=10_000_000))]
    compare: Option<u64>,
    /// Most entries never delivered, and most pending ones, that a pass reads [default: 10000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    entries: Option<u64>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        if let Some(stuck) = self.stuck {
            limits.stuck_ms = stuck * 1_000;
        }
        if let Some(compare) = self.compare {
            (limits.orders, limits.buyers) = (compare as usize, compare as usize);
        }
        if let Some(entries) = self.entries {
            limits.in_flight = entries as usize;
        }
        limits
    }
}

impl AttachArgs {
    /// Without a subcommand, its screen opens.
    pub(super) fn has_console(&self) -> bool {
        self.command.is_none()
    }
}

#[derive(Debug, Subcommand)]
enum AttachCommand {
    /// Compare the profile with the keys, tables and columns that exist
    Doctor,
    /// Show stock, stream, consumers, locks, differences between Redis and SQL, and alarms; exit 1 if one is
    /// more urgent than a notice
    ///
    /// A notice is a weakness of the service that harms later, and is marked with '-': a counter of order IDs without a
    /// TTL, a stream that is never trimmed, order IDs from local time or the future, dead consumers that pile up. Every
    /// other alarm is marked with '!'.
    ///
    /// Reads a bounded number of keys, entries and rows in two passes, one second apart, and shows the cost of the second.
    /// A difference that only one pass sees may be an order on its way. What must last longer (--stuck: a lock, an entry
    /// that is delivered again and again, a buyer of a service without a stream) needs --watch.
    Status(StatusArgs),
    /// Show what would recover stuck entries, buyers and stock; with --operate, do it and count what is left
    ///
    /// Orders of stuck entries, and of those that the group has passed without an order, are written in one transaction with
    /// the stock, then acknowledged; entries that can never become an order are copied to the stream
    /// seckill:attach:STREAM:dead before they are acknowledged: --dead-letters lists them, and --replay tries one again after
    /// its cause was removed. Entries of live consumers are left alone, and those of users whose lock is held. Every action is
    /// recorded in attach-recover.jsonl in the data directory. Exits with 1 if there is nothing to do, or something is left.
    Recover(recover::RecoverArgs),
    /// Move a sale to the engine while its consumers are stopped, or back with --back
    ///
    /// The stock key of the service is renamed, so that it cannot sell the sale. Then one transaction writes the sale with all
    /// orders into the database of the engine. If a run is interrupted, run the same command again: it completes the
    /// migration, or restores the key. A run that was killed keeps the operator lock of the engine for up to 30 s. A sale
    /// that has gone back can move again only to an engine with another database.
    Migrate(Box<migrate::MigrateArgs>),
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Repeat every SECS seconds until interrupted, or less often: reading takes at most 2 % of the time; with --json, one
    /// document a line
    #[arg(long, value_name = "SECS", value_parser = count_in(1..=3_600))]
    watch: Option<u64>,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(super) async fn run(setup: &Setup<'_>, args: &AttachArgs) -> Result<u8> {
    let (config, out) = (setup.config, setup.out);
    if args.every.is_some() && !args.has_console() {
        return Err(CliError::usage(Label("attach-every-without-screen")));
    }
    if args.limits != LimitArgs::default() && !args.has_console() {
        return Err(CliError::usage(Label("attach-limits-before")));
    }
    if out.json && args.has_console() {
        return Err(CliError::usage(Label("attach-screen-json")));
    }
    let profile = profile::load(&args.profile)?;
    // Nothing is started for a service that runs already.
    let given = config.redis.as_ref().zip(config.database.as_ref());
    let Some((redis, database)) = given else {
        return Err(CliError::usage(Label("attach-no-servers")));
    };
    let redis = config.redis_at(redis)?;
    seckill_store::check_url(database, &config.store)
        .map_err(|error| config.value_error("database", database, error))?;
    match &args.command {
        Some(AttachCommand::Recover(args)) => {
            Box::pin(recover::run(config, out, profile, &redis, database, args)).await
        }
        Some(AttachCommand::Migrate(args)) => {
            Box::pin(migrate::run(config, out, profile, &redis, database, args)).await
        }
        Some(AttachCommand::Doctor) => check(config, out, &profile, &redis, database).await,
        None => {
            let limits = args.limits.limits();
            let watcher = Watcher::new(profile, limits, &redis, database, &config.store)?;
            show(setup, args, watcher, &redis).await
        }
        Some(AttachCommand::Status(status)) => {
            let limits = status.limits.limits();
            let watcher = Watcher::new(profile, limits, &redis, database, &config.store)?;
            match status.watch {
                None => Box::pin(report(out, watcher)).await,
                Some(seconds) => Box::pin(watch(out, watcher, Duration::from_secs(seconds))).await,
            }
        }
    }
}

/// Opens the screen.
async fn show(setup: &Setup<'_>, args: &AttachArgs, watcher: Watcher, redis: &Redis) -> Result<u8> {
    seckill_console::check_terminal()?;
    let every = Duration::from_secs(args.every.unwrap_or(EVERY));
    let (profile, redis) = (args.profile.clone(), redis.address().to_owned());
    let attached = Attached { watcher, every, profile, redis };
    seckill_console::run_attach(attached, setup.display.options(setup.config)?).await?;
    Ok(0)
}

async fn check(
    config: &Config,
    out: Output,
    profile: &Profile,
    redis: &Redis,
    database: &str,
) -> Result<u8> {
    let mut checks = Checks::default();
    match doctor::redis(redis, profile).await {
        Ok(findings) => {
            checks.ok("redis", redis.address());
            add(&mut checks, findings);
        }
        Err(error) => checks.failed("redis", &error.into()),
    }
    match doctor::database(database, &config.store, profile).await {
        Ok(findings) => add(&mut checks, findings),
        Err(error) => checks.failed("database", &error.into()),
    }
    checks.finish(out)
}

fn add(checks: &mut Checks, findings: Vec<Finding>) {
    for Finding { name, grade, found, fix } in findings {
        checks.add(name, grade, found, fix.map(|fix| fix.to_string()));
    }
}

async fn report(out: Output, mut watcher: Watcher) -> Result<u8> {
    let report = watcher.settled().await?;
    out.verdict(report.is_healthy(), &report, || render(&report))
}

/// Reports until a signal; the exit code is that of the last report. An outage is reported and waited for.
async fn watch(out: Output, mut watcher: Watcher, every: Duration) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let mut code = 0;
    loop {
        let pass = tokio::select! {
            () = signals.received() => return Ok(code),
            pass = watcher.pass() => pass,
        };
        let text = match pass {
            Ok(report) => {
                code = if report.is_healthy() { 0 } else { FAILED };
                if out.json {
                    escape_json(&json!(report).to_string())
                } else {
                    render(&report).lines().map(|line| plain(line) + "\n").collect()
                }
            }
            Err(AttachError::Invalid(why)) => return Err(AttachError::Invalid(why).into()),
            // A server may return, and a table or key that was changed as well.
            Err(error) => {
                let error = CliError::from(error);
                code = error.code;
                error.print();
                if out.json { error.document().to_string() } else { String::new() }
            }
        };
        if !text.is_empty() {
            let mut stdout = io::stdout().lock();
            let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
            // The reader has seen enough.
            if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
                return Ok(code);
            }
            finished(written)?;
        }
        tokio::select! {
            () = signals.received() => return Ok(code),
            () = tokio::time::sleep(watcher.pause(every)) => {}
        }
    }
}

fn render(report: &Report) -> String {
    let Limits { orders, buyers, in_flight, scans, .. } = report.limits;
    let keys = scans * PAGE;
    let Cost { commands, rows, took_ms } = report.cost;
    let (taken, took) = (local(report.taken), span(took_ms));
    let unknown = || Label("common-unknown").to_owned();
    let count = |count: Option<u64>| count.map_or_else(unknown, number);
    let stream = match &report.stream {
        None if report.has_stream => Label("attach-status-foreign-stream").to_owned(),
        None => Label("attach-status-no-stream").to_owned(),
        Some(StreamReport { key, exists: false, .. }) => text!("attach-stream-gone", key),
        Some(StreamReport { key, length, pending, lag, added_per_second, .. }) => {
            let (lag, rate) = (count(*lag), or_dash(*added_per_second));
            text!("attach-status-stream", key, length, lag, pending, rate)
        }
    };
    let lines = [
        (Label("attach-status-redis"), report.redis.clone()),
        (Label("attach-status-database"), report.database.clone()),
        (Label("cli-status-stream-name"), stream),
        (
            Label("attach-status-limits"),
            text!("attach-status-reads", orders, buyers, entries = in_flight, keys),
        ),
        (Label("attach-status-cost"), text!("attach-status-read", taken, commands, rows, took)),
    ];
    let mut text = fields(&lines).to_string();
    if report.sales.is_empty() {
        text.push_str(&format!("{}\n", Label("attach-status-no-sales")));
    } else {
        text.push_str(&format!("\n{}", sales(&report.sales)));
    }
    if report.more_sales {
        let more = text!("attach-status-more-sales", shown = report.sales.len());
        text.push_str(&format!("{more}\n"));
    }
    let consumers = report.stream.as_ref().map_or(&[][..], |it| it.consumers.as_slice());
    if !consumers.is_empty() {
        text.push_str(&format!("\n{}", consumer_table(listed(consumers))));
        if consumers.len() > LISTED {
            let (shown, total) = (LISTED, consumers.len());
            text.push_str(&format!("{}\n", text!("attach-status-more-consumers", shown, total)));
        }
    }
    if let Some(locks) = report.locks.as_ref().filter(|it| !it.held.is_empty()) {
        text.push_str(&format!("\n{}", lock_table(listed(&locks.held))));
        if locks.held.len() > LISTED {
            let (shown, total) = (LISTED, locks.held.len());
            text.push_str(&format!("{}\n", text!("attach-status-more-locks", shown, total)));
        }
    }
    text.push('\n');
    let sign = |alarm: &Alarm| if alarm.urgency() == Urgency::Notice { "-" } else { "!" };
    text.extend(report.alarms.iter().map(|alarm| format!("{} {alarm}\n", sign(alarm))));
    text.extend(report.not_compared.iter().map(|why| format!("- {why}\n")));
    if report.alarms.is_empty() && report.not_compared.is_empty() {
        text.push_str(&Label("console-no-open-alarms"));
    }
    text
}

fn listed<T>(rows: &[T]) -> &[T] {
    rows.get(..LISTED).unwrap_or(rows)
}

fn sales(sales: &[SaleReport]) -> Table<'_, SaleReport> {
    let count = |count: Option<u64>| or_dash(count.map(number));
    Table::new(sales)
        .left(&Label("column-sale"), |sale| format!("#{}", sale.voucher_id))
        .left(&Label("column-title"), |sale| sale.title.clone())
        .left(&Label("column-phase"), |sale| {
            if sale.moved {
                return Label("attach-phase-moved").to_owned();
            }
            or_dash(sale.phase.map(phase))
        })
        .right(&Label("column-stock"), |sale| or_dash(sale.redis_stock.map(number)))
        .right(&Label("column-sql-stock"), |sale| number(sale.sql_stock))
        .right(&Label("attach-column-buyers"), |sale| count(sale.buyers))
        .right(&Label("column-orders"), |sale| count(sale.orders))
        .right(&Label("attach-column-in-flight"), |sale| count(sale.in_flight))
        .right(&Label("attach-column-no-order"), |sale| count(sale.buyers_without_order))
        .right(&Label("attach-column-closed"), |sale| count(sale.buyers_with_closed_order))
        .right(&Label("attach-column-no-buyer"), |sale| count(sale.orders_without_buyer))
        .right(&Label("column-admitted-per-second"), |sale| or_dash(sale.admitted_per_second))
        .right(&Label("attach-column-orders-per-second"), |sale| or_dash(sale.orders_per_second))
}

fn consumer_table(consumers: &[ConsumerReport]) -> Table<'_, ConsumerReport> {
    Table::new(consumers)
        .left(&Label("column-consumer"), |it| it.name.clone())
        .right(&Label("column-pending"), |it| number(it.pending))
        .right(&Label("column-idle"), |it| span(it.idle_ms))
}

fn lock_table(locks: &[LockReport]) -> Table<'_, LockReport> {
    Table::new(locks)
        .left(&Label("column-lock"), |lock| lock.key.clone())
        .left(&Label("column-kind"), |lock| lock.kind)
        .left(&Label("column-holder"), |lock| lock.owner.clone())
        .right(&Label("column-depth"), |lock| lock.depth)
        .right(&Label("column-lease-left"), |lock| {
            lock.left_ms.map_or_else(|| Label("cli-locks-no-end").to_owned(), span)
        })
}
