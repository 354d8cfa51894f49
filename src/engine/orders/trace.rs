//! Traces an order through the system: its buyer in Redis, the stream, a consumer, SQL.
//!
//! It runs on request, reads a bounded part of the stream, and changes nothing.

use seckill_model::{EntryId, Millis, OrderId, Place, UserId, VoucherId};
use seckill_redis::{
    Connection,
    entries::{self, DeliveryState},
    keys::Partition,
    stream,
};
use seckill_store::StoreError;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    orders::{self, Location},
};

/// Entries per read, and maximum number of reads: a second or two of an idle server.
const PAGE: usize = 1_000;
const PAGES: usize = 300;
/// An entry is added within this many milliseconds of the second in its ID: clocks differ slightly, and a batch may
/// wait.
const BEFORE_MS: i64 = 2_000;
const AFTER_MS: i64 = 30_000;

/// The trace of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The order.
    pub id: OrderId,
    /// Its location.
    pub location: Location,
    /// Its partition; `None` if there is only one, or if the voucher is unknown.
    pub partition: Option<u16>,
    /// Whether its buyer holds it in Redis; `None` if the buyer is unknown.
    pub held: Option<bool>,
    /// Its place among the orders of its buyer: by SQL, otherwise where the buyer holds it in Redis.
    pub place: Option<u8>,
    /// Its entry in the stream; `None` if none was found near the time in its ID.
    pub entry: Option<(EntryId, DeliveryState)>,
    /// There are more entries near that time than were read: it may be one of them.
    pub more: bool,
    /// Its last delivery by the clock of Redis, known only while it is pending.
    pub delivered: Option<Millis>,
}

/// Traces an order.
pub async fn follow(servers: &mut Servers, id: OrderId) -> Result<Trace> {
    let location = orders::find(servers, id).await?;
    let bought = bought(&location);
    let mut trace = Trace {
        id,
        location,
        partition: None,
        held: None,
        place: None,
        entry: None,
        more: false,
        delivered: None,
    };
    let Some((user, voucher, place)) = bought else { return Ok(trace) };
    let shard = match servers.shard_of(voucher, user).await {
        // Of an entry of another program, or of a sale that SQL has lost: it may have been sold by any shard.
        Err(EngineError::Store(StoreError::NoSale(_))) => return unsold(servers, trace).await,
        shard => shard?,
    };
    let of = servers.keys.partition_of(shard);
    trace.partition = (servers.keys.count() > 1).then(|| of.number());
    // Only SQL knows the place; another order may be at any, whatever the limit is by now.
    let numbers = place.map_or(1..=u8::MAX, |place| place..=place);
    let places = numbers.clone().map(|number| Place { user, number });
    let held = servers.held(shard, places).await?;
    let at = numbers.zip(held).find_map(|(number, held)| (held == Some(id)).then_some(number));
    (trace.held, trace.place) = (Some(at.is_some()), place.or(at));
    let entry = match trace.location {
        Location::Undelivered { entry, .. } | Location::Pending { entry, .. } => Some(entry),
        Location::Persisted { ref order } => {
            // The clock of the IDs may have been ahead of that of Redis, which dates the entries.
            let mut entry = None;
            for at in [orders::decode(id).issued, order.create_time.plus(-BEFORE_MS)] {
                if entry.is_none() && !trace.more {
                    (entry, trace.more) = near(&mut servers.conn, &of, id, at).await?;
                }
            }
            entry
        }
        Location::Dead { .. } | Location::Lost { .. } | Location::Unknown => None,
    };
    if let Some(entry) = entry {
        look_up(servers, &mut trace, entry).await?;
    }
    Ok(trace)
}

/// The trace of an order of which SQL does not have the sale: where its entry is.
async fn unsold(servers: &mut Servers, mut trace: Trace) -> Result<Trace> {
    if let Location::Undelivered { entry, .. } | Location::Pending { entry, .. } = trace.location {
        trace.partition = (servers.keys.count() > 1).then_some(entry.partition);
        look_up(servers, &mut trace, entry).await?;
    }
    Ok(trace)
}

/// Adds who holds the entry of an order.
async fn look_up(servers: &mut Servers, trace: &mut Trace, entry: EntryId) -> Result<()> {
    let of = servers.keys.partition(entry.partition);
    let window = entries::window(&mut servers.conn, &of, entry.next(), 1).await?;
    let seen = window.entries.into_iter().find(|seen| seen.delivered.entry == entry);
    trace.entry = seen.map(|seen| (entry, seen.holding));
    if let Some((_, DeliveryState::Pending { idle_ms, .. })) = &trace.entry {
        let now = servers.conn.now_at(&of.orders()).await?;
        trace.delivered = Some(now.plus(-i64::try_from(*idle_ms).unwrap_or(i64::MAX)));
    }
    Ok(())
}

/// The buyer, the voucher, and the place by SQL.
fn bought(location: &Location) -> Option<(UserId, VoucherId, Option<u8>)> {
    match location {
        // An order of an ordinary voucher exists only in SQL.
        Location::Persisted { order } => {
            Some((order.user_id, order.voucher_id, Some(order.place?)))
        }
        Location::Undelivered { user_id, voucher_id, .. }
        | Location::Pending { user_id, voucher_id, .. }
        | Location::Dead { user_id, voucher_id, .. }
        | Location::Lost { user_id, voucher_id } => Some((*user_id, *voucher_id, None)),
        Location::Unknown => None,
    }
}

/// Finds the entry of an order near the second that begins at `at`, and returns whether there are more entries than were
/// read. Most entries are added within that second, so it is read before its surroundings.
async fn near(
    conn: &mut Connection,
    of: &Partition,
    id: OrderId,
    at: Millis,
) -> Result<(Option<EntryId>, bool)> {
    let mut pages = 0;
    for (first, end) in [(0, AFTER_MS), (-BEFORE_MS, 0)] {
        let mut next =
            Some(EntryId { partition: of.number(), ..EntryId::first_of(at.plus(first)) });
        while let Some(from) = next {
            if pages == PAGES {
                return Ok((None, true));
            }
            pages += 1;
            let page = stream::range(conn, of, from, PAGE).await?;
            let hit = page.iter().find(|it| it.order().is_some_and(|order| order.order == id));
            if let Some(hit) = hit {
                return Ok((Some(hit.entry), false));
            }
            match page.last() {
                Some(last) if page.len() == PAGE && last.entry.added() <= at.plus(end) => {
                    next = last.entry.next();
                }
                _ => break,
            }
        }
    }
    Ok((None, false))
}
