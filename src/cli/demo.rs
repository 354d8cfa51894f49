//! `seckill demo`: a scripted flash sale in a temporary data directory, with a failure to repair.
//!
//! With `--headless` the script runs without a terminal and at full speed.

use std::time::Duration;

use clap::Args;
use seckill_bench::persist;
use seckill_console::GuidePage;
use seckill_engine::{Command, LoadTest, Snapshot, error::MAX_USERS};
use seckill_model::{Balance, Label, Millis, SaleAudit, VoucherId, text};
use seckill_text::figures::thousands;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    Result,
    audit::conclusion,
    bench, count_in, figures,
    sandbox::{DYING_NODE, Guide, HOT_POT, Sandbox, Setup, TIMEOUT, is_settled, last_page, page},
};

pub(super) const NAME: Label = Label("demo-name");
const COUNTDOWN_S: u8 = 5;
/// Duration of the load test of the first sale, if there is a console.
const LOAD_SECONDS: u64 = 12;
/// Duration of the drain of its stream, if there is a console, and its number of batches.
const DRAIN: Duration = Duration::from_secs(5);
const DRAIN_STEPS: u64 = 20;
/// Maximum number of entries held by the dying node.
const FATAL_BATCH: u64 = 128;
/// The comparison: about a second on a laptop.
const COMPARED: persist::Plan = persist::Plan { orders: 20_000, tutorial: 250, rounds: 1 };

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Run without a terminal and print the result
    #[arg(long)]
    pub(super) headless: bool,
    /// Number of buyers in the first sale
    #[arg(long, value_name = "N", default_value_t = 20_000, allow_hyphen_values = true, value_parser = count_in(10..=MAX_USERS))]
    buyers: u64,
    /// Random seed for duplicate requests and the order of buyers
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

impl DemoArgs {
    /// Stock of the first sale: five buyers for two pieces.
    fn stock(&self) -> u64 {
        (self.buyers * 2 / 5).max(1)
    }
}

/// Results of both sales.
#[derive(Debug, Serialize)]
struct Played {
    buyers: u64,
    seed: u64,
    stock: u64,
    attempts: u64,
    admitted: u64,
    duplicate: u64,
    sold_out: u64,
    rejected: u64,
    errors: u64,
    persisted: u64,
    stuck: u64,
    replayed: u64,
    per_second: f64,
    balanced: bool,
    sales: Vec<SaleAudit>,
    /// The tutorial's consumer on servers of the same kind; measured with a console, and `None` if that failed.
    #[serde(skip)]
    comparison: Option<persist::Report>,
}

pub(super) async fn run(setup: &Setup<'_>, args: &DemoArgs) -> Result<u8> {
    // Small batches with a console, so that the lag falls visibly.
    let mut config = setup.config.clone();
    if !args.headless {
        let batch = (args.stock() / DRAIN_STEPS).max(1) as usize;
        config.engine.consumer_batch = batch.min(config.engine.consumer_batch);
    }
    let shown = Setup { config: &config, ..*setup };
    let ((begin, begun), (measured, comparison)) = (oneshot::channel(), oneshot::channel());
    let stop = CancellationToken::new();
    // Beside the script, which is dropped when the user quits: the servers of the comparison are stopped in order.
    let comparing = async {
        if begun.await.is_ok() {
            let config = setup.config.without_servers();
            let report = Box::pin(bench::compare(&config, setup.out, COMPARED, &stop)).await;
            let _ = measured.send(report);
        }
    };
    let playing = async {
        let script =
            async |it: &Sandbox<'_>| Box::pin(play(it, args, Compare(begin, comparison))).await;
        let played = shown.play(NAME, args.headless, script, end).await;
        stop.cancel();
        played
    };
    let (played, ()) = tokio::join!(playing, comparing);
    let Some(result) = played?.filter(|_| args.headless) else { return Ok(0) };
    let whole =
        result.balanced && result.admitted == result.stock && result.persisted == result.stock;
    setup.out.verdict(whole, &result, || render(&result))
}

