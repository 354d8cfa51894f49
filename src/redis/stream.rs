//! Stream commands with typed replies.

use std::{collections::BTreeSet, time::Duration};

use redis::{ScriptInvocation, Value, cmd};
use seckill_model::{
    EntryId, OrderEntry, Reason,
    faults::{self, Point},
};

use super::{Connection, Layout, RedisError, Result, keys::Partition, lossy_utf8::Text, scripts};

/// Most entries that a consumer reads, claims or acknowledges in one command. Redis runs one command at a time, and
/// buyers wait meanwhile: delivering an entry takes about 3 µs.
pub const PAGE: usize = 250;

/// An entry with its parsed order.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// Its ID.
    pub entry: EntryId,
    /// The order it contains, or why it contains none.
    pub body: Body,
}

impl Delivered {
    /// The order it contains, if its fields are valid.
    pub fn order(&self) -> Option<OrderEntry> {
        match self.body {
            Body::Good(order) => Some(order),
            Body::Malformed(_) | Body::Gone => None,
        }
    }
}

/// The fields of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// They form an order.
    Good(OrderEntry),
    /// They are invalid.
    Malformed(Reason),
    /// The entry was trimmed or deleted while pending.
    Gone,
}

/// A pending entry with its holder.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The entry.
    pub delivered: Delivered,
    /// Its holder.
    pub consumer: String,
    /// Milliseconds since its last delivery.
    pub idle_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
}

/// Names and values, in any encoding.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// ID and fields of an entry; nil if it was trimmed or deleted while pending.
pub(super) type RawEntry = (String, Option<Fields>);

/// Where a reader of the group continues.
#[derive(Clone, Copy, Debug)]
pub enum ReadFrom {
    /// Undelivered entries; blocks for up to this long, and not at all if it is zero.
    New(Duration),
    /// This consumer's pending entries after this ID.
    Own(EntryId),
}

/// Creates the group at the start of the stream, so that no entry is skipped, and the stream if it is missing. Does
/// nothing if the group exists.
pub async fn ensure_group(conn: &mut Connection, of: &Partition) -> Result<()> {
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(of.orders()).arg(of.group()).arg("0").arg("MKSTREAM");
    match conn.query::<Value>(&create).await {
        Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
        other => other.map(drop),
    }
}

/// XLEN: entries in the stream, including acknowledged ones.
pub async fn length(conn: &mut Connection, of: &Partition) -> Result<u64> {
    conn.query(cmd("XLEN").arg(of.orders())).await
}

/// Range of order entries that need no check against the buyers: after the first ID, up to the second. `None` if every
/// entry needs one.
pub async fn verified(conn: &mut Connection, of: &Partition) -> Result<Option<(EntryId, EntryId)>> {
    let mut call = scripts::VERIFIED.prepare_invoke();
    call.key(of.orders()).key(of.watermark());
    let found: Option<(String, String)> = conn.invoke(&call).await?;
    let id = |text: String| {
        text.parse::<EntryId>().ok().map(|id| EntryId { partition: of.number(), ..id })
    };
    Ok(found.and_then(|(after, last)| id(after).zip(id(last))))
}

/// XREADGROUP: at most `count` entries for `consumer`.
pub async fn read_group(
    conn: &mut Connection,
    of: &Partition,
    consumer: &str,
    from: ReadFrom,
    count: usize,
) -> Result<Vec<Delivered>> {
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg(of.group()).arg(consumer).arg("COUNT").arg(count);
    match from {
        ReadFrom::New(block) => {
            // BLOCK 0 would block forever.
            if !block.is_zero() {
                read.arg("BLOCK").arg(block.as_millis().max(1) as u64);
            }
            read.arg("STREAMS").arg(of.orders()).arg(">");
        }
        ReadFrom::Own(after) => {
            read.arg("STREAMS").arg(of.orders()).arg(after.in_stream());
        }
    }
    // Nil after a timeout.
    let streams: Option<Vec<(String, Vec<RawEntry>)>> = conn.query(&read).await?;
    let entries = streams.unwrap_or_default().pop().map(|(_, entries)| entries);
    Ok(passed(Point::AfterRead, entries_of(of, entries.unwrap_or_default())?))
}

