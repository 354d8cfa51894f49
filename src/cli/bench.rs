//! `seckill bench`: throughput compared with a baseline on the same server.

mod console;

use std::{sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use seckill_bench::{
    locks::{self, Figures, Plan, Report},
    persist,
};
use seckill_engine::EngineError;
use seckill_model::{Label, text};
use seckill_redis::{HOME, Redis, data_dir::DataDir, server::ManagedServer};
use tokio_util::sync::CancellationToken;

use crate::{
    CliError, Config, Context, Needs, Output, Result, Table, context, count_in, number,
    signals::Signals,
};

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Locks: acquisitions per second and hand-over latency, compared with SET NX PX and a Lua release
    ///
    /// Runs on a temporary server, or on --redis; the multi-server lock always runs on three temporary servers.
    Locks(LocksArgs),
    /// Orders persisted per second, from stream to acknowledged row, compared with the consumer of a common tutorial
    ///
    /// Runs on temporary servers, or on --redis and --database. A Redis with a live node and a database with a sale
    /// that is not archived are rejected. All keys of the benchmark are removed at its end, except the order ID
    /// counters, so that no ID is used twice; the rows of its two sales stay in the database, and the sales are
    /// archived.
    Persist(PersistArgs),
    /// The console: idle CPU, overhead on a full load test, time to draw and to respond to a key
    ///
    /// Runs in a temporary data directory and draws to a hidden terminal.
    Console(console::ConsoleArgs),
}

#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Seconds for each of the nine measurements
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = count_in(1..=600))]
    seconds: u64,
    /// Tasks with one lock each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count_in(1..=10_000))]
    tasks: u64,
    /// Tasks that share one lock
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count_in(1..=10_000))]
    waiting: u64,
}

#[derive(Debug, Args)]
pub(super) struct PersistArgs {
    /// Orders that the engine's consumer writes
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count_in(1..=1_000_000))]
    orders: u64,
    /// Orders that the tutorial's consumer writes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count_in(1..=1_000_000))]
    tutorial: u64,
}

pub(super) async fn run(config: &Config, out: Output, command: BenchCommand) -> Result<u8> {
    match command {
        BenchCommand::Locks(args) => run_locks(config, out, args).await,
        BenchCommand::Persist(args) => run_persist(config, out, &args).await,
        BenchCommand::Console(args) => Box::pin(console::run(config, out, &args)).await,
    }
}

async fn run_locks(config: &Config, out: Output, args: LocksArgs) -> Result<u8> {
    let each = Duration::from_secs(args.seconds);
    let (tasks, waiting) = (args.tasks as usize, args.waiting as usize);
    // A given Redis belongs to a deployment that this database does not know.
    let config = Config { database: None, partitions: None, read_only: true, ..config.clone() };
    // On a temporary server, unless one is given: figures of a busy one say little.
    let context = match config.redis {
        Some(_) => Context::open(&config, out, Needs::Both).await?,
        None => Context::open_in(&config, out, DataDir::throw_away()?, Needs::Database).await?,
    };
    let measured = context.run(async |context| {
        let mut servers = Vec::new();
        let report = match start(&mut servers).await {
            Ok(()) => {
                let plan = Plan { each, tasks, waiting };
                locks::run(&context.redis, &servers, plan).await.map_err(CliError::from)
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
    let report = measured.await?;
    out.answer(&report, || render_locks(&report, &args))
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

fn render_locks(report: &Report, args: &LocksArgs) -> String {
    type Metric = (String, fn(&Figures) -> f64);
    let rows: [Metric; 4] = [
        (text!("cli-bench-locks-per-second", tasks = 1_u64), |of| of.alone_per_second),
        (text!("cli-bench-locks-per-second", tasks = args.tasks), |of| of.many_per_second),
        (text!("cli-bench-hand-over", waiting = args.waiting), |of| of.hand_over_p50_us as f64),
        (Label("cli-bench-hand-over-p99").to_owned(), |of| of.hand_over_p99_us as f64),
    ];
    Table::new(&rows)
        .left("", |(name, _)| name.clone())
        .right("SET NX PX", |(_, of)| number(of(&report.plain) as u64))
        .right(&Label("column-reentrant"), |(_, of)| number(of(&report.reentrant) as u64))
        .right(&Label("column-ratio"), |(_, of)| {
            format!("{:.2}", of(&report.reentrant) / of(&report.plain).max(f64::MIN_POSITIVE))
        })
        .right(&text!("column-multilock", servers = report.servers), |(_, of)| {
            number(of(&report.multilock) as u64)
        })
        .to_string()
}

async fn run_persist(config: &Config, out: Output, args: &PersistArgs) -> Result<u8> {
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut signals = Signals::listen()?;
    let plan = persist::Plan { orders: args.orders, tutorial: args.tutorial };
    let stop = CancellationToken::new();
    // After a signal, the benchmark removes its data first.
    let measuring = Box::pin(compare(config, out, plan, &stop));
    let report = signals.cancelling(&stop, measuring).await?;
    out.answer(&report, || render_persist(&report))
}

/// Compares both consumers on the servers of `config`, temporary ones if it names none.
pub(super) async fn compare(
    config: &Config,
    out: Output,
    plan: persist::Plan,
    stop: &CancellationToken,
) -> Result<persist::Report> {
    // Settings of a deployment in this database do not apply: the benchmark has a single partition and changes no
    // shared setting.
    let config = Config { partitions: None, read_only: true, ..config.clone() };
    let context = Context::open_in(&config, out, DataDir::throw_away()?, Needs::Database).await?;
    context
        .run(async |context| {
            context.redis.connection().multiplexed(HOME).await?;
            let deployment = context.deployment.clone();
            Ok(Box::pin(persist::run(deployment, plan, stop)).await?)
        })
        .await
}

fn render_persist(report: &persist::Report) -> String {
    let rows = [
        (Label("cli-bench-tutorial").to_owned(), &report.tutorial),
        (text!("cli-bench-batches", batch = report.batch), &report.seckill),
    ];
    let (ratio, database) = (format!("{:.1}", report.ratio), &report.database);
    format!(
        "{}{}",
        Table::new(&rows)
            .left(&Label("column-consumer"), |(name, _)| name.clone())
            .right(&Label("column-orders"), |(_, of)| number(of.persisted))
            .right(&Label("column-seconds"), |(_, of)| format!("{:.2}", of.seconds))
            .right(&Label("column-per-second"), |(_, of)| number(of.per_second as u64)),
        text!("cli-bench-ratio", ratio, database)
    )
}
