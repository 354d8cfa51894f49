//! Orders and what is sold: IDs, vouchers and sales, payment, traces. This file locates an order by its ID.

pub mod ids;
pub mod payment;
pub mod trace;
pub mod vouchers;

use redis::pipe;
use seckill_model::{
    EntryId, Message, Millis, Order, OrderEntry, OrderId, Place, SaleOrder, ShardId, UserId,
    VoucherId,
};
use seckill_redis::{dead_letters, keys::Partition};
use serde::Serialize;

use crate::{
    EngineError, Result, deployment::servers::Servers, ledger, recovery::reconcile::is_reconciled,
};

/// Dead letters per read of [`progress`].
const LETTERS: usize = 100;
/// How much earlier than the time in an order ID its dead letter may have been added: that of an earlier version is
/// dated by the clock of a node, the letter by that of Redis.
const CLOCKS_DIFFER_MS: i64 = 3_600_000;

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
        if let Some(order) = flows.dead.into_iter().find(|it| it.order == id) {
            return dead(servers, &of, order).await;
        }
    }
    // Also those of sales that SQL has lost.
    let sales = ledger::all_sales(servers).await?;
    for sale in sales.shards {
        let buyers = ledger::buyers(servers, sale.id).await?;
        if let Some(SaleOrder { user_id, voucher_id, .. }) =
            buyers.into_iter().find(|it| it.id == id)
        {
            return Ok(Location::Lost { user_id, voucher_id });
        }
    }
    for of in servers.keys.partitions() {
        let letters = ledger::never_promised(&mut servers.conn, &of).await?;
        if let Some(order) = letters.into_iter().find(|it| it.order == id) {
            return dead(servers, &of, order).await;
        }
    }
    // It may be an order of a sale that cannot be read.
    sales.unreadable.into_iter().next().map_or(Ok(Location::Unknown), |sale| Err(sale.why.into()))
}

/// The location of an order in a dead letter.
async fn dead(servers: &mut Servers, of: &Partition, order: OrderEntry) -> Result<Location> {
    let letters = dead_letters::read(&mut servers.conn, of, order.entry, 1).await?;
    let reason = letters.into_iter().next().map(|letter| letter.reason).unwrap_or_default();
    Ok(Location::Dead { reason, user_id: order.user, voucher_id: order.voucher })
}

/// What has become of an order, as its buyer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// In SQL.
    Persisted(Order),
    /// Admitted, and not in SQL yet.
    Queued,
    /// A dead letter, which waits for the operator.
    Dead,
    /// This user has no such order.
    Unknown,
}

/// Looks up an order of `user` from the moment of its admission on. Unlike [`find`], it reads no streams, so its cost
/// does not depend on the number of orders in flight. The shards that SQL has `lost`, with
/// the maximum number of orders a user, are searched as well: Redis has their buyers.
///
/// # Errors
/// Besides those of the servers, [`EngineError::Reconciling`] while Redis may have lost the buyer: no order that was
/// promised is reported as unknown.
pub async fn progress(
    servers: &mut Servers,
    id: OrderId,
    user: UserId,
    lost: Vec<(ShardId, u8)>,
) -> Result<Progress> {
    if let Some(order) = servers.store.order(id).await? {
        return Ok(of_buyer(order, user));
    }
    let of = servers.keys.partition_of_order(id);
    let is_held = is_held(servers, &of, id, user, lost).await;
    if !matches!(is_held, Ok(true)) {
        // It may have been written, and closed, since the first look.
        if let Some(order) = servers.store.order(id).await? {
            return Ok(of_buyer(order, user));
        }
    }
    if is_dead(servers, &of, id, user).await? {
        return Ok(Progress::Dead);
    }
    Ok(if is_held? { Progress::Queued } else { Progress::Unknown })
}

fn of_buyer(order: Order, user: UserId) -> Progress {
    if order.user_id == user { Progress::Persisted(order) } else { Progress::Unknown }
}

/// Whether the user holds the order in one of the sales of a partition, by Redis.
async fn is_held(
    servers: &mut Servers,
    of: &Partition,
    id: OrderId,
    user: UserId,
    mut lost: Vec<(ShardId, u8)>,
) -> Result<bool> {
    lost.retain(|(shard, _)| servers.keys.partition_of(*shard) == *of);
    let sales = servers.sales_of(of).await?.into_iter();
    let sales: Vec<(ShardId, u8)> = sales.map(|sale| (sale.id, sale.limit)).chain(lost).collect();
    let mut read = pipe();
    for (shard, limit) in &sales {
        let buyers = read.cmd("HMGET").arg(servers.keys.buyers(*shard)).arg("seq");
        for number in 1..=*limit {
            buyers.arg(Place { user, number }.to_string());
        }
    }
    let held: Vec<Vec<Option<String>>> =
        if sales.is_empty() { Vec::new() } else { servers.conn.pipe(&read).await? };
    let id = id.to_string();
    if held.iter().any(|sale| sale.iter().skip(1).flatten().any(|it| *it == id)) {
        return Ok(true);
    }
    let lost = held.iter().zip(&sales).find(|(held, _)| held.first().is_none_or(Option::is_none));
    if let Some((_, (shard, _))) = lost {
        return Err(EngineError::Reconciling(servers.keys.buyers(*shard)));
    }
    let reconciled = of.reconciled();
    let run = servers.conn.run_id(&reconciled).await?;
    if is_reconciled(&mut servers.conn, of, &run).await? {
        Ok(false)
    } else {
        Err(EngineError::Reconciling(reconciled))
    }
}

/// Whether a dead letter of a partition contains the order of this user.
async fn is_dead(servers: &mut Servers, of: &Partition, id: OrderId, user: UserId) -> Result<bool> {
    let issued = decode(id).issued.plus(-CLOCKS_DIFFER_MS);
    let mut next = Some(EntryId::first_of(issued));
    while let Some(from) = next {
        let page = dead_letters::read(&mut servers.conn, of, from, LETTERS).await?;
        let mut orders = page.iter().filter_map(|letter| letter.order.as_ref());
        if orders.any(|it| it.order == id && it.user == user) {
            return Ok(true);
        }
        next = page.last().and_then(|last| last.letter.next());
    }
    Ok(false)
}
