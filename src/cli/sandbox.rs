//! Sandbox of the demo and the drills: a temporary data directory with an engine, and pages of a guide.
//!
//! It does not depend on the scripts, which report events and wait for snapshots here.

use std::time::Duration;

use seckill_console::{self as console, GuidePage, Options};
use seckill_engine::{
    Command, EngineError, LoadReport, LoadTest, Pace, ReplayReport, Reply, Scope, Snapshot,
    deployment::Deployment,
    fault_injection, ledger,
    locks::{Guard, LockName},
    node::Node,
};
use seckill_model::{Filter, Label, Millis, NewSale, VoucherId, text};
use seckill_redis::data_dir::DataDir;
use seckill_store::fault_injection::{Ill, Illness};
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
};

use crate::{CliError, Config, Context, Needs, Output, Result, display_args::DisplayArgs, signals};

/// The node that is killed.
pub(super) const DYING_NODE: &str = "node-b";
/// Title of the sale.
pub(super) const HOT_POT: Label = Label("demo-sale-title");
const MILK_TEA: Label = Label("demo-second-sale-title");
/// Prevents automatic claims, so that the operator recovers the entries of a dead node.
const CLAIM_IDLE_MS: u64 = 86_400_000;
/// Timeout of automatic steps.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// Where the demo or a drill runs.
pub(super) struct Setup<'a> {
    pub(super) config: &'a Config,
    pub(super) out: Output,
    pub(super) display: &'a DisplayArgs,
    /// A flag for servers, which a sandbox rejects because it keeps no data.
    pub(super) server_flag: Option<&'a str>,
}

impl Setup<'_> {
    /// Options of the console, or `None` if headless. `what` names the demo or drill.
    pub(super) fn options(&self, what: Label, headless: bool) -> Result<Option<Options>> {
        let Self { config, display, .. } = self;
        if let Some(flag) = self.server_flag {
            return Err(CliError::usage(text!("demo-no-servers", what, flag)));
        }
        if config.read_only {
            return Err(EngineError::ReadOnly.into());
        }
        if headless {
            return Ok(None);
        }
        if self.out.json {
            return Err(CliError::usage(Label("demo-json-needs-headless")));
        }
        display.localized(|| Ok(seckill_console::check_terminal()?))?;
        display.options(config).map(Some)
    }

    /// Plays a script, with a console unless it is headless. Afterwards the console shows the page for the result until
    /// the user quits. Returns `None` if they quit before the script ends.
    pub(super) async fn play<T>(
        &self,
        what: Label,
        headless: bool,
        script: impl AsyncFnOnce(&Sandbox<'_>) -> Result<T>,
        last_page: impl FnOnce(&Result<T>) -> GuidePage,
    ) -> Result<Option<T>> {
        let Some(options) = self.options(what, headless)? else {
            return run(self.config, self.out, what, Guide::default(), script).await.map(Some);
        };
        // The first page may be written before the console starts.
        seckill_model::locale::set_language(options.lang);
        let (sender, pages) = watch::channel(GuidePage::default());
        let guide = Guide { pages: Some(sender), asked: watch::Sender::default() };
        let shown = console::Guide { pages, asked: guide.asked.clone() };
        let options = Options { guide: Some(shown), ..options };
        run(self.config, self.out, what, guide, async |sandbox| {
            // The console restores the terminal first.
            signals::handled();
            let mut console = Box::pin(seckill_console::run(sandbox.node.remote(), options));
            let result = tokio::select! {
                left = &mut console => {
                    left?;
                    return Ok(None);
                }
                result = Box::pin(script(sandbox)) => result,
            };
            sandbox.guide.turn_to(last_page(&result));
            console.await?;
            result.map(Some)
        })
        .await
    }
}

