//! `seckill bench shards`: one sale spread over shards.

use clap::Args;
use seckill_bench::shards::{self, Plan, Report, Simulated};
use seckill_engine::error::MAX_USERS;
use seckill_model::{Label, text};

use super::{
    RoundArgs,
    chart::{Axis, Curve, Panel, SvgArgs},
    measured, range,
};
use crate::{Config, Output, Result, Table, count_in, number};

#[derive(Debug, Args)]
pub(in super::super) struct ShardsArgs {
    /// Buyers of each measurement [default: 100000; with --quick: 20000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS / 4))]
    buyers: Option<u64>,
    #[command(flatten)]
    rounds: RoundArgs,
    #[command(flatten)]
    svg: SvgArgs,
}

pub(super) async fn run(config: &Config, out: Output, args: &ShardsArgs) -> Result<u8> {
    let (rounds, svg) = (args.rounds, args.svg.open()?);
    let plan = Plan { users: rounds.choose(args.buyers, 100_000, 20_000), rounds: rounds.rounds() };
    let run = async |deployment, stop: &_| shards::run(deployment, plan, stop).await;
    let report = measured(config, out, run).await?;
    svg.write(&panels(&report))?;
    out.answer(&report, || render(&report))
}

fn panels(report: &Report) -> [Panel; 2] {
    let x = |logarithmic| Axis::new(Label("cli-bench-chart-shards"), logarithmic);
    let most = report.simulated.iter().map(|it| it.buyers).max().unwrap_or_default();
    let rest = |name: Label, skewed| {
        let name = name.to_owned();
        Curve::of(name, &report.simulated, |it: &Simulated| {
            let is_shown = it.skewed == skewed && it.buyers == most;
            is_shown.then_some((it.shards as f64, shards::single(it.rest_seconds)))
        })
    };
    [
        Panel {
            title: Label("cli-bench-chart-shard-cost").to_owned(),
            x: x(false),
            y: Axis::new(Label("cli-bench-chart-shard-cpu"), false),
            curves: vec![Curve::of("seckill".to_owned(), &report.costs, |it| {
                Some((f64::from(it.shards), it.cpu_per_million))
            })],
        },
        Panel {
            title: text!("cli-bench-chart-shard-rest", buyers = most),
            x: x(true),
            y: Axis::new(Label("cli-bench-chart-seconds"), false),
            curves: vec![
                rest(Label("cli-bench-shards-hash"), false),
                rest(Label("cli-bench-shards-zipf"), true),
            ],
        },
    ]
}

fn render(report: &Report) -> String {
    let costs = Table::new(&report.costs)
        .right(&Label("column-shards"), |it| it.shards.to_string())
        .right(&Label("column-per-second"), |it| number(it.per_second.median as u64))
        .right(&Label("column-range"), |it| range(&it.per_second))
        .right(&Label("column-cpu-per-million"), |it| format!("{:.2}", it.cpu_per_million.median))
        .right(&Label("column-on-servers"), |it| format!("{:.2}", it.on_servers.median))
        .right(&Label("column-range"), |it| {
            format!("{:.2}–{:.2}", it.on_servers.min, it.on_servers.max)
        });
    let simulated = Table::new(&report.simulated)
        .right(&Label("column-shards"), |it| number(it.shards))
        .right(&Label("column-buyers"), |it| number(it.buyers))
        .left("", |it| {
            let zipf = Label("cli-bench-shards-zipf");
            if it.skewed { zipf } else { Label("cli-bench-shards-hash") }.to_owned()
        })
        .right(&Label("column-imbalance"), |it| format!("{:.2}", it.imbalance))
        .right(&Label("column-moves"), |it| number(it.moves))
        .right(&Label("column-first-dry"), |it| format!("{:.3}", it.first_dry_seconds))
        .right(&Label("column-until-sold-out"), |it| format!("{:.3}", it.rest_seconds))
        .right(&Label("column-moving"), |it| format!("{:.0} %", it.moving * 100.0));
    let moves = &report.moves;
    let moved = text!(
        "cli-bench-shards-moves",
        stock = moves.stock,
        shards = u64::from(moves.shards),
        changes = moves.changes,
        gained = moves.gained,
        p99 = format!("{:.1}", moves.p99_ms),
        most = format!("{:.1}", moves.max_ms),
        each = format!("{:.2}", moves.move_ms)
    );
    let (users, rounds, database) = (report.users, report.rounds, &report.database);
    let measured = text!("cli-bench-shards", users, rounds, database);
    let computed = Label("cli-bench-shards-simulated");
    format!("{costs}{measured}\n\n{moved}\n\n{simulated}{computed}")
}
