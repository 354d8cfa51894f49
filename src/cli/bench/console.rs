//! `seckill bench console`: overhead of the console, idle and during a load test.

use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use seckill_console::{Drawing, Person, gauge};
use seckill_engine::{Command, LoadTest, Reply, error::MAX_USERS};
use seckill_model::{Label, text};
use serde::Serialize;

use super::QuickArgs;
use crate::{
    CliError, Config, Output, Result, Table, count_in, fields, number,
    sandbox::{self, Guide, Sandbox},
};

/// Key repeat interval.
const KEYS: Duration = Duration::from_millis(40);

#[derive(Debug, Args)]
pub(in super::super) struct ConsoleArgs {
    /// Buyers in each load test [default: 100000; with --quick: 5000]
    #[arg(long, value_name = "N", value_parser = count_in(1_000..=MAX_USERS))]
    users: Option<u64>,
    /// Load tests with a console, and as many without [default: 40; with --quick: 1]
    #[arg(long, value_name = "N", value_parser = count_in(1..=100))]
    rounds: Option<u64>,
    /// Idle seconds, with a console and without [default: 10; with --quick: 1]
    #[arg(long, value_name = "S", value_parser = count_in(1..=600))]
    rest: Option<u64>,
    #[command(flatten)]
    quick: QuickArgs,
    /// Columns of the terminal
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(60..=400))]
    width: u16,
    /// Rows of the terminal
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(15..=100))]
    height: u16,
}

/// Results.
#[derive(Debug, Serialize)]
struct Report {
    width: u16,
    height: u16,
    /// CPU use of this process when idle, as a fraction of one core.
    rest: Shares,
    /// Requests answered per second, medians of all rounds.
    rush: Rush,
    /// From a snapshot of the engine to bytes for the terminal, during the load tests.
    frame_us: Spread,
    /// From a key to the last byte of the frame that reflects it.
    key_us: Spread,
    /// Bytes of an average frame.
    bytes_a_frame: u64,
}

/// A latency distribution over `n` samples, in microseconds.
#[derive(Debug, Serialize)]
struct Spread {
    p50: u64,
    p99: u64,
    max: u64,
    n: usize,
}

impl Spread {
    fn of(samples: Vec<f64>) -> Self {
        let n = samples.len();
        let [p50, p99, max] = quantiles(samples, [0.5, 0.99, 1.0]).map(|at| at as u64);
        Self { p50, p99, max, n }
    }
}

#[derive(Debug, Serialize)]
struct Shares {
    engine: f64,
    engine_and_console: f64,
}

#[derive(Debug, Serialize)]
struct Rush {
    users: u64,
    rounds: u64,
    alone_per_second: f64,
    watched_per_second: f64,
    /// Throughput lost to the console: the median of the rounds, each with two consecutive load tests; a negative value
    /// is noise.
    slowed: f64,
    /// Quartiles of the rounds, which show how reliable the machine is.
    slowed_quartiles: (f64, f64),
}

pub(super) async fn run(config: &Config, out: Output, args: &ConsoleArgs) -> Result<u8> {
    let measure = async |sandbox: &Sandbox<'_>| measure(sandbox, args).await;
    let report = sandbox::run(config, out, Label("cli-bench"), Guide::default(), measure).await?;
    out.answer(&report, || render(&report))
}

