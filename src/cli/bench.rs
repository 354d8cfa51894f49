//! `seckill bench`: throughput compared with a baseline on the same server.

mod console;

use std::{sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use seckill_bench::{
    locks::{self, Figures, Plan, Report},
    persist,
};
use seckill_engine::EngineError;
use seckill_redis::{HOME, Redis, data_dir::DataDir, server::ManagedServer};
use seckill_store::bench_baseline::PlainOrders;
use tokio_util::sync::CancellationToken;

use super::{
    Fault,
    context::Context,
    output::{Output, count, number, table},
    work::EndOfLife,
};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Locks: acquisitions per second and hand-over latency, compared with SET NX PX and a Lua release
    ///
    /// Runs on a temporary server, or on --redis; the multi-server lock always runs on three temporary servers.
    Locks(LocksArgs),
    /// Orders persisted per second, from stream to acknowledged row, compared with the tutorial's consumer
    ///
    /// Runs on temporary servers, or on --redis and --database. A Redis with a live node and a database
    /// with a sale that is not archived are rejected. All keys of the benchmark are removed at its end, except the order ID counters, which never repeat an ID; the rows of
    /// its two sales stay in the database, and the sales are archived.
    Persist(PersistArgs),
    /// The console: idle CPU, overhead on a full load test, time to draw and to respond to a key
    ///
    /// Runs in a temporary data dir and draws to a hidden terminal.
    Console(console::ConsoleArgs),
}

#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Seconds for each of the nine measurements
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u64,
    /// Tasks with one lock each
    #[arg(long, value_name = "N", default_value_t = 64)]
    tasks: usize,
    /// Tasks that share one lock
    #[arg(long, value_name = "N", default_value_t = 100)]
    waiting: usize,
}

#[derive(Debug, Args)]
pub(super) struct PersistArgs {
    /// Orders that the engine's consumer writes
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count)]
    orders: u64,
    /// Orders that the tutorial's consumer writes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count)]
    tutorial: u64,
}

pub(super) async fn run(config: &Config, out: Output, command: BenchCommand) -> Result<u8, Fault> {
    match command {
        BenchCommand::Locks(args) => run_locks(config, out, args).await,
        BenchCommand::Persist(args) => run_persist(config, out, &args).await,
        BenchCommand::Console(args) => Box::pin(console::run(config, out, &args)).await,
    }
}

async fn run_locks(config: &Config, out: Output, args: LocksArgs) -> Result<u8, Fault> {
    let range = |value: usize| (1..=10_000).contains(&value);
    if !(1..=600).contains(&args.seconds) || !range(args.tasks) || !range(args.waiting) {
        return Err(Fault::usage("give 1 to 600 seconds, 1 to 10000 tasks and 1 to 10000 waiters"));
    }
    // On a temporary server, unless one is given: figures of a busy one say little.
    let mut config = config.clone();
    config.database = None;
    // A given Redis belongs to a deployment that this database does not know.
    (config.partitions, config.read_only) = (None, true);
    let context = match config.redis {
        Some(_) => Context::open_answering(&config).await?,
        None => Context::open_in(&config, DataDir::throw_away()?, false).await?,
    };
    let plan =
        Plan { each: Duration::from_secs(args.seconds), tasks: args.tasks, waiting: args.waiting };
    let mut servers = Vec::new();
    let result = async {
        let independent = start(&mut servers).await?;
        Ok::<_, Fault>(locks::run(&context.redis, &independent, plan).await?)
    }
    .await;
    for (server, _) in &servers {
        if let Err(error) = server.detach().await {
            tracing::warn!(%error, "a server of the bench was not stopped");
        }
    }
    context.close().await;
    let report = result?;
    out.answer(&report, || render(&report, &args))?;
    Ok(0)
}

/// Independent servers for the multi-server lock.
const SERVERS: usize = 3;

