//! Why the engine could not do something.

use std::fmt;

use seckill_model::{SaleFault, VoucherId, counted, ledger::SaleFinding, order_id::OrderIdFault};
use seckill_redis::BrokerError;
use seckill_store::StoreError;
use serde::{Deserialize, Serialize};

use super::{
    group::GroupFault,
    jobs::{JobsFault, RunFault},
    load_generator::RushFault,
    locks::LockError,
    partitions::PartitionsFault,
    plan::PlanFault,
};

/// What an act in steps had done when it broke off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartDone {
    /// Pending entries that were seen to.
    Applied {
        /// So many.
        done: u64,
        /// Of so many.
        planned: u64,
    },
    /// Dead letters that were put back.
    Replayed(u64),
    /// Dead letters that were removed.
    Discarded(u64),
    /// Entries that were given.
    Claimed(u64),
    /// Groups that were moved back or made, in these partitions.
    Rewound(Vec<u16>),
    /// A consumer that was removed in these partitions.
    Removed(Vec<u16>),
    /// Sales that were put right.
    Repaired {
        /// These ones.
        sales: Vec<VoucherId>,
        /// Of so many.
        planned: u64,
    },
}

impl PartDone {
    fn is_none(&self) -> bool {
        match self {
            Self::Applied { done, .. }
            | Self::Replayed(done)
            | Self::Discarded(done)
            | Self::Claimed(done) => *done == 0,
            Self::Rewound(partitions) | Self::Removed(partitions) => partitions.is_empty(),
            Self::Repaired { sales, .. } => sales.is_empty(),
        }
    }
}

impl fmt::Display for PartDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = |numbers: &[u16]| {
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Applied { done, planned } => write!(
                f,
                "{done} of {} seen to before, and the same plan goes on from there",
                counted(*planned, "entry", "entries")
            ),
            Self::Replayed(done) => {
                let letters = counted(*done, "letter", "letters");
                write!(f, "{letters} put back before; ask again for the rest")
            }
            Self::Discarded(done) => {
                let letters = counted(*done, "letter", "letters");
                write!(f, "{letters} removed before; ask again for the rest")
            }
            Self::Claimed(done) => {
                let entries = counted(*done, "entry", "entries");
                write!(f, "{entries} given before; ask again for the rest")
            }
            Self::Rewound(partitions) => write!(
                f,
                "the groups of partition {} were moved before; ask again for the rest",
                numbers(partitions)
            ),
            Self::Removed(partitions) => write!(
                f,
                "it was removed from partition {} before; ask again for the rest",
                numbers(partitions)
            ),
            Self::Repaired { sales, planned } => {
                let named: Vec<String> = sales.iter().map(|sale| format!("#{sale}")).collect();
                write!(
                    f,
                    "{} of {} put right before: {}; ask again for the rest",
                    sales.len(),
                    counted(*planned, "sale", "sales"),
                    named.join(" ")
                )
            }
        }
    }
}

