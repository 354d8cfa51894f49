//! Runs a drill: a small sale, the fault, waiting for its symptoms and its remedy, and the final checks.
//!
//! The catalogue defines each drill; this file injects the faults.

use std::{sync::Arc, time::Duration};

use seckill_console::GuidePage;
use seckill_engine::{
    Command, EngineError, LoadTest, Reply, Snapshot, fault_injection, ledger::Audit,
    recovery::dead_letters::LetterScope,
};
use seckill_model::{EntryId, Filter, Label, OrderId, SaleAudit, ShardId, VoucherId, text};
use seckill_store::fault_injection::Ill;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Exam, HINTS, Report,
    catalogue::{Drill, Figures, Remedy},
};
use crate::{
    Result,
    sandbox::{HOT_POT, RunningLoadTest, Sandbox, TIMEOUT, is_settled, page},
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
/// Duration of a lasting fault in a headless run.
const UNWATCHED_FAULT: Duration = Duration::from_secs(2);
/// Timeout for the symptoms on screen; shorter for an outage.
const SHOWN: Duration = Duration::from_secs(15);
const OUTAGE_SHOWN: Duration = Duration::from_secs(2);
/// Orders of one sale that are compared.
const ORDERS: u32 = 10_000;

/// A drill with its sandbox.
pub(super) struct Play<'a> {
    /// Without a console, the operator is simulated as well.
    pub(super) sandbox: &'a Sandbox<'a>,
    pub(super) drill: Drill,
    pub(super) seed: u64,
}

