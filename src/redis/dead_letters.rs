//! Dead letters in Redis: paged reads, and scripts that add, replay and discard them.
//!
//! Dead letters are immutable: what was read of one is valid until it is removed.

use redis::{cmd, pipe};
use seckill_model::{
    EntryId, Message, Millis, OrderEntry, OrderError,
    dead_letter::{Burial, MAX_DATA, MAX_REASON, read_history, shown, write_history},
    faults::{self, Point},
};
use serde::Serialize;

use super::{
    Connection, Layout, Result,
    keys::{Partition, names_shard},
    scripts,
    stream::Fields,
};

/// Dead letters per script call, which copies each of them.
pub const COPIES: usize = 200;
/// Fields that a replay adds to an entry, for its next failure.
const REPLAYS: &[u8] = b"replays";
const HISTORY: &[u8] = b"history";
/// Prefix of the entry's own field names.
const BODY: &[u8] = b"body:";
/// Maximum number of original fields of a letter that are kept, and of characters per name and value.
const FIELDS: usize = 24;
const NAME: usize = 40;
const VALUE: usize = 240;

/// A dead letter: its position, its history, and the order it contains, if any. Texts of unknown origin are truncated
/// and free of control characters; the keys are a contract of `dead show --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// All failures of the same order, oldest first, this one last.
    pub history: Vec<Burial>,
    /// The order it contains.
    #[serde(skip)]
    pub order: Option<OrderEntry>,
    /// Why it contains no order.
    pub fault: Option<Message>,
    /// The first of its original fields, without the history.
    pub payload: Vec<(String, String)>,
    /// Number of fields omitted.
    pub fields_more: usize,
}

/// Moves pending entries to the dead letters, each with its reason; returns how many were still pending.
/// After an error, the pages moved so far stay moved.
pub async fn bury_all(
    conn: &mut Connection,
    of: &Partition,
    entries: &[(EntryId, Message)],
) -> Result<u64> {
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
) -> Result<Vec<DeadLetter>> {
    page(conn, of, &first.in_stream(), "+", count).await
}

