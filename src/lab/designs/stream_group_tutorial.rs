//! Text 000, section 12.6 (and 004): a consumer group, as printed there.
//!
//! The faults: the group begins at `$`, so it never gets the entries before it. The consumer acknowledges in the stream
//! `s1` instead of `stream.orders`, so every entry stays pending. After a restart it reads new entries only, and the one
//! that it had is forgotten. After an exception it handles the pending list until that is empty, which it never is:
//! from the first poison entry on, no order is written.

use redis::cmd;

use super::{prelude::*, queue};
use crate::{
    consumer::{BLOCK, Consumer},
    entry::Entry,
};

/// Every instance is this consumer.
const CONSUMER: &str = "c1";

pub(super) const DESIGN: Design = Design {
    name: "stream-group-tutorial",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.6" },
    faults: &[
        Fault::loses(Incident::NoSubscriber),
        Fault::loses(Incident::ConsumerDies),
        Fault::loses(Incident::Poison),
    ],
    mended_by: Some("stream-group-repaired"),
    why: Label("lab-why-stream-group-tutorial"),
    not_on: &[],
    schema: &[],
    serve: |lane| queue::admit_and_add(lane).boxed(),
    consumer: Some(Consumer::Process {
        start: |lane| queue::create_group(lane, "$").boxed(),
        run: |lane| run(lane).boxed(),
        poison: queue::poison,
    }),
};

/// `VoucherOrderHandler`
async fn run(lane: &mut Lane<'_>) -> Result<()> {
    loop {
        // 1. XREADGROUP GROUP g1 c1 COUNT 1 BLOCK 2000 STREAMS stream.orders >
        let read = queue::read_group(CONSUMER, Some(BLOCK), ">");
        // 2. Is there an entry?
        let Some(entry) = lane.receive(&read, Entry::delivered).await? else { continue };
        if let Err(error) = handle(lane, &entry).await {
            tracing::warn!(%error, "order failed");
            handle_pending_list(lane).await?;
        }
    }
}

/// 3. Create the order. 4. Acknowledge.
async fn handle(lane: &mut Lane<'_>, entry: &Entry) -> Result<()> {
    queue::handle_voucher_order(lane, entry.order()?).await?;
    // opsForStream().acknowledge("s1", "g1", record.getId())
    let _: i64 = lane.redis(cmd("XACK").arg("s1").arg(queue::GROUP).arg(&entry.id)).await?;
    Ok(())
}

async fn handle_pending_list(lane: &mut Lane<'_>) -> Result<()> {
    loop {
        // 1. XREADGROUP GROUP g1 c1 COUNT 1 STREAMS stream.orders 0
        let read = queue::read_group(CONSUMER, None, "0");
        // 2. Without one, the list is done.
        let Some(entry) = lane.receive(&read, Entry::delivered).await? else { return Ok(()) };
        if let Err(error) = handle(lane, &entry).await {
            tracing::warn!(%error, "pending order failed");
            // Thread.sleep(20)
            lane.think().await;
        }
    }
}
