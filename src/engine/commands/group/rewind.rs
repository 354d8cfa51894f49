//! Rewinds the group: first a preview, then exactly that.
//!
//! Entries between the target and the group's position are delivered again. Those in SQL are acknowledged, the others
//! are written. A pending entry is settled by the first consumer to process it, since an order is written once.

use std::str::FromStr;

use seckill_model::{Backing, EntryId, Millis, OrderEntry, Reason, When, reason::reason};
use seckill_redis::{
    Connection, group,
    keys::Partition,
    stream::{self, Delivered},
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    commands::group::{partition, partitions},
    deployment::servers::Servers,
    ledger::entry_check::backing,
    lists::partition_numbers,
};

/// Entries per read, and orders per SQL query.
const PAGE: usize = 1_000;

/// A position in the streams, as the operator enters it.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// The oldest entry that is kept.
    Start,
    /// This entry, or the next one if it does not exist.
    Entry {
        /// Its ID.
        id: EntryId,
        /// Its partition, if given with the ID.
        partition: Option<u16>,
    },
    /// The first entry added at or after this time.
    Time(When),
}

impl FromStr for To {
    type Err = Reason;

    /// Parses `start`, an entry ID, or a time.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text == "start" {
            return Ok(Self::Start);
        }
        // A bare number is ambiguous: an ID without its sequence number, or an hour.
        let looks_like_id = !text.starts_with('-') && text.contains(['-', '@']);
        if let Some(id) = text.parse::<EntryId>().ok().filter(|_| looks_like_id) {
            let partition = text.contains('@').then_some(id.partition);
            return Ok(Self::Entry { id, partition });
        }
        text.parse().map(Self::Time).map_err(|_| {
            reason!("group-position", text = text.chars().take(40).collect::<String>())
        })
    }
}

/// Effect of rewinding the group of one partition; a plan and its preview.
///
/// The keys are a contract of `stream rewind --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rewind {
    /// Which partition.
    pub partition: u16,
    /// The group exists; otherwise it is created.
    pub group: bool,
    /// The first entry that is delivered again.
    pub from: EntryId,
    /// The last one, up to the group's position at the time of the preview.
    pub to: EntryId,
    /// When the first one was added.
    pub from_time: Millis,
    /// When the last one was.
    pub to_time: Millis,
    /// Entries from the first to the last.
    pub again: u64,
    /// Of them: in SQL already, to be acknowledged.
    pub written: u64,
    /// Of them: not in SQL, to be written if stock is left.
    pub missing: u64,
    /// Of those missing in SQL: no buyer holds the order in Redis any more. It becomes a dead letter.
    pub unheld: u64,
    /// Of them: invalid, to become a dead letter.
    pub malformed: u64,
    /// Of them: pending now.
    pub pending: u64,
    /// Entries after the last one, which are delivered in any case.
    pub undelivered: u64,
    /// Older entries that were trimmed or deleted and cannot be delivered.
    pub trimmed: u64,
    /// If the group is created: retained entries before the first one, which are not delivered.
    pub skipped: u64,
    /// Of them: not in SQL.
    pub skipped_missing: u64,
    /// Last delivered ID of the group.
    pub last_delivered: Option<EntryId>,
    /// Entries ever added before the first one; `None` if deletions make that unknown.
    pub entries_read: Option<u64>,
}

/// Result of a rewind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindReport {
    /// Entries that are delivered again.
    pub again: u64,
    /// New position of each group.
    pub groups: Vec<MovedGroup>,
}

/// One group that was rewound or created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedGroup {
    /// Its partition.
    pub partition: u16,
    /// The first entry that is delivered again.
    pub from: EntryId,
    /// Whether it was created.
    pub made: bool,
}

