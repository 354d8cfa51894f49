//! `seckill demo`: a scripted flash sale on a throw-away data dir, with a fault to repair on stage.
//!
//! With `--headless` the same script runs without a terminal and as fast as it goes.

use std::{sync::Arc, time::Duration};

use clap::Args;
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{
    Color, Fault,
    context::Context,
    fault,
    output::{Output, number},
};
use crate::{
    broker::data_dir::DataDir,
    config::Config,
    console::{self, ConsoleError, Options, Story},
    engine::{
        EngineError,
        command::{Command, Pace, Reply, RushPlan, RushReport, Scope},
        drill, ledger,
        node::Node,
        rush::MAX_USERS,
    },
    model::{Millis, NewSale, VoucherId, filter::Filter},
    telemetry::Snapshot,
};

const COUNTDOWN_S: u8 = 5;
/// The stampede is spread over this long when somebody watches.
const STAMPEDE: Duration = Duration::from_secs(12);
/// Entries that the dying node takes with it, at most.
const FATAL_BATCH: u64 = 128;
const DYING_NODE: &str = "node-b";
/// In the demo nobody but the presenter takes over what the dead node left.
const CLAIM_IDLE_MS: u64 = 86_400_000;
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Play the script without a terminal, and print the result
    #[arg(long)]
    headless: bool,
    /// How many buyers come to the first sale
    #[arg(long, value_name = "N", default_value_t = 20_000, allow_hyphen_values = true, value_parser = super::output::count)]
    buyers: u64,
    /// Fixes who asks twice and in which order they come
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

/// The demo keeps nothing, so it takes nothing that is kept.
pub(super) fn refuse_servers(told: (bool, bool, bool)) -> Result<(), Fault> {
    // Variables of the environment count as told by flags: what was asked for is used or is an error.
    let flag = match told {
        (true, _, _) => "--data-dir",
        (_, true, _) => "--redis (or REDIS_URL)",
        (_, _, true) => "--database",
        _ => return Ok(()),
    };
    Err(Fault::usage(format!(
        "the demo runs on servers of its own and keeps nothing; leave {flag} out"
    )))
}

/// What the demo brought about, over both of its sales.
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
    sales: Vec<ledger::SaleAudit>,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    color: Color,
    args: &DemoArgs,
) -> Result<u8, Fault> {
    if !(10..=MAX_USERS).contains(&args.buyers) {
        return Err(Fault::usage(format!(
            "a demo with {} buyers can't be shown; give 10 to {MAX_USERS}",
            args.buyers
        )));
    }
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    if !args.headless && out.json {
        return Err(Fault::usage("--json goes with --headless here"));
    }
    if !args.headless && !on_terminal() {
        return Err(ConsoleError::NotATerminal.into());
    }
    let dir = DataDir::throw_away()?;
    let mut config = config.clone();
    (config.data_dir, config.redis, config.database) = (None, None, None);
    config.engine.claim_idle_ms = CLAIM_IDLE_MS;
    let mut context = Context::open_in(&config, dir, false).await?;
    let node = match context.start_node().await {
        Ok(node) => node,
        Err(fault) => {
            context.close().await;
            return Err(fault);
        }
    };
    let result = if args.headless {
        headless(&node, &context, args).await
    } else {
        on_stage(&node, &context, color, args).await.map(|()| None)
    };
    node.stop().await;
    context.close().await;
    let Some(result) = result? else { return Ok(0) };
    let whole =
        result.balanced && result.admitted == result.stock && result.persisted == result.stock;
    out.answer(&result, || words(&result))?;
    Ok(if whole { 0 } else { fault::NO })
}

