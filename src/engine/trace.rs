//! One order followed through the places that it passes: its buyer in Redis, the stream, a consumer, SQL.
//!
//! It is asked for by a person and reads a bounded part of the stream; nothing is changed by it.

use redis::cmd;
use seckill_model::{EntryId, Millis, OrderId, Place, UserId, VoucherId};
use seckill_redis::{
    Layout, Link,
    entries::{self, Holding},
    keys::Partition,
    stream,
};
use seckill_store::SharedStore;

use super::{
    EngineError,
    orders::{self, Standing},
};

/// Entries in one look, and looks at most: a second or two of a server that does nothing else.
const PAGE: usize = 1_000;
const PAGES: usize = 300;
/// An entry is added within so many milliseconds of the second that its id tells: clocks differ a little, and a batch
/// may wait.
const BEFORE_MS: i64 = 2_000;
const AFTER_MS: i64 = 30_000;

/// What is known of an order's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The order.
    pub id: OrderId,
    /// Where it stands.
    pub standing: Standing,
    /// Which partition it went through; `None` where there is only one, or where nobody knows what was bought.
    pub partition: Option<u16>,
    /// Whether its buyer holds it in Redis; `None` where nobody knows who bought.
    pub held: Option<bool>,
    /// Its entry in the stream; `None` where none was found near the time that the id tells.
    pub entry: Option<(EntryId, Holding)>,
    /// More entries stand near that time than were looked at: it may be one of them.
    pub more: bool,
    /// When it was last delivered, by the clock of Redis, which tells it only while it is pending.
    pub delivered: Option<Millis>,
}

/// Follows an order.
///
/// # Errors
/// A server is away, so nobody can tell.
pub async fn follow(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    id: OrderId,
) -> Result<Trace, EngineError> {
    let standing = orders::find(store, link, keys, id).await?;
    let mut trace = Trace {
        id,
        standing,
        partition: None,
        held: None,
        entry: None,
        more: false,
        delivered: None,
    };
    let Some((seat, voucher)) = bought(&trace.standing) else { return Ok(trace) };
    let of = keys.partition_of(voucher);
    trace.partition = (keys.count() > 1).then(|| of.number());
    let mut read = cmd("HGET");
    read.arg(keys.buyers(voucher)).arg(seat.to_string());
    let held: Option<String> = link.query(&read).await?;
    trace.held = Some(held.and_then(|it| it.parse().ok()) == Some(id));
    let entry = match trace.standing {
        Standing::Undelivered { entry, .. } | Standing::Pending { entry, .. } => Some(entry),
        Standing::Persisted { .. } => match near(link, &of, id).await? {
            Near::Found(entry) => Some(entry),
            Near::None => None,
            Near::More => {
                trace.more = true;
                None
            }
        },
        Standing::Dead { .. } | Standing::Lost { .. } | Standing::Unknown => None,
    };
    if let Some(entry) = entry {
        let window = entries::window(link, &of, entry.next(), 1).await?;
        let seen = window.entries.into_iter().find(|seen| seen.delivered.entry == entry);
        trace.entry = seen.map(|seen| (entry, seen.holding));
        if let Some((_, Holding::Pending { idle_ms, .. })) = &trace.entry {
            let now = link.now_at(&of.orders()).await?;
            trace.delivered = Some(now.plus(-i64::try_from(*idle_ms).unwrap_or(i64::MAX)));
        }
    }
    Ok(trace)
}

/// Who bought what.
fn bought(standing: &Standing) -> Option<(Place, VoucherId)> {
    // Only SQL tells the place; others are asked for as the first one.
    let first = |user: &UserId| Place { user: *user, number: 1 };
    match standing {
        // That of an ordinary voucher went through nothing but SQL.
        Standing::Persisted { order } => {
            Some((Place { user: order.user_id, number: order.place? }, order.voucher_id))
        }
        Standing::Undelivered { user_id, voucher_id, .. }
        | Standing::Pending { user_id, voucher_id, .. }
        | Standing::Dead { user_id, voucher_id, .. }
        | Standing::Lost { user_id, voucher_id } => Some((first(user_id), *voucher_id)),
        Standing::Unknown => None,
    }
}

/// What stands near the second in which an id was made.
enum Near {
    Found(EntryId),
    None,
    /// More than is looked at.
    More,
}

/// The entry of an order. Most are added within their second, so that one is looked through before what is around it.
async fn near(link: &mut Link, of: &Partition, id: OrderId) -> Result<Near, EngineError> {
    let issued = orders::decode(id).issued;
    let millis = |by: i64| u64::try_from(issued.plus(by).0).unwrap_or(0);
    let mut pages = 0;
    for (first, end) in [(0, AFTER_MS), (-BEFORE_MS, 0)] {
        let mut next = Some(EntryId { millis: millis(first), number: 0, partition: of.number() });
        while let Some(from) = next {
            if pages == PAGES {
                return Ok(Near::More);
            }
            pages += 1;
            let page = stream::range(link, of, from, PAGE).await?;
            let hit = page.iter().find(|it| it.order().is_some_and(|order| order.order == id));
            if let Some(hit) = hit {
                return Ok(Near::Found(hit.entry));
            }
            match page.last() {
                Some(last) if page.len() == PAGE && last.entry.millis <= millis(end) => {
                    next = last.entry.next();
                }
                _ => break,
            }
        }
    }
    Ok(Near::None)
}
