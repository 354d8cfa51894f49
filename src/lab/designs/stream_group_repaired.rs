//! Text 000, section 12.6, repaired: the consumer group without the faults of `stream-group-tutorial`.
//!
//! The group begins at the first entry. The consumer begins with the entries that it had before it died, acknowledges in
//! the right stream after the commit, and puts what is no order aside. A unique index rejects an order that was written
//! before and not acknowledged; it replaces the lock, which a consumer that died would still hold.

use redis::cmd;

use super::{prelude::*, queue};
use crate::{
    consumer::{BLOCK, Consumer},
    entry::Entry,
};

/// Its name survives a restart; each consumer has its own.
const CONSUMER: &str = "consumer-1";
/// Entries that are no orders, for the operator.
const DEAD: &str = "stream.dead";

pub(super) const DESIGN: Design = Design {
    name: "stream-group-repaired",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.6" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-stream-group-repaired"),
    not_on: &[],
    schema: &["CREATE UNIQUE INDEX uk_user_voucher ON tb_voucher_order (user_id, voucher_id)"],
    serve: |lane| queue::admit_and_add(lane).boxed(),
    consumer: Some(Consumer::Process {
        start: |lane| queue::create_group(lane, "0").boxed(),
        run: |lane| run(lane).boxed(),
        poison: queue::poison,
    }),
};

async fn run(lane: &mut Lane<'_>) -> Result<()> {
    // Its own pending entries first, then new ones.
    let mut from = "0";
    loop {
        let read = queue::read_group(CONSUMER, (from == ">").then_some(BLOCK), from);
        let Some(entry) = lane.receive(&read, Entry::delivered).await? else {
            from = ">";
            continue;
        };
        if let Err(error) = handle(lane, &entry).await {
            tracing::warn!(%error, "order failed; it stays pending and is read again");
            from = "0";
        }
    }
}

async fn handle(lane: &mut Lane<'_>, entry: &Entry) -> Result<()> {
    match entry.order {
        Some(order) => {
            // An order that is there already was committed before the consumer died.
            queue::create_voucher_order(lane, order).await?;
        }
        None => {
            let _: String = lane.redis(cmd("XADD").arg(DEAD).arg("*").arg("id").arg(&entry.id)).await?;
        }
    }
    lane.think().await;
    // After the commit.
    let _: i64 = lane.redis(cmd("XACK").arg(queue::STREAM).arg(queue::GROUP).arg(&entry.id)).await?;
    Ok(())
}
