//! Text 000, section 12.4 (and 004): `XREAD COUNT 1 BLOCK 2000 STREAMS stream.orders $` in a loop.
//!
//! The fault: `$` is the end of the stream at the time of the call. Entries that arrived while the last one was processed
//! are never read.

use redis::cmd;

use super::{prelude::*, queue};
use crate::{
    consumer::{BLOCK, Consumer},
    entry::Entry,
};

pub(super) const DESIGN: Design = Design {
    name: "stream-read-$",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.4" },
    faults: &[Fault::always(Promise::NoLoss)],
    mended_by: Some("stream-group-repaired"),
    why: Label("lab-why-stream-read-dollar"),
    not_on: &[],
    schema: &[],
    serve: |lane| queue::admit_and_add(lane).boxed(),
    consumer: Some(Consumer::Process {
        start: |_| async { Ok(()) }.boxed(),
        run: |lane| run(lane).boxed(),
        poison: queue::poison,
    }),
};

async fn run(lane: &mut Lane<'_>) -> Result<()> {
    let mut read = cmd("XREAD");
    read.arg("COUNT").arg(1).arg("BLOCK").arg(BLOCK.as_millis() as u64);
    read.arg("STREAMS").arg(queue::STREAM).arg("$");
    loop {
        let Some(entry) = lane.receive(&read, Entry::delivered).await? else { continue };
        let handled = match entry.order() {
            Ok(order) => queue::handle_voucher_order(lane, order).await,
            Err(error) => Err(error),
        };
        if let Err(error) = handled {
            tracing::warn!(%error, "order failed");
        }
    }
}
