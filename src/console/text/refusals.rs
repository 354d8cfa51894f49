//! Words of why an act was not done. What only a server can tell stays in its own words.

use seckill_engine::{
    EngineError,
    plan::PlanFault,
    refusal::{Refusal, Why},
    telemetry::read_error::Unread,
};
use seckill_model::{
    Said,
    locale::{Lang, language},
    message::text,
    order_id::OrderIdFault,
};

/// Why an act was not done.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    if language() == Lang::En {
        return refusal.to_string();
    }
    match &refusal.why {
        Why::Words => refusal.to_string(),
        Why::Crowded => text!("error-busy"),
        Why::Stopped => text!("error-stopped"),
        Why::Stopping => EngineError::Stopping.to_string(),
        Why::ReadOnly => EngineError::ReadOnly.to_string(),
        Why::Redis(error) => error.to_string(),
        Why::Sql(error) => error.to_string(),
        Why::Partitions(fault) => fault.to_string(),
        Why::Clock(seconds) => OrderIdFault::Clock(*seconds).to_string(),
        Why::Sequence => OrderIdFault::Sequence.to_string(),
        Why::Sale(fault) => fault.to_string(),
        Why::LockBusy(name) => text!("lock-busy", name),
        Why::LockLost(name) => text!("lock-lost", name),
        Why::LockNotHeld(name) => text!("lock-not-held", name),
        Why::LockChanged(name) => text!("lock-changed", name),
        Why::ForeignPlan => PlanFault::Foreign.to_string(),
        Why::EditedPlan => PlanFault::Edited.to_string(),
        Why::PlanIo(detail) => PlanFault::Io(detail.clone()).to_string(),
        Why::Group(fault) => fault.to_string(),
        Why::OtherOperator(who) => EngineError::OtherOperator(who.clone()).to_string(),
        Why::NoJob(name) => EngineError::NoJob(name.clone()).to_string(),
        Why::Unbalanced(found) => text!("error-audit-failed", finding = found),
        Why::LongReason(characters, bytes) => {
            let (characters, bytes) = (*characters, *bytes);
            EngineError::LongReason { characters, bytes }.to_string()
        }
        Why::BrokeOff(why, done) => text!("error-broke-off", why = self::refusal(why), done),
        Why::Rush(fault) => fault.to_string(),
        Why::IsPaused(sale) => EngineError::IsPaused(*sale).to_string(),
        Why::HasStarted(sale) => EngineError::HasStarted(*sale).to_string(),
        Why::Run(fault) => fault.to_string(),
        Why::ForeignRedis(place) => EngineError::Foreign(place.clone()).to_string(),
        Why::NameTaken(name) => EngineError::NameTaken(name.clone()).to_string(),
        Why::Short(voucher, by, left) => {
            EngineError::Short { voucher: *voucher, by: *by, left: *left }.to_string()
        }
        Why::NotHeld(sale) => EngineError::NotHeld(*sale).to_string(),
        Why::OtherSale(sale) => EngineError::OtherSale(*sale).to_string(),
        Why::Reconciling(key) => EngineError::Reconciling(key.clone()).to_string(),
        Why::Oversold(sale) => EngineError::Oversold(*sale).to_string(),
        Why::NotLoaded(sale, why) => text!("error-not-loaded", sale, why = self::refusal(why)),
    }
}

/// Why a server could not be read.
pub(crate) fn unread(said: &Said) -> String {
    said.localized::<Unread>()
}

/// Why what is played beside the console broke off: what the engine told, or words.
pub fn broke_off(said: &Said) -> String {
    said.data().map_or_else(|| said.to_string(), |told| refusal(&told))
}
