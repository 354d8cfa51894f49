//! Sandbox of the demo and the drills: a temporary data dir with an engine, and pages of a guide.
//!
//! Independent of the script: it reports events here and waits here for snapshots.

use std::{sync::Arc, time::Duration};

use seckill_console::Story;
use seckill_engine::{
    EngineError,
    command::{Command, LoadReport, LoadTest, Reply},
    ledger,
    node::Node,
    telemetry::Snapshot,
};
use seckill_model::{
    Millis, NewSale, VoucherId,
    message::{Label, text},
};
use seckill_redis::data_dir::DataDir;
use seckill_store::SharedStore;
use tokio::task::JoinHandle;

use super::{Fault, context::Context, display_args::DisplayArgs, output::Output};
use crate::config::Config;

/// The node that is killed.
pub(super) const DYING_NODE: &str = "node-b";
/// Title of the sale.
pub(super) const HOT_POT: Label = Label("demo-hot-pot-50-off");
const MILK_TEA: Label = Label("demo-milk-tea-9-9");
/// Prevents automatic claims, so that the operator recovers what a dead node left.
const CLAIM_IDLE_MS: u64 = 86_400_000;
/// Timeout of automatic steps.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Rejects flags for servers, because a sandbox keeps nothing. `what` is what runs in it.
pub(super) fn refuse_servers(what: Label, servers: (bool, bool, bool)) -> Result<(), Fault> {
    // Variables of the environment count like flags: a configured server is used, or is an error.
    let flag = match servers {
        (true, _, _) => "--data-dir".to_owned(),
        (_, true, _) => text!("demo-redis-or-redis-url"),
        (_, _, true) => "--database".to_owned(),
        _ => return Ok(()),
    };
    Err(Fault::usage(text!("demo-the-runs-on-servers-of-its", what, flag)))
}

/// Rejects read-only mode, and interactive mode without a terminal.
pub(super) fn refuse_blind(
    config: &Config,
    out: Output,
    display: &DisplayArgs,
    headless: bool,
) -> Result<(), Fault> {
    if config.read_only {
        return Err(EngineError::ReadOnly.into());
    }
    if !headless && out.json {
        return Err(Fault::usage(Label("demo-json-goes-with-headless-here")));
    }
    if !headless {
        display.localized(|| Ok(seckill_console::check_terminal()?))?;
    }
    Ok(())
}

/// Opens a temporary data dir and starts a node in it; `before` may wrap the store.
pub(super) async fn open(
    config: &Config,
    before: impl FnOnce(SharedStore) -> SharedStore,
) -> Result<(Context, Node), Fault> {
    let dir = DataDir::throw_away()?;
    let mut config = config.clone();
    (config.data_dir, config.redis, config.database) = (None, None, None);
    config.engine.claim_idle_ms = CLAIM_IDLE_MS;
    let mut context = Context::open_in(&config, dir, false).await?;
    context.store = before(Arc::clone(&context.store));
    match context.start_node().await {
        Ok(node) => Ok((context, node)),
        Err(fault) => {
            context.close().await;
            Err(fault)
        }
    }
}

/// Sends one page of the guide.
pub(super) fn page(title: &str, text: &str, key: Option<&str>) -> Story {
    Story {
        title: title.to_owned(),
        text: text.to_owned(),
        key: key.map(str::to_owned),
        ..Story::default()
    }
}

/// Waits for the last reply of a load test.
pub(super) async fn answered(
    rush: JoinHandle<Result<LoadReport, EngineError>>,
    what: Label,
) -> Result<LoadReport, Fault> {
    Ok(rush.await.map_err(|_| Fault::no(text!("demo-broke-off", what)))??)
}

/// Steps of a script, the same with and without a terminal.
#[derive(Clone, Copy)]
pub(super) struct Sandbox<'a> {
    pub(super) node: &'a Node,
    pub(super) context: &'a Context,
    /// What runs here, in a word.
    pub(super) what: Label,
}

