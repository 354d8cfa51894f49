//! What an operator may ask of the engine, and what comes back.
//!
//! The console and the command line both speak through here; neither touches Redis or SQL.

use std::sync::Arc;

use seckill_model::{
    EntryId, LetterCounts, NewSale, OrderId, Payment, RunEnd, SaleState, UserId, Verdict,
    VoucherDetails, VoucherId, filter::Filter,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    EngineError,
    group::{ClaimPlan, ClaimReport, GroupAct, Preview, RemoveReport, Rewind, RewindReport},
    plan::Plan,
    repair::{Repaired, SaleRepair},
    trace::Trace,
};
use crate::telemetry::{OrdersView, Snapshot, StreamView, log::LogLook, snapshot::Latency};

/// One act that changes something. `--read-only` refuses every one of them, in the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create an ordinary voucher, without stock or window.
    CreateVoucher(VoucherDetails),
    /// Buy an ordinary voucher for a user.
    BuyVoucher(VoucherId, UserId),
    /// Create a sale; it runs from its begin, or at once.
    CreateSale(NewSale),
    /// Open a planned sale now.
    StartSale(VoucherId),
    /// Hold a sale.
    PauseSale(VoucherId),
    /// Let a paused sale go on.
    ResumeSale(VoucherId),
    /// End a sale for good.
    EndSale(VoucherId),
    /// Put more pieces on sale, or take unsold ones out.
    Restock {
        /// Which sale.
        voucher: VoucherId,
        /// How many pieces more; below 0 fewer.
        by: i64,
    },
    /// Let simulated buyers at a sale; answered once every admitted order has settled.
    Rush(RushPlan),
    /// Let no more simulated buyers of this process at a sale; those who were admitted get their orders.
    StopRush(VoucherId),
    /// Put the books right, as this plan says, which the operator was shown.
    Repair(Vec<SaleRepair>),
    /// Plan what would be done for pending entries. No act: nothing is changed.
    Plan(Scope),
    /// Count dead letters by what is true of them, before an act is asked about. No act: nothing is changed.
    CountLetters(LetterScope),
    /// Say what an act on the group would do, before it is asked about. No act: nothing is changed.
    Preview(GroupAct),
    /// Follow an order through the places that it passes. No act: nothing is changed.
    Trace(OrderId),
    /// Break the act of recovery of this process off after the step in hand.
    Cancel,
    /// Do what this plan says, which the operator was shown.
    Apply(Plan, Pace),
    /// Put dead letters back into the order stream, those for which a buyer waits.
    ReplayLetters {
        /// Which ones.
        scope: LetterScope,
        /// Also those that were replayed as often as the settings allow.
        force: bool,
    },
    /// Remove dead letters.
    DiscardLetters {
        /// Which ones.
        scope: LetterScope,
        /// Give stock and place of waiting buyers back; without it, letters with a waiting buyer stay.
        compensate: bool,
    },
    /// Move the group back, as this plan says, which the operator was shown.
    Rewind(Vec<Rewind>),
    /// Give pending entries to another consumer, as this plan says.
    Claim(ClaimPlan),
    /// Remove a consumer that holds nothing, where the operator was shown that it is.
    RemoveConsumer(RemoveReport),
    /// Pay an order.
    Pay(OrderId),
    /// Take a lock from this very holder.
    ReleaseLock {
        /// Which lock.
        name: String,
        /// The holder's identity: another one keeps it.
        owner: String,
    },
    /// Run a job now, also while it is paused.
    RunJob(String),
    /// Pause a job, or let it go on.
    SwitchJob {
        /// Which job.
        job: String,
        /// Pause it.
        paused: bool,
    },
}

impl Command {
    /// Acts that the audit log tells of; the others only look, or break another one off.
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

    /// Acts of recovery: two operators who do such at once would undo each other's.
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

/// Which pending entries a plan is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// These ones, by identity.
    Entries(Vec<EntryId>),
    /// Every one that is pending now and that the filter lets through.
    All(Filter),
}

/// How fast a plan is done, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Entries a second at most; `None` for as fast as it goes.
    pub rate: Option<u64>,
    /// Entries at most; the rest is for another time.
    pub most: Option<u64>,
}

/// Which dead letters an act is about.
#[derive(Clone, Debug, PartialEq)]
pub enum LetterScope {
    /// These ones, by identity.
    Letters(Vec<EntryId>),
    /// Those that pass, over the fields of [`super::dead_letters::LETTER_FIELDS`].
    Matching {
        /// What they have to say of themselves.
        filter: Filter,
        /// The last one; of an act, the last that was counted before the operator was asked.
        last: EntryId,
    },
}