/// Runs `work` with a node in a temporary data directory.
pub(super) async fn run<T>(
    config: &Config,
    out: Output,
    what: Label,
    guide: Guide,
    work: impl AsyncFnOnce(&Sandbox<'_>) -> Result<T>,
) -> Result<T> {
    let mut config = config.without_servers();
    config.engine.claim_idle_ms = CLAIM_IDLE_MS;
    let mut context =
        Context::open_in(&config, out, DataDir::throw_away()?, Needs::Database).await?;
    // The seed chooses among unknown commits, which no script uses.
    let (store, database) = context.store.with_faults(0);
    context.deployment.store = store;
    context
        .run(async |context| {
            let node = context.start_node().await?;
            let sandbox = Sandbox { node: &node, context, what, database, guide };
            let done = Box::pin(work(&sandbox)).await;
            // Quitting while the database is unavailable must not wait for it.
            sandbox.database.set(Ill::Not);
            node.stop().await;
            done
        })
        .await
}

/// The guide in the console; without a console nothing is shown and nothing waits for a reader.
#[derive(Default)]
pub(super) struct Guide {
    pages: Option<watch::Sender<GuidePage>>,
    /// How often the user has asked for the next page.
    pub(super) asked: watch::Sender<usize>,
}

impl Guide {
    pub(super) fn is_shown(&self) -> bool {
        self.pages.is_some()
    }

    /// Shows a page without keys to press.
    pub(super) fn show(&self, title: impl Into<String>, text: impl Into<String>) {
        self.turn_to(page(title, text, None));
    }

    pub(super) fn turn_to(&self, page: GuidePage) {
        if let Some(pages) = &self.pages {
            pages.send_replace(page);
        }
    }

    /// Time to read a page; returns whether the user ended it.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        let mut asked = self.asked.subscribe();
        self.is_shown() && tokio::time::timeout(time, asked.changed()).await.is_ok()
    }
}

/// A page of the guide, with the keys that the operator presses next.
pub(super) fn page(
    title: impl Into<String>,
    text: impl Into<String>,
    keys: Option<&str>,
) -> GuidePage {
    let key = keys.map(str::to_owned);
    GuidePage { title: title.into(), text: text.into(), key, ..GuidePage::default() }
}

/// The last page of the guide.
pub(super) fn last_page(title: Label, text: String, passed: bool) -> GuidePage {
    GuidePage { done: passed, ..page(title, text, Some("q")) }
}

/// A load test in progress. It ends with the node at the latest.
pub(super) struct RunningLoadTest(JoinHandle<Result<LoadReport, EngineError>>);

impl RunningLoadTest {
    /// Waits until all buyers have a reply.
    pub(super) async fn report(self) -> Result<LoadReport> {
        let failed = |why: JoinError| CliError::failed(text!("demo-load-test-failed", why));
        Ok(self.0.await.map_err(failed)??)
    }
}

/// Steps of a script, the same with and without a terminal.
pub(super) struct Sandbox<'a> {
    pub(super) node: &'a Node,
    pub(super) context: &'a Context,
    /// Name of what runs here: the demo or a drill.
    what: Label,
    /// The faults of the database.
    pub(super) database: Illness,
    pub(super) guide: Guide,
}

