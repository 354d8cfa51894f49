//! Executes the commands of an operator and records them in the audit log.
//!
//! The console and the command line both use it, so read-only mode is enforced here.

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use redis::cmd;
use seckill_model::{Message, Millis, Sale, SaleState, VoucherId, reason::reason};
use seckill_store::{AuditEntry, StoreError};
use tokio_util::sync::CancellationToken;

pub use crate::commands::operator::Operator;
use crate::{
    EngineError, Result,
    commands::{
        Command, Reply, Scope, apply, audit_figures, audit_record, group,
        load_generator::LoadGenerator,
        operator_lock,
        outcome::CommandOutcome,
        pending::Classifier,
        plan::{self, Plan},
    },
    deployment::{Deployment, servers::Servers, settings::Settings, time_zone},
    jobs::{Job, Runner, builtin, job_lock},
    locks::{LockName, revoke},
    orders::{payment, trace, vouchers::Vouchers},
    recovery::{adoption, dead_letters::Letters, partition_repair, repair},
    telemetry::data_loss::Closed,
};

impl Operator {
    /// Executes a command to its end and adds it to the audit log, whatever its result.
    ///
    /// Boxed, as every large future that other crates await: its code is then compiled in this crate alone.
    pub fn execute<'a>(
        &'a self,
        command: Command,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Reply>> {
        async move {
            if self.read_only && (command.is_recorded() || command == Command::Cancel) {
                return Err(EngineError::ReadOnly);
            }
            if !command.is_recorded() {
                return Box::pin(self.run(command, stop)).await;
            }
            audit_record::check_reason(self.reason.as_deref()).map_err(EngineError::Rejected)?;
            // Before any read or write: stopping a load test does not wait for a server.
            let stopped = match command {
                Command::StopLoadTest(_) => Some(Box::pin(self.run(command.clone(), stop)).await),
                _ => None,
            };
            let (action, subject) = audit_record::describe(&command);
            let about = audit_record::about(&command);
            // By the clock of Redis, as events are; by that of this host only if Redis does not answer.
            let asked = Millis::now();
            let (at, before) = self.figures(about).await;
            let mut line = AuditEntry {
                at: at.unwrap_or(asked),
                operator: self.login.clone(),
                node: self.node.clone(),
                action: action.to_owned(),
                subject,
                reason: self.reason.clone(),
                before,
                ..AuditEntry::default()
            };
            // Futures of commands are large, and each caller would hold one in its own task.
            let result = match stopped {
                Some(stopped) => stopped,
                None if command.is_recovery() => {
                    Box::pin(self.run_exclusively(&line, command, stop)).await
                }
                None => Box::pin(self.run(command, stop)).await,
            };
            if let Some(admission) = &self.admission {
                admission.invalidate_refusals();
            }
            line.result = Message::of(&match &result {
                Ok(reply) => CommandOutcome::of(reply),
                Err(error) => CommandOutcome::Failed(error.clone()),
            });
            line.after = self.figures(about).await.1;
            tracing::info!(action, subject = %line.subject, result = %line.result, "command");
            self.outbox.put(line);
            self.outbox.write(&self.deployment.store).await;
            result
        }
        .boxed()
    }

    /// Classifies pending entries for a caller that does not hold the operator lock. Those of lost servers are left out if
    /// the connection was probed.
    pub async fn classifier(&self, mut servers: Servers) -> Result<Classifier> {
        let replay_alive = operator_lock::is_taken(&mut servers.conn, &servers.keys).await?;
        Ok(Classifier::new(servers, self.deployment.settings.clone(), replay_alive))
    }

