//! Words of what is wrong with what was typed or stands in the stream.

use seckill_engine::group::rewind::ToFault;
use seckill_model::{
    OrderFault, Said,
    dead_letter::{MAX_REASON, shown},
    message::text,
};

/// Why no order comes of an entry. What an older version wrote is told as it stands.
pub(crate) fn order_fault(said: &Said) -> String {
    let fault = said.data::<OrderFault>();
    fault.map_or_else(|| said.to_string(), |fault| shown(&fault.to_string(), MAX_REASON))
}

/// What is wrong with a place in the stream that was asked for.
pub(crate) fn to_fault(fault: &ToFault) -> String {
    let ToFault(text) = fault;
    text!("faults-value-2", fault, text)
}
