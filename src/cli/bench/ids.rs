//! `seckill bench ids`: order IDs per second.

use clap::Args;
use seckill_bench::ids::{self, Plan, Report};
use seckill_engine::error::MAX_USERS;
use seckill_model::{Label, text};

use super::{RoundArgs, measured, range, two_decimals};
use crate::{Config, Output, Result, Table, count_in, number};

#[derive(Debug, Args)]
pub(in super::super) struct IdsArgs {
    /// IDs of each side in each round [default: 200000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS))]
    ids: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
}

pub(super) async fn run(config: &Config, out: Output, args: &IdsArgs) -> Result<u8> {
    let rounds = args.rounds;
    let ids = rounds.choose(args.ids, 200_000, 5_000);
    let plan = Plan { ids, rounds: rounds.rounds() };
    let run = async |deployment, stop: &_| ids::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    out.answer(&report, || render(&report))
}

fn render(report: &Report) -> String {
    let (batch, tasks) = (report.batch, report.tasks);
    let rows = [
        (text!("cli-bench-leased", batch), &report.seckill, None),
        (text!("cli-bench-incr", tasks), &report.tutorial, Some(report.ratio)),
    ];
    let (ids, rounds) = (report.ids, report.rounds);
    format!(
        "{}{}",
        Table::new(&rows)
            .left("", |(name, ..)| name.clone())
            .right(&Label("column-per-second"), |(_, of, _)| number(of.per_second.median as u64))
            .right(&Label("column-range"), |(_, of, _)| range(&of.per_second))
            .right(&Label("column-round-trips"), |(_, of, _)| {
                number(of.round_trips.median as u64)
            })
            .right(&Label("column-ratio"), |(.., ratio)| two_decimals(*ratio)),
        text!("cli-bench-ids", ids, rounds)
    )
}