fn on_terminal() -> bool {
    use std::io::IsTerminal as _;
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The script, played as fast as it goes.
async fn headless(
    node: &Node,
    context: &Context,
    args: &DemoArgs,
) -> Result<Option<Played>, Fault> {
    let script = Script { node, context, args };
    let first = script.create("hot pot 50% off", script.first_stock(), None).await?;
    let RushReport {
        attempts, admitted, duplicate, sold_out, rejected, errors, per_second, ..
    } = script.stampede(first, None).await.map_err(|_| Fault::no("the stampede broke off"))??;
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
    script.until_settled().await?;
    let mut link = context.redis.link();
    let audit = ledger::audit(&context.store, &mut link, &context.keys, None).await?;
    result.balanced = audit.balanced;
    result.stock = audit.sales.iter().map(|sale| sale.initial).sum();
    result.persisted = audit.sales.iter().map(|sale| sale.persisted).sum();
    result.sales = audit.sales;
    Ok(Some(result))
}

/// The console, with the script played beside it until somebody quits.
async fn on_stage(
    node: &Node,
    context: &Context,
    color: Color,
    args: &DemoArgs,
) -> Result<(), Fault> {
    let (pages, story) = watch::channel(Story::default());
    let options = Options { color: color.into(), story: Some(story), ..Options::default() };
    let shown = console::run(node.remote(), options);
    let played = play(Script { node, context, args }, &pages);
    tokio::pin!(shown);
    tokio::select! {
        shown = &mut shown => Ok(shown?),
        played = played => {
            if let Err(fault) = played {
                let text = format!("The script broke off: {fault}");
                pages.send_replace(page("DEMO", &text, Some("q")));
            }
            Ok(shown.await?)
        }
    }
}

async fn play(script: Script<'_>, pages: &watch::Sender<Story>) -> Result<(), Fault> {
    let Script { node, context, args } = script;
    let opens = Millis::now().plus(i64::from(COUNTDOWN_S) * 1_000);
    let stock = script.first_stock();
    let first = script.create("hot pot 50% off", stock, Some(opens)).await?;
    let pieces = number(stock);
    for left in (1..=COUNTDOWN_S).rev() {
        let text = format!(
            "{} buyers wait for {pieces} pieces. Nobody gets one before the time is up, by Redis' clock.",
            number(args.buyers)
        );
        let countdown = Some(left);
        pages.send_replace(Story { countdown, ..page("THE SALE OPENS SOON", &text, None) });
        sleep(Duration::from_secs(1)).await;
    }

    // Held back so that the stream fills where everybody can see it.
    script.hold(true).await?;
    pages.send_replace(page(
        "STAMPEDE",
        "Redis admits in batches; one in ten asks twice and gets nothing more. The consumer is held back: the lag grows.",
        None,
    ));
    let rate = script.requests() as f64 / STAMPEDE.as_secs_f64();
    let stampede = script.stampede(first, Some(rate));
    script.until(|s| s.sale(first).is_some_and(|sale| sale.stock == Some(0))).await?;
    pages.send_replace(page(
        "SOLD OUT",
        "Every piece is promised to a buyer, none twice. Now the consumer is let go: orders catch up, a thousand a transaction.",
        None,
    ));
    script.hold(false).await?;
    stampede.await.map_err(|_| Fault::no("the stampede broke off"))??;
    script.until_settled().await?;
    pages.send_replace(page(
        "THE BOOKS BALANCE",
        &format!("{pieces} admitted, {pieces} written to SQL, stock 0 on both sides. Next: a second sale, and something breaks."),
        None,
    ));
    sleep(Duration::from_secs(5)).await;

    let taken = script.fault().await?;
    let stuck = number(taken.stuck);
    // The list is on the screen before the presenter is told to open it.
    script.until(|_| true).await?;
    let trouble = format!(
        "{DYING_NODE} died with {stuck} orders in its hands: promised to buyers, not in SQL. "
    );
    pages.send_replace(page(
        "A NODE DIES",
        &(trouble + "Press 4 for the pending list, A for a plan of what to do, y to do it."),
        Some("4  A  y"),
    ));
    let mut snapshots = node.remote().snapshots;
    loop {
        let pending = snapshots.borrow_and_update().stream.as_ref().map(|stream| stream.pending);
        if pending == Some(0) {
            break;
        }
        if snapshots.changed().await.is_err() {
            return Ok(());
        }
    }
    script.until_settled().await?;
    let mut link = context.redis.link();
    let audit = ledger::audit(&context.store, &mut link, &context.keys, None).await?;
    let all: u64 = audit.sales.iter().map(|sale| sale.persisted).sum();
    let (title, text) = if audit.balanced {
        let all = number(all);
        (
            "REPAIRED, AND PROVED",
            format!(
                "{stuck} orders recovered, {all} in SQL, every one of them checked by its id. Nothing lost, nothing twice. q ends the demo."
            ),
        )
    } else {
        let finding = audit.sales.iter().find_map(|sale| sale.findings.first());
        (
            "THE BOOKS ARE OFF",
            format!("{}. q ends the demo.", finding.map_or("unknown", String::as_str)),
        )
    };
    pages.send_replace(Story { done: true, ..page(title, &text, Some("q")) });
    // The stage stays open until somebody quits.
    std::future::pending().await
}

fn page(title: &str, text: &str, key: Option<&str>) -> Story {
    Story {
        title: title.to_owned(),
        text: text.to_owned(),
        key: key.map(str::to_owned),
        ..Story::default()
    }
}

/// What the fault left behind.
struct Taken {
    stuck: u64,
    report: RushReport,
}

/// The steps of the script, the same with and without a terminal.
#[derive(Clone, Copy)]
struct Script<'a> {
    node: &'a Node,
    context: &'a Context,
    args: &'a DemoArgs,
}

