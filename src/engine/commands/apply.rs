//! Executes a recovery plan: each entry once, and only if it is unchanged since the plan was shown.
//!
//! The plan runs in bounded steps. After an interruption the same plan can be resumed: finished entries are no longer
//! pending.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use seckill_model::{EntryId, Message, RecoveryAction, Verdict, reason::reason};
use seckill_redis::{
    keys::replay_of,
    stream::{self, Delivered},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Result,
    commands::{
        Changed, Pace, ReplayReport,
        operator::Operator,
        pending::{Classified, Classifier, PAGE},
        plan::{Line, Plan, same_order},
    },
    consumer::order_writer::{Settled, Writer, by_partition},
    deployment::{self, servers::Servers},
    error::PlanError,
    ledger::rebuild,
    telemetry::snapshot::RecoveryLine,
};

/// Name on screen and in the audit log.
pub const APPLY: &str = "pending apply";
/// Maximum number of changed entries listed in the report.
const MAX_LISTED_CHANGES: usize = 100;
/// Steps per second if a rate is set.
const STEPS: u64 = 4;

/// Executes `plan` at `pace`. The caller holds the operator lock. After an error, finished steps are kept.
pub(crate) async fn apply(
    operator: &Operator,
    plan: &Plan,
    pace: Pace,
    stop: &CancellationToken,
) -> Result<ReplayReport> {
    check_plan(operator, plan).await?;
    let (servers, settings) = (operator.servers(), operator.deployment.settings.clone());
    let mut applying = Applying {
        consumer: replay_of(&operator.node),
        writer: Writer::new(operator.servers()),
        classifier: Classifier::new(servers, settings, false),
        rebuilt: BTreeMap::new(),
        finished: 0,
        report: ReplayReport { planned: plan.totals.entries, ..ReplayReport::default() },
    };
    let shown = operator.meters.recovery_begins(RecoveryLine {
        action: APPLY.to_owned(),
        done: 0,
        planned: plan.totals.entries,
        changes: true,
    });
    let done = applying.steps(plan, pace, stop, |done| shown.progress(done)).await;
    let (acted, planned) = (applying.finished, plan.totals.entries);
    done.map(|()| applying.report)
        .map_err(|why| why.after(acted, || reason!("done-applied", done = acted, planned)))
}

/// Rejects a plan of another deployment.
///
/// # Errors
/// [`PlanError::Foreign`]; the database is unreachable.
pub async fn check_plan(operator: &Operator, plan: &Plan) -> Result<()> {
    let here = deployment::name(&operator.deployment.store, false).await?;
    if plan.head.deployment == here { Ok(()) } else { Err(PlanError::Foreign.into()) }
}

struct Applying {
    consumer: String,
    writer: Writer,
    classifier: Classifier,
    /// Partitions whose lost orders were rebuilt, and whether Redis held all of their sales.
    rebuilt: BTreeMap<u16, bool>,
    report: ReplayReport,
    /// Entries of completed steps.
    finished: u64,
}