/// Result of a claim, and where to continue.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Continue here; `None` at the end of the list.
    pub next: Option<EntryId>,
    /// Entries that this consumer now holds.
    pub entries: Vec<Delivered>,
    /// Entries without a body: Redis dropped them from the pending list, and [`gone`] keeps their IDs.
    pub gone: Vec<EntryId>,
    /// Deliveries of claimed entries that were delivered more than `max_deliveries` times.
    pub often: Vec<(EntryId, u64)>,
}

/// Entries that claims found without a body and whose orders are not rebuilt yet.
pub async fn gone(conn: &mut Connection, of: &Partition) -> Result<Vec<String>> {
    conn.query(cmd("SMEMBERS").arg(of.gone())).await
}

/// Removes entries from that set once their orders are rebuilt.
pub async fn rebuilt(conn: &mut Connection, of: &Partition, gone: &[String]) -> Result<()> {
    conn.query::<u64>(cmd("SREM").arg(of.gone()).arg(gone)).await.map(drop)
}

/// Notes that the order of an entry is being written alone; for [`is_on_trial`].
pub async fn begin_trial(conn: &mut Connection, of: &Partition, entry: EntryId) -> Result<()> {
    conn.query::<u64>(cmd("SADD").arg(of.trials()).arg(entry.in_stream())).await.map(drop)
}

/// Notes the end of that.
pub async fn end_trial(conn: &mut Connection, of: &Partition, entry: EntryId) -> Result<()> {
    conn.query::<u64>(cmd("SREM").arg(of.trials()).arg(entry.in_stream())).await.map(drop)
}

/// Whether a process has begun to write the order of an entry alone, and never ended that.
pub async fn is_on_trial(conn: &mut Connection, of: &Partition, entry: EntryId) -> Result<bool> {
    conn.query(cmd("SISMEMBER").arg(of.trials()).arg(entry.in_stream())).await
}

/// Looks at up to `count` pending entries from `from` on, of any consumer, and claims those that have been idle for at
/// least `min_idle`. Counts as a delivery.
pub async fn auto_claim(
    conn: &mut Connection,
    of: &Partition,
    consumer: &str,
    min_idle: Duration,
    max_deliveries: u64,
    from: EntryId,
    count: usize,
) -> Result<Claimed> {
    type Found = (Option<String>, Vec<String>, Vec<String>, Vec<(String, u64)>);
    let mut claim = scripts::AUTO_CLAIM.prepare_invoke();
    claim.key(of.orders()).key(of.gone()).arg(of.group()).arg(consumer);
    claim.arg(min_idle.as_millis() as u64).arg(from.in_stream()).arg(count).arg(max_deliveries);
    let (last, ids, gone, often): Found = conn.invoke(&claim).await?;
    let parsed = |ids: &[String]| ids.iter().map(|id| of.entry_id(id)).collect::<Result<Vec<_>>>();
    let mut wanted: BTreeSet<EntryId> = parsed(&ids)?.into_iter().collect();
    let mut entries = Vec::new();
    if let (Some(first), Some(last)) = (wanted.first(), wanted.last()) {
        // Usually without gaps.
        entries = range_to(conn, of, *first, &last.in_stream(), 2 * ids.len()).await?;
        entries.retain(|it| wanted.remove(&it.entry));
    }
    if !wanted.is_empty() {
        let wanted: Vec<EntryId> = wanted.into_iter().collect();
        let rest = pending_entries(conn, of, &wanted).await?;
        entries.extend(rest.into_iter().map(|it| it.delivered));
        entries.sort_unstable_by_key(|it| it.entry);
    }
    Ok(Claimed {
        next: last.map(|last| of.entry_id(&last)).transpose()?.and_then(EntryId::next),
        entries: passed(Point::AfterClaim, entries),
        gone: parsed(&gone)?,
        often: with_count(of, often)?,
    })
}

