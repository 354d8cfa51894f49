//! Texts of errors in user input and in stream entries.

use seckill_engine::commands::group::rewind::PositionError;
use seckill_model::{
    Message, OrderError,
    dead_letter::{MAX_REASON, shown},
    message::text,
};

/// Why an entry is not a valid order. Texts of older versions are shown unchanged.
pub(crate) fn order_error(message: &Message) -> String {
    let fault = message.data::<OrderError>();
    fault.map_or_else(|| message.to_string(), |fault| shown(&fault.to_string(), MAX_REASON))
}

/// Why a stream position is invalid.
pub(crate) fn to_fault(fault: &PositionError) -> String {
    let PositionError(text) = fault;
    text!("faults-with-value", fault, text)
}
