//! Putting the keys of a partition right, each act one script: nothing changes between its look and its act.
//!
//! It does not decide what is wrong with a key.

use std::time::Duration;

use seckill_model::{EntryId, REPLACED};

use super::{BrokerError, Link, keys::Partition, scripts};

/// How long a stream that was replaced is kept.
const KEPT: Duration = Duration::from_hours(24);

/// A stream that was replaced by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Entries that were not acknowledged, and are in the new stream.
    pub kept: u64,
    /// Entries that became dead letters.
    pub dead: u64,
    /// The last ID of the old stream.
    pub last: EntryId,
}

/// The name that a key gets which makes room for a new one.
pub fn aside(key: &str) -> String {
    format!("{key}{REPLACED}")
}

/// Replaces an order stream whose last ID is further than `ahead` in the future, where it still is; `foreign` become
/// dead letters, with this reason.
///
/// # Errors
/// Redis is away.
pub async fn renew_stream(
    link: &mut Link,
    of: &Partition,
    ahead: Duration,
    reason: &str,
    foreign: &[EntryId],
) -> Result<Option<Renewed>, BrokerError> {
    let mut call = scripts::RENEW_STREAM.prepare_invoke();
    call.key(of.orders()).key(aside(&of.orders())).key(of.dead()).key(of.gone());
    call.key(of.watermark());
    call.arg(of.group()).arg(ahead.as_millis() as u64).arg(KEPT.as_millis() as u64).arg(reason);
    for entry in foreign {
        call.arg(entry.in_stream());
    }
    let done: Option<(u64, u64, String)> = link.invoke(&call).await?;
    done.map(|(kept, dead, last)| Ok(Renewed { kept, dead, last: of.entry_id(last.as_bytes())? }))
        .transpose()
}

/// Renames a key that is no `expected` one; returns its type, or `None` where it is as it should be.
///
/// # Errors
/// Redis is away.
pub async fn set_aside(
    link: &mut Link,
    key: &str,
    expected: &str,
) -> Result<Option<String>, BrokerError> {
    let mut call = scripts::SET_ASIDE.prepare_invoke();
    call.key(key).key(aside(key)).arg(expected);
    link.invoke(&call).await
}
