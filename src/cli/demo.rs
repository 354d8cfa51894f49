//! `seckill demo`: a scripted flash sale in a temporary data dir, with a failure to repair.
//!
//! With `--headless` the script runs without a terminal and at full speed.

use std::time::Duration;

use clap::Args;
use seckill_console::{Options, Story};
use seckill_engine::{
    EngineError,
    command::{Command, LoadReport, LoadTest, Pace, Reply, Scope},
    error::MAX_USERS,
    fault_injection,
    node::Node,
};
use seckill_model::{
    Millis, VoucherId,
    filter::Filter,
    ledger::SaleAudit,
    message::{Label, text},
};
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{
    Fault,
    context::Context,
    display_args::DisplayArgs,
    fault,
    output::{Output, counted, number},
    sandbox::{self, DYING_NODE, HOT_POT, Sandbox, answered, page},
};
use crate::config::Config;

pub(super) const NAME: Label = Label("demo-demo");
const COUNTDOWN_S: u8 = 5;
/// Duration of the first sale's load when displayed.
const STAMPEDE: Duration = Duration::from_secs(12);
const STAMPEDE_TOLD: Label = Label("demo-the-stampede");
/// Most entries held by the dying node.
const FATAL_BATCH: u64 = 128;

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Run without a terminal and print the result
    #[arg(long)]
    headless: bool,
    /// Number of buyers in the first sale
    #[arg(long, value_name = "N", default_value_t = 20_000, allow_hyphen_values = true, value_parser = super::output::count)]
    buyers: u64,
    /// Random seed for duplicate requests and the order of buyers
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

impl DemoArgs {
    pub(super) fn has_console(&self) -> bool {
        !self.headless
    }
}

/// Results of both sales.
#[derive(Debug, Default, Serialize)]
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

pub(super) async fn run(
    config: &Config,
    out: Output,
    display: &DisplayArgs,
    args: &DemoArgs,
) -> Result<u8, Fault> {
    if !(10..=MAX_USERS).contains(&args.buyers) {
        let buyers = args.buyers;
        return Err(Fault::usage(text!("demo-a-demo-with-buyers-cant-be", buyers, MAX_USERS)));
    }
    sandbox::refuse_blind(config, out, display, args.headless)?;
    let options = if args.headless { None } else { Some(display.options(config)?) };
    let (context, node) = sandbox::open(config, |store| store).await?;
    let result = match options {
        None => headless(&node, &context, args).await,
        Some(options) => with_console(&node, &context, options, args).await.map(|()| None),
    };
    node.stop().await;
    context.close().await;
    let Some(result) = result? else { return Ok(0) };
    let whole =
        result.balanced && result.admitted == result.stock && result.persisted == result.stock;
    out.answer(&result, || render(&result))?;
    Ok(if whole { 0 } else { fault::NO })
}

/// Runs the script at full speed.
async fn headless(
    node: &Node,
    context: &Context,
    args: &DemoArgs,
) -> Result<Option<Played>, Fault> {
    let script = Script::new(node, context, args);
    let first = script.sandbox.create(&HOT_POT, script.first_stock(), None).await?;
    let LoadReport {
        attempts, admitted, duplicate, sold_out, rejected, errors, per_second, ..
    } = answered(script.stampede(first, None), STAMPEDE_TOLD).await?;
    let mut result = Played {
        buyers: args.buyers,
        seed: args.seed,
        attempts,
        admitted,
        duplicate,
        sold_out,
        rejected,
        errors,
        per_second,
        ..Played::default()
    };
    let taken = script.fault().await?;
    result.stuck = taken.stuck;
    for (sum, more) in [
        (&mut result.attempts, taken.report.attempts),
        (&mut result.admitted, taken.report.admitted),
        (&mut result.duplicate, taken.report.duplicate),
        (&mut result.sold_out, taken.report.sold_out),
        (&mut result.rejected, taken.report.rejected),
        (&mut result.errors, taken.report.errors),
    ] {
        *sum += more;
    }
    let (operator, stop) = (node.operator(), node.stopping());
    let plan = operator.plan(&Scope::All(Filter::default()), stop).await?;
    let all = Command::Apply(plan, Pace::default());
    if let Reply::Replayed(report) = operator.execute(all, stop).await? {
        result.replayed = report.persisted + report.acknowledged;
    }
    script.sandbox.until_settled().await?;
    let audit = script.sandbox.audit().await?;
    result.balanced = audit.balanced;
    result.stock = audit.sales.iter().map(|sale| sale.initial).sum();
    result.persisted = audit.sales.iter().map(|sale| sale.persisted).sum();
    result.sales = audit.sales;
    Ok(Some(result))
}

