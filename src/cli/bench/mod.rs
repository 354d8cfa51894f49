//! `seckill bench`: throughput compared with a baseline on the same server.

mod chart;
mod console;
mod growth;
mod ids;
mod recovery;
mod shards;

use std::{sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use seckill_bench::{
    latency::{self, Latencies},
    locks::{self, Figures, Plan, Report},
    overload, persist,
    rush::{self, Spread, Work},
};
use seckill_engine::{EngineError, deployment::Deployment, error::MAX_USERS};
use seckill_model::{Label, reason, text};
use seckill_redis::{HOME, Redis, data_dir::DataDir, server::ManagedServer};
use tokio_util::sync::CancellationToken;

use self::chart::{Axis, Curve, Panel, SvgArgs};
use crate::{
    CliError, Config, Context, Needs, Output, Result, Table, context, count_in, number, or_dash,
    signals::Signals,
};

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Locks: acquisitions per second and hand-over latency, compared with SET NX PX and a Lua release
    ///
    /// Runs on a temporary server, or on --redis; the multi-server lock always runs on three temporary servers.
    Locks(LocksArgs),
    /// Orders persisted per second, from stream to acknowledged row, compared with the consumer of a common tutorial
    /// and with rows that are only inserted
    ///
    /// Runs on temporary servers, or on --redis and --database. A Redis with a live node and a database with a sale
    /// that is not archived are rejected. All keys of the benchmark are removed at its end, except the order ID
    /// counters, so that no ID is used twice; the rows of its sales stay in the database, and the sales are archived.
    Persist(PersistArgs),
    /// Entries per second that a dead node left pending, compared with the consumer of a common tutorial and with
    /// undelivered entries; and the time until a node that starts admits its first buyer
    ///
    /// Runs on the same servers as persist. The start of a node is measured on a temporary Redis only, which is killed
    /// and started again.
    Recovery(recovery::RecoveryArgs),
    /// Orders persisted per second as the orders table grows, compared with rows that are only inserted
    ///
    /// The table grows tenfold from one measurement to the next, by inserted rows. Runs on the same servers as persist;
    /// the database should be empty.
    Growth(growth::GrowthArgs),
    /// Order IDs per second and the round trips that they cost, compared with the INCR of a common tutorial
    ///
    /// Each ID is checked to be new. Runs on the same servers as persist.
    Ids(ids::IdsArgs),
    /// Buyers admitted per second, without writing orders to SQL, compared with the script of a common tutorial
    ///
    /// The engine runs in this process. The script is called by this process, and by redis-benchmark if it is installed
    /// and Redis is temporary. All take turns on the same Redis, and each result is checked. Runs on temporary servers,
    /// or on --redis and --database, which must not be in use; cleans up like persist.
    Admission(RushArgs),
    /// Replies "sold out" per second, compared with the script of a common tutorial
    ///
    /// Measured like admission.
    Soldout(RushArgs),
    /// Buyers admitted per second while their orders are written to SQL, compared with the script of a common tutorial,
    /// which only admits
    ///
    /// Measured like admission.
    Endtoend(RushArgs),
    /// Latency at offered loads while orders are written, and of one buyer at a time, compared with the script of a
    /// common tutorial
    ///
    /// The loads are 1,000 and 20,000 requests per second, and 50 % and 90 % of the capacity: the orders per second that
    /// are admitted and written to SQL, measured first.
    /// Runs on the same servers as admission.
    Latency(LatencyArgs),
    /// Buyers admitted and refused as busy at 0.5, 1, 2 and 5 times the capacity, which is measured first, compared with
    /// the script of a common tutorial
    ///
    /// Runs on the same servers as admission.
    Overload(OverloadArgs),
    /// One sale over 1, 2, 4 and 8 shards: buyers admitted per second and the CPU time of Redis that they cost; moves of
    /// pieces until skewed buyers have bought all; and a simulation of up to 1,000 shards and a billion buyers
    ///
    /// Runs on the same servers as persist. All shards are on one Redis; what as many servers would admit is computed
    /// from the CPU time. The simulation uses the capacity of a shard and the time of a move that were measured.
    Shards(shards::ShardsArgs),
    /// The console: idle CPU, overhead on a full load test, time to draw and to respond to a key
    ///
    /// Runs in a temporary data directory and draws to a hidden terminal.
    Console(console::ConsoleArgs),
}

