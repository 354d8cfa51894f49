//! Why an act was not done, as data: a person reads it in his own language, and the log keeps it.
//!
//! The sentence in English is the error's own. What only a server or the system can tell stays in its words.

use std::fmt;

use seckill_model::{
    SaleFault, VoucherId, ledger::SaleFinding, locale::in_english, message::text,
    order_id::OrderIdFault,
};
use serde::{Deserialize, Serialize};

use super::{
    EngineError, error::PartDone, group::GroupFault, jobs::RunFault, load_generator::RushFault,
    locks::LockError, plan::PlanFault,
};

pub use seckill_redis::{BrokerError, Reason as RedisReason};
pub use seckill_store::{Reason as SqlReason, StoreError};

pub use super::partitions::{PartitionsFault, UnderWay};

/// One sentence for a person, with the next step, and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    text: String,
    /// What it is made of.
    pub why: Why,
}

/// What a refusal is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The sentence is all that there is: words of a server or of the system.
    Words,
    /// The engine has too many acts to do.
    Crowded,
    /// The engine has stopped.
    Stopped,
    /// The engine stops.
    Stopping,
    /// Acts are refused.
    ReadOnly,
    /// Redis did not do it.
    Redis(BrokerError),
    /// The database did not do it.
    Sql(StoreError),
    /// The number of partitions does not do.
    Partitions(PartitionsFault),
    /// The clock says so many seconds.
    Clock(i64),
    /// The day's sequence is used up.
    Sequence,
    /// A sale that can't be.
    Sale(SaleFault),
    /// The lock is held by somebody else.
    LockBusy(String),
    /// The lock was lost.
    LockLost(String),
    /// Nobody holds the lock.
    LockNotHeld(String),
    /// The lock has another holder.
    LockChanged(String),
    /// A plan of another deployment.
    ForeignPlan,
    /// A plan that was changed since it was made.
    EditedPlan,
    /// A plan that can't be kept, in the words of the system.
    PlanIo(String),
    /// The group is not as the act needs it.
    Group(GroupFault),
    /// Somebody is at work.
    OtherOperator(String),
    /// No such job.
    NoJob(String),
    /// The books are off.
    Unbalanced(SaleFinding),
    /// A reason of so many characters and bytes.
    LongReason(usize, usize),
    /// An act in steps that failed after some of them.
    BrokeOff(Box<Refusal>, PartDone),
    /// A rush that can't be.
    Rush(RushFault),
    /// A paused sale is not started.
    IsPaused(VoucherId),
    /// It has started already.
    HasStarted(VoucherId),
    /// A run of a job that does not begin.
    Run(RunFault),
    /// Redis belongs to another database.
    ForeignRedis(String),
    /// Two nodes of one name.
    NameTaken(String),
    /// So many pieces can't be taken out, for so many are unsold.
    Short(VoucherId, u64, u64),
    /// Redis does not hold the sale.
    NotHeld(VoucherId),
    /// Redis holds another sale of that number.
    OtherSale(VoucherId),
    /// A key is being reconciled.
    Reconciling(String),
    /// More buyers than pieces.
    Oversold(VoucherId),
    /// The sale is in SQL, and Redis was not told.
    NotLoaded(VoucherId, Box<Refusal>),
}

impl Refusal {
    /// The engine has many acts to do still.
    pub fn crowded() -> Self {
        Self::new(in_english(|| text!("error-busy")), Why::Crowded)
    }

    /// The engine is not there any more.
    pub fn stopped() -> Self {
        Self::new(in_english(|| text!("error-stopped")), Why::Stopped)
    }

    /// A sentence, and what it is made of.
    pub fn new(text: impl Into<String>, why: Why) -> Self {
        Self { text: text.into(), why }
    }

    /// A sentence that is all there is.
    pub fn words(text: impl Into<String>) -> Self {
        Self::new(text, Why::Words)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<&EngineError> for Refusal {
    fn from(error: &EngineError) -> Self {
        Self { text: in_english(|| error.to_string()), why: why(error) }
    }
}

fn why(error: &EngineError) -> Why {
    match error {
        EngineError::Broker(error) => Why::Redis(error.clone()),
        EngineError::Store(error) => Why::Sql(error.clone()),
        EngineError::Id(OrderIdFault::Clock(seconds)) => Why::Clock(*seconds),
        EngineError::Id(OrderIdFault::Sequence) => Why::Sequence,
        EngineError::Sale(fault) => Why::Sale(fault.clone()),
        EngineError::ReadOnly => Why::ReadOnly,
        EngineError::Stopping => Why::Stopping,
        EngineError::Lock(error) => lock(error),
        EngineError::Recovery(PlanFault::Foreign) => Why::ForeignPlan,
        EngineError::Recovery(PlanFault::Edited) => Why::EditedPlan,
        EngineError::Recovery(PlanFault::Io(error)) => Why::PlanIo(error.clone()),
        EngineError::Group(fault) => Why::Group(fault.clone()),
        EngineError::OtherOperator(who) => Why::OtherOperator(who.clone()),
        EngineError::NoJob(name) => Why::NoJob(name.clone()),
        EngineError::Unbalanced(finding) => Why::Unbalanced(finding.clone()),
        EngineError::LongReason { characters, bytes } => Why::LongReason(*characters, *bytes),
        EngineError::BrokeOff { why, done } => {
            Why::BrokeOff(Box::new(why.as_ref().into()), done.clone())
        }
        EngineError::Rush(fault) => Why::Rush(fault.clone()),
        EngineError::IsPaused(voucher) => Why::IsPaused(*voucher),
        EngineError::HasStarted(voucher) => Why::HasStarted(*voucher),
        EngineError::Run(fault) => Why::Run(fault.clone()),
        EngineError::Foreign(place) => Why::ForeignRedis(place.clone()),
        EngineError::Partitions(fault) => Why::Partitions(fault.clone()),
        EngineError::NameTaken(name) => Why::NameTaken(name.clone()),
        EngineError::Short { voucher, by, left } => Why::Short(*voucher, *by, *left),
        EngineError::NotHeld(voucher) => Why::NotHeld(*voucher),
        EngineError::OtherSale(voucher) => Why::OtherSale(*voucher),
        EngineError::Reconciling(key) => Why::Reconciling(key.clone()),
        EngineError::Oversold(voucher) => Why::Oversold(*voucher),
        EngineError::NotLoaded { voucher, why } => {
            let why = Refusal::new(in_english(|| why.to_string()), Why::Redis(why.clone()));
            Why::NotLoaded(*voucher, Box::new(why))
        }
        EngineError::Id(OrderIdFault::Text(_))
        | EngineError::Jobs(_)
        | EngineError::Recovery(_)
        | EngineError::BooksOff(_)
        | EngineError::Plan(_) => Why::Words,
    }
}

fn lock(error: &LockError) -> Why {
    match error {
        LockError::Busy(name) => Why::LockBusy(name.to_string()),
        LockError::Lost(name) => Why::LockLost(name.to_string()),
        LockError::NotHeld(name) => Why::LockNotHeld(name.to_string()),
        LockError::Changed(name) => Why::LockChanged(name.to_string()),
        LockError::Broker(error) => Why::Redis(error.clone()),
        LockError::NameLength(_)
        | LockError::NameControl(_)
        | LockError::NoServer
        | LockError::ServerTwice
        | LockError::Lease(_)
        | LockError::TooSlow { .. }
        | LockError::Member { .. } => Why::Words,
    }
}
