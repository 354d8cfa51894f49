//! `seckill bench recovery`: pending entries of a dead node, and the start of a node.

use clap::Args;
use seckill_bench::recovery::{self, Plan, Report};
use seckill_engine::error::MAX_USERS;
use seckill_model::{Label, text};

use super::{RoundArgs, measured, side_table};
use crate::{Config, Output, Result, count_in};

#[derive(Debug, Args)]
pub(in super::super) struct RecoveryArgs {
    /// Entries of the engine's consumer in each round [default: 100000; with --quick: 2000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    orders: Option<u64>,
    /// Entries of the tutorial's consumer in each round [default: 1000; with --quick: 100]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    tutorial: Option<u64>,
    /// Orders beside which a node starts [default: 1000000; with --quick: 2000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=MAX_USERS))]
    beside: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
}

pub(super) async fn run(config: &Config, out: Output, args: &RecoveryArgs) -> Result<u8> {
    let rounds = args.rounds;
    let plan = Plan {
        orders: rounds.choose(args.orders, 100_000, 2_000),
        tutorial: rounds.choose(args.tutorial, 1_000, 100),
        beside: rounds.choose(args.beside, 1_000_000, 2_000),
        rounds: rounds.rounds(),
    };
    let run = async |deployment, stop: &_| recovery::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    out.answer(&report, || render(&report))
}

fn render(report: &Report) -> String {
    let undelivered = Label("cli-bench-undelivered").to_owned();
    let rows = [
        (Label("cli-bench-recovered").to_owned(), &report.recovered, None),
        (undelivered, &report.undelivered, Some(report.ratio_undelivered)),
        (Label("cli-bench-tutorial").to_owned(), &report.tutorial, Some(report.ratio)),
    ];
    let (rounds, database) = (report.rounds, &report.database);
    let mut text =
        format!("{}{}", side_table(&rows), text!("cli-bench-recovery", rounds, database));
    if let Some(start) = &report.start {
        let [live, restarted] = [start.live_ms, start.restarted_ms]
            .map(|it| format!("{:.1} ({:.1}–{:.1})", it.median, it.min, it.max));
        let orders = start.orders;
        text.push_str(&format!("\n{}", text!("cli-bench-start", orders, live, restarted)));
    }
    text
}