async fn measure(sandbox: &Sandbox<'_>, args: &ConsoleArgs) -> Result<Report> {
    let quick = args.quick;
    let users = quick.choose(args.users, 100_000, 5_000);
    let rounds = quick.choose(args.rounds, 40, 1);
    let rest = Duration::from_secs(quick.choose(args.rest, 10, 1));
    let size = (args.width, args.height);
    let remote = || sandbox.node.remote();
    let before = cpu_seconds();
    tokio::time::sleep(rest).await;
    let between = cpu_seconds();
    let watching = Person { size, pause: None };
    gauge(remote(), watching, &mut Drawing::default(), tokio::time::sleep(rest)).await?;
    let share = |from: f64, to: f64| (to - from) / rest.as_secs_f64();
    let shares = Shares {
        engine: share(before, between),
        engine_and_console: share(between, cpu_seconds()),
    };
    let mut drawn = Drawing::default();
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    // Rewriting the append-only file occupies a core for seconds and slows down the load test that it overlaps.
    let stream = sandbox.context.keys.home().orders();
    let mut conn = sandbox.context.redis.connection();
    conn.set(&stream, "auto-aof-rewrite-percentage", "0").await?;
    for round in 0..rounds {
        // The second one works with a larger database, so the order alternates.
        for with in [round % 2 == 1, round % 2 == 0] {
            let voucher = sandbox.create("bench", users / 2, None).await?;
            // Like the console does: the engine has its own threads.
            let command = Command::LoadTest(LoadTest::new(voucher, users));
            let answer = remote().send(command, None)?;
            let mut answered = None;
            let rushing = async { answered = answer.await.ok() };
            if with {
                let person = Person { size, pause: Some(KEYS) };
                gauge(remote(), person, &mut drawn, rushing).await?;
            } else {
                rushing.await;
            }
            let report = match answered {
                Some(Ok(Reply::LoadTestDone(report))) => report,
                Some(Err(error)) => return Err(error.into()),
                _ => return Err(CliError::failed(Label("cli-bench-engine-ended"))),
            };
            if report.errors > 0 {
                let error = report.first_error.unwrap_or_default().to_string();
                return Err(CliError::failed(text!("cli-bench-no-answer", error)));
            }
            if with { &mut watched } else { &mut alone }.push(report.per_second);
        }
    }
    let slowed = alone.iter().zip(&watched).map(|(alone, watched)| 1.0 - watched / alone).collect();
    let [low, slowed, high] = quantiles(slowed, [0.25, 0.5, 0.75]);
    let [alone_per_second] = quantiles(alone, [0.5]);
    let [watched_per_second] = quantiles(watched, [0.5]);
    let bytes_a_frame = drawn.bytes.iter().sum::<f64>() / drawn.bytes.len().max(1) as f64;
    Ok(Report {
        width: args.width,
        height: args.height,
        rest: shares,
        rush: Rush {
            users,
            rounds,
            alone_per_second,
            watched_per_second,
            slowed,
            slowed_quartiles: (low, high),
        },
        frame_us: Spread::of(drawn.frames_us),
        key_us: Spread::of(drawn.keys_us),
        bytes_a_frame: bytes_a_frame as u64,
    })
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Quantiles, linearly interpolated; 0 without samples.
fn quantiles<const N: usize>(mut of: Vec<f64>, at: [f64; N]) -> [f64; N] {
    of.sort_by(f64::total_cmp);
    at.map(|at| {
        let place = at * of.len().saturating_sub(1) as f64;
        let [low, high] = [place.floor(), place.ceil()]
            .map(|place| of.get(place as usize).copied().unwrap_or_default());
        low + (high - low) * place.fract()
    })
}

fn render(report: &Report) -> String {
    let Report { rest, rush, .. } = report;
    let rows = [
        (Label("cli-bench-drawn"), &report.frame_us),
        (Label("cli-bench-answered"), &report.key_us),
    ];
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let [both, engine] = [rest.engine_and_console, rest.engine].map(percent);
    let [watched, alone] = [rush.watched_per_second as u64, rush.alone_per_second as u64];
    let (low, high) = rush.slowed_quartiles;
    let [slowed, low, high] = [rush.slowed, low, high].map(percent);
    let size = format!("{}x{}", report.width, report.height);
    let lines = [
        (Label("cli-bench-idle-name"), text!("cli-bench-idle", both, engine)),
        (Label("cli-bench-load-name"), text!("cli-bench-load", watched, alone)),
        (
            Label("cli-bench-slowed-name"),
            text!("cli-bench-slowed", slowed, rounds = rush.rounds, low, high),
        ),
        (
            Label("cli-bench-frame-name"),
            text!("cli-bench-frame", bytes = report.bytes_a_frame, size),
        ),
    ];
    let table = Table::new(&rows)
        .left("", |(name, _)| *name)
        .right("p50", |(_, of)| number(of.p50))
        .right("p99", |(_, of)| number(of.p99))
        .right(&Label("column-max"), |(_, of)| number(of.max))
        .right(&Label("column-samples"), |(_, of)| number(of.n as u64));
    format!("{}\n{table}", fields(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let is = |of: &[f64], at, wanted: f64| {
            let [found] = quantiles(of.to_vec(), [at]);
            (found - wanted).abs() < 1e-9
        };
        assert!(is(&[3.0, 1.0, 2.0], 0.5, 2.0) && is(&[4.0, 1.0, 2.0, 3.0], 0.5, 2.5));
        assert!(is(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25, 2.0) && is(&[1.0, 3.0], 0.75, 2.5));
    }
}