#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Milliseconds of each measurement; there are nine in a round [default: 500; with --quick: 100]
    #[arg(long, value_name = "MS", value_parser = count_in(10..=60_000))]
    millis: Option<u64>,
    /// Tasks with one lock each [default: 64; with --quick: 4]
    #[arg(long, value_name = "N", value_parser = count_in(1..=10_000))]
    tasks: Option<u64>,
    /// Tasks that share one lock [default: 100; with --quick: 4]
    #[arg(long, value_name = "N", value_parser = count_in(1..=10_000))]
    waiting: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
}

#[derive(Debug, Args)]
pub(super) struct PersistArgs {
    /// Orders of the engine's consumer in each round [default: 100000; with --quick: 2000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    orders: Option<u64>,
    /// Orders of the tutorial's consumer in each round [default: 1000; with --quick: 100]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    tutorial: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
}

#[derive(Debug, Args)]
pub(super) struct RushArgs {
    /// Requests of each side in each round [default: 200000; soldout: 1000000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS))]
    requests: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
}

#[derive(Debug, Args)]
pub(super) struct LatencyArgs {
    /// Buyers in each measurement of the capacity [default: 100000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS))]
    buyers: Option<u64>,
    /// Milliseconds of each load [default: 3000; with --quick: 250]
    #[arg(long, value_name = "MS", value_parser = count_in(10..=60_000))]
    millis: Option<u64>,
    /// Buyers who ask one at a time [default: 5000; with --quick: 500]
    #[arg(long, value_name = "N", value_parser = count_in(10..=MAX_USERS))]
    lone: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    svg: SvgArgs,
}

#[derive(Debug, Args)]
pub(super) struct OverloadArgs {
    /// Buyers in each measurement of the capacity [default: 100000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS))]
    buyers: Option<u64>,
    /// Milliseconds of each load [default: 3000; with --quick: 250]
    #[arg(long, value_name = "MS", value_parser = count_in(10..=60_000))]
    millis: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    svg: SvgArgs,
}

#[derive(Clone, Copy, Debug, Args)]
struct RoundArgs {
    /// Rounds, after one that does not count [default: 5; with --quick: 1]
    #[arg(long, value_name = "N", value_parser = count_in(1..=100))]
    rounds: Option<u64>,
    #[command(flatten)]
    quick: QuickArgs,
}

impl RoundArgs {
    fn rounds(self) -> u64 {
        self.choose(self.rounds, 5, 1)
    }

    fn choose(self, given: Option<u64>, full: u64, quick: u64) -> u64 {
        self.quick.choose(given, full, quick)
    }
}

#[derive(Clone, Copy, Debug, Args)]
struct QuickArgs {
    /// Measure little, in one round: for a check of the benchmark, not for figures
    #[arg(long)]
    quick: bool,
}

impl QuickArgs {
    /// The given number, or a default.
    fn choose(self, given: Option<u64>, full: u64, quick: u64) -> u64 {
        given.unwrap_or(if self.quick { quick } else { full })
    }
}

pub(super) async fn run(config: &Config, out: Output, command: BenchCommand) -> Result<u8> {
    // Each of them writes to the servers that it measures.
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    match command {
        BenchCommand::Locks(args) => run_locks(config, out, args).await,
        BenchCommand::Persist(args) => run_persist(config, out, &args).await,
        BenchCommand::Recovery(args) => recovery::run(config, out, &args).await,
        BenchCommand::Growth(args) => growth::run(config, out, &args).await,
        BenchCommand::Ids(args) => ids::run(config, out, &args).await,
        BenchCommand::Admission(args) => run_rush(config, out, Work::Admission, &args).await,
        BenchCommand::Soldout(args) => run_rush(config, out, Work::SoldOut, &args).await,
        BenchCommand::Endtoend(args) => run_rush(config, out, Work::EndToEnd, &args).await,
        BenchCommand::Latency(args) => run_latency(config, out, &args).await,
        BenchCommand::Overload(args) => run_overload(config, out, &args).await,
        BenchCommand::Shards(args) => shards::run(config, out, &args).await,
        BenchCommand::Console(args) => Box::pin(console::run(config, out, &args)).await,
    }
}