/// Which dead letters an act would find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LettersCounted {
    /// Those that are there, by what is true of them.
    pub counts: LetterCounts,
    /// Named ones that are not there any more.
    pub gone: u64,
    /// Of those that match, the last one that was looked at.
    pub last: EntryId,
}

impl LetterScope {
    /// The same letters as they were counted: what came after the last one was asked about by nobody.
    #[must_use]
    pub fn as_counted(self, found: &LettersCounted) -> Self {
        match self {
            Self::Letters(ids) => Self::Letters(ids),
            Self::Matching { filter, .. } => Self::Matching { filter, last: found.last },
        }
    }
}

/// How a replay of dead letters went; the keys are a contract of `dead replay --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersReplayed {
    /// Letters that the act was about.
    pub seen: u64,
    /// Put back into the order stream.
    pub replayed: u64,
    /// Left where they are, by what is true of them.
    pub refused: LetterCounts,
    /// Not there any more.
    pub gone: u64,
    /// The act was stopped before the last letter.
    pub cut_short: bool,
}

/// How a discard of dead letters went; the keys are a contract of `dead discard --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersDiscarded {
    /// Letters that the act was about.
    pub seen: u64,
    /// Removed.
    pub discarded: u64,
    /// Orders that stand in SQL as cancelled by this act.
    pub compensated: u64,
    /// Pieces and places given back in Redis by this act.
    pub given_back: u64,
    /// Left where they are, by what is true of them.
    pub refused: LetterCounts,
    /// Not there any more.
    pub gone: u64,
    /// The act was stopped before the last letter.
    pub cut_short: bool,
}

/// Simulated buyers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RushPlan {
    /// What they buy.
    pub voucher: VoucherId,
    /// How many different buyers.
    pub users: u64,
    /// Share of the buyers that ask twice, 0 to 1.
    pub repeat: f64,
    /// Most requests under way at once.
    pub concurrency: usize,
    /// Requests a second; `None` is as fast as it goes.
    pub rate: Option<f64>,
    /// Who asks twice and in which order they come follows from this.
    pub seed: u64,
    /// Wait until every admitted order has settled.
    pub settle: bool,
    /// Share of the admitted buyers who pay once their order has settled, 0 to 1.
    pub pay: f64,
}

impl RushPlan {
    /// A rush as fast as it goes, one buyer in ten asking twice.
    pub fn new(voucher: VoucherId, users: u64) -> Self {
        Self {
            voucher,
            users,
            repeat: 0.1,
            concurrency: 1_024,
            rate: None,
            seed: 1,
            settle: true,
            pay: 0.0,
        }
    }
}

/// How a rush went; the keys are a contract of `rush --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RushReport {
    /// Requests sent.
    pub attempts: u64,
    /// Took a piece.
    pub admitted: u64,
    /// Found nothing left.
    pub sold_out: u64,
    /// Held an order already.
    pub duplicate: u64,
    /// Too early, too late, paused, not loaded, or the queue was full.
    pub rejected: u64,
    /// Requests that got no answer.
    pub errors: u64,
    /// Requests answered a second.
    pub per_second: f64,
    /// From asking to the answer, in microseconds.
    pub latency_us: Latency,
    /// Orders that this rush was admitted for and that stand in SQL.
    pub persisted: u64,
    /// Orders of this rush that were paid.
    pub paid: u64,
    /// Seconds from the last answer until every admitted order had settled.
    pub settled_seconds: f64,
    /// Orders that settled as dead letters.
    pub dead: u64,
    /// Why the first request without an answer got none.
    pub first_error: Option<String>,
    /// Why the first request that was rejected was.
    pub first_rejection: Option<String>,
    /// It was stopped before the last request was sent.
    pub cut_short: bool,
    /// Every admitted order has a result; `false` when the wait was given up.
    pub settled: bool,
}

/// An entry that is not as it was shown any more, so nothing was done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The entry.
    pub entry: EntryId,
    /// As it was shown.
    pub planned: Verdict,
    /// As it is.
    pub now: Verdict,
}

/// How a replay went: what became of each entry that its plan was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// Entries in the plan.
    pub planned: u64,
    /// Entries looked at.
    pub seen: u64,
    /// Orders written by this replay.
    pub persisted: u64,
    /// Acknowledged, their order was in SQL already.
    pub acknowledged: u64,
    /// Put among the dead letters.
    pub dead: u64,
    /// Left to a live holder.
    pub left: u64,
    /// Orders that were nowhere but among the buyers, and are in the stream again.
    pub rebuilt: u64,
    /// Body gone: taken off the pending list once every lost order was in the stream again.
    pub hollow: u64,
    /// Body gone: left pending, for Redis does not hold every sale, so nobody can tell what is lost.
    pub lost: u64,
    /// Not there any more when their turn came: acknowledged, deleted or taken meanwhile, or done by this plan before.
    pub gone: u64,
    /// Not as they were shown any more; left alone.
    pub changed: u64,
    /// The first of those.
    pub changes: Vec<Changed>,
    /// It ended before the last entry, for it was stopped or was asked for so many only; the same plan goes on.
    pub cut_short: bool,
}