/// XCLAIM: claims these entries for `consumer` if they were idle for that long; returns the claimed ones. Entries
/// without a body stay pending where they are. Does not count as a delivery and returns no bodies.
pub async fn claim(
    conn: &mut Connection,
    of: &Partition,
    consumer: &str,
    min_idle_ms: u64,
    entries: &[EntryId],
) -> Result<Vec<EntryId>> {
    let mut claim = scripts::TAKE_OVER.prepare_invoke();
    claim.key(of.orders()).arg(of.group()).arg(consumer).arg(min_idle_ms);
    claim.arg(in_stream(entries));
    let taken: Vec<String> = conn.invoke(&claim).await?;
    if !taken.is_empty() {
        faults::pass(Point::AfterClaim);
    }
    taken.iter().map(|id| of.entry_id(id)).collect()
}

/// Keeps entries pending with `consumer` but sets their idle time, so that others may claim them now. Does not count as
/// a delivery.
pub async fn let_go(
    conn: &mut Connection,
    of: &Partition,
    consumer: &str,
    idle: Duration,
    entries: &[EntryId],
) -> Result<()> {
    let mut claim = cmd("XCLAIM");
    claim.arg(of.orders()).arg(of.group()).arg(consumer).arg(0);
    claim.arg(in_stream(entries));
    claim.arg("IDLE").arg(idle.as_millis() as u64).arg("JUSTID");
    conn.query::<Value>(&claim).await.map(drop)
}

/// XACK, in pages: returns how many were still pending.
pub async fn acknowledge(
    conn: &mut Connection,
    of: &Partition,
    entries: impl IntoIterator<Item = EntryId>,
) -> Result<u64> {
    let ids: Vec<String> = entries.into_iter().map(EntryId::in_stream).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    faults::pass(Point::BeforeAck);
    let mut done = 0;
    for page in ids.chunks(PAGE) {
        let acknowledge = &mut cmd("XACK");
        acknowledge.arg(of.orders()).arg(of.group()).arg(page);
        done += conn.query::<u64>(acknowledge).await?;
    }
    faults::pass(Point::AfterAck);
    Ok(done)
}

/// One page of the pending list, oldest first, from `first` to `last` inclusive.
pub async fn pending_page(
    conn: &mut Connection,
    of: &Partition,
    first: EntryId,
    last: EntryId,
    count: usize,
) -> Result<Vec<Pending>> {
    let mut call = scripts::PENDING_PAGE.prepare_invoke();
    call.key(of.orders());
    call.arg(of.group()).arg(first.in_stream()).arg(last.in_stream()).arg(count);
    pending_rows(conn, of, &call).await
}

/// The pending ones among these entries.
pub async fn pending_entries(
    conn: &mut Connection,
    of: &Partition,
    entries: &[EntryId],
) -> Result<Vec<Pending>> {
    let mut call = scripts::PENDING_ENTRIES.prepare_invoke();
    call.key(of.orders()).arg(of.group());
    call.arg(in_stream(entries));
    pending_rows(conn, of, &call).await
}

/// One page across all partitions, ordered by time.
pub async fn pending_of_all(
    conn: &mut Connection,
    keys: &Layout,
    first: EntryId,
    last: EntryId,
    count: usize,
) -> Result<Vec<Pending>> {
    let mut page = Vec::new();
    for of in conn.reachable(keys) {
        let ends = first.first_in(of.number()).zip(last.last_in(of.number()));
        let Some((first, last)) = ends else { continue };
        page.extend(or_none(pending_page(conn, &of, first, last, count).await)?);
    }
    page.sort_by_key(|row| row.delivered.entry);
    page.truncate(count);
    Ok(page)
}

