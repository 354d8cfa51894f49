//! Commands of an operator, and their replies.
//!
//! The console and the command line use only this interface; neither accesses Redis or SQL.

pub mod apply;
pub mod audit_figures;
pub mod audit_record;
pub mod command_handler;
pub mod group;
pub mod load_generator;
pub(crate) mod operator;
pub mod operator_lock;
pub mod outcome;
pub mod pending;
pub mod plan;

use std::sync::Arc;

use seckill_model::{
    EntryId, Millis, NewSale, OrderId, Payment, RunEnd, SaleAudit, SaleState, UserId, Verdict,
    VoucherDetails, VoucherId, filter::Filter, reason::reason,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    EngineError, Result,
    commands::{
        group::{ClaimPlan, ClaimReport, GroupAction, Preview, RemoveReport, Rewind, RewindReport},
        plan::Plan,
    },
    orders::trace::Trace,
    recovery::{
        dead_letters::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed},
        repair::Repaired,
    },
    telemetry::{OrdersView, Snapshot, StreamView, log::LogView},
};

pub use load_generator::{AggregateLine, LoadReport, LoadTest, RequestLabel, Tally};

/// A command. With `--read-only` the engine rejects every command that changes data.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create an ordinary voucher, without stock or window.
    CreateVoucher(VoucherDetails),
    /// Buy an ordinary voucher for a user.
    BuyVoucher(VoucherId, UserId),
    /// Create a sale that starts at its begin time, or immediately.
    CreateSale(NewSale),
    /// Create a sale whose voucher has more than a title; that of the sale is the same.
    CreateSaleVoucher(Box<VoucherDetails>, NewSale),
    /// Open a planned sale now.
    StartSale(VoucherId),
    /// Pause a sale.
    PauseSale(VoucherId),
    /// Resume a paused sale.
    ResumeSale(VoucherId),
    /// End a sale permanently.
    EndSale(VoucherId),
    /// Add pieces to a sale, or remove unsold ones.
    Restock {
        /// The sale.
        voucher: VoucherId,
        /// Number of pieces; negative to remove.
        by: i64,
    },
    /// Run simulated buyers against a sale; the reply comes once every admitted order has settled.
    LoadTest(LoadTest),
    /// Stop the load tests of this process on a sale; orders that were admitted still settle.
    StopLoadTest(VoucherId),
    /// Repair the findings of the audit by a plan that the operator was shown.
    Repair(Vec<SaleAudit>),
    /// Plan the recovery of pending entries. Changes nothing.
    Plan(Scope),
    /// Count dead letters by state, as a preview. Changes nothing.
    CountLetters(LetterScope),
    /// Preview a command on the consumer group. Changes nothing.
    Preview(GroupAction),
    /// Trace an order through the system. Changes nothing.
    Trace(OrderId),
    /// Stop the recovery of this process after the current step.
    Cancel,
    /// Execute a recovery plan that the operator was shown.
    Apply(Plan, Pace),
    /// Replay dead letters whose buyer still waits.
    ReplayLetters {
        /// The letters.
        scope: LetterScope,
        /// Includes letters that have reached the replay limit.
        force: bool,
    },
    /// Remove dead letters.
    DiscardLetters {
        /// The letters.
        scope: LetterScope,
        /// Return stock and place of waiting buyers; without it, letters with a waiting buyer stay.
        compensate: bool,
    },
    /// Move the group back by a plan that the operator was shown.
    Rewind(Vec<Rewind>),
    /// Claim pending entries for another consumer by a plan.
    Claim(ClaimPlan),
    /// Remove a consumer without pending entries, if it is unchanged since it was shown.
    RemoveConsumer(RemoveReport),
    /// Pay an order.
    Pay(OrderId),
    /// Force-release a lock of this holder.
    ReleaseLock {
        /// The lock.
        name: String,
        /// Identity of the holder; a lock of another holder is kept.
        owner: String,
    },
    /// Run a job now, even if it is paused.
    RunJob(String),
    /// Pause or resume a job.
    SwitchJob {
        /// The job.
        job: String,
        /// `true` to pause.
        paused: bool,
    },
}

impl Command {
    /// Commands that are recorded in the audit log; the others only read, or stop another command.
    pub fn is_recorded(&self) -> bool {
        !matches!(
            self,
            Self::Plan(_)
                | Self::CountLetters(_)
                | Self::Preview(_)
                | Self::Trace(_)
                | Self::Cancel
        )
    }

    /// Recovery commands: two operators running them at once would interfere with each other.
    pub fn is_recovery(&self) -> bool {
        matches!(
            self,
            Self::Repair(_)
                | Self::Apply(..)
                | Self::ReplayLetters { .. }
                | Self::DiscardLetters { .. }
                | Self::Rewind(_)
                | Self::Claim(_)
                | Self::RemoveConsumer(_)
        )
    }
}

/// Pending entries that a plan covers.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// These entries, by ID.
    Entries(Vec<EntryId>),
    /// All entries that are pending now and match the filter.
    All(Filter),
}

/// Rate and limit of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Maximum number of entries per second; `None` for no limit.
    pub rate: Option<u64>,
    /// Maximum number of entries; the rest is left pending.
    pub most: Option<u64>,
}

/// An entry that changed after it was shown, and was therefore skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The entry.
    pub entry: EntryId,
    /// State when it was shown.
    pub planned: Verdict,
    /// Current state.
    pub now: Verdict,
}

