//! Texts of errors in user input and in stream entries.

use seckill_engine::group::rewind::ToFault;
use seckill_model::{
    Message, OrderFault,
    dead_letter::{MAX_REASON, shown},
    message::text,
};

/// Why an entry is not a valid order. Texts of older versions are shown unchanged.
pub(crate) fn order_fault(said: &Message) -> String {
    let fault = said.data::<OrderFault>();
    fault.map_or_else(|| said.to_string(), |fault| shown(&fault.to_string(), MAX_REASON))
}

/// Why a stream position is invalid.
pub(crate) fn to_fault(fault: &ToFault) -> String {
    let ToFault(text) = fault;
    text!("faults-value-2", fault, text)
}