/// Without a consumer group no entry is pending.
pub fn or_none<T>(read: Result<Vec<T>>) -> Result<Vec<T>> {
    match read {
        Err(RedisError::NoGroup) => Ok(Vec::new()),
        read => read,
    }
}

async fn pending_rows(
    conn: &mut Connection,
    of: &Partition,
    call: &ScriptInvocation<'_>,
) -> Result<Vec<Pending>> {
    let rows: Vec<(String, Text, u64, u64, Option<Fields>)> = conn.invoke(call).await?;
    let pending = |(id, Text(consumer), idle_ms, deliveries, fields)| {
        let delivered = entry_of(of, (id, fields))?;
        Ok(Pending { delivered, consumer, idle_ms, deliveries })
    };
    rows.into_iter().map(pending).collect()
}

/// One page of a consumer's own pending entries. Unlike [`read_group`] it does not count as a delivery.
pub async fn own_page(
    conn: &mut Connection,
    of: &Partition,
    consumer: &str,
    first: EntryId,
    count: usize,
) -> Result<Vec<Delivered>> {
    let mut call = scripts::PENDING_PAGE.prepare_invoke();
    call.key(of.orders());
    call.arg(of.group()).arg(first.in_stream()).arg("+").arg(count).arg(consumer);
    Ok(pending_rows(conn, of, &call).await?.into_iter().map(|it| it.delivered).collect())
}

/// XPENDING: pending entries from `first` to `last` with the number of their deliveries, oldest first, at most `count`;
/// with `consumer`, only its own.
pub async fn pending_ids(
    conn: &mut Connection,
    of: &Partition,
    consumer: Option<&str>,
    first: EntryId,
    last: EntryId,
    count: usize,
) -> Result<Vec<(EntryId, u64)>> {
    let mut read = cmd("XPENDING");
    read.arg(of.orders()).arg(of.group());
    read.arg(first.in_stream()).arg(last.in_stream()).arg(count).arg(consumer);
    let rows: Vec<(String, Text, u64, u64)> = conn.query(&read).await?;
    with_count(of, rows.into_iter().map(|(id, _, _, deliveries)| (id, deliveries)))
}

fn with_count(
    of: &Partition,
    rows: impl IntoIterator<Item = (String, u64)>,
) -> Result<Vec<(EntryId, u64)>> {
    rows.into_iter().map(|(id, deliveries)| Ok((of.entry_id(&id)?, deliveries))).collect()
}

/// XRANGE on the order stream: at most `count` entries starting at `first`.
pub async fn range(
    conn: &mut Connection,
    of: &Partition,
    first: EntryId,
    count: usize,
) -> Result<Vec<Delivered>> {
    range_to(conn, of, first, "+", count).await
}

async fn range_to(
    conn: &mut Connection,
    of: &Partition,
    first: EntryId,
    last: &str,
    count: usize,
) -> Result<Vec<Delivered>> {
    let mut read = cmd("XRANGE");
    read.arg(of.orders()).arg(first.in_stream()).arg(last).arg("COUNT").arg(count);
    entries_of(of, conn.query(&read).await?)
}

/// The IDs as arguments of a command.
pub(super) fn in_stream(entries: &[EntryId]) -> Vec<String> {
    entries.iter().map(|entry| entry.in_stream()).collect()
}

/// An empty read does not pass the fault point.
fn passed(point: Point, entries: Vec<Delivered>) -> Vec<Delivered> {
    if !entries.is_empty() {
        faults::pass(point);
    }
    entries
}

pub(super) fn entries_of(of: &Partition, entries: Vec<RawEntry>) -> Result<Vec<Delivered>> {
    entries.into_iter().map(|entry| entry_of(of, entry)).collect()
}

fn entry_of(of: &Partition, (id, fields): RawEntry) -> Result<Delivered> {
    let entry = of.entry_id(&id)?;
    let body = fields.map_or(Body::Gone, |fields| {
        let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        of.parse_order(entry, fields).map_or_else(Body::Malformed, Body::Good)
    });
    Ok(Delivered { entry, body })
}
