//! `seckill demo`: a scripted flash sale in a temporary data directory, with a failure to repair.
//!
//! With `--headless` the script runs without a terminal and at full speed.

use std::time::Duration;

use clap::Args;
use seckill_console::Story;
use seckill_engine::{LoadReport, LoadTest, Snapshot, error::MAX_USERS, fault_injection};
use seckill_model::{Label, Millis, SaleAudit, VoucherId, text};
use serde::Serialize;

use crate::{
    Context, Result,
    audit::conclusion,
    count_in, figures,
    sandbox::{self, DYING_NODE, Guide, HOT_POT, Sandbox, Setup, answered, page},
};

pub(super) const NAME: Label = Label("demo-name");
const COUNTDOWN_S: u8 = 5;
/// Duration of the load test of the first sale, if there is a console.
const LOAD_DURATION: Duration = Duration::from_secs(12);
const LOAD_TEST: Label = Label("demo-load-test");
/// Maximum number of entries held by the dying node.
const FATAL_BATCH: u64 = 128;

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
}

pub(super) async fn run(setup: &Setup<'_>, args: &DemoArgs) -> Result<u8> {
    let options = setup.options(NAME, args.headless)?;
    let played = sandbox::run(setup.config, setup.out, NAME, None, async |sandbox| {
        let script = Script { sandbox, args };
        sandbox.play(options, async |guide| script.play(guide).await, last_page).await
    });
    let Some(result) = played.await?.filter(|_| args.headless) else { return Ok(0) };
    let whole =
        result.balanced && result.admitted == result.stock && result.persisted == result.stock;
    setup.out.verdict(whole, &result, || render(&result))
}

/// The end of the guide.
fn last_page(played: &Result<Played>) -> Story {
    let played = match played {
        Ok(played) => played,
        Err(error) => {
            let text = text!("demo-script-failed", why = error.message());
            return page(&Label("demo-title"), &text, Some("q"));
        }
    };
    let (title, text) = if played.balanced {
        let (stuck, all) = (played.stuck, played.persisted);
        (Label("demo-recovered"), text!("demo-recovered-text", stuck, all))
    } else {
        let finding = played.sales.iter().find_map(|sale| sale.findings.first());
        let unknown = || Label("common-unknown").to_owned();
        let finding = finding.map_or_else(unknown, ToString::to_string);
        (Label("demo-audit-failed"), text!("demo-audit-failed-text", finding))
    };
    Story { done: true, ..page(&title, &text, Some("q")) }
}

/// The steps of the script, the same with and without a terminal.
#[derive(Clone, Copy)]
struct Script<'a> {
    sandbox: Sandbox<'a>,
    args: &'a DemoArgs,
}

