//! Reads the displayed pages of the pending list and of the order stream, and counts the pending list by age and
//! deliveries, in pages without bodies and up to a limit. Verdicts are added elsewhere; the group is part of the stats.

use std::{collections::HashSet, sync::Arc};

use seckill_model::{EntryId, Message, Millis, OrderError};
use seckill_redis::{
    Connection, dead_letters,
    entries::{self, DeliveryState, StreamEntry},
    nodes::NodeState,
    stream::{Body, Pending, or_none, pending_ids, pending_of_all},
};

use super::{Collector, in_time};
use crate::{
    Result,
    telemetry::{
        StreamView,
        census::Census,
        snapshot::{ConsumerLine, EntryLine, PendingLine, PendingPage, StreamPage},
    },
};

/// Pending entries per page.
const PENDING_PAGE: usize = 500;
/// Entries counted per round trip: about 0.3 ms of Redis time.
const COUNTED_PAGE: usize = 1_000;
/// Maximum number of entries counted.
const MOST_COUNTED: usize = 10_000;
/// Entries of the order stream per snapshot.
const ENTRIES_PAGE: usize = 200;
/// Dead letters read for them, the first ones since the start of the window.
const LETTERS: usize = 200;

/// Entries known to be dead letters.
#[derive(Debug, Default)]
struct Dead {
    known: HashSet<EntryId>,
    /// Partitions with more letters than were read.
    cut: HashSet<u16>,
}

impl Dead {
    /// Returns whether this entry is one; `None` if too few letters were read.
    fn has(&self, entry: EntryId) -> Option<bool> {
        let known = self.known.contains(&entry);
        (known || !self.cut.contains(&entry.partition)).then_some(known)
    }
}

impl Collector {
    /// Reads the entries from `from` on, with a round trip per partition; one more than a page has if there are more.
    pub async fn pending(&mut self, from: EntryId) -> Result<Vec<Pending>> {
        let keys = &self.keys;
        let reading = async |conn: &mut Connection| {
            pending_of_all(conn, keys, from, EntryId::MAX, PENDING_PAGE + 1).await
        };
        in_time(&mut self.conn, reading).await
    }

    /// Returns these entries as the page of a snapshot taken at `now`, without verdicts.
    pub fn pending_page(&self, from: EntryId, rows: &[Pending], now: Millis) -> PendingPage {
        let lines = rows.iter().map(|row| self.pending_line(now, row)).collect();
        PendingPage::of(from, now, lines, PENDING_PAGE)
    }

    fn pending_line(&self, now: Millis, row: &Pending) -> PendingLine {
        let entry = row.delivered.entry;
        let (order, fault) = match &row.delivered.body {
            Body::Good(order) => (Some(order), None),
            Body::Malformed(fault) => (None, Some(OrderError::Fields(fault.clone()))),
            Body::Gone => (None, Some(OrderError::Gone)),
        };
        PendingLine {
            entry,
            consumer: row.consumer.clone(),
            holder_alive: self.is_alive(&row.consumer),
            holder_known: self.node_state(&row.consumer, entry.partition)
                != Some(NodeState::Stopped),
            age_ms: now.since(entry.added()),
            idle_ms: row.idle_ms,
            deliveries: row.deliveries,
            order: order.map(|o| o.order),
            user: order.map(|o| o.user),
            voucher: order.map(|o| o.voucher),
            fault: fault.as_ref().map(Message::of),
            verdict: None,
        }
    }

    /// Counts all pending entries, or the oldest.
    pub async fn census(&mut self) -> Result<Census> {
        let (keys, now) = (&self.keys, self.now());
        let reading = async |conn: &mut Connection| {
            let most = (MOST_COUNTED / keys.partitions().count().max(1)).max(COUNTED_PAGE);
            let mut parts = Vec::new();
            for of in conn.reachable(keys) {
                let (mut read, mut all) = (Vec::new(), false);
                let mut next = Some(EntryId::MIN);
                while let Some(from) = next.filter(|_| !all && read.len() < most) {
                    let page = pending_ids(conn, &of, None, from, EntryId::MAX, COUNTED_PAGE).await;
                    let page = or_none(page)?;
                    next = page.last().and_then(|(last, _)| last.next());
                    all = page.len() < COUNTED_PAGE || next.is_none();
                    read.extend(page);
                }
                parts.push((read, all));
            }
            Ok(Census::of(now, &parts))
        };
        in_time(&mut self.conn, reading).await
    }

