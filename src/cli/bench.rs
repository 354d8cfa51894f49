//! `seckill bench`: speed, beside the plain way on the same server.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{
    Fault,
    context::Context,
    output::{Output, number, table},
};
use crate::{
    bench::locks::{self, Figures, Plan, Report},
    broker::data_dir::DataDir,
    config::Config,
};

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Locks: taken and given back a second, and hand-over, beside SET NX PX with a Lua release
    Locks(LocksArgs),
}

#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Seconds for each of the six parts
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u64,
    /// Tasks with a lock of their own
    #[arg(long, value_name = "N", default_value_t = 64)]
    tasks: usize,
    /// Tasks that wait for one lock
    #[arg(long, value_name = "N", default_value_t = 100)]
    waiting: usize,
}

pub(super) async fn run(config: &Config, out: Output, command: BenchCommand) -> Result<u8, Fault> {
    let BenchCommand::Locks(args) = command;
    let range = |value: usize| (1..=10_000).contains(&value);
    if !(1..=600).contains(&args.seconds) || !range(args.tasks) || !range(args.waiting) {
        return Err(Fault::usage(
            "give 1 to 600 seconds, 1 to 10000 tasks and 1 to 10000 who wait",
        ));
    }
    // On a server of its own, unless one is named: figures of a busy one say little.
    let mut config = config.clone();
    config.database = None;
    let context = match config.redis {
        Some(_) => Context::open_answering(&config).await?,
        None => Context::open_in(&config, DataDir::throw_away()?).await?,
    };
    let plan =
        Plan { each: Duration::from_secs(args.seconds), tasks: args.tasks, waiting: args.waiting };
    let result = locks::run(&context.redis, plan).await;
    context.close().await;
    let report = result?;
    out.answer(&report, || words(&report, &args))?;
    Ok(0)
}

fn words(report: &Report, args: &LocksArgs) -> String {
    let ratio = |ours: f64, theirs: f64| format!("{:.2}", ours / theirs.max(f64::MIN_POSITIVE));
    let row = |name: String, of: fn(&Figures) -> f64| {
        let (ours, plain) = (of(&report.reentrant), of(&report.plain));
        vec![name, number(plain as u64), number(ours as u64), ratio(ours, plain)]
    };
    let rows = [
        row("locks a second, 1 task".to_owned(), |of| of.alone_per_second),
        row(format!("locks a second, {} tasks", args.tasks), |of| of.many_per_second),
        row(format!("hand-over to one of {}, p50 us", args.waiting), |of| {
            of.hand_over_p50_us as f64
        }),
        row("hand-over, p99 us".to_owned(), |of| of.hand_over_p99_us as f64),
    ];
    table(&["", "SET NX PX", "reentrant", "ratio"], &[1, 2, 3], &rows)
}