impl Script<'_> {
    async fn play(&self, guide: &Guide) -> Result<Played> {
        let Self { sandbox, args } = self;
        let (first, stock) = (self.countdown(guide).await?, self.first_stock());
        // With a console, the consumer is paused, so that the growing stream is visible.
        sandbox.hold(guide.is_shown()).await?;
        // All buyers, some with duplicate requests. It does not wait until the orders are settled.
        let seed = args.seed;
        let load_test = LoadTest { seed, settle: false, ..LoadTest::new(first, args.buyers) };
        let requests = load_test.users + load_test.twice();
        let rate = requests as f64 / LOAD_DURATION.as_secs_f64();
        let one_in = (1.0 / load_test.repeat).round();
        let text = text!("demo-load-test-text", one_in);
        guide.show(page(&Label("demo-peak-load"), &text, None));
        let rate = guide.is_shown().then_some(rate);
        let load_test = sandbox.rush(LoadTest { rate, ..load_test });
        if guide.is_shown() {
            let sold_out = |it: &Snapshot| it.sale(first).is_some_and(|sale| sale.stock == Some(0));
            sandbox.until(sold_out).await?;
            let text = Label("demo-sold-out-text");
            guide.show(page(&Label("demo-sold-out"), &text, None));
            sandbox.hold(false).await?;
        }
        let report = answered(load_test, LOAD_TEST).await?;
        sandbox.until_settled().await?;
        let text = text!("demo-audit-passed-text", pieces = stock);
        guide.show(page(&Label("demo-audit-passed"), &text, None));
        guide.pause(Duration::from_secs(5)).await;

        let (stuck, second_report) = self.fault().await?;
        let replayed = if guide.is_shown() {
            // The list is on screen before the guide points to it.
            sandbox.until(|_| true).await?;
            let text = text!("demo-node-dead-text", DYING_NODE, stuck);
            guide.show(page(&Label("common-node-failure"), &text, Some("4  A  y")));
            // The operator may take any time, and may quit.
            let recovered = |it: &Snapshot| it.stream.as_ref().is_some_and(|it| it.pending == 0);
            sandbox.within(Duration::MAX, recovered).await?;
            stuck
        } else {
            let (_, replay) = sandbox.recover().await?;
            replay.persisted + replay.acknowledged
        };
        sandbox.until_settled().await?;
        let audit = sandbox.audit().await?;
        let per_second = report.per_second;
        let reports = [report, second_report];
        let sum = |pick: fn(&LoadReport) -> u64| reports.iter().map(pick).sum();
        Ok(Played {
            buyers: args.buyers,
            seed: args.seed,
            stock: audit.sales.iter().map(|sale| sale.initial).sum(),
            attempts: sum(|it| it.attempts),
            admitted: sum(|it| it.admitted),
            duplicate: sum(|it| it.duplicate),
            sold_out: sum(|it| it.sold_out),
            rejected: sum(|it| it.rejected),
            errors: sum(|it| it.errors),
            persisted: audit.sales.iter().map(|sale| sale.persisted).sum(),
            stuck,
            replayed,
            per_second,
            balanced: audit.balanced,
            sales: audit.sales,
        })
    }

    /// Creates the first sale, and shows how long it takes until it opens.
    async fn countdown(&self, guide: &Guide) -> Result<VoucherId> {
        let (stock, buyers) = (self.first_stock(), self.args.buyers);
        if !guide.is_shown() {
            return self.sandbox.create(&HOT_POT, stock, None).await;
        }
        let opens = Millis::now().plus(i64::from(COUNTDOWN_S) * 1_000);
        let voucher = self.sandbox.create(&HOT_POT, stock, Some(opens)).await?;
        for left in (1..=COUNTDOWN_S).rev() {
            let text = text!("demo-countdown-text", buyers, pieces = stock);
            let page = page(&Label("demo-countdown"), &text, None);
            guide.show(Story { countdown: Some(left), ..page });
            guide.pause(Duration::from_secs(1)).await;
        }
        Ok(voucher)
    }

    /// Five buyers for two pieces.
    fn first_stock(&self) -> u64 {
        (self.args.buyers * 2 / 5).max(1)
    }

    /// A second, small sale; a node receives a batch of its orders and dies. Returns the size of the batch.
    async fn fault(&self) -> Result<(u64, LoadReport)> {
        let stock = FATAL_BATCH.min(self.args.buyers / 10).max(1);
        let users = (stock * 4).min(self.args.buyers);
        let report = self.sandbox.undelivered(stock, users, self.args.seed).await?;
        let Context { redis, keys, config, .. } = self.sandbox.context;
        let dead_ms = config.engine.node_dead_ms;
        let most = stock as usize;
        let taken = fault_injection::die_with_batch(redis, keys, DYING_NODE, most, dead_ms).await?;
        self.sandbox.hold(false).await?;
        Ok((taken as u64, report))
    }
}

fn render(result: &Played) -> String {
    let lines = [
        (Label("column-stock"), result.stock),
        (Label("cli-requests"), result.attempts),
        (Label("column-admitted"), result.admitted),
        (Label("cli-duplicate"), result.duplicate),
        (Label("cli-sold-out"), result.sold_out),
        (Label("cli-stuck"), result.stuck),
        (Label("cli-replayed"), result.replayed),
        (Label("column-persisted"), result.persisted),
    ];
    format!("{}{}", figures(&lines), conclusion(result.balanced))
}
