//! Runs a drill: a small sale, the fault, waiting for its symptoms and its remedy, and the final checks.
//!
//! The specifics of each drill are in the catalogue; this file injects the faults.

use std::time::Duration;

use seckill_console::Story;
use seckill_engine::{
    EngineError,
    command::{Command, LetterScope, Pace, Reply, RushPlan, RushReport, Scope},
    fault_injection,
    telemetry::Snapshot,
};
use seckill_model::{
    EntryId, OrderId, Sale, VoucherId, counted,
    filter::Filter,
    message::{Label, text},
};
use seckill_store::fault_injection::{Ill, Illness};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::{
    super::{
        Fault,
        stage::{DYING_NODE, HOT_POT, PATIENCE, Stage, answered, is_settled, page},
    },
    Report,
    catalogue::{Drill, Facts, Remedy, Sign, Strike},
};

/// The sale before the fault, and the affected one.
const STOCK: u64 = 300;
const BUYERS: u64 = 750;
const SECOND_STOCK: u64 = 100;
const SECOND_BUYERS: u64 = 250;
const POISON: usize = 12;
/// A day and an hour.
const STEP_S: i64 = 90_000;
/// Pace of a load test: displayed, displayed with an outage; then the same headless.
const WATCHED: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(12)];
const UNWATCHED: Duration = Duration::from_secs(3);
/// Minimum display time of a page.
const READ: Duration = Duration::from_secs(5);
/// Longest fault in a headless run.
const UNWATCHED_S: u64 = 2;
/// Timeout for the symptoms on screen; shorter for an outage.
const SHOWN: Duration = Duration::from_secs(15);
const OUTAGE_SHOWN: Duration = Duration::from_secs(2);
/// Orders of one sale that are compared.
const ORDERS: u32 = 10_000;

/// A drill with its sandbox.
pub(super) struct Play<'a> {
    pub(super) stage: Stage<'a>,
    pub(super) drill: &'static Drill,
    pub(super) illness: &'a Illness,
    pub(super) seed: u64,
    /// The guide of the console; `None` in a headless run, which also plays the operator.
    pub(super) pages: Option<&'a watch::Sender<Story>>,
}

/// Running load test.
type Rushing = JoinHandle<Result<RushReport, EngineError>>;

/// Effect of the fault.
#[derive(Clone, Copy, Default)]
struct Struck {
    entries: u64,
    waiting: u64,
}

