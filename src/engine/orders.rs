//! Locates an order by its ID.

use seckill_model::{
    EntryId, Message, Millis, Order, OrderEntry, OrderId, SaleOrder, UserId, VoucherId,
};
use seckill_redis::dead_letters;
use serde::Serialize;

use super::{Result, ledger, servers::Servers};

/// Location of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Location {
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
/// during the search.
pub async fn find(servers: &mut Servers, id: OrderId) -> Result<Location> {
    if let Some(order) = servers.store.order(id).await? {
        return Ok(Location::Persisted { order });
    }
    // Twice: a dead letter that is replayed during the search moves back to a place already searched.
    for of in servers.keys.partitions().chain(servers.keys.partitions()) {
        let flows = ledger::flows(servers, &of).await?;
        // It may have moved during the search.
        if let Some(order) = servers.store.order(id).await? {
            return Ok(Location::Persisted { order });
        }
        let found = |entries: &[OrderEntry]| {
            let found = entries.iter().find(|entry| entry.order == id);
            found.map(|it| (it.entry, it.user, it.voucher))
        };
        if let Some((entry, user_id, voucher_id)) = found(&flows.undelivered) {
            return Ok(Location::Undelivered { entry, user_id, voucher_id });
        }
        if let Some((entry, user_id, voucher_id)) = found(&flows.pending) {
            return Ok(Location::Pending { entry, user_id, voucher_id });
        }
        if let Some((letter, user_id, voucher_id)) = found(&flows.dead) {
            let letters = dead_letters::read(&mut servers.conn, &of, letter, 1).await?;
            let reason = letters.into_iter().next().map(|letter| letter.reason).unwrap_or_default();
            return Ok(Location::Dead { reason, user_id, voucher_id });
        }
    }
    for sale in servers.store.sales().await? {
        let buyers = ledger::buyers(servers, sale.voucher_id).await?;
        if let Some(SaleOrder { user_id, voucher_id, .. }) =
            buyers.into_iter().find(|it| it.id == id)
        {
            return Ok(Location::Lost { user_id, voucher_id });
        }
    }
    Ok(Location::Unknown)
}
