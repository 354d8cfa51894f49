//! Windows of the order stream for display, each entry with its delivery state. Read-only: nothing is delivered,
//! claimed or acknowledged.

use std::collections::HashMap;

use seckill_model::EntryId;

use super::{
    Connection, Result,
    keys::Partition,
    lossy_utf8::Text,
    scripts,
    stream::{Delivered, RawEntry, entries_of},
};

/// Delivery state of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not delivered yet.
    Undelivered,
    /// Delivered and not acknowledged.
    Pending {
        /// Consumer that holds it.
        consumer: String,
        /// Milliseconds since its last delivery.
        idle_ms: u64,
        /// Number of deliveries.
        deliveries: u64,
    },
    /// Delivered and acknowledged.
    Acknowledged,
    /// Unknown: there is no group, or more entries are pending in this range than one call reads.
    Unknown,
}

/// An entry with its delivery state.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEntry {
    /// The entry.
    pub delivered: Delivered,
    /// Its delivery state.
    pub holding: DeliveryState,
}

/// A window of one partition's stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The entries, oldest first.
    pub entries: Vec<StreamEntry>,
    /// There are older entries.
    pub older: bool,
    /// Memory used by the stream; `None` if Redis does not report it.
    pub bytes: Option<u64>,
}

/// Entries, last delivered ID, pending entries, whether these are complete, bytes.
type Reply = (Vec<RawEntry>, Option<String>, Vec<(String, Text, u64, u64)>, bool, Option<u64>);

/// Returns the newest entries before `before`, or of the whole stream, at most `count`.
pub async fn window(
    conn: &mut Connection,
    of: &Partition,
    before: Option<EntryId>,
    count: usize,
) -> Result<Window> {
    let end = match before.map(|before| last_before(before, of.number())) {
        None => "+".to_owned(),
        Some(Some(last)) => last.in_stream(),
        Some(None) => return Ok(Window::default()),
    };
    let mut call = scripts::ENTRIES.prepare_invoke();
    call.key(of.orders()).arg(of.group()).arg(end).arg(count);
    let (found, delivered, pending, all, bytes): Reply = conn.invoke(&call).await?;
    let mut found = entries_of(of, found)?;
    found.reverse();
    let id = |id: &str| of.entry_id(id);
    let delivered = delivered.map(|last| id(&last)).transpose()?;
    // If the list is truncated, the state of entries after its end is unknown.
    let known = pending.last().filter(|_| !all).map(|(last, ..)| id(last)).transpose()?;
    let mut held: HashMap<EntryId, DeliveryState> = HashMap::new();
    for (entry, Text(consumer), idle_ms, deliveries) in pending {
        held.insert(id(&entry)?, DeliveryState::Pending { consumer, idle_ms, deliveries });
    }
    let mut entries = Vec::with_capacity(found.len());
    let older = found.len() >= count;
    for entry in found {
        let holding = match (held.remove(&entry.entry), delivered) {
            (Some(held), _) => held,
            (None, None) => DeliveryState::Unknown,
            (None, Some(last)) if entry.entry > last => DeliveryState::Undelivered,
            _ if known.is_some_and(|last| entry.entry > last) => DeliveryState::Unknown,
            _ => DeliveryState::Acknowledged,
        };
        entries.push(StreamEntry { delivered: entry, holding });
    }
    Ok(Window { entries, older, bytes })
}

/// The last ID of `partition` that sorts before `id` across all partitions; `None` if there is none.
fn last_before(id: EntryId, partition: u16) -> Option<EntryId> {
    let last = id.last_in(partition)?;
    if last != id {
        return Some(last);
    }
    Some(last.before()).filter(|before| *before != last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_end_is_exclusive_in_every_partition() {
        let id = |number, partition| EntryId { millis: 5, number, partition };
        assert_eq!(last_before(id(3, 1), 0), Some(id(3, 0)));
        assert_eq!(last_before(id(3, 1), 1), Some(id(2, 1)));
        assert_eq!(last_before(id(3, 1), 2), Some(id(2, 2)));
        assert_eq!(last_before(EntryId::MIN, 0), None);
        assert_eq!(last_before(EntryId::MIN, 3), None);
    }
}
