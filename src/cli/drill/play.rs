//! Runs a drill: a small sale, the fault, waiting for its symptoms and its remedy, and the final checks.
//!
//! The specifics of each drill are in the catalogue; this file injects the faults.

use std::time::Duration;

use seckill_console::Story;
use seckill_engine::{
    EngineError,
    command::{Command, LetterScope, LoadReport, LoadTest, Pace, Reply, Scope},
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
        sandbox::{DYING_NODE, HOT_POT, PATIENCE, Sandbox, answered, is_settled, page},
    },
    Report,
    catalogue::{Drill, Figures, InjectedFault, Remedy, Symptom},
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
    pub(super) sandbox: Sandbox<'a>,
    pub(super) drill: &'static Drill,
    pub(super) fault_switch: &'a Illness,
    pub(super) seed: u64,
    /// The guide of the console; `None` in a headless run, which also plays the operator.
    pub(super) pages: Option<&'a watch::Sender<Story>>,
}

/// Running load test.
type RunningTest = JoinHandle<Result<LoadReport, EngineError>>;

/// Effect of the fault.
#[derive(Clone, Copy, Default)]
struct Affected {
    entries: u64,
    waiting: u64,
}

impl Play<'_> {
    pub(super) async fn play(&self) -> Result<Report, Fault> {
        let Drill { name, fault, duration_s, seen, done, .. } = self.drill;
        let mut report = Report { drill: name, seed: self.seed, ..Report::default() };
        let dir = self.sandbox.context.dir.path().display();
        let ready = text!("drill-pieces-go-on-sale-in-a", STOCK, dir);
        self.show_page(&Label("drill-get-ready"), &ready, None);
        self.pause(READ).await;
        let load_test = self.open_sale().await?;
        let before = self.orders().await?;

        let affected = self.inject().await?;
        report.struck = affected.entries;
        self.show_fault(affected, *duration_s);
        // Headless runs allow for a loaded machine.
        let outage = *fault == InjectedFault::DatabaseAway && self.pages.is_some();
        let bound = if outage { OUTAGE_SHOWN } else { SHOWN };
        if self.sandbox.seen(bound, |snapshot| (seen.matches)(snapshot, affected.entries)).await? {
            report.seen.push(describe(seen, affected));
        }
        report.check(Label("drill-the-screen-showed-it"), !report.seen.is_empty());

        self.wait_for_end(affected).await;
        self.end_fault().await?;
        let remedy = self.drill.remedy_text.replace("{dir}", &dir.to_string());
        self.show_page(&self.drill.title, &remedy, self.drill.keys);
        if self.pages.is_none() {
            self.operate(&mut report).await?;
        }
        let by_person = self.pages.is_some() && self.drill.remedy != Remedy::Itself;
        // The operator may take any time, and may quit.
        let bound = if by_person { Duration::MAX } else { PATIENCE };
        if self.sandbox.within(bound, |snapshot| (done.matches)(snapshot, affected.entries)).await?
        {
            report.done.push(describe(done, affected));
        }
        report.check(Label("drill-it-was-mended"), !report.done.is_empty());
        if *fault == InjectedFault::StreamTrimmed {
            self.sandbox.hold(false).await?;
        }
        if !by_person {
            self.pause(READ).await;
        }
        if let Some(load_test) = load_test {
            answered(load_test, Label("drill-the-rush")).await?;
        }
        self.check(&mut report, before, affected).await?;
        Ok(report)
    }

    /// The sale before the fault. An outage interrupts its load test, which is returned in that case; other faults
    /// follow it.
    async fn open_sale(&self) -> Result<Option<RunningTest>, Fault> {
        let voucher = self.sandbox.create(&HOT_POT, STOCK, None).await?;
        let outage =
            matches!(self.drill.fault, InjectedFault::DatabaseAway | InjectedFault::RedisKilled);
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
            LoadTest { seed: self.seed, rate, settle: false, ..LoadTest::new(voucher, users) };
        let text = text!("drill-buyers-come-for-pieces", users, STOCK);
        self.show_page(&Label("drill-the-rush-2"), &text, None);
        let load_test = self.sandbox.rush(rush);
        if outage {
            let some = |snapshot: &Snapshot| {
                snapshot.sale(voucher).is_some_and(|sale| sale.persisted > STOCK / 10)
            };
            self.sandbox.until(some).await?;
            return Ok(Some(load_test));
        }
        answered(load_test, Label("drill-the-rush")).await?;
        self.sandbox.until_settled().await?;
        Ok(None)
    }

    async fn inject(&self) -> Result<Affected, Fault> {
        let Sandbox { context, .. } = self.sandbox;
        let (redis, keys, mut conn) = (&context.redis, &context.keys, context.redis.connection());
        let mut affected = Affected::default();
        match self.drill.fault {
            InjectedFault::NodeDies => {
                affected.waiting = self.second_sale().await?;
                affected.entries = self.kill_node(SECOND_STOCK).await?;
                self.sandbox.hold(false).await?;
            }
            InjectedFault::StreamTrimmed => {
                affected.waiting = self.second_sale().await?;
                affected.entries = self.kill_node(SECOND_STOCK).await?;
                for of in keys.partitions() {
                    fault_injection::trim_pending(&mut conn, &of).await?;
                }
                // Paused: the live node would claim and rebuild them before they are visible.
            }
            InjectedFault::Poison => {
                affected.waiting = self.second_sale().await?;
                fault_injection::poison(&mut conn, &keys.home(), POISON).await?;
                affected.entries = POISON as u64;
                self.sandbox.hold(false).await?;
            }
            InjectedFault::GroupDestroyed => {
                affected.waiting = self.second_sale().await?;
                affected.entries = self.kill_node(SECOND_STOCK / 2).await?;
                for of in keys.partitions() {
                    fault_injection::destroy_group(&mut conn, &of).await?;
                }
            }
            InjectedFault::Duplicates => {
                self.sandbox.hold(true).await?;
                for of in keys.partitions() {
                    let again =
                        fault_injection::duplicate(&mut conn, &of, SECOND_STOCK as usize).await?;
                    affected.entries += again as u64;
                }
            }
            InjectedFault::DatabaseAway => self.fault_switch.set(Ill::Away),
            InjectedFault::RedisKilled => fault_injection::kill_redis(redis).await?,
            InjectedFault::ClockSteps => {
                self.show_fault(affected, 0);
                let tomorrow = Label("drill-tomorrows-tea");
                let today = Label("drill-todays-tea");
                for (title, step) in [(tomorrow, STEP_S), (today, -STEP_S)] {
                    fault_injection::step_clock(step);
                    let voucher = self.sandbox.create(&title, SECOND_STOCK, None).await?;
                    let rate = self.pages.map(|_| SECOND_BUYERS as f64 / WATCHED[0].as_secs_f64());
                    let users = SECOND_BUYERS;
                    let rush = LoadTest { seed: self.seed, rate, ..LoadTest::new(voucher, users) };
                    answered(self.sandbox.rush(rush), Label("drill-a-rush")).await?;
                }
                self.sandbox.until_settled().await?;
            }
        }
        Ok(affected)
    }

    /// Number of undelivered orders of a second sale.
    async fn second_sale(&self) -> Result<u64, Fault> {
        let rush = self.sandbox.undelivered(SECOND_STOCK, SECOND_BUYERS, self.seed).await?;
        Ok(rush.admitted)
    }

    async fn kill_node(&self, most: u64) -> Result<u64, Fault> {
        let context = self.sandbox.context;
        let (redis, keys) = (&context.redis, &context.keys);
        let dead_ms = context.config.engine.node_dead_ms;
        Ok(fault_injection::die_with_batch(redis, keys, DYING_NODE, most as usize, dead_ms).await?
            as u64)
    }

    /// The fault lasts as long as the drill defines, or until its page was read.
    async fn wait_for_end(&self, affected: Affected) {
        if self.drill.duration_s == 0 {
            self.pause(READ).await;
            return;
        }
        let watched = self.pages.is_some();
        let seconds =
            if watched { self.drill.duration_s } else { self.drill.duration_s.min(UNWATCHED_S) };
        for left in (1..=seconds).rev() {
            self.show_fault(affected, left);
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Ends a fault that does not end by itself.
    async fn end_fault(&self) -> Result<(), Fault> {
        match self.drill.fault {
            InjectedFault::DatabaseAway => self.fault_switch.set(Ill::Not),
            InjectedFault::GroupDestroyed | InjectedFault::Duplicates => {
                self.sandbox.hold(false).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Performs the operator's actions.
    async fn operate(&self, report: &mut Report) -> Result<(), Fault> {
        let unexpected = || Fault::no(Label("drill-the-engine-answered-something-else"));
        match self.drill.remedy {
            Remedy::Itself => {}
            Remedy::Plan => {
                let (operator, stop) = (self.sandbox.node.operator(), self.sandbox.node.stopping());
                let plan = operator.plan(&Scope::All(Filter::default()), stop).await?;
                report.check(
                    Label("drill-the-plan-holds-every-one-of"),
                    plan.totals.to_do() == report.struck,
                );
                let Reply::Replayed(did) =
                    self.sandbox.execute(Command::Apply(plan, Pace::default())).await?
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
                let Reply::LettersDiscarded(did) = self.sandbox.execute(discard).await? else {
                    return Err(unexpected());
                };
                let letters = counted(did.discarded, "dead letter", "dead letters");
                report.done.push(format!("{letters} discarded"));
            }
        }
        Ok(())
    }

    async fn check(
        &self,
        report: &mut Report,
        before: u64,
        affected: Affected,
    ) -> Result<(), Fault> {
        // Without a repair it never settles.
        let bound = if report.failure().is_none() { PATIENCE } else { SHOWN };
        let settled = self.sandbox.within(bound, is_settled).await?;
        report.check(Label("drill-nothing-is-under-way"), settled);
        let audit = self.sandbox.audit().await?;
        let promised = audit.sales.iter().all(|sale| sale.admitted == sale.persisted);
        report.check(Label("drill-every-promised-order-is-in-sql"), promised);
        let none = audit.sales.iter().all(|sale| sale.dead == 0);
        report.check(Label("drill-no-letter-is-dead"), none);
        let after = audit.sales.iter().map(|sale| sale.persisted).sum();
        let mut sales: Vec<VoucherId> = audit.sales.iter().map(|sale| sale.voucher_id).collect();
        sales.sort_unstable();
        let rising = self.rising(&sales).await?;
        let (entries, waiting) = (affected.entries, affected.waiting);
        let facts = Figures { before, after, affected: entries, waiting, rising };
        let check = &self.drill.final_check;
        report.check(check.text, (check.holds)(&facts));
        report.check(Label("drill-the-books-balance-order-by-order"), audit.balanced);
        report.sales = audit.sales;
        report.passed = report.failure().is_none();
        Ok(())
    }

    /// Number of orders in SQL.
    async fn orders(&self) -> Result<u64, Fault> {
        let sales = self.sandbox.context.store.sales().await?;
        Ok(sales.iter().map(Sale::live_orders).sum())
    }

    /// Whether the IDs of each sale are unique and above those of earlier sales.
    async fn rising(&self, sales: &[VoucherId]) -> Result<bool, Fault> {
        let mut last: Option<OrderId> = None;
        for voucher in sales {
            let orders = self.sandbox.context.store.live_orders(*voucher, None, ORDERS).await?;
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

    fn show_page(&self, title: &str, text: &str, key: Option<&str>) {
        if let Some(pages) = self.pages {
            pages.send_replace(page(title, text, key));
        }
    }

    fn show_fault(&self, affected: Affected, left: u64) {
        let text = self.drill.fault_text.replace("{n}", &affected.entries.to_string());
        self.show_page(&self.drill.title, &text.replace("{left}", &left.to_string()), None);
    }

    /// Time to read a page.
    async fn pause(&self, time: Duration) {
        if self.pages.is_some() {
            sleep(time).await;
        }
    }
}

fn describe(symptom: &Symptom, affected: Affected) -> String {
    symptom.text.replace("{n}", &affected.entries.to_string())
}