impl Play<'_> {
    pub(super) async fn play(&self) -> Result<Report, Fault> {
        let Drill { name, strike, lasts, seen, done, .. } = self.drill;
        let mut report = Report { drill: name, seed: self.seed, ..Report::default() };
        let dir = self.stage.context.dir.path().display();
        let ready = text!("drill-pieces-go-on-sale-in-a", STOCK, dir);
        self.tell(&Label("drill-get-ready"), &ready, None);
        self.pause(READ).await;
        let rushing = self.open_sale().await?;
        let before = self.orders().await?;

        let struck = self.strike().await?;
        report.struck = struck.entries;
        self.tell_happens(struck, *lasts);
        // Headless runs allow for a loaded machine.
        let outage = *strike == Strike::DatabaseAway && self.pages.is_some();
        let bound = if outage { OUTAGE_SHOWN } else { SHOWN };
        if self.stage.seen(bound, |picture| (seen.shows)(picture, struck.entries)).await? {
            report.seen.push(told(seen, struck));
        }
        report.check(Label("drill-the-screen-showed-it"), !report.seen.is_empty());

        self.let_last(struck).await;
        self.relent().await?;
        let mends = self.drill.mends.replace("{dir}", &dir.to_string());
        self.tell(&self.drill.title, &mends, self.drill.keys);
        if self.pages.is_none() {
            self.act(&mut report).await?;
        }
        let by_person = self.pages.is_some() && self.drill.remedy != Remedy::Itself;
        // The operator may take any time, and may quit.
        let bound = if by_person { Duration::MAX } else { PATIENCE };
        if self.stage.within(bound, |picture| (done.shows)(picture, struck.entries)).await? {
            report.done.push(told(done, struck));
        }
        report.check(Label("drill-it-was-mended"), !report.done.is_empty());
        if *strike == Strike::StreamTrimmed {
            self.stage.hold(false).await?;
        }
        if !by_person {
            self.pause(READ).await;
        }
        if let Some(rushing) = rushing {
            answered(rushing, Label("drill-the-rush")).await?;
        }
        self.prove(&mut report, before, struck).await?;
        Ok(report)
    }

    /// The sale before the fault. An outage interrupts its load test, which is returned in that case; other faults
    /// follow it.
    async fn open_sale(&self) -> Result<Option<Rushing>, Fault> {
        let voucher = self.stage.create(&HOT_POT, STOCK, None).await?;
        let outage = matches!(self.drill.strike, Strike::DatabaseAway | Strike::RedisKilled);
        // In an outage every buyer gets a piece, so that orders arrive at any moment of it.
        let users = if outage { STOCK } else { BUYERS };
        let over = match (self.pages.is_some(), outage) {
            (true, false) => Some(WATCHED[0]),
            (true, true) => Some(WATCHED[1]),
            (false, true) => Some(UNWATCHED),
            (false, false) => None,
        };
        let rate = over.map(|over| users as f64 * 1.1 / over.as_secs_f64());
        let rush =
            RushPlan { seed: self.seed, rate, settle: false, ..RushPlan::new(voucher, users) };
        let text = text!("drill-buyers-come-for-pieces", users, STOCK);
        self.tell(&Label("drill-the-rush-2"), &text, None);
        let rushing = self.stage.rush(rush);
        if outage {
            let some = |picture: &Snapshot| {
                picture.sale(voucher).is_some_and(|sale| sale.persisted > STOCK / 10)
            };
            self.stage.until(some).await?;
            return Ok(Some(rushing));
        }
        answered(rushing, Label("drill-the-rush")).await?;
        self.stage.until_settled().await?;
        Ok(None)
    }

    async fn strike(&self) -> Result<Struck, Fault> {
        let Stage { context, .. } = self.stage;
        let (redis, keys, mut link) = (&context.redis, &context.keys, context.redis.link());
        let mut struck = Struck::default();
        match self.drill.strike {
            Strike::NodeDies => {
                struck.waiting = self.second_sale().await?;
                struck.entries = self.die(SECOND_STOCK).await?;
                self.stage.hold(false).await?;
            }
            Strike::StreamTrimmed => {
                struck.waiting = self.second_sale().await?;
                struck.entries = self.die(SECOND_STOCK).await?;
                for of in keys.partitions() {
                    fault_injection::trim_pending(&mut link, &of).await?;
                }
                // Paused: the live node would claim and rebuild them before they are visible.
            }
            Strike::Poison => {
                struck.waiting = self.second_sale().await?;
                struck.entries =
                    fault_injection::poison(&mut link, &keys.home(), POISON).await?.len() as u64;
                self.stage.hold(false).await?;
            }
            Strike::GroupDestroyed => {
                struck.waiting = self.second_sale().await?;
                struck.entries = self.die(SECOND_STOCK / 2).await?;
                for of in keys.partitions() {
                    fault_injection::destroy_group(&mut link, &of).await?;
                }
            }
            Strike::Duplicates => {
                self.stage.hold(true).await?;
                for of in keys.partitions() {
                    let again =
                        fault_injection::duplicate(&mut link, &of, SECOND_STOCK as usize).await?;
                    struck.entries += again as u64;
                }
            }
            Strike::DatabaseAway => self.illness.set(Ill::Away),
            Strike::RedisKilled => fault_injection::kill_redis(redis).await?,
            Strike::ClockSteps => {
                self.tell_happens(struck, 0);
                let tomorrow = Label("drill-tomorrows-tea");
                let today = Label("drill-todays-tea");
                for (title, step) in [(tomorrow, STEP_S), (today, -STEP_S)] {
                    fault_injection::step_clock(step);
                    let voucher = self.stage.create(&title, SECOND_STOCK, None).await?;
                    let rate = self.pages.map(|_| SECOND_BUYERS as f64 / WATCHED[0].as_secs_f64());
                    let users = SECOND_BUYERS;
                    let rush = RushPlan { seed: self.seed, rate, ..RushPlan::new(voucher, users) };
                    answered(self.stage.rush(rush), Label("drill-a-rush")).await?;
                }
                self.stage.until_settled().await?;
            }
        }
        Ok(struck)
    }

    /// Number of undelivered orders of a second sale.
    async fn second_sale(&self) -> Result<u64, Fault> {
        let rush = self.stage.undelivered(SECOND_STOCK, SECOND_BUYERS, self.seed).await?;
        Ok(rush.admitted)
    }

    async fn die(&self, most: u64) -> Result<u64, Fault> {
        let context = self.stage.context;
        let (redis, keys) = (&context.redis, &context.keys);
        let dead_ms = context.config.engine.node_dead_ms;
        Ok(fault_injection::die_with_batch(redis, keys, DYING_NODE, most as usize, dead_ms).await?
            as u64)
    }

    /// The fault lasts as long as the drill defines, or until its page was read.
    async fn let_last(&self, struck: Struck) {
        if self.drill.lasts == 0 {
            self.pause(READ).await;
            return;
        }
        let watched = self.pages.is_some();
        let seconds = if watched { self.drill.lasts } else { self.drill.lasts.min(UNWATCHED_S) };
        for left in (1..=seconds).rev() {
            self.tell_happens(struck, left);
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Ends a fault that does not end by itself.
    async fn relent(&self) -> Result<(), Fault> {
        match self.drill.strike {
            Strike::DatabaseAway => self.illness.set(Ill::Not),
            Strike::GroupDestroyed | Strike::Duplicates => self.stage.hold(false).await?,
            _ => {}
        }
        Ok(())
    }

    /// Performs the operator's actions.
    async fn act(&self, report: &mut Report) -> Result<(), Fault> {
        let unexpected = || Fault::no(Label("drill-the-engine-answered-something-else"));
        match self.drill.remedy {
            Remedy::Itself => {}
            Remedy::Plan => {
                let (operator, stop) = (self.stage.node.operator(), self.stage.node.stopping());
                let plan = operator.plan(&Scope::All(Filter::default()), stop).await?;
                report.check(
                    Label("drill-the-plan-holds-every-one-of"),
                    plan.totals.to_do() == report.struck,
                );
                let Reply::Replayed(did) =
                    self.stage.act(Command::Apply(plan, Pace::default())).await?
                else {
                    return Err(unexpected());
                };
                report.done.push(format!(
                    "a plan of {}: {} written, {} rebuilt, {} acknowledged",
                    counted(did.planned, "entry", "entries"),
                    did.persisted,
                    did.rebuilt,
                    did.acknowledged
                ));
            }
            Remedy::Discard => {
                let scope = LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX };
                let discard = Command::DiscardLetters { scope, compensate: false };
                let Reply::LettersDiscarded(did) = self.stage.act(discard).await? else {
                    return Err(unexpected());
                };
                let letters = counted(did.discarded, "dead letter", "dead letters");
                report.done.push(format!("{letters} discarded"));
            }
        }
        Ok(())
    }

    async fn prove(&self, report: &mut Report, before: u64, struck: Struck) -> Result<(), Fault> {
        // Without a repair it never settles.
        let bound = if report.failure().is_none() { PATIENCE } else { SHOWN };
        let settled = self.stage.within(bound, is_settled).await?;
        report.check(Label("drill-nothing-is-under-way"), settled);
        let audit = self.stage.audit().await?;
        let promised = audit.sales.iter().all(|sale| sale.admitted == sale.persisted);
        report.check(Label("drill-every-promised-order-is-in-sql"), promised);
        let none = audit.sales.iter().all(|sale| sale.dead == 0);
        report.check(Label("drill-no-letter-is-dead"), none);
        let after = audit.sales.iter().map(|sale| sale.persisted).sum();
        let mut sales: Vec<VoucherId> = audit.sales.iter().map(|sale| sale.voucher_id).collect();
        sales.sort_unstable();
        let rising = self.rising(&sales).await?;
        let (entries, waiting) = (struck.entries, struck.waiting);
        let facts = Facts { before, after, struck: entries, waiting, rising };
        let proof = &self.drill.proof;
        report.check(proof.words, (proof.holds)(&facts));
        report.check(Label("drill-the-books-balance-order-by-order"), audit.balanced);
        report.sales = audit.sales;
        report.passed = report.failure().is_none();
        Ok(())
    }

    /// Number of orders in SQL.
    async fn orders(&self) -> Result<u64, Fault> {
        let sales = self.stage.context.store.sales().await?;
        Ok(sales.iter().map(Sale::live_orders).sum())
    }

    /// Whether the IDs of each sale are unique and above those of earlier sales.
    async fn rising(&self, sales: &[VoucherId]) -> Result<bool, Fault> {
        let mut last: Option<OrderId> = None;
        for voucher in sales {
            let orders = self.stage.context.store.live_orders(*voucher, None, ORDERS).await?;
            let mut ids: Vec<OrderId> = orders.into_iter().map(|order| order.id).collect();
            ids.sort_unstable();
            let first_is_beyond = last.is_none() || ids.first().copied() > last;
            let once = ids.iter().zip(ids.iter().skip(1)).all(|(one, next)| one < next);
            if !first_is_beyond || !once {
                return Ok(false);
            }
            last = ids.last().copied().or(last);
        }
        Ok(true)
    }

    fn tell(&self, title: &str, text: &str, key: Option<&str>) {
        if let Some(pages) = self.pages {
            pages.send_replace(page(title, text, key));
        }
    }

    fn tell_happens(&self, struck: Struck, left: u64) {
        let text = self.drill.happens.replace("{n}", &struck.entries.to_string());
        self.tell(&self.drill.title, &text.replace("{left}", &left.to_string()), None);
    }

    /// Time to read a page.
    async fn pause(&self, time: Duration) {
        if self.pages.is_some() {
            sleep(time).await;
        }
    }
}

fn told(sign: &Sign, struck: Struck) -> String {
    sign.words.replace("{n}", &struck.entries.to_string())
}
