//! Operations on the consumer group of a partition. Each is one script, so nothing changes between its check and its
//! action.

use redis::pipe;
use seckill_model::{EntryId, Reason, reason::reason};

use super::{
    Connection, RedisError, Result,
    keys::{Partition, node_of},
    lossy_utf8::Text,
    scripts,
    stream::in_stream,
};

/// Moves the group back so that `from` is the first entry to be delivered again, or creates it if it is missing.
/// If its last delivered ID is no longer `seen` (`None`: it did not exist), leaves it where it is and returns what has
/// changed. `read` is the number of entries ever added before `from`, if known.
pub async fn rewind(
    conn: &mut Connection,
    of: &Partition,
    from: EntryId,
    seen: Option<EntryId>,
    read: Option<u64>,
) -> Result<Option<Reason>> {
    let mut call = scripts::REWIND.prepare_invoke();
    call.key(of.orders()).key(of.watermark());
    call.arg(of.group()).arg(from.before().in_stream());
    call.arg(seen.map(EntryId::in_stream).unwrap_or_default()).arg(from.in_stream());
    call.arg(read.and_then(|read| i64::try_from(read).ok()).unwrap_or(-1));
    let word: String = conn.invoke(&call).await?;
    Ok(Some(match word.as_str() {
        "done" => return Ok(None),
        "destroyed" => reason!("group-destroyed"),
        "created" => reason!("group-created"),
        "moved_back" => reason!("group-moved-back"),
        "trimmed" => reason!("group-first-trimmed"),
        _ => return Err(RedisError::reply("rewind.lua")),
    }))
}

/// Transfers entries that `from` still holds to `to`; `None` if consumer `to` does not exist. Not counted as a
/// delivery. Returns how many were transferred, how many `from` no longer holds, and how many have no body: those are
/// left alone, because a claim would drop them.
pub async fn give(
    conn: &mut Connection,
    of: &Partition,
    from: &str,
    to: &str,
    entries: &[EntryId],
) -> Result<Option<(u64, u64, u64)>> {
    let mut call = scripts::CLAIM.prepare_invoke();
    call.key(of.orders()).arg(of.group()).arg(to).arg(from);
    call.arg(in_stream(entries));
    conn.invoke(&call).await
}

/// Result of removing a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// Removed; it held no entries.
    Done,
    /// There is no such consumer.
    Unknown,
    /// Its node is alive; nothing changed.
    Alive,
    /// It holds that many entries; nothing changed.
    Pending(u64),
}

/// Removes a consumer that holds no entries and whose node has sent no heartbeat for `dead_ms`.
pub async fn remove_consumer(
    conn: &mut Connection,
    of: &Partition,
    name: &str,
    dead_ms: u64,
) -> Result<Removed> {
    let mut call = scripts::REMOVE_CONSUMER.prepare_invoke();
    call.key(of.orders()).key(of.nodes());
    call.arg(of.group()).arg(name).arg(node_of(name)).arg(dead_ms);
    let (word, pending): (String, u64) = conn.invoke(&call).await?;
    match word.as_str() {
        "done" => Ok(Removed::Done),
        "unknown" => Ok(Removed::Unknown),
        "alive" => Ok(Removed::Alive),
        "pending" => Ok(Removed::Pending(pending)),
        _ => Err(RedisError::reply("remove_consumer.lua")),
    }
}

/// Holder of each of these entries, in their order and in one round trip; `None` if it is not pending.
pub async fn holders_of(
    conn: &mut Connection,
    of: &Partition,
    entries: &[EntryId],
) -> Result<Vec<Option<String>>> {
    let mut read = pipe();
    for entry in entries {
        let id = entry.in_stream();
        read.cmd("XPENDING").arg(of.orders()).arg(of.group()).arg(&id).arg(&id).arg(1);
    }
    let rows: Vec<Vec<(String, Text, u64, u64)>> = conn.pipe(&read).await?;
    Ok(rows.into_iter().map(|mut rows| rows.pop().map(|(_, Text(holder), ..)| holder)).collect())
}