impl Applying {
    async fn steps(
        &mut self,
        plan: &Plan,
        pace: Pace,
        stop: &CancellationToken,
        progress: impl Fn(u64),
    ) -> Result<()> {
        let started = Instant::now();
        let mut lines = plan.lines();
        let mut left = pace.most.unwrap_or(u64::MAX);
        let step = pace.rate.map_or(PAGE as u64, |rate| (rate / STEPS).clamp(1, PAGE as u64));
        while left > 0 {
            let page = lines.next(usize::try_from(step.min(left)).unwrap_or(PAGE))?;
            if page.is_empty() {
                return Ok(());
            }
            if stop.is_cancelled() {
                self.report.cut_short = true;
                return Ok(());
            }
            let before = self.acted();
            self.step(page, stop).await?;
            self.finished = self.acted();
            progress(self.report.seen);
            // Entries of an earlier run count for neither: the same plan is resumed.
            let acted = self.acted();
            left = left.saturating_sub(acted - before);
            if let Some(rate) = pace.rate {
                let due = Duration::from_secs_f64(acted as f64 / rate as f64);
                let pause = due.saturating_sub(started.elapsed());
                stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        }
        self.report.cut_short = self.report.seen < plan.totals.entries;
        Ok(())
    }

    /// Entries that were processed, or skipped because they had changed.
    fn acted(&self) -> u64 {
        let ReplayReport { seen, gone, left, .. } = self.report;
        seen.saturating_sub(gone + left)
    }

    /// Checks the entries again and processes those that are unchanged.
    async fn step(&mut self, page: Vec<Line>, stop: &CancellationToken) -> Result<()> {
        self.report.seen += page.len() as u64;
        let entries: Vec<EntryId> = page.iter().map(|line| line.entry).collect();
        let mut now: HashMap<EntryId, Classified> = HashMap::new();
        for found in self.classifier.entries(&entries).await? {
            now.insert(found.row.delivered.entry, found);
        }
        let (mut written, mut stuck, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let (mut suspects, mut dead) = (Vec::new(), Vec::new());
        for line in page {
            let Some(current) = now.remove(&line.entry) else {
                self.report.gone += 1;
                continue;
            };
            if line.action == RecoveryAction::Leave {
                self.report.left += 1;
                continue;
            }
            if !current.verdict.continues(line.verdict) || !same_order(&line, &current) {
                self.change(&line, current.verdict);
                continue;
            }
            match current.verdict.action() {
                RecoveryAction::Acknowledge => written.push(line.entry),
                RecoveryAction::Process => stuck.push(current),
                RecoveryAction::Rebuild => gone.push(line.entry),
                RecoveryAction::DeadLetter if current.verdict == Verdict::TooOften => {
                    suspects.push(current);
                }
                RecoveryAction::DeadLetter => {
                    let why = current.fault.as_ref().map(Message::of);
                    dead.push((line.entry, why.unwrap_or_default()));
                }
                RecoveryAction::Leave => self.report.left += 1,
            }
        }
        let asked = written.len() as u64;
        let acknowledged = self.writer.acknowledge(written).await?;
        self.report.acknowledged += acknowledged;
        self.report.gone += asked - acknowledged;
        let stuck = self.take_over(stuck).await?;
        let settled = self.writer.settle(stuck, stop).await?;
        self.note(settled);
        let times: HashMap<EntryId, u64> =
            suspects.iter().map(|it| (it.row.delivered.entry, it.row.deliveries)).collect();
        for suspect in self.take_over(suspects).await? {
            let times = times.get(&suspect.entry).copied().unwrap_or_default();
            let settled = self.writer.settle_suspect(suspect, times, stop).await?;
            self.note(settled);
        }
        let asked = dead.len() as u64;
        let dead = self.writer.reject_all(dead).await?;
        self.report.dead += dead;
        self.report.gone += asked - dead;
        if gone.is_empty() { Ok(()) } else { self.rebuild(&gone).await }
    }

    fn change(&mut self, line: &Line, now: Verdict) {
        self.report.changed += 1;
        if self.report.changes.len() < MAX_LISTED_CHANGES {
            let (entry, planned) = (line.entry, line.verdict);
            self.report.changes.push(Changed { entry, planned, now });
        }
    }

    fn note(&mut self, settled: Settled) {
        self.report.persisted += settled.persisted;
        self.report.acknowledged += settled.again;
        self.report.dead += settled.dead;
        // The database accepts no orders of their sale, or its buyers are unknown.
        self.report.left += settled.waiting;
    }

    /// Claims entries. One that was delivered again since it was classified is no longer idle and is skipped.
    async fn take_over(&mut self, stuck: Vec<Classified>) -> Result<Vec<Delivered>> {
        let Some(youngest) = stuck.iter().map(|it| it.row.idle_ms).min() else {
            return Ok(Vec::new());
        };
        let mut bodies: HashMap<EntryId, _> =
            stuck.into_iter().map(|it| (it.row.delivered.entry, it.row.delivered)).collect();
        let asked = bodies.len();
        let mut ours = Vec::with_capacity(asked);
        let entries: Vec<EntryId> = bodies.keys().copied().collect();
        let Servers { conn, keys, .. } = &mut self.writer.servers;
        for (of, entries) in by_partition(keys, entries, |entry| *entry) {
            let taken = stream::claim(conn, &of, &self.consumer, youngest, &entries).await?;
            ours.extend(taken.iter().filter_map(|entry| bodies.remove(entry)));
        }
        // Oldest first, in the order of delivery.
        ours.sort_by_key(|delivered| delivered.entry);
        self.report.gone += (asked - ours.len()) as u64;
        Ok(ours)
    }

    /// The bodies are gone, so their orders are unknown. The buyers hash still has them: every admitted buyer without a
    /// result is enqueued again. Once per partition, since this covers all of its buyers.
    async fn rebuild(&mut self, gone: &[EntryId]) -> Result<()> {
        let servers = &mut self.writer.servers;
        for (of, gone) in by_partition(&servers.keys, gone.iter().copied(), |entry| *entry) {
            let complete = if let Some(complete) = self.rebuilt.get(&of.number()) {
                *complete
            } else {
                let rebuilt = rebuild(servers, &of).await?;
                self.report.rebuilt += rebuilt.orders;
                self.rebuilt.insert(of.number(), rebuilt.complete);
                rebuilt.complete
            };
            if complete {
                self.report.without_body +=
                    stream::acknowledge(&mut servers.conn, &of, gone).await?;
            } else {
                self.report.lost += gone.len() as u64;
            }
        }
        Ok(())
    }
}