/// What an act brought about; the log keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The ordinary voucher exists.
    VoucherCreated(VoucherId),
    /// It was bought: the order is in SQL, unpaid.
    VoucherBought(OrderId),
    /// The sale exists, in SQL and in Redis.
    SaleCreated(VoucherId),
    /// The sale is now in this state.
    SaleChanged {
        /// Which sale.
        voucher: VoucherId,
        /// Its new state.
        state: SaleState,
    },
    /// The sale has that many pieces in all.
    Restocked {
        /// Which sale.
        voucher: VoucherId,
        /// Pieces ever put on sale.
        initial: u64,
    },
    /// The rush is over and settled.
    RushDone(RushReport),
    /// So many rushes on the sale let no more buyers in.
    RushStopped {
        /// Which sale.
        voucher: VoucherId,
        /// Rushes that were under way.
        rushes: u64,
    },
    /// The books were put right as far as the plan went.
    Repaired(Repaired),
    /// The plan, to be looked at and done.
    #[serde(skip)]
    Planned(Plan),
    /// Whether there was something to break off.
    #[serde(skip)]
    Cancelled(bool),
    /// The replay is over.
    Replayed(ReplayReport),
    /// What an act on dead letters would find.
    #[serde(skip)]
    LettersCounted(LettersCounted),
    /// What an act on the group would do.
    #[serde(skip)]
    Previewed(Preview),
    /// Where an order is and was.
    #[serde(skip)]
    Traced(Box<Trace>),
    /// Dead letters were put back.
    LettersReplayed(LettersReplayed),
    /// Dead letters were removed.
    LettersDiscarded(LettersDiscarded),
    /// The groups were moved back.
    Rewound(RewindReport),
    /// The entries are with another consumer.
    Claimed(ClaimReport),
    /// The consumer was removed.
    ConsumerRemoved(RemoveReport),
    /// What came of the payment.
    Paid {
        /// Which order.
        order: OrderId,
        /// What came of it.
        payment: Payment,
    },
    /// The lock was taken from its holder.
    LockReleased {
        /// Which lock.
        name: String,
        /// Who held it.
        owner: String,
    },
    /// The job ran.
    #[serde(skip)]
    JobRun {
        /// Which job.
        job: String,
        /// How it ended.
        end: RunEnd,
    },
    /// The job was paused, or goes on.
    JobSwitched {
        /// Which job.
        job: String,
        /// It is paused now.
        paused: bool,
    },
}

/// A command on its way to the engine, with the place for its answer.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// Why, as the person said it; goes into the audit log.
    pub reason: Option<String>,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Reply, EngineError>>,
}

/// What the screen looks at, so that the collector reads just that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// First entry of the pending page to read and judge; `None` while nobody looks at it.
    pub pending: Option<EntryId>,
    /// First dead letter of the page to read; `None` while nobody looks at them.
    pub letters_from: Option<EntryId>,
    /// Part of the order stream to read; `None` while nobody looks at it.
    pub stream: Option<StreamView>,
    /// Sale whose orders are to be counted; `None` while nobody looks at one.
    pub sale: Option<VoucherId>,
    /// Orders in SQL to read; `None` while nobody looks at them.
    pub orders: Option<OrdersView>,
    /// Page of the log to read; `None` while nobody looks at it.
    pub log: Option<LogLook>,
    /// The audit is on the screen, and is made again and again.
    pub ledger: bool,
}

/// All that a console holds of an engine: pictures come, commands go.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The newest Snapshot.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Where commands go; bounded.
    pub commands: mpsc::Sender<Request>,
    /// What the screen looks at.
    pub focus: watch::Sender<Focus>,
}

impl Remote {
    /// Sends a command; the answer comes through the receiver, which never blocks the caller.
    ///
    /// # Errors
    /// [`EngineError::Busy`] or [`EngineError::Stopped`].
    pub fn send(
        &self,
        command: Command,
    ) -> Result<oneshot::Receiver<Result<Reply, EngineError>>, EngineError> {
        self.send_because(command, None)
    }

    /// The same with a reason for the audit log.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_because(
        &self,
        command: Command,
        reason: Option<String>,
    ) -> Result<oneshot::Receiver<Result<Reply, EngineError>>, EngineError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { command, reason, reply };
        self.commands.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => EngineError::Busy,
            mpsc::error::TrySendError::Closed(_) => EngineError::Stopped,
        })?;
        Ok(answer)
    }
}