/// The end of the guide.
fn end(played: &Result<Played>) -> GuidePage {
    match played {
        Err(error) => {
            let text = text!("demo-script-failed", why = error.message());
            last_page(Label("demo-title"), text, false)
        }
        Ok(result @ Played { balanced: true, stuck, persisted, .. }) => {
            let text = text!("demo-recovered-text", stuck, all = persisted);
            let figures = lines(result).map(|(label, figure)| (label.into(), thousands(figure)));
            GuidePage {
                summary: figures.into_iter().chain(rates(result.comparison.as_ref())).collect(),
                next: text!("demo-next"),
                ..last_page(Label("demo-recovered"), text, true)
            }
        }
        Ok(played) => {
            let finding = played.sales.iter().find_map(|sale| sale.findings.first());
            let unknown = || Label("common-unknown").to_owned();
            let finding = finding.map_or_else(unknown, ToString::to_string);
            let text = text!("demo-audit-failed-text", finding);
            last_page(Label("demo-audit-failed"), text, true)
        }
    }
}

/// The script, the same with and without a terminal.
async fn play(sandbox: &Sandbox<'_>, args: &DemoArgs, compare: Compare) -> Result<Played> {
    let (guide, seed, stock) = (&sandbox.guide, args.seed, args.stock());
    let first = countdown(sandbox, args.buyers, stock).await?;
    // With a console, the consumer is paused, so that the growing stream is visible.
    sandbox.hold(guide.is_shown()).await?;
    // All buyers, some with duplicate requests. It does not wait until the orders are settled.
    let load_test = LoadTest { seed, settle: false, ..LoadTest::new(first, args.buyers) };
    let one_in = (1.0 / load_test.repeat).round();
    guide.show(Label("demo-peak-load"), text!("demo-load-test-text", one_in));
    let seconds = if guide.is_shown() { LOAD_SECONDS } else { 0 };
    let load_test = sandbox.rush(load_test.within(seconds));
    let mut lock = None;
    if guide.is_shown() {
        let sold_out = |it: &Snapshot| it.sale(first).is_some_and(|sale| sale.stock == Some(0));
        sandbox.until(sold_out).await?;
        let batch = sandbox.context.deployment.settings.consumer_batch;
        // Shows a lock at work, for longer than its watchdog takes to renew it.
        lock = Some(sandbox.lock("demo:drain").await?);
        guide.show(Label("demo-sold-out"), text!("demo-sold-out-text", batch));
        let steps = stock.div_ceil(batch as u64) as u32;
        for _ in 0..steps {
            // Once released, the consumer writes a batch before it pauses again.
            sandbox.hold(false).await?;
            sandbox.hold(true).await?;
            if guide.pause(DRAIN / steps).await {
                break;
            }
        }
        sandbox.hold(false).await?;
    }
    let report = load_test.report().await?;
    sandbox.until(is_settled).await?;
    guide.show(Label("demo-audit-passed"), text!("demo-audit-passed-text", pieces = stock));
    let comparison = if guide.is_shown() { compare.measured(guide).await } else { None };
    drop(lock);

    // A second, small sale; a node receives a batch of its orders and dies.
    let batch = FATAL_BATCH.min(args.buyers / 10).max(1);
    let second = sandbox.undelivered(batch, (batch * 4).min(args.buyers), seed).await?;
    let stuck = sandbox.kill_node(batch).await?;
    sandbox.hold(false).await?;
    let replayed = if guide.is_shown() {
        // The list is on screen before the guide points to it.
        sandbox.until(|_| true).await?;
        let text = text!("demo-node-dead-text", DYING_NODE, stuck);
        guide.turn_to(page(Label("common-node-failure"), text, Some("4  A  y")));
        // The operator may take any time, and may quit.
        let recovered = |it: &Snapshot| it.stream.as_ref().is_some_and(|it| it.pending == 0);
        sandbox.within(Duration::MAX, recovered).await?;
        stuck
    } else {
        let (_, replay) = sandbox.recover().await?;
        replay.persisted + replay.acknowledged
    };
    sandbox.until(is_settled).await?;
    let audit = sandbox.audit().await?;
    // The header of the console says so, too, once the result is shown.
    sandbox.within(TIMEOUT, |it| matches!(it.audit, Balance::Balanced { .. })).await?;
    Ok(Played {
        buyers: args.buyers,
        seed,
        stock: audit.sales.iter().map(|sale| sale.initial).sum(),
        attempts: report.attempts + second.attempts,
        admitted: report.admitted + second.admitted,
        duplicate: report.duplicate + second.duplicate,
        sold_out: report.sold_out + second.sold_out,
        rejected: report.rejected + second.rejected,
        errors: report.errors + second.errors,
        persisted: audit.sales.iter().map(|sale| sale.persisted).sum(),
        stuck,
        replayed,
        per_second: report.per_second,
        balanced: audit.balanced,
        sales: audit.sales,
        comparison,
    })
}

