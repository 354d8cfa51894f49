//! Windows of the order stream as somebody reads them: each entry, and in whose hands it is.
//!
//! Nothing is delivered, claimed or acknowledged by it.

use redis::Value;
use seckill_model::EntryId;

use super::{
    BrokerError, Link,
    keys::Partition,
    lossy_utf8::Text,
    scripts,
    stream::{Delivered, entries_of},
};

/// In whose hands an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The group was not given it yet.
    Undelivered,
    /// Delivered and not acknowledged.
    Pending {
        /// Who holds it.
        consumer: String,
        /// Milliseconds since it was last delivered.
        idle_ms: u64,
        /// How often it was delivered.
        deliveries: u64,
    },
    /// Delivered and acknowledged.
    Acknowledged,
    /// Nobody can tell: there is no group, or more is pending between than one look tells.
    Unknown,
}

/// An entry with its holder.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The entry.
    pub delivered: Delivered,
    /// In whose hands it is.
    pub holding: Holding,
}

/// A part of one partition's stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The entries, oldest first.
    pub entries: Vec<Seen>,
    /// Others stand before them.
    pub older: bool,
    /// What the stream takes of Redis' memory; `None` where Redis does not tell.
    pub bytes: Option<u64>,
}

/// Entries, last one delivered, pending ones, whether those are all, bytes.
type Reply = (Value, Option<String>, Vec<(String, Text, u64, u64)>, bool, Option<u64>);

/// At most `count` entries, the newest of those before `before`, or of all.
///
/// # Errors
/// Redis is away.
pub async fn window(
    link: &mut Link,
    of: &Partition,
    before: Option<EntryId>,
    count: usize,
) -> Result<Window, BrokerError> {
    let end = match before.map(|before| last_before(before, of.number())) {
        None => "+".to_owned(),
        Some(Some(last)) => last.in_stream(),
        Some(None) => return Ok(Window::default()),
    };
    let mut call = scripts::ENTRIES.prepare_invoke();
    call.key(of.orders()).arg(of.group()).arg(end).arg(count);
    let (found, delivered, pending, all, bytes): Reply = link.invoke(&call).await?;
    let mut found = entries_of(of, found)?;
    found.reverse();
    let id = |id: &str| of.entry_id(id.as_bytes());
    let delivered = delivered.map(|last| id(&last)).transpose()?;
    // Where there are too many, those after the last one told are anybody's guess.
    let known = pending.last().filter(|_| !all).map(|(last, ..)| id(last)).transpose()?;
    let mut pending = pending.into_iter().peekable();
    let mut entries = Vec::with_capacity(found.len());
    let older = found.len() >= count;
    for entry in found {
        let mut held = None;
        while let Some(row) = pending.peek() {
            let row_id = id(&row.0)?;
            if row_id > entry.entry {
                break;
            }
            let Some((_, Text(consumer), idle_ms, deliveries)) = pending.next() else { break };
            if row_id == entry.entry {
                held = Some(Holding::Pending { consumer, idle_ms, deliveries });
            }
        }
        let holding = match (held, delivered) {
            (Some(held), _) => held,
            (None, None) => Holding::Unknown,
            (None, Some(last)) if entry.entry > last => Holding::Undelivered,
            _ if known.is_some_and(|last| entry.entry > last) => Holding::Unknown,
            _ => Holding::Acknowledged,
        };
        entries.push(Seen { delivered: entry, holding });
    }
    Ok(Window { entries, older, bytes })
}

/// The last id of `partition` that stands before `id` in the order of all; `None` where there is none.
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
    fn a_window_ends_before_its_border_in_every_partition() {
        let id = |number, partition| EntryId { millis: 5, number, partition };
        assert_eq!(last_before(id(3, 1), 0), Some(id(3, 0)));
        assert_eq!(last_before(id(3, 1), 1), Some(id(2, 1)));
        assert_eq!(last_before(id(3, 1), 2), Some(id(2, 2)));
        assert_eq!(last_before(EntryId::MIN, 0), None);
        assert_eq!(last_before(EntryId::MIN, 3), None);
    }
}
