//! `seckill bench console`: overhead of the console, idle and during a load test.

use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use seckill_console::{Drawing, Drawn, Options, Person, gauge};
use seckill_engine::{
    command::{Command, LoadTest, Reply},
    error::MAX_USERS,
    node::Node,
};
use serde::Serialize;

use seckill_model::message::{Label, text};

use super::super::{
    CliError, Result,
    output::{Output, count_in, number},
    sandbox::{self, Sandbox},
    table::{Table, fields},
};
use crate::config::Config;

/// Key repeat interval.
const KEYS: Duration = Duration::from_millis(40);

#[derive(Debug, Args)]
pub(in super::super) struct ConsoleArgs {
    /// Buyers in each load test
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = count_in(1_000..=MAX_USERS))]
    users: u64,
    /// Load tests with a console, and as many without
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = count_in(1..=100))]
    rounds: u64,
    /// Idle seconds, with a console and without
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = count_in(1..=600))]
    rest: u64,
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
    /// Figures of the console during the load tests.
    #[serde(flatten)]
    drawn: Drawn,
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
    let (context, node, ()) = sandbox::open(config, out, |store| (store, ())).await?;
    let sandbox = Sandbox { node: &node, context: &context, what: Label("cli-bench") };
    let measured = Box::pin(measure(sandbox, args)).await;
    node.stop().await;
    context.close().await;
    let report = measured?;
    out.answer(&report, || render(&report))?;
    Ok(0)
}

async fn measure(sandbox: Sandbox<'_>, args: &ConsoleArgs) -> Result<Report> {
    let (size, rest) = ((args.width, args.height), Duration::from_secs(args.rest));
    let engine = share(rest, tokio::time::sleep(rest)).await;
    let watching = Person { size, pause: None };
    let mut unused = drawing()?;
    let mut shown = Ok(());
    let both = share(rest, async {
        shown =
            measure_console(sandbox.node, watching, &mut unused, tokio::time::sleep(rest)).await;
    });
    let engine_and_console = Box::pin(both).await;
    shown?;
    let mut drawn = drawing()?;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    // A rewrite takes a core for seconds, from whichever load test it overlaps.
    let stream = sandbox.context.keys.home().orders();
    let mut conn = sandbox.context.redis.connection();
    conn.set(&stream, "auto-aof-rewrite-percentage", "0").await?;
    for round in 0..args.rounds {
        // The second one works with a larger database, so the order alternates.
        for with in [round % 2 == 1, round % 2 == 0] {
            let voucher = sandbox.create("bench", args.users / 2, None).await?;
            // Like the console does: the engine has its own threads.
            let command = Command::LoadTest(LoadTest::new(voucher, args.users));
            let answer = sandbox.node.remote().send(command, None)?;
            let mut answered = None;
            let rushing = async { answered = answer.await.ok() };
            if with {
                let person = Person { size, pause: Some(KEYS) };
                measure_console(sandbox.node, person, &mut drawn, rushing).await?;
            } else {
                rushing.await;
            }
            let report = match answered {
                Some(Ok(Reply::LoadTestDone(report))) => report,
                Some(Err(error)) => return Err(error.into()),
                _ => return Err(CliError::failed(Label("cli-bench-engine-ended"))),
            };
            if report.errors > 0 {
                let error = report.first_error.unwrap_or_default();
                return Err(CliError::failed(text!("cli-bench-no-answer", error)));
            }
            if with { &mut watched } else { &mut alone }.push(report.per_second);
        }
    }
    let slowed =
        || alone.iter().zip(&watched).map(|(alone, watched)| 1.0 - watched / alone).collect();
    let [low, slowed, high] = [0.25, 0.5, 0.75].map(|at| quantile(slowed(), at));
    let (alone, watched) = (quantile(alone, 0.5), quantile(watched, 0.5));
    Ok(Report {
        width: args.width,
        height: args.height,
        rest: Shares { engine, engine_and_console },
        rush: Rush {
            users: args.users,
            rounds: args.rounds,
            alone_per_second: alone,
            watched_per_second: watched,
            slowed,
            slowed_quartiles: (low, high),
        },
        drawn: drawn.drawn(),
    })
}

async fn measure_console(
    node: &Node,
    person: Person,
    drawing: &mut Drawing,
    until: impl Future<Output = ()>,
) -> Result<()> {
    Ok(gauge(node.remote(), Options::default(), person, drawing, until).await?)
}

fn drawing() -> Result<Drawing> {
    Drawing::new().map_err(|error| CliError::failed(text!("cli-bench-no-drawing", error)))
}

/// CPU use of this process during `span`, as a fraction of one core.
async fn share(span: Duration, done: impl Future<Output = ()>) -> f64 {
    let before = cpu_seconds();
    done.await;
    (cpu_seconds() - before) / span.as_secs_f64()
}

fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// The quantile `at`, linearly interpolated.
fn quantile(mut of: Vec<f64>, at: f64) -> f64 {
    of.sort_by(f64::total_cmp);
    let place = at * of.len().saturating_sub(1) as f64;
    let (low, high) = (of.get(place.floor() as usize), of.get(place.ceil() as usize));
    let (low, high) = (low.copied().unwrap_or_default(), high.copied().unwrap_or_default());
    low + (high - low) * place.fract()
}

fn render(report: &Report) -> String {
    let Report { rest, rush, drawn, .. } = report;
    let rows =
        [(Label("cli-bench-drawn"), &drawn.frame_us), (Label("cli-bench-answered"), &drawn.key_us)];
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
            text!("cli-bench-frame", bytes = drawn.bytes_a_frame, size),
        ),
    ];
    let table = Table::new(&rows)
        .left("", |(name, _)| *name)
        .right("p50", |(_, of)| number(of.p50))
        .right("p99", |(_, of)| number(of.p99))
        .right(&Label("column-max"), |(_, of)| number(of.max))
        .right(&Label("column-samples"), |(_, of)| number(of.n));
    format!("{}\n{table}", fields(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let is = |of: &[f64], at, wanted: f64| (quantile(of.to_vec(), at) - wanted).abs() < 1e-9;
        assert!(is(&[3.0, 1.0, 2.0], 0.5, 2.0) && is(&[4.0, 1.0, 2.0, 3.0], 0.5, 2.5));
        assert!(is(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25, 2.0) && is(&[1.0, 3.0], 0.75, 2.5));
    }
}