/// Starts them, each in a temporary data dir; `servers` also holds those started before a failure.
async fn start(servers: &mut Vec<(Arc<ManagedServer>, DataDir)>) -> Result<Vec<Redis>, Fault> {
    let mut independent = Vec::with_capacity(SERVERS);
    for _ in 0..SERVERS {
        let dir = DataDir::throw_away()?;
        let server = Arc::new(ManagedServer::attach(&dir)?);
        servers.push((Arc::clone(&server), dir));
        server.ensure().await?;
        independent.push(Redis::from_managed(server)?);
    }
    Ok(independent)
}

fn render(report: &Report, args: &LocksArgs) -> String {
    let ratio = |ours: f64, theirs: f64| format!("{:.2}", ours / theirs.max(f64::MIN_POSITIVE));
    let row = |name: String, of: fn(&Figures) -> f64| {
        let (ours, plain) = (of(&report.reentrant), of(&report.plain));
        let wide = number(of(&report.multilock) as u64);
        vec![name, number(plain as u64), number(ours as u64), ratio(ours, plain), wide]
    };
    let rows = [
        row("locks a second, 1 task".to_owned(), |of| of.alone_per_second),
        row(format!("locks a second, {} tasks", args.tasks), |of| of.many_per_second),
        row(format!("hand-over to one of {}, p50 us", args.waiting), |of| {
            of.hand_over_p50_us as f64
        }),
        row("hand-over, p99 us".to_owned(), |of| of.hand_over_p99_us as f64),
    ];
    let wide = format!("multilock, {} servers", report.servers);
    table(&["", "SET NX PX", "reentrant", "ratio", &wide], &[1, 2, 3, 4], &rows)
}

async fn run_persist(config: &Config, out: Output, args: &PersistArgs) -> Result<u8, Fault> {
    let range = |orders: u64| (1..=1_000_000).contains(&orders);
    if !range(args.orders) || !range(args.tutorial) {
        return Err(Fault::usage("give each side 1 to 1000000 orders"));
    }
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut end = EndOfLife::listen()?;
    // Settings of a deployment in this database do not apply: the benchmark has a single partition and changes no
    // shared setting.
    let opened = Config { partitions: None, read_only: true, ..config.clone() };
    let context = Context::open_in(&opened, DataDir::throw_away()?, false).await?;
    let result = measure_persist(&context, args, &mut end).await;
    context.close().await;
    let report = result?;
    out.answer(&report, || persist_words(&report))?;
    Ok(0)
}

async fn measure_persist(
    context: &Context,
    args: &PersistArgs,
    end: &mut EndOfLife,
) -> Result<persist::Report, Fault> {
    context.redis.connection().multiplexed(HOME).await?;
    let database = context.config.database.clone();
    let database = database.unwrap_or_else(|| context.dir.database_url());
    let plain = PlainOrders::open(&database, &context.config.store).await?;
    let plan = persist::Plan { orders: args.orders, tutorial: args.tutorial };
    let stop = CancellationToken::new();
    let ended = {
        let mut measuring = Box::pin(persist::run(context.deployment(), &plain, plan, &stop));
        tokio::select! {
            ended = &mut measuring => ended,
            // Interrupted: clean up first.
            () = end.come() => {
                stop.cancel();
                measuring.await
            }
        }
    };
    plain.close().await;
    match ended {
        Err(EngineError::Stopping) => Err(Fault::no("stopped before both sides were measured")),
        ended => Ok(ended?),
    }
}

fn persist_words(report: &persist::Report) -> String {
    let row = |name: &str, of: &persist::Figures| {
        let seconds = format!("{:.2}", of.seconds);
        vec![name.to_owned(), number(of.persisted), seconds, number(of.per_second as u64)]
    };
    let ours = format!("seckill, at most {} a transaction", number(report.batch as u64));
    let rows = [row("the tutorial's, one by one", &report.tutorial), row(&ours, &report.seckill)];
    let head = ["consumer", "orders", "seconds", "a second"];
    table(&head, &[1, 2, 3], &rows)
        + &format!("{:.1} times as many, on {}\n", report.ratio, report.database)
}