/// Outcome of a recovery: the result for each entry of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Entries in the plan.
    pub planned: u64,
    /// Entries processed.
    pub seen: u64,
    /// Orders written by this recovery.
    pub persisted: u64,
    /// Acknowledged because their order was already in SQL.
    pub acknowledged: u64,
    /// Became dead letters.
    pub dead: u64,
    /// Left to a live consumer.
    pub left: u64,
    /// Orders found only in the buyers hash, and enqueued again.
    pub rebuilt: u64,
    /// Body gone: removed from the pending list after every lost order was enqueued again.
    pub without_body: u64,
    /// Body gone: left pending, because Redis lacks some sales and the lost orders are unknown.
    pub lost: u64,
    /// No longer pending: acknowledged, deleted or claimed since, or processed by this plan before.
    pub gone: u64,
    /// Changed after they were shown; skipped.
    pub changed: u64,
    /// The first of those.
    pub changes: Vec<Changed>,
    /// It ended before the last entry, because it was stopped or limited; the same plan can be resumed.
    pub cut_short: bool,
}

/// Reply to a successful command, recorded in the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The ordinary voucher exists.
    VoucherCreated(VoucherId),
    /// Bought: the order is in SQL, unpaid.
    VoucherBought(OrderId),
    /// The sale exists, in SQL and in Redis.
    SaleCreated(VoucherId),
    /// The sale is now in this state.
    SaleChanged {
        /// The sale.
        voucher: VoucherId,
        /// Its new state.
        state: SaleState,
    },
    /// New total stock of a sale.
    Restocked {
        /// The sale.
        voucher: VoucherId,
        /// Total stock, sold or not.
        initial: u64,
    },
    /// The load test has finished, and its orders have settled.
    LoadTestDone(LoadReport),
    /// Load tests on a sale were stopped.
    LoadTestStopped {
        /// The sale.
        voucher: VoucherId,
        /// Number of load tests that were running.
        tests: u64,
    },
    /// The repair plan was executed.
    Repaired(Repaired),
    /// The recovery plan, to be reviewed and executed.
    #[serde(skip)]
    Planned(Plan),
    /// Whether a recovery was running.
    #[serde(skip)]
    Cancelled(bool),
    /// The recovery has finished.
    Replayed(ReplayReport),
    /// Preview of a command on dead letters.
    #[serde(skip)]
    LettersCounted(LettersCounted),
    /// Preview of a command on the group.
    #[serde(skip)]
    Previewed(Preview),
    /// Trace of an order.
    #[serde(skip)]
    Traced(Box<Trace>),
    /// Dead letters were replayed.
    LettersReplayed(LettersReplayed),
    /// Dead letters were discarded.
    LettersDiscarded(LettersDiscarded),
    /// The groups were moved back.
    Rewound(RewindReport),
    /// The entries were claimed for another consumer.
    Claimed(ClaimReport),
    /// The consumer was removed.
    ConsumerRemoved(RemoveReport),
    /// Result of a payment.
    Paid {
        /// The order.
        order: OrderId,
        /// The result.
        payment: Payment,
    },
    /// The lock was force-released.
    LockReleased {
        /// The lock.
        name: String,
        /// Its holder.
        owner: String,
    },
    /// The job ran.
    #[serde(skip)]
    JobRun {
        /// The job.
        job: String,
        /// Its result.
        end: RunEnd,
    },
    /// The job was paused or resumed.
    JobSwitched {
        /// The job.
        job: String,
        /// `true` if it is paused.
        paused: bool,
        /// Whether the command changed its state.
        changed: bool,
        /// The last due time that the pause has skipped, by the clock of Redis; `None` if there was none.
        skipped: Option<Millis>,
    },
}

/// A command sent to the engine, with the channel for its reply.
#[derive(Debug)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// The reason that the operator gave, for the audit log.
    pub reason: Option<String>,
    /// Channel for the reply.
    pub reply: oneshot::Sender<Result<Reply>>,
}

/// What the screen shows, so that the collector reads only that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// First entry of the pending page to read and classify; `None` if it is not shown.
    pub pending: Option<EntryId>,
    /// First dead letter of the page to read; `None` if it is not shown.
    pub letters_from: Option<EntryId>,
    /// Part of the order stream to read; `None` if it is not shown.
    pub stream: Option<StreamView>,
    /// Sale whose orders are to be counted; `None` if none is shown.
    pub sale: Option<VoucherId>,
    /// Orders in SQL to read; `None` if they are not shown.
    pub orders: Option<OrdersView>,
    /// Page of the log to read; `None` if it is not shown.
    pub log: Option<LogView>,
    /// The audit is shown, and is repeated.
    pub ledger: bool,
}

/// Connection of a console to an engine: snapshots in, commands out.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The latest snapshot.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Channel for commands; bounded.
    pub commands: mpsc::Sender<Request>,
    /// What the screen shows.
    pub focus: watch::Sender<Focus>,
}

impl Remote {
    /// Sends a command without blocking, with a reason for the audit log; the reply arrives through the receiver.
    ///
    /// # Errors
    /// The queue is full, or the engine has stopped.
    pub fn send(
        &self,
        command: Command,
        reason: Option<String>,
    ) -> Result<oneshot::Receiver<Result<Reply>>> {
        let (reply, answer) = oneshot::channel();
        let request = Request { command, reason, reply };
        self.commands.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => EngineError::Failed(reason!("error-busy")),
            mpsc::error::TrySendError::Closed(_) => EngineError::Failed(reason!("error-stopped")),
        })?;
        Ok(answer)
    }
}
