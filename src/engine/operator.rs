//! Does what an operator asks, and writes down that he did.
//!
//! The console and the command line both come through here, so read-only is enforced here.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    admission::Admission,
    command::{Command, Reply},
    helm,
    jobs::{Job, Runner, builtin},
    locks::{LockName, Locks, revoke},
    payment,
    pending::Replayer,
    repair::{self, Repaired, SaleRepair},
    rush::Rush,
    settings::Settings,
    vouchers,
};
use crate::{
    broker::{Layout, Link, Redis},
    model::{Millis, Payment, Sale, SaleState, VoucherId, sale::check_title},
    store::{Act, SharedStore},
    telemetry::Meters,
};

/// One operator's hands. Cheap to clone; each act has a connection of its own.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Redis.
    pub redis: Redis,
    /// SQL.
    pub store: SharedStore,
    /// Names of keys.
    pub keys: Layout,
    /// Limits of verdicts.
    pub settings: Settings,
    /// This node's name, under which entries are taken over.
    pub node: String,
    /// This node's locks; a job that is run by hand takes its own.
    pub locks: Locks,
    /// Refuse every act.
    pub read_only: bool,
    /// Where simulated buyers ask; `None` where no engine runs.
    pub admission: Option<Admission>,
    /// Where progress is shown.
    pub meters: Arc<Meters>,
    /// Why, as the operator said it; goes into the audit log.
    pub reason: Option<String>,
}

impl Operator {
    /// Does one act, waits for its end, and adds it to the audit log whatever its result.
    pub async fn execute(
        &self,
        command: Command,
        stop: &CancellationToken,
    ) -> Result<Reply, EngineError> {
        if self.read_only {
            return Err(EngineError::ReadOnly);
        }
        let (act, subject) = describe(&command);
        let result = Box::pin(self.alone(act, command, stop)).await;
        let told = match &result {
            Ok(reply) => told(reply),
            Err(error) => format!("failed: {error}"),
        };
        tracing::info!(act, subject, result = told, "act");
        let line = Act {
            at: Millis::now(),
            operator: login_name(),
            node: self.node.clone(),
            act: act.to_owned(),
            subject,
            reason: self.reason.clone(),
            result: told,
        };
        if let Err(error) = self.store.record(&line).await {
            tracing::error!(%error, act = line.act, "the act could not be written to the audit log");
        }
        result
    }

    /// With the helm in hand, where the act asks for it; one that loses it is broken off.
    async fn alone(
        &self,
        name: &str,
        command: Command,
        stop: &CancellationToken,
    ) -> Result<Reply, EngineError> {
        if !command.is_recovery() {
            return self.act(command, stop).await;
        }
        let mut link = self.redis.link();
        let guard = helm::take(&self.locks, &mut link, &self.keys, &login_name(), name).await?;
        let result = guard.run(self.act(command, stop)).await;
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the operator's lock was not given back");
        }
        result?
    }

    async fn act(&self, command: Command, stop: &CancellationToken) -> Result<Reply, EngineError> {
        let mut link = self.redis.link();
        let (store, keys) = (&self.store, &self.keys);
        match command {
            Command::CreateVoucher(title) => {
                let voucher = store.create_voucher(&check_title(&title)?, Millis::now()).await?;
                Ok(Reply::VoucherCreated(voucher))
            }
            Command::CreateSale(sale) => {
                let sale = vouchers::create(store, &mut link, keys, &sale).await?;
                Ok(Reply::SaleCreated(sale.voucher_id))
            }
            Command::StartSale(voucher) => {
                vouchers::start(store, &mut link, keys, voucher).await.map(|sale| changed(&sale))
            }
            Command::PauseSale(voucher) => self.set(&mut link, voucher, SaleState::Paused).await,
            Command::ResumeSale(voucher) => self.set(&mut link, voucher, SaleState::Running).await,
            Command::EndSale(voucher) => self.set(&mut link, voucher, SaleState::Ended).await,
            Command::Restock { voucher, by } => {
                let sale = vouchers::restock(store, &mut link, keys, voucher, by).await?;
                Ok(Reply::Restocked { voucher, initial: sale.initial })
            }
            Command::Rush(plan) => {
                plan.check()?;
                store.sale(plan.voucher).await?;
                let admission = self.admission.clone().ok_or(EngineError::Stopping)?;
                let (store, keys) = (store.clone(), keys.clone());
                let rush = Rush { admission, store, link, keys, meters: Arc::clone(&self.meters) };
                Ok(Reply::RushDone(rush.run(&plan, stop).await?))
            }
            Command::Pay(order) => {
                Ok(Reply::Paid { order, payment: payment::pay(store, &mut link, order).await? })
            }
            Command::ReleaseLock { name, owner } => {
                let lock = LockName::new(name.as_str())?;
                revoke(&mut link, keys, &lock, &owner).await?;
                Ok(Reply::LockReleased { name, owner })
            }
            Command::RunJob(name) => {
                let job = self.job(&name)?;
                let end = self.runner().run_now(&job, stop).await?;
                Ok(Reply::JobRun { job: name, end })
            }
            Command::SwitchJob { job, paused } => {
                self.job(&job)?;
                store.pause_job(&job, paused, link.now().await?).await?;
                Ok(Reply::JobSwitched { job, paused })
            }
            Command::Repair(plan) => {
                let mut done = Repaired::default();
                for sale in &plan {
                    if stop.is_cancelled() {
                        return Err(EngineError::Stopping);
                    }
                    let one = repair::apply(store, &mut link, keys, sale).await?;
                    done.put_back += one.put_back;
                    done.enqueued += one.enqueued;
                    done.given_back += one.given_back;
                }
                Ok(Reply::Repaired(done))
            }
            Command::Replay(scope) => {
                let mut replayer = Replayer::new(
                    &self.node,
                    &self.redis,
                    store.clone(),
                    keys.clone(),
                    self.settings.clone(),
                );
                Ok(Reply::Replayed(replayer.replay(&scope, stop).await?))
            }
        }
    }

    fn job(&self, name: &str) -> Result<Job, EngineError> {
        let job = builtin::jobs(&self.settings).into_iter().find(|job| job.name == name);
        job.ok_or_else(|| EngineError::NoJob(name.chars().take(60).collect()))
    }

    fn runner(&self) -> Runner {
        Runner {
            redis: self.redis.clone(),
            store: self.store.clone(),
            keys: self.keys.clone(),
            settings: self.settings.clone(),
            node: self.node.clone(),
            locks: self.locks.clone(),
        }
    }

    async fn set(
        &self,
        link: &mut Link,
        voucher: VoucherId,
        state: SaleState,
    ) -> Result<Reply, EngineError> {
        vouchers::set_state(&self.store, link, &self.keys, voucher, state)
            .await
            .map(|sale| changed(&sale))
    }
}