/// Previews rewinding the groups to that position, by partition. A partition without entries to deliver again is
/// omitted unless it was named.
pub async fn preview(servers: &mut Servers, to: &To, only: Option<u16>) -> Result<Vec<Rewind>> {
    let (named, only) = match to {
        To::Entry { id, partition } => match (*partition, only) {
            (Some(of), Some(partition)) if of != partition => {
                let (entry, partition) = (*id, partition.to_string());
                let why = reason!("group-other-partition", entry, partition);
                return Err(EngineError::Rejected(why));
            }
            (of, only) => (true, Some(of.or(only).unwrap_or(0))),
        },
        To::Start | To::Time(_) => (only.is_some() || servers.keys.count() == 1, only),
    };
    let (mut plan, mut nothing) = (Vec::new(), None);
    for of in partitions(&servers.keys, only)? {
        match one(servers, &of, to).await? {
            Ok(rewind) => plan.push(rewind),
            Err(why) if named => return Err(EngineError::Failed(why)),
            Err(why) => nothing = nothing.or(Some(why)),
        }
    }
    match nothing {
        Some(why) if plan.is_empty() => Err(EngineError::Failed(why)),
        _ => Ok(plan),
    }
}

/// Previews one partition, or returns why it has nothing to deliver again.
async fn one(servers: &mut Servers, of: &Partition, to: &To) -> Result<Result<Rewind, Reason>> {
    let number = of.number();
    let partition = || number.to_string();
    let stats = servers.partition_stats(of).await?;
    let stream = &stats.stream;
    let (Some(first), Some(newest)) = (stream.first, stream.generated) else {
        return Ok(Err(reason!("group-no-stream", number = partition())));
    };
    let wanted = match to {
        To::Start => first,
        To::Entry { id, .. } => EntryId { partition: number, ..*id },
        To::Time(when) => EntryId { partition: number, ..EntryId::first_of(when.from(stats.now)) },
    };
    let gone = stream.added.saturating_sub(stream.length);
    if wanted < first && gone > 0 {
        let why = reason!("group-trimmed", gone, partition = partition(), first);
        return Err(EngineError::Failed(why));
    }
    let end = stream.delivered.unwrap_or(newest);
    if wanted > end {
        return Ok(Err(match (to, stream.delivered) {
            (To::Entry { .. } | To::Time(_), Some(delivered)) => {
                reason!("group-forward", to = wanted, delivered, partition = partition())
            }
            _ => reason!("group-nothing", number = partition()),
        }));
    }
    let (mut skipped, mut seen, mut undelivered) = (Seen::default(), Seen::default(), 0);
    // Only a group that is created skips entries.
    let mut next = Some(if stream.delivered.is_none() { first } else { wanted });
    while let Some(start) = next {
        let mut page = stream::range(&mut servers.conn, of, start, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        // Entries added after the preview are not in its figures.
        page.retain(|it| it.entry <= newest);
        if page.is_empty() {
            break;
        }
        let (before, rest) = page.split_at(page.partition_point(|it| it.entry < wanted));
        let (again, after) = rest.split_at(rest.partition_point(|it| it.entry <= end));
        skipped.add(servers, before).await?;
        seen.add(servers, again).await?;
        undelivered += after.len() as u64;
    }
    let (Some(from), Some(to)) = (seen.first, seen.last) else {
        return Ok(Err(reason!("group-nothing", number = partition())));
    };
    let whole = stream.deleted.is_none_or(|deleted| deleted < from);
    let read = stream.added.saturating_sub(seen.count + undelivered);
    Ok(Ok(Rewind {
        partition: number,
        group: stream.delivered.is_some(),
        from,
        to,
        from_time: from.added(),
        to_time: to.added(),
        again: seen.count,
        written: seen.written,
        missing: seen.missing,
        unheld: seen.unheld,
        malformed: seen.malformed,
        pending: if stream.group {
            pending_between(&mut servers.conn, of, from, to).await?
        } else {
            0
        },
        undelivered,
        trimmed: gone,
        skipped: skipped.count,
        skipped_missing: skipped.missing,
        last_delivered: stream.delivered,
        entries_read: whole.then_some(read),
    }))
}

/// Entries of a stream, counted by their expected result.
#[derive(Debug, Default)]
struct Seen {
    first: Option<EntryId>,
    last: Option<EntryId>,
    count: u64,
    written: u64,
    missing: u64,
    unheld: u64,
    malformed: u64,
}

impl Seen {
    async fn add(&mut self, servers: &mut Servers, page: &[Delivered]) -> Result<()> {
        let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(()) };
        self.first.get_or_insert(first.entry);
        self.last = Some(last.entry);
        self.count += page.len() as u64;
        let orders: Vec<OrderEntry> = page.iter().filter_map(Delivered::order).collect();
        self.malformed += (page.len() - orders.len()) as u64;
        let there = servers.written(orders.iter().map(|order| order.order)).await?;
        let (written, missing): (Vec<OrderEntry>, Vec<OrderEntry>) =
            orders.into_iter().partition(|order| there.contains(&order.order));
        self.written += written.len() as u64;
        self.missing += missing.len() as u64;
        let backing = backing(servers, &missing).await?;
        self.unheld += backing.iter().filter(|it| **it != Backing::Promised).count() as u64;
        Ok(())
    }
}