impl Sandbox<'_> {
    pub(super) async fn execute(&self, command: Command) -> Result<Reply> {
        Ok(self.node.operator().execute(command, self.node.stopping()).await?)
    }

    pub(super) async fn create(
        &self,
        title: &str,
        stock: u64,
        begin: Option<Millis>,
    ) -> Result<VoucherId> {
        let sale = NewSale::checked(title, stock, begin, None, Millis::now())?;
        match self.execute(Command::CreateSale(sale)).await? {
            Reply::SaleCreated(voucher) => Ok(voucher),
            _ => Err(CliError::unexpected_reply()),
        }
    }

    /// Starts buyers.
    pub(super) fn rush(&self, plan: LoadTest) -> RunningLoadTest {
        let (operator, stop) = (self.node.operator().clone(), self.node.stopping().clone());
        RunningLoadTest(tokio::spawn(async move {
            match operator.execute(Command::LoadTest(plan), &stop).await? {
                Reply::LoadTestDone(report) => Ok(report),
                _ => Err(EngineError::Stopping),
            }
        }))
    }

    /// A second, small sale with undelivered orders: the consumer is paused.
    pub(super) async fn undelivered(
        &self,
        stock: u64,
        users: u64,
        seed: u64,
    ) -> Result<LoadReport> {
        let voucher = self.create(&MILK_TEA, stock, None).await?;
        self.hold(true).await?;
        let plan = LoadTest { seed, settle: false, ..LoadTest::new(voucher, users) };
        self.rush(plan).report().await
    }

    /// Plans and applies the recovery of all pending entries; returns how many the plan changes, and the report.
    pub(super) async fn recover(&self) -> Result<(u64, ReplayReport)> {
        let (operator, stop) = (self.node.operator(), self.node.stopping());
        let plan = operator.plan(&Scope::All(Filter::default()), stop).await?;
        let planned = plan.totals.to_do();
        match self.execute(Command::Apply(plan, Pace::default())).await? {
            Reply::Replayed(report) => Ok((planned, report)),
            _ => Err(CliError::unexpected_reply()),
        }
    }

    pub(super) async fn hold(&self, hold: bool) -> Result<()> {
        if self.node.hold_consumer(hold).await {
            return Ok(());
        }
        Err(CliError::failed(Label("demo-consumer-unresponsive")))
    }

    /// Takes a reentrant lock of the node; its watchdog renews it until the guard is dropped.
    pub(super) async fn lock(&self, name: &str) -> Result<Guard> {
        let name = LockName::new(name).map_err(EngineError::from)?;
        let locks = &self.node.operator().locks;
        Ok(locks.try_lock(&name, &self.what).await.map_err(EngineError::from)?)
    }

    pub(super) async fn audit(&self) -> Result<ledger::Audit> {
        Ok(ledger::audit(&mut self.context.servers(), None).await?)
    }

    /// A node dies while it holds up to `most` entries; returns how many.
    pub(super) async fn kill_node(&self, most: u64) -> Result<u64> {
        let Deployment { redis, keys, settings, .. } = &self.context.deployment;
        let dead_ms = settings.node_dead_ms;
        let most = most as usize;
        Ok(fault_injection::die_with_batch(redis, keys, DYING_NODE, most, dead_ms).await? as u64)
    }

    /// Waits for a matching snapshot, for as long as a sale may take.
    pub(super) async fn until(&self, matches: impl FnMut(&Snapshot) -> bool) -> Result<()> {
        if self.within(TIMEOUT, matches).await? {
            return Ok(());
        }
        Err(CliError::failed(text!("demo-timeout", what = self.what)))
    }

    /// Waits for a matching snapshot that was started after this call; `false` on timeout.
    pub(super) async fn within(
        &self,
        bound: Duration,
        mut matches: impl FnMut(&Snapshot) -> bool,
    ) -> Result<bool> {
        // The next snapshot may have been started before the preceding step.
        let fresh = self.node.remote().snapshots.borrow().seq + 2;
        self.seen(bound, |snapshot| snapshot.seq >= fresh && matches(snapshot)).await
    }

    /// Waits for a matching snapshot, including the current one; `false` on timeout.
    pub(super) async fn seen(
        &self,
        bound: Duration,
        mut matches: impl FnMut(&Snapshot) -> bool,
    ) -> Result<bool> {
        let mut snapshots = self.node.remote().snapshots;
        let shown = snapshots.wait_for(|snapshot| matches(snapshot));
        match tokio::time::timeout(bound, shown).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(_)) => Err(EngineError::Stopping.into()),
            Err(_) => Ok(false),
        }
    }
}

/// Whether no order is in flight in the stream.
pub(super) fn is_settled(snapshot: &Snapshot) -> bool {
    let stream = snapshot.stream.as_ref();
    stream.is_some_and(|stream| stream.lag == Some(0) && stream.pending == 0)
}
