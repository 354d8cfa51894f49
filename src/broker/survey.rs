//! One look at all that Redis holds: what a Snapshot is made of.

use super::{
    BrokerError, Layout, Link,
    nodes::Nodes,
    scripts,
    stream::{Pending, PendingRow},
};
use crate::model::{EntryId, Millis, VoucherId};

/// Redis at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// The clock of Redis.
    pub now: Millis,
    /// The order stream and its group.
    pub stream: StreamFacts,
    /// Consumers of the group.
    pub consumers: Vec<ConsumerFacts>,
    /// Nodes and when each last gave a sign of life.
    pub nodes: Nodes,
    /// A page of the pending list.
    pub page: Vec<Pending>,
    /// Figures of the sales asked for, in their order.
    pub sales: Vec<SaleFacts>,
}

/// The order stream and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// Entries in the stream.
    pub length: u64,
    /// Dead letters.
    pub dead: u64,
    /// The group exists.
    pub group: bool,
    /// Entries never delivered; `None` when Redis cannot tell.
    pub lag: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// The oldest of them.
    pub oldest_pending: Option<EntryId>,
}

/// One consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerFacts {
    /// Its name.
    pub name: String,
    /// Entries in its hands.
    pub pending: u64,
    /// Milliseconds since it last asked for entries.
    pub idle_ms: u64,
}

/// One sale as Redis holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaleFacts {
    /// Pieces ever put on sale; `None` where the sale is not loaded.
    pub initial: Option<u64>,
    /// Pieces left.
    pub stock: Option<i64>,
    /// Buyers that hold an order.
    pub buyers: u64,
    /// Requests that took a piece.
    pub admitted: u64,
    /// Requests that found nothing left.
    pub sold_out: u64,
    /// Requests of buyers who held an order already.
    pub duplicate: u64,
    /// Requests that came too early, too late or while the sale was held.
    pub rejected: u64,
}

type Reply = (
    i64,
    (u64, u64, bool, Option<u64>, u64, Option<String>),
    Vec<(String, u64, u64)>,
    Vec<(String, f64)>,
    Vec<PendingRow>,
    // What is no number there must not hide the other sales.
    Vec<(Option<String>, Option<String>, u64, u64, u64, u64, u64)>,
);

/// Looks at the stream, the group, one page of the pending list, and these sales: one round trip, one moment.
pub async fn survey(
    link: &mut Link,
    keys: &Layout,
    sales: &[VoucherId],
    page_from: EntryId,
    page_size: usize,
) -> Result<Survey, BrokerError> {
    let mut call = scripts::SURVEY.prepare_invoke();
    call.key(keys.orders()).key(keys.dead()).key(keys.nodes());
    for sale in sales {
        call.key(keys.sale(*sale)).key(keys.stock(*sale));
        call.key(keys.buyers(*sale)).key(keys.tally(*sale));
    }
    call.arg(keys.group()).arg(page_from.to_string()).arg(page_size);
    let (now, stream, consumers, nodes, page, sales): Reply = link.invoke(&call).await?;
    let (length, dead, group, lag, pending, oldest) = stream;
    Ok(Survey {
        now: Millis(now),
        stream: StreamFacts {
            length,
            dead,
            group,
            lag,
            pending,
            oldest_pending: oldest.and_then(|id| id.parse().ok()),
        },
        consumers: consumers
            .into_iter()
            .map(|(name, pending, idle_ms)| ConsumerFacts { name, pending, idle_ms })
            .collect(),
        nodes: Nodes {
            now: Millis(now),
            signs: nodes.into_iter().map(|(name, at)| (name, Millis(at as i64))).collect(),
        },
        page: page.into_iter().map(super::stream::pending_of).collect::<Result<_, _>>()?,
        sales: sales
            .into_iter()
            .map(|(initial, stock, buyers, admitted, sold_out, duplicate, rejected)| SaleFacts {
                initial: initial.and_then(|text| text.parse().ok()),
                stock: stock.and_then(|text| text.parse().ok()),
                buyers,
                admitted,
                sold_out,
                duplicate,
                rejected,
            })
            .collect(),
    })
}