/// Asks for the comparison of both consumers, and receives it.
struct Compare(oneshot::Sender<()>, oneshot::Receiver<Result<persist::Report>>);

impl Compare {
    /// Measures both consumers on their own servers while the audience reads the page.
    async fn measured(self, guide: &Guide) -> Option<persist::Report> {
        let _ = self.0.send(());
        let (measured, _) = tokio::join!(self.1, guide.pause(Duration::from_secs(5)));
        measured.ok()?.inspect_err(|why| tracing::warn!("no comparison: {}", why.message())).ok()
    }
}

/// Creates the first sale, and shows how long it takes until it opens.
async fn countdown(sandbox: &Sandbox<'_>, buyers: u64, stock: u64) -> Result<VoucherId> {
    if !sandbox.guide.is_shown() {
        return sandbox.create(&HOT_POT, stock, None).await;
    }
    let opens = Millis::now().plus(i64::from(COUNTDOWN_S) * 1_000);
    let voucher = sandbox.create(&HOT_POT, stock, Some(opens)).await?;
    for left in (1..=COUNTDOWN_S).rev() {
        let text = text!("demo-countdown-text", buyers, pieces = stock);
        let page = page(Label("demo-countdown"), text, None);
        sandbox.guide.turn_to(GuidePage { countdown: Some(left), ..page });
        if sandbox.guide.pause(Duration::from_secs(1)).await {
            let started = sandbox.execute(Command::StartSale(voucher)).await;
            // In its last moment the sale opens by itself.
            if Millis::now() < opens {
                started?;
            }
            break;
        }
    }
    Ok(voucher)
}

/// Orders per second of both consumers.
fn rates(comparison: Option<&persist::Report>) -> [(String, String); 3] {
    let shown = |figure: fn(&persist::Report) -> f64| match comparison {
        Some(report) => thousands(figure(report).round() as u64),
        None => Label("common-unknown").to_owned(),
    };
    [
        (Label("demo-rate").into(), shown(|it| it.seckill.per_second)),
        (Label("demo-rate-of-the-tutorial").into(), shown(|it| it.tutorial.per_second)),
        (Label("demo-ratio").into(), shown(|it| it.ratio)),
    ]
}

/// The figures of the result.
fn lines(result: &Played) -> [(Label, u64); 8] {
    [
        (Label("tables-on-sale"), result.stock),
        (Label("cli-requests"), result.attempts),
        (Label("column-admitted"), result.admitted),
        (Label("cli-duplicate"), result.duplicate),
        (Label("cli-sold-out"), result.sold_out),
        (Label("cli-stuck"), result.stuck),
        (Label("cli-replayed"), result.replayed),
        (Label("column-persisted"), result.persisted),
    ]
}

fn render(result: &Played) -> String {
    format!("{}{}", figures(&lines(result)), conclusion(result.balanced))
}