impl Sandbox<'_> {
    pub(super) async fn execute(&self, command: Command) -> Result<Reply, Fault> {
        Ok(self.node.operator().execute(command, self.node.stopping()).await?)
    }

    pub(super) async fn create(
        &self,
        title: &str,
        stock: u64,
        begin: Option<Millis>,
    ) -> Result<VoucherId, Fault> {
        let sale = NewSale::checked(title, stock, begin, None, Millis::now())?;
        match self.execute(Command::CreateSale(sale)).await? {
            Reply::SaleCreated(voucher) => Ok(voucher),
            _ => Err(Fault::no(Label("demo-the-engine-answered-something-else"))),
        }
    }

    /// Starts buyers. The task ends with the node at the latest.
    pub(super) fn rush(&self, plan: LoadTest) -> JoinHandle<Result<LoadReport, EngineError>> {
        let (operator, stop) = (self.node.operator().clone(), self.node.stopping().clone());
        tokio::spawn(async move {
            match operator.execute(Command::LoadTest(plan), &stop).await? {
                Reply::LoadTestDone(report) => Ok(report),
                _ => Err(EngineError::Stopping),
            }
        })
    }

    /// A second, small sale with undelivered orders: the consumer is paused.
    pub(super) async fn undelivered(
        &self,
        stock: u64,
        users: u64,
        seed: u64,
    ) -> Result<LoadReport, Fault> {
        let voucher = self.create(&MILK_TEA, stock, None).await?;
        self.hold(true).await?;
        let plan = LoadTest { seed, settle: false, ..LoadTest::new(voucher, users) };
        answered(self.rush(plan), Label("demo-the-second-rush")).await
    }

    pub(super) async fn hold(&self, hold: bool) -> Result<(), Fault> {
        if self.node.hold_consumer(hold).await {
            return Ok(());
        }
        Err(Fault::no(Label("demo-the-consumer-does-not-obey-seckill")))
    }

    pub(super) async fn audit(&self) -> Result<ledger::Audit, Fault> {
        let Context { redis, store, keys, .. } = self.context;
        Ok(ledger::audit(store, &mut redis.connection(), keys, None).await?)
    }

    /// Waits until no order is on its way.
    pub(super) async fn until_settled(&self) -> Result<(), Fault> {
        self.until(is_settled).await
    }

    /// Waits for a matching snapshot, for as long as a sale may take.
    pub(super) async fn until(&self, matches: impl FnMut(&Snapshot) -> bool) -> Result<(), Fault> {
        if self.within(PATIENCE, matches).await? {
            return Ok(());
        }
        let what = self.what;
        Err(Fault::no(text!("demo-the-waited-a-minute-for-its", what)))
    }

    /// Waits for a matching snapshot that was started after this call; `false` on timeout.
    pub(super) async fn within(
        &self,
        bound: Duration,
        mut matches: impl FnMut(&Snapshot) -> bool,
    ) -> Result<bool, Fault> {
        // The next snapshot may have been started before the preceding step.
        let fresh = self.node.remote().snapshots.borrow().seq + 2;
        self.seen(bound, |snapshot| snapshot.seq >= fresh && matches(snapshot)).await
    }

    /// Waits for a matching snapshot, including the current one; `false` on timeout.
    pub(super) async fn seen(
        &self,
        bound: Duration,
        mut matches: impl FnMut(&Snapshot) -> bool,
    ) -> Result<bool, Fault> {
        let mut snapshots = self.node.remote().snapshots;
        let shown = snapshots.wait_for(|snapshot| matches(snapshot));
        match tokio::time::timeout(bound, shown).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(_)) => Err(EngineError::Stopping.into()),
            Err(_) => Ok(false),
        }
    }
}

/// No orders are on their way in the stream.
pub(super) fn is_settled(snapshot: &Snapshot) -> bool {
    let stream = snapshot.stream.as_ref();
    stream.is_some_and(|stream| stream.lag == Some(0) && stream.pending == 0)
}