/// One page across all reachable partitions, ordered by time, from `first` to `last` inclusive.
pub async fn page_of_all(
    conn: &mut Connection,
    keys: &Layout,
    first: EntryId,
    last: EntryId,
    count: usize,
) -> Result<Vec<DeadLetter>> {
    let mut all = Vec::new();
    for of in conn.reachable(keys) {
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
) -> Result<Vec<DeadLetter>> {
    let mut read = pipe();
    for id in ids {
        read.cmd("XRANGE").arg(of.dead()).arg(id.in_stream()).arg(id.in_stream());
    }
    let found: Vec<Vec<(String, Fields)>> = conn.pipe(&read).await?;
    found.into_iter().flatten().map(|row| letter_of(of, row)).collect()
}

/// Number of dead letters in all reachable partitions.
pub async fn count(conn: &mut Connection, keys: &Layout) -> Result<u64> {
    let mut count = 0;
    for of in conn.reachable(keys) {
        count += conn.query::<u64>(cmd("XLEN").arg(of.dead())).await?;
    }
    Ok(count)
}

/// Adds dead letters to the order stream again, each at most once even if repeated; returns how many still existed.
/// After an error, the pages replayed so far stay replayed.
pub async fn replay(conn: &mut Connection, of: &Partition, letters: &[&DeadLetter]) -> Result<u64> {
    let mut back = 0;
    for page in letters.chunks(COPIES) {
        let mut call = scripts::REPLAY.prepare_invoke();
        call.key(of.orders()).key(of.dead()).key(of.watermark());
        for letter in page {
            call.arg(letter.letter.in_stream()).arg(letter.replays.saturating_add(1));
            call.arg(write_history(&letter.history));
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
) -> Result<u64> {
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
) -> Result<Vec<DeadLetter>> {
    let mut read = cmd("XRANGE");
    read.arg(of.dead()).arg(first).arg(last).arg("COUNT").arg(count);
    let rows: Vec<(String, Fields)> = conn.query(&read).await?;
    rows.into_iter().map(|row| letter_of(of, row)).collect()
}

fn letter_of(of: &Partition, (id, fields): (String, Fields)) -> Result<DeadLetter> {
    let letter = of.entry_id(&id)?;
    let text = |name: &str| {
        let found = fields.iter().find(|(it, _)| it == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let body: Vec<(&[u8], &[u8])> = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(BODY)?, value.as_slice())))
        .collect();
    let of_body = |name: &[u8]| {
        let found = body.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
    };
    let (order, fault) = match of.parse_order(letter, body.iter().copied()) {
        Ok(order) => (Some(order), None),
        Err(fault) => (None, Some(Message::of(&OrderError::Fields(fault)))),
    };
    let at = text("at").and_then(|at| at.parse().ok()).map(Millis);
    // A promise that never was an entry has no time, so the time of its dead letter is used.
    let at = at.unwrap_or(letter.added());
    let reason = Message::with_data(
        shown(&text("reason").unwrap_or_default(), MAX_REASON),
        &text("why").unwrap_or_default(),
    );
    let is_former = !names_shard(body.iter().copied());
    let reason = if is_former { with_voucher_sold(of, reason) } else { reason };
    let consumer = shown(&text("consumer").unwrap_or_default(), 100);
    let deliveries = text("deliveries").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut history = read_history(&of_body(HISTORY));
    history.push(Burial { at, consumer: consumer.clone(), deliveries, reason: reason.clone() });
    let others = body.iter().filter(|(name, _)| *name != HISTORY);
    let payload: Vec<(String, String)> = others
        .clone()
        .take(FIELDS)
        .map(|(name, value)| (bounded(name, NAME), bounded(value, VALUE)))
        .collect();
    Ok(DeadLetter {
        letter,
        entry: text("entry").and_then(|id| of.entry_id(&id).ok()),
        reason,
        consumer,
        deliveries,
        at,
        replays: of_body(REPLAYS).parse().unwrap_or(0),
        history,
        order,
        fault,
        fields_more: others.count().saturating_sub(payload.len()),
        payload,
    })
}

/// Names the voucher that was sold where an earlier version named one of its shards.
fn with_voucher_sold(of: &Partition, reason: Message) -> Message {
    let Some(mut why) = reason.data::<OrderError>() else { return reason };
    match why.voucher_mut() {
        Some(voucher) if of.sold(*voucher) != *voucher => {
            *voucher = of.sold(*voucher);
            Message::of(&why)
        }
        _ => reason,
    }
}

fn bounded(raw: &[u8], most: usize) -> String {
    // A character has at most four bytes; one extra character marks a truncated value.
    let cut = raw.get(..(most + 1) * 4).unwrap_or(raw);
    shown(&String::from_utf8_lossy(cut), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_data_is_bounded_and_free_of_control_characters() {
        let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let mut fields = vec![
            field("at", "1000"),
            field("body:history", r#"[1,"n/1",1,"x",null]"#),
            field("body:a\x1b[2J", &"火".repeat(100_000)),
        ];
        fields.extend((0..60).map(|number| field(&format!("body:{number}"), "v")));
        fields.push((b"body:\xff\xfe".to_vec(), vec![0xff; 1_000]));
        let of = Layout::default().home();
        let letter = letter_of(&of, ("5-0".to_owned(), fields)).unwrap();
        assert_eq!((letter.at, letter.history.len()), (Millis(1_000), 2));
        assert_eq!((letter.payload.len(), letter.fields_more), (FIELDS, 62 - FIELDS));
        let (name, value) = &letter.payload[0];
        assert_eq!((name.as_str(), value.chars().count()), ("a·[2J", VALUE + 1));
        assert!(value.ends_with('…'));
    }
}