async fn run_locks(config: &Config, out: Output, args: LocksArgs) -> Result<u8> {
    let (mut signals, stop) = (Signals::listen()?, CancellationToken::new());
    // After a signal, the servers are stopped first.
    let rounds = args.rounds;
    let plan = Plan {
        each: Duration::from_millis(rounds.choose(args.millis, 500, 100)),
        tasks: rounds.choose(args.tasks, 64, 4) as usize,
        waiting: rounds.choose(args.waiting, 100, 4) as usize,
        rounds: rounds.rounds(),
    };
    let measuring = Box::pin(measure_locks(config, out, plan, &stop));
    let report = signals.cancelling(&stop, measuring).await?;
    out.answer(&report, || render_locks(&report, plan))
}

async fn measure_locks(
    config: &Config,
    out: Output,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report> {
    // On a temporary server, unless one is given: figures of a busy one say little.
    let context = match config.redis {
        Some(_) => Context::open(config, out, Needs::Redis).await?,
        None => Context::open_in(config, out, DataDir::throw_away()?, Needs::Redis).await?,
    };
    let measured = context.run(async |context| {
        let mut servers = Vec::new();
        let report = match start(&mut servers).await {
            Ok(()) => {
                let running = Box::pin(locks::run(&context.redis, &servers, plan));
                let report = stop.run_until_cancelled(running).await;
                let stopped = Err(EngineError::Failed(reason!("bench-stopped")));
                report.unwrap_or(stopped).map_err(CliError::from)
            }
            Err(error) => Err(error),
        };
        for server in &servers {
            if let Err(error) = context::stop(server).await {
                tracing::warn!(%error, "a server of the benchmark was not stopped");
            }
        }
        report
    });
    measured.await
}

/// Independent servers for the multi-server lock.
const SERVERS: usize = 3;

/// Starts them, each in a temporary data directory; `servers` also holds those started before a failure.
async fn start(servers: &mut Vec<Redis>) -> Result<()> {
    for _ in 0..SERVERS {
        let server =
            Redis::from_managed(Arc::new(ManagedServer::attach(&DataDir::throw_away()?)?))?;
        servers.push(server.clone());
        context::start(&server).await?;
    }
    Ok(())
}

fn render_locks(report: &Report, plan: Plan) -> String {
    type Metric = (String, fn(&Figures) -> Spread);
    let rows: [Metric; 4] = [
        (text!("cli-bench-locks-per-second", tasks = 1_u64), |of| of.alone_per_second),
        (text!("cli-bench-locks-per-second", tasks = plan.tasks), |of| of.many_per_second),
        (text!("cli-bench-hand-over", waiting = plan.waiting), |of| of.hand_over_p50_us),
        (Label("cli-bench-hand-over-p99").to_owned(), |of| of.hand_over_p99_us),
    ];
    let side = |side: Figures| move |(_, of): &Metric| number(of(&side).median as u64);
    let table = Table::new(&rows)
        .left("", |(name, _)| name.clone())
        .right("SET NX PX", side(report.plain))
        .right(&Label("column-reentrant"), side(report.reentrant))
        .right(&Label("column-range"), |(_, of)| range(&of(&report.reentrant)))
        .right(&Label("column-ratio"), |(_, of)| {
            format!("{:.2}", of(&report.reentrant).ratio(&of(&report.plain)))
        })
        .right(&text!("column-multilock", servers = report.servers), side(report.multilock));
    format!("{table}{}", text!("cli-bench-locks", rounds = report.rounds))
}

async fn run_persist(config: &Config, out: Output, args: &PersistArgs) -> Result<u8> {
    let rounds = args.rounds;
    let plan = persist::Plan {
        orders: rounds.choose(args.orders, 100_000, 2_000),
        tutorial: rounds.choose(args.tutorial, 1_000, 100),
        rounds: rounds.rounds(),
    };
    let run = async |deployment, stop: &_| persist::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    out.answer(&report, || render_persist(&report))
}

/// Runs a benchmark that changes servers. After a signal, it removes its data first.
async fn measured<T>(
    config: &Config,
    out: Output,
    run: impl AsyncFnOnce(Deployment, &CancellationToken) -> Result<T, EngineError>,
) -> Result<T> {
    let (mut signals, stop) = (Signals::listen()?, CancellationToken::new());
    let measuring = on_servers(config, out, async |deployment| run(deployment, &stop).await);
    signals.cancelling(&stop, Box::pin(measuring)).await
}

/// Compares both consumers on the servers of `config`, temporary ones if it names none.
pub(super) async fn compare(
    config: &Config,
    out: Output,
    plan: persist::Plan,
    stop: &CancellationToken,
) -> Result<persist::Report> {
    on_servers(config, out, async |deployment| persist::run(deployment, plan, stop).await).await
}

/// Measures on the servers of `config`, temporary ones if it names none.
async fn on_servers<T>(
    config: &Config,
    out: Output,
    measure: impl AsyncFnOnce(Deployment) -> Result<T, EngineError>,
) -> Result<T> {
    // Settings of a deployment in this database do not apply: the benchmark has a single partition and changes no
    // shared setting.
    let config = Config { partitions: None, ..config.clone() };
    let context = Context::open_in(&config, out, DataDir::throw_away()?, Needs::Benchmark).await?;
    context
        .run(async |context| {
            context.redis.connection().multiplexed(HOME).await?;
            Ok(Box::pin(measure(context.deployment.clone())).await?)
        })
        .await
}

/// The name of a side, its figures, and how many times as fast the engine is.
type SideRow<'a> = (String, &'a persist::Figures, Option<f64>);