/// One sentence for a person, with the next step.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Redis.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// SQL.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No id can be made.
    #[error(transparent)]
    Id(#[from] OrderIdFault),
    /// A sale that can't be.
    #[error(transparent)]
    Sale(#[from] SaleFault),
    /// Acts are refused.
    #[error("read-only: acts are refused; start without --read-only to change something")]
    ReadOnly,
    /// The engine stops.
    #[error("the engine is stopping; ask again once it runs")]
    Stopping,
    /// A lock was not had, or not kept.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Jobs that can't be scheduled.
    #[error(transparent)]
    Jobs(#[from] JobsFault),
    /// A plan of recovery that can't be made or done.
    #[error(transparent)]
    Recovery(#[from] PlanFault),
    /// The group, or a consumer of it, is not as an act needs it.
    #[error(transparent)]
    Group(#[from] GroupFault),
    /// Another operator is at it.
    #[error(
        "another operator is at work here ({0}); wait until he has finished, or take it from a dead one: seckill locks release operator"
    )]
    OtherOperator(String),
    /// No such job.
    #[error("there is no job '{0}'; 'seckill jobs list' shows them")]
    NoJob(String),
    /// The ledger found something.
    #[error("the books are off: {0}")]
    Unbalanced(SaleFinding),
    /// A bench found that its own books are off.
    #[error("the books are off: {0}")]
    BooksOff(String),
    /// A rush that can't be.
    #[error(transparent)]
    Rush(#[from] RushFault),
    /// A run of a job that does not begin.
    #[error(transparent)]
    Run(#[from] RunFault),
    /// A paused sale is not started.
    #[error("sale #{0} is paused; resume it instead")]
    IsPaused(VoucherId),
    /// A sale that is open already.
    #[error("sale #{0} has started already")]
    HasStarted(VoucherId),
    /// A reason that no log has room for.
    #[error(
        "the reason has {characters} characters in {bytes} bytes, and the audit log takes 1,000 in 16,000; say it in a shorter way"
    )]
    LongReason {
        /// As a person counts them.
        characters: usize,
        /// As they are kept.
        bytes: usize,
    },
    /// An act in steps that failed after some of them.
    #[error("{why}; {done}")]
    BrokeOff {
        /// What failed.
        why: Box<EngineError>,
        /// What was done by then, and how to go on.
        done: PartDone,
    },
    /// A number that makes no sense for an act.
    #[error("{0}")]
    Plan(String),
    /// A Redis and a database of different deployments.
    #[error(
        "the keys in Redis at {0} belong to another database; give the --database that goes with them, or an empty Redis"
    )]
    Foreign(String),
    /// A number of partitions that does not do.
    #[error(transparent)]
    Partitions(#[from] PartitionsFault),
    /// Two nodes of one name.
    #[error(
        "a node called '{0}' is alive already; give this one another name with 'node' in the settings"
    )]
    NameTaken(String),
    /// More pieces are to be taken out of a sale than nobody was promised.
    #[error(
        "{by} pieces can't be taken from sale #{voucher}: {left} are unsold; take no more than that, or end the sale"
    )]
    Short {
        /// The voucher.
        voucher: VoucherId,
        /// How many were to be taken.
        by: u64,
        /// How many are unsold, by Redis.
        left: u64,
    },
    /// Redis holds another sale of that number, with another time of creation.
    #[error(
        "Redis and SQL hold different sales under number {0}; use the --database that belongs to this Redis, or run 'seckill audit --repair' to replace the sale in Redis"
    )]
    OtherSale(VoucherId),
    /// There are more buyers than pieces.
    #[error(
        "sale #{0} has more buyers in Redis than pieces and stays closed; 'seckill audit' shows which orders are too many"
    )]
    Oversold(VoucherId),
    /// Keys are being reconciled by another process, or are lost again and again.
    #[error("'{0}' is being reconciled with SQL and is not ready yet; ask again")]
    Reconciling(String),
    /// Redis has nothing of a sale.
    #[error(
        "Redis does not hold sale #{0} completely, so the unsold stock is unknown; a running node reconciles it within a second: seckill work"
    )]
    NotHeld(VoucherId),
    /// A change of a sale is committed in SQL, and Redis has not confirmed it.
    #[error(
        "the change of sale #{voucher} is committed in SQL, but Redis has not confirmed it ({why}); a running node delivers it as soon as Redis takes it, until then Redis goes on with the old version"
    )]
    NotLoaded {
        /// The voucher.
        voucher: VoucherId,
        /// Why Redis did not.
        why: BrokerError,
    },
}

impl EngineError {
    /// The same, with what was `done` by then where that is anything.
    pub(super) fn after(self, done: PartDone) -> Self {
        if done.is_none() { self } else { Self::BrokeOff { why: Box::new(self), done } }
    }

    /// Whether a server is out of reach, which the command line tells by exit code 3.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Broker(error) | Self::NotLoaded { why: error, .. } => {
                error.is_away()
                    || matches!(
                        error,
                        BrokerError::Login { .. }
                            | BrokerError::TooOld { .. }
                            | BrokerError::Certificate { .. }
                    )
            }
            Self::Store(error) => error.is_away(),
            Self::Lock(error) => error.is_away(),
            Self::BrokeOff { why, .. } => why.is_away(),
            _ => false,
        }
    }
}