    /// Plans the recovery of pending entries; allowed in read-only mode, since it changes nothing.
    pub fn plan<'a>(
        &'a self,
        scope: &'a Scope,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Plan>> {
        match scope {
            Scope::Entries(entries) => plan::of_entries(self, entries, stop).boxed(),
            Scope::All(filter) => plan::make(self, filter, stop).boxed(),
        }
    }

    /// The figures before or after the command, and the time by the clock of Redis; `None` if no server answered in
    /// time.
    async fn figures(&self, about: Option<VoucherId>) -> (Option<Millis>, Option<String>) {
        let Deployment { redis, store, keys, .. } = &self.deployment;
        Box::pin(audit_figures::take(store, &mut redis.connection(), keys, about)).await
    }

    /// Runs a recovery under the operator lock; one that loses the lock is aborted.
    async fn run_exclusively(
        &self,
        line: &AuditEntry,
        command: Command,
        stop: &CancellationToken,
    ) -> Result<Reply> {
        let Deployment { redis, keys, .. } = &self.deployment;
        let (locks, mut conn) = (&self.locks, redis.connection());
        let guard =
            operator_lock::take(locks, &mut conn, keys, &line.operator, &line.action).await?;
        // Otherwise a command that dies with its process would leave no trace.
        let (action, result) =
            (format!("{} begun", line.action), Message::of(&CommandOutcome::Started));
        self.outbox.put(AuditEntry { action, result, before: None, ..line.clone() });
        self.outbox.write(&self.deployment.store).await;
        let stop = self.meters.begin_recovery(stop);
        let result = Box::pin(guard.run(self.run(command, &stop))).await;
        drop(stop);
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the operator lock was not released");
        }
        result?
    }

    async fn run(&self, command: Command, stop: &CancellationToken) -> Result<Reply> {
        let mut servers = self.servers();
        let dead_ms = self.deployment.settings.node_dead_ms;
        let mut vouchers = Vouchers { servers: &mut servers };
        Ok(match command {
            Command::Plan(scope) => Reply::Planned(self.plan(&scope, stop).await?),
            Command::CountLetters(scope) => {
                Reply::LettersCounted(self.letters().count(&scope, stop).await?)
            }
            Command::Preview(action) => {
                Reply::Previewed(Box::pin(action.preview(self, stop)).await?)
            }
            Command::Trace(order) => {
                let tracing = Box::pin(trace::follow(&mut servers, order));
                Reply::Traced(Box::new(tracing.await?))
            }
            Command::Cancel => Reply::Cancelled(self.meters.stop_recovery()),
            Command::CreateVoucher(voucher) => {
                let voucher = voucher.checked().map_err(EngineError::Rejected)?;
                Reply::VoucherCreated(vouchers.create_voucher(&voucher).await?)
            }
            Command::BuyVoucher(voucher, user) => {
                let bought = vouchers.buy(voucher, user).await;
                if let Err(error) = vouchers.close_ids(voucher, dead_ms).await {
                    tracing::debug!(%error, "later order IDs may be ahead of the clock");
                }
                Reply::VoucherBought(bought?)
            }
            Command::CreateSale(sale) => {
                Reply::SaleCreated(vouchers.create(&sale).await?.voucher_id)
            }
            Command::CreateSaleVoucher(details, sale) => {
                let details = details.checked().map_err(EngineError::Rejected)?;
                Reply::SaleCreated(vouchers.create_with(&details, &sale).await?.voucher_id)
            }
            Command::StartSale(voucher) => changed(&vouchers.start(voucher).await?),
            Command::PauseSale(voucher) => {
                changed(&vouchers.set_state(voucher, SaleState::Paused, None).await?)
            }
            Command::ResumeSale(voucher) => {
                changed(&vouchers.set_state(voucher, SaleState::Running, None).await?)
            }
            Command::EndSale(voucher) => {
                changed(&vouchers.set_state(voucher, SaleState::Ended, None).await?)
            }
            Command::Restock { voucher, by } => {
                Reply::Restocked { voucher, initial: restock(&mut vouchers, voucher, by).await? }
            }
            Command::LoadTest(plan) => {
                plan.check().map_err(EngineError::Rejected)?;
                adoption::shards_of(vouchers.servers, plan.voucher.into()).await?;
                let admission = self.admission.clone().ok_or(EngineError::Stopping)?;
                let generator =
                    LoadGenerator { admission, servers, meters: Arc::clone(&self.meters) };
                Reply::LoadTestDone(generator.run(&plan, stop).await?)
            }
            Command::StopLoadTest(voucher) => {
                Reply::LoadTestStopped { voucher, tests: self.meters.stop_load_tests(voucher) }
            }
            Command::Pay(order) => {
                Reply::Paid { order, payment: payment::pay(&mut servers, order).await? }
            }
            Command::ReleaseLock { name, owner } => {
                let lock = LockName::new(name.as_str())?;
                revoke(&mut servers.conn, &servers.keys, &lock, &owner).await?;
                Reply::LockReleased { name, owner }
            }
            Command::RunJob(name) => {
                let job = self.job(&name)?;
                let (deployment, node) = (self.deployment.clone(), self.node.clone());
                let runner = Runner { deployment, node, locks: self.locks.clone() };
                Reply::JobRun { job: name, end: runner.run_now(&job, stop).await? }
            }
            Command::SwitchJob { job, paused } => {
                let schedule = self.job(&job)?.schedule;
                let now = servers.conn.now().await?;
                let store = &servers.store;
                let mut switches = store.job_switches().await?.into_iter();
                let since = switches.find(|it| it.name == job && it.paused).map(|it| it.since);
                let zone = time_zone::of(store).await?;
                let changed = store.pause_job(&job, paused, now).await?;
                let last = schedule.last(now, &zone).filter(|_| changed && !paused);
                let skipped = last.filter(|due| since.is_some_and(|since| *due > since));
                Reply::JobSwitched { job, paused, changed, skipped }
            }
            Command::Repair(plan) => {
                let (outbox, node) = (&self.outbox, &self.node);
                let faults = partition_repair::repair_all(&mut servers, outbox, node).await?;
                let (streams, orders) =
                    partition_repair::reconcile_streams(&mut servers, outbox, node).await?;
                let mut done = repair::apply_all(&mut servers, &plan, stop).await?;
                done.enqueued += orders;
                done.partition_faults = faults + streams;
                Reply::Repaired(done)
            }
            Command::Apply(plan, pace) => {
                Reply::Replayed(apply::apply(self, &plan, pace, stop).await?)
            }
            Command::ReplayLetters { scope, force } => {
                Reply::LettersReplayed(self.letters().replay(&scope, force, stop).await?)
            }
            Command::DiscardLetters { scope, compensate } => {
                Reply::LettersDiscarded(self.letters().discard(&scope, compensate, stop).await?)
            }
            Command::Rewind(plan) => {
                Reply::Rewound(group::rewind::apply(&mut servers, &plan, stop).await?)
            }
            Command::Claim(plan) => {
                Reply::Claimed(group::claim::apply(&mut servers, &plan, dead_ms, stop).await?)
            }
            Command::RemoveConsumer(shown) => {
                let removed = group::remove::remove(&mut servers, &shown, dead_ms);
                Reply::ConsumerRemoved(removed.await?)
            }
        })
    }

    fn job(&self, name: &str) -> Result<Job> {
        let job = builtin::jobs(&self.deployment.settings).into_iter().find(|job| job.name == name);
        job.ok_or_else(|| no_job(name))
    }

    /// The dead letters, over a separate connection, with progress reports.
    pub(crate) fn letters(&self) -> Letters {
        let mut letters = Letters::new(self.servers(), &self.deployment.settings);
        letters.meters = Arc::clone(&self.meters);
        letters
    }
}

