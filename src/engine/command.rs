//! What an operator may ask of the engine, and what comes back.
//!
//! The console and the command line both speak through here; neither touches Redis or SQL.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    group::{ClaimPlan, ClaimReport, RemoveReport, Rewind, RewindReport},
    repair::{Repaired, SaleRepair},
};
use crate::{
    model::{EntryId, NewSale, OrderId, Payment, RunEnd, SaleState, VoucherId},
    telemetry::{Snapshot, snapshot::Latency},
};

/// One act that changes something. `--read-only` refuses every one of them, in the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create an ordinary voucher: a title, without stock or window.
    CreateVoucher(String),
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
    /// Put the books right, as this plan says, which the operator was shown.
    Repair(Vec<SaleRepair>),
    /// Judge pending entries and do what follows for each.
    Replay(ReplayScope),
    /// Move the group back, as this plan says, which the operator was shown.
    Rewind(Vec<Rewind>),
    /// Give pending entries to another consumer, as this plan says.
    Claim(ClaimPlan),
    /// Remove a consumer that holds nothing, from that partition's group or from all.
    RemoveConsumer {
        /// Its name.
        name: String,
        /// Only there.
        partition: Option<u16>,
    },
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
    /// Acts of recovery: two operators who do such at once would undo each other's.
    pub fn is_recovery(&self) -> bool {
        matches!(
            self,
            Self::Repair(_)
                | Self::Replay(_)
                | Self::Rewind(_)
                | Self::Claim(_)
                | Self::RemoveConsumer { .. }
        )
    }
}

/// Which pending entries a replay is about.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayScope {
    /// These ones, by identity.
    Entries(Vec<EntryId>),
    /// Every one up to this id: what was counted when the operator was asked.
    UpTo(EntryId),
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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

/// How a replay went: what became of each entry that it was about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
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
    /// Body gone: acknowledged after their order was rebuilt from the buyers hash.
    pub rebuilt: u64,
    /// Body gone and no buyer known: reported, left pending.
    pub lost: u64,
    /// Not pending any more when their turn came.
    pub gone: u64,
    /// The engine was stopped before the last entry: what is still pending was not looked at.
    pub cut_short: bool,
}

/// What an act brought about.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The ordinary voucher exists.
    VoucherCreated(VoucherId),
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
    /// The books were put right as far as the plan went.
    Repaired(Repaired),
    /// The replay is over.
    Replayed(ReplayReport),
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

/// Why an act was not done: one sentence for a person, with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// A command on its way to the engine, with the place for its answer.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Reply, Refusal>>,
}

/// What the screen looks at, so that the collector reads just that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// First entry of the pending page to read.
    pub pending_from: EntryId,
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
    /// [`Refusal`] when the engine is busy with too many commands or has stopped.
    pub fn send(
        &self,
        command: Command,
    ) -> Result<oneshot::Receiver<Result<Reply, Refusal>>, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Request { command, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Refusal("the engine has many acts to do still; ask again in a moment".to_owned())
            }
            mpsc::error::TrySendError::Closed(_) => {
                Refusal("the engine has stopped; quit and start again".to_owned())
            }
        })?;
        Ok(answer)
    }
}