fn changed(sale: &Sale) -> Reply {
    Reply::SaleChanged { voucher: sale.voucher_id, state: sale.state }
}

/// The act's name and what it is about, for the audit log.
fn describe(command: &Command) -> (&'static str, String) {
    use super::command::ReplayScope;
    match command {
        Command::CreateVoucher(title) => ("voucher create", format!("'{title}'")),
        Command::CreateSale(sale) => {
            ("sale create", format!("'{}', stock {}", sale.title, sale.stock))
        }
        Command::StartSale(voucher) => ("sale start", format!("#{voucher}")),
        Command::PauseSale(voucher) => ("sale pause", format!("#{voucher}")),
        Command::ResumeSale(voucher) => ("sale resume", format!("#{voucher}")),
        Command::EndSale(voucher) => ("sale end", format!("#{voucher}")),
        Command::Restock { voucher, by: by @ ..0 } => {
            ("sale cut", format!("#{voucher} by {}", by.unsigned_abs()))
        }
        Command::Restock { voucher, by } => ("sale restock", format!("#{voucher} by {by}")),
        Command::Rush(plan) => {
            ("rush", format!("#{}, {} buyers, seed {}", plan.voucher, plan.users, plan.seed))
        }
        Command::Repair(plan) => {
            let sale = |it: &SaleRepair| format!("#{}: {}", it.voucher_id, it.findings.join("; "));
            ("audit repair", plan.iter().map(sale).collect::<Vec<_>>().join("; "))
        }
        Command::Replay(ReplayScope::Entries(entries)) => {
            ("pending replay", format!("{} entries", entries.len()))
        }
        Command::Pay(order) => ("order pay", order.to_string()),
        Command::ReleaseLock { name, owner } => ("lock release", format!("'{name}' from {owner}")),
        Command::RunJob(job) => ("job run", job.clone()),
        Command::SwitchJob { job, paused: true } => ("job pause", job.clone()),
        Command::SwitchJob { job, paused: false } => ("job resume", job.clone()),
        Command::Replay(ReplayScope::UpTo(last)) => ("pending replay", format!("all up to {last}")),
    }
}

fn told(reply: &Reply) -> String {
    match reply {
        Reply::VoucherCreated(voucher) => format!("voucher #{voucher}"),
        Reply::SaleCreated(voucher) => format!("sale #{voucher}"),
        Reply::SaleChanged { voucher, state } => format!("sale #{voucher} is {state}"),
        Reply::Restocked { voucher, initial } => format!("sale #{voucher} holds {initial} in all"),
        Reply::Paid { payment, .. } => match payment {
            Payment::Paid => "paid",
            Payment::PaidBefore => "paid before",
            Payment::TooLate => "too late: it is closed",
            Payment::NotFound => "no such order in SQL",
        }
        .to_owned(),
        Reply::LockReleased { .. } => "released".to_owned(),
        Reply::JobRun { end, .. } => {
            let detail = end.detail.as_deref().unwrap_or_default();
            format!("{} after {} ms: {detail}", end.outcome, end.took_ms)
        }
        Reply::JobSwitched { paused, .. } => if *paused { "paused" } else { "resumed" }.to_owned(),
        Reply::RushDone(report) => format!(
            "{} attempts, {} admitted, {} persisted, {} dead letters",
            report.attempts, report.admitted, report.persisted, report.dead
        ),
        Reply::Repaired(done) => format!(
            "{} buyers put back, {} orders enqueued, {} pieces given back",
            done.put_back, done.enqueued, done.given_back
        ),
        Reply::Replayed(report) => format!(
            "{}{} entries: {} written, {} acknowledged, {} dead letters, {} left, {} rebuilt, {} lost, {} gone",
            if report.cut_short { "cut short after " } else { "" },
            report.seen,
            report.persisted,
            report.acknowledged,
            report.dead,
            report.left,
            report.rebuilt,
            report.lost,
            report.gone
        ),
    }
}

/// Who sits at the terminal, as far as the system tells.
pub fn login_name() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}