/// Runs the console, and the script in parallel until the user quits.
async fn with_console(
    node: &Node,
    context: &Context,
    options: Options,
    args: &DemoArgs,
) -> Result<(), Fault> {
    // The first page may be written before the console starts.
    seckill_model::locale::set_language(options.lang);
    let (pages, story) = watch::channel(Story::default());
    let options = Options { story: Some(story), ..options };
    let shown = seckill_console::run(node.remote(), options);
    let played = play(Script::new(node, context, args), &pages);
    tokio::pin!(shown);
    tokio::select! {
        shown = &mut shown => Ok(shown?),
        played = played => {
            if let Err(fault) = played {
                let why = fault.sentence.localized::<EngineError>();
                let text = text!("demo-the-script-broke-off", why);
                pages.send_replace(page(&Label("demo-demo-2"), &text, Some("q")));
            }
            Ok(shown.await?)
        }
    }
}

async fn play(script: Script<'_>, pages: &watch::Sender<Story>) -> Result<(), Fault> {
    let Script { sandbox, args } = script;
    let opens = Millis::now().plus(i64::from(COUNTDOWN_S) * 1_000);
    let stock = script.first_stock();
    let first = script.sandbox.create(&HOT_POT, stock, Some(opens)).await?;
    let pieces = number(stock);
    for left in (1..=COUNTDOWN_S).rev() {
        let buyers = number(args.buyers);
        let text = text!("demo-before-the-start", buyers, pieces);
        let countdown = Some(left);
        let title = Label("demo-the-sale-opens-soon");
        pages.send_replace(Story { countdown, ..page(&title, &text, None) });
        sleep(Duration::from_secs(1)).await;
    }

    // Delayed so that the growing stream is visible.
    script.sandbox.hold(true).await?;
    let plan = script.plan(first, None);
    let rate = (plan.users + plan.twice()) as f64 / STAMPEDE.as_secs_f64();
    let one_in = (1.0 / plan.repeat).round();
    pages.send_replace(page(
        &Label("demo-stampede"),
        &text!("demo-redis-admits-in-batches-one-in", one_in),
        None,
    ));
    let stampede = script.stampede(first, Some(rate));
    script.sandbox.until(|s| s.sale(first).is_some_and(|sale| sale.stock == Some(0))).await?;
    pages.send_replace(page(
        &Label("demo-sold-out"),
        &Label("demo-every-piece-is-promised-to-a"),
        None,
    ));
    script.sandbox.hold(false).await?;
    answered(stampede, STAMPEDE_TOLD).await?;
    script.sandbox.until_settled().await?;
    pages.send_replace(page(
        &Label("demo-the-books-balance"),
        &text!("demo-admitted-written-to-sql-stock-0", pieces),
        None,
    ));
    sleep(Duration::from_secs(5)).await;

    let taken = script.fault().await?;
    let (orders, stuck) = (counted(taken.stuck, "order", "orders"), number(taken.stuck));
    // The list is on screen before the guide points to it.
    script.sandbox.until(|_| true).await?;
    pages.send_replace(page(
        &Label("common-a-node-dies"),
        &text!("demo-died-with-in-its-hands-promised", DYING_NODE, orders, stuck),
        Some("4  A  y"),
    ));
    let mut snapshots = sandbox.node.remote().snapshots;
    loop {
        let pending = snapshots.borrow_and_update().stream.as_ref().map(|stream| stream.pending);
        if pending == Some(0) {
            break;
        }
        if snapshots.changed().await.is_err() {
            return Ok(());
        }
    }
    script.sandbox.until_settled().await?;
    let audit = script.sandbox.audit().await?;
    let all: u64 = audit.sales.iter().map(|sale| sale.persisted).sum();
    let (title, text) = if audit.balanced {
        let all = number(all);
        (
            Label("demo-repaired-and-proved"),
            text!("demo-recovered-in-sql-every-one-of", orders, all, stuck),
        )
    } else {
        let finding = audit.sales.iter().find_map(|sale| sale.findings.first());
        let unknown = || String::from(Label("common-unknown"));
        let finding = finding.map_or_else(unknown, ToString::to_string);
        (Label("demo-the-books-are-off"), text!("demo-q-ends-the-demo", finding))
    };
    pages.send_replace(Story { done: true, ..page(&title, &text, Some("q")) });
    // The console stays open until the user quits.
    std::future::pending().await
}