impl Play<'_> {
    pub(super) async fn play(&self) -> Result<Report> {
        let (drill, guide) = (self.drill, &self.sandbox.guide);
        let mut report = Report { drill: drill.into(), seed: self.seed, ..Report::default() };
        let dir = self.sandbox.context.dir.path().display();
        let ready = text!("drill-get-ready-text", STOCK, dir);
        guide.show(Label("drill-get-ready"), ready);
        guide.pause(READ).await;
        let load_test = self.open_sale().await?;
        let mut figures = Figures { before: self.orders().await?, ..Figures::default() };
        self.inject(&mut figures).await?;
        let affected = figures.affected;
        report.struck = affected;
        let began = Instant::now();
        // Headless runs allow for a loaded machine.
        let outage = drill == Drill::DatabaseAway && guide.is_shown();
        let bound = if outage { OUTAGE_SHOWN } else { SHOWN };
        if self.sandbox.seen(bound, |snapshot| drill.is_seen(snapshot, affected)).await? {
            report.seen.push(text!("drill-symptom", drill, n = affected));
        }
        report.check(Label("drill-check-seen"), !report.seen.is_empty());

        if guide.is_shown() {
            report.exam = Some(self.examine(affected, began).await?);
            // The audit is seen before the result covers it.
            guide.pause(Duration::from_secs(2)).await;
        } else {
            if drill.duration().is_some() {
                sleep(UNWATCHED_FAULT).await;
            }
            self.end_fault().await?;
            self.operate(&mut report).await?;
        }
        if self.sandbox.within(TIMEOUT, |snapshot| drill.is_repaired(snapshot)).await? {
            report.done.push(text!("drill-repaired", drill));
        }
        report.check(Label("drill-check-repaired"), !report.done.is_empty());
        self.end_hold().await?;
        if let Some(load_test) = load_test {
            load_test.report().await?;
        }
        self.check(&mut report, figures).await?;
        Ok(report)
    }

    /// Waits until the operator has found the fault, repaired it and read the audit, for as long as they take. A hint is
    /// shown on request.
    async fn examine(&self, affected: u64, began: Instant) -> Result<Exam> {
        let (drill, guide) = (self.drill, &self.sandbox.guide);
        let remote = self.sandbox.node.remote();
        let (mut snapshots, mut focus) = (remote.snapshots, remote.focus.subscribe());
        let (mut asked, before) = (guide.asked.subscribe(), *guide.asked.borrow());
        let mut exam = Exam::default();
        let mut ends = drill.duration().map(|it| began + it);
        loop {
            let shown = *focus.borrow_and_update();
            if exam.found.is_none() && drill.is_found(&shown) {
                exam.found = Some(began.elapsed());
            }
            if ends.take_if(|end| *end <= Instant::now()).is_some() {
                self.end_fault().await?;
            }
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            if exam.repaired.is_none() && ends.is_none() && drill.is_repaired(&snapshot) {
                exam.repaired = Some(began.elapsed());
                self.end_hold().await?;
            }
            guide.turn_to(self.exam_page(affected, &exam));
            if exam.repaired.is_some() && shown.ledger && snapshot.ledger.taken.is_some() {
                return Ok(exam);
            }
            tokio::select! {
                () = sleep_until(ends.unwrap_or(began)), if ends.is_some() => {}
                _ = asked.changed() => exam.hints = (*asked.borrow() - before).min(HINTS),
                _ = focus.changed() => {}
                changed = snapshots.changed() => changed.map_err(|_| EngineError::Stopping)?,
            }
        }
    }

    /// What the operator is asked, or the last hint.
    fn exam_page(&self, affected: u64, exam: &Exam) -> GuidePage {
        let drill = self.drill;
        let dir = self.sandbox.context.dir.path().display();
        let title = format!("{} {}/{HINTS}", drill.title(), exam.hints);
        match exam.hints {
            _ if exam.repaired.is_some() => {
                page(Label("drill-solved"), text!("drill-solved-text"), Some("9"))
            }
            0 => page(Label("drill-exam"), text!("drill-exam-text"), None),
            1 => page(title, drill.fault(affected), None),
            _ => page(title, drill.instructions(&dir.to_string()), drill.remedy().keys()),
        }
    }

    /// The sale before the fault. An outage interrupts its load test, which is returned in that case; other faults
    /// follow it.
    async fn open_sale(&self) -> Result<Option<RunningLoadTest>> {
        let voucher = self.sandbox.create(&HOT_POT, STOCK, None).await?;
        let outage = self.drill.is_outage();
        // In an outage every buyer gets a piece, so that orders arrive at any moment of it.
        let users = if outage { STOCK } else { BUYERS };
        let over = match (self.sandbox.guide.is_shown(), outage) {
            (true, false) => Some(WATCHED[0]),
            (true, true) => Some(WATCHED[1]),
            (false, true) => Some(UNWATCHED),
            (false, false) => None,
        };
        let rate = over.map(|over| users as f64 * 1.1 / over.as_secs_f64());
        let rush =
            LoadTest { seed: self.seed, rate, settle: false, ..LoadTest::new(voucher, users) };
        let text = text!("drill-load-test-text", users, STOCK);
        self.sandbox.guide.show(Label("drill-load-test-title"), text);
        let load_test = self.sandbox.rush(rush);
        if outage {
            let some = |snapshot: &Snapshot| {
                snapshot.sale(voucher).is_some_and(|sale| sale.persisted > STOCK / 10)
            };
            self.sandbox.until(some).await?;
            return Ok(Some(load_test));
        }
        load_test.report().await?;
        self.sandbox.until(is_settled).await?;
        Ok(None)
    }

    async fn inject(&self, figures: &mut Figures) -> Result<()> {
        let Sandbox { context, guide, .. } = self.sandbox;
        let (redis, keys, mut conn) = (&context.redis, &context.keys, context.redis.connection());
        match self.drill {
            Drill::ConsumerKilled => {
                figures.waiting = self.second_sale().await?;
                figures.affected = self.sandbox.kill_node(SECOND_STOCK).await?;
                self.sandbox.hold(false).await?;
            }
            Drill::StreamTrimmed => {
                figures.waiting = self.second_sale().await?;
                figures.affected = self.sandbox.kill_node(SECOND_STOCK).await?;
                for of in keys.partitions() {
                    fault_injection::trim_pending(&mut conn, &of).await?;
                }
                // Paused: the live node would claim and rebuild them before they are visible.
            }
            Drill::Poison => {
                figures.waiting = self.second_sale().await?;
                fault_injection::poison(&mut conn, &keys.home(), POISON).await?;
                figures.affected = POISON as u64;
                self.sandbox.hold(false).await?;
            }
            Drill::GroupDestroyed => {
                figures.waiting = self.second_sale().await?;
                figures.affected = self.sandbox.kill_node(SECOND_STOCK / 2).await?;
                for of in keys.partitions() {
                    fault_injection::destroy_group(&mut conn, &of).await?;
                }
            }
            Drill::Duplicates => {
                self.sandbox.hold(true).await?;
                for of in keys.partitions() {
                    let again =
                        fault_injection::duplicate(&mut conn, &of, SECOND_STOCK as usize).await?;
                    figures.affected += again as u64;
                }
            }
            Drill::DatabaseAway => self.sandbox.database.set(Ill::Away),
            Drill::RedisAway => fault_injection::kill_redis(redis).await?,
            Drill::ClockStep => {
                guide.show(Label("drill-exam"), Label("drill-more-sales-text"));
                let tomorrow = Label("drill-tomorrows-tea");
                let today = Label("drill-todays-tea");
                for (title, step) in [(tomorrow, STEP_S), (today, -STEP_S)] {
                    fault_injection::step_clock(step);
                    let voucher = self.sandbox.create(&title, SECOND_STOCK, None).await?;
                    let rate = SECOND_BUYERS as f64 / WATCHED[0].as_secs_f64();
                    let rate = guide.is_shown().then_some(rate);
                    let users = SECOND_BUYERS;
                    let rush = LoadTest { seed: self.seed, rate, ..LoadTest::new(voucher, users) };
                    self.sandbox.rush(rush).report().await?;
                }
                self.sandbox.until(is_settled).await?;
            }
        }
        Ok(())
    }

    /// Number of undelivered orders of a second sale.
    async fn second_sale(&self) -> Result<u64> {
        let rush = self.sandbox.undelivered(SECOND_STOCK, SECOND_BUYERS, self.seed).await?;
        Ok(rush.admitted)
    }

    /// Ends a fault that does not end automatically.
    async fn end_fault(&self) -> Result<()> {
        match self.drill {
            Drill::DatabaseAway => self.sandbox.database.set(Ill::Not),
            Drill::GroupDestroyed | Drill::Duplicates => {
                self.sandbox.hold(false).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// After the repair of a trimmed stream, the consumer writes the rebuilt orders.
    async fn end_hold(&self) -> Result<()> {
        if self.drill == Drill::StreamTrimmed {
            self.sandbox.hold(false).await?;
        }
        Ok(())
    }

    async fn operate(&self, report: &mut Report) -> Result<()> {
        match self.drill.remedy() {
            Remedy::Automatic => {}
            Remedy::Plan => {
                let (planned, replay) = self.sandbox.recover().await?;
                let plan_is_complete = planned == report.struck;
                report.check(Label("drill-check-plan"), plan_is_complete);
                report.done.push(Reply::Replayed(replay).to_string());
            }
            Remedy::Discard => {
                let scope = LetterScope::Matching { filter: Filter::default(), last: EntryId::MAX };
                let discard = Command::DiscardLetters { scope, compensate: false };
                report.done.push(self.sandbox.execute(discard).await?.to_string());
            }
        }
        Ok(())
    }

    async fn check(&self, report: &mut Report, mut figures: Figures) -> Result<()> {
        // Without a repair it never settles.
        let bound = if report.failure().is_none() { TIMEOUT } else { SHOWN };
        let settled = self.sandbox.within(bound, is_settled).await?;
        report.check(Label("drill-check-settled"), settled);
        let Audit { balanced, sales, .. } = self.sandbox.audit().await?;
        let promised = sales.iter().all(|sale| sale.admitted == sale.persisted);
        report.check(Label("drill-check-admitted-in-sql"), promised);
        let none = sales.iter().all(|sale| sale.dead == 0);
        report.check(Label("drill-check-no-dead-letters"), none);
        figures.after = sales.iter().map(|sale| sale.persisted).sum();
        figures.rising = self.rising(&sales).await?;
        report.check(text!("drill-check", drill = self.drill), self.drill.holds(&figures));
        report.check(Label("drill-check-audit"), balanced);
        report.sales = sales;
        report.passed = report.failure().is_none();
        Ok(())
    }

    /// Number of orders in SQL.
    async fn orders(&self) -> Result<u64> {
        let sales = self.sandbox.context.store.sales().await?;
        Ok(sales.iter().map(|sale| sale.live_orders()).sum())
    }

    /// Whether the IDs of each sale are unique and above those of earlier sales.
    async fn rising(&self, sales: &[SaleAudit]) -> Result<bool> {
        let mut sales: Vec<VoucherId> = sales.iter().map(|sale| sale.voucher_id).collect();
        sales.sort_unstable();
        let mut ids: Vec<Vec<OrderId>> = Vec::new();
        for sale in sales {
            let orders =
                self.sandbox.context.store.live_orders(ShardId::only(sale), None, ORDERS).await?;
            ids.push(orders.into_iter().map(|order| order.id).collect());
        }
        Ok(is_rising(&ids))
    }
}

/// Whether the IDs of all sales are rising. A sale without orders after one with orders shows that orders are missing.
fn is_rising(sales: &[Vec<OrderId>]) -> bool {
    let mut with_orders = sales.iter().skip_while(|ids| ids.is_empty());
    with_orders.all(|ids| !ids.is_empty())
        && sales.iter().flatten().is_sorted_by(|one, next| one < next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_over_all_sales() {
        for (sales, expected) in [
            (&[&[][..], &[1, 2], &[3]][..], true),
            (&[&[1, 2], &[]], false),
            (&[&[1], &[], &[2]], false),
            (&[&[1, 3], &[2]], false),
            (&[&[1], &[1]], false),
        ] {
            let sale = |ids: &&[i64]| ids.iter().filter_map(|id| OrderId::from_i64(*id)).collect();
            let sales: Vec<Vec<OrderId>> = sales.iter().map(sale).collect();
            assert_eq!(is_rising(&sales), expected, "{sales:?}");
        }
    }
}
