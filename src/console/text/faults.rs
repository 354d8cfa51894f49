//! Texts of errors in stream entries.

use seckill_model::{
    Message, OrderError,
    dead_letter::{MAX_REASON, shown},
};

/// Why an entry is not a valid order. Texts of older versions are shown unchanged.
pub fn order_error(message: &Message) -> String {
    let fault = message.data::<OrderError>();
    fault.map_or_else(|| message.to_string(), |fault| shown(&fault.to_string(), MAX_REASON))
}