/// Consequences of the failure.
struct Taken {
    stuck: u64,
    report: LoadReport,
}

/// The steps of the script, the same with and without a terminal.
#[derive(Clone, Copy)]
struct Script<'a> {
    sandbox: Sandbox<'a>,
    args: &'a DemoArgs,
}

impl<'a> Script<'a> {
    fn new(node: &'a Node, context: &'a Context, args: &'a DemoArgs) -> Self {
        Self { sandbox: Sandbox { node, context, what: NAME }, args }
    }

    /// Five buyers for two pieces.
    fn first_stock(&self) -> u64 {
        (self.args.buyers * 2 / 5).max(1)
    }

    /// All buyers, some with duplicate requests.
    fn plan(&self, voucher: VoucherId, rate: Option<f64>) -> LoadTest {
        LoadTest {
            seed: self.args.seed,
            rate,
            settle: false,
            ..LoadTest::new(voucher, self.args.buyers)
        }
    }

    /// Starts the buyers. The task ends with the last reply; it does not wait until the orders are settled.
    fn stampede(
        &self,
        voucher: VoucherId,
        rate: Option<f64>,
    ) -> JoinHandle<Result<LoadReport, EngineError>> {
        self.sandbox.rush(self.plan(voucher, rate))
    }

    /// A second, small sale; a node receives a batch of its orders and dies.
    async fn fault(&self) -> Result<Taken, Fault> {
        let stock = FATAL_BATCH.min(self.args.buyers / 10).max(1);
        let users = (stock * 4).min(self.args.buyers);
        let report = self.sandbox.undelivered(stock, users, self.args.seed).await?;
        let Context { redis, keys, config, .. } = self.sandbox.context;
        let dead_ms = config.engine.node_dead_ms;
        let taken =
            fault_injection::die_with_batch(redis, keys, DYING_NODE, stock as usize, dead_ms)
                .await?;
        self.sandbox.hold(false).await?;
        Ok(Taken { stuck: taken as u64, report })
    }
}

fn render(result: &Played) -> String {
    let mut text = String::new();
    for (name, value) in [
        ("stock", result.stock),
        ("requests", result.attempts),
        ("admitted", result.admitted),
        ("duplicate", result.duplicate),
        ("sold out", result.sold_out),
        ("stuck", result.stuck),
        ("replayed", result.replayed),
        ("persisted", result.persisted),
    ] {
        text.push_str(&format!("{name:<10} {:>12}\n", number(value)));
    }
    text.push_str(if result.balanced {
        "Audit passed: all orders accounted for."
    } else {
        "Audit FAILED."
    });
    text
}