async fn pending_between(
    conn: &mut Connection,
    of: &Partition,
    from: EntryId,
    to: EntryId,
) -> Result<u64> {
    let (mut count, mut next) = (0, Some(from));
    while let Some(first) = next {
        let page = stream::pending_ids(conn, of, None, first, to, PAGE).await?;
        count += page.len() as u64;
        next = page.last().filter(|(last, _)| *last < to).and_then(|(last, _)| last.next());
    }
    Ok(count)
}

/// Executes the plan, if each group is still at its position or further ahead.
///
/// # Errors
/// [`EngineError::Failed`] if it is not; Redis is unreachable; `stop` was requested. The error names the partitions
/// done by then.
pub async fn apply(
    servers: &mut Servers,
    plan: &[Rewind],
    stop: &CancellationToken,
) -> Result<RewindReport> {
    let mut report = RewindReport::default();
    for rewind in plan {
        let moved = if stop.is_cancelled() {
            Err(EngineError::Stopping)
        } else {
            move_group(servers, rewind).await
        };
        let group = moved.map_err(|why| {
            let done: Vec<u16> = report.groups.iter().map(|it| it.partition).collect();
            let partitions = partition_numbers(&done);
            why.after(done.len() as u64, || reason!("done-rewound", partitions))
        })?;
        report.again += rewind.again;
        report.groups.push(group);
    }
    Ok(report)
}

async fn move_group(servers: &mut Servers, rewind: &Rewind) -> Result<MovedGroup> {
    let of = partition(&servers.keys, rewind.partition)?;
    let Rewind { from, last_delivered: seen, entries_read: read, .. } = *rewind;
    if let Some(change) = group::rewind(&mut servers.conn, &of, from, seen, read).await? {
        let partition = of.number().to_string();
        return Err(EngineError::Failed(reason!("group-changed", partition, change)));
    }
    Ok(MovedGroup { partition: of.number(), from, made: !rewind.group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_parsed() {
        let read = |text: &str| text.parse::<To>();
        assert!(matches!(read("start"), Ok(To::Start)));
        let id = |text| match read(text) {
            Ok(To::Entry { id, partition }) => (id.to_string(), partition),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(id("1795000000000-3"), ("1795000000000-3".to_owned(), None));
        assert_eq!(id("1795000000000-3@2"), ("1795000000000-3@2".to_owned(), Some(2)));
        for time in ["2026-11-20 14:30", "2026-11-20", "14:30", "-10m", "2026-11-20T14:30:00Z"] {
            assert!(matches!(read(time), Ok(To::Time(_))), "{time}");
        }
        for bad in ["", "end", "-", "1-2-3", "1-x", "$"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
