//! Repairs of a partition's keys. Each is one script, so nothing changes between its check and its action.

use std::time::Duration;

use seckill_model::{EntryId, Message, REPLACED, dead_letter::MAX_DATA};

use super::{Connection, Result, keys::Partition, scripts, stream::in_stream};

/// How long a replaced stream is kept.
const KEEP_FOR: Duration = Duration::from_hours(24);

/// New name of a key that is moved out of the way.
pub fn aside(key: &str) -> String {
    format!("{key}{REPLACED}")
}

/// Replaces an order stream whose last ID is still more than `ahead` in the future; `foreign` entries become dead
/// letters with this reason. Returns how many unacknowledged entries were copied to the new stream, and how many became
/// dead letters.
pub async fn renew_stream(
    conn: &mut Connection,
    of: &Partition,
    ahead: Duration,
    reason: &Message,
    foreign: &[EntryId],
) -> Result<Option<(u64, u64)>> {
    let mut call = scripts::RENEW_STREAM.prepare_invoke();
    call.key(of.orders()).key(aside(&of.orders())).key(of.dead()).key(of.gone());
    call.key(of.watermark());
    call.arg(of.group()).arg(ahead.as_millis() as u64).arg(KEEP_FOR.as_millis() as u64);
    call.arg(&**reason).arg(reason.data_json(MAX_DATA).unwrap_or_default());
    call.arg(in_stream(foreign));
    conn.invoke(&call).await
}

/// Renames a key that is not of type `expected`; returns its type, or `None` if it is correct.
pub async fn set_aside(conn: &mut Connection, key: &str, expected: &str) -> Result<Option<String>> {
    let mut call = scripts::SET_ASIDE.prepare_invoke();
    call.key(key).key(aside(key)).arg(expected);
    conn.invoke(&call).await
}
