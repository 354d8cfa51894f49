//! `seckill bench growth`: orders persisted per second as the orders table grows.

use clap::Args;
use seckill_bench::{
    growth::{self, Plan, Report},
    rush::Spread,
};
use seckill_engine::error::MAX_USERS;
use seckill_model::{Label, text};

use super::{
    RoundArgs,
    chart::{Axis, Curve, Panel, SvgArgs},
    measured, range, two_decimals,
};
use crate::{Config, Output, Result, Table, count_in, number};

#[derive(Debug, Args)]
pub(in super::super) struct GrowthArgs {
    /// Rows in the table at the last measurement [default: 1000000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=MAX_USERS))]
    rows: Option<u64>,
    /// Rows in the table at the first measurement [default: 100000; with --quick: 1000]
    #[arg(long, value_name = "N", value_parser = count_in(1..=MAX_USERS))]
    first: Option<u64>,
    /// Orders of each side in each round [default: 20000; with --quick: 200]
    #[arg(long, value_name = "N", value_parser = count_in(1..=1_000_000))]
    orders: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    svg: SvgArgs,
}

pub(super) async fn run(config: &Config, out: Output, args: &GrowthArgs) -> Result<u8> {
    let (rounds, svg) = (args.rounds, args.svg.open()?);
    let plan = Plan {
        first: rounds.choose(args.first, 100_000, 1_000),
        rows: rounds.choose(args.rows, 1_000_000, 5_000),
        orders: rounds.choose(args.orders, 20_000, 200),
        rounds: rounds.rounds(),
    };
    let run = async |deployment, stop: &_| growth::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    svg.write(&panels(&report))?;
    out.answer(&report, || render(&report))
}

fn panels(report: &Report) -> [Panel; 1] {
    let inserted = Label("cli-bench-inserted").to_owned();
    [Panel {
        title: Label("cli-bench-chart-growth").to_owned(),
        x: Axis::new(Label("cli-bench-chart-rows"), true),
        y: Axis::new(Label("cli-bench-chart-orders"), false),
        curves: vec![
            Curve::of("seckill".to_owned(), &report.sizes, |it| Some((it.rows as f64, it.seckill))),
            Curve::of(inserted, &report.sizes, |it| Some((it.rows as f64, it.inserted))),
        ],
    }]
}

fn render(report: &Report) -> String {
    type Row = (String, String, Spread, f64, Option<f64>, Option<f64>);
    let mut rows: Vec<Row> = Vec::new();
    for size in &report.sizes {
        let (of_inserted, bytes) = (Some(size.ratio_inserted), Some(size.bytes_per_row));
        let (seckill, inserted) = ("seckill".to_owned(), Label("cli-bench-inserted").to_owned());
        rows.extend([
            (number(size.rows), seckill, size.seckill, size.ratio_first, None, bytes),
            (String::new(), inserted, size.inserted, size.ratio_first_inserted, of_inserted, None),
        ]);
    }
    let (orders, rounds, database) = (report.orders, report.rounds, &report.database);
    format!(
        "{}{}",
        Table::new(&rows)
            .right(&Label("column-rows"), |(size, ..)| size.clone())
            .left("", |(_, side, ..)| side.clone())
            .right(&Label("column-per-second"), |(_, _, of, ..)| number(of.median as u64))
            .right(&Label("column-range"), |(_, _, of, ..)| range(of))
            .right(&Label("column-of-first"), |(_, _, _, first, ..)| format!("{first:.2}"))
            .right(&Label("column-ratio"), |(.., ratio, _)| two_decimals(*ratio))
            .right(&Label("column-bytes-per-row"), |(.., bytes)| {
                bytes.map(|it| number(it as u64)).unwrap_or_default()
            }),
        text!("cli-bench-growth", orders, rounds, database)
    )
}
