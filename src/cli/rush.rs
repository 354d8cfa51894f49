//! `seckill rush`: simulated buyers.

use clap::Args;
use seckill_engine::{
    EngineError,
    command::{Command, LoadReport, LoadTest, Reply},
};
use seckill_model::VoucherId;

use super::{
    Fault,
    context::Context,
    fault,
    output::{Output, counted, number, span},
    work::EndOfLife,
};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct RushArgs {
    /// Voucher ID
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    voucher: VoucherId,
    /// Number of distinct buyers
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::output::count)]
    users: u64,
    /// Fraction of buyers that send a duplicate request, 0 to 1
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_hyphen_values = true)]
    repeat: f64,
    /// Maximum concurrent requests
    #[arg(long, value_name = "N", default_value_t = 2048)]
    concurrency: usize,
    /// Requests per second [default: unlimited]
    #[arg(long, value_name = "R", allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Fraction of admitted buyers that pay, 0 to 1
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_hyphen_values = true)]
    pay: f64,
    /// Random seed for duplicate requests and the order of buyers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(super) async fn run(config: &Config, out: Output, args: RushArgs) -> Result<u8, Fault> {
    let RushArgs { voucher, users, repeat, concurrency, rate, pay, seed } = args;
    let plan = LoadTest { voucher, users, repeat, concurrency, rate, seed, settle: true, pay };
    plan.check()?;
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    let mut end = EndOfLife::listen()?;
    let mut context = Context::open_answering(config).await?;
    let result = go(&mut context, plan, &mut end).await;
    // Results count only while the written files exist.
    let there = context.place().check().await;
    context.close().await;
    there?;
    let report = result?;
    out.answer(&report, || render(&report))?;
    let well = report.settled && report.errors == 0 && report.dead == 0 && !report.cut_short;
    Ok(if well { 0 } else { fault::NO })
}

async fn go(
    context: &mut Context,
    plan: LoadTest,
    end: &mut EndOfLife,
) -> Result<LoadReport, Fault> {
    context.store.sale(plan.voucher).await?;
    let node = context.start_node().await?;
    // The engine runs until every buyer has a reply.
    let stop = node.stopping().child_token();
    let ending = stop.clone();
    let ended = async {
        end.come().await;
        ending.cancel();
    };
    let operator = node.operator().clone();
    let rushing = operator.execute(Command::LoadTest(plan), &stop);
    tokio::pin!(rushing);
    let place = context.place();
    let reply = tokio::select! {
        reply = &mut rushing => reply,
        // Interrupted: stop the buyers and report the results so far.
        () = ended => rushing.await,
        fault = place.lost() => {
            // No report: it would include lost orders.
            node.stop().await;
            return Err(fault);
        }
    };
    node.stop().await;
    match reply? {
        Reply::LoadTestDone(report) => Ok(report),
        _ => Err(Fault::no("unexpected reply from the engine to a load test")),
    }
}

fn render(report: &LoadReport) -> String {
    let latency = &report.latency_us;
    let micros = |us: u64| if us < 1_000 { format!("{us} us") } else { span(us / 1_000) };
    let mut text = format!(
        "{}, {} per second\n  admitted   {:>12}\n  sold out   {:>12}\n  duplicate  {:>12}\n  rejected   {:>12}\n  errors     {:>12}\n",
        counted(report.attempts, "request", "requests"),
        number(report.per_second as u64),
        number(report.admitted),
        number(report.sold_out),
        number(report.duplicate),
        number(report.rejected),
        number(report.errors),
    );
    text.push_str(&format!(
        "  answered within p50 {}, p99 {}, max {}\n  persisted  {:>12} after {:.1} s more",
        micros(latency.p50),
        micros(latency.p99),
        micros(latency.max),
        number(report.persisted),
        report.settled_seconds,
    ));
    if report.paid > 0 {
        text.push_str(&format!("\n  paid       {:>12}", number(report.paid)));
    }
    if report.dead > 0 {
        text.push_str(&format!("\n  dead       {:>12}", number(report.dead)));
    }
    if let Some(reason) = &report.first_rejection {
        text.push_str(&format!("\n  first rejection: {reason}"));
    }
    if report.cut_short {
        text.push_str("\n  stopped before all requests were sent");
    }
    if let Some(error) = &report.first_error {
        text.push_str(&format!("\n  first error: {error}"));
    }
    if report.dead > 0 {
        text.push_str(&format!(
            "\n{} no order: {} a dead letter; 'seckill dead list' shows why",
            counted(report.dead, "admitted buyer has", "admitted buyers have"),
            if report.dead == 1 { "it is" } else { "each is" }
        ));
    }
    if !report.settled {
        text.push_str("\nNot every admitted order has settled; 'seckill pending list' and 'seckill audit' show where they are.");
    }
    text
}
