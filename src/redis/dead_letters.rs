//! Dead letters in Redis: paged reads, and scripts that add, replay and discard them.
//!
//! Dead letters are immutable: what was read of one is valid until it is removed.

use redis::{cmd, pipe};
use seckill_model::{
    EntryId, Message, Millis, OrderEntry, Reason,
    dead_letter::{Burial, MAX_DATA, MAX_REASON, read_history, shown, write_history},
    faults::{self, Point},
};

use super::{Connection, Layout, RedisError, keys::Partition, scripts, stream::Fields};

/// Dead letters per script call, which copies each of them.
pub const COPIES: usize = 200;
/// Fields that a replay adds to an entry, for its next failure.
const REPLAYS: &[u8] = b"replays";
const HISTORY: &[u8] = b"history";
/// Prefix of the entry's own field names.
const BODY: &[u8] = b"body:";

/// A dead letter: its position, its history, and the order it contains, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// ID in the stream of dead letters.
    pub letter: EntryId,
    /// ID of the original entry; `None` for a promise that never was an entry.
    pub entry: Option<EntryId>,
    /// Why the entry became a dead letter.
    pub reason: Message,
    /// Former holder; empty if it had none.
    pub consumer: String,
    /// Deliveries since it was last added to the order stream.
    pub deliveries: u64,
    /// When the entry became a dead letter.
    pub at: Millis,
    /// Number of earlier replays.
    pub replays: u64,
    /// Earlier failures of the same order, oldest first.
    pub earlier: Vec<Burial>,
    /// The order it contains.
    pub order: Option<OrderEntry>,
    /// Why it contains no order.
    pub fault: Option<Reason>,
    /// Its original fields.
    pub body: Vec<(Vec<u8>, Vec<u8>)>,
}

impl DeadLetter {
    /// All of its failures, oldest first, this one last.
    pub fn history(&self) -> Vec<Burial> {
        let mut all = self.earlier.clone();
        all.push(Burial {
            at: self.at,
            consumer: self.consumer.clone(),
            deliveries: self.deliveries,
            reason: self.reason.clone(),
        });
        all
    }
}

/// Moves pending entries to the dead letters, each with its reason; returns how many were still pending.
/// After an error, the pages moved so far stay moved.
pub async fn bury_all(
    conn: &mut Connection,
    of: &Partition,
    entries: &[(EntryId, Message)],
) -> Result<u64, RedisError> {
    let mut moved = 0;
    for page in entries.chunks(COPIES) {
        let mut call = scripts::BURY.prepare_invoke();
        call.key(of.orders()).key(of.dead()).key(of.watermark()).arg(of.group());
        for (entry, reason) in page {
            call.arg(entry.in_stream()).arg(shown(reason, MAX_REASON));
            call.arg(reason.data_json(MAX_DATA).unwrap_or_default());
        }
        faults::pass(Point::BeforeBurial);
        moved += conn.invoke::<u64>(&call).await?;
        faults::pass(Point::AfterBurial);
    }
    Ok(moved)
}

/// Dead letters, oldest first, at most `count` starting at `first`.
pub async fn read(
    conn: &mut Connection,
    of: &Partition,
    first: EntryId,
    count: usize,
) -> Result<Vec<DeadLetter>, RedisError> {
    page(conn, of, &first.in_stream(), "+", count).await
}

/// One page across all partitions, ordered by time, from `first` to `last` inclusive.
pub async fn page_of_all(
    conn: &mut Connection,
    keys: &Layout,
    first: EntryId,
    last: EntryId,
    count: usize,
) -> Result<Vec<DeadLetter>, RedisError> {
    let mut all = Vec::new();
    for of in keys.partitions() {
        let ends = first.first_in(of.number()).zip(last.last_in(of.number()));
        let Some((first, last)) = ends else { continue };
        all.extend(page(conn, &of, &first.in_stream(), &last.in_stream(), count).await?);
    }
    all.sort_by_key(|letter| letter.letter);
    all.truncate(count);
    Ok(all)
}