/// Adds or removes pieces of a sale. One that has ended, or stays closed, says so: its figures are no reason then.
async fn restock(vouchers: &mut Vouchers<'_>, voucher: VoucherId, by: i64) -> Result<u64> {
    let parts = adoption::shards_of(vouchers.servers, voucher.into()).await?;
    if parts.iter().any(|part| matches!(part.state, SaleState::Ended | SaleState::Archived)) {
        return Err(StoreError::Ended(voucher).into());
    }
    let restocked = vouchers.restock(voucher, by).await;
    if matches!(restocked, Err(EngineError::NotHeld(_))) {
        let Servers { conn, keys, .. } = &mut *vouchers.servers;
        for part in parts {
            let read = cmd("HMGET").arg(keys.sale(part.id)).arg("oversold").arg("restoring").take();
            let (oversold, restoring): (Option<String>, Option<String>) = conn.query(&read).await?;
            if let Some(closed) = Closed::of(oversold.as_deref(), restoring.as_deref()) {
                return Err(closed.error(voucher));
            }
        }
    }
    restocked
}

fn changed(sale: &Sale) -> Reply {
    Reply::SaleChanged { voucher: sale.voucher_id, state: sale.state }
}

/// There is no job of this name.
pub fn no_job(name: &str) -> EngineError {
    let job: String = name.chars().take(60).collect();
    EngineError::Failed(reason!("error-no-job", job))
}

/// Locks that a node or an operator takes by name.
pub fn lock_names(settings: &Settings) -> Vec<String> {
    let jobs = builtin::jobs(settings).into_iter().map(|job| job_lock(&job.name));
    jobs.chain([operator_lock::NAME.to_owned()]).collect()
}

/// The login of the operator, if the system reports it.
pub fn login_name() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}