impl Script<'_> {
    /// Two pieces for five buyers.
    fn first_stock(&self) -> u64 {
        (self.args.buyers * 2 / 5).max(1)
    }

    /// Buyers, and one in ten of them once more.
    fn requests(&self) -> u64 {
        self.args.buyers + self.args.buyers / 10
    }

    async fn create(
        &self,
        title: &str,
        stock: u64,
        begin: Option<Millis>,
    ) -> Result<VoucherId, Fault> {
        let sale = NewSale::checked(title, stock, begin, None, Millis::now())?;
        match self.node.operator().execute(Command::CreateSale(sale), self.node.stopping()).await? {
            Reply::SaleCreated(voucher) => Ok(voucher),
            _ => Err(Fault::no("the engine answered something else than a sale")),
        }
    }

    /// Lets the buyers in. The task ends with the last answer; it does not wait for orders to settle.
    fn stampede(
        &self,
        voucher: VoucherId,
        rate: Option<f64>,
    ) -> JoinHandle<Result<RushReport, EngineError>> {
        let plan = RushPlan {
            seed: self.args.seed,
            rate,
            settle: false,
            ..RushPlan::new(voucher, self.args.buyers)
        };
        self.rush(plan)
    }

    fn rush(&self, plan: RushPlan) -> JoinHandle<Result<RushReport, EngineError>> {
        let (operator, stop) = (self.node.operator().clone(), self.node.stopping().clone());
        tokio::spawn(async move {
            match operator.execute(Command::Rush(plan), &stop).await? {
                Reply::RushDone(report) => Ok(report),
                _ => Err(EngineError::Stopping),
            }
        })
    }

    /// A second, small sale; a node takes a batch of its orders and dies.
    async fn fault(&self) -> Result<Taken, Fault> {
        let stock = FATAL_BATCH.min(self.args.buyers / 10).max(1);
        let voucher = self.create("milk tea 9.9", stock, None).await?;
        self.hold(true).await?;
        let plan = RushPlan {
            seed: self.args.seed,
            settle: false,
            ..RushPlan::new(voucher, (stock * 4).min(self.args.buyers))
        };
        let report =
            self.rush(plan).await.map_err(|_| Fault::no("the second rush broke off"))??;
        let taken = drill::die_with_batch(
            &self.context.redis,
            &self.context.keys,
            DYING_NODE,
            stock as usize,
        )
        .await?;
        self.hold(false).await?;
        Ok(Taken { stuck: taken as u64, report })
    }

    async fn hold(&self, hold: bool) -> Result<(), Fault> {
        if self.node.hold_consumer(hold).await {
            return Ok(());
        }
        Err(Fault::no("the consumer does not obey; 'seckill doctor' checks its servers"))
    }

    /// Waits until no order is under way.
    async fn until_settled(&self) -> Result<(), Fault> {
        self.until(|snapshot| {
            let stream = snapshot.stream.as_ref();
            stream.is_some_and(|stream| stream.lag == Some(0) && stream.pending == 0)
        })
        .await
    }

    /// Waits for a picture that shows it, for as long as a sale may take.
    async fn until(&self, mut shows: impl FnMut(&Arc<Snapshot>) -> bool) -> Result<(), Fault> {
        let mut snapshots = self.node.remote().snapshots;
        // The picture after this one may have been begun before the step that is waited for.
        let fresh = snapshots.borrow().seq + 2;
        let shown = snapshots.wait_for(|picture| picture.seq >= fresh && shows(picture));
        match tokio::time::timeout(PATIENCE, shown).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(EngineError::Stopping.into()),
            Err(_) => Err(Fault::no(
                "the demo waited a minute for its orders; 'seckill doctor' checks this machine",
            )),
        }
    }
}

fn words(result: &Played) -> String {
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
    text.push_str(if result.balanced { "The books balance." } else { "The books are OFF." });
    text
}