/// Reads these dead letters of one partition; missing ones are omitted.
pub async fn named(
    conn: &mut Connection,
    of: &Partition,
    ids: &[EntryId],
) -> Result<Vec<DeadLetter>, RedisError> {
    let mut read = pipe();
    for id in ids {
        read.cmd("XRANGE").arg(of.dead()).arg(id.in_stream()).arg(id.in_stream());
    }
    let found: Vec<Vec<(String, Fields)>> = conn.pipe(&read).await?;
    found.into_iter().flatten().map(|row| letter_of(of, row)).collect()
}

/// Number of dead letters in all partitions.
pub async fn count(conn: &mut Connection, keys: &Layout) -> Result<u64, RedisError> {
    let mut count = 0;
    for of in keys.partitions() {
        count += conn.query::<u64>(cmd("XLEN").arg(of.dead())).await?;
    }
    Ok(count)
}

/// Adds dead letters to the order stream again, each at most once even if repeated; returns how many still existed.
/// After an error, the pages replayed so far stay replayed.
pub async fn replay(
    conn: &mut Connection,
    of: &Partition,
    letters: &[&DeadLetter],
) -> Result<u64, RedisError> {
    let mut back = 0;
    for page in letters.chunks(COPIES) {
        let mut call = scripts::REPLAY.prepare_invoke();
        call.key(of.orders()).key(of.dead()).key(of.watermark());
        for letter in page {
            call.arg(letter.letter.in_stream()).arg(letter.replays.saturating_add(1));
            call.arg(write_history(&letter.history()));
        }
        back += conn.invoke::<u64>(&call).await?;
    }
    Ok(back)
}

/// Removes dead letters permanently; returns how many still existed.
pub async fn remove(
    conn: &mut Connection,
    of: &Partition,
    letters: impl IntoIterator<Item = EntryId>,
) -> Result<u64, RedisError> {
    let ids: Vec<String> = letters.into_iter().map(EntryId::in_stream).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    conn.query(cmd("XDEL").arg(of.dead()).arg(ids)).await
}

async fn page(
    conn: &mut Connection,
    of: &Partition,
    first: &str,
    last: &str,
    count: usize,
) -> Result<Vec<DeadLetter>, RedisError> {
    let mut read = cmd("XRANGE");
    read.arg(of.dead()).arg(first).arg(last).arg("COUNT").arg(count);
    let rows: Vec<(String, Fields)> = conn.query(&read).await?;
    rows.into_iter().map(|row| letter_of(of, row)).collect()
}

fn letter_of(of: &Partition, (id, fields): (String, Fields)) -> Result<DeadLetter, RedisError> {
    let letter = of.entry_id(&id)?;
    let text = |name: &str| {
        let found = fields.iter().find(|(it, _)| it == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let body: Fields = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(BODY)?.to_vec(), value.clone())))
        .collect();
    let of_body = |name: &[u8]| {
        let found = body.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
    };
    let parsed = OrderEntry::parse(
        letter,
        body.iter().map(|(name, value)| (name.as_slice(), value.as_slice())),
    );
    let (order, fault) = match parsed {
        Ok(order) => (Some(order), None),
        Err(fault) => (None, Some(fault)),
    };
    let at = text("at").and_then(|at| at.parse().ok()).map(Millis);
    Ok(DeadLetter {
        letter,
        entry: text("entry").and_then(|id| of.entry_id(&id).ok()),
        reason: Message::with_data(
            shown(&text("reason").unwrap_or_default(), MAX_REASON),
            &text("why").unwrap_or_default(),
        ),
        consumer: shown(&text("consumer").unwrap_or_default(), 100),
        deliveries: text("deliveries").and_then(|it| it.parse().ok()).unwrap_or(0),
        // A promise that never was an entry has no time, so the time of its dead letter is used.
        at: at.unwrap_or(letter.added()),
        replays: of_body(REPLAYS).parse().unwrap_or(0),
        earlier: read_history(&of_body(HISTORY)),
        order,
        fault,
        body,
    })
}