/// The sides that write orders.
fn side_table(rows: &[SideRow<'_>]) -> String {
    Table::new(rows)
        .left(&Label("column-consumer"), |(name, ..)| name.clone())
        .right(&Label("column-orders"), |(_, of, _)| number(of.persisted))
        .right(&Label("column-seconds"), |(_, of, _)| format!("{:.2}", of.seconds))
        .right(&Label("column-per-second"), |(_, of, _)| number(of.per_second as u64))
        .right(&Label("column-range"), |(_, of, _)| range(&of.spread))
        .right(&Label("column-ratio"), |(.., ratio)| two_decimals(*ratio))
        .to_string()
}

/// A ratio, or nothing.
fn two_decimals(ratio: Option<f64>) -> String {
    ratio.map(|it| format!("{it:.2}")).unwrap_or_default()
}

fn render_persist(report: &persist::Report) -> String {
    let rows = [
        (text!("cli-bench-batches", batch = report.batch), &report.seckill, None),
        (Label("cli-bench-inserted").to_owned(), &report.inserted, Some(report.ratio_inserted)),
        (Label("cli-bench-tutorial").to_owned(), &report.tutorial, Some(report.ratio)),
    ];
    let (rounds, database) = (report.rounds, &report.database);
    format!("{}{}", side_table(&rows), text!("cli-bench-sides", rounds, database))
}

async fn run_rush(config: &Config, out: Output, work: Work, args: &RushArgs) -> Result<u8> {
    let full = if work == Work::SoldOut { 1_000_000 } else { 200_000 };
    let rounds = args.rounds;
    let requests = rounds.choose(args.requests, full, 5_000);
    let plan = rush::Plan { work, requests, rounds: rounds.rounds() };
    let run = async |deployment, stop: &_| rush::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    out.answer(&report, || render_rush(&report))
}

/// The range of a figure.
fn range(of: &Spread) -> String {
    format!("{}–{}", number(of.min as u64), number(of.max as u64))
}

fn render_rush(report: &rush::Report) -> String {
    let connections = report.connections;
    let mut rows = vec![("seckill".to_owned(), Some(report.seckill), None)];
    if report.persisted.is_some() {
        rows.push((Label("cli-bench-persisted").to_owned(), report.persisted, None));
    }
    rows.extend([
        (text!("cli-bench-script", connections), Some(report.tutorial), Some(report.ratio)),
        ("redis-benchmark".to_owned(), report.redis_benchmark, report.ratio_redis_benchmark),
    ]);
    let (requests, rounds, database) = (report.requests, report.rounds, &report.database);
    format!(
        "{}{}",
        Table::new(&rows)
            .left("", |(name, ..)| name.clone())
            .right(&Label("column-per-second"), |(_, of, _)| {
                or_dash(of.map(|of| number(of.median as u64)))
            })
            .right(&Label("column-range"), |(_, of, _)| or_dash(of.as_ref().map(range)))
            .right(&Label("column-ratio"), |(.., ratio)| two_decimals(*ratio)),
        text!("cli-bench-rounds", requests, rounds, database)
    )
}

async fn run_latency(config: &Config, out: Output, args: &LatencyArgs) -> Result<u8> {
    let (rounds, svg) = (args.rounds, args.svg.open()?);
    let plan = latency::Plan {
        buyers: rounds.choose(args.buyers, 100_000, 5_000),
        each: Duration::from_millis(rounds.choose(args.millis, 3_000, 250)),
        lone: rounds.choose(args.lone, 5_000, 500),
        rounds: rounds.rounds(),
    };
    let run = async |deployment, stop: &_| latency::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    svg.write(&latency_panels(&report))?;
    out.answer(&report, || render_latency(&report))
}

fn latency_panels(report: &latency::Report) -> [Panel; 1] {
    type Percentile = (&'static str, fn(&Latencies) -> &Spread);
    type Side = (String, fn(&latency::Load) -> Option<&Latencies>);
    let percentiles: [Percentile; 2] = [("p50", |it| &it.p50_us), ("p99", |it| &it.p99_us)];
    let tutorial = Label("cli-bench-latency-tutorial").to_owned();
    let sides: [Side; 2] =
        [("seckill".to_owned(), |it| Some(&it.seckill)), (tutorial, |it| it.tutorial.as_ref())];
    let mut curves = Vec::new();
    for (name, percentile) in percentiles {
        for (side, latencies) in &sides {
            let point = |load: &latency::Load| Some((load.offered, *percentile(latencies(load)?)));
            curves.push(Curve::of(format!("{side} {name}"), &report.loads, point));
        }
    }
    curves.push(Curve::of("seckill p99.9".to_owned(), &report.loads, |load| {
        Some((load.offered, load.seckill.p999_us))
    }));
    [Panel {
        title: Label("cli-bench-chart-latency").to_owned(),
        x: Axis::new(Label("cli-bench-chart-offered"), false),
        y: Axis::new(Label("cli-bench-chart-microseconds"), true),
        curves,
    }]
}

fn render_latency(report: &latency::Report) -> String {
    let tutorial = Label("cli-bench-latency-tutorial").to_owned();
    let lone = &report.lone;
    let mut rows = Vec::new();
    for load in &report.loads {
        let name = match load.share {
            Some(share) => format!("{:.0} %", share * 100.0),
            None => format!("{}/s", number(load.offered as u64)),
        };
        rows.extend([
            (name, "seckill".to_owned(), Some(&load.seckill)),
            (String::new(), tutorial.clone(), load.tutorial.as_ref()),
        ]);
    }
    rows.extend([
        (Label("cli-bench-lone").to_owned(), "seckill".to_owned(), Some(&lone.seckill)),
        (String::new(), "seckill+SQL".to_owned(), Some(&lone.seckill_persisting)),
        (String::new(), tutorial, Some(&lone.tutorial)),
    ]);
    let median = |of: fn(&Latencies) -> &Spread| {
        move |row: &(String, String, Option<&Latencies>)| {
            or_dash(row.2.map(|side| number(of(side).median as u64)))
        }
    };
    let [p50, p99] = [lone.ratio_p50, lone.ratio_p99].map(|ratio| format!("{ratio:.2}"));
    let busy = report.loads.iter().map(|load| load.seckill.busy.median as u64).sum::<u64>();
    let capacity = report.capacity.median as u64;
    let (rounds, range_of, database) = (report.rounds, range(&report.capacity), &report.database);
    let mut text = format!(
        "{}{}",
        Table::new(&rows)
            .left("", |(name, ..)| name.clone())
            .left("", |(_, side, _)| side.clone())
            .right("/s", median(|it| &it.per_second))
            .right("p50", median(|it| &it.p50_us))
            .right("p99", median(|it| &it.p99_us))
            .right(&Label("column-p99-range"), |(.., of)| or_dash(of.map(|it| range(&it.p99_us))))
            .right("p99.9", median(|it| &it.p999_us))
            .right(&Label("column-max"), median(|it| &it.max_us)),
        text!("cli-bench-latency", rounds, capacity, range = range_of, p50, p99, database)
    );
    if busy > 0 {
        text.push_str(&format!("\n{}", text!("cli-bench-busy", busy)));
    }
    text
}

async fn run_overload(config: &Config, out: Output, args: &OverloadArgs) -> Result<u8> {
    let (rounds, svg) = (args.rounds, args.svg.open()?);
    let plan = overload::Plan {
        buyers: rounds.choose(args.buyers, 100_000, 5_000),
        each: Duration::from_millis(rounds.choose(args.millis, 3_000, 250)),
        rounds: rounds.rounds(),
    };
    let run = async |deployment, stop: &_| overload::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    svg.write(&overload_panels(&report))?;
    out.answer(&report, || render_overload(&report))
}

fn overload_panels(report: &overload::Report) -> [Panel; 2] {
    let panel = |title: Label, y: Axis, of: fn(&overload::Side) -> &Spread| {
        let seckill = |load: &overload::Load| Some((load.offered, *of(&load.seckill)));
        let tutorial = |load: &overload::Load| Some((load.offered, *of(load.tutorial.as_ref()?)));
        Panel {
            title: title.to_owned(),
            x: Axis::new(Label("cli-bench-chart-offered"), false),
            y,
            curves: vec![
                Curve::of("seckill".to_owned(), &report.loads, seckill),
                Curve::of(Label("cli-bench-latency-tutorial").to_owned(), &report.loads, tutorial),
            ],
        }
    };
    let admitted = Axis::new(Label("cli-bench-chart-admitted"), false);
    let latency = Axis::new(Label("cli-bench-chart-microseconds"), true);
    [
        panel(Label("cli-bench-chart-goodput"), admitted, |it| &it.admitted_per_second),
        panel(Label("cli-bench-chart-p99"), latency, |it| &it.p99_us),
    ]
}

/// The load, the side, its figures, and what it admitted of its capacity.
type OverloadRow<'a> = (String, String, Option<&'a overload::Side>, Option<f64>);

fn render_overload(report: &overload::Report) -> String {
    let mut rows: Vec<OverloadRow<'_>> = Vec::new();
    for load in &report.loads {
        let name = format!("{:.0} %", load.share * 100.0);
        let tutorial = Label("cli-bench-latency-tutorial").to_owned();
        rows.extend([
            (name, "seckill".to_owned(), Some(&load.seckill), Some(load.goodput)),
            (String::new(), tutorial, load.tutorial.as_ref(), None),
        ]);
    }
    let median = |of: fn(&overload::Side) -> &Spread| {
        move |row: &OverloadRow<'_>| or_dash(row.2.map(|side| number(of(side).median as u64)))
    };
    let (rounds, goal, database) = (report.rounds, report.goal_ms, &report.database);
    let (capacity, range) = (report.capacity.median as u64, range(&report.capacity));
    format!(
        "{}{}",
        Table::new(&rows)
            .left("", |(name, ..)| name.clone())
            .left("", |(_, side, ..)| side.clone())
            .right("/s", median(|it| &it.per_second))
            .right(&Label("column-admitted-per-second"), median(|it| &it.admitted_per_second))
            .right(&Label("column-of-capacity"), |(.., goodput)| two_decimals(*goodput))
            .right(&Label("column-busy-percent"), |(_, _, side, _)| {
                or_dash(side.map(|it| format!("{:.1}", it.busy_percent.median)))
            })
            .right("p50", median(|it| &it.p50_us))
            .right("p99", median(|it| &it.p99_us))
            .right(&Label("column-max"), median(|it| &it.max_us)),
        text!("cli-bench-overload", rounds, capacity, range, goal, database)
    )
}
