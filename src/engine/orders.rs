//! Locates an order by its ID.

use redis::cmd;
use seckill_model::{EntryId, Message, Millis, Order, OrderId, Place, UserId, VoucherId};
use seckill_redis::{Connection, Layout, dead_letters, lossy_utf8::Text};
use seckill_store::SharedStore;
use serde::Serialize;

use super::{EngineError, ledger};

/// Location of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Standing {
    /// In SQL.
    Persisted {
        /// The row.
        order: Order,
    },
    /// In the stream, not delivered yet.
    Undelivered {
        /// Its entry.
        entry: EntryId,
        /// The buyer.
        user_id: UserId,
        /// The voucher.
        voucher_id: VoucherId,
    },
    /// Delivered and not acknowledged.
    Pending {
        /// Its entry.
        entry: EntryId,
        /// The buyer.
        user_id: UserId,
        /// The voucher.
        voucher_id: VoucherId,
    },
    /// A dead letter.
    Dead {
        /// The reason.
        reason: Message,
        /// The buyer.
        user_id: UserId,
        /// The voucher.
        voucher_id: VoucherId,
    },
    /// Held by a buyer in Redis, and missing elsewhere: the audit reports it.
    Lost {
        /// The buyer.
        user_id: UserId,
        /// The voucher.
        voucher_id: VoucherId,
    },
    /// Not found: this ID was never given to a buyer.
    Unknown,
}

/// The parts of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// Second in which it was issued.
    pub issued: Millis,
    /// Number within its UTC day.
    pub sequence: u32,
    /// The issuer's UTC day.
    pub day: jiff::civil::Date,
}

/// Parses an ID.
pub fn decode(id: OrderId) -> Decoded {
    Decoded { issued: Millis(id.unix_seconds() * 1_000), sequence: id.sequence(), day: id.day() }
}

/// Searches the places through which an order moves, and SQL once more at the end, since it may have moved on
/// meanwhile.
///
/// # Errors
/// A server is unreachable, so the location is unknown.
pub async fn find(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    id: OrderId,
) -> Result<Standing, EngineError> {
    if let Some(order) = store.order(id).await? {
        return Ok(Standing::Persisted { order });
    }
    // Twice: a dead letter that is replayed meanwhile moves back to a place already searched.
    for of in keys.partitions().chain(keys.partitions()) {
        let flows = ledger::flows(conn, &of).await?;
        // It may have moved on during the search.
        if let Some(order) = store.order(id).await? {
            return Ok(Standing::Persisted { order });
        }
        if let Some(e) = flows.undelivered.iter().find(|entry| entry.order == id) {
            let (user_id, voucher_id) = (e.user, e.voucher);
            return Ok(Standing::Undelivered { entry: e.entry, user_id, voucher_id });
        }
        if let Some(e) = flows.pending.iter().find(|entry| entry.order == id) {
            let (user_id, voucher_id) = (e.user, e.voucher);
            return Ok(Standing::Pending { entry: e.entry, user_id, voucher_id });
        }
        if let Some(e) = flows.dead.iter().find(|entry| entry.order == id) {
            let letter = dead_letters::read(conn, &of, e.entry, 1).await?.into_iter().next();
            let reason = letter.map(|letter| letter.reason).unwrap_or_default();
            return Ok(Standing::Dead { reason, user_id: e.user, voucher_id: e.voucher });
        }
    }
    for sale in store.sales().await? {
        if let Some(user_id) = holder(conn, keys, sale.voucher_id, id).await? {
            return Ok(Standing::Lost { user_id, voucher_id: sale.voucher_id });
        }
    }
    Ok(Standing::Unknown)
}

async fn holder(
    conn: &mut Connection,
    keys: &Layout,
    voucher: VoucherId,
    id: OrderId,
) -> Result<Option<UserId>, EngineError> {
    let wanted = id.to_string();
    let mut cursor = 0u64;
    loop {
        let mut scan = cmd("HSCAN");
        scan.arg(keys.buyers(voucher)).arg(cursor).arg("COUNT").arg(1_000);
        let (next, page): (u64, Vec<(Text, Text)>) = conn.query(&scan).await?;
        if let Some((Text(place), _)) = page.into_iter().find(|(_, order)| order.0 == wanted) {
            return Ok(place.parse().ok().map(|place: Place| place.user));
        }
        cursor = next;
        if cursor == 0 {
            return Ok(None);
        }
    }
}