    /// Reads that part, with one round trip per displayed partition.
    pub async fn stream_page(&mut self, view: StreamView) -> Result<StreamPage> {
        let keys = &self.keys;
        let parts = self.stats.iter().flat_map(|stats| &stats.parts);
        let with_dead: HashSet<u16> =
            parts.filter(|part| part.dead > 0).map(|part| part.partition).collect();
        let reading = async |conn: &mut Connection| {
            let (mut seen, mut older, mut bytes) = (Vec::new(), false, Vec::new());
            let mut dead = Dead::default();
            let shown = |number: u16| view.partition.is_none_or(|only| only == number);
            for of in conn.reachable(keys).filter(|of| shown(of.number())) {
                let window = entries::window(conn, &of, view.before, ENTRIES_PAGE).await?;
                older |= window.older;
                bytes.push((of.number(), window.bytes));
                let first = window.entries.first().map(|it| it.delivered.entry);
                if let Some(first) = first.filter(|_| with_dead.contains(&of.number())) {
                    // A letter is added after its entry, and its ID holds the time.
                    let first = EntryId { number: 0, ..first };
                    let letters = dead_letters::read(conn, &of, first, LETTERS).await?;
                    if letters.len() == LETTERS {
                        dead.cut.insert(of.number());
                    }
                    dead.known.extend(letters.into_iter().filter_map(|letter| letter.entry));
                }
                seen.extend(window.entries);
            }
            seen.sort_by_key(|it| it.delivered.entry);
            let beyond = seen.len().saturating_sub(ENTRIES_PAGE);
            seen.drain(..beyond);
            Ok((seen, dead, older || beyond > 0, bytes))
        };
        let (seen, dead, older, bytes) = in_time(&mut self.conn, reading).await?;
        let lines = seen.into_iter().map(|it| self.entry_line(it, &dead)).collect();
        let mut partitions =
            self.stats.as_ref().map(|stats| stats.parts.clone()).unwrap_or_default();
        for line in &mut partitions {
            let read = bytes.iter().find(|(number, _)| *number == line.partition);
            line.bytes = read.and_then(|(_, bytes)| *bytes);
        }
        Ok(StreamPage {
            view,
            taken: Some(self.now()),
            older,
            lines: Arc::new(lines),
            partitions,
            consumers: self.group_consumers(),
        })
    }

    fn entry_line(&self, seen: StreamEntry, dead: &Dead) -> EntryLine {
        let (order, fault) = match seen.delivered.body {
            Body::Good(order) => (Some(order), None),
            Body::Malformed(fault) => (None, Some(Message::of(&OrderError::Fields(fault)))),
            Body::Gone => (None, None),
        };
        let entry = seen.delivered.entry;
        let holder = match &seen.holding {
            DeliveryState::Pending { consumer, .. } => self.node_state(consumer, entry.partition),
            _ => None,
        };
        EntryLine {
            entry,
            order: order.map(|it| it.order),
            user: order.map(|it| it.user),
            voucher: order.map(|it| it.voucher),
            fault,
            // An entry that was replayed is another entry.
            dead: if seen.holding == DeliveryState::Acknowledged {
                dead.has(entry)
            } else {
                Some(false)
            },
            holding: seen.holding,
            holder,
        }
    }

    /// State of a consumer's node, as far as known.
    pub(super) fn node_state(&self, consumer: &str, partition: u16) -> Option<NodeState> {
        let stats = self.stats.as_ref()?;
        let mut known = stats.consumers.iter();
        // Consumers created after the stats are missing there.
        let it = known.find(|it| it.partition == partition && it.name == consumer)?;
        Some(stats.nodes.state(consumer, it.idle_ms, self.node_dead_ms))
    }

    fn group_consumers(&self) -> Vec<ConsumerLine> {
        let Some(stats) = &self.stats else { return Vec::new() };
        let mut all = self.consumers(stats);
        // By name within the same state: rows that move with each batch are unreadable.
        all.sort_by(|a, b| {
            let name = || a.name.cmp(&b.name).then(a.partition.cmp(&b.partition));
            a.sort_key().cmp(&b.sort_key()).then_with(name)
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_letters_read_are_unknown() {
        let entry = |number, partition| EntryId { millis: 5, number, partition };
        let known = HashSet::from([entry(1, 0), entry(1, 1)]);
        let dead = Dead { known, cut: HashSet::from([1]) };
        assert_eq!([entry(1, 0), entry(2, 0)].map(|it| dead.has(it)), [Some(true), Some(false)]);
        assert_eq!([entry(1, 1), entry(2, 1)].map(|it| dead.has(it)), [Some(true), None]);
    }
}
